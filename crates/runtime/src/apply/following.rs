//! Gives exactly the paths that two trees differ in one of their two states, in the user's index and files. What the user
//! has staged or changed beside them is not looked at and not touched.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::git::Git;
use crate::git::reading::begins_with;
use crate::workspace::text;

use super::checkout::{Checkout, in_the_way, named, paths_in};
use super::large_files::Pointer;
use super::scratch::{COMPARE, Entry, entries, stage};
use super::{ApplyError, Note, refused};

/// Which of the two states.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Before,
    After,
}

/// Where a path stands, in the files or in the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stands {
    as_before: bool,
    as_after: bool,
}

impl Stands {
    fn at(self, side: Side) -> bool {
        match side {
            Side::Before => self.as_before,
            Side::After => self.as_after,
        }
    }
}

impl Checkout {
    /// Gives a checkout that was cut short one of the two states that it was between. Whatever is as neither of them has
    /// it is the user's, and stops it; what is not there is nobody's. False if nothing had begun.
    pub(super) fn follow(
        &self,
        note: &Note,
        side: Side,
        state_home: &Path,
    ) -> Result<bool, ApplyError> {
        let Some(before) = note.before.as_deref() else { return Ok(false) };
        let changed = self.differences(before, &note.tree)?;
        let (old, new) = (self.unlike(before, state_home)?, self.unlike(&note.tree, state_home)?);
        let large = self.large_among(&changed)?;
        let in_index = self.in_index(&changed)?;
        let ours: BTreeSet<&Path> = changed.iter().map(|entry| Path::new(&entry.path)).collect();
        let (mut begun, mut foreign, mut staged) = (note.commit.is_some(), Vec::new(), Vec::new());
        let (mut to_write, mut to_stage) = (Vec::new(), Vec::new());
        for entry in &changed {
            let path = self.top().join(&entry.path);
            let is_there = fs::symlink_metadata(&path).is_ok();
            let mut file = Stands {
                as_before: if entry.is_new() { !is_there } else { !old.contains(&entry.path) },
                as_after: if entry.is_gone() { !is_there } else { !new.contains(&entry.path) },
            };
            // Of a large file the trees have the pointer only.
            if large.contains(&entry.path)
                && let Some(pointer) = Pointer::blob_for(&path)
            {
                file.as_before |= pointer == entry.old_hash;
                file.as_after |= pointer == entry.hash;
            }
            let found = in_index.get(entry.path.as_os_str());
            let [before, after] = entry.both().map(|is| is == found.map(|(m, h)| (&**m, &**h)));
            let index = Stands { as_before: before, as_after: after };
            begun |= !file.as_before || !index.as_before;
            let is_blocked = in_the_way(self.top(), Path::new(&entry.path), &ours).is_some();
            let is_neither = is_there && !file.as_before && !file.as_after;
            if is_blocked || (is_neither && !self.is_cut_off(entry)) {
                foreign.push(entry.path.as_os_str());
            }
            if !file.at(side) {
                to_write.push(entry.toward(side));
            }
            if !index.at(side) {
                to_stage.push(entry.toward(side));
            }
            if !index.as_before && !index.as_after {
                staged.push(entry.path.as_os_str());
            }
        }
        if !begun {
            return Ok(false);
        }
        if !foreign.is_empty() || !staged.is_empty() {
            return Err(changed_since(foreign, staged, note));
        }
        // What is right already is not written again: on a disk that is full, taking away has to be enough.
        stage(&self.git_at_top(), &to_stage)?;
        self.write(&to_write)?;
        Ok(true)
    }

    /// Gives these paths one of their two states, whatever they hold.
    pub(super) fn put(&self, changed: &[Entry], side: Side) -> Result<(), String> {
        let wanted: Vec<Entry> = changed.iter().map(|entry| entry.toward(side)).collect();
        // An index that somebody else holds stops it before any file has changed.
        stage(&self.git_at_top(), &wanted)?;
        self.write(&wanted)
    }

    /// Gives files what the index has of them.
    fn write(&self, wanted: &[Entry]) -> Result<(), String> {
        let (gone, there): (Vec<&Entry>, Vec<&Entry>) =
            wanted.iter().partition(|entry| entry.is_gone());
        for entry in gone {
            let path = Path::new(&entry.path);
            take_away(self.top(), path)
                .map_err(|error| format!("cannot remove {}: {error}", path.display()))?;
        }
        if there.is_empty() {
            return Ok(());
        }
        let asked = there.iter().flat_map(|entry| [entry.path.as_bytes(), b"\0"].concat());
        let words = ["checkout-index", "--quiet", "--force", "--index", "-z", "--stdin"];
        self.git_at_top().output(words.map(OsString::from).to_vec(), Some(asked.collect()))?;
        let large: Vec<OsString> = self.large_among(wanted)?.into_iter().collect();
        let _ = self.fill(wanted, &large);
        Ok(())
    }

    /// Whether a file holds the beginning of what it is to hold and no more, as a git leaves it that was killed or had no room.
    /// Whosever it is, nothing of it is lost with it.
    fn is_cut_off(&self, entry: &Entry) -> bool {
        let path = self.top().join(&entry.path);
        if entry.is_gone() || !fs::symlink_metadata(&path).is_ok_and(|meta| meta.is_file()) {
            return false;
        }
        let mut place = OsString::from("--path=");
        place.push(&entry.path);
        let words = vec!["cat-file".into(), "--filters".into(), place, entry.hash.clone().into()];
        let begins = |mut file| begins_with(&self.git_at_top(), words, &mut file);
        File::open(&path).and_then(begins).unwrap_or(false)
    }

    /// What a commit and a tree of the user's repository differ in.
    pub(super) fn differences(&self, from: &str, to: &str) -> Result<Vec<Entry>, String> {
        let from = format!("{from}^{{tree}}");
        let words = COMPARE.iter().chain(&["-r", &from, to]).map(OsString::from).collect();
        entries(&self.git_at_top().output(words, None)?.out)
    }

    /// What the user's index holds of these paths: mode and name, or a word where there is more than one.
    pub(super) fn in_index(
        &self,
        changed: &[Entry],
    ) -> Result<BTreeMap<OsString, (String, String)>, String> {
        let paths: BTreeSet<&OsStr> = changed.iter().map(|entry| entry.path.as_os_str()).collect();
        let words = ["ls-files", "--stage", "-z"].map(OsString::from).to_vec();
        let printed = self.git_at_top().output(words, None)?.out;
        let mut found = BTreeMap::new();
        for line in printed.split(|byte| *byte == 0) {
            let Some(tab) = line.iter().position(|byte| *byte == b'\t') else { continue };
            let path = OsStr::from_bytes(&line[tab + 1..]);
            if !paths.contains(path) {
                continue;
            }
            let about = String::from_utf8_lossy(&line[..tab]);
            let held = match about.split(' ').collect::<Vec<_>>().as_slice() {
                [mode, hash, "0"] => ((*mode).to_owned(), (*hash).to_owned()),
                _ => ("unmerged".to_owned(), String::new()),
            };
            found.insert(path.to_owned(), held);
        }
        Ok(found)
    }

    /// The files that are not as a tree has them.
    fn unlike(&self, tree: &str, state_home: &Path) -> Result<BTreeSet<OsString>, String> {
        let index = state_home.join("run").join(format!("apply-{}.index", std::process::id()));
        let mut git = self.git_at_top();
        git.env.push(("GIT_INDEX_FILE".to_owned(), text(&index)?));
        let look = || {
            git.run(["read-tree".into(), tree.into()])?;
            let _ = git.run(["update-index", "-q", "--refresh"].map(OsString::from));
            let asked = ["diff-files", "-z", "--name-only", "--ignore-submodules=all"];
            git.output(asked.map(OsString::from).to_vec(), None)
        };
        let printed = look();
        let _ = fs::remove_file(&index);
        Ok(paths_in(&printed?.out))
    }

    pub(super) fn git_at_top(&self) -> Git {
        Git { cwd: Some(self.top().to_owned()), ..self.git().clone() }
    }
}

/// What to do about changes of the user's must be safe to do: a commit from an index of before would undo the task's.
fn changed_since(foreign: Vec<&OsStr>, staged: Vec<&OsStr>, note: &Note) -> ApplyError {
    let mut all: Vec<&OsStr> = foreign.iter().chain(&staged).copied().collect();
    all.sort_unstable();
    all.dedup();
    let mut hints = Vec::new();
    if note.commit.is_some() {
        hints.push(
            "commit nothing before that: your index is still the one from before the task's commit",
        );
    }
    if !foreign.is_empty() {
        hints.push("move each of them away (mv FILE FILE.mine) and ask again; then look at what of yours is to go back");
    }
    if !staged.is_empty() {
        hints.push("git restore --staged FILE takes what you have staged out of the index, and leaves the file as it is");
    }
    refused(
        format!(
            "handing over was cut short, and these files have been changed since: {}",
            named(all.into_iter())
        ),
        &hints,
    )
}

/// Removes a file and the folders that it leaves empty; nothing through a link, and no folder with something in it.
fn take_away(top: &Path, path: &Path) -> io::Result<()> {
    let above = || path.ancestors().skip(1).filter(|folder| !folder.as_os_str().is_empty());
    let is_folder =
        |folder: &Path| fs::symlink_metadata(top.join(folder)).is_ok_and(|meta| meta.is_dir());
    if !above().all(is_folder) {
        return Ok(());
    }
    match fs::remove_file(top.join(path)) {
        Err(error)
            if !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::IsADirectory) =>
        {
            return Err(error);
        }
        Ok(()) | Err(_) => {}
    }
    for folder in above() {
        if fs::remove_dir(top.join(folder)).is_err() {
            break;
        }
    }
    Ok(())
}
