//! A rule for the project, made of an approved call and written into the text of a policy file. Every other byte of the
//! file stays as it is.

use serde_json::Value;

use crate::policy::permission::tool_paths;
use crate::tool;

/// What a command's words may be made of: anything else would mean something to a shell or to a pattern.
const PLAIN: &str = "-_./:=@%+,^";

const NEEDS_PATTERN: &str = "a rule for shell is a pattern, which covers whatever arguments follow it: say which, such as \"git push\"";

/// A rule that allows what was approved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draft {
    /// Each with what it is to be: one of several, where there are several.
    keys: Vec<(&'static str, Vec<String>)>,
}

/// The rule that allows this call, and for `shell` what is like the pattern. It is as narrow as a rule can be; the
/// error says what cannot be written as one.
pub fn draft(tool: &str, input: &Value, like: Option<&str>) -> Result<Draft, String> {
    let mut keys = vec![("tool", vec![tool.to_owned()])];
    match (tool, like) {
        ("shell", Some(like)) => keys.push(("command", vec![pattern(like)?])),
        // A rule means the words and whatever arguments follow: how many of them is for the person to say.
        ("shell", None) => return Err(NEEDS_PATTERN.to_owned()),
        (_, Some(_)) => return Err(format!("a pattern is for shell, and this is {tool}")),
        // A rule cannot say which address, or what an agent asks a tool of its own for.
        _ if tool::find(tool).is_none() && !tool.starts_with("mcp__") => {
            return Err(format!(
                "a rule for {tool} would allow whatever it is asked for: approve this call for the task, or write \
                 the rule yourself (`tool = {tool:?}`)"
            ));
        }
        (_, None) => {
            let paths = paths(tool, input);
            let paths: Result<Vec<String>, String> =
                paths.iter().map(|path| exact_path(path)).collect();
            let paths = paths?;
            if !paths.is_empty() {
                keys.push(("path", paths));
            }
        }
    }
    Ok(Draft { keys })
}

/// The files that a call is about: without them the rule would be about every call of the tool.
fn paths(tool: &str, input: &Value) -> Vec<String> {
    match tool {
        "write" | "edit" | "patch" | "read" | "glob" | "grep" | "skeleton" | "view" => {
            let mut paths: Vec<String> = Vec::new();
            for (path, _) in tool_paths(tool, input) {
                if !paths.contains(&path) {
                    paths.push(path);
                }
            }
            paths
        }
        _ if tool::find(tool).is_some() => {
            input["path"].as_str().map(str::to_owned).into_iter().collect()
        }
        _ => Vec::new(),
    }
}

fn words(text: &str, more: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || PLAIN.contains(c) || more.contains(c);
    !text.trim().is_empty() && text.chars().all(fits)
}

fn pattern(like: &str) -> Result<String, String> {
    let program = like.split_whitespace().next().unwrap_or_default();
    if words(like, " *") && !program.contains('*') {
        return Ok(like.split_whitespace().collect::<Vec<_>>().join(" "));
    }
    Err(format!(
        "{like:?} is not a pattern for a rule: expected a program and plain words, such as \"git push *\""
    ))
}

fn exact_path(path: &str) -> Result<String, String> {
    let up = path.split('/').any(|name| name == "..");
    if words(path, " ") && !up {
        let path = path.strip_prefix("./").unwrap_or(path);
        // A pattern without a slash would be a name at any depth.
        let is_name = !path.contains('/') && path != ".";
        return Ok(if is_name { format!("./{path}") } else { path.to_owned() });
    }
    Err(format!("{path:?} cannot be written as a rule: approve it for the task"))
}

impl Draft {
    /// The rule as it stands in a file, below a comment.
    pub fn toml(&self, comment: &str) -> String {
        let comment: String = comment.chars().filter(|c| !c.is_control()).collect();
        let mut text = format!("# {comment}\n[[rule]]\n");
        for (key, values) in &self.keys {
            let value = match values.as_slice() {
                [value] => toml::Value::from(value.as_str()),
                values => toml::Value::from(values.to_vec()),
            };
            text.push_str(&format!("{key} = {value}\n"));
        }
        text.push_str("decide = \"allow\"\nreason = \"approved for the project\"\n");
        text
    }
}

/// Puts a rule into the text of a file: as late as it still decides, which `decides` says, so that it overrules no more
/// of the file than it must. The error is that of the last place, if there is none.
pub fn insert(
    text: &str,
    rule: &str,
    decides: impl Fn(&str) -> Result<(), String>,
) -> Result<String, String> {
    let mut failed = String::new();
    for at in places(text) {
        let (before, after) = text.split_at(at);
        let mut whole = before.to_owned();
        if !before.is_empty() && !before.ends_with('\n') {
            whole.push('\n');
        }
        if !before.trim().is_empty() && !before.ends_with("\n\n") {
            whole.push('\n');
        }
        whole.push_str(rule);
        if !after.is_empty() {
            whole.push('\n');
            whole.push_str(after);
        }
        match decides(&whole) {
            Ok(()) => return Ok(whole),
            Err(reason) => failed = reason,
        }
    }
    Err(failed)
}

/// Where a rule can stand: at the end, and before each rule with the comment above it, from the last to the first.
fn places(text: &str) -> Vec<usize> {
    let mut places = vec![text.len()];
    let (mut at, mut comment) = (0, None);
    let mut heads = Vec::new();
    for line in text.split_inclusive('\n') {
        let trimmed = line.trim();
        if trimmed.starts_with('#') {
            comment.get_or_insert(at);
        } else {
            if trimmed.starts_with("[[rule]]") {
                heads.push(comment.unwrap_or(at));
            }
            comment = None;
        }
        at += line.len();
    }
    places.extend(heads.into_iter().rev());
    places
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_rule_means_exactly_the_call_or_the_pattern_that_was_said() {
        let rule = |tool, input, like| draft(tool, &input, like).map(|draft| draft.toml("c"));
        let push = json!({ "command": "git push  origin" });
        assert_eq!(rule("shell", push.clone(), None).unwrap_err(), NEEDS_PATTERN);
        assert_eq!(
            rule("shell", push, Some("git  push")).unwrap(),
            "# c\n[[rule]]\ntool = \"shell\"\ncommand = \"git push\"\ndecide = \"allow\"\nreason = \"approved for the project\"\n"
        );
        assert!(
            rule("write", json!({ "path": "./a b.txt" }), None)
                .unwrap()
                .contains("path = \"./a b.txt\""),
            "here, and not at any depth"
        );
        // What a coding agent writes may be several files; what a diff changes is in its text.
        let several = json!({ "paths": ["src/a.rs", "b.rs"], "input": {} });
        assert!(
            rule("write", several, None).unwrap().contains("path = [\"src/a.rs\", \"./b.rs\"]\n")
        );
        let diff = "--- a/src/a.rs\n+++ b/src/a.rs\n@@ -1 +1 @@\n-x\n+y\n";
        let patch = rule("patch", json!({ "diff": diff }), None).unwrap();
        assert!(patch.contains("path = \"src/a.rs\"\n"), "{patch}");
        assert!(
            rule("mcp__s__t", json!({ "path": "x" }), None)
                .unwrap()
                .contains("tool = \"mcp__s__t\"\ndecide")
        );
        for tool in ["fetch", "claude.WebSearch"] {
            let wide = rule(tool, json!({ "url": "https://example.org/a" }), None).unwrap_err();
            assert!(wide.contains("whatever it is asked for"), "{wide}");
        }
        for (tool, input, like) in [
            ("shell", json!({ "command": "make" }), Some("make\n[[rule]]")),
            ("shell", json!({ "command": "make" }), Some("*")),
            ("shell", json!({ "command": "make" }), Some("make $(x)")),
            ("write", json!({ "path": "../x" }), None),
            ("write", json!({ "path": "src/*" }), None),
            ("write", json!({ "paths": ["src/a.rs", "src/*"] }), None),
            ("glob", json!({ "pattern": "**" }), None),
            ("write", json!({ "path": "x" }), Some("x *")),
        ] {
            assert!(rule(tool, input.clone(), like).is_err(), "{tool} {input} {like:?}");
        }
    }

    #[test]
    fn a_rule_goes_to_the_last_place_where_it_decides_and_the_rest_stays() {
        let text = "# top\nunattended = \"wait\"\n\n# one\n[[rule]]\ntool = \"a\"\n[[rule]] # two\ntool = \"b\"";
        assert_eq!(insert(text, "NEW\n", |_| Ok(())).unwrap(), format!("{text}\n\nNEW\n"));
        let before = |mark: &'static str| {
            move |whole: &str| {
                let early = whole.find("NEW").unwrap() < whole.find(mark).unwrap();
                if early { Ok(()) } else { Err("too late".to_owned()) }
            }
        };
        let second = insert(text, "NEW\n", before("two")).unwrap();
        assert_eq!(second.replace("\nNEW\n\n", ""), text);
        assert!(second.find("NEW").unwrap() > second.find("\"a\"").unwrap());
        let first = insert(text, "NEW\n", before("# one")).unwrap();
        assert_eq!(first.replace("NEW\n\n", ""), text);
        assert_eq!(insert(text, "NEW\n", before("# top")).unwrap_err(), "too late");
        assert_eq!(insert("", "NEW\n", |_| Ok(())).unwrap(), "NEW\n");
    }
}
