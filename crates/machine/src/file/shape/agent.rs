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
    &[&[must(
        "agent",
        Kind::Either(&[Kind::Table(&PROGRAM), Kind::Table(&COMPOSED)]),
        "The agent.",
    )]],
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

/// `[agent]` that is made of parts.
pub(crate) static COMPOSED: Table = Table {
    needs: &[&["workflow", "driver", "model", "program"]],
    ..Table::new(
        "composed_agent",
        "[agent]",
        "An agent made of parts: who works, with which words and which tools.",
        &[&[
            must("name", Kind::Name, "What it is called."),
            may("description", Kind::Text, "What it is for, for a person."),
            may("workflow", Kind::Text, "The workflow that works: @workflows/NAME."),
            may("driver", Kind::Known(super::policy::drivers), "The driver that works."),
            may(
                "model",
                Kind::Text,
                "The model that works, PROVIDER/NAME; or that of the program.",
            ),
            may("program", Kind::Name, "The coding agent that works: claude, codex, …"),
            may("prompt", Kind::Text, "What it is told first; @prompts/NAME takes a file."),
            may("tools", Kind::Table(&TOOLS), "Which tools it may use."),
            may("context", Kind::Table(&CONTEXT), "What it is shown, and what it must look at."),
        ]],
    )
};

/// `[agent.tools]`.
pub(crate) static TOOLS: Table = Table::new(
    "agent_tools",
    "[agent.tools]",
    "Which tools an agent may use.",
    &[&[may("enabled", TEXTS, "These and no others."), may("disabled", TEXTS, "All but these.")]],
);

/// `[agent.context]`.
pub(crate) static CONTEXT: Table = Table::new(
    "agent_context",
    "[agent.context]",
    "What an agent is shown, and what it must look at.",
    &[&[
        may(
            "include_diagnostics",
            Kind::Flag,
            "Whether it is shown what the project's checks say.",
        ),
        may("include_memory", Kind::Flag, "Whether it is shown what earlier tasks noted."),
        may(
            "peek_first",
            Kind::Flag,
            "Whether an edit of a file is refused until the file was looked at.",
        ),
    ]],
);
