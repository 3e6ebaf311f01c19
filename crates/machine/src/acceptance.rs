//! What decides about a claim, as far as it needs no world: which paths steer the tests, how many tests an output tells
//! of, which commands check a project, and what a judge is asked and may answer.

pub mod count;
pub mod detect;
pub mod framework;
pub mod judge;
pub mod plugin;
pub mod touched;
