//! Files beneath one folder, and nowhere else. Paths come from models and strangers: each is checked as text,
//! then resolved by the kernel so that neither `..` nor a symbolic link leads out, whatever changes meanwhile.
//!
//! Writing replaces a file in one step and is refused for names that steer other programs (`.git`,
//! agents' and editors' settings).

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use machine::policy::protected;
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, RawMode, ResolveFlags, Stat, fstat, linkat, mkdirat,
    openat, openat2, readlinkat, renameat, statat, unlinkat,
};
use rustix::io::Errno;

/// The longest path that is looked at, in bytes; the kernel's own limit.
const MAX_PATH: usize = 4096;
/// The longest name in a path, in bytes.
const MAX_NAME: usize = 255;
/// As many symbolic links as the kernel follows in one path.
const MAX_LINKS: usize = 40;

/// Why a path was refused or an operation on it failed. `path` is as it was given.
#[derive(Debug, thiserror::Error)]
#[error("{path:?}: {reason}")]
pub struct PathError {
    /// The path as it was given.
    pub path: String,
    /// What is wrong with it.
    pub reason: Reason,
}

/// What is wrong with a path.
#[derive(Debug, thiserror::Error)]
pub enum Reason {
    /// There is nothing in it.
    #[error("the path is empty; expected a path below the workspace")]
    Empty,
    /// It is longer than any file system takes.
    #[error("the path is too long: expected at most 4096 bytes and 255 bytes a name")]
    TooLong,
    /// It holds something that is no ordinary part of a name.
    #[error("the path holds {0}, which is refused; expected a plain path below the workspace")]
    Suspicious(&'static str),
    /// It leads out of the workspace.
    #[error("the path leads out of the workspace{0}")]
    Outside(&'static str),
    /// It steers other programs and is not written.
    #[error("{0} is protected and cannot be changed by a tool")]
    Protected(String),
    /// It names something that is no regular file.
    #[error("expected a regular file, found {0}")]
    NotAFile(&'static str),
    /// Other names lead to the same file, perhaps outside.
    #[error("the file has {0} hard links, so a change could show elsewhere; it is not written")]
    HardLinked(u64),
    /// It holds more than the caller can take.
    #[error("the file has {size} bytes; expected at most {limit}")]
    TooLarge {
        /// Its size.
        size: u64,
        /// What the caller takes.
        limit: u64,
    },
    /// There is no such file.
    #[error("there is no such file or folder")]
    Missing,
    /// The system refused.
    #[error("{0}")]
    System(io::Error),
}

/// What a path names; a link is followed first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A device, FIFO or socket.
    Special,
}

/// What a write did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Written {
    /// There was no such file before.
    Created,
    /// The file had other content before.
    Replaced,
    /// The file had exactly this content; it was left as it is.
    Unchanged,
}

/// A folder that paths are resolved beneath.
#[derive(Debug)]
pub struct Root {
    folder: OwnedFd,
    /// As given, and with links resolved: absolute paths may begin with either.
    names: [PathBuf; 2],
    resolver: Resolver,
    /// Whether names that steer other programs stay as they are.
    protects: bool,
}

/// Who resolves paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resolver {
    /// The kernel where it can (openat2), else as `Walk`.
    Auto,
    /// One name at a time, links read as text.
    Walk,
}

impl Root {
    /// Opens a folder.
    pub fn open(folder: &Path) -> io::Result<Root> {
        Root::open_with(folder, Resolver::Auto)
    }

    /// Opens a folder with a resolver.
    pub fn open_with(folder: &Path, resolver: Resolver) -> io::Result<Root> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = openat(CWD, folder, flags, Mode::empty())?;
        let real = folder.canonicalize()?;
        Ok(Root { folder: fd, names: [folder.to_owned(), real], resolver, protects: true })
    }

    /// Opens a folder of drivetrain's own, in which no name is protected from it.
    pub(crate) fn open_own(folder: &Path) -> io::Result<Root> {
        Ok(Root { protects: false, ..Root::open(folder)? })
    }

    /// Opens a regular file for reading. Never blocks, whatever the path names.
    pub fn open_file(&self, path: &str) -> Result<File, PathError> {
        let wrap = |reason| PathError { path: path.to_owned(), reason };
        let clean = self.clean(path).map_err(wrap)?;
        let handle = self.resolve(&clean, OFlags::PATH).map_err(|e| wrap(Reason::from(e)))?;
        let stat = fstat(&handle).map_err(|e| wrap(Reason::from(e)))?;
        require_file(&stat).map_err(wrap)?;
        // Reopened through the handle, so that it is the very file that was looked at.
        let again = format!("/proc/self/fd/{}", handle.as_raw_fd());
        File::open(again).map_err(|e| wrap(Reason::System(e)))
    }

    /// Reads a regular file of at most `limit` bytes.
    pub fn read(&self, path: &str, limit: u64) -> Result<Vec<u8>, PathError> {
        let wrap = |reason| PathError { path: path.to_owned(), reason };
        let file = self.open_file(path)?;
        let size = file.metadata().map_err(|e| wrap(Reason::System(e)))?.len();
        if size > limit {
            return Err(wrap(Reason::TooLarge { size, limit }));
        }
        let mut bytes = Vec::new();
        file.take(limit + 1).read_to_end(&mut bytes).map_err(|e| wrap(Reason::System(e)))?;
        if bytes.len() as u64 > limit {
            return Err(wrap(Reason::TooLarge { size: bytes.len() as u64, limit }));
        }
        Ok(bytes)
    }

    /// What a path names; none if nothing.
    pub fn kind(&self, path: &str) -> Result<Option<Kind>, PathError> {
        let wrap = |reason| PathError { path: path.to_owned(), reason };
        let clean = self.clean_or_root(path).map_err(wrap)?;
        match self.resolve(&clean, OFlags::PATH) {
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
            Err(error) => Err(wrap(Reason::from(error))),
            Ok(handle) => {
                let stat = fstat(&handle).map_err(|e| wrap(Reason::from(e)))?;
                Ok(Some(match FileType::from_raw_mode(stat.st_mode) {
                    FileType::RegularFile => Kind::File,
                    FileType::Directory => Kind::Folder,
                    _ => Kind::Special,
                }))
            }
        }
    }

    /// Whether the owner of a file may execute it; none if it is no file that can be looked at.
    pub fn is_executable(&self, path: &str) -> Option<bool> {
        let handle = self.resolve(&self.clean(path).ok()?, OFlags::PATH).ok()?;
        Some(fstat(&handle).ok()?.st_mode & 0o100 != 0)
    }

    /// Whether anything at all has this name, a dangling link included.
    pub fn exists(&self, path: &str) -> Result<bool, PathError> {
        let wrap = |reason| PathError { path: path.to_owned(), reason };
        let clean = self.clean(path).map_err(wrap)?;
        match self.resolve(&clean, OFlags::PATH | OFlags::NOFOLLOW) {
            Ok(_) => Ok(true),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(false),
            Err(error) => Err(wrap(Reason::from(error))),
        }
    }

    /// The path below the root as plain text: no `.`, no `..`, no root in front. Empty for the root itself.
    pub fn relative(&self, path: &str) -> Result<String, PathError> {
        self.clean_or_root(path).map_err(|reason| PathError { path: path.to_owned(), reason })
    }

    /// Checks everything about a write but its success. Creates nothing.
    pub fn check_write(&self, path: &str) -> Result<(), PathError> {
        self.place(path, Parents::Look)
            .map(|_| ())
            .map_err(|reason| PathError { path: path.to_owned(), reason })
    }

    /// Replaces or creates a file in one step, and the folders above it. The mode of a replaced file stays
    /// unless `executable` says otherwise.
    pub fn write(
        &self,
        path: &str,
        bytes: &[u8],
        executable: Option<bool>,
    ) -> Result<Written, PathError> {
        let wrap = |reason| PathError { path: path.to_owned(), reason };
        // Looked at first, so that a refused write leaves no folders behind.
        self.place(path, Parents::Look).map_err(wrap)?;
        let place = self.place(path, Parents::Create).map_err(wrap)?;
        let Some(folder) = place.folder else { return Err(wrap(Reason::Missing)) };
        replace(&folder, &place.name, place.mode, bytes, executable).map_err(wrap)
    }

    /// Removes a regular file, or the link that has this name.
    pub fn remove(&self, path: &str) -> Result<(), PathError> {
        let wrap = |reason| PathError { path: path.to_owned(), reason };
        let place = self.place(path, Parents::Look).map_err(wrap)?;
        match (place.folder, place.mode) {
            (Some(folder), Some(_)) => unlinkat(&folder, &place.name, AtFlags::empty())
                .map_err(|error| wrap(Reason::from(error))),
            _ => Err(wrap(Reason::Missing)),
        }
    }

    /// Refuses names that steer other programs.
    fn check_protected(&self, clean: &str) -> Result<(), Reason> {
        let name = protected::part(clean).filter(|_| self.protects);
        name.map_or(Ok(()), |name| Err(Reason::Protected(name.to_owned())))
    }

    /// Finds the folder and the name that a write would go to, through links that stay inside.
    fn place(&self, path: &str, parents: Parents) -> Result<Place, Reason> {
        let mut clean = self.clean(path)?;
        if path.ends_with('/') {
            return Err(Reason::NotAFile("a path that ends in a slash"));
        }
        for _ in 0..MAX_LINKS {
            self.check_protected(&clean)?;
            let (above, name) = clean.rsplit_once('/').unwrap_or(("", &clean));
            let folder = match self.resolve(above, OFlags::PATH | OFlags::DIRECTORY) {
                Ok(folder) => folder,
                Err(Errno::NOENT) if parents == Parents::Create => self.make_folders(above)?,
                Err(Errno::NOENT) => {
                    self.check_missing(above)?;
                    return Ok(Place { folder: None, name: name.to_owned(), mode: None });
                }
                Err(error) => return Err(Reason::from(error)),
            };
            // Links may have led elsewhere: what counts for protection is where the file really is.
            let real = self.real_path(&folder)?;
            self.check_protected(&join(&real, name))?;
            let stat = match statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) {
                Err(Errno::NOENT) => {
                    return Ok(Place { folder: Some(folder), name: name.to_owned(), mode: None });
                }
                other => other?,
            };
            if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink {
                let target = readlinkat(&folder, name, Vec::new())?;
                let target = target
                    .into_string()
                    .map_err(|_| Reason::Suspicious("a link that is not UTF-8"))?;
                if target.starts_with('/') {
                    return Err(Reason::Outside(": a symbolic link in it is absolute"));
                }
                clean = self.clean(&join(&real, &target))?;
                continue;
            }
            require_file(&stat)?;
            // The field's type differs between platforms.
            #[allow(clippy::unnecessary_cast)]
            let links = stat.st_nlink as u64;
            if links > 1 {
                return Err(Reason::HardLinked(links));
            }
            return Ok(Place {
                folder: Some(folder),
                name: name.to_owned(),
                mode: Some(stat.st_mode),
            });
        }
        Err(Reason::from(Errno::LOOP))
    }

    /// Of a path that does not exist yet, checks that the part which does exist stays inside and unprotected.
    fn check_missing(&self, path: &str) -> Result<(), Reason> {
        let mut above = path;
        while let Some((shorter, _)) = above.rsplit_once('/') {
            match self.resolve(shorter, OFlags::PATH | OFlags::DIRECTORY) {
                Ok(folder) => {
                    let real = self.real_path(&folder)?;
                    return self.check_protected(&join(&real, &path[shorter.len() + 1..]));
                }
                Err(Errno::NOENT) => above = shorter,
                Err(error) => return Err(Reason::from(error)),
            }
        }
        // A dangling link in the first place would have been created through.
        let first = path.split('/').next().unwrap_or_default();
        match statat(&self.folder, first, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => Ok(()),
            Ok(_) => Err(Reason::Outside(": a symbolic link in it leads nowhere")),
            Err(error) => Err(Reason::from(error)),
        }
    }

    /// Makes the folders of a clean path, one at a time, each inside the one before.
    fn make_folders(&self, path: &str) -> Result<OwnedFd, Reason> {
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        let mut made = String::new();
        let mut folder = self.resolve("", flags)?;
        for name in path.split('/') {
            made = join(&made, name);
            folder = match self.resolve(&made, flags) {
                Ok(next) => next,
                Err(Errno::NOENT) => {
                    self.check_protected(&join(&self.real_path(&folder)?, name))?;
                    match mkdirat(&folder, name, Mode::from_raw_mode(0o777)) {
                        Ok(()) | Err(Errno::EXIST) => {}
                        Err(error) => return Err(Reason::from(error)),
                    }
                    self.resolve(&made, flags)?
                }
                Err(error) => return Err(Reason::from(error)),
            };
        }
        Ok(folder)
    }

    /// Where a handle really is, below the root.
    fn real_path(&self, handle: &OwnedFd) -> Result<String, Reason> {
        let name_of = |fd: &OwnedFd| {
            std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd())).map_err(Reason::System)
        };
        let (root, path) = (name_of(&self.folder)?, name_of(handle)?);
        let below = path.strip_prefix(&root).map_err(|_| Reason::Outside(""))?;
        let below = below.to_str().ok_or(Reason::Suspicious("a name that is not UTF-8"))?;
        Ok(below.to_owned())
    }

    fn clean(&self, path: &str) -> Result<String, Reason> {
        let clean = self.clean_or_root(path)?;
        if clean.is_empty() {
            Err(Reason::NotAFile("the workspace folder itself"))
        } else {
            Ok(clean)
        }
    }

    /// The text rules, then `.` and `..` taken out. `..` after a link is refused: its meaning is not its text.
    fn clean_or_root(&self, path: &str) -> Result<String, Reason> {
        if path.is_empty() {
            return Err(Reason::Empty);
        }
        let path = if path.starts_with('/') { self.below_root(path)? } else { path };
        check_text(path)?;
        let mut clean: Vec<&str> = Vec::new();
        for name in path.split('/') {
            match name {
                "" | "." => {}
                ".." if clean.is_empty() => return Err(Reason::Outside("")),
                ".." => {
                    self.check_no_link(&clean.join("/"))?;
                    clean.pop();
                }
                _ => clean.push(name),
            }
        }
        Ok(clean.join("/"))
    }

    /// Of an absolute path, the part below the root; anything else is outside.
    fn below_root<'a>(&self, path: &'a str) -> Result<&'a str, Reason> {
        let names = self.names.iter().map(|name| name.as_os_str().as_bytes());
        for name in names.filter(|name| name.len() > 1) {
            if let Some(rest) = path.as_bytes().strip_prefix(name)
                && (rest.is_empty() || rest[0] == b'/')
            {
                let rest = path[name.len()..].trim_start_matches('/');
                return Ok(if rest.is_empty() { "." } else { rest });
            }
        }
        Err(Reason::Outside(": it is absolute and not below the workspace"))
    }

    fn check_no_link(&self, clean: &str) -> Result<(), Reason> {
        let mut above = String::new();
        for name in clean.split('/') {
            above = join(&above, name);
            match self.resolve(&above, OFlags::PATH | OFlags::NOFOLLOW) {
                Err(Errno::NOENT) => return Ok(()),
                Err(error) => return Err(Reason::from(error)),
                Ok(handle) => {
                    if FileType::from_raw_mode(fstat(&handle)?.st_mode) == FileType::Symlink {
                        return Err(Reason::Suspicious("\"..\" after a symbolic link"));
                    }
                }
            }
        }
        Ok(())
    }

    /// A handle to a clean path beneath the root. Only handles (`OFlags::PATH`): opening more than that could
    /// block or set a device off.
    fn resolve(&self, clean: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
        let flags = flags | OFlags::CLOEXEC;
        let clean = if clean.is_empty() { "." } else { clean };
        if self.resolver == Resolver::Auto {
            let how = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
            // Under a race the kernel may ask to try again.
            for _ in 0..64 {
                match openat2(&self.folder, clean, flags, Mode::empty(), how) {
                    Err(Errno::AGAIN | Errno::INTR) => {}
                    Err(Errno::NOSYS | Errno::PERM) => return walk(&self.folder, clean, flags),
                    other => return other,
                }
            }
        }
        walk(&self.folder, clean, flags)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Parents {
    Look,
    Create,
}

/// Where a write goes. No folder: it has to be made first. No mode: the file is new.
struct Place {
    folder: Option<OwnedFd>,
    name: String,
    mode: Option<RawMode>,
}

/// Resolves one name at a time without ever letting the kernel follow a link.
fn walk(root: &OwnedFd, path: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
    let folder_flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut folders: Vec<OwnedFd> = Vec::new();
    let mut rest: VecDeque<Vec<u8>> =
        path.split('/').map(|name| name.as_bytes().to_vec()).collect();
    let mut links = 0;
    while let Some(name) = rest.pop_front() {
        let folder = folders.last().unwrap_or(root).as_fd();
        match &name[..] {
            b"" | b"." if !rest.is_empty() => continue,
            b"." | b"" => return openat(folder, ".", flags | OFlags::NOFOLLOW, Mode::empty()),
            b".." => {
                folders.pop().ok_or(Errno::XDEV)?;
                if rest.is_empty() {
                    rest.push_back(b".".to_vec());
                }
                continue;
            }
            _ => {}
        }
        let handle = openat(folder, &name[..], folder_flags, Mode::empty())?;
        let kind = FileType::from_raw_mode(fstat(&handle)?.st_mode);
        let last = rest.is_empty();
        if kind == FileType::Symlink && !(last && flags.contains(OFlags::NOFOLLOW)) {
            links += 1;
            let target = readlinkat(folder, &name[..], Vec::new())?.into_bytes();
            if links > MAX_LINKS {
                return Err(Errno::LOOP);
            }
            if target.first() == Some(&b'/') {
                return Err(Errno::XDEV);
            }
            for name in target.split(|byte| *byte == b'/').rev() {
                rest.push_front(name.to_vec());
            }
        } else if last {
            return openat(folder, &name[..], flags | OFlags::NOFOLLOW, Mode::empty());
        } else if kind != FileType::Directory {
            return Err(Errno::NOTDIR);
        } else {
            folders.push(handle);
        }
    }
    Err(Errno::NOENT)
}

/// Writes a file beside its final name and renames it: nobody ever sees half of it.
fn replace(
    folder: &OwnedFd,
    name: &str,
    mode: Option<RawMode>,
    bytes: &[u8],
    executable: Option<bool>,
) -> Result<Written, Reason> {
    let wanted = mode.map(|mode| match executable {
        None => mode & 0o777,
        Some(true) => mode & 0o777 | 0o111,
        Some(false) => mode & 0o666,
    });
    if let Some(old) = mode
        && wanted == Some(old & 0o777)
        && same_content(folder, name, bytes)
    {
        return Ok(Written::Unchanged);
    }
    let mut random = [0u8; 8];
    getrandom::fill(&mut random).map_err(|e| Reason::System(io::Error::other(e)))?;
    let temporary = format!(".drivetrain-{:016x}.tmp", u64::from_ne_bytes(random));
    let fresh = Mode::from_raw_mode(if executable == Some(true) { 0o777 } else { 0o666 });
    // Without a name for as long as it is not whole, where the file system can do that: whoever is killed leaves nothing
    // behind in the workspace.
    let flags = OFlags::WRONLY | OFlags::CLOEXEC;
    let fill = |file: OwnedFd| -> Result<File, Reason> {
        let mut file = File::from(file);
        file.write_all(bytes).map_err(Reason::System)?;
        if let Some(wanted) = wanted {
            rustix::fs::fchmod(&file, Mode::from_raw_mode(wanted))?;
        }
        Ok(file)
    };
    let has_name = match openat(folder, ".", flags | OFlags::TMPFILE, fresh) {
        Ok(file) => {
            let file = fill(file)?;
            let unnamed = format!("/proc/self/fd/{}", file.as_raw_fd());
            linkat(CWD, unnamed, folder, &temporary, AtFlags::SYMLINK_FOLLOW).is_ok()
        }
        Err(_) => false,
    };
    let finish = || -> Result<(), Reason> {
        if !has_name {
            let flags = flags | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
            fill(openat(folder, &temporary, flags, fresh)?)?;
        }
        Ok(renameat(folder, &temporary, folder, name)?)
    };
    if let Err(reason) = finish() {
        let _ = unlinkat(folder, &temporary, AtFlags::empty());
        return Err(reason);
    }
    Ok(if mode.is_some() { Written::Replaced } else { Written::Created })
}

fn same_content(folder: &OwnedFd, name: &str, bytes: &[u8]) -> bool {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let Ok(file) = openat(folder, name, flags, Mode::empty()).map(File::from) else { return false };
    if file.metadata().map_or(true, |meta| meta.len() != bytes.len() as u64) {
        return false;
    }
    let mut old = Vec::with_capacity(bytes.len());
    file.take(bytes.len() as u64 + 1).read_to_end(&mut old).is_ok() && old == bytes
}

fn require_file(stat: &Stat) -> Result<(), Reason> {
    Err(Reason::NotAFile(match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => return Ok(()),
        FileType::Directory => "a folder",
        FileType::Fifo => "a FIFO",
        FileType::Socket => "a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        FileType::Symlink => "a symbolic link",
        FileType::Unknown => "something unknown",
    }))
}

/// Refuses text that is no plain path: what some other program would expand, decode or mistake for a path.
fn check_text(path: &str) -> Result<(), Reason> {
    if path.len() > MAX_PATH || path.split('/').any(|name| name.len() > MAX_NAME) {
        return Err(Reason::TooLong);
    }
    for c in path.chars() {
        let what = match c {
            '\0' => "a NUL",
            '\\' => "a backslash",
            c if c.is_control() => "a control character",
            '\u{2044}' | '\u{2215}' | '\u{2216}' | '\u{29F5}' | '\u{29F8}' | '\u{29F9}'
            | '\u{FE68}' | '\u{FF0F}' | '\u{FF3C}' => "a character that looks like a slash",
            '\u{2024}'..='\u{2026}' | '\u{FF0E}' | '\u{FE52}' => {
                "a character that looks like a dot"
            }
            '\u{00AD}'
            | '\u{200B}'..='\u{200F}'
            | '\u{2028}'..='\u{202E}'
            | '\u{2060}'..='\u{206F}'
            | '\u{FEFF}'
            | '\u{E0000}'..='\u{E007F}' => "an invisible character",
            _ => continue,
        };
        return Err(Reason::Suspicious(what));
    }
    let bytes = path.as_bytes();
    let encoded = bytes.windows(3).any(|window| {
        window[0] == b'%' && window[1].is_ascii_hexdigit() && window[2].is_ascii_hexdigit()
    });
    let whole = [
        (path.contains("://"), "a URL"),
        (path.starts_with("file:"), "a URL"),
        (path.starts_with(':'), "git pathspec magic"),
        (path.starts_with('-'), "an option of a command; write ./ in front if it is a name"),
        (path.contains("@{"), "git revision syntax"),
        (path.contains("${") || path.contains("$("), "a shell expansion"),
        (path.starts_with('$'), "a variable"),
        (path.starts_with('`'), "a shell expansion"),
        (encoded, "percent-encoding"),
    ];
    if let Some((_, what)) = whole.iter().find(|(found, _)| *found) {
        return Err(Reason::Suspicious(what));
    }
    for name in path.split('/') {
        let capitals = |rest: &str| rest.bytes().all(|b| b.is_ascii_uppercase() || b == b'_');
        if name.starts_with('~') {
            return Err(Reason::Suspicious("a name that begins with a tilde"));
        }
        if name.len() > 2 && name.bytes().all(|byte| byte == b'.') {
            return Err(Reason::Suspicious("a name of dots alone"));
        }
        // Servers have cut such a name at the semicolon and found the folder above.
        if name.starts_with("..;") {
            return Err(Reason::Suspicious("a name that begins with \"..;\""));
        }
        if name.strip_prefix('$').is_some_and(|rest| !rest.is_empty() && capitals(rest)) {
            return Err(Reason::Suspicious("a variable"));
        }
    }
    Ok(())
}

fn join(above: &str, name: &str) -> String {
    if above.is_empty() { name.to_owned() } else { format!("{above}/{name}") }
}

impl From<Errno> for Reason {
    fn from(error: Errno) -> Reason {
        match error {
            Errno::NOENT => Reason::Missing,
            Errno::XDEV => Reason::Outside(": a symbolic link in it leads out or is absolute"),
            Errno::LOOP => Reason::Suspicious("too many symbolic links, perhaps a circle"),
            Errno::NAMETOOLONG => Reason::TooLong,
            other => Reason::System(other.into()),
        }
    }
}
