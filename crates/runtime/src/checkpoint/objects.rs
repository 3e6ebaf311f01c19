//! Writes objects of git as git itself keeps them, and reads what was written so. A checkpoint needs three small ones, and
//! git would start a process for each question, which takes longer than all of this.

use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use sha1::{Digest as _, Sha1};

/// What an object is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Blob,
    Tree,
    Commit,
    Tag,
}

impl Kind {
    fn text(self) -> &'static str {
        match self {
            Kind::Blob => "blob",
            Kind::Tree => "tree",
            Kind::Commit => "commit",
            Kind::Tag => "tag",
        }
    }

    /// The kind that git names so.
    pub(crate) fn named(text: &str) -> Option<Kind> {
        let all = [Kind::Blob, Kind::Tree, Kind::Commit, Kind::Tag];
        all.into_iter().find(|kind| kind.text() == text)
    }

    /// What git puts before the content of an object.
    pub(crate) fn head(self, length: u64) -> String {
        format!("{} {length}\0", self.text())
    }
}

/// How many bytes the name of an object has.
pub(super) const NAME: usize = 20;
/// The name of an object, which its content gives it.
pub(crate) type Name = [u8; NAME];

/// A name as it is written.
pub(crate) fn hex(name: &Name) -> String {
    name.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The name that is written so.
pub(super) fn named(text: &str) -> Option<Name> {
    let mut name = [0; NAME];
    if text.len() != 2 * NAME {
        return None;
    }
    for (byte, pair) in name.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(name)
}

/// Finds the name of an object whose content comes in pieces.
pub(crate) struct Hasher(Sha1);

impl Hasher {
    pub(crate) fn new(kind: Kind, length: u64) -> Hasher {
        Hasher(Sha1::new_with_prefix(kind.head(length)))
    }

    pub(crate) fn add(&mut self, piece: &[u8]) {
        self.0.update(piece);
    }

    pub(crate) fn name(self) -> Name {
        self.0.finalize().into()
    }

    /// The name of an object.
    pub(super) fn whole(kind: Kind, content: &[u8]) -> Name {
        let mut hasher = Hasher::new(kind, content.len() as u64);
        hasher.add(content);
        hasher.name()
    }

    /// The sum of bytes that are no object.
    pub(super) fn sum(bytes: &[u8]) -> Name {
        Sha1::digest(bytes).into()
    }
}

/// Writes an object into a folder of them and gives its name. One that is there already is left as it is.
pub(super) fn write(objects: &Path, kind: Kind, content: &[u8]) -> io::Result<Name> {
    let object = Hasher::whole(kind, content);
    let name = hex(&object);
    let folder = objects.join(&name[..2]);
    let path = folder.join(&name[2..]);
    // A loss of power can leave one without content.
    if fs::metadata(&path).is_ok_and(|meta| meta.len() > 0) {
        return Ok(object);
    }
    fs::create_dir_all(&folder)?;
    static WRITTEN: AtomicU64 = AtomicU64::new(0);
    let number = WRITTEN.fetch_add(1, Ordering::Relaxed);
    // Git takes what begins like this for left over, once it is old.
    let beside = folder.join(format!("tmp_obj_{}_{number}", std::process::id()));
    // A process of the same number may have been killed while it wrote.
    let _ = fs::remove_file(&beside);
    let put = || {
        let mut file = OpenOptions::new().create_new(true).write(true).mode(0o444).open(&beside)?;
        let head = kind.head(content.len() as u64);
        file.write_all(&stored(&[head.as_bytes(), content].concat()))?;
        file.sync_data()?;
        fs::rename(&beside, &path)
    };
    let written = put();
    if written.is_err() {
        let _ = fs::remove_file(&beside);
    }
    written.map(|()| object)
}

/// Reads an object that was written here. None says nothing: it may be there as git writes it, and git has to be asked.
pub(super) fn read(objects: &Path, kind: Kind, object: &Name) -> Option<Vec<u8>> {
    let name = hex(object);
    let bytes = fs::read(objects.join(&name[..2]).join(&name[2..])).ok()?;
    let whole = unstored(&bytes)?;
    let (head, content) = whole.split_at(whole.iter().position(|byte| *byte == 0)? + 1);
    let is_whole = head == kind.head(content.len() as u64).as_bytes()
        && Hasher::whole(kind, content) == *object;
    is_whole.then(|| content.to_vec())
}

/// A tree that is put together entry by entry.
#[derive(Default)]
pub(super) struct Tree(Vec<(Vec<u8>, Vec<u8>)>);

impl Tree {
    pub(super) fn add(&mut self, mode: &str, name: &OsStr, object: &Name) {
        let name = name.as_bytes();
        // Git has folders where their names with a slash after them would be.
        let end: &[u8] = if mode == FOLDER { b"/" } else { b"" };
        let entry = [mode.as_bytes(), b" ", name, b"\0", object].concat();
        self.0.push(([name, end].concat(), entry));
    }

    pub(super) fn into_bytes(mut self) -> Vec<u8> {
        self.0.sort_unstable();
        self.0.into_iter().flat_map(|(_, entry)| entry).collect()
    }
}

/// The mode of a folder in a tree.
pub(super) const FOLDER: &str = "40000";

/// A zlib stream that holds the bytes as they are: they are few.
pub(super) fn stored(bytes: &[u8]) -> Vec<u8> {
    const MOST: usize = u16::MAX as usize;
    let mut stream = vec![0x78, 0x01];
    let count = bytes.len().div_ceil(MOST).max(1);
    for number in 0..count {
        let block = &bytes[number * MOST..bytes.len().min((number + 1) * MOST)];
        let length = u16::try_from(block.len()).unwrap_or(u16::MAX);
        stream.push(u8::from(number + 1 == count));
        stream.extend_from_slice(&length.to_le_bytes());
        stream.extend_from_slice(&(!length).to_le_bytes());
        stream.extend_from_slice(block);
    }
    stream.extend_from_slice(&adler32(bytes).to_be_bytes());
    stream
}

/// The bytes of such a stream.
fn unstored(stream: &[u8]) -> Option<Vec<u8>> {
    let mut rest = stream.strip_prefix(&[0x78, 0x01])?;
    let mut bytes = Vec::with_capacity(rest.len());
    loop {
        let ([last @ (0 | 1), low, high, not_low, not_high], after) = rest.split_first_chunk()?
        else {
            return None;
        };
        if [!*low, !*high] != [*not_low, *not_high] {
            return None;
        }
        let length = usize::from(u16::from_le_bytes([*low, *high]));
        let (block, after) = after.split_at_checked(length)?;
        bytes.extend_from_slice(block);
        if *last == 1 {
            return Some(bytes);
        }
        rest = after;
    }
}

/// The sum at the end of a zlib stream.
fn adler32(bytes: &[u8]) -> u32 {
    const MODULUS: u32 = 65_521;
    let (mut low, mut high) = (1u32, 0u32);
    for byte in bytes {
        low = (low + u32::from(*byte)) % MODULUS;
        high = (high + low) % MODULUS;
    }
    (high << 16) | low
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// Whatever is written, git reads it as that, and says that the whole store is sound.
    #[test]
    fn git_reads_what_is_written_as_what_it_is() {
        let place = tempfile::tempdir().unwrap();
        let git = |words: &[&str]| {
            let done = Command::new("git").args(words).current_dir(place.path()).output().unwrap();
            assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
            done.stdout
        };
        git(&["init", "--quiet", "--bare"]);
        let objects = place.path().join("objects");
        for length in [0, 1, 4000, 65_520, 65_528, 65_529, 200_000] {
            let bytes: Vec<u8> = (0..length).map(|n: u32| (n % 251) as u8).collect();
            let blob = write(&objects, Kind::Blob, &bytes).unwrap();
            assert_eq!(write(&objects, Kind::Blob, &bytes).unwrap(), blob, "it is there already");
            let name = hex(&blob);
            assert_eq!(named(&name), Some(blob));
            assert_eq!(read(&objects, Kind::Blob, &blob).as_ref(), Some(&bytes), "{length}");
            assert_eq!(read(&objects, Kind::Tree, &blob), None, "it is of another kind");
            assert_eq!(git(&["cat-file", "blob", &name]), bytes, "{length}");
            let path = objects.join(&name[..2]).join(&name[2..]);
            let whole = fs::read(&path).unwrap();
            fs::remove_file(&path).unwrap();
            for end in (0..whole.len() - 4).step_by(7 + whole.len() / 50) {
                fs::write(&path, &whole[..end]).unwrap();
                assert_eq!(read(&objects, Kind::Blob, &blob), None, "cut at {end} of {length}");
                let mut damaged = whole.clone();
                damaged[end] ^= 4;
                fs::write(&path, damaged).unwrap();
                assert_eq!(read(&objects, Kind::Blob, &blob), None, "damaged at {end} of {length}");
            }
            fs::write(&path, "").unwrap();
            assert_eq!(write(&objects, Kind::Blob, &bytes).unwrap(), blob, "it was empty");
            assert_eq!(git(&["cat-file", "blob", &name]), bytes, "{length}");
            fs::write(place.path().join("file"), &bytes).unwrap();
            let by_git = git(&["hash-object", "file"]);
            assert_eq!(String::from_utf8(by_git).unwrap().trim_end(), name);
            let mut inner = Tree::default();
            inner.add("100644", OsStr::new("a"), &blob);
            let inner = write(&objects, Kind::Tree, &inner.into_bytes()).unwrap();
            let mut outer = Tree::default();
            // Git has the folder between the two: its slash counts.
            for (mode, name, object) in [
                (FOLDER, "files", &inner),
                ("100644", "files0", &blob),
                ("100644", "files-", &blob),
            ] {
                outer.add(mode, OsStr::new(name), object);
            }
            let outer = hex(&write(&objects, Kind::Tree, &outer.into_bytes()).unwrap());
            let by = "drivetrain <drivetrain@localhost> 1700000000 +0000";
            let text = format!("tree {outer}\nauthor {by}\ncommitter {by}\n\nwhy");
            let commit = hex(&write(&objects, Kind::Commit, text.as_bytes()).unwrap());
            let found = git(&["rev-parse", &format!("{commit}:files/a")]);
            assert_eq!(String::from_utf8(found).unwrap().trim_end(), name);
            git(&["update-ref", "refs/heads/main", &commit]);
        }
        git(&["fsck", "--strict"]);
        let left = fs::read_dir(&objects)
            .unwrap()
            .flatten()
            .flat_map(|folder| fs::read_dir(folder.path()).unwrap());
        assert!(left.flatten().all(|file| !file.file_name().to_string_lossy().starts_with("tmp")));
    }
}
