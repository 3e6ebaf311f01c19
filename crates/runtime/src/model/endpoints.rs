//! What this process has seen of the servers that it asks: one breaker for all tasks, so that a thousand of them do
//! not ask a dead server one by one. The rules are in `machine::policy::breaker`.

use std::sync::{Mutex, MutexGuard, PoisonError};

use machine::policy::breaker::{self, Breaker, Report};
use wire::model::{Answer, ErrorKind, ModelError, Retry};

use crate::clock::{Clock, SystemClock};

/// All servers.
#[derive(Debug, Default)]
pub(super) struct Endpoints(Mutex<Breaker>);

impl Endpoints {
    /// Lets a call to the server pass, or says when to come again.
    pub(super) fn admit<'a>(&'a self, endpoint: &'a str) -> Result<Admission<'a>, ModelError> {
        match self.lock().admit(endpoint, SystemClock.now()) {
            Ok(()) => {
                Ok(Admission { endpoints: self, endpoint, begun: false, report: Report::Nothing })
            }
            Err(wait) => {
                let told = format!("{endpoint} failed too often just now and is left alone");
                let mut error = ModelError::new(ErrorKind::CircuitOpen, told);
                error.retry = Retry::After(wait.0);
                Err(error)
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Breaker> {
        // Each change of a breaker is whole or not there.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call that was let pass. It reports when it is dropped, however it ends: one that tells nothing makes room for
/// the next.
#[derive(Debug)]
pub(super) struct Admission<'a> {
    endpoints: &'a Endpoints,
    endpoint: &'a str,
    begun: bool,
    report: Report,
}

impl Admission<'_> {
    /// The server begins to answer.
    pub(super) fn began(&mut self) {
        if !std::mem::replace(&mut self.begun, true) {
            self.endpoints.lock().began(self.endpoint);
        }
    }

    /// What came of it.
    pub(super) fn ended(&mut self, answer: &Answer) {
        let kind = answer.as_ref().err().map(|error| error.kind.word());
        self.report = breaker::report(kind);
    }
}

impl Drop for Admission<'_> {
    fn drop(&mut self) {
        let now = SystemClock.now();
        self.endpoints.lock().tell(self.endpoint, self.report, now);
    }
}
