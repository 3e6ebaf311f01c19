//! `@prompts/name` and `@workflows/name`: a value that stands for a file.
//!
//! A value that begins with `@` is a reference as a whole. A text that really begins with `@` is written with two of them.
//! Nothing in a reference is a path: it has one of two beginnings and a plain name.

use super::check::{NAME_RULE, is_name, short, suggest};
use super::lookup::Kind;

/// What a value refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    /// Of what kind it is: a prompt or a workflow.
    pub kind: Kind,
    /// Its name.
    pub name: String,
}

/// Something that begins with `@` and is no reference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoReference {
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
    /// The bytes of the value that are meant.
    pub start: usize,
    /// The byte after them.
    pub end: usize,
}

const KINDS: [Kind; 2] = [Kind::Prompt, Kind::Workflow];

/// The reference that a value is, if it begins with a single `@`; nothing for an ordinary text.
pub fn read(value: &str) -> Result<Option<Reference>, NoReference> {
    let Some(rest) = value.strip_prefix('@') else { return Ok(None) };
    if rest.starts_with('@') {
        return Ok(None);
    }
    let wrong = |message: String, hint: Option<String>, start: usize| NoReference {
        message,
        hint,
        start,
        end: value.len(),
    };
    let shown = short(&value.into());
    let (folder, name) = rest.split_once('/').unwrap_or((rest, ""));
    let Some(kind) = KINDS.into_iter().find(|kind| kind.folder() == folder) else {
        let hint = suggest(folder, KINDS.iter().map(|kind| kind.folder())).unwrap_or_else(|| {
            "write @prompts/NAME or @workflows/NAME; a text that begins with @ is written with @@"
                .to_owned()
        });
        return Err(wrong(format!("{shown} is not a reference"), Some(hint), 0));
    };
    if !is_name(name) {
        let message = format!("{shown} does not name a file of {folder}");
        let hint = format!("a reference is @{folder}/NAME: {NAME_RULE}");
        return Err(wrong(message, Some(hint), value.len() - name.len()));
    }
    Ok(Some(Reference { kind, name: name.to_owned() }))
}

/// An ordinary text as it is meant: `@@` at its beginning is one `@`.
pub fn literal(value: &str) -> &str {
    if value.starts_with("@@") { &value[1..] } else { value }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_two_kinds_are_read() {
        let of = |kind, name: &str| Ok(Some(Reference { kind, name: name.to_owned() }));
        assert_eq!(read("@prompts/terse"), of(Kind::Prompt, "terse"));
        assert_eq!(read("@workflows/validate-fix"), of(Kind::Workflow, "validate-fix"));
        assert_eq!(read("plain"), Ok(None));
        assert_eq!(read(""), Ok(None));
        assert_eq!(read("mail me @ home"), Ok(None));
    }

    #[test]
    fn two_of_them_are_one_in_the_text() {
        assert_eq!(read("@@prompts/terse"), Ok(None));
        assert_eq!(literal("@@prompts/terse"), "@prompts/terse");
        assert_eq!(literal("@@@x"), "@@x");
        assert_eq!(literal("x@@y"), "x@@y");
    }

    #[test]
    fn what_could_lead_elsewhere_is_refused_with_its_place() {
        for hostile in [
            "@",
            "@/etc/passwd",
            "@../x",
            "@prompts",
            "@prompts/",
            "@prompts/../../etc/passwd",
            "@prompts/..",
            "@prompts/.",
            "@prompts//x",
            "@prompts/a/b",
            "@prompts\\x",
            "@prompts/a\\b",
            "@prompts/a\0b",
            "@prompts/a b",
            "@prompts/a\n",
            "@prompts/\u{2024}\u{2024}",
            "@prompts/~",
            "@prompts/$HOME",
            "@prompts/C:x",
            "@PROMPTS/x",
            "@promts/x",
            "@agents/x",
            "@file:///etc/passwd",
        ] {
            let error = read(hostile).unwrap_err();
            assert!(error.end == hostile.len() && error.start <= error.end, "{hostile:?}");
            assert!(error.hint.is_some(), "{hostile:?}");
        }
        assert_eq!(read("@promts/x").unwrap_err().hint.unwrap(), "did you mean \"prompts\"?");
        let long = format!("@prompts/{}", "a".repeat(101));
        assert!(read(&long).is_err());
    }

    proptest! {
        #[test]
        fn whatever_is_read_is_a_plain_name(text in "@{0,3}(prompts|workflows|agents|\\PC{0,8})?/?\\PC{0,20}") {
            match read(&text) {
                Ok(Some(reference)) => {
                    prop_assert!(is_name(&reference.name));
                    prop_assert_eq!(format!("@{}/{}", reference.kind.folder(), reference.name), text);
                }
                Ok(None) => prop_assert!(!text.starts_with('@') || text.starts_with("@@")),
                Err(error) => {
                    prop_assert!(text.starts_with('@'));
                    prop_assert!(text.get(error.start..error.end).is_some());
                }
            }
        }
    }
}
