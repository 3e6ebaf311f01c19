//! The kind `mcp`: frames and behaviours on the gate socket of a running task, and replies of hostile servers.
//!
//! Each case meets the real binary. What the cases call `bash` and `read_file` are our `shell` and `read`.

mod place;
mod script;
mod server;

use std::time::Duration;

use serde_json::Value;

use crate::Verdict;
use crate::case::Case;
use crate::rig::Rig;
use place::{Runtime, Setup};

/// Tries one case.
pub(crate) fn run(case: &Case, rig: &Rig) -> Verdict {
    let verdict = if case.text("side") == "server-reply" {
        server::reply(case, rig)
    } else if let Some(steps) = case.all["script"].as_array() {
        let steps: Vec<String> =
            steps.iter().filter_map(|step| step.as_str().map(|step| rig.fill(step))).collect();
        if steps.iter().any(|step| step.contains("tools/list gives")) {
            server::script(&case.expect, &steps, rig)
        } else {
            script::run(&case.expect, &steps, rig)
        }
    } else {
        bytes(case, rig)
    };
    if rig.canary().exists() {
        return Verdict::Escape("the canary was made".to_owned());
    }
    if rig.connections() > 0 {
        return Verdict::Escape("somebody connected to the listener".to_owned());
    }
    verdict.unwrap_or_else(|verdict| verdict)
}

/// What a case comes to: `Err` carries a verdict that ends it early.
pub(crate) type Tried = Result<Verdict, Verdict>;

/// What was seen after the bytes of a case.
#[derive(Debug)]
struct Seen {
    answers: Vec<Value>,
    closed: bool,
    /// Events of calls that the journal has.
    calls: Vec<Value>,
    worktree: String,
}

fn bytes(case: &Case, rig: &Rig) -> Tried {
    let allow = if case.expect.contains("capped") { vec!["shell".to_owned()] } else { Vec::new() };
    let setup = Setup { allow, server: None };
    let mut runtime = Runtime::start(rig, "waits", &setup).map_err(Verdict::Fail)?;
    let Some(bytes) = case.bytes() else {
        return Err(Verdict::Skip("an unknown generator".to_owned()));
    };
    let mut bytes = match String::from_utf8(bytes) {
        Ok(text) => {
            let text = rig.fill(&text);
            let other = if text.contains("{{OTHER_GOAL}}") {
                Some(Runtime::start(rig, "other", &setup).map_err(Verdict::Fail)?)
            } else {
                None
            };
            let other = other.as_ref().map_or("", |other| other.task.as_str());
            let text = text.replace("{{OTHER_GOAL}}", other).replace("{{GOAL}}", &runtime.task);
            translated(&text.replace("{{TOKEN}}", &runtime.token)).into_bytes()
        }
        Err(error) => error.into_bytes(),
    };
    if bytes.last() != Some(&b'\n') {
        bytes.push(b'\n');
    }
    let before = runtime.memory();
    // A case that does not greet is about what comes after the greeting, unless it says otherwise.
    let greets = contains(&bytes, b"\"initialize\"") || case.why.contains("before initialize");
    let client = if greets { runtime.enter() } else { runtime.greeted() };
    let mut client = client.map_err(|error| Verdict::Fail(format!("no connection: {error}")))?;
    match case.text("chunk") {
        "1" => client.drip(&bytes),
        "split-crlf" => bytes.split_inclusive(|byte| *byte == b'\r').all(|part| client.send(part)),
        _ => client.send(&bytes),
    };
    let expected =
        bytes.split(|byte| *byte == b'\n').filter(|line| contains(line, b"\"id\"")).count();
    let silent = ["ignore", "ignored", "close"].iter().any(|word| case.expect.starts_with(word));
    let answers = client.answers(if silent { 0 } else { expected.max(1) });
    let seen = Seen {
        answers,
        closed: client.closed,
        calls: runtime.events().into_iter().filter(is_call).collect(),
        worktree: rig.worktree().display().to_string(),
    };
    alive(&mut runtime)?;
    let grown = runtime.memory().saturating_sub(before) >> 10;
    if grown > case.all["rss_mb"].as_u64().unwrap_or(64) {
        return Err(Verdict::Fail(format!("the runtime grew by {grown} MB")));
    }
    let holds = alternatives(&case.expect).any(|expect| holds(expect, &seen));
    Ok(if holds { Verdict::Pass } else { Verdict::Fail(format!("{seen:?}")) })
}

fn is_call(event: &Value) -> bool {
    let kind = event["type"].as_str().unwrap_or_default();
    matches!(kind, "tool_started" | "tool_ended" | "approval_requested")
}

/// The outcomes of which any will do, without a bound on the time.
fn alternatives(expect: &str) -> impl Iterator<Item = &str> {
    expect.split("<=").next().unwrap_or_default().split("-or-")
}

fn holds(expect: &str, seen: &Seen) -> bool {
    let is_error = |answer: &Value| {
        !answer["error"].is_null()
            || (answer["result"]["isError"] == true
                && answer["result"]["_meta"]["drivetrain/status"] == "error")
    };
    let last = seen.answers.last();
    match expect.split_once(':').unwrap_or((expect, "")) {
        ("ok", _) => last.is_some_and(|answer| !is_error(answer) && shows_no_other(answer, seen)),
        ("error", "") => last.is_some_and(is_error),
        ("error", code) => {
            seen.answers.iter().any(|answer| answer["error"]["code"].as_i64() == code.parse().ok())
        }
        ("close", _) => seen.closed,
        ("ignore" | "ignored", _) => {
            seen.answers.is_empty() && !seen.closed && seen.calls.is_empty()
        }
        ("refused", _) => seen.closed || last.is_some_and(is_error),
        // No call runs that the journal does not say who allowed, and one that a worker approves itself does not run.
        ("gated", _) => {
            let started = |event: &&Value| event["type"] == "tool_started";
            let decided =
                seen.calls.iter().filter(started).all(|event| event["allowed_by"].is_string());
            let judged =
                !seen.calls.is_empty() || last.is_some_and(|answer| !answer["error"].is_null());
            decided && judged && last.is_some()
        }
        ("capped", _) => last.is_some_and(|answer| answer.to_string().contains("at most")),
        _ => false,
    }
}

/// Roots that are shown are the workspace alone.
fn shows_no_other(answer: &Value, seen: &Seen) -> bool {
    let roots = answer["result"]["roots"].as_array().into_iter().flatten();
    roots.into_iter().all(|root| root["uri"] == format!("file://{}", seen.worktree))
}

/// The runtime lives, works, and has not panicked.
fn alive(runtime: &mut Runtime<'_>) -> Result<(), Verdict> {
    let said = runtime.complaints();
    if said.contains("internal error") || said.contains("panicked") {
        return Err(Verdict::Panic(said));
    }
    if !runtime.is_alive() {
        return Err(Verdict::Fail(format!("the runtime ended: {said}")));
    }
    let until = std::time::Instant::now() + Duration::from_secs(20);
    while std::time::Instant::now() < until {
        let greeted = runtime.enter().ok().and_then(|mut client| {
            client.send(format!("{}\n", place::INIT).as_bytes());
            client.answer(Duration::from_secs(10))
        });
        if greeted.is_some() {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    Err(Verdict::Hang("the gate greets nobody any more".to_owned()))
}

/// The case's words for our tools and parameters, letter for letter.
fn translated(text: &str) -> String {
    let mut text = text.to_owned();
    for (theirs, ours) in [
        ("\"bash", "\"shell"),
        ("\"BASH", "\"SHELL"),
        ("\"Bash", "\"Shell"),
        ("\"b\\u0430sh", "\"sh\\u0435ll"),
        ("\"read_file", "\"read"),
        ("\"write_file", "\"write"),
    ] {
        text = text.replace(theirs, ours);
    }
    // A number of milliseconds is written as a time.
    for key in ["\"timeout_ms\": ", "\"timeout_ms\":"] {
        while let Some(at) = text.find(key) {
            let digits: String =
                text[at + key.len()..].chars().take_while(char::is_ascii_digit).collect();
            let end = at + key.len() + digits.len();
            text.replace_range(at..end, &format!("\"timeout\":\"{digits}ms\""));
        }
    }
    text
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}
