//! The tools for code through the real binary, as each driver reaches them.

use crate::environment::TestEnvironment;

const CHECKS: &str = "[[check]]\nname = \"words\"\ncommand = \"\"\"\ngrep -q good src/a.py || { echo \
                      'src/a.py:1:1: error: not good'; exit 1; }\"\"\"\n";

fn place() -> TestEnvironment {
    let place = TestEnvironment::new();
    place.write("src/a.py", "def bad(x):\n    return x\n");
    place.write(".drivetrain/validators.toml", CHECKS);
    place
}

#[test]
fn a_person_types_their_short_forms() {
    let place = place();
    let lines = "skeleton src\nview bad\nvalidator.run\nmemory write style Short names.\nmemory list\ndone\n";
    let ran = place.run_with(&["run", "x", "--driver", "user", "--in-place"], lines);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    for shown in [
        "  | src/a.py\n  | 1  def bad(x)\n",
        "  | src/a.py:1-2  bad\n  | def bad(x):\n  |     return x\n",
        "  | failed: words (exit 1)\n  | src/a.py:1:1 error not good\n",
        "  | style (13 bytes)  Short names.\n",
    ] {
        assert!(ran.out.contains(shown), "{shown}\nin\n{}", ran.out);
    }
    // A later task of the same project knows the note.
    let later = place
        .run_with(&["run", "y", "--driver", "user", "--in-place"], "memory read style\ndone\n");
    assert!(later.out.contains("  | Short names.\n"), "{}", later.out);
}

#[test]
fn a_model_asks_for_a_check_under_a_name_that_every_provider_takes() {
    let place = place();
    place.write(
        "replies.toml",
        r#"
[[reply]]
tool_calls = [{ tool = "validator_run", input = {} }]

[[reply]]
match = "src/a.py:1:1 error not good"
tool_calls = [{ tool = "write", input = { path = "src/a.py", content = "def good(x):\n    return x\n" } }]

[[reply]]
tool_calls = [{ tool = "validator_run", input = { only = ["words"] } }]

[[reply]]
match = "ok: words"
text = "It is good now."
"#,
    );
    let run = &["run", "make it good", "--model", "script/replies.toml", "--in-place"];
    // It runs code of the workspace: who may only look is refused, who may build is not.
    let refused = place.run(&[&run[..], &["--profile", "read-only"]].concat());
    assert!(refused.out.contains("no rule allows validator.run"), "{}", refused.out);
    let ran = place.run(run);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("completed: It is good now."), "{}", ran.out);
}

#[test]
fn a_workflow_names_them_as_any_other_tool() {
    let place = place();
    place.write(
        "task.toml",
        r#"
[task]
goal = "look"
driver = "workflow"
[workspace]
kind = "in_place"
[[workflow.steps]]
name = "validate"
tool = "validator.run"
on_error = "skip"
[[workflow.steps]]
name = "outline"
tool = "skeleton"
parameters = { path = "src" }
"#,
    );
    let ran = place.run(&["run", "task.toml"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("  | 1  def bad(x)\n"), "{}", ran.out);
    place.write(
        "wrong.toml",
        "[task]\ngoal = \"x\"\ndriver = \"workflow\"\n[[workflow.steps]]\nname = \"a\"\ntool = \
         \"memory\"\nparameters = { action = \"lst\" }\n",
    );
    let wrong = place.run(&["run", "wrong.toml"]);
    assert_eq!(wrong.code, 2, "{}", wrong.err);
    assert!(wrong.err.contains("must be one of list, read, write, forget"), "{}", wrong.err);
}
