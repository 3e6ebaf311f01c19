//! Judges: models that are asked once everything else has passed. Their answers cost like any other, and a judge that
//! cannot be asked, or says nothing that can be read, has not passed anything.
//!
//! All of it is in the phase: a process that takes the task up, or a task that goes on after a pause, asks the same
//! question under the same number.

use crate::acceptance::judge::{Judging, Opinion, Work, question, read_reply};
use crate::effect::Effect;
use crate::event::EventKind;
use crate::message::{ModelFailure, Reply};
use crate::policy::retry;
use crate::state::{Pending, Phase};
use crate::step::Step;
use crate::task::{Criterion, CriterionResult};
use crate::time::{Span, Timestamp};
use crate::verdict::Verdict;

/// How often a judge may answer with something that is no verdict.
const NO_VERDICTS: u32 = 2;

impl Step<'_> {
    /// Goes on to the judges if everything else passed; false if there is nothing for them to do. What the verdict says
    /// in their places is nobody's opinion and is replaced.
    pub(crate) fn begin_judging(&mut self, summary: &str, verdict: &mut Verdict) -> bool {
        let criteria = self.state.data.spec.criteria();
        if criteria.len() != verdict.results.len() {
            return false;
        }
        let mut open = Vec::new();
        for (place, criterion) in criteria.iter().enumerate() {
            if let Criterion::Judge { .. } = criterion {
                verdict.results[place] = CriterionResult {
                    title: criterion.title(),
                    evidence: "not asked: other criteria failed".to_owned(),
                    // What was not asked has not said no.
                    advisory: true,
                    ..CriterionResult::default()
                };
                open.push(place);
            }
        }
        if open.is_empty() || verdict.results.iter().any(CriterionResult::fails) {
            return false;
        }
        self.state.data.phase = Phase::Judging(Box::new(Judging {
            summary: summary.to_owned(),
            verdict: verdict.clone(),
            open,
            question: None,
            asked: None,
            unread: 0,
            failures: 0,
            waited: Span::default(),
            again_at: None,
        }));
        true
    }

    /// Asks the next judge, or settles the verdict after the last one; true if there is more to do at once. Called when
    /// the task may move, so nothing is asked while it is held.
    pub(crate) fn judge(&mut self) -> bool {
        let waits = |pending: &Pending| matches!(pending, Pending::Judge | Pending::JudgeTimer);
        if self.state.data.pending.values().any(waits) {
            return false;
        }
        let Phase::Judging(judging) = &self.state.data.phase else { return false };
        let mut judging = judging.clone();
        let Some(place) = judging.open.first().copied() else {
            self.settle_verdict(judging.summary, &judging.verdict);
            return true;
        };
        if let Some(at) = judging.again_at.filter(|at| *at > self.now) {
            let id = self.expect(Pending::JudgeTimer);
            self.output.effects.push(Effect::SetTimer { id, at });
            return false;
        }
        let criteria = self.state.data.spec.criteria();
        let Some(Criterion::Judge { model, rubric, .. }) = criteria.get(place) else {
            // Only places of judges are open, and criteria never change.
            return false;
        };
        let goal = self.state.data.spec.goal.clone();
        let work = Work { goal: &goal, rubric, verdict: &judging.verdict, own: place };
        let mut call = question(model, &work, judging.unread > 0);
        let data = &mut self.state.data;
        call.question = *judging.question.get_or_insert_with(|| {
            data.questions += 1;
            data.questions
        });
        judging.asked.get_or_insert(self.now);
        judging.again_at = None;
        let (criterion, model) = (criteria[place].title(), model.clone());
        let folder = data.spec.folder.clone();
        data.phase = Phase::Judging(judging);
        let id = self.expect(Pending::Judge);
        self.output.effects.push(Effect::CallModel { id, call, folder });
        self.event(|| EventKind::JudgeAsked { criterion, model });
        false
    }

    pub(crate) fn on_judged(&mut self, reply: Result<Reply, ModelFailure>) {
        let usage = self.pay(&reply);
        let Phase::Judging(judging) = &self.state.data.phase else { return };
        let mut judging = judging.clone();
        let Some(place) = judging.open.first().copied() else { return };
        let criterion = judging.verdict.results[place].title.clone();
        let opinion = match &reply {
            Ok(reply) => read_reply(reply),
            Err(failure) => {
                Err(format!("it could not be asked ({}): {}", failure.kind, failure.message))
            }
        };
        let problem = opinion.as_ref().err().cloned();
        self.event(|| EventKind::JudgeReplied { criterion, usage, problem });
        let settled = match (&reply, opinion) {
            (_, Ok(opinion)) => Some(opinion),
            (Ok(_), Err(problem)) => {
                judging.unread += 1;
                judging.question = None;
                (judging.unread >= NO_VERDICTS).then(|| no_verdict(&problem))
            }
            (Err(failure), Err(problem)) => {
                judging.again_at =
                    self.after_failure(failure, &mut judging.failures, &mut judging.waited);
                judging.again_at.is_none().then(|| no_verdict(&problem))
            }
        };
        if let Some(opinion) = settled {
            self.fill(&mut judging, place, opinion);
        }
        self.state.data.phase = Phase::Judging(judging);
    }

    /// When a judge that could not be asked is asked again, if that may help.
    fn after_failure(
        &self,
        failure: &ModelFailure,
        failures: &mut u32,
        waited: &mut Span,
    ) -> Option<Timestamp> {
        if retry::counts(failure) {
            *failures += 1;
        }
        let data = &self.state.data;
        let asked = retry::Asked {
            failures: *failures,
            waited: *waited,
            wasted: data.spend.wasted_requests(),
        };
        let salt = retry::salt(&data.id, data.last_effect);
        let wait = retry::wait(failure, asked, &data.spec.recovery.waits, salt)?;
        if retry::is_own(failure) {
            waited.0 = waited.0.saturating_add(wait.0);
        }
        Some(self.now.after(wait))
    }

    fn fill(&mut self, judging: &mut Judging, place: usize, opinion: Opinion) {
        let decides = matches!(
            self.state.data.spec.criteria().get(place),
            Some(Criterion::Judge { decides: true, .. })
        );
        let asked = judging.asked.take().unwrap_or(self.now);
        let result = &mut judging.verdict.results[place];
        result.passed = opinion.pass;
        result.evidence = opinion.reason;
        result.advisory = !decides;
        result.millis = self.now.since(asked).0;
        let result = result.clone();
        self.event(|| EventKind::CriterionChecked { result });
        judging.open.remove(0);
        (judging.question, judging.unread, judging.failures) = (None, 0, 0);
        judging.waited = Span::default();
    }
}

fn no_verdict(problem: &str) -> Opinion {
    Opinion { pass: false, reason: format!("the judge gave no verdict: {problem}") }
}
