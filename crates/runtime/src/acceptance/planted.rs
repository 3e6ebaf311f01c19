//! Finds what a worker put among the objects of the user's repository under the name of another object. It has to write there,
//! since commits must work, and git takes an object for what it is called: a check that looks at the history would see
//! what the worker wants it to see.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::git::Git;
use crate::git::reading::{Unsound, read_back};

/// How long the name of an object's file is below a folder of two letters: with SHA-1, and with SHA-256.
const REST: [usize; 2] = [38, 62];

/// Clocks of file systems are coarse.
const MARGIN: i64 = 2;

/// Looks at every object that was written at `since` or later, in seconds; says what is wrong with the first that is not what
/// it is called. When a file was changed is written by the kernel, and no worker can set it.
pub(super) fn find(
    git: &Git,
    repository: &Path,
    objects: &Path,
    since: i64,
) -> Result<Option<String>, String> {
    let is_new = |path: &Path| {
        let changed = fs::symlink_metadata(path).map(|meta| meta.ctime());
        changed.is_ok_and(|changed| changed >= since.saturating_sub(MARGIN))
    };
    let place = || -> Vec<OsString> { vec!["-C".into(), repository.into()] };
    let pack = objects.join("pack");
    let indexes: Vec<PathBuf> = entries(&pack)
        .into_iter()
        .filter(|path| path.extension().is_some_and(|end| end == "idx"))
        .filter(|path| is_new(path) || is_new(&path.with_extension("pack")))
        .collect();
    for index in &indexes {
        let verify = ["verify-pack".into(), "--".into(), index.clone().into_os_string()];
        // The user's own git may have put it into another one meanwhile.
        if git.run(place().into_iter().chain(verify)).is_err() && index.exists() {
            return Ok(Some(said(&index.display().to_string())));
        }
    }
    let of_many = ["multi-pack-index", "multi-pack-index.d"].map(|name| pack.join(name));
    if of_many.iter().any(|path| path.exists())
        && (of_many.iter().any(|path| is_new(path))
            || entries(&of_many[1]).iter().any(|p| is_new(p)))
    {
        let verify = ["multi-pack-index", "verify", "--no-progress"].map(OsString::from);
        if git.run(place().into_iter().chain(verify)).is_err()
            && of_many.iter().any(|path| path.exists())
        {
            return Ok(Some(said(&of_many[0].display().to_string())));
        }
    }
    let names: Vec<String> = loose(objects, is_new);
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let unsound = read_back(git, place(), &names)?;
    Ok(unsound.into_iter().find_map(|unsound| match unsound {
        Unsound::Other(name) => Some(said(&name)),
        // Git itself does not take it for an object.
        Unsound::Missing(_) => None,
    }))
}

/// The names of the objects that have a file of their own which is new.
fn loose(objects: &Path, is_new: impl Fn(&Path) -> bool) -> Vec<String> {
    let mut names = Vec::new();
    for folder in entries(objects) {
        let Some(start) = hex_name(&folder, 2) else { continue };
        for path in entries(&folder) {
            let rest = REST.into_iter().find_map(|length| hex_name(&path, length));
            if let Some(rest) = rest.filter(|_| is_new(&path)) {
                names.push(format!("{start}{rest}"));
            }
        }
    }
    names
}

fn hex_name(path: &Path, length: usize) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    let is_hex = name.len() == length && name.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hex.then(|| name.to_owned())
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let listed = fs::read_dir(folder).into_iter().flatten();
    listed.filter_map(Result::ok).map(|entry| entry.path()).collect()
}

/// What is said of an object, or of a file with many, that is not what it is called.
pub(super) fn said(what: &str) -> String {
    format!(
        "{what} among the objects of the repository is not what its name says: the disk damaged it, or the worker put \
         other content there, and then no look at the history proves anything; `git fsck --full` names everything of that \
         kind, take it away and have it fetched or made again"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_of_both_kinds_of_repositories_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("ab");
        fs::create_dir(&place).unwrap();
        for name in ["1".repeat(38), "2".repeat(62), "3".repeat(40), "x".repeat(38)] {
            fs::write(place.join(name), "").unwrap();
        }
        let mut names = loose(folder.path(), |_| true);
        names.sort();
        assert_eq!(names, [format!("ab{}", "1".repeat(38)), format!("ab{}", "2".repeat(62))]);
    }
}
