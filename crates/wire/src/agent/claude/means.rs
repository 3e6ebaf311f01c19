//! What Claude Code's own tools do, in words that the gate knows. A tool that is not named here, or whose parameters
//! are not what is expected, means something else, which the gate judges by its name.

use machine::agent::AgentMeans;
use serde_json::Value;

/// What a call of this tool does. Paths are as the agent has them, most often absolute.
pub fn means(tool: &str, input: &Value) -> AgentMeans {
    let text = |key: &str| input[key].as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    let meant = match tool {
        "Bash" => text("command").map(AgentMeans::Command),
        // A command whose lines wake the agent, or an address that it listens to.
        "Monitor" => match (text("command"), input["ws"]["url"].as_str()) {
            (Some(command), None) if input["ws"].is_null() => Some(AgentMeans::Command(command)),
            (None, Some(url)) => Some(AgentMeans::Fetch(url.to_owned())),
            _ => None,
        },
        // Where a helper works is not its own decision.
        "Agent" | "Task" if !input["isolation"].is_null() => None,
        "Read" | "NotebookRead" => {
            text("file_path").or_else(|| text("notebook_path")).map(AgentMeans::Read)
        }
        // Without a path they look below the folder that the agent works in.
        "Glob" | "Grep" | "LS" => {
            Some(AgentMeans::Read(text("path").unwrap_or_else(|| ".".into())))
        }
        "Edit" | "Write" | "MultiEdit" => {
            text("file_path").map(|path| AgentMeans::Write(vec![path]))
        }
        "NotebookEdit" => text("notebook_path").map(|path| AgentMeans::Write(vec![path])),
        "WebFetch" => text("url").map(AgentMeans::Fetch),
        _ if is_inner(tool) => Some(AgentMeans::Inner),
        _ => None,
    };
    meant.unwrap_or(AgentMeans::Other)
}

/// Whether a tool keeps to the agent itself: lists, helpers (each of whose calls is asked about), what a background
/// task has printed, and finding tools.
fn is_inner(tool: &str) -> bool {
    matches!(
        tool,
        "Agent"
            | "AgentOutputTool"
            | "BashOutput"
            | "KillBash"
            | "KillShell"
            | "ListAgents"
            | "ReportFindings"
            | "Skill"
            | "StructuredOutput"
            | "Task"
            | "TaskCreate"
            | "TaskGet"
            | "TaskList"
            | "TaskOutput"
            | "TaskStop"
            | "TaskUpdate"
            | "TodoRead"
            | "TodoWrite"
            | "ToolSearch"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_tools_do_is_said_in_words_that_the_gate_knows() {
        let cases = [
            ("Bash", json!({"command": "ls"}), AgentMeans::Command("ls".into())),
            ("Read", json!({"file_path": "/w/a"}), AgentMeans::Read("/w/a".into())),
            ("Edit", json!({"file_path": "/w/a"}), AgentMeans::Write(vec!["/w/a".into()])),
            ("Write", json!({"file_path": "/w/a"}), AgentMeans::Write(vec!["/w/a".into()])),
            ("MultiEdit", json!({"file_path": "/w/a"}), AgentMeans::Write(vec!["/w/a".into()])),
            ("NotebookEdit", json!({"notebook_path": "n"}), AgentMeans::Write(vec!["n".into()])),
            ("Grep", json!({"pattern": "x"}), AgentMeans::Read(".".into())),
            ("Glob", json!({"pattern": "x", "path": "/etc"}), AgentMeans::Read("/etc".into())),
            ("LS", json!({"path": "/etc"}), AgentMeans::Read("/etc".into())),
            (
                "WebFetch",
                json!({"url": "https://a.example"}),
                AgentMeans::Fetch("https://a.example".into()),
            ),
            ("Task", json!({"prompt": "x"}), AgentMeans::Inner),
            ("TodoWrite", json!({"todos": []}), AgentMeans::Inner),
            ("Skill", json!({}), AgentMeans::Inner),
            ("Monitor", json!({"command": "tail -f x"}), AgentMeans::Command("tail -f x".into())),
            ("Monitor", json!({"ws": {"url": "wss://a"}}), AgentMeans::Fetch("wss://a".into())),
            ("Monitor", json!({"command": "ls", "ws": {"url": "wss://a"}}), AgentMeans::Other),
            ("Agent", json!({"prompt": "x", "isolation": "worktree"}), AgentMeans::Other),
            // A search goes through the model's own server, to nobody knows where.
            ("WebSearch", json!({"query": "x"}), AgentMeans::Other),
            ("mcp__github__push", json!({}), AgentMeans::Other),
            ("Bash", json!({"cmd": "ls"}), AgentMeans::Other),
            ("Bash", json!({"command": ["ls"]}), AgentMeans::Other),
            ("Edit", json!({}), AgentMeans::Other),
            ("Tomorrow", json!({"command": "ls"}), AgentMeans::Other),
        ];
        for (tool, input, meant) in cases {
            assert_eq!(means(tool, &input), meant, "{tool} {input}");
        }
    }
}
