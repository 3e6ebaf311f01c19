//! Answers to what a task asks: `approve`, `deny`, `answer`, `resolve`.

use machine::Command;
use machine::id::{CallId, QuestionId, TaskId};
use machine::input::{Channel, Resolution};
use machine::policy::call_hash::CallHash;
use machine::policy::grant::Scope;
use machine::state::{Ask, State};
use serde_json::json;

use super::tell::{self, give};
use crate::args::{AnswerArgs, ApproveArgs, DenyArgs, Reach, ResolveArgs};
use crate::error::{CommandError, Kind};
use crate::locate::Records;
use crate::output;
use crate::project_rule::ProjectRule;

/// Lets an asked call run.
pub(crate) fn approve(args: &ApproveArgs, json: bool) -> Result<u8, CommandError> {
    let (records, id, state) = open(&args.which.id)?;
    let asks = state.asks();
    let is_approval = |ask: &Ask| matches!(ask, Ask::Approval { .. });
    let call = choose(&id, args.which.call, &asks, "approval", is_approval)?;
    let hash = shown_hash(&asks, call, args.hash.as_deref())?;
    let (scope, reach) = match args.reach {
        Reach::Once => (Scope::Once, ""),
        Reach::Task => (Scope::Task, " for the rest of the task"),
        Reach::Project => (Scope::Project, " for the project"),
    };
    if args.like.is_some() && args.reach == Reach::Once {
        return Err(CommandError::usage("--like is about more than this call")
            .hint("add --for task or --for project"));
    }
    let rule = match scope {
        Scope::Project => Some(
            ProjectRule::prepare(&state, call, args.like.as_deref())
                .map_err(|reason| CommandError::new(Kind::Refused, reason))?,
        ),
        Scope::Once | Scope::Task => None,
    };
    let like = args.like.clone();
    let command = Command::Approve { call, scope, like, hash, via: Some(Channel::Command) };
    let process = records.give(&id, command)?;
    let written = rule.as_ref().map(|rule| rule.write()).transpose().map_err(|reason| {
        CommandError::environment(format!("{call} may run, but no rule was written: {reason}"))
    })?;
    if json {
        let mut answer = tell::answer(&id, "approve", process);
        answer["call"] = json!(call);
        answer["hash"] = json!(hash);
        if let Some(rule) = &rule {
            answer["rule"] = json!({ "path": rule.path(), "text": rule.rule() });
        }
        output::json(&answer);
        return Ok(0);
    }
    let what = named(&state, call).unwrap_or_default();
    let mut lines = tell::told(&id, &format!("may run {call}{reach}{what}"), process, false);
    lines.extend(written.into_iter().flatten());
    output::lines(&lines);
    Ok(0)
}

/// What was answered, so that a person sees it: the call in a line and its hash.
fn named(state: &State, call: CallId) -> Option<String> {
    let open = state.data().calls.iter().find(|open| open.id == call)?;
    let title = view::story::title(&open.action.tool, &open.action.label, &open.action.input, "");
    Some(format!(": {title} ({})", open.hash()))
}

/// The hash of what is asked, if that is what the person saw.
fn shown_hash(
    asks: &[Ask],
    call: CallId,
    seen: Option<&str>,
) -> Result<Option<CallHash>, CommandError> {
    let hash = asks.iter().find_map(|ask| match ask {
        Ask::Approval { call: asked, hash, .. } if *asked == call => Some(*hash),
        _ => None,
    });
    match (hash, seen) {
        (Some(hash), Some(seen)) if !hash.begins_with(seen) => Err(CommandError::new(
            Kind::Refused,
            format!("{call} has changed since it was shown: it is {hash}, not {seen}"),
        )
        .hint("drivetrain approvals shows it as it is now")),
        (hash, _) => Ok(hash),
    }
}

/// Refuses an asked call, or to answer.
pub(crate) fn deny(args: &DenyArgs, json: bool) -> Result<u8, CommandError> {
    let (records, id, state) = open(&args.which.id)?;
    let asks = state.asks();
    let fits = |ask: &Ask| matches!(ask, Ask::Approval { .. } | Ask::Question { .. });
    let call = choose(&id, args.which.call, &asks, "approval", fits)?;
    let hash = shown_hash(&asks, call, None)?;
    let reason = args.reason.clone();
    let command = Command::Deny { call, reason, hash, via: Some(Channel::Command) };
    give(records, &id, "deny", command, &format!("may not run {call}"), json)
}

/// Answers a question, or decides the next move.
pub(crate) fn answer(args: &AnswerArgs, json: bool) -> Result<u8, CommandError> {
    let (records, id, state) = open(&args.id)?;
    let asks = state.asks();
    let is_question = |ask: &Ask| matches!(ask, Ask::Question { .. });
    let (named, text) = match args.words.as_slice() {
        [named, text] => (Some(Named::read(named)?), text.clone()),
        words => (None, words.concat()),
    };
    if text.trim().is_empty() {
        return Err(CommandError::usage("the answer is empty"));
    }
    // What is answered is what this process saw: if something else waits by the time the answer comes, it is refused.
    let open = asks.iter().find_map(open_question);
    let call = match (named, open) {
        (Some(Named::Call(call)), _) => Some(call),
        (Some(Named::Question(number)), open) => {
            let open = open.filter(|(open, _)| *open == number);
            return tell_answer(
                records,
                &id,
                open.unwrap_or((number, number.to_string())),
                text,
                json,
            );
        }
        (None, Some(open)) if !asks.iter().any(is_question) => {
            return tell_answer(records, &id, open, text, json);
        }
        (None, _) => None,
    };
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

/// Answers the question about what comes next, which is named like this to a person.
fn tell_answer(
    records: Records,
    id: &TaskId,
    (number, named): (QuestionId, String),
    line: String,
    json: bool,
) -> Result<u8, CommandError> {
    let command = Command::Tell { line, question: Some(number) };
    give(records, id, "answer", command, &format!("has the answer to {named}"), json)
}

/// What an answer is said to be to.
#[derive(Clone, Copy)]
enum Named {
    Call(CallId),
    Question(QuestionId),
}

impl Named {
    fn read(word: &str) -> Result<Named, CommandError> {
        let question = word.parse().map(Named::Question);
        question.or_else(|_| word.parse().map(Named::Call)).map_err(|_: String| {
            CommandError::usage(format!(
                "{word:?} is neither a question nor a call: expected something like q3 or c12"
            ))
            .hint("quote an answer of several words: answer ID 'shell ls'")
        })
    }
}

/// The question about what comes next, and how it is named to a person.
fn open_question(ask: &Ask) -> Option<(QuestionId, String)> {
    let (number, words) = match ask {
        // What was wrong with the answer before, or what happened so far, stands above it.
        Ask::Decision { number, prompt } => (number, prompt.lines().last().unwrap_or_default()),
        Ask::Escalation { number, reason, .. } => (number, reason.as_str()),
        Ask::Approval { .. } | Ask::Question { .. } | Ask::InDoubt { .. } | Ask::Child { .. } => {
            return None;
        }
    };
    Some((*number, format!("{number}: {}", view::text::short(words, 120))))
}

/// Says what became of a call in doubt.
pub(crate) fn resolve(args: &ResolveArgs, json: bool) -> Result<u8, CommandError> {
    let (records, id, state) = open(&args.which.id)?;
    let asks = state.asks();
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

fn open(prefix: &str) -> Result<(Records, TaskId, State), CommandError> {
    use journal::Journal;
    let records = Records::open()?;
    let id = records.find(prefix)?;
    let row = records.journal.task(id.as_str())?;
    let task = records.glance(&row)?;
    Ok((records, id, task.state))
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
        Ask::Escalation { .. } | Ask::Decision { .. } | Ask::Child { .. } => None,
    }
}
