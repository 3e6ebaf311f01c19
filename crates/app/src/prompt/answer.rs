//! What a line means that is typed at a question.

use machine::Command;
use machine::id::CallId;
use machine::input::{Channel, Resolution};
use machine::policy::call_hash::CallHash;
use machine::policy::grant::Scope;
use machine::state::Ask;
use view::{Line, Tone};

/// What can be typed at the question whether a call may run.
const ANSWERS: [(&str, &str); 6] = [
    ("y", "let it run, this once"),
    ("t", "let it run, also when the same call comes again in this task"),
    ("t PATTERN", "for shell: also what is like it, such as t git push"),
    ("p, p PATTERN", "as t, and write a rule into the project's policy"),
    ("n, n REASON", "refuse it; the worker is told why, and the same call is refused for a while"),
    ("a", "show all of it"),
];

/// The prompt.
pub(crate) fn question(ask: &Ask) -> String {
    match ask {
        Ask::Approval { call, .. } => format!("run {call}? [y/t/p/n/a/?] "),
        Ask::Question { call, choices, .. } if choices.is_empty() => format!("{call} answer> "),
        Ask::Question { call, choices, .. } => format!("{call} answer [1-{}]> ", choices.len()),
        Ask::InDoubt { call, .. } => format!("{call} did it run? [did/did not/retry] "),
        Ask::Escalation { .. } => "go on? [go on/give up/advice] ".to_owned(),
        Ask::Decision { .. } => "next> ".to_owned(),
        Ask::Child { child, .. } => format!("{child} asks> "),
    }
}

/// Why a line is no answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unclear {
    /// It is empty.
    Nothing,
    /// The person wants to leave.
    Stop,
    /// All of the call is to be shown.
    ShowAll,
    /// The answers are to be listed.
    Help,
    /// It is something else than this.
    Expected(String),
}

/// The answers that there are to an approval.
pub(crate) fn help() -> Vec<Line> {
    let width = ANSWERS.iter().map(|(answer, _)| answer.len()).max().unwrap_or(0);
    let line = |(answer, meaning): &(&str, &str)| {
        Line::new(Tone::Faint, format!("  {answer:width$}  {meaning}"))
    };
    ANSWERS.iter().map(line).collect()
}

/// What a line means as the answer to a question.
pub(crate) fn answer(ask: &Ask, line: &str) -> Result<Command, Unclear> {
    let line = line.trim();
    if line.is_empty() {
        return Err(Unclear::Nothing);
    }
    let lower = line.to_lowercase();
    match ask {
        Ask::Approval { call, tool, hash, .. } => {
            answer_approval(&Asked { call: *call, tool, hash: *hash }, line)
        }
        Ask::Question { call, choices, .. } if !choices.is_empty() => {
            let by_number =
                line.parse::<usize>().ok().and_then(|number| choices.get(number.checked_sub(1)?));
            let by_text = choices.iter().find(|choice| choice.to_lowercase() == lower);
            match by_text.or(by_number) {
                Some(choice) => Ok(Command::Answer { call: *call, text: choice.clone() }),
                None => Err(Unclear::Expected(format!(
                    "one of {}, or its number",
                    view::text::visible(&choices.join(", "))
                ))),
            }
        }
        Ask::Question { call, .. } => Ok(Command::Answer { call: *call, text: line.to_owned() }),
        Ask::InDoubt { call, .. } => {
            let how = match lower.as_str() {
                "did" | "d" | "yes" | "y" => Resolution::Did,
                "did not" | "did-not" | "didn't" | "no" | "n" => Resolution::DidNot,
                "retry" | "r" => Resolution::Retry,
                _ => return Err(Unclear::Expected("did, did not, or retry".to_owned())),
            };
            Ok(Command::Resolve { call: *call, how })
        }
        Ask::Decision { .. } | Ask::Escalation { .. }
            if matches!(lower.as_str(), "quit" | "exit") =>
        {
            Err(Unclear::Stop)
        }
        Ask::Decision { number, .. } | Ask::Escalation { number, .. } => {
            Ok(Command::Tell { line: line.to_owned(), question: Some(*number) })
        }
        Ask::Child { child, .. } => {
            Err(Unclear::Expected(format!("an answer to task {child} itself")))
        }
    }
}

struct Asked<'a> {
    call: CallId,
    tool: &'a str,
    hash: CallHash,
}

fn answer_approval(asked: &Asked<'_>, line: &str) -> Result<Command, Unclear> {
    let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let rest = rest.trim();
    let (call, hash, via) = (asked.call, Some(asked.hash), Some(Channel::Prompt));
    let approve = |scope| {
        let like = (!rest.is_empty()).then(|| rest.to_owned());
        if like.is_some() && asked.tool != "shell" {
            let tool = view::text::visible(asked.tool);
            return Err(Unclear::Expected(format!("no pattern: it is a call of {tool}")));
        }
        Ok(Command::Approve { call, scope, like, hash, via })
    };
    match word.to_lowercase().as_str() {
        // More than that is not plainly a yes.
        "y" | "yes" if rest.is_empty() => approve(Scope::Once),
        "t" | "task" => approve(Scope::Task),
        "p" | "project" => approve(Scope::Project),
        "n" | "no" => Ok(Command::Deny { call, reason: rest.to_owned(), hash, via }),
        "a" | "all" if rest.is_empty() => Err(Unclear::ShowAll),
        "?" | "help" if rest.is_empty() => Err(Unclear::Help),
        _ => Err(Unclear::Expected("y, t, p, n, n and a reason, or ? for help".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use machine::id::QuestionId;

    use super::*;

    fn check(ask: &Ask, line: &str, expected: &str) {
        let got = match answer(ask, line) {
            Ok(command) => serde_json::to_string(&command).unwrap(),
            Err(Unclear::Expected(what)) => format!("expected {what}"),
            Err(other) => format!("{other:?}"),
        };
        assert_eq!(got, expected, "{line}");
    }

    #[test]
    fn a_line_answers_the_question_it_was_typed_at() {
        let ask = crate::prompt::tests::approval();
        let Ask::Approval { hash, .. } = &ask else { panic!() };
        let bound = format!(r#""hash":"{}","via":"prompt"}}}}"#, hash.full());
        let unclear = "expected y, t, p, n, n and a reason, or ? for help";
        check(&ask, "Y", &format!(r#"{{"approve":{{"call":3,{bound}"#));
        check(&ask, "t", &format!(r#"{{"approve":{{"call":3,"scope":"task",{bound}"#));
        check(&ask, "p", &format!(r#"{{"approve":{{"call":3,"scope":"project",{bound}"#));
        let denied = format!(r#"{{"deny":{{"call":3,"reason":"use staging",{bound}"#);
        check(&ask, "n use staging", &denied);
        for wrong in ["yes but not here", "maybe", "all of it"] {
            check(&ask, wrong, unclear);
        }
        let like = format!(r#"{{"approve":{{"call":3,"scope":"task","like":"ls -l",{bound}"#);
        check(&ask, "t  ls -l", &like);
        check(&ask, " ", "Nothing");
        check(&ask, "a", "ShowAll");
        check(&ask, "?", "Help");
        let choices = vec!["red".to_owned(), "2".to_owned()];
        let question = Ask::Question { call: CallId(4), question: "which?".to_owned(), choices };
        check(&question, "1", r#"{"answer":{"call":4,"text":"red"}}"#);
        check(&question, "2", r#"{"answer":{"call":4,"text":"2"}}"#);
        check(&question, "blue", "expected one of red, 2, or its number");
        let doubt = Ask::InDoubt {
            call: CallId(5),
            tool: "shell".to_owned(),
            input: Arc::new(serde_json::Value::Null),
        };
        check(&doubt, "did not", r#"{"resolve":{"call":5,"how":"did_not"}}"#);
        let decision = Ask::Decision { number: QuestionId(6), prompt: String::new() };
        check(&decision, "shell ls", r#"{"tell":{"line":"shell ls","question":6}}"#);
        check(&decision, "quit", "Stop");
    }
}
