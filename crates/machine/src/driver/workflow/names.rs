//! The names that expressions and templates may use, checked when a workflow is loaded: what does not exist at that point
//! is an error with a suggestion, not a surprise at three in the morning.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::definition::{Filled, Formula, Input, InputKind};
use crate::file::check::{Cursor, Problems, suggest};
use crate::task::Outcome;
use crate::template::{Comparison, Expression, Kind, Template, TemplateError, Use};

/// What can be asked of a step.
const FIELDS: [&str; 13] = [
    "status", "ok", "failed", "skipped", "exit", "text", "value", "outputs", "results", "branches",
    "attempts", "outcome", "id",
];
/// What can be asked of the place in a foreach.
const LOOP_FIELDS: [&str; 5] = ["index", "index0", "first", "last", "length"];
/// The words for the end of a step.
const STATUSES: [&str; 9] =
    ["ok", "error", "denied", "skipped", "aborted", "timed_out", "in_doubt", "failed", "not_run"];

/// How a task of its own can end.
const OUTCOMES: [Outcome; 6] = [
    Outcome::Verified,
    Outcome::Completed,
    Outcome::Failed,
    Outcome::BudgetExhausted,
    Outcome::Cancelled,
    Outcome::Stuck,
];

/// The names at one place.
#[derive(Debug, Clone, Default)]
pub(super) struct Names<'n> {
    outer: Option<&'n Names<'n>>,
    /// The steps or states of this list, each with the outputs that it is known to give.
    steps: BTreeMap<&'n str, Option<Vec<&'n str>>>,
    /// What an element of a foreach is called.
    element: Option<&'n str>,
    /// Whether there is a result to look at.
    has_result: bool,
    inputs: &'n [Input],
    facts: Option<&'n Value>,
}

impl<'n> Names<'n> {
    /// Those of a workflow.
    pub(super) fn of_flow(inputs: &'n [Input], facts: Option<&'n Value>) -> Names<'n> {
        Names { inputs, facts, ..Names::default() }
    }

    /// The same, with these steps or states.
    pub(super) fn with_steps(&'n self, items: &[Cursor<'n>]) -> Names<'n> {
        let mut steps = BTreeMap::new();
        for item in items {
            let Some(name) = item.get("name").and_then(|name| name.value.as_str()) else {
                continue;
            };
            let nested = item.get("workflow").filter(|flow| flow.value.is_object());
            let outputs = nested.map(|flow| {
                let given = flow.get("outputs");
                given.iter().flat_map(Cursor::entries).map(|(name, _)| name).collect()
            });
            steps.insert(name, outputs);
        }
        Names { outer: Some(self), steps, element: None, has_result: false, ..*self }
    }

    /// The same, for each element of a list.
    pub(super) fn with_element(&'n self, name: &'n str) -> Names<'n> {
        Names {
            outer: Some(self),
            steps: BTreeMap::new(),
            element: Some(name),
            has_result: false,
            ..*self
        }
    }

    /// The same, where there is a result.
    pub(super) fn with_result(&'n self) -> Names<'n> {
        Names {
            outer: Some(self),
            steps: BTreeMap::new(),
            element: None,
            has_result: true,
            ..*self
        }
    }

    fn levels(&self) -> impl Iterator<Item = &Names<'n>> {
        std::iter::successors(Some(self), |names| names.outer)
    }

    /// Whether a step can be seen from here.
    pub(super) fn has_step(&self, name: &str) -> bool {
        self.levels().any(|level| level.steps.contains_key(name))
    }

    /// The names of all steps that can be seen from here.
    pub(super) fn step_names(&self) -> impl Iterator<Item = &'n str> {
        self.levels().flat_map(|level| level.steps.keys().copied())
    }

    fn roots(&self) -> Vec<&'n str> {
        let mut roots = vec!["goal", "inputs", "steps", "visits", "task", "facts"];
        for level in self.levels() {
            if let Some(name) = level.element {
                roots.extend([name, "loop"]);
            }
            if level.has_result {
                roots.push("result");
            }
        }
        roots
    }

    /// What is wrong with a name, and what may have been meant.
    fn wrong(&self, path: &[String]) -> Option<(String, Option<String>)> {
        let roots = self.roots();
        let root = path.first()?;
        if !roots.contains(&root.as_str()) {
            let is_step = self.step_names().any(|name| name == root);
            let is_input = self.inputs.iter().any(|input| input.name == *root);
            let hint = match (is_step, is_input) {
                (true, _) => Some(format!("did you mean \"steps.{root}\"?")),
                (false, true) => Some(format!("did you mean \"inputs.{root}\"?")),
                (false, false) => suggest(root, roots.iter().copied())
                    .or_else(|| Some(format!("the names are {}", roots.join(", ")))),
            };
            return Some((format!("there is no name {root:?} here"), hint));
        }
        let second = path.get(1)?;
        let one_of = |what: &str, known: &[&str]| {
            (!known.contains(&second.as_str())).then(|| {
                let hint = suggest(second, known.iter().copied()).or_else(|| {
                    let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
                    Some(format!("there are {known}"))
                });
                (format!("there is no {what} {second:?}"), hint)
            })
        };
        match root.as_str() {
            "inputs" => {
                let known: Vec<&str> =
                    self.inputs.iter().map(|input| input.name.as_str()).collect();
                one_of("input", &known)
            }
            "steps" if self.has_step(second) => self.wrong_field(path, second),
            "visits" if self.has_step(second) => None,
            "steps" | "visits" => one_of("step", &self.step_names().collect::<Vec<_>>()),
            "result" => wrong_field_of("the result", second),
            "task" => one_of("fact of the task", &["turns"]),
            "loop" if roots.contains(&"loop") => one_of("fact of the loop", &LOOP_FIELDS),
            "facts" => {
                let known = self.facts.and_then(Value::as_object)?;
                one_of("fact", &known.keys().map(String::as_str).collect::<Vec<_>>())
            }
            _ => None,
        }
    }

    fn wrong_field(&self, path: &[String], step: &str) -> Option<(String, Option<String>)> {
        let field = path.get(2)?;
        if let Some(wrong) = wrong_field_of(&format!("step {step:?}"), field) {
            return Some(wrong);
        }
        let output = path.get(3).filter(|_| field == "outputs")?;
        let known = self.levels().find_map(|level| level.steps.get(step))?.as_ref()?;
        (!known.contains(&output.as_str())).then(|| {
            let hint = suggest(output, known.iter().copied())
                .or_else(|| Some(format!("it gives {}", known.join(", "))));
            (format!("the workflow of step {step:?} has no output {output:?}"), hint)
        })
    }

    /// What a name gives, as far as that is known.
    fn kind(&self, path: &[String]) -> Kind {
        let words: Vec<&str> = path.iter().map(String::as_str).collect();
        match words.as_slice() {
            ["goal"] => Kind::Text,
            ["inputs", name] => {
                let input = self.inputs.iter().find(|input| input.name == *name);
                input.map_or(Kind::Any, |input| match input.kind {
                    InputKind::String => Kind::Text,
                    InputKind::Integer | InputKind::Number => Kind::Number,
                    InputKind::Boolean => Kind::Boolean,
                    InputKind::List => Kind::List,
                    InputKind::Table => Kind::Table,
                })
            }
            ["steps", _, field] | ["result", field] => match *field {
                "ok" | "failed" | "skipped" => Kind::Boolean,
                "status" | "text" | "outcome" | "id" => Kind::Text,
                "attempts" => Kind::Number,
                "results" => Kind::List,
                "outputs" | "branches" => Kind::Table,
                _ => Kind::Any,
            },
            ["steps"]
            | ["inputs"]
            | ["visits"]
            | ["task"]
            | ["facts"]
            | ["steps", _]
            | ["result"] => Kind::Table,
            ["visits", _] | ["task", "turns"] => Kind::Number,
            ["loop", "index" | "index0" | "length"] => Kind::Number,
            ["loop", "first" | "last"] => Kind::Boolean,
            _ => Kind::Any,
        }
    }

    /// A literal that a name can never be.
    fn never_is(&self, comparison: &Comparison) -> Option<(String, Option<String>)> {
        let words: Vec<&str> = comparison.path.iter().map(String::as_str).collect();
        let known: Vec<String> = match words.as_slice() {
            ["steps", _, "status"] | ["result", "status"] => {
                STATUSES.iter().map(|word| (*word).to_owned()).collect()
            }
            ["steps", _, "outcome"] | ["result", "outcome"] => {
                let ends = OUTCOMES.iter().map(|outcome| outcome.word());
                ends.chain([""]).map(str::to_owned).collect()
            }
            ["inputs", name] => {
                let input = self.inputs.iter().find(|input| input.name == *name)?;
                let texts = input.choices.iter().filter_map(Value::as_str);
                texts.map(str::to_owned).collect()
            }
            _ => return None,
        };
        let literal = comparison.literals.iter().find_map(|literal| {
            let text = literal.as_str()?;
            (!known.is_empty() && !known.iter().any(|word| word == text)).then_some(text)
        })?;
        let hint = suggest(literal, known.iter().map(String::as_str))
            .or_else(|| Some(format!("it is one of {}", known.join(", "))));
        Some((format!("{} is never {literal:?}", words.join(".")), hint))
    }
}

fn wrong_field_of(what: &str, field: &str) -> Option<(String, Option<String>)> {
    (!FIELDS.contains(&field)).then(|| {
        let hint = suggest(field, FIELDS.into_iter())
            .or_else(|| Some(format!("there are {}", FIELDS.join(", "))));
        (format!("{what} has no {field:?}"), hint)
    })
}

/// What is mentioned anywhere in a workflow: only that is remembered.
#[derive(Debug, Default)]
pub(super) struct Mentions {
    /// What is asked of each step; all of it if that is not known.
    steps: BTreeMap<String, Option<BTreeSet<String>>>,
    visits: BTreeSet<String>,
    all_steps: bool,
    all_visits: bool,
}

impl Mentions {
    /// Notes the use of what a step said.
    pub(super) fn text_of(&mut self, name: &str) {
        self.field(name, Some("text"));
    }

    fn field(&mut self, name: &str, field: Option<&str>) {
        let fields = self.steps.entry(name.to_owned()).or_insert_with(|| Some(BTreeSet::new()));
        match (fields.as_mut(), field) {
            (Some(fields), Some(field)) => drop(fields.insert(field.to_owned())),
            (Some(_), None) => *fields = None,
            (None, _) => {}
        }
    }

    fn note(&mut self, uses: &[Use]) {
        for used in uses {
            match (used.path.first().map(String::as_str), used.path.get(1)) {
                (Some("steps"), Some(name)) => {
                    self.field(name, used.path.get(2).map(String::as_str));
                }
                (Some("steps"), None) => self.all_steps = true,
                (Some("visits"), Some(name)) => drop(self.visits.insert(name.clone())),
                (Some("visits"), None) => self.all_visits = true,
                _ => {}
            }
        }
    }

    /// Whether a step's result is used.
    pub(super) fn keeps(&self, name: &str) -> bool {
        self.all_steps || self.steps.contains_key(name)
    }

    /// What is used of it; all of it if absent.
    pub(super) fn fields(&self, name: &str) -> Option<BTreeSet<String>> {
        if self.all_steps {
            return None;
        }
        // The repair of a check looks at how the check ended, and mentions nothing.
        let mut fields =
            self.steps.get(name).map_or_else(|| Some(BTreeSet::new()), Clone::clone)?;
        fields.insert("failed".to_owned());
        Some(fields)
    }

    /// Whether it is asked how often a step was begun.
    pub(super) fn counts(&self, name: &str) -> bool {
        self.all_visits || self.visits.contains(name)
    }
}

/// Reads an expression.
pub(super) fn formula(
    at: &Cursor<'_>,
    names: &Names<'_>,
    mentions: &mut Mentions,
    problems: &mut Problems,
) -> Option<Formula> {
    let expression: Expression = parsed(at, names, mentions, problems)?;
    let names = expression.names();
    Some(Formula { expression, names })
}

/// Reads an expression that gives true or false.
pub(super) fn condition(
    at: &Cursor<'_>,
    names: &Names<'_>,
    mentions: &mut Mentions,
    problems: &mut Problems,
) -> Option<Formula> {
    let formula = formula(at, names, mentions, problems)?;
    if let Some(error) = formula.expression.never_boolean(&|path| names.kind(path)) {
        let hint = "a condition is something like steps.look.ok or inputs.mode == 'deep'";
        let bytes = (error.start, error.end);
        problems.push_within(at, bytes, error.message, Some(hint.to_owned()));
    }
    Some(formula)
}

/// Reads an expression that gives a list.
pub(super) fn list(
    at: &Cursor<'_>,
    names: &Names<'_>,
    mentions: &mut Mentions,
    problems: &mut Problems,
) -> Option<Formula> {
    let formula = formula(at, names, mentions, problems)?;
    let kind = formula.expression.kind(&|path| names.kind(path));
    if !matches!(kind, Kind::List | Kind::Any) {
        let hint = "for lines of a text: steps.look.text | lines";
        problems.push(
            at,
            format!("this gives {}, not a list", kind.words()),
            (kind == Kind::Text).then(|| hint.to_owned()),
        );
    }
    Some(formula)
}

/// Reads a template.
pub(super) fn filled(
    at: &Cursor<'_>,
    names: &Names<'_>,
    mentions: &mut Mentions,
    problems: &mut Problems,
) -> Option<Filled> {
    let template: Template = parsed(at, names, mentions, problems)?;
    let names = template.names();
    Some(Filled { template, names })
}

/// A text in the language of templates: what is told of one that is none, and what it mentions.
trait Written: Sized {
    const WHAT: &'static str;
    const HINT: &'static str;
    fn read(text: &str) -> Result<Self, TemplateError>;
    fn mentioned(&self) -> (&[Use], &[Comparison]);
}

impl Written for Expression {
    const WHAT: &'static str = "an expression";
    const HINT: &'static str = "write something such as steps.NAME.ok, or inputs.NAME == 'x'";

    fn read(text: &str) -> Result<Expression, TemplateError> {
        Expression::parse(text)
    }

    fn mentioned(&self) -> (&[Use], &[Comparison]) {
        (self.uses(), self.comparisons())
    }
}

impl Written for Template {
    const WHAT: &'static str = "a template";
    const HINT: &'static str = "{{ and {% begin something to fill in; for the characters themselves write \
                                {% raw %}…{% endraw %}";

    fn read(text: &str) -> Result<Template, TemplateError> {
        Template::parse(text)
    }

    fn mentioned(&self) -> (&[Use], &[Comparison]) {
        (self.uses(), self.comparisons())
    }
}

/// Reads such a text, tells what is wrong with it, and notes what it mentions.
fn parsed<W: Written>(
    at: &Cursor<'_>,
    names: &Names<'_>,
    mentions: &mut Mentions,
    problems: &mut Problems,
) -> Option<W> {
    match W::read(at.text(problems)?) {
        Ok(written) => {
            let (uses, comparisons) = written.mentioned();
            check(at, names, uses, comparisons, problems);
            mentions.note(uses);
            Some(written)
        }
        Err(error) => {
            let message = format!("not {}: {error}", W::WHAT);
            problems.push_within(at, (error.start, error.end), message, Some(W::HINT.to_owned()));
            None
        }
    }
}

fn check(
    at: &Cursor<'_>,
    names: &Names<'_>,
    uses: &[Use],
    comparisons: &[Comparison],
    problems: &mut Problems,
) {
    let mut told = BTreeSet::new();
    for used in uses {
        if let Some((message, hint)) = names.wrong(&used.path)
            && told.insert(message.clone())
        {
            problems.push_within(at, (used.start, used.end), message, hint);
        }
    }
    for comparison in comparisons {
        if let Some((message, hint)) = names.never_is(comparison) {
            problems.push_within(at, (comparison.start, comparison.end), message, hint);
        }
    }
}
