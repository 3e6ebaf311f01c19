//! Names that steer other programs, and names that hold secrets. Both are known by their text alone, as any file
//! system would see them: case, trailing dots and spaces and stream names make no difference.

use std::borrow::Cow;

use super::glob;
pub use crate::policy::protected::{NAMES as PROTECTED, part as protected_name};
use crate::policy::protected::{is_environment, plain};

/// Folders that hold credentials, wherever they stand in a path.
const SECRET_FOLDERS: [&str; 7] =
    [".ssh", ".gnupg", ".aws", ".azure", ".kube", ".password-store", "keyrings"];

/// Files that hold credentials, by their whole name.
const SECRET_FILES: [&str; 14] = [
    ".env",
    ".netrc",
    "_netrc",
    ".pgpass",
    ".pypirc",
    ".npmrc",
    ".git-credentials",
    ".htpasswd",
    ".vault-token",
    "id_rsa",
    "id_dsa",
    "id_ecdsa",
    "id_ed25519",
    "credentials.json",
];

/// Endings of files that hold credentials.
const SECRET_ENDINGS: [&str; 7] = [".pem", ".key", ".p12", ".pfx", ".kdbx", ".keystore", ".jks"];

/// Absolute paths that hold credentials, or lead around every check.
const SECRET_PLACES: [&str; 10] = [
    "/proc/*/environ",
    "/proc/*/mem",
    "/proc/*/root",
    "/proc/*/fd",
    "/proc/*/cwd",
    "/etc/shadow*",
    "/etc/gshadow*",
    "/etc/sudoers*",
    "/etc/ssl/private",
    "/root",
];

/// As [`protected_name`], for a pattern of a shell: whether it can stand for such a name.
pub(super) fn may_be_protected(pattern: &str) -> bool {
    protected_name(pattern).is_some()
        || pattern.split('/').any(|segment| {
            has_wildcard(segment)
                && PROTECTED.iter().any(|name| name.starts_with('.') && expands_to(segment, name))
        })
}

/// Whether the path's text is that of a file that holds secrets.
pub(super) fn is_secret(path: &str) -> bool {
    let mut names = path.split('/').filter(|name| !name.is_empty()).peekable();
    let mut above: Cow<'_, str> = Cow::Borrowed("");
    while let Some(name) = names.next() {
        let plain = plain(name);
        let is_last = names.peek().is_none();
        let config = matches!(&*plain, "gcloud" | "gh") && above == ".config";
        let docker = plain == "config.json" && above == ".docker";
        let state = plain == "drivetrain" && matches!(&*above, "state" | ".config");
        if config || docker || state || SECRET_FOLDERS.iter().any(|known| same(name, &plain, known))
        {
            return true;
        }
        if is_last && (is_secret_file(name, &plain) || is_environment(&plain)) {
            return true;
        }
        above = plain;
    }
    path.starts_with('/') && SECRET_PLACES.iter().any(|place| is_below(path, place))
}

fn is_secret_file(name: &str, plain: &str) -> bool {
    let ending = |known: &&str| {
        let tail = plain.rsplit(['*', '?', ']']).next().unwrap_or_default();
        plain.ends_with(*known) || (has_wildcard(name) && !tail.is_empty() && known.ends_with(tail))
    };
    SECRET_FILES.iter().any(|known| same(name, plain, known)) || SECRET_ENDINGS.iter().any(ending)
}

/// Whether a name, or a pattern that says more than "anything", can be this one.
fn same(name: &str, plain: &str, known: &str) -> bool {
    if !has_wildcard(name) {
        return plain == known;
    }
    let says_something = name.chars().any(|c| c.is_alphanumeric());
    (says_something || name.starts_with('.')) && expands_to(plain, known)
}

/// Whether a shell's pattern can stand for a name: a dot in front must be written.
fn expands_to(pattern: &str, name: &str) -> bool {
    let hidden = name.starts_with('.') && !pattern.starts_with('.');
    !hidden && glob::matches(pattern, name)
}

fn is_below(path: &str, place: &str) -> bool {
    let mut names = path.split('/').filter(|name| !name.is_empty());
    place.split('/').filter(|name| !name.is_empty()).all(|part| {
        names.next().is_some_and(|name| match has_wildcard(name) {
            true => glob::meets(part, name),
            false => glob::matches(part, name),
        })
    })
}

fn has_wildcard(name: &str) -> bool {
    name.contains(['*', '?', '['])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_steer_other_programs_are_protected_however_they_are_spelled() {
        for path in [
            ".git/hooks/x",
            "a/.GIT/config",
            ".git./x",
            ".env",
            ".env.local",
            "x/.cargo/config.toml",
            ".git::$DATA",
            "rust-toolchain.toml",
            ".mcp.json",
            "/p/.claude/settings.json",
        ] {
            assert!(protected_name(path).is_some(), "{path}");
        }
        for path in ["git/x", ".gitignore", ".env.example", "cargo/config.toml", "src/env"] {
            assert!(protected_name(path).is_none(), "{path}");
        }
        for pattern in [".g*/x", ".*", ".en?"] {
            assert!(may_be_protected(pattern), "{pattern}");
        }
        for pattern in ["*", "src/*.rs", "*/x"] {
            assert!(!may_be_protected(pattern), "{pattern}");
        }
    }

    #[test]
    fn secrets_are_known_by_their_names() {
        for path in [
            "/users/u/.ssh/id_ed25519",
            "~/.aws/credentials",
            ".env",
            "deploy/server.pem",
            "/proc/self/environ",
            concat!("/proc/12/ro", "ot/etc/x"),
            "/etc/shadow",
            "~/.config/gh/hosts.yml",
            "*.pem",
            "/proc/*/environ",
            ".e*",
            "id_*",
            "/users/u/.local/state/drivetrain/journal",
        ] {
            assert!(is_secret(path), "{path}");
        }
        for path in [
            "src/main.rs",
            "*",
            "src/*.rs",
            "/etc/hosts",
            "/proc/cpuinfo",
            ".env.example",
            "*.key.rs",
            "id_rsa.pub",
            "test_*",
            "docs/environ",
            "keys.md",
            ".github/workflows/ci.yml",
        ] {
            assert!(!is_secret(path), "{path}");
        }
    }
}
