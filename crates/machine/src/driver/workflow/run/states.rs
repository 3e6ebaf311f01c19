//! Machines of states: the way through them, one state at a time.

use super::{Goal, Run};
use crate::driver::workflow::End;
use crate::driver::workflow::child::{self, StepChild};
use crate::driver::workflow::definition::*;
use crate::driver::workflow::frame::{Address, RowFrame, StateStage, StatesFrame, StepFrame};
use crate::driver::workflow::scope::{Layer, Scope};

/// Moves in one decision that perform nothing; more are a circle.
const SILENT_MOVES: u32 = 10_000;

impl Run<'_> {
    /// States, to an end or as far as they go.
    pub(super) fn states(
        &mut self,
        states: &States,
        flow: &Flow,
        frame: &mut StatesFrame,
        top: &Scope<'_>,
        address: &mut Address,
    ) -> Option<Result<(), End>> {
        for _ in 0..SILENT_MOVES {
            let state = &states.states[frame.at];
            let StatesFrame { row, step, results, visits, result, .. } = frame;
            let named = top.with(Layer::Steps { index: &states.index, results, visits });
            let seen = named.with(Layer::Result(result));
            match frame.stage {
                StateStage::Entry => {
                    if let Err(end) = self.row(&state.on_entry, row, &named, address)? {
                        return Some(Err(end));
                    }
                    frame.row = RowFrame::default();
                    frame.stage = StateStage::Work;
                    if state.step.counted {
                        *frame.visits.entry(frame.at).or_default() += 1;
                    }
                }
                StateStage::Work => {
                    match state.ends {
                        Some(Ending::Completed) => return Some(Ok(())),
                        Some(Ending::Failed) => {
                            let name = &state.step.name;
                            let reason =
                                format!("{} ended in the failed state {name:?}", flow.title());
                            return Some(Err(End::failed(reason)));
                        }
                        None => {}
                    }
                    let ended = self.step(&state.step, step, &named, address)?;
                    let attempts = std::mem::take(&mut frame.step).retries + 1;
                    if !ended.ok && !ended.is_skipped() {
                        if state.fails {
                            return Some(Err(End { reason: ended.why, stuck: ended.stuck }));
                        }
                        *self.passed_over += 1;
                    }
                    if state.step.keeps {
                        let kept = ended.clone().packed(attempts, state.step.fields.as_ref());
                        frame.results.insert(frame.at, kept);
                    }
                    frame.result = ended.value(attempts);
                    frame.stage = StateStage::Choose;
                }
                StateStage::Choose => {
                    let way = match self.choose(state, states, &seen, address)? {
                        Ok(way) => way,
                        Err(end) => return Some(Err(end)),
                    };
                    let most = state.ways[way].max;
                    let taken = frame.taken.entry(frame.at).or_default().entry(way).or_default();
                    if *taken >= most {
                        let to = &states.states[state.ways[way].to].step.name;
                        return Some(Err(End::stuck(format!(
                            "the transition {} -> {to} was taken {most} times, which is its limit",
                            state.step.name
                        ))));
                    }
                    *taken += 1;
                    frame.stage = StateStage::Exit(way);
                }
                StateStage::Exit(way) => {
                    if let Err(end) = self.row(&state.on_exit, row, &seen, address)? {
                        return Some(Err(end));
                    }
                    frame.row = RowFrame::default();
                    frame.step = StepFrame::default();
                    frame.result = serde_json::Value::Null;
                    frame.at = state.ways[way].to;
                    frame.stage = StateStage::Entry;
                }
            }
        }
        let name = &states.states[frame.at].step.name;
        let reason =
            format!("{} goes round without doing anything, through {name:?}", flow.title());
        Some(Err(End::stuck(reason)))
    }

    /// The way that is taken.
    fn choose(
        &mut self,
        state: &State,
        states: &States,
        scope: &Scope<'_>,
        address: &mut Address,
    ) -> Option<Result<usize, End>> {
        let name = &state.step.name;
        let mut open = Vec::new();
        for (index, way) in state.ways.iter().enumerate() {
            match way.when.as_ref().map(|when| scope.holds(when)) {
                Some(Err(why)) => {
                    let reason = format!("state {name:?}: the transition {}: {why}", index + 1);
                    return Some(Err(End::failed(reason)));
                }
                Some(Ok(false)) => {}
                Some(Ok(true)) | None => open.push(index),
            }
        }
        let to = |way: usize| state.ways[way].to;
        let named = |way: usize| states.states[to(way)].step.name.as_str();
        match (&state.choose, open.as_slice()) {
            (_, []) => {
                let reason = format!("no transition of state {name:?} fits what came of it");
                Some(Err(End::failed(reason)))
            }
            (None, [first, ..]) | (Some(_), [first]) => Some(Ok(*first)),
            (Some(choose), open) => {
                let names: Vec<&str> = open.iter().map(|way| named(*way)).collect();
                let answer = match self.asked(choose, name, &names, scope, address)? {
                    Ok(answer) => answer,
                    Err(end) => return Some(Err(end)),
                };
                let answer = answer.trim().trim_matches(['"', '`', '\'', '.', '*']);
                let chosen = open.iter().copied().find(|way| named(*way) == answer);
                let fallback = || {
                    open.iter()
                        .copied()
                        .find(|way| to(*way) == choose.fallback)
                        .or_else(|| state.ways.iter().position(|way| way.to == choose.fallback))
                };
                Some(chosen.or_else(fallback).ok_or_else(|| {
                    End::failed(format!("no transition of state {name:?} leads to its fallback"))
                }))
            }
        }
    }

    /// What a model answers; nothing it says is an answer that leads to the fallback.
    fn asked(
        &mut self,
        choose: &Choose,
        name: &str,
        names: &[&str],
        scope: &Scope<'_>,
        address: &mut Address,
    ) -> Option<Result<String, End>> {
        if !self.children.contains_key(address) {
            let begun = choose.work.told(scope).and_then(|(config, goal)| {
                let Goal::Own(prompt) = goal else {
                    return Err("the prompt is missing".to_owned());
                };
                let prompt = format!(
                    "{prompt}\n\nAnswer with nothing but one of these names: {}",
                    names.join(", ")
                );
                let conversations = *self.conversations;
                StepChild::create(
                    name,
                    "llm",
                    config,
                    Goal::Own(prompt),
                    conversations,
                    self.registry,
                )
            });
            match begun {
                Ok(child) => drop(self.children.insert(address.clone(), child)),
                Err(why) => {
                    let reason = format!("state {name:?}: choose: {why}");
                    return Some(Err(End::failed(reason)));
                }
            }
        }
        let end = self.ask(name, None, address)?;
        self.children.remove(address);
        Some(Ok(match end {
            child::End::Done(text) => text,
            child::End::GaveUp { .. } => String::new(),
        }))
    }
}
