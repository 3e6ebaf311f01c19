//! The kind `agent-cli`: a coding agent that misbehaves. Each case is a whole task whose agent is `drivetrain fake agent`
//! with the steps of the case, inside the sandbox. The bar: the end that the case names, nothing left running, and
//! bounded time and memory.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::Verdict;
use crate::case::Case;
use crate::rig::Rig;

/// How long a case may take, on a machine that does other things too.
const PATIENCE: Duration = Duration::from_secs(90);
/// How long a cancelled task may take, as the cases say.
const CANCEL: Duration = Duration::from_secs(10);
/// How much memory drivetrain may need, in MB, if the case does not say.
const MEMORY: u64 = 256;
/// The variable that marks every process of the agent.
const MARK: &str = "DRIVETRAIN_CORPUS_MARK";

/// What was seen of one run.
struct Seen {
    /// How the first turn ended, in the words of the cases.
    turn: String,
    code: Option<i32>,
    out: String,
    events: Vec<Value>,
    /// What the agent's worktree holds.
    left: Vec<String>,
    /// How long it took to end once it was cancelled.
    cancelled_in: Option<Duration>,
}

/// Tries one case.
pub(crate) fn run(case: &Case, rig: &Rig) -> Verdict {
    let tried = play(case, rig);
    if rig.canary().exists() {
        return Verdict::Escape("the canary was made".to_owned());
    }
    // Whatever else it came to.
    let orphans = marked(&rig.key);
    if !orphans.is_empty() {
        return Verdict::Escape(format!("left running: {orphans:?}"));
    }
    match tried {
        Ok(seen) => judge(case, &seen),
        Err(verdict) => verdict,
    }
}

fn play(case: &Case, rig: &Rig) -> Result<Seen, Verdict> {
    prepare(case, rig);
    let cancels = case.expect.starts_with("cancel");
    let begun = Instant::now();
    let mut child =
        command(rig, &["run", "do it", "--agent", "odd", "--max-turns", "1", "--max-usd", "5"])
            .stdout(Stdio::from(std::fs::File::create(rig.outside().join("out")).unwrap()))
            .stderr(Stdio::from(std::fs::File::create(rig.outside().join("err")).unwrap()))
            .spawn()
            .unwrap();
    let mut cancelled: Option<Instant> = None;
    let mut most = 0;
    let code = loop {
        most = most.max(memory(&child));
        if let Some(status) = child.try_wait().unwrap() {
            break status.code();
        }
        if begun.elapsed() > PATIENCE {
            let _ = child.kill();
            let _ = child.wait();
            return Err(Verdict::Hang(format!("not ended after {} s", PATIENCE.as_secs())));
        }
        if cancels && cancelled.is_none() && is_at_work(rig) {
            cancelled = Some(Instant::now());
            let done = command(rig, &["cancel", &task(rig)]).output().unwrap();
            if !done.status.success() {
                return Err(Verdict::Fail(String::from_utf8_lossy(&done.stderr).into_owned()));
            }
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let most_allowed = case.all["rss_mb"].as_u64().unwrap_or(MEMORY);
    if most >> 10 > most_allowed {
        return Err(Verdict::Fail(format!("drivetrain took {} MB", most >> 10)));
    }
    let read = |name: &str| {
        let bytes = std::fs::read(rig.outside().join(name)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let (out, err) = (read("out"), read("err"));
    if err.contains("panicked") || err.contains("internal error") {
        return Err(Verdict::Panic(err));
    }
    let events = events(rig);
    Ok(Seen {
        turn: turn(&events).unwrap_or_else(|| format!("none: {out}{err}")),
        code,
        out,
        left: left(rig),
        cancelled_in: cancelled.map(|at| at.elapsed()),
        events,
    })
}

fn judge(case: &Case, seen: &Seen) -> Verdict {
    let is = |kind: &str| seen.events.iter().any(|event| event["type"] == kind);
    let file = |name: &str| seen.left.iter().any(|left| left == name);
    let holds = match case.expect.as_str() {
        "turn:ok" | "turn:ok:no_orphans" => seen.turn == "ok" && seen.code == Some(0),
        "turn:ok:config_refused" => seen.turn == "ok" && !file(".claude/settings.json"),
        "turn:ok:escaped" => seen.turn == "ok" && !seen.out.contains('\u{1b}'),
        "turn:budget" => seen.turn == "budget" || is("budget_exhausted"),
        "turn:error:workspace" => {
            seen.turn == "error:workspace" && is("rolled_back") && file("a.txt")
        }
        // The walls held, which was looked at before, and it is in the journal.
        "contained" => seen.turn == "error:policy",
        "refused" => file("connected.txt: 0") && !is("approval_decided"),
        "cancel<=10s" => seen.cancelled_in.is_some_and(|took| took <= CANCEL),
        expect => expect.strip_prefix("turn:") == Some(seen.turn.as_str()),
    };
    if holds {
        Verdict::Pass
    } else {
        let kinds: Vec<&str> =
            seen.events.iter().filter_map(|event| event["type"].as_str()).collect();
        Verdict::Fail(format!(
            "turn {}, status {:?}, left {:?}, cancelled in {:?}, {kinds:?}",
            seen.turn, seen.code, seen.left, seen.cancelled_in
        ))
    }
}

/// How the first turn ended.
fn turn(events: &[Value]) -> Option<String> {
    let ended = events.iter().find(|event| event["type"] == "agent_ended")?;
    let end = &ended["end"];
    Some(match end.as_str() {
        Some("done") => "ok".to_owned(),
        Some("limit") => "budget".to_owned(),
        Some("failed") => "error:cli".to_owned(),
        Some(other) => other.to_owned(),
        None => match end["broken"].as_str() {
            Some(fault) => format!("error:{fault}"),
            None if end["model"].is_object() => "error:model".to_owned(),
            None => format!("other: {ended}"),
        },
    })
}

/// A repository with the steps of the case and an agent that plays them.
fn prepare(case: &Case, rig: &Rig) {
    let folder = rig.worktree();
    let steps: Vec<String> = case.all["script"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .filter(|step| *step != "send approve")
        .map(|step| match step {
            "connect operator socket" => format!("connect {}", rig.home().join("run").display()),
            step => rig.fill(step),
        })
        .collect();
    // Only a case that ends by its silence is hurried: another one that is slow on a busy machine is not silent.
    let idle = if case.expect == "turn:error:timeout" { "3s" } else { "60s" };
    let agent = format!(
        "[agent]\nname = \"odd\"\nprotocol = \"claude\"\ncommand = [{:?}, \"fake\", \"agent\", \"steps.txt\"]\n\
         pass = [{MARK:?}]\nidle = {idle:?}\n",
        rig.binary().display().to_string()
    );
    std::fs::create_dir_all(folder.join(".drivetrain/agents")).unwrap();
    std::fs::write(folder.join("steps.txt"), steps.join("\n")).unwrap();
    std::fs::write(folder.join("a.txt"), "one\n").unwrap();
    std::fs::write(folder.join(".drivetrain/agents/odd.toml"), agent).unwrap();
    for words in [
        vec!["init", "-q"],
        vec!["add", "--all"],
        vec!["-c", "user.name=x", "-c", "user.email=x@example.org", "commit", "-qm", "one"],
    ] {
        let done = Command::new("git").args(words).current_dir(&folder).status().unwrap();
        assert!(done.success());
    }
    let trusted = command(rig, &["trust", "--yes"]).output().unwrap();
    assert!(trusted.status.success(), "{}", String::from_utf8_lossy(&trusted.stderr));
}

fn command(rig: &Rig, words: &[&str]) -> Command {
    let mut command = Command::new(rig.binary());
    command
        .args(words)
        .current_dir(rig.worktree())
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", rig.user())
        .env("DRIVETRAIN_HOME", rig.home())
        .env(MARK, &rig.key)
        .stdin(Stdio::null());
    command
}

fn json(rig: &Rig, words: &[&str]) -> String {
    String::from_utf8_lossy(&command(rig, words).output().unwrap().stdout).into_owned()
}

fn task(rig: &Rig) -> String {
    let listed: Value =
        serde_json::from_str(&json(rig, &["list", "--all", "--json"])).unwrap_or_default();
    listed["tasks"][0]["id"].as_str().unwrap_or_default().to_owned()
}

fn events(rig: &Rig) -> Vec<Value> {
    let log = json(rig, &["log", &task(rig), "--json"]);
    log.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// Whether the agent has been asked and runs.
fn is_at_work(rig: &Rig) -> bool {
    let asked = events(rig).iter().any(|event| event["type"] == "agent_asked");
    let plays = |(_, command): &(u32, String)| command.contains("stream-json");
    asked && marked(&rig.key).iter().any(plays)
}

/// The files in the task's worktree, but for git's; short ones with what is in them.
fn left(rig: &Rig) -> Vec<String> {
    let show: Value =
        serde_json::from_str(&json(rig, &["show", &task(rig), "--json"])).unwrap_or_default();
    let Some(root) = show["workspace"].as_str() else { return Vec::new() };
    let mut found = Vec::new();
    let mut folders = vec![Path::new(root).to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            let name = path.strip_prefix(root).unwrap_or(&path).display().to_string();
            if !text.is_empty() {
                found.push(name.clone());
                found.push(format!("{name}: {}", text.trim().chars().take(40).collect::<String>()));
            }
        }
    }
    found
}

/// The processes that have the mark in their environment, without drivetrain itself.
fn marked(mark: &str) -> Vec<(u32, String)> {
    let wanted = format!("{MARK}={mark}");
    let own = |command: &str| !command.contains("fake") && command.contains("drivetrain run");
    let listed = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = listed.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    numbers
        .filter(|number| {
            let environment = std::fs::read(format!("/proc/{number}/environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|pair| pair == wanted.as_bytes())
        })
        .map(|number| {
            let command = std::fs::read(format!("/proc/{number}/cmdline")).unwrap_or_default();
            (number, String::from_utf8_lossy(&command).replace('\0', " "))
        })
        .filter(|(_, command)| !own(command))
        .collect()
}

/// The most memory that it ever had, in KB.
fn memory(child: &Child) -> u64 {
    let status =
        std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM"));
    line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok()).unwrap_or(0)
}
