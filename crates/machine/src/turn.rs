//! One turn: ask the driver, act on its decision, give it the results, ask again. `advance` runs after every
//! input and makes all progress that needs nothing from outside.

use std::collections::VecDeque;

use crate::driver::{Action, Consultation, Decision, Fact, NoteKind, Situation, Wait};
use crate::event::EventKind;
use crate::id::QuestionId;
use crate::policy::budget::{Exhausted, Purchase};
use crate::policy::permission::Author;
use crate::state::{Call, CallStatus, Pending, Phase};
use crate::step::Step;
use crate::task::Outcome;
use crate::time::Timestamp;
use crate::tool::Status;

/// Decisions within one input. A driver that decides more often without anything happening in the world
/// turns in a circle, and `step` must end.
const DECISIONS_PER_INPUT: u32 = 64;
/// Turns within one input: those whose calls all end at once, such as denied ones. A list of a workflow may have ten
/// thousand elements, and `step` must end.
const TURNS_PER_INPUT: u64 = 100_000;

impl Step<'_> {
    pub(crate) fn advance(&mut self) {
        let began = self.state.data.spend.turns;
        let (mut decisions, mut turns) = (0, began);
        while self.may_move() {
            // A turn that was paid for is something that happened.
            let now = self.state.data.spend.turns;
            if now != turns {
                (decisions, turns) = (0, now);
            }
            if turns.saturating_sub(began) > TURNS_PER_INPUT {
                return self.finish(Outcome::Stuck, "the driver turns in a circle".to_owned());
            }
            if !matches!(self.state.data.phase, Phase::New) {
                if self.awaits_children() {
                    return;
                }
                let reached = self.reached();
                if !reached.is_empty() {
                    return self.exhaust(reached);
                }
            }
            self.renew();
            if self.state.data.to_renew {
                return;
            }
            self.go_on_after_children();
            if self.has_left_over() {
                if !self.settle_left_over() {
                    return;
                }
                continue;
            }
            if self.look_back() {
                continue;
            }
            match &self.state.data.phase {
                Phase::New | Phase::Finished { .. } => return,
                Phase::OpeningWorkspace | Phase::KeepingBase | Phase::OpeningTools => return,
                Phase::Consulting { .. } => {
                    if !self.attend_requests() {
                        return;
                    }
                }
                Phase::Checkpointing { .. } => return,
                Phase::Verifying { summary } => {
                    if !self.is_pending(Pending::Verify) {
                        let summary = summary.clone();
                        self.verify(summary);
                    }
                    return;
                }
                Phase::RollingBack { to } => {
                    if !self.is_pending(Pending::Restore) {
                        let to = to.clone();
                        self.restore(to);
                    }
                    return;
                }
                Phase::Judging(_) => {
                    if !self.judge() {
                        return;
                    }
                }
                Phase::Waiting(_) if self.state.data.notes.is_empty() => return,
                Phase::Escalated { .. } if self.state.data.notes.is_empty() => return,
                Phase::Escalated { .. } => self.go_on(),
                Phase::Waiting(_) => {
                    self.stop(|pending| *pending == Pending::Alarm);
                    self.state.data.phase = Phase::Ready;
                }
                Phase::Ready if self.state.data.workspace.is_none() => {
                    self.open_workspace();
                }
                Phase::Ready if self.state.data.rebase.is_some() => self.begin_rebase(),
                Phase::Ready if self.state.data.unready => return self.make_ready(),
                Phase::Ready if self.wants_base() => return self.keep_base(),
                Phase::Ready if self.wants_tools() => return self.open_tools(),
                Phase::Ready => {
                    decisions += 1;
                    if decisions > DECISIONS_PER_INPUT {
                        let reason = format!(
                            "the driver {} decided {DECISIONS_PER_INPUT} times without anything happening",
                            self.state.driver.name
                        );
                        return self.finish(Outcome::Stuck, reason);
                    }
                    self.decide();
                }
                Phase::Acting => {
                    if !self.act() {
                        return;
                    }
                    decisions += 1;
                    if decisions > DECISIONS_PER_INPUT {
                        return self
                            .finish(Outcome::Stuck, "the driver turns in a circle".to_owned());
                    }
                }
            }
        }
    }

    /// Whether calls of a worker are open whose turn was ended: those that a crash left in doubt.
    fn has_left_over(&self) -> bool {
        matches!(self.state.data.phase, Phase::Ready) && !self.state.data.calls.is_empty()
    }

    /// Nobody decides, and nobody takes over, before a person has said what became of them: their results are for whoever
    /// decided on them. True if there is more to do at once.
    fn settle_left_over(&mut self) -> bool {
        if self.calls_need_tools() {
            self.open_tools();
            return true;
        }
        self.start_calls();
        !self.has_left_over() || self.end_left_over()
    }

    /// Tells the driver what became of them, once all of them have ended; false if not all have.
    pub(crate) fn end_left_over(&mut self) -> bool {
        let calls = &self.state.data.calls;
        if !calls.iter().all(|call| matches!(call.status, CallStatus::Done(_))) {
            return false;
        }
        self.deliver_results();
        self.state.data.calls.clear();
        true
    }

    /// The limits that end the task where it stands. Those of money and tokens do while somebody is asked who spends them;
    /// otherwise they bind when the next one is to be asked.
    pub(crate) fn reached(&self) -> Vec<Exhausted> {
        let data = &self.state.data;
        let spends = match &data.phase {
            Phase::Consulting { request } => request.spends(),
            Phase::Judging(_) => true,
            _ => false,
        };
        let purchase = if spends { Purchase::Answer } else { Purchase::Time };
        data.budget.forbids(&self.counted(), &[purchase])
    }

    /// Nothing new begins unless a process performs it and nobody asked to hold.
    pub(crate) fn may_move(&self) -> bool {
        let data = &self.state.data;
        !data.paused
            && !self.is_made_ready()
            && data.attachment.as_ref().is_some_and(|attachment| !attachment.draining)
    }

    fn decide(&mut self) {
        self.succeed();
        if self.is_finished() {
            return;
        }
        let is_decided = self.state.data.held.is_some() || self.state.driver.live.has_decided();
        let is_late = self.deliver_notes() && is_decided;
        let held = self.state.data.held.take();
        let is_asked = held.is_none();
        let decision = match held {
            Some(actions) => Decision::Act(actions),
            None => {
                let (driver, situation) = self.driver();
                driver.decide(&situation)
            }
        };
        match decision {
            Decision::Act(actions) if is_late => self.act_on_what_stands(actions),
            decision => self.apply(decision),
        }
        if is_asked {
            self.forget_told();
        }
    }

    /// The driver has decided since people spoke. What a limit holds back is not done, and whoever takes over then hears it.
    fn forget_told(&mut self) {
        let data = &mut self.state.data;
        let exhausted = Outcome::BudgetExhausted;
        let is_over =
            matches!(&data.phase, Phase::Finished { outcome, .. } if *outcome == exhausted);
        if data.held.is_none() && !is_over {
            data.told.clear();
        }
    }

    /// The operator spoke before this was begun. What a worker wished for, it wished for without knowing: it is told
    /// that nothing of it was done, and thinks again. A step that the operator wrote stands.
    fn act_on_what_stands(&mut self, actions: Vec<Action>) {
        let (wishes, written): (Vec<Action>, Vec<Action>) =
            actions.into_iter().partition(|action| action.author == Author::Worker);
        if !wishes.is_empty() {
            self.add_calls(wishes);
            let why = "the operator spoke before it began";
            self.end_calls(Status::Skipped, why, |call| {
                matches!(call.status, CallStatus::Queued { .. })
            });
            self.deliver_results();
            self.state.data.calls.clear();
        }
        if !written.is_empty() {
            self.begin_turn(written);
        }
    }

    fn apply(&mut self, decision: Decision) {
        if !matches!(decision, Decision::Consult(_) | Decision::GiveUp { .. }) {
            self.state.data.course.trouble = None;
        }
        match decision {
            Decision::Act(actions) if actions.is_empty() => {
                let reason = format!(
                    "the driver {} decided to act but named no action",
                    self.state.driver.name
                );
                self.finish(Outcome::Failed, reason);
            }
            Decision::Act(actions) => self.begin_turn(actions),
            Decision::Wait(wait) => self.wait(wait),
            Decision::Consult(mut request) => {
                if !self.may_go_on_idle() || !self.may_ask(&request) {
                    return;
                }
                if matches!(request, Consultation::Agent(_)) {
                    self.begin_agent_turn();
                }
                self.begin_question(&mut request);
                match &mut request {
                    Consultation::Task(order) => self.number_child(order),
                    Consultation::Agent(call) => self.number_conversation(call),
                    Consultation::Model(_) | Consultation::Plugin(_) => {}
                }
                self.consult(request);
            }
            Decision::Claim { summary } => {
                if !self.may_go_on_idle() {
                    return;
                }
                let data = &self.state.data;
                let reached = data.budget.used_up(&data.spend);
                match reached.is_empty() {
                    true => self.on_claim(summary),
                    false => self.exhaust(reached),
                }
            }
            Decision::GiveUp { reason, stuck } => {
                self.on_give_up(reason, stuck);
            }
        }
    }

    /// Whether the budget lets it be asked; if not, the task ends by that, and the driver asks again once there is more. To
    /// ask an agent is a turn, and paid for as one.
    fn may_ask(&mut self, request: &Consultation) -> bool {
        let purchases: &[Purchase] = match request {
            Consultation::Plugin(_) => &[],
            Consultation::Model(_) | Consultation::Task(_) => &[Purchase::Answer],
            Consultation::Agent(_) => &[Purchase::Turn, Purchase::Answer],
        };
        let forbidden = self.state.data.budget.forbids(&self.state.data.committed(), purchases);
        if forbidden.is_empty() {
            return true;
        }
        self.exhaust(forbidden);
        false
    }

    /// A claim was refused, or an answer only broke off. If nothing has been done since the last time, that was a turn: no
    /// call and no agent is paid for where a driver does nothing else, and a limit of turns has to end that too.
    pub(crate) fn count_idle_turn(&mut self) {
        let data = &mut self.state.data;
        if data.spend.turns == data.idle_turn.unwrap_or(0) {
            data.spend.turns += 1;
        }
        data.idle_turn = Some(data.spend.turns);
    }

    /// Whether one more decision may follow a turn in which nothing was done; if not, the task ends by that.
    fn may_go_on_idle(&mut self) -> bool {
        let data = &self.state.data;
        if data.idle_turn != Some(data.spend.turns) {
            return true;
        }
        let forbidden = data.budget.forbids(&data.committed(), &[Purchase::Turn]);
        if forbidden.is_empty() {
            return true;
        }
        self.exhaust(forbidden);
        false
    }

    fn begin_turn(&mut self, actions: Vec<Action>) {
        let forbidden =
            self.state.data.budget.forbids(&self.state.data.committed(), &[Purchase::Turn]);
        if !forbidden.is_empty() {
            self.state.data.held = Some(actions);
            return self.exhaust(forbidden);
        }
        self.state.data.spend.turns += 1;
        let (turn, count) = (self.state.data.spend.turns, actions.len());
        self.event(|| EventKind::TurnStarted { turn, actions: count });
        self.add_calls(actions);
        self.state.data.turn_kept = false;
        self.state.data.phase = Phase::Acting;
        self.ask_for_its_moments();
    }

    /// An eager driver that acts has not said when something else of it is due: it is asked again at once.
    fn ask_for_its_moments(&mut self) {
        if self.state.driver.live.eager() {
            self.state.data.wakes_at = Some(self.now);
        }
    }

    fn add_calls(&mut self, actions: Vec<Action>) {
        // A call is large, and most turns have one: room for four would be wasted by every task that waits.
        self.state.data.calls.reserve_exact(actions.len());
        for action in actions {
            let class = self.class_of(&action.tool);
            self.state.data.last_call += 1;
            self.state.data.calls.push(Call {
                id: crate::id::CallId(self.state.data.last_call),
                class,
                action,
                status: CallStatus::Queued { approved: false, repeated: false, by: String::new() },
                delivered: false,
                began: None,
                request: None,
                asker: None,
                agent: None,
            });
        }
    }

    /// Starts what can be started and gives the driver what has ended; true if there is more to do at once.
    fn act(&mut self) -> bool {
        if self.calls_need_tools() {
            self.open_tools();
            return true;
        }
        if self.state.data.held_claim.is_none() {
            self.start_calls();
        }
        if !matches!(self.state.data.phase, Phase::Acting) {
            return true;
        }
        let done =
            self.state.data.calls.iter().all(|call| matches!(call.status, CallStatus::Done(_)));
        // Whoever takes over decides what comes next: what runs ends, and nothing is added to it.
        if self.state.data.successor.is_none() && self.state.data.held_claim.is_some() {
            return self.claim_what_was_held();
        }
        if done {
            self.close_turn();
            self.state.data.phase = Phase::Ready;
            return true;
        }
        if self.state.data.successor.is_some() {
            return false;
        }
        // Whatever else it decides would be held back, too.
        if self.state.data.held.is_some() {
            // Somebody spoke: what was held back is looked at again once what runs has ended.
            let held = self.state.data.held.take_if(|_| self.state.data.notes.is_empty());
            return held.is_some_and(|actions| self.join_turn(actions));
        }
        if !self.state.driver.live.eager() {
            return false;
        }
        let now = self.now;
        let is_due = self.state.data.wakes_at.take_if(|at| *at <= now).is_some();
        if self.deliver_results() == 0 && !is_due {
            return false;
        }
        self.forget_delivered();
        self.decide_while_acting()
    }

    /// Has an eager driver decide again at that moment, whatever is under way then.
    fn wake_at(&mut self, moment: Option<Timestamp>) {
        let moment = moment.filter(|at| *at > self.now);
        if self.state.data.wakes_at == moment {
            return;
        }
        self.stop(|pending| *pending == Pending::Alarm);
        self.state.data.wakes_at = moment;
        if let Some(at) = moment {
            self.set_alarm(at);
        }
    }

    /// Checks a claim that was held once nothing of the others runs any more; true if there is more to do at once.
    fn claim_what_was_held(&mut self) -> bool {
        let running = |call: &Call| matches!(call.status, CallStatus::Running { .. });
        if self.state.data.calls.iter().any(running) {
            return false;
        }
        let Some(summary) = self.state.data.held_claim.take() else { return false };
        self.decide_in_place_of_others(Decision::Claim { summary });
        true
    }

    /// Ends whatever is under way, since nothing of it matters to what was decided.
    fn decide_in_place_of_others(&mut self, decision: Decision) {
        self.abort_calls("another way won");
        self.settle_doubts();
        self.close_turn();
        self.state.data.phase = Phase::Ready;
        self.apply(decision);
    }

    /// Adds to the open turn what is one more; true if there is more to do at once.
    fn join_turn(&mut self, actions: Vec<Action>) -> bool {
        let data = &mut self.state.data;
        let forbidden = data.budget.forbids(&data.committed(), &[Purchase::Turn]);
        if forbidden.is_empty() {
            data.spend.turns += 1;
            let (turn, count) = (data.spend.turns, actions.len());
            self.event(|| EventKind::TurnStarted { turn, actions: count });
            self.add_calls(actions);
            self.state.data.turn_kept = false;
            self.ask_for_its_moments();
            return true;
        }
        data.held = Some(actions);
        // What runs may end first: its result is not lost to the limit.
        let running = |call: &Call| matches!(call.status, CallStatus::Running { .. });
        if data.calls.iter().any(running) {
            return false;
        }
        self.exhaust(forbidden);
        true
    }

    /// An eager driver decides after each result, while other actions are under way.
    fn decide_while_acting(&mut self) -> bool {
        let decision = {
            let (driver, situation) = self.driver();
            driver.decide(&situation)
        };
        let goes_on = match decision {
            Decision::Act(actions) if !actions.is_empty() => self.join_turn(actions),
            Decision::Act(_) => false,
            Decision::Wait(wait) => {
                self.wake_at(wait.moment());
                false
            }
            // If the claim does not hold, the others go on: what they have begun comes to its end, and none of it reaches into
            // the check.
            Decision::Claim { summary } if !self.state.data.spec.acceptance.is_empty() => {
                self.wake_at(None);
                self.state.data.held_claim = Some(summary);
                self.claim_what_was_held()
            }
            Decision::Consult(_) | Decision::Claim { .. } | Decision::GiveUp { .. } => {
                self.decide_in_place_of_others(decision);
                true
            }
        };
        self.forget_told();
        goes_on
    }

    /// Gives the driver every result it has not seen, in the order of the decision; how many there were.
    pub(crate) fn deliver_results(&mut self) -> usize {
        let mut calls = std::mem::take(&mut self.state.data.calls);
        let mut delivered = 0;
        for call in calls.iter_mut().filter(|call| !call.delivered) {
            if let CallStatus::Done(result) = &call.status {
                call.delivered = true;
                let (driver, situation) = self.driver();
                if !driver.owns(&call.action.path) {
                    self.drop_signal();
                    continue;
                }
                driver.observe(
                    &situation,
                    &Fact::Result { call: call.id, action: &call.action, result },
                );
                delivered += 1;
            }
        }
        self.state.data.calls = calls;
        delivered
    }

    /// Lets go of steps that were written down and whose driver has their results: a turn in which there is always one more
    /// under way may never end. What a worker did is looked at as a whole when its turn ends.
    fn forget_delivered(&mut self) {
        self.state
            .data
            .calls
            .retain(|call| !call.delivered || call.action.author == Author::Worker);
    }

    /// Ends the open turn, if there is one: the driver has every result, each once.
    pub(crate) fn close_turn(&mut self) {
        if self.state.data.calls.is_empty() {
            return;
        }
        self.deliver_results();
        self.wake_at(None);
        self.state.data.held_claim = None;
        self.note_turn_ended();
        self.state.data.calls.clear();
        let turn = self.state.data.spend.turns;
        self.event(|| EventKind::TurnEnded { turn });
        self.tell_progress();
    }

    /// True if one of them is about what comes next, and not only said once the driver would be finished.
    fn deliver_notes(&mut self) -> bool {
        let notes: VecDeque<_> = std::mem::take(&mut self.state.data.notes);
        let is_told = notes.iter().any(|note| note.kind != NoteKind::FollowUp);
        for note in notes {
            let (driver, situation) = self.driver();
            driver.observe(&situation, &Fact::Note(&note));
            self.event(|| EventKind::NoteDelivered { note });
        }
        is_told
    }

    fn wait(&mut self, wait: Wait) {
        match &wait {
            // The moment has passed: the driver is asked again at once.
            Wait::Person { .. } if wait.moment().is_some_and(|at| at <= self.now) => return,
            Wait::Person { prompt, number, .. } => {
                let prompt = prompt.clone();
                let question = self.put_question(*number);
                self.event(|| EventKind::DecisionAwaited { prompt, question });
                if let Some(at) = wait.moment() {
                    self.set_alarm(at);
                }
            }
            Wait::Until { at, reason } if *at > self.now => {
                let (at, reason) = (*at, reason.clone());
                let until = self.state.data.by_the_clock(at);
                self.event(|| EventKind::TimerAwaited { until, reason });
                self.set_alarm(at);
            }
            // The moment has passed: the driver is asked again at once.
            Wait::Until { .. } => return,
            Wait::Results { .. } => {
                let reason = format!(
                    "the driver {} waits for results but nothing is under way",
                    self.state.driver.name
                );
                return self.finish(Outcome::Failed, reason);
            }
        }
        self.state.data.phase = Phase::Waiting(wait);
    }

    /// The number of a question that is put to a person. Each has its own, also if it is in the same words as the one before,
    /// since what was said to that one was said of that. The driver knows which one is only put again.
    pub(crate) fn put_question(&mut self, of_driver: Option<u64>) -> QuestionId {
        let data = &mut self.state.data;
        if of_driver.is_none() || data.asked_person != of_driver {
            data.last_question.0 += 1;
            data.asked_person = of_driver;
        }
        data.last_question
    }

    pub(crate) fn on_tell(&mut self, line: String, question: Option<QuestionId>) {
        if self.is_finished() {
            return self.reject(self.ended());
        }
        let escalated = matches!(self.state.data.phase, Phase::Escalated { .. });
        if !escalated && !matches!(self.state.data.phase, Phase::Waiting(Wait::Person { .. })) {
            return self.reject("nobody asked for a decision: the task does not wait for one");
        }
        let asked = self.state.data.last_question;
        if let Some(seen) = question.filter(|seen| *seen != asked) {
            return self.reject(format!("{seen} does not wait any more: {asked} is asked now"));
        }
        if escalated {
            return self.on_escalation_answered(&line);
        }
        self.stop(|pending| *pending == Pending::Alarm);
        let question = match std::mem::replace(&mut self.state.data.phase, Phase::Ready) {
            Phase::Waiting(Wait::Person { prompt, .. }) if !self.state.driver.is_prompt() => prompt,
            _ => String::new(),
        };
        let (driver, situation) = self.driver();
        driver.observe(&situation, &Fact::Told(&line));
        self.remember_told(&line, &question);
        self.event(|| EventKind::Told { line });
    }

    /// The driver and what it may look at.
    pub(crate) fn driver(&mut self) -> (&mut dyn crate::driver::Driver, Situation<'_>) {
        let data = &self.state.data;
        let situation = Situation {
            goal: &data.spec.goal,
            criteria: &data.spec.acceptance,
            now: self.now,
            turns: data.spend.turns,
            path: &[],
            tools: &data.tools,
        };
        (self.state.driver.live.as_mut(), situation)
    }
}
