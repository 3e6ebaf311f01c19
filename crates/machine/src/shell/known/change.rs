//! Programs that write exactly the paths that they name.

use super::Kind;
use super::program::{Deep, Operands, Program};
use crate::shell::options::Options;

const CHANGE: Program = Program { kind: Kind::Change, operands: Operands::Write, ..Program::PLAIN };

pub(super) const PROGRAMS: &[Program] = &[
    Program {
        names: &["mkdir"],
        options: Options {
            flags: "pv",
            values: "m",
            long: "parents verbose",
            long_values: "mode",
            ..Options::NONE
        },
        ..CHANGE
    },
    Program {
        names: &["rmdir"],
        options: Options {
            flags: "pv",
            long: "parents verbose ignore-fail-on-non-empty",
            ..Options::NONE
        },
        ..CHANGE
    },
    Program {
        names: &["touch"],
        options: Options {
            flags: "acm",
            values: "dtr",
            long: "no-create",
            long_values: "date reference",
            ..Options::NONE
        },
        reads: &["-r", "--reference"],
        ..CHANGE
    },
    Program {
        names: &["rm"],
        options: Options {
            flags: "dfiIrRv",
            long: "force recursive dir verbose one-file-system preserve-root",
            ..Options::NONE
        },
        ..CHANGE
    },
    Program { names: &["unlink"], ..CHANGE },
    Program {
        names: &["cp"],
        options: Options {
            flags: "adfiHLPnprRTuvx",
            values: "t",
            long: "archive force interactive no-clobber no-dereference dereference recursive \
                update verbose no-target-directory one-file-system parents",
            long_values: "target-directory",
            long_attached: "preserve reflink sparse",
            ..Options::NONE
        },
        operands: Operands::ReadThenWrite,
        writes: &["-t", "--target-directory"],
        deep: Deep::With(&["-r", "-R", "-a", "--recursive", "--archive"]),
        ..CHANGE
    },
    Program {
        names: &["mv"],
        options: Options {
            flags: "finTuv",
            values: "t",
            long: "force interactive no-clobber update verbose no-target-directory",
            long_values: "target-directory",
            ..Options::NONE
        },
        operands: Operands::Move,
        writes: &["-t", "--target-directory"],
        deep: Deep::Always,
        ..CHANGE
    },
    Program {
        names: &["tee"],
        options: Options { flags: "aip", long: "append ignore-interrupts", ..Options::NONE },
        ..CHANGE
    },
    Program {
        names: &["chmod"],
        options: Options {
            flags: "cfRv",
            long: "changes recursive verbose silent",
            ..Options::NONE
        },
        operands: Operands::TextThenWrite,
        ..CHANGE
    },
    Program {
        names: &["truncate"],
        options: Options {
            flags: "c",
            values: "s",
            long: "no-create",
            long_values: "size",
            ..Options::NONE
        },
        ..CHANGE
    },
    Program {
        // A hard link has the rights of its file, and a link that leads out makes later writes leave the folder:
        // both ends count as written.
        names: &["ln"],
        options: Options { flags: "fnrTv", long: "force relative verbose", ..Options::NONE },
        operands: Operands::Move,
        deep: Deep::Always,
        ..CHANGE
    },
];
