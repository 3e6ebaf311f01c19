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

/// A verified task in a worktree, and its receipt in a file beside the repository.
fn with_receipt(steps: &[&str], more: &str) -> (TestEnvironment, String, String) {
    let (place, task) = repository(steps, more);
    place.ok(&["run", &task]);
    let file = place.home().with_file_name("r.json").to_str().unwrap().to_owned();
    let id = place.id();
    place.ok(&["receipt", &id, "-o", &file]);
    (place, id, file)
}

/// The same files and objects, and a journal that knows nothing.
fn elsewhere(place: &TestEnvironment) {
    std::fs::rename(place.home(), place.home().with_file_name("another-home")).unwrap();
}

fn commit_result(place: &TestEnvironment) {
    // What `apply` and `push` come to: the tree is in the repository.
    place.write("a.txt", "one\ntwo\n");
    for arguments in [
        &["add", "."][..],
        &["-c", "user.name=u", "-c", "user.email=u@x.invalid", "commit", "--quiet", "-m", "second"],
    ] {
        let git = Command::new("git").args(arguments).current_dir(place.folder()).output().unwrap();
        assert!(git.status.success(), "{git:?}");
    }
}

/// Changes a receipt's file and makes its digest right again.
fn forge(file: &str, change: impl FnOnce(&mut machine::receipt::Receipt)) {
    let mut receipt = machine::receipt::Receipt::read(&std::fs::read(file).unwrap()).unwrap();
    change(&mut receipt);
    receipt.id = receipt.digest();
    std::fs::write(file, receipt.write()).unwrap();
}

#[test]
fn a_receipt_of_this_journal_holds_and_is_run_again_on_its_own_tree() {
    let (place, id, file) = with_receipt(&["echo two >> a.txt"], TWO_LINES);
    // What happens to the worktree afterwards has no part in it.
    let worktree = place.show(&id)["workspace"].as_str().unwrap().to_owned();
    std::fs::write(format!("{worktree}/a.txt"), "spoilt\n").unwrap();
    for named in [&id, &file] {
        let ran = place.run(&["verify", named]);
        assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
        assert!(ran.out.contains("the journal agrees"), "{}", ran.out);
        assert_eq!(ran.out.matches("    holds: ").count(), 2, "{}", ran.out);
    }
    let told = json(&place.ok(&["verify", &id, "--json"]));
    assert_eq!(told["conclusion"], "holds");
    assert_eq!(told["journal"]["standing"], "agrees");
    assert_eq!(told["again"]["criteria"][0]["same_output"], true);
    assert!(
        !std::fs::read_dir(place.home().join("run"))
            .unwrap()
            .any(|entry| { entry.unwrap().file_name().to_string_lossy().starts_with("verify-") })
    );
}

#[test]
fn checkpoints_that_were_damaged_are_not_taken_for_the_tree() {
    let (place, id, _) = with_receipt(&["echo two >> a.txt"], TWO_LINES);
    // What they hold is not what their names say.
    let store = place.home().join(format!("checkpoints/{id}.git/objects"));
    let mut damaged = 0;
    for folder in std::fs::read_dir(store).unwrap().flatten() {
        for object in std::fs::read_dir(folder.path()).into_iter().flatten().flatten() {
            if folder.file_name().len() == 2 {
                let path = object.path();
                let chmod = Command::new("chmod").arg("u+w").arg(&path).status().unwrap();
                assert!(chmod.success());
                let mut bytes = std::fs::read(&path).unwrap();
                let last = bytes.len() - 1;
                bytes[last] ^= 0xff;
                std::fs::write(&path, bytes).unwrap();
                damaged += 1;
            }
        }
    }
    assert!(damaged > 0);
    let ran = place.run(&["verify", &id]);
    assert_eq!(ran.code, 20, "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("damaged"), "{}", ran.out);
}

#[test]
fn a_receipt_that_the_journal_contradicts_is_forged_and_nothing_of_it_is_run() {
    let (place, _, file) = with_receipt(&["echo two >> a.txt"], TWO_LINES);
    let canary = place.home().with_file_name("canary");
    let touch = machine::task::Criterion::shell(format!("touch {}", canary.display()));
    forge(&file, |receipt| {
        receipt.results[0].title = touch.title();
        receipt.criteria[0] = touch.clone();
        receipt.criteria_sha256 = machine::receipt::criteria_digest(&receipt.criteria);
    });
    let ran = place.run(&["verify", &file, "--yes"]);
    assert_eq!(ran.code, 10, "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("criteria[0].command") && ran.out.contains("forged"), "{}", ran.out);
    assert!(ran.out.contains("nothing was run") && !canary.exists());
    // Every field that somebody might want to be another.
    let (place, _, file) = with_receipt(&["echo two >> a.txt"], TWO_LINES);
    let original = std::fs::read(&file).unwrap();
    let changes: [fn(&mut machine::receipt::Receipt); 8] = [
        |receipt| receipt.goal = "another".to_owned(),
        |receipt| receipt.journal.chain = "0".repeat(32),
        |receipt| receipt.journal.record += 1,
        |receipt| receipt.result.as_mut().unwrap().tree = "0".repeat(40),
        |receipt| receipt.results[0].millis += 1,
        |receipt| receipt.results[1].exit = Some(0),
        |receipt| receipt.spend.turns = 0,
        |receipt| receipt.sandbox = "full, network open".to_owned(),
    ];
    for (n, change) in changes.into_iter().enumerate() {
        std::fs::write(&file, &original).unwrap();
        forge(&file, change);
        let ran = place.run(&["verify", &file, "--json"]);
        assert_eq!(ran.code, 10, "{n}: {}{}", ran.out, ran.err);
        assert_eq!(json(&ran.out)["conclusion"], "forged", "{n}");
    }
}

#[test]
fn a_receipt_for_a_task_that_is_not_verified_is_forged() {
    let (_verified, _, file) = with_receipt(&["echo two >> a.txt"], TWO_LINES);
    let (place, task) = repository(&["true"], TWO_LINES);
    assert_ne!(place.run(&["run", &task]).code, 0);
    let failed = place.id();
    forge(&file, |receipt| receipt.task.0 = failed);
    let ran = place.run(&["verify", &file]);
    assert_eq!(ran.code, 10, "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("the journal has no such verdict: it ended"), "{}", ran.out);
}

#[test]
fn a_receipt_from_elsewhere_is_run_only_after_a_yes_and_on_the_tree_of_this_repository() {
    let (place, _, file) = with_receipt(&["echo two >> a.txt"], TWO_LINES);
    elsewhere(&place);
    let ran = place.run(&["verify", &file]);
    assert_eq!((ran.code, ran.out.as_str()), (20, ""), "{}", ran.err);
    assert!(ran.err.contains("--yes"), "{}", ran.err);
    // Nobody has applied it here: the tree is not in this repository.
    let ran = place.run(&["verify", &file, "--yes"]);
    assert_eq!(ran.code, 20, "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("has no tree"), "{}", ran.out);
    commit_result(&place);
    let ran = place.run(&["verify", &file, "--yes"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("no such task") && ran.out.contains("holds: receipt"), "{}", ran.out);
}

#[test]
fn what_a_forged_receipt_from_elsewhere_claims_is_found_out_by_running_it() {
    let (place, _, file) = with_receipt(&["echo two >> a.txt"], TWO_LINES);
    commit_result(&place);
    elsewhere(&place);
    // It says that a criterion passed which does not, and that there was no sandbox.
    let lie = machine::task::Criterion::shell(
        "grep -q three a.txt; touch $HOME/canary; grep -q three a.txt",
    );
    forge(&file, |receipt| {
        receipt.results[0].title = lie.title();
        receipt.criteria[0] = lie.clone();
        receipt.criteria_sha256 = machine::receipt::criteria_digest(&receipt.criteria);
        receipt.environment.sandbox = machine::policy::sandbox::Level::Off;
        receipt.sandbox = machine::policy::sandbox::SandboxSpec::off().said();
    });
    let ran = place.run(&["verify", &file, "--yes"]);
    assert_eq!(ran.code, 10, "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("does not hold: shell: grep -q three"), "{}", ran.out);
    assert!(!place.home().with_file_name("canary").exists());
}

#[test]
fn what_is_no_receipt_ends_with_2_and_never_with_a_panic() {
    let (place, _, file) = with_receipt(&["echo two >> a.txt"], TWO_LINES);
    let whole = std::fs::read(&file).unwrap();
    let mut tampered = whole.clone();
    let at = whole.windows(4).position(|part| part == b"make").unwrap();
    tampered[at] = b'f';
    let deep = "[".repeat(100_000);
    for (n, bytes) in
        [&tampered[..], &whole[..whole.len() / 2], b"", b"{}", b"\xff\xfe", deep.as_bytes()]
            .into_iter()
            .enumerate()
    {
        std::fs::write(&file, bytes).unwrap();
        let ran = place.run(&["verify", &file, "--yes"]);
        assert_eq!(ran.code, 2, "{n}: {}{}", ran.out, ran.err);
        assert!(!ran.err.contains("panicked") && ran.err.contains("receipt"), "{n}: {}", ran.err);
    }
    for named in ["/nowhere/r.json", "/dev/zero", ".", "zzzz"] {
        let ran = place.run(&["verify", named]);
        assert_eq!(ran.code, 2, "{named}: {}{}", ran.out, ran.err);
    }
}

#[test]
fn a_receipt_of_a_task_in_place_cannot_be_run_again() {
    let environment = TestEnvironment::new();
    environment.steps(
        "task.toml",
        &["echo 1 > out.txt"],
        "[[acceptance]]\nkind = \"shell\"\ncommand = \"true\"\n",
    );
    environment.ok(&["run", "task.toml"]);
    let ran = environment.run(&["verify", &environment.id()]);
    assert_eq!(ran.code, 20, "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("worked in place"), "{}", ran.out);
}
