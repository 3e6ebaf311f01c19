//! What follows a failure, a late answer, or a check that did not hold.

use std::collections::BTreeMap;

use super::{DEFAULT_GOTOS, DEFAULT_RETRIES, MAX_RETRIES, Reader, Stands, listed};
use crate::driver::workflow::definition::*;
use crate::file::check::{Cursor, suggest};
use crate::file::shape::workflow as shape;

impl Reader<'_, '_> {
    pub(super) fn failures(
        &mut self,
        at: &Cursor<'_>,
        places: &BTreeMap<&str, usize>,
        stands: Stands,
    ) -> (OnError, u64) {
        let retries = at.get("max_retries").and_then(|most| {
            let given = most.whole(self.problems)?;
            if given > MAX_RETRIES {
                let message = format!("max_retries is at most {MAX_RETRIES}, got {given}");
                self.problems.push(&most, message, Some("write a smaller number".to_owned()));
            }
            Some((most, given))
        });
        let mut asked = at.get("on_error").and_then(|answer| self.answer(&answer, places, stands));
        let escape = at.get("on_exhausted").and_then(|after| {
            if asked != Some(Answer::Retry) {
                let message = "on_exhausted needs on_error = \"retry\"";
                self.problems.push_key(
                    &after,
                    message,
                    Some("add on_error = \"retry\", or leave it out".to_owned()),
                );
            }
            match self.answer(&after, places, stands)? {
                Answer::Escape(escape) => Some(escape),
                Answer::Retry => {
                    let message = "on_exhausted must be fail, skip or a goto";
                    self.problems.push(
                        &after,
                        message,
                        Some("what follows the last retry cannot be another one".to_owned()),
                    );
                    None
                }
            }
        });
        if let Some((most, _)) = &retries
            && matches!(asked, None | Some(Answer::Escape(Escape::Fail | Escape::Skip)))
        {
            if at.get("on_error").is_none() {
                // Retries that are asked for without saying what for can mean only one thing.
                asked = Some(Answer::Retry);
            } else {
                let message = "max_retries needs on_error = \"retry\" or a goto";
                self.problems.push_key(
                    most,
                    message,
                    Some("say what is repeated, or leave it out".to_owned()),
                );
            }
        }
        let given = retries.map(|(_, given)| given);
        let on_error = match asked {
            Some(Answer::Retry) => OnError::Retry {
                most: given.unwrap_or(DEFAULT_RETRIES),
                exhausted: escape.unwrap_or(Escape::Fail),
            },
            Some(Answer::Escape(escape)) => OnError::Escape(escape),
            None => OnError::Escape(Escape::Fail),
        };
        let max_gotos = match on_error {
            OnError::Escape(_) => given.unwrap_or(DEFAULT_GOTOS),
            OnError::Retry { .. } => DEFAULT_GOTOS,
        };
        (on_error, max_gotos)
    }

    /// Reads `"fail"`, `"skip"`, `"retry"` or `{ action = "goto", target = "name" }`.
    fn answer(
        &mut self,
        at: &Cursor<'_>,
        places: &BTreeMap<&str, usize>,
        stands: Stands,
    ) -> Option<Answer> {
        let word = if at.value.is_object() {
            at.keys(self.problems, &shape::step::GOTO);
            at.need(self.problems, "action")?
        } else {
            at.clone()
        };
        if word.value == "abort" {
            let hint = Some("did you mean \"fail\"?".to_owned());
            self.problems.push(&word, "\"abort\" must be one of fail, skip, retry, goto", hint);
            return None;
        }
        let action = word.choice(self.problems, &["fail", "skip", "retry", "goto"])?;
        let target = at.get("target");
        if action == "goto" && stands == Stands::AsAState {
            let hint = Some("write a transition with when = \"not result.ok\"".to_owned());
            self.problems.push(at, "a state has no goto", hint);
            return None;
        }
        if action == "goto" {
            let Some(target) = target else {
                let hint = Some("write { action = \"goto\", target = \"STEP\" }".to_owned());
                self.problems.push(at, "a goto needs a target", hint);
                return None;
            };
            let name = target.text(self.problems)?;
            let Some(index) = places.get(name) else {
                let hint = suggest(name, places.keys().copied())
                    .or_else(|| listed(places.keys().copied()));
                self.problems.push(&target, format!("there is no step {name:?}"), hint);
                return None;
            };
            return Some(Answer::Escape(Escape::Goto(*index)));
        }
        if let Some(target) = target {
            self.problems.push_key(
                &target,
                format!("{action} has no target"),
                Some("only a goto has one".to_owned()),
            );
        }
        Some(match action {
            "retry" => Answer::Retry,
            "skip" => Answer::Escape(Escape::Skip),
            _ => Answer::Escape(Escape::Fail),
        })
    }

    /// What the end of a person's time leads to; `"deny"` is the step's own business.
    pub(super) fn on_timeout(
        &mut self,
        at: &Cursor<'_>,
        places: &BTreeMap<&str, usize>,
        stands: Stands,
    ) -> Option<Option<Escape>> {
        let entry = at.get("on_timeout")?;
        if at.get("timeout").is_none() {
            self.problems.push_key(
                &entry,
                "on_timeout needs timeout",
                Some("add timeout = \"1h\", or leave it out".to_owned()),
            );
        }
        if entry.value == "deny" {
            if at.get("approve").is_none() {
                let message = "only an approval can be denied";
                self.problems.push(&entry, message, Some("use \"skip\" or \"fail\"".to_owned()));
            }
            return None;
        }
        match self.answer(&entry, places, stands)? {
            Answer::Escape(escape) => Some(Some(escape)),
            Answer::Retry => {
                self.problems.push(
                    &entry,
                    "on_timeout must be deny, fail, skip or a goto",
                    Some("what follows cannot be another try".to_owned()),
                );
                None
            }
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Escape(Escape),
    Retry,
}

/// Finds the checks: steps whose failure is passed over and whose output another step takes. What takes it, directly or
/// through each other, is the repair; after the last of it the check is run again.
pub(super) fn find_repairs(row: &mut Row, sources: &[Option<String>], items: &[Cursor<'_>]) {
    let source = |index: usize| -> Option<usize> {
        sources[index].as_ref().and_then(|name| row.index.get(name)).copied()
    };
    let is_check = |index: usize| row.steps[index].on_error == OnError::Escape(Escape::Skip);
    let mut found: Vec<Option<usize>> = vec![None; row.steps.len()];
    // Each step follows at most one other, so the way back to a check is a chain, or a ring without one.
    for (index, slot) in found.iter_mut().enumerate() {
        let mut at = source(index);
        for _ in 0..row.steps.len().min(64) {
            match at {
                Some(check) if is_check(check) && check < index => {
                    *slot = Some(check);
                    break;
                }
                Some(other) => at = source(other),
                None => break,
            }
        }
    }
    let mut last: BTreeMap<usize, usize> = BTreeMap::new();
    for (index, check) in found.iter().enumerate() {
        if let Some(check) = check {
            last.insert(*check, index);
            row.steps[*check].keeps = true;
        }
        row.steps[index].repairs = *check;
    }
    for (check, index) in last {
        let given = items[index].get("max_retries").and_then(|most| most.value.as_u64());
        let step = &mut row.steps[index];
        step.checks_again = Some(check);
        step.max_gotos = given.unwrap_or(DEFAULT_RETRIES);
    }
}
