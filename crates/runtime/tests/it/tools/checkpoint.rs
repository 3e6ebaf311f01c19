//! Going back gives the exact bytes, names, links, modes and empty folders, and going back can be undone.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use runtime::checkpoint::{ChangeKind, Store};
use runtime::process::Cancel;

use super::folder;

/// A small generator, the same on every machine.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        usize::try_from(self.0 >> 33).unwrap() % limit
    }

    fn one<'a, T: ?Sized>(&mut self, of: &'a [&T]) -> &'a T {
        of[self.below(of.len())]
    }
}

const NAMES: &[&[u8]] = &[
    b"a",
    b"b",
    b"-x",
    b"--help",
    b" space ",
    b"new\nline",
    b"tab\t",
    b"quote\"'",
    b"\xff\xfe",
    b"star*?",
    "grüße".as_bytes(),
    b"esc\x1b[2J",
    b".hidden",
    b"back\\slash",
    b":(top)",
    b"{}",
    b"#",
    b"CON",
    b"dir",
    b"sub",
    b"deep",
    b"README",
    b"readme",
    b".gitattributes",
    b"x.txt",
    b"@",
    b"HEAD",
];
const CONTENTS: &[&[u8]] = &[
    b"",
    b"one\n",
    b"one\r\ntwo\r\n",
    b"\0\x01\x02",
    b"no end",
    b"* text=auto eol=crlf filter=x ident\n",
    b"$Id$\n",
    b"\xef\xbb\xbfbom",
    b"\xff\xfeu\0t\0f\0",
];
const MODES: &[u32] = &[0o644, 0o755, 0o600, 0o640, 0o444, 0o700, 0o664];

/// Everything below a folder, as it is.
fn snapshot(root: &Path) -> BTreeMap<OsString, (u32, Vec<u8>)> {
    let mut all = BTreeMap::new();
    let mut open = vec![PathBuf::new()];
    while let Some(path) = open.pop() {
        for entry in fs::read_dir(root.join(&path)).unwrap() {
            let entry = entry.unwrap();
            let inner = path.join(entry.file_name());
            let meta = fs::symlink_metadata(entry.path()).unwrap();
            if meta.is_dir() {
                // A folder is known by what is in it; only an empty one counts for itself.
                if fs::read_dir(entry.path()).unwrap().next().is_none() {
                    all.insert(inner.clone().into_os_string(), (0, b"folder".to_vec()));
                }
                open.push(inner);
            } else if meta.is_symlink() {
                let to = fs::read_link(entry.path()).unwrap();
                all.insert(inner.into_os_string(), (1, to.as_os_str().as_bytes().to_vec()));
            } else {
                let mode = meta.permissions().mode() & 0o7777;
                let bytes = fs::read(entry.path()).unwrap();
                all.insert(inner.into_os_string(), (mode, bytes));
            }
        }
    }
    all
}

fn path(dice: &mut Dice, root: &Path) -> PathBuf {
    let mut path = root.to_owned();
    for _ in 0..=dice.below(3) {
        path.push(OsStr::from_bytes(dice.one(NAMES)));
    }
    path
}

/// Makes the way to a path free: whatever is no folder goes.
fn clear_way(root: &Path, path: &Path) {
    let mut made = root.to_owned();
    for part in path.parent().unwrap().strip_prefix(root).unwrap().components() {
        made.push(part);
        if !fs::symlink_metadata(&made).is_ok_and(|meta| meta.is_dir()) {
            let _ = fs::remove_file(&made);
            fs::create_dir(&made).unwrap();
        }
    }
    remove(path);
}

fn remove(path: &Path) {
    match fs::symlink_metadata(path) {
        Ok(meta) if meta.is_dir() => fs::remove_dir_all(path).unwrap(),
        Ok(_) => fs::remove_file(path).unwrap(),
        Err(_) => {}
    }
}

fn edit(dice: &mut Dice, root: &Path) {
    let target = path(dice, root);
    match dice.below(9) {
        0..=2 => {
            clear_way(root, &target);
            fs::write(&target, dice.one(CONTENTS)).unwrap();
            let mode = MODES[dice.below(MODES.len())];
            fs::set_permissions(&target, fs::Permissions::from_mode(mode)).unwrap();
        }
        3 => {
            clear_way(root, &target);
            let to = ["a", "../outside", "/etc/passwd", "dir/deep", "."][dice.below(5)];
            symlink(to, &target).unwrap();
        }
        4 => {
            clear_way(root, &target);
            fs::create_dir(&target).unwrap();
        }
        5 => {
            let beneath = target.parent().unwrap();
            if fs::symlink_metadata(beneath).is_ok_and(|meta| meta.is_dir()) {
                remove(&target);
            }
        }
        6 => {
            let from = path(dice, root);
            let is_plain = |path: &Path| fs::symlink_metadata(path).is_ok_and(|m| m.is_file());
            let real = |path: &Path| path.canonicalize().is_ok_and(|real| real == path);
            if is_plain(&from) && real(&from) && !target.starts_with(&from) {
                let bytes = fs::read(&from).unwrap();
                fs::remove_file(&from).unwrap();
                clear_way(root, &target);
                fs::write(&target, bytes).unwrap();
            }
        }
        7 => {
            if fs::symlink_metadata(&target).is_ok_and(|meta| meta.is_file()) {
                let mode = MODES[dice.below(MODES.len())];
                fs::set_permissions(&target, fs::Permissions::from_mode(mode)).unwrap();
            }
        }
        _ => {
            if fs::symlink_metadata(&target).is_ok_and(|meta| meta.is_file()) {
                fs::write(&target, dice.one(CONTENTS)).unwrap();
            }
        }
    }
}

/// `DRIVETRAIN_EDITS=2000` tries as many sequences as a release does.
#[test]
fn going_back_gives_the_exact_tree_and_undoing_it_too() {
    let sequences = std::env::var("DRIVETRAIN_EDITS").map_or(25, |n| n.parse().unwrap());
    let seed = std::env::var("DRIVETRAIN_EDITS_SEED").map_or(7, |n| n.parse().unwrap());
    let mut dice = Dice(seed);
    for sequence in 0..sequences {
        let all = folder();
        let root = all.path().join("root").canonicalize().unwrap_or_else(|_| {
            fs::create_dir(all.path().join("root")).unwrap();
            all.path().join("root").canonicalize().unwrap()
        });
        let cancel = Cancel::new();
        let store = Store::open("t", &all.path().join("state"), &cancel).unwrap();
        let mut kept = Vec::new();
        for _ in 0..2 + dice.below(2) {
            for _ in 0..1 + dice.below(12) {
                edit(&mut dice, &root);
            }
            kept.push((store.keep(&root, "a point").unwrap(), snapshot(&root)));
        }
        for _ in 0..1 + dice.below(8) {
            edit(&mut dice, &root);
        }
        let (now, (to, then)) = (snapshot(&root), &kept[dice.below(kept.len())]);
        let restored = store.restore(&root, to).unwrap_or_else(|e| panic!("{sequence}: {e}"));
        assert_eq!(snapshot(&root), *then, "sequence {sequence} of seed {seed}");
        store.restore(&root, &restored.undo).unwrap();
        assert_eq!(snapshot(&root), now, "undo of sequence {sequence} of seed {seed}");
        let copy = all.path().join("copy");
        fs::create_dir(&copy).unwrap();
        store.copy(to, &copy).unwrap();
        assert_eq!(snapshot(&copy), *then, "copy of sequence {sequence} of seed {seed}");
    }
}

#[test]
fn what_is_ignored_stays_and_what_changed_is_named() {
    let all = folder();
    let root = all.path().join("root");
    fs::create_dir(&root).unwrap();
    fs::write(root.join(".gitignore"), "build/\n").unwrap();
    fs::write(root.join("kept"), "first").unwrap();
    let cancel = Cancel::new();
    let store = Store::open("t", &all.path().join("state"), &cancel).unwrap();
    let first = store.keep(&root, "first").unwrap();
    fs::create_dir(root.join("build")).unwrap();
    fs::write(root.join("build/out"), "long to make").unwrap();
    fs::write(root.join("kept"), "second").unwrap();
    fs::write(root.join("new"), "new").unwrap();
    fs::create_dir(root.join("empty")).unwrap();
    let restored = store.restore(&root, &first).unwrap();
    let named: Vec<(&str, ChangeKind)> =
        restored.changes.iter().map(|c| (c.path.to_str().unwrap(), c.kind)).collect();
    assert_eq!(
        named,
        [
            ("empty", ChangeKind::Removed),
            ("kept", ChangeKind::Changed),
            ("new", ChangeKind::Removed)
        ]
    );
    assert_eq!(fs::read_to_string(root.join("build/out")).unwrap(), "long to make");
    assert!(!root.join("new").exists() && !root.join("empty").exists());
    let points = store.points().unwrap();
    let reasons: Vec<&str> = points.iter().map(|point| point.reason.as_str()).collect();
    assert_eq!(reasons[0], "first");
    assert!(reasons[1].starts_with("before going back to"), "{reasons:?}");
    let patch = store.patch(&first, &restored.undo).unwrap();
    assert!(String::from_utf8_lossy(&patch).contains("+second"));
    assert!(store.tree("--help").unwrap_err().contains("is not the name of a checkpoint"));
}
