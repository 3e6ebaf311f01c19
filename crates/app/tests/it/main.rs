//! The real binary, in a clean environment: what it prints, how it ends, and how processes reach each other.
#![allow(clippy::unwrap_used, reason = "a helper that cannot go on fails its test")]

mod apply;
mod approvals;
mod chat;
mod code_tools;
mod commands;
mod config;
mod control;
mod cost;
mod diff;
mod environment;
mod fake;
mod fork;
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
mod queue;
mod race;
mod receipt;
mod repository;
mod rollback;
mod sandbox;
mod signals;
mod stream;
mod traffic;
mod trust;
mod verify;
mod worktrees;
