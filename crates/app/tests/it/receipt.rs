//! Receipts of real tasks: shown, written, and bound to the journal.

use std::process::Command;

use serde_json::Value;

use crate::environment::TestEnvironment;

/// A repository with one commit, and a task file outside of it whose steps are these commands.
pub(crate) fn repository(steps: &[&str], more: &str) -> (TestEnvironment, String) {
    let place = TestEnvironment::new();
    place.write("a.txt", "one\n");
    for arguments in [
        &["init", "--quiet", "-b", "main"][..],
        &["add", "."],
        &["-c", "user.name=u", "-c", "user.email=u@x.invalid", "commit", "--quiet", "-m", "first"],
    ] {
        let git = Command::new("git").args(arguments).current_dir(place.folder()).output().unwrap();
        assert!(git.status.success(), "{git:?}");
    }
    place.steps("../task.toml", steps, "");
    let task = place.home().with_file_name("task.toml");
    let text = std::fs::read_to_string(&task).unwrap().replace("in_place", "worktree");
    std::fs::write(&task, format!("{text}{more}")).unwrap();
    (place, task.to_str().unwrap().to_owned())
}

pub(crate) const TWO_LINES: &str = "[[acceptance]]\nkind = \"shell\"\ncommand = \"test $(wc -l < a.txt) -eq 2 && echo fine\"\n\
     [[acceptance]]\nkind = \"file\"\npath = \"a.txt\"\npattern = \"two\"\n";

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn a_verified_task_has_a_receipt_that_everything_names() {
    let (place, task) = repository(&["echo two >> a.txt"], TWO_LINES);
    let out = place.ok(&["run", &task, "--json"]);
    let id = place.id();
    let receipt = json(&place.ok(&["receipt", &id, "--json"]));
    let named = receipt["id"].as_str().unwrap();
    assert_eq!(named.len(), 64);
    let last = json(out.lines().last().unwrap());
    assert_eq!(last["receipt"], named);
    assert_eq!(place.events(&id).last().unwrap(), &last);
    assert_eq!(place.show(&id)["receipt"], named);
    assert_eq!(json(&place.ok(&["why", &id, "--json"]))["receipt"], named);
    for command in ["show", "why"] {
        assert!(place.ok(&[command, &id]).contains(&named[..12]), "{command}");
    }
    // What it says is what happened.
    assert_eq!((&receipt["task"], &receipt["drivetrain_receipt"]), (&id.clone().into(), &1.into()));
    assert_eq!(receipt["criteria"].as_array().unwrap().len(), 2);
    assert_eq!(receipt["results"][0]["exit"], 0);
    assert_eq!(receipt["results"][1]["passed"], true);
    let head = Command::new("git").args(["rev-parse", "HEAD"]).current_dir(place.folder()).output();
    assert_eq!(receipt["commit"], String::from_utf8(head.unwrap().stdout).unwrap().trim());
    let records = place.ok(&["journal", "export", &id]);
    let at = usize::try_from(receipt["journal"]["record"].as_u64().unwrap()).unwrap();
    let record = records.lines().find(|line| json(line)["n"] == at).unwrap();
    assert!(record.contains("verified"), "{record}");
    // The same again, to the byte: it is made of the journal alone.
    std::fs::remove_dir_all(place.home().join("worktrees")).unwrap();
    assert_eq!(json(&place.ok(&["receipt", &id, "--json"])), receipt);
}

#[test]
fn a_receipt_is_written_into_a_new_file_only() {
    let (place, task) = repository(&["echo two >> a.txt"], TWO_LINES);
    place.ok(&["run", &task]);
    let id = place.id();
    assert!(place.ok(&["receipt", &id, "-o", "r.json"]).starts_with("receipt "));
    assert_eq!(place.read("r.json"), place.ok(&["receipt", &id, "--json"]));
    let ran = place.run(&["receipt", &id, "-o", "r.json"]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("r.json exists, and is not overwritten"), "{}", ran.err);
    let ran = place.run(&["receipt", &id, "-o", "no/such/folder.json"]);
    assert_eq!(ran.code, 20, "{}", ran.err);
}

#[test]
fn a_task_that_is_not_verified_has_none_and_is_told_how_it_ended() {
    let (place, task) = repository(&["true"], "");
    place.ok(&["run", &task]);
    let id = place.id();
    let ran = place.run(&["receipt", &id]);
    assert_eq!((ran.code, ran.out.as_str()), (2, ""));
    insta::assert_snapshot!(place.plain(&ran.err), @"
    error: task ID has no receipt: it ended completed
      hint: only a task whose criteria all passed is given one
      hint: drivetrain why ID says more about how it stands
    ");
    assert!(place.show(&id).get("receipt").is_none());
    let (place, task) = repository(&["exit 3"], TWO_LINES);
    assert_eq!(place.run(&["run", &task]).code, 10);
    assert!(place.run(&["receipt", &place.id()]).err.contains("it ended failed"));
    assert_eq!(place.run(&["receipt", "zzzz"]).code, 2);
}

#[test]
fn a_receipt_fits_a_screen_and_says_plainly_where_walls_were_missing() {
    let environment = TestEnvironment::new();
    environment.steps(
        "task.toml",
        &["echo 1 > out.txt"],
        "[[acceptance]]\nkind = \"shell\"\ncommand = \"true\"\n",
    );
    environment.ok(&["run", "task.toml", "--no-sandbox"]);
    let shown = environment.ok(&["receipt", &environment.id()]);
    assert!(shown.contains("sandbox    off: commands had all the rights of your user"), "{shown}");
    assert!(shown.contains("whatever lay there took part"), "{shown}");
    assert!(shown.lines().count() <= 24, "{shown}");
}
