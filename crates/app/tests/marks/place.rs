//! A user with keys in every way there is, a project, and servers that stand in for models.

use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use runtime::fake::{Fake, Limits};
use serde_json::Value;
use wire::model::script::Script;

use super::leaks::Mark;

/// How long a command may take.
const PATIENCE: &str = "60";

pub(crate) struct Place {
    root: tempfile::TempDir,
    /// Keys in variables: of a built-in provider, of another, of the user's own, of a server.
    pub(crate) anthropic: Mark,
    openai: Mark,
    own: Mark,
    server: Mark,
    /// A key that a command prints from a file, and a file of the user's that is nobody's business.
    file: Mark,
    outside: Mark,
    outputs: RefCell<Vec<(String, Vec<u8>)>>,
    searched: Cell<usize>,
}

/// The interpreter itself: what is on the PATH may be a wrapper that starts others with the server's variables.
fn python() -> String {
    let program = "import sys; print(sys.executable)";
    let asked = Command::new("python3").args(["-c", program]).output().unwrap();
    String::from_utf8(asked.stdout).unwrap().trim().to_owned()
}

/// A server that plays a script in every dialect.
fn serve(script: &str) -> String {
    let script = Script::parse(script, "script").unwrap();
    let fake = Arc::new(Fake::bind(script, 0, Limits::default()).unwrap());
    let (serving, url) = (Arc::clone(&fake), fake.url());
    std::thread::spawn(move || serving.serve());
    url
}

impl Place {
    pub(crate) fn new() -> Place {
        let root = tempfile::tempdir().unwrap();
        for folder in ["project", "user/.config/drivetrain", "home", "outside"] {
            std::fs::create_dir_all(root.path().join(folder)).unwrap();
        }
        let place = Place {
            root,
            anthropic: Mark::new("anthropic"),
            openai: Mark::new("openai"),
            own: Mark::new("own"),
            server: Mark::new("server"),
            file: Mark::new("file"),
            outside: Mark::new("outside"),
            outputs: RefCell::default(),
            searched: Cell::new(0),
        };
        place.files();
        place.git(&["init", "-q", "-b", "main"]);
        place.git(&["add", "-A"]);
        place.git(&[
            "-c",
            "user.name=t",
            "-c",
            "user.email=t@example.invalid",
            "commit",
            "-qm",
            "one",
        ]);
        place
    }

    fn files(&self) {
        let works = "[[reply]]\ntext = \"I look.\"\ntool_calls = [{ tool = \"shell\", input = { command = \"env\" } }, \
                     { tool = \"read\", input = { path = \"../outside/secret.txt\" } }, { tool = \"glob\", input = { pattern = \"*\" } }]\n\
                     [[reply]]\ntext = \"Done.\"\nrepeat = true\n";
        // A server that quotes the key it refuses, in its error and in its answer.
        let quotes = format!(
            "[[reply]]\nstatus = 500\nbody = \"key {0} is odd\"\n[[reply]]\ntext = \"Your key is {0}.\"\n\
             tool_calls = [{{ tool = \"say\", input = {{ text = \"{0}\" }} }}]\n\
             [[reply]]\nstatus = 401\nbody = \"key {0} is wrong\"\nrepeat = true\n",
            self.own.text
        );
        let url = serve(works);
        let provider = |name: &str, url: &str, key: &str| {
            format!(
                "[provider.{name}]\ndialect = \"openai_chat\"\nbase_url = \"{url}/v1\"\n{key}\n"
            )
        };
        let secret = self.path("user/key.txt");
        std::fs::write(&secret, &self.file.text).unwrap();
        std::fs::write(self.path("outside/secret.txt"), &self.outside.text).unwrap();
        let by_command = format!("key_command = [\"cat\", \"{}\"]", secret.display());
        let own = "key_env = \"MINE\"";
        let models = [
            format!(
                "[provider.anthropic]\ndialect = \"anthropic_messages\"\nbase_url = \"{url}\"\nkey_env = \"ANTHROPIC_API_KEY\"\n"
            ),
            provider("openai", &serve(works), "key_env = \"OPENAI_API_KEY\""),
            provider("bycommand", &serve(works), &by_command),
            provider("byvariable", &serve(works), own),
            provider("quotes", &serve(&quotes), own),
            provider(
                "slow",
                &serve("[[reply]]\ntext = \"late\"\ndelay = \"30s\"\nrepeat = true\n"),
                own,
            ),
            provider("gone", "http://127.0.0.1:9", own),
            provider(
                "broken",
                &serve(
                    "[[reply]]\ntext = \"x\"\ncut_after_bytes = 40\n[[reply]]\nhang_up = true\nrepeat = true\n",
                ),
                own,
            ),
        ];
        let user = self.path("user/.config/drivetrain");
        std::fs::write(user.join("models.toml"), models.join("\n")).unwrap();
        let program =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../runtime/tests/fixtures/mcp_server.py");
        let program = program.canonicalize().unwrap();
        std::fs::write(
            user.join("mcp.toml"),
            format!(
                "[server.test]\ncommand = [\"{}\", \"{}\"]\nread = [{:?}]\n\
                 env = {{ A_TOKEN = \"${{MCP_TOKEN}}\" }}\n",
                python(),
                program.display(),
                program.parent().unwrap()
            ),
        )
        .unwrap();
        let allow = "[[rule]]\ntool = \"mcp__test__*\"\ndecide = \"allow\"\n";
        std::fs::write(user.join("policy.toml"), allow).unwrap();
        self.write("a.txt", "one\n");
        self.write("replies.toml", works);
        self.write(
            "server.toml",
            "[[reply]]\ntool_calls = [{ tool = \"mcp__test__env\", input = {} }]\n[[reply]]\ntext = \"Done.\"\n",
        );
    }

    pub(crate) fn path(&self, below: &str) -> PathBuf {
        self.root.path().join(below)
    }

    pub(crate) fn write(&self, name: &str, content: &str) {
        let path = self.path("project").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    pub(crate) fn remove(&self, name: &str) {
        std::fs::remove_file(self.path("project").join(name)).unwrap();
    }

    fn git(&self, args: &[&str]) {
        let ran =
            Command::new("git").args(args).current_dir(self.path("project")).output().unwrap();
        assert!(ran.status.success(), "{ran:?}");
    }

    /// What must not be found, by name.
    pub(crate) fn marks(&self) -> Vec<(&'static str, Mark)> {
        vec![
            ("anthropic", self.anthropic.clone()),
            ("openai", self.openai.clone()),
            ("own", self.own.clone()),
            ("server", self.server.clone()),
            ("file", self.file.clone()),
            ("outside", self.outside.clone()),
        ]
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new("timeout");
        command
            .args(["-k", "5", PATIENCE, env!("CARGO_BIN_EXE_drivetrain")])
            .args(args)
            .current_dir(self.path("project"))
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.path("user"))
            .env("DRIVETRAIN_HOME", self.path("home"))
            .env("RUST_BACKTRACE", "full")
            .env("ANTHROPIC_API_KEY", &self.anthropic.text)
            .env("OPENAI_API_KEY", &self.openai.text)
            .env("MINE", &self.own.text)
            .env("MCP_TOKEN", &self.server.text)
            .stdin(Stdio::null());
        command
    }

    /// Runs a command to its end, however it ends; what it printed is kept for the search.
    pub(crate) fn run(&self, args: &[&str]) -> String {
        let ran = self.command(args).output().unwrap();
        assert_ne!(ran.status.code(), Some(124), "{args:?} did not end");
        let mut said = ran.stdout;
        said.extend_from_slice(&ran.stderr);
        let text = String::from_utf8_lossy(&said).into_owned();
        assert!(!text.contains("panicked at"), "{args:?}: {text}");
        self.outputs.borrow_mut().push((args.join(" "), said));
        text
    }

    /// Kills a command in the middle.
    pub(crate) fn kill_after(&self, args: &[&str], time: Duration) {
        let out = self.path("outside/killed.txt");
        let log = std::fs::OpenOptions::new().create(true).append(true).open(out).unwrap();
        let mut child =
            self.command(args).stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap();
        let begun = Instant::now();
        while begun.elapsed() < time {
            std::thread::sleep(Duration::from_millis(20));
        }
        // `timeout` hands no SIGKILL on: the binary itself is killed, by its id.
        let ours = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", child.id()));
        for pid in ours.unwrap_or_default().split_whitespace() {
            let _ = Command::new("kill").args(["-9", pid]).status();
        }
        let _ = child.wait();
    }

    pub(crate) fn tasks(&self) -> Vec<String> {
        let ran = self.command(&["list", "--all", "--json"]).output().unwrap();
        let list: Value = serde_json::from_slice(&ran.stdout).unwrap();
        let tasks = list["tasks"].as_array().unwrap().iter();
        let ids: Vec<String> = tasks.map(|task| task["id"].as_str().unwrap().to_owned()).collect();
        assert!(ids.len() >= 20, "{} tasks", ids.len());
        ids
    }

    pub(crate) fn outputs(&self) -> Vec<(String, Vec<u8>)> {
        self.outputs.borrow().clone()
    }

    /// Counts what was searched.
    pub(crate) fn search(&self, places: usize) {
        self.searched.set(self.searched.get() + places);
    }

    pub(crate) fn searched(&self) -> usize {
        self.searched.get()
    }
}
