//! How Codex is started: its command line, the text of `config.toml` in its home, its environment. Only what was
//! tried: without these settings it looks up hosts on the net at every start.

use super::CodexSandbox;

/// The folder with Codex's configuration, sessions and login. Below a temporary folder it warns at every start.
pub const HOME: &str = "CODEX_HOME";

/// The variable that holds the key for [`Endpoint`].
pub const KEY: &str = "DRIVETRAIN_CODEX_KEY";

/// The model server that is asked instead of Codex's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// Up to and with `/v1`; `/responses` is added.
    pub base_url: String,
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
    text.push_str("\n[features]\nplugins = false\n");
    text.push_str("\n[analytics]\nenabled = false\n");
    if let Some(endpoint) = &config.endpoint {
        let Endpoint { base_url, request_retries, stream_retries } = endpoint;
        text.push_str("\n[model_providers.drivetrain]\nname = \"drivetrain\"\n");
        text.push_str(&format!("base_url = {}\n", quoted(base_url)));
        text.push_str(&format!("env_key = {}\nwire_api = \"responses\"\n", quoted(KEY)));
        text.push_str(&format!("request_max_retries = {request_retries}\n"));
        text.push_str(&format!("stream_max_retries = {stream_retries}\n"));
    }
    text
}

/// The variables that it is given beside a search path; nothing else of ours reaches it.
pub fn environment(home: &str, key: Option<&str>) -> Vec<(String, String)> {
    let mut variables = vec![
        (HOME.to_owned(), home.to_owned()),
        ("HOME".to_owned(), home.to_owned()),
        ("TERM".to_owned(), "dumb".to_owned()),
    ];
    variables.extend(key.map(|key| (KEY.to_owned(), key.to_owned())));
    variables
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
    }

    #[test]
    fn without_a_server_of_ours_its_own_login_is_used() {
        let table: toml::Table = config(&sample(None)).parse().unwrap();
        assert!(!table.contains_key("model_provider") && !table.contains_key("model_providers"));
        assert!(environment("/h", None).iter().all(|(name, _)| name != KEY));
    }
}
