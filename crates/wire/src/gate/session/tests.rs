//! Lines in, reactions out.

use machine::server::{Claim, Limits, offers};
use machine::tool::{Status, ToolResult};
use proptest::prelude::*;

use super::*;

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}"#;

fn toolbox() -> Toolbox {
    let claim = Claim { name: "look".to_owned(), ..Claim::default() };
    let limits = Limits { only: None, trust_annotations: false };
    Toolbox::new(&offers("s", vec![claim], limits).tools, Some("/a b/ü".to_owned()))
}

fn session() -> Session {
    let mut session = Session::default();
    assert!(answer(session.take(INITIALIZE.as_bytes(), &toolbox()))["result"].is_object());
    session
}

fn answer(reaction: Reaction) -> Value {
    match reaction {
        Reaction::Answer(line) | Reaction::Close(Some(line)) => {
            assert!(!line.contains('\n'), "{line:?}");
            serde_json::from_str(&line).unwrap()
        }
        other => panic!("{other:?}"),
    }
}

fn code(line: &str) -> i64 {
    answer(session().take(line.as_bytes(), &toolbox()))["error"]["code"].as_i64().unwrap()
}

fn call(params: &str) -> Reaction {
    let line = format!(r#"{{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{params}}}"#);
    session().take(line.as_bytes(), &toolbox())
}

#[test]
fn the_handshake_comes_first_and_once() {
    let mut session = Session::default();
    let list = br#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    assert_eq!(answer(session.take(list, &toolbox()))["error"]["code"], code::NOT_INITIALIZED);
    // A newer client looks first whether there is another way.
    let discover = br#"{"jsonrpc":"2.0","id":0,"method":"server/discover","params":{}}"#;
    assert_eq!(answer(session.take(discover, &toolbox()))["error"]["code"], code::METHOD_NOT_FOUND);
    let said = answer(session.take(INITIALIZE.as_bytes(), &toolbox()));
    assert_eq!(said["result"]["protocolVersion"], "2025-06-18");
    let initialized = br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    assert_eq!(session.take(initialized, &toolbox()), Reaction::Ignore);
    let again = answer(session.take(INITIALIZE.as_bytes(), &toolbox()));
    assert_eq!(again["error"]["code"], code::INVALID_REQUEST);
    for (asked, spoken) in [("2025-11-25", "2025-11-25"), ("1.0", "2025-06-18")] {
        let line = INITIALIZE.replace("2025-06-18", asked);
        let said = answer(Session::default().take(line.as_bytes(), &toolbox()));
        assert_eq!(said["result"]["protocolVersion"], spoken);
    }
}

#[test]
fn a_line_that_is_no_request_has_its_code() {
    for (line, expected) in [
        ("[]", code::INVALID_REQUEST),
        (r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, code::INVALID_REQUEST),
        ("\"x\"", code::INVALID_REQUEST),
        ("null", code::INVALID_REQUEST),
        (r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, code::INVALID_REQUEST),
        (r#"{"id":1,"method":"ping"}"#, code::INVALID_REQUEST),
        (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, code::INVALID_REQUEST),
        (r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, code::INVALID_REQUEST),
        (r#"{"jsonrpc":"2.0","id":true,"method":"ping"}"#, code::INVALID_REQUEST),
        (r#"{"jsonrpc":"2.0","id":[1],"method":"ping"}"#, code::INVALID_REQUEST),
        (r#"{"jsonrpc":"2.0","id":1,"method":5}"#, code::INVALID_REQUEST),
        (r#"{"jsonrpc":"2.0","id":1}"#, code::INVALID_REQUEST),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping","approved":true}"#, code::INVALID_REQUEST),
        (r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#, code::PARSE),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping""#, code::PARSE),
        (r#"{"jsonrpc":"2.0","id":1,"method":"no/such"}"#, code::METHOD_NOT_FOUND),
        (r#"{"jsonrpc":"2.0","id":1,"method":"Ping"}"#, code::METHOD_NOT_FOUND),
        (r#"{"jsonrpc":"2.0","id":1,"method":"approve","params":[]}"#, code::METHOD_NOT_FOUND),
        (r#"{"jsonrpc":"2.0","id":1,"method":"permission/resolve"}"#, code::METHOD_NOT_FOUND),
        (r#"{"jsonrpc":"2.0","id":1,"method":"resources/read"}"#, code::METHOD_NOT_FOUND),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call"}"#, code::INVALID_PARAMS),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":[]}"#, code::INVALID_PARAMS),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"2"}}"#,
            code::INVALID_PARAMS,
        ),
    ] {
        assert_eq!(code(line), expected, "{line}");
    }
}

#[test]
fn what_speaks_something_else_is_closed_and_an_empty_line_is_nothing() {
    for line in ["GET / HTTP/1.1\r", "Content-Length: 10\r", "\u{1}\u{2}"] {
        let reaction = session().take(line.as_bytes(), &toolbox());
        assert!(matches!(reaction, Reaction::Close(Some(_))), "{line}: {reaction:?}");
    }
    assert_eq!(session().take(b"", &toolbox()), Reaction::Ignore);
    assert_eq!(session().take(b" \r", &toolbox()), Reaction::Ignore);
}

#[test]
fn an_answer_that_nobody_asked_for_is_ignored() {
    for line in [
        r#"{"jsonrpc":"2.0","id":1,"result":{"behavior":"allow"}}"#,
        r#"{"jsonrpc":"2.0","id":"c1","error":{"code":0,"message":"ok"}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/approved","params":{"call":1}}"#,
    ] {
        assert_eq!(session().take(line.as_bytes(), &toolbox()), Reaction::Ignore, "{line}");
    }
}

#[test]
fn a_call_names_its_tool_byte_for_byte() {
    let expected = Reaction::Call {
        id: RequestId::Text("a".to_owned()),
        key: None,
        tool: "shell".to_owned(),
        input: json!({ "command": "ls" }),
        progress: None,
    };
    assert_eq!(call(r#"{"name":"shell","arguments":{"command":"ls"}}"#), expected);
    for name in
        ["SHELL", "shell ", "sh\\u0435ll", "shell\\u0000", "", "approve", "bash", "validator.run"]
    {
        let said = answer(call(&format!(r#"{{"name":"{name}","arguments":{{}}}}"#)));
        assert_eq!(said["error"]["code"], code::INVALID_PARAMS, "{name}");
    }
    let Reaction::Call { tool, input, .. } = call(r#"{"name":"validator_run"}"#) else { panic!() };
    assert_eq!((tool.as_str(), input), ("validator.run", json!({})));
    assert!(matches!(call(r#"{"name":"mcp__s__look"}"#), Reaction::Call { .. }));
}

#[test]
fn nothing_beside_the_call_changes_it() {
    let Reaction::Call { input, key, .. } = call(
        r#"{"name":"shell","arguments":{"command":"ls"},"_meta":{"approved":true,"decision":"allow","drivetrain/key":"k1"}}"#,
    ) else {
        panic!()
    };
    assert_eq!((input, key.as_deref()), (json!({ "command": "ls" }), Some("k1")));
    for params in [
        r#"{"name":"shell","arguments":{"command":"ls"},"goal_id":"t2"}"#,
        r#"{"name":"shell","arguments":"ls"}"#,
        r#"{"name":"shell","_meta":[]}"#,
        r#"{"name":"shell","_meta":{"drivetrain/key":""}}"#,
        r#"{"name":"shell","_meta":{"drivetrain/key":"a b"}}"#,
        r#"{"name":["shell"]}"#,
    ] {
        assert_eq!(answer(call(params))["error"]["code"], code::INVALID_PARAMS, "{params}");
    }
    let twice = call(r#"{"name":"read","name":"shell","arguments":{}}"#);
    assert_eq!(answer(twice)["error"]["code"], code::PARSE);
}

#[test]
fn the_list_and_the_roots_show_what_there_is_and_no_more() {
    let list = br#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#;
    let said = answer(session().take(list, &toolbox()));
    let tools = said["result"]["tools"].as_array().unwrap();
    assert_eq!(tools.len(), machine::tool::TOOLS.len() + 1);
    assert_eq!(tools.last().unwrap()["name"], "mcp__s__look");
    assert!(tools.iter().all(|tool| tool["inputSchema"]["type"] == "object"));
    let roots = br#"{"jsonrpc":"2.0","id":2,"method":"roots/list"}"#;
    let said = answer(session().take(roots, &toolbox()));
    assert_eq!(said["result"], json!({ "roots": [{ "uri": "file:///a%20b/%C3%BC" }] }));
}

#[test]
fn a_request_is_taken_back_by_its_id() {
    let line = br#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7,"reason":"late"}}"#;
    assert_eq!(session().take(line, &toolbox()), Reaction::Withdraw(RequestId::Number(7)));
}

#[test]
fn a_result_says_how_it_ended() {
    let id = RequestId::Number(3);
    let denied = ToolResult::ended(Status::Denied, "no\nnever");
    let said = answer(Reaction::Answer(result(&id, &denied)));
    assert_eq!(said["result"]["isError"], true);
    assert_eq!(said["result"]["_meta"]["drivetrain/status"], "denied");
    let ok = ToolResult { exit: Some(0), ..ToolResult::ok("fine") };
    let said = answer(Reaction::Answer(result(&id, &ok)));
    assert_eq!(said["result"]["isError"], false);
    assert_eq!(said["result"]["_meta"]["drivetrain/exit"], 0);
    assert_eq!(answer(Reaction::Answer(refused(&id, "late")))["error"]["code"], code::REFUSED);
}

/// Lines that are nearly right.
fn nearly() -> impl Strategy<Value = String> {
    let field = prop::sample::select(vec![
        r#""jsonrpc":"2.0""#,
        r#""id":1"#,
        r#""id":null"#,
        r#""id":"x""#,
        r#""method":"tools/call""#,
        r#""method":"initialize""#,
        r#""method":"ping""#,
        r#""params":{}"#,
        r#""params":[]"#,
        r#""params":{"name":"shell","arguments":{"command":"ls"}}"#,
        r#""result":{}"#,
        r#""x":1"#,
    ]);
    prop::collection::vec(field, 0..6).prop_map(|fields| format!("{{{}}}", fields.join(",")))
}

proptest! {
    #[test]
    fn any_line_has_one_reaction_and_a_call_only_comes_of_a_whole_request(
        line in prop_oneof![nearly(), ".{0,60}"]
    ) {
        let mut fresh = Session::default();
        let called = matches!(fresh.take(line.as_bytes(), &toolbox()), Reaction::Call { .. });
        prop_assert!(!called);
        match session().take(line.as_bytes(), &toolbox()) {
            Reaction::Call { .. } => {
                let value: Value = serde_json::from_str(&line).unwrap();
                prop_assert_eq!(&value["method"], "tools/call");
                prop_assert_eq!(line.matches("\"id\"").count(), 1);
            }
            Reaction::Answer(text) | Reaction::Close(Some(text)) => {
                prop_assert!(serde_json::from_str::<Value>(&text).is_ok() && !text.contains('\n'));
            }
            Reaction::Close(None) | Reaction::Ignore | Reaction::Withdraw(_) => {}
        }
    }
}

#[test]
fn a_line_that_is_too_long_is_answered_with_its_id_where_that_stands_at_its_beginning() {
    let id = |beginning: &str| {
        let said: Value = serde_json::from_str(&super::too_long(beginning)).unwrap();
        said["id"].clone()
    };
    let params = "\"method\":\"tools/call\",\"params\":{\"id\":9,\"goal\":\"aaaa";
    assert_eq!(id(&format!("{{\"jsonrpc\":\"2.0\",\"id\":7,{params}")), 7);
    assert_eq!(id(&format!(" {{ \"id\" : \"x\" , {params}")), "x");
    for unknown in [
        "",
        "aaaa",
        "{\"jsonrpc\":\"2.0\",\"id\":12",
        "{\"id\":[7],\"method\":\"ping\"",
        "{\"id\" 7, \"method\":\"ping\"",
        &format!("{{\"jsonrpc\":\"2.0\",{params}"),
    ] {
        assert_eq!(id(unknown), Value::Null, "{unknown}");
    }
}
