//! Control requests: what Claude Code asks of whoever drives it, and how it answers orders.

use std::sync::Arc;

use machine::agent::{AgentAsk, AgentEvent, AgentRequest, FailedOrder, SET_MODEL};
use serde_json::{Value, json};

use super::{ClaudeCodec, MOST, OWN_SERVER, facts, frame, mcp, means, own_name, told};

/// The hooks that are called back, by the names that the program has for them.
pub(super) const BEFORE_TOOL: &str = "PreToolUse";
pub(super) const STOP: &str = "Stop";

/// How many seconds a question at the end of a turn may wait: criteria may run for long.
pub(super) const STOP_PATIENCE: u64 = 86_400;

/// How many seconds the program waits for the hook before a tool. It is answered at once, so the time passes only if
/// nobody reads any more. Then a call is blocked, or, by versions that cannot do that, runs: these wait longer.
pub(super) fn hook_patience(hook_blocks: bool) -> u64 {
    if hook_blocks { 30 } else { 3600 }
}

/// How many answers are remembered until they are repeated, and of which length at most: a longer one is read again.
const MOST_ECHOES: usize = 8;
const LONGEST_ECHO: usize = 4096;

/// An order that the program has not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    Initialize,
    Interrupt,
    SetModel,
}

/// A question of the program that waits for an answer.
#[derive(Debug)]
pub(super) enum Open {
    /// May this run, with these parameters?
    Ask(Arc<Value>),
    /// The result of a tool of ours, under this number.
    Call(Value),
    /// May the turn end?
    Stop,
}

impl Order {
    pub(super) fn failed(self, reason: &str) -> AgentEvent {
        let order = match self {
            Order::Initialize => "initialize",
            Order::Interrupt => "interrupt",
            Order::SetModel => SET_MODEL,
        };
        let (order, reason) = (order.to_owned(), reason.to_owned());
        AgentEvent::OrderFailed(FailedOrder { order, reason, words: None })
    }
}

impl ClaudeCodec {
    pub(super) fn request(&mut self, order: Order, request: &Value) -> Vec<u8> {
        self.requests += 1;
        let id = format!("drivetrain-{}", self.requests);
        let line = frame::request(&id, request);
        self.orders.insert(id, order);
        line
    }

    /// Remembers an answer for as long as the program may not have repeated it.
    fn answered(&mut self, line: Vec<u8>) -> Vec<u8> {
        if line.len() <= LONGEST_ECHO {
            if self.echoes.len() == MOST_ECHOES {
                self.echoes.pop_front();
            }
            self.echoes.push_back(line.clone());
        }
        line
    }

    /// Whether a line is an answer of ours, as the program repeats each of them.
    pub(super) fn is_echo(&mut self, line: &[u8]) -> bool {
        let is_it = |said: &Vec<u8>| said.strip_suffix(b"\n") == Some(line);
        let place = self.echoes.iter().position(is_it);
        place.and_then(|place| self.echoes.remove(place)).is_some()
    }

    /// The program answers an order. Echoes that were not known by their letters come by here too, and mean nothing.
    pub(super) fn on_response(&mut self, response: &Value, out: &mut Vec<AgentEvent>) {
        let id = response["request_id"].as_str().unwrap_or_default();
        let Some(order) = self.orders.remove(id) else { return };
        if response["subtype"] != "success" {
            let reason = response["error"].as_str().unwrap_or("it gave no reason");
            return out.push(order.failed(reason));
        }
        if order == Order::SetModel {
            out.push(AgentEvent::ModelSet);
        }
        if order == Order::Initialize {
            let body = &response["response"];
            self.hook_blocks = body["hook_on_failure_supported"] == true;
            let version = body["claude_code_version"].as_str().unwrap_or(&self.facts.version);
            let mode = body["current_permission_mode"].as_str();
            let mode = mode.or(self.facts.modes.first().map(String::as_str)).unwrap_or("default");
            self.facts = facts(version, mode, self.hook_blocks);
            self.is_ready = true;
            out.push(AgentEvent::Ready(self.facts.clone()));
        }
    }

    /// The program asks something.
    pub(super) fn on_request(
        &mut self,
        message: &Value,
        reply: &mut Vec<u8>,
        out: &mut Vec<AgentEvent>,
    ) {
        let Some(key) = message["request_id"].as_str() else {
            return out.push(AgentEvent::Unknown { kind: "control_request without id".into() });
        };
        let request = &message["request"];
        let subtype = request["subtype"].as_str().unwrap_or_default();
        if self.open.contains_key(key) {
            // Whoever reads the one answer takes it for what was asked first.
            let kind = told(&format!("control_request/{subtype} asked twice"));
            return out.push(AgentEvent::Unknown { kind });
        }
        match subtype {
            "can_use_tool" => self.on_ask(key, request, reply, out),
            "hook_callback" => self.on_hook(key, request, reply, out),
            "mcp_message" if request["server_name"] == OWN_SERVER => {
                self.on_mcp(key, &request["message"], reply, out);
            }
            subtype => {
                let error = format!("drivetrain does not answer {subtype:?}");
                reply.extend(self.answered(frame::refusal(key, &error)));
                let kind = told(&format!("control_request/{subtype}"));
                out.push(AgentEvent::Unknown { kind });
            }
        }
    }

    fn on_ask(
        &mut self,
        key: &str,
        request: &Value,
        reply: &mut Vec<u8>,
        out: &mut Vec<AgentEvent>,
    ) {
        let tool = request["tool_name"].as_str().unwrap_or_default();
        let input = Arc::new(request["input"].clone());
        if self.is_own(tool) {
            // The call itself comes to drivetrain, which judges it there.
            return reply.extend(self.answered(frame::answer(key, &allow(&input))));
        }
        let call = request["tool_use_id"].as_str().unwrap_or_default();
        let folder = self.folders.remove(call).unwrap_or_default();
        self.open.insert(key.to_owned(), Open::Ask(Arc::clone(&input)));
        out.push(AgentEvent::Asks(AgentAsk {
            key: key.to_owned(),
            id: call.into(),
            tool: tool.to_owned(),
            means: self.place.means(&folder, means(tool, &input)),
            input,
            helper: request["agent_id"].as_str().map(Arc::from),
        }));
    }

    fn on_hook(
        &mut self,
        key: &str,
        request: &Value,
        reply: &mut Vec<u8>,
        out: &mut Vec<AgentEvent>,
    ) {
        let input = &request["input"];
        match request["callback_id"].as_str().unwrap_or_default() {
            STOP => {
                self.open.insert(key.to_owned(), Open::Stop);
                let summary = input["last_assistant_message"].as_str().unwrap_or_default();
                out.push(AgentEvent::WouldStop {
                    key: key.to_owned(),
                    summary: summary.to_owned(),
                });
            }
            // Also for a hook that nobody asked for: an answer that says less might count as a yes.
            _ => {
                let tool = input["tool_name"].as_str().unwrap_or_default();
                self.note_folder(input);
                let decision = if self.is_own(tool) { "allow" } else { "ask" };
                let answer = json!({ "hookSpecificOutput": {
                    "hookEventName": BEFORE_TOOL,
                    "permissionDecision": decision,
                    "permissionDecisionReason": "drivetrain decides",
                } });
                reply.extend(self.answered(frame::answer(key, &answer)));
            }
        }
    }

    /// The hook alone says in which folder a call will run; the question that follows does not.
    fn note_folder(&mut self, input: &Value) {
        let call = input["tool_use_id"].as_str().unwrap_or_default();
        self.folders.insert(call.to_owned(), input["cwd"].clone());
        if self.folders.len() > MOST {
            self.folders.pop_first();
        }
    }

    fn on_mcp(
        &mut self,
        key: &str,
        message: &Value,
        reply: &mut Vec<u8>,
        out: &mut Vec<AgentEvent>,
    ) {
        match mcp::hear(message, &self.offers) {
            mcp::Heard::Answer(answer) => {
                reply.extend(self.answered(frame::answer(key, &answer)));
            }
            mcp::Heard::Call { id, call, tool, input } => {
                self.open.insert(key.to_owned(), Open::Call(id));
                let (key, input) = (key.to_owned(), Arc::new(input));
                out.push(AgentEvent::Calls(AgentRequest { key, id: call.into(), tool, input }));
            }
            mcp::Heard::Cancelled { id } => {
                reply.extend(self.answered(frame::answer(key, &mcp::noted())));
                let is_it = |open: &Open| matches!(open, Open::Call(number) if *number == id);
                let call = self.open.iter().find(|(_, open)| is_it(open));
                if let Some(call) = call.map(|(call, _)| call.clone()) {
                    self.withdraw(&call, out);
                }
            }
        }
    }

    pub(super) fn withdraw(&mut self, key: &str, out: &mut Vec<AgentEvent>) {
        // Hooks are answered at once and not open any more when they are withdrawn.
        if self.open.remove(key).is_some() {
            out.push(AgentEvent::Withdrawn { key: key.to_owned() });
        }
    }

    pub(super) fn answer(
        &mut self,
        key: &str,
        may: Result<Option<Value>, String>,
    ) -> Result<Vec<u8>, String> {
        match self.open.get(key) {
            Some(Open::Ask(input)) => {
                let answer = match may {
                    Ok(None) => allow(input),
                    Ok(Some(input)) => allow(&input),
                    Err(reason) => json!({ "behavior": "deny", "message": reason }),
                };
                self.open.remove(key);
                Ok(self.answered(frame::answer(key, &answer)))
            }
            _ => Err(format!(
                "no question {key:?} about a tool is open: it was answered, or withdrawn"
            )),
        }
    }

    pub(super) fn tool_result(
        &mut self,
        key: &str,
        result: &Result<String, String>,
    ) -> Result<Vec<u8>, String> {
        match self.open.get(key) {
            Some(Open::Call(id)) => {
                let answer = mcp::called(id, result);
                self.open.remove(key);
                Ok(self.answered(frame::answer(key, &answer)))
            }
            _ => Err(format!("no call {key:?} is open: its result was given, or it was withdrawn")),
        }
    }

    pub(super) fn may_stop(
        &mut self,
        key: &str,
        missing: Option<String>,
    ) -> Result<Vec<u8>, String> {
        match self.open.get(key) {
            Some(Open::Stop) => {
                self.open.remove(key);
                let answer = match missing {
                    None => json!({}),
                    Some(missing) => json!({ "decision": "block", "reason": missing }),
                };
                Ok(self.answered(frame::answer(key, &answer)))
            }
            _ => Err(format!("no question {key:?} about the end of a turn is open")),
        }
    }

    /// Whether a tool is one of ours: exactly one of the names under which the program has them.
    fn is_own(&self, tool: &str) -> bool {
        self.offers.iter().any(|offer| own_name(&offer.name) == tool)
    }
}

fn allow(input: &Value) -> Value {
    json!({ "behavior": "allow", "updatedInput": input })
}

#[cfg(test)]
mod tests {
    use super::super::{ClaudeOptions, Session};
    use super::*;

    #[test]
    fn an_answer_is_known_when_it_is_repeated_once_and_not_for_ever() {
        let options = ClaudeOptions::new(Session::New("s".to_owned()), "/state");
        let mut codec = ClaudeCodec::new(&options, Vec::new(), 1);
        let answer = |codec: &mut ClaudeCodec, key: &str| {
            let line = codec.answered(frame::answer(key, &json!({})));
            line.strip_suffix(b"\n").unwrap().to_vec()
        };
        let (first, second) = (answer(&mut codec, "1"), answer(&mut codec, "2"));
        assert!(!codec.is_echo(b"{}"));
        assert!(codec.is_echo(&second));
        assert!(codec.is_echo(&first), "in any order");
        assert!(!codec.is_echo(&first), "once");
        let old = answer(&mut codec, "old");
        (0..MOST_ECHOES).for_each(|key| drop(answer(&mut codec, &key.to_string())));
        assert!(!codec.is_echo(&old));
        let long = answer(&mut codec, &"x".repeat(LONGEST_ECHO));
        assert!(!codec.is_echo(&long));
    }
}
