//! Cases in which the other side is a server of tools: what it says of itself, and what it says later.
//!
//! The server is a real process that answers over its standard output; what became of its words is what a worker is
//! shown at the gate and what the journal says.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::Tried;
use super::place::{Client, PATIENCE, Runtime, Setup};
use crate::Verdict;
use crate::case::Case;
use crate::rig::Rig;

/// A server that lists what the file says at the moment, and tells when the file beside it appears.
fn program(list: &Path, changed: &Path) -> String {
    format!(
        r#"( while :; do if [ -e '{changed}' ]; then rm '{changed}'
  echo '{{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}}'; fi; sleep 0.1; done ) &
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$line" in
    *'"initialize"'*) echo '{{"jsonrpc":"2.0","id":'"$id"',"result":{{"protocolVersion":"2025-06-18","capabilities":{{"tools":{{"listChanged":true}}}},"serverInfo":{{"name":"test","version":"1"}}}}}}';;
    *'"tools/list"'*) if [ -e '{raw}' ]; then cat '{raw}'; echo; else echo '{{"jsonrpc":"2.0","id":'"$id"',"result":'"$(cat '{list}')"'}}'; fi;;
    *'"tools/call"'*) echo '{{"jsonrpc":"2.0","id":'"$id"',"result":{{"content":[{{"type":"text","text":"done"}}]}}}}';;
  esac
done"#,
        list = list.display(),
        raw = list.with_file_name("raw").display(),
        changed = changed.display(),
    )
}

/// The tools that a worker is shown.
fn shown(client: &mut Client, id: u64) -> Vec<Value> {
    let list = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/list" });
    client.send(format!("{list}\n").as_bytes());
    let answer = client.answer(PATIENCE).unwrap_or_default();
    answer["result"]["tools"].as_array().cloned().unwrap_or_default()
}

pub(super) fn reply(case: &Case, rig: &Rig) -> Tried {
    let bytes = case.bytes().ok_or_else(|| Verdict::Skip("an unknown generator".to_owned()))?;
    let list = rig.worktree().join("list.json");
    let said: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    if said["result"].is_object() {
        std::fs::write(&list, said["result"].to_string()).unwrap();
    } else {
        // It is no answer that anybody could take: it is said as it is.
        std::fs::write(rig.worktree().join("raw"), &bytes).unwrap();
    }
    let server = Some(program(&list, &rig.worktree().join("changed")));
    let runtime = Runtime::start(rig, "waits", &Setup { allow: Vec::new(), server })
        .map_err(Verdict::Fail)?;
    let mut client = runtime.greeted().map_err(|error| Verdict::Fail(error.to_string()))?;
    let tools = shown(&mut client, 1);
    let ours = |tool: &&Value| !tool["name"].as_str().unwrap_or_default().starts_with("mcp__");
    let built_in: Vec<&str> =
        tools.iter().filter(ours).filter_map(|tool| tool["name"].as_str()).collect();
    let opened = runtime.count("tools_opened");
    let claimed = said["result"]["tools"].as_array().cloned().unwrap_or_default();
    for claim in &claimed {
        let name = claim["name"].as_str().unwrap_or_default();
        for tool in tools.iter().filter(|tool| !ours(tool)) {
            let given = tool["name"].as_str().unwrap_or_default();
            let words = tool.to_string();
            let hostile = |c: char| c.is_control() || "<>".contains(c) || hides(c);
            let text = tool["description"].as_str().unwrap_or_default();
            if text.chars().any(|c| hostile(c) && c != '\n') || words.chars().any(hides) {
                return Err(Verdict::Fail(format!("a worker is shown {words}")));
            }
            if given == name || !given.starts_with("mcp__test__") || given == "mcp__test__" {
                return Err(Verdict::Fail(format!("{name:?} is a tool named {given:?}")));
            }
        }
    }
    if built_in.len() != tools.len() - tools.iter().filter(|tool| !ours(tool)).count()
        || opened == 0
    {
        return Err(Verdict::Fail(
            "the server was not asked, or shadows a tool of ours".to_owned(),
        ));
    }
    let distinct: std::collections::BTreeSet<&str> =
        tools.iter().filter_map(|tool| tool["name"].as_str()).collect();
    if distinct.len() != tools.len() {
        return Err(Verdict::Fail("two tools have one name".to_owned()));
    }
    // What a person is shown of it holds no control characters either.
    let log = super::place::command(rig).args(["log", &runtime.task]).output().unwrap().stdout;
    let raw = log.iter().any(|byte| *byte < 0x20 && *byte != b'\n' && *byte != b'\t');
    Ok(if raw {
        Verdict::Fail("the log shows a control character".to_owned())
    } else {
        Verdict::Pass
    })
}

fn hides(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}')
        || matches!(c, '\u{feff}' | '\u{e0000}'..='\u{e0fff}' | '\u{3164}' | '\u{61c}')
}

/// A server that says one thing, is allowed, and then says another.
pub(super) fn script(expect: &str, steps: &[String], rig: &Rig) -> Tried {
    let (list, changed) = (rig.worktree().join("list.json"), rig.worktree().join("changed"));
    let says = |step: &str| {
        let which = step.rsplit(' ').next().unwrap_or_default();
        let schema = json!({ "type": "object", "properties": { which: { "type": "string" } } });
        let tool = json!({ "name": "look", "description": format!("looks {which}"), "inputSchema": schema });
        std::fs::write(&list, json!({ "tools": [tool] }).to_string()).unwrap();
    };
    let mut runtime: Option<Runtime<'_>> = None;
    let (mut allowed, mut id) = (false, 10);
    for step in steps {
        if step.contains("tools/list gives") {
            says(step);
            if let Some(runtime) = &runtime {
                let before = runtime.count("tools_opened");
                std::fs::write(&changed, "").unwrap();
                let until = Instant::now() + PATIENCE;
                while runtime.count("tools_opened") == before {
                    if Instant::now() > until {
                        return Err(Verdict::Hang("the change was never heard of".to_owned()));
                    }
                    std::thread::sleep(Duration::from_millis(100));
                }
            }
        } else if step.contains("approves") {
            // The person's own rule allows the tool as it is.
            let setup = Setup {
                allow: vec!["mcp__test__look".to_owned()],
                server: Some(program(&list, &changed)),
            };
            let started = Runtime::start(rig, "waits", &setup).map_err(Verdict::Fail)?;
            let status = called(&started, id);
            id += 1;
            allowed = status == "ok";
            runtime = Some(started);
        } else {
            return Err(Verdict::Fail(format!("the step {step:?} is not understood")));
        }
    }
    let Some(runtime) = runtime else {
        return Err(Verdict::Fail("nobody approved anything".to_owned()));
    };
    let before = runtime.count("tool_started");
    let status = called(&runtime, id);
    let again = runtime.count("tool_started") - before;
    let asked = status == "denied" || runtime.count("approval_requested") > 0;
    let holds = expect == "re-ask" && allowed && asked && again == 0;
    let seen = format!("allowed at first: {allowed}; then {status}, {again} started");
    Ok(if holds { Verdict::Pass } else { Verdict::Fail(seen) })
}

/// How a call of the tool ends.
fn called(runtime: &Runtime<'_>, id: u64) -> String {
    let Ok(mut client) = runtime.greeted() else { return "no connection".to_owned() };
    let params = json!({ "name": "mcp__test__look", "arguments": {} });
    let call = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params });
    client.send(format!("{call}\n").as_bytes());
    let answer = client.answer(PATIENCE).unwrap_or_default();
    answer["result"]["_meta"]["drivetrain/status"].as_str().unwrap_or("error").to_owned()
}
