//! A model decides: the whole way from `--model` to a verdict, with a scripted model and no network.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};

use serde_json::Value;

use crate::environment::TestEnvironment;
use crate::fake::Server;

pub(crate) const SCRIPT: &str = r#"
[[reply]]
text = "I write one line."
tool_calls = [{ tool = "write", input = { path = "a.txt", content = "one\n" } }]
usage = { input = 100, output = 20 }

[[reply]]
text = "Done."
usage = { input = 120, output = 5 }

[[reply]]
match = "not accepted"
text = "The check wants two."
tool_calls = [{ tool = "write", input = { path = "a.txt", content = "one\ntwo\n" } }]
usage = { input = 130, output = 7 }

[[reply]]
text = "Now there are two."
usage = { input = 150, output = 3 }
"#;

pub(crate) fn count(events: &[Value], kind: &str) -> usize {
    events.iter().filter(|event| event["type"] == kind).count()
}

#[test]
fn a_scripted_model_works_until_the_check_passes() {
    let place = TestEnvironment::new();
    place.write("replies.toml", SCRIPT);
    let check = "test $(wc -l < a.txt) -eq 2";
    let ran = place.run(&[
        "run",
        "two lines",
        "--model",
        "script/replies.toml",
        "--in-place",
        "--check",
        check,
    ]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("verified: Now there are two."), "{}", ran.out);
    assert_eq!(place.read("a.txt"), "one\ntwo\n");
    let events = place.events(&place.id());
    assert_eq!(count(&events, "model_called"), 4);
    assert_eq!(place.show(&place.id())["spend"]["tokens"], 535);
}

/// Takes one request as it comes and refuses it; what came, head and body.
fn one_request(server: &TcpListener) -> (String, Vec<u8>) {
    let (stream, _) = server.accept().unwrap();
    let mut stream = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert_ne!(stream.read_line(&mut head).unwrap(), 0, "cut: {head}");
    }
    let lines = head.to_lowercase();
    let length = lines.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
    let mut body = vec![0; length.parse().unwrap()];
    stream.read_exact(&mut body).unwrap();
    let answer = "HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    stream.get_mut().write_all(answer.as_bytes()).unwrap();
    (head, body)
}

/// The goal of `docs/performance.md`, which says how many it is.
#[test]
fn the_first_request_of_a_task_with_all_tools_is_at_most_six_kilobytes() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", server.local_addr().unwrap());
    let place = TestEnvironment::new().with_variable("ANTHROPIC_BASE_URL", &url);
    let (ran, (head, body)) = std::thread::scope(|scope| {
        let came = scope.spawn(|| one_request(&server));
        let goal = "make the tests pass";
        let ran = place.run(&["run", goal, "--model", "anthropic/claude-sonnet-4-5", "--in-place"]);
        // Ends the wait, if nobody has asked.
        drop(TcpStream::connect(server.local_addr().unwrap()));
        (ran, came.join().unwrap())
    });
    assert_eq!(ran.code, 10, "{}{}", ran.out, ran.err);
    let sent: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(sent["tools"].as_array().unwrap().len(), 13, "{sent:#}");
    assert!(sent["system"].to_string().len() > 100, "{sent:#}");
    let bytes = head.len() + body.len();
    assert!(bytes <= 6 * 1024, "{bytes} bytes, of them {} of the body:\n{sent:#}", body.len());
}

#[test]
fn a_model_reads_the_projects_page_for_agents() {
    let place = TestEnvironment::new();
    place.write("AGENTS.md", "Always greet first.\n");
    place.trust();
    place.write("replies.toml", "[[reply]]\ntext = \"ok\"\n");
    place.ok(&["run", "x y", "--model", "script/replies.toml", "--in-place"]);
    let exported = place.ok(&["journal", "export", &place.id()]);
    assert!(exported.contains("The project's AGENTS.md:\\n\\nAlways greet first."), "{exported}");
}

#[test]
fn a_script_that_is_missing_or_wrong_starts_nothing() {
    let place = TestEnvironment::new();
    place.write("wrong.toml", "[[reply]]\ntxt = \"x\"\n");
    for (script, said) in [("none.toml", "none.toml"), ("wrong.toml", "did you mean \"text\"")] {
        let ran = place.run(&["run", "x y", "--model", &format!("script/{script}"), "--in-place"]);
        assert_eq!(ran.code, 2, "{}{}", ran.out, ran.err);
        assert!(ran.err.contains(said), "{}", ran.err);
    }
    let ran = place.run(&["run", "x y", "--driver", "llm"]);
    assert_eq!((ran.code, ran.err.contains("needs a model")), (2, true), "{}", ran.err);
    assert!(!place.home().join("journal").exists(), "nothing was recorded");
}

#[test]
fn a_killed_model_task_goes_on_and_never_asks_an_answered_question_again() {
    let place = TestEnvironment::new();
    let slow = SCRIPT.replacen("text = \"Done.\"", "text = \"Done.\"\ndelay = \"60s\"", 1);
    place.write("replies.toml", &slow);
    let background = place.start(&[
        "run",
        "two lines",
        "--model",
        "script/replies.toml",
        "--in-place",
        "--json",
    ]);
    let id = background.id.clone();
    place.until(|| (count(&place.events(&id), "model_called") == 2).then_some(()));
    background.signal("KILL");
    background.wait();
    place.write("replies.toml", SCRIPT);
    let ran = place.run(&["resume", &id, "--json"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let events = place.events(&id);
    // The second question was asked twice, because its first answer never came; the first was not.
    assert_eq!(count(&events, "model_called"), 3);
    assert_eq!(count(&events, "model_replied"), 2);
    assert_eq!(count(&events, "tool_started"), 1);
    assert_eq!(place.show(&id)["spend"]["tokens"], 245);
}

#[test]
fn a_task_that_failed_for_a_wrong_key_goes_on_as_it_says_once_that_is_mended() {
    let place = TestEnvironment::new();
    let refused = SCRIPT.replacen(
        "[[reply]]\ntext = \"Done.\"",
        "[[reply]]\nstatus = 401\n[[reply]]\ntext = \"Done.\"",
        1,
    );
    let server = Server::of(&place, &refused);
    let place = place
        .with_variable("ANTHROPIC_API_KEY", "some-key-4711")
        .with_variable("ANTHROPIC_BASE_URL", &format!("http://127.0.0.1:{}", server.port));
    let ran = place.run(&["run", "two lines", "--model", "anthropic/claude", "--in-place"]);
    assert_eq!(ran.code, 10, "{}{}", ran.out, ran.err);
    let id = place.id();
    let command = format!("drivetrain hand-over {id} --model anthropic/claude");
    let told = format!("  {command}  the same once more, when what failed is mended\n");
    assert!(ran.out.contains(&told), "{}", ran.out);
    assert!(place.run(&["resume", &id]).err.contains(&command));
    place.ok(&["hand-over", &id, "--model", "anthropic/claude"]);
    let ran = place.run(&["resume", &id]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert_eq!(place.show(&id)["spend"]["tool_calls"], 1, "it goes on where it was");
}

/// What a task went through, without what differs from run to run.
pub(crate) fn story(events: &[Value]) -> Vec<String> {
    let kept = |event: &Value| match event["type"].as_str().unwrap() {
        // Some dialects always send the other counters, as zeros.
        "model_replied" => {
            let (input, output) = (&event["usage"]["input"], &event["usage"]["output"]);
            Some(format!("{} {} {input} {output}", event["text"], event["tools"]))
        }
        "tool_started" => Some(format!("{} {}", event["tool"], event["input"])),
        "tool_ended" => Some(format!("{} {}", event["tool"], event["result"])),
        "model_failed" => Some(event["kind"].to_string()),
        "task_finished" => Some(format!("{} {}", event["outcome"], event["reason"])),
        _ => None,
    };
    events.iter().filter_map(kept).collect()
}

#[test]
fn the_same_conversation_goes_the_same_way_through_every_dialect_over_http() {
    let script = format!("[[reply]]\nstatus = 529\nretry_after = \"0s\"\n{SCRIPT}");
    let mut stories = Vec::new();
    for (dialect, path, flags) in [
        ("anthropic_messages", "", ""),
        ("openai_chat", "/v1", "max_completion_tokens = true"),
        ("openai_responses", "/v1", ""),
        ("google_generate", "", ""),
        (
            "openai_chat",
            "/mistral/v1",
            "short_tool_ids = true\ntool_choice_any = true\nno_stream_options = true",
        ),
    ] {
        let place = TestEnvironment::new();
        let server = Server::of(&place, &script);
        place.write(
            ".drivetrain/models.toml",
            &format!(
                "[provider.fake]\ndialect = \"{dialect}\"\nbase_url = \"http://127.0.0.1:{}{path}\"\n{flags}\n",
                server.port
            ),
        );
        let check = "test $(wc -l < a.txt) -eq 2";
        let ran =
            place.run(&["run", "two lines", "--model", "fake/m", "--in-place", "--check", check]);
        assert_eq!(ran.code, 0, "{dialect}{path}\n{}{}", ran.out, ran.err);
        stories.push((format!("{dialect}{path}"), story(&place.events(&place.id()))));
    }
    let (_, first) = &stories[0];
    assert!(first.iter().any(|line| line == "\"overloaded\""), "{first:?}");
    for (dialect, told) in &stories[1..] {
        assert_eq!(told, first, "{dialect} against {}", stories[0].0);
    }
}

#[test]
fn a_server_that_is_not_reached_through_a_proxy_is_told_with_it() {
    let place = TestEnvironment::new()
        .with_variable("ANTHROPIC_API_KEY", "some-key-4711")
        .with_variable("ANTHROPIC_BASE_URL", "https://models.invalid")
        .with_variable("HTTPS_PROXY", "http://me:hunter2@127.0.0.1:1");
    let run = ["run", "x y", "--model", "anthropic/m", "--in-place", "--max-time", "1s"];
    let ran = place.run(&run);
    assert_eq!(ran.code, 11, "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("cannot reach https://models.invalid: "), "{}", ran.out);
    assert!(ran.out.contains("; HTTPS_PROXY names a proxy to go through"), "{}", ran.out);
    assert!(!ran.out.contains("hunter2"), "{}", ran.out);
}
