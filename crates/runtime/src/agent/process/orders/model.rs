//! A live process asks another model: it is told so before its prompt, and says whether it will.

use std::time::{Duration, Instant};

use super::super::super::{Turn, lock};
use super::Process;
use crate::inbox::Inbox;
use crate::process::Cancel;

/// How long it may take to answer; some ask the model a word first.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);

impl Process {
    /// Whether it asks the model of this turn from here on. One that refuses, or does not answer, is of no use for that.
    pub(super) fn asks_model(&self, turn: &Turn, inbox: &Inbox, cancel: &Cancel) -> bool {
        let model = turn.call.program.model.as_deref();
        if lock(&self.model).as_deref() == model {
            return true;
        }
        let Some(order) = self.program.to_model(model) else { return false };
        // It may try the model before it says that it will.
        self.begin_order(turn, inbox);
        let mut is_asked = false;
        let told = self.write(|codec| {
            let bytes = codec.order(order)?;
            is_asked = !bytes.is_empty();
            Ok(bytes)
        });
        // One that is told with its next prompt has nothing to answer.
        let is_set = told.is_ok() && (!is_asked || self.await_model(cancel));
        if is_set {
            *lock(&self.model) = model.map(str::to_owned);
        }
        is_set
    }

    fn await_model(&self, cancel: &Cancel) -> bool {
        let until = Instant::now() + ANSWER_LIMIT;
        let mut hearing = lock(&self.hearing);
        loop {
            if let Some(is_set) = hearing.model_set {
                return is_set;
            }
            if hearing.gone.is_some() || cancel.is_triggered() || Instant::now() >= until {
                return false;
            }
            hearing = self.wait(hearing);
        }
    }
}
