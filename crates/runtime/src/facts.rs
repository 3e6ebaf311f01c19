//! Looks at a project for [`machine::facts`]: git where there is a repository, a walk of the folder where there is none.
//!
//! Only names are read, and whether some Rust source holds a test. Facts are gathered for scripts and for workflows whose
//! expressions mention them, so that nobody else waits for it.

use std::ffi::OsString;
use std::path::Path;

use machine::acceptance::detect::detect;
use machine::facts::{Facts, Seen};

use crate::workspace::Repository;

/// A walk without git ends here: somebody may have started this in a home folder.
const MAX_WALKED: usize = 20_000;

/// What is known about the project of a folder. What cannot be found out is left empty: a workflow that needs it says so.
pub fn gather(folder: &Path) -> Facts {
    let mut seen = match Repository::find(folder) {
        Ok(repository) => of_repository(&repository),
        Err(_) => Seen { files: walked(folder), ..Seen::default() },
    };
    let project = crate::detect::project(folder, None).unwrap_or_default();
    seen.checks = detect(&project).into_iter().map(|found| found.command).collect();
    Facts::of(seen)
}

fn of_repository(repository: &Repository) -> Seen {
    let printed = |arguments: &[&str]| -> Option<Vec<u8>> {
        let arguments = arguments.iter().map(OsString::from).collect::<Vec<_>>();
        repository.output(arguments).ok().map(|printed| printed.out)
    };
    let git = |arguments: &[&str]| printed(arguments).and_then(|out| String::from_utf8(out).ok());
    // Paths of git are those of the repository's root; a task knows its own folder. Names that are not text cannot be told.
    let prefix = match repository.prefix.trim_end_matches('/') {
        "" => String::new(),
        prefix => format!("{prefix}/"),
    };
    let names = |arguments: &[&str]| -> Vec<String> {
        let out = printed(arguments).unwrap_or_default();
        let names = out.split(|byte| *byte == 0).filter_map(|name| std::str::from_utf8(name).ok());
        let names = names.filter(|name| !name.is_empty());
        names.filter_map(|name| name.strip_prefix(prefix.as_str())).map(str::to_owned).collect()
    };
    let line = |printed: Option<String>| printed.unwrap_or_default().trim().to_owned();
    let mut changed = Vec::new();
    if let Some(base) = began(&git, &repository.head) {
        changed.extend(names(&["diff-tree", "-r", "-z", "--name-only", &base, &repository.head]));
    }
    // Neither of these looks into a file or into a repository inside, so no filter of any of them runs.
    changed.extend(names(&["diff-index", "--cached", "-z", "--name-only", &repository.head]));
    changed.extend(names(&["diff-files", "-z", "--name-only", "--ignore-submodules=all"]));
    // Only there: a whole home may be kept in git.
    let place = if prefix.is_empty() { "." } else { prefix.as_str() };
    let literal = "--literal-pathspecs";
    let untracked =
        names(&[literal, "ls-files", "-z", "--others", "--exclude-standard", "--", place]);
    changed.extend(untracked.clone());
    let mut files = names(&["ls-files", "-z", "--cached"]);
    files.extend(untracked);
    let has_inner_tests = git(&["grep", "-q", "-I", "-F", "-e", "#[test]", "--", "*.rs"]).is_some();
    Seen {
        branch: line(git(&["symbolic-ref", "--quiet", "--short", "HEAD"])),
        has_git: true,
        files,
        changed,
        checks: Vec::new(),
        has_inner_tests,
    }
}

/// Where the branch began: the last commit that it shares with the main one. Nothing on the main branch itself.
fn began(git: &dyn Fn(&[&str]) -> Option<String>, head: &str) -> Option<String> {
    let mains = ["refs/remotes/origin/HEAD", "refs/heads/main", "refs/heads/master"];
    let base = mains.iter().find_map(|main| git(&["merge-base", main, head]))?;
    Some(base.trim().to_owned()).filter(|base| base != head)
}

fn walked(folder: &Path) -> Vec<String> {
    let walk = ignore::WalkBuilder::new(folder)
        .require_git(false)
        .follow_links(false)
        .max_depth(Some(16))
        .build();
    let files = walk.filter_map(Result::ok).take(MAX_WALKED);
    let files = files.filter(|entry| entry.file_type().is_some_and(|kind| kind.is_file()));
    files
        .filter_map(|entry| entry.path().strip_prefix(folder).ok()?.to_str().map(str::to_owned))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;

    use super::*;

    fn git(folder: &Path, arguments: &[&str]) {
        let mut command = Command::new("git");
        command.args([
            "-c",
            "user.name=t",
            "-c",
            "user.email=t@t",
            "-c",
            "init.defaultBranch=main",
        ]);
        assert!(
            command.args(arguments).current_dir(folder).output().unwrap().status.success(),
            "{arguments:?}"
        );
    }

    #[test]
    fn a_repository_tells_its_branch_files_and_changes() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        git(folder.path(), &["init", "-q"]);
        fs::create_dir(at("src")).unwrap();
        fs::write(at("src/lib.rs"), "#[test]\nfn t() {}\n").unwrap();
        fs::write(at("Cargo.toml"), "[package]\nname = \"x\"\nversion = \"0.1.0\"\n").unwrap();
        git(folder.path(), &["add", "."]);
        git(folder.path(), &["commit", "-qm", "one"]);
        assert_eq!(gather(folder.path()).changed_files, Vec::<String>::new());
        git(folder.path(), &["checkout", "-qb", "topic"]);
        fs::write(at("src/more.rs"), "").unwrap();
        git(folder.path(), &["add", "."]);
        git(folder.path(), &["commit", "-qm", "two"]);
        fs::write(at("notes.py"), "").unwrap();
        let facts = gather(folder.path());
        assert!(facts.has_git && facts.has_tests);
        assert_eq!(facts.branch, "topic");
        assert_eq!(facts.changed_files, ["notes.py", "src/more.rs"]);
        assert_eq!(facts.languages, ["rust", "python"]);
        assert!(
            facts.check_commands.iter().any(|command| command.contains("cargo test")),
            "{facts:?}"
        );
        // From a folder inside, paths are those that a task there uses.
        fs::write(at("src/new.rs"), "").unwrap();
        assert_eq!(gather(&at("src")).changed_files, ["more.rs", "new.rs"]);
    }

    #[test]
    fn a_plain_folder_tells_its_files() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("test_a.py"), "").unwrap();
        let facts = gather(folder.path());
        assert!(!facts.has_git && facts.has_tests);
        assert_eq!((facts.files, facts.file_count), (vec!["test_a.py".to_owned()], 1));
    }
}
