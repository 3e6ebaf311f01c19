//! What git does not keep of a folder: empty folders, and modes beside the usual two.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags, mkdirat, openat2, unlinkat};

use super::limits::Special;
use super::{Change, ChangeKind};

/// How many empty folders are kept; more are named as an error.
const MAX_FOLDERS: usize = 100_000;

/// Empty folders, and files whose mode is not the one that git would give them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Extra {
    folders: BTreeSet<OsString>,
    modes: BTreeMap<OsString, u32>,
}

impl Extra {
    /// Looks at the files that git keeps, at what lies beside them, and at the folders it calls untracked. What is
    /// neither file, folder nor link is given back: git passes over it in silence.
    pub(super) fn of(
        folder: &Path,
        files: &[OsString],
        loose: &[OsString],
    ) -> Result<(Extra, Vec<Special>), String> {
        let (mut extra, mut odd) = (Extra::default(), Vec::new());
        let mut folders = BTreeSet::from([PathBuf::new()]);
        for name in files {
            if let Some(parent) = Path::new(name).parent()
                && !folders.contains(parent)
            {
                folders.insert(parent.to_owned());
            }
            let Ok(meta) = fs::symlink_metadata(folder.join(name)) else { continue };
            let mode = meta.permissions().mode() & 0o7777;
            if meta.is_file() && mode != usual(mode) {
                extra.modes.insert(name.clone(), mode);
            }
        }
        for name in loose {
            let name = name.as_bytes().strip_suffix(b"/").unwrap_or(name.as_bytes());
            extra.add_folder(folder, Path::new(OsStr::from_bytes(name)), &mut odd)?;
        }
        for path in folders {
            // A folder that went meanwhile holds nothing; one that cannot be read is git's to complain about.
            for entry in fs::read_dir(folder.join(&path)).into_iter().flatten().flatten() {
                odd.extend(special(&path, &entry));
            }
        }
        odd.sort_by(|one, other| one.path.cmp(&other.path));
        odd.dedup();
        Ok((extra, odd))
    }

    /// Adds a folder if neither it nor a folder below it holds anything else than folders.
    fn add_folder(
        &mut self,
        root: &Path,
        start: &Path,
        odd: &mut Vec<Special>,
    ) -> Result<(), String> {
        let mut open = vec![start.to_owned()];
        while let Some(path) = open.pop() {
            let whole = root.join(&path);
            let is_folder = fs::symlink_metadata(&whole).is_ok_and(|meta| meta.is_dir());
            if !is_folder || whole.join(".git").exists() {
                continue;
            }
            let entries =
                fs::read_dir(&whole).map_err(|error| format!("{}: {error}", whole.display()))?;
            let mut inner = Vec::new();
            let mut has_other = false;
            for entry in entries {
                let entry = entry.map_err(|error| format!("{}: {error}", whole.display()))?;
                match entry.file_type() {
                    Ok(kind) if kind.is_dir() => inner.push(path.join(entry.file_name())),
                    _ => {
                        has_other = true;
                        odd.extend(special(&path, &entry));
                    }
                }
            }
            if inner.is_empty() && !has_other {
                self.folders.insert(path.into_os_string());
            }
            open.extend(inner);
            if self.folders.len() > MAX_FOLDERS {
                return Err(format!("there are more than {MAX_FOLDERS} empty folders"));
            }
        }
        Ok(())
    }

    /// What differs on the way to another.
    pub(super) fn changes(&self, to: &Extra) -> Vec<Change> {
        let change = |path: &OsString, kind| Change { path: path.clone(), kind };
        let gone = self.folders.difference(&to.folders).map(|p| change(p, ChangeKind::Removed));
        let new = to.folders.difference(&self.folders).map(|p| change(p, ChangeKind::Added));
        let modes = self
            .modes
            .keys()
            .chain(to.modes.keys())
            .filter(|path| self.modes.get(*path) != to.modes.get(*path));
        let modes: BTreeSet<&OsString> = modes.collect();
        let modes = modes.into_iter().map(|path| change(path, ChangeKind::Changed));
        gone.chain(new).chain(modes).collect()
    }

    /// Gives a folder whose files are in place what git did not; `before` is what it had.
    pub(super) fn apply(&self, folder: &Path, before: &Extra) -> Result<(), String> {
        let root = open_beneath(None, folder.as_os_str())
            .map_err(|error| format!("{}: {error}", folder.display()))?;
        let wrong =
            |path: &OsStr, error: io::Error| format!("{}: {error}", Path::new(path).display());
        for path in before.folders.difference(&self.folders) {
            remove_empty(&root, Path::new(path)).map_err(|error| wrong(path, error))?;
        }
        for path in &self.folders {
            make_folders(&root, Path::new(path)).map_err(|error| wrong(path, error))?;
        }
        for (path, mode) in &self.modes {
            set_mode(&root, path, |_| *mode).map_err(|error| wrong(path, error))?;
        }
        for path in before.modes.keys().filter(|path| !self.modes.contains_key(*path)) {
            // It may be gone or of another kind now; whoever restores compares what is there in the end.
            let _ = set_mode(&root, path, usual);
        }
        Ok(())
    }

    /// Entries that end with a NUL: `d` and a folder, or `m`, the mode in octal digits, a space and a file.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for path in &self.folders {
            bytes.push(b'd');
            bytes.extend_from_slice(path.as_bytes());
            bytes.push(0);
        }
        for (path, mode) in &self.modes {
            bytes.extend_from_slice(format!("m{mode:o} ").as_bytes());
            bytes.extend_from_slice(path.as_bytes());
            bytes.push(0);
        }
        bytes
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Result<Extra, String> {
        let mut extra = Extra::default();
        for entry in bytes.split(|byte| *byte == 0).filter(|entry| !entry.is_empty()) {
            let known = match entry.split_first() {
                Some((b'd', path)) => extra.folders.insert(OsStr::from_bytes(path).to_owned()),
                Some((b'm', rest)) => rest
                    .iter()
                    .position(|byte| *byte == b' ')
                    .and_then(|at| {
                        let digits = std::str::from_utf8(&rest[..at]).ok()?;
                        let mode = u32::from_str_radix(digits, 8).ok()?;
                        let path = OsStr::from_bytes(&rest[at + 1..]).to_owned();
                        extra.modes.insert(path, mode).is_none().then_some(())
                    })
                    .is_some(),
                _ => false,
            };
            if !known {
                return Err("the checkpoint's list of folders and modes is damaged".to_owned());
            }
        }
        Ok(extra)
    }
}

fn special(folder: &Path, entry: &fs::DirEntry) -> Option<Special> {
    let kind = entry.file_type().ok()?;
    let kind = match () {
        () if kind.is_socket() => "a socket",
        () if kind.is_fifo() => "a pipe",
        () if kind.is_block_device() || kind.is_char_device() => "a device",
        () => return None,
    };
    Some(Special { path: folder.join(entry.file_name()).into_os_string(), kind })
}

/// The mode that git gives a file when it writes it.
fn usual(mode: u32) -> u32 {
    if mode & 0o100 == 0 { 0o644 } else { 0o755 }
}

/// Opens without following any link, below `root`.
fn open_beneath(root: Option<&OwnedFd>, path: &OsStr) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    Ok(match root {
        Some(root) => openat2(
            root,
            path,
            flags,
            Mode::empty(),
            ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS,
        )?,
        None => openat2(CWD, path, flags, Mode::empty(), ResolveFlags::empty())?,
    })
}

fn set_mode(root: &OwnedFd, path: &OsStr, mode: impl Fn(u32) -> u32) -> io::Result<()> {
    let file = open_beneath(Some(root), path)?;
    let link = PathBuf::from(format!("/proc/self/fd/{}", file.as_fd().as_raw_fd()));
    let meta = fs::metadata(&link)?;
    if !meta.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let wanted = mode(meta.permissions().mode() & 0o7777);
    fs::set_permissions(&link, fs::Permissions::from_mode(wanted))
}

fn make_folders(root: &OwnedFd, path: &Path) -> io::Result<()> {
    let mut made = PathBuf::new();
    for part in path.components() {
        let parent = if made.as_os_str().is_empty() {
            root.try_clone()?
        } else {
            open_beneath(Some(root), made.as_os_str())?
        };
        match mkdirat(&parent, part.as_os_str(), Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        made.push(part);
    }
    Ok(())
}

/// Removes an empty folder, and those above it that it leaves empty; one that holds something stays.
fn remove_empty(root: &OwnedFd, path: &Path) -> io::Result<()> {
    for path in path.ancestors().filter(|path| !path.as_os_str().is_empty()) {
        let parent = match path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            Some(parent) => match open_beneath(Some(root), parent.as_os_str()) {
                Ok(parent) => parent,
                // It is gone, or something else is there now: what is compared in the end decides.
                Err(_) => continue,
            },
            None => root.try_clone()?,
        };
        let Some(name) = path.file_name() else { continue };
        match unlinkat(&parent, name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(rustix::io::Errno::NOENT) => {}
            Err(rustix::io::Errno::NOTEMPTY | rustix::io::Errno::NOTDIR) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
