//! Runs a folder of hostile cases through the real binary: `just corpus DIR`. One line a case, the sum last.
//!
//! A case is judged by what happens (a file made, a secret shown, a connection counted), not by what we say of it.

#![allow(clippy::print_stdout, reason = "the report is what this program is for")]
#![allow(clippy::unwrap_used, reason = "a rig that cannot be set up has failed")]

mod acceptance;
mod agents;
mod case;
mod config;
mod effect;
mod gate;
mod injection;
mod mcp;
mod paths;
mod rig;
mod shell;
mod terminal;

use std::collections::BTreeMap;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use case::Case;
use rig::Rig;

/// How a case came out. `Escape`, `Panic` and `Hang` fail the run whatever the share of passes.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// As expected.
    Pass,
    /// Otherwise; what was seen.
    Fail(String),
    /// A forbidden effect happened.
    Escape(String),
    /// Something of ours panicked.
    Panic(String),
    /// It did not end in time.
    Hang(String),
    /// It could not be tried here, and why. Counts against a limit of one in twenty.
    Skip(String),
}

/// The kinds of cases that are known, by the name of their file, and who runs one.
type Runner = fn(&Case, &Rig) -> Verdict;
const KINDS: [(&str, Runner); 9] = [
    ("shell", shell::run),
    ("shell-benign", shell::run),
    ("paths", paths::run),
    ("mcp", mcp::run),
    ("terminal", terminal::run),
    ("injection", injection::run),
    ("acceptance", acceptance::run),
    ("agent-cli", agents::run),
    ("config", config::run),
];

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let Some(folder) = arguments.next().map(PathBuf::from) else {
        println!("usage: corpus DIR [KIND or ID …]");
        return ExitCode::from(2);
    };
    let wanted: Vec<String> = arguments.collect();
    let mut cases: Vec<(Case, Runner)> = Vec::new();
    for (kind, runner) in KINDS {
        let file = folder.join(format!("{kind}.jsonl"));
        if !file.exists() {
            continue;
        }
        for case in case::load(&file) {
            let named = |word: &String| *word == case.id || word == kind;
            if wanted.is_empty() || wanted.iter().any(named) {
                cases.push((case, runner));
            }
        }
    }
    run_all(&cases).report(&folder)
}

/// Runs twice as many cases at once as there are processors, since most wait for a process, each in a place of its own,
/// and tells of them in their order.
fn run_all(cases: &[(Case, Runner)]) -> Counts {
    let next = AtomicUsize::new(0);
    let (sender, ended) = mpsc::channel();
    let at_once = 2 * std::thread::available_parallelism().map_or(1, NonZero::get);
    let mut counts = Counts::default();
    std::thread::scope(|scope| {
        for _ in 0..at_once {
            let (sender, next) = (sender.clone(), &next);
            scope.spawn(move || {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some((case, runner)) = cases.get(index) else { return };
                    let _ = sender.send((index, run_one(case, *runner)));
                }
            });
        }
        drop(sender);
        let mut early = BTreeMap::new();
        let mut told = 0;
        for (index, verdict) in ended {
            early.insert(index, verdict);
            while let Some(verdict) = early.remove(&told) {
                counts.take(&cases[told].0, verdict);
                told += 1;
            }
        }
    });
    counts
}

fn run_one(case: &Case, runner: Runner) -> Verdict {
    let rig = Rig::new();
    let ran = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| runner(case, &rig)));
    ran.unwrap_or_else(|reason| {
        let text = reason.downcast_ref::<String>().cloned();
        let text = text.or_else(|| reason.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Verdict::Panic(text.unwrap_or_default())
    })
}

#[derive(Default)]
struct Counts {
    passed: usize,
    failed: usize,
    skipped: usize,
}

impl Counts {
    fn take(&mut self, case: &Case, verdict: Verdict) {
        let (word, detail) = match verdict {
            Verdict::Pass => ("PASS", String::new()),
            Verdict::Fail(detail) => ("FAIL", detail),
            Verdict::Escape(detail) => ("ESCAPE", detail),
            Verdict::Panic(detail) => ("PANIC", detail),
            Verdict::Hang(detail) => ("HANG", detail),
            Verdict::Skip(reason) => ("SKIP", reason),
        };
        match word {
            "PASS" => self.passed += 1,
            "SKIP" => self.skipped += 1,
            _ => self.failed += 1,
        }
        let detail = if detail.is_empty() {
            String::new()
        } else {
            format!(" · {}", detail.escape_debug())
        };
        println!("{word} {} {}{detail}", case.id, case.why);
    }

    fn report(&self, folder: &Path) -> ExitCode {
        let all = self.passed + self.failed + self.skipped;
        if all == 0 {
            println!("there is no case in {}", folder.display());
            return ExitCode::from(2);
        }
        if self.skipped * 20 > all {
            println!("{} of {all} skipped: more than one in twenty", self.skipped);
        }
        println!("{} passed, {} failed", self.passed, self.failed);
        let lost = self.failed > 0 || self.skipped * 20 > all;
        if lost { ExitCode::FAILURE } else { ExitCode::SUCCESS }
    }
}
