//! A task driven by hand: inputs in, events folded, with the clock as a field.

use std::sync::Arc;

use machine::driver::Registry;
use machine::id::{EffectId, TaskId};
use machine::input::{Command, Input, Signal, Stamped};
use machine::policy::budget::Budget;
use machine::policy::permission::{Policy, Rule, Unattended};
use machine::state::State;
use machine::task::{Criterion, DriverSpec, TaskSpec, Workspace, WorkspaceKind, WorkspaceSpec};
use machine::time::Timestamp;
use machine::tool::ToolResult;
use machine::{Effect, Event, step};
use serde_json::{Value, json};
use view::story::Story;
use view::transcript::{Detail, Transcript};
use view::why::{self, Subject};

/// A task and what became of it so far.
pub(crate) struct Scene {
    pub(crate) state: State,
    pub(crate) now: i64,
    pub(crate) pid: Option<u32>,
    pub(crate) story: Story,
    pub(crate) events: Vec<Event>,
    effects: Vec<Effect>,
}

/// A task as most scenes want it.
pub(crate) fn spec(driver: &str, config: Value) -> TaskSpec {
    TaskSpec {
        budget: Budget { max_turns: Some(2), ..Budget::default() },
        workspace: WorkspaceSpec { kind: Some(WorkspaceKind::InPlace), ..WorkspaceSpec::default() },
        ..TaskSpec::new("make the numbers add up", DriverSpec::new(driver, config), "/work")
    }
}

/// A workflow of shell commands.
pub(crate) fn workflow(commands: &[&str]) -> TaskSpec {
    let steps: Vec<Value> = commands
        .iter()
        .enumerate()
        .map(|(i, command)| json!({"name": format!("s{i}"), "tool": "shell", "parameters": {"command": command}}))
        .collect();
    spec("workflow", json!({ "steps": steps }))
}

/// A criterion.
pub(crate) fn shell(command: &str) -> Criterion {
    Criterion::Shell {
        command: command.to_owned(),
        exit: 0,
        stdout: None,
        timeout: machine::time::Span::seconds(9),
        repeat: 1,
        red_first: false,
    }
}

/// A policy that asks about every shell command, and waits for the answer.
pub(crate) fn asking() -> Policy {
    let rule =
        Rule { tool: "shell".to_owned(), reason: "look first".to_owned(), ..Rule::default() };
    Policy { rules: vec![rule], unattended: Unattended::Wait, ..Policy::default() }
}

impl Scene {
    /// A task that was started and taken up, with its workspace open.
    pub(crate) fn begin(spec: TaskSpec) -> Scene {
        let state = State::new(TaskId("k3v9".to_owned()), Arc::new(Registry::builtin()));
        let mut scene = Scene {
            state,
            now: 1_000_000,
            pid: Some(4711),
            story: Story::default(),
            events: Vec::new(),
            effects: Vec::new(),
        };
        scene.put(Command::Start(Box::new(spec)));
        scene.put(Command::Attach { owner: 1, attended: false });
        let workspace = Workspace {
            kind: WorkspaceKind::InPlace,
            path: Some("/work".to_owned()),
            branch: None,
            base: None,
        };
        let id = scene.next_effect();
        scene.put(Signal::WorkspaceOpened(id, Ok(workspace)));
        scene
    }

    /// One input, 100 ms after the last.
    pub(crate) fn put(&mut self, input: impl Into<Input>) {
        self.now += 100;
        let output =
            step(&mut self.state, Stamped { time: Timestamp(self.now), input: input.into() });
        output.events.iter().for_each(|event| self.story.tell(event));
        self.events.extend(output.events);
        self.effects.extend(output.effects);
    }

    /// The oldest effect that has not been answered; timers are not waited for.
    pub(crate) fn next_effect(&mut self) -> EffectId {
        self.effects
            .retain(|effect| !matches!(effect, Effect::SetTimer { .. } | Effect::Cancel { .. }));
        self.effects.remove(0).id()
    }

    /// The oldest call under way ends.
    pub(crate) fn end(&mut self, result: ToolResult) {
        let id = self.next_effect();
        self.put(Input::ToolEnded(id, result));
    }

    /// What `why` shows.
    pub(crate) fn why(&self) -> String {
        let standing = self.state.standing();
        view::join(&why::lines(&self.subject(&standing)))
    }

    /// What `why` looks at.
    pub(crate) fn subject<'a>(&'a self, standing: &'a machine::state::Standing) -> Subject<'a> {
        Subject {
            data: self.state.data(),
            standing,
            driver: self.state.driver_name(),
            same: why::same(&self.state.driver_spec()),
            story: &self.story,
            driven_by: self.pid,
            interrupted: self.pid.is_none() && self.state.data().attachment.is_some(),
            stopped: &[],
            full: None,
            receipt: None,
            applied: None,
            now: Timestamp(self.now + 5000),
        }
    }

    /// The whole transcript.
    pub(crate) fn transcript(&self, detail: Detail) -> String {
        let mut transcript = Transcript::new(detail);
        let lines: Vec<view::Line> =
            self.events.iter().flat_map(|event| transcript.lines(event)).collect();
        view::join(&lines)
    }
}
