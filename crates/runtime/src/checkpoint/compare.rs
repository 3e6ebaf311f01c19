//! What differs between two states of a workspace: by path, by lines, and as a patch. Only trees of our own store are
//! read, so nothing in the workspace has a say in how it is shown.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use machine::verdict::Checkpoint;

use crate::workspace::{Repository, origin};

use super::{Content, Store};

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

impl ChangeKind {
    /// The word that people and JSON see.
    pub fn word(self) -> &'static str {
        match self {
            ChangeKind::Added => "added",
            ChangeKind::Removed => "removed",
            ChangeKind::Changed => "changed",
        }
    }
}

/// How many lines of a file differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lines {
    /// The path below the workspace; not always text.
    pub path: OsString,
    /// Lines added and removed; none for a file that is not text.
    pub count: Option<(u64, u64)>,
}

impl Store<'_> {
    /// What differs between two checkpoints, by path.
    pub fn changes(&self, from: &str, to: &str) -> Result<Vec<Change>, String> {
        self.compare(&self.content(from)?, &self.content(to)?)
    }

    /// What differs between two checkpoints, as a patch. Bytes: files are not always text.
    pub fn patch(&self, from: &str, to: &str) -> Result<Vec<u8>, String> {
        self.patch_between(&self.content(from)?, &self.content(to)?)
    }

    /// What differs between two contents, by path.
    pub fn compare(&self, from: &Content, to: &Content) -> Result<Vec<Change>, String> {
        let mut changes = Vec::new();
        if from.files != to.files {
            let printed = self.diff_tree(&["-r", "-z", "--raw"], from, to)?;
            let mut parts = printed.split(|byte| *byte == 0);
            while let (Some(about), Some(path)) = (parts.next(), parts.next()) {
                let kind = match about.last() {
                    Some(b'A') => ChangeKind::Added,
                    Some(b'D') => ChangeKind::Removed,
                    _ => ChangeKind::Changed,
                };
                changes.push(Change { path: OsStr::from_bytes(path).to_owned(), kind });
            }
        }
        changes.extend(self.beside(from, to, &changes));
        changes.sort();
        Ok(changes)
    }

    /// Of what differs, that which no patch can say: empty folders, and modes that git does not keep.
    pub fn unpatched(&self, from: &Content, to: &Content) -> Result<Vec<Change>, String> {
        let all = self.compare(&Content::of_tree(from.files.clone()), &{
            Content::of_tree(to.files.clone())
        })?;
        Ok(self.beside(from, to, &all))
    }

    /// The content that a task began with: its base, or, where none was kept, the commit of the user's repository that
    /// its worktree was made of. That commit is read where it lies.
    pub fn base(&mut self, base: Option<&Checkpoint>) -> Result<Content, String> {
        if let Some(base) = base {
            return self.content(&base.name);
        }
        let origin = origin(&self.task, &self.state_home)
            .ok_or("nothing is known of the state that the task began with")?;
        let repository = Repository::find(&origin.repository).map_err(|reason| {
            format!("the repository {} cannot be used: {reason}", origin.repository.display())
        })?;
        let objects = repository.git(["rev-parse", "--git-path", "objects"].map(OsString::from))?;
        let objects = objects.strip_suffix('\n').unwrap_or(&objects);
        self.borrowed = Some(repository.top.join(objects));
        let tree = format!("{}^{{tree}}", origin.base);
        let tree = repository.git(["rev-parse", "--verify", &tree].map(OsString::from))?;
        Ok(Content::of_tree(tree.trim_end().to_owned()))
    }

    fn beside(&self, from: &Content, to: &Content, known: &[Change]) -> Vec<Change> {
        let is_known = |change: &Change| known.iter().any(|known| known.path == change.path);
        let beside = from.extra.changes(&to.extra).into_iter();
        beside.filter(|change| !is_known(change)).collect()
    }

    /// How many lines differ, file by file.
    pub fn lines(&self, from: &Content, to: &Content) -> Result<Vec<Lines>, String> {
        if from.files == to.files {
            return Ok(Vec::new());
        }
        let printed = self.diff_tree(&["-r", "-z", "--numstat"], from, to)?;
        let mut lines = Vec::new();
        for entry in printed.split(|byte| *byte == 0).filter(|entry| !entry.is_empty()) {
            let mut parts = entry.splitn(3, |byte| *byte == b'\t');
            let mut number = || {
                let digits = std::str::from_utf8(parts.next()?).ok()?;
                digits.parse::<u64>().ok()
            };
            let (added, removed) = (number(), number());
            let Some(path) = parts.next() else {
                return Err("git counts lines in a way that is not understood".to_owned());
            };
            lines.push(Lines {
                path: OsStr::from_bytes(path).to_owned(),
                count: added.zip(removed),
            });
        }
        Ok(lines)
    }

    /// How many lines were added and removed between two checkpoints; a file that is no text has none.
    pub fn diff_lines(&self, from: &str, to: &str) -> Result<u64, String> {
        let lines = self.lines(&self.content(from)?, &self.content(to)?)?;
        let counts = lines.iter().filter_map(|lines| lines.count);
        Ok(counts.fold(0, |sum, (added, removed)| sum.saturating_add(added + removed)))
    }

    /// What differs between two contents, as a patch that `git apply` takes.
    pub fn patch_between(&self, from: &Content, to: &Content) -> Result<Vec<u8>, String> {
        let arguments = [
            "diff",
            "--no-ext-diff",
            "--no-textconv",
            "--no-color",
            "--binary",
            &from.files,
            &to.files,
            "--",
        ];
        let git = self.git(&self.path, &self.index())?;
        Ok(git.output(arguments.iter().map(OsString::from).collect(), None)?.out)
    }

    fn diff_tree(&self, how: &[&str], from: &Content, to: &Content) -> Result<Vec<u8>, String> {
        let hardened = ["diff-tree", "--no-renames", "--no-ext-diff", "--no-textconv"];
        let arguments = hardened.iter().chain(how).map(OsString::from);
        let trees = [&from.files, &to.files, "--"].map(OsString::from);
        let arguments = arguments.chain(trees);
        let git = self.git(&self.path, &self.index())?;
        Ok(git.output(arguments.collect(), None)?.out)
    }
}
