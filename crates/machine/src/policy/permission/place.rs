//! Where a path leads, as far as its text tells: below the workspace, elsewhere, or nobody knows.

use super::glob::{self, Anchor, PathPattern, Reach};
use super::{Fit, protected};
use crate::shell::Word;

/// Folders of the system that anybody may look at.
const SYSTEM_FOLDERS: [&str; 9] =
    ["bin", "etc", "lib", "lib32", "lib64", "opt", "sbin", "sys", "usr"];
/// Files of the system that anybody may look at.
const SYSTEM_FILES: [&str; 8] = [
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/proc/loadavg",
    "/proc/uptime",
    "/proc/version",
    "/proc/mounts",
    "/proc/filesystems",
    "/proc/stat",
];
/// What a process may always read and write: it keeps nothing and holds nothing.
const STREAMS: [&str; 6] =
    ["/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/tty", "/dev/zero"];

/// The folders that texts are read against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Folders<'a> {
    /// The workspace, absolute.
    pub(super) workspace: Option<&'a str>,
    /// The user's own.
    pub(super) home: Option<&'a str>,
}

/// A path, as far as its text tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    /// Its names from the workspace on, if it lies there for certain.
    inside: Option<String>,
    /// The whole path, cleaned; begins with `~` where the home folder is not known. None if nobody knows.
    absolute: Option<String>,
    /// Whether it stands for every name that matches it.
    is_pattern: bool,
}

impl Place {
    /// The place that a word of a command names, read in `folder`: empty for the workspace, else absolute. None for a
    /// folder that nobody knows.
    pub(super) fn of_word(word: &Word, folder: Option<&str>, folders: Folders<'_>) -> Place {
        match word {
            Word::Plain(text) => Place::of_text(text, false, folder, folders),
            Word::Pattern(text) => Place::of_text(text, true, folder, folders),
            Word::Unknown(text) => match home_path(text) {
                Some(path) => Place::of_text(&path, false, folder, folders),
                None => Place { inside: None, absolute: None, is_pattern: false },
            },
        }
    }

    /// The place that a path names which a file tool was given. A tilde or a variable is no part of such a path.
    pub(super) fn of_tool(text: &str, folders: Folders<'_>) -> Place {
        if text.contains('$') || text.contains('`') {
            return Place { inside: None, absolute: None, is_pattern: false };
        }
        Place::of_text(text, false, Some(""), folders)
    }

    fn of_text(text: &str, is_pattern: bool, folder: Option<&str>, folders: Folders<'_>) -> Place {
        let unknown = Place { inside: None, absolute: None, is_pattern };
        let whole = match (text.strip_prefix('~'), folders.home) {
            (Some(rest), Some(home)) if rest.is_empty() || rest.starts_with('/') => {
                format!("{home}{rest}")
            }
            (Some(_), _) => text.to_owned(),
            (None, _) if text.starts_with('/') => text.to_owned(),
            (None, _) => match (folder, folders.workspace) {
                (Some(""), Some(workspace)) => format!("{workspace}/{text}"),
                (Some(""), None) | (None, _) => return unknown,
                (Some(folder), _) => format!("{folder}/{text}"),
            },
        };
        let (clean, climbs) = cleaned(&whole, is_pattern);
        let below = folders.workspace.and_then(|workspace| below(&clean, workspace));
        let inside = below.filter(|_| !climbs).map(str::to_owned);
        Place { inside, absolute: Some(clean), is_pattern }
    }

    /// The same place under every way of naming folders, as text for a person.
    pub(super) fn shown(&self) -> Option<&str> {
        match &self.inside {
            Some(inside) if inside.is_empty() => Some("."),
            Some(inside) => Some(inside),
            None => self.absolute.as_deref(),
        }
    }

    /// The folder that a `cd` to this place leads to.
    pub(super) fn folder(&self) -> Option<&str> {
        self.absolute.as_deref().filter(|_| !self.is_pattern)
    }

    pub(super) fn is_known(&self) -> bool {
        self.absolute.is_some()
    }

    pub(super) fn is_inside(&self) -> bool {
        self.inside.is_some()
    }

    /// Whether it is a device that keeps nothing.
    pub(super) fn is_stream(&self) -> bool {
        let path = self.absolute.as_deref().unwrap_or_default();
        STREAMS.contains(&path) || path.starts_with("/dev/fd/")
    }

    /// Whether it belongs to the system and anybody may look at it.
    pub(super) fn is_system(&self) -> bool {
        let path = self.absolute.as_deref().unwrap_or_default();
        let first = path.strip_prefix('/').and_then(|rest| rest.split('/').next());
        first.is_some_and(|first| SYSTEM_FOLDERS.contains(&first))
            || matches!(path, "/dev/random" | "/dev/urandom")
            || SYSTEM_FILES.contains(&path)
            || self.is_stream()
    }

    /// The name in it that no tool may write, if there is one.
    pub(super) fn is_protected(&self) -> bool {
        // Above the workspace such a name says where the workspace is, not what is written.
        let text = self.inside.as_deref().or(self.absolute.as_deref()).unwrap_or_default();
        if self.is_pattern {
            protected::may_be_protected(text)
        } else {
            protected::protected_name(text).is_some()
        }
    }

    pub(super) fn is_secret(&self) -> bool {
        match (&self.inside, &self.absolute) {
            (Some(inside), _) => protected::is_secret(inside),
            (None, Some(absolute)) => protected::is_secret(absolute),
            (None, None) => false,
        }
    }

    /// Whether a rule's pattern means it; `whole` if a folder is meant with all that is in it.
    pub(super) fn fits(
        &self,
        pattern: &PathPattern,
        reach: Reach,
        whole: bool,
        folders: Folders<'_>,
    ) -> Fit {
        let Some(absolute) = &self.absolute else {
            return if reach == Reach::Wide { Fit::Maybe } else { Fit::No };
        };
        let home = folders.home.map(|home| home.trim_end_matches('/'));
        let by = if self.is_pattern { glob::meets } else { glob::matches };
        let anchor = match pattern.anchor() {
            Anchor::Workspace => folders.workspace,
            Anchor::Home => home,
            Anchor::Name | Anchor::Root => None,
        };
        if whole && reach == Reach::Wide && anchor.is_some_and(|anchor| holds(absolute, anchor, by))
        {
            return Fit::Maybe;
        }
        let from_anchor = match pattern.anchor() {
            // Names above the workspace say where it is, not what is meant.
            Anchor::Name => self.inside.as_deref().or(Some(absolute.as_str())),
            Anchor::Root => absolute.strip_prefix('/'),
            Anchor::Workspace => match (&self.inside, folders.workspace) {
                (Some(inside), _) => Some(inside.as_str()),
                // Lexically below, although `..` may lead elsewhere: enough to hold it back.
                (None, Some(workspace)) if reach == Reach::Wide => below(absolute, workspace),
                (None, _) => None,
            },
            Anchor::Home => match home {
                Some(home) => below(absolute, home),
                None => absolute.strip_prefix("~/").or((absolute == "~").then_some("")),
            },
        };
        let Some(path) = from_anchor else { return Fit::No };
        if !self.is_pattern && pattern.takes(path, reach, by) {
            return Fit::Yes;
        }
        let may = reach == Reach::Wide
            && (self.is_pattern && pattern.takes(path, reach, by)
                || whole && pattern.lies_below(path, by));
        if may { Fit::Maybe } else { Fit::No }
    }
}

/// The part of a path below a folder.
fn below<'p>(path: &'p str, folder: &str) -> Option<&'p str> {
    let folder = folder.trim_end_matches('/');
    let rest = path.strip_prefix(folder)?;
    if rest.is_empty() { Some(rest) } else { rest.strip_prefix('/') }
}

/// Whether a path, or one that matches it, is above a folder.
fn holds(path: &str, folder: &str, by: fn(&str, &str) -> bool) -> bool {
    let mut names = folder.split('/').filter(|name| !name.is_empty());
    let mut above = path.split('/').filter(|name| !name.is_empty());
    above.all(|part| names.next().is_some_and(|name| by(part, name))) && names.next().is_some()
}

/// Takes `.`, `..` and doubled slashes out; true if there was a `..`, which links may lead elsewhere.
fn cleaned(path: &str, is_pattern: bool) -> (String, bool) {
    let mut climbs = false;
    let mut names: Vec<&str> = Vec::new();
    for name in path.split('/') {
        match name {
            "" | "." => {}
            ".." => {
                climbs = true;
                if !names.is_empty() && !names[0].starts_with('~') || names.len() > 1 {
                    names.pop();
                }
            }
            // `.*` stands for `..` in some shells.
            _ if is_pattern
                && name.starts_with('.')
                && name[1..].starts_with(['*', '?', '[', '.']) =>
            {
                climbs = true;
                names.push(name);
            }
            _ => names.push(name),
        }
    }
    let tilde = path.starts_with('~');
    (if tilde { names.join("/") } else { format!("/{}", names.join("/")) }, climbs)
}

/// A word that only says where the user's own folder is, with the rest in plain text.
fn home_path(text: &str) -> Option<String> {
    let bare: String = text.chars().filter(|c| *c != '"').collect();
    let rest = ["${HOME}", "$HOME", "~"].iter().find_map(|way| bare.strip_prefix(way))?;
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+@,:% ".contains(c);
    let ends = rest.is_empty() || rest.starts_with('/');
    (ends && rest.chars().all(is_plain)).then(|| format!("~{rest}"))
}

#[cfg(test)]
mod tests {
    use super::super::Access;
    use super::*;

    const FOLDERS: Folders<'_> = Folders { workspace: Some("/users/u/p"), home: Some("/users/u") };

    fn place(text: &str) -> Place {
        let word = if text.contains(['$', '~']) {
            Word::Unknown(text.to_owned())
        } else if text.contains('*') {
            Word::Pattern(text.to_owned())
        } else {
            Word::Plain(text.to_owned())
        };
        Place::of_word(&word, Some(""), FOLDERS)
    }

    #[test]
    fn only_plain_text_below_the_workspace_is_inside() {
        for text in ["a", "./a//b", "/users/u/p/a", "src/*.rs", ".", "$HOME/p/a"] {
            assert!(place(text).is_inside(), "{text}");
        }
        for text in [
            "..",
            "a/../b",
            "/users/u/pp",
            "/users/u/p/../x",
            "~/x",
            "$x",
            "$x/a",
            "/",
            ".*/x",
            "~v/x",
        ] {
            assert!(!place(text).is_inside(), "{text}");
        }
    }

    #[test]
    fn a_relative_path_is_read_where_the_line_has_gone() {
        let word = Word::Plain("hooks/x".to_owned());
        let there = Place::of_word(&word, Some("/users/u/p/.git"), FOLDERS);
        assert!(there.is_protected());
        assert!(!Place::of_word(&word, None, FOLDERS).is_known());
    }

    #[test]
    fn what_holds_back_takes_what_may_be_meant() {
        let fits = |pattern: &str, text: &str, access| {
            let (pattern, whole) = (PathPattern::from(pattern), access == Access::Write);
            (
                place(text).fits(&pattern, Reach::Narrow, whole, FOLDERS),
                place(text).fits(&pattern, Reach::Wide, whole, FOLDERS),
            )
        };
        assert_eq!(fits("s/**", "s/a", Access::Read), (Fit::Yes, Fit::Yes));
        assert_eq!(fits("s/**", "x/../s/a", Access::Read), (Fit::No, Fit::Yes));
        assert_eq!(fits("s/**", "*/a", Access::Read), (Fit::No, Fit::Maybe));
        assert_eq!(fits("s/**", "$x", Access::Read), (Fit::No, Fit::Maybe));
        assert_eq!(fits("s/x/**", "s", Access::Write), (Fit::No, Fit::Maybe));
        assert_eq!(fits("s/x/**", "s", Access::Read), (Fit::No, Fit::No));
        assert_eq!(fits("s/x/**", "*", Access::Write), (Fit::No, Fit::Maybe));
        assert_eq!(fits("s/x/**", "*", Access::Read), (Fit::No, Fit::No));
        assert_eq!(fits("s/x/**", "t*", Access::Write), (Fit::No, Fit::No));
        assert_eq!(fits("~/.ssh/**", "/users/u/.ssh/x", Access::Read), (Fit::Yes, Fit::Yes));
        assert_eq!(fits("~/.ssh/**", "$HOME/.ssh/x", Access::Read), (Fit::Yes, Fit::Yes));
        assert_eq!(fits("/etc/**", "/etc/hosts", Access::Read), (Fit::Yes, Fit::Yes));
    }
}
