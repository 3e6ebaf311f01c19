//! The hostile and the ordinary command lines of `/corpus`, through the gate alone.

mod misread;

use machine::file::policy;
use machine::policy::permission::{Author, Decide, Policy, Question, judge};
use machine::tool::EffectClass;
use serde_json::{Value, json};

const HOSTILE: &str = include_str!("../../../../corpus/shell.jsonl");
const BENIGN: &str = include_str!("../../../../corpus/shell-benign.jsonl");

/// What the placeholders stand for. Nothing is opened, so any path does.
const PLACEHOLDERS: [(&str, &str); 10] = [
    ("{{WT}}", "/rig/wt"),
    ("{{OUTSIDE}}", "/rig/outside"),
    ("{{CANARY}}", "/rig/outside/canary"),
    ("{{SECRET_FILE}}", "/rig/outside/secret.txt"),
    ("{{LISTEN}}", "127.0.0.1:9"),
    ("{{LISTEN_HOST}}", "127.0.0.1"),
    ("{{LISTEN_PORT}}", "9"),
    ("{{RUNTIME_PID}}", "4242"),
    ("{{CANARY_REV}}", "yranac/edistuo/gir/"),
    ("{{B64_TOUCH_CANARY}}", "dG91Y2ggL3JpZy9vdXRzaWRlL2NhbmFyeQ=="),
];

fn policy_of(name: &str) -> Policy {
    let text = match name {
        "readonly" => "profile = \"read-only\"\n",
        "readonly-deny-secret" => {
            "profile = \"read-only\"\n[[rule]]\npath = \"/rig/outside/**\"\ndecide = \"deny\"\n"
        }
        "deny-touch" => "profile = \"open\"\n[[rule]]\ncommand = \"touch\"\ndecide = \"deny\"\n",
        "dev" => "profile = \"dev\"\n",
        "allow-all-in-sandbox" => "profile = \"open\"\n",
        other => panic!("unknown policy {other:?}"),
    };
    policy_from(text)
}

fn policy_from(text: &str) -> Policy {
    let file = policy::parse(text, "policy.toml").unwrap();
    policy::combine(vec![file], Some("/users/u".to_owned())).policy
}

fn line_of(case: &Value) -> String {
    let text = if let Some(text) = case["in"].as_str() {
        text.to_owned()
    } else if let Some(hex) = case["in_hex"].as_str() {
        let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
        let bytes: Vec<u8> = (0..hex.len()).step_by(2).map(byte).collect();
        String::from_utf8_lossy(&bytes).into_owned()
    } else {
        let how = &case["gen"];
        let text = |key: &str| how[key].as_str().unwrap_or_default();
        let count = usize::try_from(how["n"].as_u64().unwrap()).unwrap();
        match text("kind") {
            "join" => vec![text("item"); count].join(text("sep")) + text("tail"),
            "repeat" => text("item").repeat(count) + text("tail"),
            "nest" => text("open").repeat(count) + text("core") + &text("close").repeat(count),
            other => panic!("unknown generator {other:?}"),
        }
    };
    PLACEHOLDERS.iter().fold(text, |text, (name, value)| text.replace(name, value))
}

/// How many cases there are, and those that the gate decides otherwise than expected.
fn misses(cases: &str) -> (usize, Vec<String>) {
    let (mut all, mut missed) = (0, Vec::new());
    for case in cases.lines().filter(|line| !line.trim().is_empty()) {
        let case: Value = serde_json::from_str(case).unwrap();
        let line = line_of(&case);
        let input = json!({ "command": line });
        let judgement = judge(
            &policy_of(case["policy"].as_str().unwrap()),
            &Question {
                tool: "shell",
                input: &input,
                class: EffectClass::Unsafe,
                author: Author::Worker,
                driver: "llm",
                within: &[],
                attended: true,
                workspace: Some("/rig/wt"),
                sandboxed: true,
            },
        );
        let fits = match case["expect"].as_str().unwrap() {
            "contained" => continue,
            "allow" => judgement.decide == Decide::Allow,
            "not-allow" | "deny" => judgement.decide != Decide::Allow,
            other => panic!("unknown outcome {other:?}"),
        };
        all += 1;
        if !fits {
            let id = case["id"].as_str().unwrap();
            missed.push(format!("{id} {:?}: {}", line, judgement.said()));
        }
    }
    (all, missed)
}

/// The score, with what was missed; fails below so many in a hundred.
fn check(cases: &str, percent: usize) -> String {
    let (all, missed) = misses(cases);
    let passed = all - missed.len();
    let report = format!("{passed} of {all}, missed:\n{}", missed.join("\n"));
    assert!(passed * 100 >= all * percent, "{report}");
    report
}

#[test]
fn hostile_lines_are_not_allowed() {
    println!("{}", check(HOSTILE, 98));
}

#[test]
fn ordinary_lines_run_without_a_question() {
    println!("{}", check(BENIGN, 95));
}
