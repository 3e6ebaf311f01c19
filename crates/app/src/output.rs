//! The only place that prints. A closed pipe is no reason to stop a task: what nobody reads is not written.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::collections::VecDeque;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::panic::PanicHookInfo;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, Once, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use serde::Serialize;
use view::{Line, Tone, text};

use crate::error::CommandError;

/// Whether standard output was closed by its reader, or takes nothing more.
static CLOSED: AtomicBool = AtomicBool::new(false);

/// How often this process was asked to stop, and since when.
static STOPS: AtomicUsize = AtomicUsize::new(0);
static STOPPED: OnceLock<Instant> = OnceLock::new();

/// How long a reader is waited for after the first request to stop, as running work is.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long a reader that does not read is waited for before it is asked again whether to.
const GLANCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// How much is written at once: a pipe that has room has room for as much.
const AT_ONCE: usize = 4096;

/// How much may wait for a reader that does not read, while everything else goes on.
const MOST_WAITING: usize = 16 << 20;

/// What waits for the reader of standard output.
static BEHIND: Mutex<Behind> = Mutex::new(Behind { bytes: VecDeque::new(), is_awaited: false });
static CAUGHT_UP: Condvar = Condvar::new();

/// What was printed and not read yet.
struct Behind {
    bytes: VecDeque<u8>,
    /// Whether a thread waits for the reader: then all that is printed goes behind what waits.
    is_awaited: bool,
}

/// Why standard output could not be written, where no reader has closed it.
static FAILED: OnceLock<String> = OnceLock::new();

/// Whether the keys of this process are known.
static LEARNT: Once = Once::new();

/// True once the reader of standard output has gone away, or it cannot be written.
pub(crate) fn is_closed() -> bool {
    CLOSED.load(Ordering::Relaxed)
}

/// Whether the reader of standard output has gone away, without anything being written to it.
pub(crate) fn has_no_reader() -> bool {
    let stdout = io::stdout();
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    let mut out = [PollFd::new(&stdout, PollFlags::OUT)];
    poll(&mut out, Some(&now)).is_ok() && out[0].revents().contains(PollFlags::ERR)
}

/// This process was asked to stop: a reader that does not read is not waited for much longer, and not at all when it is asked
/// for the second time.
pub(crate) fn stop() {
    let _ = STOPPED.set(Instant::now());
    STOPS.fetch_add(1, Ordering::Relaxed);
}

/// Whether nobody waits for a reader any more.
fn is_stopped() -> bool {
    let is_late = || STOPPED.get().is_some_and(|since| since.elapsed() >= PATIENCE);
    STOPS.load(Ordering::Relaxed) >= 2 || is_late()
}

/// Prints lines for a person, with colours where they are wanted.
pub(crate) fn lines(lines: &[Line]) {
    let mut text = String::new();
    for line in lines {
        match is_coloured() {
            true => text.push_str(&styled(line)),
            false => text.push_str(line.text.trim_end()),
        }
        text.push('\n');
    }
    write(without_keys(&text).as_bytes());
}

/// Whether colours are wanted: not where the output is no terminal or NO_COLOR is set. Asked for every line, and it does
/// not change.
fn is_coloured() -> bool {
    static COLOURED: OnceLock<bool> = OnceLock::new();
    *COLOURED.get_or_init(|| AutoStream::choice(&io::stdout()) != ColorChoice::Never)
}

/// Prints one JSON value in one line.
pub(crate) fn json(value: &impl Serialize) {
    match serde_json::to_string(value) {
        Ok(text) => write(format!("{}\n", text::json(&without_keys(&text))).as_bytes()),
        Err(error) => failed(&error.into()),
    }
}

/// Prints bytes as they are.
pub(crate) fn raw(bytes: &[u8]) {
    write(bytes);
}

/// Prints the help or the version that was asked for.
pub(crate) fn help(asked: &clap::Error) {
    let text = asked.render();
    let text = if is_coloured() { text.ansi().to_string() } else { text.to_string() };
    write(text.as_bytes());
    settle();
}

/// Prints to standard error: JSON as one line, anything else in lines whose characters are all visible.
pub(crate) fn error(text: &str) {
    let text = without_keys(text);
    let text = match text.starts_with('{') {
        true => text::json(&text),
        false => text::lines(&quoting_arguments(&text)).join("\n"),
    };
    // With standard error gone there is nobody left to tell.
    let _ = Whole(io::stderr().lock()).write_all(format!("{text}\n").as_bytes());
}

/// The text without the keys of this process: a message may quote a file, an argument or an answer that holds one.
fn without_keys(text: &str) -> String {
    learn_keys();
    runtime::redact::text(text)
}

/// Learns the keys of this process, once.
pub(crate) fn learn_keys() {
    LEARNT.call_once(runtime::redact::learn_environment);
}

/// Prints a panic to standard error. It waits for nothing that may have panicked itself, such as the learning of keys: as long
/// as they are not known only the place is told.
pub(crate) fn panicked(panic: &PanicHookInfo<'_>) {
    let place = panic.location().map_or_else(|| "an unknown place".to_owned(), ToString::to_string);
    let known = LEARNT.is_completed().then(|| panic.to_string());
    let said = known.and_then(|said| runtime::redact::text_at_once(&said));
    let said = said.unwrap_or_else(|| format!("panicked at {place}"));
    let _ = writeln!(
        io::stderr().lock(),
        "drivetrain: internal error: {}\nThis is a bug. Nothing that was journaled is lost: `drivetrain resume` goes on from there.",
        text::visible(&said)
    );
}

/// A message often quotes what was typed. An argument of several lines must not look like several lines of ours.
fn quoting_arguments(text: &str) -> String {
    let mut shown = text.to_owned();
    for argument in std::env::args_os() {
        let argument = argument.to_string_lossy();
        let value = argument.split_once('=').map_or(&*argument, |(_, value)| value);
        for part in [&*argument, value] {
            if part.trim_end().contains(['\n', '\r']) {
                shown = shown.replace(part, &text::visible(part));
            }
        }
    }
    shown
}

/// Whether a person sits at this terminal.
pub(crate) fn is_terminal() -> bool {
    io::stdin().is_terminal() && io::stdout().is_terminal()
}

/// Whether standard output is a terminal.
pub(crate) fn shows_colours() -> bool {
    io::stdout().is_terminal()
}

/// The line with its colours.
pub(crate) fn styled(line: &Line) -> String {
    let colour = |colour: AnsiColor| Style::new().fg_color(Some(colour.into()));
    let style = match line.tone {
        Tone::Plain => return line.text.trim_end().to_owned(),
        Tone::Strong => Style::new().bold(),
        Tone::Faint => Style::new().dimmed(),
        Tone::Good => colour(AnsiColor::Green),
        Tone::Bad => colour(AnsiColor::Red),
        Tone::Ask => colour(AnsiColor::Yellow),
    };
    format!("{style}{}{style:#}", line.text.trim_end())
}

/// Writes what the reader takes at once. The rest waits, with all that comes after it, on a thread of its own: one who does
/// not read shall not hold up the tasks of this process, unless too much waits.
fn write(bytes: &[u8]) {
    let mut behind = behind();
    while behind.is_awaited && behind.bytes.len() >= MOST_WAITING {
        behind = caught_up(behind);
    }
    if is_closed() {
        return;
    }
    if behind.is_awaited {
        behind.bytes.extend(bytes);
        return;
    }
    let mut left = bytes;
    while !left.is_empty() && takes_some() {
        let (some, rest) = left.split_at(left.len().min(AT_ONCE));
        if let Err(error) = put(some) {
            return failed(&error);
        }
        left = rest;
    }
    if left.is_empty() {
        return;
    }
    behind.bytes.extend(left);
    behind.is_awaited = true;
    let waits = std::thread::Builder::new().name("output".to_owned()).spawn(catch_up);
    if waits.is_err() {
        // Then it is waited for here.
        drop(behind);
        catch_up();
    }
}

/// Waits until all that was printed is read, or nobody waits for that any more.
pub(crate) fn settle() {
    let mut behind = behind();
    while behind.is_awaited {
        behind = caught_up(behind);
    }
}

/// Writes what waits, as it is read.
fn catch_up() {
    loop {
        let mut waiting = behind();
        let count = waiting.bytes.len().min(AT_ONCE);
        if count == 0 || is_closed() {
            *waiting = Behind { bytes: VecDeque::new(), is_awaited: false };
            CAUGHT_UP.notify_all();
            return;
        }
        let some: Vec<u8> = waiting.bytes.drain(..count).collect();
        CAUGHT_UP.notify_all();
        drop(waiting);
        if let Err(error) = until_read(&io::stdout()).and_then(|()| put(&some)) {
            failed(&error);
        }
    }
}

fn put(bytes: &[u8]) -> io::Result<()> {
    Whole(io::stdout().lock()).write_all(bytes)
}

/// What is written here is written to its end, also where whoever shares the terminal or the pipe has made it take only what
/// fits at once.
pub(crate) struct Whole<F>(pub(crate) F);

impl<F: AsFd> Write for Whole<F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match rustix::io::write(&self.0, bytes) {
                Err(Errno::AGAIN) => until_read(&self.0)?,
                Err(Errno::INTR) => {}
                written => return Ok(written?),
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn behind() -> MutexGuard<'static, Behind> {
    // What waits is whole after any panic.
    BEHIND.lock().unwrap_or_else(PoisonError::into_inner)
}

fn caught_up(behind: MutexGuard<'static, Behind>) -> MutexGuard<'static, Behind> {
    CAUGHT_UP.wait(behind).unwrap_or_else(PoisonError::into_inner)
}

/// Whether standard output takes something now. What cannot be waited for is written, and says itself what is wrong.
fn takes_some() -> bool {
    let (stdout, now) = (io::stdout(), Timespec { tv_sec: 0, tv_nsec: 0 });
    poll(&mut [PollFd::new(&stdout, PollFlags::OUT)], Some(&now)) != Ok(0)
}

/// Waits until an output takes something. It ends when this process shall: then nothing more is written.
fn until_read(out: &impl AsFd) -> io::Result<()> {
    loop {
        match poll(&mut [PollFd::new(out, PollFlags::OUT)], Some(&GLANCE)) {
            // Nobody reads, for now.
            Ok(0) if !is_stopped() => {}
            Ok(0) => return Err(io::ErrorKind::BrokenPipe.into()),
            Err(Errno::INTR) => {}
            // What cannot be waited for is written, and says itself what is wrong.
            Ok(_) | Err(_) => return Ok(()),
        }
    }
}

fn failed(error: &io::Error) {
    CLOSED.store(true, Ordering::Relaxed);
    if error.kind() != io::ErrorKind::BrokenPipe {
        // The first one tells why; later ones follow from it.
        let _ = FAILED.set(error.to_string());
    }
}

/// Why standard output could not be written, if it was not by its reader's will.
pub(crate) fn failure() -> Option<CommandError> {
    let reason = FAILED.get()?;
    Some(CommandError::environment(format!("cannot write to standard output: {reason}")))
}

/// Standard output for lines of JSON that somebody else writes; a closed pipe does not break it.
#[derive(Default)]
pub(crate) struct JsonLines {
    pending: Vec<u8>,
}

impl Write for JsonLines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.pending.extend_from_slice(bytes);
        if let Some(end) = self.pending.iter().rposition(|byte| *byte == b'\n') {
            let whole: Vec<u8> = self.pending.drain(..=end).collect();
            raw(text::json(&String::from_utf8_lossy(&whole)).as_bytes());
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for JsonLines {
    fn drop(&mut self) {
        raw(text::json(&String::from_utf8_lossy(&self.pending)).as_bytes());
    }
}
