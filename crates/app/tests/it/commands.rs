//! The smaller commands, and how tasks are named.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::environment::{Ran, TestEnvironment};

#[test]
fn a_prefix_is_enough_if_only_one_task_begins_so() {
    let environment = TestEnvironment::new();
    for _ in 0..33 {
        assert_eq!(
            environment.run(&["run", "x", "--driver", "user", "--no-workspace", "--quiet"]).code,
            13
        );
    }
    // 33 ids over 32 letters: two of them begin alike.
    let ids: Vec<String> =
        environment.tasks().iter().map(|task| task["id"].as_str().unwrap().to_owned()).collect();
    let alike =
        ids.iter().find(|id| ids.iter().filter(|other| other[..1] == id[..1]).count() > 1).unwrap();
    let ran = environment.run(&["show", &alike[..1]]);
    assert_eq!(ran.code, 2);
    assert!(
        ran.err.contains("more than one task") && ran.err.contains(alike.as_str()),
        "{}",
        ran.err
    );
    assert_eq!(environment.show(alike)["id"], alike.as_str());
    assert_eq!(environment.show(&alike[..11].to_uppercase())["id"], alike.as_str());
    let swapped = format!("{}{}", &alike[..10], if alike.ends_with('0') { "1" } else { "0" });
    let ran = environment.run(&["show", &format!("{swapped}u")]);
    assert!(ran.err.contains("did you mean"), "{}", ran.err);
    assert_eq!(environment.run(&["show", "../x"]).code, 2);
}

#[test]
fn a_task_is_shown_whole() {
    let environment = TestEnvironment::new();
    let check = "[[acceptance]]\nkind = \"shell\"\ncommand = \"true\"\n";
    environment.steps("task.toml", &["true"], check);
    environment.ok(&["run", "task.toml", "--quiet"]);
    let shown = environment.ok(&["show", &environment.id()]);
    let steady: Vec<&str> = shown
        .lines()
        .filter(|line| !line.starts_with("started") && !line.starts_with("last news"))
        .collect();
    insta::assert_snapshot!(environment.plain(&steady.join("\n")), @"
    task ID: make the numbers add up
    standing   verified
    driver     workflow
    spent      1 turn, 1 tool call, TIME
    folder     FOLDER
    workspace  FOLDER (in place)
    sandbox    full, network none
    records    5
    receipt    RECEIPT
    criteria
      passed: shell: true (TIME)
    drivetrain why ID says more about how it stands
    ");
}

#[test]
fn each_criterion_is_shown_with_its_own_result_and_so_is_what_is_protected() {
    let environment = TestEnvironment::new();
    environment.git(&["init", "--quiet"]);
    environment.write("a", "1");
    environment.commit_all("first");
    let check = "[[acceptance]]\nkind = \"shell\"\ncommand = \"echo ok\"\n";
    let wants = format!("{check}stdout = \"never said\"\n");
    let more = format!("protect = [\"tests/**\"]\n{check}{wants}");
    environment.worktree_steps("task.toml", &["mkdir tests; echo 1 > tests/new"], &more);
    assert_eq!(environment.run(&["run", "task.toml", "--quiet"]).code, 10);
    let shown = environment.ok(&["show", &environment.id()]);
    let criteria = shown.lines().skip_while(|line| *line != "criteria").collect::<Vec<_>>();
    insta::assert_snapshot!(environment.plain(&criteria.join("\n")), @"
    criteria
      passed: shell: echo ok (TIME)
      failed, exit 0: shell: echo ok (TIME)
      failed: protect: tests/** (TIME)
    drivetrain why ID says more about how it stands
    ");
}

#[test]
fn times_are_told_where_the_zone_that_tz_names_is() {
    let environment = TestEnvironment::new();
    environment.run(&["run", "x", "--driver", "user", "--no-workspace", "--quiet"]);
    // One zone: a time of the second form without a rule of its own before the footer, which says it all.
    let half = |version: u8| {
        let mut bytes = [b"TZif".as_slice(), &[version], &[0; 15]].concat();
        [0_u32, 0, 0, 0, 1, 4].iter().for_each(|count| bytes.extend(count.to_be_bytes()));
        bytes.extend(32_400_i32.to_be_bytes());
        bytes.extend(b"\0\0XST\0");
        bytes
    };
    let zone = [half(b'2'), half(b'2'), b"\nXST-9\n".to_vec()].concat();
    std::fs::create_dir_all(environment.home().join("zones/Some")).unwrap();
    std::fs::write(environment.home().join("zones/Some/Where"), zone).unwrap();
    let started = |zone: &str| {
        let mut command = environment.command(&["show", &environment.id()]);
        command.env("TZ", zone).env("TZDIR", environment.home().join("zones"));
        let ran = environment.ran(command.output().unwrap());
        ran.out.lines().find(|line| line.starts_with("started")).unwrap_or_default().to_owned()
    };
    assert_eq!(started("Some/Where"), started("XST-9"));
    assert_ne!(started("Some/Where"), started("UTC0"));
}

#[test]
fn init_writes_an_example_that_works_and_overwrites_nothing() {
    let environment = TestEnvironment::new();
    environment.write(".drivetrain/policy.toml", "# mine\n");
    insta::assert_snapshot!(environment.ok(&["init"]), @"
    written  .drivetrain/workflows/example.toml
    written  .drivetrain/drivers/README.md
    written  .drivetrain/example-task.toml
    kept     .drivetrain/policy.toml
    next     drivetrain run .drivetrain/example-task.toml
    ");
    assert_eq!(environment.read(".drivetrain/policy.toml"), "# mine\n");
    std::fs::remove_file(environment.folder().join(".drivetrain/policy.toml")).unwrap();
    environment.ok(&["init"]);
    let ran = environment.run(&["run", ".drivetrain/example-task.toml"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let again: Value = serde_json::from_str(&environment.ok(&["init", "--json"])).unwrap();
    assert_eq!(again["written"].as_array().unwrap().len(), 0);
    assert_eq!(again["kept"].as_array().unwrap().len(), 4);
    assert!(environment.ok(&["drivers"]).contains("example"));
}

#[test]
fn init_says_what_stands_where_its_folder_would() {
    let environment = TestEnvironment::new();
    environment.write(".drivetrain", "mine\n");
    let ran = environment.run(&["init"]);
    assert_eq!(ran.code, 20, "{}", ran.out);
    assert!(ran.err.contains(".drivetrain is there, and it is not a folder"), "{}", ran.err);
    assert_eq!(environment.read(".drivetrain"), "mine\n");
}

#[test]
fn a_doctor_names_a_folder_of_sockets_that_others_may_use() {
    use std::os::unix::fs::PermissionsExt;
    let environment = TestEnvironment::new();
    environment.ok(&["doctor"]);
    let run = environment.home().join("run");
    std::fs::set_permissions(&run, std::fs::Permissions::from_mode(0o755)).unwrap();
    let ran = environment.run(&["doctor"]);
    assert_eq!(ran.code, 20, "{}", ran.out);
    assert!(ran.out.contains("others may use it (mode 755)"), "{}", ran.out);
}

#[test]
fn a_doctor_names_what_is_missing_and_how_to_mend_it() {
    let environment = TestEnvironment::new();
    let healthy: Value = serde_json::from_str(&environment.ok(&["doctor", "--json"])).unwrap();
    assert_eq!((&healthy["v"], &healthy["ok"]), (&1.into(), &true.into()));
    let output = environment.command(&["doctor"]).env("PATH", "/nowhere").output().unwrap();
    assert_eq!(output.status.code(), Some(20));
    let page = String::from_utf8(output.stdout).unwrap();
    assert!(page.contains("broken  sh") && page.contains("mend: install git"), "{page}");
}

#[test]
fn without_git_a_task_that_needs_a_worktree_does_not_begin() {
    let environment = TestEnvironment::new();
    let run = |options: &[&str]| {
        let words = ["run", "tidy up", "--driver", "user"].iter().chain(options).copied();
        let mut command = environment.command(&words.collect::<Vec<&str>>());
        environment.ran(command.env("PATH", "/nowhere").output().unwrap())
    };
    environment.git(&["init", "--quiet"]);
    assert_eq!(run(&[]).code, 13, "without a commit there is nothing to make one of");
    environment.write("a", "1");
    environment.commit_all("first");
    let ran = run(&[]);
    assert_eq!(ran.code, 20, "{}{}", ran.out, ran.err);
    assert!(
        ran.err.contains("there is no git on PATH") && ran.err.contains("--in-place"),
        "{}",
        ran.err
    );
    assert_eq!(environment.tasks().len(), 1, "nothing was begun");
    assert_eq!(run(&["--in-place"]).code, 13);
}

#[test]
fn a_journal_is_verified_exported_and_rebuilt() {
    let environment = TestEnvironment::new();
    environment.steps("task.toml", &["true"], "");
    environment.ok(&["run", "task.toml", "--quiet"]);
    let report: Value =
        serde_json::from_str(&environment.ok(&["journal", "verify", "--json"])).unwrap();
    assert_eq!(report["sound"], true);
    let said = environment.ok(&["journal", "verify"]);
    assert!(said.starts_with("sound: 1 task, "), "{said}");
    let exported = environment.ok(&["journal", "export", &environment.id()]);
    let first: Value = serde_json::from_str(exported.lines().next().unwrap()).unwrap();
    assert_eq!(first["n"], 1);
    assert_eq!(first["body"]["cmd"]["start"]["goal"], "make the numbers add up");
    environment.ok(&["journal", "rebuild"]);
    assert_eq!(environment.show(&environment.id())["outcome"], "completed");
}

#[test]
fn what_a_tool_said_at_length_is_missed_when_it_is_gone() {
    let environment = TestEnvironment::new();
    environment.steps("task.toml", &["seq 1 100000"], "");
    environment.ok(&["run", "task.toml", "--quiet"]);
    environment.ok(&["journal", "verify"]);
    let blobs = environment.home().join("journal/blobs");
    let shelf = std::fs::read_dir(&blobs).unwrap().next().unwrap().unwrap().path();
    let blob = std::fs::read_dir(shelf).unwrap().next().unwrap().unwrap().path();
    std::fs::remove_file(blob).unwrap();
    let ran = environment.run(&["journal", "verify"]);
    assert_eq!(ran.code, 20, "{}", ran.out);
    let told = format!("of task {} names, is missing", environment.id());
    assert!(ran.out.contains(&told) && ran.out.contains("the records are whole"), "{}", ran.out);
}

#[test]
fn resume_all_goes_on_with_everything_that_can() {
    let environment = TestEnvironment::new();
    assert_eq!(environment.ok(&["resume", "--all"]), "nothing to resume\n");
    environment.steps(
        "one.toml",
        &["touch one; while ! test -e go; do sleep 0.02; done", "echo a >> out.txt"],
        "",
    );
    let task = environment.start(&["run", "one.toml"]);
    environment.until_file("one");
    task.signal("TERM");
    environment.until_draining(&task.id);
    environment.write("go", "");
    assert_eq!(task.wait().code, 13);
    assert_eq!(environment.run(&["run", "x", "--driver", "user"]).code, 13);
    let ran = environment.run(&["resume", "--all"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("1 task waits for a person"), "{}", ran.out);
    assert_eq!(environment.read("out.txt"), "a\n");
}

#[test]
fn an_empty_home_is_no_error() {
    let environment = TestEnvironment::new();
    insta::assert_snapshot!(environment.ok(&["list"]), @"
    no tasks yet
      drivetrain run --help shows how to start one
    ");
    assert_eq!(environment.ok(&["list", "--json"]), "{\"tasks\":[],\"v\":1}\n");
    assert_eq!(environment.ok(&["approvals"]), "nobody is asked anything\n");
    assert_eq!(environment.run(&["why", "abc"]).code, 2);
}

/// Runs it with these variables, and ends it if it hangs (124).
fn run_for_a_while(place: &TestEnvironment, args: &[&OsStr], variables: &[(&str, &OsStr)]) -> Ran {
    let plain = place.command(&[]);
    let mut command = Command::new("timeout");
    command.arg("20").arg(plain.get_program()).args(args).current_dir(place.folder()).env_clear();
    command.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.envs(variables.iter().copied());
    place.ran(command.stdin(Stdio::null()).output().unwrap())
}

#[test]
fn a_variable_that_is_no_text_is_no_reason_to_hang() {
    let place = TestEnvironment::new();
    let strange = OsStr::from_bytes(b"/tmp/caf\xe9");
    let ran = run_for_a_while(&place, &["list".as_ref()], &[("PWD", strange), ("X", strange)]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{}", ran.out);
    // As far as it is text it is kept out of what is printed, like any other key.
    let key = OsStr::from_bytes(b"hidden-0815-\xe9-0816");
    let ran = run_for_a_while(&place, &["import".as_ref(), key], &[("MY_TOKEN", key)]);
    assert_eq!(ran.code, 2, "{}{}", ran.out, ran.err);
    assert!(ran.err.contains("[redacted: MY_TOKEN]"), "{}", ran.err);
    assert!(!ran.err.contains("0815"), "{}", ran.err);
}

#[test]
fn output_that_cannot_be_written_is_an_error_and_a_reader_that_left_is_none() {
    let place = TestEnvironment::new();
    place.steps("task.toml", &["true"], "");
    let full = || std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let ran = place.ran(place.command(&["run", "task.toml"]).stdout(full()).output().unwrap());
    let said = "error: cannot write to standard output: ";
    // The task is done, whoever hears of it.
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.err.starts_with(said), "{}", ran.err);
    let id = place.id();
    for args in [
        &["journal", "export", &id][..],
        &["show", &id, "--json"],
        &["log", &id],
        &["list"],
        &["completions", "bash"],
        &["--help"],
    ] {
        let ran = place.ran(place.command(args).stdout(full()).output().unwrap());
        assert_eq!(ran.code, 20, "{args:?} {}", ran.err);
        assert!(ran.err.contains("cannot write to standard output: "), "{args:?} {}", ran.err);
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let ran = place.ran(place.command(args).stdout(writer).output().unwrap());
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{args:?}");
    }
}

#[test]
fn every_driver_says_what_it_is_and_built_in_workflows_are_not_denied() {
    let place = TestEnvironment::new();
    let listed: Value = serde_json::from_str(&place.ok(&["drivers", "--json"])).unwrap();
    for driver in listed["drivers"].as_array().unwrap() {
        assert!(!driver["summary"].as_str().unwrap().is_empty(), "{driver}");
    }
    let said = place.ok(&["drivers"]);
    assert!(said.contains("drivetrain workflow list shows the built-in ones"), "{said}");
}
