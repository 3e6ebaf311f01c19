//! A fake coding agent: plays a script (`wire::agent::played`) on its standard input and output, in the words of Claude
//! Code, and does what no program should. For tests of what happens then.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::{Signal, getpid, kill_process};
use serde_json::{Value, json};
use wire::agent::played::{
    Played, Step, answer, call, model_refusal, prompt, question, refusal, request, result, words,
};

/// What it says of its version: one that was tried.
const VERSION: &str = "2.1.112 (Claude Code)";

/// Set for a process that was started with SIGTERM ignored.
const IGNORES: &str = "DRIVETRAIN_FAKE_IGNORES_TERM";

/// What comes in that a script waits for.
enum Heard {
    Prompt(String),
    /// The answer to a question: whether it may.
    Answer(bool),
    /// The answer to a call: what it was asked with, and what came of it.
    Result(String, Value),
    /// It is told to stop.
    Interrupt,
    /// Reads nothing more: whoever holds the other end of this is never done.
    End,
}

/// Its output, for whoever says something; closed once it says nothing more.
type Out = Arc<Mutex<Option<fs::File>>>;

struct Player {
    heard: Receiver<Heard>,
    deaf: Sender<()>,
    out: Out,
    calls: u64,
    /// What it was asked last.
    prompt: String,
    /// Calls that have no result: what they were asked with, and their tool.
    open: BTreeMap<String, String>,
}

/// Plays the script as a program that was started with these arguments. Ends as the script says.
pub fn play(script: &Path, arguments: &[String]) -> io::Result<u8> {
    if arguments.iter().any(|word| word == "--version") {
        writeln!(io::stdout(), "{VERSION}")?;
        return Ok(0);
    }
    let text = fs::read_to_string(script)?;
    let played =
        Played::parse(&text).map_err(|why| io::Error::new(io::ErrorKind::InvalidInput, why))?;
    if played.ignores_term() && std::env::var_os(IGNORES).is_none() {
        // What is ignored stays so over an exec; only a shell can be told to, without code that is not safe.
        let own = std::env::current_exe()?;
        let error = Command::new("sh")
            .args(["-c", "trap '' TERM; exec \"$@\"", "sh"])
            .arg(own)
            .args(std::env::args_os().skip(1))
            .env(IGNORES, "1")
            .exec();
        return Err(error);
    }
    let resumes = arguments.iter().any(|word| word == "--resume");
    let (sender, heard) = channel();
    let (deaf, hears) = channel();
    // A descriptor of its own: nothing is held back, and it can be closed.
    let out: Out = Arc::new(Mutex::new(Some(fs::File::from(rustix::io::dup(io::stdout())?))));
    let replies = Arc::clone(&out);
    let (refuses, refuses_model) = (played.refusal().map(str::to_owned), played.refuses_model());
    std::thread::spawn(move || {
        listen(&sender, &hears, &replies, |message| {
            let greeting = refuses.as_deref().and_then(|reason| refusal(message, reason));
            greeting.or_else(|| model_refusal(message).filter(|_| refuses_model))
        })
    });
    let (calls, prompt, open) = (0, String::new(), BTreeMap::new());
    let mut player = Player { heard, deaf, out, calls, prompt, open };
    for prompt in 0.. {
        match player.heard.recv() {
            Ok(Heard::Prompt(text)) => player.prompt = text,
            Ok(Heard::Answer(_) | Heard::Result(..) | Heard::Interrupt) => continue,
            Ok(Heard::End) | Err(_) => break,
        }
        if let Some(code) = player.perform(played.after(prompt, resumes))? {
            return Ok(code);
        }
    }
    Ok(0)
}

/// Reads what it is told until that ends. Requests are answered at once.
fn listen(
    sender: &Sender<Heard>,
    deaf: &Receiver<()>,
    replies: &Out,
    refused: impl Fn(&Value) -> Option<Value>,
) {
    let mut lines = BufReader::new(io::stdin());
    let mut line = String::new();
    loop {
        if deaf.try_recv().is_ok() {
            loop {
                std::thread::park();
            }
        }
        line.clear();
        match lines.read_line(&mut line) {
            Ok(0) | Err(_) => break,
            Ok(_) => {}
        }
        let Ok(message) = serde_json::from_str::<Value>(&line) else { continue };
        if let Some(refused) = refused(&message) {
            let _ = say(replies, &format!("{refused}\n"));
            continue;
        }
        let heard = match message["type"].as_str() {
            Some("control_request") => {
                let _ = say(replies, &format!("{}\n", answer(&message)));
                if message["request"]["subtype"] != "interrupt" {
                    continue;
                }
                Heard::Interrupt
            }
            Some("control_response") => {
                let response = &message["response"];
                let key = response["request_id"].as_str().unwrap_or_default().to_owned();
                match response["response"].get("mcp_response") {
                    Some(came) => Heard::Result(key, came.clone()),
                    None => Heard::Answer(response["response"]["behavior"] == "allow"),
                }
            }
            Some("user") => Heard::Prompt(prompt(&message)),
            _ => continue,
        };
        if sender.send(heard).is_err() {
            break;
        }
    }
    let _ = sender.send(Heard::End);
}

impl Player {
    /// Plays steps; the status if it ends with one.
    fn perform(&mut self, steps: &[Step]) -> io::Result<Option<u8>> {
        let mut said = String::new();
        for step in steps {
            match step {
                // Lines that follow each other are written at once, so that they are read at once.
                Step::Say(line) => said.push_str(&format!("{line}\n")),
                Step::Cut(text) => said.push_str(text),
                _ => {
                    self.say(&std::mem::take(&mut said))?;
                    if let Some(code) = self.act(step)? {
                        return Ok(Some(code));
                    }
                }
            }
        }
        self.say(&said)?;
        Ok(None)
    }

    fn say(&self, text: &str) -> io::Result<()> {
        say(&self.out, text)
    }

    fn act(&mut self, step: &Step) -> io::Result<Option<u8>> {
        match step {
            Step::Say(_)
            | Step::Cut(_)
            | Step::IgnoreTerm
            | Step::Refuse(_)
            | Step::RefuseModel => {}
            Step::Exit(code) => return Ok(Some(*code)),
            Step::Signal(number) => {
                if let Some(signal) = Signal::from_named_raw(*number) {
                    kill_process(getpid(), signal)?;
                }
                std::thread::sleep(Duration::from_secs(5));
            }
            // As a program does that is busy: the end of its input does not wake it.
            Step::Sleep(millis) => std::thread::sleep(Duration::from_millis(*millis)),
            Step::Lines(count) => {
                let many = "{\"type\":\"flood\"}\n".repeat(4096);
                for _ in 0..count.div_ceil(4096) {
                    self.say(&many)?;
                }
            }
            Step::Line(size) => {
                self.say("{\"type\":\"long\",\"x\":\"")?;
                self.pour(*size, "x")?;
                self.say("\"}\n")?;
            }
            Step::Stderr(size) => {
                let many = "it went wrong, and here is all of it\n".repeat(4096);
                let mut left = usize::try_from(*size).unwrap_or(usize::MAX);
                while left > 0 {
                    let part = left.min(many.len());
                    io::stderr().write_all(&many.as_bytes()[..part])?;
                    left -= part;
                }
            }
            Step::CloseStdout => self.close()?,
            Step::Deaf => {
                let _ = self.deaf.send(());
            }
            Step::Daemon => run("setsid sleep 999999 & exit 0", Stdio::inherit)?,
            Step::Session => {
                run("setsid sleep 999999 </dev/null >/dev/null 2>&1 & exit 0", Stdio::null)?
            }
            Step::Run(line) => run(line, Stdio::null)?,
            Step::Unasked(line) => {
                self.calls += 1;
                let [made, ended] = call(&format!("call-{}", self.calls), line);
                run(line, Stdio::null)?;
                self.say(&format!("{made}\n{ended}\n"))?;
            }
            Step::Ask(line) => self.ask(line)?,
            Step::Call { tool, input, waits } => {
                self.calls += 1;
                let (key, id) = (format!("call-{}", self.calls), format!("toolu-{}", self.calls));
                let [made, asked] = request(&key, &id, self.calls, tool, input);
                self.open.insert(key, tool.clone());
                self.say(&format!("{made}\n{asked}\n"))?;
                if *waits {
                    self.await_calls()?;
                }
            }
            Step::AwaitCalls => self.await_calls()?,
            Step::AwaitInterrupt => loop {
                match self.heard.recv_timeout(Duration::from_secs(600)) {
                    Ok(Heard::Interrupt | Heard::End) | Err(_) => break,
                    Ok(Heard::Prompt(_) | Heard::Answer(_) | Heard::Result(..)) => {}
                }
            },
            Step::Write(path) => {
                let path = PathBuf::from(path);
                // What is refused is what some scripts are about.
                let _ = path.parent().map(fs::create_dir_all);
                let _ = fs::write(&path, "{\"hooks\":{}}\n");
            }
            Step::Remove(path) => {
                let path = if path == "worktree" { "." } else { path.as_str() };
                run(
                    &format!(
                        "rm -rf \"$PWD/{path}\"/* \"$PWD/{path}\"/.[!.]* \"$PWD/{path}\" 2>/dev/null; true"
                    ),
                    Stdio::null,
                )?;
            }
            Step::Note => {
                let mut noted =
                    fs::File::options().append(true).create(true).open("heard.jsonl")?;
                writeln!(noted, "{}", json!(self.prompt))?;
            }
            Step::Connect(folder) => connect(Path::new(folder))?,
        }
        Ok(None)
    }

    fn pour(&self, size: u64, what: &str) -> io::Result<()> {
        let many = what.repeat(1 << 16);
        let mut left = usize::try_from(size).unwrap_or(usize::MAX);
        while left > 0 {
            let part = left.min(many.len());
            self.say(&many[..part])?;
            left -= part;
        }
        Ok(())
    }

    /// Nobody of this process holds its output open any more.
    fn close(&self) -> io::Result<()> {
        *lock(&self.out) = None;
        rustix::stdio::dup2_stdout(fs::File::options().write(true).open("/dev/null")?)?;
        Ok(())
    }

    fn ask(&mut self, line: &str) -> io::Result<()> {
        self.calls += 1;
        let (key, id) = (format!("ask-{}", self.calls), format!("call-{}", self.calls));
        let [made, ended] = call(&id, line);
        self.say(&format!("{made}\n{}\n", question(&key, &id, line)))?;
        let may = loop {
            match self.heard.recv_timeout(Duration::from_secs(600)) {
                Ok(Heard::Answer(may)) => break may,
                Ok(Heard::Prompt(_) | Heard::Result(..) | Heard::Interrupt) => {}
                Ok(Heard::End)
                | Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    break false;
                }
            }
        };
        if may {
            run(line, Stdio::null)?;
            self.say(&format!("{ended}\n"))?;
        }
        Ok(())
    }
}

impl Player {
    /// Waits until every call has its result, and notes each in the order in which they come.
    fn await_calls(&mut self) -> io::Result<()> {
        while !self.open.is_empty() {
            match self.heard.recv_timeout(Duration::from_secs(600)) {
                Ok(Heard::Result(key, came)) => {
                    let Some(tool) = self.open.remove(&key) else { continue };
                    let mut noted =
                        fs::File::options().append(true).create(true).open("called.txt")?;
                    writeln!(noted, "{tool}: {}", words(&came))?;
                    self.say(&format!("{}\n", result(&key.replace("call", "toolu"), &came)))?;
                }
                Ok(Heard::Prompt(_) | Heard::Answer(_) | Heard::Interrupt) => {}
                Ok(Heard::End)
                | Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
            }
        }
        Ok(())
    }
}

fn say(out: &Out, text: &str) -> io::Result<()> {
    match lock(out).as_mut() {
        Some(out) => out.write_all(text.as_bytes()),
        None => Ok(()),
    }
}

/// What a panic under the lock leaves is whole.
fn lock(out: &Out) -> MutexGuard<'_, Option<fs::File>> {
    out.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a command line to its end, whatever that is.
fn run(line: &str, pipe: fn() -> Stdio) -> io::Result<()> {
    let mut command = Command::new("sh");
    command.args(["-c", line]).stdin(pipe()).stdout(pipe()).stderr(pipe());
    command.status().map(|_| ())
}

/// Says yes on every socket that can be reached, as an operator would.
fn connect(folder: &Path) -> io::Result<()> {
    let listed = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut reached = 0;
    for entry in listed {
        if let Ok(mut socket) = UnixStream::connect(entry.path()) {
            reached += 1;
            let _ = socket.write_all(b"{\"v\":1,\"command\":\"approve\"}\n");
        }
    }
    fs::write("connected.txt", format!("{reached}\n"))
}
