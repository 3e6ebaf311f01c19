//! Arguments of `race`.

use clap::{Args, ValueEnum};
use machine::contest::Pick;

use super::{
    CheckArgs, Limits, PlaceArgs, RunArgs, ScreenArgs, TrafficArgs, WallArgs, WorkArgs, money,
};

/// Arguments of `race`.
#[derive(Debug, Args)]
pub(crate) struct RaceArgs {
    /// A task file (.toml, .yaml, .yml), or the goal in words
    #[arg(value_name = "TASK", required_unless_present = "resume", conflicts_with = "resume")]
    pub(crate) task: Option<String>,

    /// Who takes part: PROVIDER/NAME (a model), agent:NAME, workflow:NAME|PATH, external:NAME, script/FILE
    #[arg(
        long,
        value_name = "A,B,…",
        value_delimiter = ',',
        required_unless_present = "resume",
        conflicts_with = "resume"
    )]
    pub(crate) drivers: Vec<String>,

    /// Let agents that take part work though their versions are older than what was tried
    #[arg(long, conflicts_with = "resume")]
    pub(crate) any_version: bool,

    /// Which of the verified ones wins
    #[arg(long, value_name = "WHICH", value_enum, default_value_t = RacePick::First)]
    pub(crate) pick: RacePick,

    /// Go on with the race that this task takes part in
    #[arg(
        long,
        value_name = "ID",
        conflicts_with_all = ["CheckArgs", "total_usd", "Limits", "PlaceArgs", "WallArgs"]
    )]
    pub(crate) resume: Option<String>,

    #[command(flatten)]
    pub(crate) check: CheckArgs,

    /// Money for all racers together, in US dollars, shared out evenly
    #[arg(
        long,
        value_name = "USD",
        value_parser = money,
        conflicts_with = "max_usd",
        help_heading = "Budget"
    )]
    pub(crate) total_usd: Option<f64>,

    #[command(flatten)]
    pub(crate) limits: Limits,

    #[command(flatten)]
    pub(crate) place: PlaceArgs,

    #[command(flatten)]
    pub(crate) walls: WallArgs,

    #[command(flatten)]
    pub(crate) traffic: TrafficArgs,

    #[command(flatten)]
    pub(crate) screen: ScreenArgs,
}

/// Which of the verified ones wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum RacePick {
    /// The first one; the others are cancelled
    First,
    /// The one that changed the fewest lines, once all have ended
    Smallest,
}

impl RacePick {
    /// The rule that is meant.
    pub(crate) fn rule(self) -> Pick {
        match self {
            RacePick::First => Pick::First,
            RacePick::Smallest => Pick::Smallest,
        }
    }
}

/// How a racer is named.
#[derive(Debug, Default)]
pub(crate) struct Named {
    /// A driver.
    pub(crate) driver: Option<String>,
    /// A workflow.
    pub(crate) workflow: Option<String>,
    /// A model.
    pub(crate) model: Option<String>,
    /// A coding agent.
    pub(crate) agent: Option<String>,
}

impl RaceArgs {
    /// What `run` would be given for one racer.
    pub(crate) fn for_one(&self, task: &str, named: Named) -> RunArgs {
        let mut limits = self.limits.clone();
        if let Some(total) = self.total_usd {
            // As many as take part; a race of 2^53 drivers does not happen.
            #[allow(clippy::cast_precision_loss)]
            let racers = self.drivers.len() as f64;
            limits.max_usd = Some(total / racers);
        }
        let any_version = self.any_version && named.agent.is_some();
        RunArgs {
            task: task.to_owned(),
            driver: named.driver,
            workflow: named.workflow,
            model: named.model,
            agent: named.agent,
            gateway: false,
            no_gateway: false,
            any_version,
            with: WorkArgs {
                check: self.check.clone(),
                limits,
                place: PlaceArgs { worktree: true, ..self.place.clone() },
                walls: self.walls.clone(),
                traffic: self.traffic.clone(),
                screen: self.screen.clone(),
            },
        }
    }
}
