//! Trees of other repositories as checkpoints: for receipts whose task was driven elsewhere.

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use machine::verdict::Checkpoint;

use super::{Content, EMPTY_TREE, Store, checked};

impl Store<'_> {
    /// Makes a checkpoint of a tree that another repository has. Its objects are read from the folder `objects` of that
    /// repository; nothing else of it counts.
    pub(crate) fn adopt(&self, objects: &Path, tree: &str) -> Result<Checkpoint, String> {
        let tree = checked(tree)?;
        let info = self.path.join("objects").join("info");
        let mut line = objects.as_os_str().to_owned().into_encoded_bytes();
        if line.contains(&b'\n') {
            return Err(format!("the folder {} has a line end in its name", objects.display()));
        }
        line.push(b'\n');
        fs::create_dir_all(&info)
            .and_then(|()| fs::write(info.join("alternates"), line))
            .map_err(|error| format!("cannot use {}: {error}", info.display()))?;
        let git = self.git(&self.path, &self.index())?;
        let kind = git.run(["cat-file", "-t", tree].map(OsString::from))?;
        let kind = kind.trim_end();
        if kind != "tree" || tree.len() != EMPTY_TREE.len() {
            return Err(format!("{tree} is a {kind}, expected the whole name of a tree"));
        }
        let name = self.commit(&Content::of_tree(tree.to_owned()), "of another repository")?;
        Ok(Checkpoint { name, tree: tree.to_owned() })
    }

    /// Whether a commit is there, here or where objects are read from.
    pub(crate) fn has_commit(&self, commit: &str) -> Result<(), String> {
        let name = format!("{}^{{commit}}", checked(commit)?);
        let git = self.git(&self.path, &self.index())?;
        git.output(["cat-file", "-e", &name].map(OsString::from).to_vec(), None).map(drop)
    }

    /// Whether every object that is kept has the content that its name says; the error names what has not.
    pub(crate) fn check(&self) -> Result<(), String> {
        let git = self.git(&self.path, &self.index())?;
        let arguments = ["fsck", "--no-dangling", "--no-progress", "--no-reflogs"];
        let Err(said) = git.output(arguments.map(OsString::from).to_vec(), None) else {
            return Ok(());
        };
        // What git thinks of the content of a worker's files is no damage.
        let opinion = |line: &&str| {
            ["error in ", "warning in ", "notice: "].iter().any(|start| line.starts_with(start))
        };
        let damage: Vec<&str> = said.lines().filter(|line| !opinion(line)).collect();
        if damage.is_empty() { Ok(()) } else { Err(damage.join("\n")) }
    }
}
