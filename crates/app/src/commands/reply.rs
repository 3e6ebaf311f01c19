//! Answers to what a task asks: `approve`, `deny`, `answer`, `resolve`.

use machine::Command;
use machine::id::{CallId, TaskId};
use machine::input::Resolution;
use machine::state::Ask;

use super::tell::give;
use crate::args::{AnswerArgs, CallArgs, DenyArgs, ResolveArgs};
use crate::error::{CommandError, Kind};
use crate::locate::Records;

/// Lets an asked call run.
pub(crate) fn approve(args: &CallArgs, json: bool) -> Result<u8, CommandError> {
    let (records, id, asks) = open(&args.id)?;
    let call =
        choose(&id, args.call, &asks, "approval", |ask| matches!(ask, Ask::Approval { .. }))?;
    give(records, &id, "approve", Command::Approve { call }, &format!("may run {call}"), json)
}

/// Refuses an asked call, or to answer.
pub(crate) fn deny(args: &DenyArgs, json: bool) -> Result<u8, CommandError> {
    let (records, id, asks) = open(&args.which.id)?;
    let fits = |ask: &Ask| matches!(ask, Ask::Approval { .. } | Ask::Question { .. });
    let call = choose(&id, args.which.call, &asks, "approval", fits)?;
    let command = Command::Deny { call, reason: args.reason.clone() };
    give(records, &id, "deny", command, &format!("may not run {call}"), json)
}

/// Answers a question, or decides the next move.
pub(crate) fn answer(args: &AnswerArgs, json: bool) -> Result<u8, CommandError> {
    let (records, id, asks) = open(&args.id)?;
    let is_question = |ask: &Ask| matches!(ask, Ask::Question { .. });
    let (call, text) = match args.words.as_slice() {
        [call, text] => {
            let call = call.parse::<CallId>().map_err(|reason| {
                CommandError::usage(reason)
                    .hint("quote an answer of several words: answer ID 'shell ls'")
            })?;
            (Some(call), text.clone())
        }
        words => (None, words.concat()),
    };
    if text.trim().is_empty() {
        return Err(CommandError::usage("the answer is empty"));
    }
    let decides = call.is_none() && !asks.iter().any(is_question);
    if decides && asks.iter().any(|ask| matches!(ask, Ask::Decision { .. })) {
        return give(
            records,
            &id,
            "answer",
            Command::Tell { line: text },
            "has the next move",
            json,
        );
    }
    let call = choose(&id, call, &asks, "answer", is_question)?;
    give(
        records,
        &id,
        "answer",
        Command::Answer { call, text },
        &format!("has the answer to {call}"),
        json,
    )
}

/// Says what became of a call in doubt.
pub(crate) fn resolve(args: &ResolveArgs, json: bool) -> Result<u8, CommandError> {
    let (records, id, asks) = open(&args.which.id)?;
    let call = choose(&id, args.which.call, &asks, "resolution", |ask| {
        matches!(ask, Ask::InDoubt { .. })
    })?;
    let (how, done) = match (args.did, args.did_not) {
        (true, _) => (Resolution::Did, "takes it as done"),
        (_, true) => (Resolution::DidNot, "takes it as failed"),
        (false, false) => (Resolution::Retry, "runs it again"),
    };
    give(records, &id, "resolve", Command::Resolve { call, how }, &format!("{done}: {call}"), json)
}

fn open(prefix: &str) -> Result<(Records, TaskId, Vec<Ask>), CommandError> {
    use journal::Journal;
    let records = Records::open()?;
    let id = records.find(prefix)?;
    let row = records.journal.task(id.as_str())?;
    let task = records.glance(&row)?;
    Ok((records, id, task.state.asks()))
}

/// The call that was named, or the only one that waits. One that was named is passed on as it is: the task
/// itself knows best whether it fits.
fn choose(
    id: &TaskId,
    named: Option<CallId>,
    asks: &[Ask],
    what: &str,
    fits: impl Fn(&Ask) -> bool,
) -> Result<CallId, CommandError> {
    if let Some(call) = named {
        return Ok(call);
    }
    let waiting: Vec<CallId> = asks.iter().filter(|ask| fits(ask)).filter_map(call_of).collect();
    match waiting.as_slice() {
        [one] => Ok(*one),
        [] => Err(CommandError::new(
            Kind::Refused,
            format!("no call of task {id} waits for an {what}")
                .replace("an resolution", "a resolution"),
        )
        .hint(format!("drivetrain why {id} says what it waits for"))),
        many => {
            let calls: Vec<String> = many.iter().map(CallId::to_string).collect();
            Err(CommandError::usage(format!("more than one call of task {id} waits: say which"))
                .hint(format!("one of {}; drivetrain why {id} shows them", calls.join(", "))))
        }
    }
}

fn call_of(ask: &Ask) -> Option<CallId> {
    match ask {
        Ask::Approval { call, .. } | Ask::Question { call, .. } | Ask::InDoubt { call, .. } => {
            Some(*call)
        }
        Ask::Decision { .. } => None,
    }
}
