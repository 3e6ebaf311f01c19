//! What the foreground shows: lines as they come, and on a terminal a line below them that says what runs and
//! for how long.
//!
//! On a terminal one thread owns the output, so that the supervisor never waits for it and the running line,
//! the prompt and the lines above them do not overwrite each other.

use std::io::Write;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::time::{Duration, Instant};

use rustyline::ExternalPrinter;
use view::Line;

use crate::output;

/// How often the running line is drawn again.
const TICK: Duration = Duration::from_millis(500);

/// How often a running line whose words change is drawn again.
const REFRESH: Duration = Duration::from_millis(100);

/// A step shorter than this is not worth a running line.
const SHORT: Duration = Duration::from_millis(150);

/// Prints above a prompt that is being typed at.
pub(crate) type Printer = Box<dyn ExternalPrinter + Send>;

/// Where lines go. Clones share the screen.
#[derive(Clone)]
pub(crate) enum Screen {
    /// Printed at once.
    Plain,
    /// Drawn by the thread at the other end.
    Live(Sender<Draw>),
}

/// What the drawing thread is told.
pub(crate) enum Draw {
    /// Lines to show.
    Lines(Vec<Line>),
    /// What runs; nothing if nothing does.
    Running(Option<String>),
    /// How far it is, in other words.
    Doing(String),
    /// A prompt takes over the last line; answered when the line is free.
    PromptBegins(Option<Printer>, SyncSender<()>),
    /// The prompt is gone.
    PromptEnds,
    /// Everything before this is shown, and the running line is gone.
    Flush(SyncSender<()>),
}

impl Screen {
    /// A screen for this standard output.
    pub(crate) fn start() -> Screen {
        if !output::shows_colours() {
            return Screen::Plain;
        }
        let (sender, receiver) = channel();
        let drawing =
            std::thread::Builder::new().name("screen".to_owned()).spawn(move || draw(&receiver));
        if drawing.is_ok() { Screen::Live(sender) } else { Screen::Plain }
    }

    /// Whether there is a running line.
    pub(crate) fn is_live(&self) -> bool {
        matches!(self, Screen::Live(_))
    }

    /// Shows lines.
    pub(crate) fn lines(&self, lines: Vec<Line>) {
        if lines.is_empty() {
            return;
        }
        match self {
            Screen::Plain => output::lines(&lines),
            Screen::Live(_) => self.send(Draw::Lines(lines)),
        }
    }

    /// Says what runs.
    pub(crate) fn running(&self, what: Option<String>) {
        self.send(Draw::Running(what));
    }

    /// Says in other words what runs.
    pub(crate) fn doing(&self, what: String) {
        self.send(Draw::Doing(what));
    }

    /// Makes room for a prompt.
    pub(crate) fn prompt_begins(&self, printer: Option<Printer>) {
        let (sender, free) = sync_channel(1);
        self.send(Draw::PromptBegins(printer, sender));
        // The drawing thread answers at once unless it is gone, and then there is nothing to wait for.
        let _ = free.recv_timeout(Duration::from_secs(1));
    }

    /// The prompt has been answered.
    pub(crate) fn prompt_ends(&self) {
        self.send(Draw::PromptEnds);
    }

    /// Waits until everything is shown.
    pub(crate) fn flush(&self) {
        let (sender, shown) = sync_channel(1);
        self.send(Draw::Flush(sender));
        if self.is_live() {
            let _ = shown.recv_timeout(Duration::from_secs(1));
        }
    }

    fn send(&self, draw: Draw) {
        if let Screen::Live(sender) = self {
            // The thread ends only with the process.
            let _ = sender.send(draw);
        }
    }
}

#[derive(Default)]
struct Drawing {
    running: Option<(String, Instant)>,
    /// When the running line is drawn next.
    due: Option<Instant>,
    drawn: bool,
    prompt: Option<Option<Printer>>,
}

fn draw(receiver: &Receiver<Draw>) {
    let mut drawing = Drawing::default();
    loop {
        let due = drawing.due.filter(|_| drawing.running.is_some() && drawing.prompt.is_none());
        let patience = due
            .map_or(Duration::from_secs(3600), |due| due.saturating_duration_since(Instant::now()));
        match receiver.recv_timeout(patience) {
            Ok(Draw::Lines(lines)) => drawing.lines(&lines),
            Ok(Draw::Running(what)) => {
                drawing.clear();
                drawing.running = what.map(|what| (what, Instant::now()));
                drawing.due_in(SHORT);
            }
            Ok(Draw::Doing(what)) => {
                let since = drawing.running.take().map_or_else(Instant::now, |(_, since)| since);
                drawing.running = Some((what, since));
                drawing.due_by(REFRESH);
            }
            Ok(Draw::PromptBegins(printer, free)) => {
                drawing.clear();
                drawing.prompt = Some(printer);
                let _ = free.send(());
            }
            Ok(Draw::PromptEnds) => {
                drawing.prompt = None;
                drawing.due_in(SHORT);
            }
            Ok(Draw::Flush(shown)) => {
                drawing.clear();
                drawing.running = None;
                drawing.prompt = None;
                let _ = shown.send(());
            }
            Err(RecvTimeoutError::Timeout) => drawing.tick(),
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

impl Drawing {
    fn lines(&mut self, lines: &[Line]) {
        if let Some(Some(printer)) = &mut self.prompt {
            let mut text: String = lines.iter().map(|line| output::styled(line) + "\n").collect();
            if std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty()) {
                text = anstream::adapter::strip_str(&text).to_string();
            }
            // A prompt that is just being left prints it with the next one, or not at all at the very end.
            let _ = printer.print(text);
            return;
        }
        self.clear();
        output::lines(lines);
        self.due_by(REFRESH);
    }

    fn due_in(&mut self, wait: Duration) {
        self.due = Some(Instant::now() + wait);
    }

    /// Within this time, if not sooner.
    fn due_by(&mut self, wait: Duration) {
        let latest = Instant::now() + wait;
        self.due = Some(self.due.map_or(latest, |due| due.min(latest)));
    }

    fn clear(&mut self) {
        if std::mem::take(&mut self.drawn) {
            output::raw(b"\r\x1b[2K");
        }
    }

    fn tick(&mut self) {
        if self.prompt.is_some() {
            return;
        }
        let Some((what, since)) = &self.running else { return };
        let took = match since.elapsed().as_secs() {
            0 => String::new(),
            seconds => format!("  {}", machine::time::Span::seconds(seconds)),
        };
        let width = columns().saturating_sub(took.chars().count() + 6);
        let mut text = Vec::new();
        // Writing to memory does not fail.
        let _ = write!(text, "\r\x1b[2K\x1b[2m… {}{took}\x1b[0m", view::text::short(what, width));
        output::raw(&text);
        self.drawn = true;
        self.due_in(TICK);
    }
}

/// The terminal's width.
pub(crate) fn columns() -> usize {
    rustix::termios::tcgetwinsize(std::io::stdout())
        .ok()
        .map(|size| usize::from(size.ws_col))
        .filter(|width| *width > 0)
        .unwrap_or(100)
}
