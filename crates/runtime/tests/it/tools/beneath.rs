//! No path reads or writes outside, whoever resolves it.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use runtime::beneath::{Kind, Resolver, Root, Written};
use serde_json::Value;
use tempfile::TempDir;

use super::folder;

const RESOLVERS: [Resolver; 2] = [Resolver::Auto, Resolver::Walk];

/// A workspace with a folder beside it that nothing may touch.
struct Place {
    _all: TempDir,
    inside: PathBuf,
    outside: PathBuf,
}

fn place() -> Place {
    let all = folder();
    let (inside, outside) = (all.path().join("work"), all.path().join("outside"));
    fs::create_dir(&inside).unwrap();
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("victim"), "secret").unwrap();
    Place { _all: all, inside, outside }
}

/// Everything outside, to compare.
fn listing(folder: &Path, but: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path == but {
            continue;
        }
        if path.is_symlink() {
            let target = fs::read_link(&path).unwrap();
            all.push((path, target.into_os_string().into_encoded_bytes()));
        } else if path.is_dir() {
            all.push((path.clone(), Vec::new()));
            all.extend(listing(&path, but));
        } else {
            all.push((path.clone(), fs::read(&path).unwrap()));
        }
    }
    all.sort();
    all
}

#[test]
fn every_case_of_the_path_corpus_ends_as_it_says() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let cases = fs::read_to_string(here.join("../../corpus/paths.jsonl")).unwrap();
    let mut count = 0;
    for line in cases.lines() {
        for resolver in RESOLVERS {
            check_case(&serde_json::from_str(line).unwrap(), resolver);
        }
        count += 1;
    }
    assert!(count >= 48, "{count}");
}

fn check_case(case: &Value, resolver: Resolver) {
    let place = place();
    let fill = |text: &str| {
        text.replace("{{WT}}", place.inside.to_str().unwrap())
            .replace("{{OUTSIDE}}", place.outside.to_str().unwrap())
            .replace("{{PRODUCT}}", "drivetrain")
            .replace("{{PROC_ROOT}}", "/proc/self/root")
    };
    for step in case["setup"].as_array().into_iter().flatten() {
        let word = |at: usize| fill(step[at].as_str().unwrap());
        match step[0].as_str().unwrap() {
            "symlink" => symlink(word(1), place.inside.join(word(2))).unwrap(),
            "hardlink" => fs::hard_link(word(1), place.inside.join(word(2))).unwrap(),
            "mkdir" => fs::create_dir(place.inside.join(word(1))).unwrap(),
            "mkdir-outside" => fs::create_dir(place.outside.join(word(1))).unwrap(),
            other => panic!("unknown step {other}"),
        }
    }
    let path = match case["in"].as_str() {
        Some(path) => fill(path),
        None => {
            let part = &case["gen"];
            let count = usize::try_from(part["n"].as_u64().unwrap()).unwrap();
            part["item"].as_str().unwrap().repeat(count) + part["tail"].as_str().unwrap()
        }
    };
    let before = listing(place._all.path(), &place.inside);
    let inside_before = listing(&place.inside, Path::new(""));
    let root = Root::open_with(&place.inside, resolver).unwrap();
    let result = match case["op"].as_str().unwrap() {
        "read" => root.read(&path, 1000).map(|_| ()),
        _ => root.write(&path, b"canary", None).map(|_| ()),
    };
    let name = format!("{} {resolver:?}: {result:?}", case["id"]);
    match case["expect"].as_str().unwrap() {
        "accept" => assert!(result.is_ok(), "{name}"),
        _ => {
            assert!(result.is_err(), "{name}");
            assert_eq!(listing(&place.inside, Path::new("")), inside_before, "{name}");
        }
    }
    assert_eq!(listing(place._all.path(), &place.inside), before, "{name}");
}

#[test]
fn protected_names_are_found_in_any_spelling_and_behind_links() {
    for resolver in RESOLVERS {
        let place = place();
        for folder in [".git/hooks", "sub/.git", "plain"] {
            fs::create_dir_all(place.inside.join(folder)).unwrap();
        }
        symlink(".git", place.inside.join("innocent")).unwrap();
        symlink("../.git/config", place.inside.join("plain/file")).unwrap();
        let root = Root::open_with(&place.inside, resolver).unwrap();
        for path in [
            ".git",
            ".GIT/config",
            "sub/.git/config",
            "a/.Git/x",
            ".git./config",
            ".git /config",
            "git~1/config",
            "innocent/config",
            "innocent/hooks/post-checkout",
            "innocent/new/deep/file",
            "plain/file",
            ".mcp.json",
            ".claude/settings.json",
            ".vscode/tasks.json",
            ".cursor/rules",
            "sub/.env",
            ".env.local",
            ".cargo/config",
            "rust-toolchain",
            ".drivetrain/task.toml",
            ".git::$INDEX_ALLOCATION/config",
            "plain/../.git/config",
        ] {
            let error = root.write(path, b"x", None).unwrap_err();
            let text = error.to_string();
            assert!(text.contains("protected") || path.contains("$I"), "{path}: {text}");
        }
        for path in [
            ".gitignore",
            ".env.example",
            ".github/notes",
            "env",
            "routes/$id.tsx",
            "grüße/ß.txt",
            "./-x",
        ] {
            assert_eq!(root.write(path, b"x", None).unwrap(), Written::Created, "{path}");
        }
        assert_eq!(fs::read_dir(place.inside.join(".git")).unwrap().count(), 1);
    }
}

#[test]
fn odd_texts_are_refused_with_a_reason() {
    let place = place();
    let root = Root::open(&place.inside).unwrap();
    let above = format!("{}/../x", place.inside.display());
    for path in [
        "..\\x",
        "a\0b",
        "a\u{202E}b",
        "a\u{200B}b",
        ".g\u{200C}it/config",
        "..\u{FF0F}x",
        "\u{FF0E}\u{FF0E}/x",
        "...",
        "a/.../b",
        "http://x.invalid/a",
        "a/$HOME/b",
        "a/${X}",
        "$(id)",
        "`id`",
        "~",
        "a/~root",
        ".",
        "./",
        "/",
        "a/",
        above.as_str(),
        "%2E%2e/x",
        ":!x",
        "-rf",
        "--help",
        "..;/x",
        "/dev/stdin",
        "/dev/null",
    ] {
        let error = root.write(path, b"x", None).unwrap_err().to_string();
        assert!(error.len() > 20, "{error}");
    }
    assert_eq!(fs::read_dir(&place.inside).unwrap().count(), 0);
}

#[test]
fn links_that_stay_inside_work_and_others_do_not() {
    for resolver in RESOLVERS {
        let place = place();
        fs::create_dir_all(place.inside.join("real/deep")).unwrap();
        fs::write(place.inside.join("real/file"), "old").unwrap();
        symlink("real/file", place.inside.join("link")).unwrap();
        symlink("../file", place.inside.join("real/deep/up")).unwrap();
        symlink("nowhere", place.inside.join("dangling")).unwrap();
        symlink("../outside/victim", place.inside.join("out")).unwrap();
        symlink("../outside/new", place.inside.join("out-new")).unwrap();
        symlink(place.inside.join("real/file"), place.inside.join("absolute")).unwrap();
        symlink("/proc/self/root", place.inside.join("magic")).unwrap();
        let root = Root::open_with(&place.inside, resolver).unwrap();
        assert_eq!(root.read("link", 100).unwrap(), b"old");
        assert_eq!(root.read("real/deep/up", 100).unwrap(), b"old");
        assert_eq!(root.write("real/deep/up", b"new", None).unwrap(), Written::Replaced);
        assert_eq!(root.read("link", 100).unwrap(), b"new");
        assert!(fs::symlink_metadata(place.inside.join("real/deep/up")).unwrap().is_symlink());
        assert_eq!(root.write("dangling", b"made", None).unwrap(), Written::Created);
        assert_eq!(fs::read(place.inside.join("nowhere")).unwrap(), b"made");
        for path in ["out", "out-new", "absolute", "magic/etc/passwd"] {
            assert!(root.read(path, 1000).is_err(), "{path}");
            assert!(root.write(path, b"x", None).is_err(), "{path}");
        }
        assert_eq!(fs::read(place.outside.join("victim")).unwrap(), b"secret");
        assert!(!place.outside.join("new").exists());
    }
}

#[test]
fn special_files_neither_block_nor_open() {
    for resolver in RESOLVERS {
        let place = place();
        let made =
            std::process::Command::new("mkfifo").arg(place.inside.join("fifo")).status().unwrap();
        assert!(made.success());
        let _socket = std::os::unix::net::UnixListener::bind(place.inside.join("socket")).unwrap();
        let root = Root::open_with(&place.inside, resolver).unwrap();
        for (path, what) in [("fifo", "a FIFO"), ("socket", "a socket"), (".", "")] {
            assert!(root.read(path, 10).unwrap_err().to_string().contains(what));
            assert!(root.write(path, b"x", None).unwrap_err().to_string().contains(what));
        }
        assert_eq!(root.kind("fifo").unwrap(), Some(Kind::Special));
        assert_eq!(root.kind(".").unwrap(), Some(Kind::Folder));
        assert_eq!(root.kind("none").unwrap(), None);
    }
}

#[test]
fn a_write_is_one_step_and_keeps_the_mode() {
    let place = place();
    let root = Root::open(&place.inside).unwrap();
    let file = place.inside.join("a/b/tool.sh");
    let absolute = file.to_str().unwrap();
    assert_eq!(root.write(absolute, b"one", None).unwrap(), Written::Created);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o750)).unwrap();
    assert_eq!(root.write("a/b/tool.sh", b"one", None).unwrap(), Written::Unchanged);
    let before = fs::metadata(&file).unwrap();
    assert_eq!(root.write("a/b/tool.sh", b"two", None).unwrap(), Written::Replaced);
    let after = fs::metadata(&file).unwrap();
    assert_eq!(after.mode() & 0o777, 0o750);
    assert_ne!(before.ino(), after.ino(), "a reader of the old file keeps the old file");
    assert_eq!(fs::read_dir(place.inside.join("a/b")).unwrap().count(), 1);
}

#[test]
fn a_folder_that_becomes_a_link_meanwhile_never_leads_out() {
    let place = place();
    let root = Root::open(&place.inside).unwrap();
    let (door, away) = (place.inside.join("door"), place.inside.join("away"));
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(std::sync::atomic::Ordering::SeqCst) {
                let _ = fs::create_dir(&door);
                let _ = fs::rename(&door, &away);
                let _ = symlink(&place.outside, &door);
                let _ = fs::remove_file(&door);
                let _ = fs::remove_dir_all(&away);
            }
        });
        for _ in 0..2000 {
            let _ = root.write("door/canary", b"x", None);
            assert!(root.read("door/victim", 100).is_err());
        }
        stop.store(true, std::sync::atomic::Ordering::SeqCst);
    });
    assert_eq!(fs::read_dir(&place.outside).unwrap().count(), 1);
}
