//! A scripted model at work in a worktree, killed at random moments: while git makes the worktree, between turns, while
//! checkpoints are made, while the criteria are checked. Nothing that is left behind stops the next life.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use super::{Dice, Place, kill, processes_in, wait_for};

const TURNS: usize = 6;
const KILLS: usize = 100;
const RUN: [&str; 8] = [
    "run",
    "write, step by step",
    "--model",
    "script/script.toml",
    "--no-sandbox",
    "--check",
    "test $(wc -l < log.txt) = 6",
    "--json",
];

fn repository() -> Place {
    let place = Place::new();
    let mut script = String::new();
    for turn in 1..=TURNS {
        script.push_str(&format!(
            "[[reply]]\ntext = \"Step {turn}.\"\n\
             tool_calls = [{{ tool = \"shell\", input = {{ command = \"echo {turn} >> log.txt\" }} }}]\n"
        ));
    }
    script.push_str("[[reply]]\ntext = \"All is written.\"\n");
    fs::write(place.project().join("script.toml"), script).unwrap();
    fs::create_dir(place.project().join(".drivetrain")).unwrap();
    let policy = "[[rule]]\ntool = \"*\"\ndecide = \"allow\"\n";
    fs::write(place.project().join(".drivetrain/policy.toml"), policy).unwrap();
    let author = ["-c", "user.name=nobody", "-c", "user.email=nobody@example.org"];
    for words in [&["init", "-q"][..], &["add", "-A"], &["commit", "-qm", "begin"]] {
        let mut git = Command::new("git");
        git.args(author).args(words).current_dir(place.project());
        assert!(git.status().unwrap().success());
    }
    assert!(place.run(&["trust", "--yes"]).status.success());
    place
}

fn worktree(place: &Place, id: &str) -> PathBuf {
    place.folder.path().join("state/worktrees").join(id)
}

fn written(place: &Place, id: &str) -> Vec<usize> {
    let text = fs::read_to_string(worktree(place, id).join("log.txt")).unwrap_or_default();
    text.lines().map(|line| line.parse().unwrap()).collect()
}

/// Says of each call in doubt what the worktree shows.
fn settle(place: &Place, id: &str, doubts: &mut BTreeMap<&str, u32>) {
    let folder = worktree(place, id);
    wait_for("silence", || processes_in(&folder).iter().all(|name| name == "bwrap").then_some(()));
    for ask in place.show(id)["asks"].as_array().into_iter().flatten() {
        let call = ask["call"].to_string();
        let command = ask["input"]["command"].as_str().unwrap();
        let turn: usize = command.split_whitespace().nth(1).unwrap().parse().unwrap();
        let how = if written(place, id).contains(&turn) { "--did" } else { "--retry" };
        *doubts.entry(how).or_default() += 1;
        let resolved = place.run(&["resolve", id, &call, how]);
        assert!(resolved.status.success(), "{}", String::from_utf8_lossy(&resolved.stderr));
    }
}

/// Runs one task to its end, in as many lives as it takes.
fn live_and_die(
    window: Duration,
    dice: &mut Dice,
    left: &mut usize,
    doubts: &mut BTreeMap<&str, u32>,
) {
    let place = repository();
    let mut id: Option<String> = None;
    while *left > 0 {
        let child = match &id {
            None => place.start(&RUN),
            Some(id) => place.start(&["resume", id, "--json"]),
        };
        let micros = u64::try_from(window.as_micros()).unwrap();
        std::thread::sleep(Duration::from_micros(dice.roll(micros)));
        kill(child);
        *left -= 1;
        id = id.or_else(|| place.only_task());
        let Some(id) = &id else { continue };
        settle(&place, id, doubts);
        if place.show(id)["phase"] == "finished" {
            break;
        }
    }
    let Some(id) = id else { return };
    if place.show(&id)["phase"] != "finished" {
        let ended = place.run(&["resume", &id]);
        let said = String::from_utf8_lossy(&ended.stdout);
        assert_eq!(
            ended.status.code(),
            Some(0),
            "{said}{}",
            String::from_utf8_lossy(&ended.stderr)
        );
    }
    let shown = place.show(&id);
    assert_eq!(shown["outcome"], "verified", "{shown}");
    assert_eq!(written(&place, &id), (1..=TURNS).collect::<Vec<_>>(), "each turn once, in order");
}

#[test]
fn a_model_in_a_worktree_that_is_killed_again_and_again_ends_verified() {
    let (mut dice, mut left, mut doubts) = (Dice(23), KILLS, BTreeMap::new());
    let begun = Instant::now();
    let ran = repository().run(&RUN);
    assert_eq!(ran.status.code(), Some(0), "{}", String::from_utf8_lossy(&ran.stdout));
    let window = begun.elapsed();
    while left > 0 {
        live_and_die(window, &mut dice, &mut left, &mut doubts);
    }
    println!("{KILLS} kills in {:.1?}, in doubt: {doubts:?}", begun.elapsed());
}
