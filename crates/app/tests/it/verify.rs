//! Claims, checked out of the worker's reach: in clean checkouts of exactly what was handed over.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use crate::environment::{Ran, TestEnvironment};

impl TestEnvironment {
    /// Makes the folder a repository whose first commit has these files.
    pub(crate) fn repository(files: &[(&str, &str)]) -> TestEnvironment {
        let environment = TestEnvironment::new();
        for (path, content) in files {
            environment.write(path, content);
        }
        environment.git(&["init", "-q", "--initial-branch=main"]);
        environment.git(&["add", "-A"]);
        environment.git(&["commit", "-q", "--allow-empty", "-m", "begin"]);
        environment
    }

    /// A worker that runs these commands, one a turn, and then claims to be done. Scripts of models are no part of the
    /// repository.
    fn worker(&self, commands: &[&str]) -> String {
        let mut text = String::new();
        for command in commands {
            text.push_str(&format!(
                "[[replies]]\ntext = \"on it\"\n[[replies.tool_calls]]\ntool = \"shell\"\ninput = {{ command = {} }}\n",
                Value::from(*command)
            ));
        }
        text.push_str(&"[[replies]]\ntext = \"done\"\n".repeat(8));
        let path = self.folder().join("../worker.toml");
        fs::write(&path, text).unwrap();
        format!("script/{}", path.display())
    }

    /// Runs a worker on a goal with options; everything it wants is allowed.
    fn work(&self, commands: &[&str], options: &[&str]) -> Ran {
        let model = self.worker(commands);
        let mut all = vec!["run", "do it", "--model", &model, "--profile", "open", "--json"];
        all.extend(options);
        self.run(&all)
    }

    fn worktree(&self) -> PathBuf {
        PathBuf::from(self.show(&self.id())["workspace"].as_str().unwrap())
    }

    /// What remains of clean checkouts.
    fn checkouts(&self) -> Vec<PathBuf> {
        let mut left = Vec::new();
        for entry in fs::read_dir(self.home().join("run")).unwrap().filter_map(Result::ok) {
            if entry.file_name().to_string_lossy().ends_with(".checkouts") {
                left.extend(fs::read_dir(entry.path()).unwrap().map(|one| one.unwrap().path()));
            }
        }
        left
    }
}

impl Ran {
    fn events(&self) -> Vec<Value> {
        self.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The results of criteria, in order.
    fn checked(&self) -> Vec<Value> {
        let events = self.events().into_iter();
        events
            .filter(|event| event["type"] == "criterion_checked")
            .map(|e| e["result"].clone())
            .collect()
    }

    fn outcome(&self) -> String {
        let last = self.events().pop().unwrap();
        format!("{}: {}", last["outcome"].as_str().unwrap(), last["reason"].as_str().unwrap())
    }
}

#[test]
fn what_is_handed_over_is_checked_in_a_clean_checkout_at_the_tasks_own_folder() {
    let environment = TestEnvironment::repository(&[("sub/a", "one\n"), (".gitignore", "out/\n")]);
    let mut command = environment.command(&[]);
    let model = environment.worker(&["mkdir -p ../out && echo x > ../out/x && echo two > b"]);
    let check = "pwd; test \"$(cat a b)\" = \"one\ntwo\" && test ! -e ../out && echo fine";
    let args = ["run", "do it", "--model", &model, "--profile", "open", "--json", "--check", check];
    let output = command.args(args).current_dir(environment.folder().join("sub")).output().unwrap();
    let ran = environment.ran(output);
    assert_eq!(ran.outcome(), "verified: done", "{}{}", ran.out, ran.err);
    let checked = ran.checked();
    let folder = checked[0]["evidence"].as_str().unwrap().lines().next().unwrap().to_owned();
    assert!(folder.ends_with("/tree/sub") && folder.contains(".checkouts/"), "{folder}");
    assert!(!std::path::Path::new(&folder).exists());
    assert_eq!(checked[0]["output"].as_str().unwrap().len(), 64);
    assert_eq!(environment.checkouts(), Vec::<PathBuf>::new());
    assert_eq!(environment.git(&["status", "--porcelain"]), "");
}

#[test]
fn what_the_worker_hides_from_git_does_not_help_it() {
    let files = [
        (".gitignore", "bin/\nconftest.py\n"),
        ("check.sh", "#!/bin/sh\nPATH=./bin:$PATH tester\n"),
    ];
    let environment = TestEnvironment::repository(&files);
    let plant = "mkdir -p bin && printf '#!/bin/sh\\nexit 0\\n' > bin/tester && chmod +x bin/tester && \
                 echo pass > conftest.py && echo work > work.txt && sh check.sh";
    let ran =
        environment.work(&[plant], &["--check", "sh check.sh", "--check", "test -e conftest.py"]);
    assert_ne!(ran.code, 0, "{}", ran.out);
    let ended = ran.events();
    let tool = ended.iter().find(|event| event["type"] == "tool_ended").unwrap();
    assert_eq!(tool["result"]["exit"], 0, "the check passes where the worker is: {tool}");
    let checked = ran.checked();
    assert_eq!(checked[0]["exit"], 127, "{}", checked[0]);
    assert_eq!(checked[1]["passed"], false);
}

#[test]
fn a_daemon_that_the_worker_leaves_changes_nothing_after_the_claim() {
    let environment = TestEnvironment::repository(&[("answer", "wrong\n")]);
    let daemon = "echo right > answer; (setsid sh -c 'sleep 1; while :; do echo wrong > answer; sleep 0.05; done' \
                  >/dev/null 2>&1 &)";
    let check = "sleep 1.5; grep -qx right answer";
    let ran = environment.work(&[daemon], &["--check", check]);
    assert_eq!(ran.outcome(), "verified: done", "{}", ran.out);
    let answer = fs::read_to_string(environment.worktree().join("answer")).unwrap();
    assert_eq!(answer, "right\n");
}

#[test]
fn a_check_that_changes_files_changes_none_for_the_next_nor_for_the_worker() {
    let environment = TestEnvironment::repository(&[("a", "one\n")]);
    let checks = [
        "--check",
        "echo poison > a && rm -rf .git/index .git/refs && mkdir made",
        "--check",
        "grep -qx two a && test ! -e made",
        "--check",
        "git diff --exit-code && git log -1",
    ];
    let ran = environment.work(&["echo two > a"], &checks);
    assert_eq!(ran.outcome(), "verified: done", "{}", ran.out);
    assert_eq!(fs::read_to_string(environment.worktree().join("a")).unwrap(), "two\n");
}

#[test]
fn a_check_has_a_repository_with_the_work_as_one_commit_on_the_base() {
    let environment = TestEnvironment::repository(&[("a", "one\n"), ("gone", "x\n")]);
    environment.git(&["tag", "v1"]);
    environment.git(&["config", "core.hooksPath", "hooks"]);
    let checks = [
        "test -z \"$(git status --porcelain)\"",
        "test \"$(git rev-parse HEAD~1)\" = \"$(git rev-parse v1)\" && git fsck --no-dangling",
        "test \"$(git diff --name-status v1 HEAD | tr '\\t' ' ' | tr '\\n' ,)\" = 'M a,A b,D gone,'",
        "git describe --tags | grep -q '^v1-1-g'",
        "test -z \"$(git config core.hooksPath)\" && git branch --list 'drivetrain/*' | wc -l | grep -qx 1",
        "git commit -q --allow-empty -m mine && echo new > c && git add c && git stash -q",
    ];
    let options: Vec<&str> = checks.iter().flat_map(|check| ["--check", check]).collect();
    let work = "echo two > a; echo b > b; rm gone; git add -A; git commit -qm 'mine'; git update-index --assume-unchanged a";
    let ran = environment.work(&[work], &options);
    assert_eq!(ran.outcome(), "verified: done", "{:#?}", ran.checked());
    assert_eq!(environment.git(&["log", "--format=%s", "main"]), "begin");
}

/// The folder of the tests is, by its name, what it was before; what git reads under that name is what it is now.
const FORGE: &str = "echo 'exit 0' > tests/t.sh; git add -A; new=$(git write-tree --prefix=tests/); \
    old=$(git rev-parse HEAD:tests); \
    file() { echo \"$(git rev-parse --git-common-dir)/objects/$(echo $1 | cut -c1-2)/$(echo $1 | cut -c3-)\"; }; \
    chmod u+w \"$(file $old)\"; cp \"$(file $new)\" \"$(file $old)\"";

#[test]
fn a_worker_that_puts_other_content_under_the_name_of_what_was_there_is_found_out() {
    let environment = TestEnvironment::repository(&[("tests/t.sh", "test -e feature\n")]);
    let check = "git diff --exit-code HEAD~1 -- tests && sh tests/t.sh";
    let ran = environment.work(&[FORGE], &["--check", check]);
    assert!(!ran.outcome().starts_with("verified"), "{:#?}", ran.checked());
    let evidence = ran.checked()[0]["evidence"].to_string();
    assert!(evidence.contains("is not what its name says"), "{:#?}", ran.checked());

    let environment = TestEnvironment::repository(&[("tests/t.sh", "test -e feature\n")]);
    let options = ["--in-place", "--protect", "tests/**", "--check", "sh tests/t.sh"];
    let ran = environment.work(&[FORGE], &options);
    assert!(!ran.outcome().starts_with("verified"), "{:#?}", ran.checked());
    let evidence = ran.checked()[1]["evidence"].to_string();
    assert!(evidence.contains("is not what its name says"), "{:#?}", ran.checked());
}

#[test]
fn a_check_sees_neither_another_tasks_worktree_nor_the_state_and_writes_nothing_outside() {
    let environment = TestEnvironment::repository(&[("a", "one\n")]);
    let ran = environment.work(&["echo secret > b"], &["--check", "test -e b"]);
    assert_eq!(ran.code, 0);
    let other = environment.worktree();
    let (home, project) = (environment.home(), environment.folder());
    let check = format!(
        "test ! -e {0}/b && test ! -e {1}/journal && test ! -e {1}/checkpoints && (echo x > {2}/a || true)",
        other.display(),
        home.display(),
        project.display()
    );
    let ran = environment.work(&["echo c > c"], &["--check", &check]);
    assert!(ran.outcome().starts_with("verified"), "{:#?}", ran.checked());
    assert_eq!(environment.read("a"), "one\n");
}

#[test]
fn edge_case_17_setup_makes_worktree_and_checkouts_ready_and_its_failure_ends_the_task_with_the_reason()
 {
    let environment = TestEnvironment::repository(&[(".gitignore", "built\n"), ("src", "good\n")]);
    let task = |setup: &str, step: &str| {
        let text = format!(
            "[task]\ngoal = \"g\"\ndriver = \"workflow\"\n[[task.driver_config.steps]]\nname = \"s\"\ntool = \"shell\"\n\
             parameters = {{ command = {} }}\n[workspace]\nsetup = {setup}\n[[acceptance]]\nkind = \"shell\"\n\
             command = \"grep -qx good built && echo used >> built\"\nrepeat = 3\n",
            Value::from(step)
        );
        fs::write(environment.folder().join("../task.toml"), text).unwrap();
        environment.run(&["run", "../task.toml", "--json"])
    };
    let ran = task("[\"cp src built\"]", "grep -qx good built && echo more > more");
    assert!(ran.outcome().starts_with("verified"), "{}{}", ran.out, ran.err);
    assert_eq!(ran.checked()[0]["runs"], 3);
    let ran = task("[\"cp src built\", \"grep good src\"]", "echo bad > src");
    assert_eq!(ran.code, 10);
    let evidence = ran.checked()[0]["evidence"].as_str().unwrap().to_owned();
    assert!(
        evidence.contains("the setup command \"grep good src\" failed: [exit code 1"),
        "{evidence}"
    );
    let ran = task("[\"echo told >&2; exit 4\"]", "true");
    assert_eq!(ran.code, 10);
    assert!(
        ran.outcome().contains("the workspace cannot be opened: the setup command"),
        "{}",
        ran.outcome()
    );
    assert!(ran.outcome().contains("told\n[exit code 4, expected 0]"), "{}", ran.outcome());
}

#[test]
fn folders_of_the_users_checkout_are_shown_read_only_where_they_are_shared() {
    let environment = TestEnvironment::repository(&[(".gitignore", "modules/\n"), ("a", "one\n")]);
    environment.write("modules/lib", "library\n");
    let text = "[task]\ngoal = \"g\"\ndriver = \"workflow\"\n[[task.driver_config.steps]]\nname = \"s\"\ntool = \"shell\"\n\
         parameters = { command = \"mkdir modules; echo fake > modules/lib; echo b > b\" }\n\
         [workspace]\nshare = [\"modules\"]\n[[acceptance]]\nkind = \"shell\"\n\
         command = \"grep -qx library modules/lib && ! echo x > modules/lib && ! touch modules/new\"\n";
    fs::write(environment.folder().join("../task.toml"), text).unwrap();
    let ran = environment.run(&["run", "../task.toml", "--json"]);
    assert!(ran.outcome().starts_with("verified"), "{}{}", ran.out, ran.err);
    assert_eq!(environment.read("modules/lib"), "library\n");
    let ran = environment.run(&["run", "../task.toml", "--json", "--no-sandbox"]);
    let evidence = ran.checked()[0]["evidence"].as_str().unwrap().to_owned();
    assert!(evidence.contains("needs the full sandbox, and this task's is off"), "{evidence}");
}

#[test]
fn red_first_wants_a_check_that_failed_before_by_what_it_checks() {
    for (check, work, passes, on_base, says) in [
        ("grep -qx two a", "echo two > a", true, Some(1), ""),
        ("true", "echo two > a", false, Some(0), "must fail on the base and passes there"),
        ("sh ./new.sh", "echo two > a; echo 'exit 0' > new.sh", true, Some(2), ""),
        (
            "./new.sh",
            "printf '#!/bin/sh\\n' > new.sh; chmod +x new.sh",
            false,
            Some(127),
            "could not run there",
        ),
    ] {
        let environment = TestEnvironment::repository(&[("a", "one\n")]);
        let ran = environment.work(&[work], &["--check", check, "--red-first"]);
        let result = ran.checked()[0].clone();
        assert_eq!(result["passed"], passes, "{check}: {result}");
        // Shells differ in how they say that a script is not there.
        if check != "sh ./new.sh" {
            assert_eq!(result["on_base"].as_i64(), on_base, "{check}: {result}");
        }
        assert!(
            result["evidence"].as_str().unwrap_or_default().contains(says),
            "{check}: {result}"
        );
        assert_eq!(ran.code == 0, passes, "{check}");
    }
    let environment = TestEnvironment::new();
    let ran = environment.run(&["run", "g", "--check", "true", "--red-first", "--driver", "user"]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("only a task in a worktree has them kept"), "{}", ran.err);
    let ran = environment.run(&["run", "g", "--red-first", "--driver", "user"]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("--red-first"), "{}", ran.err);
}

#[test]
fn a_flaky_check_fails_and_is_called_flaky() {
    let environment = TestEnvironment::repository(&[("a", "one\n")]);
    // What a task may write beside its workspace is the one thing that runs have in common.
    let beside = environment.folder().join("../count");
    fs::create_dir(&beside).unwrap();
    let beside = beside.canonicalize().unwrap();
    let text = format!(
        "[task]\ngoal = \"g\"\ndriver = \"workflow\"\n[[task.driver_config.steps]]\nname = \"s\"\ntool = \"shell\"\n\
         parameters = {{ command = \"echo b > b\" }}\n[sandbox]\nwrite = [{0}]\n[[acceptance]]\nkind = \"shell\"\n\
         command = \"echo run >> {1}/runs; test $(wc -l < {1}/runs) -ne 3\"\nrepeat = 5\n",
        Value::from(beside.to_str().unwrap()),
        beside.display()
    );
    fs::write(environment.folder().join("../task.toml"), text).unwrap();
    let ran = environment.run(&["run", "../task.toml", "--json"]);
    assert_eq!(ran.code, 10, "{}{}", ran.out, ran.err);
    let result = ran.checked()[0].clone();
    assert_eq!((&result["passed"], &result["runs"]), (&Value::from(false), &Value::from(3)));
    let evidence = result["evidence"].as_str().unwrap();
    assert!(evidence.contains("run 3 of 5") && evidence.contains("flaky"), "{evidence}");
}

#[test]
fn a_worker_that_changes_nothing_proves_nothing() {
    let environment = TestEnvironment::repository(&[("a", "one\n")]);
    let ran = environment.work(&["true"], &["--check", "grep -qx one a"]);
    let outcome = ran.outcome();
    assert!(outcome.starts_with("completed: done; nothing was changed"), "{outcome}");
    let text = "[task]\ngoal = \"g\"\ndriver = \"workflow\"\n[[task.driver_config.steps]]\nname = \"s\"\ntool = \"shell\"\n\
        parameters = { command = \"true\" }\n[[acceptance]]\nkind = \"shell\"\ncommand = \"grep -qx one a\"\n";
    fs::write(environment.folder().join("../task.toml"), text).unwrap();
    let ran = environment.run(&["run", "../task.toml", "--json"]);
    let outcome = ran.outcome();
    assert!(
        outcome.starts_with("verified") && outcome.contains("nothing was changed"),
        "{outcome}"
    );
}

#[test]
fn a_failed_check_is_in_the_workers_next_question_and_the_work_goes_on() {
    let environment = TestEnvironment::repository(&[("a", "one\n")]);
    let model = {
        let text = "[[replies]]\ntext = \"done\"\n[[replies]]\ntext = \"again\"\n[[replies.tool_calls]]\ntool = \"shell\"\n\
            input = { command = \"echo two > a\" }\n[[replies]]\ntext = \"done now\"\n";
        fs::write(environment.folder().join("../m.toml"), text).unwrap();
        format!("script/{}", environment.folder().join("../m.toml").display())
    };
    let check = "cat a; grep -qx two a";
    let args = ["run", "g", "--model", &model, "--profile", "open", "--json", "--check", check];
    let ran = environment.run(&args);
    assert_eq!(ran.outcome(), "verified: done now", "{}", ran.out);
    let passed: Vec<bool> = ran.checked().iter().map(|r| r["passed"] == true).collect();
    assert_eq!(passed, [false, true]);
    assert_eq!(ran.checked()[0]["evidence"], "one\n[exit code 1, expected 0]");
}

#[test]
fn a_worker_is_told_of_what_cannot_be_kept_and_hands_over_without_it() {
    let environment = TestEnvironment::repository(&[("a.txt", "1\n")]);
    // It makes a pipe, works on beside it, claims, is refused, and takes it away.
    let replies = [
        Some("mkfifo pipe"),
        Some("echo 2 > a.txt"),
        None,
        Some("test -p pipe && rm pipe"),
        None,
        None,
    ];
    let mut text = String::new();
    for reply in replies {
        text.push_str("[[replies]]\ntext = \"done\"\n");
        if let Some(command) = reply {
            let command = Value::from(command);
            text.push_str(&format!(
                "[[replies.tool_calls]]\ntool = \"shell\"\ninput = {{ command = {command} }}\n"
            ));
        }
    }
    let path = environment.folder().join("../worker.toml");
    fs::write(&path, text).unwrap();
    let model = format!("script/{}", path.display());
    let run = ["run", "do it", "--model", &model, "--profile", "open", "--json"];
    let ran = environment.run(&[&run[..], &["--check", "grep -q 2 a.txt"]].concat());
    assert_eq!(ran.code, 0, "{}\n{}", ran.out, ran.err);
    let events = ran.events();
    let kinds: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert!(kinds.contains(&"unkept") && kinds.contains(&"verdict_failed"), "{kinds:?}");
    assert!(ran.out.contains("incomplete: pipe is a pipe"), "{}", ran.out);
    let results = ran.checked();
    assert_eq!(results[0]["title"], "everything in the workspace can be kept");
    assert_eq!((&results[0]["passed"], &results[1]["passed"]), (&false.into(), &true.into()));
}

#[test]
fn a_process_that_is_killed_while_it_checks_leaves_nothing_and_the_check_is_done_again() {
    let environment = TestEnvironment::repository(&[("a", "one\n")]);
    let model = environment.worker(&["echo two > a"]);
    let beside = environment.folder().join("../flag");
    fs::create_dir(&beside).unwrap();
    let beside = beside.canonicalize().unwrap();
    let text = format!(
        "[task]\ngoal = \"g\"\ndriver = \"llm\"\n[task.driver_config]\nmodel = {model}\n[sandbox]\nwrite = [{write}]\n\
         [[acceptance]]\nkind = \"shell\"\n\
         command = \"touch {beside}/begun; test -e {beside}/go || sleep 600; grep -qx two a\"\n",
        model = Value::from(model),
        write = Value::from(beside.to_str().unwrap()),
        beside = beside.display(),
    );
    fs::write(environment.folder().join("../task.toml"), text).unwrap();
    let background = environment.start(&["run", "../task.toml", "--profile", "open"]);
    environment.until(|| beside.join("begun").exists().then_some(()));
    assert_eq!(environment.checkouts().len(), 1);
    background.signal("KILL");
    let id = background.id.clone();
    drop(background.wait());
    fs::write(beside.join("go"), "").unwrap();
    let ran = environment.run(&["resume", &id, "--json"]);
    assert_eq!(ran.outcome(), "verified: done", "{}{}", ran.out, ran.err);
    assert_eq!(environment.checkouts(), Vec::<PathBuf>::new());
}

const COMMIT: &str = "git add -A && git -c user.name=w -c user.email=w@w commit -qm work";

#[test]
fn work_in_a_repository_with_longer_names_is_verified() {
    let environment = TestEnvironment::new();
    environment.write("a", "one\n");
    environment.git(&["init", "-q", "--object-format=sha256", "--initial-branch=main"]);
    environment.commit_all("begin");
    let commit = format!("echo two > a && {COMMIT}");
    let ran = environment.work(&[&commit], &["--check", "grep -qx two a"]);
    assert_eq!(ran.outcome(), "verified: done", "{}{}", ran.out, ran.err);
    // An object of another content is one there too.
    let plant = "echo three > a && object=$(git hash-object -w a) && echo four > b && other=$(git hash-object -w b) && \
                 objects=$(git rev-parse --git-common-dir)/objects && chmod u+w $objects/??/* && \
                 cp $objects/$(echo $object | cut -c 1-2)/$(echo $object | cut -c 3-) \
                 $objects/$(echo $other | cut -c 1-2)/$(echo $other | cut -c 3-)";
    let ran = environment.work(&[plant], &["--check", "true"]);
    let evidence = ran.checked()[0]["evidence"].to_string();
    assert!(evidence.contains("not what its name says"), "{evidence}");
}

#[test]
fn a_tag_that_is_made_meanwhile_stops_no_check() {
    let environment = TestEnvironment::repository(&[("a", "one\n")]);
    // The worker may make the object, and not give it a name.
    let tag = "echo two > a; git -c user.name=w -c user.email=w@w tag -m x mine; true";
    let ran = environment.work(&[tag], &["--check", "grep -qx two a"]);
    assert_eq!(ran.outcome(), "verified: done", "{}{}", ran.out, ran.err);
}

#[test]
fn names_of_branches_and_tags_need_not_be_text() {
    let environment = TestEnvironment::repository(&[("a", "one\n")]);
    let named = |command: &str| {
        let shell = std::process::Command::new("sh")
            .args(["-c", &format!("name=$(printf 'caf\\351'); {command}")])
            .current_dir(environment.folder())
            .status();
        assert!(shell.unwrap().success(), "{command}");
    };
    environment.git(&["config", "user.name", "someone"]);
    environment.git(&["config", "user.email", "someone@example.org"]);
    named("git branch \"$name\" && git tag \"$name\"");
    named("git config \"branch.$name.remote\" here && git config filter.x.clean cat");
    let check = "grep -qx two a && test $(git for-each-ref refs/heads refs/tags | grep -c caf) = 2";
    let ran = environment.work(&["echo two > a"], &["--check", check]);
    assert_eq!(ran.outcome(), "verified: done", "{}{}", ran.out, ran.err);
    environment.ok(&["apply", &environment.id()]);
    named("git checkout -q \"$name\"");
    let ran = environment.work(&["echo three > a"], &["--check", "grep -qx three a"]);
    assert_eq!(ran.outcome(), "verified: done", "{}{}", ran.out, ran.err);
    environment.ok(&["apply", ran.events()[0]["task"].as_str().unwrap()]);
    named(
        "test \"$(git symbolic-ref HEAD)\" = \"refs/heads/$name\" && test $(git rev-list --count HEAD) = 2",
    );
}

/// A clone that has fetched all commits, and of trees and files only what is checked out.
#[test]
fn work_in_a_clone_without_its_older_trees_is_verified() {
    for filter in ["tree:0", "blob:none"] {
        let environment = TestEnvironment::new();
        let whole = environment.folder().join("../whole");
        let at = whole.to_str().unwrap();
        environment.git(&["init", "-q", "--initial-branch=main", at]);
        for content in ["one\n", "two\n"] {
            fs::create_dir_all(whole.join("sub")).unwrap();
            fs::write(whole.join("sub/a"), content).unwrap();
            environment.git(&["-C", at, "add", "-A"]);
            environment.git(&["-C", at, "commit", "-q", "-m", content]);
        }
        environment.git(&["-C", at, "config", "uploadpack.allowFilter", "true"]);
        let from = format!("file://{}", whole.canonicalize().unwrap().display());
        environment.git(&["clone", "-q", &format!("--filter={filter}"), &from, "."]);
        fs::rename(&whole, whole.with_extension("away")).unwrap();
        environment.git(&["config", "user.name", "someone"]);
        environment.git(&["config", "user.email", "someone@example.org"]);
        let work = format!("echo three > sub/a && {COMMIT}");
        let ran = environment.work(&[&work], &["--check", "grep -qx three sub/a"]);
        assert_eq!(ran.outcome(), "verified: done", "{filter}: {}{}", ran.out, ran.err);
        environment.ok(&["apply", &environment.id()]);
        assert_eq!(environment.read("sub/a"), "three\n");
    }
}
