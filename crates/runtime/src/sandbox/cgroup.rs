//! A group of processes with a limit on their number. The usual limit counts for every user but root, who has this one
//! instead, where the system lets its groups be made.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::time::Duration;

/// Removed when dropped, after its processes have ended.
#[derive(Debug)]
pub(super) struct Group {
    folder: PathBuf,
    /// Whoever writes `0` here joins.
    pub(super) door: File,
}

impl Group {
    /// A new group; none where root does not run this, or no group can be made.
    pub(super) fn limiting(processes: u64) -> Option<Group> {
        if !rustix::process::geteuid().is_root() {
            return None;
        }
        let mut random = [0u8; 8];
        getrandom::fill(&mut random).ok()?;
        let above = above()?;
        static SWEPT: Once = Once::new();
        SWEPT.call_once(|| sweep(&above));
        let name = format!("{NAME}{}-{:016x}", std::process::id(), u64::from_ne_bytes(random));
        let folder = above.join(name);
        fs::create_dir(&folder).ok()?;
        let open = || -> io::Result<File> {
            fs::write(folder.join("pids.max"), processes.to_string())?;
            OpenOptions::new().write(true).open(folder.join("cgroup.procs"))
        };
        match open() {
            Ok(door) => Some(Group { folder, door }),
            Err(_) => {
                let _ = fs::remove_dir(&folder);
                None
            }
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // The kernel may still be busy with the last of its processes.
        for _ in 0..50 {
            match fs::remove_dir(&self.folder) {
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                    std::thread::sleep(Duration::from_millis(2));
                }
                Ok(()) | Err(_) => return,
            }
        }
    }
}

/// What groups are called, before the number of the process that made them.
const NAME: &str = "drivetrain-";

/// Removes empty groups of processes that are gone.
fn sweep(above: &Path) {
    for entry in fs::read_dir(above).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| name.strip_prefix(NAME)?.split('-').next());
        if owner.is_some_and(|owner| !Path::new("/proc").join(owner).exists()) {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

/// The group that this process is in, where numbers can be limited below it: of the old form, or of the new one.
fn above() -> Option<PathBuf> {
    let own = fs::read_to_string("/proc/self/cgroup").ok()?;
    let mut places = own.lines().filter_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?.trim_start_matches('/'));
        let old = controllers.split(',').any(|name| name == "pids");
        let root = if old { "/sys/fs/cgroup/pids" } else { "/sys/fs/cgroup" };
        let place = PathBuf::from(root).join(path);
        let serves = |file: &str| {
            fs::read_to_string(place.join(file))
                .is_ok_and(|text| text.split_whitespace().any(|name| name == "pids"))
        };
        let new = controllers.is_empty() && serves("cgroup.subtree_control");
        ((old && place.is_dir()) || new).then_some(place)
    });
    places.next()
}
