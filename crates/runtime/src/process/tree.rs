//! Whole process trees: how a command is contained, how all of it is ended, and how what an earlier life
//! of the runtime left behind is found and ended.
//!
//! With bubblewrap a command runs in a PID namespace that dies with it, whatever its processes do. Without,
//! a warden keeps them together (`warden`). Where that is gone or cannot be had, a command has a session of its own, and a
//! mark in its environment by which processes that left the session are found. A process that leaves the session, its
//! parents and its environment behind escapes that form.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, pidfd_open,
    pidfd_send_signal, waitid,
};
use serde::{Deserialize, Serialize};

use super::warden::{self, Warden};
use super::{Cancel, ProcessSpec, Streams, find_program, timeout_until};
use crate::sandbox::{Held, Sandbox, namespace_held, note_namespace};

/// The variable that marks every process of a command.
pub(super) const MARK_VARIABLE: &str = "DRIVETRAIN_MARK";

/// How a command's processes are held together.
#[derive(Debug, Clone, Default)]
pub enum Containment {
    /// A PID namespace by bubblewrap where that works on this machine, else `Group`. No walls.
    #[default]
    Auto,
    /// A session of its own, a warden over what leaves it, and marks to find what is left without one. No walls.
    Group,
    /// The same for a program that starts nothing that leaves its session: unless it has to be killed, nobody looks for
    /// more among all processes of the machine, which can cost as much as the program did.
    Session,
    /// This very program, with all the variables of this process: a session of its own, without a mark. It alone is ended,
    /// since what it starts are processes that drive tasks of their own, and those go on.
    Alone,
    /// Walls around it: nothing is started where they cannot be had.
    Sandbox(Arc<Sandbox>),
}

/// What goes around a command.
#[derive(Default)]
pub(super) struct Wrapped {
    /// The words before the command's own.
    pub(super) argv: Vec<OsString>,
    /// Variables it gets beside its own.
    pub(super) env: Vec<(OsString, OsString)>,
    /// Where all its variables go, if what goes around it is to have none of them.
    pub(super) variables: Option<File>,
    /// Whether it runs in a PID namespace.
    pub(super) namespaced: bool,
    /// Descriptors that stay open for it.
    pub(super) open: Vec<i32>,
    /// Where its first process writes `0` to be counted.
    pub(super) join: Option<i32>,
    /// What is in place outside.
    pub(super) held: Option<Held>,
}

impl Containment {
    /// What goes around a command; the error says why it cannot be held as wanted.
    pub(super) fn wrap(
        &self,
        cwd: Option<&Path>,
        mark_dir: Option<&Path>,
    ) -> Result<Wrapped, String> {
        let program = match self {
            Containment::Sandbox(sandbox) => {
                let arranged = sandbox.arrange(cwd, true)?;
                return Ok(Wrapped {
                    argv: arranged.argv,
                    env: arranged.env,
                    variables: Some(arranged.variables),
                    namespaced: arranged.namespaced,
                    open: arranged.open,
                    join: arranged.join,
                    held: Some(arranged.view),
                });
            }
            Containment::Auto => bubblewrap(mark_dir),
            Containment::Group | Containment::Session | Containment::Alone => None,
        };
        let Some(program) = program else { return Ok(Wrapped::default()) };
        let mut argv: Vec<OsString> = vec![program.into()];
        argv.extend(NAMESPACE.iter().map(OsString::from));
        if let Some(cwd) = cwd {
            argv.extend(["--chdir".into(), cwd.into()]);
        }
        argv.push("--".into());
        argv.extend(["/bin/sh", "-c", GUARD, "guard"].map(OsString::from));
        Ok(Wrapped { argv, namespaced: true, ..Wrapped::default() })
    }

    /// Whether a command is behind a guard that waits to be let go.
    pub(super) fn is_guarded(&self, mark_dir: Option<&Path>) -> bool {
        match self {
            Containment::Sandbox(_) => true,
            Containment::Auto => bubblewrap(mark_dir).is_some(),
            Containment::Group | Containment::Session | Containment::Alone => false,
        }
    }

    /// Takes note that no guard spoke: what is remembered of namespaces is not believed again.
    pub(super) fn distrust(&self, mark_dir: Option<&Path>) {
        if let (Containment::Auto, Some(program)) = (self, bubblewrap(mark_dir)) {
            note_namespace(program, false);
        }
    }

    /// Whether a warden stands over a command that no namespace holds.
    pub(super) fn has_warden(&self) -> bool {
        match self {
            Containment::Auto | Containment::Group | Containment::Sandbox(_) => true,
            Containment::Session | Containment::Alone => false,
        }
    }

    /// Whether there are walls.
    pub(super) fn is_sandbox(&self) -> bool {
        matches!(self, Containment::Sandbox(_))
    }
}

/// Runs first inside a namespace without walls; says and waits for what the sandbox's helper does. Bubblewrap asks the kernel to end the namespace with its parent only
/// after it has made it: if the runtime dies in between, nothing would end the command. So the guard says
/// that it is there and becomes the command only when the runtime answers; a dead one never does.
const GUARD: &str = r#"printf '\006'; IFS= read -r go || exit 125; exec "$@""#;

const NAMESPACE: [&str; 7] =
    ["--dev-bind", "/", "/", "--unshare-pid", "--proc", "/proc", "--die-with-parent"];

/// Whether `Containment::Auto` means a PID namespace here. Tried once, then remembered.
pub fn namespaces_work() -> bool {
    bubblewrap(None).is_some()
}

/// The path of a bubblewrap that was seen to work, a short while ago or now. Now means marked as any command is: the
/// runtime may die beside it.
fn bubblewrap(mark_dir: Option<&Path>) -> Option<&'static Path> {
    static FOUND: OnceLock<Option<PathBuf>> = OnceLock::new();
    let find = || {
        let program = find_program("bwrap".as_ref(), None)?;
        if !namespace_held(&program) {
            try_out(&program, mark_dir)?;
            note_namespace(&program, true);
        }
        Some(program)
    };
    FOUND.get_or_init(find).as_deref()
}

fn try_out(program: &Path, mark_dir: Option<&Path>) -> Option<()> {
    let mut argv: Vec<OsString> = vec![program.into()];
    argv.extend(NAMESPACE.iter().map(OsString::from));
    argv.extend(["--".into(), "true".into()]);
    let spec = ProcessSpec {
        timeout: Some(Duration::from_secs(10)),
        containment: Containment::Group,
        streams: Streams::Merged,
        mark: "probe".to_owned(),
        mark_dir: mark_dir.map(Path::to_owned),
        ..ProcessSpec::new(argv)
    };
    let finished = super::run(spec, &Cancel::new()).ok()?;
    (finished.exit == Some(0)).then_some(())
}

/// More processes than this cannot begin in a millisecond, on any machine.
const MOST_IN_A_MILLISECOND: u128 = 512;

/// The processes of one running command. The leader must not be reaped before the last call.
#[derive(Debug)]
pub(super) struct Tree {
    leader: Pid,
    leader_start: u64,
    began: Instant,
    namespaced: bool,
    /// Nothing of it leaves its session.
    stays: bool,
    /// What leaves its process group is not of it.
    alone: bool,
    stamp: String,
    /// The first process of the namespace: all others of it are gone when it is.
    first: OnceLock<OwnedFd>,
    /// The leader, if it stands over the command and is not the command itself.
    warden: Option<Warden>,
}

/// How long a warden may take to end everything before that is done without it.
const WARDEN_LIMIT: Duration = Duration::from_secs(5);

impl Tree {
    /// `began` is a moment before the leader started.
    pub(super) fn new(
        leader: Pid,
        began: Instant,
        containment: &Containment,
        namespaced: bool,
        stamp: String,
        warden: Option<Warden>,
    ) -> Tree {
        let leader_start = read_stat(leader.as_raw_pid()).map_or(0, |process| process.start);
        let stays = matches!(containment, Containment::Session);
        let alone = matches!(containment, Containment::Alone);
        let first = OnceLock::new();
        Tree { leader, leader_start, began, namespaced, stays, alone, stamp, first, warden }
    }

    /// Takes hold of the namespace's first process; to be called when its guard has spoken and waits for the word to go.
    /// Where the kernel does not say which one it is, the end of the namespace is found by looking at every process.
    pub(super) fn hold_first(&self) {
        if !self.namespaced {
            return;
        }
        let leader = self.leader.as_raw_pid();
        let listed = fs::read_to_string(format!("/proc/{leader}/task/{leader}/children"));
        let Ok(listed) = listed else { return };
        let mut children = listed.split_whitespace().filter_map(|pid| pid.parse().ok());
        let (Some(only), None) = (children.next(), children.next()) else { return };
        let handle = Pid::from_raw(only).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        // The guard waits behind it, so this number was nobody else's meanwhile.
        if let Some(handle) = handle {
            let _ = self.first.set(handle);
        }
    }

    /// What becomes readable when the command has ended.
    pub(super) fn handle(&self) -> Option<OwnedFd> {
        match &self.warden {
            Some(warden) => warden.handle(),
            None => pidfd_open(self.leader, PidfdFlags::empty()).ok(),
        }
    }

    /// Whether the command has ended. The leader stays at least as a zombie, so its number is not used again.
    pub(super) fn has_ended(&self) -> bool {
        self.warden.as_ref().is_some_and(Warden::has_ended) || self.leader_exited()
    }

    fn leader_exited(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        !matches!(waitid(WaitId::Pid(self.leader), options), Ok(None))
    }

    /// Asks everything to end.
    pub(super) fn terminate(&self) {
        if !self.namespaced {
            let _ = kill_process_group(self.leader, Signal::TERM);
            return;
        }
        // Bubblewrap itself (the leader and the namespace's first process) would die at once and take the
        // rest with it; only what runs inside is asked.
        let all = snapshot(0);
        let inits = children(&all, &BTreeSet::from([self.leader.as_raw_pid()]));
        let mut inside = children(&all, &inits);
        if inits.is_empty() {
            let _ = kill_process_group(self.leader, Signal::KILL);
        }
        loop {
            let more = children(&all, &inside);
            let before = inside.len();
            inside.extend(more);
            if inside.len() == before {
                break;
            }
        }
        for pid in inside.into_iter().filter_map(Pid::from_raw) {
            let _ = kill_process(pid, Signal::TERM);
        }
    }

    /// Ends everything and returns when nothing of it runs any more.
    pub(super) fn kill(&self) {
        if self.warden.as_ref().is_some_and(|warden| self.is_ended_by(warden)) {
            return;
        }
        if let Some(first) = self.first.get() {
            let _ = pidfd_send_signal(first, Signal::KILL);
            let until = Instant::now() + Duration::from_secs(1);
            let is_gone = ends(first, until);
            // Bubblewrap reports how the command ended before it ends itself.
            while !self.leader_exited() && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(1));
            }
            let _ = kill_process_group(self.leader, Signal::KILL);
            if is_gone {
                return;
            }
        }
        if self.namespaced && !self.leader_exited() {
            // The namespace's first process takes all others with it, and bubblewrap reports after that.
            let all = snapshot(0);
            for pid in children(&all, &BTreeSet::from([self.leader.as_raw_pid()])) {
                if let Some(pid) = Pid::from_raw(pid) {
                    let _ = kill_process(pid, Signal::KILL);
                }
            }
            let until = Instant::now() + Duration::from_secs(1);
            while !self.leader_exited() && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(2));
            }
        }
        let ended = self.leader_exited();
        let _ = kill_process_group(self.leader, Signal::KILL);
        if self.alone || self.stays && ended {
            return;
        }
        let marks = Search {
            leader: self.leader.as_raw_pid(),
            leader_start: self.leader_start,
            stamp: &self.stamp,
            read_environments: !self.namespaced,
            from: self.from(),
        };
        marks.kill_all();
    }

    /// Has the warden end everything; says whether nothing is left.
    fn is_ended_by(&self, warden: &Warden) -> bool {
        let _ = kill_process(self.leader, warden::END_ALL);
        if let Ok(leader) = pidfd_open(self.leader, PidfdFlags::empty()) {
            ends(&leader, Instant::now() + WARDEN_LIMIT);
        }
        warden.left_nothing()
    }

    /// The lowest number that a process of it can have. Numbers are given in turn, so what began after the leader has a
    /// higher one, until they come round: for a short command they cannot have.
    fn from(&self) -> i32 {
        static LAST: OnceLock<i32> = OnceLock::new();
        let read = || fs::read_to_string("/proc/sys/kernel/pid_max").ok()?.trim().parse().ok();
        let last = *LAST.get_or_init(|| read().unwrap_or(0));
        let leader = self.leader.as_raw_pid();
        let given = (self.began.elapsed().as_millis() + 1) * MOST_IN_A_MILLISECOND;
        let left = u128::try_from(last - leader).unwrap_or(0);
        if given < left { leader } else { 0 }
    }
}

/// Waits until a process has ended; says whether it has.
fn ends(process: &OwnedFd, until: Instant) -> bool {
    loop {
        let mut watched = [PollFd::new(process, PollFlags::IN)];
        match poll(&mut watched, timeout_until([Some(until)]).as_ref()) {
            Ok(0) => return false,
            Ok(_) => return true,
            Err(Errno::INTR) => {}
            Err(_) => return false,
        }
    }
}

/// What to look for among all processes.
struct Search<'a> {
    leader: i32,
    leader_start: u64,
    stamp: &'a str,
    read_environments: bool,
    /// Processes with lower numbers were there before, as far as is known when the search begins.
    from: i32,
}

impl Search<'_> {
    /// Kills until nothing is found; gives the numbers of what was found.
    fn kill_all(&self) -> BTreeSet<i32> {
        let mut killed = BTreeSet::new();
        for round in 0..200 {
            // What is still there may begin as many as it likes.
            let found = self.alive(if round == 0 { self.from } else { 0 });
            if found.is_empty() {
                break;
            }
            for process in &found {
                killed.insert(process.pid);
                kill_exactly(process);
            }
            std::thread::sleep(Duration::from_millis(if round < 20 { 1 } else { 10 }));
        }
        killed
    }

    fn alive(&self, from: i32) -> Vec<Process> {
        let all = snapshot(from);
        // The group's number means our group only while its leader, running or unreaped, is the one we know.
        let leader_known = all.iter().any(|p| p.pid == self.leader && p.start == self.leader_start);
        let mut ours: BTreeSet<i32> = BTreeSet::new();
        for process in all.iter().filter(|process| process.start >= self.leader_start) {
            let by_number = leader_known
                && [process.pid, process.group, process.session].contains(&self.leader);
            if by_number || (self.read_environments && carries(process.pid, self.stamp)) {
                ours.insert(process.pid);
            }
        }
        loop {
            let more = children(&all, &ours);
            let before = ours.len();
            ours.extend(more);
            if ours.len() == before {
                break;
            }
        }
        all.into_iter().filter(|process| process.running && ours.contains(&process.pid)).collect()
    }
}

/// Kills the process that was seen, not one that got its number since.
fn kill_exactly(seen: &Process) {
    let Some(pid) = Pid::from_raw(seen.pid) else { return };
    let same = || read_stat(seen.pid).is_some_and(|process| process.start == seen.start);
    match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(handle) => {
            if same() {
                let _ = pidfd_send_signal(&handle, Signal::KILL);
            }
        }
        Err(_) => {
            if same() {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
    }
}

#[derive(Debug, Clone)]
struct Process {
    pid: i32,
    parent: i32,
    group: i32,
    session: i32,
    start: u64,
    running: bool,
    stopped: bool,
}

/// Whether a process was stopped, as Ctrl-Z does, and does nothing until it is told to go on.
pub fn is_stopped(pid: i32) -> bool {
    read_stat(pid).is_some_and(|process| process.stopped)
}

/// The processes of this machine with numbers from this one on.
fn snapshot(from: i32) -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|pid| *pid >= from)
        .filter_map(read_stat)
        .collect()
}

/// Reads /proc/PID/stat; the command name in it may hold anything, so fields are counted from its end.
fn read_stat(pid: i32) -> Option<Process> {
    // One read has it all; a command has to look at every process of the machine.
    let mut held = [0u8; 1024];
    let length = fs::File::open(format!("/proc/{pid}/stat")).ok()?.read(&mut held).ok()?;
    let stat = String::from_utf8_lossy(&held[..length]);
    let fields: Vec<&str> = stat[stat.rfind(')')? + 1..].split_whitespace().collect();
    Some(Process {
        pid,
        parent: fields.get(1)?.parse().ok()?,
        group: fields.get(2)?.parse().ok()?,
        session: fields.get(3)?.parse().ok()?,
        start: fields.get(19)?.parse().ok()?,
        running: !matches!(*fields.first()?, "Z" | "X"),
        stopped: *fields.first()? == "T",
    })
}

fn children(all: &[Process], parents: &BTreeSet<i32>) -> BTreeSet<i32> {
    all.iter().filter(|process| parents.contains(&process.parent)).map(|p| p.pid).collect()
}

/// The children of a process, for kernels that do not list them.
pub(super) fn children_of(parent: i32) -> Vec<i32> {
    children(&snapshot(0), &BTreeSet::from([parent])).into_iter().collect()
}

/// Whether a process's environment holds the mark.
fn carries(pid: i32, stamp: &str) -> bool {
    let Ok(environment) = fs::read(format!("/proc/{pid}/environ")) else { return false };
    let wanted = format!("{MARK_VARIABLE}={stamp}");
    environment.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes())
}

/// A command that is, or was, running: kept in a file so that a later life of the runtime can end it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Mark {
    stamp: String,
    mark: String,
    boot: String,
    owner: i32,
    owner_start: u64,
    /// The group's leader; 0 until it has started.
    #[serde(default)]
    leader: i32,
    #[serde(default)]
    leader_start: u64,
}

/// A mark's file; removed when dropped, after the processes have ended.
#[derive(Debug)]
pub(super) struct MarkFile {
    path: PathBuf,
    mark: Mark,
}

impl MarkFile {
    /// Written before the command starts, so that no instant leaves a process without a mark.
    pub(super) fn create(folder: &Path, stamp: &str, mark: &str) -> std::io::Result<MarkFile> {
        static STARTED: OnceLock<u64> = OnceLock::new();
        fs::create_dir_all(folder)?;
        let owner = rustix::process::getpid().as_raw_pid();
        let owner_start =
            *STARTED.get_or_init(|| read_stat(owner).map_or(0, |process| process.start));
        let mark = Mark {
            stamp: stamp.to_owned(),
            mark: mark.to_owned(),
            boot: boot().to_owned(),
            owner,
            owner_start,
            leader: 0,
            leader_start: 0,
        };
        let file = MarkFile { path: folder.join(format!("{stamp}.json")), mark };
        file.save()?;
        Ok(file)
    }

    pub(super) fn started(&mut self, tree: &Tree) {
        self.mark.leader = tree.leader.as_raw_pid();
        self.mark.leader_start = tree.leader_start;
        // The mark in the environment alone is enough to find the tree; the numbers only add to it.
        let _ = self.save();
    }

    fn save(&self) -> std::io::Result<()> {
        let text = serde_json::to_vec(&self.mark)?;
        let next = self.path.with_extension("next");
        fs::write(&next, text)?;
        fs::rename(&next, &self.path)
    }
}

impl Drop for MarkFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// What an earlier life of the runtime left running.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reaped {
    /// The mark its command was started with.
    pub mark: String,
    /// The processes that were killed; empty if the command had ended by itself.
    pub killed: Vec<i32>,
}

/// Ends what earlier lives of the runtime left running, by the marks in `folder`, and removes the marks.
/// Called once at start. Marks of a runtime that still lives are left alone; a process that merely got an
/// old number is not killed.
pub fn reap_leftovers(folder: &Path) -> Vec<Reaped> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    let mut reaped = Vec::new();
    for path in paths.iter().filter(|path| path.extension().is_some_and(|end| end == "json")) {
        let Some(mark) =
            fs::read(path).ok().and_then(|text| serde_json::from_slice::<Mark>(&text).ok())
        else {
            continue;
        };
        let same_boot = mark.boot == boot();
        let owner_lives = same_boot
            && read_stat(mark.owner).is_some_and(|p| p.start == mark.owner_start && p.running);
        if owner_lives {
            continue;
        }
        let mut killed = BTreeSet::new();
        if same_boot {
            let search = Search {
                leader: mark.leader,
                leader_start: mark.leader_start,
                stamp: &mark.stamp,
                read_environments: true,
                from: 0,
            };
            killed = search.kill_all();
        }
        let _ = fs::remove_file(path);
        reaped.push(Reaped { mark: mark.mark, killed: killed.into_iter().collect() });
    }
    reaped
}

/// Which boot of the machine this is. Start times count from there, so a mark of another one means nothing.
pub(crate) fn boot() -> &'static str {
    static BOOT: OnceLock<String> = OnceLock::new();
    let read = || fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    BOOT.get_or_init(read).trim()
}
