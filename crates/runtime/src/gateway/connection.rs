//! One connection of an agent to its gateway: requests read within limits, answers written as they come.

use std::io;
use std::time::Duration;

use rustix::buffer::spare_capacity;
use tokio::io::Interest;
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;
use wire::proxy::chunks::{Chunks, Piece};
use wire::proxy::head::{self, Body};

/// What may be read ahead of the request that is answered.
const AHEAD: usize = 64 << 10;

/// How much is read at once at least, and at most.
const LEAST: usize = 16 << 10;
const MOST: usize = 1 << 20;

/// The agent's side.
pub(super) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Socket {
    async fn readable(&self) -> io::Result<()> {
        match self {
            Socket::Tcp(stream) => stream.readable().await,
            Socket::Unix(stream) => stream.readable().await,
        }
    }

    /// Adds what has come, as far as there is room for it.
    fn try_read(&self, held: &mut Vec<u8>) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => stream
                .try_io(Interest::READABLE, || Ok(rustix::io::read(stream, spare_capacity(held))?)),
            Socket::Unix(stream) => stream
                .try_io(Interest::READABLE, || Ok(rustix::io::read(stream, spare_capacity(held))?)),
        }
    }

    fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => stream.try_write(bytes),
            Socket::Unix(stream) => stream.try_write(bytes),
        }
    }

    async fn writable(&self) -> io::Result<()> {
        match self {
            Socket::Tcp(stream) => stream.writable().await,
            Socket::Unix(stream) => stream.writable().await,
        }
    }
}

/// A connection with what has come and is not done with.
pub(super) struct Connection {
    socket: Socket,
    held: Vec<u8>,
    idle: Duration,
}

/// Why there is no request.
#[derive(Debug)]
pub(super) enum Missing {
    /// The connection ended, or broke, or took too long.
    Gone,
    /// It is larger than what is taken.
    TooLarge,
    /// It is none.
    Malformed,
}

impl From<io::Error> for Missing {
    fn from(_: io::Error) -> Missing {
        Missing::Gone
    }
}

impl Connection {
    pub(super) fn new(socket: Socket, idle: Duration) -> Connection {
        Connection { socket, held: Vec::new(), idle }
    }

    /// Waits for more, of which so much is expected. An end is an error.
    async fn fill(&mut self, expected: usize) -> Result<(), Missing> {
        self.held.reserve(expected.clamp(LEAST, MOST));
        loop {
            self.socket.readable().await?;
            match self.socket.try_read(&mut self.held) {
                Ok(0) => return Err(Missing::Gone),
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// The head of the next request: it may begin within `kept`, and must be whole within `limit` then.
    pub(super) async fn head(
        &mut self,
        kept: Duration,
        limit: Duration,
    ) -> Result<Vec<u8>, Missing> {
        if self.held.is_empty() {
            timeout(kept, self.fill(0)).await.map_err(|_| Missing::Gone)??;
        }
        let whole = async {
            loop {
                if let Some(end) = head::end(&self.held) {
                    let rest = self.held.split_off(end);
                    return Ok(std::mem::replace(&mut self.held, rest));
                }
                if self.held.len() > head::MAX_HEAD {
                    return Err(Missing::TooLarge);
                }
                self.fill(0).await?;
            }
        };
        timeout(limit, whole).await.map_err(|_| Missing::Gone)?
    }

    /// The body that follows a head, whole.
    pub(super) async fn body(
        &mut self,
        body: Body,
        most: u64,
        limit: Duration,
    ) -> Result<Vec<u8>, Missing> {
        timeout(limit, self.read_body(body, most)).await.map_err(|_| Missing::Gone)?
    }

    async fn read_body(&mut self, body: Body, most: u64) -> Result<Vec<u8>, Missing> {
        match body {
            Body::None | Body::UntilEnd => Ok(Vec::new()),
            Body::Length(length) if length > most => Err(Missing::TooLarge),
            Body::Length(length) => {
                let length = usize::try_from(length).map_err(|_| Missing::TooLarge)?;
                while self.held.len() < length {
                    self.fill(length - self.held.len()).await?;
                }
                let rest = self.held.split_off(length);
                Ok(std::mem::replace(&mut self.held, rest))
            }
            Body::Chunked => {
                let (mut chunks, mut whole) = (Chunks::default(), Vec::new());
                loop {
                    let piece = chunks.next(&self.held);
                    match piece.map_err(|_| Missing::Malformed)? {
                        Piece::More => self.fill(0).await?,
                        Piece::Skip(count) => drop(self.held.drain(..count)),
                        Piece::Data(count) => {
                            if whole.len() as u64 + count as u64 > most {
                                return Err(Missing::TooLarge);
                            }
                            whole.extend(self.held.drain(..count));
                        }
                        Piece::End => return Ok(whole),
                    }
                }
            }
        }
    }

    /// Writes all of it. A client that takes nothing for too long is gone.
    pub(super) async fn write(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.socket.try_write(bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    timeout(self.idle, self.socket.writable())
                        .await
                        .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Ends once the client has gone away. What it sends ahead is kept for later.
    pub(super) async fn gone(&mut self) {
        while self.held.len() < AHEAD {
            if self.fill(0).await.is_err() {
                return;
            }
        }
        std::future::pending::<()>().await;
    }
}
