//! Prompts that are TOML files. Those that end in `.md` or `.txt` are their text.

use super::workflow::INPUT_KEYS;
use super::{Kind, Table, may, must};

/// The file.
pub(super) static FILE: Kind = Kind::Table(&TOP);

/// Its top.
pub(crate) static TOP: Table = Table::new(
    "file",
    "a prompt's file",
    "A text for a model.",
    &[&[
        may("meta", Kind::Table(&META), "What is to be known of it."),
        must("prompt", Kind::Table(&PROMPT), "The text, and what it takes."),
    ]],
);

/// `[meta]`.
pub(crate) static META: Table = Table::new(
    "meta",
    "[meta]",
    "What is to be known of a prompt.",
    &[&[
        may("name", Kind::Name, "What it is called; as its file if it is not said."),
        may("version", Kind::Text, "Which version it is; it is kept in the journal."),
        may("description", Kind::Text, "What it is for, for a person."),
    ]],
);

/// `[prompt]`.
pub(crate) static PROMPT: Table = Table::new(
    "prompt",
    "[prompt]",
    "The text, and what it takes.",
    &[&[
        must("text", Kind::Words, "The text, a template."),
        may("inputs", Kind::Named(&Kind::Table(&INPUT)), "What it takes, as [prompt.inputs.NAME]."),
    ]],
);

/// `[prompt.inputs.NAME]`.
pub(crate) static INPUT: Table =
    Table::new("prompt_input", "an input", "Something that the prompt takes.", &[INPUT_KEYS]);
