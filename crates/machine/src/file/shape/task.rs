//! Task files.

pub(crate) mod criteria;

use super::policy::drivers;
use super::{COUNT, Key, Kind, TEXTS, Table, When, may, must, sandbox, workflow};
use crate::cause::CauseKind;

/// The file: with `[task]`, or with the keys of it at the top.
pub(super) static FILE: Kind = Kind::Either(&[Kind::Table(&LONG), Kind::Table(&SHORT)]);

const TASK_KEYS: &[Key] = &[
    must("goal", Kind::Words, "What is to be achieved."),
    may(
        "driver",
        Kind::Known(drivers),
        "Who decides; \"user\" if it is not said, external:NAME for a program.",
    ),
    may("driver_config", Kind::Fields, "What that driver takes."),
    may(
        "red_first",
        Kind::Flag,
        "Whether the commands among the criteria must fail before the work begins.",
    ),
];

const SECTIONS: &[Key] = &[
    may("budget", Kind::Table(&BUDGET), "Limits; none if it is not said."),
    may("acceptance", Kind::List(&criteria::CRITERION), "What proves that it is done."),
    may("workspace", Kind::Table(&WORKSPACE), "Where it works."),
    may("sandbox", Kind::Table(&sandbox::TASK), "What its processes need of the sandbox."),
    may("retry", Kind::Table(&RETRY), "What follows a failed turn, for each cause."),
    may("stuck", Kind::Table(&STUCK), "How often something may repeat itself."),
    may("progress", Kind::Table(&PROGRESS), "How often the task tells how far it is."),
    may("workflow", Kind::Table(&workflow::WORKFLOW), "A workflow, as in a workflow's file."),
    may(
        "machine",
        Kind::Table(&workflow::machine::MACHINE),
        "A state machine, as in a workflow's file.",
    ),
];

/// A file with `[task]`.
pub(crate) static LONG: Table = Table::new(
    "file",
    "a task file",
    "A task: see docs/task-file.md.",
    &[&[must("task", Kind::Table(&TASK), "The task itself.")], SECTIONS],
);

/// What a file without `[task]` may have as far as its errors go: whoever misspells `task` is told so.
pub(crate) static WITHOUT_TASK: Table = Table::new(
    "any_file",
    "a task file",
    "A task, however it is written.",
    &[TASK_KEYS, &[may("task", Kind::Table(&TASK), "The task itself.")], SECTIONS],
);

/// A file that has the keys of `[task]` at its top.
pub(crate) static SHORT: Table = Table {
    when: DRIVER_CONFIGS,
    ..Table::new(
        "short_file",
        "a task file",
        "A task whose goal stands at the top of the file.",
        &[TASK_KEYS, SECTIONS],
    )
};

/// `[task]`.
pub(crate) static TASK: Table = Table {
    when: DRIVER_CONFIGS,
    ..Table::new("task", "[task]", "The goal, and who drives.", &[TASK_KEYS])
};

/// What the configurations of drivers hold whose keys are known.
const DRIVER_CONFIGS: &[When] = &[
    config("agent", &AGENT_CONFIG),
    config("workflow", &workflow::DRIVER_CONFIG),
    config("state_machine", &workflow::machine::DRIVER_CONFIG),
];

const fn config(driver: &'static str, table: &'static Table) -> When {
    When { key: "driver", value: driver, then: "driver_config", kind: Kind::Table(table) }
}

/// The configuration of the driver `agent`.
pub(crate) static AGENT_CONFIG: Table = Table::new(
    "agent_config",
    "driver_config",
    "Which coding agent works.",
    &[&[
        must("agent", Kind::Name, "The agent: claude, codex, or the name of a file below agents/."),
        may("model", Kind::Text, "The model that it is asked to use."),
        may("idle", Kind::Span, "How long it may be silent."),
    ]],
);

/// A driver inside another.
pub(crate) static CHILD: Table = Table::new(
    "child",
    "a driver",
    "A driver inside another.",
    &[&[
        must("driver", Kind::Known(drivers), "Who decides."),
        may("config", Kind::Fields, "What that driver takes."),
        may("driver_config", Kind::Fields, "The same."),
    ]],
);

/// `[budget]`.
pub(crate) static BUDGET: Table = Table::new(
    "budget",
    "[budget]",
    "Limits; one that is reached ends the task.",
    &[&[
        may("max_turns", COUNT, "How many turns."),
        may("max_time", Kind::Span, "How long, such as \"30m\"."),
        may("max_tokens", COUNT, "How many tokens, of all models together."),
        may("max_usd", Kind::Number, "How much it may cost, in dollars."),
        may("max_tool_calls", COUNT, "How many calls of tools."),
        may("max_consecutive_denies", COUNT, "How many calls in a row may be denied."),
        may("max_consecutive_errors", COUNT, "How many calls in a row may fail."),
        may("max_context_overflows", COUNT, "How often a conversation may become too long."),
    ]],
);

/// The kinds of workspaces.
pub(crate) const WORKSPACES: [&str; 3] = ["worktree", "in_place", "none"];
/// When checkpoints are made.
pub(crate) const CHECKPOINTS: [&str; 2] = ["claims", "turns"];

/// `[workspace]`.
pub(crate) static WORKSPACE: Table = Table::new(
    "workspace",
    "[workspace]",
    "Where the task works, and what of it must not be touched.",
    &[&[
        may(
            "kind",
            Kind::One(&WORKSPACES),
            "A worktree of its own, the folder itself, or nowhere.",
        ),
        may(
            "protect",
            TEXTS,
            "Patterns of paths that must not be touched; with ! in front, exceptions.",
        ),
        may(
            "protect_framework",
            Kind::Flag,
            "Whether tests and their configuration are protected.",
        ),
        may("setup", Kind::List(&Kind::Words), "Commands that make a fresh checkout usable."),
        may("share", TEXTS, "Folders that worktrees share with the project, such as a cache."),
        may(
            "checkpoints",
            Kind::One(&CHECKPOINTS),
            "When the files are kept: at claims, or after each turn.",
        ),
    ]],
);

const MANY: u64 = 1_000_000;
const SMALL: Kind = Kind::Whole(0, MANY);

const RUNGS: Kind =
    Kind::Some(&Kind::Like("^(next_turn|fresh_session|rollback|escalate|give_up|hand_over:.+)$"));
const LADDER_KEYS: &[Key] = &[
    must("do", RUNGS, "What is tried, in order."),
    may("most", SMALL, "How often in a row anything is tried."),
];

/// A ladder as a table.
pub(crate) static LADDER: Table =
    Table::new("ladder", "a ladder", "What is tried after a failure.", &[LADDER_KEYS]);

/// A ladder as a table, for failures that are counted.
pub(crate) static COUNTED_LADDER: Table = Table::new(
    "counted_ladder",
    "a ladder",
    "What is tried after failures in a row.",
    &[LADDER_KEYS, &[may("after", Kind::Whole(1, MANY), "How many failures in a row are one.")]],
);

const LADDER_KIND: Kind = Kind::Either(&[RUNGS, Kind::Table(&LADDER)]);
const COUNTED: Kind = Kind::Either(&[RUNGS, Kind::Table(&COUNTED_LADDER)]);

const CAUSES: [Key; CauseKind::ALL.len()] = causes();

const fn causes() -> [Key; CauseKind::ALL.len()] {
    let mut keys =
        [may("", LADDER_KIND, "What is tried after this cause: a list, or a table with do.");
            CauseKind::ALL.len()];
    let mut index = 0;
    while index < keys.len() {
        let kind = CauseKind::ALL[index];
        keys[index].name = kind.key();
        if kind.is_counted() {
            keys[index].kind = COUNTED;
        }
        index += 1;
    }
    keys
}

/// `[retry]`.
pub(crate) static RETRY: Table = Table::new(
    "retry",
    "[retry]",
    "What follows a failed turn: a ladder for each cause.",
    &[
        &CAUSES,
        &[
            may(
                "drivers",
                Kind::Named(&Kind::Table(&HAND_OVER)),
                "Drivers to hand over to, by name.",
            ),
            may("attempts", Kind::Whole(1, MANY), "How often a model that fails is asked."),
            may("longest_wait", Kind::Span, "How long one wait for a model may be."),
            may("max_wasted", COUNT, "How many tokens may be spent on answers that help nobody."),
        ],
    ],
);

/// `[retry.drivers.NAME]`.
pub(crate) static HAND_OVER: Table = Table {
    when: DRIVER_CONFIGS,
    ..Table::new(
        "hand_over",
        "a driver to hand over to",
        "A driver that can go on.",
        &[&[
            must("driver", Kind::Known(drivers), "Who decides."),
            may("driver_config", Kind::Fields, "What that driver takes."),
        ]],
    )
};

const REPEATS: Kind = SMALL;

/// `[stuck]`.
pub(crate) static STUCK: Table = Table::new(
    "stuck",
    "[stuck]",
    "How often something may repeat itself until the task is stuck; 0 means that nobody looks.",
    &[&[
        may("same_failure", REPEATS, "The same verdict in a row."),
        may("same_action", REPEATS, "The same call with the same result."),
        may("unchanged_tree", REPEATS, "Claims over the same files."),
        may("cycle", REPEATS, "The same round of calls."),
        may("same_question", REPEATS, "The same question."),
        may("same_denied", REPEATS, "The same call that is denied."),
    ]],
);

/// `[progress]`.
pub(crate) static PROGRESS: Table = Table::new(
    "progress",
    "[progress]",
    "How often the task tells how far it is.",
    &[&[may("every", COUNT, "Every so many turns; 0 for never.")]],
);
