//! A claim did not hold. What follows is the loop's decision, by what failed and how often.

use crate::activity::recovery::Failure;
use crate::cause::Cause;
use crate::driver::Fact;
use crate::event::EventKind;
use crate::state::Phase;
use crate::step::Step;
use crate::task::{CriterionKind, CriterionResult};

impl Step<'_> {
    /// The driver gets the failures with the end of their output; then the next rung is tried, unless it is one more
    /// of the same.
    pub(crate) fn on_verdict_failed(&mut self, results: &[CriterionResult]) {
        let failed = results.iter().filter(|result| result.fails()).count();
        self.event(|| EventKind::VerdictFailed { failed });
        self.count_idle_turn();
        self.state.data.phase = Phase::Ready;
        let (driver, situation) = self.driver();
        driver.observe(&situation, &Fact::VerdictFailed(results));
        let cause = Cause::VerdictFailed { criteria: self.failed_kinds(results) };
        let data = &mut self.state.data;
        data.course.trouble = Some(cause.clone());
        data.course.verdict = results.to_vec();
        let tree = data.frozen.as_ref().map(|frozen| frozen.tree.as_str());
        let limits = data.spec.recovery.stuck;
        let found = data.streak.on_verdict_failed(results, tree, &limits);
        match found {
            // Something that has not been tried comes before giving in.
            Some(found) if !self.has_another_way(&cause) => return self.on_no_progress(found),
            Some(_) | None => {}
        }
        let titles: Vec<&str> = results
            .iter()
            .filter(|result| result.fails())
            .map(|result| result.title.as_str())
            .collect();
        let reason = match titles.len() {
            0 => "not all criteria were checked".to_owned(),
            _ => format!("not accepted: {}", titles.join("; ")),
        };
        self.recover(Failure { cause, reason, gave_up: false });
    }

    fn failed_kinds(&self, results: &[CriterionResult]) -> Vec<CriterionKind> {
        let criteria = self.state.data.spec.criteria();
        // What was found instead of checking them is of no kind.
        if criteria.len() != results.len() {
            return Vec::new();
        }
        let failed = criteria.iter().zip(results).filter(|(_, result)| result.fails());
        let mut kinds: Vec<CriterionKind> = failed.map(|(criterion, _)| criterion.kind()).collect();
        kinds.sort_unstable();
        kinds.dedup();
        kinds
    }
}
