//! The kind `config`: hostile files of workflows, machines and goals, each through the binary as a person meets it.
//!
//! A case in TOML is a workflow of the project: checked by its name, and run if it is right. A case in YAML is a goal file
//! that is run. The worker is a script, nobody attends, and nothing of drivetrain's own is set but its home. The bar is the
//! class that the case names, no panic, an end in time and in bounded memory, and no effect that a file alone can have.

mod untrusted;

use std::io::Read;
use std::process::Stdio;
use std::time::{Duration, Instant};

use regex::Regex;
use serde_json::Value;

use crate::Verdict;
use crate::case::Case;
use crate::injection;
use crate::rig::Rig;
use crate::terminal::raw_in;

/// How long a command may take that the case sets no limit to, on a machine that does other things too.
const PATIENCE: Duration = Duration::from_secs(60);
/// How much memory a command may need, in MB, if the case does not say.
const MEMORY: u64 = 384;
/// In how many ticks the kernel counts a second of a process's time.
const TICKS: u64 = 100;

/// One command and what was seen of it.
pub(crate) struct Ran {
    /// Its exit code; none if a signal ended it.
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
    /// The processor time it took: a busy machine is not a slow program.
    took: Duration,
}

/// What a file is to drivetrain.
enum Role {
    /// A workflow of the project, by this name.
    Workflow(String),
    /// A goal file.
    Goal,
}

/// A case in its rig.
pub(crate) struct Scene<'s> {
    pub(crate) case: &'s Case,
    pub(crate) rig: &'s Rig,
    role: Role,
    bytes: Vec<u8>,
}

/// Tries one case.
pub(crate) fn run(case: &Case, rig: &Rig) -> Verdict {
    let Some(bytes) = case.bytes() else {
        return Verdict::Skip("its generator is not known".to_owned());
    };
    let bytes = match std::str::from_utf8(&bytes) {
        Ok(text) => rig.fill(text).into_bytes(),
        Err(_) => bytes,
    };
    let role = match case.text("format") {
        "toml" => Role::Workflow(name_in(&bytes)),
        "yaml" => Role::Goal,
        other => return Verdict::Skip(format!("nobody here knows the format {other:?}")),
    };
    let scene = Scene { case, rig, role, bytes };
    scene.plant();
    let mut missed = Vec::new();
    for class in case.expect.split("-or-") {
        match scene.meets(class) {
            Ok(()) => return Verdict::Pass,
            Err(Verdict::Fail(why)) => missed.push(format!("{class}: {why}")),
            Err(other) => return other,
        }
    }
    Verdict::Fail(missed.join("; "))
}

impl Scene<'_> {
    /// Whether the file ends in a class of the corpus.
    fn meets(&self, class: &str) -> Result<(), Verdict> {
        match class {
            "accept" => self.is_accepted().map(drop),
            "reject" => self.is_rejected(),
            "bounded" | "cap" => self.ends(),
            "warn" => self.is_warned_of(),
            "default" => self.has_a_limit(),
            "defined" => self.is_the_same_twice(),
            "escape" => self.is_shown_escaped(),
            "ignored-until-trusted" => untrusted::waits(self),
            other => Err(fail(format!("nobody here knows the class {other:?}"))),
        }
    }

    /// What the case brings with it: the file itself, and whatever it leads to.
    fn plant(&self) {
        let folder = self.rig.worktree();
        let write = |path: &str, bytes: &[u8]| {
            let path = folder.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, bytes).unwrap();
        };
        match &self.role {
            Role::Workflow(name) => {
                write(&format!(".drivetrain/workflows/{name}.toml"), &self.bytes);
            }
            Role::Goal => write("case.yaml", &self.bytes),
        }
        // The worker says a word and is done.
        let replies = "[[reply]]\ntext = \"Done.\"\nrepeat = true\n";
        std::fs::write(self.rig.user().join("replies.toml"), replies).unwrap();
        let text = String::from_utf8_lossy(&self.bytes[..self.bytes.len().min(64 << 10)]);
        // A prompt that is referred to is a link that leads out of the project, to what must not be shown.
        for name in found(r"@prompts/([A-Za-z0-9_-]+)", &text) {
            let link = folder.join(format!(".drivetrain/prompts/{name}.txt"));
            std::fs::create_dir_all(link.parent().unwrap()).unwrap();
            let _ = std::os::unix::fs::symlink(self.rig.secret_file(), link);
        }
        // A file that a pattern is looked for in makes it work hard.
        for name in found(r#"path: *"?([A-Za-z0-9_-]+)"?"#, &text) {
            write(&name, format!("{}!\n", "a".repeat(100_000)).as_bytes());
        }
    }

    /// The command that reads the file.
    fn reading(&self) -> Vec<String> {
        match &self.role {
            Role::Workflow(name) => words(&["workflow", "check", name]),
            Role::Goal => self.running(),
        }
    }

    /// The command that runs it.
    fn running(&self) -> Vec<String> {
        let model = format!("script/{}", self.rig.user().join("replies.toml").display());
        let with = ["--in-place", "--unattended", "--model", &model];
        match &self.role {
            Role::Workflow(name) => {
                words(&[&["workflow", "run", name.as_str()], &with[..]].concat())
            }
            Role::Goal => words(&[&["run", "case.yaml"], &with[..]].concat()),
        }
    }

    /// Reads the file, within the limits of the case.
    fn read(&self) -> Result<Ran, Verdict> {
        let ran = self.command(&self.reading())?;
        let limit = self.case.all["limit_ms"].as_u64().map(Duration::from_millis);
        match limit.filter(|limit| ran.took > *limit) {
            Some(limit) => {
                Err(Verdict::Hang(format!("{:?}, and {limit:?} is the limit", ran.took)))
            }
            None => Ok(ran),
        }
    }

    fn is_rejected(&self) -> Result<(), Verdict> {
        let ran = self.read()?;
        if ran.code != Some(2) {
            return Err(fail(format!("ended with {}", ran.told())));
        }
        // A place is a line of the file; one that is too large to be read has only its name.
        let file = match &self.role {
            Role::Workflow(name) => format!("{name}.toml"),
            Role::Goal => "case.yaml".to_owned(),
        };
        let has_place = ran.err.contains("-->") || ran.err.contains("cannot read");
        if !has_place || !ran.err.contains(&file) {
            return Err(fail(format!("refused without a place: {}", ran.told())));
        }
        match injection::task(self.rig) {
            None => Ok(()),
            Some(id) => Err(fail(format!("refused, and yet there is a task {id}"))),
        }
    }

    /// It is right, and what it says can be begun.
    fn is_accepted(&self) -> Result<Ran, Verdict> {
        let read = self.read()?;
        let is_goal = matches!(self.role, Role::Goal);
        if !is_goal && read.code != Some(0) {
            return Err(fail(format!("refused: {}", read.told())));
        }
        let ran = if is_goal { read } else { self.command(&self.running())? };
        if injection::task(self.rig).is_none() {
            return Err(fail(format!("it does not begin: {}", ran.told())));
        }
        Ok(ran)
    }

    /// It loads, and comes to an end by itself.
    fn ends(&self) -> Result<(), Verdict> {
        self.is_accepted()?;
        let outcome = self.task()["outcome"].clone();
        if outcome.is_string() { Ok(()) } else { Err(fail("it has not ended".to_owned())) }
    }

    fn is_warned_of(&self) -> Result<(), Verdict> {
        let ran = self.read()?;
        if ran.code == Some(0) && ran.err.contains("warning") {
            return Ok(());
        }
        Err(fail(format!("no warning: {}", ran.told())))
    }

    /// What sets no limit has one.
    fn has_a_limit(&self) -> Result<(), Verdict> {
        self.is_accepted()?;
        let budget = &self.task()["budget"];
        let is_limit = |key: &str| budget[key].as_f64().is_some_and(|limit| limit > 0.0);
        if ["max_turns", "max_time", "max_tokens", "max_usd"].into_iter().any(is_limit) {
            return Ok(());
        }
        Err(fail(format!("nothing ends it: the budget is {budget}")))
    }

    fn is_the_same_twice(&self) -> Result<(), Verdict> {
        let (first, second) = (self.read()?, self.read()?);
        let place = first.code == Some(2) && first.err.contains("-->");
        if first.code != second.code || (place && first.err != second.err) {
            return Err(fail(format!("{} and then {}", first.told(), second.told())));
        }
        if place || injection::task(self.rig).is_some() {
            return Ok(());
        }
        Err(fail(format!("neither begun nor refused with a place: {}", first.told())))
    }

    /// Wherever it is shown, nothing of it steers the terminal. That the commands show nothing raw is looked at in
    /// [`Scene::command`].
    fn is_shown_escaped(&self) -> Result<(), Verdict> {
        self.is_accepted()?;
        let id = injection::task(self.rig).unwrap_or_default();
        for command in [&["list", "--all"][..], &["show", &id], &["log", &id], &["why", &id]] {
            self.command(&words(command))?;
        }
        Ok(())
    }

    /// The newest task.
    fn task(&self) -> Value {
        let list = injection::drivetrain(self.rig, &["list", "--all", "--json"]);
        let list = list.map(|ran| ran.stdout).unwrap_or_default();
        let list: Value = serde_json::from_slice(&list).unwrap_or_default();
        list["tasks"][0].clone()
    }

    /// Runs a command to its end, and looks at what no command may do.
    pub(crate) fn command(&self, args: &[String]) -> Result<Ran, Verdict> {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let most = self.case.all["rss_mb"].as_u64().unwrap_or(MEMORY);
        let mut child = injection::command(self.rig, &args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let out = reader(child.stdout.take().unwrap());
        let err = reader(child.stderr.take().unwrap());
        let begun = Instant::now();
        let mut took = Duration::ZERO;
        let status = loop {
            let memory = memory(child.id());
            took = took.max(worked(child.id()));
            let is_over = begun.elapsed() > PATIENCE;
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            if is_over || memory > most {
                let _ = child.kill();
                let _ = child.wait();
                let what = if is_over {
                    format!("goes on after {PATIENCE:?}")
                } else {
                    format!("holds {memory} MB")
                };
                return Err(Verdict::Hang(format!("{args:?} {what}")));
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        let (out, err) = (out.join().unwrap(), err.join().unwrap());
        for output in [&out, &err] {
            if let Some(raw) = raw_in(output, &[]) {
                return Err(fail(format!("{args:?} shows {raw} raw")));
            }
        }
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        let ran = Ran { code: status.code(), out: text(out), err: text(err), took };
        if ran.code.is_none() || ran.code == Some(101) || ran.err.contains("panicked") {
            return Err(Verdict::Panic(format!("{args:?}: {}", ran.told())));
        }
        if let Some(effect) = self.effect(&ran) {
            return Err(Verdict::Escape(format!("{args:?}: {effect}")));
        }
        Ok(ran)
    }

    /// What a file must not bring about, whatever it says.
    fn effect(&self, ran: &Ran) -> Option<String> {
        let rig = self.rig;
        if rig.canary().exists() || rig.worktree().join(untrusted::MARK).exists() {
            return Some("a program of the file was run".to_owned());
        }
        if rig.connections() > 0 {
            return Some(format!("{} connections", rig.connections()));
        }
        let shows = |mark: &str| ran.out.contains(mark) || ran.err.contains(mark);
        if [rig.secret.as_str(), rig.key.as_str(), "root:x:0:"].into_iter().any(shows) {
            return Some("it shows what lies outside".to_owned());
        }
        None
    }

    /// The name that the workflow is looked up by.
    pub(crate) fn name(&self) -> &str {
        if let Role::Workflow(name) = &self.role { name } else { "case" }
    }

    /// The file's bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl Ran {
    /// How it ended and what it said last.
    pub(crate) fn told(&self) -> String {
        let end = |text: &str| {
            text.chars().skip(text.chars().count().saturating_sub(300)).collect::<String>()
        };
        format!("code {:?}, {}{}", self.code, end(&self.out), end(&self.err))
    }
}

/// The name that a workflow's file has: the one that it gives itself, if that can be the name of a file.
fn name_in(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(4 << 10)]);
    let head = text.split("[[").next().unwrap_or_default().to_owned();
    found(r#"(?m)^name *= *"([A-Za-z0-9_][A-Za-z0-9_.-]{0,60})""#, &head)
        .into_iter()
        .next()
        .unwrap_or_else(|| "w".to_owned())
}

/// The first group of every match, each once.
pub(crate) fn found(pattern: &str, text: &str) -> Vec<String> {
    let mut all: Vec<String> = Regex::new(pattern)
        .unwrap()
        .captures_iter(text)
        .filter_map(|captures| Some(captures.get(1)?.as_str().to_owned()))
        .collect();
    all.dedup();
    all
}

pub(crate) fn words(args: &[&str]) -> Vec<String> {
    args.iter().map(|word| (*word).to_owned()).collect()
}

pub(crate) fn fail(why: String) -> Verdict {
    Verdict::Fail(why)
}

fn reader(mut from: impl Read + Send + 'static) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = from.read_to_end(&mut bytes);
        bytes
    })
}

/// The processor time that a process has had.
fn worked(pid: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name, which may have spaces, ends with the last bracket; then the state is the third field.
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields).split_whitespace();
    let ticks: u64 = fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 1000 / TICKS)
}

/// The most memory that a process has held, in MB.
fn memory(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM"));
    let kilobytes = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
    kilobytes.unwrap_or(0) >> 10
}
