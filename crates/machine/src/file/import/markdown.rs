//! Commands of Claude Code and skills: a page of Markdown becomes a prompt.

use super::super::check::Cursor;
use super::super::{SourceError, prompt};
use super::front::{self, Remarks};
use super::write::{self, Input};
use super::{Imported, Kind, own_name, slug};

pub(super) fn import(text: &str, file: &str, kind: Kind) -> Result<Imported, Vec<SourceError>> {
    let page = front::split(text, file)?;
    let source = front::read(&page, file)?;
    let mut remarks = Remarks::default();
    let (mut name, mut description, mut version) =
        (own_name(file).to_owned(), String::new(), String::new());
    let mut arguments = String::new();
    if let Some(source) = &source {
        for (key, at) in Cursor::top(&source.value).entries() {
            let said = at.value.as_str().unwrap_or_default();
            match key {
                "name" if kind == Kind::Skill && !said.is_empty() => name = said.to_owned(),
                "description" if !said.is_empty() => description = said.to_owned(),
                "version" => version = said.to_owned(),
                "argument-hint" => arguments = one_line(at.value),
                "allowed-tools" | "disallowed-tools" => remarks.at(
                    source,
                    &at,
                    format!("{key}: a prompt has no tools of its own; name them in the step or agent that uses it (tools = […]), or in a policy"),
                ),
                "model" | "effort" => remarks.at(
                    source,
                    &at,
                    format!("{key}: a prompt has no model of its own; give it to the step (model = …) or to the run (--model)"),
                ),
                "hooks" => remarks.at(source, &at, "hooks: nothing runs beside a prompt; make them steps of a workflow"),
                _ => remarks.at(source, &at, format!("{key}: has no meaning here and is left out")),
            }
        }
    }
    let name = slug(&name, "imported");
    let body = Body::read(page.body, page.body_line, &mut remarks);
    if kind == Kind::Skill {
        remarks.line(1, "files beside SKILL.md are not copied; what the text says about them holds only where they are");
    }
    let inputs: Vec<Input> = body.inputs(&arguments);
    let made = write::prompt(&name, &description, &version, &body.text, &inputs);
    // Every brace of the page was written as a literal, so only an empty page can be refused.
    prompt::parse(&made.text, &made.path).map_err(|errors| relocated(errors, text, file))?;
    Ok(Imported { kind, name, files: vec![made], remarks: remarks.0 })
}

/// An error in what was made is shown at the top of what it was made from.
pub(super) fn relocated(errors: Vec<SourceError>, text: &str, file: &str) -> Vec<SourceError> {
    let at_top =
        |error: SourceError| super::source::error_at(file, text, 0..0, error.message, error.hint);
    errors.into_iter().map(at_top).collect()
}

fn one_line(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// A page's text as a template: its own places filled by inputs, everything else literal.
#[derive(Debug, Default)]
struct Body {
    text: String,
    uses_all: bool,
    /// The numbered arguments that are used.
    numbers: std::collections::BTreeSet<usize>,
}

impl Body {
    fn read(body: &str, first_line: usize, remarks: &mut Remarks) -> Body {
        let mut read = Body::default();
        for (at, line) in body.trim_end().lines().enumerate() {
            let number = first_line + at;
            read.line(line, number, remarks);
            read.text.push('\n');
        }
        let text = read.text.trim_start_matches('\n').to_owned();
        Body { text, ..read }
    }

    fn line(&mut self, line: &str, number: usize, remarks: &mut Remarks) {
        if line.contains("!`") {
            remarks.line(number, "!`command`: nothing is run when a prompt is made; put a shell step before it and name its text");
        }
        if names_a_file(line) {
            remarks.line(number, "@file: no file is put in its place; the words stay, and a model with tools can look");
        }
        let mut rest = line;
        while let Some(at) = rest.find(['$', '{']) {
            self.text.push_str(&rest[..at]);
            rest = &rest[at..];
            rest = if rest.starts_with('{') {
                self.brace(rest)
            } else {
                self.dollar(rest, number, remarks)
            };
        }
        self.text.push_str(rest);
    }

    /// Braces that would begin something in a template are written as the text that they are.
    fn brace<'l>(&mut self, rest: &'l str) -> &'l str {
        for opening in ["{{", "{%", "{#"] {
            if let Some(after) = rest.strip_prefix(opening) {
                self.text.push_str(&format!("{{{{ \"{opening}\" }}}}"));
                return after;
            }
        }
        let after = &rest[1..];
        // What an argument is written as begins with braces of its own.
        self.text.push_str(if after.starts_with('$') { "{{ \"{\" }}" } else { "{" });
        after
    }

    fn dollar<'l>(&mut self, rest: &'l str, number: usize, remarks: &mut Remarks) -> &'l str {
        let after = &rest[1..];
        if let Some(after) = after.strip_prefix("ARGUMENTS") {
            if let Some((index, after)) = indexed(after) {
                return self.numbered(index + 1, after);
            }
            self.uses_all = true;
            self.text.push_str("{{ inputs.arguments }}");
            return after;
        }
        if after.starts_with("{CLAUDE_") {
            remarks.line(number, "${CLAUDE_…}: there is no such variable here; the words stay");
        }
        let digits = after.chars().take_while(char::is_ascii_digit).count();
        let index = after[..digits].parse::<usize>().ok().filter(|index| (1..=20).contains(index));
        // `$100` and `$1.5` are amounts far more often than arguments.
        let is_amount = after[digits..].starts_with(['.', ','])
            && after[digits + 1..].starts_with(|c: char| c.is_ascii_digit());
        match index {
            Some(index) if digits <= 2 && !is_amount => self.numbered(index, &after[digits..]),
            _ => {
                self.text.push('$');
                after
            }
        }
    }

    fn numbered<'l>(&mut self, index: usize, after: &'l str) -> &'l str {
        self.numbers.insert(index);
        self.text.push_str(&format!("{{{{ inputs.argument_{index} }}}}"));
        after
    }

    fn inputs(&self, hint: &str) -> Vec<Input> {
        let empty = || Some(serde_json::Value::String(String::new()));
        let all = self.uses_all.then(|| Input {
            name: "arguments".to_owned(),
            kind: "string",
            description: hint.to_owned(),
            default: empty(),
            ..Input::default()
        });
        let numbered = self.numbers.iter().map(|index| Input {
            name: format!("argument_{index}"),
            kind: "string",
            description: hint.to_owned(),
            default: empty(),
            ..Input::default()
        });
        all.into_iter().chain(numbered).collect()
    }
}

/// `[3]` and what follows it.
fn indexed(text: &str) -> Option<(usize, &str)> {
    let (number, after) = text.strip_prefix('[')?.split_once(']')?;
    let number = number.parse::<usize>().ok().filter(|number| *number < 20)?;
    Some((number, after))
}

/// Whether a word begins with `@` and looks like a path.
fn names_a_file(line: &str) -> bool {
    line.split_whitespace().any(|word| {
        let path =
            word.trim_start_matches(['(', '`', '"', '\'']).strip_prefix('@').unwrap_or_default();
        path.starts_with(|c: char| c.is_alphanumeric() || matches!(c, '.' | '/' | '~'))
            && path.contains(['/', '.'])
    })
}
