//! Servers that bring tools: asked when a process takes the task up, before its driver decides again. What they
//! offer is in the journal, so that a fold knows it; a server that cannot be had costs its tools, not the task.

use std::sync::Arc;

use serde_json::Value;

use crate::effect::Effect;
use crate::event::EventKind;
use crate::server::{self, ServerCall, ServerTools, ToolOffer};
use crate::state::{Pending, Phase};
use crate::step::Step;
use crate::task::Workspace;
use crate::tool::{self, EffectClass};

impl Step<'_> {
    /// Whether servers are to be asked before the driver is.
    pub(crate) fn wants_tools(&self) -> bool {
        !self.state.data.tools_open && !self.state.data.spec.servers.is_empty()
    }

    pub(crate) fn open_tools(&mut self) {
        let id = self.expect(Pending::Tools);
        let spec = &self.state.data.spec;
        self.output.effects.push(Effect::OpenTools {
            id,
            servers: spec.servers.clone(),
            workspace: self.workspace(),
            folder: spec.folder.clone(),
            sandbox: spec.sandbox.clone(),
        });
        self.state.data.phase = Phase::OpeningTools;
    }

    pub(crate) fn on_tools_opened(&mut self, opened: Vec<ServerTools>) {
        self.state.data.phase = Phase::Ready;
        self.state.data.tools_open = true;
        for server in opened {
            self.take_tools(server);
        }
    }

    /// A task that nobody drives has no servers, so what one still says is late.
    pub(crate) fn on_tools_changed(&mut self, changed: ServerTools) {
        if self.state.data.tools_open { self.take_tools(changed) } else { self.drop_signal() }
    }

    fn take_tools(&mut self, changed: ServerTools) {
        let servers = &self.state.data.spec.servers;
        if !servers.iter().any(|server| server.name == changed.server) {
            return self.drop_signal();
        }
        let (server, problem) = (changed.server.clone(), changed.problem.clone());
        self.state.data.tools = Arc::new(server::replace(&self.state.data.tools, servers, changed));
        let mine = self.state.data.tools.iter().filter(|tool| tool.source == server);
        let tools: Vec<String> = mine.map(|tool| tool.name.clone()).collect();
        self.event(|| EventKind::ToolsOpened { server, tools, problem });
    }

    /// The tool of a server by its name.
    fn offer(&self, name: &str) -> Option<&ToolOffer> {
        self.state.data.tools.iter().find(|offer| offer.name == name)
    }

    /// How repeatable a tool is, built in or not; what nobody knows is unsafe.
    pub(crate) fn class_of(&self, name: &str) -> EffectClass {
        match tool::find(name) {
            Some(tool) => tool.class,
            None => self.offer(name).map_or(EffectClass::Unsafe, |offer| offer.class),
        }
    }

    /// Checks a call as far as can be known here: a server checks the rest itself.
    pub(crate) fn check_call(&self, name: &str, input: &Value) -> Result<(), String> {
        if let Some(spec) = tool::find(name) {
            return tool::check_input(spec, input);
        }
        match self.offer(name) {
            Some(_) if input.is_object() => Ok(()),
            Some(_) => Err(format!("parameters of {name} must be a table, got {input}")),
            None => {
                let built_in = tool::TOOLS.iter().map(|tool| tool.name);
                let offered = self.state.data.tools.iter().map(|offer| offer.name.as_str());
                let names: Vec<&str> = built_in.chain(offered).collect();
                Err(format!("no tool {name:?}: expected one of {}", names.join(", ")))
            }
        }
    }

    /// What the performer needs of the server behind a tool; none for a built-in one.
    pub(crate) fn server_call(&self, name: &str) -> Option<ServerCall> {
        let offer = self.offer(name).filter(|_| tool::find(name).is_none())?;
        let spec = &self.state.data.spec;
        let server = spec.servers.iter().find(|server| server.name == offer.source)?.clone();
        Some(ServerCall { server, tool: offer.tool.clone(), folder: spec.folder.clone() })
    }

    /// The task's place to work; none before it is opened.
    pub(crate) fn workspace(&self) -> Workspace {
        self.state.data.workspace.clone().unwrap_or(Workspace {
            kind: crate::task::WorkspaceKind::None,
            path: None,
            branch: None,
            base: None,
        })
    }
}
