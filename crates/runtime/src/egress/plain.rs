//! Plain HTTP through the proxy: each request is judged anew and has a connection of its own to the server behind.
//!
//! Heads are written anew from what was read (`wire::proxy::head`) and bodies are counted or cut into chunks anew, so
//! the server behind cannot take one request for two.

use std::io::{self, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use machine::policy::hosts::Decision;
use wire::proxy::Fault;
use wire::proxy::chunks::{Chunks, Piece};
use wire::proxy::head::{Answer, Body, Form, Request, Wish, own_answer};

use super::Shared;
use super::guest::{Asked, Guest, answer_missed, tunnel};
use super::inlet::{Head, Inlet};
use super::reach::{Missed, Reached, note_missed, reach};
use crate::socket::Timed;

/// How many answers may come before the one that counts.
const PROVISIONAL: usize = 8;

/// Serves requests until the client, the proxy or a fault ends it. The first head must be whole by `until`.
pub(super) fn serve(
    guest: &mut Guest<'_>,
    shared: &Arc<Shared>,
    form: Form<'_>,
    mut until: Instant,
) -> io::Result<()> {
    loop {
        let head = match guest.head(until) {
            Ok(Head::Whole(head)) => head,
            Ok(Head::None) => return Ok(()),
            Ok(Head::Half) => {
                return refuse(guest, shared, form, &Fault::new("the request ends in its head"));
            }
            Ok(Head::TooLong) => {
                return refuse(guest, shared, form, &Fault::new("the head is longer than 32 KiB"));
            }
            Err(error) if error.kind() == io::ErrorKind::TimedOut && !guest.held.is_empty() => {
                return refuse(guest, shared, form, &Fault::new("the head did not come in time"));
            }
            Err(error) => return Err(error),
        };
        let request = match Request::parse(&head, form) {
            Ok(request) => request,
            Err(fault) => return refuse(guest, shared, form, &fault),
        };
        let goes_on = match &request.wish {
            Wish::Tunnel => return tunnel(guest, shared, Asked::Http, &request.host, request.port),
            Wish::Answer { method, .. } => exchange(guest, shared, &request, method)?,
        };
        if !goes_on {
            return Ok(());
        }
        if guest.held.is_empty() && !guest.fill(Instant::now() + shared.options.limits.idle)? {
            return Ok(());
        }
        until = Instant::now() + shared.options.limits.head;
    }
}

/// Answers what cannot be read. Nothing after it can be trusted to be a request, so the connection ends.
fn refuse(guest: &Guest<'_>, shared: &Shared, form: Form<'_>, fault: &Fault) -> io::Result<()> {
    let missed = Missed { decision: Decision::Refused, reason: fault.reason.clone() };
    match form {
        Form::Proxy => note_missed(shared, &fault.host, 0, &missed),
        Form::Tunnel(host, port) => note_missed(shared, &host.to_string(), port, &missed),
    }
    let mut socket = guest.socket;
    socket.write_all(&own_answer(400, "Bad Request", &fault.reason))
}

/// Carries one request and its answer. Whether another request can follow.
fn exchange(
    guest: &mut Guest<'_>,
    shared: &Arc<Shared>,
    request: &Request,
    method: &str,
) -> io::Result<bool> {
    let mut socket = guest.socket;
    let mut reached = match reach(shared, &request.host, request.port) {
        Ok(reached) => reached,
        Err(missed) => {
            note_missed(shared, &request.host.to_string(), request.port, &missed);
            socket.write_all(&answer_missed(&missed))?;
            return Ok(false);
        }
    };
    reached.open();
    let idle = shared.options.limits.idle;
    let sent = send_request(guest, &mut reached, request, idle);
    // A server may answer before it has heard all, and then stop listening; its answer is there or comes soon. Any
    // other fault is the client's, and half a request is not waited for.
    let mut heard = Heard { all: true, patience: idle };
    if let Err(error) = &sent {
        reached.end = error.to_string();
        if !matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset) {
            return Ok(false);
        }
        heard = Heard { all: false, patience: shared.options.limits.head.min(idle) };
    }
    let stream = reached.stream.try_clone()?;
    let mut server = Inlet::new(&stream);
    let carried = carry_answer(guest, &mut server, request, method, heard, idle);
    reached.counts.down = server.came;
    if let Err(error) = &carried {
        reached.end = error.to_string();
    }
    carried
}

/// What the server has heard of a request, and how long its answer is waited for.
struct Heard {
    all: bool,
    patience: Duration,
}

/// Carries the answer to the client. Whether the client was told that another request can follow.
fn carry_answer(
    guest: &Guest<'_>,
    server: &mut Inlet<&TcpStream>,
    request: &Request,
    method: &str,
    heard: Heard,
    idle: Duration,
) -> io::Result<bool> {
    let mut socket = guest.socket;
    let answer = match read_answer(server, method, heard.patience) {
        Ok(answer) => answer,
        Err(error) => {
            let missed = Missed { decision: Decision::Failed, reason: error.to_string() };
            socket.write_all(&answer_missed(&missed))?;
            return Err(error);
        }
    };
    let (whole, frames) = match answer.body {
        Body::None | Body::Length(_) => (true, Frames::Chunks),
        Body::Chunked if request.chunks => (true, Frames::Chunks),
        Body::Chunked | Body::UntilEnd => (false, Frames::Bare),
    };
    let keeps = request.keeps && whole && heard.all;
    socket.write_all(&answer.onward(request, keeps))?;
    carry_body(server, &mut socket, answer.body, frames, idle)?;
    Ok(keeps)
}

fn send_request(
    guest: &mut Guest<'_>,
    reached: &mut Reached,
    request: &Request,
    idle: Duration,
) -> io::Result<()> {
    let mut to = Counted { stream: &reached.stream, count: &mut reached.counts.up };
    to.write_all(&request.onward())?;
    if request.expects {
        let mut socket = guest.socket;
        socket.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
    }
    carry_body(guest, &mut to, request.body, Frames::Chunks, idle)
}

struct Counted<'a> {
    stream: &'a TcpStream,
    count: &'a mut u64,
}

impl Write for Counted<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut stream = self.stream;
        let sent = stream.write(bytes)?;
        *self.count += sent as u64;
        Ok(sent)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The answer that counts.
fn read_answer<S: Timed>(
    server: &mut Inlet<S>,
    method: &str,
    idle: Duration,
) -> io::Result<Answer> {
    let broken = |fault: Fault| io::Error::new(io::ErrorKind::InvalidData, fault.reason);
    for _ in 0..PROVISIONAL {
        let head = match server.head(Instant::now() + idle)? {
            Head::Whole(head) => head,
            Head::TooLong => {
                return Err(broken(Fault::new("the head of the answer is longer than 32 KiB")));
            }
            Head::None | Head::Half => {
                return Err(broken(Fault::new("the server ended without an answer")));
            }
        };
        let answer = Answer::parse(&head, method).map_err(broken)?;
        if !answer.is_provisional() {
            return Ok(answer);
        }
        if answer.status == 101 {
            return Err(broken(Fault::new(
                "the server changes to a protocol that nobody asked for",
            )));
        }
    }
    Err(broken(Fault::new("the server answers provisionally again and again")))
}

/// How chunks are passed on.
#[derive(Clone, Copy)]
enum Frames {
    Chunks,
    /// For a client that does not know them.
    Bare,
}

/// Carries a body of a known end. An end that comes too soon is an error.
fn carry_body<S: Timed>(
    from: &mut Inlet<S>,
    to: &mut impl Write,
    body: Body,
    frames: Frames,
    idle: Duration,
) -> io::Result<()> {
    let short = || io::Error::new(io::ErrorKind::UnexpectedEof, "a body ends before its time");
    match body {
        Body::None => Ok(()),
        Body::Length(mut left) => {
            while left > 0 {
                if from.held.is_empty() && !from.fill(Instant::now() + idle)? {
                    return Err(short());
                }
                let here = from.held.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                to.write_all(&from.take(here))?;
                left -= here as u64;
            }
            Ok(())
        }
        Body::Chunked => {
            let mut chunks = Chunks::default();
            loop {
                let piece = chunks.next(&from.held);
                match piece
                    .map_err(|fault| io::Error::new(io::ErrorKind::InvalidData, fault.reason))?
                {
                    Piece::More if from.fill(Instant::now() + idle)? => {}
                    Piece::More => return Err(short()),
                    Piece::Skip(count) => {
                        from.take(count);
                    }
                    Piece::Data(count) => match frames {
                        Frames::Bare => to.write_all(&from.take(count))?,
                        Frames::Chunks => {
                            let mut framed = format!("{count:x}\r\n").into_bytes();
                            framed.extend_from_slice(&from.take(count));
                            framed.extend_from_slice(b"\r\n");
                            to.write_all(&framed)?;
                        }
                    },
                    Piece::End => {
                        return match frames {
                            Frames::Bare => Ok(()),
                            Frames::Chunks => to.write_all(b"0\r\n\r\n"),
                        };
                    }
                }
            }
        }
        Body::UntilEnd => loop {
            let held = from.take(usize::MAX);
            to.write_all(&held)?;
            if !from.fill(Instant::now() + idle)? {
                return Ok(());
            }
        },
    }
}
