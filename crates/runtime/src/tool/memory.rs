//! `memory`: notes about a project that later tasks can read. They are kept outside the workspace, by project: all
//! worktrees of one repository share them.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use machine::effect::ToolCall;
use machine::tool::ToolResult;

use super::{ToolServices, failed, text};
use crate::{sandbox, sha256};

/// The largest note, in bytes.
const NOTE: usize = 64 * 1024;
/// How much of all notes a model is told at the start, in bytes.
const TOLD: usize = 32 * 1024;
/// The most notes of one project.
const NOTES: usize = 200;
/// How much of a note's first line a list shows, in characters.
const FIRST_LINE: usize = 80;

pub(super) fn run(call: &ToolCall, folder: &Path, services: &ToolServices) -> ToolResult {
    let Some(memory) = &services.memory else {
        return failed("memory is not kept here: no folder for notes was given at the start");
    };
    let notes = Notes::of(memory, folder);
    let (action, name) = (text(call, "action"), text(call, "name"));
    if action != "list" && name.is_empty() {
        return failed(format!("memory {action} needs the parameter \"name\": the note"));
    }
    let done = match action {
        "list" => notes.list(),
        "read" => notes.read(name),
        "forget" => notes.forget(name, call.repeated),
        _ => match call.input.get("text").and_then(|value| value.as_str()) {
            Some(text) => notes.write(name, text),
            None => Err("memory write needs the parameter \"text\": the whole note".to_owned()),
        },
    };
    done.map_or_else(failed, ToolResult::ok)
}

/// All notes about the project of a folder, by name, up to a size that a model can be told at once: the first ones.
pub fn notes(memory: &Path, folder: &Path) -> Result<Vec<(String, String)>, String> {
    let notes = Notes::of(memory, folder);
    let (mut told, mut size) = (Vec::new(), 0);
    for name in notes.names()? {
        let text = notes.read(&name)?;
        size += text.len();
        if size > TOLD {
            break;
        }
        told.push((name, text));
    }
    Ok(told)
}

/// Writes a note about the project of a folder.
#[cfg(test)]
pub(crate) fn note(memory: &Path, folder: &Path, name: &str, text: &str) -> Result<String, String> {
    Notes::of(memory, folder).write(name, text)
}

/// The notes of one project.
struct Notes {
    folder: PathBuf,
    project: PathBuf,
}

impl Notes {
    fn of(memory: &Path, folder: &Path) -> Notes {
        let project = project_of(folder);
        Notes { folder: memory.join(name_of(&project)), project }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.md"))
    }

    /// All names, sorted.
    fn names(&self) -> Result<Vec<String>, String> {
        let entries = match fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(format!("cannot list the notes: {error}")),
        };
        let name = |entry: io::Result<fs::DirEntry>| {
            let name = entry.ok()?.file_name().into_string().ok()?;
            Some(name.strip_suffix(".md").filter(|name| !name.starts_with('.'))?.to_owned())
        };
        let mut names: Vec<String> = entries.filter_map(name).collect();
        names.sort();
        Ok(names)
    }

    fn list(&self) -> Result<String, String> {
        let names = self.names()?;
        if names.is_empty() {
            return Ok(format!("there are no notes about {}", self.project.display()));
        }
        let line = |name: &String| {
            let text = self.text(name).unwrap_or_default();
            let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
            let first: String = first.trim().chars().take(FIRST_LINE).collect();
            format!("{name} ({} bytes)  {first}", text.len())
        };
        Ok(names.iter().map(line).collect::<Vec<_>>().join("\n"))
    }

    fn text(&self, name: &str) -> io::Result<String> {
        let mut bytes = Vec::new();
        let file = OpenOptions::new().read(true).open(self.path(name))?;
        // A person may have written more than the tool would.
        file.take(NOTE as u64).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn read(&self, name: &str) -> Result<String, String> {
        self.text(name).map_err(|error| match error.kind() {
            ErrorKind::NotFound => self.missing(name),
            _ => format!("cannot read the note {name:?}: {error}"),
        })
    }

    fn write(&self, name: &str, text: &str) -> Result<String, String> {
        if text.len() > NOTE {
            return Err(format!(
                "the note {name:?} has {} bytes; expected at most {NOTE}",
                text.len()
            ));
        }
        let names = self.names()?;
        let known = names.iter().any(|other| other == name);
        if !known && names.len() >= NOTES {
            return Err(format!("there are already {NOTES} notes; forget or rewrite some first"));
        }
        self.put(&self.path(name), text)
            .map_err(|error| format!("cannot write the note {name:?}: {error}"))?;
        let did = if known { "replaced" } else { "wrote" };
        Ok(format!("{did} the note {name} ({} bytes)", text.len()))
    }

    /// Writes beside the final name and renames, so that nobody ever reads half a note.
    fn put(&self, path: &Path, text: &str) -> io::Result<()> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        let mut random = [0u8; 8];
        getrandom::fill(&mut random).map_err(io::Error::other)?;
        let next = self.folder.join(format!(".{:016x}.next", u64::from_ne_bytes(random)));
        let write = || {
            let mut file =
                OpenOptions::new().write(true).create_new(true).mode(0o600).open(&next)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&next, path)
        };
        write().inspect_err(|_| {
            let _ = fs::remove_file(&next);
        })
    }

    fn forget(&self, name: &str, repeated: bool) -> Result<String, String> {
        match fs::remove_file(self.path(name)) {
            Ok(()) => Ok(format!("forgot the note {name}")),
            Err(error) if error.kind() == ErrorKind::NotFound && repeated => {
                Ok(format!("already done: there is no note {name}"))
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Err(self.missing(name)),
            Err(error) => Err(format!("cannot forget the note {name:?}: {error}")),
        }
    }

    fn missing(&self, name: &str) -> String {
        match self.names() {
            Ok(names) if !names.is_empty() => {
                format!("there is no note {name:?}; there are {}", names.join(", "))
            }
            _ => format!("there is no note {name:?}; this project has none yet"),
        }
    }
}

/// The folder that stands for the project: the top of the main worktree of its repository, or the folder itself.
fn project_of(folder: &Path) -> PathBuf {
    let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let Some(top) = sandbox::git::top(&folder) else { return folder };
    main_worktree(top).unwrap_or_else(|| top.to_owned())
}

/// Where a linked worktree belongs. Its `.git` is a file that names a folder of the main repository, and that folder
/// names the worktree in turn: one that only claims to belong to a project does not get at its notes.
fn main_worktree(top: &Path) -> Option<PathBuf> {
    let link = top.join(".git");
    let named = |file: &Path, base: &Path| {
        let text = fs::read_to_string(file).ok()?;
        let path = text.trim().strip_prefix("gitdir: ").unwrap_or(text.trim()).to_owned();
        base.join(path).canonicalize().ok()
    };
    let own = link.is_file().then(|| named(&link, top)).flatten()?;
    let back = named(&own.join("gitdir"), &own)?;
    let common = named(&own.join("commondir"), &own)?;
    let inside = own.parent() == Some(&common.join("worktrees"));
    if back != link.canonicalize().ok()? || !inside {
        return None;
    }
    if common.file_name()? == ".git" { common.parent().map(Path::to_owned) } else { Some(common) }
}

/// A name for a folder that is no path itself: what people recognise, and what makes it unique.
fn name_of(project: &Path) -> String {
    let mut hex = sha256::of(project.as_os_str().as_encoded_bytes());
    hex.truncate(32);
    let known: String = project
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .chars()
        .filter(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
        .take(40)
        .collect();
    if known.is_empty() { hex } else { format!("{known}-{hex}") }
}
