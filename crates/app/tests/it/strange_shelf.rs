//! Workflows, prompts and agents of a project that nobody trusts: each command that reads them by name or looks at all of
//! them, before, after and once they are changed. A script marks every run by what it prints.

use serde_json::Value;

use crate::environment::TestEnvironment;
use crate::pty::Screen;

/// Tells that it was run by what it prints and by what it is called.
const SCRIPT: &str = "fn workflow() { #{ name: \"made\", description: \"it was run\" } }\n\
    fn steps(context) {\n    print(\"it was run\");\n    \
    [#{ name: \"a\", tool: \"shell\", parameters: #{ command: \"echo made >> out.txt\" } }]\n}\n";
const FILE: &str = "[workflow]\nname = \"plain\"\ndescription = \"it was read\"\n[[workflow.steps]]\nname = \"a\"\ntool = \"shell\"\n\
    parameters = { command = \"echo plain >> out.txt\" }\n";

fn strange() -> TestEnvironment {
    let place = TestEnvironment::new();
    place.write(".drivetrain/workflows/made.rhai", SCRIPT);
    place.write(".drivetrain/workflows/plain.toml", FILE);
    place.write(
        ".drivetrain/prompts/words.toml",
        "[meta]\ndescription = \"it was read\"\n[prompt]\ntext = \"Be brief.\"\n",
    );
    place.write(
        ".drivetrain/agents/mine.toml",
        "[agent]\nname = \"mine\"\ndescription = \"it was read\"\nworkflow = \"@workflows/made\"\n",
    );
    place
}

fn item(place: &TestEnvironment, kind: &str, name: &str) -> Value {
    let listed: Value = serde_json::from_str(&place.ok(&[kind, "list", "--json"])).unwrap();
    let items = listed["items"].as_array().unwrap().clone();
    items.into_iter().find(|item| item["name"] == name).unwrap_or_default()
}

#[test]
fn list_and_show_tell_the_name_of_what_nobody_trusts_and_read_nothing_of_it() {
    let place = strange();
    let all = [("workflow", "made"), ("workflow", "plain"), ("prompt", "words"), ("agent", "mine")];
    for (kind, name) in all {
        let listed = place.ok(&[kind, "list"]);
        assert!(listed.contains(name) && listed.contains("(not trusted)"), "{listed}");
        assert!(!listed.contains("it was"), "{listed}");
        let item = item(&place, kind, name);
        assert_eq!(
            (&item["trusted"], &item["ok"], &item["description"]),
            (&false.into(), &Value::Null, &"".into())
        );
        // What it says is there to be judged; what it would do is not.
        let shown = place.ok(&[kind, "show", name]);
        assert!(shown.contains("not trusted") && !shown.contains("description  it was"), "{shown}");
        let told: Value = serde_json::from_str(&place.ok(&[kind, "show", name, "--json"])).unwrap();
        assert!(told["text"].as_str().unwrap().contains("it was"), "{told}");
        assert!(
            told.get("description").is_none_or(|said| said == "") && told["trusted"] == false,
            "{told}"
        );
    }
    place.trust();
    for (kind, name) in all {
        let item = item(&place, kind, name);
        assert_eq!((&item["trusted"], &item["ok"]), (&true.into(), &true.into()), "{item}");
        assert!(item["description"].as_str().unwrap().starts_with("it was"), "{item}");
    }
}

#[test]
fn a_check_of_everything_runs_no_script_that_nobody_trusts() {
    let place = strange();
    for kind in ["workflow", "agent"] {
        let ran = place.run(&[kind, "check"]);
        assert_eq!(ran.code, 2, "{}", ran.err);
        assert!(ran.err.contains("the script is not trusted, so it is not run"), "{}", ran.err);
        assert!(!ran.out.contains("printed"), "{}", ran.out);
    }
    assert_eq!(place.run(&["prompt", "check"]).code, 0, "a text is only read");
    // Whoever names it wants it to be tried.
    assert!(place.ok(&["workflow", "check", "made"]).contains("printed  it was run"));
    place.trust();
    let said = place.ok(&["workflow", "check"]);
    assert!(said.contains("printed  it was run"), "{said}");
    place.write(".drivetrain/workflows/made.rhai", &format!("{SCRIPT}// changed\n"));
    assert!(!place.run(&["workflow", "check"]).out.contains("printed"));
}

#[test]
fn a_drawing_is_of_the_one_that_would_run() {
    let place = TestEnvironment::new();
    place.write(".drivetrain/workflows/review.toml", &FILE.replace("\"plain\"", "\"review\""));
    let drawn = place.ok(&["workflow", "graph", "review"]);
    assert!(!drawn.contains("echo plain"), "{drawn}");
    place.trust();
    assert!(place.ok(&["workflow", "graph", "review"]).contains("echo plain"));
}

#[test]
fn what_changed_since_it_was_trusted_is_not_run_by_its_name() {
    let place = strange();
    place.trust();
    let made: Vec<&[&str]> = vec![
        &["workflow", "run", "plain", "--in-place"],
        &["run", "do it", "--workflow", "plain", "--in-place"],
        &["run", "task.toml"],
        &["agent", "run", "mine", "do it", "--in-place"],
    ];
    place.write(
        "task.toml",
        "goal = \"x\"\ndriver = \"workflow\"\n[driver_config]\nworkflow = \"plain\"\n[workspace]\nkind = \"in_place\"\n",
    );
    for args in &made {
        place.ok(args);
    }
    assert_eq!(place.read("out.txt"), "plain\nplain\nplain\nmade\n");
    place.write(".drivetrain/workflows/plain.toml", &FILE.replace("echo plain", "echo changed"));
    place.write(".drivetrain/workflows/made.rhai", &SCRIPT.replace("echo made", "echo changed"));
    let before = place.tasks().len();
    for args in &made {
        let ran = place.run(args);
        assert_eq!(ran.code, 2, "{args:?}: {}{}", ran.out, ran.err);
        assert!(ran.err.contains("has changed since it was trusted"), "{}", ran.err);
        assert!(ran.err.contains("drivetrain trust"), "{}", ran.err);
    }
    let drawn = place.run(&["workflow", "graph", "plain"]);
    assert!(drawn.code == 2 && drawn.err.contains("has changed"), "{}", drawn.err);
    assert_eq!(place.tasks().len(), before, "nothing was recorded");
    place.ok(&["workflow", "run", "plain", "--in-place", "--trust"]);
    assert_eq!(place.run(made[0]).code, 2, "it was taken once");
    place.trust();
    place.ok(made[0]);
    assert_eq!(place.read("out.txt"), "plain\nplain\nplain\nmade\nchanged\nchanged\n");
}

#[test]
fn on_a_terminal_a_changed_file_is_shown_and_asked_about() {
    let place = strange();
    place.trust();
    place.write(".drivetrain/workflows/plain.toml", &FILE.replace("echo plain", "echo changed"));
    let mut screen = Screen::start(&place, &["workflow", "run", "plain", "--in-place"]);
    screen.until("changed").until("echo changed").until("Trust these files?");
    screen.enter("what is this?");
    screen.until("that is no answer to this question").until("Trust these files?");
    screen.enter("n");
    assert_eq!(screen.end(), 2);
    assert_eq!(place.read("out.txt"), "");
    let mut screen = Screen::start(&place, &["workflow", "run", "plain", "--in-place"]);
    screen.until("Trust these files?");
    screen.enter("y");
    assert_eq!(screen.end(), 0);
    assert_eq!(place.read("out.txt"), "changed\n");
    place.ok(&["workflow", "run", "plain", "--in-place"]);
}

#[test]
fn importing_a_file_and_asking_for_a_schema_read_nothing_of_the_project() {
    let place = strange();
    place.write("command.md", "Look at $ARGUMENTS and say what is wrong.\n");
    for (args, written) in [(&["import", "command.md"][..], true), (&["schema", "workflow"], false)]
    {
        let said = place.ok(args);
        assert!(!said.contains("it was r"), "{said}");
        assert_eq!(said.contains("written  "), written, "{said}");
    }
    // What was imported has to be trusted like anything else.
    assert_eq!(item(&place, "prompt", "command")["trusted"], false);
}
