//! Whether a file is still the one that was looked at, told without reading it.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// A file as it is: whatever is done to it changes the time of its last change, which nobody can set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileMark {
    path: PathBuf,
    device: u64,
    inode: u64,
    size: u64,
    changed: (i64, i64),
}

impl FileMark {
    /// The file that a path leads to.
    pub(crate) fn of(path: &Path) -> io::Result<FileMark> {
        let path = path.canonicalize()?;
        let found = fs::metadata(&path)?;
        Ok(FileMark {
            path,
            device: found.dev(),
            inode: found.ino(),
            size: found.size(),
            changed: (found.ctime(), found.ctime_nsec()),
        })
    }
}
