//! What a new worktree does not have of what its user has.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use machine::policy::protected;

use super::{Record, worktree_of};

/// What the user has in the folder that a task was begun in and its worktree has not, because it is not committed, by its path
/// there. New files count where the worktree has none at all: then the folder itself is not in the repository.
pub fn not_committed(task: &str, state_home: &Path) -> Result<Vec<String>, String> {
    let record = Record::read(&Record::path(task, state_home))?;
    let repository = record.find(state_home)?;
    let here = fs::read_dir(worktree_of(task, state_home).join(&record.prefix));
    let is_own = |entry: &fs::DirEntry| entry.file_name() != ".git";
    let has_files = here.is_ok_and(|mut files| files.any(|file| file.is_ok_and(|it| is_own(&it))));
    let new = if has_files { "no" } else { "normal" };
    let place = if record.prefix.is_empty() { "." } else { record.prefix.as_str() };
    let printed = repository.output(
        [
            "--literal-pathspecs",
            "status",
            "--porcelain",
            "-z",
            "--no-renames",
            "--ignore-submodules=all",
            &format!("--untracked-files={new}"),
            "--",
            place,
        ]
        .map(OsString::from),
    )?;
    let entries = printed.out.split(|byte| *byte == 0).filter_map(|entry| entry.get(3..));
    let paths = entries.map(|path| PathBuf::from(OsStr::from_bytes(path)));
    let below = paths.filter_map(|path| path.strip_prefix(&record.prefix).ok().map(Path::to_owned));
    let theirs = below.filter(|path| protected::part(&path.to_string_lossy()).is_none());
    let named = |path: PathBuf| match path.to_string_lossy() {
        // Git names a folder that is new as a whole.
        path if path.is_empty() => format!("all of {}", record.prefix),
        path => path.into_owned(),
    };
    Ok(theirs.map(named).collect())
}

/// The submodules of which a task's worktree has nothing, as git makes one.
pub fn empty_submodules(task: &str, state_home: &Path) -> Vec<String> {
    let top = worktree_of(task, state_home);
    let named = fs::read_to_string(top.join(".gitmodules")).unwrap_or_default();
    let settings = named.lines().filter_map(|line| line.split_once('='));
    let paths = settings.filter(|(name, _)| name.trim() == "path").map(|(_, path)| path.trim());
    let is_empty = |path: &&str| {
        fs::read_dir(top.join(path)).is_ok_and(|mut entries| entries.next().is_none())
    };
    paths.filter(is_empty).map(str::to_owned).collect()
}
