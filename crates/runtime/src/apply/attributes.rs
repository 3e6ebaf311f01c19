//! What the repository's attributes make of files on their way into a commit: line ends, encodings, `$Id$` and the pointers
//! of large files, as `git add` would. Other filters are programs: they are never run, and files that have one are named.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::git::Git;

use super::large_files::{self, Pointer};
use super::scratch::{Entry, Scratch};

/// The largest file whose line ends are looked at; what is larger is taken as it is.
const LOOKED_AT: u64 = 16 * 1024 * 1024;

pub(super) struct Looked {
    /// Files that are stored in another form than they have in the worktree.
    pub(super) converted: Vec<Entry>,
    /// The paths among them, and beside them, at which a large file belongs.
    pub(super) large: Vec<OsString>,
    pub(super) notices: Vec<String>,
}

/// What is set for a path, by attribute.
pub(super) type Set<'a> = BTreeMap<&'a [u8], &'a [u8]>;

/// What `git check-attr -z` printed: what is set, by path.
pub(super) fn set(printed: &[u8]) -> BTreeMap<&OsStr, Set<'_>> {
    let parts: Vec<&[u8]> = printed.split(|byte| *byte == 0).collect();
    let mut of_path: BTreeMap<&OsStr, Set<'_>> = BTreeMap::new();
    for three in parts.chunks_exact(3) {
        if !matches!(three[2], b"unspecified" | b"unset") {
            let path = OsStr::from_bytes(three[0]);
            of_path.entry(path).or_default().insert(three[1], three[2]);
        }
    }
    of_path
}

impl Scratch {
    /// Looks at every changed file; `base` is the commit that they were changed from.
    pub(super) fn convert(&self, base: &str, changed: &[Entry]) -> Result<Looked, String> {
        let files: Vec<&Entry> = changed.iter().filter(|entry| entry.is_file()).collect();
        let mut looked = Looked { converted: Vec::new(), large: Vec::new(), notices: Vec::new() };
        if files.is_empty() {
            return Ok(looked);
        }
        let git = self.git()?;
        let mut asked = Vec::new();
        for entry in &files {
            asked.extend_from_slice(entry.path.as_bytes());
            asked.push(0);
        }
        let names = ["text", "eol", "ident", "working-tree-encoding", "filter"];
        let arguments = ["check-attr", "-z", "--stdin"].iter().chain(&names).map(OsString::from);
        let printed = git.output(arguments.collect(), Some(asked))?;
        let of_path = set(&printed.out);
        let mut filtered = Vec::new();
        for entry in files {
            let Some(set) = of_path.get(entry.path.as_os_str()) else { continue };
            let filter = set.get(&b"filter"[..]);
            if filter.is_some_and(|filter| *filter == large_files::FILTER) {
                looked.large.push(entry.path.clone());
                if let Some(hash) = self.point_to(&git, entry)? {
                    looked.converted.push(Entry { hash, ..entry.clone() });
                }
                continue;
            }
            if let Some(filter) = filter {
                let filter = String::from_utf8_lossy(filter);
                filtered.push(format!("{} ({filter})", Path::new(&entry.path).display()));
            }
            if set.keys().any(|name| *name != b"filter")
                && let Some(hash) = self.convert_one(&git, base, entry, set)?
            {
                looked.converted.push(Entry { hash, ..entry.clone() });
            }
        }
        if !filtered.is_empty() {
            let count = filtered.len();
            filtered.truncate(5);
            let (have, they) = match count {
                1 => ("file has", "it is handed over as the task left it"),
                _ => ("files have", "they are handed over as the task left them"),
            };
            looked.notices.push(format!(
                "{count} changed {have} a filter, which was not run; {they}: {}",
                filtered.join(", ")
            ));
        }
        Ok(looked)
    }

    /// The hash of the pointer to a large file, whose content is put aside; none for what is empty or a pointer already.
    fn point_to(&self, git: &Git, entry: &Entry) -> Result<Option<String>, String> {
        let name = git.run(["unpack-file".into(), entry.hash.clone().into()])?;
        let content = self.files().join(name.trim_end());
        let wrong = |error: std::io::Error| format!("cannot use {}: {error}", content.display());
        let mut file = File::open(&content).map_err(wrong)?;
        if file.metadata().map_err(wrong)?.len() == 0 || Pointer::read(&content).is_some() {
            fs::remove_file(&content).map_err(wrong)?;
            return Ok(None);
        }
        let pointer = Pointer::to(&mut file).map_err(wrong)?;
        fs::create_dir_all(self.large()).map_err(wrong)?;
        fs::rename(&content, self.large().join(pointer.name())).map_err(wrong)?;
        let words = ["hash-object", "-w", "--stdin", "--no-filters"].map(OsString::from).to_vec();
        let hashed = git.output(words, Some(pointer.text().into_bytes()))?;
        Ok(Some(String::from_utf8_lossy(&hashed.out).trim_end().to_owned()))
    }

    fn convert_one(
        &self,
        git: &Git,
        base: &str,
        entry: &Entry,
        set: &Set<'_>,
    ) -> Result<Option<String>, String> {
        let name = entry.hash.clone();
        let size = git.run(["cat-file".into(), "-s".into(), name.clone().into()])?;
        if size.trim_end().parse::<u64>().is_ok_and(|size| size > LOOKED_AT) {
            return Ok(None);
        }
        let content = git.output(vec!["cat-file".into(), "blob".into(), name.into()], None)?.out;
        let encoded = set.contains_key(&b"working-tree-encoding"[..]);
        let expanded = set.contains_key(&b"ident"[..]);
        let is_auto = set.get(&b"text"[..]) == Some(&&b"auto"[..]);
        if !encoded
            && !expanded
            && (!has_crlf(&content) || (is_auto && is_kept_with_crlf(git, base, entry)))
        {
            return Ok(None);
        }
        let mut arguments: Vec<OsString> =
            ["hash-object", "-w", "--stdin", "--path"].map(OsString::from).to_vec();
        arguments.push(entry.path.clone());
        let hashed = git.output(arguments, Some(content))?;
        let hash = String::from_utf8_lossy(&hashed.out).trim_end().to_owned();
        Ok((hash != entry.hash).then_some(hash))
    }
}

fn has_crlf(content: &[u8]) -> bool {
    content.windows(2).any(|two| two == b"\r\n")
}

/// Whether a file is stored with these line ends already. Git then leaves them where it is to find out by itself what is
/// text, but knows of it by an index only.
fn is_kept_with_crlf(git: &Git, base: &str, entry: &Entry) -> bool {
    let mut name = OsString::from(format!("{base}:"));
    name.push(&entry.path);
    let printed = git.output(vec!["cat-file".into(), "blob".into(), name], None);
    printed.is_ok_and(|printed| has_crlf(&printed.out))
}
