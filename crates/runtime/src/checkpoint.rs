//! Checkpoints: the whole state of a workspace, kept in a git directory of our own outside of it, and given back
//! exactly. Nothing in a workspace can make this git run anything, and the workspace's own repository is not touched.
//!
//! A checkpoint is a commit whose tree holds `files` (every file that is not ignored, new ones too) and `extra`
//! (what git does not keep: empty folders and unusual modes). What git ignores is neither kept nor touched.

mod extra;

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use machine::task::Workspace;
use machine::verdict::Checkpoint;

use crate::git::Git;
use crate::process::Cancel;
use crate::sandbox::masks;
use crate::workspace::{absolute, check_task, text, worktree_of};
use extra::Extra;

/// Keeps the state of a task's workspace and gives the checkpoint.
pub fn checkpoint(
    task: &str,
    workspace: &Workspace,
    reason: &str,
    state_home: &Path,
    cancel: &Cancel,
) -> Result<Checkpoint, String> {
    let (store, folder) = of_workspace(task, workspace, state_home, cancel)?;
    store.named(store.keep(&folder, reason)?)
}

/// Gives a task's workspace the state of a checkpoint; what it was before is kept as the one that is returned.
pub fn restore(
    task: &str,
    workspace: &Workspace,
    to: &str,
    state_home: &Path,
    cancel: &Cancel,
) -> Result<Checkpoint, String> {
    let (store, folder) = of_workspace(task, workspace, state_home, cancel)?;
    store.named(store.restore(&folder, to)?.undo)
}

/// The store of a task and the folder that is kept in it.
fn of_workspace<'a>(
    task: &str,
    workspace: &Workspace,
    state_home: &Path,
    cancel: &'a Cancel,
) -> Result<(Store<'a>, PathBuf), String> {
    let mut store = Store::open(task, state_home, cancel)?;
    let folder = store.folder(workspace)?;
    if let Some(path) = &workspace.path {
        let levels = Path::new(path).ancestors().take_while(|level| level.starts_with(&folder));
        for absent in levels.flat_map(masks::not_there) {
            if let Ok(name) = absent.strip_prefix(&folder) {
                store.left_out.push(name.to_owned());
            }
        }
    }
    Ok((store, folder))
}

/// The checkpoints of one task.
#[derive(Debug)]
pub struct Store<'a> {
    task: String,
    state_home: PathBuf,
    path: PathBuf,
    /// Paths below the workspace that are nobody's work: what masks left behind.
    left_out: Vec<PathBuf>,
    cancel: &'a Cancel,
}

/// One checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Point {
    /// Its place among the task's checkpoints, from 1.
    pub number: usize,
    /// Its name.
    pub commit: String,
    /// When it was made, in seconds since the epoch.
    pub time: i64,
    /// Why it was made.
    pub reason: String,
}

/// One path that differs between two checkpoints.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Change {
    /// The path below the workspace; not always text.
    pub path: OsString,
    /// What happens to it on the way from the one to the other.
    pub kind: ChangeKind,
}

/// What happens to a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ChangeKind {
    /// It is new.
    Added,
    /// It is gone.
    Removed,
    /// Content, mode or kind is another.
    Changed,
}

/// What a restore did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    /// The state before it: restoring this undoes it.
    pub undo: String,
    /// What was changed.
    pub changes: Vec<Change>,
}

const CHECKPOINTS: &str = "refs/heads/checkpoints";
/// Git knows this tree without having it.
pub(crate) const EMPTY_TREE: &str = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";
/// How deep repositories inside repositories are kept.
const MAX_NESTING: usize = 16;

impl Store<'_> {
    /// The checkpoints of a task, below `state_home`; made if there are none yet.
    pub fn open<'a>(
        task: &str,
        state_home: &Path,
        cancel: &'a Cancel,
    ) -> Result<Store<'a>, String> {
        check_task(task)?;
        let state_home = absolute(state_home)?;
        let path = state_home.join("checkpoints").join(format!("{task}.git"));
        let left_out = Vec::new();
        let store = Store { task: task.to_owned(), state_home, path, left_out, cancel };
        let wrong = |error: std::io::Error| format!("cannot use {}: {error}", store.path.display());
        let info = store.path.join("info");
        if !info.join("attributes").exists() {
            fs::create_dir_all(&store.path).map_err(wrong)?;
            let path = store.path.clone().into();
            Git { cancel: Some(cancel.clone()), ..Git::default() }.run([
                "init".into(),
                "--quiet".into(),
                "--bare".into(),
                "--template=".into(),
                path,
            ])?;
            fs::create_dir_all(&info).map_err(wrong)?;
            // These win over attributes in the workspace: bytes are kept as they are.
            let attributes = "* -text !eol -ident -filter !working-tree-encoding\n";
            fs::write(info.join("attributes"), attributes).map_err(wrong)?;
        }
        Ok(store)
    }

    /// The folder that is kept: of a worktree all of it, wherever in it the task was started.
    pub fn folder(&self, workspace: &Workspace) -> Result<PathBuf, String> {
        let Some(path) = &workspace.path else {
            return Err(
                "there is nothing to keep: the task's workspace is of the kind \"none\"".to_owned()
            );
        };
        let whole = worktree_of(&self.task, &self.state_home);
        Ok(match whole.canonicalize() {
            Ok(whole) if Path::new(path).starts_with(&whole) => whole,
            _ => PathBuf::from(path),
        })
    }

    /// Keeps the state of a folder as the next checkpoint.
    pub fn keep(&self, folder: &Path, reason: &str) -> Result<String, String> {
        let wrong = |said: String| format!("cannot keep the state of {}: {said}", folder.display());
        let index = self.index();
        let files = self.keep_files(folder, &index, 0).map_err(wrong)?;
        let extra = Extra::of(folder, &self.listed(folder, &index)?, &self.loose(folder, &index)?)
            .map_err(wrong)?;
        let git = self.git(&self.path, &index)?;
        let print = |arguments: &[&str], stdin: Option<Vec<u8>>| {
            let arguments = arguments.iter().map(OsString::from).collect();
            let printed = git.output(arguments, stdin)?;
            Ok::<String, String>(String::from_utf8_lossy(&printed.out).trim_end().to_owned())
        };
        let extra = print(&["hash-object", "-w", "--stdin"], Some(extra.to_bytes()))?;
        let top = format!("100644 blob {extra}\textra\n040000 tree {files}\tfiles\n");
        let tree = print(&["mktree"], Some(top.into_bytes()))?;
        let before = print(&["for-each-ref", "--format=%(objectname)", CHECKPOINTS], None)?;
        let mut arguments = vec!["commit-tree", &tree, "-m", reason];
        if !before.is_empty() {
            arguments.extend(["-p", &before]);
        }
        let commit = print(&arguments, None)?;
        print(&["update-ref", CHECKPOINTS, &commit], None)?;
        Ok(commit)
    }

    /// All checkpoints, the oldest first.
    pub fn points(&self) -> Result<Vec<Point>, String> {
        let git = self.git(&self.path, &self.index())?;
        if git.run(["for-each-ref".into(), CHECKPOINTS.into()])?.is_empty() {
            return Ok(Vec::new());
        }
        let format = "--format=%H %ct %s";
        let listed =
            git.run(["log".into(), "--reverse".into(), format.into(), CHECKPOINTS.into()])?;
        let points = listed.lines().enumerate().filter_map(|(n, line)| {
            let mut parts = line.splitn(3, ' ');
            Some(Point {
                number: n + 1,
                commit: parts.next()?.to_owned(),
                time: parts.next()?.parse().ok()?,
                reason: parts.next().unwrap_or_default().to_owned(),
            })
        });
        Ok(points.collect())
    }

    /// The hash of all files of a checkpoint.
    pub fn tree(&self, commit: &str) -> Result<String, String> {
        let git = self.git(&self.path, &self.index())?;
        let name = format!("{}:files", checked(commit)?);
        let tree = git.run(["rev-parse".into(), "--verify".into(), name.into()])?;
        Ok(tree.trim_end().to_owned())
    }

    /// What differs between two checkpoints, by path.
    pub fn changes(&self, from: &str, to: &str) -> Result<Vec<Change>, String> {
        let (before, after) = (self.tree(from)?, self.tree(to)?);
        let arguments = ["diff-tree", "-r", "-z", "--no-renames", &before, &after];
        let git = self.git(&self.path, &self.index())?;
        let printed = git.output(arguments.iter().map(OsString::from).collect(), None)?;
        let mut parts = printed.out.split(|byte| *byte == 0);
        let mut changes = Vec::new();
        while let (Some(about), Some(path)) = (parts.next(), parts.next()) {
            let kind = match about.last() {
                Some(b'A') => ChangeKind::Added,
                Some(b'D') => ChangeKind::Removed,
                _ => ChangeKind::Changed,
            };
            changes.push(Change { path: OsStr::from_bytes(path).to_owned(), kind });
        }
        let (before, after) = (self.extra(from)?, self.extra(to)?);
        let known: Vec<OsString> = changes.iter().map(|change| change.path.clone()).collect();
        changes.extend(before.changes(&after).into_iter().filter(|c| !known.contains(&c.path)));
        changes.sort();
        Ok(changes)
    }

    /// What differs between two checkpoints, as a patch. Bytes: files are not always text.
    pub fn patch(&self, from: &str, to: &str) -> Result<Vec<u8>, String> {
        let (before, after) = (self.tree(from)?, self.tree(to)?);
        let arguments =
            ["diff", "--no-ext-diff", "--no-textconv", "--no-color", "--binary", &before, &after];
        let git = self.git(&self.path, &self.index())?;
        Ok(git.output(arguments.iter().map(OsString::from).collect(), None)?.out)
    }

    /// How many lines were added and removed between two checkpoints; a file that is no text has none.
    pub fn diff_lines(&self, from: &str, to: &str) -> Result<u64, String> {
        let (before, after) = (self.tree(from)?, self.tree(to)?);
        let arguments = [
            "diff-tree",
            "-r",
            "-z",
            "--numstat",
            "--no-renames",
            "--no-ext-diff",
            &before,
            &after,
        ];
        let git = self.git(&self.path, &self.index())?;
        let printed = git.output(arguments.iter().map(OsString::from).collect(), None)?;
        let counts = printed.out.split(|byte| *byte == 0).map(|entry| {
            let mut parts = entry.split(|byte| *byte == b'\t').take(2);
            let mut next = || std::str::from_utf8(parts.next()?).ok()?.parse::<u64>().ok();
            next().unwrap_or(0).saturating_add(next().unwrap_or(0))
        });
        Ok(counts.fold(0, u64::saturating_add))
    }

    /// Where the content of all checkpoints is.
    pub(crate) fn objects(&self) -> PathBuf {
        self.path.join("objects")
    }

    /// Gives a folder the state of a checkpoint, exactly. The state before is kept first, so that this can be undone;
    /// what git ignores stays as it is.
    pub fn restore(&self, folder: &Path, to: &str) -> Result<Restored, String> {
        let target = self.tree(to)?;
        let undo = self.keep(folder, &format!("before going back to {}", short(to)))?;
        let changes = self.changes(&undo, to)?;
        let wrong = |said: String| {
            format!(
                "cannot give {} the state of {}: {said}; the state before is kept as {}",
                folder.display(),
                short(to),
                short(&undo)
            )
        };
        self.check_out(folder, &self.tree(&undo)?, &target).map_err(wrong)?;
        self.extra(to)?.apply(folder, &self.extra(&undo)?).map_err(wrong)?;
        // Seen, not believed: what is there now is kept again and compared.
        let after = self.keep(folder, &format!("went back to {}", short(to)))?;
        let left = self.changes(&after, to)?;
        if let Some(first) = left.first() {
            let path = first.path.to_string_lossy();
            return Err(wrong(format!("{} paths differ still, {path} first", left.len())));
        }
        Ok(Restored { undo, changes })
    }

    /// Writes the files of a checkpoint into an empty folder.
    pub fn copy(&self, commit: &str, folder: &Path) -> Result<(), String> {
        let index = self.path.join("index.copy");
        let _ = fs::remove_file(&index);
        let git = self.git(folder, &index)?;
        quiet(&git, &["read-tree", "-u", "--reset", &self.tree(commit)?])?;
        self.extra(commit)?.apply(folder, &Extra::default())
    }

    fn named(&self, name: String) -> Result<Checkpoint, String> {
        Ok(Checkpoint { tree: self.tree(&name)?, name })
    }

    fn index(&self) -> PathBuf {
        self.path.join("index")
    }

    /// Turns the files of one tree into those of another, where the folder holds the first.
    fn check_out(&self, folder: &Path, from: &str, to: &str) -> Result<(), String> {
        // An index of its own: repositories inside the workspace are plain files to it.
        let index = self.path.join("index.restore");
        let _ = fs::remove_file(&index);
        let git = self.git(folder, &index)?;
        quiet(&git, &["read-tree", from])?;
        let _ = git.run(["update-index", "-q", "--refresh"].map(OsString::from));
        quiet(&git, &["read-tree", "-u", "--reset", to])
    }

    fn extra(&self, commit: &str) -> Result<Extra, String> {
        let name = format!("{}:extra", checked(commit)?);
        let git = self.git(&self.path, &self.index())?;
        let printed = git.output(vec!["cat-file".into(), "blob".into(), name.into()], None)?;
        Extra::from_bytes(&printed.out)
    }

    /// Writes a folder as a tree, repositories inside it with their files.
    fn keep_files(&self, folder: &Path, index: &Path, depth: usize) -> Result<String, String> {
        if depth > MAX_NESTING {
            return Err(format!("repositories are nested more than {MAX_NESTING} deep"));
        }
        // Only this task's owner works here, so a lock can only be left from a killed git.
        let _ = fs::remove_file(with_end(index, ".lock"));
        let git = self.git(folder, index)?;
        let add = ["add", "--all", "--no-warn-embedded-repo", "--", "."];
        let mut add = add.map(OsString::from).to_vec();
        for path in self.left_out.iter().filter(|_| depth == 0) {
            let mut except = OsString::from(":(exclude,literal)");
            except.push(path);
            add.push(except);
        }
        complete(&git, add)?;
        let staged =
            git.output(["ls-files", "--stage", "-z"].map(OsString::from).to_vec(), None)?;
        let nested: Vec<&OsStr> = staged
            .out
            .split(|byte| *byte == 0)
            .filter(|entry| entry.starts_with(b"160000 "))
            .filter_map(|entry| {
                let tab = entry.iter().position(|byte| *byte == b'\t')?;
                Some(OsStr::from_bytes(&entry[tab + 1..]))
            })
            .collect();
        if nested.is_empty() {
            return git.run(["write-tree".into()]).map(|tree| tree.trim_end().to_owned());
        }
        // The index itself stays as git made it, so that the next checkpoint is as quick as this one.
        let joined = with_end(index, ".joined");
        fs::copy(index, &joined).map_err(|error| format!("{}: {error}", joined.display()))?;
        let git = self.git(folder, &joined)?;
        for (number, name) in nested.iter().enumerate() {
            let inner = with_end(index, &format!(".{number}"));
            let tree = self.keep_files(&folder.join(name), &inner, depth + 1)?;
            git.run([
                "update-index".into(),
                "--force-remove".into(),
                "--".into(),
                (*name).to_owned(),
            ])?;
            let mut prefix = OsString::from("--prefix=");
            prefix.push(name);
            prefix.push("/");
            git.run(["read-tree".into(), prefix, tree.into()])?;
        }
        git.run(["write-tree".into()]).map(|tree| tree.trim_end().to_owned())
    }

    /// The files of the index, as bytes.
    fn listed(&self, folder: &Path, index: &Path) -> Result<Vec<OsString>, String> {
        let git = self.git(folder, index)?;
        names(&git, &["ls-files", "-z"])
    }

    /// Folders without a file of their own that are not ignored.
    fn loose(&self, folder: &Path, index: &Path) -> Result<Vec<OsString>, String> {
        let git = self.git(folder, index)?;
        names(&git, &["ls-files", "-z", "--others", "--exclude-standard", "--directory"])
    }

    fn git(&self, folder: &Path, index: &Path) -> Result<Git, String> {
        let env = vec![
            ("GIT_DIR".to_owned(), text(&self.path)?),
            ("GIT_WORK_TREE".to_owned(), text(folder)?),
            ("GIT_INDEX_FILE".to_owned(), text(index)?),
            // Attributes are read from the empty tree: those of the workspace change nothing and break nothing.
            ("GIT_ATTR_SOURCE".to_owned(), EMPTY_TREE.to_owned()),
        ];
        let settings = vec!["core.bare=false".to_owned()];
        Ok(Git { env, settings, cwd: Some(folder.to_owned()), cancel: Some(self.cancel.clone()) })
    }
}

/// Any word on standard error means that something was left out, whatever the exit code.
fn quiet(git: &Git, arguments: &[&str]) -> Result<(), String> {
    complete(git, arguments.iter().map(OsString::from).collect())
}

fn complete(git: &Git, arguments: Vec<OsString>) -> Result<(), String> {
    let printed = git.output(arguments, None)?;
    if printed.complaint.is_empty() {
        return Ok(());
    }
    Err(format!("not everything was done: {}", printed.complaint))
}

fn names(git: &Git, arguments: &[&str]) -> Result<Vec<OsString>, String> {
    let printed = git.output(arguments.iter().map(OsString::from).collect(), None)?;
    let parts = printed.out.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    Ok(parts.map(|name| OsString::from_vec(name.to_vec())).collect())
}

/// Names of checkpoints come from outside; what is no hash could mean something else to git.
fn checked(commit: &str) -> Result<&str, String> {
    let is_hash = commit.len() >= 4 && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_hash { Ok(commit) } else { Err(format!("{commit:?} is not the name of a checkpoint")) }
}

fn short(commit: &str) -> &str {
    commit.get(..10).unwrap_or(commit)
}

fn with_end(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    PathBuf::from(name)
}
