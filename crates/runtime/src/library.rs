//! Finds what people wrote: workflows, prompts, agents, plugins and the policy, in the project, then in the user's own
//! folder, then inside the program.
//!
//! What is looked up by its name is in `shelf`, what comes with the program in `builtin`; `resolve` puts into a task
//! what it names, `models` and `pages` what its models are asked with, and `policies` adds up the rules.
//!
//! The project's folders are `.drivetrain` in the task's folder and in each parent up to the repository's
//! root; outside a repository only the folder itself counts, so that nothing is picked up from a shared
//! parent. The nearest wins. Every reader is strict, and errors carry the file and the line.

mod agents;
mod builtin;
mod models;
mod pages;
mod policies;
mod resolve;
mod scripts;
mod shelf;
#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use machine::file::lookup::Kind;
use machine::file::{self, SourceError};
use machine::task::{FileRole, FileStanding, ProjectFile};

use crate::acting;
use crate::home::Home;
use crate::sandbox;
use crate::trust::{self, Seen, TrustState};

pub use agents::mark_anew;
pub use resolve::check;
pub use shelf::Item;

/// Pages in which projects speak to agents.
pub(crate) const PAGES: [&str; 2] = ["AGENTS.md", "CLAUDE.md"];

/// Endings that a name is looked up with.
pub(crate) const ENDINGS: [&str; 3] = ["toml", "yaml", "yml"];

/// The largest file that is read; a task or a workflow is far smaller.
const MAX_FILE: u64 = 4 << 20;

/// Why something that a person wrote cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LibraryError {
    /// The file says something that it must not.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n\n"))]
    Source(Vec<SourceError>),
    /// The file cannot be read.
    #[error("cannot read {}: {reason}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// Nothing of that name.
    #[error("there is no {kind} {name:?}")]
    Unknown {
        /// What was looked for.
        kind: &'static str,
        /// Its name.
        name: String,
        /// What there is instead.
        known: Vec<String>,
        /// Where it was looked for.
        folders: Vec<PathBuf>,
    },
    /// A part does not fit.
    #[error("{0}")]
    Wrong(String),
    /// The file would act without being named, and the user does not trust it as it is.
    #[error("{} is not trusted as it is", .0.display())]
    Untrusted(PathBuf),
    /// The file was named, and it is not what the user trusted.
    #[error("{} has changed since it was trusted: drivetrain trust shows it and asks", .0.display())]
    Changed(PathBuf),
}

/// A file that was found by its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The name.
    pub name: String,
    /// The file.
    pub path: PathBuf,
}

/// The folders to look in, nearest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Library {
    folders: Vec<PathBuf>,
    /// Whose record of trust decides, and the folder that it is asked about.
    judge: Option<(Home, PathBuf)>,
    /// What was read by its name.
    named: RefCell<Vec<ProjectFile>>,
    /// What scripts are told.
    told: RefCell<scripts::Told>,
    /// The file that was refused last because it has changed.
    changed: RefCell<Option<PathBuf>>,
    /// Whether files are only looked at, so that nobody's word lets a script run.
    looks: bool,
    /// The user's own folder.
    own: Option<PathBuf>,
    /// What was asked of the disk before: many files name the same prompts, and lie in the same project.
    asked: Asked,
}

/// Answers of the disk, kept for as long as a library is: that of one command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Asked {
    /// Where a name is found.
    candidates: RefCell<BTreeMap<(Kind, String), Vec<PathBuf>>>,
    /// Where a folder really is; nothing if it is not there.
    folders: RefCell<BTreeMap<PathBuf, Option<PathBuf>>>,
    /// What was read, by its path: what was judged is what is used, and a prompt is read once for all who name it.
    read: RefCell<BTreeMap<PathBuf, (String, Seen)>>,
}

impl Asked {
    /// Where a folder really is.
    fn real(&self, folder: &Path) -> Option<PathBuf> {
        if let Some(known) = self.folders.borrow().get(folder) {
            return known.clone();
        }
        let real = fs::canonicalize(folder).ok();
        self.folders.borrow_mut().insert(folder.to_owned(), real.clone());
        real
    }
}

impl Library {
    /// The library of a folder: the project's, then the user's own.
    pub fn of(folder: &Path) -> Library {
        let mut folders = project_folders(folder);
        let own = user_folder();
        folders.extend(own.clone());
        let library = Library { folders, own, ..Library::default() };
        library.told.borrow_mut().folder = Some(folder.to_owned());
        library
    }

    /// A library of these folders.
    pub fn at(folders: Vec<PathBuf>) -> Library {
        Library { folders, ..Library::default() }
    }

    /// The same, in which a project's file that nobody named acts only if the user trusts it, and one that is named
    /// comes before the user's own of that name only then. Without this every file is believed.
    pub fn judged_by(mut self, home: &Home, folder: &Path) -> Library {
        self.judge = Some((home.clone(), folder.to_owned()));
        self
    }

    /// The same, for whoever only looks at what there is: a project's script that nobody trusts is not run, though a file
    /// names it.
    pub fn that_looks(mut self) -> Library {
        self.looks = true;
        self
    }

    /// The project's files that were read because somebody named them, as they were then.
    pub fn named_files(&self) -> Vec<ProjectFile> {
        self.named.borrow().clone()
    }

    /// The file that was named and refused because it has changed since it was trusted, told once.
    pub fn changed(&self) -> Option<PathBuf> {
        self.changed.borrow_mut().take()
    }

    /// Looks in the project of `folder` as well, after the others of its kind and before the user's own.
    pub fn and_of(mut self, folder: &Path) -> Library {
        let user = self.own.clone();
        self.asked = Asked::default();
        self.folders.retain(|known| Some(known) != user.as_ref());
        for found in project_folders(folder).into_iter().chain(user) {
            if !self.folders.contains(&found) {
                self.folders.push(found);
            }
        }
        self
    }

    /// The folders, nearest first.
    pub fn folders(&self) -> &[PathBuf] {
        &self.folders
    }

    /// Reads a file that somebody named, and notes it.
    fn read_named(&self, path: &Path, role: FileRole) -> Result<(String, String), LibraryError> {
        let (text, shown, seen) = read(path)?;
        if !self.is_own(path) {
            self.unchanged(path, &seen)?;
            self.note(acting::recorded(&seen, role, FileStanding::Named));
        }
        Ok((text, shown))
    }

    /// Reads a file that acts without being named: what is judged is what was read.
    fn read_unnamed(&self, path: &Path) -> Result<(String, String), LibraryError> {
        let (text, shown, seen) = read(path)?;
        if self.is_own(path) || self.believes(&seen)? {
            return Ok((text, shown));
        }
        Err(LibraryError::Untrusted(path.to_owned()))
    }

    fn note(&self, file: ProjectFile) {
        let mut named = self.named.borrow_mut();
        if !named.contains(&file) {
            named.push(file);
        }
    }

    /// Whether a file is the user's own.
    fn is_own(&self, path: &Path) -> bool {
        self.own.as_ref().is_some_and(|own| path.starts_with(own))
    }

    fn allows(&self, path: &Path) -> Result<bool, LibraryError> {
        let unreadable = |reason| LibraryError::Unreadable { path: path.to_owned(), reason };
        match trust::read_file(path, MAX_FILE).map_err(unreadable)? {
            Some((seen, _)) => Ok(self.is_own(path) || self.believes(&seen)?),
            None => Ok(false),
        }
    }

    /// Refuses what the user trusted with another content: whoever names a file means what was looked at.
    fn unchanged(&self, path: &Path, seen: &Seen) -> Result<(), LibraryError> {
        let Some((home, folder)) = &self.judge else { return Ok(()) };
        let files = std::slice::from_ref(seen);
        match trust::state(home, folder, files).map_err(LibraryError::Wrong)? {
            TrustState::Untrusted { changed, .. } if !changed.is_empty() => {
                *self.changed.borrow_mut() = Some(path.to_owned());
                Err(LibraryError::Changed(path.to_owned()))
            }
            TrustState::Trusted | TrustState::Untrusted { .. } => Ok(()),
        }
    }

    fn believes(&self, seen: &Seen) -> Result<bool, LibraryError> {
        match &self.judge {
            Some((home, folder)) => trust::allows(home, folder, seen).map_err(LibraryError::Wrong),
            None => Ok(true),
        }
    }
}

impl Library {
    /// As [`read`], of a file that has a name: each is read once.
    fn read_once(&self, path: &Path) -> Result<(String, String, Seen), LibraryError> {
        let shown = path.to_string_lossy().into_owned();
        if let Some((text, seen)) = self.asked.read.borrow().get(path) {
            return Ok((text.clone(), shown, seen.clone()));
        }
        let place = path.file_name().zip(path.parent().and_then(|parent| self.asked.real(parent)));
        let (text, shown, seen) = match place {
            Some((name, folder)) => {
                let read = trust::read_within(&folder, name, MAX_FILE);
                interpreted(path, read)?
            }
            None => read(path)?,
        };
        self.asked.read.borrow_mut().insert(path.to_owned(), (text.clone(), seen.clone()));
        Ok((text, shown, seen))
    }
}

/// Whether a reference is a file's path rather than a name to look up.
pub fn is_path(reference: &str) -> bool {
    let ending =
        Path::new(reference).extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    reference.contains('/') || ENDINGS.contains(&ending) || ending == crate::script::ENDING
}

/// The folder from which a file names programs. A plugin's is in `.drivetrain/drivers`, an agent's in
/// `.drivetrain/agents`: theirs are named from the project's folder.
fn folder_of(path: &Path) -> Option<PathBuf> {
    let project = path.parent().and_then(Path::parent).and_then(Path::parent);
    let folder = project.filter(|_| {
        path.parent().and_then(Path::parent).is_some_and(|p| p.ends_with(".drivetrain"))
    });
    folder.or(path.parent()).and_then(|folder| std::path::absolute(folder).ok())
}

/// A file's text, its name for a person, and what was read.
fn read(path: &Path) -> Result<(String, String, Seen), LibraryError> {
    interpreted(path, trust::read_file(path, MAX_FILE))
}

/// What was read of a file as text, or why there is none.
fn interpreted(
    path: &Path,
    read: Result<Option<(Seen, Vec<u8>)>, String>,
) -> Result<(String, String, Seen), LibraryError> {
    let failed = |reason: String| LibraryError::Unreadable { path: path.to_owned(), reason };
    let Some((seen, bytes)) = read.map_err(failed)? else {
        return Err(failed(match fs::metadata(path) {
            Ok(data) if data.is_file() => "it changed while it was read".to_owned(),
            Ok(_) => "it is not a file".to_owned(),
            Err(error) => plain(&error),
        }));
    };
    let shown = path.to_string_lossy().into_owned();
    // The same bytes as a text, unless they are none.
    let text =
        String::from_utf8(bytes).map_err(|wrong| match file::decode(wrong.as_bytes(), &shown) {
            Err(errors) => LibraryError::Source(errors),
            Ok(_) => failed("the file is not UTF-8 text".to_owned()),
        })?;
    Ok((text, shown, seen))
}

/// The error without its number, which says nothing to a person.
fn plain(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => "there is no such file".to_owned(),
        std::io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        _ => error.to_string(),
    }
}

pub(crate) fn project_folders(folder: &Path) -> Vec<PathBuf> {
    let places = project_places(folder).into_iter().map(|place| place.join(".drivetrain"));
    places.filter(|folder| folder.is_dir()).collect()
}

/// The folders that belong to a project, nearest first: up to the repository's root.
pub(crate) fn project_places(folder: &Path) -> Vec<PathBuf> {
    let Ok(folder) = std::path::absolute(folder) else { return Vec::new() };
    let root = sandbox::git::top(&folder).unwrap_or(&folder);
    let places = folder.ancestors().take_while(|parent| parent.starts_with(root));
    places.map(Path::to_owned).collect()
}

pub(crate) fn user_folder() -> Option<PathBuf> {
    let variable =
        |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let config = variable("XDG_CONFIG_HOME")
        .or_else(|| variable("HOME").map(|home| home.join(".config")))?;
    Some(config.join("drivetrain")).filter(|folder| folder.is_dir())
}
