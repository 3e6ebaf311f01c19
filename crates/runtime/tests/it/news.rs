//! What a coding agent says, on its way to the journal: how many commits a turn costs, and that nothing is lost or
//! changes its place by being gathered.

use std::sync::{Arc, Mutex};

use journal::sqlite::SqliteJournal;
use machine::driver::Registry;
use machine::event::EventKind;
use machine::id::TaskId;
use machine::policy::permission::{Decide, Policy, Rule};
use machine::task::{DriverSpec, Outcome, TaskSpec, WorkspaceKind, WorkspaceSpec};
use runtime::clock::SystemClock;
use runtime::home::Home;
use runtime::inbox::Inbox;
use runtime::supervisor::{Notice, Supervisor};
use runtime::world::World;
use serde_json::json;

use crate::mcp::python;

/// A task whose agent makes so many calls in its one turn.
fn spec(calls: u64) -> TaskSpec {
    let agent = format!("{}/tests/fixtures/coding_agent.py", env!("CARGO_MANIFEST_DIR"));
    let command = [python(), agent, calls.to_string()];
    let program = json!({ "name": "played", "protocol": "claude", "command": command });
    let allow = Rule { tool: "*".to_owned(), decide: Decide::Allow, ..Rule::default() };
    TaskSpec {
        workspace: WorkspaceSpec { kind: Some(WorkspaceKind::None), ..WorkspaceSpec::default() },
        policy: Policy { rules: vec![allow], ..Policy::default() },
        sandbox: machine::policy::sandbox::SandboxSpec::off(),
        ..TaskSpec::new("be counted", DriverSpec::new("agent", json!({ "program": program })), "/")
    }
}

/// Commits of a turn of so many calls, and what was told of it in order.
fn turn(calls: u64) -> (u64, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::at(folder.path());
    home.create().unwrap();
    let inbox = Inbox::default();
    let world = World::new(inbox.clone(), &home, home.marks(0));
    let journal = Box::new(SqliteJournal::open(&home.journal()).unwrap());
    let registry = Arc::new(Registry::builtin());
    let mut supervisor = Supervisor::new(journal, world, Box::new(SystemClock), registry, inbox);
    let told = Arc::new(Mutex::new(Vec::new()));
    let notes = Arc::clone(&told);
    supervisor.observe(Box::new(move |notice| {
        let Notice::Event(event) = notice else { return };
        notes.lock().unwrap().push(match &event.kind {
            EventKind::AgentSaid { text, .. } => format!("says: {text}"),
            EventKind::ToolStarted { input, .. } => format!("begins {}", input["command"]),
            EventKind::ToolEnded { tool_use, .. } => format!("ends {tool_use}"),
            EventKind::AgentEnded { text, .. } => format!("turn ends: {text}"),
            _ => return,
        });
    }));
    let id = TaskId("t".to_owned());
    let before = supervisor.journal().syncs();
    supervisor.begin(id.clone(), spec(calls), false).unwrap();
    supervisor.run().unwrap();
    assert_eq!(supervisor.outcomes()[&id], Outcome::Completed);
    let told = told.lock().unwrap().clone();
    (supervisor.journal().syncs() - before, told)
}

#[test]
fn a_call_of_an_agent_costs_one_commit_and_what_it_says_stays_in_order() {
    let calls = 20;
    let (commits, told) = turn(calls);
    let mut expected = Vec::new();
    for call in 0..calls {
        expected.push(format!("says: Next is {call}."));
        expected.push(format!("begins \"echo {call}\""));
        expected.push(format!("ends call-{call}"));
    }
    expected.extend(["says: All done.".to_owned(), "turn ends: All done.".to_owned()]);
    assert_eq!(told, expected);
    // A call needs one, for its question; a few are around it all. A machine that is very busy may take a pause in the
    // middle of what belongs together, and then there are two; one for each thing that is said would be sixty.
    assert!(commits <= calls + 12, "{commits} commits for {calls} calls");
}
