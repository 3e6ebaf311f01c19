//! The pipes of an agent's process: one thread reads, one writes, and neither waits for the other.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Weak};
use std::time::Instant;

use machine::agent::{AgentEnd, AgentEvent, AgentFault};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use wire::agent::AgentCodec;

use super::super::lock;
use super::gone::Gone;
use super::{END_GRACE, Process};
use crate::process::write_all;

/// The way to the process. Bytes are handed to the writer under this lock, so they are in the codec's order.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) codec: Box<dyn AgentCodec>,
    /// Its input is closed once there is none.
    pub(super) out: Option<Out>,
}

/// The input of the process, and its writer for what it does not take at once.
#[derive(Debug)]
pub(super) struct Out {
    pub(super) stdin: Arc<OwnedFd>,
    pub(super) later: Sender<Vec<u8>>,
}

/// Gives a process its reader and its writer.
pub(super) fn attend(
    process: &Arc<Process>,
    stdin: Arc<OwnedFd>,
    stdout: OwnedFd,
    unwritten: Receiver<Vec<u8>>,
) -> std::io::Result<()> {
    let thread = || std::thread::Builder::new().name("agent".to_owned());
    let (reader, writer) = (Arc::downgrade(process), Arc::downgrade(process));
    let unread = Arc::clone(&process.unread);
    thread().spawn(move || read(&reader, &stdout))?;
    thread().spawn(move || write(&writer, &stdin, &unwritten, &unread))?;
    Ok(())
}

impl Process {
    /// Hands over what is to be written; it is in order whoever writes.
    pub(super) fn write(
        &self,
        bytes: impl FnOnce(&mut dyn AgentCodec) -> Result<Vec<u8>, String>,
    ) -> Result<(), String> {
        let mut link = lock(&self.link);
        let bytes = bytes(link.codec.as_mut())?;
        self.hand_over(&link, bytes)
    }

    fn hand_over(&self, link: &Link, bytes: Vec<u8>) -> Result<(), String> {
        if bytes.is_empty() {
            return Ok(());
        }
        let closed = || "its input is closed".to_owned();
        let out = link.out.as_ref().ok_or_else(closed)?;
        // What the process takes at once needs nobody who waits for it, as long as nothing else waits.
        let mut rest = bytes;
        if self.unread.load(Ordering::Acquire) == 0
            && let Ok(taken) = rustix::io::write(&out.stdin, &rest)
        {
            rest.drain(..taken);
        }
        if rest.is_empty() {
            return Ok(());
        }
        self.unread.fetch_add(rest.len(), Ordering::Relaxed);
        // A writer that is gone has found the process gone; the reader tells how.
        out.later.send(rest).map_err(|_| closed())
    }

    /// Takes what was read; why it is of no use any more, if it is not.
    fn hear(self: &Arc<Self>, bytes: &[u8]) -> Option<Gone> {
        let events = {
            let mut link = lock(&self.link);
            let mut reply = Vec::new();
            let events = link.codec.read(bytes, &mut reply);
            let _ = self.hand_over(&link, reply);
            events
        };
        lock(&self.hearing).said += bytes.len() as u64;
        self.take(events);
        lock(&self.hearing).spoilt(self.unread.load(Ordering::Relaxed))
    }

    fn take(self: &Arc<Self>, events: Vec<AgentEvent>) {
        let mut refused = Vec::new();
        let (is_awaited, at_once) = {
            let mut hearing = lock(&self.hearing);
            let (was_ready, was_set) = (hearing.ready, hearing.model_set);
            hearing.heard = Instant::now();
            for event in events {
                hearing.take(event, &mut refused);
            }
            let is_awaited = hearing.ended.is_some()
                || (hearing.ready, hearing.model_set) != (was_ready, was_set);
            (is_awaited, std::mem::take(&mut hearing.at_once))
        };
        if is_awaited {
            self.news.notify_all();
        }
        for wanted in at_once {
            self.serve(wanted);
        }
        for order in refused {
            let _ = self.write(|codec| codec.order(order));
        }
    }

    /// Its output has ended, or nobody listens to it any more.
    fn end(self: &Arc<Self>, broke: Option<Gone>) {
        let exit = {
            let mut child = lock(&self.child);
            let exit = match &broke {
                Some(_) => None,
                None => child.wait(END_GRACE),
            };
            child.kill();
            exit
        };
        let mut events = lock(&self.link).codec.end();
        // A turn that was cut off ended as the program did, and nobody but us knows how that was.
        events.retain(
            |event| !matches!(event, AgentEvent::TurnEnded(turn) if turn.end == AgentEnd::Failed),
        );
        self.take(events);
        let mut hearing = lock(&self.hearing);
        let gone = broke.unwrap_or_else(|| Gone::by_end(exit, hearing.malformed));
        hearing.gone.get_or_insert(gone);
        drop(hearing);
        self.news.notify_all();
    }

    /// It does not read what it is told.
    fn is_deaf(&self) {
        let gone = Gone::new(AgentFault::Timeout, "it does not read what it is told");
        lock(&self.hearing).gone.get_or_insert(gone);
        lock(&self.child).kill();
        self.news.notify_all();
    }
}

/// The reader's life: everything that the process says, until it says nothing any more.
fn read(process: &Weak<Process>, stdout: &OwnedFd) {
    let mut chunk = vec![0u8; 64 * 1024];
    let mut is_more = false;
    loop {
        if !is_more {
            let _ = poll(&mut [PollFd::new(stdout, PollFlags::IN)], None);
        }
        match rustix::io::read(stdout, &mut chunk[..]) {
            Ok(0) => break,
            Ok(count) => {
                is_more = count == chunk.len();
                let Some(process) = process.upgrade() else { return };
                if let Some(broke) = process.hear(&chunk[..count]) {
                    return process.end(Some(broke));
                }
            }
            Err(Errno::INTR | Errno::AGAIN) => is_more = false,
            Err(_) => break,
        }
    }
    if let Some(process) = process.upgrade() {
        process.end(None);
    }
}

/// The writer's life: everything that the process is told, until there is nothing more, it is gone, or it is deaf.
fn write(
    process: &Weak<Process>,
    stdin: &OwnedFd,
    unwritten: &Receiver<Vec<u8>>,
    unread: &AtomicUsize,
) {
    for bytes in unwritten {
        let written = write_all(stdin, &bytes);
        unread.fetch_sub(bytes.len(), Ordering::Release);
        if let Err(error) = written {
            if error.kind() == std::io::ErrorKind::TimedOut
                && let Some(process) = process.upgrade()
            {
                process.is_deaf();
            }
            return;
        }
    }
}
