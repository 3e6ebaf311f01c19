//! How a session is opened: the agent's version of the protocol, the conversation, its mode, its model.

use machine::agent::{
    AgentAbilities, AgentEnd, AgentEvent, AgentFacts, AgentSupport, GateDepth, PausePoint,
};
use serde_json::{Value, json};

use super::super::opening::Opening;
use super::mode::{self, Modes};
use super::{AcpCodec, Phase, Replay, Sent, quirks};

impl AcpCodec {
    pub(super) fn on_initialized(
        &mut self,
        agent: Value,
        reply: &mut Vec<u8>,
        out: &mut Vec<AgentEvent>,
    ) {
        self.agent = agent;
        if self.agent["protocolVersion"].as_u64() != Some(1) {
            let version = &self.agent["protocolVersion"];
            let text = format!("it speaks version {version} of the protocol; expected 1");
            return self.refuse(AgentEnd::Failed, text, out);
        }
        if self.quirks.is_none()
            && let Some(row) = quirks::of(self.name())
        {
            self.quirks = row.quirks;
        }
        let mut params = json!({ "cwd": self.open.folder, "mcpServers": [] });
        let method = match &self.open.opening {
            Opening::New => Some("session/new"),
            Opening::Resume(id) => {
                params["sessionId"] = json!(id);
                // The one does not tell again what was said, so it is the first choice.
                if self.session_can("resume") {
                    Some("session/resume")
                } else {
                    self.loads().then_some("session/load")
                }
            }
            Opening::Fork(id) => {
                params["sessionId"] = json!(id);
                self.session_can("fork").then_some("session/fork")
            }
        };
        match method {
            Some(method) => {
                self.phase = Phase::Opening;
                self.send(Sent::Session, method, &params, reply);
            }
            None => {
                let text = "it cannot go on with a conversation of another process".to_owned();
                self.refuse(AgentEnd::NoSession, text, out);
            }
        }
    }

    fn session_can(&self, what: &str) -> bool {
        let can = &self.agent["agentCapabilities"]["sessionCapabilities"][what];
        !can.is_null() && can.as_bool() != Some(false)
    }

    fn loads(&self) -> bool {
        self.agent["agentCapabilities"]["loadSession"].as_bool() == Some(true)
    }

    pub(super) fn on_session(
        &mut self,
        session: &Value,
        reply: &mut Vec<u8>,
        out: &mut Vec<AgentEvent>,
    ) {
        let asked = match &self.open.opening {
            Opening::Resume(id) => Some(id.as_str()),
            Opening::New | Opening::Fork(_) => None,
        };
        let Some(id) = session["sessionId"].as_str().or(asked) else {
            let text = "it opened a session without an id".to_owned();
            return self.refuse(AgentEnd::Failed, text, out);
        };
        self.session = id.to_owned();
        let is_late = self.quirks.late_history && self.open.opening != Opening::New;
        self.replay = if is_late { Replay::UntilCommands } else { Replay::No };
        self.models = json!({
            "models": session["models"],
            "configOptions": session["configOptions"],
        });
        let current = &session["models"]["currentModelId"];
        let of_option = mode::of_options(&session["configOptions"], "model").map(|(_, is)| is);
        self.answer.model = current.as_str().map(str::to_owned).or(of_option).unwrap_or_default();
        self.modes = Modes::read(session);
        match self.modes.choose(self.open.mode.as_deref(), &self.quirks) {
            Ok(None) => self.choose_model(reply, out),
            Ok(Some(mode)) => {
                let (method, params) = self.modes.set(&self.session, &mode);
                self.told_mode = None;
                self.send(Sent::Mode(mode), method, &params, reply);
            }
            Err(why) => self.refuse(AgentEnd::Failed, why, out),
        }
    }

    pub(super) fn on_mode(
        &mut self,
        mode: String,
        answer: &Value,
        reply: &mut Vec<u8>,
        out: &mut Vec<AgentEvent>,
    ) {
        let answered = mode::of_options(&answer["configOptions"], "mode").map(|(_, is)| is);
        let told = answered.or(self.told_mode.take());
        if let Some(other) = told.filter(|told| *told != mode) {
            let text = format!("it was put into mode {mode:?} and is in {other:?}");
            return self.refuse(AgentEnd::Failed, text, out);
        }
        self.modes.current = mode;
        self.choose_model(reply, out);
    }

    fn choose_model(&mut self, reply: &mut Vec<u8>, out: &mut Vec<AgentEvent>) {
        match self.open.model.clone() {
            Some(model) if model != self.answer.model => match self.set_model(&model) {
                Ok((method, params)) => {
                    self.answer.model = model;
                    self.send(Sent::FirstModel, method, &params, reply);
                }
                Err(why) => self.refuse(AgentEnd::Failed, why, out),
            },
            _ => self.on_ready(out),
        }
    }

    pub(super) fn set_model(&self, model: &str) -> Result<(&'static str, Value), String> {
        if let Some((option, _)) = mode::of_options(&self.models["configOptions"], "model") {
            let (session, config) = (&self.session, &option["id"]);
            let params = json!({ "sessionId": session, "configId": config, "value": model });
            return Ok(("session/set_config_option", params));
        }
        if self.models["models"].is_object() {
            let params = json!({ "sessionId": self.session, "modelId": model });
            return Ok(("session/set_model", params));
        }
        Err("this agent cannot be told which model to ask".to_owned())
    }

    pub(super) fn on_ready(&mut self, out: &mut Vec<AgentEvent>) {
        self.phase = Phase::Ready;
        out.push(AgentEvent::Ready(self.facts()));
        out.push(AgentEvent::Session { id: self.session.clone() });
    }

    fn facts(&self) -> AgentFacts {
        let row = quirks::of(self.name());
        let version = self.agent["agentInfo"]["version"].as_str().unwrap_or_default();
        let gate = if self.modes.asks { GateDepth::Protocol } else { GateDepth::Sandbox };
        let mut limits =
            vec!["a refusal cannot give its reason".to_owned(), "it cannot be steered".to_owned()];
        if !self.modes.asks {
            limits.push("nobody knows whether it asks before it acts in this mode".to_owned());
        }
        AgentFacts {
            version: version.to_owned(),
            can: AgentAbilities {
                resume: self.loads() || self.session_can("resume"),
                fork: self.session_can("fork"),
                steer: false,
                interrupt: true,
                pause: PausePoint::at(gate),
                gate,
                usage: row.as_ref().is_some_and(|row| row.usage),
                cost: row.as_ref().is_some_and(|row| row.cost),
                compact: false,
                tools: false,
            },
            modes: self.modes.listed(),
            remarks: row.as_ref().and_then(|row| row.remark(version)).into_iter().collect(),
            support: row.map_or(AgentSupport::Unknown, |row| row.support(version)),
            limits,
            refusal: None,
        }
    }
}
