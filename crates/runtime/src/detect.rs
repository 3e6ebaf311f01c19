//! The top of a project as a task will begin with it, for `--check auto`: of a worktree that is the last commit, whatever
//! lies in the folder uncommitted.

use std::ffi::OsString;
use std::fs;
use std::io::Read;
use std::path::Path;

use machine::acceptance::detect::{Project, READ};
use machine::task::WorkspaceKind;

use crate::workspace::Repository;

/// Larger manifests are not looked into.
const MAX_TEXT: usize = 1024 * 1024;

/// What is at the top of the folder that the task is started in.
pub fn project(folder: &Path, kind: Option<WorkspaceKind>) -> Result<Project, String> {
    let repository = match kind {
        Some(WorkspaceKind::InPlace | WorkspaceKind::None) => None,
        Some(WorkspaceKind::Worktree) => Some(Repository::find(folder)?),
        None => Repository::find(folder).ok(),
    };
    match repository {
        Some(repository) => of_commit(&repository),
        None => of_folder(folder),
    }
}

fn of_commit(repository: &Repository) -> Result<Project, String> {
    let top = format!("{}:{}", repository.head, repository.prefix.trim_end_matches('/'));
    let listed = repository.git(["ls-tree", "-z", &top].map(OsString::from))?;
    let mut project = Project::default();
    for entry in listed.split('\0').filter(|entry| !entry.is_empty()) {
        let Some((about, name)) = entry.split_once('\t') else { continue };
        let mut words = about.split(' ');
        let (mode, hash) = (words.next(), words.nth(1));
        if READ.contains(&name)
            && let (Some("100644" | "100755"), Some(hash)) = (mode, hash)
        {
            let text = repository.git(["cat-file", "blob", hash].map(OsString::from))?;
            if text.len() <= MAX_TEXT {
                project.texts.insert(name.to_owned(), text);
            }
        }
        project.names.insert(name.to_owned());
    }
    Ok(project)
}

fn of_folder(folder: &Path) -> Result<Project, String> {
    let wrong = |error: std::io::Error| format!("{}: {error}", folder.display());
    let mut project = Project::default();
    for entry in fs::read_dir(folder).map_err(wrong)? {
        let entry = entry.map_err(wrong)?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
        if is_file && READ.contains(&name.as_str()) {
            let mut bytes = Vec::new();
            let limit = MAX_TEXT as u64 + 1;
            let file = fs::File::open(entry.path()).map_err(wrong)?;
            file.take(limit).read_to_end(&mut bytes).map_err(wrong)?;
            if bytes.len() <= MAX_TEXT {
                let text = String::from_utf8_lossy(&bytes).into_owned();
                project.texts.insert(name.clone(), text);
            }
        }
        project.names.insert(name);
    }
    Ok(project)
}
