//! Workflows that are scripts, through the program: found by name, told facts, run once. And how workflows are drawn.

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

#[test]
fn check_shows_what_a_script_prints_and_inputs_reach_it() {
    let place = TestEnvironment::new();
    let script = "fn workflow() { #{ name: \"w\", inputs: #{ times: #{ type: \"integer\", \"default\": 1 } } } }\n\
        fn steps(context) {\n    print(`${context.inputs.times} times`);\n    let steps = [];\n    \
        for n in 0..context.inputs.times {\n        \
        steps.push(#{ name: `s${n}`, tool: \"shell\", parameters: #{ command: `echo ${n} >> seen` } });\n    }\n    steps\n}\n";
    place.write(".drivetrain/workflows/w.rhai", script);
    let said = place.ok(&["workflow", "check", "w"]);
    assert!(said.contains("printed  1 times"), "{said}");
    place.ok(&["workflow", "run", "w", "--input", "times=3", "--in-place"]);
    assert_eq!(place.read("seen"), "0\n1\n2\n");
    let ran = place.run(&["workflow", "run", "w", "--input", "times=many", "--in-place"]);
    assert_eq!(ran.code, 2, "{}{}", ran.out, ran.err);
}

#[test]
fn a_workflow_is_drawn() {
    let place = TestEnvironment::new();
    place.write(
        ".drivetrain/workflows/w.toml",
        "[workflow]\nname = \"w\"\n[[workflow.steps]]\nname = \"a\"\ntool = \"shell\"\nparameters = { command = \"make\" }\n\
         on_error = \"retry\"\nmax_retries = 2\n[[workflow.steps]]\nname = \"b\"\nask = \"go on?\"\n",
    );
    place.write(
        "m.toml",
        "[machine]\ninitial = \"go\"\n[machine.states.go]\naction = { tool = \"shell\", parameters = { command = \"true\" } }\n\
         transitions = [{ to = \"end\" }]\n[machine.states.end]\nterminal = true\n",
    );
    insta::assert_snapshot!(place.ok(&["workflow", "graph", "w"]), @"
    w

    ○ start
        → a
    □ a  [tool]  shell: make
        ↺ a  (retry: if it fails ≤ 2)
        → b
    ☺ b  [person]  go on?
        → end
    ● end
    ");
    insta::assert_snapshot!(place.ok(&["workflow", "graph", "m.toml", "--format", "mermaid"]), @r#"
    flowchart TD
        n0(["start"])
        n1(["end"])
        n2["go<br/>tool<br/>shell: true"]
        n0 --> n2
        n2 --> n1
    "#);
    place.ok(&["workflow", "graph", "w", "--format", "svg", "--output", "w.svg"]);
    assert!(place.read("w.svg").starts_with("<svg "));
    let said: serde_json::Value =
        serde_json::from_str(&place.ok(&["workflow", "graph", "w", "--json"])).unwrap();
    assert_eq!(said["outline"]["edges"].as_array().unwrap().len(), 4);
    let ran = place.run(&["workflow", "graph", "nobody"]);
    assert_eq!(ran.code, 2);
}
