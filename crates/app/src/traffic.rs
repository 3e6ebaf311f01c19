//! `--record` and `--replay`: opened before anything starts, so that a folder that cannot be used starts nothing.

use std::sync::Arc;

use runtime::model::{Recorder, Recording, Traffic};

use crate::args::TrafficArgs;
use crate::error::{CommandError, Kind};

/// What the arguments ask for.
pub(crate) fn open(args: &TrafficArgs) -> Result<Traffic, CommandError> {
    let wrong = |reason: String| CommandError::new(Kind::Configuration, reason);
    match (&args.record, &args.replay) {
        (Some(folder), _) => {
            Recorder::open(folder).map(Arc::new).map(Traffic::Record).map_err(wrong)
        }
        (None, Some(folder)) => {
            Recording::load(folder).map(Arc::new).map(Traffic::Replay).map_err(wrong)
        }
        (None, None) => Ok(Traffic::Live),
    }
}
