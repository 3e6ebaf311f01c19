//! OpenAI's Responses API without stored state: requests, the events of an answer, and its errors.
//!
//! An answer is a list of items (messages, reasoning, function calls, and kinds nobody knows yet). Each item is
//! one block here, and goes back to the same model as it came, id and encrypted reasoning included; to
//! another model only its readable part goes.

mod decode;
mod encode;
#[cfg(test)]
mod tests;

use serde_json::Value;

use super::openai_chat::encode::is_bound;
use super::openai_chat::failure;
use super::openai_chat::history::is_plain_object;
use super::{Decode, Dialect, HttpRequest, ModelError, ModelRequest, Written};

/// The dialect's name in `Native::dialect`.
const NAME: &str = "openai_responses";

/// The Responses API with server-sent events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OpenAiResponses;

impl Dialect for OpenAiResponses {
    fn name(&self) -> &'static str {
        NAME
    }

    fn key_header(&self) -> (&'static str, &'static str) {
        ("authorization", "Bearer ")
    }

    fn encode_on(&self, request: &ModelRequest, written: &mut Written) -> HttpRequest {
        encode::request(request, written)
    }

    fn binds(&self, model: &str, schema: &Value) -> bool {
        is_bound(model) && is_plain_object(schema)
    }

    fn decoder(&self) -> Box<dyn Decode> {
        Box::new(decode::Decoder::default())
    }

    fn failure(&self, status: u16, headers: &[(String, String)], body: &[u8]) -> ModelError {
        failure::read(status, headers, body)
    }
}
