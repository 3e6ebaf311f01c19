//! Writes a file whole or not at all, readable by its owner only.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Whether a file must outlive a loss of power.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lasting {
    Yes,
    No,
}

/// Makes a folder, and those above it.
pub(crate) fn make_folder(folder: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// Writes or replaces `name` in `folder`.
pub(crate) fn write(folder: &Path, name: &str, bytes: &[u8], lasting: Lasting) -> io::Result<()> {
    // Each process writes beside the others.
    let beside = folder.join(format!(".{name}.{}", std::process::id()));
    let written = put(&beside, bytes, lasting).and_then(|()| {
        fs::rename(&beside, folder.join(name))?;
        if lasting == Lasting::Yes { File::open(folder)?.sync_all() } else { Ok(()) }
    });
    if written.is_err() {
        // What is half written is of no use; if it cannot be removed either, its name says what it is.
        let _ = fs::remove_file(&beside);
    }
    written
}

/// Writes what may be lost: without it, it is found out again.
pub(crate) fn remember(path: &Path, known: &impl Serialize) -> io::Result<()> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name().and_then(OsStr::to_str))
    else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let text = serde_json::to_vec(known).map_err(io::Error::other)?;
    write(folder, name, &text, Lasting::No)
}

/// What was remembered, if it is there and can be read.
pub(crate) fn recall<T: DeserializeOwned>(path: &Path) -> Option<T> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

fn put(path: &Path, bytes: &[u8], lasting: Lasting) -> io::Result<()> {
    let mut file =
        OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
    if lasting == Lasting::Yes { file.sync_all() } else { Ok(()) }
}
