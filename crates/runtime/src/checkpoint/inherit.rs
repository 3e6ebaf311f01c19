//! The first checkpoint of a worktree. Making an object of each of its files takes half a millisecond and a small file each;
//! the objects of the commit that the worktree was made from are copied in one pack instead, and what is then seen of the
//! files is known already.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use super::Store;
use crate::git::{Git, borrowing};

/// From so many files on a pack is quicker than files.
const WORTH: u32 = 50;

impl Store<'_> {
    /// Copies the objects of what a new worktree has checked out. Whatever stands in the way is no harm: what is not there
    /// is made from the files.
    pub(super) fn inherit(&self, folder: &Path) -> Result<(), String> {
        if tracked(folder).is_none_or(|count| count < WORTH) {
            return Ok(());
        }
        let git = Git { cancel: Some(self.cancel.clone()), ..Git::default() };
        let asked = ["rev-parse", "--path-format=absolute", "--git-path", "objects", "HEAD^{tree}"];
        let place: [OsString; 2] = ["-C".into(), folder.into()];
        let said = git.run(place.into_iter().chain(asked.map(OsString::from)))?;
        let (objects, tree) =
            said.trim_end().rsplit_once('\n').ok_or("git does not say where the objects are")?;
        // A repository that names its objects in another way has none that could be known here.
        if tree.len() != 40 {
            return Ok(());
        }
        let mut git = self.git(&self.path, &self.index())?;
        git.env.push(borrowing(objects));
        git.settings
            .extend(["core.fsync=pack,pack-metadata", "pack.packSizeLimit=0"].map(str::to_owned));
        let packs = self.path.join("objects/pack");
        let words = ["pack-objects", "--quiet", "--revs", "--window=0"].map(OsString::from);
        let words = words.into_iter().chain([packs.join("pack").into()]).collect();
        git.output(words, Some(format!("{tree}\n").into_bytes()))?;
        let sync = || File::open(&packs)?.sync_all();
        sync().map_err(|error| format!("cannot sync {}: {error}", packs.display()))
    }
}

/// How many files the index of a worktree has, as its head says. One that shows only a part of its commit has too many.
fn tracked(folder: &Path) -> Option<u32> {
    let link = fs::read_to_string(folder.join(".git")).ok()?;
    let about = folder.join(link.strip_prefix("gitdir: ")?.trim_end());
    if about.join("info/sparse-checkout").exists() {
        return None;
    }
    let mut head = [0; 12];
    File::open(about.join("index")).ok()?.read_exact(&mut head).ok()?;
    let count = head[8..].try_into().ok().map(u32::from_be_bytes)?;
    head.starts_with(b"DIRC").then_some(count)
}
