//! Commands that start other commands: the inner ones are read too, as far as the text tells.

mod interpreter;
mod prefix;
mod programs;

use super::{Reading, Run};

/// Adds what a command starts, and doubts what it may start beyond that.
pub(super) fn open(reading: &mut Reading, run: &Run, name: &str, depth: usize) {
    let base = base_name(name);
    prefix::open(reading, run, base, depth)
        .or_else(|| interpreter::open(reading, run, base, depth))
        .or_else(|| programs::open(reading, run, base, depth));
}

/// The last part of a path.
pub(super) fn base_name(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

pub(super) use interpreter::{is_interpreter, script_file};
pub(super) use prefix::{env_starts, is_transparent};
