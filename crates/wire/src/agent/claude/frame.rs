//! The lines that are written to Claude Code, each a JSON object.

use serde::Serialize;
use serde_json::{Value, json};

use crate::agent::mention;

/// One line.
fn line(message: &Value) -> Vec<u8> {
    let mut line = message.to_string().into_bytes();
    line.push(b'\n');
    line
}

/// A person's words. A text that begins with a slash is a command to the program itself, but not behind white space. Files
/// that a text names behind an `@` the program would read itself, without asking anybody: see [`mention`].
pub(super) fn prompt(text: &str, uuid: &str) -> Vec<u8> {
    let is_command = text.starts_with('/');
    let text = if is_command { format!(" {text}") } else { text.to_owned() };
    match mention::blocks(&text) {
        Some(blocks) => user(&blocks, uuid),
        None => user(&json!(text), uuid),
    }
}

/// The command to sum up the conversation. It is one line.
pub(super) fn compact(focus: &str, uuid: &str) -> Vec<u8> {
    let words: Vec<&str> = focus.split_whitespace().collect();
    user(&json!(format!("/compact {}", words.join(" ")).trim_end()), uuid)
}

fn user(content: &Value, uuid: &str) -> Vec<u8> {
    line(&json!({
        "type": "user",
        "message": { "role": "user", "content": content },
        "parent_tool_use_id": null,
        "session_id": "",
        "uuid": uuid,
    }))
}

/// A request of ours; `request` has its subtype in it.
pub(super) fn request(id: &str, request: &Value) -> Vec<u8> {
    line(&json!({ "type": "control_request", "request_id": id, "request": request }))
}

/// An answer to a request of the program: two for each call, so it is not put together first.
pub(super) fn answer(id: &str, response: &Value) -> Vec<u8> {
    #[derive(Serialize)]
    struct Answer<'a> {
        response: Success<'a>,
        r#type: &'a str,
    }
    #[derive(Serialize)]
    struct Success<'a> {
        request_id: &'a str,
        response: &'a Value,
        subtype: &'a str,
    }
    let response = Success { request_id: id, response, subtype: "success" };
    let answer = Answer { response, r#type: "control_response" };
    // Text and values can always be written.
    let mut line = serde_json::to_vec(&answer).unwrap_or_default();
    line.push(b'\n');
    line
}

/// An answer that says that there is none. Never to a hook: versions of old take it for a yes.
pub(super) fn refusal(id: &str, error: &str) -> Vec<u8> {
    let response = json!({ "subtype": "error", "request_id": id, "error": error });
    line(&json!({ "type": "control_response", "response": response }))
}

/// An identifier in the form of a UUID.
pub(super) fn uuid(number: u128) -> String {
    // The bits that say "made by chance" in this form.
    let number = (number & !(0xf << 76) & !(0x3 << 62)) | (0x4 << 76) | (0x2 << 62);
    let hex = format!("{number:032x}");
    let (a, b, c, d, e) = (&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]);
    format!("{a}-{b}-{c}-{d}-{e}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_one_line_with_the_number_of_its_request() {
        let response = json!({ "behavior": "allow", "text": "a\n\"b\"" });
        let line = answer("7\"", &response);
        let expected = json!({ "type": "control_response", "response": {
            "subtype": "success", "request_id": "7\"", "response": response,
        } });
        assert_eq!(String::from_utf8(line).unwrap(), format!("{expected}\n"));
    }

    #[test]
    fn identifiers_have_the_form_of_a_uuid_and_differ() {
        assert_eq!(uuid(0), "00000000-0000-4000-8000-000000000000");
        assert_eq!(uuid(1), "00000000-0000-4000-8000-000000000001");
        assert_eq!(uuid(u128::MAX), "ffffffff-ffff-4fff-bfff-ffffffffffff");
    }
}
