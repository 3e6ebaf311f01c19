//! `WORKFLOW.md`: front matter for a service that works on a tracker's issues, and a prompt for each of them.

use serde_json::Value;

use super::super::check::Cursor;
use super::super::source::Source;
use super::super::{SourceError, prompt};
use super::front::{self, Remarks};
use super::markdown::relocated;
use super::recipe::with_inputs;
use super::write::{self, Input};
use super::{Imported, Kind, NewFile, own_name, slug};

pub(super) fn import(text: &str, file: &str) -> Result<Imported, Vec<SourceError>> {
    let page = front::split(text, file)?;
    let source = front::read(&page, file)?;
    let mut remarks = Remarks::default();
    let mut made = Made::default();
    if let Some(source) = &source {
        for (key, at) in Cursor::top(&source.value).entries() {
            made.key(key, &at, source, &mut remarks);
        }
    }
    let name = slug(own_name(file), "work-on-issue");
    let inputs = [
        Input {
            name: "issue".to_owned(),
            kind: "table",
            description: "identifier, title, description and whatever else the prompt names"
                .to_owned(),
            ..Input::default()
        },
        Input {
            name: "attempt".to_owned(),
            kind: "integer",
            description: "how often it was tried before".to_owned(),
            default: Some(0.into()),
            ..Input::default()
        },
    ];
    let body = liquid(page.body.trim());
    let (said, used) = with_inputs(&body, &inputs, page.body_line, "page", &mut remarks);
    let inputs: Vec<Input> =
        inputs.into_iter().filter(|input| used.contains(&input.name)).collect();
    let mut files = vec![write::prompt(&name, "", "", &said, &inputs)];
    prompt::parse(&files[0].text, &files[0].path)
        .map_err(|errors| relocated(errors, text, file))?;
    files.push(NewFile {
        path: format!("workflows/{name}.toml"),
        text: made.workflow(&name, &inputs),
    });
    Ok(Imported { kind: Kind::Page, name, files, remarks: remarks.0 })
}

/// The words of Liquid that ours has under another name.
fn liquid(body: &str) -> String {
    let mut text = body.to_owned();
    for space in ["{% ", "{%- "] {
        text = text.replace(&format!("{space}elsif "), &format!("{space}elif "));
    }
    text
}

#[derive(Debug, Default)]
struct Made {
    before: Vec<(&'static str, String)>,
    after: Vec<(&'static str, String)>,
    max_turns: Option<u64>,
    timeout: Option<u64>,
}

impl Made {
    fn key(&mut self, key: &str, at: &Cursor<'_>, source: &Source<'_>, remarks: &mut Remarks) {
        match key {
            "tracker" => remarks.at(
                source,
                at,
                "tracker: no tracker is asked; give an issue with --input issue=…",
            ),
            "polling" => {
                remarks.at(source, at, "polling: nothing is polled; start a task for each issue")
            }
            "workspace" => remarks.at(
                source,
                at,
                "workspace: each task has a worktree of its own; the folder is not carried",
            ),
            "hooks" => self.hooks(at, source, remarks),
            "agent" => {
                for (key, given) in at.entries() {
                    match (key, given.value.as_u64()) {
                        ("max_turns", Some(most)) if most > 0 => self.max_turns = Some(most),
                        ("max_concurrent_agents", _) => remarks.at(source, &given, "agent: max_concurrent_agents: each run is one task; start as many as you like"),
                        _ => remarks.at(source, &given, format!("agent: {key}: has no meaning here and is left out")),
                    }
                }
            }
            "codex" => {
                for (key, given) in at.entries() {
                    match (key, given.value.as_u64()) {
                        ("turn_timeout_ms", Some(most)) if most >= 1000 => self.timeout = Some(most / 1000),
                        ("command", _) => remarks.at(source, &given, "codex: command: no program is taken over from a page; the agent codex is used"),
                        ("approval_policy" | "thread_sandbox" | "turn_sandbox_policy", _) => {
                            remarks.at(source, &given, format!("codex: {key}: the gate and the sandbox of drivetrain decide; write a policy"));
                        }
                        _ => remarks.at(source, &given, format!("codex: {key}: has no meaning here and is left out")),
                    }
                }
            }
            _ => remarks.at(source, at, format!("{key}: has no meaning here and is left out")),
        }
    }

    fn hooks(&mut self, at: &Cursor<'_>, source: &Source<'_>, remarks: &mut Remarks) {
        for (key, given) in at.entries() {
            let command = given.value.as_str().map(str::trim).filter(|command| !command.is_empty());
            match (key, command) {
                ("after_create", Some(command)) => {
                    self.before.insert(0, ("after-create", command.to_owned()))
                }
                ("before_run", Some(command)) => {
                    self.before.push(("before-run", command.to_owned()))
                }
                ("after_run", Some(command)) => self.after.push(("after-run", command.to_owned())),
                _ => remarks.at(
                    source,
                    &given,
                    format!("hooks: {key}: has no place here and is left out"),
                ),
            }
        }
    }

    fn workflow(&self, name: &str, inputs: &[Input]) -> String {
        let mut lines = format!("[workflow]\nname = {}\n", write::text(name));
        inputs.iter().for_each(|input| lines.push_str(&input.table("workflow", false)));
        if let Some(most) = self.max_turns {
            lines.push_str(&format!("\n[workflow.budget]\nmax_turns = {most}\n"));
        }
        for (step, command) in &self.before {
            lines.push_str(&shell(step, command, ""));
        }
        lines.push_str(&format!("\n[[workflow.steps]]\nname = \"work\"\nagent = \"codex\"\nprompt = \"@prompts/{name}\"\n"));
        if let Some(seconds) = self.timeout {
            lines.push_str(&format!("timeout = \"{seconds}s\"\n"));
        }
        for (step, command) in &self.after {
            lines.push_str(&shell(step, command, "on_error = \"skip\"\n"));
        }
        lines
    }
}

/// A shell step. Strings of parameters are templates, so braces of the command are written as text.
fn shell(name: &str, command: &str, more: &str) -> String {
    let command = write::value(&Value::String(super::recipe::literal(command))).unwrap_or_default();
    format!(
        "\n[[workflow.steps]]\nname = \"{name}\"\ntool = \"shell\"\nparameters = {{ command = {command} }}\n{more}"
    )
}
