//! Claims checked in clean checkouts, on real repositories and real processes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use machine::policy::sandbox::{Level, SandboxSpec};
use machine::task::{Criterion, Workspace, WorkspaceSpec};
use machine::time::Span;
use machine::verdict::{Checkpoint, Place, Touch, Verdict};
use runtime::acceptance::{Claim, Places, verify};
use runtime::checkpoint::checkpoint;
use runtime::process::{Cancel, Containment};
use tempfile::TempDir;

use super::{NONE, folder, running, services, unique};

/// A repository with a task that works in it.
struct Task {
    place: TempDir,
    workspace: Workspace,
    base: Checkpoint,
}

impl Task {
    fn new(files: &[(&str, &str)]) -> Task {
        let place = folder();
        let project = place.path().join("project");
        for (path, content) in files {
            let path = project.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        for arguments in [
            vec!["init", "-q", "--initial-branch=main"],
            vec!["add", "-A"],
            vec!["commit", "-q", "--allow-empty", "-m", "begin"],
        ] {
            let done = Command::new("git")
                .args(["-c", "user.name=a", "-c", "user.email=a@b"])
                .args(arguments)
                .current_dir(&project)
                .env("GIT_CONFIG_GLOBAL", "/dev/null")
                .status();
            assert!(done.unwrap().success());
        }
        let home = place.path().join("home");
        let opened =
            runtime::workspace::open("t1", &WorkspaceSpec::default(), &project, &home).unwrap();
        let base = checkpoint("t1", &opened, "start", &home, &Cancel::new()).unwrap();
        Task { place, workspace: opened, base }
    }

    fn worktree(&self) -> PathBuf {
        PathBuf::from(self.workspace.path.as_deref().unwrap())
    }

    /// Hands the worktree over as it is and checks it.
    fn claim(&self, criteria: &[Criterion], cancel: &Cancel) -> Result<Verdict, String> {
        let (home, checkouts) =
            (self.place.path().join("home"), self.place.path().join("checkouts"));
        let frozen = checkpoint("t1", &self.workspace, "handed over", &home, &Cancel::new())?;
        let claim = Claim {
            task: "t1",
            goal: "a goal",
            criteria,
            workspace: &self.workspace,
            spec: &WorkspaceSpec::default(),
            base: Some(&self.base),
            frozen: Some(&frozen),
            sandbox: &SandboxSpec::off(),
        };
        let places = Places { state_home: &home, checkouts: &checkouts };
        let verdict = verify(&claim, &places, &services(Containment::Auto), cancel);
        let left: Vec<_> = fs::read_dir(&checkouts).unwrap().collect();
        assert!(left.is_empty(), "{left:?}");
        verdict
    }
}

fn shell(command: &str, timeout: Span) -> Criterion {
    Criterion::Shell {
        command: command.to_owned(),
        exit: 0,
        stdout: None,
        timeout,
        repeat: 1,
        red_first: false,
    }
}

#[test]
fn a_verdict_says_what_was_touched_and_on_what_it_was_checked() {
    let task = Task::new(&[("a", "one\n"), ("gone", "x\n"), ("same", "y\n")]);
    fs::write(task.worktree().join("a"), "two\nthree\n").unwrap();
    fs::write(task.worktree().join("new"), "n\n").unwrap();
    fs::remove_file(task.worktree().join("gone")).unwrap();
    let criteria = [
        shell(
            "touch made; chmod 000 made; mkdir -p deep/er; chmod 000 deep; pwd",
            Span::seconds(60),
        ),
        shell("test ! -e made && git diff --exit-code && git log --format=%s", Span::seconds(60)),
    ];
    let verdict = task.claim(&criteria, &Cancel::new()).unwrap();
    assert!(verdict.results.iter().all(|result| result.passed), "{:#?}", verdict.results);
    assert_eq!(verdict.results[1].evidence, "What was handed over\nbegin\n");
    assert_eq!(verdict.place, Place::CleanCheckout);
    let touched: Vec<(&str, Touch)> =
        verdict.touched.iter().map(|touched| (touched.path.as_str(), touched.how)).collect();
    assert_eq!(touched, [("a", Touch::Changed), ("gone", Touch::Removed), ("new", Touch::Added)]);
    assert_eq!((verdict.touched_total, verdict.diff_lines), (3, 5));
    assert!(verdict.patch.contains("-one\n+two\n+three\n"), "{}", verdict.patch);
    let on = &verdict.environment;
    assert_eq!((on.sandbox, on.network.as_str()), (Level::Off, "none"));
    assert!(on.system.contains("Linux") && !on.processor.is_empty() && !on.drivetrain.is_empty());
}

/// Edge case 1, and more than is kept of any output.
#[test]
fn edge_case_1_a_check_that_prints_without_end_is_hashed_whole_and_kept_in_part() {
    let task = Task::new(&[("a", "one\n")]);
    let flood = "head -c 80000000 /dev/zero | tr '\\0' x";
    let verdict = task.claim(&[shell(flood, Span::seconds(120))], &Cancel::new()).unwrap();
    let result = &verdict.results[0];
    assert!(result.passed && result.evidence.len() < 5000);
    let digest = Command::new("sh").args(["-c", &format!("{flood} | sha256sum")]).output().unwrap();
    let digest = String::from_utf8(digest.stdout).unwrap();
    assert_eq!(result.output.as_deref(), digest.split_whitespace().next());
}

/// Edge case 2.
#[test]
fn edge_case_2_a_grandchild_that_holds_the_pipe_neither_hangs_a_check_nor_outlives_it() {
    let task = Task::new(&[("a", "one\n")]);
    let (holding, late) = (unique(), unique());
    let criteria = [
        shell(&format!("(setsid sleep {holding} &); echo done"), Span::seconds(60)),
        shell(&format!("(setsid sleep {late} &); echo begun; sleep {late}"), Span(400)),
    ];
    let started = Instant::now();
    let verdict = task.claim(&criteria, &Cancel::new()).unwrap();
    assert!(started.elapsed() < Duration::from_secs(30));
    assert_eq!((verdict.results[0].passed, verdict.results[0].evidence.as_str()), (true, "done\n"));
    assert!(!verdict.results[1].passed && verdict.results[1].exit.is_none());
    assert_eq!(verdict.results[1].evidence, "begun\n[stopped: it ran longer than 400ms]");
    assert_eq!(running(&holding), NONE);
    assert_eq!(running(&late), NONE);
}

#[test]
fn a_verification_that_is_stopped_ends_at_once_and_leaves_nothing() {
    let task = Task::new(&[("a", "one\n")]);
    let number = unique();
    let cancel = Cancel::new();
    let stop = cancel.clone();
    let begun = task.place.path().join("begun");
    let seen = begun.clone();
    let watcher = std::thread::spawn(move || {
        while !seen.exists() {
            std::thread::yield_now();
        }
        stop.trigger();
    });
    let command = format!("touch {}; sleep {number}", begun.display());
    let verdict = task.claim(&[shell(&command, Span::seconds(600))], &cancel);
    watcher.join().unwrap();
    assert_eq!(verdict.unwrap_err(), "stopped before all criteria had run");
    assert_eq!(running(&number), NONE);
}

#[test]
fn line_ends_and_modes_that_git_would_change_are_those_that_were_handed_over() {
    let attributes = "*.txt text eol=crlf\n*.bin filter=evil\n";
    let task = Task::new(&[(".gitattributes", attributes), ("a.txt", "one\n"), ("b.bin", "raw\n")]);
    fs::write(task.worktree().join("a.txt"), "two\r\nthree\n").unwrap();
    let check = "test \"$(od -An -c a.txt | tr -d ' \\n')\" = 'two\\r\\nthree\\n' && grep -qx raw b.bin && \
                 git diff --exit-code";
    let verdict = task.claim(&[shell(check, Span::seconds(60))], &Cancel::new()).unwrap();
    assert!(verdict.results[0].passed, "{}", verdict.results[0].evidence);
    assert!(Path::new(task.workspace.path.as_deref().unwrap()).exists());
}
