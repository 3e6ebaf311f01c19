//! Which paths may differ between the base and what was handed over.
//!
//! Patterns are compared from the folder that the task was started in; what lies outside of it is matched by bare names
//! alone. What holds back is compared in small letters and covers everything below it, since a name that differs in
//! letters alone is the same file elsewhere. What allows means exactly what it says.

use std::fmt::Write as _;

use super::framework::STEERING;
use crate::policy::permission::PathPattern;
use crate::verdict::{Touch, Touched};

/// How many paths a report names.
const MAX_NAMED: usize = 50;

/// What is wrong with a pattern of paths, if anything: it has to stay below the workspace.
pub fn pattern_problem(pattern: &str) -> Option<&'static str> {
    let path = pattern.strip_prefix('!').unwrap_or(pattern);
    let is_drive =
        path.as_bytes().get(1) == Some(&b':') && path.as_bytes()[0].is_ascii_alphabetic();
    if path.trim().is_empty() {
        Some("is empty")
    } else if path.starts_with(['/', '\\', '~']) || is_drive {
        Some("is absolute")
    } else if path.split(['/', '\\']).any(|part| part == "..") {
        Some("leads out of the workspace")
    } else {
        None
    }
}

/// Whether a criterion about paths passed, and what a person or a worker is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Whether it passed.
    pub passed: bool,
    /// What was seen.
    pub evidence: String,
}

impl Finding {
    fn passed(evidence: impl Into<String>) -> Finding {
        Finding { passed: true, evidence: evidence.into() }
    }
}

/// What differs, and the folder that patterns begin at, below the top; empty for the top itself.
#[derive(Debug, Clone, Copy)]
pub struct Touching<'a> {
    /// Everything that differs, from the top.
    pub touched: &'a [Touched],
    /// The folder that the task was started in, below the top.
    pub prefix: &'a str,
}

impl Touching<'_> {
    /// None of these paths may differ.
    pub fn none_of(&self, patterns: &[String]) -> Finding {
        let guards: Vec<Guard> = patterns.iter().map(|text| Guard::new(text)).collect();
        let found = self.found(|path| {
            guards
                .iter()
                .find(|guard| guard.holds(path))
                .map(|guard| format!("matches {:?}", guard.text))
        });
        if found.is_empty() {
            return Finding::passed(match self.touched.len() {
                1 => "the one changed path does not match".to_owned(),
                count => format!("none of {count} changed paths matches"),
            });
        }
        let differ = if found.len() == 1 { "differs" } else { "differ" };
        let first =
            format!("{} that must not be touched {differ} from the base:", count(found.len()));
        Finding { passed: false, evidence: report(&first, &found) }
    }

    /// Only these paths may differ.
    pub fn only(&self, patterns: &[String]) -> Finding {
        let allowed: Vec<Allowed> = patterns.iter().map(|text| Allowed::new(text)).collect();
        let found = self.found(|path| {
            let is_allowed = allowed.iter().any(|pattern| pattern.takes(path));
            (!is_allowed).then(|| "no pattern allows it".to_owned())
        });
        if found.is_empty() {
            return Finding::passed(match self.touched.len() {
                1 => "the one changed path matches".to_owned(),
                count => format!("all of {count} changed paths match"),
            });
        }
        let differ = if found.len() == 1 { "differs" } else { "differ" };
        let first = format!("{} {differ} from the base beside those that may:", count(found.len()));
        Finding { passed: false, evidence: report(&first, &found) }
    }

    /// None of these paths may differ, nor what steers the tests if that is asked for. A pattern with `!` in front names
    /// what may differ all the same. The evidence of a failure is a tamper report.
    pub fn protected(&self, patterns: &[String], framework: bool) -> Finding {
        let (excepted, guarded): (Vec<&String>, Vec<&String>) =
            patterns.iter().partition(|pattern| pattern.starts_with('!'));
        let excepted: Vec<Allowed> =
            excepted.iter().map(|text| Allowed::new(text.trim_start_matches('!'))).collect();
        let guards: Vec<Guard> = guarded.iter().map(|text| Guard::new(text)).collect();
        let steering: Vec<(Guard, &str)> = match framework {
            true => {
                STEERING.iter().map(|entry| (Guard::new(entry.pattern), entry.reader)).collect()
            }
            false => Vec::new(),
        };
        let found = self.found(|path| {
            if excepted.iter().any(|pattern| pattern.takes(path)) {
                return None;
            }
            let guard = guards.iter().find(|guard| guard.holds(path));
            let guard = guard.map(|guard| format!("protected by {:?}", guard.text));
            guard.or_else(|| {
                let steers = steering.iter().find(|(guard, _)| guard.is_named_by(path));
                steers.map(|(_, reader)| (*reader).to_owned())
            })
        });
        if found.is_empty() {
            let changed = self.touched.len();
            return Finding::passed(format!("none of {changed} changed paths is protected"));
        }
        let first = format!(
            "tamper report (criteria_touched): {} {} touched",
            match found.len() {
                1 => "1 protected path".to_owned(),
                more => format!("{more} protected paths"),
            },
            if found.len() == 1 { "was" } else { "were" }
        );
        let mut evidence = report(&first, &found);
        evidence.push_str(
            "\nput them back as they were when the task began; the task is not accepted otherwise",
        );
        Finding { passed: false, evidence }
    }

    /// The paths about which `why` has something to say.
    fn found(&self, why: impl Fn(&Place<'_>) -> Option<String>) -> Vec<(&Touched, String)> {
        let found = self.touched.iter().filter_map(|touched| {
            let place = Place::new(&touched.path, self.prefix);
            Some((touched, why(&place)?))
        });
        found.collect()
    }
}

/// A path, from the folder of the task on.
struct Place<'a> {
    /// From that folder, if it lies below it.
    inside: Option<&'a str>,
    /// From the top.
    whole: &'a str,
}

impl Place<'_> {
    fn new<'a>(path: &'a str, prefix: &str) -> Place<'a> {
        let prefix = prefix.trim_matches('/');
        let inside = match prefix {
            "" => Some(path),
            prefix => path.strip_prefix(prefix).and_then(|rest| rest.strip_prefix('/')),
        };
        Place { inside, whole: path }
    }
}

/// A pattern that holds back.
struct Guard {
    text: String,
    pattern: PathPattern,
}

impl Guard {
    fn new(text: &str) -> Guard {
        Guard { text: text.to_owned(), pattern: PathPattern::from(text.to_lowercase()) }
    }

    /// Whether a change of the path touches what is guarded: it is below the pattern, or in its way, as a link in the
    /// place of a folder would be.
    fn holds(&self, path: &Place<'_>) -> bool {
        match path.inside {
            Some(inside) => {
                let inside = inside.to_lowercase();
                self.pattern.covers(&inside) || self.pattern.is_on_the_way(&inside)
            }
            None => self.pattern.is_name() && self.pattern.covers(&path.whole.to_lowercase()),
        }
    }

    /// As [`Guard::holds`], from the top: a file that steers tests does so wherever it is. A bare name means the file
    /// itself and not what lies in a folder of that name.
    fn is_named_by(&self, path: &Place<'_>) -> bool {
        self.pattern.names(&path.whole.to_lowercase())
    }
}

/// A pattern that allows: itself, and everything below a folder that it names from the task's own on.
struct Allowed {
    exact: PathPattern,
    below: PathPattern,
}

impl Allowed {
    fn new(text: &str) -> Allowed {
        let below = format!("./{}/**", text.trim_start_matches("./").trim_end_matches('/'));
        Allowed { exact: PathPattern::from(text), below: PathPattern::from(below) }
    }

    fn takes(&self, path: &Place<'_>) -> bool {
        path.inside.is_some_and(|inside| self.exact.names(inside) || self.below.names(inside))
    }
}

fn count(paths: usize) -> String {
    if paths == 1 { "1 path".to_owned() } else { format!("{paths} paths") }
}

fn report(first: &str, found: &[(&Touched, String)]) -> String {
    let mut text = first.to_owned();
    for (touched, why) in found.iter().take(MAX_NAMED) {
        let how = match touched.how {
            Touch::Added => "added  ",
            Touch::Removed => "removed",
            Touch::Changed => "changed",
        };
        let _ = write!(text, "\n  {how} {} ({why})", touched.path);
    }
    if found.len() > MAX_NAMED {
        let _ = write!(text, "\n  and {} more", found.len() - MAX_NAMED);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn touched(paths: &[&str]) -> Vec<Touched> {
        let one = |path: &&str| match path.split_at(1) {
            ("+", path) => Touched { path: path.to_owned(), how: Touch::Added },
            ("-", path) => Touched { path: path.to_owned(), how: Touch::Removed },
            _ => Touched { path: (*path).to_owned(), how: Touch::Changed },
        };
        paths.iter().map(one).collect()
    }

    fn texts(patterns: &[&str]) -> Vec<String> {
        patterns.iter().map(|pattern| (*pattern).to_owned()).collect()
    }

    fn protected(patterns: &[&str], framework: bool, paths: &[&str]) -> Finding {
        let touched = touched(paths);
        Touching { touched: &touched, prefix: "" }.protected(&texts(patterns), framework)
    }

    fn is_held(pattern: &str, path: &str) -> bool {
        !protected(&[pattern], false, &[path]).passed
    }

    #[test]
    fn a_tamper_report_lists_each_path_and_how() {
        let finding = protected(
            &["tests/**", "!tests/new/**"],
            true,
            &[
                "tests/a.py",
                "+tests/b.py",
                "-tests/c.py",
                "+tests/new/d.py",
                "src/a.py",
                "+conftest.py",
            ],
        );
        assert!(!finding.passed);
        insta::assert_snapshot!(finding.evidence, @r#"
        tamper report (criteria_touched): 4 protected paths were touched
          changed tests/a.py (protected by "tests/**")
          added   tests/b.py (protected by "tests/**")
          removed tests/c.py (protected by "tests/**")
          added   conftest.py (Python's test runners read it)
        put them back as they were when the task began; the task is not accepted otherwise
        "#);
        let fine = protected(&["tests/**"], false, &["src/a.py"]);
        assert_eq!(fine, Finding::passed("none of 1 changed paths is protected"));
    }

    #[test]
    fn a_protected_path_is_held_below_across_letters_and_in_its_way() {
        assert!(is_held("tests/**", "tests/deep/er/a.py"));
        assert!(is_held("tests", "tests/a.py"), "a folder by its name");
        assert!(is_held("tests/", "tests/a.py"));
        assert!(is_held("tests/*.py", "tests/a.py"));
        assert!(is_held("tests/**", "Tests/a.py"), "the same file where letters do not differ");
        assert!(is_held("tests/**", "+TESTS/new.py"));
        assert!(is_held("Tests/**", "tests/a.py"));
        assert!(is_held("tests/**", "+tests"), "a link in the place of the folder");
        assert!(is_held("a/tests/unit/**", "+a/tests"), "a link further up");
        assert!(is_held("a/tests/unit/**", "+a"));
        assert!(is_held("*.lock", "deep/x.lock"));
        assert!(is_held("**/golden/*.txt", "x/y/golden/a.txt"));
        assert!(!is_held("tests/**", "src/tests/a.py"), "patterns begin at the task's folder");
        assert!(!is_held("tests/**", "tests_more/a.py"));
        assert!(!is_held("a/tests/**", "a/other"));
        assert!(!is_held("tests/*.py", "src/a.py"));
    }

    #[test]
    fn exceptions_mean_exactly_what_they_say() {
        let only = |paths: &[&str]| protected(&["!Cargo.toml"], true, paths).passed;
        assert!(only(&["Cargo.toml"]));
        assert!(only(&["crates/a/Cargo.toml"]), "a bare name is meant wherever it is");
        assert!(!only(&["cargo.toml"]), "an exception is not stretched to other letters");
        assert!(!only(&["Cargo.lock"]));
        assert!(protected(&["tests/**", "!tests/data"], false, &["tests/data/a"]).passed);
        assert!(!protected(&["tests/**", "!tests/data"], false, &["tests/datax"]).passed);
    }

    #[test]
    fn what_steers_the_tests_is_held_at_any_depth_and_in_any_letters() {
        for path in [
            "conftest.py",
            "tests/unit/conftest.py",
            "pytest.ini",
            "pyproject.toml",
            "sub/package.json",
            "Makefile",
            "GNUmakefile",
            "MAKEFILE",
            "CMakeLists.txt",
            "cmake/x.cmake",
            "Cargo.toml",
            "crates/a/build.rs",
            ".cargo/config.toml",
            "deep/.cargo/config",
            ".github/workflows/ci.yml",
            ".gitlab-ci.yml",
            ".gitattributes",
            "sub/.gitmodules",
            "sitecustomize.py",
            "lib/x.pth",
            "pytest.py",
            "_pytest/main.py",
            "jest.config.mjs",
            "vitest.config.ts",
            ".mocharc.json",
            "node_modules/jest/index.js",
            "vendor/x/y.go",
            "go.mod",
            ".drivetrain/policy.toml",
            "requirements-dev.txt",
        ] {
            assert!(!protected(&[], true, &[path]).passed, "{path}");
            assert!(protected(&[], false, &[path]).passed, "{path} is held only if asked for");
        }
        for path in
            ["src/main.rs", "README.md", "tests/test_a.py", "docs/makefile-howto.md", "configure/x"]
        {
            assert!(protected(&[], true, &[path]).passed, "{path}");
        }
    }

    #[test]
    fn patterns_begin_at_the_folder_of_the_task() {
        let touched = touched(&["app/tests/a", "tests/b", "x.lock", "appendix/c"]);
        let touching = Touching { touched: &touched, prefix: "app" };
        let evidence = touching.protected(&texts(&["tests/**", "*.lock"]), false).evidence;
        assert!(evidence.contains("app/tests/a") && evidence.contains("x.lock"), "{evidence}");
        assert!(!evidence.contains("tests/b ("), "{evidence}");
        let only = touching.only(&texts(&["**"]));
        assert!(only.evidence.contains("tests/b") && !only.evidence.contains("app/tests/a"));
        assert!(only.evidence.contains("appendix/c"), "a name that begins alike is another folder");
    }

    #[test]
    fn none_of_and_only_say_which_paths_are_wrong() {
        let touched = touched(&["src/a.rs", "+docs/b.md", "-c.txt"]);
        let touching = Touching { touched: &touched, prefix: "" };
        assert!(touching.none_of(&texts(&["tests/**"])).passed);
        insta::assert_snapshot!(touching.none_of(&texts(&["src/**", "*.txt"])).evidence, @r#"
        2 paths that must not be touched differ from the base:
          changed src/a.rs (matches "src/**")
          removed c.txt (matches "*.txt")
        "#);
        assert!(touching.only(&texts(&["src", "*.md", "c.txt"])).passed);
        insta::assert_snapshot!(touching.only(&texts(&["src/**", "DOCS/**"])).evidence, @"
        2 paths differ from the base beside those that may:
          added   docs/b.md (no pattern allows it)
          removed c.txt (no pattern allows it)
        ");
        assert!(!Touching { touched: &touched[..1], prefix: "" }.only(&texts(&["lib/src"])).passed);
    }

    #[test]
    fn a_long_report_is_cut_and_counted() {
        let many: Vec<Touched> =
            (0..80).map(|n| Touched { path: format!("tests/{n}"), how: Touch::Added }).collect();
        let finding = Touching { touched: &many, prefix: "" }.none_of(&texts(&["tests/**"]));
        assert!(finding.evidence.ends_with("\n  and 30 more"), "{}", finding.evidence);
    }
}
