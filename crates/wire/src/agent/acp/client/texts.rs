//! Texts of requests and answers: what is asked for, as our own tools take it, and what came of it, as the agent takes it.

use machine::agent::client::CommandExit;
use serde_json::{Value, json};

use super::super::super::codex::join;
use super::super::super::place::Place;
use super::{INVALID_PARAMS, REFUSED};

/// The longest content that is given at once; what is longer can be had in parts.
const MOST_CONTENT: usize = 8 << 20;

/// The lines of a file that are asked for, exactly as they are.
pub(super) fn content(
    path: &str,
    bytes: Vec<u8>,
    line: Option<u64>,
    limit: Option<u64>,
) -> Result<String, (i64, String)> {
    let text = String::from_utf8(bytes)
        .map_err(|_| (REFUSED, format!("cannot read {path:?}: expected text in UTF-8")))?;
    let size = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    let first = size(line.unwrap_or(1).max(1)) - 1;
    let text = if first == 0 && limit.is_none() {
        text
    } else {
        let mut lines = text.split_inclusive('\n').skip(first).peekable();
        if first > 0 && lines.peek().is_none() {
            let count = text.split_inclusive('\n').count();
            let why = format!("{path:?} has {count} lines; cannot begin at line {}", first + 1);
            return Err((INVALID_PARAMS, why));
        }
        lines.take(limit.map_or(usize::MAX, size)).collect()
    };
    if text.len() > MOST_CONTENT {
        let why = format!(
            "{path:?} has {} bytes, and at most {MOST_CONTENT} are given at once: read it in parts, with line and limit",
            text.len()
        );
        return Err((INVALID_PARAMS, why));
    }
    Ok(text)
}

/// What a command printed, at most so many bytes of it: the protocol cuts from the beginning, between two characters.
pub(super) fn output(
    bytes: &[u8],
    is_cut: bool,
    limit: usize,
    exit: Option<&CommandExit>,
) -> Value {
    // The rest of a character that was cut is no character that the command printed.
    let rest =
        if is_cut { bytes.iter().take(3).take_while(|b| **b & 0xC0 == 0x80).count() } else { 0 };
    let text = String::from_utf8_lossy(&bytes[rest..]);
    let from = text.ceil_char_boundary(text.len().saturating_sub(limit));
    let mut output = json!({ "output": text[from..], "truncated": is_cut || from > 0 });
    if let Some(exit) = exit {
        output["exitStatus"] = exit_status(exit);
    }
    output
}

pub(super) fn exit_status(exit: &CommandExit) -> Value {
    let code = exit.code.and_then(|code| u32::try_from(code).ok());
    json!({ "exitCode": code, "signal": exit.signal })
}

pub(super) fn text<'a>(params: &'a Value, name: &str, method: &str) -> Result<&'a str, String> {
    params[name].as_str().ok_or_else(|| format!("{method} needs the text {name:?}"))
}

/// A number that may be left out.
pub(super) fn number(params: &Value, name: &str) -> Result<Option<u64>, String> {
    match &params[name] {
        Value::Null => Ok(None),
        value => {
            let number = value.as_u64().map(Some);
            number.ok_or_else(|| format!("{name:?} must be a whole number, got {value}"))
        }
    }
}

/// One line for a shell: the folder, the variables and the command with its arguments. Without arguments the command
/// may be a whole line itself, and is taken as one.
pub(super) fn command_line(params: &Value, own_folder: &str) -> Result<String, String> {
    let command = text(params, "command", "terminal/create")?;
    let arguments = params["args"].as_array().map(Vec::as_slice).unwrap_or_default();
    let arguments: Option<Vec<&str>> = arguments.iter().map(Value::as_str).collect();
    let arguments = arguments.ok_or("the arguments of terminal/create must be texts")?;
    let mut line = String::new();
    let mut variables = Vec::new();
    for variable in params["env"].as_array().into_iter().flatten() {
        let (name, value) = (variable["name"].as_str(), variable["value"].as_str());
        let (Some(name), Some(value)) = (name, value) else {
            return Err("a variable of terminal/create needs a name and a value".to_owned());
        };
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if name.is_empty()
            || name.starts_with(|c: char| c.is_ascii_digit())
            || !name.chars().all(is_name)
        {
            return Err(format!("{name:?} cannot be the name of a variable"));
        }
        variables.push(format!("{name}={}", join(&[value])));
    }
    let words: Vec<&str> = std::iter::once(command).chain(arguments.iter().copied()).collect();
    if arguments.is_empty() {
        // A line of several commands: the variables are for all of them.
        line.extend(variables.iter().map(|variable| format!("export {variable} && ")));
        line.push_str(command);
    } else {
        line.extend(variables.iter().map(|variable| format!("{variable} ")));
        line.push_str(&join(&words));
    }
    let line = Place::new(own_folder).line(&params["cwd"], line);
    if line.contains('\0') {
        return Err("the command holds a NUL character, which no shell can take".to_owned());
    }
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_given_exactly_as_they_are() {
        let of = |text: &str, line, limit| content("f", text.as_bytes().to_vec(), line, limit);
        assert_eq!(of("a\r\nb\n\nc", None, None), Ok("a\r\nb\n\nc".to_owned()));
        assert_eq!(of("a\r\nb\n\nc", Some(2), Some(2)), Ok("b\n\n".to_owned()));
        assert_eq!(of("a\nb\n", Some(0), Some(1)), Ok("a\n".to_owned()));
        assert_eq!(of("a\nb\n", Some(2), None), Ok("b\n".to_owned()));
        assert_eq!(of("", None, Some(3)), Ok(String::new()));
        let (code, why) = of("a\nb\n", Some(3), None).unwrap_err();
        assert_eq!(
            (code, why.as_str()),
            (INVALID_PARAMS, "\"f\" has 2 lines; cannot begin at line 3")
        );
        assert!(content("f", vec![0xff], None, None).unwrap_err().1.contains("UTF-8"));
        let long = "x".repeat(MOST_CONTENT + 1);
        assert!(of(&long, None, None).unwrap_err().1.contains("in parts"));
    }

    #[test]
    fn output_is_cut_from_the_beginning_and_never_inside_a_character() {
        let shown = |bytes: &[u8], is_cut, limit| {
            let output = output(bytes, is_cut, limit, None);
            (output["output"].as_str().unwrap().to_owned(), output["truncated"] == true)
        };
        assert_eq!(shown("grüße".as_bytes(), false, 100), ("grüße".to_owned(), false));
        assert_eq!(shown("grüße".as_bytes(), false, 4), ("ße".to_owned(), true));
        assert_eq!(shown("grüße".as_bytes(), false, 2), ("e".to_owned(), true));
        assert_eq!(shown("grüße".as_bytes(), false, 0), (String::new(), true));
        // What was kept begins in the middle of a character.
        assert_eq!(shown(&"üße".as_bytes()[1..], true, 100), ("ße".to_owned(), true));
        assert_eq!(shown(&[b'a', 0xff, b'b'], false, 4), ("\u{fffd}b".to_owned(), true));
    }
}
