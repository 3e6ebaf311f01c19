//! One call of the open turn and how far it came.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Ask;
use crate::driver::Action;
use crate::id::{CallId, EffectId};
use crate::policy::call_hash::CallHash;
use crate::policy::permission::Judgement;
use crate::time::Timestamp;
use crate::tool::{EffectClass, Status, ToolResult};

/// One action of the open turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// Its id.
    pub id: CallId,
    /// What was asked.
    pub action: Action,
    /// How repeatable it is.
    pub class: EffectClass,
    /// How far it came.
    pub status: CallStatus,
    /// Whether the driver was told of its end.
    pub delivered: bool,
    /// When its last attempt began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub began: Option<Timestamp>,
    /// The key of the worker that asked for it from outside and waits for its result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    /// That worker, if it is an agent in the middle of a turn; otherwise the answer goes through the gate's socket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asker: Option<AgentSide>,
    /// The agent that performs it itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentSide>,
}

/// What an agent calls a call that it asked about, or asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentSide {
    /// What the answer is sent with.
    pub key: String,
    /// The call.
    pub id: String,
    /// The turn it belongs to.
    pub turn: EffectId,
}

/// How far a call came.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallStatus {
    /// Not started.
    Queued {
        /// Whether a person has let it pass.
        approved: bool,
        /// Whether an earlier attempt may have run.
        repeated: bool,
        /// Who let it pass; empty for a person.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        by: String,
    },
    /// A person is asked whether it may run.
    AwaitingApproval {
        /// Why.
        reason: String,
        /// What the gate says of it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        judged: Option<Box<Judgement>>,
        /// The person's place in the chain of deciders, and when the next one is asked; absent if it is no chain.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        turn: Option<DeciderTurn>,
    },
    /// A decider is asked whether it may run, or will be once the task may move.
    AwaitingDecider {
        /// What the gate says of it.
        judged: Box<Judgement>,
        /// Which decider.
        turn: DeciderTurn,
        /// The question; none if it is not under way.
        effect: Option<EffectId>,
    },
    /// It is a question, and a person is asked.
    AwaitingAnswer,
    /// It runs.
    Running {
        /// The attempt.
        effect: EffectId,
    },
    /// A crash hid whether it ran.
    InDoubt,
    /// It ended.
    Done(ToolResult),
}

/// A place in the chain of deciders.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeciderTurn {
    /// The number of the decider, from 0.
    pub decider: u32,
    /// When the next one is asked; never if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

impl Call {
    /// What a person is asked about this call, if anything.
    pub fn ask(&self) -> Option<Ask> {
        match &self.status {
            CallStatus::AwaitingApproval { reason, judged, .. } => Some(Ask::Approval {
                call: self.id,
                tool: self.action.tool.clone(),
                input: Arc::clone(&self.action.input),
                reason: reason.clone(),
                hash: self.hash(),
                part: judged.as_ref().map(|judged| judged.part.clone()).unwrap_or_default(),
            }),
            CallStatus::AwaitingAnswer => {
                let (question, choices) = self.question();
                Some(Ask::Question { call: self.id, question, choices })
            }
            CallStatus::InDoubt => Some(Ask::InDoubt {
                call: self.id,
                tool: self.action.tool.clone(),
                input: Arc::clone(&self.action.input),
            }),
            CallStatus::Queued { .. }
            | CallStatus::AwaitingDecider { .. }
            | CallStatus::Running { .. }
            | CallStatus::Done(_) => None,
        }
    }

    /// The hash of exactly this call.
    pub fn hash(&self) -> CallHash {
        CallHash::of(&self.action.tool, &self.action.input)
    }

    /// Whether it is one of the calls of a model's answer, which are made in its order. A question to a person holds up none of
    /// them.
    pub(crate) fn has_a_turn(&self) -> bool {
        let is_of_an_answer = !self.action.tool_use.is_empty();
        is_of_an_answer
            && self.request.is_none()
            && self.agent.is_none()
            && self.action.tool != "ask"
    }

    /// The question and choices of an `ask` call.
    pub(crate) fn question(&self) -> (String, Vec<String>) {
        let question = self.action.input["question"].as_str().unwrap_or_default().to_owned();
        let choices = self.action.input["choices"]
            .as_array()
            .map(|items| items.iter().filter_map(|c| c.as_str().map(str::to_owned)).collect())
            .unwrap_or_default();
        (question, choices)
    }

    /// The call's end, as far as it has one. A call in doubt has that as its result until somebody says more.
    pub fn result(&self) -> Option<ToolResult> {
        match &self.status {
            CallStatus::Done(result) => Some(result.clone()),
            CallStatus::InDoubt => {
                Some(ToolResult::ended(Status::InDoubt, "a crash hid whether it ran"))
            }
            CallStatus::Queued { .. }
            | CallStatus::AwaitingApproval { .. }
            | CallStatus::AwaitingDecider { .. }
            | CallStatus::AwaitingAnswer
            | CallStatus::Running { .. } => None,
        }
    }
}
