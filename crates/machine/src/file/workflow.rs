//! Workflow files: `[workflow]` with steps or states, or a `[machine]`.

mod resolve;

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::brought::tighten;
use super::check::{Cursor, Problems, is_name};
use super::lookup::Lookup;
use super::shape::workflow as shape;
use super::source::Source;
use super::task::{criteria, read_budget};
use super::{Format, SourceError};
pub(in crate::file) use resolve::Resolver;

use crate::driver::state_machine;
use crate::driver::workflow::read;
pub use crate::driver::workflow::{Input, InputKind};
use crate::policy::budget::Budget;
use crate::task::{Criterion, DriverSpec};
use crate::time::Span;

/// A workflow as written.
#[derive(Debug, Clone, PartialEq)]
pub struct Workflow {
    /// Its name; that of the file if it gives none.
    pub name: String,
    /// For a person.
    pub description: String,
    /// For a person.
    pub version: String,
    /// What its own limits allow, and those of the workflows that it calls. A task's budget may be tighter.
    pub budget: Budget,
    /// What decides whether it is done, those that it calls included, beside what the task says.
    pub acceptance: Vec<Criterion>,
    /// The files that hold the rubrics of judges, by the judge's place among the criteria.
    pub rubric_files: BTreeMap<usize, String>,
    /// What it takes.
    pub inputs: Vec<Input>,
    /// The names of what it gives.
    pub outputs: Vec<String>,
    /// The driver that runs it, `workflow` or `state_machine`, with its configuration.
    pub driver: DriverSpec,
}

/// Says which model the steps ask that name none, in the configuration of a workflow that names none either.
pub fn default_model(config: &mut Value, model: &str) {
    let Value::Object(fields) = config else { return };
    let llm = fields.entry("llm").or_insert_with(|| json!({}));
    if let Value::Object(llm) = llm {
        llm.entry("model").or_insert_with(|| json!(model));
    }
}

impl Workflow {
    /// Gives it values for its inputs, as a person typed them. The error names the input that is wrong or missing.
    pub fn give(&mut self, typed: &BTreeMap<String, String>) -> Result<(), String> {
        let mut given = Map::new();
        for (name, text) in typed {
            let Some(input) = self.inputs.iter().find(|input| input.name == *name) else {
                let known: Vec<&str> =
                    self.inputs.iter().map(|input| input.name.as_str()).collect();
                let hint = super::check::suggest(name, known.iter().copied()).unwrap_or_else(
                    || match known.as_slice() {
                        [] => "it takes none".to_owned(),
                        known => format!("it takes {}", known.join(", ")),
                    },
                );
                return Err(format!("the workflow {} has no input {name:?}: {hint}", self.name));
            };
            given.insert(name.clone(), input.typed(text)?);
        }
        for input in self.inputs.iter().filter(|input| input.default.is_none()) {
            if !given.contains_key(&input.name) {
                return Err(format!(
                    "the workflow {} needs the input {:?} ({}): give it with --input {}=…",
                    self.name,
                    input.name,
                    input.kind.word(),
                    input.name
                ));
            }
        }
        if !given.is_empty() {
            self.driver.config["given"] = Value::Object(given);
        }
        Ok(())
    }
}

/// Reads a workflow file. TOML unless the file's name says YAML. What it refers to is looked up and put in its place.
pub fn parse(text: &str, file: &str, lookup: &dyn Lookup) -> Result<Workflow, Vec<SourceError>> {
    let mut resolver = Resolver::new(lookup, &stem(file));
    let read = read_source(text, file, &mut resolver);
    let mut workflow = read.map_err(|mut errors| {
        errors.append(&mut resolver.errors);
        errors
    })?;
    resolver.note_in(&mut workflow.driver.config);
    Ok(workflow)
}

/// Reads a file whose references are looked up by `resolver`.
fn read_source(
    text: &str,
    file: &str,
    resolver: &mut Resolver<'_>,
) -> Result<Workflow, Vec<SourceError>> {
    let source = if file.ends_with(".rhai") {
        let given = resolver.script(text, file)?;
        Source::generated(file, text, given.value, given.place)
    } else {
        Source::read(file, text, Format::of(file))?
    };
    let mut problems = Problems::default();
    let top = Cursor::top(&source.value);
    top.keys(&mut problems, &shape::TOP);
    let read = match (top.get("workflow"), top.get("machine")) {
        (Some(_), Some(machine)) => {
            problems.push_key(
                &machine,
                "a file has either [workflow] or [machine]",
                Some("remove one of the two".to_owned()),
            );
            None
        }
        (Some(table), None) => read_workflow(&table, resolver, &mut problems),
        (None, Some(table)) => read_machine(&table, &mut problems),
        (None, None) => {
            let hint = "begin with [workflow] and [[workflow.steps]]".to_owned();
            problems.push(&top, "the file has no [workflow]", Some(hint));
            None
        }
    };
    match read {
        Some(mut workflow) if problems.is_empty() => {
            if workflow.name.is_empty() {
                workflow.name = stem(file);
                if let Value::Object(config) = &mut workflow.driver.config {
                    config.insert("name".to_owned(), Value::String(workflow.name.clone()));
                }
            }
            Ok(workflow)
        }
        _ => Err(source.errors(problems)),
    }
}

/// The file's name without folders and ending, if it can be a name.
fn stem(file: &str) -> String {
    let name = file.rsplit(['/', '\\']).next().unwrap_or(file);
    let name = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
    if is_name(name) { name.to_owned() } else { "workflow".to_owned() }
}

/// A table with steps or states, with everything that it refers to in its place.
pub(super) fn resolved(
    written: &Cursor<'_>,
    resolver: &mut Resolver<'_>,
    problems: &mut Problems,
) -> Value {
    let mut resolved = resolver.workflow(written, problems);
    let defaults = std::mem::take(&mut resolver.inputs);
    let outermost = resolver.is_outermost() && mentions_facts(&resolved);
    let Some(fields) = resolved.as_object_mut() else { return resolved };
    if !defaults.is_empty() {
        let inputs = fields.entry("inputs").or_insert_with(|| json!({}));
        for (name, declared) in defaults {
            if inputs.is_object() && inputs.get(&name).is_none() {
                inputs[name] = declared;
            }
        }
    }
    if outermost && let facts @ Value::Object(_) = resolver.facts() {
        fields.insert("facts".to_owned(), facts);
    }
    resolved
}

/// Reads a `[workflow]` table; nothing if it is too wrong to go on.
pub(super) fn read_workflow(
    written: &Cursor<'_>,
    resolver: &mut Resolver<'_>,
    problems: &mut Problems,
) -> Option<Workflow> {
    if !written.keys(problems, &shape::WORKFLOW) {
        return None;
    }
    let around = resolver.take_brought();
    let resolved = resolved(written, resolver, problems);
    let called = std::mem::replace(&mut resolver.brought, around);
    let at = &written.instead(&resolved);
    let name = at.get("name").and_then(|name| name.name(problems)).unwrap_or_default();
    let text = |key: &str, problems: &mut Problems| {
        at.get(key).and_then(|text| text.text(problems)).unwrap_or_default().to_owned()
    };
    let description = text("description", problems);
    let version = text("version", problems);
    let limits = at.get("limits").map(|limits| read_limits(&limits, problems)).unwrap_or_default();
    let mut budget = at.get("budget").map(|at| read_budget(&at, problems)).unwrap_or_default();
    tighten(
        &mut budget,
        &Budget { max_tokens: limits.tokens, max_time: limits.time, ..Budget::default() },
    );
    let items = at.get("acceptance").map(|list| list.items(problems)).unwrap_or_default();
    let (mut acceptance, mut rubric_files) = (Vec::new(), BTreeMap::new());
    for written in items.iter().filter_map(|item| criteria::read(item, problems)) {
        rubric_files.extend(written.rubric_file.map(|path| (acceptance.len(), path)));
        acceptance.push(written.criterion);
    }
    called.join(&mut budget, &mut acceptance, &mut rubric_files);
    let driver = match (at.get("steps"), at.get("states")) {
        (Some(_), Some(states)) => {
            problems.push_key(
                &states,
                "a workflow has either steps or states",
                Some("remove one of the two".to_owned()),
            );
            return None;
        }
        (Some(_), None) => {
            if let Some(initial) = at.get("initial") {
                problems.push_key(
                    &initial,
                    "initial goes with states",
                    Some("steps begin with the first".to_owned()),
                );
            }
            read::check(at, problems);
            "workflow"
        }
        (None, Some(states)) if is_machine(&states) => {
            for key in ["inputs", "outputs", "llm"] {
                if let Some(entry) = at.get(key) {
                    let hint = "write the states with the keys of steps: tool in place of action";
                    let message = format!("{key} does not go with states that have an action");
                    problems.push_key(&entry, message, Some(hint.to_owned()));
                }
            }
            state_machine::read_machine(at, "", 0, problems);
            "state_machine"
        }
        (None, Some(_)) => {
            read::check(at, problems);
            "workflow"
        }
        (None, None) => {
            let hint = "add [[workflow.steps]] with name, tool and parameters".to_owned();
            problems.push_key(at, "a workflow needs at least one step", Some(hint));
            return None;
        }
    };
    // Mistakes in them have been told.
    let mut told = Problems::default();
    let inputs = at.get("inputs").map(|table| read::inputs(&table, &mut told)).unwrap_or_default();
    let outputs = at.get("outputs");
    let outputs = outputs.iter().flat_map(Cursor::entries).map(|(name, _)| name.to_owned());
    Some(Workflow {
        name: name.to_owned(),
        description,
        version,
        budget,
        acceptance,
        rubric_files,
        inputs,
        outputs: outputs.collect(),
        driver: driver_spec(driver, at, limits.steps),
    })
}

/// Whether some text of a workflow, those that it calls included, may be an expression about facts. One too many only costs
/// a look at the project.
fn mentions_facts(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains("facts"),
        Value::Array(items) => items.iter().any(mentions_facts),
        Value::Object(fields) => fields.values().any(mentions_facts),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Whether states are those of a `[machine]`, which has a vocabulary of its own.
fn is_machine(states: &Cursor<'_>) -> bool {
    let Value::Array(list) = states.value else { return true };
    list.iter().any(|state| state.get("action").is_some() || state.get("machine").is_some())
}

/// Reads a `[machine]` table.
pub(super) fn read_machine(at: &Cursor<'_>, problems: &mut Problems) -> Option<Workflow> {
    if !at.keys(problems, &shape::machine::MACHINE) {
        return None;
    }
    let name = at.get("name").and_then(|name| name.name(problems)).unwrap_or_default().to_owned();
    let description =
        at.get("description").and_then(|text| text.text(problems)).unwrap_or_default().to_owned();
    state_machine::read_machine(at, "", 0, problems);
    let driver = driver_spec("state_machine", at, None);
    Some(Workflow {
        name,
        description,
        version: String::new(),
        budget: Budget::default(),
        acceptance: Vec::new(),
        rubric_files: BTreeMap::new(),
        inputs: Vec::new(),
        outputs: Vec::new(),
        driver,
    })
}

/// The driver's configuration: what of the table is its business.
fn driver_spec(driver: &str, at: &Cursor<'_>, max_steps: Option<u64>) -> DriverSpec {
    let mut config = Map::new();
    for key in ["name", "steps", "initial", "states", "inputs", "outputs", "llm", "facts"] {
        if let Some(entry) = at.get(key) {
            config.insert(key.to_owned(), entry.value.clone());
        }
    }
    if let Some(most) = max_steps {
        config.insert("max_steps".to_owned(), most.into());
    }
    DriverSpec::new(driver, Value::Object(config))
}

#[derive(Debug, Default)]
struct Limits {
    steps: Option<u64>,
    tokens: Option<u64>,
    time: Option<Span>,
}

fn read_limits(at: &Cursor<'_>, problems: &mut Problems) -> Limits {
    at.keys(problems, &shape::LIMITS);
    let some = |key: &str, problems: &mut Problems| {
        let given = at.get(key)?;
        let number = given.whole(problems)?;
        if number == 0 {
            problems.push(
                &given,
                format!("{key} = 0 would allow nothing"),
                Some("leave it out for no limit".to_owned()),
            );
        }
        Some(number)
    };
    let steps = some("max_steps", problems);
    let tokens = some("token_budget", problems);
    let seconds = some("timeout_seconds", problems);
    Limits { steps, tokens, time: seconds.map(|seconds| Span(seconds.saturating_mul(1000))) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::lookup::{Found, Given, Kind, NotFound};
    use super::*;

    /// Knows one script and one fact.
    struct Known(Value);

    impl Lookup for Known {
        fn find(&self, _: Kind, _: &str) -> Result<Found, NotFound> {
            Err(NotFound { known: Vec::new(), why: "nothing is here".to_owned() })
        }

        fn script(&self, _: &str, _: &str) -> Result<Given, Vec<SourceError>> {
            Ok(Given { value: self.0.clone(), place: 15..20 })
        }

        fn facts(&self) -> Value {
            json!({ "has_tests": true })
        }
    }

    #[test]
    fn facts_are_frozen_where_they_are_mentioned() {
        let file = |when: &str| {
            format!(
                "[workflow]\n[[workflow.steps]]\nname = \"a\"\ntool = \"shell\"\nwhen = \"{when}\"\nparameters = {{ command = \"x\" }}\n"
            )
        };
        let known = Known(Value::Null);
        let with = parse(&file("facts.has_tests"), "w.toml", &known).unwrap();
        assert_eq!(with.driver.config["facts"], json!({ "has_tests": true }));
        let without = parse(&file("goal == 'x'"), "w.toml", &known).unwrap();
        assert!(without.driver.config.get("facts").is_none());
        let wrong = parse(&file("facts.has_test"), "w.toml", &known).unwrap_err();
        assert!(wrong[0].to_string().contains("has_tests"), "{}", wrong[0]);
    }

    #[test]
    fn mistakes_in_what_a_script_gave_name_the_way_and_the_script() {
        let text = "// a script\nfn steps(context) { … }\n";
        let steps = json!([
            { "name": "a", "tool": "shell", "parameters": { "command": "true" } },
            { "name": "b", "tool": "shell", "parameters": { "command": "true" }, "on_error": "abort" },
            { "name": "a", "tool": "shell", "parameters": { "command": "true" } },
        ]);
        let value = json!({ "workflow": { "steps": steps, "limts": {} } });
        let errors = parse(text, "w.rhai", &Known(value)).unwrap_err();
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        insta::assert_snapshot!(errors.join("\n"), @r#"
        error: limts: unknown key "limts" in [workflow]
         --> w.rhai:2:4
          |
        2 | fn steps(context) { … }
          |    ^^^^^
          = help: did you mean "limits"?
        error: steps[2].name: there are two steps named "a"
         --> w.rhai:2:4
          |
        2 | fn steps(context) { … }
          |    ^^^^^
          = help: give each a name of its own
        error: steps[1].on_error: "abort" must be one of fail, skip, retry, goto
         --> w.rhai:2:4
          |
        2 | fn steps(context) { … }
          |    ^^^^^
          = help: did you mean "fail"?
        "#);
    }
}
