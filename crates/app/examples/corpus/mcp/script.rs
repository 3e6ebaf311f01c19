//! Cases that are behaviours: steps in words, read one by one.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::place::{Client, Runtime, Setup, command};
use super::{Tried, alive};
use crate::Verdict;
use crate::rig::Rig;

/// Descriptors that a runtime may hold however many knock.
const MOST_FDS: usize = 256;

/// Megabytes that a runtime may grow by however much is said.
const MOST_GROWTH: u64 = 64;

/// A behaviour on its way.
struct Play<'a> {
    rig: &'a Rig,
    runtime: Runtime<'a>,
    clients: Vec<Client>,
    memory: u64,
    /// Attempts that were refused, and those that were not.
    refused: usize,
    taken: usize,
    blocked: bool,
    closed_after: Option<Duration>,
    most_fds: usize,
    answers: Vec<Value>,
    restarted: bool,
}

pub(super) fn run(expect: &str, steps: &[String], rig: &Rig) -> Tried {
    let setup = Setup::default();
    let runtime = Runtime::start(rig, "waits", &setup).map_err(Verdict::Fail)?;
    let memory = runtime.memory();
    let mut play = Play {
        rig,
        runtime,
        clients: Vec::new(),
        memory,
        refused: 0,
        taken: 0,
        blocked: false,
        closed_after: None,
        most_fds: 0,
        answers: Vec::new(),
        restarted: false,
    };
    for step in steps {
        play.step(step, expect)?;
    }
    play.judge(expect)
}

impl Play<'_> {
    fn step(&mut self, step: &str, expect: &str) -> Result<(), Verdict> {
        let has = |word: &str| step.contains(word);
        if has("second runtime") {
            self.second_runtime();
        } else if has("stale socket") {
            self.stale_socket()?;
        } else if has("own listener") {
            self.hijack();
        } else if has("other uid") {
            self.other_user()?;
        } else if has("connect") && has("without") && has("token") {
            self.say_first("");
            self.say_first("0000");
        } else if has("connect") && has("token") {
            let stale =
                ["old", "expired", "ended", "finished", "dead"].iter().any(|word| has(word));
            if stale || has("another") || has("other") {
                let start = Runtime::start(self.rig, "other", &Setup::default());
                let mut other = start.map_err(Verdict::Fail)?;
                if stale {
                    other.kill();
                }
                self.say_first(&other.token);
            } else {
                self.say_first(&"0".repeat(64));
            }
        } else if let Some(count) = step.strip_prefix("connect x ") {
            self.crowd(count.trim().parse().unwrap_or(0));
        } else if step == "connect" {
            let client = self.runtime.enter();
            self.clients.push(client.map_err(|error| Verdict::Fail(error.to_string()))?);
        } else if has("call id twice") {
            self.twice(&[call(7, "write", &note("once")), call(7, "write", &note("once"))]);
        } else if has("idempotency key") || has("same key") {
            let with_key = |id: u64, content: &str| {
                let mut line: Value =
                    serde_json::from_str(&call(id, "write", &note(content))).unwrap();
                line["params"]["_meta"] = json!({ "drivetrain/key": "k" });
                line.to_string()
            };
            let second = if has("other") { "twice" } else { "once" };
            self.twice(&[with_key(7, "once"), with_key(8, second)]);
        } else if step.starts_with("send") {
            self.send(step, expect)?;
        } else if step.starts_with("close") {
            self.clients.clear();
        } else {
            return Err(Verdict::Fail(format!("the step {step:?} is not understood")));
        }
        Ok(())
    }

    fn client(&mut self) -> Result<&mut Client, Verdict> {
        self.clients.last_mut().ok_or_else(|| Verdict::Fail("nobody is connected".to_owned()))
    }

    fn send(&mut self, step: &str, expect: &str) -> Result<(), Verdict> {
        let touch = json!({ "command": format!("touch {}", self.rig.canary().display()) });
        if step.contains("{init}") {
            self.greet()?;
        } else if step.contains("byte-per-second") || step.contains("byte per second") {
            let limit =
                expect.split_once("<=").and_then(|(_, text)| text.strip_suffix('s')?.parse().ok());
            let limit = Duration::from_secs(limit.unwrap_or(60));
            let began = Instant::now();
            let client = self.client()?;
            for byte in super::place::INIT.bytes().cycle() {
                if began.elapsed() > limit || !client.send(&[byte]) {
                    break;
                }
                if client.closes_within(Duration::from_secs(1)) {
                    break;
                }
            }
            if client.closes_within(Duration::from_millis(100)) {
                self.closed_after = Some(began.elapsed());
            }
        } else if step.contains("half") {
            let line = call(1, "shell", &touch);
            self.greet()?;
            self.client()?.send(&line.as_bytes()[..line.len() / 2]);
        } else if let Some(count) = step.split(' ').find_map(|word| word.parse::<u64>().ok()) {
            let mut blocked = false;
            let client = self.client()?;
            for id in 0..count {
                if !client.send(format!("{}\n", call(id, "shell", &touch)).as_bytes()) {
                    blocked = true;
                    break;
                }
            }
            self.blocked = blocked;
        } else {
            let line = if step.contains("tools/call") {
                call(1, "shell", &touch)
            } else {
                super::translated(step.trim_start_matches("send ").trim())
            };
            self.greet()?;
            self.client()?.send(format!("{line}\n").as_bytes());
        }
        Ok(())
    }

    /// What a step sends means something only to a gate that was greeted.
    fn greet(&mut self) -> Result<(), Verdict> {
        let client = self.client()?;
        if !client.greeted {
            client.send(format!("{}\n", super::place::INIT).as_bytes());
            client.answer(super::place::PATIENCE);
            client.greeted = true;
        }
        Ok(())
    }

    /// Sends lines on one connection and keeps the answers.
    fn twice(&mut self, lines: &[String]) {
        let Ok(mut client) = self.runtime.greeted() else { return };
        for line in lines {
            client.send(format!("{line}\n").as_bytes());
        }
        self.answers = client.answers(lines.len());
    }

    /// Connects and says this first; a gate that takes it greets.
    fn say_first(&mut self, token: &str) {
        let Ok(mut client) = self.runtime.knock() else {
            self.refused += 1;
            return;
        };
        let token = if token.is_empty() { String::new() } else { format!("{token}\n") };
        client.send(format!("{token}{}\n", super::place::INIT).as_bytes());
        match client.answer(Duration::from_secs(15)) {
            None if client.closed => self.refused += 1,
            _ => self.taken += 1,
        }
    }

    fn crowd(&mut self, count: usize) {
        for _ in 0..count {
            match self.runtime.knock() {
                Ok(client) => self.clients.push(client),
                Err(_) => self.refused += 1,
            }
            if self.clients.len().is_multiple_of(200) {
                self.most_fds = self.most_fds.max(self.runtime.fds());
            }
        }
        self.most_fds = self.most_fds.max(self.runtime.fds());
        let mut clients = std::mem::take(&mut self.clients);
        let closed = clients
            .iter_mut()
            .filter_map(|client| client.closes_within(Duration::from_millis(20)).then_some(()));
        self.refused += closed.count();
    }

    /// Another user, first as things stand, then with every folder opened so that only the socket itself can tell.
    fn other_user(&mut self) -> Result<(), Verdict> {
        if std::fs::metadata("/proc/self").unwrap().uid() != 0 {
            return Err(Verdict::Skip("only root can act as another user".to_owned()));
        }
        let socket = self.runtime.socket.clone();
        let first = format!("{}\n{}\n", self.runtime.token, super::place::INIT);
        for open in [false, true] {
            if open {
                let widen = |path: &Path, more: u32| {
                    let mode = std::fs::metadata(path).unwrap().mode() | more;
                    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
                };
                widen(&socket, 0o066);
                let ours = self.rig.home().parent().unwrap().to_owned();
                socket
                    .ancestors()
                    .skip(1)
                    .take_while(|at| at.starts_with(&ours))
                    .for_each(|at| widen(at, 0o055));
            }
            let program = "$SIG{PIPE} = 'IGNORE'; use Socket; socket(S, PF_UNIX, SOCK_STREAM, 0); connect(S, sockaddr_un($ARGV[0])) or exit 7;\
                           syswrite(S, $ARGV[1]); my $n = sysread(S, my $said, 100); exit($n ? 42 : 7);";
            let status = Command::new("setpriv")
                .args(["--reuid=65534", "--clear-groups", "perl", "-e", program])
                .arg(&socket)
                .arg(&first)
                .status();
            match status.ok().and_then(|status| status.code()) {
                Some(7) => self.refused += 1,
                Some(42) => self.taken += 1,
                _ => return Err(Verdict::Skip("setpriv and perl are needed".to_owned())),
            }
        }
        Ok(())
    }

    /// Somebody else's listener stands where ours was. The clients of both sockets must not speak to it.
    fn hijack(&mut self) {
        let control = self.rig.home().join("run");
        let control = std::fs::read_dir(control).unwrap().flatten().map(|entry| entry.path());
        let control = control.filter(|path| path.extension().is_some_and(|end| end == "sock"));
        for socket in control.chain([self.runtime.socket.clone()]).collect::<Vec<_>>() {
            std::fs::remove_file(&socket).unwrap();
            let listener = UnixListener::bind(&socket).unwrap();
            listener.set_nonblocking(true).unwrap();
            // Only root can give it away; elsewhere it is at least one that others could have put there.
            if std::os::unix::fs::chown(&socket, Some(65_534), None).is_err() {
                std::fs::set_permissions(&socket, std::fs::Permissions::from_mode(0o666)).unwrap();
            }
            let mut client = command(self.rig);
            if socket == self.runtime.socket {
                client.args(["gate", "--stdio"]);
                client
                    .env("DRIVETRAIN_GATE", &socket)
                    .env("DRIVETRAIN_GATE_TOKEN", &self.runtime.token);
            } else {
                client.args(["pause", &self.runtime.task]);
            }
            let code = client.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap().code();
            let spoken_to = listener.accept().is_ok();
            if spoken_to || code == Some(0) { self.taken += 1 } else { self.refused += 1 }
        }
    }

    /// Several processes share a home; what they cannot share is a task.
    fn second_runtime(&mut self) {
        let second = command(self.rig).args(["resume", &self.runtime.task]).output().unwrap();
        let words = String::from_utf8_lossy(&second.stderr).into_owned();
        if !second.status.success() && words.contains("driven by process") {
            self.refused += 1;
        } else {
            self.taken += 1;
        }
    }

    fn stale_socket(&mut self) -> Result<(), Verdict> {
        let stale = self.runtime.socket.clone();
        self.runtime.kill();
        if !stale.exists() {
            return Err(Verdict::Fail(
                "a killed runtime left no socket: nothing is shown".to_owned(),
            ));
        }
        let next = Runtime::start(self.rig, "next", &Setup::default()).map_err(Verdict::Fail)?;
        self.runtime = next;
        self.restarted = !stale.exists();
        Ok(())
    }

    fn judge(mut self, expect: &str) -> Tried {
        let checks_gate = expect != "refused" || self.runtime.socket.exists();
        let growth = self.runtime.memory().saturating_sub(self.memory) >> 10;
        let settled = |kind: &str, runtime: &Runtime<'_>| {
            let until = Instant::now() + Duration::from_secs(10);
            while runtime.count(kind) == 0 && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(100));
            }
            runtime.count(kind)
        };
        let seen = match expect.split("<=").next().unwrap_or_default() {
            "close" => (self.closed_after.is_some(), format!("closed: {:?}", self.closed_after)),
            "bounded-fds" => {
                let (fds, refused) = (self.most_fds, self.refused);
                (fds <= MOST_FDS && refused > 0, format!("{fds} descriptors, {refused} refused"))
            }
            "backpressure" => (
                self.blocked && growth <= MOST_GROWTH,
                format!("blocked: {}, grew by {growth} MB", self.blocked),
            ),
            "no-effect" => {
                std::thread::sleep(Duration::from_millis(500));
                let started = self.runtime.count("tool_started") + self.runtime.count("tool_ended");
                (started == 0, format!("{started} events of calls"))
            }
            "journaled" => {
                let ended = settled("tool_ended", &self.runtime);
                let started = self.runtime.count("tool_started");
                (ended > 0 && started == 0, format!("{ended} decided, {started} started"))
            }
            "refused" => (
                self.refused > 0 && self.taken == 0,
                format!("{} refused, {} taken", self.refused, self.taken),
            ),
            "started" => (self.restarted, "the stale socket is still there".to_owned()),
            "once" => {
                let started = settled("tool_started", &self.runtime);
                let same = self.answers.len() == 2
                    && self.answers[0]["result"] == self.answers[1]["result"]
                    && !self.answers[0]["result"].is_null();
                (started == 1 && same, format!("{started} started: {:?}", self.answers))
            }
            "error" if !self.answers.is_empty() => {
                let started = self.runtime.count("tool_started");
                let refused =
                    self.answers.iter().filter(|answer| !answer["error"].is_null()).count();
                (refused == 1 && started <= 1, format!("{started} started: {:?}", self.answers))
            }
            // What a case of bytes can come to, a script can too.
            _ => {
                let answers = self.clients.last_mut().map(|client| client.answers(1));
                let seen = super::Seen {
                    answers: answers.unwrap_or_default(),
                    closed: self.clients.last().is_some_and(|client| client.closed),
                    calls: self.runtime.events().into_iter().filter(super::is_call).collect(),
                    worktree: self.rig.worktree().display().to_string(),
                };
                let holds = super::alternatives(expect).any(|expect| super::holds(expect, &seen));
                (holds, format!("{seen:?}"))
            }
        };
        if checks_gate && !matches!(expect, "refused" if !self.is_reachable()) {
            self.clients.clear();
            alive(&mut self.runtime)?;
        }
        Ok(if seen.0 { Verdict::Pass } else { Verdict::Fail(seen.1) })
    }

    /// Whether our own socket still stands where it did.
    fn is_reachable(&self) -> bool {
        std::fs::metadata(&self.runtime.socket).is_ok_and(|found| {
            found.uid() == std::fs::metadata("/proc/self").unwrap().uid()
                && found.mode() & 0o077 == 0
        })
    }
}

fn call(id: u64, tool: &str, arguments: &Value) -> String {
    let params = json!({ "name": tool, "arguments": arguments });
    json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params }).to_string()
}

fn note(content: &str) -> Value {
    json!({ "path": "note.txt", "content": content })
}
