//! OpenAI's chat completions, and every server that speaks them: requests, the chunks of an answer, and errors.
//! What differs between servers is data in [`Vendor`].
//!
//! The end mark of this dialect is a `finish_reason`: `[DONE]` alone does not say that the answer is whole, and
//! some servers never send it. So an answer with a `finish_reason` and without `[DONE]` is complete, one with
//! `[DONE]` and without a `finish_reason` is truncated. Usage comes after the `finish_reason`: whoever reads
//! goes on until [`super::StreamEvent::MessageStop`] (sent for `[DONE]`) or the end of the bytes.
//!
//! `history`, `failure`, `frame` and some of `encode` hold what the Responses dialect shares.

mod decode;
mod details;
pub(super) mod encode;
pub(super) mod failure;
pub(super) mod frame;
pub(super) mod history;
#[cfg(test)]
pub(super) mod tests;

use serde_json::Value;

use super::{Decode, Dialect, HttpRequest, ModelError, ModelRequest, Vendor, Written};

/// The dialect's name in `Native::dialect`.
const NAME: &str = "openai_chat";

/// Chat completions with server-sent events. The default is a compatible server without peculiarities.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OpenAiChat {
    /// How the server differs from others.
    pub vendor: Vendor,
}

impl OpenAiChat {
    /// OpenAI's own API.
    pub fn openai() -> OpenAiChat {
        OpenAiChat { vendor: Vendor { max_completion_tokens: true, ..Vendor::default() } }
    }

    /// Mistral's API.
    pub fn mistral() -> OpenAiChat {
        OpenAiChat {
            vendor: Vendor {
                short_tool_ids: true,
                max_completion_tokens: false,
                tool_choice_any: true,
                no_stream_options: true,
                assistant_after_tools: true,
                document_url: true,
            },
        }
    }
}

impl Dialect for OpenAiChat {
    fn name(&self) -> &'static str {
        NAME
    }

    fn key_header(&self) -> (&'static str, &'static str) {
        ("authorization", "Bearer ")
    }

    fn encode_on(&self, request: &ModelRequest, written: &mut Written) -> HttpRequest {
        encode::request(&self.vendor, request, written)
    }

    fn binds(&self, model: &str, schema: &Value) -> bool {
        // Of a server without a name nobody knows whether it can.
        let is_known = *self == OpenAiChat::openai() || *self == OpenAiChat::mistral();
        is_known && encode::is_bound(model) && history::is_plain_object(schema)
    }

    fn decoder(&self) -> Box<dyn Decode> {
        Box::new(decode::Decoder::default())
    }

    fn failure(&self, status: u16, headers: &[(String, String)], body: &[u8]) -> ModelError {
        failure::read(status, headers, body)
    }
}
