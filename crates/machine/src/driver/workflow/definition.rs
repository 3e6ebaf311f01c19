//! A workflow's steps, read and checked.

use std::collections::BTreeMap;

use serde_json::Value;

use super::call::Call;
use crate::file::check::{Cursor, Problems, short, suggest};

const DEFAULT_RETRIES: u64 = 3;
const DEFAULT_GOTOS: u64 = 10;
/// More repeats than this are a mistake.
const MAX_RETRIES: u64 = 10_000;

/// What a workflow does.
#[derive(Debug, PartialEq)]
pub(super) struct Definition {
    name: String,
    /// In order.
    pub(super) steps: Vec<Step>,
    /// The most steps to carry out, repeats included.
    pub(super) max_steps: Option<u64>,
}

/// One step.
#[derive(Debug, PartialEq)]
pub(crate) struct Step {
    /// What it does.
    pub(super) call: Call,
    /// What a failure leads to.
    pub(super) on_error: OnError,
    /// How often its goto may be taken.
    pub(super) max_gotos: u64,
}

/// The answers to a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OnError {
    /// At once.
    Escape(Escape),
    /// Try again, then escape.
    Retry { most: u64, exhausted: Escape },
}

/// The ways out of a failed step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Escape {
    /// The workflow gives up.
    Fail,
    /// The next step.
    Skip,
    /// The step with this index.
    Goto(usize),
}

impl Definition {
    /// Reads a driver's configuration.
    pub(super) fn read(config: &Value) -> Result<Definition, String> {
        let mut problems = Problems::default();
        let at = Cursor::top(config);
        if let Some(name) = at.get("workflow").filter(|_| at.get("steps").is_none()) {
            return Err(format!("the workflow {} has not been looked up", short(name.value)));
        }
        at.table(&mut problems, "the workflow's configuration", &["name", "steps", "max_steps"]);
        let name =
            at.get("name").and_then(|name| name.name(&mut problems)).unwrap_or_default().to_owned();
        let steps = at.need(&mut problems, "steps").map(|steps| read_steps(&steps, &mut problems));
        let max_steps = at.get("max_steps").and_then(|most| most.whole(&mut problems));
        match steps {
            Some(steps) if problems.is_empty() => Ok(Definition { name, steps, max_steps }),
            _ => Err(problems.line()),
        }
    }

    /// What a person sees it as.
    pub(super) fn title(&self) -> String {
        if self.name.is_empty() {
            "the workflow".to_owned()
        } else {
            format!("workflow {}", self.name)
        }
    }
}

/// Reads a list of steps. Only the steps without problems are given back.
pub(crate) fn read_steps(at: &Cursor<'_>, problems: &mut Problems) -> Vec<Step> {
    let items = at.items(problems);
    if items.is_empty() && at.value.is_array() {
        problems.push(at, "a workflow needs at least one step", None);
    }
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    for (index, item) in items.iter().enumerate() {
        let Some(name) =
            item.get("name").and_then(|name| name.value.as_str().map(|text| (name, text)))
        else {
            continue;
        };
        if places.insert(name.1, index).is_some() {
            problems.push(&name.0, format!("there are two steps named {:?}", name.1), None);
        }
    }
    items.iter().filter_map(|item| read_step(item, &places, problems)).collect()
}

fn read_step(
    at: &Cursor<'_>,
    places: &BTreeMap<&str, usize>,
    problems: &mut Problems,
) -> Option<Step> {
    const KEYS: [&str; 10] = [
        "name",
        "tool",
        "type",
        "parameters",
        "timeout",
        "on_error",
        "max_retries",
        "on_exhausted",
        "input_from",
        "prompt",
    ];
    if !at.table(problems, "a step", &KEYS) {
        return None;
    }
    let kind = at.get("type");
    if let Some(kind) = &kind
        && kind.choice(problems, &["tool", "llm", "hybrid"]).is_some_and(|kind| kind != "tool")
    {
        problems.push(
            kind,
            format!("not supported yet: steps of type {}", short(kind.value)),
            only_tools(),
        );
        return None;
    }
    for key in ["input_from", "prompt"] {
        if let Some(entry) = at.get(key) {
            problems.push_key(&entry, format!("not supported yet: {key} of a step"), only_tools());
        }
    }
    if let Some(parameters) = at.get("parameters") {
        refuse_references(&parameters, problems);
    }
    let label = at
        .need(problems, "name")
        .and_then(|name| name.name(problems))
        .unwrap_or_default()
        .to_owned();
    let call = Call::read(at, label, problems);
    let retries = at.get("max_retries").and_then(|most| {
        let given = most.whole(problems)?;
        if given > MAX_RETRIES {
            problems.push(
                &most,
                format!("max_retries is at most {MAX_RETRIES}, got {given}"),
                None,
            );
        }
        Some((most, given))
    });
    let mut asked =
        at.get("on_error").and_then(|on_error| read_answer(&on_error, places, problems));
    let escape = at.get("on_exhausted").and_then(|after| {
        if asked != Some(Answer::Retry) {
            problems.push_key(&after, "on_exhausted needs on_error = \"retry\"", None);
        }
        match read_answer(&after, places, problems)? {
            Answer::Escape(escape) => Some(escape),
            Answer::Retry => {
                problems.push(&after, "on_exhausted must be fail, skip or a goto", None);
                None
            }
        }
    });
    if let Some((most, _)) = &retries
        && matches!(asked, None | Some(Answer::Escape(Escape::Fail | Escape::Skip)))
    {
        if at.get("on_error").is_none() {
            // Retries that are asked for without saying what for can mean only one thing.
            asked = Some(Answer::Retry);
        } else {
            problems.push_key(most, "max_retries needs on_error = \"retry\" or a goto", None);
        }
    }
    let given = retries.map(|(_, given)| given);
    let on_error = match asked {
        Some(Answer::Retry) => OnError::Retry {
            most: given.unwrap_or(DEFAULT_RETRIES),
            exhausted: escape.unwrap_or(Escape::Fail),
        },
        Some(Answer::Escape(escape)) => OnError::Escape(escape),
        None => OnError::Escape(Escape::Fail),
    };
    let max_gotos = match on_error {
        OnError::Escape(_) => given.unwrap_or(DEFAULT_GOTOS),
        OnError::Retry { .. } => DEFAULT_GOTOS,
    };
    Some(Step { call: call?, on_error, max_gotos })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Escape(Escape),
    Retry,
}

/// Reads `"fail"`, `"skip"`, `"retry"` or `{ action = "goto", target = "name" }`.
fn read_answer(
    at: &Cursor<'_>,
    places: &BTreeMap<&str, usize>,
    problems: &mut Problems,
) -> Option<Answer> {
    let word = if at.value.is_object() {
        at.table(problems, "on_error", &["action", "target"]);
        at.need(problems, "action")?
    } else {
        at.clone()
    };
    if word.value == "abort" {
        problems.push(
            &word,
            "\"abort\" must be one of fail, skip, retry, goto",
            Some("did you mean \"fail\"?".to_owned()),
        );
        return None;
    }
    let action = word.choice(problems, &["fail", "skip", "retry", "goto"])?;
    let target = at.get("target");
    if action == "goto" {
        let Some(target) = target else {
            let hint = Some("write { action = \"goto\", target = \"STEP\" }".to_owned());
            problems.push(at, "a goto needs a target", hint);
            return None;
        };
        let name = target.text(problems)?;
        let Some(index) = places.get(name) else {
            problems.push(
                &target,
                format!("there is no step {name:?}"),
                suggest(name, places.keys().copied()),
            );
            return None;
        };
        return Some(Answer::Escape(Escape::Goto(*index)));
    }
    if let Some(target) = target {
        problems.push_key(&target, format!("{action} has no target"), None);
    }
    Some(match action {
        "retry" => Answer::Retry,
        "skip" => Answer::Escape(Escape::Skip),
        _ => Answer::Escape(Escape::Fail),
    })
}

/// `@prompts/name` and the like mean something in the rich format; taking them for text would be a surprise.
fn refuse_references(at: &Cursor<'_>, problems: &mut Problems) {
    for (_, entry) in at.entries() {
        if let Value::String(text) = entry.value
            && ["@prompts/", "@workflows/", "@/"].iter().any(|prefix| text.starts_with(prefix))
        {
            problems.push(&entry, "not supported yet: @references", only_tools());
        }
    }
}

fn only_tools() -> Option<String> {
    Some("this version runs steps of type \"tool\" with their parameters written out".to_owned())
}
