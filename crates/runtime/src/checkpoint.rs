//! Checkpoints: the whole state of a workspace, kept in a git directory of our own outside of it, and given back
//! exactly. Nothing in a workspace can make this git run anything, and the workspace's own repository is not touched.
//!
//! A checkpoint is a commit whose tree holds `files` (every file that is not ignored, new ones too) and `extra`
//! (what git does not keep: empty folders and unusual modes). What git ignores is neither kept nor touched.

mod adopt;
mod begun;
mod behind;
mod beside;
mod bring_back;
mod compare;
mod extra;
mod fork;
pub mod in_the_way;
mod index;
mod inherit;
mod limits;
mod objects;
mod pack;
mod repositories;
mod unborn;
mod unkept;
mod untouched;
mod writable;

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, FileTimes};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use machine::effect::InTheWay;
use machine::task::Workspace;
use machine::verdict::Checkpoint;

use crate::clock::{Clock, SystemClock};
use crate::git::{Git, Printed, borrowing};
use crate::process::Cancel;
use crate::sandbox::masks;
use crate::whole_file::{self, Lasting};
use crate::workspace::{absolute, check_task, text, worktree_of};
pub use compare::{Change, ChangeKind, Lines};
use extra::Extra;
use index::Mode;
pub use limits::{DEFAULT_MAX_FILE, MAX_FILE_VARIABLE};
use objects::{FOLDER, Name, Tree};
pub(crate) use objects::{Hasher, Kind, hex};
pub use unkept::Unkept;

/// Keeps the state of a task's workspace and gives the checkpoint.
pub fn checkpoint(
    task: &str,
    workspace: &Workspace,
    reason: &str,
    state_home: &Path,
    cancel: &Cancel,
) -> Result<Checkpoint, Unkept> {
    let (store, folder) = Store::of(task, workspace, state_home, cancel)?;
    let (name, seen) = store.keep_seen(&folder, reason)?;
    Ok(Checkpoint { name, tree: seen.content.files })
}

/// Which state a workspace is going back to, and the one before it, from the moment at which files change.
const GOING_BACK: &str = "going-back";

/// Forgets that a task was going back: it could not, and what is done with its files from here on is somebody's work.
pub fn gave_up_going_back(task: &str, state_home: &Path) {
    let _ = fs::remove_file(
        state_home.join("checkpoints").join(format!("{task}.git")).join(GOING_BACK),
    );
}

/// Gives a task's workspace the state of a checkpoint; what it was before is kept as the one that is returned. `before` holds that
/// one from the first try on: what a later one finds is neither the one state nor the other.
pub fn restore(
    task: &str,
    workspace: &Workspace,
    to: &str,
    in_the_way: InTheWay,
    before: &mut Option<String>,
    state_home: &Path,
    cancel: &Cancel,
) -> Result<Checkpoint, String> {
    let (store, folder) = Store::of(task, workspace, state_home, cancel)?;
    if before.is_none() {
        *before = store.cut_off(to);
    }
    let name = store.restore_with(&folder, to, in_the_way, before)?.undo;
    Ok(Checkpoint { tree: store.tree(&name)?, name })
}

/// The checkpoints of one task.
#[derive(Debug)]
pub struct Store<'a> {
    task: String,
    state_home: PathBuf,
    path: PathBuf,
    /// Paths below the workspace that are nobody's work: what masks left behind.
    left_out: Vec<PathBuf>,
    /// Objects of the user's repository that are read where they lie.
    borrowed: Option<PathBuf>,
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

/// What a folder holds, whether it is kept as a checkpoint or was only looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content {
    files: String,
    extra: Extra,
}

impl Content {
    /// The hash of all its files.
    pub fn tree(&self) -> &str {
        &self.files
    }

    /// The content of a tree alone, of which nothing is known that git does not keep.
    pub(crate) fn of_tree(tree: String) -> Content {
        Content { files: tree, extra: Extra::default() }
    }
}

/// A folder as an index sees it.
struct Seen {
    content: Content,
    /// Its files, by path.
    files: Vec<OsString>,
    /// Whether repositories inside it were joined into the tree, so that the index alone does not hold it.
    joined: bool,
}

/// The files of a folder, those of repositories inside it too.
#[derive(Default)]
struct Listing {
    tree: String,
    files: Vec<OsString>,
    /// Folders without a file of their own that are not ignored.
    loose: Vec<OsString>,
    joined: bool,
}

/// What a restore did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    /// The state before it: restoring this undoes it.
    pub undo: String,
    /// What was changed.
    pub changes: Vec<Change>,
}

/// Written last, so that where it is the rest is too.
const ATTRIBUTES: &str = "info/attributes";
/// An empty repository without a working tree, as `git init` makes it: that would be a process for each task. The
/// attributes win over those in the workspace: bytes are kept as they are.
const EMPTY: [(&str, &str); 3] = [
    ("HEAD", "ref: refs/heads/main\n"),
    ("config", "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = true\n"),
    (ATTRIBUTES, "* -text !eol -ident -filter !working-tree-encoding\n"),
];
/// What git writes here outlives a loss of power, all objects of a command by one sync: the journal names them after that.
const LASTING: [&str; 2] = ["core.fsync=loose-object,index,reference", "core.fsyncMethod=batch"];
const CHECKPOINTS: &str = "refs/heads/checkpoints";
/// Git knows this tree without having it.
pub(crate) const EMPTY_TREE: &str = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";
/// How deep repositories inside repositories are kept.
const MAX_NESTING: usize = 16;

impl<'s> Store<'s> {
    /// The store of a task and the folder that is kept in it.
    pub fn of(
        task: &str,
        workspace: &Workspace,
        state_home: &Path,
        cancel: &'s Cancel,
    ) -> Result<(Store<'s>, PathBuf), String> {
        let mut store = Store::open(task, state_home, cancel)?;
        let folder = store.folder(workspace)?;
        if let Some(path) = &workspace.path {
            let path = real(path);
            let levels = path.ancestors().take_while(|level| level.starts_with(&folder));
            for absent in levels.flat_map(masks::not_there) {
                if let Ok(name) = absent.strip_prefix(&folder) {
                    store.left_out.push(name.to_owned());
                }
            }
        }
        Ok((store, folder))
    }

    /// The checkpoints of a task, below `state_home`; made if there are none yet.
    pub fn open(task: &str, state_home: &Path, cancel: &'s Cancel) -> Result<Store<'s>, String> {
        check_task(task)?;
        let state_home = absolute(state_home)?;
        let path = state_home.join("checkpoints").join(format!("{task}.git"));
        let left_out = Vec::new();
        let task = task.to_owned();
        let store = Store { task, state_home, path, left_out, borrowed: None, cancel };
        if !store.path.join(ATTRIBUTES).exists() {
            store.make()?;
        }
        Ok(store)
    }

    /// Makes an empty one beside its place and puts it there whole: nobody ever sees one that is half made, and what
    /// kills its maker leaves no lock in it.
    fn make(&self) -> Result<(), String> {
        static MADE: AtomicU64 = AtomicU64::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let beside = with_end(&self.path, &format!(".making-{}-{number}", std::process::id()));
        let wrong = |error: std::io::Error| format!("cannot use {}: {error}", self.path.display());
        for folder in ["info", "objects/pack", "refs/heads"] {
            fs::create_dir_all(beside.join(folder)).map_err(wrong)?;
        }
        for (name, text) in EMPTY {
            let put = || {
                let mut file = File::create(beside.join(name))?;
                file.write_all(text.as_bytes())?;
                file.sync_data()
            };
            put().map_err(wrong)?;
        }
        if fs::rename(&beside, &self.path).is_ok() {
            return Ok(());
        }
        if self.path.join(ATTRIBUTES).exists() {
            // Somebody else was quicker.
            return fs::remove_dir_all(&beside).map_err(wrong);
        }
        fs::remove_dir_all(&self.path).map_err(wrong)?;
        fs::rename(&beside, &self.path).map_err(wrong)
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
            Ok(whole) if real(path).starts_with(&whole) => whole,
            _ => PathBuf::from(path),
        })
    }

    /// Keeps the state of a folder as the next checkpoint.
    pub fn keep(&self, folder: &Path, reason: &str) -> Result<String, String> {
        Ok(self.keep_seen(folder, reason)?.0)
    }

    /// What a folder holds at this moment. Nothing is kept of it under a name, and whoever keeps checkpoints at the
    /// same time is not disturbed.
    pub fn look(&self, folder: &Path) -> Result<Content, String> {
        let index = self.path.join(format!("index.look-{}", std::process::id()));
        if self.index().exists() {
            copy_index(&self.index(), &index)?;
        }
        let seen = self.see(folder, &index);
        for name in fs::read_dir(&self.path).into_iter().flatten().flatten() {
            let (name, path) = (name.file_name(), name.path());
            let of_this = index.file_name().is_some_and(|own| starts_with(&name, own));
            if of_this {
                let _ = fs::remove_file(path);
            }
        }
        Ok(seen?.content)
    }

    /// What a checkpoint holds.
    pub fn content(&self, commit: &str) -> Result<Content, String> {
        let commit = checked(commit)?;
        if let Some(content) = self.read(commit) {
            return Ok(content);
        }
        let asked = format!("info {commit}:files\ncontents {commit}:extra\n");
        let git = self.git(&self.path, &self.index())?;
        let arguments = ["cat-file", "--batch-command"].map(OsString::from).to_vec();
        let printed = git.output(arguments, Some(asked.into_bytes()))?.out;
        let unknown = || {
            let store = self.path.display();
            format!(
                "{commit} is not the name of a checkpoint in {store}: it is not there, or damaged"
            )
        };
        let (first, rest) = split_line(&printed).ok_or_else(unknown)?;
        let (second, rest) = split_line(rest).ok_or_else(unknown)?;
        let first = std::str::from_utf8(first).map_err(|_| unknown())?;
        let second = std::str::from_utf8(second).map_err(|_| unknown())?;
        // Where there is no file at all, a checkpoint has no entry for them.
        let files = match first.split_once(" tree ") {
            Some((tree, _)) => tree.to_owned(),
            None => EMPTY_TREE.to_owned(),
        };
        let length = second.split_once(" blob ").and_then(|(_, length)| length.parse().ok());
        let length: usize = length.ok_or_else(unknown)?;
        let extra = Extra::from_bytes(rest.get(..length).ok_or_else(unknown)?)?;
        Ok(Content { files, extra })
    }

    /// The same, if all of it is as `commit` below writes it.
    fn read(&self, commit: &str) -> Option<Content> {
        let read = |kind, name: &Name| objects::read(&self.objects(), kind, name);
        let text = read(Kind::Commit, &objects::named(commit)?)?;
        let (first, _) = split_line(&text)?;
        let tree = std::str::from_utf8(first).ok()?.strip_prefix("tree ")?;
        let tree = read(Kind::Tree, &objects::named(tree)?)?;
        let (extra, rest) = tree.strip_prefix(b"100644 extra\0")?.split_first_chunk()?;
        let extra = Extra::from_bytes(&read(Kind::Blob, extra)?).ok()?;
        let files = match rest.strip_prefix(b"40000 files\0") {
            Some(files) => hex(files.try_into().ok()?),
            None if rest.is_empty() => EMPTY_TREE.to_owned(),
            None => return None,
        };
        Some(Content { files, extra })
    }

    fn keep_seen(&self, folder: &Path, reason: &str) -> Result<(String, Seen), Unkept> {
        if !self.index().exists() {
            if let Some(seen) = self.untouched(folder)? {
                return self.keep_what_was_seen(seen, reason);
            }
            self.take_tracked(folder)?;
        }
        let seen = self.see(folder, &self.index())?;
        self.keep_what_was_seen(seen, reason)
    }

    fn keep_what_was_seen(&self, seen: Seen, reason: &str) -> Result<(String, Seen), Unkept> {
        if self.tip()?.is_none() {
            self.begin_with(seen.files.iter().map(OsString::as_os_str))?;
        }
        let commit = self.commit(&seen.content, reason)?;
        Ok((commit, seen))
    }

    /// Files that a repository has although its own rules ignore them belong to its workspace like all others. It is
    /// asked once, when nobody has worked there.
    fn take_tracked(&self, folder: &Path) -> Result<(), String> {
        let git = Git { cancel: Some(self.cancel.clone()), ..Git::default() };
        let words = ["ls-files", "-z", "--cached", "--ignored", "--exclude-standard"];
        let place: [OsString; 2] = ["-C".into(), folder.into()];
        let asked = place.into_iter().chain(words.map(OsString::from)).collect();
        // A folder that is in no repository has no such files.
        let Ok(listed) = git.output(asked, None) else { return Ok(()) };
        let is_file = |name: &&[u8]| {
            let found = fs::symlink_metadata(folder.join(OsStr::from_bytes(name)));
            !name.is_empty() && found.is_ok_and(|found| !found.is_dir())
        };
        let names: Vec<&[u8]> = listed.out.split(|byte| *byte == 0).filter(is_file).collect();
        if names.is_empty() {
            return Ok(());
        }
        let add = ["update-index", "-z", "--add", "--stdin"].map(OsString::from).to_vec();
        self.git(folder, &self.index())?.output(add, Some(names.join(&0))).map(drop)
    }

    fn see(&self, folder: &Path, index: &Path) -> Result<Seen, Unkept> {
        let wrong = |said| format!("cannot keep the state of {}: {said}", folder.display());
        let listing = self.list(folder, index, 0).map_err(|why| why.map(wrong))?;
        let (extra, odd) = Extra::of(folder, &listing.files, &listing.loose).map_err(wrong)?;
        self.refuse_special(folder, index, &odd).map_err(|why| why.map(wrong))?;
        let content = Content { files: listing.tree, extra };
        Ok(Seen { content, files: listing.files, joined: listing.joined })
    }

    /// Gives a content a name: the next checkpoint.
    fn commit(&self, content: &Content, reason: &str) -> Result<String, String> {
        let before = self.tip()?;
        let keep = || {
            let objects = self.path.join("objects");
            let extra = objects::write(&objects, Kind::Blob, &content.extra.to_bytes())?;
            let mut tree = Tree::default();
            tree.add(Mode::File.text(), OsStr::new("extra"), &extra);
            // Git has no entry for a folder without a file.
            if content.files != EMPTY_TREE {
                let files = objects::named(&content.files).ok_or(io::ErrorKind::InvalidData)?;
                tree.add(FOLDER, OsStr::new("files"), &files);
            }
            let tree = hex(&objects::write(&objects, Kind::Tree, &tree.into_bytes())?);
            let parent = before.map(|before| format!("parent {before}\n")).unwrap_or_default();
            let time = SystemClock.now().0.max(0) / 1000;
            let by = format!("drivetrain <drivetrain@localhost> {time} +0000");
            let text = format!("tree {tree}\n{parent}author {by}\ncommitter {by}\n\n{reason}");
            let commit = hex(&objects::write(&objects, Kind::Commit, text.as_bytes())?);
            self.set_tip(&commit)?;
            Ok(commit)
        };
        keep()
            .map_err(|error: io::Error| format!("cannot write to {}: {error}", self.path.display()))
    }

    /// Makes a commit the last checkpoint. Only this task's owner gives names here.
    fn set_tip(&self, commit: &str) -> io::Result<()> {
        let path = self.path.join(CHECKPOINTS);
        let (folder, name) = (path.parent().unwrap_or(&self.path), "checkpoints");
        whole_file::write(folder, name, format!("{commit}\n").as_bytes(), Lasting::Yes)
    }

    /// The last checkpoint. The store is ours alone and its names are never packed.
    fn tip(&self) -> Result<Option<String>, String> {
        let path = self.path.join(CHECKPOINTS);
        match fs::read_to_string(&path) {
            Ok(name) => checked(name.trim_end()).map(|name| Some(name.to_owned())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(format!("cannot read {}: {error}", path.display())),
        }
    }

    /// All checkpoints, the oldest first.
    pub fn points(&self) -> Result<Vec<Point>, String> {
        let git = self.git(&self.path, &self.index())?;
        if git.run(["for-each-ref".into(), CHECKPOINTS.into()])?.is_empty() {
            return Ok(Vec::new());
        }
        let format = "--format=%H %ct %s";
        let listed =
            git.run(["log", "--reverse", format, CHECKPOINTS, "--"].map(OsString::from))?;
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
        self.content(commit).map(|content| content.files)
    }

    /// Gives a folder the state of a checkpoint, exactly. The state before is kept first, so that this can be undone;
    /// what git ignores stays as it is, and is named where it is in the way.
    pub fn restore(&self, folder: &Path, to: &str) -> Result<Restored, String> {
        self.restore_with(folder, to, InTheWay::Refused, &mut None)
    }

    fn restore_with(
        &self,
        folder: &Path,
        to: &str,
        in_the_way: InTheWay,
        before: &mut Option<String>,
    ) -> Result<Restored, String> {
        let target = self.content(to)?;
        let (kept, seen) =
            self.keep_seen(folder, &format!("before going back to {}", short(to)))?;
        let undo = before.get_or_insert(kept).clone();
        let changes = self.compare(&seen.content, &target)?;
        let wrong = |said: String| {
            format!(
                "cannot give {} the state of {}: {said}; the state before is kept as {}",
                folder.display(),
                short(to),
                short(&undo)
            )
        };
        let blocked = self.in_the_way(folder, &seen.content, &target)?;
        match in_the_way {
            InTheWay::Refused if !blocked.is_empty() => {
                return Err(wrong(in_the_way::words(&blocked)));
            }
            InTheWay::Refused => {}
            InTheWay::SetAside => self.set_aside(folder, &blocked).map_err(wrong)?,
        }
        let mark = self.path.join(GOING_BACK);
        fs::write(&mark, format!("{to}\n{undo}\n")).map_err(|error| wrong(error.to_string()))?;
        writable::for_changes(folder, &changes).map_err(|error| wrong(error.to_string()))?;
        self.check_out(folder, &seen, &target.files).map_err(wrong)?;
        target.extra.apply(folder, &seen.content.extra).map_err(wrong)?;
        // Seen, not believed: what is there now is kept again and compared.
        let (_, after) = self.keep_seen(folder, &format!("went back to {}", short(to)))?;
        let left = self.compare(&after.content, &target)?;
        if let Some(first) = left.first() {
            let path = first.path.to_string_lossy();
            return Err(wrong(format!("{} paths differ still, {path} first", left.len())));
        }
        let _ = fs::remove_file(&mark);
        Ok(Restored { undo, changes })
    }

    /// The state before a process that was going back to this one died over it: what is there now is neither of both.
    fn cut_off(&self, to: &str) -> Option<String> {
        let text = fs::read_to_string(self.path.join(GOING_BACK)).ok()?;
        let (of, undo) = text.strip_suffix('\n')?.split_once('\n')?;
        (of == to && self.content(undo).is_ok()).then(|| undo.to_owned())
    }

    /// Writes the files of a checkpoint into an empty folder.
    pub fn copy(&self, commit: &str, folder: &Path) -> Result<(), String> {
        let index = self.no_index("index.copy");
        let git = self.git(folder, &index)?;
        let content = self.content(commit)?;
        quiet(&git, &["read-tree", "-u", "--reset", &content.files])?;
        content.extra.apply(folder, &Extra::default())
    }

    /// Where the content of all checkpoints is.
    pub(crate) fn objects(&self) -> PathBuf {
        self.path.join("objects")
    }

    fn index(&self) -> PathBuf {
        self.path.join("index")
    }

    /// The place of an index that is not there yet. Only this task's owner works here, so that what is there, and a lock,
    /// can only be left from a killed git.
    fn no_index(&self, name: &str) -> PathBuf {
        let index = self.path.join(name);
        for left in [with_end(&index, ".lock"), index.clone()] {
            let _ = fs::remove_file(left);
        }
        index
    }

    /// Turns the files that were just seen in a folder into those of a tree.
    fn check_out(&self, folder: &Path, seen: &Seen, to: &str) -> Result<(), String> {
        let index = self.no_index("index.restore");
        if !seen.joined {
            copy_index(&self.index(), &index)?;
            quiet(&self.git(folder, &index)?, &["read-tree", "-u", "--reset", to])?;
            // What it knows of the files is fresh: the next checkpoint need not read them again.
            return fs::rename(&index, self.index())
                .map_err(|error| format!("{}: {error}", index.display()));
        }
        // An index of its own: repositories inside the workspace are plain files to it.
        let git = self.git(folder, &index)?;
        quiet(&git, &["read-tree", &seen.content.files])?;
        let _ = git.run(["update-index", "-q", "--refresh"].map(OsString::from));
        quiet(&git, &["read-tree", "-u", "--reset", to])
    }

    /// What is left out and is not ignored anyway: git complains of an ignored path that is named, even to be left out.
    fn to_leave_out(&self, git: &Git) -> Result<Vec<&PathBuf>, String> {
        if self.left_out.is_empty() {
            return Ok(Vec::new());
        }
        let names = self.left_out.iter().flat_map(|path| [path.as_os_str().as_bytes(), b"\0"]);
        let names: Vec<u8> = names.flatten().copied().collect();
        let ask = ["check-ignore", "-z", "--stdin"].map(OsString::from).to_vec();
        let ignored = git.output_any(ask, Some(names))?;
        // It ends with 1 if none of them is.
        if ignored.exit > 1 {
            return Err(ignored.complaint);
        }
        let ignored: Vec<&[u8]> = ignored.out.split(|byte| *byte == 0).collect();
        let is_ignored = |path: &PathBuf| ignored.contains(&path.as_os_str().as_bytes());
        Ok(self.left_out.iter().filter(|path| !is_ignored(path)).collect())
    }

    /// Writes a folder as a tree, repositories inside it with their files.
    fn list(&self, folder: &Path, index: &Path, depth: usize) -> Result<Listing, Unkept> {
        if depth > MAX_NESTING {
            let deep = format!("repositories are nested more than {MAX_NESTING} deep");
            return Err(Unkept::incomplete(deep));
        }
        // Only this task's owner works here, so a lock can only be left from a killed git.
        let _ = fs::remove_file(with_end(index, ".lock"));
        let git = self.git(folder, index)?;
        self.refuse_large(&git, folder)?;
        repositories::forget(&git, index)?;
        let add = ["add", "--all", "--no-warn-embedded-repo", "--", "."];
        let mut add = add.map(OsString::from).to_vec();
        if depth == 0 {
            add.extend(self.to_leave_out(&git)?.into_iter().map(|path| except(path.as_os_str())));
        }
        let mut unborn = Vec::new();
        while let Err(said) = complete(&git, add.clone()) {
            let Some(name) =
                unborn::named(said.as_ref(), folder).filter(|name| !unborn.contains(name))
            else {
                // What is left to complain about then is meant.
                behind::forget(&git, folder)?;
                complete(&git, add)?;
                break;
            };
            add.push(except(&name));
            unborn.push(name);
        }
        let (mut listing, mut nested) = listed(&git)?;
        listing.loose.retain(|loose| !unborn.iter().any(|name| is_folder(loose, name)));
        nested.extend(unborn);
        if depth == 0 {
            let added = self.add_begun(&git, folder, &listing.files)?;
            listing.files.extend(added);
        }
        if nested.is_empty() {
            listing.tree = written(&git)?;
            return Ok(listing);
        }
        listing.joined = true;
        // The index itself stays as git made it, so that the next checkpoint is as quick as this one.
        let joined = with_end(index, ".joined");
        for left in [with_end(&joined, ".lock"), joined.clone()] {
            let _ = fs::remove_file(left);
        }
        // Where there is nothing else, git makes none.
        if index.exists() {
            copy_index(index, &joined)?;
        }
        let git = self.git(folder, &joined)?;
        for (number, name) in nested.iter().enumerate() {
            let inner = with_end(index, &format!(".{number}"));
            let below = self.list(&folder.join(name), &inner, depth + 1)?;
            let remove = ["update-index", "--force-remove", "--"].map(OsString::from);
            git.run(remove.into_iter().chain([name.clone()]))?;
            let mut prefix = OsString::from("--prefix=");
            prefix.push(name);
            prefix.push("/");
            git.run(["read-tree".into(), prefix, below.tree.into()])?;
            let inside = |path: &OsString| Path::new(name).join(path).into_os_string();
            listing.files.extend(below.files.iter().map(inside));
            listing.loose.extend(below.loose.iter().map(inside));
        }
        listing.tree = written(&git)?;
        Ok(listing)
    }

    fn git(&self, folder: &Path, index: &Path) -> Result<Git, String> {
        let mut env = vec![
            ("GIT_DIR".to_owned(), text(&self.path)?),
            ("GIT_WORK_TREE".to_owned(), text(folder)?),
            ("GIT_INDEX_FILE".to_owned(), text(index)?),
            // Attributes are read from the empty tree: those of the workspace change nothing and break nothing.
            ("GIT_ATTR_SOURCE".to_owned(), EMPTY_TREE.to_owned()),
        ];
        if let Some(objects) = &self.borrowed {
            env.push(borrowing(&text(objects)?));
        }
        let settings = [&["core.bare=false"][..], &LASTING].concat();
        let settings = settings.into_iter().map(str::to_owned).collect();
        Ok(Git { env, settings, cwd: Some(folder.to_owned()), cancel: Some(self.cancel.clone()) })
    }
}

/// A workspace without links on the way to it: drivetrain's folder may have been moved, and a link lead to it.
fn real(path: &str) -> PathBuf {
    Path::new(path).canonicalize().unwrap_or_else(|_| PathBuf::from(path))
}

/// Leaves out a path, whatever its name means to git.
fn except(path: &OsStr) -> OsString {
    let mut except = OsString::from(":(exclude,literal)");
    except.push(path);
    except
}

/// Whether git means this folder, which it ends with a slash.
fn is_folder(listed: &OsStr, name: &OsStr) -> bool {
    listed.as_bytes().strip_suffix(b"/") == Some(name.as_bytes())
}

/// Any word on standard error means that something was left out, whatever the exit code.
fn quiet(git: &Git, arguments: &[&str]) -> Result<(), String> {
    Ok(complete(git, arguments.iter().map(OsString::from).collect())?)
}

fn complete(git: &Git, arguments: Vec<OsString>) -> Result<(), Unkept> {
    // What git says of a file that it cannot read, before it fails.
    const UNREADABLE: &str = "unable to index file";
    match git.output(arguments, None) {
        Ok(printed) if printed.complaint.is_empty() => Ok(()),
        Ok(Printed { complaint, .. }) => Err(Unkept::incomplete(complaint)),
        Err(complaint) if complaint.contains(UNREADABLE) => Err(Unkept::incomplete(complaint)),
        Err(complaint) => Err(Unkept::Failed(complaint)),
    }
}

/// What an index holds, the folders beside it, and the repositories inside.
fn listed(git: &Git) -> Result<(Listing, Vec<OsString>), String> {
    let arguments =
        ["ls-files", "-z", "-t", "--stage", "--others", "--exclude-standard", "--directory"];
    let printed = git.output(arguments.map(OsString::from).to_vec(), None)?;
    let (mut listing, mut nested) = (Listing::default(), Vec::new());
    for entry in printed.out.split(|byte| *byte == 0).filter(|entry| !entry.is_empty()) {
        if let Some(loose) = entry.strip_prefix(b"? ") {
            listing.loose.push(OsStr::from_bytes(loose).to_owned());
            continue;
        }
        // A letter, a space, the mode, the hash, the stage, a tab and the name.
        let about = entry.get(2..).unwrap_or_default();
        let Some(tab) = about.iter().position(|byte| *byte == b'\t') else {
            return Err("git lists its files in a way that is not understood".to_owned());
        };
        let name = OsStr::from_bytes(&about[tab + 1..]).to_owned();
        if about.starts_with(b"160000 ") { nested.push(name) } else { listing.files.push(name) }
    }
    Ok((listing, nested))
}

fn written(git: &Git) -> Result<String, String> {
    git.run(["write-tree".into()]).map(|tree| tree.trim_end().to_owned())
}

/// Copies an index with its time: git holds entries that are as young as their index in doubt, and must go on to.
fn copy_index(from: &Path, to: &Path) -> Result<(), String> {
    let copy = || {
        let time = fs::metadata(from)?.modified()?;
        fs::copy(from, to)?;
        File::options().write(true).open(to)?.set_times(FileTimes::new().set_modified(time))
    };
    copy().map_err(|error: io::Error| format!("cannot copy {}: {error}", from.display()))
}

fn split_line(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    Some((&bytes[..end], &bytes[end + 1..]))
}

fn starts_with(name: &OsStr, start: &OsStr) -> bool {
    name.as_bytes().starts_with(start.as_bytes())
}

/// Names of checkpoints come from outside; what is no hash could mean something else to git.
fn checked(commit: &str) -> Result<&str, String> {
    let is_hash = commit.len() >= 4 && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_hash { Ok(commit) } else { Err(format!("{commit:?} is not the name of a checkpoint")) }
}

fn short(commit: &str) -> &str {
    commit.get(..10).unwrap_or(commit)
}

pub(crate) fn with_end(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    PathBuf::from(name)
}
