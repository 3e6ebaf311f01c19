//! Where drivetrain keeps its state, and which processes are alive in it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use machine::id::TaskId;

use crate::lock::{self, FileLock};

/// How long a child may take from its beginning to its program.
const CHILD_PATIENCE: Duration = Duration::from_millis(250);

/// The folder of all state: `DRIVETRAIN_HOME`, else `drivetrain` in the XDG state folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home {
    root: PathBuf,
}

impl Home {
    /// A home at a given place.
    pub fn at(root: impl Into<PathBuf>) -> Home {
        Home { root: root.into() }
    }

    /// The home that the environment names, without the links on the way to it: git and the walls name what is in it so, and
    /// one place has one name. The error says which variable to set.
    pub fn from_environment() -> Result<Home, String> {
        let variable = |name: &str| {
            std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
        };
        if let Some(root) = variable("DRIVETRAIN_HOME") {
            return match std::path::absolute(&root) {
                Ok(root) => Ok(Home { root: real(&root) }),
                Err(error) => Err(format!("DRIVETRAIN_HOME = {}: {error}", root.display())),
            };
        }
        let state = variable("XDG_STATE_HOME")
            .filter(|path| path.is_absolute())
            .or_else(|| variable("HOME").map(|home| home.join(".local/state")))
            .ok_or("neither DRIVETRAIN_HOME, XDG_STATE_HOME nor HOME is set: set DRIVETRAIN_HOME to a folder")?;
        Ok(Home { root: real(&state.join("drivetrain")) })
    }

    /// Makes the folders, readable by their owner only.
    pub fn create(&self) -> Result<(), String> {
        make(&[self.root.clone(), self.journal(), self.run(), self.worktrees(), self.checkpoints()])
    }

    /// Makes only the place for locks, sockets and marks: what is tried before anything is recorded needs it.
    pub(crate) fn create_run(&self) -> Result<(), String> {
        make(&[self.root.clone(), self.run()])
    }

    /// The folder itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The journal's folder.
    pub fn journal(&self) -> PathBuf {
        self.root.join("journal")
    }

    /// Locks and sockets of living processes.
    pub fn run(&self) -> PathBuf {
        self.root.join("run")
    }

    /// Worktrees of tasks.
    pub fn worktrees(&self) -> PathBuf {
        self.root.join("worktrees")
    }

    /// Checkpoints of workspaces.
    pub fn checkpoints(&self) -> PathBuf {
        self.root.join("checkpoints")
    }

    /// The last answer of a model to each task, until it is journaled.
    pub fn answers(&self) -> PathBuf {
        self.root.join("answers")
    }

    /// Notes about projects.
    pub fn memory(&self) -> PathBuf {
        self.root.join("memory")
    }

    /// Which hosts the sandboxes of a task have reached for.
    pub fn passages(&self, task: &TaskId) -> PathBuf {
        self.root.join("network").join(format!("{task}.jsonl"))
    }

    /// The control socket of a process.
    pub fn socket(&self, owner: u64) -> PathBuf {
        self.run().join(format!("{owner}.sock"))
    }

    /// Marks of the child processes of a process.
    pub fn marks(&self, owner: u64) -> PathBuf {
        self.run().join(format!("{owner}.children"))
    }

    /// Marks of the trials of the sandbox, of all processes: the walls are tried before a process has a number here.
    pub fn trials(&self) -> PathBuf {
        self.run().join("trials")
    }

    /// That the walls of the sandbox held when they were last tried.
    pub fn walls(&self) -> PathBuf {
        self.run().join("walls.json")
    }

    /// That a namespace without walls held when it was last tried.
    pub fn namespaces(&self) -> PathBuf {
        self.run().join("namespaces.json")
    }

    /// What is noted of the operator's logins that agents are lent.
    pub fn logins(&self) -> PathBuf {
        self.run().join("logins")
    }

    /// The sockets through which the workers of a process ask, each in a folder of its own.
    pub fn gates(&self, owner: u64) -> PathBuf {
        self.run().join(format!("{owner}.gates"))
    }

    /// The folders in which a process checks claims.
    pub fn checkouts(&self, owner: u64) -> PathBuf {
        self.run().join(format!("{owner}.checkouts"))
    }

    fn lock(&self, owner: u64) -> PathBuf {
        self.run().join(format!("{owner}.lock"))
    }

    /// The process number of a living owner; `None` if it is gone. The kernel frees a dead process's lock, so
    /// this is right after `kill -9` too.
    pub fn alive(&self, owner: u64) -> Option<u32> {
        let mut file = File::open(self.lock(owner)).ok()?;
        if lock::is_free(&file) {
            return None;
        }
        let mut text = String::new();
        file.read_to_string(&mut text).ok()?;
        let pid: u32 = text.trim().parse().unwrap_or(0);
        // A child that its owner was just starting when it was killed has the lock until it becomes its program. The
        // process may also be one that cannot be seen from here, so in the end the lock decides.
        let until = Instant::now() + CHILD_PATIENCE;
        while !Path::new("/proc").join(pid.to_string()).exists() && Instant::now() < until {
            std::thread::sleep(CHILD_PATIENCE / 50);
            if lock::is_free(&file) {
                return None;
            }
        }
        Some(pid)
    }

    /// Owners whose process is gone and who left files behind.
    pub fn dead_owners(&self) -> Vec<u64> {
        let Ok(entries) = fs::read_dir(self.run()) else { return Vec::new() };
        let mut owners: Vec<u64> = entries
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.split('.').next()?.parse().ok())
            .collect();
        owners.sort_unstable();
        owners.dedup();
        owners.retain(|owner| self.alive(*owner).is_none());
        owners
    }

    /// Removes the lock and socket that a dead owner left.
    pub fn forget(&self, owner: u64) {
        let _ = fs::remove_file(self.socket(owner));
        crate::gate::clear_away(&self.gates(owner));
        let _ = fs::remove_dir_all(self.marks(owner));
        crate::acceptance::clear_away(&self.checkouts(owner));
        let _ = fs::remove_file(self.lock(owner));
    }
}

/// A path without links, as far as it is there yet.
fn real(path: &Path) -> PathBuf {
    let found = path.ancestors().find_map(|above| Some((above, above.canonicalize().ok()?)));
    let whole = found.and_then(|(above, real)| Some(real.join(path.strip_prefix(above).ok()?)));
    // `join` with nothing puts a slash at the end.
    whole.map_or_else(|| path.to_owned(), |whole| whole.components().collect())
}

/// Makes folders that only this user can look into.
fn make(folders: &[PathBuf]) -> Result<(), String> {
    for folder in folders {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(|error| {
            format!(
                "cannot make the folder {}: {error}; set DRIVETRAIN_HOME to a folder that can be written",
                folder.display()
            )
        })?;
    }
    Ok(())
}

/// Says, as long as it lives, that this process is that owner.
#[derive(Debug)]
pub struct Presence {
    home: Home,
    owner: u64,
    lock: Mutex<FileLock>,
}

impl Presence {
    /// Takes the owner's lock. It is locked before it has the name under which others look for it, for to them a lock
    /// that is free is that of a dead process.
    pub fn take(home: &Home, owner: u64) -> io::Result<Presence> {
        let lock = Mutex::new(place(home, owner)?);
        Ok(Presence { home: home.clone(), owner, lock })
    }

    /// Takes it again where somebody has removed it, perhaps with its folder: to others this process would be a dead one. What
    /// cannot be done now is tried when it is asked for again.
    pub(crate) fn renew(&self) {
        let is_gone = |path: &Path| {
            fs::symlink_metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
        };
        if !is_gone(&self.home.lock(self.owner)) {
            return;
        }
        // Not with what is above it: a state folder that was removed is gone with its journal.
        let _ = fs::DirBuilder::new().mode(0o700).create(self.home.run());
        if let Ok(lock) = place(&self.home, self.owner) {
            *self.lock.lock().unwrap_or_else(PoisonError::into_inner) = lock;
        }
    }
}

/// Puts a lock where others look for it.
fn place(home: &Home, owner: u64) -> io::Result<FileLock> {
    let beside = home.run().join(format!(".{owner}.lock"));
    let placed = locked(&beside).and_then(|lock| {
        fs::rename(&beside, home.lock(owner))?;
        Ok(lock)
    });
    if placed.is_err() {
        // Nobody looks for it under this name, so nobody would remove it.
        let _ = fs::remove_file(&beside);
    }
    placed
}

/// A locked file with the number of this process.
fn locked(path: &Path) -> io::Result<FileLock> {
    let made = OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(path)?;
    let lock = FileLock::wait(made)?;
    writeln!(lock.file(), "{}", std::process::id())?;
    Ok(lock)
}

impl Drop for Presence {
    fn drop(&mut self) {
        self.home.forget(self.owner);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[test]
    fn an_owner_is_alive_as_long_as_its_presence() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::at(folder.path());
        home.create().unwrap();
        assert_eq!(home.alive(7), None);
        let presence = Presence::take(&home, 7).unwrap();
        assert_eq!(home.alive(7), Some(std::process::id()));
        assert_eq!(home.dead_owners(), Vec::<u64>::new());
        drop(presence);
        assert_eq!(home.alive(7), None);
    }

    #[test]
    fn a_place_is_known_without_the_links_on_the_way_to_it() {
        let folder = tempfile::tempdir().unwrap();
        let there = folder.path().canonicalize().unwrap().join("there");
        let link = folder.path().join("link");
        fs::create_dir(&there).unwrap();
        std::os::unix::fs::symlink(&there, &link).unwrap();
        for name in ["", "a", "a/b"] {
            let expected: PathBuf = there.join(name).components().collect();
            assert_eq!(real(&link.join(name)).as_os_str(), expected.as_os_str());
        }
        // One that leads nowhere stays: whoever makes the folder says what is wrong with it.
        fs::remove_dir(&there).unwrap();
        assert_eq!(
            real(&link.join("a")),
            link.parent().unwrap().canonicalize().unwrap().join("link/a")
        );
    }

    #[test]
    fn of_an_owner_that_was_killed_sockets_that_stood_elsewhere_are_gone_too() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::at(folder.path().join("home"));
        let [ours, others] = ["drivetrain-gate-1", "precious"].map(|name| folder.path().join(name));
        for (task, to) in [("a", &ours), ("b", &others)] {
            fs::create_dir_all(home.gates(7).join(task)).unwrap();
            fs::create_dir(to).unwrap();
            fs::write(to.join("gate.sock"), "").unwrap();
            std::os::unix::fs::symlink(to, home.gates(7).join(task).join("elsewhere")).unwrap();
        }
        home.forget(7);
        assert!(!ours.exists() && !home.gates(7).exists());
        assert!(others.join("gate.sock").exists(), "it is nothing of ours");
    }

    #[test]
    fn an_owner_whose_lock_was_removed_takes_it_again() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::at(folder.path());
        home.create().unwrap();
        let presence = Presence::take(&home, 7).unwrap();
        for remove in [
            |home: &Home| fs::remove_file(home.lock(7)),
            |home: &Home| fs::remove_dir_all(home.run()),
        ] {
            remove(&home).unwrap();
            assert_eq!(home.alive(7), None);
            presence.renew();
            assert_eq!(home.alive(7), Some(std::process::id()));
        }
        drop(presence);
        assert_eq!(home.alive(7), None);
        fs::remove_dir_all(folder.path()).unwrap();
    }

    #[test]
    fn a_lock_that_could_not_be_taken_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::at(folder.path());
        home.create().unwrap();
        fs::create_dir(home.lock(7)).unwrap();
        assert!(Presence::take(&home, 7).is_err());
        let left: Vec<_> = fs::read_dir(home.run()).unwrap().map(|entry| entry.unwrap()).collect();
        assert_eq!(left.len(), 1, "{left:?}");
    }

    #[test]
    fn an_owner_that_is_just_coming_is_never_taken_for_a_dead_one() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::at(folder.path());
        home.create().unwrap();
        const OWNERS: u64 = 400;
        let comes = AtomicU64::new(0);
        std::thread::scope(|scope| {
            let looks = scope.spawn(|| {
                loop {
                    match comes.load(Ordering::Relaxed) {
                        OWNERS => return None,
                        owner if home.lock(owner).exists() && home.alive(owner).is_none() => {
                            return Some(owner);
                        }
                        _ => {}
                    }
                }
            });
            let mut present = Vec::new();
            for owner in 0..OWNERS {
                comes.store(owner, Ordering::Relaxed);
                present.push(Presence::take(&home, owner).unwrap());
            }
            comes.store(OWNERS, Ordering::Relaxed);
            assert_eq!(looks.join().unwrap(), None);
        });
        assert_eq!(fs::read_dir(home.run()).unwrap().count(), 0);
    }
}
