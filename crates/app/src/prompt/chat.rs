//! The person's side of a chat: a prompt that stays open while the model works. What is entered then steers it,
//! Ctrl-C stops it, and lines that begin with a slash are commands to us.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use journal::Journal;
use machine::Command;
use machine::driver::llm;
use machine::id::TaskId;
use machine::state::Ask;
use runtime::inbox::Inbox;
use view::{Line, Tone, approvals, spend};

use super::answer::{self, Unclear, answer, question};
use super::reader::{Reader, Source, Typed, Wanted};
use super::{Asks, News, Open, give, give_with_rule};
use crate::commands::hand_over::{self, Keys};
use crate::error::CommandError;
use crate::locate::Records;
use crate::screen::Screen;

/// The prompt.
const PROMPT: &str = "> ";

/// A second Ctrl-C within this time leaves.
const TWICE: Duration = Duration::from_secs(2);

/// How long news that must come may take.
const MOMENT: Duration = Duration::from_secs(5);

/// What a call is refused for whose approval was asked where only messages come.
const UNANSWERED: &str = "the operator said something else instead of approving it";

/// The commands, for completion.
const COMMANDS: [&str; 6] = ["/compact", "/cost", "/done", "/help", "/model ", "/quit"];

const HELP: [&str; 7] = [
    "/done                  end the chat: what was said last is the claim, and the checks decide",
    "/model PROVIDER/NAME   go on with another model; it knows all that was said",
    "/compact [WHAT]        go on from a summary; WHAT is kept above all",
    "/cost                  what was spent so far",
    "/quit                  leave; the chat stays and can be resumed (also Ctrl-D)",
    "/help                  this list",
    "//…                    say something that begins with a slash",
];

/// Where a chat's lines come from.
pub(crate) fn source(at_terminal: bool, home: &Path) -> Source {
    if at_terminal { Source::Terminal(home.join("chat-history"), &COMMANDS) } else { Source::Lines }
}

/// What the prompt shares with those who show what happens.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shared {
    /// The line that is just being given to the task: the screen has it already.
    saying: Arc<Mutex<Option<String>>>,
    /// Whether the chat is being left: from then on a signal means to hurry.
    pub(crate) leaving: Arc<AtomicBool>,
}

impl Shared {
    /// Whether the person at this prompt has just said that.
    pub(crate) fn said_here(&self, text: &str) -> bool {
        let mut saying = self.saying.lock().unwrap_or_else(PoisonError::into_inner);
        saying.take_if(|saying| saying == text).is_some()
    }

    fn say(&self, text: &str) {
        *self.saying.lock().unwrap_or_else(PoisonError::into_inner) = Some(text.to_owned());
    }
}

/// What a line is meant to be.
#[derive(Debug, PartialEq, Eq)]
enum Meant {
    Nothing,
    /// Words for the model, or an answer to what is asked.
    Words(String),
    Done,
    Model(String),
    /// The conversation shall be shorter: the line for the driver.
    Compact(String),
    Cost,
    Help,
    Quit,
    /// A command that there is not, or that is not complete.
    Unknown(String),
}

fn meant(line: &str) -> Meant {
    let line = line.trim();
    if line.is_empty() {
        return Meant::Nothing;
    }
    if let Some(literal) = line.strip_prefix("//") {
        return Meant::Words(format!("/{literal}"));
    }
    if !line.starts_with('/') {
        return Meant::Words(line.to_owned());
    }
    let (command, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    match (command, rest.trim()) {
        (llm::DONE, "") => Meant::Done,
        (llm::COMPACT, _) => Meant::Compact(line.to_owned()),
        ("/cost", "") => Meant::Cost,
        ("/help", "") => Meant::Help,
        ("/quit", "") => Meant::Quit,
        ("/model", "") => Meant::Unknown("/model needs a model: /model PROVIDER/NAME".to_owned()),
        ("/model", model) => Meant::Model(model.to_owned()),
        (llm::DONE | "/cost" | "/help" | "/quit", _) => {
            Meant::Unknown(format!("{command} stands alone; nothing was sent"))
        }
        _ => Meant::Unknown(format!(
            "there is no command {}; nothing was sent. There are /done, /model, /compact, /cost, /quit and /help; // sends a slash",
            view::text::short(command, 40)
        )),
    }
}

/// Asks for the first line of a chat that has no task yet. Nothing if there is none.
pub(crate) fn first_line(source: Source, json: bool) -> Option<String> {
    let screen = if json { Screen::Aside } else { Screen::Plain };
    let mut reader = Reader::open(source, Default::default());
    let mut leaving = Leaving::default();
    loop {
        let line = match reader.read(PROMPT, "", Wanted::Words, &screen) {
            Typed::Line(line) => line,
            Typed::Interrupt if leaving.again() => return None,
            Typed::Interrupt => {
                screen.lines(vec![leave_hint()]);
                continue;
            }
            Typed::End => return None,
        };
        let said = match meant(&line) {
            Meant::Words(words) => return Some(words),
            Meant::Nothing => continue,
            Meant::Quit => return None,
            Meant::Help => help(),
            Meant::Unknown(why) => vec![Line::new(Tone::Bad, why)],
            Meant::Done | Meant::Model(_) | Meant::Compact(_) | Meant::Cost => {
                vec![Line::new(Tone::Bad, "nothing was said yet: the first line begins the chat")]
            }
        };
        screen.lines(said);
    }
}

/// Brings what the person says to the task until the chat is left or the input is over.
pub(crate) fn attend(
    task: &TaskId,
    mut reader: Reader,
    news: &Receiver<News>,
    inbox: &Inbox,
    screen: &Screen,
    shared: &Shared,
) {
    let mut chat = Chat {
        task,
        inbox,
        screen,
        shared,
        asks: Asks::default(),
        draft: String::new(),
        leaving: Leaving::default(),
    };
    while chat.round(&mut reader, news).is_some() {}
    chat.asks.hear_all(news);
    if let Err(TryRecvError::Disconnected) = news.try_recv() {
        // The task has ended, or the process is ending: there is nothing left to leave.
        return;
    }
    shared.leaving.store(true, Ordering::Relaxed);
    if chat.asks.is_empty() {
        chat.tell(Tone::Ask, "letting the running step end; Ctrl-C stops it now");
    }
    inbox.stop();
}

struct Chat<'a> {
    task: &'a TaskId,
    inbox: &'a Inbox,
    screen: &'a Screen,
    shared: &'a Shared,
    asks: Asks,
    /// What was typed when a question came in between.
    draft: String,
    leaving: Leaving,
}

impl Chat<'_> {
    /// Reads a line and acts on it; nothing if the chat is to be left.
    fn round(&mut self, reader: &mut Reader, news: &Receiver<News>) -> Option<()> {
        let attended = reader.is_terminal();
        // At a terminal one can always speak; elsewhere a line waits until the model does.
        let open = if attended {
            self.asks.hear_all(news);
            self.asks.first()
        } else {
            self.asks.wait(news)?;
            self.asks.first()
        };
        let asked = open.filter(|open| !matches!(open.ask, Ask::Decision { .. }));
        self.show_unshown();
        let (prompt, draft, wanted) = match &asked {
            Some(open) => (question(&open.ask), String::new(), Wanted::Answer),
            None => (PROMPT.to_owned(), std::mem::take(&mut self.draft), Wanted::Words),
        };
        let typed = reader.read(&prompt, &draft, wanted, self.screen);
        self.catch_up(news);
        match typed {
            Typed::End => None,
            Typed::Interrupt => self.interrupt(),
            Typed::Line(line) => {
                // A question that came while this was being typed is not answered by it.
                let open = self.asks.first();
                let blind = open.filter(|open| {
                    !matches!(open.ask, Ask::Decision { .. }) && open.number > reader.begun_after()
                });
                match (blind, meant(&line)) {
                    (Some(_), Meant::Words(_)) => {
                        self.tell(
                            Tone::Ask,
                            "a question came while you typed: answer it first; your line is kept",
                        );
                        self.draft = line;
                        Some(())
                    }
                    (_, meant) => self.act(meant, attended, news),
                }
            }
        }
    }

    /// Hears everything that the person may have seen by now. What the screen shows comes a moment before the news
    /// that it is their turn; whether it is stands in the journal before either.
    fn catch_up(&mut self, news: &Receiver<News>) {
        self.asks.hear_all(news);
        if self.asks.is_empty() && self.is_asked() {
            self.asks.wait_for(news, MOMENT);
        }
    }

    fn is_asked(&self) -> bool {
        let task = Records::open().and_then(|records| {
            let row = records.journal.task(self.task.as_str())?;
            records.glance(&row)
        });
        task.is_ok_and(|task| !task.state.asks().is_empty())
    }

    /// What is asked since before the prompt was there.
    fn show_unshown(&mut self) {
        for ask in self.asks.take_unshown() {
            let is_turn = matches!(&ask, Ask::Decision { prompt, .. } if prompt == llm::YOUR_TURN);
            if !is_turn {
                self.screen.lines(approvals::lines(&ask));
            }
        }
    }

    fn act(&mut self, meant: Meant, attended: bool, news: &Receiver<News>) -> Option<()> {
        match meant {
            Meant::Nothing => {}
            Meant::Quit => return None,
            Meant::Help => self.screen.lines(help()),
            Meant::Unknown(why) => self.tell(Tone::Bad, why),
            Meant::Cost => match self.cost() {
                Ok(line) => self.tell(Tone::Plain, line),
                Err(error) => self.tell(Tone::Bad, error.text()),
            },
            Meant::Model(model) => match self.hand_over(&model) {
                Ok(command) => {
                    self.give(command);
                }
                Err(error) => self.tell(Tone::Bad, error.text()),
            },
            Meant::Done => return self.done(news),
            Meant::Compact(line) => match self.asks.first().map(|open| open.ask) {
                Some(ask @ Ask::Decision { .. }) => self.tell_next(line, &ask),
                Some(_) => self.tell(Tone::Bad, "something is asked: answer it first"),
                None => self.tell(Tone::Bad, "it still works: say /compact when it waits"),
            },
            Meant::Words(words) => return self.say(words, attended),
        }
        Some(())
    }

    /// Says something: an answer to what is asked, the next line, or a word in between.
    fn say(&mut self, words: String, attended: bool) -> Option<()> {
        let Some(Open { ask, .. }) = self.asks.first() else {
            self.shared.say(&words);
            self.give(Command::Steer { text: words });
            return Some(());
        };
        match answer(&ask, &words) {
            // What only looks like a command is said.
            Ok(Command::Tell { line, .. }) if llm::is_command(&line) => {
                self.tell_next(format!("/{}", line.trim()), &ask);
            }
            Ok(Command::Tell { line, .. }) => self.tell_next(line, &ask),
            Err(Unclear::Stop) => self.tell_next(words, &ask),
            Ok(command) => {
                if self.give(command) {
                    self.asks.drop(self.task, &ask);
                }
            }
            Err(Unclear::Nothing) => {}
            Err(Unclear::ShowAll) if attended => {
                self.screen.lines(approvals::shown(&ask, approvals::Amount::Whole));
            }
            Err(Unclear::Help) if attended => self.screen.lines(answer::help()),
            Err(Unclear::Expected(what)) if attended => {
                self.tell(Tone::Bad, format!("expected {what}"));
            }
            // Lines that nobody sees being asked for are messages: none is lost, and nothing is approved by one.
            Err(Unclear::Expected(_) | Unclear::ShowAll | Unclear::Help) => match ask {
                Ask::Approval { .. } => {
                    // The words first: with them nothing begins that was wished for before. A refusal alone would let the next
                    // call of the same answer begin.
                    self.shared.say(&words);
                    self.give(Command::Steer { text: words });
                    while let Some(Open { ask, .. }) = self.asks.first() {
                        let Ask::Approval { call, .. } = &ask else { break };
                        // Nobody looked at the call, so nothing is to be learned from this.
                        self.give(Command::deny(*call, UNANSWERED));
                        self.asks.drop(self.task, &ask);
                    }
                }
                Ask::Question { call, .. } => {
                    self.give(Command::Answer { call, text: words });
                }
                Ask::InDoubt { .. }
                | Ask::Escalation { .. }
                | Ask::Decision { .. }
                | Ask::Child { .. } => {
                    return None;
                }
            },
        }
        Some(())
    }

    /// The next line; if somebody else was faster, a word in between. What is refused either way leaves what is asked
    /// open: the next line answers it.
    fn tell_next(&mut self, line: String, ask: &Ask) {
        let question = match ask {
            Ask::Decision { number, .. } | Ask::Escalation { number, .. } => Some(*number),
            Ask::Approval { .. }
            | Ask::Question { .. }
            | Ask::InDoubt { .. }
            | Ask::Child { .. } => None,
        };
        let told = give(self.inbox, self.task, Command::Tell { line: line.clone(), question });
        let said = line.strip_prefix('/').filter(|said| llm::is_command(said));
        let is_over = match told {
            Ok(()) => true,
            Err(reason) if reason.is_empty() => true,
            Err(_) => self.give(Command::Steer { text: said.unwrap_or(&line).to_owned() }),
        };
        if is_over {
            self.asks.drop(self.task, ask);
        }
    }

    /// Ends the chat: the checks decide, and if they fail it goes on.
    fn done(&mut self, news: &Receiver<News>) -> Option<()> {
        match self.asks.first().map(|open| open.ask) {
            Some(Ask::Decision { .. }) => {}
            Some(_) => {
                self.tell(Tone::Bad, "something is asked: answer it first");
                return Some(());
            }
            None => {
                self.tell(Tone::Bad, "it still works: say /done when it waits; Ctrl-C stops it");
                return Some(());
            }
        }
        self.give(Command::tell(llm::DONE));
        // Until the verdict is there nothing is to be said; Ctrl-C is a signal then, and stops the check.
        self.asks.hear_all(news);
        self.asks.wait(news)
    }

    /// Ctrl-C: stops what runs; where nothing does, a second one leaves.
    fn interrupt(&mut self) -> Option<()> {
        let waits = self.asks.first().is_some_and(|open| matches!(open.ask, Ask::Decision { .. }));
        if !waits {
            self.give(Command::Interrupt { note: String::new() });
            return Some(());
        }
        if self.leaving.again() {
            return None;
        }
        self.screen.lines(vec![leave_hint()]);
        Some(())
    }

    fn hand_over(&self, model: &str) -> Result<Command, CommandError> {
        let records = Records::open()?;
        let task = records.load(self.task)?;
        Ok(Command::HandOver(hand_over::to_model(&records.home, &task, model, Keys::Needed)?))
    }

    fn cost(&self) -> Result<String, CommandError> {
        let task = Records::open()?.load(self.task)?;
        let data = task.state.data();
        Ok(format!("spent {}", spend::line(&data.spend, &data.budget)))
    }

    /// Gives a command; false if it was refused and what is asked is still open.
    fn give(&self, command: Command) -> bool {
        match give_with_rule(self.inbox, self.task, command) {
            Ok(shown) => self.screen.lines(shown),
            // The task has ended or the process is stopping: the screen says so.
            Err(reason) if reason.is_empty() => {}
            Err(reason) => {
                self.tell(Tone::Bad, format!("refused: {reason}"));
                // A call that somebody else settled is not asked about again.
                return reason.contains("does not") || reason.contains("no call");
            }
        }
        true
    }

    fn tell(&self, tone: Tone, text: impl AsRef<str>) {
        let lines = view::text::lines(text.as_ref());
        self.screen.lines(lines.into_iter().map(|line| Line::new(tone, line)).collect());
    }
}

/// Remembers the last Ctrl-C that found nothing to stop.
#[derive(Default)]
struct Leaving(Option<Instant>);

impl Leaving {
    /// Whether this is the second one.
    fn again(&mut self) -> bool {
        let last = self.0.replace(Instant::now());
        last.is_some_and(|last| last.elapsed() < TWICE)
    }
}

fn leave_hint() -> Line {
    Line::new(Tone::Faint, "Ctrl-C again, or Ctrl-D, leaves the chat")
}

fn help() -> Vec<Line> {
    HELP.iter().map(|line| Line::plain(*line)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slash_begins_a_command_and_two_begin_a_slash() {
        assert_eq!(meant(" /done "), Meant::Done);
        assert_eq!(meant("/model  a/b/c"), Meant::Model("a/b/c".to_owned()));
        assert_eq!(meant("/compact the names"), Meant::Compact("/compact the names".to_owned()));
        assert_eq!(meant("//etc/passwd is odd"), Meant::Words("/etc/passwd is odd".to_owned()));
        assert_eq!(meant("a /done"), Meant::Words("a /done".to_owned()));
        assert_eq!(meant(" \t"), Meant::Nothing);
        for wrong in ["/dnoe", "/model", "/done now", "/", "/etc/passwd"] {
            assert!(matches!(meant(wrong), Meant::Unknown(_)), "{wrong}");
        }
    }
}
