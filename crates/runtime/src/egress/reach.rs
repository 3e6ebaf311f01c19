//! From a wish to a connection: judged, resolved once, judged again, connected to exactly what was judged.

use std::io;
use std::net::{IpAddr, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use machine::policy::hosts::{Admitted, Decision, Grant, Host, Passage, Refusal};

use super::pump::Counts;
use super::{Held, Shared, Socket};

/// How many addresses of a name are tried.
const TRIED: usize = 4;

/// Why there is no connection.
pub(super) struct Missed {
    /// `Refused` or `Failed`.
    pub(super) decision: Decision,
    pub(super) reason: String,
}

impl From<Refusal> for Missed {
    fn from(refusal: Refusal) -> Missed {
        Missed { decision: Decision::Refused, reason: refusal.to_string() }
    }
}

impl Missed {
    fn failed(reason: String) -> Missed {
        Missed { decision: Decision::Failed, reason }
    }
}

/// A connection to a host that was allowed. Nothing has been sent yet; its end is told to the log once it was opened.
pub(super) struct Reached {
    pub(super) stream: TcpStream,
    pub(super) grant: Grant,
    pub(super) counts: Counts,
    /// Why it ended, if there is something to say.
    pub(super) end: String,
    shared: Arc<Shared>,
    opened: bool,
    _held: Held,
}

impl Reached {
    /// Tells the log, before the first byte goes out.
    pub(super) fn open(&mut self) {
        let address = self.stream.peer_addr().map(|address| address.ip().to_string());
        self.opened = true;
        self.note(Decision::Allowed, format!("to {}", address.unwrap_or_default()));
    }

    /// Tells the log that it was not to be after all.
    pub(super) fn refuse(&self, reason: &str) {
        self.note(Decision::Refused, reason.to_owned());
    }

    fn note(&self, decision: Decision, reason: String) {
        let Counts { up, down } = self.counts;
        let (host, port) = (self.grant.host().to_string(), self.grant.port());
        self.shared.note(Passage { host, port, decision, reason, bytes_up: up, bytes_down: down });
    }
}

impl Drop for Reached {
    fn drop(&mut self) {
        if self.opened {
            let end = std::mem::take(&mut self.end);
            self.note(Decision::Ended, end);
        }
    }
}

/// Tells the log of a wish that came to nothing.
pub(super) fn note_missed(shared: &Shared, host: &str, port: u16, missed: &Missed) {
    shared.note(Passage {
        host: host.to_owned(),
        port,
        decision: missed.decision,
        reason: missed.reason.clone(),
        bytes_up: 0,
        bytes_down: 0,
    });
}

/// Judges the name and the port.
pub(super) fn judge(shared: &Shared, host: &Host, port: u16) -> Result<Grant, Missed> {
    if shared.is_full() {
        return Err(Refusal::because("the log of connections is full").into());
    }
    Ok(shared.allowed.grant(host, port)?)
}

/// Connects to a host, if it may be reached.
pub(super) fn reach(shared: &Arc<Shared>, host: &Host, port: u16) -> Result<Reached, Missed> {
    let grant = judge(shared, host, port)?;
    let addresses = match host {
        Host::Address(address) => vec![*address],
        Host::Name(name) => resolve(shared, name)?,
    };
    let mut admitted: Vec<Admitted> = Vec::new();
    let mut refused = None;
    for address in addresses {
        match grant.admit(address) {
            Ok(address) => admitted.push(address),
            Err(refusal) => refused = refused.or(Some(refusal)),
        }
    }
    let mut problem = match refused {
        Some(refusal) if admitted.is_empty() => return Err(refusal.into()),
        _ => format!("{host} leads to no address"),
    };
    for address in admitted.into_iter().take(TRIED) {
        match TcpStream::connect_timeout(&address.address(), shared.options.limits.connect) {
            Ok(stream) => {
                return hold(shared, grant, stream)
                    .map_err(|error| Missed::failed(error.to_string()));
            }
            Err(error) => problem = format!("cannot connect to {}: {error}", address.address()),
        }
    }
    Err(Missed::failed(problem))
}

fn hold(shared: &Arc<Shared>, grant: Grant, stream: TcpStream) -> io::Result<Reached> {
    stream.set_nodelay(true)?;
    stream.set_write_timeout(Some(shared.options.limits.idle))?;
    let held = shared.hold(Socket::Tcp(stream.try_clone()?))?;
    let (counts, end) = (Counts::default(), String::new());
    Ok(Reached {
        stream,
        grant,
        counts,
        end,
        shared: Arc::clone(shared),
        opened: false,
        _held: held,
    })
}

/// Resolves a name once. The system's resolver has no time limit of its own, so it is asked on a thread that may be
/// left behind.
fn resolve(shared: &Arc<Shared>, name: &str) -> Result<Vec<IpAddr>, Missed> {
    let (sender, receiver) = sync_channel(1);
    let (own, asked) = (Arc::clone(shared), name.to_owned());
    std::thread::Builder::new()
        .name("egress-resolve".to_owned())
        .spawn(move || {
            let _ = sender.send((own.options.resolver)(&asked));
        })
        .map_err(|error| Missed::failed(error.to_string()))?;
    match receiver.recv_timeout(shared.options.limits.connect) {
        Ok(Ok(addresses)) => Ok(addresses),
        Ok(Err(error)) => Err(Missed::failed(format!("cannot resolve {name}: {error}"))),
        Err(_) => Err(Missed::failed(format!("cannot resolve {name}: no answer in time"))),
    }
}
