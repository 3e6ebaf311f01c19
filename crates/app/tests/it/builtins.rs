//! The workflows that come with drivetrain, each in a repository of its own with a model that follows a script: what is
//! done well ends well, and what is not done never ends as done.

use serde_json::Value;

use crate::environment::TestEnvironment;

const TEST: &str = "sh tests/run.sh";

/// A project whose `double.sh` doubles a number, with a test for it.
fn project() -> TestEnvironment {
    let place = TestEnvironment::new();
    place.write("double.sh", "echo $(( $1 * 2 ))\n");
    place.write(
        "tests/run.sh",
        "for test in tests/*.t; do sh \"$test\" || { echo \"$test failed\"; exit 1; }; done\n",
    );
    place.write("tests/two.t", "test \"$(sh double.sh 2)\" = 4\n");
    place.write(".gitignore", "replies.toml\n");
    place.git(&["init", "--quiet"]);
    place.commit_all("first");
    place
}

fn says(text: &str) -> String {
    format!("[[reply]]\ntext = {}\n", Value::from(text))
}

fn writes(path: &str, content: &str) -> String {
    let (path, content) = (Value::from(path), Value::from(content));
    format!(
        "[[reply]]\ntext = \"I write.\"\ntool_calls = [{{ tool = \"write\", input = {{ path = {path}, content = {content} }} }}]\n"
    )
}

/// Runs a workflow with a script; its exit code, its outcome and its outputs.
fn run(place: &TestEnvironment, name: &str, inputs: &[&str], script: &[String]) -> (i32, Value) {
    // A script has at least one reply; one that fails shows that nobody asked for it.
    let unasked = ["[[reply]]\nstatus = 400\n".to_owned()];
    let script = if script.is_empty() { &unasked } else { script };
    place.write("replies.toml", &script.concat());
    let mut args = vec!["--json", "workflow", "run", name, "--model", "script/replies.toml"];
    for input in inputs {
        args.extend(["--input", input]);
    }
    let ran = place.run(&args);
    let last = ran.out.lines().last().unwrap_or_default();
    let last = serde_json::from_str(last)
        .unwrap_or_else(|_| panic!("{name} ({}): {}{}", ran.code, ran.out, ran.err));
    (ran.code, last)
}

fn ends(
    place: &TestEnvironment,
    name: &str,
    inputs: &[&str],
    script: &[String],
    code: i32,
) -> Value {
    let (ended, last) = run(place, name, inputs, script);
    assert_eq!(ended, code, "{name}: {last:#}");
    last
}

const BROKEN: &str = "echo $(( $1 + 2 ))\n";
const RIGHT: &str = "echo $(( $1 * 2 ))\n";
const CHECK: &str = "[[check]]\nname = \"test\"\ncommand = \"sh tests/run.sh\"\n";

fn checked(double: &str) -> TestEnvironment {
    let place = project();
    place.write(".drivetrain/validators.toml", CHECK);
    place.write("double.sh", double);
    place.write("tests/three.t", "test \"$(sh double.sh 3)\" = 6\n");
    place.commit_all("second");
    place.trust();
    place
}

#[test]
fn validate_fix_asks_nobody_if_all_is_well_and_validates_again_after_a_repair() {
    ends(&checked(RIGHT), "validate-fix", &[], &[], 0);
    let repair = [writes("double.sh", RIGHT), says("It adds where it should multiply.")];
    ends(&checked(BROKEN), "validate-fix", &[], &repair, 0);
}

#[test]
fn validate_fix_is_stuck_if_nothing_helps() {
    let idle: Vec<String> = (0..4).map(|_| says("It is fine as it is.")).collect();
    ends(&checked(BROKEN), "validate-fix", &[], &idle, 14);
}

#[test]
fn review_gives_findings_with_places_and_fails_on_anything_else() {
    let place = project();
    place.write("double.sh", BROKEN);
    place.commit_all("second");
    let answer = r#"{"summary": "It adds.", "findings": [{"file": "double.sh", "line": 1, "severity": "must", "what": "2 + 3"}]}"#;
    let last = ends(&place, "review", &[], &[says(answer)], 0);
    assert_eq!(last["outputs"]["findings"][0]["severity"], "must", "{last:#}");
    let place = project();
    place.write("double.sh", BROKEN);
    place.commit_all("second");
    let prose: Vec<String> = (0..6).map(|_| says("Looks good to me!")).collect();
    let (code, last) = run(&place, "review", &[], &prose);
    assert!(matches!(code, 10 | 14), "{last:#}");
}

const SHOWS: &str = "test \"$(sh double.sh 3)\" = 6\n";

fn issue() -> TestEnvironment {
    let place = project();
    place.write("double.sh", BROKEN);
    place.commit_all("second");
    place
}

const INPUTS: [&str; 2] = ["issue=three is not doubled", "test=sh tests/run.sh"];

#[test]
fn fix_issue_goes_from_red_to_green() {
    let script = [
        writes("tests/three.t", SHOWS),
        says("It expects 6 and gets 5."),
        writes("double.sh", RIGHT),
        says("It added."),
    ];
    ends(&issue(), "fix-issue", &INPUTS, &script, 0);
}

#[test]
fn fix_issue_is_never_done_without_a_red_test_or_with_a_bent_one() {
    let idle: Vec<String> = (0..6).map(|_| says("There is no issue.")).collect();
    ends(&issue(), "fix-issue", &INPUTS, &idle, 14);
    let bends = [
        writes("tests/three.t", SHOWS),
        says("It fails."),
        writes("tests/three.t", "true\n"),
        says("It passes."),
    ];
    ends(&issue(), "fix-issue", &INPUTS, &bends, 10);
}

#[test]
fn refactor_safely_keeps_the_tests_green_and_untouched() {
    let test = format!("test={TEST}");
    let script = [writes("double.sh", "expr \"$1\" + \"$1\"\n"), says("Simpler.")];
    let last = ends(&project(), "refactor-safely", &[&test], &script, 0);
    assert_eq!(
        last["outcome"]["outcome"].as_str().or(last["outcome"].as_str()),
        Some("verified"),
        "{last:#}"
    );
    let breaks: Vec<String> =
        (0..5).flat_map(|_| [writes("double.sh", "echo 7\n"), says("Simpler.")]).collect();
    let (code, last) = run(&project(), "refactor-safely", &[&test], &breaks);
    assert!(matches!(code, 10 | 14), "{last:#}");
    let bends = [
        writes("double.sh", "echo 7\n"),
        writes("tests/two.t", "true\n"),
        says("Simpler."),
        says("Simpler."),
        says("Simpler."),
    ];
    let (code, last) = run(&project(), "refactor-safely", &[&test], &bends);
    assert!(matches!(code, 10 | 14), "{last:#}");
}

#[test]
fn update_dependency_adapts_the_code_to_what_the_command_changed() {
    let test = format!("test={TEST}");
    // The "dependency" is how a number is given.
    let update = "command=sed -i 's/double.sh 2/double.sh --of 2/' tests/two.t";
    let adapt = [writes("double.sh", "echo $(( $2 * 2 ))\n"), says("It has a flag now.")];
    ends(&project(), "update-dependency", &[update, &test], &adapt, 0);
    let idle: Vec<String> = (0..5).map(|_| says("Nothing to do.")).collect();
    ends(&project(), "update-dependency", &[update, &test], &idle, 14);
    ends(&project(), "update-dependency", &["command=true", &test], &[], 10);
}

#[test]
fn write_tests_adds_tests_and_leaves_the_code_alone() {
    let inputs = ["path=double.sh", "test=sh tests/run.sh"];
    let script = [writes("tests/zero.t", "test \"$(sh double.sh 0)\" = 0\n"), says("Zero.")];
    ends(&project(), "write-tests", &inputs, &script, 0);
    let idle: Vec<String> = (0..4).map(|_| says("It is tested enough.")).collect();
    ends(&project(), "write-tests", &inputs, &idle, 14);
    let meddles = [writes("double.sh", "echo 4\n"), says("Zero.")];
    ends(&project(), "write-tests", &inputs, &meddles, 10);
}

#[test]
fn triage_tells_who_is_wrong_and_asks_nobody_if_the_test_passes() {
    let place = project();
    let last = ends(&place, "triage-failing-test", &["test=true"], &[], 0);
    assert_eq!(last["outputs"]["verdict"], "passes", "{last:#}");
    let answer = r#"{"cause": "code", "where": "double.sh:1", "explanation": "It adds."}"#;
    let last = ends(&project(), "triage-failing-test", &["test=false"], &[says(answer)], 0);
    assert_eq!(last["outputs"]["verdict"], "code", "{last:#}");
    let guess: Vec<String> = (0..6).map(|_| says("Probably the weather.")).collect();
    let (code, last) = run(&project(), "triage-failing-test", &["test=false"], &guess);
    assert!(matches!(code, 10 | 14), "{last:#}");
}
