//! A workspace, a scripted model, and Claude Code beside it: started with our command line and our variables only, and
//! driven by our codec.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use machine::agent::{AgentAsk, AgentEvent, AgentOrder, AgentTurn};
use machine::message::Usage;
use machine::server::ToolOffer;
use machine::stream::StreamEvent;
use machine::tool::EffectClass;
use runtime::fake::{Fake, Limits};
use serde_json::{Value, json};
use wire::agent::AgentCodec;
use wire::agent::claude::{
    ClaudeCodec, ClaudeKey, ClaudeOptions, Session, command_line, environment,
};
use wire::agent::table::Version;
use wire::model::script::Script;

/// Longer than anything here takes on a machine that does other things too.
const PATIENCE: Duration = Duration::from_secs(120);

/// The variable that names the program: a script for node if it ends in `.js`.
const PROGRAM: &str = "DRIVETRAIN_CLAUDE";

/// What a session needs, kept until it is dropped.
pub(crate) struct Rig {
    folder: tempfile::TempDir,
    server: Arc<Fake>,
    version: String,
}

/// One process of the agent.
pub(crate) struct Agent {
    pub(crate) codec: ClaudeCodec,
    child: Child,
    stdin: Option<ChildStdin>,
    output: Receiver<Vec<u8>>,
    stderr: PathBuf,
    /// Everything that was heard.
    pub(crate) events: Vec<AgentEvent>,
    /// How many of them were looked at.
    seen: usize,
    /// Questions that were asked, in order.
    pub(crate) asked: Vec<AgentAsk>,
    answers: Answers,
    /// Questions are left open.
    pub(crate) waits: bool,
    /// Change what is written at once in answer to what was read.
    pub(crate) filter: fn(Vec<u8>) -> Vec<u8>,
}

type Answers = Box<dyn FnMut(&AgentAsk) -> Result<Option<Value>, String>>;

impl Rig {
    /// A workspace with one file, and a model that plays this script.
    pub(crate) fn new(script: &str) -> Rig {
        assert_alone();
        let folder = tempfile::tempdir().unwrap();
        let script =
            format!("{script}\n[aside]\ntext = \"ok\"\nusage = {{ input = 1, output = 1 }}\n");
        let script = Script::parse(&script, "script.toml").unwrap();
        let limits = Limits { connections: 32, ..Limits::default() };
        let server = Arc::new(Fake::bind(script, 0, limits).unwrap());
        let serving = Arc::clone(&server);
        std::thread::spawn(move || serving.serve());
        let rig = Rig { folder, server, version: version() };
        std::fs::create_dir_all(rig.path("work")).unwrap();
        std::fs::create_dir_all(rig.path("tmp")).unwrap();
        std::fs::write(rig.path("work/hello.txt"), "hello world\nsecond line\n").unwrap();
        let git = Command::new("git").args(["init", "-q"]).current_dir(rig.path("work")).status();
        assert!(git.unwrap().success());
        rig
    }

    pub(crate) fn path(&self, below: &str) -> PathBuf {
        self.folder.path().join(below)
    }

    pub(crate) fn work(&self, below: &str) -> String {
        self.path("work").join(below).display().to_string()
    }

    pub(crate) fn read(&self, below: &str) -> Option<String> {
        std::fs::read_to_string(self.path("work").join(below)).ok()
    }

    /// What the model was asked, without what is asked beside the conversation.
    pub(crate) fn requests(&self) -> Vec<Value> {
        let asked = self.server.requests();
        let all = asked["requests"].as_array().unwrap().iter();
        all.filter(|request| request["turn"].is_u64()).cloned().collect()
    }

    /// Whether the program is at least this version.
    pub(crate) fn is(&self, version: Version) -> bool {
        Version::find(&self.version).unwrap() >= version
    }

    pub(crate) fn options(&self, session: Session) -> ClaudeOptions {
        ClaudeOptions {
            version: self.version.clone(),
            model: Some("claude-sonnet-4-5".to_owned()),
            retries: 2,
            temporary: Some(self.path("tmp").display().to_string()),
            base_url: Some(self.server.url()),
            key: Some(ClaudeKey::new("no-key-at-all")),
            ..ClaudeOptions::new(session, self.path("state").display().to_string())
        }
    }

    /// Starts a new conversation that allows everything.
    pub(crate) fn start(&self) -> Agent {
        self.start_with(&self.options(Session::New(fresh())))
    }

    /// Starts the program and waits until it is ready.
    pub(crate) fn start_with(&self, options: &ClaudeOptions) -> Agent {
        let mut agent = self.spawn(options);
        let first = agent.codec.open();
        agent.write(&first);
        agent.until("ready", |event| matches!(event, AgentEvent::Ready(_)));
        agent
    }

    pub(crate) fn spawn(&self, options: &ClaudeOptions) -> Agent {
        let codec = ClaudeCodec::new(options, offers(), number());
        let stderr = self.path(&format!("stderr-{}", number()));
        let mut words = program();
        words.extend(command_line(options, true));
        let inherited = [
            ("PATH", std::env::var("PATH").unwrap()),
            ("HOME", self.path("home").display().to_string()),
        ];
        let inherited = inherited.map(|(name, value)| (name.to_owned(), value));
        // The processes of its tools have sessions of their own: a PID namespace ends them with it.
        let mut child = Command::new("bwrap")
            .args([
                "--dev-bind",
                "/",
                "/",
                "--proc",
                "/proc",
                "--unshare-pid",
                "--die-with-parent",
                "--",
            ])
            .args(&words)
            .env_clear()
            .envs(environment(options, &inherited))
            .current_dir(self.path("work"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(&stderr).unwrap())
            .spawn()
            .unwrap();
        let (sender, output) = channel();
        let mut stdout = child.stdout.take().unwrap();
        std::thread::spawn(move || {
            let mut piece = vec![0; 64 << 10];
            while let Ok(length) = stdout.read(&mut piece) {
                if length == 0 || sender.send(piece[..length].to_vec()).is_err() {
                    break;
                }
            }
        });
        Agent {
            codec,
            stdin: child.stdin.take(),
            child,
            output,
            stderr,
            events: Vec::new(),
            seen: 0,
            asked: Vec::new(),
            answers: Box::new(|_| Ok(None)),
            waits: false,
            filter: |reply| reply,
        }
    }
}

impl Agent {
    /// Answers questions so from here on.
    pub(crate) fn answers(
        mut self,
        answers: impl FnMut(&AgentAsk) -> Result<Option<Value>, String> + 'static,
    ) -> Agent {
        self.answers = Box::new(answers);
        self
    }

    pub(crate) fn order(&mut self, order: AgentOrder) {
        let bytes = self.codec.order(order).unwrap();
        self.write(&bytes);
    }

    pub(crate) fn prompt(&mut self, text: &str) {
        self.order(AgentOrder::Prompt { text: text.to_owned() });
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) {
        // A program that is gone is noticed by the end of its output.
        let _ = self.stdin.as_mut().unwrap().write_all(bytes);
    }

    /// Sends a prompt and waits for the end of the turn; the agent may stop when it wants to.
    pub(crate) fn turn(&mut self, text: &str) -> AgentTurn {
        self.prompt(text);
        self.turn_end()
    }

    /// Waits for the end of a turn.
    pub(crate) fn turn_end(&mut self) -> AgentTurn {
        match self.until("end of a turn", |event| matches!(event, AgentEvent::TurnEnded(_))) {
            AgentEvent::TurnEnded(turn) => turn,
            _ => unreachable!("it is what was waited for"),
        }
    }

    /// Goes on until such an event is heard. Questions are answered, also that one; ends of turns and calls of our
    /// tools that are waited for are left to the caller.
    pub(crate) fn until(&mut self, what: &str, is_it: impl Fn(&AgentEvent) -> bool) -> AgentEvent {
        let deadline = Instant::now() + PATIENCE;
        loop {
            while self.seen < self.events.len() {
                let event = self.events[self.seen].clone();
                self.seen += 1;
                let found = is_it(&event);
                match &event {
                    AgentEvent::Asks(ask) if !self.waits => {
                        self.asked.push(ask.clone());
                        let may = (self.answers)(ask);
                        self.order(AgentOrder::Answer { key: ask.key.clone(), may });
                    }
                    AgentEvent::WouldStop { key, .. } if !found => {
                        self.order(AgentOrder::MayStop { key: key.clone(), missing: None });
                    }
                    _ => {}
                }
                if found {
                    return event;
                }
            }
            let left = deadline.saturating_duration_since(Instant::now());
            match self.output.recv_timeout(left) {
                Ok(piece) => self.hear(&piece),
                Err(RecvTimeoutError::Timeout) => panic!("no {what} in time: {}", self.story()),
                Err(RecvTimeoutError::Disconnected) => {
                    let last = self.codec.end();
                    assert!(!last.is_empty(), "it ended before {what}: {}", self.story());
                    self.events.extend(last);
                }
            }
        }
    }

    /// Goes on, answering what needs no decision, until this holds.
    pub(crate) fn pump_until(&mut self, what: &str, holds: impl Fn() -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !holds() {
            assert!(Instant::now() < deadline, "{what} did not come: {}", self.story());
            if let Ok(piece) = self.output.recv_timeout(Duration::from_millis(10)) {
                self.hear(&piece);
            }
        }
    }

    fn hear(&mut self, piece: &[u8]) {
        let mut reply = Vec::new();
        let events = self.codec.read(piece, &mut reply);
        self.events.extend(events);
        let reply = (self.filter)(reply);
        if !reply.is_empty() {
            self.write(&reply);
        }
    }

    /// Ends it as an orderly driver does, and gives its status.
    pub(crate) fn close(mut self) -> Option<i32> {
        drop(self.stdin.take());
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("it did not end: {}", self.story());
    }

    /// Kills it and everything that it started.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// All text that was said, and everything else in short.
    pub(crate) fn story(&self) -> String {
        let stderr = std::fs::read_to_string(&self.stderr).unwrap_or_default();
        let events: Vec<String> = self.events.iter().map(|event| format!("{event:?}")).collect();
        format!("{}\nstandard error: {stderr}", events.join("\n"))
    }

    pub(crate) fn text(&self) -> String {
        let texts = self.events.iter().filter_map(|event| match event {
            AgentEvent::Stream(StreamEvent::TextDelta { text, .. }) => Some(text.as_str()),
            _ => None,
        });
        texts.collect()
    }

    /// All that was spent.
    pub(crate) fn spent(&self) -> (u64, u64, f64) {
        let (mut sum, mut dollars) = (Usage::default(), 0.0);
        for event in &self.events {
            if let AgentEvent::Spent { usage, usd } = event {
                sum.add(usage);
                dollars += usd.unwrap_or(0.0);
            }
        }
        (sum.input.unwrap_or(0), sum.output.unwrap_or(0), dollars)
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The tool that we offer.
fn offers() -> Vec<ToolOffer> {
    let schema = json!({ "type": "object", "properties": { "status": { "type": "string" } }, "required": ["status"] });
    vec![ToolOffer {
        name: "report".to_owned(),
        tool: "report".to_owned(),
        summary: "Says how far the work is.".to_owned(),
        schema,
        class: EffectClass::Pure,
        source: "drivetrain".to_owned(),
        changed: false,
    }]
}

/// The id of a conversation that nobody had before.
pub(crate) fn fresh() -> String {
    let hex = format!("{:032x}", number());
    format!("{}-{}-4{}-8{}-{}", &hex[..8], &hex[8..12], &hex[13..16], &hex[17..20], &hex[20..])
}

fn number() -> u128 {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = u128::from(COUNT.fetch_add(1, Ordering::Relaxed));
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    (u128::from(std::process::id()) << 96) | ((now.as_nanos() & 0xffff_ffff_ffff) << 32) | count
}

fn program() -> Vec<String> {
    let program = std::env::var(PROGRAM)
        .unwrap_or_else(|_| panic!("{PROGRAM} is not set: run this through scripts/agents"));
    if Path::new(&program).extension().is_some_and(|extension| extension == "js") {
        vec!["node".to_owned(), program]
    } else {
        vec![program]
    }
}

fn version() -> String {
    let words = program();
    let output = Command::new(&words[0]).args(&words[1..]).arg("--version").output().unwrap();
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// Nothing but this machine can be reached, so no mistake here can reach a vendor.
fn assert_alone() {
    let interfaces = std::fs::read_to_string("/proc/net/dev").unwrap();
    let names = interfaces.lines().skip(2).filter_map(|line| line.split(':').next());
    let others: Vec<&str> = names.map(str::trim).filter(|name| *name != "lo").collect();
    assert!(others.is_empty(), "there is a network ({others:?}): run this through scripts/agents");
}
