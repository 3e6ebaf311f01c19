//! A repository of our own in which the result is made: it borrows the objects of the task's checkpoints and of the
//! user's repository, and has neither's settings.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::checkpoint::{Content, Store};
use crate::git::Git;
use crate::git::who::Who;
use crate::process::Cancel;
use crate::workspace::text;

use super::checkout::Checkout;
use super::{ApplyError, refused};

/// The repository; removed when dropped.
pub(super) struct Scratch {
    path: PathBuf,
    /// Where objects may be that the user's repository lacks.
    sources: [PathBuf; 2],
    cancel: Cancel,
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // It holds nothing that is not elsewhere.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// A tree that was made, with what a person should know of it.
pub(super) struct Made {
    pub(super) tree: String,
    /// Paths at which a large file belongs.
    pub(super) large: Vec<OsString>,
    pub(super) notices: Vec<String>,
}

/// Two changes together.
pub(super) struct Merged {
    pub(super) tree: String,
    /// Paths in which both changed the same places; the files hold marks there.
    pub(super) collisions: Vec<String>,
}

/// One line of a comparison of trees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) old_mode: String,
    pub(super) mode: String,
    pub(super) hash: String,
    pub(super) path: OsString,
}

impl Entry {
    /// Whether the path is not there after.
    pub(super) fn is_gone(&self) -> bool {
        self.mode == ABSENT
    }

    /// Its line for `git update-index -z --index-info`.
    pub(super) fn for_index(&self) -> Vec<u8> {
        let mode = if self.is_gone() { "0" } else { &self.mode };
        let about = format!("{mode} {}\t", self.hash);
        [about.as_bytes(), self.path.as_bytes(), b"\0"].concat()
    }

    /// Whether the path was not there before.
    pub(super) fn is_new(&self) -> bool {
        self.old_mode == ABSENT
    }

    pub(super) fn is_file(&self) -> bool {
        self.mode.starts_with("100")
    }
}

const ABSENT: &str = "000000";
const SUBMODULE: &str = "160000";

impl Scratch {
    pub(super) fn new(
        store: &Store<'_>,
        checkout: &Checkout,
        state_home: &Path,
        cancel: &Cancel,
    ) -> Result<Scratch, ApplyError> {
        let path = state_home.join("run").join(format!("apply-{}.git", std::process::id()));
        let wrong = |error: io::Error| format!("cannot use {}: {error}", path.display());
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(path.join("files")).map_err(wrong)?;
        let objects = path.join("objects");
        let scratch = Scratch {
            sources: [objects.clone(), store.objects()],
            path: path.clone(),
            cancel: cancel.clone(),
        };
        let init = ["init", "--quiet", "--bare", "--template=", "--ref-format=files"];
        let init = init.map(OsString::from).into_iter().chain([path.clone().into()]);
        Git { cancel: Some(cancel.clone()), ..Git::default() }.run(init)?;
        let mut borrowed = Vec::new();
        for from in [store.objects(), checkout.objects.clone()] {
            borrowed.extend_from_slice(from.as_os_str().as_bytes());
            borrowed.push(b'\n');
        }
        fs::write(objects.join("info/alternates"), borrowed).map_err(wrong)?;
        // Settings for names of files; without settings for filters and drivers, what they name does nothing.
        if let Ok(attributes) = fs::read(&checkout.attributes) {
            fs::create_dir_all(path.join("info")).map_err(wrong)?;
            fs::write(path.join("info/attributes"), attributes).map_err(wrong)?;
        }
        Ok(scratch)
    }

    /// Where git puts files.
    pub(super) fn files(&self) -> PathBuf {
        self.path.join("files")
    }

    /// The content of new large files, each by its hash.
    pub(super) fn large(&self) -> PathBuf {
        self.path.join("large")
    }

    /// A git that works here; `attributes` is the tree whose attributes count.
    pub(super) fn git(&self, attributes: Option<&str>) -> Result<Git, String> {
        let mut env = vec![
            ("GIT_DIR".to_owned(), text(&self.path)?),
            ("GIT_WORK_TREE".to_owned(), text(&self.files())?),
            ("GIT_INDEX_FILE".to_owned(), text(&self.path.join("index"))?),
        ];
        if let Some(tree) = attributes {
            env.push(("GIT_ATTR_SOURCE".to_owned(), tree.to_owned()));
        }
        let settings = vec!["core.bare=false".to_owned(), "core.safecrlf=false".to_owned()];
        let cwd = Some(self.files());
        Ok(Git { env, settings, cwd, cancel: Some(self.cancel.clone()) })
    }

    /// The tree of a commit of the user's repository.
    pub(super) fn tree_of(&self, commit: &str) -> Result<String, String> {
        let name = format!("{commit}^{{tree}}");
        let tree = self.git(None)?.run(["rev-parse".into(), "--verify".into(), name.into()])?;
        Ok(tree.trim_end().to_owned())
    }

    /// The base commit with exactly what the task changed. What the worktree never had (submodules) stays as it is, and
    /// line ends become what the repository's attributes make of them, as with `git add`.
    pub(super) fn build(
        &self,
        commit: &str,
        base: &Content,
        frozen: &Content,
    ) -> Result<Made, ApplyError> {
        let git = self.git(None)?;
        git.run(["read-tree".into(), commit.into()])?;
        let mut changed = self.compare(base.tree(), frozen.tree())?;
        changed.retain(|entry| entry.old_mode != SUBMODULE);
        self.refuse_submodules(&git, &changed)?;
        self.stage(&git, &changed)?;
        let first = git.run(["write-tree".into()])?.trim_end().to_owned();
        let looked = self.convert(&first, &changed)?;
        self.stage(&git, &looked.converted)?;
        let tree = git.run(["write-tree".into()])?.trim_end().to_owned();
        Ok(Made { tree, large: looked.large, notices: looked.notices })
    }

    /// A worktree has no submodules, so whatever lies where one belongs cannot be told from it.
    fn refuse_submodules(&self, git: &Git, changed: &[Entry]) -> Result<(), ApplyError> {
        let staged =
            git.output(["ls-files", "--stage", "-z"].map(OsString::from).to_vec(), None)?;
        let modules = staged.out.split(|byte| *byte == 0).filter_map(|entry| {
            let rest = entry.strip_prefix(b"160000 ")?;
            let tab = rest.iter().position(|byte| *byte == b'\t')?;
            Some(Path::new(OsStr::from_bytes(&rest[tab + 1..])))
        });
        for module in modules {
            if changed.iter().any(|entry| Path::new(&entry.path).starts_with(module)) {
                return Err(refused(
                    format!(
                        "the task changed files where the submodule {} belongs; a commit of this repository cannot \
                         hold them",
                        module.display()
                    ),
                    &[
                        "drivetrain diff shows them; apply them in the submodule itself with --patch FILE",
                    ],
                ));
            }
        }
        Ok(())
    }

    pub(super) fn stage(&self, git: &Git, entries: &[Entry]) -> Result<(), String> {
        if entries.is_empty() {
            return Ok(());
        }
        // What goes, goes first: a folder may take the place of a file.
        let (gone, rest): (Vec<&Entry>, Vec<&Entry>) =
            entries.iter().partition(|entry| entry.is_gone());
        let asked = gone.into_iter().chain(rest).flat_map(Entry::for_index).collect();
        let arguments = ["update-index", "-z", "--index-info"].map(OsString::from).to_vec();
        git.output(arguments, Some(asked)).map(drop)
    }

    /// What differs between two trees or commits, file by file.
    pub(super) fn compare(&self, from: &str, to: &str) -> Result<Vec<Entry>, String> {
        self.raw(&["-r"], from, to)
    }

    /// What a commit changes.
    pub(super) fn changed(&self, commit: &str, tree: &str) -> Result<Vec<Entry>, String> {
        self.compare(&self.tree_of(commit)?, tree)
    }

    fn raw(&self, how: &[&str], from: &str, to: &str) -> Result<Vec<Entry>, String> {
        let fixed = ["diff-tree", "-z", "--raw", "--full-index", "--no-renames", "--no-ext-diff"];
        let arguments = fixed.iter().chain(how).chain([&from, &to]).map(OsString::from).collect();
        let printed = self.git(None)?.output(arguments, None)?;
        let mut parts = printed.out.split(|byte| *byte == 0);
        let mut entries = Vec::new();
        while let (Some(about), Some(path)) = (parts.next(), parts.next()) {
            // `:OLD-MODE NEW-MODE OLD-HASH NEW-HASH LETTER`
            let about = String::from_utf8_lossy(about);
            let words: Vec<&str> = about.trim_start_matches(':').split(' ').collect();
            let [old_mode, mode, _, hash, _] = words.as_slice() else {
                return Err("git compares trees in a way that is not understood".to_owned());
            };
            entries.push(Entry {
                old_mode: (*old_mode).to_owned(),
                mode: (*mode).to_owned(),
                hash: (*hash).to_owned(),
                path: OsStr::from_bytes(path).to_owned(),
            });
        }
        Ok(entries)
    }

    /// Merges a tree that began at `base` into a commit, without any files.
    pub(super) fn merge(
        &self,
        base: &str,
        into: &str,
        tree: &str,
        branch: &str,
        task: &str,
    ) -> Result<Merged, ApplyError> {
        let ours = self.git(None)?;
        let said = ["commit-tree", tree, "-p", base, "-m", "what was proven"];
        let other = ours.run(said.map(OsString::from))?.trim_end().to_owned();
        let git = self.git(Some(into))?;
        let base = format!("--merge-base={base}");
        // Conflict marks name what is merged as it is named here.
        let (mine, theirs) = (format!("task-{task}"), format!("branch-{branch}"));
        for (name, commit) in [(&theirs, into), (&mine, other.as_str())] {
            let name = format!("refs/heads/{name}");
            ours.run(["update-ref", &name, commit].map(OsString::from))?;
        }
        let arguments = [
            "merge-tree",
            "--write-tree",
            "-z",
            "--name-only",
            "--no-messages",
            &base,
            &theirs,
            &mine,
        ];
        let printed = git.output_any(arguments.map(OsString::from).to_vec(), None)?;
        let mut parts = printed.out.split(|byte| *byte == 0);
        let merged = String::from_utf8_lossy(parts.next().unwrap_or_default()).into_owned();
        let tree = merged.trim_end().to_owned();
        match printed.exit {
            0 => Ok(Merged { tree, collisions: Vec::new() }),
            1 => {
                let mut collisions: Vec<String> = parts
                    .filter(|path| !path.is_empty())
                    .map(|path| String::from_utf8_lossy(path).into_owned())
                    .collect();
                collisions.dedup();
                Ok(Merged { tree, collisions })
            }
            _ => Err(ApplyError::Failed(format!("git cannot merge: {}", printed.complaint))),
        }
    }

    /// Puts what the checkpoints lack of these trees beside them. `known` are trees that they have.
    pub(super) fn keep_in(
        &self,
        store: &Store<'_>,
        trees: &[&str],
        known: &[&str],
    ) -> Result<(), String> {
        let mut asked = trees.join("\n");
        for tree in known.iter().filter(|tree| !tree.is_empty()) {
            asked.push_str(&format!("\n^{tree}"));
        }
        asked.push('\n');
        let mut arguments = ["pack-objects", "--revs", "-q"].map(OsString::from).to_vec();
        arguments.push(self.path.join("handed").into());
        let printed = self.git(None)?.output(arguments, Some(asked.into_bytes()))?;
        let name = String::from_utf8_lossy(&printed.out).trim_end().to_owned();
        let pack = self.path.join(format!("handed-{name}.pack"));
        let wrong = |error: io::Error| format!("cannot read {}: {error}", pack.display());
        store.unpack(fs::read(&pack).map_err(wrong)?)
    }

    pub(super) fn commit(
        &self,
        tree: &str,
        parent: &str,
        message: &str,
        who: &Who,
    ) -> Result<String, String> {
        let mut git = self.git(None)?;
        git.env.extend(who.variables());
        let arguments = ["commit-tree", tree, "-p", parent, "-F", "-"].map(OsString::from);
        let made = git.output(arguments.to_vec(), Some(message.as_bytes().to_vec()))?;
        Ok(String::from_utf8_lossy(&made.out).trim_end().to_owned())
    }

    /// Copies what the user's repository lacks of the result into it. Objects that nothing refers to change nothing.
    pub(super) fn hand_objects(
        &self,
        before: &str,
        tree: &str,
        commit: Option<&str>,
        checkout: &Checkout,
    ) -> Result<(), String> {
        let changed = self.raw(&["-r", "-t"], &self.tree_of(before)?, tree)?;
        let inner = changed.iter().filter(|entry| !entry.is_gone() && entry.mode != SUBMODULE);
        let mut hashes: Vec<&str> = inner.map(|entry| entry.hash.as_str()).collect();
        hashes.push(tree);
        hashes.extend(commit);
        hashes.sort_unstable();
        hashes.dedup();
        for hash in &hashes {
            self.hand_object(hash, &checkout.objects)
                .map_err(|error| format!("{}: {error}", checkout.objects.display()))?;
        }
        if self.large().exists() {
            let large = checkout.large_files();
            let wrong = |error: io::Error| format!("{}: {error}", large.folder.display());
            large.keep(&self.large()).map_err(wrong)?;
        }
        checkout.require(&hashes)
    }

    fn hand_object(&self, hash: &str, objects: &Path) -> io::Result<()> {
        let (folder, name) = hash.split_at(2);
        let target = objects.join(folder).join(name);
        let sources = self.sources.iter().map(|source| source.join(folder).join(name));
        let Some(source) = sources.into_iter().find(|source| source.exists()) else {
            return Ok(());
        };
        if target.exists() {
            return Ok(());
        }
        fs::create_dir_all(objects.join(folder))?;
        let next = objects.join(folder).join(format!("tmp_obj_{}", std::process::id()));
        let _ = fs::remove_file(&next);
        let mut file = fs::File::create(&next)?;
        file.write_all(&fs::read(source)?)?;
        file.set_permissions(fs::Permissions::from_mode(0o444))?;
        file.sync_all()?;
        fs::rename(next, target)
    }
}
