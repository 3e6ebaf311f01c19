//! Real coding agents against our scripted model, where nothing but this machine can be reached.
//!
//! The tests are ignored because they need the programs; `scripts/agents` installs them, pinned, and runs these tests
//! once for each version, in a network namespace that has nothing but loopback.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod acp;
mod claude;
mod codex;
mod program;
mod rig;
