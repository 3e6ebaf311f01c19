//! Which checkout of the user's repository something is handed over to, where there are several.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::workspace::{Origin, Repository};

use super::{ApplyError, Wish, refused};

/// The checkout: the one that the task was begun in, unless the branch that is named is checked out where the user is, or
/// wherever it is, if its files are to follow. Nobody who is in another checkout is taken to mean the first.
pub(super) fn chosen(
    origin: &Origin,
    wish: &Wish<'_>,
    state_home: &Path,
) -> Result<Repository, ApplyError> {
    let found = Repository::find(&origin.repository).map_err(|reason| {
        refused(
            format!("the repository {} cannot be used: {reason}", origin.repository.display()),
            &["put the repository back where it was, or take the changes with --patch FILE"],
        )
    })?;
    let here = wish.here.and_then(|folder| another(folder, &found, state_home));
    let Some(onto) = wish.onto else {
        let begun_in = origin.begun_in.display();
        if origin.repository != origin.begun_in {
            return Err(refused(
                format!(
                    "the worktree {begun_in} that the task was begun in is gone, so no branch is checked out there"
                ),
                &[&format!(
                    "--onto BRANCH makes the commit on a branch of its repository, which {} is of too",
                    found.top.display()
                )],
            ));
        }
        return match here {
            None => Ok(found),
            Some(here) => Err(refused(
                format!(
                    "the task was begun in {begun_in}, and you are in {}, another worktree of its repository",
                    here.top.display()
                ),
                &[
                    &format!("cd {begun_in} hands it over there"),
                    "--onto BRANCH says which branch is meant, such as the one that is checked out here",
                ],
            )),
        };
    };
    // What a worker has checked out in its worktree is nobody's checkout.
    match checked_out(&found, onto).filter(|place| !is_own(place, state_home)) {
        Some(place) if wish.follow || here.is_some_and(|here| here.top == place) => {
            Ok(Repository::find(&place)?)
        }
        Some(_) | None => Ok(found),
    }
}

/// The user's own worktree that a folder is in, if it is another one of the same repository.
fn another(folder: &Path, found: &Repository, state_home: &Path) -> Option<Repository> {
    let here = Repository::find(folder).ok().filter(|here| here.top != found.top)?;
    let is_users = !is_own(&here.top, state_home);
    (is_users && here.common().ok()? == found.common().ok()?).then_some(here)
}

/// Whether a worktree is one of drivetrain's.
fn is_own(place: &Path, state_home: &Path) -> bool {
    let own = state_home.canonicalize().unwrap_or_else(|_| state_home.to_owned());
    place.starts_with(own)
}

/// Where a branch of the repository is checked out.
pub(super) fn checked_out(repository: &Repository, branch: &str) -> Option<PathBuf> {
    let words = ["worktree", "list", "--porcelain", "-z"].map(OsString::from);
    let listed = repository.output(words).ok()?.out;
    let wanted = format!("branch refs/heads/{branch}").into_bytes();
    let mut place = None;
    for line in listed.split(|byte| *byte == 0) {
        if let Some(folder) = line.strip_prefix(b"worktree ") {
            place = Some(PathBuf::from(OsStr::from_bytes(folder)));
        }
        if line == wanted {
            return place;
        }
    }
    None
}

/// What is under way in some worktree of the repository that sets a branch to where it was, or elsewhere, when it ends or is
/// given up. The branch is checked out nowhere meanwhile, and git itself does not let anybody move it.
pub(super) fn held_by(repository: &Repository, branch: &str) -> Option<&'static str> {
    let common = repository.common().ok()?;
    let linked = fs::read_dir(common.join("worktrees")).into_iter().flatten().flatten();
    let mut places = linked.map(|entry| entry.path()).chain([common.clone()]);
    let name = format!("refs/heads/{branch}");
    let says = |file: PathBuf, wanted: &str| {
        fs::read_to_string(file).is_ok_and(|text| text.lines().any(|line| line == wanted))
    };
    places.find_map(|place| {
        let rebased =
            ["rebase-merge/head-name", "rebase-merge/update-refs", "rebase-apply/head-name"];
        if rebased.iter().any(|file| says(place.join(file), &name)) {
            return Some("a rebase");
        }
        says(place.join("BISECT_START"), branch).then_some("a bisection")
    })
}
