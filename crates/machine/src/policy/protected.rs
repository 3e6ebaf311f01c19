//! Names that steer other programs: what is planted there runs later, outside of any sandbox. File tools do not write
//! them and the sandbox masks them, whether they exist or not: one list for both.

use std::borrow::Cow;

/// Names that are protected wherever they stand in a path.
pub const NAMES: [&str; 12] = [
    ".git",
    "git~1",
    ".drivetrain",
    ".cursor",
    ".codex",
    ".gemini",
    ".claude",
    ".vscode",
    ".idea",
    ".mcp.json",
    ".env",
    ".envrc",
];

/// Names that are protected beside [`NAMES`] and are not one word each; see [`part`].
pub const MORE: [&str; 3] = [".cargo", "rust-toolchain", "rust-toolchain.toml"];

/// What follows `.env.` in files that are read by people only.
const HARMLESS_ENV: [&str; 3] = ["example", "sample", "template"];

/// The part of a relative path that is protected, if one is. Names are compared as any file system would see them:
/// case, trailing dots and spaces and stream names make no difference.
pub fn part(path: &str) -> Option<&str> {
    let mut above: Cow<'_, str> = Cow::Borrowed("");
    for name in path.split('/') {
        let plain = plain(name);
        let steers_cargo = above == ".cargo" && plain.starts_with("config");
        if NAMES.contains(&&*plain)
            || is_environment(&plain)
            || plain.starts_with("rust-toolchain")
            || steers_cargo
        {
            return Some(name);
        }
        above = plain;
    }
    None
}

/// Whether a plain name is that of a file with variables beside `.env` itself.
pub(crate) fn is_environment(plain: &str) -> bool {
    plain.strip_prefix(".env.").is_some_and(|rest| !HARMLESS_ENV.contains(&rest))
}

/// A name as any file system would see it.
pub(crate) fn plain(name: &str) -> Cow<'_, str> {
    let plain = name.split(':').next().unwrap_or_default().trim_end_matches(['.', ' ']);
    let is_plain = plain.bytes().all(|byte| byte.is_ascii() && !byte.is_ascii_uppercase());
    if is_plain { Cow::Borrowed(plain) } else { Cow::Owned(plain.to_lowercase()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_protected_name_is_found_anywhere_and_in_any_spelling() {
        let found = |path| part(path).unwrap_or("-");
        assert_eq!(found("a/.GIT/hooks"), ".GIT");
        assert_eq!(found("a/.git. /x"), ".git. ");
        assert_eq!(found(".cargo/config.toml"), "config.toml");
        assert_eq!(found(".env.local"), ".env.local");
        assert_eq!(found(".env.example"), "-");
        assert_eq!(found("src/.gitignore"), "-");
    }
}
