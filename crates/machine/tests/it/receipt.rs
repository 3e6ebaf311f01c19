//! Receipts as values: made of a verified task, written in one way, and refused after any change.

use machine::input::Signal;
use machine::receipt::{Link, Receipt};
use machine::task::{Criterion, CriterionResult, CustomCheck, WorkspaceKind};
use machine::verdict::{Checkpoint, Environment, Place, Verdict};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::rig::{Rig, check_of, spec};

fn link() -> Link {
    Link { record: 7, chain: "00112233445566778899aabbccddeeff".to_owned() }
}

fn verdict_of(criteria: &[Criterion], passed: bool) -> Verdict {
    let results = criteria.iter().map(|criterion| CriterionResult {
        title: criterion.title(),
        passed,
        exit: Some(if passed { 0 } else { 1 }),
        millis: 12,
        output: Some("e3b0".repeat(16)),
        ..CriterionResult::default()
    });
    Verdict {
        results: results.collect(),
        place: Place::Workspace,
        environment: Environment {
            drivetrain: "0.1.0".to_owned(),
            system: "Linux 6.1".to_owned(),
            processor: "x86_64".to_owned(),
            ..Environment::default()
        },
        touched_total: 3,
        diff_lines: 14,
        ..Verdict::default()
    }
}

fn criteria() -> Vec<Criterion> {
    vec![
        check_of("cargo test -- --list \"a\\b\""),
        Criterion::File { path: "näme.txt".to_owned(), pattern: None, forbidden: true },
        Criterion::Custom(CustomCheck::Plugin {
            plugin: json!({ "name": "lint", "weights": [0.1, 1e300, 5e-324, 0.30000000000000004] }),
            config: json!({ "a": { "z": null, "b": [] } }),
        }),
    ]
}

/// A task that claims at once, and what it was checked by.
fn claimed(criteria: Vec<Criterion>) -> Rig {
    let spec = machine::task::TaskSpec { acceptance: criteria, ..spec(json!({ "turns": [] })) };
    Rig::started(spec)
}

fn verified() -> (Rig, Verdict) {
    let mut rig = claimed(criteria());
    let verdict = verdict_of(&rig.state.data().spec.criteria(), true);
    let id = rig.effect("verify");
    rig.input(Signal::Verified(id, Ok(verdict.clone())).into());
    (rig, verdict)
}

fn receipt() -> Receipt {
    let (rig, verdict) = verified();
    Receipt::of(rig.state.data(), "scripted", &verdict, link()).unwrap()
}

/// The receipt with something changed and its digest made right again, as somebody who forges one would.
fn forged(change: impl FnOnce(&mut Receipt)) -> String {
    let mut receipt = receipt();
    change(&mut receipt);
    receipt.id = receipt.digest();
    receipt.write()
}

#[test]
fn a_receipt_is_read_back_as_it_was_written() {
    let receipt = receipt();
    assert_eq!(Receipt::read(receipt.write().as_bytes()).unwrap(), receipt);
    let compact = receipt.json().to_string();
    let compact: Value = serde_json::from_str(&compact).unwrap();
    assert_eq!(compact["id"], receipt.digest());
    assert_eq!(receipt.short().len(), 12);
    assert_eq!(receipt.differences(&receipt), []);
}

#[test]
fn only_a_verified_task_has_one() {
    let mut rig = claimed(criteria());
    let told = Receipt::of(rig.state.data(), "scripted", &Verdict::default(), link());
    assert_eq!(told.unwrap_err(), "task t1 has no receipt: it has not ended");
    rig.command(machine::Command::Cancel { reason: String::new() });
    let told = Receipt::of(rig.state.data(), "scripted", &Verdict::default(), link());
    assert_eq!(told.unwrap_err(), "task t1 has no receipt: it ended cancelled");
    let (rig, verdict) = verified();
    for wrong in [
        Verdict::default(),
        Verdict { results: verdict.results[1..].to_vec(), ..verdict.clone() },
        verdict_of(&rig.state.data().spec.criteria(), false),
    ] {
        let told = Receipt::of(rig.state.data(), "scripted", &wrong, link());
        assert_eq!(told.unwrap_err(), "the last verdict of task t1 does not prove it");
    }
}

#[test]
fn a_receipt_that_contradicts_itself_is_refused_however_right_its_digest() {
    let tree = || Some(Checkpoint { name: "0".repeat(40), tree: "1".repeat(40) });
    let cases: Vec<(&str, String)> = vec![
        ("criteria is another", forged(|it| it.criteria[0] = check_of("true"))),
        ("not those of its criteria", forged(|it| it.results[0].title = "shell: x".to_owned())),
        ("not those of its criteria", forged(|it| drop(it.results.pop()))),
        ("a criterion failed", forged(|it| it.results[1].passed = false)),
        ("cannot be a task's id", forged(|it| it.task.0 = "../../x".to_owned())),
        ("no folder of a repository", forged(|it| it.prefix = "a/../../b".to_owned())),
        ("no folder of a repository", forged(|it| it.prefix = "/etc".to_owned())),
        ("no name of an object", forged(|it| it.commit = Some("--upload-pack=x".to_owned()))),
        (
            "no name of an object",
            forged(|it| {
                it.result = Some(Checkpoint { name: "-x".to_owned(), tree: String::new() })
            }),
        ),
        ("no tree was kept", forged(|it| it.place = Place::CleanCheckout)),
        ("no record of a journal", forged(|it| it.journal.record = 0)),
        ("no record of a journal", forged(|it| it.journal.chain = "?".repeat(32))),
        ("has the form 2", forged(|it| it.drivetrain_receipt = 2)),
    ];
    for (why, text) in cases {
        let told = Receipt::read(text.as_bytes()).unwrap_err().to_string();
        assert!(told.contains(why), "{why}: {told}");
    }
    let whole = forged(|it| {
        (it.place, it.workspace) = (Place::CleanCheckout, WorkspaceKind::Worktree);
        (it.base, it.result) = (tree(), tree());
    });
    Receipt::read(whole.as_bytes()).unwrap();
}

#[test]
fn what_is_written_in_another_way_is_refused() {
    let text = receipt().write();
    let twice = text.replacen("\"goal\":", "\"goal\": \"x\",\n  \"goal\":", 1);
    let more = text.replacen("\"goal\":", "\"extra\": 1,\n  \"goal\":", 1);
    let inner = text.replacen("\"kind\": \"shell\"", "\"kind\": \"shell\", \"zz\": 1", 1);
    let escaped = text.replacen("a goal", "\\u0061 goal", 1);
    let number = text.replacen("\"record\": 7", "\"record\": 7.0", 1);
    for changed in [twice, more, inner, escaped, number] {
        assert_ne!(changed, text);
        assert!(Receipt::read(changed.as_bytes()).is_err(), "{changed}");
    }
    // Space is nobody's secret.
    let spaced = text.replace('\n', "\r\n\t ");
    assert_eq!(Receipt::read(spaced.as_bytes()).unwrap(), receipt());
    for garbage in [&b""[..], b"{}", b"[]", b"\xff", b"null", &b"[".repeat(100_000)] {
        assert!(Receipt::read(garbage).is_err());
    }
}

#[test]
fn differences_are_named_by_their_place() {
    let (one, mut other) = (receipt(), receipt());
    other.results[0].exit = Some(1);
    other.results.pop();
    other.goal = "another".to_owned();
    let told: Vec<String> = one
        .differences(&other)
        .into_iter()
        .map(|found| format!("{}: {} | {}", found.field, found.here, found.there))
        .collect();
    assert_eq!(told[0], "goal: \"a goal\" | \"another\"");
    assert_eq!(told[1], "results[0].exit: 0 | 1");
    assert!(told[2].starts_with("results[2]: {") && told[2].ends_with("| "), "{}", told[2]);
    assert_eq!(told.len(), 3);
}

#[test]
fn every_change_of_a_single_byte_is_refused_or_harmless() {
    let original = receipt();
    let text = original.write().into_bytes();
    let mut harmless = 0;
    for at in 0..text.len() {
        let mut changed = text.clone();
        for byte in [
            0,
            b' ',
            b'"',
            b'0',
            b'1',
            b'9',
            b'a',
            b'f',
            b'}',
            b',',
            0xff,
            text[at] ^ 1,
            text[at] ^ 0x20,
        ] {
            if byte == text[at] {
                continue;
            }
            changed[at] = byte;
            if let Ok(read) = Receipt::read(&changed) {
                assert_eq!(read, original, "byte {at} as {byte}");
                harmless += 1;
            }
        }
        let cut = Receipt::read(&text[..at]);
        // The line end at the end is no part of it.
        assert!(cut.is_err() || at + 1 == text.len(), "cut at {at}");
    }
    // Space for a line end, and no more.
    assert!(harmless < text.len() / 4, "{harmless}");
}

proptest! {
    #[test]
    fn no_garbage_makes_reading_panic(edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..3u8), 1..12)) {
        let original = receipt();
        let mut text = original.write().into_bytes();
        for (at, byte, how) in edits {
            let at = at.index(text.len());
            match how {
                0 => text[at] = byte,
                1 => text.insert(at, byte),
                _ => drop(text.remove(at)),
            }
        }
        if let Ok(read) = Receipt::read(&text) {
            prop_assert_eq!(read, original);
        }
    }
}

#[test]
fn a_receipt_is_plain_ascii_whatever_its_task_says() {
    let receipt = receipt();
    let text = forged(|it| it.goal = "\u{202e}näh \u{1f512}\u{7f}\u{1b}[2J\n".to_owned());
    assert!(text.bytes().all(|byte| byte == b'\n' || (b' '..=b'~').contains(&byte)), "{text}");
    assert_eq!(
        Receipt::read(text.as_bytes()).unwrap().goal,
        "\u{202e}näh \u{1f512}\u{7f}\u{1b}[2J\n"
    );
    assert_ne!(Receipt::read(text.as_bytes()).unwrap().id, receipt.id);
}
