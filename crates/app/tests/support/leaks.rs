//! Marks that stand for keys, and where one is found: in bytes, in files, in git's objects; as it is, and in the clothes
//! that tools dress it in.

use std::path::{Path, PathBuf};
use std::process::Command;

use regex::bytes::Regex;

/// Something that nobody else would write, in the place of a key.
#[derive(Debug, Clone)]
pub(crate) struct Mark {
    pub(crate) text: String,
    /// Every form in which it is looked for.
    forms: Regex,
}

impl Mark {
    /// A new one; the name is for whoever finds it.
    pub(crate) fn new(name: &str) -> Mark {
        let random = std::fs::read_to_string("/proc/sys/kernel/random/uuid").unwrap();
        let text = format!("mk-{name}-{}", random.trim().replace('-', ""));
        let hex: String = text.bytes().map(|byte| format!("{byte:02x}")).collect();
        // The middle of its base64, wherever it begins.
        let base64 = ["", "x", "xy"].map(|before| {
            let encoded = base64(format!("{before}{text}").as_bytes());
            encoded[8..encoded.len() - 8].to_owned()
        });
        let forms: Vec<String> =
            [&text, &hex].into_iter().chain(&base64).map(|form| regex::escape(form)).collect();
        let forms = Regex::new(&forms.join("|")).unwrap();
        Mark { text, forms }
    }

    pub(crate) fn is_in(&self, bytes: &[u8]) -> bool {
        self.forms.is_match(bytes)
    }
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let group = |three: &[u8]| {
        let sum = (0..3).fold(0u32, |sum, n| sum << 8 | u32::from(*three.get(n).unwrap_or(&0)));
        [18, 12, 6, 0].map(|shift| char::from(LETTERS[(sum >> shift & 63) as usize]))
    };
    bytes.chunks(3).flat_map(group).collect()
}

/// Every file below a folder, links not followed.
pub(crate) fn files(folder: &Path) -> Vec<PathBuf> {
    let (mut found, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => folders.push(entry.path()),
                Ok(kind) if kind.is_file() => found.push(entry.path()),
                _ => {}
            }
        }
    }
    found
}

/// The folders among these files' that are repositories of git.
pub(crate) fn repositories(files: &[PathBuf]) -> impl Iterator<Item = &Path> {
    let heads = files.iter().filter(|path| path.ends_with("HEAD"));
    heads.filter_map(|head| head.parent()).filter(|folder| folder.join("objects").is_dir())
}

/// Every object of a repository, unpacked.
pub(crate) fn objects(repository: &Path) -> Vec<u8> {
    let all = ["cat-file", "--batch-all-objects", "--batch", "--unordered"];
    Command::new("git").arg("--git-dir").arg(repository).args(all).output().unwrap().stdout
}
