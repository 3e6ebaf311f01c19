//! Which agents there are here: those that need no file and those of files, where each is installed, and what it says of
//! its version. Nothing but `--version` is asked, in a sandbox, and only of programs that the user named or trusts.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use machine::agent::{AgentAbilities, AgentProgram, AgentSupport};
use machine::policy::sandbox::{Level, SandboxSpec};
use wire::agent::table::{self, KnownAgent};

use super::{files, version};
use crate::library::Library;
use crate::process::{Cancel, Containment, find_program};
use crate::sandbox::{Sandbox, require};

/// How much of what it says is kept, in characters.
const SAID: usize = 100;

/// One agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Its name.
    pub name: String,
    /// Where it comes from.
    pub source: Source,
    /// How it is started; what is wrong with its file otherwise.
    pub program: Result<AgentProgram, String>,
    /// Where its program is, if it is anywhere.
    pub installed: Option<PathBuf>,
    /// What it says of its version; the reason why nothing is known otherwise.
    pub version: Result<String, String>,
    /// What was tried of it.
    pub known: Option<&'static KnownAgent>,
}

/// Where an agent comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// It needs no file.
    BuiltIn,
    /// A file of the user's own.
    User(PathBuf),
    /// A file of the project.
    Project(PathBuf),
}

impl Listed {
    /// Whether its version was tried; nothing if there is no version.
    pub fn support(&self) -> Option<AgentSupport> {
        let version = self.version.as_ref().ok()?;
        Some(self.known.map_or(AgentSupport::Unknown, |known| known.support(version)))
    }

    /// What can be done with it, less where its own file takes something away.
    pub fn can(&self) -> Option<AgentAbilities> {
        let program = self.program.as_ref().ok()?;
        let own = program.can();
        let version = self.version.as_deref().unwrap_or_default();
        Some(match self.known {
            Some(known) => {
                AgentAbilities { gate: own.gate, pause: own.pause, ..known.release(version).can }
            }
            None => own,
        })
    }

    /// What its version lacks, one sentence each.
    pub fn limits(&self) -> &'static [&'static str] {
        let version = self.version.as_deref().unwrap_or_default();
        self.known.map_or(&[], |known| known.release(version).limits)
    }

    /// The command that installs it, if one is known.
    pub fn install(&self) -> Option<String> {
        install(self.program.as_ref().ok()?)
    }

    /// The cells of [`Listed::can`] that only the running agent knows.
    pub fn says_itself(&self) -> &'static [&'static str] {
        match &self.program {
            Ok(program) if self.known.is_none() => program.protocol.says_itself(),
            _ => &[],
        }
    }
}

/// The command that installs an agent's program, if one is known.
pub fn install(program: &AgentProgram) -> Option<String> {
    // A file of the same name may mean another program.
    let known = table::program(&program.name)
        .filter(|known| program.command.first().is_some_and(|command| command == known.command));
    known.map(table::KnownAgent::install)
}

/// Every agent that a folder knows: those that need no file first.
pub fn list(library: &Library) -> Vec<Listed> {
    let mut listed: Vec<(Listed, bool)> = AgentProgram::BUILT_IN
        .iter()
        .filter_map(|name| Some((built_in(AgentProgram::built_in(name)?), true)))
        .collect();
    for found in library.agents() {
        let (own, trusted) = library.standing(&found.path);
        let program = match AgentProgram::built_in(&found.name) {
            None => library.agent(&found.name).map_err(|error| error.to_string()),
            Some(_) => Err(format!(
                "{} counts for nothing: {} needs no file, and none can take its name",
                found.path.display(),
                found.name
            )),
        };
        let source = if own { Source::User(found.path) } else { Source::Project(found.path) };
        let agent = Listed {
            name: found.name,
            source,
            installed: program.as_ref().ok().and_then(place),
            known: program.as_ref().ok().and_then(|program| table::speaker(program.protocol)),
            program,
            version: Err("not asked: the project's file is not trusted".to_owned()),
        };
        listed.push((agent, own || trusted));
    }
    // Some take a second each.
    std::thread::scope(|scope| {
        for (agent, may_start) in &mut listed {
            if *may_start || agent.installed.is_none() {
                scope.spawn(move || agent.version = version(agent));
            }
        }
    });
    listed.into_iter().map(|(agent, _)| agent).collect()
}

/// Why a program is not driven in the version that it is here, if it is not; it is asked for that version, unless it said so
/// before. One that does not say is not refused.
pub fn refusal(program: &AgentProgram, folder: &Path, home: &Path) -> Option<String> {
    let known = table::speaker(program.protocol).filter(|_| !program.any_version)?;
    let argv: Vec<String> =
        program.command.iter().cloned().chain(["--version".to_owned()]).collect();
    let mut walls = Sandbox::new(walls().ok()?);
    walls.shown = files::of(&argv, folder);
    let walls = Containment::Sandbox(Arc::new(walls));
    let ask = || version::ask(&argv, Path::new("/"), walls, &Cancel::new());
    let said = version::known_here(&argv, folder, home, ask).ok()?;
    known.refusal(&said)
}

fn built_in(program: AgentProgram) -> Listed {
    Listed {
        name: program.name.clone(),
        source: Source::BuiltIn,
        installed: place(&program),
        known: table::program(&program.name),
        program: Ok(program),
        version: Err(String::new()),
    }
}

fn place(program: &AgentProgram) -> Option<PathBuf> {
    find_program(OsStr::new(program.command.first()?), None)
}

/// What a program says of its version, in one line.
fn version(agent: &Listed) -> Result<String, String> {
    let Some(program) = &agent.installed else { return Err("not installed".to_owned()) };
    let mut argv = vec![program.to_string_lossy().into_owned()];
    if let Some(spoken) =
        agent.program.as_ref().ok().filter(|of| table::speaker(of.protocol).is_some())
    {
        // All of the command: the first word may only be what runs the program, such as node.
        argv.extend(spoken.command.iter().skip(1).cloned());
    }
    argv.push("--version".to_owned());
    let folder = Path::new("/");
    let mut walls = Sandbox::new(walls()?);
    walls.shown = files::of(&argv, folder);
    let walls = Containment::Sandbox(Arc::new(walls));
    let said = version::ask(&argv, folder, walls, &Cancel::new())?;
    Ok(said.lines().next().unwrap_or_default().trim().chars().take(SAID).collect())
}

/// The strongest walls that there are here, with no way to the network.
fn walls() -> Result<SandboxSpec, String> {
    let level = Level::strongest(|level| require(level).is_ok());
    let spec = level.map(|level| SandboxSpec { level, ..SandboxSpec::default() });
    spec.ok_or_else(|| {
        let missing = require(Level::Full).err().map(|missing| missing.reason).unwrap_or_default();
        format!("not asked: there is no sandbox here ({missing})")
    })
}
