//! Tests of the wire from outside: bytes in, events and answers out; requests in, bytes out.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod accepts;
mod agent_acp;
mod agent_acp_client;
mod agent_acp_server;
mod agent_claude;
mod agent_claude_orders;
mod agent_codex;
mod agent_other_protocols;
mod agent_rig;
mod anthropic_requests;
mod anthropic_streams;
mod assembly;
#[path = "../../../../fuzz/checks.rs"]
mod checks;
mod constrained;
mod corpus;
#[path = "../../src/model/cuts.rs"]
mod cuts;
mod errors;
mod fuzz;
mod histories;
#[path = "../../src/model/order.rs"]
mod order;
mod proxy;
mod recording;
mod rig;
mod schemas;
mod sse;
mod written;
