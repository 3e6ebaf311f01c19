//! Work in the world: it begins, acts, ends, and is reported, or not. Who asked for it may be long gone.

use machine::Effect;
use machine::effect::ToolCall;
use machine::id::{CallId, EffectId, TaskId};
use machine::input::{Input, Signal};
use machine::message::{
    Block, Message, ModelCall, ModelFailure, Part, Reply, Role, StopReason, Usage,
};
use machine::server::{Claim, Limits, offers};
use machine::task::{Criterion, CriterionResult, Workspace, WorkspaceKind};
use machine::tool::{EffectClass, Status, ToolResult};
use serde_json::{Value, json};

use super::agent::Play;
use super::{Happening, World, brief};
use crate::audit::Check;
use crate::bug::Bug;
use machine::verdict::{Checkpoint, Verdict};

/// One attempt at an effect.
#[derive(Debug)]
pub(crate) struct Attempt {
    pub(super) process: usize,
    pub(super) task: TaskId,
    pub(super) effect: Effect,
    acted: bool,
    pub(super) stopped: bool,
    pub(super) reported: bool,
    /// How far an agent's turn has come.
    pub(super) play: Option<Play>,
    /// It never ends by itself.
    hangs: bool,
    /// Its process is gone and it lives on.
    pub(super) orphan: bool,
    /// The id it reports under, where a planted mistake confuses two.
    alias: Option<EffectId>,
}

impl Attempt {
    /// The process that started it.
    pub(crate) fn process(&self) -> usize {
        self.process
    }

    /// The task it works for, unless it was stopped.
    pub(crate) fn goes_on_for(&self) -> Option<&TaskId> {
        (!self.stopped && !self.reported).then_some(&self.task)
    }
}

impl World {
    pub(super) fn begin(&mut self, process: usize, task: &TaskId, effect: Effect) {
        if self.hears(process, task, &effect) {
            return;
        }
        if let Effect::AskAgent { call, .. } = &effect {
            let call = call.clone();
            self.check_alone(process, task, &call);
        }
        let number = self.attempts.len();
        // Both have limits of their own, and an interrupt waits for them.
        let is_opening = matches!(effect, Effect::OpenWorkspace { .. } | Effect::OpenTools { .. });
        let hangs = !is_opening && !self.finishing && self.chance(30);
        // An interrupt brings files that are half way between two states to their end, and waits for that.
        let hangs = hangs && !matches!(effect, Effect::Restore { .. });
        self.note(|| {
            format!("process {process} starts {} #{} of {task}", name(&effect), effect.id().0)
        });
        if let Effect::RunTool { call, .. } = &effect
            && !call.repeated
            && self.times(task, call.call) > 0
        {
            self.fail(
                Check::NothingDoubled,
                format!("{} of {task} starts as if it had never run", call.call),
            );
        }
        self.attempts.push(Attempt {
            process,
            task: task.clone(),
            effect,
            acted: false,
            stopped: false,
            reported: false,
            play: None,
            hangs,
            orphan: false,
            alias: None,
        });
        if !hangs || self.chance(2) {
            let delay = self.delay(1, 120);
            self.after(delay, Happening::Act(number));
            if self.bug == Some(Bug::EffectsStartTwice) {
                self.after(delay + 1, Happening::Act(number));
            }
        }
    }

    pub(super) fn stop(&mut self, process: usize, task: &TaskId, which: impl Fn(EffectId) -> bool) {
        if self.bug == Some(Bug::StoppedWorkGoesOn) {
            // The caller believes that it ended; the judge is told so, the work is not.
            for attempt in &mut self.attempts {
                if attempt.process == process && attempt.task == *task && which(attempt.effect.id())
                {
                    attempt.stopped = true;
                }
            }
            return;
        }
        for index in 0..self.attempts.len() {
            let attempt = &mut self.attempts[index];
            if attempt.process != process || attempt.task != *task || !which(attempt.effect.id()) {
                continue;
            }
            let late = !attempt.stopped && !attempt.reported;
            attempt.stopped = true;
            // What was cancelled may still have something to say.
            if late && self.chance(3) {
                let attempt = &self.attempts[index];
                if let Effect::AskAgent { id, .. } = attempt.effect
                    && attempt.play.is_some()
                {
                    self.last_words(process, task, id);
                } else if let Effect::RunTool { id, .. } = attempt.effect {
                    let input = Input::ToolEnded(id, ToolResult::ended(Status::Aborted, "stopped"));
                    let happening = Happening::Stray(process, task.clone(), input);
                    let delay = self.delay(0, 50);
                    self.after(delay, happening);
                }
            }
        }
    }

    /// The work is done in the world; whether anybody hears of it is another matter.
    pub(crate) fn on_act(&mut self, number: usize) -> bool {
        let attempt = &self.attempts[number];
        let goes_on = self.bug == Some(Bug::StoppedWorkGoesOn);
        if attempt.stopped && !goes_on || attempt.reported {
            return false;
        }
        let (task, stopped, quiet) =
            (attempt.task.clone(), attempt.stopped, attempt.hangs || attempt.orphan);
        if let Effect::RunTool { id, call, .. } = &attempt.effect {
            let (id, call) = (*id, call.clone());
            if stopped {
                self.fail(
                    Check::StoppedIsStopped,
                    format!("effect {} of {task} acts after it was stopped", id.0),
                );
            }
            self.act(&task, &call);
        }
        self.attempts[number].acted = true;
        if matches!(self.attempts[number].effect, Effect::AskAgent { .. }) {
            let hangs = self.attempts[number].hangs;
            self.play(number, hangs);
        } else if !quiet {
            let delay = self.delay(0, 60);
            self.after(delay, Happening::Report(number));
        }
        true
    }

    /// One call acts. A checkable tool sees what has been done; an unsafe one must not act again unless told to.
    fn act(&mut self, task: &TaskId, call: &ToolCall) {
        let place = (task.clone(), call.call);
        let before = self.ran.get(&place).copied().unwrap_or_default();
        if call.class == EffectClass::Checkable && before > 0 {
            return;
        }
        *self.ran.entry(place).or_default() += 1;
        self.tally.acted += 1;
        self.tally.repeated += u64::from(before > 0);
        self.note(|| format!("{} {} of {task} acts ({before} times before)", call.tool, call.call));
        let allowed =
            self.audit.tasks.get(task).and_then(|task| task.retries.get(&call.call)).copied();
        let repeatable = matches!(call.class, EffectClass::Pure | EffectClass::Keyed);
        if !repeatable && before > allowed.unwrap_or_default() {
            self.fail(
                Check::NothingDoubled,
                format!("{} {} of {task} acts again", call.tool, call.call),
            );
        }
    }

    /// Whether an effect that a task waits for will never end.
    pub(crate) fn hangs(&self, task: &TaskId, outstanding: &[EffectId]) -> bool {
        self.attempts.iter().any(|attempt| {
            attempt.hangs
                && !attempt.stopped
                && attempt.task == *task
                && outstanding.contains(&attempt.effect.id())
        })
    }

    /// How often a call really ran.
    pub(crate) fn times(&self, task: &TaskId, call: CallId) -> u64 {
        self.ran.get(&(task.clone(), call)).copied().unwrap_or_default()
    }

    /// Who is to hear what of an attempt that ended.
    pub(crate) fn on_report(&mut self, number: usize) -> Option<(usize, TaskId, Input)> {
        let unheard = self.chance(2);
        let attempt = &self.attempts[number];
        if attempt.reported || attempt.orphan || (attempt.stopped && unheard) {
            return None;
        }
        let (process, task) = (attempt.process, attempt.task.clone());
        let input = self.answer(number);
        self.attempts[number].reported = true;
        if let Input::ToolEnded(id, result) = &input {
            self.reports.insert((task.clone(), *id), result.clone());
        }
        self.note(|| format!("report for process {process}, {task}: {}", brief(&input)));
        let input = self.confuse(number, input)?;
        self.stray(process, &task, &input);
        Some((process, task, input))
    }

    /// Now and then a report comes twice, or one comes that nobody asked for.
    fn stray(&mut self, process: usize, task: &TaskId, input: &Input) {
        let delay = self.delay(0, 80);
        if self.chance(12) {
            self.after(delay, Happening::Stray(process, task.clone(), input.clone()));
        }
        if self.chance(20) {
            let foreign = EffectId(1_000_000 + self.random.below(9));
            let input = Input::ToolEnded(foreign, ToolResult::ok("from elsewhere"));
            self.after(delay, Happening::Stray(process, task.clone(), input));
        }
    }

    /// What planted mistakes make of a report.
    fn confuse(&mut self, number: usize, input: Input) -> Option<Input> {
        if self.bug == Some(Bug::ReportsGetLost) && self.chance(5) {
            return None;
        }
        let Input::ToolEnded(id, result) = input else { return Some(input) };
        let (process, task) = (self.attempts[number].process, self.attempts[number].task.clone());
        let beside = |other: &&mut Attempt| {
            other.process == process
                && other.task == task
                && !other.reported
                && !other.stopped
                && matches!(other.effect, Effect::RunTool { .. })
        };
        let alias = self.attempts[number].alias;
        match (self.bug, self.attempts.iter_mut().find(beside)) {
            (Some(Bug::ResultsMatchByPosition), Some(other)) if alias.is_none() => {
                let theirs = other.effect.id();
                other.alias = Some(id);
                return Some(Input::ToolEnded(theirs, result));
            }
            (Some(Bug::ReportCountsForTwo), Some(other)) => {
                let theirs = other.effect.id();
                self.after(
                    1,
                    Happening::Stray(process, task, Input::ToolEnded(theirs, result.clone())),
                );
            }
            _ => {}
        }
        Some(Input::ToolEnded(alias.unwrap_or(id), result))
    }

    /// What an effect comes to.
    fn answer(&mut self, number: usize) -> Input {
        let effect = self.attempts[number].effect.clone();
        let task = self.attempts[number].task.clone();
        match effect {
            Effect::OpenWorkspace { id, spec, folder, .. } => {
                let kind = spec.kind.unwrap_or(WorkspaceKind::InPlace);
                let path = (kind != WorkspaceKind::None).then_some(folder);
                let branch =
                    (kind == WorkspaceKind::Worktree).then(|| format!("drivetrain/{task}"));
                Signal::WorkspaceOpened(id, Ok(Workspace { kind, path, branch, base: None })).into()
            }
            Effect::OpenTools { id, servers, .. } => {
                let claim = Claim { name: "t".to_owned(), ..Claim::default() };
                let limits = Limits { only: None, trust_annotations: false };
                let opened = servers.iter().map(|s| offers(&s.name, vec![claim.clone()], limits));
                Signal::ToolsOpened(id, opened.collect()).into()
            }
            Effect::RunTool { id, call, .. } => {
                let text = format!("{task} {} by effect {}", call.call, id.0);
                let status = match (self.chance(10), self.chance(30)) {
                    (true, _) => Status::Error,
                    (false, true) => Status::TimedOut,
                    (false, false) => Status::Ok,
                };
                Input::ToolEnded(
                    id,
                    ToolResult {
                        exit: Some(i32::from(status != Status::Ok)),
                        ..ToolResult::ended(status, text)
                    },
                )
            }
            Effect::Consult { id, request, .. } => {
                Signal::Consulted(id, self.advise(&request)).into()
            }
            Effect::CallModel { id, call, .. } => {
                Signal::ModelReplied(id, Box::new(think(&call))).into()
            }
            Effect::Checkpoint { id, .. } => Signal::Checkpointed(
                id,
                Ok(Checkpoint { name: format!("tree-{}", id.0), tree: "tree".to_owned() }),
            )
            .into(),
            Effect::AskAgent { id, .. } => self.turn_end(number, id),
            Effect::Restore { id, to, .. } => {
                let name = format!("before-{to}");
                Signal::Restored(id, Ok(Checkpoint { name, tree: "tree".to_owned() })).into()
            }
            Effect::Verify { id, criteria, .. } => {
                Signal::Verified(id, Ok(Verdict::of(self.verdict(task, id, &criteria)))).into()
            }
            // The supervisor keeps timers, drives children and turns cancels into calls; nobody asks through a gate.
            Effect::SetTimer { id, .. }
            | Effect::DriveChild { id, .. }
            | Effect::TellChild { id, .. }
            | Effect::TakeUpChild { id, .. }
            | Effect::AnswerRequest { id, .. }
            | Effect::TellAgent { id, .. }
            | Effect::LetAsk { id, .. }
            | Effect::DismissAgents { id }
            | Effect::Cancel { target: id } => Signal::TimerFired(id).into(),
        }
    }

    /// Most criteria pass; each failure looks different, so that trying again makes sense.
    fn verdict(
        &mut self,
        task: TaskId,
        id: EffectId,
        criteria: &[Criterion],
    ) -> Vec<CriterionResult> {
        let results: Vec<CriterionResult> = criteria
            .iter()
            .map(|criterion| {
                let passed = !self.chance(4);
                let evidence = format!("seen by effect {}", id.0);
                let exit = Some(i32::from(!passed));
                CriterionResult {
                    title: criterion.title(),
                    passed,
                    exit,
                    evidence,
                    millis: 3,
                    ..CriterionResult::default()
                }
            })
            .collect();
        if results.iter().all(|result| result.passed) {
            *self.passed.entry(task).or_default() += 1;
        }
        results
    }

    /// A plugin's answer: a few actions, then a claim; sometimes none, sometimes nonsense.
    fn advise(&mut self, request: &Value) -> Result<Value, String> {
        let turns = request["params"]["turns"].as_u64().unwrap_or_default();
        if self.chance(12) {
            return Err("the plugin died".to_owned());
        }
        if self.chance(12) {
            return Ok(json!({ "decision": "dance" }));
        }
        if turns >= 3 {
            return Ok(json!({ "decision": "claim", "summary": "enough", "state": turns }));
        }
        let shell =
            json!({ "tool": "shell", "parameters": { "command": format!("plugin {turns}") } });
        let read = json!({ "tool": "read", "parameters": { "path": "notes" } });
        let actions = if self.chance(2) { json!([shell, read]) } else { json!([read]) };
        Ok(json!({ "decision": "act", "actions": actions, "state": turns }))
    }
}

fn name(effect: &Effect) -> String {
    match effect {
        Effect::OpenWorkspace { .. } => "open workspace".to_owned(),
        Effect::OpenTools { .. } => "open tools".to_owned(),
        Effect::RunTool { call, .. } => format!("{} {}", call.tool, call.call),
        Effect::Consult { .. } => "consult".to_owned(),
        Effect::AnswerRequest { .. } => "answer a worker".to_owned(),
        Effect::CallModel { .. } => "call a model".to_owned(),
        Effect::AskAgent { .. } => "ask an agent".to_owned(),
        Effect::TellAgent { .. } => "tell an agent".to_owned(),
        Effect::LetAsk { .. } => "let an agent ask".to_owned(),
        Effect::DismissAgents { .. } => "dismiss agents".to_owned(),
        Effect::Checkpoint { .. } => "checkpoint".to_owned(),
        Effect::Restore { .. } => "restore".to_owned(),
        Effect::Verify { .. } => "verify".to_owned(),
        Effect::DriveChild { .. } => "drive a child".to_owned(),
        Effect::TellChild { .. } => "tell a child".to_owned(),
        Effect::TakeUpChild { .. } => "take up a child".to_owned(),
        Effect::SetTimer { .. } => "timer".to_owned(),
        Effect::Cancel { .. } => "cancel".to_owned(),
    }
}

/// A decider that says anything there is to say, and nonsense.
fn judge(call: &ModelCall) -> Reply {
    let text = match call.question % 5 {
        0 => r#"{"decision":"deny","reason":"no"}"#,
        1 => r#"{"decision":"unsure"}"#,
        2 => "Of course it may run!",
        _ => r#"{"decision":"allow","reason":"yes"}"#,
    };
    let block = Block { part: Part::Text { text: text.to_owned() }, native: None };
    Reply {
        id: String::new(),
        model: "sim".to_owned(),
        message: Message { role: Role::Assistant, blocks: vec![block] },
        stop: StopReason::EndTurn,
        usage: Usage::default(),
    }
}

/// A model that asks for two tools, then for one, then is done; whatever is answered.
fn think(call: &ModelCall) -> Result<Reply, ModelFailure> {
    if call.system.starts_with("You decide whether one call") {
        return Ok(judge(call));
    }
    let said = call.messages.iter().filter(|message| message.role == Role::Assistant).count();
    let tool = |at: usize, name: &str, input: serde_json::Value| Block {
        part: Part::ToolUse { id: format!("u{said}-{at}"), name: name.to_owned(), input },
        native: None,
    };
    let (blocks, stop) = match said {
        0 => (
            vec![
                tool(0, "shell", serde_json::json!({ "command": "m0" })),
                tool(1, "read", serde_json::json!({ "path": "m1" })),
            ],
            StopReason::ToolUse,
        ),
        1 => (
            vec![tool(0, "write", serde_json::json!({ "path": "m2", "content": "c" }))],
            StopReason::ToolUse,
        ),
        _ => {
            let text = Part::Text { text: "done".to_owned() };
            (vec![Block { part: text, native: None }], StopReason::EndTurn)
        }
    };
    let message = Message { role: Role::Assistant, blocks };
    let usage = Usage { input: Some(10), output: Some(5), ..Usage::default() };
    Ok(Reply { id: format!("r{said}"), model: "m".to_owned(), message, stop, usage })
}
