//! A receipt for a person, on one screen, and what came of verifying one. Everything in a receipt may be another's word,
//! so all of it is shown with visible characters only.

use machine::policy::budget::Budget;
use machine::policy::sandbox::Level;
use machine::receipt::{Again, Checked, Conclusion, Held, How, Receipt, Record, Report};
use machine::verdict::{Checkpoint, Place};
use serde_json::{Value, json};

use crate::approvals::{Next, next_lines};
use crate::{Line, Tone, spend, text};

/// Criteria that are shown one by one; more than this do not fit a screen.
const SHOWN: usize = 12;
/// Lines of evidence of a criterion that does not hold.
const EVIDENCE: usize = 6;
/// Digits of a hash that people tell apart.
const DIGITS: usize = 12;

/// The screen; `finished` is the moment of the verdict in words.
pub fn lines(receipt: &Receipt, finished: &str) -> Vec<Line> {
    let goal = text::short(&receipt.goal, 200);
    let mut lines = vec![
        Line::new(Tone::Strong, format!("receipt {} of task {}", receipt.short(), receipt.task)),
        Line::plain(format!("goal       {goal}")),
        Line::new(
            Tone::Good,
            format!("verified   {finished}, driven by {}", text::visible(&receipt.driver)),
        ),
    ];
    let count = receipt.criteria.len();
    lines.push(Line::plain(format!(
        "criteria   {count} frozen at the start, digest {}",
        cut(&receipt.criteria_sha256)
    )));
    lines.extend(receipt.results.iter().take(SHOWN).map(result));
    if count > SHOWN {
        let more = count - SHOWN;
        lines.push(Line::new(Tone::Faint, format!("  … and {more} more; --json shows them all")));
    }
    lines.extend(trees(receipt));
    lines.extend(place(receipt));
    lines.push(Line::plain(format!(
        "spent      {}",
        spend::line(&receipt.spend.spend(), &Budget::default())
    )));
    lines.push(Line::plain(format!(
        "journal    record {}, chain {}",
        receipt.journal.record,
        text::visible(&receipt.journal.chain)
    )));
    lines.push(Line::plain(format!("id         {}", text::visible(&receipt.id))));
    lines
}

/// What to type next after a receipt was shown.
pub fn next(receipt: &Receipt) -> Vec<Line> {
    let id = &receipt.task;
    let mut lines = vec![Line::new(Tone::Strong, "next")];
    lines.extend(next_lines(&[
        Next::new(format!("drivetrain verify {id}"), "run the criteria again on the same tree"),
        Next::new(
            format!("drivetrain receipt {id} -o FILE"),
            "write it down, for somebody else to verify",
        ),
    ]));
    lines
}

fn result(result: &Checked) -> Line {
    let mut facts: Vec<String> = Vec::new();
    facts.extend(result.exit.map(|code| format!("exit {code}")));
    facts.extend(result.on_base.map(|code| format!("exit {code} on the base")));
    facts.extend(result.runs.map(|runs| format!("{runs} times")));
    facts.push(spend::duration(result.millis));
    facts.extend(result.output.as_ref().map(|digest| format!("output {}", cut(digest))));
    let (tone, word) = match (result.passed, result.advisory) {
        (true, false) => (Tone::Good, "passed"),
        (true, true) => (Tone::Good, "passed, advisory"),
        // A receipt with any other failure cannot be read.
        (false, _) => (Tone::Ask, "did not pass, advisory"),
    };
    let title = text::short(&result.title, 200);
    Line::new(tone, format!("  {word}: {title} ({})", facts.join(", ")))
}

fn trees(receipt: &Receipt) -> Vec<Line> {
    let tree = |point: &Option<Checkpoint>| match point {
        Some(point) if !point.tree.is_empty() => format!("tree {}", cut(&point.tree)),
        Some(point) => format!("checkpoint {}", cut(&point.name)),
        None => "not kept".to_owned(),
    };
    let commit = receipt.commit.as_ref().map(|commit| format!(", commit {}", cut(commit)));
    let paths = usize::try_from(receipt.touched).unwrap_or(usize::MAX);
    let rows = usize::try_from(receipt.diff_lines).unwrap_or(usize::MAX);
    let touched = format!(
        ", {paths} {} touched, {rows} {}",
        text::plural(paths, "path"),
        text::plural(rows, "line")
    );
    let below = match receipt.prefix.as_str() {
        "" => String::new(),
        prefix => format!(", in the folder {}", text::visible(prefix)),
    };
    vec![
        Line::plain(format!("base       {}{}", tree(&receipt.base), commit.unwrap_or_default())),
        Line::plain(format!("result     {}{touched}{below}", tree(&receipt.result))),
    ]
}

fn place(receipt: &Receipt) -> Vec<Line> {
    let ran = match receipt.place {
        Place::CleanCheckout => {
            Line::plain("ran in     a clean checkout of the result, out of the worker's reach")
        }
        Place::Workspace => Line::new(
            Tone::Ask,
            "ran in     the folder that the worker worked in: whatever lay there took part",
        ),
    };
    let on = &receipt.environment;
    let parts = [&on.drivetrain, &on.system, &on.processor].map(|part| text::short(part, 80));
    let known: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    let on_what = match known.as_slice() {
        [] => "not noted".to_owned(),
        [version, rest @ ..] => [&[format!("drivetrain {version}")][..], rest].concat().join(", "),
    };
    let walls = text::short(&receipt.sandbox, 200);
    let tone =
        if on.sandbox == Level::Off || walls.starts_with("off") { Tone::Ask } else { Tone::Plain };
    let mut lines = vec![ran, Line::plain(format!("ran on     {on_what}"))];
    if !receipt.setup.is_empty() {
        lines.push(Line::plain(format!(
            "set up by  {}",
            text::short(&receipt.setup.join("; "), 200)
        )));
    }
    if !receipt.share.is_empty() {
        let shared = text::short(&receipt.share.join(" "), 200);
        lines.push(Line::new(Tone::Ask, format!("shared     {shared} of the user's own checkout")));
    }
    lines.push(Line::new(tone, format!("sandbox    {walls}")));
    lines
}

/// What came of verifying, for a person.
pub fn report(report: &Report) -> Vec<Line> {
    let receipt = &report.receipt;
    let goal = text::short(&receipt.goal, 120);
    let mut lines = vec![Line::new(
        Tone::Strong,
        format!("receipt {} of task {}: {goal}", receipt.short(), receipt.task),
    )];
    lines.push(Line::new(Tone::Good, "  the receipt is whole: its digest is that of its content"));
    lines.extend(record(&report.record, receipt));
    lines.extend(again(&report.again));
    lines.push(conclusion(report));
    lines
}

fn record(record: &Record, receipt: &Receipt) -> Vec<Line> {
    let at = receipt.journal.record;
    match record {
        Record::Agrees => vec![Line::new(
            Tone::Good,
            format!(
                "  the journal agrees: record {at} has this verdict, these criteria and this chain"
            ),
        )],
        Record::Unknown => vec![Line::new(
            Tone::Ask,
            "  the journal here has no such task: who wrote the receipt cannot be told, only whether it holds",
        )],
        Record::NotVerified(standing) => vec![Line::new(
            Tone::Bad,
            format!("  the journal has no such verdict: {}", text::short(standing, 200)),
        )],
        Record::Contradicted(differences) => {
            let mut lines =
                vec![Line::new(Tone::Bad, "  the journal says something else than the receipt:")];
            lines.extend(differences.iter().take(SHOWN).map(|found| {
                let said = |value: &str| match value {
                    "" => "nothing".to_owned(),
                    value => text::short(value, 60),
                };
                let (here, there) = (said(&found.here), said(&found.there));
                let field = text::short(&found.field, 60);
                Line::new(Tone::Bad, format!("    {field}: {here}, and the journal has {there}"))
            }));
            lines
        }
    }
}

fn again(again: &Again) -> Vec<Line> {
    match again {
        Again::Ran { found, held } => {
            let mut lines = vec![Line::plain(format!(
                "  run again, on the same tree from {}:",
                text::short(found, 200)
            ))];
            lines.extend(held.iter().flat_map(criterion));
            lines
        }
        Again::Impossible(reason) => {
            let mut lines = text::lines(reason).into_iter();
            let first = lines.next().unwrap_or_default();
            let first = Line::new(Tone::Ask, format!("  not run again: {first}"));
            [first]
                .into_iter()
                .chain(lines.map(|line| Line::plain(format!("    {line}"))))
                .collect()
        }
        Again::Refused => vec![Line::plain("  nothing was run")],
    }
}

fn criterion(held: &Held) -> Vec<Line> {
    let title = text::short(&held.title, 200);
    let mut facts: Vec<String> = Vec::new();
    facts.extend(held.exit.map(|code| format!("exit {code}")));
    facts.push(spend::duration(held.millis));
    facts.extend(held.same_output.map(|same| match same {
        true => "same output".to_owned(),
        false => "other output".to_owned(),
    }));
    let facts = facts.join(", ");
    let (tone, words) = match held.how {
        How::Holds => (Tone::Good, format!("holds: {title} ({facts})")),
        How::Fails => (Tone::Bad, format!("does not hold: {title} ({facts})")),
        How::FailsAdvisory => {
            (Tone::Ask, format!("does not hold, and decides nothing: {title} ({facts})"))
        }
        How::NotRun => {
            let why = text::short(&held.evidence, 80);
            (Tone::Faint, format!("not run again, as {why}: {title}"))
        }
    };
    let mut lines = vec![Line::new(tone, format!("    {words}"))];
    if matches!(held.how, How::Fails | How::FailsAdvisory) {
        let shown = text::tail(&held.evidence, EVIDENCE);
        lines.extend(
            shown.into_iter().map(|line| Line::new(Tone::Faint, format!("      | {line}"))),
        );
    }
    lines
}

fn conclusion(report: &Report) -> Line {
    let id = report.receipt.short();
    match report.conclusion() {
        Conclusion::Holds => Line::new(Tone::Good, format!("holds: receipt {id}")),
        Conclusion::DoesNotHold => Line::new(Tone::Bad, format!("does not hold: receipt {id}")),
        Conclusion::Forged => {
            Line::new(Tone::Bad, format!("forged: receipt {id} is not what the journal recorded"))
        }
        Conclusion::CannotBeChecked => {
            Line::new(Tone::Ask, format!("cannot be checked here: receipt {id}"))
        }
    }
}

/// What came of verifying, for a program.
pub fn report_json(report: &Report) -> Value {
    let conclusion = report.conclusion();
    let record = match &report.record {
        Record::Agrees => json!({ "standing": "agrees" }),
        Record::Unknown => json!({ "standing": "unknown" }),
        Record::NotVerified(reason) => json!({ "standing": "not_verified", "reason": reason }),
        Record::Contradicted(differences) => {
            let differences: Vec<Value> = differences
                .iter()
                .map(|found| {
                    json!({ "field": found.field, "receipt": found.here, "journal": found.there })
                })
                .collect();
            json!({ "standing": "contradicted", "differences": differences })
        }
    };
    let again = match &report.again {
        Again::Ran { found, held } => {
            json!({ "standing": "ran", "tree_from": found, "criteria": held })
        }
        Again::Impossible(reason) => json!({ "standing": "impossible", "reason": reason }),
        Again::Refused => json!({ "standing": "refused" }),
    };
    json!({
        "v": 1,
        "receipt": report.receipt.id,
        "task": report.receipt.task,
        "conclusion": conclusion.word(),
        "exit_code": conclusion.exit_code(),
        "journal": record,
        "again": again,
    })
}

fn cut(hash: &str) -> String {
    let shown: String = hash.chars().take(DIGITS).collect();
    text::visible(&shown)
}
