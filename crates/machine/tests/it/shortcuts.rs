//! The laws of learned shortcuts, over random answers of people: never more permissive, never learned from itself, and
//! never for longer than declared.

use machine::cause::CauseKind;
use machine::event::EventKind;
use machine::input::Command;
use machine::policy::grant::Scope;
use machine::policy::permission::Decide;
use machine::policy::recovery::Ladder;
use machine::policy::shortcut::{TIME, TURNS};
use machine::time::Span;
use machine::tool::{Status, ToolResult};
use proptest::prelude::*;

use crate::decisions::{attended, hash_of, worker};
use crate::rig::{Rig, call};

fn deny(rig: &mut Rig, id: u64, reason: &str) {
    let hash = Some(hash_of(rig, call(id)));
    let reason = reason.to_owned();
    rig.command(Command::Deny { call: call(id), reason, hash, via: None });
}

#[test]
fn the_same_call_is_refused_at_once_and_another_one_is_asked_about() {
    let mut rig = attended(worker(&["a", "a", "b"]));
    deny(&mut rig, 1, "use staging");
    let decisions = rig.decisions();
    assert_eq!(
        decisions.lines().collect::<Vec<_>>(),
        [
            "c1 deny by person: use staging",
            "c2 deny by shortcut: denied before, at c1: use staging (for 19 more turns)",
            "c3 ask by default: no rule allows shell",
        ]
    );
    let result = rig.last.events.iter().find_map(|event| match &event.kind {
        EventKind::ToolEnded { call: id, result, .. } if *id == call(2) => Some(result.clone()),
        _ => None,
    });
    let expected = ToolResult::ended(Status::Denied, "denied before, at c1: use staging");
    assert_eq!(result, Some(expected));
}

#[test]
fn a_denial_that_nobody_looked_at_teaches_nothing() {
    let mut rig = attended(worker(&["a", "a"]));
    rig.command(Command::deny(call(1), ""));
    assert!(rig.told().ends_with("approval_requested c2"), "{}", rig.told());
    assert!(rig.state.data().denials.is_empty());
}

#[test]
fn a_shortcut_ends_after_its_turns_and_after_its_time() {
    let turns = usize::try_from(TURNS).unwrap();
    let mut task = worker(&vec!["a"; turns + 2]);
    // Long before, it would be stuck.
    task.recovery.stuck.same_denied = 0;
    task.recovery.stuck.same_action = 0;
    let denied = task.recovery.ladder(CauseKind::Denied);
    task.recovery.ladders.insert(CauseKind::Denied, Ladder { after: u32::MAX, ..denied });
    let mut rig = attended(task);
    deny(&mut rig, 1, "no");
    // The turn of the denial counts: 19 refusals, then the person is asked again.
    assert!(rig.told().ends_with(&format!("approval_requested c{}", turns + 1)), "{}", rig.told());

    let mut rig = attended(worker(&["a", "b", "a"]));
    deny(&mut rig, 1, "no");
    rig.now += i64::try_from(TIME.0).unwrap();
    deny(&mut rig, 2, "no");
    assert!(rig.told().ends_with("approval_requested c3"), "{}", rig.told());
}

#[test]
fn an_approval_of_the_same_call_ends_the_shortcut() {
    let turn = serde_json::json!([crate::rig::shell("a"), crate::rig::shell("a")]);
    let again = serde_json::json!([crate::rig::shell("a")]);
    let mut rig = attended(crate::rig::spec(
        serde_json::json!({ "turns": [turn, again], "author": "worker" }),
    ));
    deny(&mut rig, 1, "no");
    let hash = Some(hash_of(&rig, call(2)));
    let scope = Scope::Once;
    rig.command(Command::Approve { call: call(2), scope, like: None, hash, via: None });
    assert!(rig.state.data().denials.is_empty());
    let run = rig.effect("run_tool");
    rig.ended(run.0, ToolResult::ok(""));
    assert!(rig.told().ends_with("approval_requested c3"), "{}", rig.told());
}

/// One step of a person: what becomes of the call that is asked about, and how long that takes.
type Answer = (u8, u16);

/// Runs a worker that repeats a few commands, with these answers; every decision in order.
fn run(commands: &[u8], answers: &[Answer]) -> Vec<(u64, Decide, String)> {
    let names = ["a", "b", "c"];
    let commands: Vec<&str> = commands.iter().map(|n| names[usize::from(n % 3)]).collect();
    let mut rig = attended(worker(&commands));
    let mut decided = Vec::new();
    let mut note = |rig: &Rig| {
        for event in &rig.last.events {
            if let EventKind::CallJudged { call, decide, by, .. } = &event.kind {
                decided.push((call.0, *decide, by.clone()));
            }
        }
    };
    note(&rig);
    let mut answers = answers.iter().cycle();
    for _ in 0..200 {
        let Some((kind, wait)) = answers.next() else { break };
        rig.now += i64::from(*wait) * 100;
        let asked = rig.state.asks().first().cloned();
        match asked {
            Some(machine::state::Ask::Approval { call: id, hash, .. }) => {
                let scope = [Scope::Once, Scope::Task][usize::from(kind / 4 % 2)];
                rig.command(match kind % 4 {
                    0 => Command::deny(id, "unseen"),
                    1 | 2 => Command::Deny {
                        call: id,
                        reason: String::new(),
                        hash: Some(hash),
                        via: None,
                    },
                    _ => Command::Approve {
                        call: id,
                        scope,
                        like: None,
                        hash: Some(hash),
                        via: None,
                    },
                });
            }
            _ => {
                let Some(effect) = rig.state.data().pending.keys().next().copied() else { break };
                rig.ended(effect.0, ToolResult::ok(""));
            }
        }
        note(&rig);
    }
    decided
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2 * ProptestConfig::default().cases, ..ProptestConfig::default() })]

    #[test]
    fn a_shortcut_only_denies_what_would_be_asked_is_never_self_learned_and_expires(
        commands in prop::collection::vec(any::<u8>(), 1..60),
        answers in prop::collection::vec(any::<Answer>(), 1..20),
    ) {
        let decided = run(&commands, &answers);
        let command_of = |call: u64| commands[usize::try_from(call).unwrap() - 1] % 3;
        for (at, (call, decide, by)) in decided.iter().enumerate() {
            if by != "shortcut" {
                continue;
            }
            prop_assert_eq!(*decide, Decide::Deny, "a shortcut allows nothing");
            // The last word on the same command that was not a shortcut is a person's no, and it is not too old.
            let mut before = decided[..at].iter().rev();
            let word = before.find(|(other, decide, by)| {
                command_of(*other) == command_of(*call) && by != "shortcut" && *decide != Decide::Ask
            });
            let (denied, decide, by) = word.unwrap();
            prop_assert_eq!((*decide, by.as_str()), (Decide::Deny, "person"));
            prop_assert!(call - denied < TURNS, "one call a turn: c{} of c{}", call, denied);
        }
        // Without learning, every call that a shortcut refused would have been asked about.
        let asked = decided.iter().filter(|(_, decide, by)| *decide == Decide::Ask && by == "default");
        let shortcut = decided.iter().filter(|(_, _, by)| by == "shortcut");
        let granted = decided.iter().filter(|(_, _, by)| by.starts_with("grant"));
        let calls = decided.iter().map(|(call, _, _)| *call).max().unwrap();
        prop_assert_eq!(
            u64::try_from(asked.count() + shortcut.count() + granted.count()).unwrap(),
            calls
        );
    }
}

#[test]
fn the_declared_numbers_are_those_of_the_documents() {
    assert_eq!((TURNS, TIME), (20, Span::seconds(3600)));
}
