//! `drivetrain mcp`: a server of the Model Context Protocol, by which another program dispatches tasks and looks after
//! them. Each task is journaled before it is answered for, and driven by a process of its own.

mod dispatch;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use journal::{Journal, Loaded};
use machine::Command;
use machine::child::minding::{ChildSeen, Rescue};
use machine::driver::Registry;
use machine::id::TaskId;
use machine::state::Standing;
use machine::tool::{Status, ToolResult};
use runtime::home::Home;
use runtime::host::Host;
use runtime::minding::Minding;
use runtime::stdio_server::tasks::{self, Offer, Part, TaskCall};
use runtime::stdio_server::{self, ServedCall};
use serde_json::{Value, json};
use view::transcript::{Detail, Transcript};
use view::why;

use super::children;
use crate::args::McpArgs;
use crate::error::{CommandError, Kind};
use crate::locate::{self, Records, Task};
use crate::output;

/// How often a task that is waited for is looked at.
const GLANCE: Duration = Duration::from_millis(200);
/// How often whoever waits is told that it goes on.
const TOLD_EVERY: Duration = Duration::from_secs(5);
/// The most tasks of a list.
const LISTED: usize = 100;

/// Runs the command.
pub(crate) fn run(args: McpArgs) -> Result<u8, CommandError> {
    let server = Server::new(args)?;
    let toolbox = tasks::toolbox(&server.offer());
    let perform = move |call: &mut ServedCall| match server.perform(call) {
        Ok(text) => ToolResult::ended(Status::Ok, text),
        Err(error) => ToolResult::ended(Status::Error, error.told()),
    };
    stdio_server::serve(
        std::io::stdin().lock(),
        Box::new(output::Whole(std::io::stdout())),
        &toolbox,
        perform,
    )
    .map_err(|error| CommandError::environment(format!("cannot read from the client: {error}")))?;
    Ok(0)
}

/// What a server has to know.
struct Server {
    args: McpArgs,
    home: Home,
    folder: PathBuf,
    parent: Option<TaskId>,
    /// The processes that were started here for tasks, and when.
    started: Mutex<BTreeMap<TaskId, (Instant, u32)>>,
}

impl Server {
    fn new(args: McpArgs) -> Result<Server, CommandError> {
        let (home, folder) = (locate::home()?, locate::folder()?);
        let parent = match &args.parent {
            Some(prefix) => Some(Records::open()?.find(prefix)?),
            None => None,
        };
        let server = Server { args, home, folder, parent, started: Mutex::default() };
        server.check()?;
        if let Some(parent) = &server.parent {
            children::give_back(&server.home, parent)?;
        }
        Ok(server)
    }

    fn offer(&self) -> Offer {
        let agents = self.args.agent.iter().map(|name| format!("agent:{name}"));
        let models = self.args.model.iter().map(|name| format!("model:{name}"));
        let (tasks, keyed) = (self.args.max_tasks, self.args.require_key);
        Offer { workers: agents.chain(models).collect(), tasks, keyed }
    }

    fn perform(&self, call: &mut ServedCall) -> Result<String, CommandError> {
        let meant = tasks::read(&call.tool, &call.input).map_err(CommandError::usage)?;
        match meant {
            TaskCall::Dispatch(wish) if self.args.require_key && wish.key.is_none() => Err(
                CommandError::usage("dispatch: a key is needed, a name of your own for this task")
                    .hint("the same key gives the same task, so a call can be repeated"),
            ),
            TaskCall::Dispatch(wish) => self.dispatch(&wish),
            TaskCall::List => self.list(),
            TaskCall::Inspect { id, part, lines } => self.inspect(&id, part, lines),
            TaskCall::Steer { id, text } => self.tell(&id, Command::Steer { text }, "has the note"),
            TaskCall::Cancel { id, reason } => {
                let reason = match reason.as_str() {
                    "" => "cancelled by whoever dispatched it".to_owned(),
                    reason => format!("cancelled by whoever dispatched it: {reason}"),
                };
                self.tell(&id, Command::Cancel { reason }, "is cancelled")
            }
            TaskCall::Wait { id, patience } => {
                self.wait(&id, Duration::from_millis(patience.0), call)
            }
        }
    }

    /// The task, if this server may touch it. One that it may not touch is not there.
    fn find(&self, records: &Records, prefix: &str) -> Result<TaskId, CommandError> {
        let unknown = || {
            CommandError::usage(format!(
                "no task of this server has an id that begins with {prefix:?}"
            ))
            .hint("list names the tasks that were dispatched here")
        };
        let id = match records.find(prefix) {
            Ok(id) => id,
            Err(error) if self.args.all_tasks => return Err(error),
            Err(_) => return Err(unknown()),
        };
        let task = records.glance(&records.journal.task(id.as_str())?)?;
        if self.reaches(&json!(task.state.data().spec.dispatch)) { Ok(id) } else { Err(unknown()) }
    }

    /// Whether a task that was dispatched so is one of this server's.
    fn reaches(&self, dispatch: &Value) -> bool {
        let parent = self.parent.as_ref().map_or(Value::Null, |parent| json!(parent));
        self.args.all_tasks || (!dispatch.is_null() && dispatch["parent"] == parent)
    }

    fn list(&self) -> Result<String, CommandError> {
        let records = Records::open()?;
        let mut tasks = Vec::new();
        for row in records.journal.list(usize::MAX, None)? {
            let stored = serde_json::from_str::<Value>(&row.summary).ok().filter(|_| !row.open);
            let summary = match stored {
                Some(summary) => summary,
                None => match records.glance(&row) {
                    Ok(task) => task.json(),
                    Err(_) => continue,
                },
            };
            if self.reaches(&summary["dispatch"]) {
                tasks.push(in_short(&summary));
            }
            if tasks.len() >= LISTED {
                break;
            }
        }
        Ok(json!({ "tasks": tasks }).to_string())
    }

    fn inspect(&self, prefix: &str, part: Part, lines: usize) -> Result<String, CommandError> {
        let records = Records::open()?;
        let id = self.find(&records, prefix)?;
        if part == Part::Log {
            return log_tail(&records, &id, lines);
        }
        let task = records.load(&id)?;
        self.settle(&id);
        if part == Part::Show {
            return Ok(task.json().to_string());
        }
        let standing = task.state.standing();
        Ok(view::join(&why::lines(&task.subject(&standing))))
    }

    fn tell(&self, prefix: &str, command: Command, done: &str) -> Result<String, CommandError> {
        let records = Records::open()?;
        let id = self.find(&records, prefix)?;
        let task = records.glance(&records.journal.task(id.as_str())?)?;
        let remark = task.state.remark(&command, task.driven_by.is_some());
        records.give(&id, command)?;
        self.settle(&id);
        let remark = remark.map(|remark| format!("; {remark}")).unwrap_or_default();
        Ok(format!("task {id} {done}{remark}"))
    }

    fn wait(
        &self,
        prefix: &str,
        patience: Duration,
        call: &mut ServedCall,
    ) -> Result<String, CommandError> {
        let until = Instant::now() + patience;
        let mut told: Option<Instant> = None;
        let id = self.find(&Records::open()?, prefix)?;
        let mut minding = Minding::new(self.home.clone(), Arc::new(Registry::builtin()));
        let mut taken_up = 0;
        loop {
            let records = Records::open()?;
            let task = records.glance(&records.journal.task(id.as_str())?)?;
            let mut is_over = matches!(
                task.state.standing(),
                Standing::Finished { .. } | Standing::AwaitingPerson { .. }
            );
            let is_lost = |seen: &ChildSeen| seen.ended.is_none();
            if !is_over && minding.look(std::slice::from_ref(&id)).iter().any(is_lost) {
                match Rescue::after(taken_up) {
                    Rescue::TakeUp => {
                        taken_up += 1;
                        call.progress(&format!(
                            "the process of task {id} is gone: it is taken up again"
                        ));
                        self.drive(&id)?;
                    }
                    // It is told as it stands: interrupted, and driven by nobody.
                    Rescue::GiveUp => is_over = true,
                }
            }
            if is_over || Instant::now() >= until || call.cancel.is_triggered() {
                self.settle(&id);
                return Ok(in_short(&records.load(&id)?.json()).to_string());
            }
            if told.is_none_or(|at| at.elapsed() >= TOLD_EVERY) {
                told = Some(Instant::now());
                let turns = task.state.data().spend.turns;
                call.progress(&format!("task {id} goes on: {turns} turns so far"));
            }
            std::thread::sleep(GLANCE);
        }
    }

    /// Charges a child's spend. What cannot be charged now stays set aside, and is tried again the next time.
    fn settle(&self, id: &TaskId) {
        if self.parent.is_some() {
            let _ = children::report(id);
        }
    }
}

/// What a list says of a task, and a wait.
fn in_short(task: &Value) -> Value {
    let mut short = json!({});
    for key in [
        "id",
        "goal",
        "phase",
        "outcome",
        "reason",
        "asks",
        "interrupted",
        "driven_by",
        "spend",
        "branch",
        "workspace",
        "verdict",
        "receipt",
    ] {
        if let Some(value) = task.get(key).filter(|value| !value.is_null()) {
            short[key] = value.clone();
        }
    }
    short
}

/// The end of what happened to a task, as a person would read it.
fn log_tail(records: &Records, id: &TaskId, lines: usize) -> Result<String, CommandError> {
    let loaded = Loaded { snapshot: None, records: records.journal.records(id.as_str(), 0)? };
    let detail = Detail { starts: true, inner: true, output: 20, failure: 40, change: 60 };
    let (mut transcript, mut told) = (Transcript::new(detail), Vec::new());
    Host::fold(id, &loaded, Arc::new(Registry::builtin()), false, |output| {
        output.events.iter().for_each(|event| told.extend(transcript.lines(event)));
    })
    .map_err(|error| CommandError::environment(error.to_string()))?;
    let skipped = told.len().saturating_sub(lines);
    Ok(view::join(&told[skipped..]))
}

/// A refusal, in the words of the loop.
fn refused(reason: String) -> CommandError {
    CommandError::new(Kind::Refused, reason)
}

/// The task that dispatches, as it stands now.
fn glance(records: &Records, id: &TaskId) -> Result<Task, CommandError> {
    records.glance(&records.journal.task(id.as_str())?)
}
