//! The `.git` of a clean checkout: a repository of its own whose HEAD is one commit with the files that were handed
//! over, on top of the commit that the change stands on. Objects of the history are read from the user's repository and
//! none of its settings, hooks or filters are there.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use super::checkout::Context;
use super::copy::copy_tree;
use super::{Trouble, planted};
use crate::checkpoint::{EMPTY_TREE, Store};
use crate::git::objects::object_folders;
use crate::git::{Git, borrowing};
use crate::workspace::{Origin, text};

/// The repository of a checkout, made once and copied into each set of its files.
pub(super) struct Laid {
    /// What becomes `.git`.
    folder: PathBuf,
    /// The folders that git reads objects from.
    pub(super) objects: Vec<PathBuf>,
}

/// Makes the repository in `folder`. There is none where the user's repository names its objects by another hash than
/// checkpoints do.
pub(super) fn lay(
    folder: &Path,
    point: &str,
    origin: &Origin,
    store: &Store<'_>,
    context: &Context<'_>,
) -> Result<Option<Laid>, String> {
    // Where the work went on from another commit than its worktree was made of, that is what it stands on.
    let base = context.claim.workspace.base.as_ref().unwrap_or(&origin.base);
    if base.len() != EMPTY_TREE.len() {
        return Ok(None);
    }
    let wrong = |what: String| format!("the clean checkout cannot have its repository: {what}");
    let user = Git { cancel: Some(context.cancel.clone()), ..origin.git() };
    let ask = |arguments: &[&str]| {
        let place: [OsString; 2] = ["-C".into(), origin.repository.clone().into()];
        let asked = place.into_iter().chain(arguments.iter().map(OsString::from)).collect();
        user.output(asked, None).map(|printed| printed.out)
    };
    let common = common(&user, origin).map_err(wrong)?;
    let objects = object_folders(&common.join("objects"));
    let alternates: Vec<String> =
        objects.iter().map(|path| text(path)).collect::<Result<_, _>>()?;
    let write = |name: &str, content: &[u8]| {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap_or(folder))
            .and_then(|()| fs::write(&path, content))
            .map_err(|error| wrong(format!("{}: {error}", path.display())))
    };
    let branch = format!("refs/heads/{}", origin.branch);
    write("HEAD", format!("ref: {branch}\n").as_bytes())?;
    write("config", SETTINGS.as_bytes())?;
    // Files are byte for byte what was handed over: to convert them would make every one of them look changed.
    write("info/attributes", b"* -text !eol -ident -filter !working-tree-encoding\n")?;
    write("refs/heads/.keep", b"")?;
    write("objects/pack/.keep", b"")?;
    write("objects/info/alternates", (alternates.join("\n") + "\n").as_bytes())?;
    if let Ok(cut) = fs::read(common.join("shallow")) {
        write("shallow", &cut)?;
    }
    let own = Own { git_dir: folder, work_tree: folder, borrowed: Some(store.objects()), context };
    let tree = store.tree(point).map_err(wrong)?;
    let commit = own.commit(&tree, base).map_err(wrong)?;
    own.git(&["read-tree", &tree], None).map_err(wrong)?;
    let format = "--format=%(objectname) %(refname)";
    let named = ask(&["for-each-ref", format, "refs/heads", "refs/remotes", "refs/tags"]);
    write("packed-refs", &visible(&named.map_err(wrong)?, &format!("{commit} {branch}")))?;
    for name in ["refs/heads/.keep", "objects/pack/.keep"] {
        let _ = fs::remove_file(folder.join(name));
    }
    Ok(Some(Laid { folder: folder.to_owned(), objects }))
}

/// Fails what was claimed if the objects of the history are not what they were.
pub(super) fn distrust(
    origin: &Origin,
    store: &Store<'_>,
    context: &Context<'_>,
) -> Result<(), Trouble> {
    let user = Git { cancel: Some(context.cancel.clone()), ..origin.git() };
    let objects = common(&user, origin).map_err(Trouble::Broken)?.join("objects");
    // What the worker wrote, it wrote after the first of them.
    let points = store.points().map_err(Trouble::Broken)?;
    let since = points.first().map_or(i64::MIN, |first| first.time);
    let found = planted::find(&user, &origin.repository, &objects, since);
    found.map_err(Trouble::Broken)?.map_or(Ok(()), |what| Err(Trouble::Failed(what)))
}

/// Where the user's repository has what all of its worktrees share.
fn common(user: &Git, origin: &Origin) -> Result<PathBuf, String> {
    let place: [OsString; 2] = ["-C".into(), origin.repository.clone().into()];
    let ask = ["rev-parse", "--path-format=absolute", "--git-common-dir"].map(OsString::from);
    let said = user.run(place.into_iter().chain(ask))?;
    Ok(PathBuf::from(said.trim_end_matches('\n')))
}

impl Laid {
    /// Gives files their repository, with an index that knows them.
    pub(super) fn place(&self, top: &Path, context: &Context<'_>) -> Result<(), String> {
        let git_dir = top.join(".git");
        copy_tree(&self.folder, &git_dir)?;
        let own = Own { git_dir: &git_dir, work_tree: top, borrowed: None, context };
        // It complains about files that differ in their mode alone; so would the check's own git.
        let _ = own.git(&["update-index", "-q", "--refresh"], None);
        Ok(())
    }
}

/// As git itself makes them, and nothing of the user's.
const SETTINGS: &str = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n\
                        \tlogallrefupdates = true\n";

/// The names that a check sees: the user's, and the task's own branch. Those of other tasks are not for it. A name need not be
/// text.
fn visible(named: &[u8], own: &str) -> Vec<u8> {
    let lines = named.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let users = lines.filter(|line| !name(line).starts_with(b"refs/heads/drivetrain/"));
    let mut lines: Vec<&[u8]> = users.chain([own.as_bytes()]).collect();
    lines.sort_by_key(|line| name(line));
    lines.iter().flat_map(|line| [line, &b"\n"[..]].concat()).collect()
}

/// What follows the hash.
fn name(line: &[u8]) -> &[u8] {
    line.iter().position(|byte| *byte == b' ').map_or(line, |end| &line[end + 1..])
}

/// The repository of the checkout, while it is made.
struct Own<'a> {
    git_dir: &'a Path,
    work_tree: &'a Path,
    /// Read only while it is made: what is needed from there is copied.
    borrowed: Option<PathBuf>,
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
            ("GIT_DIR".to_owned(), text(self.git_dir)?),
            ("GIT_WORK_TREE".to_owned(), text(self.work_tree)?),
            // Bytes are compared as they are, whatever the files say about line ends and filters.
            ("GIT_ATTR_SOURCE".to_owned(), EMPTY_TREE.to_owned()),
        ];
        if let Some(borrowed) = &self.borrowed {
            env.push(borrowing(&text(borrowed)?));
        }
        env.extend(more);
        let git = Git {
            env,
            settings: vec!["core.bare=false".to_owned()],
            cwd: Some(self.work_tree.to_owned()),
            cancel: Some(self.context.cancel.clone()),
        };
        let printed = git.output(arguments.iter().map(OsString::from).collect(), stdin)?;
        Ok(String::from_utf8_lossy(&printed.out).trim_end().to_owned())
    }

    /// Takes over the objects of the tree that the history does not have, and commits it at the base's own time: the
    /// same files give the same commit.
    fn commit(&self, tree: &str, base: &str) -> Result<String, String> {
        let pack = text(&self.git_dir.join("objects/pack/pack"))?;
        let wanted = format!("{tree}\n^{base}\n").into_bytes();
        self.git(&["pack-objects", "--quiet", "--revs", "--window=0", &pack], Some(wanted))?;
        // Of a clone that has few trees, to show a commit would need more than is there.
        let asked = ["rev-list", "--max-count=1", "--no-commit-header", "--format=%ct", base, "--"];
        let time = format!("@{} +0000", self.git(&asked, None)?);
        let dates = ["GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"];
        let dates = dates.map(|name| (name.to_owned(), time.clone())).to_vec();
        self.git_at(&["commit-tree", tree, "-p", base, "-m", "What was handed over"], None, dates)
    }
}
