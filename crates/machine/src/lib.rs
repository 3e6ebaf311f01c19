//! The pure loop: `step(state, input) -> effects, events`.
//!
//! Nothing here can wait, read a clock, know a file or depend on the order of a hash map. Time, ids and
//! randomness come in with the inputs; work for the world goes out as [`effect::Effect`] values. That is why
//! folding the recorded inputs gives the live state, always.

pub mod acceptance;
mod activity;
pub mod agent;
pub mod cause;
pub mod change;
pub mod child;
pub mod contest;
pub mod diff;
pub mod driver;
pub mod effect;
pub mod event;
pub mod facts;
pub mod file;
pub mod id;
pub mod input;
mod life;
pub mod lookalike;
pub mod message;
pub mod outline;
pub mod policy;
pub mod queue;
pub mod receipt;
pub use activity::request;
pub mod server;
pub mod shell;
pub mod state;
pub mod step;
pub mod stream;
pub mod task;
pub mod template;
pub mod time;
pub mod tool;
mod turn;
pub mod upkeep;
pub mod verdict;

pub use effect::Effect;
pub use event::{Event, EventKind};
pub use input::{Command, Input, MACHINE_VERSION, Signal, Stamped};
pub use state::State;
pub use step::{Output, step};
