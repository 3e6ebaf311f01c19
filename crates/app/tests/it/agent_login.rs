//! How an agent comes to its models: by a key, by the operator's own login, or not at all. The agent is a script that looks at
//! what it was given and then plays a fake one.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::environment::TestEnvironment;

const INIT: &str =
    r#"{"type":"system","subtype":"init","session_id":"s1","permissionMode":"default"}"#;
const SAYS: &str = r#"{"type":"assistant","message":{"role":"assistant","content":[{"type":"text","text":"done"}]},"session_id":"s1"}"#;
const ENDS: &str =
    r#"{"type":"result","subtype":"success","is_error":false,"result":"done","session_id":"s1"}"#;
const LOGIN: &str = r#"{"claudeAiOauth":{"accessToken":"old-access-0123456789","expiresAt":1,"refreshToken":"old-refresh-0123456789"}}"#;
const RENEWED: &str = r#"{"claudeAiOauth":{"accessToken":"new-access-0123456789","expiresAt":2,"refreshToken":"new-refresh-0123456789"}}"#;

/// A repository, and an agent that runs a script.
struct Place {
    environment: TestEnvironment,
    outside: PathBuf,
    agent: &'static str,
}

/// A repository, and a `claude` that runs this script before it works.
fn place(script: &str) -> Place {
    let place = place_of("claude", "2.1.325 (Claude Code)", script);
    let steps = place.outside.join("steps.txt");
    fs::write(&steps, [INIT, "run touch made.py", SAYS, ENDS].join("\n")).unwrap();
    let program = place.outside.join("bin/claude");
    let played =
        format!("exec {:?} fake agent {steps:?} \"$@\"\n", env!("CARGO_BIN_EXE_drivetrain"));
    fs::write(&program, fs::read_to_string(&program).unwrap() + played.as_str()).unwrap();
    place
}

/// A repository, and an agent of this name and version that runs this script and ends.
fn place_of(agent: &'static str, version: &str, script: &str) -> Place {
    let environment = TestEnvironment::new();
    let outside = environment.home().parent().unwrap().to_owned();
    let bin = outside.join("bin");
    fs::create_dir_all(&bin).unwrap();
    let text = format!(
        "#!/bin/sh\n[ \"$1\" = --version ] && exec echo '{version}'\ncd {outside:?}\n{script}\ncd \"$OLDPWD\"\n"
    );
    fs::write(bin.join(agent), text).unwrap();
    fs::set_permissions(bin.join(agent), fs::Permissions::from_mode(0o755)).unwrap();
    environment.write("main.py", "print(1)\n");
    environment.git(&["init", "--quiet"]);
    environment.commit_all("one");
    Place { environment, outside, agent }
}

impl Place {
    /// The operator is logged in with an agent that keeps this in this file.
    fn has(&self, file: &str, login: &str) -> PathBuf {
        let file = self.outside.join(file);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, login).unwrap();
        file
    }

    /// The operator is logged in.
    fn log_in(&self) -> PathBuf {
        self.has(".claude/.credentials.json", LOGIN)
    }

    fn run(&self, more: &[&str], variables: &[(&str, &str)]) -> (Option<i32>, String) {
        let output = self.command(more, variables).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(said).unwrap())
    }

    /// The same, killed when its agent has made this file.
    fn run_and_kill(&self, file: &str) {
        let mut command = self.command(&[], &[]);
        let mut running = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        self.environment.until(|| self.outside.join(file).exists().then_some(()));
        running.kill().unwrap();
        running.wait().unwrap();
    }

    fn command(&self, more: &[&str], variables: &[(&str, &str)]) -> Command {
        let ask = ["run", "do it", "--agent", self.agent, "--no-sandbox", "--unattended"];
        let path = format!("{}:/usr/bin:/bin", self.outside.join("bin").display());
        let mut command = self.environment.command(&[&ask[..], more].concat());
        for key in ["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY"] {
            command.env_remove(key);
        }
        command.env("PATH", path).envs(variables.iter().copied());
        command
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.outside.join(name)).unwrap_or_default()
    }

    /// Where the task keeps what is its agent's.
    fn folder(&self) -> PathBuf {
        self.environment.home().join("agents").join(self.environment.id()).join(self.agent)
    }

    fn copy(&self) -> PathBuf {
        self.folder().join(".credentials.json")
    }
}

#[test]
fn without_a_key_an_agent_has_the_operators_login_and_what_it_renews_comes_back() {
    let place = place(&format!(
        "cat \"$CLAUDE_CONFIG_DIR/.credentials.json\" > seen\n\
         stat -c %a \"$CLAUDE_CONFIG_DIR/.credentials.json\" > mode\n\
         echo '{}' > \"$CLAUDE_CONFIG_DIR/.credentials.json\"",
        RENEWED.replace("}}", "},\"more\":1}")
    ));
    let login = place.log_in();
    let (code, said) = place.run(&[], &[]);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!((place.text("seen").as_str(), place.text("mode").trim()), (LOGIN, "600"));
    assert_eq!(fs::read_to_string(&login).unwrap(), RENEWED, "and nothing beside it");
    assert_eq!(fs::metadata(&login).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(!place.copy().exists(), "the copy is gone with the agent");
    let records = place.environment.ok(&["journal", "export", &place.environment.id()]);
    assert!(!records.contains("access-0123456789"), "{records}");
}

/// An agent, its version, what the operator is logged in by, the copy for the agent, and what is told of the way it goes.
const OTHERS: [(&str, &str, &str, &str, &str, &str); 2] = [
    (
        "codex",
        "codex-cli 0.166.0",
        ".codex/auth.json",
        "$CODEX_HOME/auth.json",
        "$CODEX_HOME/config.toml",
        r#"{"OPENAI_API_KEY":null,"last_refresh":"old","tokens":{"access_token":"old-access-0123456789","refresh_token":"old-refresh-0123456789"}}"#,
    ),
    (
        "gemini",
        "0.61.0",
        ".gemini/oauth_creds.json",
        "$HOME/.gemini/oauth_creds.json",
        "$HOME/.gemini/settings.json",
        r#"{"access_token":"old-access-0123456789","expiry_date":1,"refresh_token":"old-refresh-0123456789","token_type":"Bearer"}"#,
    ),
];

#[test]
fn codex_and_gemini_have_the_operators_login_in_the_same_way() {
    for (agent, version, file, copy, settings, login) in OTHERS {
        let renewed = login.replace("old", "new");
        // It is started again when it ends without a word; what it saw first counts.
        let script = format!(
            "[ -e seen ] || cat \"{copy}\" > seen\nstat -c %a \"{copy}\" > mode\ncp \"{settings}\" settings\n\
             echo '{renewed}' > \"{copy}\"\nexit 3"
        );
        let place = place_of(agent, version, &script);
        let own = place.has(file, login);
        let (_, said) = place.run(&[], &[]);
        assert_eq!(
            (place.text("seen").as_str(), place.text("mode").trim()),
            (login, "600"),
            "{said}"
        );
        assert_eq!(fs::read_to_string(&own).unwrap(), renewed, "{agent}: {said}");
        let left = [file.rsplit('/').next().unwrap(), file];
        assert!(left.iter().all(|name| !place.folder().join(name).exists()), "{agent}");
        let settings = place.text("settings");
        match agent {
            "codex" => assert!(!settings.contains("model_provider"), "{settings}"),
            _ => assert!(settings.contains("oauth-personal"), "{settings}"),
        }
        let records = place.environment.ok(&["journal", "export", &place.environment.id()]);
        assert!(!records.contains("access-0123456789"), "{records}");
    }
}

#[test]
fn codex_and_gemini_without_a_key_and_a_login_do_not_begin() {
    for (agent, version, file, ..) in OTHERS {
        let place = place_of(agent, version, "exit 3");
        let (code, said) = place.run(&[], &[]);
        assert_eq!(code, Some(20), "{said}");
        let hint = format!("hint: or log in with {agent} itself, which makes ~/{file}\n");
        assert!(said.contains("has neither a key nor a login") && said.ends_with(&hint), "{said}");
        assert_eq!(place.environment.tasks().len(), 0, "nothing was begun");
    }
}

#[test]
fn a_login_that_somebody_else_renewed_meanwhile_stays_as_it_is() {
    let place = place(&format!(
        "echo '{RENEWED}' > \"$CLAUDE_CONFIG_DIR/.credentials.json\"\necho other > .claude/.credentials.json"
    ));
    let login = place.log_in();
    let (code, said) = place.run(&[], &[]);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(fs::read_to_string(login).unwrap(), "other\n");
}

/// What it was lent, then something new in its place; at its first start it goes no further.
fn renews_and_stands_still() -> String {
    format!(
        "cat \"$CLAUDE_CONFIG_DIR/.credentials.json\" >> seen\n[ -e renewed ] || {{\n\
         echo '{RENEWED}' > \"$CLAUDE_CONFIG_DIR/.credentials.json\"\ntouch renewed\nsleep 300\n}}"
    )
}

#[test]
fn a_login_that_was_renewed_just_before_drivetrain_was_killed_comes_back_with_the_next_agent() {
    let place = place(&renews_and_stands_still());
    let login = place.log_in();
    place.run_and_kill("renewed");
    let copy = place.copy();
    assert_eq!(fs::read_to_string(&copy).unwrap().trim(), RENEWED, "it is left where it was");
    assert_eq!(fs::read_to_string(&login).unwrap(), LOGIN);
    let (code, said) = place.run(&[], &[]);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(fs::read_to_string(&login).unwrap(), RENEWED);
    assert_eq!(place.text("seen"), [LOGIN, RENEWED].concat(), "the next agent has the new one");
    assert!(!copy.exists(), "what the killed one left is gone");
    let notes = fs::read_dir(place.environment.home().join("run/logins")).unwrap();
    assert_eq!(notes.count(), 0);
}

#[test]
fn a_login_that_changed_after_drivetrain_was_killed_stays_as_it_is() {
    let place = place(&renews_and_stands_still());
    let login = place.log_in();
    place.run_and_kill("renewed");
    let copy = place.copy();
    let other = LOGIN.replace("old", "other");
    fs::write(&login, &other).unwrap();
    let (code, said) = place.run(&[], &[]);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(fs::read_to_string(&login).unwrap(), other);
    assert!(!copy.exists(), "what the killed one left is gone");
}

#[test]
fn a_token_in_a_variable_comes_before_a_login_and_a_key_before_both() {
    let place = place(
        "echo \"$CLAUDE_CODE_OAUTH_TOKEN\" > token\nls \"$CLAUDE_CONFIG_DIR/.credentials.json\" > copy 2>&1",
    );
    place.log_in();
    let token = ("CLAUDE_CODE_OAUTH_TOKEN", "a-token-0123456789");
    let (code, said) = place.run(&[], &[token]);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(place.text("token"), "a-token-0123456789\n");
    assert!(place.text("copy").contains("No such file"), "{}", place.text("copy"));
    let (code, said) = place.run(&[], &[token, ("ANTHROPIC_API_KEY", "sk-0123456789")]);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(place.text("token"), "\n", "behind the gateway it has nothing");
    assert!(place.text("copy").contains("No such file"), "{}", place.text("copy"));
}

#[test]
fn a_task_whose_agent_has_neither_a_key_nor_a_login_does_not_begin() {
    let place = place("");
    let (code, said) = place.run(&[], &[]);
    assert_eq!(code, Some(20), "{said}");
    let expected = "error: the agent claude has neither a key nor a login: nobody would answer it\n  \
                    hint: set ANTHROPIC_API_KEY: its models are asked through the gateway, and counted exactly\n  \
                    hint: or log in with claude itself, which makes ~/.claude/.credentials.json, or set CLAUDE_CODE_OAUTH_TOKEN\n";
    assert_eq!(said, expected);
    assert_eq!(place.environment.tasks().len(), 0, "nothing was begun");
}

#[test]
fn opencode_is_handed_no_login_and_does_not_begin_without_a_key() {
    let place = place_of("opencode", "1.18.33", "exit 3");
    let (code, said) = place.run(&[], &[]);
    assert_eq!(code, Some(20), "{said}");
    let expected = "error: the agent opencode has no key: nobody would answer it\n  \
                    hint: set ANTHROPIC_API_KEY: its models are asked through the gateway, and counted exactly\n";
    assert_eq!(said, expected);
    assert_eq!(place.environment.tasks().len(), 0, "nothing was begun");
}

#[test]
fn a_gateway_without_a_key_is_refused_before_the_task_begins() {
    let place = place("");
    place.log_in();
    let (code, said) = place.run(&["--gateway"], &[]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.starts_with("error: the gateway needs the agent's key"), "{said}");
    assert_eq!(place.environment.tasks().len(), 0, "nothing was begun");
}
