//! What this machine can give, found out by doing: a command is run inside that tries to get out. What it was told is
//! not believed; what the walls held is.

use std::fs;
use std::io::Write as _;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use machine::policy::sandbox::{Level, SandboxSpec};
use rustix::process::{Pid, getpid, test_kill_process};
use serde::{Deserialize, Serialize};

use super::{Access, Sandbox, remembered};
use crate::home::Home;
use crate::process::{Cancel, Containment, ProcessSpec, SpawnError, Streams, run};

/// Where bubblewrap is looked for: places that no workspace and no user's PATH decides about.
const PLACES: [&str; 6] = [
    "/usr/bin/bwrap",
    "/bin/bwrap",
    "/usr/local/bin/bwrap",
    "/usr/sbin/bwrap",
    "/usr/local/sbin/bwrap",
    "/run/current-system/sw/bin/bwrap",
];

/// The first version whose private folders can be given a size.
const OLDEST: (u32, u32) = (0, 7);

/// The namespaces that must be others than the runtime's.
const NAMESPACES: [&str; 5] = ["ipc", "mnt", "net", "pid", "user"];

/// Why a level cannot be had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unavailable {
    /// What is wrong.
    pub reason: String,
    /// What to do about it.
    pub mend: String,
}

impl std::fmt::Display for Unavailable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}; to mend it: {}", self.reason, self.mend)
    }
}

/// What is known of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    /// Where bubblewrap is, with its version; or why it cannot be used.
    pub bubblewrap: Result<(PathBuf, String), Unavailable>,
    /// The version of Landlock's interface; 0 if there is none.
    pub landlock: u32,
    /// Whether the kernel lets this user make namespaces, as far as its settings say.
    pub namespaces: Result<(), String>,
    /// Whether the system call filter is there.
    pub seccomp: bool,
}

/// Looks at this machine without trying the walls.
pub fn machine() -> Machine {
    let setting = |path: &str| fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
    let namespaces = if setting("/proc/sys/user/max_user_namespaces").as_deref() == Some("0") {
        Err("user.max_user_namespaces is 0".to_owned())
    } else if setting("/proc/sys/kernel/unprivileged_userns_clone").as_deref() == Some("0") {
        Err("kernel.unprivileged_userns_clone is 0".to_owned())
    } else {
        Ok(())
    };
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    Machine {
        bubblewrap: bubblewrap(),
        landlock: landlock_version(),
        namespaces,
        seccomp: status.lines().any(|line| line.starts_with("Seccomp:")),
    }
}

#[allow(unsafe_code)]
fn landlock_version() -> u32 {
    const ASK_VERSION: u32 = 1;
    let nothing: *const u8 = std::ptr::null();
    // SAFETY: with this flag the kernel reads nothing from the pointer and gives a number or an error.
    let answer =
        unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, nothing, 0usize, ASK_VERSION) };
    u32::try_from(answer).unwrap_or(0)
}

/// Where trials are marked and remembered. Without the mark, bubblewrap that is killed with this process at the wrong
/// moment, and then waits for ever for its own parent, would not be found at the next start.
static TRIALS: OnceLock<Home> = OnceLock::new();

/// Has trials of the walls marked and remembered in the home folder.
pub fn mark_trials(home: &Home) {
    let _ = TRIALS.set(home.clone());
}

/// The walls are tried before anything is recorded, so in a new home the place for a mark is made here. Where it cannot
/// be made, no task begins.
fn trials() -> Option<&'static Home> {
    TRIALS.get().filter(|home| home.run().is_dir() || home.create_run().is_ok())
}

/// Tries a level once in the life of this process, and remembers how it went. A full trial that held a short while ago
/// need not be made again.
pub fn require(level: Level) -> Result<(), Unavailable> {
    static FULL: OnceLock<Result<(), Unavailable>> = OnceLock::new();
    static REDUCED: OnceLock<Result<(), Unavailable>> = OnceLock::new();
    match level {
        Level::Full => FULL
            .get_or_init(|| match remembered() {
                Some(_) => Ok(()),
                None => try_out(level),
            })
            .clone(),
        Level::Reduced => REDUCED.get_or_init(|| try_out(level)).clone(),
        Level::Off => Ok(()),
    }
}

/// Tries a level, whatever is remembered.
pub fn try_out(level: Level) -> Result<(), Unavailable> {
    try_level(level)?;
    if let (Level::Full, Some(home)) = (level, trials()) {
        let (bubblewrap, version) = super::found_bubblewrap()?;
        // Without it the next process tries again.
        let _ = remembered::note(&home.walls(), &bubblewrap, &version);
    }
    Ok(())
}

/// Where bubblewrap is and its version, if walls made by it held when they were tried.
pub(super) fn remembered() -> Option<(PathBuf, String)> {
    let path = find_bubblewrap()?;
    let held = remembered::recall(&trials()?.walls(), &path)?;
    Some((path, held.version))
}

/// Whether a namespace made by this bubblewrap held when it was last tried.
pub(crate) fn namespace_held(bubblewrap: &Path) -> bool {
    trials().is_some_and(|home| remembered::recall(&home.namespaces(), bubblewrap).is_some())
}

/// Remembers that one held just now, or that it did not.
pub(crate) fn note_namespace(bubblewrap: &Path, held: bool) {
    let Some(home) = trials() else { return };
    // Without it the next process tries again.
    let _ = if held {
        remembered::note(&home.namespaces(), bubblewrap, "")
    } else {
        fs::remove_file(home.namespaces())
    };
}

fn find_bubblewrap() -> Option<PathBuf> {
    PLACES.iter().map(PathBuf::from).find(|path| path.is_file())
}

/// The bubblewrap of the system and its version.
pub(super) fn bubblewrap() -> Result<(PathBuf, String), Unavailable> {
    let unusable = |reason: String, mend: &str| Unavailable { reason, mend: mend.to_owned() };
    let install = "install bubblewrap 0.7 or newer (Debian: apt install bubblewrap)";
    let Some(path) = find_bubblewrap() else {
        return Err(unusable("there is no bubblewrap in the system's folders".to_owned(), install));
    };
    let spec = ProcessSpec {
        timeout: Some(Duration::from_secs(10)),
        containment: Containment::Session,
        ..ProcessSpec::new([path.as_os_str(), "--version".as_ref()])
    };
    let shown = path.display().to_string();
    let said = match run(spec, &Cancel::new()) {
        Ok(ended) => ended.output.text().trim().to_owned(),
        Err(error) => return Err(unusable(error.to_string(), install)),
    };
    let version = said.strip_prefix("bubblewrap ").unwrap_or_default();
    let mut numbers = version.split('.').map(|part| part.parse::<u32>().ok());
    match (numbers.next().flatten(), numbers.next().flatten()) {
        (Some(major), Some(minor)) if (major, minor) >= OLDEST => Ok((path, version.to_owned())),
        (Some(_), Some(_)) => {
            Err(unusable(format!("{shown} is too old: version {version}"), install))
        }
        _ => {
            let said: String = said.chars().take(100).collect();
            Err(unusable(format!("{shown} is no bubblewrap: it says {said:?}"), install))
        }
    }
}

/// Runs a command that tries to get out.
fn try_level(level: Level) -> Result<(), Unavailable> {
    if landlock_version() == 0 {
        return Err(Unavailable {
            reason: "this kernel does not have Landlock".to_owned(),
            mend: "use Linux 5.13 or newer, with landlock among the modules of the boot parameter lsm="
                .to_owned(),
        });
    }
    if level == Level::Full {
        super::found_bubblewrap()?;
    }
    let failed = |reason: String| {
        Unavailable {
        mend: match level {
            _ if reason.contains("Too many open files") => {
                "allow more open files: ulimit -n 4096".to_owned()
            }
            Level::Full => "allow user namespaces: sysctl user.max_user_namespaces=10000, \
                kernel.unprivileged_userns_clone=1 (Debian), \
                kernel.apparmor_restrict_unprivileged_userns=0 or a profile for bwrap (Ubuntu); in a container, run \
                it with the rights that bubblewrap needs"
                .to_owned(),
            Level::Reduced | Level::Off => {
                "use Linux 6.12 or newer: older ones do not keep signals inside".to_owned()
            }
        },
        reason,
    }
    };
    let place = Place::make().map_err(|error| Unavailable {
        reason: format!("it cannot be tried out in {}: {error}", std::env::temp_dir().display()),
        mend: "have that folder writable and with room, or set TMPDIR to one that is".to_owned(),
    })?;
    place.try_out(level).map_err(failed)
}

/// Two folders beside each other: one is the workspace, the other is what must not be reached.
struct Place {
    root: PathBuf,
}

/// What the folders of trials are called, before what makes them different.
const PLACE: &str = "drivetrain-probe-";

/// After so long nobody is trying anything there any more: whoever did was killed.
const ABANDONED: Duration = Duration::from_secs(600);

/// Removes what trials left behind whose process was killed.
fn clear_abandoned(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let is_place = entry.file_name().as_encoded_bytes().starts_with(PLACE.as_bytes());
        let is_old = || {
            let changed = entry.metadata().and_then(|data| data.modified()).ok();
            changed.and_then(|at| at.elapsed().ok()).is_some_and(|age| age > ABANDONED)
        };
        if is_place && is_old() {
            // Those of other users stay.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

impl Place {
    fn make() -> std::io::Result<Place> {
        // The walls know places by their names without links.
        let temporary = std::env::temp_dir().canonicalize()?;
        clear_abandoned(&temporary);
        let mut random = [0u8; 8];
        getrandom::fill(&mut random).map_err(std::io::Error::other)?;
        let name = format!("{PLACE}{:016x}", u64::from_ne_bytes(random));
        let root = temporary.join(name);
        fs::create_dir(&root)?;
        // With one of its own, it is in no repository above, whose files it would see.
        fs::create_dir_all(root.join("inside/.git"))?;
        fs::create_dir(root.join("outside"))?;
        fs::write(root.join("outside/secret"), "secret")?;
        Ok(Place { root })
    }

    fn try_out(&self, level: Level) -> Result<(), String> {
        let outside = self.root.join("outside");
        let tcp = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).ok();
        let socket = outside.join("socket");
        let _listener = UnixListener::bind(&socket).ok();
        let namespace = |name: &&str| {
            let link = fs::read_link(format!("/proc/self/ns/{name}")).ok()?;
            Some(((*name).to_owned(), link))
        };
        let others: &[&str] = if level == Level::Full { &NAMESPACES } else { &[] };
        let targets = Targets {
            inside: self.root.join("inside/written"),
            outside: outside.join("written"),
            secret: outside.join("secret"),
            socket,
            address: tcp.map(|address| address.to_string()),
            process: getpid().as_raw_pid(),
            namespaces: others.iter().filter_map(namespace).collect(),
        };
        let sandbox = Sandbox {
            workspace: Some(self.root.join("inside")),
            access: Access::Write,
            probe: Some(targets),
            ..Sandbox::new(SandboxSpec { level, ..SandboxSpec::default() })
        };
        let spec = ProcessSpec {
            timeout: Some(Duration::from_secs(20)),
            streams: Streams::Separate,
            mark: "probe".to_owned(),
            mark_dir: trials().map(Home::trials),
            containment: Containment::Sandbox(std::sync::Arc::new(sandbox)),
            // Never started: whoever sets up the walls tries them out instead. It need only be there, whatever PATH says.
            ..ProcessSpec::new(["/proc/self/exe"])
        };
        let ended = run(spec, &Cancel::new()).map_err(|error| match error {
            SpawnError::Sandbox { reason } if reason.is_empty() => {
                "the sandbox ended without a word when it was tried".to_owned()
            }
            SpawnError::Sandbox { reason } => format!("the sandbox cannot be set up: {reason}"),
            error => error.to_string(),
        })?;
        let said = ended.stdout.text();
        let complaint = ended.stderr.text();
        let held = said.lines().any(|line| line == HELD);
        if ended.exit == Some(0) && held && !outside.join("written").exists() {
            return if self.root.join("inside/written").exists() {
                Ok(())
            } else {
                Err("what is written in the workspace does not arrive".to_owned())
            };
        }
        let broken: Vec<&str> = said.lines().filter_map(|line| line.strip_prefix(BROKEN)).collect();
        if !broken.is_empty() {
            return Err(format!(
                "the walls do not hold: inside, a command can {}",
                broken.join(", ")
            ));
        }
        let complaint = complaint.trim();
        match complaint.is_empty() {
            true => Err("the sandbox ended without a word when it was tried".to_owned()),
            false => Err(format!("the sandbox cannot be set up: {complaint}")),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}

const HELD: &str = "held";

/// A setting of the kernel that root can change.
const KERNEL_SETTING: &str = "/proc/sys/kernel/core_pattern";
const BROKEN: &str = "broken ";

/// What a probe tries to reach.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Targets {
    inside: PathBuf,
    outside: PathBuf,
    secret: PathBuf,
    socket: PathBuf,
    address: Option<String>,
    process: i32,
    namespaces: Vec<(String, PathBuf)>,
}

/// Inside: tries everything, and says what could be done that must not be.
pub(super) fn inside(targets: &Targets) -> i32 {
    let mut broken: Vec<String> = Vec::new();
    if fs::write(&targets.inside, "x").is_err() {
        broken.push("not even write in the workspace".to_owned());
    }
    // Where the folder is hidden it may be made anew; the runtime looks whether anything arrived.
    let _ = fs::write(&targets.outside, "x");
    if fs::read(&targets.secret).is_ok() {
        broken.push("read what is hidden".to_owned());
    }
    let address: Option<SocketAddr> = targets.address.as_deref().and_then(|text| text.parse().ok());
    if let Some(address) = address
        && TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_ok()
    {
        broken.push("connect to this machine".to_owned());
    }
    if std::os::unix::net::UnixStream::connect(&targets.socket).is_ok() {
        broken.push("connect to a socket".to_owned());
    }
    // The first few numbers are taken inside as well.
    if targets.process > 8
        && Pid::from_raw(targets.process).is_some_and(|pid| test_kill_process(pid).is_ok())
    {
        broken.push("send signals to the runtime".to_owned());
    }
    if targets.process > 8
        && fs::read(format!("/proc/{}/environ", targets.process)).is_ok_and(|text| !text.is_empty())
    {
        broken.push("read the variables of the runtime".to_owned());
    }
    // Opened and not written: it says which program the kernel starts, outside, for one that crashed.
    if fs::OpenOptions::new().write(true).open(KERNEL_SETTING).is_ok() {
        broken.push("change settings of the kernel".to_owned());
    }
    for (name, link) in &targets.namespaces {
        if fs::read_link(Path::new("/proc/self/ns").join(name)).ok().as_ref() == Some(link) {
            broken.push(format!("be in the same {name} namespace"));
        }
    }
    let mut out = std::io::stdout();
    for what in &broken {
        let _ = writeln!(out, "{BROKEN}{what}");
    }
    let _ = writeln!(out, "{}", if broken.is_empty() { HELD } else { "" });
    i32::from(!broken.is_empty())
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn what_a_killed_trial_left_is_removed_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let long_ago = SystemTime::now() - 2 * ABANDONED;
        for (name, is_old) in
            [("drivetrain-probe-1", true), ("drivetrain-probe-2", false), ("another", true)]
        {
            let path = folder.path().join(name);
            fs::create_dir_all(path.join("inside")).unwrap();
            if is_old {
                fs::File::open(path).unwrap().set_modified(long_ago).unwrap();
            }
        }
        clear_abandoned(folder.path());
        let left = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
        let mut left: Vec<_> = left.collect();
        left.sort();
        assert_eq!(left, ["another", "drivetrain-probe-2"]);
    }
}
