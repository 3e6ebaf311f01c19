//! `patch`: a unified diff, all of it or nothing.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;

use machine::diff::{self, FilePatch, Search};
use machine::effect::ToolCall;
use machine::tool::ToolResult;

use super::{FILE_LIMIT, failed, text};
use crate::beneath::{PathError, Reason, Root};

pub(super) fn run(call: &ToolCall, root: &Root) -> ToolResult {
    let patches = match diff::parse(text(call, "diff")) {
        Ok(patches) => patches,
        Err(reason) => return failed(format!("cannot read the diff: {reason}")),
    };
    let mut plan = Plan { root, repeated: call.repeated, files: BTreeMap::new(), given: 0 };
    let mut done = 0;
    for patch in &patches {
        if call.repeated && plan.is_done(patch) {
            done += 1;
        } else if let Err(reason) = plan.apply(patch) {
            return failed(format!("nothing was changed: {reason}"));
        }
    }
    if done == patches.len() {
        return ToolResult::ok(format!("already done: all {done} files have the new content"));
    }
    match plan.carry_out() {
        Ok(lines) => ToolResult::ok(lines.join("\n")),
        Err(reason) => failed(reason),
    }
}

/// Every file that changes, with its content before and after; none means that it does not exist.
struct Plan<'a> {
    root: &'a Root,
    /// Whether an earlier attempt may have come some of the way.
    repeated: bool,
    files: BTreeMap<String, Change>,
    /// How often a file was given content or taken away.
    given: usize,
}

struct Change {
    before: Option<Vec<u8>>,
    was_executable: Option<bool>,
    after: Option<Vec<u8>>,
    executable: Option<bool>,
    /// When it was given its content. Where that takes the place of what moved elsewhere, it is later than that.
    turn: Option<usize>,
}

impl Plan<'_> {
    /// Adds what one file's part of the diff does.
    fn apply(&mut self, patch: &FilePatch) -> Result<(), String> {
        let name = patch.name();
        let content = match &patch.old {
            None => {
                if self.content(name)?.is_some() {
                    return Err(format!("{name:?} is to be created and exists already"));
                }
                Vec::new()
            }
            Some(old) => self
                .content(old)?
                .ok_or_else(|| format!("{old:?} is to be changed and does not exist"))?,
        };
        let after = diff::apply(&content, &patch.hunks, Search::Near)
            .map_err(|reason| format!("{name:?}, {reason}"))?;
        if patch.new.is_none() && !after.is_empty() {
            return Err(format!(
                "{name:?} is to be deleted, but has {} bytes more than the diff removes",
                after.len()
            ));
        }
        if let Some(old) = &patch.old
            && patch.new.as_ref() != Some(old)
            && !patch.copies
        {
            self.set(old, None, None)?;
        }
        if let Some(new) = &patch.new {
            let there = if patch.old.as_ref() == Some(new) { None } else { self.content(new)? };
            // An attempt that was cut off has written what moves before it took it away from where it was.
            let is_one = |old: &String| self.is_one_file(old, new);
            let is_written = self.repeated
                && there.as_ref() == Some(&after)
                && !patch.old.as_ref().is_some_and(is_one);
            if there.is_some() && !is_written {
                return Err(format!("{new:?} is to be created and exists already"));
            }
            // A file that moves keeps its mode; one that stays keeps it anyway.
            let moved_from = patch.old.as_ref().filter(|old| *old != new);
            let kept = moved_from.and_then(|old| self.root.is_executable(old));
            self.set(new, Some(after), patch.executable.or(kept))?;
        }
        Ok(())
    }

    /// Whether the files already are as the diff leaves them: it can be taken back exactly where it says.
    fn is_done(&mut self, patch: &FilePatch) -> bool {
        let gone = |plan: &mut Self, name: &str| matches!(plan.content(name), Ok(None));
        let Some(new) = &patch.new else {
            return patch.old.as_ref().is_some_and(|old| gone(self, old));
        };
        let Ok(Some(content)) = self.content(new) else { return false };
        let moved = patch.old.as_ref().is_some_and(|old| old != new) && !patch.copies;
        if moved && !patch.old.as_ref().is_some_and(|old| gone(self, old)) {
            return false;
        }
        match diff::apply(&content, &diff::reversed(&patch.hunks), Search::Exact) {
            Ok(before) => patch.old.is_some() || before.is_empty(),
            Err(_) => false,
        }
    }

    /// Whether two names mean one file, through a link or whatever the case of their letters.
    fn is_one_file(&self, one: &str, other: &str) -> bool {
        let file = |name: &str| {
            let found = self.root.open_file(name).ok()?.metadata().ok()?;
            Some((found.dev(), found.ino()))
        };
        file(one).is_some_and(|one| file(other) == Some(one))
    }

    /// A file's content as the diff has left it so far.
    fn content(&mut self, name: &str) -> Result<Option<Vec<u8>>, String> {
        let key = self.root.relative(name).map_err(|error| error.to_string())?;
        if let Some(change) = self.files.get(&key) {
            return Ok(change.after.clone());
        }
        match self.root.read(name, FILE_LIMIT) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(PathError { reason: Reason::Missing, .. }) => Ok(None),
            Err(error) => Err(error.to_string()),
        }
    }

    fn set(
        &mut self,
        name: &str,
        after: Option<Vec<u8>>,
        executable: Option<bool>,
    ) -> Result<(), String> {
        self.root.check_write(name).map_err(|error| error.to_string())?;
        let before = self.content(name)?;
        let was_executable = self.root.is_executable(name);
        let key = self.root.relative(name).map_err(|error| error.to_string())?;
        let change = self.files.entry(key).or_insert(Change {
            before,
            was_executable,
            after: None,
            executable,
            turn: None,
        });
        change.turn = after.as_ref().map(|_| change.turn.unwrap_or(self.given));
        self.given += 1;
        change.after = after;
        change.executable = executable.or(change.executable);
        Ok(())
    }

    /// Writes everything; on a failure puts back what was written.
    fn carry_out(&self) -> Result<Vec<String>, String> {
        let order = self.in_order();
        for (number, (name, change)) in order.iter().enumerate() {
            let result = match &change.after {
                Some(after) => self.root.write(name, after, change.executable).map(|_| ()),
                None if change.before.is_some() => self.root.remove(name),
                None => Ok(()),
            };
            if let Err(error) = result {
                let done = order[..number].iter().rev();
                let kept: Vec<String> =
                    done.filter_map(|(name, change)| self.put_back(name, change)).collect();
                return Err(match kept.is_empty() {
                    true => format!("nothing was changed: {error}"),
                    false => {
                        format!("{error}; these files could not be put back: {}", kept.join(", "))
                    }
                });
            }
        }
        let line = |(name, change): (&String, &Change)| match (&change.before, &change.after) {
            (None, _) => format!("created {name}"),
            (Some(_), Some(_)) => format!("changed {name}"),
            (Some(_), None) => format!("deleted {name}"),
        };
        Ok(self.files.iter().map(line).collect())
    }

    /// What is taken away comes last, and what moves is written before another file takes its place: whoever is killed half
    /// way has lost nothing.
    fn in_order(&self) -> Vec<(&String, &Change)> {
        let mut order: Vec<(&String, &Change)> = self.files.iter().collect();
        order.sort_by_key(|(_, change)| (change.after.is_none(), change.turn));
        order
    }

    /// The name of a file that could not be put back.
    fn put_back(&self, name: &str, change: &Change) -> Option<String> {
        let result = match &change.before {
            Some(before) => self.root.write(name, before, change.was_executable).map(|_| ()),
            None => self.root.remove(name),
        };
        result.err().map(|_| name.to_owned())
    }
}
