//! Reads a workflow: plain data into a [`Flow`], with everything that is wrong, each at its place.

mod failures;
mod inputs;
mod kinds;
mod marks;
mod person;
mod states;
mod task;
mod tool;

pub(crate) use inputs::inputs;
pub(crate) use kinds::{chooser_of, driver_of};
pub(crate) use task::{criteria_of_steps, task_driver_of};

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::definition::*;
use super::names::{self, Mentions, Names};
use crate::file::check::{Cursor, Problems, is_name, suggest};
use crate::file::shape::workflow as shape;
use failures::find_repairs;
use marks::{forks, mark, mark_step};

const DEFAULT_RETRIES: u64 = 3;
const DEFAULT_GOTOS: u64 = 10;
/// More repeats than this are a mistake.
const MAX_RETRIES: u64 = shape::step::MAX_RETRIES;
/// How deep workflows, loops and branches may be nested.
const MAX_DEPTH: usize = 16;

/// How a workflow is read.
#[derive(Debug, Clone, Default)]
pub(super) struct Settings {
    /// Whether braces mean nothing: it was begun before there were templates.
    pub(super) plain: bool,
    /// Whether nothing may be left to look up.
    pub(super) complete: bool,
    /// The `llm` table of the workflow around it.
    pub(super) llm: Value,
    pub(super) depth: usize,
    pub(super) facts: Value,
    /// Whether it stands in a file, whose reader has looked at the keys of the table.
    pub(super) in_file: bool,
}

/// Reads a driver's configuration.
pub(super) fn definition(config: &Value, plain: bool) -> Result<Definition, String> {
    let mut problems = Problems::default();
    let at = Cursor::top(config);
    let settings = Settings { plain, complete: true, ..Settings::default() };
    if let Some(name) = at.get("workflow").filter(|_| at.get("steps").is_none()) {
        let name = crate::file::check::short(name.value);
        return Err(format!("the workflow {name} has not been looked up"));
    }
    let flow = flow(&at, &settings, &mut problems);
    let Some(flow) = flow.filter(|_| problems.is_empty()) else { return Err(problems.line()) };
    let none = Map::new();
    let inputs = bind(&flow.inputs, config["given"].as_object().unwrap_or(&none))?;
    let forks = forks(&flow.body);
    Ok(Definition { flow, inputs, facts: config["facts"].clone(), forks })
}

/// Checks a configuration that stands in a file.
pub(crate) fn check(at: &Cursor<'_>, problems: &mut Problems) {
    flow(at, &Settings { in_file: true, ..Settings::default() }, problems);
}

/// Whether it can stand in an expression.
pub(super) fn is_word(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Reads a workflow; nothing if it is too wrong to go on.
pub(super) fn flow(at: &Cursor<'_>, settings: &Settings, problems: &mut Problems) -> Option<Flow> {
    if !settings.in_file && !at.keys(problems, &shape::CONFIG) {
        return None;
    }
    if settings.depth > MAX_DEPTH {
        let message = format!("workflows may be nested at most {MAX_DEPTH} deep");
        problems.push_key(at, message, Some("take some of the levels out".to_owned()));
        return None;
    }
    let in_file = settings.in_file;
    let name = at.get("name").and_then(|name| name.name(problems)).unwrap_or_default().to_owned();
    let max_steps = at.get("max_steps").and_then(|most| most.whole(problems));
    let time = at.get("timeout").and_then(|time| time.span(problems));
    let inputs = at.get("inputs").map(|table| inputs(&table, problems)).unwrap_or_default();
    let mut settings = Settings { in_file: false, ..settings.clone() };
    if let Some(llm) = at.get("llm") {
        read_llm(&llm, problems);
        settings.llm = llm.value.clone();
    }
    if let Some(facts) = at.get("facts") {
        settings.facts = facts.value.clone();
    }
    let facts = settings.facts.clone();
    let names = Names::of_flow(&inputs, Some(&facts).filter(|facts| facts.is_object()));
    let mut reader = Reader { settings: &settings, mentions: Mentions::default(), problems };
    let list = match (at.get("steps"), at.get("states")) {
        (Some(_), Some(states)) => {
            reader.problems.push_key(
                &states,
                "a workflow has either steps or states",
                Some("remove one of the two".to_owned()),
            );
            return None;
        }
        (Some(list), None) => {
            // What stands in a file has been told of it.
            if let Some(initial) = at.get("initial").filter(|_| !in_file) {
                let hint = Some("steps begin with the first".to_owned());
                reader.problems.push_key(&initial, "initial goes with states", hint);
            }
            list
        }
        (None, Some(list)) => list,
        (None, None) => {
            reader.problems.push_key(at, "the key \"steps\" is missing", None);
            return None;
        }
    };
    let items = list.items(reader.problems);
    let named = names.with_steps(&items);
    let mut body = if at.get("states").is_some() {
        Body::States(reader.states(at, &list, &items, &named)?)
    } else {
        Body::Row(reader.row(&list, &items, &named))
    };
    let mut outputs = Vec::new();
    if let Some(table) = at.get("outputs") {
        if !table.value.is_object() {
            table.wrong(reader.problems, "a table of expressions");
        }
        for (name, entry) in table.entries() {
            outputs
                .extend(reader.formula(&entry, &named).map(|formula| (name.to_owned(), formula)));
        }
    }
    let mentions = std::mem::take(&mut reader.mentions);
    match &mut body {
        Body::Row(row) => mark(row, &mentions),
        Body::States(states) => {
            for state in &mut states.states {
                mark(&mut state.on_entry, &mentions);
                mark(&mut state.on_exit, &mentions);
                mark_step(&mut state.step, &mentions);
            }
        }
    }
    Some(Flow { name, inputs: inputs.clone(), outputs, max_steps, time, body })
}

/// Checks the table `llm`.
pub(crate) fn read_llm(at: &Cursor<'_>, problems: &mut Problems) {
    at.keys(problems, &shape::LLM);
    at.get("model").and_then(|model| kinds::read_model(&model, problems));
    at.get("temperature").and_then(|temperature| temperature.number(problems));
    at.get("system_prompt").and_then(|text| text.text(problems));
}

/// Where a step stands, which decides what it may say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stands {
    /// In a row.
    InARow,
    /// As the work of a state: what follows is said by transitions.
    AsAState,
}

/// Reads steps.
pub(super) struct Reader<'p, 's> {
    settings: &'s Settings,
    mentions: Mentions,
    problems: &'p mut Problems,
}

impl Reader<'_, '_> {
    fn formula(&mut self, at: &Cursor<'_>, names: &Names<'_>) -> Option<Formula> {
        names::formula(at, names, &mut self.mentions, self.problems)
    }

    fn condition(&mut self, at: &Cursor<'_>, names: &Names<'_>) -> Option<Formula> {
        names::condition(at, names, &mut self.mentions, self.problems)
    }

    fn filled(&mut self, at: &Cursor<'_>, names: &Names<'_>) -> Option<Filled> {
        names::filled(at, names, &mut self.mentions, self.problems)
    }

    /// A list of steps below another step. `names` are those around it.
    fn inner_row(&mut self, at: &Cursor<'_>, names: &Names<'_>, depth: usize) -> Row {
        if depth > MAX_DEPTH {
            let message = format!("steps may be nested at most {MAX_DEPTH} deep");
            self.problems.push_key(at, message, Some("take some of the levels out".to_owned()));
            return Row::default();
        }
        let items = at.items(self.problems);
        let named = names.with_steps(&items);
        self.row_at(at, &items, &named, depth)
    }

    /// Reads a list of steps. Only the steps without problems are given back.
    fn row(&mut self, at: &Cursor<'_>, items: &[Cursor<'_>], names: &Names<'_>) -> Row {
        self.row_at(at, items, names, self.settings.depth)
    }

    fn row_at(
        &mut self,
        at: &Cursor<'_>,
        items: &[Cursor<'_>],
        names: &Names<'_>,
        depth: usize,
    ) -> Row {
        if items.is_empty() && at.value.is_array() {
            self.problems.push(
                at,
                "a workflow needs at least one step",
                Some("add [[workflow.steps]] with name and tool or prompt".to_owned()),
            );
        }
        let places = self.places(items, "steps");
        let mut steps = Vec::new();
        let mut sources: Vec<Option<String>> = Vec::new();
        for item in items {
            if let Some(step) = self.step(item, &places, names, Stands::InARow, depth) {
                let from = item.get("input_from").and_then(|from| from.value.as_str());
                sources.push(from.map(str::to_owned));
                steps.push(step);
            }
        }
        let index = places.iter().map(|(name, at)| ((*name).to_owned(), *at)).collect();
        let mut row = Row { steps, index, keeps_last: false };
        if row.steps.len() == items.len() {
            find_repairs(&mut row, &sources, items);
        }
        row
    }

    /// The place of each name; two of one name are a problem.
    fn places<'v>(&mut self, items: &[Cursor<'v>], what: &str) -> BTreeMap<&'v str, usize> {
        let mut places = BTreeMap::new();
        for (index, item) in items.iter().enumerate() {
            let Some(name) = item.get("name") else { continue };
            let Some(text) = name.value.as_str() else { continue };
            if places.insert(text, index).is_some() {
                self.problems.push(
                    &name,
                    format!("there are two {what} named {text:?}"),
                    Some("give each a name of its own".to_owned()),
                );
            }
        }
        places
    }

    fn step(
        &mut self,
        at: &Cursor<'_>,
        places: &BTreeMap<&str, usize>,
        names: &Names<'_>,
        stands: Stands,
        depth: usize,
    ) -> Option<Step> {
        let name = at
            .need(self.problems, "name")
            .and_then(|name| name.name(self.problems))
            .unwrap_or_default()
            .to_owned();
        let when = at.get("when").and_then(|when| self.condition(&when, names));
        let timeout = at.get("timeout").and_then(|timeout| timeout.span(self.problems));
        let backoff = at.get("backoff").and_then(|backoff| backoff.span(self.problems));
        let work = self.work(at, &name, names, stands, depth);
        let (on_error, max_gotos) = self.failures(at, places, stands);
        if let Some(entry) = at.get("backoff")
            && !matches!(on_error, OnError::Retry { .. })
        {
            self.problems.push_key(
                &entry,
                "backoff needs on_error = \"retry\"",
                Some("add on_error = \"retry\", or leave it out".to_owned()),
            );
        }
        let on_timeout = self.on_timeout(at, places, stands);
        let then = at.get("then").and_then(|then| {
            if stands == Stands::AsAState {
                let hint = Some("write transitions = [{ to = \"STATE\" }]".to_owned());
                self.problems.push_key(&then, "a state has no then", hint);
                return None;
            }
            let name = then.text(self.problems)?;
            match places.get(name) {
                Some(index) => Some(Target::Step(*index)),
                None if name == "end" => Some(Target::End),
                None => {
                    let known = || places.keys().copied().chain(["end"]);
                    let hint = suggest(name, known()).or_else(|| listed(known()));
                    self.problems.push(&then, format!("there is no step {name:?}"), hint);
                    None
                }
            }
        });
        let max_visits = at.get("max_visits").and_then(|most| {
            if at.get("then").is_none() {
                self.problems.push_key(
                    &most,
                    "max_visits needs then",
                    Some("add then = \"STEP\", or leave it out".to_owned()),
                );
            }
            most.whole(self.problems)
        });
        Some(Step {
            name,
            work: work?,
            when,
            timeout,
            on_error,
            on_timeout: on_timeout.flatten(),
            max_gotos,
            backoff,
            then,
            max_visits: max_visits.unwrap_or(DEFAULT_GOTOS),
            repairs: None,
            checks_again: None,
            keeps: false,
            fields: None,
            told: true,
            counted: false,
        })
    }
}

/// The names that there are, for somebody who wrote another.
fn listed<'n>(names: impl Iterator<Item = &'n str>) -> Option<String> {
    let names: Vec<&str> = names.take(12).collect();
    (!names.is_empty()).then(|| format!("there are {}", names.join(", ")))
}

/// Whether a text has something to fill in.
fn has_places(text: &str) -> bool {
    text.contains("{{") || text.contains("{%") || text.contains("{#")
}

/// Whether it can be the name of an element.
fn can_name_an_element(name: &str) -> bool {
    is_name(name)
        && is_word(name)
        && !["goal", "inputs", "steps", "visits", "task", "facts", "loop", "result"].contains(&name)
}
