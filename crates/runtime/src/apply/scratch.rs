//! A repository of our own in which the result is made: it borrows the objects of the task's checkpoints and of the
//! user's repository, and has neither's settings.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::checkpoint::{Content, Store};
use crate::git::reading::{Unsound, read_back};
use crate::git::who::Who;
use crate::git::{Git, attributes};
use crate::lock::FileLock;
use crate::process::Cancel;
use crate::workspace::text;

use super::checkout::{Checkout, named};
use super::following::Side;
use super::{ApplyError, unfit, unguessable};

/// The repository; removed when dropped.
pub(super) struct Scratch {
    path: PathBuf,
    /// Where objects may be that the user's repository lacks.
    sources: [PathBuf; 2],
    /// The objects of the user's repository.
    borrowed: PathBuf,
    cancel: Cancel,
    /// Says that somebody works in it.
    _in_use: FileLock,
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // It holds nothing that is not elsewhere.
        let _ = fs::remove_dir_all(&self.path);
        let _ = fs::remove_file(self.path.with_extension(LOCK));
    }
}

/// The end of the name of what is locked as long as the repository beside it is used.
const LOCK: &str = "lock";

fn lock(repository: &Path) -> io::Result<Option<FileLock>> {
    let path = repository.with_extension(LOCK);
    Ok(FileLock::take(File::options().create(true).append(true).open(path)?))
}

/// Removes what processes left that were killed.
fn clear_away(run: &Path) {
    for entry in fs::read_dir(run).into_iter().flatten().flatten() {
        let (name, path) = (entry.file_name(), entry.path().with_extension("git"));
        let is_one = [".git", ".lock"].iter().any(|end| name.as_bytes().ends_with(end.as_bytes()));
        if !is_one || !name.as_bytes().starts_with(b"apply-") {
            continue;
        }
        if let Ok(Some(_nobodys)) = lock(&path) {
            let _ = fs::remove_dir_all(&path);
            let _ = fs::remove_file(path.with_extension(LOCK));
        }
    }
}

/// A tree that was made, with what a person should know of it.
pub(super) struct Made {
    pub(super) tree: String,
    /// Paths at which a large file belongs.
    pub(super) large: Vec<OsString>,
    /// Submodules, which stay what they are.
    pub(super) modules: Vec<PathBuf>,
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
    pub(super) old_hash: String,
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

    /// The same change the other way round.
    fn reversed(&self) -> Entry {
        Entry {
            old_mode: self.mode.clone(),
            mode: self.old_mode.clone(),
            old_hash: self.hash.clone(),
            hash: self.old_hash.clone(),
            path: self.path.clone(),
        }
    }

    /// The change that ends with one of its two states.
    pub(super) fn toward(&self, side: Side) -> Entry {
        match side {
            Side::Before => self.reversed(),
            Side::After => self.clone(),
        }
    }

    /// What an index holds of the path before, and after.
    pub(super) fn both(&self) -> [Option<(&str, &str)>; 2] {
        [
            (!self.is_new()).then_some((self.old_mode.as_str(), self.old_hash.as_str())),
            (!self.is_gone()).then_some((self.mode.as_str(), self.hash.as_str())),
        ]
    }

    /// Whether the path was not there before.
    pub(super) fn is_new(&self) -> bool {
        self.old_mode == ABSENT
    }

    /// Whether a submodule is there after.
    pub(super) fn is_module(&self) -> bool {
        self.mode == SUBMODULE
    }

    pub(super) fn is_file(&self) -> bool {
        self.mode.starts_with("100")
    }

    /// The object that is there after, and whose it is.
    fn needed(&self) -> Option<(&str, &OsStr)> {
        let is_here = !self.is_gone() && self.mode != SUBMODULE;
        is_here.then_some((self.hash.as_str(), self.path.as_os_str()))
    }

    /// The same of before.
    fn needed_before(&self) -> Option<(&str, &OsStr)> {
        let is_here = !self.is_new() && self.old_mode != SUBMODULE;
        is_here.then_some((self.old_hash.as_str(), self.path.as_os_str()))
    }
}

/// Puts entries into an index; nothing else of it changes.
pub(super) fn stage(git: &Git, entries: &[Entry]) -> Result<(), String> {
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

/// What `git diff-tree -z --raw --full-index` printed.
pub(super) fn entries(printed: &[u8]) -> Result<Vec<Entry>, String> {
    let mut parts = printed.split(|byte| *byte == 0);
    let mut entries = Vec::new();
    while let (Some(about), Some(path)) = (parts.next(), parts.next()) {
        // `:OLD-MODE NEW-MODE OLD-HASH NEW-HASH LETTER`
        let about = String::from_utf8_lossy(about);
        let words: Vec<&str> = about.trim_start_matches(':').split(' ').collect();
        let [old_mode, mode, old_hash, hash, _] = words.as_slice() else {
            return Err("git compares trees in a way that is not understood".to_owned());
        };
        entries.push(Entry {
            old_mode: (*old_mode).to_owned(),
            mode: (*mode).to_owned(),
            old_hash: (*old_hash).to_owned(),
            hash: (*hash).to_owned(),
            path: OsStr::from_bytes(path).to_owned(),
        });
    }
    Ok(entries)
}

/// Objects by name, each with the path that needs it.
pub(super) type Needed<'a> = BTreeMap<&'a str, &'a OsStr>;

/// What is said of an object that is not what it is called.
pub(super) fn planted(name: &str, needed_by: &OsStr, objects: &Path) -> ApplyError {
    let loose = objects.join(&name[..2]).join(&name[2..]);
    let place = match loose.exists() {
        true => loose.display().to_string(),
        false => format!("in a pack below {}", objects.display()),
    };
    unfit(
        format!(
            "the object {name} is not what its name says, so what was verified cannot be told from it: {} needs it, \
             and it is {place}",
            Path::new(needed_by).display()
        ),
        &[
            "the disk damaged it, or somebody put other content there: see what the task did with drivetrain log",
            "git fsck --full names everything of that kind; take the bad file away and ask again",
        ],
    )
}

/// What the index that git works on holds: mode and hash of each path.
fn in_index(git: &Git) -> Result<BTreeMap<OsString, (String, String)>, String> {
    let staged = git.output(["ls-files", "--stage", "-z"].map(OsString::from).to_vec(), None)?;
    let entries = staged.out.split(|byte| *byte == 0).filter_map(|entry| {
        // `MODE HASH STAGE`, a tab, the path.
        let tab = entry.iter().position(|byte| *byte == b'\t')?;
        let about = String::from_utf8_lossy(&entry[..tab]).into_owned();
        let (mode, rest) = about.split_once(' ')?;
        let hash = rest.split(' ').next()?;
        let path = OsStr::from_bytes(&entry[tab + 1..]).to_owned();
        Some((path, (mode.to_owned(), hash.to_owned())))
    });
    Ok(entries.collect())
}

/// New files of the task that the commit has already, with other content: the worktree was sparse.
fn written_anew<'a>(
    begun: &BTreeMap<OsString, (String, String)>,
    changed: &'a [Entry],
) -> Vec<&'a OsStr> {
    let is_other = |entry: &&Entry| {
        let held = begun.get(entry.path.as_os_str());
        entry.is_new() && held.is_some_and(|(_, hash)| *hash != entry.hash)
    };
    changed.iter().filter(is_other).map(|entry| entry.path.as_os_str()).collect()
}

/// A worktree has no submodules, so whatever lies where one belongs cannot be told from it.
fn refuse_submodules(modules: &[PathBuf], changed: &[Entry]) -> Result<(), ApplyError> {
    let touched =
        |module: &&PathBuf| changed.iter().any(|entry| Path::new(&entry.path).starts_with(module));
    let Some(module) = modules.iter().find(touched) else { return Ok(()) };
    Err(unfit(
        format!(
            "the task changed files where the submodule {} belongs; a commit of this repository cannot hold them",
            module.display()
        ),
        &["drivetrain diff shows them; apply them in the submodule itself with --patch FILE"],
    ))
}

/// How trees are compared, before what is compared.
pub(super) const COMPARE: [&str; 6] =
    ["diff-tree", "-z", "--raw", "--full-index", "--no-renames", "--no-ext-diff"];
const ABSENT: &str = "000000";
const SUBMODULE: &str = "160000";

impl Scratch {
    pub(super) fn new(
        store: &Store<'_>,
        checkout: &Checkout,
        state_home: &Path,
        cancel: &Cancel,
    ) -> Result<Scratch, ApplyError> {
        let run = state_home.join("run");
        clear_away(&run);
        let random = unguessable().map_err(|error| error.to_string())?;
        let path = run.join(format!("apply-{random}.git"));
        let wrong = |error: io::Error| format!("cannot use {}: {error}", path.display());
        fs::create_dir_all(&run).map_err(wrong)?;
        let in_use = lock(&path).map_err(wrong)?;
        let in_use = in_use.ok_or_else(|| format!("{} is another's", path.display()))?;
        fs::create_dir_all(path.join("files")).map_err(wrong)?;
        let objects = path.join("objects");
        let scratch = Scratch {
            sources: [objects.clone(), store.objects()],
            borrowed: checkout.objects.clone(),
            path: path.clone(),
            cancel: cancel.clone(),
            _in_use: in_use,
        };
        let init = ["init", "--quiet", "--bare", "--template="];
        let init = init.map(OsString::from).into_iter().chain([path.clone().into()]);
        // As a variable, which a git that knows one format only does not read.
        let env = vec![("GIT_DEFAULT_REF_FORMAT".to_owned(), "files".to_owned())];
        Git { env, cancel: Some(cancel.clone()), ..Git::default() }.run(init)?;
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

    /// A git that works here, with the attributes that `attend_to` put there.
    pub(super) fn git(&self) -> Result<Git, String> {
        let env = vec![
            ("GIT_DIR".to_owned(), text(&self.path)?),
            ("GIT_WORK_TREE".to_owned(), text(&self.files())?),
            ("GIT_INDEX_FILE".to_owned(), text(&self.path.join("index"))?),
        ];
        let settings = vec!["core.bare=false".to_owned(), "core.safecrlf=false".to_owned()];
        let cwd = Some(self.files());
        Ok(Git { env, settings, cwd, cancel: Some(self.cancel.clone()) })
    }

    /// Has the attributes of a tree or commit count, and no others: as files, which every git reads first.
    pub(super) fn attend_to(&self, tree: &str) -> Result<(), String> {
        let wrong = |error: io::Error| format!("cannot use {}: {error}", self.files().display());
        fs::remove_dir_all(self.files()).map_err(wrong)?;
        fs::create_dir(self.files()).map_err(wrong)?;
        let mut git = self.git()?;
        git.env.push(("GIT_INDEX_FILE".to_owned(), text(&self.path.join("index.attributes"))?));
        attributes::write(&git, tree)
    }

    /// The tree of a commit of the user's repository.
    pub(super) fn tree_of(&self, commit: &str) -> Result<String, String> {
        let name = format!("{commit}^{{tree}}");
        let tree = self.git()?.run(["rev-parse".into(), "--verify".into(), name.into()])?;
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
        let git = self.git()?;
        git.run(["read-tree".into(), commit.into()])?;
        let mut changed = self.compare(base.tree(), frozen.tree())?;
        changed.retain(|entry| entry.old_mode != SUBMODULE);
        let begun = in_index(&git)?;
        let of_module = |(path, (mode, _)): (&OsString, &(String, String))| {
            (mode == SUBMODULE).then(|| PathBuf::from(path))
        };
        let modules: Vec<PathBuf> = begun.iter().filter_map(of_module).collect();
        refuse_submodules(&modules, &changed)?;
        let anew = written_anew(&begun, &changed);
        stage(&git, &changed)?;
        // What a partial clone has not fetched is nothing that the task changed.
        let write_tree = || git.run(["write-tree", "--missing-ok"].map(OsString::from));
        let first = write_tree()?.trim_end().to_owned();
        self.attend_to(&first)?;
        let looked = self.convert(commit, &changed)?;
        stage(&git, &looked.converted)?;
        let tree = write_tree()?.trim_end().to_owned();
        let mut notices = looked.notices;
        if !anew.is_empty() {
            notices.push(format!(
                "the worktree did not have these at first (it is sparse), and they are handed over as the task wrote \
                 them: {}",
                named(anew.into_iter())
            ));
        }
        Ok(Made { tree, large: looked.large, modules, notices })
    }

    /// Reads what two trees, or the trees of two commits, differ in, and refuses what is not what it is called: whatever is
    /// made of it would have an honest name. What is absent git itself asks for, if it needs it.
    pub(super) fn check(&self, from: &str, to: &str) -> Result<(), ApplyError> {
        let changed = self.raw(&["-r", "-t"], from, to)?;
        let tops = self.git()?.run(
            ["rev-parse", &format!("{from}^{{tree}}"), &format!("{to}^{{tree}}")]
                .map(OsString::from),
        )?;
        let mut needed: Needed<'_> = changed.iter().filter_map(Entry::needed).collect();
        needed.extend(changed.iter().filter_map(Entry::needed_before));
        needed.extend(tops.lines().chain([from, to]).map(|name| (name, OsStr::new("the tree"))));
        let names: Vec<&str> = needed.keys().copied().collect();
        for unsound in read_back(&self.git()?, Vec::new(), &names)? {
            if let Unsound::Other(name) = unsound {
                let needed_by = needed.get(name.as_str()).copied().unwrap_or_default();
                return Err(planted(&name, needed_by, &self.borrowed));
            }
        }
        Ok(())
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
        let arguments = COMPARE.iter().chain(how).chain([&from, &to]).map(OsString::from).collect();
        entries(&self.git()?.output(arguments, None)?.out)
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
        let git = self.git()?;
        // Three commits of our own, so that what both began at is what is said here, whatever their histories are.
        let commit = |tree: &str, parent: Option<&str>| {
            let mut words = vec!["commit-tree", tree, "-m", "to be merged"];
            words.extend(parent.iter().flat_map(|parent| ["-p", parent]));
            Ok::<_, String>(git.run(words.iter().map(OsString::from))?.trim_end().to_owned())
        };
        let began = commit(&self.tree_of(base)?, None)?;
        // Conflict marks name what is merged as it is named here.
        let (mine, theirs) = (format!("task-{task}"), format!("branch-{branch}"));
        for (name, tree) in [(&theirs, self.tree_of(into)?.as_str()), (&mine, tree)] {
            let name = format!("refs/heads/{name}");
            git.run(["update-ref", &name, &commit(tree, Some(&began))?].map(OsString::from))?;
        }
        self.attend_to(into)?;
        let arguments =
            ["merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", &theirs, &mine];
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
        let pack = self.pack(&["--revs"], asked)?.with_extension("pack");
        let wrong = |error: io::Error| format!("cannot read {}: {error}", pack.display());
        store.unpack(fs::read(&pack).map_err(wrong)?)
    }

    /// Makes a pack of what is asked for; gives where it is, without the end of its name.
    fn pack(&self, how: &[&str], asked: String) -> Result<PathBuf, String> {
        let mut arguments: Vec<OsString> = vec!["pack-objects".into(), "-q".into()];
        arguments.extend(how.iter().map(OsString::from));
        arguments.push(self.path.join("pack").into());
        let printed = self.git()?.output(arguments, Some(asked.into_bytes()))?;
        let name = String::from_utf8_lossy(&printed.out).trim_end().to_owned();
        Ok(self.path.join(format!("pack-{name}")))
    }

    pub(super) fn commit(
        &self,
        tree: &str,
        parent: &str,
        message: &str,
        who: &Who,
    ) -> Result<String, String> {
        let mut git = self.git()?;
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
    ) -> Result<(), ApplyError> {
        let changed = self.raw(&["-r", "-t"], &self.tree_of(before)?, tree)?;
        let mut needed: Needed<'_> = changed.iter().filter_map(Entry::needed).collect();
        needed.insert(tree, OsStr::new("the tree"));
        needed.extend(commit.map(|commit| (commit, OsStr::new("the commit"))));
        let wrong = |error: io::Error| format!("{}: {error}", checkout.objects.display());
        let mut packed = Vec::new();
        for hash in needed.keys() {
            if !self.hand_object(hash, &checkout.objects).map_err(wrong)? {
                packed.push(*hash);
            }
        }
        // Git keeps what is large in packs only, and the task may have brought back what the user has already.
        let packed = checkout.missing(&packed)?;
        if !packed.is_empty() {
            let pack = self.pack(&[], packed.join("\n") + "\n")?;
            // What makes git see it comes last.
            for end in ["pack", "idx"] {
                let pack = pack.with_extension(end);
                let name = pack.file_name().unwrap_or_default();
                hand_file(&pack, &checkout.objects.join("pack"), name).map_err(wrong)?;
            }
        }
        if self.large().exists() {
            let large = checkout.large_files();
            let wrong = |error: io::Error| format!("{}: {error}", large.folder.display());
            large.keep(&self.large()).map_err(wrong)?;
        }
        checkout.require(&needed)
    }

    /// Copies a loose object; false if it is not here as one.
    fn hand_object(&self, hash: &str, objects: &Path) -> io::Result<bool> {
        let (folder, name) = hash.split_at(2);
        let sources = self.sources.iter().map(|source| source.join(folder).join(name));
        let Some(source) = sources.into_iter().find(|source| source.exists()) else {
            return Ok(false);
        };
        hand_file(&source, &objects.join(folder), OsStr::new(name))?;
        Ok(true)
    }
}

/// Copies a file into a folder of the user's objects, whole or not at all; one that is there stays.
fn hand_file(source: &Path, folder: &Path, name: &OsStr) -> io::Result<()> {
    let target = folder.join(name);
    if target.exists() {
        return Ok(());
    }
    fs::create_dir_all(folder)?;
    // Git takes what begins like this for left over, once it is old.
    let next = folder.join(format!("tmp_obj_{}", unguessable()?));
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o444).open(&next)?;
    let mut write = || {
        io::copy(&mut File::open(source)?, &mut file)?;
        file.sync_all()?;
        fs::rename(&next, &target)
    };
    write().inspect_err(|_| {
        let _ = fs::remove_file(&next);
    })
}
