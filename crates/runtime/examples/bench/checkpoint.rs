//! What a checkpoint costs: a folder of many files, a few changed each time, beside git itself doing the least that keeps
//! as much (`git add -A && git write-tree`, in a repository of its own) in the same run.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use runtime::checkpoint::Store;
use runtime::process::Cancel;
use serde_json::{Value, json};

/// Files in one folder of the tree.
const IN_ONE: u64 = 100;

/// Makes a folder of so many files and keeps it, `rounds` times with so many changed, in turns with git.
pub(crate) fn keeps(folder: &Path, files: u64, changed: u64, rounds: u64) -> Value {
    let root = folder.join("root");
    for number in 0..files {
        let place = root.join(format!("d{}", number / IN_ONE));
        std::fs::create_dir_all(&place).unwrap();
        let line = format!("line of file {number}\n");
        std::fs::write(place.join(format!("f{number}.txt")), line.repeat(20)).unwrap();
    }
    let (cancel, raw) = (Cancel::new(), folder.join("raw.git"));
    let store = Store::open("bench", &folder.join("state"), &cancel).unwrap();
    let made = Command::new("git").args(["init", "--quiet", "--bare"]).arg(&raw).status().unwrap();
    assert!(made.success());
    let (mut ours, mut theirs, mut looks, mut restores) = (vec![], vec![], vec![], vec![]);
    let timed = |into: &mut Vec<f64>, act: &mut dyn FnMut()| {
        let begun = Instant::now();
        act();
        into.push(begun.elapsed().as_secs_f64() * 1000.0);
    };
    let (mut first, mut first_raw) = (Vec::new(), Vec::new());
    let mut last = String::new();
    timed(&mut first, &mut || last = store.keep(&root, "first").unwrap());
    timed(&mut first_raw, &mut || raw_keep(&raw, &root));
    for round in 0..rounds {
        for number in 0..changed {
            let number = (number * (files / changed.max(1)) + round) % files;
            let path = root.join(format!("d{}/f{number}.txt", number / IN_ONE));
            std::fs::write(path, format!("round {round}\n")).unwrap();
        }
        let before = last.clone();
        timed(&mut looks, &mut || drop(store.look(&root).unwrap()));
        timed(&mut ours, &mut || last = store.keep(&root, "again").unwrap());
        timed(&mut theirs, &mut || raw_keep(&raw, &root));
        timed(&mut restores, &mut || drop(store.restore(&root, &before).unwrap()));
        store.restore(&root, &last).unwrap();
    }
    let copy = folder.join("copy");
    std::fs::create_dir(&copy).unwrap();
    let mut copies = Vec::new();
    timed(&mut copies, &mut || store.copy(&last, &copy).unwrap());
    let (ours, theirs) = (spread(ours), spread(theirs));
    let ratio = ours["p50"].as_f64().unwrap() / theirs["p50"].as_f64().unwrap();
    json!({
        "case": "checkpoint", "files": files, "changed": changed, "rounds": rounds,
        "first_ms": first[0], "first_raw_ms": first_raw[0],
        "keep_ms": ours, "raw_ms": theirs, "ratio": ratio,
        "look_ms": spread(looks), "restore_ms": spread(restores), "copy_ms": copies[0],
    })
}

fn raw_keep(raw: &Path, root: &Path) {
    git(raw, root, &["add", "-A"]);
    git(raw, root, &["write-tree"]);
}

fn git(raw: &Path, root: &Path, arguments: &[&str]) {
    let output = Command::new("git")
        .args(["-c", "core.bare=false", "-c", "gc.auto=0"])
        .args(arguments)
        .current_dir(root)
        .env("GIT_DIR", raw)
        .env("GIT_WORK_TREE", root)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn spread(mut millis: Vec<f64>) -> Value {
    millis.sort_by(f64::total_cmp);
    let at = |share: usize| millis[(millis.len() - 1) * share / 100];
    json!({ "p50": at(50), "p95": at(95) })
}
