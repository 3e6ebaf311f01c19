//! Operators: what they ask for, and what they were promised.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, TryRecvError};

use machine::event::EventKind;
use machine::id::{CallId, TaskId};
use machine::input::{Channel, Command, Input, Resolution};
use machine::policy::budget::Budget;
use machine::policy::grant::Scope;
use machine::queue::Rebase;
use machine::state::{Ask, Phase, State};
use machine::task::{CriterionResult, Outcome};
use machine::time::Span;
use machine::verdict::Checkpoint;

use crate::audit::{Audit, Check, TaskAudit, Violation, key, violation};
use crate::random::Random;
use crate::scenario;

/// Where the answer to a command comes from.
type Answer = Receiver<Result<(), runtime::inbox::Refusal>>;

/// What the operators remember.
#[derive(Debug, Default)]
pub(crate) struct People {
    /// Commands without an answer so far.
    open: Vec<(TaskId, Command, Answer)>,
    /// How often each was sent, by task and JSON.
    sent: BTreeMap<(TaskId, String), u64>,
    /// How often each was acknowledged.
    acknowledged: BTreeMap<(TaskId, String), (Command, u64)>,
    /// How often each was refused.
    refused: BTreeMap<(TaskId, String), u64>,
    /// Makes every text different.
    texts: u64,
}

impl People {
    pub(crate) fn sends(&mut self, task: &TaskId, command: &Command) {
        *self.sent.entry((task.clone(), key_of(command))).or_default() += 1;
    }

    pub(crate) fn awaits(&mut self, task: &TaskId, command: Command, answer: Answer) {
        self.open.push((task.clone(), command, answer));
    }

    /// Hears the answers that came. What is acknowledged must be durable at this very moment.
    pub(crate) fn hear(&mut self, audit: &Audit) -> Result<u64, Violation> {
        let mut heard = 0;
        for (task, command, answer) in std::mem::take(&mut self.open) {
            match answer.try_recv() {
                Ok(Ok(())) => {
                    heard += 1;
                    self.acknowledge(&task, command, audit)?;
                }
                Ok(Err(_)) => self.refuse(&task, &command),
                Err(TryRecvError::Disconnected) => {}
                Err(TryRecvError::Empty) => self.open.push((task, command, answer)),
            }
        }
        Ok(heard)
    }

    pub(crate) fn refuse(&mut self, task: &TaskId, command: &Command) {
        *self.refused.entry((task.clone(), key_of(command))).or_default() += 1;
    }

    pub(crate) fn acknowledge(
        &mut self,
        task: &TaskId,
        command: Command,
        audit: &Audit,
    ) -> Result<(), Violation> {
        let key = key_of(&command);
        let count =
            &mut self.acknowledged.entry((task.clone(), key.clone())).or_insert((command, 0)).1;
        *count += 1;
        let taken = audit.tasks.get(task).map_or(0, |task| task.counts(&key).1);
        if taken < *count {
            return violation(
                Check::NothingLost,
                format!("{task} acknowledged {key} {count} times, but it is on disk {taken} times"),
            );
        }
        Ok(())
    }

    /// Everything that was acknowledged is there and has its effect; nothing counts more often than it was sent.
    pub(crate) fn check(&self, audit: &Audit) -> Result<(), Violation> {
        for ((id, key), (command, times)) in &self.acknowledged {
            let Some(task) = audit.tasks.get(id) else {
                return violation(Check::NothingLost, format!("task {id} is gone"));
            };
            if task.counts(key).1 < *times {
                return violation(
                    Check::NothingLost,
                    format!("{id} acknowledged {key}, which is gone"),
                );
            }
            if !is_visible(command, task) {
                return violation(
                    Check::NothingLost,
                    format!("{id} acknowledged {key}, which had no effect"),
                );
            }
        }
        // What a child is told may come from its parent.
        let started = |task: &&TaskAudit| task.state.data().spec.dispatch.is_none();
        for (id, task) in audit.tasks.iter().filter(|(_, task)| started(task)) {
            for (key, (recorded, taken)) in &task.recorded {
                let place = (id.clone(), key.clone());
                let Some(sent) = self.sent.get(&place).copied() else { continue };
                let refused = self.refused.get(&place).copied().unwrap_or_default();
                if *recorded > sent {
                    let what = format!("{id}: {key} sent {sent} times, recorded {recorded}");
                    return violation(Check::NothingDoubled, what);
                }
                if taken + refused > sent {
                    let what =
                        format!("{id}: {key} sent {sent} times, refused {refused}, taken {taken}");
                    return violation(Check::RefusedIsRefused, what);
                }
            }
        }
        Ok(())
    }

    pub(crate) fn has_sent(&self, task: &TaskId, which: impl Fn(&str) -> bool) -> bool {
        self.sent.keys().any(|(id, key)| id == task && which(key))
    }

    fn text(&mut self) -> String {
        self.texts += 1;
        format!("text {}", self.texts)
    }

    /// Something somebody might ask for, mostly fitting.
    pub(crate) fn whim(&mut self, state: &State, random: &mut Random) -> Command {
        let asks = state.asks();
        if !asks.is_empty() && !random.one_in(3) {
            let ask = random.pick(&asks).clone();
            return self.reply(&ask, random);
        }
        if matches!(state.data().phase, Phase::Finished { outcome: Outcome::Verified, .. })
            && random.one_in(2)
        {
            return self.reopening(random);
        }
        let call = CallId(random.below(state.data().last_call + 2));
        match random.below(17) {
            0 | 1 => Command::Pause,
            2 | 3 => Command::Resume,
            4 => Command::Cancel { reason: self.text() },
            5 | 6 => Command::Interrupt { note: self.text() },
            7 | 8 => Command::Steer { text: self.text() },
            9 | 10 => Command::FollowUp { text: self.text() },
            11 => Command::Raise(higher(&state.data().budget)),
            12 => Command::approve(call),
            13 => Command::tell(self.text()),
            14 => Command::Resolve { call, how: Resolution::Retry },
            15 => Command::Compact { focus: self.text() },
            _ => Command::HandOver(scenario::driver(2, random, 1)),
        }
    }

    /// What a queue says of a change that does not hold on its branch.
    fn reopening(&mut self, random: &mut Random) -> Command {
        let reason = self.text();
        let failed = CriterionResult { title: reason.clone(), ..CriterionResult::default() };
        let kept =
            |name: &str| Checkpoint { name: name.to_owned(), tree: format!("tree of {name}") };
        let rebase = random.one_in(2).then(|| Rebase {
            branch: "main".to_owned(),
            commit: "tip".to_owned(),
            base: kept("tip"),
            combined: kept(&reason),
        });
        Command::Reopen { reason, results: vec![failed], rebase }
    }

    /// An answer that fits a question.
    pub(crate) fn reply(&mut self, ask: &Ask, random: &mut Random) -> Command {
        match ask {
            Ask::Approval { call, hash, .. } if random.one_in(3) => Command::Deny {
                call: *call,
                reason: self.text(),
                hash: (!random.one_in(4)).then_some(*hash),
                via: None,
            },
            Ask::Approval { call, hash, .. } => Command::Approve {
                call: *call,
                scope: *random.pick(&[Scope::Once, Scope::Once, Scope::Task, Scope::Project]),
                like: None,
                hash: (!random.one_in(4)).then_some(*hash),
                via: *random.pick(&[None, Some(Channel::Prompt), Some(Channel::Command)]),
            },
            Ask::Question { call, .. } => Command::Answer { call: *call, text: self.text() },
            Ask::InDoubt { call, .. } => {
                let how = *random.pick(&[Resolution::Did, Resolution::DidNot, Resolution::Retry]);
                Command::Resolve { call: *call, how }
            }
            Ask::Escalation { .. } => {
                let line = *random.pick(&["go on", "give up", "try another way"]);
                Command::tell(line)
            }
            // The child itself is asked.
            Ask::Child { .. } => Command::FollowUp { text: self.text() },
            Ask::Decision { prompt, .. } if prompt.contains("(yes / no)") => {
                Command::tell(*random.pick(&["yes", "no", "perhaps"]))
            }
            Ask::Decision { prompt, .. } if prompt.contains("(left / right)") => {
                Command::tell(*random.pick(&["left", "right", "up"]))
            }
            Ask::Decision { .. } => {
                let line = *random.pick(&["done", "done", "shell make", "read notes", "what?"]);
                Command::tell(line)
            }
        }
    }
}

fn higher(budget: &Budget) -> Budget {
    Budget {
        max_turns: budget.max_turns.map(|limit| limit + 2),
        max_tool_calls: budget.max_tool_calls.map(|limit| limit + 2),
        max_time: budget.max_time.map(|limit| Span(limit.0 + 500)),
        max_consecutive_errors: budget.max_consecutive_errors.map(|limit| limit + 1),
        max_consecutive_denies: budget.max_consecutive_denies.map(|limit| limit + 1),
        ..Budget::default()
    }
}

pub(crate) fn key_of(command: &Command) -> String {
    key(&Input::Command(command.clone()))
}

/// Whether a command that was taken shows in what happened.
fn is_visible(command: &Command, task: &TaskAudit) -> bool {
    let some =
        |which: &dyn Fn(&EventKind) -> bool| task.events.iter().any(|event| which(&event.kind));
    match command {
        Command::Cancel { .. } => task.outcome() == Some(Outcome::Cancelled),
        Command::Pause => some(&|kind| *kind == EventKind::Paused),
        Command::Resume => some(&|kind| *kind == EventKind::Resumed),
        Command::Interrupt { note: text } | Command::Steer { text } => note_is_kept(text, task),
        Command::FollowUp { text } => note_is_kept(text, task),
        Command::Raise(_) => some(&|kind| matches!(kind, EventKind::BudgetRaised { .. })),
        Command::Approve { call: asked, .. } => some(
            &|kind| matches!(kind, EventKind::ApprovalDecided { call, allowed: true, .. } if call == asked),
        ),
        Command::Deny { call: asked, .. } => some(
            &|kind| matches!(kind, EventKind::ApprovalDecided { call, allowed: false, .. } if call == asked),
        ),
        Command::Answer { call: asked, text } => some(
            &|kind| matches!(kind, EventKind::ToolEnded { call, result, .. } if call == asked && result.text == *text),
        ),
        Command::Tell { line, .. } => some(&|kind| *kind == EventKind::Told { line: line.clone() }),
        Command::Resolve { call: asked, .. } => {
            some(&|kind| matches!(kind, EventKind::CallResolved { call, .. } if call == asked))
        }
        Command::RollBack { .. } => some(&|kind| matches!(kind, EventKind::RolledBack { .. })),
        Command::Reopen { reason, .. } => {
            some(&|kind| *kind == EventKind::Reopened { reason: reason.clone() })
        }
        Command::NoteIntegration(_) => task.state.data().integrated.is_some(),
        Command::Dispatch(order) => task.state.data().children.contains_key(&order.child),
        Command::ChildReport(_) | Command::Allot(_) | Command::Relay { .. } => true,
        Command::Compact { focus } => {
            some(&|kind| *kind == EventKind::CompactionAsked { focus: focus.clone() })
        }
        Command::HandOver(driver) => {
            task.state.data().successor.is_some()
                || task.outcome().is_some()
                || some(
                    &|kind| matches!(kind, EventKind::DriverChanged { to, .. } if *to == driver.name),
                )
        }
        Command::Start(_) | Command::Attach { .. } | Command::Drain | Command::Detach { .. } => {
            true
        }
    }
}

/// A note is queued once and reaches the driver at most once; it must reach it if the driver's claim stood. What an agent was
/// told in a turn that did not end well is queued again, and reaches it once for each time.
fn note_is_kept(text: &str, task: &TaskAudit) -> bool {
    let count = |which: &dyn Fn(&EventKind) -> bool| {
        task.events.iter().filter(|event| which(&event.kind)).count()
    };
    let queued = count(&|kind| matches!(kind, EventKind::NoteQueued { note } if note.text == text));
    let delivered =
        count(&|kind| matches!(kind, EventKind::NoteDelivered { note } if note.text == text));
    let data = task.state.data();
    let waiting = data.notes.iter().chain(&data.follow_ups).any(|note| note.text == text);
    let stood = matches!(task.outcome(), Some(Outcome::Verified | Outcome::Completed));
    let agents = count(&|kind| matches!(kind, EventKind::AgentAsked { .. }));
    let is_once = queued == 1 || (queued > 1 && agents > 0);
    is_once && delivered <= queued && (delivered == queued || (waiting && !stood))
}
