//! `drivetrain chat`: a person and a model, line by line, over the same driver and the same journal as every task.

use std::sync::Arc;

use journal::Journal;
use machine::Command;
use machine::driver::Registry;
use machine::state::Standing;
use machine::task::{DriverSpec, TaskSpec};
use runtime::home::Home;
use runtime::library::Library;
use runtime::station::new_task_id;
use serde_json::json;
use view::{Line, Tone};

use super::hand_over::{self, Keys};
use super::options::Options;
use super::settle::{self, Change};
use super::{model_name, prepare, resume};
use crate::args::{ChatArgs, ScreenArgs};
use crate::error::{CommandError, Kind};
use crate::foreground::{self, Part, Watching};
use crate::locate::{self, Records};
use crate::prompt::chat;
use crate::{output, take_up, traffic};

/// Somebody is always there in a chat.
const SCREEN: ScreenArgs = ScreenArgs { unattended: false, quiet: false, stream: false };

/// Runs the command.
pub(crate) fn run(args: &ChatArgs, json: bool) -> Result<u8, CommandError> {
    match (&args.resume, &args.model) {
        (Some(prefix), model) => go_on(args, prefix, model.as_deref(), json),
        (None, Some(model)) => begin(args, model, json),
        (None, None) => Err(CommandError::usage("a chat needs a model: --model PROVIDER/NAME")),
    }
}

fn begin(args: &ChatArgs, model: &str, json: bool) -> Result<u8, CommandError> {
    let home = locate::home()?;
    let registry = Arc::new(Registry::builtin());
    // What is wrong is said before anybody types.
    let mut spec = task_of(args, model, &home, &registry, json)?;
    let traffic = traffic::open(&args.traffic)?;
    let at_terminal = output::is_terminal() && !json;
    if at_terminal {
        let text = format!("talking to {}; /help lists the commands", view::text::visible(model));
        output::lines(&[Line::new(Tone::Faint, text)]);
    }
    if args.text.is_none() {
        if at_terminal {
            home.create().map_err(CommandError::environment)?;
        }
        match chat::first_line(chat::source(at_terminal, home.root()), json) {
            Some(line) => spec.goal = prepare::from_goal(&line, spec.driver.clone())?.goal,
            None => return Ok(0),
        }
    }
    let watching = Watching::new(&SCREEN, json, Part::Talks)?;
    foreground::drive(&home, registry, watching, move |station| {
        station.supervisor.performer().carry(traffic);
        let id = new_task_id();
        station.supervisor.begin(id.clone(), spec, watching.attended())?;
        Ok(vec![id])
    })
}

/// The task that the arguments ask for; its goal may still have to be said.
fn task_of(
    args: &ChatArgs,
    model: &str,
    home: &Home,
    registry: &Registry,
    json: bool,
) -> Result<TaskSpec, CommandError> {
    let folder = locate::folder()?;
    let library = Library::of(&folder).judged_by(home, &folder);
    model_name::check(model, &folder, &library)?;
    let mut config = json!({ "model": model, "chat": true });
    if let Some(most) = args.max_steps {
        config["max_steps"] = json!(most);
    }
    let driver = DriverSpec::new("llm", config);
    let mut task = prepare::from_goal(args.text.as_deref().unwrap_or("a chat"), driver)?;
    library.resolve_task(&mut task, &folder, registry)?;
    let (check, limits, place, walls) = (&args.check, &args.limits, &args.place, &args.walls);
    let attended = output::is_terminal() && !json;
    let replays = args.traffic.replay.is_some();
    let options = Options { check, limits, place, walls, home, json, attended, replays };
    prepare::complete(task, options, &library, folder)
}

fn go_on(
    args: &ChatArgs,
    prefix: &str,
    model: Option<&str>,
    json: bool,
) -> Result<u8, CommandError> {
    let records = Records::open()?;
    let id = records.find(prefix)?;
    let row = records.journal.task(id.as_str())?;
    let task = records.glance(&row)?;
    if Part::in_driver(&task.driver()) != Part::Talks {
        let error = CommandError::new(Kind::Refused, format!("task {id} is not a chat"));
        return Err(error.hint(format!("drivetrain resume {id} goes on with it")));
    }
    if let Some(pid) = task.driven_by {
        let message = format!("task {id} is driven by process {pid} already");
        return Err(CommandError::new(Kind::Refused, message)
            .hint(format!("drivetrain steer {id} TEXT says something to it from here")));
    }
    if let Standing::Finished { outcome, .. } = task.state.standing() {
        return Err(resume::ended(&task, outcome));
    }
    settle::go_on(task.state.data(), Change::Refused, json)?;
    if model.is_none() {
        settle::models(&records.home, &task, Change::Refused)?;
    }
    prepare::require_sandbox(&task.state.data().spec.sandbox)?;
    let keys = if args.traffic.replay.is_some() { Keys::Unneeded } else { Keys::Needed };
    let to = |model| hand_over::to_model(&records.home, &task, model, keys);
    let other = model.map(to).transpose()?;
    let traffic = traffic::open(&args.traffic)?;
    let watching = Watching::new(&SCREEN, json, Part::Talks)?;
    let Records { home, journal, registry } = records;
    drop(journal);
    foreground::drive(&home, registry, watching, move |station| {
        station.supervisor.performer().carry(traffic);
        if let Some(driver) = other {
            take_up::command(station, &id, Command::HandOver(driver))?;
        }
        take_up::resume(station, &id, watching.attended())?;
        Ok(vec![id])
    })
}
