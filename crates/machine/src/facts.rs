//! What is known about a project before a workflow is made: derived from names, the same for the same names.
//!
//! Facts are frozen in a workflow's configuration, under `facts`, where scripts and expressions see them; what a project
//! becomes later changes nothing about a task that has begun.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// As many names are told; the rest is only counted.
pub const MAX_FILES: usize = 2_000;

/// The names of all facts, for whoever checks an expression.
pub const NAMES: [&str; 9] = [
    "branch",
    "changed_files",
    "check_commands",
    "file_count",
    "files",
    "has_git",
    "has_tests",
    "languages",
    "main_language",
];

/// What is looked at.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seen {
    /// The branch that is checked out; empty if none is.
    pub branch: String,
    /// Whether the folder is in a git repository.
    pub has_git: bool,
    /// Paths of all files, relative to the folder.
    pub files: Vec<String>,
    /// Paths of files that differ from where the branch began, and of those that are not committed.
    pub changed: Vec<String>,
    /// Commands that check the project.
    pub checks: Vec<String>,
    /// Whether some source holds tests, although no file is called so.
    pub has_inner_tests: bool,
}

/// What is known.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// The branch that is checked out; empty if none is.
    pub branch: String,
    /// Files that differ from where the branch began, and those that are not committed; at most [`MAX_FILES`].
    pub changed_files: Vec<String>,
    /// Commands that check the project, as `--check auto` finds them.
    pub check_commands: Vec<String>,
    /// How many files there are.
    pub file_count: usize,
    /// Their paths, sorted; at most [`MAX_FILES`].
    pub files: Vec<String>,
    /// Whether the folder is in a git repository.
    pub has_git: bool,
    /// Whether there are tests.
    pub has_tests: bool,
    /// The languages of its sources, the one with most files first.
    pub languages: Vec<String>,
    /// The first of them; empty if there is none.
    pub main_language: String,
}

impl Facts {
    /// Derives them.
    pub fn of(seen: Seen) -> Facts {
        let sorted = |mut names: Vec<String>| {
            names.sort();
            names.dedup();
            names
        };
        let (mut files, mut changed) = (sorted(seen.files), sorted(seen.changed));
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for language in files.iter().filter_map(|path| language(path)) {
            *counts.entry(language).or_default() += 1;
        }
        let mut languages: Vec<(&str, usize)> = counts.into_iter().collect();
        languages.sort_by(|left, right| right.1.cmp(&left.1).then(left.0.cmp(right.0)));
        let languages: Vec<String> =
            languages.into_iter().map(|(name, _)| name.to_owned()).collect();
        let has_tests = seen.has_inner_tests || files.iter().any(|path| is_test(path));
        let file_count = files.len();
        files.truncate(MAX_FILES);
        changed.truncate(MAX_FILES);
        Facts {
            branch: seen.branch,
            changed_files: changed,
            check_commands: seen.checks,
            file_count,
            files,
            has_git: seen.has_git,
            has_tests,
            main_language: languages.first().cloned().unwrap_or_default(),
            languages,
        }
    }
}

/// The language of a source by its name.
fn language(path: &str) -> Option<&'static str> {
    let (_, ending) = path.rsplit('/').next()?.rsplit_once('.')?;
    Some(match ending {
        "rs" => "rust",
        "go" => "go",
        "py" | "pyi" => "python",
        "js" | "jsx" | "mjs" | "cjs" => "javascript",
        "ts" | "tsx" | "mts" => "typescript",
        "java" => "java",
        "kt" | "kts" => "kotlin",
        "c" | "h" => "c",
        "cc" | "cpp" | "cxx" | "hpp" | "hh" => "cpp",
        "cs" => "csharp",
        "rb" => "ruby",
        "php" => "php",
        "swift" => "swift",
        "scala" => "scala",
        "ex" | "exs" => "elixir",
        "hs" => "haskell",
        "lua" => "lua",
        "sh" | "bash" => "shell",
        "zig" => "zig",
        "dart" => "dart",
        _ => return None,
    })
}

/// Whether a path is that of a test, by the customs of the common languages.
fn is_test(path: &str) -> bool {
    let (folders, name) = path.rsplit_once('/').unwrap_or(("", path));
    let in_folder = folders
        .split('/')
        .any(|folder| matches!(folder, "test" | "tests" | "spec" | "__tests__" | "testdata"));
    let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
    let called = stem.starts_with("test_")
        || ["_test", "_spec", ".test", ".spec", "_tests", "Test", "Tests"]
            .iter()
            .any(|end| stem.ends_with(end));
    language(path).is_some() && (in_folder || called || stem == "tests")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(files: &[&str]) -> Facts {
        let files = files.iter().map(|&path| path.to_owned()).collect();
        Facts::of(Seen { files, ..Seen::default() })
    }

    #[test]
    fn languages_are_counted_and_ordered() {
        let known = facts(&["b.go", "a.rs", "c.rs", "README.md", "x/y.go", "z.py"]);
        assert_eq!(known.languages, ["go", "rust", "python"]);
        assert_eq!(known.main_language, "go");
        assert_eq!(known.files[0], "README.md");
        assert_eq!(facts(&[]).main_language, "");
    }

    #[test]
    fn tests_are_known_by_their_names() {
        for path in [
            "tests/a.rs",
            "a_test.go",
            "test_a.py",
            "src/x.test.ts",
            "FooTest.java",
            "spec/a_spec.rb",
            "src/tests.rs",
        ] {
            assert!(facts(&[path]).has_tests, "{path}");
        }
        for path in ["src/latest.rs", "docs/tests/a.md", "contest.go", "protest/a.py"] {
            assert!(!facts(&[path]).has_tests, "{path}");
        }
    }

    #[test]
    fn many_files_are_counted_and_not_all_named() {
        let files: Vec<String> = (0..3000).map(|n| format!("{n:05}.rs")).collect();
        let known = Facts::of(Seen { files, ..Seen::default() });
        assert_eq!((known.file_count, known.files.len()), (3000, MAX_FILES));
    }

    #[test]
    fn every_fact_has_its_name_in_the_list() {
        let value = serde_json::to_value(Facts::default()).unwrap();
        let names: Vec<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(names, NAMES);
    }
}
