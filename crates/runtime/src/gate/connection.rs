//! One connection of a worker: its token, then its lines, each answered once.

use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use wire::gate::{Frames, Reaction, RequestId, Session, TooLong};

use super::outbox::Outbox;
use super::{Door, Waiter};
use crate::socket;

/// How long the token may take, from the first moment on.
const TOKEN_PATIENCE: Duration = Duration::from_secs(10);

/// How long a line may take from its first byte to its end.
const FRAME_PATIENCE: Duration = Duration::from_secs(30);

/// How long a worker that is to be closed has to take what it is told.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// The longest first line.
const MAX_TOKEN: usize = 128;

/// Serves one connection to its end.
pub(super) fn serve(door: &Arc<Door>, stream: UnixStream) -> io::Result<()> {
    if !socket::is_ours(&stream) {
        return Ok(());
    }
    let number = door.enter(&stream)?;
    let served = talk(door, &stream, number);
    door.leave(number);
    let _ = stream.shutdown(std::net::Shutdown::Both);
    served
}

fn talk(door: &Arc<Door>, stream: &UnixStream, number: u64) -> io::Result<()> {
    let Some(rest) = admit(door, stream)? else { return Ok(()) };
    let outbox = Arc::new(Outbox::default());
    let writer = {
        let (outbox, stream) = (Arc::clone(&outbox), stream.try_clone()?);
        std::thread::Builder::new().name("gate-writer".to_owned()).spawn(move || {
            while let Some(mut line) = outbox.next() {
                line.push('\n');
                if (&stream).write_all(line.as_bytes()).is_err() {
                    break;
                }
                outbox.paid();
            }
            outbox.close();
            // Whoever reads for this worker wakes up.
            let _ = stream.shutdown(std::net::Shutdown::Both);
        })?
    };
    let mut reader = Reader {
        door,
        stream,
        number,
        nonce: nonce()?,
        outbox: Arc::clone(&outbox),
        session: Session::default(),
    };
    let end = reader.read(&rest);
    let patience = match &end {
        // Half closed is a worker that has said all and still listens.
        Ok(End::Eof) => None,
        Ok(End::Foreign) => Some(LAST_WORDS),
        Err(_) => Some(Duration::ZERO),
    };
    let until = patience.map(|patience| Instant::now() + patience);
    outbox.settle(|| is_gone(stream) || until.is_some_and(|until| Instant::now() >= until));
    outbox.close();
    let _ = stream.shutdown(std::net::Shutdown::Both);
    let _ = writer.join();
    end.map(drop)
}

/// Why a connection ends in good order.
enum End {
    /// The worker has said all.
    Eof,
    /// What it says cannot be understood, and it was told.
    Foreign,
}

/// Reads the first line. Gives what came after it; none if it was not the token.
fn admit(door: &Door, stream: &UnixStream) -> io::Result<Option<Vec<u8>>> {
    let deadline = Instant::now() + TOKEN_PATIENCE;
    let mut said = Vec::new();
    let mut chunk = [0u8; MAX_TOKEN];
    loop {
        let count = socket::read(&stream, &mut chunk, Some(deadline))?;
        said.extend_from_slice(&chunk[..count]);
        if let Some(end) = said.iter().position(|byte| *byte == b'\n') {
            let rest = said.split_off(end + 1);
            said.pop();
            let token = door.token().reveal().as_bytes();
            return Ok(same(said.trim_ascii_end(), token).then_some(rest));
        }
        if count == 0 || said.len() > MAX_TOKEN {
            return Ok(None);
        }
    }
}

/// Takes as long for a wrong token as for a right one.
fn same(said: &[u8], token: &[u8]) -> bool {
    let differs = said.iter().zip(token).fold(0, |differs, (a, b)| differs | (a ^ b));
    said.len() == token.len() && differs == 0
}

struct Reader<'a> {
    door: &'a Arc<Door>,
    stream: &'a UnixStream,
    number: u64,
    /// Tells the keys of this connection from those of every other.
    nonce: String,
    outbox: Arc<Outbox>,
    session: Session,
}

impl Reader<'_> {
    /// Reads until the worker is gone, speaks something else, or takes too long over a line.
    fn read(&mut self, first: &[u8]) -> io::Result<End> {
        let mut frames = Frames::default();
        let mut deadline = None;
        let mut chunk = vec![0u8; 64 << 10];
        let mut bytes: &[u8] = first;
        loop {
            let mut go_on = true;
            let pushed = frames.push(bytes, |line| go_on = go_on && self.take(line));
            if let Err(TooLong) = pushed {
                self.answer(wire::gate::too_long(""));
                return Ok(End::Foreign);
            }
            if !go_on {
                return Ok(End::Foreign);
            }
            deadline = match (frames.is_partial(), deadline) {
                (false, _) => None,
                (true, Some(since)) => Some(since),
                (true, None) => Some(Instant::now() + FRAME_PATIENCE),
            };
            let count = socket::read(&self.stream, &mut chunk, deadline)?;
            if count == 0 {
                return Ok(End::Eof);
            }
            bytes = &chunk[..count];
        }
    }

    /// Acts on one line; false if the connection is to end.
    fn take(&mut self, line: &[u8]) -> bool {
        match self.session.take(line, &self.door.toolbox()) {
            Reaction::Ignore => true,
            Reaction::Answer(line) => self.answer(line),
            Reaction::Close(line) => {
                if let Some(line) = line {
                    self.answer(line);
                }
                false
            }
            Reaction::Call { id, key, tool, input, .. } => {
                let owed = self.outbox.owe(|| is_gone(self.stream));
                if owed {
                    let key = key.map_or_else(|| self.key_of(&id), |key| format!("key/{key}"));
                    let outbox = Arc::clone(&self.outbox);
                    let digest = machine::request::digest(&tool, &input);
                    let waiter = Waiter { connection: self.number, id, digest, outbox };
                    self.door.ask(key, waiter, tool, input);
                }
                owed
            }
            Reaction::Withdraw(id) => {
                self.door.withdraw(self.number, &id);
                true
            }
        }
    }

    fn answer(&self, line: String) -> bool {
        let owed = self.outbox.owe(|| is_gone(self.stream));
        if owed {
            self.outbox.push(line);
        }
        owed
    }

    /// What stands for a request that names no key: this connection and the request's id.
    fn key_of(&self, id: &RequestId) -> String {
        format!("{}/{}", self.nonce, id.json())
    }
}

/// Whether the other end is closed, whatever it has left to read.
fn is_gone(stream: &UnixStream) -> bool {
    let mut fds = [PollFd::new(stream, PollFlags::empty())];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut fds, Some(&now)).is_ok()
        && fds[0].revents().intersects(PollFlags::HUP | PollFlags::ERR)
}

fn nonce() -> io::Result<String> {
    let mut bytes = [0u8; 8];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
