//! What has a name: workflows, prompts, agents and plugins, nearest first, and which of two of the same name is taken.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use machine::file::SourceError;
use machine::file::lookup::{self, Candidate, Given, Kind, Lookup, NotFound, Origin};
use machine::task::{FileRole, FileStanding};
use serde_json::Value;

use super::{ENDINGS, Found, Library, LibraryError, builtin, read};
use crate::acting;
use crate::trust::{self, Seen, TrustState};

/// One of those that have a name: a file, or a text that comes with the program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// The name.
    pub name: String,
    /// Where it comes from.
    pub origin: Origin,
    /// The file; none if it comes with the program.
    pub path: Option<PathBuf>,
    /// What a person calls it; its ending tells how it is written.
    pub file: String,
    /// Whether it counts without being named: so does everything that is not the project's.
    pub is_trusted: bool,
}

impl Library {
    /// The workflows there are, by name.
    pub fn workflows(&self) -> Vec<Found> {
        self.all("workflows")
    }

    /// The plugins there are, by the name of their file.
    pub fn plugins(&self) -> Vec<Found> {
        self.all("drivers")
    }

    /// Everything of a kind, by name, and of one name nearest first. The one that is taken is said by
    /// [`machine::file::lookup::choose`].
    pub fn items(&self, kind: Kind) -> Result<Vec<Item>, LibraryError> {
        let mut items = Vec::new();
        for root in &self.folders {
            for path in files(&root.join(kind.folder()), kind.endings()) {
                let Some(name) = path.file_stem().and_then(|name| name.to_str()) else {
                    continue;
                };
                items.push(self.item(name, &path));
            }
        }
        items.extend(builtin::of(kind).map(built_in));
        // The order of the layers stays within each name.
        items.sort_by(|left, right| left.name.cmp(&right.name));
        self.judge_all(&mut items)?;
        Ok(items)
    }

    /// What an item says, and what a person calls its file. Nothing is noted: it does not act.
    pub fn look(&self, kind: Kind, item: &Item) -> Result<String, LibraryError> {
        match &item.path {
            Some(path) => {
                let (text, _, seen) = self.read_once(path)?;
                self.within_project(path, &seen)?;
                Ok(text)
            }
            None => Ok(builtin::of(kind)
                .find(|known| known.name == item.name)
                .map(|known| known.text.to_owned())
                .unwrap_or_default()),
        }
    }

    /// What a name stands for, read and noted: it is used.
    pub(super) fn take(&self, kind: Kind, name: &str) -> Result<lookup::Found, LibraryError> {
        let mut nearest = None;
        for path in self.candidates(kind, name) {
            let (text, shown, seen) = self.read_once(&path)?;
            let origin = if self.is_own(&path) { Origin::User } else { Origin::Project };
            self.within_project(&path, &seen)?;
            let found = lookup::Found { text, file: shown, origin };
            if origin == Origin::User || self.believes(&seen)? {
                return Ok(self.use_it(kind, found, &seen));
            }
            nearest.get_or_insert((found, seen));
        }
        if let Some(known) = builtin::of(kind).find(|known| known.name == name) {
            let text = known.text.to_owned();
            return Ok(lookup::Found { text, file: known.shown(), origin: Origin::BuiltIn });
        }
        // Nobody else has the name: it counts by the word of whoever named it.
        if let Some((found, seen)) = nearest {
            self.unchanged(Path::new(&found.file), &seen)?;
            return Ok(self.use_it(kind, found, &seen));
        }
        Err(LibraryError::Unknown {
            kind: kind.word(),
            name: name.to_owned(),
            known: self.known(kind),
            folders: self.folders.iter().map(|root| root.join(kind.folder())).collect(),
        })
    }

    fn use_it(&self, kind: Kind, found: lookup::Found, seen: &Seen) -> lookup::Found {
        if found.origin == Origin::Project {
            let role = match kind {
                Kind::Prompt => FileRole::Prompt,
                Kind::Workflow => FileRole::Workflow,
                Kind::Agent => FileRole::Plugin,
            };
            self.note(acting::recorded(seen, role, FileStanding::Named));
        }
        found
    }

    /// The names of a kind, each once.
    fn known(&self, kind: Kind) -> Vec<String> {
        let mut known: Vec<String> =
            self.items(kind).unwrap_or_default().into_iter().map(|item| item.name).collect();
        known.dedup();
        known
    }

    fn candidates(&self, kind: Kind, name: &str) -> Vec<PathBuf> {
        if !is_name(name) {
            return Vec::new();
        }
        let mut asked = self.asked.candidates.borrow_mut();
        let known = asked.entry((kind, name.to_owned()));
        known.or_insert_with(|| self.look_for(kind, name)).clone()
    }

    fn look_for(&self, kind: Kind, name: &str) -> Vec<PathBuf> {
        let all = self.folders.iter().flat_map(|root| {
            let folder = root.join(kind.folder());
            kind.endings().iter().map(move |ending| folder.join(format!("{name}.{ending}")))
        });
        all.filter(|path| path.is_file()).collect()
    }

    /// A plugin's file by its name.
    pub(super) fn named(
        &self,
        folder: &str,
        kind: &'static str,
        name: &str,
    ) -> Result<PathBuf, LibraryError> {
        let candidates = self.folders.iter().flat_map(|root| {
            ENDINGS.iter().map(move |ending| root.join(folder).join(format!("{name}.{ending}")))
        });
        let found: Vec<PathBuf> =
            candidates.filter(|_| is_name(name)).filter(|path| path.is_file()).collect();
        if let Some(nearest) = found.first() {
            // What the user has under that name is what the user means, unless the project is trusted with it.
            let own = found.iter().find(|path| self.is_own(path));
            let path = match own {
                Some(own) if !self.believes(&read(nearest)?.2)? => own,
                Some(_) | None => nearest,
            };
            return Ok(path.clone());
        }
        Err(LibraryError::Unknown {
            kind,
            name: name.to_owned(),
            known: self.all(folder).into_iter().map(|found| found.name).collect(),
            folders: self.folders.iter().map(|root| root.join(folder)).collect(),
        })
    }

    /// Everything in a folder of each root; of two with the same name, the nearest.
    pub(super) fn all(&self, folder: &str) -> Vec<Found> {
        let mut found: Vec<Found> = Vec::new();
        for root in &self.folders {
            for path in files(&root.join(folder), &ENDINGS) {
                let Some(name) = path.file_stem().and_then(|name| name.to_str()) else { continue };
                if !found.iter().any(|known| known.name == name) {
                    found.push(Found { name: name.to_owned(), path: path.clone() });
                }
            }
        }
        found.sort_by(|left, right| left.name.cmp(&right.name));
        found
    }

    fn item(&self, name: &str, path: &Path) -> Item {
        let origin = if self.is_own(path) { Origin::User } else { Origin::Project };
        Item {
            name: name.to_owned(),
            origin,
            path: Some(path.to_owned()),
            file: path.to_string_lossy().into_owned(),
            is_trusted: origin != Origin::Project,
        }
    }

    /// Asks the record once for all of the project's.
    fn judge_all(&self, items: &mut [Item]) -> Result<(), LibraryError> {
        let Some((home, folder)) = &self.judge else {
            items.iter_mut().for_each(|item| item.is_trusted = true);
            return Ok(());
        };
        let mut seen: Vec<(usize, Seen)> = Vec::new();
        for (index, item) in items.iter().enumerate() {
            if let (Origin::Project, Some(path)) = (item.origin, &item.path)
                && let Ok((_, _, file)) = self.read_once(path)
            {
                seen.push((index, file));
            }
        }
        let files: Vec<Seen> = seen.iter().map(|(_, file)| file.clone()).collect();
        let state = trust::state(home, folder, &files).map_err(LibraryError::Wrong)?;
        let left: BTreeSet<OsString> = match state {
            TrustState::Trusted => BTreeSet::new(),
            TrustState::Untrusted { new, changed } => {
                new.into_iter().chain(changed).map(PathBuf::into_os_string).collect()
            }
        };
        for (index, file) in seen {
            items[index].is_trusted = !left.contains(file.path.as_os_str());
        }
        Ok(())
    }

    /// A link of a project must not lead out of it: what it names there was never part of the project.
    fn within_project(&self, path: &Path, seen: &Seen) -> Result<(), LibraryError> {
        let project = path.parent().and_then(Path::parent).and_then(Path::parent);
        match project.and_then(|project| self.asked.real(project)) {
            Some(root) if !self.is_own(path) && !seen.path.starts_with(&root) => {
                let reason = format!("it leads out of the project, to {}", seen.path.display());
                Err(LibraryError::Unreadable { path: path.to_owned(), reason })
            }
            _ => Ok(()),
        }
    }
}

/// Which of some items of one name is taken.
pub(crate) fn chosen(items: &[Item]) -> Option<usize> {
    let candidates: Vec<Candidate> = items
        .iter()
        .map(|item| Candidate { origin: item.origin, is_trusted: item.is_trusted })
        .collect();
    lookup::choose(&candidates)
}

impl Item {
    /// Of some items of one name, the one that is taken.
    pub fn chosen(items: &[Item]) -> Option<&Item> {
        items.get(chosen(items)?)
    }
}

impl Lookup for Library {
    fn find(&self, kind: Kind, name: &str) -> Result<lookup::Found, NotFound> {
        self.take(kind, name).map_err(|error| {
            let why = error.to_string();
            let known = match error {
                LibraryError::Unknown { known, .. } => known,
                LibraryError::Source(_)
                | LibraryError::Unreadable { .. }
                | LibraryError::Wrong(_)
                | LibraryError::Untrusted(_)
                | LibraryError::Changed(_) => Vec::new(),
            };
            NotFound { known, why }
        })
    }

    fn script(&self, text: &str, file: &str) -> Result<Given, Vec<SourceError>> {
        self.run_script(text, file)
    }

    fn facts(&self) -> Value {
        self.project_facts()
    }
}

fn built_in(known: &builtin::BuiltIn) -> Item {
    Item {
        name: known.name.to_owned(),
        origin: Origin::BuiltIn,
        path: None,
        file: known.shown(),
        is_trusted: true,
    }
}

fn is_name(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    !name.is_empty() && name.chars().all(fits) && !name.starts_with('.')
}

/// The files of a folder with one of these endings, in the order of the endings and then of their names.
fn files(folder: &Path, endings: &[&str]) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut found: Vec<(usize, PathBuf)> = entries
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let path = entry.path();
            let ending =
                endings.iter().position(|ending| path.extension() == Some(ending.as_ref()))?;
            // What a folder says of its entries is enough, but for links.
            let is_file = match entry.file_type() {
                Ok(kind) if kind.is_file() => true,
                Ok(kind) if kind.is_dir() => false,
                Ok(_) | Err(_) => path.is_file(),
            };
            is_file.then_some((ending, path))
        })
        .collect();
    found.sort();
    found.into_iter().map(|(_, path)| path).collect()
}
