//! Workflows that are scripts, through the program: found by name, told facts, run once.

use crate::environment::TestEnvironment;

const SCRIPT: &str = r#"
fn workflow() { #{ name: "each", description: "one step for each source" } }

fn steps(context) {
    let steps = [];
    for file in context.facts.files {
        if file.ends_with(".txt") {
            let command = `echo ${file} for ${context.goal} >> seen`;
            steps.push(#{ name: "s" + steps.len(), tool: "shell", parameters: #{ command: command } });
        }
    }
    steps
}
"#;

#[test]
fn a_script_makes_the_steps_from_what_is_there() {
    let place = TestEnvironment::new();
    place.write("a.txt", "");
    place.write("b.txt", "");
    place.write(".drivetrain/workflows/each.rhai", SCRIPT);
    place.ok(&["run", "the goal", "--workflow", "each", "--in-place"]);
    assert_eq!(place.read("seen"), "a.txt for the goal\nb.txt for the goal\n");
}

#[test]
fn what_a_script_gave_is_frozen() {
    let place = TestEnvironment::new();
    place.write("a.txt", "");
    let waits = SCRIPT.replace("    steps\n}", "    steps.push(#{ name: \"wait\", tool: \"ask\", parameters: #{ question: \"go on?\" } });\n    steps.push(#{ name: \"last\", tool: \"shell\", parameters: #{ command: \"echo old >> seen\" } });\n    steps\n}");
    place.write(".drivetrain/workflows/each.rhai", &waits);
    let ran = place.run(&["run", "g", "--workflow", "each", "--in-place", "--unattended"]);
    assert_eq!(ran.code, 13, "{}{}", ran.out, ran.err);
    place.write(".drivetrain/workflows/each.rhai", "fn steps(context) { throw \"changed\" }");
    let id = place.id();
    place.ok(&["answer", &id, "yes"]);
    place.ok(&["resume", &id]);
    assert_eq!(place.read("seen"), "a.txt for g\nold\n");
}

#[test]
fn a_mistake_is_shown_in_the_script() {
    let place = TestEnvironment::new();
    place.write(
        ".drivetrain/workflows/w.rhai",
        "fn steps(context) {\n    context.facts.has_test\n}\n",
    );
    let ran = place.run(&["run", "g", "--workflow", "w", "--in-place"]);
    assert_eq!(ran.code, 2);
    insta::assert_snapshot!(ran.err.trim_end(), @r#"
    error: there is no "has_test" here
     --> .drivetrain/workflows/w.rhai:2:19
      |
    2 |     context.facts.has_test
      |                   ^^^^^^^^
      = help: did you mean "has_tests"?
    "#);
    place.write(".drivetrain/workflows/w.rhai", "fn steps(context) {\n    [#{ name: \"a\", tool: \"shell\", parameters: #{ command: \"true\" }, on_errror: \"skip\" }]\n}\n");
    let ran = place.run(&["run", "g", "--workflow", "w", "--in-place"]);
    insta::assert_snapshot!(ran.err.trim_end(), @r#"
    error: steps[0].on_errror: unknown key "on_errror" in a step
     --> .drivetrain/workflows/w.rhai:1:4
      |
    1 | fn steps(context) {
      |    ^^^^^
      = help: did you mean "on_error"?
    "#);
}
