//! A command that an agent had started: it runs on while the agent asks for its output, waits for its end, or ends it.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use machine::agent::client::{ClientDone, CommandExit};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use super::lock;
use crate::process::{Cancel, Child, ProcessSpec};
use crate::redact;

/// How often its end is looked for once its output has ended.
const GLANCE: Duration = Duration::from_secs(1);
/// What is kept of its output at least: its end is told with how it ended.
const LEAST_KEPT: usize = 8 << 10;

/// A command under way, or ended.
#[derive(Debug)]
pub(super) struct Terminal {
    stop: Cancel,
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Debug)]
struct State {
    /// The end of what it printed.
    kept: VecDeque<u8>,
    keep: usize,
    is_cut: bool,
    exit: Option<CommandExit>,
}

/// What was kept, without the rest of a secret that the cut went through.
fn shown(kept: &[u8], is_cut: bool) -> &[u8] {
    if is_cut { redact::from_cut(kept) } else { kept }
}

impl Terminal {
    /// Starts a command. `alive` is told whenever it says something, `on_end` once, with the end of what it printed.
    pub(super) fn start(
        spec: ProcessSpec,
        keep: usize,
        alive: impl Fn() + Send + 'static,
        on_end: impl FnOnce(&CommandExit, String) + Send + 'static,
    ) -> Result<Arc<Terminal>, String> {
        let mut child = Child::spawn(spec).map_err(|error| error.to_string())?;
        // Its input is empty: there is nobody who would type.
        let Some((_, stdout)) = child.take_pipes() else {
            return Err("it has no pipes".to_owned());
        };
        let keep = keep.max(LEAST_KEPT);
        let state = State { kept: VecDeque::new(), keep, is_cut: false, exit: None };
        let terminal = Arc::new(Terminal {
            stop: child.stopper(),
            state: Mutex::new(state),
            ended: Condvar::new(),
        });
        let own = Arc::clone(&terminal);
        let thread = std::thread::Builder::new().name("terminal".to_owned());
        thread
            .spawn(move || own.attend(&child, &stdout, &alive, on_end))
            .map_err(|error| format!("no thread can be started: {error}"))?;
        Ok(terminal)
    }

    fn attend(
        &self,
        child: &Child,
        stdout: &OwnedFd,
        alive: &impl Fn(),
        on_end: impl FnOnce(&CommandExit, String),
    ) {
        let mut chunk = vec![0u8; 64 * 1024];
        loop {
            match rustix::io::read(stdout, &mut chunk[..]) {
                Ok(0) => break,
                Ok(count) => {
                    self.keep(&chunk[..count]);
                    alive();
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    let _ = poll(&mut [PollFd::new(stdout, PollFlags::IN)], None);
                }
                Err(_) => break,
            }
        }
        // It may go on with its output closed.
        let exit = loop {
            if let Some(exit) = child.wait(GLANCE) {
                break CommandExit::of(exit.code, exit.signal);
            }
        };
        let printed = {
            let mut state = lock(&self.state);
            state.exit = Some(exit.clone());
            let is_cut = state.is_cut;
            String::from_utf8_lossy(shown(state.kept.make_contiguous(), is_cut)).into_owned()
        };
        self.ended.notify_all();
        on_end(&exit, printed);
    }

    fn keep(&self, bytes: &[u8]) {
        let mut state = lock(&self.state);
        state.kept.extend(bytes);
        let excess = state.kept.len().saturating_sub(state.keep);
        state.is_cut |= excess > 0;
        state.kept.drain(..excess);
    }

    /// What it printed so far, and how it ended if it has.
    pub(super) fn output(&self) -> ClientDone {
        let state = lock(&self.state);
        let kept: Vec<u8> = state.kept.iter().copied().collect();
        let (is_cut, exit) = (state.is_cut, state.exit.clone());
        // As what our own shell prints on its way to a model.
        let bytes = redact::bytes(shown(&kept, is_cut)).into_owned();
        ClientDone::Output { bytes, is_cut, exit }
    }

    /// Waits until it has ended and everything that it started is gone.
    pub(super) fn wait(&self) -> CommandExit {
        let mut state = lock(&self.state);
        loop {
            if let Some(exit) = &state.exit {
                return exit.clone();
            }
            state = self.ended.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Ends it, with everything that it started; does not wait for that.
    pub(super) fn kill(&self) {
        self.stop.trigger();
    }
}
