//! A claim did not hold. What follows is the loop's decision, by what failed and how often.

use crate::driver::Fact;
use crate::event::EventKind;
use crate::state::Phase;
use crate::step::Step;
use crate::task::{CriterionResult, Outcome};

impl Step<'_> {
    /// The driver gets the failures with the end of their output, unless that has happened too often.
    pub(crate) fn on_verdict_failed(&mut self, results: &[CriterionResult]) {
        let failed = results.iter().filter(|result| result.fails()).count();
        self.event(|| EventKind::VerdictFailed { failed });
        if let Some(reason) = self.state.data.streak.on_verdict_failed(results) {
            return self.finish(Outcome::Stuck, reason);
        }
        self.state.data.phase = Phase::Ready;
        let (driver, situation) = self.driver();
        driver.observe(&situation, &Fact::VerdictFailed(results));
    }
}
