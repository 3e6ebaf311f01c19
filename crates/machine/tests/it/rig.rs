//! A task in a test: inputs in, effects and events out, the clock a field.

use std::sync::Arc;

use machine::driver::Registry;
use machine::driver::scripted::ScriptedKind;
use machine::effect::Effect;
use machine::event::EventKind;
use machine::id::{CallId, EffectId, TaskId};
use machine::input::{Command, Input, Signal, Stamped};
use machine::state::State;
use machine::task::{Criterion, DriverSpec, TaskSpec, Workspace, WorkspaceKind, WorkspaceSpec};
use machine::time::{Span, Timestamp};
use machine::tool::ToolResult;
use machine::{Output, step};
use serde_json::{Value, json};

pub(crate) fn registry() -> Arc<Registry> {
    let mut registry = Registry::builtin();
    registry.register(Arc::new(ScriptedKind));
    Arc::new(registry)
}

pub(crate) fn spec(config: Value) -> TaskSpec {
    TaskSpec {
        workspace: WorkspaceSpec { kind: Some(WorkspaceKind::InPlace), ..WorkspaceSpec::default() },
        ..TaskSpec::new("a goal", DriverSpec::new("scripted", config), "/project")
    }
}

pub(crate) fn check_of(command: &str) -> Criterion {
    Criterion::Shell {
        command: command.to_owned(),
        exit: 0,
        stdout: None,
        timeout: Span::seconds(60),
        repeat: 1,
        red_first: false,
    }
}

pub(crate) fn shell(command: &str) -> Value {
    json!({ "tool": "shell", "input": { "command": command } })
}

pub(crate) fn read(path: &str) -> Value {
    json!({ "tool": "read", "input": { "path": path } })
}

pub(crate) struct Rig {
    pub(crate) state: State,
    pub(crate) now: i64,
    pub(crate) last: Output,
}

impl Rig {
    /// A task that was started and taken up, with its workspace open.
    pub(crate) fn started(spec: TaskSpec) -> Rig {
        let mut rig = Rig::new();
        rig.command(Command::Start(Box::new(spec)));
        rig.attach(false);
        rig.open_workspace();
        rig
    }

    pub(crate) fn new() -> Rig {
        let state = State::new(TaskId("t1".to_owned()), registry());
        Rig { state, now: 1000, last: Output::default() }
    }

    pub(crate) fn attach(&mut self, attended: bool) -> &mut Rig {
        self.command(Command::Attach { owner: 1, attended })
    }

    pub(crate) fn open_workspace(&mut self) -> &mut Rig {
        let id = self.effect("open_workspace");
        let workspace = Workspace {
            kind: WorkspaceKind::InPlace,
            path: Some("/project".to_owned()),
            branch: None,
            base: None,
        };
        self.input(Signal::WorkspaceOpened(id, Ok(workspace)).into())
    }

    pub(crate) fn input(&mut self, input: Input) -> &mut Rig {
        self.now += 1;
        self.last = step(&mut self.state, Stamped { time: Timestamp(self.now), input });
        self
    }

    pub(crate) fn command(&mut self, command: Command) -> &mut Rig {
        self.input(command.into())
    }

    pub(crate) fn ended(&mut self, effect: u64, result: ToolResult) -> &mut Rig {
        self.input(Input::ToolEnded(EffectId(effect), result))
    }

    /// The one effect of that kind in the last output.
    pub(crate) fn effect(&self, kind: &str) -> EffectId {
        let found: Vec<&Effect> = self.last.effects.iter().filter(|e| name(e) == kind).collect();
        assert_eq!(found.len(), 1, "{kind} in {:?}", self.last.effects);
        found[0].id()
    }

    /// What was decided about calls in the last output, one line each.
    pub(crate) fn decisions(&self) -> String {
        let lines = self.last.events.iter().filter_map(|event| match &event.kind {
            EventKind::CallJudged { call, decide, by, reason, .. } => {
                let decide = serde_json::to_value(decide).unwrap();
                let reason = if reason.is_empty() { String::new() } else { format!(": {reason}") };
                Some(format!("{call} {} by {by}{reason}", decide.as_str().unwrap()))
            }
            _ => None,
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    /// The last output in words: effects, then events.
    pub(crate) fn told(&self) -> String {
        let effects: Vec<String> =
            self.last.effects.iter().map(|e| format!("{}#{}", name(e), e.id().0)).collect();
        let shown = self.last.events.iter().filter(|e| !is_decision(&e.kind));
        let events: Vec<String> = shown.map(|e| event_name(&e.kind)).collect();
        let rejected =
            self.last.rejected.as_ref().map(|r| format!(" rejected: {r}")).unwrap_or_default();
        format!("[{}] {}{rejected}", effects.join(" "), events.join(", "))
    }
}

/// Decisions about calls have scenarios of their own; see `decisions.rs`.
fn is_decision(kind: &EventKind) -> bool {
    matches!(kind, EventKind::CallJudged { .. })
}

fn name(effect: &Effect) -> &'static str {
    match effect {
        Effect::OpenWorkspace { .. } => "open_workspace",
        Effect::OpenTools { .. } => "open_tools",
        Effect::RunTool { .. } => "run_tool",
        Effect::Consult { .. } => "consult",
        Effect::AnswerRequest { .. } => "answer_request",
        Effect::CallModel { .. } => "call_model",
        Effect::Checkpoint { .. } => "checkpoint",
        Effect::AskAgent { .. } => "agent",
        Effect::TellAgent { .. } => "tell agent",
        Effect::LetAsk { .. } => "let ask",
        Effect::DismissAgents { .. } => "dismiss agents",
        Effect::Restore { .. } => "restore",
        Effect::Verify { .. } => "verify",
        Effect::DriveChild { .. } => "drive_child",
        Effect::TellChild { .. } => "tell_child",
        Effect::TakeUpChild { .. } => "take_up_child",
        Effect::SetTimer { .. } => "set_timer",
        Effect::Cancel { .. } => "cancel",
    }
}

fn event_name(kind: &EventKind) -> String {
    let value = serde_json::to_value(kind).unwrap();
    let name = value["type"].as_str().unwrap().to_owned();
    match kind {
        EventKind::ToolEnded { call, result, .. } => {
            format!("{name} {call} {}", result.status.word())
        }
        EventKind::ToolStarted { call, .. }
        | EventKind::CallInDoubt { call, .. }
        | EventKind::ApprovalRequested { call, .. }
        | EventKind::DeciderAsked { call, .. }
        | EventKind::QuestionAsked { call, .. } => format!("{name} {call}"),
        EventKind::TaskFinished { outcome, .. } => format!("{name} {}", outcome.word()),
        EventKind::NoteDelivered { note } => format!("{name} {}", note.text),
        _ => name,
    }
}

pub(crate) fn call(id: u64) -> CallId {
    CallId(id)
}
