//! Bytes to values and back, without transport: nothing here opens, reads, writes or waits.

pub mod agent;
pub mod diagnostics;
pub mod gate;
pub mod gateway;
pub mod halves;
pub mod jsonrpc;
pub mod model;
pub mod proxy;
pub mod redact;
pub mod sse;
pub mod tasks;
