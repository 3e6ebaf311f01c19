//! Workers that want to be believed. Every attack is a whole task with real processes; what must come of it stands beside
//! it in the table. The claim is that none of them is verified without what was asked for being there.

#[path = "../../examples/corpus/acceptance/attacks.rs"]
mod attacks;
#[path = "../../examples/corpus/acceptance/stage.rs"]
mod stage;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Mutex;

use attacks::{CORPUS, OWN};
use serde_json::Value;
use stage::{Attack, Bad, Stage};

/// How many tasks run at a time: they mostly wait for one another's processes.
const AT_ONCE: usize = 4;

/// Plays all of them and names each that came out wrong.
fn play_all(attacks: &[Attack]) {
    let waiting = Mutex::new(attacks.iter());
    let wrong = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let Some(attack) = waiting.lock().unwrap().next() else { return };
                    if let Err(bad) = play(attack) {
                        wrong
                            .lock()
                            .unwrap()
                            .push(format!("{}, {}: {bad:?}", attack.id, attack.what));
                    }
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), attacks.len(), wrong.join("\n"));
}

fn play(attack: &Attack) -> Result<(), Bad> {
    let place = tempfile::tempdir().unwrap();
    let stage = Stage::new(place.path(), Path::new(env!("CARGO_BIN_EXE_drivetrain")));
    match stage.play(attack) {
        Ok(_) => Ok(()),
        Err(Bad::Skipped(reason)) => {
            // Seen in the output of the test: a toolchain that is missing here is no failure of ours.
            print_skip(attack, &reason);
            Ok(())
        }
        Err(bad) => Err(bad),
    }
}

#[allow(clippy::print_stdout, reason = "a skip names itself")]
fn print_skip(attack: &Attack, reason: &str) {
    println!("SKIP {} {}: {reason}", attack.id, attack.what);
}

#[test]
fn no_attack_of_the_corpus_is_verified() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/acceptance.jsonl");
    let cases = std::fs::read_to_string(file).unwrap();
    let cases = cases.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let cases: BTreeSet<String> =
        cases.map(|case| case["id"].as_str().unwrap().to_owned()).collect();
    let played: BTreeSet<String> = CORPUS.iter().map(|attack| attack.id.to_owned()).collect();
    assert_eq!(cases, played, "every case of the corpus is played, and no other");
    play_all(CORPUS);
}

#[test]
fn no_attack_of_our_own_is_verified() {
    play_all(OWN);
}
