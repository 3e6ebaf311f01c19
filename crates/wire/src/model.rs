//! Model APIs as pure translations: a request becomes bytes, bytes become events. No transport, no clock.
//!
//! The path of one call: [`Dialect::encode`] gives an [`HttpRequest`]; whoever has a network sends it and adds
//! the key; each chunk of the answer goes into a [`Stream`], which frames it, lets the dialect's decoder
//! translate each frame and gives [`StreamEvent`]s; [`Stream::finish`] gives the assembled
//! [`machine::message::Reply`] or says why there is none. An answer with another status than 200 goes to
//! [`Dialect::failure`] instead.
//!
//! One policy for every dialect:
//! - the events keep the order that [`machine::stream`] promises, whatever the provider's order is; one that ends
//!   in an error has no `message_stop`;
//! - a frame that is no JSON, or breaks the order of the protocol, ends the stream as malformed: a lost delta
//!   is a changed answer;
//! - an event or a block of a type nobody knows is kept or passed over, never an error;
//! - an end without the provider's own mark is [`ErrorKind::StreamTruncated`], whatever came before;
//! - a tool call whose arguments are not one complete JSON object is an error, never a call; where a provider sends
//!   none at all for a call without parameters, its decoder says so;
//! - counters of usage are taken as sent, and never shrink a budget.

pub mod accepts;
pub mod anthropic_messages;
pub mod assemble;
pub mod constrained;
#[cfg(test)]
mod cuts;
pub mod error;
pub mod google_generate;
pub mod openai_chat;
pub mod openai_responses;
#[cfg(test)]
mod order;
mod quick;
pub mod recording;
mod schema;
pub mod script;
pub mod tools;
pub mod written;

use std::sync::Arc;

use machine::message::{Conversation, Reply};
use serde_json::Value;

pub use assemble::Stream;
pub use error::{ErrorKind, ModelError, Retry};
pub use machine::stream::StreamEvent;
pub use tools::{ToolDeclaration, ToolList};
pub use written::Written;

/// What a model is asked.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelRequest {
    /// The model, as its provider names it.
    pub model: String,
    /// Standing instructions; none if empty.
    pub system: String,
    /// The conversation. May come from other providers and models: what they alone understand is left out
    /// or turned into text when the request is built, never in stored history.
    pub messages: Conversation,
    /// How many of the first messages were said after something else than what stands before them now.
    pub moved: usize,
    /// The tools it may ask for.
    pub tools: ToolList,
    /// Whether it may or must ask for one.
    pub tool_choice: ToolChoice,
    /// The limit of output tokens; the dialect's default if absent.
    pub max_tokens: Option<u64>,
    /// Randomness.
    pub temperature: Option<f64>,
    /// How much it shall think before it answers; the model's default if absent.
    pub effort: Option<Effort>,
    /// A JSON schema its answer must follow.
    pub output_schema: Option<Value>,
    /// Whether the provider shall cache it, for the requests that go on from here.
    pub cache: bool,
}

/// Whether a model may ask for tools.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ToolChoice {
    /// As it likes.
    #[default]
    Auto,
    /// It must not.
    None,
    /// It must ask for some tool.
    Any,
    /// It must ask for this one.
    Tool(String),
}

/// How much a model shall think.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    /// Not at all, where that can be said.
    None,
    /// Little.
    Low,
    /// Some.
    Medium,
    /// Much.
    High,
}

/// A request ready to send, but for the key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpRequest {
    /// Appended to the endpoint's base URL; begins with a slash.
    pub path: String,
    /// Names in lower case. The key is not among them: see [`Dialect::key_header`].
    pub headers: Vec<(String, String)>,
    /// The body, JSON; without what it shares with others.
    pub body: Vec<u8>,
    /// What it shares with others, and where that belongs in the body. Only where the request was written on what
    /// was written before.
    pub shared: Option<(usize, Arc<Vec<u8>>)>,
}

impl HttpRequest {
    /// The whole body, in the order in which its parts are sent.
    pub fn parts(&self) -> [&[u8]; 3] {
        match &self.shared {
            Some((at, shared)) => [&self.body[..*at], shared, &self.body[*at..]],
            None => [&self.body, &[], &[]],
        }
    }

    /// The whole body.
    pub fn whole(self) -> Vec<u8> {
        if self.shared.is_some() { self.parts().concat() } else { self.body }
    }
}

/// Differences between servers that speak the same dialect, as data.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Vendor {
    /// Tool call ids must be nine letters or digits (Mistral).
    pub short_tool_ids: bool,
    /// `max_completion_tokens` instead of `max_tokens` (OpenAI's own chat API).
    pub max_completion_tokens: bool,
    /// A forced tool is said as `any` instead of `required` (Mistral).
    pub tool_choice_any: bool,
    /// No `stream_options`: usage comes unasked (Mistral) or not at all.
    pub no_stream_options: bool,
    /// A tool's result must be followed by the model, not by a person (Mistral).
    pub assistant_after_tools: bool,
    /// Documents are `document_url` parts instead of `file` parts (Mistral).
    pub document_url: bool,
}

/// One way to talk to a model.
pub trait Dialect: Send + Sync {
    /// Its name, as `Native::dialect` has it.
    fn name(&self) -> &'static str;

    /// The header that carries the key, and what stands before the key in it.
    fn key_header(&self) -> (&'static str, &'static str);

    /// Builds the request, always streaming. Repairs what another provider's history lacks or has too much
    /// of: every tool use is followed by its result, ids have the form this dialect wants, foreign thinking
    /// becomes text or is left out.
    fn encode(&self, request: &ModelRequest) -> HttpRequest {
        self.encode_on(request, &mut Written::nothing())
    }

    /// The same request, byte for byte, but what `written` holds of the conversation is not written again, and
    /// what later requests will repeat is added to it. For a conversation that goes on with each request.
    fn encode_on(&self, request: &ModelRequest, written: &mut Written) -> HttpRequest;

    /// Whether an answer of this model can be bound to this schema without the request being refused. One that nobody
    /// knows is not bound: what is asked for in words works everywhere.
    fn binds(&self, model: &str, schema: &Value) -> bool {
        let _ = (model, schema);
        false
    }

    /// A decoder for one answer.
    fn decoder(&self) -> Box<dyn Decode>;

    /// Reads an answer that is no stream: a status other than 200. `headers` have names in lower case.
    fn failure(&self, status: u16, headers: &[(String, String)], body: &[u8]) -> ModelError;
}

/// Translates the frames of one answer.
pub trait Decode: Send {
    /// Takes one server-sent event (`event` is empty if the frame named none).
    fn frame(
        &mut self,
        event: &str,
        data: &str,
        out: &mut Vec<StreamEvent>,
    ) -> Result<(), ModelError>;

    /// Whether the provider's own end mark has come.
    fn is_complete(&self) -> bool;

    /// Whether the provider has begun something that it may hold back until it is whole, and shows until then only
    /// that it lives.
    fn is_held_back(&self) -> bool {
        false
    }

    /// How many searches of the web the provider has counted. It charges for them by the piece, beside the tokens. No request
    /// that is encoded here lets a model search there; what an agent asks through the gateway may.
    fn searches(&self) -> u64 {
        0
    }
}

/// A tool's name as all providers take it back. A model may have named one that nobody offered, in a form that
/// its own provider refuses from then on; the same name always becomes the same.
fn sent_name(name: &str) -> std::borrow::Cow<'_, str> {
    const LONGEST: usize = 64;
    let is_fine = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if (1..=LONGEST).contains(&name.len()) && name.chars().all(is_fine) {
        return name.into();
    }
    let fine = name.chars().map(|c| if is_fine(c) { c } else { '_' }).take(LONGEST);
    Some(fine.collect::<String>()).filter(|name| !name.is_empty()).unwrap_or("tool".into()).into()
}

/// What came of a stream.
pub type Answer = Result<Reply, ModelError>;
