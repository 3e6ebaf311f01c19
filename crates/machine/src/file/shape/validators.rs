//! `validators.toml`.

use super::{Kind, Table, may, must};

/// The file.
pub(super) static FILE: Kind = Kind::Table(&TOP);

/// Its top.
pub(crate) static TOP: Table = Table::new(
    "file",
    "a file of checks",
    "A project's own checks, run by the tool validator.run.",
    &[&[must("check", Kind::Some(&Kind::Table(&CHECK)), "The checks, in order.")]],
);

/// `[[check]]`.
pub(crate) static CHECK: Table = Table::new(
    "check",
    "[[check]]",
    "One check.",
    &[&[
        must("name", Kind::Name, "What it is called; unique in the file."),
        must(
            "command",
            Kind::Words,
            "The command line, run by sh; it passes if its exit code is 0.",
        ),
        may("timeout", Kind::Span, "How long it may take; 10m if it is not said."),
    ]],
);
