//! What may be taken away: a rule over what was seen. A worktree goes only if nothing is lost by it, and whoever is told
//! no is told why and what to do.

use crate::task::Outcome;

/// Where the commits of a task's branch are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Branch {
    /// There is no such branch.
    Absent,
    /// Its name only stands for that of another: it stays, and so does that one.
    Alias,
    /// Every commit of it is in another branch too.
    Elsewhere,
    /// So many of its commits are in no other branch: it stays.
    Alone(u64),
}

/// How a task stands whose worktree is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskStanding {
    /// The journal does not know it.
    Unknown,
    /// It may go on.
    Open,
    /// It ended.
    Ended(Outcome),
}

/// Where the files of a worktree are beside the worktree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Files {
    /// There is no folder any more.
    Gone,
    /// They are those that the task began with.
    AsBegun,
    /// What was handed over of them is in a branch of the user's.
    Applied,
    /// They are in a checkpoint, and in no branch.
    Kept,
    /// Some are in no checkpoint.
    Unkept,
}

/// Commits that only a worktree holds: its HEAD is at them, and no branch or tag has them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loose {
    /// How many there are.
    pub count: u64,
    /// The last of them.
    pub commit: String,
}

/// A worktree that git was told to leave alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lock {
    /// Its folder.
    pub place: String,
    /// Why, as somebody said; may be empty.
    pub why: String,
}

/// Why something stays, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stays {
    /// Why.
    pub reason: String,
    /// What to do.
    pub hint: String,
}

/// Whether a worktree may go.
pub fn may_go(
    task: &str,
    standing: TaskStanding,
    files: Files,
    loose: Option<&Loose>,
    lock: Option<&Lock>,
) -> Result<(), Stays> {
    let stays = |reason: &str, hint: String| Err(Stays { reason: reason.to_owned(), hint });
    match (standing, files) {
        (TaskStanding::Open, _) => stays(
            "the task has not ended",
            format!("drivetrain resume {task} goes on with it, drivetrain cancel {task} ends it"),
        ),
        (TaskStanding::Unknown, _) => stays(
            "the journal does not know its task",
            "look at the folder, and remove it by hand if nothing in it is needed".to_owned(),
        ),
        (TaskStanding::Ended(_), Files::Unkept) => stays(
            "files in it are in no checkpoint",
            format!(
                "drivetrain rollback {task} --to N --preview names them; take what you need, then do it without \
                 --preview"
            ),
        ),
        (TaskStanding::Ended(Outcome::Verified), Files::Kept) => stays(
            "what it proved is in no branch of yours",
            format!("drivetrain apply {task} hands it over"),
        ),
        (TaskStanding::Ended(_), Files::Kept) => stays(
            "what it changed is in no branch of yours",
            format!(
                "drivetrain apply {task} --force-unverified --onto NEW-BRANCH keeps it on a branch; \
                 drivetrain rollback {task} --to 1 gives it up"
            ),
        ),
        (TaskStanding::Ended(_), Files::Gone | Files::AsBegun | Files::Applied) => match loose {
            None => Ok(()),
            Some(Loose { count: 1, commit }) => {
                stays("1 commit in it is on no branch", keeps(commit))
            }
            Some(Loose { count, commit }) => {
                stays(&format!("{count} commits in it are on no branch"), keeps(commit))
            }
        },
    }?;
    let Some(Lock { place, why }) = lock else { return Ok(()) };
    let why = if why.is_empty() { String::new() } else { format!(": {why}") };
    stays(
        &format!("it is locked{why}"),
        format!("git worktree unlock {place} in your repository unlocks it"),
    )
}

fn keeps(commit: &str) -> String {
    format!(
        "git branch NAME {commit} in your repository keeps what you need; git switch --detach BRANCH in the worktree \
         gives it up"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worktree_goes_only_if_its_task_ended_and_nothing_is_lost() {
        let ended = [Outcome::Verified, Outcome::Completed, Outcome::Failed, Outcome::Cancelled];
        for outcome in ended {
            let standing = TaskStanding::Ended(outcome);
            for files in [Files::Gone, Files::AsBegun, Files::Applied] {
                assert_eq!(may_go("t", standing, files, None, None), Ok(()));
                let lock = Lock { place: "/w".to_owned(), why: "mine".to_owned() };
                let stays = may_go("t", standing, files, None, Some(&lock)).unwrap_err();
                assert!(stays.reason.ends_with(": mine") && stays.hint.contains("unlock /w"));
                let loose = Loose { count: 2, commit: "c".to_owned() };
                let stays = may_go("t", standing, files, Some(&loose), None).unwrap_err();
                assert!(stays.hint.contains("git branch NAME c"), "{}", stays.hint);
            }
            for files in [Files::Kept, Files::Unkept] {
                assert!(may_go("t", standing, files, None, None).is_err());
            }
        }
        for standing in [TaskStanding::Open, TaskStanding::Unknown] {
            for files in [Files::Gone, Files::AsBegun, Files::Applied, Files::Kept, Files::Unkept] {
                let stays = may_go("t", standing, files, None, None).unwrap_err();
                assert!(!stays.reason.is_empty() && !stays.hint.is_empty());
            }
        }
    }
}
