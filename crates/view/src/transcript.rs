//! Events as lines: what happened, one after the other, for a person who watches or reads it later.

use machine::agent::{AgentEnd, Unknown};
use machine::change::Change;
use machine::driver::{Note, NoteKind};
use machine::event::{Event, EventKind, Loss};
use machine::id::{CallId, TaskId};
use machine::policy::grant::Scope;
use machine::policy::permission::Decide;
use machine::policy::sandbox::Level;
use machine::task::{
    CriterionResult, FileStanding, Outcome, ProjectFile, Workspace, WorkspaceKind,
};
use machine::tool::{Status, ToolResult};

use crate::story::{Story, title};
use crate::{Line, Tone, approvals, recovery, spend, text};

/// How much is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Detail {
    /// Whether the beginning of each call is told as well as its end.
    pub starts: bool,
    /// Whether turns, processes and other inner matters are told.
    pub inner: bool,
    /// Lines of output shown of a call that ended well.
    pub output: usize,
    /// Lines of output shown of a call that did not.
    pub failure: usize,
    /// Lines shown of what a call changed in files.
    pub change: usize,
}

/// Makes lines of events. Remembers what began, so that what ends can be named.
#[derive(Debug)]
pub struct Transcript {
    detail: Detail,
    story: Story,
    /// What a model said last; a claim in the same words need not repeat them.
    said: String,
}

impl Transcript {
    /// A transcript that tells this much.
    pub fn new(detail: Detail) -> Transcript {
        Transcript { detail, story: Story::default(), said: String::new() }
    }

    /// The same of a task that goes on: where it works, and which agent decides, another process was told.
    pub fn going_on(mut self, workspace: Option<Workspace>, agent: Option<String>) -> Transcript {
        (self.story.workspace, self.story.agent) = (workspace, agent);
        self
    }

    /// The story so far.
    pub fn story(&self) -> &Story {
        &self.story
    }

    /// The lines of an event; none if there is nothing to tell.
    pub fn lines(&mut self, event: &Event) -> Vec<Line> {
        let lines = self.tell(event);
        self.story.tell(event);
        if let EventKind::ModelReplied { text, .. } | EventKind::AgentSaid { text, .. } =
            &event.kind
            && !text.is_empty()
        {
            self.said.clone_from(text);
        }
        lines
    }

    fn tell(&self, event: &Event) -> Vec<Line> {
        let one = |tone, text: String| vec![Line::new(tone, text)];
        let inner =
            |text: String| if self.detail.inner { one(Tone::Faint, text) } else { Vec::new() };
        match &event.kind {
            EventKind::TaskStarted { goal, driver, agent, criteria, sandbox } => {
                let checks = match criteria {
                    0 => "no acceptance criteria".to_owned(),
                    count => format!(
                        "{count} acceptance {}",
                        if *count == 1 { "criterion" } else { "criteria" }
                    ),
                };
                let mut lines = vec![
                    Line::new(
                        Tone::Strong,
                        format!("task {}: {}", event.task, text::visible(goal)),
                    ),
                    Line::new(
                        Tone::Faint,
                        format!("  driver {}, {checks}", text::named(driver, [agent, &None])),
                    ),
                ];
                if *sandbox != Level::Full {
                    lines.push(Line::new(Tone::Ask, format!("  sandbox {}", sandbox.word())));
                }
                lines
            }
            EventKind::FilesJudged { files } => files_judged(files, self.detail.inner),
            EventKind::Attached { owner, attended } => inner(format!(
                "taken up by process {owner}{}",
                if *attended { ", attended" } else { "" }
            )),
            EventKind::Detached { reason } => inner(format!("let go: {}", text::visible(reason))),
            EventKind::OwnerLost { repeated, in_doubt } => {
                owner_lost(repeated.len(), in_doubt.len())
            }
            EventKind::Restarted { by, brought_back, problem } => {
                restarted(*by, *brought_back, problem.as_deref())
            }
            EventKind::RecordsLost { lost, child } => records_lost(*lost, child.as_ref()),
            EventKind::WorkspaceOpened { workspace } => {
                one(Tone::Faint, format!("  works in {}{}", place(workspace), gives_up(workspace)))
            }
            EventKind::ToolsOpened { server, tools, problem } => {
                tools_opened(server, tools.len(), problem.as_deref())
            }
            EventKind::ModelCalled { model, messages } => inner(format!(
                "{} is asked, with {messages} {}",
                text::visible(model),
                text::plural(*messages, "message")
            )),
            EventKind::ModelReplied { text, .. } if text.trim().is_empty() => Vec::new(),
            EventKind::ModelReplied { text, .. } => said(text, true),
            EventKind::ModelFailed { kind, message, again_in } => {
                let again = match again_in {
                    Some(millis) => format!("; asked again in {}", spend::duration(*millis)),
                    None => String::new(),
                };
                let words = format!("the model failed ({kind}): {message}{again}");
                prefixed(Tone::Bad, "", &words)
            }
            EventKind::AgentAsked { agent, conversation } => {
                inner(format!("{} is asked, in conversation {conversation}", text::visible(agent)))
            }
            EventKind::AgentMet { agent, version, remarks } => {
                let who = format!("{agent} {version}");
                remarks
                    .iter()
                    .map(|remark| {
                        let line = format!("{}: {remark}", who.trim_end());
                        Line::new(Tone::Ask, text::visible(&line))
                    })
                    .collect()
            }
            EventKind::AgentSaid { text, thinking } => {
                let mut lines = match thinking.trim() {
                    // Whoever looks on has seen it come.
                    _ if !self.detail.inner => Vec::new(),
                    "" => Vec::new(),
                    thinking => prefixed(Tone::Faint, "thinks: ", thinking),
                };
                if !text.is_empty() {
                    lines.extend(said(text, true));
                }
                lines
            }
            EventKind::AgentEnded { end: Some(AgentEnd::Done), unknown, .. }
                if !unknown.is_empty() =>
            {
                inner(unknown_words(unknown))
            }
            // What the model said no to is told with when it is asked again.
            EventKind::AgentEnded {
                end:
                    Some(
                        AgentEnd::Done
                        | AgentEnd::Interrupted
                        | AgentEnd::Model { again: true, .. },
                    ),
                ..
            } => Vec::new(),
            EventKind::AgentEnded { end, text, unknown } => {
                let how = match end {
                    None => "there is no agent",
                    Some(AgentEnd::Limit) => "the agent reached a limit of its own",
                    Some(AgentEnd::Refused) => "the agent's model refused",
                    Some(AgentEnd::ContextOverflow) => "the agent's conversation is too long",
                    Some(AgentEnd::NoSession) => "the agent's conversation is gone",
                    Some(AgentEnd::Model { .. }) => "the agent's model failed",
                    Some(AgentEnd::Broken(_)) => "the agent broke off",
                    Some(AgentEnd::Failed | AgentEnd::Done | AgentEnd::Interrupted) => {
                        "the agent's turn failed"
                    }
                };
                let mut lines = prefixed(Tone::Bad, "", &format!("{how}: {text}"));
                if !unknown.is_empty() {
                    lines.push(Line::new(Tone::Faint, format!("  {}", unknown_words(unknown))));
                }
                lines
            }
            EventKind::Compacted { messages } => one(
                Tone::Faint,
                format!(
                    "  this stands for {messages} {} from here on",
                    text::plural(*messages, "message")
                ),
            ),
            EventKind::CompactionAsked { focus } => {
                let keeps = match focus.as_str() {
                    "" => String::new(),
                    focus => format!(", with this kept above all: {}", text::visible(focus)),
                };
                one(Tone::Strong, format!("the conversation is to be shorter{keeps}"))
            }
            EventKind::AgentCompacted { before, after } => {
                one(Tone::Faint, format!("  {}", shortened(*before, *after)))
            }
            EventKind::TurnStarted { turn, actions } => {
                inner(format!("turn {turn}: {actions} {}", text::plural(*actions, "action")))
            }
            EventKind::TurnEnded { .. } => Vec::new(),
            EventKind::ToolStarted { call, tool, label, input, .. } if self.detail.starts => one(
                Tone::Plain,
                format!("{call} {}", title(tool, label, input, self.story.folder())),
            ),
            EventKind::ToolStarted { .. } => Vec::new(),
            EventKind::ToolEnded { .. }
            | EventKind::ApprovalRequested { .. }
            | EventKind::ApprovalDecided { .. }
            | EventKind::DeciderAsked { .. }
            | EventKind::CallJudged { .. }
            | EventKind::QuestionAsked { .. }
            | EventKind::CallInDoubt { .. }
            | EventKind::CallResolved { .. } => self.tell_call(event),
            EventKind::DecisionAwaited { prompt, .. } => prefixed(Tone::Ask, "? ", prompt),
            EventKind::Told { line } => one(Tone::Strong, format!("> {}", text::visible(line))),
            EventKind::TimerAwaited { until, reason } => {
                let left = spend::duration(until.since(event.time).0);
                one(Tone::Faint, format!("waits {left}: {}", text::visible(reason)))
            }
            EventKind::OrderFailed { order, reason } => {
                prefixed(Tone::Ask, "", &format!("the agent did not take {order}: {reason}"))
            }
            EventKind::NoteQueued { note } => one(Tone::Strong, note_line(note)),
            EventKind::NoteDelivered { note } => inner(match note.text.trim() {
                "" => "the driver was told that it was interrupted".to_owned(),
                said => format!("the driver was told: {}", text::visible(said)),
            }),
            EventKind::Paused => one(Tone::Ask, "paused".to_owned()),
            EventKind::Resumed => one(Tone::Good, "resumed".to_owned()),
            EventKind::BudgetRaised { budget } => {
                one(Tone::Good, format!("budget raised: {}", spend::limits(budget)))
            }
            EventKind::DriverChanged { from, to, model, agent } => {
                let who = text::named(to, [agent, model]);
                let from = text::named(from, [&self.story.agent, &None]);
                one(Tone::Strong, format!("driver {from} handed over to {who}"))
            }
            EventKind::Checkpointed { checkpoint } => {
                inner(format!("checkpoint {}", text::visible(checkpoint)))
            }
            EventKind::Unkept { reason } => {
                one(Tone::Bad, format!("no checkpoint: {}", text::visible(reason)))
            }
            EventKind::RollBackAsked { to } => {
                let to = text::commit(to);
                one(Tone::Strong, format!("the workspace goes back to checkpoint {to}"))
            }
            EventKind::RollBackFailed { to, reason } => one(
                Tone::Bad,
                format!(
                    "the workspace cannot go back to {}: {}",
                    text::commit(to),
                    text::visible(reason)
                ),
            ),
            EventKind::RolledBack { to, undo } => inner(format!(
                "went back to checkpoint {}; {} is what it was before",
                text::visible(to),
                text::visible(undo)
            )),
            EventKind::Reopened { reason } => prefixed(Tone::Bad, "reopened: ", reason),
            EventKind::Rebased { branch, commit, .. } => one(
                Tone::Plain,
                format!(
                    "goes on together with {} at {}",
                    text::visible(branch),
                    text::visible(text::commit(commit))
                ),
            ),
            EventKind::Integrated { branch, commit, .. } => one(
                Tone::Good,
                format!(
                    "integrated in {} as {}",
                    text::visible(branch),
                    text::visible(text::commit(commit))
                ),
            ),
            EventKind::ChildDispatched { child, goal } => {
                one(Tone::Plain, format!("dispatches task {child}: {}", text::short(goal, 80)))
            }
            EventKind::ChildReported { child, outcome, usd, .. } => {
                let how = outcome.map_or("goes on", Outcome::word);
                one(Tone::Faint, format!("task {child} {how}, {} spent", spend::money(*usd)))
            }
            EventKind::ChildrenAwaited { children } => {
                let named: Vec<&str> = children.iter().map(TaskId::as_str).collect();
                let words = format!(
                    "waits for {}: all that is left of its budget is set aside there",
                    named.join(", ")
                );
                one(Tone::Ask, words)
            }
            EventKind::ChildLost { child, given_up: false } => {
                one(Tone::Ask, format!("the process of task {child} is gone: it is taken up again"))
            }
            EventKind::ChildLost { child, given_up: true } => {
                let words = format!(
                    "task {child} comes no further, however often it is taken up: nobody waits for it"
                );
                one(Tone::Bad, words)
            }
            EventKind::Claimed { summary } if summary.is_empty() || *summary == self.said => {
                one(Tone::Plain, "claims to be finished".to_owned())
            }
            EventKind::Claimed { summary } => {
                led_by(Tone::Plain, "claims to be finished: ", text::prose(summary))
            }
            EventKind::JudgeAsked { criterion, model } => {
                let (criterion, model) = (text::visible(criterion), text::visible(model));
                one(Tone::Faint, format!("  {model} is asked for {criterion}"))
            }
            EventKind::JudgeReplied { problem: Some(problem), .. } => {
                one(Tone::Faint, format!("  no verdict: {}", text::visible(problem)))
            }
            EventKind::JudgeReplied { problem: None, .. } => Vec::new(),
            EventKind::CriterionChecked { result } => criterion(result, self.detail.failure),
            EventKind::VerdictFailed { failed } => {
                let word = if *failed == 1 { "criterion" } else { "criteria" };
                one(Tone::Bad, format!("not accepted: {failed} {word} failed"))
            }
            EventKind::RecoveryChosen { cause, action, attempt, .. } => {
                let said = recovery::chosen(cause, action, *attempt);
                one(Tone::Ask, said)
            }
            EventKind::Escalated { reason, .. } => {
                prefixed(Tone::Ask, "? what is to become of it: ", reason)
            }
            EventKind::Progress { .. } => {
                recovery::progress(&event.kind).into_iter().map(Line::plain).collect()
            }
            EventKind::BudgetExhausted { axes } => {
                let words: Vec<String> = axes
                    .iter()
                    .map(|axis| format!("{} = {} reached", axis.axis, axis.limit))
                    .collect();
                one(Tone::Bad, format!("budget exhausted: {}", words.join(", ")))
            }
            EventKind::Rejected { reason } => {
                one(Tone::Bad, format!("refused: {}", text::visible(reason)))
            }
            EventKind::SignalDropped { total } => {
                inner(format!("a late report was dropped ({total} so far)"))
            }
            EventKind::TaskFinished { outcome, reason, .. }
                if reason.is_empty() || reason == outcome.word() =>
            {
                one(outcome_tone(*outcome), outcome_words(*outcome).to_owned())
            }
            EventKind::TaskFinished { outcome, reason, .. } => {
                prefixed(outcome_tone(*outcome), &format!("{}: ", outcome_words(*outcome)), reason)
            }
        }
    }

    fn tell_call(&self, event: &Event) -> Vec<Line> {
        match &event.kind {
            EventKind::ToolEnded { call, tool, label, result, .. } => {
                let running = self.story.running.get(call);
                let name = match running {
                    Some(running) if !self.detail.starts => running.title.clone(),
                    Some(_) | None if label.is_empty() => text::visible(tool),
                    Some(_) | None => text::visible(label),
                };
                let took =
                    running.map(|running| spend::duration(event.time.since(running.since).0));
                let mut lines = vec![ended(&call.to_string(), &name, result, took)];
                let most = match result.status {
                    Status::Ok if tool == "say" => usize::MAX,
                    Status::Ok => self.detail.output,
                    Status::Error
                    | Status::Denied
                    | Status::Skipped
                    | Status::Aborted
                    | Status::TimedOut
                    | Status::InDoubt => self.detail.failure,
                };
                if let Some(running) = running.filter(|_| result.status == Status::Ok) {
                    lines.extend(changed(
                        &running.changes,
                        self.story.folder(),
                        self.detail.change,
                    ));
                }
                lines.extend(output(result, most));
                lines
            }
            EventKind::ApprovalRequested { call, tool, input, reason, hash, part } => {
                let asked =
                    approvals::Approval { call: *call, tool, input, reason, hash: *hash, part };
                approvals::approval(&asked, approvals::Amount::Screen)
            }
            EventKind::ApprovalDecided { call, allowed: true, scope, .. } => {
                let reach = match scope {
                    Scope::Once => "",
                    Scope::Task => " for this task",
                    Scope::Project => " for the project",
                };
                vec![Line::new(Tone::Good, format!("{call} approved{reach}"))]
            }
            EventKind::DeciderAsked { call, decider, .. } => {
                let decider = text::visible(decider);
                vec![Line::new(Tone::Faint, format!("  {call}: the decider {decider} is asked"))]
            }
            EventKind::CallJudged { call, decide, by, reason, .. } => {
                judged(*call, *decide, by, reason)
            }
            EventKind::ApprovalDecided { call, allowed: false, reason, .. } => {
                let why = if reason.is_empty() {
                    String::new()
                } else {
                    format!(": {}", text::visible(reason))
                };
                vec![Line::new(Tone::Bad, format!("{call} denied{why}"))]
            }
            EventKind::QuestionAsked { call, question, choices } => {
                approvals::question(*call, question, choices)
            }
            EventKind::CallInDoubt { call, tool, input } => approvals::in_doubt(*call, tool, input),
            EventKind::CallResolved { call, how } => {
                let said = match how.as_str() {
                    "did" => "it ran to its end",
                    "did_not" => "it did not run",
                    _ => "run it again",
                };
                vec![Line::new(Tone::Strong, format!("{call} resolved: {said}"))]
            }
            _ => Vec::new(),
        }
    }
}

fn unknown_words(unknown: &Unknown) -> String {
    let kinds: Vec<String> = unknown.kinds.iter().map(|kind| text::visible(kind)).collect();
    let messages = text::plural(usize::try_from(unknown.count).unwrap_or(usize::MAX), "message");
    format!("the agent sent {} {messages} that nobody knows: {}", unknown.count, kinds.join(", "))
}

fn shortened(before: Option<u64>, after: Option<u64>) -> String {
    let size = |tokens: Option<u64>| match tokens {
        Some(tokens) => format!("{tokens} tokens"),
        None => "an unknown size".to_owned(),
    };
    let sizes = match (before, after) {
        (None, None) => String::new(),
        _ => format!(", from {} to {}", size(before), size(after)),
    };
    format!("a summary stands for the conversation from here on{sizes}")
}

/// What a decider said. What a rule or a person decides shows in what becomes of the call.
fn judged(call: CallId, decide: Decide, by: &str, reason: &str) -> Vec<Line> {
    if !by.starts_with("decider ") {
        return Vec::new();
    }
    let (said, tone) = match decide {
        Decide::Allow => ("allowed by the", Tone::Good),
        Decide::Deny => ("denied by the", Tone::Bad),
        Decide::Ask => ("not settled by the", Tone::Ask),
    };
    let reason = match reason {
        "" => String::new(),
        reason => format!(": {}", text::visible(reason)),
    };
    vec![Line::new(tone, format!("{call} {said} {}{reason}", text::visible(by)))]
}

fn owner_lost(repeated: usize, in_doubt: usize) -> Vec<Line> {
    let mut text = "the process that drove it was lost".to_owned();
    if repeated > 0 {
        text.push_str(&format!("; {repeated} {} run again", text::plural(repeated, "call")));
    }
    if in_doubt > 0 {
        text.push_str(&format!("; {in_doubt} {} in doubt", text::plural(in_doubt, "call")));
    }
    vec![Line::new(Tone::Bad, text)]
}

fn restarted(by: Loss, brought_back: u32, problem: Option<&str>) -> Vec<Line> {
    let lost = match (brought_back as usize, problem) {
        (_, Some(problem)) => {
            format!("nobody knows which files were lost ({})", text::visible(problem))
        }
        (0, None) => "no file of the last checkpoint was lost".to_owned(),
        (count, None) => format!(
            "{count} {} of the last checkpoint had been lost and {} brought back",
            text::plural(count, "file"),
            if count == 1 { "was" } else { "were" }
        ),
    };
    let (what, since) = match by {
        Loss::Restart => ("the machine was restarted", "may be old, empty or gone"),
        Loss::Folder => ("the folder was gone", "and what git ignores, is gone"),
    };
    vec![
        Line::new(Tone::Bad, format!("{what}: {lost}")),
        Line::new(Tone::Bad, format!("  what was written last, after it, {since}")),
    ]
}

fn records_lost(lost: u64, child: Option<&TaskId>) -> Vec<Line> {
    let records = text::counted(usize::try_from(lost).unwrap_or(usize::MAX), "record");
    let whose = match child {
        Some(child) => format!("task {child}, which a step of it began"),
        None => "it".to_owned(),
    };
    let text = format!("the journal was damaged and lost the last {records} of {whose}");
    vec![Line::new(Tone::Bad, text)]
}

fn ended(call: &str, name: &str, result: &ToolResult, took: Option<String>) -> Line {
    let word = match result.status {
        Status::TimedOut => "timed out",
        Status::InDoubt => "in doubt",
        status => status.word(),
    };
    let tone = match result.status {
        Status::Ok => Tone::Good,
        Status::Skipped | Status::Aborted => Tone::Faint,
        Status::Error | Status::Denied | Status::TimedOut | Status::InDoubt => Tone::Bad,
    };
    let exit = result
        .exit
        .filter(|code| *code != 0)
        .map(|code| format!(", exit {code}"))
        .unwrap_or_default();
    let took = took.map(|took| format!(" ({took})")).unwrap_or_default();
    Line::new(tone, format!("{call} {word}{exit}: {name}{took}"))
}

fn output(result: &ToolResult, most: usize) -> Vec<Line> {
    if most == 0 {
        return Vec::new();
    }
    let shown = text::tail(&result.text, most);
    shown.into_iter().map(|line| Line::new(Tone::Faint, format!("  | {line}"))).collect()
}

/// What a call changed, as the lines that went and those that came. The file is named where there is more than one.
fn changed(changes: &[Change], folder: &str, most: usize) -> Vec<Line> {
    if most == 0 {
        return Vec::new();
    }
    let several = changes.iter().any(|change| change.path != changes[0].path);
    let mut lines = Vec::new();
    let mut named = "";
    for change in changes {
        if several && named != change.path {
            named = &change.path;
            let path = text::visible(text::below(folder, named));
            lines.push(Line::new(Tone::Faint, format!("  {path}")));
        }
        let old = text::lines(change.old.as_deref().unwrap_or_default());
        let new = text::lines(&change.new);
        // An agent may tell a whole file: what is the same before and after is left out.
        let same = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
        let (old, new) = (&old[same..], &new[same..]);
        let ends = old.iter().rev().zip(new.iter().rev());
        let same = ends.take_while(|(old, new)| old == new).count();
        let gone = old[..old.len() - same].iter();
        let came = new[..new.len() - same].iter();
        lines.extend(gone.map(|line| Line::new(Tone::Bad, format!("  - {line}"))));
        lines.extend(came.map(|line| Line::new(Tone::Good, format!("  + {line}"))));
    }
    let left = lines.len().saturating_sub(most);
    if left > 0 {
        lines.truncate(most);
        let words = format!("  … {left} more {} of the change", text::plural(left, "line"));
        lines.push(Line::new(Tone::Faint, words));
    }
    lines
}

/// The text with a prefix before its first line; the lines after it are indented, so that none of them can
/// pass for a line of ours.
fn prefixed(tone: Tone, prefix: &str, text: &str) -> Vec<Line> {
    led_by(tone, prefix, text::lines(text))
}

fn led_by(tone: Tone, prefix: &str, lines: Vec<String>) -> Vec<Line> {
    let mut shown = lines.into_iter();
    let first = shown.next().unwrap_or_default();
    let mut lines = vec![Line::new(tone, format!("{prefix}{first}"))];
    lines.extend(shown.map(|line| Line::new(tone, format!("  {line}"))));
    lines
}

/// Lines of what a model says: from the beginning, or further ones.
pub(crate) fn said(text: &str, from_start: bool) -> Vec<Line> {
    match from_start {
        true => led_by(Tone::Plain, "says: ", text::prose(text)),
        false => {
            let lines = text::prose(text).into_iter();
            lines.map(|line| Line::new(Tone::Plain, format!("  {line}"))).collect()
        }
    }
}

/// What was left out, quoted or let in just once is always told; the rest to those who want to know.
fn files_judged(files: &[ProjectFile], inner: bool) -> Vec<Line> {
    let told = files.iter().filter(|file| {
        inner
            || matches!(
                file.standing,
                FileStanding::LeftOut | FileStanding::Quoted | FileStanding::Once
            )
    });
    told.map(|file| {
        let tone = match file.standing {
            FileStanding::LeftOut | FileStanding::Quoted => Tone::Ask,
            FileStanding::Named | FileStanding::Trusted | FileStanding::Once => Tone::Faint,
        };
        let (standing, role) = (file.standing.word(), file.role.word());
        Line::new(tone, format!("  {standing}: {role} {}", text::visible(&file.path)))
    })
    .collect()
}

/// A server that offers nothing is told, however little else is.
fn tools_opened(server: &str, tools: usize, problem: Option<&str>) -> Vec<Line> {
    let server = text::visible(server);
    let count = format!("{tools} {}", text::plural(tools, "tool"));
    match problem {
        None => vec![Line::new(Tone::Faint, format!("  server {server}: {count}"))],
        Some(problem) => prefixed(Tone::Bad, &format!("server {server}: {count}; "), problem),
    }
}

fn note_line(note: &Note) -> String {
    let verb = match note.kind {
        NoteKind::Steer => "steered",
        NoteKind::Interrupt => "interrupted",
        NoteKind::FollowUp => "follow-up queued",
    };
    match note.text.trim() {
        "" => verb.to_owned(),
        said => format!("{verb}: {}", text::visible(said)),
    }
}

/// A criterion's result, with the end of its evidence if it failed.
pub fn criterion(result: &CriterionResult, most: usize) -> Vec<Line> {
    let took = spend::duration(result.millis);
    let name = text::visible(&result.title);
    if result.passed {
        return vec![Line::new(Tone::Good, format!("passed: {name} ({took})"))];
    }
    let exit = result.exit.map(|code| format!(", exit {code}")).unwrap_or_default();
    let first = match result.advisory {
        true => Line::new(Tone::Plain, format!("no, which decides nothing: {name} ({took})")),
        false => Line::new(Tone::Bad, format!("failed{exit}: {name} ({took})")),
    };
    let mut lines = vec![first];
    let evidence = if most == 0 { Vec::new() } else { text::tail(&result.evidence, most) };
    lines.extend(evidence.into_iter().map(|line| Line::new(Tone::Faint, format!("  | {line}"))));
    lines
}

/// A workspace in words.
pub fn place(workspace: &Workspace) -> String {
    let path = workspace.path.as_deref().map(text::visible).unwrap_or_default();
    match (workspace.kind, &workspace.branch) {
        (WorkspaceKind::None, _) => "no folder".to_owned(),
        (WorkspaceKind::InPlace, _) => format!("{path} (in place)"),
        (WorkspaceKind::Worktree, Some(branch)) => {
            format!("{path} (worktree, branch {})", text::visible(branch))
        }
        (WorkspaceKind::Worktree, None) => format!("{path} (worktree)"),
    }
}

/// What a workspace other than a worktree gives up: whoever watches should know it before the work begins.
fn gives_up(workspace: &Workspace) -> &'static str {
    match workspace.kind {
        WorkspaceKind::Worktree => "",
        WorkspaceKind::InPlace => ": there is no way back, and checks run where the worker works",
        WorkspaceKind::None => ": no files, and nothing that can be checked",
    }
}

/// An outcome in words.
pub fn outcome_words(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Verified => "verified",
        Outcome::Completed => "completed",
        Outcome::Failed => "failed",
        Outcome::BudgetExhausted => "budget exhausted",
        Outcome::Cancelled => "cancelled",
        Outcome::Waiting => "waiting",
        Outcome::Stuck => "stuck",
    }
}

/// How an outcome is meant.
pub fn outcome_tone(outcome: Outcome) -> Tone {
    match outcome {
        Outcome::Verified | Outcome::Completed => Tone::Good,
        Outcome::Failed | Outcome::BudgetExhausted | Outcome::Stuck => Tone::Bad,
        Outcome::Cancelled => Tone::Plain,
        Outcome::Waiting => Tone::Ask,
    }
}
