//! Repositories inside the workspace, as an index remembers them. Whether one that it knows was changed, git asks a git that
//! runs in there and obeys the settings that it finds; so git never sees a known one, and takes each for a new one, which it
//! only asks for its commit.

use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use crate::git::Git;

use super::index;

/// Takes them out of the index.
pub(super) fn forget(git: &Git, index: &Path) -> Result<(), String> {
    match fs::read(index) {
        Ok(bytes) if index::is_without_repositories(&bytes) => return Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        // Git says what there is to say of it.
        Ok(_) | Err(_) => {}
    }
    let listed = git.output(["ls-files", "-z", "--stage"].map(OsString::from).to_vec(), None)?;
    let known: Vec<&[u8]> = listed.out.split(|byte| *byte == 0).filter_map(name).collect();
    if known.is_empty() {
        return Ok(());
    }
    let remove = ["update-index", "--force-remove", "-z", "--stdin"].map(OsString::from).to_vec();
    git.output(remove, Some(known.join(&0))).map(drop)
}

/// The name in a line of an index, if it is that of a repository.
fn name(line: &[u8]) -> Option<&[u8]> {
    let tab = line.iter().position(|byte| *byte == b'\t')?;
    line.starts_with(b"160000 ").then(|| &line[tab + 1..])
}
