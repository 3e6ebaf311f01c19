//! `--check auto`: which commands check a project, by the files at its top. What is found becomes ordinary criteria, so
//! that nothing the worker writes later changes them.
//!
//! Where the command only names a recipe that stands in the project (a script of package.json, a target of a Makefile),
//! the recipe is pinned by a criterion of its own: `npm test` proves nothing once the script says `true`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::task::Criterion;

/// The files whose content is looked at.
pub const READ: [&str; 11] = [
    "Cargo.toml",
    "pyproject.toml",
    "setup.cfg",
    "tox.ini",
    "requirements.txt",
    "requirements-dev.txt",
    "package.json",
    "CMakeLists.txt",
    "Makefile",
    "makefile",
    "GNUmakefile",
];

/// The top of a project: every name there, and what the files of [`READ`] say.
#[derive(Debug, Clone, Default)]
pub struct Project {
    /// The names at the top, folders too.
    pub names: BTreeSet<String>,
    /// The content of those that are read.
    pub texts: BTreeMap<String, String>,
}

/// One way to check a project.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// The command.
    pub command: String,
    /// Which files say so, for a person.
    pub because: String,
    /// What keeps the recipe behind the command as it was.
    pub pinned: Option<Criterion>,
}

impl Found {
    /// The criteria that it stands for.
    pub fn criteria(&self) -> Vec<Criterion> {
        let mut criteria = vec![Criterion::shell(&self.command)];
        criteria.extend(self.pinned.clone());
        criteria
    }
}

/// What is looked for, for a person who has none of it.
pub const LOOKED_FOR: &str = "Cargo.toml; pytest in pyproject.toml, setup.cfg, tox.ini, requirements.txt, pytest.ini or \
     conftest.py, or a folder of tests beside pyproject.toml or setup.py; a test script in package.json; go.mod; \
     CMakeLists.txt with tests; a target test or check in a Makefile";

/// Every way to check the project that its top tells of.
pub fn detect(project: &Project) -> Vec<Found> {
    let ways = [cargo, python, node, go, cmake, make];
    ways.iter().filter_map(|way| way(project)).collect()
}

impl Project {
    fn has(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    fn text(&self, name: &str) -> &str {
        self.texts.get(name).map(String::as_str).unwrap_or_default()
    }

    /// The first of these names that is there.
    fn first(&self, names: &[&'static str]) -> Option<&'static str> {
        names.iter().copied().find(|name| self.has(name))
    }
}

fn found(command: &str, because: impl Into<String>) -> Option<Found> {
    Some(Found { command: command.to_owned(), because: because.into(), pinned: None })
}

/// Whether a TOML or INI text has a table of that name, or one below it.
fn has_table(text: &str, table: &str) -> bool {
    text.lines().any(|line| {
        let line = line.trim().trim_start_matches('[');
        let rest = line.strip_prefix(table);
        rest.is_some_and(|rest| rest.starts_with([']', '.'])) && text.contains(&format!("[{table}"))
    })
}

fn cargo(project: &Project) -> Option<Found> {
    if !project.has("Cargo.toml") {
        return None;
    }
    match has_table(project.text("Cargo.toml"), "workspace") {
        true => found("cargo test --workspace", "Cargo.toml is a workspace"),
        false => found("cargo test", "Cargo.toml"),
    }
}

fn python(project: &Project) -> Option<Found> {
    let sign = project.first(&["pytest.ini", "conftest.py"]).or_else(|| {
        let told =
            ["pyproject.toml", "setup.cfg", "tox.ini", "requirements.txt", "requirements-dev.txt"];
        told.into_iter().find(|name| project.text(name).contains("pytest"))
    });
    if let Some(sign) = sign {
        let because = format!("pytest, by {sign}");
        return match project.first(&["uv.lock", "poetry.lock"]) {
            Some("uv.lock") => found("uv run pytest", format!("{because}, with uv.lock")),
            Some(_) => found("poetry run pytest", format!("{because}, with poetry.lock")),
            None => found("python3 -m pytest", because),
        };
    }
    let package = project.first(&["pyproject.toml", "setup.py", "setup.cfg"])?;
    let tests = project.first(&["tests", "test"])?;
    found(
        &format!("python3 -m unittest discover -s {tests}"),
        format!("{package} and a folder {tests}, without pytest"),
    )
}

fn node(project: &Project) -> Option<Found> {
    let text = project.text("package.json");
    let package: Value = serde_json::from_str(text).ok()?;
    let script = package["scripts"]["test"].as_str()?;
    if !is_real(script) {
        return None;
    }
    let named = package["packageManager"].as_str().and_then(|name| name.split('@').next());
    let lock = project.first(&[
        "pnpm-lock.yaml",
        "yarn.lock",
        "bun.lock",
        "bun.lockb",
        "package-lock.json",
        "npm-shrinkwrap.json",
    ]);
    let manager = match (named, lock) {
        (Some(name @ ("pnpm" | "yarn" | "bun" | "npm")), _) => name,
        (_, Some("pnpm-lock.yaml")) => "pnpm",
        (_, Some("yarn.lock")) => "yarn",
        (_, Some("bun.lock" | "bun.lockb")) => "bun",
        (_, _) => "npm",
    };
    // `bun test` is a test runner of its own and does not look at the script.
    let command =
        if manager == "bun" { "bun run test".to_owned() } else { format!("{manager} test") };
    let because = match lock.filter(|_| named.is_none()) {
        Some(lock) => format!("the test script of package.json, with {lock}"),
        None => "the test script of package.json".to_owned(),
    };
    let quoted = Value::from(script).to_string();
    let pinned = text.contains(&quoted).then(|| Criterion::File {
        path: "package.json".to_owned(),
        pattern: Some(format!("\"test\"\\s*:\\s*{}", escaped(&quoted))),
        forbidden: false,
    });
    Some(Found { command, because, pinned })
}

/// What `npm init` writes, and what does nothing, are no tests.
fn is_real(script: &str) -> bool {
    let script = script.trim();
    let nothing = ["", "true", ":", "exit 0"];
    !nothing.contains(&script) && !script.contains("no test specified")
}

fn go(project: &Project) -> Option<Found> {
    project.has("go.mod").then_some(())?;
    found("go test ./...", "go.mod")
}

fn cmake(project: &Project) -> Option<Found> {
    let text = project.text("CMakeLists.txt").to_lowercase();
    let tested = ["enable_testing", "include(ctest)", "add_test", "gtest_discover_tests"];
    tested.iter().any(|word| text.contains(word)).then_some(())?;
    let command = "build=$(mktemp -d) && cmake -S . -B \"$build\" && cmake --build \"$build\" && \
         ctest --test-dir \"$build\" --output-on-failure --no-tests=error";
    found(command, "CMakeLists.txt has tests")
}

fn make(project: &Project) -> Option<Found> {
    // The order in which make itself looks.
    let file = project.first(&["GNUmakefile", "makefile", "Makefile"])?;
    let text = project.text(file);
    let (target, rule) =
        ["test", "check"].into_iter().find_map(|target| Some((target, rule(text, target)?)))?;
    let pinned = Criterion::File {
        path: file.to_owned(),
        pattern: Some(format!("^{}$", escaped(&rule))),
        forbidden: false,
    };
    Some(Found {
        command: format!("make {target}"),
        because: format!("the target {target} of {file}"),
        pinned: Some(pinned),
    })
}

/// The line of a target and its recipe, as they are written.
fn rule(makefile: &str, target: &str) -> Option<String> {
    let mut lines = makefile.lines();
    let head = lines.by_ref().find(|line| {
        let Some((targets, rest)) = line.split_once(':') else { return false };
        !line.starts_with(['\t', ' ', '#', '.'])
            && !rest.starts_with('=')
            && targets.split_whitespace().any(|name| name == target)
    })?;
    let mut rule = vec![head];
    rule.extend(lines.take_while(|line| line.starts_with('\t')));
    Some(rule.join("\n"))
}

/// A text as a regular expression that means exactly it.
fn escaped(text: &str) -> String {
    let mut pattern = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_ascii_punctuation() {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern
}

#[cfg(test)]
mod tests {
    use super::*;

    fn project(files: &[(&str, &str)]) -> Project {
        let texts: BTreeMap<String, String> =
            files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
        Project { names: texts.keys().cloned().collect(), texts }
    }

    fn commands(files: &[(&str, &str)]) -> Vec<String> {
        detect(&project(files)).into_iter().map(|found| found.command).collect()
    }

    #[test]
    fn cargo_is_found_and_a_workspace_is_tested_whole() {
        assert_eq!(commands(&[("Cargo.toml", "[package]\nname = \"a\"\n")]), ["cargo test"]);
        let workspace = "[workspace]\nmembers = [\"a\"]\n";
        assert_eq!(commands(&[("Cargo.toml", workspace)]), ["cargo test --workspace"]);
        let below =
            "[package]\nversion.workspace = true\n[workspace.package]\nedition = \"2024\"\n";
        assert_eq!(commands(&[("Cargo.toml", below)]), ["cargo test --workspace"]);
        let member = "[package]\nversion.workspace = true\n";
        assert_eq!(commands(&[("Cargo.toml", member)]), ["cargo test"]);
    }

    #[test]
    fn python_is_tested_by_pytest_where_something_says_so() {
        let pytest = ["python3 -m pytest"];
        assert_eq!(commands(&[("pyproject.toml", "[tool.pytest.ini_options]\n")]), pytest);
        assert_eq!(commands(&[("setup.cfg", "[tool:pytest]\n")]), pytest);
        assert_eq!(commands(&[("tox.ini", "[pytest]\n")]), pytest);
        assert_eq!(commands(&[("conftest.py", "")]), pytest);
        assert_eq!(commands(&[("requirements-dev.txt", "pytest==8\n")]), pytest);
        let locked = |lock| commands(&[("pyproject.toml", "dev = [\"pytest\"]"), (lock, "")]);
        assert_eq!(locked("uv.lock"), ["uv run pytest"]);
        assert_eq!(locked("poetry.lock"), ["poetry run pytest"]);
        assert_eq!(
            commands(&[("setup.py", ""), ("tests", "")]),
            ["python3 -m unittest discover -s tests"]
        );
        assert!(commands(&[("setup.py", "")]).is_empty());
        assert!(commands(&[("tests", "")]).is_empty());
    }

    #[test]
    fn a_script_counts_only_if_it_is_real_and_is_run_by_its_own_manager() {
        let with = |script: &str, more: &[(&str, &str)]| {
            let package = serde_json::json!({ "scripts": { "test": script } }).to_string();
            let mut files = vec![("package.json", package.as_str())];
            files.extend_from_slice(more);
            commands(&files)
        };
        assert_eq!(with("jest", &[]), ["npm test"]);
        assert_eq!(with("jest", &[("package-lock.json", "")]), ["npm test"]);
        assert_eq!(with("jest", &[("pnpm-lock.yaml", "")]), ["pnpm test"]);
        assert_eq!(with("jest", &[("yarn.lock", "")]), ["yarn test"]);
        assert_eq!(with("jest", &[("bun.lockb", "")]), ["bun run test"]);
        for nothing in ["", " true ", ":", "exit 0", "echo \"Error: no test specified\" && exit 1"]
        {
            assert!(with(nothing, &[]).is_empty(), "{nothing}");
        }
        assert!(commands(&[("package.json", "{ \"scripts\": {} }")]).is_empty());
        assert!(commands(&[("package.json", "not json")]).is_empty());
        let named = r#"{ "packageManager": "yarn@4.1.0", "scripts": { "test": "t" } }"#;
        assert_eq!(commands(&[("package.json", named), ("pnpm-lock.yaml", "")]), ["yarn test"]);
    }

    #[test]
    fn the_recipe_behind_a_command_is_pinned() {
        let package = "{\n  \"scripts\": { \"test\": \"jest --ci && echo \\\"ok\\\"\" }\n}\n";
        let found = detect(&project(&[("package.json", package)])).remove(0);
        let [
            Criterion::Shell { .. },
            Criterion::File { path, pattern: Some(pattern), forbidden: false },
        ] = &found.criteria()[..]
        else {
            panic!("{found:?}")
        };
        assert_eq!(path, "package.json");
        assert_eq!(
            pattern,
            "\"test\"\\s*:\\s*\\\"jest \\-\\-ci \\&\\& echo \\\\\\\"ok\\\\\\\"\\\""
        );
        let makefile = "all:\n\ttrue\n\ntest: all\n\tpytest -q\n\t./more\n\nother:\n\tfalse\n";
        let found = detect(&project(&[("Makefile", makefile)])).remove(0);
        assert_eq!(
            (found.command.as_str(), found.because.as_str()),
            ("make test", "the target test of Makefile")
        );
        let Some(Criterion::File { pattern: Some(pattern), .. }) = &found.pinned else { panic!() };
        assert_eq!(pattern, "^test\\: all\n\tpytest \\-q\n\t\\.\\/more$");
    }

    #[test]
    fn make_go_and_cmake_are_found() {
        assert_eq!(commands(&[("Makefile", "check:\n\t./t\n")]), ["make check"]);
        assert_eq!(commands(&[("Makefile", "check:\n\t./t\ntest:\n\t./t\n")]), ["make test"]);
        assert_eq!(commands(&[("Makefile", "build test: all\n\t./t\n")]), ["make test"]);
        assert!(commands(&[("Makefile", "test := 1\n.PHONY: test\n\ttest: x\n")]).is_empty());
        assert_eq!(commands(&[("go.mod", "")]), ["go test ./..."]);
        assert!(commands(&[("CMakeLists.txt", "project(a)\n")]).is_empty());
        let cmake = commands(&[("CMakeLists.txt", "project(a)\nenable_testing()\n")]);
        assert!(cmake[0].contains("ctest --test-dir"), "{cmake:?}");
    }

    #[test]
    fn several_ways_are_all_taken_and_none_is_none() {
        let files = [("Cargo.toml", "[package]"), ("go.mod", ""), ("Makefile", "test:\n\tx\n")];
        assert_eq!(commands(&files), ["cargo test", "go test ./...", "make test"]);
        assert!(commands(&[("README.md", "test:\n")]).is_empty());
    }
}
