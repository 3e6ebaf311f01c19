//! `--for project`: a rule for what was approved, in the project's policy. Shown, then written.

use journal::Journal;
use machine::id::{CallId, TaskId};
use machine::state::State;
use machine::{Command, policy::grant::Scope};
use runtime::policy_file::{Addition, Approved};
use view::{Line, Tone};

use crate::locate::moment;
use crate::locate::{self, Records};

/// A rule that is ready to be written for a task's project.
pub(crate) struct ProjectRule {
    addition: Addition,
    folder: std::path::PathBuf,
}

impl ProjectRule {
    /// Makes the rule for an open call of a task. Nothing is written.
    pub(crate) fn prepare(
        state: &State,
        call: CallId,
        like: Option<&str>,
    ) -> Result<ProjectRule, String> {
        let data = state.data();
        let open = data.calls.iter().find(|open| open.id == call);
        let open = open.ok_or_else(|| format!("no call {call} is open"))?;
        let folder = std::path::PathBuf::from(&data.spec.folder);
        let today = moment(locate::now());
        let today = today.split(' ').next().unwrap_or_default();
        let comment = format!("approved at {call} of task {} on {today}", data.id);
        let approved = Approved {
            folder: &folder,
            tool: &open.action.tool,
            input: &open.action.input,
            class: open.class,
            driver: state.driver_name(),
            like,
        };
        let addition = Addition::prepare(&approved, &comment)?;
        Ok(ProjectRule { addition, folder })
    }

    /// The rule that a command asks for, if it asks for one; looked up in the journal.
    pub(crate) fn of_command(
        task: &TaskId,
        command: &Command,
    ) -> Result<Option<ProjectRule>, String> {
        let Command::Approve { call, scope: Scope::Project, like, .. } = command else {
            return Ok(None);
        };
        let records = Records::open().map_err(|error| error.text())?;
        let row = records.journal.task(task.as_str()).map_err(|error| error.to_string())?;
        let found = records.glance(&row).map_err(|error| error.text())?;
        ProjectRule::prepare(&found.state, *call, like.as_deref()).map(Some)
    }

    /// Writes it; the lines say where and what.
    pub(crate) fn write(&self) -> Result<Vec<Line>, String> {
        let home = locate::home().map_err(|error| error.text())?;
        self.addition.write(&home, &self.folder, locate::now())?;
        let path = view::text::visible(&self.path());
        let mut lines = vec![Line::new(Tone::Good, format!("added to {path}:"))];
        let rule = view::text::lines(&self.addition.rule);
        lines.extend(rule.into_iter().map(|line| Line::plain(format!("  {line}"))));
        Ok(lines)
    }

    /// The file.
    pub(crate) fn path(&self) -> String {
        self.addition.path.display().to_string()
    }

    /// The rule, as it stands in the file.
    pub(crate) fn rule(&self) -> &str {
        &self.addition.rule
    }
}
