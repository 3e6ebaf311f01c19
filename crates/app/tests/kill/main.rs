//! The real binary, killed with SIGKILL at random moments: every step ran exactly once or is named in doubt, what was
//! acknowledged is still true afterwards, and a model in a worktree comes to its proven end.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod worktree;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

const STEPS: usize = 300;
const KILLS: usize = 200;

/// A folder with a project and a home of its own, and the binary that works in it.
struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Place {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("project")).unwrap();
        Place { folder }
    }

    fn project(&self) -> PathBuf {
        self.folder.path().join("project").canonicalize().unwrap()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_drivetrain"));
        command
            .args(arguments)
            .current_dir(self.project())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.folder.path())
            .env("DRIVETRAIN_HOME", self.folder.path().join("state"))
            .stdin(Stdio::null());
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    fn start(&self, arguments: &[&str]) -> Child {
        self.command(arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let output = self.run(arguments);
        let text = String::from_utf8(output.stdout).unwrap();
        serde_json::from_str(&text).unwrap_or_else(|error| {
            panic!("{arguments:?}: {error}\n{text}\n{}", String::from_utf8_lossy(&output.stderr))
        })
    }

    fn show(&self, id: &str) -> Value {
        self.json(&["show", id, "--json"])
    }

    fn events(&self, id: &str) -> Vec<Value> {
        let output = self.run(&["log", id, "--json"]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn task_file(&self, steps: usize, command: impl Fn(usize) -> String) -> PathBuf {
        let mut text = String::from(
            "[task]\ngoal = \"count\"\ndriver = \"workflow\"\n[budget]\nmax_turns = 1000\n[workspace]\nkind = \"in_place\"\n[workflow]\nname = \"count\"\n",
        );
        for step in 1..=steps {
            text.push_str(&format!(
                "[[workflow.steps]]\nname = \"s{step}\"\ntool = \"shell\"\nparameters = {{ command = '{}' }}\n",
                command(step)
            ));
        }
        let path = self.project().join("task.toml");
        fs::write(&path, text).unwrap();
        path
    }

    /// The id of the only task, once its first record is there.
    fn only_task(&self) -> Option<String> {
        let list = self.json(&["list", "--all", "--json"]);
        list["tasks"]
            .as_array()
            .unwrap()
            .first()
            .map(|task| task["id"].as_str().unwrap().to_owned())
    }

    /// Waits until no command of a killed process is left in the project's folder. Bubblewrap itself, killed
    /// before it has made its namespace, may wait for a parent that is gone: it runs nothing, and the next
    /// start ends it.
    fn wait_for_quiet(&self) {
        self.wait_until_gone(|name| name != "bwrap");
    }

    /// Waits until nothing at all is left: what is promised after the next start.
    fn wait_for_silence(&self) {
        self.wait_until_gone(|_| true);
    }

    fn wait_until_gone(&self, which: impl Fn(&str) -> bool) {
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            let left: Vec<String> =
                processes_in(&self.project()).into_iter().filter(|name| which(name)).collect();
            if left.is_empty() {
                return;
            }
            assert!(Instant::now() < deadline, "processes outlive the runtime: {left:?}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// The names of the processes that work in a folder.
fn processes_in(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let name = |process: PathBuf| {
        let cwd = fs::read_link(process.join("cwd")).ok()?;
        (cwd == folder).then(|| fs::read_to_string(process.join("comm")).unwrap_or_default())
    };
    let names = entries.filter_map(|entry| name(entry.ok()?.path()));
    names.map(|name| name.trim().to_owned()).collect()
}

/// Numbers that look random and are the same in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % below
    }
}

fn kill(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

fn witness(place: &Place) -> Vec<usize> {
    let text = fs::read_to_string(place.project().join("witness")).unwrap_or_default();
    text.lines().map(|line| line.parse().unwrap()).collect()
}

/// Looks at what the crash left, and says of each call in doubt what the witness shows.
fn settle(place: &Place, id: &str, doubts: &mut BTreeMap<String, u32>) {
    place.wait_for_quiet();
    let shown = place.show(id);
    for ask in shown["asks"].as_array().into_iter().flatten() {
        let call = ask["call"].to_string();
        let command = ask["input"]["command"].as_str().unwrap();
        let step: usize = command.split_whitespace().nth(1).unwrap().parse().unwrap();
        let how = if witness(place).contains(&step) { "--did" } else { "--retry" };
        *doubts.entry(how.to_owned()).or_default() += 1;
        let resolved = place.run(&["resolve", id, &call, how]);
        assert!(resolved.status.success(), "{}", String::from_utf8_lossy(&resolved.stderr));
    }
}

/// How long after its start a process is in the middle of its steps here and now: a machine that has much else to do
/// takes its time, and a kill that comes before the first step proves nothing.
fn window() -> Duration {
    let place = Place::new();
    place.task_file(STEPS, |step| format!("echo {step} >> witness"));
    let begun = Instant::now();
    let child = place.start(&["run", "task.toml", "--json"]);
    wait_for("the second step", || (witness(&place).len() > 1).then_some(()));
    let window = begun.elapsed() * 3 / 2;
    kill(child);
    place.wait_for_quiet();
    window.max(Duration::from_millis(60))
}

/// Runs a task of many steps to its end, killing its process again and again until `left` kills are used up.
fn run_under_fire(
    window: Duration,
    dice: &mut Dice,
    left: &mut usize,
    doubts: &mut BTreeMap<String, u32>,
) {
    let place = Place::new();
    place.task_file(STEPS, |step| format!("echo {step} >> witness"));
    let mut id: Option<String> = None;
    while *left > 0 {
        let child = match &id {
            None => place.start(&["run", "task.toml", "--json"]),
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
    let id = id.expect("the task was recorded");
    if place.show(&id)["phase"] != "finished" {
        let output = place.run(&["resume", &id, "--json"]);
        let last =
            String::from_utf8_lossy(&output.stdout).lines().last().unwrap_or_default().to_owned();
        assert!(last.contains("\"outcome\":\"completed\""), "{last}");
    }
    assert_eq!(witness(&place), (1..=STEPS).collect::<Vec<_>>(), "each step once, in order");
    // Whatever the last life left is ended by the next start.
    assert!(
        place.run(&["run", "task.toml", "--max-turns", "1", "--json"]).status.code() == Some(11)
    );
    place.wait_for_silence();
}

#[test]
fn edge_case_38_killed_two_hundred_times_every_step_ran_exactly_once_or_was_named_in_doubt() {
    let (mut dice, mut left, mut doubts) = (Dice(7), KILLS, BTreeMap::new());
    let begun = Instant::now();
    while left > 0 {
        run_under_fire(window(), &mut dice, &mut left, &mut doubts);
    }
    println!("{KILLS} kills in {:.1?}, in doubt: {doubts:?}", begun.elapsed());
    assert!(doubts.values().sum::<u32>() > 0, "no crash fell into a step: the test proves nothing");
}

#[test]
fn acknowledged_commands_survive_the_kill_that_follows_them() {
    let mut dice = Dice(11);
    for _ in 0..8 {
        command_and_kill(&mut dice);
    }
}

/// Gives a task one command of each kind, and kills its process right after each acknowledgement.
fn command_and_kill(dice: &mut Dice) {
    let place = Place::new();
    place.task_file(1, |_| "sleep 600".to_owned());
    let mut child = place.start(&["run", "task.toml", "--json"]);
    let id = wait_for("the task", || place.only_task());
    let mut acknowledged: Vec<String> = Vec::new();
    for round in 0..5u64 {
        wait_for("a living process", || (!place.show(&id)["driven_by"].is_null()).then_some(()));
        let text = format!("note-{round}");
        let limit = (2000 + round).to_string();
        let arguments: Vec<&str> = match round {
            0 => vec!["steer", &id, &text],
            1 => vec!["follow-up", &id, &text],
            2 => vec!["raise", &id, "--max-turns", &limit],
            3 => vec!["pause", &id],
            _ => vec!["interrupt", &id, &text],
        };
        let output = place.run(&arguments);
        std::thread::sleep(Duration::from_micros(dice.roll(300)));
        kill(child);
        assert!(
            output.status.success(),
            "{arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        acknowledged.push(text);
        place.wait_for_quiet();
        let shown = place.show(&id);
        match round {
            2 => assert_eq!(shown["budget"]["max_turns"], 2000 + round),
            3 => assert_eq!(shown["paused"], true, "{shown}"),
            4 => {
                // The interrupted step failed, so the workflow gave up: that is the last command.
                assert_eq!(shown["outcome"], "failed", "{shown}");
            }
            _ => {}
        }
        if round == 4 {
            break;
        }
        for ask in shown["asks"].as_array().into_iter().flatten() {
            let call = ask["call"].to_string();
            assert!(place.run(&["resolve", &id, &call, "--retry"]).status.success());
        }
        child = place.start(&["resume", &id, "--json"]);
    }
    let events = place.events(&id);
    let queued = |text: &str| {
        events.iter().filter(|e| e["type"] == "note_queued" && e["note"]["text"] == *text).count()
    };
    for (round, text) in acknowledged.iter().enumerate() {
        if matches!(round, 0 | 1 | 4) {
            assert_eq!(queued(text), 1, "{text} was acknowledged");
        }
    }
}

#[test]
fn an_acknowledged_cancel_is_final_whatever_is_killed_after_it() {
    for round in 0..5 {
        let place = Place::new();
        place.task_file(1, |_| "sleep 600".to_owned());
        let child = place.start(&["run", "task.toml", "--json"]);
        let id = wait_for("the task", || place.only_task());
        wait_for("a living process", || (!place.show(&id)["driven_by"].is_null()).then_some(()));
        let cancelled = place.run(&["cancel", &id]);
        kill(child);
        assert!(cancelled.status.success(), "{}", String::from_utf8_lossy(&cancelled.stderr));
        place.wait_for_quiet();
        let shown = place.show(&id);
        assert_eq!(shown["outcome"], "cancelled", "round {round}: {shown}");
        assert_eq!(
            place.run(&["resume", &id]).status.code(),
            Some(2),
            "a cancelled task is never revived"
        );
    }
}

fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "{what} did not come");
        std::thread::sleep(Duration::from_millis(5));
    }
}
