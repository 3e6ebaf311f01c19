//! A repository, a scripted model, and a program that is driven by `drivetrain` between them. Every process that the
//! program starts has a mark in its environment, so that whatever is left of it is seen.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use runtime::fake::{Fake, Limits};
use serde_json::Value;
use wire::model::script::Script;

use crate::editor::Editor;
use crate::environment::{Background, Ran, TestEnvironment};
use crate::program::Program;

/// The variable with the mark.
const MARK: &str = "DRIVETRAIN_TEST_MARK";

/// Set if the programs are to be inside the sandbox.
const BOXED: &str = "DRIVETRAIN_AGENTS_BOXED";

/// What counts where a scenario says nothing else: everything that is asked is done.
pub(crate) const OPEN: &str = "[[rule]]\ntool = \"*\"\ndecide = \"allow\"\n";

/// What stands for the provider's key.
pub(crate) const KEY: &str = "no-key-at-all";

/// Where a home remembers what a program said of its version, and what the first scenario that is over found there. A
/// program that is asked takes a second, and every scenario has a home of its own.
const VERSIONS: &str = "agent-versions.json";
static SAID: OnceLock<String> = OnceLock::new();

/// How long a thing may take to be gone.
const GONE: Duration = Duration::from_secs(30);

pub(crate) struct Stage {
    pub(crate) place: TestEnvironment,
    server: Arc<Fake>,
    /// What every process of the program has among its variables.
    mark: String,
    /// The variable that holds its key.
    key: &'static str,
    /// What it is called, and its model where the command line says that.
    named: Vec<String>,
}

impl Drop for Stage {
    fn drop(&mut self) {
        if let Ok(said) = std::fs::read_to_string(self.place.home().join(VERSIONS)) {
            let _ = SAID.set(said);
        }
    }
}

/// A project's file does not say where a key is sent: the operator does.
fn is_address(name: &str) -> bool {
    name.ends_with("_BASE_URL")
}

impl Stage {
    /// A repository with one file, this policy, and a model that plays these replies.
    pub(crate) fn new(program: &Program, policy: &str, replies: &[String]) -> Stage {
        assert_alone();
        let aside = "[aside]\ntext = \"ok\"\nusage = { input = 1, output = 1 }\n";
        let script = format!("{}\n{aside}", replies.concat());
        let script = Script::parse(&script, "script.toml").unwrap();
        let limits = Limits { connections: 32, ..Limits::default() };
        let server = Arc::new(Fake::bind(script, 0, limits).unwrap());
        let serving = Arc::clone(&server);
        std::thread::spawn(move || serving.serve());
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let mut place = TestEnvironment::new().with_variable(program.key, KEY);
        for (name, value) in (program.variables)(&server.url()) {
            if is_address(name) {
                place = place.with_variable(name, &value);
            }
        }
        let mut named = vec!["--agent".to_owned(), program.built_in.unwrap_or("tried").to_owned()];
        let mut mark = format!("{MARK}={}-{count}", std::process::id());
        if let Some(folder) = program.folder() {
            for (name, value) in (program.variables)(&server.url()) {
                place = place.with_variable(name, &value);
            }
            let path = std::env::var("PATH").unwrap();
            place = place.with_variable("PATH", &format!("{}:{path}", folder.display()));
            // It gets no other variable, but its home is in that of drivetrain.
            mark = format!("HOME={}/", place.home().display());
            if !program.model.is_empty() {
                named.extend(["--model".to_owned(), program.model.to_owned()]);
            }
        }
        let stage = Stage { place, server, mark, named, key: program.key };
        stage.place.write("hello.txt", "hello world\nsecond line\n");
        stage.place.write(".drivetrain/policy.toml", policy);
        if program.built_in.is_none() {
            stage.place.write(".drivetrain/agents/tried.toml", &stage.file(program));
        }
        stage.place.git(&["init", "--quiet"]);
        stage.place.commit_all("one");
        stage.place.trust();
        if let Some(said) = SAID.get() {
            std::fs::write(stage.place.home().join(VERSIONS), said).unwrap();
        }
        stage
    }

    /// The agent's file.
    fn file(&self, program: &Program) -> String {
        let url = self.server.url();
        let quoted = |text: &str| Value::from(text).to_string();
        let command: Vec<String> = program.command().iter().map(|word| quoted(word)).collect();
        let mut variables = (program.variables)(&url);
        variables.retain(|(name, _)| !is_address(name));
        variables.push((MARK, self.mark[MARK.len() + 1..].to_owned()));
        let variables: Vec<String> =
            variables.iter().map(|(name, value)| format!("{name} = {}", quoted(value))).collect();
        let mut file = format!(
            "[agent]\nname = \"tried\"\nprotocol = \"{}\"\ncommand = [{}]\nenv = {{ {} }}\nidle = \"90s\"\nkeys = [\"{}\"]\n",
            program.protocol,
            command.join(", "),
            variables.join(", "),
            program.key
        );
        if !program.model.is_empty() {
            file.push_str(&format!("model = {}\n", quoted(program.model)));
        }
        if !program.mode.is_empty() {
            let quirks = program.quirks;
            file.push_str(&format!("mode = {}\nquirks = {quirks}\n", quoted(program.mode)));
        }
        file
    }

    fn words<'a>(&'a self, more: &[&'a str]) -> Vec<&'a str> {
        let mut words = vec!["run", "say hello to the driver"];
        words.extend(self.named.iter().map(String::as_str));
        if std::env::var_os(BOXED).is_none() {
            words.push("--no-sandbox");
        }
        words.extend(more);
        words
    }

    /// Runs the task to its end.
    pub(crate) fn run(&self, more: &[&str]) -> Ran {
        let ran = self.place.run(&self.words(more));
        self.await_nobody();
        ran
    }

    /// Runs a workflow to its end.
    pub(crate) fn run_workflow(&self, name: &str, more: &[&str]) -> Ran {
        let mut words = vec!["run", "greet", "--workflow", name];
        if std::env::var_os(BOXED).is_none() {
            words.push("--no-sandbox");
        }
        words.extend(more);
        let ran = self.place.run(&words);
        self.await_nobody();
        ran
    }

    /// Runs the task to its end, in an environment that has no key.
    pub(crate) fn run_without_key(&self, more: &[&str]) -> Ran {
        let mut command = self.place.command(&self.words(more));
        let ran = self.place.ran(command.env_remove(self.key).output().unwrap());
        self.await_nobody();
        ran
    }

    /// An editor whose prompts the program works on.
    pub(crate) fn editor(&self, more: &[&str]) -> Editor {
        let mut words: Vec<&str> = self.named.iter().map(String::as_str).collect();
        if std::env::var_os(BOXED).is_none() {
            words.push("--no-sandbox");
        }
        words.extend(more);
        Editor::of(&self.place, &words)
    }

    /// Starts the task in the background.
    pub(crate) fn start(&self, more: &[&str]) -> Background<'_> {
        self.place.start(&self.words(more))
    }

    /// Waits for the end of a task that was started, which leaves nothing behind.
    pub(crate) fn ended(&self, task: Background<'_>) -> Ran {
        let ran = task.wait();
        self.await_nobody();
        ran
    }

    pub(crate) fn worktree(&self) -> PathBuf {
        self.place.home().join("worktrees").join(self.place.id())
    }

    pub(crate) fn has(&self, file: &str) -> bool {
        self.worktree().join(file).exists()
    }

    /// Waits until the agent has made a file.
    pub(crate) fn until_made(&self, file: &str) {
        let worktree = self.worktree();
        self.place.until(|| worktree.join(file).exists().then_some(()));
    }

    /// The events of the only task, by their type.
    pub(crate) fn events(&self, kind: &str) -> Vec<Value> {
        let events = self.place.events(&self.place.id());
        events.into_iter().filter(|event| event["type"] == kind).collect()
    }

    /// Everything that the model was asked, each as text, without what is asked beside the conversation.
    pub(crate) fn asked(&self) -> Vec<String> {
        let asked = self.server.requests();
        let all = asked["requests"].as_array().unwrap().iter();
        all.filter(|request| request["turn"].is_u64())
            .map(|request| request["body"].to_string())
            .collect()
    }

    /// What all its answers counted, as the script has it: each turn 120 tokens, each thing beside the conversation 2.
    pub(crate) fn counted(&self) -> u64 {
        let asked = self.server.requests();
        let count = |request: &Value| match (&request["dialect"], &request["turn"]) {
            (Value::Null, _) => 0,
            (_, Value::Null) => 2,
            _ => 120,
        };
        asked["requests"].as_array().unwrap().iter().map(count).sum()
    }

    /// What the model was asked last.
    pub(crate) fn asked_last(&self) -> String {
        self.asked().pop().unwrap_or_default()
    }

    /// How it went, for a test that failed.
    pub(crate) fn story(&self, ran: &Ran) -> String {
        format!("status {}\n{}{}", ran.code, ran.out, ran.err)
    }

    /// The processes with the mark.
    pub(crate) fn agents(&self) -> Vec<(u32, String)> {
        let listed = std::fs::read_dir("/proc").unwrap().flatten();
        let numbers = listed.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        numbers
            .filter(|number| {
                let all = std::fs::read(format!("/proc/{number}/environ")).unwrap_or_default();
                let whole = self.mark.starts_with(MARK);
                all.split(|byte| *byte == 0).any(|pair| {
                    pair.starts_with(self.mark.as_bytes())
                        && (!whole || pair.len() == self.mark.len())
                })
            })
            .map(|number| {
                let command = std::fs::read(format!("/proc/{number}/cmdline")).unwrap_or_default();
                (number, String::from_utf8_lossy(&command).replace('\0', " "))
            })
            .filter(|(_, command)| !command.is_empty())
            .collect()
    }

    /// The program itself, which is the first that was started inside. Programs change what they are called, so it is not
    /// looked for by its name; nor by its number, for these begin anew when they have run out.
    pub(crate) fn agent(&self) -> u32 {
        let mut inside = self.agents();
        inside.retain(|(_, command)| !command.contains("bwrap"));
        let is_inside = |number: u64| inside.iter().any(|(other, _)| u64::from(*other) == number);
        let started = inside.iter().filter_map(|(number, _)| {
            let [parent, begun] = lineage(*number)?;
            (!is_inside(parent)).then_some((begun, *number))
        });
        started.min().unwrap_or_else(|| panic!("{:?}", self.agents())).1
    }

    /// Kills the program itself; what it started is left to whoever looks after it.
    pub(crate) fn kill_agent(&self) {
        let number = self.agent().to_string();
        let kill = std::process::Command::new("kill").args(["-9", &number]).status();
        assert!(kill.unwrap().success());
    }

    /// Nothing that the program started runs any more.
    pub(crate) fn await_nobody(&self) {
        let begun = Instant::now();
        while !self.agents().is_empty() {
            assert!(begun.elapsed() < GONE, "left running: {:?}", self.agents());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// The parent of a process, and when it was started.
fn lineage(number: u32) -> Option<[u64; 2]> {
    let about = std::fs::read_to_string(format!("/proc/{number}/stat")).ok()?;
    let fields: Vec<&str> = about.rsplit_once(')')?.1.split_whitespace().collect();
    Some([fields.get(1)?.parse().ok()?, fields.get(19)?.parse().ok()?])
}

/// Nothing but this machine can be reached, so no mistake here can reach a vendor.
fn assert_alone() {
    let interfaces = std::fs::read_to_string("/proc/net/dev").unwrap();
    let names = interfaces.lines().skip(2).filter_map(|line| line.split(':').next());
    let others: Vec<&str> = names.map(str::trim).filter(|name| *name != "lo").collect();
    assert!(others.is_empty(), "there is a network ({others:?}): run this through scripts/agents");
}
