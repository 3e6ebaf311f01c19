//! The binary on a pseudo-terminal, where a person is asked about a call that holds the text.

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};
use rustix::pty::OpenptFlags;
use rustix::termios::Winsize;

use super::toml_text;
use crate::injection::command;
use crate::rig::Rig;

/// How long a scene may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Everything that a terminal is sent while a model says the text and wants to run it, a person is asked and says no.
pub(crate) fn show(rig: &Rig, text: &str) -> Result<Vec<u8>, String> {
    let script = format!(
        "[[reply]]\ntext = {0}\ntool_calls = [{{ tool = \"shell\", input = {{ command = {0} }} }}]\n\
         [[reply]]\ntext = \"Done.\"\nrepeat = true\n",
        toml_text(&format!("x {text} y"))
    );
    std::fs::write(rig.worktree().join("screen.toml"), script).unwrap();
    let master = rustix::pty::openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    rustix::pty::grantpt(&master).unwrap();
    rustix::pty::unlockpt(&master).unwrap();
    let name = rustix::pty::ptsname(&master, Vec::new()).unwrap();
    let terminal = rustix::fs::open(&name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
    let size = Winsize { ws_row: 40, ws_col: 100, ws_xpixel: 0, ws_ypixel: 0 };
    rustix::termios::tcsetwinsize(&terminal, size).unwrap();
    let goal = format!("goal {}", text.replace('\0', ""));
    let plain = command(rig, &["run", &goal, "--model", "script/screen.toml", "--in-place"]);
    let mut on_terminal = Command::new("setsid");
    on_terminal.arg("--ctty").arg(plain.get_program()).args(plain.get_args());
    on_terminal.current_dir(rig.worktree()).env_clear();
    for (name, value) in plain.get_envs() {
        on_terminal.env(name, value.unwrap());
    }
    let side = || Stdio::from(terminal.try_clone().unwrap());
    let mut child = on_terminal
        .env("TERM", "xterm")
        .stdin(side())
        .stdout(side())
        .stderr(side())
        .spawn()
        .unwrap();
    let mut keyboard = File::from(master);
    let shown = Arc::new(Mutex::new(Vec::new()));
    let (mut output, buffer) = (keyboard.try_clone().unwrap(), Arc::clone(&shown));
    std::thread::spawn(move || {
        let mut piece = [0; 4096];
        while let Ok(count @ 1..) = output.read(&mut piece) {
            buffer.lock().unwrap().extend_from_slice(&piece[..count]);
        }
    });
    let begun = Instant::now();
    let mut answered = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if begun.elapsed() > PATIENCE {
            let _ = child.kill();
            let _ = child.wait();
            let told = String::from_utf8_lossy(&shown.lock().unwrap()).into_owned();
            return Err(format!("on a terminal it goes on, and shows {told:?}"));
        }
        // The answer, as often as it takes: it is not told what the question looks like.
        if answered.elapsed() > Duration::from_millis(400) {
            let _ = keyboard.write_all(b"n\r");
            answered = Instant::now();
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    std::thread::sleep(Duration::from_millis(50));
    let shown = shown.lock().unwrap().clone();
    Ok(shown)
}
