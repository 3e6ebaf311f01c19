//! What of a repository a worker's own git needs, found as data: git itself is not asked, and nothing is believed that
//! the workspace alone says. Commits work; what makes git run programs (settings, hooks, filters) stays as it is.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::masks;
use crate::git::objects::object_folders;
use crate::git::who::{Person, Who};

/// What all working trees of a repository have in common, by its name: what git itself shares, and what its companions
/// keep. All else is the main working tree's own, and much of that is there for a moment only.
const SHARED: [&str; 19] = [
    "HEAD",
    "annex",
    "branches",
    "common",
    "config",
    "description",
    "hooks",
    "info",
    "lfs",
    "logs",
    "modules",
    "objects",
    "packed-refs",
    "refs",
    "reftable",
    "remotes",
    "rr-cache",
    "shallow",
    "worktrees",
];

/// Words that settings of the plain kind do not have.
const NOT_PLAIN: [&str; 4] = ["[extensions", "[filter", "[include", "worktree="];

/// What has git give a new working tree its files. A reset, which git itself begins one with, would also write down that it
/// was one, and lock all that it might have changed.
pub(crate) const FILL: [&str; 5] =
    ["read-tree", "--reset", "-u", "--no-recurse-submodules", "HEAD"];

/// The repository that a folder is in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Repository {
    /// The folder that holds `.git`.
    pub(crate) top: PathBuf,
    /// Where this working tree's own state is.
    pub(super) own: PathBuf,
    /// Where everything is that all working trees share.
    pub(crate) common: PathBuf,
}

impl Repository {
    /// The repository of a folder, if it is one that can be written safely: a folder `.git`, or a file `.git` of a
    /// working tree that its repository knows. A forged `.git` leads nowhere.
    pub(crate) fn find(folder: &Path) -> Option<Repository> {
        let top = top(folder)?;
        let owner = fs::metadata(folder).ok()?.uid();
        let git = top.join(".git");
        let meta = fs::symlink_metadata(&git).ok()?;
        // Somebody else's repository around a shared folder is not this folder's.
        if meta.uid() != owner || fs::metadata(top).ok()?.uid() != owner {
            return None;
        }
        if meta.is_dir() {
            let own = git.canonicalize().ok()?;
            return Some(Repository { top: top.to_owned(), common: own.clone(), own });
        }
        if !meta.is_file() {
            return None;
        }
        let own = follow(&git, "gitdir: ", top)?;
        let common = follow(&own.join("commondir"), "", &own)?;
        // The repository must name this very working tree, and have its state where it keeps such state.
        let back = fs::read_to_string(own.join("gitdir")).ok()?;
        let back = Path::new(back.trim_end_matches('\n')).canonicalize().ok()?;
        let known = back == git.canonicalize().ok()?
            && own.parent() == Some(common.join("worktrees").as_path())
            && fs::metadata(&common).ok()?.uid() == owner;
        known.then(|| Repository { top: top.to_owned(), own, common })
    }

    /// The commit that is checked out, where it stands in the usual files. `None` says nothing: git has to be asked.
    pub(crate) fn head(&self) -> Option<String> {
        let head = short_text(&self.own.join("HEAD"))?;
        let Some(name) = head.strip_prefix("ref: ") else { return commit(&head) };
        let is_plain = name.starts_with("refs/heads/")
            && name.split('/').all(|part| !part.is_empty() && !part.starts_with('.'));
        if !is_plain {
            return None;
        }
        if let Some(text) = short_text(&self.common.join(name)) {
            return commit(&text);
        }
        commit(&self.packed(name)?)
    }

    /// Whether a plain repository is as new as git makes one: a branch is checked out, and there is no name that could stand for
    /// a commit. A no says nothing.
    pub(crate) fn is_new(&self) -> bool {
        let on_branch = |head: String| head.starts_with("ref: refs/heads/");
        self.is_main()
            && short_text(&self.own.join("HEAD")).is_some_and(on_branch)
            && fs::symlink_metadata(self.common.join("packed-refs")).is_err()
            && has_no_files(&self.common.join("refs"), 2)
    }

    /// Whether its own settings are of the plain kind: they name no other place for its files, no other way to keep its
    /// names, no programs that change files on their way, and no further settings. What is not sure is not plain.
    pub(crate) fn is_plain(&self) -> bool {
        let Some(mut text) = settings(&self.common.join("config")) else { return false };
        if fs::symlink_metadata(self.own.join("config.worktree")).is_ok() {
            return false;
        }
        text.retain(|c| !c.is_whitespace());
        text.make_ascii_lowercase();
        let is_bare = text.matches("bare").count() != text.matches("bare=false").count();
        !is_bare && !NOT_PLAIN.iter().any(|word| text.contains(word))
    }

    /// Whether a plain repository has a branch.
    pub(crate) fn has_branch(&self, branch: &str) -> bool {
        let name = format!("refs/heads/{branch}");
        let is_there = |meta: fs::Metadata| !meta.is_dir();
        fs::symlink_metadata(self.common.join(&name)).is_ok_and(is_there)
            || self.packed(&name).is_some()
    }

    /// Gives a plain repository a branch that it does not have, as git does: a lock is written and becomes the name. An
    /// error says nothing about the branch: git has to be asked for it.
    pub(crate) fn add_branch(&self, branch: &str, commit: &str) -> io::Result<()> {
        let settings = settings(&self.common.join("config")).unwrap_or_default();
        // Git gives names of a repository that several people write to other modes.
        if settings.to_ascii_lowercase().contains("sharedrepository") {
            return Err(io::ErrorKind::Unsupported.into());
        }
        // A name that others begin with has no folder where names are packed, but cannot be there beside them.
        let mut above = Path::new(branch).ancestors().skip(1).filter_map(Path::to_str);
        if above.any(|above| !above.is_empty() && self.has_branch(above)) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let path = self.common.join("refs/heads").join(branch);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let mut lock = path.clone().into_os_string();
        lock.push(".lock");
        let mut file = File::create_new(&lock)?;
        let written = file
            .write_all(format!("{commit}\n").as_bytes())
            .and_then(|()| file.sync_all())
            .and_then(|()| fs::rename(&lock, &path));
        if written.is_err() {
            let _ = fs::remove_file(&lock);
        }
        written
    }

    /// Gives a plain repository a working tree of a branch that it has, without any files yet, as git does: what git knows
    /// of it is locked until it is whole. An error leaves nothing of it: git has to be asked for it.
    pub(crate) fn add_worktree(&self, name: &str, path: &Path, branch: &str) -> io::Result<()> {
        let settings = settings(&self.common.join("config")).unwrap_or_default();
        let settings = settings.to_ascii_lowercase();
        // Other modes; and which files are wanted, which git would copy.
        if settings.contains("sharedrepository") || settings.contains("sparsecheckout") {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let about = self.common.join("worktrees").join(name);
        fs::create_dir_all(self.common.join("worktrees"))?;
        // One that is there is another's.
        fs::create_dir(&about)?;
        let made = fs::create_dir(path).and_then(|()| {
            let known = self.know(&about, path, branch);
            if known.is_err() {
                let _ = fs::remove_dir_all(path);
            }
            known
        });
        if made.is_err() {
            let _ = fs::remove_dir_all(&about);
        }
        made
    }

    /// Writes down what git knows of a new working tree, and where that is.
    fn know(&self, about: &Path, path: &Path, branch: &str) -> io::Result<()> {
        let text = |path: &Path| -> io::Result<String> {
            let real = path.canonicalize()?.into_os_string().into_string();
            real.map_err(|_| io::ErrorKind::InvalidInput.into())
        };
        fs::write(about.join("locked"), "initializing")?;
        fs::write(about.join("gitdir"), format!("{}/.git\n", text(path)?))?;
        fs::write(about.join("commondir"), "../..\n")?;
        fs::write(about.join("HEAD"), format!("ref: refs/heads/{branch}\n"))?;
        fs::create_dir(about.join("refs"))?;
        fs::write(path.join(".git"), format!("gitdir: {}\n", text(about)?))?;
        fs::remove_file(about.join("locked"))
    }

    /// Takes back what was just made, of which nobody has anything yet.
    pub(crate) fn take_back_worktree(&self, name: &str, path: &Path) {
        let _ = fs::remove_dir_all(path);
        let _ = fs::remove_dir_all(self.common.join("worktrees").join(name));
    }

    /// What stands for a name in the file with many of them.
    fn packed(&self, name: &str) -> Option<String> {
        let packed = fs::read(self.common.join("packed-refs")).ok()?;
        let packed = String::from_utf8_lossy(&packed);
        let found = packed.lines().find_map(|line| line.strip_suffix(name)?.strip_suffix(' '));
        found.map(str::to_owned)
    }

    /// Whether `.git` is a folder of the working tree itself.
    pub(super) fn is_main(&self) -> bool {
        self.own == self.common
    }

    /// The folders that a commit writes to, links excluded. Of a linked working tree only its own branches: the user's
    /// branches are not a worker's to move. Where all branches are in the tables of one folder, it has none to itself.
    pub(super) fn writable(&self) -> Vec<PathBuf> {
        // What is mounted on cannot be renamed away from what is kept as it is in it.
        let mut folders = vec![self.own.clone(), self.common.join("objects")];
        if self.is_main() {
            folders.retain(|folder| real_folder(folder));
            return folders;
        }
        for branches in ["refs/heads/drivetrain", "logs/refs/heads/drivetrain"] {
            let folder = self.common.join(branches);
            let all_real = folder
                .ancestors()
                .take_while(|above| *above != self.common)
                .all(|above| fs::symlink_metadata(above).map_or(true, |meta| meta.is_dir()));
            if all_real && fs::create_dir_all(&folder).is_ok() {
                folders.push(folder);
            }
        }
        folders.retain(|folder| real_folder(folder));
        folders
    }

    /// What is there of all that working trees share, links excluded.
    pub(super) fn shared(&self) -> impl Iterator<Item = PathBuf> {
        let paths = SHARED.iter().map(|name| self.common.join(name));
        paths.filter(|path| fs::symlink_metadata(path).is_ok_and(|meta| !meta.is_symlink()))
    }

    /// The folders of objects that this repository borrows from.
    pub(super) fn borrowed(&self) -> Vec<PathBuf> {
        object_folders(&self.common.join("objects")).split_off(1)
    }

    /// Makes folders that are missing, so that they can stay as they are. Git has nothing against empty ones, and whoever took them
    /// away again could meet a git that is just about to use them.
    pub(super) fn make_frozen(&self) {
        let names: &[&str] = if self.is_main() {
            &["info", "modules", "worktrees", "objects/info"]
        } else {
            &["objects/info"]
        };
        for name in names {
            let _ = fs::create_dir(self.common.join(name));
        }
    }

    /// Whether each working tree may have settings of its own.
    pub(super) fn has_settings_of_trees(&self) -> bool {
        // What is not sure is taken to be so.
        settings(&self.common.join("config"))
            .is_none_or(|text| text.to_ascii_lowercase().contains("worktreeconfig"))
    }

    /// The folders of a writable repository in which git writes into files as they are, rather than anew beside them.
    pub(super) fn written(&self) -> Vec<PathBuf> {
        match self.is_main() {
            true => vec![self.own.clone()],
            false => vec![self.own.clone(), self.common.join("logs/refs/heads/drivetrain")],
        }
    }

    /// What stays as it is in folders that are writable.
    pub(super) fn frozen(&self) -> Vec<PathBuf> {
        let own = ["commondir", "gitdir", "config.worktree"].map(|name| self.own.join(name));
        let mut frozen = own.to_vec();
        frozen.push(self.common.join("objects/info"));
        if self.is_main() {
            let names = ["config", "hooks", "info", "worktrees", "modules", "description"];
            frozen.extend(names.map(|name| self.own.join(name)));
        }
        frozen
    }
}

/// The folder whose `.git` counts for this one: its own, or the nearest above. Folders of that name above are passed over
/// where they have nothing of a repository: what another program left in `/tmp` says nothing of the projects there.
pub(crate) fn top(folder: &Path) -> Option<&Path> {
    folder.ancestors().find(|above| {
        let git = above.join(".git");
        let Ok(meta) = fs::symlink_metadata(&git) else { return false };
        match meta.is_dir() {
            true if *above != folder => has_something(&git),
            _ => !masks::stands_in(&git),
        }
    })
}

/// Whether a folder has anything that git puts into a repository when it makes one. Not all of it: a worker may take away
/// some, though not the settings, and what its project's files say counts all the same.
fn has_something(git: &Path) -> bool {
    let names = ["HEAD", "config", "objects", "refs"];
    names.iter().any(|name| fs::symlink_metadata(git.join(name)).is_ok())
}

/// Reads the path that a file holds, as git does, and where it really leads.
fn follow(file: &Path, before: &str, base: &Path) -> Option<PathBuf> {
    if fs::symlink_metadata(file).ok()?.len() > 8192 {
        return None;
    }
    let text = fs::read_to_string(file).ok()?;
    base.join(text.strip_prefix(before)?.trim_end_matches('\n')).canonicalize().ok()
}

/// What settings say, if they are as short as they usually are.
fn settings(path: &Path) -> Option<String> {
    let meta = fs::symlink_metadata(path).ok()?;
    (meta.is_file() && meta.len() <= 64 * 1024).then(|| fs::read_to_string(path).ok()).flatten()
}

/// The line that a file holds.
fn short_text(path: &Path) -> Option<String> {
    if fs::symlink_metadata(path).ok().filter(fs::Metadata::is_file)?.len() > 4096 {
        return None;
    }
    fs::read_to_string(path).ok()?.strip_suffix('\n').map(str::to_owned)
}

/// The name of a commit, by either of the hashes that git knows.
fn commit(text: &str) -> Option<String> {
    let is_hash =
        matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hash.then(|| text.to_owned())
}

/// Whether there are only real folders below one, so many deep at most.
fn has_no_files(folder: &Path, depth: u32) -> bool {
    let Ok(mut entries) = fs::read_dir(folder) else { return false };
    entries.all(|entry| {
        let entry = entry.ok().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        entry.is_some_and(|entry| depth > 0 && has_no_files(&entry.path(), depth - 1))
    })
}

fn real_folder(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|meta| meta.is_dir())
}

/// Who commits are by: what the user's git would say, since their own settings are not seen inside.
pub(super) fn who(folder: &Path) -> Who {
    static KNOWN: Mutex<BTreeMap<PathBuf, Who>> = Mutex::new(BTreeMap::new());
    let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(found) = known().get(folder) {
        return found.clone();
    }
    let nobody = || {
        let (name, email) = ("drivetrain".to_owned(), "drivetrain@localhost".to_owned());
        let drivetrain = Person { name, email };
        Who { author: drivetrain.clone(), committer: drivetrain }
    };
    let found = Who::of_the_user(folder).unwrap_or_else(nobody);
    known().insert(folder.to_owned(), found.clone());
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn git(folder: &Path, arguments: &[&str]) {
        let done = std::process::Command::new("git")
            .args(["-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"])
            .args(arguments)
            .current_dir(folder)
            .output()
            .unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }

    /// What the files say, and what git says where it has to be asked.
    #[test]
    fn the_commit_is_read_where_it_stands_and_nowhere_else() {
        let place = tempfile::tempdir().unwrap();
        let main = place.path().canonicalize().unwrap().join("main");
        fs::create_dir(&main).unwrap();
        let head = |folder: &Path| Repository::find(folder).unwrap().head();
        let said = |folder: &Path| {
            let asked = std::process::Command::new("git")
                .args(["rev-parse", "HEAD"])
                .current_dir(folder)
                .output()
                .unwrap();
            String::from_utf8(asked.stdout).unwrap().trim_end().to_owned()
        };
        let is_new = |folder: &Path| Repository::find(folder).unwrap().is_new();
        git(&main, &["init", "-q"]);
        assert_eq!(head(&main), None, "there is no commit");
        assert!(is_new(&main));
        git(&main, &["commit", "-q", "--allow-empty", "-m", "x"]);
        assert!(!is_new(&main));
        assert_eq!(head(&main), Some(said(&main)));
        git(&main, &["branch", "n/main"]);
        git(&main, &["commit", "-q", "--allow-empty", "-m", "y"]);
        git(&main, &["pack-refs", "--all"]);
        assert!(!main.join(".git/refs/heads/main").exists());
        assert!(!is_new(&main), "its names are in one file");
        assert_eq!(head(&main), Some(said(&main)));
        let linked = main.with_file_name("linked");
        git(&main, &["worktree", "add", "-q", linked.to_str().unwrap(), "n/main"]);
        assert_eq!(head(&linked), Some(said(&linked)));
        git(&main, &["checkout", "-q", "--detach", "n/main"]);
        assert_eq!(head(&main), Some(said(&main)));
        // A name that stands for another one, as old repositories have them; and one that leads elsewhere.
        fs::write(main.join(".git/refs/heads/alias"), "ref: refs/heads/main\n").unwrap();
        git(&main, &["symbolic-ref", "HEAD", "refs/heads/alias"]);
        assert_eq!(head(&main), None);
        fs::write(main.join(".git/HEAD"), "ref: refs/heads/../../config\n").unwrap();
        assert_eq!(head(&main), None);
    }

    #[test]
    fn only_settings_that_change_nothing_here_are_plain() {
        let place = tempfile::tempdir().unwrap();
        let main = place.path().canonicalize().unwrap();
        git(&main, &["init", "-q"]);
        git(&main, &["config", "remote.origin.url", "https://example.org/a.git"]);
        git(&main, &["config", "user.name", "somebody"]);
        let plain = || Repository::find(&main).unwrap().is_plain();
        assert!(plain());
        let config = main.join(".git/config");
        let usual = fs::read(&config).unwrap();
        for [name, value] in [
            ["filter.lfs.smudge", "cat"],
            ["FILTER.x.required", "true"],
            ["include.path", "../other"],
            ["includeIf.gitdir:/.path", "../other"],
            ["core.worktree", "/elsewhere"],
            ["core.bare", "true"],
            ["extensions.worktreeConfig", "true"],
        ] {
            git(&main, &["config", name, value]);
            assert!(!plain(), "{name}");
            fs::write(&config, &usual).unwrap();
        }
        fs::write(&config, [&usual[..], b"[core] WorkTree\t=/elsewhere\n"].concat()).unwrap();
        assert!(!plain());
        fs::write(&config, [&usual[..], &[b'#'; 70_000]].concat()).unwrap();
        assert!(!plain(), "longer than is read");
        fs::write(&config, [&usual[..], b"# \xff\n"].concat()).unwrap();
        assert!(!plain(), "no text");
        fs::write(&config, &usual).unwrap();
        fs::write(main.join(".git/config.worktree"), "").unwrap();
        assert!(!plain());
        fs::remove_file(main.join(".git/config.worktree")).unwrap();
        assert!(plain());
    }

    #[test]
    fn a_branch_is_found_wherever_its_name_is_kept() {
        let place = tempfile::tempdir().unwrap();
        let main = place.path().canonicalize().unwrap();
        git(&main, &["init", "-q"]);
        git(&main, &["commit", "-q", "--allow-empty", "-m", "x"]);
        let has = |branch: &str| Repository::find(&main).unwrap().has_branch(branch);
        assert!(!has("drivetrain/t1"));
        git(&main, &["branch", "drivetrain/t1"]);
        assert!(has("drivetrain/t1") && !has("drivetrain"), "a folder of branches is none");
        git(&main, &["pack-refs", "--all"]);
        assert!(!main.join(".git/refs/heads/drivetrain").exists());
        assert!(has("drivetrain/t1") && has("main"));
        assert!(!has("t1") && !has("drivetrain/t") && !has("drivetrain"));
    }

    #[test]
    fn a_branch_is_made_where_git_would_make_it_and_nowhere_else() {
        let place = tempfile::tempdir().unwrap();
        let main = place.path().canonicalize().unwrap();
        git(&main, &["init", "-q"]);
        git(&main, &["commit", "-q", "--allow-empty", "-m", "x"]);
        let repository = Repository::find(&main).unwrap();
        let commit = repository.head().unwrap();
        let add = |branch: &str| repository.add_branch(branch, &commit).is_ok();
        assert!(add("drivetrain/t1") && add("drivetrain/t2"));
        git(&main, &["rev-parse", "--verify", "refs/heads/drivetrain/t2^{commit}"]);
        git(&main, &["fsck", "--strict"]);
        fs::write(main.join(".git/refs/heads/drivetrain/t3.lock"), "").unwrap();
        assert!(!add("drivetrain/t3"), "somebody else is at it");
        assert!(main.join(".git/refs/heads/drivetrain/t3.lock").exists(), "the lock is theirs");
        git(&main, &["branch", "one"]);
        assert!(!add("one/t4"), "a branch stands where the folder would");
        git(&main, &["pack-refs", "--all"]);
        assert!(!add("one/t4"), "the same among packed names");
        git(&main, &["config", "core.sharedRepository", "group"]);
        assert!(!add("drivetrain/t5"), "others could not write to it");
    }

    #[test]
    fn a_working_tree_is_made_as_git_makes_one() {
        let place = tempfile::tempdir().unwrap();
        let place = place.path().canonicalize().unwrap();
        let (main, ours, theirs) = (place.join("main"), place.join("ours"), place.join("theirs"));
        fs::create_dir(&main).unwrap();
        git(&main, &["init", "-q"]);
        fs::write(main.join("a"), "a").unwrap();
        git(&main, &["add", "a"]);
        git(&main, &["commit", "-q", "-m", "x"]);
        for branch in ["n/ours", "n/theirs"] {
            git(&main, &["branch", branch]);
        }
        let repository = Repository::find(&main).unwrap();
        repository.add_worktree("ours", &ours, "n/ours").unwrap();
        git(&ours, &FILL);
        git(&main, &["worktree", "add", "-q", theirs.to_str().unwrap(), "n/theirs"]);
        let known = |name: &str| {
            let about = main.join(".git/worktrees").join(name);
            let read = |file: fs::DirEntry| {
                let text = match file.file_type().unwrap().is_file() && file.file_name() != "index"
                {
                    true => fs::read_to_string(file.path()).unwrap().replace(name, "NAME"),
                    false => String::new(),
                };
                (file.file_name(), text)
            };
            let mut found: Vec<_> =
                fs::read_dir(about).unwrap().map(|file| read(file.unwrap())).collect();
            found.sort();
            found
        };
        // That a reset began it is nothing to remember.
        let mut as_git = known("theirs");
        as_git.retain(|(name, _)| name != "ORIG_HEAD" && name != "logs");
        assert_eq!(known("ours"), as_git);
        let tree = |folder: &Path| fs::read(folder.join("a")).unwrap();
        assert_eq!(tree(&ours), tree(&theirs));
        git(&ours, &["diff", "--quiet", "HEAD"]);
        git(&ours, &["diff", "--quiet", "--cached", "HEAD"]);
        assert_eq!(
            fs::read_to_string(ours.join(".git")).unwrap().replace("ours", "theirs"),
            fs::read_to_string(theirs.join(".git")).unwrap()
        );
        assert_eq!(fs::read_to_string(ours.join("a")).unwrap(), "a");
        git(&ours, &["commit", "-q", "--allow-empty", "-m", "y"]);
        git(&main, &["fsck", "--strict"]);
        git(&main, &["worktree", "prune"]);
        // What another one has is not touched.
        assert!(repository.add_worktree("ours", &place.join("again"), "n/ours").is_err());
        assert!(repository.add_worktree("again", &theirs, "n/ours").is_err());
        assert!(!place.join("again").exists() && !main.join(".git/worktrees/again").exists());
        assert!(ours.join("a").exists() && theirs.join("a").exists());
        git(&ours, &["status"]);
        git(&main, &["worktree", "remove", ours.to_str().unwrap()]);
        git(&main, &["config", "core.sparseCheckout", "true"]);
        assert!(repository.add_worktree("ours", &ours, "n/ours").is_err(), "git would copy it");
        assert!(!ours.exists());
    }

    #[test]
    fn a_folder_above_that_is_called_git_and_is_no_repository_is_passed_over() {
        let place = tempfile::tempdir().unwrap();
        let place = place.path().canonicalize().unwrap();
        let (middle, folder) = (place.join("middle"), place.join("middle/folder"));
        fs::create_dir_all(&folder).unwrap();
        fs::create_dir(middle.join(".git")).unwrap();
        let of = |folder: &Path| top(folder).map(Path::to_owned);
        assert_ne!(of(&folder), Some(middle.clone()), "nothing is in it");
        assert_eq!(of(&middle), Some(middle.clone()), "its own counts whatever is in it");
        git(&place, &["init", "-q"]);
        assert_eq!(of(&folder), Some(place.clone()), "the next above");
        fs::create_dir_all(middle.join(".git/info")).unwrap();
        assert_eq!(of(&folder), Some(place.clone()), "what we make in one is not it");
        fs::write(middle.join(".git/config"), "").unwrap();
        assert_eq!(of(&folder), Some(middle.clone()), "all else may have been taken away");
        git(&middle, &["init", "-q"]);
        assert_eq!(of(&folder), Some(middle.clone()));
        let mut stand_in = masks::Masks::default();
        stand_in.cover(&folder.join(".git")).unwrap();
        assert_eq!(of(&folder), Some(middle.clone()), "what only stands in for one is none");
        drop(stand_in);
        fs::write(folder.join(".git"), "gitdir: elsewhere").unwrap();
        assert_eq!(of(&folder), Some(folder.clone()), "a forged one leads nowhere, not further up");
        assert_eq!(Repository::find(&folder), None);
    }

    #[test]
    fn a_working_tree_leads_to_its_repository_and_a_forged_one_does_not() {
        let place = tempfile::tempdir().unwrap();
        let place = place.path().canonicalize().unwrap();
        let (main, linked, forged) =
            (place.join("main"), place.join("linked"), place.join("forged"));
        fs::create_dir_all(main.join("sub")).unwrap();
        fs::create_dir(&forged).unwrap();
        git(&main, &["init", "-q"]);
        git(&main, &["commit", "-q", "--allow-empty", "-m", "x"]);
        git(&main, &["worktree", "add", "-q", linked.to_str().unwrap()]);
        let found = Repository::find(&main.join("sub")).unwrap();
        assert!(found.is_main() && found.top == main);
        let found = Repository::find(&linked).unwrap();
        assert_eq!((found.is_main(), found.common.clone()), (false, main.join(".git")));
        assert!(found.writable().contains(&main.join(".git/objects")));
        assert!(!found.writable().contains(&main.join(".git")));
        fs::create_dir(main.join(".git/reftable")).unwrap();
        assert!(!found.writable().contains(&main.join(".git/reftable")));
        fs::copy(linked.join(".git"), forged.join(".git")).unwrap();
        assert_eq!(Repository::find(&forged), None);
    }
}
