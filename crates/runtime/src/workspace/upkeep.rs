//! What there is of worktrees and checkpoint stores, and taking away what is needed no longer. Whether something may go
//! is decided in `machine::upkeep`; here it is looked at, and removed so that git itself finds nothing to complain of.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use machine::upkeep::{Branch, Lock, Loose};

use crate::apply::Note;
use crate::checkpoint::{Content, Store, with_end};
use crate::process::Cancel;
use crate::remove;

use super::{Record, Repository, absolute, branch_of, check_task, text, worktree_of};

/// A worktree that was made for a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Worktree {
    /// The task.
    pub task: String,
    /// Its folder.
    pub path: PathBuf,
    /// The user's repository.
    pub repository: PathBuf,
    /// Whether the folder is there.
    pub present: bool,
}

/// All worktrees that were made and not taken away, by task.
pub fn list(state_home: &Path) -> Result<Vec<Worktree>, String> {
    let folder = absolute(state_home)?.join("worktrees");
    let entries = match fs::read_dir(&folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(format!("cannot look into {}: {error}", folder.display())),
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.map_err(|error| format!("{}: {error}", folder.display()))?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let Some(task) = name.strip_suffix(".json").filter(|task| check_task(task).is_ok()) else {
            continue;
        };
        found.extend(worktree(task, state_home)?);
    }
    found.sort_by(|one, other| one.task.cmp(&other.task));
    Ok(found)
}

/// The worktree of a task; none if there was none, or it was taken away.
pub fn worktree(task: &str, state_home: &Path) -> Result<Option<Worktree>, String> {
    check_task(task)?;
    let state_home = absolute(state_home)?;
    let record = Record::path(task, &state_home);
    if !record.exists() {
        return Ok(None);
    }
    let record = Record::read(&record)?;
    let path = worktree_of(task, &state_home);
    Ok((!record.removed).then(|| Worktree {
        task: task.to_owned(),
        present: path.exists(),
        path,
        repository: PathBuf::from(record.repository),
    }))
}

/// How many bytes a folder takes; what cannot be read counts nothing.
pub fn size(folder: &Path) -> u64 {
    let (mut total, mut open) = (0, vec![folder.to_owned()]);
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            match entry.metadata() {
                Ok(meta) if meta.is_dir() => open.push(entry.path()),
                Ok(meta) => total += meta.len(),
                Err(_) => {}
            }
        }
    }
    total
}

/// Whether the files of a task's worktree are all in one of its checkpoints, and which content that is.
pub fn kept(
    worktree: &Worktree,
    state_home: &Path,
    cancel: &Cancel,
) -> Result<(Content, bool), String> {
    let store = Store::open(&worktree.task, state_home, cancel)?;
    let folder = worktree
        .path
        .canonicalize()
        .map_err(|error| format!("cannot look at {}: {error}", worktree.path.display()))?;
    let now = store.look(&folder)?;
    for point in store.points()?.iter().rev() {
        if store.content(&point.commit)? == now {
            return Ok((now, true));
        }
    }
    Ok((now, false))
}

/// Where the task's branch stands in the user's repository.
pub fn branch(task: &str, state_home: &Path) -> Result<Branch, String> {
    let state_home = absolute(state_home)?;
    let record = Record::read(&Record::path(task, &state_home))?;
    let name = branch_of(task);
    let repository = used(&record, &state_home)?;
    if repository.stands_for(&name).is_some() {
        return Ok(Branch::Alias);
    }
    if !repository.has_branch(&name)? {
        return Ok(Branch::Absent);
    }
    let exclude = format!("--exclude={name}");
    let whole = format!("refs/heads/{name}");
    let count = ["rev-list", "--count", &whole, "--not", &exclude, "--branches"];
    let count = count.into_iter().chain(["--tags", "--remotes"]).map(OsString::from);
    let count = repository.git(count)?;
    match count.trim_end().parse::<u64>() {
        Ok(0) => Ok(Branch::Elsewhere),
        Ok(count) => Ok(Branch::Alone(count)),
        Err(_) => Err(format!("git counted {:?} commits", count.trim_end())),
    }
}

/// The user's repository; the error names it.
fn used(record: &Record, state_home: &Path) -> Result<Repository, String> {
    record
        .find(state_home)
        .map_err(|reason| format!("the repository {} cannot be used: {reason}", record.repository))
}

/// The commits that only a worktree holds.
pub fn loose(worktree: &Worktree, state_home: &Path) -> Result<Option<Loose>, String> {
    if !worktree.present {
        return Ok(None);
    }
    let state_home = absolute(state_home)?;
    let record = Record::read(&Record::path(&worktree.task, &state_home))?;
    let repository = used(&record, &state_home)?;
    let git = |words: &[&str]| repository.git(words.iter().map(OsString::from));
    let head = format!("worktrees/{}/HEAD", worktree.task);
    let commit = git(&["rev-parse", "--verify", "--quiet", &head])
        .map_err(|_| "git does not know which commit is checked out in it".to_owned())?;
    let commit = commit.trim_end().to_owned();
    let others = ["--not", "--branches", "--tags", "--remotes"];
    let count = git(&[&["rev-list", "--count", &commit], &others[..]].concat())?;
    match count.trim_end().parse::<u64>() {
        Ok(0) => Ok(None),
        Ok(count) => Ok(Some(Loose { count, commit })),
        Err(_) => Err(format!("git counted {:?} commits", count.trim_end())),
    }
}

/// The checkpoint of a task that was last handed over, if it is still in a branch of the user's.
pub fn applied(task: &str, state_home: &Path) -> Option<String> {
    let note = Note::read(task, state_home).filter(|note| note.done)?;
    holds(task, state_home, note.commit.as_ref()?).then_some(note.frozen)
}

/// The branch and the commit that have this checkpoint of a task, if it was handed over and that branch still has the commit.
/// What was handed over on no branch may be in any.
pub fn handed_over(task: &str, state_home: &Path, checkpoint: &str) -> Option<(String, String)> {
    let note = Note::read(task, state_home).filter(|note| note.done)?;
    let commit = note.commit.filter(|_| note.frozen == checkpoint)?;
    let place =
        if note.branch == "HEAD" { None } else { Some(format!("refs/heads/{}", note.branch)) };
    let mut names = holders(task, state_home, &commit).into_iter();
    let holds = names.any(|name| place.as_ref().is_none_or(|place| name == place.as_bytes()));
    holds.then_some((note.branch, commit))
}

/// Whether a commit is in some branch of the repository of a task: not in a task's own.
pub fn holds(task: &str, state_home: &Path, commit: &str) -> bool {
    !holders(task, state_home, commit).is_empty()
}

/// The branches of the user's that have a commit.
fn holders(task: &str, state_home: &Path, commit: &str) -> Vec<Vec<u8>> {
    let found =
        absolute(state_home).and_then(|home| Record::read(&Record::path(task, &home))?.find(&home));
    let Ok(repository) = found else { return Vec::new() };
    let asked = ["for-each-ref", "--format=%(refname)", "--contains", commit, "refs/heads"];
    let Ok(refs) = repository.output(asked.map(OsString::from)) else { return Vec::new() };
    let names = refs.out.split(|byte| *byte == b'\n').filter(|name| !name.is_empty());
    names.filter(|name| !name.starts_with(b"refs/heads/drivetrain/")).map(<[u8]>::to_vec).collect()
}

/// Whether git was told to leave a worktree alone (`git worktree lock`), and why.
pub fn lock(worktree: &Worktree, state_home: &Path) -> Result<Option<Lock>, String> {
    let state_home = absolute(state_home)?;
    let record = Record::read(&Record::path(&worktree.task, &state_home))?;
    let about = used(&record, &state_home)?.about(&worktree.task)?;
    let place = text(&worktree.path)?;
    match fs::read(about.join("locked")) {
        Ok(why) => {
            Ok(Some(Lock { place, why: String::from_utf8_lossy(&why).trim_end().to_owned() }))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(format!("cannot see whether {place} is locked: {error}")),
    }
}

/// Takes a worktree away whose files are all in a checkpoint, and its branch if its commits are elsewhere. The record of
/// where it came from stays. What speaks against it is seen before anything goes; cut short, it is completed by asking
/// again. Once the folder is out of everybody's way, `is_as_seen` says whether the task is still as it was when that was
/// decided; if not, the folder is put back.
pub fn remove(
    task: &str,
    state_home: &Path,
    branch: Branch,
    is_as_seen: impl FnOnce() -> bool,
) -> Result<(), String> {
    let state_home = absolute(state_home)?;
    let (place, path) = (Record::path(task, &state_home), worktree_of(task, &state_home));
    let mut record = Record::read(&place)?;
    let repository = used(&record, &state_home)?;
    let about = repository.about(task)?;
    if about.exists() && !is_about(&about, &path) {
        return Err(format!(
            "what git knows of it ({}) is of another folder than {}: git worktree repair there mends that",
            about.display(),
            path.display()
        ));
    }
    if path.is_symlink() {
        return Err(format!("{} is a link: put the folder back in its place", path.display()));
    }
    // What has this name is no worktree any more: it goes, whatever becomes of this process.
    let going = with_end(&path, ".going");
    let wrong = |error: io::Error| format!("cannot remove {}: {error}", path.display());
    remove::tree(&going).map_err(wrong)?;
    if path.exists() {
        fs::rename(&path, &going).map_err(wrong)?;
        // Who takes a task up claims it before looking at its folder: either that is seen here, or the folder is gone there.
        if !is_as_seen() {
            fs::rename(&going, &path).map_err(wrong)?;
            return Err("somebody has done something with the task meanwhile".to_owned());
        }
        remove::tree(&going).map_err(wrong)?;
    }
    // Git refuses where there are submodules, or its own link to here is not as it was.
    remove::tree(&about).map_err(|error| format!("cannot remove {}: {error}", about.display()))?;
    // As git does with the folder of all of them once it is empty.
    let _ = about.parent().map(fs::remove_dir);
    if branch == Branch::Elsewhere {
        let name = format!("refs/heads/{}", branch_of(task));
        let tip = repository.git(["rev-parse", "--verify", &name].map(OsString::from))?;
        // A worker can make its branch another name of the user's, which git would take away.
        let delete = ["update-ref", "--no-deref", "-d", &name, tip.trim_end()];
        repository.git(delete.map(OsString::from))?;
    }
    record.removed = true;
    record.write(&place)
}

/// Whether what git knows of some worktree is about the one at this path, which may be gone.
fn is_about(about: &Path, path: &Path) -> bool {
    let place =
        |path: &Path| Some((path.parent()?.canonicalize().ok()?, path.file_name()?.to_owned()));
    let Ok(link) = fs::read(about.join("gitdir")) else { return false };
    let link = about.join(OsStr::from_bytes(link.trim_ascii_end()));
    link.parent().and_then(place).is_some_and(|named| place(path) == Some(named))
}

/// Where a task's checkpoints are.
pub fn store(task: &str, state_home: &Path) -> PathBuf {
    state_home.join("checkpoints").join(format!("{task}.git"))
}

/// Takes a task's checkpoints away.
pub fn remove_store(task: &str, state_home: &Path) -> Result<(), String> {
    check_task(task)?;
    let path = store(task, &absolute(state_home)?);
    // Under another name first: half a store must not be taken for a whole one.
    let aside = path.with_extension("removed");
    let _ = remove::tree(&aside);
    fs::rename(&path, &aside)
        .and_then(|()| remove::tree(&aside))
        .map_err(|error| format!("cannot remove {}: {error}", path.display()))
}
