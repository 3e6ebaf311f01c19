//! The queue as a person sees it: what waits, what is being done, and what became of the others.

use machine::queue::{Entry, Stage};
use machine::time::Timestamp;

use crate::approvals::{Next, next_lines};
use crate::{Line, Tone, tasks, text};

/// The longest first line of a message.
const SUBJECT: usize = 72;

/// The entries as a table; `goals` in the same order.
pub fn table(entries: &[Entry], goals: &[String], now: Timestamp, width: usize) -> Vec<Line> {
    let mut place = 0;
    let mut rows = Vec::new();
    for (entry, goal) in entries.iter().zip(goals) {
        let number = if entry.stage.is_open() {
            place += 1;
            place.to_string()
        } else {
            String::new()
        };
        let cells = [
            number,
            text::visible(entry.task.as_str()),
            entry.stage.word().to_owned(),
            text::visible(&entry.lane.branch),
            tasks::ago(now.since(since(entry)).0),
        ];
        rows.push((tone(&entry.stage), cells, goal));
    }
    let head = ["#", "ID", "STAGE", "BRANCH", "SINCE"];
    let widths: Vec<usize> = head
        .iter()
        .enumerate()
        .map(|(i, title)| {
            let cells = rows.iter().map(|(_, cells, _)| cells[i].chars().count());
            cells.chain([title.len()]).max().unwrap_or(0)
        })
        .collect();
    let line = |cells: &[String], goal: &str| {
        let mut line = String::new();
        for (cell, width) in cells.iter().zip(&widths) {
            line.push_str(&format!("{cell:width$}  "));
        }
        let left = width.saturating_sub(line.chars().count()).max(16);
        line + &text::short(goal, left)
    };
    let mut lines = vec![Line::new(Tone::Faint, line(&head.map(str::to_owned), "GOAL"))];
    lines.extend(rows.iter().map(|(tone, cells, goal)| Line::new(*tone, line(cells, goal))));
    lines
}

fn since(entry: &Entry) -> Timestamp {
    match &entry.stage {
        Stage::Waiting | Stage::Integrating => entry.added,
        Stage::Integrated { at, .. }
        | Stage::Reopened { at, .. }
        | Stage::Refused { at, .. }
        | Stage::Dropped { at } => *at,
    }
}

fn tone(stage: &Stage) -> Tone {
    match stage {
        Stage::Waiting | Stage::Dropped { .. } => Tone::Plain,
        Stage::Integrating => Tone::Strong,
        Stage::Integrated { .. } => Tone::Good,
        Stage::Reopened { .. } | Stage::Refused { .. } => Tone::Bad,
    }
}

/// How one entry stands, and what to type next.
pub fn entry(entry: &Entry, goal: &str) -> Vec<Line> {
    let (id, branch) = (&entry.task, text::visible(&entry.lane.branch));
    let mut lines = vec![Line::new(Tone::Strong, format!("task {id}: {}", text::visible(goal)))];
    let said = match &entry.stage {
        Stage::Waiting => format!("waits to be put into {branch}"),
        Stage::Integrating => format!("is being put into {branch}"),
        Stage::Integrated { commit, .. } => format!("is in {branch}, as {}", text::commit(commit)),
        Stage::Reopened { reason, .. } => format!("was reopened: {}", text::visible(reason)),
        Stage::Refused { reason, .. } => {
            format!("cannot be put into {branch}: {}", text::visible(reason))
        }
        Stage::Dropped { .. } => "was taken out of the queue".to_owned(),
    };
    lines.push(Line::new(tone(&entry.stage), said));
    lines.push(Line::plain(format!("repository  {}", text::visible(&entry.lane.repository))));
    let next = match &entry.stage {
        Stage::Waiting | Stage::Integrating => {
            vec![Next::new("drivetrain queue run", "integrate what waits")]
        }
        Stage::Reopened { .. } => vec![
            Next::new(format!("drivetrain resume {id}"), "go on with the failure"),
            Next::new(format!("drivetrain queue add {id}"), "then try again"),
        ],
        Stage::Refused { .. } => vec![Next::new(format!("drivetrain why {id}"), "how it stands")],
        Stage::Integrated { .. } | Stage::Dropped { .. } => Vec::new(),
    };
    if !next.is_empty() {
        lines.push(Line::new(Tone::Strong, "next"));
        lines.extend(next_lines(&next));
    }
    lines
}

/// The message of the commit that brings a task's change.
pub fn message(goal: &str, task: &str, tree: &str) -> String {
    let mut lines = goal.trim().lines().map(text::visible);
    let first = lines.next().unwrap_or_default();
    let subject = text::short(&first, SUBJECT);
    let mut body: Vec<String> = lines.collect();
    if subject != first {
        body.insert(0, first);
    }
    let body = body.join("\n");
    let body = if body.trim().is_empty() { String::new() } else { format!("{}\n\n", body.trim()) };
    format!("{subject}\n\n{body}Drivetrain-Task: {task}\nDrivetrain-Tree: {tree}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine::id::TaskId;
    use machine::queue::Lane;

    #[test]
    fn a_list_shows_the_order_of_what_waits_and_what_became_of_the_rest() {
        let lane = Lane { repository: "/r".to_owned(), branch: "main".to_owned() };
        let one = |name: &str, stage| Entry {
            task: TaskId(name.to_owned()),
            lane: lane.clone(),
            added: Timestamp(1000),
            stage,
        };
        let reopened = Stage::Reopened { reason: "r".to_owned(), at: Timestamp(2000) };
        let entries =
            [one("a1", reopened), one("b2", Stage::Integrating), one("c3", Stage::Waiting)];
        let goals = ["first", "second", "third\nline"].map(str::to_owned);
        insta::assert_snapshot!(crate::join(&table(&entries, &goals, Timestamp(2000), 60)), @r"
        #  ID  STAGE        BRANCH  SINCE     GOAL
           a1  reopened     main    just now  first
        1  b2  integrating  main    1.0s ago  second
        2  c3  waiting      main    1.0s ago  third\nline
        ");
    }

    #[test]
    fn a_message_has_one_short_line_first_and_says_what_it_is_by() {
        assert_eq!(
            message("mend it\n\nplease", "a1", "t"),
            "mend it\n\nplease\n\nDrivetrain-Task: a1\nDrivetrain-Tree: t\n"
        );
        let long = "word ".repeat(40);
        let said = message(&long, "a1", "t");
        assert!(said.lines().next().unwrap().chars().count() <= SUBJECT);
        assert!(said.contains(long.trim()));
    }
}
