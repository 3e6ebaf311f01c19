//! Rules about the tree itself: which crate may know which, what the pure crates may reach, how files begin,
//! and that documents name only what exists.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What each crate may depend on: dependencies point down only.
const FLOORS: &[(&str, &[&str])] = &[
    ("machine", &[]),
    ("wire", &["machine"]),
    ("view", &["machine"]),
    ("journal", &["machine"]),
    ("runtime", &["machine", "wire", "journal"]),
    ("app", &["machine", "wire", "view", "journal", "runtime"]),
];

const PURE: &[&str] = &["machine", "wire", "view"];

/// Crates that bring waiting, clocks, randomness, files, processes or a network with them.
const IMPURE: &[&str] = &[
    "tokio",
    "async-std",
    "smol",
    "mio",
    "socket2",
    "hyper",
    "reqwest",
    "rustls",
    "rusqlite",
    "libsqlite3-sys",
    "rustix",
    "nix",
    "getrandom",
    "rand",
    "uuid",
    "chrono",
    "time",
    "jiff",
    "tempfile",
    "walkdir",
    "notify",
    "signal-hook",
    "rayon",
    "crossbeam-channel",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn files(extension: &str) -> Vec<(String, String)> {
    let listed = Command::new("git")
        .args(["ls-files", "-co", "--exclude-standard"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(listed.status.success(), "git ls-files failed");
    String::from_utf8(listed.stdout)
        .unwrap()
        .lines()
        .filter(|name| name.ends_with(extension) && root().join(name).exists())
        .map(|name| {
            (name.to_owned(), std::fs::read_to_string(root().join(name)).unwrap_or_default())
        })
        .collect()
}

fn manifest(name: &str) -> toml::Table {
    let path = root().join("crates").join(name).join("Cargo.toml");
    std::fs::read_to_string(path).unwrap().parse().unwrap()
}

#[test]
fn dependencies_point_down_only() {
    let names: Vec<&str> = FLOORS.iter().map(|(name, _)| *name).collect();
    let mut folders: Vec<String> = std::fs::read_dir(root().join("crates"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    folders.sort();
    let mut expected: Vec<&str> = names.clone();
    expected.sort_unstable();
    assert_eq!(folders, expected, "a new crate needs a floor");
    for (name, allowed) in FLOORS {
        for section in ["dependencies", "build-dependencies"] {
            let Some(table) = manifest(name).get(section).and_then(|s| s.as_table().cloned())
            else {
                continue;
            };
            for dependency in table.keys().filter(|key| names.contains(&key.as_str())) {
                assert!(
                    allowed.contains(&dependency.as_str()),
                    "{name} must not depend on {dependency}"
                );
            }
        }
    }
}

#[test]
fn the_pure_crates_reach_nothing_that_waits_or_touches_the_world() {
    for name in PURE {
        let tree = Command::new(env!("CARGO"))
            .args(["tree", "-p", name, "-e", "normal", "--prefix", "none", "--locked", "--offline"])
            .current_dir(root())
            .output()
            .unwrap();
        assert!(tree.status.success(), "{}", String::from_utf8_lossy(&tree.stderr));
        for line in String::from_utf8(tree.stdout).unwrap().lines() {
            let reached = line.split(' ').next().unwrap_or_default();
            assert!(!IMPURE.contains(&reached), "{name} reaches {reached}");
        }
    }
}

/// The fuzz targets are built by themselves, with a lock file of their own that no other build looks at.
#[test]
fn the_lock_file_of_the_fuzz_targets_knows_what_is_fuzzed() {
    let lock = std::fs::read_to_string(root().join("fuzz/Cargo.lock")).unwrap();
    let lock: toml::Table = lock.parse().unwrap();
    for name in ["machine", "wire"] {
        let packages = lock["package"].as_array().unwrap();
        let package = packages.iter().find(|package| package["name"].as_str() == Some(name));
        let locked: Vec<&str> = package.unwrap()["dependencies"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|dependency| dependency.as_str()?.split(' ').next())
            .collect();
        for dependency in manifest(name)["dependencies"].as_table().unwrap().keys() {
            assert!(
                locked.contains(&dependency.as_str()),
                "fuzz/Cargo.lock does not know that {name} needs {dependency}: run cargo metadata in fuzz"
            );
        }
    }
}

#[test]
fn the_pure_crates_ban_clocks_files_and_hash_order() {
    for name in PURE {
        let bans =
            std::fs::read_to_string(root().join("crates").join(name).join("clippy.toml")).unwrap();
        for ban in [
            "std::collections::HashMap",
            "std::time::SystemTime",
            "std::time::Instant",
            "std::fs::File",
            "std::process::Command",
            "std::net::TcpStream",
            "std::env::var",
            "std::thread::spawn",
        ] {
            assert!(bans.contains(ban), "crates/{name}/clippy.toml does not ban {ban}");
        }
    }
}

#[test]
fn one_file_reads_the_clock_and_one_starts_processes() {
    let mut places: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (name, text) in files(".rs") {
        if !name.starts_with("crates/runtime/src/") {
            continue;
        }
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        if code.contains("SystemTime::now") {
            places.entry("clock").or_default().push(name.clone());
        }
        if code.contains("process::Command") || code.contains("Command::new(") {
            places.entry("process").or_default().push(name.clone());
        }
    }
    assert_eq!(places["clock"], ["crates/runtime/src/clock.rs"]);
    // Inside a sandbox this program becomes the command, and leaves the bridge to the network behind. The fake agent is
    // the command: what it starts is what has to be cleared away after it.
    let inner = [
        "crates/runtime/src/fake/agent.rs",
        "crates/runtime/src/sandbox/helper.rs",
        "crates/runtime/src/sandbox/way.rs",
    ];
    assert!(
        places["process"].iter().all(|place| {
            place.starts_with("crates/runtime/src/process") || inner.contains(&place.as_str())
        }),
        "{:?}",
        places["process"]
    );
}

#[test]
fn every_source_file_says_first_what_lives_in_it() {
    for (name, text) in files(".rs") {
        assert!(text.starts_with("//! "), "{name} does not open with a `//!` line");
    }
}

#[test]
fn documents_name_only_paths_that_exist() {
    let roots = ["crates/", "docs/", "examples/", "scripts/", "tests/", ".ci/", ".drivetrain/"];
    for (name, text) in files(".md") {
        for quoted in text.split('`').skip(1).step_by(2) {
            let path = quoted.trim_end_matches('/');
            let plain =
                !path.contains([' ', '*', '<', '{', '\n', ':', '(']) && !path.contains("NAME");
            let named =
                roots.iter().any(|root| path.starts_with(root)) && !path.starts_with(".drivetrain");
            if plain && named {
                assert!(root().join(path).exists(), "{name} names {path}, which does not exist");
            }
        }
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if !link.contains("://") && !link.starts_with('#') {
                let file = link.split('#').next().unwrap_or_default();
                let folder = root().join(&name);
                let target = folder.parent().unwrap().join(file);
                assert!(target.exists(), "{name} links to {link}, which does not exist");
            }
        }
    }
}

#[test]
fn no_file_holds_a_path_of_somebodys_machine() {
    for extension in [".rs", ".md", ".toml", ".py", ".json", ".jsonl", "justfile", "test", "run"] {
        for (name, text) in files(extension) {
            for mark in [concat!("/ro", "ot/"), concat!("/wo", "rk/"), concat!("/ho", "me/")] {
                // A folder of that name further down a path is nobody's home.
                let begins = |line: &str| {
                    line.match_indices(mark).any(|(at, _)| {
                        !line[..at].ends_with(|c: char| c.is_alphanumeric() || c == '~')
                    })
                };
                let found = text.lines().find(|line| begins(line));
                assert!(
                    found.is_none(),
                    "{name} holds a machine's path: {}",
                    found.unwrap_or_default()
                );
            }
        }
    }
}
