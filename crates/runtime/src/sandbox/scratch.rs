//! A folder of this machine's temporary one for as long as a command runs in its sandbox: for the command's own temporary
//! files, or for the socket of its way to the network. One whose process was killed is removed by the next process.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::time::Duration;

use crate::lock::FileLock;

/// What they are called, before what makes them different.
const NAME: &str = "drivetrain-box-";

/// A younger one may belong to somebody who has made it and not locked it yet.
const FRESH: Duration = Duration::from_secs(60);

/// The folder; it goes with this.
#[derive(Debug)]
pub(super) struct Scratch {
    path: PathBuf,
    _lock: FileLock,
}

impl Scratch {
    /// Makes an empty one that only this user can enter.
    pub(super) fn make() -> Result<Scratch, String> {
        static CLEARED: Once = Once::new();
        let place = std::env::temp_dir();
        CLEARED.call_once(|| clear(&place));
        let failed = |error| format!("no folder for temporary files can be made: {error}");
        Scratch::make_in(&place).map_err(failed)
    }

    fn make_in(place: &Path) -> io::Result<Scratch> {
        let mut random = [0u8; 8];
        getrandom::fill(&mut random).map_err(io::Error::other)?;
        let path = place.join(format!("{NAME}{:016x}", u64::from_ne_bytes(random)));
        DirBuilder::new().mode(0o700).create(&path)?;
        let locked =
            path.canonicalize().and_then(|whole| Ok((FileLock::wait(File::open(&whole)?)?, whole)));
        match locked {
            Ok((lock, whole)) => Ok(Scratch { path: whole, _lock: lock }),
            Err(error) => {
                let _ = fs::remove_dir(&path);
                Err(error)
            }
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Removes those that nobody holds any more.
fn clear(place: &Path) {
    for entry in fs::read_dir(place).into_iter().flatten().flatten() {
        let is_ours = entry.file_name().as_encoded_bytes().starts_with(NAME.as_bytes());
        if is_ours && is_old(&entry) && is_abandoned(&entry) {
            // Those of other users stay.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

fn is_old(entry: &fs::DirEntry) -> bool {
    let changed = entry.metadata().and_then(|data| data.modified()).ok();
    changed.and_then(|at| at.elapsed().ok()).is_some_and(|age| age > FRESH)
}

/// Whether it is a folder that no living process has locked. A link is never followed, nor a fifo waited for.
fn is_abandoned(entry: &fs::DirEntry) -> bool {
    let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
    is_folder && File::open(entry.path()).is_ok_and(|folder| FileLock::take(folder).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::SystemTime;

    #[test]
    fn it_goes_when_it_is_dropped_and_what_the_killed_left_goes_with_the_next_process() {
        let place = tempfile::tempdir().unwrap();
        let old = |path: &Path| {
            let long_ago = SystemTime::now() - 2 * FRESH;
            File::open(path).unwrap().set_modified(long_ago).unwrap();
        };
        let left = |name: &str| {
            let path = place.path().join(name);
            fs::create_dir_all(path.join("inside")).unwrap();
            path
        };
        let held = Scratch::make_in(place.path()).unwrap();
        let (abandoned, fresh, foreign) =
            (left("drivetrain-box-1"), left("drivetrain-box-2"), left("another"));
        for path in [held.path(), &abandoned, &foreign] {
            old(path);
        }
        std::os::unix::fs::symlink(&foreign, place.path().join("drivetrain-box-3")).unwrap();
        clear(place.path());
        assert!(!abandoned.exists());
        assert!(held.path().exists() && fresh.exists() && foreign.join("inside").exists());
        let path = held.path().to_owned();
        drop(held);
        assert!(!path.exists());
    }
}
