//! One client of the proxy: which protocol it speaks, and the tunnels that it asks for.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Instant;

use machine::policy::hosts::{Decision, Host, Manner};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;
use wire::proxy::head::{Form, own_answer};
use wire::proxy::hello::{self, Hello};
use wire::proxy::socks::{self, Code};

use super::inlet::Inlet;
use super::plain;
use super::pump::pump;
use super::reach::{Missed, Reached, judge, note_missed, reach};
use super::{Shared, Socket};

/// What tells a TLS client that the name of the server is not known here.
const UNRECOGNISED_NAME: [u8; 7] = [21, 3, 3, 0, 2, 2, 112];

/// The protocol that a tunnel is asked for in.
#[derive(Clone, Copy)]
pub(super) enum Asked {
    Http,
    Socks,
}

pub(super) type Guest<'a> = Inlet<&'a UnixStream>;

/// Serves a client until it or the proxy ends.
pub(super) fn serve(stream: &UnixStream, shared: &Arc<Shared>) -> io::Result<()> {
    let limits = &shared.options.limits;
    stream.set_write_timeout(Some(limits.idle))?;
    let _held = shared.hold(Socket::Unix(stream.try_clone()?))?;
    let mut guest = Inlet::new(stream);
    let until = Instant::now() + limits.head;
    if !guest.fill(until)? {
        return Ok(());
    }
    match guest.held[0] {
        socks::VERSION => serve_socks(&mut guest, shared, until),
        _ => plain::serve(&mut guest, shared, Form::Proxy, until),
    }
}

fn serve_socks(guest: &mut Guest<'_>, shared: &Arc<Shared>, until: Instant) -> io::Result<()> {
    let refuse = |host: &str, port: u16, reason: &str| {
        let missed = Missed { decision: Decision::Refused, reason: reason.to_owned() };
        note_missed(shared, host, port, &missed);
    };
    let greeting = loop {
        match socks::greeting(&guest.held) {
            Ok(Some((greeting, used))) => {
                guest.take(used);
                break greeting;
            }
            Ok(None) if guest.fill(until)? => {}
            Ok(None) => return Ok(()),
            Err(fault) => {
                refuse("", 0, &fault.reason);
                return Ok(());
            }
        }
    };
    guest.socket.write_all(&socks::welcome(greeting))?;
    if !greeting.open {
        refuse("", 0, "the SOCKS client insists on authentication, which there is none of");
        return Ok(());
    }
    loop {
        match socks::request(&guest.held) {
            Ok(Some((request, used))) => {
                guest.take(used);
                return tunnel(guest, shared, Asked::Socks, &request.host, request.port);
            }
            Ok(None) if guest.fill(until)? => {}
            Ok(None) => return Ok(()),
            Err(wrong) => {
                refuse(&wrong.fault.host, wrong.port, &wrong.fault.reason);
                return guest.socket.write_all(&socks::reply(wrong.code));
            }
        }
    }
}

/// Gives a tunnel to a host, if it may be reached and what goes through it is what its port is for.
pub(super) fn tunnel(
    guest: &mut Guest<'_>,
    shared: &Arc<Shared>,
    asked: Asked,
    host: &Host,
    port: u16,
) -> io::Result<()> {
    let manner = (shared.options.manner)(port);
    if manner == Manner::Http {
        return match judge(shared, host, port) {
            Err(missed) => miss(guest, shared, asked, host, port, &missed),
            Ok(_) => {
                accept(guest, asked)?;
                let until = Instant::now() + shared.options.limits.idle;
                plain::serve(guest, shared, Form::Tunnel(host, port), until)
            }
        };
    }
    let mut reached = match reach(shared, host, port) {
        Ok(reached) => reached,
        Err(missed) => return miss(guest, shared, asked, host, port, &missed),
    };
    accept(guest, asked)?;
    if let Err(reason) = check_beginning(guest, shared, &reached, manner)? {
        reached.refuse(&reason);
        return guest.socket.write_all(&UNRECOGNISED_NAME);
    }
    reached.open();
    let first = guest.take(usize::MAX);
    let idle = Some(shared.options.limits.idle);
    let carried = pump(guest.socket, &reached.stream, &first, idle, &mut reached.counts);
    if let Err(error) = carried {
        reached.end = error.to_string();
    }
    Ok(())
}

fn accept(guest: &Guest<'_>, asked: Asked) -> io::Result<()> {
    let mut socket = guest.socket;
    match asked {
        Asked::Http => socket.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n"),
        Asked::Socks => socket.write_all(&socks::reply(Code::Done)),
    }
}

fn miss(
    guest: &Guest<'_>,
    shared: &Shared,
    asked: Asked,
    host: &Host,
    port: u16,
    missed: &Missed,
) -> io::Result<()> {
    note_missed(shared, &host.to_string(), port, missed);
    let mut socket = guest.socket;
    let refused = missed.decision == Decision::Refused;
    match asked {
        Asked::Http => socket.write_all(&answer_missed(missed)),
        Asked::Socks => {
            socket.write_all(&socks::reply(if refused { Code::Refused } else { Code::Unreachable }))
        }
    }
}

/// What an HTTP client is told about a wish that came to nothing.
pub(super) fn answer_missed(missed: &Missed) -> Vec<u8> {
    match missed.decision {
        Decision::Refused => own_answer(403, "Forbidden", &missed.reason),
        _ => own_answer(502, "Bad Gateway", &missed.reason),
    }
}

/// Looks at the first bytes of a tunnel and keeps them. The inner error says why it is refused.
fn check_beginning(
    guest: &mut Guest<'_>,
    shared: &Shared,
    reached: &Reached,
    manner: Manner,
) -> io::Result<Result<(), String>> {
    let limits = &shared.options.limits;
    if manner == Manner::Any {
        // Whoever speaks first: a server that does is no TLS server.
        if guest.held.is_empty() && !speaks_first(guest, reached, shared)? {
            return Ok(Ok(()));
        }
        let idle = Instant::now() + limits.idle;
        if (guest.held.is_empty() && !guest.fill(idle)?) || guest.held[0] != hello::HANDSHAKE {
            return Ok(Ok(()));
        }
    }
    let until = Instant::now() + limits.head;
    loop {
        match hello::server_name(&guest.held) {
            Err(fault) => return Ok(Err(fault.reason)),
            Ok(Hello::Named(name)) => {
                let checked = reached.grant.check_server_name(name.as_deref());
                return Ok(checked.map_err(|refusal| refusal.to_string()));
            }
            Ok(Hello::More) => match guest.fill(until) {
                Ok(true) => {}
                Ok(false) => {
                    return Ok(Err("the connection ended before it asked for a server".to_owned()));
                }
                Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                    return Ok(Err("the first message of TLS did not come in time".to_owned()));
                }
                Err(error) => return Err(error),
            },
        }
    }
}

/// Whether the client is the one who speaks first.
fn speaks_first(guest: &Guest<'_>, reached: &Reached, shared: &Shared) -> io::Result<bool> {
    let mut waiting = [
        PollFd::from_borrowed_fd(guest.socket.as_fd(), PollFlags::IN),
        PollFd::from_borrowed_fd(reached.stream.as_fd(), PollFlags::IN),
    ];
    let time = Timespec::try_from(shared.options.limits.idle).ok();
    loop {
        match poll(&mut waiting, time.as_ref()) {
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
            Ok(0) => return Err(io::Error::from(io::ErrorKind::TimedOut)),
            Ok(_) => return Ok(!waiting[0].revents().is_empty()),
        }
    }
}
