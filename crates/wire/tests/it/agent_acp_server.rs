//! drivetrain as an agent of an editor: our own client of the protocol on the other end of the pipe.

use std::sync::Arc;

use machine::agent::{AgentEnd, AgentEvent, AgentMeans, AgentOrder, AgentQuirks, AgentTurn};
use machine::id::CallId;
use machine::policy::call_hash::CallHash;
use proptest::prelude::*;
use serde_json::{Value, json};
use wire::agent::AgentCodec;
use wire::agent::acp::{AcpCodec, AcpOffers, AcpOpen};
use wire::agent::acp_server::{
    AcpServer, EditorEnd, EditorEvent, EditorOrder, EditorUpdate, Progress,
};
use wire::agent::acp_told::{Telling, Told};
use wire::agent::opening::Opening;

/// An editor and a server, and what each has heard.
struct Pair {
    editor: AcpCodec,
    server: AcpServer,
    heard: Vec<AgentEvent>,
    asked: Vec<EditorEvent>,
}

impl Pair {
    fn new(opening: Opening) -> Pair {
        let editor = AcpCodec::new(AcpOpen {
            version: "0.1".to_owned(),
            folder: "/w".to_owned(),
            opening,
            cost: None,
            mode: None,
            model: None,
            offers: AcpOffers::default(),
            quirks: AgentQuirks::default(),
        });
        let server = AcpServer::new("0.1");
        let mut pair = Pair { editor, server, heard: Vec::new(), asked: Vec::new() };
        let bytes = pair.editor.open();
        pair.give_server(&bytes);
        pair
    }

    fn give_server(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let mut reply = Vec::new();
        let events = self.server.read(bytes, &mut reply);
        self.asked.extend(events);
        self.give_editor(&reply);
    }

    fn give_editor(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let mut reply = Vec::new();
        let events = self.editor.read(bytes, &mut reply);
        self.heard.extend(events);
        self.give_server(&reply);
    }

    fn tell(&mut self, order: AgentOrder) {
        let bytes = self.editor.order(order).unwrap();
        self.give_server(&bytes);
    }

    fn serve(&mut self, order: EditorOrder) {
        let bytes = self.server.order(order).unwrap();
        self.give_editor(&bytes);
    }

    fn update(&mut self, update: EditorUpdate) {
        self.serve(EditorOrder::Update { session: "s".to_owned(), update });
    }

    /// The last prompt has ended like this.
    fn ended(&self, end: EditorEnd) -> EditorOrder {
        let mut prompts = self.asked.iter().filter_map(|asked| match asked {
            EditorEvent::Prompt { key, .. } => Some(key.clone()),
            _ => None,
        });
        EditorOrder::Ended { session: "s".to_owned(), key: prompts.next_back().unwrap(), end }
    }

    fn turn(&self) -> &AgentTurn {
        match self.heard.last().unwrap() {
            AgentEvent::TurnEnded(turn) => turn,
            other => panic!("{other:?}"),
        }
    }
}

fn opened() -> Pair {
    let mut pair = Pair::new(Opening::New);
    let (key, folder) = ("editor-1".to_owned(), "/w".to_owned());
    assert_eq!(pair.asked, [EditorEvent::Open { key: key.clone(), folder }]);
    pair.serve(EditorOrder::Opened { key, session: "s".to_owned() });
    assert!(matches!(pair.heard[0], AgentEvent::Ready(_)), "{:?}", pair.heard);
    pair
}

fn prompt() -> AgentOrder {
    AgentOrder::Prompt { text: "go".to_owned() }
}

#[test]
fn every_question_reaches_the_editor_however_many_are_open() {
    let mut pair = opened();
    pair.tell(prompt());
    for number in 0..300 {
        let order = EditorOrder::Ask {
            session: "s".to_owned(),
            key: format!("q{number}"),
            call: format!("c{number}"),
            title: "rm x".to_owned(),
            input: json!({ "command": "rm x" }),
            diffs: Vec::new(),
        };
        assert!(!pair.server.order(order).unwrap().is_empty(), "{number}");
    }
}

#[test]
fn a_prompt_with_a_plan_calls_and_a_question_ends_as_it_is_told() {
    let mut pair = opened();
    pair.tell(prompt());
    let (session, text) = ("s".to_owned(), "go".to_owned());
    let key = "editor-2".to_owned();
    assert_eq!(pair.asked.last(), Some(&EditorEvent::Prompt { session, key, text }));
    let part = |text: &str, progress| (text.to_owned(), progress);
    pair.update(EditorUpdate::Plan(vec![
        part("look", Progress::Done),
        part("do", Progress::Running),
        part("check", Progress::Pending),
    ]));
    pair.update(EditorUpdate::Thought("hm".to_owned()));
    let (id, title, input) = ("c".to_owned(), "rm x".to_owned(), json!({ "command": "rm x" }));
    let input_of = input.clone();
    let call = EditorUpdate::Call { id, title, kind: "execute", input: input_of, runs: false };
    pair.update(call);
    for (n, may) in [(1, true), (2, false)] {
        pair.serve(EditorOrder::Ask {
            session: "s".to_owned(),
            key: format!("q{n}"),
            call: "c".to_owned(),
            title: "rm x".to_owned(),
            input: input.clone(),
            diffs: Vec::new(),
        });
        let AgentEvent::Asks(ask) = pair.heard.last().unwrap() else { panic!("{:?}", pair.heard) };
        assert_eq!(ask.means, AgentMeans::Command("rm x".to_owned()));
        let (key, answer) = (ask.key.clone(), if may { Ok(None) } else { Err("no".to_owned()) });
        pair.tell(AgentOrder::Answer { key, may: answer });
        let key = format!("q{n}");
        assert_eq!(pair.asked.last(), Some(&EditorEvent::Answered { key, may, always: false }));
    }
    pair.update(EditorUpdate::CallEnded {
        id: "c".into(),
        ok: true,
        text: "gone".to_owned(),
        diffs: Vec::new(),
    });
    let ended = pair.heard.iter().any(
        |event| matches!(event, AgentEvent::ToolEnded { ok: true, text, .. } if text == "gone"),
    );
    assert!(ended, "{:?}", pair.heard);
    pair.update(EditorUpdate::Said("All done.".to_owned()));
    pair.serve(pair.ended(EditorEnd::Done));
    assert_eq!((&pair.turn().end, pair.turn().text.as_str()), (&AgentEnd::Done, "All done."));
}

#[test]
fn a_cancelled_prompt_ends_as_that_once_and_after_all_that_is_told_of_it() {
    let mut pair = opened();
    pair.tell(prompt());
    pair.tell(AgentOrder::Interrupt);
    assert_eq!(pair.asked.last(), Some(&EditorEvent::Cancel { session: "s".to_owned() }));
    pair.update(EditorUpdate::Said("I stop.".to_owned()));
    // The task may have come to its end by itself meanwhile.
    pair.serve(pair.ended(EditorEnd::Done));
    assert_eq!((&pair.turn().end, pair.turn().text.as_str()), (&AgentEnd::Interrupted, "I stop."));
    let (late, later) = (pair.ended(EditorEnd::Cancelled), pair.ended(EditorEnd::Done));
    assert_eq!(pair.server.order(late), Ok(Vec::new()));
    pair.tell(prompt());
    assert_eq!(pair.server.order(later), Ok(Vec::new()), "it is not the end of the next one");
    pair.serve(pair.ended(EditorEnd::Failed("the model cannot be had".to_owned())));
    assert_eq!(pair.turn().text, "the model cannot be had");
}

#[test]
fn a_session_of_another_process_is_loaded_or_said_to_be_gone() {
    let mut pair = Pair::new(Opening::Resume("old".to_owned()));
    let EditorEvent::Load { key, session, .. } = pair.asked[0].clone() else { panic!() };
    assert_eq!(session, "old");
    let update = EditorUpdate::Asked("what was asked".to_owned());
    pair.serve(EditorOrder::Update { session: session.clone(), update });
    pair.serve(EditorOrder::Opened { key, session });
    let expected = AgentEvent::Session { id: "old".to_owned() };
    assert_eq!(pair.heard.last(), Some(&expected));

    let mut lost = Pair::new(Opening::Resume("gone".to_owned()));
    let reason = "there is no such task".to_owned();
    lost.serve(EditorOrder::NotOpened { key: "editor-1".to_owned(), reason });
    assert_eq!(lost.turn().end, AgentEnd::NoSession);
}

#[test]
fn a_line_that_is_no_message_is_told_in_words() {
    let mut server = AcpServer::new("0.1");
    let events = server.read(b"nonsense\n", &mut Vec::new());
    let [EditorEvent::Strange { reason }] = &events[..] else { panic!("{events:?}") };
    assert_eq!(reason, "not JSON: expected ident at line 1 column 2: nonsense");
}

#[test]
fn a_request_that_is_too_long_is_refused_by_its_id_and_an_answer_that_is_one_is_nobodys() {
    let mut server = AcpServer::new("0.1");
    let long = "x".repeat(9 << 20);
    let mut refused = |beginning: &str| {
        let mut reply = Vec::new();
        server.read(format!("{beginning}{long}\"}}\n").as_bytes(), &mut reply);
        let answer: Value = serde_json::from_slice(&reply).unwrap();
        assert!(answer["error"]["message"].as_str().unwrap().contains("longer than"), "{answer}");
        answer["id"].clone()
    };
    let asked = |id: &str| {
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"session/prompt","params":{{"x":""#)
    };
    assert_eq!(refused(&asked("7")), 7);
    assert_eq!(refused(&asked("\"a\"")), "a");
    assert_eq!(refused(r#"{"jsonrpc":"2.0","id":7,"result":{"x":""#), Value::Null);
    assert_eq!(refused(r#"{"x":""#), Value::Null);
}

#[test]
fn requests_that_do_not_fit_are_refused_with_a_reason() {
    let mut server = AcpServer::new("0.1");
    let mut ask = |method: &str, params: Value| {
        let line = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let mut reply = Vec::new();
        let events = server.read(format!("{line}\n").as_bytes(), &mut reply);
        let answer: Value = serde_json::from_slice(&reply).unwrap_or_default();
        (events, answer["error"]["message"].as_str().unwrap_or_default().to_owned())
    };
    assert_eq!(ask("session/new", json!({ "cwd": "/w" })).1, "expected initialize first");
    assert_eq!(ask("initialize", json!({ "protocolVersion": 1 })).1, "");
    assert_eq!(ask("session/new", json!({ "cwd": "w" })).1, "cwd must be an absolute path");
    assert_eq!(ask("session/fly", json!({})).1, "session/fly is not served");
    let prompt = json!({ "sessionId": "x", "prompt": [] });
    assert_eq!(ask("session/prompt", prompt).1, "there is no session \"x\"");
    let mut pair = opened();
    for (prompt, said) in [
        (json!([]), "the prompt is empty"),
        (json!([{ "type": "image" }]), "was not offered"),
        (json!("text"), "a list of blocks"),
    ] {
        let params = json!({ "sessionId": "s", "prompt": prompt });
        let line =
            json!({ "jsonrpc": "2.0", "id": 9, "method": "session/prompt", "params": params });
        let mut reply = Vec::new();
        assert_eq!(pair.server.read(format!("{line}\n").as_bytes(), &mut reply), []);
        assert!(String::from_utf8_lossy(&reply).contains(said), "{said}");
    }
}

#[test]
fn an_editor_need_not_wait_for_the_end_of_what_it_cancelled() {
    let mut pair = opened();
    let mut read = |line: Value| {
        let mut reply = Vec::new();
        let events = pair.server.read(format!("{line}\n").as_bytes(), &mut reply);
        (events.len(), String::from_utf8(reply).unwrap())
    };
    let ask = |id: u64| {
        let params = json!({ "sessionId": "s", "prompt": [{ "type": "text", "text": "go" }] });
        json!({ "jsonrpc": "2.0", "id": id, "method": "session/prompt", "params": params })
    };
    assert_eq!(read(ask(7)), (1, String::new()));
    assert!(read(ask(8)).1.contains("a turn is under way"));
    let cancel =
        json!({ "jsonrpc": "2.0", "method": "session/cancel", "params": { "sessionId": "s" } });
    assert_eq!(read(cancel.clone()), (1, String::new()));
    assert_eq!(read(cancel), (0, String::new()), "once is enough");
    let (events, reply) = read(ask(9));
    let answer: Value = serde_json::from_str(&reply).unwrap();
    assert_eq!((events, &answer["id"]), (1, &json!(7)), "the next one is taken");
    assert_eq!(answer["result"]["stopReason"], "cancelled");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases / 4))]

    #[test]
    fn no_bytes_of_an_editor_break_it(pieces in proptest::collection::vec(any::<Vec<u8>>(), 0..8), at in any::<usize>()) {
        let mut server = AcpServer::new("0.1");
        let good = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{}}\n{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"session/new\",\"params\":{\"cwd\":\"/w\"}}\n";
        let cut = at % good.len();
        let mut reply = Vec::new();
        server.read(&good.as_bytes()[..cut], &mut reply);
        for piece in pieces {
            server.read(&piece, &mut reply);
        }
        server.read(&good.as_bytes()[cut..], &mut reply);
    }
}

#[test]
fn a_question_about_a_file_shows_what_would_change() {
    let mut pair = opened();
    pair.tell(prompt());
    let input =
        Arc::new(json!({ "path": "/w/a.txt", "old": "hello world", "new": "hello driver" }));
    let hash = CallHash::of("edit", &input);
    let told = Telling::default().ask(CallId(1), "edit", &input, "", hash);
    let Some(Told::Ask { title, input, diffs, .. }) = told.into_iter().next_back() else {
        panic!("it is asked about");
    };
    let (session, key, call) = ("s".to_owned(), "q".to_owned(), "t/c1".to_owned());
    let input = (*input).clone();
    let asked =
        pair.server.order(EditorOrder::Ask { session, key, call, title, input, diffs }).unwrap();
    let asked: Value = serde_json::from_slice(&asked).unwrap();
    let diff = json!({ "type": "diff", "path": "/w/a.txt", "oldText": "hello world", "newText": "hello driver" });
    assert_eq!(asked["params"]["toolCall"]["content"], json!([diff]));
}
