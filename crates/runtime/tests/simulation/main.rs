//! Deterministic simulation of supervisor, journal and world, with crashes at every write, sync and effect.
//!
//! One seed is one run; the same seed is the same run. `DRIVETRAIN_SEEDS=N` runs more of them and
//! `DRIVETRAIN_SEED=S` one. A run that breaks a promise prints how to repeat it and what happened.

mod audit;
mod bug;
mod disk;
mod journal;
mod language;
mod people;
mod planted;
mod random;
mod run;
mod scenario;
mod world;

use std::sync::{Arc, Mutex};
use std::time::Instant;

use ::journal::Journal;
use ::journal::contract::{Store, check};

use crate::bug::Bug;
use crate::journal::SimulatedJournal;
use crate::random::Random;
use crate::run::{Ended, Plan, run};
use crate::scenario::Scenario;
use crate::world::{Shared, Tally, World};

/// Seeds that every test run tries.
const SEEDS: u64 = 1_000;

/// Small scenarios that every test run crashes at each of their points.
const SMALL: u64 = 24;

/// Workflows that every test run crashes at each of their points.
const WORKFLOWS: u64 = 12;

/// Coding agents that every test run crashes at each of their points.
const AGENTS: u64 = 16;

/// How far apart those points are, unless more seeds are asked for.
const APART: u64 = 17;

/// The first seed; seeds count up from here.
const FIRST: u64 = 1;

#[test]
fn a_thousand_seeds_keep_every_promise() {
    let only = number("DRIVETRAIN_SEED");
    let count = number("DRIVETRAIN_SEEDS").unwrap_or(SEEDS);
    let seeds = only.map_or(FIRST..FIRST + count, |seed| seed..seed + 1);
    let began = Instant::now();
    let mut tally = Tally::default();
    for seed in seeds.clone() {
        let ended = run(&large(seed, None));
        judge("", &ended, &large(seed, None));
        tally.add(&ended.tally);
        if only.is_some() {
            say(&run(&Plan { traced: true, ..large(seed, None) }).trace.join("\n"));
        }
    }
    let runs = seeds.end - seeds.start;
    report("seeds", runs, began, &tally);
    if only.is_none() {
        for (what, times) in [
            ("crashes", tally.crashes),
            ("torn tails", tally.torn),
            ("calls in doubt", tally.in_doubt),
            ("repeated calls", tally.repeated),
            ("fenced owners", tally.fenced),
            ("full disks", tally.stalled),
            ("acknowledged commands", tally.acknowledged),
        ] {
            assert!(
                times * 40 >= runs,
                "{runs} seeds had only {times} {what}: they test too little"
            );
        }
    }
}

#[test]
fn a_crash_at_every_point_of_small_tasks_keeps_every_promise() {
    let began = Instant::now();
    let mut tally = Tally::default();
    let mut runs = 0;
    let scale = number("DRIVETRAIN_SEEDS").unwrap_or(SEEDS).div_ceil(SEEDS);
    let only = number("DRIVETRAIN_SEED");
    for seed in only.map_or(FIRST..FIRST + SMALL * scale, |seed| seed..seed + 1) {
        for point in 1.. {
            let plan = small(seed, point);
            let ended = run(&plan);
            judge(&format!("crash at point {point} of small scenario {seed}: "), &ended, &plan);
            runs += 1;
            tally.add(&ended.tally);
            if ended.tally.crashes == 0 {
                break;
            }
        }
    }
    report("crash runs", runs, began, &tally);
}

/// Workflows of every kind of step, each crashed at many points: in a step, a loop, a branch, an element, a nested workflow,
/// and a task of its own.
#[test]
fn a_crash_in_the_middle_of_any_workflow_keeps_every_promise() {
    let began = Instant::now();
    let mut tally = Tally::default();
    let mut runs = 0;
    let scale = number("DRIVETRAIN_SEEDS").unwrap_or(SEEDS).div_ceil(SEEDS);
    let only = number("DRIVETRAIN_SEED");
    for seed in only.map_or(FIRST..FIRST + WORKFLOWS * scale, |seed| seed..seed + 1) {
        // Neighbouring points are alike; which of them are tried differs from workflow to workflow.
        let apart = if scale > 1 || only.is_some() { 1 } else { APART };
        for point in (1 + seed % apart..).step_by(apart as usize) {
            let plan = Plan { scenario: Scenario::language(seed), ..small(seed, point) };
            let ended = run(&plan);
            judge(&format!("crash at point {point} of workflow {seed}: "), &ended, &plan);
            runs += 1;
            tally.add(&ended.tally);
            if ended.tally.crashes == 0 {
                break;
            }
        }
    }
    report("crash runs of workflows", runs, began, &tally);
}

/// The same workflows with everything else that can befall a task.
#[test]
fn any_workflow_keeps_every_promise_whatever_befalls_it() {
    let began = Instant::now();
    let mut tally = Tally::default();
    let only = number("DRIVETRAIN_SEED");
    let count = number("DRIVETRAIN_SEEDS").unwrap_or(SEEDS).div_ceil(10);
    let seeds = only.map_or(FIRST..FIRST + count, |seed| seed..seed + 1);
    for seed in seeds.clone() {
        let plan = Plan { scenario: Scenario::large_language(seed), ..large(seed, None) };
        let ended = run(&plan);
        judge("workflow ", &ended, &plan);
        tally.add(&ended.tally);
    }
    let runs = seeds.end - seeds.start;
    report("workflows", runs, began, &tally);
    if only.is_none() {
        for (what, times) in [("crashes", tally.crashes), ("children of steps", tally.children)] {
            assert!(times * 5 >= runs, "{runs} workflows had only {times} {what}");
        }
    }
}

/// Coding agents, each crashed at many points of its turns: before and after it says something, asks, calls, spends and ends.
#[test]
fn a_crash_in_the_middle_of_an_agents_turn_keeps_every_promise() {
    let began = Instant::now();
    let mut tally = Tally::default();
    let mut runs = 0;
    let scale = number("DRIVETRAIN_SEEDS").unwrap_or(SEEDS).div_ceil(SEEDS);
    let only = number("DRIVETRAIN_SEED");
    for seed in only.map_or(FIRST..FIRST + AGENTS * scale, |seed| seed..seed + 1) {
        for point in 1.. {
            let plan = Plan { scenario: Scenario::agent(seed), ..small(seed, point) };
            let ended = run(&plan);
            judge(&format!("crash at point {point} of agent {seed}: "), &ended, &plan);
            runs += 1;
            tally.add(&ended.tally);
            if ended.tally.crashes == 0 {
                break;
            }
        }
    }
    report("crash runs of agents", runs, began, &tally);
    if only.is_none() {
        assert!(tally.agent_turns > runs, "only {} turns began", tally.agent_turns);
        assert!(tally.continued * 10 > runs, "only {} turns went on", tally.continued);
    }
}

/// The same agents with everything else that can befall a task.
#[test]
fn any_agent_keeps_every_promise_whatever_befalls_it() {
    let began = Instant::now();
    let mut tally = Tally::default();
    let only = number("DRIVETRAIN_SEED");
    let count = number("DRIVETRAIN_SEEDS").unwrap_or(SEEDS).div_ceil(5);
    let seeds = only.map_or(FIRST..FIRST + count, |seed| seed..seed + 1);
    for seed in seeds.clone() {
        let plan = Plan { scenario: Scenario::large_agents(seed), ..large(seed, None) };
        let ended = run(&plan);
        judge("agent ", &ended, &plan);
        tally.add(&ended.tally);
    }
    let runs = seeds.end - seeds.start;
    report("agents", runs, began, &tally);
    if only.is_none() {
        for (what, times) in [
            ("crashes", tally.crashes),
            ("turns", tally.agent_turns),
            ("calls of agents", tally.agent_calls),
            ("turns that went on", tally.continued),
        ] {
            assert!(times * 5 >= runs, "{runs} agents had only {times} {what}");
        }
    }
}

#[test]
fn the_same_seed_is_the_same_run() {
    for seed in [3, 14, 159] {
        let plan = Plan { traced: true, ..large(seed, None) };
        assert_eq!(run(&plan).trace, run(&plan).trace);
    }
}

#[test]
fn tasks_that_overlap_share_commits_and_a_step_costs_one_sync() {
    let commits = |tasks: u64, turns: u64| {
        let tasks = (1..=tasks).map(|number| scenario::steady(number, turns)).collect();
        let scenario = Scenario { in_step: true, ..Scenario::quiet(tasks) };
        let ended = run(&Plan {
            seed: 0,
            scenario,
            crashes: Vec::new(),
            bug: None,
            blind: Vec::new(),
            traced: false,
        });
        assert!(ended.violation.is_none(), "{:?}", ended.violation);
        ended.commits
    };
    assert_eq!(commits(1, 20) - commits(1, 10), 10, "one dependent step, one sync");
    assert_eq!(commits(4, 20), commits(1, 20), "four tasks in step, the same syncs");
}

#[test]
fn the_simulated_journal_keeps_the_contract_of_journals() {
    struct Place(Shared);
    impl Store for Place {
        fn open(&self) -> Box<dyn Journal> {
            match SimulatedJournal::open(&self.0) {
                Ok(journal) => Box::new(journal),
                Err(error) => panic!("the simulated journal does not open: {error}"),
            }
        }
    }
    check(&mut || Box::new(Place(Arc::new(Mutex::new(World::new(0, &[], None, false))))));
}

/// The run of a seed: everything in it, with up to five crashes, some of them while it recovers.
fn large(seed: u64, bug: Option<Bug>) -> Plan {
    let mut random = Random::new(seed, 5);
    let mut crashes = Vec::new();
    for again in 0..random.below(6) {
        let soon = again > 0 && random.one_in(2);
        crashes.push(1 + random.below(if soon { 12 } else { 250 }));
    }
    Plan { seed, scenario: Scenario::large(seed), crashes, bug, blind: Vec::new(), traced: false }
}

/// A small scenario that crashes at one point and, for two of three points, once more soon after.
fn small(seed: u64, point: u64) -> Plan {
    let mut crashes = vec![point];
    if !point.is_multiple_of(3) {
        crashes.push(1 + Random::new(seed, point).below(20));
    }
    Plan {
        seed,
        scenario: Scenario::small(seed),
        crashes,
        bug: None,
        blind: Vec::new(),
        traced: false,
    }
}

/// Fails with everything that is needed to understand and to repeat the run.
fn judge(what: &str, ended: &Ended, plan: &Plan) {
    let Some(violation) = &ended.violation else { return };
    let trace = run(&Plan { traced: true, ..plan.clone() }).trace.join("\n");
    panic!(
        "{what}seed {seed} breaks {check:?}: {text}\n{trace}\n\nseed {seed} breaks {check:?}: {text}\n\
         repeat with: DRIVETRAIN_SEED={seed} cargo test -p runtime --test simulation -- --nocapture",
        seed = plan.seed,
        check = violation.check,
        text = violation.what,
    );
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

fn report(what: &str, runs: u64, began: Instant, tally: &Tally) {
    let seconds = began.elapsed().as_secs_f64();
    say(&format!(
        "{runs} {what} in {seconds:.1} s, {:.0} a second: {tally:?}",
        runs as f64 / seconds
    ));
}

/// Shown with `--nocapture`, or when the test fails.
#[allow(clippy::print_stdout, reason = "the harness captures it")]
fn say(text: &str) {
    println!("{text}");
}
