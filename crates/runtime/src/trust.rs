//! What the user trusts: files of a project that drivetrain acts on, by their content.
//!
//! A project's files come from whoever wrote the project. None that can make drivetrain start something is
//! interpreted before the user has seen it and said yes. The record is in drivetrain's own home, outside every
//! project, and names the folder by its real path and each file by its real path and hash: a file that has changed is
//! asked about again, and a project elsewhere gets nothing from it.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use machine::time::Timestamp;
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

use crate::home::Home;
use crate::lock::FileLock;
use crate::sandbox::{self, masks};
use crate::sha256;

/// The record, in the home.
const RECORD: &str = "trust.json";
const LOCK: &str = "trust.lock";

/// The largest record that is read.
const MAX_RECORD: u64 = 16 << 20;

/// A file of a project as it was read: what is trusted, hashed and interpreted are the same bytes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Seen {
    /// Its real path.
    pub path: PathBuf,
    /// SHA-256 of its content, in hex.
    pub sha256: String,
}

/// How the files of a folder stand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TrustState {
    /// Every file is trusted as it is; so it is if there is none.
    Trusted,
    /// These are not.
    Untrusted {
        /// Files that were never trusted in this folder.
        new: Vec<PathBuf>,
        /// Files that were trusted with another content.
        changed: Vec<PathBuf>,
    },
}

/// What is trusted, as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    v: u32,
    #[serde(default)]
    folders: BTreeMap<String, Trusted>,
}

/// What is trusted in one folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trusted {
    /// When that was said, in milliseconds since the epoch.
    pub time: i64,
    /// The files by their real paths, with the SHA-256 of each.
    pub files: BTreeMap<String, String>,
}

/// The folder that trust is about: the root of the repository that `folder` is in, else the folder itself; its real
/// path.
pub fn root(folder: &Path) -> Result<PathBuf, String> {
    let real = fs::canonicalize(folder)
        .map_err(|error| format!("the folder {} cannot be used: {error}", folder.display()))?;
    let found = sandbox::git::top(&real);
    Ok(found.map(Path::to_owned).unwrap_or(real))
}

/// The root of the repository that a linked worktree belongs to. A worktree only says so of itself in its `.git` file,
/// and anybody can write such a file: the repository must name the worktree too, in a folder of its own `.git`. All of
/// it is read as data.
fn main_of(root: &Path) -> Option<PathBuf> {
    let link = root.join(".git");
    if !fs::symlink_metadata(&link).ok()?.is_file() {
        return None;
    }
    let said = read_line(&link)?;
    let entry = fs::canonicalize(root.join(said.strip_prefix("gitdir: ")?)).ok()?;
    let worktrees = entry.parent().filter(|parent| parent.ends_with("worktrees"))?;
    let repository = worktrees.parent().filter(|parent| parent.ends_with(".git"))?;
    let points_back = fs::canonicalize(entry.join(read_line(&entry.join("gitdir"))?)).ok()?;
    let common = fs::canonicalize(entry.join(read_line(&entry.join("commondir"))?)).ok()?;
    let mutual = points_back == fs::canonicalize(&link).ok()? && common == repository;
    repository.parent().filter(|_| mutual).map(Path::to_owned)
}

/// The one line of a small file.
fn read_line(path: &Path) -> Option<String> {
    let mut text = String::new();
    File::open(path).ok()?.take(8 << 10).read_to_string(&mut text).ok()?;
    Some(text.trim_end_matches('\n').to_owned()).filter(|line| !line.contains('\n'))
}

/// A file as it is, opened once: what is hashed is what is interpreted. None if there is no such file.
pub fn read_file(path: &Path, most: u64) -> Result<Option<(Seen, Vec<u8>)>, String> {
    // What a sandbox put there in the place of a file that is absent.
    if masks::stands_in(path) {
        return Ok(None);
    }
    let failed = |error: io::Error| error.to_string();
    if !path.is_file() {
        return Ok(None);
    }
    let real = fs::canonicalize(path).map_err(failed)?;
    let file = open(&real, OFlags::empty()).map_err(failed)?;
    content(file, real, most)
}

/// The same for a file of a folder whose real path is known, which need not be found out again for each of its files.
pub fn read_within(
    folder: &Path,
    name: &OsStr,
    most: u64,
) -> Result<Option<(Seen, Vec<u8>)>, String> {
    let path = folder.join(name);
    match open(&path, OFlags::NOFOLLOW) {
        Ok(file) => content(file, path, most),
        // A link lies elsewhere; whatever else is wrong is said there.
        Err(_) => read_file(&path, most),
    }
}

/// A pipe put in a file's place must not hold us up.
fn open(path: &Path, more: OFlags) -> io::Result<File> {
    let flags = (OFlags::NONBLOCK | more).bits().cast_signed();
    OpenOptions::new().read(true).custom_flags(flags).open(path)
}

fn content(file: File, real: PathBuf, most: u64) -> Result<Option<(Seen, Vec<u8>)>, String> {
    let failed = |error: io::Error| error.to_string();
    let data = file.metadata().map_err(failed)?;
    if !data.is_file() {
        return Ok(None);
    }
    let expected = usize::try_from(data.len().min(most)).unwrap_or_default();
    let mut bytes = Vec::with_capacity(expected + 1);
    file.take(most + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > most {
        return Err(format!("it is larger than {most} bytes"));
    }
    let sha256 = hash(&bytes);
    Ok(Some((Seen { path: real, sha256 }, bytes)))
}

/// The hash that the record names.
pub fn hash(bytes: &[u8]) -> String {
    sha256::of(bytes)
}

/// Whether these files of a folder are trusted as they are: by the record of the folder, by that of the repository whose
/// worktree it is, where the same file stands in the same place, or by this process's own word.
pub fn state(home: &Home, folder: &Path, files: &[Seen]) -> Result<TrustState, String> {
    let record = read(home)?;
    let root = root(folder)?;
    let trusted = record.folders.get(&text(&root)?);
    let main = main_of(&root);
    let of_main = main.as_ref().and_then(|main| Some((main, record.folders.get(main.to_str()?)?)));
    let in_main = |file: &Seen| {
        let (main, trusted) = of_main?;
        trusted.files.get(main.join(file.path.strip_prefix(&root).ok()?).to_str()?)
    };
    let granted_in_main = |file: &Seen| {
        let rest = file.path.strip_prefix(&root).ok();
        main.as_ref().zip(rest).is_some_and(|(main, rest)| {
            granted(&Seen { path: main.join(rest), sha256: file.sha256.clone() })
        })
    };
    let (mut new, mut changed) = (Vec::new(), Vec::new());
    for file in files {
        let own = trusted.and_then(|trusted| trusted.files.get(file.path.to_str()?));
        match own.or_else(|| in_main(file)) {
            _ if granted(file) || granted_in_main(file) => {}
            Some(hash) if *hash == file.sha256 => {}
            Some(_) => changed.push(file.path.clone()),
            None => new.push(file.path.clone()),
        }
    }
    if new.is_empty() && changed.is_empty() {
        return Ok(TrustState::Trusted);
    }
    Ok(TrustState::Untrusted { new, changed })
}

/// Files that count in this process beside what the record names: one process is one operator's.
static ONCE: Mutex<BTreeSet<Seen>> = Mutex::new(BTreeSet::new());

/// Lets a file of a project count in this process as it was seen, without a record.
pub fn grant(seen: Seen) {
    ONCE.lock().unwrap_or_else(PoisonError::into_inner).insert(seen);
}

fn granted(seen: &Seen) -> bool {
    ONCE.lock().unwrap_or_else(PoisonError::into_inner).contains(seen)
}

/// Whether a file of a folder may act as it was seen.
pub fn allows(home: &Home, folder: &Path, file: &Seen) -> Result<bool, String> {
    Ok(state(home, folder, std::slice::from_ref(file))? == TrustState::Trusted)
}

/// Records that these files are trusted as they are. Others of the folder that were trusted before stay so: from
/// another place in the project other files are seen.
pub fn trust(home: &Home, folder: &Path, files: &[Seen], now: Timestamp) -> Result<(), String> {
    let root = text(&root(folder)?)?;
    let mut named = BTreeMap::new();
    for file in files {
        named.insert(text(&file.path)?, file.sha256.clone());
    }
    change(home, |record| {
        let none = Trusted { time: now.0, files: BTreeMap::new() };
        let trusted = record.folders.entry(root).or_insert(none);
        trusted.time = now.0;
        trusted.files.extend(named);
    })
}

/// Takes all trust in a folder back; false if there was none.
pub fn revoke(home: &Home, folder: &Path) -> Result<bool, String> {
    let root = text(&root(folder)?)?;
    let mut found = false;
    change(home, |record| found = record.folders.remove(&root).is_some())?;
    Ok(found)
}

/// What is trusted in a folder.
pub fn recorded(home: &Home, folder: &Path) -> Result<Option<Trusted>, String> {
    Ok(read(home)?.folders.remove(&text(&root(folder)?)?))
}

/// A path as the record holds it. One that is not text could be mistaken for another.
fn text(path: &Path) -> Result<String, String> {
    path.to_str()
        .map(str::to_owned)
        .ok_or_else(|| format!("{} has a name that is not UTF-8", path.display()))
}

fn read(home: &Home) -> Result<Record, String> {
    let path = home.root().join(RECORD);
    let failed = |reason: String| {
        format!("cannot read {}: {reason}; remove it to trust nothing any more", path.display())
    };
    let mut bytes = Vec::new();
    match File::open(&path) {
        Ok(file) => {
            file.take(MAX_RECORD).read_to_end(&mut bytes).map_err(|e| failed(e.to_string()))?;
        }
        // A home that cannot be made has none either; whoever needs the home says so.
        Err(error)
            if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
        {
            return Ok(Record { v: 1, folders: BTreeMap::new() });
        }
        Err(error) => return Err(failed(error.to_string())),
    }
    let record: Record = serde_json::from_slice(&bytes).map_err(|e| failed(e.to_string()))?;
    if record.v != 1 {
        return Err(failed(format!("it has version {}, expected 1", record.v)));
    }
    Ok(record)
}

/// One change at a time, so that none undoes another; the new record is there whole or not at all.
fn change(home: &Home, with: impl FnOnce(&mut Record)) -> Result<(), String> {
    home.create()?;
    let path = home.root().join(RECORD);
    let failed = |error: io::Error| format!("cannot write {}: {error}", path.display());
    let open = |name: &str| {
        OpenOptions::new()
            .create(true)
            .truncate(true)
            .write(true)
            .mode(0o600)
            .open(home.root().join(name))
    };
    let lock = open(LOCK).map_err(failed)?;
    let _lock = FileLock::wait(lock).map_err(failed)?;
    let mut record = read(home)?;
    with(&mut record);
    // Plain data with text keys: encoding it cannot fail.
    let bytes = serde_json::to_vec_pretty(&record).map_err(|e| failed(io::Error::other(e)))?;
    let mut next = open("trust.next").map_err(failed)?;
    next.write_all(&bytes).and_then(|()| next.sync_all()).map_err(failed)?;
    fs::rename(home.root().join("trust.next"), &path).map_err(failed)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn seen(folder: &Path, content: &str) -> Vec<Seen> {
        let path = fs::canonicalize(folder).unwrap().join(".mcp.json");
        fs::write(&path, content).unwrap();
        vec![Seen { path, sha256: hash(content.as_bytes()) }]
    }

    #[test]
    fn a_changed_file_is_asked_about_again_and_revoking_forgets_all() {
        let place = tempfile::tempdir().unwrap();
        let home = Home::at(place.path().join("home"));
        let project = place.path().join("project");
        fs::create_dir(&project).unwrap();
        let files = seen(&project, "one");
        let path = files[0].path.clone();
        assert_eq!(
            state(&home, &project, &files).unwrap(),
            TrustState::Untrusted { new: vec![path.clone()], changed: vec![] }
        );
        trust(&home, &project, &files, Timestamp(7)).unwrap();
        assert_eq!(state(&home, &project, &files).unwrap(), TrustState::Trusted);
        let mode = fs::metadata(home.root().join(RECORD)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(
            state(&home, &project, &seen(&project, "two")).unwrap(),
            TrustState::Untrusted { new: vec![], changed: vec![path] }
        );
        assert!(revoke(&home, &project).unwrap());
        assert!(!revoke(&home, &project).unwrap());
        assert_ne!(state(&home, &project, &seen(&project, "one")).unwrap(), TrustState::Trusted);
        assert_eq!(state(&home, &project, &[]).unwrap(), TrustState::Trusted);
    }

    #[test]
    fn files_that_are_trusted_one_after_the_other_are_all_trusted() {
        let place = tempfile::tempdir().unwrap();
        let home = Home::at(place.path().join("home"));
        let project = place.path().join("project");
        for folder in ["project/.git/refs", "project/below"] {
            fs::create_dir_all(place.path().join(folder)).unwrap();
        }
        let (above, below) = (seen(&project, "one"), seen(&project.join("below"), "two"));
        trust(&home, &project.join("below"), &below, Timestamp(1)).unwrap();
        trust(&home, &project, &above, Timestamp(2)).unwrap();
        let all = [above, below].concat();
        assert_eq!(state(&home, &project, &all).unwrap(), TrustState::Trusted);
        assert_eq!(recorded(&home, &project).unwrap().unwrap().files.len(), 2);
    }

    #[test]
    fn trust_is_in_the_real_folder_and_not_in_one_that_looks_like_it() {
        let place = tempfile::tempdir().unwrap();
        let home = Home::at(place.path().join("home"));
        let (real, link, other) =
            (place.path().join("real"), place.path().join("link"), place.path().join("other"));
        fs::create_dir(&real).unwrap();
        fs::create_dir(&other).unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        let files = seen(&link, "one");
        trust(&home, &link, &files, Timestamp(7)).unwrap();
        assert_eq!(state(&home, &real, &seen(&real, "one")).unwrap(), TrustState::Trusted);
        assert_ne!(state(&home, &other, &seen(&other, "one")).unwrap(), TrustState::Trusted);
        assert_ne!(
            state(&home, &other, &files).unwrap(),
            TrustState::Trusted,
            "a file trusted for one folder is not trusted for another"
        );
    }

    #[test]
    fn a_record_that_cannot_be_read_trusts_nothing() {
        let place = tempfile::tempdir().unwrap();
        let home = Home::at(place.path());
        for wrong in ["{", r#"{"v":2}"#, r#"{"v":1,"all":true}"#] {
            fs::write(place.path().join(RECORD), wrong).unwrap();
            assert!(state(&home, place.path(), &[]).unwrap_err().contains("cannot read"));
            assert!(trust(&home, place.path(), &[], Timestamp(1)).is_err(), "nor is it replaced");
        }
    }
}
