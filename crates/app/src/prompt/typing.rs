//! A line that is being typed outlives that the program is stopped and goes on (Ctrl-Z, then `fg`). The editor sets the
//! terminal again by itself, but the signal that stops the program is taken by any of its threads: the editor's may have
//! done that a moment too early, and then the shell has the last word about the terminal.

use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use rustix::process::getpgrp;
use rustix::stdio::stdin;
use rustix::termios::{
    InputModes, LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetpgrp,
    tcsetattr,
};
use signal_hook::consts::SIGCONT;
use signal_hook::iterator::Signals;

use crate::screen::Screen;

/// A line that is being typed.
struct Line {
    /// How the terminal was before it.
    before: Termios,
    /// Whether the terminal was set again since.
    came_back: bool,
    /// Where it is shown.
    screen: Screen,
}

static LINE: Mutex<Option<Line>> = Mutex::new(None);

/// A line is being typed as long as this lives.
pub(super) struct Typing;

impl Typing {
    pub(super) fn begin(screen: &Screen) -> Typing {
        static HEARD: Once = Once::new();
        HEARD.call_once(|| {
            // Without it a person who comes back has to press a key, no more.
            if let Ok(mut signals) = Signals::new([SIGCONT]) {
                let hear = move || signals.forever().for_each(|_| came_back());
                let _ = std::thread::Builder::new().name("typing".to_owned()).spawn(hear);
            }
        });
        let begun = |before| Line { before, came_back: false, screen: screen.clone() };
        *line() = tcgetattr(stdin()).ok().map(begun);
        Typing
    }
}

impl Drop for Typing {
    fn drop(&mut self) {
        // It may have been set for the editor just as that had ended.
        if let Some(line) = line().take().filter(|line| line.came_back) {
            let _ = tcsetattr(stdin(), OptionalActions::Drain, &line.before);
        }
    }
}

/// The program goes on after it was stopped: the terminal is given the settings of an editor, which shows its line again.
/// In the background that is nobody's business.
fn came_back() {
    let mut line = line();
    let Some(line) = line.as_mut() else { return };
    if tcgetpgrp(stdin()).ok() != Some(getpgrp()) {
        return;
    }
    let mut settings = line.before.clone();
    settings.input_modes.remove(
        InputModes::BRKINT
            | InputModes::ICRNL
            | InputModes::INPCK
            | InputModes::ISTRIP
            | InputModes::IXON,
    );
    settings
        .local_modes
        .remove(LocalModes::ECHO | LocalModes::ICANON | LocalModes::IEXTEN | LocalModes::ISIG);
    settings.special_codes[SpecialCodeIndex::VMIN] = 1;
    settings.special_codes[SpecialCodeIndex::VTIME] = 0;
    if tcsetattr(stdin(), OptionalActions::Drain, &settings).is_ok() {
        line.came_back = true;
        line.screen.prompt_again();
    }
}

fn line() -> MutexGuard<'static, Option<Line>> {
    LINE.lock().unwrap_or_else(PoisonError::into_inner)
}
