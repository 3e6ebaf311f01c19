//! A model that does not answer now: asked again later, under the same number, and paid once.

use machine::cause::{Cause, ModelTrouble};
use machine::effect::Effect;
use machine::input::{Command, Signal};
use machine::message::{ModelFailure, Retry, StopReason};
use machine::state::{Phase, Standing};
use machine::task::Outcome;

use super::{failed, reply, sent, usage};
use crate::model::{answer, task, text};
use crate::rig::Rig;

#[test]
fn an_overloaded_model_is_asked_again_later_and_its_cost_is_counted_once() {
    let mut rig = Rig::started(task());
    let failure = ModelFailure {
        kind: "overloaded".to_owned(),
        retry: Retry::After(5_000),
        message: "busy".to_owned(),
        usage: usage(4),
    };
    answer(&mut rig, Err(failure.clone()));
    assert_eq!(rig.told(), "[set_timer#3] model_failed");
    let timer = rig.effect("set_timer");
    rig.input(Signal::TimerFired(timer).into());
    assert_eq!(rig.told(), "[call_model#4] model_called");
    assert_eq!(sent(&rig), ["User: a goal"], "the same question");
    assert_eq!(rig.state.data().spend.tokens, 5);
    for _ in 0..20 {
        if matches!(rig.state.standing(), Standing::Finished { .. }) {
            break;
        }
        answer(&mut rig, Err(failure.clone()));
        if rig.told().contains("set_timer") {
            let timer = rig.effect("set_timer");
            rig.input(Signal::TimerFired(timer).into());
        }
    }
    let Standing::Finished { outcome, reason } = rig.state.standing() else { panic!("goes on") };
    assert_eq!((outcome, reason.contains("busy")), (Outcome::Failed, true));
    assert_eq!(rig.state.data().spend.tokens, 50, "ten questions, five tokens each");
}

#[test]
fn a_model_that_asks_for_years_is_asked_again_when_a_person_says_so() {
    let mut rig = Rig::started(task());
    answer(&mut rig, failed("rate_limited", Retry::After(999_999_999_000)));
    assert_eq!(rig.told(), "[] model_failed, recovery_chosen, escalated");
    let Standing::AwaitingPerson { asks } = rig.state.standing() else { panic!("does not wait") };
    assert!(format!("{asks:?}").contains("left alone for 11574d1h46m39s"), "{asks:?}");
    rig.command(Command::tell("go on"));
    assert_eq!(sent(&rig), ["User: a goal"], "the same question");
    answer(&mut rig, failed("auth", Retry::Never));
    let Standing::Finished { outcome, .. } = rig.state.standing() else { panic!("goes on") };
    assert_eq!(outcome, Outcome::Failed, "no wait was asked for");
}

#[test]
fn a_question_that_was_never_sent_is_not_wasted() {
    for (kind, wasted) in [("no_key", 0), ("auth", 1)] {
        let mut rig = Rig::started(task());
        answer(&mut rig, failed(kind, Retry::Never));
        assert_eq!(rig.state.data().spend.wasted_requests(), wasted, "{kind}");
        let Phase::Finished { outcome, cause, .. } = &rig.state.data().phase else {
            panic!("goes on")
        };
        let failure = ModelTrouble::Auth;
        let expected = (Outcome::Failed, Some(Cause::ModelFailed { failure }));
        assert_eq!((*outcome, cause.clone()), expected, "{kind}");
    }
}

/// The number of the question that is asked, and when the timer of the last output is due.
fn question(rig: &Rig) -> Option<u64> {
    rig.last.effects.iter().find_map(|effect| match effect {
        Effect::CallModel { call, .. } => Some(call.question),
        _ => None,
    })
}

fn due(rig: &Rig) -> Option<i64> {
    rig.last.effects.iter().find_map(|effect| match effect {
        Effect::SetTimer { at, .. } => Some(at.0),
        _ => None,
    })
}

/// Lets the last timer fire at its moment.
fn fire(rig: &mut Rig) {
    let timer = rig.effect("set_timer");
    rig.now = rig.now.max(due(rig).unwrap());
    rig.input(Signal::TimerFired(timer).into());
}

#[test]
fn a_wait_survives_the_process_and_is_kept_to_the_moment() {
    let mut rig = Rig::started(task());
    answer(&mut rig, failed("rate_limited", Retry::After(30_000)));
    let moment = due(&rig).unwrap();
    assert!(moment >= rig.now + 30_000);
    rig.input(Signal::OwnerLost.into()).attach(false);
    assert_eq!(rig.told(), "[set_timer#4] attached", "not asked before its time");
    assert_eq!(due(&rig), Some(moment));
    rig.input(Signal::OwnerLost.into());
    rig.now = moment;
    rig.attach(false);
    assert_eq!(rig.told(), "[call_model#5] attached, model_called", "its time has come");
    assert_eq!(question(&rig), Some(1));
}

#[test]
fn a_long_wait_lets_go_of_a_task_that_nobody_attends() {
    for (attended, millis, lets_go) in
        [(false, 7_200_000, true), (false, 40_000, false), (true, 7_200_000, false)]
    {
        let mut rig = Rig::new();
        rig.command(Command::Start(Box::new(task())));
        rig.attach(attended).open_workspace();
        answer(&mut rig, failed("rate_limited", Retry::After(millis)));
        assert_eq!(rig.state.wants_release(), lets_go, "{attended} {millis}");
        if lets_go {
            let reason = rig.state.release_reason();
            assert!(reason.starts_with("the model is asked again in 2h"), "{reason}");
            rig.command(Command::Detach { reason });
            assert_eq!(rig.told(), "[] detached, task_finished waiting");
            assert!(rig.state.rests_until(machine::time::Timestamp(rig.now)).is_some());
            rig.now += 8_000_000;
            assert_eq!(rig.state.rests_until(machine::time::Timestamp(rig.now)), None);
            rig.attach(false);
            assert_eq!(rig.told(), "[call_model#4] attached, model_called");
        }
    }
}

#[test]
fn a_paused_task_asks_again_only_once_it_goes_on() {
    let mut rig = Rig::started(task());
    answer(&mut rig, failed("overloaded", Retry::Backoff));
    let (timer, moment) = (rig.effect("set_timer"), due(&rig).unwrap());
    rig.command(Command::Pause);
    rig.now = moment;
    rig.input(Signal::TimerFired(timer).into());
    assert_eq!(rig.told(), "[] ");
    rig.command(Command::Resume);
    assert_eq!(rig.told(), "[call_model#4] resumed, model_called");
}

#[test]
fn a_server_that_is_left_alone_costs_no_attempt_but_not_for_ever() {
    let mut rig = Rig::started(task());
    let open = || failed("circuit_open", Retry::After(30_000));
    for _ in 0..20 {
        answer(&mut rig, open());
        fire(&mut rig);
    }
    assert_eq!(rig.state.data().model_failures, 0);
    answer(&mut rig, failed("transport", Retry::Backoff));
    assert_eq!(rig.state.data().model_failures, 1);
    fire(&mut rig);
    let begun = rig.now;
    while let Standing::Working = rig.state.standing() {
        answer(&mut rig, open());
        if due(&rig).is_some() {
            fire(&mut rig);
        }
    }
    assert!(rig.now - begun < 30 * 60_000, "half an hour for all of it");
    let Standing::Finished { outcome, reason } = rig.state.standing() else { panic!("goes on") };
    assert_eq!((outcome, reason.contains("circuit_open")), (Outcome::Failed, true));
}

#[test]
fn a_question_has_one_number_however_often_it_is_asked() {
    let mut rig = Rig::started(task());
    assert_eq!(question(&rig), Some(1));
    answer(&mut rig, failed("transport", Retry::Backoff));
    fire(&mut rig);
    assert_eq!(question(&rig), Some(1));
    rig.input(Signal::OwnerLost.into()).attach(false);
    assert_eq!(question(&rig), Some(1));
    answer(&mut rig, Ok(reply(vec![text("half")], StopReason::MaxTokens)));
    assert_eq!(question(&rig), Some(2));
    rig.command(Command::Interrupt { note: "no".to_owned() });
    assert_eq!(question(&rig), Some(3));
}
