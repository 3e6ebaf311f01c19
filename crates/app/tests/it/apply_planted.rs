//! `apply` where somebody has put other content into the repository under the names of what was verified.

use std::fs;
use std::path::PathBuf;

use crate::repository::Repository;

/// Where a loose object lies.
fn loose(repository: &Repository, name: &str) -> PathBuf {
    repository.place.folder().join(".git/objects").join(&name[..2]).join(&name[2..])
}

/// The name of a blob, which stays where git puts it.
fn blob(repository: &Repository, content: &str) -> String {
    let file = repository.place.home().with_file_name("content");
    fs::write(&file, content).unwrap();
    repository.git(&["hash-object", "-w", "--no-filters", file.to_str().unwrap()])
}

/// Puts the loose object of one content at the place of another's.
fn plant(repository: &Repository, good: &str, evil: &str) -> PathBuf {
    let (good, evil) = (blob(repository, good), blob(repository, evil));
    let place = loose(repository, &good);
    fs::remove_file(&place).unwrap();
    fs::copy(loose(repository, &evil), &place).unwrap();
    place
}

/// The same in a pack, which git prefers to loose objects, wherever they are.
fn plant_packed(repository: &Repository, good: &str, evil: &str) {
    let (good, evil) = (blob(repository, good), blob(repository, evil));
    let names = repository.place.home().with_file_name("names");
    fs::write(&names, &evil).unwrap();
    let pack = repository.place.folder().join(".git/objects/pack/pack");
    let script = format!("git pack-objects -q {} < {}", pack.display(), names.display());
    let ran = std::process::Command::new("sh")
        .args(["-c", &script])
        .current_dir(repository.place.folder())
        .output()
        .unwrap();
    let stem = format!("{}-{}", pack.display(), String::from_utf8(ran.stdout).unwrap().trim_end());
    for name in [&good, &evil] {
        fs::remove_file(loose(repository, name)).unwrap();
    }
    // Magic and version, 256 counts of the names up to each first byte, then the only name.
    let index = PathBuf::from(format!("{stem}.idx"));
    let mut bytes = fs::read(&index).unwrap();
    let name: Vec<u8> =
        (0..20).map(|at| u8::from_str_radix(&good[2 * at..2 * at + 2], 16).unwrap()).collect();
    for byte in 0..256 {
        let count = u32::from(byte >= usize::from(name[0]));
        bytes[8 + 4 * byte..12 + 4 * byte].copy_from_slice(&count.to_be_bytes());
    }
    bytes[8 + 1024..8 + 1024 + 20].copy_from_slice(&name);
    fs::remove_file(&index).unwrap();
    fs::write(&index, bytes).unwrap();
    repository.git(&["cat-file", "-e", &good]);
}

#[test]
fn content_that_was_not_verified_is_not_handed_over_under_the_name_of_what_was() {
    for packed in [false, true] {
        let repository = Repository::new();
        let (id, _) = repository.task(&["echo good > a.txt"], Some("grep -q good a.txt"));
        let before = repository.users();
        if packed {
            plant_packed(&repository, "good\n", "evil\n");
        } else {
            plant(&repository, "good\n", "evil\n");
        }
        for more in [&[][..], &["--no-commit"], &["--hooks"], &["--onto", "other"]] {
            let said = repository.refused(&[&["apply", &id], more].concat());
            assert!(said.contains("a.txt") && said.contains("git fsck"), "{said}");
        }
        assert_eq!(repository.users(), before);
        assert_eq!(repository.place.read("a.txt"), "one\ntwo\n");
    }
}

#[test]
fn once_the_planted_object_is_gone_it_is_handed_over() {
    let repository = Repository::new();
    let (id, _) = repository.task(&["echo good > a.txt"], Some("grep -q good a.txt"));
    let place = plant(&repository, "good\n", "evil\n");
    let said = repository.refused(&["apply", &id]);
    assert!(said.contains(place.to_str().unwrap()), "{said}");
    fs::remove_file(place).unwrap();
    repository.place.ok(&["apply", &id]);
    assert_eq!(repository.place.read("a.txt"), "good\n");
    repository.git(&["fsck", "--full", "--strict"]);
}

/// What is converted or merged on the way has a name of its own afterwards, which says nothing of where it came from.
#[test]
fn nothing_is_made_of_content_that_was_not_verified() {
    let repository = Repository::new();
    repository.place.write(".gitattributes", "* text\n");
    repository.commit("attributes");
    let (id, _) = repository.task(&["printf 'good\\r\\n' > a.txt"], Some("grep -q good a.txt"));
    plant_packed(&repository, "good\r\n", "evil\r\n");
    let said = repository.refused(&["apply", &id]);
    assert!(said.contains("a.txt"), "{said}");

    let repository = Repository::new();
    let (id, _) = repository.task(&["echo three >> a.txt"], Some("grep -q three a.txt"));
    repository.place.write("a.txt", "zero\none\ntwo\n");
    repository.commit("the user goes on");
    plant_packed(&repository, "one\ntwo\nthree\n", "one\ntwo\nthree\nevil\n");
    let said = repository.refused(&["apply", &id, "--merge"]);
    assert!(said.contains("a.txt"), "{said}");
    assert_eq!(repository.place.read("a.txt"), "zero\none\ntwo\n");
}

/// A folder of the user's that was exchanged would bring in files that the task never had.
#[test]
fn a_folder_that_was_exchanged_is_not_merged_into() {
    let repository = Repository::new();
    let (id, _) = repository.task(&["echo good > sub/c.txt"], Some("grep -q good sub/c.txt"));
    repository.place.write("sub/d.txt", "of the user\n");
    let head = repository.commit("the user goes on");
    let good = repository.git(&["rev-parse", "HEAD:sub"]);
    repository.place.write("sub/b.txt", "evil\n");
    repository.git(&["add", "sub"]);
    let evil = repository.git(&["rev-parse", &format!("{}:sub", repository.git(&["write-tree"]))]);
    repository.git(&["reset", "--quiet", "--hard"]);
    fs::remove_file(loose(&repository, &good)).unwrap();
    fs::copy(loose(&repository, &evil), loose(&repository, &good)).unwrap();
    let ran = repository.place.run(&["apply", &id, "--merge"]);
    assert_eq!(ran.code, 2, "{}{}", ran.out, ran.err);
    assert!(ran.err.contains(&good) && ran.err.contains("git fsck"), "{}", ran.err);
    assert_eq!(repository.git(&["rev-parse", "HEAD"]), head);
    assert!(!repository.place.folder().join("sub/c.txt").exists());
}
