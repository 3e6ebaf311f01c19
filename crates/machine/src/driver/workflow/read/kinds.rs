//! The kinds of steps: which keys each has, and what they say.

use serde_json::{Map, Value, json};

use super::{Reader, Settings, Stands, can_name_an_element, flow, listed};
use crate::driver::workflow::definition::*;
use crate::driver::workflow::names::{self, Names};
use crate::driver::workflow::schema::Schema;
use crate::file::check::{Cursor, Problems, is_name, short, suggest};
use crate::file::shape::workflow::step as shape;
use crate::tool;

/// The words for `type`.
pub(super) const TYPES: [&str; 9] =
    ["tool", "llm", "agent", "person", "workflow", "foreach", "parallel", "driver", "task"];

/// More at once are a mistake.
const MAX_WIDTH: u64 = shape::MAX_WIDTH;

/// The keys that a state has beside those of a step.
pub(super) const STATE_KEYS: [&str; 6] =
    ["on_entry", "on_exit", "transitions", "choose", "terminal", "outcome"];

/// The keys that tell a kind.
const TELLING: [(&str, &str); 10] = [
    ("task", "task"),
    ("foreach", "foreach"),
    ("parallel", "parallel"),
    ("workflow", "workflow"),
    ("agent", "agent"),
    ("ask", "person"),
    ("approve", "person"),
    ("driver", "driver"),
    ("tool", "tool"),
    ("prompt", "llm"),
];

/// Which kind a step is by its keys alone.
fn kind_of(at: &Cursor<'_>) -> Option<&'static str> {
    let is_model =
        |text: &Cursor<'_>| text.value.as_str().is_some_and(|name| name.starts_with("llm."));
    if at.get("tool").is_some_and(|tool| is_model(&tool)) {
        return Some("llm");
    }
    TELLING.iter().find(|(key, _)| at.get(key).is_some()).map(|(_, kind)| *kind)
}

/// A model's name, which says whose it is.
pub(crate) fn read_model(at: &Cursor<'_>, problems: &mut Problems) -> Option<String> {
    let name = at.text(problems)?;
    if name.split_once('/').is_none_or(|(provider, name)| provider.is_empty() || name.is_empty()) {
        let message = format!("{} is not a model: expected PROVIDER/NAME", short(at.value));
        problems.push(
            at,
            message,
            Some("write something such as anthropic/NAME or script/FILE".to_owned()),
        );
    }
    Some(name.to_owned())
}

/// The configuration of a model's driver.
pub(crate) fn model_config(model: Option<&str>, temperature: &Value, tools: &Value) -> Value {
    let mut config = json!({ "tools": tools, "bare": true });
    if let Some(model) = model {
        config["model"] = json!(model);
    }
    if !temperature.is_null() {
        config["temperature"] = temperature.clone();
    }
    config
}

/// The configuration of the driver of a step, as whoever looks up names is shown it; nothing if no other driver is at
/// work in it. `llm` is the table of the workflow around it.
pub(crate) fn driver_of(step: &Map<String, Value>, llm: &Value) -> Option<(String, Value)> {
    let text = |key: &str| step.get(key).and_then(Value::as_str);
    // Anything else than a table has been told.
    let resolved = step.get("driver_config").filter(|config| config.is_object());
    if let Some(agent) = text("agent") {
        let mut config = resolved.cloned().unwrap_or_else(|| json!({ "agent": agent }));
        if let (None, Some(model)) = (config.get("program"), text("model")) {
            config["model"] = json!(model);
        }
        return Some(("agent".to_owned(), config));
    }
    if let Some(driver) = text("driver") {
        return Some((driver.to_owned(), resolved.cloned().unwrap_or_else(|| json!({}))));
    }
    let is_model = text("type") == Some("llm")
        || text("tool").map_or(step.contains_key("prompt"), |tool| tool.starts_with("llm."));
    if !is_model
        || ["foreach", "parallel", "workflow", "ask", "approve", "task"]
            .iter()
            .any(|key| step.contains_key(*key))
    {
        return None;
    }
    let none = json!([]);
    let temperature = step.get("temperature").unwrap_or(&llm["temperature"]);
    let model = text("model").or(llm["model"].as_str());
    let mut config = model_config(model, temperature, step.get("tools").unwrap_or(&none));
    for (key, value) in resolved.and_then(Value::as_object).into_iter().flatten() {
        if !matches!(key.as_str(), "model" | "tools" | "temperature") {
            config[key] = value.clone();
        }
    }
    Some(("llm".to_owned(), config))
}

/// The same for the model that chooses among transitions.
pub(crate) fn chooser_of(choose: &Value, llm: &Value) -> (&'static str, Value) {
    let model = choose["model"].as_str().or(llm["model"].as_str());
    let mut config = model_config(model, &llm["temperature"], &json!([]));
    for (key, value) in choose["driver_config"].as_object().into_iter().flatten() {
        if !matches!(key.as_str(), "model" | "tools" | "temperature") {
            config[key] = value.clone();
        }
    }
    ("llm", config)
}

impl Reader<'_, '_> {
    /// Whether a key that no step has looks like one that would tell what the step does; it is told then.
    fn is_misspelt(&mut self, at: &Cursor<'_>) -> bool {
        let forms = || TELLING.iter().filter_map(|(_, kind)| shape::of(kind));
        let is_known = |key: &str| forms().any(|forms| forms.step.names().any(|name| name == key));
        for (key, entry) in at.entries().filter(|(key, _)| !is_known(key)) {
            if let Some(hint) = suggest(key, TELLING.iter().map(|(key, _)| *key)) {
                self.problems.push_key(
                    &entry,
                    format!("unknown key {key:?} in a step"),
                    Some(hint),
                );
                return true;
            }
        }
        false
    }

    /// What a step does.
    pub(super) fn work(
        &mut self,
        at: &Cursor<'_>,
        name: &str,
        names: &Names<'_>,
        stands: Stands,
        depth: usize,
    ) -> Option<Work> {
        if !at.value.is_object() {
            at.wrong(self.problems, "a table");
            return None;
        }
        let said = match at.get("type") {
            Some(word) if word.value == "hybrid" => {
                let hint = Some("write a tool step and an llm step".to_owned());
                self.problems.push(&word, "there is no type \"hybrid\"", hint);
                return None;
            }
            Some(word) => Some((word.clone(), word.choice(self.problems, &TYPES)?)),
            None => None,
        };
        let told = kind_of(at);
        let kind = match (&said, told) {
            (Some((_, said)), _) => *said,
            (None, Some(told)) => told,
            (None, None) if stands == Stands::AsAState && at.get("steps").is_some() => "steps",
            (None, None) if stands == Stands::AsAState => "nothing",
            // What the key names could not be looked up, which has been told.
            (None, None) if TELLING.iter().any(|(key, _)| at.value.get(key).is_some()) => {
                return None;
            }
            (None, None) if self.is_misspelt(at) => return None,
            (None, None) => {
                let hint = "add tool, prompt, agent, ask, approve, workflow, foreach, parallel, driver or task";
                self.problems.push_key(at, "the step does nothing", Some(hint.to_owned()));
                return None;
            }
        };
        let forms = shape::of(kind);
        let table = match (stands, kind) {
            (Stands::AsAState, "steps") => &shape::ROW,
            (Stands::AsAState, _) => forms.map_or(&shape::JUNCTION, |forms| &forms.state),
            // A step in a row has one of the kinds.
            (Stands::InARow, _) => &forms?.step,
        };
        at.keys(self.problems, table);
        match kind {
            "tool" => self.tool(at, name, names),
            "llm" | "agent" | "driver" => self.driver(at, kind, names),
            "person" => self.person(at, names),
            "workflow" => self.nested(at, names, depth),
            "foreach" => self.each(at, names, depth),
            "parallel" => self.parallel(at, names, depth),
            "task" => self.task(at, names, depth),
            "steps" => {
                let steps = at.get("steps")?;
                Some(Work::Row(Box::new(self.inner_row(&steps, names, depth + 1))))
            }
            _ => Some(Work::Nothing),
        }
    }

    /// The step whose text is taken.
    pub(super) fn source(&mut self, at: &Cursor<'_>, names: &Names<'_>) -> Option<String> {
        let from = at.get("input_from")?;
        let name = from.text(self.problems)?;
        if !names.has_step(name) {
            let hint = suggest(name, names.step_names()).or_else(|| listed(names.step_names()));
            self.problems.push(&from, format!("there is no step {name:?}"), hint);
            return None;
        }
        self.mentions.text_of(name);
        Some(name.to_owned())
    }

    fn driver(&mut self, at: &Cursor<'_>, kind: &str, names: &Names<'_>) -> Option<Work> {
        let input = self.source(at, names);
        let prompt = match at.get("prompt") {
            Some(text) => Some(self.filled(&text, names)?),
            None if kind == "llm" => {
                at.need(self.problems, "prompt");
                return None;
            }
            None => None,
        };
        if kind == "agent"
            && let Some(agent) = at.need(self.problems, "agent")
        {
            agent.name(self.problems)?;
        }
        if kind == "driver" {
            self.driver_name(at)?;
        }
        if kind == "llm"
            && let Some(tool) = at.get("tool")
            && tool.text(self.problems).is_some_and(|name| !name.starts_with("llm."))
        {
            let hint = "an llm step names what it may use in tools = [\"read\", …]".to_owned();
            let message = format!("a step of type llm does not call {}", short(tool.value));
            self.problems.push(&tool, message, Some(hint));
        }
        if let Some(tools) = at.get("tools") {
            self.tools(&tools);
        }
        if let Some(config) = at.get("driver_config").filter(|config| !config.value.is_object()) {
            config.wrong(self.problems, "a table");
        }
        if let Some(model) = at.get("model") {
            // An agent has names of its own for its models.
            match kind {
                "llm" => drop(read_model(&model, self.problems)),
                _ => drop(model.text(self.problems)),
            }
        }
        at.get("temperature").and_then(|number| number.number(self.problems));
        let schema = at.get("schema").map(|schema| Schema::read(&schema, self.problems));
        let llm = self.settings.llm.clone();
        let system = match (at.get("system_prompt"), llm["system_prompt"].as_str()) {
            (Some(own), _) => self.filled(&own, names),
            (None, Some(_)) if kind == "llm" => {
                let own = Cursor::top(&llm).get("system_prompt")?;
                // Its place is that of the table, not of the step: it is read apart.
                let mut apart = Problems::default();
                let read = names::filled(&own, names, &mut self.mentions, &mut apart);
                if !apart.is_empty() {
                    let message = format!("[workflow.llm] {}", apart.line());
                    self.problems.push_key(at, message, None);
                }
                read
            }
            _ => None,
        };
        let (driver, config) = driver_of(at.value.as_object()?, &llm)?;
        if kind == "llm" && self.settings.complete && config.get("model").is_none() {
            let hint = "add model = \"PROVIDER/NAME\" to the step or to [workflow.llm]";
            self.problems.push_key(at, "it is not said which model", Some(hint.to_owned()));
        }
        Some(Work::Driver(Box::new(DriverWork { driver, config, prompt, system, input, schema })))
    }

    pub(super) fn driver_name(&mut self, at: &Cursor<'_>) -> Option<()> {
        let given = at.need(self.problems, "driver")?;
        let name = given.text(self.problems)?;
        let registry = crate::driver::Registry::builtin();
        let is_plugin = name.strip_prefix("external:").is_some_and(is_name);
        if !is_plugin
            && (name.contains(':') || (registry.find(name).is_err() && !self.settings.complete))
        {
            let hint = suggest(name, registry.names()).or_else(|| {
                Some(format!("expected one of {}", registry.names().collect::<Vec<_>>().join(", ")))
            });
            self.problems.push(&given, format!("no driver {name:?}"), hint);
            return None;
        }
        Some(())
    }

    fn tools(&mut self, at: &Cursor<'_>) {
        for item in at.items(self.problems) {
            let Some(name) = item.text(self.problems) else { continue };
            if !crate::server::is_offered(name) && tool::find(name).is_none() {
                let hint = suggest(name, tool::TOOLS.iter().map(|tool| tool.name));
                self.problems.push(&item, format!("there is no tool {name:?}"), hint);
            }
        }
    }

    fn nested(&mut self, at: &Cursor<'_>, names: &Names<'_>, depth: usize) -> Option<Work> {
        let table = at.need(self.problems, "workflow")?;
        if let Value::String(name) = table.value {
            if self.settings.complete {
                let message = format!("the workflow {name:?} has not been looked up");
                self.problems.push(
                    &table,
                    message,
                    Some("run it by its name, so that it is found".to_owned()),
                );
            }
            return None;
        }
        let settings = Settings { depth: depth + 1, ..self.settings.clone() };
        let flow = flow(&table, &settings, self.problems)?;
        let given = self.inputs_of(at, &flow, names);
        Some(Work::Flow(Box::new(FlowWork { flow, given })))
    }

    /// What a step gives to the inputs of the workflow that it runs.
    pub(super) fn inputs_of(
        &mut self,
        at: &Cursor<'_>,
        flow: &Flow,
        names: &Names<'_>,
    ) -> Vec<(String, Given)> {
        let mut given = Vec::new();
        if let Some(values) = at.get("inputs") {
            if !values.value.is_object() {
                values.wrong(self.problems, "a table");
            }
            for (name, entry) in values.entries() {
                let Some(input) = flow.inputs.iter().find(|input| input.name == name) else {
                    let hint = suggest(name, flow.inputs.iter().map(|input| input.name.as_str()));
                    let message = format!("{} has no input {name:?}", flow.title());
                    self.problems.push_key(&entry, message, hint);
                    continue;
                };
                if entry.value.is_string() {
                    if let Some(formula) = self.given(&entry, names) {
                        given.push((name.to_owned(), Given::Formula(formula)));
                    }
                } else if let Some(why) = input.refuses(entry.value) {
                    let hint = "give it what the workflow takes".to_owned();
                    self.problems.push(&entry, why, Some(hint));
                } else {
                    given.push((name.to_owned(), Given::Literal(entry.value.clone())));
                }
            }
        }
        for input in flow.inputs.iter().filter(|input| input.default.is_none()) {
            let is_given = at.get("inputs").is_some_and(|values| values.get(&input.name).is_some());
            if !is_given {
                let hint = format!("add inputs = {{ {} = \"…\" }}", input.name);
                let message = format!("{} needs the input {:?}", flow.title(), input.name);
                self.problems.push_key(at, message, Some(hint));
            }
        }
        given
    }

    /// An expression that gives an input; a plain text there is a common slip.
    fn given(&mut self, at: &Cursor<'_>, names: &Names<'_>) -> Option<Formula> {
        let mut apart = Problems::default();
        match names::formula(at, names, &mut self.mentions, &mut apart) {
            Some(formula) if apart.is_empty() => Some(formula),
            _ => {
                let text = at.value.as_str().unwrap_or_default();
                let hint = format!("it is an expression; for this very text write \"'{text}'\"");
                let (mut list, _) = apart.into_parts();
                let first = (!list.is_empty()).then(|| list.remove(0));
                let message = first.as_ref().map_or("not an expression", |one| &one.message);
                let hint = first
                    .as_ref()
                    .and_then(|one| one.hint.clone())
                    .map_or(hint.clone(), |own| format!("{own} {hint}"));
                self.problems.push(at, message, Some(hint));
                None
            }
        }
    }

    fn each(&mut self, at: &Cursor<'_>, names: &Names<'_>, depth: usize) -> Option<Work> {
        let list = at.need(self.problems, "foreach")?;
        let list = names::list(&list, names, &mut self.mentions, self.problems);
        let name = match at.get("as") {
            Some(given) => {
                let name = given.text(self.problems)?;
                if !can_name_an_element(name) {
                    let hint =
                        "letters, digits and _, and none of the names that are there already";
                    let message =
                        format!("{} cannot be the name of an element", short(given.value));
                    self.problems.push(&given, message, Some(hint.to_owned()));
                }
                name
            }
            None => "item",
        };
        let width = at.get("max_parallel").and_then(|most| {
            let given = most.whole(self.problems)?;
            if given == 0 || given > MAX_WIDTH {
                let message = format!("max_parallel is from 1 to {MAX_WIDTH}, got {given}");
                self.problems.push(
                    &most,
                    message,
                    Some("1 runs them one after the other".to_owned()),
                );
            }
            Some(given)
        });
        let join = self.join(at);
        let steps = at.need(self.problems, "steps")?;
        let inner = names.with_element(name);
        let row = self.inner_row(&steps, &inner, depth + 1);
        let width = usize::try_from(width.unwrap_or(1)).unwrap_or(1);
        Some(Work::Each(Box::new(Each {
            list: list?,
            name: name.to_owned(),
            row,
            width,
            join,
            keeps: false,
        })))
    }

    fn join(&mut self, at: &Cursor<'_>) -> Join {
        let word = at.get("join").and_then(|join| join.choice(self.problems, &["all", "any"]));
        if word == Some("any") { Join::Any } else { Join::All }
    }

    fn parallel(&mut self, at: &Cursor<'_>, names: &Names<'_>, depth: usize) -> Option<Work> {
        let table = at.need(self.problems, "parallel")?;
        if !table.value.is_object() {
            table.wrong(self.problems, "a table of branches, each a list of steps");
            return None;
        }
        let join = self.join(at);
        let mut branches = Vec::new();
        for (name, steps) in table.entries() {
            if !is_name(name) {
                self.problems.push_key(&steps, format!("{name:?} is not a name"), None);
            }
            branches.push((name.to_owned(), self.inner_row(&steps, names, depth + 1)));
        }
        if branches.is_empty() {
            self.problems.push(&table, "there is no branch", None);
        }
        Some(Work::Parallel(Box::new(Parallel { branches, join })))
    }
}
