//! `drivetrain resume`: goes on with one task, or with all that can go on.

use std::collections::BTreeMap;
use std::sync::Arc;

use journal::{Journal, TaskRow};
use machine::Command;
use machine::driver::Registry;
use machine::id::TaskId;
use machine::state::{Ask, Standing};
use machine::task::Outcome;
use runtime::station::Station;
use runtime::supervisor::SupervisorError;
use serde_json::json;
use view::text::counted;
use view::{Line, why};

use super::race::referee::Races;
use super::settle::{self, Change};
use super::{children, prepare};
use crate::args::ResumeArgs;
use crate::error::{CommandError, Kind};
use crate::foreground::{Part, Watching};
use crate::locate::{self, Records, Task};
use crate::take_up::{self, Untaken};
use crate::{output, traffic};

/// Runs the command.
pub(crate) fn run(args: &ResumeArgs, json: bool) -> Result<u8, CommandError> {
    match &args.id {
        Some(prefix) => one(prefix, args, json),
        None => all(args, json),
    }
}

fn one(prefix: &str, args: &ResumeArgs, json: bool) -> Result<u8, CommandError> {
    let records = Records::open()?;
    let id = records.find(prefix)?;
    let row = records.journal.task(id.as_str())?;
    let task = records.glance(&row)?;
    if let Some(pid) = task.driven_by {
        return elsewhere(records, &id, &task, pid, json);
    }
    // What is left to be done of going back is done, whatever became of the task.
    if let Standing::Finished { outcome, .. } = task.state.standing()
        && task.state.data().going_back.is_none()
    {
        if !task.state.left_behind().is_empty() {
            // Whoever ended it may have died before its children were told.
            cancel(records, std::slice::from_ref(&id))?;
        }
        return Err(ended(&task, outcome));
    }
    // It would be taken from a process that is at work on it.
    if let Some((child, _)) = task.state.data().awaited_child()
        && let Ok(row) = records.journal.task(child.as_str())
        && let Some(pid) = records.glance(&row)?.driven_by
    {
        return Err(CommandError::new(
            Kind::Refused,
            format!("task {child}, which a step of it began, is driven by process {pid}"),
        )
        .hint(format!(
            "resume {id} when that has ended; drivetrain log {child} --follow watches it"
        )));
    }
    let races = Races::of([&task])?;
    if let Some(winner) = races.lost_by(&id) {
        return Err(CommandError::new(
            Kind::Refused,
            format!("task {id} has lost its race to {winner} and is cancelled"),
        ));
    }
    settle::go_on(task.state.data(), changes(args), json)?;
    settle::models(&records.home, &task, changes(args))?;
    prepare::require_sandbox(&task.state.data().spec.sandbox)?;
    if task.state.data().children.values().any(|child| child.ended.is_none()) {
        children::give_back(&records.home, &id)?;
    }
    let traffic = traffic::open(&args.traffic)?;
    let watching = Watching::new(&args.screen, json, part_in(&task))?;
    let Records { home, journal, registry } = records;
    drop(journal);
    let taken = id.clone();
    let code = races.drive(&home, registry, watching, move |station| {
        station.supervisor.performer().carry(traffic);
        take_up::resume(station, &taken, watching.attended())?;
        Ok(vec![taken])
    })?;
    children::report_end(&id, json);
    Ok(code)
}

fn changes(args: &ResumeArgs) -> Change {
    if args.trust { Change::Taken } else { Change::Refused }
}

/// What a person does in the task, or will once the hand-over that waits takes place.
pub(crate) fn part_in(task: &Task) -> Part {
    Part::in_driver(&task.driver())
}

/// Another process drives it: a paused task goes on there, any other needs nothing.
fn elsewhere(
    records: Records,
    id: &TaskId,
    task: &Task,
    pid: u32,
    json: bool,
) -> Result<u8, CommandError> {
    if !task.state.data().paused {
        return Err(take_up::driven(id, pid));
    }
    records.give(id, Command::Resume)?;
    if json {
        output::json(
            &json!({ "v": 1, "ok": true, "task": id, "command": "resume", "process": pid }),
        );
    } else {
        output::lines(&[Line::plain(format!("task {id} goes on in process {pid}"))]);
    }
    Ok(0)
}

/// A task that has ended does not go on by itself.
pub(crate) fn ended(task: &Task, outcome: Outcome) -> CommandError {
    let id = task.state.id();
    let error =
        CommandError::new(Kind::Refused, format!("task {id} has ended: {}", outcome.word()));
    // What becomes of it is up to that one.
    if let Some(around) = task.state.begun_by() {
        return error.hint(format!(
            "a step of task {around} began it: drivetrain why {around} says how that stands"
        ));
    }
    match outcome {
        Outcome::BudgetExhausted => {
            error.hint(format!("drivetrain raise {id} --max-… allows it more; then resume it"))
        }
        Outcome::Failed | Outcome::Stuck => {
            let standing = task.state.standing();
            let again = why::again(&task.subject(&standing));
            let error = again.first().into_iter().fold(error, |error, next| {
                error.hint(format!("{} lets the same go on; then resume it", next.command))
            });
            error.hint(format!(
                "drivetrain hand-over {id} --driver user lets you decide from here; then resume it"
            ))
        }
        Outcome::Verified | Outcome::Completed | Outcome::Cancelled | Outcome::Waiting => {
            error.hint(format!("drivetrain why {id} says how it ended"))
        }
    }
}

fn all(args: &ResumeArgs, json: bool) -> Result<u8, CommandError> {
    let traffic = traffic::open(&args.traffic)?;
    let (mut ready, mut paused, mut waiting, mut resting) = (Vec::new(), 0, 0, 0);
    let (mut records, mut tasks, mut worst) = open_tasks(json)?;
    let left = tasks.iter().filter(|(_, task)| task.driven_by.is_none() && is_left(&records, task));
    let left: Vec<TaskId> = left.map(|(row, _)| TaskId(row.id.clone())).collect();
    if !left.is_empty() {
        cancel(records, &left)?;
        (records, tasks, worst) = open_tasks(json)?;
    }
    let races = Races::of(tasks.iter().map(|(_, task)| task))?;
    let open: BTreeMap<TaskId, &Task> =
        tasks.iter().map(|(row, task)| (TaskId(row.id.clone()), task)).collect();
    for (row, task) in &tasks {
        let id = TaskId(row.id.clone());
        match task.state.standing() {
            _ if task.driven_by.is_some() || races.lost_by(&id).is_some() => {}
            // Whoever resumes the task around it takes it up; by itself it would go on though that one is paused or out of
            // budget, and leave it behind.
            _ if task.state.begun_by().is_some() => {}
            // Its moment has not come: whoever takes it up now would only put it down again.
            Standing::Working if task.state.rests_until(locate::now()).is_some() => resting += 1,
            Standing::AwaitingPerson { .. } if waits_for_person(&open, task) => waiting += 1,
            Standing::AwaitingPerson { .. } if task.state.data().paused => paused += 1,
            Standing::Working | Standing::AwaitingPerson { .. } => {
                let ready_to_go = settle::go_on(task.state.data(), changes(args), json)
                    .and_then(|()| settle::models(&records.home, task, changes(args)))
                    .and_then(|()| prepare::require_sandbox(&task.state.data().spec.sandbox));
                match ready_to_go {
                    Ok(()) => ready.push(id),
                    Err(error) => worst = worst.max(tell(&error, json)),
                }
            }
            Standing::Paused => paused += 1,
            Standing::Finished { .. } => {}
        }
    }
    if !json {
        output::lines(&left_out(ready.len(), paused, waiting, resting));
    }
    if ready.is_empty() {
        if json {
            output::json(&json!({
                "v": 1, "resumed": 0, "paused": paused, "waiting": waiting, "resting": resting,
            }));
        }
        return Ok(worst);
    }
    let watching = Watching::new(&args.screen, json, Part::Watches)?;
    let Records { home, journal, .. } = records;
    drop(journal);
    let going_on = ready.clone();
    let untaken = &mut worst;
    let code = races.drive(&home, Arc::new(Registry::builtin()), watching, move |station| {
        station.supervisor.performer().carry(traffic);
        let mut taken = Vec::new();
        for id in ready {
            match take_up::resume(station, &id, watching.attended()) {
                Ok(()) => taken.push(id),
                // Another process was quicker, and nothing needs to be done about it here.
                Err(Untaken::Driven(..)) => {}
                Err(Untaken::Failed(error)) => *untaken = (*untaken).max(tell(&error, json)),
            }
        }
        Ok(taken)
    })?;
    for id in &going_on {
        children::report_end(id, json);
    }
    Ok(code.max(worst))
}

/// Whether a person is still to say something: the time for it may be over, and what the task of a step asked may be answered
/// since.
fn waits_for_person(open: &BTreeMap<TaskId, &Task>, task: &Task) -> bool {
    let Standing::AwaitingPerson { asks } = task.state.standing() else { return false };
    asks.iter().any(|ask| match ask {
        Ask::Child { child, .. } => {
            open.get(child).is_some_and(|child| waits_for_person(open, child))
        }
        Ask::Decision { .. } => !task.state.is_answer_late(locate::now()),
        _ => true,
    })
}

/// Says why a task is left out; the exit code that this alone would have.
fn tell(error: &CommandError, json: bool) -> u8 {
    output::error(&if json { error.json().to_string() } else { error.text() });
    error.exit_code()
}

/// A task that has not ended.
type Open = (TaskRow, Task);

/// The tasks that have not ended, and the highest exit code of those that cannot be read: they must not keep the others.
fn open_tasks(json: bool) -> Result<(Records, Vec<Open>, u8), CommandError> {
    let records = Records::open()?;
    let (mut tasks, mut worst) = (Vec::new(), 0);
    for row in records.journal.open_tasks()? {
        match records.glance(&row) {
            Ok(task) => tasks.push((row, task)),
            Err(error) => worst = worst.max(tell(&error, json)),
        }
    }
    Ok((records, tasks, worst))
}

/// Whether a step of a task that has ended began this one: there is nothing that it could go on for.
fn is_left(records: &Records, task: &Task) -> bool {
    let Some(parent) = task.state.begun_by() else { return false };
    let row = records.journal.task(parent.as_str()).ok();
    let parent = row.and_then(|row| records.glance(&row).ok());
    parent.is_some_and(|parent| parent.state.leaves_children())
}

/// Cancels such tasks: whoever takes one up is told so.
fn cancel(records: Records, left: &[TaskId]) -> Result<(), CommandError> {
    let Records { home, journal, registry } = records;
    drop(journal);
    let mut station = Station::open(&home, registry)?;
    for id in left {
        let told = take_up::unless_driven(&mut station, id, |station, from| {
            match station.supervisor.resume_from(id, from, false) {
                Err(SupervisorError::Refused(_)) => Ok(()),
                told => told,
            }
        });
        if let Err(Untaken::Failed(error)) = told {
            return Err(error);
        }
    }
    Ok(())
}

fn left_out(ready: usize, paused: usize, waiting: usize, resting: usize) -> Vec<Line> {
    let mut lines = Vec::new();
    if ready == 0 {
        lines.push(Line::plain("nothing to resume"));
    }
    if paused > 0 {
        lines.push(Line::plain(format!("{paused} paused, left alone: resume them by id")));
    }
    if resting > 0 {
        lines.push(Line::plain(format!(
            "{} for a moment that a model named: drivetrain why ID says which",
            waits(resting)
        )));
    }
    if waiting > 0 {
        lines.push(Line::plain(format!(
            "{} for a person: drivetrain approvals shows what is asked",
            waits(waiting)
        )));
    }
    lines
}

fn waits(count: usize) -> String {
    format!("{} {}", counted(count, "task"), if count == 1 { "waits" } else { "wait" })
}
