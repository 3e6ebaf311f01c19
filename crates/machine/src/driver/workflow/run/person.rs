//! Steps that ask a person.

use super::{Asked, Run};
use crate::driver::workflow::definition::*;
use crate::driver::workflow::frame::Address;
use crate::driver::workflow::result::Ended;
use crate::time::Timestamp;

impl Run<'_> {
    /// How it stands with a question to a person.
    pub(super) fn person(
        &mut self,
        step: &Step,
        prompt: &mut String,
        until: &mut Option<Timestamp>,
        question: &mut u64,
        address: &Address,
    ) -> Option<Ended> {
        let Work::Person(work) = &step.work else { return Some(Ended::skipped()) };
        let came = self.came.remove(address);
        if came.is_none() && self.asked != Some(address) {
            // Nobody has seen it: something else was under way. The time is the person's, so it has not begun.
            *until = step.timeout.map(|timeout| self.now().after(timeout));
        }
        if let Some(came) = came {
            match work.understand(&came.text) {
                Ok(answer) => {
                    *question = 0;
                    return Some(work.ended(step, answer));
                }
                Err(expected) => {
                    *prompt = format!("{expected}\n{}", work.first(prompt));
                    *question = 0;
                }
            }
        }
        let around = self.deadlines.iter().copied().min();
        let until = until.iter().copied().chain(around).min();
        if until.is_some_and(|until| until <= self.now()) {
            *question = 0;
            let why = format!("step {:?}: nobody answered in time", step.name);
            let status = if work.denies { "denied" } else { "timed_out" };
            return Some(Ended::failed(status, "", why));
        }
        if self.round.person.is_some() {
            if let Some(around) = around {
                self.round.due(around, || format!("step {:?} waits no longer", step.name));
            }
            return None;
        }
        if *question == 0 {
            *self.questions += 1;
            *question = *self.questions;
        }
        let (address, prompt) = (address.clone(), prompt.clone());
        self.round.person = Some(Asked { address, prompt, until, number: Some(*question) });
        None
    }
}

impl PersonWork {
    /// What the person sees.
    pub(super) fn prompt(&self, text: &str) -> String {
        if self.approves {
            format!("{text} (yes / no)")
        } else if self.choices.is_empty() {
            text.to_owned()
        } else {
            format!("{text} ({})", self.choices.join(" / "))
        }
    }

    /// The prompt without what was said about a former answer.
    fn first<'p>(&self, prompt: &'p str) -> &'p str {
        match prompt.split_once('\n') {
            Some((said, rest)) if said.ends_with(" is expected") => rest,
            _ => prompt,
        }
    }

    fn understand(&self, line: &str) -> Result<String, String> {
        let line = line.trim();
        if self.approves {
            return match line.to_lowercase().as_str() {
                "yes" | "y" | "ok" | "approve" | "allow" => Ok("yes".to_owned()),
                "no" | "n" | "deny" | "reject" => Ok("no".to_owned()),
                _ => Err(format!("{line:?} is neither: yes or no is expected")),
            };
        }
        if self.choices.is_empty() {
            return Ok(line.to_owned());
        }
        let chosen = self.choices.iter().find(|choice| choice.eq_ignore_ascii_case(line));
        chosen.cloned().ok_or_else(|| {
            format!("{line:?} is none of them: one of {} is expected", self.choices.join(", "))
        })
    }

    fn ended(&self, step: &Step, answer: String) -> Ended {
        if self.approves && answer == "no" {
            let why = format!("step {:?}: a person said no", step.name);
            return Ended::failed("denied", &answer, why);
        }
        Ended::ok(&answer)
    }
}
