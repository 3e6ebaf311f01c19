//! The kind `paths`: a file tool of the real binary is given a path, in a workspace that was prepared against it.
//!
//! A case is judged by what is different afterwards: nothing beside the workspace, nothing in it if the path was to be
//! refused, and no text of a file outside in what is printed.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::Verdict;
use crate::case::Case;
use crate::paths::setup::Prepared;
use crate::rig::Rig;

mod setup;

/// What is written, if anything is.
const CONTENT: &str = "written by the tool\n";
/// How long the binary may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// How often a race is run through one process; each try is one step of its workflow.
const MOST_TRIES: u64 = 400;

/// Tries one case.
pub(crate) fn run(case: &Case, rig: &Rig) -> Verdict {
    let prepared = match setup::prepare(&case.all["setup"], rig) {
        Ok(prepared) => prepared,
        Err(reason) => return Verdict::Skip(reason),
    };
    let Some(bytes) = case.bytes() else {
        return Verdict::Skip("this generator is not known".to_owned());
    };
    let path = match String::from_utf8(bytes) {
        Ok(text) => rig.fill(&text).into_bytes(),
        Err(raw) => raw.into_bytes(),
    };
    if contains(&path.to_ascii_lowercase(), b".git") && !prepared.made(".git") {
        let git = Command::new("git").args(["init", "-q"]).current_dir(rig.worktree()).status();
        assert!(git.unwrap().success(), "git init");
    }
    let Some(step) = step(case.text("op"), &path) else {
        return Verdict::Skip(format!("there is no tool for {:?}", case.text("op")));
    };
    let tries = if prepared.races() {
        case.all["tries"].as_u64().unwrap_or(200).clamp(1, MOST_TRIES)
    } else {
        1
    };
    let task = rig.user().join("task.toml");
    std::fs::write(&task, task_file(&step, tries)).unwrap();
    let before = Seen::now(rig, &path);
    let ran = {
        let _race = prepared.start();
        drive(rig, &task)
    };
    judge(case, rig, &path, &prepared, &before, ran)
}

/// The parameters of the tool that the operation stands for.
fn step(op: &str, path: &[u8]) -> Option<Vec<u8>> {
    let path = quoted(path);
    let content = quoted(CONTENT.as_bytes());
    let (tool, parameters) = match op {
        "write" | "create" | "save" => ("write", vec![("path", path), ("content", content)]),
        "read" | "open" | "cat" => ("read", vec![("path", path)]),
        "edit" | "append" => {
            ("edit", vec![("path", path), ("old", quoted(b"victim")), ("new", quoted(b"changed"))])
        }
        "grep" | "search" => ("grep", vec![("pattern", quoted(b".")), ("path", path)]),
        "glob" | "list" => ("glob", vec![("pattern", path)]),
        _ => return None,
    };
    let mut line = format!("tool = \"{tool}\"\nparameters = {{ ").into_bytes();
    for (index, (name, value)) in parameters.iter().enumerate() {
        line.extend_from_slice(if index > 0 { b", " } else { b"" });
        line.extend_from_slice(format!("{name} = ").as_bytes());
        line.extend_from_slice(value);
    }
    line.extend_from_slice(b" }\n");
    Some(line)
}

/// A TOML string. Bytes that are no text stay as they are: the reader of the file has to refuse them.
fn quoted(bytes: &[u8]) -> Vec<u8> {
    let mut text = vec![b'"'];
    for byte in bytes {
        match byte {
            b'"' | b'\\' => text.extend_from_slice(&[b'\\', *byte]),
            0..=0x1f | 0x7f => text.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
            _ => text.push(*byte),
        }
    }
    text.push(b'"');
    text
}

fn task_file(step: &[u8], tries: u64) -> Vec<u8> {
    let mut text =
        b"[task]\ngoal = \"use a path\"\ndriver = \"workflow\"\n[workspace]\nkind = \"in_place\"\n"
            .to_vec();
    for n in 1..=tries {
        text.extend_from_slice(
            format!("[[workflow.steps]]\nname = \"s{n}\"\non_error = \"skip\"\n").as_bytes(),
        );
        text.extend_from_slice(step);
    }
    text
}

/// How the binary ended.
struct Ran {
    /// `None` if it had to be ended.
    code: Option<i32>,
    out: String,
    err: String,
}

fn drive(rig: &Rig, task: &Path) -> Ran {
    let file = |name: &str| rig.user().join(name);
    let create = |name: &str| std::fs::File::create(file(name)).unwrap();
    let mut child = Command::new(rig.binary())
        .args(["run", "--json", "--unattended"])
        .arg(task)
        .current_dir(rig.worktree())
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", rig.user())
        .env("DRIVETRAIN_HOME", rig.home())
        .env("CANARY_KEY", &rig.key)
        .stdin(Stdio::null())
        .stdout(create("out"))
        .stderr(create("err"))
        .spawn()
        .unwrap();
    let began = Instant::now();
    let code = loop {
        if let Some(status) = child.try_wait().unwrap() {
            // A signal has no code; it counts as a crash.
            break Some(status.code().unwrap_or(-1));
        }
        if began.elapsed() > PATIENCE {
            child.kill().unwrap();
            child.wait().unwrap();
            break None;
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let read = |name: &str| {
        let bytes = std::fs::read(file(name)).unwrap();
        std::fs::remove_file(file(name)).unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    Ran { code, out: read("out"), err: read("err") }
}

/// What there is: every file beside the workspace and in it, by what it holds.
struct Seen {
    beside: BTreeMap<PathBuf, String>,
    within: BTreeMap<PathBuf, String>,
    /// The very place that the path names, if it is somewhere else altogether.
    named: Option<String>,
}

impl Seen {
    fn now(rig: &Rig, path: &[u8]) -> Seen {
        let root = rig.worktree().parent().unwrap().to_owned();
        let mut seen = Seen { beside: BTreeMap::new(), within: BTreeMap::new(), named: None };
        look(&root, &|path| path == rig.home() || path == rig.worktree(), &mut seen.beside);
        look(&rig.worktree(), &|_| false, &mut seen.within);
        let text = String::from_utf8_lossy(path);
        let named = Path::new(text.strip_prefix("file://").unwrap_or(&text));
        if named.is_absolute() && !named.starts_with(&root) && !text.contains('\0') {
            seen.named = Some(describe(named));
        }
        seen
    }
}

fn look(folder: &Path, leave_out: &dyn Fn(&Path) -> bool, found: &mut BTreeMap<PathBuf, String>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for path in entries.map(|entry| entry.unwrap().path()) {
        if leave_out(&path) {
            continue;
        }
        let is_folder = path.symlink_metadata().is_ok_and(|meta| meta.is_dir());
        found.insert(path.clone(), describe(&path));
        if is_folder {
            look(&path, leave_out, found);
        }
    }
}

/// Kind and content of what has this name, links not followed.
fn describe(path: &Path) -> String {
    let Ok(meta) = path.symlink_metadata() else { return "nothing".to_owned() };
    let kind = meta.file_type();
    if kind.is_symlink() {
        format!("link to {:?}", std::fs::read_link(path).unwrap_or_default())
    } else if kind.is_file() {
        let text = std::fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        format!("file {:o} {:?}", meta.mode(), text.unwrap_or_default())
    } else if kind.is_dir() {
        "folder".to_owned()
    } else {
        format!("special {:o}", meta.mode())
    }
}

/// The first name that is not as it was.
fn difference(
    before: &BTreeMap<PathBuf, String>,
    after: &BTreeMap<PathBuf, String>,
) -> Option<String> {
    let names = before.keys().chain(after.keys());
    let changed = |name: &&PathBuf| before.get(*name) != after.get(*name);
    names.into_iter().find(changed).map(|name| {
        let as_it_is = after.get(name).map_or("nothing", String::as_str);
        format!("{} is now: {as_it_is}", name.display())
    })
}

fn judge(
    case: &Case,
    rig: &Rig,
    path: &[u8],
    prepared: &Prepared,
    before: &Seen,
    ran: Ran,
) -> Verdict {
    let after = Seen::now(rig, path);
    if let Some(what) = difference(&before.beside, &after.beside) {
        return Verdict::Escape(what);
    }
    if before.named != after.named {
        return Verdict::Escape(format!("the named file is now: {:?}", after.named));
    }
    let printed = format!("{}{}", ran.out, ran.err);
    let marks = [rig.secret.as_str(), rig.key.as_str(), setup::VICTIM, "root:x:0:0:"];
    if let Some(mark) = marks.iter().find(|mark| printed.contains(**mark)) {
        return Verdict::Escape(format!("what is outside was shown: {mark}"));
    }
    let Some(code) = ran.code else {
        return Verdict::Hang(format!("not ended after {} s", PATIENCE.as_secs()));
    };
    if code < 0 || code == 101 || printed.contains("panicked at") {
        return Verdict::Panic(format!("exit {code}: {}", ran.err));
    }
    if prepared.races() {
        // Whether one try falls on the folder or on the link is chance: what counts is that none led outside.
        return Verdict::Pass;
    }
    let changed = difference(&before.within, &after.within);
    match (case.expect.as_str(), outcome(code, &ran)) {
        (_, Outcome::Untyped(what)) => Verdict::Fail(what),
        ("accept", Outcome::Done) if case.text("op") == "write" && changed.is_none() => {
            Verdict::Fail("said to be written, but nothing has changed".to_owned())
        }
        ("accept", Outcome::Done) => Verdict::Pass,
        ("accept", Outcome::Refused(why)) => Verdict::Fail(format!("refused: {why}")),
        ("refuse" | "ask-or-refuse", Outcome::Refused(_)) => match changed {
            None => Verdict::Pass,
            Some(what) => Verdict::Escape(format!("refused, and yet {what}")),
        },
        ("refuse" | "ask-or-refuse", Outcome::Done) => Verdict::Escape(match changed {
            Some(what) => format!("not refused: {what}"),
            None => "not refused".to_owned(),
        }),
        (other, _) => Verdict::Skip(format!("the outcome {other:?} is not known")),
    }
}

enum Outcome {
    Done,
    /// By the tool, the gate or the reader of the file; why.
    Refused(String),
    /// Neither a result nor an error that says what is wrong.
    Untyped(String),
}

fn outcome(code: i32, ran: &Ran) -> Outcome {
    let mut events = ran.out.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let ended = events.rfind(|event| event["type"] == "tool_ended");
    match ended {
        // The file with the task was refused before anything began.
        None if code == 2 && ran.err.contains("\"error\"") => Outcome::Refused(ran.err.clone()),
        None => Outcome::Untyped(format!("exit {code} without a result: {}", ran.err)),
        Some(event) => {
            let (status, text) = (&event["result"]["status"], event["result"]["text"].to_string());
            match status.as_str().unwrap_or_default() {
                "ok" => Outcome::Done,
                "error" | "denied" if text.len() > 10 => Outcome::Refused(text),
                _ => Outcome::Untyped(format!("ended as {status}: {text}")),
            }
        }
    }
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}
