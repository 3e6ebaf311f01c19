//! python, pytest and the installers of packages.

use super::program::{Deep, Operands, Program, command};
use super::{Deeds, Kind, interpreted};
use crate::shell::Word;
use crate::shell::options::Options;

/// pytest, by any of its names.
pub(super) const PYTEST: Program = Program {
    names: &["pytest", "py.test"],
    kind: Kind::Build,
    options: Options {
        flags: "xvqslh",
        values: "kmnWr",
        long: "verbose quiet lf last-failed ff failed-first nf sw stepwise collect-only co no-header no-summary disable-warnings showlocals exitfirst strict-markers setup-show fixtures markers version help no-cov cache-clear full-trace",
        long_values: "maxfail durations tb timeout numprocesses ignore deselect color capture cov-report dist",
        long_attached: "cov tb",
        ..Options::NONE
    },
    operands: Operands::Read,
    reads: &[],
    writes: &[],
    deep: Deep::Never,
};

const CHECKER: Program = Program { kind: Kind::Build, operands: Operands::Read, ..Program::PLAIN };

/// Modules that `python -m` may run.
const MODULES: &[Program] = &[
    PYTEST,
    Program {
        names: &["unittest"],
        options: Options {
            flags: "vqfbc",
            values: "kspt",
            long: "verbose quiet failfast buffer locals",
            long_values: "start-directory pattern top-level-directory",
            ..Options::NONE
        },
        operands: Operands::Text,
        ..CHECKER
    },
    MYPY,
    RUFF,
    BLACK,
    Program {
        names: &["json.tool"],
        kind: Kind::Look,
        options: Options {
            long: "sort-keys json-lines compact no-ensure-ascii",
            long_values: "indent",
            ..Options::NONE
        },
        operands: Operands::ReadOne,
        ..CHECKER
    },
    Program {
        names: &["compileall", "py_compile"],
        options: Options { flags: "qf", ..Options::NONE },
        operands: Operands::Write,
        ..CHECKER
    },
];

pub(super) const MYPY: Program = Program {
    names: &["mypy", "pyright", "flake8", "pylint"],
    options: Options {
        flags: "v",
        long: "strict pretty show-error-codes ignore-missing-imports version",
        long_values: "max-line-length python-version output-format",
        ..Options::NONE
    },
    ..CHECKER
};

pub(super) const RUFF: Program = Program {
    names: &["ruff"],
    options: Options {
        flags: "qvn",
        long: "fix check diff no-cache quiet verbose statistics unsafe-fixes version no-fix \
            show-fixes",
        long_values: "select ignore extend-select output-format line-length target-version exclude",
        ..Options::NONE
    },
    operands: Operands::WriteWith {
        verbs: &["check", "format"],
        when: &["--fix", "--unsafe-fixes", "format"],
    },
    ..CHECKER
};

pub(super) const BLACK: Program = Program {
    names: &["black", "isort"],
    options: Options {
        flags: "qv",
        values: "l",
        long: "check diff check-only quiet verbose version color fast",
        long_values: "line-length target-version profile exclude",
        ..Options::NONE
    },
    operands: Operands::Write,
    ..CHECKER
};

/// What a python command line does.
pub(super) fn python(arguments: &[Word]) -> Result<Deeds, String> {
    let at = arguments.iter().position(|word| word.plain() == Some("-m"));
    let before_module = at.map_or(&[][..], |at| &arguments[..at]);
    let plain_flags = before_module.iter().all(|word| {
        word.plain().is_some_and(|text| matches!(text, "-B" | "-u" | "-I" | "-s" | "-q"))
    });
    match at {
        Some(at) if plain_flags => {
            let Some(module) = arguments.get(at + 1).and_then(Word::plain) else {
                return Err("which module it runs is not certain".to_owned());
            };
            if module == "pip" {
                return installer(&arguments[at + 2..]);
            }
            match command(MODULES, module) {
                Some(row) => {
                    row.judge(&arguments[at + 2..]).map_err(|why| format!("{module}: {why}"))
                }
                None => Err(format!("{module} is not known")),
            }
        }
        _ => interpreted("python3", arguments),
    }
}

/// What pip or uv does.
pub(super) fn installer(arguments: &[Word]) -> Result<Deeds, String> {
    let Some((first, rest)) = arguments.split_first() else { return Ok(Deeds::of(Kind::Look)) };
    let options = Options {
        flags: "qUe",
        values: "rc",
        long: "quiet upgrade user no-deps pre no-cache-dir outdated no-input",
        long_values: "requirement constraint format",
        ..Options::NONE
    };
    match first.plain() {
        Some("--version" | "-V") => Ok(Deeds::of(Kind::Look)),
        Some("list" | "show" | "freeze" | "check") => {
            options.parse(rest).map(|_| Deeds::of(Kind::Look))
        }
        Some("install" | "download" | "add" | "sync" | "lock") => {
            let parsed = options.parse(rest)?;
            Ok(Deeds {
                reads: parsed.values(&["-r", "--requirement", "-c", "--constraint"]),
                ..Deeds::of(Kind::Reach)
            })
        }
        _ => Err("a command that is not known".to_owned()),
    }
}
