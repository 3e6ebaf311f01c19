//! Drivers made of drivers: `sequence`, `fallback`, `retry`, `race` and `until_accepted`, one file each.
//!
//! This file holds what they share: how a configuration names a child, and `Child`, which keeps the
//! driver's contract toward a child whatever the parent is. A child is addressed by its index: the parent
//! pushes it to the front of the path of the child's actions and routes results back by it. Stragglers
//! (actions under way of a child that is done) are counted and reported to nobody; a parent begins the
//! next child only when there are none, so that two children work at once in a `race` only.

mod fallback;
mod race;
mod retry;
mod sequence;
mod until_accepted;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{
    Action, Consultation, Decision, Driver, DriverKind, Fact, NO_CONVERSATION, Note, Registry,
    Situation, Wait,
};
use crate::id::CallId;
use crate::task::CriterionResult;
use crate::tool::ToolResult;

/// How deep composites may be nested.
pub const DEPTH: usize = 16;

/// The kinds of this module, for the registry.
pub fn kinds() -> Vec<Arc<dyn DriverKind>> {
    KINDS.iter().map(|kind| Arc::new(*kind) as Arc<dyn DriverKind>).collect()
}

/// Whether a driver of this name only chooses among others.
pub fn is_kind(name: &str) -> bool {
    KINDS.iter().any(|kind| kind.name == name)
}

/// Visits a driver's configuration and, if it is a composite, those of all drivers below it, parents first.
///
/// For whoever resolves names in configurations before a task starts, such as the file of a workflow or
/// the command of a plugin. `visit` gets a driver's name and its configuration, which it may change. An
/// error is prefixed with the place of the driver it is about.
pub fn visit<F>(name: &str, config: &mut Value, visit: &mut F) -> Result<(), String>
where
    F: FnMut(&str, &mut Value) -> Result<(), String>,
{
    walk(name, config, DEPTH, visit)
}

fn walk<F>(name: &str, config: &mut Value, left: usize, visit: &mut F) -> Result<(), String>
where
    F: FnMut(&str, &mut Value) -> Result<(), String>,
{
    visit(name, config)?;
    if name == "workflow" {
        return walk_flow(config, &Value::Null, left, visit);
    }
    if !is_kind(name) {
        return Ok(());
    }
    let Some(left) = left.checked_sub(1) else {
        return Err(format!("drivers may be nested at most {DEPTH} deep"));
    };
    let Value::Object(fields) = config else { return Ok(()) };
    let mut children: Vec<(String, &mut Value)> = Vec::new();
    for (key, value) in fields {
        match (key.as_str(), value) {
            ("driver", child) => children.push(("driver".to_owned(), child)),
            ("drivers", Value::Array(list)) => {
                children.extend(
                    list.iter_mut().enumerate().map(|(i, child)| (format!("drivers[{i}]"), child)),
                );
            }
            _ => {}
        }
    }
    for (place, child) in children {
        let Value::Object(child) = child else { continue };
        let Some(name) = child.get("driver").and_then(Value::as_str).map(str::to_owned) else {
            continue;
        };
        let key = if child.contains_key("driver_config") { "driver_config" } else { "config" };
        // A child without a configuration is visited too: the visitor may put one there.
        let mut config = child.remove(key).unwrap_or_default();
        let visited = walk(&name, &mut config, left, visit);
        if !config.is_null() {
            child.insert(key.to_owned(), config);
        }
        visited.map_err(|why| join(&format!("{place}.{key}"), &why))?;
    }
    Ok(())
}

/// The drivers inside the steps and states of a workflow. `llm` is the table of the workflow around it.
fn walk_flow<F>(config: &mut Value, llm: &Value, left: usize, visit: &mut F) -> Result<(), String>
where
    F: FnMut(&str, &mut Value) -> Result<(), String>,
{
    let Some(left) = left.checked_sub(1) else {
        return Err(format!("drivers may be nested at most {DEPTH} deep"));
    };
    let llm = config.get("llm").filter(|own| own.is_object()).unwrap_or(llm).clone();
    for key in ["steps", "states"] {
        let Some(Value::Array(steps)) = config.get_mut(key) else { continue };
        walk_steps(steps, &llm, left, visit).map_err(|why| join_item(key, &why))?;
    }
    Ok(())
}

/// Puts the key of a list before an error that begins with an index.
fn join_item(key: &str, why: &str) -> String {
    if why.starts_with('[') { format!("{key}{why}") } else { join(key, why) }
}

fn walk_steps<F>(steps: &mut [Value], llm: &Value, left: usize, visit: &mut F) -> Result<(), String>
where
    F: FnMut(&str, &mut Value) -> Result<(), String>,
{
    for (index, step) in steps.iter_mut().enumerate() {
        walk_step(step, llm, left, visit)
            .map_err(|why| join_item("", &join(&format!("[{index}]"), &why)))?;
    }
    Ok(())
}

fn walk_step<F>(step: &mut Value, llm: &Value, left: usize, visit: &mut F) -> Result<(), String>
where
    F: FnMut(&str, &mut Value) -> Result<(), String>,
{
    let Value::Object(fields) = step else { return Ok(()) };
    if let Some((name, config)) = super::workflow::driver_of(fields, llm) {
        let mut visited = config.clone();
        let walked = walk(&name, &mut visited, left, visit);
        // Only what was looked up is written down; the rest is said by the step's own keys.
        if visited != config {
            fields.insert("driver_config".to_owned(), visited);
        }
        walked.map_err(|why| join("driver_config", &why))?;
    }
    if let Some(choose) = fields.get_mut("choose").filter(|choose| choose.is_object()) {
        let (name, config) = super::workflow::chooser_of(choose, llm);
        let mut visited = config.clone();
        let walked = walk(name, &mut visited, left, visit);
        if visited != config {
            choose["driver_config"] = visited;
        }
        walked.map_err(|why| join("choose", &why))?;
    }
    if let Some(Value::Object(task)) = fields.get_mut("task") {
        walk_task(task, llm, left, visit).map_err(|why| join("task", &why))?;
    }
    for key in ["steps", "on_entry", "on_exit"] {
        if let Some(Value::Array(inner)) = fields.get_mut(key) {
            walk_steps(inner, llm, left, visit).map_err(|why| join_item(key, &why))?;
        }
    }
    if let Some(Value::Object(branches)) = fields.get_mut("parallel") {
        for (name, steps) in branches {
            let Value::Array(steps) = steps else { continue };
            walk_steps(steps, llm, left, visit)
                .map_err(|why| join_item(&format!("parallel.{name}"), &why))?;
        }
    }
    match fields.get_mut("workflow") {
        Some(flow) if flow.is_object() => {
            walk_flow(flow, llm, left, visit).map_err(|why| join("workflow", &why))
        }
        _ => Ok(()),
    }
}

/// The driver of a step's own task.
fn walk_task<F>(
    task: &mut Map<String, Value>,
    llm: &Value,
    left: usize,
    visit: &mut F,
) -> Result<(), String>
where
    F: FnMut(&str, &mut Value) -> Result<(), String>,
{
    if let Some((name, config)) = super::workflow::task_driver_of(task, llm) {
        let mut visited = config.clone();
        let walked = walk(&name, &mut visited, left, visit);
        if visited != config {
            task.insert("driver_config".to_owned(), visited);
        }
        return walked.map_err(|why| join("driver_config", &why));
    }
    match task.get_mut("workflow") {
        Some(flow) if flow.is_object() => {
            visit("workflow", flow)?;
            walk_flow(flow, llm, left, visit).map_err(|why| join("workflow", &why))
        }
        _ => Ok(()),
    }
}

/// One kind of composite: its name and how to build it, at its beginning or from what it saved.
#[derive(Debug, Clone, Copy)]
struct Kind {
    name: &'static str,
    build: Build,
}

/// Takes the configuration and, to go on, what was saved.
type Build = fn(&Value, Option<&Value>, &Registry) -> Result<Box<dyn Driver>, String>;

const KINDS: [Kind; 5] = [
    Kind { name: "fallback", build: fallback::build },
    Kind { name: "race", build: race::build },
    Kind { name: "retry", build: retry::build },
    Kind { name: "sequence", build: sequence::build },
    Kind { name: "until_accepted", build: until_accepted::build },
];

impl DriverKind for Kind {
    fn name(&self) -> &str {
        self.name
    }

    fn version(&self) -> u32 {
        1
    }

    fn create(&self, config: &Value, registry: &Registry) -> Result<Box<dyn Driver>, String> {
        visit(self.name, &mut config.clone(), &mut |_, _| Ok(()))?;
        (self.build)(config, None, registry)
    }

    fn load(
        &self,
        config: &Value,
        state: &Value,
        registry: &Registry,
    ) -> Result<Box<dyn Driver>, String> {
        (self.build)(config, Some(state), registry)
    }
}

/// The fields of a configuration, none of them unknown.
fn fields<'a>(config: &'a Value, known: &[&str]) -> Result<&'a Map<String, Value>, String> {
    let Value::Object(fields) = config else {
        return Err(format!("expected a table with {}, got {config}", known.join(", ")));
    };
    match fields.keys().find(|key| !known.contains(&key.as_str())) {
        Some(key) => Err(format!("{key}: unknown; expected {}", known.join(", "))),
        None => Ok(fields),
    }
}

/// A whole number of at least one, or the default.
fn count(fields: &Map<String, Value>, key: &str, default: u32) -> Result<u32, String> {
    match fields.get(key) {
        None => Ok(default),
        Some(value) => value
            .as_u64()
            .and_then(|number| u32::try_from(number).ok())
            .filter(|number| *number > 0)
            .ok_or_else(|| format!("{key}: expected a whole number of at least 1, got {value}")),
    }
}

/// Puts a place before an error, as one path if the error begins with a key.
fn join(place: &str, why: &str) -> String {
    let key = why.split_once(": ").is_some_and(|(key, _)| {
        key.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
            && key.chars().all(|c| c.is_ascii_alphanumeric() || "_-.[]".contains(c))
    });
    format!("{place}{}{why}", if key { "." } else { ": " })
}

/// A child as the configuration names it.
#[derive(Debug)]
pub(super) struct Spec {
    /// Where it stands: `driver` or `drivers[1]`.
    place: String,
    index: u32,
    name: String,
    config: Value,
    /// The key the configuration stands under, for errors.
    key: &'static str,
}

impl Spec {
    /// The one child under `driver`.
    fn single(fields: &Map<String, Value>) -> Result<Spec, String> {
        let value = fields
            .get("driver")
            .ok_or("driver: missing; expected {driver = NAME, config = {…}}")?;
        Spec::read("driver".to_owned(), 0, value)
    }

    /// The children under `drivers`, at least one.
    fn list(fields: &Map<String, Value>) -> Result<Vec<Spec>, String> {
        match fields.get("drivers") {
            Some(Value::Array(list)) if !list.is_empty() => (0u32..)
                .zip(list)
                .map(|(index, value)| Spec::read(format!("drivers[{index}]"), index, value))
                .collect(),
            Some(other) => {
                Err(format!("drivers: expected a list of at least one driver, got {other}"))
            }
            None => {
                Err("drivers: missing; expected a list of {driver = NAME, config = {…}}".to_owned())
            }
        }
    }

    /// The driver of a workflow's step.
    pub(super) fn of_step(place: String, name: &str, config: Value) -> Spec {
        Spec { place, index: 0, name: name.to_owned(), config, key: "driver_config" }
    }

    fn read(place: String, index: u32, value: &Value) -> Result<Spec, String> {
        let fields = fields(value, &["driver", "config", "driver_config"])
            .map_err(|why| join(&place, &why))?;
        let name = match fields.get("driver") {
            Some(Value::String(name)) => name.clone(),
            Some(other) => {
                return Err(format!("{place}.driver: expected a driver's name, got {other}"));
            }
            None => return Err(format!("{place}.driver: missing; expected a driver's name")),
        };
        let (key, config) = match (fields.get("config"), fields.get("driver_config")) {
            (Some(_), Some(_)) => {
                return Err(format!("{place}: config and driver_config are the same; give one"));
            }
            (None, Some(config)) => ("driver_config", config.clone()),
            (config, None) => {
                ("config", config.cloned().unwrap_or_else(|| Value::Object(Map::new())))
            }
        };
        Ok(Spec { place, index, name, config, key })
    }

    /// An end of this child, as its parent reports it.
    fn says(&self, text: &str) -> String {
        format!("{} ({}): {text}", self.place, self.name)
    }

    fn kind<'a>(&self, registry: &'a Registry) -> Result<&'a Arc<dyn DriverKind>, String> {
        registry.find(&self.name).map_err(|why| format!("{}.driver: {why}", self.place))
    }

    fn wrong(&self, why: &str) -> String {
        join(&format!("{}.{}", self.place, self.key), why)
    }
}

/// A live child with what its parent has to know of it.
#[derive(Debug)]
pub(super) struct Child {
    spec: Arc<Spec>,
    version: u32,
    live: Box<dyn Driver>,
    /// How many conversations agents had begun in its place before it.
    earlier: u32,
    /// The number of the last one since.
    conversations: u32,
    /// Its actions that have not ended.
    under_way: u32,
    /// Results it has not been told: one that is not eager gets all at once, in the order of its actions.
    held: Vec<Held>,
}

/// A result that waits for its siblings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Held {
    call: CallId,
    action: Action,
    result: ToolResult,
}

/// A child at rest. Its name and configuration are in the parent's.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SavedChild {
    version: u32,
    state: Value,
    #[serde(default, skip_serializing_if = "is_zero")]
    earlier: u32,
    #[serde(default, skip_serializing_if = "is_zero")]
    conversations: u32,
    #[serde(default, skip_serializing_if = "is_zero")]
    under_way: u32,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    held: Vec<Held>,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl Child {
    pub(super) fn create(spec: Arc<Spec>, registry: &Registry) -> Result<Child, String> {
        let kind = spec.kind(registry)?;
        let live = kind.create(&spec.config, registry).map_err(|why| spec.wrong(&why))?;
        let version = kind.version();
        let (earlier, conversations, under_way, held) = (0, 0, 0, Vec::new());
        Ok(Child { spec, version, live, earlier, conversations, under_way, held })
    }

    /// Another one in its place, at its beginning, which speaks to agents in conversations of its own.
    fn anew(&self, registry: &Registry) -> Result<Child, String> {
        let child = Child::create(Arc::clone(&self.spec), registry)?;
        let last = self.conversations.max(self.earlier);
        Ok(Child { earlier: last, conversations: last, ..child })
    }

    pub(super) fn load(
        spec: Arc<Spec>,
        saved: SavedChild,
        registry: &Registry,
    ) -> Result<Child, String> {
        let kind = spec.kind(registry)?;
        let SavedChild { version, state, earlier, conversations, under_way, held } = saved;
        if version > kind.version() {
            let known = kind.version();
            return Err(spec
                .wrong(&format!("saved by version {version} of {}; this is {known}", spec.name)));
        }
        let live = kind.load(&spec.config, &state, registry).map_err(|why| spec.wrong(&why))?;
        Ok(Child { spec, version, live, earlier, conversations, under_way, held })
    }

    /// All children at their beginning, or as they were saved.
    fn all(
        specs: Vec<Spec>,
        saved: Option<Vec<SavedChild>>,
        registry: &Registry,
    ) -> Result<Vec<Child>, String> {
        let specs = specs.into_iter().map(Arc::new);
        match saved {
            None => specs.map(|spec| Child::create(spec, registry)).collect(),
            Some(saved) if saved.len() == specs.len() => {
                specs.zip(saved).map(|(spec, saved)| Child::load(spec, saved, registry)).collect()
            }
            Some(saved) => Err(format!(
                "the saved state has {} drivers, expected {}",
                saved.len(),
                specs.len()
            )),
        }
    }

    /// All of them at their beginnings again. Nothing of them is under way: the loop has ended whatever was.
    fn renew(children: &mut [Child], registry: &Registry) {
        for child in children {
            // It was made from the same configuration before, so there is no error to speak of.
            if let Ok(anew) = child.anew(registry) {
                *child = anew;
            }
        }
    }

    pub(super) fn save(&self) -> SavedChild {
        SavedChild {
            version: self.version,
            state: self.live.save(),
            earlier: self.earlier,
            conversations: self.conversations,
            under_way: self.under_way,
            held: self.held.clone(),
        }
    }

    /// The driver's name.
    pub(super) fn name(&self) -> &str {
        &self.spec.name
    }

    /// The driver's configuration.
    pub(super) fn config(&self) -> &Value {
        &self.spec.config
    }

    /// Whether it wants results one by one.
    pub(super) fn eager(&self) -> bool {
        self.live.eager()
    }

    /// Whether it has decided on actions that it has not handed out.
    pub(super) fn has_decided(&self) -> bool {
        self.live.has_decided()
    }

    /// Its question to a person was not put; true if it is to be asked again.
    pub(super) fn not_put(&mut self) -> bool {
        self.live.not_put()
    }

    /// Its conversation is to be shorter.
    pub(super) fn compact(&mut self, focus: &str) -> Result<(), String> {
        self.live.compact(focus)
    }

    /// Whether actions of it have not ended.
    pub(super) fn is_under_way(&self) -> bool {
        self.under_way > 0
    }

    /// Whether it may be asked: nothing of it is under way, or it does not mind.
    pub(super) fn ready(&self) -> bool {
        self.under_way == 0 || self.live.eager()
    }

    pub(super) fn decide(&mut self, situation: &Situation<'_>) -> Decision {
        let path = [situation.path, &[self.spec.index]].concat();
        match self.live.decide(&Situation { path: &path, ..*situation }) {
            Decision::Act(mut actions) => {
                for action in &mut actions {
                    action.path.insert(0, self.spec.index);
                    self.under_way += 1;
                }
                Decision::Act(actions)
            }
            Decision::Consult(Consultation::Agent(mut call)) => {
                call.conversation = call.conversation.saturating_add(self.earlier);
                self.conversations = self.conversations.max(call.conversation);
                Decision::Consult(Consultation::Agent(call))
            }
            // Another child may give the same number to a question of its own.
            Decision::Wait(Wait::Person { prompt, until, due, number: _ }) => {
                Decision::Wait(Wait::Person { prompt, until, due, number: None })
            }
            other => other,
        }
    }

    pub(super) fn observe(&mut self, situation: &Situation<'_>, fact: &Fact<'_>) {
        let path = [situation.path, &[self.spec.index]].concat();
        let situation = Situation { path: &path, ..*situation };
        let Fact::Result { call, action, result } = fact else {
            return self.live.observe(&situation, fact);
        };
        // Whoever decided before may have left a call open: its result says nothing about this child.
        let Some((index, rest)) = action.path.split_first() else { return };
        if *index != self.spec.index {
            return;
        }
        let action = Action { path: rest.to_vec(), ..Action::clone(action) };
        self.held.push(Held { call: *call, action, result: ToolResult::clone(result) });
        self.under_way = self.under_way.saturating_sub(1);
        if self.ready() {
            // Calls are numbered in the order of the actions.
            self.held.sort_by_key(|held| held.call);
            for Held { call, action, result } in std::mem::take(&mut self.held) {
                self.live
                    .observe(&situation, &Fact::Result { call, action: &action, result: &result });
            }
        }
    }

    /// Whether a result with this path is its own, or that of a driver below it.
    pub(super) fn owns(&self, path: &[u32]) -> bool {
        path.split_first()
            .is_some_and(|(index, rest)| *index == self.spec.index && self.live.owns(rest))
    }

    /// An action ended that nobody waits for any more.
    pub(super) fn straggler(&mut self) {
        self.under_way = self.under_way.saturating_sub(1);
    }
}

/// The index of the child that a result belongs to.
fn addressee(action: &Action) -> Option<usize> {
    action.path.first().and_then(|index| usize::try_from(*index).ok())
}

/// Reads what a composite saved.
fn saved<T: DeserializeOwned>(state: Option<&Value>) -> Result<Option<T>, String> {
    state
        .map(T::deserialize)
        .transpose()
        .map_err(|why| format!("the saved state does not fit: {why}"))
}

/// Writes what a composite saves.
fn to_value<T: Serialize>(saved: &T) -> Value {
    // Cannot fail: the saved shapes have text keys and no foreign serialisers.
    serde_json::to_value(saved).expect("plain data is always JSON")
}

/// What a child that takes over the same work has to be told: people's notes and the last failed verdict.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Memory {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<Note>,
    #[serde(skip_serializing_if = "Option::is_none")]
    verdict: Option<Vec<CriterionResult>>,
}

impl Memory {
    fn keep(&mut self, fact: &Fact<'_>) {
        match fact {
            Fact::Note(note) => self.notes.push(Note::clone(note)),
            Fact::VerdictFailed(results) => self.verdict = Some(results.to_vec()),
            Fact::Result { .. }
            | Fact::Told(_)
            | Fact::Consulted(_)
            | Fact::Replied(_)
            | Fact::AgentTook(_)
            | Fact::AgentEnded(_)
            | Fact::ChildBegan(_)
            | Fact::ChildEnded(_)
            | Fact::Retry(_) => {}
        }
    }

    fn tell(&self, child: &mut Child, situation: &Situation<'_>) {
        for note in &self.notes {
            child.observe(situation, &Fact::Note(note));
        }
        if let Some(results) = &self.verdict {
            child.observe(situation, &Fact::VerdictFailed(results));
        }
    }
}

/// One child that can be made anew: the common part of `retry` and `until_accepted`.
#[derive(Debug)]
struct Renewable {
    child: Child,
    memory: Memory,
    /// The child is done and a fresh one has to take over.
    renew: bool,
    /// Makes the fresh one.
    registry: Registry,
}

/// A renewable child at rest.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedRenewable {
    child: SavedChild,
    #[serde(default)]
    memory: Memory,
    #[serde(default)]
    renew: bool,
}

impl Renewable {
    fn build(
        spec: Spec,
        saved: Option<SavedRenewable>,
        registry: &Registry,
    ) -> Result<Renewable, String> {
        let spec = Arc::new(spec);
        let registry = registry.clone();
        Ok(match saved {
            None => Renewable {
                child: Child::create(spec, &registry)?,
                memory: Memory::default(),
                renew: false,
                registry,
            },
            Some(SavedRenewable { child, memory, renew }) => {
                Renewable { child: Child::load(spec, child, &registry)?, memory, renew, registry }
            }
        })
    }

    fn save(&self) -> SavedRenewable {
        SavedRenewable { child: self.child.save(), memory: self.memory.clone(), renew: self.renew }
    }

    /// Makes the child anew if that is due. Answers with a decision if the child cannot be asked.
    fn prepare(&mut self, situation: &Situation<'_>) -> Option<Decision> {
        if !self.renew {
            return None;
        }
        if self.child.under_way > 0 {
            return Some(Decision::Wait(Wait::Results { until: None }));
        }
        match self.child.anew(&self.registry) {
            Ok(child) => self.child = child,
            Err(reason) => return Some(Decision::GiveUp { reason, stuck: false }),
        }
        self.renew = false;
        self.memory.tell(&mut self.child, situation);
        None
    }

    fn observe(&mut self, situation: &Situation<'_>, fact: &Fact<'_>) {
        self.memory.keep(fact);
        match fact {
            Fact::Result { action, .. } if addressee(action) != Some(0) => {}
            Fact::Result { .. } if self.renew => self.child.straggler(),
            _ if self.renew => {}
            _ => self.child.observe(situation, fact),
        }
    }

    fn owns(&self, path: &[u32]) -> bool {
        self.child.owns(path)
    }

    fn has_decided(&self) -> bool {
        !self.renew && self.child.has_decided()
    }

    fn not_put(&mut self) -> bool {
        !self.renew && self.child.not_put()
    }

    fn compact(&mut self, focus: &str) -> Result<(), String> {
        if self.renew { Err(NO_CONVERSATION.to_owned()) } else { self.child.compact(focus) }
    }

    fn eager(&self) -> bool {
        if self.renew { self.child.under_way > 0 } else { self.child.live.eager() }
    }
}
