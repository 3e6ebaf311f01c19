//! What is found out about a workflow once it is read: which results are to be remembered, and whether steps work at once.

use crate::driver::workflow::definition::*;
use crate::driver::workflow::names::Mentions;

/// Notes which results and visits are to be remembered.
pub(super) fn mark(row: &mut Row, mentions: &Mentions) {
    for step in &mut row.steps {
        mark_step(step, mentions);
        step.told = step.keeps || row.keeps_last;
    }
}

pub(super) fn mark_step(step: &mut Step, mentions: &Mentions) {
    // The repair of a check looks at how the check ended.
    step.keeps |= mentions.keeps(&step.name);
    step.fields = mentions.fields(&step.name);
    step.counted = mentions.counts(&step.name);
    match &mut step.work {
        Work::Each(each) => {
            each.keeps = step.keeps;
            each.row.keeps_last = step.keeps;
            mark(&mut each.row, mentions);
        }
        Work::Parallel(parallel) => {
            for (_, row) in &mut parallel.branches {
                row.keeps_last = step.keeps;
                mark(row, mentions);
            }
        }
        Work::Row(row) => {
            row.keeps_last = true;
            mark(row, mentions);
        }
        // A workflow that is called has names of its own.
        Work::Nothing
        | Work::Tool(_)
        | Work::Driver(_)
        | Work::Person(_)
        | Work::Flow(_)
        | Work::Task(_) => {}
    }
}

pub(super) fn forks(body: &Body) -> bool {
    match body {
        Body::Row(row) => row_forks(row),
        Body::States(states) => states.states.iter().any(|state| {
            row_forks(&state.on_entry) || row_forks(&state.on_exit) || step_forks(&state.step)
        }),
    }
}

fn row_forks(row: &Row) -> bool {
    row.steps.iter().any(step_forks)
}

fn step_forks(step: &Step) -> bool {
    match &step.work {
        Work::Parallel(_) => true,
        Work::Each(each) => each.width > 1 || row_forks(&each.row),
        Work::Flow(work) => forks(&work.flow.body),
        Work::Row(row) => row_forks(row),
        Work::Nothing | Work::Tool(_) | Work::Driver(_) | Work::Person(_) | Work::Task(_) => false,
    }
}
