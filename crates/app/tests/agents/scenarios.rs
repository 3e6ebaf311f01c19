//! What is tried with every program.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::program::{GEMINI_EDITS, Program, call, fails, says};
use crate::stage::{KEY, OPEN, Stage};

/// Holds once the edit was made.
const CHECK: &str = "grep -q 'hello driver' hello.txt";
/// What an agent is told after its process, or ours, was lost.
const LOOK_AGAIN: &str = "Look at the state of the files, and go on.";
/// What it is told in a conversation that had to begin afresh.
const AFRESH: &str = "that conversation is gone";
/// A command that is in the middle for long. Programs end what it waits for first, so each part needs the one before.
const SLOW: &str = "touch begun.txt && sleep 300 && touch late.txt";
/// A command that shows for as long as it runs that it does. One that was only just begun is ended by programs that let others run on.
const BEATS: &str = "sleep 1; while true; do touch beat.txt; sleep 0.1; done";

pub(crate) fn an_edit_is_made_and_verified(program: &Program) {
    let stage = Stage::new(program, OPEN, &[(program.edit)(), says("All done.")]);
    let ran = stage.run(&["--check", CHECK]);
    assert_eq!(ran.code, 0, "{}", stage.story(&ran));
    assert!(ran.out.contains("verified: All done."), "{}", ran.out);
    let ended = stage.events("tool_ended");
    assert!(ended.iter().any(|event| event["result"]["status"] == "ok"), "{ended:?}");
    let spend = &stage.place.show(&stage.place.id())["spend"];
    assert!(spend["tokens"].as_u64() >= Some(240), "{spend}");
    assert_eq!(spend["turns"], 1, "{spend}");
    assert!(stage.asked()[0].contains("say hello to the driver"));
}

pub(crate) fn what_the_policy_denies_is_not_done_and_the_agent_hears_why(program: &Program) {
    let policy = "[[rule]]\ncommand = \"touch forbidden.txt\"\ndecide = \"deny\"\nreason = \"nobody touches that\"\n";
    let replies = [(program.shell)("touch forbidden.txt"), says("I could not.")];
    let stage = Stage::new(program, policy, &replies);
    let ran = stage.run(&[]);
    assert_eq!(ran.code, 0, "{}", stage.story(&ran));
    assert!(!stage.has("forbidden.txt"));
    assert!(ran.out.contains("completed: I could not."), "{}", stage.story(&ran));
    let denied = stage.events("tool_ended");
    assert_eq!(denied[0]["result"]["status"], "denied", "{denied:?}");
    // Agents of the protocol cannot be told the reason of a refusal, only that there is one.
    let told: &[&str] = match program.protocol {
        "acp" => &["nobody touches that", "reject", "refused permission", "canceled by the user"],
        _ => &["nobody touches that"],
    };
    let heard = stage.asked_last();
    assert!(told.iter().any(|words| heard.contains(words)), "not told of the refusal");
}

pub(crate) fn what_is_asked_is_done_once_another_process_approves(program: &Program) {
    let policy =
        "unattended = \"wait\"\n[[rule]]\ncommand = \"touch asked.txt\"\ndecide = \"ask\"\n";
    let replies = [(program.shell)("touch asked.txt"), says("It is there.")];
    let stage = Stage::new(program, policy, &replies);
    let task = stage.start(&["--check", "test -e asked.txt"]);
    let asks = || stage.place.ok(&["approvals", "--json"]).contains("touch asked.txt");
    stage.place.until(|| asks().then_some(()));
    assert!(!stage.has("asked.txt"));
    stage.place.ok(&["approve", &task.id]);
    let ran = stage.ended(task);
    assert_eq!(ran.code, 0, "{}", stage.story(&ran));
    assert!(stage.has("asked.txt"));
    assert_eq!(stage.events("agent_asked").len(), 1, "it waited in the same turn");
}

pub(crate) fn what_a_verdict_says_is_the_next_prompt_and_the_fix_is_verified(program: &Program) {
    // What it prints does not stand in the command itself, which the first prompt names.
    let check = format!("{CHECK} || {{ echo 'the driver' 'is not greeted'; exit 1; }}");
    let replies = [
        (program.shell)("touch other.txt"),
        says("All done."),
        (program.edit)(),
        says("Now it is."),
    ];
    let stage = Stage::new(program, OPEN, &replies);
    let ran = stage.run(&["--check", &check]);
    assert_eq!(ran.code, 0, "{}", stage.story(&ran));
    assert!(ran.out.contains("verified: Now it is."), "{}", ran.out);
    let asked = stage.asked();
    assert!(!asked[1].contains("the driver is not greeted"));
    assert!(asked[2].contains("the driver is not greeted"), "{}", asked[2]);
    let goes_on = if program.resumes { "All done." } else { AFRESH };
    assert!(asked[2].contains(goes_on), "{}", asked[2]);
}

pub(crate) fn an_interrupt_stops_a_tool_and_its_note_is_the_operators(program: &Program) {
    let replies = [
        (program.shell)(BEATS),
        (program.shell)("rm -f beat.txt; sleep 1; test -e beat.txt || touch quiet.txt"),
        says("I take the left one."),
        says("Yes."),
    ];
    let stage = Stage::new(program, OPEN, &replies);
    let task = stage.start(&[]);
    stage.until_made("beat.txt");
    let begun = Instant::now();
    stage.place.ok(&["interrupt", &task.id, "take the left door"]);
    let ran = stage.ended(task);
    assert_eq!(ran.code, 0, "{}", stage.story(&ran));
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    assert!(stage.has("quiet.txt"), "what it stopped runs on: {}", stage.story(&ran));
    let heard = stage.asked_last();
    let at = heard.find("I stopped you. take the left door").unwrap_or_else(|| panic!("{heard}"));
    // The mark is not in the repository, and the first prompt says what it means.
    let marked = heard[..at].rfind("[operator ").unwrap();
    let mark = heard[marked..at].trim_end();
    assert!(stage.asked()[0].contains(mark), "{mark}");
}

pub(crate) fn a_word_in_the_middle_of_a_turn_reaches_the_model(program: &Program) {
    let replies = [
        (program.shell)("touch begun.txt; while ! test -e go.txt; do sleep 0.1; done"),
        says("I keep left."),
        says("Left it is."),
    ];
    let stage = Stage::new(program, OPEN, &replies);
    let task = stage.start(&[]);
    stage.until_made("begun.txt");
    stage.place.ok(&["steer", &task.id, "keep to the left"]);
    if program.steers {
        // Its pipe has it before the tool ends, and it has time to look.
        std::thread::sleep(Duration::from_millis(1500));
    }
    std::fs::write(stage.worktree().join("go.txt"), "").unwrap();
    let ran = stage.ended(task);
    assert_eq!(ran.code, 0, "{}", stage.story(&ran));
    let heard = stage.asked_last();
    assert!(heard.contains("[operator ") && heard.contains("keep to the left"), "{heard}");
    let turns = if program.steers { 1 } else { 2 };
    assert_eq!(stage.events("agent_asked").len(), turns, "{}", stage.story(&ran));
}

pub(crate) fn another_model_is_asked_in_the_same_conversation(program: &Program) {
    let waits = "touch second.txt; while ! test -e go.txt; do sleep 0.1; done";
    let replies = [(program.shell)(SLOW), (program.shell)(waits), (program.edit)(), says("Done.")];
    let stage = Stage::new(program, OPEN, &replies);
    let task = stage.start(&["--check", CHECK]);
    stage.until_made("begun.txt");
    let first = stage.agent();
    stage.place.ok(&["hand-over", &task.id, "--model", "another-1"]);
    stage.until_made("second.txt");
    // What the turn that was stopped ran ends with the process where nothing else ends it.
    assert_eq!(stage.agent() == first, program.protocol == "claude", "its process lives");
    std::fs::write(stage.worktree().join("go.txt"), "").unwrap();
    let ran = stage.ended(task);
    assert_eq!(ran.code, 0, "{}", stage.story(&ran));
    let asked = stage.asked();
    let model = "\"model\":\"another-1\"";
    let last = stage.asked_last();
    assert!(!asked[0].contains(model) && last.contains(model), "{asked:?}");
    assert!(last.contains("touch begun.txt"), "the same conversation: {last}");
}

pub(crate) fn a_model_that_has_no_time_is_asked_again(program: &Program) {
    for how in ["status = 429\nretry_after = \"1s\"", "status = 500", "error = \"overloaded\""] {
        let replies = [fails(how, program.tries), (program.edit)(), says("All done.")];
        let stage = Stage::new(program, OPEN, &replies);
        let ran = stage.run(&["--check", CHECK]);
        assert_eq!(ran.code, 0, "{how}: {}", stage.story(&ran));
        let failed = stage.events("model_failed");
        assert!(!failed.is_empty(), "{how}: {}", stage.story(&ran));
    }
}

/// It is told to make it shorter first, and it is too long again, however often it tries that by itself.
pub(crate) fn a_conversation_that_is_too_long_begins_afresh(program: &Program) {
    let edit = (program.edit)();
    let (first, rest) = edit.split_at(edit.rfind("[[reply]]").unwrap());
    let (first, rest) = if first.is_empty() { (rest, first) } else { (first, rest) };
    let replies = [
        format!("{first}\nmatch = {AFRESH:?}\n"),
        "[[reply]]\nerror = \"context_overflow\"\nmatch = \"say hello\"\nrepeat = true\n"
            .to_owned(),
        rest.to_owned(),
        says("All done."),
    ];
    let stage = Stage::new(program, OPEN, &replies);
    let ran = stage.run(&["--check", CHECK]);
    assert_eq!(ran.code, 0, "{}", stage.story(&ran));
    let conversations: Vec<u64> = stage
        .events("agent_asked")
        .iter()
        .filter_map(|event| event["conversation"].as_u64())
        .collect();
    assert_eq!(conversations, [1, 1, 2], "{}", stage.story(&ran));
    assert!(stage.asked_last().contains(AFRESH));
}

pub(crate) fn a_conversation_is_made_shorter_between_two_turns(program: &Program) {
    let replies = [
        (program.shell)("touch begun.txt; while ! test -e go.txt; do sleep 0.1; done"),
        says("All done."),
        says("<analysis>short</analysis><summary>We greet somebody.</summary>"),
        (program.edit)(),
        says("Now it is."),
    ];
    let stage = Stage::new(program, OPEN, &replies);
    let task = stage.start(&["--check", CHECK]);
    stage.until_made("begun.txt");
    let focus: &[&str] = if program.protocol == "codex" { &[] } else { &["whom to greet"] };
    stage.place.ok(&[&["compact", &task.id], focus].concat());
    std::fs::write(stage.worktree().join("go.txt"), "").unwrap();
    let ran = stage.ended(task);
    assert_eq!(ran.code, 0, "{}", stage.story(&ran));
    assert!(ran.out.contains("verified: Now it is."), "{}", ran.out);
    assert_eq!(stage.events("agent_compacted").len(), 1, "{}", stage.story(&ran));
    let asked = stage.asked();
    // The third question is the one for the summary.
    let focused = asked.iter().position(|body| body.contains("whom to greet"));
    assert_eq!(focused, focus.first().map(|_| 2), "{asked:?}");
    let last = stage.asked_last();
    assert!(last.contains("We greet somebody."), "{last}");
    assert!(!last.contains("touch begun.txt"), "{last}");
    let spend = &stage.place.show(&stage.place.id())["spend"];
    assert!(spend["tokens"].as_u64() >= Some(600), "{spend}");
}

/// The adapter tells a conversation that is too long as any other failure.
pub(crate) fn a_conversation_that_is_too_long_never_counts_as_done(program: &Program) {
    let replies = [fails("error = \"context_overflow\"", 40)];
    let stage = Stage::new(program, OPEN, &replies);
    let ran = stage.run(&["--check", CHECK, "--max-turns", "2"]);
    assert_ne!(ran.code, 0, "{}", stage.story(&ran));
    assert!(stage.events("task_claimed").is_empty(), "{}", stage.story(&ran));
}

pub(crate) fn a_key_that_is_wrong_ends_it(program: &Program) {
    let stage = Stage::new(program, OPEN, &[fails("status = 401", 40)]);
    let ran = stage.run(&["--check", CHECK]);
    assert_eq!(ran.code, 10, "{}", stage.story(&ran));
}

pub(crate) fn killed_in_the_middle_it_is_resumed_and_told_to_look_again(program: &Program) {
    let replies = [(program.shell)(SLOW), (program.edit)(), says("Done after all.")];
    let stage = Stage::new(program, OPEN, &replies);
    let task = stage.start(&["--check", CHECK]);
    stage.until_made("begun.txt");
    stage.kill_agent();
    let ran = stage.ended(task);
    assert_eq!(ran.code, 0, "{}", stage.story(&ran));
    let ends = stage.events("agent_ended");
    assert_eq!(ends[0]["end"]["broken"], "killed", "{ends:?}");
    let heard = stage.asked_last();
    assert!(goes_on_once(program, &heard), "{heard}");
    assert!(!stage.has("late.txt"));
}

/// Whether it was told once to go on with what it knows, or afresh where its conversation may be lost.
fn goes_on_once(program: &Program, heard: &str) -> bool {
    let (same, fresh) = (heard.matches(LOOK_AGAIN).count(), heard.matches(AFRESH).count());
    let once = if program.resumes { (same, fresh) == (1, 0) } else { same + fresh == 1 };
    once && heard.contains("say hello to the driver")
}

pub(crate) fn drivetrain_killed_in_the_middle_leaves_nothing_and_goes_on_once(program: &Program) {
    let replies = [(program.shell)(SLOW), (program.edit)(), says("Done after all.")];
    let stage = Stage::new(program, OPEN, &replies);
    let task = stage.start(&["--check", CHECK]);
    stage.until_made("begun.txt");
    let id = task.id.clone();
    task.signal("KILL");
    task.wait();
    stage.await_nobody();
    let before = stage.asked().len();
    let ran = stage.place.run(&["resume", &id]);
    stage.await_nobody();
    assert_eq!(ran.code, 0, "{}", stage.story(&ran));
    assert!(ran.out.contains("verified: Done after all."), "{}", ran.out);
    let heard = stage.asked_last();
    assert!(goes_on_once(program, &heard), "{heard}");
    let replies = if program.protocol == "codex" { 2 } else { 3 };
    assert_eq!(stage.asked().len(), before + replies, "one continuation and no other");
    assert!(!stage.has("late.txt"));
}

pub(crate) fn what_runs_in_its_background_ends_with_its_claim(program: &Program) {
    let replies = [
        (program.background)(SLOW),
        (program.shell)("while ! test -e begun.txt; do sleep 0.1; done"),
        (program.edit)(),
        says("All done."),
    ];
    let stage = Stage::new(program, OPEN, &replies);
    let begun = Instant::now();
    let ran = stage.run(&["--check", CHECK]);
    assert_eq!(ran.code, 0, "{}", stage.story(&ran));
    assert!(begun.elapsed() < Duration::from_secs(120), "{:?}", begun.elapsed());
    assert!(stage.has("begun.txt") && !stage.has("late.txt"));
}

pub(crate) fn a_budget_that_is_spent_in_the_middle_of_a_turn_ends_it(program: &Program) {
    let replies = [
        (program.shell)("touch one.txt"),
        (program.shell)("touch two.txt"),
        (program.shell)("touch three.txt"),
        (program.shell)("touch four.txt"),
        says("All done."),
    ];
    let stage = Stage::new(program, OPEN, &replies);
    let ran = stage.run(&["--max-tokens", "200"]);
    assert_eq!(ran.code, 11, "{}", stage.story(&ran));
    assert!(stage.has("one.txt") && !stage.has("four.txt"), "{}", stage.story(&ran));
}

pub(crate) fn its_key_is_kept_from_it_and_what_it_asks_is_counted_to_the_token(program: &Program) {
    let shows = "env > seen.txt; touch begun.txt; while ! test -e go.txt; do sleep 0.1; done";
    let replies = [(program.shell)(shows), says("All done.")];
    let stage = Stage::new(program, OPEN, &replies);
    let task = stage.start(&["--check", "test -s seen.txt"]);
    stage.until_made("begun.txt");
    let processes = stage.agents();
    assert!(!processes.is_empty());
    for (number, command) in processes {
        let variables = std::fs::read(format!("/proc/{number}/environ")).unwrap_or_default();
        let variables = String::from_utf8_lossy(&variables);
        assert!(!variables.contains(KEY), "{command} has the key");
    }
    let seen = std::fs::read_to_string(stage.worktree().join("seen.txt")).unwrap();
    std::fs::write(stage.worktree().join("go.txt"), "").unwrap();
    let ran = stage.ended(task);
    assert_eq!(ran.code, 0, "{}", stage.story(&ran));
    assert!(!seen.contains(KEY), "{seen}");
    let spend = &stage.place.show(&stage.place.id())["spend"];
    assert_eq!(spend["tokens"], stage.counted(), "{spend}");
}

pub(crate) fn done_without_a_deed_is_not_verified(program: &Program) {
    let replies = [fails("text = \"All done.\"\nusage = { input = 1, output = 1 }", 9)];
    let stage = Stage::new(program, OPEN, &replies);
    let ran = stage.run(&["--check", "true", "--max-turns", "3"]);
    assert!(!ran.out.contains("verified: "), "{}", ran.out);
    assert!(ran.out.contains("so nothing is proven"), "{}", stage.story(&ran));
    let ran = Stage::new(program, OPEN, &replies).run(&["--check", CHECK, "--max-turns", "2"]);
    assert_ne!(ran.code, 0, "{}", stage.story(&ran));
}

pub(crate) fn cancelled_in_the_middle_of_a_tool_nothing_is_left(program: &Program) {
    let stage = Stage::new(program, OPEN, &[(program.shell)(SLOW), says("never")]);
    let task = stage.start(&[]);
    stage.until_made("begun.txt");
    let begun = Instant::now();
    stage.place.ok(&["cancel", &task.id]);
    let ran = stage.ended(task);
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    assert_eq!(ran.code, 12, "{}", stage.story(&ran));
    assert!(!stage.has("late.txt"));
}

/// A stage with something to look at.
fn with_source(program: &Program, policy: &str, replies: &[String]) -> Stage {
    let stage = Stage::new(program, policy, replies);
    stage.place.write("src/lib.rs", "pub fn add_one(n: u32) -> u32 {\n    n + 1\n}\n");
    stage.place.write(
        ".drivetrain/validators.toml",
        "[[check]]\nname = \"slow\"\ncommand = \"echo once >> ran.txt; touch begun.txt; sleep 300\"\n",
    );
    stage.place.commit_all("source");
    stage.place.trust();
    stage
}

pub(crate) fn tools_of_ours_are_called_over_its_own_pipe(program: &Program) {
    let own = program.own.unwrap();
    let write = "{ action = \"write\", name = \"seen\", text = \"a note of an agent\" }";
    let replies = [
        own("memory", write),
        own("memory", "{ action = \"read\", name = \"seen\" }"),
        own("view", "{ symbol = \"add_one\" }"),
        own("nothing", "{}"),
        (program.edit)(),
        says("All done."),
    ];
    let stage = with_source(program, OPEN, &replies);
    let ran = stage.run(&["--check", CHECK]);
    assert_eq!(ran.code, 0, "{}", stage.story(&ran));
    let asked = stage.asked();
    assert!(asked[0].contains("mcp__drivetrain__validator_run"), "it is offered: {}", asked[0]);
    assert!(asked[2].contains("a note of an agent"), "{}", asked[2]);
    assert!(asked[3].contains("n + 1"), "{}", asked[3]);
    assert!(asked[4].contains("mcp__drivetrain__nothing"), "{}", asked[4]);
    // Each is a call like any other: judged, journaled, in the transcript.
    let started = stage.events("tool_started");
    let ours: Vec<&str> = started
        .iter()
        .filter_map(|event| event["tool"].as_str())
        .filter(|tool| ["memory", "view"].contains(tool))
        .collect();
    assert_eq!(ours, ["memory", "memory", "view"], "{}", stage.story(&ran));
    assert!(ran.out.contains("add_one"), "{}", ran.out);
    let journal = stage.place.ok(&["journal", "export", &stage.place.id()]);
    let at = |words: &str| journal.find(words).unwrap_or_else(|| panic!("{words}: {journal}"));
    assert!(at("\"calls\"") < at("n + 1"), "asked before it is done");
    assert_eq!(stage.events("agent_asked").len(), 1, "in one turn");
}

pub(crate) fn what_the_policy_denies_of_our_tools_is_answered_with_the_reason(program: &Program) {
    let own = program.own.unwrap();
    let policy = format!(
        "[[rule]]\ntool = \"memory\"\ndecide = \"deny\"\nreason = \"nobody notes that\"\n{OPEN}"
    );
    let write = "{ action = \"write\", name = \"seen\", text = \"x\" }";
    let replies = [own("memory", write), (program.edit)(), says("All done.")];
    let stage = with_source(program, &policy, &replies);
    let ran = stage.run(&["--check", CHECK]);
    assert_eq!(ran.code, 0, "{}", stage.story(&ran));
    assert!(stage.asked()[1].contains("nobody notes that"), "{}", stage.asked()[1]);
    let ended = stage.events("tool_ended");
    assert_eq!(ended[0]["result"]["status"], "denied", "{ended:?}");
}

pub(crate) fn an_interrupt_stops_a_tool_of_ours(program: &Program) {
    let own = program.own.unwrap();
    let replies = [own("validator_run", "{}"), says("I take the left one."), says("Yes.")];
    let stage = with_source(program, OPEN, &replies);
    let task = stage.start(&[]);
    stage.until_made("begun.txt");
    let begun = Instant::now();
    stage.place.ok(&["interrupt", &task.id, "take the left door"]);
    let ran = stage.ended(task);
    assert_eq!(ran.code, 0, "{}", stage.story(&ran));
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    let ended = stage.events("tool_ended");
    assert_eq!(ended[0]["result"]["status"], "aborted", "{ended:?}");
    assert!(stage.asked_last().contains("I stopped you. take the left door"));
}

pub(crate) fn drivetrain_killed_in_a_call_of_ours_goes_on_and_makes_it_once(program: &Program) {
    let own = program.own.unwrap();
    let replies = [own("validator_run", "{}"), (program.edit)(), says("Done after all.")];
    let stage = with_source(program, OPEN, &replies);
    let task = stage.start(&["--check", CHECK]);
    stage.until_made("begun.txt");
    let id = task.id.clone();
    task.signal("KILL");
    task.wait();
    stage.await_nobody();
    // Nobody can know how far the checks came: a person says.
    let ran = stage.place.run(&["resume", &id]);
    assert_eq!(ran.code, 13, "{}", stage.story(&ran));
    stage.place.ok(&["resolve", &id, "c1", "--did-not"]);
    let ran = stage.place.run(&["resume", &id]);
    stage.await_nobody();
    assert_eq!(ran.code, 0, "{}", stage.story(&ran));
    let heard = stage.asked_last();
    assert!(heard.contains("Of the call of validator.run that was under way"), "{heard}");
    let made = std::fs::read_to_string(stage.worktree().join("ran.txt")).unwrap();
    assert_eq!(made, "once\n");
}

/// A workflow in which the agent's work stands between a tool and a check.
const WORKFLOW: &str = r#"
[workflow]
name = "between"

[[workflow.steps]]
name = "before"
tool = "shell"
parameters = { command = "echo 'prepared by' 'a step' | tee prepared.txt" }

[[workflow.steps]]
name = "work"
agent = "tried"
prompt = "Say hello to the driver. {{ steps.before.text }}"

[[workflow.steps]]
name = "after"
tool = "shell"
parameters = { command = "grep 'hello driver' hello.txt && echo {{ steps.work.text | tojson }} >> prepared.txt" }
"#;

pub(crate) fn a_step_of_a_workflow_is_its_work_between_a_tool_and_a_check(program: &Program) {
    let stage = Stage::new(program, OPEN, &[(program.edit)(), says("The driver is greeted.")]);
    stage.place.write(".drivetrain/workflows/between.toml", WORKFLOW);
    stage.place.commit_all("workflow");
    stage.place.trust();
    let check = format!("{CHECK} && grep -q 'The driver is greeted' prepared.txt");
    let ran = stage.run_workflow("between", &["--check", &check]);
    assert_eq!(ran.code, 0, "{}", stage.story(&ran));
    assert!(ran.out.contains("verified"), "{}", ran.out);
    let asked = stage.asked();
    assert!(asked[0].contains("Say hello to the driver. prepared by a step"), "{}", asked[0]);
    assert_eq!(stage.events("agent_asked").len(), 1, "{}", stage.story(&ran));
    // Its own calls went through the gate between the calls of the steps.
    let labels: Vec<String> = stage
        .events("tool_started")
        .iter()
        .filter_map(|event| event["label"].as_str().map(str::to_owned))
        .collect();
    assert_eq!(labels.first().map(String::as_str), Some("before"), "{labels:?}");
    assert_eq!(labels.last().map(String::as_str), Some("after"), "{labels:?}");
    assert!(labels.iter().any(|label| label.starts_with("tried ")), "{labels:?}");
}

pub(crate) fn what_was_recorded_replays_to_the_same_end_without_a_model_and_a_key(
    program: &Program,
) {
    let replies = [
        (program.shell)("echo one > one.txt"),
        (program.edit)(),
        says("All done."),
        // Should it be asked a second time, it would say something else.
        says("This was never recorded."),
    ];
    let stage = Stage::new(program, OPEN, &replies);
    let tapes = stage.place.home().join("tapes").display().to_string();
    let ran = stage.run(&["--check", CHECK, "--record", &tapes]);
    assert_eq!(ran.code, 0, "{}", stage.story(&ran));
    let (first, asked) = (stage.place.id(), stage.asked().len());
    let kept: String = std::fs::read_dir(&tapes)
        .unwrap()
        .map(|entry| std::fs::read_to_string(entry.unwrap().path()).unwrap())
        .collect();
    assert!(!kept.contains(KEY), "no key is written down");

    let ran = stage.run_without_key(&["--check", CHECK, "--replay", &tapes]);
    assert_eq!(ran.code, 0, "{}", stage.story(&ran));
    assert!(ran.out.contains("verified: All done."), "{}", ran.out);
    assert_eq!(stage.asked().len(), asked, "nobody was asked");
    let tasks = stage.place.tasks();
    let id = |task: &serde_json::Value| task["id"].as_str().unwrap_or_default().to_owned();
    let second = tasks.iter().map(id).find(|id| *id != first).unwrap();
    let tokens = |id: &str| stage.place.show(id)["spend"]["tokens"].clone();
    assert_eq!(tokens(&second), tokens(&first), "it counts as it did");

    // Another goal leads to the same questions by their form, but not for ever.
    let ran = stage.run_without_key(&["--check", "false", "--max-turns", "3", "--replay", &tapes]);
    assert_ne!(ran.code, 0, "{}", stage.story(&ran));
    assert!(ran.out.contains("replay_missing"), "{}", stage.story(&ran));
    assert_eq!(stage.asked().len(), asked, "nobody was asked");
}

/// What an agent has its client do passes the gate, whatever the agent itself would ask about.
pub(crate) fn what_it_has_us_write_is_judged_and_verified(_: &Program) {
    let program = &GEMINI_EDITS;
    let made = call("write_file", "{ file_path = \"made/new.txt\", content = \"new\" }");
    let stage = Stage::new(program, OPEN, &[(program.edit)(), made, says("All done.")]);
    let ran = stage.run(&["--check", CHECK, "--check", "grep -q new made/new.txt"]);
    assert_eq!(ran.code, 0, "{}", stage.story(&ran));
    let judged = stage.events("call_judged");
    let inputs: Vec<_> = judged.iter().map(|judged| judged["input"].clone()).collect();
    let edited = json!({ "path": "hello.txt", "content": "hello driver\nsecond line\n" });
    assert_eq!(inputs, [edited, json!({ "path": "made/new.txt", "content": "new" })]);
    assert!(judged[0]["by"].as_str().unwrap().starts_with("rule 1 of "), "{judged:?}");
    let labels: Vec<_> = stage.events("tool_started").iter().map(|e| e["label"].clone()).collect();
    assert!(labels.contains(&"tried fs/write_text_file".into()), "{labels:?}");
}

pub(crate) fn what_it_may_not_have_us_write_is_not_written_and_it_goes_on(_: &Program) {
    let program = &GEMINI_EDITS;
    let policy = format!(
        "[[rule]]\ntool = \"write\"\npath = \"hello.txt\"\ndecide = \"deny\"\nreason = \"nobody writes that\"\n{OPEN}"
    );
    let denied = call("write_file", "{ file_path = \"hello.txt\", content = \"new\" }");
    let stage = Stage::new(program, &policy, &[denied, says("I could not.")]);
    let ran = stage.run(&[]);
    assert_eq!(ran.code, 0, "{}", stage.story(&ran));
    let text = std::fs::read_to_string(stage.worktree().join("hello.txt")).unwrap();
    assert_eq!(text, "hello world\nsecond line\n");
    let ended = stage.events("tool_ended");
    assert!(ended.iter().any(|ended| ended["result"]["status"] == "denied"), "{ended:?}");
    let why = ended[0]["result"]["text"].as_str().unwrap();
    assert!(why.contains("nobody writes that"), "{ended:?}");
    // The reason is in the answer; this program makes "[object Object]" of it for its model.
    assert!(stage.asked_last().contains("Error writing to file"), "{}", stage.asked_last());
}
