//! The walls around every process that is started for a task.
//!
//! On the outside, bubblewrap makes namespaces in which only some of the file system is seen (`view`), with the names
//! that steer other programs covered (`masks`). On the inside, this program itself, started again, sets limits, closes
//! the doors that are left (`helper`, `filter`) and becomes the command. Whether that works here is found out by trying
//! to get out (`probe`), once; where it does not, nothing runs.

mod cgroup;
mod filter;
pub(crate) mod git;
pub mod helper;
pub(crate) mod masks;
mod probe;
mod remembered;
mod scratch;
mod unseen;
mod view;
mod way;

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use machine::id::TaskId;
use machine::policy::sandbox::{Level, Needs, Network, SandboxSpec};
use machine::task::Workspace;
use rustix::fs::{MemfdFlags, memfd_create};

use crate::home::Home;
use crate::process::Containment;
use filter::Sockets;
use helper::Orders;
pub use probe::{Machine, Unavailable, machine, mark_trials, require, try_out};
pub(crate) use probe::{namespace_held, note_namespace};
use scratch::Scratch;
pub use view::Mount;
use view::View;
use way::Way;

/// What can be done with the workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// It is worked in.
    Write,
    /// It is only looked at.
    Read,
}

/// A sandbox for one kind of process of a task.
#[derive(Debug, Clone)]
pub struct Sandbox {
    /// What is wanted.
    pub spec: SandboxSpec,
    /// The task's folder.
    pub workspace: Option<PathBuf>,
    /// What may be done there.
    pub access: Access,
    /// Folders that nothing inside sees, wherever they are: this program's own state.
    pub hidden: Vec<PathBuf>,
    /// Folders that are shown read-only beside what everybody sees.
    pub shown: Vec<PathBuf>,
    /// Folders that are shown read-only at other places, which must exist in the workspace: from, to.
    pub shared: Vec<(PathBuf, PathBuf)>,
    /// The folder of the socket at which it can ask for calls, if it can; nothing else of this program's state is seen.
    pub gate: Option<PathBuf>,
    /// A folder of its own that it writes in and finds again at its next start, though it lies in what is hidden.
    pub own: Option<PathBuf>,
    /// The folder of the gateway to its models, and the port of its own loopback from which a bridge leads there.
    pub gateway: Option<(PathBuf, u16)>,
    /// Where it is told which hosts were reached for.
    pub passages: Option<PathBuf>,
    probe: Option<probe::Targets>,
}

/// A program of its own beside a task: a plugin, a server of tools.
#[derive(Debug, Clone, Copy)]
pub struct Program<'a> {
    /// The task's sandbox.
    pub task: &'a SandboxSpec,
    /// What its file says it needs.
    pub needs: &'a Needs,
    /// Where the task works.
    pub workspace: &'a Workspace,
    /// The folder that it is named from; shown, and what its paths begin at.
    pub folder: Option<&'a Path>,
    /// What it may do in the workspace.
    pub access: Access,
    /// The folder of this program's own state.
    pub state: Option<&'a Path>,
    /// The task's id.
    pub name: &'a str,
    /// The socket at which it can ask for calls.
    pub gate: Option<&'a Path>,
    /// A folder of its own that it finds again at its next start.
    pub own: Option<&'a Path>,
    /// The folder of the gateway to its models, and the port by which it finds it.
    pub gateway: Option<(&'a Path, u16)>,
    /// Where its own files are, if those lie in a hidden place; shown read-only.
    pub files: &'a [PathBuf],
}

impl Program<'_> {
    /// How its processes are held.
    pub fn containment(&self, without: &Containment) -> Containment {
        let mut spec = self.needs.within(self.task);
        if spec.level == Level::Off {
            return without.clone();
        }
        let base = self.folder.unwrap_or(Path::new("/"));
        spec.read = resolve(&spec.read, base);
        spec.write = resolve(&spec.write, base);
        Containment::Sandbox(Arc::new(Sandbox {
            workspace: self.workspace.path.as_deref().map(PathBuf::from),
            access: self.access,
            hidden: self.state.map(Path::to_owned).into_iter().collect(),
            shown: self.folder.into_iter().map(Path::to_owned).chain(self.files.to_vec()).collect(),
            gate: self.gate.and_then(Path::parent).map(Path::to_owned),
            own: self.own.map(Path::to_owned),
            gateway: self.gateway.map(|(folder, port)| (folder.to_owned(), port)),
            passages: self
                .state
                .map(|state| Home::at(state).passages(&TaskId(self.name.to_owned()))),
            ..Sandbox::new(spec)
        }))
    }
}

/// Paths as people write them, made absolute: `~/` is the user's home, the rest begins at `base`.
pub fn resolve(paths: &[String], base: &Path) -> Vec<String> {
    let home = view::home();
    let absolute = |path: &String| {
        let whole = match (path.strip_prefix("~/"), &home) {
            (Some(rest), Some(home)) => home.join(rest),
            _ => base.join(path),
        };
        whole.to_string_lossy().into_owned()
    };
    paths.iter().map(absolute).collect()
}

/// How to start a command inside.
pub(crate) struct Arranged {
    /// What goes before the command's own words.
    pub(crate) argv: Vec<OsString>,
    /// Variables it gets beside its own.
    pub(crate) env: Vec<(OsString, OsString)>,
    /// Where all its variables are to be written (`hand_over`) before it is started.
    pub(crate) variables: File,
    /// Whether it is the first in a PID namespace.
    pub(crate) namespaced: bool,
    /// Descriptors to be left open for the command's first steps.
    pub(crate) open: Vec<i32>,
    /// Where the command's first process writes `0` to be counted.
    pub(crate) join: Option<i32>,
    /// What was put in place outside; to be dropped when nothing of the command is left.
    pub(crate) view: Held,
}

/// What is in place outside for as long as something runs inside.
#[derive(Debug)]
pub(crate) struct Held {
    _masks: masks::Masks,
    _texts: Vec<OwnedFd>,
    _group: Option<cgroup::Group>,
    _way: Option<Way>,
    _scratch: Option<Scratch>,
}

/// Gives a command its variables. What comes before it inside a sandbox starts without them.
pub(crate) fn hand_over(mut variables: File, all: &[(OsString, OsString)]) -> io::Result<File> {
    variables.write_all(&helper::as_bytes(all)?)?;
    Ok(variables)
}

impl Sandbox {
    /// A sandbox without a workspace.
    pub fn new(spec: SandboxSpec) -> Sandbox {
        Sandbox {
            spec,
            workspace: None,
            access: Access::Write,
            hidden: Vec::new(),
            shown: Vec::new(),
            shared: Vec::new(),
            gate: None,
            own: None,
            gateway: None,
            passages: None,
            probe: None,
        }
    }

    /// How the processes of a task are held: in its sandbox, or, where that is off, as `without` says.
    pub fn containment(
        spec: &SandboxSpec,
        workspace: &Workspace,
        state: Option<&Path>,
        passages: Option<&Path>,
        without: &Containment,
    ) -> Containment {
        if spec.level == Level::Off {
            return without.clone();
        }
        Containment::Sandbox(Arc::new(Sandbox {
            workspace: workspace.path.as_deref().map(PathBuf::from),
            hidden: state.map(Path::to_owned).into_iter().collect(),
            passages: passages.map(Path::to_owned),
            ..Sandbox::new(spec.clone())
        }))
    }

    /// What the inside would look like.
    pub fn mounts(&self) -> Result<Vec<Mount>, String> {
        Ok(View::of(self)?.mounts)
    }

    /// Puts everything in place for one command. Nothing is started yet.
    pub(crate) fn arrange(&self, cwd: Option<&Path>, ask: bool) -> Result<Arranged, String> {
        if self.probe.is_none() {
            require(self.spec.level).map_err(|unavailable| unavailable.to_string())?;
        }
        let mut view = View::of(self)?;
        let mut env = self.environment(&view);
        let (program, helper) = this_program()?;
        let variables = File::from(
            memfd_create("drivetrain", MemfdFlags::CLOEXEC)
                .map_err(|error| format!("no variables can be handed over: {error}"))?,
        );
        let mut orders = Orders::new(self.spec.limits, variables.as_raw_fd());
        orders.ask = ask;
        orders.probe = self.probe.clone();
        orders.sockets = match (self.spec.network != Network::None, self.gate.is_some()) {
            (false, false) => Sockets::None,
            (true, false) => Sockets::Internet,
            (false, true) => Sockets::Local,
            (true, true) => Sockets::LocalAndInternet,
        };
        orders.refuse_tcp = self.spec.network == Network::None;
        let namespaced = self.spec.level == Level::Full;
        let (mut open, mut texts) = (vec![program, variables.as_raw_fd()], Vec::new());
        let (mut scratch, mut way) = (None, None);
        let mut argv: Vec<OsString> = Vec::new();
        if namespaced {
            orders.write = view.write.clone();
            (argv, texts) = self.bubblewrap(&view, cwd)?;
            open.extend(texts.iter().map(AsRawFd::as_raw_fd));
            if let Network::Hosts(hosts) = &self.spec.network {
                let opened = Way::open(hosts, Scratch::make()?, self.passages.as_deref())?;
                orders.bridge = Some(opened.descriptor());
                open.push(opened.descriptor());
                way = Some(opened);
            }
            if let Some((folder, port)) = &self.gateway {
                let opened = File::open(folder)
                    .map_err(|error| format!("the gateway cannot be reached: {error}"))?;
                orders.gateway = Some((opened.as_raw_fd(), *port));
                open.push(opened.as_raw_fd());
                texts.push(opened.into());
            }
        } else {
            if self.spec.network != Network::None {
                return Err("the reduced sandbox has no network; use network = \"none\"".to_owned());
            }
            let folder = Scratch::make()?;
            (orders.read, orders.listed) = view.read_reduced();
            orders.write = view.write_reduced(folder.path());
            for name in ["HOME", "TMPDIR"] {
                env.push((name.into(), folder.path().into()));
            }
            // Programs that look for themselves in a home that is another one now.
            for (name, place) in [("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup")] {
                if let Some(place) =
                    view::home().map(|home| home.join(place)).filter(|p| p.is_dir())
                {
                    env.push((name.into(), place.into()));
                }
            }
            scratch = Some(folder);
        }
        let orders = serde_json::to_string(&orders)
            .map_err(|error| format!("a path of the sandbox is not UTF-8: {error}"))?;
        argv.extend([helper, helper::WORD.into(), orders.into()]);
        let group = cgroup::Group::limiting(self.spec.limits.processes);
        let join = group.as_ref().map(|group| group.door.as_raw_fd());
        let masks = std::mem::take(&mut view.masks);
        let held =
            Held { _masks: masks, _texts: texts, _group: group, _way: way, _scratch: scratch };
        Ok(Arranged { argv, env, variables, namespaced, open, join, view: held })
    }

    fn bubblewrap(
        &self,
        view: &View,
        cwd: Option<&Path>,
    ) -> Result<(Vec<OsString>, Vec<OwnedFd>), String> {
        let (path, _) = found_bubblewrap().map_err(|unavailable| unavailable.to_string())?;
        let mut argv: Vec<OsString> = vec![path.into()];
        argv.extend(NAMESPACES.iter().map(OsString::from));
        if self.spec.network != Network::Open {
            argv.push("--unshare-net".into());
        }
        argv.extend(ROOT.iter().map(OsString::from));
        let size = self.spec.limits.file_size;
        argv.extend(["--size".into(), size.to_string().into()]);
        argv.extend(["--tmpfs".into(), "/dev/shm".into()]);
        let (mounts, texts) = view.arguments(size)?;
        argv.extend(mounts);
        // Else it would be a folder in memory without a limit.
        argv.extend(["--remount-ro".into(), "/dev".into()]);
        let folder = cwd.or(self.workspace.as_deref()).unwrap_or(Path::new("/"));
        argv.extend(["--chdir".into(), folder.into(), "--".into()]);
        Ok((argv, texts))
    }

    /// What a command is told of where it is.
    fn environment(&self, view: &View) -> Vec<(OsString, OsString)> {
        let mut env: Vec<(OsString, OsString)> = vec![("TMPDIR".into(), "/tmp".into())];
        let mut set = |name: &str, value: &str| env.push((name.into(), value.into()));
        if let Some(repository) = &view.repository {
            for (name, value) in git::who(&repository.top).variables() {
                set(&name, &value);
            }
        }
        // Files of other owners look as if they were nobody's, and what cannot be written needs no upkeep.
        let mut settings =
            vec![("safe.directory", "*"), ("gc.auto", "0"), ("maintenance.auto", "false")];
        if view.repository.is_some() && self.access == Access::Write {
            settings.push(("core.excludesFile", view::IGNORED));
        }
        set("GIT_CONFIG_COUNT", &settings.len().to_string());
        for (number, (name, value)) in settings.iter().enumerate() {
            set(&format!("GIT_CONFIG_KEY_{number}"), name);
            set(&format!("GIT_CONFIG_VALUE_{number}"), value);
        }
        env
    }
}

const NAMESPACES: [&str; 8] = [
    "--unshare-user",
    "--unshare-pid",
    "--unshare-ipc",
    "--unshare-uts",
    "--unshare-cgroup-try",
    "--die-with-parent",
    "--cap-drop",
    "ALL",
];

const ROOT: [&str; 7] = ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"];

/// Looked for once: what was tried out is what is used.
fn found_bubblewrap() -> Result<(PathBuf, String), Unavailable> {
    static FOUND: OnceLock<Result<(PathBuf, String), Unavailable>> = OnceLock::new();
    FOUND
        .get_or_init(|| match probe::remembered() {
            Some(found) => Ok(found),
            None => probe::bubblewrap(),
        })
        .clone()
}

/// This program as a descriptor, and the name by which the inside can start it: it need not be seen there, and may even
/// have been replaced since.
fn this_program() -> Result<(i32, OsString), String> {
    static PROGRAM: OnceLock<Result<File, String>> = OnceLock::new();
    let opened = PROGRAM.get_or_init(|| {
        File::open("/proc/self/exe").map_err(|error| format!("/proc/self/exe: {error}"))
    });
    let number = opened.as_ref().map_err(Clone::clone)?.as_raw_fd();
    Ok((number, format!("/proc/self/fd/{number}").into()))
}
