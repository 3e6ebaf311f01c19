//! A driver of one's own in Rust: `bisect` finds the first number for which a command fails.
//!
//! A driver only decides, so `step` alone runs it; `main` plays the world. Run with
//! `cargo run -p app --example custom_driver`.
#![allow(clippy::print_stdout)]

use std::collections::VecDeque;
use std::sync::Arc;

use machine::driver::{Action, Decision, Driver, DriverKind, Fact, Registry, Situation};
use machine::id::TaskId;
use machine::policy::permission::Author;
use machine::task::{TaskSpec, Workspace};
use machine::time::Timestamp;
use machine::tool::{Status, ToolResult};
use machine::{Command, Effect, Input, Signal, Stamped, State, step};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The kind: what a registry holds and a task file names.
#[derive(Debug)]
struct BisectKind;

/// The driver. All it remembers is plain data, so it can be saved between any two calls.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Bisect {
    good: u64,
    bad: u64,
    command: String,
}

impl DriverKind for BisectKind {
    fn name(&self) -> &str {
        "bisect"
    }

    fn version(&self) -> u32 {
        1
    }

    fn create(&self, config: &Value, _: &Registry) -> Result<Box<dyn Driver>, String> {
        Ok(Box::new(Bisect::deserialize(config).map_err(|why| why.to_string())?))
    }

    fn load(&self, _: &Value, saved: &Value, all: &Registry) -> Result<Box<dyn Driver>, String> {
        self.create(saved, all)
    }
}

impl Driver for Bisect {
    fn decide(&mut self, _: &Situation<'_>) -> Decision {
        if self.good + 1 >= self.bad {
            return Decision::Claim { summary: format!("{} is the first that fails", self.bad) };
        }
        let command = self.command.replace("{}", &u64::midpoint(self.good, self.bad).to_string());
        Decision::Act(vec![Action {
            tool: "shell".to_owned(),
            input: Arc::new(json!({ "command": command })),
            label: "try".to_owned(),
            tool_use: String::new(),
            path: Vec::new(),
            author: Author::Operator,
            timeout: None,
        }])
    }

    fn observe(&mut self, _: &Situation<'_>, fact: &Fact<'_>) {
        let Fact::Result { result, .. } = fact else { return };
        match result.status {
            Status::Ok => self.good = u64::midpoint(self.good, self.bad),
            Status::Error => self.bad = u64::midpoint(self.good, self.bad),
            // Denied, skipped or stopped says nothing about the number: it is tried again.
            _ => {}
        }
    }

    fn save(&self) -> Value {
        json!(self)
    }
}

fn main() -> Result<(), serde_json::Error> {
    let mut registry = Registry::builtin();
    registry.register(Arc::new(BisectKind));
    let mut state = State::new(TaskId("example".to_owned()), Arc::new(registry));
    let spec: TaskSpec = serde_json::from_value(json!({
        "goal": "find the first number that fails", "folder": "/",
        "driver": { "name": "bisect", "config": { "good": 0, "bad": 100, "command": "./works {}" } },
    }))?;
    let attach = Command::Attach { owner: 1, attended: false };
    let mut inbox = VecDeque::from([Command::Start(Box::new(spec)).into(), attach.into()]);
    let mut time = Timestamp(0);
    while let Some(input) = inbox.pop_front() {
        time.0 += 1;
        let output = step(&mut state, Stamped { time, input });
        for event in output.events {
            println!("{}", serde_json::to_string(&event)?);
        }
        inbox.extend(output.effects.into_iter().filter_map(perform));
    }
    Ok(())
}

/// The world: a folder that is not needed, and a command that works with every number below 42.
fn perform(effect: Effect) -> Option<Input> {
    match effect {
        Effect::OpenWorkspace { id, .. } => {
            let none: Workspace = serde_json::from_value(json!({ "kind": "none" })).ok()?;
            Some(Signal::WorkspaceOpened(id, Ok(none)).into())
        }
        Effect::RunTool { id, call, .. } => {
            let command = call.input["command"].as_str()?;
            let number: u64 = command.rsplit(' ').next()?.parse().ok()?;
            let status = if number < 42 { Status::Ok } else { Status::Error };
            Some(Input::ToolEnded(id, ToolResult::ended(status, command)))
        }
        _ => None,
    }
}
