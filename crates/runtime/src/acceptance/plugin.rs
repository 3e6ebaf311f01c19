//! Criteria that a plugin answers: a process of its own for each, which sees the files that were handed over and can
//! change nothing. Anything but a plain answer is a failure.

use machine::acceptance::plugin;
use machine::driver::external::PluginSpec;
use machine::policy::sandbox::Needs;
use machine::task::{CriterionResult, Workspace, WorkspaceKind};
use serde::Deserialize;
use serde_json::{Value, json};

use super::difference::touched;
use super::touched::result;
use super::{Ground, Tree, Trouble};
use crate::plugin::{Plugins, Walls};

pub(super) fn check(
    ground: &mut Ground<'_>,
    spec: &Value,
    config: &Value,
) -> Result<CriterionResult, Trouble> {
    ground.compared.clone().map_err(Trouble::Failed)?;
    let mut spec = PluginSpec::deserialize(spec).map_err(|error| {
        Trouble::Failed(format!("the plugin's configuration does not fit: {error}"))
    })?;
    // A plugin that may write where it decides what is done looks only, where it says whether that is good.
    spec.needs = Needs { writes_workspace: None, ..spec.needs };
    let folder = ground.files(Tree::HandedOver)?;
    let claim = ground.context.claim;
    let asked = plugin::Asked {
        goal: claim.goal,
        config,
        folder: &folder.to_string_lossy(),
        touched: &touched(&ground.difference.changes),
        total: ground.difference.changes.len() as u64,
        lines: ground.difference.lines,
    };
    let request = json!({ "method": plugin::METHOD, "params": asked.params(), "path": [] });
    let whole = json!({ "plugin": spec, "config": config });
    let workspace = Workspace {
        kind: WorkspaceKind::InPlace,
        path: Some(folder.to_string_lossy().into_owned()),
        branch: None,
        base: None,
    };
    let services = ground.context.services;
    let plugins = match &services.state {
        Some(state) => Plugins::new(services.mark_dir.clone()).hiding(state),
        None => Plugins::new(services.mark_dir.clone()),
    };
    let walls = Walls { spec: claim.sandbox, workspace: &workspace };
    let answer = plugins.consult(claim.task, &whole, &request, walls, ground.context.cancel);
    plugins.close(claim.task);
    Ok(result(plugin::read(answer)))
}
