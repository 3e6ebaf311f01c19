//! Bytes of a connection that have come and are not done with, and the wait for more, which has an end.

use std::io;
use std::time::Instant;

use wire::proxy::head;

use crate::socket::{self, Timed};

/// A socket with what has come from it.
pub(super) struct Inlet<S> {
    pub(super) socket: S,
    pub(super) held: Vec<u8>,
    /// Bytes that have come in all.
    pub(super) came: u64,
}

impl<S: Timed> Inlet<S> {
    pub(super) fn new(socket: S) -> Inlet<S> {
        Inlet { socket, held: Vec::new(), came: 0 }
    }

    /// Waits for more until a moment. `false`: nothing more comes.
    pub(super) fn fill(&mut self, until: Instant) -> io::Result<bool> {
        let mut buffer = [0; 16 * 1024];
        let got = socket::read(&self.socket, &mut buffer, Some(until))?;
        self.came += got as u64;
        self.held.extend_from_slice(&buffer[..got]);
        Ok(got > 0)
    }

    /// Takes bytes from the front.
    pub(super) fn take(&mut self, count: usize) -> Vec<u8> {
        let rest = self.held.split_off(count.min(self.held.len()));
        std::mem::replace(&mut self.held, rest)
    }

    /// The next head, its empty line included. It must be whole by a moment.
    pub(super) fn head(&mut self, until: Instant) -> io::Result<Head> {
        let mut looked = 0;
        loop {
            // The mark may have begun in what was looked at before.
            let from = usize::saturating_sub(looked, 3);
            if let Some(end) = head::end(&self.held[from..]) {
                let end = from + end;
                return Ok(if end > head::MAX_HEAD {
                    Head::TooLong
                } else {
                    Head::Whole(self.take(end))
                });
            }
            if self.held.len() > head::MAX_HEAD {
                return Ok(Head::TooLong);
            }
            looked = self.held.len();
            if !self.fill(until)? {
                return Ok(if self.held.is_empty() { Head::None } else { Head::Half });
            }
        }
    }
}

/// What came instead of a head, or it.
pub(super) enum Head {
    /// It, its empty line included.
    Whole(Vec<u8>),
    /// The connection ended where a head could have begun.
    None,
    /// The connection ended in the middle.
    Half,
    /// It has no end within the limit.
    TooLong,
}
