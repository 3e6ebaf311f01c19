//! npm, pnpm, yarn and npx: the project's scripts, and what needs the network.

use super::{Deeds, Kind};
use crate::shell::Word;
use crate::shell::options::Options;

const SCRIPT: Options = Options {
    flags: "s",
    values: "w",
    long: &[
        "silent",
        "if-present",
        "workspaces",
        "include-workspace-root",
        "recursive",
        "parallel",
    ],
    long_values: &["workspace", "loglevel", "filter"],
    ..Options::NONE
};

const INSTALL: Options = Options {
    flags: "DEPOgSf",
    values: "w",
    long: &[
        "save-dev",
        "save-exact",
        "save",
        "save-prod",
        "save-optional",
        "no-save",
        "ignore-scripts",
        "no-audit",
        "no-fund",
        "legacy-peer-deps",
        "force",
        "production",
        "dev",
        "exact",
        "frozen-lockfile",
        "prefer-offline",
        "offline",
        "silent",
        "immutable",
        "workspaces",
    ],
    long_values: &["workspace", "omit", "include", "loglevel"],
    long_attached: &["omit", "include", "loglevel"],
    ..Options::NONE
};

/// Tools that the project has as its own, run without asking the network.
const LOCAL_TOOLS: &[&str] = &[
    "tsc",
    "eslint",
    "prettier",
    "jest",
    "vitest",
    "mocha",
    "vite",
    "webpack",
    "rollup",
    "next",
    "playwright",
    "biome",
    "tsx",
    "ts-node",
];

/// What such a command line does.
pub(super) fn node_package(name: &str, arguments: &[Word]) -> Result<Deeds, String> {
    let Some((first, rest)) = arguments.split_first() else {
        return Ok(Deeds::of(if name == "yarn" { Kind::Reach } else { Kind::Look }));
    };
    let Some(command) = first.plain() else {
        return Err("which command it is depends on what happens".to_owned());
    };
    if name == "npx" {
        return npx(arguments);
    }
    match command {
        "--version" | "-v" | "--help" => Ok(Deeds::of(Kind::Look)),
        "ls" | "list" | "ll" | "why" | "explain" => {
            let options = Options {
                flags: "ag",
                long: &["all", "json", "long", "parseable", "prod", "dev"],
                long_values: &["depth"],
                ..SCRIPT
            };
            options.parse(rest).map(|_| Deeds::of(Kind::Look))
        }
        "test" | "t" | "tst" | "start" | "build" | "lint" | "run" | "run-script" => {
            SCRIPT.parse(rest).map(|_| Deeds::of(Kind::Build))
        }
        "exec" if name != "npm" => Err("it may run any program".to_owned()),
        "install" | "i" | "ci" | "add" | "update" | "up" | "upgrade" | "remove" | "uninstall"
        | "rm" | "audit" | "outdated" | "view" | "info" | "dedupe" => {
            INSTALL.parse(rest).map(|_| Deeds::of(Kind::Reach))
        }
        _ => Err(format!("{command} is not known")),
    }
}

/// `npx --no-install tool`, or a tool that every project has as its own.
fn npx(arguments: &[Word]) -> Result<Deeds, String> {
    let mut rest = arguments;
    let mut local = false;
    while let Some((Word::Plain(text), others)) = rest.split_first() {
        if !matches!(text.as_str(), "--no-install" | "--no" | "--offline") {
            break;
        }
        local = true;
        rest = others;
    }
    match rest.first().and_then(Word::plain) {
        Some(tool) if tool.starts_with('-') => Err(format!("{tool} is not known")),
        Some(tool) if LOCAL_TOOLS.contains(&tool) => Ok(Deeds::of(Kind::Build)),
        Some(tool) if local && !tool.contains(['/', '@', ':']) => Ok(Deeds::of(Kind::Build)),
        _ => Err("it may fetch a program".to_owned()),
    }
}

/// `node --test`: the project's tests.
pub(super) fn node_test(arguments: &[Word]) -> Result<Deeds, String> {
    let options = Options {
        long: &["test", "experimental-test-coverage", "test-only", "no-warnings"],
        long_values: &["test-reporter", "test-name-pattern", "test-concurrency"],
        ..Options::NONE
    };
    let parsed = options.parse(arguments)?;
    Ok(Deeds { reads: parsed.operands, ..Deeds::of(Kind::Build) })
}
