//! `drivetrain chat`: lines through a pipe, other processes that join in, and a person at a terminal.

use std::process::Command;

use serde_json::Value;

use crate::environment::TestEnvironment;
use crate::pty::Screen;

/// Waits until the file `go` is there.
const WAIT: &str = "touch begun; while ! test -e go; do sleep 0.02; done";

/// A place with a script of replies.
fn place(script: &str) -> TestEnvironment {
    let place = TestEnvironment::new();
    place.write("a.toml", script);
    place
}

fn chat<'a>(more: &[&'a str]) -> Vec<&'a str> {
    let mut args = vec!["chat", "--model", "script/a.toml", "--in-place"];
    args.extend(more);
    args
}

fn shell(text: &str, command: &str, when: &str) -> String {
    format!(
        "[[reply]]\nmatch = \"{when}\"\ntext = \"{text}\"\ntool_calls = [{{ tool = \"shell\", input = {{ command = {} }} }}]\n",
        Value::from(command)
    )
}

/// Lets the model run commands without asking.
fn allow_shell(place: &TestEnvironment) {
    place.write(".drivetrain/policy.toml", "[[rule]]\ntool = \"shell\"\ndecide = \"allow\"\n");
    place.trust();
}

/// The events of a type.
fn of_type(place: &TestEnvironment, kind: &str) -> Vec<Value> {
    let mut events = place.events(&place.id());
    events.retain(|event| event["type"] == kind);
    events
}

#[test]
fn each_line_of_a_pipe_is_said_once_the_model_waits() {
    let place = place(
        "[[reply]]\ntext = \"Hello.\\n\\u001b[2Jtwo\"\n[[reply]]\ntext = \"Yes.\"\nrepeat = true\n",
    );
    let ran =
        place.run_with(&chat(&[]), "hello\n\nis it?\n/nope\n/done now\n//etc is odd\n/cost\n");
    assert_eq!(ran.code, 13, "{}{}", ran.out, ran.err);
    insta::assert_snapshot!(place.plain(&ran.out), @r"
    task ID: hello
      driver llm, no acceptance criteria
      works in FOLDER (in place): there is no way back, and checks run where the worker works
    says: Hello.
      \x1b[2Jtwo
    > is it?
    says: Yes.
    there is no command /nope; nothing was sent. There are /done, /model, /compact, /cost, /quit and /help; // sends a slash
    /done stands alone; nothing was sent
    > /etc is odd
    says: Yes.
    spent TIME
    the chat waits: drivetrain chat --resume ID goes on
    ");
    let told: Vec<String> =
        of_type(&place, "told").iter().map(|event| event["line"].to_string()).collect();
    assert_eq!(told, ["\"is it?\"", "\"/etc is odd\""]);
    assert_eq!(place.show(&place.id())["phase"], "waiting");
}

#[test]
fn a_command_with_one_more_slash_is_a_line_like_any_other() {
    let place = place("[[reply]]\ntext = \"Hm.\"\nrepeat = true\n");
    let ran = place.run_with(&chat(&["--max-steps", "1"]), "hello\n//done\n//compact it\nbye\n");
    assert_eq!(ran.code, 13, "{}{}", ran.out, ran.err);
    assert_eq!(ran.out.matches("says: Hm.").count(), 4, "{}", ran.out);
    let told: Vec<String> =
        of_type(&place, "told").iter().map(|event| event["line"].to_string()).collect();
    assert_eq!(told, ["\"//done\"", "\"//compact it\"", "\"bye\""]);
}

#[test]
fn a_line_that_is_refused_does_not_keep_the_next_from_being_said() {
    let place = place("[[reply]]\ntext = \"Hm.\"\nrepeat = true\n");
    let ran = place.run_with(&chat(&[]), &format!("hello\n{}\nbye\n", "y".repeat(9 << 20)));
    assert_eq!(ran.code, 13, "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("refused: it is too large"), "{}", ran.out);
    assert!(ran.out.contains("> bye\nsays: Hm.\n"), "{}", ran.out);
}

#[test]
fn a_chat_in_which_nothing_is_said_makes_no_task() {
    let place = place("[[reply]]\ntext = \"x\"\n");
    for input in ["", "\n \n/help\n", "/quit\n", "/done\n/cost\n"] {
        let ran = place.run_with(&chat(&[]), input);
        assert_eq!(ran.code, 0, "{input:?} {}{}", ran.out, ran.err);
        assert!(!place.home().join("journal").exists(), "{input:?}");
    }
}

#[test]
fn a_chat_in_json_prints_events_and_nothing_else() {
    let place = place("[[reply]]\ntext = \"Hello.\"\nrepeat = true\n");
    let ran = place.run_with(&chat(&["--json"]), "/help\nhello\n/cost\n/nope\nagain\n");
    assert_eq!(ran.code, 13, "{}{}", ran.out, ran.err);
    let events: Vec<Value> =
        ran.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(events[0]["type"], "task_started");
    assert_eq!(events.last().unwrap()["outcome"], "waiting");
    assert!(ran.err.contains("there is no command /nope"), "{}", ran.err);
    assert!(ran.err.contains("spent"), "{}", ran.err);
}

#[test]
fn done_is_a_claim_and_a_check_that_fails_goes_back_to_the_model() {
    let script = r#"
[[reply]]
text = "Ready."
[[reply]]
match = "not accepted"
text = "I make it."
tool_calls = [{ tool = "write", input = { path = "made", content = "x" } }]
[[reply]]
text = "Made."
"#;
    let place = place(script);
    let ran = place.run_with(&chat(&["make it", "--check", "test -s made"]), "/done\n/done\n");
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("not accepted: 1 criterion failed"), "{}", ran.out);
    assert!(ran.out.contains("verified: Made."), "{}", ran.out);
    assert_eq!(of_type(&place, "claimed").len(), 2);
    let refused = place.run(&["chat", "--resume", &place.id()]);
    assert!(refused.err.contains("has ended: verified"), "{}", refused.err);
    assert_eq!(refused.code, 2);
}

#[test]
fn a_killed_chat_goes_on_with_what_was_said_last() {
    let slow = "[[reply]]\ntext = \"First.\"\n[[reply]]\ntext = \"Second.\"\ndelay = \"600s\"\n[[reply]]\ntext = \"Third.\"\n";
    let place = place(slow);
    place.write("lines", "and then\n");
    let mut child = place
        .command(&chat(&["hello"]))
        .stdin(std::fs::File::open(place.folder().join("lines")).unwrap())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let asked = |place: &TestEnvironment| {
        let there = place.home().join("journal").exists() && place.tasks().len() == 1;
        (there && of_type(place, "model_called").len() == 2).then_some(())
    };
    place.until(|| asked(&place));
    child.kill().unwrap();
    child.wait().unwrap();
    place.write("a.toml", &slow.replace("600s", "0s"));
    let ran = place.run_with(&["chat", "--resume", &place.id()], "what else?\n");
    assert_eq!(ran.code, 13, "{}{}", ran.out, ran.err);
    insta::assert_snapshot!(place.plain(&ran.out), @"
    task ID: hello (goes on)
    says: First.
    > and then
    the process that drove it was lost
    says: Second.
    > what else?
    says: Third.
    the chat waits: drivetrain chat --resume ID goes on
    ");
    // `resume` knows a chat when it meets one.
    place.write("a.toml", "[[reply]]\ntext = \"More.\"\nrepeat = true\n");
    let ran = place.run_with(&["resume", &place.id()], "more?\n/done\n");
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("> what else?"), "what was said is told again: {}", ran.out);
    assert!(ran.out.contains("completed: More."), "{}", ran.out);
}

#[test]
fn another_model_goes_on_with_the_conversation_and_the_settings() {
    let place = place("[[reply]]\ntext = \"I am a.\"\nrepeat = true\n");
    place.write("AGENTS.md", "Be kind.\n");
    place.trust();
    place.write("b.toml", "[[reply]]\ntext = \"I am b.\"\nrepeat = true\n");
    let lines = "/model script/none.toml\n/model nope/x\n/model b\n/model script/b.toml\nwho?\n";
    let ran = place.run_with(&chat(&["hello", "--max-steps", "3"]), lines);
    assert_eq!(ran.code, 13, "{}{}", ran.out, ran.err);
    for said in ["none.toml", "there is no provider \"nope\"", "expected PROVIDER/NAME"] {
        assert!(ran.out.contains(said), "{said}: {}", ran.out);
    }
    assert!(
        ran.out.contains("handed over to llm (script/b.toml)\n> who?\nsays: I am b."),
        "{}",
        ran.out
    );
    // At rest, by another process, and with the chat itself.
    let id = place.id();
    assert_eq!(place.run(&["hand-over", &id, "--model", "nope/x"]).code, 2);
    assert_eq!(place.run(&["hand-over", &id, "--model", "b"]).code, 2);
    assert_eq!(place.run(&["hand-over", &id, "--model", "script/none.toml"]).code, 2);
    assert_eq!(
        place.run(&["hand-over", &id, "--model", "script/a.toml", "--driver", "user"]).code,
        2
    );
    assert_eq!(place.run(&["hand-over", &id]).code, 2);
    assert_eq!(of_type(&place, "driver_changed").len(), 1, "nothing changed");
    place.ok(&["hand-over", &id, "--model", "script/a.toml"]);
    let ran = place.run_with(&["chat", "--resume", &id, "--model", "script/b.toml"], "still?\n");
    assert_eq!(ran.code, 13, "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("> still?\nsays: I am b."), "{}", ran.out);
    let records = place.ok(&["journal", "export", &id]);
    let handed: Vec<&str> = records.lines().filter(|line| line.contains("hand_over")).collect();
    assert_eq!(handed.len(), 3);
    for line in handed {
        for kept in ["Be kind.", "chat", "max_steps"] {
            assert!(line.contains(kept), "{kept}: {line}");
        }
    }
}

#[test]
fn a_model_takes_over_a_task_that_another_driver_left() {
    let place = place("[[reply]]\ntext = \"Done.\"\n");
    place.write("AGENTS.md", "Be kind.\n");
    place.trust();
    place.steps("task.toml", &["exit 1"], "");
    assert_eq!(place.run(&["run", "task.toml"]).code, 10);
    place.ok(&["hand-over", &place.id(), "--model", "script/a.toml"]);
    let ran = place.run(&["resume", &place.id()]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert!(place.ok(&["journal", "export", &place.id()]).contains("Be kind."));
}

#[test]
fn other_processes_steer_a_chat_and_hand_it_over_while_it_works() {
    let script = format!(
        "{}[[reply]]\nmatch = \"mind the tests\"\ntext = \"I mind them.\"\n",
        shell("I wait.", WAIT, "begin")
    );
    let place = place(&script);
    allow_shell(&place);
    place.write("b.toml", "[[reply]]\ntext = \"I am b.\"\nrepeat = true\n");
    let task = place.start(&chat(&["begin"]));
    place.until_file("begun");
    place.ok(&["steer", &task.id, "mind the tests"]);
    let refused = place.run(&["chat", "--resume", &task.id]);
    assert!(refused.err.contains("is driven by process"), "{}", refused.err);
    place.write("go", "");
    let ran = task.wait();
    assert_eq!(ran.code, 13, "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("says: I mind them."), "{}", ran.out);
}

#[test]
fn a_chat_that_is_stopped_or_handed_over_from_elsewhere_does_not_wait_for_the_old_answer() {
    let stalled = "[[reply]]\ntext = \"Never.\"\ndelay = \"600s\"\nrepeat = true\n";
    let place_a = place(stalled);
    let task = place_a.start(&chat(&["begin"]));
    place_a.until(|| (of_type(&place_a, "model_called").len() == 1).then_some(()));
    place_a.ok(&["interrupt", &task.id]);
    let ran = task.wait();
    assert_eq!(ran.code, 13, "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("interrupted\n? stopped\n"), "{}", ran.out);
    assert_eq!(place_a.show(&place_a.id())["phase"], "waiting");
    let why = place_a.ok(&["why", &place_a.id()]);
    assert!(why.contains("drivetrain chat --resume"), "{why}");

    let place_b = place(stalled);
    place_b.write("b.toml", "[[reply]]\ntext = \"I am b.\"\n");
    let task = place_b.start(&chat(&["begin"]));
    place_b.until(|| (of_type(&place_b, "model_called").len() == 1).then_some(()));
    place_b.ok(&["hand-over", &task.id, "--model", "script/b.toml"]);
    let ran = task.wait();
    assert!(ran.out.contains("says: I am b."), "{}{}", ran.out, ran.err);
}

#[test]
fn in_a_pipe_nothing_is_approved_by_a_message_and_no_message_is_lost() {
    let script = format!(
        "{}{}[[reply]]\nmatch = \"the next line\"\ntext = \"I heard it.\"\n[[reply]]\ntext = \"Ran.\"\n",
        shell("I run it.", "touch first", "begin"),
        shell("I run more.", "touch second", "Ran"),
    );
    let place = place(&script.replace("match = \"Ran\"", "match = \"more\""));
    let ran = place.run_with(&chat(&["begin", "--profile", "read-only"]), "yes, the next line\n");
    assert_eq!(ran.code, 13, "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("says: I heard it."), "{}", ran.out);
    assert!(!place.folder().join("first").exists(), "it was refused");
    let ran = place.run_with(&["chat", "--resume", &place.id()], "more\ny\n");
    assert_eq!(ran.code, 13, "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("says: Ran."), "{}", ran.out);
    assert!(place.folder().join("second").exists(), "it was approved");
}

#[test]
fn in_a_pipe_a_message_in_place_of_a_yes_lets_no_other_call_begin() {
    let calls = ["touch asked", "touch released"]
        .map(|command| format!("{{ tool = \"shell\", input = {{ command = \"{command}\" }} }}"));
    let place = place(&format!(
        "[[reply]]\nmatch = \"go\"\ntext = \"I run two.\"\ntool_calls = [{}]\n\
         [[reply]]\ntext = \"I stop.\"\nrepeat = true\n",
        calls.join(", ")
    ));
    let rules = [("touch asked", "ask"), ("touch released", "allow")].map(|(command, decide)| {
        format!("[[rule]]\ntool = \"shell\"\ncommand = \"{command}\"\ndecide = \"{decide}\"\n")
    });
    place.write(".drivetrain/policy.toml", &rules.concat());
    place.trust();
    let ran = place.run_with(&chat(&[]), "go\nNo! Stop. Release nothing.\n");
    assert!(ran.out.contains("says: I stop."), "{}{}", ran.out, ran.err);
    for file in ["asked", "released"] {
        assert!(!place.folder().join(file).exists(), "{file}: {}", ran.out);
    }
}

#[test]
fn a_wrong_chat_starts_nothing() {
    let place = place("[[reply]]\ntext = \"x\"\n");
    for (args, said) in [
        (&["chat"][..], "--model"),
        (&["chat", "hello"], "--model"),
        (&["chat", "--model", "nomodel"], "expected PROVIDER/NAME"),
        (&["chat", "--model", "anthropc/x"], "did you mean \"anthropic\""),
        (&["chat", "--model", "script/none.toml"], "none.toml"),
        (&["chat", "--model", "script/a.toml", "--max-steps", "0"], "--max-steps"),
        (&["chat", "--model", "script/a.toml", "--check", " "], "--check needs a command"),
        (&["chat", "--model", "script/a.toml", "--worktree"], "not in a git repository"),
        (&["chat", "", "--model", "script/a.toml"], "the goal is empty"),
        (&["chat", "--resume", "x", "hello"], "cannot be used with"),
        (&["chat", "--resume", "x", "--check", "true"], "cannot be used with"),
        (&["chat", "--resume", "x", "--in-place"], "cannot be used with"),
        (&["chat", "--resume", "x", "--max-turns", "3"], "cannot be used with"),
        (&["run", "x y", "--model", "nope/x"], "there is no provider"),
    ] {
        let ran = place.run(args);
        assert_eq!(ran.code, 2, "{args:?} {}{}", ran.out, ran.err);
        assert!(ran.err.contains(said), "{args:?} {}", ran.err);
    }
    assert!(!place.home().join("journal").exists(), "nothing was recorded");
    place.steps("task.toml", &["true"], "");
    place.ok(&["run", "task.toml"]);
    let ran = place.run(&["chat", "--resume", &place.id()]);
    assert_eq!((ran.code, ran.err.contains("is not a chat")), (2, true), "{}", ran.err);
}

#[test]
fn at_a_terminal_ctrl_c_stops_the_answer_and_ctrl_d_leaves() {
    let place = place(
        "[[reply]]\nmatch = \"begin\"\ntext = \"Never.\"\ndelay = \"600s\"\n[[reply]]\ntext = \"I am back.\"\nrepeat = true\n",
    );
    let mut screen = Screen::start(&place, &chat(&[]));
    screen.until("> ").enter("begin");
    screen.until("script/a.toml thinks").until("> ").keys("half a line\x03");
    screen.until("interrupted").until("? stopped").until("> ").enter("once more");
    screen.until("says: I am back.").until("> ").keys("\x03");
    screen.until("Ctrl-C again, or Ctrl-D").until("> ").keys("\x04");
    screen.until(&format!("the chat waits: drivetrain chat --resume {} goes on", place.id()));
    let shown = screen.shown();
    assert_eq!(shown.matches("once more").count(), 1, "not echoed twice: {shown:?}");
    assert_eq!(screen.end(), 13);
    let told = of_type(&place, "told");
    assert_eq!(told.len(), 1, "half a line was not sent");

    let mut screen = Screen::start(&place, &["chat", "--resume", &place.id()]);
    screen.until("(goes on)").until("interrupted").until("> once more").until("says: I am back.");
    screen.until("> ").until_it_edits();
    // What is said to run is shown after a moment; these take longer.
    for _ in 0..3 {
        place.ok(&["doctor"]);
    }
    let shown = screen.shown();
    assert!(!shown.contains("starting"), "it waits for the person: {shown:?}");
    screen.enter("/done");
    screen.until("completed: I am back.");
    assert_eq!(screen.end(), 0);
}

#[test]
fn at_a_terminal_a_line_outlives_that_the_program_is_stopped_and_goes_on() {
    let place = place("[[reply]]\ntext = \"I am back.\"\nrepeat = true\n");
    let mut screen = Screen::start(&place, &chat(&["hello"]));
    screen.until("says: I am back.").until("> ").keys("half a ");
    screen.until("half a ").until_it_edits();
    screen.stop_and_go_on();
    screen.until("> half a ").until_it_edits();
    screen.enter("line");
    screen.until("says: I am back.").until("> ").keys("\x04");
    assert_eq!(screen.end(), 13);
    assert_eq!(of_type(&place, "told")[0]["line"], "half a line");
}

#[test]
fn at_a_terminal_y_approves_and_a_line_typed_meanwhile_steers() {
    let script = format!(
        "{}[[reply]]\nmatch = \"mind the tests\"\ntext = \"I mind them.\"\n",
        shell("I wait.", WAIT, "begin")
    );
    let place = place(&script);
    let mut screen = Screen::start(&place, &chat(&["begin", "--profile", "read-only"]));
    screen.until("? c1 wants to run shell").until("y lets c1 run").until("> ").enter("y");
    screen.until("c1 approved").until("c1 shell").until("> ");
    place.until_file("begun");
    screen.enter("mind the tests");
    screen.until("queued: it hears this before its next step");
    place.write("go", "");
    screen.until("says: I mind them.").until("> ").enter("/quit");
    screen.until("the chat waits");
    assert_eq!(screen.end(), 13);
    let note = &of_type(&place, "note_delivered")[0]["note"];
    assert_eq!((&note["kind"], &note["text"]), (&"steer".into(), &"mind the tests".into()));
}

#[test]
fn at_a_terminal_a_line_begun_before_the_question_is_no_answer_to_it() {
    let script = format!(
        "{}{}[[reply]]\ntext = \"Well.\"\nrepeat = true\n",
        shell("I wait.", WAIT, "begin"),
        shell("I run it.", "touch made", "begun").replace("match = \"begun\"\n", ""),
    );
    let place = place(&script);
    let mut screen = Screen::start(&place, &chat(&["begin", "--profile", "read-only"]));
    screen.until("? c1 wants to run").until("> ").enter("y");
    screen.until("c1 shell").until("> ").keys("y");
    screen.until("y");
    place.write("go", "");
    screen.until("? c2 wants to run").until("> ").keys("\r");
    screen
        .until("a question came while you typed")
        .until("run c2? [y/t/p/n/a/?] ")
        .enter("n not now");
    screen.until("c2 denied: not now").until("says: Well.");
    assert!(!place.folder().join("made").exists());
    // What was typed is still there, to be sent or not.
    screen.until("> ").keys("es\r");
    screen.until("says: Well.").until("> ").keys("\x04");
    assert_eq!(screen.end(), 13);
    assert_eq!(of_type(&place, "told")[0]["line"], "yes");
}

#[test]
fn at_a_terminal_sigterm_leaves_the_chat_resumable_and_the_terminal_as_it_was() {
    let place = place("[[reply]]\ntext = \"Hello.\"\n");
    let mut screen = Screen::start(&place, &chat(&["hello"]));
    screen.until("says: Hello.").until("> ");
    let sent = Command::new("kill").args(["-TERM", &screen.pid().to_string()]).status().unwrap();
    assert!(sent.success());
    screen.until("the chat waits");
    assert_eq!(screen.end(), 13);
    assert_eq!(place.show(&place.id())["phase"], "waiting");
}

#[test]
fn at_a_terminal_ctrl_c_stops_a_check_too_and_pressed_twice_it_leaves() {
    let place = place("[[reply]]\ntext = \"Ready.\"\n");
    let mut screen = Screen::start(&place, &chat(&["hello", "--check", WAIT]));
    screen.until("says: Ready.").until("> ").enter("/done");
    place.until_file("begun");
    screen.keys("\x03");
    screen.until("interrupted").until("> ");
    // The second one counts only soon after the first: a slow machine may need more of them. None comes where it would be a
    // signal: the terminal throws away what nobody has read by then.
    let leaves = || screen.shown().contains("the chat waits");
    let hints = || screen.shown().matches("Ctrl-C again").count();
    while !leaves() {
        let before = hints();
        screen.until_it_edits();
        screen.keys("\x03");
        place.until(|| (hints() > before || leaves()).then_some(()));
    }
    assert_eq!(screen.end(), 13);
    assert_eq!(of_type(&place, "verdict_failed").len(), 0);
}

#[test]
fn a_byte_that_is_no_text_does_not_end_a_chat() {
    let place = place("[[reply]]\ntext = \"Yes.\"\nrepeat = true\n");
    let ran = place.run_with_bytes(&chat(&[]), b"hello\nin a caf\xe9\nand more\n/done\n");
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let told: Vec<Value> =
        of_type(&place, "told").iter().map(|event| event["line"].clone()).collect();
    assert_eq!(told, ["in a caf\u{fffd}", "and more", "/done"]);
    assert!(ran.out.contains("what was no UTF-8 in that line stands as \u{fffd}"), "{}", ran.out);
}

#[test]
fn at_a_terminal_a_byte_that_is_no_text_costs_no_more_than_itself() {
    let place = place("[[reply]]\ntext = \"Yes.\"\nrepeat = true\n");
    let mut screen = Screen::start(&place, &chat(&["hello"]));
    screen.until("says: Yes.").until("> ").keys("in a caf");
    screen.until("in a caf").bytes(b"\xff");
    screen.until("that key is no UTF-8").until("> in a caf").enter("e");
    screen.until("says: Yes.").until("> ").keys("\x04");
    assert_eq!(screen.end(), 13);
    assert_eq!(of_type(&place, "told")[0]["line"], "in a cafe");
}
