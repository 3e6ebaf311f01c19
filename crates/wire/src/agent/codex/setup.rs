//! How Codex is started: its command line, the text of `config.toml` in its home, its environment. Only what was
//! tried: without these settings it looks up hosts on the net at every start.

use super::super::opening::Opening;
use super::super::{Launch, Session, Started};
use super::{Approval, CodexCodec, CodexOpen, CodexSandbox};

/// How often Codex itself asks its model again before its turn fails: what happens then is the loop's decision.
const RETRIES: u32 = 2;

/// The folder with Codex's configuration, sessions and login. Below a temporary folder it warns at every start.
pub const HOME: &str = "CODEX_HOME";

/// Where OpenAI itself is asked.
const OPENAI: &str = "https://api.openai.com/v1";

/// Its provider would search the web for it, and nobody is asked. Said again when a conversation is opened, where it counts
/// more than what a project's file says.
pub(super) const NO_SEARCH: (&str, &str) = ("web_search", "disabled");

/// The variable that stands for a key where a gateway asks in Codex's place.
pub const NO_KEY: &str = "DRIVETRAIN_NO_KEY";

/// The model server that is asked instead of Codex's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// Up to and with `/v1`; `/responses` is added.
    pub base_url: String,
    /// The name of the variable that holds its key.
    pub key: String,
    /// How often a request that failed is sent again.
    pub request_retries: u32,
    /// How often an answer that was cut is asked for again.
    pub stream_retries: u32,
}

/// What Codex's home is to say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The model; Codex's default if absent.
    pub model: Option<String>,
    /// Where it is asked; Codex's own login and server if absent.
    pub endpoint: Option<Endpoint>,
    /// What its own sandbox allows. Said again when a conversation is opened, where the answer is checked.
    pub sandbox: CodexSandbox,
}

/// The arguments of the program.
pub fn command_line() -> Vec<String> {
    vec!["app-server".to_owned()]
}

/// The text of `config.toml`.
pub fn config(config: &Config) -> String {
    let mut text = String::new();
    let mut line = |key: &str, value: &str| {
        text.push_str(key);
        text.push_str(" = ");
        text.push_str(value);
        text.push('\n');
    };
    let quoted = |value: &str| toml::Value::from(value).to_string();
    if let Some(model) = &config.model {
        line("model", &quoted(model));
    }
    if config.endpoint.is_some() {
        line("model_provider", &quoted("drivetrain"));
    }
    // `untrusted` is refused in this file and taken when a conversation is opened; what the file says meanwhile must
    // not be wider.
    line("approval_policy", &quoted("on-request"));
    line("sandbox_mode", &quoted(config.sandbox.word()));
    line("check_for_update_on_startup", "false");
    let (search, none) = NO_SEARCH;
    line(search, &quoted(none));
    text.push_str("\n[features]\nplugins = false\n");
    text.push_str("\n[analytics]\nenabled = false\n");
    if let Some(endpoint) = &config.endpoint {
        let Endpoint { base_url, key, request_retries, stream_retries } = endpoint;
        text.push_str("\n[model_providers.drivetrain]\nname = \"drivetrain\"\n");
        text.push_str(&format!("base_url = {}\n", quoted(base_url)));
        text.push_str(&format!("env_key = {}\nwire_api = \"responses\"\n", quoted(key)));
        text.push_str(&format!("request_max_retries = {request_retries}\n"));
        text.push_str(&format!("stream_max_retries = {stream_retries}\n"));
    }
    text
}

/// The variables that it is given beside a search path and its key; nothing else of ours reaches it.
pub fn environment(home: &str) -> Vec<(String, String)> {
    let variables = [(HOME, home), ("HOME", home), ("TERM", "dumb")];
    variables.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec()
}

/// How Codex is started for a task. Its mode is `APPROVAL/SANDBOX`, such as `untrusted/read-only`.
pub fn start(launch: &Launch<'_>) -> Result<Started, String> {
    let Launch { program, session, folder, home, gateway, .. } = *launch;
    let (approval, sandbox) = match &program.mode {
        None => (Approval::Untrusted, CodexSandbox::FullAccess),
        Some(mode) => read_mode(mode)?,
    };
    let endpoint = |base_url: String, key: &str| Endpoint {
        base_url,
        key: key.to_owned(),
        request_retries: RETRIES,
        stream_retries: RETRIES,
    };
    let endpoint = match (gateway, program.keys.first()) {
        (Some(gateway), _) => Some(endpoint(format!("{gateway}/v1"), NO_KEY)),
        (None, Some(key)) => {
            let own = program.env.get("OPENAI_BASE_URL").map_or(OPENAI, String::as_str);
            Some(endpoint(own.to_owned(), key))
        }
        (None, None) => None,
    };
    let mut env = environment(home);
    // Where its model is stands in its configuration; the variable would be a second opinion.
    let own = program.env.iter().filter(|(name, _)| *name != "OPENAI_BASE_URL");
    env.extend(own.map(|(name, value)| (name.clone(), value.clone())));
    env.extend(gateway.map(|_| (NO_KEY.to_owned(), "none".to_owned())));
    let opening = match session {
        // Codex chooses the id itself.
        Session::New(_) => Opening::New,
        Session::Resume(id) => Opening::Resume(id.to_owned()),
    };
    let mut argv = program.command_line(None);
    argv.extend(command_line());
    let codec = CodexCodec::new(CodexOpen {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        folder: folder.to_owned(),
        opening,
        model: program.model.clone(),
        approval,
        sandbox,
    });
    let text = config(&Config { model: program.model.clone(), endpoint, sandbox });
    let files = vec![("config.toml".to_owned(), text)];
    Ok(Started { argv, env, files, codec: Box::new(codec) })
}

fn read_mode(mode: &str) -> Result<(Approval, CodexSandbox), String> {
    let approvals = [Approval::Untrusted, Approval::OnRequest, Approval::Never];
    let sandboxes =
        [CodexSandbox::ReadOnly, CodexSandbox::WorkspaceWrite, CodexSandbox::FullAccess];
    let read = mode.split_once('/').and_then(|(approval, sandbox)| {
        let approval = approvals.into_iter().find(|known| known.word() == approval)?;
        let sandbox = sandboxes.into_iter().find(|known| known.word() == sandbox)?;
        Some((approval, sandbox))
    });
    read.ok_or_else(|| {
        format!(
            "codex has no mode {mode:?}; expected APPROVAL/SANDBOX with one of {} and one of {}",
            approvals.map(Approval::word).join(", "),
            sandboxes.map(CodexSandbox::word).join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(endpoint: Option<Endpoint>) -> Config {
        let model = Some("a \"model\"\n".to_owned());
        Config { model, endpoint, sandbox: CodexSandbox::WorkspaceWrite }
    }

    #[test]
    fn the_file_is_toml_whatever_the_values_are() {
        let endpoint = Endpoint {
            base_url: "http://127.0.0.1:1/s/\"x\"/v1".to_owned(),
            key: "SOME_KEY".to_owned(),
            request_retries: 2,
            stream_retries: 3,
        };
        let table: toml::Table = config(&sample(Some(endpoint.clone()))).parse().unwrap();
        assert_eq!(table["model"].as_str(), Some("a \"model\"\n"));
        assert_eq!(table["model_provider"].as_str(), Some("drivetrain"));
        assert_eq!(table["sandbox_mode"].as_str(), Some("workspace-write"));
        let provider = &table["model_providers"]["drivetrain"];
        assert_eq!(provider["base_url"].as_str(), Some(endpoint.base_url.as_str()));
        assert_eq!(provider["stream_max_retries"].as_integer(), Some(3));
        assert_eq!(table["features"]["plugins"].as_bool(), Some(false));
        assert_eq!(table["web_search"].as_str(), Some("disabled"));
    }

    #[test]
    fn without_a_server_of_ours_its_own_login_is_used() {
        let table: toml::Table = config(&sample(None)).parse().unwrap();
        assert!(!table.contains_key("model_provider") && !table.contains_key("model_providers"));
    }

    fn launched(mode: Option<&str>, gateway: Option<&str>) -> Result<Started, String> {
        let mut program = machine::agent::AgentProgram::built_in("codex").unwrap();
        program.mode = mode.map(str::to_owned);
        let session = Session::New("ours");
        start(&Launch {
            program: &program,
            session,
            cost: None,
            folder: "/w",
            home: "/h",
            gateway,
            version: "",
            seed: 0,
            tools: &[],
        })
    }

    #[test]
    fn behind_a_gateway_no_key_is_named() {
        let started = launched(None, Some("http://127.0.0.1:7")).unwrap();
        assert_eq!(started.argv, ["codex", "app-server"]);
        let (name, text) = &started.files[0];
        assert_eq!(name, "config.toml");
        assert!(text.contains("http://127.0.0.1:7/v1") && text.contains(NO_KEY), "{text}");
        assert!(!text.contains("OPENAI_API_KEY"), "{text}");
        let started = launched(None, None).unwrap();
        assert!(started.files[0].1.contains("env_key = \"OPENAI_API_KEY\""));
        assert!(started.env.iter().all(|(name, _)| name != NO_KEY));
    }

    #[test]
    fn a_mode_that_codex_does_not_have_is_named() {
        let error = launched(Some("yolo"), None).unwrap_err();
        assert!(error.contains("no mode \"yolo\"") && error.contains("read-only"), "{error}");
        assert!(launched(Some("on-request/workspace-write"), None).is_ok());
    }
}
