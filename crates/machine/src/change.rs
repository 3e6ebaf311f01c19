//! What a call says that it changes in files, read from its parameters: those of our own tools, and what coding agents ask with.

use serde_json::Value;

use crate::diff;

/// One place that a call changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The file, as the call names it.
    pub path: String,
    /// The text before; none if it is not known or there was none.
    pub old: Option<String>,
    /// The text after.
    pub new: String,
}

/// What a call changes, where its parameters say so.
pub fn changes(input: &Value) -> Vec<Change> {
    // What an agent asked with stands beside the paths that it was taken for.
    let raw = input.get("input").unwrap_or(input);
    if let Some(changes) = raw["changes"].as_array() {
        return changes.iter().flat_map(patched).collect();
    }
    if let Some(diff) = raw["diff"].as_str() {
        return unified(diff);
    }
    if let Some(content) = raw["content"].as_array() {
        return content.iter().filter_map(whole_file).collect();
    }
    let paths = ["path", "file_path", "filePath"];
    let Some(path) = paths.iter().find_map(|name| raw[*name].as_str()) else { return Vec::new() };
    if let Some(edits) = raw["edits"].as_array() {
        return edits.iter().filter_map(|edit| replaced(path, edit)).collect();
    }
    if let Some(change) = replaced(path, raw) {
        return vec![change];
    }
    let new = raw["content"].as_str();
    new.map(|new| Change { path: path.to_owned(), old: None, new: new.to_owned() })
        .into_iter()
        .collect()
}

/// A text in the place of another.
fn replaced(path: &str, edit: &Value) -> Option<Change> {
    let text = |names: [&str; 3]| names.into_iter().find_map(|name| edit[name].as_str());
    let old = text(["old", "old_string", "oldString"])?.to_owned();
    let new = text(["new", "new_string", "newString"])?.to_owned();
    Some(Change { path: path.to_owned(), old: Some(old), new })
}

/// A file before and after, as agents of the Agent Client Protocol tell it.
fn whole_file(entry: &Value) -> Option<Change> {
    let (path, new) = (entry["path"].as_str()?, entry["newText"].as_str()?);
    if entry["type"] != "diff" {
        return None;
    }
    let old = entry["oldText"].as_str().map(str::to_owned);
    Some(Change { path: path.to_owned(), old, new: new.to_owned() })
}

/// The places of a unified diff that names its files.
fn unified(text: &str) -> Vec<Change> {
    let patches = diff::parse(text).unwrap_or_default();
    let places = patches.iter().flat_map(|patch| {
        patch.hunks.iter().map(|hunk| {
            let (old, new) = hunk.texts();
            let old = patch.old.is_some().then_some(old);
            Change { path: patch.name().to_owned(), old, new }
        })
    });
    places.collect()
}

/// What one entry of Codex's patch changed. A file that it adds or deletes is there whole, of others each place is.
fn patched(change: &Value) -> Vec<Change> {
    let (Some(path), Some(diff)) = (change["path"].as_str(), change["diff"].as_str()) else {
        return Vec::new();
    };
    let path = change["kind"]["move_path"].as_str().unwrap_or(path).to_owned();
    match change["kind"]["type"].as_str() {
        Some("add") => vec![Change { path, old: None, new: diff.to_owned() }],
        Some("delete") => vec![Change { path, old: Some(diff.to_owned()), new: String::new() }],
        _ => hunks(diff)
            .into_iter()
            .map(|(old, new)| Change { path: path.clone(), old: Some(old), new })
            .collect(),
    }
}

/// The text before and after, of each place of a unified diff that names no file.
fn hunks(diff: &str) -> Vec<(String, String)> {
    let mut hunks: Vec<(String, String)> = Vec::new();
    for line in diff.split_inclusive('\n') {
        if line.starts_with("@@") {
            hunks.push(Default::default());
        }
        let Some((old, new)) = hunks.last_mut() else { continue };
        match line.split_at_checked(1) {
            Some(("-", rest)) => old.push_str(rest),
            Some(("+", rest)) => new.push_str(rest),
            Some((" ", rest)) => [old, new].into_iter().for_each(|text| text.push_str(rest)),
            // The mark of the place, or that the file ends without a line break.
            _ => {}
        }
    }
    hunks
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn change(path: &str, old: Option<&str>, new: &str) -> Change {
        Change { path: path.to_owned(), old: old.map(str::to_owned), new: new.to_owned() }
    }

    #[test]
    fn a_change_is_found_however_the_tool_or_the_agent_tells_it() {
        let one = |input: Value| -> Change {
            let [change] = changes(&input).try_into().unwrap();
            change
        };
        let edited = change("a.rs", Some("x"), "y");
        assert_eq!(one(json!({ "path": "a.rs", "old": "x", "new": "y" })), edited);
        let asked = json!({ "file_path": "a.rs", "old_string": "x", "new_string": "y" });
        assert_eq!(one(json!({ "paths": ["/w/a.rs"], "input": asked })), edited);
        let asked = json!({ "filePath": "a.rs", "oldString": "x", "newString": "y" });
        assert_eq!(one(json!({ "paths": ["/w/a.rs"], "input": asked })), edited);
        let several = json!([{ "old_string": "x", "new_string": "y" }]);
        assert_eq!(one(json!({ "file_path": "a.rs", "edits": several })), edited);
        let made = json!({ "path": "a.rs", "content": "y\n" });
        assert_eq!(one(made), change("a.rs", None, "y\n"));
        let whole =
            json!([{ "type": "diff", "path": "a.rs", "oldText": "x\nz\n", "newText": "y\nz\n" }]);
        let asked = json!({ "input": { "kind": "edit", "content": whole }, "paths": ["a.rs"] });
        assert_eq!(one(asked), change("a.rs", Some("x\nz\n"), "y\nz\n"));
        let diff = "Index: /w/a.rs\n=====\n--- /w/a.rs\n+++ /w/a.rs\n@@ -1,2 +1,2 @@\n-x\n+y\n z\n";
        let asked = json!({ "input": { "filepath": "/w/a.rs", "diff": diff }, "paths": ["a.rs"] });
        assert_eq!(one(asked), change("/w/a.rs", Some("x\nz\n"), "y\nz\n"));
        assert_eq!(changes(&json!({ "command": "rm a.rs" })), []);
        assert_eq!(changes(&json!({ "diff": "no diff at all" })), []);
    }
}
