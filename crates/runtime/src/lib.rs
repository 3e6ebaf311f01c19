//! Performs effects, never decides.
//!
//! The supervisor owns all states: it journals a batch of inputs, steps each task and hands the effects to
//! the performer. Reports and commands come back through the inbox. Exactly one file reads the clock
//! (`clock`), one starts processes (`process`) and one calls other machines (`http`).

pub mod acceptance;
pub mod acting;
pub mod agent;
pub mod apply;
pub mod beneath;
pub mod checkpoint;
pub mod clock;
pub mod control;
mod descriptors;
pub mod detect;
pub mod dispatching;
pub mod egress;
pub mod facts;
pub mod fake;
mod file_mark;
pub mod gate;
pub mod gateway;
mod git;
pub mod heap;
pub mod home;
pub mod host;
pub mod http;
pub mod inbox;
pub mod integrate;
pub mod library;
pub mod live;
mod lock;
pub mod mcp;
pub mod minding;
pub mod model;
mod network;
pub mod perform;
pub mod plugin;
pub mod policy_file;
pub mod process;
pub mod providers;
pub mod queue;
pub mod receipt;
pub mod redact;
mod remove;
pub mod room;
pub mod sandbox;
pub mod script;
pub mod servers;
mod sha256;
pub mod socket;
pub mod station;
pub mod stdio_server;
pub mod supervisor;
pub mod tool;
pub mod trust;
mod whole_file;
pub mod workspace;
pub mod world;
