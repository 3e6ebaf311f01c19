//! The place a task works in: opened once, before the first decision; opening again gives the same.

use crate::effect::Effect;
use crate::event::EventKind;
use crate::state::{Pending, Phase};
use crate::step::Step;
use crate::task::{Criterion, ForkedFrom, Outcome, Workspace, WorkspaceKind};

impl Step<'_> {
    pub(crate) fn open_workspace(&mut self) {
        let dispatch = self.state.data.spec.dispatch.as_ref();
        if let Some(within) = dispatch.and_then(|dispatch| dispatch.within.clone()) {
            // Its parent has opened it, made it ready and waits.
            return self.on_workspace_opened(Ok(within));
        }
        let forked_from = self.state.data.spec.forked_from.clone();
        self.ask_for_workspace(forked_from);
        self.state.data.phase = Phase::OpeningWorkspace;
    }

    /// Has the setup commands run again in a workspace that was put back. It has its files, whatever became of those that it
    /// was forked from. Nothing else begins meanwhile.
    pub(crate) fn make_ready(&mut self) {
        self.ask_for_workspace(None);
    }

    /// Whether the setup commands of a workspace that was put back are running.
    pub(crate) fn is_made_ready(&self) -> bool {
        let data = &self.state.data;
        data.unready && data.pending.values().any(|pending| *pending == Pending::Workspace)
    }

    fn ask_for_workspace(&mut self, forked_from: Option<ForkedFrom>) {
        let id = self.expect(Pending::Workspace);
        let spec = &self.state.data.spec;
        self.output.effects.push(Effect::OpenWorkspace {
            id,
            spec: spec.workspace.clone(),
            folder: spec.folder.clone(),
            sandbox: spec.sandbox.clone(),
            forked_from,
        });
    }

    pub(crate) fn on_workspace_opened(&mut self, opened: Result<Workspace, String>) {
        if self.state.data.workspace.is_some() {
            return self.on_made_ready(opened.map(drop));
        }
        match opened {
            Ok(workspace) => {
                let is_worktree = workspace.kind == WorkspaceKind::Worktree;
                self.state.data.workspace = Some(workspace.clone());
                if let Some(forked) = &self.state.data.spec.forked_from {
                    let base = if forked.here { Some(&forked.at) } else { forked.base.as_ref() };
                    self.state.data.base = base.cloned();
                }
                self.state.data.phase = Phase::Ready;
                self.event(|| EventKind::WorkspaceOpened { workspace });
                if !is_worktree && self.needs_base() {
                    let reason = "red_first compares with the files before the task began, and only a task in a \
                                  worktree has them kept; start it in a git repository with a commit, without \
                                  --in-place, or leave red_first out";
                    self.finish(Outcome::Failed, reason.to_owned());
                }
            }
            Err(reason) => {
                self.finish(Outcome::Failed, format!("the workspace cannot be opened: {reason}"))
            }
        }
    }

    /// The files and the base are what they were: what counts is whether the setup commands passed. If not, they are tried
    /// again by whoever resumes.
    fn on_made_ready(&mut self, ready: Result<(), String>) {
        match ready {
            Ok(()) => {
                self.state.data.unready = false;
                self.renew_timers();
                self.state.data.to_renew = true;
            }
            Err(reason) => {
                let reason = format!("the workspace was put back and is not ready ({reason})");
                self.have_looked_at(reason);
            }
        }
    }

    /// Whether a criterion cannot be checked without the files before the task began.
    fn needs_base(&self) -> bool {
        let compares =
            |criterion: &Criterion| matches!(criterion, Criterion::Shell { red_first: true, .. });
        self.state.data.spec.acceptance.iter().any(compares)
    }
}
