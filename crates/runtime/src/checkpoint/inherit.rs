//! The objects of the commit that a worktree was made from. Making one of each of its files anew takes half a millisecond and
//! a small file each; copied in one pack, what is then seen of the files is known already.

use std::ffi::OsString;
use std::fs::File;
use std::path::Path;

use super::Store;
use crate::git::{Git, borrowing};

impl Store<'_> {
    /// Copies the objects of what a new worktree has checked out and gives its tree. Whatever stands in the way is no harm:
    /// what is not there is made from the files.
    pub(super) fn inherit(&self, folder: &Path) -> Result<Option<String>, String> {
        let git = Git { cancel: Some(self.cancel.clone()), ..Git::default() };
        let asked = ["rev-parse", "--path-format=absolute", "--git-path", "objects", "HEAD^{tree}"];
        let place: [OsString; 2] = ["-C".into(), folder.into()];
        let said = git.run(place.into_iter().chain(asked.map(OsString::from)))?;
        let (objects, tree) =
            said.trim_end().rsplit_once('\n').ok_or("git does not say where the objects are")?;
        // A repository that names its objects in another way has none that could be known here.
        if tree.len() != 40 {
            return Ok(None);
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
        sync().map_err(|error| format!("cannot sync {}: {error}", packs.display()))?;
        Ok(Some(tree.to_owned()))
    }
}
