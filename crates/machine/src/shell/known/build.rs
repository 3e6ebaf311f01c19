//! Build tools, checkers and formatters.

use super::program::{Operands, Program, command};
use super::python::{BLACK, MYPY, PYTEST, RUFF};
use super::{Deeds, Kind};
use crate::shell::Word;
use crate::shell::options::Options;

const BUILD: Program = Program { kind: Kind::Build, operands: Operands::Text, ..Program::PLAIN };
const CHECK: Program = Program { kind: Kind::Build, operands: Operands::Read, ..Program::PLAIN };

pub(super) const PROGRAMS: &[Program] = &[
    PYTEST,
    MYPY,
    RUFF,
    BLACK,
    Program {
        names: &["make", "gmake"],
        options: Options {
            flags: "Bknqstiw",
            values: "Cf",
            attached: "jl",
            long: "always-make keep-going dry-run just-print silent quiet no-print-directory \
                question version",
            long_values: "directory file makefile",
            long_attached: "jobs",
            ..Options::NONE
        },
        reads: &["-C", "--directory", "-f", "--file", "--makefile"],
        writes: &["-C", "--directory"],
        ..BUILD
    },
    Program {
        names: &["just"],
        options: Options {
            flags: "lnqv",
            long: "list dry-run quiet verbose summary evaluate fmt check version",
            ..Options::NONE
        },
        ..BUILD
    },
    Program {
        names: &["cmake"],
        options: Options {
            values: "SBGj",
            long: "version",
            long_values: "build target config parallel",
            ..Options::NONE
        },
        reads: &["-S"],
        writes: &["-B", "--build"],
        operands: Operands::Read,
        ..BUILD
    },
    Program {
        names: &["ctest"],
        options: Options {
            flags: "VN",
            values: "jRE",
            long: "output-on-failure verbose",
            long_values: "test-dir parallel",
            ..Options::NONE
        },
        ..BUILD
    },
    Program {
        names: &["ninja"],
        options: Options { flags: "vn", values: "Cjkf", ..Options::NONE },
        reads: &["-C", "-f"],
        writes: &["-C"],
        ..BUILD
    },
    Program {
        names: &["meson"],
        options: Options { values: "C", ..Options::NONE },
        operands: Operands::Verb(&["compile", "test", "setup", "configure"]),
        reads: &["-C"],
        writes: &["-C"],
        ..BUILD
    },
    Program {
        names: &["gradle", "mvn"],
        options: Options {
            flags: "qeoBUX",
            long: "quiet offline info stacktrace no-daemon continue batch-mode version",
            ..Options::NONE
        },
        ..BUILD
    },
    Program {
        names: &["dotnet"],
        options: Options {
            values: "cfrv",
            long: "no-restore no-build nologo version",
            long_values: "configuration framework filter verbosity",
            ..Options::NONE
        },
        operands: Operands::Verb(&[
            "build", "test", "run", "clean", "format", "restore", "publish",
        ]),
        ..BUILD
    },
    Program {
        names: &["tsc"],
        options: Options {
            flags: "bw",
            values: "p",
            long: "noEmit build watch strict pretty version skipLibCheck",
            long_values: "project target module",
            ..Options::NONE
        },
        reads: &["-p", "--project"],
        ..CHECK
    },
    Program {
        names: &["eslint"],
        options: Options {
            long: "fix quiet cache version",
            long_values: "ext format max-warnings",
            ..Options::NONE
        },
        operands: Operands::WriteWith { verbs: &[], when: &["--fix"] },
        ..CHECK
    },
    Program {
        names: &["prettier"],
        options: Options {
            flags: "wcl",
            long: "write check list-different version",
            ..Options::NONE
        },
        operands: Operands::Write,
        ..CHECK
    },
    Program {
        names: &["jest", "vitest", "mocha"],
        options: Options {
            flags: "tiuv",
            long: "coverage verbose run watch ci bail silent version",
            long_values: "testNamePattern grep reporter",
            ..Options::NONE
        },
        ..CHECK
    },
    Program { names: &["tox", "nox"], options: Options { values: "e", ..Options::NONE }, ..BUILD },
    Program {
        names: &["rustfmt"],
        options: Options {
            flags: "lqv",
            long: "check quiet verbose version",
            long_values: "edition emit color",
            ..Options::NONE
        },
        operands: Operands::Write,
        ..CHECK
    },
    Program {
        names: &["gofmt", "goimports"],
        options: Options { flags: "dlsw", ..Options::NONE },
        operands: Operands::Write,
        ..CHECK
    },
    Program {
        names: &["shellcheck"],
        options: Options { flags: "xa", values: "sef", ..Options::NONE },
        kind: Kind::Look,
        ..CHECK
    },
];

/// What a rustc command line does that only says something. `--print KIND=PATH` writes that file.
pub(super) fn rustc(arguments: &[Word]) -> Result<Deeds, String> {
    let options =
        Options { flags: "vV", long: "version", long_values: "explain print", ..Options::NONE };
    let parsed = options.parse(arguments)?;
    if let Some(word) = parsed.operands.first() {
        return Err(format!("{} is not expected", word.text()));
    }
    let mut deeds = Deeds::of(Kind::Look);
    for value in parsed.values(&["--print"]) {
        let Some(text) = value.plain() else {
            return Err("what it prints is not certain".to_owned());
        };
        if let Some((_, path)) = text.split_once('=') {
            deeds.kind = Kind::Change;
            deeds.writes.push(Word::Plain(path.to_owned()));
        }
    }
    Ok(deeds)
}

/// go takes its options with one dash.
const GO: Options = Options {
    long: "v race short cover x n a json failfast benchmem trimpath m u",
    long_values: "run count timeout bench tags p parallel cpu skip o coverprofile f mod benchtime",
    ..Options::NONE
};

/// Of the commands that look: `-mod=mod` would write go.mod, and `-u` ask the network.
const GO_LOOK: Options =
    Options { long: "v json m n x a short all e", long_values: "f tags", ..Options::NONE };

const GO_COMMANDS: &[Program] = &[
    Program {
        names: &["build", "test", "vet", "run", "fmt", "generate"],
        options: GO,
        operands: Operands::Read,
        writes: &["--o", "--coverprofile"],
        ..BUILD
    },
    Program {
        names: &["list", "version", "doc", "env"],
        kind: Kind::Look,
        options: GO_LOOK,
        ..BUILD
    },
    Program { names: &["get", "install"], kind: Kind::Reach, options: GO, ..BUILD },
];

/// What a go command line does.
pub(super) fn go(arguments: &[Word]) -> Result<Deeds, String> {
    let Some((Word::Plain(name), rest)) = arguments.split_first() else {
        return Err("no command".to_owned());
    };
    if name == "mod" {
        return match rest.first().and_then(Word::plain) {
            Some("tidy" | "download" | "vendor") => Ok(Deeds::of(Kind::Reach)),
            Some("graph" | "verify" | "why") => Ok(Deeds::of(Kind::Look)),
            _ => Err("a command of go mod that is not known".to_owned()),
        };
    }
    let Some(row) = command(GO_COMMANDS, name) else { return Err(format!("{name} is not known")) };
    if name == "env"
        && rest.iter().any(|word| word.text().starts_with("-w") || word.text().starts_with("-u"))
    {
        return Err("it changes settings".to_owned());
    }
    let twice: Vec<Word> = rest.iter().map(double_dash).collect();
    row.judge(&twice)
}

/// `-run` as `--run`, which go takes for the same.
fn double_dash(word: &Word) -> Word {
    match word {
        Word::Plain(text) if text.starts_with('-') && !text.starts_with("--") && text.len() > 1 => {
            Word::Plain(format!("-{text}"))
        }
        other => other.clone(),
    }
}
