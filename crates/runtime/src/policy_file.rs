//! Writes a rule into the project's policy, at a person's request. No worker reaches this: it is called by whoever types
//! the approval, with the call as the journal has it.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use machine::file::{self, SourceError, policy_rule};
use machine::policy::permission::{Author, Decide, Policy, Question, judge};
use machine::time::Timestamp;
use machine::tool::EffectClass;
use serde_json::Value;

use crate::home::Home;
use crate::trust::{self, Seen, TrustState};

/// The largest policy that is changed.
const MAX_FILE: u64 = 1 << 20;

/// What the rule is to allow.
#[derive(Debug, Clone, Copy)]
pub struct Approved<'a> {
    /// The folder that the task was started in.
    pub folder: &'a Path,
    /// The tool.
    pub tool: &'a str,
    /// Its parameters.
    pub input: &'a Value,
    /// How repeatable it is.
    pub class: EffectClass,
    /// The task's driver.
    pub driver: &'a str,
    /// Commands of the shell that are to be allowed as well.
    pub like: Option<&'a str>,
}

/// A rule that has its place in a file and is not written yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Addition {
    /// The file.
    pub path: PathBuf,
    /// The rule.
    pub rule: String,
    before: Option<String>,
    after: String,
}

impl Addition {
    /// Finds the place for a rule in the policy of the project. Nothing is written.
    ///
    /// The new file is read and judged as if it were written: a rule that would not be understood, or would not allow
    /// the call because another one decides first, is refused.
    pub fn prepare(approved: &Approved<'_>, comment: &str) -> Result<Addition, String> {
        let path = policy_path(approved.folder)?;
        let before = read(&path)?;
        let rule = policy_rule::draft(approved.tool, approved.input, approved.like)?.toml(comment);
        let name = path.display().to_string();
        let text = before.as_deref().unwrap_or_default();
        understand(text, &name).map_err(|error| {
            format!("{name}:{}: {}; mend it, then approve again", error.line, error.message)
        })?;
        let after = policy_rule::insert(text, &rule, |whole| decides(whole, &name, approved))
            .map_err(|reason| {
                format!(
                    "no rule can be written to {name}: if it stood there, {reason}; \
                     change the policy by hand, or approve --for task"
                )
            })?;
        Ok(Addition { path, rule, before, after })
    }

    /// Writes it. A file that was trusted stays so, and so does one that did not exist: what is new in it is what the
    /// person asked for.
    pub fn write(&self, home: &Home, folder: &Path, now: Timestamp) -> Result<(), String> {
        let failed = |error: io::Error| format!("cannot write {}: {error}", self.path.display());
        if read(&self.path)? != self.before {
            return Err(format!("{} has changed meanwhile: look at it again", self.path.display()));
        }
        let parent = self.path.parent().unwrap_or(folder);
        fs::create_dir_all(parent).map_err(failed)?;
        let real = fs::canonicalize(parent).map_err(failed)?.join("policy.toml");
        let seen =
            |text: &str| vec![Seen { path: real.clone(), sha256: trust::hash(text.as_bytes()) }];
        let was_trusted = match &self.before {
            Some(text) => trust::state(home, folder, &seen(text))? == TrustState::Trusted,
            None => true,
        };
        let mode = fs::metadata(&self.path).map_or(0o644, |found| found.permissions().mode());
        let next = parent.join(format!(".policy.toml.{}", std::process::id()));
        let written = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(mode & 0o777)
            .open(&next)
            .and_then(|mut file| {
                file.write_all(self.after.as_bytes())?;
                file.sync_all()
            })
            .and_then(|()| fs::rename(&next, &self.path));
        if let Err(error) = written {
            // What is left of it is ours; that it cannot be removed says nothing new.
            let _ = fs::remove_file(&next);
            return Err(failed(error));
        }
        if was_trusted {
            trust::trust(home, folder, &seen(&self.after), now)?;
        }
        Ok(())
    }
}

/// The policy that a text is, if all of it and all its examples hold.
fn understand(text: &str, name: &str) -> Result<Policy, SourceError> {
    let parsed = file::policy::parse(text, name).map_err(|mut errors| errors.swap_remove(0))?;
    let combined = file::policy::combine(vec![parsed], None);
    let checked = file::policy::check(&combined.policy, &combined.examples);
    match checked.into_iter().find_map(|checked| checked.error) {
        Some(error) => Err(error),
        None => Ok(combined.policy),
    }
}

/// Whether a policy with this text lets the call pass, whoever attends.
fn decides(text: &str, name: &str, approved: &Approved<'_>) -> Result<(), String> {
    let policy = understand(text, name).map_err(|error| error.message)?;
    let question = Question {
        tool: approved.tool,
        input: approved.input,
        class: approved.class,
        author: Author::Worker,
        driver: approved.driver,
        within: &[],
        attended: true,
        workspace: approved.folder.to_str(),
        sandboxed: true,
    };
    let judged = judge(&policy, &question);
    match judged.decide {
        Decide::Allow => Ok(()),
        Decide::Ask | Decide::Deny => Err(format!("the call would still be {}", judged.said())),
    }
}

/// The policy of the project that a folder is in: the nearest, else the one that there would be at its root.
fn policy_path(folder: &Path) -> Result<PathBuf, String> {
    let root = trust::root(folder)?;
    let real = fs::canonicalize(folder)
        .map_err(|error| format!("the folder {} cannot be used: {error}", folder.display()))?;
    let inside = real.ancestors().take_while(|parent| parent.starts_with(&root));
    let at = |parent: &Path| parent.join(".drivetrain").join("policy.toml");
    let found = inside.map(at).find(|path| path.symlink_metadata().is_ok());
    Ok(found.unwrap_or_else(|| at(&root)))
}

/// The text of a policy; none if there is no file. A link is not followed: it may lead anywhere.
fn read(path: &Path) -> Result<Option<String>, String> {
    let failed = |error: io::Error| format!("cannot read {}: {error}", path.display());
    for part in [path.parent(), Some(path)].into_iter().flatten() {
        match part.symlink_metadata() {
            Ok(found) if found.is_symlink() => {
                return Err(format!(
                    "{} is a link, which is not written to: add the rule yourself",
                    part.display()
                ));
            }
            Ok(found) if part == path && (!found.is_file() || found.len() > MAX_FILE) => {
                return Err(format!("{} is no file of at most 1 MB", path.display()));
            }
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(error)),
        }
    }
    fs::read_to_string(path).map(Some).map_err(failed)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    struct Project {
        place: tempfile::TempDir,
    }

    impl Project {
        fn new() -> Project {
            let place = tempfile::tempdir().unwrap();
            fs::create_dir_all(place.path().join("project/.git/refs")).unwrap();
            fs::create_dir_all(place.path().join("project/below")).unwrap();
            Project { place }
        }

        fn folder(&self) -> PathBuf {
            self.place.path().join("project")
        }

        fn file(&self) -> PathBuf {
            self.folder().join(".drivetrain/policy.toml")
        }

        fn home(&self) -> Home {
            Home::at(self.place.path().join("home"))
        }

        fn state(&self) -> TrustState {
            let path = fs::canonicalize(self.file()).unwrap();
            let sha256 = trust::hash(&fs::read(&path).unwrap());
            trust::state(&self.home(), &self.folder(), &[Seen { path, sha256 }]).unwrap()
        }

        fn prepare(&self, tool: &str) -> Result<Addition, String> {
            let below = self.folder().join("below");
            let approved = Approved {
                folder: &below,
                tool,
                input: &json!({ "x": 1 }),
                class: EffectClass::Unsafe,
                driver: "llm",
                like: None,
            };
            Addition::prepare(&approved, "approved at c1")
        }

        fn add(&self, tool: &str) -> Result<(), String> {
            self.prepare(tool)?.write(&self.home(), &self.folder(), Timestamp(7))
        }
    }

    #[test]
    fn a_rule_is_written_and_a_file_that_was_trusted_stays_trusted() {
        let project = Project::new();
        project.add("mcp__s__t").unwrap();
        let text = fs::read_to_string(project.file()).unwrap();
        assert!(text.starts_with("# approved at c1\n[[rule]]\ntool = \"mcp__s__t\"\n"), "{text}");
        assert_eq!(project.state(), TrustState::Trusted, "all of it is what was asked for");
        project.add("mcp__s__u").unwrap();
        let more = fs::read_to_string(project.file()).unwrap();
        assert!(more.starts_with(&text) && more.contains("mcp__s__u"), "{more}");
        assert_eq!(project.state(), TrustState::Trusted);
        fs::write(project.file(), format!("{more}\n# somebody was here\n")).unwrap();
        project.add("mcp__s__v").unwrap();
        assert_ne!(project.state(), TrustState::Trusted, "what was not trusted stays so");
    }

    #[test]
    fn a_rule_that_would_not_decide_or_a_file_that_changes_or_leads_elsewhere_is_refused() {
        let project = Project::new();
        fs::create_dir_all(project.file().parent().unwrap()).unwrap();
        fs::write(project.file(), "unattended = \"never\"\n").unwrap();
        assert!(project.add("mcp__s__t").unwrap_err().contains("must be one of"));
        let ask = "[[rule]]\ntool = \"*\"\ndecide = \"ask\"\n";
        fs::write(project.file(), ask).unwrap();
        project.add("mcp__s__t").unwrap();
        let text = fs::read_to_string(project.file()).unwrap();
        assert!(text.find("mcp__s__t").unwrap() < text.find("\"*\"").unwrap(), "{text}");
        let prepared = project.prepare("mcp__s__u").unwrap();
        fs::write(project.file(), ask).unwrap();
        let late = prepared.write(&project.home(), &project.folder(), Timestamp(7));
        assert!(late.unwrap_err().contains("changed meanwhile"));
        fs::remove_file(project.file()).unwrap();
        fs::write(project.folder().join("victim"), "").unwrap();
        std::os::unix::fs::symlink(project.folder().join("victim"), project.file()).unwrap();
        assert!(project.add("mcp__s__t").unwrap_err().contains("is a link"));
        assert_eq!(fs::read(project.folder().join("victim")).unwrap(), b"");
    }
}
