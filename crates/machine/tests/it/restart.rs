//! A restart of the machine is told to whoever goes on, and nobody goes on where nobody knows what was lost.

use machine::input::Signal;
use machine::state::Standing;
use serde_json::json;

use crate::rig::{Rig, shell, spec};

/// A task whose process was lost together with the machine.
fn cut_off(brought_back: Result<u32, String>) -> Rig {
    let mut rig = Rig::started(spec(json!({ "turns": [[shell("a")], [shell("b")]] })));
    rig.ended(2, machine::tool::ToolResult::ok(""));
    rig.input(Signal::OwnerLost.into());
    rig.input(Signal::Restarted(brought_back).into());
    rig
}

#[test]
fn the_driver_is_told_and_goes_on() {
    for (count, words) in [(0, "at work. What"), (1, "One file that"), (7, "7 files that")] {
        let mut rig = cut_off(Ok(count));
        assert!(rig.told().starts_with("[] restarted"), "{}", rig.told());
        let note = &rig.state.data().notes.back().expect("a note").text;
        assert!(note.contains(words), "{note}");
        assert_eq!(rig.state.standing(), Standing::Working);
        rig.attach(false);
        assert!(rig.told().contains(words), "{}", rig.told());
    }
}

#[test]
fn where_nobody_knows_what_was_lost_a_person_looks_first() {
    let mut rig = cut_off(Err("no room".to_owned()));
    assert_eq!(rig.told(), "[] restarted, paused");
    assert_eq!(rig.state.standing(), Standing::Paused);
    rig.attach(false);
    assert!(!rig.told().contains("run_tool"), "{}", rig.told());
    rig.command(machine::input::Command::Resume);
    assert!(rig.told().contains("no longer") || rig.told().contains("resumed"), "{}", rig.told());
}
