//! `drivetrain worktrees`: what there is of worktrees and checkpoints, and taking away what nobody needs any more.

use std::path::Path;

use journal::{Journal, TaskRow};
use machine::id::TaskId;
use machine::state::{Data, Standing};
use machine::task::Outcome;
use machine::time::Span;
use machine::upkeep::{Branch, Files, Lock, Loose, TaskStanding, may_go};
use runtime::checkpoint::Store;
use runtime::process::Cancel;
use runtime::workspace::upkeep::{self, Worktree};
use serde_json::{Value, json};
use view::worktrees::{Row, bytes, table};
use view::{Line, Tone, text};

use crate::args::{CleanArgs, WorktreesCmd};
use crate::error::{CommandError, Kind};
use crate::locate::{self, Records, Task};
use crate::{output, screen};

/// Runs the command.
pub(crate) fn run(command: Option<&WorktreesCmd>, json: bool) -> Result<u8, CommandError> {
    match command {
        None | Some(WorktreesCmd::List) => list(json),
        Some(WorktreesCmd::Clean(args)) if args.checkpoints => clean_checkpoints(args, json),
        Some(WorktreesCmd::Clean(args)) => clean(args, json),
    }
}

/// A worktree with everything that decides about it.
struct Seen {
    worktree: Worktree,
    row: Option<TaskRow>,
    task: Option<Task>,
    files: Files,
    branch: Branch,
    loose: Option<Loose>,
    lock: Option<Lock>,
    /// What could not be looked at.
    trouble: Option<String>,
}

impl Seen {
    fn look(records: &Records, worktree: Worktree) -> Seen {
        let root = records.home.root();
        let id = TaskId(worktree.task.clone());
        let row = records.journal.task(id.as_str()).ok();
        let task = row.as_ref().and_then(|row| records.glance(row).ok());
        let (mut trouble, mut branch) = (None, Branch::Alone(0));
        match upkeep::branch(&worktree.task, root) {
            Ok(found) => branch = found,
            Err(reason) => trouble = Some(reason),
        }
        let loose = upkeep::loose(&worktree, root).unwrap_or_else(|reason| {
            trouble = Some(reason);
            None
        });
        let lock = upkeep::lock(&worktree, root).unwrap_or_else(|reason| {
            trouble = Some(reason);
            None
        });
        let files = match files(records, &worktree, task.as_ref()) {
            Ok(files) => files,
            Err(reason) => {
                trouble = Some(reason);
                Files::Unkept
            }
        };
        Seen { worktree, row, task, files, branch, loose, lock, trouble }
    }

    /// Whether nobody has taken the task up, or told it anything, since it was looked at.
    fn is_as_seen(&self, records: &Records) -> bool {
        records.journal.task(&self.worktree.task).ok() == self.row
    }

    fn standing(&self) -> TaskStanding {
        match self.task.as_ref().map(|task| task.state.standing()) {
            None => TaskStanding::Unknown,
            Some(Standing::Finished { outcome, .. }) => TaskStanding::Ended(outcome),
            Some(_) => TaskStanding::Open,
        }
    }

    fn word(&self) -> String {
        match self.standing() {
            TaskStanding::Unknown => "unknown".to_owned(),
            TaskStanding::Open => "open".to_owned(),
            TaskStanding::Ended(Outcome::BudgetExhausted) => "out of budget".to_owned(),
            TaskStanding::Ended(outcome) => outcome.word().to_owned(),
        }
    }

    /// Whether it can go; why not, and what to do.
    fn goes(&self) -> Result<(), (String, String)> {
        if let Some(reason) = &self.trouble {
            let hint = if reason.contains("No space left on device") {
                "make a little room elsewhere first: its files have to be compared with its checkpoints"
            } else {
                "mend that, or remove the folder by hand if nothing in it is needed"
            };
            return Err((reason.clone(), hint.to_owned()));
        }
        let (loose, lock) = (self.loose.as_ref(), self.lock.as_ref());
        may_go(&self.worktree.task, self.standing(), self.files, loose, lock)
            .map_err(|stays| (stays.reason, stays.hint))
    }

    fn ahead(&self) -> u64 {
        match self.branch {
            Branch::Alone(count) => count,
            Branch::Absent | Branch::Alias | Branch::Elsewhere => 0,
        }
    }

    fn json(&self, records: &Records) -> Value {
        let goes = self.goes();
        json!({
            "task": self.worktree.task,
            "goal": self.task.as_ref().map(|task| task.state.data().spec.goal.clone()),
            "state": self.word(),
            "path": self.worktree.path,
            "repository": self.worktree.repository,
            "present": self.worktree.present,
            "bytes": upkeep::size(&self.worktree.path),
            "checkpoint_bytes": upkeep::size(&upkeep::store(&self.worktree.task, records.home.root())),
            "files": files_word(self.files),
            "commits_only_here": self.ahead(),
            "removable": goes.is_ok(),
            "reason": goes.as_ref().err().map(|(reason, _)| reason),
            "hint": goes.as_ref().err().map(|(_, hint)| hint),
        })
    }
}

fn files_word(files: Files) -> &'static str {
    match files {
        Files::Gone => "gone",
        Files::AsBegun => "as begun",
        Files::Applied => "applied",
        Files::Kept => "unmerged",
        Files::Unkept => "dirty",
    }
}

/// Where the files of a worktree are beside it.
fn files(records: &Records, worktree: &Worktree, task: Option<&Task>) -> Result<Files, String> {
    if !worktree.present {
        return Ok(Files::Gone);
    }
    let (root, cancel) = (records.home.root(), Cancel::new());
    let (now, kept) = upkeep::kept(worktree, root, &cancel)?;
    let Some(task) = task else { return Ok(Files::Unkept) };
    let data = task.state.data();
    let mut store = Store::open(&worktree.task, root, &cancel)?;
    if store.base(data.whole_base()).is_ok_and(|begun| begun.tree() == now.tree()) {
        return Ok(Files::AsBegun);
    }
    if !kept {
        return Ok(Files::Unkept);
    }
    let is_now = |checkpoint: String| store.tree(&checkpoint).is_ok_and(|tree| tree == now.tree());
    let applied = || upkeep::applied(&worktree.task, root).is_some_and(is_now);
    let integrated = || {
        let here = data.integrated.as_ref().zip(data.result());
        here.is_some_and(|(integrated, result)| {
            result.tree == now.tree() && upkeep::holds(&worktree.task, root, &integrated.commit)
        })
    };
    Ok(if applied() || integrated() { Files::Applied } else { Files::Kept })
}

fn list(json: bool) -> Result<u8, CommandError> {
    let records = Records::open()?;
    let worktrees = upkeep::list(records.home.root()).map_err(CommandError::environment)?;
    let seen: Vec<Seen> =
        worktrees.into_iter().map(|worktree| Seen::look(&records, worktree)).collect();
    if json {
        let rows: Vec<Value> = seen.iter().map(|seen| seen.json(&records)).collect();
        output::json(&json!({ "v": 1, "worktrees": rows }));
        return Ok(0);
    }
    if seen.is_empty() {
        output::lines(&[Line::plain("no worktrees")]);
        return Ok(0);
    }
    let rows: Vec<Row> = seen
        .iter()
        .map(|seen| Row {
            task: seen.worktree.task.clone(),
            standing: seen.word(),
            size: seen.worktree.present.then(|| upkeep::size(&seen.worktree.path)),
            checkpoints: upkeep::size(&upkeep::store(&seen.worktree.task, records.home.root())),
            goes: seen.goes().map_err(|(reason, hint)| format!("{reason}; {hint}")),
            ahead: seen.ahead(),
            goal: seen
                .task
                .as_ref()
                .map_or_else(String::new, |task| task.state.data().spec.goal.clone()),
        })
        .collect();
    output::lines(&table(&rows, screen::columns()));
    Ok(0)
}

/// The worktrees that were named, or all that are old enough.
fn chosen(records: &Records, args: &CleanArgs) -> Result<Vec<Worktree>, CommandError> {
    let root = records.home.root();
    if args.ids.is_empty() {
        return upkeep::list(root).map_err(CommandError::environment);
    }
    let mut found = Vec::new();
    for prefix in &args.ids {
        let id = records.find(prefix)?;
        let worktree = upkeep::worktree(id.as_str(), root).map_err(CommandError::environment)?;
        found.push(worktree.ok_or_else(|| {
            CommandError::new(Kind::Refused, format!("task {id} has no worktree"))
                .hint("drivetrain worktrees lists those that there are")
        })?);
    }
    Ok(found)
}

fn is_young(task: Option<&Task>, older_than: Option<Span>) -> bool {
    let Some(age) = older_than else { return false };
    let updated = task.map(|task| task.state.data().clock);
    updated.is_some_and(|updated| locate::now().since(updated) < age)
}

fn clean(args: &CleanArgs, json: bool) -> Result<u8, CommandError> {
    let records = Records::open()?;
    let root = records.home.root().to_owned();
    let (mut removed, mut stayed, mut lines) = (Vec::new(), Vec::new(), Vec::new());
    for worktree in chosen(&records, args)? {
        let seen = Seen::look(&records, worktree);
        if is_young(seen.task.as_ref(), args.older_than) {
            continue;
        }
        let task = seen.worktree.task.clone();
        let size = upkeep::size(&seen.worktree.path);
        let goes = seen.goes().and_then(|()| match args.dry_run {
            true => Ok(()),
            false => upkeep::remove(&task, &root, seen.branch, || seen.is_as_seen(&records))
                .map_err(|reason| {
                    (reason, format!("drivetrain worktrees clean {task} tries again"))
                }),
        });
        match goes {
            Ok(()) => {
                let will = if args.dry_run { "would be taken away" } else { "taken away" };
                let branch = match seen.branch {
                    Branch::Alias => format!(
                        "; its branch stays: it is only another name (git symbolic-ref refs/heads/drivetrain/{task} \
                         says of which, with --delete it goes)"
                    ),
                    Branch::Alone(1) => "; its branch stays: 1 commit is nowhere else".to_owned(),
                    Branch::Alone(count) => {
                        format!("; its branch stays: {count} commits are nowhere else")
                    }
                    Branch::Absent | Branch::Elsewhere => String::new(),
                };
                lines.push(Line::new(
                    Tone::Good,
                    format!("{task}  {will} ({}){branch}", bytes(size)),
                ));
                let branch_kept = matches!(seen.branch, Branch::Alone(_) | Branch::Alias);
                removed.push(json!({ "task": task, "bytes": size, "branch_kept": branch_kept }));
            }
            Err((reason, hint)) => {
                lines.push(Line::plain(format!("{task}  stays: {}", text::visible(&reason))));
                lines.push(Line::new(Tone::Faint, format!("    {}", text::visible(&hint))));
                stayed.push(json!({ "task": task, "reason": reason, "hint": hint }));
            }
        }
    }
    let refused = !args.ids.is_empty() && !stayed.is_empty();
    if json {
        output::json(&json!({
            "v": 1, "dry_run": args.dry_run, "removed": removed, "stayed": stayed,
        }));
    } else if lines.is_empty() {
        output::lines(&[Line::plain("nothing to take away")]);
    } else {
        output::lines(&lines);
    }
    // Whoever named one wants to know that it is still there.
    Ok(if refused { 2 } else { 0 })
}

/// Whether what a task came to, or was last kept of it, is in a branch of the user's or what the task began with.
fn is_elsewhere(id: &TaskId, data: &Data, root: &Path) -> Result<bool, String> {
    if !upkeep::store(id.as_str(), root).exists() {
        return Ok(true);
    }
    let cancel = Cancel::new();
    let store = Store::open(id.as_str(), root, &cancel)?;
    let tree = match (data.result(), store.points()?.last()) {
        (Some(result), _) => result.tree.clone(),
        (None, Some(last)) => store.tree(&last.commit)?,
        (None, None) => return Ok(true),
    };
    let is_it = |checkpoint: String| store.tree(&checkpoint).is_ok_and(|it| it == tree);
    Ok(data.base.as_ref().is_some_and(|base| base.tree == tree)
        || upkeep::applied(id.as_str(), root).is_some_and(is_it))
}

fn clean_checkpoints(args: &CleanArgs, json: bool) -> Result<u8, CommandError> {
    if args.ids.is_empty() {
        return Err(CommandError::usage("--checkpoints needs the tasks by name")
            .hint("drivetrain worktrees clean ID --checkpoints"));
    }
    let records = Records::open()?;
    let root = records.home.root().to_owned();
    // All of them are looked at before the first goes.
    let mut removed = Vec::new();
    for prefix in &args.ids {
        let id = records.find(prefix)?;
        let row = records.journal.task(id.as_str())?;
        let task = records.glance(&row)?;
        if is_young(Some(&task), args.older_than) {
            continue;
        }
        checkpoints_may_go(&records, &id, &task)?;
        let size = upkeep::size(&upkeep::store(id.as_str(), &root));
        removed.push((id, size));
    }
    if !args.dry_run {
        for (id, _) in &removed {
            upkeep::remove_store(id.as_str(), &root).map_err(CommandError::environment)?;
        }
    }
    if json {
        let removed: Vec<Value> =
            removed.iter().map(|(id, size)| json!({ "task": id, "bytes": size })).collect();
        output::json(&json!({ "v": 1, "dry_run": args.dry_run, "removed_checkpoints": removed }));
        return Ok(0);
    }
    if removed.is_empty() {
        output::lines(&[Line::plain("nothing to take away")]);
        return Ok(0);
    }
    let will = if args.dry_run { "would be taken away" } else { "taken away" };
    let line = |(id, size): &(TaskId, u64)| {
        Line::new(Tone::Good, format!("{id}  checkpoints {will} ({})", bytes(*size)))
    };
    output::lines(&removed.iter().map(line).collect::<Vec<Line>>());
    output::lines(&[Line::new(
        Tone::Faint,
        "its receipt can still be read, but no longer be run again",
    )]);
    Ok(0)
}

/// Whether nothing is lost with the checkpoints of a task; the error says what would be.
fn checkpoints_may_go(records: &Records, id: &TaskId, task: &Task) -> Result<(), CommandError> {
    let root = records.home.root();
    let refused = |reason: &str| {
        CommandError::new(Kind::Refused, format!("the checkpoints of task {id} stay: {reason}"))
    };
    let Standing::Finished { outcome, .. } = task.state.standing() else {
        return Err(refused("it has not ended"));
    };
    let worktree = upkeep::worktree(id.as_str(), root).map_err(CommandError::environment)?;
    if worktree.is_some() {
        return Err(refused("its worktree is still there")
            .hint(format!("drivetrain worktrees clean {id} takes that away first")));
    }
    if !is_elsewhere(id, task.state.data(), root).map_err(CommandError::environment)? {
        let force = if outcome == Outcome::Verified { "" } else { " --force-unverified" };
        return Err(refused("what they hold is in no branch of yours")
            .hint(format!("drivetrain apply {id}{force} --onto NEW-BRANCH keeps it")));
    }
    Ok(())
}
