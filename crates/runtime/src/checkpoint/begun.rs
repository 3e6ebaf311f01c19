//! The files that a task began with. They are its workspace's whatever ignores them: one that is taken away and made anew
//! is a new file to git, which passes over it where an ignore file names it.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::git::Git;
use crate::whole_file::{self, Lasting};

use super::{CHECKPOINTS, Store, Unkept, checked, limits};

/// Their paths, each ended by a zero byte.
const BEGUN: &str = "begun-with";

impl Store<'_> {
    /// Writes down what the task begins with.
    pub(crate) fn begin_with<'n>(
        &self,
        names: impl IntoIterator<Item = &'n OsStr>,
    ) -> Result<(), String> {
        let ended = names.into_iter().flat_map(|name| [name.as_bytes(), b"\0"]);
        let bytes: Vec<u8> = ended.flatten().copied().collect();
        // What is lost is found out again.
        whole_file::write(&self.path, BEGUN, &bytes, Lasting::No)
            .map_err(|error| format!("cannot write to {}: {error}", self.path.display()))
    }

    /// What the task began with, as it was written down, or as the first checkpoint tells; empty before there is one.
    fn begun(&self) -> Result<Vec<u8>, String> {
        let path = self.path.join(BEGUN);
        match fs::read(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            read => {
                return read.map_err(|error| format!("cannot read {}: {error}", path.display()));
            }
        }
        if self.tip()?.is_none() {
            return Ok(Vec::new());
        }
        let git = self.git(&self.path, &self.index())?;
        let first = ["rev-list", "--max-parents=0", CHECKPOINTS, "--"].map(OsString::from);
        let first = self.content(checked(git.run(first)?.trim_end())?)?;
        let list = ["ls-tree", "-r", "-z", "--full-tree", "--name-only", &first.files];
        let listed = git.output(list.map(OsString::from).to_vec(), None)?.out;
        let names = listed.split(|byte| *byte == 0).filter(|name| !name.is_empty());
        self.begin_with(names.map(OsStr::from_bytes))?;
        Ok(listed)
    }

    /// Adds to an index what git passed over of what the task began with, and gives the paths. `files` are in the index, in its
    /// order.
    pub(super) fn add_begun(
        &self,
        git: &Git,
        folder: &Path,
        files: &[OsString],
    ) -> Result<Vec<OsString>, Unkept> {
        let begun = self.begun()?;
        let names = begun.split(|byte| *byte == 0).filter(|name| !name.is_empty());
        let mut added = Vec::new();
        for name in names.map(OsStr::from_bytes) {
            let known = files.binary_search_by(|file| file.as_os_str().cmp(name)).is_ok();
            let is_left_out = || self.left_out.iter().any(|path| Path::new(name).starts_with(path));
            if !known && is_there(folder, Path::new(name)) && !is_left_out() {
                added.push(name.to_owned());
            }
        }
        if !added.is_empty() {
            limits::refuse_larger(folder, added.iter().map(OsString::as_os_str))?;
            let names: Vec<&[u8]> = added.iter().map(|name| name.as_bytes()).collect();
            let add = ["update-index", "-z", "--add", "--stdin"].map(OsString::from).to_vec();
            git.output(add, Some(names.join(&0)))?;
        }
        Ok(added)
    }
}

/// Whether a file or a link is there, behind no link, and not in a repository inside, which has rules of its own.
fn is_there(folder: &Path, name: &Path) -> bool {
    let found = |path: &Path| fs::symlink_metadata(folder.join(path));
    let is_plain_folder = |path: &Path| {
        found(path).is_ok_and(|meta| meta.is_dir()) && found(&path.join(".git")).is_err()
    };
    let mut above = name.ancestors().skip(1).filter(|above| !above.as_os_str().is_empty());
    found(name).is_ok_and(|meta| meta.is_file() || meta.is_symlink()) && above.all(is_plain_folder)
}
