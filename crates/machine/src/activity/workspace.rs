//! The place a task works in: opened once, before the first decision; opening again gives the same.

use crate::effect::Effect;
use crate::event::EventKind;
use crate::state::{Pending, Phase};
use crate::step::Step;
use crate::task::{Outcome, Workspace};

impl Step<'_> {
    pub(crate) fn open_workspace(&mut self) {
        let id = self.expect(Pending::Workspace);
        let spec = &self.state.data.spec;
        self.output.effects.push(Effect::OpenWorkspace {
            id,
            spec: spec.workspace.clone(),
            folder: spec.folder.clone(),
            forked_from: spec.forked_from.clone(),
        });
        self.state.data.phase = Phase::OpeningWorkspace;
    }

    pub(crate) fn on_workspace_opened(&mut self, opened: Result<Workspace, String>) {
        match opened {
            Ok(workspace) => {
                self.state.data.workspace = Some(workspace.clone());
                if let Some(forked) = &self.state.data.spec.forked_from {
                    let base = if forked.here { Some(&forked.at) } else { forked.base.as_ref() };
                    self.state.data.base = base.cloned();
                }
                self.state.data.phase = Phase::Ready;
                self.event(|| EventKind::WorkspaceOpened { workspace });
            }
            Err(reason) => {
                self.finish(Outcome::Failed, format!("the workspace cannot be opened: {reason}"))
            }
        }
    }
}
