//! cargo: commands that build, test and look, and those that need the network.

use super::program::{Operands, Program, command};
use super::{Deeds, Kind};
use crate::shell::Word;
use crate::shell::options::Options;

const COMMON: Options = Options {
    flags: "qvrhe",
    values: "pjFZ",
    long: &[
        "workspace",
        "all",
        "all-targets",
        "all-features",
        "no-default-features",
        "release",
        "lib",
        "bins",
        "examples",
        "tests",
        "benches",
        "doc",
        "no-run",
        "no-fail-fast",
        "keep-going",
        "locked",
        "offline",
        "frozen",
        "quiet",
        "verbose",
        "future-incompat-report",
        "no-deps",
        "document-private-items",
        "check",
        "fix",
        "allow-dirty",
        "allow-staged",
        "broken-code",
        "help",
        "ignore-rust-version",
        "unit-graph",
        "timings",
        "invert",
        "duplicates",
    ],
    long_values: &[
        "package",
        "exclude",
        "bin",
        "example",
        "test",
        "bench",
        "features",
        "jobs",
        "profile",
        "target",
        "message-format",
        "color",
        "edges",
        "depth",
        "format-version",
        "prefix",
        "filter-platform",
    ],
    long_attached: &["timings"],
    ..Options::NONE
};

/// With folders that are named.
const BUILD: Options = Options {
    long_values: &[
        "package",
        "exclude",
        "bin",
        "example",
        "test",
        "bench",
        "features",
        "jobs",
        "profile",
        "target",
        "message-format",
        "color",
        "edges",
        "depth",
        "format-version",
        "prefix",
        "filter-platform",
        "manifest-path",
        "target-dir",
    ],
    ..COMMON
};

const ROW: Program = Program {
    kind: Kind::Build,
    options: BUILD,
    operands: Operands::Text,
    reads: &["--manifest-path"],
    writes: &["--target-dir"],
    ..Program::PLAIN
};

const COMMANDS: &[Program] = &[
    Program {
        names: &[
            "build", "b", "test", "t", "check", "c", "clippy", "fmt", "run", "r", "bench", "doc",
            "d", "nextest", "clean", "fix", "miri",
        ],
        ..ROW
    },
    Program {
        names: &["metadata", "tree", "locate-project", "pkgid", "verify-project", "read-manifest"],
        ..ROW
    },
    Program { names: &["version", "help"], kind: Kind::Look, ..ROW },
    Program {
        names: &[
            "add",
            "remove",
            "update",
            "fetch",
            "generate-lockfile",
            "search",
            "info",
            "vendor",
        ],
        kind: Kind::Reach,
        options: Options {
            flags: "qvwn",
            values: "pF",
            long: &[
                "dev",
                "build",
                "optional",
                "no-default-features",
                "default-features",
                "workspace",
                "dry-run",
                "quiet",
                "verbose",
                "locked",
                "offline",
                "recursive",
                "aggressive",
            ],
            long_values: &[
                "features",
                "package",
                "rename",
                "precise",
                "target",
                "manifest-path",
                "limit",
                "color",
            ],
            ..Options::NONE
        },
        ..ROW
    },
    Program {
        names: &["install"],
        kind: Kind::Reach,
        options: Options {
            flags: "qvf",
            values: "Fj",
            long: &["locked", "force", "quiet", "verbose", "all-features", "no-default-features"],
            long_values: &["version", "features", "bin", "jobs", "profile"],
            ..Options::NONE
        },
        ..ROW
    },
];

/// What a cargo command line does.
pub(super) fn cargo(arguments: &[Word]) -> Result<Deeds, String> {
    let mut rest = arguments;
    while let Some((Word::Plain(text), others)) = rest.split_first() {
        if !matches!(
            text.as_str(),
            "-q" | "--quiet" | "-v" | "--verbose" | "--locked" | "--offline" | "--frozen"
        ) {
            break;
        }
        rest = others;
    }
    match rest.split_first() {
        Some((Word::Plain(name), _))
            if matches!(name.as_str(), "--version" | "-V" | "--help" | "--list") =>
        {
            Ok(Deeds::of(Kind::Look))
        }
        Some((Word::Plain(name), others)) => {
            let Some(row) = command(COMMANDS, name) else {
                return Err(format!("{name} is not known"));
            };
            let others = match (name.as_str(), others.split_first()) {
                ("nextest", Some((Word::Plain(verb), others)))
                    if verb == "run" || verb == "list" =>
                {
                    others
                }
                ("nextest", _) => return Err("a command of nextest that is not known".to_owned()),
                _ => others,
            };
            row.judge(others).map_err(|why| format!("{name}: {why}"))
        }
        Some(_) => Err("which command it is depends on what happens".to_owned()),
        None => Ok(Deeds::of(Kind::Look)),
    }
}
