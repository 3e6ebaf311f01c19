//! What an agent of the Agent Client Protocol has us do for it: files and commands, through the gate and behind the walls
//! of the task. The agent is a fake one that asks as its script says; what real programs do is in `tests/agents`.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::environment::TestEnvironment;

/// Everything that is understood may be done.
const OPEN: &str = "[[rule]]\ntool = \"*\"\ndecide = \"allow\"\n";

const RUN: &[&str] = &["run", "look at it", "--agent", "asks"];

/// How long a thing may take to be gone.
const GONE: Duration = Duration::from_secs(30);

/// A repository and an agent that plays these steps and says that it is done.
fn place(policy: &str, steps: &[Value]) -> TestEnvironment {
    prepared(policy, steps, |_| {})
}

fn prepared(policy: &str, steps: &[Value], more: impl Fn(&TestEnvironment)) -> TestEnvironment {
    let place = TestEnvironment::new();
    let mut lines: Vec<String> = steps.iter().map(Value::to_string).collect();
    lines.push(json!({ "say": "Done." }).to_string());
    place.write("steps.jsonl", &lines.join("\n"));
    place.write("hello.txt", "hello world\nsecond line\n");
    place.write(".drivetrain/policy.toml", policy);
    let command = [env!("CARGO_BIN_EXE_drivetrain"), "fake", "acp-agent", "steps.jsonl"];
    let file = format!("[agent]\nname = \"asks\"\nidle = \"60s\"\ncommand = {command:?}\n");
    place.write(".drivetrain/agents/asks.toml", &file);
    more(&place);
    place.git(&["init", "--quiet"]);
    place.commit_all("one");
    place.trust();
    place
}

fn ask(method: &str, params: Value) -> Value {
    json!({ "ask": { "method": method, "params": params } })
}

fn begin(method: &str, params: Value) -> Value {
    json!({ "begin": { "method": method, "params": params } })
}

fn read(path: &str) -> Value {
    ask("fs/read_text_file", json!({ "path": path }))
}

fn write(path: &str, content: &str) -> Value {
    ask("fs/write_text_file", json!({ "path": path, "content": content }))
}

fn create(command: &str) -> Value {
    ask("terminal/create", json!({ "command": command }))
}

/// A request about the last terminal.
fn of_terminal(method: &str) -> Value {
    ask(&format!("terminal/{method}"), json!({ "terminalId": "$TERMINAL" }))
}

/// What the agent was answered, in order.
fn answers(place: &TestEnvironment) -> Vec<Value> {
    let file = place.home().join("agents").join(place.id()).join("asks/answers.jsonl");
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn worktree(place: &TestEnvironment) -> PathBuf {
    place.home().join("worktrees").join(place.id())
}

fn error(answer: &Value) -> &str {
    answer["error"]["message"].as_str().unwrap_or_else(|| panic!("{answer}"))
}

fn of_kind(place: &TestEnvironment, kind: &str) -> Vec<Value> {
    let events = place.events(&place.id()).into_iter();
    events.filter(|event| event["type"] == kind).collect()
}

/// A time to sleep that nobody else sleeps, so that whoever sleeps it is found.
fn own_sleep() -> String {
    let random = std::fs::read_to_string("/proc/sys/kernel/random/uuid").unwrap();
    let digits: String = random.bytes().map(|byte| char::from(b'0' + byte % 10)).take(8).collect();
    format!("sleep 3{digits}")
}

/// The processes of a command line.
fn running(line: &str) -> usize {
    let listed = std::fs::read_dir("/proc").unwrap().flatten();
    let is_it = |number: &u32| {
        let said = std::fs::read(format!("/proc/{number}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&said).replace('\0', " ").trim_end() == line
    };
    listed.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(is_it).count()
}

fn await_nobody(line: &str) {
    let begun = Instant::now();
    while running(line) > 0 {
        assert!(begun.elapsed() < GONE, "left running: {line}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_file_is_read_whole_and_in_parts_exactly_as_it_is() {
    let mut large: String = (0..20_000).map(|n| format!("line {n} grüße\r\n")).collect();
    large.push_str("no end of a line");
    let part = json!({ "path": "$FOLDER/large.txt", "line": 3, "limit": 2 });
    let past = json!({ "path": "$FOLDER/hello.txt", "line": 9 });
    let steps = [
        read("$FOLDER/large.txt"),
        ask("fs/read_text_file", part),
        ask("fs/read_text_file", past),
        read("$FOLDER/nothing.txt"),
        read("$FOLDER/binary"),
    ];
    let place = prepared(OPEN, &steps, |place| {
        place.write("large.txt", &large);
        std::fs::write(place.folder().join("binary"), [0xff, 0xfe, 0]).unwrap();
    });
    place.run(&[RUN, &["--max-turns", "1"]].concat());
    let answers = answers(&place);
    assert!(answers[0]["result"]["content"] == large.as_str(), "not the very bytes");
    assert_eq!(answers[1]["result"]["content"], "line 2 grüße\r\nline 3 grüße\r\n");
    assert!(error(&answers[2]).contains("has 2 lines"), "{answers:?}");
    assert_eq!(answers[3]["error"]["code"], -32002);
    assert!(error(&answers[3]).starts_with("Resource not found: "), "{answers:?}");
    assert!(error(&answers[4]).contains("UTF-8"), "{answers:?}");
    let judged = of_kind(&place, "call_judged");
    assert_eq!(judged.len(), 5, "each was judged");
    assert_eq!(judged[1]["input"], json!({ "path": "large.txt", "offset": 3, "limit": 2 }));
    let ended = of_kind(&place, "tool_ended");
    let text = ended[0]["result"]["text"].as_str().unwrap();
    assert!(text.starts_with(&format!("{} bytes, sha256 ", large.len())), "{text}");
}

#[test]
fn a_tool_that_the_agent_uses_without_asking_is_in_the_log_and_counted_once() {
    let read = json!({ "sessionUpdate": "tool_call", "toolCallId": "r1", "title": "read it",
        "kind": "read", "status": "in_progress", "rawInput": { "absolute_path": "hello.txt" } });
    let content = json!([{ "type": "content", "content": { "type": "text", "text": "2 lines" } }]);
    let ended = json!({ "sessionUpdate": "tool_call_update", "toolCallId": "r1",
        "status": "completed", "content": content });
    let steps = [json!({ "update": read }), json!({ "update": ended }), json!({ "update": ended })];
    let place = place("", &steps);
    let ran = place.run(RUN);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let (started, ended) = (of_kind(&place, "tool_started"), of_kind(&place, "tool_ended"));
    assert_eq!((started.len(), ended.len()), (1, 1), "{started:?} {ended:?}");
    assert_eq!(started[0]["input"]["absolute_path"], "hello.txt");
    assert_eq!(ended[0]["result"]["text"], "2 lines");
    assert_eq!(of_kind(&place, "task_finished")[0]["spend"]["tool_calls"], 1);
    let log = place.ok(&["log", &place.id()]);
    assert!(log.contains("c1 asks read (asks.read: hello.txt)"), "{log}");
}

#[test]
fn what_is_written_is_judged_shown_and_verified() {
    let text = "grüße\r\nwithout an end";
    let steps = [write("$FOLDER/made/new.txt", text), read("made/new.txt")];
    let place = place("", &steps);
    let ran = place.run(&[RUN, &["--check", "test -s made/new.txt"]].concat());
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert_eq!(std::fs::read_to_string(worktree(&place).join("made/new.txt")).unwrap(), text);
    assert_eq!(answers(&place)[0]["result"], json!({}));
    assert_eq!(answers(&place)[1]["result"]["content"], text);
    let judged = &of_kind(&place, "call_judged")[0];
    assert_eq!((&judged["tool"], &judged["decide"]), (&"write".into(), &"allow".into()));
    assert_eq!(judged["input"], json!({ "path": "made/new.txt", "content": text }));
    assert_eq!((&judged["by"], &judged["layer"]), (&"profile dev".into(), &"tool".into()));
    let started = &of_kind(&place, "tool_started")[0];
    assert_eq!(started["label"], "asks fs/write_text_file");
    let ended = &of_kind(&place, "tool_ended")[0];
    assert_eq!(ended["result"]["text"], "created made/new.txt (23 bytes)");
    assert!(ran.out.contains("asks fs/write_text_file"), "{}", ran.out);
}

#[test]
fn what_lies_outside_or_steers_other_programs_is_neither_read_nor_written() {
    let outside = ["/etc/drivetrain-test", "$FOLDER/../x", "$FOLDER/out/x", "~/x"];
    let steering = ["$FOLDER/.git/hooks/pre-commit", "$FOLDER/.env", "$FOLDER/.claude/x"];
    let mut steps: Vec<Value> =
        outside.iter().chain(&steering).map(|path| write(path, "x")).collect();
    steps.extend(["/etc/passwd", "$FOLDER/out/secret", "$FOLDER/.env"].map(read));
    steps.push(write("$FOLDER/fine.txt", "x"));
    let place = prepared("", &steps, |place| {
        let beside = place.folder().parent().unwrap().join("beside");
        std::fs::create_dir_all(&beside).unwrap();
        std::fs::write(beside.join("secret"), "secret").unwrap();
        std::os::unix::fs::symlink(&beside, place.folder().join("out")).unwrap();
        place.write(".env", "KEY=1\n");
    });
    let ran = place.run(&[RUN, &["--check", "test -e fine.txt"]].concat());
    assert_eq!(ran.code, 0, "it went on: {}{}", ran.out, ran.err);
    let mut answers = answers(&place);
    assert_eq!(answers.pop().unwrap()["result"], json!({}));
    assert_eq!(answers.len(), 10);
    for answer in &answers {
        assert!(!error(answer).is_empty() && answer["result"].is_null(), "{answer}");
    }
    assert!(error(&answers[4]).contains("protected"), "{answers:?}");
    let beside = place.folder().parent().unwrap().join("beside");
    assert_eq!(std::fs::read_dir(beside).unwrap().count(), 1);
    // The gate sees paths; where a link leads is seen by whoever follows it, even if every rule allows.
    let link = [write("$FOLDER/out/x", "x"), read("$FOLDER/out/secret")];
    let open = prepared(OPEN, &link, |place| {
        let beside = place.folder().parent().unwrap().join("beside");
        std::fs::create_dir_all(&beside).unwrap();
        std::fs::write(beside.join("secret"), "secret").unwrap();
        std::os::unix::fs::symlink(&beside, place.folder().join("out")).unwrap();
    });
    open.run(&[RUN, &["--max-turns", "1"]].concat());
    for answer in self::answers(&open) {
        assert!(error(&answer).contains("leads out of the workspace"), "{answer}");
    }
}

#[test]
fn what_is_protected_may_be_written_and_fails_the_verdict() {
    let place = place(OPEN, &[write("$FOLDER/tests/a.txt", "easy")]);
    let more = ["--protect", "tests/**", "--check", "true", "--max-turns", "1"];
    let ran = place.run(&[RUN, &more].concat());
    assert_ne!(ran.code, 0);
    assert_eq!(answers(&place)[0]["result"], json!({}));
    assert_eq!(of_kind(&place, "verdict_failed").len(), 1);
    assert!(ran.out.contains("tests/a.txt"), "{}", ran.out);
}

#[test]
fn a_command_runs_in_the_tasks_sandbox_and_its_output_is_cut_from_the_beginning() {
    let limited = json!({ "command": "printf", "args": ["%s", "aüß"], "outputByteLimit": 4 });
    let told = json!({ "command": "sh", "args": ["-c", "pwd; echo $GREETING; echo $SECRET; ls -A ~"],
        "cwd": "$FOLDER/sub", "env": [{ "name": "GREETING", "value": "hello you" }] });
    let steps = [
        ask("terminal/create", limited),
        of_terminal("wait_for_exit"),
        of_terminal("output"),
        ask("terminal/create", told),
        of_terminal("wait_for_exit"),
        of_terminal("output"),
        create("echo out; echo err >&2; exit 3"),
        of_terminal("wait_for_exit"),
        of_terminal("output"),
        create("kill -TERM $$"),
        of_terminal("wait_for_exit"),
        create("no-such-program-at-all"),
        of_terminal("wait_for_exit"),
    ];
    let place = prepared(OPEN, &steps, |place| place.write("sub/x", ""));
    let place = place.with_variable("SECRET", "sk-ant-secret");
    place.run(&[RUN, &["--max-turns", "1"]].concat());
    let answers = answers(&place);
    let fine = json!({ "exitCode": 0, "signal": null });
    assert_eq!(answers[0]["result"]["terminalId"], "terminal-1");
    assert_eq!(answers[1]["result"], fine);
    let cut = json!({ "output": "üß", "truncated": true, "exitStatus": fine });
    assert_eq!(answers[2]["result"], cut);
    let folder = worktree(&place);
    let shown = answers[5]["result"]["output"].as_str().unwrap();
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines[..3], [&folder.join("sub").to_string_lossy(), "hello you", ""], "{shown}");
    assert!(!shown.contains(".drivetrain"), "homes are hidden: {shown}");
    assert_eq!(answers[7]["result"], json!({ "exitCode": 3, "signal": null }));
    assert_eq!(answers[8]["result"]["output"], "out\nerr\n");
    assert_eq!(answers[10]["result"]["signal"], "SIGTERM");
    assert_eq!(answers[12]["result"]["exitCode"], 127);
    let judged = of_kind(&place, "call_judged");
    assert_eq!(judged[0]["input"]["command"], "printf %s 'aüß'");
    let line = "cd sub && GREETING='hello you' sh -c 'pwd; echo $GREETING; echo $SECRET; ls -A ~'";
    assert_eq!(judged[1]["input"]["command"], line);
    let ended = of_kind(&place, "tool_ended");
    let third = ended.iter().find(|ended| ended["result"]["text"] == "out\nerr\n[exit 3]");
    assert_eq!(third.unwrap()["result"]["status"], "error");
}

#[test]
fn a_command_that_is_denied_is_answered_with_the_reason_and_the_agent_goes_on() {
    let policy = "[[rule]]\ncommand = \"touch *\"\ndecide = \"deny\"\nreason = \"not by hand\"\n";
    let place = place(policy, &[create("touch made.txt"), write("$FOLDER/other.txt", "x")]);
    let ran = place.run(&[RUN, &["--check", "test -e other.txt"]].concat());
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let answers = answers(&place);
    assert!(error(&answers[0]).contains("not by hand"), "{answers:?}");
    assert!(!worktree(&place).join("made.txt").exists());
    let judged = &of_kind(&place, "call_judged")[0];
    assert_eq!((&judged["decide"], &judged["layer"]), (&"deny".into(), &"command".into()));
    assert!(judged["by"].as_str().unwrap().starts_with("rule 1 of "), "{judged}");
}

#[test]
fn a_command_that_is_asked_about_runs_once_a_person_has_said_yes() {
    let policy = "unattended = \"wait\"\n[[rule]]\ncommand = \"touch *\"\ndecide = \"ask\"\n";
    for (word, made) in [("approve", true), ("deny", false)] {
        let steps = [create("touch made.txt"), of_terminal("wait_for_exit")];
        let place = place(policy, &steps);
        let task = place.start(&[RUN, &["--max-turns", "1"]].concat());
        let asks = || place.ok(&["approvals", "--json"]).contains("touch made.txt");
        place.until(|| asks().then_some(()));
        assert!(!worktree(&place).join("made.txt").exists());
        place.ok(&[word, &task.id]);
        task.wait();
        assert_eq!(worktree(&place).join("made.txt").exists(), made, "{word}");
        let answers = answers(&place);
        assert_eq!(answers[0]["result"]["terminalId"].is_string(), made, "{word}: {answers:?}");
        assert_eq!(of_kind(&place, "agent_asked").len(), 1, "it waited in the same turn");
    }
}

#[test]
fn what_was_permitted_in_so_many_words_is_not_asked_about_again() {
    let permission = |path: &str, text: &str| {
        let content = json!([{ "type": "diff", "path": path, "oldText": "", "newText": text }]);
        let call = json!({ "toolCallId": format!("c-{text}"), "kind": "edit", "content": content });
        let options = json!([{ "optionId": "y", "kind": "allow_once", "name": "yes" },
            { "optionId": "n", "kind": "reject_once", "name": "no" }]);
        ask("session/request_permission", json!({ "toolCall": call, "options": options }))
    };
    let path = "$FOLDER/new.txt";
    let steps = [permission(path, "one"), write(path, "one"), write(path, "one"), write(path, "x")];
    let place = place(OPEN, &steps);
    let ran = place.run(&[RUN, &["--check", "grep -q x new.txt"]].concat());
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let judged = of_kind(&place, "call_judged");
    let contents: Vec<&Value> = judged.iter().map(|judged| &judged["input"]["content"]).collect();
    assert_eq!(contents, [&Value::Null, &"one".into(), &"x".into()], "one permission, one write");
    assert!(answers(&place)[1..].iter().all(|answer| answer["result"] == json!({})));
}

#[test]
fn a_terminal_is_killed_waited_for_and_released() {
    let sleep = own_sleep();
    let steps = [
        create(&format!("echo begun; touch begun.txt; {sleep}")),
        json!({ "until": "begun.txt" }),
        begin("terminal/wait_for_exit", json!({ "terminalId": "$TERMINAL" })),
        of_terminal("output"),
        of_terminal("kill"),
        json!("await"),
        of_terminal("output"),
        of_terminal("release"),
        of_terminal("output"),
        create(&sleep),
        of_terminal("release"),
    ];
    let place = place(OPEN, &steps);
    place.run(&[RUN, &["--max-turns", "1"]].concat());
    await_nobody(&sleep);
    let answers = answers(&place);
    let of = |method: &str| {
        let name = format!("terminal/{method}");
        answers.iter().filter(|answer| answer["method"] == name).cloned().collect::<Vec<_>>()
    };
    assert!(of("output")[0]["result"]["exitStatus"].is_null(), "{answers:?}");
    assert_eq!(of("kill")[0]["result"], json!({}));
    assert_eq!(of("wait_for_exit")[0]["result"]["signal"], "SIGKILL", "{answers:?}");
    assert_eq!(of("output")[1]["result"]["output"], "begun\n", "{answers:?}");
    assert_eq!(of("release")[0]["result"], json!({}));
    assert!(error(&of("output")[2]).contains("no terminal"), "{answers:?}");
    assert_eq!(of("release")[1]["result"], json!({}));
}

#[test]
fn what_runs_in_a_terminal_ends_with_the_turn_and_with_the_agent() {
    for last in [json!({ "say": "I leave it running." }), json!({ "exit": 3 })] {
        let sleep = own_sleep();
        let steps = [
            create(&format!("touch begun.txt; setsid {sleep} & {sleep}")),
            json!({ "until": "begun.txt" }),
            last.clone(),
        ];
        let place = place(OPEN, &steps);
        place.run(&[RUN, &["--max-turns", "1"]].concat());
        assert!(worktree(&place).join("begun.txt").exists(), "{last}");
        assert_eq!(running(&sleep), 0, "{last}");
        let ended = of_kind(&place, "tool_ended");
        let text = ended[0]["result"]["text"].as_str().unwrap();
        assert!(text.contains("SIGKILL"), "{last}: {text}");
    }
}

#[test]
fn drivetrain_killed_leaves_no_terminal() {
    for walls in [&[][..], &["--no-sandbox"]] {
        let sleep = own_sleep();
        let steps = [
            create(&format!("touch begun.txt; setsid {sleep} & {sleep}")),
            of_terminal("wait_for_exit"),
        ];
        let place = place(OPEN, &steps);
        let task = place.start(&[RUN, walls].concat());
        place.until(|| (running(&sleep) == 2).then_some(()));
        task.signal("KILL");
        task.wait();
        await_nobody(&sleep);
    }
}

#[test]
fn a_cancel_ends_what_runs_in_a_terminal_and_answers_who_waits_for_it() {
    let sleep = own_sleep();
    let steps = [
        create(&format!("touch begun.txt; {sleep}")),
        begin("terminal/wait_for_exit", json!({ "terminalId": "$TERMINAL" })),
        json!("until_cancelled"),
    ];
    let place = place(OPEN, &steps);
    let task = place.start(RUN);
    place.until(|| (running(&sleep) == 1).then_some(()));
    place.ok(&["cancel", &task.id]);
    let ran = task.wait();
    await_nobody(&sleep);
    let answers = answers(&place);
    assert!(error(&answers[1]).contains("the turn was stopped"), "{answers:?} {}", ran.out);
}

/// It may still say which commands it has, so it is not told at once; whoever stops it then wants it told later.
#[test]
fn an_order_to_make_a_conversation_shorter_that_is_stopped_before_it_is_given_is_given_later() {
    let steps =
        [json!({ "say": "I look." }), json!({ "touch": "begun" }), json!({ "until": "go" })];
    let place = place(OPEN, &steps);
    let passes = place.home().with_extension("passes");
    let check = format!("test -e {}", passes.display());
    let more = ["--check", &check, "--max-turns", "6", "--no-sandbox", "--unattended"];
    let task = place.start(&[RUN, &more].concat());
    let worktree = worktree(&place);
    place.until(|| worktree.join("begun").exists().then_some(()));
    // That its conversation has begun is known a moment later.
    place.until(|| (place.run(&["compact", &task.id]).code == 0).then_some(()));
    std::fs::write(worktree.join("go"), "").unwrap();
    let id = task.id.clone();
    let kinds = || -> Vec<String> {
        let events = place.events(&id).into_iter();
        events.filter_map(|event| event["type"].as_str().map(str::to_owned)).collect()
    };
    let count = |kind: &str| kinds().iter().filter(|known| *known == kind).count();
    place.until(|| (count("agent_asked") == 2).then_some(()));
    place.ok(&["interrupt", &task.id, "look at the names"]);
    std::fs::write(passes, "").unwrap();
    let ran = task.wait();
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let kinds = kinds();
    let last = |kind: &str| kinds.iter().rposition(|known| known == kind);
    assert_eq!(count("order_failed"), 1, "{kinds:?}");
    assert!(last("order_failed") > last("agent_asked"), "{id}: {kinds:?}");
}
