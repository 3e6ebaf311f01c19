//! Google's rules: turns alternate, begin and end with the user, and every call has its response in the next turn,
//! as many as there were calls, before anything else.

use serde_json::Value;

use super::{Refusal, is_name, text};

/// What a part can be, beside marks such as signatures.
const DATA: &[&str] = &[
    "text",
    "inlineData",
    "fileData",
    "functionCall",
    "functionResponse",
    "executableCode",
    "codeExecutionResult",
];

pub(super) fn check(body: &Value) -> Result<(), Refusal> {
    let contents = body["contents"].as_array().map(Vec::as_slice).unwrap_or_default();
    if contents.is_empty() {
        return Err("* GenerateContentRequest.contents: contents is not specified".to_owned());
    }
    let mut open: Vec<(&str, &str)> = Vec::new();
    let mut previous = "model";
    for (at, content) in contents.iter().enumerate() {
        let role = match text(content, "role") {
            "" | "function" => "user",
            role => role,
        };
        if !matches!(role, "user" | "model") {
            return Err("Please use a valid role: user, model.".to_owned());
        }
        if role == previous {
            return Err("Please ensure that multiturn requests alternate between user and model."
                .to_owned());
        }
        previous = role;
        let parts = content["parts"].as_array().map(Vec::as_slice).unwrap_or_default();
        if parts.is_empty() {
            return Err(format!(
                "* GenerateContentRequest.contents[{at}].parts: contents.parts must not be empty."
            ));
        }
        for (place, part) in parts.iter().enumerate() {
            check_part(part).map_err(|why| {
                format!("* GenerateContentRequest.contents[{at}].parts[{place}].data: {why}")
            })?;
        }
        if role == "user" {
            answer(&mut open, parts)?;
        } else {
            open = calls(parts)?;
        }
    }
    if !open.is_empty() {
        return Err(UNEQUAL.to_owned());
    }
    if previous == "model" {
        return Err(
            "Please ensure that multiturn requests end with a user role or a function response."
                .to_owned(),
        );
    }
    Ok(())
}

const UNEQUAL: &str = "Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn.";
const UNASKED: &str =
    "Please ensure that function response turn comes immediately after a function call turn.";

fn check_part(part: &Value) -> Result<(), &'static str> {
    let given = DATA.iter().filter(|key| part.get(**key).is_some()).count();
    // A signature may come alone, in a part whose text is empty or absent.
    let is_signed = part["thoughtSignature"].is_string();
    let is_mark = |key: &String| matches!(key.as_str(), "thought" | "partMetadata");
    match given {
        0 if is_signed => Ok(()),
        // A kind that only a newer version of the provider knows.
        0 if part.as_object().is_some_and(|part| !part.keys().all(is_mark)) => Ok(()),
        1 if part["text"] == "" && !is_signed => Err("it has an empty text parameter"),
        1 => Ok(()),
        _ => Err("required oneof field 'data' must have one initialized field"),
    }
}

fn calls(parts: &[Value]) -> Result<Vec<(&str, &str)>, Refusal> {
    let mut calls = Vec::new();
    for part in parts {
        if part.get("functionResponse").is_some() {
            return Err(UNASKED.to_owned());
        }
        if let Some(call) = part.get("functionCall") {
            let (id, name) = (text(call, "id"), text(call, "name"));
            let is_whole = call.get("args").is_none_or(Value::is_object);
            if !is_name(name) || !is_whole {
                return Err("Invalid function call turn: expected a name and args".to_owned());
            }
            calls.push((id, name));
        }
    }
    Ok(calls)
}

/// Takes the responses of a turn: as many as there are calls, in any order, and all of them first.
fn answer<'a>(open: &mut Vec<(&'a str, &'a str)>, parts: &'a [Value]) -> Result<(), Refusal> {
    let mut is_answering = true;
    for part in parts {
        if part.get("functionCall").is_some() {
            return Err("Invalid function call turn: a user cannot call".to_owned());
        }
        let Some(response) = part.get("functionResponse") else {
            is_answering = false;
            continue;
        };
        let key = (text(response, "id"), text(response, "name"));
        let Some(found) = open.iter().position(|call| *call == key) else {
            return Err(UNASKED.to_owned());
        };
        if !is_answering || !response["response"].is_object() {
            return Err(UNASKED.to_owned());
        }
        open.remove(found);
    }
    if open.is_empty() { Ok(()) } else { Err(UNEQUAL.to_owned()) }
}
