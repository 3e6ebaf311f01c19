//! A store that begins with what another task's store holds: the checkpoints up to one of them, with their names.

use std::fs;
use std::io;
use std::path::Path;

use super::{Store, checked};

impl Store<'_> {
    /// Takes over all checkpoints of another task's store, of which `commit` becomes the last. Doing it again changes
    /// nothing.
    pub(crate) fn take_over(&self, from: &Store<'_>, commit: &str) -> Result<(), String> {
        let commit = checked(commit)?;
        from.content(commit)?;
        if self.tip()?.is_some() {
            return Ok(());
        }
        let (source, target) = (from.path.join("objects"), self.path.join("objects"));
        link_all(&source, &target)
            .map_err(|error| format!("cannot take over {}: {error}", source.display()))?;
        let wrong = |error| format!("cannot write to {}: {error}", self.path.display());
        self.set_tip(commit).map_err(wrong)
    }

    /// Gives a new worktree, of which nobody has changed anything yet, the files of a checkpoint; how many paths differed.
    pub(crate) fn fill(&self, folder: &Path, commit: &str) -> Result<usize, String> {
        let target = self.content(commit)?;
        let seen = self.see(folder, &self.index())?;
        let changes = self.compare(&seen.content, &target)?;
        self.check_out(folder, &seen, &target.files)?;
        target.extra.apply(folder, &seen.content.extra)?;
        Ok(changes.len())
    }
}

/// Objects never change, so a second name is as good as a copy; a copy where there can be no second name.
fn link_all(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            link_all(&entry.path(), &target)?;
        } else if !target.exists() && fs::hard_link(entry.path(), &target).is_err() {
            fs::copy(entry.path(), &target)?;
        }
    }
    Ok(())
}
