//! The real binary, in a clean environment: what it prints, how it ends, and how processes reach each other.
#![allow(clippy::unwrap_used, reason = "a helper that cannot go on fails its test")]

mod approvals;
mod chat;
mod code_tools;
mod commands;
mod config;
mod control;
mod cost;
mod environment;
mod fake;
mod gate;
mod help;
mod hostile;
mod hostile_worker;
mod mcp;
mod model;
mod network;
mod outcomes;
mod policy;
mod pty;
mod race;
mod receipt;
mod recovery;
mod sandbox;
mod signals;
mod stream;
mod stuck;
mod traffic;
mod trust;
mod verify;
