//! A machine's states, read and checked: names, targets, and that every state can be reached and left.

use std::collections::{BTreeMap, BTreeSet};

use super::guard::{self, Guard, Scope};
use crate::driver::workflow::call::Call;
use crate::file::check::{Cursor, NAME_RULE, Problems, is_name, suggest};
use crate::file::shape::workflow::machine as shape;

const DEFAULT_MAX: u64 = 1000;
/// How deep machines may be nested.
const MAX_NESTED: usize = 8;

/// A machine.
#[derive(Debug, PartialEq)]
pub(crate) struct Machine {
    /// Where it begins.
    pub(super) initial: usize,
    /// The states; transitions name them by index.
    pub(super) states: Vec<State>,
}

/// One state.
#[derive(Debug, PartialEq)]
pub(super) struct State {
    /// Its name.
    pub(super) name: String,
    /// Performed on entering, one a turn.
    pub(super) on_entry: Vec<Hook>,
    /// What it does.
    pub(super) work: Work,
    /// Performed on leaving, one a turn.
    pub(super) on_exit: Vec<Hook>,
    /// The first that holds is taken.
    pub(super) transitions: Vec<Transition>,
}

/// What a state does.
#[derive(Debug, PartialEq)]
pub(super) enum Work {
    /// Nothing: its guards see a success without output.
    Nothing,
    /// One call.
    Action(Call),
    /// Several calls at once.
    Parallel { branches: Vec<Call>, join: Join },
    /// A machine of its own, run to its end.
    Machine(Machine),
    /// It ends the machine.
    End { failed: bool },
}

/// When several calls together count as a success.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Join {
    /// If each of them is.
    All,
    /// If one of them is.
    Any,
}

/// A call beside a state's own work.
#[derive(Debug, PartialEq)]
pub(super) struct Hook {
    /// What it does.
    pub(super) call: Call,
    /// True if its failure is passed over.
    pub(super) skip_errors: bool,
}

/// A way from one state to another.
#[derive(Debug, PartialEq)]
pub(super) struct Transition {
    /// The state it leads to.
    pub(super) to: usize,
    /// When it is taken.
    pub(super) when: Guard,
    /// How often it may be taken.
    pub(super) max: u64,
}

/// Reads `initial` and `states` of a table. The states are a table by name, or a list with names; then the
/// first is the initial one unless another is named. `prefix` goes before the names that a person sees.
pub(crate) fn read_machine(
    at: &Cursor<'_>,
    prefix: &str,
    depth: usize,
    problems: &mut Problems,
) -> Option<Machine> {
    let all = at.need(problems, "states")?;
    let mut named: Vec<(String, Cursor<'_>)> = Vec::new();
    let is_list = all.value.is_array();
    if is_list {
        for item in all.items(problems) {
            let name = item
                .need(problems, "name")
                .and_then(|name| name.name(problems))
                .unwrap_or_default();
            named.push((name.to_owned(), item));
        }
    } else if all.value.is_object() {
        for (name, entry) in all.entries() {
            if !is_name(name) {
                problems.push_key(
                    &entry,
                    format!("{name:?} is not a name"),
                    Some(NAME_RULE.to_owned()),
                );
            }
            entry.get("name").and_then(|given| given.name(problems));
            named.push((name.to_owned(), entry));
        }
    } else {
        all.wrong(problems, "a table of states");
        return None;
    }
    if named.is_empty() {
        problems.push_key(
            &all,
            "a machine needs at least one state",
            Some("add [machine.states.NAME]".to_owned()),
        );
        return None;
    }
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    for (index, (name, state)) in named.iter().enumerate() {
        if places.insert(name, index).is_some() && !name.is_empty() {
            problems.push_key(
                state,
                format!("there are two states named {name:?}"),
                Some("give each a name of its own".to_owned()),
            );
        }
    }
    let initial = match at.get("initial") {
        Some(initial) => find_state(&initial, &places, problems),
        None if is_list => Some(0),
        None => {
            at.need(problems, "initial");
            None
        }
    };
    let reader = Reader { places: &places, named: &named, prefix, depth };
    let states: Vec<Option<State>> = named
        .iter()
        .enumerate()
        .map(|(index, (_, entry))| reader.state(index, entry, problems))
        .collect();
    let machine =
        Machine { initial: initial?, states: states.into_iter().collect::<Option<Vec<State>>>()? };
    if problems.is_empty() {
        machine.check_ways(&named, problems);
    }
    Some(machine)
}

fn find_state(
    at: &Cursor<'_>,
    places: &BTreeMap<&str, usize>,
    problems: &mut Problems,
) -> Option<usize> {
    let name = at.text(problems)?;
    let found = places.get(name).copied();
    if found.is_none() {
        let known =
            || format!("there are {}", places.keys().copied().collect::<Vec<&str>>().join(", "));
        let hint = suggest(name, places.keys().copied()).unwrap_or_else(known);
        problems.push(at, format!("there is no state {name:?}"), Some(hint));
    }
    found
}

struct Reader<'r, 'v> {
    places: &'r BTreeMap<&'r str, usize>,
    named: &'r [(String, Cursor<'v>)],
    prefix: &'r str,
    depth: usize,
}

impl Reader<'_, '_> {
    fn state(&self, index: usize, at: &Cursor<'_>, problems: &mut Problems) -> Option<State> {
        let name = &self.named[index].0;
        if !at.keys_of(problems, &format!("state {name:?}"), &shape::STATE) {
            return None;
        }
        let work = self.work(name, at, problems);
        let on_entry = self.hooks(name, "on_entry", at, problems);
        let on_exit = self.hooks(name, "on_exit", at, problems);
        let ways = at.get("transitions").map(|ways| ways.items(problems)).unwrap_or_default();
        let transitions: Vec<Option<Transition>> = ways
            .iter()
            .enumerate()
            .map(|(way, entry)| self.transition((index, way), entry, problems))
            .collect();
        let transitions: Vec<Transition> = transitions.into_iter().collect::<Option<Vec<_>>>()?;
        let work = work?;
        let ends = matches!(work, Work::End { .. });
        if ends && (!transitions.is_empty() || !on_exit.is_empty()) {
            problems.push_key(
                at,
                format!(
                    "the terminal state {name:?} cannot be left: it has no transitions or on_exit"
                ),
                Some("remove them, or terminal".to_owned()),
            );
        }
        if !ends && ways.is_empty() {
            let hint = "add transitions, or terminal = true".to_owned();
            let message = if work == Work::Nothing {
                format!("state {name:?} has neither action nor transitions and is not terminal")
            } else {
                format!("state {name:?} has no transitions: it could never be left")
            };
            problems.push_key(at, message, Some(hint));
        }
        if let Some(always) = transitions.iter().position(|way| way.when == Guard::Always)
            && let Some(never) = ways.get(always + 1)
        {
            problems.push(
                never,
                "this transition is never taken: the one before it has no condition",
                Some("put it first, or give the other a condition".to_owned()),
            );
        }
        Some(State { name: name.clone(), on_entry, work, on_exit, transitions })
    }

    fn work(&self, name: &str, at: &Cursor<'_>, problems: &mut Problems) -> Option<Work> {
        let terminal = match at.get("terminal") {
            Some(terminal) => terminal.flag(problems)?,
            None => false,
        };
        let outcome = at.get("outcome");
        let join = at.get("join");
        let kinds: Vec<Cursor<'_>> =
            ["action", "parallel", "machine"].iter().filter_map(|key| at.get(key)).collect();
        if let Some(second) = kinds.get(1) {
            problems.push_key(
                second,
                format!("state {name:?} may have one of action, parallel and machine"),
                Some("make two states of it".to_owned()),
            );
        }
        if let Some(join) = join.as_ref().filter(|_| at.get("parallel").is_none()) {
            problems.push_key(join, "join goes with parallel", Some("leave it out".to_owned()));
        }
        if terminal {
            if let Some(first) = kinds.first() {
                let hint = Some("put it in on_entry".to_owned());
                problems.push_key(
                    first,
                    format!("the terminal state {name:?} does nothing itself"),
                    hint,
                );
            }
            let outcome = match &outcome {
                Some(outcome) => outcome.choice(problems, &["done", "failed"])?,
                None => "done",
            };
            return Some(Work::End { failed: outcome == "failed" });
        }
        if let Some(outcome) = &outcome {
            problems.push_key(
                outcome,
                "only a terminal state has an outcome",
                Some("add terminal = true".to_owned()),
            );
        }
        let label = format!("{}{name}", self.prefix);
        if let Some(action) = at.get("action") {
            action.keys(problems, &shape::ACTION);
            return Call::read(&action, label, problems).map(Work::Action);
        }
        if let Some(parallel) = at.get("parallel") {
            return parallel_work(&label, &parallel, join.as_ref(), problems);
        }
        if let Some(inner) = at.get("machine") {
            if self.depth >= MAX_NESTED {
                problems.push_key(
                    &inner,
                    format!("machines may be nested at most {MAX_NESTED} deep"),
                    Some("take some of the levels out".to_owned()),
                );
                return None;
            }
            if !inner.keys(problems, &shape::INNER) {
                return None;
            }
            return read_machine(&inner, &format!("{label}/"), self.depth + 1, problems)
                .map(Work::Machine);
        }
        Some(Work::Nothing)
    }

    fn hooks(&self, name: &str, key: &str, at: &Cursor<'_>, problems: &mut Problems) -> Vec<Hook> {
        let Some(list) = at.get(key) else { return Vec::new() };
        let mut hooks = Vec::new();
        for (index, item) in list.items(problems).iter().enumerate() {
            if !item.keys_of(problems, key, &shape::HOOK) {
                continue;
            }
            let skip =
                item.get("on_error").and_then(|word| word.choice(problems, &["fail", "skip"]));
            let label = format!("{}{name}/{key}[{index}]", self.prefix);
            let call = Call::read(item, label, problems);
            hooks.extend(call.map(|call| Hook { call, skip_errors: skip == Some("skip") }));
        }
        hooks
    }

    fn transition(
        &self,
        edge: (usize, usize),
        at: &Cursor<'_>,
        problems: &mut Problems,
    ) -> Option<Transition> {
        if !at.keys(problems, &shape::TRANSITION) {
            return None;
        }
        let to = at.need(problems, "to").and_then(|to| find_state(&to, self.places, problems));
        let find = |text: &str| self.edge(text);
        let scope = Scope { edge, find: &find };
        let when = match at.get("when") {
            Some(when) => guard::read(&when, &scope, problems),
            None => Some(Guard::Always),
        };
        let max = match at.get("max") {
            Some(max) => max.whole(problems)?,
            None => DEFAULT_MAX,
        };
        Some(Transition { to: to?, when: when?, max })
    }

    /// The transition that is written `a -> b`: the first of that state to the other.
    fn edge(&self, text: &str) -> Option<(usize, usize)> {
        let (from, to) = text.split_once("->")?;
        let from = *self.places.get(from.trim())?;
        let ways = self.named[from].1.value.get("transitions")?.as_array()?;
        let way = ways
            .iter()
            .position(|way| way.get("to").and_then(|to| to.as_str()) == Some(to.trim()))?;
        Some((from, way))
    }
}

fn parallel_work(
    label: &str,
    at: &Cursor<'_>,
    join: Option<&Cursor<'_>>,
    problems: &mut Problems,
) -> Option<Work> {
    let items = at.items(problems);
    if items.is_empty() && at.value.is_array() {
        problems.push_key(
            at,
            "parallel needs at least one branch",
            Some("add { name = \"…\", tool = \"…\" }".to_owned()),
        );
    }
    let mut names = BTreeSet::new();
    let mut branches = Vec::new();
    for item in &items {
        if !item.keys(problems, &shape::BRANCH) {
            continue;
        }
        let name =
            item.need(problems, "name").and_then(|name| name.name(problems)).unwrap_or_default();
        if !names.insert(name) {
            problems.push_key(
                item,
                format!("there are two branches named {name:?}"),
                Some("give each a name of its own".to_owned()),
            );
        }
        branches.extend(Call::read(item, format!("{label}/{name}"), problems));
    }
    let join = match join {
        Some(join) if join.choice(problems, &["all", "any"])? == "any" => Join::Any,
        _ => Join::All,
    };
    Some(Work::Parallel { branches, join })
}

impl Machine {
    /// Every state must be reachable from the initial one, and an end reachable from every state.
    fn check_ways(&self, named: &[(String, Cursor<'_>)], problems: &mut Problems) {
        let ahead = |state: usize| {
            self.states[state].transitions.iter().map(|way| way.to).collect::<Vec<_>>()
        };
        let reached = spread(self.states.len(), [self.initial].into(), ahead);
        let mut back: Vec<Vec<usize>> = vec![Vec::new(); self.states.len()];
        for (index, state) in self.states.iter().enumerate() {
            state.transitions.iter().for_each(|way| back[way.to].push(index));
        }
        let ends = (0..self.states.len())
            .filter(|index| matches!(self.states[*index].work, Work::End { .. }));
        let saved = spread(self.states.len(), ends.collect(), |state| back[state].clone());
        for (index, (name, entry)) in named.iter().enumerate() {
            if !reached[index] {
                let start = &self.states[self.initial].name;
                problems.push_key(
                    entry,
                    format!("state {name:?} cannot be reached from {start:?}"),
                    Some("remove it, or add a transition to it".to_owned()),
                );
            } else if !saved[index] {
                problems.push_key(
                    entry,
                    format!("no way leads from state {name:?} to a terminal state"),
                    Some("add a transition, or terminal = true".to_owned()),
                );
            }
        }
    }
}

/// The states that can be come to from some, along some edges.
fn spread(states: usize, from: Vec<usize>, next: impl Fn(usize) -> Vec<usize>) -> Vec<bool> {
    let mut seen = vec![false; states];
    let mut todo = from;
    while let Some(state) = todo.pop() {
        if !std::mem::replace(&mut seen[state], true) {
            todo.extend(next(state));
        }
    }
    seen
}
