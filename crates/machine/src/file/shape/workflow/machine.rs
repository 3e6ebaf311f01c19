//! `[machine]`: states of tool calls with guarded transitions.

use super::super::{COUNT, Key, Kind, Table, may, must};
use super::CALL;

/// `[machine]`.
pub(crate) static MACHINE: Table = Table::new(
    "machine",
    "[machine]",
    "A state machine of tool calls.",
    &[
        &[
            may("name", Kind::Name, "What it is called; as its file if it is not said."),
            may("description", Kind::Text, "What it is for, for a person."),
        ],
        &STATES,
    ],
);

/// A machine inside a state.
pub(crate) static INNER: Table =
    Table::new("inner_machine", "a machine", "A machine inside a state.", &[&STATES]);

/// A machine as a driver's configuration.
pub(crate) static CONFIG: Table = Table::new(
    "machine_config",
    "the machine's configuration",
    "A state machine.",
    &[
        &[
            may("name", Kind::Name, "What it is called."),
            may("max_steps", COUNT, "How many steps may be carried out."),
        ],
        &STATES,
    ],
);

/// The configuration of the driver `state_machine` in a task file.
pub(crate) static DRIVER_CONFIG: Table = Table::new(
    "machine_driver",
    "driver_config",
    "Which machine runs.",
    &[&[
        may(
            "workflow",
            Kind::Either(&[Kind::Words, Kind::Table(&super::WORKFLOW)]),
            "Its name, or the table itself.",
        ),
        may("machine", Kind::Table(&MACHINE), "The machine itself."),
        may("name", Kind::Name, "What it is called."),
        may("initial", Kind::Text, "The state that it begins in."),
        may("states", Kind::Either(&FORMS), "The states."),
        may("max_steps", COUNT, "How many steps may be carried out."),
    ]],
);

static STATES: [Key; 2] = [
    may(
        "initial",
        Kind::Text,
        "The state that it begins in; the first of a list if it is not said.",
    ),
    must("states", Kind::Either(&FORMS), "The states, by name or as a list."),
];

/// States as a list, and as a table by name.
pub(super) static FORMS: [Kind; 2] = [Kind::Some(&LISTED), Kind::Named(&NAMED)];
/// A state of a list.
pub(super) static LISTED: Kind = Kind::Table(&LISTED_STATE);
/// A state of a table, which has its name there.
pub(super) static NAMED: Kind = Kind::Table(&STATE);

const STATE_HELP: &str = "A state: what is called in it, and where it leads.";

/// A state.
pub(crate) static STATE: Table = Table::new(
    "machine_state",
    "a state",
    STATE_HELP,
    &[&[may("name", Kind::Name, "What it is called, as its table.")], &STATE_KEYS],
);

static LISTED_STATE: Table = Table::new(
    "listed_machine_state",
    "a state",
    STATE_HELP,
    &[&[must("name", Kind::Name, "What it is called.")], &STATE_KEYS],
);

static STATE_KEYS: [Key; 9] = [
    may("action", Kind::Table(&ACTION), "The call that it makes."),
    may("parallel", Kind::Some(&Kind::Table(&BRANCH)), "Calls that are made at once."),
    may("join", Kind::One(&["all", "any"]), "Whether all must succeed, or one."),
    may("machine", Kind::Table(&INNER), "A machine of its own."),
    may("on_entry", Kind::List(&Kind::Table(&HOOK)), "Calls when it is entered."),
    may("on_exit", Kind::List(&Kind::Table(&HOOK)), "Calls when it is left."),
    may(
        "transitions",
        Kind::List(&Kind::Table(&TRANSITION)),
        "Where to go; the first that holds is taken.",
    ),
    may("terminal", Kind::Flag, "Whether the machine ends here."),
    may("outcome", Kind::One(&["done", "failed"]), "How it ends here."),
];

const TIMEOUT: Key = may("timeout", Kind::Span, "How long it may take.");

/// A state's call.
pub(crate) static ACTION: Table =
    Table::new("action", "an action", "A call of a tool.", &[CALL, &[TIMEOUT]]);

/// One of several calls at once.
pub(crate) static BRANCH: Table = Table::new(
    "branch",
    "a branch",
    "One of several calls at once.",
    &[&[must("name", Kind::Name, "What it is called.")], CALL, &[TIMEOUT]],
);

/// A call on the way in or out.
pub(crate) static HOOK: Table = Table::new(
    "hook",
    "a call",
    "A call on the way in or out.",
    &[CALL, &[TIMEOUT, may("on_error", Kind::One(&["fail", "skip"]), "What follows a failure.")]],
);

/// A way to another state.
pub(crate) static TRANSITION: Table = Table::new(
    "machine_transition",
    "a transition",
    "A way to another state.",
    &[&[
        must("to", Kind::Text, "The state that it leads to."),
        may("when", Kind::Either(&GUARD), "A condition over the result; always if it is not said."),
        may("max", COUNT, "How often it may be taken; 1000 if it is not said."),
    ]],
);

/// A condition: a word, or a table that may hold others.
static GUARD: [Kind; 2] = [Kind::One(&["always", "ok", "error"]), Kind::Table(&CONDITION)];
static NESTED: Kind = Kind::Either(&GUARD);

/// A condition as a table.
pub(crate) static CONDITION: Table = Table {
    needs: &[&["ok", "error", "status", "exit", "contains", "empty", "count", "and", "or", "not"]],
    ..Table::new(
        "condition",
        "a condition",
        "A condition over the result; all that it says must hold.",
        &[&[
            may("ok", Kind::Flag, "Whether it was a success."),
            may("error", Kind::Flag, "Whether it was none."),
            may("status", Kind::One(&STATUSES), "How the call ended."),
            may("exit", Kind::Exit, "The exit code."),
            may("contains", Kind::Text, "A text that the output holds."),
            may("empty", Kind::Flag, "Whether there is no output."),
            may("count", Kind::Table(&COUNTED), "How often a transition was taken."),
            may("and", Kind::Some(&NESTED), "Conditions of which each must hold."),
            may("or", Kind::Some(&NESTED), "Conditions of which one must hold."),
            may("not", Kind::Either(&GUARD), "A condition that must not hold."),
        ]],
    )
};

/// The ways in which a call ends.
pub(crate) const STATUSES: [&str; 7] =
    ["ok", "error", "denied", "skipped", "aborted", "timed_out", "in_doubt"];

/// `count` of a condition.
pub(crate) static COUNTED: Table = Table {
    needs: &[&["less_than", "at_least"]],
    ..Table::new(
        "count",
        "count",
        "How often a transition was taken.",
        &[&[
            may("edge", Kind::Text, "The transition, as \"from -> to\"."),
            may("less_than", COUNT, "Fewer times than this."),
            may("at_least", COUNT, "This often or more."),
        ]],
    )
};
