//! Puts to the person what the task asks, and brings the answers to the inbox. Runs on a thread of its own:
//! the supervisor never waits for a line.

pub(crate) mod chat;
pub(crate) mod reader;

use std::collections::VecDeque;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, sync_channel};
use std::time::{Duration, Instant};

use machine::Command;
use machine::id::{CallId, TaskId};
use machine::input::Resolution;
use machine::state::Ask;
use runtime::inbox::{Inbox, Refusal};
use view::{Line, Tone, approvals};

use crate::screen::Screen;
use reader::{Reader, Source, Typed};

/// First words of the driver `user`, for completion.
const WORDS: [&str; 13] = [
    "ask ", "done", "edit ", "give up", "glob ", "grep ", "help", "patch ", "quit", "read ",
    "say ", "shell ", "write ",
];

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
    while let Some((task, ask)) = asks.next(news, screen) {
        let keep = matches!(ask, Ask::Decision { .. });
        let Typed::Line(line) = lines.read(&question(&ask), "", keep, screen) else {
            // Ctrl-C, Ctrl-D and a terminal that is gone all mean that nobody answers.
            inbox.stop();
            return;
        };
        asks.hear_all(news);
        match answer(&ask, &line) {
            Ok(command) => match give(inbox, &task, command) {
                Ok(()) => asks.drop(&task, &ask),
                Err(reason) if reason.is_empty() => return,
                Err(reason) => {
                    screen.lines(vec![Line::new(
                        Tone::Bad,
                        format!("refused: {}", view::text::visible(&reason)),
                    )]);
                    // A call that somebody else settled is not asked about again.
                    if !matches!(ask, Ask::Question { .. })
                        || reason.contains("does not")
                        || reason.contains("no call")
                    {
                        asks.drop(&task, &ask);
                    }
                }
            },
            Err(Unclear::Nothing) => {}
            Err(Unclear::Stop) => {
                inbox.stop();
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

    fn drop(&mut self, task: &TaskId, ask: &Ask) {
        self.open.retain(|open| open.task != *task || open.ask != *ask);
    }
}

fn call_of(ask: &Ask) -> Option<CallId> {
    match ask {
        Ask::Approval { call, .. } | Ask::Question { call, .. } | Ask::InDoubt { call, .. } => {
            Some(*call)
        }
        Ask::Decision { .. } => None,
    }
}

fn question(ask: &Ask) -> String {
    match ask {
        Ask::Approval { call, .. } => format!("run {call}? [y/n] "),
        Ask::Question { call, choices, .. } if choices.is_empty() => format!("{call} answer> "),
        Ask::Question { call, choices, .. } => format!("{call} answer [1-{}]> ", choices.len()),
        Ask::InDoubt { call, .. } => format!("{call} did it run? [did/did not/retry] "),
        Ask::Decision { .. } => "next> ".to_owned(),
    }
}

/// Why a line is no answer.
#[derive(Debug, PartialEq, Eq)]
enum Unclear {
    /// It is empty.
    Nothing,
    /// The person wants to leave.
    Stop,
    /// It is something else than this.
    Expected(String),
}

/// What a line means as the answer to a question.
fn answer(ask: &Ask, line: &str) -> Result<Command, Unclear> {
    let line = line.trim();
    let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    if line.is_empty() {
        return Err(Unclear::Nothing);
    }
    let lower = line.to_lowercase();
    match ask {
        Ask::Approval { call, .. } => match word.to_lowercase().as_str() {
            // More than that is not plainly a yes.
            "y" | "yes" if rest.trim().is_empty() => Ok(Command::Approve { call: *call }),
            "n" | "no" => Ok(Command::Deny { call: *call, reason: rest.trim().to_owned() }),
            _ => Err(Unclear::Expected("y, n, or n and a reason".to_owned())),
        },
        Ask::Question { call, choices, .. } if !choices.is_empty() => {
            let by_number =
                line.parse::<usize>().ok().and_then(|number| choices.get(number.checked_sub(1)?));
            let by_text = choices.iter().find(|choice| choice.to_lowercase() == lower);
            match by_text.or(by_number) {
                Some(choice) => Ok(Command::Answer { call: *call, text: choice.clone() }),
                None => Err(Unclear::Expected(format!(
                    "one of {}, or its number",
                    view::text::visible(&choices.join(", "))
                ))),
            }
        }
        Ask::Question { call, .. } => Ok(Command::Answer { call: *call, text: line.to_owned() }),
        Ask::InDoubt { call, .. } => {
            let how = match lower.as_str() {
                "did" | "d" | "yes" | "y" => Resolution::Did,
                "did not" | "did-not" | "didn't" | "no" | "n" => Resolution::DidNot,
                "retry" | "r" => Resolution::Retry,
                _ => return Err(Unclear::Expected("did, did not, or retry".to_owned())),
            };
            Ok(Command::Resolve { call: *call, how })
        }
        Ask::Decision { .. } if matches!(lower.as_str(), "quit" | "exit") => Err(Unclear::Stop),
        Ask::Decision { .. } => Ok(Command::Tell { line: line.to_owned() }),
    }
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
mod tests {
    use super::*;
    use std::sync::Arc;

    fn approval() -> Ask {
        Ask::Approval {
            call: CallId(3),
            tool: "shell".to_owned(),
            input: Arc::new(serde_json::json!({"command": "ls"})),
            reason: String::new(),
        }
    }

    fn check(ask: &Ask, line: &str, expected: &str) {
        let got = match answer(ask, line) {
            Ok(command) => serde_json::to_string(&command).unwrap(),
            Err(Unclear::Expected(what)) => format!("expected {what}"),
            Err(other) => format!("{other:?}"),
        };
        assert_eq!(got, expected, "{line}");
    }

    #[test]
    fn a_line_answers_the_question_it_was_typed_at() {
        check(&approval(), "Y", r#"{"approve":{"call":3}}"#);
        check(&approval(), "n use staging", r#"{"deny":{"call":3,"reason":"use staging"}}"#);
        check(&approval(), "yes but not here", "expected y, n, or n and a reason");
        check(&approval(), "maybe", "expected y, n, or n and a reason");
        check(&approval(), " ", "Nothing");
        let choices = vec!["red".to_owned(), "2".to_owned()];
        let question = Ask::Question { call: CallId(4), question: "which?".to_owned(), choices };
        check(&question, "1", r#"{"answer":{"call":4,"text":"red"}}"#);
        check(&question, "2", r#"{"answer":{"call":4,"text":"2"}}"#);
        check(&question, "blue", "expected one of red, 2, or its number");
        let doubt = Ask::InDoubt {
            call: CallId(5),
            tool: "shell".to_owned(),
            input: Arc::new(serde_json::Value::Null),
        };
        check(&doubt, "did not", r#"{"resolve":{"call":5,"how":"did_not"}}"#);
        let decision = Ask::Decision { prompt: String::new() };
        check(&decision, "shell ls", r#"{"tell":{"line":"shell ls"}}"#);
        check(&decision, "quit", "Stop");
    }

    #[test]
    fn a_question_that_somebody_else_settled_is_not_asked() {
        let task = TaskId("t".to_owned());
        let mut asks = Asks::default();
        asks.hear(News::Asked { task: task.clone(), ask: approval(), shown: true, number: 1 });
        asks.hear(News::Asked {
            task: task.clone(),
            ask: Ask::Decision { prompt: "a".to_owned() },
            shown: true,
            number: 2,
        });
        asks.hear(News::Asked {
            task: task.clone(),
            ask: Ask::Decision { prompt: "b".to_owned() },
            shown: true,
            number: 2,
        });
        assert_eq!(asks.open.len(), 2);
        asks.hear(News::Settled(task.clone(), CallId(3)));
        asks.hear(News::Decided(task));
        assert!(asks.open.is_empty());
    }
}
