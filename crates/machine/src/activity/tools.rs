//! Servers that bring tools: asked when a process takes the task up, before its driver decides again. What they
//! offer is in the journal, so that a fold knows it; a server that cannot be had costs its tools, not the task.

use std::sync::Arc;

use serde_json::Value;

use crate::effect::Effect;
use crate::event::EventKind;
use crate::policy::permission::{Decide, Judgement, Layer, Unattended};
use crate::server::{self, ServerCall, ServerTools, ToolOffer};
use crate::state::{CallStatus, Pending, Phase};
use crate::step::Step;
use crate::task::Workspace;
use crate::tool::{self, EffectClass};

/// Tools that servers no longer offer and that a task remembers.
const MOST_FORMER: usize = 256;

impl Step<'_> {
    /// Whether servers are to be asked before the driver is.
    pub(crate) fn wants_tools(&self) -> bool {
        !self.state.data.tools_open && !self.state.data.spec.servers.is_empty()
    }

    /// Whether a call of a server waits to begin whose tools have not been looked at since a process took the task up: they
    /// may be others than those that were allowed.
    pub(crate) fn calls_need_tools(&self) -> bool {
        let data = &self.state.data;
        self.wants_tools()
            && data.calls.iter().any(|call| {
                matches!(call.status, CallStatus::Queued { .. })
                    && tool::find(&call.action.tool).is_none()
                    && call.agent.is_none()
            })
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
        // A turn that was under way when its process was lost goes on.
        let is_open = !self.state.data.calls.is_empty();
        self.state.data.phase = if is_open { Phase::Acting } else { Phase::Ready };
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
        let server = changed.server.clone();
        let mut changed = changed;
        let problem = changed.problem.clone();
        let now_other = self.mark_changed(&mut changed);
        let data = &mut self.state.data;
        let mut tools = server::replace(&data.tools, &data.spec.servers, changed);
        let taken_over = mark_taken_over(&data.tools, &data.former_tools, &mut tools);
        data.tools = Arc::new(tools);
        for name in now_other.iter().chain(&taken_over) {
            self.doubt_approved(name);
        }
        let say = |what: &str, names: Vec<String>| {
            (!names.is_empty()).then(|| format!("{what}: {}", names.join(", ")))
        };
        let now_other =
            say("changed since they were first offered, and asked about anew", now_other);
        let taken_over =
            say("asked about anew, as they have names that other tools had", taken_over);
        let problems: Vec<String> =
            [problem, now_other, taken_over].into_iter().flatten().collect();
        let problem = (!problems.is_empty()).then(|| problems.join("; "));
        let mine = self.state.data.tools.iter().filter(|tool| tool.source == server);
        let tools: Vec<String> = mine.map(|tool| tool.name.clone()).collect();
        self.event(|| EventKind::ToolsOpened { server, tools, problem });
    }

    /// A yes that was given before its call could begin was for the tool as it was then.
    fn doubt_approved(&mut self, tool: &str) {
        for call in self.state.data.calls.iter_mut().filter(|call| call.action.tool == tool) {
            if let CallStatus::Queued { approved, repeated: false, by } = &mut call.status {
                *approved = false;
                by.clear();
            }
        }
    }

    /// Marks the tools that are no longer what this task knew under their name, and names them. What a server stops
    /// offering is remembered, so that a tool cannot come back as another.
    fn mark_changed(&mut self, offered: &mut ServerTools) -> Vec<String> {
        let data = &mut self.state.data;
        let mut others = Vec::new();
        for offer in &mut offered.tools {
            let known = data.tools.iter().chain(&data.former_tools);
            let Some(former) = known.into_iter().find(|former| former.is_same_tool(offer)) else {
                continue;
            };
            let differs = !former.says_the_same(offer);
            offer.changed = former.changed || differs;
            if differs {
                others.push(offer.name.clone());
            }
        }
        let again = |former: &ToolOffer| offered.tools.iter().any(|now| now.is_same_tool(former));
        data.former_tools.retain(|former| !again(former));
        let gone = data.tools.iter().filter(|tool| tool.source == offered.server && !again(tool));
        data.former_tools.extend(gone.cloned());
        let over = data.former_tools.len().saturating_sub(MOST_FORMER);
        data.former_tools.drain(..over);
        others
    }

    /// Whether the tool of a call is no longer what this task knew under its name.
    pub(crate) fn is_changed(&self, index: usize) -> bool {
        let tool = &self.state.data.calls[index].action.tool;
        self.offer(tool).is_some_and(|tool| tool.changed)
    }

    /// What a rule or a class allows is allowed of the tool as it was: one that has changed is asked about.
    pub(crate) fn distrust_changed(&self, index: usize, judgement: Judgement) -> Judgement {
        let data = &self.state.data;
        if !self.is_changed(index) || judgement.decide != Decide::Allow {
            return judgement;
        }
        let attended = data.attachment.as_ref().is_some_and(|by| by.attended);
        let nobody = !attended && data.spec.policy.unattended == Unattended::Deny;
        Judgement {
            decide: if nobody { Decide::Deny } else { Decide::Ask },
            by: "changed tool".to_owned(),
            layer: Layer::Tool,
            reason: "its server changed what it says it does or takes since it was first offered"
                .to_owned(),
            nobody,
            ..judgement
        }
    }

    /// A person has let a call pass: the tool is known as it is now.
    pub(crate) fn accept_changed(&mut self, index: usize) {
        let name = &self.state.data.calls[index].action.tool;
        if self.offer(name).is_some_and(|tool| tool.changed) {
            let name = name.clone();
            let tools = Arc::make_mut(&mut self.state.data.tools);
            tools.iter_mut().filter(|tool| tool.name == name).for_each(|tool| tool.changed = false);
        }
    }

    /// The tool of a server by its name.
    pub(crate) fn offer(&self, name: &str) -> Option<&ToolOffer> {
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

/// Marks the tools that have the name by which this task knew another one, and names them: what was allowed under it was
/// not them.
fn mark_taken_over(
    before: &[ToolOffer],
    former: &[ToolOffer],
    now: &mut [ToolOffer],
) -> Vec<String> {
    let mut taken = Vec::new();
    for tool in now {
        let named: Vec<&ToolOffer> =
            before.iter().filter(|known| known.name == tool.name).collect();
        let had_it = named.iter().any(|known| known.is_same_tool(tool));
        let was_others = || former.iter().any(|known| known.name == tool.name);
        if !had_it && (!named.is_empty() || was_others()) {
            tool.changed = true;
            taken.push(tool.name.clone());
        }
    }
    taken
}
