//! Sees to it that a race ends by its rule: cancels those that lost, each once, whoever drives them and whenever this
//! is looked at. What counts is what the journal says.

use std::collections::BTreeSet;
use std::sync::Arc;

use journal::Journal;
use machine::Command;
use machine::contest::{self, Contest, Proof, Racer, Standing};
use machine::driver::Registry;
use machine::event::{Event, EventKind};
use machine::id::TaskId;
use machine::state;
use machine::task::{DriverSpec, Outcome};
use runtime::home::Home;
use runtime::inbox::Inbox;
use runtime::station::Station;
use runtime::supervisor::Notice;

use crate::error::CommandError;
use crate::foreground::{self, Watching};
use crate::locate::{Records, Task};

/// How a race stands.
pub(crate) struct Seen {
    pub(crate) racers: Vec<Racer>,
    pub(crate) standing: Standing,
}

/// The racers as the journal has them; one whose first record was never written has not begun and is left out.
pub(crate) fn look(contest: &Contest) -> Result<Vec<Racer>, CommandError> {
    let records = Records::open()?;
    let known = contest.racers.iter().filter_map(|id| {
        let row = records.journal.task(id.as_str()).ok()?;
        Some(records.glance(&row).map(|task| racer(&task)))
    });
    known.collect()
}

fn racer(task: &Task) -> Racer {
    let ended = match task.state.standing() {
        state::Standing::Finished { outcome, .. } => Some(outcome),
        _ => None,
    };
    Racer { task: task.state.id().clone(), ended, proof: task.state.data().proof }
}

/// Looks at a race and cancels those that lost it. What has ended meanwhile refuses that, and stays as it ended.
pub(crate) fn settle(contest: &Contest) -> Result<Seen, CommandError> {
    let racers = look(contest)?;
    let standing = contest::judge(contest.pick, &racers);
    let Standing::Won { winner, losers, .. } = &standing else {
        return Ok(Seen { racers, standing });
    };
    if losers.is_empty() {
        return Ok(Seen { racers, standing });
    }
    for loser in losers {
        let cancel = Command::Cancel { reason: contest::lost_to(winner) };
        let refused = Records::open()?.give(loser, cancel).err();
        // Only one that ended by itself in this very moment refuses; anything else is still open when it is looked at.
        if let Some(error) = refused
            && look(contest)?.iter().any(|racer| racer.task == *loser && racer.ended.is_none())
        {
            return Err(error);
        }
    }
    let racers = look(contest)?;
    let standing = contest::judge(contest.pick, &racers);
    Ok(Seen { racers, standing })
}

/// Who drives a racer, as one would name it.
pub(crate) fn driver_words(driver: &DriverSpec) -> String {
    let of = |key: &str| driver.config[key].as_str().map(str::to_owned);
    match driver.name.as_str() {
        "llm" => format!("llm:{}", of("model").unwrap_or_default()),
        "workflow" => match of("workflow").or_else(|| of("name")) {
            Some(name) => format!("workflow:{name}"),
            None => "workflow".to_owned(),
        },
        "agent" => {
            format!("agent:{}", driver.config["program"]["name"].as_str().unwrap_or_default())
        }
        name => name.to_owned(),
    }
}

/// The races that tasks which are taken up again are part of.
#[derive(Default)]
pub(crate) struct Races {
    races: Vec<(Contest, Seen)>,
}

impl Races {
    /// Looks at the races of these tasks, and cancels who lost while nobody was there.
    pub(crate) fn of<'a>(tasks: impl IntoIterator<Item = &'a Task>) -> Result<Races, CommandError> {
        let mut races = Races::default();
        for task in tasks {
            let Some(contest) = &task.state.data().spec.contest else { continue };
            if !races.races.iter().any(|(known, _)| known.name() == contest.name()) {
                races.races.push((contest.clone(), settle(contest)?));
            }
        }
        Ok(races)
    }

    /// Who won the race that this task has lost.
    pub(crate) fn lost_by(&self, task: &TaskId) -> Option<&TaskId> {
        self.races.iter().find_map(|(contest, seen)| match &seen.standing {
            Standing::Won { winner, .. } if contest.racers.contains(task) && winner != task => {
                Some(winner)
            }
            Standing::Won { .. } | Standing::Open | Standing::Nobody => None,
        })
    }

    /// Drives tasks in the foreground, and holds the races to their rule while they run and after.
    pub(crate) fn drive(
        self,
        home: &Home,
        registry: Arc<Registry>,
        watching: Watching,
        begin: impl FnOnce(&mut Station) -> Result<Vec<TaskId>, CommandError>,
    ) -> Result<u8, CommandError> {
        let (contests, seen): (Vec<Contest>, Vec<Seen>) = self.races.into_iter().unzip();
        let known = contests.iter().cloned().zip(seen.into_iter().map(|seen| seen.racers));
        let known: Vec<(Contest, Vec<Racer>)> = known.collect();
        let code = foreground::drive(home, registry, watching, move |station| {
            let tasks = begin(station)?;
            if !known.is_empty() {
                let mut referee = Referee::new(known, station.inbox.clone());
                station.supervisor.observe(Box::new(move |notice| {
                    if let Notice::Event(event) = notice {
                        referee.hear(event);
                    }
                }));
            }
            Ok(tasks)
        })?;
        for contest in &contests {
            settle(contest)?;
        }
        Ok(code)
    }
}

/// Watches races while their tasks are driven, and cancels who has lost.
pub(crate) struct Referee {
    races: Vec<(Contest, Vec<Racer>)>,
    told: BTreeSet<TaskId>,
    inbox: Inbox,
}

impl Referee {
    /// Watches these races, whose racers stand so.
    pub(crate) fn new(races: Vec<(Contest, Vec<Racer>)>, inbox: Inbox) -> Referee {
        let whole = |(contest, known): (Contest, Vec<Racer>)| {
            let racers = contest.racers.iter().map(|id| {
                let known = known.iter().find(|racer| racer.task == *id).cloned();
                known.unwrap_or(Racer { task: id.clone(), ended: None, proof: None })
            });
            let racers = racers.collect();
            (contest, racers)
        };
        Referee { races: races.into_iter().map(whole).collect(), told: BTreeSet::new(), inbox }
    }

    /// Takes note of an end.
    pub(crate) fn hear(&mut self, event: &Event) {
        let EventKind::TaskFinished { outcome, .. } = &event.kind else { return };
        if *outcome == Outcome::Waiting {
            return;
        }
        for (contest, racers) in &mut self.races {
            let Some(racer) = racers.iter_mut().find(|racer| racer.task == event.task) else {
                continue;
            };
            racer.ended = Some(*outcome);
            if *outcome == Outcome::Verified {
                // How much it changed decides only where all have ended, and nobody is cancelled then.
                racer.proof.get_or_insert(Proof { at: event.time, diff_lines: 0 });
            }
            let Standing::Won { winner, losers, .. } = contest::judge(contest.pick, racers) else {
                continue;
            };
            for loser in losers.into_iter().filter(|loser| self.told.insert(loser.clone())) {
                let cancel = Command::Cancel { reason: contest::lost_to(&winner) };
                // Whoever is not driven here, or cannot be told now, is seen to when the run is over.
                let _ = self.inbox.command(loser, cancel.into(), None);
            }
        }
    }
}
