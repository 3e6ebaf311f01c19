//! What enters `step`: a closed list of commands (somebody asks) and signals (an effect reports).
//!
//! Inputs are what the journal keeps, so their JSON is a format: names are short and never change meaning.

mod brief;

use std::fmt;
use std::sync::Arc;

use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::agent::{AgentNews, AgentTurn};
use crate::child::minding::ChildSeen;
use crate::child::step::ChildEnd;
use crate::child::{ChildOrder, ChildReport};
use crate::driver::Note;
use crate::id::{CallId, EffectId, QuestionId, TaskId};
use crate::message::{ModelFailure, Reply};
use crate::policy::budget::Budget;
use crate::policy::call_hash::CallHash;
use crate::policy::grant::Scope;
use crate::queue::{Integration, Rebase};
use crate::server::ServerTools;
use crate::task::{CriterionResult, DriverSpec, TaskSpec, Workspace};
use crate::time::{Span, Timestamp};
use crate::tool::ToolResult;
use crate::verdict::{Checkpoint, Verdict};

/// The version of inputs and state that this machine writes. It grows with the list of inputs, so that an older drivetrain
/// knows that it cannot read them; those of every lower version are read.
pub const MACHINE_VERSION: u32 = 6;

/// An input with the moment it entered.
#[derive(Debug, Clone, PartialEq)]
pub struct Stamped<T> {
    /// When it entered the inbox.
    pub time: Timestamp,
    /// What entered.
    pub input: T,
}

/// Everything that can enter `step`.
///
/// In the journal a tool's end is a pair, `[EFFECT, RESULT]`, and everything else a table with one key: most
/// records are the first, and short ones are cheap.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// Somebody asks for something.
    Command(Command),
    /// A tool call ended.
    ToolEnded(EffectId, ToolResult),
    /// Another effect reports.
    Signal(Signal),
}

/// The forms with a key.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Keyed<C, S> {
    #[serde(rename = "cmd")]
    Command(C),
    #[serde(rename = "sig")]
    Signal(S),
}

impl Serialize for Input {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Input::ToolEnded(effect, result) => (effect, result).serialize(serializer),
            Input::Command(command) => Keyed::<_, &Signal>::Command(command).serialize(serializer),
            Input::Signal(signal) => Keyed::<&Command, _>::Signal(signal).serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Input {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(InputVisitor)
    }
}

struct InputVisitor;

impl<'de> Visitor<'de> for InputVisitor {
    type Value = Input;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a pair of effect and result, or a table with the key cmd or sig")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut pair: A) -> Result<Input, A::Error> {
        let missing = |at| serde::de::Error::invalid_length(at, &self);
        let effect = pair.next_element()?.ok_or_else(|| missing(0))?;
        let result = pair.next_element()?.ok_or_else(|| missing(1))?;
        match pair.next_element::<serde::de::IgnoredAny>()? {
            None => Ok(Input::ToolEnded(effect, result)),
            Some(_) => Err(missing(3)),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Input, A::Error> {
        let access = serde::de::value::MapAccessDeserializer::new(map);
        Ok(match Keyed::<Command, Signal>::deserialize(access)? {
            Keyed::Command(command) => Input::Command(command),
            Keyed::Signal(signal) => Input::Signal(signal),
        })
    }
}

/// What somebody can ask for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Command {
    /// Begin. The first input of every task, and only the first.
    Start(Box<TaskSpec>),
    /// A process takes the task up and performs its effects from here on.
    Attach {
        /// The owner number of the process.
        owner: u64,
        /// Whether a person is there to answer.
        attended: bool,
    },
    /// The process is about to let go of the task: what runs may end, nothing new begins.
    Drain,
    /// The process lets go of the task; what was under way has been stopped.
    Detach {
        /// Why, for a person.
        reason: String,
    },
    /// Make no new move until resumed; what runs may end.
    Pause,
    /// Go on after a pause.
    Resume,
    /// End it now.
    Cancel {
        /// Why, for a person; may be empty.
        reason: String,
    },
    /// Stop what runs and tell the driver.
    Interrupt {
        /// What the driver is told.
        note: String,
    },
    /// Tell the driver before its next action.
    Steer {
        /// What the driver is told.
        text: String,
    },
    /// Tell the driver once it would be finished.
    FollowUp {
        /// What the driver is told.
        text: String,
    },
    /// Allow more.
    Raise(Budget),
    /// Let an asked call run.
    Approve {
        /// The call.
        call: CallId,
        /// How far that reaches.
        #[serde(default, skip_serializing_if = "Scope::is_once")]
        scope: Scope,
        /// Beyond the call itself, commands of the shell that are like this; not for one call only.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        like: Option<String>,
        /// What was shown to the person. A call that is another one is not let pass.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hash: Option<CallHash>,
        /// Where the person was.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        via: Option<Channel>,
    },
    /// Refuse an asked call.
    Deny {
        /// The call.
        call: CallId,
        /// What the worker is told.
        reason: String,
        /// What was shown to the person. Without it nobody looked at the call, and nothing is learned from it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hash: Option<CallHash>,
        /// Where the person was.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        via: Option<Channel>,
    },
    /// Answer a question of the `ask` tool.
    Answer {
        /// The call.
        call: CallId,
        /// The answer.
        text: String,
    },
    /// Decide the next move of a task whose driver is a person.
    Tell {
        /// The line, as typed.
        line: String,
        /// The question that the person saw. A line is no answer to another one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        question: Option<QuestionId>,
    },
    /// Say what became of a call in doubt.
    Resolve {
        /// The call.
        call: CallId,
        /// What the person knows or wants.
        how: Resolution,
    },
    /// Give the workspace the state of a checkpoint; the driver is told.
    RollBack {
        /// The name of the checkpoint.
        to: String,
    },
    /// Let somebody else decide from here on; workspace, history and budget stay.
    HandOver(DriverSpec),
    /// Go on with a verified task whose change does not hold where it was to go.
    Reopen {
        /// What failed, in one line.
        reason: String,
        /// What the driver is told.
        results: Vec<CriterionResult>,
        /// On what the work goes on; on what it was if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rebase: Option<Rebase>,
    },
    /// Note that the change of a verified task is in a branch.
    NoteIntegration(Integration),
    /// Set aside what a child may spend, before it begins.
    Dispatch(ChildOrder),
    /// Charge what a child spent, and note how it ended.
    ChildReport(ChildReport),
    /// From the task whose step began this one, which may spend more: what this one may spend in all.
    Allot(Budget),
    /// From the task whose step began this one: what was said to it meanwhile. It says so until it knows that this one has
    /// heard it, so one that was heard changes nothing.
    Relay {
        /// Its number among all that it passes on to this one, from 1.
        number: u64,
        /// What was said.
        note: Note,
    },
    /// Make the conversation of whoever works shorter, before its next turn.
    Compact {
        /// What is kept above all; may be empty.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        focus: String,
    },
}

impl Command {
    /// Lets one call run, this once, whatever it is.
    pub fn approve(call: CallId) -> Command {
        Command::Approve { call, scope: Scope::Once, like: None, hash: None, via: None }
    }

    /// Decides the next move, whatever is asked.
    pub fn tell(line: impl Into<String>) -> Command {
        Command::Tell { line: line.into(), question: None }
    }

    /// Refuses one call; nothing is learned from it.
    pub fn deny(call: CallId, reason: impl Into<String>) -> Command {
        Command::Deny { call, reason: reason.into(), hash: None, via: None }
    }
}

/// Where a person was who answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Channel {
    /// At the prompt of the process that drives the task.
    Prompt,
    /// At a command line beside it.
    Command,
}

/// What a person can say of a call in doubt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Resolution {
    /// It ran to its end: take it as done.
    Did,
    /// It did not run: take it as failed.
    DidNot,
    /// Run it (again).
    Retry,
}

/// How a worker takes a request back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Withdrawal {
    /// It said so.
    Cancelled,
    /// Its connection is gone.
    Gone,
}

/// What an effect, or the runtime itself, reports.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Signal {
    /// The workspace is there, or it cannot be.
    WorkspaceOpened(EffectId, Result<Workspace, String>),
    /// The task's servers were asked for their tools; one that cannot be had says why.
    ToolsOpened(EffectId, Vec<ServerTools>),
    /// A server has other tools now, at no one's asking.
    ToolsChanged(ServerTools),
    /// The criteria ran, or could not be.
    Verified(EffectId, Result<Verdict, String>),
    /// The decider outside answered, or could not.
    Consulted(EffectId, Result<Value, String>),
    /// The model answered, or could not.
    ModelReplied(EffectId, Box<Result<Reply, ModelFailure>>),
    /// An agent says something that counts, in the middle of a turn.
    AgentSaid(EffectId, AgentNews),
    /// An agent's turn ended, or there is no agent.
    AgentEnded(EffectId, Result<AgentTurn, String>),
    /// The child of a step ended, or was put down.
    ChildLeft(EffectId, Box<ChildEnd>),
    /// Children that the task waits for were looked at: these have ended, or nobody drives them.
    ChildrenSeen(Vec<ChildSeen>),
    /// A checkpoint of the workspace was made, or could not be.
    Checkpointed(EffectId, Result<Checkpoint, String>),
    /// There is no checkpoint, because the workspace holds something that cannot be kept.
    Unkeepable(EffectId, String),
    /// The workspace has the state of a checkpoint, and what it was before is kept as this one; or it could not be.
    Restored(EffectId, Result<Checkpoint, String>),
    /// A worker asks for a call through the gate, while it decides.
    Requested {
        /// Stands for this one call.
        key: String,
        /// The tool.
        tool: String,
        /// Its parameters.
        input: Arc<Value>,
    },
    /// A worker wants no answer to what it asked for.
    Withdrawn {
        /// What it asked with.
        key: String,
        /// How that is known.
        how: Withdrawal,
    },
    /// A timer's moment has come.
    TimerFired(EffectId),
    /// The process that performed the task's effects is gone; nobody knows how far they came.
    OwnerLost,
    /// The machine was restarted since the task was last taken up: so many files of its last checkpoint were lost and are
    /// there again. The error says why nobody knows.
    Restarted(Result<u32, String>),
    /// The same of a task whose folder was gone, though the machine was not restarted.
    FolderGone(Result<u32, String>),
    /// The journal was damaged, and records from the end of the task are gone: what they told of was done, and may be done
    /// again.
    RecordsLost {
        /// How many.
        lost: u64,
        /// Whose they were, if they are those of a task that a step of this one began.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        child: Option<TaskId>,
    },
    /// The clock went on by so much more than the machine worked: it slept, or its clock was set forward.
    Slept(Span),
    /// The clock was set back by so much.
    SetBack(Span),
}

impl From<Command> for Input {
    fn from(command: Command) -> Input {
        Input::Command(command)
    }
}

impl From<Signal> for Input {
    fn from(signal: Signal) -> Input {
        Input::Signal(signal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names that a reader of this type knows, as its refusal of another one lists them.
    fn names<T: serde::de::DeserializeOwned>() -> Vec<String> {
        let refusal = serde_json::from_str::<T>("\"-\"").err().map(|error| error.to_string());
        let refusal = refusal.unwrap_or_default();
        let expected = refusal.split("expected one of").nth(1).unwrap_or_default();
        expected.split('`').skip(1).step_by(2).map(str::to_owned).collect()
    }

    /// What [`MACHINE_VERSION`] stands for. Whoever changes one of the lists raises the version.
    #[test]
    fn the_version_grows_with_the_list_of_inputs() {
        assert_eq!(MACHINE_VERSION, 6);
        let commands = "start attach drain detach pause resume cancel interrupt steer follow_up raise approve deny answer \
             tell resolve roll_back hand_over reopen note_integration dispatch child_report allot relay compact";
        assert_eq!(names::<Command>().join(" "), commands);
        let signals = "workspace_opened tools_opened tools_changed verified consulted model_replied agent_said agent_ended \
             child_left children_seen checkpointed unkeepable restored requested withdrawn timer_fired owner_lost restarted \
             folder_gone records_lost slept set_back";
        assert_eq!(names::<Signal>().join(" "), signals);
    }

    #[test]
    fn an_input_reads_what_it_writes_and_a_tools_end_is_a_pair() {
        for (input, text) in [
            (Input::ToolEnded(EffectId(7), ToolResult::ok("out")), r#"[7,"out"]"#),
            (Command::Pause.into(), r#"{"cmd":"pause"}"#),
            (Signal::OwnerLost.into(), r#"{"sig":"owner_lost"}"#),
            (Signal::Restarted(Ok(2)).into(), r#"{"sig":{"restarted":{"Ok":2}}}"#),
            (Signal::FolderGone(Ok(2)).into(), r#"{"sig":{"folder_gone":{"Ok":2}}}"#),
            (
                Signal::RecordsLost { lost: 3, child: None }.into(),
                r#"{"sig":{"records_lost":{"lost":3}}}"#,
            ),
            (Signal::Slept(Span::seconds(90)).into(), r#"{"sig":{"slept":"1m30s"}}"#),
            (Signal::SetBack(Span::seconds(3600)).into(), r#"{"sig":{"set_back":"1h"}}"#),
            (Command::Compact { focus: String::new() }.into(), r#"{"cmd":{"compact":{}}}"#),
            (Command::approve(CallId(3)).into(), r#"{"cmd":{"approve":{"call":3}}}"#),
        ] {
            assert_eq!(serde_json::to_string(&input).unwrap(), text);
            assert_eq!(serde_json::from_str::<Input>(text).unwrap(), input);
        }
        for wrong in
            ["[7]", r#"[7,"out",1]"#, "{}", r#"{"cmd":"pause","sig":"owner_lost"}"#, "7", "null"]
        {
            assert!(serde_json::from_str::<Input>(wrong).is_err(), "{wrong}");
        }
    }
}
