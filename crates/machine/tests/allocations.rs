//! What a step takes from the allocator: the same however much was done before, and not more than it was. Time cannot be
//! tested on a busy machine; this can.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;

use machine::driver::Registry;
use machine::driver::scripted::ScriptedKind;
use machine::effect::Effect;
use machine::id::TaskId;
use machine::input::{Command, Input, Signal, Stamped};
use machine::policy::sandbox::SandboxSpec;
use machine::state::State;
use machine::step;
use machine::task::{DriverSpec, TaskSpec, Workspace, WorkspaceKind, WorkspaceSpec};
use machine::time::Timestamp;
use machine::tool::ToolResult;
use serde_json::json;

thread_local! {
    static TAKEN: Cell<u64> = const { Cell::new(0) };
}

/// Counts what this thread takes.
struct Counting;

// SAFETY: everything is left to the system's allocator; counting touches nothing of it.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        TAKEN.set(TAKEN.get() + 1);
        // SAFETY: the caller keeps the contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        TAKEN.set(TAKEN.get() + 1);
        // SAFETY: the caller keeps the contract.
        unsafe { System.realloc(pointer, layout, size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// A task of one tool call a turn, and how often each of its inputs made the machine ask for memory.
fn taken(inputs: usize) -> Vec<u64> {
    let mut registry = Registry::builtin();
    registry.register(Arc::new(ScriptedKind));
    let call = json!({ "tool": "say", "input": { "text": "a line" } });
    let config = json!({ "turns": [[call]], "repeat": inputs });
    let spec = TaskSpec {
        workspace: WorkspaceSpec { kind: Some(WorkspaceKind::None), ..WorkspaceSpec::default() },
        sandbox: SandboxSpec::off(),
        ..TaskSpec::new("be cheap", DriverSpec::new("scripted", config), "/")
    };
    let mut state = State::new(TaskId("t".to_owned()), Arc::new(registry));
    state.set_quiet(true);
    let mut next: Vec<Input> = vec![
        Command::Attach { owner: 1, attended: false }.into(),
        Command::Start(Box::new(spec)).into(),
    ];
    let mut taken = Vec::new();
    while let Some(input) = next.pop() {
        let time = Timestamp(taken.len() as i64);
        let before = TAKEN.get();
        let output = step(&mut state, Stamped { time, input });
        taken.push(TAKEN.get() - before);
        if taken.len() == inputs {
            break;
        }
        for effect in output.effects {
            match effect {
                Effect::RunTool { id, .. } => {
                    let said = format!("test {} of 1000 failed", taken.len());
                    next.push(Input::ToolEnded(id, ToolResult::ok(said)));
                }
                Effect::OpenWorkspace { id, .. } => {
                    let workspace = Workspace {
                        kind: WorkspaceKind::None,
                        path: None,
                        branch: None,
                        base: None,
                    };
                    next.push(Signal::WorkspaceOpened(id, Ok(workspace)).into());
                }
                _ => {}
            }
        }
    }
    assert_eq!(taken.len(), inputs, "the task ended before its time");
    taken
}

#[test]
fn a_step_takes_no_more_after_many_than_after_few() {
    let taken = taken(20_000);
    let sum = |of: &[u64]| of.iter().sum::<u64>();
    let (early, late) = (sum(&taken[1_000..2_000]), sum(&taken[19_000..20_000]));
    assert!(late <= early + early / 100, "{late} after {early}");
    assert!(early <= 1_000 * 6, "{early} for a thousand inputs");
}
