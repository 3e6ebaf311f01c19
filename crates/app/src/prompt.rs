//! Puts to the person what the task asks, and brings the answers to the inbox. Runs on a thread of its own:
//! the supervisor never waits for a line.

mod answer;
pub(crate) mod chat;
pub(crate) mod reader;
mod typing;

use std::collections::VecDeque;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, sync_channel};
use std::time::{Duration, Instant};

use machine::Command;
use machine::id::{CallId, TaskId};
use machine::state::Ask;
use runtime::inbox::{Inbox, Refusal};
use view::approvals::{self, Amount};
use view::{Line, Tone};

use crate::project_rule::ProjectRule;
use crate::screen::Screen;
use answer::{Unclear, answer, question};
use reader::{Reader, Source, Typed, Wanted};

/// First words of the driver `user`, for completion.
const WORDS: [&str; 17] = [
    "ask ",
    "done",
    "edit ",
    "give up",
    "glob ",
    "grep ",
    "help",
    "memory ",
    "patch ",
    "quit",
    "read ",
    "say ",
    "shell ",
    "skeleton ",
    "validator.run",
    "view ",
    "write ",
];

/// Why a task waits that nobody answers any more.
const LEFT: &str = "its prompt was left";
const ENDED: &str = "the input that answers it has ended";

/// What the prompt hears of a task.
#[derive(Debug)]
pub(crate) enum News {
    /// Something is asked; `shown` if the screen has it already.
    Asked {
        /// The task.
        task: TaskId,
        /// What is asked.
        ask: Ask,
        /// Whether the screen has shown it.
        shown: bool,
        /// Which of all that was asked it is.
        number: u64,
    },
    /// A call needs no answer any more.
    Settled(TaskId, CallId),
    /// A task's driver no longer waits for a line.
    Decided(TaskId),
}

/// Where the moves of the driver `user` come from.
pub(crate) fn source(at_terminal: bool, home: &Path) -> Source {
    if at_terminal { Source::Terminal(home.join("history"), &WORDS) } else { Source::Lines }
}

/// Asks and answers until nobody is left to ask or nothing comes any more.
pub(crate) fn attend(mut lines: Reader, news: &Receiver<News>, inbox: &Inbox, screen: &Screen) {
    let mut asks = Asks::default();
    // A move that was typed before its question came, and whose it is.
    let mut ahead: Option<(TaskId, String)> = None;
    while let Some((task, mut ask)) = asks.next(news, screen) {
        let is_move = matches!(ask, Ask::Decision { .. });
        let wanted = match ask {
            Ask::Decision { .. } => Wanted::Words,
            Ask::Approval { .. }
            | Ask::Question { .. }
            | Ask::InDoubt { .. }
            | Ask::Escalation { .. }
            | Ask::Child { .. } => Wanted::Answer,
        };
        lines.asks(call_of(&ask).map(|call| (task.clone(), call)));
        let draft = ahead.take_if(|(of, _)| is_move && *of == task).map(|(_, line)| line);
        let typed = match draft {
            // Nobody is there to look at it again.
            Some(line) if !lines.is_terminal() => Typed::Line(line),
            draft => lines.read(&question(&ask), &draft.unwrap_or_default(), wanted, screen),
        };
        let Typed::Line(line) = typed else {
            // Ctrl-C, Ctrl-D and a terminal that is gone all mean that nobody answers.
            inbox.leave(if lines.is_terminal() { LEFT } else { ENDED });
            return;
        };
        asks.hear_all(news);
        if !asks.is_open(&task, &ask) {
            let newer = asks.decision_of(&task).filter(|open| open.number <= lines.begun_after());
            if let Some(newer) = newer.filter(|_| is_move) {
                // A note, or somebody else's move, came in between: who typed knew the question that stands now.
                ask = newer.ask;
            } else if is_move && !line.trim().is_empty() {
                if lines.is_terminal() {
                    let text = "something happened while you typed: Enter sends it all the same";
                    screen.lines(vec![Line::new(Tone::Ask, text)]);
                }
                ahead = Some((task, line));
                continue;
            }
        }
        if !asks.is_open(&task, &ask) {
            // Somebody else was faster: what was typed is an answer to nothing.
            if !line.trim().is_empty() {
                let text = "it was settled elsewhere: what you typed was not used";
                screen.lines(vec![Line::new(Tone::Ask, text)]);
            }
            continue;
        }
        match answer(&ask, &line) {
            Ok(command) => match give_with_rule(inbox, &task, command) {
                Ok(shown) => {
                    screen.lines(shown);
                    asks.drop(&task, &ask);
                }
                Err(reason) if reason.is_empty() => return,
                Err(reason) => {
                    screen.lines(vec![Line::new(
                        Tone::Bad,
                        format!("refused: {}", view::text::visible(&reason)),
                    )]);
                    // A call that somebody else settled is not asked about again.
                    if reason.contains("does not") || reason.contains("no call") {
                        asks.drop(&task, &ask);
                    }
                }
            },
            Err(Unclear::ShowAll) => screen.lines(approvals::shown(&ask, Amount::Whole)),
            Err(Unclear::Help) => screen.lines(answer::help()),
            Err(Unclear::Nothing) => {}
            Err(Unclear::Stop) => {
                inbox.leave(LEFT);
                return;
            }
            Err(Unclear::Expected(what)) => {
                screen.lines(vec![Line::new(Tone::Bad, format!("expected {what}"))])
            }
        }
    }
}

/// One thing that is asked and not settled.
#[derive(Debug, Clone, PartialEq)]
struct Open {
    task: TaskId,
    ask: Ask,
    /// Which of all that was asked it is.
    number: u64,
    shown: bool,
}

/// The open questions, oldest first.
#[derive(Default)]
struct Asks {
    open: VecDeque<Open>,
}

impl Asks {
    /// The oldest question, once there is one; nothing when no more can come.
    fn next(&mut self, news: &Receiver<News>, screen: &Screen) -> Option<(TaskId, Ask)> {
        self.wait(news)?;
        let first = self.open.front_mut()?;
        if !std::mem::replace(&mut first.shown, true) {
            screen.lines(approvals::lines(&first.ask));
        }
        Some((first.task.clone(), first.ask.clone()))
    }

    /// Waits until something is asked; nothing when no more can come.
    fn wait(&mut self, news: &Receiver<News>) -> Option<()> {
        self.hear_all(news);
        while self.open.is_empty() {
            match news.recv_timeout(Duration::from_secs(3600)) {
                Ok(heard) => self.hear(heard),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return None,
            }
            self.hear_all(news);
        }
        Some(())
    }

    /// Waits until something is asked, but no longer than that.
    fn wait_for(&mut self, news: &Receiver<News>, patience: Duration) {
        let until = Instant::now() + patience;
        while self.open.is_empty() {
            match news.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(heard) => self.hear(heard),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// The oldest question, if there is one now.
    fn first(&self) -> Option<Open> {
        self.open.front().cloned()
    }

    fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// What the screen has not shown, which it now does.
    fn take_unshown(&mut self) -> Vec<Ask> {
        let unshown = self.open.iter_mut().filter(|open| !open.shown);
        unshown
            .map(|open| {
                open.shown = true;
                open.ask.clone()
            })
            .collect()
    }

    fn hear_all(&mut self, news: &Receiver<News>) {
        loop {
            match news.try_recv() {
                Ok(heard) => self.hear(heard),
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => return,
            }
        }
    }

    fn hear(&mut self, news: News) {
        match news {
            News::Asked { task, ask, shown, number } => {
                let same = |open: &Open| open.task == task && call_of(&open.ask) == call_of(&ask);
                self.open.retain(|open| !same(open));
                self.open.push_back(Open { task, ask, shown, number });
            }
            News::Settled(task, call) => {
                self.open.retain(|open| open.task != task || call_of(&open.ask) != Some(call));
            }
            News::Decided(task) => {
                self.open.retain(|open| open.task != task || call_of(&open.ask).is_some())
            }
        }
    }

    fn is_open(&self, task: &TaskId, ask: &Ask) -> bool {
        self.open.iter().any(|open| open.task == *task && open.ask == *ask)
    }

    /// What the task's driver waits for now.
    fn decision_of(&self, task: &TaskId) -> Option<Open> {
        let waits = |open: &&Open| open.task == *task && matches!(open.ask, Ask::Decision { .. });
        self.open.iter().find(waits).cloned()
    }

    fn drop(&mut self, task: &TaskId, ask: &Ask) {
        self.open.retain(|open| open.task != *task || open.ask != *ask);
    }
}

fn call_of(ask: &Ask) -> Option<CallId> {
    match ask {
        Ask::Approval { call, .. } | Ask::Question { call, .. } | Ask::InDoubt { call, .. } => {
            Some(*call)
        }
        Ask::Escalation { .. } | Ask::Decision { .. } | Ask::Child { .. } => None,
    }
}

/// Gives a command, and writes the rule that it asks for; the lines say so. The error is as that of [`give`].
fn give_with_rule(inbox: &Inbox, task: &TaskId, command: Command) -> Result<Vec<Line>, String> {
    let rule = ProjectRule::of_command(task, &command)?;
    give(inbox, task, command)?;
    let failed = |reason: String| {
        let text = view::text::visible(&format!("it may run, but no rule was written: {reason}"));
        vec![Line::new(Tone::Bad, text)]
    };
    Ok(rule.map(|rule| rule.write().unwrap_or_else(failed)).unwrap_or_default())
}

/// Gives a command and waits until it is journaled. The error is empty if the process is ending.
fn give(inbox: &Inbox, task: &TaskId, command: Command) -> Result<(), String> {
    let (sender, journaled) = sync_channel(1);
    inbox.command(task.clone(), command.into(), Some(sender))?;
    match journaled.recv() {
        Ok(Ok(())) => Ok(()),
        Ok(Err(Refusal::Rejected(reason))) => Err(reason),
        // The task has ended or the process is stopping: the screen says so.
        Ok(Err(Refusal::NotHere)) | Err(_) => Err(String::new()),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::sync::Arc;

    use machine::id::QuestionId;

    pub(crate) fn approval() -> Ask {
        let input = serde_json::json!({"command": "ls"});
        Ask::Approval {
            call: CallId(3),
            tool: "shell".to_owned(),
            hash: machine::policy::call_hash::CallHash::of("shell", &input),
            input: Arc::new(input),
            reason: String::new(),
            part: String::new(),
        }
    }

    #[test]
    fn a_question_that_somebody_else_settled_is_not_asked() {
        let task = TaskId("t".to_owned());
        let mut asks = Asks::default();
        asks.hear(News::Asked { task: task.clone(), ask: approval(), shown: true, number: 1 });
        asks.hear(News::Asked {
            task: task.clone(),
            ask: Ask::Decision { number: QuestionId(1), prompt: "a".to_owned() },
            shown: true,
            number: 2,
        });
        asks.hear(News::Asked {
            task: task.clone(),
            ask: Ask::Decision { number: QuestionId(2), prompt: "b".to_owned() },
            shown: true,
            number: 2,
        });
        assert_eq!(asks.open.len(), 2);
        asks.hear(News::Settled(task.clone(), CallId(3)));
        asks.hear(News::Decided(task));
        assert!(asks.open.is_empty());
    }
}
