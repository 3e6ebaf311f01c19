//! What a workflow takes.

use super::is_word;
use crate::driver::workflow::definition::*;
use crate::file::check::{Cursor, Problems};
use crate::file::shape::workflow as shape;

/// Reads the inputs that a workflow declares.
pub(crate) fn inputs(at: &Cursor<'_>, problems: &mut Problems) -> Vec<Input> {
    if !at.value.is_object() {
        at.wrong(problems, "a table of inputs");
        return Vec::new();
    }
    let mut inputs = Vec::new();
    for (name, entry) in at.entries() {
        if !is_word(name) {
            let hint =
                "it is used as inputs.NAME: letters, digits and _, no digit first".to_owned();
            problems.push_key(
                &entry,
                format!("{name:?} cannot be the name of an input"),
                Some(hint),
            );
        }
        entry.keys(problems, &shape::INPUT);
        let word = entry.get("type").and_then(|kind| kind.choice(problems, &InputKind::WORDS));
        let mut input = Input {
            name: name.to_owned(),
            kind: InputKind::of(word.unwrap_or("string")),
            default: None,
            choices: Vec::new(),
            description: entry
                .get("description")
                .and_then(|text| text.text(problems))
                .unwrap_or_default()
                .to_owned(),
        };
        if let Some(choices) = entry.get("choices") {
            for choice in choices.items(problems) {
                if let Some(why) = input.refuses(choice.value) {
                    let hint = "change the choice, or the type".to_owned();
                    problems.push(&choice, why, Some(hint));
                }
            }
            input.choices = choices.value.as_array().cloned().unwrap_or_default();
        }
        if let Some(default) = entry.get("default") {
            if let Some(why) = input.refuses(default.value) {
                let hint = "change the default, the type or the choices".to_owned();
                problems.push(&default, why, Some(hint));
            }
            input.default = Some(default.value.clone());
        }
        inputs.push(input);
    }
    inputs
}
