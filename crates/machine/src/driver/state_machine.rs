//! The driver `state_machine`: states with a call each, and transitions guarded by what came of it.
//!
//! Its configuration is `{"initial", "states": {NAME: {"action": {"tool", "parameters", "timeout"},
//! "parallel": [{"name", "tool", …}], "join", "machine": {…}, "on_entry": […], "on_exit": […],
//! "transitions": [{"to", "when", "max"}], "terminal", "outcome"}}}`; the states may also be a list with names.
//!
//! The first transition that holds is taken; none is a failure. Each is counted and has an end, and a failure
//! of `on_entry` or `on_exit` ends the machine unless it says otherwise, so that every machine ends.

mod definition;
mod guard;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::workflow::call::{Call, is_put_off};
use super::workflow::{End, verdict_failed};
use super::{Decision, Driver, DriverKind, Fact, Registry, Situation};
use crate::file::check::{Cursor, Problems, short};
use crate::file::shape::workflow::machine as shape;
use crate::tool::{Status, ToolResult};

pub(crate) use definition::read_machine;
use definition::{Hook, Join, Machine, State, Work};
use guard::Seen;

/// Moves in one decision that perform nothing; more are a circle.
const SILENT_MOVES: u32 = 10_000;

/// The kind of driver that follows a machine of states.
#[derive(Debug)]
pub struct StateMachineKind;

impl DriverKind for StateMachineKind {
    fn name(&self) -> &str {
        "state_machine"
    }

    fn version(&self) -> u32 {
        1
    }

    fn create(&self, config: &Value, _: &Registry) -> Result<Box<dyn Driver>, String> {
        let definition = Definition::read(config)?;
        let memory = Memory::new(&definition.machine);
        Ok(Box::new(StateMachine { definition: Arc::new(definition), memory }))
    }

    fn load(&self, config: &Value, state: &Value, _: &Registry) -> Result<Box<dyn Driver>, String> {
        let definition = Definition::read(config)?;
        let memory =
            Memory::deserialize(state).map_err(|error| format!("saved state machine: {error}"))?;
        if !memory.fits(&definition.machine) {
            return Err(
                "saved state machine stands at a state that the machine does not have".to_owned()
            );
        }
        Ok(Box::new(StateMachine { definition: Arc::new(definition), memory }))
    }
}

#[derive(Debug)]
struct Definition {
    title: String,
    machine: Machine,
    max_steps: Option<u64>,
}

impl Definition {
    fn read(config: &Value) -> Result<Definition, String> {
        let mut problems = Problems::default();
        let at = Cursor::top(config);
        if let Some(name) = at.get("workflow").filter(|_| at.get("states").is_none()) {
            return Err(format!("the workflow {} has not been looked up", short(name.value)));
        }
        at.keys(&mut problems, &shape::CONFIG);
        let name = at.get("name").and_then(|name| name.name(&mut problems));
        let max_steps = at.get("max_steps").and_then(|most| most.whole(&mut problems));
        let title = name
            .map_or_else(|| "the state machine".to_owned(), |name| format!("state machine {name}"));
        match read_machine(&at, "", 0, &mut problems) {
            Some(machine) if problems.is_empty() => Ok(Definition { title, machine, max_steps }),
            _ => Err(problems.line()),
        }
    }
}

/// A machine under way.
#[derive(Debug)]
struct StateMachine {
    definition: Arc<Definition>,
    memory: Memory,
}

/// All that is remembered between two calls.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Memory {
    /// The machine's place, then that of the machine inside its state, and so on.
    frames: Vec<Frame>,
    /// Results of branches that came while others are under way.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    branches: Vec<ToolResult>,
    /// The branches that are begun again, while the others keep what came of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    again: Vec<usize>,
    /// Calls that were carried out.
    #[serde(default)]
    carried_out: u64,
    /// Times in a row that a call was put off.
    #[serde(default)]
    put_off: u32,
    /// Whether it has claimed. A verdict without a claim of its own is news from before, told to whoever takes over.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    claimed: bool,
    /// Why it cannot go on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    end: Option<End>,
}

/// The place in one machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Frame {
    state: usize,
    stage: Stage,
    /// How often each transition was taken, by state and place in its list.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    taken: BTreeMap<usize, BTreeMap<usize, u64>>,
}

/// How far a state is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Stage {
    /// This one of `on_entry` is next.
    Entry(usize),
    /// Its own work is next or under way.
    Work,
    /// A transition is chosen, and this one of `on_exit` is next.
    Exit { hook: usize, way: usize },
}

impl Frame {
    fn at(state: usize) -> Frame {
        Frame { state, stage: Stage::Entry(0), taken: BTreeMap::new() }
    }

    fn count(&self, (state, way): (usize, usize)) -> u64 {
        self.taken.get(&state).and_then(|ways| ways.get(&way)).copied().unwrap_or(0)
    }
}

impl Memory {
    /// At the beginning.
    fn new(root: &Machine) -> Memory {
        let frames = vec![Frame::at(root.initial)];
        let (branches, again) = (Vec::new(), Vec::new());
        Memory { frames, branches, again, carried_out: 0, put_off: 0, claimed: false, end: None }
    }

    /// Whether every place exists, so that it can be looked up without a check.
    fn fits(&self, root: &Machine) -> bool {
        let mut machine = Some(root);
        for frame in &self.frames {
            let Some(state) = machine.and_then(|machine| machine.states.get(frame.state)) else {
                return false;
            };
            if matches!(frame.stage, Stage::Exit { way, .. } if way >= state.transitions.len()) {
                return false;
            }
            machine = if let Work::Machine(inner) = &state.work { Some(inner) } else { None };
        }
        !self.frames.is_empty()
    }
}

/// The state that the innermost frame stands in. Frames always fit: they are made from the machine's own
/// indexes, or checked by [`Memory::fits`].
fn state<'m>(root: &'m Machine, frames: &[Frame]) -> &'m State {
    let Some((innermost, outer)) = frames.split_last() else { return &root.states[root.initial] };
    let mut machine = root;
    for frame in outer {
        if let Work::Machine(inner) = &machine.states[frame.state].work {
            machine = inner;
        }
    }
    &machine.states[innermost.state]
}

impl Driver for StateMachine {
    fn decide(&mut self, situation: &Situation<'_>) -> Decision {
        let definition = Arc::clone(&self.definition);
        for _ in 0..SILENT_MOVES {
            if let Some(end) = &self.memory.end {
                return end.decision();
            }
            let state = state(&definition.machine, &self.memory.frames);
            let depth = self.memory.frames.len();
            let Some(frame) = self.memory.frames.last_mut() else { break };
            match (frame.stage, &state.work) {
                (Stage::Entry(hook), _) => match state.on_entry.get(hook) {
                    Some(hook) => return self.act(&definition, &[&hook.call], situation),
                    None => frame.stage = Stage::Work,
                },
                (Stage::Work, Work::Nothing) => {
                    self.choose(state, &Seen { ok: true, results: &[] })
                }
                (Stage::Work, Work::Action(call)) => {
                    return self.act(&definition, &[call], situation);
                }
                (Stage::Work, Work::Parallel { branches, .. }) => {
                    let again = &self.memory.again;
                    let calls: Vec<&Call> = if again.is_empty() {
                        // All of them begin anew, whatever came of an earlier turn.
                        self.memory.branches.clear();
                        branches.iter().collect()
                    } else {
                        again.iter().filter_map(|at| branches.get(*at)).collect()
                    };
                    return self.act(&definition, &calls, situation);
                }
                (Stage::Work, Work::Machine(inner)) => {
                    self.memory.frames.push(Frame::at(inner.initial))
                }
                (Stage::Work, Work::End { failed }) if depth == 1 => {
                    return if *failed {
                        let reason = format!(
                            "{} ended in the failed state {:?}",
                            definition.title, state.name
                        );
                        End::failed(reason).decision()
                    } else {
                        self.memory.claimed = true;
                        let summary =
                            format!("{} ended in the state {:?}", definition.title, state.name);
                        Decision::Claim { summary }
                    };
                }
                (Stage::Work, Work::End { failed }) => {
                    self.leave_inner(&definition.machine, &state.name, *failed)
                }
                (Stage::Exit { hook, way }, _) => match state.on_exit.get(hook) {
                    Some(hook) => return self.act(&definition, &[&hook.call], situation),
                    None => {
                        frame.state = state.transitions[way].to;
                        frame.stage = Stage::Entry(0);
                    }
                },
            }
        }
        let name = &state(&definition.machine, &self.memory.frames).name;
        let end = End::stuck(format!(
            "{} goes round without doing anything, through {name:?}",
            definition.title
        ));
        self.memory.end.insert(end).decision()
    }

    fn observe(&mut self, _: &Situation<'_>, fact: &Fact<'_>) {
        match fact {
            Fact::Result { result, .. } if self.memory.end.is_none() => self.on_result(result),
            Fact::Retry(retry) if retry.fresh => {
                self.memory = Memory::new(&self.definition.machine);
            }
            // It goes on where it ended: with the call that failed, or with its claim if that was refused.
            Fact::Retry(_) => self.memory.end = None,
            Fact::VerdictFailed(results) if self.memory.claimed => {
                self.memory.claimed = false;
                let who = &self.definition.title;
                self.memory.end.get_or_insert_with(|| verdict_failed(who, results));
            }
            // A machine takes no advice: what it does was decided when it was written.
            Fact::Result { .. }
            | Fact::VerdictFailed(_)
            | Fact::Note(_)
            | Fact::Told(_)
            | Fact::Consulted(_)
            | Fact::Replied(_)
            | Fact::AgentTook(_)
            | Fact::AgentEnded(_)
            | Fact::ChildBegan(_)
            | Fact::ChildEnded(_) => {}
        }
    }

    fn save(&self) -> Value {
        // Plain numbers, texts and maps with number keys: nothing in it can fail to become JSON.
        serde_json::to_value(&self.memory).unwrap_or_default()
    }
}

impl StateMachine {
    fn act(
        &mut self,
        definition: &Definition,
        calls: &[&Call],
        situation: &Situation<'_>,
    ) -> Decision {
        if let Some(most) = definition.max_steps.filter(|most| self.memory.carried_out >= *most) {
            let next = calls.first().map_or("", |call| call.label.as_str());
            let end = End::stuck(format!("max_steps = {most} is reached before {next:?}"));
            return self.memory.end.insert(end).decision();
        }
        Decision::Act(calls.iter().map(|call| call.action(situation)).collect())
    }

    fn on_result(&mut self, result: &ToolResult) {
        let definition = Arc::clone(&self.definition);
        let state = state(&definition.machine, &self.memory.frames);
        let Some(frame) = self.memory.frames.last_mut() else { return };
        if let (Stage::Work, Work::Parallel { branches, join }) = (frame.stage, &state.work) {
            return self.on_branch(state, branches.len(), *join, result);
        }
        if is_put_off(result.status, self.memory.put_off) {
            self.memory.put_off += 1;
            return;
        }
        self.memory.put_off = 0;
        self.memory.carried_out += 1;
        match (frame.stage, &state.work) {
            (Stage::Entry(index), _) => match state.on_entry.get(index) {
                Some(hook) if passes(hook, result) => frame.stage = Stage::Entry(index + 1),
                Some(hook) => {
                    self.memory.end = Some(End::failed(hook.call.failure("state", result)))
                }
                None => {}
            },
            (Stage::Exit { hook: index, way }, _) => match state.on_exit.get(index) {
                Some(hook) if passes(hook, result) => {
                    frame.stage = Stage::Exit { hook: index + 1, way }
                }
                Some(hook) => {
                    self.memory.end = Some(End::failed(hook.call.failure("state", result)))
                }
                None => {}
            },
            (Stage::Work, Work::Action(_)) => {
                self.choose(state, &Seen { ok: result.status == Status::Ok, results: &[result] });
            }
            // Nothing was asked for, so nothing is meant; branches have rules of their own.
            (Stage::Work, Work::Nothing | Work::Parallel { .. } | Work::Machine(_))
            | (Stage::Work, Work::End { .. }) => {}
        }
    }

    /// The results of branches come in the order in which they were asked for. Those that were put off are begun again once the
    /// others have ended.
    fn on_branch(&mut self, state: &State, branches: usize, join: Join, result: &ToolResult) {
        let memory = &mut self.memory;
        match memory.again.is_empty() {
            true => memory.branches.push(result.clone()),
            false => {
                let at = memory.again.remove(0);
                if let Some(branch) = memory.branches.get_mut(at) {
                    result.clone_into(branch);
                }
            }
        }
        if !memory.again.is_empty() || memory.branches.len() < branches {
            return;
        }
        let ended = memory.branches.iter().enumerate();
        let put_off = ended.filter(|(_, ended)| is_put_off(ended.status, memory.put_off));
        memory.again = put_off.map(|(at, _)| at).collect();
        if !memory.again.is_empty() {
            memory.put_off += 1;
            return;
        }
        memory.put_off = 0;
        memory.carried_out += branches as u64;
        let results = std::mem::take(&mut memory.branches);
        let mut ended = results.iter().map(|result| result.status == Status::Ok);
        let ok = match join {
            Join::All => ended.all(|ok| ok),
            Join::Any => ended.any(|ok| ok),
        };
        let seen: Vec<&ToolResult> = results.iter().collect();
        self.choose(state, &Seen { ok, results: &seen });
    }

    /// Takes the first transition that holds, or ends.
    fn choose(&mut self, state: &State, seen: &Seen<'_>) {
        let Some(frame) = self.memory.frames.last_mut() else { return };
        let at = frame.state;
        let holds = |way: &definition::Transition| way.when.holds(seen, &|edge| frame.count(edge));
        let Some(way) = state.transitions.iter().position(holds) else {
            let last = match (&state.work, seen.results) {
                (Work::Action(call), [result]) => {
                    call.failure("its call", result).replacen(" failed: ", " ended: ", 1)
                }
                (_, results) => {
                    let words: Vec<&str> =
                        results.iter().map(|result| result.status.word()).collect();
                    format!(
                        "results: {}",
                        if words.is_empty() { "none".to_owned() } else { words.join(", ") }
                    )
                }
            };
            let reason =
                format!("no transition of state {:?} fits what came of it; {last}", state.name);
            self.memory.end = Some(End::failed(reason));
            return;
        };
        let most = state.transitions[way].max;
        let taken = frame.taken.entry(at).or_default().entry(way).or_default();
        if *taken >= most {
            let target = state.transitions[way].to;
            self.memory.end = Some(End::stuck(self.over(&state.name, target, most)));
            return;
        }
        *taken += 1;
        frame.stage = Stage::Exit { hook: 0, way };
    }

    fn over(&self, from: &str, to: usize, most: u64) -> String {
        let mut frames = self.memory.frames.clone();
        if let Some(frame) = frames.last_mut() {
            frame.state = to;
        }
        let to = &state(&self.definition.machine, &frames).name;
        format!("the transition {from} -> {to} was taken {most} times, which is its limit")
    }

    /// The inner machine has ended: its outer state sees a success or a failure with the last state's name.
    fn leave_inner(&mut self, root: &Machine, name: &str, failed: bool) {
        self.memory.frames.pop();
        let status = if failed { Status::Error } else { Status::Ok };
        let result = ToolResult::ended(status, name);
        let outer = state(root, &self.memory.frames);
        self.choose(outer, &Seen { ok: !failed, results: &[&result] });
    }
}

fn passes(hook: &Hook, result: &ToolResult) -> bool {
    hook.skip_errors || result.status == Status::Ok
}
