//! After a restart of the machine: what the disk lost of the last checkpoint is brought back.
//!
//! A checkpoint is on the disk before the journal names it. The files that it was made of are not: the kernel writes them
//! when it likes, and after a loss of power they may be old, empty or gone. One that nobody changed since the checkpoint
//! and that is not what the checkpoint holds was lost; so was one that is the same as far as it goes, and ends earlier:
//! names and times reach the disk before the content does. Any other is somebody's work since then, and stays.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, FileTimes};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use super::{CHECKPOINTS, ChangeKind, Content, Store, quiet};

/// Seconds and nanoseconds since the epoch.
type Moment = (i64, i64);

impl Store<'_> {
    /// Gives the files back that were lost since the last checkpoint, and their paths.
    pub(crate) fn bring_back(&self, folder: &Path) -> Result<Vec<OsString>, String> {
        let Some(last) = self.tip()? else { return Ok(Vec::new()) };
        let target = self.content(&last)?;
        if self.index().exists() {
            self.doubt_everything()?;
        }
        let found = self.see(folder, &self.index())?;
        let name = self.path.join(CHECKPOINTS);
        let made = fs::symlink_metadata(&name)
            .map(|made| (made.mtime(), made.mtime_nsec()))
            .map_err(|error| format!("cannot look at {}: {error}", name.display()))?;
        // Folders without a file, and modes that git does not keep, are not worth a doubt.
        let (found, tree) = (Content::of_tree(found.content.files), Content::of_tree(target.files));
        let lost: Vec<OsString> = self
            .compare(&found, &tree)?
            .into_iter()
            .filter(|change| change.kind != ChangeKind::Removed)
            .map(|change| change.path)
            .filter(|path| {
                last_touched(folder, path).is_some_and(|touched| touched < made)
                    || self.is_cut_off(folder, tree.tree(), path)
            })
            .collect();
        if !lost.is_empty() {
            self.check_out_some(folder, tree.tree(), &lost)?;
        }
        Ok(lost)
    }

    /// Gives a folder that was just made anew the files of the last checkpoint; how many paths differed.
    pub(crate) fn put_back(&self, folder: &Path) -> Result<usize, String> {
        let Some(last) = self.tip()? else { return Ok(0) };
        let differed = self.fill(folder, &last)?;
        sync(folder)?;
        Ok(differed)
    }

    /// Whether a file holds the beginning of what it held, and nothing or zeros after that.
    fn is_cut_off(&self, folder: &Path, tree: &str, path: &OsStr) -> bool {
        let found = folder.join(path);
        if !fs::symlink_metadata(&found).is_ok_and(|meta| meta.is_file()) {
            return false;
        }
        let mut name = OsString::from(format!("{tree}:"));
        name.push(path);
        let held = self
            .git(folder, &self.index())
            .and_then(|git| git.output(vec!["cat-file".into(), "blob".into(), name], None));
        let (Ok(found), Ok(held)) = (fs::read(&found), held) else { return false };
        let end = found.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        end < held.out.len() && held.out.starts_with(&found[..end])
    }

    /// After a loss of power a file may have its old size and time and another content. Git reads those that are as young
    /// as its index, so the index is made older than every file.
    fn doubt_everything(&self) -> Result<(), String> {
        let index = self.index();
        let old = FileTimes::new().set_modified(UNIX_EPOCH + Duration::from_secs(1));
        let doubt = || File::options().write(true).open(&index)?.set_times(old);
        doubt().map_err(|error| format!("cannot use {}: {error}", index.display()))
    }

    fn check_out_some(&self, folder: &Path, tree: &str, paths: &[OsString]) -> Result<(), String> {
        let index = self.no_index("index.restore");
        let git = self.git(folder, &index)?;
        quiet(&git, &["read-tree", tree])?;
        let names: Vec<&[u8]> = paths.iter().map(|path| path.as_bytes()).collect();
        let words = ["checkout-index", "--force", "-z", "--stdin"].map(OsString::from).to_vec();
        let printed = git.output(words, Some(names.join(&0)))?;
        let _ = fs::remove_file(&index);
        if !printed.complaint.is_empty() {
            return Err(printed.complaint);
        }
        sync(folder)
    }
}

/// The next loss of power would not find the files changed before the checkpoint.
fn sync(folder: &Path) -> Result<(), String> {
    let sync = || rustix::fs::syncfs(File::open(folder)?).map_err(io::Error::from);
    sync().map_err(|error| format!("cannot sync {}: {error}", folder.display()))
}

/// When a path was last changed; for one that is not there, when the nearest folder above it was.
fn last_touched(folder: &Path, path: &OsStr) -> Option<Moment> {
    let path = folder.join(path);
    if let Ok(meta) = fs::symlink_metadata(&path) {
        return Some((meta.ctime(), meta.ctime_nsec()));
    }
    let above = path.ancestors().skip(1).take_while(|above| above.starts_with(folder));
    let meta = above.filter_map(|above| fs::symlink_metadata(above).ok()).next()?;
    Some((meta.mtime(), meta.mtime_nsec()))
}
