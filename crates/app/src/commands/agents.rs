//! `drivetrain agents`: which coding agents there are, in which version, and what can be done with each.

use machine::agent::AgentSupport;
use runtime::agent::inventory::{self, Listed, Source};
use runtime::library::Library;
use serde_json::{Value, json};
use view::agents::Row;

use crate::error::CommandError;
use crate::{locate, output};

/// Runs the command.
pub(crate) fn run(json: bool) -> Result<u8, CommandError> {
    let listed = listed()?;
    if json {
        let agents: Vec<Value> = listed.iter().map(entry).collect();
        output::json(&json!({ "v": 1, "agents": agents }));
    } else {
        output::lines(&view::agents::lines(&listed.iter().map(row).collect::<Vec<_>>()));
    }
    Ok(0)
}

/// The agents of the current folder.
pub(crate) fn listed() -> Result<Vec<Listed>, CommandError> {
    let folder = std::env::current_dir().unwrap_or_default();
    let library = Library::of(&folder).judged_by(&locate::home()?, &folder);
    Ok(inventory::list(&library))
}

/// Those that are installed, in one line, and whether each is a version that was tried.
pub(crate) fn in_short(listed: &[Listed]) -> (String, bool) {
    let there: Vec<&Listed> = listed.iter().filter(|agent| agent.installed.is_some()).collect();
    let all_tried = there
        .iter()
        .all(|agent| agent.known.is_none() || agent.support() == Some(AgentSupport::Tested));
    let words = there.iter().map(|agent| match (&agent.version, agent.support()) {
        (Ok(version), Some(AgentSupport::Older)) => {
            format!("{} {version} (older than tried)", agent.name)
        }
        (Ok(version), Some(AgentSupport::Newer)) => {
            format!("{} {version} (newer than tried)", agent.name)
        }
        (Ok(version), _) => format!("{} {version}", agent.name),
        (Err(reason), _) => format!("{} ({reason})", agent.name),
    });
    (words.collect::<Vec<_>>().join(", "), all_tried)
}

fn tested(agent: &Listed) -> Option<(String, String)> {
    let (oldest, newest) = agent.known?.tested;
    Some((oldest.to_string(), newest.to_string()))
}

fn file(agent: &Listed) -> Option<String> {
    match &agent.source {
        Source::BuiltIn => None,
        Source::User(path) | Source::Project(path) => Some(path.to_string_lossy().into_owned()),
    }
}

fn row(agent: &Listed) -> Row {
    Row {
        name: agent.name.clone(),
        file: file(agent),
        problem: agent.program.as_ref().err().cloned(),
        installed: agent.installed.as_ref().map(|path| path.to_string_lossy().into_owned()),
        install: agent.install(),
        version: agent.version.clone(),
        support: agent.support(),
        tested: tested(agent),
        can: agent.can(),
        says_itself: agent.says_itself().to_vec(),
        limits: agent.limits().iter().map(|limit| (*limit).to_owned()).collect(),
    }
}

fn entry(agent: &Listed) -> Value {
    let program = agent.program.as_ref().ok();
    let source = match agent.source {
        Source::BuiltIn => "built_in",
        Source::User(_) => "user",
        Source::Project(_) => "project",
    };
    json!({
        "name": agent.name,
        "source": source,
        "file": file(agent),
        "problem": agent.program.as_ref().err(),
        "protocol": program.map(|program| program.protocol),
        "command": program.map(|program| &program.command),
        "installed": agent.installed.as_ref().map(|path| path.to_string_lossy()),
        "install": agent.install(),
        "version": agent.version.as_ref().ok(),
        "version_problem": agent.version.as_ref().err(),
        "support": agent.support(),
        "tested": tested(agent).map(|(oldest, newest)| [oldest, newest]),
        "can": agent.can(),
        "says_itself": agent.says_itself(),
        "limits": agent.limits(),
    })
}
