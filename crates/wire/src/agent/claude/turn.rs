//! When a turn begins, whose it is, and how it ended.

use machine::agent::{AgentEnd, AgentTurn};
use machine::message::Retry;
use serde_json::Value;

use super::voice::failure;
use crate::model::ModelError;

/// The prompts that were sent, and the turns that answer them. Several may be answered by one turn, one in the middle
/// of a turn by that turn, and a turn may begin by itself and answer none.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// Sent and not answered yet, in order.
    sent: Vec<Sent>,
    /// How many had been sent when the turn began; none while there is no turn.
    open: Option<usize>,
}

#[derive(Debug)]
struct Sent {
    uuid: String,
    /// The program has taken it up.
    is_taken: bool,
}

impl Turns {
    /// A prompt is sent.
    pub(super) fn sent(&mut self, uuid: &str) {
        self.sent.push(Sent { uuid: uuid.to_owned(), is_taken: false });
    }

    /// The program echoes a prompt: it has taken it up.
    pub(super) fn taken(&mut self, uuid: &str) {
        for sent in self.sent.iter_mut().filter(|sent| sent.uuid == uuid) {
            sent.is_taken = true;
        }
    }

    /// Something of a turn is heard. True if it is the first, and nobody had asked.
    pub(super) fn hear(&mut self) -> bool {
        if self.open.is_some() {
            return false;
        }
        self.open = Some(self.sent.len());
        self.sent.is_empty()
    }

    /// The program has ended: how its turn did, if one was under way or asked for. `held` says whether one that was ordered
    /// goes on in its background.
    pub(super) fn cut_off(&mut self, background: u64, held: bool) -> Option<AgentTurn> {
        let Turns { sent, open } = std::mem::take(self);
        (open.is_some() || !sent.is_empty() || held).then(|| AgentTurn {
            end: AgentEnd::Failed,
            text: "the agent's program ended in the middle of a turn".to_owned(),
            ordered: !sent.is_empty() || held,
            refused: 0,
            background,
            queued: 0,
        })
    }

    /// A turn has ended. Whether it answered a prompt, and how many prompts are still to be answered.
    pub(super) fn end(&mut self, result: &Value) -> (bool, u64) {
        let before = self.open.take().unwrap_or(self.sent.len());
        for uuid in result["user_message_uuids"].as_array().into_iter().flatten() {
            self.taken(uuid.as_str().unwrap_or_default());
        }
        let waited = self.sent.len();
        self.sent.retain(|sent| !sent.is_taken);
        let mut ordered = self.sent.len() < waited;
        let by_itself = result["origin"]["kind"].as_str().is_some_and(|kind| kind != "human");
        if !ordered && !by_itself && before > 0 {
            // No echo: it answers whatever had been sent when it began.
            self.sent.drain(..before.min(self.sent.len()));
            ordered = true;
        }
        (ordered, self.sent.len() as u64)
    }
}

/// How a turn ended. `word` is what the program called the failure of its model, `interrupts` whether it was told to
/// stop.
pub(super) fn ended(result: &Value, word: Option<&str>, interrupts: bool) -> (AgentEnd, String) {
    let errors: Vec<&str> =
        result["errors"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let text = match result["result"].as_str() {
        Some(text) => text.to_owned(),
        None => errors.join("; "),
    };
    let reason = result["terminal_reason"].as_str().unwrap_or_default();
    let subtype = result["subtype"].as_str().unwrap_or_default();
    // The subtype alone would call every failure of a model a success.
    if result["is_error"].as_bool() != Some(true) && !subtype.starts_with("error") {
        let refused = result["stop_reason"] == "refusal";
        return (if refused { AgentEnd::Refused } else { AgentEnd::Done }, text);
    }
    let status = result["api_error_status"].as_u64().and_then(|status| u16::try_from(status).ok());
    let end = match reason {
        "aborted_streaming" | "aborted_tools" => AgentEnd::Interrupted,
        "prompt_too_long" => AgentEnd::ContextOverflow,
        "max_turns"
        | "budget_exhausted"
        | "blocking_limit"
        | "structured_output_retry_exhausted" => AgentEnd::Limit,
        "api_error" | "image_error" | "model_error" => model(status, word, &text),
        _ if subtype.starts_with("error_max") => AgentEnd::Limit,
        _ if text.contains("No conversation found with session ID") => AgentEnd::NoSession,
        _ if status.is_some() || word.is_some() => model(status, word, &text),
        _ if interrupts && subtype == "error_during_execution" => AgentEnd::Interrupted,
        _ => AgentEnd::Failed,
    };
    // What the program notes for its own developers is nothing to read.
    let text = if end == AgentEnd::Interrupted { String::new() } else { text };
    (end, text)
}

fn model(status: Option<u16>, word: Option<&str>, text: &str) -> AgentEnd {
    let error = ModelError::new(failure(status, word, text), "");
    AgentEnd::Model {
        kind: error.kind.word().to_owned(),
        status,
        again: error.retry != Retry::Never,
        after: None,
    }
}
