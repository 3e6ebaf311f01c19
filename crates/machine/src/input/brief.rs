//! What is journaled in the place of an input that no record can hold: that it came, and that it was too large. A report of an
//! effect must have an end in the journal, or the effect would be under way for ever.

use super::{Command, Input, Signal, Withdrawal};
use crate::agent::{AgentEnd, AgentFault, AgentNews, AgentTurn};
use crate::child::step::ChildEnd;
use crate::message::{ModelFailure, Retry};
use crate::server::ServerTools;
use crate::tool::{Status, ToolResult};

/// How much is kept of an agent's words, in bytes.
const KEPT_WORDS: usize = 64 << 10;

impl Input {
    /// The same in brief: of `size` bytes, where at most `most` can be kept. The error is for whoever brought it, and says
    /// that nothing was taken.
    pub fn in_brief(&self, size: usize, most: usize) -> Result<Input, String> {
        let too_large = format!("it is too large for the journal: {size} bytes, at most {most}");
        match self {
            Input::Command(command) => Err(refused(command, size, most)),
            Input::ToolEnded(id, _) => {
                let result = ToolResult::ended(Status::Error, format!("its result: {too_large}"));
                Ok(Input::ToolEnded(*id, result))
            }
            Input::Signal(signal) => signal.in_brief(too_large).map(Input::Signal),
        }
    }
}

fn refused(command: &Command, size: usize, most: usize) -> String {
    match command {
        Command::Start(_) => format!(
            "the task is too large: with its goal, prompts, steps and rules it takes {size} bytes, at most {most}"
        ),
        _ => format!("it is too large: {size} bytes, at most {most}"),
    }
}

impl Signal {
    fn in_brief(&self, why: String) -> Result<Signal, String> {
        let without = |server: &ServerTools| ServerTools {
            server: server.server.clone(),
            tools: Vec::new(),
            problem: Some(format!("its list of tools: {why}")),
        };
        Ok(match self {
            Signal::WorkspaceOpened(id, _) => Signal::WorkspaceOpened(*id, Err(why)),
            Signal::ToolsOpened(id, servers) => {
                Signal::ToolsOpened(*id, servers.iter().map(without).collect())
            }
            Signal::ToolsChanged(server) => Signal::ToolsChanged(without(server)),
            Signal::Verified(id, _) => Signal::Verified(*id, Err(why)),
            Signal::Consulted(id, _) => Signal::Consulted(*id, Err(format!("its answer: {why}"))),
            Signal::ModelReplied(id, reply) => {
                let usage = match reply.as_ref() {
                    Ok(reply) => reply.usage,
                    Err(failure) => failure.usage,
                };
                let failure = ModelFailure {
                    kind: "output_too_large".to_owned(),
                    retry: Retry::Never,
                    message: format!("its answer: {why}"),
                    usage,
                };
                Signal::ModelReplied(*id, Box::new(Err(failure)))
            }
            Signal::AgentSaid(turn, AgentNews::Said { text, .. }) => {
                let mut end = KEPT_WORDS.min(text.len());
                while !text.is_char_boundary(end) {
                    end -= 1;
                }
                let text = format!("{}\n[the rest is left out: {why}]", &text[..end]);
                Signal::AgentSaid(*turn, AgentNews::Said { text, thinking: String::new() })
            }
            // Whatever else it says is waited for, or counts.
            Signal::AgentSaid(turn, _) | Signal::AgentEnded(turn, _) => {
                Signal::AgentEnded(*turn, Ok(broken(format!("what it said: {why}"))))
            }
            Signal::ChildLeft(id, end) => {
                let end = ChildEnd::failed(end.child.clone(), format!("how it ended: {why}"));
                Signal::ChildLeft(*id, Box::new(end))
            }
            Signal::Checkpointed(id, _) => Signal::Checkpointed(*id, Err(why)),
            Signal::Unkeepable(id, _) => Signal::Unkeepable(*id, why),
            Signal::Restored(id, _) => Signal::Restored(*id, Err(why)),
            Signal::Requested { key, .. } => {
                Signal::Withdrawn { key: key.clone(), how: Withdrawal::Gone }
            }
            Signal::Restarted(_) => Signal::Restarted(Err(why)),
            Signal::FolderGone(_) => Signal::FolderGone(Err(why)),
            // Nobody outside has a say in how large these are.
            Signal::ChildrenSeen(_)
            | Signal::Withdrawn { .. }
            | Signal::TimerFired(_)
            | Signal::OwnerLost
            | Signal::RecordsLost { .. }
            | Signal::Slept(_)
            | Signal::SetBack(_) => return Err(why),
        })
    }
}

fn broken(text: String) -> AgentTurn {
    AgentTurn {
        end: AgentEnd::Broken(AgentFault::TooLarge),
        text,
        ordered: true,
        refused: 0,
        background: 0,
        queued: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::EffectId;

    fn brief(signal: Signal) -> Signal {
        match Input::from(signal).in_brief(9, 8) {
            Ok(Input::Signal(signal)) => signal,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_report_that_is_too_large_still_ends_its_effect() {
        let id = EffectId(3);
        let Signal::Consulted(of, Err(why)) = brief(Signal::Consulted(id, Ok("x".into()))) else {
            panic!("it is no answer");
        };
        assert_eq!((of, why.contains("9 bytes, at most 8")), (id, true));
        let calls = AgentNews::Withdrawn { key: "x".to_owned() };
        let Signal::AgentEnded(of, Ok(turn)) = brief(Signal::AgentSaid(id, calls)) else {
            panic!("the agent is not waited for");
        };
        assert_eq!((of, turn.end), (id, AgentEnd::Broken(AgentFault::TooLarge)));
        let Ok(Input::ToolEnded(of, result)) =
            Input::ToolEnded(id, ToolResult::ok("x")).in_brief(9, 8)
        else {
            panic!("it ended");
        };
        assert_eq!((of, result.status), (id, Status::Error));
    }

    #[test]
    fn of_an_agents_words_the_beginning_is_kept() {
        let text = format!("x{}", "ä".repeat(KEPT_WORDS));
        let said = AgentNews::Said { thinking: text.clone(), text };
        let Signal::AgentSaid(_, AgentNews::Said { text, thinking }) =
            brief(Signal::AgentSaid(EffectId(1), said))
        else {
            panic!("they are words");
        };
        assert!(text.starts_with("xä") && text.len() < KEPT_WORDS + 200);
        assert_eq!(thinking, "");
    }

    #[test]
    fn a_command_that_is_too_large_is_refused() {
        let why = Input::from(Command::Steer { text: String::new() }).in_brief(9, 8).unwrap_err();
        assert_eq!(why, "it is too large: 9 bytes, at most 8");
    }
}
