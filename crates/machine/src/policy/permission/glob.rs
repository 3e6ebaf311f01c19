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

/// Whether a text matches a pattern of one name.
pub(super) fn matches(pattern: &str, text: &str) -> bool {
    if !pattern.contains(['*', '?', '[']) {
        return pattern == text;
    }
    let (pattern, text): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), text.chars().collect());
    let (mut p, mut t) = (0, 0);
    // Where to go on if the last `*` has to take one more character.
    let mut retry: Option<(usize, usize)> = None;
    while t < text.len() {
        if pattern.get(p) == Some(&'*') {
            retry = Some((p + 1, t + 1));
            p += 1;
        } else if let Some(length) = pattern.get(p..).and_then(|rest| one(rest, text[t])) {
            p += length;
            t += 1;
        } else if let Some((again, taken)) = retry {
            (p, t) = (again, taken);
            retry = Some((again, taken + 1));
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

/// How many characters of the pattern stand for this one, if they do.
fn one(pattern: &[char], c: char) -> Option<usize> {
    match pattern.first()? {
        '?' => Some(1),
        '[' => {
            let end = 2 + pattern.get(2..)?.iter().position(|c| *c == ']')?;
            let negated = matches!(pattern[1], '!' | '^');
            let set = &pattern[if negated { 2 } else { 1 }..end];
            let ranged = set.windows(3).any(|r| r[1] == '-' && r[0] <= c && c <= r[2]);
            ((set.contains(&c) || ranged) != negated).then_some(end + 1)
        }
        first => (*first == c).then_some(1),
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

    /// Whether a path of these names, from the anchor on, matches.
    pub(super) fn takes(&self, names: &[&str], reach: Reach, by: fn(&str, &str) -> bool) -> bool {
        match (self.anchor, self.segments.first(), reach) {
            (Anchor::Name, Some(name), Reach::Narrow) => {
                names.last().is_some_and(|last| by(name, last))
            }
            (Anchor::Name, Some(name), Reach::Wide) => names.iter().any(|part| by(name, part)),
            (Anchor::Name, None, _) => false,
            _ => walk(&self.segments, names, reach, by),
        }
    }

    /// Whether something that matches can lie below a path of these names.
    pub(super) fn lies_below(&self, names: &[&str]) -> bool {
        let plain = self.segments.iter().take_while(|name| !name.contains(['*', '?', '[']));
        let plain: Vec<&str> = plain.map(String::as_str).collect();
        let shared = plain.len().min(names.len());
        self.anchor != Anchor::Name && names[..shared] == plain[..shared] && {
            names.len() < self.segments.len() && (shared == names.len() || shared == plain.len())
        }
    }
}

fn walk(pattern: &[String], names: &[&str], reach: Reach, by: fn(&str, &str) -> bool) -> bool {
    match (pattern.split_first(), names.split_first()) {
        (None, None) => true,
        (None, Some(_)) => reach == Reach::Wide,
        (Some((first, rest)), _) if first == "**" => {
            walk(rest, names, reach, by)
                || names.split_first().is_some_and(|(_, names)| walk(pattern, names, reach, by))
        }
        (Some(_), None) => false,
        (Some((first, pattern)), Some((name, names))) => {
            by(first, name) && walk(pattern, names, reach, by)
        }
    }
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
            let names: Vec<&str> = path.split('/').filter(|name| !name.is_empty()).collect();
            PathPattern::from(pattern).takes(&names, reach, matches)
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
        let below = |pattern: &str, path: &str| {
            let names: Vec<&str> = path.split('/').filter(|name| !name.is_empty()).collect();
            PathPattern::from(pattern).lies_below(&names)
        };
        assert!(below("a/secrets/**", "a"));
        assert!(below("a/secrets/**", ""));
        assert!(!below("a/secrets/**", "b"));
        assert!(!below("*.pem", "a"));
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
