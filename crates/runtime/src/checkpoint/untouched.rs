//! The first checkpoint of a worktree in which nobody has worked yet: all that it holds stands in the index that git made
//! with it. Whether that is so is seen here, byte by byte; git would need five processes for it.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::extra::Extra;
use super::index::{self, Entry, Mode};
use super::objects::{FOLDER, Hasher, Kind, Name, Tree, hex};
use super::{Content, Seen, Store, copy_index, limits, pack, with_end};

/// From so many files, or bytes of them, on git packs them: it compresses.
const MANY: u32 = 50;
const LARGE: u64 = 1024 * 1024;

/// Objects by their names.
type Objects = BTreeMap<Name, (Kind, Vec<u8>)>;

impl Store<'_> {
    /// What a new worktree holds, and all of it kept here. None where it is not exactly what its index says, or that
    /// cannot be seen; git then looks at it.
    pub(super) fn untouched(&self, folder: &Path) -> Result<Option<Seen>, String> {
        let Some(index) = index_of(folder) else { return Ok(None) };
        let Ok(bytes) = fs::read(&index) else { return Ok(None) };
        let is_large = index::count(&bytes).is_some_and(|count| count >= MANY);
        // Without the objects of the commit here, the same takes longer.
        let inherited = is_large.then(|| self.inherit(folder).ok().flatten()).flatten();
        let Some(entries) = index::entries(&bytes) else { return Ok(None) };
        let Some(size) = size(folder, &entries, limits::most()?) else { return Ok(None) };
        let mut objects = Objects::new();
        let tree = hex(&tree_of(&entries, 0, &mut objects));
        let is_kept = match inherited {
            Some(inherited) => {
                inherited == tree && entries.iter().all(|entry| is_as_it_says(folder, entry))
            }
            None => !is_large && size < LARGE && self.take(folder, &entries, objects),
        };
        let names: Vec<OsString> = entries.into_iter().map(|entry| entry.path).collect();
        let (extra, odd) = Extra::of(folder, &names, &[])?;
        if !is_kept || !odd.is_empty() {
            return Ok(None);
        }
        self.take_index(&index)?;
        let content = Content { files: tree, extra };
        Ok(Some(Seen { content, files: names, joined: false }))
    }

    /// Keeps a few small files, if they are what the index says.
    fn take(&self, folder: &Path, entries: &[Entry], mut objects: Objects) -> bool {
        for entry in entries {
            let Ok(content) = content(folder, entry) else { return false };
            if Hasher::whole(Kind::Blob, &content) != entry.name {
                return false;
            }
            objects.insert(entry.name, (Kind::Blob, content));
        }
        pack::write(&self.path.join("objects/pack"), &objects).is_ok()
    }

    /// What git knows of the files when it has just written them: the next checkpoint need not read them again.
    fn take_index(&self, from: &Path) -> Result<(), String> {
        let beside = with_end(&self.index(), ".taken");
        copy_index(from, &beside)?;
        let put = || {
            File::open(&beside)?.sync_all()?;
            fs::rename(&beside, self.index())
        };
        put().map_err(|error| format!("cannot write {}: {error}", self.index().display()))
    }
}

/// Where the index of a worktree is; none if it shows only a part of its commit.
fn index_of(folder: &Path) -> Option<PathBuf> {
    let link = fs::read_to_string(folder.join(".git")).ok()?;
    let about = folder.join(link.strip_prefix("gitdir: ")?.trim_end());
    (!about.join("info/sparse-checkout").exists()).then(|| about.join("index"))
}

/// How many bytes the files of a folder have, if they are those of the index and none is larger than `most`.
fn size(folder: &Path, entries: &[Entry], most: u64) -> Option<u64> {
    let mut names = Vec::with_capacity(entries.len());
    let mut open = vec![PathBuf::new()];
    let mut size = 0;
    while let Some(inner) = open.pop() {
        let before = names.len() + open.len();
        for found in fs::read_dir(folder.join(&inner)).ok()? {
            let found = found.ok()?;
            let path = inner.join(found.file_name());
            if path == Path::new(".git") {
                continue;
            }
            if found.file_type().ok()?.is_dir() {
                open.push(path);
                continue;
            }
            let length = found.metadata().ok()?.len();
            size += length;
            if length > most {
                return None;
            }
            names.push(path.into_os_string());
        }
        // A folder that is empty is no work of git's.
        if names.len() + open.len() == before && !inner.as_os_str().is_empty() {
            return None;
        }
    }
    names.sort_unstable();
    names.iter().eq(entries.iter().map(|entry| &entry.path)).then_some(size)
}

/// What a file holds whose kind is the one that its entry names.
fn content(folder: &Path, entry: &Entry) -> io::Result<Vec<u8>> {
    let path = folder.join(&entry.path);
    let meta = fs::symlink_metadata(&path)?;
    match entry.mode {
        Mode::Link if meta.is_symlink() => {
            fs::read_link(&path).map(|target| target.into_os_string().into_vec())
        }
        Mode::File | Mode::Program if meta.is_file() && is_program(&meta) == entry.is_program() => {
            fs::read(&path)
        }
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// The same for files of any size, which are only compared.
fn is_as_it_says(folder: &Path, entry: &Entry) -> bool {
    let compare = || {
        if entry.mode == Mode::Link {
            let target = content(folder, entry)?;
            return Ok(Hasher::whole(Kind::Blob, &target) == entry.name);
        }
        let path = folder.join(&entry.path);
        let meta = fs::symlink_metadata(&path)?;
        if !meta.is_file() || is_program(&meta) != entry.is_program() {
            return Ok(false);
        }
        let mut hasher = Hasher::new(Kind::Blob, meta.len());
        let mut file = File::open(&path)?;
        let mut buffer = vec![0; 64 * 1024];
        loop {
            match file.read(&mut buffer)? {
                0 => break,
                count => hasher.add(&buffer[..count]),
            }
        }
        Ok::<bool, io::Error>(hasher.name() == entry.name)
    };
    compare().unwrap_or(false)
}

fn is_program(meta: &fs::Metadata) -> bool {
    meta.permissions().mode() & 0o100 != 0
}

/// The tree of all entries that have the same folders above them, `above` bytes of their names.
fn tree_of(entries: &[Entry], above: usize, objects: &mut Objects) -> Name {
    let mut tree = Tree::default();
    let mut left = entries;
    while let Some(first) = left.first() {
        let name = &first.path.as_bytes()[above..];
        match name.iter().position(|byte| *byte == b'/') {
            None => {
                tree.add(first.mode.text(), OsStr::from_bytes(name), &first.name);
                left = &left[1..];
            }
            Some(end) => {
                let folder = &first.path.as_bytes()[..=above + end];
                let inside = left.iter().take_while(|it| it.path.as_bytes().starts_with(folder));
                let (inside, rest) = left.split_at(inside.count());
                let inner = tree_of(inside, above + end + 1, objects);
                tree.add(FOLDER, OsStr::from_bytes(&name[..end]), &inner);
                left = rest;
            }
        }
    }
    let bytes = tree.into_bytes();
    let name = Hasher::whole(Kind::Tree, &bytes);
    objects.insert(name, (Kind::Tree, bytes));
    name
}
