//! A workspace, a scripted model, and any agent beside it: started as `wire::agent::start` says, behind a gateway that
//! is the scripted model, and driven by the codec that it gives.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use machine::agent::{AgentAsk, AgentEvent, AgentOrder, AgentProgram, AgentTurn};
use machine::message::Usage;
use machine::stream::StreamEvent;
use runtime::fake::{Fake, Limits};
use serde_json::Value;
use wire::agent::{AgentCodec, Launch, Session, Started, start};
use wire::model::script::Script;

/// What a question is answered: the call may run, with these parameters if they are others, or why not.
pub(crate) type Answer = Result<Option<Value>, String>;

/// Longer than anything here takes on a machine that does other things too.
const PATIENCE: Duration = Duration::from_secs(120);

/// What a conversation needs, kept until it is dropped.
pub(crate) struct Place {
    folder: tempfile::TempDir,
    server: Arc<Fake>,
    pub(crate) program: AgentProgram,
}

/// What is answered to a question.
type Answers = Box<dyn FnMut(&AgentAsk) -> Option<Answer>>;

/// One process of the agent.
pub(crate) struct Driven {
    pub(crate) codec: Box<dyn AgentCodec>,
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
    /// How questions are answered; left open if there is no answer.
    pub(crate) answer: Answers,
    /// Changes what is written at once in answer to what was read.
    pub(crate) filter: fn(Vec<u8>) -> Vec<u8>,
}

/// The program that this variable names: a script for node if it ends in `.js`.
pub(crate) fn named(variable: &str) -> Vec<String> {
    let program = std::env::var(variable)
        .unwrap_or_else(|_| panic!("{variable} is not set: run this through scripts/agents"));
    if Path::new(&program).extension().is_some_and(|extension| extension == "js") {
        vec!["node".to_owned(), program]
    } else {
        vec![program]
    }
}

impl Place {
    /// A workspace with one file, and a model that plays this script.
    pub(crate) fn new(program: AgentProgram, script: &str) -> Place {
        assert_alone();
        let folder = tempfile::tempdir().unwrap();
        let script = Script::parse(script, "script.toml").unwrap();
        let limits = Limits { connections: 32, ..Limits::default() };
        let server = Arc::new(Fake::bind(script, 0, limits).unwrap());
        let serving = Arc::clone(&server);
        std::thread::spawn(move || serving.serve());
        let place = Place { folder, server, program };
        for below in ["work", "home", "tmp"] {
            std::fs::create_dir_all(place.path(below)).unwrap();
        }
        std::fs::write(place.path("work/hello.txt"), "hello world\nsecond line\n").unwrap();
        let git = Command::new("git").args(["init", "-q"]).current_dir(place.path("work")).status();
        assert!(git.unwrap().success());
        place
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

    /// Where the model is.
    pub(crate) fn url(&self) -> String {
        self.server.url()
    }

    /// Waits until a file is there.
    pub(crate) fn await_file(&self, below: &str, agent: &Driven) {
        let begun = Instant::now();
        while self.read(below).is_none() {
            assert!(begun.elapsed() < PATIENCE, "no {below}: {}", agent.story());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// What the model was asked, without what is asked beside the conversation.
    pub(crate) fn requests(&self) -> Vec<Value> {
        let asked = self.server.requests();
        let all = asked["requests"].as_array().unwrap().iter();
        all.filter(|request| request["turn"].is_u64()).cloned().collect()
    }

    /// Starts a new conversation and waits until it can be asked.
    pub(crate) fn begin(&self) -> Driven {
        self.ready(Session::New("00000000-0000-4000-8000-000000000000"))
    }

    /// Goes on with a conversation in a new process.
    pub(crate) fn resume(&self, id: &str) -> Driven {
        self.ready(Session::Resume(id))
    }

    fn ready(&self, session: Session<'_>) -> Driven {
        let mut agent = self.spawn(session);
        agent.until("ready", |event| matches!(event, AgentEvent::Ready(_)));
        agent
    }

    /// Starts the program and opens the conversation.
    pub(crate) fn spawn(&self, session: Session<'_>) -> Driven {
        let text = |below: &str| self.path(below).display().to_string();
        let (folder, home, gateway) = (text("work"), text("home"), self.server.url());
        let launch = Launch {
            program: &self.program,
            session,
            cost: None,
            folder: &folder,
            home: &home,
            version: "",
            seed: 0,
            gateway: Some(&gateway),
            tools: &[],
        };
        let mut agent = self.spawn_started(start(&launch).unwrap());
        agent.open();
        agent
    }

    /// Starts a program with the codec that speaks to it; nothing is said to it yet.
    pub(crate) fn spawn_started(&self, started: Started) -> Driven {
        for (file, content) in &started.files {
            let path = self.path("home").join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let stderr = self.path(&format!("stderr-{}", COUNT.fetch_add(1, Ordering::Relaxed)));
        // The processes of its tools have sessions of their own: a PID namespace ends them with it.
        let mut child = Command::new("bwrap")
            .args(["--dev-bind", "/", "/", "--proc", "/proc", "--unshare-pid"])
            .args(["--die-with-parent", "--"])
            .args(&started.argv)
            .env_clear()
            .env("PATH", std::env::var("PATH").unwrap())
            .env("TMPDIR", self.path("tmp"))
            .envs(started.env)
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
        Driven {
            codec: started.codec,
            stdin: child.stdin.take(),
            child,
            output,
            stderr,
            events: Vec::new(),
            seen: 0,
            asked: Vec::new(),
            answer: Box::new(|_| Some(Ok(None))),
            filter: |reply| reply,
        }
    }
}

impl Driven {
    /// Says the first words.
    pub(crate) fn open(&mut self) {
        let first = self.codec.open();
        self.write(&first);
    }

    /// Answers questions so from here on.
    pub(crate) fn answers(
        mut self,
        mut answers: impl FnMut(&AgentAsk) -> Answer + 'static,
    ) -> Driven {
        self.answer = Box::new(move |ask| Some(answers(ask)));
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

    /// Sends a prompt and waits for the end of the turn.
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

    /// Goes on until such an event is heard. Questions are answered, also that one; it may stop when it wants to, unless
    /// that is what is waited for.
    pub(crate) fn until(&mut self, what: &str, is_it: impl Fn(&AgentEvent) -> bool) -> AgentEvent {
        let deadline = Instant::now() + PATIENCE;
        loop {
            while self.seen < self.events.len() {
                let event = self.events[self.seen].clone();
                self.seen += 1;
                if let AgentEvent::Asks(ask) = &event {
                    self.asked.push(ask.clone());
                    if let Some(may) = (self.answer)(ask) {
                        self.order(AgentOrder::Answer { key: ask.key.clone(), may });
                    }
                }
                if is_it(&event) {
                    return event;
                }
                if let AgentEvent::WouldStop { key, .. } = event {
                    self.order(AgentOrder::MayStop { key, missing: None });
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
        self.write(&reply);
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

    pub(crate) fn session(&self) -> String {
        let session = self.events.iter().rev().find_map(|event| match event {
            AgentEvent::Session { id } => Some(id.clone()),
            _ => None,
        });
        session.unwrap()
    }

    /// Kills it and everything that it started.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// All that was heard, and what it complained of.
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

    /// All that was spent: input, output and dollars.
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

impl Drop for Driven {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A reply with one call.
pub(crate) fn call(tool: &str, input: &str) -> String {
    format!(
        "[[reply]]\ntext = \"I use {tool}.\"\ntool_calls = [{{ tool = \"{tool}\", input = {input} }}]\nusage = {{ input = 100, output = 20 }}\n"
    )
}

/// A reply of words.
pub(crate) fn says(text: &str) -> String {
    format!("[[reply]]\ntext = \"{text}\"\nusage = {{ input = 100, output = 20 }}\n")
}

/// A reply of many words that takes long.
pub(crate) fn talks() -> String {
    let words = "word ".repeat(600);
    format!(
        "[[reply]]\ntext = \"{words}\"\ndrip = \"100ms\"\nusage = {{ input = 100, output = 20 }}\n"
    )
}

/// Nothing but this machine can be reached, so no mistake here can reach a vendor.
fn assert_alone() {
    let interfaces = std::fs::read_to_string("/proc/net/dev").unwrap();
    let names = interfaces.lines().skip(2).filter_map(|line| line.split(':').next());
    let others: Vec<&str> = names.map(str::trim).filter(|name| *name != "lo").collect();
    assert!(others.is_empty(), "there is a network ({others:?}): run this through scripts/agents");
}
