//! A runtime under attack: the real binary drives a task whose plugin decides for a long time, so that its gate is
//! open; and clients of that gate.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::rig::Rig;

/// An attack repeats itself. That a task ends over it is another wall; here the gate alone has to stand.
const PATIENT: &str = "[stuck]\nsame_action = 0\ncycle = 0\nsame_denied = 0\nsame_question = 0\n";

/// How long anything that must happen may take on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// How long nothing may come before it is taken as nothing.
pub(crate) const QUIET: Duration = Duration::from_millis(1500);

/// The greeting of the protocol, as the cases write it.
pub(crate) const INIT: &str = r#"{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}"#;

/// What a plugin does that decides until it is killed. It says where its gate is in a file of the workspace.
const WAITS: &str = r#"read -r line; echo '{"jsonrpc":"2.0","id":1,"result":{"protocol":1}}'
read -r line; printf '%s\n%s\n' "$DRIVETRAIN_GATE" "$DRIVETRAIN_GATE_TOKEN" > "$0.part"; mv "$0.part" "$0"
while :; do sleep 1; done"#;

/// Something to set up before a runtime starts.
#[derive(Debug, Default)]
pub(crate) struct Setup {
    /// Tools that the user's own rules allow.
    pub(crate) allow: Vec<String>,
    /// The program of a server of tools, for `sh -c`; its name is `test`.
    pub(crate) server: Option<String>,
}

/// A driving process and its task.
#[derive(Debug)]
pub(crate) struct Runtime<'a> {
    rig: &'a Rig,
    child: Child,
    errors: PathBuf,
    /// The task.
    pub(crate) task: String,
    /// Where its gate is.
    pub(crate) socket: PathBuf,
    /// What to say first there.
    pub(crate) token: String,
}

impl<'a> Runtime<'a> {
    /// Starts a runtime on a task of its own and waits until its gate is open.
    pub(crate) fn start(rig: &'a Rig, name: &str, setup: &Setup) -> Result<Runtime<'a>, String> {
        let config = rig.user().join(".config/drivetrain");
        std::fs::create_dir_all(config.join("drivers")).unwrap();
        let told = rig.worktree().join(format!("{name}.gate"));
        let driver = format!(
            "[driver]\nname = \"{name}\"\ncommand = {}\ntimeout = \"1h\"\nworkspace = \"write\"\n",
            json!(["sh", "-c", WAITS, told])
        );
        std::fs::write(config.join(format!("drivers/{name}.toml")), driver).unwrap();
        let rules = setup.allow.iter().map(|tool| {
            format!(
                "[[rule]]\ntool = \"{tool}\"\ndecide = \"allow\"\nreason = \"the user allows it\"\n"
            )
        });
        std::fs::write(config.join("policy.toml"), rules.collect::<String>()).unwrap();
        let mut task = format!(
            "[task]\ngoal = \"be attacked\"\ndriver = \"external:{name}\"\n[workspace]\nkind = \"in_place\"\n{PATIENT}"
        );
        if let Some(program) = &setup.server {
            let server = format!("[server.test]\ncommand = {}\n", json!(["sh", "-c", program]));
            std::fs::write(config.join("mcp.toml"), server).unwrap();
            task.push_str("[task.driver_config]\nuses = [{ tool = \"mcp__test__*\" }]\n");
        }
        let file = rig.user().join(format!("{name}.toml"));
        std::fs::write(&file, task).unwrap();
        let (out, errors) =
            (rig.user().join(format!("{name}.out")), rig.user().join(format!("{name}.err")));
        let mut command = command(rig);
        command.arg("run").arg(&file).args(["--json", "--unattended"]);
        command.stdout(std::fs::File::create(&out).unwrap());
        command.stderr(std::fs::File::create(&errors).unwrap());
        let child = command.spawn().map_err(|error| error.to_string())?;
        let mut runtime = Runtime {
            rig,
            child,
            errors,
            task: String::new(),
            socket: PathBuf::new(),
            token: String::new(),
        };
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until && runtime.is_alive() {
            if let Ok(text) = std::fs::read_to_string(&told) {
                let mut lines = text.lines();
                runtime.socket = lines.next().unwrap_or_default().into();
                runtime.token = lines.next().unwrap_or_default().to_owned();
                let said = std::fs::read_to_string(&out).unwrap();
                let first: Value =
                    serde_json::from_str(said.lines().next().unwrap_or("null")).unwrap();
                runtime.task = first["task"].as_str().unwrap_or_default().to_owned();
                let _ = std::fs::remove_file(&told);
                return Ok(runtime);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let why = std::fs::read_to_string(&runtime.errors).unwrap_or_default();
        let said = std::fs::read_to_string(&out).unwrap_or_default();
        Err(format!("the runtime did not open a gate: {why}{said}"))
    }

    pub(crate) fn is_alive(&mut self) -> bool {
        self.child.try_wait().is_ok_and(|ended| ended.is_none())
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Ends it as a power cut would.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// What the journal says, event by event.
    pub(crate) fn events(&self) -> Vec<Value> {
        let out = command(self.rig).args(["log", &self.task, "--json"]).output().unwrap();
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// How many events of a kind the journal has.
    pub(crate) fn count(&self, kind: &str) -> usize {
        self.events().iter().filter(|event| event["type"] == kind).count()
    }

    /// What it said of itself; a panic is among it.
    pub(crate) fn complaints(&self) -> String {
        std::fs::read_to_string(&self.errors).unwrap_or_default()
    }

    pub(crate) fn fds(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.pid())).map_or(0, Iterator::count)
    }

    /// Its memory, in kilobytes.
    pub(crate) fn memory(&self) -> u64 {
        let text =
            std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse().ok()).unwrap_or(0)
    }

    /// A connection on which nothing was said.
    pub(crate) fn knock(&self) -> std::io::Result<Client> {
        Client::to(&self.socket)
    }

    /// A connection that has said the token.
    pub(crate) fn enter(&self) -> std::io::Result<Client> {
        let mut client = self.knock()?;
        client.send(format!("{}\n", self.token).as_bytes());
        Ok(client)
    }

    /// A connection that has been greeted.
    pub(crate) fn greeted(&self) -> std::io::Result<Client> {
        let mut client = self.enter()?;
        client.send(format!("{INIT}\n").as_bytes());
        client.answer(PATIENCE);
        client.greeted = true;
        Ok(client)
    }
}

impl Drop for Runtime<'_> {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The binary with the environment of a user who has secrets.
pub(crate) fn command(rig: &Rig) -> Command {
    let mut command = Command::new(rig.binary());
    command
        .current_dir(rig.worktree())
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", rig.user())
        .env("XDG_CONFIG_HOME", rig.user().join(".config"))
        .env("DRIVETRAIN_HOME", rig.home())
        .env("CANARY_KEY", &rig.key)
        .env("ANTHROPIC_API_KEY", &rig.key)
        .stdin(Stdio::null());
    command
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Client {
    stream: BufReader<UnixStream>,
    /// Whether the other end closed it.
    pub(crate) closed: bool,
    /// Whether the greeting was said.
    pub(crate) greeted: bool,
}

impl Client {
    fn to(path: &Path) -> std::io::Result<Client> {
        let stream = UnixStream::connect(path)?;
        stream.set_write_timeout(Some(Duration::from_secs(2)))?;
        Ok(Client { stream: BufReader::new(stream), closed: false, greeted: false })
    }

    /// Sends bytes; false if they were not taken.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> bool {
        self.stream.get_mut().write_all(bytes).is_ok()
    }

    /// Sends bytes one by one.
    pub(crate) fn drip(&mut self, bytes: &[u8]) -> bool {
        bytes.iter().all(|byte| self.send(&[*byte]))
    }

    /// The next line as JSON; none if there is none in time or the other end closed.
    pub(crate) fn answer(&mut self, patience: Duration) -> Option<Value> {
        self.stream.get_ref().set_read_timeout(Some(patience)).unwrap();
        let mut line = Vec::new();
        match self.stream.read_until(b'\n', &mut line) {
            Ok(0) => self.closed = true,
            Ok(_) => return Some(serde_json::from_slice(&line).unwrap_or(Value::Null)),
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => self.closed = true,
            Err(_) => {}
        }
        None
    }

    /// Everything that comes until it is quiet, closed, or as many answers came as were asked for.
    pub(crate) fn answers(&mut self, expected: usize) -> Vec<Value> {
        let mut all = Vec::new();
        while !self.closed {
            let patience = if all.len() < expected { Duration::from_secs(10) } else { QUIET };
            match self.answer(patience) {
                Some(answer) => all.push(answer),
                None => break,
            }
        }
        all
    }

    /// Whether the other end closes within this time, whatever it says before.
    pub(crate) fn closes_within(&mut self, patience: Duration) -> bool {
        let until = Instant::now() + patience;
        let mut byte = [0u8; 1];
        while !self.closed {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            self.stream.get_ref().set_read_timeout(Some(left)).unwrap();
            match self.stream.read(&mut byte) {
                Ok(0) => self.closed = true,
                Ok(_) => {}
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => {
                    self.closed = true;
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
        true
    }
}
