//! What is true of every run, whatever went wrong in it. Looks at the journal's records and at what the servers
//! received, and folds them by itself: the machine is not asked what it thinks it did.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use journal::Journal;
use journal::sqlite::SqliteJournal;
use machine::Input;
use machine::driver::Registry;
use machine::id::EffectId;
use machine::input::Signal;
use machine::message::{ModelFailure, Part, Reply, Retry};
use machine::task::Outcome;
use runtime::host::Host;
use serde_json::Value;
use wire::model::accepts;
use wire::model::script::Says;

use crate::run::{Run, Task};

/// How often the same question is asked.
const ATTEMPTS: usize = 6;

/// What a run did, for whoever looks.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    tasks: usize,
    completed: usize,
    requests: usize,
    faults: usize,
    replies: usize,
    tools: usize,
    tokens: u64,
    crashes: u32,
    survivors: usize,
    acts: BTreeMap<&'static str, u32>,
}

impl std::fmt::Display for Figures {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} tasks ({} completed), {} requests, {} faulty answers, {} replies, {} tools, {} tokens, {} crashes \
             ({} tasks lived through one), {:?}",
            self.tasks,
            self.completed,
            self.requests,
            self.faults,
            self.replies,
            self.tools,
            self.tokens,
            self.crashes,
            self.survivors,
            self.acts
        )
    }
}

pub(crate) fn check(run: &Run) -> Figures {
    let figures = check_tasks(run);
    assert!(run.survivors.len() * 2 >= run.tasks.len(), "too few lived through a crash");
    assert!(run.acts.len() == 4, "people did too little: {:?}", run.acts);
    assert!(figures.completed * 10 >= run.tasks.len() * 7, "too few came to their end: {figures}");
    figures
}

/// As [`check`], and what the servers say that they answered is what the journal counts. An answer that had come whole is paid
/// for once: it is in the journal, whenever the process died. Others are missing there only if a process died over them.
pub(crate) fn check_kept(run: &Run) -> Figures {
    let figures = check_tasks(run);
    let journal = SqliteJournal::open(&run.home.journal()).unwrap();
    for task in &run.tasks {
        let answers = answers(&journal, task);
        let counted: BTreeSet<&str> = answers
            .iter()
            .filter_map(|(_, answer)| Some(answer.as_ref().ok()?.id.as_str()))
            .collect();
        for (_, answer) in run.in_hand.iter().filter(|(id, _)| *id == task.id) {
            assert!(counted.contains(answer.as_str()), "{}: {answer} was asked for again", task.id);
        }
        let asked = task.server.requests();
        let given = asked["requests"].as_array().unwrap().iter().filter_map(|request| {
            let turn = request["turn"].as_u64()?;
            let step = &task.steps[(turn as usize).min(task.steps.len()) - 1];
            step.fault.is_none_or(|fault| fault.is_harmless()).then(|| format!("script-{turn}"))
        });
        let given: BTreeSet<String> = given.collect();
        assert!(counted.iter().all(|answer| given.contains(*answer)), "{}: {counted:?}", task.id);
        let cut = run.cut.get(&task.id).copied().unwrap_or_default();
        let unpaid = given.len() - counted.len();
        assert!(unpaid <= cut, "{}: {unpaid} answers are not counted, {cut} were cut", task.id);
    }
    figures
}

fn check_tasks(run: &Run) -> Figures {
    let journal = SqliteJournal::open(&run.home.journal()).unwrap();
    let mut figures = Figures {
        tasks: run.tasks.len(),
        crashes: run.crashes,
        survivors: run.survivors.len(),
        acts: run.acts.clone(),
        ..Figures::default()
    };
    for task in &run.tasks {
        let told = |why: String| panic!("{} ({:?}): {why}", task.id, task.served);
        let answers = answers(&journal, task);
        check_requests(task, &mut figures).unwrap_or_else(told);
        check_end(run, task, &answers, &mut figures).unwrap_or_else(told);
        check_replies(task, &answers, &mut figures).unwrap_or_else(told);
        check_spend(&journal, task, &answers, &mut figures).unwrap_or_else(told);
        check_tools(run, task, &answers, &mut figures).unwrap_or_else(told);
    }
    let report = journal.verify();
    assert!(report.damages.is_empty(), "{report:?}");
    figures
}

type Answer = (EffectId, Result<Reply, ModelFailure>);

/// What the model said, in the order of the records.
fn answers(journal: &SqliteJournal, task: &Task) -> Vec<Answer> {
    let records = journal.records(task.id.as_str(), 0).unwrap();
    let inputs = records.iter().map(|record| serde_json::from_slice(&record.body).unwrap());
    let answer = |input| match input {
        Input::Signal(Signal::ModelReplied(id, answer)) => Some((id, *answer)),
        _ => None,
    };
    inputs.filter_map(answer).collect()
}

/// Every request is one that the provider takes.
fn check_requests(task: &Task, figures: &mut Figures) -> Result<(), String> {
    let asked = task.server.requests();
    if asked["forgotten"] != 0 {
        return Err("the server forgot some requests".to_owned());
    }
    for request in asked["requests"].as_array().unwrap() {
        figures.requests += 1;
        if let Err(why) = accepts::check(task.served, &request["body"]) {
            return Err(format!("the provider refuses: {why}\n{:#}", request["body"]));
        }
        let turn = request["turn"].as_u64().ok_or("a request was refused")?;
        let step = &task.steps[(turn as usize).min(task.steps.len()) - 1];
        figures.faults += usize::from(step.fault.is_some());
    }
    Ok(())
}

/// The task is done, or has a reason that the script gave it.
fn check_end(
    run: &Run,
    task: &Task,
    answers: &[Answer],
    figures: &mut Figures,
) -> Result<(), String> {
    match run.outcomes.get(&task.id) {
        Some(Outcome::Completed) => {
            figures.completed += 1;
            Ok(())
        }
        Some(Outcome::Failed) => {
            let failed = answers.iter().rev().map_while(|(_, answer)| answer.as_ref().err());
            let failed: Vec<&ModelFailure> =
                failed.filter(|failure| failure.kind != "cancelled").collect();
            let last = failed.first().ok_or("it failed after a whole answer")?;
            let scripted = task.steps.iter().any(|s| s.fault.is_some_and(|f| f.is_permanent()));
            if last.kind == "malformed" && last.retry == Retry::Never && scripted {
                return Ok(());
            }
            if failed.len() >= ATTEMPTS && last.retry != Retry::Never {
                return Ok(());
            }
            Err(format!("it failed for no reason: {last:?} after {} failures", failed.len()))
        }
        other => Err(format!("it did not end: {other:?}")),
    }
}

/// The step of the script that a reply came from.
fn step<'a>(task: &'a Task, reply: &Reply) -> Option<(u64, &'a Says)> {
    let turn: u64 = reply.id.strip_prefix("script-")?.parse().ok()?;
    let at = (turn as usize).min(task.steps.len()) - 1;
    let step = &task.steps[at];
    let is_whole = step.fault.is_none_or(|fault| fault.is_harmless());
    is_whole.then_some((turn, &step.says))
}

/// Each reply is one that the server gave whole, and is there once.
fn check_replies(task: &Task, answers: &[Answer], figures: &mut Figures) -> Result<(), String> {
    let mut effects = BTreeSet::new();
    let mut turns = BTreeSet::new();
    for (id, answer) in answers {
        if !effects.insert(*id) {
            return Err(format!("the call {id:?} has two answers"));
        }
        let Ok(reply) = answer else { continue };
        figures.replies += 1;
        let (turn, says) = step(task, reply)
            .ok_or_else(|| format!("the server never gave this reply whole: {reply:?}"))?;
        if !turns.insert(turn) {
            return Err(format!("the reply {} is there twice", reply.id));
        }
        let (input, output) = (reply.usage.input, reply.usage.output);
        if (input, output) != (says.usage.input, says.usage.output) {
            return Err(format!("{} cost {:?}, not {:?}", reply.id, says.usage, reply.usage));
        }
        let said: Vec<(&str, &Value)> = calls(reply).collect();
        let meant: Vec<(&str, &Value)> =
            says.calls.iter().map(|call| (call.tool.as_str(), &call.input)).collect();
        if said != meant {
            return Err(format!("{} asks for {said:?}, not {meant:?}", reply.id));
        }
    }
    Ok(())
}

/// Every answer is counted once: whole, failed or stopped.
fn check_spend(
    journal: &SqliteJournal,
    task: &Task,
    answers: &[Answer],
    figures: &mut Figures,
) -> Result<(), String> {
    let loaded = journal.load(task.id.as_str()).unwrap();
    let host = Host::fold(&task.id, &loaded, Arc::new(Registry::builtin()), true, drop).unwrap();
    let usage = answers.iter().map(|(_, answer)| match answer {
        Ok(reply) => reply.usage.total(),
        Err(failure) => failure.usage.total(),
    });
    let (counted, expected) = (host.state.data().spend.tokens, usage.sum::<u64>());
    figures.tokens += counted;
    if counted == expected {
        Ok(())
    } else {
        Err(format!("{counted} tokens are counted, the answers cost {expected}"))
    }
}

/// A tool runs because a journaled answer asks for it, once; again only after a crash. What it left is there.
fn check_tools(
    run: &Run,
    task: &Task,
    answers: &[Answer],
    figures: &mut Figures,
) -> Result<(), String> {
    let mut asked: Vec<&Value> = Vec::new();
    for reply in answers.iter().filter_map(|(_, answer)| answer.as_ref().ok()) {
        asked.extend(calls(reply).map(|(_, input)| input));
    }
    let started = run.started.lock().unwrap();
    for tool in started.iter().filter(|tool| tool.task == task.id) {
        figures.tools += 1;
        if !asked.contains(&&tool.input) {
            return Err(format!("nobody asked for {}", tool.input));
        }
        let same = |other: &&crate::run::Started| {
            other.task == tool.task && other.input == tool.input && !other.repeated
        };
        if started.iter().filter(same).count() != 1 {
            return Err(format!("{} ran twice", tool.input));
        }
        if tool.repeated && !run.survivors.contains(&task.id) {
            return Err(format!("{} was repeated without a crash", tool.input));
        }
    }
    let files = std::fs::read_dir(task.folder.join("w")).into_iter().flatten();
    for file in files {
        let path = format!("w/{}", file.unwrap().file_name().to_str().unwrap());
        if !asked.iter().any(|input| input["path"] == *path && input["content"].is_string()) {
            return Err(format!("{path} is there and nobody asked for it"));
        }
    }
    Ok(())
}

fn calls(reply: &Reply) -> impl Iterator<Item = (&str, &Value)> {
    reply.message.blocks.iter().filter_map(|block| match &block.part {
        Part::ToolUse { name, input, .. } => Some((name.as_str(), input)),
        _ => None,
    })
}
