//! Tasks that were begun and are not in the journal yet. They enter it a group at a time: while the next group is
//! written, what the one before it asked for is already under way.

use std::collections::{BTreeMap, VecDeque};

use machine::id::TaskId;

use crate::inbox::Delivery;

/// How many tasks begin with one commit. Enough that a slow disk does not decide, few enough that the first of many
/// tasks need not wait for the last.
const AT_ONCE: usize = 128;

/// What waits to begin, first come, first served.
#[derive(Debug, Default)]
pub(super) struct Beginning {
    order: VecDeque<TaskId>,
    /// What each task gets, its start before everything else.
    inputs: BTreeMap<TaskId, Vec<Delivery>>,
}

impl Beginning {
    /// Whether nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Adds a task, and the first that enters it.
    pub(super) fn push(&mut self, task: &TaskId, first: [Delivery; 2]) {
        if !self.inputs.contains_key(task) {
            self.order.push_back(task.clone());
        }
        self.inputs.entry(task.clone()).or_default().extend(first);
    }

    /// Keeps back what came for tasks that have not begun: nothing enters a task before its start.
    pub(super) fn keep_back(&mut self, deliveries: &mut Vec<Delivery>) {
        if self.is_empty() {
            return;
        }
        let come = std::mem::take(deliveries);
        for delivery in come {
            match self.inputs.get_mut(&delivery.task) {
                Some(waiting) => waiting.push(delivery),
                None => deliveries.push(delivery),
            }
        }
    }

    /// The next group.
    pub(super) fn next(&mut self) -> Vec<Delivery> {
        let count = self.order.len().min(AT_ONCE);
        let mut group = Vec::with_capacity(2 * count);
        for task in self.order.drain(..count) {
            group.append(&mut self.inputs.remove(&task).unwrap_or_default());
        }
        group
    }
}

#[cfg(test)]
mod tests {
    use machine::input::Command;

    use super::*;

    fn task(number: usize) -> TaskId {
        TaskId(format!("t{number}"))
    }

    fn to(number: usize, command: Command) -> Delivery {
        Delivery { task: task(number), input: command.into(), reply: None, body: None }
    }

    fn begun(number: usize) -> [Delivery; 2] {
        [to(number, Command::Pause), to(number, Command::Drain)]
    }

    #[test]
    fn many_tasks_begin_in_groups_and_in_their_order() {
        let mut beginning = Beginning::default();
        (0..AT_ONCE + 1).for_each(|number| beginning.push(&task(number), begun(number)));
        let first: Vec<TaskId> = beginning.next().into_iter().map(|one| one.task).collect();
        let expected: Vec<TaskId> =
            (0..AT_ONCE).flat_map(|number| [task(number), task(number)]).collect();
        assert_eq!(first, expected);
        assert_eq!(beginning.next().len(), 2);
        assert!(beginning.is_empty() && beginning.next().is_empty());
    }

    #[test]
    fn what_comes_before_a_task_has_begun_enters_it_after_its_start() {
        let mut beginning = Beginning::default();
        beginning.push(&task(1), begun(1));
        let mut come = vec![to(1, Command::Resume), to(2, Command::Pause)];
        beginning.keep_back(&mut come);
        assert_eq!(come.len(), 1, "other tasks need not wait");
        let words: Vec<String> =
            beginning.next().iter().map(|one| format!("{:?}", one.input)).collect();
        assert!(words[0].contains("Pause") && words[2].contains("Resume"), "{words:?}");
        let mut come = vec![to(1, Command::Resume)];
        beginning.keep_back(&mut come);
        assert_eq!(come.len(), 1, "it has begun");
    }
}
