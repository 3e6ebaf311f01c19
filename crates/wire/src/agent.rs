//! Coding agents: bytes of their programs to events that are the same for all, orders to bytes. One file an agent or
//! protocol; no process and no clock here.

pub mod acp;
mod answer;
pub mod codex;
pub mod opening;
mod peer;
pub mod table;

use machine::agent::{AgentEvent, AgentOrder};

/// The two directions of one agent's pipe, as a pure machine. Whoever performs writes what it gives and feeds it what
/// it reads; everything that is said during a conversation is remembered here.
pub trait AgentCodec: std::fmt::Debug + Send {
    /// The first bytes to write, before anything was read.
    fn open(&mut self) -> Vec<u8>;

    /// Takes what was read, in pieces of any size. What must be written back at once, such as answers that need no
    /// decision, is in `reply`.
    fn read(&mut self, bytes: &[u8], reply: &mut Vec<u8>) -> Vec<AgentEvent>;

    /// The output has ended. What is still open ends with a reason.
    fn end(&mut self) -> Vec<AgentEvent>;

    /// The bytes of an order; the error says what this agent cannot be told, or not now.
    fn order(&mut self, order: AgentOrder) -> Result<Vec<u8>, String>;
}
