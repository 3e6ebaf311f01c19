//! Files that git LFS keeps: a commit holds a pointer, the content lies in a folder of the repository. Both are plain data,
//! so they are read and written here: no program of LFS runs, and nothing is fetched.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::checkpoint::{Hasher, Kind, hex};
use crate::sha256::Digest;

use super::unguessable;

/// The filter whose files these are.
pub(super) const FILTER: &[u8] = b"lfs";
/// No pointer is longer.
const LONGEST: u64 = 1024;
const BEGIN: &str = "version https://git-lfs.github.com/spec/v1\n";

/// What a commit holds in place of a large file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pointer {
    /// The SHA-256 of the content, which is also its name.
    hash: String,
    size: u64,
}

impl Pointer {
    pub(super) fn to(file: &mut File) -> io::Result<Pointer> {
        let mut digest = Digest::default();
        let size = io::copy(file, &mut digest)?;
        Ok(Pointer { hash: digest.text(), size })
    }

    /// The pointer that a file holds, if it is one.
    pub(super) fn read(path: &Path) -> Option<Pointer> {
        let meta = fs::symlink_metadata(path).ok()?;
        if !meta.is_file() || meta.len() > LONGEST {
            return None;
        }
        Pointer::parse(&fs::read_to_string(path).ok()?)
    }

    /// Keys come in the order of the alphabet after the first, and there may be some that are not ours to know.
    fn parse(text: &str) -> Option<Pointer> {
        let lines = text.strip_prefix(BEGIN)?.strip_suffix('\n')?.lines();
        let (mut hash, mut size) = (None, None);
        for line in lines {
            match line.split_once(' ')? {
                ("oid", value) => hash = value.strip_prefix("sha256:"),
                ("size", value) => size = value.parse().ok(),
                _ => {}
            }
        }
        let hash = hash.filter(|hash| {
            hash.len() == 64 && hash.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        })?;
        Some(Pointer { hash: hash.to_owned(), size: size? })
    }

    pub(super) fn text(&self) -> String {
        format!("{BEGIN}oid sha256:{}\nsize {}\n", self.hash, self.size)
    }

    /// The name of the blob that a commit holds for a file with its content in place.
    pub(super) fn blob_for(path: &Path) -> Option<String> {
        let is_file = fs::symlink_metadata(path).is_ok_and(|meta| meta.is_file());
        let pointer = Pointer::to(&mut File::open(path).ok().filter(|_| is_file)?).ok()?;
        let text = pointer.text();
        let mut hasher = Hasher::new(Kind::Blob, text.len() as u64);
        hasher.add(text.as_bytes());
        Some(hex(&hasher.name()))
    }

    /// The name that its content has in a folder of new ones.
    pub(super) fn name(&self) -> &str {
        &self.hash
    }
}

/// Where a repository keeps the content of its large files.
pub(super) struct LargeFiles {
    pub(super) folder: PathBuf,
}

impl LargeFiles {
    fn place(&self, hash: &str) -> PathBuf {
        self.folder.join("objects").join(&hash[..2]).join(&hash[2..4]).join(hash)
    }

    /// Puts content there that has its hash as its name, and everything is on the disk. What nothing points to changes
    /// nothing.
    pub(super) fn keep(&self, new: &Path) -> io::Result<()> {
        for file in fs::read_dir(new)? {
            let file = file?;
            let name = file.file_name();
            let name = name.to_str().ok_or(io::ErrorKind::InvalidData)?;
            let place = self.place(name);
            // Other content under that name would be taken for this one whenever somebody asks for it.
            if has_hash(&place, name) {
                continue;
            }
            let folder = place.parent().unwrap_or(&self.folder);
            fs::create_dir_all(folder)?;
            put(&file.path(), name, &place, fs::Permissions::from_mode(0o644))?;
            File::open(folder)?.sync_all()?;
        }
        Ok(())
    }

    /// Gives a file of a checkout its content in place of its pointer. False if the content is not here.
    pub(super) fn fill(&self, file: &Path) -> io::Result<bool> {
        let Some(pointer) = Pointer::read(file) else { return Ok(true) };
        let content = self.place(&pointer.hash);
        let is_whole = |meta: fs::Metadata| meta.is_file() && meta.len() == pointer.size;
        if !fs::metadata(&content).is_ok_and(is_whole) {
            return Ok(false);
        }
        let mode = fs::symlink_metadata(file)?.permissions();
        match put(&content, &pointer.hash, file, mode) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => Ok(false),
            Err(error) => Err(error),
        }
    }
}

fn has_hash(path: &Path, hash: &str) -> bool {
    let is_file = fs::symlink_metadata(path).is_ok_and(|meta| meta.is_file());
    let pointer = || Pointer::to(&mut File::open(path)?);
    is_file && pointer().is_ok_and(|pointer| pointer.hash == hash)
}

/// Copies content to its place, if it is what its hash says; whole, or not at all. It is written beside the place, where
/// somebody else may have put anything: under a name that nobody can know before.
fn put(content: &Path, hash: &str, place: &Path, mode: fs::Permissions) -> io::Result<()> {
    let next = place.with_file_name(format!(".drivetrain-{}", unguessable()?));
    let mut from = File::open(content)?;
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&next)?;
    let mut write = || {
        let mut digest = Digest::default();
        let mut piece = vec![0u8; 256 * 1024];
        loop {
            let length = from.read(&mut piece)?;
            if length == 0 {
                break;
            }
            digest.add(&piece[..length]);
            file.write_all(&piece[..length])?;
        }
        if digest.text() != hash {
            return Err(io::ErrorKind::InvalidData.into());
        }
        file.set_permissions(mode.clone())?;
        file.sync_all()?;
        fs::rename(&next, place)
    };
    write().inspect_err(|_| {
        // The folder is the user's: nothing is left in it.
        let _ = fs::remove_file(&next);
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pointer_is_read_as_it_is_written_and_nothing_else_is_one() {
        let hash = "4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393";
        let pointer = Pointer { hash: hash.to_owned(), size: 12345 };
        assert_eq!(Pointer::parse(&pointer.text()), Some(pointer.clone()));
        let extended = pointer.text().replace("oid", "ext-0-more sha256:00\noid");
        assert_eq!(Pointer::parse(&extended), Some(pointer.clone()));
        for other in [
            "",
            BEGIN,
            &pointer.text().replace("v1", "v2"),
            &pointer.text().replace("sha256:4d", "sha256:4D"),
            &pointer.text().replace("sha256:4d", "sha256:../"),
            &pointer.text().replace("12345", "-1"),
            &pointer.text().replace("12345", ""),
            pointer.text().trim_end(),
            &format!("\n{}", pointer.text()),
        ] {
            assert_eq!(Pointer::parse(other), None, "{other:?}");
        }
    }

    /// A folder with content, a pointer to it, and what its place is.
    fn filled(content: &[u8]) -> (tempfile::TempDir, LargeFiles, PathBuf, PathBuf) {
        let place = tempfile::tempdir().unwrap();
        let hash = crate::sha256::of(content);
        let pointer = Pointer { hash: hash.clone(), size: content.len() as u64 };
        let file = place.path().join("a.bin");
        fs::write(&file, pointer.text()).unwrap();
        let store = LargeFiles { folder: place.path().join("lfs") };
        let kept = store.place(&hash);
        fs::create_dir_all(kept.parent().unwrap()).unwrap();
        fs::write(&kept, content).unwrap();
        (place, store, file, kept)
    }

    #[test]
    fn a_link_that_lies_beside_a_large_file_is_not_followed() {
        let (place, store, file, _) = filled(b"large");
        let victim = place.path().join("victim");
        fs::write(&victim, "mine").unwrap();
        let link = place.path().join(format!("a.bin.drivetrain-{}", std::process::id()));
        std::os::unix::fs::symlink(&victim, link).unwrap();
        assert!(store.fill(&file).unwrap());
        assert_eq!(fs::read(&file).unwrap(), b"large");
        assert_eq!(fs::read(&victim).unwrap(), b"mine");
    }

    #[test]
    fn content_that_is_not_what_its_name_says_is_not_taken_and_is_replaced_by_what_is() {
        let (place, store, file, kept) = filled(b"large");
        fs::write(&kept, "other").unwrap();
        assert!(!store.fill(&file).unwrap(), "it is as long, and not the same");
        assert!(Pointer::read(&file).is_some());
        let new = place.path().join("new");
        fs::create_dir(&new).unwrap();
        fs::write(new.join(kept.file_name().unwrap()), "large").unwrap();
        store.keep(&new).unwrap();
        assert_eq!(fs::read(&kept).unwrap(), b"large");
        assert!(store.fill(&file).unwrap());
        let left = fs::read_dir(place.path()).unwrap().flatten();
        assert!(left.into_iter().all(|file| !file.file_name().to_string_lossy().starts_with('.')));
    }
}
