//! The worker's side of the gate: an MCP server that can only be asked for tools. One JSON-RPC object a line.
//!
//! Strict where others guess: a key that stands twice, a batch, a foreign framing or an id of another kind is an
//! error. There is no method and no tool here that approves, raises or starts anything, and nothing that a worker
//! writes into a request changes how its call is judged.
//!
//! [`Frames`] cuts bytes into lines, [`Session`] tells what to do with one; who reads, writes and waits is the
//! runtime's business.

mod frame;
mod json;
mod session;

pub use frame::{Frames, MAX_FRAME, TooLong};
pub use json::{MAX_DEPTH, Unfit, parse};
pub(crate) use session::early_id;
pub use session::{Reaction, RequestId, Session, Tool, Toolbox, refused, result, too_long};

/// The newest revision of the protocol that is spoken here.
pub const PROTOCOL: &str = "2025-11-25";

/// The revision that is named to a client that asks for one that is not spoken here.
pub const FALLBACK: &str = "2025-06-18";

/// Error codes of JSON-RPC, and those that a server may add.
pub mod code {
    /// The line is no JSON, or JSON that two readers could read in two ways.
    pub const PARSE: i64 = -32700;
    /// It is no request.
    pub const INVALID_REQUEST: i64 = -32600;
    /// There is no such method.
    pub const METHOD_NOT_FOUND: i64 = -32601;
    /// The parameters do not fit the method.
    pub const INVALID_PARAMS: i64 = -32602;
    /// `initialize` comes first.
    pub const NOT_INITIALIZED: i64 = -32002;
    /// The task does not take the call as it stands.
    pub const REFUSED: i64 = -32000;
}
