//! The values that expressions and templates see: only what a text mentions is put together, so that looking at one
//! result does not cost more the more of them there are.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::definition::{Filled, Formula};
use super::result;

/// What is the same everywhere.
#[derive(Debug, Clone, Copy)]
pub(super) struct World<'w> {
    pub(super) goal: &'w str,
    pub(super) facts: &'w Value,
    pub(super) turns: u64,
}

/// The names at a place, from the inside out.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scope<'s> {
    pub(super) outer: Option<&'s Scope<'s>>,
    pub(super) layer: Layer<'s>,
}

/// What one place adds.
#[derive(Debug, Clone, Copy)]
pub(super) enum Layer<'s> {
    /// A workflow: nothing outside of it can be seen.
    Flow { world: World<'s>, inputs: &'s Value },
    /// The steps of a row, or the states.
    Steps {
        index: &'s BTreeMap<String, usize>,
        results: &'s BTreeMap<usize, Value>,
        visits: &'s BTreeMap<usize, u64>,
    },
    /// An element of a list.
    Element { name: &'s str, item: &'s Value, index: usize, length: usize },
    /// The result of a state's work.
    Result(&'s Value),
}

impl<'s> Scope<'s> {
    /// The scope inside this one.
    pub(super) fn with<'i>(&'i self, layer: Layer<'i>) -> Scope<'i>
    where
        's: 'i,
    {
        Scope { outer: Some(self), layer }
    }

    fn layers(&self) -> impl Iterator<Item = Layer<'s>> {
        std::iter::successors(Some(*self), |scope| scope.outer.copied()).map(|scope| scope.layer)
    }

    /// What came of a step, if anything did.
    pub(super) fn step(&self, name: &str) -> Option<Value> {
        self.packed(name).map(|packed| packed.map_or_else(result::not_run, result::unpacked))
    }

    /// What the journal holds of a step that can be seen from here, if it ended.
    fn packed(&self, name: &str) -> Option<Option<&'s Value>> {
        self.layers().find_map(|layer| match layer {
            Layer::Steps { index, results, .. } => index.get(name).map(|at| results.get(at)),
            _ => None,
        })
    }

    /// What a step said; nothing if it did not run.
    pub(super) fn said(&self, name: &str) -> &'s str {
        let packed = self.packed(name).flatten();
        packed.and_then(|packed| packed["text"].as_str()).unwrap_or_default()
    }

    fn visits(&self, name: &str) -> u64 {
        let found = self.layers().find_map(|layer| match layer {
            Layer::Steps { index, visits, .. } => index.get(name).map(|at| visits.get(at)),
            _ => None,
        });
        found.flatten().copied().unwrap_or(0)
    }

    fn step_names(&self) -> Vec<&'s String> {
        let names = self.layers().filter_map(|layer| match layer {
            Layer::Steps { index, .. } => Some(index.keys()),
            _ => None,
        });
        names.flatten().collect()
    }

    /// The values of these names. One that has none is left out, which is an error when it is used.
    pub(super) fn values(&self, names: &[Vec<String>]) -> Value {
        let mut values = Map::new();
        for path in names {
            let Some(root) = path.first() else { continue };
            match (root.as_str(), path.get(1)) {
                ("steps", Some(name)) => {
                    let steps = values.entry("steps").or_insert_with(|| json!({}));
                    let Some(packed) = self.packed(name) else { continue };
                    match path.get(2) {
                        // All of it is more than any of its fields.
                        None => {
                            steps[name.as_str()] =
                                packed.map_or_else(result::not_run, result::unpacked);
                        }
                        // A text of some length does not cost where only the status is asked for.
                        Some(field) if steps[name.as_str()].get(field).is_none() => {
                            if let Some(value) = result::field(packed, field) {
                                steps[name.as_str()][field.as_str()] = value;
                            }
                        }
                        Some(_) => {}
                    }
                }
                ("steps", None) => {
                    let all = self.step_names().into_iter();
                    let all = all.filter_map(|name| Some((name.clone(), self.step(name)?)));
                    values.insert("steps".to_owned(), Value::Object(all.collect()));
                }
                ("visits", Some(name)) => {
                    let visits = values.entry("visits").or_insert_with(|| json!({}));
                    visits[name.as_str()] = json!(self.visits(name));
                }
                ("visits", None) => {
                    let all = self.step_names().into_iter();
                    let all = all.map(|name| (name.clone(), json!(self.visits(name))));
                    values.insert("visits".to_owned(), Value::Object(all.collect()));
                }
                // One of many inputs or facts does not cost all of them.
                ("inputs" | "facts", Some(name)) => {
                    let Some(held) = self.table(root).and_then(|table| table.get(name)) else {
                        values.entry(root.clone()).or_insert_with(|| json!({}));
                        continue;
                    };
                    let some = values.entry(root.clone()).or_insert_with(|| json!({}));
                    if some.get(name).is_none() {
                        some[name.as_str()] = held.clone();
                    }
                }
                ("inputs" | "facts", None) => {
                    let whole = self.table(root).cloned().unwrap_or_default();
                    values.insert(root.clone(), whole);
                }
                (root, _) => {
                    if let Some(value) = self.root(root) {
                        values.entry(root.to_owned()).or_insert(value);
                    }
                }
            }
        }
        Value::Object(values)
    }

    /// The inputs or the facts of the workflow around.
    fn table(&self, root: &str) -> Option<&'s Value> {
        self.layers().find_map(|layer| match layer {
            Layer::Flow { world, inputs } => {
                Some(if root == "inputs" { inputs } else { world.facts })
            }
            Layer::Steps { .. } | Layer::Element { .. } | Layer::Result(_) => None,
        })
    }

    fn root(&self, root: &str) -> Option<Value> {
        self.layers().find_map(|layer| match layer {
            Layer::Flow { world, .. } => match root {
                "goal" => Some(json!(world.goal)),
                "task" => Some(json!({ "turns": world.turns })),
                _ => None,
            },
            Layer::Element { name, item, index, length } => match root {
                "loop" => Some(json!({ "index": index + 1, "index0": index, "first": index == 0,
                                       "last": index + 1 == length, "length": length })),
                root if root == name => Some(item.clone()),
                _ => None,
            },
            Layer::Result(value) if root == "result" => Some(value.clone()),
            Layer::Result(_) | Layer::Steps { .. } => None,
        })
    }

    /// Whether a condition holds.
    pub(super) fn holds(&self, formula: &Formula) -> Result<bool, String> {
        formula.expression.holds(&self.values(&formula.names))
    }

    /// What an expression gives.
    pub(super) fn value(&self, formula: &Formula) -> Result<Value, String> {
        formula.expression.value(&self.values(&formula.names))
    }

    /// What a template gives.
    pub(super) fn text(&self, filled: &Filled) -> Result<String, String> {
        filled.template.render(&self.values(&filled.names))
    }
}
