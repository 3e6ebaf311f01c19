//! The child that a step begins: set aside, driven by whoever drives its parent, charged when it leaves.

use std::borrow::Cow;

use super::relay::Relayed;
use crate::child::step::{ChildEnd, TaskOrder};
use crate::child::{self, Child};
use crate::driver::{Consultation, Fact};
use crate::effect::Effect;
use crate::event::EventKind;
use crate::id::{EffectId, TaskId};
use crate::input::Command;
use crate::policy::budget::{Budget, Purchase, Spend};
use crate::state::{Pending, Phase};
use crate::step::Step;
use crate::task::Outcome;

impl Step<'_> {
    /// Gives a child that is asked for for the first time a number that no other has, and tells the driver: when it asks
    /// again, it asks for the same one.
    pub(crate) fn number_child(&mut self, order: &mut TaskOrder) {
        if !std::mem::take(&mut order.first) {
            return;
        }
        let data = &self.state.data;
        while data.children.contains_key(&order.id(&data.id)) {
            order.number += 1;
        }
        let (driver, situation) = self.driver();
        driver.observe(&situation, &Fact::ChildBegan(order.number));
    }

    /// Sets aside what a child may spend and has it driven; one that is known goes on. A child that cannot begin is a
    /// failed one.
    pub(crate) fn begin_child(&mut self, order: TaskOrder) {
        let data = &self.state.data;
        let child = order.id(&data.id);
        let known = data.children.get(&child);
        let is_known = known.is_some();
        let is_raised = known.is_some_and(|known| known.raised);
        let allotted = match known {
            Some(known) if known.raised => Ok(order.allotted_more(data, known)),
            Some(known) => Ok(known.budget.clone()),
            None => order.allotted(data),
        };
        let budget = match allotted {
            Ok(budget) => budget,
            Err(text) => {
                return self.tell_child_ended(&ChildEnd::failed(child, text));
            }
        };
        let spec = order.spec(data, budget.clone());
        let attended = data.attachment.as_ref().is_some_and(|attachment| attachment.attended);
        if is_known {
            if let Some(known) = self.state.data.children.get_mut(&child) {
                known.waits = None;
                known.budget = budget.clone();
            }
            // Again each time: whoever told it may have died over it, and what it has already changes nothing.
            if is_raised {
                self.tell_child(child.clone(), Command::Allot(budget));
            }
            // Before it goes on: it may have no second move.
            self.relay_notes(&child, Relayed::All);
        } else {
            let made =
                Child { step: Some(order.step.clone()), ..Child::new(order.goal.clone(), budget) };
            self.state.data.children.insert(child.clone(), made);
            let (child, goal) = (child.clone(), order.goal.clone());
            self.event(|| EventKind::ChildDispatched { child, goal });
        }
        // It works in the same files.
        self.note_change();
        self.state.data.turn_kept = false;
        let id = self.expect(Pending::Child);
        let spec = Box::new(spec);
        self.output.effects.push(Effect::DriveChild { id, child, spec, attended });
        self.state.data.phase = Phase::Consulting { request: Consultation::Task(Box::new(order)) };
    }

    /// A process has left the child.
    pub(crate) fn on_child_left(&mut self, id: EffectId, end: &ChildEnd) {
        let is_awaited = self.state.data.pending.get(&id) == Some(&Pending::Child);
        if !self.state.data.children.contains_key(&end.child) {
            return self.drop_signal();
        }
        // It has used up all that there was, and its parent ends over that, too: once there is more, both go on.
        let goes_on =
            is_awaited && end.ended == Some(Outcome::BudgetExhausted) && self.has_nothing_left(end);
        let ended = end.ended.filter(|_| !goes_on);
        self.charge_child(&end.child, end.charge, ended);
        self.note_heard(end);
        if !is_awaited {
            return self.drop_signal();
        }
        self.state.data.pending.remove(&id);
        self.note_change();
        if ended.is_some() {
            self.take_back_notes(&end.child);
            return self.tell_child_ended(end);
        }
        // It rests, and so does its parent: whoever takes the parent up takes up the child.
        if let Some(child) = self.state.data.children.get_mut(&end.child) {
            child.waits = end.asks.then(|| end.text.clone());
        }
    }

    /// Whether nothing is left of the task's own budget, with what the child has spent.
    fn has_nothing_left(&self, end: &ChildEnd) -> bool {
        let data = &self.state.data;
        let Some(known) = data.children.get(&end.child) else { return false };
        let spend = end.charge.since(&known.charged).on(data.spend.clone());
        !data.budget.forbids(&spend, &[Purchase::Answer]).is_empty()
    }

    /// What the task may spend more, those may that its steps have begun: one that works is told at once, one at rest when it
    /// goes on.
    pub(crate) fn raise_children(&mut self) {
        let open = |child: &&mut Child| child.step.is_some() && child.ended.is_none();
        self.state.data.children.values_mut().filter(open).for_each(|child| child.raised = true);
        let data = &self.state.data;
        let Phase::Consulting { request: Consultation::Task(order) } = &data.phase else { return };
        let Some((child, known)) = data.awaited_child().filter(|_| data.drives_child()) else {
            return;
        };
        let budget = order.allotted_more(data, known);
        if let Some(known) = self.state.data.children.get_mut(&child) {
            known.budget = budget.clone();
        }
        self.tell_child(child, Command::Allot(budget));
    }

    /// The task whose step began this one may spend more. It says so each time that it goes on with this one.
    pub(crate) fn on_allot(&mut self, budget: &Budget) {
        match &self.state.data.phase {
            Phase::Finished { outcome: Outcome::BudgetExhausted, .. } => {}
            Phase::Finished { .. } => return self.reject(self.ended()),
            _ => {}
        }
        let had = self.state.data.budget.max_usd;
        if !self.state.data.budget.grow(budget) {
            return;
        }
        if self.state.data.budget.max_usd != had {
            self.state.data.spend.allow_unpriced();
        }
        self.begin_anew();
        let budget = self.state.data.budget.clone();
        self.event(|| EventKind::BudgetRaised { budget });
        let data = &self.state.data;
        if self.is_finished() && data.budget.forbids(&data.spend, &[Purchase::Answer]).is_empty() {
            self.reopen();
        }
        self.raise_children();
        self.renew_deadline();
    }

    fn tell_child_ended(&mut self, end: &ChildEnd) {
        self.state.data.phase = Phase::Ready;
        let (driver, situation) = self.driver();
        driver.observe(&situation, &Fact::ChildEnded(end));
    }

    /// Passes on what somebody says; false if no child is being driven.
    pub(crate) fn hand_on(&mut self, command: impl FnOnce() -> Command) -> bool {
        let data = &self.state.data;
        let Some((child, _)) = data.awaited_child().filter(|_| data.drives_child()) else {
            return false;
        };
        self.tell_child(child, command());
        true
    }

    pub(crate) fn tell_child(&mut self, child: TaskId, command: Command) {
        self.state.data.last_effect += 1;
        let id = EffectId(self.state.data.last_effect);
        let command = Box::new(command);
        self.output.effects.push(Effect::TellChild { id, child, command });
    }

    /// Nobody waits for the child any more, and nobody will again: it is cancelled, driven or not.
    pub(crate) fn cancel_children(&mut self, why: &str) {
        let open = self.state.data.children.iter();
        let open = open.filter(|(_, child)| child.step.is_some() && child.ended.is_none());
        let open: Vec<TaskId> = open.map(|(id, _)| id.clone()).collect();
        self.state.data.pending.retain(|_, pending| *pending != Pending::Child);
        for child in open {
            let reason = format!("{why} ({})", self.state.data.id);
            self.tell_child(child, Command::Cancel { reason });
        }
    }

    /// What counts toward the limits. What is set aside for a child that is waited for is that child's to spend: its
    /// parent does nothing meanwhile.
    pub(crate) fn counted(&self) -> Cow<'_, Spend> {
        let data = &self.state.data;
        let Some((awaited, _)) = data.awaited_child() else { return data.committed() };
        let others = data.children.iter().filter(|(id, _)| **id != awaited);
        child::committed(&data.spend, others.map(|(_, child)| child))
    }
}
