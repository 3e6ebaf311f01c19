//! What can be done with an agent, as data: one row for each protocol, and what commands to a task make of it. Cells
//! that only the running agent knows count as a no until it has said otherwise.

use serde::{Deserialize, Serialize};

use super::{AgentProgram, AgentProtocol};
use crate::driver::Consultation;
use crate::input::Command;
use crate::state::{Data, Phase};

/// What can be done with an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct AgentAbilities {
    /// A conversation can go on in another process.
    pub resume: bool,
    /// A conversation can be copied.
    pub fork: bool,
    /// It can be told something in the middle of a turn.
    pub steer: bool,
    /// A turn can be stopped without ending the process.
    pub interrupt: bool,
    /// Where a pause holds it in the middle of a turn.
    #[serde(default)]
    pub pause: PausePoint,
    /// How much of what it does is asked about.
    pub gate: GateDepth,
    /// It says what its models cost.
    pub usage: bool,
    /// It says what that is in money.
    pub cost: bool,
    /// Its conversation can be made shorter on demand.
    pub compact: bool,
    /// It can be offered tools of drivetrain's own ([`super::offer`]).
    #[serde(default)]
    pub tools: bool,
}

/// How much of what an agent does goes through the gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GateDepth {
    /// Nothing: only the walls of the sandbox hold it.
    #[default]
    Sandbox,
    /// What its protocol lets it ask about.
    Protocol,
    /// What the agent itself would ask a person about.
    Ask,
    /// Every call of every tool, and what cannot be asked is refused.
    Hook,
}

impl GateDepth {
    /// The word for it.
    pub const fn word(self) -> &'static str {
        match self {
            GateDepth::Sandbox => "sandbox",
            GateDepth::Protocol => "protocol",
            GateDepth::Ask => "ask",
            GateDepth::Hook => "hook",
        }
    }
}

/// Where a paused task holds an agent that is in the middle of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PausePoint {
    /// At the end of its turn.
    #[default]
    Turn,
    /// At its next question, if it has one before its turn ends.
    Question,
    /// At its next call of a tool.
    Call,
}

impl PausePoint {
    /// The word for it.
    pub const fn word(self) -> &'static str {
        match self {
            PausePoint::Turn => "turn",
            PausePoint::Question => "question",
            PausePoint::Call => "call",
        }
    }

    /// A pause holds what waits for an answer: how early that is follows from how much is asked about.
    pub const fn at(gate: GateDepth) -> PausePoint {
        match gate {
            GateDepth::Sandbox => PausePoint::Turn,
            GateDepth::Protocol | GateDepth::Ask => PausePoint::Question,
            GateDepth::Hook => PausePoint::Call,
        }
    }
}

const fn row(gate: GateDepth) -> AgentAbilities {
    AgentAbilities {
        resume: true,
        fork: true,
        steer: true,
        interrupt: true,
        pause: PausePoint::at(gate),
        gate,
        usage: true,
        cost: true,
        compact: true,
        tools: false,
    }
}

impl AgentProtocol {
    /// What can be done with every agent that speaks this.
    pub const fn can(self) -> AgentAbilities {
        match self {
            AgentProtocol::Claude => AgentAbilities { tools: true, ..row(GateDepth::Hook) },
            AgentProtocol::Codex => AgentAbilities { cost: false, ..row(GateDepth::Ask) },
            AgentProtocol::Acp => AgentAbilities {
                resume: false,
                fork: false,
                steer: false,
                usage: false,
                cost: false,
                compact: false,
                ..row(GateDepth::Protocol)
            },
        }
    }

    /// Whether a process can be asked again once a turn of it was stopped; otherwise its conversation goes on in another
    /// process. Codex leaves the command running that the turn waited for. An agent of the protocol may answer everything
    /// after that with the end of what was stopped, for as long as it lives.
    pub const fn outlives_a_stop(self) -> bool {
        match self {
            AgentProtocol::Claude => true,
            AgentProtocol::Codex | AgentProtocol::Acp => false,
        }
    }

    /// Whether a process writes the end of its conversation down only when it ends: on a busy machine that takes a while, and
    /// the next turn needs it.
    pub const fn writes_at_its_end(self) -> bool {
        match self {
            AgentProtocol::Claude => true,
            AgentProtocol::Codex | AgentProtocol::Acp => false,
        }
    }

    /// Whether it can be told what is to be kept above all when its conversation is made shorter.
    pub const fn takes_focus(self) -> bool {
        match self {
            AgentProtocol::Claude | AgentProtocol::Acp => true,
            AgentProtocol::Codex => false,
        }
    }

    /// The cells that only the running agent knows.
    pub const fn says_itself(self) -> &'static [&'static str] {
        match self {
            AgentProtocol::Claude | AgentProtocol::Codex => &[],
            AgentProtocol::Acp => &["resume", "fork", "usage", "cost", "compact"],
        }
    }

    /// The word for it.
    pub const fn word(self) -> &'static str {
        match self {
            AgentProtocol::Claude => "claude",
            AgentProtocol::Codex => "codex",
            AgentProtocol::Acp => "acp",
        }
    }
}

impl AgentProgram {
    /// What can be done with it: what its protocol gives, less what its mode of permission takes away.
    pub fn can(&self) -> AgentAbilities {
        let mut can = self.protocol.can();
        let asks = match (self.protocol, self.mode.as_deref()) {
            (_, None) | (AgentProtocol::Acp, Some(_)) => true,
            (AgentProtocol::Claude, Some(mode)) => mode != "bypassPermissions",
            // Its mode is two words: what it asks about, and its own walls.
            (AgentProtocol::Codex, Some(mode)) => {
                mode.split('/').next().is_none_or(|word| word == "untrusted")
            }
        };
        if !asks {
            can.gate = GateDepth::Sandbox;
            can.pause = PausePoint::at(can.gate);
        }
        can
    }

    /// Whether only the running agent knows if its conversation can be made shorter on demand. Those that need no file were
    /// tried, and their row says it.
    fn may_know_to_compact(&self) -> bool {
        let says_itself = self.protocol.says_itself().contains(&"compact");
        says_itself && AgentProgram::built_in(&self.name).is_none()
    }

    /// Whether it can be told to make its conversation shorter, as far as anybody knows; the error says why not.
    pub fn may_compact(&self, focus: &str) -> Result<(), String> {
        let name = &self.name;
        if !self.can().compact && !self.may_know_to_compact() {
            return Err(format!("{name} cannot make its conversation shorter on demand"));
        }
        if !focus.is_empty() && !self.protocol.takes_focus() {
            return Err(format!(
                "{name} cannot be told what to keep when it makes its conversation shorter: say it without a focus"
            ));
        }
        Ok(())
    }
}

/// The agent that is in the middle of a turn.
pub fn at_work(data: &Data) -> Option<&AgentProgram> {
    match &data.phase {
        Phase::Consulting { request: Consultation::Agent(call) } => Some(&call.program),
        _ => None,
    }
}

/// What a command does later, or otherwise, than one may expect, because of the agent that is at work. Nothing if it
/// does at once what it says.
pub fn remark(data: &Data, command: &Command) -> Option<String> {
    let program = at_work(data)?;
    let (can, name) = (program.can(), &program.name);
    match command {
        Command::Steer { .. } if !can.steer => Some(format!(
            "{name} cannot be told anything in the middle of a turn: it has the note when this turn has ended \
             (interrupt ends it now)"
        )),
        Command::Interrupt { .. } | Command::HandOver(_) if !can.interrupt => {
            Some(format!("{name} cannot be stopped in the middle of a turn: its process is ended"))
        }
        Command::Compact { .. } if program.may_know_to_compact() => Some(format!(
            "{name} is told to when this turn has ended, and only it knows whether it can: if not, the log says so and the \
             work goes on"
        )),
        Command::Compact { .. } => Some(format!("{name} is told to when this turn has ended")),
        Command::Pause => match can.pause {
            PausePoint::Call => Some(format!("{name} is held at its next call of a tool")),
            PausePoint::Question => Some(format!(
                "{name} goes on until it asks about something, or until this turn has ended (interrupt stops it now)"
            )),
            PausePoint::Turn => Some(format!(
                "{name} asks about nothing, so it goes on until this turn has ended (interrupt stops it now)"
            )),
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_that_asks_about_nothing_is_held_by_walls_alone_and_only_between_turns() {
        let with = |name: &str, mode: &str| AgentProgram {
            mode: Some(mode.to_owned()),
            ..AgentProgram::built_in(name).unwrap()
        };
        let cell = |program: AgentProgram| (program.can().gate, program.can().pause);
        assert_eq!(cell(with("claude", "default")), (GateDepth::Hook, PausePoint::Call));
        assert_eq!(
            cell(with("claude", "bypassPermissions")),
            (GateDepth::Sandbox, PausePoint::Turn)
        );
        assert_eq!(
            cell(with("codex", "untrusted/read-only")),
            (GateDepth::Ask, PausePoint::Question)
        );
        assert_eq!(cell(with("codex", "never/read-only")), (GateDepth::Sandbox, PausePoint::Turn));
        assert_eq!(cell(with("gemini", "yolo")), (GateDepth::Protocol, PausePoint::Question));
    }

    #[test]
    fn cells_that_an_agent_says_itself_are_promised_to_nobody() {
        for protocol in [AgentProtocol::Claude, AgentProtocol::Codex, AgentProtocol::Acp] {
            let can = serde_json::to_value(protocol.can()).unwrap();
            for cell in protocol.says_itself() {
                assert_eq!(can[cell], false, "{} {cell}", protocol.word());
            }
        }
    }
}
