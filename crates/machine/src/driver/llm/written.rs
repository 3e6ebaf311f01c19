//! A call that a model wrote down as words. Small models do where their server does not read their calls: nothing would be
//! done, and the words would count as the claim that all is.

use serde_json::Value;

/// How calls begin in the forms that models were taught.
const MARKS: [&str; 11] = [
    "<tool_call>",
    "<tool_calls>",
    "<function_call>",
    "<function_calls>",
    "<function=",
    "<invoke name=",
    "[TOOL_CALLS]",
    "<|tool_call",
    "<|python_tag|>",
    "<\u{ff5c}tool\u{2581}call",
    "<|channel|>commentary to=",
];

/// How much after such a mark may hold the name of the tool.
const NEAR: usize = 200;

/// Where calls that are plain JSON have the name of the tool, and where its parameters.
const NAMES: [&str; 4] = ["name", "tool", "tool_name", "function"];
const PARAMETERS: [&str; 6] = ["arguments", "parameters", "input", "args", "with", "tool_input"];

/// What the model is told.
pub(super) const TOLD: &str = "You wrote a call of a tool as text, so nothing of it was done. Call the tool \
    itself, in the way in which tools are declared to you. If you are finished, say so in plain words.";

/// Why it is not asked any more.
pub(super) const GIVEN_UP: &str = "the model writes calls of tools as text, and nothing of them was done: have its \
    server read them (llama.cpp: --jinja; vLLM: --enable-auto-tool-choice with a --tool-call-parser), or set \
    decisions = \"constrained\" for it in models.toml";

/// Whether the text is, or ends with, a call of a tool.
pub(super) fn is_call(text: &str, is_tool: impl Fn(&str) -> bool) -> bool {
    has_mark(text, &is_tool) || is_json(text, &is_tool)
}

/// A mark at the beginning of a line, with a tool's name near behind it.
fn has_mark(text: &str, is_tool: &impl Fn(&str) -> bool) -> bool {
    let begins_line = |at: usize| {
        text[..at].trim_end_matches([' ', '\t']).chars().next_back().is_none_or(|c| c == '\n')
    };
    let names_tool = |after: &str| {
        let near: String = after.chars().take(NEAR).collect();
        let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
        near.split(|c| !is_part(c)).any(|word| is_tool(word.trim_start_matches("functions.")))
    };
    MARKS.iter().any(|mark| {
        let mut found = text.match_indices(mark);
        found.any(|(at, _)| begins_line(at) && names_tool(&text[at + mark.len()..]))
    })
}

/// Nothing but one call, or a list of them, as JSON.
fn is_json(text: &str, is_tool: &impl Fn(&str) -> bool) -> bool {
    let text = text.trim();
    let fenced = text.strip_prefix("```").and_then(|rest| rest.strip_suffix("```"));
    let inside =
        fenced.map_or(text, |inside| inside.trim_start_matches(|c: char| c.is_alphanumeric()));
    if !inside.trim_start().starts_with(['{', '[']) {
        return false;
    }
    match serde_json::from_str::<Value>(inside) {
        Ok(Value::Array(calls)) => {
            !calls.is_empty() && calls.iter().all(|call| is_json_call(call, is_tool))
        }
        Ok(call) => is_json_call(&call, is_tool),
        Err(_) => false,
    }
}

fn is_json_call(call: &Value, is_tool: &impl Fn(&str) -> bool) -> bool {
    // OpenAI's form has both inside of `function`.
    let call = call.get("function").filter(|inner| inner.is_object()).unwrap_or(call);
    let named = NAMES.iter().filter_map(|key| call.get(key)?.as_str()).any(is_tool);
    named && PARAMETERS.iter().any(|key| call.get(key).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_written(text: &str) -> bool {
        is_call(text, |word| matches!(word, "shell" | "read" | "validator_run"))
    }

    #[test]
    fn calls_in_the_forms_that_models_were_taught_are_known() {
        for text in [
            "<tool_call>\n{\"name\": \"shell\", \"arguments\": {\"command\": \"ls\"}}\n</tool_call>",
            "I will look first.\n\n  <tool_call>{\"name\":\"read\",\"arguments\":{}}",
            "<function=shell>\n<parameter=command>ls</parameter></function>",
            "[TOOL_CALLS]shell[ARGS]{\"command\": \"ls\"}",
            "[TOOL_CALLS] [{\"name\": \"validator_run\", \"arguments\": {}}]",
            "<|python_tag|>{\"name\": \"shell\", \"parameters\": {}}",
            "<\u{ff5c}tool\u{2581}calls\u{2581}begin\u{ff5c}><\u{ff5c}tool\u{2581}call\u{2581}begin\u{ff5c}>function<\u{ff5c}tool\u{2581}sep\u{ff5c}>shell",
            "<|channel|>commentary to=functions.shell <|message|>{}",
            "<function_calls>\n<invoke name=\"read\">",
            "{\"name\": \"shell\", \"arguments\": {\"command\": \"ls\"}}",
            "```json\n{\"tool\": \"read\", \"input\": {\"path\": \"a\"}}\n```",
            "[{\"type\":\"function\",\"function\":{\"name\":\"read\",\"arguments\":\"{}\"}}]",
        ] {
            assert!(is_written(text), "{text}");
        }
    }

    #[test]
    fn words_about_calls_and_other_json_are_answers() {
        for text in [
            "",
            "I read the file and ran the shell.",
            "Such a server writes <tool_call> before the shell's name.",
            "<tool_call> begins a call in some models.",
            "{\"name\": \"shell\", \"version\": 1}",
            "{\"name\": \"leftpad\", \"arguments\": []}",
            "[]",
            "The call was:\n```json\n{\"name\": \"shell\", \"arguments\": {}}\n```\nIt failed.",
            "```",
            "\u{1f469}<function=",
        ] {
            assert!(!is_written(text), "{text}");
        }
    }
}
