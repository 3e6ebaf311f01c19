//! The files of one task: its checkpoints, its workspace, and what is compared with what.

use std::path::PathBuf;
use std::sync::Arc;

use journal::{Journal, Loaded};
use machine::event::EventKind;
use machine::id::TaskId;
use machine::state::{Data, Standing};
use machine::task::{Outcome, Workspace, WorkspaceKind};
use runtime::checkpoint::{Change, Content, Lines, Point, Store};
use runtime::host::Host;
use runtime::process::Cancel;
use view::diff::Path;

use crate::error::{CommandError, Kind};
use crate::locate::{Records, Task};

/// A task with its checkpoints.
pub(crate) struct Kept<'a> {
    pub(crate) id: TaskId,
    pub(crate) task: Task,
    pub(crate) store: Store<'a>,
    pub(crate) workspace: Workspace,
    /// The folder that is kept.
    pub(crate) folder: PathBuf,
    /// The checkpoints, the oldest first.
    pub(crate) points: Vec<Point>,
}

/// One side of a comparison, with how it is called.
pub(crate) struct Side {
    pub(crate) content: Content,
    pub(crate) name: String,
}

impl<'a> Kept<'a> {
    /// The task whose id begins so. A task without any folder has no files.
    pub(crate) fn open(
        records: &Records,
        prefix: &str,
        cancel: &'a Cancel,
    ) -> Result<Kept<'a>, CommandError> {
        let id = records.find(prefix)?;
        let task = records.load(&id)?;
        let refused = |reason: String| CommandError::new(Kind::Refused, reason);
        let Some(workspace) = task.state.data().workspace.clone() else {
            return Err(refused(format!("task {id} has no workspace yet"))
                .hint(format!("drivetrain why {id} says how it stands")));
        };
        if workspace.path.is_none() {
            return Err(refused(format!(
                "task {id} works in no folder (--no-workspace), so there are no files of it"
            )));
        }
        let (store, folder) =
            Store::of(id.as_str(), &workspace, records.home.root(), cancel).map_err(refused)?;
        let points = store.points().map_err(CommandError::environment)?;
        Ok(Kept { id, task, store, workspace, folder, points })
    }

    /// What a checkpoint lacks that is older than what the task stands on: to hand it over would take that away again.
    pub(crate) fn lacks(
        &self,
        records: &Records,
        point: &Point,
    ) -> Result<Option<String>, CommandError> {
        let all = records.journal.records(self.id.as_str(), 0)?;
        let loaded = Loaded { snapshot: None, records: all };
        let mut stands_on = None;
        let folded =
            Host::fold(&self.id, &loaded, Arc::clone(&records.registry), false, |output| {
                for event in output.events {
                    if let EventKind::Rebased { branch, commit, undo } = event.kind {
                        stands_on = Some((branch, commit, undo));
                    }
                }
            });
        folded.map_err(|error| CommandError::environment(error.to_string()))?;
        let Some((branch, commit, undo)) = stands_on else { return Ok(None) };
        let since = self.points.iter().find(|point| point.commit == undo);
        let is_before = since.is_some_and(|since| point.number <= since.number);
        Ok(is_before.then(|| {
            format!(
                "checkpoint {} is from before the task was put on {branch} at {}: what others had brought there is not in it",
                point.number,
                view::text::commit(&commit)
            )
        }))
    }

    pub(crate) fn data(&self) -> &Data {
        self.task.state.data()
    }

    /// How the task ended, if it did.
    pub(crate) fn outcome(&self) -> Option<Outcome> {
        match self.task.state.standing() {
            Standing::Finished { outcome, .. } => Some(outcome),
            Standing::Working | Standing::Paused | Standing::AwaitingPerson { .. } => None,
        }
    }

    /// The checkpoint of a number, or one whose name begins so.
    pub(crate) fn point(&self, wanted: &str) -> Result<&Point, CommandError> {
        let by_number = wanted.parse::<usize>().ok().filter(|_| wanted.len() < 7);
        let found = match by_number {
            Some(number) => self.points.iter().find(|point| point.number == number),
            None if wanted.len() >= 7 => {
                self.points.iter().find(|point| point.commit.starts_with(wanted))
            }
            None => None,
        };
        found.ok_or_else(|| {
            let id = &self.id;
            let error = match self.points.len() {
                0 => CommandError::new(
                    Kind::Refused,
                    format!("task {id} has no checkpoints: {}", self.why_none()),
                ),
                count => CommandError::usage(format!(
                    "task {id} has no checkpoint {wanted:?}: there are 1 to {count}"
                )),
            };
            error.hint(format!("drivetrain checkpoints {id} lists them"))
        })
    }

    /// Why there is nothing to go back to.
    pub(crate) fn why_none(&self) -> &'static str {
        match self.workspace.kind {
            WorkspaceKind::Worktree => {
                "none was made (one is made with every claim that criteria check), or `drivetrain worktrees clean --checkpoints` took them away"
            }
            WorkspaceKind::InPlace => {
                "it works in your folder itself (--in-place), where nothing is kept"
            }
            WorkspaceKind::None => "it works in no folder (--no-workspace)",
        }
    }

    /// The state that the task's changes are counted from.
    pub(crate) fn base(&mut self) -> Result<Side, CommandError> {
        let base = self.data().base.clone();
        let is_worktree = self.workspace.kind == WorkspaceKind::Worktree;
        if base.is_none() && !is_worktree {
            let id = &self.id;
            return Err(CommandError::new(
                Kind::Refused,
                format!("what folder {} was before task {id} is not known: it works there itself (--in-place)",
                    self.folder.display()),
            )
            .hint("git diff shows what differs from your last commit")
            .hint("a task in a worktree of its own (the default in a repository) has a base"));
        }
        let content = self.store.base(base.as_ref()).map_err(CommandError::environment)?;
        Ok(Side { content, name: "base".to_owned() })
    }

    /// A checkpoint as a side.
    pub(crate) fn side(&self, wanted: &str) -> Result<Side, CommandError> {
        let point = self.point(wanted)?;
        let content = self.store.content(&point.commit).map_err(CommandError::environment)?;
        Ok(Side { content, name: format!("checkpoint {}", point.number) })
    }

    /// The files as they are in the folder at this moment.
    pub(crate) fn now(&self) -> Result<Side, CommandError> {
        let content = self
            .store
            .look(&self.folder)
            .map_err(|reason| CommandError::new(Kind::Refused, reason))?;
        Ok(Side { content, name: "the workspace".to_owned() })
    }

    /// What the task comes to: what it handed over if it ended by that, else the files as they are.
    pub(crate) fn result(&self) -> Result<Side, CommandError> {
        if let Some(result) = self.data().result() {
            let content = self.store.content(&result.name).map_err(CommandError::environment)?;
            return Ok(Side { content, name: "what was handed over".to_owned() });
        }
        match self.points.last() {
            Some(last) if !self.folder.exists() => self.side(&last.number.to_string()),
            Some(_) | None => self.now(),
        }
    }

    /// What differs, by path.
    pub(crate) fn paths(&self, from: &Side, to: &Side) -> Result<Vec<Path>, CommandError> {
        let (from, to) = (&from.content, &to.content);
        let changes = self.store.compare(from, to).map_err(CommandError::environment)?;
        let lines = self.store.lines(from, to).map_err(CommandError::environment)?;
        Ok(joined(&changes, &lines))
    }
}

/// Paths with their lines, if they are files.
pub(crate) fn joined(changes: &[Change], lines: &[Lines]) -> Vec<Path> {
    let path = |change: &Change| {
        let counted = lines.iter().find(|lines| lines.path == change.path);
        Path {
            path: change.path.to_string_lossy().into_owned(),
            how: change.kind.word(),
            lines: counted.and_then(|lines| lines.count),
            is_file: counted.is_some(),
        }
    };
    changes.iter().map(path).collect()
}

/// Paths as a program reads them.
pub(crate) fn paths_json(paths: &[Path]) -> Vec<serde_json::Value> {
    let row = |path: &Path| {
        serde_json::json!({
            "path": path.path,
            "how": path.how,
            "added": path.lines.map(|(added, _)| added),
            "removed": path.lines.map(|(_, removed)| removed),
            "binary": path.is_file && path.lines.is_none(),
        })
    };
    paths.iter().map(row).collect()
}
