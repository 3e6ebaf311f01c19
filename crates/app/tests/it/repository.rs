//! A repository of the user's, and tasks that work in worktrees of it.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::environment::TestEnvironment;

/// A place whose folder is a repository with a commit.
pub(crate) struct Repository {
    pub(crate) place: TestEnvironment,
}

impl Repository {
    pub(crate) fn new() -> Repository {
        let repository = Repository { place: TestEnvironment::new() };
        repository.git(&["init", "--quiet", "-b", "main"]);
        repository.git(&["config", "user.name", "The User"]);
        repository.git(&["config", "user.email", "user@example.invalid"]);
        repository.place.write("a.txt", "one\ntwo\n");
        repository.place.write("sub/b.txt", "b\n");
        repository.place.write(".gitignore", "ignored/\n*.log\n");
        repository.commit("first");
        repository
    }

    pub(crate) fn git(&self, arguments: &[&str]) -> String {
        git(&self.place.folder(), arguments)
    }

    pub(crate) fn commit(&self, message: &str) -> String {
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "-m", message]);
        self.git(&["rev-parse", "HEAD"])
    }

    /// Everything of the user's that must not change: branch, index, files and refs.
    pub(crate) fn users(&self) -> String {
        let status = self.git(&["status", "--porcelain", "--ignored"]);
        let refs = self.git(&["for-each-ref", "refs/heads/main", "refs/tags", "refs/stash"]);
        let staged = self.git(&["ls-files", "--stage"]);
        format!("{}\n{status}\n{refs}\n{staged}", self.git(&["symbolic-ref", "HEAD"]))
    }

    /// Runs a task of shell steps in a worktree of its own; its id and its worktree.
    pub(crate) fn task(&self, steps: &[&str], check: Option<&str>) -> (String, PathBuf) {
        let before: Vec<String> = ids(&self.place);
        let file = self.task_file("task.toml", steps, check, "");
        self.place.run(&["run", file.to_str().unwrap()]);
        let new = ids(&self.place).into_iter().find(|id| !before.contains(id));
        let id = new.expect("the run made a task");
        let path = self.place.show(&id)["workspace"].as_str().unwrap().to_owned();
        (id, PathBuf::from(path))
    }

    /// Writes a task file outside of the repository.
    pub(crate) fn task_file(
        &self,
        name: &str,
        steps: &[&str],
        check: Option<&str>,
        more: &str,
    ) -> PathBuf {
        let mut text =
            "[task]\ngoal = \"make the numbers add up\"\ndriver = \"workflow\"\n".to_owned();
        for (number, command) in steps.iter().enumerate() {
            text.push_str(&format!(
                "[[task.driver_config.steps]]\nname = \"s{number}\"\ntool = \"shell\"\nparameters = {{ command = {} }}\n",
                Value::from(*command)
            ));
        }
        if let Some(check) = check {
            text.push_str(&format!(
                "[[acceptance]]\nkind = \"shell\"\ncommand = {}\n",
                Value::from(check)
            ));
        }
        let file = self.place.home().with_file_name(name);
        std::fs::write(&file, format!("{text}{more}")).unwrap();
        file
    }

    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        let mut arguments = arguments.to_vec();
        arguments.push("--json");
        serde_json::from_str(&self.place.ok(&arguments)).unwrap()
    }

    /// What a refusal says, with nothing changed by it.
    pub(crate) fn refused(&self, arguments: &[&str]) -> String {
        let before = self.users();
        let ran = self.place.run(arguments);
        assert_eq!(ran.code, 2, "{arguments:?}: {}{}", ran.out, ran.err);
        assert_eq!(self.users(), before, "{arguments:?} changed something");
        ran.err
    }
}

pub(crate) fn ids(place: &TestEnvironment) -> Vec<String> {
    if !place.home().join("journal").exists() {
        return Vec::new();
    }
    place.tasks().iter().map(|task| task["id"].as_str().unwrap().to_owned()).collect()
}

pub(crate) fn git(folder: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .args(arguments)
        .current_dir(folder)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .output()
        .unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
}
