//! Which conversation an agent is opened with.

/// The conversation that a process is to go on with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Opening {
    /// One that begins.
    New,
    /// The one with this id. If it is not there, the agent's turn ends with [`machine::agent::AgentEnd::NoSession`].
    Resume(String),
    /// A copy of the one with this id, which itself stays as it is.
    Fork(String),
}
