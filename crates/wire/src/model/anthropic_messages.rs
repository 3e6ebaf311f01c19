//! Anthropic's Messages API: `POST /v1/messages`, answers as named events of typed blocks.

mod decode;
mod encode;
mod failure;
mod quick;

use serde_json::Value;

use super::openai_chat::history::{is_plain_object, is_strict};
use super::{Decode, Dialect, HttpRequest, ModelError, ModelRequest, Written};

/// The dialect. Speaks to Anthropic itself and to whatever offers the same API.
#[derive(Debug, Clone, Copy, Default)]
pub struct AnthropicMessages;

const NAME: &str = "anthropic_messages";

impl Dialect for AnthropicMessages {
    fn name(&self) -> &'static str {
        NAME
    }

    fn key_header(&self) -> (&'static str, &'static str) {
        ("x-api-key", "")
    }

    fn encode_on(&self, request: &ModelRequest, written: &mut Written) -> HttpRequest {
        encode::encode(request, written)
    }

    fn binds(&self, model: &str, schema: &Value) -> bool {
        encode::is_bound(model) && is_plain_object(schema) && is_strict(schema)
    }

    fn decoder(&self) -> Box<dyn Decode> {
        Box::new(decode::Decoder::default())
    }

    fn failure(&self, status: u16, headers: &[(String, String)], body: &[u8]) -> ModelError {
        failure::of_answer(status, headers, body)
    }
}
