//! Workspaces, by git. The user's branch, index and files stay as they are; nothing is ever removed by force.

pub mod left_behind;
mod settle;
pub(crate) mod setup;
pub mod upkeep;

pub(crate) use settle::settle;

use std::cell::Cell;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use machine::event::Loss;
use machine::task::{ForkedFrom, Workspace, WorkspaceKind, WorkspaceSpec};
use rustix::process::geteuid;
use serde::{Deserialize, Serialize};

use crate::checkpoint::Store;
use crate::git::{Git, Printed};
use crate::lock::FileLock;
use crate::process::{self, Cancel};
use crate::sandbox;
use crate::whole_file::{self, Lasting};

/// Makes the task's workspace, or finds the one that was made before, whole again where it was left half made.
///
/// `folder` is where the task was started; worktrees are kept below `state_home`. Asking again for the same task
/// gives the same workspace with the same base, wherever the user's branch has moved meanwhile.
pub fn open(
    task: &str,
    spec: &WorkspaceSpec,
    folder: &Path,
    state_home: &Path,
) -> Result<Workspace, String> {
    check_task(task)?;
    if spec.kind == Some(WorkspaceKind::None) {
        return Ok(Workspace { kind: WorkspaceKind::None, path: None, branch: None, base: None });
    }
    let state_home = &absolute(state_home)?;
    let record = Record::path(task, state_home);
    if spec.kind != Some(WorkspaceKind::InPlace) && record.exists() {
        return reopen(task, Record::read(&record)?, folder, state_home);
    }
    let folder = folder.canonicalize().map_err(|error| {
        format!(
            "cannot use the folder {}: {error}; start the task in a folder that exists",
            folder.display()
        )
    })?;
    if spec.kind == Some(WorkspaceKind::InPlace) {
        return in_place(&folder);
    }
    match (Repository::find(&folder), spec.kind) {
        (Ok(repository), _) => create(task, &repository, state_home),
        (Err(reason), Some(_)) => Err(format!(
            "cannot make a worktree for {}: {reason}; run \"git init\" and make a commit, or set kind = \
             \"in_place\" under [workspace]",
            folder.display()
        )),
        // Nobody gave the worktree up: that a repository cannot be used has to be said before its files are.
        (Err(reason), None) if has_commits(&folder) => Err(format!(
            "cannot make a worktree for {}: {reason}; mend that, or work in the folder itself with --in-place (kind = \
             \"in_place\" under [workspace])",
            folder.display()
        )),
        (Err(_), None) => in_place(&folder),
    }
}

/// Makes the worktree of a task that begins with a state of another: on the same repository and commit, with the files
/// of that state, and with all checkpoints up to it. Asking again gives the same.
pub fn open_fork(
    task: &str,
    from: &ForkedFrom,
    state_home: &Path,
    cancel: &Cancel,
) -> Result<Workspace, String> {
    check_task(task)?;
    check_task(&from.task)?;
    let state_home = &absolute(state_home)?;
    let path = Record::path(task, state_home);
    let record = if path.exists() {
        Record::read(&path)?
    } else {
        let other = Record::read(&Record::path(&from.task, state_home))?;
        let base = from.commit.clone().unwrap_or(other.base);
        Record { base, ready: false, removed: false, untold: None, ..other }
    };
    let repository = record.find(state_home).map_err(|reason| {
        format!("the repository {} cannot be used: {reason}", record.repository)
    })?;
    let store = Store::open(task, state_home, cancel)?;
    store.take_over(&Store::open(&from.task, state_home, cancel)?, &from.at.name)?;
    record.write(&path)?;
    let fill = |folder: &Path| store.fill(folder, &from.at.name).map(drop);
    complete(task, record, &repository, state_home, Branch::Unknown, &fill)
}

/// Whether a folder is in a repository, as far as names say.
pub fn in_repository(folder: &Path) -> bool {
    sandbox::git::top(folder).is_some()
}

/// Whether a folder is in a new repository: its files say that nothing was ever committed to it.
pub fn is_unborn(folder: &Path) -> bool {
    let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    matches!(Repository::read(&folder), Some((_, None)))
}

/// Whether a folder is in a repository that has a commit, or of which git cannot say that it has none.
pub fn has_commits(folder: &Path) -> bool {
    if !in_repository(folder) {
        return false;
    }
    if is_unborn(folder) {
        return false;
    }
    let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let git = Git { settings: trusted(), ..Git::default() };
    let words = ["rev-list", "--all", "--max-count=1"].map(OsString::from).into_iter();
    let place: [OsString; 2] = ["-C".into(), folder.into()];
    git.run(place.into_iter().chain(words)).map_or(true, |first| !first.is_empty())
}

/// Whether a task that works in this folder in place begins at a commit.
pub fn begins_at_commit(folder: &Path) -> bool {
    Repository::look(folder).is_ok()
}

fn in_place(folder: &Path) -> Result<Workspace, String> {
    let base = Repository::look(folder).ok().map(|repository| repository.head);
    Ok(Workspace { kind: WorkspaceKind::InPlace, path: Some(text(folder)?), branch: None, base })
}

/// What a worktree was made from, written before it is made. Base and folder never change after.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Record {
    /// The top folder of the user's repository.
    repository: String,
    /// The commit the task's branch began at.
    base: String,
    /// The folder below the top that the task was started in; may be empty.
    prefix: String,
    /// Whether the worktree was once complete, so that work may be in it.
    ready: bool,
    /// Whether it was taken away.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    removed: bool,
    /// What all worktrees of the repository share, where the task was begun in one that can be removed; else empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    common: String,
    /// The machine's start after which it was last looked after; empty where that is not known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    boot: String,
    /// What was lost of it, as long as it is not known that the task was told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    untold: Option<Untold>,
}

/// A loss of which a task is to be told. Whoever found it may have been killed before that.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Untold {
    by: Loss,
    /// How many files were brought back, once that was done.
    brought_back: Option<Result<u32, String>>,
}

impl Record {
    fn path(task: &str, state_home: &Path) -> PathBuf {
        state_home.join("worktrees").join(format!("{task}.json"))
    }

    fn read(path: &Path) -> Result<Record, String> {
        let wrong = |error: String| {
            format!("cannot read {}: {error}; it says where the task's worktree is", path.display())
        };
        let bytes = fs::read(path).map_err(|error| wrong(error.to_string()))?;
        serde_json::from_slice(&bytes).map_err(|error| wrong(error.to_string()))
    }

    /// The user's repository: by the folder that the task was begun in, or, if that was a worktree which was removed since,
    /// by another of the same repository.
    fn find(&self, state_home: &Path) -> Result<Repository, String> {
        let folder = Path::new(&self.repository);
        match Repository::find(folder) {
            Err(reason) if !self.common.is_empty() && !folder.exists() => {
                another_worktree(Path::new(&self.common), state_home).ok_or(reason)
            }
            found => found,
        }
    }

    fn write(&self, path: &Path) -> Result<(), String> {
        let wrong = |error: String| format!("cannot write {}: {error}", path.display());
        let bytes = serde_json::to_vec(self).map_err(|error| wrong(error.to_string()))?;
        let (Some(folder), Some(name)) = (path.parent(), path.file_name().and_then(OsStr::to_str))
        else {
            return Err(wrong("it is no name of a file".to_owned()));
        };
        whole_file::write(folder, name, &bytes, Lasting::Yes)
            .map_err(|error| wrong(error.to_string()))
    }
}

/// A folder in which the user has the repository checked out.
fn another_worktree(common: &Path, state_home: &Path) -> Option<Repository> {
    let git = Git { settings: trusted(), ..Git::default() };
    let words = ["worktree", "list", "--porcelain", "-z"].map(OsString::from);
    // It may be bare, and is not looked for then.
    let mut place = OsString::from("--git-dir=");
    place.push(common);
    let listed = git.output([place].into_iter().chain(words).collect(), None).ok()?.out;
    let folders =
        listed.split(|byte| *byte == 0).filter_map(|line| line.strip_prefix(b"worktree "));
    let folders = folders.map(|folder| Path::new(OsStr::from_bytes(folder)));
    let own = state_home.canonicalize().unwrap_or_else(|_| state_home.to_owned());
    let mut theirs = folders.filter(|folder| !folder.starts_with(&own));
    theirs.find_map(|folder| Repository::find(folder).ok().filter(|found| found.top == *folder))
}

/// Where a task's worktree comes from, as it was written down when it was made.
#[derive(Debug, Clone)]
pub(crate) struct Origin {
    /// The top folder of the user's repository: where the task was begun, or, if that was a worktree which is gone, another
    /// one of the same repository.
    pub(crate) repository: PathBuf,
    /// The top folder that the task was begun in.
    pub(crate) begun_in: PathBuf,
    /// The commit the task's branch began at.
    pub(crate) base: String,
    /// The folder below the top that the task was started in; may be empty.
    pub(crate) prefix: String,
    /// The task's branch.
    pub(crate) branch: String,
}

impl Origin {
    /// A git that trusts what the user trusts.
    pub(crate) fn git(&self) -> Git {
        Git { settings: trusted(), ..Git::default() }
    }
}

/// The origin of a task's worktree; none if it has none.
pub(crate) fn origin(task: &str, state_home: &Path) -> Option<Origin> {
    let record = Record::read(&Record::path(task, state_home)).ok()?;
    let begun_in = PathBuf::from(&record.repository);
    let is_gone = !record.common.is_empty() && !begun_in.exists();
    let another = is_gone.then(|| record.find(state_home)).and_then(Result::ok);
    Some(Origin {
        repository: another.map_or_else(|| begun_in.clone(), |found| found.top),
        begun_in,
        base: record.base,
        prefix: record.prefix,
        branch: branch_of(task),
    })
}

/// Writes down where the files of a task come from, for one that has no worktree here.
pub(crate) fn note_origin(
    task: &str,
    state_home: &Path,
    repository: &Path,
    base: &str,
    prefix: &str,
) -> Result<(), String> {
    check_task(task)?;
    let path = Record::path(task, state_home);
    let folder = path.parent().unwrap_or(state_home);
    fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let record = Record {
        repository: text(repository)?,
        base: base.to_owned(),
        prefix: prefix.to_owned(),
        ready: false,
        removed: false,
        common: String::new(),
        boot: String::new(),
        untold: None,
    };
    record.write(&path)
}

/// The top folder of the repository that a folder is in, and the folder with its objects.
pub(crate) fn objects_of(folder: &Path) -> Result<(PathBuf, PathBuf), String> {
    let git = Git { settings: trusted(), ..Git::default() };
    let ask = |asked: &[&str]| {
        let place: [OsString; 3] = ["-C".into(), folder.into(), "rev-parse".into()];
        let said = git.run(place.into_iter().chain(asked.iter().map(OsString::from)))?;
        Ok::<_, String>(PathBuf::from(said.strip_suffix('\n').unwrap_or(&said)))
    };
    let top = ask(&["--show-toplevel"])?;
    let objects = ask(&["--path-format=absolute", "--git-path", "objects"])?;
    Ok((top, objects))
}

/// Why a repository cannot be used before its first commit.
const NO_COMMIT: &str = "the branch that is checked out has no commit";

/// What the names of tasks' branches begin with. Where a branch has this very name, git can make none of them.
const FOLDER: &str = "drivetrain";

fn branch_of(task: &str) -> String {
    format!("{FOLDER}/{task}")
}

pub(crate) fn worktree_of(task: &str, state_home: &Path) -> PathBuf {
    state_home.join("worktrees").join(task)
}

fn create(task: &str, repository: &Repository, state_home: &Path) -> Result<Workspace, String> {
    let branch = branch_of(task);
    if repository.has_branch(&branch)? {
        return Err(format!(
            "the repository {} already has a branch {branch}, and nothing is known of its worktree; rename \
             the branch (git branch -m {branch} NAME) and start again",
            repository.top.display()
        ));
    }
    let folder = state_home.join("worktrees");
    fs::create_dir_all(&folder)
        .map_err(|error| format!("cannot make the folder {}: {error}", folder.display()))?;
    let record = Record {
        repository: text(&repository.top)?,
        base: repository.head.clone(),
        prefix: repository.prefix.clone(),
        ready: false,
        removed: false,
        common: repository.shared_by_worktrees()?,
        boot: String::new(),
        untold: None,
    };
    record.write(&Record::path(task, state_home))?;
    complete(task, record, repository, state_home, Branch::Absent, &|_| Ok(()))
}

/// Whether the task's branch is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Branch {
    /// It was not a moment ago.
    Absent,
    /// It may be: an earlier call made it, or not.
    Unknown,
}

/// Waits until nobody else makes a worktree: git reads those of others, and stumbles over one that is half made.
fn alone(state_home: &Path) -> Result<FileLock, String> {
    let path = state_home.join("worktrees.lock");
    let wrong = |error: std::io::Error| format!("cannot use {}: {error}", path.display());
    let lock = File::options().create(true).append(true).open(&path).map_err(wrong)?;
    FileLock::wait(lock).map_err(wrong)
}

/// Why a task cannot go on where it works: its folder is gone, its repository or drivetrain's own folder was moved.
pub fn hinders(task: &str, workspace: &Workspace, state_home: &Path) -> Option<String> {
    if workspace.kind == WorkspaceKind::InPlace {
        let path = workspace.path.as_ref()?;
        let is_gone = matches!(Path::new(path).try_exists(), Ok(false));
        return is_gone.then(|| {
            format!(
                "it works in {path}, which is gone; put the folder back, or mount what holds it"
            )
        });
    }
    // A task that works in the files of another has no record.
    let record = Record::read(&Record::path(task, state_home)).ok()?;
    let (folder, path) = (worktree_of(task, state_home), workspace.path.as_ref()?);
    if let Ok(here) = folder.canonicalize()
        && !Path::new(path).starts_with(&here)
        && !Path::new(path).exists()
    {
        return Some(format!(
            "it works in {path}, which is gone, and its worktree is in {}: drivetrain's folder was moved; move it back, \
             or have a link at its old place lead to it",
            here.display()
        ));
    }
    let reason = record.find(state_home).err()?;
    Some(format!(
        "the repository {} of its worktree cannot be used: {reason}; put it back where it was",
        record.repository
    ))
}

/// Looks after the worktree of a task that is taken up again, once after each start of the machine and whenever it is gone:
/// what was lost of its last checkpoint is brought back. None where nothing can have been lost. The same is said again until
/// it is `told`.
pub fn taken_up(task: &str, state_home: &Path) -> Option<(Loss, Result<u32, String>)> {
    let path = Record::path(task, state_home);
    let record = Record::read(&path).ok()?;
    let boot = process::boot();
    let is_gone = !worktree_of(task, state_home).exists();
    let is_other_start = !boot.is_empty() && record.boot != boot && !record.removed;
    if !record.ready {
        return None;
    }
    let mut before = None;
    match &record.untold {
        Some(Untold { by, brought_back: Some(found) }) if !is_gone && !is_other_start => {
            return Some((*by, found.clone()));
        }
        Some(untold) => before = Some(untold.clone()),
        None if !is_gone && !is_other_start => return None,
        // The first one that looks after a worktree of an older drivetrain.
        None if !is_gone && record.boot.is_empty() => {
            let seen = Record { boot: boot.to_owned(), ..record };
            return seen.write(&path).err().map(|reason| (Loss::Restart, Err(reason)));
        }
        None => {}
    }
    let by = match &before {
        Some(untold) => untold.by,
        None if is_other_start => Loss::Restart,
        None => Loss::Folder,
    };
    // Written before anything is brought back: after that nothing would tell that it was lost.
    let begun = Record { untold: Some(Untold { by, brought_back: None }), ..record };
    let found = begun.write(&path).and_then(|()| bring_back(task, begun.clone(), state_home));
    let found = match (found, before.and_then(|untold| untold.brought_back)) {
        (Ok(count), Some(Ok(more))) => Ok(count.saturating_add(more)),
        (found, _) => found,
    };
    let removed = begun.removed && found.is_err();
    let untold = Some(Untold { by, brought_back: Some(found.clone()) });
    // Whatever came of it: a person is told, and looks at it only once.
    let looked_after = Record { boot: boot.to_owned(), removed, untold, ..begun };
    Some((by, looked_after.write(&path).and(found)))
}

/// The task was told of what it lost, or need not be.
pub fn told(task: &str, state_home: &Path) {
    let path = Record::path(task, state_home);
    if let Ok(record) = Record::read(&path)
        && record.untold.is_some()
    {
        // Should it fail, the task is told once more.
        let _ = Record { untold: None, ..record }.write(&path);
    }
}

fn bring_back(task: &str, record: Record, state_home: &Path) -> Result<u32, String> {
    let repository = record.find(state_home)?;
    let cancel = Cancel::new();
    let put_back = Cell::new(0);
    let fill = |folder: &Path| {
        let store = Store::open(task, state_home, &cancel)?;
        store.put_back(folder).map(|count| put_back.set(count))
    };
    let is_there = worktree_of(task, state_home).exists();
    let workspace = complete(task, record, &repository, state_home, Branch::Unknown, &fill)?;
    let (store, folder) = Store::of(task, &workspace, state_home, &cancel)?;
    let lost = if is_there { store.bring_back(&folder)?.len() } else { put_back.get() };
    Ok(u32::try_from(lost).unwrap_or(u32::MAX))
}

/// Has what git wrote about a new worktree on the disk. Its files are another matter: the first checkpoint holds them.
fn make_lasting(worktree: &Path) -> std::io::Result<()> {
    let link = worktree.join(".git");
    let about = fs::read_to_string(&link)?;
    let about = worktree.join(about.trim_end().trim_start_matches("gitdir: "));
    for entry in fs::read_dir(&about)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            File::open(entry.path())?.sync_all()?;
        }
    }
    File::open(&link)?.sync_all()?;
    for folder in [Some(worktree), worktree.parent(), Some(&*about), about.parent()] {
        folder.map_or(Ok(()), |folder| File::open(folder)?.sync_all())?;
    }
    Ok(())
}

/// Finds the worktree of an earlier call, and completes or repairs it.
fn reopen(
    task: &str,
    record: Record,
    folder: &Path,
    state_home: &Path,
) -> Result<Workspace, String> {
    let repository = record.find(state_home).map_err(|reason| {
        format!(
            "the task's worktree belongs to the repository {}, which cannot be used: {reason}; put the \
             repository back where it was",
            record.repository
        )
    })?;
    // The user may have removed the folder since; the worktree has its own.
    if folder.canonicalize().is_ok_and(|folder| !folder.starts_with(&record.repository)) {
        return Err(format!(
            "the task was started in {}, and is now asked for in {}; start it in the same repository",
            record.repository,
            folder.display()
        ));
    }
    complete(task, record, &repository, state_home, Branch::Unknown, &|_| Ok(()))
}

/// Brings a recorded worktree to its end state, from whatever state it is in; `fill` gives a new one its files.
fn complete(
    task: &str,
    mut record: Record,
    repository: &Repository,
    state_home: &Path,
    known: Branch,
    fill: &dyn Fn(&Path) -> Result<(), String>,
) -> Result<Workspace, String> {
    let (branch, path) = (branch_of(task), worktree_of(task, state_home));
    if record.ready && path.exists() {
        let repair = || {
            // It complains about a missing link even as it puts the link back, so only the outcome counts.
            let said = repository.git(["worktree".into(), "repair".into(), path.clone().into()]);
            if is_worktree(&path) { Ok(()) } else { Err(said.err().unwrap_or_default()) }
        };
        if !is_worktree(&path) {
            // Git would write through it.
            let link = path.join(".git");
            if fs::symlink_metadata(&link).is_ok_and(|meta| meta.is_symlink() || meta.nlink() > 1) {
                let _ = fs::remove_file(&link);
            }
            repair().map_err(|reason| {
                format!(
                    "the folder {} is no longer a worktree of {}, and git cannot repair it ({reason}); its files \
                     are untouched: move what you need out of it, rename the folder, and continue",
                    path.display(),
                    record.repository
                )
            })?;
        }
    } else {
        if path.exists() {
            // Half made, so nobody has worked in it; it is kept all the same.
            set_aside(&path)?;
        }
        if known == Branch::Unknown {
            clear_half_made(repository, task)?;
        }
        let has_branch = match known {
            Branch::Unknown => repository.has_branch(&branch)?,
            // Git would start another process for it.
            Branch::Absent => repository.add_branch(&branch, &record.base),
        };
        if known == Branch::Unknown
            && let Some(other) = repository.stands_for(&branch)
        {
            return Err(format!(
                "the task's branch {branch} is only another name of {other}, and work in a worktree of it would go there; \
                 take the name away (git symbolic-ref --delete refs/heads/{branch}) and continue"
            ));
        }
        let add = |has_branch: bool| {
            if has_branch && repository.add_worktree(task, &path, &branch) {
                return Ok(String::new());
            }
            let mut arguments: Vec<OsString> =
                ["worktree", "add", "--quiet", "--force", "--force"].map(OsString::from).to_vec();
            if has_branch {
                arguments.extend([path.clone().into(), branch.clone().into()]);
            } else {
                arguments.extend(["-b".into(), branch.clone().into(), path.clone().into()]);
                arguments.push(record.base.clone().into());
            }
            repository.git(arguments)
        };
        let alone = alone(state_home)?;
        let mut made = add(has_branch);
        if made.is_err() && clear_half_made_of_others(repository, state_home) {
            made = add(repository.has_branch(&branch)?);
        }
        drop(alone);
        made.map_err(|reason| {
            let rename = match repository.has_branch(FOLDER) {
                Ok(true) => format!("rename the branch (git branch -m {FOLDER} NAME), or "),
                _ => String::new(),
            };
            format!(
                "cannot make a worktree at {}: {reason}; {rename}set kind = \"in_place\" under [workspace] to \
                 work without one",
                path.display()
            )
        })?;
        // What setup commands made in another folder is not here.
        let mark = setup::mark(task, state_home);
        match fs::remove_file(&mark) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(format!("cannot remove {}: {error}", mark.display()));
            }
            _ => {}
        }
        record.boot = process::boot().to_owned();
        record.ready = true;
        record.removed = false;
        let ready = fill(&path).and_then(|()| {
            make_lasting(&path)
                .map_err(|error| format!("cannot sync the worktree {}: {error}", path.display()))?;
            record.write(&Record::path(task, state_home))
        });
        if ready.is_err() {
            // Nobody has worked in it, and on a full disk it takes the room that is waited for.
            let _ = fs::remove_dir_all(&path);
        }
        ready?;
    }
    let inside = path.join(&record.prefix);
    let real = path.canonicalize().map_err(|error| format!("{}: {error}", path.display()))?;
    // Seen before anything is made: a worker may have put a link there.
    let nearest = inside.ancestors().find_map(|above| above.canonicalize().ok());
    if !nearest.is_some_and(|nearest| nearest.starts_with(&real)) {
        return Err(format!(
            "the folder {:?} of the repository is a link that leads out of it; start the task elsewhere",
            record.prefix
        ));
    }
    fs::create_dir_all(&inside)
        .map_err(|error| format!("cannot make the folder {}: {error}", inside.display()))?;
    let inside = inside.canonicalize().map_err(|error| format!("{}: {error}", inside.display()))?;
    Ok(Workspace {
        kind: WorkspaceKind::Worktree,
        path: Some(text(&inside)?),
        branch: Some(branch),
        base: Some(record.base),
    })
}

/// Whether git sees this very folder as the top of a worktree. What is checked out there is the worker's business.
fn is_worktree(path: &Path) -> bool {
    let arguments = ["-C".into(), path.into(), "rev-parse".into(), "--show-toplevel".into()];
    let top = Git::default().run(arguments);
    top.is_ok_and(|top| path.canonicalize().is_ok_and(|path| Path::new(top.trim_end()) == path))
}

/// What a killed git or a loss of power left of a worktree in which nobody has worked. What git knows of it may be empty, and
/// then git cannot even list the worktrees of the repository.
fn clear_half_made(repository: &Repository, task: &str) -> Result<(), String> {
    let common = repository.common()?;
    // Nobody else gives this branch a name; a git that was killed while it did left its lock.
    let _ = fs::remove_file(common.join("refs/heads").join(format!("{}.lock", branch_of(task))));
    let about = repository.about(task)?;
    if is_half_made(&about) {
        fs::remove_dir_all(&about)
            .map_err(|error| format!("cannot remove {}: {error}", about.display()))?;
    }
    Ok(())
}

/// Whether whoever wrote down what git knows of a worktree was killed meanwhile.
fn is_half_made(about: &Path) -> bool {
    let is_empty = |name| fs::metadata(about.join(name)).map_or(true, |meta| meta.len() == 0);
    about.is_dir() && ["HEAD", "commondir", "gitdir"].into_iter().any(is_empty)
}

/// Takes away what git began to know of worktrees of other tasks here whose processes were killed meanwhile; whether there was
/// any. With one of them git can make no other. To be called alone: nobody here makes one just now.
fn clear_half_made_of_others(repository: &Repository, state_home: &Path) -> bool {
    let Ok(common) = repository.common() else { return false };
    let known = fs::read_dir(common.join("worktrees")).into_iter().flatten().flatten();
    let is_abandoned = |about: &fs::DirEntry| {
        let record = Record::path(&about.file_name().to_string_lossy(), state_home);
        is_half_made(&about.path()) && Record::read(&record).is_ok_and(|record| !record.ready)
    };
    known.filter(is_abandoned).filter(|about| fs::remove_dir_all(about.path()).is_ok()).count() > 0
}

fn set_aside(path: &Path) -> Result<(), String> {
    for number in 1..1000 {
        let mut aside = path.as_os_str().to_owned();
        aside.push(format!(".half-made-{number}"));
        if !Path::new(&aside).exists() {
            return fs::rename(path, &aside)
                .map_err(|error| format!("cannot rename {}: {error}", path.display()));
        }
    }
    Err(format!("there are too many half-made folders beside {}; remove some", path.display()))
}

/// A repository with at least one commit.
pub(crate) struct Repository {
    pub(crate) top: PathBuf,
    pub(crate) prefix: String,
    pub(crate) head: String,
    pub(crate) git: Git,
    /// The same as its files say it, where that is enough: each question to git is a process.
    plain: Option<sandbox::git::Repository>,
}

impl Repository {
    /// The repository that a folder is in, ready for a checkout; the error says why there is none to use.
    pub(crate) fn find(folder: &Path) -> Result<Repository, String> {
        let mut found = Repository::look(folder)?;
        if found.plain.is_some() {
            return Ok(found);
        }
        // Filters named in the repository's own settings would run at checkout.
        let names = ["config", "--list", "--name-only", "-z"].map(OsString::from);
        let names = found.output(names)?.out;
        for name in names.split(|byte| *byte == 0).filter(|name| name.starts_with(b"filter.")) {
            let name = std::str::from_utf8(name)
                .map_err(|_| "a filter in its settings has a name that is not UTF-8".to_owned())?;
            let value = if name.ends_with(".required") { "false" } else { "" };
            found.git.settings.push(format!("{name}={value}"));
        }
        Ok(found)
    }

    /// The same for whoever only reads.
    fn look(folder: &Path) -> Result<Repository, String> {
        let folder = folder.canonicalize().map_err(|error| error.to_string())?;
        let (plain, (git, top, head)) = match Repository::read(&folder) {
            Some((plain, Some(head))) => {
                let top = plain.top.clone();
                (Some(plain), (Git::default(), top, head))
            }
            Some((_, None)) => return Err(NO_COMMIT.to_owned()),
            None => (None, Repository::ask(&folder)?),
        };
        let prefix = folder.strip_prefix(&top).map_err(|_| {
            format!("the repository's settings claim that its files are in {}", top.display())
        })?;
        let prefix = text(prefix)?;
        Ok(Repository { top, prefix, head, git, plain })
    }

    /// What the files of a plain repository say, with its commit; none if it is new. Git has its own rules about folders of
    /// others, and about repositories of another file system than the folder's.
    fn read(folder: &Path) -> Option<(sandbox::git::Repository, Option<String>)> {
        let meta = fs::metadata(folder).ok()?;
        let plain =
            sandbox::git::Repository::find(folder).filter(sandbox::git::Repository::is_plain)?;
        let mut way = folder.ancestors().take_while(|above| above.starts_with(&plain.top));
        let is_near = way.all(|above| fs::metadata(above).is_ok_and(|it| it.dev() == meta.dev()));
        let head = plain.head();
        if head.is_none() && !plain.is_new() {
            return None;
        }
        (is_near && meta.uid() == geteuid().as_raw()).then_some((plain, head))
    }

    /// Asks git: first all at once, then one by one with the trust that the user gave in the settings of git, since the
    /// folder may be another's.
    fn ask(folder: &Path) -> Result<(Git, PathBuf, String), String> {
        let place: [OsString; 4] =
            ["-C".into(), folder.into(), "rev-parse".into(), "--show-toplevel".into()];
        // The folder's own name may have line ends in it, the commit's has none.
        let both = Git::default().run(place.into_iter().chain(["HEAD^{commit}".into()]));
        let both = both.ok().and_then(|both| {
            let (top, head) = both.strip_suffix('\n')?.rsplit_once('\n')?;
            // A file of that name would be given as it is.
            let is_commit = head.bytes().all(|byte| byte.is_ascii_hexdigit());
            is_commit.then(|| (PathBuf::from(top), head.to_owned()))
        });
        if let Some((top, head)) = both {
            return Ok((Git::default(), top, head));
        }
        let git = Git { settings: trusted(), ..Git::default() };
        let inside = |git: &Git, arguments: &[&str]| {
            let place: [OsString; 2] = ["-C".into(), folder.into()];
            git.run(place.into_iter().chain(arguments.iter().map(OsString::from)))
        };
        let top = inside(&git, &["rev-parse", "--show-toplevel"])
            .map_err(|reason| format!("it is in no git repository ({reason})"))?;
        let top = PathBuf::from(top.strip_suffix('\n').unwrap_or(&top));
        let head = inside(&git, &["rev-parse", "--verify", "--quiet", "HEAD^{commit}"])
            .map_err(|_| NO_COMMIT.to_owned())?;
        Ok((git, top, head.trim_end().to_owned()))
    }

    pub(crate) fn git(
        &self,
        arguments: impl IntoIterator<Item = OsString>,
    ) -> Result<String, String> {
        let place: [OsString; 2] = ["-C".into(), self.top.clone().into()];
        self.git.run(place.into_iter().chain(arguments))
    }

    /// The same where what is printed is not always text.
    pub(crate) fn output(
        &self,
        arguments: impl IntoIterator<Item = OsString>,
    ) -> Result<Printed, String> {
        let place: [OsString; 2] = ["-C".into(), self.top.clone().into()];
        self.git.output(place.into_iter().chain(arguments).collect(), None)
    }

    /// What outlives this worktree if it is one that git can remove; else empty.
    fn shared_by_worktrees(&self) -> Result<String, String> {
        let is_linked = fs::symlink_metadata(self.top.join(".git")).is_ok_and(|git| git.is_file());
        if !is_linked {
            return Ok(String::new());
        }
        match &self.plain {
            Some(plain) => text(&plain.common),
            None => text(&self.common()?),
        }
    }

    /// What all working trees of the repository share.
    pub(crate) fn common(&self) -> Result<PathBuf, String> {
        let words = ["rev-parse", "--path-format=absolute", "--git-common-dir"];
        let common = self.git(words.map(OsString::from))?;
        Ok(PathBuf::from(common.trim_end_matches('\n')))
    }

    /// The folder of what git knows of a task's worktree.
    fn about(&self, task: &str) -> Result<PathBuf, String> {
        Ok(self.common()?.join("worktrees").join(task))
    }

    /// Whether a branch was made that is not there; if not, git can.
    fn add_branch(&self, branch: &str, commit: &str) -> bool {
        self.plain.as_ref().is_some_and(|plain| plain.add_branch(branch, commit).is_ok())
    }

    /// Whether a worktree was made of a branch that is there, by one process of git, which gives it its files; if not, git can
    /// make it by two.
    fn add_worktree(&self, task: &str, path: &Path, branch: &str) -> bool {
        let Some(plain) = &self.plain else { return false };
        if plain.add_worktree(task, path, branch).is_err() {
            return false;
        }
        let place: [OsString; 2] = ["-C".into(), path.into()];
        let fill = sandbox::git::FILL.map(OsString::from);
        let filled = self.git.run(place.into_iter().chain(fill)).is_ok();
        if !filled {
            plain.take_back_worktree(task, path);
        }
        filled
    }

    /// The ref that a branch is only another name of (`git symbolic-ref`): whatever git does with the branch, it does with
    /// that one.
    fn stands_for(&self, branch: &str) -> Option<String> {
        let words =
            ["symbolic-ref", "--quiet", &format!("refs/heads/{branch}")].map(OsString::from);
        let found = self.output(words).ok()?.out;
        Some(String::from_utf8_lossy(&found).trim_end().to_owned())
    }

    fn has_branch(&self, branch: &str) -> Result<bool, String> {
        if let Some(plain) = &self.plain {
            return Ok(plain.has_branch(branch));
        }
        let name = format!("refs/heads/{branch}");
        let format = "--format=%(refname)";
        // What a worker puts below that name need not be text.
        let found = self.output(["for-each-ref".into(), format.into(), OsString::from(&name)])?.out;
        Ok(found.strip_suffix(b"\n") == Some(name.as_bytes()))
    }
}

/// The folders that the user told git to trust, as settings.
pub(crate) fn trusted() -> Vec<String> {
    let trusted = Git::default()
        .run(["config".into(), "--global".into(), "--get-all".into(), "safe.directory".into()])
        .unwrap_or_default();
    trusted.lines().map(|folder| format!("safe.directory={folder}")).collect()
}

/// Task ids become file and branch names, so nothing else may be in them.
pub(crate) fn check_task(task: &str) -> Result<(), String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if task.is_empty() || task.len() > 100 || task.starts_with('-') || !task.chars().all(plain) {
        return Err(format!("{task:?} is not a task id: expected letters and digits"));
    }
    Ok(())
}

pub(crate) fn absolute(path: &Path) -> Result<PathBuf, String> {
    std::path::absolute(path).map_err(|error| format!("{}: {error}", path.display()))
}

pub(crate) fn text(path: &Path) -> Result<String, String> {
    let text = path.to_str().ok_or_else(|| format!("the path {} is not UTF-8", path.display()))?;
    Ok(text.to_owned())
}
