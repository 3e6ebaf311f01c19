//! The tools of drivetrain's own that an agent is offered beside those that it has: what it cannot do itself. A call of one
//! is a call of a worker like any other; who performs it is drivetrain.

use super::AgentProgram;
use crate::policy::charter::Charter;
use crate::server::ToolOffer;
use crate::tool;

/// Who offers them, as an agent knows it.
pub const SOURCE: &str = "drivetrain";

/// Their names. What an agent has itself (files, commands, searching) is not offered a second time.
pub const OFFERED: [&str; 4] = ["memory", "skeleton", "validator.run", "view"];

/// What an agent is offered: nothing if it cannot be, and nothing that its file takes away.
pub fn to(program: &AgentProgram, charter: &Charter) -> Vec<ToolOffer> {
    if !program.can().tools {
        return Vec::new();
    }
    let known = OFFERED.iter().filter(|name| charter.has(name)).filter_map(|name| tool::find(name));
    known
        .map(|tool| ToolOffer {
            name: tool::model_name(tool.name).into_owned(),
            tool: tool.name.to_owned(),
            summary: tool.summary.to_owned(),
            schema: tool::schema(tool),
            class: tool.class,
            source: SOURCE.to_owned(),
            changed: false,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(agent: &str, charter: &Charter) -> Vec<String> {
        let program = AgentProgram::built_in(agent).unwrap();
        to(&program, charter).into_iter().map(|offer| offer.name).collect()
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
}
