//! Steps that have a task of their own done.

use serde_json::{Map, Value, json};

use super::kinds::{driver_of, read_model};
use super::{Reader, Settings, flow};
use crate::driver::workflow::definition::*;
use crate::driver::workflow::names::Names;
use crate::file::brought::tighten;
use crate::file::check::{Cursor, Problems};
use crate::file::shape::workflow::step as shape;
use crate::file::task::{criteria, read_budget};
use crate::policy::budget::Budget;
use crate::task::{Criterion, CustomCheck, DriverSpec};

/// The configuration of the driver of a step's own task, as whoever looks up names is shown it; nothing if that task is a
/// workflow. `llm` is the table of the workflow around it.
pub(crate) fn task_driver_of(task: &Map<String, Value>, llm: &Value) -> Option<(String, Value)> {
    if task.contains_key("workflow") {
        return None;
    }
    let is_named = |key: &str| task.get(key).is_some_and(Value::is_string);
    if is_named("agent") || is_named("driver") {
        return driver_of(task, llm);
    }
    let written = task.get("driver_config").filter(|config| config.is_object());
    let mut config = written.cloned().unwrap_or_else(|| json!({}));
    let model = task.get("model").and_then(Value::as_str).or(llm["model"].as_str());
    if let Some(model) = model {
        config["model"] = json!(model);
    }
    Some(("llm".to_owned(), config))
}

/// The criteria of the tasks that steps anywhere in this configuration have done: what they name is looked at before anything
/// begins, like what the task itself names.
pub(crate) fn criteria_of_steps(config: &Value) -> Vec<Criterion> {
    let mut found = Vec::new();
    collect(config, &mut found);
    found
}

fn collect(value: &Value, found: &mut Vec<Criterion>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| collect(item, found)),
        Value::Object(fields) => {
            if let Some(task) = fields.get("task").filter(|task| task.is_object()) {
                let list = task["acceptance"].as_array().into_iter().flatten();
                // What is wrong with one is told by whoever reads the step.
                let mut problems = Problems::default();
                let read =
                    list.filter_map(|item| criteria::read(&Cursor::top(item), &mut problems));
                found.extend(read.map(|written| written.criterion));
                let brought = task["brought"]["acceptance"].clone();
                found.extend(serde_json::from_value::<Vec<Criterion>>(brought).unwrap_or_default());
            }
            let parts = fields.iter().filter(|(key, _)| *key != "parameters");
            parts.for_each(|(_, part)| collect(part, found));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Who decides in a task: a driver, what its workflow takes, and what that is given.
type Decider = (DriverSpec, Vec<Input>, Vec<(String, Given)>);

impl Reader<'_, '_> {
    /// Reads `task = { goal = "…", … }`.
    pub(super) fn task(
        &mut self,
        at: &Cursor<'_>,
        names: &Names<'_>,
        depth: usize,
    ) -> Option<Work> {
        let table = at.need(self.problems, "task")?;
        if !table.keys(self.problems, &shape::TASK_TABLE) {
            return None;
        }
        let goal = table.need(self.problems, "goal").and_then(|goal| {
            if goal.value.as_str().is_some_and(|text| text.trim().is_empty()) {
                let hint = Some("say what is to be achieved".to_owned());
                self.problems.push(&goal, "the goal is empty", hint);
            }
            self.filled(&goal, names)
        });
        let mut acceptance = self.task_criteria(&table);
        let mut budget = table.get("budget").map(|at| read_budget(&at, self.problems));
        if let Some(brought) = table.get("brought") {
            let limits = serde_json::from_value::<Budget>(brought.value["budget"].clone());
            tighten(budget.get_or_insert_default(), &limits.unwrap_or_default());
            let more =
                serde_json::from_value::<Vec<Criterion>>(brought.value["acceptance"].clone());
            acceptance.extend(more.unwrap_or_default());
        }
        let (driver, takes, given) = self.task_driver(&table, names, depth)?;
        let budget = budget.unwrap_or_default();
        let goal = goal?;
        Some(Work::Task(Box::new(TaskWork { goal, driver, takes, given, budget, acceptance })))
    }

    /// Who decides in it: exactly one is named, or the workflow's own model is meant.
    fn task_driver(
        &mut self,
        table: &Cursor<'_>,
        names: &Names<'_>,
        depth: usize,
    ) -> Option<Decider> {
        let named = ["agent", "driver", "workflow"].into_iter();
        let named: Vec<&str> = named.filter(|key| table.value.get(key).is_some()).collect();
        if let [first, second, ..] = named.as_slice() {
            let hint = format!("one task has one of them: leave {first} or {second} out");
            let entry = table.get(second)?;
            self.problems.push_key(&entry, format!("there is {first} already"), Some(hint));
            return None;
        }
        if let Some(config) = table.get("driver_config").filter(|config| !config.value.is_object())
        {
            config.wrong(self.problems, "a table");
        }
        let by = named.first().copied();
        if let (Some(inputs), true) = (table.get("inputs"), by != Some("workflow")) {
            let hint = Some("add workflow = \"@workflows/NAME\", or leave it out".to_owned());
            self.problems.push_key(&inputs, "inputs are what a workflow takes", hint);
        }
        match (by, table.get("model")) {
            (Some(other @ ("driver" | "workflow")), Some(model)) => {
                let hint = Some(format!("say it in the {other}, or leave {other} out"));
                let message = format!("model does not go with {other}");
                self.problems.push_key(&model, message, hint);
            }
            // An agent has names of its own for its models.
            (Some(_), Some(model)) => drop(model.text(self.problems)),
            (None, Some(model)) => drop(read_model(&model, self.problems)),
            (_, None) => {}
        }
        match by {
            Some("workflow") => return self.task_flow(table, names, depth),
            Some("agent") => drop(table.get("agent")?.name(self.problems)?),
            Some(_) => self.driver_name(table)?,
            None => {}
        }
        let (name, config) = task_driver_of(table.value.as_object()?, &self.settings.llm)?;
        if name == "llm" && self.settings.complete && config.get("model").is_none() {
            let hint =
                "add agent, model, driver or workflow to the task, or model to [workflow.llm]";
            self.problems.push_key(table, "it is not said who works", Some(hint.to_owned()));
        }
        Some((DriverSpec { name, config }, Vec::new(), Vec::new()))
    }

    fn task_flow(
        &mut self,
        table: &Cursor<'_>,
        names: &Names<'_>,
        depth: usize,
    ) -> Option<Decider> {
        let written = table.get("workflow")?;
        if let Value::String(name) = written.value {
            if self.settings.complete {
                let message = format!("the workflow {name:?} has not been looked up");
                let hint = Some("run it by its name, so that it is found".to_owned());
                self.problems.push(&written, message, hint);
            }
            return None;
        }
        let settings = Settings { depth: depth + 1, ..self.settings.clone() };
        let read = flow(&written, &settings, self.problems)?;
        let given = self.inputs_of(table, &read, names);
        let mut config = written.value.clone();
        // It is a task of its own: what is said around it is not there any more when it runs.
        if config.get("llm").is_none() && self.settings.llm.is_object() {
            config["llm"] = self.settings.llm.clone();
        }
        if config.get("facts").is_none() && self.settings.facts.is_object() {
            config["facts"] = self.settings.facts.clone();
        }
        Some((DriverSpec::new("workflow", config), read.inputs, given))
    }

    /// `checks`, then `acceptance`.
    fn task_criteria(&mut self, table: &Cursor<'_>) -> Vec<Criterion> {
        let mut criteria = Vec::new();
        let checks = table.get("checks").map(|list| list.items(self.problems)).unwrap_or_default();
        for check in checks {
            let Some(command) = check.text(self.problems) else { continue };
            if command.trim().is_empty() {
                let hint = "write the command line, such as \"make test\"".to_owned();
                self.problems.push(&check, "the command is empty", Some(hint));
            }
            criteria.push(Criterion::shell(command));
        }
        let items = table.get("acceptance").map(|list| list.items(self.problems));
        for item in items.unwrap_or_default() {
            let Some(written) = criteria::read(&item, self.problems) else { continue };
            let needs_lookup = written.rubric_file.is_some()
                || matches!(written.criterion, Criterion::Custom(CustomCheck::Plugin { .. }));
            if needs_lookup {
                let hint = "make it a criterion of the whole task, or write the rubric itself";
                let message = "the task of a step has no criterion that is looked up in a file";
                self.problems.push(&item, message, Some(hint.to_owned()));
            }
            criteria.push(written.criterion);
        }
        criteria
    }
}
