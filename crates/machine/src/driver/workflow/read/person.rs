//! Steps that ask a person.

use super::Reader;
use crate::driver::workflow::definition::*;
use crate::driver::workflow::names::Names;
use crate::file::check::Cursor;

impl Reader<'_, '_> {
    pub(super) fn person(&mut self, at: &Cursor<'_>, names: &Names<'_>) -> Option<Work> {
        let (text, approves) = match (at.get("ask"), at.get("approve")) {
            (Some(_), Some(approve)) => {
                self.problems.push_key(
                    &approve,
                    "give either ask or approve",
                    Some("ask takes an answer, approve a yes or no".to_owned()),
                );
                return None;
            }
            (Some(ask), None) => (ask, false),
            (None, Some(approve)) => (approve, true),
            (None, None) => {
                let hint = Some("add ask = \"question\" or approve = \"what\"".to_owned());
                self.problems.push_key(at, "a person is asked nothing", hint);
                return None;
            }
        };
        let choices = match at.get("choices") {
            Some(choices) if approves => {
                self.problems.push_key(
                    &choices,
                    "an approval is yes or no",
                    Some("leave choices out, or use ask".to_owned()),
                );
                Vec::new()
            }
            Some(choices) => {
                let texts = choices.texts(self.problems);
                if texts.is_empty() && choices.value.is_array() {
                    self.problems.push(
                        &choices,
                        "there is nothing to choose from",
                        Some("name at least two answers, or leave choices out".to_owned()),
                    );
                }
                texts
            }
            None => Vec::new(),
        };
        let denies = approves && at.get("on_timeout").is_some_and(|word| word.value == "deny");
        let text = self.filled(&text, names)?;
        Some(Work::Person(Box::new(PersonWork { text, choices, approves, denies })))
    }
}
