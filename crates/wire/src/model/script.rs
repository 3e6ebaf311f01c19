//! The scripted model: replies and faults written down in a file, played one a turn.
//!
//! ```toml
//! [[reply]]                                   # `[[replies]]` is the same
//! thinking = "I should look first."
//! text = "Let me look."
//! tool_calls = [{ tool = "shell", input = { command = "ls" } }]    # and `id`, else one is made
//! usage = { input = 100, output = 20 }        # and thinking, cache_read, cache_write, cache_write_long
//!
//! [[reply]]
//! match = "add up"                            # used only if the model is told this
//! text = "They add up."
//! stop = "end_turn"                           # tool_use, max_tokens, stop_sequence, refusal, pause
//! delay = "200ms"                             # before anything is sent
//! repeat = 3                                  # three times altogether; true: as often as it is asked for
//!
//! [[reply]]
//! status = 429                                # an HTTP error
//! retry_after = "7s"
//! body = "{}"                                 # else one as the dialect writes it
//!
//! [[reply]]
//! error = "context_overflow"                  # an HTTP error by its meaning; see [`FAILURES`]
//!
//! [[reply]]
//! text = "never seen whole"
//! cut_after_bytes = 120                       # the connection ends there
//!
//! [[reply]]
//! text = "late"
//! stall = "10s"                               # silence after the first piece; at the cut, if there is one
//!
//! [[reply]]
//! text = "drop by drop"
//! drip = "50ms"                               # silence before every piece
//!
//! [[reply]]
//! hang_up = true                              # the connection ends before anything is sent
//!
//! [end]                                       # after the last reply
//! then = "error"                              # or "repeat": the last reply for ever
//! message = "nothing more to say"
//!
//! [aside]                                     # the answer to every request that offers no tools
//! text = "ok"                                 # and usage
//! ```
//!
//! Each turn takes the first reply that is not used up and whose `match`, if it has one, is contained in what
//! was said since the model last spoke (people's text and tools' results). A reply whose `match` does not fit
//! stays for later. Without `stop` a reply ends for its tool calls, or its turn. Programs that ask their model small
//! things beside the conversation, such as for a title, do so without tools: `[aside]` keeps these questions from
//! taking a turn.
//!
//! [`Player`] gives turns to an embedded provider; [`render`] makes the bytes of a server of them. Nothing here
//! waits: delays and silences are data.

mod file;
mod render;
mod serve;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use machine::file::SourceError;
use machine::message::{Block, Message, Part, Reply, Role, StopReason, Usage};
use machine::time::Span;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::assemble::Assembler;
use super::error::kind_of_status;
use super::{Answer, ErrorKind, ModelError, StreamEvent};

pub use render::{Delivery, Ending, FAILURES, Mode, Rendered, deliver, render, render_failure};
pub use serve::{Asked, Route, Served, heard, read, route};

/// The name of the model, and of the dialect of the embedded provider.
pub const NAME: &str = "script";

/// A script.
#[derive(Debug, Clone, PartialEq)]
pub struct Script {
    /// The replies, in the order in which they are looked through.
    pub replies: Vec<Scripted>,
    /// What comes after them.
    pub end: End,
    /// What is answered to requests that offer no tools; without it they take a reply like any other.
    pub aside: Option<Says>,
}

/// One reply of a script, as written.
#[derive(Debug, Clone, PartialEq)]
pub struct Scripted {
    /// What must have been said for it to be used.
    pub needs: Option<String>,
    /// How often it is used.
    pub repeat: Repeat,
    /// How long to wait before anything is sent.
    pub delay: Span,
    /// What is said.
    pub says: Says,
    /// What goes wrong.
    pub fault: Option<Fault>,
}

/// How often a reply is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repeat {
    /// So many times altogether.
    Times(u64),
    /// As often as it is asked for.
    Forever,
}

/// The content of a reply.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Says {
    /// Thinking, before the text.
    pub thinking: Option<String>,
    /// Text, before the calls.
    pub text: Option<String>,
    /// Tool calls.
    pub calls: Vec<Call>,
    /// Counters.
    pub usage: Usage,
    /// Why it stops; by the calls if absent.
    pub stop: Option<StopReason>,
}

/// A tool call of a script.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// Its id; made if absent.
    pub id: Option<String>,
    /// The tool.
    pub tool: String,
    /// Its parameters: an object.
    pub input: Value,
}

/// What goes wrong with a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// An HTTP error in place of a reply.
    Failure(Failure),
    /// The connection ends after so many bytes of the body, and after so long a silence.
    Cut {
        /// The bytes.
        after_bytes: u64,
        /// The silence.
        stall: Span,
    },
    /// A silence after the first piece of the body.
    Stall(Span),
    /// A silence before every piece of the body.
    Drip(Span),
    /// The connection ends in place of a reply.
    HangUp,
}

/// An HTTP error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The status.
    pub status: u16,
    /// What it means.
    pub kind: ErrorKind,
    /// What it says; the kind's usual words if absent.
    pub message: Option<String>,
    /// The body; as the dialect writes it if absent.
    pub body: Option<String>,
    /// How long it asks to wait.
    pub retry_after: Option<Span>,
}

/// What comes after the last reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// The last reply, for ever.
    RepeatLast,
    /// An error that says so; with these words if given.
    Fail(Option<String>),
}

impl Script {
    /// Reads a script. `file` is named in errors.
    pub fn parse(text: &str, file: &str) -> Result<Script, Vec<SourceError>> {
        file::parse(text, file)
    }
}

/// How far a script is played: all that a player has to remember.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Position {
    /// How many turns were given.
    pub turns: u64,
    /// How often each reply was used.
    pub used: Vec<u64>,
}

/// Plays a script. Two players of the same script at the same position give the same turn.
#[derive(Debug, Clone, PartialEq)]
pub struct Player {
    script: Script,
    position: Position,
}

/// What a scripted model does in one turn.
#[derive(Debug, Clone, PartialEq)]
pub struct Turn {
    /// Wait this long before anything is sent.
    pub delay: Span,
    /// Then do this.
    pub outcome: Outcome,
}

/// What becomes of a turn. Exhaustive on purpose.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// A whole reply.
    Reply(Reply),
    /// An HTTP error; also at the end of the script.
    Failure(Failure),
    /// A reply whose connection ends too early: send so many bytes, be silent so long, end.
    Cut {
        /// The reply of which a part is sent.
        reply: Reply,
        /// How much of it, in bytes of the body.
        after_bytes: u64,
        /// The silence before the end.
        stall: Span,
    },
    /// A whole reply with a silence after its first piece.
    Stall {
        /// The reply.
        reply: Reply,
        /// The silence.
        stall: Span,
    },
    /// A whole reply with a silence before every piece.
    Drip {
        /// The reply.
        reply: Reply,
        /// Each silence.
        pause: Span,
    },
    /// Nothing at all: the connection ends.
    HangUp,
}

impl Player {
    /// Plays from the beginning.
    pub fn new(script: Script) -> Player {
        Player::resume(script, Position::default())
    }

    /// Plays on from a position.
    pub fn resume(script: Script, mut position: Position) -> Player {
        position.used.resize(script.replies.len(), 0);
        Player { script, position }
    }

    /// How far it has played.
    pub fn position(&self) -> &Position {
        &self.position
    }

    /// The answer to a request that offers no tools, where the script has one. It takes no turn.
    pub fn aside(&self) -> Option<Turn> {
        let reply = self.script.aside.as_ref()?.reply(self.position.turns);
        Some(Turn { delay: Span::default(), outcome: Outcome::Reply(reply) })
    }

    /// The next turn. `last_user_text` is what was said since the model last spoke: see [`heard`].
    pub fn next(&mut self, last_user_text: &str) -> Turn {
        self.position.turns = self.position.turns.saturating_add(1);
        let fits = |reply: &Scripted| {
            reply.needs.as_ref().is_none_or(|needs| last_user_text.contains(needs.as_str()))
        };
        let is_left = |reply: &Scripted, used: u64| match reply.repeat {
            Repeat::Times(times) => used < times,
            Repeat::Forever => true,
        };
        let Position { turns, used } = &mut self.position;
        let replies = &self.script.replies;
        let found =
            (0..replies.len()).find(|at| is_left(&replies[*at], used[*at]) && fits(&replies[*at]));
        if let Some(at) = found {
            used[at] = used[at].saturating_add(1);
            return replies[at].turn(*turns);
        }
        let waits = (0..replies.len()).any(|at| is_left(&replies[at], used[at]));
        match (&self.script.end, replies.last()) {
            (End::RepeatLast, Some(last)) if fits(last) => last.turn(*turns),
            (End::Fail(Some(message)), _) if !waits => over(message.clone()),
            _ if waits => {
                over("no reply that is left in the script matches what was said".to_owned())
            }
            _ => over(format!("the script is over: nothing comes after reply {}", replies.len())),
        }
    }
}

/// A turn that says that the script has none. Not to be tried again: it would be the same.
fn over(message: String) -> Turn {
    let failure = Failure {
        status: 400,
        kind: ErrorKind::Client,
        message: Some(message),
        body: None,
        retry_after: None,
    };
    Turn { delay: Span::default(), outcome: Outcome::Failure(failure) }
}

impl Scripted {
    fn turn(&self, number: u64) -> Turn {
        let outcome = match &self.fault {
            None => Outcome::Reply(self.says.reply(number)),
            Some(Fault::Failure(failure)) => Outcome::Failure(failure.clone()),
            Some(Fault::Cut { after_bytes, stall }) => Outcome::Cut {
                reply: self.says.reply(number),
                after_bytes: *after_bytes,
                stall: *stall,
            },
            Some(Fault::Stall(stall)) => {
                Outcome::Stall { reply: self.says.reply(number), stall: *stall }
            }
            Some(Fault::Drip(pause)) => {
                Outcome::Drip { reply: self.says.reply(number), pause: *pause }
            }
            Some(Fault::HangUp) => Outcome::HangUp,
        };
        Turn { delay: self.delay, outcome }
    }
}

impl Says {
    /// The reply of the turn with this number, counted from 1.
    fn reply(&self, number: u64) -> Reply {
        let thinking = self.thinking.clone().map(|text| Part::Thinking { text });
        let text = self.text.clone().map(|text| Part::Text { text });
        let calls = self.calls.iter().enumerate().map(|(at, call)| Part::ToolUse {
            // Nine letters and digits: the form that the strictest of the dialects asks for.
            id: call
                .id
                .clone()
                .unwrap_or_else(|| format!("c{:05}{:03}", number % 100_000, at % 1000)),
            name: call.tool.clone(),
            input: call.input.clone(),
        });
        let parts = thinking.into_iter().chain(text).chain(calls);
        let blocks = parts.map(|part| Block { part, native: None }).collect();
        let by_calls =
            if self.calls.is_empty() { StopReason::EndTurn } else { StopReason::ToolUse };
        Reply {
            id: format!("{NAME}-{number}"),
            model: NAME.to_owned(),
            message: Message { role: Role::Assistant, blocks },
            stop: self.stop.unwrap_or(by_calls),
            usage: self.usage,
        }
    }
}

impl Turn {
    /// What an embedded provider makes of it: the events to show, and what they come to under the same policy
    /// as the bytes of a real provider. Delay and silence are for the caller to wait out, or to time out.
    pub fn play(&self) -> (Vec<StreamEvent>, Answer) {
        let (reply, is_whole) = match &self.outcome {
            Outcome::Reply(reply) | Outcome::Stall { reply, .. } | Outcome::Drip { reply, .. } => {
                (reply, true)
            }
            Outcome::Cut { reply, .. } => (reply, false),
            Outcome::HangUp => {
                let message = "the connection ended before an answer began";
                return (Vec::new(), Err(ModelError::new(ErrorKind::Transport, message)));
            }
            Outcome::Failure(failure) => return (Vec::new(), Err(failure.error())),
        };
        let mut events = events(reply);
        if !is_whole {
            events.truncate(events.len() / 2);
        }
        let mut assembler = Assembler::new(NAME, u64::MAX);
        match assembler.take(&mut events, 0) {
            Ok(()) => (events, assembler.finish()),
            Err(error) => (events, Err(error)),
        }
    }

    /// After how many of its events it is silent: after the first piece, or at the cut.
    pub fn stalls_after(&self, events: &[StreamEvent]) -> usize {
        let is_piece = |event: &StreamEvent| {
            !matches!(event, StreamEvent::MessageStart { .. } | StreamEvent::ToolUseStart { .. })
        };
        match &self.outcome {
            Outcome::Cut { .. } => events.len(),
            Outcome::Reply(_)
            | Outcome::Stall { .. }
            | Outcome::Drip { .. }
            | Outcome::HangUp
            | Outcome::Failure(_) => events.iter().position(is_piece).map_or(0, |at| at + 1),
        }
    }

    /// How long it is silent once it has begun.
    pub fn stall(&self) -> Span {
        match &self.outcome {
            Outcome::Cut { stall, .. } | Outcome::Stall { stall, .. } => *stall,
            // An embedded provider has no pieces; one pause stands for all.
            Outcome::Drip { pause, .. } => *pause,
            Outcome::Reply(_) | Outcome::Failure(_) | Outcome::HangUp => Span::default(),
        }
    }
}

impl Failure {
    /// An HTTP error with nothing but its status.
    pub fn of_status(status: u16) -> Failure {
        let kind = kind_of_status(status);
        Failure { status, kind, message: None, body: None, retry_after: None }
    }

    /// What it says.
    pub fn message(&self) -> String {
        match (&self.message, &self.body) {
            (Some(message), _) => message.clone(),
            (None, Some(body)) => body.clone(),
            (None, None) => format!("status {} by the script", self.status),
        }
    }

    /// The error of an embedded provider.
    pub fn error(&self) -> ModelError {
        let wait = self.retry_after.map(|span| span.0);
        let mut error = ModelError::new(self.kind, self.message()).wait(wait);
        error.status = Some(self.status);
        error
    }
}

/// A reply as events, its texts in pieces.
fn events(reply: &Reply) -> Vec<StreamEvent> {
    let mut events =
        vec![StreamEvent::MessageStart { id: reply.id.clone(), model: reply.model.clone() }];
    for (index, block) in reply.message.blocks.iter().enumerate() {
        match &block.part {
            Part::Text { text } => {
                events.extend(
                    render::pieces(text).map(|text| StreamEvent::TextDelta { index, text }),
                );
            }
            Part::Thinking { text } => {
                events.extend(
                    render::pieces(text).map(|text| StreamEvent::ThinkingDelta { index, text }),
                );
            }
            Part::ToolUse { id, name, input } => {
                let id: Arc<str> = id.as_str().into();
                let start =
                    StreamEvent::ToolUseStart { index, id: Arc::clone(&id), name: name.clone() };
                events.push(start);
                let pieces = render::pieces(&input.to_string())
                    .map(|json| StreamEvent::InputJsonDelta { index, id: Arc::clone(&id), json })
                    .collect::<Vec<_>>();
                events.extend(pieces);
                events.push(StreamEvent::ToolUseStop { index, id });
            }
            Part::ToolResult { .. } | Part::Media { .. } | Part::Opaque => {}
        }
    }
    events.push(StreamEvent::MessageDelta { usage: reply.usage, stop: Some(reply.stop) });
    events.push(StreamEvent::MessageStop);
    events
}
