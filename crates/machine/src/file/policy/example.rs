//! Examples in rules: a line, or a call as `tool: {json}`, and what must become of it.

use serde_json::{Value, json};

use crate::file::SourceError;
use crate::policy::permission::{Author, Decide, Judgement, Policy, Question, Rule, judge};
use crate::tool::{self, EffectClass};

/// Where examples are tried: any absolute path does, since nothing is opened.
const WORKSPACE: &str = "/workspace";

/// One example.
#[derive(Debug, Clone, PartialEq)]
pub struct Example {
    /// As it was written.
    pub text: String,
    /// What must become of it.
    pub expected: Decide,
    /// The call that it stands for.
    pub tool: String,
    /// The call's parameters.
    pub input: Value,
    driver: String,
    attended: bool,
    place: SourceError,
}

/// How an example came out.
#[derive(Debug, Clone, PartialEq)]
pub struct Checked {
    /// The example, as it was written.
    pub text: String,
    /// The file that holds it.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// What must become of it.
    pub expected: Decide,
    /// What the policy says.
    pub judgement: Judgement,
    /// The error at its place, if that differs.
    pub error: Option<SourceError>,
}

impl Example {
    /// Reads an example of a rule; the error says what was expected.
    pub(super) fn read(
        text: &str,
        expected: Decide,
        rule: &Rule,
        place: SourceError,
    ) -> Result<Example, String> {
        let call = text.split_once(':').filter(|(name, rest)| {
            (tool::find(name).is_some() || crate::server::is_offered(name))
                && rest.trim_start().starts_with('{')
        });
        let (tool, input) = match call {
            Some((name, rest)) => {
                let input = serde_json::from_str(rest.trim())
                    .map_err(|error| format!("the example's parameters are not JSON: {error}"))?;
                if let Some(spec) = tool::find(name) {
                    tool::check_input(spec, &input)
                        .map_err(|reason| format!("the example cannot be called: {reason}"))?;
                }
                (name.to_owned(), input)
            }
            None if text.trim().is_empty() => {
                return Err(
                    "the example is empty: write a command line, or tool: {json}".to_owned()
                );
            }
            None => ("shell".to_owned(), json!({ "command": text })),
        };
        Ok(Example {
            text: text.to_owned(),
            expected,
            tool,
            input,
            driver: rule.driver.first().map_or("llm", String::as_str).to_owned(),
            attended: rule.attended.unwrap_or(true),
            place,
        })
    }

    /// Where it stands: line and column.
    pub(super) fn place(&self) -> (usize, usize) {
        (self.place.line, self.place.column)
    }

    fn judged(&self, policy: &Policy) -> Judgement {
        let class = tool::find(&self.tool).map_or(EffectClass::Unsafe, |tool| tool.class);
        judge(
            policy,
            &Question {
                tool: &self.tool,
                input: &self.input,
                class,
                author: Author::Worker,
                driver: &self.driver,
                within: &[],
                attended: self.attended,
                workspace: Some(WORKSPACE),
                sandboxed: true,
            },
        )
    }
}

/// Judges every example as a worker's call in a sandbox, and says which differ from what was expected.
pub fn check(policy: &Policy, examples: &[Example]) -> Vec<Checked> {
    let one = |example: &Example| {
        let judgement = example.judged(policy);
        let decided = judgement.meant();
        let error = (decided != example.expected).then(|| {
            let part = match judgement.part.as_str() {
                "" => String::new(),
                part => format!(" for `{part}`"),
            };
            let reason = match judgement.reason.as_str() {
                "" => String::new(),
                reason => format!(" ({reason})"),
            };
            SourceError {
                message: format!(
                    "the example {:?} must be {}, but it is {}: {} decides{part}{reason}",
                    example.text,
                    past(example.expected),
                    past(decided),
                    judgement.by,
                ),
                hint: Some("the first rule that means a command decides on it".to_owned()),
                ..example.place.clone()
            }
        });
        Checked {
            text: example.text.clone(),
            file: example.place.file.clone(),
            line: example.place.line,
            expected: example.expected,
            judgement,
            error,
        }
    };
    examples.iter().map(one).collect()
}

fn past(decide: Decide) -> &'static str {
    match decide {
        Decide::Allow => "allowed",
        Decide::Ask => "asked about",
        Decide::Deny => "denied",
    }
}
