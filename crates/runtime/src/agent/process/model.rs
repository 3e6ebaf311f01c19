//! A live process asks another model: it is told so between two turns, and says whether it will.

use std::time::{Duration, Instant};

use super::super::lock;
use super::Process;
use crate::process::Cancel;

/// How long it may take to answer; it asks nobody for that.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);

impl Process {
    /// Whether it asks this model from here on. One that refuses, or does not answer, is of no use for that.
    pub(super) fn asks_model(&self, model: Option<&str>, cancel: &Cancel) -> bool {
        if lock(&self.model).as_deref() == model {
            return true;
        }
        let Some(order) = self.program.to_model(model) else { return false };
        lock(&self.hearing).model_set = None;
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
