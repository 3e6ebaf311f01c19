//! The pipes of a server's program. What it asks is heard no faster than it can be answered, and one that reads none of its
//! answers is taken for broken: they would wait in memory.

use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::unix::pipe;
use tokio::time::{Sleep, sleep};
use wire::halves::mend;

/// The most messages that are heard of a program that reads none. One that works alone at a long call may tell much of it.
const MOST_UNREAD: usize = 10_000;

/// How many bytes are read at once.
const CHUNK: usize = 8 << 10;

/// How many messages are heard in a millisecond. Large ones take longer anyway.
const PACE: usize = 32;

/// How a program behaves. Both pipes are on the same loop, so nobody waits for this.
#[derive(Debug, Default)]
struct Manners {
    /// Who waits to say something to it, because its pipe is full.
    waits: Option<Waker>,
    /// Messages of it since then.
    heard: usize,
    /// It is told nothing more.
    is_broken: bool,
}

type Shared = Arc<Mutex<Manners>>;

fn lock(manners: &Shared) -> MutexGuard<'_, Manners> {
    manners.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Its output. Most servers are written in JavaScript, and a half character in what one says must not cost its call.
#[derive(Debug)]
pub(super) struct Heard {
    pipe: pipe::Receiver,
    manners: Shared,
    /// What was read and not handed on, and how much of it stays as it is.
    read: Vec<u8>,
    stays: usize,
    /// Messages since the last pause, and the pause.
    paced: usize,
    pause: Option<Pin<Box<Sleep>>>,
}

/// Its input.
#[derive(Debug)]
pub(super) struct Told {
    pipe: pipe::Sender,
    manners: Shared,
}

pub(super) fn watched(heard: pipe::Receiver, told: pipe::Sender) -> (Heard, Told) {
    let manners = Shared::default();
    let heard = Heard {
        pipe: heard,
        manners: Arc::clone(&manners),
        read: Vec::new(),
        stays: 0,
        paced: 0,
        pause: None,
    };
    (heard, Told { pipe: told, manners })
}

impl Heard {
    /// Reads until there is something to hand on, or nothing more comes.
    fn poll_more(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut chunk = [0; CHUNK];
        while self.stays == 0 {
            let mut piece = ReadBuf::new(&mut chunk);
            ready!(Pin::new(&mut self.pipe).poll_read(cx, &mut piece))?;
            self.read.extend_from_slice(piece.filled());
            self.stays = mend(&mut self.read);
            if piece.filled().is_empty() {
                self.stays = self.read.len();
                break;
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for Heard {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Some(pause) = &mut self.pause {
            ready!(pause.as_mut().poll(cx));
            self.pause = None;
        }
        ready!(self.poll_more(cx))?;
        let count = self.stays.min(into.remaining());
        self.stays -= count;
        into.put_slice(&self.read[..count]);
        let messages =
            self.read.drain(..count).as_slice().iter().filter(|byte| **byte == b'\n').count();
        self.paced += messages;
        if self.paced > PACE {
            let millis = u64::try_from(self.paced / PACE).unwrap_or(u64::MAX);
            self.pause = Some(Box::pin(sleep(Duration::from_millis(millis))));
            self.paced = 0;
        }
        let mut manners = lock(&self.manners);
        if manners.waits.is_some() {
            manners.heard += messages;
            if manners.heard > MOST_UNREAD {
                manners.is_broken = true;
                manners.waits.take().into_iter().for_each(Waker::wake);
                let why = format!("it sent {MOST_UNREAD} messages and read none of the answers");
                return Poll::Ready(Err(io::Error::other(why)));
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Told {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if lock(&self.manners).is_broken {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let done = Pin::new(&mut self.pipe).poll_write(cx, bytes);
        let mut manners = lock(&self.manners);
        manners.waits = done.is_pending().then(|| cx.waker().clone());
        if done.is_ready() {
            manners.heard = 0;
        }
        drop(manners);
        done
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.pipe).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.pipe).poll_shutdown(cx)
    }
}
