//! Keys: where they come from, and where they never go.

use std::fs;
use std::path::Path;

use machine::message::Retry;
use runtime::http::Limits;
use runtime::model::Models;
use runtime::process::Cancel;
use runtime::providers::{Environment, KeyState, Providers, Secret, Source};

use super::server::{Server, plain, whole};
use super::{ANTHROPIC, CHAT, KEY, Rig, call, empty};

#[test]
fn a_missing_key_names_the_variable_to_set() {
    for (model, variable) in [
        ("anthropic/claude", "ANTHROPIC_API_KEY"),
        ("openai/gpt", "OPENAI_API_KEY"),
        ("google/gemini", "GEMINI_API_KEY or GOOGLE_API_KEY"),
        ("mistral/small", "MISTRAL_API_KEY"),
        ("openrouter/any/model", "OPENROUTER_API_KEY"),
    ] {
        let models = Models::new(Environment::fixed(&[], None), Limits::default());
        let failure =
            models.call("t", &call(model), empty(), &Cancel::new(), &mut |_| {}).unwrap_err();
        assert_eq!((failure.kind.as_str(), failure.retry), ("no_key", Retry::Never));
        assert!(failure.message.ends_with(&format!("set {variable}")), "{}", failure.message);
    }
}

#[test]
fn a_key_that_a_server_quotes_is_covered_up() {
    for (status, kind) in [("401 Unauthorized", "auth"), ("500 Oops", "server")] {
        let body = format!(
            r#"{{"type":"error","error":{{"type":"authentication_error","message":"not a key: {KEY}!"}}}}"#
        );
        let server = Server::saying(plain(status, "", &body));
        let failure = Rig::new(&server).fails("anthropic/claude");
        assert_eq!(failure.kind, kind);
        assert!(failure.message.contains("[key]!"), "{}", failure.message);
    }
}

#[test]
fn a_secret_shows_nothing() {
    let environment = Environment::fixed(&[("ANTHROPIC_API_KEY", KEY)], None);
    let models = Models::new(environment.clone(), Limits::default());
    for shown in [
        format!("{:?}", Secret::new(KEY)),
        format!("{environment:#?}"),
        format!("{models:?}"),
        format!("{:?}", Providers::of(empty(), &environment).unwrap()),
    ] {
        assert!(!shown.contains(KEY), "{shown}");
    }
}

#[test]
fn what_is_no_key_is_not_sent_and_not_shown() {
    let server = Server::saying(whole(ANTHROPIC));
    let variables = [("ANTHROPIC_API_KEY", "two wörds"), ("ANTHROPIC_BASE_URL", &server.url())];
    let models = Models::new(Environment::fixed(&variables, None), Limits::default());
    let failure = models
        .call("t", &call("anthropic/claude"), empty(), &Cancel::new(), &mut |_| {})
        .unwrap_err();
    assert_eq!(failure.kind, "no_key");
    assert!(!failure.message.contains("two"), "{}", failure.message);
    assert_eq!(server.connections(), 0);
}

#[test]
fn a_key_command_is_asked_once_and_again_after_a_refusal() {
    let server = Server::new(|number, stream| {
        use std::io::Write;
        let refused = plain("401 Unauthorized", "", r#"{"error":{"message":"expired"}}"#);
        let answer = if number == 2 { refused } else { whole(CHAT) };
        stream.write_all(&answer).is_ok()
    });
    let user = tempfile::tempdir().unwrap();
    let text = format!(
        "[provider.here]\ndialect = \"openai_chat\"\nbase_url = \"{}\"\n\
        key_command = [\"sh\", \"-c\", \"echo x >> asked; echo {KEY}\"]\n",
        server.url()
    );
    fs::write(user.path().join("models.toml"), text).unwrap();
    let environment = Environment::fixed(&[], Some(user.path()));
    let models = Models::new(environment, Limits::default());
    let asked = || fs::read_to_string(user.path().join("asked")).unwrap().len() / 2;
    let ask = || models.call("t", &call("here/small"), empty(), &Cancel::new(), &mut |_| {});
    ask().unwrap();
    ask().unwrap();
    assert_eq!(asked(), 1);
    let failure = ask().unwrap_err();
    assert_eq!((failure.kind.as_str(), asked()), ("auth", 1));
    assert_eq!(failure.retry, Retry::Backoff, "it may have run out: a fresh one may do");
    ask().unwrap();
    assert_eq!(asked(), 2);
    assert!(server.requests().iter().all(|r| r.has(&format!("authorization: Bearer {KEY}"))));
}

#[test]
fn a_key_command_that_many_need_at_once_runs_once() {
    let server = Server::repeating(whole(CHAT));
    let user = tempfile::tempdir().unwrap();
    let base = server.url();
    // It waits until somebody opens the gate.
    let text = format!(
        "[provider.here]\ndialect = \"openai_chat\"\nbase_url = \"{base}\"\n\
        key_command = [\"sh\", \"-c\", \"echo x >> asked; read go < gate; echo {KEY}\"]\n"
    );
    fs::write(user.path().join("models.toml"), text).unwrap();
    let gate = user.path().join("gate");
    let made = std::process::Command::new("mkfifo").arg(&gate).status().unwrap();
    assert!(made.success());
    let asked = || fs::read_to_string(user.path().join("asked")).unwrap_or_default().len() / 2;
    let models = Models::new(Environment::fixed(&[], Some(user.path())), Limits::default());
    let ask = |task: &str, cancel: &Cancel| {
        models.call(task, &call("here/small"), empty(), cancel, &mut |_| {})
    };
    let stopped = Cancel::new();
    std::thread::scope(|scope| {
        let first = scope.spawn(|| ask("first", &stopped));
        while asked() == 0 {
            std::thread::yield_now();
        }
        let others = ["a", "b", "c"].map(|task| scope.spawn(move || ask(task, &Cancel::new())));
        // Whoever began it may be stopped: then it runs once more for the others.
        stopped.trigger();
        assert_eq!(first.join().unwrap().unwrap_err().kind, "cancelled");
        while asked() == 1 {
            std::thread::yield_now();
        }
        fs::write(&gate, "go\n").unwrap();
        for other in others {
            other.join().unwrap().unwrap();
        }
    });
    assert_eq!(asked(), 2);
}

#[test]
fn a_key_that_is_refused_as_it_comes_from_its_command_is_not_tried_again() {
    let refused = plain("401 Unauthorized", "", r#"{"error":{"message":"unknown"}}"#);
    let server = Server::repeating(refused);
    let user = tempfile::tempdir().unwrap();
    let base = server.url();
    let text = format!(
        "[provider.here]\ndialect = \"openai_chat\"\nbase_url = \"{base}\"\nkey_command = [\"echo\", \"{KEY}\"]\n"
    );
    fs::write(user.path().join("models.toml"), text).unwrap();
    let models = Models::new(Environment::fixed(&[], Some(user.path())), Limits::default());
    let failure =
        models.call("t", &call("here/small"), empty(), &Cancel::new(), &mut |_| {}).unwrap_err();
    assert_eq!((failure.kind.as_str(), failure.retry), ("auth", Retry::Never));
}

#[test]
fn a_failing_key_command_tells_nothing_of_what_it_printed() {
    let user = tempfile::tempdir().unwrap();
    let text = format!(
        "[provider.here]\ndialect = \"openai_chat\"\nbase_url = \"http://127.0.0.1:1\"\n\
        key_command = [\"sh\", \"-c\", \"echo {KEY}; echo {KEY} >&2; exit 3\"]\n"
    );
    fs::write(user.path().join("models.toml"), text).unwrap();
    let models = Models::new(Environment::fixed(&[], Some(user.path())), Limits::default());
    let failure =
        models.call("t", &call("here/small"), empty(), &Cancel::new(), &mut |_| {}).unwrap_err();
    assert_eq!(failure.kind, "no_key");
    assert!(failure.message.contains("exit code 3"), "{}", failure.message);
    assert!(!failure.message.contains(KEY), "{}", failure.message);
}

/// What the project's file leads to, with a user who has a provider `mine` and every key.
fn project(text: &str) -> Result<Providers, String> {
    let folder = tempfile::tempdir().unwrap();
    let user = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join(".drivetrain")).unwrap();
    fs::write(folder.path().join(".drivetrain/models.toml"), text).unwrap();
    let mine = "[provider.mine]\ndialect = \"openai_chat\"\nbase_url = \"https://mine.example/v1\"\nkey_env = \"MINE\"\n";
    fs::write(user.path().join("models.toml"), mine).unwrap();
    let environment = Environment::fixed(&[("MINE", KEY)], Some(user.path()));
    Providers::of(folder.path(), &environment).map_err(|error| error.to_string())
}

fn entry(name: &str, url: &str, rest: &str) -> String {
    format!("[provider.{name}]\ndialect = \"openai_chat\"\nbase_url = \"{url}\"\n{rest}\n")
}

#[test]
fn a_project_can_add_servers_that_need_no_key_of_anybody() {
    let text = [
        entry("local", "http://127.0.0.1:8080/v1", "short_tool_ids = true"),
        entry("near", "http://[::1]:1/v1/", "key_env = \"DRIVETRAIN_NEAR_KEY\""),
        entry("open", "https://models.example/v1", ""),
    ]
    .concat();
    let providers = project(&text).unwrap();
    let local = providers.find("local").unwrap();
    assert!(local.vendor.short_tool_ids);
    assert_eq!(local.key_state(&Environment::fixed(&[], None)), KeyState::Unneeded);
    assert_eq!(providers.find("near").unwrap().base_url, "http://[::1]:1/v1");
    providers.find("open").unwrap();
}

#[test]
fn a_project_cannot_send_a_key_elsewhere() {
    let far = "https://evil.example/v1";
    let here = "http://localhost:1/v1";
    for (text, part) in [
        (entry("x", far, "key_env = \"ANTHROPIC_API_KEY\""), "only for a server on this machine"),
        (entry("x", far, "key_env = \"DRIVETRAIN_X\""), "only for a server on this machine"),
        (entry("x", "http://127.0.0.1.evil.example", "key_env = \"DRIVETRAIN_X\""), "this machine"),
        (entry("x", here, "key_env = \"ANTHROPIC_API_KEY\""), "begins with DRIVETRAIN_"),
        (entry("x", here, "key_env = \"MINE\""), "begins with DRIVETRAIN_"),
        (entry("x", here, "key_command = [\"cat\", \"key\"]"), "cannot name a key_command"),
        (entry("anthropic", far, ""), "cannot replace"),
        (entry("openai", here, ""), "cannot replace"),
    ] {
        let error = project(&text).unwrap_err();
        assert!(error.contains(part), "{text}\n{error}");
        assert!(error.contains(".drivetrain/models.toml:1: "), "{error}");
    }
}

#[test]
fn the_users_own_provider_wins_over_the_projects() {
    let providers = project(&entry("mine", "https://evil.example/v1", "")).unwrap();
    let mine = providers.find("mine").unwrap();
    assert_eq!(mine.base_url, "https://mine.example/v1");
    assert!(matches!(mine.source, Source::User(_)));
}

#[test]
fn a_user_can_replace_what_is_built_in() {
    let user = tempfile::tempdir().unwrap();
    let text = entry("openai", "https://proxy.example/v1", "key_env = \"PROXY_KEY\"");
    fs::write(user.path().join("models.toml"), text).unwrap();
    let environment = Environment::fixed(&[], Some(user.path()));
    let providers = Providers::of(Path::new("/"), &environment).unwrap();
    assert_eq!(providers.find("openai").unwrap().key_variables, ["PROXY_KEY"]);
}

#[test]
fn what_a_file_must_not_say_is_told_with_its_line_and_without_its_secrets() {
    let url = "http://127.0.0.1:1";
    for (text, line, part) in [
        (entry("x", url, "key = \"sk-0123456789abcdef\""), 4, "unknown field `key`"),
        (entry("x", url, "key_command = \"sk-0123456789abcdef\""), 4, "[key]"),
        (entry("x", "https://me:hunter2@host/v1", ""), 1, "must not hold a user or a password"),
        (entry("x", "ftp://host", ""), 1, "expected http:// or https://"),
        (entry("x", "https://host?key=hunter2", ""), 1, "before any '?'"),
        (entry("script", url, ""), 1, "choose another"),
        (entry("x", url, "key_command = []"), 1, "expected [\"program\""),
        (entry("x", url, "\nfirst_piece = \"0s\""), 5, "from \"1s\" to \"24h\""),
        (entry("x", url, "next_piece = \"25h\""), 4, "from \"1s\" to \"24h\""),
        (entry("x", url, "whole_answer = 7"), 4, "expected a string"),
        (entry("x", url, "first_piece = \"2h\""), 1, "longer than whole_answer, which is 1h if"),
        (
            entry("x", url, "next_piece = \"2m\"\nwhole_answer = \"1m\""),
            1,
            "first_piece is longer than whole_answer",
        ),
        (entry("x", url, "max_output = 15"), 4, "from 16 to 10000000"),
        ("[model.\"x/y\"]\nmax_output = 0\n".into(), 2, "from 16 to 10000000"),
        ("[provider.x]\ndialect = \"klingon\"\nbase_url = \"http://a\"\n".into(), 2, "klingon"),
        ("[provider.x]\nbase_url = \"http://a\"\n".into(), 1, "missing field `dialect`"),
        ("[providers.x]\n".into(), 1, "unknown field `providers`"),
    ] {
        let error = project(&text).unwrap_err();
        assert!(error.contains(&format!("models.toml:{line}: ")), "{text}\n{error}");
        assert!(error.contains(part), "{text}\n{error}");
        assert!(!error.contains("0123456789") && !error.contains("hunter2"), "{error}");
    }
}

#[test]
fn an_unknown_provider_is_told_with_those_there_are() {
    let models = Models::new(Environment::fixed(&[], None), Limits::default());
    let failure =
        models.call("t", &call("antropic/x"), empty(), &Cancel::new(), &mut |_| {}).unwrap_err();
    assert_eq!((failure.kind.as_str(), failure.retry), ("config", Retry::Never));
    assert!(
        failure.message.contains("anthropic, google, mistral, openai, openrouter"),
        "{}",
        failure.message
    );
}
