//! Rows: one step after the other, and where each leads.

use super::Run;
use crate::driver::workflow::End;
use crate::driver::workflow::definition::*;
use crate::driver::workflow::frame::{Address, RowFrame, Stage};
use crate::driver::workflow::result::{self, Ended};
use crate::driver::workflow::scope::{Layer, Scope};

impl Run<'_> {
    /// A row of steps, to its end or as far as it goes.
    pub(in crate::driver::workflow) fn row(
        &mut self,
        row: &Row,
        frame: &mut RowFrame,
        outer: &Scope<'_>,
        address: &mut Address,
    ) -> Option<Result<(), End>> {
        #[cfg(test)]
        super::LOOKS.with(|looks| looks.set(looks.get() + 1));
        loop {
            let Some(step) = row.steps.get(frame.at) else { return Some(Ok(())) };
            let begins = frame.step.stage == Stage::Next;
            let is_idle = begins
                && step.repairs.is_some_and(|check| !result::is_failure(frame.results.get(&check)));
            if begins && step.counted && !is_idle {
                *frame.visits.entry(frame.at).or_default() += 1;
            }
            let worn_out = step.repairs.filter(|_| begins && !is_idle);
            let worn_out = worn_out.and_then(|check| row.worn_out(frame, check));
            let ended = if is_idle {
                Ended::skipped()
            } else {
                let RowFrame { step: inner, results, visits, .. } = frame;
                let scope = outer.with(Layer::Steps { index: &row.index, results, visits });
                // One that would not run anyway ends nothing.
                let runs = || step.when.as_ref().is_none_or(|when| scope.holds(when) == Ok(true));
                match worn_out.filter(|_| runs()) {
                    Some(end) => return Some(Err(end)),
                    None => self.step(step, inner, &scope, address)?,
                }
            };
            let attempts = std::mem::take(&mut frame.step).retries + 1;
            let (ok, skipped, stuck) = (ended.ok, ended.is_skipped(), ended.stuck);
            let timed_out = ended.status == "timed_out";
            let why = ended.why.clone();
            if step.keeps || row.keeps_last {
                let packed = |ended: Ended, fields| ended.packed(attempts, fields);
                match (step.keeps, row.keeps_last && !skipped) {
                    (true, true) => {
                        let kept = packed(ended.clone(), step.fields.as_ref());
                        frame.results.insert(frame.at, kept);
                        frame.last = Some(packed(ended, None));
                    }
                    (true, false) => {
                        frame.results.insert(frame.at, packed(ended, step.fields.as_ref()));
                    }
                    (false, true) => frame.last = Some(packed(ended, None)),
                    (false, false) => {}
                }
            }
            let escape = if timed_out { step.on_timeout } else { None };
            let escape = escape.unwrap_or(step.on_error.escape());
            let left = match (ok, skipped) {
                (_, true) => row.next(frame),
                (true, _) => row.succeeded(frame, step),
                (false, _) => {
                    if escape != Escape::Fail {
                        *self.passed_over += 1;
                    }
                    row.failed(frame, step, escape, why, stuck)
                }
            };
            if let Err(end) = left {
                return Some(Err(end));
            }
        }
    }
}

impl Row {
    fn next(&self, frame: &mut RowFrame) -> Result<(), End> {
        frame.at += 1;
        Ok(())
    }

    fn name(&self, at: usize) -> &str {
        self.steps.get(at).map_or("end", |step| step.name.as_str())
    }

    /// After success: the check that it repaired, where it leads, or the next one.
    fn succeeded(&self, frame: &mut RowFrame, step: &Step) -> Result<(), End> {
        if let Some(target) = step.then {
            let to = match target {
                Target::Step(to) => to,
                Target::End => self.steps.len(),
            };
            let taken = frame.thens.entry(frame.at).or_default();
            if *taken >= step.max_visits {
                return Err(End::stuck(format!(
                    "the way {} -> {} was taken {} times, which is its limit",
                    step.name,
                    self.name(to),
                    step.max_visits
                )));
            }
            *taken += 1;
            frame.at = to;
            return Ok(());
        }
        match step.checks_again {
            Some(check) => self.check_again(frame, step, check, ""),
            None => self.next(frame),
        }
    }

    /// The end of a repair whose check was run again as often as it may be: what is mended now nobody would look at.
    /// A repair that leads elsewhere by itself goes on.
    fn worn_out(&self, frame: &RowFrame, check: usize) -> Option<End> {
        let last = self.steps.iter().position(|step| step.checks_again == Some(check))?;
        let taken = frame.gotos.get(&last).copied().unwrap_or(0);
        let is_over = taken > 0 && taken >= self.steps[last].max_gotos;
        let rest = self.steps.get(frame.at..=last)?;
        let ends = is_over && !rest.iter().any(|step| step.leads_past(check));
        ends.then(|| self.over(&self.steps[last], check, ""))
    }

    fn over(&self, last: &Step, check: usize, why: &str) -> End {
        let check = self.name(check);
        let why = match why {
            "" => format!("{check:?} still fails"),
            why => format!("the last time, {why}"),
        };
        let (from, most) = (&last.name, last.max_gotos);
        End::stuck(format!("the way {from} -> {check} was taken {most} times; {why}"))
    }

    fn check_again(
        &self,
        frame: &mut RowFrame,
        step: &Step,
        check: usize,
        why: &str,
    ) -> Result<(), End> {
        let taken = frame.gotos.entry(frame.at).or_default();
        if *taken >= step.max_gotos {
            return Err(self.over(step, check, why));
        }
        *taken += 1;
        frame.at = check;
        Ok(())
    }

    fn failed(
        &self,
        frame: &mut RowFrame,
        step: &Step,
        escape: Escape,
        why: String,
        stuck: bool,
    ) -> Result<(), End> {
        match escape {
            Escape::Fail => Err(End { reason: why, stuck }),
            Escape::Skip => match step.checks_again {
                Some(check) => self.check_again(frame, step, check, &why),
                None => self.next(frame),
            },
            Escape::Goto(target) => {
                let taken = frame.gotos.entry(frame.at).or_default();
                if *taken >= step.max_gotos {
                    return Err(End::stuck(format!(
                        "the goto {} -> {} was taken {} times; the last time, {why}",
                        step.name,
                        self.name(target),
                        step.max_gotos
                    )));
                }
                *taken += 1;
                frame.at = target;
                Ok(())
            }
        }
    }
}

impl Step {
    /// Whether it says of itself that something else than the next step or this check may follow.
    fn leads_past(&self, check: usize) -> bool {
        let goes = |escape: Escape| matches!(escape, Escape::Goto(target) if target != check);
        self.then.is_some() || goes(self.on_error.escape()) || self.on_timeout.is_some_and(goes)
    }
}
