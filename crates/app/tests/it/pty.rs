//! The real binary on a real terminal: a pseudo-terminal that is typed at and looked at.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};
use rustix::pty::OpenptFlags;
use rustix::termios::{InputModes, LocalModes, OptionalActions, Winsize};

use crate::environment::TestEnvironment;

/// How long anything may take, on a machine that is busy with other things.
const PATIENCE: Duration = Duration::from_secs(60);

/// A program on a terminal. Ends with its test.
pub(crate) struct Screen {
    child: Child,
    keyboard: File,
    /// The program's side, kept open so that its settings can be looked at after the end.
    terminal: OwnedFd,
    shown: Arc<Mutex<Vec<u8>>>,
    /// How far it was looked at.
    seen: usize,
}

impl Screen {
    /// Starts drivetrain with its input and output on a new terminal of 100 columns.
    pub(crate) fn start(environment: &TestEnvironment, args: &[&str]) -> Screen {
        let master = rustix::pty::openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        rustix::pty::grantpt(&master).unwrap();
        rustix::pty::unlockpt(&master).unwrap();
        let name = rustix::pty::ptsname(&master, Vec::new()).unwrap();
        let flags = OFlags::RDWR | OFlags::NOCTTY;
        let terminal = rustix::fs::open(&name, flags, Mode::empty()).unwrap();
        let size = Winsize { ws_row: 40, ws_col: 100, ws_xpixel: 0, ws_ypixel: 0 };
        rustix::termios::tcsetwinsize(&terminal, size).unwrap();
        let side = || Stdio::from(terminal.try_clone().unwrap());
        let plain = environment.command(args);
        // Makes the terminal the program's own, so that Ctrl-C can be a signal as well.
        let mut command = Command::new("setsid");
        command.arg("--ctty").arg(plain.get_program()).args(plain.get_args());
        command.current_dir(environment.folder()).env_clear();
        for (name, value) in plain.get_envs() {
            command.env(name, value.unwrap());
        }
        let child = command
            .env("TERM", "xterm")
            .stdin(side())
            .stdout(side())
            .stderr(side())
            .spawn()
            .unwrap();
        let shown = Arc::new(Mutex::new(Vec::new()));
        let keyboard = File::from(master);
        let (mut output, buffer) = (keyboard.try_clone().unwrap(), Arc::clone(&shown));
        std::thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(count @ 1..) = output.read(&mut piece) {
                buffer.lock().unwrap().extend_from_slice(&piece[..count]);
            }
        });
        Screen { child, keyboard, terminal, shown, seen: 0 }
    }

    /// Types.
    pub(crate) fn keys(&self, keys: &str) {
        self.bytes(keys.as_bytes());
    }

    /// Types what may be no text.
    pub(crate) fn bytes(&self, keys: &[u8]) {
        (&self.keyboard).write_all(keys).unwrap();
    }

    /// Types a line.
    pub(crate) fn enter(&self, line: &str) {
        self.keys(&format!("{line}\r"));
    }

    /// Waits until this is shown, after everything that was waited for before.
    pub(crate) fn until(&mut self, text: &str) -> &mut Screen {
        let begun = Instant::now();
        loop {
            {
                let shown = self.shown.lock().unwrap();
                let new = &shown[self.seen..];
                if let Some(at) = new.windows(text.len()).position(|part| part == text.as_bytes()) {
                    self.seen += at + text.len();
                    break;
                }
                let told = String::from_utf8_lossy(new);
                assert!(begun.elapsed() < PATIENCE, "{text:?} was not shown, but {told:?}");
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        self
    }

    /// Everything that was shown so far.
    pub(crate) fn shown(&self) -> String {
        String::from_utf8_lossy(&self.shown.lock().unwrap()).into_owned()
    }

    /// The program's process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Stops the program and lets it go on, as a shell does for Ctrl-Z and `fg`: meanwhile the terminal is the shell's.
    pub(crate) fn stop_and_go_on(&self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
        let begun = Instant::now();
        while !self.is_stopped() {
            assert!(begun.elapsed() < PATIENCE, "it does not stop");
            std::thread::sleep(Duration::from_millis(5));
        }
        let mut settings = rustix::termios::tcgetattr(&self.terminal).unwrap();
        settings.local_modes |= LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG;
        settings.input_modes |= InputModes::ICRNL;
        rustix::termios::tcsetattr(&self.terminal, OptionalActions::Now, &settings).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::CONT).unwrap();
    }

    fn is_stopped(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid())).unwrap();
        stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
    }

    /// Waits until it is the program and not the terminal that shows what is typed.
    pub(crate) fn until_it_edits(&self) {
        let begun = Instant::now();
        let edits = LocalModes::ICANON | LocalModes::ECHO;
        while rustix::termios::tcgetattr(&self.terminal).unwrap().local_modes.intersects(edits) {
            assert!(begun.elapsed() < PATIENCE, "the terminal is not set: {:?}", self.shown());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits for the program's end; its exit code. The terminal must be as it was before.
    pub(crate) fn end(mut self) -> i32 {
        let begun = Instant::now();
        let code = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status.code().unwrap_or(-1);
            }
            assert!(begun.elapsed() < PATIENCE, "it goes on, and shows {:?}", self.shown());
            std::thread::sleep(Duration::from_millis(10));
        };
        let modes = rustix::termios::tcgetattr(&self.terminal).unwrap().local_modes;
        assert!(modes.contains(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG));
        let pasting = self.shown().matches("\x1b[?2004h").count();
        assert!(self.shown().matches("\x1b[?2004l").count() >= pasting, "{:?}", self.shown());
        code
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
