//! How an agent of the Agent Client Protocol is started for a task, from its program as data.

use machine::agent::AgentProgram;
use serde_json::Value;

use super::super::opening::Opening;
use super::super::{Launch, Session, Started};
use super::{AcpCodec, AcpOffers, AcpOpen};

/// The variables that point an agent's provider at a gateway, by the variable that holds the provider's key; and
/// what stands for the key then.
const GATEWAYS: [(&str, &str, &str); 3] = [
    ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", ""),
    ("GEMINI_API_KEY", "GOOGLE_GEMINI_BASE_URL", ""),
    ("OPENAI_API_KEY", "OPENAI_BASE_URL", "/v1"),
];

/// How the program of a launch is started. Behind a gateway only agents can be used whose key says which provider they
/// ask.
pub fn start(launch: &Launch<'_>) -> Result<Started, String> {
    let Launch { program, session, cost, folder, home, gateway, .. } = *launch;
    let mut env = vec![("HOME".to_owned(), home.to_owned())];
    env.extend(program.env.iter().map(|(name, value)| (name.clone(), value.clone())));
    if let Some(gateway) = gateway {
        let named = |key: &String| GATEWAYS.iter().find(|(known, _, _)| known == key);
        let known: Vec<_> = program.keys.iter().filter_map(named).collect();
        if known.is_empty() {
            return Err(format!(
                "nobody knows how to point it at a gateway: its file names no key of {}",
                GATEWAYS.map(|(key, _, _)| key).join(", ")
            ));
        }
        for (name, value) in &mut env {
            if name == OPENCODE {
                point_opencode_at(gateway, value)?;
            }
        }
        for (key, address, path) in known {
            env.push(((*key).to_owned(), "none".to_owned()));
            env.push(((*address).to_owned(), format!("{gateway}{path}")));
        }
    }
    let opening = match session {
        // The agent chooses the id itself.
        Session::New(_) => Opening::New,
        Session::Resume(id) => Opening::Resume(id.to_owned()),
    };
    // A model that stands on the command line is not said again.
    let model = program.model.clone().filter(|_| program.model_flag.is_none());
    let codec = AcpCodec::new(AcpOpen {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        folder: folder.to_owned(),
        opening,
        cost,
        mode: program.mode.clone(),
        model,
        offers: offers(program),
        quirks: program.quirks.clone(),
    });
    let (argv, files) = (program.command_line(None), files(program));
    Ok(Started { argv, env, files, codec: Box::new(codec) })
}

/// What an agent may have us do. This is said before it says who it is, so it is known by what it is called here. Gemini
/// throws away the code of an error, and takes a file that is not there for one that cannot be written.
fn offers(program: &AgentProgram) -> AcpOffers {
    let reads_itself = program.quirks.reads_itself || program.name == "gemini";
    AcpOffers { read: !reads_itself, ..AcpOffers::ALL }
}

/// The variable with OpenCode's configuration: addresses of providers are read from there, with their versions.
const OPENCODE: &str = "OPENCODE_CONFIG_CONTENT";

fn point_opencode_at(gateway: &str, config: &mut String) -> Result<(), String> {
    let mut value: Value = serde_json::from_str(config)
        .map_err(|error| format!("{OPENCODE} of its file is no JSON: {error}"))?;
    for provider in ["anthropic", "openai"] {
        let mut at = &mut value;
        for name in ["provider", provider, "options", "baseURL"] {
            let Value::Object(table) = at else {
                return Err(format!(
                    "{OPENCODE} of its file: expected a table that holds {name:?}"
                ));
            };
            at = table.entry(name).or_insert_with(|| Value::Object(serde_json::Map::new()));
        }
        *at = format!("{gateway}/v1").into();
    }
    *config = value.to_string();
    Ok(())
}

/// Settings that an agent reads from its home: without these Gemini asks how to log in, tells its maker, and searches the web
/// without a question. Without a key it uses its login.
fn files(program: &AgentProgram) -> Vec<(String, String)> {
    let way = if program.keys.is_empty() { "oauth-personal" } else { "gemini-api-key" };
    let gemini = format!(
        r#"{{"security":{{"auth":{{"selectedType":"{way}"}}}},"privacy":{{"usageStatisticsEnabled":false}},"telemetry":{{"enabled":false}},"general":{{"enableAutoUpdate":false}},"tools":{{"exclude":["google_web_search","web_fetch"]}}}}"#
    );
    match program.name.as_str() {
        "gemini" => vec![(".gemini/settings.json".to_owned(), gemini)],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launched(name: &str, gateway: Option<&str>) -> Result<Started, String> {
        let program = AgentProgram::built_in(name).unwrap();
        let session = Session::Resume("s");
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
    fn behind_a_gateway_an_agent_has_an_address_and_no_key() {
        let started = launched("gemini", Some("http://127.0.0.1:7")).unwrap();
        let value = |name: &str| {
            let found = started.env.iter().find(|(known, _)| known == name);
            found.map(|(_, value)| value.as_str())
        };
        assert_eq!(value("GOOGLE_GEMINI_BASE_URL"), Some("http://127.0.0.1:7"));
        assert_eq!(value("GEMINI_API_KEY"), Some("none"));
        assert_eq!(started.argv, ["gemini", "--acp", "-m", "gemini-2.5-pro"]);
        assert_eq!(started.files.len(), 1);
    }

    #[test]
    fn gemini_uses_its_key_or_its_login() {
        let mut program = AgentProgram::built_in("gemini").unwrap();
        let says = |program: &AgentProgram, way: &str| {
            let (name, text) = &files(program)[0];
            let settings: Value = serde_json::from_str(text).unwrap();
            assert_eq!(name, ".gemini/settings.json");
            assert_eq!(settings["security"]["auth"]["selectedType"], way);
        };
        says(&program, "gemini-api-key");
        program.keys.clear();
        says(&program, "oauth-personal");
    }

    #[test]
    fn gemini_has_no_search_of_its_own() {
        let started = launched("gemini", None).unwrap();
        let settings: Value = serde_json::from_str(&started.files[0].1).unwrap();
        let left_out = serde_json::json!(["google_web_search", "web_fetch"]);
        assert_eq!(settings["tools"]["exclude"], left_out);
        assert_eq!(settings["telemetry"]["enabled"], false);
    }

    #[test]
    fn opencode_finds_the_gateway_in_its_configuration() {
        let started = launched("opencode", Some("http://127.0.0.1:7/t")).unwrap();
        let (_, text) = started.env.iter().find(|(name, _)| name == OPENCODE).unwrap();
        let config: Value = serde_json::from_str(text).unwrap();
        let address = &config["provider"]["anthropic"]["options"]["baseURL"];
        assert_eq!(address, "http://127.0.0.1:7/t/v1");
        assert_eq!(config["permission"]["bash"], "ask");
    }

    #[test]
    fn an_agent_that_nobody_can_point_elsewhere_is_not_started_behind_a_gateway() {
        let mut program = AgentProgram::built_in("opencode").unwrap();
        program.keys = vec!["MY_KEY".to_owned()];
        let session = Session::New("s");
        let gateway = Some("http://127.0.0.1:7");
        let launch = Launch {
            program: &program,
            session,
            cost: None,
            folder: "/w",
            home: "/h",
            gateway,
            version: "",
            seed: 0,
            tools: &[],
        };
        let error = start(&launch).unwrap_err();
        assert!(error.contains("ANTHROPIC_API_KEY"), "{error}");
        assert!(start(&Launch { gateway: None, ..launch }).is_ok());
    }
    #[test]
    fn an_agent_that_cannot_miss_a_file_is_not_offered_reading() {
        let said = |program: &AgentProgram| {
            let launch = Launch {
                program,
                session: Session::New("s"),
                cost: None,
                folder: "/w",
                home: "/h",
                gateway: None,
                version: "",
                seed: 0,
                tools: &[],
            };
            let opened = start(&launch).unwrap().codec.open();
            let opened: Value = serde_json::from_slice(&opened).unwrap();
            let can = &opened["params"]["clientCapabilities"];
            assert_eq!(
                (&can["fs"]["writeTextFile"], &can["terminal"]),
                (&true.into(), &true.into())
            );
            can["fs"]["readTextFile"].as_bool().unwrap()
        };
        assert!(said(&AgentProgram::built_in("opencode").unwrap()));
        assert!(!said(&AgentProgram::built_in("gemini").unwrap()));
        let mut mine = AgentProgram::built_in("opencode").unwrap();
        mine.quirks.set("reads_itself");
        assert!(!said(&mine));
    }
}
