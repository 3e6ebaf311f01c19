//! What a plugin is asked about a claim, and what counts as its answer.

use serde::Deserialize;
use serde_json::{Value, json};

use super::touched::Finding;
use crate::verdict::Touched;

/// The method that a plugin is asked with.
pub const METHOD: &str = "check";

/// The longest evidence that is kept of an answer, in characters.
const MAX_EVIDENCE: usize = 4_000;

/// What a plugin is told.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    /// The task's goal, in the operator's words.
    pub goal: &'a str,
    /// What the task file says to the plugin.
    pub config: &'a Value,
    /// The folder with the files that were handed over, to be looked at.
    pub folder: &'a str,
    /// The paths that differ from the base; the first ones, if there are many.
    pub touched: &'a [Touched],
    /// How many paths differ.
    pub total: u64,
    /// How many lines were added and removed.
    pub lines: u64,
}

impl Asked<'_> {
    /// As plain data.
    pub fn params(&self) -> Value {
        json!({
            "goal": self.goal,
            "config": self.config,
            "folder": self.folder,
            "touched": self.touched,
            "touched_total": self.total,
            "diff_lines": self.lines,
        })
    }
}

/// What an answer means: exactly `passed` and `evidence`, or it is a no.
pub fn read(answer: Result<Value, String>) -> Finding {
    let failed = |evidence: String| Finding { passed: false, evidence };
    match answer {
        Err(reason) => failed(format!("no answer: {reason}")),
        Ok(answer) => match Answer::deserialize(&answer) {
            Ok(Answer { passed, evidence }) => {
                Finding { passed, evidence: evidence.chars().take(MAX_EVIDENCE).collect() }
            }
            Err(error) => {
                failed(format!("its answer is not one object with passed and evidence: {error}"))
            }
        },
    }
}

/// The one shape of an answer.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Answer {
    passed: bool,
    evidence: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_plain_object_passes() {
        let yes = read(Ok(json!({ "passed": true, "evidence": "fine" })));
        assert_eq!(yes, Finding { passed: true, evidence: "fine".to_owned() });
        assert!(!read(Ok(json!({ "passed": false, "evidence": "" }))).passed);
        for wrong in [
            json!(true),
            json!({}),
            json!({ "passed": true }),
            json!({ "passed": "true", "evidence": "" }),
            json!({ "passed": 1, "evidence": "" }),
            json!({ "passed": true, "evidence": "", "sure": true }),
            json!([{ "passed": true, "evidence": "" }]),
            json!(null),
        ] {
            let finding = read(Ok(wrong.clone()));
            assert!(!finding.passed && finding.evidence.contains("not one object"), "{wrong}");
        }
        assert!(read(Err("it died".to_owned())).evidence.contains("no answer: it died"));
    }
}
