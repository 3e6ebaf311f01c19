//! The tools by which another program dispatches tasks and looks after them, over the Model Context Protocol: what they
//! are called, what a model reads about them, and what a call of one means. The talk itself is `gate::Session`.

use machine::policy::budget::Budget;
use machine::time::Span;
use machine::tool::EffectClass;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::gate::{RequestId, Tool, Toolbox};

/// The longest goal or note, in bytes.
const MAX_TEXT: usize = 64 << 10;
/// The longest wait for a task, in seconds.
const MAX_WAIT: u64 = 3600;
/// The most lines of a log.
const MAX_LINES: usize = 400;

/// What a call means.
#[derive(Debug, Clone, PartialEq)]
pub enum TaskCall {
    /// Begin a task.
    Dispatch(Wish),
    /// Which tasks there are.
    List,
    /// How one stands.
    Inspect {
        /// The task, or the beginning of its id.
        id: String,
        /// What of it.
        part: Part,
        /// How many lines of its log.
        lines: usize,
    },
    /// Tell its driver something.
    Steer {
        /// The task.
        id: String,
        /// What.
        text: String,
    },
    /// End it.
    Cancel {
        /// The task.
        id: String,
        /// Why.
        reason: String,
    },
    /// Wait until it has ended or waits for a person.
    Wait {
        /// The task.
        id: String,
        /// For how long at most.
        patience: Span,
    },
}

/// What is shown of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// Everything that is known of how it stands.
    #[default]
    Show,
    /// Why it stopped, or what it waits for.
    Why,
    /// The end of what happened to it.
    Log,
}

/// A task that somebody wants.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Wish {
    /// What is to be achieved.
    pub goal: String,
    /// Stands for this one dispatch.
    pub key: Option<String>,
    /// Who works: one of those that are offered; the first if absent.
    pub worker: Option<String>,
    /// Commands that must succeed before it counts as done.
    pub checks: Vec<String>,
    /// A stricter profile.
    pub profile: Option<String>,
    /// What it may spend.
    pub budget: Budget,
}

/// Which task a call is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct About {
    /// The task, or the beginning of its id.
    id: String,
    /// Whether the call changes it.
    pub changes: bool,
}

impl About {
    /// What is known of a call before it is made; nothing if it is about no task that is there.
    pub fn of(tool: &str, input: &Value) -> Option<About> {
        let changes = match tool {
            "steer" | "cancel" => true,
            "inspect" | "wait" => false,
            _ => return None,
        };
        Some(About { id: input["id"].as_str()?.trim().to_lowercase(), changes })
    }

    /// Whether both may be about one task: then one of the ids is the beginning of the other.
    pub fn meets(&self, other: &About) -> bool {
        self.id.starts_with(&other.id) || other.id.starts_with(&self.id)
    }
}

/// What a server offers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Offer {
    /// Who may work, by the names that a call uses.
    pub workers: Vec<String>,
    /// How many tasks may be dispatched.
    pub tasks: u64,
    /// Whether a dispatch must have a key.
    pub keyed: bool,
}

/// The tools of a server.
pub fn toolbox(offer: &Offer) -> Toolbox {
    let id =
        json!({ "type": "string", "description": "The task's id, as dispatch or list gave it" });
    let tool = |name: &str, description: &str, properties: Value, required: &[&str]| Tool {
        name: name.to_owned(),
        means: name.to_owned(),
        description: description.to_owned(),
        schema: json!({
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": false,
        }),
        class: Some(class(name, offer)),
    };
    let tools = vec![
        tool(
            "dispatch",
            &format!(
                "Begin a task that another worker does on its own, in a git worktree of its own, and return its id at \
                 once. It goes on when this server ends. It knows nothing of this conversation: the goal must say \
                 everything. When the worker says that it is finished, the checks are run; only they decide. Use wait to \
                 learn the outcome. Up to {} tasks can be dispatched here.",
                offer.tasks
            ),
            json!({
                "goal": { "type": "string", "description": "What is to be achieved, with every fact the worker needs" },
                "key": { "type": "string", "description": "A name of your own for this dispatch. Calling again with the \
                    same key gives the same task and never a second one, so a call whose answer was lost can be repeated" },
                "worker": { "type": "string", "enum": offer.workers, "description": "Who works; the first if absent" },
                "checks": { "type": "array", "items": { "type": "string" }, "description": "Shell commands that must \
                    succeed before the task counts as done, such as cargo test" },
                "max_usd": { "type": "number", "description": "The most money it may spend, in US dollars; without it all that is left is set aside for this task" },
                "max_turns": { "type": "integer", "description": "The most turns of its worker" },
                "max_minutes": { "type": "integer", "description": "The most minutes" },
                "profile": { "type": "string", "enum": ["read-only", "dev", "open"], "description": "What it may do \
                    without asking; never more than this server allows" },
            }),
            if offer.keyed { &["goal", "key"] } else { &["goal"] },
        ),
        tool(
            "list",
            "The tasks that were dispatched here, newest first, each with how it stands.",
            json!({}),
            &[],
        ),
        tool(
            "inspect",
            "How one task stands: everything that is known of it (show), why it stopped or what it waits for (why), or \
             the end of what happened to it (log).",
            json!({
                "id": id,
                "part": { "type": "string", "enum": ["show", "why", "log"], "description": "show if absent" },
                "lines": { "type": "integer", "description": "How many lines of the log; 40 if absent" },
            }),
            &["id"],
        ),
        tool(
            "steer",
            "Tell the worker of a running task something, without stopping it.",
            json!({ "id": id, "text": { "type": "string", "description": "What it is told" } }),
            &["id", "text"],
        ),
        tool(
            "cancel",
            "End a task. What it changed stays in its worktree.",
            json!({ "id": id, "reason": { "type": "string", "description": "Why, for whoever reads the log" } }),
            &["id"],
        ),
        tool(
            "wait",
            "Wait until a task has ended or waits for a person, and return how it stands. Returns how it stands then if \
             the time is over before; wait again to go on waiting.",
            json!({
                "id": id,
                "seconds": { "type": "integer", "description": "How long at most; 300 if absent, up to 3600" },
            }),
            &["id"],
        ),
    ];
    Toolbox { tools, root: None }
}

/// What calling a tool twice does that calling it once does not.
fn class(tool: &str, offer: &Offer) -> EffectClass {
    match tool {
        "list" | "inspect" | "wait" => EffectClass::Pure,
        // A task ends once, and the same words twice tell a worker nothing new.
        "cancel" | "steer" => EffectClass::Keyed,
        "dispatch" if offer.keyed => EffectClass::Keyed,
        _ => EffectClass::Unsafe,
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DispatchInput {
    goal: String,
    key: Option<String>,
    worker: Option<String>,
    #[serde(default)]
    checks: Vec<String>,
    max_usd: Option<f64>,
    max_turns: Option<u64>,
    max_minutes: Option<u64>,
    profile: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NoInput {}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct InspectInput {
    id: String,
    #[serde(default)]
    part: Part,
    lines: Option<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SteerInput {
    id: String,
    text: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CancelInput {
    id: String,
    #[serde(default)]
    reason: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WaitInput {
    id: String,
    seconds: Option<u64>,
}

/// What a call means; the error says what does not fit.
pub fn read(tool: &str, input: &Value) -> Result<TaskCall, String> {
    fn of<T: for<'de> Deserialize<'de>>(tool: &str, input: &Value) -> Result<T, String> {
        T::deserialize(input).map_err(|error| format!("{tool}: {error}"))
    }
    Ok(match tool {
        "dispatch" => TaskCall::Dispatch(wish(of(tool, input)?)?),
        "list" => of::<NoInput>(tool, input).map(|_| TaskCall::List)?,
        "inspect" => {
            let InspectInput { id, part, lines } = of(tool, input)?;
            TaskCall::Inspect { id, part, lines: lines.unwrap_or(40).clamp(1, MAX_LINES) }
        }
        "steer" => {
            let SteerInput { id, text } = of(tool, input)?;
            TaskCall::Steer { id, text: said("text", &text)? }
        }
        "cancel" => {
            let CancelInput { id, reason } = of(tool, input)?;
            let reason =
                if reason.trim().is_empty() { String::new() } else { said("reason", &reason)? };
            TaskCall::Cancel { id, reason }
        }
        "wait" => {
            let WaitInput { id, seconds } = of(tool, input)?;
            TaskCall::Wait { id, patience: Span::seconds(seconds.unwrap_or(300).min(MAX_WAIT)) }
        }
        other => return Err(format!("there is no tool {other:?}")),
    })
}

fn wish(input: DispatchInput) -> Result<Wish, String> {
    let checks: Result<Vec<String>, String> =
        input.checks.iter().map(|check| said("checks", check)).collect();
    if input.checks.len() > 32 {
        return Err("checks: at most 32".to_owned());
    }
    let key = input.key.map(|key| {
        match (1..=128).contains(&key.len()) && !key.contains(char::is_control) {
            true => Ok(key),
            false => Err("key: expected 1 to 128 bytes without control characters".to_owned()),
        }
    });
    if input.max_usd.is_some_and(|usd| !usd.is_finite() || usd <= 0.0) {
        return Err("max_usd: expected an amount above 0".to_owned());
    }
    Ok(Wish {
        goal: said("goal", &input.goal)?,
        key: key.transpose()?,
        worker: input.worker,
        checks: checks?,
        profile: input.profile,
        budget: Budget {
            max_usd: input.max_usd,
            max_turns: input.max_turns,
            max_time: input.max_minutes.map(|minutes| Span::seconds(minutes.saturating_mul(60))),
            ..Budget::default()
        },
    })
}

fn said(name: &str, text: &str) -> Result<String, String> {
    let text = text.trim();
    match text {
        "" => Err(format!("{name}: it is empty")),
        _ if text.len() > MAX_TEXT => Err(format!("{name}: longer than {MAX_TEXT} bytes")),
        _ if text.contains('\0') => Err(format!("{name}: it contains NUL")),
        _ => Ok(text.to_owned()),
    }
}

/// The line that tells how far a call is, to whoever asked for that.
pub fn progress(token: &RequestId, step: u64, message: &str) -> String {
    let params = json!({ "progressToken": token.json(), "progress": step, "message": message });
    crate::jsonrpc::notification("notifications/progress", &params)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_read_whole_or_not_at_all() {
        let wish =
            read("dispatch", &json!({ "goal": " mend it ", "max_usd": 1.5, "max_minutes": 2 }));
        let budget =
            Budget { max_usd: Some(1.5), max_time: Some(Span::seconds(120)), ..Budget::default() };
        let expected = Wish { goal: "mend it".to_owned(), budget, ..Wish::default() };
        assert_eq!(wish, Ok(TaskCall::Dispatch(expected)));
        let endless = json!({ "goal": "mend it", "max_minutes": u64::MAX });
        let Ok(TaskCall::Dispatch(endless)) = read("dispatch", &endless) else {
            panic!("any number of minutes is one");
        };
        assert_eq!(endless.budget.max_time, Some(Span(u64::MAX)));
        for (tool, input, words) in [
            ("dispatch", json!({ "goal": "" }), "goal: it is empty"),
            ("dispatch", json!({ "goal": "a\u{0}b" }), "NUL"),
            ("dispatch", json!({ "goal": "x", "approve": true }), "approve"),
            ("dispatch", json!({ "goal": "x", "max_usd": -1 }), "above 0"),
            ("dispatch", json!({ "goal": "x", "key": "" }), "key"),
            ("dispatch", json!({}), "goal"),
            ("list", json!({ "all": true }), "all"),
            ("inspect", json!({ "id": "7", "part": "key" }), "part"),
            ("steer", json!({ "id": "7", "text": " " }), "text: it is empty"),
            ("approve", json!({}), "there is no tool"),
        ] {
            let error = read(tool, &input).unwrap_err();
            let known = error.contains(words) || error.contains("unknown variant");
            assert!(known, "{tool} {input}: {error}");
        }
    }

    #[test]
    fn every_tool_that_is_offered_can_be_called() {
        let offer = Offer { workers: vec!["agent:claude".to_owned()], tasks: 3, keyed: true };
        let tools = toolbox(&offer).tools;
        let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(names, ["dispatch", "list", "inspect", "steer", "cancel", "wait"]);
        for tool in &tools {
            let required = tool.schema["required"].as_array().unwrap().clone();
            let fields =
                required.iter().map(|name| (name.as_str().unwrap().to_owned(), json!("x")));
            assert!(read(&tool.name, &Value::Object(fields.collect())).is_ok(), "{}", tool.name);
        }
        let classes = |keyed| {
            let tools = toolbox(&Offer { keyed, ..offer.clone() }).tools;
            tools.iter().map(|tool| tool.class.unwrap()).collect::<Vec<_>>()
        };
        use EffectClass::{Keyed, Pure, Unsafe};
        assert_eq!(classes(true), [Keyed, Pure, Pure, Keyed, Keyed, Pure]);
        assert_eq!(classes(false)[0], Unsafe, "without a key it may be made twice");
    }
}
