//! What the worker began with and what it handed over, as trees that git compares, whoever keeps them: the task's own
//! checkpoints and the user's repository are read together.
//!
//! The worker's index, its exclude files, its flags on files, its replace refs and grafts have no say: only trees are
//! compared, and the comparison runs in the git directory of the checkpoints, whose settings are ours.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use machine::task::{Workspace, WorkspaceKind};

use super::checkout::{Context, Scratch};
use super::converted::Converter;
use super::difference::Difference;
use super::{Trouble, planted, repository};
use crate::checkpoint::{self, Change, ChangeKind, Store};
use crate::git::reading::{Unsound, read_back};
use crate::git::{Git, borrowing};
use crate::workspace::{origin, text, trusted, worktree_of};

/// The file kind that git gives a repository inside another one.
pub(super) const REPOSITORY_INSIDE: &str = "160000";

/// Both trees, and where they are read.
pub(super) struct Sides {
    /// The user's repository.
    pub(super) repository: Repository,
    /// The tree that the task began with.
    pub(super) base: String,
    /// The tree that is handed over.
    pub(super) handed_over: String,
    /// The folder that the task was started in, below the top.
    pub(super) prefix: String,
    /// The top folder that the worker worked in.
    pub(super) folder: PathBuf,
    git: Git,
    _scratch: Option<Scratch>,
}

/// The user's repository, looked at without running anything of it.
pub(super) struct Repository {
    /// The commit that the task began at.
    pub(super) base: String,
    /// The name of what the task commits to.
    pub(super) branch: String,
    git: Git,
}

/// One entry that differs between two trees.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) path: OsString,
    pub(super) kind: ChangeKind,
    pub(super) before: Side,
    pub(super) after: Side,
}

/// An entry as one tree has it; all zeros if it does not.
#[derive(Debug, Clone)]
pub(super) struct Side {
    pub(super) mode: String,
    pub(super) hash: String,
}

impl Sides {
    /// The trees of a claim. In place, the folder is looked at as it is; nothing is kept of that.
    pub(super) fn of(context: &Context<'_>) -> Result<Sides, String> {
        match context.claim.frozen {
            Some(frozen) => Sides::of_worktree(context, &frozen.tree),
            None => Sides::of_folder(context),
        }
    }

    fn of_worktree(context: &Context<'_>, frozen: &str) -> Result<Sides, String> {
        let claim = context.claim;
        let origin = origin(claim.task, context.places.state_home)
            .ok_or("nothing is known of the repository that the task's worktree was made from")?;
        let store = Store::open(claim.task, context.places.state_home, context.cancel)?;
        repository::distrust(&origin, &store, context).map_err(Trouble::into_text)?;
        let repository = Repository {
            git: graftless(origin.git(), &origin.repository, context),
            base: origin.base,
            branch: format!("refs/heads/{}", origin.branch),
        };
        let base = match claim.base {
            Some(base) => store.tree(&base.name)?,
            None => repository.tree(&repository.base)?,
        };
        let git = repository.read_with(&store, context)?;
        let handed_over = frozen.to_owned();
        let folder = worktree_of(claim.task, context.places.state_home);
        let prefix = origin.prefix;
        Ok(Sides { repository, base, handed_over, prefix, folder, git, _scratch: None })
    }

    fn of_folder(context: &Context<'_>) -> Result<Sides, String> {
        let claim = context.claim;
        let no_base =
            "there is nothing to compare with: the folder is not in a git repository with a commit";
        let (Some(path), Some(base)) = (&claim.workspace.path, &claim.workspace.base) else {
            return Err(no_base.to_owned());
        };
        let git =
            graftless(Git { settings: trusted(), ..Git::default() }, Path::new(path), context);
        let ask = |arguments: &[&str]| {
            let printed = git.run(arguments.iter().map(OsString::from))?;
            Ok::<String, String>(printed.strip_suffix('\n').unwrap_or(&printed).to_owned())
        };
        let top = PathBuf::from(ask(&["rev-parse", "--show-toplevel"])?);
        let prefix = ask(&["rev-parse", "--show-prefix"])?;
        let branch = "HEAD".to_owned();
        let repository = Repository {
            git: graftless(Git { settings: trusted(), ..Git::default() }, &top, context),
            base: base.clone(),
            branch,
        };
        let scratch = Scratch::new(context.places.checkouts, claim.task)?;
        let whole = Workspace {
            kind: WorkspaceKind::InPlace,
            path: Some(text(&top)?),
            branch: None,
            base: None,
        };
        let store = Store::open(claim.task, &scratch.0, context.cancel)?;
        let base = repository.tree(&repository.base)?;
        // The worker's index may no longer have what was there in spite of an ignore file.
        let list = ["ls-tree", "-r", "-z", "--full-tree", "--name-only", &base];
        let begun = repository.git.output(list.map(OsString::from).to_vec(), None)?.out;
        let begun = begun.split(|byte| *byte == 0).filter(|name| !name.is_empty());
        store.begin_with(begun.map(OsStr::from_bytes))?;
        let seen =
            checkpoint::checkpoint(claim.task, &whole, "looked at", &scratch.0, context.cancel)?;
        let git = repository.read_with(&store, context)?;
        let prefix = prefix.trim_end_matches('/').to_owned();
        let handed_over = seen.tree;
        let (folder, _scratch) = (top, Some(scratch));
        let sides = Sides { repository, base, handed_over, prefix, folder, git, _scratch };
        sides.read_base_back()?;
        Ok(sides)
    }

    /// Holds what is compared against its names: in place the base is kept nowhere but in the repository, where the worker can
    /// put anything under any name.
    fn read_base_back(&self) -> Result<(), String> {
        let tree = ["ls-tree", "-r", "-d", "-z", "--format=%(objectname)", &self.base];
        let listed = self.git.output(tree.map(OsString::from).to_vec(), None)?.out;
        let listed = String::from_utf8_lossy(&listed);
        let changed = self.entries(&self.base, &self.handed_over)?;
        let before = changed.iter().map(|entry| &entry.before).filter(|side| {
            side.mode != REPOSITORY_INSIDE && side.hash.bytes().any(|digit| digit != b'0')
        });
        let own = [self.repository.base.as_str(), self.base.as_str()];
        let below = listed.split('\0').filter(|name| !name.is_empty());
        let mut names: Vec<&str> =
            own.into_iter().chain(below).chain(before.map(|side| side.hash.as_str())).collect();
        names.sort_unstable();
        names.dedup();
        let unsound = read_back(&self.git, Vec::new(), &names)?;
        let other = unsound.into_iter().find_map(|unsound| match unsound {
            Unsound::Other(name) => Some(planted::said(&name)),
            // A repository inside; without any other, git could not have compared anything.
            Unsound::Missing(_) => None,
        });
        other.map_or(Ok(()), Err)
    }

    /// What differs between the two, where no checkpoint of the base tells.
    pub(super) fn difference(&self) -> Result<Difference, String> {
        let entries = self.entries(&self.base, &self.handed_over)?;
        let changes =
            entries.into_iter().map(|entry| Change { path: entry.path, kind: entry.kind });
        let changes: Vec<Change> = changes.collect();
        let lines = if changes.is_empty() { 0 } else { self.lines()? };
        // One that is too long to be read whole is no use to a judge, and nothing else needs it.
        let patch =
            self.print(&["diff", "--no-ext-diff", "--no-textconv", "--no-color", "--binary"]);
        let patch = patch.unwrap_or_default();
        Ok(Difference { changes, lines, patch, prefix: self.prefix.clone() })
    }

    /// How many lines were added and removed. What is not text counts by its line ends as well, so that nothing is
    /// hidden by a byte that makes it so; that is why hunks are counted, and not what `--numstat` says.
    pub(super) fn all_lines(&self) -> Result<u64, String> {
        count_hunks(&self.git, &self.base, &self.handed_over)
    }

    fn lines(&self) -> Result<u64, String> {
        let printed = self.print(&[
            "diff-tree",
            "-r",
            "-z",
            "--numstat",
            "--no-renames",
            "--no-ext-diff",
            "--no-textconv",
        ])?;
        let counts = printed.split(|byte| *byte == 0).map(|entry| {
            let mut parts = entry.split(|byte| *byte == b'\t').take(2);
            let mut next = || std::str::from_utf8(parts.next()?).ok()?.parse::<u64>().ok();
            next().unwrap_or(0).saturating_add(next().unwrap_or(0))
        });
        Ok(counts.fold(0, u64::saturating_add))
    }

    fn print(&self, arguments: &[&str]) -> Result<Vec<u8>, String> {
        let arguments = arguments.iter().copied().chain([self.base.as_str(), &self.handed_over]);
        Ok(self.git.output(arguments.map(OsString::from).collect(), None)?.out)
    }

    /// What differs between two trees, entry by entry.
    pub(super) fn entries(&self, from: &str, to: &str) -> Result<Vec<Entry>, String> {
        let arguments = ["diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", from, to];
        let printed = self.git.output(arguments.map(OsString::from).to_vec(), None)?.out;
        let mut parts = printed.split(|byte| *byte == 0);
        let mut entries = Vec::new();
        while let (Some(about), Some(path)) = (parts.next(), parts.next()) {
            entries.push(
                Entry::read(about, path)
                    .ok_or("git tells of a difference in a way that is not understood")?,
            );
        }
        Ok(entries)
    }

    /// The content of a file in either of the trees.
    pub(super) fn blob(&self, hash: &str) -> Result<Vec<u8>, String> {
        let arguments = ["cat-file", "blob", hash].map(OsString::from).to_vec();
        Ok(self.git.output(arguments, None)?.out)
    }

    /// Converts as git would on this branch.
    pub(super) fn converter(&self, tree: &str, context: &Context<'_>) -> Result<Converter, String> {
        let objects = self.repository.place("objects")?;
        let beside = PathBuf::from(self.repository.place("info/attributes")?);
        Converter::new(tree, &objects, &beside, context)
    }

    /// The hash that a file of the disk would have, as it is.
    pub(super) fn hash_of(&self, file: &Path) -> Result<String, String> {
        let arguments = ["hash-object", "--no-filters", "--"].map(OsString::from);
        let arguments = arguments.into_iter().chain([file.as_os_str().to_owned()]);
        Ok(self.git.run(arguments)?.trim_end().to_owned())
    }
}

/// How many lines differ between the base and what was handed over, by [`Sides::all_lines`]'s rule.
pub(super) fn count_lines(context: &Context<'_>) -> Result<u64, String> {
    let claim = context.claim;
    let (Some(base), Some(frozen)) = (claim.base, claim.frozen) else {
        return Sides::of(context)?.all_lines();
    };
    // Both are checkpoints: where the user's repository is, and whether it still is, does not matter.
    let store = Store::open(claim.task, context.places.state_home, context.cancel)?;
    let git = store_git(&store, None, context)?;
    count_hunks(&git, &store.tree(&base.name)?, &store.tree(&frozen.name)?)
}

impl Repository {
    /// The commit that the task's work is committed in.
    pub(super) fn tip(&self) -> Result<String, String> {
        // Only HEAD is meant to be another name.
        if self.branch != "HEAD"
            && let Ok(other) = self.ask(&["symbolic-ref", "--quiet", &self.branch])
        {
            return Err(format!("{} is only another name of {other}", self.branch));
        }
        self.ask(&["rev-parse", "--verify", "--quiet", &format!("{}^{{commit}}", self.branch)])
            .map_err(|_| format!("there is no commit at {}", self.branch))
    }

    /// The tree of a commit.
    pub(super) fn tree(&self, commit: &str) -> Result<String, String> {
        self.ask(&["rev-parse", "--verify", "--quiet", &format!("{commit}^{{tree}}")])
            .map_err(|_| format!("the commit {commit} is not in the repository any more"))
    }

    /// Whether one commit builds on another.
    pub(super) fn builds_on(&self, commit: &str, before: &str) -> Result<bool, String> {
        let left = self.ask(&["rev-list", "--max-count=1", before, "--not", commit])?;
        Ok(left.is_empty())
    }

    fn ask(&self, arguments: &[&str]) -> Result<String, String> {
        let printed = self.git.run(arguments.iter().map(OsString::from))?;
        Ok(printed.trim_end_matches('\n').to_owned())
    }

    /// A git in the directory of the checkpoints that also finds the objects of this repository.
    fn read_with(&self, store: &Store<'_>, context: &Context<'_>) -> Result<Git, String> {
        if self.base.len() != checkpoint::EMPTY_TREE.len() {
            return Err(
                "the repository names its objects by another hash than checkpoints do".to_owned()
            );
        }
        store_git(store, Some(&self.place("objects")?), context)
    }

    /// Where git has something of it.
    fn place(&self, name: &str) -> Result<String, String> {
        self.ask(&["rev-parse", "--path-format=absolute", "--git-path", name])
    }
}

/// A git in the directory of the checkpoints that also finds the objects in a folder.
fn store_git(
    store: &Store<'_>,
    borrowed: Option<&str>,
    context: &Context<'_>,
) -> Result<Git, String> {
    let objects = store.objects();
    let own = objects.parent().unwrap_or(&objects);
    let mut env = vec![
        ("GIT_DIR".to_owned(), text(own)?),
        ("GIT_ATTR_SOURCE".to_owned(), checkpoint::EMPTY_TREE.to_owned()),
    ];
    env.extend(borrowed.map(borrowing));
    let cwd = Some(own.to_owned());
    Ok(Git { env, cwd, cancel: Some(context.cancel.clone()), ..Git::default() })
}

fn count_hunks(git: &Git, from: &str, to: &str) -> Result<u64, String> {
    let arguments = [
        "diff-tree",
        "-r",
        "-p",
        "-U0",
        "--text",
        "--no-color",
        "--no-renames",
        "--no-ext-diff",
        "--no-textconv",
        from,
        to,
    ];
    let printed = git.output(arguments.map(OsString::from).to_vec(), None)?.out;
    let hunks = printed.split(|byte| *byte == b'\n').filter_map(hunk);
    Ok(hunks.fold(0, u64::saturating_add))
}

/// The lines of a hunk without context, from its head: `@@ -1,2 +1 @@`. No line of content begins like that.
fn hunk(line: &[u8]) -> Option<u64> {
    let line = std::str::from_utf8(line.strip_prefix(b"@@ -")?.split(|byte| *byte == b'@').next()?);
    let mut lines = 0u64;
    for side in line.ok()?.split_whitespace() {
        let count = side.split_once(',').map_or(Some(1), |(_, count)| count.parse().ok())?;
        lines = lines.saturating_add(count);
    }
    Some(lines)
}

/// History as it was committed, not as a file beside it says.
fn graftless(git: Git, folder: &Path, context: &Context<'_>) -> Git {
    Git {
        env: vec![("GIT_GRAFT_FILE".to_owned(), "/dev/null".to_owned())],
        cwd: Some(folder.to_owned()),
        cancel: Some(context.cancel.clone()),
        ..git
    }
}

impl Entry {
    /// From `:100644 100755 HASH HASH M` and a path.
    fn read(about: &[u8], path: &[u8]) -> Option<Entry> {
        let words: Vec<&str> =
            std::str::from_utf8(about).ok()?.strip_prefix(':')?.split(' ').collect();
        let [mode_before, mode_after, hash_before, hash_after, letter] = words[..] else {
            return None;
        };
        let side = |mode: &str, hash: &str| Side { mode: mode.to_owned(), hash: hash.to_owned() };
        Some(Entry {
            path: OsStr::from_bytes(path).to_owned(),
            kind: match letter {
                "A" => ChangeKind::Added,
                "D" => ChangeKind::Removed,
                _ => ChangeKind::Changed,
            },
            before: side(mode_before, hash_before),
            after: side(mode_after, hash_after),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_of_a_hunk_tells_its_lines() {
        assert_eq!(hunk(b"@@ -1,2 +1 @@"), Some(3));
        assert_eq!(hunk(b"@@ -0,0 +1,40 @@ fn main()"), Some(40));
        assert_eq!(hunk(b"@@ -7 +7 @@ \xff"), Some(2));
        assert_eq!(hunk(b"+@@ -1,2 +1 @@"), None);
        assert_eq!(hunk(b"--- a"), None);
    }
}
