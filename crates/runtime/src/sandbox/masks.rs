//! Names that steer other programs, made unwritable whether they exist or not.
//!
//! Something can only be mounted on a name that exists, so a missing one gets an empty stand-in for as long as a
//! sandbox needs it. It carries a lock and a mode that nobody else uses: whoever is the last to need it removes it,
//! and one that a killed process left behind is known as such. That of `.git` is a folder: git passes over an empty one, and
//! would stop at an empty file, for whoever works there outside. That of `commondir` in a repository says what git takes for
//! granted without one. A name that is a link cannot be covered: it is looked at afterwards and put back.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use machine::policy::protected;
use rustix::fs::{FlockOperation, flock};

/// Only its owner can read it, and the sticky bit means nothing for a file: no tool makes one like it.
const STAND_IN: u32 = 0o1400;

/// Nothing can be made in it: no tool makes a folder like it.
const FOLDER: u32 = 0o1500;

/// Git of every user reads it.
const COMMON: u32 = 0o1444;

/// What it says: what is shared is where the repository is.
const HERE: &str = ".\n";

/// What must be in a folder, beside `HEAD`, for git to take the folder itself for a repository: the first, or both others.
const BARE: [&str; 3] = ["commondir", "refs", "objects"];

/// What is in a repository and holds no file that git writes in place: it has its own protection, or nobody follows links
/// there.
const NO_LINKS: [&str; 7] = ["annex", "hooks", "info", "modules", "objects", "refs", "worktrees"];

/// What was put in place for one sandbox; dropping it clears up.
#[derive(Debug, Default)]
pub(super) struct Masks {
    stand_ins: Vec<StandIn>,
    folders: Vec<PathBuf>,
    links: Vec<(PathBuf, PathBuf)>,
    absent: Vec<PathBuf>,
    /// Folders, and the links in them.
    linked: Vec<(PathBuf, Vec<(PathBuf, PathBuf)>)>,
}

/// What stands in for a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    File,
    Folder,
    Common,
}

#[derive(Debug)]
struct StandIn {
    path: PathBuf,
    /// Holds a shared lock.
    file: File,
}

/// How a name is covered.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Cover {
    /// It exists: mounted on itself, read-only.
    Frozen,
    /// It does not: something that cannot be opened is mounted on its stand-in.
    Closed,
    /// It cannot be mounted on.
    Watched,
    /// Nobody can make it here.
    Needless,
}

impl Masks {
    /// Makes sure that a name can be mounted on, and says how to.
    pub(super) fn cover(&mut self, path: &Path) -> io::Result<Cover> {
        match fs::symlink_metadata(path) {
            Ok(meta) if meta.is_symlink() => {
                self.links.push((path.to_owned(), fs::read_link(path)?));
                Ok(Cover::Watched)
            }
            Ok(meta) if !is_stand_in(&meta) => Ok(Cover::Frozen),
            Ok(meta) => self.stand_in(path, kind_for(path, Some(&meta))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let nobody_can = |kind| {
                    matches!(
                        kind,
                        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem
                    )
                };
                match rustix::fs::access(
                    path.parent().unwrap_or(path),
                    rustix::fs::Access::WRITE_OK,
                ) {
                    Err(error) if nobody_can(io::Error::from(error).kind()) => Ok(Cover::Needless),
                    _ => self.stand_in(path, kind_for(path, None)),
                }
            }
            Err(error) => Err(error),
        }
    }

    /// As `cover` for the `commondir` of a repository that shares nothing: git would believe an empty one.
    pub(super) fn cover_common(&mut self, path: &Path) -> io::Result<Cover> {
        match fs::symlink_metadata(path) {
            Ok(meta) if !is_stand_in(&meta) => self.cover(path),
            _ => self.stand_in(path, Kind::Common),
        }
    }

    /// Links that are made in a repository's folder meanwhile are removed: git outside would write where they lead.
    pub(super) fn no_new_links(&mut self, folder: PathBuf) {
        let links = links(&folder);
        self.linked.push((folder, links));
    }

    /// An empty folder of that name for as long as the sandbox lives.
    pub(super) fn folder(&mut self, path: &Path) -> io::Result<()> {
        match fs::create_dir(path) {
            Ok(()) => self.folders.push(path.to_owned()),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// As `cover` where nothing can be mounted: what is missing must be missing afterwards, and links stay.
    pub(super) fn watch(&mut self, path: PathBuf) -> io::Result<()> {
        match fs::symlink_metadata(&path) {
            Ok(meta) if meta.is_symlink() => {
                let target = fs::read_link(&path)?;
                self.links.push((path, target));
            }
            Ok(_) => {}
            Err(_) => self.absent.push(path),
        }
        Ok(())
    }

    /// What must not be there afterwards, and cannot have a stand-in because it would be believed.
    pub(super) fn keep_absent(&mut self, path: PathBuf) {
        if fs::symlink_metadata(&path).is_err() {
            self.absent.push(path);
        }
    }

    fn stand_in(&mut self, path: &Path, kind: Kind) -> io::Result<Cover> {
        let (mode, cover) = match kind {
            Kind::File => (STAND_IN, Cover::Closed),
            Kind::Folder => (FOLDER, Cover::Frozen),
            Kind::Common => (COMMON, Cover::Frozen),
        };
        // Whoever removes one holds its lock alone; the one that was locked here may be gone from its name by then.
        for _ in 0..100 {
            let opened = match kind {
                Kind::File => open_file(path),
                Kind::Folder => open_folder(path),
                Kind::Common => open_common(path),
            };
            let opened = match opened {
                // Between being made and being opened, it was removed by who needed it before.
                Err(error) if kind != Kind::File && error.kind() == io::ErrorKind::NotFound => {
                    continue;
                }
                opened => opened?,
            };
            flock(&opened, FlockOperation::LockShared)?;
            let held = opened.metadata()?;
            match fs::symlink_metadata(path) {
                Ok(named) if (named.dev(), named.ino()) == (held.dev(), held.ino()) => {
                    if !is_stand_in(&named) {
                        // Somebody made a real one meanwhile; or the mode was narrowed by a mask.
                        if !is_empty(path, &named) {
                            return Ok(Cover::Frozen);
                        }
                        opened.set_permissions(fs::Permissions::from_mode(mode))?;
                    }
                    self.stand_ins.push(StandIn { path: path.to_owned(), file: opened });
                    return Ok(cover);
                }
                _ => continue,
            }
        }
        Err(io::Error::other("it is made and removed over and over"))
    }
}

/// What stands in for a name. An earlier version left files where there are folders now.
fn kind_for(path: &Path, there: Option<&fs::Metadata>) -> Kind {
    match path.ends_with(".git") && !there.is_some_and(fs::Metadata::is_file) {
        true => Kind::Folder,
        false => Kind::File,
    }
}

fn open_file(path: &Path) -> io::Result<File> {
    let flags = libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_NONBLOCK;
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(STAND_IN)
        .custom_flags(flags)
        .open(path)
        .or_else(|_| OpenOptions::new().read(true).custom_flags(flags).open(path))
}

fn open_folder(path: &Path) -> io::Result<File> {
    match fs::DirBuilder::new().mode(FOLDER).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let flags = libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_DIRECTORY;
    OpenOptions::new().read(true).custom_flags(flags).open(path)
}

/// Git outside may look at any moment, so it is there with its text at once.
fn open_common(path: &Path) -> io::Result<File> {
    let flags = libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_NONBLOCK;
    let open = || OpenOptions::new().read(true).custom_flags(flags).open(path);
    match open() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        opened => return opened,
    }
    static MADE: AtomicU64 = AtomicU64::new(0);
    let number = MADE.fetch_add(1, Ordering::Relaxed);
    let beside = path.with_file_name(format!(".commondir.{}.{number}", std::process::id()));
    // A process of the same number may have been killed here.
    let _ = fs::remove_file(&beside);
    let made = File::create_new(&beside).and_then(|mut file| {
        file.write_all(HERE.as_bytes())?;
        file.set_permissions(fs::Permissions::from_mode(COMMON))?;
        fs::hard_link(&beside, path)
    });
    let _ = fs::remove_file(&beside);
    match made {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => open(),
    }
}

fn is_empty(path: &Path, meta: &fs::Metadata) -> bool {
    match meta.is_dir() {
        true => fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none()),
        false => meta.len() == 0,
    }
}

impl Drop for Masks {
    fn drop(&mut self) {
        for stand_in in &self.stand_ins {
            let alone = flock(&stand_in.file, FlockOperation::NonBlockingLockExclusive).is_ok();
            let same = match (fs::symlink_metadata(&stand_in.path), stand_in.file.metadata()) {
                (Ok(named), Ok(held)) => {
                    (named.dev(), named.ino()) == (held.dev(), held.ino()) && is_stand_in(&named)
                }
                _ => false,
            };
            if alone && same {
                // A folder in which somebody made a repository all the same stays.
                let _ = fs::remove_file(&stand_in.path).or_else(|_| fs::remove_dir(&stand_in.path));
            }
        }
        for folder in &self.folders {
            // Fails if it is not empty or somebody else needs it, which is as well.
            let _ = fs::remove_dir(folder);
        }
        for path in &self.absent {
            remove(path);
        }
        for (folder, before) in &self.linked {
            for link in links(folder).iter().filter(|link| !before.contains(link)) {
                let _ = fs::remove_file(&link.0);
            }
        }
        for (path, target) in &self.links {
            if fs::read_link(path).ok().as_deref() != Some(target) {
                remove(path);
                let _ = std::os::unix::fs::symlink(target, path);
            }
        }
    }
}

fn remove(path: &Path) {
    match fs::symlink_metadata(path) {
        Ok(meta) if meta.is_dir() => {
            let _ = fs::remove_dir_all(path);
        }
        Ok(_) => {
            let _ = fs::remove_file(path);
        }
        Err(_) => {}
    }
}

fn is_stand_in(meta: &fs::Metadata) -> bool {
    let mode = meta.mode() & 0o7777;
    match meta.is_file() {
        true => [(0, STAND_IN), (HERE.len() as u64, COMMON)].contains(&(meta.len(), mode)),
        false => meta.is_dir() && mode == FOLDER,
    }
}

/// The links in a repository's folder, and where they lead.
fn links(folder: &Path) -> Vec<(PathBuf, PathBuf)> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(&next).into_iter().flatten().flatten() {
            let Ok(kind) = entry.file_type() else { continue };
            let path = entry.path();
            let is_left_out = || NO_LINKS.iter().any(|name| folder.join(name) == path);
            if kind.is_symlink() {
                let target = fs::read_link(&path).unwrap_or_default();
                found.push((path, target));
            } else if kind.is_dir() && !is_left_out() {
                open.push(path);
            }
        }
    }
    found
}

/// The names that are covered so that a folder cannot become a repository itself: two that it would need. One is enough of
/// `refs` and `objects`, and the project may have folders of that name. `HEAD`, which it would need as well, is not covered:
/// git refuses to guess whether the commit or the file is meant.
pub(super) fn bare_names(folder: &Path) -> impl Iterator<Item = PathBuf> {
    let [common, refs, objects] = BARE.map(|name| folder.join(name));
    let is_free =
        |path: &PathBuf| fs::symlink_metadata(path).map_or(true, |meta| is_stand_in(&meta));
    let one = [refs, objects].into_iter().find(is_free);
    Some(common).filter(is_free).into_iter().chain(one)
}

/// The protected names of a folder that are covered: those that are known, and what there is of the others.
pub(super) fn names(folder: &Path) -> Vec<PathBuf> {
    let known = protected::NAMES.iter().chain(&protected::MORE);
    let mut names: Vec<PathBuf> =
        known.filter(|name| **name != "git~1").map(|name| folder.join(name)).collect();
    if let Ok(entries) = fs::read_dir(folder) {
        for entry in entries.filter_map(Result::ok) {
            let name = entry.file_name();
            let is_protected = name.to_str().is_some_and(|name| protected::part(name).is_some());
            let path = entry.path();
            if is_protected && !names.contains(&path) {
                names.push(path);
            }
        }
    }
    names
}

/// Whether what lies there only stands in for a name that is not there: a sandbox needs it, or a killed process left it.
pub(crate) fn stands_in(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|meta| is_stand_in(&meta))
}

/// The names of a folder that are not there, or only as a stand-in: whatever a look in passing sees of them is nobody's
/// work, so they are in no checkpoint.
pub(crate) fn not_there(folder: &Path) -> Vec<PathBuf> {
    let known = protected::NAMES.iter().chain(&protected::MORE).chain(&BARE);
    known
        .map(|name| folder.join(name))
        .filter(|path| fs::symlink_metadata(path).map_or(true, |meta| is_stand_in(&meta)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stand_in_is_removed_by_the_last_who_needs_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(".mcp.json");
        let (mut first, mut second) = (Masks::default(), Masks::default());
        assert_eq!(first.cover(&path).unwrap(), Cover::Closed);
        assert_eq!(second.cover(&path).unwrap(), Cover::Closed);
        drop(first);
        assert!(path.exists() && not_there(folder.path()).contains(&path));
        drop(second);
        assert!(!path.exists());
    }

    #[test]
    fn a_missing_repository_has_an_empty_folder_in_its_place_and_one_that_is_made_in_it_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(".git");
        let (mut first, mut second) = (Masks::default(), Masks::default());
        assert_eq!(first.cover(&path).unwrap(), Cover::Frozen);
        assert_eq!(second.cover(&path).unwrap(), Cover::Frozen);
        assert!(stands_in(&path) && not_there(folder.path()).contains(&path));
        drop(first);
        assert!(path.is_dir());
        drop(second);
        assert!(!path.exists());
        let mut third = Masks::default();
        assert_eq!(third.cover(&path).unwrap(), Cover::Frozen);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(path.join("HEAD"), "").unwrap();
        drop(third);
        assert!(path.join("HEAD").exists());
        assert_eq!(Masks::default().cover(&path).unwrap(), Cover::Frozen);
        assert!(path.join("HEAD").exists());
    }

    #[test]
    fn one_that_was_left_behind_is_cleared_up_and_a_real_file_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().join(".env");
        fs::write(&real, "").unwrap();
        let mut masks = Masks::default();
        let left = [".claude", ".git"].map(|name| folder.path().join(name));
        for left in &left {
            fs::write(left, "").unwrap();
            fs::set_permissions(left, fs::Permissions::from_mode(STAND_IN)).unwrap();
            assert_eq!(masks.cover(left).unwrap(), Cover::Closed);
        }
        assert_eq!(masks.cover(&real).unwrap(), Cover::Frozen);
        drop(masks);
        assert!(real.exists() && !left.iter().any(|left| left.exists()));
    }

    #[test]
    fn a_link_is_put_back_and_what_must_be_absent_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let (link, absent) = (folder.path().join(".claude"), folder.path().join("commondir"));
        std::os::unix::fs::symlink("elsewhere", &link).unwrap();
        let mut masks = Masks::default();
        assert_eq!(masks.cover(&link).unwrap(), Cover::Watched);
        masks.keep_absent(absent.clone());
        fs::remove_file(&link).unwrap();
        fs::create_dir(&link).unwrap();
        fs::write(link.join("settings.json"), "{}").unwrap();
        fs::write(&absent, "/evil").unwrap();
        drop(masks);
        assert_eq!(fs::read_link(&link).unwrap(), Path::new("elsewhere"));
        assert!(!absent.exists());
    }
}
