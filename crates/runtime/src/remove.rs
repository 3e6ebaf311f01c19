//! Removes a folder with all that is in it, however deep it is, and whatever modes its folders have: commands have worked
//! in it. What the standard library has for that goes down by recursion with a descriptor for each level, so that a folder
//! can be made that ends the process.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, fstat, openat, unlinkat};
use rustix::io::Errno;

/// What an owner needs to look into a folder, and to remove what is in it.
const OWN: u32 = 0o700;

/// A folder on the way down.
struct Level {
    /// Its name in the one above.
    name: OsString,
    /// Which folder it is, whatever name it gets meanwhile.
    which: (u64, u64),
    /// What is still to be removed in it.
    left: Vec<OsString>,
}

/// Removes a folder, or whatever else has its name. A link is removed, not followed. That there is nothing is no error.
pub(crate) fn tree(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(meta) if meta.is_dir() => {}
        Ok(_) => return fs::remove_file(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    }
    let (mut folder, top) = enter(None, path.as_os_str())?;
    let mut levels = vec![top];
    while let Some(level) = levels.last_mut() {
        if let Some(name) = level.left.pop() {
            match unlinkat(&folder, &name, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(Errno::ISDIR) => {
                    let (inner, level) = enter(Some(&folder), &name)?;
                    folder = inner;
                    levels.push(level);
                }
                Err(error) => return Err(error.into()),
            }
            continue;
        }
        let done = levels.pop().map(|level| level.name).unwrap_or_default();
        let Some(above) = levels.last() else { break };
        folder = open(&folder, OsStr::new(".."))?;
        if which(&folder)? != above.which {
            return Err(io::Error::other("somebody moves its folders"));
        }
        unlinkat(&folder, &done, AtFlags::REMOVEDIR)?;
    }
    fs::remove_dir(path)
}

/// Opens a folder, through no link, and sees what is in it.
fn enter(above: Option<&OwnedFd>, name: &OsStr) -> io::Result<(OwnedFd, Level)> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let found = match above {
        Some(above) => openat(above, name, flags, Mode::empty())?,
        None => openat(CWD, name, flags, Mode::empty())?,
    };
    let link = format!("/proc/self/fd/{}", found.as_raw_fd());
    let mode = fs::metadata(&link)?.permissions().mode();
    if mode & OWN != OWN {
        fs::set_permissions(&link, fs::Permissions::from_mode(mode & 0o7777 | OWN))?;
    }
    let folder = open(&found, OsStr::new("."))?;
    let mut left = Vec::new();
    for entry in Dir::read_from(&folder)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            left.push(OsStr::from_bytes(name).to_owned());
        }
    }
    let which = which(&folder)?;
    Ok((folder, Level { name: name.to_owned(), which, left }))
}

fn open(above: &OwnedFd, name: &OsStr) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(above, name, flags, Mode::empty())?)
}

fn which(folder: &OwnedFd) -> io::Result<(u64, u64)> {
    let stat = fstat(folder)?;
    Ok((stat.st_dev, stat.st_ino))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use rustix::fs::mkdirat;

    use super::*;

    /// Deeper than any path can say, as `mkdir d; cd d` makes it again and again.
    fn make_deep(top: &Path, levels: usize) {
        let mut folder = OwnedFd::from(fs::File::open(top).unwrap());
        for _ in 0..levels {
            mkdirat(&folder, "d", Mode::from_raw_mode(0o700)).unwrap();
            folder = open(&folder, OsStr::new("d")).unwrap();
        }
    }

    #[test]
    fn a_folder_of_any_depth_goes() {
        // In memory, where there is such a place: a disk takes its time for each of them.
        let memory = Path::new("/dev/shm");
        let place = match tempfile::tempdir_in(memory) {
            Ok(place) => place,
            Err(_) => tempfile::tempdir().unwrap(),
        };
        let top = place.path().join("top");
        fs::create_dir(&top).unwrap();
        make_deep(&top, 20_000);
        tree(&top).unwrap();
        assert!(!top.exists());
        tree(&top).unwrap();
    }

    #[test]
    fn nothing_behind_a_link_is_touched_and_modes_do_not_matter() {
        let place = tempfile::tempdir().unwrap();
        let (top, outside) = (place.path().join("top"), place.path().join("outside"));
        fs::create_dir_all(top.join("a/closed/in")).unwrap();
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("kept"), "").unwrap();
        fs::write(top.join("a/closed/in/file"), "").unwrap();
        symlink(&outside, top.join("a/closed/link")).unwrap();
        for (name, mode) in [("a/closed/in", 0o000), ("a/closed", 0o555), ("a", 0o444)] {
            fs::set_permissions(top.join(name), fs::Permissions::from_mode(mode)).unwrap();
        }
        tree(&top).unwrap();
        assert!(!top.exists() && outside.join("kept").exists());
        symlink(&outside, &top).unwrap();
        tree(&top).unwrap();
        assert!(fs::symlink_metadata(&top).is_err() && outside.join("kept").exists());
    }
}
