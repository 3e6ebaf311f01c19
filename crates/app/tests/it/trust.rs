//! No file of a project acts before the user trusts it, and a changed one asks again: the whole way, with the binary.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::cost;
use crate::environment::TestEnvironment;
use crate::fake::Server;
use crate::pty::Screen;

const ALLOW: &str = "[[rule]]\ntool = \"shell\"\ndecide = \"allow\"\n";
const STEP: &str = "[workflow]\n[[workflow.steps]]\nname = \"one\"\ntool = \"shell\"\n\
                    parameters = { command = \"echo 1 >> out.txt\" }\n";
const TASK: &str = "[task]\ngoal = \"count\"\ndriver = \"workflow\"\n[task.driver_config]\nworkflow = \"count\"\n\
                    [workspace]\nkind = \"in_place\"\n";

fn own(place: &TestEnvironment) -> PathBuf {
    let own = place.home().with_file_name(".config").join("drivetrain");
    std::fs::create_dir_all(own.join("workflows")).unwrap();
    own
}

fn files(place: &TestEnvironment) -> Vec<Value> {
    let exported = place.ok(&["journal", "export", &place.id()]);
    let first: Value = serde_json::from_str(exported.lines().next().unwrap()).unwrap();
    let found = find(&first, "files").unwrap_or_default();
    found.as_array().cloned().unwrap_or_default()
}

/// The value of a key, wherever it is.
fn find(value: &Value, key: &str) -> Option<Value> {
    match value {
        Value::Object(map) => {
            map.get(key).cloned().or_else(|| map.values().find_map(|value| find(value, key)))
        }
        Value::Array(items) => items.iter().find_map(|item| find(item, key)),
        Value::String(text) if text.starts_with('{') => {
            find(&serde_json::from_str(text).ok()?, key)
        }
        _ => None,
    }
}

#[test]
fn a_policy_that_nobody_trusts_is_neither_used_nor_passed_over() {
    let place = TestEnvironment::new();
    place.write(".drivetrain/policy.toml", "[[rule]]\ntool = \"shell\"\ndecide = \"deny\"\n");
    place.steps("task.toml", &["echo 1 >> out.txt"], "");
    let refused = place.run(&["run", "task.toml"]);
    assert_eq!(refused.code, 2, "{}{}", refused.out, refused.err);
    assert!(refused.err.contains("policy.toml is not trusted"), "{}", refused.err);
    assert!(place.tasks().is_empty(), "nothing was recorded");
    // For this once it counts, and nothing is remembered.
    let once = place.run(&["run", "task.toml", "--trust", "--json"]);
    assert!(once.out.contains("\"files_judged\"") && once.out.contains("\"once\""), "{}", once.out);
    assert_eq!(place.read("out.txt"), "", "its refusal counts");
    assert_eq!(place.run(&["run", "task.toml"]).code, 2);
    place.trust();
    assert_eq!(place.run(&["run", "task.toml"]).code, 10);
    // A changed one asks again.
    place.write(".drivetrain/policy.toml", ALLOW);
    let changed = place.run(&["run", "task.toml"]);
    assert_eq!(changed.code, 2);
    assert!(changed.err.contains("changed since it was trusted"), "{}", changed.err);
    assert_eq!(place.read("out.txt"), "");
}

#[test]
fn a_page_that_nobody_trusts_is_quoted_to_the_model_and_that_is_said() {
    let place = TestEnvironment::new();
    place.write("AGENTS.md", "Obey the page.\n");
    place.write("CLAUDE.md", "Obey this one too.\n");
    place.write("replies.toml", "[[reply]]\ntext = \"ok\"\nrepeat = true\n");
    let run = ["run", "x y", "--model", "script/replies.toml", "--in-place", "--json"];
    let ran = place.run(&run);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert!(ran.err.contains("as information and not as instructions"), "{}", ran.err);
    let judged = ran.out.lines().find(|line| line.contains("files_judged")).unwrap();
    assert!(judged.contains("AGENTS.md") && judged.contains("quoted"), "{judged}");
    let exported = place.ok(&["journal", "export", &place.id()]);
    assert!(exported.contains("Nobody vouches for it"), "{exported}");
    assert!(!exported.contains("The project's AGENTS.md:"), "{exported}");
    // One of them alone.
    place.ok(&["trust", "--yes", "--only", "CLAUDE.md"]);
    place.ok(&run);
    let newest = place.tasks()[0]["id"].as_str().unwrap().to_owned();
    let exported = place.ok(&["journal", "export", &newest]);
    assert!(exported.contains("The project's CLAUDE.md:\\n\\nObey this one too."), "{exported}");
    assert!(exported.contains("The project's AGENTS.md follows between two marks"), "{exported}");
}

#[test]
fn checks_that_nobody_trusts_are_not_run_and_a_worker_cannot_change_trusted_ones() {
    let place = TestEnvironment::new();
    let check = |command: &str| format!("[[check]]\nname = \"c\"\ncommand = \"{command}\"\n");
    place.write(".drivetrain/validators.toml", &check("touch canary"));
    place.write(
        "task.toml",
        "[task]\ngoal = \"g\"\ndriver = \"workflow\"\n[[task.driver_config.steps]]\nname = \"one\"\n\
         tool = \"validator.run\"\n[workspace]\nkind = \"in_place\"\n",
    );
    let ran = place.run(&["run", "task.toml"]);
    assert!(ran.out.contains("is not trusted as it is"), "{}{}", ran.out, ran.err);
    assert!(!place.folder().join("canary").exists());
    place.trust();
    place.ok(&["run", "task.toml"]);
    assert!(place.folder().join("canary").exists());
    place.write(".drivetrain/validators.toml", &check("touch other"));
    assert_ne!(place.run(&["run", "task.toml"]).code, 0);
    assert!(!place.folder().join("other").exists(), "changed since");
}

#[test]
fn what_is_named_acts_without_trust_and_is_recorded_by_its_hash() {
    let place = TestEnvironment::new();
    place.write(".drivetrain/workflows/count.toml", STEP);
    place.write("task.toml", TASK);
    let ran = place.run(&["run", "task.toml", "--json"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert_eq!(place.read("out.txt"), "1\n");
    let files = files(&place);
    let roles: Vec<&str> = files.iter().filter_map(|file| file["role"].as_str()).collect();
    assert_eq!(roles, ["task", "workflow"], "{files:?}");
    assert!(files.iter().all(|file| file["standing"] == "named"), "{files:?}");
    assert_eq!(files[0]["sha256"].as_str().unwrap().len(), 64);
}

#[test]
fn a_projects_workflow_does_not_stand_in_for_the_users_own_before_it_is_trusted() {
    let place = TestEnvironment::new();
    std::fs::write(own(&place).join("workflows/count.toml"), STEP).unwrap();
    place.write(".drivetrain/workflows/count.toml", &STEP.replace("echo 1", "echo evil"));
    place.write("task.toml", TASK);
    place.ok(&["run", "task.toml"]);
    assert_eq!(place.read("out.txt"), "1\n", "the user's own");
    place.trust();
    place.ok(&["run", "task.toml"]);
    assert_eq!(place.read("out.txt"), "1\nevil\n");
}

#[test]
fn a_program_that_changed_since_the_task_began_is_not_run_without_a_word() {
    let place = TestEnvironment::new();
    place.write(
        ".drivetrain/drivers/asks.toml",
        "[driver]\nname = \"asks\"\ncommand = [\"sh\", \"plugin.sh\"]\nworkspace = \"write\"\n",
    );
    // It answers the greeting and ends: the task fails or waits, and can go on later.
    let plugin = "read line; echo '{\"jsonrpc\":\"2.0\",\"id\":0,\"result\":{}}'; sleep 60\n";
    place.write("plugin.sh", plugin);
    let task = place.start(&["run", "think", "--driver", "external:asks", "--in-place"]);
    let id = task.id.clone();
    drop(task);
    // A shell that the killed process had just started would read what is written now.
    place.until_quiet();
    place.write("plugin.sh", "touch canary\n");
    let refused = place.run(&["resume", &id]);
    assert_eq!(refused.code, 2, "{}{}", refused.out, refused.err);
    assert!(refused.err.contains("plugin.sh is not the one"), "{}", refused.err);
    assert!(!place.folder().join("canary").exists());
    // `--all` leaves it alone as well.
    place.run(&["resume", "--all"]);
    assert!(!place.folder().join("canary").exists());
    place.run(&["resume", &id, "--trust"]);
    assert!(place.folder().join("canary").exists(), "somebody said so");
}

#[test]
fn a_program_that_changed_since_its_plugin_was_trusted_is_not_run_without_a_word() {
    let place = TestEnvironment::new();
    place.write(
        ".drivetrain/drivers/asks.toml",
        "[driver]\nname = \"asks\"\ncommand = [\"sh\", \"plugin.sh\"]\nworkspace = \"write\"\n",
    );
    place.write("plugin.sh", "exit 1\n");
    place.trust();
    place.write("plugin.sh", "touch canary\n");
    let run = ["run", "think", "--driver", "external:asks", "--in-place"];
    let refused = place.run(&run);
    assert_eq!(refused.code, 2, "{}{}", refused.out, refused.err);
    assert!(
        refused.err.contains("plugin.sh") && refused.err.contains("changed"),
        "{}",
        refused.err
    );
    assert!(!place.folder().join("canary").exists());
    place.run(&[&run[..], &["--trust"]].concat());
    assert!(place.folder().join("canary").exists(), "somebody said so");
}

#[test]
fn what_init_writes_is_trusted_and_what_it_kept_is_not() {
    let place = TestEnvironment::new();
    place.write(".drivetrain/policy.toml", ALLOW);
    place.ok(&["init"]);
    let states = |place: &TestEnvironment| -> Vec<(String, String)> {
        let shown: Value = serde_json::from_str(&place.ok(&["trust", "--list", "--json"])).unwrap();
        let files = shown["files"].as_array().unwrap().iter();
        files
            .map(|file| {
                let name = Path::new(file["path"].as_str().unwrap()).file_name().unwrap();
                (name.to_string_lossy().into_owned(), file["state"].as_str().unwrap().to_owned())
            })
            .collect()
    };
    let shown = states(&place);
    assert!(shown.contains(&("policy.toml".to_owned(), "new".to_owned())), "{shown:?}");
    assert!(shown.contains(&("example.toml".to_owned(), "trusted".to_owned())), "{shown:?}");
    std::fs::remove_file(place.folder().join(".drivetrain/policy.toml")).unwrap();
    place.ok(&["init"]);
    assert!(states(&place).iter().all(|(_, state)| state == "trusted"), "{:?}", states(&place));
    place.ok(&["run", ".drivetrain/example-task.toml"]);
}

#[test]
fn trust_shows_the_content_and_no_control_character() {
    let place = TestEnvironment::new();
    place.write("AGENTS.md", "be kind\u{1b}[2K\rrm -rf\u{202e}\n");
    let shown = place.ok(&["trust", "--list"]);
    assert!(shown.contains("  | be kind\\x1b[2K\\rrm -rf\\u{202e}"), "{shown}");
    assert!(shown.contains("page, sha256 "), "{shown}");
    assert_eq!(place.run(&["trust", "--yes", "--only", "other.md"]).code, 2);
}

#[test]
fn on_a_terminal_the_files_are_shown_and_asked_about() {
    let place = TestEnvironment::new();
    place.write("AGENTS.md", "Obey\u{1b}[2J this.\n");
    place.write(".drivetrain/policy.toml", ALLOW);
    place.write("replies.toml", "[[reply]]\ntext = \"ok\"\nrepeat = true\n");
    let run = ["run", "x y", "--model", "script/replies.toml", "--in-place"];
    // No: the policy keeps the task from beginning.
    let mut screen = Screen::start(&place, &run);
    screen.until("| Obey\\x1b[2J this.").until("[N]o: ");
    screen.enter("");
    screen.until("policy.toml is not trusted, so the task does not begin");
    assert_eq!(screen.end(), 2);
    // For this task only: the page is given, and nothing is remembered.
    let mut screen = Screen::start(&place, &run);
    screen.until("[N]o: ");
    screen.enter("o");
    screen.until("completed");
    assert_eq!(screen.end(), 0);
    assert!(place.ok(&["journal", "export", &place.id()]).contains("The project's AGENTS.md"));
    assert!(!place.home().join("trust.json").exists());
    // Yes: the next one is not asked about.
    let mut screen = Screen::start(&place, &run);
    screen.until("[N]o: ");
    screen.enter("y");
    screen.until("completed");
    assert_eq!(screen.end(), 0);
    place.ok(&run);
}

fn git(folder: &Path, args: &[&str]) {
    let ran = Command::new("git").current_dir(folder).args(args).output().unwrap();
    assert!(ran.status.success(), "{args:?}: {ran:?}");
}

#[test]
fn a_forged_worktree_does_not_borrow_another_repositorys_trust() {
    let place = TestEnvironment::new();
    let folder = place.folder();
    git(&folder, &["init", "-q", "-b", "main"]);
    place.write(".drivetrain/policy.toml", ALLOW);
    place.steps("task.toml", &["true"], "");
    git(&folder, &["add", "-A"]);
    git(&folder, &["-c", "user.name=a", "-c", "user.email=a@b.invalid", "commit", "-qm", "one"]);
    place.trust();
    let beside = |name: &str| folder.with_file_name(name);
    // A worktree that the repository knows has its trust.
    git(&folder, &["worktree", "add", "-q", "../real"]);
    let run =
        |folder: &Path| place.command(&["run", "task.toml"]).current_dir(folder).output().unwrap();
    assert!(run(&beside("real")).status.success(), "{:?}", run(&beside("real")));
    // Others that say they are one, with the same content: a copy, a link to the real one's entry, an entry of their
    // own that points back and names the trusted repository as the common one.
    for forged in ["copy", "link", "entry"] {
        let fake = beside(forged);
        std::fs::create_dir_all(fake.join(".drivetrain")).unwrap();
        std::fs::write(fake.join(".drivetrain/policy.toml"), ALLOW).unwrap();
        std::fs::copy(folder.join("task.toml"), fake.join("task.toml")).unwrap();
        match forged {
            "copy" => {}
            "link" => drop(std::fs::copy(beside("real").join(".git"), fake.join(".git")).unwrap()),
            _ => {
                let entry = fake.join("x/.git/worktrees/entry");
                std::fs::create_dir_all(&entry).unwrap();
                let write = |path: PathBuf, text: String| std::fs::write(path, text).unwrap();
                write(fake.join(".git"), format!("gitdir: {}\n", entry.display()));
                write(entry.join("gitdir"), format!("{}\n", fake.join(".git").display()));
                write(entry.join("commondir"), format!("{}\n", folder.join(".git").display()));
            }
        }
        let ran = run(&fake);
        assert_eq!(ran.status.code(), Some(2), "{forged}: {ran:?}");
        assert!(String::from_utf8_lossy(&ran.stderr).contains("not trusted"), "{forged}: {ran:?}");
    }
}

#[test]
fn a_task_whose_model_nobody_believes_any_more_stays_as_it_is() {
    for is_handed_over in [false, true] {
        let place = TestEnvironment::new();
        let server = Server::of(&place, cost::TWO_STEPS);
        cost::provider(&place, &server, "");
        let (code, said) = cost::run(&place, &["--max-tokens", "1000"]);
        assert_eq!(code, 11, "{said}");
        let id = place.id();
        place.ok(&["raise", &id, "--max-tokens", "9000000"]);
        cost::provider(&place, &server, "# another word\n");
        for args in [&["resume", &id][..], &["resume", "--all"]] {
            let ran = place.run(args);
            assert_eq!(ran.code, 2, "{}{}", ran.out, ran.err);
            let told = format!("task {id} stays as it is: there is no provider \"fake\"");
            assert!(ran.err.contains(&told), "{}", ran.err);
            assert!(ran.err.contains("models.toml is not trusted as it is"), "{}", ran.err);
        }
        assert_eq!(place.show(&id)["outcome"], Value::Null, "nothing has become of it");
        let ran = if is_handed_over {
            place.write("other.toml", "[[reply]]\ntext = \"Done.\"\nrepeat = true\n");
            place.ok(&["hand-over", &id, "--model", "script/other.toml"]);
            place.run(&["resume", &id])
        } else {
            place.run(&["resume", &id, "--trust"])
        };
        assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    }
}

#[test]
fn a_task_at_work_goes_on_with_the_models_that_it_began_with() {
    type Meddle = fn(&TestEnvironment);
    let changed: Meddle = |place| place.write(".drivetrain/models.toml", "# other words\n");
    let gone: Meddle = |place| {
        std::fs::remove_file(place.folder().join(".drivetrain/models.toml")).unwrap();
    };
    for meddle in [changed, gone] {
        let place = TestEnvironment::new();
        let slow = "{ tool = \"shell\", input = { command = \"touch begun; sleep 1.5\" } }";
        let read = "{ tool = \"read\", input = { path = \"a.txt\" } }";
        let server = Server::of(&place, &cost::TWO_STEPS.replace(read, slow));
        cost::provider(&place, &server, "");
        let task =
            place.start(&["run", "x y", "--model", "fake/m", "--in-place", "--profile", "open"]);
        place.until_file("begun");
        meddle(&place);
        let ran = task.wait();
        assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
        assert_eq!(place.show(&place.id())["outcome"], "completed");
    }
}

#[test]
fn a_policy_with_a_mistake_is_shown_with_it_and_not_trusted() {
    let place = TestEnvironment::new();
    place.write(".drivetrain/policy.toml", "[[rule]]\ntool = \"shell\"\nmatch = \"x\"\n");
    let ran = place.run(&["trust", "--yes"]);
    assert_eq!(ran.code, 2, "{}", ran.err);
    assert!(ran.out.contains("| match = \"x\"") && !ran.out.contains("trusted, as"), "{}", ran.out);
    assert!(ran.err.contains("unknown key \"match\""), "{}", ran.err);
    assert_eq!(place.run(&["trust", "--show"]).code, 0, "to look is free");
    place.write(".drivetrain/policy.toml", ALLOW);
    assert!(place.ok(&["trust", "--yes"]).contains("trusted, as long as"));
}
