//! The shells themselves say whether the reader of command lines is right: generated lines run in a real bash and a
//! real dash, in a sandbox where every program only records that it was started, and how. Whatever started must be
//! among the runs of the line's reading, unless the reading says that it is unclear.
//!
//! `DRIVETRAIN_ORACLE_CASES` sets how many lines are generated, `DRIVETRAIN_ORACLE_SEED` the second seed.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![allow(clippy::print_stdout, reason = "a test without a harness prints its own result")]

mod check;
mod generate;
mod length;
mod sandbox;

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use generate::Generator;
use machine::shell::{Reading, read};
use sandbox::{Sandbox, Shell};

/// Lines of the bounded run, and the time after which it starts no further batch.
const CASES: usize = 12_000;
const TIME: Duration = Duration::from_secs(12);
const FIXED_SEED: u64 = 7;
const BATCH: usize = 150;

/// What was seen so far.
#[derive(Default)]
struct Tally {
    generated: usize,
    clear: usize,
    started: usize,
    failures: usize,
}

fn main() {
    if sandbox::is_inside() {
        sandbox::record();
    }
    if std::env::args().any(|argument| argument == "--list") {
        println!("reading_takes_time_in_proportion: test\nthe_shells_agree_with_the_reader: test");
        return;
    }
    let asked = std::env::var("DRIVETRAIN_ORACLE_CASES").ok().map(|cases| cases.parse().unwrap());
    let deadline = asked.is_none().then(|| Instant::now() + TIME);
    let cases: usize = asked.unwrap_or(CASES);
    let random = std::env::var("DRIVETRAIN_ORACLE_SEED").ok().map(|seed| seed.parse().unwrap());
    let random = random.unwrap_or_else(|| {
        u64::from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().subsec_nanos())
    });
    println!("running 2 tests (seeds {FIXED_SEED} and {random})");
    let slow = length::too_slow();
    slow.iter().for_each(|slow| println!("slow: {slow}"));
    let sandbox = Sandbox::new();
    let mut tally = Tally::default();
    explore(&sandbox, FIXED_SEED, cases / 2, deadline.map(|end| end - TIME / 2), &mut tally);
    explore(&sandbox, random, cases - cases / 2, deadline, &mut tally);
    println!(
        "{} lines generated, {} of them clear and run in each shell, {} programs started",
        tally.generated, tally.clear, tally.started
    );
    assert!(tally.started > 1000 || cases < CASES, "hardly anything ran: the oracle sees nothing");
    let failed = usize::from(tally.failures > 0) + usize::from(!slow.is_empty());
    let word = if failed == 0 { "ok" } else { "FAILED" };
    println!("\ntest result: {word}. {} passed; {failed} failed;", 2 - failed);
    if failed > 0 {
        std::process::exit(101);
    }
}

/// Generates lines and runs those that are clear, batch by batch.
fn explore(
    sandbox: &Sandbox,
    seed: u64,
    cases: usize,
    deadline: Option<Instant>,
    tally: &mut Tally,
) {
    let mut generator = Generator::new(seed);
    let mut made = 0;
    while made < cases && deadline.is_none_or(|end| Instant::now() < end) && tally.failures < 20 {
        let mut batch: Vec<(String, Reading)> = Vec::new();
        while batch.len() < BATCH && made < cases {
            made += 1;
            tally.generated += 1;
            let line = generator.line();
            let reading = read(&line);
            if reading.unclear.is_empty() && generate::ends(&line) {
                batch.push((line, reading));
            }
        }
        tally.clear += batch.len();
        if deadline.is_none() {
            println!(
                "{} lines generated, {} clear, {} programs started",
                tally.generated, tally.clear, tally.started
            );
        }
        for shell in [Shell::Bash, Shell::Dash, Shell::PosixBash] {
            let lines: Vec<&str> = batch.iter().map(|(line, _)| line.as_str()).collect();
            for (index, argv) in sandbox.run(shell, &lines) {
                tally.started += 1;
                let (line, reading) = &batch[index];
                if !check::is_foreseen(reading, &argv) {
                    tally.failures += 1;
                    println!(
                        "\n{shell:?} runs {argv:?}\nseed {seed}, line: {line:?}\nreading: {:?}",
                        reading.runs
                    );
                }
            }
        }
    }
}
