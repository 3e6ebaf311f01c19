//! The attributes of a tree, as files: every git reads those first.

use std::ffi::OsString;

use super::Git;

/// Writes the files with attributes that a tree or commit has into the working tree of this git, by way of its index.
pub(crate) fn write(git: &Git, tree: &str) -> Result<(), String> {
    git.run(["read-tree".into(), tree.into()])?;
    let list = ["ls-files", "-z", "--", ".gitattributes", "**/.gitattributes"];
    // A pattern with two stars is one only if it is said to be.
    let list = ["--glob-pathspecs"].into_iter().chain(list).map(OsString::from).collect();
    let named = git.output(list, None)?.out;
    let words = ["checkout-index", "--quiet", "--force", "-z", "--stdin"];
    git.output(words.map(OsString::from).to_vec(), Some(named)).map(drop)
}
