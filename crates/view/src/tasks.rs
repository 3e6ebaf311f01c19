//! The list of tasks, one row each.

use machine::time::Timestamp;
use serde_json::Value;

use crate::{Line, Tone, spend, text};

/// One task of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Its id.
    pub id: String,
    /// How it stands, in a word or two.
    pub standing: String,
    /// How that is meant.
    pub tone: Tone,
    /// Who decides.
    pub driver: String,
    /// Decisions so far.
    pub turns: u64,
    /// When something last happened.
    pub updated: Timestamp,
    /// What is to be achieved.
    pub goal: String,
}

impl Row {
    /// Reads a stored summary. A task whose process died while it could go on is `interrupted`.
    pub fn from_summary(summary: &Value, driven: bool) -> Row {
        let said = |key: &str| summary[key].as_str().unwrap_or_default().to_owned();
        let (standing, tone) = match (said("outcome").as_str(), said("phase").as_str()) {
            ("verified", _) if summary["integrated"].is_object() => {
                ("integrated".to_owned(), Tone::Good)
            }
            ("verified" | "completed", _) => (said("outcome"), Tone::Good),
            ("budget_exhausted", _) => ("out of budget".to_owned(), Tone::Bad),
            ("failed" | "stuck", _) => (said("outcome"), Tone::Bad),
            ("", "waiting") => ("waiting".to_owned(), Tone::Ask),
            ("", "paused") => ("paused".to_owned(), Tone::Ask),
            ("", "working") if driven => ("working".to_owned(), Tone::Strong),
            ("", "working" | "idle") if summary["interrupted"] == true => {
                ("interrupted".to_owned(), Tone::Bad)
            }
            ("", "working" | "idle") => ("at rest".to_owned(), Tone::Ask),
            ("", phase) => (text::visible(phase), Tone::Plain),
            (outcome, _) => (text::visible(outcome), Tone::Plain),
        };
        Row {
            id: said("id"),
            standing,
            tone,
            driver: text::named(
                &said("driver"),
                [&summary["agent"].as_str().map(str::to_owned), &None],
            ),
            turns: summary["turns"].as_u64().unwrap_or(0),
            updated: Timestamp(summary["updated"].as_i64().unwrap_or(0)),
            goal: match summary["race"]["number"].as_u64() {
                Some(number) => format!(
                    "[race {} {number}/{}] {}",
                    summary["race"]["race"].as_str().unwrap_or_default(),
                    summary["race"]["racers"].as_array().map_or(0, Vec::len),
                    said("goal")
                ),
                None => said("goal"),
            },
        }
    }
}

/// The rows as a table, at most `width` columns wide.
pub fn table(rows: &[Row], now: Timestamp, width: usize) -> Vec<Line> {
    let cells: Vec<[String; 5]> = rows
        .iter()
        .map(|row| {
            [
                text::visible(&row.id),
                row.standing.clone(),
                text::visible(&row.driver),
                row.turns.to_string(),
                age(now.since(row.updated).0),
            ]
        })
        .collect();
    let head = ["ID", "STANDING", "DRIVER", "TURNS", "AGE"];
    let widths: Vec<usize> = head
        .iter()
        .enumerate()
        .map(|(i, title)| {
            cells.iter().map(|row| row[i].chars().count()).chain([title.len()]).max().unwrap_or(0)
        })
        .collect();
    let line = |cells: &[String], goal: &str| {
        let mut text = String::new();
        for (cell, width) in cells.iter().zip(&widths) {
            text.push_str(&format!("{cell:width$}  "));
        }
        let left = width.saturating_sub(text.chars().count()).max(16);
        text + &text::fitting(goal, left)
    };
    let mut lines = vec![Line::new(Tone::Faint, line(&head.map(str::to_owned), "GOAL"))];
    lines.extend(
        rows.iter().zip(&cells).map(|(row, cells)| Line::new(row.tone, line(cells, &row.goal))),
    );
    lines
}

/// How long ago, in one unit.
fn age(millis: u64) -> String {
    match millis / 1000 {
        0 => "now".to_owned(),
        seconds @ 1..60 => format!("{seconds}s"),
        seconds @ 60..3600 => format!("{}m", seconds / 60),
        seconds @ 3600..172_800 => format!("{}h", seconds / 3600),
        seconds => format!("{}d", seconds / 86_400),
    }
}

/// How long ago, in words.
pub fn ago(millis: u64) -> String {
    if millis < 1000 { "just now".to_owned() } else { format!("{} ago", spend::duration(millis)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_row_with_wide_characters_fits_the_width() {
        let summary =
            json!({"id": "k3v9a2", "phase": "idle", "driver": "user", "goal": "目標".repeat(50)});
        let shown = crate::join(&table(&[Row::from_summary(&summary, false)], Timestamp(0), 60));
        let row = shown.lines().last().unwrap();
        let columns: usize = row.chars().map(|c| if c < '\u{1100}' { 1 } else { 2 }).sum();
        assert!(columns <= 60, "{columns}: {row}");
    }

    #[test]
    fn a_list_shows_how_each_task_stands() {
        let row = |id: &str, outcome: Option<&str>, phase: &str, driven| {
            let summary = json!({"id": id, "outcome": outcome, "phase": phase, "driver": "workflow", "turns": 12,
                "updated": 1_000_000, "interrupted": id == "q2", "goal": "make the numbers\nadd up, all of them, every single one of them"});
            Row::from_summary(&summary, driven)
        };
        let rows = [
            row("k3v9a2", Some("verified"), "finished", false),
            row("p0", Some("budget_exhausted"), "finished", false),
            row("q1", None, "working", true),
            row("q2", None, "working", false),
            row("q3", None, "waiting", false),
            row("q4", None, "idle", false),
        ];
        insta::assert_snapshot!(crate::join(&table(&rows, Timestamp(1_300_000), 80)), @r"
        ID      STANDING       DRIVER    TURNS  AGE  GOAL
        k3v9a2  verified       workflow  12     5m   make the numbers\nadd up, all of t…
        p0      out of budget  workflow  12     5m   make the numbers\nadd up, all of t…
        q1      working        workflow  12     5m   make the numbers\nadd up, all of t…
        q2      interrupted    workflow  12     5m   make the numbers\nadd up, all of t…
        q3      waiting        workflow  12     5m   make the numbers\nadd up, all of t…
        q4      at rest        workflow  12     5m   make the numbers\nadd up, all of t…
        ");
    }
}
