//! Recipes of goose: a prompt, its instructions, and a workflow with inputs, checks and one question to a model.

use serde_json::Value;

use super::super::check::Cursor;
use super::super::source::{self, Source};
use super::super::{Format, SourceError, prompt};
use super::front::Remarks;
use super::markdown::relocated;
use super::write::{self, Input};
use super::{Imported, Kind, NewFile, own_name, slug};
use crate::template::Template;

/// What the built-in tools of goose's developer extension are here.
const DEVELOPER: [&str; 6] = ["read", "grep", "glob", "edit", "write", "shell"];

pub(super) fn import(text: &str, file: &str) -> Result<Imported, Vec<SourceError>> {
    let source = Source::read(file, text, Format::Yaml)?;
    let top = Cursor::top(&source.value);
    let mut remarks = Remarks::default();
    // The desktop program keeps the recipe inside a table with data of its own around it.
    let recipe = match top.get("recipe").filter(|recipe| recipe.value.is_object()) {
        Some(recipe) => {
            for (key, at) in top.entries().filter(|(key, _)| *key != "recipe") {
                remarks.at(&source, &at, format!("{key}: has no meaning here and is left out"));
            }
            recipe
        }
        None => top,
    };
    let mut made = Recipe::default();
    for (key, at) in recipe.entries() {
        made.key(key, &at, &source, &mut remarks);
    }
    if made.prompt.trim().is_empty() && made.instructions.trim().is_empty() {
        let hint = "a recipe of goose has at least one of them".to_owned();
        let message = "the recipe has neither a prompt nor instructions".to_owned();
        return Err(vec![source::error_at(file, text, 0..0, message, Some(hint))]);
    }
    let name = slug(&made.title, &slug(own_name(file), "recipe"));
    let files = made.files(&name, &mut remarks).map_err(|errors| relocated(errors, text, file))?;
    Ok(Imported { kind: Kind::Recipe, name, files, remarks: remarks.0 })
}

#[derive(Debug, Default)]
struct Recipe {
    title: String,
    description: String,
    version: String,
    prompt: String,
    prompt_line: usize,
    instructions: String,
    instructions_line: usize,
    inputs: Vec<Input>,
    tools: Vec<&'static str>,
    provider: String,
    model: String,
    temperature: Option<Value>,
    max_turns: Option<u64>,
    checks: Vec<String>,
    schema: Option<Value>,
}

impl Recipe {
    fn key(&mut self, key: &str, at: &Cursor<'_>, source: &Source<'_>, remarks: &mut Remarks) {
        let said = || match at.value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        match key {
            "title" => self.title = said(),
            "description" => self.description = said(),
            "version" => self.version = said(),
            "prompt" => (self.prompt, self.prompt_line) = (said(), source.line(at)),
            "instructions" => {
                (self.instructions, self.instructions_line) = (said(), source.line(at))
            }
            "parameters" => self.parameters(at, source, remarks),
            "extensions" => self.extensions(at, source, remarks),
            "settings" => self.settings(at, source, remarks),
            "retry" => self.retry(at, source, remarks),
            "response" => match at.get("json_schema") {
                Some(schema) => self.schema = Some(schema.value.clone()),
                None => remarks.at(source, at, "response: has no json_schema and is left out"),
            },
            "sub_recipes" => {
                for (index, sub) in items(at).into_iter().enumerate() {
                    let name =
                        sub.get("name").and_then(|name| name.value.as_str().map(str::to_owned));
                    let name = name.unwrap_or_else(|| index.to_string());
                    let text = format!(
                        "sub_recipes: {name}: import its file too, then call it by a step with workflow = \"@workflows/…\""
                    );
                    remarks.at(source, &sub, text);
                }
            }
            "activities" => remarks.at(source, at, "activities: examples for a desktop; left out"),
            _ => remarks.at(source, at, format!("{key}: has no meaning here and is left out")),
        }
    }

    fn parameters(&mut self, at: &Cursor<'_>, source: &Source<'_>, remarks: &mut Remarks) {
        for parameter in items(at) {
            let word = |key: &str| {
                parameter.get(key).and_then(|at| at.value.as_str()).unwrap_or_default().to_owned()
            };
            let name = word("key");
            if !is_identifier(&name) {
                remarks.at(source, &parameter, "parameters: a key that is no plain name; left out");
                continue;
            }
            let mut input = Input {
                name: name.clone(),
                kind: "string",
                description: word("description"),
                ..Input::default()
            };
            // Whatever its type, a template of goose is given a text, and its conditions compare with texts.
            match word("input_type").as_str() {
                "string" | "select" | "" => {}
                "boolean" => input.choices = vec!["true".to_owned(), "false".to_owned()],
                "file" => {
                    let text = format!(
                        "parameters: {name}: what goose reads from the file is not put in its place; the input is the path, and a model with tools can look"
                    );
                    remarks.at(source, &parameter, text);
                }
                kind @ ("number" | "date") => {
                    remarks.at(
                        source,
                        &parameter,
                        format!("parameters: {name}: a {kind} is a text here, and not checked"),
                    );
                }
                other => {
                    remarks.at(
                        source,
                        &parameter,
                        format!("parameters: {name}: the type {other} is not known; taken as text"),
                    );
                }
            }
            for choice in parameter.get("options").iter().flat_map(items) {
                input.choices.extend(choice.value.as_str().map(str::to_owned));
            }
            if let Some(default) = parameter.get("default") {
                match default.value {
                    Value::Array(_) | Value::Object(_) => {
                        remarks.at(
                            source,
                            &default,
                            format!("parameters: {name}: the default is no text and is left out"),
                        );
                    }
                    Value::String(text) => input.default = Some(Value::String(text.clone())),
                    other => input.default = Some(Value::String(other.to_string())),
                }
            } else if word("requirement") == "optional" && input.choices.is_empty() {
                input.default = Some(Value::String(String::new()));
            }
            if word("requirement") == "user_prompt" {
                remarks.at(
                    source,
                    &parameter,
                    format!(
                        "parameters: {name}: nobody is asked for it; give it with --input {name}=…"
                    ),
                );
            }
            self.inputs.push(input);
        }
    }

    fn extensions(&mut self, at: &Cursor<'_>, source: &Source<'_>, remarks: &mut Remarks) {
        for extension in items(at) {
            let word =
                |key: &str| extension.get(key).and_then(|at| at.value.as_str()).unwrap_or_default();
            match (word("type"), word("name")) {
                ("builtin" | "platform" | "", "developer") => self.tools.extend(DEVELOPER),
                (kind @ ("stdio" | "sse" | "streamable_http"), name) => {
                    let text = format!(
                        "extensions: {name}: no program or address is taken over from a recipe; if you trust this {kind} server, add it to .drivetrain/mcp.toml"
                    );
                    remarks.at(source, &extension, text);
                }
                (kind, name) => {
                    let kind = if kind.is_empty() { "extension" } else { kind };
                    remarks.at(
                        source,
                        &extension,
                        format!("extensions: {name}: there is no such {kind} here; left out"),
                    );
                }
            }
        }
    }

    fn settings(&mut self, at: &Cursor<'_>, source: &Source<'_>, remarks: &mut Remarks) {
        for (key, given) in at.entries() {
            match key {
                "goose_provider" => {
                    self.provider = given.value.as_str().unwrap_or_default().to_owned()
                }
                "goose_model" => self.model = given.value.as_str().unwrap_or_default().to_owned(),
                "temperature" if given.value.is_number() => {
                    self.temperature = Some(given.value.clone())
                }
                "max_turns" if given.value.as_u64().is_some_and(|most| most > 0) => {
                    self.max_turns = given.value.as_u64()
                }
                _ => remarks.at(
                    source,
                    &given,
                    format!("settings: {key}: has no meaning here and is left out"),
                ),
            }
        }
    }

    fn retry(&mut self, at: &Cursor<'_>, source: &Source<'_>, remarks: &mut Remarks) {
        for (key, given) in at.entries() {
            if key != "checks" {
                let text = format!(
                    "retry: {key}: not carried; the checks are criteria here, and what follows a failed one is said by [retry] of a task"
                );
                remarks.at(source, &given, text);
                continue;
            }
            for check in items(&given) {
                let command = check.get("command").and_then(|command| command.value.as_str());
                match command {
                    Some(command) if has_template(command) => {
                        remarks.at(source, &check, "retry: a criterion is frozen when the task is made and takes no inputs; write this command out");
                    }
                    Some(command) => self.checks.push(command.to_owned()),
                    None => {
                        remarks.at(source, &check, "retry: a check without a command; left out")
                    }
                }
            }
        }
    }

    fn files(
        mut self,
        name: &str,
        remarks: &mut Remarks,
    ) -> Result<Vec<NewFile>, Vec<SourceError>> {
        if self.prompt.trim().is_empty() {
            self.prompt = std::mem::take(&mut self.instructions);
            self.prompt_line = self.instructions_line;
        }
        let mut files = Vec::new();
        let (said, inputs) = self.template(&self.prompt, self.prompt_line, remarks);
        files.push(write::prompt(name, &self.description, &self.version, &said, &inputs));
        let mut system = None;
        if !self.instructions.trim().is_empty() {
            let other = format!("{name}-instructions");
            let (said, inputs) = self.template(&self.instructions, self.instructions_line, remarks);
            files.push(write::prompt(&other, &self.description, &self.version, &said, &inputs));
            system = Some(other);
        }
        for made in &files {
            prompt::parse(&made.text, &made.path)?;
        }
        files.push(NewFile {
            path: format!("workflows/{name}.toml"),
            text: self.workflow(name, system.as_deref()),
        });
        Ok(files)
    }

    /// A template of goose as one of ours: its parameters are inputs. One that our language does not know is kept as
    /// plain text, and that is said.
    fn template(&self, said: &str, line: usize, remarks: &mut Remarks) -> (String, Vec<Input>) {
        let (text, used) = with_inputs(said, &self.inputs, line, "recipe", remarks);
        let inputs =
            self.inputs.iter().filter(|input| used.contains(&input.name)).cloned().collect();
        (text, inputs)
    }

    fn workflow(&self, name: &str, system: Option<&str>) -> String {
        let mut lines = format!("[workflow]\nname = {}\n", write::text(name));
        for (key, given) in [("description", &self.description), ("version", &self.version)] {
            if !given.is_empty() {
                lines.push_str(&format!("{key} = {}\n", write::text(given)));
            }
        }
        self.inputs.iter().for_each(|input| lines.push_str(&input.table("workflow", true)));
        if let Some(most) = self.max_turns {
            lines.push_str(&format!("\n[workflow.budget]\nmax_turns = {most}\n"));
        }
        let model = match (self.provider.as_str(), self.model.as_str()) {
            (_, "") => None,
            ("", model) => Some(model.to_owned()),
            (provider, model) => Some(format!("{provider}/{model}")),
        };
        if model.is_some() || self.temperature.is_some() || system.is_some() {
            lines.push_str("\n[workflow.llm]\n");
            if let Some(model) = model {
                lines.push_str(&format!("model = {}\n", write::text(&model)));
            }
            if let Some(temperature) = &self.temperature {
                lines.push_str(&format!("temperature = {temperature}\n"));
            }
            if let Some(system) = system {
                lines.push_str(&format!("system_prompt = \"@prompts/{system}\"\n"));
            }
        }
        for command in &self.checks {
            let command = write::text(command.trim_end());
            lines.push_str(&format!(
                "\n[[workflow.acceptance]]\nkind = \"shell\"\ncommand = {command}\n"
            ));
        }
        lines.push_str(&format!(
            "\n[[workflow.steps]]\nname = \"work\"\ntype = \"llm\"\nprompt = \"@prompts/{name}\"\n"
        ));
        if !self.tools.is_empty() {
            let mut tools: Vec<String> = Vec::new();
            self.tools.iter().map(|tool| write::text(tool)).for_each(|tool| {
                if !tools.contains(&tool) {
                    tools.push(tool)
                }
            });
            lines.push_str(&format!("tools = [{}]\n", tools.join(", ")));
        }
        if let Some(schema) = self.schema.as_ref().and_then(write::value) {
            lines.push_str(&format!("schema = {schema}\n"));
        }
        lines
    }
}

/// Puts `inputs.` before the names that a template takes from its file's parameters. Gives the text and the inputs used.
pub(super) fn with_inputs(
    said: &str,
    inputs: &[Input],
    line: usize,
    what: &str,
    remarks: &mut Remarks,
) -> (String, Vec<String>) {
    let template = match Template::parse(said) {
        Ok(template) => template,
        Err(wrong) => {
            let text = format!(
                "the template cannot be read here ({}); it is kept as plain text, nothing in it is filled in",
                wrong.message
            );
            remarks.line(line, text);
            return (literal(said), Vec::new());
        }
    };
    let mut used = Vec::new();
    let mut text = String::with_capacity(said.len());
    let mut from = 0;
    let mut uses: Vec<_> = template.uses().iter().collect();
    uses.sort_by_key(|one| one.start);
    for one in uses {
        let Some(first) = one.path.first() else { continue };
        let Some(input) = inputs.iter().find(|input| input.name == *first) else {
            let unknown = format!(
                "{first}: no parameter of the {what}; its place is kept as plain text with the whole template"
            );
            remarks.line(line, unknown);
            return (literal(said), Vec::new());
        };
        // Places of a name that is used twice at one spot are the same.
        if one.start < from || !said[one.start..].starts_with(first.as_str()) {
            continue;
        }
        text.push_str(&said[from..one.start]);
        text.push_str("inputs.");
        from = one.start;
        used.push(input.name.clone());
    }
    text.push_str(&said[from..]);
    match Template::parse(&text) {
        Ok(_) => (text, used),
        Err(wrong) => {
            remarks.line(
                line,
                format!(
                    "the template cannot be carried ({}); it is kept as plain text",
                    wrong.message
                ),
            );
            (literal(said), Vec::new())
        }
    }
}

/// A text in which nothing is a template.
pub(super) fn literal(said: &str) -> String {
    let mut text = String::with_capacity(said.len());
    let mut rest = said;
    while let Some(at) = rest.find('{') {
        text.push_str(&rest[..at]);
        rest = &rest[at..];
        let opening = ["{{", "{%", "{#"].into_iter().find(|opening| rest.starts_with(opening));
        match opening {
            Some(opening) => text.push_str(&format!("{{{{ \"{opening}\" }}}}")),
            None => text.push('{'),
        }
        rest = &rest[opening.map_or(1, str::len)..];
    }
    text.push_str(rest);
    text
}

fn has_template(text: &str) -> bool {
    text.contains("{{") || text.contains("{%")
}

fn is_identifier(name: &str) -> bool {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    !name.is_empty()
        && name.len() <= 60
        && name.chars().all(is_word)
        && !name.starts_with(|c: char| c.is_ascii_digit())
}

fn items<'v>(at: &Cursor<'v>) -> Vec<Cursor<'v>> {
    // What is no list has no items; a problem is not noted, since nothing here is our own file.
    at.items(&mut super::super::check::Problems::default())
}
