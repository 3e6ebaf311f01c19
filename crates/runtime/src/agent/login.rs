//! The operator's own login of an agent, lent to one that has no key: copied into the folder that the task gives it, taken back
//! when it has been renewed, and gone from there with the agent. It lies nowhere else.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use machine::agent::AgentProgram;
use machine::policy::gateway::is_used;
use serde::{Deserialize, Serialize};
use wire::agent::login::{self, Login, Way};

use super::behind::key_found;
use super::lock;
use crate::beneath::Root;
use crate::lock::FileLock;
use crate::redact;
use crate::sha256;
use crate::whole_file::{self, Lasting};

/// A login is no longer than this, in bytes.
const LONGEST: u64 = 1 << 20;

/// Why an agent cannot be asked for anything here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoWay {
    /// It has neither a key nor a login.
    Missing {
        /// What a token is set as, if it takes one.
        token: Option<&'static str>,
        /// Where a login would be; none if it is handed no login.
        file: Option<String>,
    },
    /// It is to have a gateway, and there can be none.
    NoGateway(String),
}

/// Whether an agent can come to its models, as far as that is known before it starts.
pub fn check(program: &AgentProgram) -> Result<(), NoWay> {
    is_used(program.gateway, key_found(program)).map_err(NoWay::NoGateway)?;
    match way(program) {
        Way::Missing(login) => Err(NoWay::Missing {
            token: login.and_then(|login| login.token),
            file: login.map(|login| format!("~/{}", login.file)),
        }),
        Way::Own | Way::Token(_) | Way::File(..) => Ok(()),
    }
}

/// How an agent comes to its models here.
pub(super) fn way(program: &AgentProgram) -> Way {
    login::way(program, &|name| std::env::var(name).ok(), &|path| path.is_file())
}

/// A login that was lent.
#[derive(Debug)]
pub(super) struct Lent {
    note: Note,
    /// Where it is noted, for whoever comes after this process if it is killed.
    noted: PathBuf,
    /// Says that this process lives.
    lock: FileLock,
    /// What the operator's file held when it was copied, or given back; nothing once the copy is gone. The next process of the
    /// agent has a copy in the same place, which is not ours to remove.
    was: Mutex<Option<Vec<u8>>>,
}

/// What is noted of a login that is lent. The agent cannot write there, and no token is in it.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Note {
    /// The operator's own file.
    from: PathBuf,
    /// The folder of the copy.
    home: PathBuf,
    /// The copy, below that.
    copy: String,
    /// The hash of what the operator's file held when it was copied, or given back.
    was: String,
}

impl Lent {
    /// Copies a login into the agent's own folder, for nobody else to read, and notes that in the folder `notes`.
    pub(super) fn to(
        home: &Path,
        login: &'static Login,
        from: &Path,
        notes: &Path,
    ) -> Result<Lent, String> {
        let failed = |why: &dyn std::fmt::Display| {
            format!("cannot hand over the login in {}: {why}", from.display())
        };
        let from = from.canonicalize().map_err(|error| failed(&error))?;
        let was = fs::read(&from).map_err(|error| failed(&error))?;
        learn(&was);
        let (copy, hash) = (login.copy.to_owned(), sha256::of(&was));
        let note = Note { from: from.clone(), home: home.to_owned(), copy, was: hash };
        let (noted, lock) = note.write(notes).map_err(|error| failed(&error))?;
        let lent = Lent { note, noted, lock, was: Mutex::new(Some(was.clone())) };
        let root = Root::open_own(home).map_err(|error| failed(&error))?;
        let _ = root.remove(login.copy);
        // What replaces a file has its mode, so that there is no moment in which somebody else could read it.
        root.write(login.copy, b"", None).map_err(|error| failed(&error))?;
        let file = root.open_file(login.copy).map_err(|error| failed(&error))?;
        file.set_permissions(fs::Permissions::from_mode(0o600)).map_err(|error| failed(&error))?;
        root.write(login.copy, &was, None).map_err(|error| failed(&error))?;
        Ok(lent)
    }

    /// Writes what the agent has renewed into the operator's own file: a token that was renewed is worth nothing in its old
    /// form. Not if somebody else has renewed it meanwhile. What cannot be done is left: the agent's work does not
    /// depend on it.
    pub(super) fn give_back(&self) {
        let mut held = lock(&self.was);
        let Some(was) = held.as_mut() else { return };
        let Some(renewed) = self.note.renew(was) else { return };
        let hash = sha256::of(&renewed);
        let note = Note { was: hash, ..self.note.clone() };
        // As long as the one before it, so that it is never there in part. Without it the next renewal is not rescued.
        let _ = note.text().and_then(|text| self.lock.file().write_all_at(&text, 0));
        *was = renewed;
    }

    /// The same, and the copy is gone.
    pub(super) fn take_back(&self) {
        let Some(was) = lock(&self.was).take() else { return };
        self.note.renew(&was);
        self.note.remove_copy();
        let _ = fs::remove_file(&self.noted);
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.take_back();
    }
}

/// Takes back what processes that were killed had lent: what their agents had renewed is written into the operator's file, if
/// that is still the one that was copied, and the copies are removed.
pub(super) fn rescue(notes: &Path) {
    for entry in fs::read_dir(notes).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.extension().is_none_or(|end| end != NOTE) {
            continue;
        }
        // A process that lives takes back itself.
        let Some(_lock) = File::open(&path).ok().and_then(FileLock::take) else { continue };
        let Some(note) = whole_file::recall::<Note>(&path) else { continue };
        let was = fs::read(&note.from).ok().filter(|was| sha256::of(was) == note.was);
        if let Some(was) = was {
            learn(&was);
            note.renew(&was);
        }
        note.remove_copy();
        let _ = fs::remove_file(&path);
    }
}

/// How the names of notes end.
const NOTE: &str = "json";

impl Note {
    /// Writes it into a file of its own, which is locked from the first moment that anybody sees it.
    fn write(&self, notes: &Path) -> io::Result<(PathBuf, FileLock)> {
        let mut random = [0u8; 8];
        getrandom::fill(&mut random).map_err(io::Error::other)?;
        let name = format!("{:016x}", u64::from_ne_bytes(random));
        whole_file::make_folder(notes)?;
        let (beside, noted) = (notes.join(&name), notes.join(format!("{name}.{NOTE}")));
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
        file.write_all_at(&self.text()?, 0)?;
        let lock = FileLock::wait(file)?;
        fs::rename(&beside, &noted)?;
        Ok((noted, lock))
    }

    fn text(&self) -> io::Result<Vec<u8>> {
        serde_json::to_vec(self).map_err(io::Error::other)
    }

    /// Writes what was renewed in the copy into the operator's file, if that still holds what it held; gives what it holds now.
    fn renew(&self, was: &[u8]) -> Option<Vec<u8>> {
        let root = Root::open_own(&self.home).ok()?;
        let copy = root.read(&self.copy, LONGEST).ok()?;
        let renewed = login::renewed(was, &copy)?;
        learn(&renewed);
        if fs::read(&self.from).ok()? != was {
            return None;
        }
        let (folder, name) = (self.from.parent()?, self.from.file_name()?);
        whole_file::write(folder, &name.to_string_lossy(), &renewed, Lasting::Yes).ok()?;
        Some(renewed)
    }

    fn remove_copy(&self) {
        if let Ok(root) = Root::open_own(&self.home) {
            let _ = root.remove(&self.copy);
        }
    }
}

fn learn(login: &[u8]) {
    login::tokens(login).iter().for_each(|(name, token)| redact::learn(name, token));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_living_process_has_lent_is_left_to_it() {
        let folder = tempfile::tempdir().unwrap();
        let [home, notes, own] = ["home", "notes", "own"].map(|name| folder.path().join(name));
        fs::create_dir(&home).unwrap();
        fs::write(&own, r#"{"accessToken":"one"}"#).unwrap();
        let lent = Lent::to(&home, &login::CLAUDE, &own, &notes).unwrap();
        let copy = home.join(login::CLAUDE.copy);
        rescue(&notes);
        assert!(copy.exists());
        // Twice: what is noted follows what was given back.
        for token in ["two", "three"] {
            let renewed = format!(r#"{{"accessToken":"{token}"}}"#);
            fs::write(&copy, &renewed).unwrap();
            lent.give_back();
            assert_eq!(fs::read_to_string(&own).unwrap(), renewed);
            let noted: Note = whole_file::recall(&lent.noted).unwrap();
            assert_eq!(noted.was, sha256::of(renewed.as_bytes()));
        }
        drop(lent);
        assert!(!copy.exists());
        assert_eq!(fs::read_dir(&notes).unwrap().count(), 0);
    }
}
