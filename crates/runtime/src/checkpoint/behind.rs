//! What an index holds behind a folder that became a link: git takes a link that leads nowhere for a removed folder, but one
//! that leads to itself for an error, and would leave out what it cannot look at.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::git::Git;

/// Takes out of the index what stands behind a link.
pub(super) fn forget(git: &Git, folder: &Path) -> Result<(), String> {
    let printed = git.output(["ls-files", "-z"].map(OsString::from).to_vec(), None)?;
    let mut links = BTreeMap::new();
    let mut behind = Vec::new();
    for name in printed.out.split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        let above = Path::new(OsStr::from_bytes(name)).parent();
        let mut folders = above.into_iter().flat_map(Path::ancestors);
        if folders.any(|above| is_link(folder, above, &mut links)) {
            behind.extend_from_slice(name);
            behind.push(0);
        }
    }
    if behind.is_empty() {
        return Ok(());
    }
    let remove = ["update-index", "--force-remove", "-z", "--stdin"].map(OsString::from);
    git.output(remove.to_vec(), Some(behind)).map(drop)
}

fn is_link(folder: &Path, path: &Path, known: &mut BTreeMap<PathBuf, bool>) -> bool {
    if path.as_os_str().is_empty() {
        return false;
    }
    *known.entry(path.to_owned()).or_insert_with(|| {
        fs::symlink_metadata(folder.join(path)).is_ok_and(|meta| meta.is_symlink())
    })
}
