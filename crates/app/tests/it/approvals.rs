//! Asks and answers with the real binary: how far an answer reaches, who is asked instead, and the record of it all.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use serde_json::Value;

use crate::environment::{TestEnvironment, exists};
use crate::pty::Screen;

const ASK: &str = "unattended = \"wait\"\n[[rule]]\ntool = \"shell\"\ndecide = \"ask\"\n";

/// A project whose policy asks about every command, with a task of these.
fn asking(commands: &[&str]) -> TestEnvironment {
    let place = TestEnvironment::new();
    place.write(".drivetrain/policy.toml", ASK);
    place.trust();
    place.steps("task.toml", commands, "");
    place
}

fn decisions(place: &TestEnvironment, id: &str) -> String {
    let log = place.ok(&["log", id, "--decisions"]);
    // The day stands alone, and each line begins with its time.
    let lines = log.lines().filter(|line| line.len() > 12).map(|line| line[10..].to_owned());
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn an_answer_for_the_task_covers_the_same_call_and_every_decision_is_logged() {
    let place = asking(&["echo 1 >> out.txt", "echo 1 >> out.txt", "echo 2 >> out.txt"]);
    assert_eq!(place.run(&["run", "task.toml"]).code, 13);
    let id = place.id();
    let asks: Value = serde_json::from_str(&place.ok(&["approvals", "--json"])).unwrap();
    let hash = asks["asks"][0]["hash"].as_str().unwrap().to_owned();
    assert_eq!(hash.len(), 64);
    let wrong = place.run(&["approve", &id, "--hash", &"0".repeat(12)]);
    assert_eq!(wrong.code, 2);
    assert!(wrong.err.contains("c1 has changed since it was shown"), "{}", wrong.err);
    insta::assert_snapshot!(
        place.plain(&place.ok(&["approve", &id, "--for", "task", "--hash", &hash[..12]])),
        @"
    task ID may run c1 for the rest of the task: s1 (shell: echo 1 >> out.txt) (739a9bc19079)
    no process drives it: drivetrain resume ID goes on
    "
    );
    assert_eq!(place.run(&["resume", &id]).code, 13, "the third command is another one");
    assert_eq!(place.read("out.txt"), "1\n1\n");
    let why = place.ok(&["why", &id]);
    assert!(why.contains("allowed    shell") && why.contains("as approved at c1"), "{why}");
    let answer: Value = serde_json::from_str(&place.ok(&["approve", &id, "--json"])).unwrap();
    assert_eq!((&answer["ok"], &answer["call"]), (&true.into(), &3.into()));
    assert_eq!(place.run(&["resume", &id]).code, 0);
    insta::assert_snapshot!(decisions(&place, &id), @"
    c1 ask 739a9bc19079 shell: echo 1 >> out.txt [rule 1 of .drivetrain/policy.toml:2, tool]
    c1 allow 739a9bc19079 shell: echo 1 >> out.txt [person (command), tool: for this task]
    c2 allow 739a9bc19079 shell: echo 1 >> out.txt [grant c1, tool]
    c3 ask 57b0b031eb57 shell: echo 2 >> out.txt [rule 1 of .drivetrain/policy.toml:2, tool]
    c3 allow 57b0b031eb57 shell: echo 2 >> out.txt [person (command), tool]
    ");
    let judged: Vec<Value> = place
        .ok(&["log", &id, "--decisions", "--json"])
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(judged.len(), 5);
    assert!(judged.iter().all(|event| event["type"] == "call_judged"));
    assert_eq!(judged[0]["hash"], hash.as_str());
    assert_eq!((&judged[0]["decide"], &judged[0]["layer"]), (&"ask".into(), &"tool".into()));
}

#[test]
fn a_pattern_must_mean_the_call_that_is_asked_about() {
    let place = asking(&["echo 1 >> out.txt"]);
    assert_eq!(place.run(&["run", "task.toml"]).code, 13);
    let id = place.id();
    for (args, said) in [
        (&["--like", "echo *"][..], "--like is about more than this call"),
        (&["--for", "task", "--like", "rm *"], "is not about all of call c1"),
        (&["--for", "project"], "a rule for shell is a pattern"),
        (&["--for", "ever"], "invalid value"),
    ] {
        let mut all = vec!["approve", id.as_str()];
        all.extend(args);
        let ran = place.run(&all);
        assert_eq!(ran.code, 2, "{args:?}");
        assert!(ran.err.contains(said), "{args:?} {}", ran.err);
    }
    assert_eq!(place.read(".drivetrain/policy.toml"), ASK);
    assert_eq!(place.show(&id)["phase"], "waiting");
}

#[test]
fn a_pattern_reaches_the_task_or_the_project_and_no_further() {
    let place = asking(&["true one", "true two", "touch three"]);
    assert_eq!(place.run(&["run", "task.toml"]).code, 13);
    let id = place.id();
    place.ok(&["approve", &id, "--for", "task", "--like", "true"]);
    assert_eq!(place.run(&["resume", &id]).code, 13);
    let said = decisions(&place, &id);
    assert!(said.contains("shell: true two [grant c1, tool]"), "{said}");
    assert!(said.lines().last().unwrap().starts_with("c3 ask "), "{said}");

    let place = TestEnvironment::new();
    place.write(".drivetrain/policy.toml", "unattended = \"wait\"\n");
    place.trust();
    let replies = "[[reply]]\ntool_calls = [{ tool = \"shell\", input = { command = \"git push\" } }]\n\
         [[reply]]\ntext = \"Done.\"\n";
    place.write("replies.toml", replies);
    let run = ["run", "publish it", "--model", "script/replies.toml", "--in-place"];
    assert_eq!(place.run(&run).code, 13);
    let id = place.id();
    let ran = place.ok(&["approve", &id, "--for", "project", "--like", "git push"]);
    assert!(ran.contains("added to ") && ran.contains("  command = \"git push\""), "{ran}");
    let written = place.read(".drivetrain/policy.toml");
    assert!(written.starts_with("unattended = \"wait\"\n\n# approved at c1"), "{written}");
    assert_eq!(place.run(&["resume", &id]).code, 0);
    assert_eq!(place.run(&run).code, 0, "nobody is asked again");
    let newest = place.tasks()[0]["id"].as_str().unwrap().to_owned();
    let said = decisions(&place, &newest);
    assert!(newest != id && said.contains("allow") && said.contains("rule 1 of"), "{said}");
}

/// What the policy says by its examples is said on purpose: it stays, and the person hears what speaks against the rule.
#[test]
fn a_rule_for_the_project_does_not_take_everything_from_one_that_is_there() {
    let place = TestEnvironment::new();
    let policy = "unattended = \"wait\"\n[[rule]]\ncommand = \"touch *\"\ndecide = \"ask\"\nask = [\"touch a\"]\n";
    place.write(".drivetrain/policy.toml", policy);
    place.trust();
    place.steps("task.toml", &["touch a"], "");
    assert_eq!(place.run(&["run", "task.toml"]).code, 13);
    let id = place.id();
    let approve = ["approve", &id, "--for", "project", "--like", "touch *"];
    let ran = place.run(&approve);
    assert_eq!(ran.code, 2);
    let why = "if it stood there, the rule never decides anything";
    assert!(ran.err.contains(why) && ran.err.contains("or approve --for task"), "{}", ran.err);
    assert_eq!(place.read(".drivetrain/policy.toml"), policy);
    place.write(".drivetrain/policy.toml", &format!("{policy}wrong = 1\n"));
    let ran = place.run(&approve);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("policy.toml:6: ") && ran.err.contains("mend it"), "{}", ran.err);
}

#[test]
fn a_model_decides_when_nobody_attends_and_says_why() {
    let place = TestEnvironment::new();
    place.write(
        ".drivetrain/policy.toml",
        "unattended = \"escalate\"\n[[rule]]\ntool = \"shell\"\ndecide = \"ask\"\n\
         [[decider]]\nname = \"careful\"\nkind = \"model\"\nmodel = \"script/judge.toml\"\n\
         rubric = \"Files may be made. Nothing may be removed.\"\n",
    );
    place.trust();
    place.write(
        "judge.toml",
        "[[reply]]\nmatch = \"touch\"\ntext = '{\"decision\": \"allow\", \"reason\": \"it makes a file\"}'\n\
         usage = { input = 40, output = 9 }\nrepeat = true\n\
         [[reply]]\nmatch = \"rm\"\ntext = 'Sure, {\"decision\": \"allow\"}'\nrepeat = true\n",
    );
    place.steps("task.toml", &["touch one", "rm one"], "");
    let ran = place.run(&["run", "task.toml", "--unattended"]);
    assert_eq!(ran.code, 10, "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("c1 allowed by the decider careful: it makes a file"), "{}", ran.out);
    assert!(ran.out.contains("c2 denied by the decider careful: its answer is not"), "{}", ran.out);
    assert!(exists(&place.folder().join("one")), "what a decider denies does not run");
    let id = place.id();
    assert!(place.show(&id)["spend"]["tokens"].as_u64().unwrap() >= 49);
    let exported = place.ok(&["journal", "export", &id]);
    assert_eq!(exported.matches("model_replied").count(), 2, "each answer is journaled");
}

/// A program that lets one line pass and dies of every other.
const JUDGE: &str = "while read -r line; do\n\
         id=$(printf '%s' \"$line\" | sed 's/.*\"id\":\\([0-9]*\\).*/\\1/')\n\
         case $line in\n\
         *'\"initialize\"'*) printf '{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"protocol\":1}}\\n' \"$id\" ;;\n\
         *'touch one'*) printf '{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"decision\":\"allow\",\"reason\":\"fine\"}}\\n' \"$id\" ;;\n\
         *) exit 3 ;;\n\
         esac\ndone\n";

#[test]
fn a_program_decides_and_one_that_dies_passes_on_to_a_person() {
    let place = TestEnvironment::new();
    place.write(
        ".drivetrain/policy.toml",
        "unattended = \"escalate\"\n[[rule]]\ntool = \"shell\"\ndecide = \"ask\"\n\
         [[decider]]\nname = \"judge\"\nkind = \"program\"\ncommand = [\"sh\", \".drivetrain/judge.sh\"]\n\
         [[decider]]\nkind = \"person\"\n",
    );
    place.trust();
    place.write(".drivetrain/judge.sh", JUDGE);
    place.steps("task.toml", &["touch one", "touch two"], "");
    let ran = place.run(&["run", "task.toml", "--unattended"]);
    assert_eq!(ran.code, 13, "{}{}", ran.out, ran.err);
    assert!(exists(&place.folder().join("one")) && !exists(&place.folder().join("two")));
    let said = decisions(&place, &place.id());
    assert!(said.contains("allow") && said.contains("[decider judge, tool: fine]"), "{said}");
    assert!(said.contains("[decider judge, tool: no answer: plugin judge"), "{said}");
    place.ok(&["approve", &place.id()]);
    assert_eq!(place.run(&["resume", &place.id(), "--unattended"]).code, 0);
    assert!(exists(&place.folder().join("two")));
}

/// In place a worker could write what decides about its calls.
#[test]
fn a_program_that_the_worker_can_write_decides_nothing() {
    for command in ["\"sh\", \"judge.sh\"", "\"./below/judge\"", "\"sh\", \"below/../judge.sh\""] {
        let place = TestEnvironment::new();
        place.write("judge.sh", JUDGE);
        std::fs::create_dir(place.folder().join("below")).unwrap();
        std::os::unix::fs::symlink("/usr/bin/true", place.folder().join("below/judge")).unwrap();
        place.write(
            ".drivetrain/policy.toml",
            &format!(
                "unattended = \"escalate\"\n[[rule]]\ntool = \"shell\"\ndecide = \"ask\"\n\
                 [[decider]]\nname = \"judge\"\nkind = \"program\"\ncommand = [{command}]\n"
            ),
        );
        place.trust();
        place.steps("task.toml", &["touch one"], "");
        let ran = place.run(&["run", "task.toml", "--unattended"]);
        assert_ne!(ran.code, 0, "{command}: {}", ran.out);
        assert!(!exists(&place.folder().join("one")), "{command}: {}", ran.out);
        let said = decisions(&place, &place.id());
        assert!(said.contains("lies where the task works"), "{command}: {said}");
    }
}

#[test]
fn asks_are_watched_as_they_come_and_go() {
    let place = asking(&["touch one"]);
    assert_eq!(place.run(&["run", "task.toml"]).code, 13);
    let mut watcher =
        place.command(&["approvals", "--watch", "--json"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(watcher.stdout.take().unwrap()).lines();
    let mut next = || -> Value { serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap() };
    let asked = next();
    assert_eq!(asked["asked"]["task"], place.id().as_str());
    assert_eq!(asked["asked"]["input"]["command"], "touch one");
    place.ok(&["deny", &place.id(), "--reason", "no"]);
    assert_eq!(next()["settled"]["call"], 1);
    watcher.kill().unwrap();
    watcher.wait().unwrap();
}

#[test]
fn at_a_terminal_all_answers_are_there_and_what_is_long_is_shown_on_request() {
    let long = format!("true {} END", "x".repeat(4000));
    let place = asking(&[&long, "touch two", "touch two", "touch three"]);
    let mut screen = Screen::start(&place, &["run", "task.toml"]);
    screen.until("? c1 wants to run shell").until("more characters here").until("hash: ");
    screen.until("run c1? [y/t/p/n/a/?] ").enter("?");
    screen.until("let it run, this once").until("run c1? ").enter("a");
    screen.until(&"x".repeat(90)).until(" END").until("run c1? ").enter("y");
    screen.until("c1 approved").until("run c2? ").enter("t");
    screen.until("c2 approved for this task").until("run c4? ").enter("n not today");
    screen.until("c4 denied: not today");
    assert_eq!(screen.end(), 10);
    let said = decisions(&place, &place.id());
    assert!(said.contains("[person (prompt), tool: for this task]"), "{said}");
    assert!(said.contains("c3 allow") && said.contains("[grant c2, tool]"), "{said}");
    assert!(said.ends_with("[person (prompt), tool: not today]"), "{said}");
}

#[test]
fn at_a_terminal_a_question_that_is_answered_elsewhere_goes_away() {
    let place = asking(&["touch one; while ! test -e go; do sleep 0.02; done", "touch two"]);
    let mut screen = Screen::start(&place, &["run", "task.toml"]);
    screen.until("run c1? [y/t/p/n/a/?] ");
    place.ok(&["approve", &place.id(), "c1"]);
    screen.until("c1 approved").until("c1 is settled: Enter");
    place.until_file("one");
    // What is typed now is no answer to anything.
    screen.enter("n");
    screen.until("what you typed was not used");
    place.write("go", "");
    screen.until("? c2 wants to run shell").until("run c2? [y/t/p/n/a/?] ").enter("y");
    screen.until("completed");
    assert_eq!(screen.end(), 0);
    assert!(decisions(&place, &place.id()).contains("[person (command), tool]"));
}

#[test]
fn at_a_terminal_what_was_typed_before_a_question_does_not_answer_it() {
    let place = asking(&["touch one; while ! test -e go; do sleep 0.02; done", "touch two"]);
    let mut screen = Screen::start(&place, &["run", "task.toml"]);
    screen.until("run c1? [y/t/p/n/a/?] ").enter("y");
    screen.until("c1 approved");
    place.until_file("one");
    // Nobody asks at this moment. The terminal itself shows what is typed.
    screen.enter("y");
    screen.until("y\r\n");
    place.write("go", "");
    screen.until("? c2 wants to run shell").until("run c2? [y/t/p/n/a/?] ").enter("n not seen");
    screen.until("c2 denied: not seen");
    assert_eq!(screen.end(), 10);
    assert!(!exists(&place.folder().join("two")));
}
