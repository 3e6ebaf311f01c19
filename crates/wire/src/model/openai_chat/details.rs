//! `reasoning_details`: how OpenRouter passes on the reasoning of the provider behind it, readable or not. Providers want it
//! back as it was; some refuse the next question without it.

use serde_json::{Value, json};

/// The field, also of the native block that is kept.
pub(super) const FIELD: &str = "reasoning_details";

/// The texts that come in pieces.
const GROWING: &[&str] = &["text", "summary"];

/// Details as they come.
#[derive(Debug, Default)]
pub(super) struct Details {
    whole: Vec<Value>,
    heard: usize,
}

impl Details {
    /// How many pieces came.
    pub(super) fn heard(&self) -> usize {
        self.heard
    }

    /// Takes the pieces of one chunk.
    pub(super) fn hear(&mut self, pieces: Vec<Value>) {
        for piece in pieces.into_iter().filter(Value::is_object) {
            self.heard += 1;
            match self.whole.last_mut() {
                Some(last) if goes_on(last, &piece) => grow(last, &piece),
                _ => self.whole.push(piece),
            }
        }
    }

    /// What came, in the form in which it goes back.
    pub(super) fn take(&mut self) -> Option<Value> {
        let whole = std::mem::take(&mut self.whole);
        (!whole.is_empty()).then(|| json!({ FIELD: whole }))
    }
}

/// Whether a piece belongs to the detail before it. What is encrypted always comes whole.
fn goes_on(last: &Value, piece: &Value) -> bool {
    let same = |key: &str| last[key] == piece[key];
    GROWING.iter().any(|key| piece[*key].is_string() || last[*key].is_string())
        && piece["data"].is_null()
        && same("type")
        && same("index")
        && (same("id") || last["id"].is_null() || piece["id"].is_null())
}

fn grow(last: &mut Value, piece: &Value) {
    for (key, value) in piece.as_object().into_iter().flatten() {
        match (&mut last[key], value) {
            (_, Value::Null) => {}
            (Value::String(all), Value::String(more)) if GROWING.contains(&key.as_str()) => {
                all.push_str(more);
            }
            (place, value) => *place = value.clone(),
        }
    }
}

/// Whether a detail is bound to all that stood before it, and refused behind anything else.
pub(super) fn is_bound(detail: &Value) -> bool {
    detail["format"].as_str().is_some_and(|format| format.starts_with("anthropic"))
}
