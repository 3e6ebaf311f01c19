//! Steps that hold steps: another workflow, the elements of a list, branches, a row.

use serde_json::{Map, Value, json};

use super::Run;
use crate::driver::workflow::End;
use crate::driver::workflow::definition::*;
use crate::driver::workflow::frame::{Address, Branch, EachFrame, FlowFrame, RowFrame, Stage};
use crate::driver::workflow::result::{self, Ended};
use crate::driver::workflow::scope::{Layer, Scope, World};

impl Run<'_> {
    /// Moves whatever is inside a step.
    pub(super) fn group(
        &mut self,
        step: &Step,
        stage: &mut Stage,
        scope: &Scope<'_>,
        address: &mut Address,
    ) -> Option<Ended> {
        match (stage, &step.work) {
            (Stage::Flow(frame), Work::Flow(work)) => self.nested(step, work, frame, address),
            (Stage::Each(frame), Work::Each(each)) => self.each(step, each, frame, scope, address),
            (Stage::Parallel(branches), Work::Parallel(work)) => {
                self.parallel(step, work, branches, scope, address)
            }
            (Stage::Row(frame), Work::Row(row)) => {
                Some(match self.row(row, frame, scope, address)? {
                    Ok(()) => of_last(frame.last.take()),
                    Err(end) => Ended { stuck: end.stuck, ..of_failure(end.reason) },
                })
            }
            // A frame is made for its step, and checked when it is loaded.
            _ => Some(of_failure(format!("the saved place of step {:?} does not fit", step.name))),
        }
    }

    fn nested(
        &mut self,
        step: &Step,
        work: &FlowWork,
        frame: &mut FlowFrame,
        address: &mut Address,
    ) -> Option<Ended> {
        // Taken out for as long as the frame is changed: a copy would cost more the more is given.
        let inputs = std::mem::take(&mut frame.inputs);
        let ended = self.flow(&work.flow, frame, &inputs, address);
        if ended.is_none() {
            frame.inputs = inputs;
            return None;
        }
        Some(match ended? {
            Ok(()) => match outputs(self.world, &work.flow, frame, &inputs) {
                Ok(outputs) => {
                    let mut ended = Ended::ok("");
                    ended.set("outputs", outputs);
                    ended
                }
                Err(why) => of_failure(format!("step {:?}: {why}", step.name)),
            },
            Err(end) => {
                let why =
                    format!("step {:?} ({}) failed: {}", step.name, work.flow.title(), end.reason);
                Ended { stuck: end.stuck, why, ..of_failure(end.reason) }
            }
        })
    }

    fn each(
        &mut self,
        step: &Step,
        each: &Each,
        frame: &mut EachFrame,
        scope: &Scope<'_>,
        address: &mut Address,
    ) -> Option<Ended> {
        let length = frame.items.len();
        // Of a thousand at once, those that wait for the result of a call are looked at when it came.
        let awake = frame.awake.take();
        let mut awake = awake.unwrap_or_else(|| frame.running.keys().copied().collect());
        awake.extend(self.woken(address));
        loop {
            let decided = match each.join {
                Join::All => frame.failure.is_some(),
                Join::Any => frame.succeeded > 0,
            };
            while !decided && frame.running.len() < each.width && frame.next < length {
                frame.running.insert(frame.next, RowFrame::default());
                awake.insert(frame.next);
                frame.next += 1;
            }
            if frame.running.is_empty() {
                return Some(each.ended(step, frame));
            }
            let mut ended: Vec<(usize, Result<(), End>)> = Vec::new();
            let EachFrame { items, running, .. } = frame;
            // What came for one that has ended wakes nobody.
            awake.retain(|index| running.contains_key(index));
            self.round.busy |= running.len() > awake.len();
            for index in std::mem::take(&mut awake) {
                let Some(row) = running.get_mut(&index) else { continue };
                let layer = Layer::Element { name: &each.name, item: &items[index], index, length };
                let scope = scope.with(layer);
                address.push(u32::try_from(index).unwrap_or(u32::MAX));
                let end = self.row(&each.row, row, &scope, address);
                address.pop();
                match end {
                    Some(end) => ended.push((index, end)),
                    None if row.step.stage == Stage::Busy => {}
                    None => {
                        awake.insert(index);
                    }
                }
                if self.over.is_some() {
                    return None;
                }
            }
            if ended.is_empty() {
                frame.awake = Some(awake);
                return None;
            }
            for (index, end) in ended {
                let row = frame.running.remove(&index);
                let ok = end.is_ok();
                match end {
                    Ok(()) => frame.succeeded += 1,
                    Err(end) if frame.failure.is_none() => {
                        frame.failure = Some(format!("element {}: {}", index + 1, end.reason));
                        frame.stuck = end.stuck;
                    }
                    Err(_) => {}
                }
                if each.keeps {
                    frame.results.insert(index, element(row, ok));
                }
            }
        }
    }

    /// The numbers of those below an address for whom something came.
    fn woken(&self, address: &Address) -> impl Iterator<Item = usize> {
        let below = self.came.range(address.clone()..);
        let below = below.take_while(|(of, _)| of.starts_with(address));
        below.filter_map(|(of, _)| usize::try_from(*of.get(address.len())?).ok())
    }

    fn parallel(
        &mut self,
        step: &Step,
        work: &Parallel,
        branches: &mut [Branch],
        scope: &Scope<'_>,
        address: &mut Address,
    ) -> Option<Ended> {
        for index in self.woken(address) {
            if let Some(branch) = branches.get_mut(index) {
                branch.sleeps = false;
            }
        }
        for (index, (branch, (_, row))) in branches.iter_mut().zip(&work.branches).enumerate() {
            if branch.ended.is_some() {
                continue;
            }
            if branch.sleeps {
                self.round.busy = true;
                continue;
            }
            address.push(u32::try_from(index).unwrap_or(u32::MAX));
            let end = self.row(row, &mut branch.row, scope, address);
            address.pop();
            branch.sleeps = end.is_none() && branch.row.step.stage == Stage::Busy;
            if let Some(end) = end {
                branch.stuck = end.as_ref().is_err_and(|end| end.stuck);
                branch.ended = Some(end.err().map_or_else(String::new, |end| end.reason));
            }
            if self.over.is_some() {
                return None;
            }
        }
        if branches.iter().any(|branch| branch.ended.is_none()) {
            return None;
        }
        let failures: Vec<String> = branches
            .iter()
            .zip(&work.branches)
            .filter_map(|(branch, (name, _))| {
                let why = branch.ended.as_ref().filter(|why| !why.is_empty())?;
                Some(format!("{name}: {why}"))
            })
            .collect();
        let ok = match work.join {
            Join::All => failures.is_empty(),
            Join::Any => failures.len() < branches.len(),
        };
        let mut ended = if ok {
            Ended::ok("")
        } else {
            let mut failed = branches.iter().filter(|branch| branch.ended.as_deref() != Some(""));
            let stuck = failed.all(|branch| branch.stuck);
            let all = failures.join("; ");
            let why = format!("step {:?} failed: {all}", step.name);
            Ended { why, stuck, ..of_failure(all) }
        };
        if step.keeps {
            let table = branches.iter_mut().zip(&work.branches).map(|(branch, (name, _))| {
                let ok = branch.ended.as_ref().is_some_and(String::is_empty);
                (
                    name.clone(),
                    result::unpacked(&element(Some(std::mem::take(&mut branch.row)), ok)),
                )
            });
            ended.set("branches", Value::Object(table.collect()));
        }
        Some(ended)
    }
}

/// What a workflow gives at its end.
pub(in crate::driver::workflow) fn outputs(
    world: World<'_>,
    flow: &Flow,
    frame: &FlowFrame,
    inputs: &Value,
) -> Result<Value, String> {
    let top = Scope { outer: None, layer: Layer::Flow { world, inputs } };
    let layer = match (&flow.body, &frame.states) {
        (Body::States(states), Some(frame)) => {
            Layer::Steps { index: &states.index, results: &frame.results, visits: &frame.visits }
        }
        (Body::Row(row), _) => Layer::Steps {
            index: &row.index,
            results: &frame.row.results,
            visits: &frame.row.visits,
        },
        (Body::States(_), None) => top.layer,
    };
    let scope = top.with(layer);
    let mut outputs = Map::new();
    for (name, formula) in &flow.outputs {
        let value = scope.value(formula).map_err(|why| format!("the output {name:?}: {why}"))?;
        outputs.insert(name.clone(), value);
    }
    Ok(Value::Object(outputs))
}

impl Each {
    fn ended(&self, step: &Step, frame: &mut EachFrame) -> Ended {
        let failure = frame.failure.take().filter(|_| match self.join {
            Join::All => true,
            Join::Any => frame.succeeded == 0,
        });
        let mut ended = match failure {
            Some(why) => {
                let said = format!("step {:?} failed: {why}", step.name);
                Ended { why: said, stuck: frame.stuck, ..of_failure(why) }
            }
            None => Ended::ok(""),
        };
        if self.keeps {
            let results = std::mem::take(&mut frame.results);
            let list = results.values().map(result::unpacked).collect();
            ended.set("results", Value::Array(list));
        }
        ended
    }
}

/// What came of an element or a branch: what came of its last step, and whether all of it went well.
fn element(row: Option<RowFrame>, ok: bool) -> Value {
    let mut packed = row.and_then(|row| row.last).unwrap_or_else(|| json!({}));
    packed["ok"] = json!(ok);
    packed["failed"] = json!(!ok);
    packed
}

fn of_failure(why: String) -> Ended {
    Ended::failed("failed", &why, why.clone())
}

/// A row that went well is what came of its last step.
fn of_last(last: Option<Value>) -> Ended {
    let mut ended = Ended::ok("");
    for (key, value) in last.iter().filter_map(Value::as_object).flatten() {
        if !matches!(key.as_str(), "ok" | "failed" | "skipped" | "status" | "attempts") {
            ended.set(key, value.clone());
        }
    }
    ended
}
