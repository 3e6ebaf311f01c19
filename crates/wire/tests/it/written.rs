//! What is kept of a conversation in wire form changes no request, whatever the conversation is like.

use std::sync::Arc;

use machine::message::{Block, Message, Native, Part, Role};
use proptest::prelude::*;
use serde_json::{Value, json};
use wire::model::anthropic_messages::AnthropicMessages;
use wire::model::google_generate::GoogleGenerate;
use wire::model::openai_chat::OpenAiChat;
use wire::model::openai_responses::OpenAiResponses;
use wire::model::{Dialect, Effort, ModelRequest, ToolDeclaration, Written};

use crate::rig::{assistant, request, text, user};

fn dialects() -> Vec<(Box<dyn Dialect>, &'static str)> {
    vec![
        (Box::new(AnthropicMessages), "claude-opus-4-5"),
        (Box::new(OpenAiChat::openai()), "gpt-5"),
        (Box::new(OpenAiChat::mistral()), "mistral-large"),
        (Box::new(OpenAiResponses), "gpt-5"),
        (Box::new(GoogleGenerate), "gemini-3-pro"),
    ]
}

fn asking(model: &str, messages: &[Arc<Message>]) -> ModelRequest {
    let mut request = request(model, Vec::new());
    request.messages = Arc::new(messages.to_vec());
    request.system = "Be brief.".to_owned();
    let schema = json!({ "type": "object", "properties": { "n": { "type": "integer" } } });
    let (name, description) = ("probe".to_owned(), "Looks.".to_owned());
    request.tools = vec![ToolDeclaration { name, description, schema }].into();
    request.cache = true;
    request
}

/// Asks as the conversation grows, and compares each request with the one that was written whole.
fn grows(
    dialect: &dyn Dialect,
    model: &str,
    messages: &[Arc<Message>],
    effort: Option<Effort>,
) -> Written {
    let mut written = Written::begin();
    for length in 0..=messages.len() {
        let mut request = asking(model, &messages[..length]);
        request.effort = effort;
        let whole = dialect.encode(&request);
        let grown = dialect.encode_on(&request, &mut written);
        let told = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let body = grown.clone().whole();
        assert_eq!(told(&body), told(&whole.body), "{} after {length}", dialect.name());
        assert_eq!((grown.path, grown.headers), (whole.path, whole.headers));
        serde_json::from_slice::<Value>(&body).unwrap();
    }
    written
}

fn shared(messages: Vec<Message>) -> Vec<Arc<Message>> {
    messages.into_iter().map(Arc::new).collect()
}

fn tool_loop(turns: usize) -> Vec<Message> {
    let mut messages = vec![user([text("go")])];
    for turn in 0..turns {
        let (id, name) = (format!("call{turn:05}"), "probe".to_owned());
        let call =
            Part::ToolUse { id: id.clone(), name: name.clone(), input: json!({ "n": turn }) };
        messages.push(assistant([text("I look."), call]));
        let result = Part::ToolResult { id, name, text: format!("seen {turn}"), is_error: false };
        messages.push(user([result]));
    }
    messages
}

#[test]
fn a_long_loop_is_kept_all_but_its_end() {
    for (dialect, model) in dialects() {
        let written = grows(&*dialect, model, &shared(tool_loop(20)), None);
        let whole = dialect.encode(&asking(model, &shared(tool_loop(20)))).body.len();
        assert!(
            written.size() * 10 > whole * 7,
            "{}: {} of {whole}",
            dialect.name(),
            written.size()
        );
    }
}

#[test]
fn another_conversation_begins_anew() {
    for (dialect, model) in dialects() {
        let messages = shared(tool_loop(8));
        let mut written = grows(&*dialect, model, &messages, None);
        // Shortened, changed at its beginning, equal but not the same, and for another model.
        let mut changed = messages.clone();
        changed[0] = Arc::new(user([text("stop")]));
        for (other, model) in [
            (messages[3..].to_vec(), model),
            (messages[..3].to_vec(), model),
            (changed, model),
            (shared(tool_loop(8)), model),
            (messages, "another-model"),
        ] {
            let request = asking(model, &other);
            assert_eq!(
                dialect.encode_on(&request, &mut written).whole(),
                dialect.encode(&request).body
            );
        }
    }
}

#[test]
fn what_was_written_for_one_dialect_is_not_used_by_another() {
    let messages = shared(tool_loop(8));
    let mut written = Written::begin();
    for (dialect, _) in dialects() {
        let request = asking("same-name", &messages);
        assert_eq!(
            dialect.encode_on(&request, &mut written).whole(),
            dialect.encode(&request).body
        );
    }
}

/// Blocks of every kind, with ids that are missing, doubled and malformed, and native forms of several origins.
fn block() -> impl Strategy<Value = Block> {
    let id = prop_oneof![Just("a"), Just("b"), Just("c d"), Just(""), Just("abcDEF123")];
    let words = prop_oneof![Just(""), Just("  "), Just("yes"), Just("\"no\" é\n")];
    let part = (0..7u8, id, words, any::<bool>()).prop_map(|(kind, id, words, is_error)| {
        let (id, name, text) = (id.to_owned(), "probe".to_owned(), words.to_owned());
        match kind {
            0 | 1 => Part::Text { text },
            2 => Part::Thinking { text },
            3 => Part::ToolUse { id, name, input: json!({ "n": 1 }) },
            4 | 5 => Part::ToolResult { id, name, text, is_error },
            _ => Part::Media {
                media_type: "image/png".to_owned(),
                data: "AAAA".to_owned(),
                name: None,
            },
        }
    });
    let native = prop_oneof![
        4 => Just(None),
        1 => Just(Some(("anthropic_messages", "claude-opus-4-5", json!({ "type": "thinking", "thinking": "", "signature": "x" })))),
        1 => Just(Some(("anthropic_messages", "claude-opus-4-5", json!({ "type": "tool_use", "id": "a", "name": "probe", "input": {} })))),
        1 => Just(Some(("openai_responses", "gpt-5", json!({ "type": "reasoning", "encrypted_content": "x" })))),
        1 => Just(Some(("openai_chat", "gpt-5", json!({ "reasoning": "hm" })))),
        1 => Just(Some(("google_generate", "gemini-3-pro", json!({ "text": "t", "thoughtSignature": "x" })))),
    ];
    (part, native).prop_map(|(part, native)| {
        let native = native.map(|(dialect, model, raw)| Native {
            dialect: dialect.to_owned(),
            model: model.to_owned(),
            raw,
        });
        Block { part, native }
    })
}

#[test]
fn tools_that_all_requests_share_are_written_for_each_dialect_as_if_they_were_its_own() {
    let shared = asking("m", &[]).tools;
    for round in 0..2 {
        for (dialect, model) in dialects() {
            for cache in [true, false] {
                let mut alone = asking(model, &[Arc::new(Message::user("go"))]);
                alone.cache = cache;
                let joint = ModelRequest { tools: shared.clone(), ..alone.clone() };
                let (alone, joint) = (dialect.encode(&alone), dialect.encode(&joint));
                assert_eq!(alone, joint, "{} {cache} {round}", dialect.name());
            }
        }
    }
}

fn message() -> impl Strategy<Value = Message> {
    let role = prop_oneof![Just(Role::User), Just(Role::Assistant)];
    (role, prop::collection::vec(block(), 0..4)).prop_map(|(role, blocks)| Message { role, blocks })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn no_conversation_is_written_otherwise(
        messages in prop::collection::vec(message(), 0..14),
        before in 0..4usize,
        thinks in any::<bool>(),
    ) {
        // With and without a part at its beginning that can be kept.
        let mut all = tool_loop(before);
        all.extend(messages);
        let all = shared(all);
        for (dialect, model) in dialects() {
            grows(&*dialect, model, &all, thinks.then_some(Effort::High));
        }
    }
}
