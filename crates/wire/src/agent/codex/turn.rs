//! The turn under way, its items, and what the thread has cost so far.

use std::collections::BTreeMap;
use std::sync::Arc;

use machine::agent::AgentEvent;
use machine::message::Usage;
use serde_json::{Value, json};

use super::super::answer::Answer;
use super::super::peer::beginning;

/// What is kept of a command's output while it runs, and given of it when it has ended.
const LONGEST_OUTPUT: usize = 16 << 10;

/// More items or threads than this at once are not remembered.
const MOST: usize = 1000;

/// Notifications that tell nothing that anybody acts on.
const IGNORED: &[&str] = &[
    "account/rateLimits/updated",
    "account/updated",
    "app/list/updated",
    "configWarning",
    "deprecationNotice",
    "item/commandExecution/terminalInteraction",
    "item/fileChange/outputDelta",
    "item/mcpToolCall/progress",
    "item/plan/delta",
    "item/reasoning/summaryPartAdded",
    "mcpServer/startupStatus/updated",
    "remoteControl/status/changed",
    "skills/changed",
    "thread/closed",
    "thread/compacted",
    "thread/environment/connected",
    "thread/goal/cleared",
    "thread/goal/updated",
    "thread/name/updated",
    "thread/queue/changed",
    "thread/readState/changed",
    "thread/settings/updated",
    "thread/started",
    "thread/status/changed",
    "turn/diff/updated",
    "turn/plan/updated",
    "warning",
];

/// What is known of the turns of one thread.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// The thread, once it is open.
    pub(super) thread: String,
    current: Option<Turn>,
    items: BTreeMap<String, Item>,
    /// What each thread has cost so far; nothing for one of which no total is known.
    totals: BTreeMap<String, Counters>,
    /// Whether the thread began in this process, so that its total began at nothing.
    is_new: bool,
    /// The size of the conversation, and what it was when it began to be made shorter.
    size: Option<u64>,
    size_before: Option<u64>,
}

#[derive(Debug, Default)]
struct Turn {
    id: Option<String>,
    ordered: bool,
    refused: u64,
    /// It is to be stopped as soon as it has an id.
    wants_interrupt: bool,
}

#[derive(Debug, Default)]
struct Item {
    /// The changes of a patch.
    changes: Option<Value>,
    /// Whether any of it has streamed by.
    has_deltas: bool,
    output: String,
}

/// Input with what came from and went to a cache, those two, output with thinking, thinking.
type Counters = [u64; 5];

impl Turns {
    pub(super) fn new(is_new: bool) -> Turns {
        Turns { is_new, ..Turns::default() }
    }

    /// A turn is about to be ordered.
    pub(super) fn order(&mut self) -> Result<(), String> {
        if self.current.is_some() {
            return Err("codex is in the middle of a turn; steer it or wait for its end".to_owned());
        }
        self.current = Some(Turn { ordered: true, ..Turn::default() });
        Ok(())
    }

    /// The turn that was ordered has this id. Whether it is to be stopped at once.
    pub(super) fn named(&mut self, id: &str) -> bool {
        let Some(turn) = &mut self.current else { return false };
        turn.id.get_or_insert_with(|| id.to_owned());
        std::mem::take(&mut turn.wants_interrupt)
    }

    /// A turn began. Whether nobody ordered it.
    pub(super) fn began(&mut self, id: &str) -> bool {
        match &mut self.current {
            Some(turn) => {
                turn.id.get_or_insert_with(|| id.to_owned());
                false
            }
            None => {
                self.current = Some(Turn { id: Some(id.to_owned()), ..Turn::default() });
                true
            }
        }
    }

    pub(super) fn is_under_way(&self) -> bool {
        self.current.is_some()
    }

    pub(super) fn is_current(&self, id: &str) -> bool {
        let turn = self.current.as_ref();
        turn.is_some_and(|turn| turn.id.as_deref().is_none_or(|current| current == id))
    }

    pub(super) fn id(&self) -> Option<String> {
        self.current.as_ref().and_then(|turn| turn.id.clone())
    }

    /// Whether the turn can be stopped now; one without an id is stopped once it has one.
    pub(super) fn wants_interrupt(&mut self) -> Result<bool, String> {
        let turn = self.current.as_mut().ok_or("codex has no turn that could be stopped")?;
        turn.wants_interrupt = turn.id.is_none();
        Ok(turn.id.is_some())
    }

    pub(super) fn refused(&mut self, is_refused: bool) {
        if let Some(turn) = &mut self.current {
            turn.refused += u64::from(is_refused);
        }
    }

    /// The turn is over: whether it was ordered, and how much of it was refused.
    pub(super) fn end(&mut self) -> (bool, u64) {
        self.items.clear();
        let turn = self.current.take().unwrap_or_default();
        (turn.ordered, turn.refused)
    }

    /// The changes of the patch with this item's id.
    pub(super) fn changes(&self, item: &str) -> Option<&Value> {
        self.items.get(item).and_then(|item| item.changes.as_ref())
    }

    /// Counters of a thread, ours or a helper's.
    pub(super) fn on_usage(&mut self, params: &Value, out: &mut Vec<AgentEvent>) {
        let thread = params["threadId"].as_str().unwrap_or_default();
        let (total, last) = (&params["tokenUsage"]["total"], &params["tokenUsage"]["last"]);
        let is_ours = thread == self.thread;
        if is_ours {
            self.size = last["totalTokens"].as_u64().or(self.size);
        }
        let now = counters(total);
        // A helper's thread begins here, and so does ours unless it was resumed.
        let starts_at_nothing = !is_ours || self.is_new;
        let before = match self.totals.get(thread) {
            Some(before) => *before,
            None if starts_at_nothing => Counters::default(),
            // What a resumed thread cost before is told with a turn that is not the one under way. If it was never
            // told, only the last call is known to be of now.
            None if self.is_of_now(params) => {
                let last = counters(last);
                std::array::from_fn(|i| now[i].saturating_sub(last[i]))
            }
            None => now,
        };
        if self.totals.len() < MOST || self.totals.contains_key(thread) {
            self.totals.insert(thread.to_owned(), now);
        }
        let spent: Counters = std::array::from_fn(|i| now[i].saturating_sub(before[i]));
        if spent.iter().any(|count| *count > 0) {
            let [input, cache_read, cache_write, output, thinking] = spent;
            let usage = Usage {
                input: Some(input.saturating_sub(cache_read).saturating_sub(cache_write)),
                output: Some(output),
                thinking: Some(thinking),
                cache_read: Some(cache_read),
                cache_write: Some(cache_write),
                ..Usage::default()
            };
            out.push(AgentEvent::Spent { usage, usd: None });
        }
    }

    fn is_of_now(&self, params: &Value) -> bool {
        let current = self.current.as_ref().and_then(|turn| turn.id.as_deref());
        current.is_some() && params["turnId"].as_str() == current
    }

    /// An item's notification; false if nobody knows it.
    pub(super) fn on_item(
        &mut self,
        method: &str,
        params: &Value,
        answer: &mut Answer,
        out: &mut Vec<AgentEvent>,
    ) -> bool {
        let id = params["itemId"].as_str().unwrap_or_default();
        let delta = params["delta"].as_str().unwrap_or_default();
        match method {
            "item/started" => self.on_started(&params["item"], answer, out),
            "item/completed" => self.on_completed(&params["item"], answer, out),
            "item/agentMessage/delta" => {
                answer.text(id, delta, out);
                self.seen(id);
            }
            "item/reasoning/summaryTextDelta" | "item/reasoning/textDelta" => {
                answer.thinking(id, delta, out);
                self.seen(id);
            }
            "item/commandExecution/outputDelta" => {
                if let Some(item) = self.items.get_mut(id) {
                    let room = LONGEST_OUTPUT.saturating_sub(item.output.len());
                    item.output.push_str(beginning(delta, room));
                }
            }
            "item/fileChange/patchUpdated" => {
                if let Some(item) = self.items.get_mut(id) {
                    item.changes = Some(params["changes"].clone());
                }
            }
            known if IGNORED.contains(&known) => {}
            _ => return false,
        }
        true
    }

    fn seen(&mut self, id: &str) {
        if let Some(item) = self.items.get_mut(id) {
            item.has_deltas = true;
        }
    }

    fn on_started(&mut self, item: &Value, answer: &mut Answer, out: &mut Vec<AgentEvent>) {
        let id = item["id"].as_str().unwrap_or_default();
        if self.items.len() < MOST {
            let changes = Some(item["changes"].clone()).filter(Value::is_array);
            self.items.insert(id.to_owned(), Item { changes, ..Item::default() });
        }
        match item["type"].as_str().unwrap_or_default() {
            "userMessage" | "agentMessage" | "reasoning" | "plan" | "hookPrompt" => {}
            "contextCompaction" => self.size_before = self.size,
            _ => {
                let (name, input) = call(item);
                answer.tool(&Arc::from(id), &name, &input, out);
            }
        }
    }

    fn on_completed(&mut self, item: &Value, answer: &mut Answer, out: &mut Vec<AgentEvent>) {
        let id = item["id"].as_str().unwrap_or_default();
        let known = self.items.remove(id).unwrap_or_default();
        match item["type"].as_str().unwrap_or_default() {
            "userMessage" | "plan" | "hookPrompt" => {}
            "agentMessage" if known.has_deltas => {}
            "agentMessage" => answer.text(id, item["text"].as_str().unwrap_or_default(), out),
            "reasoning" if known.has_deltas => {}
            "reasoning" => {
                let parts = [&item["summary"], &item["content"]].map(Value::as_array);
                let parts = parts.into_iter().flatten().flatten().filter_map(Value::as_str);
                answer.thinking(id, &parts.collect::<Vec<_>>().join("\n"), out);
            }
            "contextCompaction" => {
                let (before, after) = (self.size_before.take(), self.size);
                out.push(AgentEvent::Compacted { before, after });
            }
            _ => {
                answer.close(out);
                let (tool, _) = call(item);
                let exit = item["exitCode"].as_i64().unwrap_or(0);
                let ok = item["status"].as_str() == Some("completed") && exit == 0;
                let text = outcome(item, known.output);
                out.push(AgentEvent::ToolEnded { id: Arc::from(id), tool, ok, text });
            }
        }
    }
}

/// The tool and the parameters of an item that is a call.
fn call(item: &Value) -> (String, Value) {
    let kind = item["type"].as_str().unwrap_or("unknown");
    match kind {
        "commandExecution" => {
            (kind.to_owned(), json!({ "command": item["command"], "cwd": item["cwd"] }))
        }
        "fileChange" => (kind.to_owned(), json!({ "changes": item["changes"] })),
        "mcpToolCall" | "dynamicToolCall" => {
            let of = item["server"].as_str().or(item["namespace"].as_str());
            let tool = item["tool"].as_str().unwrap_or(kind);
            let name = of.map_or(tool.to_owned(), |of| format!("{of}.{tool}"));
            (name, item["arguments"].clone())
        }
        _ => {
            let mut input = item.clone();
            if let Some(fields) = input.as_object_mut() {
                fields.retain(|name, _| !matches!(name.as_str(), "id" | "type"));
                fields.retain(|name, _| !name.ends_with("AtMs"));
            }
            (kind.to_owned(), input)
        }
    }
}

/// What came of a call; the beginning, if it is long.
fn outcome(item: &Value, streamed: String) -> String {
    let said = match item["type"].as_str().unwrap_or_default() {
        "commandExecution" => item["aggregatedOutput"].as_str().map(str::to_owned),
        "fileChange" => Some(super::asks::changed(&item["changes"]).join("\n")),
        _ => {
            let error = item["error"]["message"].as_str();
            let mut result = [&item["result"], &item["contentItems"]].into_iter();
            let result = result.find(|value| !value.is_null()).map(Value::to_string);
            error.map(str::to_owned).or(result)
        }
    };
    let text = said.unwrap_or(streamed);
    let declined = item["status"].as_str() == Some("declined");
    let text = if declined { format!("declined: {text}") } else { text };
    beginning(&text, LONGEST_OUTPUT).to_owned()
}

fn counters(value: &Value) -> Counters {
    let names = [
        "inputTokens",
        "cachedInputTokens",
        "cacheWriteInputTokens",
        "outputTokens",
        "reasoningOutputTokens",
    ];
    names.map(|name| value[name].as_u64().unwrap_or_default())
}
