//! `agents/NAME.toml`.

use super::{Kind, TEXT_TABLE, TEXTS, Table, may, must};
use crate::agent::AgentQuirks;

/// The file.
pub(super) static FILE: Kind = Kind::Table(&TOP);

/// Its top.
pub(crate) static TOP: Table = Table::new(
    "file",
    "an agent's file",
    "An agent: a program by its command, or one that is made of parts.",
    &[&[must("agent", Kind::Either(&FORMS), "The agent.")]],
);

static FORMS: [Kind; 2] = [Kind::Table(&PROGRAM), Kind::Table(&COMPOSED)];

/// `[agent]` of one that is made of parts.
pub(crate) static COMPOSED: Table = Table {
    needs: &[&["workflow", "driver", "model", "program"]],
    ..Table::new(
        "composed_agent",
        "[agent]",
        "An agent that is made of parts: who does the work, with which prompt and tools.",
        &[&[
            must("name", Kind::Name, "What it is called; the name of the file."),
            may("description", Kind::Text, "For a person."),
            may("workflow", Kind::Like("^@workflows/"), "The workflow that does the work."),
            may("driver", Kind::Text, "The driver that does the work, if it is no other of these."),
            may("model", Kind::Text, "The model that does the work, or that of the program."),
            may("program", Kind::Name, "The coding agent that does the work, such as \"claude\"."),
            may("prompt", Kind::Text, "What it is told beside the goal: a text, or @prompts/NAME."),
            may("tools", Kind::Table(&TOOLS), "The tools that it has."),
            may("context", Kind::Table(&CONTEXT), "What it is told at the start, and held to."),
        ]],
    )
};

/// `[agent.tools]`.
pub(crate) static TOOLS: Table = Table::new(
    "agent_tools",
    "[agent.tools]",
    "The tools that an agent has.",
    &[&[
        may("enabled", TEXTS, "The tools that it has; all if it is not said."),
        may("disabled", TEXTS, "Tools that it does not have."),
    ]],
);

/// `[agent.context]`.
pub(crate) static CONTEXT: Table = Table::new(
    "agent_context",
    "[agent.context]",
    "What an agent is told at the start, and held to.",
    &[&[
        may("include_diagnostics", Kind::Flag, "It is told what the project's own checks say."),
        may("include_memory", Kind::Flag, "It is told what earlier tasks noted."),
        may("peek_first", Kind::Flag, "It changes a file only after it looked at it."),
    ]],
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
        may(
            "any_version",
            Kind::Flag,
            "Whether it may work in a version older than what was tried.",
        ),
    ]],
);
