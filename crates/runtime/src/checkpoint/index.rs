//! Reads an index of git as it is in a new worktree. What is not of the plain kind is not understood: whoever asks then
//! has git for it.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use super::objects::{Hasher, NAME, Name};

/// A file that an index has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) path: OsString,
    pub(super) mode: Mode,
    pub(super) name: Name,
}

impl Entry {
    pub(super) fn is_program(&self) -> bool {
        self.mode == Mode::Program
    }
}

/// What kind of file it is. Repositories inside others are none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    File,
    Program,
    Link,
}

impl Mode {
    /// As it stands in a tree.
    pub(super) fn text(self) -> &'static str {
        match self {
            Mode::File => "100644",
            Mode::Program => "100755",
            Mode::Link => "120000",
        }
    }
}

/// Before the path: two times, six numbers, the name of the content and flags.
const FIXED: usize = 40 + NAME + 2;

/// How many entries an index has, as its head says.
pub(super) fn count(bytes: &[u8]) -> Option<u32> {
    number(&mut bytes.strip_prefix(b"DIRC")?.get(4..)?)
}

/// Whether an index surely holds no repository inside the folder.
pub(super) fn is_without_repositories(bytes: &[u8]) -> bool {
    entries(bytes).is_some()
}

/// All entries of an index, in the order of their paths.
pub(super) fn entries(bytes: &[u8]) -> Option<Vec<Entry>> {
    let (bytes, sum) = bytes.split_at_checked(bytes.len().checked_sub(NAME)?)?;
    // Repositories with longer names have a longer sum, and some leave it out.
    if Hasher::sum(bytes) != sum {
        return None;
    }
    let mut rest = bytes.strip_prefix(b"DIRC\0\0\0\x02")?;
    let count = number(&mut rest)?;
    let mut entries = Vec::new();
    for _ in 0..count {
        let fixed = rest.get(..FIXED)?;
        let mode = match u32::from_be_bytes(fixed[24..28].try_into().ok()?) {
            0o100_644 => Mode::File,
            0o100_755 => Mode::Program,
            0o120_000 => Mode::Link,
            _ => return None,
        };
        let name = fixed[40..40 + NAME].try_into().ok()?;
        // All but the length of the path: conflicts, and files that git is told not to look at.
        if fixed[FIXED - 2] & 0xf0 != 0 {
            return None;
        }
        let path = &rest[FIXED..];
        let path = &path[..path.iter().position(|byte| *byte == 0)?];
        // At least one zero after it, and as many as make the next one begin at a multiple of eight.
        let length = (FIXED + path.len() + 8) & !7;
        entries.push(Entry { path: OsString::from_vec(path.to_vec()), mode, name });
        rest = rest.get(length..)?;
    }
    while !rest.is_empty() {
        // What has a small letter first changes the meaning of what came before.
        if !rest.first()?.is_ascii_uppercase() {
            return None;
        }
        rest = rest.get(4..)?;
        let length = number(&mut rest)?;
        rest = rest.get(usize::try_from(length).ok()?..)?;
    }
    Some(entries)
}

fn number(rest: &mut &[u8]) -> Option<u32> {
    let (number, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(u32::from_be_bytes(*number))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::process::Command;

    use super::*;

    fn git(folder: &Path, words: &[&str]) {
        let named = ["-c", "user.name=t", "-c", "user.email=t@t.invalid"];
        let done =
            Command::new("git").args(named).args(words).current_dir(folder).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }

    fn repository() -> (tempfile::TempDir, Vec<u8>) {
        let place = tempfile::tempdir().unwrap();
        git(place.path(), &["init", "--quiet"]);
        for name in ["a", "longer name", "seven.7"] {
            fs::write(place.path().join(name), name).unwrap();
        }
        git(place.path(), &["add", "--all"]);
        git(place.path(), &["commit", "--quiet", "-m", "all"]);
        let bytes = fs::read(place.path().join(".git/index")).unwrap();
        (place, bytes)
    }

    fn sum(bytes: &mut [u8]) {
        let end = bytes.len() - NAME;
        let sum = Hasher::sum(&bytes[..end]);
        bytes[end..].copy_from_slice(&sum);
    }

    #[test]
    fn damage_is_seen_and_nothing_that_it_could_mean_breaks_the_reader() {
        let (_place, bytes) = repository();
        let paths = entries(&bytes).unwrap().into_iter().map(|entry| entry.path);
        assert_eq!(paths.collect::<Vec<_>>(), ["a", "longer name", "seven.7"]);
        assert_eq!(count(&bytes), Some(3));
        for end in 0..bytes.len() {
            assert_eq!(entries(&bytes[..end]), None, "cut at {end}");
            let mut cut = bytes[..end].to_vec();
            if end >= NAME {
                sum(&mut cut);
                let _ = entries(&cut);
            }
        }
        for at in 0..bytes.len() {
            for byte in [0, 1, 0x7f, 0xff] {
                let mut changed = bytes.clone();
                changed[at] = byte;
                if changed != bytes {
                    assert_eq!(entries(&changed), None, "{byte} at {at}");
                }
                sum(&mut changed);
                let _ = entries(&changed);
            }
        }
    }

    #[test]
    fn what_is_not_plain_is_left_to_git() {
        let cases: [&[&str]; 6] = [
            &["update-index", "--index-version=4"],
            &["update-index", "--split-index"],
            &["update-index", "--assume-unchanged", "a"],
            &["update-index", "--skip-worktree", "a"],
            &[
                "update-index",
                "--add",
                "--cacheinfo",
                "160000,4b825dc642cb6eb9a060e54bf8d69288fbee4904,inner",
            ],
            &["-c", "index.skipHash=true", "update-index", "--chmod=+x", "a"],
        ];
        for words in cases {
            let (place, before) = repository();
            git(place.path(), words);
            let bytes = fs::read(place.path().join(".git/index")).unwrap();
            assert_ne!(bytes, before, "{words:?} changes something");
            assert_eq!(entries(&bytes), None, "{words:?}");
        }
    }
}
