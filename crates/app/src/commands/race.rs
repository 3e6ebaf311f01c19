//! `drivetrain race`: several tasks with one goal, driven in one process, of which one wins.
//!
//! The racers are ordinary tasks that know each other. Who wins is `machine::contest`'s word, over what the journal
//! says of them; this file starts them, shows them and tells how it ended.

pub(crate) mod referee;

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use machine::contest::{self, Contest, Racer, Standing};
use machine::driver::Registry;
use machine::id::TaskId;
use machine::task::{Outcome, TaskSpec};
use runtime::home::Home;
use runtime::model::Traffic;
use runtime::station::{Station, new_task_id};
use runtime::supervisor::Notice;
use serde_json::json;
use view::contest::Scoreboard;
use view::{Line, Tone};

use super::prepare;
use super::run::task_of;
use super::settle::{self, Change};
use crate::args::{Named, RaceArgs};
use crate::error::{CommandError, Kind};
use crate::foreground::{self, Part, StreamLine};
use crate::locate::{self, Records};
use crate::screen::Screen;
use crate::{output, take_up, traffic};
use referee::Referee;

/// Most racers of one race: each has a worktree, a driver and a worker of its own.
const MOST: usize = 32;

/// Runs the command.
pub(crate) fn run(args: &RaceArgs, json: bool) -> Result<u8, CommandError> {
    if args.screen.stream && !json {
        return Err(CommandError::usage("--stream needs --json"));
    }
    match (&args.resume, &args.task) {
        (Some(prefix), _) => resume(prefix, args, json),
        (None, Some(task)) => begin(task, args, json),
        // The arguments ask for one of both.
        (None, None) => Err(CommandError::usage("a race needs a task, or --resume ID")),
    }
}

fn begin(task: &str, args: &RaceArgs, json: bool) -> Result<u8, CommandError> {
    if !(2..=MOST).contains(&args.drivers.len()) {
        return Err(CommandError::usage(format!(
            "a race needs 2 to {MOST} drivers, and {} {} named",
            args.drivers.len(),
            if args.drivers.len() == 1 { "is" } else { "are" }
        ))
        .hint("--drivers A,B: the same one twice is fine"));
    }
    if args.place.in_place || args.place.no_workspace {
        return Err(CommandError::usage("each racer works in a git worktree of its own")
            .hint("leave out --in-place and --no-workspace"));
    }
    let named: Vec<Named> =
        args.drivers.iter().map(|name| named(name)).collect::<Result<_, _>>()?;
    if args.any_version && named.iter().all(|racer| racer.agent.is_none()) {
        return Err(CommandError::usage("--any-version is for coding agents, and none takes part")
            .hint("--drivers agent:NAME,… lets one take part"));
    }
    let home = locate::home()?;
    let registry = Arc::new(Registry::builtin());
    let ids: Vec<TaskId> = args.drivers.iter().map(|_| new_task_id()).collect();
    let contest = Contest { racers: ids.clone(), pick: args.pick.rule() };
    let mut specs = Vec::with_capacity(ids.len());
    for driver in named {
        let one = args.for_one(task, driver);
        let spec = task_of(&one, &home, &registry, json)?;
        specs.push(TaskSpec { contest: Some(contest.clone()), ..spec });
    }
    check(&specs, &args.drivers)?;
    let traffic = traffic::open(&args.traffic)?;
    let field = Field { contest, drivers: args.drivers.clone(), goal: specs[0].goal.clone() };
    drive(&home, registry, field, args, json, traffic, move |station| {
        for (id, spec) in ids.iter().zip(specs) {
            station.supervisor.begin(id.clone(), spec, false)?;
        }
        Ok(())
    })
}

/// How a racer is named on the command line.
fn named(driver: &str) -> Result<Named, CommandError> {
    let driver = driver.trim();
    let some = |text: &str| Some(text.to_owned());
    match driver.split_once(':') {
        _ if driver.is_empty() => Err(CommandError::usage("--drivers holds an empty name")
            .hint("names are separated by single commas")),
        Some(("agent", agent)) => Ok(Named { agent: some(agent), ..Named::default() }),
        Some(("llm", model)) => Ok(Named { model: some(model), ..Named::default() }),
        Some(("workflow", name)) => Ok(Named { workflow: some(name), ..Named::default() }),
        None if driver.contains('/') => Ok(Named { model: some(driver), ..Named::default() }),
        _ => Ok(Named { driver: some(driver), ..Named::default() }),
    }
}

fn check(specs: &[TaskSpec], drivers: &[String]) -> Result<(), CommandError> {
    if specs.iter().any(|spec| spec.acceptance.is_empty()) {
        return Err(CommandError::usage("a race needs criteria: without them nobody can win it")
            .hint("--check COMMAND, or [[acceptance]] in the task file"));
    }
    for (spec, driver) in specs.iter().zip(drivers) {
        if Part::in_driver(&spec.driver) != Part::Watches {
            let message = format!("{driver:?} cannot race: it waits for a person's every move");
            return Err(CommandError::usage(message));
        }
    }
    Ok(())
}

/// Who races for what.
struct Field {
    contest: Contest,
    drivers: Vec<String>,
    goal: String,
}

fn resume(prefix: &str, args: &RaceArgs, json: bool) -> Result<u8, CommandError> {
    let records = Records::open()?;
    let id = records.find(prefix)?;
    let task = records.glance(&journal::Journal::task(&records.journal, id.as_str())?)?;
    let Some(contest) = task.state.data().spec.contest.clone() else {
        return Err(CommandError::usage(format!("task {id} takes part in no race"))
            .hint(format!("drivetrain resume {id} goes on with it")));
    };
    let goal = task.state.data().spec.goal.clone();
    // Those that lost while nobody was there are told so first.
    let seen = referee::settle(&contest)?;
    let records = Records::open()?;
    let mut ready = Vec::new();
    let mut drivers = Vec::new();
    for racer in &seen.racers {
        let row = journal::Journal::task(&records.journal, racer.task.as_str())?;
        let task = records.glance(&row)?;
        drivers.push(referee::driver_words(&task.driver()));
        if let Some(pid) = task.driven_by {
            let message = format!("the race is run by process {pid} already");
            return Err(CommandError::new(Kind::Refused, message)
                .hint(format!("drivetrain log {} --follow watches one of it", racer.task)));
        }
        if racer.ended.is_none() && matches!(seen.standing, Standing::Open) {
            settle::go_on(task.state.data(), Change::Refused, json)?;
            settle::models(&records.home, &task, Change::Refused)?;
            prepare::require_sandbox(&task.state.data().spec.sandbox)?;
            ready.push(racer.task.clone());
        }
    }
    let field = Field { contest, drivers, goal };
    if ready.is_empty() {
        return conclude(&field, &seen, json);
    }
    let traffic = traffic::open(&args.traffic)?;
    let Records { home, registry, journal } = records;
    drop(journal);
    drive(&home, registry, field, args, json, traffic, move |station| {
        for id in &ready {
            take_up::resume(station, id, false)?;
        }
        Ok(())
    })
}

/// Drives the racers until all have been let go, and tells how it ended.
fn drive(
    home: &Home,
    registry: Arc<Registry>,
    field: Field,
    args: &RaceArgs,
    json: bool,
    traffic: Traffic,
    begin: impl FnOnce(&mut Station) -> Result<(), CommandError>,
) -> Result<u8, CommandError> {
    let mut station = Station::open(home, registry)?;
    station.supervisor.performer().carry(traffic);
    let screen = if json { Screen::Aside } else { Screen::start() };
    begin(&mut station)?;
    let quiet = args.screen.quiet;
    if !json && !quiet {
        let name = field.contest.name().map(|name| name.0.clone()).unwrap_or_default();
        let goal = view::text::visible(&field.goal);
        screen.lines(vec![
            Line::new(Tone::Strong, format!("race {name}: {goal}")),
            Line::plain(format!(
                "  {} drivers, {}",
                field.contest.racers.len(),
                view::contest::rule(field.contest.pick)
            )),
        ]);
    }
    let known = referee::look(&field.contest).unwrap_or_default();
    let mut board = Scoreboard::new(
        field.contest.racers.iter().cloned().zip(field.drivers.iter().cloned()).collect(),
    );
    for racer in &known {
        let held = station.supervisor.host(&racer.task).is_some();
        if !held {
            board.set(&racer.task, racer.ended);
        }
    }
    let lost = Arc::new(Mutex::new(Vec::new()));
    let mut referee = Referee::new(vec![(field.contest.clone(), known)], station.inbox.clone());
    let mut watcher =
        Watcher { json, quiet, screen: screen.clone(), board, lost: Arc::clone(&lost) };
    let watch = Box::new(move |notice: &Notice<'_>| {
        watcher.hear(notice);
        if let Notice::Event(event) = notice {
            referee.hear(event);
        }
    });
    match args.screen.stream {
        true => station.supervisor.follow(watch),
        false => station.supervisor.observe(watch),
    }
    let stopping = Arc::new(AtomicBool::new(false));
    let heard = (!json).then(|| screen.clone());
    foreground::listen(station.inbox.clone(), stopping, heard, None)?;
    let ran = station.supervisor.run();
    screen.flush();
    ran?;
    drop(station);
    let lost = std::mem::take(&mut *lost.lock().unwrap_or_else(PoisonError::into_inner));
    if let Some((task, reason)) = lost.first() {
        return Err(CommandError::environment(format!("task {task} was lost: {reason}"))
            .hint("another process drives it: drivetrain list shows how all of them stand"));
    }
    let seen = referee::settle(&field.contest)?;
    conclude(&field, &seen, json)
}

/// Hears what happens, on the supervisor's thread.
struct Watcher {
    json: bool,
    quiet: bool,
    screen: Screen,
    board: Scoreboard,
    lost: Arc<Mutex<Vec<(TaskId, String)>>>,
}

impl Watcher {
    fn hear(&mut self, notice: &Notice<'_>) {
        match notice {
            Notice::Event(event) => {
                if self.json {
                    return output::json(event);
                }
                let lines = self.board.hear(event);
                if self.quiet {
                    return;
                }
                if !self.screen.is_live() {
                    return self.screen.lines(lines);
                }
                let is_end = matches!(event.kind, machine::EventKind::TaskFinished { .. });
                if is_end {
                    self.screen.lines(lines);
                }
                self.screen.board(self.rows());
            }
            Notice::Streamed(task, events) => {
                for stream in *events {
                    output::json(&StreamLine { v: 1, task, stream });
                }
            }
            Notice::Stalled(reason) => self.tell(
                Tone::Bad,
                format!("the journal cannot be written, everything waits: {reason}"),
            ),
            Notice::Unstalled => {
                self.tell(Tone::Good, "the journal can be written again".to_owned());
            }
            Notice::Room(room) => {
                let (tone, text) = foreground::room_words(room);
                self.tell(tone, text);
            }
            Notice::Lost(task, reason) => {
                self.tell(Tone::Bad, format!("task {task} was lost: {reason}"));
                let mut lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner);
                lost.push(((*task).clone(), (*reason).to_owned()));
            }
        }
    }

    fn tell(&self, tone: Tone, text: String) {
        if self.json {
            output::error(&json!({ "v": 1, "notice": text }).to_string());
        } else {
            self.screen.lines(vec![Line::new(tone, view::text::visible(&text))]);
        }
    }

    /// The board, with the moments of this process's own clock.
    fn rows(&self) -> Vec<(Line, Option<Instant>)> {
        let now = locate::now();
        let rows = self.board.rows().into_iter().map(|row| {
            let since = row.since.and_then(|since| {
                Instant::now().checked_sub(Duration::from_millis(now.since(since).0))
            });
            (row.line, since)
        });
        rows.collect()
    }
}

fn conclude(field: &Field, seen: &referee::Seen, json: bool) -> Result<u8, CommandError> {
    let code = contest::exit_code(&seen.standing, &seen.racers);
    if json {
        let (winner, reason) = match &seen.standing {
            Standing::Won { winner, why, .. } => (Some(winner), why.clone()),
            Standing::Open => (None, "nobody has won yet".to_owned()),
            Standing::Nobody => (None, "no racer was verified".to_owned()),
        };
        let racer = |(racer, driver): (&Racer, &String)| {
            json!({
                "task": racer.task,
                "driver": driver,
                "outcome": racer.ended.unwrap_or(Outcome::Waiting).word(),
                "diff_lines": racer.proof.map(|proof| proof.diff_lines),
                "verified_at": racer.proof.map(|proof| proof.at),
                "won": winner == Some(&racer.task),
            })
        };
        output::json(&json!({
            "v": 1,
            "type": "race_finished",
            "race": field.contest.name(),
            "pick": field.contest.pick.word(),
            "winner": winner,
            "reason": reason,
            "exit_code": code,
            "racers": seen.racers.iter().zip(&field.drivers).map(racer).collect::<Vec<_>>(),
        }));
    } else {
        output::lines(&view::contest::summary(
            &field.contest,
            &seen.racers,
            &field.drivers,
            &seen.standing,
        ));
    }
    Ok(code)
}
