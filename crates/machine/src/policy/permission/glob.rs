//! Patterns of names and paths, without a file system: `*`, `?`, `[…]` and, between slashes, `**`.

use serde::{Deserialize, Serialize};

/// How far a pattern goes: what allows means exactly what it says, what holds back also what lies below.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// Only what the pattern says.
    Narrow,
    /// And everything below it.
    Wide,
}

/// Longer texts are not compared with each other pattern by pattern.
const MAX_MEETING: usize = 512;

/// Whether a text matches a pattern of one name. Nothing is allocated: this is compared for every word and rule.
pub(super) fn matches(pattern: &str, text: &str) -> bool {
    let Some(plain) = pattern.find(['*', '?', '[']) else { return pattern == text };
    if !text.starts_with(&pattern[..plain]) {
        return false;
    }
    let (mut p, mut t) = (plain, plain);
    // Where the last `*` stands, and how far it reaches in the text so far.
    let mut star: Option<(usize, usize)> = None;
    while let Some(c) = text[t..].chars().next() {
        if pattern[p..].starts_with('*') {
            p += 1;
            star = Some((p, t));
        } else if let Some(length) = one(&pattern[p..], c) {
            p += length;
            t += c.len_utf8();
        } else if let Some((after, reached)) = star {
            let more = text[reached..].chars().next().map_or(1, char::len_utf8);
            (p, t) = (after, reached + more);
            star = Some((after, t));
        } else {
            return false;
        }
    }
    pattern[p..].bytes().all(|byte| byte == b'*')
}

/// How many bytes of the pattern stand for this character, if they do.
fn one(pattern: &str, c: char) -> Option<usize> {
    match pattern.chars().next()? {
        '?' => Some(1),
        '[' => {
            let body = &pattern[1..];
            let first = body.chars().next()?.len_utf8();
            let end = first + body[first..].find(']')?;
            let set = &body[..end];
            let inner = set.strip_prefix(['!', '^']);
            let chars: Vec<char> = inner.unwrap_or(set).chars().collect();
            let ranged = chars.windows(3).any(|r| r[1] == '-' && r[0] <= c && c <= r[2]);
            ((chars.contains(&c) || ranged) != inner.is_some()).then_some(end + 2)
        }
        first => (first == c).then_some(first.len_utf8()),
    }
}

/// Whether some text matches both patterns of one name. Sets of characters count as any character.
pub(super) fn meets(left: &str, right: &str) -> bool {
    let (left, right) = (loosened(left), loosened(right));
    if left.len() > MAX_MEETING || right.len() > MAX_MEETING {
        return true;
    }
    // row[j]: the rest of left from i and the rest of right from j can be the same text.
    let mut row = vec![false; right.len() + 1];
    for i in (0..=left.len()).rev() {
        let below = row.clone();
        for j in (0..=right.len()).rev() {
            let (l, r) = (left.get(i), right.get(j));
            row[j] = match (l, r) {
                (None, None) => true,
                (Some('*'), Some('*')) => below[j] || row[j + 1],
                (Some('*'), Some(_)) => below[j] || row[j + 1],
                (Some('*'), None) => below[j],
                (Some(_), Some('*')) => row[j + 1] || below[j],
                (None, Some('*')) => row[j + 1],
                (Some(l), Some(r)) => (l == r || *l == '?' || *r == '?') && below[j + 1],
                (Some(_), None) | (None, Some(_)) => false,
            };
        }
    }
    row[0]
}

fn loosened(pattern: &str) -> Vec<char> {
    let mut chars = pattern.chars();
    let mut loose = Vec::new();
    while let Some(c) = chars.next() {
        if c == '[' && chars.clone().skip(1).any(|c| c == ']') {
            chars.next();
            for c in chars.by_ref() {
                if c == ']' {
                    break;
                }
            }
            loose.push('?');
        } else {
            loose.push(c);
        }
    }
    loose
}

/// A pattern of paths, as a rule writes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct PathPattern {
    text: String,
    anchor: Anchor,
    segments: Vec<String>,
}

/// What a pattern of paths is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Anchor {
    /// A single name: wherever it stands.
    Name,
    /// From the workspace on.
    Workspace,
    /// From the root on.
    Root,
    /// From the user's own folder on.
    Home,
}

impl From<String> for PathPattern {
    fn from(text: String) -> PathPattern {
        let (anchor, rest) = if let Some(rest) = text.strip_prefix("~/") {
            (Anchor::Home, rest)
        } else if text == "~" {
            (Anchor::Home, "")
        } else if let Some(rest) = text.strip_prefix('/') {
            (Anchor::Root, rest)
        } else if text.trim_end_matches('/').contains('/') {
            (Anchor::Workspace, text.strip_prefix("./").unwrap_or(&text))
        } else if matches!(text.as_str(), "." | "**") {
            (Anchor::Workspace, if text == "." { "" } else { "**" })
        } else {
            (Anchor::Name, text.as_str())
        };
        let segments =
            rest.split('/').filter(|name| !name.is_empty() && *name != ".").map(str::to_owned);
        PathPattern { anchor, segments: segments.collect(), text }
    }
}

impl From<&str> for PathPattern {
    fn from(text: &str) -> PathPattern {
        PathPattern::from(text.to_owned())
    }
}

impl From<PathPattern> for String {
    fn from(pattern: PathPattern) -> String {
        pattern.text
    }
}

impl PathPattern {
    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn anchor(&self) -> Anchor {
        self.anchor
    }

    /// Whether it is a single name, which is meant wherever it stands.
    pub(crate) fn is_name(&self) -> bool {
        self.anchor == Anchor::Name
    }

    /// Whether a path below the workspace is what the pattern says, or lies below that.
    pub(crate) fn covers(&self, path: &str) -> bool {
        self.takes(path, Reach::Wide, matches)
    }

    /// Whether a path below the workspace is exactly what the pattern says.
    pub(crate) fn names(&self, path: &str) -> bool {
        self.takes(path, Reach::Narrow, matches)
    }

    /// Whether a path is a folder on the way to what the pattern says, as far as that can be told without knowing any
    /// file: behind `**` nothing can.
    pub(crate) fn is_on_the_way(&self, path: &str) -> bool {
        if self.anchor == Anchor::Name {
            return false;
        }
        let mut segments = self.segments.iter();
        for name in path.split('/').filter(|name| !name.is_empty()) {
            match segments.next() {
                None => return false,
                Some(segment) if segment == "**" => return false,
                Some(segment) if !matches(segment, name) => return false,
                Some(_) => {}
            }
        }
        segments.next().is_some()
    }

    /// Whether a path, from the anchor on and without a slash in front, matches.
    pub(super) fn takes(&self, path: &str, reach: Reach, by: fn(&str, &str) -> bool) -> bool {
        let mut names = path.split('/').filter(|name| !name.is_empty());
        match (self.anchor, self.segments.first(), reach) {
            (Anchor::Name, Some(name), Reach::Narrow) => {
                names.next_back().is_some_and(|last| by(name, last))
            }
            (Anchor::Name, Some(name), Reach::Wide) => names.any(|part| by(name, part)),
            (Anchor::Name, None, _) => false,
            _ => walk(&self.segments, path, reach, by),
        }
    }

    /// Whether something that matches can lie below a path.
    pub(super) fn lies_below(&self, path: &str, by: fn(&str, &str) -> bool) -> bool {
        if self.anchor == Anchor::Name {
            return false;
        }
        let mut segments = self.segments.iter();
        for name in path.split('/').filter(|name| !name.is_empty()) {
            match segments.next() {
                None => return false,
                // From the first wildcard on, anything may be meant.
                Some(segment) if segment.contains(['*', '?', '[']) => return true,
                Some(segment) if !by(segment, name) => return false,
                Some(_) => {}
            }
        }
        segments.next().is_some()
    }
}

fn walk(pattern: &[String], path: &str, reach: Reach, by: fn(&str, &str) -> bool) -> bool {
    let Some((first, rest)) = pattern.split_first() else {
        return path.is_empty() || reach == Reach::Wide;
    };
    let (name, below) = path.split_once('/').unwrap_or((path, ""));
    if first == "**" {
        return walk(rest, path, reach, by)
            || (!path.is_empty() && walk(pattern, below, reach, by));
    }
    !path.is_empty() && by(first, name) && walk(rest, below, reach, by)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_match_as_in_a_shell() {
        for (pattern, text) in [
            ("*", ""),
            ("*.rs", "a.rs"),
            ("a*b*c", "axxbxc"),
            ("?", "é"),
            ("[a-c]x", "bx"),
            ("[!a]", "b"),
            ("**", "x"),
            ("id_rsa*", "id_rsa"),
        ] {
            assert!(matches(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in
            [("*.rs", "a.rsx"), ("?", ""), ("[a-c]x", "dx"), ("[a", "a"), ("a", "ab")]
        {
            assert!(!matches(pattern, text), "{pattern} {text}");
        }
    }

    #[test]
    fn paths_match_from_their_anchor() {
        let takes = |pattern: &str, path: &str, reach| {
            PathPattern::from(pattern).takes(path, reach, matches)
        };
        assert!(takes("src/**", "src/a/b.rs", Reach::Narrow));
        assert!(takes("src/**", "src", Reach::Narrow));
        assert!(takes("src/**/b.rs", "src/b.rs", Reach::Narrow));
        assert!(!takes("src/*", "src/a/b.rs", Reach::Narrow));
        assert!(takes("src/*", "src/a/b.rs", Reach::Wide));
        assert!(!takes("src/**", "lib/src/a", Reach::Wide));
        assert!(takes("*.pem", "deep/er/a.pem", Reach::Narrow));
        assert!(takes("secrets", "a/secrets/b", Reach::Wide));
        assert!(!takes("secrets", "a/secrets/b", Reach::Narrow));
    }

    #[test]
    fn what_lies_below_a_folder_is_seen_from_it() {
        let below = |pattern: &str, path: &str| PathPattern::from(pattern).lies_below(path, meets);
        assert!(below("a/secrets/**", "a"));
        assert!(below("a/secrets/**", ""));
        assert!(!below("a/secrets/**", "b"));
        assert!(!below("*.pem", "a"));
        assert!(below("a/secrets/**", "*"));
        assert!(!below("a/secrets/**", "b*"));
    }

    proptest! {
        #[test]
        fn what_matches_two_patterns_shows_that_they_meet(
            left in "[ab*?]{0,6}", right in "[ab*?]{0,6}", text in "[ab]{0,5}"
        ) {
            if matches(&left, &text) && matches(&right, &text) {
                prop_assert!(meets(&left, &right));
            }
        }

        #[test]
        fn matching_ends_and_a_text_matches_itself(text in "[a-z./]{0,20}", pattern in ".{0,20}") {
            prop_assert!(matches(&text, &text));
            matches(&pattern, &text);
            meets(&pattern, &text);
        }
    }
}
