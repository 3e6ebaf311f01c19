//! Tests of the machine from outside: scenarios as scripts, laws as properties.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod agents;
mod checkpoints;
mod children;
mod clock;
mod decisions;
mod doubt;
mod edge_cases;
mod gate;
mod gateway;
mod held;
mod hosts;
mod judges;
mod laws;
mod limits;
mod llm;
mod model;
mod order;
mod receipt;
mod records;
mod recovery;
mod reopen;
mod requests;
mod restart;
mod rig;
mod rollback;
mod saved;
mod scenarios;
mod servers;
mod shell;
mod shortcuts;
mod trees;
mod written;
