//! A clock that is set, and a machine that sleeps: no wait becomes longer than it was, and no time is charged that was not
//! worked.

use machine::effect::Effect;
use machine::event::EventKind;
use machine::input::Signal;
use machine::state::Standing;
use machine::task::{DriverSpec, TaskSpec};
use machine::time::{Span, Timestamp};
use machine::tool::{Status, ToolResult};
use serde_json::json;

use crate::rig::{Rig, spec};

const HOUR: i64 = 3_600_000;

/// A task that waits ten seconds, from the moment 1,005 on, before it tries its step again.
fn waiting() -> Rig {
    let step = json!({
        "name": "a", "tool": "shell", "parameters": { "command": "x" },
        "on_error": "retry", "max_retries": 2, "backoff": "10s",
    });
    let driver = DriverSpec::new("workflow", json!({ "steps": [step] }));
    let mut task = TaskSpec { driver, ..spec(json!(null)) };
    task.budget.max_time = Some(Span::seconds(60));
    let mut rig = Rig::started(task);
    let tool = rig.effect("run_tool");
    rig.now += 1;
    rig.ended(tool.0, ToolResult::ended(Status::Error, "no"));
    assert_eq!((rig.now, timer(&rig)), (1005, 11_005));
    rig
}

/// When the one timer of the last output is due, by the clock.
fn timer(rig: &Rig) -> i64 {
    let timers = rig.last.effects.iter().filter_map(|effect| match effect {
        Effect::SetTimer { at: Timestamp(at), .. } => Some(*at),
        _ => None,
    });
    let all: Vec<i64> = timers.collect();
    assert_eq!(all.len(), 1, "{:?}", rig.last.effects);
    all[0]
}

#[test]
fn a_clock_that_is_set_back_makes_no_wait_longer() {
    let mut rig = waiting();
    let alarm = rig.effect("set_timer");
    let spent = rig.state.data().spend.millis;
    // Four seconds later; the timers of the process go back with the clock.
    rig.now += 4000 - HOUR - 1;
    rig.input(Signal::SetBack(Span::seconds(3600)).into());
    assert_eq!(rig.state.data().spend.millis, spent + 4000);
    assert_eq!(rig.last.events.len(), 0);
    rig.now += 6000 - 1;
    rig.input(Signal::TimerFired(alarm).into());
    assert!(rig.told().contains("tool_started c2"), "{}", rig.told());
    let started = rig.last.events.last().unwrap().time;
    assert_eq!(started, Timestamp(11_005 - HOUR), "people see what their clock says");
    let tool = rig.effect("run_tool");
    rig.ended(tool.0, ToolResult::ended(Status::Error, "no"));
    let until = rig.last.events.iter().find_map(|event| match event.kind {
        EventKind::TimerAwaited { until, .. } => Some(until),
        _ => None,
    });
    assert_eq!(until, Some(Timestamp(rig.now + 20_000)));
    assert_eq!(timer(&rig), rig.now + 20_000);
}

#[test]
fn a_process_that_comes_after_the_clock_was_set_back_waits_no_longer_than_the_first_would_have() {
    let mut rig = waiting();
    rig.now -= 10 * 365 * 24 * HOUR;
    rig.input(Signal::OwnerLost.into());
    rig.attach(false);
    let timers: Vec<i64> = (rig.last.effects.iter())
        .filter_map(|effect| match effect {
            Effect::SetTimer { at: Timestamp(at), .. } => Some(*at - rig.now),
            _ => None,
        })
        .collect();
    // The end of its time, and the end of its wait.
    assert_eq!(timers.len(), 2);
    assert!(timers.iter().all(|left| (0..=60_000).contains(left)), "{timers:?}");
    assert!(timers.iter().any(|left| *left <= 10_000), "{timers:?}");
}

#[test]
fn a_sleep_is_not_charged_and_the_time_that_is_left_runs_on() {
    let mut rig = waiting();
    let spent = rig.state.data().spend.millis;
    rig.now += 8 * HOUR + 4000 - 1;
    rig.input(Signal::Slept(Span::seconds(8 * 3600)).into());
    assert_eq!(rig.state.data().spend.millis, spent + 4000);
    let left = i64::try_from(60_000 - spent - 4000).unwrap();
    assert_eq!(timer(&rig), rig.now + left, "the deadline is set anew");
}

#[test]
fn nobody_is_waited_for_whose_time_to_answer_is_over() {
    let ask = json!({ "name": "ok", "approve": "Release?", "timeout": "1m", "on_timeout": "skip" });
    let mut task = spec(json!(null));
    task.driver = DriverSpec::new("workflow", json!({ "name": "w", "steps": [ask] }));
    let rig = Rig::started(task);
    assert!(matches!(rig.state.standing(), Standing::AwaitingPerson { .. }), "{}", rig.told());
    assert!(!rig.state.is_answer_late(Timestamp(rig.now + 59_000)));
    assert!(rig.state.is_answer_late(Timestamp(rig.now + 61_000)));
}
