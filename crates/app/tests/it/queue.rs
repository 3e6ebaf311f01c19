//! Verified tasks on their way into a branch: together with what is there, one at a time, killed at any moment.

use std::cell::RefCell;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::environment::{Ran, TestEnvironment};

fn place() -> TestEnvironment {
    let place = TestEnvironment::new();
    place.write("text", "one\ntwo\nthree\n");
    place.git(&["init", "--quiet", "--initial-branch=main"]);
    place.git(&["config", "user.name", "someone"]);
    place.git(&["config", "user.email", "someone@example.org"]);
    place.commit_all("first");
    place
}

/// A verified task whose model runs one command, and another one when it is told that something failed.
fn task(place: &TestEnvironment, name: &str, [first, then]: [&str; 2], checks: &[&str]) -> String {
    let call = |command: &str| {
        let command = Value::from(command);
        format!(
            "[[reply]]\ntool_calls = [{{ tool = \"shell\", input = {{ command = {command} }} }}]\n"
        )
    };
    let script = format!(
        "{}[[reply]]\ntext = \"done\"\n{}[[reply]]\ntext = \"mended\"\nrepeat = 5\n",
        call(first),
        call(then)
    );
    place.write(&format!("../{name}.toml"), &script);
    let (goal, model) = (format!("goal {name}"), format!("script/../{name}.toml"));
    let mut arguments = vec!["run", &goal, "--model", &model, "--profile", "open", "--json"];
    checks.iter().for_each(|check| arguments.extend(["--check", check]));
    let ran = place.run(&arguments);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let first: Value = serde_json::from_str(ran.out.lines().next().unwrap()).unwrap();
    first["task"].as_str().unwrap().to_owned()
}

/// Runs the queue; what happened, as pairs of word and task.
fn worked(place: &TestEnvironment, code: i32) -> Vec<(String, String)> {
    let ran = place.run(&["queue", "run", "--json"]);
    assert_eq!(ran.code, code, "{}{}", ran.out, ran.err);
    told(&ran)
}

fn told(ran: &Ran) -> Vec<(String, String)> {
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let lines = ran.out.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let lines = lines.filter(|line| line["type"] != "integrating" && line["type"] != "queue_ran");
    lines.map(|line| (word(&line["type"]), word(&line["task"]))).collect()
}

fn pairs(expected: &[(&str, &String)]) -> Vec<(String, String)> {
    expected.iter().map(|(word, id)| ((*word).to_owned(), (*id).clone())).collect()
}

/// A command in the background, which ends with its test.
struct Background(Option<Child>);

impl Background {
    fn start(place: &TestEnvironment, arguments: &[&str]) -> Background {
        let mut command = place.command(arguments);
        Background(Some(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()))
    }

    fn signal(&self, name: &str) {
        let pid = self.0.as_ref().unwrap().id().to_string();
        let sent = Command::new("kill").args([&format!("-{name}"), &pid]).status().unwrap();
        assert!(sent.success());
    }

    fn wait(mut self, place: &TestEnvironment) -> Ran {
        place.ran(self.0.take().unwrap().wait_with_output().unwrap())
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Waits until criteria run in a clean checkout.
fn until_verifying(place: &TestEnvironment) {
    let busy = |entry: std::fs::DirEntry| {
        let is_checkouts = entry.file_name().to_string_lossy().ends_with(".checkouts");
        is_checkouts
            && std::fs::read_dir(entry.path()).is_ok_and(|mut inside| inside.next().is_some())
    };
    place.until(|| {
        let run = std::fs::read_dir(place.home().join("run")).ok()?;
        run.flatten().any(busy).then_some(())
    });
}

fn commits_of(place: &TestEnvironment, id: &str) -> usize {
    let log = place.git(&["log", "--format=%B", "main"]);
    log.matches(&format!("Drivetrain-Task: {id}")).count()
}

const AT_MOST_ONE: &str = "test $(ls parts 2>/dev/null | wc -l) -le 1";

#[test]
fn what_breaks_together_is_reopened_with_the_failure_and_comes_in_once_mended() {
    let place = place();
    let [a, b] = [
        task(&place, "a", ["mkdir -p parts; echo a > parts/a", "true"], &[AT_MOST_ONE]),
        task(
            &place,
            "b",
            ["mkdir -p parts; echo b > parts/b", "cat parts/a >> parts/b && rm parts/a"],
            &[AT_MOST_ONE],
        ),
    ];
    place.ok(&["queue", "add", &a, &b]);
    let base = place.git(&["rev-parse", "main"]);
    assert_eq!(worked(&place, 10), pairs(&[("integrated", &a), ("reopened", &b)]));
    assert_eq!(place.read("parts/a"), "a\n");
    assert_eq!(place.git(&["status", "--porcelain"]), "");
    assert_eq!(place.git(&["rev-parse", "main~1"]), base, "one commit on top of what was there");
    let shown = place.show(&a);
    assert_eq!(shown["integrated"]["branch"], "main");
    assert_eq!(shown["integrated"]["commit"], place.git(&["rev-parse", "main"]));
    assert_eq!(shown["integrated"]["tree"], place.git(&["rev-parse", "main^{tree}"]));
    let log = place.ok(&["log", &b]);
    assert!(log.contains("reopened: together with main it does not pass: shell: test"), "{log}");
    assert_eq!(place.show(&b)["phase"], "idle");
    assert_eq!(place.run(&["resume", &b, "--quiet"]).code, 0);
    let exported = place.ok(&["journal", "export", &b]);
    assert!(exported.contains("(together with main)"), "the model was told");
    place.ok(&["queue", "add", &b]);
    assert_eq!(worked(&place, 0), pairs(&[("integrated", &b)]));
    assert_eq!(place.read("parts/b"), "b\na\n");
    assert_eq!(place.git(&["ls-files", "parts"]), "parts/b");
    assert_eq!(place.git(&["status", "--porcelain"]), "");
    let shown = place.ok(&["show", &b]);
    assert!(shown.contains("integrated in main as "), "{shown}");
}

/// In the repository of a check, the commit before HEAD is the one that the change is put on.
#[test]
fn a_check_sees_the_change_on_top_of_what_it_is_put_on() {
    let place = place();
    place.write("other", "1\n");
    place.commit_all("other");
    let only = |name: &str| format!("test \"$(git diff --name-only HEAD~1)\" = {name}");
    let id = task(&place, "a", ["echo a > a", "true"], &[&only("a")]);
    place.write("other", "2\n");
    place.commit_all("meanwhile");
    place.ok(&["queue", "add", &id]);
    assert_eq!(worked(&place, 0), pairs(&[("integrated", &id)]));
    // One that is reopened stands on the tip from then on.
    let id = task(&place, "b", ["cp other b", "cp other b"], &[&only("b"), "cmp other b"]);
    place.write("other", "3\n");
    place.commit_all("again");
    place.ok(&["queue", "add", &id]);
    assert_eq!(worked(&place, 10), pairs(&[("reopened", &id)]));
    let ran = place.run(&["resume", &id, "--quiet"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    place.ok(&["queue", "add", &id]);
    assert_eq!(worked(&place, 0), pairs(&[("integrated", &id)]));
    assert_eq!(place.read("b"), "3\n");
}

#[test]
fn what_collides_is_reopened_on_the_files_of_both() {
    let place = place();
    let marks = "! grep -q '^<<<' text";
    let a = task(&place, "a", ["sed -i s/two/TWO/ text", "true"], &[marks]);
    let mend = "cp text seen; sed -i -e '/^[<=>]/d' -e /TWO/d text";
    let b = task(&place, "b", ["sed -i s/two/zwei/ text", mend], &[marks]);
    place.ok(&["queue", "add", &a, &b]);
    assert_eq!(worked(&place, 10), pairs(&[("integrated", &a), ("reopened", &b)]));
    let shown = place.ok(&["queue", "show", &b]);
    assert!(shown.contains("was reopened: it collides with main in text"), "{shown}");
    assert_eq!(place.read("text"), "one\nTWO\nthree\n");
    assert_eq!(place.run(&["resume", &b, "--quiet"]).code, 0);
    place.ok(&["queue", "add", &b]);
    assert_eq!(worked(&place, 0), pairs(&[("integrated", &b)]));
    assert_eq!(place.read("text"), "one\nzwei\nthree\n");
    let seen = place.read("seen");
    let marked = format!("<<<<<<< branch-main\nTWO\n=======\nzwei\n>>>>>>> task-{b}\n");
    assert_eq!(seen, format!("one\n{marked}three\n"));
}

/// An older checkpoint has not what others brought: handed over, it would take that away again.
#[test]
fn a_checkpoint_from_before_the_branch_was_taken_in_says_what_it_lacks() {
    let place = place();
    let a = task(&place, "a", ["echo theirs > theirs", "true"], &["true"]);
    let b = task(&place, "b", ["echo mine > mine", "rm theirs"], &["test ! -e theirs"]);
    place.ok(&["queue", "add", &a, &b]);
    assert_eq!(worked(&place, 10), pairs(&[("integrated", &a), ("reopened", &b)]));
    let preview = ["rollback", &b, "--to", "2", "--preview"];
    let lacks = "from before the task was put on main";
    assert!(!place.ok(&preview).contains(lacks), "it is not yet on it");
    place.ok(&["resume", &b]);
    assert!(place.ok(&preview).contains(lacks));
    let fork = place.run(&["fork", &b, "--at", "2"]);
    assert_eq!(fork.code, 2, "{}", fork.out);
    assert!(fork.err.contains(lacks), "{}", fork.err);
    assert!(place.ok(&["rollback", &b, "--to", "2"]).contains(lacks));
    assert!(!place.ok(&["rollback", &b, "--to", "4"]).contains(lacks));
}

/// What is not verified is handed over as its files are, or claimed again from there.
#[test]
fn a_task_that_is_not_verified_again_does_not_go_back_to_before_the_branch_was_taken_in() {
    let place = place();
    let a = task(&place, "a", ["echo theirs > theirs", "true"], &["true"]);
    let b = task(&place, "b", ["echo mine > mine", "true"], &["test ! -e theirs"]);
    place.ok(&["queue", "add", &a, &b]);
    assert_eq!(worked(&place, 10), pairs(&[("integrated", &a), ("reopened", &b)]));
    assert_ne!(place.run(&["resume", &b]).code, 0);
    let refused = place.run(&["rollback", &b, "--to", "2"]);
    assert_eq!(refused.code, 2, "{}{}", refused.out, refused.err);
    assert!(refused.err.contains("from before the task was put on main"), "{}", refused.err);
    let theirs = place.home().join("worktrees").join(&b).join("theirs");
    assert!(theirs.exists(), "nothing was changed");
    place.ok(&["rollback", &b, "--to", "4"]);
    assert!(theirs.exists());
}

#[test]
fn a_branch_that_moves_meanwhile_is_looked_at_again() {
    let place = place();
    let id = task(&place, "a", ["echo a > a", "true"], &["sleep 2"]);
    place.ok(&["queue", "add", &id]);
    place.write("other", "1\n");
    place.commit_all("before");
    let running = Background::start(&place, &["queue", "run", "--json"]);
    until_verifying(&place);
    place.write("other", "2\n");
    place.commit_all("meanwhile");
    let ran = running.wait(&place);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert_eq!(told(&ran), pairs(&[("moved", &id), ("integrated", &id)]));
    assert_eq!((place.read("other"), place.read("a")), ("2\n".to_owned(), "a\n".to_owned()));
    assert_eq!(place.git(&["log", "--format=%s", "main"]), "goal a\nmeanwhile\nbefore\nfirst");
}

#[test]
fn a_checkout_with_changes_is_left_alone_until_they_are_gone() {
    let place = place();
    let id = task(&place, "a", ["echo a > a", "true"], &["test -e a"]);
    let other = task(&place, "b", ["echo b > b", "true"], &["test -e b"]);
    place.git(&["branch", "beside"]);
    place.ok(&["queue", "add", &id]);
    place.ok(&["queue", "add", &other, "--onto", "beside"]);
    place.write("text", "mine\n");
    let tip = place.git(&["rev-parse", "main"]);
    // Another branch goes on meanwhile.
    assert_eq!(worked(&place, 13), pairs(&[("held", &id), ("integrated", &other)]));
    assert_eq!((place.read("text").as_str(), place.read("a").as_str()), ("mine\n", ""));
    assert_eq!(place.git(&["rev-parse", "main"]), tip);
    let said = place.run(&["queue", "run"]).out;
    assert!(said.contains("(commit or stash them)"), "{said}");
    assert!(!said.contains("--"), "options of another command: {said}");
    assert_eq!(place.git(&["show", "beside:b"]), "b");
    place.commit_all("mine");
    assert_eq!(worked(&place, 0), pairs(&[("integrated", &id)]));
    assert_eq!((place.read("text").as_str(), place.read("a").as_str()), ("mine\n", "a\n"));
}

/// A submodule's place cannot hold files of a task, whoever tidies up.
#[test]
fn a_task_that_can_never_be_integrated_holds_up_nobody() {
    let place = place();
    let module = format!("160000,{},module", place.git(&["rev-parse", "HEAD"]));
    place.git(&["update-index", "--add", "--cacheinfo", &module]);
    place.git(&["commit", "--quiet", "-m", "with a submodule"]);
    std::fs::create_dir(place.folder().join("module")).unwrap();
    let a = task(&place, "a", ["mkdir -p module; echo a > module/a", "true"], &["true"]);
    let b = task(&place, "b", ["echo b > b", "true"], &["true"]);
    place.ok(&["queue", "add", &a, &b]);
    assert_eq!(worked(&place, 10), pairs(&[("refused", &a), ("integrated", &b)]));
    let shown = place.ok(&["queue", "show", &a]);
    assert!(shown.contains("where the submodule module belongs"), "{shown}");
}

#[test]
fn killed_at_any_moment_a_task_is_in_the_branch_once() {
    let place = place();
    let ids: Vec<String> = ["a", "b", "c"]
        .map(|name| {
            let file = format!("echo {name} > {name}");
            task(&place, name, [&file, "true"], &["sleep 1"])
        })
        .to_vec();
    place.write("other", "1\n");
    place.commit_all("before");
    place.ok(&["queue", "add", &ids[0], &ids[1], &ids[2]]);
    // While the criteria run.
    let running = Background::start(&place, &["queue", "run"]);
    until_verifying(&place);
    running.signal("KILL");
    running.wait(&place);
    // A child that it was just starting holds its lock until it is the program that it is to be.
    let listed = place.until(|| {
        let listed = place.ok(&["queue", "list", "--json"]);
        let listed: Value = serde_json::from_str(&listed).unwrap();
        listed["runner"].is_null().then_some(listed)
    });
    assert_eq!(listed["entries"][0]["stage"], "integrating");
    assert_eq!(place.run(&["queue", "drop", &ids[0]]).code, 2);
    // Right after the branch has moved, again and again.
    for _ in 0..3 {
        let tip = place.git(&["rev-parse", "main"]);
        let running = RefCell::new(Background::start(&place, &["queue", "run"]));
        let has_ended = || {
            let mut running = running.borrow_mut();
            running.0.as_mut().is_some_and(|child| child.try_wait().unwrap().is_some())
        };
        place.until(|| (has_ended() || place.git(&["rev-parse", "main"]) != tip).then_some(()));
        if !has_ended() {
            running.borrow().signal("KILL");
        }
        running.into_inner().wait(&place);
    }
    // A git that was killed with the user's own index open leaves its lock there, which is not ours to remove: it is said,
    // and the person removes it.
    let lock = place.folder().join(".git/index.lock");
    if lock.exists() {
        let waits = place.run(&["queue", "run"]);
        assert!(waits.code == 13 && waits.out.contains("index.lock"), "{}{}", waits.out, waits.err);
        std::fs::remove_file(lock).unwrap();
    }
    let ran = place.run(&["queue", "run"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    for (id, name) in ids.iter().zip(["a", "b", "c"]) {
        assert_eq!(commits_of(&place, id), 1, "{}", place.git(&["log", "--format=%B", "main"]));
        assert_eq!(place.read(name), format!("{name}\n"));
        let integrated = place.types(id).into_iter().filter(|word| word == "integrated").count();
        assert_eq!(integrated, 1);
    }
    assert_eq!(place.git(&["status", "--porcelain"]), "");
}

#[test]
fn ten_in_a_row_come_in_in_their_order() {
    let place = place();
    let names: Vec<String> = (0..10).map(|n| format!("t{n}")).collect();
    let make = |name: &String| {
        let file = format!("echo {name} > {name}");
        task(&place, name, [&file, "true"], &[&format!("test -e {name}")])
    };
    let ids: Vec<String> = std::thread::scope(|scope| {
        let made: Vec<_> = names.iter().map(|name| scope.spawn(move || make(name))).collect();
        made.into_iter().map(|made| made.join().unwrap()).collect()
    });
    for id in &ids[1..] {
        place.ok(&["queue", "add", id]);
    }
    place.ok(&["queue", "add", &ids[0], "--front"]);
    let expected: Vec<(&str, &String)> = ids.iter().map(|id| ("integrated", id)).collect();
    assert_eq!(worked(&place, 0), pairs(&expected));
    let subjects: Vec<String> = names.iter().rev().map(|name| format!("goal {name}")).collect();
    assert_eq!(place.git(&["log", "--format=%s", "main"]), subjects.join("\n") + "\nfirst");
}

#[test]
fn one_process_works_on_it_and_takes_what_is_added_until_it_is_stopped() {
    let place = place();
    let id = task(&place, "a", ["echo a > a", "true"], &["test -e a"]);
    let watching = Background::start(&place, &["queue", "run", "--watch", "--json"]);
    let pid = watching.0.as_ref().unwrap().id();
    let works = format!("process {pid} works on the queue");
    place.until(|| place.ok(&["queue", "show"]).contains(&works).then_some(()));
    let second = place.run(&["queue", "run"]);
    assert_eq!(second.code, 2);
    assert!(second.err.contains(&format!("{works} already")), "{}", second.err);
    place.ok(&["queue", "add", &id]);
    place.until(|| (place.read("a") == "a\n").then_some(()));
    place.until(|| place.ok(&["queue", "show", &id]).contains("is in main, as").then_some(()));
    watching.signal("INT");
    let ran = watching.wait(&place);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert_eq!(told(&ran), pairs(&[("integrated", &id)]));
}

#[test]
fn only_what_is_proven_and_not_yet_in_goes_into_the_queue() {
    let place = place();
    let refused = |arguments: &[&str], said: &str| {
        let ran = place.run(arguments);
        assert_eq!(ran.code, 2, "{arguments:?} {}", ran.out);
        assert!(ran.err.contains(said), "{said}\n{}", ran.err);
    };
    let id = task(&place, "a", ["echo a > a", "true"], &["test -e a"]);
    let unproven = task(&place, "b", ["echo b > b", "true"], &[]);
    refused(&["queue", "add", &unproven], "is not verified: it ended as completed");
    refused(&["queue", "add", &id, "--onto", "nowhere"], "is not a branch of yours");
    let own = format!("drivetrain/{id}");
    refused(&["queue", "add", &id, "--onto", &own], "is not a branch of yours");
    refused(&["queue", "drop", &id], "does not wait in the queue");
    refused(&["queue", "show", &id], "is not in the queue");
    refused(&["queue", "add", &id, &unproven], "is not verified");
    assert!(place.ok(&["queue", "list"]).contains("the queue is empty"));
    place.ok(&["queue", "add", &id]);
    refused(&["queue", "add", &id], "is in the queue already, for main");
    place.ok(&["queue", "drop", &id]);
    assert_eq!(worked(&place, 0), []);
    place.ok(&["queue", "add", &id]);
    assert_eq!(worked(&place, 0), pairs(&[("integrated", &id)]));
    refused(&["queue", "add", &id], "is in main already, as");
    refused(&["resume", &id], "has ended: verified");
}
