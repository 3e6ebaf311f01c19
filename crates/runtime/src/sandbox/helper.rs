//! The inner side of the wall: this program, started again inside, closes the doors behind it and becomes the command.
//!
//! Whoever embeds the runtime calls [`enter`] at the very start of `main`, before any thread is there.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset,
    RulesetAttr, RulesetCreatedAttr, RulesetStatus, Scope,
};
use machine::policy::sandbox::Limits;
use rustix::process::{Resource, Rlimit, setrlimit};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities,
};
use serde::{Deserialize, Serialize};

use super::filter::{self, Sockets};
use super::{probe, way};
use crate::process::warden;
use crate::{egress, gateway};

/// The first argument of a start as helper. No command has this name.
pub(super) const WORD: &str = "--as-sandbox-helper";

/// Says that the walls stand, as the first byte of standard output.
pub(crate) const READY: u8 = 0x06;

/// What lets the helper go, as the first byte of standard input.
pub(crate) const GO: &[u8] = b"\n";

/// Orders of another version of the program are not understood.
const VERSION: u32 = 4;

/// The exit code of a helper that could not do its work.
pub(super) const FAILED: i32 = 125;

/// What the helper is told. Paths are those of the inside.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Orders {
    /// The form of these orders.
    pub(super) version: u32,
    /// Where what can be read begins; all of it for a sandbox that hides by other means.
    pub(super) read: Vec<PathBuf>,
    /// Folders of which the names can be read.
    pub(super) listed: Vec<PathBuf>,
    /// What can be written.
    pub(super) write: Vec<PathBuf>,
    /// Sockets.
    pub(super) sockets: Sockets,
    /// Whether Landlock refuses TCP as well.
    pub(super) refuse_tcp: bool,
    /// How much may be taken.
    pub(super) limits: Limits,
    /// The descriptor of the folder with the egress proxy's socket, if there is a way out.
    pub(super) bridge: Option<i32>,
    /// The descriptor of the folder with the gateway's socket, and the port that leads there, if there is one.
    pub(super) gateway: Option<(i32, u16)>,
    /// The descriptor of the command's variables. What makes the walls has none of them: some lead a program to code of
    /// others before it begins (`LD_PRELOAD`).
    pub(super) variables: i32,
    /// Whether the runtime is asked before the command begins.
    pub(super) ask: bool,
    /// Whether the walls are tried instead of running a command.
    pub(super) probe: Option<probe::Targets>,
}

impl Orders {
    pub(super) fn new(limits: Limits, variables: i32) -> Orders {
        Orders {
            version: VERSION,
            read: vec!["/".into()],
            listed: Vec::new(),
            write: Vec::new(),
            sockets: Sockets::None,
            refuse_tcp: true,
            limits,
            bridge: None,
            gateway: None,
            variables,
            ask: true,
            probe: None,
        }
    }
}

/// Becomes a command inside a sandbox, or what stands over one, if this process was started for that; returns at once
/// otherwise.
///
/// To be called at the very start of `main`. The process has no other threads then, and nothing of the runtime is in
/// its memory.
pub fn enter() {
    let mut arguments = std::env::args_os().skip(1);
    let first = arguments.next().unwrap_or_default();
    if let Some(word) = way::WORDS.iter().find(|word| first == **word) {
        std::process::exit(way::continue_as(word, &arguments.next().unwrap_or_default()));
    }
    if first == warden::WORD {
        std::process::exit(warden::watch(arguments));
    }
    if first != WORD {
        warden::is_known();
        return;
    }
    let failed = match work(arguments.collect()) {
        Ok(code) => std::process::exit(code),
        Err(reason) => reason,
    };
    // Nobody is left to be told if this fails.
    let _ = writeln!(io::stderr(), "drivetrain sandbox: {failed}");
    std::process::exit(FAILED);
}

fn work(mut arguments: Vec<OsString>) -> Result<i32, String> {
    if arguments.is_empty() {
        return Err("it is started by the runtime, not by hand".to_owned());
    }
    let orders = arguments.remove(0).into_string().map_err(|_| "the orders are not text")?;
    let orders: Orders =
        serde_json::from_str(&orders).map_err(|error| format!("the orders do not fit: {error}"))?;
    if orders.version != VERSION {
        return Err(
            "the program was replaced by another version while it ran: start it again".to_owned()
        );
    }
    let mut variables = read_variables(orders.variables)?;
    keep_descriptors()?;
    limit(&orders.limits)?;
    drop_rights()?;
    // Before the walls: the command must not reach what carries its bytes.
    if let Some((folder, port)) = orders.gateway {
        way::begin(folder, port, gateway::SOCKET)?;
    }
    let begin = |folder| way::begin(folder, 0, egress::SOCKET);
    let port = orders.bridge.map(begin).transpose()?;
    wall(&orders)?;
    filter::apply(orders.sockets)?;
    if orders.ask {
        ask()?;
    }
    if let Some(targets) = &orders.probe {
        return Ok(probe::inside(targets));
    }
    let Some(program) = arguments.first() else { return Err("there is no command".to_owned()) };
    let to_proxy = port.map(egress::variables).unwrap_or_default();
    variables.extend(to_proxy.into_iter().map(|(name, value)| (name.into(), value.into())));
    let error = Command::new(program).args(&arguments[1..]).env_clear().envs(variables).exec();
    let shown = program.to_string_lossy().into_owned();
    let code = if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 };
    let _ = writeln!(
        io::stderr(),
        "drivetrain sandbox: cannot start {shown}: {error} (as seen from inside)"
    );
    Ok(code)
}

/// The kernel is asked to end the namespace with the runtime only after it was made: if the runtime dies in between,
/// nothing would end the command. So the helper says that it is there and becomes the command only when the runtime
/// answers; a dead one never does.
fn ask() -> Result<(), String> {
    let lost = |_| "the runtime is gone".to_owned();
    // Unbuffered: what follows the answer belongs to the command.
    rustix::io::write(io::stdout(), &[READY]).map_err(lost)?;
    let mut answer = [0u8; 1];
    loop {
        match rustix::io::read(io::stdin(), &mut answer) {
            Ok(1) if answer == *GO => return Ok(()),
            Err(rustix::io::Errno::INTR) => {}
            Ok(_) | Err(_) => return Err("the runtime is gone".to_owned()),
        }
    }
}

/// The form in which a command's variables come inside. None of them may hold a NUL byte.
pub(crate) fn as_bytes(variables: &[(OsString, OsString)]) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    for word in variables.iter().flat_map(|(name, value)| [name, value]) {
        if word.as_bytes().contains(&0) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a word holds a NUL byte"));
        }
        bytes.extend(word.as_bytes());
        bytes.push(0);
    }
    Ok(bytes)
}

fn read_variables(descriptor: i32) -> Result<Vec<(OsString, OsString)>, String> {
    let bytes = fs::read(format!("/proc/self/fd/{descriptor}"))
        .map_err(|error| format!("the command's variables cannot be read: {error}"))?;
    let words: Vec<&[u8]> = bytes.split(|byte| *byte == 0).collect();
    let text = |word: &[u8]| OsStr::from_bytes(word).to_owned();
    Ok(words.chunks_exact(2).map(|pair| (text(pair[0]), text(pair[1]))).collect())
}

/// Descriptors that were open in the runtime are not for the command.
fn keep_descriptors() -> Result<(), String> {
    let failed = |error: io::Error| format!("cannot close what was open: {error}");
    let listed = fs::read_dir("/proc/self/fd").map_err(failed)?;
    let open: Vec<i32> =
        listed.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect();
    for number in open.into_iter().filter(|number| *number > 2) {
        close_on_exec(number);
    }
    Ok(())
}

#[allow(unsafe_code)]
fn close_on_exec(number: i32) {
    // SAFETY: setting a flag of a descriptor by its number touches no memory. A number that is closed by now is
    // answered with an error, which is as good.
    unsafe {
        libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC);
    }
}

fn limit(limits: &Limits) -> Result<(), String> {
    let all = [
        (Resource::Nproc, limits.processes, "processes"),
        (Resource::Data, limits.memory, "memory"),
        (Resource::Fsize, limits.file_size, "file size"),
        (Resource::Nofile, limits.open_files, "open files"),
        (Resource::Cpu, (limits.cpu_time.0 / 1000).max(1), "processor time"),
        (Resource::Core, 0, "core dumps"),
    ];
    for (resource, wanted, what) in all {
        let hard = rustix::process::getrlimit(resource).maximum;
        let value = hard.map_or(wanted, |hard| hard.min(wanted));
        let limit = Rlimit { current: Some(value), maximum: Some(value) };
        setrlimit(resource, limit).map_err(|error| format!("cannot limit {what}: {error}"))?;
    }
    Ok(())
}

/// Rights of root, which see through some of the walls: other processes' memory, for one. Namespaces took them already.
fn drop_rights() -> Result<(), String> {
    let failed = |error| format!("cannot give up the rights of root: {error}");
    let own = capabilities(None).map_err(failed)?;
    if own.permitted.is_empty() {
        return Ok(());
    }
    for right in CapabilitySet::all().iter() {
        // Rights that this kernel does not know are no rights.
        match remove_capability_from_bounding_set(right) {
            Ok(()) | Err(rustix::io::Errno::INVAL) => {}
            Err(error) => return Err(failed(error)),
        }
    }
    clear_ambient_capability_set().map_err(failed)?;
    let none = CapabilitySet::empty();
    let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
    set_capabilities(None, sets).map_err(failed)
}

/// The second wall: even where the first has a gap, nothing but these paths is written.
fn wall(orders: &Orders) -> Result<(), String> {
    let failed = |error: &dyn std::fmt::Display| format!("Landlock refuses: {error}");
    // Later rights are not asked for: what they mean is not known here.
    let abi = ABI::V8;
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(abi))
        .map_err(|error| failed(&error))?
        .scope(Scope::from_all(abi))
        .map_err(|error| failed(&error))?;
    if orders.refuse_tcp {
        ruleset =
            ruleset.handle_access(AccessNet::from_all(abi)).map_err(|error| failed(&error))?;
    }
    let mut ruleset = ruleset.create().map_err(|error| failed(&error))?;
    let reading = AccessFs::from_read(abi);
    let (listing, all) = (AccessFs::ReadDir.into(), AccessFs::from_all(abi));
    for (paths, access) in
        [(&orders.read, reading), (&orders.listed, listing), (&orders.write, all)]
    {
        for path in paths {
            // What is not there cannot be reached, and is not made either.
            let Ok(meta) = fs::metadata(path) else { continue };
            let access = if meta.is_dir() { access } else { access & AccessFs::from_file(abi) };
            let Ok(opened) = PathFd::new(path) else { continue };
            let rule = PathBeneath::new(opened, access);
            ruleset = ruleset.add_rule(rule).map_err(|error| failed(&error))?;
        }
    }
    let status = ruleset.restrict_self().map_err(|error| failed(&error))?;
    if status.ruleset == RulesetStatus::NotEnforced || !status.no_new_privs {
        return Err("this kernel does not have Landlock".to_owned());
    }
    Ok(())
}
