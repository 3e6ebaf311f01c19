//! A workflow as nodes and edges, for whoever draws it.
//!
//! It is made from the configuration of a driver, `workflow` or `state_machine`, after the strict readers had it; what is
//! not as they would leave it is passed over. A failure without an edge ends the workflow, as it does when it runs.

mod label;
mod row;
mod states;
#[cfg(test)]
mod tests;

use serde::Serialize;
use serde_json::Value;

use crate::task::DriverSpec;

/// Deeper parts are named, not drawn.
const MAX_DEPTH: usize = 16;

/// A drawing without places.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Outline {
    /// The workflow's name.
    pub title: String,
    /// In the order in which they are written.
    pub nodes: Vec<Node>,
    /// The ways between them.
    pub edges: Vec<Edge>,
}

/// One step or state, or a place where ways begin or meet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Node {
    /// Its name and those of the parts around it, `/` between: each once.
    pub path: String,
    /// Its own name.
    pub name: String,
    /// What it is.
    pub kind: NodeKind,
    /// What it does, in a line; may be empty.
    pub detail: String,
    /// When it is done at all; may be empty.
    pub when: String,
    /// How many parts it lies in.
    pub depth: usize,
}

/// What a node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeKind {
    /// Where it begins.
    Start,
    /// Where it ends.
    End,
    /// Where it ends without success.
    Failed,
    /// Where branches meet, or a part ends.
    Join,
    /// A tool call.
    Tool,
    /// A question to a model.
    Model,
    /// A turn of a coding agent.
    Agent,
    /// A question to a person.
    Person,
    /// A workflow inside.
    Workflow,
    /// The same for each element of a list.
    Foreach,
    /// Branches at once.
    Parallel,
    /// Another driver.
    Driver,
    /// A task of its own.
    Task,
    /// Nothing but its ways.
    Junction,
}

impl NodeKind {
    /// In a word.
    pub fn word(self) -> &'static str {
        match self {
            NodeKind::Start => "start",
            NodeKind::End => "end",
            NodeKind::Failed => "failed",
            NodeKind::Join => "join",
            NodeKind::Tool => "tool",
            NodeKind::Model => "model",
            NodeKind::Agent => "agent",
            NodeKind::Person => "person",
            NodeKind::Workflow => "workflow",
            NodeKind::Foreach => "foreach",
            NodeKind::Parallel => "parallel",
            NodeKind::Driver => "driver",
            NodeKind::Task => "task",
            NodeKind::Junction => "junction",
        }
    }
}

/// A way from one node to another, by their places in the list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Edge {
    /// Where it begins.
    pub from: usize,
    /// Where it leads.
    pub to: usize,
    /// Why it is taken.
    pub kind: EdgeKind,
    /// When, in a few words; may be empty.
    pub label: String,
}

/// Why an edge is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EdgeKind {
    /// One after the other.
    Next,
    /// The step says where to go after a success.
    Then,
    /// After a failure.
    Goto,
    /// Again.
    Retry,
    /// A check failed: what repairs it.
    Repair,
    /// Back to a check after its repair.
    Recheck,
    /// A state's transition.
    Transition,
    /// A transition that a model may choose.
    Choose,
    /// Into a branch.
    Branch,
    /// Into the steps for each element.
    Each,
    /// To the next element.
    Again,
    /// Into a part.
    Nested,
}

/// The outline of a driver's configuration; empty for drivers that are no workflow.
pub fn of(driver: &DriverSpec) -> Outline {
    let mut drawing = Drawing::default();
    drawing.outline.title = text(&driver.config, "name").to_owned();
    if matches!(driver.name.as_str(), "workflow" | "state_machine") {
        let start = drawing.node(&Place::default(), "start", NodeKind::Start, String::new());
        let open = vec![Open::from(start)];
        let open = drawing.part(&driver.config, &Place::default(), open);
        if !open.is_empty() {
            let end = drawing.node(&Place::default(), "end", NodeKind::End, String::new());
            drawing.close(open, end);
        }
    }
    drawing.outline
}

/// Where in the nesting something is drawn.
#[derive(Debug, Clone, Default)]
struct Place {
    prefix: String,
    depth: usize,
}

impl Place {
    fn inside(&self, name: &str) -> Place {
        Place { prefix: format!("{}{name}/", self.prefix), depth: self.depth + 1 }
    }
}

/// An edge whose end is not known yet.
#[derive(Debug, Clone)]
struct Open {
    from: usize,
    kind: EdgeKind,
    label: String,
}

impl From<usize> for Open {
    fn from(from: usize) -> Open {
        Open { from, kind: EdgeKind::Next, label: String::new() }
    }
}

impl Open {
    fn labelled(from: usize, kind: EdgeKind, label: impl Into<String>) -> Open {
        Open { from, kind, label: label.into() }
    }
}

#[derive(Debug, Default)]
struct Drawing {
    outline: Outline,
    /// Paths that are taken, so that each is there once.
    paths: std::collections::BTreeSet<String>,
}

impl Drawing {
    /// Steps or states, whichever the table has; gives the ways that lead out.
    fn part(&mut self, config: &Value, place: &Place, open: Vec<Open>) -> Vec<Open> {
        if place.depth > MAX_DEPTH {
            return open;
        }
        match (config.get("steps"), config.get("states")) {
            (Some(Value::Array(steps)), _) => self.row(steps, place, open),
            (_, Some(states)) => self.states(config, states, place, open),
            _ => open,
        }
    }

    fn node(&mut self, place: &Place, name: &str, kind: NodeKind, detail: String) -> usize {
        let wanted = format!("{}{name}", place.prefix);
        let mut path = wanted.clone();
        let mut count = 1;
        while !self.paths.insert(path.clone()) {
            count += 1;
            path = format!("{wanted}#{count}");
        }
        let (name, when) = (name.to_owned(), String::new());
        self.outline.nodes.push(Node { path, name, kind, detail, when, depth: place.depth });
        self.outline.nodes.len() - 1
    }

    fn edge(&mut self, from: usize, to: usize, kind: EdgeKind, label: impl Into<String>) {
        let edge = Edge { from, to, kind, label: label.into() };
        if !self.outline.edges.contains(&edge) {
            self.outline.edges.push(edge);
        }
    }

    fn close(&mut self, open: Vec<Open>, to: usize) {
        for Open { from, kind, label } in open {
            self.edge(from, to, kind, label);
        }
    }
}

fn text<'v>(at: &'v Value, key: &str) -> &'v str {
    at.get(key).and_then(Value::as_str).unwrap_or_default()
}
