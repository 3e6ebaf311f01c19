//! A terminal or a pipe that takes only what fits, because whoever shares it has made it so (node, ssh): all the same, all
//! of the output gets there.

use std::cell::RefCell;
use std::fs::File;
use std::io::Read;
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::pty::OpenptFlags;

use crate::environment::TestEnvironment;

/// A pipe of one page; what does not fit is refused.
fn small_pipe() -> (std::io::PipeReader, std::io::PipeWriter) {
    let (reader, writer) = std::io::pipe().unwrap();
    rustix::pipe::fcntl_setpipe_size(&writer, 4096).unwrap();
    do_not_block(&writer);
    (reader, writer)
}

fn do_not_block(fd: impl AsFd) {
    let flags = rustix::fs::fcntl_getfl(&fd).unwrap();
    rustix::fs::fcntl_setfl(&fd, flags | OFlags::NONBLOCK).unwrap();
}

/// Starts it and waits until its output takes nothing more.
fn until_full(place: &TestEnvironment, command: &mut Command, output: impl AsFd) -> Child {
    let child = RefCell::new(command.spawn().unwrap());
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    place.until(|| {
        let takes = poll(&mut [PollFd::new(&output, PollFlags::OUT)], Some(&now)).unwrap();
        (takes == 0 || child.borrow_mut().try_wait().unwrap().is_some()).then_some(())
    });
    child.into_inner()
}

#[test]
fn a_pipe_that_does_not_block_gets_all_of_what_is_printed() {
    let place = TestEnvironment::new();
    let long = "x".repeat(20_000);
    for (args, to_stdout) in [(&["run", "--help"][..], true), (&["show", &long], false)] {
        let whole = place.run(args);
        let whole = if to_stdout { whole.out } else { whole.err };
        assert!(whole.len() > 4096, "{}", whole.len());
        let (mut reader, writer) = small_pipe();
        let mut command = place.command(args);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let side = Stdio::from(writer.try_clone().unwrap());
        if to_stdout {
            command.stdout(side)
        } else {
            command.stderr(side)
        };
        let mut child = until_full(&place, &mut command, &writer);
        drop((writer, command));
        let mut all = String::new();
        reader.read_to_string(&mut all).unwrap();
        assert_eq!(all, whole);
        child.wait().unwrap();
    }
}

#[test]
fn a_terminal_that_does_not_block_gets_all_of_what_is_printed() {
    let place = TestEnvironment::new();
    let whole = place.ok(&["completions", "bash"]);
    assert!(whole.len() > 128 << 10, "{}", whole.len());
    let master = rustix::pty::openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    rustix::pty::grantpt(&master).unwrap();
    rustix::pty::unlockpt(&master).unwrap();
    let name = rustix::pty::ptsname(&master, Vec::new()).unwrap();
    let flags = OFlags::RDWR | OFlags::NOCTTY;
    let terminal = rustix::fs::open(&name, flags, Mode::empty()).unwrap();
    do_not_block(&terminal);
    let mut command = place.command(&["completions", "bash"]);
    command.stdout(Stdio::from(terminal.try_clone().unwrap())).stderr(Stdio::null());
    let mut child = until_full(&place, &mut command, &terminal);
    drop((terminal, command));
    let mut all = Vec::new();
    // A terminal whose other side is gone ends with an error.
    let _ = File::from(master).read_to_end(&mut all);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(String::from_utf8(all).unwrap().replace("\r\n", "\n") == whole, "some of it is lost");
}
