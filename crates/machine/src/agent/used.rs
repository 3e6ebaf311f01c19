//! Which calls of its own tools an agent asked about, and which it made unasked, by what it says of them. An agent that must ask
//! about all and did not is ended at once: before the loop could have judged it, and also while no turn hears it. So this is
//! kept beside its process and not in the state of the task.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::json;

use super::{AgentNews, AgentProtocol, GateDepth, offer};
use crate::stream::StreamEvent;

/// Calls that it asked about and that have not ended, as far as they are remembered.
const ASKED_KEPT: usize = 4096;
/// Parameters of calls that it is making, as far as they are remembered: how many, and how many bytes of each.
const INPUTS_KEPT: usize = 256;
const INPUT_KEPT: usize = 16 << 10;
/// How much of what a tool of its own printed goes to the journal, in characters.
const RESULT_KEPT: usize = 2000;
/// How much of a tool's name is said of one that was used without asking, in characters.
const NAME_SHOWN: usize = 80;

/// What is known of the calls of one agent's process.
#[derive(Debug)]
pub struct UsedTools {
    /// Whether every call of every tool is asked about.
    asks_all: bool,
    /// Tools of ours, as it names them: they are judged when they are called.
    ours: BTreeSet<String>,
    /// The calls that were asked about, and those of tools of ours.
    asked: BTreeSet<Arc<str>>,
    /// The parameters of the calls that it is making: how one ended is told without them.
    inputs: BTreeMap<Arc<str>, String>,
}

/// The end of a call, as the agent tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndedTool {
    /// The agent's id of the call.
    pub id: Arc<str>,
    /// The tool.
    pub tool: String,
    /// Whether it went well.
    pub ok: bool,
    /// What came of it.
    pub text: String,
}

/// What follows from the end of a call.
#[derive(Debug, PartialEq)]
pub struct JudgedEnd {
    /// What the loop is told, if a turn hears it.
    pub news: AgentNews,
    /// Why the agent cannot be trusted any more, if it cannot.
    pub breach: Option<String>,
}

impl UsedTools {
    /// Of a process that has called nothing. `ours` are the tools that it is offered, as it names them.
    pub fn new(protocol: AgentProtocol, ours: BTreeSet<String>) -> UsedTools {
        let asks_all = protocol.can().gate == GateDepth::Hook;
        UsedTools { asks_all, ours, asked: BTreeSet::new(), inputs: BTreeMap::new() }
    }

    /// It asked about a call, or called a tool of ours.
    pub fn note_asked(&mut self, id: &Arc<str>) {
        self.asked.insert(Arc::clone(id));
        if self.asked.len() > ASKED_KEPT {
            self.asked.pop_first();
        }
    }

    /// Remembers what a call is made with.
    pub fn note_input(&mut self, event: &StreamEvent) {
        let StreamEvent::InputJsonDelta { id, json, .. } = event else { return };
        let known = self.inputs.entry(Arc::clone(id)).or_default();
        if known.len() + json.len() <= INPUT_KEPT {
            known.push_str(json);
        }
        if self.inputs.len() > INPUTS_KEPT {
            self.inputs.pop_first();
        }
    }

    /// A call ended; `is_heard` if there is a turn that is told of it.
    pub fn judge_end(&mut self, ended: EndedTool, is_heard: bool) -> JudgedEnd {
        let EndedTool { id, tool, ok, text } = ended;
        let was_asked = match ok && self.asks_all {
            true => self.asked.remove(&id),
            false => self.asked.contains(&id),
        };
        let input = self.inputs.remove(&id).unwrap_or_default();
        let is_offered = self.ours.contains(&tool);
        let breach = (ok && self.asks_all && !was_asked && !is_offered).then(|| {
            let tool: String = tool.chars().take(NAME_SHOWN).collect();
            format!("it used the tool {tool:?} without asking")
        });
        let text = text.chars().take(RESULT_KEPT).collect();
        // Only Claude Code names tools of ours in one way for certain.
        let is_ours = is_offered || !self.ours.is_empty() && tool.contains(offer::SOURCE);
        if was_asked || is_ours || tool.is_empty() {
            return JudgedEnd { news: AgentNews::ToolEnded { id, ok, text }, breach };
        }
        // Told twice, it is one call; where all must be asked about, this does not make up for it.
        if is_heard && !self.asks_all {
            self.note_asked(&id);
        }
        let input = Arc::new(serde_json::from_str(&input).unwrap_or_else(|_| json!({})));
        JudgedEnd { news: AgentNews::Used { id, tool, input, ok, text }, breach }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: &str = "mcp__drivetrain__memory";

    fn used(protocol: AgentProtocol) -> UsedTools {
        UsedTools::new(protocol, BTreeSet::from([OURS.to_owned()]))
    }

    fn ended(id: &str, tool: &str, ok: bool) -> EndedTool {
        EndedTool { id: id.into(), tool: tool.to_owned(), ok, text: "printed".to_owned() }
    }

    /// What is made of an end: the word of the news, and whether it is a breach.
    fn judged(used: &mut UsedTools, id: &str, tool: &str, ok: bool) -> (&'static str, bool) {
        let JudgedEnd { news, breach } = used.judge_end(ended(id, tool, ok), true);
        let word = match news {
            AgentNews::ToolEnded { .. } => "ended",
            AgentNews::Used { .. } => "used",
            other => panic!("{other:?}"),
        };
        (word, breach.is_some())
    }

    #[test]
    fn a_call_that_was_asked_about_ends_and_was_not_used_unasked() {
        for protocol in [AgentProtocol::Claude, AgentProtocol::Codex, AgentProtocol::Acp] {
            for ok in [true, false] {
                let mut used = used(protocol);
                used.note_asked(&"c1".into());
                assert_eq!(judged(&mut used, "c1", "Bash", ok), ("ended", false), "{protocol:?}");
            }
        }
    }

    #[test]
    fn an_agent_that_must_ask_about_all_breaks_the_rules_with_one_call_that_went_well_unasked() {
        let mut used = used(AgentProtocol::Claude);
        assert_eq!(judged(&mut used, "c1", "Bash", true), ("used", true));
        // Told again, it is still a call that nobody was asked about.
        assert_eq!(judged(&mut used, "c1", "Bash", true), ("used", true));
        assert_eq!(judged(&mut used, "c2", "Bash", false), ("used", false), "it did nothing");
        let breach = used.judge_end(ended("c3", &"B".repeat(100), true), true).breach;
        let said = format!("it used the tool {:?} without asking", "B".repeat(80));
        assert_eq!(breach, Some(said));
    }

    #[test]
    fn a_yes_is_for_one_call_where_all_are_asked_about_and_a_refused_one_may_be_told_again() {
        let mut used = used(AgentProtocol::Claude);
        used.note_asked(&"c1".into());
        assert_eq!(judged(&mut used, "c1", "Bash", true), ("ended", false));
        assert_eq!(judged(&mut used, "c1", "Bash", true), ("used", true));
        used.note_asked(&"c2".into());
        for _ in 0..2 {
            assert_eq!(judged(&mut used, "c2", "Bash", false), ("ended", false));
        }
    }

    #[test]
    fn an_agent_that_asks_about_some_is_seen_to_use_the_others_once_each() {
        for protocol in [AgentProtocol::Codex, AgentProtocol::Acp] {
            let mut used = used(protocol);
            assert_eq!(judged(&mut used, "c1", "read", true), ("used", false));
            assert_eq!(judged(&mut used, "c1", "read", true), ("ended", false), "told twice");
            // What no turn heard is told when one does.
            assert_eq!(used.judge_end(ended("c2", "read", true), false).breach, None);
            assert_eq!(judged(&mut used, "c2", "read", true), ("used", false));
        }
    }

    #[test]
    fn tools_of_ours_are_judged_when_they_are_called_and_ends_without_a_name_are_of_no_tool() {
        for protocol in [AgentProtocol::Claude, AgentProtocol::Codex] {
            assert_eq!(judged(&mut used(protocol), "c1", OURS, true), ("ended", false));
        }
        // A name that only looks like one of ours is believed where nothing hangs on it.
        let like = "drivetrain/memory";
        assert_eq!(judged(&mut used(AgentProtocol::Claude), "c1", like, true), ("ended", true));
        assert_eq!(judged(&mut used(AgentProtocol::Codex), "c1", like, true), ("ended", false));
        let mut without = UsedTools::new(AgentProtocol::Codex, BTreeSet::new());
        assert_eq!(judged(&mut without, "c1", like, true), ("used", false));
        assert_eq!(judged(&mut used(AgentProtocol::Codex), "c1", "", true), ("ended", false));
    }

    #[test]
    fn a_call_that_was_used_unasked_is_told_with_its_parameters_and_the_beginning_of_what_it_printed()
     {
        let piece = |id: &str, json: &str| StreamEvent::InputJsonDelta {
            index: 0,
            id: id.into(),
            json: json.to_owned(),
        };
        let mut used = used(AgentProtocol::Codex);
        used.note_input(&piece("c1", r#"{"path":"#));
        used.note_input(&piece("c2", "{"));
        used.note_input(&piece("c1", r#""a.txt"}"#));
        let mut told = |id: &str| {
            let text = "x".repeat(RESULT_KEPT + 1);
            match used.judge_end(EndedTool { text, ..ended(id, "read", true) }, true).news {
                AgentNews::Used { input, text, .. } => (input.to_string(), text.len()),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(told("c1"), (r#"{"path":"a.txt"}"#.to_owned(), RESULT_KEPT));
        assert_eq!(told("c2"), ("{}".to_owned(), RESULT_KEPT), "what cannot be read is not told");
        assert_eq!(told("c3"), ("{}".to_owned(), RESULT_KEPT));
    }

    #[test]
    fn what_is_remembered_has_an_end() {
        let mut used = used(AgentProtocol::Codex);
        for number in 0..2 * ASKED_KEPT {
            let id: Arc<str> = format!("c{number}").into();
            used.note_asked(&id);
            let json = "x".repeat(10);
            used.note_input(&StreamEvent::InputJsonDelta { index: 0, id, json });
        }
        let id: Arc<str> = "z".into();
        for _ in 0..INPUT_KEPT {
            let (id, json) = (Arc::clone(&id), "xx".to_owned());
            used.note_input(&StreamEvent::InputJsonDelta { index: 0, id, json });
        }
        assert_eq!((used.asked.len(), used.inputs.len()), (ASKED_KEPT, INPUTS_KEPT));
        assert_eq!(used.inputs[&id].len(), INPUT_KEPT);
    }
}
