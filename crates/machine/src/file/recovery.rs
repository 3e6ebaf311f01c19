//! `[retry]`, `[stuck]` and `[progress]` of a task file: what follows a failed turn, and when going on is no longer
//! progress.

use super::check::{Cursor, Problems, is_name, suggest};
use super::shape::task as shape;
use crate::cause::CauseKind;
use crate::policy::recovery::{Every, HAND_OVER, Ladder, RUNGS, Recovery, Rung, usual};
use crate::policy::retry::Waits;
use crate::policy::stuck::Limits;
use crate::task::DriverSpec;

/// The most rungs that a ladder may have.
const MOST_RUNGS: usize = 100;

/// Reads one driver of `[retry.drivers]`: `driver` and `driver_config` as in `[task]`.
type ReadDriver<'r> = &'r mut dyn FnMut(&Cursor<'_>, &mut Problems) -> Option<DriverSpec>;

/// Reads the three sections of a task file.
pub(super) fn read(top: &Cursor<'_>, problems: &mut Problems, driver: ReadDriver<'_>) -> Recovery {
    let mut recovery = Recovery::default();
    if let Some(retry) = top.get("retry") {
        read_retry(&retry, &mut recovery, problems, driver);
    }
    if let Some(stuck) = top.get("stuck") {
        recovery.stuck = read_stuck(&stuck, problems);
    }
    if let Some(progress) = top.get("progress") {
        progress.keys(problems, &shape::PROGRESS);
        if let Some(every) = progress.get("every").and_then(|every| every.whole(problems)) {
            recovery.progress = Every { every };
        }
    }
    recovery
}

fn read_retry(
    at: &Cursor<'_>,
    recovery: &mut Recovery,
    problems: &mut Problems,
    driver: ReadDriver<'_>,
) {
    if !at.keys(problems, &shape::RETRY) {
        return;
    }
    if let Some(drivers) = at.get("drivers") {
        if !drivers.value.is_object() {
            drivers.wrong(problems, "a table of drivers by name");
        }
        for (name, entry) in drivers.entries() {
            if !is_name(name) {
                problems.push_key(&entry, format!("{name:?} is not a name"), None);
            }
            entry.keys(problems, &shape::HAND_OVER);
            if let Some(spec) = driver(&entry, problems) {
                recovery.drivers.insert(name.to_owned(), spec);
            }
        }
    }
    recovery.waits = read_waits(at, problems);
    for kind in CauseKind::ALL {
        if let Some(ladder) = at.get(kind.key()) {
            let names: Vec<&str> = recovery.drivers.keys().map(String::as_str).collect();
            if let Some(ladder) = read_ladder(&ladder, kind, &names, problems) {
                recovery.ladders.insert(kind, ladder);
            }
        }
    }
}

fn read_waits(at: &Cursor<'_>, problems: &mut Problems) -> Waits {
    let mut waits = Waits::default();
    if let Some(attempts) = at.get("attempts")
        && let Some(number) = count(&attempts, problems)
    {
        if number == 0 {
            let hint = Some("1 asks once and never again".to_owned());
            problems.push(&attempts, "a question is asked at least once", hint);
        }
        waits.attempts = number;
    }
    if let Some(longest) = at.get("longest_wait").and_then(|span| span.span(problems)) {
        waits.longest_wait = longest;
    }
    if let Some(most) = at.get("max_wasted").and_then(|most| most.whole(problems)) {
        waits.max_wasted = most;
    }
    waits
}

/// A ladder is a list of rungs, or a table that has one under `do`.
fn read_ladder(
    at: &Cursor<'_>,
    kind: CauseKind,
    drivers: &[&str],
    problems: &mut Problems,
) -> Option<Ladder> {
    let counted = kind.is_counted();
    let usual = usual(kind);
    let mut ladder = Ladder { rungs: Vec::new(), ..usual };
    let list = if at.value.is_object() {
        at.keys(problems, if counted { &shape::COUNTED_LADDER } else { &shape::LADDER });
        ladder.most = at.get("most").and_then(|most| count(&most, problems));
        if let Some(after) = at.get("after").filter(|_| counted)
            && let Some(number) = count(&after, problems)
        {
            if number == 0 {
                problems.push(
                    &after,
                    "expected at least 1: how many failures are one",
                    Some("write 1 or more".to_owned()),
                );
            }
            ladder.after = number;
        }
        at.need(problems, "do")?
    } else {
        at.clone()
    };
    let items = list.items(problems);
    if items.is_empty() && list.value.is_array() {
        let hint = Some(format!("say what to try: {}, {HAND_OVER}NAME", RUNGS.join(", ")));
        problems.push(&list, "the list is empty", hint);
    }
    if items.len() > MOST_RUNGS {
        problems.push(&list, format!("more than {MOST_RUNGS} rungs"), None);
        return None;
    }
    ladder.rungs = items.iter().filter_map(|item| read_rung(item, drivers, problems)).collect();
    (!ladder.rungs.is_empty()).then_some(ladder)
}

fn read_rung(at: &Cursor<'_>, drivers: &[&str], problems: &mut Problems) -> Option<Rung> {
    let word = at.text(problems)?;
    match Rung::read(word) {
        Some(Rung::HandOver(name)) if !drivers.contains(&name.as_str()) => {
            let hint = suggest(&name, drivers.iter().copied()).or_else(|| {
                Some(format!("add [retry.drivers.{name}] with driver and driver_config"))
            });
            problems.push(at, format!("there is no driver {name:?} to hand over to"), hint);
            None
        }
        Some(rung) => Some(rung),
        None => {
            let words = RUNGS.into_iter().chain([HAND_OVER]);
            let hint = suggest(word, words)
                .or_else(|| Some(format!("expected {} or {HAND_OVER}NAME", RUNGS.join(", "))));
            problems.push(at, format!("{word:?} is nothing that can be tried"), hint);
            None
        }
    }
}

fn read_stuck(at: &Cursor<'_>, problems: &mut Problems) -> Limits {
    const KEYS: [&str; 6] =
        ["same_failure", "same_action", "unchanged_tree", "cycle", "same_question", "same_denied"];
    at.keys(problems, &shape::STUCK);
    let mut limits = Limits::default();
    let fields = [
        &mut limits.same_failure,
        &mut limits.same_action,
        &mut limits.unchanged_tree,
        &mut limits.cycle,
        &mut limits.same_question,
        &mut limits.same_denied,
    ];
    for (key, field) in KEYS.into_iter().zip(fields) {
        let Some(value) = at.get(key) else { continue };
        let Some(number) = count(&value, problems) else { continue };
        if number == 1 {
            let hint = Some("0 means that nobody looks".to_owned());
            problems.push(&value, "once is no repetition: expected 0, or 2 and more", hint);
        }
        *field = number;
    }
    limits
}

fn count(at: &Cursor<'_>, problems: &mut Problems) -> Option<u32> {
    let number = at.whole(problems)?;
    let small = u32::try_from(number).ok().filter(|number| *number <= 1_000_000);
    if small.is_none() {
        problems.push(
            at,
            format!("{number} is more than anybody waits for"),
            Some("write at most 1000000".to_owned()),
        );
    }
    small
}
