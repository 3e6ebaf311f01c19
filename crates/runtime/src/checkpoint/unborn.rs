//! A repository inside the workspace that has no commit yet, as `git init` leaves it: git does not add one, and says so. Its
//! files belong to the workspace like those of every other.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The repository that git complains about, by its path below the folder.
pub(super) fn named(said: &str, folder: &Path) -> Option<OsString> {
    let about = said.lines().find(|line| line.contains("does not have a commit checked out"))?;
    let name = about.split_once('\'')?.1.rsplit_once('\'')?.0;
    let name = name.strip_suffix('/').unwrap_or(name);
    let is_there = !name.is_empty() && folder.join(name).join(".git").exists();
    is_there.then(|| OsStr::from_bytes(name.as_bytes()).to_owned())
}
