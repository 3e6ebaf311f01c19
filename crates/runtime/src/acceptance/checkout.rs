//! Clean checkouts: new folders with exactly the files of a checkpoint, in which criteria run. Whatever the worker left
//! beside its files (ignored ones, its index, programs that still ran) is not there.

use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use machine::policy::sandbox::Level;

use super::command::{self, Command};
use super::copy::copy_tree;
use super::repository::{self, Laid};
use super::{Claim, Places, Trouble};
use crate::checkpoint::Store;
use crate::process::{Cancel, Containment};
use crate::remove;
use crate::sandbox::Sandbox;
use crate::tool::ToolServices;
use crate::workspace;

/// What everything in a verification shares.
#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    pub(crate) claim: &'a Claim<'a>,
    pub(crate) places: &'a Places<'a>,
    pub(crate) services: &'a ToolServices,
    pub(crate) cancel: &'a Cancel,
}

/// One checkpoint, made into files again and again.
pub(super) struct Checkout {
    /// Always the same path: some programs write down where they were set up.
    top: PathBuf,
    /// The files after the setup commands, for further uses.
    spare: PathBuf,
    /// The name of the checkpoint.
    point: String,
    /// The folder of the task below the top.
    prefix: String,
    /// Its repository, once it is made; it may have none.
    repository: Option<Option<Laid>>,
    /// What is mounted where.
    shared: Vec<(PathBuf, PathBuf)>,
    state: Made,
    /// How many more commands will run in it, as far as is known.
    uses: usize,
}

enum Made {
    Not,
    /// As in the checkpoint, set up.
    Fresh,
    /// A command has run in it.
    Used,
    /// It cannot be set up.
    Unusable(String),
}

impl Checkout {
    /// A checkout of `point` below `scratch`; nothing is made before it is needed.
    pub(super) fn new(scratch: &Path, name: &str, point: &str, uses: usize) -> Checkout {
        let folder = scratch.join(name);
        Checkout {
            top: folder.join("tree"),
            spare: folder.join("spare"),
            point: point.to_owned(),
            prefix: String::new(),
            repository: None,
            shared: Vec::new(),
            state: Made::Not,
            uses,
        }
    }

    /// The folder that the task works in, in files that nothing has run in but the setup commands.
    pub(super) fn files(&mut self, context: &Context<'_>) -> Result<PathBuf, Trouble> {
        self.freshen(context)?;
        Ok(self.inside())
    }

    /// Runs a command in files that no other criterion has seen.
    pub(super) fn run(
        &mut self,
        context: &Context<'_>,
        command: &Command<'_>,
    ) -> Result<command::Ended, Trouble> {
        self.freshen(context)?;
        self.state = Made::Used;
        self.uses = self.uses.saturating_sub(1);
        let containment = self.containment(context);
        command::run(command, &self.inside(), containment, context.services, context.cancel)
    }

    fn inside(&self) -> PathBuf {
        // A joined empty path would end in a slash.
        if self.prefix.is_empty() { self.top.clone() } else { self.top.join(&self.prefix) }
    }

    fn freshen(&mut self, context: &Context<'_>) -> Result<(), Trouble> {
        match &self.state {
            Made::Fresh => return Ok(()),
            Made::Unusable(reason) => return Err(Trouble::Failed(reason.clone())),
            Made::Used if self.spare.exists() => {
                clear_away(&self.top);
                if self.uses > 1 {
                    copy_tree(&self.spare, &self.top).map_err(Trouble::Broken)?;
                } else {
                    let moved = fs::rename(&self.spare, &self.top);
                    moved.map_err(|error| broken(&self.spare, &error))?;
                }
            }
            Made::Not | Made::Used => {
                let made = self.make(context);
                if let Err(Trouble::Failed(reason)) = &made {
                    self.state = Made::Unusable(reason.clone());
                }
                made?;
            }
        }
        self.state = Made::Fresh;
        Ok(())
    }

    fn make(&mut self, context: &Context<'_>) -> Result<(), Trouble> {
        let claim = context.claim;
        clear_away(&self.top);
        make_folder(&self.top)?;
        let store = Store::open(claim.task, context.places.state_home, context.cancel)
            .map_err(Trouble::Broken)?;
        store.copy(&self.point, &self.top).map_err(Trouble::Broken)?;
        let origin = workspace::origin(claim.task, context.places.state_home);
        if let Some(origin) = &origin {
            if self.repository.is_none() {
                repository::distrust(origin, &store, context)?;
                let folder = self.top.with_file_name("repository");
                let laid = repository::lay(&folder, &self.point, origin, &store, context);
                self.repository = Some(laid.map_err(Trouble::Broken)?);
            }
            if let Some(Some(laid)) = &self.repository {
                laid.place(&self.top, context).map_err(Trouble::Broken)?;
            }
            self.prefix = origin.prefix.clone();
            self.share(context, &origin.repository)?;
        }
        let inside = self.inside();
        make_inside(&self.top, &inside)?;
        self.set_up(context)?;
        if self.uses > 1 && !claim.spec.setup.is_empty() {
            copy_tree(&self.top, &self.spare).map_err(Trouble::Broken)?;
        }
        Ok(())
    }

    /// Makes the places at which folders of the user's own checkout are seen.
    fn share(&mut self, context: &Context<'_>, repository: &Path) -> Result<(), Trouble> {
        let (spec, sandbox) = (context.claim.spec, context.claim.sandbox);
        if spec.share.is_empty() {
            return Ok(());
        }
        if sandbox.level != Level::Full {
            return Err(Trouble::Failed(format!(
                "share = {:?} under [workspace] needs the full sandbox, and this task's is {}: without it \
                 nothing can be shown read-only",
                spec.share,
                sandbox.level.word()
            )));
        }
        self.shared.clear();
        for name in &spec.share {
            let below = Path::new(&self.prefix).join(name);
            let source = repository.join(&below);
            let Ok(source) = source.canonicalize() else { continue };
            let target = self.top.join(&below);
            make_inside(&self.top, &target)?;
            let occupied = fs::read_dir(&target).is_ok_and(|mut entries| entries.next().is_some());
            if occupied {
                return Err(Trouble::Failed(format!(
                    "share names {name}, which has files of its own in the tree that was handed over; take \
                     it out of share, or out of the tree"
                )));
            }
            self.shared.push((source, target));
        }
        Ok(())
    }

    fn set_up(&mut self, context: &Context<'_>) -> Result<(), Trouble> {
        let (inside, containment) = (self.inside(), self.containment(context));
        let setup = &context.claim.spec.setup;
        command::set_up(setup, &inside, &containment, context.services, context.cancel)
    }

    fn containment(&self, context: &Context<'_>) -> Containment {
        let spec = context.claim.sandbox;
        if spec.level == Level::Off {
            return context.services.containment.clone();
        }
        let mut sandbox = Sandbox::new(spec.clone());
        sandbox.workspace = Some(self.inside());
        sandbox.hidden = vec![context.places.state_home.to_owned()];
        let laid = self.repository.as_ref().and_then(Option::as_ref);
        sandbox.shown = laid.map(|laid| laid.objects.clone()).unwrap_or_default();
        sandbox.shared = self.shared.clone();
        sandbox.passages = context.services.passages.clone();
        Containment::Sandbox(Arc::new(sandbox))
    }
}

/// A folder for one verification, gone with this value.
pub(super) struct Scratch(pub(super) PathBuf);

impl Scratch {
    pub(super) fn new(checkouts: &Path, task: &str) -> Result<Scratch, String> {
        let mut random = [0u8; 8];
        getrandom::fill(&mut random).map_err(|error| error.to_string())?;
        let name = format!("{task}-{:016x}", u64::from_ne_bytes(random));
        let folder = checkouts.join(name);
        make_folder(&folder).map_err(Trouble::into_text)?;
        let folder = folder.canonicalize().map_err(|e| format!("{}: {e}", folder.display()))?;
        Ok(Scratch(folder))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        clear_away(&self.0);
    }
}

/// Removes a folder in which commands have run. What cannot be removed is left for the next start.
pub(crate) fn clear_away(folder: &Path) {
    let _ = remove::tree(folder);
}

fn make_folder(folder: &Path) -> Result<(), Trouble> {
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(|error| broken(folder, &error))
}

/// Makes a folder below the top, through no link: a link that the worker made could lead anywhere.
fn make_inside(top: &Path, folder: &Path) -> Result<(), Trouble> {
    let Ok(below) = folder.strip_prefix(top) else { return Ok(()) };
    let mut path = top.to_owned();
    for part in below.components() {
        path.push(part);
        match fs::symlink_metadata(&path) {
            Ok(meta) if meta.is_dir() => {}
            Ok(_) => {
                let name = path.strip_prefix(top).unwrap_or(&path).display();
                return Err(Trouble::Failed(format!(
                    "{name} is no folder in what was handed over"
                )));
            }
            Err(_) => fs::create_dir(&path).map_err(|error| broken(&path, &error))?,
        }
    }
    Ok(())
}

fn broken(path: &Path, error: &std::io::Error) -> Trouble {
    Trouble::Broken(format!("no clean checkout can be made: {}: {error}", path.display()))
}
