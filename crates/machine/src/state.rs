//! Everything a task remembers. Plain data beside the live driver; the whole of it can be saved and loaded
//! between any two inputs, and nothing is lost by it.

mod call;
mod standing;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::acceptance::judge::Judging;
use crate::activity::request::Requests;
use crate::agent::{Unknown, ability};
use crate::cause::Cause;
use crate::child::{self, Child, HeldAsk};
use crate::contest::Proof;
use crate::driver::{
    Action, Consultation, Decision, Driver, DriverSlot, Fact, Note, Registry, SavedDriver,
    Situation, Wait,
};
use crate::id::{CallId, EffectId, QuestionId, TaskId};
use crate::input::{Command, MACHINE_VERSION};
use crate::policy::budget::{Budget, Spend};
use crate::policy::gateway::Ledger;
use crate::policy::grant::Grant;
use crate::policy::recovery::Course;
use crate::policy::shortcut::Denial;
use crate::policy::stuck::Streak;
use crate::queue::{Integration, Rebase};
use crate::server::ToolOffer;
use crate::task::{DriverSpec, Outcome, TaskSpec, Workspace};
use crate::time::{Span, Timestamp};
use crate::verdict::Checkpoint;

pub use call::{AgentSide, Call, CallStatus, DeciderTurn};
pub use standing::{Ask, Standing};

/// A task's state. Only `step` changes it.
#[derive(Debug)]
pub struct State {
    pub(crate) data: Data,
    pub(crate) driver: DriverSlot,
    pub(crate) registry: Arc<Registry>,
    /// Made before the start, by whoever had to know whether it can be made.
    pub(crate) prepared: Option<DriverSlot>,
    pub(crate) quiet: bool,
}

/// The plain part of a state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Data {
    /// The task's id.
    pub id: TaskId,
    /// What it was started with.
    pub spec: Arc<TaskSpec>,
    /// The limits in force: those of the spec, raised or not.
    pub budget: Budget,
    /// What was spent.
    pub spend: Spend,
    /// The process that performs its effects, if any.
    pub attachment: Option<Attachment>,
    /// Whether the process that drove it last died over it, and none has taken it up since.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub owner_lost: bool,
    /// Whether somebody asked it to make no new move.
    pub paused: bool,
    /// Why a person is to look at the files before it goes on, where that is why it is paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub look_first: Option<String>,
    /// How many records the journal lost from the end of it, whatever happened since.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub records_lost: u64,
    /// Where it stands.
    pub phase: Phase,
    /// Its place to work, once opened.
    pub workspace: Option<Workspace>,
    /// The state of the workspace before anything changed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<Checkpoint>,
    /// The state that was last handed over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frozen: Option<Checkpoint>,
    /// The checkpoint that somebody asked the workspace to go back to, until it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub going_back: Option<String>,
    /// The checkpoint that the workspace was going back to when a limit ended the task, where nobody had asked for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut_short: Option<String>,
    /// What it proved, the first time that it was verified.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proof: Option<Proof>,
    /// On what the work goes on, until the workspace has those files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rebase: Option<Rebase>,
    /// Where its change is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub integrated: Option<Integration>,
    /// Tasks that it dispatched.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub children: BTreeMap<TaskId, Child>,
    /// Whether it makes no move because what it has left is set aside for them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub awaits_children: bool,
    /// Requests of agents that wait at their gateway for the same reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held_asks: Vec<HeldAsk>,
    /// The name of the checkpoint that the workspace certainly still equals, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unchanged_since: Option<String>,
    /// The name of the last checkpoint that was made, whatever became of the workspace since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_kept: Option<String>,
    /// Why the workspace could not be kept, since it last could.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unkeepable: Option<String>,
    /// Whether what the open turn may change was kept before it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub turn_kept: bool,
    /// The last turn if nothing was done in it: a claim was refused, or an answer only broke off. The next one is paid for
    /// before anybody is asked again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_turn: Option<u64>,
    /// Tools beside the built-in ones, as their servers last offered them.
    #[serde(default, skip_serializing_if = "no_tools")]
    pub tools: Arc<Vec<ToolOffer>>,
    /// Tools that servers offered once and do no longer, as they were.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub former_tools: Vec<ToolOffer>,
    /// Whether the workspace was put back, and its setup commands may have to run again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unready: bool,
    /// Whether the process that drives the task has yet to begin anew what the one before left outstanding.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub to_renew: bool,
    /// Whether the process that drives the task has its servers running.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tools_open: bool,
    /// The calls of the open turn, in the order of the decision.
    pub calls: Vec<Call>,
    /// Actions that were decided on and wait for a larger budget.
    pub held: Option<Vec<Action>>,
    /// The keys that workers asked with.
    #[serde(default, skip_serializing_if = "Requests::is_empty")]
    pub requests: Requests,
    /// Effects that have not reported.
    pub pending: BTreeMap<EffectId, Pending>,
    /// Notes for the driver, before its next decision.
    pub notes: VecDeque<Note>,
    /// How many notes the task whose step began this one has passed on to it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub relayed: u64,
    /// Notes that an agent was told in its turn. Only a turn that ends well is certain to have heard them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steered: Vec<Steered>,
    /// Notes for the driver, once it would be finished.
    pub follow_ups: VecDeque<Note>,
    /// What people told the driver, or answered, since it last decided: whoever takes over before it does hears that.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub told: Vec<String>,
    /// Who decides after the open turn, if that was changed.
    pub successor: Option<DriverSpec>,
    /// Failed verdicts in a row.
    pub streak: Streak,
    /// Failed answers of the model to the question that is being asked.
    #[serde(default)]
    pub model_failures: u32,
    /// The wait that ends then.
    #[serde(default, skip_serializing_if = "is_none")]
    pub retry_wait: Span,
    /// How long that question waited by rules of our own.
    #[serde(default, skip_serializing_if = "is_none")]
    pub model_waited: Span,
    /// When that question is asked again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_at: Option<Timestamp>,
    /// What was tried after failures, and what comes over and over.
    #[serde(default, skip_serializing_if = "Course::is_default")]
    pub course: Course,
    /// Questions to models so far; the same one, asked again, counts once.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub questions: u64,
    /// The highest number of a conversation with an agent.
    #[serde(default, skip_serializing_if = "is_none_yet")]
    pub conversations: u32,
    /// That number when the driver took over.
    #[serde(default, skip_serializing_if = "is_none_yet")]
    pub earlier_conversations: u32,
    /// The agent of whose version was told last, with that version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_met: Option<(String, String)>,
    /// Model calls that were stopped and have not reported: what they cost by then is counted all the same.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub unpaid: BTreeSet<EffectId>,
    /// Messages of the agent's turn that nobody knows, as they are told with its end.
    #[serde(default, skip_serializing_if = "Unknown::is_empty")]
    pub unknown: Unknown,
    /// Requests of agents that passed their gateway and whose answers were not counted yet, with their sizes in bytes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub asked: BTreeMap<u64, u64>,
    /// Money for such requests since the agent last said what it spent.
    #[serde(default, skip_serializing_if = "Ledger::is_empty")]
    pub ledger: Ledger,
    /// What people let pass for the rest of the task.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub grants: Vec<Grant>,
    /// What people denied, for a while.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub denials: Vec<Denial>,
    /// Files that were looked at, if the task's charter asks for that before they are changed.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub looked: BTreeSet<String>,
    /// The time of the last input.
    pub clock: Timestamp,
    /// By how much the clock was set back since the task began.
    #[serde(default, skip_serializing_if = "is_none")]
    pub set_back: Span,
    /// When the task started.
    pub started: Timestamp,
    /// The last effect id given.
    pub last_effect: u64,
    /// The last call id given.
    pub last_call: u64,
    /// The last question that was put to a person about what comes next.
    #[serde(default, skip_serializing_if = "QuestionId::is_none")]
    pub last_question: QuestionId,
    /// Which question of the driver's that was, where the driver numbers its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_person: Option<u64>,
    /// When an eager driver decides again though no action has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wakes_at: Option<Timestamp>,
    /// A claim that is checked once the actions of others that are under way have ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_claim: Option<String>,
    /// The number of the last event.
    pub last_event: u64,
    /// Inputs taken so far: the number of the last record.
    pub inputs: u64,
    /// Signals dropped because nothing waited for them.
    pub dropped: u64,
}

fn no_tools(tools: &Arc<Vec<ToolOffer>>) -> bool {
    tools.is_empty()
}

/// The process that performs a task's effects.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attachment {
    /// Its owner number.
    pub owner: u64,
    /// Whether a person is there.
    pub attended: bool,
    /// Whether it is about to let go.
    pub draining: bool,
}

/// Where a task stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// No `Start` yet.
    New,
    /// Its workspace is being opened.
    OpeningWorkspace,
    /// The workspace is kept as it is before the first decision.
    KeepingBase,
    /// Servers are being asked for their tools.
    OpeningTools,
    /// Nothing is under way; the driver is to be asked.
    Ready,
    /// The calls of a turn are under way.
    Acting,
    /// The decider outside is being asked.
    Consulting {
        /// What it is asked, to ask again after a crash.
        request: Consultation,
    },
    /// The driver waits.
    Waiting(Wait),
    /// A checkpoint is made before the claim is checked.
    Checkpointing {
        /// The claim, in the driver's words.
        summary: String,
    },
    /// The claim is being checked.
    Verifying {
        /// The claim, in the driver's words.
        summary: String,
    },
    /// Every other criterion passed, and judges are asked, one after the other.
    Judging(Box<Judging>),
    /// The workspace is given the state of a checkpoint.
    RollingBack {
        /// The name of the checkpoint.
        to: String,
    },
    /// A person is asked what to do about a failure.
    Escalated {
        /// What failed.
        cause: Cause,
        /// What happened, for a person.
        reason: String,
    },
    /// It ended.
    Finished {
        /// How.
        outcome: Outcome,
        /// Why, for a person.
        reason: String,
        /// Why, for a script; absent if it went well.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cause: Option<Cause>,
    },
}

/// What an outstanding effect is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pending {
    /// Opening the workspace.
    Workspace,
    /// Asking servers for their tools.
    Tools,
    /// A call's attempt.
    Call(CallId),
    /// Asking a decider about a call.
    Decider(CallId),
    /// Asking the next decider about a call when the one before takes too long.
    DeciderTimer(CallId),
    /// Asking the decider outside.
    Consult,
    /// Asking a model.
    Model,
    /// A turn of a coding agent.
    Agent,
    /// The child of a step.
    Child,
    /// Waiting before a model is asked again.
    Retry,
    /// Keeping the workspace's state.
    Checkpoint,
    /// Checking the claim.
    Verify,
    /// Asking a judge.
    Judge,
    /// Waiting before a judge is asked again.
    JudgeTimer,
    /// Giving the workspace an earlier state.
    Restore,
    /// Waking the driver.
    Alarm,
    /// Ending the task when its time is up.
    Deadline,
}

impl Pending {
    /// Whether it may have cost something though it was stopped. Only models do: the program of a decider reports what it
    /// would have said, and that is dropped.
    pub(crate) fn costs(&self) -> bool {
        matches!(self, Pending::Model | Pending::Agent | Pending::Decider(_) | Pending::Judge)
    }
}

/// A note that an agent was told in the middle of a turn, or with a question that it was asked again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Steered {
    /// The note.
    pub note: Note,
    /// The words that were sent.
    pub words: String,
}

/// A state at rest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SavedState {
    /// The version of the machine that saved it.
    pub version: u32,
    /// The plain part.
    pub data: Data,
    /// The driver.
    pub driver: SavedDriver,
    /// Whether the driver is configured as the task was started: the configuration is left out here then, since it may be
    /// most of the state and is in the plain part already.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub as_started: bool,
}

impl Data {
    /// What is spent, together with what is set aside for the tasks that it dispatched.
    pub fn committed(&self) -> Cow<'_, Spend> {
        child::committed(&self.spend, self.children.values())
    }

    /// The checkpoint that stands for what the task came to: what it handed over, if it ended by that. What was refused
    /// stands for nothing, and neither does anything before the end: the files are as they are.
    pub fn result(&self) -> Option<&Checkpoint> {
        let Phase::Finished { outcome: Outcome::Completed | Outcome::Verified, .. } = self.phase
        else {
            return None;
        };
        self.frozen.as_ref()
    }

    /// The state that all of the task's change is counted from where it is handed over; that of its commit if absent. A fork
    /// is handed over whole, whatever its own changes are counted from; unless it went on from another commit since.
    pub fn whole_base(&self) -> Option<&Checkpoint> {
        let commit = self.workspace.as_ref().and_then(|workspace| workspace.base.as_ref());
        match &self.spec.forked_from {
            Some(forked) if forked.commit.as_ref() == commit => forked.base.as_ref(),
            Some(_) | None => self.base.as_ref(),
        }
    }
}

impl State {
    /// A task before its first input.
    pub fn new(id: TaskId, registry: Arc<Registry>) -> State {
        let spec = TaskSpec::new("", DriverSpec { name: String::new(), config: Value::Null }, "");
        State {
            data: Data {
                id,
                spec: Arc::new(spec),
                budget: Budget::default(),
                spend: Spend::default(),
                attachment: None,
                owner_lost: false,
                paused: false,
                look_first: None,
                records_lost: 0,
                phase: Phase::New,
                workspace: None,
                base: None,
                frozen: None,
                going_back: None,
                cut_short: None,
                proof: None,
                rebase: None,
                integrated: None,
                children: BTreeMap::new(),
                awaits_children: false,
                held_asks: Vec::new(),
                unchanged_since: None,
                last_kept: None,
                unkeepable: None,
                turn_kept: false,
                idle_turn: None,
                tools: Arc::default(),
                former_tools: Vec::new(),
                unready: false,
                to_renew: false,
                tools_open: false,
                calls: Vec::new(),
                held: None,
                requests: Requests::default(),
                pending: BTreeMap::new(),
                notes: VecDeque::new(),
                relayed: 0,
                steered: Vec::new(),
                follow_ups: VecDeque::new(),
                told: Vec::new(),
                successor: None,
                streak: Streak::default(),
                model_failures: 0,
                model_waited: Span::default(),
                retry_at: None,
                retry_wait: Span::default(),
                course: Course::default(),
                questions: 0,
                conversations: 0,
                earlier_conversations: 0,
                agent_met: None,
                unpaid: BTreeSet::new(),
                unknown: Unknown::default(),
                asked: BTreeMap::new(),
                ledger: Ledger::default(),
                grants: Vec::new(),
                denials: Vec::new(),
                looked: BTreeSet::new(),
                clock: Timestamp(0),
                set_back: Span(0),
                started: Timestamp(0),
                last_effect: 0,
                last_call: 0,
                last_question: QuestionId::default(),
                asked_person: None,
                wakes_at: None,
                held_claim: None,
                last_event: 0,
                inputs: 0,
                dropped: 0,
            },
            driver: DriverSlot::new("", 0, Arc::new(Value::Null), Box::new(Unstarted)),
            registry,
            prepared: None,
            quiet: false,
        }
    }

    /// Hands over the driver that a start is about to ask for. A workflow of ten thousand steps is not read twice then; one
    /// that does not fit the start is not used.
    pub fn prepare(&mut self, driver: DriverSlot) {
        self.prepared = Some(driver);
    }

    /// Puts the state to rest.
    pub fn save(&self) -> SavedState {
        let mut driver = self.driver.save();
        let as_started = *driver.config == self.data.spec.driver.config;
        if as_started {
            driver.config = Arc::new(Value::Null);
        }
        SavedState { version: MACHINE_VERSION, data: self.data.clone(), driver, as_started }
    }

    /// Wakes a state. The error says which part is not understood.
    pub fn load(saved: &SavedState, registry: Arc<Registry>) -> Result<State, String> {
        if saved.version > MACHINE_VERSION {
            return Err(format!(
                "the state was saved by machine version {}; this drivetrain has version {MACHINE_VERSION}",
                saved.version
            ));
        }
        let driver = if saved.data.phase == Phase::New {
            DriverSlot::new("", 0, Arc::new(Value::Null), Box::new(Unstarted))
        } else if saved.as_started {
            let config = Arc::new(saved.data.spec.driver.config.clone());
            DriverSlot::load(&SavedDriver { config, ..saved.driver.clone() }, &registry)?
        } else {
            DriverSlot::load(&saved.driver, &registry)?
        };
        Ok(State { data: saved.data.clone(), driver, registry, prepared: None, quiet: false })
    }

    /// Without events nobody listens to, a replay is faster; their numbers are counted all the same.
    pub fn set_quiet(&mut self, quiet: bool) {
        self.quiet = quiet;
    }

    /// The plain part, to look at.
    pub fn data(&self) -> &Data {
        &self.data
    }

    /// The task's id.
    pub fn id(&self) -> &TaskId {
        &self.data.id
    }

    /// The name of who decides.
    pub fn driver_name(&self) -> &str {
        &self.driver.name
    }

    /// What a command does later, or otherwise, than one may expect, because of who decides or works.
    /// `is_driven` says whether a living process drives it.
    pub fn remark(&self, command: &Command, is_driven: bool) -> Option<String> {
        let of_worker = ability::remark(&self.data, command).filter(|_| is_driven);
        // Whoever is asked reads what is said in between.
        let reads_it = matches!(self.data.phase, Phase::Consulting { .. })
            && !matches!(command, Command::FollowUp { .. });
        let of_driver = || self.driver.remark(command).filter(|_| !reads_it);
        of_worker.or_else(of_driver)
    }

    /// Who decides, as it was configured.
    pub fn driver_spec(&self) -> DriverSpec {
        let DriverSlot { name, config, .. } = &self.driver;
        DriverSpec { name: name.clone(), config: Value::clone(config) }
    }

    /// What it handed over beside the work itself, if it ended well.
    pub fn outputs(&self) -> Option<Value> {
        let Phase::Finished { outcome: Outcome::Completed | Outcome::Verified, .. } =
            self.data.phase
        else {
            return None;
        };
        self.driver.live.outputs(&self.situation())
    }

    /// What a driver may look at.
    pub(crate) fn situation(&self) -> Situation<'_> {
        Situation {
            goal: &self.data.spec.goal,
            criteria: &self.data.spec.acceptance,
            now: self.data.own(self.data.clock),
            turns: self.data.spend.turns,
            path: &[],
            tools: &self.data.tools,
        }
    }
}

fn is_none(span: &Span) -> bool {
    span.0 == 0
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

fn is_none_yet(number: &u32) -> bool {
    *number == 0
}

/// Stands in for the driver before `Start`; never asked.
#[derive(Debug)]
struct Unstarted;

impl Driver for Unstarted {
    fn decide(&mut self, _: &Situation<'_>) -> Decision {
        Decision::GiveUp { reason: "the task has not been started".to_owned(), stuck: false }
    }

    fn observe(&mut self, _: &Situation<'_>, _: &Fact<'_>) {}

    fn save(&self) -> Value {
        Value::Null
    }
}
