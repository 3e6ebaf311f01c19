//! `agents/NAME.toml` without a command: an agent that is made of parts. Who does the work (a workflow, a model, a coding
//! agent, another driver), with which prompt and tools, and what it is told and held to from the start.

use serde_json::{Value, json};

use super::check::{Cursor, Problems, suggest};
use super::lookup::{Kind, Lookup};
use super::shape::agent as shape;
use super::source::Source;
use super::{Format, SourceError, prompt, reference};
use crate::driver::composite;
use crate::policy::charter::{Charter, tool_meant};
use crate::server;
use crate::task::DriverSpec;
use crate::template::Template;
use crate::tool;

/// An agent that is made of parts.
#[derive(Debug, Clone, PartialEq)]
pub struct Composed {
    /// Its name.
    pub name: String,
    /// For a person.
    pub description: String,
    /// Who does the work.
    pub worker: Worker,
    /// What its models are told beside their own instructions: a template that may use `goal`.
    pub prompt: Option<String>,
    /// The file of the prompt, if it has one.
    pub prompt_file: Option<String>,
    /// What it is held to.
    pub charter: Charter,
    /// Whether it is told at the start what the project's checks say.
    pub include_diagnostics: bool,
    /// Whether it is told at the start what the project's notes say.
    pub include_memory: bool,
}

/// Who does the work of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Worker {
    /// The steps or states of a workflow, by name.
    Workflow(String),
    /// A model, as `PROVIDER/NAME`.
    Model(String),
    /// A coding agent, by name, and its model.
    Program(String, Option<String>),
    /// Another driver, by name.
    Driver(String),
}

/// Whether an agent's file is made of parts rather than a command.
pub fn is_composed(text: &str, file: &str) -> bool {
    let Ok(source) = Source::read(file, text, Format::of(file)) else { return false };
    let agent = &source.value["agent"];
    let parts = ["workflow", "driver", "model", "program", "prompt", "tools", "context"];
    agent.get("command").is_none() && parts.iter().any(|key| agent.get(*key).is_some())
}

/// Reads an agent's file that is made of parts. What it refers to is looked up.
pub fn parse(text: &str, file: &str, lookup: &dyn Lookup) -> Result<Composed, Vec<SourceError>> {
    let source = Source::read(file, text, Format::of(file))?;
    let mut problems = Problems::default();
    let top = Cursor::top(&source.value);
    top.keys(&mut problems, &shape::TOP);
    let mut others = Vec::new();
    let read = top
        .need(&mut problems, "agent")
        .and_then(|table| read_agent(&table, lookup, &mut problems, &mut others));
    match read {
        Some(agent) if problems.is_empty() && others.is_empty() => Ok(agent),
        _ => {
            let mut errors = source.errors(problems);
            errors.extend(others);
            Err(errors)
        }
    }
}

fn read_agent(
    at: &Cursor<'_>,
    lookup: &dyn Lookup,
    problems: &mut Problems,
    others: &mut Vec<SourceError>,
) -> Option<Composed> {
    if !at.keys(problems, &shape::COMPOSED) {
        return None;
    }
    let name = at.need(problems, "name").and_then(|name| name.name(problems)).map(str::to_owned);
    let description =
        at.get("description").and_then(|text| text.text(problems)).unwrap_or_default().to_owned();
    let worker = read_worker(at, lookup, problems);
    let (prompt, prompt_file) = match at.get("prompt") {
        Some(given) => read_prompt(&given, lookup, problems, others),
        None => (None, None),
    };
    let mut charter = Charter { agent: name.clone().unwrap_or_default(), ..Charter::default() };
    if let Some(tools) = at.get("tools") {
        tools.keys(problems, &shape::TOOLS);
        charter.enabled = tools.get("enabled").map(|list| read_tools(&list, problems));
        charter.disabled =
            tools.get("disabled").map(|list| read_tools(&list, problems)).unwrap_or_default();
    }
    let context = at.get("context");
    let flag = |key: &str, problems: &mut Problems| {
        let given = context.as_ref()?.get(key)?;
        given.flag(problems)
    };
    if let Some(context) = &context {
        context.keys(problems, &shape::CONTEXT);
    }
    let include_diagnostics = flag("include_diagnostics", problems).unwrap_or(false);
    let include_memory = flag("include_memory", problems).unwrap_or(false);
    charter.peek_first = flag("peek_first", problems).unwrap_or(false);
    check_fit(at, worker.as_ref(), &charter, problems);
    Some(Composed {
        name: name?,
        description,
        worker: worker?,
        prompt,
        prompt_file,
        charter,
        include_diagnostics,
        include_memory,
    })
}

/// Who does the work: exactly one of them is named.
fn read_worker(at: &Cursor<'_>, lookup: &dyn Lookup, problems: &mut Problems) -> Option<Worker> {
    let named: Vec<(&str, Cursor<'_>)> = ["workflow", "program", "driver"]
        .into_iter()
        .filter_map(|key| Some((key, at.get(key)?)))
        .collect();
    if let [(first, _), (second, other), ..] = named.as_slice() {
        let message = format!("who does the work? {first} and {second} are both named");
        problems.push_key(other, message, Some("name one of them".to_owned()));
        return None;
    }
    let model = at.get("model");
    let name =
        |given: &Cursor<'_>, problems: &mut Problems| given.text(problems).map(str::to_owned);
    match (named.first(), model) {
        (None, None) => {
            let hint = "add model = \"PROVIDER/NAME\", workflow = \"@workflows/NAME\" or program = \"claude\"";
            problems.push_key(at, "nobody does the work of this agent", Some(hint.to_owned()));
            None
        }
        (None, Some(model)) => read_model(&model, problems).map(Worker::Model),
        (Some(("program", given)), model) => {
            let model = model.and_then(|model| name(&model, problems));
            Some(Worker::Program(given.name(problems)?.to_owned(), model))
        }
        (Some(("driver", given)), Some(model)) => match given.text(problems)? {
            "llm" => read_model(&model, problems).map(Worker::Model),
            other => {
                let message = format!("a model goes with the driver llm, not with {other:?}");
                problems.push_key(&model, message, None);
                None
            }
        },
        (Some(("driver", given)), None) => match given.text(problems)? {
            driver @ ("llm" | "workflow" | "state_machine" | "agent") => {
                let with = match driver {
                    "llm" => "model = \"PROVIDER/NAME\"",
                    "agent" => "program = \"claude\"",
                    _ => "workflow = \"@workflows/NAME\"",
                };
                let message = format!("the driver {driver:?} has nothing to work with");
                problems.push(given, message, Some(format!("write {with}")));
                None
            }
            driver => Some(Worker::Driver(driver.to_owned())),
        },
        (Some((_, given)), model) => {
            if let Some(model) = model {
                let hint = "a workflow names its models itself, in [workflow.llm]".to_owned();
                problems.push_key(&model, "a model does not go with a workflow", Some(hint));
            }
            read_workflow(given, lookup, problems).map(Worker::Workflow)
        }
    }
}

fn read_model(given: &Cursor<'_>, problems: &mut Problems) -> Option<String> {
    let model = given.text(problems)?;
    let parts = model.split_once('/');
    if parts.is_none_or(|(provider, name)| provider.is_empty() || name.is_empty()) {
        let hint = "write PROVIDER/NAME; drivetrain models lists the providers".to_owned();
        problems.push(given, format!("{model:?} is not a model"), Some(hint));
        return None;
    }
    Some(model.to_owned())
}

fn read_workflow(
    given: &Cursor<'_>,
    lookup: &dyn Lookup,
    problems: &mut Problems,
) -> Option<String> {
    let written = given.text(problems)?;
    let named = match reference::read(written) {
        Ok(Some(found)) if found.kind == Kind::Workflow => found.name,
        Ok(Some(_)) => {
            problems.push(given, "a prompt does no work", Some("write @workflows/NAME".to_owned()));
            return None;
        }
        Ok(None) => {
            let hint = Some(format!("write @workflows/{}", written.trim_start_matches('@')));
            problems.push(given, format!("{written:?} does not refer to a workflow"), hint);
            return None;
        }
        Err(wrong) => {
            problems.push_within(given, (wrong.start, wrong.end), wrong.message, wrong.hint);
            return None;
        }
    };
    if let Err(missing) = lookup.find(Kind::Workflow, &named) {
        problems.push(given, missing.why.clone(), missing.hint(&named));
        return None;
    }
    Some(named)
}

fn read_prompt(
    given: &Cursor<'_>,
    lookup: &dyn Lookup,
    problems: &mut Problems,
    others: &mut Vec<SourceError>,
) -> (Option<String>, Option<String>) {
    let Some(written) = given.text(problems) else { return (None, None) };
    let (text, file) = match reference::read(written) {
        Ok(None) => (reference::literal(written).to_owned(), None),
        Ok(Some(found)) if found.kind == Kind::Prompt => {
            match lookup.find(Kind::Prompt, &found.name) {
                Err(missing) => {
                    problems.push(given, missing.why.clone(), missing.hint(&found.name));
                    return (None, None);
                }
                Ok(found) => match prompt::parse(&found.text, &found.file) {
                    Ok(prompt) => (prompt.text, Some(found.file)),
                    Err(errors) => {
                        others.extend(errors);
                        return (None, None);
                    }
                },
            }
        }
        Ok(Some(_)) => {
            problems.push(given, "a workflow is no prompt", Some("write @prompts/NAME".to_owned()));
            return (None, None);
        }
        Err(wrong) => {
            problems.push_within(given, (wrong.start, wrong.end), wrong.message, wrong.hint);
            return (None, None);
        }
    };
    match Template::parse(&text) {
        Err(wrong) => problems.push_within(given, (wrong.start, wrong.end), wrong.message, None),
        Ok(template) => {
            for used in template.uses().iter().filter(|used| used.path != ["goal"]) {
                let message =
                    format!("nobody gives {:?} to the prompt of an agent", used.path.join("."));
                let hint = suggest(&used.path[0], ["goal"].into_iter())
                    .or_else(|| Some("only goal is known here".to_owned()));
                match &file {
                    None => problems.push_within(given, (used.start, used.end), message, hint),
                    Some(_) => problems.push(given, message, hint),
                }
            }
        }
    }
    (Some(text), file)
}

fn read_tools(list: &Cursor<'_>, problems: &mut Problems) -> Vec<String> {
    let mut tools = Vec::new();
    for item in list.items(problems) {
        let Some(name) = item.text(problems) else { continue };
        if server::is_offered(name) {
            tools.push(name.to_owned());
            continue;
        }
        match tool_meant(name) {
            Some(tool) => tools.push(tool.to_owned()),
            None => {
                let names: Vec<&str> = tool::TOOLS.iter().map(|tool| tool.name).collect();
                let hint = suggest(name, names.iter().copied())
                    .or_else(|| Some(format!("the tools are {}", names.join(", "))));
                problems.push(&item, format!("there is no tool {name:?}"), hint);
            }
        }
    }
    tools
}

/// What cannot be held is an error, not a promise.
fn check_fit(at: &Cursor<'_>, worker: Option<&Worker>, charter: &Charter, problems: &mut Problems) {
    let context = at.get("context");
    let flag = |key: &str| {
        context
            .as_ref()
            .and_then(|context| context.get(key))
            .filter(|flag| flag.value == &json!(true))
    };
    match worker {
        Some(Worker::Program(program, _)) => {
            if let Some(flag) = flag("peek_first") {
                let message = format!(
                    "peek_first cannot be held for {program}: what it reads with tools of its own is not seen"
                );
                problems.push_key(
                    &flag,
                    message,
                    Some("it goes with a model or a workflow".to_owned()),
                );
            }
        }
        Some(Worker::Driver(driver)) => {
            for key in ["include_diagnostics", "include_memory"] {
                if let Some(flag) = flag(key) {
                    let message =
                        format!("the driver {driver:?} cannot be told anything at the start");
                    problems.push_key(
                        &flag,
                        message,
                        Some("it goes with a model, a program or a workflow".to_owned()),
                    );
                }
            }
            if let Some(prompt) = at.get("prompt") {
                problems.push_key(&prompt, format!("the driver {driver:?} takes no prompt"), None);
            }
        }
        Some(Worker::Model(_) | Worker::Workflow(_)) | None => {}
    }
    if charter
        .enabled
        .as_ref()
        .is_some_and(|enabled| !enabled.is_empty() && enabled.iter().all(|name| !charter.has(name)))
        && let Some(tools) = at.get("tools")
    {
        problems.push_key(&tools, "every tool that is enabled is disabled too", None);
    }
}

impl Composed {
    /// The driver that does the work, before names in it are looked up.
    pub fn driver(&self) -> DriverSpec {
        let (name, config) = match &self.worker {
            Worker::Workflow(workflow) => ("workflow", json!({ "workflow": workflow })),
            Worker::Model(model) => ("llm", json!({ "model": model })),
            Worker::Program(program, None) => ("agent", json!({ "agent": program })),
            Worker::Program(program, Some(model)) => {
                ("agent", json!({ "agent": program, "model": model }))
            }
            Worker::Driver(driver) => (driver.as_str(), json!({})),
        };
        DriverSpec::new(name, config)
    }

    /// Tells every model and coding agent below a driver, whose names were looked up, what the file says: its tools, its
    /// prompt, what is looked at first. `notes` is what the project's notes say.
    pub fn instruct(
        &self,
        driver: &mut DriverSpec,
        goal: &str,
        notes: Option<&str>,
    ) -> Result<(), String> {
        let prompt = match &self.prompt {
            Some(text) => Some(
                Template::parse(text)
                    .map_err(|error| error.message)?
                    .render(&json!({ "goal": goal }))
                    .map_err(|why| format!("the prompt of the agent {:?}: {why}", self.name))?,
            ),
            None => None,
        };
        composite::visit(&driver.name, &mut driver.config, &mut |name, config| {
            if !matches!(name, "llm" | "agent") || !config.is_object() {
                return Ok(());
            }
            let own = config["system"].as_str().map(str::to_owned);
            let said: Vec<String> = [own, prompt.clone(), notes.map(str::to_owned)]
                .into_iter()
                .flatten()
                .filter(|text| !text.trim().is_empty())
                .collect();
            if !said.is_empty() {
                config["system"] = said.join("\n\n").into();
            }
            if name == "llm" {
                self.restrict(config);
            }
            if self.include_diagnostics && self.charter.has("validator.run") {
                config["first"] = json!([{
                    "tool": "validator.run",
                    "title": "What the project's own checks say before anything is changed",
                }]);
            }
            Ok(())
        })
    }

    /// A model is offered only what it may use.
    fn restrict(&self, config: &mut Value) {
        let listed = config["tools"].as_array().map(|list| {
            list.iter().filter_map(Value::as_str).map(str::to_owned).collect::<Vec<String>>()
        });
        let tools = match (&self.charter.enabled, listed) {
            (Some(enabled), Some(listed)) => {
                Some(listed.into_iter().filter(|name| enabled.contains(name)).collect())
            }
            (Some(enabled), None) => Some(enabled.clone()),
            (None, listed) => listed,
        };
        if let Some(tools) = tools {
            config["tools"] = json!(tools);
        }
        if !self.charter.disabled.is_empty() {
            config["without"] = json!(self.charter.disabled);
        }
    }
}

#[cfg(test)]
mod tests;
