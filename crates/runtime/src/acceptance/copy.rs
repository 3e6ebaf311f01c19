//! Copies a folder with everything in it: content, modes, times, links as links. Where the file system can, the copies
//! share their bytes until one of them is written.

use std::fs::{self, File, FileTimes};
use std::os::unix::fs::symlink;
use std::path::Path;

/// Copies `from` to `to`, which must not exist. Pipes and sockets are nobody's files and are left out.
pub(super) fn copy_tree(from: &Path, to: &Path) -> Result<(), String> {
    let mut folders = vec![from.to_owned()];
    let mut made = Vec::new();
    while let Some(folder) = folders.pop() {
        let wrong = |error: std::io::Error| format!("cannot copy {}: {error}", folder.display());
        // Everything below `from` was found by going down from it.
        let target = to.join(folder.strip_prefix(from).unwrap_or(Path::new("")));
        fs::create_dir(&target).map_err(wrong)?;
        for entry in fs::read_dir(&folder).map_err(wrong)? {
            let entry = entry.map_err(wrong)?;
            let (path, kind) = (entry.path(), entry.file_type().map_err(wrong)?);
            let place = target.join(entry.file_name());
            if kind.is_dir() {
                folders.push(path);
            } else if kind.is_symlink() {
                symlink(fs::read_link(&path).map_err(wrong)?, &place).map_err(wrong)?;
            } else if kind.is_file() {
                copy_file(&path, &place)
                    .map_err(|e| format!("cannot copy {}: {e}", path.display()))?;
            }
        }
        made.push((folder, target));
    }
    // From the deepest: what is put into a folder changes its time, and a mode may forbid it.
    for (folder, target) in made.iter().rev() {
        let meta = fs::metadata(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        let times = FileTimes::new().set_modified(meta.modified().map_err(|e| e.to_string())?);
        let set = File::open(target).and_then(|opened| opened.set_times(times));
        set.and_then(|()| fs::set_permissions(target, meta.permissions()))
            .map_err(|e| format!("cannot copy {}: {e}", folder.display()))?;
    }
    Ok(())
}

fn copy_file(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::copy(from, to)?;
    let modified = fs::metadata(from)?.modified()?;
    // Opened for reading: the copy has the mode of the original, which may forbid to write.
    File::open(to)?.set_times(FileTimes::new().set_modified(modified))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_copy_has_the_content_modes_times_and_links_of_the_original() {
        let place = tempfile::tempdir().unwrap();
        let (from, to) = (place.path().join("from"), place.path().join("to"));
        fs::create_dir_all(from.join("a/b")).unwrap();
        fs::write(from.join("a/b/run"), "#!/bin/sh\n").unwrap();
        fs::set_permissions(from.join("a/b/run"), fs::Permissions::from_mode(0o555)).unwrap();
        symlink("/nowhere", from.join("link")).unwrap();
        let old = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000);
        let times = FileTimes::new().set_modified(old);
        File::open(from.join("a/b/run")).unwrap().set_times(times).unwrap();
        File::open(from.join("a")).unwrap().set_times(times).unwrap();
        let made = std::process::Command::new("mkfifo").arg(from.join("pipe")).status().unwrap();
        assert!(made.success());
        copy_tree(&from, &to).unwrap();
        let copied = fs::metadata(to.join("a/b/run")).unwrap();
        assert_eq!(copied.permissions().mode() & 0o777, 0o555);
        assert_eq!(copied.modified().unwrap(), old);
        assert_eq!(fs::metadata(to.join("a")).unwrap().modified().unwrap(), old);
        assert_eq!(fs::read_link(to.join("link")).unwrap(), Path::new("/nowhere"));
        assert!(!to.join("pipe").exists());
    }
}
