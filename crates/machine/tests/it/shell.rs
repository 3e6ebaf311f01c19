//! Command lines as read: the corpus of hostile and of ordinary ones, and lines of our own.

use machine::shell::known::{Deeds, Kind, Known, look};
use machine::shell::{Reading, Word, read};
use serde_json::Value;

const HOSTILE: &str = include_str!("../../../../corpus/shell.jsonl");
const ORDINARY: &str = include_str!("../../../../corpus/shell-benign.jsonl");

/// The cases of a corpus file as id, policy and text.
fn cases(file: &str) -> Vec<(String, String, String)> {
    let text = |case: &Value, key: &str| case[key].as_str().unwrap_or_default().to_owned();
    let lines = file.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines
        .filter(|case| case.get("in").is_some())
        .map(|case| (text(&case, "id"), text(&case, "policy"), filled(&text(&case, "in"))))
        .collect()
}

fn filled(text: &str) -> String {
    text.replace("{{CANARY}}", "/outside/canary")
        .replace("{{OUTSIDE}}", "/outside")
        .replace("{{SECRET_FILE}}", "/outside/secret")
        .replace("{{WT}}", "/project")
}

/// What every run of a line does, or why that is not known.
fn understood(reading: &Reading) -> Result<Vec<Deeds>, String> {
    if let Some(unclear) = reading.unclear.first() {
        return Err(format!("{}: {}", unclear.why, unclear.text));
    }
    let deeds = reading.runs.iter().map(|run| match look(run) {
        Known::Understood(deeds) => Ok(deeds),
        Known::Unknown(why) => Err(why),
    });
    deeds.collect()
}

/// Whether a line only looks, below the folder, and writes nothing.
fn only_looks(text: &str) -> bool {
    let reading = read(text);
    let Ok(all) = understood(&reading) else { return false };
    let outside = |word: &Word| word.plain().is_none_or(|text| text.starts_with("/outside"));
    all.iter().all(|deeds| deeds.kind == Kind::Look && !deeds.reads.iter().any(outside))
        && reading
            .runs
            .iter()
            .all(|run| !run.redirects.iter().any(|redirect| outside(&redirect.target)))
}

#[test]
fn no_hostile_line_of_the_corpus_only_looks() {
    let hostile = cases(HOSTILE);
    assert!(hostile.len() > 100);
    let seen: Vec<_> = hostile
        .iter()
        .filter(|(_, policy, _)| policy != "allow-all-in-sandbox" && only_looks_case(policy))
        .filter(|(_, _, text)| only_looks(text))
        .collect();
    assert!(seen.is_empty(), "{seen:#?}");
}

fn only_looks_case(policy: &str) -> bool {
    matches!(policy, "readonly" | "readonly-deny-secret" | "dev" | "deny-touch")
}

#[test]
fn every_hostile_line_that_runs_touch_names_it_or_is_unclear() {
    for (id, policy, text) in cases(HOSTILE).iter().filter(|(_, policy, _)| policy == "deny-touch")
    {
        let reading = read(text);
        let named = reading
            .runs
            .iter()
            .any(|run| run.argv.first().is_some_and(|word| word.text().ends_with("touch")));
        assert!(named || !reading.unclear.is_empty(), "{id} {policy} {text}: {reading:#?}");
    }
}

#[test]
fn every_ordinary_line_of_the_corpus_is_understood() {
    let ordinary = cases(ORDINARY);
    assert!(ordinary.len() > 30);
    let missed: Vec<_> = ordinary
        .iter()
        .filter_map(|(id, _, text)| understood(&read(text)).err().map(|why| (id, text, why)))
        .collect();
    assert!(missed.is_empty(), "{missed:#?}");
}
