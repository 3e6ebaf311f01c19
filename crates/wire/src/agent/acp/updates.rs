//! What an agent tells and asks in the middle of a turn: its words, its calls, its costs, its mode.

use std::sync::Arc;

use machine::agent::{AgentAsk, AgentEvent};
use machine::message::Usage;
use serde_json::{Value, json};

use super::super::codex::word_of;
use super::super::peer::beginning;
use super::client::Agreed;
use super::{AcpCodec, Ask, MOST, Phase, Replay, Sent, means, mode};

/// By how many dollars a sum that was written down may differ from what was told.
const SLACK: f64 = 1e-6;

impl AcpCodec {
    pub(super) fn on_permission(
        &mut self,
        key: String,
        id: Value,
        params: &Value,
        out: &mut Vec<AgentEvent>,
    ) {
        self.replay = Replay::No;
        self.goes_on();
        let asked = &params["toolCall"];
        let call_id = asked["toolCallId"].as_str().unwrap_or_default();
        self.note_call(call_id, asked);
        self.show_call(call_id, out);
        let known = self.tools.get(call_id).map_or(asked, |(call, _)| call);
        let option = |kind: &str| -> Option<String> {
            let options = params["options"].as_array()?;
            let option = options.iter().find(|option| option["kind"] == kind)?;
            option["optionId"].as_str().map(str::to_owned)
        };
        let allow = option("allow_once");
        let reject = option("reject_once").or_else(|| option("reject_always"));
        let means = means::means(known, &self.open.folder);
        let agrees = Agreed::by(known, &means, &self.open.folder);
        let ask = AgentAsk {
            key: key.clone(),
            id: Arc::from(call_id),
            tool: means::tool(known),
            input: Arc::new(means::input(known)),
            means,
            helper: None,
        };
        self.asks.insert(key, Ask { id, call: Arc::from(call_id), allow, reject, agrees });
        out.push(AgentEvent::Asks(ask));
    }

    /// It says or begins something, whatever was refused before.
    fn goes_on(&mut self) {
        if let Some(turn) = &mut self.turn {
            turn.refusal = None;
        }
    }

    /// Remembers what is known of a call.
    fn note_call(&mut self, id: &str, update: &Value) {
        if self.tools.len() >= MOST && !self.tools.contains_key(id) {
            return;
        }
        let (call, _) = self.tools.entry(id.to_owned()).or_insert((json!({}), false));
        means::lay_over(call, update);
    }

    /// Tells observers of a call whose parameters will not change any more.
    fn show_call(&mut self, id: &str, out: &mut Vec<AgentEvent>) {
        if let Some((call, is_shown)) = self.tools.get_mut(id)
            && !std::mem::replace(is_shown, true)
        {
            self.answer.tool(&Arc::from(id), &means::tool(call), &means::input(call), out);
        }
    }

    pub(super) fn on_notification(
        &mut self,
        method: &str,
        params: &Value,
        reply: &mut Vec<u8>,
        out: &mut Vec<AgentEvent>,
    ) {
        match method {
            "session/update" => {
                let session = params["sessionId"].as_str().unwrap_or_default();
                // Before the session is open its id is not known, or only asked for.
                if self.session.is_empty() || session == self.session {
                    self.on_update(&params["update"], reply, out);
                }
            }
            "$/cancel_request" => {
                let asked = |ask: &Ask| ask.id == params["requestId"];
                let key = self.asks.iter().find(|(_, ask)| asked(ask)).map(|(key, _)| key.clone());
                if let Some(key) = &key {
                    self.asks.remove(key);
                }
                let of_client = || self.client.cancel(&params["requestId"], &self.peer, reply);
                if let Some(key) = key.or_else(of_client) {
                    out.push(AgentEvent::Withdrawn { key });
                }
            }
            // Extensions begin like this; what they say is for those who know them.
            extension if extension.starts_with('_') => {}
            _ => out.push(AgentEvent::Unknown { kind: method.to_owned() }),
        }
    }

    fn on_update(&mut self, update: &Value, reply: &mut Vec<u8>, out: &mut Vec<AgentEvent>) {
        let kind = update["sessionUpdate"].as_str().unwrap_or_default();
        if let Some(mode) = mode::told(update) {
            self.on_mode_told(mode, reply, out);
        }
        let text = update["content"]["text"].as_str().unwrap_or_default();
        let speaks = matches!(kind, "agent_message_chunk" | "agent_thought_chunk");
        if kind == "tool_call" || speaks && !text.is_empty() {
            self.goes_on();
        }
        match kind {
            "available_commands_update" => {
                let commands = update["availableCommands"].as_array().into_iter().flatten();
                let mut names = commands.filter_map(|command| command["name"].as_str());
                self.can_compact = names.any(|name| name == "compact");
                self.replay = match self.replay {
                    Replay::UntilOpen => Replay::UntilOpen,
                    Replay::UntilCommands | Replay::No => Replay::No,
                };
            }
            "current_mode_update" | "config_option_update" | "plan" | "user_message_chunk" => {}
            "session_info_update" => self.on_info(&update["_meta"]["codex"], out),
            "usage_update" => self.on_usage(update, out),
            "agent_message_chunk" | "agent_thought_chunk" | "tool_call" | "tool_call_update"
                if self.replay != Replay::No => {}
            "agent_message_chunk" => {
                let message = update["messageId"].as_str().unwrap_or_default();
                if message != self.last_message && !self.answer.is_aside(message) {
                    self.answer.close(out);
                    self.last_message = beginning(message, 256).to_owned();
                }
                if let Some(turn) = &mut self.turn {
                    turn.signs.text |= !text.is_empty();
                }
                self.answer.text(message, text, out);
            }
            "agent_thought_chunk" => {
                let message = update["messageId"].as_str().unwrap_or_default();
                self.answer.thinking(message, text, out);
            }
            "tool_call" | "tool_call_update" => self.on_call(update, out),
            other => out.push(AgentEvent::Unknown { kind: format!("session/update {other}") }),
        }
    }

    /// The agent says which mode it is in. One that nobody chose is undone.
    fn on_mode_told(&mut self, mode: String, reply: &mut Vec<u8>, out: &mut Vec<AgentEvent>) {
        if self.phase != Phase::Ready {
            self.told_mode = Some(mode);
            return;
        }
        if mode == self.modes.current {
            return;
        }
        if self.modes.is_fine(&mode) {
            self.modes.current = mode;
            return;
        }
        out.push(AgentEvent::Unknown { kind: format!("went into mode {mode:?} by itself") });
        let (method, params) = self.modes.set(&self.session, &self.modes.current);
        self.send(Sent::RestoreMode, method, &params, reply);
    }

    /// What codex-acp tells of Codex on the side.
    fn on_info(&mut self, codex: &Value, out: &mut Vec<AgentEvent>) {
        let error = &codex["error"];
        if error.is_object() {
            if error["willRetry"].as_bool() == Some(true) {
                let kind = word_of(error);
                out.push(AgentEvent::Retries { kind, again_in: None });
            }
            if let Some(turn) = &mut self.turn {
                turn.signs.error = Some(error.clone());
            }
        }
        if let Some(turn) = &mut self.turn {
            turn.signs.is_broken |= codex["threadStatus"]["type"] == "systemError";
        }
    }

    fn on_usage(&mut self, update: &Value, out: &mut Vec<AgentEvent>) {
        let used = update["used"].as_u64().unwrap_or_default();
        if let Some(turn) = &mut self.turn {
            turn.signs.usage |= used > 0;
        }
        let cost = &update["cost"];
        if cost["currency"] == "USD"
            && let Some(amount) = cost["amount"].as_f64()
        {
            if let Some(turn) = &mut self.turn {
                turn.signs.money = true;
            }
            let is_first = !std::mem::replace(&mut self.tells_cost, true);
            let added = match self.cost {
                // One that counts each process for itself begins anew.
                Some(before) if is_first && amount + SLACK < before => amount,
                Some(before) => amount - before,
                // A session of another process has cost something before; how much is not known.
                None => 0.0,
            };
            self.cost = Some(amount);
            if added > 0.0 {
                out.push(AgentEvent::Spent { usage: Usage::default(), usd: Some(added) });
            }
        }
    }

    fn on_call(&mut self, update: &Value, out: &mut Vec<AgentEvent>) {
        let id = update["toolCallId"].as_str().unwrap_or_default();
        if let Some(turn) = &mut self.turn {
            turn.signs.tools = true;
        }
        self.note_call(id, update);
        let status = update["status"].as_str().unwrap_or_default();
        if matches!(status, "in_progress" | "completed" | "failed") {
            self.show_call(id, out);
        }
        if matches!(status, "completed" | "failed") {
            self.answer.close(out);
            let (call, _) = self.tools.remove(id).unwrap_or_default();
            out.push(AgentEvent::ToolEnded {
                id: Arc::from(id),
                tool: means::tool(&call),
                ok: status == "completed",
                text: means::outcome(&call, update),
            });
        }
    }
}
