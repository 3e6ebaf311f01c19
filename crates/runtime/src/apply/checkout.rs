//! The user's side: what stands in the way, and the two steps that change something, the branch and the files.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::git::Git;
use crate::git::reading::{Unsound, read_back};
use crate::git::who::{self, Who};
use crate::process::{Cancel, Containment, ProcessSpec, Streams, run};
use crate::workspace::Repository;

use super::following::Side;
use super::large_files::{self, LargeFiles};
use super::scratch::{Entry, Needed, planted, stage};
use super::{Applied, ApplyError, How, Note, Wish, attributes, place as worktrees, refused, unfit};

/// How long the user's own hooks may take.
const HOOKS: Duration = Duration::from_secs(600);
/// How many paths are named before the rest is only counted.
const NAMED: usize = 8;

/// The user's checkout and the branch that gets the changes.
pub(super) struct Checkout {
    repository: Repository,
    /// The branch, or `HEAD` where none is checked out.
    pub(super) branch: String,
    /// Its last commit; none if it is new.
    pub(super) tip: Option<String>,
    /// Whether that branch is the one that is checked out.
    pub(super) checked_out: bool,
    /// Where the repository keeps its objects.
    pub(super) objects: PathBuf,
    /// Attributes that the repository has beside those in its files.
    pub(super) attributes: PathBuf,
}

impl Checkout {
    pub(super) fn open(
        mut repository: Repository,
        wish: &Wish<'_>,
    ) -> Result<Checkout, ApplyError> {
        let format = repository.git(["rev-parse".into(), "--show-object-format".into()])?;
        if format.trim_end() != "sha1" {
            return Err(unfit(
                format!("the repository names objects by {}, checkpoints by sha1", format.trim()),
                &["take the changes with --patch FILE, and git apply"],
            ));
        }
        // The user's own wishes for line ends count where the user's files are written.
        for name in ["core.autocrlf", "core.eol"] {
            if let Some(value) = setting(&repository, name) {
                repository.git.settings.push(format!("{name}={value}"));
            }
        }
        let objects = place(&repository, "objects")?;
        let attributes = place(&repository, "info/attributes")?;
        // Not the short name: where a tag has the same, git makes another of it.
        let current = repository.output(["symbolic-ref", "--quiet", "HEAD"].map(OsString::from));
        let current = current.map_or("HEAD".to_owned(), |name| {
            let name = String::from_utf8_lossy(&name.out);
            let name = name.trim_end();
            name.strip_prefix("refs/heads/").unwrap_or(name).to_owned()
        });
        if wish.onto.is_none() && current == "HEAD" && is_rebased(&repository) {
            return Err(refused(
                "a rebase is under way, which would lose the commit if it is given up",
                &["end it first: git rebase --continue, or --abort"],
            ));
        }
        if wish.onto.is_none() && current == "HEAD" && is_bisected(&repository) {
            return Err(refused(
                "a bisection is under way, whose end leaves the commit on no branch",
                &[
                    "end it first: git bisect reset",
                    "--onto BRANCH makes the commit on a branch of yours",
                ],
            ));
        }
        let (branch, checked_out, tip) = match wish.onto {
            None => (current, true, Some(repository.head.clone())),
            Some(onto) if onto == current => (current, true, Some(repository.head.clone())),
            Some(onto) => {
                let tip = other_branch(&repository, onto)?;
                (onto.to_owned(), false, tip)
            }
        };
        Ok(Checkout { repository, branch, tip, checked_out, objects, attributes })
    }

    /// What is left to be done, or was done, by what was written down. None: begin anew.
    pub(super) fn taken_up(
        &self,
        wish: &Wish<'_>,
        note: &Note,
        state_home: &Path,
    ) -> Result<Option<Applied>, ApplyError> {
        let applied =
            |how| Applied { how, branch: self.branch.clone(), paths: 0, notices: Vec::new() };
        let tip = self.tip.as_deref();
        // The commit may have come to this branch from the one that it was made on.
        if let Some(commit) = note.commit.as_deref().filter(|_| note.done) {
            let is_there = tip == Some(commit) || tip.is_some_and(|tip| self.holds(commit, tip));
            return Ok(is_there.then(|| applied(How::Already(Some(commit.to_owned())))));
        }
        if note.branch != self.branch {
            return Ok(None);
        }
        if let Some(commit) = note.commit.as_deref() {
            if tip != Some(commit) {
                return Ok(None);
            }
        } else if note.done {
            let is_there = wish.message.is_none() && self.is_staged(note)?;
            return Ok(is_there.then(|| applied(How::Already(None))));
        } else if tip != note.before.as_deref() {
            // The user's own git went on by itself after whoever waited for it was killed.
            let Some(tip) = tip.filter(|tip| self.is_of(tip, &note.tree)) else { return Ok(None) };
            let commit = Some(tip.to_owned());
            let done = Note { done: true, commit: commit.clone(), ..note.clone() };
            done.write(wish.task, state_home)?;
            return Ok(Some(applied(How::Already(commit))));
        } else if wish.message.is_some() {
            // Cut short before there was a commit: it is taken back, and begun anew.
            self.follow(note, Side::Before, state_home)?;
            return Ok(None);
        }
        // The branch moved, or was not to; the files did not all follow.
        if note.checked_out && !self.follow(note, Side::After, state_home)? {
            return Ok(None);
        }
        Note { done: true, ..note.clone() }.write(wish.task, state_home)?;
        Ok(Some(applied(note.commit.clone().map_or(How::Staged, How::Committed))))
    }

    fn holds(&self, commit: &str, tip: &str) -> bool {
        let asked = ["merge-base", "--is-ancestor", commit, tip].map(OsString::from);
        self.repository.git(asked).is_ok()
    }

    /// Whether the index has what was put into it.
    fn is_staged(&self, note: &Note) -> Result<bool, String> {
        let Some(before) =
            note.before.as_deref().filter(|before| self.tip.as_deref() == Some(before))
        else {
            return Ok(false);
        };
        let changed = self.differences(before, &note.tree)?;
        let found = self.in_index(&changed)?;
        Ok(changed.iter().all(|entry| {
            let held = found.get(entry.path.as_os_str()).map(|(mode, hash)| (&**mode, &**hash));
            entry.both()[1] == held
        }))
    }

    /// Whether the branch has a commit.
    pub(super) fn has(&self, commit: &str) -> bool {
        self.tip.as_deref().is_some_and(|tip| self.holds(commit, tip))
    }

    /// A branch of the user's whose last commit is this one.
    pub(super) fn branch_at(&self, commit: &str) -> Option<String> {
        let points = format!("--points-at={commit}");
        let words = ["for-each-ref", "--format=%(refname:short)", &points, "refs/heads"];
        let listed = self.repository.output(words.map(OsString::from)).ok()?.out;
        let listed = String::from_utf8_lossy(&listed);
        listed.lines().find(|name| !name.starts_with("drivetrain/")).map(str::to_owned)
    }

    /// The last commit of a branch of the repository; none if there is no such branch.
    pub(super) fn commit_of(&self, branch: &str) -> Option<String> {
        let name = format!("refs/heads/{branch}^{{commit}}");
        let words = ["rev-parse", "--verify", "--quiet", &name].map(OsString::from);
        Some(self.repository.git(words).ok()?.trim_end().to_owned())
    }

    /// Whether a commit holds exactly this tree.
    fn is_of(&self, commit: &str, tree: &str) -> bool {
        let asked = ["rev-parse", "--verify", &format!("{commit}^{{tree}}")].map(OsString::from);
        self.repository.git(asked).is_ok_and(|said| said.trim_end() == tree)
    }

    pub(super) fn top(&self) -> &Path {
        &self.repository.top
    }

    pub(super) fn git(&self) -> &Git {
        &self.repository.git
    }

    /// Refuses what would lose something of the user's.
    pub(super) fn ready_for(&self, wish: &Wish<'_>, changed: &[Entry]) -> Result<(), ApplyError> {
        let asked = [
            "-c",
            "status.submoduleSummary=false",
            "status",
            "--porcelain",
            "-z",
            "--untracked-files=no",
            "--no-renames",
            // A submodule has settings of its own, and looking into it would obey them.
            "--ignore-submodules=dirty",
        ];
        let said = self.repository.output(asked.map(OsString::from))?.out;
        let said = || said.split(|byte| *byte == 0).filter(|entry| entry.len() > 3);
        let dirty: Vec<&OsStr> = said().map(|entry| OsStr::from_bytes(&entry[3..])).collect();
        // Whether a file that has a filter was changed only the filter could say. What is left alone need not be known.
        let in_files = said().filter(|entry| entry.starts_with(b" M"));
        let unknown = self.filtered(in_files.map(|entry| &entry[3..]))?;
        let changes: Vec<&OsStr> =
            dirty.iter().copied().filter(|path| !unknown.contains_key(*path)).collect();
        if !changes.is_empty() && !wish.beside_changes {
            return Err(refused(
                format!(
                    "there are uncommitted changes in {}: {}",
                    self.repository.top.display(),
                    named(changes.iter().copied())
                ),
                &[
                    "commit or stash them",
                    "--beside-changes leaves them as they are, if no file is the same",
                    "--onto NEW-BRANCH touches neither your files nor your branch",
                ],
            ));
        }
        let mine: BTreeSet<&OsStr> = changed.iter().map(|entry| entry.path.as_os_str()).collect();
        let both: Vec<&OsStr> = dirty.iter().copied().filter(|path| mine.contains(path)).collect();
        if !both.is_empty() {
            let mut hints = vec!["commit or stash yours first"];
            if both.iter().any(|path| unknown.contains_key(*path)) {
                hints.push(
                    "if you have none: git status has git see it, whose filters are not run here",
                );
            }
            return Err(refused(
                format!(
                    "your uncommitted changes and those of the task are in the same files: {}",
                    named(both.into_iter())
                ),
                &hints,
            ));
        }
        if wish.by_users_git() {
            let staged = said().filter(|entry| entry[0] != b' ');
            self.refuse_for_hooks(staged.map(|entry| OsStr::from_bytes(&entry[3..])), changed)?;
        }
        let unseen = self.unseen(changed)?;
        if let Some((_, back)) = unseen.first() {
            return Err(refused(
                format!(
                    "the task changed files of which you have changes that git was told not to look at: {}",
                    named(unseen.iter().map(|(path, _)| *path))
                ),
                &[&format!(
                    "git update-index {back} FILE has git see yours; commit or stash them, or put them away"
                )],
            ));
        }
        self.refuse_covered(changed)?;
        Ok(())
    }

    /// What the user's own git would do beside making the commit that was asked for.
    fn refuse_for_hooks<'a>(
        &self,
        staged: impl Iterator<Item = &'a OsStr>,
        changed: &[Entry],
    ) -> Result<(), ApplyError> {
        let staged: Vec<&OsStr> = staged.collect();
        if !staged.is_empty() {
            return Err(refused(
                format!(
                    "your own git would commit what you have staged too: {}",
                    named(staged.into_iter())
                ),
                &["commit it first, or take it out of the index: git restore --staged FILE"],
            ));
        }
        if let Some((what, give_up)) = self.under_way() {
            return Err(refused(
                format!("{what} is under way, and your own git would conclude it with this commit"),
                &[&format!("conclude it first (git commit), or give it up ({give_up})")],
            ));
        }
        let own = self.hooks_among(changed)?;
        if own.is_empty() {
            return Ok(());
        }
        Err(refused(
            format!("the task changed the hooks that would run: {}", named(own.into_iter())),
            &["look at them with drivetrain diff; without --hooks none of them runs"],
        ))
    }

    /// What the user began and did not end that the next commit of their git would end, and how it is given up.
    fn under_way(&self) -> Option<(&'static str, &'static str)> {
        let kinds = [
            ("MERGE_HEAD", "a merge", "git merge --abort"),
            ("CHERRY_PICK_HEAD", "a cherry-pick", "git cherry-pick --abort"),
            ("REVERT_HEAD", "a revert", "git revert --abort"),
        ];
        let is_there = |name| place(&self.repository, name).is_ok_and(|place| place.exists());
        let found = kinds.into_iter().find(|(name, ..)| is_there(name));
        found.map(|(_, what, give_up)| (what, give_up))
    }

    /// The paths among these that git would run as hooks, or that its hooks are made to run.
    fn hooks_among<'a>(&self, changed: &'a [Entry]) -> Result<Vec<&'a OsStr>, String> {
        let folder =
            who::hooks_of(&self.repository.top).ok_or("git does not say where hooks are")?;
        let mut folders = vec![really(&folder)];
        // Husky has git look into a folder of its own, whose hooks call those of the same name above.
        if folder.file_name() == Some(OsStr::new("_")) {
            folders.extend(folder.parent().map(really));
        }
        let files = fs::read_dir(&folder).into_iter().flatten().flatten();
        let files: Vec<PathBuf> = files.map(|file| really(&file.path())).collect();
        let is_hook = |path: &&OsStr| {
            let path = really(&self.repository.top.join(path));
            folders.iter().any(|folder| path.starts_with(folder)) || files.contains(&path)
        };
        Ok(changed.iter().map(|entry| entry.path.as_os_str()).filter(is_hook).collect())
    }

    /// Those of these paths in which the user has changes that git was told not to look at, with how it is told to.
    fn unseen<'a>(&self, changed: &'a [Entry]) -> Result<Vec<(&'a OsStr, &'static str)>, String> {
        let listed = self.repository.output(["ls-files", "-v", "-z"].map(OsString::from))?.out;
        let mut flags = BTreeMap::new();
        for line in listed.split(|byte| *byte == 0).filter(|line| line.len() > 2) {
            // A letter for each file, small where changes are not looked for.
            match line[0] {
                b'S' => flags.insert(&line[2..], "--no-skip-worktree"),
                flag if flag.is_ascii_lowercase() => {
                    flags.insert(&line[2..], "--no-assume-unchanged")
                }
                _ => None,
            };
        }
        let mut unseen = Vec::new();
        for entry in changed {
            let Some(back) = flags.get(entry.path.as_bytes()) else { continue };
            let Ok(meta) = fs::symlink_metadata(self.top().join(&entry.path)) else { continue };
            let words = ["hash-object", "--"].map(OsString::from).into_iter();
            let is_as_it_was = meta.is_file()
                && self
                    .repository
                    .git(words.chain([entry.path.clone()]))
                    .is_ok_and(|hash| hash.trim_end() == entry.old_hash);
            if !is_as_it_was {
                unseen.push((entry.path.as_os_str(), *back));
            }
        }
        Ok(unseen)
    }

    /// Those of these paths that have a filter, with it.
    fn filtered<'a>(
        &self,
        paths: impl Iterator<Item = &'a [u8]>,
    ) -> Result<BTreeMap<OsString, Vec<u8>>, String> {
        let asked = paths.collect::<Vec<_>>().join(&0);
        if asked.is_empty() {
            return Ok(BTreeMap::new());
        }
        let words = ["check-attr", "-z", "--stdin", "filter"].map(OsString::from);
        let place: [OsString; 2] = ["-C".into(), self.repository.top.clone().into()];
        let printed =
            self.repository.git.output(place.into_iter().chain(words).collect(), Some(asked))?;
        let of_path = attributes::set(&printed.out).into_iter();
        let filters = of_path.filter_map(|(path, set)| {
            Some((path.to_owned(), set.into_values().next()?.to_owned()))
        });
        Ok(filters.collect())
    }

    /// The paths among these at which a large file belongs.
    pub(super) fn large_among(&self, entries: &[Entry]) -> Result<BTreeSet<OsString>, String> {
        let filters = self.filtered(entries.iter().map(|entry| entry.path.as_bytes()))?;
        let large = filters.into_iter().filter(|(_, filter)| filter == large_files::FILTER);
        Ok(large.map(|(path, _)| path).collect())
    }

    /// Where the content of large files is kept.
    pub(super) fn large_files(&self) -> LargeFiles {
        let common = self.objects.parent().unwrap_or(&self.objects);
        let folder = setting(&self.repository, "lfs.storage").unwrap_or_else(|| "lfs".to_owned());
        LargeFiles { folder: common.join(folder) }
    }

    /// Gives large files their content where the files followed; what a person should know, if some have none.
    pub(super) fn fill(&self, changed: &[Entry], large: &[OsString]) -> Option<String> {
        if !self.checked_out || large.is_empty() {
            return None;
        }
        let store = self.large_files();
        let (mut filled, mut left) = (Vec::new(), Vec::new());
        for entry in changed.iter().filter(|entry| entry.is_file() && large.contains(&entry.path)) {
            match store.fill(&self.repository.top.join(&entry.path)) {
                Ok(true) => filled.push(entry.clone()),
                Ok(false) | Err(_) => left.push(entry.path.as_os_str()),
            }
        }
        // The index knows the size of the pointer, by which git would take the file for changed without looking into it.
        let forgotten = stage(&self.git_at_top(), &filled);
        if left.is_empty() && forgotten.is_ok() {
            return None;
        }
        let paths = if left.is_empty() {
            filled.iter().map(|entry| entry.path.as_os_str()).collect()
        } else {
            left
        };
        Some(format!(
            "git lfs pull brings the content of large files: {}",
            named(paths.into_iter())
        ))
    }

    /// Files of the user that git does not know are in nobody's history: none is overwritten, ignored or not.
    fn refuse_covered(&self, changed: &[Entry]) -> Result<(), ApplyError> {
        let gone: BTreeSet<&Path> = changed
            .iter()
            .filter(|entry| entry.is_gone())
            .map(|entry| Path::new(&entry.path))
            .collect();
        let mut covered: Vec<PathBuf> = Vec::new();
        for entry in changed.iter().filter(|entry| entry.is_new()) {
            let path = Path::new(&entry.path);
            if let Some(first) = in_the_way(&self.repository.top, path, &gone) {
                covered.push(first);
            }
        }
        if covered.is_empty() {
            return Ok(());
        }
        covered.sort();
        covered.dedup();
        Err(refused(
            format!(
                "files that git does not know are in the way: {}",
                named(covered.iter().map(|path| path.as_os_str()))
            ),
            &["move them away; nothing of yours is overwritten"],
        ))
    }

    /// Moves the branch, then has the files follow. Gives the new commit, if there is one.
    pub(super) fn perform(
        &self,
        wish: &Wish<'_>,
        note: &Note,
        state_home: &Path,
        cancel: &Cancel,
    ) -> Result<Option<String>, ApplyError> {
        let git = |words: &[&str]| self.repository.git(words.iter().map(OsString::from));
        if !self.checked_out {
            let Some(commit) = note.commit.as_deref() else {
                return Err(refused(
                    "only a commit can go to a branch that is not checked out",
                    &[],
                ));
            };
            let name = format!("refs/heads/{}", self.branch);
            let why = format!("drivetrain apply {}", wish.task);
            let before = self.tip.clone().unwrap_or_else(|| "0".repeat(40));
            git(&["update-ref", "-m", &why, &name, commit, &before])?;
            return Ok(Some(commit.to_owned()));
        }
        let before = self.repository.head.as_str();
        if wish.by_users_git() {
            if let Err(reason) = git(&["read-tree", "-m", "-u", before, &note.tree]) {
                return Err(self.taken_back(note, &reason, state_home));
            }
            let message = wish.message.unwrap_or_default();
            return self.committed_by_the_user(message, note, cancel).map(Some);
        }
        if let Some(commit) = note.commit.as_deref() {
            let why = format!("drivetrain apply {}", wish.task);
            git(&["update-ref", "-m", &why, "HEAD", commit, before]).map_err(
                |reason| match self.head() {
                    Ok(head) if head != before => refused(
                        format!("{} was moved by somebody else meanwhile", self.branch),
                        &["nothing was changed; ask again"],
                    ),
                    Ok(_) | Err(_) => ApplyError::Failed(reason),
                },
            )?;
        }
        match git(&["read-tree", "-m", "-u", before, &note.tree]) {
            Ok(_) => Ok(note.commit.clone()),
            Err(reason) => Err(self.taken_back(note, &reason, state_home)),
        }
    }

    /// Sees everything that git itself would refuse before anything moves.
    pub(super) fn try_out(&self, tree: &str) -> Result<(), String> {
        let git = |words: &[&str]| self.repository.git(words.iter().map(OsString::from));
        // A file that was saved again as it was would be taken for a changed one; those that differ are named already.
        let _ = git(&["update-index", "-q", "--refresh"]);
        git(&["read-tree", "-m", "-u", "-n", &self.repository.head, tree]).map(drop)
    }

    /// What is to be said where the files could not follow. They go back before the branch does: on a disk that is full
    /// that makes room, and what cannot go back can still be completed.
    fn taken_back(&self, note: &Note, reason: &str, state_home: &Path) -> ApplyError {
        let before = self.repository.head.as_str();
        let branch = || match note.commit.as_deref() {
            Some(commit) => {
                let why = "drivetrain apply: taken back";
                let words = ["update-ref", "-m", why, "HEAD", before, commit];
                self.repository.git(words.map(OsString::from)).map(drop)
            }
            None => Ok(()),
        };
        let files = self.follow(note, Side::Before, state_home).map_err(|error| error.to_string());
        let top = self.repository.top.display();
        let reason = format!("the files of {top} could not be written: {reason}");
        ApplyError::Failed(match files.and_then(|_| branch()) {
            Ok(()) => format!("{reason}\neverything is as it was"),
            Err(error) => format!(
                "{reason}\nwhat was begun could not be taken back: {error}\nmend that (make room, if the disk is full) and \
                 ask again, which completes it; commit nothing before"
            ),
        })
    }

    /// Has the user's git make the commit. If it does not, exactly what was put into index and files is taken back: it was
    /// ours a moment ago, whatever a hook has made of it since.
    fn committed_by_the_user(
        &self,
        message: &str,
        note: &Note,
        cancel: &Cancel,
    ) -> Result<String, ApplyError> {
        let before = self.repository.head.as_str();
        let reason = match self.commit_as_the_user(message, cancel) {
            Ok(commit) => return Ok(commit),
            Err(reason) => reason,
        };
        // A hook that runs after the commit may have been stopped, or have taken too long.
        if let Ok(head) = self.head()
            && head != before
        {
            return Ok(head);
        }
        let taken_back = self
            .differences(before, &note.tree)
            .and_then(|changed| self.put(&changed, Side::Before));
        let reason = format!("your own git did not make the commit: {reason}");
        match taken_back {
            Ok(()) => {
                Err(refused(reason, &["everything is as it was; without --hooks no hook runs"]))
            }
            Err(error) => Err(ApplyError::Failed(format!(
                "{reason}\nwhat was put into your files and index could not be taken back: {error}\nasking again takes it \
                 back first"
            ))),
        }
    }

    /// What a person should know of a commit that the user's git made: hooks may have changed what is in it.
    pub(super) fn made_by_hooks(&self, commit: &str, tree: &str) -> Result<Option<String>, String> {
        let others = self.differences(commit, tree)?;
        Ok((!others.is_empty()).then(|| {
            format!(
                "a hook changed files on their way into the commit, which is not what was verified there: {}",
                named(others.iter().map(|entry| entry.path.as_os_str()))
            )
        }))
    }

    fn head(&self) -> Result<String, String> {
        let head = ["rev-parse", "--verify", "HEAD^{commit}"].map(OsString::from);
        Ok(self.repository.git(head)?.trim_end().to_owned())
    }

    /// With all that the user's settings ask for: hooks, signatures, editors apart.
    fn commit_as_the_user(&self, message: &str, cancel: &Cancel) -> Result<String, String> {
        let spec = ProcessSpec {
            cwd: Some(self.repository.top.clone()),
            stdin: Some(message.as_bytes().to_vec()),
            timeout: Some(HOOKS),
            streams: Streams::Separate,
            mark: "git".to_owned(),
            containment: Containment::Group,
            env: who::variables(),
            secrets: who::to_sign_with(),
            ..ProcessSpec::new(["git", "commit", "--quiet", "--file=-"])
        };
        let finished = run(spec, cancel).map_err(|error| error.to_string())?;
        if finished.cancelled {
            return Err("it was stopped".to_owned());
        }
        if finished.timed_out {
            return Err(format!("it took longer than {HOOKS:?}"));
        }
        if finished.exit != Some(0) {
            let said = finished.output.text().trim_end().to_owned();
            return Err(if said.is_empty() {
                "a hook said no, without a word".to_owned()
            } else {
                said
            });
        }
        self.head()
    }

    /// Who commits are by, as the user's git would say.
    pub(super) fn who(&self) -> Result<Who, ApplyError> {
        Who::of_the_user(&self.repository.top).ok_or_else(|| {
            refused(
                "git does not know who you are, so there is nobody to make the commit in the name of",
                &[
                    "git config --global user.name NAME, and user.email ADDRESS",
                    "--no-commit leaves the changes uncommitted",
                ],
            )
        })
    }

    /// Those of these objects that the repository has not.
    pub(super) fn missing(&self, names: &[&str]) -> Result<Vec<String>, String> {
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let place: [OsString; 2] = ["-C".into(), self.repository.top.clone().into()];
        let words = place.into_iter().chain(["cat-file", "--batch-check"].map(OsString::from));
        let asked = names.join("\n") + "\n";
        let printed = self.repository.git.output(words.collect(), Some(asked.into_bytes()))?;
        let said = String::from_utf8_lossy(&printed.out).into_owned();
        let missing = said.lines().filter_map(|line| line.strip_suffix(" missing"));
        Ok(missing.map(str::to_owned).collect())
    }

    /// Makes sure that every object is there, and what it is called, before anything refers to it.
    pub(super) fn require(&self, needed: &Needed<'_>) -> Result<(), ApplyError> {
        let names: Vec<&str> = needed.keys().copied().collect();
        let place: Vec<OsString> = vec!["-C".into(), self.repository.top.clone().into()];
        match read_back(&self.repository.git, place, &names)?.first() {
            None => Ok(()),
            Some(Unsound::Missing(name)) => Err(format!("the object {name} did not arrive").into()),
            Some(Unsound::Other(name)) => {
                let needed_by = needed.get(name.as_str()).copied().unwrap_or_default();
                Err(planted(name, needed_by, &self.objects))
            }
        }
    }
}

/// The last commit of a branch that is not checked out here; none if there is no such branch.
fn other_branch(repository: &Repository, onto: &str) -> Result<Option<String>, ApplyError> {
    let named = ["check-ref-format", "--branch", onto].map(OsString::from);
    // Git would make a branch of that very name, beside the one that is meant.
    let begins = |name: &&str| onto.starts_with(*name);
    let is_odd = ["-", "refs/", "drivetrain/"].iter().any(begins) || onto == "@";
    if is_odd || repository.git(named).is_err() {
        return Err(refused(
            format!("{onto:?} cannot be the name of a branch of yours"),
            &["a name such as main; those that begin with drivetrain/ are of tasks"],
        ));
    }
    let remote = ["show-ref", "--verify", "--quiet", &format!("refs/remotes/{onto}")];
    if repository.git(remote.map(OsString::from)).is_ok() {
        return Err(refused(
            format!("{onto} is a branch of a remote, which only its owner moves"),
            &["name a branch of yours, and push it"],
        ));
    }
    if let Some(what) = worktrees::held_by(repository, onto) {
        return Err(refused(
            format!("{what} of {onto} is under way, whose end sets the branch anew"),
            &["end it first, or name another branch"],
        ));
    }
    if let Some(place) = worktrees::checked_out(repository, onto) {
        let place = place.display();
        return Err(refused(
            format!("{onto} is checked out in {place}"),
            &[&format!("go there and ask again (cd {place}), or name another branch")],
        ));
    }
    let name = format!("refs/heads/{onto}^{{commit}}");
    let tip = repository.git(["rev-parse", "--verify", "--quiet", &name].map(OsString::from));
    Ok(tip.ok().map(|tip| tip.trim_end().to_owned()))
}

fn is_rebased(repository: &Repository) -> bool {
    let is_there = |name| place(repository, name).is_ok_and(|place| place.exists());
    ["rebase-merge", "rebase-apply"].into_iter().any(is_there)
}

fn is_bisected(repository: &Repository) -> bool {
    place(repository, "BISECT_LOG").is_ok_and(|place| place.exists())
}

/// Where git has something of a repository.
fn place(repository: &Repository, name: &str) -> Result<PathBuf, String> {
    let found = repository.git(["rev-parse".into(), "--git-path".into(), name.into()])?;
    Ok(repository.top.join(found.strip_suffix('\n').unwrap_or(&found)))
}

/// Where a path leads, whether or not something is there.
fn really(path: &Path) -> PathBuf {
    if let Ok(real) = path.canonicalize() {
        return real;
    }
    let path = match (path.parent(), fs::read_link(path)) {
        (Some(folder), Ok(target)) => folder.join(target),
        _ => path.to_owned(),
    };
    match (path.parent().map(Path::canonicalize), path.file_name()) {
        (Some(Ok(folder)), Some(name)) => folder.join(name),
        _ => path,
    }
}

/// A setting of the user's, as data: the repository's own, else the user's.
fn setting(repository: &Repository, name: &str) -> Option<String> {
    let local = ["config", "--local", "--includes", "--get", name].map(OsString::from);
    let global = ["config", "--global", "--includes", "--get", name].map(OsString::from);
    let found = repository.git(local).or_else(|_| repository.git(global)).ok()?;
    let found = found.trim_end_matches('\n').to_owned();
    (!found.is_empty()).then_some(found)
}

/// What of the user's lies where a new file would be written.
pub(super) fn in_the_way(top: &Path, path: &Path, gone: &BTreeSet<&Path>) -> Option<PathBuf> {
    let mut place = PathBuf::new();
    for part in path.components() {
        place.push(part);
        let Ok(meta) = fs::symlink_metadata(top.join(&place)) else { return None };
        if gone.contains(place.as_path()) {
            // It is git's, and goes: whatever is below a link is not below it.
            return None;
        }
        if !meta.is_dir() {
            return Some(place);
        }
    }
    // A folder stands where the file belongs: everything in it must be git's, and go.
    let mut open = vec![place];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(top.join(&folder)).ok()?.flatten() {
            let inner = folder.join(entry.file_name());
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                open.push(inner);
            } else if !gone.contains(inner.as_path()) {
                return Some(inner);
            }
        }
    }
    None
}

/// Paths as git lists them with `-z`.
pub(super) fn paths_in(list: &[u8]) -> BTreeSet<OsString> {
    let names = list.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    names.map(|name| OsStr::from_bytes(name).to_owned()).collect()
}

pub(super) fn named<'a>(paths: impl ExactSizeIterator<Item = &'a OsStr>) -> String {
    let more = paths.len().saturating_sub(NAMED);
    let first: Vec<String> =
        paths.take(NAMED).map(|path| Path::new(path).display().to_string()).collect();
    let first = first.join(", ");
    if more == 0 { first } else { format!("{first} and {more} more") }
}
