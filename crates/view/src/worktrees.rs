//! The worktrees of tasks: a line each, with what is to be known before one is taken away.

use crate::{Line, Tone, text};

/// One worktree of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The task.
    pub task: String,
    /// How the task stands, in a word or two.
    pub standing: String,
    /// How many bytes the folder takes; none if it is gone.
    pub size: Option<u64>,
    /// How many bytes the checkpoints take.
    pub checkpoints: u64,
    /// Whether it can be taken away, and why not.
    pub goes: Result<(), String>,
    /// Commits of its branch that are in no other.
    pub ahead: u64,
    /// What was to be achieved.
    pub goal: String,
}

/// The rows as a table, at most `width` characters wide.
pub fn table(rows: &[Row], width: usize) -> Vec<Line> {
    let mut lines = Vec::new();
    let standing = rows.iter().map(|row| row.standing.chars().count()).max().unwrap_or(0);
    for row in rows {
        let folder = row.size.map_or("gone".to_owned(), bytes);
        let kept = bytes(row.checkpoints);
        let ahead = match row.ahead {
            0 => String::new(),
            count => format!("  {count} {} only here", text::plural(count as usize, "commit")),
        };
        let head = format!(
            "{}  {:standing$}  {folder:>9}  checkpoints {kept:>9}{ahead}",
            row.task, row.standing
        );
        let left = width.saturating_sub(head.chars().count() + 2).max(16);
        lines.push(Line::plain(format!("{head}  {}", text::short(&row.goal, left))));
        lines.push(match &row.goes {
            Ok(()) => Line::new(Tone::Good, "    can be taken away: nothing is lost by it"),
            Err(reason) => Line::new(Tone::Faint, format!("    stays: {}", text::visible(reason))),
        });
    }
    lines
}

/// A number of bytes for a person.
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if count < 1024 {
        return format!("{count} B");
    }
    // One digit after the point, in whole numbers.
    let mut tenths = count.saturating_mul(10) / 1024;
    for unit in UNITS {
        if tenths < 10_240 || unit == "TiB" {
            return format!("{}.{} {unit}", tenths / 10, tenths % 10);
        }
        tenths /= 1024;
    }
    format!("{count} B")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_short() {
        let shown = [0, 1023, 1024, 1536, 5 << 20, 3 << 30, 1 << 50].map(bytes);
        assert_eq!(
            shown,
            ["0 B", "1023 B", "1.0 KiB", "1.5 KiB", "5.0 MiB", "3.0 GiB", "1024.0 TiB"]
        );
    }

    #[test]
    fn a_row_says_whether_its_worktree_can_go_and_why_not() {
        let row = |goes, size| Row {
            task: "7k3".to_owned(),
            standing: "verified".to_owned(),
            size,
            checkpoints: 2048,
            goes,
            ahead: 2,
            goal: "mend it".to_owned(),
        };
        let rows = [row(Ok(()), Some(1024)), row(Err("it is \u{7}busy".to_owned()), None)];
        assert_eq!(
            crate::join(&table(&rows, 100)),
            "7k3  verified    1.0 KiB  checkpoints   2.0 KiB  2 commits only here  mend it\n    \
             can be taken away: nothing is lost by it\n\
             7k3  verified       gone  checkpoints   2.0 KiB  2 commits only here  mend it\n    \
             stays: it is \\x07busy\n"
        );
    }
}
