//! The conversation of the driver `llm` as every provider gets it: whatever happens to a task, and whoever gave
//! the answers before, the next question is one that all of them accept.
//!
//! A task is driven through the machine alone. Its model's answers are rendered by one dialect and read back, so
//! that they carry that provider's own blocks; each question is then encoded for all five and held to their rules.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use machine::child::step::ChildEnd;
use machine::driver::Registry;
use machine::effect::Effect;
use machine::id::{EffectId, TaskId};
use machine::input::{Command, Input, Signal, Stamped};
use machine::message::{Block, Message, ModelCall, ModelFailure, Part, Reply, Retry, Role};
use machine::message::{StopReason, Usage};
use machine::state::{CallStatus, Pending, Phase, State};
use machine::step;
use machine::task::{Criterion, CriterionResult, DriverSpec, TaskSpec};
use machine::task::{Workspace, WorkspaceKind, WorkspaceSpec};
use machine::time::{Span, Timestamp};
use machine::tool::{Status, ToolResult};
use proptest::prelude::*;
use serde_json::{Value, json};
use wire::model::anthropic_messages::AnthropicMessages;
use wire::model::assemble::Limits;
use wire::model::google_generate::GoogleGenerate;
use wire::model::openai_chat::OpenAiChat;
use wire::model::openai_responses::OpenAiResponses;
use wire::model::script::{Mode, Served, render};
use wire::model::{
    Dialect, Effort, ErrorKind, ModelRequest, Stream, ToolChoice, ToolDeclaration, accepts,
};

use crate::rig::{assistant, request, text, tool_result, tool_use, user};
use machine::verdict::{Checkpoint, Verdict};

pub(crate) fn dialect(served: Served) -> Box<dyn Dialect> {
    match served {
        Served::AnthropicMessages => Box::new(AnthropicMessages),
        Served::OpenAiChat => Box::new(OpenAiChat::openai()),
        Served::OpenAiResponses => Box::new(OpenAiResponses),
        Served::GoogleGenerate => Box::new(GoogleGenerate),
        Served::Mistral => Box::new(OpenAiChat::mistral()),
    }
}

/// One of several per dialect: an answer of another is foreign even to its own provider.
fn model(seed: u16) -> &'static str {
    ["gemini-3-pro", "claude-sonnet-4-5", "claude-opus-4-6", "gpt-5"][usize::from(seed % 4)]
}

/// Ids as providers, gateways and careless servers make them; some come again in every answer.
const IDS: &[&str] = &["call_0", "toolu:01/ü", "abcdefgh1", "", "x.y", "call_0_2"];
/// Tools as models name them, also those that nobody offered.
const NAMES: &[&str] = &["read", "write", "shell", "functions.read", "no tool ü", "ask"];
const TEXTS: &[&str] = &["Let me look.", "", " \n", "ü", "{\"a\":1}"];

/// An answer of the model; made once for each seed.
fn answer(seed: u16) -> Result<Reply, ModelFailure> {
    thread_local! {
        static MADE: RefCell<BTreeMap<u16, Result<Reply, ModelFailure>>> = RefCell::default();
    }
    MADE.with_borrow_mut(|made| made.entry(seed).or_insert_with(|| make_answer(seed)).clone())
}

/// Through the bytes of one provider. Errors that the reader finds stay errors.
fn make_answer(seed: u16) -> Result<Reply, ModelFailure> {
    let pick = |list: &[&'static str], shift: u16| list[usize::from(seed / shift) % list.len()];
    if seed.is_multiple_of(7) {
        let retry =
            [Retry::Backoff, Retry::After(5), Retry::Never][usize::from(seed / 7 % 16).min(2) % 3];
        let kinds = [
            "overloaded",
            "context_overflow",
            "stale_thinking",
            "tool_args_invalid",
            "empty_completion",
        ];
        let (kind, message) = (pick(&kinds, 31).to_owned(), "no".to_owned());
        return Err(ModelFailure { kind, retry, message, usage: Usage::default() });
    }
    let mut parts = Vec::new();
    if seed.is_multiple_of(3) {
        parts.push(Part::Thinking { text: pick(TEXTS, 5).to_owned() });
    }
    if !seed.is_multiple_of(5) {
        parts.push(Part::Text { text: pick(TEXTS, 11).to_owned() });
    }
    for call in 0..usize::from(seed / 13 % 4) {
        let id = match pick(IDS, 17) {
            "" if call == 0 => String::new(),
            id if call == 0 => id.to_owned(),
            id => format!("{id}{call}"),
        };
        let input = match NAMES[(usize::from(seed / 19) + call) % NAMES.len()] {
            "shell" => json!({ "command": "true" }),
            "write" => json!({ "path": "a", "content": "b" }),
            "ask" => json!({ "question": "well?" }),
            _ => json!({ "path": "a" }),
        };
        let name = NAMES[(usize::from(seed / 19) + call) % NAMES.len()].to_owned();
        parts.push(Part::ToolUse { id, name, input });
    }
    let has_calls = matches!(parts.last(), Some(Part::ToolUse { .. }));
    let stop = match seed / 23 % 8 {
        0 if !has_calls => StopReason::MaxTokens,
        1 if !has_calls => StopReason::Pause,
        2 if !has_calls => StopReason::StopSequence,
        _ if has_calls => StopReason::ToolUse,
        _ => StopReason::EndTurn,
    };
    let blocks = parts.into_iter().map(|part| Block { part, native: None }).collect();
    let message = Message { role: Role::Assistant, blocks };
    let input = if (seed / 37).is_multiple_of(6) { 90 } else { 7 };
    let usage = Usage { input: Some(input), output: Some(3), ..Usage::default() };
    let (id, model) = ("resp_1".to_owned(), model(seed).to_owned());
    let reply = Reply { id, model, message, stop, usage };
    let served = Served::ALL[usize::from(seed / 29) % 5];
    let mut stream = Stream::new(&*dialect(served), Limits::default()).for_model(self::model(seed));
    for chunk in render(&reply, served, Mode::Stream).chunks {
        // The stream keeps its error for its end.
        let _ = stream.push(&chunk, &mut Vec::new());
    }
    stream.finish().map_err(|error| ModelFailure {
        kind: error.kind.word().to_owned(),
        retry: error.retry,
        message: error.message,
        usage: error.usage,
    })
}

fn task() -> TaskSpec {
    TaskSpec {
        acceptance: vec![Criterion::Shell {
            command: "true".to_owned(),
            exit: 0,
            stdout: None,
            timeout: Span::seconds(1),
            repeat: 1,
            red_first: false,
        }],
        workspace: WorkspaceSpec {
            kind: Some(WorkspaceKind::Worktree),
            ..WorkspaceSpec::default()
        },
        ..TaskSpec::new(
            "a goal",
            DriverSpec::new("llm", json!({ "model": "a/b", "context": 100 })),
            "/project",
        )
    }
}

/// A model with a budget for its thoughts goes on after its tools only with the thoughts that led to them.
fn thinks_on(body: &Value) {
    let messages = body["messages"].as_array().unwrap();
    let [.., calls, results] = messages.as_slice() else { return };
    let has_results =
        results["content"].as_array().unwrap().iter().any(|block| block["type"] == "tool_result");
    if has_results && body["thinking"]["type"] == "enabled" {
        let first = calls["content"][0]["type"].as_str().unwrap();
        assert!(["thinking", "redacted_thinking"].contains(&first), "{body:#}");
    }
}

/// A task, and everything that its model was asked.
struct Rig {
    state: State,
    now: i64,
    /// The history of the last question.
    last: Vec<Arc<Message>>,
    questions: usize,
    /// False while a course is only repeated that was looked at before.
    checks: bool,
    /// Calls of the last whole answer that have not run.
    asked: Vec<(String, Value)>,
}

impl Rig {
    fn new(attended: bool) -> Rig {
        let registry = Arc::new(Registry::builtin());
        let mut rig = Rig {
            state: State::new(TaskId("t".to_owned()), registry),
            now: 1,
            last: Vec::new(),
            questions: 0,
            checks: true,
            asked: Vec::new(),
        };
        rig.input(Command::Start(Box::new(task())).into());
        rig.input(Command::Attach { owner: 1, attended }.into());
        rig
    }

    fn input(&mut self, input: Input) {
        self.now += 10;
        if let Input::Signal(Signal::ModelReplied(id, reply)) = &input
            && self.state.data().pending.get(id) == Some(&Pending::Model)
        {
            let parts = reply.as_ref().as_ref().map(|reply| reply.message.blocks.as_slice());
            let calls = parts.unwrap_or_default().iter().filter_map(|block| match &block.part {
                Part::ToolUse { name, input, .. } => Some((name.clone(), input.clone())),
                _ => None,
            });
            self.asked = calls.collect();
        }
        let output = step(&mut self.state, Stamped { time: Timestamp(self.now), input });
        for effect in output.effects {
            match effect {
                Effect::CallModel { call, .. } => self.check(&call),
                Effect::RunTool { call, .. } if !call.repeated => {
                    let key = (call.tool, Value::clone(&call.input));
                    let found = self.asked.iter().position(|asked| *asked == key);
                    let found = found.expect("a tool runs only if a whole answer asks for it");
                    self.asked.remove(found);
                }
                _ => {}
            }
        }
    }

    /// The question, as each provider would get it.
    fn check(&mut self, call: &ModelCall) {
        self.questions += 1;
        let messages = Arc::clone(&call.messages);
        if self.last.first().is_some_and(|first| Arc::ptr_eq(first, &messages[0])) {
            assert!(messages.starts_with(&self.last), "what was said once is never changed");
        }
        let tools = ["read", "write"].map(|name| ToolDeclaration {
            name: name.to_owned(),
            description: String::new(),
            schema: json!({ "type": "object" }),
        });
        let model = model((self.questions / 3) as u16);
        let efforts = [None, Some(Effort::High), Some(Effort::None)];
        let request = ModelRequest {
            moved: call.moved,
            effort: efforts[self.questions / 2 % 3],
            tool_choice: if call.words_only { ToolChoice::None } else { ToolChoice::Auto },
            tools: tools.to_vec().into(),
            cache: true,
            messages,
            ..request(model, Vec::new())
        };
        for served in Served::ALL.into_iter().filter(|_| self.checks) {
            let body = dialect(served).encode(&request).body;
            let body: Value = serde_json::from_slice(&body).unwrap();
            if let Err(why) = accepts::check(served, &body) {
                panic!("{served:?} refuses: {why}\n{body:#}\nmade of {:#?}", request.messages);
            }
            if served == Served::AnthropicMessages {
                thinks_on(&body);
            }
        }
        if !call.compacts {
            self.last = request.messages.to_vec();
        }
    }

    /// What the world reports next, chosen by a seed; nothing if nothing is under way.
    fn report(&mut self, seed: u16) -> Option<Input> {
        let pending: Vec<(EffectId, Pending)> =
            self.state.data().pending.iter().map(|(id, pending)| (*id, *pending)).collect();
        let (id, pending) = *pending.get(usize::from(seed) % pending.len().max(1))?;
        let workspace = Workspace {
            kind: WorkspaceKind::Worktree,
            path: Some("/project".to_owned()),
            branch: None,
            base: None,
        };
        let criterion = CriterionResult {
            title: "t".to_owned(),
            passed: false,
            exit: Some(1),
            evidence: String::new(),
            millis: 1,
            ..CriterionResult::default()
        };
        let result = match seed / 7 % 4 {
            0 => ToolResult::ok(""),
            1 => ToolResult::ended(Status::Error, ""),
            2 => ToolResult::ended(Status::TimedOut, "slow"),
            _ => ToolResult::ok("out"),
        };
        Some(match pending {
            Pending::Workspace => Signal::WorkspaceOpened(id, Ok(workspace)).into(),
            Pending::Tools => Signal::ToolsOpened(id, Vec::new()).into(),
            Pending::Call(_) => Input::ToolEnded(id, result),
            Pending::Model | Pending::Judge => {
                let reply = answer(seed);
                Signal::ModelReplied(id, Box::new(reply)).into()
            }
            Pending::Checkpoint => Signal::Checkpointed(
                id,
                Ok(Checkpoint { name: "c".to_owned(), tree: "tree".to_owned() }),
            )
            .into(),
            Pending::Agent => Signal::AgentEnded(id, Err("no".to_owned())).into(),
            Pending::Child => {
                let nobody = TaskId("nobody".to_owned());
                let end = ChildEnd::failed(nobody, "no".to_owned());
                Signal::ChildLeft(id, Box::new(end)).into()
            }
            Pending::Restore => Signal::Restored(id, Err("no".to_owned())).into(),
            Pending::Verify => Signal::Verified(id, Ok(Verdict::of(vec![criterion]))).into(),
            Pending::Consult | Pending::Decider(_) => {
                Signal::Consulted(id, Err("no".to_owned())).into()
            }
            Pending::Retry
            | Pending::Alarm
            | Pending::Deadline
            | Pending::DeciderTimer(_)
            | Pending::JudgeTimer => Signal::TimerFired(id).into(),
        })
    }

    /// Goes on by itself; a call that waits for a person gets its answer.
    fn go_on(&mut self, seed: u16) {
        let waiting = self.state.data().calls.iter().find_map(|call| match call.status {
            CallStatus::AwaitingApproval { .. } if seed.is_multiple_of(2) => {
                Some(Command::approve(call.id))
            }
            CallStatus::AwaitingApproval { .. } => Some(Command::deny(call.id, "no".to_owned())),
            CallStatus::AwaitingAnswer => {
                Some(Command::Answer { call: call.id, text: String::new() })
            }
            CallStatus::InDoubt => {
                let how = machine::input::Resolution::Did;
                Some(Command::Resolve { call: call.id, how })
            }
            _ => None,
        });
        match (waiting, self.report(seed)) {
            (Some(command), None) => self.input(command.into()),
            (Some(command), Some(_)) if seed.is_multiple_of(3) => self.input(command.into()),
            (_, Some(input)) => self.input(input),
            (None, None) => {}
        }
    }

    fn phase(&self) -> &'static str {
        let data = self.state.data();
        match &data.phase {
            Phase::New => "new",
            Phase::OpeningWorkspace | Phase::OpeningTools => "opening",
            Phase::Ready => "ready",
            Phase::Acting
                if data.calls.iter().any(|call| {
                    matches!(
                        call.status,
                        CallStatus::AwaitingApproval { .. } | CallStatus::AwaitingAnswer
                    )
                }) =>
            {
                "awaiting a person"
            }
            Phase::Acting => "acting",
            Phase::Consulting { .. } if data.pending.values().any(|p| *p == Pending::Retry) => {
                "waiting to ask again"
            }
            Phase::Consulting { .. } => "asking",
            Phase::Waiting(_) => "waiting",
            Phase::Escalated { .. } => "asking a person",
            Phase::KeepingBase => "keeping_base",
            Phase::Checkpointing { .. } => "checkpointing",
            Phase::Verifying { .. } => "verifying",
            Phase::Judging(_) => "judging",
            Phase::RollingBack { .. } => "going back",
            Phase::Finished { .. } => "finished",
        }
    }

    fn disturb(&mut self, kind: u8, attended: bool) {
        let note = || "listen".to_owned();
        let attach = Command::Attach { owner: 2, attended };
        match kind % 11 {
            0 => self.input(Command::Interrupt { note: note() }.into()),
            1 => self.input(Command::Steer { text: note() }.into()),
            2 => self.input(Command::FollowUp { text: note() }.into()),
            3 => self.input(Command::Pause.into()),
            4 => self.input(Command::Resume.into()),
            5 => {
                self.input(Signal::OwnerLost.into());
                self.input(attach.into());
            }
            6 => {
                self.input(Command::Detach { reason: note() }.into());
                self.input(attach.into());
            }
            7 => {
                let other = DriverSpec::new("llm", json!({ "model": "a/c", "context": 100 }));
                self.input(Command::HandOver(other).into());
            }
            8 => self.input(Command::Compact { focus: note() }.into()),
            9 => {
                let user = DriverSpec::new("user", json!({}));
                self.input(Command::HandOver(user).into());
                let other = DriverSpec::new("llm", json!({ "model": "a/b" }));
                self.input(Command::HandOver(other).into());
            }
            _ => {
                self.input(Command::Interrupt { note: String::new() }.into());
                self.input(Signal::OwnerLost.into());
                self.input(Command::Steer { text: note() }.into());
                self.input(attach.into());
            }
        }
    }
}

/// Answers that lead through every phase: tools that run, one that is asked about, a failure that is waited
/// out, a claim that is not accepted.
const COURSE: [u16; 24] = {
    let mut seeds = [0; 24];
    let mut at = 0;
    while at < seeds.len() {
        seeds[at] = (at as u16).wrapping_mul(2749).wrapping_add(101);
        at += 1;
    }
    seeds
};

#[test]
fn an_interruption_in_every_phase_leaves_a_history_that_every_provider_accepts() {
    let mut phases = BTreeSet::new();
    let mut questions = 0;
    for attended in [false, true] {
        for course in [0_u16, 3, 5, 6] {
            let seed = |at: usize| COURSE[at % COURSE.len()].wrapping_add(course.wrapping_mul(977));
            for at in 0..COURSE.len() {
                for kind in 0..8 {
                    let mut rig = Rig::new(attended);
                    rig.checks = kind == 0;
                    (0..at).for_each(|at| rig.go_on(seed(at)));
                    if rig.phase() == "finished" {
                        break;
                    }
                    phases.insert(rig.phase());
                    rig.checks = true;
                    let before = rig.questions;
                    rig.disturb(kind, attended);
                    rig.disturb(4, attended);
                    (at..at + 8).for_each(|at| rig.go_on(seed(at)));
                    questions += rig.questions - before;
                }
            }
        }
    }
    let met: Vec<&str> = phases.into_iter().collect();
    let expected = [
        "acting",
        "asking",
        "awaiting a person",
        "checkpointing",
        "keeping_base",
        "opening",
        "verifying",
        "waiting to ask again",
    ];
    assert_eq!(met, expected);
    assert!(questions > 1_000, "{questions}");
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn any_course_of_a_task_leaves_a_history_that_every_provider_accepts(
        attended: bool,
        moves in prop::collection::vec(any::<(u8, u16)>(), 1..50),
    ) {
        let mut rig = Rig::new(attended);
        for (kind, seed) in moves {
            if kind < 64 {
                rig.disturb(kind, attended);
            } else {
                rig.go_on(seed);
            }
        }
    }
}

/// Encoded for every provider, and taken by it.
fn encoded(served: Served, messages: Vec<Message>) -> String {
    let body = dialect(served).encode(&request("m", messages)).body;
    String::from_utf8(body).unwrap()
}

#[test]
fn a_tool_that_nobody_offered_goes_back_under_a_name_that_is_taken() {
    let call = tool_use("abcdefgh1", "functions.read ü", json!({}));
    let result = tool_result("abcdefgh1", "functions.read ü", "no such tool");
    let messages = vec![user([text("hi")]), assistant([call]), user([result])];
    for served in Served::ALL {
        let body = encoded(served, messages.clone());
        assert!(body.contains("\"functions_read__\""), "{served:?}: {body}");
        assert_eq!(accepts::check(served, &serde_json::from_str(&body).unwrap()), Ok(()));
    }
}

#[test]
fn a_turn_that_another_provider_paused_is_asked_to_go_on() {
    let messages = vec![user([text("hi")]), assistant([text("I am searching.")])];
    for served in [Served::AnthropicMessages, Served::GoogleGenerate, Served::Mistral] {
        let body = encoded(served, messages.clone());
        assert!(body.contains("Continue."), "{served:?}: {body}");
        assert_eq!(accepts::check(served, &serde_json::from_str(&body).unwrap()), Ok(()));
    }
}

#[test]
fn the_answers_of_these_tests_are_of_all_kinds() {
    let answers: Vec<_> = (0..4000).map(answer).collect();
    let whole = answers.iter().flatten().count();
    let stops = |stop| answers.iter().flatten().filter(|reply| reply.stop == stop).count();
    let natives = answers.iter().flatten().flat_map(|reply| &reply.message.blocks);
    let dialects: BTreeSet<_> =
        natives.filter_map(|block| Some(block.native.as_ref()?.dialect.as_str())).collect();
    assert!(whole > 2000, "{whole}");
    for stop in [StopReason::ToolUse, StopReason::EndTurn, StopReason::MaxTokens, StopReason::Pause]
    {
        assert!(stops(stop) > 5, "{stop:?}: {}", stops(stop));
    }
    assert_eq!(dialects.len(), 4, "{dialects:?}");
    let empty = ErrorKind::EmptyCompletion.word();
    assert!(answers.iter().any(|answer| matches!(answer, Err(failure) if failure.kind == empty)));
}
