//! The files that declare servers of tools: where they are, whether the user trusts them, and what they declare.
//!
//! Looked for as everything else of a project is: `.drivetrain/mcp.toml` and `.mcp.json` in the folder and its parents
//! up to the repository's root, then `mcp.toml` in the user's own folder, which needs no trust. The nearest server of a
//! name wins. A project's file is not even parsed before it is trusted.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use machine::file::{self, mcp};
use machine::server::ServerSpec;

use crate::acting;
use crate::home::Home;
use crate::library::{LibraryError, project_places, user_folder};
use crate::trust::{self, Seen, TrustState};

/// The file's names, from a project's folder.
const FILES: [&str; 2] = [".drivetrain/mcp.toml", ".mcp.json"];
/// The name of the user's own file.
const OWN: &str = "mcp.toml";
/// The largest such file that is read.
const MAX_FILE: u64 = 1 << 20;

/// A file that declares servers, as it was read.
#[derive(Clone)]
pub struct ServerFile {
    /// Its real path and its hash.
    pub seen: Seen,
    /// Whether it is the user's own.
    pub own: bool,
    bytes: Vec<u8>,
}

/// What the servers of a folder are.
#[derive(Debug, Default)]
pub struct Found {
    /// Servers that may be started, nearest first.
    pub servers: Vec<ServerSpec>,
    /// Files that are not trusted, with what was found out about them.
    pub untrusted: Vec<Untrusted>,
}

/// A file that is not looked into.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Untrusted {
    /// The file.
    pub path: PathBuf,
    /// Whether it was trusted before it changed.
    pub changed: bool,
}

impl ServerFile {
    /// A project's file that was read already.
    pub fn of_project(seen: Seen, bytes: Vec<u8>) -> ServerFile {
        ServerFile { seen, own: false, bytes }
    }

    /// What it declares.
    pub fn servers(&self) -> Result<Vec<mcp::Server>, LibraryError> {
        let shown = self.seen.path.to_string_lossy();
        let text = file::decode(&self.bytes, &shown).map_err(LibraryError::Source)?;
        mcp::parse(text, &shown).map_err(LibraryError::Source)
    }
}

/// The files of a folder, nearest first, the user's own last.
pub fn files(folder: &Path) -> Result<Vec<ServerFile>, LibraryError> {
    let mut found = Vec::new();
    for place in project_places(folder) {
        for name in FILES {
            found.extend(read(&place.join(name), false)?);
        }
    }
    if let Some(own) = user_folder() {
        found.extend(read(&own.join(OWN), true)?);
    }
    Ok(found)
}

/// The servers of a folder that may be started, and the files that nobody trusted.
pub fn of(home: &Home, folder: &Path) -> Result<Found, LibraryError> {
    let mut found = Found::default();
    // The nearest file decides about a name, also that there is to be no server.
    let mut decided = BTreeSet::new();
    for file in files(folder)? {
        if let Some(untrusted) = distrust(home, folder, &file).map_err(LibraryError::Wrong)? {
            found.untrusted.push(untrusted);
            continue;
        }
        for server in file.servers()? {
            if !decided.insert(server.name.clone()) || server.disabled {
                continue;
            }
            if let Some(untrusted) = distrusted_program(home, folder, &server)? {
                if !found.untrusted.contains(&untrusted) {
                    found.untrusted.push(untrusted);
                }
                continue;
            }
            found.servers.push(ServerSpec {
                name: server.name,
                file: file.seen.path.to_string_lossy().into_owned(),
                sha256: file.seen.sha256.clone(),
            });
        }
    }
    Ok(found)
}

/// Reads a server's declaration again, right before it is started: its file must be trusted as it is now.
pub fn load(
    home: &Home,
    folder: &Path,
    spec: &ServerSpec,
) -> Result<(mcp::Server, ServerFile), String> {
    let path = Path::new(&spec.file);
    let own = user_folder()
        .and_then(|folder| std::fs::canonicalize(folder.join(OWN)).ok())
        .is_some_and(|own| own == path);
    let file = read(path, own)
        .map_err(|error| error.to_string())?
        .ok_or_else(|| format!("the file {} that declared it is gone", spec.file))?;
    if file.seen.path != path {
        return Err(format!("{} leads to another file than it did", spec.file));
    }
    if let Some(untrusted) = distrust(home, folder, &file)? {
        let what =
            if untrusted.changed { "has changed since it was trusted" } else { "is not trusted" };
        return Err(format!(
            "{} {what}: `drivetrain trust` shows it and asks",
            untrusted.path.display()
        ));
    }
    let servers = file.servers().map_err(|error| error.to_string())?;
    let server = servers.into_iter().find(|server| server.name == spec.name && !server.disabled);
    match server {
        Some(server) => Ok((server, file)),
        None => Err(format!("{} declares no server {:?} any more", spec.file, spec.name)),
    }
}

/// The first of the project's own programs that a server is started with and that nobody trusts as it is.
fn distrusted_program(
    home: &Home,
    folder: &Path,
    server: &mcp::Server,
) -> Result<Option<Untrusted>, LibraryError> {
    let mcp::Reach::Program { command, .. } = &server.reach else { return Ok(None) };
    for program in acting::interpreted(command, folder)? {
        if let TrustState::Untrusted { changed, .. } =
            program.state(home, folder).map_err(LibraryError::Wrong)?
        {
            let changed = !changed.is_empty();
            return Ok(Some(Untrusted { path: program.seen.path, changed }));
        }
    }
    Ok(None)
}

fn distrust(home: &Home, folder: &Path, file: &ServerFile) -> Result<Option<Untrusted>, String> {
    if file.own {
        return Ok(None);
    }
    let path = file.seen.path.clone();
    Ok(match trust::state(home, folder, std::slice::from_ref(&file.seen))? {
        TrustState::Trusted => None,
        TrustState::Untrusted { changed, .. } => {
            Some(Untrusted { path, changed: !changed.is_empty() })
        }
    })
}

/// The file, if there is one. It is opened once: what is hashed is what is interpreted.
fn read(path: &Path, own: bool) -> Result<Option<ServerFile>, LibraryError> {
    let failed = |reason: String| LibraryError::Unreadable { path: path.to_owned(), reason };
    let read = trust::read_file(path, MAX_FILE).map_err(failed)?;
    Ok(read.map(|(seen, bytes)| ServerFile { seen, own, bytes }))
}

impl std::fmt::Debug for ServerFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Its content may hold secrets.
        f.debug_struct("ServerFile").field("seen", &self.seen).finish_non_exhaustive()
    }
}
