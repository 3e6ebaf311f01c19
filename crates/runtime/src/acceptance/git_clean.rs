//! The criterion `git_clean`: what is handed over is what the task's branch holds, and the branch builds on the commit
//! that the task began at. Trees are compared; what git's own status would say can be talked into anything.

use std::fmt::Write as _;
use std::path::Path;

use machine::task::CriterionResult;

use super::sides::{Entry, REPOSITORY_INSIDE, Sides};
use super::{Ground, Trouble};
use crate::checkpoint::ChangeKind;

/// How many paths the evidence names.
const MAX_NAMED: usize = 50;
/// The file kind of a link, which git does not convert.
const LINK: &str = "120000";
/// Larger files are not looked into for line ends.
const MAX_COMPARED: usize = 16 * 1024 * 1024;

pub(super) fn check(ground: &Ground<'_>) -> Result<CriterionResult, Trouble> {
    let sides = Sides::of(&ground.context).map_err(Trouble::Failed)?;
    let failed = |evidence| CriterionResult { evidence, ..CriterionResult::default() };
    let repository = &sides.repository;
    let branch = repository.branch.trim_start_matches("refs/heads/").to_owned();
    let tip = repository.tip().map_err(Trouble::Failed)?;
    if !repository.builds_on(&tip, &repository.base).map_err(Trouble::Failed)? {
        return Ok(failed(format!(
            "base_moved: {branch} does not build on {} any more, the commit that the task began at",
            repository.base
        )));
    }
    let tree = repository.tree(&tip).map_err(Trouble::Failed)?;
    let left = uncommitted(&sides, &tree, ground).map_err(Trouble::Failed)?;
    if !left.is_empty() {
        return Ok(failed(report(&branch, &left)));
    }
    let short = tip.get(..10).unwrap_or(&tip);
    let evidence = format!("{branch} at {short} holds exactly what is handed over");
    Ok(CriterionResult { passed: true, evidence, ..CriterionResult::default() })
}

/// What is handed over and not committed, or committed and not handed over.
fn uncommitted(
    sides: &Sides,
    tip: &str,
    ground: &Ground<'_>,
) -> Result<Vec<(String, &'static str)>, String> {
    let entries = sides.entries(tip, &sides.handed_over)?;
    // Checkpoints hold the files of a repository inside, the branch only which commit it is at.
    let inside: Vec<Vec<u8>> = entries
        .iter()
        .filter(|entry| entry.before.mode == REPOSITORY_INSIDE)
        .map(|entry| [entry.path.as_encoded_bytes(), b"/"].concat())
        .collect();
    let mut converter = None;
    let mut left = Vec::new();
    for entry in &entries {
        let path = entry.path.to_string_lossy().into_owned();
        let name = entry.path.as_encoded_bytes();
        if entry.before.mode == REPOSITORY_INSIDE {
            continue;
        }
        if inside.iter().any(|folder| name.starts_with(folder)) {
            let changed = ground.difference.changes.iter().any(|change| change.path == entry.path);
            if changed {
                left.push((path, "changed in a repository inside"));
            }
        } else if let Some(word) = differs(sides, entry)? {
            let is_it = match converted_from(sides, entry)? {
                None => false,
                Some(content) => {
                    let converter = match &mut converter {
                        Some(converter) => converter,
                        none => none.insert(sides.converter(tip, &ground.context)?),
                    };
                    converter.name_of(&entry.path, content)? == entry.before.hash
                }
            };
            if !is_it {
                left.push((path, word));
            }
        }
    }
    Ok(left)
}

/// How an entry differs, if it does for a person: line ends alone are git's to convert, and a committed file that is
/// also ignored is in no checkpoint.
fn differs(sides: &Sides, entry: &Entry) -> Result<Option<&'static str>, String> {
    match entry.kind {
        ChangeKind::Added => Ok(Some("not committed")),
        ChangeKind::Removed => {
            let file = sides.folder.join(&entry.path);
            let same = is_plain(&file) && sides.hash_of(&file)? == entry.before.hash;
            Ok((!same).then_some("committed, and not handed over"))
        }
        ChangeKind::Changed if entry.before.mode != entry.after.mode => {
            Ok(Some("committed with another mode or kind"))
        }
        ChangeKind::Changed => {
            let (before, after) = (sides.blob(&entry.before.hash)?, sides.blob(&entry.after.hash)?);
            let alike = before.len() <= MAX_COMPARED
                && after.len() <= MAX_COMPARED
                && without_returns(&before) == without_returns(&after);
            Ok((!alike).then_some("committed with other content"))
        }
    }
}

/// The content that may have become what was committed, where its attributes ask for that.
fn converted_from(sides: &Sides, entry: &Entry) -> Result<Option<Vec<u8>>, String> {
    let file = sides.folder.join(&entry.path);
    match entry.kind {
        ChangeKind::Added => Ok(None),
        ChangeKind::Removed if is_plain(&file) => Ok(std::fs::read(&file).ok()),
        ChangeKind::Removed => Ok(None),
        ChangeKind::Changed if entry.before.mode != entry.after.mode => Ok(None),
        ChangeKind::Changed if entry.before.mode == LINK => Ok(None),
        ChangeKind::Changed => sides.blob(&entry.after.hash).map(Some),
    }
}

/// A regular file, and no link to one.
fn is_plain(file: &Path) -> bool {
    std::fs::symlink_metadata(file).is_ok_and(|data| data.is_file())
}

/// With plain line ends. What is not text stays as it is.
fn without_returns(bytes: &[u8]) -> Vec<u8> {
    if bytes.contains(&0) {
        return bytes.to_vec();
    }
    let mut plain = Vec::with_capacity(bytes.len());
    for (place, byte) in bytes.iter().enumerate() {
        if *byte != b'\r' || bytes.get(place + 1) != Some(&b'\n') {
            plain.push(*byte);
        }
    }
    plain
}

fn report(branch: &str, left: &[(String, &'static str)]) -> String {
    let mut text = format!("{branch} does not hold what is handed over:");
    for (path, word) in left.iter().take(MAX_NAMED) {
        let _ = write!(text, "\n  {path} ({word})");
    }
    if left.len() > MAX_NAMED {
        let _ = write!(text, "\n  and {} more", left.len() - MAX_NAMED);
    }
    text.push_str("\ncommit it on that branch, or put it back");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_ends_alone_are_no_difference_and_binary_files_stay_as_they_are() {
        assert_eq!(without_returns(b"a\r\nb\r\n"), b"a\nb\n");
        assert_eq!(without_returns(b"a\rb\r"), b"a\rb\r");
        assert_eq!(without_returns(b"a\0\r\n"), b"a\0\r\n");
    }
}
