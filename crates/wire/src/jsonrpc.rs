//! JSON-RPC 2.0 as plugins speak it: one JSON object a line. Makes lines to send and tells what a received
//! line is; who sends and who waits is the runtime's business.

use serde_json::{Map, Value, json};

use crate::halves::mended;

/// The error code for a method that the other side does not have.
pub const METHOD_NOT_FOUND: i64 = -32601;

/// A request: the other side answers with a response of the same id.
pub fn request(id: u64, method: &str, params: &Value) -> String {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string()
}

/// A notification: nobody answers.
pub fn notification(method: &str, params: &Value) -> String {
    json!({ "jsonrpc": "2.0", "method": method, "params": params }).to_string()
}

/// The answer to a request, as it was asked for.
pub fn answer(id: &Value, result: &Value) -> String {
    json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string()
}

/// The answer to a request that is not served.
pub fn refusal(id: &Value, code: i64, message: &str) -> String {
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } }).to_string()
}

/// A received line.
#[derive(Debug, Clone, PartialEq)]
pub enum Incoming {
    /// The answer to our request of this id. Give it to whoever waits for the id; drop it if nobody does.
    Response {
        /// The request's id.
        id: u64,
        /// What was answered.
        result: Result<Value, RpcError>,
    },
    /// The other side asks; it must be answered or refused.
    Request {
        /// To be given back as it is: text or a number.
        id: Value,
        /// What is asked.
        method: String,
        /// Null if absent.
        params: Value,
    },
    /// The other side tells something; one that is not known may be ignored.
    Notification {
        /// What it is about.
        method: String,
        /// Null if absent.
        params: Value,
    },
}

/// An error as the other side reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RpcError {
    /// Its number; see the JSON-RPC page.
    pub code: i64,
    /// One sentence.
    pub message: String,
    /// What else it says; null if nothing.
    pub data: Value,
}

impl RpcError {
    /// What is wrong, in all the words that the other side has for it: some say no more than "Internal error" at first.
    pub fn words(&self) -> String {
        let more = self.data.as_str().or(self.data["details"].as_str()).map(str::trim);
        match more.filter(|more| !more.is_empty() && !self.message.contains(more)) {
            Some(more) => format!("{}: {more}", self.message),
            None => self.message.clone(),
        }
    }
}

/// Tells what a line is. The error says what was expected; the line can be skipped.
pub fn classify(line: &str) -> Result<Incoming, String> {
    let fields = object(line)?;
    if fields.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return Err("expected \"jsonrpc\": \"2.0\"".to_owned());
    }
    sort(fields)
}

/// The same for those that speak JSON-RPC but do not say so in each line, such as `codex app-server`.
pub fn classify_bare(line: &str) -> Result<Incoming, String> {
    sort(object(line)?)
}

fn object(line: &str) -> Result<Map<String, Value>, String> {
    match serde_json::from_slice(&mended(line.as_bytes()))
        .map_err(|why| format!("not JSON: {why}"))?
    {
        Value::Object(fields) => Ok(fields),
        _ => Err("expected a JSON object".to_owned()),
    }
}

fn sort(mut fields: Map<String, Value>) -> Result<Incoming, String> {
    let id = fields.remove("id");
    if let Some(method) = fields.remove("method") {
        let Value::String(method) = method else {
            return Err("expected a text as \"method\"".to_owned());
        };
        let params = fields.remove("params").unwrap_or_default();
        return match id {
            None => Ok(Incoming::Notification { method, params }),
            Some(id) if id.is_string() || id.is_number() => {
                Ok(Incoming::Request { id, method, params })
            }
            Some(_) => Err("expected a text or a number as \"id\"".to_owned()),
        };
    }
    let id = id.as_ref().and_then(Value::as_u64).ok_or("expected the \"id\" of a request")?;
    let result = match (fields.remove("result"), fields.remove("error")) {
        (Some(result), None | Some(Value::Null)) => Ok(result),
        (None | Some(Value::Null), Some(Value::Object(mut error))) => Err(RpcError {
            data: error.remove("data").unwrap_or_default(),
            code: error.get("code").and_then(Value::as_i64).unwrap_or_default(),
            message: error
                .get("message")
                .and_then(Value::as_str)
                .unwrap_or("no message")
                .to_owned(),
        }),
        _ => return Err("expected either \"result\" or \"error\"".to_owned()),
    };
    Ok(Incoming::Response { id, result })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_has_all_the_words_that_the_other_side_has_for_it() {
        let words = |message: &str, data: Value| {
            RpcError { code: -32603, message: message.to_owned(), data }.words()
        };
        let details = json!({ "details": "no previous sessions" });
        assert_eq!(
            words("Internal error", details.clone()),
            "Internal error: no previous sessions"
        );
        assert_eq!(words("no previous sessions here", details), "no previous sessions here");
        assert_eq!(words("Internal error", json!("it is late")), "Internal error: it is late");
        assert_eq!(words("Internal error", json!({ "kind": "late" })), "Internal error");
    }

    #[test]
    fn a_line_never_holds_a_line_end() {
        let params = json!({ "text": "one\ntwo\r\nthree\u{2028}" });
        let line = request(7, "decide", &params);
        assert!(!line.contains('\n') && !line.contains('\r'));
        let expected = Incoming::Request { id: json!(7), method: "decide".to_owned(), params };
        assert_eq!(classify(&line), Ok(expected));
    }

    #[test]
    fn a_received_line_is_told_apart() {
        let response = |id, result| Ok(Incoming::Response { id, result });
        assert_eq!(
            classify(r#"{"jsonrpc":"2.0","id":3,"result":{"a":1}}"#),
            response(3, Ok(json!({ "a": 1 })))
        );
        assert_eq!(
            classify(r#"{"jsonrpc":"2.0","id":3,"result":null}"#),
            response(3, Ok(Value::Null))
        );
        let error = RpcError {
            code: METHOD_NOT_FOUND,
            message: "no snapshot".to_owned(),
            data: Value::Null,
        };
        assert_eq!(
            classify(&refusal(&json!(4), error.code, &error.message)),
            response(4, Err(error))
        );
        let told = Incoming::Notification { method: "log".to_owned(), params: json!([1]) };
        assert_eq!(classify(&notification("log", &json!([1]))), Ok(told));
    }

    #[test]
    fn a_line_in_which_a_character_is_cut_is_read() {
        let line = r#"{"jsonrpc":"2.0","method":"log","params":"a\ud83d"}"#;
        let told = Incoming::Notification { method: "log".to_owned(), params: json!("a\u{fffd}") };
        assert_eq!(classify(line), Ok(told.clone()));
        assert_eq!(classify_bare(line), Ok(told));
    }

    #[test]
    fn a_line_may_leave_out_the_version_only_where_that_is_known() {
        let line = r#"{"method":"initialized"}"#;
        assert!(classify(line).is_err());
        let told = Incoming::Notification { method: "initialized".to_owned(), params: Value::Null };
        assert_eq!(classify_bare(line), Ok(told));
        let failed = r#"{"id":1,"error":{"code":-1,"message":"no","data":{"kind":"late"}}}"#;
        let error =
            RpcError { code: -1, message: "no".to_owned(), data: json!({ "kind": "late" }) };
        assert_eq!(classify_bare(failed), Ok(Incoming::Response { id: 1, result: Err(error) }));
    }

    #[test]
    fn a_malformed_line_says_what_was_expected() {
        for (line, expected) in [
            ("hello", "not JSON"),
            ("[]", "expected a JSON object"),
            (r#"{"id":1,"result":2}"#, "expected \"jsonrpc\""),
            (r#"{"jsonrpc":"2.0","result":2}"#, "expected the \"id\""),
            (r#"{"jsonrpc":"2.0","id":"x","result":2}"#, "expected the \"id\""),
            (r#"{"jsonrpc":"2.0","id":1}"#, "expected either"),
            (r#"{"jsonrpc":"2.0","id":1,"result":1,"error":{}}"#, "expected either"),
            (r#"{"jsonrpc":"2.0","method":3}"#, "expected a text as \"method\""),
            (r#"{"jsonrpc":"2.0","id":{},"method":"m"}"#, "expected a text or a number"),
        ] {
            let error = classify(line).unwrap_err();
            assert!(error.starts_with(expected), "{line}: {error}");
        }
    }
}
