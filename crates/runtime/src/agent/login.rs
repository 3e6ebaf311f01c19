//! The operator's own login of an agent, lent to one that has no key: copied into the folder that the task gives it, taken back
//! when it has been renewed, and gone from there with the agent. It lies nowhere else.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use machine::agent::AgentProgram;
use machine::policy::gateway::is_used;
use wire::agent::login::{self, Login, Way};

use super::behind::key_found;
use super::lock;
use crate::beneath::Root;
use crate::redact;
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
        /// Where a login would be.
        file: String,
    },
    /// It is to have a gateway, and there can be none.
    NoGateway(String),
}

/// Whether an agent can come to its models, as far as that is known before it starts.
pub fn check(program: &AgentProgram) -> Result<(), NoWay> {
    is_used(program.gateway, key_found(program)).map_err(NoWay::NoGateway)?;
    match way(program) {
        Way::Missing(login) => {
            Err(NoWay::Missing { token: login.token, file: format!("~/{}", login.file) })
        }
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
    /// The folder of the copy.
    home: PathBuf,
    login: &'static Login,
    /// The operator's own file.
    from: PathBuf,
    /// What it held when it was copied, or given back; nothing once the copy is gone. The next process of the agent has a copy
    /// in the same place, which is not ours to remove.
    was: Mutex<Option<Vec<u8>>>,
}

impl Lent {
    /// Copies a login into the agent's own folder, for nobody else to read.
    pub(super) fn to(home: &Path, login: &'static Login, from: &Path) -> Result<Lent, String> {
        let failed = |why: &dyn std::fmt::Display| {
            format!("cannot hand over the login in {}: {why}", from.display())
        };
        let from = from.canonicalize().map_err(|error| failed(&error))?;
        let was = fs::read(&from).map_err(|error| failed(&error))?;
        learn(&was);
        let root = Root::open_own(home).map_err(|error| failed(&error))?;
        let _ = root.remove(login.copy);
        // What replaces a file has its mode, so that there is no moment in which somebody else could read it.
        root.write(login.copy, b"", None).map_err(|error| failed(&error))?;
        let file = root.open_file(login.copy).map_err(|error| failed(&error))?;
        file.set_permissions(fs::Permissions::from_mode(0o600)).map_err(|error| failed(&error))?;
        root.write(login.copy, &was, None).map_err(|error| failed(&error))?;
        Ok(Lent { home: home.to_owned(), login, from, was: Mutex::new(Some(was)) })
    }

    /// Writes what the agent has renewed into the operator's own file: a token that was renewed is worth nothing in its old
    /// form. Not if somebody else has renewed it meanwhile. What cannot be done is left: the agent's work does not
    /// depend on it.
    pub(super) fn give_back(&self) {
        if let Some(was) = &mut *lock(&self.was) {
            self.renew(was);
        }
    }

    /// The same, and the copy is gone.
    pub(super) fn take_back(&self) {
        let Some(mut was) = lock(&self.was).take() else { return };
        self.renew(&mut was);
        if let Ok(root) = Root::open_own(&self.home) {
            let _ = root.remove(self.login.copy);
        }
    }

    fn renew(&self, was: &mut Vec<u8>) {
        let root = Root::open_own(&self.home).ok();
        let copy = root.and_then(|root| root.read(self.login.copy, LONGEST).ok());
        let Some(renewed) = copy.and_then(|copy| login::renewed(was, &copy)) else { return };
        learn(&renewed);
        if fs::read(&self.from).ok().as_ref() != Some(was) {
            return;
        }
        let (Some(folder), Some(name)) = (self.from.parent(), self.from.file_name()) else {
            return;
        };
        if whole_file::write(folder, &name.to_string_lossy(), &renewed, Lasting::Yes).is_ok() {
            *was = renewed;
        }
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.take_back();
    }
}

fn learn(login: &[u8]) {
    login::tokens(login).iter().for_each(|(name, token)| redact::learn(name, token));
}
