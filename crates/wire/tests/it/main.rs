//! Tests of the wire from outside: bytes in, events and answers out; requests in, bytes out.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod anthropic_requests;
mod anthropic_streams;
mod assembly;
mod corpus;
mod errors;
mod rig;
mod sse;
mod written;
