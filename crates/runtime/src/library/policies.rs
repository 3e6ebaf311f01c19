//! The policy of a folder: rules add up over all files, the user's own first.

use std::path::{Path, PathBuf};

use machine::file::policy::Combined;
use machine::file::{self, SourceError};
use machine::policy::permission::Policy;
use machine::policy::sandbox::Wishes;

use super::{Library, LibraryError, project_places};

impl Library {
    /// The policy: the user's own rules, then the project's, then a profile. Every example in it comes out as it
    /// says.
    pub fn policy(&self) -> Result<Policy, LibraryError> {
        let combined = self.policies()?;
        let checked = file::policy::check(&combined.policy, &combined.examples);
        let wrong: Vec<SourceError> = checked.into_iter().filter_map(|one| one.error).collect();
        if wrong.is_empty() { Ok(combined.policy) } else { Err(LibraryError::Source(wrong)) }
    }

    /// All policy files as one, with their examples, which are not tried here.
    pub fn policies(&self) -> Result<Combined, LibraryError> {
        let home = std::env::var_os("HOME").and_then(|home| home.into_string().ok());
        let home = home.filter(|home| home.starts_with('/') && home.len() > 1);
        let (mut files, mut wrong) = (Vec::new(), Vec::new());
        for path in self.policy_files() {
            let (text, _) = self.read_unnamed(&path)?;
            let shown = policy_name(&path, home.as_deref());
            match file::policy::parse(&text, &shown) {
                Ok(file) => files.push(file),
                Err(errors) => wrong.extend(errors),
            }
        }
        if !wrong.is_empty() {
            return Err(LibraryError::Source(wrong));
        }
        Ok(file::policy::combine(files, home))
    }

    /// What the policy files want of the sandbox, one after the other.
    pub fn sandbox(&self) -> Result<Vec<Wishes>, LibraryError> {
        Ok(self.policies()?.sandbox)
    }

    /// The policy files, in the order in which their rules count: the user's own, the repository's, the nearest.
    /// Policies add up. If the nearest took the place of the others, a file in a folder that somebody else wrote
    /// would be enough to lose what the user forbids everywhere.
    pub fn policy_files(&self) -> Vec<PathBuf> {
        let files = self.folders.iter().rev().map(|folder| folder.join("policy.toml"));
        files.filter(|path| path.exists()).collect()
    }
}

/// What a person calls a policy file: from the repository's root on, or from the user's own folder on.
fn policy_name(path: &Path, home: Option<&str>) -> String {
    let place = path.parent().and_then(Path::parent).unwrap_or(path);
    let is_project = path.parent().is_some_and(|folder| folder.ends_with(".drivetrain"));
    let root = project_places(place).pop().filter(|_| is_project);
    if let Some(short) = root.and_then(|root| path.strip_prefix(root).ok().map(Path::to_owned)) {
        return short.to_string_lossy().into_owned();
    }
    match home.and_then(|home| path.strip_prefix(home).ok()) {
        Some(short) => format!("~/{}", short.to_string_lossy()),
        None => path.to_string_lossy().into_owned(),
    }
}
