//! The files of a project that can act, each read once: those that drivetrain would obey if the user trusts them.
//!
//! Only their names are known before that. Files of other tools (`.claude`, `.codex`, `.cursor`, `.env` and the like) are
//! not here, because nothing of them is ever obeyed.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use machine::file;
use machine::file::lookup::Kind;
use machine::file::mcp::Reach;
use machine::policy::script;
use machine::task::{FileRole, FileStanding, ProjectFile};

use crate::home::Home;
use crate::library::{ENDINGS, LibraryError, PAGES, project_places};
use crate::servers::ServerFile;
use crate::trust::{self, Seen, TrustState};

/// The largest file that can act.
const MAX_FILE: u64 = 4 << 20;
/// The largest program whose content is bound.
const MAX_PROGRAM: u64 = 64 << 20;

/// Files of a folder that act without being named.
const UNNAMED: [(&str, FileRole); 5] = [
    (".drivetrain/policy.toml", FileRole::Policy),
    (".drivetrain/validators.toml", FileRole::Validators),
    (".drivetrain/mcp.toml", FileRole::Servers),
    (".mcp.json", FileRole::Servers),
    (".drivetrain/models.toml", FileRole::Models),
];

/// A file that can act, as it was read.
#[derive(Clone)]
pub struct Acting {
    /// What it is to a task.
    pub role: FileRole,
    /// Its real path and hash.
    pub seen: Seen,
    /// Its content; may hold secrets if it declares servers.
    pub bytes: Vec<u8>,
}

impl std::fmt::Debug for Acting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Acting").field("role", &self.role).field("seen", &self.seen).finish()
    }
}

impl Acting {
    /// The file as a task records it.
    pub fn recorded(&self, standing: FileStanding) -> ProjectFile {
        recorded(&self.seen, self.role, standing)
    }

    /// How it stands with the user.
    pub fn state(&self, home: &Home, folder: &Path) -> Result<TrustState, String> {
        trust::state(home, folder, std::slice::from_ref(&self.seen))
    }
}

impl Acting {
    /// The project's own programs that it starts, if it declares servers; none of any other file. It is parsed for that:
    /// only for somebody who trusts it, or is being asked.
    pub fn programs(&self, folder: &Path) -> Result<Vec<Acting>, LibraryError> {
        if self.role != FileRole::Servers {
            return Ok(Vec::new());
        }
        // What is wrong in it is said by whoever needs its servers.
        let file = ServerFile::of_project(self.seen.clone(), self.bytes.clone());
        let mut found: Vec<Acting> = Vec::new();
        for server in file.servers().unwrap_or_default() {
            let Reach::Program { command, .. } = &server.reach else { continue };
            for program in interpreted(command, folder)? {
                if !found.iter().any(|known| known.seen.path == program.seen.path) {
                    found.push(program);
                }
            }
        }
        Ok(found)
    }
}

/// Files of a folder's project that are run if a command is started there: its program, and scripts among its arguments.
/// Other files that it names are data to it.
pub fn interpreted(command: &[String], folder: &Path) -> Result<Vec<Acting>, LibraryError> {
    let root = trust::root(folder).map_err(LibraryError::Wrong)?;
    let mut found = Vec::new();
    for (number, word) in command.iter().enumerate() {
        // A bare word at the beginning is looked up among the system's programs.
        let path = folder.join(word);
        let is_named = number > 0 || word.contains('/');
        let is_ours = || fs::canonicalize(&path).is_ok_and(|real| real.starts_with(&root));
        if !is_named || !path.is_file() || !is_ours() {
            continue;
        }
        let mut read = Vec::new();
        take(&mut read, &path, FileRole::Program, MAX_PROGRAM)?;
        found.extend(read.into_iter().filter(|file| number == 0 || is_script(file)));
    }
    Ok(found)
}

fn is_script(file: &Acting) -> bool {
    let ending = file.seen.path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    let mode = fs::metadata(&file.seen.path).map_or(0, |found| found.permissions().mode());
    script::is_script(ending, &file.bytes, mode & 0o111 != 0)
}

/// A file as a task records it.
pub fn recorded(seen: &Seen, role: FileRole, standing: FileStanding) -> ProjectFile {
    let path = seen.path.to_string_lossy().into_owned();
    ProjectFile { path, sha256: seen.sha256.clone(), role, standing }
}

/// The files of a folder's project that act without being named, nearest first.
pub fn unnamed(folder: &Path) -> Result<Vec<Acting>, LibraryError> {
    let mut found = Vec::new();
    for place in project_places(folder) {
        for (name, role) in UNNAMED {
            take(&mut found, &place.join(name), role, MAX_FILE)?;
        }
    }
    for page in PAGES {
        take(&mut found, &folder.join(page), FileRole::Page, MAX_FILE)?;
    }
    Ok(found)
}

/// All files of a folder's project that can act, nearest first; those that have to be named too, and the programs that
/// servers, plugins and agents start.
pub fn all(folder: &Path) -> Result<Vec<Acting>, LibraryError> {
    let mut found = Vec::new();
    for file in unnamed(folder)? {
        let programs = file.programs(folder)?;
        found.push(file);
        found.extend(programs);
    }
    let named = [
        ("workflows", FileRole::Workflow, Kind::Workflow.endings()),
        ("prompts", FileRole::Prompt, Kind::Prompt.endings()),
        ("agents", FileRole::Plugin, Kind::Agent.endings()),
        ("drivers", FileRole::Plugin, &ENDINGS),
    ];
    for place in project_places(folder) {
        for (name, role, endings) in named {
            for path in entries(&place.join(".drivetrain").join(name), endings) {
                take(&mut found, &path, role, MAX_FILE)?;
                let Some(plugin) = found.last().filter(|last| last.role == FileRole::Plugin) else {
                    continue;
                };
                for program in programs(&plugin.bytes, &place)? {
                    take(&mut found, &program, FileRole::Program, MAX_PROGRAM)?;
                }
            }
        }
    }
    Ok(found)
}

/// A plugin's own programs as they are now.
pub fn programs_of(command: &[String], project: &Path) -> Result<Vec<Acting>, LibraryError> {
    let mut found = Vec::new();
    for program in within(command, project) {
        take(&mut found, &program, FileRole::Program, MAX_PROGRAM)?;
    }
    Ok(found)
}

/// What the file of a plugin or an agent starts. One that says something wrong starts nothing.
fn programs(bytes: &[u8], project: &Path) -> Result<Vec<PathBuf>, LibraryError> {
    let Ok(text) = file::decode(bytes, "") else { return Ok(Vec::new()) };
    let plugin = file::plugin::parse(text, "").map(|plugin| plugin.command);
    let command = plugin.or_else(|_| file::agent::parse(text, "").map(|agent| agent.command));
    Ok(command.map(|command| within(&command, project)).unwrap_or_default())
}

/// The words of a command that name files below the project's folder.
fn within(command: &[String], project: &Path) -> Vec<PathBuf> {
    let Ok(root) = fs::canonicalize(project) else { return Vec::new() };
    let real = command.iter().filter_map(|word| fs::canonicalize(root.join(word)).ok());
    real.filter(|path| path.starts_with(&root) && path.is_file()).collect()
}

fn take(
    found: &mut Vec<Acting>,
    path: &Path,
    role: FileRole,
    most: u64,
) -> Result<(), LibraryError> {
    let unreadable = |reason| LibraryError::Unreadable { path: path.to_owned(), reason };
    let Some((seen, bytes)) = trust::read_file(path, most).map_err(unreadable)? else {
        return Ok(());
    };
    if !found.iter().any(|known| known.seen.path == seen.path && known.role == role) {
        found.push(Acting { role, seen, bytes });
    }
    Ok(())
}

fn entries(folder: &Path, endings: &[&str]) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let fits = |path: &PathBuf| {
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        endings.contains(&ending)
    };
    let mut paths: Vec<PathBuf> =
        entries.filter_map(|entry| Some(entry.ok()?.path())).filter(fits).collect();
    paths.sort();
    paths
}
