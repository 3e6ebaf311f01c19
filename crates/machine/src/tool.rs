//! Tools: what each is called, how repeatable it is, and what came back from a call.

use std::borrow::Cow;
use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Value, json};

use crate::file::check::{NAME_RULE, is_name};

/// How a call may be treated when a crash hides whether it ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EffectClass {
    /// Changes nothing: run it again.
    Pure,
    /// Running it twice with the same key is running it once: run it again.
    Keyed,
    /// Whether it ran can be seen in the world: the performer looks, then runs it or reports it done.
    Checkable,
    /// Nobody can know: a person or a rule decides. Never repeated silently.
    Unsafe,
}

/// A tool the runtime can perform.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ToolSpec {
    /// Its name, as steps and policies write it.
    pub name: &'static str,
    /// How repeatable it is.
    pub class: EffectClass,
    /// Its parameters: name, whether required, what it means.
    pub parameters: &'static [Parameter],
    /// One line for a person or a model.
    pub summary: &'static str,
}

/// One parameter of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parameter {
    /// Its key in the call's input.
    pub name: &'static str,
    /// What kind of value it takes.
    pub kind: ParameterKind,
    /// Whether a call without it is refused.
    pub required: bool,
    /// One line for a person or a model.
    pub summary: &'static str,
}

/// The kinds of parameter values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParameterKind {
    /// Text.
    Text,
    /// A whole number, zero or more.
    Number,
    /// True or false.
    Flag,
    /// A list of texts.
    Texts,
    /// One of these words.
    Word(&'static [&'static str]),
    /// A name that is safe as the name of a file.
    Name,
}

const fn text(name: &'static str, required: bool, summary: &'static str) -> Parameter {
    Parameter { name, kind: ParameterKind::Text, required, summary }
}

const fn number(name: &'static str, summary: &'static str) -> Parameter {
    Parameter { name, kind: ParameterKind::Number, required: false, summary }
}

const fn flag(name: &'static str, summary: &'static str) -> Parameter {
    Parameter { name, kind: ParameterKind::Flag, required: false, summary }
}

/// The built-in tools, by name.
pub const TOOLS: &[ToolSpec] = &[
    ToolSpec {
        name: "ask",
        class: EffectClass::Pure,
        parameters: &[
            text("question", true, "what the person is asked"),
            Parameter {
                name: "choices",
                kind: ParameterKind::Texts,
                required: false,
                summary: "the answers to choose from; any text if absent",
            },
        ],
        summary: "ask a person",
    },
    ToolSpec {
        name: "edit",
        class: EffectClass::Checkable,
        parameters: &[
            text("path", true, "the file, below the workspace"),
            text(
                "old",
                true,
                "the exact text to replace; must occur exactly once unless all is true",
            ),
            text("new", true, "the text to put there"),
            flag("all", "replace every occurrence"),
        ],
        summary: "replace exact text in a file",
    },
    ToolSpec {
        name: "glob",
        class: EffectClass::Pure,
        parameters: &[
            text("pattern", true, "a pattern such as src/**/*.rs"),
            number("limit", "at most this many paths; 1000 if absent"),
        ],
        summary: "list files by pattern",
    },
    ToolSpec {
        name: "grep",
        class: EffectClass::Pure,
        parameters: &[
            text("pattern", true, "a regular expression"),
            text("path", false, "where to look; the whole workspace if absent"),
            text("glob", false, "only files that match this pattern"),
            flag("ignore_case", "match letters of either case"),
            number("limit", "at most this many lines; 200 if absent"),
        ],
        summary: "search file contents",
    },
    ToolSpec {
        name: "memory",
        class: EffectClass::Keyed,
        parameters: &[
            Parameter {
                name: "action",
                kind: ParameterKind::Word(&["list", "read", "write", "forget"]),
                required: true,
                summary: "list, read, write or forget",
            },
            Parameter {
                name: "name",
                kind: ParameterKind::Name,
                required: false,
                summary: "the note; not for list",
            },
            text("text", false, "for write: the whole note"),
        ],
        summary: "notes about this project that later tasks can read",
    },
    ToolSpec {
        name: "patch",
        class: EffectClass::Checkable,
        parameters: &[text("diff", true, "a unified diff; all of it applies or nothing")],
        summary: "apply a unified diff",
    },
    ToolSpec {
        name: "read",
        class: EffectClass::Pure,
        parameters: &[
            text("path", true, "the file, below the workspace"),
            number("offset", "first line to show, from 1"),
            number("limit", "at most this many lines"),
        ],
        summary: "read a file",
    },
    ToolSpec {
        name: "say",
        class: EffectClass::Pure,
        parameters: &[text("text", true, "what is said")],
        summary: "say something in the transcript",
    },
    ToolSpec {
        name: "shell",
        class: EffectClass::Unsafe,
        parameters: &[
            text("command", true, "the command line, run by sh in the workspace"),
            text("timeout", false, "how long it may take, such as \"90s\"; 10m if absent"),
        ],
        summary: "run a shell command",
    },
    ToolSpec {
        name: "skeleton",
        class: EffectClass::Pure,
        parameters: &[
            text("path", true, "a file or folder, below the workspace"),
            number("depth", "levels of nesting; all if absent"),
            number("limit", "at most this many items; 500 if absent"),
        ],
        summary: "outline source code: items with line and signature, without bodies",
    },
    ToolSpec {
        name: "validator.run",
        class: EffectClass::Unsafe,
        parameters: &[
            text("path", false, "the folder to check; the workspace if absent"),
            Parameter {
                name: "only",
                kind: ParameterKind::Texts,
                required: false,
                summary: "names of checks; all if absent",
            },
        ],
        summary: "run the project's own checks and list what they report",
    },
    ToolSpec {
        name: "view",
        class: EffectClass::Pure,
        parameters: &[
            text("symbol", true, "a name such as push or Parser::push"),
            text("path", false, "where to look; the whole workspace if absent"),
        ],
        summary: "show the source of a definition",
    },
    ToolSpec {
        name: "write",
        class: EffectClass::Keyed,
        parameters: &[
            text("path", true, "the file, below the workspace"),
            text("content", true, "the whole new content"),
        ],
        summary: "write a file",
    },
];

/// Finds a built-in tool.
pub fn find(name: &str) -> Option<&'static ToolSpec> {
    TOOLS.iter().find(|tool| tool.name == name)
}

/// Whether a tool changes files itself, by reading and writing them.
pub fn changes_files(name: &str) -> bool {
    matches!(name, "edit" | "patch" | "write")
}

/// The name that a model is told: some providers take only letters, digits, `_` and `-`.
pub fn model_name(name: &str) -> Cow<'_, str> {
    if name.contains('.') { Cow::Owned(name.replace('.', "_")) } else { Cow::Borrowed(name) }
}

/// Which of the declared tools a model means; what it said itself if none.
pub fn meant<'a>(declared: &'a [String], said: &'a str) -> &'a str {
    let exact = declared.iter().find(|name| *name == said);
    exact
        .or_else(|| declared.iter().find(|name| model_name(name) == said))
        .map_or(said, |name| name)
}

/// The tool's parameters as a JSON schema, for models.
pub fn schema(tool: &ToolSpec) -> Value {
    let properties: serde_json::Map<String, Value> = tool
        .parameters
        .iter()
        .map(|parameter| {
            let mut kind = match parameter.kind {
                ParameterKind::Text | ParameterKind::Name => json!({ "type": "string" }),
                ParameterKind::Word(words) => json!({ "type": "string", "enum": words }),
                ParameterKind::Number => json!({ "type": "integer", "minimum": 0 }),
                ParameterKind::Flag => json!({ "type": "boolean" }),
                ParameterKind::Texts => json!({ "type": "array", "items": { "type": "string" } }),
            };
            kind["description"] = json!(parameter.summary);
            (parameter.name.to_owned(), kind)
        })
        .collect();
    let required: Vec<&str> =
        tool.parameters.iter().filter(|parameter| parameter.required).map(|p| p.name).collect();
    json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
}

/// Checks a call's input against the tool's parameters; the error says what was expected.
pub fn check_input(tool: &ToolSpec, input: &Value) -> Result<(), String> {
    let Value::Object(fields) = input else {
        return Err(format!("parameters of {} must be a table, got {input}", tool.name));
    };
    for (key, value) in fields {
        let Some(parameter) = tool.parameters.iter().find(|parameter| parameter.name == key) else {
            let known: Vec<&str> = tool.parameters.iter().map(|parameter| parameter.name).collect();
            return Err(format!(
                "{} has no parameter {key:?}: expected {}",
                tool.name,
                known.join(", ")
            ));
        };
        let fits = match parameter.kind {
            ParameterKind::Text => value.is_string(),
            ParameterKind::Number => value.is_u64(),
            ParameterKind::Flag => value.is_boolean(),
            ParameterKind::Texts => {
                value.as_array().is_some_and(|items| items.iter().all(Value::is_string))
            }
            ParameterKind::Word(words) => value.as_str().is_some_and(|word| words.contains(&word)),
            ParameterKind::Name => {
                value.as_str().is_some_and(|name| is_name(name) && !name.starts_with('.'))
            }
        };
        if !fits {
            let kind = match parameter.kind {
                ParameterKind::Text => "text".to_owned(),
                ParameterKind::Number => "a whole number".to_owned(),
                ParameterKind::Flag => "true or false".to_owned(),
                ParameterKind::Texts => "a list of texts".to_owned(),
                ParameterKind::Word(words) => format!("one of {}", words.join(", ")),
                ParameterKind::Name => format!("a name ({NAME_RULE}, no dot first)"),
            };
            return Err(format!("parameter {key:?} of {} must be {kind}, got {value}", tool.name));
        }
    }
    match tool.parameters.iter().find(|p| p.required && !fields.contains_key(p.name)) {
        Some(missing) => Err(format!(
            "{} needs the parameter {:?}: {}",
            tool.name, missing.name, missing.summary
        )),
        None => Ok(()),
    }
}

/// How a call ended. Every call ends in exactly one of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It did what it was asked.
    #[default]
    Ok,
    /// It ran and failed, or could not run.
    Error,
    /// The gate or a person said no; it did not run.
    Denied,
    /// It was not started, because something came first.
    Skipped,
    /// It was stopped while it ran.
    Aborted,
    /// It ran out of time and was stopped.
    TimedOut,
    /// A crash hid whether it ran, and nobody has said.
    InDoubt,
}

impl Status {
    /// The word people and JSON see.
    pub fn word(self) -> &'static str {
        match self {
            Status::Ok => "ok",
            Status::Error => "error",
            Status::Denied => "denied",
            Status::Skipped => "skipped",
            Status::Aborted => "aborted",
            Status::TimedOut => "timed_out",
            Status::InDoubt => "in_doubt",
        }
    }
}

/// What came back from a call.
///
/// In the journal a plain success is just its text: most records are that, and short ones are cheap.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ToolResult {
    /// How it ended.
    pub status: Status,
    /// Its output or the reason, capped: head and tail with a note of what is missing between.
    pub text: String,
    /// The exit code of a command that ran to its end.
    pub exit: Option<i32>,
    /// The whole output, where `text` is not.
    pub blob: Option<BlobRef>,
}

/// The long form of a result.
#[derive(Serialize, Deserialize)]
struct ResultFields<'a> {
    #[serde(default)]
    status: Status,
    #[serde(default, borrow)]
    text: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    exit: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    blob: Option<Cow<'a, BlobRef>>,
}

impl Serialize for ToolResult {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.status == Status::Ok && self.exit.is_none() && self.blob.is_none() {
            return serializer.serialize_str(&self.text);
        }
        serialize_long(self, serializer)
    }
}

/// Writes a result in its long form, for observers.
pub(crate) fn serialize_long<S: Serializer>(
    result: &ToolResult,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    ResultFields::from(result).serialize(serializer)
}

impl<'a> From<&'a ToolResult> for ResultFields<'a> {
    fn from(result: &'a ToolResult) -> ResultFields<'a> {
        ResultFields {
            status: result.status,
            text: Cow::Borrowed(&result.text),
            exit: result.exit,
            blob: result.blob.as_ref().map(Cow::Borrowed),
        }
    }
}

impl<'de> Deserialize<'de> for ToolResult {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ResultVisitor)
    }
}

struct ResultVisitor;

impl<'de> Visitor<'de> for ResultVisitor {
    type Value = ToolResult;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the text of a success, or a table with status and text")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<ToolResult, E> {
        Ok(ToolResult::ok(text))
    }

    fn visit_string<E: serde::de::Error>(self, text: String) -> Result<ToolResult, E> {
        Ok(ToolResult::ok(text))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<ToolResult, A::Error> {
        let fields = ResultFields::deserialize(serde::de::value::MapAccessDeserializer::new(map))?;
        Ok(ToolResult {
            status: fields.status,
            text: fields.text.into_owned(),
            exit: fields.exit,
            blob: fields.blob.map(Cow::into_owned),
        })
    }
}

/// Points at data kept beside the journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlobRef {
    /// SHA-256 of the content, in hex.
    pub sha256: String,
    /// Its size in bytes.
    pub size: u64,
}

impl ToolResult {
    /// A success with this output.
    pub fn ok(text: impl Into<String>) -> ToolResult {
        ToolResult { text: text.into(), ..ToolResult::default() }
    }

    /// Any other end, with its reason.
    pub fn ended(status: Status, text: impl Into<String>) -> ToolResult {
        ToolResult { status, text: text.into(), ..ToolResult::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_are_sorted_and_unique() {
        assert!(TOOLS.windows(2).all(|pair| pair[0].name < pair[1].name));
    }

    #[test]
    fn a_result_reads_what_it_writes_and_a_plain_success_is_just_its_text() {
        let blob = BlobRef { sha256: "ab".to_owned(), size: 2 };
        for (result, text) in [
            (ToolResult::ok("a\n\"b"), r#""a\n\"b""#),
            (
                ToolResult { exit: Some(0), ..ToolResult::ok("x") },
                r#"{"status":"ok","text":"x","exit":0}"#,
            ),
            (ToolResult::ended(Status::Denied, "no"), r#"{"status":"denied","text":"no"}"#),
            (
                ToolResult { blob: Some(blob), ..ToolResult::ok("x") },
                r#"{"status":"ok","text":"x","blob":{"sha256":"ab","size":2}}"#,
            ),
        ] {
            assert_eq!(serde_json::to_string(&result).unwrap(), text);
            assert_eq!(serde_json::from_str::<ToolResult>(text).unwrap(), result);
            assert_eq!(
                serde_json::from_value::<ToolResult>(serde_json::to_value(&result).unwrap())
                    .unwrap(),
                result
            );
        }
    }

    #[test]
    fn a_wrong_input_is_named() {
        let shell = find("shell").unwrap();
        assert_eq!(check_input(shell, &json!({"command": "true"})), Ok(()));
        assert_eq!(
            check_input(shell, &json!({"cmd": "true"})).unwrap_err(),
            "shell has no parameter \"cmd\": expected command, timeout"
        );
        assert!(
            check_input(shell, &json!({})).unwrap_err().contains("needs the parameter \"command\"")
        );
        assert!(
            check_input(shell, &json!({"command": 3})).unwrap_err().contains("must be text, got 3")
        );
        assert!(check_input(shell, &json!([])).is_err());
    }

    #[test]
    fn a_note_has_a_known_action_and_a_name_that_is_no_path() {
        let memory = find("memory").unwrap();
        assert_eq!(check_input(memory, &json!({"action": "read", "name": "build-2.1"})), Ok(()));
        assert_eq!(
            check_input(memory, &json!({"action": "lst"})).unwrap_err(),
            "parameter \"action\" of memory must be one of list, read, write, forget, got \"lst\""
        );
        for name in
            ["", ".", "..", ".hidden", "a/b", "../a", "a b", "a\u{7}", "é", &"x".repeat(101)]
        {
            let error = check_input(memory, &json!({"action": "read", "name": name})).unwrap_err();
            assert!(error.contains("must be a name (names are made of"), "{name:?}: {error}");
        }
    }

    #[test]
    fn models_are_told_names_they_can_take_and_are_understood() {
        for tool in TOOLS {
            let told = model_name(tool.name);
            let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
            assert!((1..=64).contains(&told.len()) && told.chars().all(plain), "{told}");
        }
        let declared = ["validator.run", "read", "a_b", "a.b"].map(str::to_owned);
        assert_eq!(meant(&declared, "validator_run"), "validator.run");
        assert_eq!(meant(&declared, "validator.run"), "validator.run");
        assert_eq!(meant(&declared, "a_b"), "a_b");
        assert_eq!(meant(&declared, "wait"), "wait");
    }

    #[test]
    fn all_declarations_together_are_small() {
        // They go with every question, so each byte is paid for again and again.
        let declared: Vec<Value> = TOOLS
            .iter()
            .map(|tool| {
                let name = model_name(tool.name);
                json!({ "name": name, "description": tool.summary, "schema": schema(tool) })
            })
            .collect();
        let size = serde_json::to_string(&declared).unwrap().len();
        assert!(size <= 5 * 1024, "{size} bytes");
    }
}
