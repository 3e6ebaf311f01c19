//! The `.git` of a clean checkout: a repository of its own whose HEAD is one commit with the files that were handed
//! over, on top of the commit that the task began at. Objects of the history are read from the user's repository and
//! none of its settings, hooks or filters are there.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use super::checkout::Context;
use crate::checkpoint::{EMPTY_TREE, Store};
use crate::git::Git;
use crate::workspace::{Origin, text};

/// How many repositories may borrow objects from one another.
const MAX_ALTERNATES: usize = 16;

/// Makes `top` a repository; gives the folders that its git reads objects from. There is none where the user's
/// repository names its objects by another hash than checkpoints do.
pub(super) fn lay(
    top: &Path,
    point: &str,
    origin: &Origin,
    store: &Store<'_>,
    context: &Context<'_>,
) -> Result<Vec<PathBuf>, String> {
    let wrong = |what: String| format!("the clean checkout cannot have its repository: {what}");
    let user = Git { cancel: Some(context.cancel.clone()), ..origin.git() };
    let ask = |arguments: &[&str]| {
        let place: [OsString; 2] = ["-C".into(), origin.repository.clone().into()];
        user.run(place.into_iter().chain(arguments.iter().map(OsString::from)))
    };
    let common =
        ask(&["rev-parse", "--path-format=absolute", "--git-common-dir"]).map_err(wrong)?;
    let common = PathBuf::from(common.trim_end_matches('\n'));
    if origin.base.len() != EMPTY_TREE.len() {
        return Ok(Vec::new());
    }
    let objects = object_folders(&common.join("objects"));
    let own = Own { top, borrowed: store.objects(), context };
    own.git(&["init", "--quiet", "--template=", "."], None).map_err(wrong)?;
    let alternates: Vec<String> =
        objects.iter().map(|path| text(path)).collect::<Result<_, _>>()?;
    let write = |name: &str, content: String| {
        let path = top.join(".git").join(name);
        let folder = path.parent().unwrap_or(top).to_owned();
        fs::create_dir_all(folder)
            .and_then(|()| fs::write(&path, content))
            .map_err(|error| wrong(format!("{}: {error}", path.display())))
    };
    write("objects/info/alternates", alternates.join("\n") + "\n")?;
    if let Ok(cut) = fs::read_to_string(common.join("shallow")) {
        write("shallow", cut)?;
    }
    let format = "--format=%(objectname) %(refname)";
    let named = ask(&["for-each-ref", format, "refs/heads", "refs/remotes", "refs/tags"]);
    write("packed-refs", visible(&named.map_err(wrong)?))?;
    let tree = store.tree(point).map_err(wrong)?;
    let commit = own.commit(&tree, &origin.base).map_err(wrong)?;
    let branch = format!("refs/heads/{}", origin.branch);
    for arguments in [
        vec!["update-ref", &branch, &commit],
        vec!["symbolic-ref", "HEAD", &branch],
        vec!["read-tree", &tree],
    ] {
        own.git(&arguments, None).map_err(wrong)?;
    }
    // It reports files that look changed by their mode alone; a later look of the check's own git does the same.
    let _ = own.git(&["update-index", "-q", "--refresh"], None);
    Ok(objects)
}

/// Branches of other tasks are not for this one to see.
fn visible(named: &str) -> String {
    let others = |line: &&str| !line.contains(" refs/heads/drivetrain/");
    named.lines().filter(others).map(|line| format!("{line}\n")).collect()
}

/// Where a repository has its objects: its own folder, and those that it borrows from.
fn object_folders(objects: &Path) -> Vec<PathBuf> {
    let mut folders = vec![objects.to_owned()];
    let mut at = 0;
    while at < folders.len() && folders.len() < MAX_ALTERNATES {
        let listed = fs::read_to_string(folders[at].join("info/alternates")).unwrap_or_default();
        for line in listed.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let path = folders[at].join(line);
            if path.is_dir() && !folders.contains(&path) {
                folders.push(path);
            }
        }
        at += 1;
    }
    folders
}

/// The repository of the checkout, while it is made.
struct Own<'a> {
    top: &'a Path,
    borrowed: PathBuf,
    context: &'a Context<'a>,
}

impl Own<'_> {
    fn git(&self, arguments: &[&str], stdin: Option<Vec<u8>>) -> Result<String, String> {
        self.git_at(arguments, stdin, Vec::new())
    }

    fn git_at(
        &self,
        arguments: &[&str],
        stdin: Option<Vec<u8>>,
        more: Vec<(String, String)>,
    ) -> Result<String, String> {
        let mut env = vec![
            ("GIT_DIR".to_owned(), text(&self.top.join(".git"))?),
            ("GIT_WORK_TREE".to_owned(), text(self.top)?),
            // Only while it is made: what is needed from there is copied.
            ("GIT_ALTERNATE_OBJECT_DIRECTORIES".to_owned(), text(&self.borrowed)?),
            // Bytes are compared as they are, whatever the files say about line ends and filters.
            ("GIT_ATTR_SOURCE".to_owned(), EMPTY_TREE.to_owned()),
        ];
        env.extend(more);
        let git = Git {
            env,
            settings: vec!["core.bare=false".to_owned()],
            cwd: Some(self.top.to_owned()),
            cancel: Some(self.context.cancel.clone()),
        };
        let printed = git.output(arguments.iter().map(OsString::from).collect(), stdin)?;
        Ok(String::from_utf8_lossy(&printed.out).trim_end().to_owned())
    }

    /// Takes over the objects of the tree that the history does not have, and commits it at the base's own time: the
    /// same files give the same commit.
    fn commit(&self, tree: &str, base: &str) -> Result<String, String> {
        let pack = text(&self.top.join(".git/objects/pack/pack"))?;
        let wanted = format!("{tree}\n^{base}\n").into_bytes();
        self.git(&["pack-objects", "--quiet", "--revs", "--window=0", &pack], Some(wanted))?;
        let time = self.git(&["show", "-s", "--no-show-signature", "--format=%ct", base], None)?;
        let time = format!("@{} +0000", time.trim_end());
        let dates = ["GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"];
        let dates = dates.map(|name| (name.to_owned(), time.clone())).to_vec();
        self.git_at(&["commit-tree", tree, "-p", base, "-m", "What was handed over"], None, dates)
    }
}
