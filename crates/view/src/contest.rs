//! A race as a person sees it: a line for each racer while it runs, and how it ended.

use machine::contest::{Contest, Pick, Racer, Standing};
use machine::event::{Event, EventKind};
use machine::id::TaskId;
use machine::task::Outcome;
use machine::time::Timestamp;

use crate::approvals::{Next, next_lines};
use crate::transcript::{outcome_tone, outcome_words};
use crate::{Line, Tone, story, text};

/// What every racer is just doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scoreboard {
    lanes: Vec<Lane>,
}

/// One racer.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Lane {
    task: TaskId,
    driver: String,
    turns: u64,
    doing: String,
    tone: Tone,
    since: Timestamp,
    ended: bool,
}

/// One line of the board.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// What is shown.
    pub line: Line,
    /// Since when it does that; none once it has ended.
    pub since: Option<Timestamp>,
}

impl Scoreboard {
    /// A board of tasks and of who drives each, in the order they were named.
    pub fn new(racers: Vec<(TaskId, String)>) -> Scoreboard {
        let lane = |(task, driver): (TaskId, String)| Lane {
            task,
            driver: text::visible(&driver),
            turns: 0,
            doing: "waiting".to_owned(),
            tone: Tone::Plain,
            since: Timestamp(0),
            ended: false,
        };
        Scoreboard { lanes: racers.into_iter().map(lane).collect() }
    }

    /// Says how a racer that is not driven here stands.
    pub fn set(&mut self, task: &TaskId, ended: Option<Outcome>) {
        if let Some(lane) = self.lanes.iter_mut().find(|lane| lane.task == *task) {
            let outcome = ended.unwrap_or(Outcome::Waiting);
            (lane.doing, lane.tone) = (outcome_words(outcome).to_owned(), outcome_tone(outcome));
            lane.ended = true;
        }
    }

    /// Takes note of an event; what is worth a line of its own.
    pub fn hear(&mut self, event: &Event) -> Vec<Line> {
        let width = self.width();
        let Some(number) = self.lanes.iter().position(|lane| lane.task == event.task) else {
            return Vec::new();
        };
        let lane = &mut self.lanes[number];
        let Some((tone, doing, told)) = news(&event.kind) else { return Vec::new() };
        if let EventKind::TurnStarted { turn, .. } = &event.kind {
            lane.turns = *turn;
        }
        lane.ended = matches!(event.kind, EventKind::TaskFinished { .. });
        if !doing.is_empty() {
            (lane.doing, lane.tone, lane.since) = (doing.clone(), tone, event.time);
        }
        if !told {
            return Vec::new();
        }
        let driver = &lane.driver;
        vec![Line::new(tone, format!("{} {driver:width$}  {doing}", number + 1))]
    }

    /// The board, a line for each racer.
    pub fn rows(&self) -> Vec<Row> {
        let width = self.width();
        let row = |(number, lane): (usize, &Lane)| {
            let turns = format!("{} {}", lane.turns, text::plural(count(lane.turns), "turn"));
            let (driver, doing) = (&lane.driver, &lane.doing);
            let text = format!("{} {driver:width$}  {turns:8}  {doing}", number + 1);
            let since = (!lane.ended && lane.since != Timestamp(0)).then_some(lane.since);
            Row { line: Line::new(lane.tone, text), since }
        };
        self.lanes.iter().enumerate().map(row).collect()
    }

    fn width(&self) -> usize {
        self.lanes.iter().map(|lane| lane.driver.chars().count()).max().unwrap_or(0)
    }
}

/// What a racer does after an event, and whether that is worth a line of its own.
fn news(kind: &EventKind) -> Option<(Tone, String, bool)> {
    let quiet = |text: &str| Some((Tone::Plain, text.to_owned(), false));
    match kind {
        EventKind::TaskStarted { .. } => quiet("starting"),
        EventKind::TurnStarted { .. } => quiet(""),
        EventKind::ModelCalled { .. } => quiet("the model thinks"),
        EventKind::ToolStarted { tool, label, input, .. } => {
            Some((Tone::Plain, story::title(tool, label, input, ""), true))
        }
        EventKind::Claimed { .. } => Some((Tone::Plain, "checking the criteria".to_owned(), true)),
        EventKind::CriterionChecked { result } if result.fails() => {
            Some((Tone::Bad, format!("failed: {}", text::visible(&result.title)), true))
        }
        EventKind::VerdictFailed { .. } => {
            Some((Tone::Bad, "not accepted, goes on".to_owned(), true))
        }
        EventKind::ModelFailed { message, again_in, .. } => {
            let then = again_in.map_or("", |_| ", is asked again");
            Some((Tone::Bad, format!("the model failed: {}{then}", text::visible(message)), true))
        }
        EventKind::ApprovalRequested { tool, .. } => {
            Some((Tone::Ask, format!("asks whether {} may run", text::visible(tool)), true))
        }
        EventKind::QuestionAsked { question, .. } => {
            Some((Tone::Ask, format!("asks: {}", text::visible(question)), true))
        }
        EventKind::TimerAwaited { reason, .. } => {
            Some((Tone::Plain, format!("waits: {}", text::visible(reason)), true))
        }
        EventKind::TaskFinished { outcome, reason, .. } => {
            let reason = if reason == outcome.word() { "" } else { reason.as_str() };
            let reason = match text::lines(reason).first() {
                Some(first) if !first.is_empty() => format!(": {first}"),
                _ => String::new(),
            };
            let words = outcome_words(*outcome);
            Some((outcome_tone(*outcome), format!("{words}{reason}"), true))
        }
        _ => None,
    }
}

/// How a race ended: every racer, who won and why, and what to type next.
pub fn summary(
    contest: &Contest,
    racers: &[Racer],
    drivers: &[String],
    standing: &Standing,
) -> Vec<Line> {
    let winner = match standing {
        Standing::Won { winner, .. } => Some(winner),
        Standing::Open | Standing::Nobody => None,
    };
    let mut lines = vec![Line::empty()];
    let width = drivers.iter().map(|driver| text::visible(driver).chars().count()).max();
    for (number, (racer, driver)) in racers.iter().zip(drivers).enumerate() {
        let driver = format!("{:1$}", text::visible(driver), width.unwrap_or(0));
        let (tone, words) = stands(racer, winner);
        lines.push(Line::new(tone, format!("{} {}  {driver}  {words}", number + 1, racer.task)));
    }
    lines.push(Line::empty());
    let name = contest.name().cloned().unwrap_or(TaskId(String::new()));
    match standing {
        Standing::Won { winner, why, .. } => {
            let driver = racers.iter().position(|racer| racer.task == *winner);
            let driver = driver.and_then(|place| drivers.get(place)).map(|d| text::visible(d));
            lines.push(Line::new(
                Tone::Good,
                format!("{winner} wins ({}): {why}", driver.unwrap_or_default()),
            ));
            lines.push(Line::new(Tone::Strong, "next"));
            let next = [
                Next::new(
                    format!("drivetrain apply {winner}"),
                    "bring its change into your checkout",
                ),
                Next::new(
                    format!("drivetrain queue add {winner}"),
                    "or verify it together with your branch first",
                ),
            ];
            lines.extend(next_lines(&next));
        }
        Standing::Open => {
            lines.push(Line::new(Tone::Ask, "nobody has won yet"));
            lines.push(Line::new(Tone::Strong, "next"));
            let next = [
                Next::new(format!("drivetrain race --resume {name}"), "go on from here"),
                Next::new("drivetrain approvals".to_owned(), "what people are asked"),
            ];
            lines.extend(next_lines(&next));
        }
        Standing::Nobody => {
            lines.push(Line::new(Tone::Bad, "nobody wins: no racer was verified"));
            lines.push(Line::new(Tone::Strong, "next"));
            let next = [Next::new(format!("drivetrain why {name}"), "how one of them ended")];
            lines.extend(next_lines(&next));
        }
    }
    lines
}

/// How one racer stands, when another one may have won.
pub fn stands(racer: &Racer, winner: Option<&TaskId>) -> (Tone, String) {
    let lines = |lines: u64| format!("{lines} {} changed", text::plural(count(lines), "line"));
    match (racer.ended, racer.proof) {
        (_, Some(proof)) if winner == Some(&racer.task) => {
            (Tone::Good, format!("won: verified, {}", lines(proof.diff_lines)))
        }
        (_, Some(proof)) if winner.is_some() => {
            (Tone::Plain, format!("verified but not chosen, {}", lines(proof.diff_lines)))
        }
        (Some(outcome), _) => (outcome_tone(outcome), outcome_words(outcome).to_owned()),
        (None, _) => (Tone::Ask, "waits to go on".to_owned()),
    }
}

/// The rule in words.
pub fn rule(pick: Pick) -> &'static str {
    match pick {
        Pick::First => "the first verified one wins",
        Pick::Smallest => "the smallest verified change wins",
    }
}

fn count(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
