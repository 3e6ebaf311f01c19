//! States: steps with transitions between them. Every state can be reached and left, and some end can be reached.

use std::collections::{BTreeMap, BTreeSet};

use super::kinds::{STATE_KEYS, chooser_of, read_model};
use super::{Reader, Stands, listed};
use crate::driver::workflow::definition::*;
use crate::driver::workflow::names::Names;
use crate::file::check::{Cursor, suggest};
use crate::file::shape::workflow::step as shape;

const DEFAULT_MAX: u64 = 1000;

impl Reader<'_, '_> {
    pub(super) fn states(
        &mut self,
        at: &Cursor<'_>,
        list: &Cursor<'_>,
        items: &[Cursor<'_>],
        names: &Names<'_>,
    ) -> Option<States> {
        if items.is_empty() {
            self.problems.push_key(list, "a workflow needs at least one state", None);
            return None;
        }
        let places = self.places(items, "states");
        let initial = match at.get("initial") {
            Some(initial) => self.state_named(&initial, &places),
            None => Some(0),
        };
        let read: Vec<Option<State>> =
            items.iter().map(|item| self.state(item, &places, names)).collect();
        let index = places.iter().map(|(name, at)| ((*name).to_owned(), *at)).collect();
        let states: Option<Vec<State>> = read.into_iter().collect();
        let states = States { initial: initial?, states: states?, index };
        self.check_ways(&states, list, items);
        Some(states)
    }

    fn state_named(&mut self, at: &Cursor<'_>, places: &BTreeMap<&str, usize>) -> Option<usize> {
        let name = at.text(self.problems)?;
        let found = places.get(name).copied();
        if found.is_none() {
            let hint =
                suggest(name, places.keys().copied()).or_else(|| listed(places.keys().copied()));
            self.problems.push(at, format!("there is no state {name:?}"), hint);
        }
        found
    }

    fn state(
        &mut self,
        at: &Cursor<'_>,
        places: &BTreeMap<&str, usize>,
        names: &Names<'_>,
    ) -> Option<State> {
        let step = self.step(at, places, names, Stands::AsAState, self.settings.depth)?;
        let has_work = !matches!(step.work, Work::Nothing);
        let seen = names.with_result();
        let mut hook = |key: &str, names: &Names<'_>| {
            at.get(key).map(|list| self.inner_row(&list, names, self.settings.depth + 1))
        };
        let on_entry = hook("on_entry", names).unwrap_or_default();
        let on_exit = hook("on_exit", &seen).unwrap_or_default();
        let terminal =
            at.get("terminal").and_then(|flag| flag.flag(self.problems)).unwrap_or(false);
        let outcome = at.get("outcome").and_then(|outcome| {
            if !terminal {
                self.problems.push_key(
                    &outcome,
                    "outcome goes with terminal = true",
                    Some("add terminal = true, or leave it out".to_owned()),
                );
            }
            outcome.choice(self.problems, &shape::OUTCOMES)
        });
        let ends = match (terminal, outcome) {
            (true, Some("failed")) => Some(Ending::Failed),
            (true, _) => Some(Ending::Completed),
            (false, _) => None,
        };
        let ways = self.ways(at, places, &seen, terminal);
        if terminal {
            let idle: Vec<&str> = STATE_KEYS
                .into_iter()
                .filter(|key| !matches!(*key, "on_entry" | "terminal" | "outcome"))
                .collect();
            for key in idle {
                if let Some(entry) = at.get(key) {
                    self.problems.push_key(
                        &entry,
                        format!("a terminal state has no {key}"),
                        Some("remove it: the workflow ends here".to_owned()),
                    );
                }
            }
            if has_work {
                let hint = Some("put it into on_entry, or into a state before".to_owned());
                self.problems.push_key(at, "a terminal state does nothing but end", hint);
            }
        }
        let choose = match at.get("choose") {
            Some(table) => self.choose(&table, places, &seen, &ways),
            None => None,
        };
        let fails = at.get("on_error").is_some_and(|answer| answer.value == "fail")
            || at.get("on_exhausted").is_some_and(|answer| answer.value == "fail");
        Some(State { step, fails, on_entry, on_exit, ways, choose, ends })
    }

    fn ways(
        &mut self,
        at: &Cursor<'_>,
        places: &BTreeMap<&str, usize>,
        names: &Names<'_>,
        terminal: bool,
    ) -> Vec<Way> {
        let Some(list) = at.get("transitions") else {
            if !terminal && at.value.is_object() {
                let hint = "add transitions = [{ to = \"STATE\" }], or terminal = true".to_owned();
                self.problems.push_key(at, "no way leads out of this state", Some(hint));
            }
            return Vec::new();
        };
        let items = list.items(self.problems);
        if items.is_empty() && list.value.is_array() && !terminal {
            self.problems.push(
                &list,
                "no way leads out of this state",
                Some("add { to = \"STATE\" }, or terminal = true".to_owned()),
            );
        }
        let mut ways = Vec::new();
        for item in &items {
            if !item.keys(self.problems, &shape::TRANSITION) {
                continue;
            }
            let to = item.need(self.problems, "to").and_then(|to| self.state_named(&to, places));
            let when = item.get("when").and_then(|when| self.condition(&when, names));
            let max = item.get("max").and_then(|max| {
                let most = max.whole(self.problems)?;
                if most == 0 {
                    self.problems.push(
                        &max,
                        "max = 0 would never be taken",
                        Some("write 1 or more, or remove the transition".to_owned()),
                    );
                }
                Some(most)
            });
            ways.extend(to.map(|to| Way { to, when, max: max.unwrap_or(DEFAULT_MAX) }));
        }
        ways
    }

    fn choose(
        &mut self,
        at: &Cursor<'_>,
        places: &BTreeMap<&str, usize>,
        names: &Names<'_>,
        ways: &[Way],
    ) -> Option<Choose> {
        at.keys(self.problems, &shape::CHOOSE);
        let prompt = at.need(self.problems, "prompt");
        let prompt = prompt.and_then(|prompt| self.filled(&prompt, names));
        at.get("model").and_then(|model| read_model(&model, self.problems));
        if let Some(config) = at.get("driver_config").filter(|config| !config.value.is_object()) {
            config.wrong(self.problems, "a table");
        }
        let (_, config) = chooser_of(at.value, &self.settings.llm);
        if self.settings.complete && config.get("model").is_none() {
            self.problems.push_key(at, "it is not said which model", None);
        }
        let fallback = at.need(self.problems, "fallback")?;
        let place = self.state_named(&fallback, places)?;
        if !ways.iter().any(|way| way.to == place) {
            let hint = Some("the fallback is one of the transitions".to_owned());
            self.problems.push(&fallback, "no transition leads there", hint);
        }
        let work = DriverWork {
            driver: "llm".to_owned(),
            config,
            prompt: Some(prompt?),
            system: None,
            input: None,
            schema: None,
        };
        Some(Choose { work, fallback: place })
    }

    /// Every state can be reached, and some end.
    fn check_ways(&mut self, states: &States, list: &Cursor<'_>, items: &[Cursor<'_>]) {
        let mut reached = BTreeSet::new();
        let mut open = vec![states.initial];
        while let Some(at) = open.pop() {
            if reached.insert(at) {
                open.extend(states.states[at].ways.iter().map(|way| way.to));
            }
        }
        for (index, item) in items.iter().enumerate() {
            if !reached.contains(&index) {
                let name = &states.states[index].step.name;
                let hint = Some("remove it, or add a transition to it".to_owned());
                self.problems.push_key(item, format!("the state {name:?} cannot be reached"), hint);
            }
        }
        if !reached.iter().any(|at| states.states[*at].ends.is_some()) {
            let hint = Some("add a state with terminal = true and a transition to it".to_owned());
            self.problems.push_key(list, "no end can be reached", hint);
        }
    }
}
