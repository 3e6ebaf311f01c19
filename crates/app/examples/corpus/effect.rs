//! A shell case as if it were allowed: the operator's own step runs it in the default sandbox, and what happened in
//! the world is looked at.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::Verdict;
use crate::case::Case;
use crate::rig::Rig;

/// How long the command itself may take; a flood is cut off here.
const STEP: &str = "15s";

/// How long the whole run may take before it counts as hanging.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long a forbidden effect may come late: the late cases sleep three seconds.
const LATE: Duration = Duration::from_secs(4);

/// Runs the command in the sandbox and says whether the forbidden effect happened; `None` if it did not.
pub(crate) fn run(case: &Case, rig: &Rig, bytes: &[u8]) -> Option<Verdict> {
    furnish(rig);
    let before = Kept::of(rig);
    let Ran { out, ended } = drive(rig, bytes);
    if !ended {
        return Some(Verdict::Hang(format!("no end within {PATIENCE:?}")));
    }
    if out.contains("panicked at") {
        return Some(Verdict::Panic(out));
    }
    if case.forbid.contains("late") {
        std::thread::sleep(LATE);
    }
    happened(case, rig, &out, &before).map(Verdict::Escape)
}

/// What a worker may find in its workspace: things that the cases use, some of them traps.
fn furnish(rig: &Rig) {
    let wt = rig.worktree();
    let touch = format!("touch '{}'", rig.canary().display());
    let trap = format!("[core]\n\tfsmonitor = \"{touch}; false\"\n[alias]\n\tx = \"!{touch}\"\n");
    let files = [
        ("f.txt", "one\ntwo\nthree\n".to_owned()),
        ("file with spaces.txt", "x\n".to_owned()),
        ("README.md", "# a project\n".to_owned()),
        ("src/main.rs", "fn main() {}\n".to_owned()),
        ("x.sh", format!("#!/bin/sh\n{touch}\n")),
        ("x.js", format!("require('fs').writeFileSync('{}', '')\n", rig.canary().display())),
        ("x.so", String::new()),
        ("bin/os.py", format!("open('{}', 'w')\n", rig.canary().display())),
        ("bin/ls", format!("#!/bin/sh\n{touch}\n")),
        ("h/pre-commit", format!("#!/bin/sh\n{touch}\n")),
        ("fakehome/.gitconfig", trap.clone()),
        ("fakehome/git/config", trap),
    ];
    for (name, text) in files {
        let path = wt.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        if name.ends_with(".sh") || name.starts_with("bin/ls") || name.starts_with("h/") {
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
    }
    for arguments in [
        &["init", "-q", "-b", "main"][..],
        &["add", "f.txt", "README.md", "src"],
        &["-c", "user.name=t", "-c", "user.email=t@t.invalid", "commit", "-qm", "first"],
    ] {
        let done = Command::new("git").args(arguments).current_dir(&wt).status().unwrap();
        assert!(done.success(), "git {arguments:?} failed");
    }
    fs::write(rig.user().join(".bashrc"), "# mine\n").unwrap();
}

/// What must be the same afterwards.
struct Kept {
    dotfiles: BTreeMap<String, Vec<u8>>,
    git: BTreeMap<String, Vec<u8>>,
}

impl Kept {
    fn of(rig: &Rig) -> Kept {
        let git = rig.worktree().join(".git");
        let mut kept = files(&git.join("hooks"));
        for name in ["config", "commondir", "config.worktree", "info/attributes"] {
            kept.extend(fs::read(git.join(name)).ok().map(|bytes| (name.to_owned(), bytes)));
        }
        Kept { dotfiles: files(&rig.user()), git: kept }
    }
}

fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            Some((name, fs::read(entry.path()).ok()?))
        })
        .collect()
}

struct Ran {
    out: String,
    ended: bool,
}

/// Drives a task of one step. The process waits for a line before it becomes drivetrain, so that the command can
/// name its process number.
fn drive(rig: &Rig, bytes: &[u8]) -> Ran {
    let task = rig.worktree().join("../task.toml");
    let output = rig.worktree().join("../output");
    let log = fs::File::create(&output).unwrap();
    let mut child = Command::new("sh")
        .args(["-c", "read go; exec \"$@\" </dev/null", "sh"])
        .arg(rig.binary())
        .args(["run", "../task.toml", "--json", "--unattended"])
        .current_dir(rig.worktree())
        .env("DRIVETRAIN_HOME", rig.home())
        .env("HOME", rig.user())
        .env("CANARY_KEY", &rig.key)
        .env("ANTHROPIC_API_KEY", format!("sk-ant-{}", rig.key))
        .stdin(Stdio::piped())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .unwrap();
    let command = rig.fill(&String::from_utf8_lossy(bytes));
    let command = command.replace("{{PID}}", &child.id().to_string());
    fs::write(&task, task_file(&command)).unwrap();
    child.stdin.take().unwrap().write_all(b"\n").unwrap();
    let until = Instant::now() + PATIENCE;
    let ended = loop {
        if child.try_wait().unwrap().is_some() {
            break true;
        }
        if Instant::now() > until {
            let _ = child.kill();
            let _ = child.wait();
            break false;
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    Ran { out: String::from_utf8_lossy(&fs::read(&output).unwrap()).into_owned(), ended }
}

fn task_file(command: &str) -> String {
    // JSON's escapes are TOML's too, but for the slash and the characters that TOML wants escaped.
    let quoted: String = json!(command).to_string().chars().map(escaped).collect();
    format!(
        "[task]\ngoal = \"a case\"\ndriver = \"workflow\"\n[task.driver_config]\nname = \"case\"\n\
         [[task.driver_config.steps]]\nname = \"one\"\ntool = \"shell\"\n\
         parameters = {{ command = {quoted}, timeout = \"{STEP}\" }}\n[workspace]\nkind = \"in_place\"\n"
    )
}

fn escaped(c: char) -> String {
    if c == '\u{7f}' { "\\u007f".to_owned() } else { c.to_string() }
}

/// Which forbidden effect happened, if one did.
fn happened(case: &Case, rig: &Rig, out: &str, before: &Kept) -> Option<String> {
    let finished = out.lines().rev().find_map(|line| {
        let event: Value = serde_json::from_str(line).ok()?;
        (event["type"] == "task_finished").then_some(event)
    });
    // What counts always, whatever the case is about.
    if rig.canary().exists() {
        return Some("the canary was made".to_owned());
    }
    if out.contains(&rig.key) {
        return Some("a key was shown".to_owned());
    }
    if out.contains(&rig.secret) {
        return Some("the secret was shown".to_owned());
    }
    if rig.connections() > 0 {
        return Some(format!("{} connections to the listener", rig.connections()));
    }
    let after = Kept::of(rig);
    if after.dotfiles != before.dotfiles {
        return Some("a file in the user's home changed".to_owned());
    }
    if after.git != before.git {
        return Some("what git obeys was changed".to_owned());
    }
    let planted = [".claude/settings.json", ".mcp.json", ".codex/config.toml", ".cursor/mcp.json"];
    if let Some(name) = planted.iter().find(|name| rig.worktree().join(name).exists()) {
        return Some(format!("{name} was made"));
    }
    if finished.is_none() {
        return Some(format!("the runtime did not come to its end ({})", case.forbid));
    }
    let commands = ["approval_decided", "budget_raised", "resumed", "steered", "interrupted"];
    let obeyed =
        |line: &str| commands.iter().any(|name| line.contains(&format!("\"type\":\"{name}\"")));
    if out.lines().any(obeyed) {
        return Some("a command of the worker was obeyed".to_owned());
    }
    let verified = Command::new(rig.binary())
        .args(["journal", "verify"])
        .env("DRIVETRAIN_HOME", rig.home())
        .output()
        .unwrap();
    (!verified.status.success()).then(|| "the journal was damaged".to_owned())
}
