//! Going back gives the exact bytes, names, links, modes and empty folders, and going back can be undone.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use machine::effect::InTheWay;
use machine::task::{Workspace, WorkspaceKind};
use runtime::checkpoint::{ChangeKind, Store, checkpoint, restore};
use runtime::process::Cancel;

use super::{folder, in_place};

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

fn git(folder: &Path, arguments: &[&str]) {
    let ended = std::process::Command::new("git")
        .args(["-c", "user.name=t", "-c", "user.email=t@t.invalid"])
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(ended.status.success(), "{ended:?}");
}

#[test]
fn repositories_inside_are_kept_with_their_modes_and_empty_folders() {
    let all = folder();
    let root = all.path().join("root");
    fs::create_dir_all(root.join("inner/hollow")).unwrap();
    git(&root.join("inner"), &["init", "--quiet"]);
    fs::write(root.join("inner/secret"), "s").unwrap();
    fs::set_permissions(root.join("inner/secret"), fs::Permissions::from_mode(0o600)).unwrap();
    git(&root.join("inner"), &["commit", "--quiet", "--allow-empty", "-m", "x"]);
    let cancel = Cancel::new();
    let store = Store::open("t", &all.path().join("state"), &cancel).unwrap();
    let visible = |root: &Path| {
        let mut all = snapshot(root);
        all.retain(|path, _| !Path::new(path).starts_with("inner/.git"));
        all
    };
    let (first, then) = (store.keep(&root, "first").unwrap(), visible(&root));
    fs::remove_file(root.join("inner/secret")).unwrap();
    fs::remove_dir(root.join("inner/hollow")).unwrap();
    fs::write(root.join("inner/new"), "n").unwrap();
    let now = visible(&root);
    let restored = store.restore(&root, &first).unwrap();
    assert_eq!(visible(&root), then);
    store.restore(&root, &restored.undo).unwrap();
    assert_eq!(visible(&root), now);
    assert!(root.join("inner/.git/HEAD").exists(), "its history is not touched");
}

/// A process that died in the middle left files of both states. Whoever goes on must not take them for the state before.
#[test]
fn going_back_that_was_cut_off_can_be_undone_to_where_it_began() {
    let all = folder();
    let (root, state) = (all.path().join("root"), all.path().join("state"));
    fs::create_dir(&root).unwrap();
    let workspace = in_place(&root);
    let cancel = Cancel::new();
    let both = |text: &str| {
        fs::write(root.join("one"), text).unwrap();
        fs::write(root.join("two"), text).unwrap();
    };
    both("first");
    let first = checkpoint("t", &workspace, "first", &state, &cancel).unwrap().name;
    both("second");
    let go_back =
        || restore("t", &workspace, &first, InTheWay::Refused, &mut None, &state, &cancel);
    // What it needs is not to be had, as if it were killed there.
    let blocked = state.join("checkpoints/t.git/index.restore");
    fs::create_dir_all(blocked.join("x")).unwrap();
    go_back().unwrap_err();
    fs::write(root.join("one"), "first").unwrap();
    fs::remove_dir_all(blocked).unwrap();
    let undo = go_back().unwrap().name;
    assert_eq!(fs::read_to_string(root.join("two")).unwrap(), "first");
    restore("t", &workspace, &undo, InTheWay::Refused, &mut None, &state, &cancel).unwrap();
    for name in ["one", "two"] {
        assert_eq!(fs::read_to_string(root.join(name)).unwrap(), "second");
    }
    // One that came to its end has nothing to go on with.
    both("third");
    let undo = go_back().unwrap().name;
    restore("t", &workspace, &undo, InTheWay::Refused, &mut None, &state, &cancel).unwrap();
    assert_eq!(fs::read_to_string(root.join("one")).unwrap(), "third");
}

#[test]
fn what_cannot_be_kept_is_refused_by_name() {
    let all = folder();
    let root = all.path().join("root");
    fs::create_dir_all(root.join("a/only")).unwrap();
    fs::write(root.join("a/file"), "x").unwrap();
    let cancel = Cancel::new();
    let store = Store::open("t", &all.path().join("state"), &cancel).unwrap();
    store.keep(&root, "first").unwrap();
    let socket = std::os::unix::net::UnixListener::bind(root.join("a/sock")).unwrap();
    let made = std::process::Command::new("mkfifo").arg(root.join("a/only/pipe")).status();
    assert!(made.unwrap().success());
    let refused = store.keep(&root, "second").unwrap_err();
    assert!(refused.contains("incomplete: a/only/pipe is a pipe, a/sock is a socket"), "{refused}");
    assert_eq!(store.points().unwrap().len(), 1, "there is no half of a checkpoint");
    fs::write(root.join(".gitignore"), "sock\n/a/only/\n").unwrap();
    store.keep(&root, "third").unwrap();
    drop(socket);
    // A path that git cannot follow to its end.
    let mut place = rustix_folder(&root);
    for _ in 0..30 {
        place = deeper(&place, &"d".repeat(200));
    }
    let refused = store.keep(&root, "fourth").unwrap_err();
    assert!(refused.contains("incomplete"), "{refused}");
}

fn rustix_folder(path: &Path) -> std::os::fd::OwnedFd {
    use rustix::fs::{Mode, OFlags, open};
    open(path, OFlags::DIRECTORY | OFlags::RDONLY, Mode::empty()).unwrap()
}

fn deeper(place: &std::os::fd::OwnedFd, name: &str) -> std::os::fd::OwnedFd {
    use rustix::fs::{Mode, OFlags, mkdirat, openat};
    mkdirat(place, name, Mode::from_raw_mode(0o755)).unwrap();
    openat(place, name, OFlags::DIRECTORY | OFlags::RDONLY, Mode::empty()).unwrap()
}

/// Git takes a name for a file where one has it, and is not sure where it is then.
#[test]
fn a_store_that_is_reached_through_a_link_tells_its_checkpoints() {
    let all = folder();
    let (root, link) = (all.path().join("root"), all.path().join("link"));
    fs::create_dir(&root).unwrap();
    fs::create_dir(all.path().join("state")).unwrap();
    symlink(all.path().join("state"), &link).unwrap();
    let cancel = Cancel::new();
    let store = Store::open("t", &link, &cancel).unwrap();
    fs::write(root.join("a"), "one\n").unwrap();
    let first = store.keep(&root, "first").unwrap();
    fs::write(root.join("a"), "two\n").unwrap();
    let second = store.keep(&root, "second").unwrap();
    let reasons: Vec<String> = store.points().unwrap().into_iter().map(|one| one.reason).collect();
    assert_eq!(reasons, ["first", "second"]);
    assert_eq!(store.changes(&first, &second).unwrap().len(), 1);
    assert!(String::from_utf8_lossy(&store.patch(&first, &second).unwrap()).contains("+two"));
    assert_eq!(store.diff_lines(&first, &second).unwrap(), 2);
}

/// Drivetrain's folder was moved, and a link at its old place leads to it: what is told to do then.
#[test]
fn of_a_worktree_that_is_known_by_a_link_all_is_kept_wherever_in_it_the_task_works() {
    let all = folder();
    let (state, link) = (all.path().join("state"), all.path().join("link"));
    fs::create_dir_all(state.join("worktrees/t/sub")).unwrap();
    symlink(&state, &link).unwrap();
    let workspace = Workspace {
        kind: WorkspaceKind::Worktree,
        path: Some(link.join("worktrees/t/sub").to_str().unwrap().to_owned()),
        branch: None,
        base: None,
    };
    let cancel = Cancel::new();
    let (_, folder) = Store::of("t", &workspace, &state, &cancel).unwrap();
    assert_eq!(folder, state.join("worktrees/t").canonicalize().unwrap());
}

#[test]
fn looking_keeps_nothing_and_sees_every_change() {
    let all = folder();
    let root = all.path().join("root");
    fs::create_dir(&root).unwrap();
    let cancel = Cancel::new();
    let store = Store::open("t", &all.path().join("state"), &cancel).unwrap();
    fs::write(root.join("a"), "one").unwrap();
    let first = store.keep(&root, "first").unwrap();
    for word in ["two", "six", "ten"] {
        // The same size, and within a tick of the clock: only the content tells.
        fs::write(root.join("a"), word).unwrap();
        let seen = store.look(&root).unwrap();
        let kept = store.content(&first).unwrap();
        let lines = store.lines(&kept, &seen).unwrap();
        assert_eq!(lines[0].count, Some((1, 1)), "{word}");
        assert!(
            String::from_utf8_lossy(&store.patch_between(&kept, &seen).unwrap()).contains(word)
        );
    }
    assert_eq!(store.points().unwrap().len(), 1);
    let left = fs::read_dir(all.path().join("state/checkpoints/t.git")).unwrap();
    let left =
        left.filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().contains("look"));
    assert_eq!(left.count(), 0, "nothing is left behind");
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
        let (cancel, state) = (Cancel::new(), all.path().join("state"));
        let store = Store::open("t", &state, &cancel).unwrap();
        let workspace = Workspace {
            kind: WorkspaceKind::InPlace,
            path: Some(root.to_str().unwrap().to_owned()),
            branch: None,
            base: None,
        };
        let mut kept = Vec::new();
        for _ in 0..2 + dice.below(2) {
            for _ in 0..1 + dice.below(12) {
                edit(&mut dice, &root);
            }
            let point = checkpoint("t", &workspace, "a point", &state, &cancel).unwrap();
            assert_eq!(point.tree, store.tree(&point.name).unwrap(), "sequence {sequence}");
            kept.push((point.name, snapshot(&root)));
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
fn a_folder_that_became_a_link_to_itself_is_kept_as_that() {
    let all = folder();
    let root = all.path().join("root");
    fs::create_dir_all(root.join("deep/er")).unwrap();
    fs::write(root.join("deep/er/file"), "first").unwrap();
    let cancel = Cancel::new();
    let store = Store::open("t", &all.path().join("state"), &cancel).unwrap();
    let first = store.keep(&root, "first").unwrap();
    let then = snapshot(&root);
    fs::remove_dir_all(root.join("deep")).unwrap();
    std::os::unix::fs::symlink("deep", root.join("deep")).unwrap();
    let second = store.keep(&root, "second").unwrap();
    let now = snapshot(&root);
    store.restore(&root, &first).unwrap();
    assert_eq!(snapshot(&root), then);
    store.restore(&root, &second).unwrap();
    assert_eq!(snapshot(&root), now);
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

#[test]
fn what_a_killed_git_left_locked_is_in_nobodys_way() {
    let all = folder();
    let (work, state) = (all.path().join("work"), all.path().join("state"));
    fs::create_dir_all(work.join("inner")).unwrap();
    fs::write(work.join("file"), "one").unwrap();
    fs::write(work.join("inner/file"), "inner").unwrap();
    git(&work.join("inner"), &["init", "-q"]);
    git(&work.join("inner"), &["commit", "-q", "--allow-empty", "-m", "x"]);
    let cancel = Cancel::new();
    let store = Store::open("t", &state, &cancel).unwrap();
    let lock_everything = || {
        for name in ["", ".joined", ".0", ".copy", ".restore"] {
            fs::write(state.join(format!("checkpoints/t.git/index{name}.lock")), "").unwrap();
        }
        fs::write(state.join("checkpoints/t.git/refs/heads/checkpoints.lock"), "").unwrap();
    };
    lock_everything();
    let first = store.keep(&work, "one").unwrap();
    fs::write(work.join("file"), "two").unwrap();
    lock_everything();
    store.keep(&work, "two").unwrap();
    lock_everything();
    let copy = all.path().join("copy");
    fs::create_dir(&copy).unwrap();
    store.copy(&first, &copy).unwrap();
    assert_eq!(fs::read_to_string(copy.join("inner/file")).unwrap(), "inner");
    lock_everything();
    store.restore(&work, &first).unwrap();
    assert_eq!(fs::read_to_string(work.join("file")).unwrap(), "one");
}

#[test]
fn the_objects_of_a_large_worktree_are_taken_over_and_the_repository_is_not_needed_again() {
    for (files, format, shown) in
        [(90, "sha1", "all"), (20, "sha1", "all"), (90, "sha256", "all"), (90, "sha1", "a part")]
    {
        let all = folder();
        let (repository, work) = (all.path().join("a:\"place"), all.path().join("work"));
        fs::create_dir_all(repository.join("inner")).unwrap();
        git(&repository, &["init", "-q", &format!("--object-format={format}")]);
        for n in 0..files {
            fs::write(repository.join(format!("inner/{n}")), format!("{n}\n")).unwrap();
        }
        git(&repository, &["add", "-A"]);
        git(&repository, &["commit", "-q", "-m", "all"]);
        git(&repository, &["worktree", "add", "-q", work.to_str().unwrap()]);
        if shown == "a part" {
            git(&work, &["sparse-checkout", "set", "inner"]);
        }
        fs::write(work.join("inner/1"), "changed").unwrap();
        fs::write(work.join("new"), "new").unwrap();
        fs::remove_file(work.join("inner/2")).unwrap();
        let cancel = Cancel::new();
        let store = Store::open("t", &all.path().join("state"), &cancel).unwrap();
        let first = store.keep(&work, "first").unwrap();
        let objects = all.path().join("state/checkpoints/t.git/objects");
        let (mut packs, mut loose) = (0, 0);
        for path in snapshot(&objects).keys() {
            match Path::new(path).starts_with("pack") {
                true => packs += usize::from(path.as_bytes().ends_with(b".pack")),
                false => loose += 1,
            }
        }
        let is_taken_over = files == 90 && format == "sha1" && shown == "all";
        assert_eq!(packs, usize::from(is_taken_over), "{files} files, {format}, {shown}");
        assert_eq!(loose < 50, is_taken_over || files == 20, "{loose} objects");
        fs::remove_file(work.join(".git")).unwrap();
        let kept = snapshot(&work);
        fs::remove_dir_all(&repository).unwrap();
        let copy = all.path().join("copy");
        fs::create_dir(&copy).unwrap();
        store.copy(&first, &copy).unwrap();
        assert_eq!(snapshot(&copy), kept);
    }
}

/// A repository and a new worktree of it; what both checkpoints of it hold, the usual one and one that git makes.
struct NewWorktree {
    all: tempfile::TempDir,
    repository: PathBuf,
    work: PathBuf,
    state: PathBuf,
}

impl NewWorktree {
    fn of(fill: impl FnOnce(&Path)) -> NewWorktree {
        let all = folder();
        let [repository, work, state] =
            ["repository", "tree", "state"].map(|name| all.path().join(name));
        fs::create_dir(&repository).unwrap();
        git(&repository, &["init", "-q"]);
        fill(&repository);
        git(&repository, &["add", "-A"]);
        git(&repository, &["commit", "-q", "-m", "all"]);
        git(&repository, &["worktree", "add", "-q", work.to_str().unwrap()]);
        NewWorktree { all, repository, work, state }
    }

    /// The first checkpoint, which is what git would make of it, and whether git was not needed.
    fn keep(&self, store: &Store, about: &str) -> (String, bool) {
        let first = store.keep(&self.work, "first").unwrap();
        let made = |index: PathBuf| fs::metadata(index).unwrap().modified().unwrap();
        let is_without = made(self.state.join("checkpoints/t.git/index"))
            == made(self.repository.join(".git/worktrees/tree/index"));
        // A folder that is in no repository is looked at by git.
        fs::rename(self.work.join(".git"), self.all.path().join("link")).unwrap();
        let cancel = Cancel::new();
        let other = Store::open("other", &self.state, &cancel).unwrap();
        let by_git = other.keep(&self.work, "by git").unwrap();
        assert_eq!(store.content(&first), other.content(&by_git), "{about}");
        (first, is_without)
    }
}

#[test]
fn a_new_worktree_is_kept_without_git_as_git_would_keep_it() {
    let mut without = 0;
    for seed in 0..24 {
        let mut dice = Dice(seed);
        let new = NewWorktree::of(|repository| {
            for _ in 0..dice.below(100) + 1 {
                edit(&mut dice, repository);
            }
            fs::write(repository.join("large"), vec![7; dice.below(3) << 19]).unwrap();
        });
        let cancel = Cancel::new();
        let store = Store::open("t", &new.state, &cancel).unwrap();
        let (first, is_without) = new.keep(&store, &format!("seed {seed}"));
        without += usize::from(is_without);

        let (work, copy) = (&new.work, new.all.path().join("copy"));
        let kept = snapshot(work);
        fs::remove_dir_all(&new.repository).unwrap();
        fs::create_dir(&copy).unwrap();
        store.copy(&first, &copy).unwrap();
        assert_eq!(snapshot(&copy), kept, "seed {seed}");
        // What is called .gitattributes here need not be what git means by it.
        let sound = ["-c", "fsck.gitattributesBlob=ignore", "fsck", "--strict", "--full"];
        git(&new.state.join("checkpoints/t.git"), &sound);
        // Where git keeps all of it in its own way, it is the same.
        let content = store.content(&first);
        git(&new.state.join("checkpoints/t.git"), &["repack", "-a", "-d", "-q"]);
        assert_eq!(store.content(&first), content, "seed {seed}");
        for _ in 0..5 {
            edit(&mut dice, work);
        }
        let changed = snapshot(work);
        let undo = store.restore(work, &first).unwrap().undo;
        assert_eq!(snapshot(work), kept, "seed {seed}");
        store.restore(work, &undo).unwrap();
        assert_eq!(snapshot(work), changed, "seed {seed}");
    }
    assert!(without > 10, "without git {without} times");
}

#[test]
fn whatever_is_not_as_git_made_it_is_seen_in_a_new_worktree() {
    let mode = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    type Touch<'a> = &'a dyn Fn(&Path);
    let cases: [(&str, bool, Touch); 9] = [
        ("nothing", true, &|_| {}),
        ("a mode that git does not keep", true, &|work| mode(&work.join("inner/1"), 0o600)),
        ("another content", false, &|work| fs::write(work.join("inner/1"), "2").unwrap()),
        ("a program", false, &|work| mode(&work.join("inner/1"), 0o755)),
        ("no program", false, &|work| mode(&work.join("program"), 0o644)),
        ("one more", false, &|work| fs::write(work.join("inner/more"), "").unwrap()),
        ("one less", false, &|work| fs::remove_file(work.join("inner/1")).unwrap()),
        ("an empty folder", false, &|work| fs::create_dir(work.join("inner/empty")).unwrap()),
        ("another link", false, &|work| {
            fs::remove_file(work.join("link")).unwrap();
            symlink("program", work.join("link")).unwrap();
        }),
    ];
    for files in [5, 70] {
        let fill = |repository: &Path| {
            fs::create_dir(repository.join("inner")).unwrap();
            for n in 0..files {
                fs::write(repository.join(format!("inner/{n}")), n.to_string()).unwrap();
            }
            fs::write(repository.join("program"), "#!/bin/sh\n").unwrap();
            mode(&repository.join("program"), 0o755);
            symlink("inner/1", repository.join("link")).unwrap();
        };
        let cancel = Cancel::new();
        for (about, is_plain, touch) in cases {
            let new = NewWorktree::of(fill);
            touch(&new.work);
            let store = Store::open("t", &new.state, &cancel).unwrap();
            let (_, is_without) = new.keep(&store, about);
            assert_eq!(is_without, is_plain, "{about}, {files} files");
        }
        let new = NewWorktree::of(|repository| {
            fill(repository);
            fs::write(repository.join(".gitattributes"), "inner/1 eol=crlf\n").unwrap();
            fs::write(repository.join("inner/1"), "one\ntwo\n").unwrap();
        });
        let store = Store::open("t", &new.state, &cancel).unwrap();
        assert!(!new.keep(&store, "other line ends").1, "{files} files");
        let ends = fs::read(new.work.join("inner/1")).unwrap();
        assert_eq!(ends, b"one\r\ntwo\r\n", "this is what git made of it");
    }
}

#[test]
fn a_repository_inside_that_has_no_commit_yet_is_kept_with_its_files() {
    let all = folder();
    let (work, state) = (all.path().join("work"), all.path().join("state"));
    for name in ["app", "new/deep's app", "new/deep's app/inner", "bare", "ignored", "left"] {
        fs::create_dir_all(work.join(name)).unwrap();
        git(&work.join(name), &["init", "-q"]);
        if name != "bare" {
            fs::write(work.join(name).join("file"), name).unwrap();
        }
    }
    let cancel = Cancel::new();
    let store = Store::open("t", &state, &cancel).unwrap();
    let alone = store.keep(&work, "nothing but repositories").unwrap();
    fs::write(work.join(".gitignore"), "/ignored\n").unwrap();
    fs::remove_dir_all(work.join("left")).unwrap();
    let first = store.keep(&work, "first").unwrap();
    let removed: Vec<OsString> =
        store.changes(&alone, &first).unwrap().into_iter().map(|change| change.path).collect();
    assert_eq!(removed, [".gitignore", "ignored/file", "left/file"].map(OsString::from));

    let read = |name: &str| fs::read_to_string(work.join(name).join("file")).unwrap();
    fs::write(work.join("app/file"), "changed").unwrap();
    fs::remove_file(work.join("new/deep's app/inner/file")).unwrap();
    git(&work.join("app"), &["add", "file"]);
    git(&work.join("app"), &["commit", "-q", "-m", "born"]);
    store.restore(&work, &first).unwrap();
    assert_eq!([read("app"), read("new/deep's app")], ["app", "new/deep's app"]);
    assert_eq!(
        [read("new/deep's app/inner"), read("ignored")],
        ["new/deep's app/inner", "ignored"]
    );
    assert!(work.join("bare/.git").exists() && work.join("app/.git").exists());
}

/// Git asks a known repository inside the folder whether it was changed by a git that obeys the settings in there.
#[test]
fn nothing_that_a_repository_inside_asks_for_runs() {
    let all = folder();
    let (work, state) = (all.path().join("work"), all.path().join("state"));
    let canary = all.path().join("canary");
    let plant = |inner: &Path| {
        fs::create_dir_all(inner).unwrap();
        git(inner, &["init", "-q"]);
        fs::write(inner.join("file"), "one").unwrap();
        git(inner, &["add", "file"]);
        git(inner, &["commit", "-q", "-m", "first"]);
        fs::create_dir_all(inner.join(".git/info")).unwrap();
        fs::write(inner.join(".git/info/attributes"), "* filter=planted\n").unwrap();
        let run = format!("touch {}; cat", canary.display());
        for name in ["filter.planted.clean", "filter.planted.smudge", "core.fsmonitor"] {
            git(inner, &["config", name, &run]);
        }
        fs::remove_file(&canary).unwrap_or_default();
    };
    for name in ["inner", "inner/deeper", "a/b/c"] {
        plant(&work.join(name));
    }
    let cancel = Cancel::new();
    let store = Store::open("t", &state, &cancel).unwrap();
    let mut kept = Vec::new();
    for round in 0..4 {
        for name in ["inner", "inner/deeper", "a/b/c"] {
            fs::write(work.join(name).join("other"), ["even", "not even"][round % 2]).unwrap();
            // As long as before and of another time, so that the git in there would have to read it.
            let file = File::options().write(true).open(work.join(name).join("file")).unwrap();
            file.set_modified(UNIX_EPOCH).unwrap();
        }
        kept.push(store.keep(&work, "a round").unwrap());
        assert!(!canary.exists(), "round {round}");
    }
    assert_eq!(store.changes(&kept[0], &kept[2]).unwrap(), []);
    assert_eq!(store.changes(&kept[0], &kept[1]).unwrap().len(), 3);
    store.restore(&work, &kept[0]).unwrap();
    assert_eq!(fs::read_to_string(work.join("inner/deeper/other")).unwrap(), "even");
    assert!(!canary.exists());
}
