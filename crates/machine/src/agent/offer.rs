//! The tools that an agent is offered beside those that it has: of drivetrain's own those that do what it cannot do itself,
//! and all those of the servers that the task has. A call of one is a call of a worker like any other; who performs it is
//! drivetrain.

use super::AgentProgram;
use crate::policy::charter::Charter;
use crate::server::{PREFIX, ToolOffer};
use crate::tool;

/// Who offers them, as an agent knows it.
pub const SOURCE: &str = "drivetrain";

/// The names of drivetrain's own. What an agent has itself (files, commands, searching) is not offered a second time.
pub const OFFERED: [&str; 4] = ["memory", "skeleton", "validator.run", "view"];

/// What an agent is offered: nothing if it cannot be, and nothing that its file takes away. `served` is what the task's
/// servers have.
pub fn to(program: &AgentProgram, charter: &Charter, served: &[ToolOffer]) -> Vec<ToolOffer> {
    if !program.can().tools {
        return Vec::new();
    }
    let own = OFFERED.iter().filter_map(|name| tool::find(name)).map(|tool| ToolOffer {
        name: tool::model_name(tool.name).into_owned(),
        tool: tool.name.to_owned(),
        summary: tool.summary.to_owned(),
        schema: tool::schema(tool),
        class: tool.class,
        source: SOURCE.to_owned(),
        changed: false,
    });
    // To the agent all of them are of one server, and it puts that one's name in front.
    let served = served.iter().map(|offer| ToolOffer {
        name: offer.name.strip_prefix(PREFIX).unwrap_or(&offer.name).to_owned(),
        tool: offer.name.clone(),
        ..offer.clone()
    });
    own.chain(served).filter(|offer| charter.has(&offer.tool)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(agent: &str, charter: &Charter) -> Vec<String> {
        let program = AgentProgram::built_in(agent).unwrap();
        to(&program, charter, &[]).into_iter().map(|offer| offer.name).collect()
    }

    #[test]
    fn every_name_is_a_tool_and_only_an_agent_that_can_be_offered_tools_is() {
        let all = ["memory", "skeleton", "validator_run", "view"];
        assert_eq!(names("claude", &Charter::default()), all);
        for agent in ["codex", "gemini", "opencode"] {
            assert_eq!(names(agent, &Charter::default()), [] as [&str; 0], "{agent}");
        }
    }

    #[test]
    fn what_an_agents_file_takes_away_is_not_offered() {
        let without = Charter { disabled: vec!["validator.run".to_owned()], ..Charter::default() };
        assert_eq!(names("claude", &without), ["memory", "skeleton", "view"]);
        let only = Charter { enabled: Some(vec!["view".to_owned()]), ..Charter::default() };
        assert_eq!(names("claude", &only), ["view"]);
    }
    #[test]
    fn tools_of_servers_are_offered_by_short_names_and_called_by_their_own() {
        let served = ToolOffer {
            name: "mcp__db__query".to_owned(),
            tool: "query".to_owned(),
            summary: "asks".to_owned(),
            schema: serde_json::json!({ "type": "object" }),
            class: crate::tool::EffectClass::Unsafe,
            source: "db".to_owned(),
            changed: false,
        };
        let offered = |agent: &str, charter: &Charter| {
            let program = AgentProgram::built_in(agent).unwrap();
            to(&program, charter, std::slice::from_ref(&served))
        };
        let last = offered("claude", &Charter::default()).pop().unwrap();
        assert_eq!((last.name.as_str(), last.tool.as_str()), ("db__query", "mcp__db__query"));
        assert_eq!(offered("gemini", &Charter::default()), []);
        let without = Charter { disabled: vec!["mcp__db__*".to_owned()], ..Charter::default() };
        assert_eq!(offered("claude", &without).len(), OFFERED.len());
    }
}
