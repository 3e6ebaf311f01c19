//! The client of tool servers against a real server: found, asked, called, stopped, lost and started again; and
//! nothing of it before the user trusts the file.

mod http;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use machine::effect::ToolCall;
use machine::id::CallId;
use machine::policy::sandbox::SandboxSpec;
use machine::server::{ServerCall, ServerSpec, ServerTools};
use machine::time::{Span, Timestamp};
use machine::tool::{EffectClass, Status, ToolResult};
use runtime::home::Home;
use runtime::mcp::Mcp;
use runtime::process::{Cancel, Containment};
use runtime::{servers, trust};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::tools::{in_place, services};

/// Longer than anything here takes; a test that waits so long has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// Lists that changed at nobody's asking.
#[derive(Default)]
struct News {
    lists: Mutex<Vec<ServerTools>>,
    came: Condvar,
}

/// A project with a server, and a client for it.
struct Rig {
    place: TempDir,
    mcp: Mcp,
    news: Arc<News>,
    home: Home,
}

/// The interpreter itself: what is on the PATH may be a wrapper that needs variables a server does not get.
pub(crate) fn python() -> String {
    let asked = std::process::Command::new("python3")
        .args(["-c", "import sys; print(sys.executable)"])
        .output()
        .unwrap();
    String::from_utf8(asked.stdout).unwrap().trim().to_owned()
}

fn script() -> String {
    format!("{}/tests/fixtures/mcp_server.py", env!("CARGO_MANIFEST_DIR"))
}

impl Rig {
    /// A project whose server is started with these arguments and keys.
    fn with(arguments: &[&str], more: &str) -> Rig {
        let rig = Rig::empty();
        let mut command = vec![python(), script()];
        command.extend(arguments.iter().map(|word| (*word).to_owned()));
        rig.declare(&format!(
            "[server.test]\ncommand = {}\nenv = {{ MCP_LOG = {:?} }}\n{more}",
            json!(command),
            rig.log_file()
        ));
        rig.trust();
        rig
    }

    fn empty() -> Rig {
        let place = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(place.path().join("project/.drivetrain")).unwrap();
        let home = Home::at(place.path().join("home"));
        home.create().unwrap();
        let news: Arc<News> = Arc::default();
        let heard = Arc::clone(&news);
        let marks = Some(place.path().join("marks"));
        let mcp = Mcp::new(
            home.clone(),
            marks,
            Arc::new(move |task, tools| {
                assert_eq!(task, "t1");
                heard.lists.lock().unwrap().push(tools);
                heard.came.notify_all();
            }),
        );
        Rig { place, mcp, news, home }
    }

    fn project(&self) -> PathBuf {
        self.place.path().join("project")
    }

    fn log_file(&self) -> PathBuf {
        self.place.path().join("log")
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.log_file()).unwrap_or_default()
    }

    fn starts(&self) -> usize {
        self.log().lines().filter(|line| *line == "started").count()
    }

    fn declare(&self, text: &str) {
        std::fs::write(self.project().join(".drivetrain/mcp.toml"), text).unwrap();
    }

    fn trust(&self) {
        let files = servers::files(&self.project()).unwrap();
        let seen: Vec<trust::Seen> = files.into_iter().map(|file| file.seen).collect();
        trust::trust(&self.home, &self.project(), &seen, Timestamp(1)).unwrap();
    }

    fn specs(&self) -> Vec<ServerSpec> {
        servers::of(&self.home, &self.project()).unwrap().servers
    }

    fn open(&self) -> ServerTools {
        let mut opened = self.open_all();
        assert_eq!(opened.len(), 1);
        opened.remove(0)
    }

    fn open_all(&self) -> Vec<ServerTools> {
        let project = self.project();
        let folder = project.to_str().unwrap();
        let workspace = in_place(&project);
        let opened = self.mcp.open(
            "t1",
            &self.specs(),
            &workspace,
            folder,
            &SandboxSpec::off(),
            &Cancel::new(),
        );
        self.mcp.answered("t1");
        opened
    }

    fn call(&self, tool: &str, input: Value) -> ToolResult {
        self.call_within(tool, input, None, &Cancel::new())
    }

    fn call_within(
        &self,
        tool: &str,
        input: Value,
        timeout: Option<Span>,
        cancel: &Cancel,
    ) -> ToolResult {
        let spec = self.specs().first().cloned().unwrap_or_else(|| ServerSpec {
            name: "test".to_owned(),
            file: self.project().join(".drivetrain/mcp.toml").to_str().unwrap().to_owned(),
            sha256: String::new(),
        });
        let behind = ServerCall {
            server: spec,
            tool: tool.to_owned(),
            folder: self.project().to_str().unwrap().to_owned(),
        };
        let call = ToolCall {
            call: CallId(1),
            tool: format!("mcp__test__{tool}"),
            input: Arc::new(input),
            class: EffectClass::Unsafe,
            timeout,
            workspace: in_place(&self.project()),
            sandbox: SandboxSpec::off(),
            repeated: false,
            server: Some(behind.clone()),
        };
        self.mcp.call("t1", &call, &behind, &services(Containment::Auto), cancel)
    }

    /// Waits until the log holds a text.
    fn wait_for(&self, text: &str) {
        let until = Instant::now() + PATIENCE;
        while !self.log().contains(text) {
            assert!(Instant::now() < until, "{text:?} never came: {}", self.log());
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.mcp.close("t1");
    }
}

fn names(tools: &ServerTools) -> Vec<&str> {
    tools.tools.iter().map(|tool| tool.tool.as_str()).collect()
}

fn text(result: &ToolResult) -> &str {
    assert_eq!(result.status, Status::Ok, "{}", result.text);
    &result.text
}

/// Whether any process has this folder's path among its arguments or variables.
fn lives(folder: &Path) -> bool {
    let wanted = folder.to_str().unwrap().as_bytes();
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    processes.into_iter().any(|process| {
        let holds = |file: &str| {
            let content = std::fs::read(process.path().join(file)).unwrap_or_default();
            content.windows(wanted.len()).any(|window| window == wanted)
        };
        process.file_name() != std::process::id().to_string().as_str()
            && process.file_name().to_str().is_some_and(|name| name.parse::<u32>().is_ok())
            && (holds("environ") || holds("cmdline"))
    })
}

#[test]
fn tools_are_found_on_all_pages_and_called() {
    let rig = Rig::with(&[], "");
    let offered = rig.open();
    assert_eq!(offered.problem, None);
    assert_eq!(offered.tools.len(), 12, "{:?}", names(&offered));
    assert!(offered.tools.iter().all(|tool| tool.class == EffectClass::Unsafe));
    assert_eq!(text(&rig.call("echo", json!({ "text": "grüße\n" }))), "grüße\n");
    assert_eq!(
        text(&rig.call("image", json!({}))),
        "[an image: image/png, about 3 bytes]\n[the resource file:///a]\ninside"
    );
    assert_eq!(text(&rig.call("structured", json!({}))), r#"{"answer":42}"#);
    let here = rig.call("where", json!({}));
    assert_eq!(Path::new(text(&here)), std::fs::canonicalize(rig.project()).unwrap());
    assert_eq!(rig.starts(), 1, "one connection serves all calls");
}

#[test]
fn a_link_to_a_resource_says_what_is_there() {
    let rig = Rig::with(&[], "");
    rig.open();
    assert_eq!(
        text(&rig.call("links", json!({}))),
        "[a link to the resource db://notes/7: notes-7, Notes of May, text/markdown, 1200 bytes]\n\
         What was said,\nby day.\n\
         [a link to the resource db://notes/8: notes-8]\n\
         [a link to the resource db://notes/9]"
    );
}

#[test]
fn a_part_of_a_kind_that_nobody_knows_costs_no_other() {
    let modern: &[&str] = &["--modern"];
    for arguments in [&[], modern] {
        let rig = Rig::with(arguments, "");
        rig.open();
        let answer = rig.call("future", json!({}));
        let expected = "seen\n[a part of a kind that is not known: hologram]\n\
            [a part of a kind that is not known: note]\nremembered\n\
            [a part of a kind that is not known: nameless]";
        assert_eq!((answer.status, answer.text.as_str()), (Status::Ok, expected));
        assert_eq!(rig.call("future", json!({ "fails": true })).status, Status::Error);
    }
}

#[test]
fn a_failed_call_and_a_refused_one_are_errors_that_say_why() {
    let rig = Rig::with(&[], "");
    rig.open();
    let failed = rig.call("fail", json!({}));
    assert_eq!((failed.status, failed.text.as_str()), (Status::Error, "it did not work"));
    let refused = rig.call("nonsense", json!({}));
    assert_eq!(refused.status, Status::Error);
    assert!(refused.text.contains("server test: it refused the call: no such tool"), "{refused:?}");
    assert_eq!(rig.starts(), 1);
}

#[test]
fn calls_run_at_once_over_one_connection() {
    let rig = Rig::with(&[], "");
    rig.open();
    // Each waits inside the server until all three are there.
    std::thread::scope(|scope| {
        let calls: Vec<_> = (0..3).map(|_| scope.spawn(|| rig.call("meet", json!({})))).collect();
        for call in calls {
            assert_eq!(text(&call.join().unwrap()), "met");
        }
    });
}

#[test]
fn a_cancelled_call_ends_at_once_and_the_server_is_told() {
    let rig = Rig::with(&[], "");
    rig.open();
    let cancel = Cancel::new();
    std::thread::scope(|scope| {
        let running = scope.spawn(|| rig.call_within("slow", json!({}), None, &cancel));
        rig.wait_for("\"slow\"");
        cancel.trigger();
        let ended = running.join().unwrap();
        assert_eq!(ended.status, Status::Aborted, "{ended:?}");
    });
    rig.wait_for("stopped");
    assert_eq!(text(&rig.call("echo", json!({ "text": "still here" }))), "still here");
    assert_eq!(rig.starts(), 1);
}

#[test]
fn a_call_that_takes_too_long_is_stopped_by_its_own_or_the_servers_limit() {
    let rig = Rig::with(&[], "timeout = \"300ms\"\n");
    rig.open();
    let late = rig.call("slow", json!({}));
    assert_eq!(late.status, Status::TimedOut);
    assert!(late.text.contains("no answer within 300ms"), "{}", late.text);
    rig.wait_for("stopped");
    let late = rig.call_within("slow", json!({}), Some(Span(50)), &Cancel::new());
    assert!(late.text.contains("no answer within 50ms"), "{}", late.text);
}

#[test]
fn a_server_that_dies_in_a_call_says_why_and_is_started_again_by_the_next() {
    let rig = Rig::with(&[], "");
    rig.open();
    let dead = rig.call("die", json!({ "of": "boredom" }));
    assert_eq!(dead.status, Status::Error);
    for part in ["it exited with 3", "I am dying of boredom", "is not known"] {
        assert!(dead.text.contains(part), "{part}: {}", dead.text);
    }
    assert_eq!(text(&rig.call("echo", json!({ "text": "back" }))), "back");
    assert_eq!(rig.starts(), 2);
    assert!(rig.news.lists.lock().unwrap().is_empty(), "the tools are the same as before");
}

#[test]
fn a_server_that_asks_without_end_and_reads_no_answer_is_taken_for_dead() {
    let rig = Rig::with(&[], "timeout = \"60s\"");
    rig.open();
    let flooded = rig.call("flood", json!({}));
    assert_eq!(flooded.status, Status::Error, "{}", flooded.text);
    let again = rig.call("echo", json!({ "text": "here" }));
    assert_eq!(text(&again), "here", "it was started again");
    assert_eq!(rig.starts(), 2);
}

#[test]
fn a_server_that_dies_again_and_again_is_left_alone() {
    let rig = Rig::with(&[], "");
    rig.open();
    for _ in 0..3 {
        assert_eq!(rig.call("die", json!({})).status, Status::Error);
    }
    let left = rig.call("echo", json!({ "text": "x" }));
    assert!(left.text.contains("failed 3 times in a row and is left alone"), "{}", left.text);
    assert_eq!(rig.starts(), 3);
}

#[test]
fn an_answer_between_two_deaths_counts_as_recovery() {
    let rig = Rig::with(&[], "");
    rig.open();
    for _ in 0..4 {
        assert_eq!(rig.call("die", json!({})).status, Status::Error);
        assert_eq!(text(&rig.call("echo", json!({ "text": "x" }))), "x");
    }
}

#[test]
fn a_changed_list_is_told_once_also_by_a_server_that_cannot_say_it_just_now() {
    for how in [&[][..], &["--busy"]] {
        let rig = Rig::with(how, "");
        rig.open();
        assert_eq!(text(&rig.call("add", json!({ "name": "jump" }))), "added");
        let lists = rig.news.lists.lock().unwrap();
        let (lists, _) =
            rig.news.came.wait_timeout_while(lists, PATIENCE, |lists| lists.is_empty()).unwrap();
        assert_eq!(lists.len(), 1, "{how:?}");
        assert!(names(&lists[0]).contains(&"jump"), "{:?}", names(&lists[0]));
    }
}

#[test]
fn a_call_that_changes_the_list_ends_once_the_new_list_is_told() {
    let rig = Rig::with(&[], "");
    rig.open();
    for (count, name) in (1..).zip(["jump", "run", "swim"]) {
        assert_eq!(text(&rig.call("add", json!({ "name": name }))), "added");
        let lists = rig.news.lists.lock().unwrap();
        assert_eq!(lists.len(), count);
        assert!(names(&lists[count - 1]).contains(&name), "{:?}", names(&lists[count - 1]));
    }
}

#[test]
fn a_list_that_changes_before_the_answer_is_handed_on_is_told_after_it() {
    let rig = Rig::with(&[], "");
    let project = rig.project();
    let folder = project.to_str().unwrap();
    let opened = rig.mcp.open(
        "t1",
        &rig.specs(),
        &in_place(&project),
        folder,
        &SandboxSpec::off(),
        &Cancel::new(),
    );
    assert!(!names(&opened[0]).contains(&"jump"));
    let lists = || rig.log().lines().filter(|line| line.contains("tools/list")).count();
    let before = lists();
    assert_eq!(text(&rig.call("add", json!({ "name": "jump" }))), "added");
    // Both pages are asked for again; whatever comes of it is kept until the answer is out.
    let until = Instant::now() + PATIENCE;
    while lists() < before + 2 {
        assert!(Instant::now() < until, "{}", rig.log());
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(rig.news.lists.lock().unwrap().is_empty());
    rig.mcp.answered("t1");
    let told = rig.news.lists.lock().unwrap();
    let (told, _) =
        rig.news.came.wait_timeout_while(told, PATIENCE, |told| told.is_empty()).unwrap();
    assert!(names(&told[0]).contains(&"jump"));
}

#[test]
fn what_is_no_message_on_its_output_is_skipped() {
    let rig = Rig::with(&["--noise"], "");
    assert_eq!(rig.open().problem, None);
    assert_eq!(text(&rig.call("echo", json!({ "text": "x" }))), "x");
}

#[test]
fn half_a_character_in_an_answer_does_not_cost_the_call() {
    let rig = Rig::with(&["--half"], "timeout = \"10s\"\n");
    assert_eq!(rig.open().problem, None);
    assert_eq!(text(&rig.call("echo", json!({ "text": "x" }))), "x\u{fffd}");
}

#[test]
fn a_server_of_the_newest_revision_is_understood() {
    let rig = Rig::with(&["--modern"], "");
    let offered = rig.open();
    assert_eq!(offered.problem, None);
    assert_eq!(text(&rig.call("echo", json!({ "text": "x" }))), "x");
}

#[test]
fn what_a_hostile_server_claims_is_cut_and_cleaned() {
    let rig = Rig::with(&["--hostile"], "");
    let offered = rig.open();
    assert_eq!(offered.tools.len(), machine::server::MAX_TOOLS);
    assert!(offered.problem.unwrap().contains("\"huge\""));
    for tool in &offered.tools {
        assert!(tool.name.len() <= 64 && tool.name.starts_with("mcp__test__"), "{}", tool.name);
        assert!(tool.summary.len() <= 1024 && !tool.summary.contains('\u{1b}'));
        assert_eq!(tool.class, EffectClass::Unsafe, "its word on safety counts for nothing");
    }
}

#[test]
fn a_tool_that_breaks_the_rules_costs_no_other() {
    let rig = Rig::with(&["--odd"], "trust_annotations = true");
    let tools = rig.open();
    assert_eq!(names(&tools), ["bare", "echo", "hinted", "numbered"]);
    assert_eq!(tools.tools[0].schema, json!({ "type": "object", "properties": {} }));
    assert_eq!(tools.tools[0].class, EffectClass::Unsafe, "it is not believed");
    let problem = tools.problem.as_deref().unwrap();
    assert!(problem.contains("wordy") && problem.contains("name is empty"), "{problem}");
    assert_eq!(rig.call("echo", json!({ "text": "hi" })).text, "hi");
}

#[test]
fn large_output_is_shown_in_part_and_kept_whole() {
    let rig = Rig::with(&[], "");
    rig.open();
    let big = rig.call("big", json!({ "size": 1_000_000 }));
    assert!(big.text.len() < 100_000 && big.text.contains("bytes are missing here"));
    assert_eq!(big.blob.unwrap().size, 1_000_000);
}

#[test]
fn a_server_that_cannot_start_says_why() {
    let rig = Rig::empty();
    for (command, expected) in [
        (r#"["no-such-program-here"]"#, "no such program"),
        (r#"["sh", "-c", "echo broken config >&2; exit 7"]"#, "it exited with 7"),
        (r#"["sh", "-c", "echo broken config >&2; exit 7"]"#, "broken config"),
    ] {
        rig.declare(&format!("[server.test]\ncommand = {command}\n"));
        rig.trust();
        rig.mcp.close("t1");
        let offered = rig.open();
        assert!(offered.tools.is_empty());
        let problem = offered.problem.unwrap();
        assert!(problem.contains(expected), "{expected}: {problem}");
    }
    rig.declare("[server.test]\ncommand = [\"sleep\", \"1000\"]\nstart_timeout = \"100ms\"\n");
    rig.trust();
    rig.mcp.close("t1");
    assert!(rig.open().problem.unwrap().contains("did not answer within 100ms"));
}

#[test]
fn a_server_of_the_old_form_of_http_is_named_as_that_and_costs_no_other() {
    let rig = Rig::with(&[], "");
    let shared =
        r#"{ "mcpServers": { "old": { "type": "sse", "url": "http://127.0.0.1:9/sse" } } }"#;
    std::fs::write(rig.project().join(".mcp.json"), shared).unwrap();
    rig.trust();
    let mut opened = rig.open_all();
    opened.sort_by(|one, other| one.server.cmp(&other.server));
    let problems: Vec<(&str, &str)> =
        opened.iter().map(|it| (it.server.as_str(), it.problem.as_deref().unwrap_or(""))).collect();
    let [("old", why), ("test", "")] = problems[..] else { panic!("{problems:?}") };
    assert!(why.contains("old form of HTTP"), "{why}");
    assert!(!opened[1].tools.is_empty());
}

#[test]
fn it_gets_the_variables_that_its_file_names_and_no_others() {
    let more = "[server.test.env]\nA_TOKEN = \"sk-very-secret-9\"\nB = \"${MCP_UNSET:-other}\"\n";
    let rig = Rig::empty();
    let command = json!([python(), script()]);
    rig.declare(&format!("[server.test]\ncommand = {command}\n{more}"));
    rig.trust();
    rig.open();
    let shown = rig.call("env", json!({}));
    let variables: Value = serde_json::from_str(text(&shown)).unwrap();
    assert_eq!(variables["B"], "other");
    assert_eq!(variables["A_TOKEN"], "[key]", "it has it, and its answer does not show it");
    let ours = ["CARGO_MANIFEST_DIR", "CARGO_PKG_NAME"];
    assert!(ours.iter().all(|name| std::env::var_os(name).is_some()), "the test has them");
    assert!(ours.iter().all(|name| variables.get(name).is_none()), "{variables}");
    assert!(variables.get("PATH").is_some() && variables.get("HOME").is_some());
}

#[test]
fn a_projects_file_cannot_hand_over_a_key_of_ours_or_a_variable_that_is_not_set() {
    let rig = Rig::empty();
    for (value, expected) in [
        ("${ANTHROPIC_API_KEY}", "may not hand over ANTHROPIC_API_KEY"),
        ("x${OPENAI_API_KEY:-y}", "may not hand over OPENAI_API_KEY"),
        ("${MCP_NEVER_SET}", "the variable MCP_NEVER_SET is not set"),
    ] {
        rig.declare(&format!("[server.test]\ncommand = [\"true\"]\nenv = {{ A = \"{value}\" }}\n"));
        rig.trust();
        rig.mcp.close("t1");
        let problem = rig.open().problem.unwrap();
        assert!(problem.contains(expected), "{problem}");
    }
}

#[test]
fn nothing_starts_before_the_file_is_trusted_and_nothing_after_it_changed() {
    let rig = Rig::empty();
    let proof = rig.place.path().join("proof");
    let text = format!("[server.test]\ncommand = [\"touch\", {:?}]\n", proof);
    rig.declare(&text);
    let found = servers::of(&rig.home, &rig.project()).unwrap();
    assert!(found.servers.is_empty());
    assert_eq!(found.untrusted.len(), 1);
    assert!(!found.untrusted[0].changed);
    // Whoever asks all the same, from an old record, gets nothing.
    let refused = rig.call("echo", json!({}));
    assert!(refused.text.contains("is not trusted"), "{}", refused.text);
    assert!(!proof.exists());

    rig.trust();
    let specs = rig.specs();
    assert_eq!(specs.len(), 1);
    rig.declare(&format!("{text}# changed\n"));
    assert!(servers::of(&rig.home, &rig.project()).unwrap().untrusted[0].changed);
    let project = rig.project();
    let folder = project.to_str().unwrap();
    let opened = rig.mcp.open(
        "t1",
        &specs,
        &in_place(&project),
        folder,
        &SandboxSpec::off(),
        &Cancel::new(),
    );
    assert!(opened[0].problem.as_ref().unwrap().contains("has changed since it was trusted"));
    assert!(!proof.exists());
    // The counter-proof: trusted again, it runs.
    rig.trust();
    rig.mcp.close("t1");
    rig.open();
    assert!(proof.exists());
}

#[test]
fn a_file_that_changes_while_its_server_runs_is_not_used_to_start_it_again() {
    let rig = Rig::with(&[], "");
    rig.open();
    let text = std::fs::read_to_string(rig.project().join(".drivetrain/mcp.toml")).unwrap();
    rig.declare(&format!("{text}# and more\n"));
    assert_eq!(rig.call("die", json!({})).status, Status::Error);
    let refused = rig.call("echo", json!({ "text": "x" }));
    assert!(refused.text.contains("has changed since it was trusted"), "{}", refused.text);
    assert_eq!(rig.starts(), 1);
}

#[test]
fn closing_a_task_ends_its_servers() {
    let rig = Rig::with(&[], "");
    rig.open();
    let place = rig.place.path().to_owned();
    assert!(lives(&place));
    rig.mcp.close("t1");
    assert!(!lives(&place));
}

#[test]
fn the_shared_file_is_read_too_and_the_nearest_server_wins() {
    let rig = Rig::empty();
    rig.declare(
        "[server.a]\ncommand = [\"ours\"]\n[server.off]\ncommand = [\"x\"]\ndisabled = true\n",
    );
    // What is switched off nearby is off, wherever else it is declared.
    let shared = json!({ "mcpServers": {
        "a": { "command": "theirs" }, "b": { "command": "b" }, "off": { "command": "on" },
    } });
    std::fs::write(rig.project().join(".mcp.json"), shared.to_string()).unwrap();
    assert_eq!(servers::of(&rig.home, &rig.project()).unwrap().untrusted.len(), 2);
    rig.trust();
    let specs = rig.specs();
    let found: Vec<(&str, bool)> =
        specs.iter().map(|spec| (spec.name.as_str(), spec.file.ends_with("mcp.toml"))).collect();
    assert_eq!(found, [("a", true), ("b", false)]);
}
