//! How a prompt's turn ended: reasons to stop, errors, and ends that are not believed.

use machine::agent::{AgentEnd, AgentEvent, AgentTurn, REFUSED};
use machine::message::Usage;
use serde_json::Value;

use super::super::codex::{end_of, model, of_status};
use super::AcpCodec;
use crate::jsonrpc::RpcError;
use crate::model::ErrorKind;

/// JSON-RPC's code of ACP for "log in first".
const AUTH_REQUIRED: i64 = -32000;

/// What a turn showed before it ended.
#[derive(Debug, Default)]
pub(super) struct Signs {
    /// A tool was used.
    pub(super) tools: bool,
    /// Its models cost something.
    pub(super) usage: bool,
    /// What they cost was told in money.
    pub(super) money: bool,
    /// It said something.
    pub(super) text: bool,
    /// An error that it told of on the side, in Codex's form.
    pub(super) error: Option<Value>,
    /// It told that its thread is broken.
    pub(super) is_broken: bool,
}

impl AcpCodec {
    pub(super) fn on_prompt_ended(&mut self, result: &Value, out: &mut Vec<AgentEvent>) {
        let Some(turn) = &mut self.turn else { return };
        let usage = usage(result).filter(is_something);
        turn.signs.usage |= usage.is_some();
        if let Some(usage) = usage {
            // Money that was told apart is for these tokens too.
            let usd = turn.signs.money.then_some(0.0);
            out.push(AgentEvent::Spent { usage, usd });
        }
        let is_stale = self.after_cancel && self.quirks.stale_after_cancel;
        let refusal = turn.refusal.take().filter(|_| !turn.is_cancelled);
        let (end, text) = match result["stopReason"].as_str().unwrap_or_default() {
            "end_turn" if turn.is_cancelled && !turn.signs.usage => (AgentEnd::Interrupted, ""),
            "end_turn" if turn.compacts => {
                out.push(AgentEvent::Compacted { before: None, after: None });
                (AgentEnd::Done, "")
            }
            // Its model was not asked again, so nobody says that the work is done.
            "end_turn" if refusal.is_some() => (AgentEnd::Interrupted, REFUSED),
            "end_turn" => {
                self.unproven = false;
                by_itself(&turn.signs, self.quirks.hides_failures, is_stale)
            }
            "cancelled" if turn.refused > 0 && !turn.is_cancelled => {
                (AgentEnd::Interrupted, REFUSED)
            }
            "cancelled" => (AgentEnd::Interrupted, ""),
            "refusal" => (AgentEnd::Refused, ""),
            "max_tokens" | "max_turn_requests" => (AgentEnd::Limit, ""),
            _ => (AgentEnd::Failed, "it ended a turn for a reason that nobody knows"),
        };
        let text = match refusal {
            Some(why) if text == REFUSED => format!("{REFUSED}: {why}"),
            _ => text.to_owned(),
        };
        self.end_turn(end, text, out);
    }

    pub(super) fn on_prompt_failed(&mut self, error: RpcError, out: &mut Vec<AgentEvent>) {
        let is_cancelled = self.turn.as_ref().is_some_and(|turn| turn.is_cancelled);
        let end = match by_error(&error) {
            _ if is_cancelled => AgentEnd::Interrupted,
            // What was loaded is not what the provider takes, and would be refused again: it is as good as gone.
            end if self.unproven && is_offence(&end) => AgentEnd::NoSession,
            end => end,
        };
        self.end_turn(end, error.words(), out);
    }

    pub(super) fn end_turn(&mut self, end: AgentEnd, text: String, out: &mut Vec<AgentEvent>) {
        let Some(turn) = self.turn.take() else { return };
        let words = self.answer.take_words();
        let text = if text.is_empty() { words } else { text };
        match &end {
            AgentEnd::Done => self.answer.close(out),
            AgentEnd::Interrupted if turn.is_cancelled => self.answer.interrupt(out),
            AgentEnd::Interrupted => self.answer.close(out),
            _ => self.answer.fail("failed", &text, out),
        }
        self.after_cancel = turn.is_cancelled;
        self.last_message.clear();
        self.tools.clear();
        for (key, _) in std::mem::take(&mut self.asks) {
            out.push(AgentEvent::Withdrawn { key });
        }
        out.extend(self.client.forget());
        let (ordered, refused) = (true, turn.refused);
        let turn = AgentTurn { end, text, ordered, refused, background: 0, queued: 0 };
        out.push(AgentEvent::TurnEnded(turn));
    }
}

/// How a turn ended that the agent says came to its end by itself; the text is empty if there is nothing to add.
pub(super) fn by_itself(
    signs: &Signs,
    hides_failures: bool,
    is_stale: bool,
) -> (AgentEnd, &'static str) {
    if signs.tools || signs.usage || (signs.text && !hides_failures) {
        return (AgentEnd::Done, "");
    }
    if is_stale {
        let text = "it answered with the end of the prompt that was cancelled; nothing was done";
        return (model(ErrorKind::EmptyCompletion, None), text);
    }
    match &signs.error {
        Some(error) if hides_failures => (end_of(error), ""),
        _ if signs.is_broken => (model(ErrorKind::Server, None), ""),
        _ => {
            let text = "it says that it is done, but no model was asked and no tool was used";
            (model(ErrorKind::EmptyCompletion, None), text)
        }
    }
}

/// How a turn ended that the agent answered with an error.
pub(super) fn by_error(error: &RpcError) -> AgentEnd {
    let kind = error.data["errorKind"].as_str().unwrap_or_default();
    let status = status_in(&error.message);
    let kind = match kind {
        "rate_limit" => ErrorKind::RateLimited,
        "overloaded" => ErrorKind::Overloaded,
        "server_error" => ErrorKind::Server,
        "authentication_failed" => ErrorKind::Auth,
        "billing_error" => ErrorKind::Quota,
        "model_not_found" => ErrorKind::Config,
        "invalid_request" if error.message.contains("too long") => {
            return AgentEnd::ContextOverflow;
        }
        "invalid_request" => ErrorKind::Client,
        "max_output_tokens" => return AgentEnd::Limit,
        _ if error.code == AUTH_REQUIRED => ErrorKind::Auth,
        _ if error.message.contains("rompt is too long") => return AgentEnd::ContextOverflow,
        _ => match status {
            Some(status) => of_status(status),
            None => return AgentEnd::Failed,
        },
    };
    model(kind, status)
}

/// The status in a text such as `API Error: 500 boom`, or in the answer of the provider itself, which some give as their
/// text.
fn status_in(message: &str) -> Option<u16> {
    let status = match message.split_once("API Error: ") {
        Some((_, rest)) => rest.get(..3)?.parse().ok()?,
        None => {
            let answer: Value = serde_json::from_str(message).ok()?;
            u16::try_from(answer["error"]["code"].as_u64()?).ok()?
        }
    };
    (400..600).contains(&status).then_some(status)
}

/// Whether a provider takes offence at what it was asked, and not at who asks or when.
pub(super) fn is_offence(end: &AgentEnd) -> bool {
    matches!(end, AgentEnd::Model { kind, .. } if *kind == ErrorKind::Client.word())
}

/// What a turn cost, as its end says: in the field of the protocol, or in that of Gemini.
pub(super) fn usage(result: &Value) -> Option<Usage> {
    let count = |of: &Value, name: &str| of[name].as_u64();
    let usage = &result["usage"];
    if let Some(input) = count(usage, "inputTokens") {
        let read = count(usage, "cachedReadTokens");
        let write = count(usage, "cachedWriteTokens");
        let output = count(usage, "outputTokens");
        let cached = read.unwrap_or(0).saturating_add(write.unwrap_or(0));
        let all = [Some(input), output].into_iter().flatten().fold(cached, u64::saturating_add);
        // Some count what was cached as input too; then the parts are more than the whole.
        let is_twice = count(usage, "totalTokens").is_some_and(|total| all > total);
        return Some(Usage {
            input: Some(if is_twice { input.saturating_sub(cached) } else { input }),
            output,
            thinking: count(usage, "thoughtTokens"),
            cache_read: read,
            cache_write: write,
            ..Usage::default()
        });
    }
    let tokens = &result["_meta"]["quota"]["token_count"];
    let input = count(tokens, "input_tokens")?;
    Some(Usage { input: Some(input), output: count(tokens, "output_tokens"), ..Usage::default() })
}

/// Whether anything was counted.
pub(super) fn is_something(usage: &Usage) -> bool {
    let counts = [usage.input, usage.output, usage.cache_read, usage.cache_write];
    counts.into_iter().flatten().any(|count| count > 0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_error_is_told_by_its_kind_then_by_its_code_then_by_its_text() {
        let error = |code, message: &str, kind: &str| {
            let data = json!({ "errorKind": kind });
            by_error(&RpcError { code, message: message.to_owned(), data })
        };
        let boom = "Internal error: API Error: 500 boom";
        assert_eq!(error(-32603, boom, "server_error"), model(ErrorKind::Server, Some(500)));
        assert_eq!(error(-32603, boom, ""), model(ErrorKind::Server, Some(500)));
        assert_eq!(error(-32603, "x", "rate_limit"), model(ErrorKind::RateLimited, None));
        assert_eq!(error(-32603, "x", "billing_error"), model(ErrorKind::Quota, None));
        assert_eq!(error(-32603, "x", "max_output_tokens"), AgentEnd::Limit);
        assert_eq!(error(-32000, "log in", ""), model(ErrorKind::Auth, None));
        assert_eq!(error(-32603, "Prompt is too long", ""), AgentEnd::ContextOverflow);
        assert_eq!(error(-32603, "x", ""), AgentEnd::Failed);
        let answer = r#"{"error":{"code":401,"message":"no key","status":"UNAUTHENTICATED"}}"#;
        assert_eq!(error(500, answer, ""), model(ErrorKind::Auth, Some(401)));
    }

    #[test]
    fn input_that_holds_what_was_cached_is_not_counted_twice() {
        let counted = |input: u64, total: u64| {
            let usage = usage(&json!({ "usage": { "inputTokens": input, "outputTokens": 5,
                "cachedReadTokens": 60, "totalTokens": total } }));
            usage.unwrap().input
        };
        assert_eq!(counted(100, 105), Some(40));
        assert_eq!(counted(40, 105), Some(40));
    }

    #[test]
    fn an_end_without_any_sign_of_work_is_not_believed() {
        let empty = Signs::default();
        assert!(matches!(by_itself(&empty, false, false).0, AgentEnd::Model { again: true, .. }));
        assert!(by_itself(&empty, false, true).1.contains("cancelled"));
        let said = Signs { text: true, ..Signs::default() };
        assert_eq!(by_itself(&said, false, false).0, AgentEnd::Done);
        assert_ne!(by_itself(&said, true, false).0, AgentEnd::Done);
        let counted = Signs { usage: true, ..Signs::default() };
        assert_eq!(by_itself(&counted, true, false).0, AgentEnd::Done);
    }
}
