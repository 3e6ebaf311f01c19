//! `drivetrain import`: what is written, what is said, and what is left alone.

use serde_json::Value;

use crate::environment::TestEnvironment;

const COMMAND: &str =
    "---\ndescription: Fix an issue\nmodel: opus\n---\nFix $1, then say !`date`.\n";

#[test]
fn a_command_becomes_a_prompt_and_what_is_lost_is_said() {
    let place = TestEnvironment::new();
    place.write(".claude/commands/fix.md", COMMAND);
    insta::assert_snapshot!(place.ok(&["import", ".claude/commands/fix.md"]), @"
    read     a Claude Code command, as fix
    written  .drivetrain/prompts/fix.toml

    not carried as it was
      line 3: model: a prompt has no model of its own; give it to the step (model = …) or to the run (--model)
      line 5: !`command`: nothing is run when a prompt is made; put a shell step before it and name its text

    next     drivetrain prompt show fix
    ");
    insta::assert_snapshot!(place.read(".drivetrain/prompts/fix.toml"), @r#"
    [meta]
    name = "fix"
    description = "Fix an issue"

    [prompt]
    text = """
    Fix {{ inputs.argument_1 }}, then say !`date`.
    """

    [prompt.inputs.argument_1]
    type = "string"
    default = ""
    "#);
}

#[test]
fn nothing_is_written_over_and_nothing_beside_what_is_there() {
    let place = TestEnvironment::new();
    place.write("recipe.yaml", "title: Say hello\nprompt: hello\ninstructions: be kind\n");
    place.write(".drivetrain/workflows/say-hello.toml", "mine");
    let ran = place.run(&["import", "recipe.yaml"]);
    assert_eq!(ran.code, 2, "{}", ran.err);
    assert!(
        ran.err.contains("say-hello.toml is there already and is not written over"),
        "{}",
        ran.err
    );
    assert_eq!(place.read(".drivetrain/workflows/say-hello.toml"), "mine");
    assert!(!place.folder().join(".drivetrain/prompts/say-hello.toml").exists());
}

#[test]
fn a_link_does_not_lead_out_of_the_folder() {
    let place = TestEnvironment::new();
    place.write("a.md", "do it");
    place.write("outside/keep", "");
    std::fs::create_dir_all(place.folder().join(".drivetrain")).unwrap();
    std::os::unix::fs::symlink("../outside", place.folder().join(".drivetrain/prompts")).unwrap();
    let ran = place.run(&["import", "a.md"]);
    assert_eq!(ran.code, 20, "{}", ran.err);
    assert!(!place.folder().join("outside/a.toml").exists());
}

#[test]
fn another_folder_takes_it_and_json_says_the_same() {
    let place = TestEnvironment::new();
    place.write(
        "skills/pdf/SKILL.md",
        "---\nname: ../../etc/passwd\nlicense: MIT\n---\nFill it in.\n",
    );
    let said = place.ok(&["import", "skills/pdf/SKILL.md", "--to", "mine", "--json"]);
    let said: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(said["kind"], "a skill");
    assert_eq!(said["written"][0], "mine/prompts/etc-passwd.toml");
    assert_eq!(said["not_carried"][1]["line"], 3);
}

#[test]
fn what_is_wrong_is_shown_at_its_place() {
    let place = TestEnvironment::new();
    place.write("bad.yaml", "title: x\nprompt: [\n");
    place.write("notes.txt", "x");
    let ran = place.run(&["import", "bad.yaml"]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("--> bad.yaml:"), "{}", ran.err);
    let ran = place.run(&["import", "notes.txt"]);
    assert!(ran.err.contains("nothing is known about files of this name"), "{}", ran.err);
    let ran = place.run(&["import", "gone.md"]);
    assert!(ran.err.contains("cannot read gone.md: there is no such file"), "{}", ran.err);
}

#[test]
fn what_was_imported_is_a_workflow_that_can_be_checked_and_drawn() {
    let place = TestEnvironment::new();
    place.write(
        "recipe.yaml",
        "title: Say hello\nprompt: say hello to {{ who }}\ninstructions: be kind\n\
         parameters:\n  - { key: who, input_type: string, requirement: required, description: whom }\n\
         retry:\n  checks: [{ type: shell, command: test -f hello }]\n",
    );
    place.ok(&["import", "recipe.yaml"]);
    place.ok(&["workflow", "check", "say-hello"]);
    let drawn = place.ok(&["workflow", "graph", "say-hello"]);
    assert!(drawn.contains("□ work  [model]  say hello to {{ inputs.who }}"), "{drawn}");
}
