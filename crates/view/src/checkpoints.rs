//! The checkpoints of a task, one line each.

use machine::time::Timestamp;

use crate::{Line, Tone, spend, text};

/// One checkpoint of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Its place, from 1.
    pub number: usize,
    /// When it was made.
    pub time: Timestamp,
    /// Why.
    pub reason: String,
    /// How many paths differ from the one before; none for the first.
    pub paths: Option<usize>,
    /// Lines added and removed since the one before.
    pub lines: (u64, u64),
    /// What it is to the task, if anything.
    pub mark: Option<&'static str>,
}

/// The rows as a table, at most `width` characters wide.
pub fn table(rows: &[Row], now: Timestamp, width: usize) -> Vec<Line> {
    let cells: Vec<[String; 3]> = rows
        .iter()
        .map(|row| {
            let age = format!("{} ago", spend::duration(now.since(row.time).0 / 1000 * 1000));
            let (added, removed) = row.lines;
            let change = match row.paths {
                None => "the first".to_owned(),
                Some(0) => "nothing".to_owned(),
                Some(count) => {
                    format!("{count} {}, +{added} -{removed}", text::plural(count, "path"))
                }
            };
            [row.number.to_string(), age, change]
        })
        .collect();
    let wide =
        |column: usize| cells.iter().map(|cells| cells[column].chars().count()).max().unwrap_or(0);
    let (number, age, change) = (wide(0), wide(1), wide(2));
    let mut lines = Vec::new();
    for (row, cells) in rows.iter().zip(&cells) {
        let left = width.saturating_sub(number + age + change + 6).max(20);
        let mark = row.mark.map_or(String::new(), |mark| format!("  [{mark}]"));
        let reason = text::short(&row.reason, left.saturating_sub(mark.len()).max(10));
        let tone = if row.mark.is_some() { Tone::Strong } else { Tone::Plain };
        let [n, when, what] = cells;
        lines.push(Line::new(
            tone,
            format!("{n:>number$}  {when:age$}  {what:change$}  {reason}{mark}"),
        ));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_says_when_why_and_how_much_changed() {
        let row = |number, paths, reason: &str, mark| Row {
            number,
            time: Timestamp(1_000),
            reason: reason.to_owned(),
            paths,
            lines: (4, 2),
            mark,
        };
        let rows = [
            row(1, None, "start", Some("base")),
            row(2, Some(2), "handed\u{1b}over", Some("handed over")),
            row(3, Some(0), "before going back", None),
        ];
        assert_eq!(
            crate::join(&table(&rows, Timestamp(61_000), 80)),
            "1  1m ago  the first       start  [base]\n\
             2  1m ago  2 paths, +4 -2  handed\\x1bover  [handed over]\n\
             3  1m ago  nothing         before going back\n"
        );
    }
}
