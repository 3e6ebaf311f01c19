//! What a task changed: as a patch, by file with the lines that differ, or by name alone. Content comes from workers, so
//! everything that could steer a terminal is shown as what it is.

use crate::{Line, Tone, text};

/// The widest bar of a summary.
const BAR: usize = 30;

/// One path that differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Path {
    /// The path; what is not text in it is replaced.
    pub path: String,
    /// What happened to it, in a word: added, removed or changed.
    pub how: &'static str,
    /// Lines added and removed; none for what is not text.
    pub lines: Option<(u64, u64)>,
    /// Whether it is a file: folders and modes have no lines.
    pub is_file: bool,
}

/// A patch for a terminal. Where the output is no terminal the bytes themselves are printed, so that they apply.
pub fn patch(bytes: &[u8]) -> Vec<Line> {
    let shown = String::from_utf8_lossy(bytes);
    let mut lines = Vec::new();
    // Of a binary file a terminal shows the name; what it is made of helps nobody.
    let mut in_binary = false;
    for line in shown.split_inclusive('\n').map(|line| line.strip_suffix('\n').unwrap_or(line)) {
        if line.starts_with("diff --git ") {
            in_binary = false;
        }
        if in_binary {
            continue;
        }
        if line == "GIT binary patch" {
            in_binary = true;
            lines.push(Line::new(Tone::Faint, "(binary; --stat counts, a pipe gets it whole)"));
            continue;
        }
        let tone = match line.as_bytes().first() {
            _ if line.starts_with("diff --git ") => Tone::Strong,
            _ if line.starts_with("+++ ") || line.starts_with("--- ") => Tone::Strong,
            Some(b'+') => Tone::Good,
            Some(b'-') => Tone::Bad,
            Some(b'@') => Tone::Faint,
            _ => Tone::Plain,
        };
        lines.push(Line::new(tone, text::visible(&line.replace('\t', "    "))));
    }
    lines
}

/// One line for each path and one for all.
pub fn stat(paths: &[Path]) -> Vec<Line> {
    let names: Vec<String> = paths.iter().map(|path| text::visible(&path.path)).collect();
    let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0).min(60);
    let counts = |path: &Path| path.lines.map_or(0, |(added, removed)| added + removed);
    let most = paths.iter().map(counts).max().unwrap_or(0).max(1);
    let mut lines = Vec::new();
    for (path, name) in paths.iter().zip(&names) {
        let what = match path.lines {
            Some((added, removed)) => {
                let bar = bar(added, removed, most);
                format!("{:>6} {bar}", added + removed)
            }
            None if path.is_file => format!("{:>6} binary", ""),
            None => format!("{:>6} folder or mode", ""),
        };
        lines.push(Line::plain(format!("{} {name:width$} {what}", letter(path.how))));
    }
    lines.push(sum(paths));
    lines
}

/// How many paths and lines differ.
pub fn sum(paths: &[Path]) -> Line {
    let (added, removed) = lines_of(paths);
    Line::new(
        Tone::Strong,
        match paths.len() {
            0 => "nothing differs".to_owned(),
            count => format!(
                "{count} {}, {added} {} added, {removed} removed",
                if count == 1 { "path differs" } else { "paths differ" },
                text::plural(usize::try_from(added).unwrap_or(2), "line")
            ),
        },
    )
}

/// Lines added and removed, together.
pub fn lines_of(paths: &[Path]) -> (u64, u64) {
    let counted = paths.iter().filter_map(|path| path.lines);
    counted.fold((0, 0), |(a, r), (added, removed)| (a + added, r + removed))
}

/// One line for each path.
pub fn names(paths: &[Path]) -> Vec<Line> {
    let line = |path: &Path| {
        let tone = match path.how {
            "added" => Tone::Good,
            "removed" => Tone::Bad,
            _ => Tone::Plain,
        };
        Line::new(tone, format!("{} {}", letter(path.how), text::visible(&path.path)))
    };
    paths.iter().map(line).collect()
}

fn letter(how: &str) -> char {
    match how {
        "added" => 'A',
        "removed" => 'D',
        _ => 'M',
    }
}

fn bar(added: u64, removed: u64, most: u64) -> String {
    let scaled = |count: u64| {
        let wide = count.saturating_mul(BAR as u64).div_ceil(most.max(BAR as u64));
        usize::try_from(wide).unwrap_or(BAR).min(BAR)
    };
    format!("{}{}", "+".repeat(scaled(added)), "-".repeat(scaled(removed)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_cannot_steer_the_terminal_and_binary_files_are_named() {
        let patch = super::patch(
            b"diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+\x1b[2Jb\r\n\
              diff --git a/y b/y\nGIT binary patch\nliteral 3\nKcmZ\n\ndiff --git a/z b/z\n+last",
        );
        let shown: Vec<&str> = patch.iter().map(|line| line.text.as_str()).collect();
        assert_eq!(
            shown,
            [
                "diff --git a/x b/x",
                "--- a/x",
                "+++ b/x",
                "@@ -1 +1 @@",
                "-a",
                "+\\x1b[2Jb\\r",
                "diff --git a/y b/y",
                "(binary; --stat counts, a pipe gets it whole)",
                "diff --git a/z b/z",
                "+last",
            ]
        );
    }

    #[test]
    fn a_summary_has_a_line_for_each_path_and_one_for_all() {
        let path = |path: &str, how, lines| Path {
            path: path.to_owned(),
            how,
            lines,
            is_file: !path.ends_with('/'),
        };
        let paths = [
            path("a", "changed", Some((3, 1))),
            path("pic", "added", None),
            path("empty/", "removed", None),
        ];
        assert_eq!(
            crate::join(&stat(&paths)),
            "M a           4 +++-\nA pic           binary\nD empty/        folder or mode\n\
             3 paths differ, 3 lines added, 1 removed\n"
        );
        assert_eq!(crate::join(&names(&paths)), "M a\nA pic\nD empty/\n");
        assert_eq!(sum(&[]).text, "nothing differs");
    }
}
