//! Claude Code's codec over captures of real runs: what each comes to, in any cut and with anything strange between.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use machine::agent::{AgentEvent, AgentOrder, AgentRequest};
use machine::server::ToolOffer;
use machine::stream::StreamEvent;
use machine::tool::EffectClass;
use proptest::prelude::*;
use serde_json::{Value, json};
use wire::agent::AgentCodec;
use wire::agent::claude::{ClaudeCodec, ClaudeOptions, Session};

/// One line of a capture.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    /// We said it.
    pub(crate) is_ours: bool,
    pub(crate) message: Value,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/agents/claude")
}

/// All captures; properties look at them many times.
pub(crate) fn captures() -> Vec<(String, Vec<Step>)> {
    static CAPTURES: LazyLock<Vec<(String, Vec<Step>)>> = LazyLock::new(load);
    CAPTURES.clone()
}

#[allow(clippy::disallowed_methods, reason = "tests read their fixtures")]
fn load() -> Vec<(String, Vec<Step>)> {
    let mut names: Vec<PathBuf> =
        std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.retain(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
    names.sort();
    let read = |path: PathBuf| {
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let text = std::fs::read_to_string(&path).unwrap();
        let steps = text.lines().filter_map(|line| {
            let line: Value = serde_json::from_str(line).unwrap();
            let message = line.get("msg")?.clone();
            Some(Step { is_ours: line["dir"] == "in", message })
        });
        (name, steps.collect())
    };
    names.into_iter().map(read).collect()
}

pub(crate) fn offers() -> Vec<ToolOffer> {
    let schema = json!({ "type": "object", "properties": { "status": { "type": "string" } } });
    vec![ToolOffer {
        name: "report".to_owned(),
        tool: "report".to_owned(),
        summary: "Says how far the work is.".to_owned(),
        schema,
        class: EffectClass::Pure,
        source: "drivetrain".to_owned(),
        changed: false,
    }]
}

pub(crate) fn options() -> ClaudeOptions {
    ClaudeOptions::new(Session::New("00000000-0000-4000-8000-0000000000aa".to_owned()), "/state")
}

pub(crate) fn codec() -> ClaudeCodec {
    ClaudeCodec::new(&options(), offers(), 1 << 100)
}

/// A capture as our codec would have made it: what we said is said by its orders, and the identifiers that it chose
/// stand in what the program answers.
struct Play {
    codec: ClaudeCodec,
    /// Identifiers of the capture, and ours.
    ours: Vec<(String, String)>,
    events: Vec<AgentEvent>,
    /// What was written at once, in answer to what was read.
    replies: Vec<Value>,
}

impl Play {
    fn new(steps: &[Step]) -> Play {
        let mut play =
            Play { codec: codec(), ours: Vec::new(), events: Vec::new(), replies: Vec::new() };
        // Captures of runs that had their prompt as an argument.
        if !steps.iter().any(|step| step.is_ours && step.message["type"] == "user") {
            play.codec.order(AgentOrder::Prompt { text: "go".to_owned() }).unwrap();
        }
        play
    }

    fn run(steps: &[Step], cut: impl FnMut(&[u8]) -> Vec<Vec<u8>>) -> Play {
        let mut play = Play::new(steps);
        play.steps(steps, cut);
        let last = play.codec.end();
        play.events.extend(last);
        play
    }

    fn steps(&mut self, steps: &[Step], mut cut: impl FnMut(&[u8]) -> Vec<Vec<u8>>) {
        for step in steps {
            if step.is_ours {
                self.say(&step.message);
            } else {
                let line = self.theirs(&step.message);
                for piece in cut(&line) {
                    self.hear(&piece);
                }
            }
        }
    }

    fn hear(&mut self, piece: &[u8]) {
        let mut reply = Vec::new();
        self.events.extend(self.codec.read(piece, &mut reply));
        for line in reply.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            self.replies.push(serde_json::from_slice(line).unwrap());
        }
    }

    /// A line of the program, with our identifiers and our name for what the capture calls otherwise.
    fn theirs(&self, message: &Value) -> Vec<u8> {
        let mut text = message.to_string();
        for (theirs, ours) in &self.ours {
            text = text.replace(&format!("{theirs:?}"), &format!("{ours:?}"));
        }
        for (theirs, ours) in [
            (r#""callback_id":"pre""#, r#""callback_id":"PreToolUse""#),
            (r#""callback_id":"stop""#, r#""callback_id":"Stop""#),
            (r#""server_name":"rt""#, r#""server_name":"drivetrain""#),
            ("mcp__rt__", "mcp__drivetrain__"),
        ] {
            text = text.replace(theirs, ours);
        }
        text.push('\n');
        text.into_bytes()
    }

    /// What the capture's driver said, as an order.
    fn say(&mut self, message: &Value) {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let order = match message["type"].as_str().unwrap_or_default() {
            "user" => AgentOrder::Prompt { text: text(&message["message"]["content"]) },
            "control_request" => match message["request"]["subtype"].as_str().unwrap() {
                "initialize" => {
                    let line: Value = serde_json::from_slice(&self.codec.open()).unwrap();
                    self.ours.push((text(&message["request_id"]), text(&line["request_id"])));
                    return;
                }
                "interrupt" => AgentOrder::Interrupt,
                "set_model" => AgentOrder::SetModel { model: text(&message["request"]["model"]) },
                _ => return,
            },
            "control_response" => match self.answer(&message["response"]) {
                Some(order) => order,
                None => return,
            },
            _ => return,
        };
        let Ok(line) = self.codec.order(order) else { return };
        let line: Value = serde_json::from_slice(&line).unwrap();
        for key in ["uuid", "request_id"] {
            if message[key].is_string() {
                self.ours.push((text(&message[key]), text(&line[key])));
            }
        }
    }

    fn answer(&self, response: &Value) -> Option<AgentOrder> {
        let key = response["request_id"].as_str()?.to_owned();
        let body = &response["response"];
        if let Some(result) = body["mcp_response"].get("result") {
            let text = result["content"][0]["text"].as_str()?.to_owned();
            return Some(AgentOrder::ToolResult { key, result: Ok(text) });
        }
        match body["behavior"].as_str() {
            Some("allow") => {
                Some(AgentOrder::Answer { key, may: Ok(body.get("updatedInput").cloned()) })
            }
            Some("deny") => {
                let reason = body["message"].as_str().unwrap_or_default().to_owned();
                Some(AgentOrder::Answer { key, may: Err(reason) })
            }
            _ => {
                let missing = body["reason"].as_str().map(str::to_owned);
                Some(AgentOrder::MayStop { key, missing })
            }
        }
    }
}

fn whole(line: &[u8]) -> Vec<Vec<u8>> {
    vec![line.to_vec()]
}

/// Events, one a line; deltas of one block are joined.
fn summary(events: &[AgentEvent]) -> String {
    let mut text = String::new();
    let mut piece: Option<(String, String)> = None;
    for event in events {
        let (who, stream) = match event {
            AgentEvent::Stream(stream) => (String::new(), Some(stream)),
            AgentEvent::Helper { parent, event } => (format!("helper {parent} "), Some(event)),
            _ => (String::new(), None),
        };
        let delta = match stream {
            Some(StreamEvent::TextDelta { index, text }) => {
                Some((format!("{who}text {index}"), text))
            }
            Some(StreamEvent::ThinkingDelta { index, text }) => {
                Some((format!("{who}thinking {index}"), text))
            }
            Some(StreamEvent::InputJsonDelta { index, id, json }) => {
                Some((format!("{who}input {index} {id}"), json))
            }
            _ => None,
        };
        match (delta, &mut piece) {
            (Some((kind, more)), Some((open, text))) if *open == kind => text.push_str(more),
            (delta, _) => {
                if let Some((kind, words)) = piece.take() {
                    writeln!(text, "{kind}: {}", short(&words)).unwrap();
                }
                match (delta, stream) {
                    (Some((kind, more)), _) => piece = Some((kind, more.clone())),
                    (None, Some(stream)) => {
                        writeln!(text, "{who}{}", short(&format!("{stream:?}"))).unwrap();
                    }
                    (None, None) => writeln!(text, "{}", short(&format!("{event:?}"))).unwrap(),
                }
            }
        }
    }
    if let Some((kind, words)) = piece {
        writeln!(text, "{kind}: {}", short(&words)).unwrap();
    }
    text
}

fn short(text: &str) -> String {
    let counters = ["input", "output", "thinking", "cache_read", "cache_write", "cache_write_long"];
    let mut text = text.replace('\n', "⏎");
    for counter in counters.into_iter().chain(["nanodollars"]) {
        for end in [", ", " "] {
            text = text.replace(&format!("{counter}: None{end}"), "");
        }
    }
    match text.char_indices().nth(400) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[test]
fn every_capture_comes_to_the_events_that_were_reviewed() {
    let captures = captures();
    assert!(captures.len() >= 72, "{} captures", captures.len());
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(folder().join("expected"));
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| {
        for (name, steps) in &captures {
            let play = Play::run(steps, whole);
            insta::assert_snapshot!(name.as_str(), summary(&play.events));
        }
    });
}

#[test]
fn nothing_of_the_captures_is_unknown_or_malformed() {
    for (name, steps) in captures() {
        // The other side of a server: no frames of the program.
        if name.ends_with("_mcpframes") {
            continue;
        }
        for event in Play::run(&steps, whole).events {
            let is_strange =
                matches!(event, AgentEvent::Unknown { .. } | AgentEvent::Malformed { .. });
            assert!(!is_strange, "{name}: {event:?}");
        }
    }
}

#[test]
fn bytes_one_by_one_come_to_the_same() {
    for (name, steps) in captures() {
        let expected = Play::run(&steps, whole);
        let single = Play::run(&steps, |line| line.iter().map(|byte| vec![*byte]).collect());
        assert_eq!(single.events, expected.events, "{name}");
        assert_eq!(single.replies, expected.replies, "{name}");
    }
}

#[test]
fn tokens_and_dollars_of_a_capture_are_told_once() {
    for (name, steps) in captures() {
        let mut tokens = BTreeMap::new();
        let mut usd = 0.0;
        for event in Play::run(&steps, whole).events {
            if let AgentEvent::Spent { usage, usd: more } = event {
                *tokens.entry("input").or_insert(0) += usage.input.unwrap_or(0);
                *tokens.entry("output").or_insert(0) += usage.output.unwrap_or(0);
                usd += more.unwrap_or(0.0);
            }
        }
        let results = steps.iter().filter(|step| !step.is_ours && step.message["type"] == "result");
        let (mut input, mut output, mut cost) = (0, 0, 0.0);
        for result in results {
            let turn = match result.message.get("model_usage_since_last_result") {
                Some(turn) => turn,
                None => &result.message["modelUsage"],
            };
            for model in turn.as_object().into_iter().flat_map(|models| models.values()) {
                input += model["inputTokens"].as_u64().unwrap();
                output += model["outputTokens"].as_u64().unwrap();
                cost += model["costUSD"].as_f64().unwrap();
            }
        }
        // What was interrupted in the middle of an answer is paid for, although the program leaves it out.
        let cut = match name.as_str() {
            "interrupt_stream" | "kill_midstream" | "sig15" | "sig2" => (1000, 1),
            _ => (0, 0),
        };
        let told = |key| tokens.get(key).copied().unwrap_or(0);
        let is_streaming = steps.iter().any(|step| step.message["type"] == "stream_event");
        let extra = if is_streaming { cut } else { (0, 0) };
        assert_eq!((told("input"), told("output")), (input + extra.0, output + extra.1), "{name}");
        assert!((usd - cost).abs() < 1e-9, "{name}: {usd} and {cost}");
    }
}

/// The capture's lines from the program, with our identifiers, and what was done between: for tests that change them.
fn lines(steps: &[Step]) -> Vec<Vec<u8>> {
    let mut lines = Vec::new();
    Play::run(steps, |line| {
        lines.push(line.to_vec());
        Vec::new()
    });
    lines
}

/// Reads lines alone, as if nobody had answered anything.
fn read(lines: &[Vec<u8>], pieces: &[usize]) -> (Vec<AgentEvent>, Vec<u8>) {
    let mut codec = codec();
    codec.order(AgentOrder::Prompt { text: "go".to_owned() }).unwrap();
    let bytes = lines.concat();
    let (mut events, mut reply) = (Vec::new(), Vec::new());
    let mut rest = bytes.as_slice();
    for size in pieces.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let (piece, after) = rest.split_at((*size).clamp(1, rest.len()));
        events.extend(codec.read(piece, &mut reply));
        rest = after;
    }
    events.extend(codec.end());
    (events, reply)
}

fn is_strange(event: &AgentEvent) -> bool {
    matches!(event, AgentEvent::Unknown { .. } | AgentEvent::Malformed { .. })
}

fn strange_line() -> impl Strategy<Value = (Vec<u8>, bool)> {
    let unknown = prop_oneof![
        Just(r#"{"type":"tomorrow","subtype":"x"}"#),
        Just(r#"{"type":"system","subtype":"tomorrow"}"#),
        Just(r#"{"subtype":"no type"}"#),
        Just(r#"{"type":7}"#),
        Just(r#"{"type":"control_request","request_id":"t1","request":{"subtype":"tomorrow"}}"#),
    ];
    let garbage = prop_oneof![
        Just("not json at all".to_owned()),
        Just("[1,2]".to_owned()),
        Just("{\"type\":\"result\"".to_owned()),
        Just("[".repeat(5000)),
        "[^\\n{]{1,40}".prop_filter("something", |text| !text.trim().is_empty()),
    ];
    prop_oneof![
        unknown.prop_map(|line| (format!("{line}\n").into_bytes(), true)),
        garbage.prop_map(|line| (format!("{line}\n").into_bytes(), false)),
        Just((b"\xff\xfe{}\n".to_vec(), false)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(ProptestConfig::default().cases / 3) })]

    #[test]
    fn any_cuts_come_to_the_same(which in any::<prop::sample::Index>(), sizes in prop::collection::vec(1usize..3000, 1..12)) {
        let captures = captures();
        let (name, steps) = &captures[which.index(captures.len())];
        let lines = lines(steps);
        prop_assert_eq!(read(&lines, &sizes), read(&lines, &[usize::MAX]), "{}", name);
    }

    #[test]
    fn strange_lines_anywhere_and_in_any_order_change_nothing_else(
        which in any::<prop::sample::Index>(),
        strange in prop::collection::vec((any::<prop::sample::Index>(), strange_line()), 1..8),
    ) {
        let captures = captures();
        let (name, steps) = &captures[which.index(captures.len())];
        let lines = lines(steps);
        let plain = read(&lines, &[usize::MAX]).0;
        let mut mixed = lines.clone();
        for (at, (line, _)) in &strange {
            mixed.insert(at.index(mixed.len() + 1), line.clone());
        }
        let events = read(&mixed, &[usize::MAX]).0;
        let told = |events: &[AgentEvent]| events.iter().filter(|event| is_strange(event)).count();
        let rest = |events: &[AgentEvent]| events.iter().filter(|event| !is_strange(event)).cloned().collect::<Vec<_>>();
        prop_assert_eq!(told(&events), told(&plain) + strange.len(), "{}", name);
        prop_assert_eq!(rest(&events), rest(&plain), "{}", name);
    }

    #[test]
    fn an_output_that_ends_anywhere_ends_its_turn(which in any::<prop::sample::Index>(), at in any::<prop::sample::Index>()) {
        let captures = captures();
        let (name, steps) = &captures[which.index(captures.len())];
        let bytes = lines(steps).concat();
        let cut = bytes[..at.index(bytes.len().max(1)).min(bytes.len())].to_vec();
        let (events, _) = read(&[cut], &[usize::MAX]);
        let ended = events.iter().filter(|event| matches!(event, AgentEvent::TurnEnded(_))).count();
        prop_assert!(ended >= 1, "{}: {:?}", name, events.last());
        // Nothing is left that waits for an answer.
        let mut open = std::collections::BTreeSet::new();
        for event in &events {
            match event {
                AgentEvent::Asks(ask) => { open.insert(ask.key.clone()); }
                AgentEvent::Calls(AgentRequest { key, .. }) | AgentEvent::WouldStop { key, .. } => { open.insert(key.clone()); }
                AgentEvent::Withdrawn { key } => { open.remove(key); }
                _ => {}
            }
        }
        prop_assert!(open.is_empty(), "{}: {:?}", name, open);
    }

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..600), lines in prop::collection::vec(strange_line(), 0..4)) {
        let mut all = vec![bytes];
        all.extend(lines.into_iter().map(|(line, _)| line));
        read(&all, &[7]);
    }

    #[test]
    fn a_frame_with_any_values_in_it_is_taken(key in "(type|subtype|request|request_id|message|event|response|uuid|modelUsage|content|tasks|parent_tool_use_id)", which in any::<prop::sample::Index>(), at in any::<prop::sample::Index>(), value in prop_oneof![Just(json!(null)), Just(json!(7)), Just(json!("x")), Just(json!([{}])), Just(json!({"type": 1}))]) {
        let captures = captures();
        let (_, steps) = &captures[which.index(captures.len())];
        let mut lines = lines(steps);
        if !lines.is_empty() {
            let at = at.index(lines.len());
            let mut line: Value = serde_json::from_slice(&lines[at]).unwrap();
            replace(&mut line, &key, &value);
            lines[at] = format!("{line}\n").into_bytes();
            read(&lines, &[usize::MAX]);
        }
    }
}

fn replace(value: &mut Value, key: &str, with: &Value) {
    match value {
        Value::Object(map) => {
            for (name, inner) in map {
                if name == key {
                    *inner = with.clone();
                } else {
                    replace(inner, key, with);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|inner| replace(inner, key, with)),
        _ => {}
    }
}

#[test]
fn a_line_that_never_ends_is_told_once_and_the_next_one_is_read() {
    let mut codec = codec();
    let mut reply = Vec::new();
    let mut events = Vec::new();
    let piece = vec![b'x'; 1 << 20];
    for _ in 0..70 {
        events.extend(codec.read(&piece, &mut reply));
    }
    events.extend(codec.read(b"\n{\"type\":\"tomorrow\"}\n", &mut reply));
    assert!(
        matches!(&events[..], [AgentEvent::Malformed { .. }, AgentEvent::Unknown { kind }] if kind == "tomorrow"),
        "{events:?}"
    );
}
