//! Files that declare servers of tools: our own `.drivetrain/mcp.toml`, read strictly, and the `.mcp.json` that many
//! tools share, in which keys that are not known here are left to the tools that know them.

mod dispatch;

use std::collections::BTreeMap;

pub use dispatch::Dispatching;

use super::check::{Cursor, Problems, suggest};
use super::sandbox::read_needs;
use super::shape::mcp as shape;
use super::source::Source;
use super::{Format, SourceError};
use crate::policy::sandbox::Needs;
use crate::time::Span;

/// How long a call may take if the file does not say.
const TIMEOUT: Span = Span::seconds(120);
/// The same for one that dispatches tasks: a call may wait for a task for an hour.
const DISPATCH_TIMEOUT: Span = Span::seconds(3660);
/// How long a server may take to start if the file does not say.
const START_TIMEOUT: Span = Span::seconds(30);
/// The longest name of a server: tools are named after it, and names are short.
const MAX_NAME: usize = 32;
/// What is said of a server that others of the file's readers can reach.
const OLD_HTTP: &str = "it speaks only the old form of HTTP (sse), as its entry says; most servers speak streamable HTTP too: \
     \"type\": \"http\"";
const OTHER_TYPE: &str =
    "its entry has a type that is not known here: expected \"stdio\" or \"http\"";
const NAME_RULE: &str =
    "names are made of letters, digits, _ and -, up to 32 of them, without __ and no _ at the end";

/// A server as declared. Its values may hold secrets, so it is neither stored nor shown as it is.
#[derive(Clone, PartialEq)]
pub struct Server {
    /// Its name.
    pub name: String,
    /// How it is reached.
    pub reach: Reach,
    /// How long one call may take.
    pub timeout: Span,
    /// How long it may take until it has told its tools.
    pub start_timeout: Span,
    /// Whether its own word on what its tools change counts.
    pub trust_annotations: bool,
    /// The tools that are wanted; all if absent.
    pub tools: Option<Vec<String>>,
    /// Whether it is left alone.
    pub disabled: bool,
    /// Why it cannot be used, if its file, which others read too, declares something that is not known here.
    pub unusable: Option<&'static str>,
    /// What its program needs of the sandbox.
    pub needs: Needs,
}

/// How a server is reached. Texts may name variables of the environment as `${NAME}` or `${NAME:-DEFAULT}`.
#[derive(Clone, PartialEq)]
pub enum Reach {
    /// A program that speaks over its standard input and output.
    Program {
        /// The program and its arguments.
        command: Vec<String>,
        /// Variables it gets beside the usual few.
        env: BTreeMap<String, String>,
    },
    /// An address that speaks streamable HTTP.
    Address {
        /// Where.
        url: String,
        /// Headers of every request.
        headers: BTreeMap<String, String>,
    },
    /// Drivetrain itself, which dispatches tasks for the task that has it.
    Dispatch(Dispatching),
}

/// Reads a file that declares servers, by its name: `.json` is the shared form, anything else is ours.
pub fn parse(text: &str, file: &str) -> Result<Vec<Server>, Vec<SourceError>> {
    let parsed =
        if file.ends_with(".json") { parse_shared(text, file) } else { parse_own(text, file) };
    parsed.map_err(|errors| errors.into_iter().map(without_values).collect())
}

/// An error is shown, logged and sent on, and any value of such a file may be a secret: keys only.
fn without_values(mut error: SourceError) -> SourceError {
    if let Some(at) = error.snippet.find(['=', ':']) {
        error.snippet.truncate(at + 1);
        error.snippet.push_str(" ***");
        error.caret.0 = error.caret.0.min(at + 2);
        error.caret.1 = error.caret.1.min(at + 3);
    }
    error
}

fn parse_own(text: &str, file: &str) -> Result<Vec<Server>, Vec<SourceError>> {
    let is_blank =
        text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#'));
    if is_blank {
        return Ok(Vec::new());
    }
    let source = Source::read(file, text, Format::of(file))?;
    let mut problems = Problems::default();
    let top = Cursor::top(&source.value);
    top.keys(&mut problems, &shape::TOP);
    let mut servers = Vec::new();
    if let Some(table) = top.get("server") {
        if !table.value.is_object() {
            table.wrong(&mut problems, "a table for each server, as [server.NAME]");
        }
        for (name, at) in table.entries() {
            servers.extend(read_own(name, &at, &mut problems));
        }
    }
    if problems.is_empty() { Ok(servers) } else { Err(source.errors(problems)) }
}

fn read_own(name: &str, at: &Cursor<'_>, problems: &mut Problems) -> Option<Server> {
    check_name(name, at, problems);
    if !at.keys_of(problems, &format!("[server.{name}]"), &shape::SERVER) {
        return None;
    }
    let command = at.get("command").map(|list| {
        let command = list.texts(problems);
        check_command(&list, list.value.is_array().then_some(&command), problems);
        command
    });
    let reach = match at.get("dispatch") {
        Some(dispatch) => dispatch::read(at, &dispatch, problems).map(Reach::Dispatch),
        None if command.is_none() && at.get("url").is_none() => {
            let hint = "command = [\"program\"], url = \"https://…\" or dispatch = { agents = [\"codex\"] }";
            let message = "a server needs a command, a url or dispatch";
            problems.push_key(at, message, Some(hint.to_owned()));
            None
        }
        None => read_reach(at, command, problems),
    };
    let dispatches = matches!(reach, Some(Reach::Dispatch(_)));
    let usual = if dispatches { DISPATCH_TIMEOUT } else { TIMEOUT };
    let timeout = read_time(at, "timeout", usual, problems);
    let start_timeout = read_time(at, "start_timeout", START_TIMEOUT, problems);
    let mut flag = |key: &str| at.get(key).and_then(|flag| flag.flag(problems)).unwrap_or(false);
    let (trust_annotations, disabled) = (flag("trust_annotations"), flag("disabled"));
    let tools = at.get("tools").map(|list| list.texts(problems));
    Some(Server {
        name: name.to_owned(),
        reach: reach?,
        timeout,
        start_timeout,
        // What drivetrain says of its own tools is so.
        trust_annotations: trust_annotations || dispatches,
        tools,
        disabled,
        unusable: None,
        needs: read_needs(at, problems),
    })
}

fn parse_shared(text: &str, file: &str) -> Result<Vec<Server>, Vec<SourceError>> {
    if let Err(error) = serde_json::from_str::<serde::de::IgnoredAny>(text) {
        let before: usize =
            text.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len).sum();
        let at = (before + error.column().saturating_sub(1)).min(text.len());
        let message = error.to_string();
        let message = message.rsplit_once(" at line").map_or(message.as_str(), |(what, _)| what);
        let message = format!("the file is not JSON: {message}");
        let hint = "look for a quote, a bracket or a comma that is missing near here".to_owned();
        return Err(vec![super::source::error_at(file, text, at..at, message, Some(hint))]);
    }
    // Every JSON text is YAML, and that reader knows the place of each part.
    let source = Source::read(file, text, Format::Yaml)?;
    let mut problems = Problems::default();
    let top = Cursor::top(&source.value);
    let mut servers = Vec::new();
    match top.get("mcpServers") {
        Some(table) if !table.value.is_object() => table.wrong(&mut problems, "a table of servers"),
        Some(table) => {
            for (name, at) in table.entries() {
                let server: Option<Server> = read_shared(name, &at, &mut problems);
                let is_same =
                    |other: &Server| server.as_ref().is_some_and(|it| it.name == other.name);
                if servers.iter().any(is_same) {
                    let hint = Some(NAME_RULE.to_owned());
                    problems.push_key(
                        &at,
                        format!("{name:?} has the name of another server here"),
                        hint,
                    );
                }
                servers.extend(server);
            }
        }
        None => {
            let hint = suggest_key(&top);
            problems.push_key(&top, "the key \"mcpServers\" is missing", hint);
        }
    }
    if problems.is_empty() { Ok(servers) } else { Err(source.errors(problems)) }
}

fn suggest_key(top: &Cursor<'_>) -> Option<String> {
    let (near, _) =
        top.entries().find(|(key, _)| suggest(key, ["mcpServers"].into_iter()).is_some())?;
    Some(format!("{near:?} is not it"))
}

fn read_shared(name: &str, at: &Cursor<'_>, problems: &mut Problems) -> Option<Server> {
    let name = fitting_name(name);
    check_name(&name, at, problems);
    if !at.value.is_object() {
        at.wrong(problems, "a table");
        return None;
    }
    let unusable = at.get("type").and_then(|kind| match kind.text(problems)? {
        "stdio" | "http" | "streamable-http" | "streamableHttp" => None,
        "sse" => Some(OLD_HTTP),
        _ => Some(OTHER_TYPE),
    });
    let command = at.get("command").map(|program| {
        let mut command: Vec<String> =
            program.text(problems).map(str::to_owned).into_iter().collect();
        check_command(&program, program.value.is_string().then_some(&command), problems);
        command.extend(at.get("args").map(|list| list.texts(problems)).unwrap_or_default());
        command
    });
    let reach = read_reach(at, command, problems);
    let disabled = at.get("disabled").and_then(|flag| flag.flag(problems)).unwrap_or(false);
    Some(Server {
        name,
        reach: reach?,
        timeout: TIMEOUT,
        start_timeout: START_TIMEOUT,
        trust_annotations: false,
        tools: None,
        disabled,
        unusable,
        needs: read_needs(at, problems),
    })
}

/// A server is a program or an address, never both.
fn read_reach(
    at: &Cursor<'_>,
    command: Option<Vec<String>>,
    problems: &mut Problems,
) -> Option<Reach> {
    let env = read_texts(at, "env", &['=', '\0'], "variable", problems);
    let headers = read_texts(at, "headers", &[':', '\r', '\n', ' ', '\0'], "header", problems);
    match (command, at.get("url")) {
        (Some(_), Some(url)) => {
            problems.push_key(
                &url,
                "give either command or url",
                Some("a program has a command, an address has a url".to_owned()),
            );
            None
        }
        (Some(command), None) => {
            if let Some(given) = at.get("headers") {
                let hint = Some("a program gets variables: use env".to_owned());
                problems.push_key(&given, "headers are for a server with a url", hint);
            }
            Some(Reach::Program { command, env })
        }
        (None, Some(given)) => {
            let url = given.text(problems)?.to_owned();
            if let Some(env) =
                at.get("env").filter(|env| env.value.as_object().is_some_and(|t| !t.is_empty()))
            {
                let hint = Some("an address gets headers".to_owned());
                problems.push_key(&env, "env is for a server with a command", hint);
            }
            if !url.starts_with("https://") && !url.starts_with("http://") && !url.starts_with("${")
            {
                problems.push(
                    &given,
                    format!("{url:?} is no address: expected https://…"),
                    Some("begin it with https://".to_owned()),
                );
                return None;
            }
            Some(Reach::Address { url, headers })
        }
        (None, None) => {
            let hint =
                Some("command = [\"program\", \"argument\"] or url = \"https://…\"".to_owned());
            problems.push_key(at, "a server needs a command or a url", hint);
            None
        }
    }
}

fn read_texts(
    at: &Cursor<'_>,
    key: &str,
    forbidden: &[char],
    what: &str,
    problems: &mut Problems,
) -> BTreeMap<String, String> {
    let mut texts = BTreeMap::new();
    let Some(table) = at.get(key) else { return texts };
    if !table.value.is_object() {
        table.wrong(problems, "a table of texts");
    }
    for (name, entry) in table.entries() {
        if name.is_empty() || name.contains(forbidden) {
            problems.push_key(&entry, format!("{name:?} cannot be the name of a {what}"), None);
        }
        // The value is left out of the error: it may be a secret.
        match entry.value.as_str() {
            Some(text) if !text.contains('\0') => {
                texts.insert(name.to_owned(), text.to_owned());
            }
            _ => problems.push_key(
                &entry,
                format!("the {what} {name:?} must be text"),
                Some("put it in quotes".to_owned()),
            ),
        }
    }
    texts
}

fn read_time(at: &Cursor<'_>, key: &str, default: Span, problems: &mut Problems) -> Span {
    let Some(given) = at.get(key) else { return default };
    let span = given.span(problems).unwrap_or(default);
    if span == Span(0) {
        problems.push(
            &given,
            "a timeout of nothing would stop every answer",
            Some("write a longer one, such as \"30s\", or leave it out".to_owned()),
        );
    }
    span
}

fn check_command(at: &Cursor<'_>, command: Option<&Vec<String>>, problems: &mut Problems) {
    let is_empty = |command: &Vec<String>| command.first().is_none_or(|p| p.trim().is_empty());
    if command.is_some_and(is_empty) {
        let hint = Some("write [\"program\", \"argument\"]".to_owned());
        problems.push(at, "the command is empty", hint);
    }
}

/// What a server of the shared file is called here. Others allow more in a name than tools can be named after, as in
/// `awslabs.aws-docs`: whatever does not fit becomes a `_`.
fn fitting_name(name: &str) -> String {
    let mut fitting = String::new();
    for c in name.chars() {
        let c = if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
        if fitting.len() < MAX_NAME && !(c == '_' && fitting.ends_with('_')) {
            fitting.push(c);
        }
    }
    fitting.truncate(fitting.trim_end_matches('_').len());
    fitting
}

fn check_name(name: &str, at: &Cursor<'_>, problems: &mut Problems) {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    // In the names of tools `__` ends that of the server: a rule for all of `a` would hold for a server `a__b` too.
    let meets = name.contains("__") || name.ends_with('_');
    if name.is_empty() || name.len() > MAX_NAME || !name.chars().all(fits) || meets {
        problems.push_key(
            at,
            format!("{name:?} cannot be the name of a server"),
            Some(NAME_RULE.to_owned()),
        );
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("name", &self.name).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Reach {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Reach::Program { .. } => "Program(..)",
            Reach::Address { .. } => "Address(..)",
            Reach::Dispatch(_) => "Dispatch(..)",
        })
    }
}

/// Puts variables in their places: `${NAME}` and `${NAME:-DEFAULT}`. The error names the variable that is not set.
pub fn expand(text: &str, lookup: &dyn Fn(&str) -> Option<String>) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        out.push_str(&rest[..at]);
        let Some(end) = rest[at..].find('}') else {
            return Err("a ${ without its }".to_owned());
        };
        let inside = &rest[at + 2..at + end];
        let (name, default) = match inside.split_once(":-") {
            Some((name, default)) => (name, Some(default.to_owned())),
            None => (inside, None),
        };
        let is_name =
            !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if !is_name {
            return Err("a ${…} that names no variable".to_owned());
        }
        let value = lookup(name).filter(|value| !value.is_empty()).or(default);
        out.push_str(&value.ok_or_else(|| format!("the variable {name} is not set"))?);
        rest = &rest[at + end + 1..];
    }
    out.push_str(rest);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errors(text: &str, file: &str) -> String {
        let errors = parse(text, file).unwrap_err();
        errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn both_forms_declare_the_same_servers() {
        let own = "[server.files]\ncommand = [\"npx\", \"-y\", \"files\"]\nenv = { A = \"${A}\" }\n\
            [server.web]\nurl = \"https://example.org/mcp\"\nheaders = { Authorization = \"Bearer ${T}\" }\n";
        let shared = r#"{ "mcpServers": {
            "files": { "type": "stdio", "command": "npx", "args": ["-y", "files"], "env": { "A": "${A}" }, "icon": 3 },
            "web": { "type": "http", "url": "https://example.org/mcp", "headers": { "Authorization": "Bearer ${T}" } } },
            "other": true }"#;
        let own = parse(own, "mcp.toml").unwrap();
        assert!(own == parse(shared, ".mcp.json").unwrap());
        assert_eq!(own.len(), 2);
        assert_eq!(own[0].timeout, TIMEOUT);
    }

    #[test]
    fn a_server_that_only_others_can_use_keeps_no_other_from_being_used() {
        let shared = r#"{ "mcpServers": {
            "files": { "command": "npx" },
            "old": { "type": "sse", "url": "https://example.org/sse" } } }"#;
        let servers = parse(shared, ".mcp.json").unwrap();
        assert_eq!(servers.iter().map(|server| &server.name).collect::<Vec<_>>(), ["files", "old"]);
        assert_eq!(servers[0].unusable, None);
        assert!(servers[1].unusable.unwrap().contains("old form of HTTP"));
    }

    #[test]
    fn no_server_has_a_name_that_a_rule_for_all_of_another_means_too() {
        for name in ["a__b", "a_", "__a", "_"] {
            let told = errors(&format!("[server.{name}]\ncommand = [\"a\"]\n"), "mcp.toml");
            assert!(told.contains("cannot be the name of a server"), "{name}: {told}");
        }
        let text = "[server.a_b]\ncommand = [\"a\"]\n[server._a]\ncommand = [\"a\"]\n";
        assert_eq!(parse(text, "mcp.toml").unwrap().len(), 2);
    }

    #[test]
    fn names_that_others_allow_are_made_to_fit_and_an_odd_type_costs_its_server_alone() {
        let shared = |name: &str| {
            format!(
                "{{ \"mcpServers\": {{ {}: {{ \"command\": \"a\" }} }} }}",
                serde_json::Value::from(name)
            )
        };
        for (name, called) in [
            ("awslabs.aws-docs", "awslabs_aws-docs"),
            ("My Server (dev)", "My_Server_dev"),
            ("@scope/pkg", "_scope_pkg"),
            ("a__b", "a_b"),
            ("as_it-is", "as_it-is"),
            (&*"é".repeat(40), ""),
            (&*"x.".repeat(40), "x_x_x_x_x_x_x_x_x_x_x_x_x_x_x_x"),
        ] {
            if called.is_empty() {
                let told = errors(&shared(name), ".mcp.json");
                assert!(told.contains("cannot be the name of a server"), "{told}");
            } else {
                assert_eq!(parse(&shared(name), ".mcp.json").unwrap()[0].name, called);
            }
        }
        let same = r#"{ "mcpServers": { "a.b": { "command": "a" }, "a b": { "command": "b" } } }"#;
        assert!(errors(same, ".mcp.json").contains("has the name of another server here"));
        let odd = r#"{ "mcpServers": { "a": { "type": "ide", "command": "a" }, "b": { "command": "b" } } }"#;
        let servers = parse(odd, ".mcp.json").unwrap();
        assert!(servers[0].unusable.unwrap().contains("not known here"));
        assert_eq!(servers[1].unusable, None);
    }

    #[test]
    fn our_own_file_takes_all_its_keys() {
        let text = "[server.a]\ncommand = [\"a\"]\ntimeout = \"5s\"\nstart_timeout = \"2s\"\n\
            trust_annotations = true\ntools = [\"x\"]\ndisabled = true\n";
        let server = parse(text, "mcp.toml").unwrap().remove(0);
        assert_eq!((server.timeout, server.start_timeout), (Span::seconds(5), Span::seconds(2)));
        assert!(server.trust_annotations && server.disabled);
        assert_eq!(server.tools, Some(vec!["x".to_owned()]));
        assert!(parse("# nothing\n", "mcp.toml").unwrap().is_empty());
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place() {
        let report = errors("[server.a]\ncomand = [\"a\"]\n", "mcp.toml");
        assert!(report.contains("unknown key \"comand\""), "{report}");
        assert!(
            report.contains("did you mean \"command\"") && report.contains("mcp.toml:2"),
            "{report}"
        );
        assert!(report.contains("needs a command, a url or dispatch"), "{report}");
        for (text, expected) in [
            ("[server.a]\ncommand = []\n", "the command is empty"),
            ("[server.a]\ncommand = [\"a\"]\nurl = \"https://a\"\n", "either command or url"),
            ("[server.a]\nurl = \"ftp://a\"\n", "is no address"),
            (
                "[server.a]\nurl = \"https://a\"\nenv = { A = \"b\" }\n",
                "env is for a server with a command",
            ),
            (
                "[server.a]\ncommand = [\"a\"]\nheaders = { A = \"b\" }\n",
                "headers are for a server",
            ),
            ("[server.a]\ncommand = [\"a\"]\ntimeout = \"0s\"\n", "a timeout of nothing"),
            ("[server.\"a b\"]\ncommand = [\"a\"]\n", "cannot be the name of a server"),
            (
                "[server.a]\ncommand = [\"a\"]\nenv = { \"A=B\" = \"c\" }\n",
                "cannot be the name of a variable",
            ),
        ] {
            let report = errors(text, "mcp.toml");
            assert!(report.contains(expected), "{text}: {report}");
        }
        for (text, expected) in [
            ("{", "not JSON"),
            ("{\"servers\": {}}", "\"mcpServers\" is missing"),
            ("{\"mcpServers\": {\"a\": {}}}", "needs a command or a url"),
            ("{\"mcpServers\": []}", "a table of servers"),
        ] {
            let report = errors(text, ".mcp.json");
            assert!(report.contains(expected), "{text}: {report}");
        }
    }

    #[test]
    fn an_error_never_shows_the_value_of_a_variable() {
        let report =
            errors("[server.a]\ncommand = [\"a\"]\nenv = { A_TOKEN = 12345 }\n", "mcp.toml");
        assert!(report.contains("\"A_TOKEN\" must be text"), "{report}");
        assert!(!report.contains("12345"), "{report}");
        assert!(
            !format!("{:?}", parse("[server.a]\ncommand = [\"hush\"]\n", "mcp.toml"))
                .contains("hush")
        );
    }

    #[test]
    fn variables_are_put_in_their_places() {
        let lookup = |name: &str| (name == "A").then(|| "1".to_owned());
        assert_eq!(expand("x${A}y${B:-2}z", &lookup).unwrap(), "x1y2z");
        assert_eq!(expand("$A {A}", &lookup).unwrap(), "$A {A}");
        assert_eq!(expand("${B}", &lookup).unwrap_err(), "the variable B is not set");
        assert!(expand("${", &lookup).is_err() && expand("${a b}", &lookup).is_err());
    }
}
