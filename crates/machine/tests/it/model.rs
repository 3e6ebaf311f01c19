//! A model in a test: a task that it decides on, and its answers.

use machine::input::Signal;
use machine::message::{Block, Message, ModelFailure, Part, Reply, Role, StopReason, Usage};
use machine::task::{DriverSpec, TaskSpec};
use serde_json::{Value, json};

use crate::rig::{Rig, spec};

pub(crate) fn task() -> TaskSpec {
    let driver = DriverSpec::new("llm", json!({ "model": "script/x" }));
    TaskSpec { driver, ..spec(json!(null)) }
}

pub(crate) fn reply(parts: Vec<Part>, stop: StopReason) -> Reply {
    let blocks = parts.into_iter().map(|part| Block { part, native: None }).collect();
    let message = Message { role: Role::Assistant, blocks };
    let (id, model) = ("r".to_owned(), "m".to_owned());
    Reply { id, model, message, stop, usage: Usage::default() }
}

pub(crate) fn text(words: &str) -> Part {
    Part::Text { text: words.to_owned() }
}

pub(crate) fn tool(id: &str, name: &str, input: Value) -> Part {
    Part::ToolUse { id: id.to_owned(), name: name.to_owned(), input }
}

/// Answers the question of the last output.
pub(crate) fn answer(rig: &mut Rig, answer: Result<Reply, ModelFailure>) {
    let id = rig.effect("call_model");
    rig.input(Signal::ModelReplied(id, Box::new(answer)).into());
}
