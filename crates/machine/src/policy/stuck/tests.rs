//! What counts as a circle, and what does not.

use super::*;

fn failed(evidence: &str) -> Vec<CriterionResult> {
    vec![CriterionResult {
        title: "shell: make".to_owned(),
        passed: false,
        exit: Some(1),
        evidence: evidence.to_owned(),
        millis: 5,
        ..CriterionResult::default()
    }]
}

/// Verdicts one after the other; after how many it was stuck, and by what.
fn verdicts(list: &[(&str, Option<&str>)], limits: &Limits) -> Option<(usize, Repetition)> {
    let mut streak = Streak::default();
    list.iter().enumerate().find_map(|(at, (evidence, tree))| {
        let found = streak.on_verdict_failed(&failed(evidence), *tree, limits)?;
        Some((at + 1, found.what))
    })
}

#[test]
fn three_failures_alike_are_stuck_and_a_different_one_starts_anew() {
    let limits = Limits::default();
    let alike = [("a", None), ("a", None), ("b", None), ("b", None), ("b", None)];
    assert_eq!(verdicts(&alike, &limits), Some((5, Repetition::SameFailure)));
    let mut streak = Streak::default();
    streak.on_verdict_failed(&failed("b"), None, &limits);
    streak.on_verdict_failed(&failed("b"), None, &limits);
    let said = streak.on_verdict_failed(&failed("b"), None, &limits).unwrap().said;
    assert!(said.contains("3 times in a row: shell: make"), "{said}");
}

#[test]
fn a_failure_that_differs_only_in_its_times_and_places_is_the_same() {
    let alike = [
        ("1 failed in 0.31s at /tmp/x1/a.py, pid 17", None),
        ("1 failed in 0.29s at /tmp/y2/a.py, pid 18", None),
        ("1 failed in 1.02s at /tmp/z3/a.py, pid 19", None),
    ];
    assert_eq!(verdicts(&alike, &Limits::default()), Some((3, Repetition::SameFailure)));
    let less = [("3 failed", None), ("2 failed", None), ("1 failed", None), ("3 failed", None)];
    assert_eq!(verdicts(&less, &Limits::default()), None);
}

#[test]
fn claims_over_the_same_files_are_stuck_whatever_the_check_says() {
    let same = [("a", Some("t")), ("b", Some("t")), ("c", Some("t")), ("d", Some("t"))];
    assert_eq!(verdicts(&same, &Limits::default()), Some((4, Repetition::UnchangedTree)));
    let changed = [("a", Some("t")), ("b", Some("u")), ("c", Some("t")), ("d", Some("u"))];
    assert_eq!(verdicts(&changed, &Limits::default()), None);
    let unknown = [("a", None), ("b", None), ("c", None), ("d", None), ("e", None)];
    assert_eq!(verdicts(&unknown, &Limits::default()), None);
}

#[test]
fn failures_that_alternate_are_a_circle() {
    let limits = Limits { cycle: 3, ..Limits::default() };
    let two: Vec<_> = ["a", "b"].repeat(5).into_iter().map(|said| (said, None)).collect();
    assert_eq!(verdicts(&two, &limits), Some((6, Repetition::Cycle)));
    let four: Vec<_> =
        ["a", "b", "c", "d"].repeat(5).into_iter().map(|said| (said, None)).collect();
    assert_eq!(verdicts(&four, &limits), Some((12, Repetition::Cycle)));
    let five: Vec<_> =
        ["a", "b", "c", "d", "e"].repeat(9).into_iter().map(|said| (said, None)).collect();
    assert_eq!(verdicts(&five, &limits), None, "longer rounds are left to the budget");
}

#[test]
fn zero_means_that_nobody_looks() {
    let off = Limits {
        same_failure: 0,
        same_action: 0,
        unchanged_tree: 0,
        cycle: 0,
        same_question: 0,
        same_denied: 0,
    };
    let same: Vec<_> = std::iter::repeat_n(("a", Some("t")), 50).collect();
    assert_eq!(verdicts(&same, &off), None);
    let mut watch = Watch::default();
    for _ in 0..50 {
        watch.on_turn(Turn { signature: 1, title: "x", waited: false }, &off);
        watch.on_question("q", &off);
        watch.on_denied(1, "x", &off);
    }
    assert_eq!(watch.found, None);
}

/// Turns one after the other; after how many it was stuck, and by what.
fn turns(list: impl IntoIterator<Item = (u64, bool)>) -> Option<(usize, Repetition)> {
    let mut watch = Watch::default();
    for (at, (signature, waited)) in list.into_iter().enumerate() {
        watch.on_turn(Turn { signature, title: "shell: make", waited }, &Limits::default());
        if let Some(found) = &watch.found {
            return Some((at + 1, found.what));
        }
    }
    None
}

#[test]
fn the_same_action_with_the_same_result_is_a_circle_and_waiting_may_go_on_for_longer() {
    assert_eq!(turns(std::iter::repeat_n((1, false), 50)), Some((5, Repetition::SameAction)));
    assert_eq!(turns(std::iter::repeat_n((1, true), 49)), None, "it polls");
    assert_eq!(turns(std::iter::repeat_n((1, true), 50)), Some((50, Repetition::SameAction)));
    assert_eq!(turns((0..500).map(|n| (n, false))), None, "each result is another");
}

#[test]
fn actions_in_turn_are_a_circle_unless_one_of_them_waits() {
    let round = |waited: bool| [(1, false), (2, waited)].into_iter().cycle();
    assert_eq!(turns(round(false).take(20)), Some((8, Repetition::Cycle)));
    assert_eq!(turns(round(true).take(79)), None, "it sleeps, then looks");
    assert_eq!(turns(round(true).take(80)), Some((80, Repetition::Cycle)));
    let edits = (0..100).flat_map(|n| [(1, false), (100 + n, false)]);
    assert_eq!(turns(edits), None, "the same test between edits that differ");
}

#[test]
fn a_question_and_a_denied_call_are_counted_one_by_one() {
    let limits = Limits::default();
    let mut watch = Watch::default();
    for _ in 0..3 {
        watch.on_question("which port?", &limits);
        watch.on_question("which host?", &limits);
        watch.on_denied(7, "shell: rm", &limits);
    }
    assert_eq!(watch.found, None);
    watch.on_allowed(7);
    for _ in 0..4 {
        watch.on_denied(7, "shell: rm", &limits);
    }
    assert_eq!(watch.found, None, "what was denied before somebody let it pass does not count");
    watch.on_denied(7, "shell: rm", &limits);
    assert_eq!(watch.found.take().unwrap().what, Repetition::BlockedCall);
    watch.on_question("which port?", &limits);
    assert_eq!(watch.found.take().unwrap().what, Repetition::SameQuestion);
}

#[test]
fn what_is_remembered_is_bounded() {
    let mut watch = Watch::default();
    let limits = Limits { cycle: 1_000_000, ..Limits::default() };
    for n in 0..2_000u64 {
        watch.on_turn(Turn { signature: n, title: "", waited: false }, &limits);
        watch.on_question(&format!("question {n}"), &limits);
        watch.on_denied(n, "", &limits);
    }
    assert!(serde_json::to_string(&watch).unwrap().len() < 20_000);
}
