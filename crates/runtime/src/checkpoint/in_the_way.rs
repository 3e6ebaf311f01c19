//! Files that are in no checkpoint and in the way of one: git ignores them, and they lie where a file of the checkpoint
//! belongs. To go there would destroy them, and nothing could bring them back.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::{ChangeKind, Content, Store, with_end};
use crate::whole_file;
use crate::workspace::worktree_of;

/// How many of them are named.
const NAMED: usize = 10;

/// Says what is in the way, and what to do.
pub fn words(paths: &[PathBuf]) -> String {
    let first = paths.iter().take(NAMED).map(|path| path.display().to_string());
    let first = first.collect::<Vec<String>>().join(", ");
    let more = match paths.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!(
        "files that git ignores, and that are in no checkpoint, are in the way: {first}{more}; move them away, or \
         remove them if nobody needs them"
    )
}

impl Store<'_> {
    /// What is in the way in a folder that was just seen, on its way to another content; by path.
    pub fn in_the_way(
        &self,
        folder: &Path,
        seen: &Content,
        to: &Content,
    ) -> Result<Vec<PathBuf>, String> {
        let files = |content: &Content| Content::of_tree(content.files.clone());
        let changes = self.compare(&files(seen), &files(to))?;
        let of_kind = |kind| {
            let of_kind = changes.iter().filter(move |change| change.kind == kind);
            of_kind.map(|change| Path::new(&change.path))
        };
        // What was seen and goes is in a checkpoint.
        let gone: BTreeSet<&Path> = of_kind(ChangeKind::Removed).collect();
        let mut found = BTreeSet::new();
        for path in of_kind(ChangeKind::Added) {
            match first_other(folder, path, &gone) {
                Other::None => {}
                Other::File(place) => {
                    found.insert(place);
                }
                Other::Folder => found.extend(unseen_below(folder, path, &gone)),
            }
        }
        let folders = seen.extra.changes(&to.extra).into_iter();
        for change in folders.filter(|change| change.kind == ChangeKind::Added) {
            if let Other::File(place) = first_other(folder, Path::new(&change.path), &gone) {
                found.insert(place);
            }
        }
        Ok(found.into_iter().filter(|path| !self.left_out.contains(path)).collect())
    }

    /// Moves what is in the way out of a worktree, to a folder beside it.
    pub(super) fn set_aside(&self, folder: &Path, paths: &[PathBuf]) -> Result<(), String> {
        if paths.is_empty() {
            return Ok(());
        }
        let worktree = worktree_of(&self.task, &self.state_home);
        let aside = (1..1000)
            .map(|number| with_end(&worktree, &format!(".aside-{number}")))
            .find(|place| !place.exists())
            .ok_or_else(|| format!("too much lies beside {}; remove some", worktree.display()))?;
        for path in paths {
            let place = aside.join(path);
            place
                .parent()
                .map_or(Ok(()), whole_file::make_folder)
                .and_then(|()| fs::rename(folder.join(path), &place))
                .map_err(|error| format!("cannot move {} away: {error}", path.display()))?;
        }
        Ok(())
    }
}

/// What stands where a path leads.
enum Other {
    /// Nothing that was not seen.
    None,
    /// Something that is no folder, there or above.
    File(PathBuf),
    /// A folder.
    Folder,
}

fn first_other(folder: &Path, path: &Path, gone: &BTreeSet<&Path>) -> Other {
    let mut place = PathBuf::new();
    for part in path.components() {
        place.push(part);
        match fs::symlink_metadata(folder.join(&place)) {
            Ok(meta) if meta.is_dir() => {}
            // Whatever is below a link that goes is not below it.
            Ok(_) if gone.contains(place.as_path()) => return Other::None,
            Ok(_) => return Other::File(place),
            Err(_) => return Other::None,
        }
    }
    Other::Folder
}

/// All in a folder that was not seen. The history of a repository inside is one thing.
fn unseen_below(folder: &Path, path: &Path, gone: &BTreeSet<&Path>) -> Vec<PathBuf> {
    let (mut unseen, mut open) = (Vec::new(), vec![path.to_owned()]);
    while let Some(path) = open.pop() {
        for entry in fs::read_dir(folder.join(&path)).into_iter().flatten().flatten() {
            let inner = path.join(entry.file_name());
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if is_folder && entry.file_name() != ".git" {
                open.push(inner);
            } else if !gone.contains(inner.as_path()) {
                unseen.push(inner);
            }
        }
    }
    unseen
}
