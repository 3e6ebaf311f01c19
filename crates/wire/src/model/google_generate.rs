//! Google's `streamGenerateContent`: requests, the chunks of an answer, and its errors.
//!
//! A chunk is a whole `GenerateContentResponse` whose parts continue the answer. Text comes in pieces, a
//! function call always whole. Parts that carry a `thoughtSignature` are never merged with others and go
//! back as they came; an empty text part with a signature is thinking that is not shown, so that it counts for
//! no answer.
//!
//! The end mark of this dialect is a `finishReason`, and it is not always the last: counters and further parts may come
//! behind it, and belong to the answer. So whoever reads goes on until the end of the bytes; only gateways send a mark of
//! their own there (`[DONE]`).

mod decode;
mod encode;
mod failure;
mod schema;
#[cfg(test)]
mod tests;

use serde_json::Value;

use super::{Decode, Dialect, HttpRequest, ModelError, ModelRequest, Written};

/// The dialect's name in `Native::dialect`.
const NAME: &str = "google_generate";

/// Google's `streamGenerateContent` with server-sent events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GoogleGenerate;

impl Dialect for GoogleGenerate {
    fn name(&self) -> &'static str {
        NAME
    }

    fn key_header(&self) -> (&'static str, &'static str) {
        ("x-goog-api-key", "")
    }

    fn encode_on(&self, request: &ModelRequest, written: &mut Written) -> HttpRequest {
        encode::request(request, written)
    }

    fn binds(&self, model: &str, schema: &Value) -> bool {
        // What it does not know of schemas is left out when the request is built.
        model.trim_start_matches("models/").starts_with("gemini-") && schema["type"] == "object"
    }

    fn decoder(&self) -> Box<dyn Decode> {
        Box::new(decode::Decoder::default())
    }

    fn failure(&self, status: u16, headers: &[(String, String)], body: &[u8]) -> ModelError {
        failure::read(status, headers, body)
    }
}
