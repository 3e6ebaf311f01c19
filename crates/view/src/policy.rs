//! What a policy says, for a person: of one call, of its own examples, and of itself.

use machine::file::policy::{Checked, Combined};
use machine::policy::permission::{Decide, Judgement, PartJudgement, Policy};

use crate::{Line, Tone, text};

/// What would become of a call: the decision, who decides, and the word on each part.
pub fn explained(
    call: &str,
    judgement: &Judgement,
    parts: &[PartJudgement],
    policy: &Policy,
) -> Vec<Line> {
    let word = match (judgement.decide, judgement.nobody) {
        (Decide::Deny, true) => "deny: a person would be asked, but nobody attends".to_owned(),
        (decide, _) => decide.word().to_owned(),
    };
    let field = |name: &str, value: &str| Line::plain(format!("{name:9} {}", text::visible(value)));
    let mut lines = vec![
        Line::new(Tone::Strong, text::visible(call)),
        Line::new(tone(judgement.decide), format!("{:9} {word}", "decision")),
        field("by", &judgement.by),
        field("layer", judgement.layer.word()),
    ];
    for (name, value) in [("part", &judgement.part), ("reason", &judgement.reason)] {
        if !value.is_empty() {
            lines.push(field(name, value));
        }
    }
    if judgement.decide == Decide::Ask {
        lines.push(field("question", &format!("may it run? {}", judgement.said())));
    }
    if parts.len() > 1 {
        lines.push(Line::empty());
        lines.push(Line::new(Tone::Strong, text::counted(parts.len(), "part")));
        lines.extend(parts.iter().flat_map(part_lines));
    }
    lines.push(Line::empty());
    let profile = policy.profile.map_or("none", |profile| profile.word());
    let rules = text::counted(policy.rules.len(), "rule");
    let unattended = policy.unattended.word();
    let said = format!("{rules}, profile {profile}, unattended {unattended}");
    lines.push(Line::new(Tone::Faint, format!("{:9} {said}", "policy")));
    lines
}

fn part_lines(part: &PartJudgement) -> [Line; 2] {
    let shown = if part.part.is_empty() { "the call itself" } else { &part.part };
    let reason = if part.reason.is_empty() { String::new() } else { format!(": {}", part.reason) };
    let by = text::visible(&format!("{}{reason}", part.by));
    [
        Line::new(
            tone(part.decide),
            format!("  {:6} {}", part.decide.word(), text::visible(shown)),
        ),
        Line::new(Tone::Faint, format!("         {by}")),
    ]
}

/// How the examples of a policy came out, one line each, the sum last.
pub fn tested(examples: &[Checked]) -> Vec<Line> {
    let mut lines = Vec::new();
    for example in examples {
        let (decided, expected) = (example.judgement.meant(), example.expected);
        let (tone, word) = match example.error {
            None => (Tone::Good, "ok  "),
            Some(_) => (Tone::Bad, "FAIL"),
        };
        let differs = if decided == expected {
            String::new()
        } else {
            format!(" instead of {}", expected.word())
        };
        let place = format!("{}:{}", example.file, example.line);
        let shown = text::visible(&example.text);
        let (place, by) = (text::visible(&place), text::visible(&example.judgement.by));
        let said = format!("{word} {place}: {shown}: {}{differs} by {by}", decided.word());
        lines.push(Line::new(tone, said));
    }
    let failed = examples.iter().filter(|example| example.error.is_some()).count();
    let tone = if failed == 0 { Tone::Good } else { Tone::Bad };
    let passed = examples.len() - failed;
    lines.push(Line::new(tone, format!("{passed} passed, {failed} failed")));
    lines
}

/// What was found: the files, the profile, and what is odd.
pub fn found(combined: &Combined) -> Vec<Line> {
    let mut lines = Vec::new();
    for file in &combined.files {
        let rules = text::counted(file.rules, "rule");
        let examples = text::counted(file.examples, "example");
        let shown = text::visible(&file.file);
        lines.push(Line::new(Tone::Good, format!("ok          {shown}: {rules}, {examples}")));
    }
    if combined.files.is_empty() {
        let said = "no file     the profile alone decides; drivetrain init writes a policy";
        lines.push(Line::plain(said));
    }
    let profile = combined.policy.profile.map_or("none", |profile| profile.word());
    lines.push(Line::plain(format!("profile     {profile}")));
    lines.push(Line::plain(format!("unattended  {}", combined.policy.unattended.word())));
    let warnings = combined.warnings.iter();
    lines.extend(
        warnings.map(|text| Line::new(Tone::Ask, format!("warning     {}", text::visible(text)))),
    );
    lines
}

fn tone(decide: Decide) -> Tone {
    match decide {
        Decide::Allow => Tone::Good,
        Decide::Ask => Tone::Ask,
        Decide::Deny => Tone::Bad,
    }
}
