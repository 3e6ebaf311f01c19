//! Folders that a worker left without permission to write, as caches of tools often are: nothing can be put there or taken
//! away. Modes of folders are in no checkpoint, so each is given back to its owner where something has to change in it.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::Change;

/// What an owner needs to look into a folder, and to put and remove what is in it.
const OWN: u32 = 0o700;

/// Makes the folders writable in which these paths are, below `folder`. Where a link is on the way, nothing is behind it.
pub(super) fn for_changes(folder: &Path, changes: &[Change]) -> io::Result<()> {
    for change in changes {
        let above = Path::new(&change.path).parent().unwrap_or(Path::new(""));
        let mut place = folder.to_owned();
        for part in above.components() {
            place.push(part);
            if !make(&place)? {
                break;
            }
        }
    }
    Ok(())
}

/// False if it is no folder.
fn make(folder: &Path) -> io::Result<bool> {
    let meta = match fs::symlink_metadata(folder) {
        Ok(meta) => meta,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    if !meta.is_dir() {
        return Ok(false);
    }
    let mode = meta.permissions().mode();
    if mode & OWN != OWN {
        fs::set_permissions(folder, fs::Permissions::from_mode(mode & 0o7777 | OWN))?;
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;

    use super::super::ChangeKind;
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn folders_on_the_way_become_writable_and_nothing_behind_a_link_does() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        for name in ["top/a/b", "top/other", "outside/in"] {
            fs::create_dir_all(at(name)).unwrap();
        }
        symlink(at("outside"), at("top/link")).unwrap();
        let folders: [PathBuf; 4] = ["top/a/b", "top/a", "top/other", "outside/in"].map(at);
        let close = || {
            for folder in &folders {
                fs::set_permissions(folder, fs::Permissions::from_mode(0o555)).unwrap();
            }
        };
        close();
        let change = |path: &str| Change { path: OsString::from(path), kind: ChangeKind::Removed };
        let changes = ["a/b/file", "link/in/file", "gone/file", "top"].map(change);
        for_changes(&at("top"), &changes).unwrap();
        assert_eq!(folders.each_ref().map(|folder| mode(folder)), [0o755, 0o755, 0o555, 0o555]);
        fs::set_permissions(at("outside/in"), fs::Permissions::from_mode(0o755)).unwrap();
    }
}
