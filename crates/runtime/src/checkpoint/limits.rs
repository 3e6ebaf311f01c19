//! What cannot be kept is refused by name: a checkpoint is complete, or there is none.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::git::Git;

use super::{Store, Unkept};

/// The variable that says how large a file may be that is kept: a number of bytes, or one with `KiB`, `MiB` or `GiB`.
pub const MAX_FILE_VARIABLE: &str = "DRIVETRAIN_MAX_FILE";
/// How large a file may be that is kept, if nobody says otherwise. Git reads, packs and writes a file whole: half a
/// gigabyte takes some seconds, and what is larger is hardly ever somebody's work.
pub const DEFAULT_MAX_FILE: u64 = 512 * MIB;

const MIB: u64 = 1024 * 1024;
/// How many paths are named before the rest is only counted.
const NAMED: usize = 5;

/// A path that is neither file, folder nor link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Special {
    pub(super) path: OsString,
    pub(super) kind: &'static str,
}

impl Store<'_> {
    /// Looks at everything that git would read, before it does: a file of many gigabytes would keep it busy for hours.
    pub(super) fn refuse_large(&self, git: &Git, folder: &Path) -> Result<(), Unkept> {
        let arguments = ["ls-files", "-z", "--others", "--modified", "--exclude-standard"];
        let printed = git.output(arguments.map(OsString::from).to_vec(), None)?;
        let names = printed.out.split(|byte| *byte == 0).filter(|name| !name.is_empty());
        refuse_larger(folder, names.map(OsStr::from_bytes))
    }

    /// Sockets, pipes and devices hold no content. What is ignored is nobody's work; the rest is refused.
    pub(super) fn refuse_special(
        &self,
        folder: &Path,
        index: &Path,
        odd: &[Special],
    ) -> Result<(), Unkept> {
        if odd.is_empty() {
            return Ok(());
        }
        let git = self.git(folder, index)?;
        let mut asked = Vec::new();
        for special in odd {
            asked.extend_from_slice(special.path.as_bytes());
            asked.push(0);
        }
        let arguments = ["check-ignore", "--no-index", "-z", "--stdin", "--verbose"];
        let mut arguments = arguments.map(OsString::from).to_vec();
        // It ends with 1 where nothing is ignored, unless everything is named.
        arguments.push("--non-matching".into());
        let printed = git.output_any(arguments, Some(asked))?;
        let parts: Vec<&[u8]> = printed.out.split(|byte| *byte == 0).collect();
        // Four for each path: the file, the line and the pattern that ignore it, all empty if none does, and itself.
        let ignored: Vec<&[u8]> = parts
            .chunks_exact(4)
            .filter(|four| !four[2].is_empty() && !four[2].starts_with(b"!"))
            .map(|four| four[3])
            .collect();
        let left: Vec<String> = odd
            .iter()
            .filter(|special| !ignored.contains(&special.path.as_bytes()))
            .map(|special| format!("{} is {}", Path::new(&special.path).display(), special.kind))
            .collect();
        if left.is_empty() {
            return Ok(());
        }
        Err(Unkept::incomplete(format!(
            "{}, which cannot be kept; remove it, or name it in .gitignore",
            some(&left)
        )))
    }
}

/// Refuses those of these paths at which a file is that is too large.
pub(super) fn refuse_larger<'n>(
    folder: &Path,
    names: impl Iterator<Item = &'n OsStr>,
) -> Result<(), Unkept> {
    let most = most()?;
    let mut large = Vec::new();
    for name in names {
        let Ok(meta) = fs::symlink_metadata(folder.join(name)) else { continue };
        if meta.is_file() && meta.len() > most {
            let size = meta.len().div_ceil(MIB);
            large.push(format!("{} ({size} MiB)", Path::new(name).display()));
        }
    }
    if large.is_empty() {
        return Ok(());
    }
    Err(Unkept::incomplete(format!(
        "larger than {} MiB, which is as much as is kept of one file: {}; remove it, name it in .gitignore, or set \
         {MAX_FILE_VARIABLE}",
        most / MIB,
        some(&large)
    )))
}

fn some(named: &[String]) -> String {
    let first = named.iter().take(NAMED).cloned().collect::<Vec<String>>().join(", ");
    match named.len().checked_sub(NAMED) {
        Some(more @ 1..) => format!("{first} and {more} more"),
        _ => first,
    }
}

/// How large a file may be that is kept.
pub(super) fn most() -> Result<u64, String> {
    max_file(std::env::var(MAX_FILE_VARIABLE).ok().as_deref())
}

fn max_file(given: Option<&str>) -> Result<u64, String> {
    let Some(text) = given.map(str::trim).filter(|text| !text.is_empty()) else {
        return Ok(DEFAULT_MAX_FILE);
    };
    let (digits, unit) = [("KiB", 1024), ("MiB", MIB), ("GiB", 1024 * MIB)]
        .into_iter()
        .find_map(|(word, unit)| Some((text.strip_suffix(word)?, unit)))
        .unwrap_or((text, 1));
    let bytes = digits.trim().parse::<u64>().ok().and_then(|number| number.checked_mul(unit));
    bytes.ok_or_else(|| {
        format!("{MAX_FILE_VARIABLE} = {text:?}: expected a number of bytes, or such as 64MiB")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_a_number_with_or_without_a_unit() {
        assert_eq!(max_file(None), Ok(DEFAULT_MAX_FILE));
        assert_eq!(max_file(Some(" 64 MiB ")), Ok(64 * MIB));
        assert_eq!(max_file(Some("100")), Ok(100));
        assert!(max_file(Some("much")).unwrap_err().contains("expected a number of bytes"));
        assert!(max_file(Some("99999999999GiB")).is_err());
    }
}
