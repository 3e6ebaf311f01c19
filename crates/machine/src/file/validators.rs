//! A project's own checks: `.drivetrain/validators.toml` as written, or what the files of a folder suggest.

use std::collections::BTreeMap;

use super::check::{Cursor, Problems};
use super::shape::validators as shape;
use super::source::Source;
use super::{Format, SourceError};
use crate::time::Span;

/// Where the file is, below the folder that is checked.
pub const FILE: &str = ".drivetrain/validators.toml";

/// How long a check may take if nobody says.
const DEFAULT_TIMEOUT: Span = Span::seconds(600);

/// The files of a folder that [`detect`] looks at.
pub const MARKERS: [&str; 9] = [
    "CMakeLists.txt",
    "Cargo.toml",
    "Makefile",
    "conftest.py",
    "go.mod",
    "pyproject.toml",
    "pytest.ini",
    "setup.cfg",
    "tsconfig.json",
];

/// Builds outside the workspace: a check leaves nothing behind.
const CMAKE: &str = "build=$(mktemp -d) && cmake -S . -B \"$build\" && cmake --build \"$build\"; \
                     code=$?; rm -rf \"$build\"; exit $code";

/// One check of a project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// What it is called.
    pub name: String,
    /// The command line, run by sh in the folder; it passes if its exit code is 0.
    pub command: String,
    /// How long it may take.
    pub timeout: Span,
}

/// Reads the file.
pub fn parse(text: &str, file: &str) -> Result<Vec<Check>, Vec<SourceError>> {
    let source = Source::read(file, text, Format::of(file))?;
    let mut problems = Problems::default();
    let top = Cursor::top(&source.value);
    top.keys(&mut problems, &shape::TOP);
    let mut checks: Vec<Check> = Vec::new();
    if let Some(list) = top.need(&mut problems, "check") {
        for entry in list.items(&mut problems) {
            let Some(check) = read_check(&entry, &mut problems) else { continue };
            if checks.iter().any(|other| other.name == check.name) {
                let message = format!("there is another check with the name {:?}", check.name);
                problems.push(
                    &entry.get("name").unwrap_or(entry),
                    message,
                    Some("give each a name of its own".to_owned()),
                );
            }
            checks.push(check);
        }
        if checks.is_empty() && problems.is_empty() {
            problems.push(
                &list,
                "there is no check in the list",
                Some("add [[check]] with name and command".to_owned()),
            );
        }
    }
    if problems.is_empty() { Ok(checks) } else { Err(source.errors(problems)) }
}

fn read_check(at: &Cursor<'_>, problems: &mut Problems) -> Option<Check> {
    if !at.keys(problems, &shape::CHECK) {
        return None;
    }
    let name = at.need(problems, "name").and_then(|name| name.name(problems)).map(str::to_owned);
    let command = at.need(problems, "command").and_then(|given| {
        let command = given.text(problems)?;
        if command.trim().is_empty() {
            problems.push(
                &given,
                "the command is empty",
                Some("write the command line, such as \"make test\"".to_owned()),
            );
        }
        Some(command.to_owned())
    });
    let timeout = match at.get("timeout") {
        None => Some(DEFAULT_TIMEOUT),
        Some(given) => {
            let timeout = given.span(problems);
            if timeout == Some(Span(0)) {
                problems.push(
                    &given,
                    "a timeout of nothing would stop every check",
                    Some("write a longer one, such as \"10m\", or leave it out".to_owned()),
                );
            }
            timeout
        }
    };
    Some(Check { name: name?, command: command?, timeout: timeout? })
}

/// The checks that the [`MARKERS`] of a folder suggest; each file that exists is given with its text.
///
/// Builds that say nothing of a language (make, CMake) count only where nothing else is known.
pub fn detect(files: &BTreeMap<&str, String>) -> Vec<Check> {
    let holds = |file: &str, mark: &str| files.get(file).is_some_and(|text| text.contains(mark));
    let check = |name: &str, command: &str| Check {
        name: name.to_owned(),
        command: command.to_owned(),
        timeout: DEFAULT_TIMEOUT,
    };
    let mut checks = Vec::new();
    if files.contains_key("Cargo.toml") {
        checks.push(check("cargo", "cargo check --quiet --all-targets"));
    }
    if files.contains_key("go.mod") {
        checks.push(check("go", "go vet ./..."));
    }
    let pytest = files.contains_key("pytest.ini")
        || files.contains_key("conftest.py")
        || holds("pyproject.toml", "pytest")
        || holds("setup.cfg", "[tool:pytest]");
    if pytest {
        checks.push(check("pytest", "python3 -m pytest -q"));
    }
    if files.contains_key("tsconfig.json") {
        checks.push(check("tsc", "npx --no-install tsc --noEmit --pretty false"));
    }
    if checks.is_empty() {
        let target = |name: &str| {
            let rule = |line: &str| {
                line.strip_prefix(name).is_some_and(|rest| {
                    rest.trim_start().starts_with(':') && !rest.trim_start().starts_with(":=")
                })
            };
            files.get("Makefile").is_some_and(|text| text.lines().any(rule))
        };
        match ["check", "test"].into_iter().find(|name| target(name)) {
            Some(name) => checks.push(check("make", &format!("make {name}"))),
            None if files.contains_key("CMakeLists.txt") => checks.push(check("cmake", CMAKE)),
            None => {}
        }
    }
    checks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        let errors = parse(text, "validators.toml").unwrap_err();
        errors.iter().map(SourceError::to_string).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn a_file_gives_its_checks_in_order() {
        let text = "[[check]]\nname = \"lint\"\ncommand = \"make lint\"\ntimeout = \"90s\"\n\
                    [[check]]\nname = \"docs\"\ncommand = \"./docs.sh --all\"\n";
        let checks = parse(text, "validators.toml").unwrap();
        let shown: Vec<String> =
            checks.iter().map(|c| format!("{} | {} | {}", c.name, c.command, c.timeout)).collect();
        assert_eq!(shown, ["lint | make lint | 1m30s", "docs | ./docs.sh --all | 10m"]);
    }

    #[test]
    fn what_is_wrong_has_its_place_and_a_hint() {
        let error = refused("[[check]]\nname = \"a\"\ncomand = \"x\"\n");
        assert!(error.contains("unknown key \"comand\""), "{error}");
        assert!(error.contains("validators.toml:3:1") && error.contains("did you mean"), "{error}");
        assert!(error.contains("the key \"command\" is missing"), "{error}");
        let twice = "[[check]]\nname = \"a\"\ncommand = \"x\"\n".repeat(2);
        assert!(refused(&twice).contains("another check with the name \"a\""));
        assert!(refused("[[check]]\nname = \"a/b\"\ncommand = \"x\"\n").contains("is not a name"));
        assert!(refused("[[check]]\nname = \"a\"\ncommand = \" \"\n").contains("is empty"));
        let nothing = "[[check]]\nname = \"a\"\ncommand = \"x\"\ntimeout = \"0s\"\n";
        assert!(refused(nothing).contains("timeout of nothing"), "{}", refused(nothing));
        assert!(refused("check = []\n").contains("no check in the list"));
        assert!(refused("name = \"a\"\n").contains("unknown key"));
    }

    #[test]
    fn files_suggest_checks() {
        for (files, expected) in [
            (&[("Cargo.toml", ""), ("Makefile", "check:\n\ttrue\n")][..], "cargo"),
            (&[("pyproject.toml", "[tool.pytest.ini_options]\n")], "pytest"),
            (&[("pyproject.toml", "[project]\n")], ""),
            (&[("setup.cfg", "[tool:pytest]\n")], "pytest"),
            (&[("pytest.ini", ""), ("tsconfig.json", "{}"), ("go.mod", "")], "go pytest tsc"),
            (&[("Makefile", "test :\n\ttrue\n")], "make"),
            (&[("Makefile", "check := 1\ntests:\n")], ""),
            (&[("Makefile", "all:\n"), ("CMakeLists.txt", "")], "cmake"),
            (&[], ""),
        ] {
            let files: BTreeMap<&str, String> =
                files.iter().map(|(name, text)| (*name, (*text).to_owned())).collect();
            assert!(files.keys().all(|name| MARKERS.contains(name)));
            let names: Vec<String> = detect(&files).into_iter().map(|check| check.name).collect();
            assert_eq!(names.join(" "), expected, "{files:?}");
        }
        let make = detect(&BTreeMap::from([("Makefile", "test:\ncheck:\n".to_owned())]));
        assert_eq!(make[0].command, "make check");
    }
}
