//! Workflows, prompts and agents as files: found, shown, checked, begun and run, by the real binary.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::environment::TestEnvironment;
use crate::model::count;

const STEP: &str = "[workflow]\ndescription = \"counts\"\n[[workflow.steps]]\nname = \"one\"\ntool = \"shell\"\n\
                    parameters = { command = \"echo 1 >> out.txt\" }\n";

fn own(place: &TestEnvironment, kind: &str) -> PathBuf {
    let own = place.home().with_file_name(".config").join("drivetrain").join(kind);
    std::fs::create_dir_all(&own).unwrap();
    own
}

fn json_of(place: &TestEnvironment, args: &[&str]) -> Value {
    let ran = place.run(args);
    serde_json::from_str(&ran.out).unwrap_or_else(|_| panic!("{}{}", ran.out, ran.err))
}

fn item(place: &TestEnvironment, kind: &str, name: &str) -> Value {
    let listed = json_of(place, &[kind, "list", "--json"]);
    let items = listed["items"].as_array().unwrap();
    items.iter().find(|item| item["name"] == name).cloned().unwrap_or_default()
}

#[test]
fn a_prompt_is_looked_up_in_the_project_then_in_the_users_folder_then_in_the_program() {
    let place = TestEnvironment::new();
    assert_eq!(item(&place, "prompt", "terse")["origin"], "built-in");
    std::fs::write(own(&place, "prompts").join("terse.md"), "Mine.\n").unwrap();
    assert_eq!(item(&place, "prompt", "terse")["origin"], "user");
    place.write(".drivetrain/prompts/terse.txt", "Theirs.\n");
    let strange = item(&place, "prompt", "terse");
    assert_eq!(strange["origin"], "user", "nobody trusts the project's: {strange}");
    assert_eq!(strange["overrides"][0]["trusted"], false);
    place.trust();
    let shown = json_of(&place, &["prompt", "show", "terse", "--json"]);
    assert_eq!((&shown["origin"], &shown["text"]), (&json!("project"), &json!("Theirs.\n")));
    let hidden: Vec<&Value> =
        shown["overrides"].as_array().unwrap().iter().map(|one| &one["origin"]).collect();
    assert_eq!(hidden, [&json!("user"), &json!("built-in")]);
    let text = place.ok(&["prompt", "show", "terse"]);
    assert!(text.contains("overrides    built-in built-in/prompts/terse.txt"), "{text}");
    place.write(".drivetrain/prompts/terse.txt", "Changed.\n");
    assert_eq!(item(&place, "prompt", "terse")["origin"], "user", "a changed one asks again");
    let text = place.ok(&["prompt", "show", "terse"]);
    assert!(text.contains("until it is trusted"), "{text}");
}

#[test]
fn check_names_all_mistakes_of_all_files_and_ends_with_two() {
    let place = TestEnvironment::new();
    place.write(".drivetrain/prompts/a.txt", "{{ goal|shout }}\n");
    place.write(".drivetrain/prompts/b.toml", "[prompt]\ntxt = \"x\"\n[meta]\nverson = \"1\"\n");
    place.write(".drivetrain/prompts/c.md", "fine\n");
    place.write(".drivetrain/prompts/c.txt", "hidden\n");
    let ran = place.run(&["prompt", "check"]);
    assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{}", ran.err);
    for said in [
        "unknown filter \"shout\"",
        "did you mean \"text\"?",
        "did you mean \"version\"?",
        "same name",
    ] {
        assert!(ran.err.contains(said), "{said}: {}", ran.err);
    }
    let told = json_of(&place, &["prompt", "check", "--json"]);
    assert_eq!(told["ok"], false);
    assert!(
        told["errors"].as_array().unwrap().iter().all(|error| error["line"].as_u64() >= Some(1))
    );
    assert_eq!(place.run(&["prompt", "check", "a", "--json"]).code, 2);
    assert_eq!(place.run(&["prompt", "check", "terse"]).code, 0);
    let unknown = place.run(&["prompt", "check", "ters"]);
    assert!(
        unknown.code == 2 && unknown.err.contains("did you mean \"terse\"?"),
        "{}",
        unknown.err
    );
    place.write(".drivetrain/agents/x.toml", "[agent]\nname = \"y\"\nmodel = \"script/x\"\n");
    let agent = place.run(&["agent", "check"]);
    assert!(agent.code == 2 && agent.err.contains("is looked up as \"x\""), "{}", agent.err);
}

#[test]
fn new_writes_one_that_is_right_and_never_overwrites() {
    let place = TestEnvironment::new();
    for kind in ["workflow", "prompt", "agent"] {
        let written = place.ok(&[kind, "new", "mine"]);
        assert!(written.contains(&format!(".drivetrain/{kind}s/mine.toml")), "{written}");
        let checked = place.run(&[kind, "check", "mine"]);
        assert_eq!(checked.code, 0, "{kind}: {}", checked.err);
        assert_eq!(item(&place, kind, "mine")["origin"], "project");
        let again = place.run(&[kind, "new", "mine"]);
        assert!(again.code == 2 && again.err.contains("nothing is overwritten"), "{}", again.err);
        place.ok(&[kind, "new", "ours", "--user"]);
        assert_eq!(item(&place, kind, "ours")["origin"], "user");
        for hostile in ["../x", "a/b", ".x", "", "a b"] {
            assert_eq!(place.run(&[kind, "new", hostile]).code, 2, "{hostile:?}");
        }
    }
    assert_eq!(place.run(&["workflow", "run", "mine", "--in-place"]).code, 0);
}

#[test]
fn a_workflow_runs_as_a_task_with_typed_inputs() {
    let place = TestEnvironment::new();
    let text = "[workflow]\ndescription = \"writes\"\n[workflow.inputs.times]\ntype = \"integer\"\n\
        [workflow.inputs.word]\ntype = \"string\"\ndefault = \"x\"\n[workflow.outputs]\nsum = \"inputs.times + 1\"\n\
        [[workflow.steps]]\nname = \"w\"\ntool = \"shell\"\n\
        parameters = { command = \"echo {{ inputs.word }}{{ inputs.times + 1 }} >> out.txt\" }\n";
    place.write(".drivetrain/workflows/w.toml", text);
    let ran = place.run(&["workflow", "run", "w", "--in-place", "--input", "times=3", "--json"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert_eq!(place.read("out.txt"), "x4\n");
    for (input, said) in [
        ("times=three", "times"),
        ("tims=3", "did you mean \"times\"?"),
        ("times", "expected NAME=VALUE"),
    ] {
        let refused = place.run(&["workflow", "run", "w", "--input", input]);
        assert!(refused.code == 2 && refused.err.contains(said), "{input}: {}", refused.err);
    }
    let missing = place.run(&["workflow", "run", "w"]);
    assert!(missing.code == 2 && missing.err.contains("times"), "{}", missing.err);
    place.trust();
    let shown = json_of(&place, &["workflow", "show", "w", "--json"]);
    assert_eq!(shown["inputs"]["times"]["type"], "integer", "{shown}");
}

#[test]
fn a_projects_workflow_with_the_name_of_another_waits_for_trust() {
    let place = TestEnvironment::new();
    std::fs::write(own(&place, "workflows").join("count.toml"), STEP.replace("echo 1", "echo own"))
        .unwrap();
    place.write(".drivetrain/workflows/count.toml", STEP);
    assert_eq!(place.run(&["workflow", "run", "count", "--in-place"]).code, 0);
    assert_eq!(place.read("out.txt"), "own\n");
    place.trust();
    assert_eq!(place.run(&["workflow", "run", "count", "--in-place"]).code, 0);
    assert_eq!(place.read("out.txt"), "own\n1\n");
}

/// The newest task.
fn last(place: &TestEnvironment) -> String {
    place.tasks()[0]["id"].as_str().unwrap().to_owned()
}

/// All that is recorded of the newest task.
fn asked(place: &TestEnvironment) -> String {
    place.ok(&["journal", "export", &last(place)])
}

fn agent(place: &TestEnvironment, lines: &str, replies: &str) -> i32 {
    place.write("replies.toml", replies);
    let text = format!("[agent]\nname = \"mine\"\nmodel = \"script/replies.toml\"\n{lines}\n");
    place.write(".drivetrain/agents/mine.toml", &text);
    let ran = place.run(&[
        "agent",
        "run",
        "mine",
        "mend it",
        "--in-place",
        "--profile",
        "open",
        "--json",
    ]);
    assert!(ran.code != 2, "{}{}", ran.out, ran.err);
    ran.code
}

const EDIT: &str = r#"
[[reply]]
tool_calls = [{ tool = "edit", input = { path = "a.txt", old = "one", new = "two" } }]
[[reply]]
tool_calls = [{ tool = "read", input = { path = "./a.txt" } }]
[[reply]]
tool_calls = [{ tool = "edit", input = { path = "a.txt", old = "one", new = "two" } }]
[[reply]]
text = "done"
"#;

fn results(place: &TestEnvironment) -> Vec<(String, String)> {
    let events = place.events(&last(place));
    let ended = events.iter().filter(|event| event["type"] == "tool_ended");
    ended
        .map(|event| {
            let field = |key: &str| event["result"][key].as_str().unwrap_or_default().to_owned();
            (field("status"), field("text"))
        })
        .collect()
}

#[test]
fn an_agent_that_peeks_first_edits_only_what_it_looked_at_and_is_told_so() {
    let place = TestEnvironment::new();
    place.write("a.txt", "one\n");
    assert_eq!(agent(&place, "[agent.context]\npeek_first = true", EDIT), 0);
    let seen = results(&place);
    assert_eq!(seen[0].0, "denied", "{seen:?}");
    assert!(seen[0].1.contains("a.txt was not looked at in this task"), "{seen:?}");
    assert_eq!((seen[1].0.as_str(), seen[2].0.as_str()), ("ok", "ok"), "{seen:?}");
    assert_eq!(place.read("a.txt"), "two\n");
    let free = TestEnvironment::new();
    free.write("a.txt", "one\n");
    agent(&free, "", EDIT);
    assert_eq!(results(&free)[0].0, "ok", "without the key nobody asks for a look");
}

#[test]
fn an_agent_has_the_tools_of_its_file() {
    let replies = "[[reply]]\ntool_calls = [{ tool = \"shell\", input = { command = \"echo 1 > s.txt\" } }]\n[[reply]]\ntext = \"ok\"\n";
    for lines in ["[agent.tools]\ndisabled = [\"shell\"]", "[agent.tools]\nenabled = [\"read\"]"] {
        let place = TestEnvironment::new();
        agent(&place, lines, replies);
        let seen = results(&place);
        assert!(seen[0].1.contains("does not have the tool shell"), "{lines}: {seen:?}");
        assert_eq!(place.read("s.txt"), "");
    }
    let place = TestEnvironment::new();
    agent(&place, "", replies);
    assert_eq!(place.read("s.txt"), "1\n");
}

#[test]
fn an_agent_is_told_its_prompt_the_notes_and_what_the_checks_say() {
    let note = "[[reply]]\ntool_calls = [{ tool = \"memory\", input = { action = \"write\", name = \"build\", text = \"make is slow\" } }]\n[[reply]]\ntext = \"ok\"\n";
    let place = TestEnvironment::new();
    place.write("Makefile", "check:\n\t@echo 'a.c:3: broken'; exit 1\n");
    agent(&place, "", note);
    let silent = "[[reply]]\ntext = \"ok\"\n";
    agent(
        &place,
        "prompt = \"Say {{ goal }} twice.\"\n[agent.context]\ninclude_memory = true\ninclude_diagnostics = true",
        silent,
    );
    let record = asked(&place);
    for said in ["Say mend it twice.", "make is slow", "What the project's own checks say", "a.c:3"]
    {
        assert!(record.contains(said), "{said}");
    }
    let events = place.events(&last(&place));
    assert_eq!(count(&events, "tool_ended"), 1, "the checks ran once");
    agent(&place, "", silent);
    let record = asked(&place);
    assert!(!record.contains("make is slow") && !record.contains("own checks say"));
    assert_eq!(count(&place.events(&last(&place)), "tool_ended"), 0);
}

#[test]
fn an_agent_may_be_a_workflow() {
    let place = TestEnvironment::new();
    place.write(".drivetrain/workflows/count.toml", STEP);
    place.write(
        ".drivetrain/agents/counter.toml",
        "[agent]\nname = \"counter\"\nworkflow = \"@workflows/count\"\n[agent.tools]\nenabled = [\"shell\"]\n",
    );
    assert_eq!(place.run(&["agent", "check"]).code, 0);
    place.trust();
    let shown = place.ok(&["agent", "show", "counter"]);
    assert!(shown.contains("uses         workflow count from"), "{shown}");
    assert_eq!(place.run(&["agent", "run", "counter", "count", "--in-place"]).code, 0);
    assert_eq!(place.read("out.txt"), "1\n");
    place.write(
        ".drivetrain/agents/counter.toml",
        "[agent]\nname = \"counter\"\nworkflow = \"@workflows/count\"\n[agent.tools]\ndisabled = [\"shell\"]\n",
    );
    place.trust();
    assert_eq!(place.run(&["agent", "run", "counter", "count", "--in-place"]).code, 10);
    let wrong = place.run(&["agent", "run", "countr", "x"]);
    assert!(wrong.code == 2 && wrong.err.contains("did you mean \"counter\"?"), "{}", wrong.err);
    let program = place.run(&["run", "x y", "--agent", "counter"]);
    assert!(
        program.code == 2 && program.err.contains("drivetrain agent run counter"),
        "{}",
        program.err
    );
}

#[test]
fn a_workflow_in_a_task_file_refers_to_prompts_and_facts_like_any_other() {
    let place = TestEnvironment::new();
    place.write("replies.toml", "[[reply]]\ntext = \"fine\"\n");
    place.write("tests/a.rs", "");
    place.write(".drivetrain/prompts/ask.txt", "Is {{ goal }} done?\n");
    place.write(
        ".drivetrain/workflows/goal.rhai",
        "fn steps(context) { [#{ name: \"a\", tool: \"shell\", parameters: #{ command: `echo ${context.goal} >> out.txt` } }] }\n",
    );
    let task = "[task]\ngoal = \"the work\"\n[workspace]\nkind = \"in_place\"\n[workflow]\nname = \"w\"\n\
        [workflow.llm]\nmodel = \"script/replies.toml\"\n[[workflow.steps]]\nname = \"ask\"\nprompt = \"@prompts/ask\"\n\
        [[workflow.steps]]\nname = \"tell\"\ntool = \"shell\"\nwhen = \"facts.has_tests\"\n\
        parameters = { command = \"echo {{ facts.main_language }} >> out.txt\" }\n\
        [[workflow.steps]]\nname = \"call\"\nworkflow = \"@workflows/goal\"\n";
    place.write("task.toml", task);
    let ran = place.run(&["run", "task.toml"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert_eq!(place.read("out.txt"), "rust\nthe work\n");
    let record = asked(&place);
    assert!(record.contains("Is {{ goal }} done?"), "the prompt was looked up");
    let hash = runtime::trust::hash(b"Is {{ goal }} done?\n");
    assert!(record.contains(&hash), "and its hash is in the journal");
    place.write("task.toml", &task.replace("@prompts/ask", "@prompts/aks"));
    let wrong = place.run(&["run", "task.toml"]);
    assert!(wrong.code == 2 && wrong.err.contains("did you mean \"ask\"?"), "{}", wrong.err);
    place.write("task.toml", &task.replace("facts.has_tests", "facts.has_test"));
    let wrong = place.run(&["run", "task.toml"]);
    assert!(wrong.code == 2 && wrong.err.contains("has_tests"), "{}", wrong.err);
}

#[test]
fn steps_that_stand_in_a_drivers_configuration_refer_to_files_like_any_other() {
    let place = TestEnvironment::new();
    place.write("replies.toml", "[[reply]]\nmatch = \"Is the work done?\"\ntext = \"fine\"\n");
    place.write("tests/a.rs", "");
    place.write(".drivetrain/prompts/ask.txt", "Is {{ goal }} done?\n");
    place.write(".drivetrain/workflows/count.toml", STEP);
    let steps = "[[HERE.steps]]\nname = \"ask\"\nprompt = \"@prompts/ask\"\n\
        [[HERE.steps]]\nname = \"tell\"\ntool = \"write\"\nwhen = \"facts.has_tests\"\n\
        parameters = { path = \"told\", content = \"{{ steps.ask.text }} @@\" }\n\
        [[HERE.steps]]\nname = \"sign\"\ntool = \"write\"\nparameters = { path = \"sign\", content = \"@@home\" }\n\
        [[HERE.steps]]\nname = \"call\"\nworkflow = \"@workflows/count\"\n";
    let head = "[task]\ngoal = \"the work\"\n";
    let alone = format!(
        "{head}driver = \"workflow\"\n[task.driver_config.llm]\nmodel = \"script/replies.toml\"\n{}",
        steps.replace("HERE", "task.driver_config")
    );
    let inside = format!(
        "{head}driver = \"sequence\"\n[[task.driver_config.drivers]]\ndriver = \"workflow\"\n\
         [task.driver_config.drivers.config.llm]\nmodel = \"script/replies.toml\"\n{}",
        steps.replace("HERE", "task.driver_config.drivers.config")
    );
    for task in [alone, inside] {
        for made in ["told", "sign", "out.txt"] {
            let _ = std::fs::remove_file(place.folder().join(made));
        }
        place.write("task.toml", &task);
        let ran = place.run(&["run", "task.toml", "--in-place"]);
        assert_eq!(ran.code, 0, "{task}: {}{}", ran.out, ran.err);
        assert_eq!((place.read("told"), place.read("sign")), ("fine @@".into(), "@home".into()));
        assert_eq!(place.read("out.txt"), "1\n");
        let hash = runtime::trust::hash(b"Is {{ goal }} done?\n");
        assert!(asked(&place).contains(&hash), "the hash of the prompt is in the journal");
        place.write("task.toml", &task.replace("@prompts/ask", "@prompts/aks"));
        let wrong = place.run(&["run", "task.toml", "--in-place"]);
        assert!(wrong.code == 2 && wrong.err.contains("did you mean \"ask\"?"), "{}", wrong.err);
    }
}

#[test]
fn a_model_beside_a_workflow_is_that_of_the_steps_that_name_none() {
    let place = TestEnvironment::new();
    for name in ["named", "table", "step"] {
        place.write(
            &format!("{name}.toml"),
            &format!("[[reply]]\ntext = \"{name}\"\nrepeat = true\n"),
        );
    }
    let step = |more: &str, table: &str| {
        format!(
            "[workflow]\n{table}[[workflow.steps]]\nname = \"ask\"\nprompt = \"who?\"\n{more}\
             [[workflow.steps]]\nname = \"tell\"\ntool = \"shell\"\nparameters = {{ command = \"echo {{{{ steps.ask.text }}}} >> out.txt\" }}\n"
        )
    };
    let table = "[workflow.llm]\nmodel = \"script/table.toml\"\n";
    place.write(".drivetrain/workflows/a.toml", &step("", ""));
    place.write(".drivetrain/workflows/b.toml", &step("", table));
    place.write(".drivetrain/workflows/c.toml", &step("model = \"script/step.toml\"\n", table));
    for name in ["a", "b", "c"] {
        let run =
            ["run", "do it", "--workflow", name, "--model", "script/named.toml", "--in-place"];
        let ran = place.run(&run);
        assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    }
    assert_eq!(place.read("out.txt"), "named\ntable\nstep\n");
    let none = place.run(&["run", "do it", "--workflow", "a", "--in-place"]);
    assert!(none.code == 2 && none.err.contains("model"), "{}", none.err);
    let wrong = place.run(&["run", "do it", "--workflow", "a", "--model", "nobody"]);
    assert!(wrong.code == 2 && wrong.err.contains("expected PROVIDER/NAME"), "{}", wrong.err);
}

#[test]
fn a_question_to_a_person_says_how_it_is_answered() {
    let place = TestEnvironment::new();
    let asks = |lines: &str| {
        place.write(
            ".drivetrain/workflows/w.toml",
            &format!("[workflow]\n[[workflow.steps]]\nname = \"a\"\n{lines}\n"),
        );
        let ran = place.run(&["workflow", "run", "w", "--in-place", "--unattended"]);
        assert_eq!(ran.code, 13, "{}{}", ran.out, ran.err);
        place.ok(&["why", &last(&place)])
    };
    for (lines, answer) in [
        ("approve = \"Ship it?\"", "yes"),
        ("ask = \"Which?\"\nchoices = [\"the left one\", \"b\"]", "'the left one'"),
        ("ask = \"What else?\"", "TEXT"),
    ] {
        let said = asks(lines);
        let wanted = format!("drivetrain answer {} q1 {answer}", last(&place));
        assert!(said.contains(&wanted) && !said.contains("shell ls"), "{wanted}: {said}");
    }
}
