//! The walls around every process that a task starts, as plain data: what is wanted, never how it is done.
//!
//! Frozen at the task's start. A file can ask for less than the default in what it needs (a host, a folder), but only
//! the person who types the command can switch the sandbox off.

use serde::{Deserialize, Serialize};

use crate::time::Span;

/// What is wanted of the sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SandboxSpec {
    /// How strong it is.
    #[serde(default)]
    pub level: Level,
    /// What can be reached over the network.
    #[serde(default)]
    pub network: Network,
    /// Paths that can be read beside those that everybody can, absolute or below the folder of the task.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub read: Vec<String>,
    /// Paths that can be written beside the workspace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub write: Vec<String>,
    /// How much it may take.
    #[serde(default)]
    pub limits: Limits,
}

impl SandboxSpec {
    /// Whether nothing was asked for.
    pub fn is_default(&self) -> bool {
        *self == SandboxSpec::default()
    }

    /// Everything off: a process can do what the user can do.
    pub fn off() -> SandboxSpec {
        SandboxSpec { level: Level::Off, ..SandboxSpec::default() }
    }

    /// The sandbox in one line, as people read it.
    pub fn said(&self) -> String {
        if self.level == Level::Off {
            return "off: commands had all the rights of your user".to_owned();
        }
        let mut said = format!("{}, network {}", self.level.word(), self.network.said());
        for (what, paths) in [("reads", &self.read), ("writes", &self.write)] {
            if !paths.is_empty() {
                said.push_str(&format!(", {what} {}", paths.join(" ")));
            }
        }
        said
    }
}

/// How strong the walls are. Which of them a machine can give is found out by trying.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Namespaces, system call filter and Landlock.
    #[default]
    Full,
    /// System call filter and Landlock alone: processes are seen, and the names that steer other programs are only
    /// looked at afterwards.
    Reduced,
    /// No walls.
    Off,
}

impl Level {
    /// The strongest walls of those that a machine gives.
    pub fn strongest(can: impl Fn(Level) -> bool) -> Option<Level> {
        [Level::Full, Level::Reduced].into_iter().find(|level| can(*level))
    }

    /// The word that people and JSON see.
    pub fn word(self) -> &'static str {
        match self {
            Level::Full => "full",
            Level::Reduced => "reduced",
            Level::Off => "off",
        }
    }
}

/// What can be reached over the network.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Network {
    /// Nothing, not even the machine itself.
    #[default]
    None,
    /// The sandbox itself: what is started inside can be reached from inside, and nothing else.
    Loopback,
    /// These hosts, through a proxy that knows their names.
    Hosts(Vec<String>),
    /// Everything that the user can reach.
    Open,
}

impl Network {
    /// The network in a few words.
    pub fn said(&self) -> String {
        match self {
            Network::None => "none".to_owned(),
            Network::Loopback => "loopback".to_owned(),
            Network::Hosts(hosts) => hosts.join(" "),
            Network::Open => "open".to_owned(),
        }
    }
}

/// How much the processes of one call may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Processes and threads at a time.
    #[serde(default = "processes")]
    pub processes: u64,
    /// Memory of one process, in bytes.
    #[serde(default = "memory")]
    pub memory: u64,
    /// The largest file that is written, in bytes; also the size of the private folder for temporary files.
    #[serde(default = "file_size")]
    pub file_size: u64,
    /// Open files of one process.
    #[serde(default = "open_files")]
    pub open_files: u64,
    /// Time on the processor of one process.
    #[serde(default = "cpu_time")]
    pub cpu_time: Span,
}

// Large enough that no honest build or test suite meets them, small enough that the machine stays usable.
fn processes() -> u64 {
    2048
}

fn memory() -> u64 {
    8 << 30
}

fn file_size() -> u64 {
    4 << 30
}

fn open_files() -> u64 {
    8192
}

fn cpu_time() -> Span {
    Span::seconds(3600)
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            processes: processes(),
            memory: memory(),
            file_size: file_size(),
            open_files: open_files(),
            cpu_time: cpu_time(),
        }
    }
}

/// What a program of its own (a plugin, a server of tools) says it needs, in the file that declares it. How strong the
/// walls are and how much may be taken is the task's.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Needs {
    /// What it reaches over the network.
    #[serde(default)]
    pub network: Network,
    /// Paths that it reads.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub read: Vec<String>,
    /// Paths that it writes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub write: Vec<String>,
    /// Whether it writes in the workspace; if absent, as is usual for its kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub writes_workspace: Option<bool>,
}

impl Needs {
    /// Whether it needs nothing.
    pub fn is_default(&self) -> bool {
        *self == Needs::default()
    }

    /// The sandbox of such a program in a task with this one.
    pub fn within(&self, task: &SandboxSpec) -> SandboxSpec {
        SandboxSpec {
            level: task.level,
            network: self.network.clone(),
            read: self.read.clone(),
            write: self.write.clone(),
            limits: task.limits,
        }
    }
}

/// What a file or a command line says about the sandbox: whatever is absent is left to the next.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Wishes {
    /// How strong.
    pub level: Option<Level>,
    /// The network.
    pub network: Option<Network>,
    /// More to read.
    pub read: Vec<String>,
    /// More to write.
    pub write: Vec<String>,
    /// Processes and threads.
    pub processes: Option<u64>,
    /// Memory, in bytes.
    pub memory: Option<u64>,
    /// The largest file, in bytes.
    pub file_size: Option<u64>,
    /// Open files.
    pub open_files: Option<u64>,
    /// Time on the processor.
    pub cpu_time: Option<Span>,
}

impl Wishes {
    /// Changes what was wanted before: single values are replaced, paths are added.
    pub fn change(self, spec: &mut SandboxSpec) {
        let Wishes { level, network, read, write, .. } = self;
        spec.level = level.unwrap_or(spec.level);
        if let Some(network) = network {
            spec.network = network;
        }
        spec.read.extend(read);
        spec.write.extend(write);
        let limits = &mut spec.limits;
        limits.processes = self.processes.unwrap_or(limits.processes);
        limits.memory = self.memory.unwrap_or(limits.memory);
        limits.file_size = self.file_size.unwrap_or(limits.file_size);
        limits.open_files = self.open_files.unwrap_or(limits.open_files);
        limits.cpu_time = self.cpu_time.unwrap_or(limits.cpu_time);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_without_a_sandbox_means_the_full_one() {
        let read: SandboxSpec = serde_json::from_str("{}").unwrap();
        assert_eq!(read, SandboxSpec::default());
        assert_eq!((read.level, read.network), (Level::Full, Network::None));
        let hosts = SandboxSpec { network: Network::Hosts(vec!["a.b".into()]), ..read };
        let text = serde_json::to_string(&hosts).unwrap();
        assert_eq!(serde_json::from_str::<SandboxSpec>(&text).unwrap(), hosts);
    }

    #[test]
    fn wishes_replace_values_and_add_paths() {
        let mut spec = SandboxSpec { read: vec!["/a".into()], ..SandboxSpec::default() };
        let wishes = Wishes {
            network: Some(Network::Open),
            read: vec!["/b".into()],
            memory: Some(1),
            ..Wishes::default()
        };
        wishes.change(&mut spec);
        assert_eq!(spec.read, ["/a", "/b"]);
        assert_eq!(spec.limits, Limits { memory: 1, ..Limits::default() });
        assert_eq!(spec.said(), "full, network open, reads /a /b");
    }
}
