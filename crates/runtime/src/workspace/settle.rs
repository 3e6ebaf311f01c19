//! Has the work in a worktree on the disk when the task ends or is put down: nobody comes to compare it with a checkpoint
//! before it is used.

use std::fs::{self, File, FileType, OpenOptions};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::{Record, worktree_of};

/// Syncs what was written in the task's worktree since it was made. Files that git ignores are not work. A disk that
/// refuses says so to the journal too, which lies on it.
pub(crate) fn settle(task: &str, state_home: &Path) {
    let Ok(ready) = fs::metadata(Record::path(task, state_home)) else { return };
    let worktree = worktree_of(task, state_home);
    for path in written_since((ready.mtime(), ready.mtime_nsec()), &worktree) {
        // Whoever works here has ended; but what is opened is no link and no pipe that would be waited for, whatever comes.
        let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
        let file =
            OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path);
        let _ = file.and_then(|file: File| file.sync_all());
    }
}

/// The files and folders that were changed at this moment or later, the folders after what is in them.
fn written_since(moment: (i64, i64), folder: &Path) -> Vec<PathBuf> {
    let walk = ignore::WalkBuilder::new(folder)
        .hidden(false)
        .ignore(false)
        .parents(false)
        .git_global(false)
        .git_exclude(false)
        .require_git(false)
        .filter_entry(|entry| entry.depth() == 0 || entry.file_name() != ".git")
        .build();
    let can_be_synced = |kind: FileType| kind.is_file() || kind.is_dir();
    let mut written: Vec<PathBuf> = walk
        .filter_map(Result::ok)
        .filter(|entry| entry.file_type().is_some_and(can_be_synced))
        .filter(|entry| {
            let about = entry.path().symlink_metadata();
            about.is_ok_and(|about| (about.ctime(), about.ctime_nsec()) >= moment)
        })
        .map(ignore::DirEntry::into_path)
        .collect();
    written.reverse();
    written
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_was_written_since_is_found_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir_all(at("old/inner")).unwrap();
        fs::create_dir(at(".git")).unwrap();
        for name in ["old/kept", "old/inner/changed", ".gitignore"] {
            fs::write(at(name), "target\n").unwrap();
        }
        let mark = tempfile::NamedTempFile::new().unwrap();
        let since = |path: &Path| {
            let about = fs::metadata(path).unwrap();
            (about.mtime(), about.mtime_nsec())
        };
        // A file system tells moments apart that are a few milliseconds apart.
        thread::sleep(Duration::from_millis(50));
        fs::write(mark.path(), "now").unwrap();
        thread::sleep(Duration::from_millis(50));
        fs::write(at("old/inner/changed"), "anew\n").unwrap();
        fs::create_dir_all(at("new/.hidden")).unwrap();
        fs::create_dir(at("target")).unwrap();
        for name in ["new/.hidden/file", "target/built", ".git/index"] {
            fs::write(at(name), "new\n").unwrap();
        }
        symlink("/nowhere", at("new/link")).unwrap();
        let fifo = rustix::fs::CWD;
        rustix::fs::mknodat(fifo, at("new/pipe"), rustix::fs::FileType::Fifo, 0o600.into(), 0)
            .unwrap();

        let written = written_since(since(mark.path()), folder.path());
        let mut names: Vec<&str> = written
            .iter()
            .map(|path| path.strip_prefix(folder.path()).unwrap().to_str().unwrap())
            .collect();
        let position = |name: &str| names.iter().position(|other| *other == name);
        assert!(position("new/.hidden/file") < position("new/.hidden"), "{names:?}");
        assert!(position("new") < position(""), "{names:?}");
        names.sort_unstable();
        assert_eq!(names, ["", "new", "new/.hidden", "new/.hidden/file", "old/inner/changed"]);
    }
}
