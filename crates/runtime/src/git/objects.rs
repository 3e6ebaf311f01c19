//! Where a repository has its objects, others from which it borrows them (`git clone --shared`, `--reference`) included.

use std::fs;
use std::path::{Path, PathBuf};

/// How many repositories may borrow objects from one another.
const MAX_ALTERNATES: usize = 16;

/// Where a repository has its objects: its own folder, and those that it borrows from. Whoever works there sees them, so
/// nothing else that the repository names is taken for one.
pub(crate) fn object_folders(objects: &Path) -> Vec<PathBuf> {
    let mut folders = vec![objects.to_owned()];
    let mut at = 0;
    while at < folders.len() && folders.len() < MAX_ALTERNATES {
        let listed = fs::read_to_string(folders[at].join("info/alternates")).unwrap_or_default();
        for line in listed.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let Ok(path) = folders[at].join(line).canonicalize() else { continue };
            if holds_objects(&path) && !folders.contains(&path) {
                folders.push(path);
            }
        }
        at += 1;
    }
    folders
}

/// Whether a folder is where some repository keeps its objects.
fn holds_objects(folder: &Path) -> bool {
    folder.ends_with("objects") && folder.join("pack").is_dir()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_folders_of_objects_are_borrowed_from() {
        let place = tempfile::tempdir().unwrap();
        let top = place.path().canonicalize().unwrap();
        let folder = |name: &str| {
            fs::create_dir_all(top.join(name)).unwrap();
            top.join(name)
        };
        let own = folder("own/objects");
        folder("own/objects/info");
        folder("home/.ssh");
        folder("home/pack");
        folder("other/objects/pack");
        folder("third/objects/pack");
        folder("other/objects/info");
        folder("empty/objects");
        std::os::unix::fs::symlink("../home", top.join("empty/objects/x")).unwrap();
        std::os::unix::fs::symlink("../home", top.join("own/objects/objects")).unwrap();
        let listed = "# a note\n../../home\nobjects\n../../empty/objects\n../../other/objects\n/\n";
        fs::write(own.join("info/alternates"), listed).unwrap();
        let next = format!("{}\n{}\n", top.join("third/objects").display(), own.display());
        fs::write(top.join("other/objects/info/alternates"), next).unwrap();
        let expected = [own.clone(), top.join("other/objects"), top.join("third/objects")];
        assert_eq!(object_folders(&own), expected);
    }
}
