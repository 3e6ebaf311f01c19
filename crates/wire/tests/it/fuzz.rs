//! A bounded run of what the fuzz targets do: mutations of the corpus and of rendered answers, chosen by a seed,
//! held to the same checks. And what longer runs have found, one test each.

use serde_json::Value;
use wire::model::script::Mode;
use wire::model::script::{Player, Script, Served, deliver};

use crate::checks;
use crate::histories::dialect;
use crate::rig::named_events;

const STREAMS: &str = include_str!("../fixtures/sse.jsonl");

/// All inputs together.
const INPUTS: usize = 20_000;

const SCRIPT: &str = r#"
[[reply]]
thinking = "Hm, ü."
text = "Let me look."
tool_calls = [{ tool = "read", input = { path = "a" } }, { tool = "shell", input = { command = "ls" } }]
usage = { input = 100, output = 20, cache_read = 3 }

[[reply]]
match = "add up"
text = "They add up."
stop = "max_tokens"
delay = "200ms"
repeat = 3

[[reply]]
status = 429
retry_after = "7s"

[[reply]]
error = "context_overflow"

[[reply]]
text = "never seen whole"
cut_after_bytes = 120

[end]
then = "error"
message = "nothing more to say"
"#;

const LINES: &[&str] = &[
    r#"{"jsonrpc":"2.0","id":3,"result":{"a":1}}"#,
    r#"{"jsonrpc":"2.0","id":"x","method":"m","params":[1,null]}"#,
    r#"{"jsonrpc":"2.0","method":"log","params":{"text":"\u00fc"}}"#,
    r#"{"jsonrpc":"2.0","id":4,"error":{"code":-32601,"message":"no"}}"#,
];

const GATE: &[&str] = &[
    r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}"#,
    r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"shell","arguments":{"command":"ls"}}}"#,
    r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}"#,
];

/// Pieces of what the formats are made of: a mutation that knows them goes deeper.
const WORDS: &[&str] = &[
    "\n\n",
    "\r",
    "data: ",
    "event: error\n",
    "[DONE]",
    "null",
    "\"\"",
    "{}",
    "[]",
    "-1",
    "1e999",
    "\\u0000",
    "\\ud800",
    "\"index\":0",
    "\"index\":7",
    "tool_use",
    "function_call",
    "\"stop\"",
    "length",
    "\"id\":\"\"",
    "thinking",
    "\u{feff}",
    "\"STOP\"",
    "usage",
    "18446744073709551616",
    "\"name\":\"\"",
    "refusal",
    "\"a.b/ü\"",
];

struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        ((mixed ^ (mixed >> 27)) as usize) % end.max(1)
    }
}

/// One to four changes: bytes, words, repeated or missing parts, or the end of another input.
fn mutated(random: &mut Random, seeds: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = seeds[random.below(seeds.len())].clone();
    for _ in 0..1 + random.below(4) {
        let at = random.below(bytes.len() + 1);
        let to = (at + random.below(40)).min(bytes.len());
        match random.below(8) {
            0 if at < bytes.len() => bytes[at] = random.below(256) as u8,
            1 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
            2 => drop(bytes.drain(at..to)),
            3 => {
                let again = bytes[at..to].to_vec();
                bytes.splice(at..at, again);
            }
            4 => bytes.truncate(at),
            5 => {
                let other = &seeds[random.below(seeds.len())];
                let from = random.below(other.len() + 1);
                bytes.splice(at.., other[from..].to_vec());
            }
            _ => {
                let word = WORDS[random.below(WORDS.len())].as_bytes();
                bytes.splice(at..to.min(at + random.below(12)), word.to_vec());
            }
        }
    }
    bytes.truncate(1 << 14);
    bytes
}

/// The corpus's streams of a provider, and answers that a server of the dialect gives.
fn streams(served: Served) -> Vec<Vec<u8>> {
    let provider = match served {
        Served::AnthropicMessages => "anthropic",
        Served::OpenAiChat => "openai-chat",
        Served::OpenAiResponses => "openai-responses",
        Served::GoogleGenerate => "gemini",
        Served::Mistral => "mistral",
    };
    let mut seeds: Vec<Vec<u8>> = STREAMS
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|case| case["provider"] == provider)
        .filter_map(|case| Some(case["in"].as_str()?.as_bytes().to_vec()))
        .collect();
    let mut player = Player::new(Script::parse(SCRIPT, "s").unwrap());
    for said in ["", "add up"] {
        let turn = player.next(said);
        seeds.push(deliver(&turn, served, "m", Mode::Stream).rendered.chunks.concat());
    }
    seeds
}

#[test]
fn mutations_of_the_corpus_break_nothing() {
    let mut random = Random(20_261);
    let each = INPUTS / 8;
    for served in Served::ALL {
        let (dialect, seeds) = (dialect(served), streams(served));
        for _ in 0..each {
            checks::decoder(&*dialect, &mutated(&mut random, &seeds));
        }
    }
    let seeds: Vec<_> = Served::ALL.into_iter().flat_map(streams).collect();
    let scripts: Vec<Vec<u8>> =
        SCRIPT.split("\n\n").chain([SCRIPT]).map(|part| part.as_bytes().to_vec()).collect();
    let lines: Vec<Vec<u8>> = LINES.iter().map(|line| line.as_bytes().to_vec()).collect();
    let gate = vec![(GATE.join("\n") + "\n").into_bytes()];
    for _ in 0..each {
        checks::sse(&mutated(&mut random, &seeds));
        checks::script_file(&mutated(&mut random, &scripts));
        checks::jsonrpc(&mutated(&mut random, &lines));
        checks::gate_frame(&mutated(&mut random, &gate));
    }
}

#[test]
fn what_a_provider_sends_and_then_refuses_does_not_go_back() {
    // Found by mutations: each made a history that its own provider refuses from then on.
    let start = r#"{"type":"message_start","message":{"id":"m","model":"m","usage":{}}}"#;
    let stop = r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{}}
        {"type":"message_stop"}"#;
    for block in [r#"{"type":"text","text":"","citations":[]}"#, r#"{"text":"no type"}"#] {
        let block =
            format!(r#"{{"type":"content_block_start","index":0,"content_block":{block}}}"#);
        let end = r#"{"type":"content_block_stop","index":0}"#;
        let bytes = named_events(&[start, &block, end, stop].join("\n"));
        checks::decoder(&*dialect(Served::AnthropicMessages), bytes.as_bytes());
    }
    let item = r#"{"type":"message","id":"msg_1","status":"completed"}"#;
    let added = format!(r#"{{"type":"response.output_item.done","output_index":0,"item":{item}}}"#);
    let done = format!(
        r#"{{"type":"response.completed","response":{{"id":"r","model":"m","status":"completed","output":[{item}]}}}}"#
    );
    let bytes = named_events(&[added.as_str(), &done].join("\n"));
    checks::decoder(&*dialect(Served::OpenAiResponses), bytes.as_bytes());
}
