//! `[[acceptance]]`: each kind of criterion in its three forms, `kind = "shell"` with its keys, `shell = "…"` with the
//! others beside it, and `shell = {…}` with all of them inside.

use super::super::{COUNT, Key, Kind, MODEL, Table, may, must};

/// The kinds of criteria.
pub(crate) const KINDS: [&str; 4] = ["shell", "file", "custom", "judge"];
/// A check that passes this often is not flaky; more would only cost.
pub(crate) const MAX_REPEAT: u64 = 100;

/// One criterion.
pub(crate) const CRITERION: Kind = Kind::Either(&[
    Kind::Table(&SHELL.kind),
    Kind::Table(&SHELL.beside),
    Kind::Table(&SHELL_WRAPPED),
    Kind::Table(&FILE.kind),
    Kind::Table(&FILE.beside),
    Kind::Table(&MATCH_BESIDE),
    Kind::Table(&FILE_WRAPPED),
    Kind::Table(&MATCH_WRAPPED),
    Kind::Table(&JUDGE.kind),
    Kind::Table(&JUDGE.beside),
    Kind::Table(&JUDGE_WRAPPED),
    Kind::Table(&PLUGIN.kind),
    Kind::Table(&PLUGIN.beside),
    Kind::Table(&CLEAN.kind),
    Kind::Table(&CLEAN.beside),
    Kind::Table(&PATHS.kind),
    Kind::Table(&PATHS.beside),
    Kind::Table(&LINES.kind),
    Kind::Table(&LINES.beside),
    Kind::Table(&TESTS.kind),
    Kind::Table(&TESTS.beside),
    Kind::Table(&CUSTOM_WRAPPED),
]);

/// A criterion in its three forms.
#[derive(Debug)]
pub(crate) struct Forms {
    /// With `kind`.
    pub(crate) kind: Table,
    /// With its own word as the first key.
    pub(crate) beside: Table,
    /// Inside the table that its own word names.
    pub(crate) inside: Table,
}

impl Forms {
    /// The form that errors and schemas mean.
    pub(crate) fn of(&self, form: Form) -> &Table {
        match form {
            Form::Kind => &self.kind,
            Form::Beside => &self.beside,
            Form::Inside => &self.inside,
        }
    }
}

/// How a criterion is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// `kind = "shell"`.
    Kind,
    /// `shell = "command"`.
    Beside,
    /// `shell = { command = "…" }`.
    Inside,
}

const COMMAND: Key =
    must("command", Kind::Words, "The command line, run by sh in a clean checkout.");
const TIMEOUT: Key = may("timeout", Kind::Span, "How long it may take.");

const SHELL_KEYS: &[Key] = &[
    may("exit", Kind::Exit, "The exit code that it must end with; 0 if it is not said."),
    may("expect_exit", Kind::Exit, "The same."),
    may("stdout", Kind::Text, "A regular expression that its output must match."),
    TIMEOUT,
    may("repeat", Kind::Whole(1, MAX_REPEAT), "How often in a row it must pass."),
    may("red_first", Kind::Flag, "Whether it must fail before the work begins."),
];

/// A command.
pub(crate) static SHELL: Forms = Forms {
    kind: Table::new(
        "shell",
        "a shell criterion",
        "A command that must end well.",
        &[&[must("kind", Kind::One(&["shell"]), "A command."), COMMAND], SHELL_KEYS],
    ),
    beside: Table::new(
        "shell_short",
        "a shell criterion",
        "A command that must end well.",
        &[&[must("shell", Kind::Words, "The command line.")], SHELL_KEYS],
    ),
    inside: Table::new(
        "shell_inside",
        "a shell criterion",
        "A command that must end well.",
        &[&[COMMAND], SHELL_KEYS],
    ),
};

static SHELL_WRAPPED: Table = Table::new(
    "shell_table",
    "a criterion",
    "A command that must end well.",
    &[&[must("shell", Kind::Table(&SHELL.inside), "The command.")]],
);

const PATH: Key = must("path", Kind::Words, "A path below the workspace.");
const FILE_KEYS: &[Key] = &[
    may("pattern", Kind::Text, "A regular expression that its text must match."),
    may("regex", Kind::Text, "The same."),
    may("required", Kind::Flag, "Whether it must be there; true unless it is forbidden."),
    may("forbidden", Kind::Flag, "Whether the file, or the pattern in it, must be absent."),
];

/// A file.
pub(crate) static FILE: Forms = Forms {
    kind: Table::new(
        "file_criterion",
        "a file criterion",
        "A file that must be there, or hold something, or not.",
        &[&[must("kind", Kind::One(&["file"]), "A file."), PATH], FILE_KEYS],
    ),
    beside: Table::new(
        "file_short",
        "a file criterion",
        "A file that must be there, or hold something, or not.",
        &[&[must("file", Kind::Words, "The path.")], FILE_KEYS],
    ),
    inside: Table::new(
        "file_inside",
        "a file criterion",
        "A file that must be there, or hold something, or not.",
        &[&[PATH], FILE_KEYS],
    ),
};

/// A file, by its other word.
pub(crate) static MATCH_BESIDE: Table = Table::new(
    "file_match_short",
    "a file criterion",
    "A file that must hold something.",
    &[&[must("file_match", Kind::Words, "The path.")], FILE_KEYS],
);
static FILE_WRAPPED: Table = Table::new(
    "file_table",
    "a criterion",
    "A file.",
    &[&[must("file", Kind::Table(&FILE.inside), "The file.")]],
);
static MATCH_WRAPPED: Table = Table::new(
    "file_match_table",
    "a criterion",
    "A file.",
    &[&[must("file_match", Kind::Table(&FILE.inside), "The file.")]],
);

const JUDGE_KEYS: &[Key] = &[
    may("rubric_file", Kind::Words, "A file that holds the rubric."),
    must("model", MODEL, "PROVIDER/NAME."),
    may("decides", Kind::Flag, "Whether its word decides; it only advises if it is not said."),
];
const RUBRIC: Key = may("rubric", Kind::Words, "What the work is judged by, in words.");

/// A model with a rubric.
pub(crate) static JUDGE: Forms = Forms {
    kind: Table {
        needs: &[&["rubric", "rubric_file"]],
        ..Table::new(
            "judge",
            "a judge",
            "A model with a rubric.",
            &[&[must("kind", Kind::One(&["judge"]), "A judge."), RUBRIC], JUDGE_KEYS],
        )
    },
    beside: Table::new(
        "judge_short",
        "a judge",
        "A model with a rubric.",
        &[&[must("judge", Kind::Words, "The rubric.")], JUDGE_KEYS],
    ),
    inside: Table {
        needs: &[&["rubric", "rubric_file"]],
        ..Table::new("judge_inside", "a judge", "A model with a rubric.", &[&[RUBRIC], JUDGE_KEYS])
    },
};
static JUDGE_WRAPPED: Table = Table::new(
    "judge_table",
    "a criterion",
    "A model with a rubric.",
    &[&[must("judge", Kind::Table(&JUDGE.inside), "The judge.")]],
);

const CUSTOM: Key =
    must("kind", Kind::One(&["custom"]), "What drivetrain looks at itself, or a plugin.");

/// Writes the three forms of a custom criterion.
macro_rules! custom {
    ($id:literal, $what:literal, $help:literal, $name:expr, $keys:expr) => {
        Forms {
            kind: Table::new($id, $what, $help, &[&[CUSTOM, must("name", $name, "Which.")], $keys]),
            beside: Table::new(
                concat!($id, "_short"),
                $what,
                $help,
                &[&[must("custom", $name, "Which.")], $keys],
            ),
            inside: Table::new(
                concat!($id, "_inside"),
                $what,
                $help,
                &[&[must("name", $name, "Which.")], $keys],
            ),
        }
    };
}

/// A plugin.
pub(crate) static PLUGIN: Forms = custom!(
    "plugin_criterion",
    "a plugin's criterion",
    "A program of yours that is asked.",
    Kind::Like("^plugin:[A-Za-z0-9_.-]{1,100}$"),
    &[may("config", Kind::Any, "What it is told.")]
);
/// `git_clean`.
pub(crate) static CLEAN: Forms = custom!(
    "git_clean",
    "the criterion git_clean",
    "Nothing is left uncommitted.",
    Kind::One(&["git_clean"]),
    &[]
);
/// `no_paths_touched` and `only_paths_touched`.
pub(crate) static PATHS: Forms = custom!(
    "paths_touched",
    "a criterion about paths",
    "Which paths may change.",
    Kind::One(&["no_paths_touched", "only_paths_touched"]),
    &[must("paths", Kind::Some(&Kind::Text), "Patterns of paths below the workspace.")]
);
/// `max_diff_lines`.
pub(crate) static LINES: Forms = custom!(
    "max_diff_lines",
    "the criterion max_diff_lines",
    "How large the change may be.",
    Kind::One(&["max_diff_lines"]),
    &[must("lines", COUNT, "How many lines may be added and removed.")]
);
/// `tests_not_fewer`.
pub(crate) static TESTS: Forms = custom!(
    "tests_not_fewer",
    "the criterion tests_not_fewer",
    "No test may vanish.",
    Kind::One(&["tests_not_fewer"]),
    &[COMMAND, TIMEOUT]
);

static CUSTOM_WRAPPED: Table = Table::new(
    "custom_table",
    "a criterion",
    "What drivetrain looks at itself, or a plugin.",
    &[&[must(
        "custom",
        Kind::Either(&[
            Kind::Table(&PLUGIN.inside),
            Kind::Table(&CLEAN.inside),
            Kind::Table(&PATHS.inside),
            Kind::Table(&LINES.inside),
            Kind::Table(&TESTS.inside),
        ]),
        "Which.",
    )]],
);
