//! `drivetrain show`: one task, whole.

use machine::contest::{Contest, Standing, judge};
use machine::id::TaskId;
use machine::task::CriterionResult;
use view::{Line, Tone, spend, tasks, text, transcript, why};

use super::race::referee;
use crate::error::CommandError;
use crate::locate::{self, Records, Task, moment};
use crate::output;

/// Runs the command.
pub(crate) fn run(prefix: &str, json: bool) -> Result<u8, CommandError> {
    let records = Records::open()?;
    let id = records.find(prefix)?;
    let task = records.load(&id)?;
    if json {
        output::json(&task.json());
    } else {
        output::lines(&lines(&task));
    }
    Ok(0)
}

fn lines(task: &Task) -> Vec<Line> {
    let data = task.state.data();
    let row = tasks::Row::from_summary(&task.json(), task.driven_by.is_some());
    let mut lines = vec![Line::new(
        Tone::Strong,
        format!("task {}: {}", data.id, text::visible(&data.spec.goal)),
    )];
    let mut field =
        |name: &str, value: String| lines.push(Line::plain(format!("{name:11}{value}")));
    let driven = task.driven_by.map(|pid| format!(", driven by process {pid}")).unwrap_or_default();
    field("standing", format!("{}{driven}", row.standing));
    field("driver", why::decides(task.state.driver_name(), &task.story, data));
    field("started", moment(data.started));
    field(
        "last news",
        format!("{} ({})", moment(data.clock), tasks::ago(locate::now().since(data.clock).0)),
    );
    field("spent", spend::line(&data.spend, &data.budget));
    field("folder", text::visible(&data.spec.folder));
    if let Some(workspace) = &data.workspace {
        field("workspace", transcript::place(workspace));
    }
    if let Some(integrated) = &data.integrated {
        let commit = text::commit(&integrated.commit);
        field("integrated", format!("in {} as {commit}", text::visible(&integrated.branch)));
    }
    if let Some((branch, commit)) = &task.applied {
        field("applied", format!("to {} as {}", text::visible(branch), text::commit(commit)));
    }
    if let Some(contest) = &data.spec.contest {
        field("race", race_words(contest, &data.id));
    }
    field("sandbox", text::visible(&data.spec.sandbox.said()));
    field("records", data.inputs.to_string());
    if let Some(receipt) = &task.receipt {
        field("receipt", format!("{} (drivetrain receipt {})", receipt.short(), data.id));
    }
    let criteria = data.spec.criteria();
    if !criteria.is_empty() {
        lines.push(Line::plain("criteria"));
    }
    // Two criteria may have one title: each has a result of its own, and those come in the order of the criteria.
    let mut results: Vec<&CriterionResult> = task.story.verdict.iter().collect();
    for criterion in criteria {
        let title = criterion.title();
        let checked = results.iter().position(|result| result.title == title);
        let shown = match checked.map(|place| results.remove(place)) {
            Some(result) => transcript::criterion(result, 0),
            None => vec![Line::plain(format!("not checked: {}", text::visible(&title)))],
        };
        lines
            .extend(shown.into_iter().map(|line| Line::new(line.tone, format!("  {}", line.text))));
    }
    lines.push(Line::new(
        Tone::Faint,
        format!("drivetrain why {} says more about how it stands", data.id),
    ));
    lines
}

/// Its place in its race, and how that stands.
fn race_words(contest: &Contest, id: &TaskId) -> String {
    let place = format!("{} of {}", contest.number(id), contest.racers.len());
    let racers = referee::look(contest).unwrap_or_default();
    let standing = match judge(contest.pick, &racers) {
        Standing::Won { winner, why, .. } if winner == *id => format!("won: {why}"),
        Standing::Won { winner, .. } => {
            let stands = racers.iter().find(|racer| racer.task == *id);
            let words = stands.map(|racer| view::contest::stands(racer, Some(&winner)).1);
            format!("{}; {winner} won", words.unwrap_or_default())
        }
        Standing::Open => "nobody has won yet".to_owned(),
        Standing::Nobody => "nobody won".to_owned(),
    };
    let name = contest.name().map(|name| name.0.as_str()).unwrap_or_default();
    format!("{name}, {place}: {standing} ({})", view::contest::rule(contest.pick))
}
