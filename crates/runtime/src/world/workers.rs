//! Whoever decides or acts for a task: its tools and the servers behind them, its plugins, its coding agent.

use std::sync::Arc;

use machine::effect::ToolCall;
use machine::id::{EffectId, TaskId};
use machine::input::{Input, Signal};
use machine::policy::sandbox::SandboxSpec;
use machine::server::{ServerSpec, ServerTools, ToolOffer};
use machine::task::Workspace;
use machine::tool::{Status, ToolResult};
use serde_json::Value;
use wire::gate::Toolbox;

use super::World;
use crate::agent::Turn;
use crate::plugin::Walls;
use crate::tool;

/// What a plugin is asked.
pub(super) struct Question {
    pub plugin: Arc<Value>,
    pub request: Value,
    /// What it may ask for meanwhile.
    pub tools: Option<Arc<Vec<ToolOffer>>>,
}

impl World {
    pub(super) fn run_tool(&mut self, task: &TaskId, id: EffectId, call: ToolCall) {
        // Saying something takes no time and touches nothing.
        if call.tool == "say" {
            let text = call.input["text"].as_str().unwrap_or_default();
            return self.inbox.signal(task.clone(), Input::ToolEnded(id, ToolResult::ok(text)));
        }
        let tools = self.tools_of(task);
        let (name, servers) = (task.clone(), Arc::clone(&self.servers));
        let place = self.lines.join(&call.tool, call.workspace.path.as_deref());
        let commands = Arc::clone(&self.commands);
        self.spawn(
            task,
            id,
            move |cancel| {
                if let Some(place) = &place {
                    place.wait();
                    if cancel.is_triggered() {
                        let stopped = ToolResult::ended(Status::Aborted, "stopped before it began");
                        return Input::ToolEnded(id, stopped);
                    }
                }
                let _descriptors = commands.take(cancel);
                let result = match &call.server {
                    Some(behind) => servers.call(name.as_str(), &call, behind, &tools, cancel),
                    None => tool::run(&call, &tools, cancel),
                };
                Input::ToolEnded(id, result)
            },
            move |reason| Input::ToolEnded(id, ToolResult::ended(Status::Error, reason)),
        );
    }

    pub(super) fn open_tools(
        &mut self,
        task: &TaskId,
        id: EffectId,
        servers: Vec<ServerSpec>,
        workspace: Workspace,
        folder: String,
        sandbox: SandboxSpec,
    ) {
        let (name, mcp) = (task.clone(), Arc::clone(&self.servers));
        let absent: Vec<String> = servers.iter().map(|server| server.name.clone()).collect();
        let (owner, answered) = (task.clone(), Arc::clone(&self.servers));
        self.spawn_then(
            task,
            id,
            move |cancel| {
                let task = name.as_str();
                let opened = mcp.open(task, &servers, &workspace, &folder, &sandbox, cancel);
                Signal::ToolsOpened(id, opened).into()
            },
            move |reason| {
                let none = |server: &String| ServerTools {
                    server: server.clone(),
                    tools: Vec::new(),
                    problem: Some(reason.clone()),
                };
                Signal::ToolsOpened(id, absent.iter().map(none).collect()).into()
            },
            move || answered.answered(owner.as_str()),
        );
    }

    pub(super) fn consult(
        &mut self,
        task: &TaskId,
        id: EffectId,
        question: Question,
        workspace: Workspace,
        sandbox: SandboxSpec,
    ) {
        let (name, plugins) = (task.clone(), Arc::clone(&self.plugins));
        let gates = Arc::clone(&self.gates);
        self.spawn(
            task,
            id,
            move |cancel| {
                let Question { plugin, request, tools } = question;
                let opened = match &tools {
                    Some(tools) => {
                        gates.open(&name, Toolbox::new(tools, workspace.path.clone())).map(drop)
                    }
                    None => Ok(()),
                };
                let walls = Walls { spec: &sandbox, workspace: &workspace };
                let answer = opened.and_then(|()| {
                    plugins.consult(name.as_str(), &plugin, &request, walls, cancel)
                });
                Signal::Consulted(id, answer).into()
            },
            move |reason| Signal::Consulted(id, Err(reason)).into(),
        );
    }

    pub(super) fn ask_agent(&mut self, turn: Turn) {
        let (agents, inbox) = (Arc::clone(&self.agents), self.inbox.clone());
        let (task, id) = (turn.task.clone(), turn.effect);
        self.spawn(
            &task,
            id,
            move |cancel| {
                let ended = agents.turn(&turn, &inbox, cancel);
                Signal::AgentEnded(id, ended).into()
            },
            move |reason| Signal::AgentEnded(id, Err(reason)).into(),
        );
    }
}
