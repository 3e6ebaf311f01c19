//! Workflows that are scripts: what they are told, and that each is run once for what was told.

use std::fs;
use std::path::{Path, PathBuf};

use machine::file::SourceError;
use machine::file::lookup::Given;
use serde_json::{Map, Value};

use super::Library;
use crate::script::{self, Context};
use crate::trust::{self, Seen};

/// What scripts are told beside the facts, and what they printed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Told {
    /// The folder that facts are gathered in.
    pub(super) folder: Option<PathBuf>,
    goal: String,
    /// As they were typed.
    inputs: Vec<(String, String)>,
    /// The model of workflows that name none.
    pub(super) model: Option<String>,
    facts: Option<Value>,
    printed: Vec<String>,
}

impl Library {
    /// Tells scripts what the task is for.
    pub fn tell_goal(&self, goal: &str) {
        self.told.borrow_mut().goal = goal.to_owned();
    }

    /// Tells scripts what was given for their inputs, as it was typed.
    pub fn tell_inputs(&self, inputs: impl IntoIterator<Item = (String, String)>) {
        self.told.borrow_mut().inputs = inputs.into_iter().collect();
    }

    /// Says which model the steps of a workflow ask that names none.
    pub fn tell_model(&self, model: &str) {
        self.told.borrow_mut().model = Some(model.to_owned());
    }

    /// What scripts printed while they ran, in order; asked for by `workflow check`.
    pub fn printed(&self) -> Vec<String> {
        std::mem::take(&mut self.told.borrow_mut().printed)
    }

    /// What is known about the project, gathered when it is first asked for and the same from then on.
    pub fn project_facts(&self) -> Value {
        let mut told = self.told.borrow_mut();
        if let Some(facts) = &told.facts {
            return facts.clone();
        }
        let facts = told.folder.as_deref().map(crate::facts::gather).unwrap_or_default();
        // Texts, numbers and flags: nothing in it can fail to become JSON.
        let facts = serde_json::to_value(facts).unwrap_or_default();
        told.facts = Some(facts.clone());
        facts
    }

    /// Runs the script of a workflow.
    pub(super) fn run_script(&self, text: &str, file: &str) -> Result<Given, Vec<SourceError>> {
        self.may_run(text, file)?;
        let head = script::head(text, file).map_err(|error| vec![error])?;
        let facts = self.project_facts();
        let (goal, typed) = {
            let told = self.told.borrow();
            (told.goal.clone(), told.inputs.clone())
        };
        let inputs = inputs(&head.file["workflow"]["inputs"], &typed);
        let context = Context { goal, inputs, facts };
        let made = script::make(text, file, &context).map_err(|error| vec![error])?;
        self.told.borrow_mut().printed.extend(made.printed);
        Ok(Given { value: made.file, place: made.place })
    }
}

impl Library {
    /// Whoever only looks runs no script of a project that the user does not trust as it is.
    fn may_run(&self, text: &str, file: &str) -> Result<(), Vec<SourceError>> {
        let path = Path::new(file);
        let Ok(real) = fs::canonicalize(path) else { return Ok(()) };
        if !self.looks || self.is_own(path) {
            return Ok(());
        }
        let wrong = |message: String| vec![machine::file::whole(file, text, message)];
        let seen = Seen { path: real, sha256: trust::hash(text.as_bytes()) };
        match self.believes(&seen) {
            Ok(true) => Ok(()),
            Ok(false) => Err(wrong(
                "the script is not trusted, so it is not run: drivetrain trust shows it and asks"
                    .to_owned(),
            )),
            Err(error) => Err(wrong(error.to_string())),
        }
    }
}

/// The value of each declared input: what was typed, its default, or an empty value of its type. A required input that is
/// missing is refused when the workflow is given its inputs, before anything begins; until then it can be listed, checked
/// and drawn.
fn inputs(declared: &Value, typed: &[(String, String)]) -> Map<String, Value> {
    let declared = declared.as_object().into_iter().flatten();
    let values = declared.map(|(name, about)| {
        let kind = about["type"].as_str().unwrap_or("string");
        // What does not fit its type is refused when the workflow is given its inputs, with better words.
        let given =
            typed.iter().find(|(other, _)| other == name).and_then(|(_, text)| match kind {
                "string" => Some(Value::String(text.clone())),
                _ => serde_json::from_str(text).ok(),
            });
        let default = about.get("default").filter(|default| !default.is_null()).cloned();
        (name.clone(), given.or(default).unwrap_or_else(|| empty(kind)))
    });
    values.collect()
}

fn empty(kind: &str) -> Value {
    match kind {
        "integer" => 0.into(),
        "number" => 0.0.into(),
        "boolean" => false.into(),
        "list" => Value::Array(Vec::new()),
        "table" => Value::Object(Map::new()),
        _ => Value::String(String::new()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const SCRIPT: &str = "fn workflow() { #{ inputs: #{ times: #{ type: \"integer\", \"default\": 2 } } } }\n\
        fn steps(context) {\n    let steps = [];\n    for n in 0..context.inputs.times {\n        \
        steps.push(#{ name: `s${n}`, tool: \"shell\", parameters: #{ command: context.goal } });\n    }\n    \
        print(context.facts.main_language);\n    steps\n}\n";

    #[test]
    fn inputs_are_what_was_typed_or_their_default_or_empty() {
        let declared = json!({ "a": { "type": "integer" }, "b": { "type": "boolean", "default": true }, "c": { "type": "string" }, "d": { "type": "list" } });
        let typed = [
            ("a".to_owned(), "3".to_owned()),
            ("c".to_owned(), "4".to_owned()),
            ("b".to_owned(), "maybe".to_owned()),
        ];
        let given = inputs(&declared, &typed);
        assert_eq!(Value::Object(given), json!({ "a": 3, "b": true, "c": "4", "d": [] }));
    }

    #[test]
    fn a_script_is_told_goal_inputs_and_facts() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("x.go"), "").unwrap();
        let library = Library::of(folder.path());
        library.tell_goal("make");
        let given = library.run_script(SCRIPT, "w.rhai").unwrap();
        assert_eq!(given.value["workflow"]["steps"][1]["parameters"]["command"], "make");
        assert_eq!(library.printed(), ["go"]);
        library.tell_inputs([("times".to_owned(), "1".to_owned())]);
        let given = library.run_script(SCRIPT, "w.rhai").unwrap();
        assert_eq!(given.value["workflow"]["steps"].as_array().unwrap().len(), 1);
    }
}
