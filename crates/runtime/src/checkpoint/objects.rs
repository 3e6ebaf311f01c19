//! Writes objects of git as git itself keeps them. A checkpoint needs three small ones, and git would start two processes
//! for them, each of which takes longer than writing them does.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use sha1::{Digest as _, Sha1};

/// What an object is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Blob,
    Tree,
    Commit,
}

/// Writes an object into a folder of them and gives its name. One that is there already is left as it is.
pub(super) fn write(objects: &Path, kind: Kind, content: &[u8]) -> io::Result<String> {
    let kind = match kind {
        Kind::Blob => "blob",
        Kind::Tree => "tree",
        Kind::Commit => "commit",
    };
    let whole = [format!("{kind} {}\0", content.len()).as_bytes(), content].concat();
    let name: String = Sha1::digest(&whole).iter().map(|byte| format!("{byte:02x}")).collect();
    let folder = objects.join(&name[..2]);
    let path = folder.join(&name[2..]);
    // A loss of power can leave one without content.
    if fs::metadata(&path).is_ok_and(|meta| meta.len() > 0) {
        return Ok(name);
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
        file.write_all(&stored(&whole))?;
        file.sync_data()?;
        fs::rename(&beside, &path)
    };
    let written = put();
    if written.is_err() {
        let _ = fs::remove_file(&beside);
    }
    written.map(|()| name)
}

/// A tree of entries with mode, name and object; they must be in git's order.
pub(super) fn tree(entries: &[(&str, &str, &str)]) -> Vec<u8> {
    let mut tree = Vec::new();
    for (mode, name, object) in entries {
        tree.extend_from_slice(format!("{mode} {name}\0").as_bytes());
        let digits = object.as_bytes().chunks_exact(2).map(|pair| std::str::from_utf8(pair));
        tree.extend(digits.filter_map(|pair| u8::from_str_radix(pair.ok()?, 16).ok()));
    }
    tree
}

/// A zlib stream that holds the bytes as they are: they are few.
fn stored(bytes: &[u8]) -> Vec<u8> {
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
            assert_eq!(git(&["cat-file", "blob", &blob]), bytes, "{length}");
            let path = objects.join(&blob[..2]).join(&blob[2..]);
            fs::remove_file(&path).unwrap();
            fs::write(&path, "").unwrap();
            assert_eq!(write(&objects, Kind::Blob, &bytes).unwrap(), blob, "it was empty");
            assert_eq!(git(&["cat-file", "blob", &blob]), bytes, "{length}");
            fs::write(place.path().join("file"), &bytes).unwrap();
            let named = git(&["hash-object", "file"]);
            assert_eq!(String::from_utf8(named).unwrap().trim_end(), blob);
            let inner = write(&objects, Kind::Tree, &tree(&[("100644", "a", &blob)])).unwrap();
            let entries = [("100644", "extra", &*blob), ("40000", "files", &*inner)];
            let outer = write(&objects, Kind::Tree, &tree(&entries)).unwrap();
            let by = "drivetrain <drivetrain@localhost> 1700000000 +0000";
            let text = format!("tree {outer}\nauthor {by}\ncommitter {by}\n\nwhy");
            let commit = write(&objects, Kind::Commit, text.as_bytes()).unwrap();
            assert_eq!(
                git(&["rev-parse", &format!("{commit}:files/a")]),
                format!("{blob}\n").as_bytes()
            );
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
