//! Puts what `@prompts/name` and `@workflows/name` stand for in their places, and notes what was used.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::Workflow;
use crate::file::SourceError;
use crate::file::brought::Brought;
use crate::file::check::{Cursor, Problems};
use crate::file::lookup::{Given, Kind, Lookup};
use crate::file::prompt;
use crate::file::reference::{self, Reference};
use crate::task::{Criterion, CustomCheck};

/// How deep workflows may call each other.
const MAX_DEPTH: usize = 16;

/// The keys whose text may be a prompt.
const PROMPT_KEYS: [&str; 4] = ["prompt", "system_prompt", "ask", "approve"];

/// Looks up references while a workflow is read.
pub(in crate::file) struct Resolver<'l> {
    lookup: &'l dyn Lookup,
    /// The workflows that are being read, outermost first.
    stack: Vec<String>,
    /// What was used, by file.
    pub(super) prompts: BTreeMap<String, Value>,
    pub(super) files: BTreeMap<String, Value>,
    /// Inputs that prompts take and have a default for.
    pub(super) inputs: BTreeMap<String, Value>,
    /// What the workflows bring that steps call.
    pub(super) brought: Brought,
    /// What is wrong in other files.
    pub(super) errors: Vec<SourceError>,
}

impl<'l> Resolver<'l> {
    /// For the workflow of this name.
    pub(in crate::file) fn new(lookup: &'l dyn Lookup, name: &str) -> Resolver<'l> {
        Resolver {
            lookup,
            stack: vec![name.to_owned()],
            prompts: BTreeMap::new(),
            files: BTreeMap::new(),
            inputs: BTreeMap::new(),
            brought: Brought::default(),
            errors: Vec::new(),
        }
    }

    /// What is wrong in the files that were looked up.
    pub(in crate::file) fn errors(&mut self) -> Vec<SourceError> {
        std::mem::take(&mut self.errors)
    }

    /// What the workflows bring that steps call, for whoever they are a part of.
    pub(in crate::file) fn take_brought(&mut self) -> Brought {
        std::mem::take(&mut self.brought)
    }

    /// Writes what was used into the configuration of a workflow, so that the journal has it.
    pub(in crate::file) fn note_in(&mut self, config: &mut Value) {
        let Value::Object(config) = config else { return };
        for (key, used) in [("prompts", &mut self.prompts), ("files", &mut self.files)] {
            if !used.is_empty() {
                config.insert(key.to_owned(), std::mem::take(used).into_values().collect());
            }
        }
    }

    /// What a script gives.
    pub(super) fn script(&self, text: &str, file: &str) -> Result<Given, Vec<SourceError>> {
        self.lookup.script(text, file)
    }

    /// What is known about the project.
    pub(super) fn facts(&self) -> Value {
        self.lookup.facts()
    }

    /// Whether the workflow that is being read is the one that was asked for, not one that it calls.
    pub(super) fn is_outermost(&self) -> bool {
        self.stack.len() == 1
    }

    /// The table of a workflow with nothing left to look up.
    pub(super) fn workflow(&mut self, at: &Cursor<'_>, problems: &mut Problems) -> Value {
        self.value(at, "", false, problems)
    }

    fn value(
        &mut self,
        at: &Cursor<'_>,
        key: &str,
        is_parameter: bool,
        problems: &mut Problems,
    ) -> Value {
        match at.value {
            Value::Object(_) => {
                let fields: Map<String, Value> = at
                    .entries()
                    // What is declared there are names and literals.
                    .map(|(key, entry)| {
                        let value =
                            if matches!(key, "inputs" | "outputs" | "schema" | "driver_config") {
                                entry.value.clone()
                            } else if key == "task" && !is_parameter && entry.value.is_object() {
                                self.task(&entry, problems)
                            } else {
                                self.value(
                                    &entry,
                                    key,
                                    is_parameter || key == "parameters",
                                    problems,
                                )
                            };
                        (key.to_owned(), value)
                    })
                    .collect();
                Value::Object(fields)
            }
            Value::Array(_) => {
                let items = at.items(problems);
                Value::Array(
                    items
                        .iter()
                        .map(|item| self.value(item, key, is_parameter, problems))
                        .collect(),
                )
            }
            Value::String(text) if is_parameter || PROMPT_KEYS.contains(&key) => {
                self.text(at, text, problems)
            }
            Value::String(text) if key == "workflow" => self.called(at, text, problems),
            other => other.clone(),
        }
    }

    /// A step's own task: its workflow brings limits and criteria, which count there as in any task.
    fn task(&mut self, at: &Cursor<'_>, problems: &mut Problems) -> Value {
        let mut fields = Map::new();
        for (key, entry) in at.entries() {
            let value = match (key, entry.value) {
                ("goal", Value::String(text)) => self.text(&entry, text, problems),
                ("workflow", Value::String(text)) => match self.found(&entry, text, problems) {
                    Some(found) => {
                        let is_plugin = |criterion: &Criterion| {
                            matches!(criterion, Criterion::Custom(CustomCheck::Plugin { .. }))
                        };
                        if !found.rubric_files.is_empty() || found.acceptance.iter().any(is_plugin)
                        {
                            let hint = "call the workflow as a step, where its criteria are those of the whole task; or \
                                        write the rubric into it";
                            let message =
                                "the task of a step has no criterion that is looked up in a file";
                            problems.push(&entry, message, Some(hint.to_owned()));
                        }
                        let brought =
                            json!({ "budget": found.budget, "acceptance": found.acceptance });
                        fields.insert("brought".to_owned(), brought);
                        bare(found)
                    }
                    None => Value::Null,
                },
                _ => self.value(&entry, key, false, problems),
            };
            fields.insert(key.to_owned(), value);
        }
        Value::Object(fields)
    }

    fn read(
        &self,
        at: &Cursor<'_>,
        text: &str,
        problems: &mut Problems,
    ) -> Option<Option<Reference>> {
        match reference::read(text) {
            Ok(found) => Some(found),
            Err(error) => {
                problems.push_within(at, (error.start, error.end), error.message, error.hint);
                None
            }
        }
    }

    /// A text, or the prompt that it names.
    fn text(&mut self, at: &Cursor<'_>, text: &str, problems: &mut Problems) -> Value {
        let reference = match self.read(at, text, problems) {
            Some(Some(reference)) => reference,
            Some(None) => return json!(reference::literal(text)),
            None => return Value::Null,
        };
        if reference.kind != Kind::Prompt {
            let hint = Some(format!("@prompts/{} would be a text", reference.name));
            problems.push(at, "a workflow cannot stand where a text is expected", hint);
            return Value::Null;
        }
        let found = match self.lookup.find(Kind::Prompt, &reference.name) {
            Ok(found) => found,
            Err(missing) => {
                problems.push(at, missing.why.clone(), missing.hint(&reference.name));
                return Value::Null;
            }
        };
        match prompt::parse(&found.text, &found.file) {
            Ok(prompt) => {
                self.prompts.insert(
                    found.file.clone(),
                    json!({ "name": reference.name, "file": found.file, "version": prompt.version,
                            "sha256": sha256(&found.text) }),
                );
                for input in prompt.inputs {
                    let Some(default) = input.default else { continue };
                    let kind = kind_word(input.kind, &default);
                    let declared = json!({ "type": kind, "default": default, "description": input.description });
                    self.inputs.entry(input.name).or_insert(declared);
                }
                json!(prompt.text)
            }
            Err(errors) => {
                self.blame(at, problems, errors);
                Value::Null
            }
        }
    }

    /// What is wrong in another file is shown there, and here that it is.
    fn blame(&mut self, at: &Cursor<'_>, problems: &mut Problems, errors: Vec<SourceError>) {
        let count = errors.len();
        let plural = if count == 1 { "" } else { "s" };
        problems.push(
            at,
            format!("what this names has {count} error{plural}"),
            Some("mend that file first".to_owned()),
        );
        self.errors.extend(errors);
    }

    /// The workflow that a step calls. Its time is the step's; what it brings beside counts for the whole, as a step has no
    /// verdict and no account of its own.
    fn called(&mut self, at: &Cursor<'_>, text: &str, problems: &mut Problems) -> Value {
        let Some(found) = self.found(at, text, problems) else { return Value::Null };
        let mut brought = Brought::by(&found);
        let time = brought.budget.max_time.take();
        self.brought.add(brought);
        let mut config = bare(found);
        if let (Value::Object(fields), Some(time)) = (&mut config, time) {
            fields.insert("timeout".to_owned(), json!(time.to_string()));
        }
        config
    }

    /// The workflow of a name, with nothing left to look up.
    fn found(&mut self, at: &Cursor<'_>, text: &str, problems: &mut Problems) -> Option<Workflow> {
        let reference = self.read(at, text, problems)?;
        let Some(reference) = reference.filter(|found| found.kind == Kind::Workflow) else {
            let hint =
                Some(format!("write \"@workflows/{}\"", text.trim_start_matches("@prompts/")));
            problems.push(at, "a step calls a workflow by its name", hint);
            return None;
        };
        let name = reference.name;
        if let Some(from) = self.stack.iter().position(|open| *open == name) {
            let way: Vec<&str> = self.stack[from..].iter().map(String::as_str).collect();
            let message =
                format!("workflows call each other in a circle: {} -> {name}", way.join(" -> "));
            problems.push(
                at,
                message,
                Some(
                    "a workflow cannot be a part of itself: take one of these calls out".to_owned(),
                ),
            );
            return None;
        }
        if self.stack.len() > MAX_DEPTH {
            problems.push(
                at,
                format!("workflows may be nested at most {MAX_DEPTH} deep"),
                Some("take some of the levels out".to_owned()),
            );
            return None;
        }
        let found = match self.lookup.find(Kind::Workflow, &name) {
            Ok(found) => found,
            Err(missing) => {
                problems.push(at, missing.why.clone(), missing.hint(&name));
                return None;
            }
        };
        self.stack.push(name.clone());
        let read = super::read_source(&found.text, &found.file, self);
        self.stack.pop();
        let workflow = match read {
            Ok(workflow) => workflow,
            Err(errors) => {
                self.blame(at, problems, errors);
                return None;
            }
        };
        if workflow.driver.name != "workflow" {
            let hint =
                Some("write its states as [[workflow.states]] with the keys of steps".to_owned());
            problems.push(at, format!("{name:?} is a [machine], which a step cannot call"), hint);
            return None;
        }
        self.files.insert(
            found.file.clone(),
            json!({ "name": name, "file": found.file, "version": workflow.version,
                    "sha256": sha256(&found.text) }),
        );
        Some(workflow)
    }
}

/// The configuration of a workflow that is a part of another.
fn bare(workflow: Workflow) -> Value {
    let mut config = workflow.driver.config;
    if let Value::Object(fields) = &mut config {
        fields.remove("prompts");
        fields.remove("files");
    }
    config
}

fn kind_word(kind: crate::template::Kind, default: &Value) -> &'static str {
    use crate::template::Kind;
    match (kind, default) {
        (Kind::Number, value) if value.is_i64() || value.is_u64() => "integer",
        (Kind::Number, _) => "number",
        (Kind::Boolean, _) => "boolean",
        (Kind::List, _) => "list",
        (Kind::Table, _) => "table",
        (Kind::Text, _) => "string",
        (Kind::Any | Kind::Nothing, value) => match value {
            Value::Bool(_) => "boolean",
            Value::Number(_) => "number",
            Value::Array(_) => "list",
            Value::Object(_) => "table",
            Value::Null | Value::String(_) => "string",
        },
    }
}

/// The hash of a text, as the journal has it.
pub(super) fn sha256(text: &str) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let halves =
        Sha256::digest(text.as_bytes()).into_iter().flat_map(|byte| [byte >> 4, byte & 15]);
    halves.map(|half| char::from(DIGITS[usize::from(half)])).collect()
}
