//! Steps in a row, and what may lie inside one.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::label::{describe, most, short, words};
use super::{Drawing, EdgeKind, NodeKind, Open, Place, text};

/// How a check and its repair stand in their row: a check is a step that passes over its failure and that another takes
/// its input from. Its repair is whatever takes its input from it, directly or through each other; it runs only after
/// a failure, and the check is run again after the last of it.
#[derive(Debug, Default)]
struct Repairs {
    /// Check to its repair, in order.
    of: BTreeMap<usize, Vec<usize>>,
    /// All steps that repair something.
    steps: BTreeSet<usize>,
}

impl Repairs {
    fn find(steps: &[Value]) -> Repairs {
        let mut found = Repairs::default();
        let places: BTreeMap<&str, usize> =
            steps.iter().enumerate().map(|(at, step)| (text(step, "name"), at)).collect();
        for (check, step) in steps.iter().enumerate() {
            if text(step, "on_error") != "skip" || found.steps.contains(&check) {
                continue;
            }
            let mut repair: BTreeSet<usize> = BTreeSet::new();
            for (at, step) in steps.iter().enumerate().skip(check + 1) {
                let from = places.get(text(step, "input_from"));
                if from.is_some_and(|from| *from == check || repair.contains(from)) {
                    repair.insert(at);
                }
            }
            if !repair.is_empty() {
                found.steps.extend(&repair);
                found.of.insert(check, repair.into_iter().collect());
            }
        }
        found
    }
}

impl Drawing {
    pub(super) fn row(&mut self, steps: &[Value], place: &Place, open: Vec<Open>) -> Vec<Open> {
        let repairs = Repairs::find(steps);
        let mut open = open;
        let mut entries = Vec::new();
        // Ways to a step by its name, which may come later.
        let mut named: Vec<(Open, String)> = Vec::new();
        // Ways from the last step of a check's repair.
        let mut back: Vec<(usize, Vec<Open>)> = Vec::new();
        let mut passing: Vec<(usize, Vec<Open>)> = Vec::new();
        for (at, step) in steps.iter().enumerate() {
            let (entry, exits) = self.step(step, place);
            entries.push(entry);
            self.close(std::mem::take(&mut open), entry);
            open = exits.next;
            named.extend(exits.named);
            if let Some(repair) = repairs.of.get(&at) {
                let last = repair.last().copied().unwrap_or(at);
                let ways = std::mem::take(&mut open);
                let ok = ways
                    .iter()
                    .map(|way| Open::labelled(way.from, EdgeKind::Next, "if it succeeds"));
                passing.push((last, ok.collect()));
                open = ways
                    .iter()
                    .map(|way| Open::labelled(way.from, EdgeKind::Repair, "if it fails"))
                    .collect();
            }
            for (check, repair) in &repairs.of {
                if repair.last() == Some(&at) {
                    let limit = step.get("max_retries").and_then(Value::as_u64).unwrap_or(3);
                    let label = format!("check again ≤ {limit}");
                    let ways = std::mem::take(&mut open);
                    let ways = ways
                        .iter()
                        .map(|way| Open::labelled(way.from, EdgeKind::Recheck, label.clone()));
                    back.push((*check, ways.collect()));
                }
            }
            for (_, ways) in passing.extract_if(.., |(last, _)| *last == at) {
                open.extend(ways);
            }
        }
        for (check, ways) in back {
            self.close(ways, entries[check]);
        }
        for (way, target) in named {
            match steps.iter().position(|step| text(step, "name") == target) {
                Some(at) => self.edge(way.from, entries[at], way.kind, way.label),
                None if target == "end" => open.push(way),
                None => {}
            }
        }
        open
    }

    /// Draws a step and what is inside it; gives its node and the ways out.
    pub(super) fn step(&mut self, step: &Value, place: &Place) -> (usize, Exits) {
        let (kind, detail) = describe(step);
        let name = text(step, "name");
        let node = self.node(place, name, kind, detail);
        self.outline.nodes[node].when = short(text(step, "when"));
        let out = self.inside(step, kind, node, &place.inside(name));
        let mut exits = Exits::default();
        match text(step, "then") {
            "" => exits.next.push(Open::from(out)),
            target => {
                let limit = most(step.get("max_visits"));
                exits.named.push((Open::labelled(out, EdgeKind::Then, limit), target.to_owned()));
            }
        }
        let retries = most(step.get("max_retries"));
        let answer = |exits: &mut Exits, given: Option<&Value>, after: &str| {
            let Some(given) = given else { return };
            let action = given.as_str().unwrap_or_else(|| text(given, "action"));
            match action {
                "skip" => exits.next.push(Open::labelled(out, EdgeKind::Next, after)),
                "goto" => {
                    // Only the goto of a failure is counted by max_retries.
                    let limit = if after == "if it fails" { retries.as_str() } else { "" };
                    let way = Open::labelled(out, EdgeKind::Goto, words(&[after, limit]));
                    exits.named.push((way, text(given, "target").to_owned()));
                }
                _ => {}
            }
        };
        let on_error = step.get("on_error");
        answer(&mut exits, on_error, "if it fails");
        let is_retry = on_error.map_or(!retries.is_empty(), |given| {
            given.as_str().unwrap_or_else(|| text(given, "action")) == "retry"
        });
        if is_retry {
            let wait = match text(step, "backoff") {
                "" => String::new(),
                wait => format!("after {wait}"),
            };
            let label = words(&["if it fails", &retries, &wait]);
            self.edge(node, node, EdgeKind::Retry, label);
            answer(&mut exits, step.get("on_exhausted"), "after the last retry");
        }
        answer(&mut exits, step.get("on_timeout"), "if nobody answers");
        // A failure that is passed over leads where a success leads: one edge, if nothing else parts them.
        if exits.next.len() == 2 && exits.next[0].label.is_empty() {
            let also = format!("also {}", exits.next[1].label);
            exits.next = vec![Open::labelled(out, EdgeKind::Next, also)];
        }
        (node, exits)
    }

    /// Draws what is inside a step; gives the node that its ways out begin at.
    pub(super) fn inside(
        &mut self,
        step: &Value,
        kind: NodeKind,
        node: usize,
        place: &Place,
    ) -> usize {
        match kind {
            NodeKind::Foreach => {
                let open = vec![Open::labelled(node, EdgeKind::Each, "each")];
                let open = self.part(step, place, open);
                let label = "next element";
                for way in open.into_iter().filter(|way| way.from != node) {
                    self.edge(way.from, node, EdgeKind::Again, words(&[&way.label, label]));
                }
                node
            }
            NodeKind::Parallel => self.branches(step, node, place),
            NodeKind::Workflow => {
                let part = step.get("workflow").or_else(|| step.get("machine"));
                self.part_inside(part.unwrap_or(&Value::Null), node, place)
            }
            // A state may have a row of steps as its work.
            NodeKind::Junction => self.part_inside(step, node, place),
            _ => node,
        }
    }

    fn part_inside(&mut self, part: &Value, node: usize, place: &Place) -> usize {
        let has_parts = part.get("steps").is_some() || part.get("states").is_some();
        if !has_parts || place.depth > super::MAX_DEPTH {
            return node;
        }
        let open = self.part(part, place, vec![Open::labelled(node, EdgeKind::Nested, "")]);
        if open.is_empty() {
            return node;
        }
        let out = self.node(place, "done", NodeKind::Join, String::new());
        self.close(open, out);
        out
    }

    fn branches(&mut self, step: &Value, node: usize, place: &Place) -> usize {
        let join = match text(step, "join") {
            "" => "all",
            join => join,
        };
        let mut open = Vec::new();
        match step.get("parallel") {
            Some(Value::Object(branches)) => {
                for (name, steps) in branches {
                    let first = vec![Open::labelled(node, EdgeKind::Branch, name.clone())];
                    let steps = steps.as_array().map(Vec::as_slice).unwrap_or_default();
                    open.extend(self.row(steps, &place.inside(name), first));
                }
            }
            // A machine's branches are single calls.
            Some(Value::Array(branches)) => {
                for branch in branches {
                    let call = branch.get("action").unwrap_or(branch);
                    let (kind, detail) = describe(call);
                    let name = match text(branch, "name") {
                        "" => text(call, "tool"),
                        name => name,
                    };
                    let inner = self.node(place, name, kind, detail);
                    self.edge(node, inner, EdgeKind::Branch, "");
                    open.push(Open::from(inner));
                }
            }
            _ => {}
        }
        let out = self.node(place, "join", NodeKind::Join, join.to_owned());
        self.close(open, out);
        out
    }
}

/// The ways out of a step.
#[derive(Debug, Default)]
pub(super) struct Exits {
    /// To whatever follows.
    pub(super) next: Vec<Open>,
    /// To a step by its name.
    pub(super) named: Vec<(Open, String)>,
}
