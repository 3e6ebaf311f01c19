//! What a workflow does, read and checked: rows of steps and machines of states, with every template and expression
//! parsed once. [`super::read`] makes it from plain data; nothing here changes afterwards.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::call::Call;
use super::schema::Schema;
use crate::policy::budget::Budget;
use crate::task::{Criterion, DriverSpec};
use crate::template::{Expression, Template};
use crate::time::Span;

/// The whole configuration of a driver.
#[derive(Debug)]
pub(crate) struct Definition {
    /// The workflow itself.
    pub(super) flow: Flow,
    /// The values of its inputs.
    pub(super) inputs: Value,
    /// What is known of the project, frozen when the task was made.
    pub(super) facts: Value,
    /// Whether steps can work at once, so that results are wanted one by one.
    pub(super) forks: bool,
}

/// A workflow: the task's own, or one that a step calls.
#[derive(Debug)]
pub(crate) struct Flow {
    /// Its name; may be empty.
    pub(super) name: String,
    /// What it takes.
    pub(super) inputs: Vec<Input>,
    /// What it gives, evaluated at its end.
    pub(super) outputs: Vec<(String, Formula)>,
    /// The most steps to carry out, repeats included.
    pub(super) max_steps: Option<u64>,
    /// How long it may take when a step calls it; the task's budget holds the outermost one.
    pub(super) time: Option<Span>,
    /// What it does.
    pub(super) body: Body,
}

impl Flow {
    /// What a person sees it as.
    pub(super) fn title(&self) -> String {
        if self.name.is_empty() {
            "the workflow".to_owned()
        } else {
            format!("workflow {}", self.name)
        }
    }
}

/// A value that a workflow takes.
#[derive(Debug, Clone, PartialEq)]
pub struct Input {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: InputKind,
    /// What it is if nobody says; without one it has to be given.
    pub default: Option<Value>,
    /// The values to choose from; any if there are none.
    pub choices: Vec<Value>,
    /// For a person.
    pub description: String,
}

/// What an input can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputKind {
    /// Text.
    String,
    /// A whole number.
    Integer,
    /// Any number.
    Number,
    /// True or false.
    Boolean,
    /// A list.
    List,
    /// A table.
    Table,
}

impl InputKind {
    /// The words that a file uses, in the order of the kinds.
    pub const WORDS: [&'static str; 6] =
        ["string", "integer", "number", "boolean", "list", "table"];

    /// The kind of a word.
    pub(super) fn of(word: &str) -> InputKind {
        match word {
            "integer" => InputKind::Integer,
            "number" => InputKind::Number,
            "boolean" => InputKind::Boolean,
            "list" => InputKind::List,
            "table" => InputKind::Table,
            _ => InputKind::String,
        }
    }

    /// The word.
    pub fn word(self) -> &'static str {
        match self {
            InputKind::String => "string",
            InputKind::Integer => "integer",
            InputKind::Number => "number",
            InputKind::Boolean => "boolean",
            InputKind::List => "list",
            InputKind::Table => "table",
        }
    }

    /// Whether a value is one.
    pub fn takes(self, value: &Value) -> bool {
        match self {
            InputKind::String => value.is_string(),
            InputKind::Integer => value.is_i64() || value.is_u64(),
            InputKind::Number => value.is_number(),
            InputKind::Boolean => value.is_boolean(),
            InputKind::List => value.is_array(),
            InputKind::Table => value.is_object(),
        }
    }
}

impl Input {
    /// Why a value cannot be given, if so.
    pub(super) fn refuses(&self, value: &Value) -> Option<String> {
        let shown = crate::file::check::short(value);
        if !self.kind.takes(value) {
            return Some(format!(
                "the input {:?} must be of type {}, got {shown}",
                self.name,
                self.kind.word()
            ));
        }
        if !self.choices.is_empty() && !self.choices.contains(value) {
            let choices: Vec<String> = self.choices.iter().map(Value::to_string).collect();
            return Some(format!(
                "the input {:?} must be one of {}, got {shown}",
                self.name,
                choices.join(", ")
            ));
        }
        None
    }

    /// Reads what a person typed: text as it is, anything else as JSON.
    pub fn typed(&self, text: &str) -> Result<Value, String> {
        let value = match self.kind {
            InputKind::String => Value::String(text.to_owned()),
            _ => serde_json::from_str(text).map_err(|_| {
                format!(
                    "the input {:?} must be of type {}, got {text:?}",
                    self.name,
                    self.kind.word()
                )
            })?,
        };
        self.refuses(&value).map_or(Ok(value), Err)
    }
}

/// The values of inputs: what is given, then the defaults. The error names what is missing or wrong.
pub(super) fn bind(inputs: &[Input], given: &Map<String, Value>) -> Result<Value, String> {
    let mut values = Map::new();
    for input in inputs {
        let Some(value) = given.get(&input.name).or(input.default.as_ref()) else {
            return Err(format!(
                "the input {:?} ({}) is missing: give it with --input {}=…",
                input.name,
                input.kind.word(),
                input.name
            ));
        };
        if let Some(why) = input.refuses(value) {
            return Err(why);
        }
        values.insert(input.name.clone(), value.clone());
    }
    match given.keys().find(|name| !values.contains_key(*name)) {
        Some(unknown) => {
            let known: Vec<&str> = inputs.iter().map(|input| input.name.as_str()).collect();
            let hint =
                crate::file::check::suggest(unknown, known.iter().copied()).unwrap_or_else(|| {
                    match known.as_slice() {
                        [] => "it takes none".to_owned(),
                        known => format!("expected {}", known.join(", ")),
                    }
                });
            Err(format!("there is no input {unknown:?}: {hint}"))
        }
        None => Ok(Value::Object(values)),
    }
}

/// Steps in a row, or states.
#[derive(Debug)]
pub(super) enum Body {
    Row(Row),
    States(States),
}

/// Steps, one after the other.
#[derive(Debug, Default)]
pub(super) struct Row {
    /// In order.
    pub(super) steps: Vec<Step>,
    /// The place of each name.
    pub(super) index: BTreeMap<String, usize>,
    /// Whether the result of the step that ended last is kept: somebody asks for the results of a foreach.
    pub(super) keeps_last: bool,
}

/// One step.
#[derive(Debug)]
pub(super) struct Step {
    /// Its name.
    pub(super) name: String,
    /// What it does.
    pub(super) work: Work,
    /// Only then.
    pub(super) when: Option<Formula>,
    /// How long it may take.
    pub(super) timeout: Option<Span>,
    /// What a failure leads to.
    pub(super) on_error: OnError,
    /// What the end of its time leads to, for a person's step.
    pub(super) on_timeout: Option<Escape>,
    /// How often its goto may be taken.
    pub(super) max_gotos: u64,
    /// How long to wait before the first retry.
    pub(super) backoff: Option<Span>,
    /// Where to go after success.
    pub(super) then: Option<Target>,
    /// How often that may be done.
    pub(super) max_visits: u64,
    /// The check that this step belongs to the repair of: it runs only if that failed.
    pub(super) repairs: Option<usize>,
    /// The check that is run again after it.
    pub(super) checks_again: Option<usize>,
    /// Whether its result is mentioned anywhere.
    pub(super) keeps: bool,
    /// What is mentioned of it; all of it if absent.
    pub(super) fields: Option<BTreeSet<String>>,
    /// Whether anything is asked of its result but whether it went well.
    pub(super) told: bool,
    /// Whether its visits are mentioned anywhere.
    pub(super) counted: bool,
}

/// The answers to a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OnError {
    /// At once.
    Escape(Escape),
    /// Try again, then escape.
    Retry { most: u64, exhausted: Escape },
}

impl OnError {
    /// The last word.
    pub(super) fn escape(self) -> Escape {
        match self {
            OnError::Escape(escape) | OnError::Retry { exhausted: escape, .. } => escape,
        }
    }
}

/// The ways out of a failed step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Escape {
    /// The row gives up.
    Fail,
    /// The next step.
    Skip,
    /// The step with this index.
    Goto(usize),
}

/// Where a step leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    /// To another step.
    Step(usize),
    /// To the end of the row.
    End,
}

/// What a step does.
#[derive(Debug)]
pub(super) enum Work {
    /// Nothing, successfully.
    Nothing,
    /// Calls a tool.
    Tool(Box<ToolWork>),
    /// Leaves it to another driver.
    Driver(Box<DriverWork>),
    /// Asks a person.
    Person(Box<PersonWork>),
    /// Runs another workflow.
    Flow(Box<FlowWork>),
    /// Runs steps for each element of a list.
    Each(Box<Each>),
    /// Runs rows at once.
    Parallel(Box<Parallel>),
    /// Runs a row of steps.
    Row(Box<Row>),
    /// Has a task of its own done.
    Task(Box<TaskWork>),
}

impl Work {
    /// Whether it counts toward `max_steps` by itself.
    pub(super) fn is_leaf(&self) -> bool {
        matches!(self, Work::Tool(_) | Work::Driver(_) | Work::Person(_) | Work::Task(_))
    }
}

/// A tool call, its parameters known or to be filled in.
#[derive(Debug)]
pub(super) struct ToolWork {
    /// As far as it is known.
    pub(super) call: Call,
    /// The parameters to fill in; none if all are known.
    pub(super) shape: Option<Shape>,
    /// The step whose text is the parameter of this name.
    pub(super) input: Option<(String, String)>,
}

/// Parameters with places to fill in.
#[derive(Debug)]
pub(super) enum Shape {
    /// As it is.
    Plain(Value),
    /// A text with places.
    Text(Filled),
    /// A text that is nothing but one place: what it gives keeps its type, unless the tool wants text.
    Whole(Filled, Formula),
    /// A list.
    List(Vec<Shape>),
    /// A table.
    Table(BTreeMap<String, Shape>),
}

/// A step that another driver carries out.
#[derive(Debug)]
pub(super) struct DriverWork {
    /// The driver's name.
    pub(super) driver: String,
    /// Its configuration.
    pub(super) config: Value,
    /// What it is told; the task's goal if absent.
    pub(super) prompt: Option<Filled>,
    /// Standing instructions of a model.
    pub(super) system: Option<Filled>,
    /// The step whose text follows the prompt.
    pub(super) input: Option<String>,
    /// What the answer must be like.
    pub(super) schema: Option<Schema>,
}

/// A question to a person.
#[derive(Debug)]
pub(super) struct PersonWork {
    /// What is asked.
    pub(super) text: Filled,
    /// What can be answered; anything if empty.
    pub(super) choices: Vec<String>,
    /// Whether it is yes or no.
    pub(super) approves: bool,
    /// Whether the end of the time is a no.
    pub(super) denies: bool,
}

/// A workflow that a step calls.
#[derive(Debug)]
pub(super) struct FlowWork {
    pub(super) flow: Flow,
    /// What it is given.
    pub(super) given: Vec<(String, Given)>,
}

/// A value that a step gives to a workflow.
#[derive(Debug)]
pub(super) enum Given {
    Literal(Value),
    Formula(Formula),
}

/// A task of its own.
#[derive(Debug)]
pub(super) struct TaskWork {
    /// What it is to achieve.
    pub(super) goal: Filled,
    /// Who decides in it.
    pub(super) driver: DriverSpec,
    /// What its workflow takes and is given, if it is one.
    pub(super) takes: Vec<Input>,
    pub(super) given: Vec<(String, Given)>,
    /// What it may spend.
    pub(super) budget: Budget,
    /// What decides whether it is done.
    pub(super) acceptance: Vec<Criterion>,
}

/// Steps for each element of a list.
#[derive(Debug)]
pub(super) struct Each {
    /// Gives the list.
    pub(super) list: Formula,
    /// What an element is called.
    pub(super) name: String,
    /// What is done with it.
    pub(super) row: Row,
    /// How many are worked on at once.
    pub(super) width: usize,
    /// When it counts as a success.
    pub(super) join: Join,
    /// Whether the results are mentioned.
    pub(super) keeps: bool,
}

/// Rows that run at once.
#[derive(Debug)]
pub(super) struct Parallel {
    /// By name, in order.
    pub(super) branches: Vec<(String, Row)>,
    /// When it counts as a success.
    pub(super) join: Join,
}

/// When several together count as a success.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Join {
    /// If each of them is.
    All,
    /// If one of them is.
    Any,
}

/// States with ways between them.
#[derive(Debug)]
pub(super) struct States {
    /// Where it begins.
    pub(super) initial: usize,
    /// In order.
    pub(super) states: Vec<State>,
    /// The place of each name.
    pub(super) index: BTreeMap<String, usize>,
}

/// A state: a step, and what follows it.
#[derive(Debug)]
pub(super) struct State {
    /// Its work.
    pub(super) step: Step,
    /// Whether a failure of its work ends everything, rather than being seen by the transitions.
    pub(super) fails: bool,
    pub(super) on_entry: Row,
    pub(super) on_exit: Row,
    /// The first that holds is taken.
    pub(super) ways: Vec<Way>,
    /// Lets a model choose among those that hold.
    pub(super) choose: Option<Choose>,
    /// It ends the machine: with success or without.
    pub(super) ends: Option<Ending>,
}

/// How a state ends the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    Completed,
    Failed,
}

/// A way to another state.
#[derive(Debug)]
pub(super) struct Way {
    pub(super) to: usize,
    pub(super) when: Option<Formula>,
    pub(super) max: u64,
}

/// A model's choice.
#[derive(Debug)]
pub(super) struct Choose {
    /// Who is asked, and what.
    pub(super) work: DriverWork,
    /// The state that is taken if the answer names none.
    pub(super) fallback: usize,
}

/// An expression and the names in it.
#[derive(Debug, Clone)]
pub(super) struct Formula {
    pub(super) expression: Expression,
    pub(super) names: Vec<Vec<String>>,
}

/// A template and the names in it.
#[derive(Debug, Clone)]
pub(super) struct Filled {
    pub(super) template: Template,
    pub(super) names: Vec<Vec<String>>,
}
