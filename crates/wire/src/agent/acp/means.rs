//! What a call that an agent tells of does, in words that the gate knows. Only what is certain: a title is for people
//! and may be cut, so a command is taken from the parameters or not at all.

use machine::agent::AgentMeans;
use serde_json::Value;

use super::super::codex::{join, script_of};
use super::super::peer::{beginning, from_folder};
use super::super::place::Place;

/// What is known of a call: the fields of `tool_call`, those of later updates laid over them.
pub(super) fn lay_over(call: &mut Value, update: &Value) {
    let (Some(known), Some(update)) = (call.as_object_mut(), update.as_object()) else {
        return;
    };
    for name in ["title", "kind", "status", "rawInput", "locations", "content", "name", "_meta"] {
        let is_empty = |value: &Value| {
            value.is_null()
                || value.as_array().is_some_and(Vec::is_empty)
                || value.as_object().is_some_and(serde_json::Map::is_empty)
        };
        if let Some(value) = update.get(name)
            && (!is_empty(value) || !known.contains_key(name))
        {
            known.insert(name.to_owned(), value.clone());
        }
    }
}

/// The tool, as far as the agent names it.
pub(super) fn tool(call: &Value) -> String {
    let names = [&call["name"], &call["_meta"]["claudeCode"]["toolName"], &call["kind"]];
    let name = names.into_iter().find_map(Value::as_str);
    name.unwrap_or("tool").to_owned()
}

/// The parameters, or what stands for them where the agent does not give any.
pub(super) fn input(call: &Value) -> Value {
    match &call["rawInput"] {
        Value::Object(fields) if !fields.is_empty() => call["rawInput"].clone(),
        _ => {
            let mut shown = serde_json::Map::new();
            for name in ["title", "kind", "locations", "content"] {
                if let Some(value) = call.get(name) {
                    shown.insert(name.to_owned(), value.clone());
                }
            }
            Value::Object(shown)
        }
    }
}

/// What the call does, for an agent that works in this folder.
pub(super) fn means(call: &Value, folder: &str) -> AgentMeans {
    let input = &call["rawInput"];
    let paths = paths(call, folder);
    // A command is one whatever the agent takes it for: `cat x; rm y` may be called reading.
    if !input["command"].is_null() {
        let line = command(&input["command"]);
        let line = line.map(|line| Place::new(folder).line(&input["cwd"], line));
        return line.map_or(AgentMeans::Other, AgentMeans::Command);
    }
    match call["kind"].as_str().unwrap_or_default() {
        "edit" | "delete" | "move" if !paths.is_empty() => AgentMeans::Write(paths),
        "read" | "search" => match paths.as_slice() {
            [path] => AgentMeans::Read(path.clone()),
            _ => AgentMeans::Other,
        },
        "fetch" => match input["url"].as_str() {
            Some(url) => AgentMeans::Fetch(url.to_owned()),
            None => AgentMeans::Other,
        },
        "think" => AgentMeans::Inner,
        _ => AgentMeans::Other,
    }
}

fn command(command: &Value) -> Option<String> {
    match command {
        Value::String(line) => Some(line.clone()),
        Value::Array(words) => {
            let words: Option<Vec<&str>> = words.iter().map(Value::as_str).collect();
            let words = words.filter(|words| !words.is_empty())?;
            Some(script_of(&words).map_or_else(|| join(&words), str::to_owned))
        }
        _ => None,
    }
}

/// Every path that the call names, each once, in order.
fn paths(call: &Value, folder: &str) -> Vec<String> {
    let mut paths = Vec::new();
    let mut add = |path: &Value| {
        let path = path.as_str().map(|path| from_folder(folder, path));
        if let Some(path) = path.filter(|path| !paths.contains(path)) {
            paths.push(path);
        }
    };
    for entry in call["content"].as_array().into_iter().flatten() {
        if entry["type"] == "diff" {
            add(&entry["path"]);
        }
    }
    call["locations"].as_array().into_iter().flatten().for_each(|place| add(&place["path"]));
    for name in ["file_path", "filePath", "filepath", "path", "absolute_path", "notebook_path"] {
        add(&call["rawInput"][name]);
    }
    if let Some(changes) = call["rawInput"]["changes"].as_object() {
        for (path, change) in changes {
            add(&Value::from(path.as_str()));
            add(&change["move_path"]);
        }
    }
    paths
}

/// What came of the call, in words; the beginning, if it is long.
pub(super) fn outcome(call: &Value, update: &Value) -> String {
    const LONGEST: usize = 16 << 10;
    let texts = |content: &Value| -> String {
        let entries = content.as_array().into_iter().flatten();
        let texts = entries.filter_map(|entry| entry["content"]["text"].as_str());
        texts.collect::<Vec<_>>().join("\n")
    };
    let raw = &update["rawOutput"];
    let candidates = [
        raw.as_str().map(str::to_owned),
        ["formatted_output", "output", "error"]
            .iter()
            .find_map(|name| raw[*name].as_str().map(str::to_owned)),
        update["_meta"]["terminal_output_delta"]["data"].as_str().map(str::to_owned),
        Some(texts(&update["content"])),
        call["title"].as_str().map(str::to_owned),
    ];
    let text = candidates.into_iter().flatten().find(|text| !text.is_empty());
    beginning(&text.unwrap_or_default(), LONGEST).to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_command_in_another_folder_is_judged_with_the_way_there() {
        let of = |cwd: Value| {
            let input = json!({ "command": ["bash", "-lc", "rm 0001.sql"], "cwd": cwd });
            means(&json!({ "kind": "execute", "rawInput": input }), "/w")
        };
        let line = |line: &str| AgentMeans::Command(line.to_owned());
        assert_eq!(of(json!("/w/migrations")), line("cd migrations && rm 0001.sql"));
        assert_eq!(of(json!("migrations")), line("cd migrations && rm 0001.sql"));
        assert_eq!(of(json!("/w")), line("rm 0001.sql"));
        assert_eq!(of(Value::Null), line("rm 0001.sql"));
    }

    #[test]
    fn a_command_is_taken_from_the_parameters_and_never_from_a_title() {
        let of = |call: Value| means(&call, "/w");
        let titled = json!({ "kind": "execute", "title": "ls" });
        assert_eq!(of(titled), AgentMeans::Other);
        let line = json!({ "kind": "execute", "rawInput": { "command": "rm x" } });
        assert_eq!(of(line), AgentMeans::Command("rm x".to_owned()));
        let words = json!({ "kind": "execute", "rawInput": { "command": ["sh", "-c", "a; b"] } });
        assert_eq!(of(words), AgentMeans::Command("a; b".to_owned()));
        let words = json!({ "kind": "execute", "rawInput": { "command": ["rm", "a b"] } });
        assert_eq!(of(words), AgentMeans::Command("rm 'a b'".to_owned()));
        let called_reading = json!({ "kind": "read", "locations": [{ "path": "/w/x" }],
            "rawInput": { "command": ["bash", "-lc", "cat x; rm y"] } });
        assert_eq!(of(called_reading), AgentMeans::Command("cat x; rm y".to_owned()));
        let mixed = json!({ "kind": "execute", "rawInput": { "command": ["rm", 3] } });
        assert_eq!(of(mixed), AgentMeans::Other);
    }

    #[test]
    fn every_path_that_is_named_counts() {
        let call = json!({
            "kind": "edit",
            "content": [{ "type": "diff", "path": "/w/a" }],
            "locations": [{ "path": "/w/a" }, { "path": "/etc/b" }],
            "rawInput": { "file_path": "c" },
        });
        let paths = ["/w/a", "/etc/b", "/w/c"].map(str::to_owned).to_vec();
        assert_eq!(means(&call, "/w"), AgentMeans::Write(paths));
        assert_eq!(means(&json!({ "kind": "edit" }), "/w"), AgentMeans::Other);
        assert_eq!(means(&json!({ "kind": "switch_mode" }), "/w"), AgentMeans::Other);
        assert_eq!(means(&json!({ "kind": "fetch", "rawInput": {} }), "/w"), AgentMeans::Other);
    }
}
