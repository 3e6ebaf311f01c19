//! The runtime's integration tests, in one binary.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic where it stands")]

mod egress;
mod gate;
mod gateway;
mod mcp;
mod model;
mod news;
mod supervised;
mod tools;
