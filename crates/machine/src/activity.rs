//! One file for each kind of work: the effect it causes, the reports that answer it and the rules between.

mod acceptance;
mod agent;
pub(crate) mod approval;
mod checkpoint;
mod child;
mod compaction;
mod consult;
mod decider;
mod gate;
mod judge;
mod model_call;
mod progress;
mod recovery;
mod relay;
mod reopen;
pub mod request;
mod restart;
mod rollback;
mod timer;
mod tool_call;
mod tools;
mod verdict_failed;
mod workspace;
