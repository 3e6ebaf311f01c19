//! What an agent's process says, and who hears it: a turn's listener while there is one, and nobody else. What must not be
//! forgotten between turns is kept.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use machine::agent::used::{EndedTool, JudgedEnd, UsedTools};
use machine::agent::{
    AgentCall, AgentEnd, AgentEvent, AgentFacts, AgentFault, AgentNews, AgentOrder, AgentProgram,
    AgentTurn, ClientRequest, SET_MODEL, Unknown,
};
use machine::message::Usage;
use machine::server::ToolOffer;
use wire::agent::claude::own_name;

use super::gone::Gone;
use super::listener::Listener;

/// Lines that nobody understands before the process is ended.
const MALFORMED_LIMIT: u64 = 64;
/// Messages that nobody knows, in one turn, before the process is ended.
const UNKNOWN_LIMIT: u64 = 100_000;
/// How many kinds of them are told, and how many characters of each.
const KINDS_KEPT: usize = 5;
const KIND_KEPT: usize = 80;
/// How many bytes it may say in one turn.
const SAID_LIMIT: u64 = 1 << 30;
/// How many bytes may wait for it to read them.
const UNREAD_LIMIT: usize = 64 << 20;

/// What was heard.
#[derive(Debug)]
pub(super) struct Hearing {
    pub(super) ready: bool,
    program: Arc<AgentProgram>,
    /// What it says of itself, until a turn has told it.
    met: Option<AgentFacts>,
    pub(super) session: Option<String>,
    pub(super) listener: Option<Listener>,
    /// Whether it asks the model that it was told to ask, once it has answered.
    pub(super) model_set: Option<bool>,
    /// Whether it made its conversation shorter since the turn began.
    pub(super) compacted: bool,
    /// How the turn ended that was asked for last.
    pub(super) ended: Option<AgentTurn>,
    /// Why there is no process any more.
    pub(super) gone: Option<Gone>,
    /// What cannot be passed over; whoever reads ends the process.
    pub(super) broke: Option<Gone>,
    /// What it waits for us to answer: questions, and calls of tools of ours.
    pub(super) owed: BTreeSet<String>,
    /// When it last said anything.
    pub(super) heard: Instant,
    /// What it cost while nobody listened.
    pub(super) unpaid: Vec<(Usage, Option<f64>)>,
    pub(super) malformed: u64,
    /// Its models were asked through a gateway, which counts what they cost.
    pub(super) metered: Arc<AtomicBool>,
    /// Messages that nobody knows, and bytes, of the turn.
    pub(super) unknown: Unknown,
    pub(super) said: u64,
    /// The calls of its tools, and which of them it asked about.
    used: UsedTools,
    /// What it has us do, by the question that is open about it.
    pub(super) wanted: BTreeMap<String, ClientRequest>,
    /// The same where there is no question.
    pub(super) at_once: Vec<ClientRequest>,
}

impl Hearing {
    /// Of a process that has said nothing.
    pub(super) fn new(call: &AgentCall, tools: &[ToolOffer], metered: Arc<AtomicBool>) -> Hearing {
        let ours = tools.iter().map(|tool| own_name(&tool.name)).collect();
        Hearing {
            ready: false,
            program: Arc::clone(&call.program),
            met: None,
            session: call.session.clone(),
            listener: None,
            model_set: None,
            compacted: false,
            ended: None,
            gone: None,
            broke: None,
            owed: BTreeSet::new(),
            heard: Instant::now(),
            unpaid: Vec::new(),
            malformed: 0,
            metered,
            unknown: Unknown::default(),
            said: 0,
            used: UsedTools::new(call.program.protocol, ours),
            wanted: BTreeMap::new(),
            at_once: Vec::new(),
        }
    }

    pub(super) fn take(&mut self, event: AgentEvent, refused: &mut Vec<AgentOrder>) {
        if let Some(listener) = &mut self.listener
            && !listener.taken
            && !listener.is_order
            && !matches!(event, AgentEvent::Malformed { .. } | AgentEvent::Unknown { .. })
        {
            listener.taken = true;
            listener.tell(AgentNews::Taken { session: self.session.clone() });
        }
        match event {
            AgentEvent::Ready(facts) => match facts.refused(&self.program) {
                Some(why) => drop(self.broke.get_or_insert(Gone::new(AgentFault::Policy, why))),
                None => {
                    self.ready = true;
                    self.met = Some(facts);
                }
            },
            AgentEvent::Session { id } => {
                if let Some(listener) = &self.listener
                    && self.session.as_ref() != Some(&id)
                    && !listener.is_order
                {
                    listener.tell(AgentNews::Taken { session: Some(id.clone()) });
                }
                self.session = Some(id);
            }
            AgentEvent::Stream(event) => {
                self.used.note_input(&event);
                if let Some(listener) = &mut self.listener {
                    listener.stream(event);
                }
            }
            AgentEvent::Asks(ask) => match &self.listener {
                Some(listener) => {
                    self.used.note_asked(&ask.id);
                    self.owed.insert(ask.key.clone());
                    listener.tell(AgentNews::Asks(ask));
                }
                None => refused.push(AgentOrder::Answer {
                    key: ask.key,
                    may: Err("nobody asked for this turn".to_owned()),
                }),
            },
            AgentEvent::Wants(request) => self.on_wants(*request, refused),
            AgentEvent::Withdrawn { key } => {
                self.owed.remove(&key);
                self.wanted.remove(&key);
                if let Some(listener) = &self.listener {
                    listener.tell(AgentNews::Withdrawn { key });
                }
            }
            AgentEvent::ToolEnded { id, ok, text, tool } => {
                let ended = EndedTool { id, tool, ok, text };
                let JudgedEnd { news, breach } =
                    self.used.judge_end(ended, self.listener.is_some());
                if let Some(why) = breach {
                    self.broke.get_or_insert(Gone::new(AgentFault::Policy, why));
                }
                if let Some(listener) = &self.listener {
                    listener.tell(news);
                }
            }
            AgentEvent::Calls(request) => match &self.listener {
                Some(listener) => {
                    self.used.note_asked(&request.id);
                    self.owed.insert(request.key.clone());
                    listener.tell(AgentNews::Calls(request));
                }
                None => refused.push(AgentOrder::ToolResult {
                    key: request.key,
                    result: Err("nobody asked for this turn".to_owned()),
                }),
            },
            // One that does not open is never ready.
            AgentEvent::OrderFailed(failed) if !self.ready => {
                let why = format!("it refuses {}: {}", failed.order, failed.reason);
                self.broke.get_or_insert(Gone::new(AgentFault::Protocol, why));
            }
            AgentEvent::ModelSet => self.model_set = Some(true),
            // Another process is started that asks it.
            AgentEvent::OrderFailed(failed) if failed.order == SET_MODEL => {
                self.model_set = Some(false);
            }
            AgentEvent::OrderFailed(failed) => {
                if let Some(listener) = &self.listener {
                    listener.tell(AgentNews::OrderFailed(failed));
                }
            }
            // What it claims is checked when nothing of it runs any more: see ARCHITECTURE.md.
            AgentEvent::WouldStop { key, .. } => {
                refused.push(AgentOrder::MayStop { key, missing: None });
            }
            AgentEvent::Spent { usage, usd } => match &self.listener {
                Some(listener) => {
                    let metered = self.metered.load(Ordering::Relaxed);
                    listener.tell(AgentNews::Spent { usage, usd, metered });
                }
                None => self.unpaid.push((usage, usd)),
            },
            AgentEvent::TurnEnded(turn) => {
                // What was said too late for this turn is answered by the next one, which begins by itself.
                let goes_on = turn.queued > 0 && turn.end == AgentEnd::Done;
                let counts = self.broke.is_none() && !goes_on;
                if counts && (turn.ordered || turn.end != AgentEnd::Done) {
                    self.ended = Some(turn);
                }
            }
            AgentEvent::Broke { fault, why } => {
                // An end that was said before is none.
                self.ended = None;
                self.broke.get_or_insert(Gone::new(fault, why));
            }
            AgentEvent::Malformed { .. } => self.malformed += 1,
            AgentEvent::Unknown { kind } => self.note_unknown(&kind),
            AgentEvent::Compacted { before, after } => {
                self.compacted = true;
                if let Some(listener) = &self.listener {
                    let ordered = listener.is_order;
                    listener.tell(AgentNews::Compacted { ordered, before, after });
                }
            }
            AgentEvent::Helper { .. } | AgentEvent::Retries { .. } | AgentEvent::TurnBegan => {}
        }
    }

    /// It wants something done. Nothing is done for it while nobody listens.
    fn on_wants(&mut self, request: ClientRequest, refused: &mut Vec<AgentOrder>) {
        match (&self.listener, &request.ask) {
            (Some(listener), Some(ask)) => {
                self.used.note_asked(&ask.id);
                self.owed.insert(request.key.clone());
                listener.tell(AgentNews::Asks(ask.clone()));
                self.wanted.insert(request.key.clone(), request);
            }
            (Some(_), None) => self.at_once.push(request),
            (None, _) => {
                let may = Err("nobody asked for this turn".to_owned());
                refused.push(AgentOrder::Answer { key: request.key, may });
            }
        }
    }

    /// Why what it says is of no use any more, if it is not; so many bytes wait for it to read them.
    pub(super) fn spoilt(&self, unread: usize) -> Option<Gone> {
        if self.broke.is_some() {
            return self.broke.clone();
        }
        let too_large = |why: String| Some(Gone::new(AgentFault::TooLarge, why));
        if self.malformed > MALFORMED_LIMIT {
            Some(Gone::new(AgentFault::Malformed, "it says what nobody understands"))
        } else if self.unknown.count > UNKNOWN_LIMIT {
            too_large(format!("it sent {} messages that nobody knows", self.unknown.count))
        } else if self.said > SAID_LIMIT {
            too_large(format!("it said more than {} MB in one turn", SAID_LIMIT >> 20))
        } else if unread > UNREAD_LIMIT {
            too_large(format!("it asks and does not read: {} MB wait for it", unread >> 20))
        } else {
            None
        }
    }

    /// Why a turn is given up in which nothing was heard for so long.
    pub(super) fn silent_for(&self, idle: Duration) -> String {
        let more = if self.said > 0 { " more" } else { "" };
        format!("it said nothing{more} for {idle:?}")
    }

    /// A turn begins, or an order before it, with this listener. Whoever listened before has heard the end of what was said.
    pub(super) fn begin(&mut self, listener: Listener) {
        self.close();
        let metered = self.metered.load(Ordering::Relaxed);
        for (usage, usd) in self.unpaid.drain(..) {
            listener.tell(AgentNews::Spent { usage, usd, metered });
        }
        if let Some(facts) = self.met.take().filter(|facts| !facts.remarks.is_empty()) {
            let agent = self.program.name.clone();
            let AgentFacts { version, remarks, .. } = facts;
            listener.tell(AgentNews::Met { agent, version, remarks });
        }
        self.listener = Some(listener);
        self.model_set = None;
        self.compacted = false;
        self.ended = None;
        self.owed.clear();
        self.wanted.clear();
        self.heard = Instant::now();
        (self.unknown, self.said) = (Unknown::default(), 0);
    }

    /// The turn is over: nobody listens any more.
    pub(super) fn close(&mut self) {
        if let Some(mut listener) = self.listener.take() {
            listener.end();
            if !self.unknown.is_empty() {
                listener.tell(AgentNews::Unknown(std::mem::take(&mut self.unknown)));
            }
        }
    }

    fn note_unknown(&mut self, kind: &str) {
        let Unknown { count, kinds } = &mut self.unknown;
        *count += 1;
        let kind: String = kind.chars().take(KIND_KEPT).collect();
        if kinds.len() < KINDS_KEPT && !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }

    /// Whether nobody would hear what is said to it: its turn is over, or it is gone.
    pub(super) fn is_over(&self) -> bool {
        self.listener.is_none() || self.ended.is_some() || self.gone.is_some()
    }
}

#[cfg(test)]
mod tests {
    use machine::id::{EffectId, TaskId};
    use machine::stream::StreamEvent;

    use super::super::listener::tests::told;
    use super::*;
    use crate::inbox::Inbox;

    fn hearing(program: AgentProgram) -> Hearing {
        let call = AgentCall {
            program: Arc::new(program),
            prompt: String::new(),
            conversation: 1,
            session: None,
            cost: None,
            taken: false,
            compact: None,
            path: Vec::new(),
        };
        Hearing::new(&call, &[], Arc::default())
    }

    #[test]
    fn an_agent_that_cannot_be_held_is_never_ready_unless_its_operator_says_so() {
        for (any_version, is_ready) in [(false, false), (true, true)] {
            let program = AgentProgram { any_version, ..AgentProgram::built_in("claude").unwrap() };
            let mut hearing = hearing(program);
            let facts = AgentFacts { refusal: Some("too old".to_owned()), ..AgentFacts::default() };
            hearing.take(AgentEvent::Ready(facts), &mut Vec::new());
            assert_eq!(hearing.ready, is_ready);
            let fault = hearing.broke.map(|gone| gone.fault);
            assert_eq!(fault, (!is_ready).then_some(AgentFault::Policy));
        }
    }

    #[test]
    fn what_is_said_to_an_order_is_told_before_the_agent_is_asked_and_is_not_of_the_turn_after_it()
    {
        let inbox = Inbox::default();
        let mut hearing = hearing(AgentProgram::built_in("claude").unwrap());
        let listener = || Listener::of(TaskId("t".to_owned()), EffectId(1), &inbox);
        let hear = |hearing: &mut Hearing, event| hearing.take(event, &mut Vec::new());
        let mut order = listener();
        order.is_order = true;
        hearing.begin(order);
        for event in [
            StreamEvent::MessageStart { id: "m".to_owned(), model: String::new() },
            StreamEvent::TextDelta { index: 0, text: "I ask the small one now".to_owned() },
        ] {
            hear(&mut hearing, AgentEvent::Stream(event));
        }
        hear(&mut hearing, AgentEvent::Unknown { kind: "model_tried".to_owned() });
        hear(&mut hearing, AgentEvent::ModelSet);
        assert_eq!(told(&inbox), [""; 0]);
        hearing.begin(listener());
        let heard = told(&inbox);
        assert_eq!(heard.len(), 2, "{heard:?}");
        assert_eq!(heard[0], "I ask the small one now");
        assert!(heard[1].contains("model_tried"), "{heard:?}");
        assert_eq!((hearing.model_set, hearing.unknown.count), (None, 0));
    }
}
