//! `.drivetrain/agents/NAME.toml`: a coding agent that speaks the Agent Client Protocol, by its command.

use std::collections::BTreeMap;

use super::check::{Cursor, Problems};
use super::shape::agent as shape;
use super::source::Source;
use super::{Format, SourceError};
use crate::agent::{AgentProgram, AgentProtocol, AgentQuirks};
use crate::time::Span;

const PROTOCOLS: [(&str, AgentProtocol); 3] = [
    ("acp", AgentProtocol::Acp),
    ("claude", AgentProtocol::Claude),
    ("codex", AgentProtocol::Codex),
];

/// Reads an agent's file. TOML unless the file's name says YAML. The program has no mark of an operator yet: each task
/// makes its own.
pub fn parse(text: &str, file: &str) -> Result<AgentProgram, Vec<SourceError>> {
    let source = Source::read(file, text, Format::of(file))?;
    let mut problems = Problems::default();
    let top = Cursor::top(&source.value);
    top.keys(&mut problems, &shape::TOP);
    let program =
        top.need(&mut problems, "agent").and_then(|table| read_program(&table, &mut problems));
    match program {
        Some(program) if problems.is_empty() => Ok(program),
        _ => Err(source.errors(problems)),
    }
}

fn read_program(at: &Cursor<'_>, problems: &mut Problems) -> Option<AgentProgram> {
    if !at.keys(problems, &shape::PROGRAM) {
        return None;
    }
    let name = at.need(problems, "name").and_then(|name| name.name(problems)).map(str::to_owned);
    let command = at.need(problems, "command").map(|list| read_command(&list, problems));
    let protocol = match at.get("protocol") {
        None => Some(AgentProtocol::Acp),
        Some(given) => read_protocol(&given, problems),
    };
    let text = |key: &str, problems: &mut Problems| {
        let given = at.get(key)?;
        let text = given.text(problems)?;
        if text.trim().is_empty() {
            problems.push(
                &given,
                format!("the {key} is empty"),
                Some("leave the key out, or say something".to_owned()),
            );
        }
        Some(text.to_owned())
    };
    let mode = text("mode", problems);
    let model = text("model", problems);
    let model_flag = text("model_flag", problems);
    let hosts = at.get("hosts").map(|list| list.texts(problems)).unwrap_or_default();
    let pass = names(at, "pass", problems);
    let keys = names(at, "keys", problems);
    let env = read_env(at, problems);
    let quirks = read_quirks(at, problems);
    let idle = at.get("idle").and_then(|given| {
        let idle = given.span(problems);
        if idle == Some(Span(0)) {
            problems.push(
                &given,
                "an agent that may never be silent would be stopped at once",
                Some("write a longer one, such as \"5m\", or leave it out".to_owned()),
            );
        }
        idle
    });
    Some(AgentProgram {
        name: name?,
        protocol: protocol?,
        command: command?,
        pass,
        keys,
        hosts,
        mode,
        model,
        model_flag,
        env,
        quirks,
        operator: String::new(),
        idle,
        gateway: at.get("gateway").and_then(|given| given.flag(problems)),
        any_version: at.get("any_version").and_then(|given| given.flag(problems)) == Some(true),
    })
}

fn read_command(list: &Cursor<'_>, problems: &mut Problems) -> Vec<String> {
    let command = list.texts(problems);
    let is_empty = command.first().is_none_or(|program| program.trim().is_empty());
    if list.value.is_array() && is_empty {
        let hint = "write [\"program\", \"argument\"]".to_owned();
        problems.push(list, "the command is empty", Some(hint));
    }
    command
}

fn read_protocol(given: &Cursor<'_>, problems: &mut Problems) -> Option<AgentProtocol> {
    let word = given.text(problems)?;
    let known = PROTOCOLS.iter().find(|(known, _)| *known == word);
    if known.is_none() {
        let words = PROTOCOLS.map(|(known, _)| known).join(", ");
        problems.push(given, format!("nobody speaks {word:?}"), Some(format!("one of {words}")));
    }
    known.map(|(_, protocol)| *protocol)
}

/// Names of variables. A value in place of a name would put a secret into a file.
fn names(at: &Cursor<'_>, key: &str, problems: &mut Problems) -> Vec<String> {
    let Some(list) = at.get(key) else { return Vec::new() };
    let names = list.texts(problems);
    for name in &names {
        if !is_variable(name) {
            let message = format!("{key} takes names of variables, and one of these is none");
            problems.push(&list, message, Some("write [\"NAME_OF_A_VARIABLE\"]".to_owned()));
            break;
        }
    }
    names
}

fn is_variable(name: &str) -> bool {
    let is_fine = |c: char| c.is_ascii_alphanumeric() || c == '_';
    !name.is_empty() && name.chars().all(is_fine) && !name.starts_with(|c: char| c.is_ascii_digit())
}

fn read_env(at: &Cursor<'_>, problems: &mut Problems) -> BTreeMap<String, String> {
    let mut env = BTreeMap::new();
    let Some(table) = at.get("env") else { return env };
    if !table.value.is_object() {
        table.wrong(problems, "a table of texts");
    }
    for (key, entry) in table.entries() {
        if !is_variable(key) {
            problems.push_key(
                &entry,
                format!("{key:?} cannot be the name of a variable"),
                Some("letters, digits and _, no digit first".to_owned()),
            );
        }
        env.extend(entry.text(problems).map(|text| (key.to_owned(), text.to_owned())));
    }
    env
}

fn read_quirks(at: &Cursor<'_>, problems: &mut Problems) -> AgentQuirks {
    let asking_modes = at.get("asking_modes").map(|list| list.texts(problems)).unwrap_or_default();
    let mut quirks = AgentQuirks { asking_modes, ..AgentQuirks::default() };
    if let Some(list) = at.get("quirks") {
        for word in list.texts(problems) {
            if !quirks.set(&word) {
                let words = AgentQuirks::WORDS.join(", ");
                let message = format!("nobody knows the quirk {word:?}");
                problems.push(&list, message, Some(format!("one of {words}")));
            }
        }
    }
    quirks
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = r#"
[agent]
name = "zed-claude"
command = ["claude-agent-acp", "--quiet"]
pass = ["LANG"]
keys = ["ANTHROPIC_API_KEY"]
env = { CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC = "1" }
hosts = ["api.anthropic.com"]
mode = "default"
model = "sonnet"
model_flag = "--model"
asking_modes = ["default", "plan"]
quirks = ["stale_after_cancel", "outlives_input"]
idle = "5m"
"#;

    #[test]
    fn a_whole_file_is_read() {
        let program = parse(WHOLE, "zed-claude.toml").unwrap();
        assert_eq!(program.protocol, AgentProtocol::Acp);
        assert_eq!(program.command, ["claude-agent-acp", "--quiet"]);
        assert_eq!(program.keys, ["ANTHROPIC_API_KEY"]);
        assert!(program.quirks.stale_after_cancel && program.quirks.outlives_input);
        assert!(!program.quirks.hides_failures);
        assert_eq!(program.quirks.asking_modes, ["default", "plan"]);
        assert_eq!(program.idle, Some(Span::seconds(300)));
        let least = "[agent]\nname = \"x\"\ncommand = [\"x\"]\n";
        assert!(parse(least, "x.toml").unwrap().quirks.is_none());
    }

    #[test]
    fn everything_that_is_wrong_is_named_at_its_place() {
        for (line, said) in [
            ("comand = [\"x\"]", "comand"),
            ("command = []", "the command is empty"),
            ("command = \"x\"", "command"),
            ("protocol = \"telnet\"", "nobody speaks \"telnet\""),
            ("keys = [\"sk-1234\"]", "takes names of variables"),
            ("env = { \"A B\" = \"x\" }", "cannot be the name of a variable"),
            ("quirks = [\"moody\"]", "nobody knows the quirk \"moody\""),
            ("mode = \"\"", "the mode is empty"),
            ("idle = \"0s\"", "never be silent"),
        ] {
            let has_command = line.starts_with("command");
            let command = if has_command { "" } else { "command = [\"x\"]\n" };
            let text = format!("[agent]\nname = \"x\"\n{command}{line}\n");
            let errors = parse(&text, "x.toml").unwrap_err();
            let shown: String = errors.iter().map(ToString::to_string).collect();
            assert!(shown.contains(said), "{line}: {shown}");
        }
    }

    #[test]
    fn a_value_where_a_name_belongs_is_not_shown() {
        let text = "[agent]\nname = \"x\"\ncommand = [\"x\"]\nkeys = [\"sk-ant-REDACTED\"]\n";
        let errors = parse(text, "x.toml").unwrap_err();
        assert!(!errors[0].message.contains("sk-ant"), "{}", errors[0]);
    }
}
