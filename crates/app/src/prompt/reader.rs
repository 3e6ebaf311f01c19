//! Where lines come from: a terminal with editing and a history, or whatever standard input is.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::io::{BufRead, ErrorKind, IsTerminal};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use machine::id::{CallId, TaskId};
use rustix::termios::{QueueSelector, tcflush};
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::Validator;
use rustyline::{Context, Editor, Helper};
use view::{Line, Tone};

use super::typing::Typing;
use crate::screen::Screen;

/// Lines that are kept in the history file.
const HISTORY: usize = 1000;

/// Where lines come from.
pub(crate) enum Source {
    /// A terminal, with editing, this history file and these words to complete.
    Terminal(PathBuf, &'static [&'static str]),
    /// Whatever standard input is.
    Lines,
}

/// What is wanted of a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// Their own next words: they may be typed ahead, and are kept in the history.
    Words,
    /// An answer to the question that is shown: what was typed before it was there is none.
    Answer,
}

/// What a person did at the prompt.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Typed {
    /// Entered a line.
    Line(String),
    /// Pressed Ctrl-C.
    Interrupt,
    /// Pressed Ctrl-D, or the input is over, or the terminal is gone.
    End,
}

/// What the screen has of questions. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shown {
    count: Arc<AtomicU64>,
    /// The call that the prompt asks about, and whether it was settled elsewhere.
    asked: Arc<Mutex<Option<(TaskId, CallId, bool)>>>,
}

impl Shown {
    /// One more was shown; its number.
    pub(crate) fn next(&self) -> u64 {
        self.count.fetch_add(1, Ordering::SeqCst) + 1
    }

    fn last(&self) -> u64 {
        self.count.load(Ordering::SeqCst)
    }

    /// A call needs no answer any more: a prompt that asks about it says so when it is drawn again.
    pub(crate) fn settle(&self, task: &TaskId, call: CallId) {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, about, settled)) = asked.as_mut()
            && (&*of, *about) == (task, call)
        {
            *settled = true;
        }
    }

    fn ask(&self, about: Option<(TaskId, CallId)>) {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        *asked = about.map(|(task, call)| (task, call, false));
    }

    fn settled(&self) -> Option<CallId> {
        let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        asked.as_ref().and_then(|(_, call, settled)| settled.then_some(*call))
    }
}

/// Reads lines.
pub(crate) enum Reader {
    /// At a terminal.
    Terminal(Box<Terminal>),
    /// From standard input.
    Input,
}

impl Reader {
    /// Opens the source. A terminal that cannot be edited at is read like any other input.
    pub(crate) fn open(source: Source, shown: Shown) -> Reader {
        let terminal = match source {
            Source::Terminal(history, words) => Terminal::open(history, words, shown),
            Source::Lines => None,
        };
        terminal.map_or(Reader::Input, |terminal| Reader::Terminal(Box::new(terminal)))
    }

    /// Whether somebody types at a terminal.
    pub(crate) fn is_terminal(&self) -> bool {
        matches!(self, Reader::Terminal(_))
    }

    /// One line; on a terminal with `draft` typed already.
    pub(crate) fn read(
        &mut self,
        question: &str,
        draft: &str,
        wanted: Wanted,
        screen: &Screen,
    ) -> Typed {
        match self {
            Reader::Terminal(terminal) => terminal.read(question, draft, wanted, screen),
            Reader::Input => {
                if wanted == Wanted::Answer {
                    forget_typed();
                }
                let mut line = Vec::new();
                match std::io::stdin().lock().read_until(b'\n', &mut line) {
                    Ok(1..) => Typed::Line(as_text(&line, screen)),
                    Ok(0) | Err(_) => Typed::End,
                }
            }
        }
    }

    /// Says which call the next line is about, if it is about one.
    pub(crate) fn asks(&self, about: Option<(TaskId, CallId)>) {
        if let Reader::Terminal(terminal) = self
            && let Some(words) = terminal.editor.helper()
        {
            words.shown.ask(about);
        }
    }

    /// The last question that was on the screen when the line that was read last was begun; all of them where
    /// nobody looks at a screen.
    pub(crate) fn begun_after(&self) -> u64 {
        match self {
            Reader::Terminal(terminal) => {
                terminal.editor.helper().and_then(|words| words.begun.get()).unwrap_or(u64::MAX)
            }
            Reader::Input => u64::MAX,
        }
    }
}

/// A terminal.
pub(crate) struct Terminal {
    editor: Editor<Words, FileHistory>,
    history: PathBuf,
}

impl Terminal {
    fn open(history: PathBuf, words: &'static [&'static str], shown: Shown) -> Option<Terminal> {
        let config = rustyline::Config::builder()
            .max_history_size(HISTORY)
            .ok()?
            .history_ignore_space(true)
            .build();
        let mut editor = Editor::<Words, FileHistory>::with_config(config).ok()?;
        editor.set_helper(Some(Words {
            words,
            shown,
            begun: Cell::new(None),
            line: RefCell::default(),
        }));
        // A first run has no history yet.
        let _ = editor.load_history(&history);
        Some(Terminal { editor, history })
    }

    fn read(&mut self, question: &str, draft: &str, wanted: Wanted, screen: &Screen) -> Typed {
        if let Some(words) = self.editor.helper() {
            words.begun.set(None);
        }
        let mut draft = draft.to_owned();
        let line = loop {
            match self.line(question, &draft, wanted, screen) {
                Ok(line) => break line,
                Err(ReadlineError::Interrupted) => return Typed::Interrupt,
                Err(ReadlineError::Io(error)) if error.kind() == ErrorKind::InvalidData => {
                    let told = "that key is no UTF-8; what was typed before it is still there";
                    screen.lines(vec![Line::new(Tone::Bad, told)]);
                    draft = self.editor.helper().map(|words| words.line.take()).unwrap_or_default();
                }
                Err(_) => return Typed::End,
            }
        };
        if wanted == Wanted::Words && self.editor.add_history_entry(&line).is_ok() {
            // A history that cannot be kept is no reason to stop.
            let _ = self.editor.append_history(&self.history);
        }
        Typed::Line(line)
    }

    fn line(
        &mut self,
        question: &str,
        draft: &str,
        wanted: Wanted,
        screen: &Screen,
    ) -> rustyline::Result<String> {
        let printer = self.editor.create_external_printer().ok();
        // On a terminal that can do no more than show lines nobody edits.
        let edits = printer.is_some();
        screen.prompt_begins(printer.map(|printer| Box::new(printer) as crate::screen::Printer));
        if let Some(words) = self.editor.helper() {
            draft.clone_into(&mut words.line.borrow_mut());
        }
        let typing = edits.then(|| Typing::begin(screen));
        // By now the screen has shown what is asked.
        if wanted == Wanted::Answer {
            forget_typed();
        }
        let line = self.editor.readline_with_initial(question, (draft, ""));
        drop(typing);
        // No character is wider than its bytes are many, or than two columns.
        let typed = self.editor.helper().map_or(0, |words| words.line.borrow().len());
        screen.prompt_ends(question.len() + 2 * typed);
        line
    }
}

/// A line as text. What is none is shown for what it is, and neither ends the input nor takes the line away.
fn as_text(line: &[u8], screen: &Screen) -> String {
    let text = String::from_utf8_lossy(line);
    if let Cow::Owned(_) = text {
        let told = "what was no UTF-8 in that line stands as \u{fffd}";
        screen.lines(vec![Line::new(Tone::Bad, told)]);
    }
    text.into_owned()
}

/// Drops what was typed at the terminal and not read yet: it was typed before a question was there, and must not answer it.
/// The editor itself keeps nothing from one line to the next.
pub(crate) fn forget_typed() {
    // What is no terminal holds lines that somebody wrote down for it.
    if std::io::stdin().is_terminal() {
        let _ = tcflush(std::io::stdin(), QueueSelector::IFlush);
    }
}

/// Completes the first word of a line, and knows what was on the screen when it was begun.
struct Words {
    words: &'static [&'static str],
    shown: Shown,
    begun: Cell<Option<u64>>,
    /// The line as far as it was typed.
    line: RefCell<String>,
}

impl Completer for Words {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        at: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        let typed = line.get(..at).unwrap_or_default();
        let fitting =
            self.words.iter().filter(|word| word.starts_with(typed)).map(|word| (*word).to_owned());
        Ok((0, fitting.collect()))
    }
}

impl Hinter for Words {
    type Hint = String;

    /// Gives no hint: it is called whenever the line has changed, which is all that is wanted here.
    fn hint(&self, line: &str, _: usize, _: &Context<'_>) -> Option<String> {
        line.clone_into(&mut self.line.borrow_mut());
        match (line.is_empty(), self.begun.get()) {
            (true, _) => self.begun.set(None),
            (false, None) => self.begun.set(Some(self.shown.last())),
            (false, Some(_)) => {}
        }
        None
    }
}

impl Highlighter for Words {
    /// A question that was settled elsewhere is taken off the screen, in a text of the same width: what is typed stands
    /// where it stood.
    fn highlight_prompt<'b, 's: 'b, 'p: 'b>(&'s self, prompt: &'p str, _: bool) -> Cow<'b, str> {
        match self.shown.settled() {
            Some(call) => {
                let width = prompt.chars().count();
                let text = format!("{call} is settled: Enter");
                Cow::Owned(format!("{text:width$.width$}"))
            }
            None => Cow::Borrowed(prompt),
        }
    }
}
impl Validator for Words {}
impl Helper for Words {}
