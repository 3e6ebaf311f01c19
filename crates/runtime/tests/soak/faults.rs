//! What goes wrong with an answer, and the script that a fake server plays to one task.

use machine::message::{Block, Message, Part, Reply, Role, StopReason, Usage};
use machine::time::Span;
use serde_json::json;
use wire::model::script::{
    Call, End, Failure, Fault as Broken, Mode, Repeat, Says, Script, Scripted, Served, render,
};

use crate::random::Random;

/// The model that every task asks for.
pub(crate) const MODEL: &str = "m-1";

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    /// 429, with the time to wait.
    RateLimited,
    /// 500, 503 or 529.
    ServerError,
    /// The connection ends before the headers.
    HangUp,
    /// After the headers.
    Silent,
    /// Inside the text or the thinking.
    CutInText,
    /// Inside the arguments of a call.
    CutInArguments,
    /// Before the end mark.
    CutBeforeEnd,
    /// A frame that is no JSON.
    Malformed,
    /// An error where a frame should be.
    ErrorEvent,
    /// Silence that lasts.
    Stall,
    /// An error as a document, with status 200.
    JsonError,
    /// The end mark twice: harmless.
    EndsTwice,
    /// An answer with nothing in it.
    Empty,
    /// A whole answer, slowly: harmless.
    Drip,
}

impl Fault {
    pub(crate) const ALL: [Fault; 14] = [
        Fault::RateLimited,
        Fault::ServerError,
        Fault::HangUp,
        Fault::Silent,
        Fault::CutInText,
        Fault::CutInArguments,
        Fault::CutBeforeEnd,
        Fault::Malformed,
        Fault::ErrorEvent,
        Fault::Stall,
        Fault::JsonError,
        Fault::EndsTwice,
        Fault::Empty,
        Fault::Drip,
    ];

    /// Whether the answer comes whole all the same.
    pub(crate) fn is_harmless(self) -> bool {
        matches!(self, Fault::EndsTwice | Fault::Drip)
    }

    /// Whether asking again is no use, so that the task may end by it.
    pub(crate) fn is_permanent(self) -> bool {
        self == Fault::JsonError
    }

    /// Rare enough that most tasks live.
    fn is_rare(self) -> bool {
        self.is_permanent()
    }
}

/// One answer of the script.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    pub(crate) fault: Option<Fault>,
    pub(crate) says: Says,
}

/// The answers that one task gets, in order. After them the last is repeated: the claim to be done.
pub(crate) fn plan(random: &mut Random) -> Vec<Step> {
    let turns = 3 + random.below(4);
    let mut steps = Vec::new();
    let mut whole = 0;
    while whole < turns {
        // The claim at the end is never faulty: these are three in ten of all.
        let fault = (random.below(100) < 37).then(|| {
            loop {
                let fault = *random.pick(&Fault::ALL);
                if !fault.is_rare() || random.one_in(8) {
                    break fault;
                }
            }
        });
        let calls = 1 + random.below(3);
        steps.push(Step { fault, says: says(steps.len() as u64 + 1, calls, random) });
        whole += u64::from(fault.is_none_or(Fault::is_harmless));
    }
    steps.push(Step { fault: None, says: says(steps.len() as u64 + 1, 0, random) });
    steps
}

/// Calls that name their answer: each tool of each answer leaves a file of its own.
fn says(turn: u64, calls: u64, random: &mut Random) -> Says {
    let call = |at: u64| match at {
        2 => Call { id: None, tool: "read".to_owned(), input: json!({ "path": file(turn, 0) }) },
        _ => Call {
            id: None,
            tool: "write".to_owned(),
            input: json!({ "path": file(turn, at), "content": "x".repeat(40) }),
        },
    };
    let text = "I have a look at the files and write the next one. ".repeat(2);
    Says {
        thinking: random.one_in(2).then(|| "What comes next? ".repeat(3)),
        text: (calls == 0 || random.one_in(2)).then_some(text),
        calls: (0..calls).map(call).collect(),
        usage: Usage { input: Some(100 + turn), output: Some(10 + calls), ..Usage::default() },
        stop: None,
    }
}

pub(crate) fn file(turn: u64, call: u64) -> String {
    format!("w/{turn}-{call}.txt")
}

/// The script of a plan, for a server that speaks this dialect.
pub(crate) fn script(steps: &[Step], served: Served, random: &mut Random) -> Script {
    let scripted = |(at, step): (usize, &Step)| {
        let (says, fault) = scripted(step, at as u64 + 1, served, random);
        Scripted { needs: None, repeat: Repeat::Times(1), delay: Span::default(), says, fault }
    };
    let replies = steps.iter().enumerate().map(scripted).collect();
    Script { replies, end: End::RepeatLast, aside: None }
}

fn scripted(step: &Step, turn: u64, served: Served, random: &mut Random) -> (Says, Option<Broken>) {
    let Some(fault) = step.fault else { return (step.says.clone(), None) };
    let mut says = step.says.clone();
    let chunks = render(&reply(&says, turn), served, Mode::Stream).chunks;
    let cut =
        |after: usize| Some(Broken::Cut { after_bytes: after as u64, stall: Span::default() });
    let raw = |chunks: Vec<Vec<u8>>| {
        let body = Some(String::from_utf8(chunks.concat()).unwrap());
        Some(Broken::Failure(Failure { body, ..Failure::of_status(200) }))
    };
    let before_end: usize = chunks[..chunks.len() - end_marks(served)].iter().map(Vec::len).sum();
    let broken = match fault {
        Fault::RateLimited => {
            let retry_after = Some(Span::seconds(1 + random.below(5)));
            Some(Broken::Failure(Failure { retry_after, ..Failure::of_status(429) }))
        }
        Fault::ServerError => {
            Some(Broken::Failure(Failure::of_status(*random.pick(&[500, 503, 529]))))
        }
        Fault::HangUp => Some(Broken::HangUp),
        Fault::Silent => cut(0),
        Fault::CutInText => cut(1 + random.below(before_end as u64 / 2) as usize),
        Fault::CutInArguments => {
            let whole = String::from_utf8(chunks.concat()).unwrap();
            let name = if whole.contains("partial_json") { "partial_json" } else { "xxxxxx" };
            cut(whole.rfind(name).map_or(before_end * 3 / 4, |at| at + 9))
        }
        Fault::CutBeforeEnd => cut(before_end),
        Fault::Malformed => {
            let mut chunks = chunks;
            let at = chunks.len() / 2;
            chunks.insert(at, b"data: {\"type\": \"content_block_del\n\n".to_vec());
            raw(chunks)
        }
        Fault::ErrorEvent => {
            let mut chunks = chunks;
            let at = chunks.len() / 2;
            chunks.truncate(at);
            chunks.push(error_event(served));
            raw(chunks)
        }
        Fault::Stall => Some(Broken::Stall(Span::seconds(30))),
        Fault::JsonError => raw(vec![b"{\"error\":{\"message\":\"oops\"}}".to_vec()]),
        Fault::EndsTwice => {
            let mut chunks = chunks;
            let marks = chunks[chunks.len() - 1].clone();
            chunks.push(marks);
            raw(chunks)
        }
        Fault::Empty => {
            says = Says { stop: Some(StopReason::EndTurn), usage: says.usage, ..Says::default() };
            None
        }
        Fault::Drip => Some(Broken::Drip(Span(2))),
    };
    (says, broken)
}

/// How many of the last chunks say that the answer is whole.
fn end_marks(served: Served) -> usize {
    match served {
        Served::AnthropicMessages | Served::OpenAiResponses | Served::GoogleGenerate => 1,
        // The reason to stop, the counters, and the end; Mistral counts with the reason.
        Served::OpenAiChat => 3,
        Served::Mistral => 2,
    }
}

fn error_event(served: Served) -> Vec<u8> {
    match served {
        Served::AnthropicMessages => {
            b"event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n"
                .to_vec()
        }
        Served::OpenAiResponses => {
            b"event: error\ndata: {\"type\":\"error\",\"code\":\"server_error\",\"message\":\"oops\",\"param\":null,\"sequence_number\":9}\n\n"
                .to_vec()
        }
        Served::OpenAiChat | Served::Mistral => {
            b"data: {\"error\":{\"message\":\"oops\",\"type\":\"server_error\",\"code\":null}}\n\n".to_vec()
        }
        Served::GoogleGenerate => {
            b"data: {\"error\":{\"code\":503,\"message\":\"overloaded\",\"status\":\"UNAVAILABLE\"}}\n\n"
                .to_vec()
        }
    }
}

/// The reply that the server makes of a step: for the bytes that a script cannot say.
fn reply(says: &Says, turn: u64) -> Reply {
    let thinking = says.thinking.clone().map(|text| Part::Thinking { text });
    let text = says.text.clone().map(|text| Part::Text { text });
    let calls = says.calls.iter().enumerate().map(|(at, call)| Part::ToolUse {
        id: format!("c{turn:05}{at:03}"),
        name: call.tool.clone(),
        input: call.input.clone(),
    });
    let parts = thinking.into_iter().chain(text).chain(calls);
    let blocks = parts.map(|part| Block { part, native: None }).collect();
    Reply {
        id: format!("script-{turn}"),
        model: MODEL.to_owned(),
        message: Message { role: Role::Assistant, blocks },
        stop: if says.calls.is_empty() { StopReason::EndTurn } else { StopReason::ToolUse },
        usage: says.usage,
    }
}
