//! What an agent's process says, and who hears it: a turn's listener while there is one, and nobody else. What must not be
//! forgotten between turns is kept.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use machine::agent::{
    AgentCall, AgentEnd, AgentEvent, AgentFacts, AgentFault, AgentNews, AgentOrder, AgentProgram,
    AgentProtocol, AgentTurn, ClientRequest, SET_MODEL, Unknown,
};
use machine::id::{EffectId, TaskId};
use machine::message::Usage;
use machine::server::ToolOffer;
use machine::stream::StreamEvent;
use serde_json::json;
use wire::agent::claude::{OWN_SERVER, own_name};

use super::super::Turn;
use super::gone::Gone;
use crate::inbox::Inbox;
use crate::live::Feed;

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
/// Calls that it asked about and that have not ended, as far as they are remembered.
const ASKED_KEPT: usize = 4096;
/// Parameters of calls that it is making, as far as they are remembered: how many, and how many bytes of each.
const INPUTS_KEPT: usize = 256;
const INPUT_KEPT: usize = 16 << 10;
/// How much of what a tool of its own printed goes to the journal, in characters.
const RESULT_KEPT: usize = 2000;

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
    /// Whether every call of every tool is asked about.
    pub(super) asks_all: bool,
    /// The calls that were asked about, and those of tools of ours.
    pub(super) asked: BTreeSet<Arc<str>>,
    /// The parameters of the calls that it is making.
    pub(super) inputs: BTreeMap<Arc<str>, String>,
    /// Tools of ours, as it names them: they are judged when they are called.
    pub(super) ours: BTreeSet<String>,
    /// What it has us do, by the question that is open about it.
    pub(super) wanted: BTreeMap<String, ClientRequest>,
    /// The same where there is no question.
    pub(super) at_once: Vec<ClientRequest>,
}

/// Who hears what is said in a turn.
#[derive(Debug)]
pub(super) struct Listener {
    pub(super) task: TaskId,
    pub(super) effect: EffectId,
    pub(super) inbox: Inbox,
    /// Whether it is known that the agent was told what it was asked.
    pub(super) taken: bool,
    /// Whether it hears what is said to an order: then nothing was asked yet.
    is_order: bool,
    /// The words of the answer that is under way, and the block that the last of them are of.
    words: String,
    block: Option<usize>,
    /// Whether an answer is under way.
    answers: bool,
    /// Where those who look on hear it piece by piece.
    feed: Feed,
}

impl Listener {
    /// Of this turn.
    pub(super) fn new(turn: &Turn, inbox: &Inbox) -> Listener {
        Listener::of(turn.task.clone(), turn.effect, inbox)
    }

    /// Of the order that comes before what is asked in this turn.
    pub(super) fn of_order(turn: &Turn, inbox: &Inbox) -> Listener {
        Listener { is_order: true, ..Listener::new(turn, inbox) }
    }

    fn of(task: TaskId, effect: EffectId, inbox: &Inbox) -> Listener {
        Listener {
            feed: inbox.feed(task.clone(), effect),
            task,
            effect,
            inbox: inbox.clone(),
            taken: false,
            is_order: false,
            words: String::new(),
            block: None,
            answers: false,
        }
    }

    pub(super) fn tell(&self, news: AgentNews) {
        self.inbox.news(self.task.clone(), self.effect, news);
    }
}

impl Hearing {
    /// Of a process that has said nothing.
    pub(super) fn new(call: &AgentCall, tools: &[ToolOffer], metered: Arc<AtomicBool>) -> Hearing {
        let asks_all = call.program.protocol == AgentProtocol::Claude;
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
            asks_all,
            asked: BTreeSet::new(),
            inputs: BTreeMap::new(),
            ours: tools.iter().map(|tool| own_name(&tool.name)).collect(),
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
                self.note_input(&event);
                if let Some(listener) = &mut self.listener {
                    listener.stream(event);
                }
            }
            AgentEvent::Asks(ask) => match &self.listener {
                Some(listener) => {
                    note_asked(&mut self.asked, &ask.id);
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
                let is_ours = self.ours.contains(&tool);
                let was_asked = match ok && self.asks_all {
                    true => self.asked.remove(&id),
                    false => self.asked.contains(&id),
                };
                let input = self.inputs.remove(&id).unwrap_or_default();
                if ok && self.asks_all && !was_asked && !is_ours {
                    let tool: String = tool.chars().take(80).collect();
                    let why = format!("it used the tool {tool:?} without asking");
                    self.broke.get_or_insert(Gone::new(AgentFault::Policy, why));
                }
                if let Some(listener) = &self.listener {
                    let text = text.chars().take(RESULT_KEPT).collect();
                    // Only Claude Code names tools of ours in one way for certain.
                    let is_ours = is_ours || !self.ours.is_empty() && tool.contains(OWN_SERVER);
                    listener.tell(if was_asked || is_ours || tool.is_empty() {
                        AgentNews::ToolEnded { id, ok, text }
                    } else {
                        // Told twice, it is one call; where all must be asked about, this does not make up for it.
                        if !self.asks_all {
                            note_asked(&mut self.asked, &id);
                        }
                        let input = serde_json::from_str(&input).unwrap_or_else(|_| json!({}));
                        AgentNews::Used { id, tool, input: Arc::new(input), ok, text }
                    });
                }
            }
            AgentEvent::Calls(request) => match &self.listener {
                Some(listener) => {
                    note_asked(&mut self.asked, &request.id);
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
                note_asked(&mut self.asked, &ask.id);
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

    /// Remembers what a call is made with: how it ended is told without it.
    fn note_input(&mut self, event: &StreamEvent) {
        let StreamEvent::InputJsonDelta { id, json, .. } = event else { return };
        let known = self.inputs.entry(Arc::clone(id)).or_default();
        if known.len() + json.len() <= INPUT_KEPT {
            known.push_str(json);
        }
        if self.inputs.len() > INPUTS_KEPT {
            self.inputs.pop_first();
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

fn note_asked(asked: &mut BTreeSet<Arc<str>>, id: &Arc<str>) {
    asked.insert(Arc::clone(id));
    if asked.len() > ASKED_KEPT {
        asked.pop_first();
    }
}

impl Listener {
    /// Pieces of what it says are for those who look on. For the journal it is told whole, and before what it does.
    fn stream(&mut self, event: StreamEvent) {
        let mut is_said = false;
        match &event {
            StreamEvent::MessageStart { .. } => {
                self.answers = true;
                self.words.clear();
                self.block = None;
            }
            StreamEvent::TextDelta { index, text } => {
                // Blocks follow each other as lines do.
                if self.block.replace(*index).is_some_and(|block| block != *index) {
                    self.words.push('\n');
                }
                self.words.push_str(text);
            }
            StreamEvent::ToolUseStart { .. } => is_said = true,
            StreamEvent::MessageStop => (self.answers, is_said) = (false, true),
            StreamEvent::Error { .. } | StreamEvent::Interrupted { .. } => self.answers = false,
            _ => {}
        }
        self.feed.push_with_ends(&mut vec![event]);
        if is_said {
            self.say();
        }
    }

    /// Tells the words that were not told yet, unless there are none.
    fn say(&mut self) {
        self.block = None;
        if !self.words.trim().is_empty() {
            let text = std::mem::take(&mut self.words);
            self.tell(AgentNews::Said { text });
        }
    }

    /// An answer that is under way when the turn is over has no other end, and was said as far as it came.
    fn end(&mut self) {
        if self.answers {
            let (kind, message) = ("transport".to_owned(), "the answer broke off".to_owned());
            self.stream(StreamEvent::Error { kind, message, again_in: None });
        }
        self.say();
    }
}

#[cfg(test)]
mod tests {
    use machine::{Input, Signal};

    use super::*;

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

    /// What the loop is told, in order: the words that were said as they are, everything else as it is shown to us.
    fn told(inbox: &Inbox) -> Vec<String> {
        let batch = inbox.take(Some(Duration::ZERO), 0);
        let said = |delivery: crate::inbox::Delivery| match delivery.input {
            Input::Signal(Signal::AgentSaid(_, AgentNews::Said { text })) => text,
            other => format!("{other:?}"),
        };
        batch.deliveries.into_iter().map(said).collect()
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
        hearing.begin(Listener { is_order: true, ..listener() });
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

    #[test]
    fn what_is_said_before_a_call_or_the_end_of_a_turn_is_told_before_it_and_once() {
        let inbox = Inbox::default();
        let mut listener = Listener::of(TaskId("t".to_owned()), EffectId(1), &inbox);
        listener.stream(StreamEvent::MessageStart { id: "m".to_owned(), model: String::new() });
        listener.stream(StreamEvent::TextDelta { index: 0, text: "Let me ".to_owned() });
        listener.stream(StreamEvent::TextDelta { index: 0, text: "look.".to_owned() });
        assert_eq!(told(&inbox), [""; 0]);
        listener.stream(StreamEvent::ToolUseStart {
            index: 1,
            id: "c".into(),
            name: "Bash".to_owned(),
        });
        assert_eq!(told(&inbox), ["Let me look."]);
        listener.stream(StreamEvent::MessageStop);
        assert_eq!(told(&inbox), [""; 0]);
        // The turn is over in the middle of an answer.
        listener.stream(StreamEvent::MessageStart { id: "n".to_owned(), model: String::new() });
        listener.stream(StreamEvent::TextDelta { index: 0, text: "Now I".to_owned() });
        listener.stream(StreamEvent::TextDelta { index: 1, text: "wait".to_owned() });
        listener.end();
        assert_eq!(told(&inbox), ["Now I\nwait"]);
        listener.end();
        assert_eq!(told(&inbox), [""; 0]);
    }
}
