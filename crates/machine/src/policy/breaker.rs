//! When a server is left alone: after several failures in a row nobody asks it for a while, then one question is
//! let through, and its fate decides.
//!
//! A breaker is about what one process sees of a server, so it belongs to the process and is not journaled: another
//! process, or the same one after a restart, looks for itself. What it does to a task is journaled all the same,
//! because each refusal is a failed call like any other.

use std::collections::BTreeMap;

use crate::time::{Span, Timestamp};

/// The kind of a call that was not made because its server is left alone.
pub const KIND: &str = "circuit_open";

/// Failures in a row after which a server is left alone.
const FAILURES: u32 = 5;

/// How long it is left alone.
const REST: Span = Span::seconds(30);

/// Failures further apart than this are no row.
const WINDOW: Span = Span::seconds(600);

/// What a call tells about its server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Report {
    /// It works: it answered, if only to refuse.
    Works,
    /// It does not.
    Fails,
    /// Nothing.
    Nothing,
}

/// What the end of a call tells; `None` is a whole answer, else the kind of its failure.
pub fn report(kind: Option<&str>) -> Report {
    match kind {
        None => Report::Works,
        Some("transport" | "overloaded" | "server" | "idle_timeout" | "total_timeout") => {
            Report::Fails
        }
        // Refused by its own rules: it is there.
        Some(
            "client" | "history" | "auth" | "rate_limited" | "quota" | "context_overflow"
            | "stale_thinking" | "too_large" | "content_filter",
        ) => Report::Works,
        // What was never sent, was stopped here, or broke off tells neither.
        Some(_) => Report::Nothing,
    }
}

/// What is known about all servers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Breaker {
    endpoints: BTreeMap<String, Endpoint>,
}

/// A server that has failed. One that works is not kept.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Endpoint {
    /// In a row.
    failures: u32,
    last: Timestamp,
    /// Left alone until then, once it failed often enough.
    until: Option<Timestamp>,
    /// Since when one question is on its way to see whether it works again.
    probe: Option<Timestamp>,
}

impl Breaker {
    /// Whether the server may be asked now; else how long to wait.
    pub fn admit(&mut self, endpoint: &str, now: Timestamp) -> Result<(), Span> {
        let Some(known) = self.endpoints.get_mut(endpoint) else { return Ok(()) };
        let Some(until) = known.until else { return Ok(()) };
        if until > now {
            // A clock that went back must not keep everybody away.
            return Err(until.since(now).min(REST));
        }
        if known.probe.is_some() {
            return Err(REST);
        }
        known.probe = Some(now);
        Ok(())
    }

    /// The server has begun to answer. That is enough to let others ask; if the answer comes to nothing, the next
    /// failure counts as the last of a row.
    pub fn began(&mut self, endpoint: &str) {
        if let Some(known) = self.endpoints.get_mut(endpoint)
            && known.probe.take().is_some()
        {
            known.until = None;
            known.failures = FAILURES - 1;
        }
    }

    /// What a call that was admitted came to. To be told exactly once for each.
    pub fn tell(&mut self, endpoint: &str, report: Report, now: Timestamp) {
        match report {
            Report::Works => {
                self.endpoints.remove(endpoint);
            }
            Report::Nothing => {
                // Whoever asks next finds out.
                if let Some(known) = self.endpoints.get_mut(endpoint) {
                    known.probe = None;
                }
            }
            Report::Fails => {
                let new = Endpoint { failures: 0, last: now, until: None, probe: None };
                let known = self.endpoints.entry(endpoint.to_owned()).or_insert(new);
                if known.until.is_none() && now.since(known.last) > WINDOW {
                    known.failures = 0;
                }
                known.failures = known.failures.saturating_add(1);
                known.last = now;
                known.probe = None;
                if known.failures >= FAILURES {
                    known.until = Some(now.after(REST));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "https://a.example";

    fn at(seconds: i64) -> Timestamp {
        Timestamp(seconds * 1000)
    }

    /// Failed so often, the last time at this moment.
    fn failed(times: u32, last: i64) -> Breaker {
        let mut breaker = Breaker::default();
        for _ in 0..times {
            assert_eq!(breaker.admit(A, at(last)), Ok(()));
            breaker.tell(A, Report::Fails, at(last));
        }
        breaker
    }

    #[test]
    fn five_failures_in_a_row_and_nobody_asks_for_a_while() {
        let mut breaker = failed(4, 100);
        assert_eq!(breaker.admit(A, at(100)), Ok(()));
        breaker.tell(A, Report::Fails, at(101));
        assert_eq!(breaker.admit(A, at(101)), Err(Span::seconds(30)));
        assert_eq!(breaker.admit(A, at(130)), Err(Span::seconds(1)));
        assert_eq!(breaker.admit(A, at(0)), Err(Span::seconds(30)), "a clock that went back");
        assert_eq!(breaker.admit("https://b.example", at(101)), Ok(()), "another server");
    }

    #[test]
    fn one_question_is_let_through_and_its_fate_decides() {
        for (report, after) in [
            (Report::Works, Ok(())),
            (Report::Fails, Err(Span::seconds(30))),
            (Report::Nothing, Ok(())),
        ] {
            let mut breaker = failed(5, 100);
            assert_eq!(breaker.admit(A, at(130)), Ok(()));
            assert_eq!(breaker.admit(A, at(130)), Err(Span::seconds(30)), "only one");
            breaker.tell(A, report, at(131));
            assert_eq!(breaker.admit(A, at(131)), after, "{report:?}");
        }
    }

    #[test]
    fn a_server_that_begins_to_answer_may_be_asked_and_one_more_failure_ends_that() {
        let mut breaker = failed(5, 100);
        assert_eq!(breaker.admit(A, at(130)), Ok(()));
        breaker.began(A);
        assert_eq!(breaker.admit(A, at(130)), Ok(()));
        assert_eq!(breaker.admit(A, at(130)), Ok(()));
        breaker.tell(A, Report::Fails, at(140));
        assert!(breaker.admit(A, at(140)).is_err());
        // It says nothing about a server that nobody doubts.
        let mut fine = failed(2, 100);
        fine.began(A);
        assert_eq!(fine, failed(2, 100));
    }

    #[test]
    fn a_row_is_broken_by_an_answer_and_by_time() {
        let mut breaker = failed(4, 100);
        breaker.tell(A, Report::Works, at(101));
        assert_eq!(breaker, Breaker::default());
        let mut breaker = failed(4, 100);
        breaker.tell(A, Report::Fails, at(701));
        assert_eq!(breaker.admit(A, at(701)), Ok(()));
        let mut breaker = failed(4, 100);
        breaker.tell(A, Report::Nothing, at(101));
        breaker.tell(A, Report::Fails, at(102));
        assert!(breaker.admit(A, at(102)).is_err());
    }

    #[test]
    fn what_is_wrong_with_the_question_is_not_the_servers_fault() {
        assert_eq!(report(None), Report::Works);
        for kind in ["transport", "overloaded", "server", "idle_timeout", "total_timeout"] {
            assert_eq!(report(Some(kind)), Report::Fails, "{kind}");
        }
        for kind in ["auth", "client", "rate_limited", "context_overflow"] {
            assert_eq!(report(Some(kind)), Report::Works, "{kind}");
        }
        for kind in ["cancelled", "config", "stream_truncated", KIND] {
            assert_eq!(report(Some(kind)), Report::Nothing, "{kind}");
        }
    }
}
