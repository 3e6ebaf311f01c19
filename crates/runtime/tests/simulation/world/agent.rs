//! A coding agent in the world: a turn of it begins, says things, asks, calls, spends, and ends or dies in the middle. It
//! goes on only when it was answered, and it is gone with the process that started it.

use std::collections::VecDeque;
use std::sync::Arc;

use machine::Effect;
use machine::agent::{
    AgentAsk, AgentCall, AgentEnd, AgentFault, AgentMeans, AgentNews, AgentOrder, AgentRequest,
    AgentTurn, FailedOrder,
};
use machine::id::{EffectId, TaskId};
use machine::input::{Input, Signal};
use machine::message::Usage;
use serde_json::json;

use super::{Happening, World};
use crate::audit::Check;

/// How far a turn has come.
#[derive(Debug, Default)]
pub(crate) struct Play {
    steps: VecDeque<Step>,
    /// What it waits for: the key of a question, or the number of a request.
    waits: Option<String>,
    end: Option<AgentTurn>,
}

/// What an agent does next.
#[derive(Debug, Clone)]
enum Step {
    Say(AgentNews),
    /// It says this, and waits for an answer to this key.
    Ask(AgentNews, String),
    End(AgentTurn),
    /// It does nothing more.
    Hang,
}

impl World {
    /// A turn begins: what will happen in it is thrown now. Somebody may have to be waited for in between.
    pub(super) fn play(&mut self, number: usize, hangs: bool) {
        let attempt = &self.attempts[number];
        let Effect::AskAgent { id, call, .. } = &attempt.effect else { return };
        let (task, id, call) = (attempt.task.clone(), *id, call.clone());
        let session = format!("session-{}", call.conversation);
        let mut steps = Vec::new();
        if call.compact.is_some() {
            steps.push(Step::Say(if self.chance(3) {
                AgentNews::OrderFailed(FailedOrder::not_compacted("nothing to sum up"))
            } else {
                AgentNews::Compacted { ordered: true, before: None, after: None }
            }));
        }
        steps.push(Step::Say(AgentNews::Taken { session: Some(session) }));
        for part in 0..self.random.below(4) {
            let key = format!("{}-{part}", id.0);
            steps.push(self.part(&key));
            if self.random.one_in(2) {
                let (usage, usd, metered) = (self.tokens(), None, false);
                steps.push(Step::Say(AgentNews::Spent { usage, usd, metered }));
            }
        }
        let last = self.last_step(&task);
        // It may die, or fall silent, anywhere.
        let cut = 1 + self.random.below(steps.len() as u64) as usize;
        if hangs {
            steps.truncate(cut);
            steps.push(Step::Hang);
        } else if self.chance(6) {
            steps.truncate(cut);
            steps.push(Step::End(ended(AgentEnd::Broken(AgentFault::Killed), "it was killed")));
        } else {
            steps.push(last);
        }
        self.tally.agent_turns += 1;
        self.attempts[number].play = Some(Play { steps: steps.into(), ..Play::default() });
        let delay = self.delay(0, 20);
        self.after(delay, Happening::Say(number));
    }

    fn part(&mut self, key: &str) -> Step {
        let named = |name: &str| format!("{name}-{key}");
        match self.random.below(6) {
            0 => Step::Say(AgentNews::Said { text: named("words"), thinking: String::new() }),
            1 => {
                let request = self.random.next() >> 1;
                let bytes = 4 * (1 + self.random.below(50));
                Step::Ask(AgentNews::WouldAsk { request, bytes }, request.to_string())
            }
            2 => {
                let (key, id) = (named("calls"), named("tool").into());
                let input = Arc::new(json!({ "path": "." }));
                let request =
                    AgentRequest { key: key.clone(), id, tool: "skeleton".to_owned(), input };
                Step::Ask(AgentNews::Calls(request), key)
            }
            kind => {
                let means = match kind {
                    3 => AgentMeans::Read("in".to_owned()),
                    4 => AgentMeans::Write(vec!["out".to_owned()]),
                    _ => AgentMeans::Command(format!("command {key}")),
                };
                let key = named("asks");
                let ask = AgentAsk {
                    key: key.clone(),
                    id: named("tool").into(),
                    tool: "Tool".to_owned(),
                    input: Arc::new(json!({})),
                    means,
                    helper: None,
                };
                Step::Ask(AgentNews::Asks(ask), key)
            }
        }
    }

    fn last_step(&mut self, task: &TaskId) -> Step {
        let model = AgentEnd::Model {
            kind: "overloaded".to_owned(),
            status: Some(529),
            again: true,
            after: Some(20),
        };
        Step::End(match self.random.below(8) {
            0 => ended(AgentEnd::Failed, "it failed"),
            // Waiting for it takes ever longer: towards the end it has recovered, so that every task can end.
            1 if !self.finishing => ended(model, "overloaded"),
            2 => ended(AgentEnd::NoSession, "no such conversation"),
            _ => ended(AgentEnd::Done, &format!("{task} is done")),
        })
    }

    /// A count that no other answer has, so that each can be told apart.
    fn tokens(&mut self) -> Usage {
        self.last_count += 1;
        Usage { input: Some(1_000_000 + self.last_count), output: Some(0), ..Usage::default() }
    }

    /// An agent says its next thing; who is to hear it. Nothing if it waits, was stopped, or has nothing more to say.
    pub(crate) fn on_say(&mut self, number: usize) -> Option<(usize, TaskId, EffectId, AgentNews)> {
        let attempt = &mut self.attempts[number];
        if attempt.stopped || attempt.reported || attempt.orphan {
            return None;
        }
        let (process, task, turn) = (attempt.process, attempt.task.clone(), attempt.effect.id());
        let play = attempt.play.as_mut()?;
        if play.waits.is_some() {
            return None;
        }
        let (news, goes_on) = match play.steps.pop_front()? {
            Step::Say(news) => (news, true),
            Step::Ask(news, key) => {
                play.waits = Some(key);
                (news, false)
            }
            Step::End(turn) => {
                play.end = Some(turn);
                let delay = self.delay(0, 20);
                self.after(delay, Happening::Report(number));
                return None;
            }
            Step::Hang => return None,
        };
        if goes_on {
            let delay = self.delay(0, 15);
            self.after(delay, Happening::Say(number));
        }
        Some((process, task, turn, news))
    }

    /// An agent that waits is answered: it goes on with what follows from that.
    fn answered(
        &mut self,
        process: usize,
        task: &TaskId,
        turn: EffectId,
        key: &str,
        steps: Vec<AgentNews>,
    ) {
        let waits = |attempt: &super::work::Attempt| {
            attempt.process == process
                && attempt.task == *task
                && attempt.effect.id() == turn
                && !attempt.stopped
                && attempt.play.as_ref().is_some_and(|play| play.waits.as_deref() == Some(key))
        };
        let Some(number) = self.attempts.iter().position(waits) else { return };
        let Some(play) = &mut self.attempts[number].play else { return };
        play.waits = None;
        for news in steps.into_iter().rev() {
            play.steps.push_front(Step::Say(news));
        }
        let delay = self.delay(0, 20);
        self.after(delay, Happening::Say(number));
    }

    /// What the loop tells an agent. True if the effect was such an order, and so has no report.
    pub(super) fn hears(&mut self, process: usize, task: &TaskId, effect: &Effect) -> bool {
        match effect {
            Effect::TellAgent { turn, order, .. } => {
                self.hears_order(process, task, *turn, order);
                true
            }
            Effect::LetAsk { turn, request, may, .. } => {
                let steps = match may {
                    Ok(()) => {
                        let (model, usage) = ("m".to_owned(), self.tokens());
                        vec![AgentNews::Passed { request: *request, model, usage }]
                    }
                    Err(_) => Vec::new(),
                };
                self.answered(process, task, *turn, &request.to_string(), steps);
                true
            }
            Effect::AnswerRequest { .. }
            | Effect::TakeUpChild { .. }
            | Effect::DismissAgents { .. } => true,
            _ => false,
        }
    }

    fn hears_order(&mut self, process: usize, task: &TaskId, turn: EffectId, order: &AgentOrder) {
        let said =
            |text: &str| vec![AgentNews::Said { text: text.to_owned(), thinking: String::new() }];
        match order {
            AgentOrder::Answer { key, may: Ok(_) } => {
                let id: Arc<str> = key.replace("asks", "tool").into();
                let (ok, text) = (!self.chance(8), "by the agent".to_owned());
                self.tally.agent_calls += 1;
                let news = vec![AgentNews::ToolEnded { id, ok, text }];
                self.answered(process, task, turn, key, news);
            }
            AgentOrder::Answer { key, may: Err(_) } => {
                self.answered(process, task, turn, key, said("then not"));
            }
            AgentOrder::ToolResult { key, .. } => {
                self.answered(process, task, turn, key, said("I see"));
            }
            AgentOrder::Steer { text } if self.chance(3) => {
                let failed = FailedOrder::turn_ended(text.clone());
                let input = Signal::AgentSaid(turn, AgentNews::OrderFailed(failed)).into();
                self.after(5, Happening::Stray(process, task.clone(), input));
            }
            AgentOrder::Prompt { .. }
            | AgentOrder::Steer { .. }
            | AgentOrder::MayStop { .. }
            | AgentOrder::Interrupt
            | AgentOrder::SetModel { .. }
            | AgentOrder::Compact { .. } => {}
        }
    }

    /// How a turn ended, for its report.
    pub(super) fn turn_end(&self, number: usize, id: EffectId) -> Input {
        let end = self.attempts[number].play.as_ref().and_then(|play| play.end.clone());
        Signal::AgentEnded(id, end.ok_or_else(|| "no agent".to_owned())).into()
    }

    /// What an agent that was stopped still says: what it has spent by then.
    pub(super) fn last_words(&mut self, process: usize, task: &TaskId, turn: EffectId) {
        let (usage, usd, metered) = (self.tokens(), None, false);
        let news = AgentNews::Spent { usage, usd, metered };
        let happening =
            Happening::Stray(process, task.clone(), Signal::AgentSaid(turn, news).into());
        let delay = self.delay(0, 20);
        self.after(delay, happening);
    }

    /// A task has one agent at work: whoever takes it up after a crash asks for one continuation, of an agent whose
    /// predecessor is gone. A process from which the task was taken ends its agent when it finds out.
    pub(super) fn check_alone(&mut self, process: usize, task: &TaskId, call: &AgentCall) {
        let works = |attempt: &&super::work::Attempt| {
            attempt.process == process
                && attempt.task == *task
                && !attempt.stopped
                && !attempt.reported
                && matches!(attempt.effect, Effect::AskAgent { .. })
        };
        if let Some(other) = self.attempts.iter().find(works) {
            let (first, number) = (other.effect.id().0, call.conversation);
            self.fail(
                Check::NothingDoubled,
                format!("an agent of {task} is asked in conversation {number} while turn {first} goes on"),
            );
        }
    }
}

fn ended(end: AgentEnd, text: &str) -> AgentTurn {
    let text = text.to_owned();
    AgentTurn { end, text, ordered: true, refused: 0, background: 0, queued: 0 }
}
