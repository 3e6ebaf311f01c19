//! Data too large for a record, in files named by the SHA-256 of their content.
//!
//! A blob is on disk, file and folder entry, before `put` returns, so a record written afterwards never
//! names a blob that a power cut can take away. Blobs are never changed and never deleted here; what a process that died
//! had begun to store is no blob yet.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use ring::digest::{Context, SHA256};

use crate::chain::{hex, sha256};
use crate::{Damage, DamageKind, JournalError};

/// What a blob is called that is not whole yet, before the number of its process and its own.
const UNFINISHED: &str = "new-";

/// The blobs of one journal.
#[derive(Debug, Clone)]
pub struct Blobs {
    folder: PathBuf,
}

impl Blobs {
    /// Uses a folder, which is made at the first `put`.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// Stores bytes durably and returns their name. Storing the same bytes again changes nothing.
    pub fn put(&self, bytes: &[u8]) -> Result<String, JournalError> {
        let hash = hex(&sha256(&[bytes]));
        if self.get(&hash).is_ok() {
            return Ok(hash);
        }
        self.put_from(&mut &bytes[..])
    }

    /// Stores everything a reader gives, without holding it in memory.
    pub fn put_from(&self, reader: &mut dyn Read) -> Result<String, JournalError> {
        self.store(reader).map_err(|error| self.failed("cannot store a blob", &error))
    }

    /// Reads a blob back and checks that its content is the one its name says.
    pub fn get(&self, hash: &str) -> Result<Vec<u8>, JournalError> {
        if !is_hash(hash) {
            return Err(damaged(format!("{hash:?} is not the name of a blob")));
        }
        match fs::read(self.path(hash)) {
            Ok(bytes) if hex(&sha256(&[&bytes])) == hash => Ok(bytes),
            Ok(_) => Err(damaged(format!("blob {hash} does not have the content its name says"))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(damaged(format!("blob {hash} is missing")))
            }
            Err(error) => Err(self.failed("cannot read a blob", &error)),
        }
    }

    /// Whether there is a file for a blob, whatever it holds: [`Blobs::verify`] looks at what files hold. One that cannot be
    /// asked for is taken for being there.
    pub(crate) fn is_missing(&self, hash: &str) -> bool {
        let found = if is_hash(hash) { fs::metadata(self.path(hash)) } else { return true };
        found.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
    }

    /// Checks the content of every blob there is.
    pub fn verify(&self) -> Vec<Damage> {
        let mut damages = Vec::new();
        let mut note = |detail: String| {
            damages.push(Damage { task: None, n: None, kind: DamageKind::Blob, detail });
        };
        let shelves = match fs::read_dir(&self.folder) {
            Ok(shelves) => shelves,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return damages,
            Err(error) => {
                note(format!("{} cannot be read: {error}", self.folder.display()));
                return damages;
            }
        };
        for shelf in shelves.flatten().filter(|shelf| shelf.path().is_dir()) {
            let Ok(files) = fs::read_dir(shelf.path()) else {
                note(format!("{} cannot be read", shelf.path().display()));
                continue;
            };
            for file in files.flatten() {
                let name = format!(
                    "{}{}",
                    shelf.file_name().to_string_lossy(),
                    file.file_name().to_string_lossy()
                );
                match File::open(file.path()).and_then(|mut file| copy_hashed(&mut file, None)) {
                    Ok(hash) if hash == name => {}
                    Ok(_) => note(format!("blob {name} does not have the content its name says")),
                    Err(error) => note(format!("blob {name} cannot be read: {error}")),
                }
            }
        }
        damages
    }

    /// Removes what other processes had begun to store. Whoever calls knows that there are none: what is still being written
    /// looks the same.
    pub(crate) fn clear_unfinished(&self) {
        let own = format!("{UNFINISHED}{}-", std::process::id());
        let is_left = |name: &str| name.starts_with(UNFINISHED) && !name.starts_with(&own);
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            if entry.file_name().to_str().is_some_and(is_left) {
                // One that stays is in nobody's way, and the next start tries again.
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    fn path(&self, hash: &str) -> PathBuf {
        self.folder.join(&hash[..2]).join(&hash[2..])
    }

    fn store(&self, reader: &mut dyn Read) -> io::Result<String> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        make_folder(&self.folder)?;
        let temporary = self.folder.join(format!(
            "{UNFINISHED}{}-{}",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        ));
        let stored = self.store_by(reader, &temporary);
        if stored.is_err() {
            // The failure that matters is the one being returned.
            let _ = fs::remove_file(&temporary);
        }
        stored
    }

    fn store_by(&self, reader: &mut dyn Read, temporary: &Path) -> io::Result<String> {
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(temporary)?;
        let hash = copy_hashed(reader, Some(&mut file))?;
        file.sync_all()?;
        let path = self.path(&hash);
        let shelf = self.folder.join(&hash[..2]);
        make_folder(&shelf)?;
        fs::rename(temporary, &path)?;
        File::open(&shelf)?.sync_all()?;
        File::open(&self.folder)?.sync_all()?;
        Ok(hash)
    }

    fn failed(&self, what: &str, error: &io::Error) -> JournalError {
        let text = format!("{what} in {}: {error}", self.folder.display());
        match error.kind() {
            io::ErrorKind::StorageFull
            | io::ErrorKind::ReadOnlyFilesystem
            | io::ErrorKind::QuotaExceeded => JournalError::Full(text),
            _ => JournalError::Store(text),
        }
    }
}

/// The blob that a record names. This is all that the journal knows of what a record says: a tool's end is a pair of an effect
/// and a result, and a result whose text is too long for it names the blob that has all of it.
pub(crate) fn named_by(body: &[u8]) -> Option<String> {
    const KEY: &[u8] = b"\"blob\"";
    // Most records are no ends of tools, and most of those name none: to read them all would take long.
    if body.first() != Some(&b'[') || !body.windows(KEY.len()).any(|piece| piece == KEY) {
        return None;
    }
    let pair: serde_json::Value = serde_json::from_slice(body).ok()?;
    Some(pair.get(1)?.get("blob")?.get("sha256")?.as_str()?.to_owned())
}

fn is_hash(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn damaged(detail: String) -> JournalError {
    JournalError::Damaged(Damage { task: None, n: None, kind: DamageKind::Blob, detail })
}

fn make_folder(folder: &Path) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    // A folder is there after a power cut only if the one around it was synced.
    match folder.parent() {
        Some(around) => File::open(around)?.sync_all(),
        None => Ok(()),
    }
}

fn copy_hashed(reader: &mut dyn Read, mut file: Option<&mut File>) -> io::Result<String> {
    let mut hash = Context::new(&SHA256);
    let mut buffer = vec![0; 64 << 10];
    loop {
        let length = match reader.read(&mut buffer) {
            Ok(0) => return Ok(hex(hash.finish().as_ref())),
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        hash.update(&buffer[..length]);
        if let Some(file) = file.as_mut() {
            file.write_all(&buffer[..length])?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_is_what_one_gets() {
        let folder = tempfile::tempdir().unwrap();
        let blobs = Blobs::new(folder.path().join("blobs"));
        assert_eq!(blobs.verify(), []);
        let hash = blobs.put(b"hello").unwrap();
        assert_eq!(hash, "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824");
        assert_eq!(blobs.put(b"hello").unwrap(), hash);
        assert_eq!(blobs.put_from(&mut &b"hello"[..]).unwrap(), hash);
        assert_eq!(blobs.get(&hash).unwrap(), b"hello");
        assert_eq!(blobs.verify(), []);
    }

    #[test]
    fn a_changed_blob_is_named_and_can_be_put_again() {
        let folder = tempfile::tempdir().unwrap();
        let blobs = Blobs::new(folder.path());
        let hash = blobs.put(b"hello").unwrap();
        fs::write(blobs.path(&hash), b"hellp").unwrap();
        assert!(blobs.get(&hash).unwrap_err().to_string().contains(&hash));
        assert!(blobs.verify()[0].detail.contains(&hash));
        assert_eq!(blobs.put(b"hello").unwrap(), hash);
        assert_eq!(blobs.get(&hash).unwrap(), b"hello");
    }

    #[test]
    fn only_the_result_of_a_tool_names_a_blob() {
        let named = r#"[7,{"status":"ok","text":"x","blob":{"sha256":"ab","size":2}}]"#;
        assert_eq!(named_by(named.as_bytes()).as_deref(), Some("ab"));
        for other in [
            r#"[7,"\"blob\":{\"sha256\":\"ab\"}"]"#,
            r#"[7,{"status":"ok","text":"the \"blob\" of it"}]"#,
            r#"{"sig":{"requested":{"key":"k","tool":"t","input":{"blob":{"sha256":"ab"}}}}}"#,
            "[\"blob\"",
        ] {
            assert_eq!(named_by(other.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn a_name_that_is_no_hash_reads_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let blobs = Blobs::new(folder.path());
        assert!(blobs.get("../../etc/passwd").is_err());
        assert!(blobs.get(&"0".repeat(64)).unwrap_err().to_string().contains("missing"));
    }
}
