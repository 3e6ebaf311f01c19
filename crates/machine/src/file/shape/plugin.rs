//! `drivers/NAME.toml`.

use super::sandbox::NEEDS;
use super::{Kind, TEXT_TABLE, Table, may, must};

/// The file.
pub(super) static FILE: Kind = Kind::Table(&TOP);

/// Its top.
pub(crate) static TOP: Table = Table::new(
    "file",
    "a driver's file",
    "A driver that is a program outside: see docs/protocol.md.",
    &[&[must("driver", Kind::Table(&DRIVER), "The driver.")]],
);

/// `[driver]`.
pub(crate) static DRIVER: Table = Table::new(
    "driver",
    "[driver]",
    "The program that decides, and what it needs.",
    &[
        &[
            must("name", Kind::Name, "The NAME of external:NAME."),
            must("command", Kind::Some(&Kind::Text), "The program and its arguments."),
            may("timeout", Kind::Span, "How long one answer may take; 30s if it is not said."),
            may("env", TEXT_TABLE, "Variables to set for it."),
        ],
        NEEDS,
    ],
);
