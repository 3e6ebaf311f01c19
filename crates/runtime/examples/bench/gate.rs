//! What one decision of the gate costs, without a person: reading the line and fifty rules over every part of it.

use std::time::Instant;

use machine::file::policy;
use machine::policy::permission::{Author, Decide, Policy, Question, judge};
use machine::tool::EffectClass;
use serde_json::{Value, json};

/// The best batch counts: on a machine with neighbours the others measure them.
const BATCHES: u64 = 100;

/// Nanoseconds of a decision for lines of 1, 10 and 60 commands, over so many of them.
pub(crate) fn decisions(count: u64) -> Value {
    let policy = fifty_rules();
    let ten = [
        "cd src",
        "ls -la",
        "cargo build --release 2>&1",
        "grep -rn 'TODO' . | sort | uniq -c",
    ]
    .join(" && ")
        + " && git add -A && git commit -m 'fix: a thing' && git status && wc -l *.rs > out.txt";
    let sixty = vec!["git diff HEAD~1 -- src"; 60].join(" && ");
    let lines =
        [("1_command", "cargo test --workspace"), ("10_commands", &ten), ("60_commands", &sixty)];
    let mut report = json!({ "case": "gate", "rules": policy.rules.len() });
    for (name, line) in lines {
        let input = json!({ "command": line });
        let question = Question {
            tool: "shell",
            input: &input,
            class: EffectClass::Unsafe,
            author: Author::Worker,
            driver: "llm",
            within: &[],
            attended: true,
            workspace: Some("/users/u/project"),
            sandboxed: true,
        };
        let (mut best, mut allowed) = (f64::INFINITY, true);
        for _ in 0..BATCHES {
            let begun = Instant::now();
            for _ in 0..count / BATCHES {
                let judgement = judge(&policy, std::hint::black_box(&question));
                allowed &= judgement.decide == Decide::Allow;
            }
            let nanos = begun.elapsed().as_nanos() as f64 / (count / BATCHES) as f64;
            best = best.min(nanos);
        }
        report[name] = json!({ "ns": best.round(), "allowed": allowed });
    }
    report
}

/// Rules of every kind, none of which means the lines, so that each part is compared with all of them.
fn fifty_rules() -> Policy {
    let mut text = "profile = \"dev\"\n".to_owned();
    for n in 0..10 {
        for matcher in [
            format!("command = \"tool{n} push --force\""),
            format!("command = [\"git remote{n}\", \"git clone{n} *\"]\nattended = true"),
            format!("path = \"secret{n}/**\""),
            format!("path = [\"~/.private{n}/**\", \"*.key{n}\"]\naccess = \"write\""),
            format!("host = \"*.example{n}.com\""),
        ] {
            text.push_str(&format!("[[rule]]\n{matcher}\ndecide = \"deny\"\n"));
        }
    }
    let file = policy::parse(&text, "policy.toml").unwrap();
    policy::combine(vec![file], Some("/users/u".to_owned())).policy
}
