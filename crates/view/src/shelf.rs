//! Workflows, prompts and agents as files, for a person: which there are, where each comes from, what it hides.

use machine::file::lookup::{Kind, Origin};

use crate::{Line, Tone, text};

/// One file or built-in text of a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layer {
    /// Where it comes from.
    pub origin: Origin,
    /// What a person calls it.
    pub file: String,
    /// Whether it counts without being named.
    pub is_trusted: bool,
    /// Whether it is the one that is taken.
    pub is_used: bool,
}

/// One name with all that have it, nearest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The name.
    pub name: String,
    /// What it says of itself.
    pub description: String,
    /// Whether the one that is taken has mistakes.
    pub is_wrong: bool,
    /// All of that name.
    pub layers: Vec<Layer>,
}

/// All names of a kind.
pub fn list(kind: Kind, rows: &[Row]) -> Vec<Line> {
    if rows.is_empty() {
        let word = kind.word();
        return vec![Line::new(
            Tone::Faint,
            format!("no {word} here; drivetrain {word} new NAME begins one"),
        )];
    }
    let width = rows.iter().map(|row| row.name.chars().count()).max().unwrap_or(0).min(30);
    rows.iter().map(|row| row_line(row, width)).collect()
}

fn row_line(row: &Row, width: usize) -> Line {
    let used = row.layers.iter().find(|layer| layer.is_used);
    let origin = used.map_or("", |layer| layer.origin.word());
    let mut notes = Vec::new();
    if row.is_wrong {
        notes.push("has mistakes".to_owned());
    }
    if used.is_some_and(|layer| !layer.is_trusted) {
        notes.push("not trusted".to_owned());
    }
    let hidden = row.layers.iter().filter(|layer| !layer.is_used);
    for layer in hidden {
        notes.push(match (layer.origin, layer.is_trusted) {
            (Origin::Project, false) => "the project's own is not trusted".to_owned(),
            (origin, _) => format!("in place of {}", of(origin)),
        });
    }
    notes.dedup();
    let notes = match notes.is_empty() {
        true => String::new(),
        false => format!("  ({})", notes.join(", ")),
    };
    let tone = if row.is_wrong { Tone::Bad } else { Tone::Plain };
    let line = format!(
        "{:width$}  {origin:8}  {}{notes}",
        text::visible(&row.name),
        text::visible(&text::short(&row.description, 60)),
    );
    Line::new(tone, line.trim_end().to_owned())
}

fn of(origin: Origin) -> &'static str {
    match origin {
        Origin::Project => "one further up in the project",
        Origin::User => "your own",
        Origin::BuiltIn => "the built-in one",
    }
}

/// One of them: where it comes from, what it hides, what it is made of, and its text.
pub fn shown(
    kind: Kind,
    name: &str,
    layers: &[Layer],
    facts: &[(&str, String)],
    parts: &[(String, String, String)],
    source: &str,
) -> Vec<Line> {
    let field =
        |name: &str, value: &str| Line::plain(format!("{name:12} {}", text::visible(value)));
    let mut lines =
        vec![Line::new(Tone::Strong, format!("{} {}", kind.word(), text::visible(name)))];
    for (fact, value) in facts.iter().filter(|(_, value)| !value.is_empty()) {
        lines.push(field(fact, value));
    }
    for layer in layers.iter().filter(|layer| layer.is_used) {
        lines.push(field("from", &format!("{} {}", layer.origin.word(), layer.file)));
        if !layer.is_trusted {
            lines.push(Line::new(
                Tone::Ask,
                "not trusted: it is used only where it is named; drivetrain trust",
            ));
        }
    }
    for layer in layers.iter().filter(|layer| !layer.is_used) {
        match (layer.origin, layer.is_trusted) {
            (Origin::Project, false) => lines.push(Line::new(
                Tone::Ask,
                format!(
                    "{:12} {} until it is trusted: drivetrain trust",
                    "left out",
                    text::visible(&layer.file)
                ),
            )),
            (origin, _) => {
                lines.push(field("overrides", &format!("{} {}", origin.word(), layer.file)))
            }
        }
    }
    for (kind, name, file) in parts {
        let named = if name.is_empty() { kind.clone() } else { format!("{kind} {name}") };
        lines.push(field("uses", &format!("{named} from {file}")));
    }
    lines.push(Line::empty());
    lines.extend(source.lines().map(|line| Line::plain(text::visible(line))));
    lines
}

/// That nothing is wrong.
pub fn checked(kind: Kind, count: usize) -> Vec<Line> {
    let word = kind.word();
    let line = match count {
        0 => format!("no {word} here"),
        1 => format!("1 {word} is right"),
        many => format!("{many} {word}s are right"),
    };
    vec![Line::new(Tone::Good, line)]
}

/// That one was begun, and what to do with it.
pub fn begun(kind: Kind, name: &str, path: &str) -> Vec<Line> {
    let next = match kind {
        Kind::Workflow => format!("drivetrain workflow run {name}"),
        Kind::Prompt => format!("refer to it as @prompts/{name}"),
        Kind::Agent => format!("drivetrain agent run {name} 'GOAL'"),
    };
    vec![
        Line::new(Tone::Good, format!("written  {}", text::visible(path))),
        Line::plain(format!("next     {next}")),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layer(origin: Origin, is_trusted: bool, is_used: bool) -> Layer {
        Layer { origin, file: format!("{}/a.txt", origin.word()), is_trusted, is_used }
    }

    fn text(lines: &[Line]) -> String {
        lines.iter().map(|line| line.text.as_str()).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn a_list_says_what_hides_what() {
        let row = |name: &str, layers| Row {
            name: name.to_owned(),
            description: "does things".to_owned(),
            is_wrong: false,
            layers,
        };
        let rows = [
            row(
                "own",
                vec![layer(Origin::Project, true, true), layer(Origin::BuiltIn, true, false)],
            ),
            row(
                "strange",
                vec![layer(Origin::Project, false, false), layer(Origin::BuiltIn, true, true)],
            ),
            row("alone", vec![layer(Origin::Project, false, true)]),
        ];
        let shown = text(&list(Kind::Prompt, &rows));
        assert!(
            shown.contains("own      project   does things  (in place of the built-in one)"),
            "{shown}"
        );
        assert!(shown.contains("(the project's own is not trusted)"), "{shown}");
        assert!(shown.contains("(not trusted)"), "{shown}");
        assert!(text(&list(Kind::Workflow, &[])).contains("drivetrain workflow new NAME"));
    }

    #[test]
    fn nothing_in_a_file_steers_the_terminal() {
        let layers = [layer(Origin::Project, true, true), layer(Origin::User, true, false)];
        let lines =
            shown(Kind::Prompt, "a", &layers, &[("version", "1".to_owned())], &[], "x\u{1b}[2J\ny");
        let shown = text(&lines);
        assert!(
            !shown.contains('\u{1b}') && shown.contains("overrides    user user/a.txt"),
            "{shown}"
        );
    }
}
