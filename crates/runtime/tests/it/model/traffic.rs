//! Traffic that is recorded and replayed: the same answers without a server, and no key in any file.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use machine::message::{Message, ModelCall, ModelFailure, Reply, Retry, Usage};
use runtime::fake::{self, Fake};
use runtime::http::Limits;
use runtime::model::{Models, Recorder, Recording, Traffic};
use runtime::process::Cancel;
use runtime::providers::Environment;
use serde_json::Value;
use wire::model::script::Script;

use super::server::{HEAD, Server, chunk, plain, whole};
use super::{CHAT, KEY, call, short};

/// A provider for each dialect at one fake server, as the user's own file has it.
fn providers(folder: &Path, base: &str) {
    let mut text = String::new();
    for (name, dialect, path, flags) in [
        ("claude", "anthropic_messages", "", ""),
        ("chat", "openai_chat", "/v1", "max_completion_tokens = true\n"),
        ("responses", "openai_responses", "/v1", ""),
        ("google", "google_generate", "", ""),
        ("mistral", "openai_chat", "/mistral/v1", "short_tool_ids = true\n"),
    ] {
        text.push_str(&format!(
            "[provider.{name}]\ndialect = \"{dialect}\"\nbase_url = \"{base}{path}\"\nkey_env = \"A_KEY\"\n{flags}"
        ));
    }
    fs::write(folder.join("models.toml"), text).unwrap();
}

const PROVIDERS: [&str; 5] = ["claude", "chat", "responses", "google", "mistral"];

fn models(folder: &Path, variables: &[(&str, &str)], traffic: Traffic) -> Models {
    let environment = Environment::fixed(variables, Some(folder));
    Models::new(environment, short(5000, 5000, 5000)).carrying(traffic)
}

fn recording(folder: &Path) -> Traffic {
    Traffic::Record(Arc::new(Recorder::open(&folder.join("tapes")).unwrap()))
}

fn replaying(folder: &Path) -> Traffic {
    Traffic::Replay(Arc::new(Recording::load(&folder.join("tapes")).unwrap()))
}

fn ask(models: &Models, call: &ModelCall, folder: &Path) -> Result<Reply, ModelFailure> {
    models.call("task", call, folder, &Cancel::new(), &mut |_| {})
}

#[test]
fn a_schema_and_an_effort_go_to_whoever_takes_them() {
    let server = Server::repeating(plain("500 Oops", "", "{}"));
    let folder = tempfile::tempdir().unwrap();
    providers(folder.path(), &server.url());
    let schema = serde_json::json!({
        "type": "object", "properties": { "n": { "type": "integer" } }, "required": ["n"],
        "additionalProperties": false,
    });
    let sent = |model: &str| -> Value {
        let call = ModelCall {
            tools: Arc::from([]),
            effort: Some(machine::message::Effort::High),
            schema: Some(Arc::new(schema.clone())),
            ..call(model)
        };
        let models = models(folder.path(), &[("A_KEY", KEY)], Traffic::Live);
        ask(&models, &call, folder.path()).unwrap_err();
        serde_json::from_str(&server.requests().last().unwrap().body).unwrap()
    };
    let body = sent("claude/claude-opus-4-6");
    assert_eq!(body["output_config"]["format"]["schema"], schema, "{body}");
    assert_eq!(body["output_config"]["effort"], "high");
    let body = sent("chat/gpt-5");
    assert_eq!(body["response_format"]["json_schema"]["schema"], schema, "{body}");
    assert_eq!(body["reasoning_effort"], "high");
    let body = sent("responses/gpt-5");
    assert_eq!(body["text"]["format"]["schema"], schema, "{body}");
    assert_eq!(body["reasoning"]["effort"], "high");
    let body = sent("google/gemini-2.5-flash");
    assert_eq!(body["generationConfig"]["responseMimeType"], "application/json", "{body}");
    assert!(body["generationConfig"]["thinkingConfig"].is_object(), "{body}");
    // Nobody knows of this one whether it can.
    assert!(sent("mistral/other")["response_format"].is_null());
}

/// What decides about the next move: a failure's words name the server, which a recording does not.
type Told = Result<Reply, (String, Retry, Usage)>;

fn told(answer: Result<Reply, ModelFailure>) -> Told {
    answer.map_err(|failure| (failure.kind, failure.retry, failure.usage))
}

fn files(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder.join("tapes")).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

const SCRIPT: &str = r#"
[[reply]]
status = 429
retry_after = "7s"

[[reply]]
text = "This answer breaks off somewhere."
cut_after_bytes = 150

[[reply]]
error = "context_overflow"

[[reply]]
thinking = "Let me see."
text = "Grüße"
tool_calls = [{ tool = "read", id = "abcDEF123", input = { path = "ä.txt" } }]
usage = { input = 100, output = 20 }
"#;

#[test]
fn a_recording_answers_like_the_server_in_every_dialect_faults_included() {
    for provider in PROVIDERS {
        let script = Script::parse(SCRIPT, "script").unwrap();
        let server = Fake::bind(script, 0, fake::Limits::default()).unwrap();
        let base = server.url();
        std::thread::spawn(move || server.serve());
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        providers(folder, &base);
        let call = call(&format!("{provider}/m"));
        let live = models(folder, &[("A_KEY", KEY)], recording(folder));
        let first: Vec<Told> = (0..4).map(|_| told(ask(&live, &call, folder))).collect();
        assert_eq!(first[0].as_ref().unwrap_err().0, "rate_limited", "{provider}");
        assert_eq!(first[1].as_ref().unwrap_err().0, "stream_truncated", "{provider}");
        assert_eq!(first[2].as_ref().unwrap_err().0, "context_overflow", "{provider}");
        assert!(first[3].as_ref().unwrap().message.text().contains("Grüße"), "{provider}");

        // Nobody listens there, and no variable holds a key.
        providers(folder, "http://127.0.0.1:1");
        let replayed = models(folder, &[], replaying(folder));
        let second: Vec<Told> = (0..4).map(|_| told(ask(&replayed, &call, folder))).collect();
        assert_eq!(second, first, "{provider}");
        let failure = ask(&replayed, &call, folder).unwrap_err();
        assert_eq!((failure.kind.as_str(), failure.retry), ("replay_missing", Retry::Never));
        assert!(failure.message.contains("has 4 answers to this question"), "{failure:?}");
        // Another task, and another process, begin with the first.
        let again = models(folder, &[], replaying(folder));
        assert_eq!(told(ask(&again, &call, folder)), first[0]);
        let mut hear = |_: &mut Vec<wire::model::StreamEvent>| {};
        let other = replayed.call("other", &call, folder, &Cancel::new(), &mut hear);
        assert_eq!(told(other), first[0]);
    }
}

#[test]
fn a_recorded_exchange_is_a_private_file_with_everything_but_the_key() {
    // The server quotes the key, in two chunks, and in a header.
    let quoting = CHAT.replace("a.txt", KEY);
    let (one, two) = quoting.split_at(quoting.find(KEY).unwrap() + 5);
    let head =
        HEAD.replace("\r\n\r\n", &format!("\r\nx-request-id: {KEY}\r\nset-cookie: c\r\n\r\n"));
    let bytes = [head.as_bytes(), &chunk(one), &chunk(two), b"0\r\n\r\n"].concat();
    let server = Server::saying(bytes);
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    providers(folder, &server.url());
    let live = models(folder, &[("A_KEY", KEY)], recording(folder));
    let mut call = call("chat/m");
    call.messages = Arc::new(vec![Message::user(format!("The key is {KEY}.")).into()]);
    // Whoever knows the key does not repeat it either.
    runtime::redact::learn("A_KEY", KEY);
    let reply = format!("{:?}", ask(&live, &call, folder).unwrap());
    assert!(reply.contains("[redacted: ") && !reply.contains(KEY), "{reply}");

    let [name] = &files(folder)[..] else { panic!("{:?}", files(folder)) };
    let path = folder.join("tapes").join(name);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let text = fs::read_to_string(&path).unwrap();
    for secret in [KEY, &KEY[..8], "Bearer", "authorization", "set-cookie", "127.0.0.1"] {
        assert!(!text.contains(secret), "{secret}: {text}");
    }
    let kept: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(kept["v"], 1);
    assert_eq!(kept["provider"], "chat");
    assert_eq!(kept["dialect"], "openai_chat");
    assert_eq!((&kept["method"], &kept["path"]), (&"POST".into(), &"/chat/completions".into()));
    assert_eq!(kept["request"]["messages"][1]["content"], "The key is [key].");
    assert_eq!(kept["response"]["status"], 200);
    assert_eq!(kept["response"]["end"], "whole");
    // A question that holds the key is found where the key is known; anywhere else it says something else.
    for variables in [&[("A_KEY", KEY)][..], &[]] {
        let replayed = models(folder, variables, replaying(folder));
        let answer = ask(&replayed, &call, folder);
        assert_eq!(answer.is_ok(), !variables.is_empty(), "{answer:?}");
    }
}

#[test]
fn numbers_go_on_where_a_recording_ended() {
    let server = Server::repeating(whole(CHAT));
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    providers(folder, &server.url());
    for _ in 0..2 {
        let live = models(folder, &[("A_KEY", KEY)], recording(folder));
        ask(&live, &call("chat/m"), folder).unwrap();
    }
    let names = files(folder);
    assert!(names[0].starts_with("0001-") && names[1].starts_with("0002-"), "{names:?}");
    assert_eq!(names.len(), 2, "nothing else is left: {names:?}");
    assert_eq!(names[0][4..], names[1][4..], "the same question has the same digest");
}

#[test]
fn a_question_that_was_not_recorded_is_told_with_the_nearest_and_the_difference() {
    let server = Server::repeating(whole(CHAT));
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    providers(folder, &server.url());
    let live = models(folder, &[("A_KEY", KEY)], recording(folder));
    ask(&live, &call("chat/other"), folder).unwrap();
    ask(&live, &call("chat/m"), folder).unwrap();
    let mut changed = call("chat/m");
    changed.messages = Arc::new(vec![Message::user("Say goodbye.").into()]);
    let replayed = models(folder, &[], replaying(folder));
    let failure = ask(&replayed, &changed, folder).unwrap_err();
    assert_eq!((failure.kind.as_str(), failure.retry), ("replay_missing", Retry::Never));
    let nearest = &files(folder)[1];
    let expected = format!("the nearest, {nearest}, differs first in messages[1].content");
    assert!(failure.message.ends_with(&expected), "{}", failure.message);
    assert_eq!(server.requests().len(), 2, "nobody was asked");
}

#[test]
fn a_server_that_is_not_there_is_recorded_too() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    providers(folder, "http://127.0.0.1:1");
    let live = models(folder, &[("A_KEY", KEY)], recording(folder));
    let first = told(ask(&live, &call("chat/m"), folder));
    assert_eq!(first.as_ref().unwrap_err().0, "transport");
    let replayed = models(folder, &[], replaying(folder));
    assert_eq!(told(ask(&replayed, &call("chat/m"), folder)), first);
}

#[test]
fn a_call_that_was_stopped_is_no_exchange() {
    let server = Server::repeating(whole(CHAT));
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    providers(folder, &server.url());
    let live = models(folder, &[("A_KEY", KEY)], recording(folder));
    let cancel = Cancel::new();
    cancel.trigger();
    let ended = live.call("task", &call("chat/m"), folder, &cancel, &mut |_| {});
    assert_eq!(ended.unwrap_err().kind, "cancelled");
    assert_eq!(files(folder), Vec::<String>::new());
}

#[test]
fn what_cannot_be_recorded_fails_and_its_cost_is_counted() {
    let server = Server::repeating(whole(CHAT));
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    providers(folder, &server.url());
    let live = models(folder, &[("A_KEY", KEY)], recording(folder));
    fs::remove_dir_all(folder.join("tapes")).unwrap();
    let failure = ask(&live, &call("chat/m"), folder).unwrap_err();
    assert_eq!((failure.kind.as_str(), failure.retry), ("config", Retry::Never));
    assert!(failure.message.starts_with("cannot record into"), "{}", failure.message);
    assert_eq!(failure.usage.total(), 10);
}

#[test]
fn a_folder_that_cannot_be_used_says_so_before_anything_is_asked() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "x").unwrap();
    assert!(Recorder::open(&file).unwrap_err().contains("cannot record into"));
    assert!(Recorder::open(&file.join("below")).unwrap_err().contains("cannot record into"));
    assert!(Recording::load(&folder.path().join("none")).unwrap_err().contains("cannot replay"));
    assert!(Recording::load(folder.path()).unwrap_err().contains("nothing is recorded there"));
    fs::write(folder.path().join("0001-aa.json"), "{}").unwrap();
    let wrong = Recording::load(folder.path()).unwrap_err();
    assert!(wrong.contains("0001-aa.json") && wrong.contains("expected a recorded"), "{wrong}");
}

#[test]
fn an_error_page_is_replayed_with_its_status_and_headers() {
    let body = r#"{"type":"error","error":{"type":"rate_limit_error","message":"slow down"}}"#;
    let server = Server::saying(plain("429 Too Many Requests", "retry-after: 3\r\n", body));
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    providers(folder, &server.url());
    let live = models(folder, &[("A_KEY", KEY)], recording(folder));
    let first = ask(&live, &call("claude/m"), folder).unwrap_err();
    assert_eq!(first.retry, Retry::After(3000));
    let replayed = models(folder, &[], replaying(folder));
    assert_eq!(ask(&replayed, &call("claude/m"), folder).unwrap_err(), first);
}

#[test]
fn limits_of_the_network_do_not_matter_to_a_replay() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let server = Server::repeating(whole(CHAT));
    providers(folder, &server.url());
    let live = models(folder, &[("A_KEY", KEY)], recording(folder));
    let first = ask(&live, &call("chat/m"), folder).unwrap();
    let none = Limits { total: std::time::Duration::ZERO, ..Limits::default() };
    let environment = Environment::fixed(&[], Some(folder));
    let replayed = Models::new(environment, none).carrying(replaying(folder));
    assert_eq!(ask(&replayed, &call("chat/m"), folder).unwrap(), first);
}
