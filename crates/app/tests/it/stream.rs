//! The live stream as a program reads it: `--json --stream`.

use machine::stream::StreamEvent;
use serde_json::{Value, json};
use view::stream::message::{Assistant, End, Message, MessageLayer, Said};

use crate::environment::TestEnvironment;
use crate::fake::Server;
use crate::pty::Screen;

const SCRIPT: &str = r#"
[[reply]]
status = 529
retry_after = "0s"

[[reply]]
thinking = "One file is there and one is not."
text = "I write one and look at another,\nboth at once."
usage = { input = 100, output = 20 }

[[reply.tool_calls]]
tool = "write"
id = "abcdefgh1"
input = { path = "a.txt", content = "one\n" }

[[reply.tool_calls]]
tool = "read"
id = "abcdefgh2"
input = { path = "missing.txt" }

[[reply]]
text = "Done."
usage = { input = 120, output = 5 }
"#;

/// The lines of a run, the stream's apart from the events.
fn lines(out: &str) -> (Vec<Value>, Vec<StreamEvent>) {
    let all = out.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let (streamed, events): (Vec<Value>, Vec<Value>) =
        all.partition(|line| !line["stream"].is_null());
    let streamed = streamed.into_iter().map(|line| {
        assert_eq!((&line["v"], &line["task"]), (&json!(1), &events[0]["task"]));
        serde_json::from_value(line["stream"].clone()).unwrap()
    });
    (events.clone(), streamed.collect())
}

/// The types in order; deltas that follow each other are one, because how they are joined is a matter of time.
fn outline(events: &[StreamEvent]) -> Vec<String> {
    let mut outline: Vec<String> = Vec::new();
    for event in events {
        let event = serde_json::to_value(event).unwrap();
        let kind = event["type"].as_str().unwrap();
        // How often counters come differs.
        if kind == "message_delta" {
            continue;
        }
        let id =
            event["id"].as_str().filter(|_| kind.starts_with("tool") || kind.starts_with("input"));
        let word = format!("{kind} {}", id.unwrap_or_default()).trim_end().to_owned();
        if outline.last() != Some(&word) || !kind.ends_with("_delta") {
            outline.push(word);
        }
    }
    outline
}

fn answers(events: &[StreamEvent]) -> Vec<Assistant> {
    let mut layer = MessageLayer::default();
    events
        .iter()
        .filter_map(|event| match layer.push(event) {
            Some(Message::Assistant(answer)) => Some(answer),
            _ => None,
        })
        .collect()
}

#[test]
fn every_dialect_streams_the_same_words_in_the_same_order_over_http() {
    for (dialect, path, flags) in [
        ("anthropic_messages", "", ""),
        ("openai_chat", "/v1", "max_completion_tokens = true"),
        ("openai_responses", "/v1", ""),
        ("google_generate", "", ""),
        ("openai_chat", "/mistral/v1", "short_tool_ids = true\nno_stream_options = true"),
    ] {
        let place = TestEnvironment::new();
        let server = Server::of(&place, SCRIPT);
        let port = server.port;
        let url = format!("base_url = \"http://127.0.0.1:{port}{path}\"\n{flags}\n");
        place.write(
            ".drivetrain/models.toml",
            &format!("[provider.fake]\ndialect = \"{dialect}\"\n{url}"),
        );
        let run = ["run", "two files", "--model", "fake/m", "--in-place", "--json", "--stream"];
        let ran = place.run(&run);
        assert_eq!(ran.code, 0, "{dialect}{path}\n{}{}", ran.out, ran.err);
        let (events, streamed) = lines(&ran.out);
        let outline = outline(&streamed);
        // The chat dialects say only at the end that a call is whole, and tools end when they end.
        let varies =
            |word: &String| word.starts_with("tool_use_stop") || word.starts_with("tool_result");
        let (varying, fixed): (Vec<String>, Vec<String>) =
            outline.iter().cloned().partition(varies);
        assert_eq!(varying.len(), 4, "{dialect}{path}");
        assert_eq!(
            fixed,
            [
                "error",
                "message_start",
                "thinking_delta",
                "text_delta",
                "tool_use_start abcdefgh1",
                "input_json_delta abcdefgh1",
                "tool_use_start abcdefgh2",
                "input_json_delta abcdefgh2",
                "message_stop",
                "message_start",
                "text_delta",
                "message_stop",
            ],
            "{dialect}{path}"
        );
        for id in ["abcdefgh1", "abcdefgh2"] {
            let of_call = |word: &&String| word.ends_with(id) || *word == "message_stop";
            let way: Vec<&str> = outline
                .iter()
                .filter(of_call)
                .map(|word| word.split(' ').next().unwrap())
                .collect();
            assert_eq!(
                way,
                [
                    "tool_use_start",
                    "input_json_delta",
                    "tool_use_stop",
                    "message_stop",
                    "tool_result",
                    "message_stop"
                ],
                "{dialect}{path} {id}"
            );
        }
        // What was streamed is what was journaled.
        let replied: Vec<&Value> =
            events.iter().filter(|event| event["type"] == "model_replied").collect();
        let answers = answers(&streamed);
        assert_eq!(answers.len(), replied.len());
        for (answer, replied) in answers.iter().zip(replied) {
            let tools = answer.blocks.iter().filter_map(|said| match said {
                Said::ToolUse { name, .. } => Some(name.as_str()),
                Said::Text(_) | Said::Thinking(_) => None,
            });
            let told = json!({
                "text": answer.text(), "tools": tools.collect::<Vec<_>>(), "stop": answer.stop, "usage": answer.usage,
            });
            for (key, value) in told.as_object().unwrap() {
                assert_eq!(*value, replied[key], "{dialect}{path} {key}");
            }
            assert_eq!((&answer.end, answer.missing), (&End::Whole, 0));
        }
        // The events are those of a run without it, to the last.
        assert_eq!(events, place.events(&place.id()), "{dialect}{path}");
        assert!(ran.out.lines().last().unwrap().contains("\"task_finished\""));
    }
}

#[test]
fn an_event_comes_after_what_it_adds_to_the_stream() {
    let place = TestEnvironment::new();
    place.write("replies.toml", "[[reply]]\ntext = \"cut\"\ncut_after_bytes = 9\nrepeat = true\n");
    let run = ["run", "x y", "--model", "script/replies.toml", "--in-place", "--json", "--stream"];
    let background = place.start(&run);
    place.until(|| {
        let failed = |event: &Value| event["type"] == "model_failed";
        place.events(&background.id).iter().any(failed).then_some(())
    });
    place.ok(&["cancel", &background.id]);
    let ran = background.wait();
    let words: Vec<Value> = ran
        .out
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .map(|line| {
            if line["stream"].is_null() {
                line["type"].clone()
            } else {
                line["stream"]["type"].clone()
            }
        })
        .collect();
    let place_of = |word: &str| words.iter().position(|found| found == word).unwrap();
    assert!(place_of("error") + 1 == place_of("model_failed"), "{words:?}");
    assert!(place_of("interrupted") + 1 == place_of("task_finished"), "{words:?}");
}

#[test]
fn the_stream_is_printed_only_where_it_was_asked_for_and_can_be() {
    let place = TestEnvironment::new();
    place.write("replies.toml", "[[reply]]\ntext = \"ok\"\nrepeat = true\n");
    let run = ["run", "x y", "--model", "script/replies.toml", "--in-place"];
    let quiet = place.ok(&[&run[..], &["--json"]].concat());
    assert!(!quiet.contains("\"stream\""), "{quiet}");
    let refused = place.run(&[&run[..], &["--stream"]].concat());
    assert_eq!((refused.code, refused.err.contains("--stream needs --json")), (2, true));
}

/// A place with an agent that plays this: lines of its protocol and other steps.
fn played(steps: &[String]) -> TestEnvironment {
    let place = TestEnvironment::new();
    let init = json!({ "type": "system", "subtype": "init", "session_id": "s1",
        "permissionMode": "default" });
    place.write("steps.txt", &format!("{init}\n{}\n", steps.join("\n")));
    let command = [env!("CARGO_BIN_EXE_drivetrain"), "fake", "agent", "steps.txt"];
    place.write(
        ".drivetrain/agents/played.toml",
        &format!(
            "[agent]\nname = \"played\"\nprotocol = \"claude\"\nidle = \"60s\"\ncommand = {command:?}\n"
        ),
    );
    place
}

/// What an agent says, in whole blocks.
fn answer(id: &str, blocks: &Value) -> String {
    let message = json!({ "id": id, "role": "assistant", "content": blocks });
    json!({ "type": "assistant", "message": message, "session_id": "s1" }).to_string()
}

fn words(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

const AGENT: [&str; 5] = ["--agent", "played", "--in-place", "--no-sandbox", "--trust"];

/// An agent that thinks, speaks, uses a tool, and speaks again.
fn talkative() -> TestEnvironment {
    let ends = json!({ "type": "result", "subtype": "success", "is_error": false,
        "result": "Done.", "session_id": "s1" });
    let thinks = json!({ "type": "thinking", "thinking": "Is it there?" });
    played(&[
        answer("m1", &json!([thinks, words("I look.\nThen I list it.")])),
        "ask ls".to_owned(),
        answer("m2", &json!([words("It is there.")])),
        answer("m3", &json!([words("Done.")])),
        ends.to_string(),
    ])
}

#[test]
fn what_an_agent_says_and_thinks_is_streamed_as_a_models_words_are() {
    let place = talkative();
    let ran = place.run(&[&["run", "x y", "--json", "--stream"], &AGENT[..]].concat());
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let (events, streamed) = lines(&ran.out);
    let answers = answers(&streamed);
    let said: Vec<String> =
        answers.iter().map(Assistant::text).filter(|text| !text.is_empty()).collect();
    assert_eq!(said, ["I look.\nThen I list it.", "It is there.", "Done."], "{}", ran.out);
    assert!(answers.iter().all(|answer| answer.end == End::Whole), "{answers:?}");
    assert_eq!(answers[0].blocks[0], Said::Thinking("Is it there?".to_owned()));
    let journaled: Vec<&Value> =
        events.iter().filter(|e| e["type"] == "agent_said").map(|e| &e["text"]).collect();
    assert_eq!(journaled, said.iter().collect::<Vec<_>>(), "the same words");
    assert_eq!(events, place.events(&place.id()));
    assert!(ran.out.lines().last().unwrap().contains("\"task_finished\""));
}

#[test]
fn an_answer_of_an_agent_that_is_stopped_has_an_end() {
    let place = played(&[
        answer("m1", &json!([words("I begin.")])),
        "run touch begun.txt\nsleep 300".to_owned(),
    ]);
    let background = place.start(&[&["run", "x y", "--json", "--stream"], &AGENT[..]].concat());
    place.until_file("begun.txt");
    place.ok(&["cancel", &background.id]);
    let (_, streamed) = lines(&background.wait().out);
    assert_eq!(outline(&streamed), ["message_start", "text_delta", "interrupted"]);
}

#[test]
fn a_person_at_a_terminal_reads_an_agents_words_once() {
    let place = talkative();
    let mut screen = Screen::start(&place, &[&["run", "x y"], &AGENT[..]].concat());
    screen.until("says: I look.").until("Then I list it.").until("says: It is there.");
    screen.until("says: Done.").until("completed");
    let shown = screen.shown();
    for line in ["says: I look.", "  Then I list it.", "says: It is there.", "says: Done."] {
        assert_eq!(shown.matches(line).count(), 1, "{line}: {shown}");
    }
    assert_eq!(screen.end(), 0);
}
