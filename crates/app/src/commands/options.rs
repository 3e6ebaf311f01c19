//! What the command line says beside the task itself.

use runtime::home::Home;

use crate::args::{CheckArgs, Limits, PlaceArgs, WallArgs, WorkArgs};
use crate::output;

/// What the command line says beside the task itself.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Options<'a> {
    /// What must hold, beside what a file says.
    pub(crate) check: &'a CheckArgs,
    /// Limits, in place of a file's.
    pub(crate) limits: &'a Limits,
    /// Where to work, in place of what a file says.
    pub(crate) place: &'a PlaceArgs,
    /// How strong the walls are, in place of what a file says.
    pub(crate) walls: &'a WallArgs,
    /// Where it is recorded what the user trusts.
    pub(crate) home: &'a Home,
    /// Whether notices are JSON.
    pub(crate) json: bool,
    /// Whether somebody at the terminal can be asked.
    pub(crate) attended: bool,
    /// Whether models are answered from a recording.
    pub(crate) replays: bool,
}

impl<'a> Options<'a> {
    /// What is said by the arguments that all commands which begin a task share.
    pub(crate) fn of(with: &'a WorkArgs, home: &'a Home, json: bool) -> Options<'a> {
        let attended = output::is_terminal() && !json && !with.screen.unattended;
        Options {
            check: &with.check,
            limits: &with.limits,
            place: &with.place,
            walls: &with.walls,
            home,
            json,
            attended,
            replays: with.traffic.replay.is_some(),
        }
    }
}
