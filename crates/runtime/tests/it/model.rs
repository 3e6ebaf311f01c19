//! Models over a network: real sockets, a server that does exactly what a test says, no provider.

mod answers;
mod endpoints;
mod faults;
mod keys;
mod packed;
mod server;
mod supervised;
mod traffic;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use machine::message::{Message, ModelCall, ModelFailure, Reply, conversation};
use runtime::http::Limits;
use runtime::model::Models;
use runtime::process::Cancel;
use runtime::providers::Environment;
use server::Server;

/// Looks like no provider's key, so that only knowing it can hide it.
const KEY: &str = "q7Zt-very-private-41";

const ANTHROPIC: &str = r#"event: message_start
data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","content":[],"model":"claude-dated","stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":10,"output_tokens":1}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}

event: ping
data: {"type":"ping"}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Gr\u00fc\u00dfe, "}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"wörld"}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":5}}

event: message_stop
data: {"type":"message_stop"}

"#;

const CHAT: &str = r#"data: {"id":"c1","object":"chat.completion.chunk","model":"small","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}

: a comment

data: {"id":"c1","object":"chat.completion.chunk","model":"small","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"t1","type":"function","function":{"name":"read","arguments":"{\"path\":"}}]},"finish_reason":null}]}

data: {"id":"c1","object":"chat.completion.chunk","model":"small","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"\"a.txt\"}"}}]},"finish_reason":null}]}

data: {"id":"c1","object":"chat.completion.chunk","model":"small","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}

data: {"id":"c1","object":"chat.completion.chunk","model":"small","choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10}}

data: [DONE]

"#;

/// Servers on this machine and those elsewhere are reached by different clients.
const WAYS: [fn(&Server) -> Rig; 2] = [Rig::new, Rig::elsewhere];

/// Models that reach the server as `anthropic` and, with its own file, as `here` (chat completions).
struct Rig {
    models: Models,
    folder: tempfile::TempDir,
}

impl Rig {
    fn new(server: &Server) -> Rig {
        Rig::with(server, Limits::default())
    }

    fn with(server: &Server, limits: Limits) -> Rig {
        Rig::written(server, limits, "")
    }

    /// With more in the file about `here`, or after it.
    fn written(server: &Server, limits: Limits, more: &str) -> Rig {
        Rig::at(&server.url(), limits, more)
    }

    /// The same, by the library that reaches servers elsewhere: to it this address is no loopback.
    fn elsewhere(server: &Server) -> Rig {
        Rig::at(&server.url().replace("127.0.0.1", "0.0.0.0"), Limits::default(), "")
    }

    fn at(base: &str, limits: Limits, more: &str) -> Rig {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(
            folder.path().join("models.toml"),
            format!("[provider.here]\ndialect = \"openai_chat\"\nbase_url = \"{base}/v1/\"\nkey_env = \"HERE_KEY\"\n{more}"),
        )
        .unwrap();
        let variables =
            [("ANTHROPIC_API_KEY", KEY), ("ANTHROPIC_BASE_URL", base), ("HERE_KEY", KEY)];
        let environment = Environment::fixed(&variables, Some(folder.path()));
        Rig { models: Models::new(environment, limits), folder }
    }

    fn ask(&self, model: &str) -> Result<Reply, ModelFailure> {
        self.ask_until(model, &Cancel::new())
    }

    fn ask_until(&self, model: &str, cancel: &Cancel) -> Result<Reply, ModelFailure> {
        self.models.call("task", &call(model), self.folder.path(), cancel, &mut |_| {})
    }

    fn fails(&self, model: &str) -> ModelFailure {
        let failure = self.ask(model).unwrap_err();
        assert!(!format!("{failure:?}").contains(KEY), "{failure:?}");
        failure
    }
}

fn call(model: &str) -> ModelCall {
    ModelCall {
        model: model.to_owned(),
        system: Arc::from("Be brief."),
        messages: conversation([Message::user("Say hello.")]),
        tools: Arc::from(["read".to_owned()]),
        temperature: None,
        effort: None,
        schema: None,
        compacts: false,
        words_only: false,
        moved: 0,
        question: 1,
        offers: Arc::default(),
    }
}

/// Limits that a test can wait for.
fn short(first: u64, idle: u64, total: u64) -> Limits {
    let [first, idle, total] = [first, idle, total].map(Duration::from_millis);
    Limits { first, idle, total, ..Limits::default() }
}

fn empty() -> &'static Path {
    Path::new("/")
}
