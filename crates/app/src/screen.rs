//! What the foreground shows: lines as they come, and on a terminal a line below them that says what runs and
//! for how long.
//!
//! On a terminal one thread owns the output, so that the supervisor never waits for it and the running line,
//! the prompt and the lines above them do not overwrite each other.

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
    /// Printed to standard error at once: standard output holds events for a program.
    Aside,
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
    /// Lines that stay the last ones; none if there are none.
    Board(Vec<(Line, Option<Instant>)>),
    /// A prompt takes over the last line; answered when the line is free.
    PromptBegins(Option<Printer>, SyncSender<()>),
    /// Others have written where the prompt was.
    PromptAgain,
    /// The prompt is gone; what was entered took at most so many columns.
    PromptEnds(usize),
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
            Screen::Aside => output::error(view::join(&lines).trim_end()),
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

    /// Shows lines that stay the last ones, each with since when it is so.
    pub(crate) fn board(&self, lines: Vec<(Line, Option<Instant>)>) {
        self.send(Draw::Board(lines));
    }

    /// Makes room for a prompt.
    pub(crate) fn prompt_begins(&self, printer: Option<Printer>) {
        let (sender, free) = sync_channel(1);
        self.send(Draw::PromptBegins(printer, sender));
        // The drawing thread answers at once unless it is gone, and then there is nothing to wait for.
        let _ = free.recv_timeout(Duration::from_secs(1));
    }

    /// Shows the prompt and what is typed at it once more, at the end of what others have written.
    pub(crate) fn prompt_again(&self) {
        self.send(Draw::PromptAgain);
    }

    /// The prompt has been answered.
    pub(crate) fn prompt_ends(&self, width: usize) {
        self.send(Draw::PromptEnds(width));
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
    /// Lines below all others, in place of the running line.
    board: Vec<(Line, Option<Instant>)>,
    /// How many of them are on the screen.
    board_drawn: usize,
    /// When the running line is drawn next.
    due: Option<Instant>,
    /// Whether the running line is on the screen: as the last line, or as the one above the prompt.
    drawn: bool,
    prompt: Option<Option<Printer>>,
}

fn draw(receiver: &Receiver<Draw>) {
    let mut drawing = Drawing::default();
    loop {
        let bare = matches!(drawing.prompt, Some(None));
        let is_wanted =
            (drawing.running.is_some() || drawing.drawn || !drawing.board.is_empty()) && !bare;
        let patience = drawing
            .due
            .filter(|_| is_wanted)
            .map_or(Duration::from_secs(3600), |due| due.saturating_duration_since(Instant::now()));
        match receiver.recv_timeout(patience) {
            Ok(Draw::Lines(lines)) => drawing.lines(&lines),
            Ok(Draw::Running(what)) => {
                if drawing.prompt.is_none() {
                    drawing.clear();
                }
                drawing.running = what.map(|what| (what, Instant::now()));
                drawing.due_in(SHORT);
            }
            Ok(Draw::Doing(what)) => {
                let since = drawing.running.take().map_or_else(Instant::now, |(_, since)| since);
                drawing.running = Some((what, since));
                drawing.due_by(REFRESH);
            }
            Ok(Draw::Board(lines)) => {
                drawing.board = lines;
                drawing.due_by(REFRESH);
            }
            Ok(Draw::PromptBegins(printer, free)) => {
                drawing.clear();
                drawing.prompt = Some(printer);
                drawing.due_in(SHORT);
                let _ = free.send(());
            }
            Ok(Draw::PromptAgain) => {
                drawing.drawn = false;
                // The editor prints at least a line: this one takes no room.
                drawing.print_above("\x1b[A\n".to_owned(), None);
                drawing.due_in(SHORT);
            }
            Ok(Draw::PromptEnds(width)) => {
                drawing.end_prompt(width);
                drawing.due_in(SHORT);
            }
            Ok(Draw::Flush(shown)) => {
                drawing.leave();
                let _ = shown.send(());
            }
            Err(RecvTimeoutError::Timeout) => drawing.tick(),
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

impl Drawing {
    fn lines(&mut self, lines: &[Line]) {
        if let Some(Some(_)) = self.prompt {
            let text = lines.iter().map(|line| output::styled(line) + "\n").collect();
            let running = self.running_line().map(|line| line + "\n");
            return self.print_above(text, running.filter(|_| self.drawn));
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
        for row in 0..std::mem::take(&mut self.board_drawn) {
            output::raw(if row == 0 { b"\r\x1b[2K" } else { b"\x1b[A\x1b[2K" });
        }
        if std::mem::take(&mut self.drawn) {
            output::raw(b"\r\x1b[2K");
        }
    }

    fn tick(&mut self) {
        self.due = None;
        if self.running.is_some() || !self.board.is_empty() {
            self.due_in(TICK);
        }
        if !self.board.is_empty() {
            return self.draw_board();
        }
        let line = self.running_line();
        if let Some(None) = self.prompt {
            // A terminal that can do no more than show lines.
            return;
        }
        if self.prompt.is_some() {
            // With nothing to take its place the line that was there is left empty.
            let line = line.map_or_else(|| "\n".to_owned(), |line| line + "\n");
            let drawn = self.running.is_some();
            self.print_above(String::new(), Some(line));
            self.drawn = drawn;
            return;
        }
        let Some(line) = line else { return self.clear() };
        output::raw(format!("\r\x1b[2K{line}").as_bytes());
        self.drawn = true;
    }

    fn draw_board(&mut self) {
        let lines = self.board.iter().map(|(line, since)| {
            let took = since.map(|since| since.elapsed().as_secs()).filter(|seconds| *seconds > 0);
            let took = took.map(|seconds| format!("  {}", machine::time::Span::seconds(seconds)));
            let took = took.unwrap_or_default();
            let width = columns().saturating_sub(took.chars().count() + 1);
            let text = format!("{}{took}", view::text::fitting(&line.text, width));
            output::styled(&Line::new(line.tone, text))
        });
        let mut text = lines.collect::<Vec<_>>().join("\n");
        if std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty()) {
            text = without_colours(&text);
        }
        self.clear();
        output::raw(text.as_bytes());
        self.board_drawn = self.board.len();
    }

    /// What runs and for how long, in one line of the terminal.
    fn running_line(&self) -> Option<String> {
        let (what, since) = self.running.as_ref()?;
        let took = match since.elapsed().as_secs() {
            0 => String::new(),
            seconds => format!("  {}", machine::time::Span::seconds(seconds)),
        };
        let width = columns().saturating_sub(took.chars().count() + 6);
        Some(format!("\x1b[2m… {}{took}\x1b[0m", view::text::fitting(what, width)))
    }

    /// Prints above the prompt: first the text, then the running line, in place of the one that was there.
    fn print_above(&mut self, text: String, running: Option<String>) {
        let replace = if self.drawn { "\x1b[A\r\x1b[2K" } else { "" };
        self.drawn = running.is_some();
        let mut text = format!("{replace}{text}{}", running.unwrap_or_default());
        if std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty()) {
            text = without_colours(&text);
        }
        if let Some(Some(printer)) = &mut self.prompt {
            // A prompt that is just being left prints it with the next one, or not at all at the very end.
            let _ = printer.print(text);
        }
    }

    /// The running line above what was entered has had its time.
    fn end_prompt(&mut self, width: usize) {
        self.prompt = None;
        if std::mem::take(&mut self.drawn) && width < columns() {
            output::raw(b"\x1b[2A\r\x1b[M\x1b[B");
        }
    }

    /// Leaves the terminal to whoever comes next: also if a prompt is still open, whose editor sets what it needs
    /// and is not asked to set it back.
    fn leave(&mut self) {
        self.running = None;
        self.board.clear();
        if self.prompt.take().is_some() {
            let above: &[u8] = if self.drawn { b"\x1b[A\r" } else { b"" };
            output::raw(b"\r\x1b[2K\x1b[?2004l");
            output::raw(above);
        }
        self.clear();
    }
}

/// The text without colours; what moves the cursor stays.
fn without_colours(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("\x1b[") {
        plain.push_str(&rest[..at]);
        let sequence = &rest[at..];
        let end = sequence[2..]
            .find(|c: char| c.is_ascii_alphabetic())
            .map_or(sequence.len(), |end| end + 3);
        if !sequence[..end].ends_with('m') {
            plain.push_str(&sequence[..end]);
        }
        rest = &sequence[end..];
    }
    plain.push_str(rest);
    plain
}

/// The terminal's width.
pub(crate) fn columns() -> usize {
    rustix::termios::tcgetwinsize(std::io::stdout())
        .ok()
        .map(|size| usize::from(size.ws_col))
        .filter(|width| *width > 0)
        .unwrap_or(100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_running_line_of_wide_characters_takes_one_line() {
        let running = Some(("中".repeat(500), Instant::now()));
        let line = Drawing { running, ..Drawing::default() }.running_line().unwrap();
        assert!(line.matches('中').count() * 2 + 3 < columns(), "{line}");
    }

    #[test]
    fn colours_go_and_the_cursor_still_moves() {
        assert_eq!(without_colours("\x1b[A\r\x1b[2K\x1b[2m… a\x1b[0m\n"), "\x1b[A\r\x1b[2K… a\n");
    }
}
