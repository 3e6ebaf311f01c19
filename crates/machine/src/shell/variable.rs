//! Names of variables, and which of them can be set without changing what programs do.

use super::Word;

/// Variables that programs may be given: language, time zone, colour, width, and how much to say.
const HARMLESS: &[&str] = &[
    "CARGO_TERM_COLOR",
    "CARGO_TERM_PROGRESS_WHEN",
    "CI",
    "CLICOLOR",
    "CLICOLOR_FORCE",
    "COLORTERM",
    "COLUMNS",
    "FORCE_COLOR",
    "INSTA_UPDATE",
    "LANG",
    "LANGUAGE",
    "LINES",
    "NO_COLOR",
    "PROPTEST_CASES",
    "PYTHONDONTWRITEBYTECODE",
    "PYTHONUNBUFFERED",
    "RUST_BACKTRACE",
    "RUST_LIB_BACKTRACE",
    "RUST_LOG",
    "RUST_TEST_THREADS",
    "SOURCE_DATE_EPOCH",
    "TERM",
    "TZ",
];

/// Lower-case names that shells or programs look at.
const MEANINGFUL: &[&str] = &["auto_resume", "histchars"];

/// Whether a text is a name of a variable.
pub(super) fn is_name(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes.next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Whether programs can be given this variable, with any value that names no path.
pub(super) fn is_harmless(name: &str) -> bool {
    HARMLESS.binary_search(&name).is_ok()
        || name.strip_prefix("LC_").is_some_and(|rest| rest.bytes().all(|b| b.is_ascii_uppercase()))
}

/// Whether programs can be given this variable with this value.
pub(super) fn is_harmless_value(name: &str, value: &Word) -> bool {
    is_harmless(name)
        && value
            .plain()
            .is_some_and(|value| !value.contains(['/', '\n']) && !value.starts_with(':'))
}

/// Whether the shell's own variable of this name can be set, without passing it on to programs that have no such
/// variable yet: a short lower-case name that no program looks at.
pub(super) fn may_be_set(name: &str) -> bool {
    let local = name.len() <= 32
        && name
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
        && !name.starts_with(['_', '0'])
        && !name.contains("proxy")
        && !name.starts_with("npm")
        && !name.starts_with("pnpm")
        && !name.starts_with("yarn")
        && !MEANINGFUL.contains(&name);
    local || is_harmless(name)
}
