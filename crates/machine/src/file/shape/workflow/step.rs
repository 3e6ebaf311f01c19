//! Steps and states: every step has some keys, every kind of step has more, and a state is a step with transitions.

use super::super::task::{BUDGET, criteria};
use super::super::{COUNT, Key, Kind, MODEL, TEXTS, Table, may, must};
use super::{CALL, CONFIG, EXPRESSION};

/// The most repeats.
pub(crate) const MAX_RETRIES: u64 = 10_000;
/// The most branches at once.
pub(crate) const MAX_WIDTH: u64 = 1000;

/// A step of any kind.
pub(super) static STEP: Kind = Kind::Either(&[
    Kind::Table(&TOOL.step),
    Kind::Table(&LLM.step),
    Kind::Table(&AGENT.step),
    Kind::Table(&ASK.step),
    Kind::Table(&APPROVE.step),
    Kind::Table(&CALLED.step),
    Kind::Table(&EACH.step),
    Kind::Table(&PARALLEL.step),
    Kind::Table(&DRIVER.step),
    Kind::Table(&TASK.step),
]);

/// A state of any kind.
pub(super) static STATE: Kind = Kind::Either(&[
    Kind::Table(&JUNCTION),
    Kind::Table(&ROW),
    Kind::Table(&TOOL.state),
    Kind::Table(&LLM.state),
    Kind::Table(&AGENT.state),
    Kind::Table(&ASK.state),
    Kind::Table(&APPROVE.state),
    Kind::Table(&CALLED.state),
    Kind::Table(&EACH.state),
    Kind::Table(&PARALLEL.state),
    Kind::Table(&DRIVER.state),
    Kind::Table(&TASK.state),
]);

/// A kind of step, in a row and as a state.
#[derive(Debug)]
pub(crate) struct Forms {
    /// In a row.
    pub(crate) step: Table,
    /// As the work of a state.
    pub(crate) state: Table,
}

const ANSWER_WORDS: [&str; 4] = ["fail", "skip", "retry", "goto"];
static ANSWERS: [Kind; 2] = [Kind::One(&ANSWER_WORDS), Kind::Table(&GOTO)];
const ANSWER: Kind = Kind::Either(&ANSWERS);

/// An answer to a failure as a table.
pub(crate) static GOTO: Table = Table::new(
    "goto",
    "on_error",
    "What follows a failure.",
    &[&[
        must("action", Kind::One(&ANSWER_WORDS), "\"goto\", or one of the other words."),
        may("target", Kind::Text, "The step to go to."),
    ]],
);

/// The keys of every step and every state.
const COMMON: &[Key] = &[
    must("name", Kind::Name, "What it is called; unique among its neighbours."),
    may("when", EXPRESSION, "A condition; the step is skipped if it does not hold."),
    may("timeout", Kind::Span, "How long it may take."),
    may(
        "on_error",
        ANSWER,
        "What follows a failure: fail, skip, retry, or { action = \"goto\", target = \"…\" }.",
    ),
    may(
        "max_retries",
        Kind::Whole(0, MAX_RETRIES),
        "How often it is tried again, or how often the goto is taken.",
    ),
    may("backoff", Kind::Span, "How long to wait before the first retry; it doubles."),
    may("on_exhausted", ANSWER, "What follows the last retry."),
];

/// The keys of a step that stands in a row.
const IN_A_ROW: &[Key] = &[
    may("then", Kind::Text, "Where to go after success: a step's name, or \"end\"."),
    may("max_visits", COUNT, "How often that way is taken."),
];

/// The keys that only a state has.
static OF_A_STATE: [Key; 6] = [
    may("on_entry", Kind::Some(&STEP), "Steps that are carried out when the state is entered."),
    may("on_exit", Kind::Some(&STEP), "Steps that are carried out when it is left."),
    may(
        "transitions",
        Kind::List(&Kind::Table(&TRANSITION)),
        "Where to go; the first that holds is taken.",
    ),
    may("choose", Kind::Table(&CHOOSE), "A model picks among the transitions that hold."),
    may("terminal", Kind::Flag, "Whether the workflow ends here."),
    may("outcome", Kind::One(&OUTCOMES), "How it ends here."),
];

/// How a workflow can end.
pub(crate) const OUTCOMES: [&str; 2] = ["completed", "failed"];

/// A way to another state.
pub(crate) static TRANSITION: Table = Table::new(
    "transition",
    "a transition",
    "A way to another state.",
    &[&[
        must("to", Kind::Text, "The state that it leads to."),
        may(
            "when",
            EXPRESSION,
            "A condition over result, steps and inputs; always if it is not said.",
        ),
        may("max", Kind::Whole(1, u64::MAX), "How often it may be taken; 1000 if it is not said."),
    ]],
);

/// `choose`.
pub(crate) static CHOOSE: Table = Table::new(
    "choose",
    "choose",
    "A model picks one of the transitions by its target's name.",
    &[&[
        must("prompt", Kind::Text, "What it is asked."),
        may("model", MODEL, "PROVIDER/NAME."),
        must("fallback", Kind::Text, "The state to go to if it names none of them."),
        may("driver_config", Kind::Fields, "What its driver takes beside."),
    ]],
);

/// Writes a kind of step in its two forms.
macro_rules! forms {
    ($id:literal, $kind:literal, $help:literal, [$($keys:expr),*]) => {
        Forms {
            step: Table::new(
                concat!($id, "_step"),
                concat!("a step of type ", $kind),
                $help,
                &[
                    COMMON,
                    &[may("type", Kind::One(&[$kind]), "The kind of step; the keys tell it, too.")],
                    IN_A_ROW,
                    $($keys),*
                ],
            ),
            state: Table::new(
                concat!($id, "_state"),
                concat!("a state of type ", $kind),
                $help,
                &[
                    COMMON,
                    &[may("type", Kind::One(&[$kind]), "The kind of work; the keys tell it, too.")],
                    &OF_A_STATE,
                    $($keys),*
                ],
            ),
        }
    };
}

const INPUT_FROM: Key = may("input_from", Kind::Text, "The step whose text it takes.");
const PROMPT: Key = may(
    "prompt",
    Kind::Text,
    "What it is asked, a template; @prompts/NAME takes a file. The goal if it is not said.",
);
const DRIVER_CONFIG: Key = may("driver_config", Kind::Fields, "What its driver takes beside.");
const JOIN: Key = may("join", Kind::One(&["all", "any"]), "Whether all must succeed, or one.");

/// Calls a tool.
pub(crate) static TOOL: Forms = forms!("tool", "tool", "Calls a tool.", [CALL, &[INPUT_FROM]]);

/// Asks a model.
pub(crate) static LLM: Forms = forms!(
    "llm",
    "llm",
    "Asks a model.",
    [&[
        must("prompt", Kind::Text, "What it is asked, a template; @prompts/NAME takes a file."),
        may("tool", Kind::Like("^llm\\."), "Another way to say that a model is asked."),
        INPUT_FROM,
        may(
            "tools",
            Kind::List(&Kind::Known(crate::file::shape::policy::tools)),
            "The tools that it may use; none if it is not said, and it answers once."
        ),
        may("model", MODEL, "PROVIDER/NAME."),
        may("temperature", Kind::Number, "How freely it chooses its words."),
        may("system_prompt", Kind::Text, "What it is told before the prompt."),
        may("schema", Kind::Table(&ANSWER_SCHEMA), "A JSON Schema that its answer must fit."),
        DRIVER_CONFIG,
    ]]
);

/// Lets a coding agent work.
pub(crate) static AGENT: Forms = forms!(
    "agent",
    "agent",
    "Lets a coding agent work.",
    [&[
        must("agent", Kind::Name, "The agent: claude, codex, or the name of a file below agents/."),
        PROMPT,
        INPUT_FROM,
        may("model", Kind::Text, "The model that it is asked to use."),
        DRIVER_CONFIG,
    ]]
);

static TIMED_OUT_KINDS: [Kind; 2] =
    [Kind::One(&["deny", "fail", "skip", "goto"]), Kind::Table(&GOTO)];
const TIMED_OUT: Key = may(
    "on_timeout",
    Kind::Either(&TIMED_OUT_KINDS),
    "What follows if nobody answers in time; it waits if there is no timeout.",
);

/// Asks a person.
pub(crate) static ASK: Forms = forms!(
    "ask",
    "person",
    "Asks a person something.",
    [&[
        must("ask", Kind::Text, "The question, a template."),
        may("choices", Kind::Some(&Kind::Text), "The answers that can be chosen."),
        TIMED_OUT,
    ]]
);

/// Asks a person for leave.
pub(crate) static APPROVE: Forms = forms!(
    "approve",
    "person",
    "Asks a person for leave.",
    [&[must("approve", Kind::Text, "What is to be approved, a template."), TIMED_OUT,]]
);

/// What errors and readers know of a person's step, before it is known what is asked.
pub(crate) static PERSON: Forms = forms!(
    "person",
    "person",
    "Asks a person.",
    [&[
        may("ask", Kind::Text, "The question, a template."),
        may("approve", Kind::Text, "What is to be approved, a template."),
        may("choices", TEXTS, "The answers that can be chosen."),
        TIMED_OUT,
    ]]
);

/// Runs another workflow.
pub(crate) static CALLED: Forms = forms!(
    "workflow",
    "workflow",
    "Runs another workflow.",
    [&[
        must(
            "workflow",
            Kind::Either(&[Kind::Like("^@workflows/"), Kind::Table(&CONFIG)]),
            "@workflows/NAME."
        ),
        may(
            "inputs",
            Kind::Fields,
            "Its inputs: texts are expressions, anything else is meant as it is."
        ),
    ]]
);

/// Runs steps for each element of a list.
pub(crate) static EACH: Forms = forms!(
    "foreach",
    "foreach",
    "Runs steps for each element of a list.",
    [&[
        must("foreach", EXPRESSION, "An expression that gives a list."),
        may("as", Kind::Words, "The element's name in expressions; item if it is not said."),
        must("steps", Kind::Some(&STEP), "What is done for each."),
        may("max_parallel", Kind::Whole(1, MAX_WIDTH), "How many at once; 1 if it is not said."),
        JOIN,
    ]]
);

/// Runs rows of steps beside each other.
pub(crate) static PARALLEL: Forms = forms!(
    "parallel",
    "parallel",
    "Runs rows of steps beside each other.",
    [&[must("parallel", Kind::Named(&Kind::Some(&STEP)), "The rows, by name."), JOIN,]]
);

/// Lets another driver decide.
pub(crate) static DRIVER: Forms = forms!(
    "driver",
    "driver",
    "Lets another driver decide.",
    [&[
        must(
            "driver",
            Kind::Known(crate::file::shape::policy::drivers),
            "The driver; external:NAME for a program."
        ),
        DRIVER_CONFIG,
        PROMPT,
        INPUT_FROM,
    ]]
);

/// Has a task of its own done.
pub(crate) static TASK: Forms = forms!(
    "task",
    "task",
    "Has a task of its own done.",
    [&[must("task", Kind::Table(&TASK_TABLE), "The task, in the same files.")]]
);

/// `task` of a step.
pub(crate) static TASK_TABLE: Table = Table::new(
    "step_task",
    "a task",
    "A task of its own: with its own journal, budget, driver and verdict.",
    &[&[
        must(
            "goal",
            Kind::Words,
            "What is to be achieved, a template; @prompts/NAME takes a file.",
        ),
        may("agent", Kind::Name, "The agent that works: claude, codex, or a file below agents/."),
        may("model", Kind::Text, "The model that works, PROVIDER/NAME; or the agent's."),
        may(
            "driver",
            Kind::Known(crate::file::shape::policy::drivers),
            "The driver that decides; external:NAME for a program.",
        ),
        may("driver_config", Kind::Fields, "What that driver takes."),
        may(
            "workflow",
            Kind::Either(&[Kind::Like("^@workflows/"), Kind::Table(&CONFIG)]),
            "@workflows/NAME: a workflow is followed.",
        ),
        may(
            "inputs",
            Kind::Fields,
            "The inputs of that workflow: texts are expressions, anything else is meant as it is.",
        ),
        may("checks", Kind::List(&Kind::Words), "Commands that must succeed."),
        may("acceptance", Kind::List(&criteria::CRITERION), "What proves that it is done."),
        may("budget", Kind::Table(&BUDGET), "Limits; at most what the whole task has left."),
        may("brought", Kind::Any, "What its workflow brings, once that is looked up."),
    ]],
);

/// A state that does nothing itself.
pub(crate) static JUNCTION: Table =
    Table::new("state", "a state", "A state that does nothing itself.", &[COMMON, &OF_A_STATE]);

/// A state whose work is a row of steps.
pub(crate) static ROW: Table = Table::new(
    "steps_state",
    "a state of type steps",
    "A state whose work is a row of steps.",
    &[COMMON, &OF_A_STATE, &[must("steps", Kind::Some(&STEP), "What it does.")]],
);

/// What a kind of step is.
pub(crate) fn of(kind: &str) -> Option<&'static Forms> {
    Some(match kind {
        "tool" => &TOOL,
        "llm" => &LLM,
        "agent" => &AGENT,
        "person" => &PERSON,
        "workflow" => &CALLED,
        "foreach" => &EACH,
        "parallel" => &PARALLEL,
        "driver" => &DRIVER,
        "task" => &TASK,
        _ => return None,
    })
}

/// The types that an answer can have.
pub(crate) const ANSWER_TYPES: [&str; 7] =
    ["object", "array", "string", "integer", "number", "boolean", "null"];

/// What `schema` can say of an answer: the words of JSON Schema that a model is held to.
pub(crate) static ANSWER_SCHEMA: Table = Table::new(
    "answer_schema",
    "a schema",
    "A JSON Schema that an answer must fit.",
    &[&[
        may(
            "type",
            Kind::Either(&[Kind::One(&ANSWER_TYPES), Kind::List(&Kind::One(&ANSWER_TYPES))]),
            "Its type, or several.",
        ),
        may("properties", Kind::Named(&Kind::Table(&ANSWER_SCHEMA)), "The keys of an object."),
        may("required", TEXTS, "The keys that must be there."),
        may("items", Kind::Table(&ANSWER_SCHEMA), "What each item of an array is."),
        may("enum", Kind::List(&Kind::Any), "What it may be."),
        may("const", Kind::Any, "What it must be."),
        may("minimum", Kind::Signed, "The smallest number."),
        may("maximum", Kind::Signed, "The largest number."),
        may("minLength", COUNT, "The fewest characters."),
        may("maxLength", COUNT, "The most characters."),
        may("minItems", COUNT, "The fewest items."),
        may("maxItems", COUNT, "The most items."),
        may("additionalProperties", Kind::Flag, "Whether an object may have other keys."),
        may("title", Kind::Any, "For whoever reads it."),
        may("description", Kind::Any, "For whoever reads it."),
        may("default", Kind::Any, "For whoever reads it."),
        may("$schema", Kind::Any, "For whoever reads it."),
    ]],
);
