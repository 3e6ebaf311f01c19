//! Coding agents: bytes of their programs to events that are the same for all, orders to bytes. One file an agent or
//! protocol; no process and no clock here.

pub mod acp;
pub mod acp_server;
pub mod acp_told;
mod answer;
pub mod claude;
pub mod codex;
pub mod lines;
pub mod login;
mod mention;
pub mod opening;
mod peer;
mod place;
pub mod played;
pub mod table;

use machine::agent::client::{ClientDone, ClientFailure};
use machine::agent::{AgentEvent, AgentOrder, AgentProgram, AgentProtocol};
use machine::server::ToolOffer;

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

    /// The bytes that tell what came of an [`AgentEvent::Wants`]; the error says that nobody waits for it any more.
    fn served(
        &mut self,
        key: &str,
        _done: Result<ClientDone, ClientFailure>,
    ) -> Result<Vec<u8>, String> {
        Err(format!("the agent asks nothing of its client, so it does not wait for {key:?}"))
    }
}

/// What an agent's program is started for.
#[derive(Debug, Clone, Copy)]
pub struct Launch<'a> {
    /// Which program.
    pub program: &'a AgentProgram,
    /// Which conversation.
    pub session: Session<'a>,
    /// What the conversation has cost so far by the agent's own count, in billionths of a dollar, where that is known.
    pub cost: Option<u64>,
    /// The folder it works in, absolute.
    pub folder: &'a str,
    /// A folder of its own, absolute, for its settings and conversations.
    pub home: &'a str,
    /// What it prints of itself when asked for its version; empty if it does not say.
    pub version: &'a str,
    /// Made by chance, another one for each process.
    pub seed: u128,
    /// Where its models are asked in place of their providers: an address that begins with `http`.
    pub gateway: Option<&'a str>,
    /// The tools of drivetrain's own that it may call.
    pub tools: &'a [ToolOffer],
}

/// A conversation to begin or to go on with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Session<'a> {
    /// A new one, with this id where the agent lets others choose it.
    New(&'a str),
    /// The one of this id.
    Resume(&'a str),
}

/// How an agent's program is started and spoken to.
#[derive(Debug)]
pub struct Started {
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// Variables it gets beside the usual ones.
    pub env: Vec<(String, String)>,
    /// Files in its own folder, by name: written before it starts.
    pub files: Vec<(String, String)>,
    /// Its bytes.
    pub codec: Box<dyn AgentCodec>,
}

/// How the program of a launch is started and spoken to; the error says what it cannot be started with.
pub fn start(launch: &Launch<'_>) -> Result<Started, String> {
    match launch.program.protocol {
        AgentProtocol::Claude => Ok(claude::launch(launch)),
        AgentProtocol::Codex => codex::setup::start(launch),
        AgentProtocol::Acp => acp::setup::start(launch),
    }
}
