//! How often an answer is read that comes in many small pieces. To be woken for a piece costs more than to read it: of one
//! that comes fast, what belongs to one picture is read together.

use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use tokio::net::TcpStream;

use crate::live::PICTURE;

/// Pieces come fast that follow each other within this time, ...
const CLOSE: Duration = Duration::from_millis(5);

/// ... once so many have. A short answer waits for nothing, and the first words of a long one neither.
const MANY: u32 = 8;

/// How many bytes are read at once in any case.
const PLENTY: i32 = 16 << 10;

/// How fast the pieces of an answer come.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// How many followed closely.
    close: u32,
}

impl Pace {
    /// A piece has come, so long after the one before.
    pub(super) fn hear(&mut self, after: Duration) {
        let closely = if self.is_fast() { PICTURE + CLOSE } else { CLOSE };
        self.close = if after < closely { self.close.saturating_add(1) } else { 0 };
    }

    /// Until when the next pieces may gather after one of so many bytes, if they may.
    pub(super) fn rest(&self, heard: Instant, bytes: usize) -> Option<Instant> {
        // What comes in large pieces is no text that somebody reads along.
        (self.is_fast() && bytes < PLENTY as usize).then(|| heard + PICTURE)
    }

    fn is_fast(&self) -> bool {
        self.close >= MANY
    }
}

/// Waits until then, or until there is plenty to read, or nothing more will come; what comes meanwhile wakes nobody.
pub(super) async fn gather(stream: &TcpStream, until: Instant) {
    wake_at(stream, PLENTY);
    // What it has to tell, whoever reads next is told.
    let _ = tokio::time::timeout_at(until.into(), stream.readable()).await;
    wake_at(stream, 1);
}

/// Has the kernel report a stream as readable once it holds so many bytes. Where it does not, each piece is reported.
#[allow(unsafe_code)]
fn wake_at(stream: &TcpStream, bytes: i32) {
    let size = size_of_val(&bytes) as libc::socklen_t;
    let value = std::ptr::from_ref(&bytes).cast();
    // SAFETY: the descriptor is open as long as the stream is borrowed, and the kernel reads `size` bytes of a value that
    // lives until the call returns.
    unsafe {
        libc::setsockopt(stream.as_raw_fd(), libc::SOL_SOCKET, libc::SO_RCVLOWAT, value, size);
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream as Server};
    use std::time::{Duration, Instant};

    use tokio::net::TcpStream;

    use super::{CLOSE, MANY, PICTURE, PLENTY, Pace, gather};

    const LONG: Duration = Duration::from_secs(600);

    fn heard(pace: &mut Pace, times: u32, after: Duration) -> bool {
        (0..times).for_each(|_| pace.hear(after));
        pace.rest(Instant::now(), 100).is_some()
    }

    #[test]
    fn only_what_comes_fast_for_a_while_is_gathered() {
        let mut pace = Pace::default();
        assert!(!heard(&mut pace, 100, CLOSE), "too slow");
        assert!(!heard(&mut pace, MANY - 1, Duration::ZERO), "a short answer");
        assert!(heard(&mut pace, 1, Duration::ZERO));
        assert!(heard(&mut pace, 100, PICTURE), "what was gathered is read as late as this");
        assert!(!heard(&mut pace, 1, PICTURE + CLOSE), "nothing was there: it has become slow");
        assert!(!heard(&mut pace, MANY - 1, Duration::ZERO));
        assert!(heard(&mut pace, 1, Duration::ZERO));
        assert_eq!(pace.rest(Instant::now(), PLENTY as usize), None, "a large piece");
    }

    /// Both ends of a connection, inside a runtime.
    fn connected<F: Future<Output = ()>>(test: impl FnOnce(TcpStream, Server) -> F) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
            test(client, listener.accept().unwrap().0).await;
        });
    }

    #[test]
    fn a_piece_wakes_nobody_before_its_time_and_is_there_then() {
        connected(|client, mut server| async move {
            let (begun, rest) = (Instant::now(), Duration::from_millis(100));
            let writes = std::thread::spawn(move || {
                std::thread::sleep(rest / 5);
                server.write_all(b"one").unwrap();
                server
            });
            gather(&client, begun + rest).await;
            assert!(begun.elapsed() >= rest);
            client.readable().await.unwrap();
            assert_eq!(client.try_read(&mut [0; 9]).unwrap(), 3);
            let mut server = writes.join().unwrap();
            server.write_all(b"four").unwrap();
            while client.try_read(&mut [0; 9]).is_err() {
                client.readable().await.unwrap();
            }
        });
    }

    #[test]
    fn plenty_and_the_end_are_not_waited_for() {
        connected(|client, mut server| async move {
            server.write_all(&[b'x'; PLENTY as usize]).unwrap();
            gather(&client, Instant::now() + LONG).await;
            drop(server);
            let mut client = client.into_std().unwrap();
            client.set_nonblocking(false).unwrap();
            assert_eq!(client.read_to_end(&mut Vec::new()).unwrap(), PLENTY as usize);
        });
        connected(|client, mut server| async move {
            server.write_all(b"the rest").unwrap();
            drop(server);
            gather(&client, Instant::now() + LONG).await;
        });
    }
}
