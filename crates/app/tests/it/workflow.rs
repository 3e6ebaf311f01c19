//! Workflows through the real binary: every kind of step, killed in the middle and taken up again.

use serde_json::Value;

use crate::environment::TestEnvironment;

/// Elements, branches, a nested workflow and a model, each leaving one line a step. The slow one waits for a file.
const TASK: &str = r#"
[task]
goal = "all of it"

[workflow]
name = "all"

[workflow.llm]
model = "script/replies.toml"

[workflow.outputs]
said = "steps.ask.text"
count = "steps.each.results | length"

[[workflow.steps]]
name = "list"
tool = "shell"
parameters = { command = "printf 'a\nb\nc\n'" }

[[workflow.steps]]
name = "each"
foreach = "steps.list.text | lines"
as = "file"
steps = [
  { name = "first", tool = "write", parameters = { path = "first-{{ file }}", content = "{{ loop.index }}\n" } },
  { name = "slow", tool = "read", parameters = { path = "first-{{ file }}" } },
  { name = "log", tool = "shell", parameters = { command = "echo each-{{ file }} >> log; test {{ file }} != STOP || { touch waits; while [ ! -e go ]; do sleep 0.05; done; }" } },
]

[[workflow.steps]]
name = "both"
[workflow.steps.parallel]
x = [{ name = "x1", tool = "shell", parameters = { command = "echo x1 >> log" } }, { name = "x2", tool = "shell", parameters = { command = "echo x2 >> log" } }]
y = [{ name = "y1", tool = "shell", parameters = { command = "echo y1 >> log; test y != STOP || { touch waits; while [ ! -e go ]; do sleep 0.05; done; }" } }]

[[workflow.steps]]
name = "call"
inputs = { word = "steps.list.text | lines | first" }
[workflow.steps.workflow]
inputs = { word = { type = "string" } }
steps = [
  { name = "n1", tool = "shell", parameters = { command = "echo nested-{{ inputs.word }} >> log" } },
  { name = "n2", tool = "shell", parameters = { command = "echo n2 >> log; test n != STOP || { touch waits; while [ ! -e go ]; do sleep 0.05; done; }" } },
]

[[workflow.steps]]
name = "ask"
prompt = "What of {{ goal }}?"

[[workflow.steps]]
name = "last"
tool = "shell"
parameters = { command = "echo {{ steps.ask.text }} >> log" }
"#;

const WANTED: [&str; 9] =
    ["each-a", "each-b", "each-c", "x1", "x2", "y1", "nested-a", "n2", "fine"];

fn place(stop: &str) -> TestEnvironment {
    let place = TestEnvironment::new();
    place.write("replies.toml", "[[reply]]\nmatch = \"What of all of it\"\ntext = \"fine\"\n");
    place.write("task.toml", &TASK.replace("STOP", stop));
    place
}

fn lines(place: &TestEnvironment) -> Vec<String> {
    let mut lines: Vec<String> = place.read("log").lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

fn wanted() -> Vec<String> {
    let mut wanted: Vec<String> = WANTED.iter().map(|line| (*line).to_owned()).collect();
    wanted.sort();
    wanted
}

#[test]
fn every_kind_of_step_runs_and_the_last_event_has_the_outputs() {
    let place = place("nothing");
    let ran = place.run(&["run", "task.toml", "--json"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert_eq!(lines(&place), wanted());
    let last: Value = serde_json::from_str(ran.out.lines().last().unwrap()).unwrap();
    assert_eq!(last["outputs"]["said"], "fine", "{last}");
    assert_eq!(last["outputs"]["count"], 3);
}

/// Killed while an element, a branch or a nested step is under way: what ran is not run again but the one call in
/// doubt, of which a person says that it was done.
#[test]
fn killed_in_the_middle_of_a_loop_a_branch_or_a_nested_workflow_it_goes_on_from_there() {
    for stop in ["b", "y", "n"] {
        let place = place(stop);
        let running = place.start(&["run", "task.toml", "--json"]);
        let id = running.id.clone();
        place.until_file("waits");
        let ended = |label: &str| {
            let ends = |event: &Value| event["type"] == "tool_ended" && event["label"] == label;
            place.events(&id).iter().any(ends).then_some(())
        };
        if stop == "y" {
            place.until(|| ended("x2"));
        }
        running.signal("KILL");
        running.wait();
        place.write("go", "");
        let resumed = place.run(&["resume", &id]);
        assert_eq!(resumed.code, 13, "{stop}: {}{}", resumed.out, resumed.err);
        place.ok(&["resolve", &id, "--did"]);
        let ended = place.run(&["resume", &id]);
        assert_eq!(ended.code, 0, "{stop}: {}{}", ended.out, ended.err);
        assert_eq!(lines(&place), wanted(), "{stop}: nothing is lost, and nothing is done twice");
    }
}

/// Killed in the third round of a loop: the rounds before are not run again, and the counters go on from there.
#[test]
fn killed_in_the_middle_of_a_loop_over_its_own_steps_it_goes_on_in_the_same_round() {
    let place = TestEnvironment::new();
    place.write(
        "task.toml",
        "[task]\ngoal = \"g\"\n[workflow]\n[[workflow.steps]]\nname = \"a\"\ntool = \"shell\"\n\
         parameters = { command = \"echo a{{ visits.a }} >> log; test {{ visits.a }} != 3 || { touch waits; while [ ! -e go ]; do sleep 0.05; done; }\" }\n\
         [[workflow.steps]]\nname = \"b\"\ntool = \"shell\"\nwhen = \"visits.a < 5\"\nthen = \"a\"\n\
         parameters = { command = \"echo b >> log\" }\n",
    );
    let running = place.start(&["run", "task.toml"]);
    let id = running.id.clone();
    place.until_file("waits");
    running.signal("KILL");
    running.wait();
    place.write("go", "");
    assert_eq!(place.run(&["resume", &id]).code, 13);
    place.ok(&["resolve", &id, "--did"]);
    let ended = place.run(&["resume", &id]);
    assert_eq!(ended.code, 0, "{}{}", ended.out, ended.err);
    assert_eq!(place.read("log"), "a1\nb\na2\nb\na3\nb\na4\nb\na5\n");
}

/// A workflow with one step, and more in its table.
fn one_step(more: &str, step: &str) -> String {
    format!("[task]\ngoal = \"g\"\n[workflow]\n{more}\n[[workflow.steps]]\nname = \"a\"\n{step}\n")
}

const TOUCH: &str = "tool = \"shell\"\nparameters = { command = \"touch a\" }";

#[test]
fn the_budget_and_the_criteria_of_a_workflow_count_for_its_task() {
    for (more, code) in [
        ("", 0),
        ("budget = { max_tool_calls = 0 }", 11),
        ("limits = { token_budget = 1 }", 0),
        ("acceptance = [{ file = \"a\" }]", 0),
        ("acceptance = [{ file = \"b\" }]", 10),
    ] {
        let place = TestEnvironment::new();
        place.write("task.toml", &one_step(more, TOUCH));
        let ran = place.run(&["run", "task.toml"]);
        assert_eq!(ran.code, code, "{more}: {}{}", ran.out, ran.err);
        let outcome = &place.show(&place.id())["outcome"];
        let is_proven = more.contains("\"a\"");
        assert_eq!(outcome == "verified", is_proven, "{more}: {outcome}");
    }
}

/// A task that has the workflow `checked` somewhere in it, which says `MORE`.
const PARTS: [(&str, &str); 8] = [
    ("the task's own", "driver = \"workflow\"\ndriver_config = { workflow = \"checked\" }\n"),
    (
        "in a composite",
        "driver = \"retry\"\n[task.driver_config]\nlimit = 2\n\
         driver = { driver = \"workflow\", driver_config = { workflow = \"checked\" } }\n",
    ),
    (
        "a table in a composite",
        "driver = \"sequence\"\n[[task.driver_config.drivers]]\ndriver = \"workflow\"\n\
         [task.driver_config.drivers.driver_config.workflow]\nMORE\n\
         steps = [{ name = \"a\", tool = \"shell\", parameters = { command = \"touch a\" } }]\n",
    ),
    (
        "called by a step",
        "[workflow]\n[[workflow.steps]]\nname = \"call\"\nworkflow = \"@workflows/checked\"\n",
    ),
    (
        "called by a step of the configuration",
        "driver = \"workflow\"\n[[task.driver_config.steps]]\nname = \"call\"\nworkflow = \"@workflows/checked\"\n",
    ),
    (
        "called by one that is named",
        "driver = \"workflow\"\ndriver_config = { workflow = \"caller\" }\n",
    ),
    (
        "the driver of a step",
        "[workflow]\n[[workflow.steps]]\nname = \"work\"\ndriver = \"workflow\"\n\
         driver_config = { workflow = \"checked\" }\n",
    ),
    ("around another", "driver = \"workflow\"\ndriver_config = { workflow = \"outer\" }\n"),
];

#[test]
fn the_criteria_and_limits_of_a_workflow_count_wherever_in_the_task_it_stands() {
    for (more, code) in
        [("acceptance = [{ file = \"proof\" }]", 10), ("budget = { max_tool_calls = 0 }", 11)]
    {
        let step = format!("[[workflow.steps]]\nname = \"a\"\n{TOUCH}\n");
        let place = TestEnvironment::new();
        let workflow = |name: &str, text: &str| {
            place.write(
                &format!(".drivetrain/workflows/{name}.toml"),
                &format!("[workflow]\n{text}"),
            );
        };
        workflow("checked", &format!("{more}\n{step}"));
        workflow("inner", &step);
        workflow("caller", "[[workflow.steps]]\nname = \"b\"\nworkflow = \"@workflows/checked\"\n");
        workflow(
            "outer",
            &format!(
                "{more}\n[[workflow.steps]]\nname = \"b\"\ndriver = \"workflow\"\n\
                 driver_config = {{ workflow = \"inner\" }}\n"
            ),
        );
        place.trust();
        for (what, part) in PARTS {
            let task = format!("[task]\ngoal = \"g\"\n{}", part.replace("MORE", more));
            place.write("task.toml", &task);
            let ran = place.run(&["run", "task.toml"]);
            assert_eq!(ran.code, code, "{what}, {more}: {}{}", ran.out, ran.err);
        }
    }
}

#[test]
fn a_machine_inside_a_workflow_does_not_take_the_place_of_the_workflow() {
    let place = TestEnvironment::new();
    place.write(
        ".drivetrain/workflows/states.toml",
        "[machine]\ninitial = \"a\"\n[machine.states.a]\nterminal = true\n",
    );
    let step = |driver: &str| {
        let config = "driver_config = { workflow = \"states\" }";
        one_step("", &format!("driver = \"{driver}\"\n{config}"))
    };
    place.trust();
    place.write("task.toml", &step("workflow"));
    let ran = place.run(&["run", "task.toml"]);
    assert_eq!(ran.code, 2, "{}{}", ran.out, ran.err);
    assert!(ran.err.contains("needs driver = \"state_machine\""), "{}", ran.err);
    place.write("task.toml", &step("state_machine"));
    let ran = place.run(&["run", "task.toml"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
}

#[test]
fn one_who_can_be_handed_over_to_brings_criteria_and_one_who_comes_later_cannot() {
    let place = TestEnvironment::new();
    place.write(
        ".drivetrain/workflows/checked.toml",
        &format!("[workflow]\nacceptance = [{{ file = \"proof\" }}]\n[[workflow.steps]]\nname = \"a\"\n{TOUCH}\n"),
    );
    place.trust();
    let other = "[retry.drivers.other]\ndriver = \"workflow\"\ndriver_config = { workflow = \"checked\" }\n";
    place.write("task.toml", &format!("{}{other}", one_step("", TOUCH)));
    let ran = place.run(&["run", "task.toml"]);
    assert_eq!(ran.code, 10, "{}{}", ran.out, ran.err);
    let config = ["--driver", "workflow", "--config", "{\"workflow\": \"checked\"}"];
    let ran = place.run(&[&["hand-over", &place.id()], &config[..]].concat());
    assert_eq!(ran.code, 2, "{}{}", ran.out, ran.err);
    assert!(ran.err.contains("criteria"), "{}", ran.err);
}

#[test]
fn a_step_leaves_it_to_the_driver_that_it_names() {
    let place = TestEnvironment::new();
    place.write("task.toml", &one_step("", "driver = \"user\"\nprompt = \"Look around.\""));
    let ran = place.run(&["run", "task.toml", "--unattended"]);
    assert_eq!(ran.code, 13, "{}{}", ran.out, ran.err);
    place.ok(&["answer", &place.id(), "shell touch by-hand"]);
    assert_eq!(place.run(&["resume", &place.id(), "--unattended"]).code, 13);
    place.ok(&["answer", &place.id(), "done"]);
    assert_eq!(place.run(&["resume", &place.id(), "--unattended"]).code, 0);
    assert!(place.folder().join("by-hand").exists());
}

#[test]
fn a_person_with_a_declared_end_is_waited_for_and_then_it_is_no() {
    let place = TestEnvironment::new();
    place.write(
        "task.toml",
        "[task]\ngoal = \"g\"\n[workflow]\n[[workflow.steps]]\nname = \"sure\"\napprove = \"Go?\"\ntimeout = \"200ms\"\n\
         on_timeout = \"deny\"\non_error = \"skip\"\n[[workflow.steps]]\nname = \"b\"\ntool = \"shell\"\n\
         parameters = { command = \"echo {{ steps.sure.status }} > out\" }\n",
    );
    let ran = place.run(&["run", "task.toml"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert_eq!(place.read("out"), "denied\n");
}

#[test]
fn a_person_without_one_is_waited_for_durably() {
    let place = TestEnvironment::new();
    place.write(
        "task.toml",
        "[task]\ngoal = \"g\"\n[workflow]\n[[workflow.steps]]\nname = \"which\"\nask = \"Which?\"\nchoices = [\"a\", \"b\"]\n\
         [[workflow.steps]]\nname = \"b\"\ntool = \"shell\"\nparameters = { command = \"echo {{ steps.which.text }} > out\" }\n",
    );
    let ran = place.run(&["run", "task.toml"]);
    assert_eq!(ran.code, 13, "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("Which? (a / b)"), "{}", ran.out);
    let told = place.run(&["answer", &place.id(), "b"]);
    assert_eq!(told.code, 0, "{}{}", told.out, told.err);
    let ended = place.run(&["resume", &place.id()]);
    assert_eq!(ended.code, 0, "{}{}", ended.out, ended.err);
    assert_eq!(place.read("out"), "b\n");
}
