//! Prompt files: `.txt` and `.md` are the text itself, `.toml` has `[meta]` and `[prompt]`.
//!
//! A prompt is a template. It is read here, so that a mistake in it is shown in the prompt's own file, whoever uses it.

use serde_json::Value;

use super::check::{Cursor, Problems, is_name, short, suggest};
use super::shape::prompt as shape;
use super::source::{self, Source};
use super::{Format, SourceError};
use crate::template::{Kind, Template};

/// A prompt as written.
#[derive(Debug, Clone, PartialEq)]
pub struct Prompt {
    /// Its name; that of the file if it gives none.
    pub name: String,
    /// For a person, and for the journal.
    pub version: String,
    /// For a person.
    pub description: String,
    /// The template.
    pub text: String,
    /// What it takes, if it says so. Whoever uses it has an input of each name, unless there is a default.
    pub inputs: Vec<PromptInput>,
}

/// Something that a prompt takes as `inputs.NAME`.
#[derive(Debug, Clone, PartialEq)]
pub struct PromptInput {
    /// Its name.
    pub name: String,
    /// What it must be; [`Kind::Any`] if it is not said.
    pub kind: Kind,
    /// Taken if whoever uses the prompt has no such input.
    pub default: Option<Value>,
    /// For a person.
    pub description: String,
}

const KINDS: [(&str, Kind); 6] = [
    ("string", Kind::Text),
    ("integer", Kind::Number),
    ("number", Kind::Number),
    ("boolean", Kind::Boolean),
    ("list", Kind::List),
    ("table", Kind::Table),
];

/// What helps against most mistakes in a template.
const PLACES: &str = "close {{ with }} and {% if … %} with {% endif %}; write {{ \"{{\" }} for two braces as they are";

/// Reads a prompt's file; its name's ending tells how it is written.
pub fn parse(text: &str, file: &str) -> Result<Prompt, Vec<SourceError>> {
    if file.ends_with(".toml") { parse_table(text, file) } else { parse_text(text, file) }
}

fn parse_text(text: &str, file: &str) -> Result<Prompt, Vec<SourceError>> {
    let error = |range, message: &str, hint: &str| {
        vec![source::error_at(file, text, range, message.to_owned(), Some(hint.to_owned()))]
    };
    if text.trim().is_empty() {
        return Err(error(0..0, "the prompt is empty", "write what the model is told"));
    }
    if let Some(at) = text.find('\0') {
        return Err(error(at..at + 1, "the prompt contains a NUL byte", "remove the character"));
    }
    Template::parse(text).map_err(|wrong| error(wrong.start..wrong.end, &wrong.message, PLACES))?;
    Ok(Prompt {
        name: stem(file),
        version: String::new(),
        description: String::new(),
        text: text.to_owned(),
        inputs: Vec::new(),
    })
}

fn parse_table(text: &str, file: &str) -> Result<Prompt, Vec<SourceError>> {
    let source = Source::read(file, text, Format::Toml)?;
    let mut problems = Problems::default();
    let top = Cursor::top(&source.value);
    top.keys(&mut problems, &shape::TOP);
    let mut prompt = Prompt {
        name: stem(file),
        version: String::new(),
        description: String::new(),
        text: String::new(),
        inputs: Vec::new(),
    };
    if let Some(meta) = top.get("meta") {
        read_meta(&meta, &mut prompt, &mut problems);
    }
    match top.get("prompt") {
        Some(table) => read_prompt(&table, &mut prompt, &mut problems),
        None => {
            let hint = "write [prompt] and below it text = \"\"\"…\"\"\"".to_owned();
            problems.push(&top, "the file has no [prompt]", Some(hint));
        }
    }
    if problems.is_empty() { Ok(prompt) } else { Err(source.errors(problems)) }
}

fn read_meta(at: &Cursor<'_>, prompt: &mut Prompt, problems: &mut Problems) {
    at.keys(problems, &shape::META);
    if let Some(name) = at.get("name").and_then(|name| name.name(problems)) {
        name.clone_into(&mut prompt.name);
    }
    let text = |key: &str, problems: &mut Problems| {
        at.get(key).and_then(|text| text.text(problems)).unwrap_or_default().to_owned()
    };
    prompt.version = text("version", problems);
    prompt.description = text("description", problems);
}

fn read_prompt(at: &Cursor<'_>, prompt: &mut Prompt, problems: &mut Problems) {
    at.keys(problems, &shape::PROMPT);
    let declared = at.get("inputs");
    if let Some(inputs) = &declared {
        prompt.inputs = read_inputs(inputs, problems);
    }
    let Some(given) = at.need(problems, "text") else { return };
    let Some(words) = given.text(problems) else { return };
    words.clone_into(&mut prompt.text);
    if words.trim().is_empty() {
        problems.push(
            &given,
            "the prompt is empty",
            Some("write what the model is told".to_owned()),
        );
        return;
    }
    match Template::parse(words) {
        Err(wrong) => {
            let hint = Some(PLACES.to_owned());
            problems.push_within(&given, (wrong.start, wrong.end), wrong.message, hint);
        }
        Ok(template) if declared.is_some() => {
            for used in template.uses() {
                let [first, name, ..] = used.path.as_slice() else { continue };
                if first != "inputs" || prompt.inputs.iter().any(|input| input.name == *name) {
                    continue;
                }
                let hint = suggest(name, prompt.inputs.iter().map(|input| input.name.as_str()))
                    .or_else(|| Some(format!("declare it: [prompt.inputs.{name}]")));
                let message = format!("the prompt takes no input {name:?}");
                problems.push_within(&given, (used.start, used.end), message, hint);
            }
        }
        Ok(_) => {}
    }
}

fn read_inputs(at: &Cursor<'_>, problems: &mut Problems) -> Vec<PromptInput> {
    if !at.value.is_object() {
        at.wrong(problems, "a table of inputs");
    }
    let mut inputs = Vec::new();
    for (name, entry) in at.entries() {
        if !is_word(name) {
            let message = format!("{name:?} cannot be the name of an input");
            problems.push_key(&entry, message, Some("letters, digits and _".to_owned()));
        }
        entry.keys(problems, &shape::INPUT);
        let words = KINDS.map(|(word, _)| word);
        let kind = entry.get("type").and_then(|given| given.choice(problems, &words));
        let kind = KINDS.iter().find(|(word, _)| Some(*word) == kind).map_or(Kind::Any, |it| it.1);
        let default = entry.get("default");
        if let Some(default) = &default
            && kind != Kind::Any
            && Kind::of(default.value) != kind
        {
            let message = format!(
                "the default of {name:?} must be {}, and is {}",
                kind.words(),
                short(default.value)
            );
            problems.push(default, message, Some("change the default, or the type".to_owned()));
        }
        let description = entry.get("description").and_then(|text| text.text(problems));
        inputs.push(PromptInput {
            name: name.to_owned(),
            kind,
            default: default.map(|default| default.value.clone()),
            description: description.unwrap_or_default().to_owned(),
        });
    }
    inputs
}

/// True if it can follow a dot in a template.
fn is_word(name: &str) -> bool {
    name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && !name.is_empty()
}

/// The file's name without folders and ending, if it can be a name.
fn stem(file: &str) -> String {
    let name = file.rsplit(['/', '\\']).next().unwrap_or(file);
    let name = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
    if is_name(name) { name.to_owned() } else { "prompt".to_owned() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const WHOLE: &str = r#"
[meta]
name = "review"
version = "1.2"
description = "How we review"

[prompt]
text = """
Review {{ inputs.files|join(", ") }} with care {{ inputs.care }}.
"""
[prompt.inputs.files]
type = "list"
[prompt.inputs.care]
type = "string"
default = "and kindness"
description = "how"
"#;

    fn shown(read: Result<Prompt, Vec<SourceError>>) -> String {
        let errors = read.unwrap_err();
        errors.iter().map(SourceError::to_string).collect::<Vec<_>>().join("\n\n")
    }

    #[test]
    fn a_text_is_taken_as_it_is() {
        for file in ["prompts/terse.txt", "terse.md"] {
            let prompt = parse("# Be brief\n\nNo more.\n", file).unwrap();
            assert_eq!(
                (prompt.name.as_str(), prompt.text.as_str()),
                ("terse", "# Be brief\n\nNo more.\n")
            );
            assert!(prompt.version.is_empty() && prompt.inputs.is_empty());
        }
        let front = parse("---\ntitle: x\n---\nText", "a.md").unwrap();
        assert!(front.text.starts_with("---"), "what stands first in a text is text");
    }

    #[test]
    fn every_key_of_a_table_arrives() {
        let prompt = parse(WHOLE, "review.toml").unwrap();
        assert_eq!(prompt.name, "review");
        assert_eq!(prompt.version, "1.2");
        assert_eq!(prompt.description, "How we review");
        assert!(prompt.text.starts_with("Review {{"));
        let care = PromptInput {
            name: "care".to_owned(),
            kind: Kind::Text,
            default: Some("and kindness".into()),
            description: "how".to_owned(),
        };
        assert_eq!(prompt.inputs[0], care);
        assert_eq!(prompt.inputs[1].kind, Kind::List);
        assert_eq!(parse("[prompt]\ntext = \"x\"", "dir/other.toml").unwrap().name, "other");
    }

    #[test]
    fn the_place_of_a_mistake_is_inside_the_text() {
        let text =
            "[prompt]\ntext = \"\"\"\nFirst line\nSee {{ inputs.x|nothing }} there\n\"\"\"\n";
        insta::assert_snapshot!(shown(parse(text, "a.toml")), @r#"
        error: unknown filter "nothing": expected one of abs, bool, capitalize, count, d, default, dictsort, first, float, int, items, last, length, lines, list, lower, map, max, min, reject, rejectattr, reverse, round, select, selectattr, sort, split, sum, title, trim, unique, upper, indent, join, quote, replace, string, tojson
         --> a.toml:4:17
          |
        4 | See {{ inputs.x|nothing }} there
          |                 ^^^^^^^
          = help: close {{ with }} and {% if … %} with {% endif %}; write {{ "{{" }} for two braces as they are
        "#);
        insta::assert_snapshot!(shown(parse("one\ntwo {{ x", "a.txt")), @r#"
        error: cannot read the template: unexpected end of input, expected end of variable block
         --> a.txt:2:8
          |
        2 | two {{ x
          |        ^
          = help: close {{ with }} and {% if … %} with {% endif %}; write {{ "{{" }} for two braces as they are
        "#);
        let escaped = "[prompt]\ntext = \"tab \\t {{ x|nothing }}\"\n";
        insta::assert_snapshot!(shown(parse(escaped, "a.toml")), @r#"
        error: unknown filter "nothing": expected one of abs, bool, capitalize, count, d, default, dictsort, first, float, int, items, last, length, lines, list, lower, map, max, min, reject, rejectattr, reverse, round, select, selectattr, sort, split, sum, title, trim, unique, upper, indent, join, quote, replace, string, tojson
         --> a.toml:2:8
          |
        2 | text = "tab \t {{ x|nothing }}"
          |        ^^^^^^^^^^^^^^^^^^^^^^^^
          = help: close {{ with }} and {% if … %} with {% endif %}; write {{ "{{" }} for two braces as they are
        "#);
    }

    #[test]
    fn all_that_is_wrong_is_said_at_once() {
        let text = r#"
[meta]
name = "a/b"
version = 1.0
author = "x"
[prompt]
text = "Use {{ inputs.fils }}"
[prompt.inputs.files]
type = "lst"
[prompt.inputs."a-b"]
[prompt.inputs.count]
type = "integer"
default = "three"
"#;
        insta::assert_snapshot!(shown(parse(text, "a.toml")), @r#"
        error: "a/b" is not a name
         --> a.toml:3:8
          |
        3 | name = "a/b"
          |        ^^^^^
          = help: names are made of letters, digits, _ . and -, up to 100 of them

        error: expected text, got 1.0
         --> a.toml:4:11
          |
        4 | version = 1.0
          |           ^^^
          = help: put it in quotes: "1.0"

        error: unknown key "author" in [meta]
         --> a.toml:5:1
          |
        5 | author = "x"
          | ^^^^^^
          = help: expected name, version, description

        error: the prompt takes no input "fils"
         --> a.toml:7:16
          |
        7 | text = "Use {{ inputs.fils }}"
          |                ^^^^^^^^^^^
          = help: did you mean "files"?

        error: "lst" must be one of string, integer, number, boolean, list, table
         --> a.toml:9:8
          |
        9 | type = "lst"
          |        ^^^^^
          = help: did you mean "list"?

        error: "a-b" cannot be the name of an input
          --> a.toml:10:16
           |
        10 | [prompt.inputs."a-b"]
           |                ^^^^^
           = help: letters, digits and _

        error: the default of "count" must be a number, and is "three"
          --> a.toml:13:11
           |
        13 | default = "three"
           |           ^^^^^^^
           = help: change the default, or the type
        "#);
    }

    #[test]
    fn what_is_no_prompt_is_refused() {
        for (text, file, said) in [
            ("", "a.txt", "empty"),
            ("  \n", "a.md", "empty"),
            ("a\0b", "a.txt", "NUL"),
            ("[meta]\nname = \"x\"", "a.toml", "no [prompt]"),
            ("[prompt]", "a.toml", "\"text\" is missing"),
            ("[prompt]\ntext = \" \"", "a.toml", "the prompt is empty"),
            ("[prompt]\ntext = 3", "a.toml", "expected text"),
            ("[prompt]\ntext = \"x\"\ninputs = 3", "a.toml", "a table of inputs"),
            ("just text", "a.toml", "expected"),
        ] {
            let shown = shown(parse(text, file));
            assert!(shown.contains(said), "{text:?}: {shown}");
        }
        let long = "x".repeat(2 << 20);
        assert!(shown(parse(&long, "a.txt")).contains("at most"));
    }

    proptest! {
        #[test]
        fn any_text_is_a_prompt_or_an_error_with_a_place(text in "\\PC{0,60}") {
            if let Err(errors) = parse(&text, "a.txt") {
                prop_assert!(errors.iter().all(|error| error.line >= 1 && error.column >= 1));
            }
        }
    }
}
