//! The login that an agent has of its own, for where there is no key: what of the operator's it is handed, and what of that
//! counts as renewed when it comes back.

use std::path::{Path, PathBuf};

use machine::agent::{AgentProgram, AgentProtocol};
use serde_json::Value;

/// Where a program keeps its login, and what it needs to use it.
#[derive(Debug, PartialEq, Eq)]
pub struct Login {
    /// The variable that can hold a token in place of a login.
    pub token: &'static str,
    /// The variable that names its folder.
    pub folder_variable: &'static str,
    /// Its folder below the home of a user, if the variable is not set.
    pub folder: &'static str,
    /// The file in that folder, and in the one that a task gives it.
    pub file: &'static str,
    /// Hosts at which a login is renewed.
    pub hosts: &'static [&'static str],
}

/// What Claude Code is logged in by.
pub const CLAUDE: Login = Login {
    token: "CLAUDE_CODE_OAUTH_TOKEN",
    folder_variable: "CLAUDE_CONFIG_DIR",
    folder: ".claude",
    file: ".credentials.json",
    hosts: &["console.anthropic.com", "platform.claude.com"],
};

/// How an agent comes to its models.
#[derive(Debug, PartialEq, Eq)]
pub enum Way {
    /// By a key, or in a way that is its own affair.
    Own,
    /// By the token in this variable.
    Token(&'static str),
    /// By the file of the operator's own login.
    File(&'static Login, PathBuf),
    /// There is neither a key nor a login.
    Missing(&'static Login),
}

/// How a program comes to its models. Only one that needs no file is handed a login: what a file of a project names is no
/// program that the operator has logged in with. A key comes first, because with one there is a gateway.
pub fn way(
    program: &AgentProgram,
    variable: &dyn Fn(&str) -> Option<String>,
    is_file: &dyn Fn(&Path) -> bool,
) -> Way {
    // One with variables of its own may have another way: a proxy, a cloud, a program that makes keys.
    let is_built_in = AgentProgram::built_in(&program.name).is_some_and(|own| {
        (own.command, own.env, own.keys)
            == (program.command.clone(), program.env.clone(), program.keys.clone())
    });
    let login = match program.protocol {
        AgentProtocol::Claude if is_built_in => &CLAUDE,
        AgentProtocol::Claude | AgentProtocol::Codex | AgentProtocol::Acp => return Way::Own,
    };
    let set = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
    if program.keys.iter().any(|key| set(key).is_some()) {
        return Way::Own;
    }
    if set(login.token).is_some() {
        return Way::Token(login.token);
    }
    let below_home = || set("HOME").map(|home| Path::new(&home).join(login.folder));
    let folder = set(login.folder_variable).map(PathBuf::from).or_else(below_home);
    match folder.map(|folder| folder.join(login.file)).filter(|file| is_file(file)) {
        Some(file) => Way::File(login, file),
        None => Way::Missing(login),
    }
}

/// A login with what the agent has renewed in its copy; none if that is nothing. The agent can write there what it likes, so
/// only values that were there before are taken, and only as what they were.
pub fn renewed(before: &[u8], after: &[u8]) -> Option<Vec<u8>> {
    let before: Value = serde_json::from_slice(before).ok()?;
    let after: Value = serde_json::from_slice(after).ok()?;
    let mut merged = before.clone();
    merge(&mut merged, &after);
    if merged == before { None } else { serde_json::to_vec(&merged).ok() }
}

/// The tokens in a login, each with its name.
pub fn tokens(login: &[u8]) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut open: Vec<(String, Value)> =
        serde_json::from_slice(login).map(|login| (String::new(), login)).into_iter().collect();
    while let Some((name, value)) = open.pop() {
        match value {
            Value::Object(table) => open.extend(table),
            Value::String(text) if name.contains("Token") => found.push((name, text)),
            _ => {}
        }
    }
    found
}

fn merge(into: &mut Value, from: &Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in into.iter_mut() {
                if let Some(from) = from.get(key) {
                    merge(value, from);
                }
            }
        }
        (into @ Value::String(_), Value::String(_))
        | (into @ Value::Number(_), Value::Number(_)) => into.clone_from(from),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(set: &[(&str, &str)], files: &[&str]) -> Way {
        let program = AgentProgram::built_in("claude").unwrap();
        let variable = |name: &str| {
            let found = set.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        way(&program, &variable, &|path| files.iter().any(|file| Path::new(file) == path))
    }

    #[test]
    fn a_key_comes_before_a_token_and_a_token_before_a_file() {
        let home = ("HOME", "/h");
        let (key, token) = (("ANTHROPIC_API_KEY", "k"), ("CLAUDE_CODE_OAUTH_TOKEN", "t"));
        let file = "/h/.claude/.credentials.json";
        assert_eq!(found(&[home, key, token], &[file]), Way::Own);
        assert_eq!(found(&[home, token], &[file]), Way::Token("CLAUDE_CODE_OAUTH_TOKEN"));
        assert_eq!(found(&[home], &[file]), Way::File(&CLAUDE, file.into()));
        assert_eq!(found(&[home, ("ANTHROPIC_API_KEY", " ")], &[]), Way::Missing(&CLAUDE));
        let other = "/c/.credentials.json";
        let folder = ("CLAUDE_CONFIG_DIR", "/c");
        assert_eq!(found(&[home, folder], &[file, other]), Way::File(&CLAUDE, other.into()));
    }

    #[test]
    fn no_program_of_a_file_is_handed_a_login() {
        let mut program = AgentProgram::built_in("claude").unwrap();
        program.command = vec!["./tool".to_owned()];
        assert_eq!(way(&program, &|_| None, &|_| true), Way::Own);
        let mut program = AgentProgram::built_in("claude").unwrap();
        program.env.insert("ANTHROPIC_BASE_URL".to_owned(), "http://127.0.0.1:1".to_owned());
        assert_eq!(way(&program, &|_| None, &|_| false), Way::Own);
    }

    #[test]
    fn of_a_copy_only_what_was_there_before_is_taken() {
        let before = br#"{"a":{"refreshToken":"one","at":1,"is":["x"]}}"#;
        assert_eq!(renewed(before, before), None);
        assert_eq!(renewed(before, b"nothing"), None);
        assert_eq!(renewed(before, br#"{"a":{"refreshToken":7},"b":1}"#), None);
        let after = br#"{"a":{"refreshToken":"two","at":2,"is":[],"more":1},"b":{}}"#;
        let renewed = renewed(before, after).unwrap();
        assert_eq!(renewed, br#"{"a":{"at":2,"is":["x"],"refreshToken":"two"}}"#);
        assert_eq!(tokens(&renewed), [("refreshToken".to_owned(), "two".to_owned())]);
    }
}
