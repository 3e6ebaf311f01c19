//! `mcp.toml`. The shared `.mcp.json` belongs to others and has no shape here.

use super::sandbox::NEEDS;
use super::{Kind, TEXT_TABLE, TEXTS, Table, may};

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
    needs: &[&["command", "url"]],
    ..Table::new(
        "server",
        "a server",
        "One server: a program, or an address.",
        &[
            &[
                may("command", Kind::Some(&Kind::Text), "The program and its arguments."),
                may(
                    "url",
                    Kind::Like("^(https?://|\\$\\{)"),
                    "The address, for one that speaks streamable HTTP.",
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
