//! `agents/NAME.toml`.

use super::{Kind, TEXT_TABLE, TEXTS, Table, may, must};
use crate::agent::AgentQuirks;

/// The file.
pub(super) static FILE: Kind = Kind::Table(&TOP);

/// Its top.
pub(crate) static TOP: Table = Table::new(
    "file",
    "an agent's file",
    "A coding agent by its command.",
    &[&[must("agent", Kind::Table(&PROGRAM), "The agent.")]],
);

/// The protocols.
pub(crate) const PROTOCOLS: [&str; 3] = ["acp", "claude", "codex"];

const VARIABLES: Kind = Kind::List(&Kind::Like("^[A-Za-z_][A-Za-z0-9_]*$"));

/// `[agent]` of a program.
pub(crate) static PROGRAM: Table = Table::new(
    "agent",
    "[agent]",
    "A coding agent: the program, and how it is spoken to.",
    &[&[
        must("name", Kind::Name, "What it is called."),
        may("protocol", Kind::One(&PROTOCOLS), "How it is spoken to; \"acp\" if it is not said."),
        must("command", Kind::Some(&Kind::Text), "The program and its arguments."),
        may("pass", VARIABLES, "Names of your variables that it gets."),
        may("keys", VARIABLES, "Names of your variables that hold its keys."),
        may("env", TEXT_TABLE, "Variables to set for it."),
        may("hosts", TEXTS, "Hosts that it must reach."),
        may("mode", Kind::Words, "The mode that it is put into."),
        may("model", Kind::Words, "The model that it is asked to use."),
        may("model_flag", Kind::Words, "The argument by which its program takes a model."),
        may("asking_modes", TEXTS, "The modes in which it asks before it acts."),
        may(
            "quirks",
            Kind::List(&Kind::One(&AgentQuirks::WORDS)),
            "What it is known to do otherwise than its protocol says.",
        ),
        may("idle", Kind::Span, "How long it may be silent."),
        may(
            "gateway",
            Kind::Flag,
            "Whether its models are asked in its place; by default where it has a key.",
        ),
    ]],
);
