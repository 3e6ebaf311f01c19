//! States and their transitions.

use serde_json::Value;

use super::label::{describe, most, short, words};
use super::{Drawing, EdgeKind, NodeKind, Open, Place, text};

impl Drawing {
    /// Draws states, a list or a table by name. Ways out lead from the ends.
    pub(super) fn states(
        &mut self,
        config: &Value,
        states: &Value,
        place: &Place,
        open: Vec<Open>,
    ) -> Vec<Open> {
        let named: Vec<(&str, &Value)> = match states {
            Value::Array(list) => list.iter().map(|state| (text(state, "name"), state)).collect(),
            Value::Object(table) => {
                table.iter().map(|(name, state)| (name.as_str(), state)).collect()
            }
            _ => return open,
        };
        let nodes: Vec<(usize, usize)> =
            named.iter().map(|(name, state)| self.state(name, state, place)).collect();
        let at = |name: &str| named.iter().position(|(other, _)| *other == name);
        let initial = at(text(config, "initial")).unwrap_or(0);
        if let Some((first, _)) = nodes.get(initial) {
            self.close(open, *first);
        }
        let mut ends = Vec::new();
        for ((_, state), (node, out)) in named.iter().zip(&nodes) {
            if is_end(state) {
                // Only what ends well goes on, if there is something to go on to.
                if place.depth > 0 {
                    ends.push(Open::from(*node));
                }
                continue;
            }
            let choose = state.get("choose");
            for transition in
                state.get("transitions").and_then(Value::as_array).into_iter().flatten()
            {
                let Some(to) = at(text(transition, "to")) else { continue };
                let label =
                    words(&[&condition(transition.get("when")), &most(transition.get("max"))]);
                let kind = if choose.is_some() { EdgeKind::Choose } else { EdgeKind::Transition };
                self.edge(*out, nodes[to].0, kind, label);
            }
            let fallback = choose.map(|choose| text(choose, "fallback")).and_then(at);
            if let Some(to) = fallback {
                self.edge(*out, nodes[to].0, EdgeKind::Transition, "fallback");
            }
        }
        ends
    }

    fn state(&mut self, name: &str, state: &Value, place: &Place) -> (usize, usize) {
        let (mut kind, mut detail) = describe(state);
        if is_end(state) {
            let failed = text(state, "outcome") == "failed";
            kind = if failed { NodeKind::Failed } else { NodeKind::End };
        }
        for (key, word) in [("on_entry", "entry"), ("on_exit", "exit")] {
            let hooks =
                state.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
            let done: Vec<String> = hooks
                .iter()
                .map(|hook| match text(hook, "name") {
                    "" => describe(hook.get("action").map_or(hook, |_| hook)).1,
                    name => name.to_owned(),
                })
                .collect();
            if !done.is_empty() {
                let hooks = format!("{word}: {}", done.join(", "));
                detail = if detail.is_empty() { hooks } else { format!("{detail}; {hooks}") };
            }
        }
        if let Some(choose) = state.get("choose") {
            let asked = format!("choose: {}", short(text(choose, "prompt")));
            detail = if detail.is_empty() { asked } else { format!("{detail}; {asked}") };
        }
        let node = self.node(place, name, kind, detail);
        let out = self.inside(state, kind, node, &place.inside(name));
        (node, out)
    }
}

fn is_end(state: &Value) -> bool {
    state.get("terminal").is_some_and(|terminal| terminal == true)
}

/// A guard: an expression, or a table of a `[machine]` file.
fn condition(when: Option<&Value>) -> String {
    match when {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => short(text),
        Some(other) => short(&other.to_string()),
    }
}
