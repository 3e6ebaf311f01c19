//! One file for each kind of work: the effect it causes, the reports that answer it and the rules between.

mod acceptance;
mod approval;
mod consult;
mod model_call;
pub mod request;
mod timer;
mod tool_call;
mod tools;
mod workspace;
