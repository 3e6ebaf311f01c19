//! The hostile streams and answers of the corpus, through the trait that the runtime uses: each ends as its
//! case says, whichever way the bytes are cut. What needs a socket or a clock is fed too, and listed.

use serde_json::Value;
use wire::model::anthropic_messages::AnthropicMessages;
use wire::model::google_generate::GoogleGenerate;
use wire::model::openai_chat::OpenAiChat;
use wire::model::openai_responses::OpenAiResponses;
use wire::model::{Answer, Dialect, ErrorKind, ModelError, Retry};

use machine::message::{Part, StopReason};

use crate::rig::{run, run_in_all_cuts};

const STREAMS: &str = include_str!("../fixtures/sse.jsonl");
const ANSWERS: &str = include_str!("../fixtures/http.jsonl");

/// What the runtime adds, by the `then` of a stream: bytes alone cannot show it.
const NEEDS_TIME: &[(&str, &str)] = &[
    ("hang", "an idle clock ends it"),
    ("pings-forever", "an idle clock that counts meaningful events ends it"),
    ("comments-forever", "an idle clock that counts meaningful events ends it"),
    ("one-byte-per-10s", "the clock of the whole call ends it"),
];

/// Answers that only the transport can read: the tests of the runtime have them.
const NEEDS_TRANSPORT: &[(&str, &str)] = &[("HT-033", "the transport unpacks")];

/// The streams of which the corpus says that either outcome will do, if it is defined: ours.
const DEFINED: &[(&str, &str)] = &[
    ("SS-061", "ok:end_turn"),
    ("SS-062", "ok:end_turn"),
    ("SS-064", "ok:end_turn"),
    ("SS-080", "error:malformed"),
    ("SS-103", "ok:tool_use"),
    ("SS-105", "error:malformed"),
];

fn dialects(provider: &str) -> Vec<Box<dyn Dialect>> {
    match provider {
        "anthropic" => vec![Box::new(AnthropicMessages)],
        "openai-chat" => vec![Box::new(OpenAiChat::openai()), Box::new(OpenAiChat::default())],
        "openai-responses" => vec![Box::new(OpenAiResponses)],
        "openai" => vec![Box::new(OpenAiChat::openai()), Box::new(OpenAiResponses)],
        "gemini" => vec![Box::new(GoogleGenerate)],
        "mistral" => vec![Box::new(OpenAiChat::mistral())],
        other => panic!("no dialect for {other}"),
    }
}

/// Runs the cases of one provider and says which fail.
fn score(corpus: &str, provider: &str, judge: impl Fn(&Value, &dyn Dialect) -> Result<(), String>) {
    let mut passed = 0;
    let mut failed = Vec::new();
    for line in corpus.lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        if case["provider"] != provider {
            continue;
        }
        for dialect in dialects(provider) {
            match judge(&case, &*dialect) {
                Ok(()) => passed += 1,
                Err(why) => failed.push(format!("{} {}: {why}", case["id"], case["why"])),
            }
        }
    }
    assert!(failed.is_empty(), "{provider}: {passed} passed\n{}", failed.join("\n"));
    assert!(passed > 0, "{provider}: no cases");
}

fn judge_stream(case: &Value, dialect: &dyn Dialect) -> Result<(), String> {
    let bytes = stream_bytes(case);
    let (_, answer) = run_in_all_cuts(dialect, &bytes);
    let expected = case["expect"].as_str().unwrap();
    if expected.starts_with("error:") && answer.is_ok() {
        // Also where the clock decides: nothing of an unfinished answer may run.
        let is_paced = case["then"] == "one-byte-per-10s";
        if !is_paced {
            return Err(format!("expected {expected}, got an answer"));
        }
    }
    let then = case["then"].as_str().unwrap_or_default();
    if NEEDS_TIME.iter().any(|(name, _)| *name == then) {
        return Ok(());
    }
    let found = class(&answer);
    let id = case["id"].as_str().unwrap();
    let expected = if expected.starts_with("ok-or-error:") {
        let defined = DEFINED.iter().find(|(name, _)| *name == id);
        defined.ok_or("either outcome will do, but ours is not listed")?.1
    } else {
        expected
    };
    if found != same_word(expected) {
        return Err(format!("expected {expected}, got {found}: {answer:?}"));
    }
    if let (Some(wait), Err(error)) = (case["retry_after_ms"].as_u64(), &answer)
        && error.retry != Retry::After(wait)
    {
        return Err(format!("expected to wait {wait}, got {:?}", error.retry));
    }
    if let Ok(reply) = &answer {
        let ids = reply.message.blocks.iter().filter_map(|block| match &block.part {
            Part::ToolUse { id, .. } => Some(id),
            _ => None,
        });
        let ids: Vec<_> = ids.collect();
        let distinct: std::collections::BTreeSet<_> = ids.iter().collect();
        if ids.len() != distinct.len() || ids.iter().any(|id| id.is_empty()) {
            return Err(format!("ids are missing or not unique: {ids:?}"));
        }
    }
    Ok(())
}

fn class(answer: &Answer) -> String {
    match answer {
        Ok(reply) => {
            let word = match reply.stop {
                StopReason::EndTurn => "end_turn",
                StopReason::ToolUse => "tool_use",
                StopReason::MaxTokens => "max_tokens",
                StopReason::StopSequence => "stop_sequence",
                StopReason::Refusal => "refusal",
                StopReason::Pause => "pause_turn",
            };
            format!("ok:{word}")
        }
        Err(error) => format!("error:{}", error.kind.word()),
    }
}

/// The corpus has each provider's own word; an answer has ours. That a tool is unknown is found by whoever
/// has the tools: here the call only has to arrive.
fn same_word(expected: &str) -> &str {
    match expected {
        "ok:stop" => "ok:end_turn",
        "ok:tool_calls" | "ok:unknown_tool_reported" => "ok:tool_use",
        "ok:length" => "ok:max_tokens",
        other => other,
    }
}

fn stream_bytes(case: &Value) -> Vec<u8> {
    let generated = &case["gen"];
    let n = generated["n"].as_u64().unwrap_or(0) as usize;
    match generated["kind"].as_str() {
        Some("sse-huge-line") => {
            let size = (generated["mb"].as_u64().unwrap() as usize) << 20;
            [b"data: {\"x\":\"".to_vec(), vec![b'a'; size], b"\"}\n\n".to_vec()].concat()
        }
        Some("sse-many") => b"event: ping\ndata: {\"type\":\"ping\"}\n\n".repeat(n),
        Some("sse-deep-json") => {
            [b"data: ".to_vec(), b"[".repeat(n), b"]".repeat(n), b"\n\n".to_vec()].concat()
        }
        Some(other) => panic!("no generator {other}"),
        None => match case["in_hex"].as_str() {
            Some(hex) => {
                let digits = hex.as_bytes().chunks(2);
                let byte = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16);
                digits.map(|pair| byte(pair).unwrap()).collect()
            }
            None => case["in"].as_str().unwrap().as_bytes().to_vec(),
        },
    }
}

fn judge_answer(case: &Value, dialect: &dyn Dialect) -> Result<(), String> {
    if NEEDS_TRANSPORT.iter().any(|(id, _)| case["id"] == *id) {
        return Ok(());
    }
    let status = case["status"].as_u64().unwrap() as u16;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let headers = case["headers"].as_object().into_iter().flatten();
    let headers: Vec<_> = headers.map(|(key, value)| (key.clone(), text(value))).collect();
    let body = text(&case["body"]);
    let error = if status == 200 {
        let (_, answer) = run(dialect, [body.as_bytes()]);
        answer.err().ok_or("an answer that is none")?
    } else {
        dialect.failure(status, &headers, body.as_bytes())
    };
    let found = decision(&error);
    let expected = case["expect"].as_str().unwrap();
    if found == expected {
        Ok(())
    } else {
        Err(format!("expected {expected}, got {found}: {error}"))
    }
}

/// What the runtime does about an error, in the words of the corpus.
fn decision(error: &ModelError) -> String {
    const PATIENCE: u64 = 3_600_000;
    match (error.kind, error.retry) {
        // A request that is too large gets smaller the same way as one that does not fit.
        (ErrorKind::ContextOverflow, _) => "compact".to_owned(),
        (ErrorKind::TooLarge, _) if error.status == Some(413) => "compact".to_owned(),
        (_, Retry::After(wait)) if wait > PATIENCE => "pause-goal".to_owned(),
        (_, Retry::After(wait)) => format!("retry:{wait}"),
        (_, Retry::Backoff) => "retry:backoff".to_owned(),
        (kind, Retry::Never) => format!("fail:{}", kind.word()),
    }
}

#[test]
fn streams_of_anthropic_end_as_stated() {
    score(STREAMS, "anthropic", judge_stream);
}

#[test]
fn streams_of_openai_chat_end_as_stated() {
    score(STREAMS, "openai-chat", judge_stream);
}

#[test]
fn streams_of_openai_responses_end_as_stated() {
    score(STREAMS, "openai-responses", judge_stream);
}

#[test]
fn streams_of_gemini_end_as_stated() {
    score(STREAMS, "gemini", judge_stream);
}

#[test]
fn streams_of_mistral_end_as_stated() {
    score(STREAMS, "mistral", judge_stream);
}

#[test]
fn answers_of_anthropic_are_dealt_with_as_stated() {
    score(ANSWERS, "anthropic", judge_answer);
}

#[test]
fn answers_of_openai_are_dealt_with_as_stated() {
    score(ANSWERS, "openai", judge_answer);
}

#[test]
fn answers_of_gemini_are_dealt_with_as_stated() {
    score(ANSWERS, "gemini", judge_answer);
}

#[test]
fn answers_of_mistral_are_dealt_with_as_stated() {
    score(ANSWERS, "mistral", judge_answer);
}

#[test]
fn every_case_belongs_to_a_provider_that_is_tested() {
    for (corpus, known) in [
        (STREAMS, &["anthropic", "openai-chat", "openai-responses", "gemini", "mistral"][..]),
        (ANSWERS, &["anthropic", "openai", "gemini", "mistral"][..]),
    ] {
        for line in corpus.lines() {
            let case: Value = serde_json::from_str(line).unwrap();
            assert!(known.contains(&case["provider"].as_str().unwrap()), "{line}");
        }
    }
}
