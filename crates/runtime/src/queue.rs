//! The queue on disk: one small file, replaced whole, with a lock for whoever changes it and one for whoever works on it.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::home::Home;
use crate::lock::{self, FileLock};
use machine::queue::Queue;

/// The version of the file that is written.
const VERSION: u32 = 1;

/// Where the queue is kept.
#[derive(Debug, Clone)]
pub struct QueueFile {
    folder: PathBuf,
}

/// How often in a row somebody may just be looking who works on the queue, and how long one look may take.
const MAX_LOOKS: u32 = 1000;
const LOOK: Duration = Duration::from_millis(1);

/// Says, as long as it lives, that this process works on the queue. The kernel lets go of it for a dead one.
#[derive(Debug)]
pub struct Runner {
    _lock: FileLock,
}

impl QueueFile {
    /// The queue of a home.
    pub fn of(home: &Home) -> QueueFile {
        QueueFile { folder: home.root().join("queue") }
    }

    /// All entries; an empty queue if there is no file yet.
    pub fn read(&self) -> Result<Queue, String> {
        let path = self.path();
        let wrong =
            |reason: String| format!("the queue in {} cannot be read: {reason}", path.display());
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Queue { v: VERSION, ..Queue::default() });
            }
            Err(error) => return Err(wrong(error.to_string())),
        };
        let queue: Queue =
            serde_json::from_slice(&bytes).map_err(|error| wrong(error.to_string()))?;
        match queue.v {
            0..=VERSION => Ok(queue),
            newer => Err(wrong(format!("it was written by a newer drivetrain (version {newer})"))),
        }
    }

    /// Changes the queue: nobody else does meanwhile, and it is on disk when this returns.
    pub fn change<T>(
        &self,
        change: impl FnOnce(&mut Queue) -> Result<T, String>,
    ) -> Result<T, String> {
        self.create()?;
        let lock = open_lock(&self.folder.join("changes.lock"))?;
        let _lock =
            FileLock::wait(lock).map_err(|error| format!("cannot lock the queue: {error}"))?;
        let mut queue = self.read()?;
        let changed = change(&mut queue)?;
        queue.v = VERSION;
        self.write(&queue)
            .map_err(|error| format!("cannot write {}: {error}", self.path().display()))?;
        Ok(changed)
    }

    /// Becomes the one that works on the queue; the error is the process that already does.
    pub fn work(&self) -> Result<Result<Runner, u32>, String> {
        self.create()?;
        // Whoever only looks holds the lock for a moment, and is no reason to give up.
        let mut looks = 0;
        let lock = loop {
            if let Some(lock) = FileLock::take(open_lock(&self.runner_path())?) {
                break lock;
            }
            match self.runner() {
                None if looks < MAX_LOOKS => looks += 1,
                works => return Ok(Err(works.unwrap_or(0))),
            }
            std::thread::sleep(LOOK);
        };
        let mut file = lock.file();
        let written = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
        written.map_err(|error| format!("cannot write the queue's lock: {error}"))?;
        Ok(Ok(Runner { _lock: lock }))
    }

    /// The living process that works on the queue.
    pub fn runner(&self) -> Option<u32> {
        let file = File::open(self.runner_path()).ok()?;
        // Whoever has just taken it has not written its number yet; until then that of one that died may stand there.
        let mut looks = 0;
        loop {
            if lock::is_free(&file) {
                return None;
            }
            let text = fs::read_to_string(self.runner_path()).ok()?;
            let pid: u32 = text.trim().parse().unwrap_or(0);
            let is_there = pid > 0 && Path::new("/proc").join(pid.to_string()).exists();
            if is_there || looks == MAX_LOOKS {
                return Some(pid);
            }
            looks += 1;
            std::thread::sleep(LOOK);
        }
    }

    fn path(&self) -> PathBuf {
        self.folder.join("queue.json")
    }

    fn runner_path(&self) -> PathBuf {
        self.folder.join("runner.lock")
    }

    fn create(&self) -> Result<(), String> {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.folder)
            .map_err(|error| format!("cannot make the folder {}: {error}", self.folder.display()))
    }

    /// The new file is whole on disk before it takes the place of the old one, and so is its name after.
    fn write(&self, queue: &Queue) -> std::io::Result<()> {
        let next = self.folder.join("queue.next");
        let mut file =
            OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&next)?;
        file.write_all(&serde_json::to_vec(queue)?)?;
        file.sync_all()?;
        fs::rename(&next, self.path())?;
        File::open(&self.folder)?.sync_all()
    }
}

fn open_lock(path: &Path) -> Result<File, String> {
    OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(path)
        .map_err(|error| format!("cannot open {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use machine::id::TaskId;
    use machine::queue::{End, Lane};
    use machine::time::Timestamp;

    use super::*;

    fn file() -> (tempfile::TempDir, QueueFile) {
        let folder = tempfile::tempdir().unwrap();
        let file = QueueFile::of(&Home::at(folder.path()));
        (folder, file)
    }

    fn add(file: &QueueFile, name: &str) {
        let lane = Lane { repository: "/r".to_owned(), branch: "main".to_owned() };
        let add =
            |queue: &mut Queue| queue.add(TaskId(name.to_owned()), lane, End::Back, Timestamp(1));
        file.change(add).unwrap();
    }

    #[test]
    fn many_at_once_lose_nothing() {
        let (_folder, file) = file();
        assert_eq!(file.read().unwrap().entries.len(), 0);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let file = &file;
                scope.spawn(move || (0..10).for_each(|n| add(file, &format!("t{thread}{n}"))));
            }
        });
        assert_eq!(file.read().unwrap().entries.len(), 40);
    }

    #[test]
    fn a_refused_change_writes_nothing_and_a_damaged_file_is_named() {
        let (folder, file) = file();
        add(&file, "a");
        let refused: Result<(), String> = file.change(|queue| {
            queue.entries.clear();
            Err("no".to_owned())
        });
        assert_eq!(refused, Err("no".to_owned()));
        assert_eq!(file.read().unwrap().entries.len(), 1);
        std::fs::write(folder.path().join("queue/queue.json"), "{").unwrap();
        assert!(file.read().unwrap_err().contains("queue.json"));
        std::fs::write(folder.path().join("queue/queue.json"), r#"{"v":9,"entries":[]}"#).unwrap();
        assert!(file.read().unwrap_err().contains("newer"));
    }

    #[test]
    fn who_has_just_begun_is_not_taken_for_one_that_died() {
        let (_folder, file) = file();
        file.create().unwrap();
        let _held = FileLock::take(open_lock(&file.runner_path()).unwrap()).unwrap();
        // No process has such a number.
        fs::write(file.runner_path(), "4194999\n").unwrap();
        std::thread::scope(|scope| {
            let looks = scope.spawn(|| file.runner());
            std::thread::sleep(20 * LOOK);
            fs::write(file.runner_path(), std::process::id().to_string()).unwrap();
            assert_eq!(looks.join().unwrap(), Some(std::process::id()));
        });
    }

    #[test]
    fn one_works_on_it_at_a_time() {
        let (_folder, file) = file();
        assert_eq!(file.runner(), None);
        let runner = file.work().unwrap().unwrap();
        assert_eq!(file.runner(), Some(std::process::id()));
        assert_eq!(file.work().unwrap().unwrap_err(), std::process::id());
        drop(runner);
        assert_eq!(file.runner(), None);
    }
}
