//! A task is handed over to a coding agent by the agent's name, at rest and at work.

use serde_json::Value;

use crate::environment::TestEnvironment;

const INIT: &str =
    r#"{"type":"system","subtype":"init","session_id":"s1","permissionMode":"default"}"#;
const SAYS: &str = r#"{"type":"assistant","message":{"role":"assistant","content":[{"type":"text","text":"done"}]},"session_id":"s1"}"#;
const ENDS: &str =
    r#"{"type":"result","subtype":"success","is_error":false,"result":"done","session_id":"s1"}"#;

/// A repository, and agents of these names that play these steps in each turn.
fn place<'a>(agents: &[(&'a str, &[&'a str])]) -> TestEnvironment {
    let whole = |steps: &[&'a str]| [&[INIT], steps, &[SAYS, ENDS]].concat();
    let scripts: Vec<Vec<&str>> = agents.iter().map(|(_, steps)| whole(steps)).collect();
    let named = agents.iter().zip(&scripts).map(|((name, _), script)| (*name, &script[..]));
    TestEnvironment::with_played_agents(&named.collect::<Vec<_>>())
}

fn changes(place: &TestEnvironment) -> Vec<Value> {
    let events = place.events(&place.id()).into_iter();
    events.filter(|event| event["type"] == "driver_changed").collect()
}

#[test]
fn a_task_at_rest_is_handed_from_a_model_to_an_agent_by_its_name() {
    let place = place(&[("second", &["run touch made.py"])]);
    let ask = "[[reply]]\ntool_calls = [{ tool = \"ask\", input = { question = \"Which?\" } }]\n";
    let script = place.home().with_file_name("replies.toml");
    std::fs::write(&script, ask).unwrap();
    let model = format!("script/{}", script.display());
    let ran = place.run(&["run", "g", "--model", &model, "--no-sandbox", "--unattended"]);
    assert_eq!(ran.code, 13, "{}{}", ran.out, ran.err);
    let id = place.id();
    let told = place.ok(&["hand-over", &id, "--agent", "second", "--model", "small"]);
    assert!(told.contains("is handed over to agent (second, small)"), "{told}");
    let ran = place.run(&["resume", &id, "--unattended"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let handed = "driver llm handed over to agent (second, small)";
    assert!(ran.out.contains(handed), "{}", ran.out);
    let changes = changes(&place);
    assert_eq!(changes.len(), 1, "{changes:?}");
    assert_eq!(changes[0]["agent"], "second");
    assert_eq!(changes[0]["model"], "small");
}

#[test]
fn an_agent_at_work_is_relieved_by_another_one() {
    let place = place(&[("first", &["sleep 600"]), ("second", &["run touch made.py"])]);
    let task = place.start(&["run", "g", "--agent", "first", "--no-sandbox", "--unattended"]);
    place.until(|| {
        let events = place.events(&task.id);
        events.iter().any(|event| event["type"] == "agent_asked").then_some(())
    });
    assert!(place.ok(&["list"]).contains("  agent (first)  "));
    for command in ["show", "why"] {
        assert!(place.ok(&[command, &task.id]).contains("driver     agent (first)\n"), "{command}");
    }
    assert_eq!(place.show(&task.id)["agent"], "first");
    place.ok(&["hand-over", &task.id, "--agent", "second"]);
    let ran = task.wait();
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("  driver agent (first), no acceptance criteria\n"), "{}", ran.out);
    let handed = "driver agent (first) handed over to agent (second)";
    assert!(ran.out.contains(handed), "{}", ran.out);
    assert!(place.home().join("worktrees").join(place.id()).join("made.py").exists());
}

#[test]
fn an_agent_that_cannot_be_had_is_refused_before_the_task_is_told() {
    let place = place(&[("first", &[])]);
    place.write_agent("absent", "command = [\"/nowhere/agent\"]\n");
    let ran = place.run_with(&["run", "g", "--driver", "user", "--no-sandbox"], "say one\n");
    assert_eq!(ran.code, 13, "{}{}", ran.out, ran.err);
    let id = place.id();
    let before = place.events(&id).len();
    for (who, code, said) in [
        (&["--agent", "nobody"][..], 2, "nobody"),
        (&["--agent", "absent"], 20, "error: the agent absent is not installed"),
        (&["--driver", "agent", "--config", "{\"agent\":\"absent\"}"], 20, "is not installed"),
        (&["--agent", "first", "--driver", "user"], 2, "cannot be used with"),
    ] {
        let ran = place.run(&[&["hand-over", &id], who].concat());
        assert_eq!(ran.code, code, "{who:?}: {}", ran.err);
        assert!(ran.err.contains(said), "{who:?}: {}", ran.err);
    }
    assert_eq!(place.events(&id).len(), before, "the task was told nothing");
}

/// How often an agent was started that stops when it is told to, and then goes on with another model: one word for each
/// process, and who decides in the end.
fn starts(more: &[&'static str], to: &[&str]) -> (String, String) {
    const STOPPED: &str =
        r#"{"type":"result","subtype":"error_during_execution","is_error":true,"session_id":"s1"}"#;
    let begins = "run echo begun >> starts.txt; touch here";
    let resumes = "run echo resumed >> starts.txt; touch here";
    let ends = ["next prompt", INIT, "run touch made.py", SAYS, ENDS, "resumed", INIT, resumes];
    let steps = [more, &[begins, "await interrupt", STOPPED], &ends[..]].concat();
    let place = place(&[("first", &steps)]);
    let task = place.start(&["run", "g", "--agent", "first", "--no-sandbox", "--unattended"]);
    let worktree = place.home().join("worktrees").join(&task.id);
    place.until(|| worktree.join("here").exists().then_some(()));
    place.ok(&[&["hand-over", &task.id], to].concat());
    let ran = task.wait();
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let changes = changes(&place);
    assert_eq!(changes.len(), 1, "{changes:?}");
    let starts = std::fs::read_to_string(worktree.join("starts.txt")).unwrap();
    (starts, changes[0]["model"].to_string())
}

#[test]
fn another_model_of_the_same_agent_is_asked_by_the_process_that_lives() {
    for to in [&["--agent", "first", "--model", "small"][..], &["--model", "small"]] {
        assert_eq!(starts(&[], to), ("begun\n".to_owned(), "\"small\"".to_owned()), "{to:?}");
    }
}

#[test]
fn an_agent_that_refuses_another_model_is_started_with_it() {
    let (starts, model) = starts(&["refuse model"], &["--agent", "first", "--model", "small"]);
    assert_eq!((starts.as_str(), model.as_str()), ("begun\nresumed\n", "\"small\""));
}
