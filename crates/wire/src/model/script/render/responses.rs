//! A reply as OpenAI's responses send it.

use machine::message::{Part, Reply, StopReason, Usage};
use serde_json::{Value, json};

use super::{CREATED, event, is_counted, pieces, prompt, said};

pub(super) fn whole(reply: &Reply) -> Value {
    let output = said(reply).map(|(index, part)| item(reply, index, part, "completed")).collect();
    let (_, status, details) = ending(reply.stop);
    response(reply, status, output, details, usage(&reply.usage))
}

pub(super) fn stream(reply: &Reply) -> Vec<Vec<u8>> {
    let mut sender = Sender { number: 0, out: Vec::new() };
    let begun = response(reply, "in_progress", json!([]), Value::Null, Value::Null);
    sender.send("response.created", json!({"response": begun}));
    sender.send("response.in_progress", json!({"response": begun}));
    for (index, part) in said(reply) {
        let started = begin(item(reply, index, part, "in_progress"));
        let id = started["id"].clone();
        sender.send("response.output_item.added", json!({"output_index": index, "item": started}));
        let at = |mut fields: Value| {
            fields["item_id"] = id.clone();
            fields["output_index"] = index.into();
            fields
        };
        match part {
            Part::Thinking { text } => {
                let piece = |text: &str| json!({"type": "summary_text", "text": text});
                sender.text(
                    text,
                    [
                        "response.reasoning_summary_part.added",
                        "response.reasoning_summary_text.delta",
                        "response.reasoning_summary_text.done",
                        "response.reasoning_summary_part.done",
                    ],
                    piece,
                    |mut fields| {
                        fields["summary_index"] = 0.into();
                        at(fields)
                    },
                );
            }
            Part::ToolUse { name, input, .. } => {
                let arguments = input.to_string();
                for piece in pieces(&arguments) {
                    sender.send(
                        "response.function_call_arguments.delta",
                        at(json!({"delta": piece})),
                    );
                }
                let done = json!({"name": name, "arguments": arguments});
                sender.send("response.function_call_arguments.done", at(done));
            }
            part => {
                let piece = |text: &str| json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []});
                sender.text(
                    super::text_of(part).unwrap_or_default(),
                    [
                        "response.content_part.added",
                        "response.output_text.delta",
                        "response.output_text.done",
                        "response.content_part.done",
                    ],
                    piece,
                    |mut fields| {
                        fields["content_index"] = 0.into();
                        if fields.get("delta").or(fields.get("text")).is_some() {
                            fields["logprobs"] = json!([]);
                        }
                        at(fields)
                    },
                );
            }
        }
        let done = item(reply, index, part, "completed");
        sender.send("response.output_item.done", json!({"output_index": index, "item": done}));
    }
    let (name, ..) = ending(reply.stop);
    sender.send(name, json!({"response": whole(reply)}));
    sender.out
}

/// Sends events with their numbers.
struct Sender {
    number: u64,
    out: Vec<Vec<u8>>,
}

impl Sender {
    fn send(&mut self, name: &str, mut data: Value) {
        data["type"] = name.into();
        data["sequence_number"] = self.number.into();
        self.number += 1;
        self.out.push(event(name, &data));
    }

    /// A text in pieces, between the beginning and the end of its part.
    fn text(
        &mut self,
        text: &str,
        [added, delta, done, closed]: [&str; 4],
        part: impl Fn(&str) -> Value,
        at: impl Fn(Value) -> Value,
    ) {
        self.send(added, at(json!({"part": part("")})));
        for piece in pieces(text) {
            self.send(delta, at(json!({"delta": piece})));
        }
        self.send(done, at(json!({"text": text})));
        self.send(closed, at(json!({"part": part(text)})));
    }
}

fn item(reply: &Reply, index: usize, part: &Part, status: &str) -> Value {
    let id = |kind: &str| format!("{kind}_{}_{index}", reply.id);
    match part {
        Part::Thinking { text } => json!({
            "id": id("rs"),
            "type": "reasoning",
            "summary": [{"type": "summary_text", "text": text}],
        }),
        Part::ToolUse { id: call, name, input } => json!({
            "id": id("fc"),
            "type": "function_call",
            "call_id": call,
            "name": name,
            "arguments": input.to_string(),
            "status": status,
        }),
        part => {
            let text = super::text_of(part).unwrap_or_default();
            json!({
                "id": id("msg"),
                "type": "message",
                "role": "assistant",
                "status": status,
                "content": [{"type": "output_text", "text": text, "annotations": [], "logprobs": []}],
            })
        }
    }
}

/// An item before its content.
fn begin(mut item: Value) -> Value {
    for key in ["summary", "content"] {
        if item.get(key).is_some() {
            item[key] = json!([]);
        }
    }
    if item.get("arguments").is_some() {
        item["arguments"] = "".into();
    }
    item
}

/// The last event, the status, and why it is not complete.
fn ending(stop: StopReason) -> (&'static str, &'static str, Value) {
    let reason = match stop {
        StopReason::EndTurn
        | StopReason::ToolUse
        | StopReason::StopSequence
        | StopReason::Pause => return ("response.completed", "completed", Value::Null),
        StopReason::MaxTokens => "max_output_tokens",
        StopReason::Refusal => "content_filter",
    };
    ("response.incomplete", "incomplete", json!({"reason": reason}))
}

fn response(reply: &Reply, status: &str, output: Value, details: Value, usage: Value) -> Value {
    json!({
        "id": reply.id,
        "object": "response",
        "created_at": CREATED,
        "status": status,
        "model": reply.model,
        "output": output,
        "incomplete_details": details,
        "usage": usage,
        "error": null,
        "instructions": null,
        "metadata": {},
        "parallel_tool_calls": true,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
    })
}

fn usage(usage: &Usage) -> Value {
    if !is_counted(usage) {
        return Value::Null;
    }
    let output = usage.output.unwrap_or(0);
    json!({
        "input_tokens": prompt(usage),
        "input_tokens_details": {"cached_tokens": usage.cache_read.unwrap_or(0)},
        "output_tokens": output,
        "output_tokens_details": {"reasoning_tokens": usage.thinking.unwrap_or(0)},
        "total_tokens": prompt(usage).saturating_add(output),
    })
}
