//! Why a task stopped or what it waits for, on one screen, with what to type next.

use machine::cause::Cause;
use machine::driver::{Consultation, Wait};
use machine::policy::budget::Spend;
use machine::policy::sandbox::Level;
use machine::state::{Ask, Call, CallStatus, Data, Phase, Standing};
use machine::task::{DriverSpec, Outcome, WorkspaceKind};
use machine::time::{Span, Timestamp};
use machine::tool::EffectClass;

use crate::approvals::{self, Next, next_lines};
use crate::story::{self, Story};
use crate::transcript::{criterion, outcome_tone, outcome_words, place};
use crate::{Line, Tone, recovery, spend, tasks, text};

/// Lines of evidence or output shown of each failure.
const EVIDENCE: usize = 6;

/// How many of the things that it waits for are shown: it is one screen.
const ASKS: usize = 3;

/// How many of the calls that run are shown.
const RUNNING: usize = 6;

/// Characters of the goal that are shown.
const GOAL: usize = 400;

/// What is asked about.
#[derive(Debug, Clone)]
pub struct Subject<'a> {
    /// The task's plain state.
    pub data: &'a Data,
    /// How it stands.
    pub standing: &'a Standing,
    /// Who decides.
    pub driver: &'a str,
    /// What names it again, see [`same`].
    pub same: Option<String>,
    /// What happened so far.
    pub story: &'a Story,
    /// The number of the living process that drives it.
    pub driven_by: Option<u32>,
    /// Whether the process that drove it died.
    pub interrupted: bool,
    /// Calls of its agent that ended with that process.
    pub stopped: &'a [Call],
    /// A folder of it whose disk has no room, while a process drives it.
    pub full: Option<&'a str>,
    /// The short id of its receipt, if it is verified.
    pub receipt: Option<&'a str>,
    /// The user's branch and the commit in it that have its change.
    pub applied: Option<(&'a str, &'a str)>,
    /// This moment.
    pub now: Timestamp,
}

/// The screen.
pub fn lines(subject: &Subject<'_>) -> Vec<Line> {
    let data = subject.data;
    let mut lines = vec![
        Line::new(
            Tone::Strong,
            format!("task {}: {}", data.id, text::short(&data.spec.goal, GOAL)),
        ),
        Line::empty(),
    ];
    lines.extend(no_room(subject));
    lines.extend(reason(subject));
    lines.push(Line::empty());
    lines.push(Line::plain(format!("spent      {}", spend::line(&so_far(subject), &data.budget))));
    lines.extend(recovery::wasted(&data.spend));
    lines.extend(recovery::tried(&data.spec.recovery, &data.course));
    lines.push(Line::plain(format!("driver     {}", decides(subject.driver, subject.story, data))));
    if let Some(workspace) = &data.workspace {
        lines.push(Line::plain(format!("workspace  {}", place(workspace))));
    }
    lines.extend(receipt(subject));
    lines.extend(handed_over(subject));
    lines.extend(records_lost(data));
    if !matches!(subject.standing, Standing::Finished { .. }) {
        lines.extend(standing_answers(data));
    }
    lines.push(sandbox(subject));
    lines.push(Line::plain(format!("last news  {}", tasks::ago(subject.now.since(data.clock).0))));
    let next = next_of(subject, ASKS);
    if !next.is_empty() {
        lines.extend([Line::empty(), Line::new(Tone::Strong, "next")]);
        lines.extend(next_lines(&next));
    }
    lines
}

/// Who decides, and who will once what runs has ended.
pub fn decides(driver: &str, story: &Story, data: &Data) -> String {
    let next = data.successor.as_ref();
    let next = next.map(|next| {
        let agent = next.agent().map(str::to_owned);
        format!(", handed over to {}", text::named(&next.name, [&agent, &None]))
    });
    format!("{}{}", text::named(driver, [&story.agent, &None]), next.unwrap_or_default())
}

/// What a process that waits for room cannot record.
fn no_room(subject: &Subject<'_>) -> Option<Line> {
    let folder = text::visible(subject.full?);
    let said =
        format!("The disk of {folder} is full: what has to be written waits for room there.");
    Some(Line::new(Tone::Bad, said))
}

/// What is told of it may be less than was done.
fn records_lost(data: &Data) -> Option<Line> {
    let lost = usize::try_from(data.records_lost).ok().filter(|lost| *lost > 0)?;
    let records = text::counted(lost, "record");
    let said = format!("journal    was damaged and lost {records} of what was done");
    Some(Line::new(Tone::Bad, said))
}

/// Where its change is, once it was handed over.
fn handed_over(subject: &Subject<'_>) -> Option<Line> {
    let integrated = subject.data.integrated.as_ref();
    let integrated = integrated.map(|done| (done.branch.as_str(), done.commit.as_str()));
    let (how, (branch, commit)) = match (subject.applied, integrated) {
        (Some(done), _) => ("applied    to", done),
        (None, done) => ("integrated in", done?),
    };
    Some(Line::plain(format!("{how} {} as {}", text::visible(branch), text::commit(commit))))
}

/// The evidence for its verdict.
fn receipt(subject: &Subject<'_>) -> Option<Line> {
    Some(Line::plain(format!("receipt    {}", subject.receipt?)))
}

/// The walls around its processes; loud where there are none.
fn sandbox(subject: &Subject<'_>) -> Line {
    let spec = &subject.data.spec.sandbox;
    let tone = if spec.level == Level::Full { Tone::Plain } else { Tone::Ask };
    Line::new(tone, format!("sandbox    {}", text::visible(&spec.said())))
}

/// What was spent, the time since the last record included: it is only counted when something happens.
fn so_far(subject: &Subject<'_>) -> Spend {
    let data = subject.data;
    let mut spend = data.spend.clone();
    if subject.driven_by.is_some() && !data.paused {
        spend.millis += subject.now.since(data.clock).0;
    }
    spend
}

fn reason(subject: &Subject<'_>) -> Vec<Line> {
    match subject.standing {
        Standing::Finished { outcome, reason } => finished(subject, *outcome, reason),
        Standing::AwaitingPerson { asks } => {
            let mut lines = vec![Line::new(Tone::Ask, "It waits for a person.")];
            lines.extend(look_first(subject));
            lines.extend(few_asks(asks));
            lines.extend(patience(subject));
            lines
        }
        Standing::Paused => {
            let mut lines = vec![Line::new(
                Tone::Ask,
                "It is paused: it makes no new move until it is resumed.",
            )];
            lines.extend(look_first(subject));
            lines.extend(under_way(subject));
            lines
        }
        Standing::Working => working(subject),
    }
}

/// The first of what people are asked, and how many more there are.
fn few_asks(asks: &[Ask]) -> Vec<Line> {
    let mut lines: Vec<Line> =
        asks.iter().take(ASKS).flat_map(approvals::lines).map(indent).collect();
    if let more @ 1.. = asks.len().saturating_sub(ASKS) {
        lines.push(Line::new(
            Tone::Ask,
            format!("  and {more} more: drivetrain approvals lists them"),
        ));
    }
    lines
}

/// How long a question is waited with; after that the task goes on without its answer.
fn patience(subject: &Subject<'_>) -> Option<Line> {
    let data = subject.data;
    let Phase::Waiting(Wait::Person { until: Some(at), .. }) = &data.phase else { return None };
    let left = at.since(data.own(subject.now)).0;
    let said = match (left, subject.driven_by) {
        (0, None) => "its time is over: an answer counts until it is resumed".to_owned(),
        _ => {
            format!("it waits {} more for the answer, then goes on without", spend::duration(left))
        }
    };
    Some(Line::plain(format!("  {said}")))
}

/// Why a person is to look at the files first.
fn look_first(subject: &Subject<'_>) -> Option<Line> {
    let reason = subject.data.look_first.as_ref()?;
    Some(Line::new(Tone::Ask, format!("  {}", text::visible(reason))))
}

fn finished(subject: &Subject<'_>, outcome: Outcome, reason: &str) -> Vec<Line> {
    let said = match outcome {
        Outcome::Verified => "It is verified: every acceptance criterion passed.",
        Outcome::Completed => {
            "It is completed, by its driver's word: it has no acceptance criteria."
        }
        Outcome::Failed => "It failed: its driver gave up or cannot go on.",
        Outcome::BudgetExhausted => {
            "It stopped at a limit of its budget. It can go on with a larger one."
        }
        Outcome::Cancelled => "It was cancelled.",
        Outcome::Stuck => "It is stuck: it went round in circles.",
        Outcome::Waiting => "It waits.",
    };
    let mut lines = vec![Line::new(outcome_tone(outcome), said)];
    let shown = if reason == outcome.word() { "" } else { reason };
    lines.extend(text::tail(shown, 12).into_iter().map(|line| Line::plain(format!("  {line}"))));
    lines.extend(
        subject.story.verdict.iter().flat_map(|result| criterion(result, EVIDENCE)).map(indent),
    );
    let well = matches!(outcome, Outcome::Verified | Outcome::Completed);
    let stopped = subject.story.cut_short.iter().take(RUNNING).filter(|_| !well);
    lines.extend(stopped.map(|call| {
        let why = text::short(&call.result.text, 200);
        Line::plain(format!("  cut short: {} {} ({why})", call.call, call.title))
    }));
    if !well && subject.story.verdict.is_empty() {
        // The last failure is often all there is to know, unless the reason is that failure.
        let known = |failure: &&story::Failure| reason.contains(failure.result.text.trim());
        for failure in subject.story.failures.iter().rev().take(1).filter(|failure| !known(failure))
        {
            lines.push(Line::new(
                Tone::Bad,
                format!("  last failure: {} {}", failure.call, failure.title),
            ));
            let shown = text::tail(&failure.result.text, EVIDENCE);
            lines.extend(
                shown.into_iter().map(|line| Line::new(Tone::Faint, format!("    | {line}"))),
            );
        }
    }
    let doubtful = subject.data.calls.iter().filter(|call| call.status == CallStatus::InDoubt);
    lines.extend(few_asks(&doubtful.filter_map(Call::ask).collect::<Vec<Ask>>()));
    lines
}

fn working(subject: &Subject<'_>) -> Vec<Line> {
    let mut lines = match (subject.driven_by, subject.interrupted) {
        (Some(pid), _) => {
            vec![Line::new(Tone::Good, format!("It is being worked on by process {pid}."))]
        }
        (None, true) => vec![Line::new(
            Tone::Bad,
            "It was interrupted: the process that drove it is gone. Nothing is lost; it goes on when resumed.",
        )],
        (None, false) => {
            vec![Line::new(
                Tone::Ask,
                "It is at rest: no process drives it. It goes on when resumed.",
            )]
        }
    };
    lines.extend(children(subject.data));
    lines.extend(under_way(subject));
    lines
}

/// The tasks that it waits for with all that it has left.
fn children(data: &Data) -> Option<Line> {
    let open = data.children.iter().filter(|(_, child)| child.ended.is_none());
    let named: Vec<&str> = open.map(|(id, _)| id.as_str()).collect();
    data.awaits_children.then(|| {
        Line::new(
            Tone::Ask,
            format!(
                "  All that is left of its budget is set aside for {}; it goes on when that has reported.",
                named.join(", ")
            ),
        )
    })
}

fn under_way(subject: &Subject<'_>) -> Vec<Line> {
    let data = subject.data;
    let mut lines: Vec<Line> =
        data.calls.iter().filter_map(|call| decider_asked(subject, call)).collect();
    let running = |call: &&Call| matches!(call.status, CallStatus::Running { .. });
    let stopped = subject.stopped.iter().map(|call| (call, true));
    let running = data.calls.iter().filter(running).map(|call| (call, false));
    let shown: Vec<(&Call, bool)> = stopped.chain(running).collect();
    let more = shown.len().saturating_sub(RUNNING);
    for (call, is_stopped) in shown.into_iter().take(RUNNING) {
        let title = story::title(
            &call.action.tool,
            &call.action.label,
            &call.action.input,
            subject.story.folder(),
        );
        let since = subject.story.running.get(&call.id).map(|running| running.since);
        let took =
            since.map(|since| format!(" for {}", spend::duration(subject.now.since(since).0)));
        lines.push(Line::plain(match (subject.driven_by, call.class) {
            _ if is_stopped => {
                format!("  {} was under way and ended with its agent: {title}", call.id)
            }
            (Some(_), _) => format!("  {} runs{}: {title}", call.id, took.unwrap_or_default()),
            (None, EffectClass::Unsafe) => {
                format!("  {} was under way and is in doubt: {title}", call.id)
            }
            (None, EffectClass::Pure | EffectClass::Keyed | EffectClass::Checkable) => {
                format!("  {} was under way and will be run again: {title}", call.id)
            }
        }));
    }
    if more > 0 {
        lines.push(Line::plain(format!("  and {more} more")));
    }
    let now = data.own(subject.now);
    let (is, are) = if subject.driven_by.is_some() { ("is", "are") } else { ("was", "were") };
    let phase = match &data.phase {
        Phase::OpeningWorkspace => Some(format!("its workspace {is} being opened")),
        Phase::OpeningTools => Some(format!("its servers {are} being asked for their tools")),
        Phase::Consulting { request: Consultation::Plugin(_) } => {
            Some(format!("the plugin {is} being asked for the next move"))
        }
        Phase::Consulting { request: Consultation::Model(call) }
            if data.retry_at.is_some_and(|at| at > now) =>
        {
            let left = data.retry_at.unwrap_or_default().since(now).0;
            let model = text::visible(&call.model);
            Some(format!("the model {model} is asked again in {}", spend::duration(left)))
        }
        Phase::Consulting { request: Consultation::Model(call) } => Some(format!(
            "the model {} {is} being asked for the next move",
            text::visible(&call.model)
        )),
        Phase::KeepingBase => {
            Some(format!("the workspace {is} being kept before anything changes it"))
        }
        Phase::Consulting { request: Consultation::Agent(call) }
            if data.retry_at.is_some_and(|at| at > now) =>
        {
            let left = data.retry_at.unwrap_or_default().since(now).0;
            let agent = text::visible(&call.program.name);
            Some(format!("the agent {agent} is asked again in {}", spend::duration(left)))
        }
        Phase::Consulting { request: Consultation::Agent(call) } => {
            Some(format!("the agent {} {is} at work", text::visible(&call.program.name)))
        }
        Phase::Consulting { request: Consultation::Task(order) } => {
            let (child, step) = (order.id(&data.id), text::visible(&order.step));
            let goal = text::short(&order.goal, 60);
            Some(format!("task {child} of step {step:?} {is} at work: {goal}"))
        }
        Phase::Checkpointing { .. } => {
            Some(format!("its work {is} being kept before the claim is checked"))
        }
        Phase::Judging(_) => Some(format!("a judge {is} being asked")),
        Phase::Verifying { .. } => Some(format!("the acceptance criteria {are} being checked")),
        Phase::RollingBack { .. } => Some("its workspace goes back to a checkpoint".to_owned()),
        Phase::Waiting(Wait::Until { at, reason }) => Some(format!(
            "it waits {} more: {}",
            spend::duration(at.since(now).0),
            text::visible(reason)
        )),
        Phase::New
        | Phase::Ready
        | Phase::Acting
        | Phase::Waiting(_)
        | Phase::Escalated { .. }
        | Phase::Finished { .. } => None,
    };
    lines.extend(phase.map(|text| Line::plain(format!("  {text}"))));
    lines
}

/// A call that a decider is asked about.
fn decider_asked(subject: &Subject<'_>, call: &Call) -> Option<Line> {
    let CallStatus::AwaitingDecider { turn, effect, .. } = &call.status else { return None };
    let deciders = &subject.data.spec.policy.deciders;
    let decider = usize::try_from(turn.decider).ok().and_then(|place| deciders.get(place))?;
    let verb = if effect.is_some() { "is asked" } else { "will be asked" };
    let title = story::title(
        &call.action.tool,
        &call.action.label,
        &call.action.input,
        subject.story.folder(),
    );
    let name = text::visible(&decider.name);
    Some(Line::plain(format!("  {} waits: the decider {name} {verb} about {title}", call.id)))
}

/// What people said about calls to come, as long as it stands.
fn standing_answers(data: &Data) -> Vec<Line> {
    let granted = data.grants.iter().map(|grant| {
        let like = match &grant.like {
            Some(like) => format!(", and what is like `{}`", text::visible(like)),
            None => String::new(),
        };
        let tool = text::visible(&grant.tool);
        format!("allowed    {tool} {} as approved at {}{like}", grant.hash, grant.call)
    });
    let denied = data.denials.iter().filter_map(|denial| {
        let left = denial.turns_left(&data.spend)?;
        let tool = text::visible(&denial.tool);
        let reason = match denial.reason.as_str() {
            "" => String::new(),
            reason => format!(": {}", text::visible(reason)),
        };
        let call = denial.call;
        Some(format!(
            "denied     {tool} {} as at {call}, for {left} more {}{reason}",
            denial.hash,
            if left == 1 { "turn" } else { "turns" }
        ))
    });
    granted.chain(denied).map(Line::plain).collect()
}

/// What to type next.
pub fn next(subject: &Subject<'_>) -> Vec<Next> {
    next_of(subject, usize::MAX)
}

/// The same for the first of what people are asked.
fn next_of(subject: &Subject<'_>, most: usize) -> Vec<Next> {
    let id = &subject.data.id;
    let driven = subject.driven_by.is_some();
    // Whoever waits for it takes it up, and would be left behind by one that is resumed by itself.
    let around = subject.data.begun_by();
    let taken_up = around.unwrap_or(id);
    let resume = Next::new(format!("drivetrain resume {taken_up}"), "go on from here");
    let cancel = Next::new(format!("drivetrain cancel {id}"), "end it");
    match subject.standing {
        Standing::Finished { outcome, .. } => after(subject, *outcome),
        Standing::AwaitingPerson { asks } => {
            let shown = asks.iter().take(most);
            let mut next: Vec<Next> =
                shown.flat_map(|ask| approvals::answers(id, subject.driver, ask)).collect();
            if asks.len() > most {
                next.push(Next::new("drivetrain approvals", "everything that people are asked"));
            }
            if !driven {
                next.push(Next::new(
                    format!("drivetrain resume {taken_up}"),
                    match around {
                        Some(_) => "then go on with the task around it: no process drives it",
                        None => "then go on: no process drives it",
                    },
                ));
            }
            next
        }
        // It is paused by itself, whoever waits for it.
        Standing::Paused => {
            vec![Next::new(format!("drivetrain resume {id}"), "go on from here"), cancel]
        }
        Standing::Working if driven => vec![
            Next::new(format!("drivetrain log {id} --follow"), "watch it"),
            Next::new(format!("drivetrain steer {id} TEXT"), "tell its driver something"),
            Next::new(format!("drivetrain pause {id}"), "hold it"),
            cancel,
        ],
        Standing::Working => vec![resume, cancel],
    }
}

fn after(subject: &Subject<'_>, outcome: Outcome) -> Vec<Next> {
    let data = subject.data;
    let id = &data.id;
    let log = Next::new(format!("drivetrain log {id}"), "everything that happened");
    let hand_over =
        Next::new(format!("drivetrain hand-over {id} --driver user"), "decide yourself from here");
    // It is over with the step that began it.
    if let Some(around) = data.begun_by() {
        let command = format!("drivetrain why {around}");
        return vec![log, Next::new(command, "how the task around it stands")];
    }
    match outcome {
        Outcome::Verified | Outcome::Completed => {
            let worktree = data
                .workspace
                .as_ref()
                .filter(|workspace| workspace.kind == WorkspaceKind::Worktree);
            let look =
                worktree.map(|_| Next::new(format!("drivetrain diff {id}"), "what it changed"));
            let is_theirs = subject.applied.is_some() || data.integrated.is_some();
            let proven = worktree.filter(|_| outcome == Outcome::Verified && !is_theirs);
            let hand = proven.map(|_| {
                Next::new(format!("drivetrain apply {id}"), "bring its change into your checkout")
            });
            look.into_iter()
                .chain(hand)
                .chain(subject.receipt.map(|_| {
                    let command = format!("drivetrain receipt {id}");
                    Next::new(command, "what was proven, and how")
                }))
                .chain([log])
                .collect()
        }
        Outcome::BudgetExhausted => {
            // A limit of time stops what runs, and nobody goes on before it is said what became of that.
            let in_doubt = data.calls.iter().filter(|call| call.status == CallStatus::InDoubt);
            let first = in_doubt.filter_map(Call::ask).take(1);
            let resolve = first.flat_map(|ask| approvals::answers(id, subject.driver, &ask));
            price(data)
                .into_iter()
                .chain([raise(data)])
                .chain(resolve)
                .chain([Next::new(format!("drivetrain resume {id}"), "then go on"), log])
                .collect()
        }
        Outcome::Failed | Outcome::Stuck => {
            let mut next = again(subject);
            next.extend([log, hand_over]);
            next
        }
        Outcome::Cancelled | Outcome::Waiting => vec![log],
    }
}

/// What names a model or a coding agent once more, to hand a task over to it; none for other drivers.
pub fn same(driver: &DriverSpec) -> Option<String> {
    let model = driver.config["model"].as_str().filter(|_| driver.name == "llm");
    let model = model.map(|model| format!("--model {model}"));
    model.or_else(|| driver.agent().map(|agent| format!("--agent {agent}")))
}

/// How the same goes on that failed for good, since a key, a credit or a network can be mended; nothing where that is not why a task
/// ended.
pub fn again(subject: &Subject<'_>) -> Vec<Next> {
    let Subject { data: Data { id, phase, .. }, same, .. } = subject;
    let Phase::Finished { cause: Some(Cause::ModelFailed { .. } | Cause::WorkerDied), .. } = phase
    else {
        return Vec::new();
    };
    let hand_over = |same: &String| {
        let command = format!("drivetrain hand-over {id} {same}");
        [
            Next::new(command, "the same once more, when what failed is mended"),
            Next::new(format!("drivetrain resume {id}"), "then go on"),
        ]
    };
    same.iter().flat_map(hand_over).collect()
}

/// Suggests twice the limit on every axis that is used up, or that the task ended over for another reason: the next wait does
/// not fit into the time, or nobody knows what an answer cost.
fn raise(data: &Data) -> Next {
    let Data { spend, budget, .. } = data;
    let axes = match &data.phase {
        Phase::Finished { cause: Some(Cause::Budget { axes }), .. } => axes.as_slice(),
        _ => &[],
    };
    let is_named = |axis: &str| axes.iter().any(|named| named == axis);
    let mut command = format!("drivetrain raise {}", data.id);
    // A server can tell of as many tokens as it likes.
    let double = |limit: u64, spent: u64| limit.max(spent).max(1).saturating_mul(2);
    let counts = [
        ("max-turns", budget.max_turns, spend.turns),
        ("max-tool-calls", budget.max_tool_calls, spend.tool_calls),
        ("max-tokens", budget.max_tokens, spend.tokens),
        ("max-consecutive-denies", budget.max_consecutive_denies, spend.consecutive_denies),
        ("max-consecutive-errors", budget.max_consecutive_errors, spend.consecutive_errors),
        ("max-context-overflows", budget.max_context_overflows, spend.context_overflows),
    ];
    for (option, limit, spent) in counts {
        if let Some(limit) = limit.filter(|limit| spent >= *limit) {
            command.push_str(&format!(" --{option} {}", double(limit, spent)));
        }
    }
    let is_late = |limit: &Span| spend.millis >= limit.0 || is_named("max_time");
    if let Some(limit) = budget.max_time.filter(is_late) {
        let needed = spend.millis.saturating_add(data.retry_wait.0);
        let seconds = double(limit.0, needed).div_ceil(1000);
        command.push_str(&format!(" --max-time {}", Span(seconds.saturating_mul(1000))));
    }
    let is_dear = |limit: &f64| spend.usd >= *limit || is_named("max_usd");
    if let Some(limit) = budget.max_usd.filter(is_dear) {
        command.push_str(&format!(" --max-usd {:.2}", limit.max(spend.usd).max(0.5) * 2.0));
    }
    Next::new(command, "allow more")
}

/// Where to say what answers cost, if the limit of money counts as reached because nobody knows it: raised, it would be again after
/// the next one.
fn price(data: &Data) -> Option<Next> {
    let is_unknown = data.spend.unpriced > data.spend.unpriced_allowed;
    (data.budget.max_usd.is_some() && is_unknown).then(|| {
        let told = "which models have a price; write that of the others into your own models.toml";
        Next::new("drivetrain models".to_owned(), told)
    })
}

fn indent(line: Line) -> Line {
    Line { tone: line.tone, text: format!("  {}", line.text) }
}

/// The end of a run: outcome, reason, spend, criteria, workspace and what to type next.
pub fn summary(subject: &Subject<'_>, outcome: Outcome, reason: &str) -> Vec<Line> {
    let data = subject.data;
    let mut lines = vec![Line::empty()];
    let reason = if reason == outcome.word() { "" } else { reason };
    let mut said = text::tail(reason, 12).into_iter();
    let first = said.next().map(|line| format!(": {line}")).unwrap_or_default();
    lines.push(Line::new(outcome_tone(outcome), format!("{}{first}", outcome_words(outcome))));
    lines.extend(said.map(|line| Line::plain(format!("  {line}"))));
    let checks = &subject.story.verdict;
    if !checks.is_empty() {
        let passed = checks.iter().filter(|result| result.passed).count();
        lines.push(Line::plain(format!("criteria   {passed} of {} passed", checks.len())));
        lines.extend(checks.iter().flat_map(|result| criterion(result, 0)).map(indent));
    }
    lines.push(Line::plain(format!("spent      {}", spend::line(&data.spend, &data.budget))));
    lines.extend(recovery::wasted(&data.spend));
    if let Some(workspace) = &data.workspace {
        lines.push(Line::plain(format!("workspace  {}", place(workspace))));
    }
    if data.spec.sandbox.level != Level::Full {
        lines.push(sandbox(subject));
    }
    lines.extend(receipt(subject));
    lines.push(Line::plain(format!("task       {}", data.id)));
    let next = next(subject);
    if !next.is_empty() {
        lines.push(Line::new(Tone::Strong, "next"));
        lines.extend(next_lines(&next));
    }
    lines
}
