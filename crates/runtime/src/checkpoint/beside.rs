//! Trees that no workspace had: kept beside the checkpoints of a task, so that criteria can run on them and work can go
//! on with them. They are not among its checkpoints.

use std::ffi::OsString;

use machine::verdict::Checkpoint;

use super::{EMPTY_TREE, Store, checked};
use crate::checkpoint::extra::Extra;

impl Store<'_> {
    /// Takes the objects of a pack, each as a file of its own: that is how they are handed on from here.
    pub(crate) fn unpack(&self, pack: Vec<u8>) -> Result<(), String> {
        let git = self.git(&self.path, &self.index())?;
        git.output(["unpack-objects", "-q"].map(OsString::from).to_vec(), Some(pack)).map(drop)
    }

    /// Gives a tree whose objects are here a name. The same tree gets the same name.
    pub(crate) fn keep_tree(&self, tree: &str) -> Result<Checkpoint, String> {
        let tree = checked(tree)?;
        let mut git = self.git(&self.path, &self.index())?;
        // The moment is part of a name, and this one is not to depend on it.
        for name in ["GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"] {
            git.env.push((name.to_owned(), "1970-01-01T00:00:00Z".to_owned()));
        }
        let print = |arguments: &[&str], stdin: Option<Vec<u8>>| {
            let arguments = arguments.iter().map(OsString::from).collect();
            let printed = git.output(arguments, stdin)?;
            Ok::<String, String>(String::from_utf8_lossy(&printed.out).trim_end().to_owned())
        };
        let extra = print(&["hash-object", "-w", "--stdin"], Some(Extra::default().to_bytes()))?;
        let mut top = format!("100644 blob {extra}\textra\n");
        if tree != EMPTY_TREE {
            top.push_str(&format!("040000 tree {tree}\tfiles\n"));
        }
        let top = print(&["mktree"], Some(top.into_bytes()))?;
        let name = print(&["commit-tree", &top, "-m", "a tree from elsewhere"], None)?;
        print(&["update-ref", &format!("refs/adopted/{name}"), &name], None)?;
        Ok(Checkpoint { name, tree: tree.to_owned() })
    }
}
