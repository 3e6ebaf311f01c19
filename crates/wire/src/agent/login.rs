//! The login that an agent has of its own, for where there is no key: what of the operator's it is handed, and what of that
//! counts as renewed when it comes back.

use std::path::{Path, PathBuf};

use machine::agent::AgentProgram;
use serde_json::Value;

/// Where a program keeps its login, and what it needs to use it.
#[derive(Debug, PartialEq, Eq)]
pub struct Login {
    /// The agent, as it is called where no file names it.
    pub agent: &'static str,
    /// The variable that can hold a token in place of a login, if one can.
    pub token: Option<&'static str>,
    /// The variable that names a folder, and the file below that.
    pub named: (&'static str, &'static str),
    /// The file below the home of a user, if the variable is not set.
    pub file: &'static str,
    /// The file below the folder that a task gives the agent.
    pub copy: &'static str,
    /// Hosts at which a login is used and renewed, beside those of a key.
    pub hosts: &'static [&'static str],
}

/// What Claude Code is logged in by.
pub const CLAUDE: Login = Login {
    agent: "claude",
    token: Some("CLAUDE_CODE_OAUTH_TOKEN"),
    named: ("CLAUDE_CONFIG_DIR", ".credentials.json"),
    file: ".claude/.credentials.json",
    copy: ".credentials.json",
    hosts: &["console.anthropic.com", "platform.claude.com"],
};

/// What Codex is logged in by.
pub const CODEX: Login = Login {
    agent: "codex",
    token: None,
    named: ("CODEX_HOME", "auth.json"),
    file: ".codex/auth.json",
    copy: "auth.json",
    hosts: &["auth.openai.com", "chatgpt.com"],
};

/// What Gemini CLI is logged in by.
pub const GEMINI: Login = Login {
    agent: "gemini",
    token: None,
    named: ("GEMINI_CLI_HOME", ".gemini/oauth_creds.json"),
    file: ".gemini/oauth_creds.json",
    copy: ".gemini/oauth_creds.json",
    hosts: &["cloudcode-pa.googleapis.com", "oauth2.googleapis.com", "www.googleapis.com"],
};

/// All that are known. The file of OpenCode holds what somebody is logged in with at any provider, more than one agent needs.
const LOGINS: [&Login; 3] = [&CLAUDE, &CODEX, &GEMINI];

/// How an agent comes to its models.
#[derive(Debug, PartialEq, Eq)]
pub enum Way {
    /// By a key, or in a way that is its own affair.
    Own,
    /// By the token in this variable.
    Token(&'static str),
    /// By the file of the operator's own login.
    File(&'static Login, PathBuf),
    /// There is neither a key nor a login; none if it is handed no login and has no key.
    Missing(Option<&'static Login>),
}

impl Way {
    /// A program as it goes this way. One without keys uses its login.
    pub fn taken_by(&self, program: &AgentProgram) -> AgentProgram {
        let mut program = program.clone();
        match self {
            Way::Own | Way::Missing(_) => {}
            Way::Token(name) => program.keys.push((*name).to_owned()),
            Way::File(login, _) => {
                program.keys.clear();
                program.hosts.extend(login.hosts.iter().map(|&host| host.to_owned()));
            }
        }
        program
    }
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
    let set = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
    if !is_built_in || program.keys.iter().any(|key| set(key).is_some()) {
        return Way::Own;
    }
    let known = LOGINS.into_iter().find(|login| login.agent == program.name);
    let Some(login) = known else {
        // OpenCode has models of its own maker, which need no key.
        let needs_key =
            program.model.as_deref().is_some_and(|model| model.starts_with("anthropic/"));
        return if needs_key { Way::Missing(None) } else { Way::Own };
    };
    if let Some(token) = login.token.filter(|token| set(token).is_some()) {
        return Way::Token(token);
    }
    let (folder, file) = login.named;
    let named = set(folder).map(|folder| Path::new(&folder).join(file));
    let below_home = || set("HOME").map(|home| Path::new(&home).join(login.file));
    match named.or_else(below_home).filter(|file| is_file(file)) {
        Some(file) => Way::File(login, file),
        None => Way::Missing(Some(login)),
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
            Value::String(text) if is_secret(&name) => found.push((name, text)),
            _ => {}
        }
    }
    found
}

/// Whether what has this name lets its holder in: `accessToken`, `refresh_token`, `OPENAI_API_KEY`.
fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name.ends_with("token") || name.ends_with("key")
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
        found_by("claude", set, files)
    }

    fn found_by(agent: &str, set: &[(&str, &str)], files: &[&str]) -> Way {
        let program = AgentProgram::built_in(agent).unwrap();
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
        assert_eq!(found(&[home, ("ANTHROPIC_API_KEY", " ")], &[]), Way::Missing(Some(&CLAUDE)));
        let other = "/c/.credentials.json";
        let folder = ("CLAUDE_CONFIG_DIR", "/c");
        assert_eq!(found(&[home, folder], &[file, other]), Way::File(&CLAUDE, other.into()));
    }

    #[test]
    fn each_agent_is_handed_the_file_that_it_is_logged_in_by() {
        let home = ("HOME", "/h");
        for (agent, login, key, below_home, variable, named) in [
            (
                "codex",
                &CODEX,
                "OPENAI_API_KEY",
                "/h/.codex/auth.json",
                "CODEX_HOME",
                "/c/auth.json",
            ),
            (
                "gemini",
                &GEMINI,
                "GEMINI_API_KEY",
                "/h/.gemini/oauth_creds.json",
                "GEMINI_CLI_HOME",
                "/c/.gemini/oauth_creds.json",
            ),
        ] {
            let files = [below_home, named];
            let expected = Way::File(login, below_home.into());
            assert_eq!(found_by(agent, &[home], &files), expected);
            let expected = Way::File(login, named.into());
            assert_eq!(found_by(agent, &[home, (variable, "/c")], &files), expected);
            assert_eq!(found_by(agent, &[home, (key, "k")], &files), Way::Own);
            assert_eq!(found_by(agent, &[home], &[]), Way::Missing(Some(login)));
        }
        let opencode = |model: &str, key: Option<&str>| {
            let program = AgentProgram::built_in("opencode").unwrap();
            let program = AgentProgram { model: Some(model.to_owned()), ..program };
            way(&program, &|_| key.map(str::to_owned), &|_| false)
        };
        assert_eq!(opencode("anthropic/claude-x", None), Way::Missing(None));
        assert_eq!(opencode("anthropic/claude-x", Some("k")), Way::Own);
        assert_eq!(opencode("opencode/y", None), Way::Own, "it has models without a key");
    }

    #[test]
    fn a_program_with_a_login_has_its_hosts_and_no_key() {
        let codex = AgentProgram::built_in("codex").unwrap();
        let way = Way::File(&CODEX, "/h/.codex/auth.json".into());
        let taken = way.taken_by(&codex);
        assert_eq!(taken.keys, [""; 0]);
        assert_eq!(taken.hosts, ["api.openai.com", "auth.openai.com", "chatgpt.com"]);
        assert_eq!(Way::Own.taken_by(&codex), codex);
    }

    #[test]
    fn what_lets_its_holder_in_is_known_by_its_name() {
        let login = br#"{"OPENAI_API_KEY":"k","tokens":{"access_token":"a","token_type":"Bearer"},"last_refresh":"now"}"#;
        let mut found: Vec<String> = tokens(login).into_iter().map(|(_, text)| text).collect();
        found.sort();
        assert_eq!(found, ["a", "k"]);
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
