//! `mcp.toml`. The shared `.mcp.json` belongs to others and has no shape here.

use super::sandbox::NEEDS;
use super::{Kind, POSITIVE, TEXT_TABLE, TEXTS, Table, may};

/// The file.
pub(super) static FILE: Kind = Kind::Table(&TOP);

/// Its top.
pub(crate) static TOP: Table = Table::new(
    "file",
    "a file of servers",
    "Servers of tools (Model Context Protocol).",
    &[&[may("server", Kind::Named(&Kind::Table(&SERVER)), "The servers, as [server.NAME].")]],
);

/// `[server.NAME]`.
pub(crate) static SERVER: Table = Table {
    needs: &[&["command", "url", "dispatch"]],
    ..Table::new(
        "server",
        "a server",
        "One server: a program, an address, or drivetrain itself.",
        &[
            &[
                may("command", Kind::Some(&Kind::Text), "The program and its arguments."),
                may(
                    "url",
                    Kind::Like("^(https?://|\\$\\{)"),
                    "The address, for one that speaks streamable HTTP.",
                ),
                may(
                    "dispatch",
                    Kind::Table(&DISPATCH),
                    "Drivetrain itself is the server: the task dispatches tasks with it.",
                ),
                may("env", TEXT_TABLE, "Variables for the program; ${NAME} takes one of yours."),
                may(
                    "headers",
                    TEXT_TABLE,
                    "Headers for the address; ${NAME} takes a variable of yours.",
                ),
                may("timeout", Kind::Span, "How long one call may take; 2m if it is not said."),
                may(
                    "start_timeout",
                    Kind::Span,
                    "How long it may take to tell its tools; 30s if it is not said.",
                ),
                may(
                    "trust_annotations",
                    Kind::Flag,
                    "Whether its own word on what its tools change counts.",
                ),
                may("tools", TEXTS, "The tools that are wanted; all if it is not said."),
                may("disabled", Kind::Flag, "Whether it is left alone."),
            ],
            NEEDS,
        ],
    )
};

/// `[server.NAME.dispatch]`.
pub(crate) static DISPATCH: Table = Table {
    needs: &[&["agents", "models"]],
    ..Table::new(
        "dispatch",
        "a server that dispatches tasks",
        "Who may work on the tasks that a task dispatches, and how much.",
        &[&[
            may(
                "agents",
                Kind::Some(&Kind::Words),
                "Coding agents that may work; the first worker is the default.",
            ),
            may("models", Kind::Some(&Kind::Words), "Models that may work, as PROVIDER/NAME."),
            may(
                "checks",
                Kind::List(&Kind::Words),
                "Commands that must succeed before any of the tasks counts as done.",
            ),
            may(
                "profile",
                Kind::One(&PROFILES),
                "What the tasks may do where no rule says anything; never more than their parent.",
            ),
            may("max_tasks", POSITIVE, "How many tasks a task may dispatch; 32 if it is not said."),
            may("max_usd", Kind::Number, "What all of them may cost together, in dollars."),
            may("max_tokens", POSITIVE, "Tokens for all of them together."),
            may("max_turns", POSITIVE, "Turns of each."),
            may("max_time", Kind::Span, "Time of each."),
        ]],
    )
};

/// The profiles, by their names.
pub(crate) const PROFILES: [&str; 3] = ["read-only", "dev", "open"];
