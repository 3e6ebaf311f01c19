//! Records as older versions wrote them: each file here is a promise that such a journal still opens.

use machine::input::{Input, Stamped};
use machine::state::{Standing, State};
use machine::step;
use machine::task::Outcome;
use machine::time::Timestamp;
use serde_json::Value;

use crate::rig::registry;

/// Folds the records of a file; none may be refused.
fn fold(text: &str) -> State {
    let mut state = State::new(machine::id::TaskId("t1".to_owned()), registry());
    for line in text.lines() {
        let record: Value = serde_json::from_str(line).unwrap();
        assert_eq!(record["version"], 1);
        let input: Input = serde_json::from_value(record["body"].clone()).unwrap();
        let time = Timestamp(record["time"].as_i64().unwrap());
        let output = step(&mut state, Stamped { time, input });
        assert_eq!(output.rejected, None, "{line}");
    }
    state
}

#[test]
fn records_with_servers_fold_to_the_end_they_had() {
    let state = fold(include_str!("../fixtures/records-v1-servers.jsonl"));
    let Standing::Finished { outcome, .. } = state.standing() else {
        panic!("{:?}", state.standing())
    };
    assert_eq!((outcome, state.data().dropped), (Outcome::Completed, 0));
    assert!(state.data().tools.is_empty(), "the server offered nothing in the end");
}

#[test]
fn records_of_version_1_fold_to_the_end_they_had() {
    let state = fold(include_str!("../fixtures/records-v1.jsonl"));
    let Standing::Finished { outcome, .. } = state.standing() else {
        panic!("{:?}", state.standing())
    };
    assert_eq!(outcome, Outcome::Verified);
    assert_eq!(state.data().dropped, 0);
    assert_eq!(state.data().spend.turns, 3);
    assert_eq!(state.data().last_call, 4);
}
