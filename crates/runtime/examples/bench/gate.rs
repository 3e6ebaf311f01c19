//! What one decision of the gate costs, without a person: reading the line and fifty rules over every part of it.

use std::time::Instant;

use machine::file::policy;
use machine::policy::permission::{Author, Decide, Policy, Question, judge};
use machine::tool::EffectClass;
use serde_json::{Value, json};

/// The mean of so many decisions for lines of 1, 10 and 60 commands, in nanoseconds.
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
            attended: true,
            workspace: Some("/home/user/project"),
            sandboxed: true,
        };
        let begun = Instant::now();
        let mut allowed = 0u64;
        for _ in 0..count {
            let judgement = judge(&policy, std::hint::black_box(&question));
            allowed += u64::from(judgement.decide == Decide::Allow);
        }
        let nanos = begun.elapsed().as_nanos() as f64 / count as f64;
        report[name] = json!({ "ns": nanos.round(), "allowed": allowed == count });
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
    policy::combine(vec![file], Some("/home/user".to_owned())).policy
}
