//! What Codex asks about: commands, patches and wider permissions, in the form of today and in that of older
//! releases, as questions that the gate can judge; and the answers in the form of the question.

use std::sync::Arc;

use machine::agent::{AgentAsk, AgentMeans};
use serde_json::{Value, json};

use super::super::peer::{beginning, from_folder};
use super::super::place::Place;

/// How much of a command or of paths is said again with the reason for a no.
const LONGEST_SUBJECT: usize = 200;

/// How an answer must look.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Form {
    /// `accept` or `decline`.
    Item,
    /// `approved`, or `denied` with the reason.
    Review,
    /// The permissions that were asked for, or none.
    Permissions(Value),
}

/// A request as a question; nothing if it is none of this kind. `changes` are those of the patch that the question is
/// about, as its item told them; Codex works in `folder`, at `place`.
pub(super) fn read(
    method: &str,
    params: &Value,
    key: String,
    changes: Option<&Value>,
    folder: &str,
    place: &Place,
) -> Option<(AgentAsk, Form)> {
    let written = |paths: Vec<String>| {
        let paths: Vec<String> = paths.iter().map(|path| from_folder(folder, path)).collect();
        if paths.is_empty() { AgentMeans::Other } else { AgentMeans::Write(paths) }
    };
    let (tool, id, means, form) = match method {
        "item/commandExecution/requestApproval" => {
            let means = command_means(params, place);
            ("commandExecution", &params["itemId"], means, Form::Item)
        }
        "item/fileChange/requestApproval" => {
            // Writing below a whole folder for the rest of the session is more than this patch.
            let is_wider = !params["grantRoot"].is_null();
            let paths = changes.filter(|_| !is_wider).map(changed).unwrap_or_default();
            ("fileChange", &params["itemId"], written(paths), Form::Item)
        }
        "execCommandApproval" => {
            let words = params["command"].as_array().map(Vec::as_slice).unwrap_or_default();
            let words: Option<Vec<&str>> = words.iter().map(Value::as_str).collect();
            let means =
                words.filter(|words| !words.is_empty()).map_or(AgentMeans::Other, |words| {
                    let script = script_of(&words).map(str::to_owned);
                    let line = script.unwrap_or_else(|| join(&words));
                    AgentMeans::Command(place.line(&params["cwd"], line))
                });
            ("commandExecution", &params["callId"], means, Form::Review)
        }
        "applyPatchApproval" => {
            let is_wider = !params["grantRoot"].is_null();
            let files = params["fileChanges"].as_object().filter(|_| !is_wider);
            let mut paths: Vec<String> =
                files.iter().flat_map(|files| files.keys().cloned()).collect();
            let moves = files.iter().flat_map(|files| files.values());
            paths.extend(moves.filter_map(|change| owned(&change["move_path"])));
            ("fileChange", &params["callId"], written(paths), Form::Review)
        }
        "item/permissions/requestApproval" => {
            let form = Form::Permissions(params["permissions"].clone());
            ("permissions", &params["itemId"], AgentMeans::Other, form)
        }
        _ => return None,
    };
    let mut input = params.clone();
    if let (Some(fields), Some(changes)) = (input.as_object_mut(), changes) {
        fields.insert("changes".to_owned(), changes.clone());
    }
    let id = Arc::from(id.as_str().unwrap_or_default());
    let (tool, input) = (tool.to_owned(), Arc::new(input));
    Some((AgentAsk { key, id, tool, input, means, helper: None }, form))
}

/// What a question is about, in the words in which its reason for a no names it.
pub(super) fn subject(ask: &AgentAsk) -> String {
    let what = match &ask.means {
        AgentMeans::Command(line) => format!("the command {line}"),
        AgentMeans::Write(paths) => format!("the change of {}", paths.join(", ")),
        AgentMeans::Fetch(host) => format!("the way to {host}"),
        AgentMeans::Read(_) | AgentMeans::Ours(_) | AgentMeans::Inner | AgentMeans::Other => {
            format!("what you asked for with {}", ask.tool)
        }
    };
    beginning(&what, LONGEST_SUBJECT).to_owned()
}

/// The result that answers a question.
pub(super) fn answer(form: &Form, refusal: Option<&str>) -> Value {
    match (form, refusal) {
        (Form::Item, None) => json!({ "decision": "accept" }),
        (Form::Item, Some(_)) => json!({ "decision": "decline" }),
        (Form::Review, None) => json!({ "decision": "approved" }),
        (Form::Review, Some(reason)) => {
            json!({ "decision": { "denied": { "rejection": reason } } })
        }
        (Form::Permissions(asked), None) => json!({ "permissions": asked, "scope": "turn" }),
        (Form::Permissions(_), Some(_)) => json!({ "permissions": {} }),
    }
}

fn command_means(params: &Value, place: &Place) -> AgentMeans {
    let network = &params["networkApprovalContext"];
    if let Some(host) = network["host"].as_str() {
        return AgentMeans::Fetch(host.to_owned());
    }
    let is_command = matches!(params["kind"].as_str(), None | Some("command"));
    // Permissions beyond those of the sandbox are more than the command line says.
    let is_plain = params["additionalPermissions"].is_null() && network.is_null();
    match params["command"].as_str().filter(|_| is_command && is_plain) {
        Some(command) => AgentMeans::Command(place.line(&params["cwd"], unwrapped(command))),
        None => AgentMeans::Other,
    }
}

/// The paths that a patch changes, with those that it moves files to.
pub(super) fn changed(changes: &Value) -> Vec<String> {
    let changes = changes.as_array().map(Vec::as_slice).unwrap_or_default();
    let paths = |change: &Value| [owned(&change["path"]), owned(&change["kind"]["move_path"])];
    changes.iter().flat_map(paths).flatten().collect()
}

fn owned(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

/// The script of a command line that only hands it to a shell, `/bin/bash -lc 'SCRIPT'`; else the line itself. The
/// shell is Codex's own doing: what is judged is what the model wrote.
pub(in crate::agent) fn unwrapped(command: &str) -> String {
    let words = plain_words(command);
    let script = words.as_deref().and_then(|words| {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        script_of(&words).map(str::to_owned)
    });
    script.unwrap_or_else(|| command.to_owned())
}

/// Where the shells of a machine are.
const SHELL_FOLDERS: [&str; 4] = ["/bin/", "/usr/bin/", "/usr/local/bin/", "/opt/homebrew/bin/"];

/// The script, if these words hand one to a shell and do nothing else.
pub(in crate::agent) fn script_of<'w>(words: &[&'w str]) -> Option<&'w str> {
    match words {
        [shell, "-c" | "-lc", script] => {
            // A program of that name elsewhere may be the agent's own work, and do anything.
            let own = SHELL_FOLDERS.iter().find_map(|folder| shell.strip_prefix(folder));
            matches!(own.unwrap_or(shell), "bash" | "sh" | "dash").then_some(*script)
        }
        _ => None,
    }
}

/// The words of a line in which a shell would change nothing but quotes; nothing if it might change more.
fn plain_words(line: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match letter {
            ' ' => words.extend(word.take()),
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match letters.next()? {
                        '\'' => break,
                        inner => word.push(inner),
                    }
                }
            }
            '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match letters.next()? {
                        '"' => break,
                        '\\' => match letters.next()? {
                            escaped @ ('$' | '`' | '"' | '\\') => word.push(escaped),
                            other => word.extend(['\\', other]),
                        },
                        '$' | '`' | '!' => return None,
                        inner => word.push(inner),
                    }
                }
            }
            '\\' => word.get_or_insert_default().push(letters.next().filter(|l| *l != '\n')?),
            plain if plain.is_alphanumeric() || "/._-+:,@%=".contains(plain) => {
                word.get_or_insert_default().push(plain);
            }
            _ => return None,
        }
    }
    words.extend(word);
    Some(words)
}

/// The words as one line that a shell reads as these words.
pub(in crate::agent) fn join(words: &[&str]) -> String {
    let quoted = words.iter().map(|word| {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:,@%=".contains(c);
        if !word.is_empty() && word.chars().all(is_plain) {
            (*word).to_owned()
        } else {
            format!("'{}'", word.replace('\'', "'\\''"))
        }
    });
    quoted.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_line_that_does_nothing_but_hand_over_a_script_is_unwrapped() {
        assert_eq!(unwrapped("/bin/bash -lc 'touch x; git status'"), "touch x; git status");
        assert_eq!(unwrapped("bash -c ls"), "ls");
        assert_eq!(unwrapped(r#"/bin/bash -lc "echo \"it's\" \$HOME""#), r#"echo "it's" $HOME"#);
        assert_eq!(unwrapped(r"/bin/sh -c 'it'\''s'"), "it's");
        for line in [
            "/bin/bash -lc 'a' 'b'",
            "/bin/bash -lc 'a'; rm -rf x",
            "/bin/bash -lc \"$(rm x)\"",
            "/bin/bash -lc 'open",
            "bash --rcfile=x -c ls",
            "python3 -c 'x'",
            "./bash -c ls",
            "/tmp/bash -c ls",
            "/tmp/usr/bin/sh -c ls",
            "LD_PRELOAD=x bash -c ls",
            "bash -lc\nls",
            "bash\t-lc ls",
            "",
        ] {
            assert_eq!(unwrapped(line), line);
        }
    }

    #[test]
    fn words_become_one_line_and_back() {
        let words = ["a b", "it's", "", "$HOME", "plain/x.rs", "two\nlines"];
        let line = join(&words);
        assert_eq!(plain_words(&line), Some(words.map(str::to_owned).to_vec()));
    }
}
