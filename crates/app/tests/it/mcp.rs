//! Servers of tools, the whole way: trusted or not, asked for their tools, called by a model, killed in the middle.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::environment::TestEnvironment;
use crate::fake::Server;

/// The interpreter itself: what is on the PATH may be a wrapper that needs variables a server does not get.
fn python() -> String {
    let program = "import sys; print(sys.executable)";
    let asked = Command::new("python3").args(["-c", program]).output().unwrap();
    String::from_utf8(asked.stdout).unwrap().trim().to_owned()
}

fn script() -> PathBuf {
    let script =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../runtime/tests/fixtures/mcp_server.py");
    script.canonicalize().unwrap()
}

fn log_file(place: &TestEnvironment) -> PathBuf {
    place.home().with_file_name("server.log")
}

fn log(place: &TestEnvironment) -> String {
    std::fs::read_to_string(log_file(place)).unwrap_or_default()
}

/// A project whose `.mcp.json` declares the server `test`.
fn project() -> TestEnvironment {
    let place = TestEnvironment::new();
    // The server's log and its script are outside of the workspace: its entry says that it needs them.
    std::fs::write(log_file(&place), "").unwrap();
    let server = json!({
        "command": python(),
        "args": [script()],
        "read": [script().parent().unwrap()],
        "write": [log_file(&place)],
        "env": { "MCP_LOG": log_file(&place), "SOME_TOKEN": "hush-hush-4711" },
    });
    place.write(".mcp.json", &json!({ "mcpServers": { "test": server } }).to_string());
    place
}

fn allow(place: &TestEnvironment) {
    place.write(
        ".drivetrain/policy.toml",
        "[[rule]]\ntool = \"mcp__test__*\"\ndecide = \"allow\"\n",
    );
}

fn calls(place: &TestEnvironment, tool: &str, input: &str) {
    place.write(
        "replies.toml",
        &format!(
            "[[reply]]\ntool_calls = [{{ tool = \"{tool}\", input = {input} }}]\n\
             [[reply]]\ntext = \"Done.\"\n"
        ),
    );
}

const RUN: [&str; 5] = ["run", "use the server", "--model", "script/replies.toml", "--in-place"];

fn of<'a>(events: &'a [Value], kind: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["type"] == kind).collect()
}

/// Every file below a folder, joined.
fn everything(folder: &Path) -> Vec<u8> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            all.extend(everything(&path));
        } else {
            all.extend(std::fs::read(&path).unwrap_or_default());
        }
    }
    all
}

#[test]
fn a_model_calls_a_servers_tool_and_no_secret_of_the_file_is_recorded() {
    let place = project();
    allow(&place);
    calls(&place, "mcp__test__echo", "{ text = \"hello\" }");
    place.ok(&["trust", "--yes"]);
    let ran = place.run(&RUN);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let events = place.events(&place.id());
    let opened = of(&events, "tools_opened");
    assert_eq!((opened.len(), opened[0]["server"].as_str()), (1, Some("test")));
    assert!(opened[0]["tools"].as_array().unwrap().contains(&json!("mcp__test__echo")));
    let ended = of(&events, "tool_ended");
    assert_eq!(ended[0]["result"], json!({ "status": "ok", "text": "hello" }));
    assert!(log(&place).ends_with("end of input\n"), "it was ended with the task");
    let (kept, secret) = (everything(&place.home()), b"hush-hush-4711");
    assert!(!kept.windows(secret.len()).any(|window| window == secret), "nothing of it is kept");
}

#[test]
fn nothing_is_started_before_the_file_is_trusted_and_the_run_says_so() {
    let place = project();
    calls(&place, "mcp__test__echo", "{ text = \"hello\" }");
    let ran = place.run(&RUN);
    assert_eq!(ran.code, 0, "the run goes on without: {}{}", ran.out, ran.err);
    assert_eq!(ran.err.matches(".mcp.json is not trusted").count(), 1, "{}", ran.err);
    assert!(ran.err.contains("drivetrain trust"), "{}", ran.err);
    let events = place.events(&place.id());
    assert!(of(&events, "tools_opened").is_empty());
    assert_eq!(of(&events, "tool_ended")[0]["result"]["status"], "error", "there is no such tool");

    let mut args = RUN.to_vec();
    args.push("--json");
    let ran = place.run(&args);
    let notice: Value = serde_json::from_str(ran.err.trim()).unwrap();
    assert_eq!(notice["v"], 1);
    assert!(notice["notice"].as_str().unwrap().contains("is not trusted"), "{notice}");
    assert!(notice["files"][0].as_str().unwrap().ends_with("/project/.mcp.json"), "{notice}");
    assert_eq!(log(&place), "", "no server ever started");
}

#[test]
fn a_task_that_names_a_server_does_not_start_without_it() {
    let place = project();
    calls(&place, "mcp__test__echo", "{ text = \"hello\" }");
    let task = |config: &str| {
        let text = format!(
            "[task]\ngoal = \"g\"\ndriver = \"llm\"\n[task.driver_config]\nmodel = \"script/replies.toml\"\n\
             {config}\n[workspace]\nkind = \"in_place\"\n"
        );
        place.write("task.toml", &text);
        place.run(&["run", "task.toml"])
    };
    for config in ["servers = [\"test\"]", "tools = [\"read\", \"mcp__test__echo\"]"] {
        let ran = task(config);
        assert_eq!(ran.code, 2, "{}{}", ran.out, ran.err);
        assert!(ran.err.contains("is not trusted: drivetrain trust"), "{}", ran.err);
    }
    place.ok(&["trust", "--yes"]);
    let ran = task("servers = [\"tset\"]");
    assert_eq!((ran.code, ran.err.contains("did you mean \"test\"?")), (2, true), "{}", ran.err);
    assert_eq!(log(&place), "");
    assert!(!place.home().join("journal/journal.db").exists(), "nothing was recorded");
    assert_eq!(task("servers = [\"test\"]").code, 0);
}

#[test]
fn a_changed_file_is_asked_about_again() {
    let place = project();
    allow(&place);
    calls(&place, "mcp__test__echo", "{ text = \"hello\" }");
    place.ok(&["trust", "--yes"]);
    assert!(place.ok(&["trust", "--show"]).contains("trusted  "));
    place.write(".mcp.json", &format!("{} ", place.read(".mcp.json")));
    assert!(place.ok(&["trust", "--show"]).contains("changed  "));
    let ran = place.run(&RUN);
    assert!(ran.err.contains("changed since it was trusted"), "{}", ran.err);
    assert_eq!(log(&place), "");
    place.ok(&["trust", "--yes"]);
    assert_eq!(place.run(&RUN).err, "");
    assert!(log(&place).starts_with("started\n"));
    place.ok(&["trust", "--revoke"]);
    assert!(place.run(&RUN).err.contains("is not trusted"));
}

/// The same project, with the server's script in it.
fn with_own_script() -> TestEnvironment {
    let place = project();
    place.write("tools/server.py", &std::fs::read_to_string(script()).unwrap());
    place.write("tools/notes.txt", "data of the server\n");
    let mut file: Value = serde_json::from_str(&place.read(".mcp.json")).unwrap();
    file["mcpServers"]["test"]["args"] = json!(["tools/server.py", "tools/notes.txt"]);
    place.write(".mcp.json", &file.to_string());
    allow(&place);
    place
}

#[test]
fn a_changed_script_of_a_server_is_asked_about_again() {
    let place = with_own_script();
    calls(&place, "mcp__test__echo", "{ text = \"hello\" }");
    let shown = place.ok(&["trust", "--yes"]);
    let asked = |name| shown.lines().any(|line| line.starts_with("new ") && line.ends_with(name));
    assert!(asked("tools/server.py") && !asked("tools/notes.txt"), "{shown}");
    place.write("tools/notes.txt", "other data\n");
    assert_eq!(place.run(&RUN).err, "");
    let started = log(&place);
    assert!(started.starts_with("started\n"));
    place.write("tools/server.py", &format!("{}# another\n", place.read("tools/server.py")));
    let ran = place.run(&RUN);
    assert!(ran.err.contains("server.py is changed since it was trusted"), "{}", ran.err);
    assert_eq!(log(&place), started, "it was not started");
    let shown = place.ok(&["trust", "--show"]);
    assert_eq!(shown.matches("changed  ").count(), 1, "{shown}");
    // For one task alone.
    let once = place.run(&[&RUN[..], &["--trust"]].concat());
    assert_eq!((once.code, once.err.as_str()), (0, ""), "{}", once.out);
    assert_ne!(log(&place), started);
    assert!(place.run(&RUN).err.contains("changed since"), "only for that one");
    place.ok(&["trust", "--yes"]);
    assert_eq!(place.run(&RUN).err, "");
}

#[test]
fn a_server_does_not_run_what_the_worker_wrote() {
    for flag in [None, Some("--in-place")] {
        let place = with_own_script();
        place.git(&["init", "--quiet"]);
        place.commit_all("all");
        place.write(
            "replies.toml",
            "[[reply]]\ntool_calls = [{ tool = \"mcp__test__echo\", input = { text = \"one\" } }]\n\
             [[reply]]\ntool_calls = [{ tool = \"shell\", input = { command = \"echo '# mine' >> tools/server.py\" } }]\n\
             [[reply]]\ntool_calls = [{ tool = \"mcp__test__die\", input = {} }]\n\
             [[reply]]\ntool_calls = [{ tool = \"mcp__test__echo\", input = { text = \"two\" } }]\n\
             [[reply]]\ntext = \"Done.\"\n",
        );
        place.ok(&["trust", "--yes"]);
        let run = RUN.iter().copied().filter(|word| *word != "--in-place").chain(flag);
        let ran = place.run(&run.collect::<Vec<_>>());
        assert_eq!(ran.code, 0, "{flag:?} {}{}", ran.out, ran.err);
        let events = place.events(&place.id());
        let texts: Vec<&str> = of(&events, "tool_ended")
            .into_iter()
            .filter_map(|ended| ended["result"]["text"].as_str())
            .collect();
        assert_eq!(texts[0], "one", "{flag:?} {texts:?}");
        assert!(texts[3].contains("server.py, which nobody trusts as it is"), "{flag:?} {texts:?}");
        assert_eq!(log(&place).matches("started\n").count(), 1, "{flag:?}");
    }
}

#[test]
fn trust_shows_exactly_what_would_run_and_asks_nobody_who_is_not_there() {
    let place = TestEnvironment::new();
    place.write(
        ".drivetrain/mcp.toml",
        "[server.web]\nurl = \"https://example.org/mcp\"\nheaders = { Authorization = \"Bearer ${T}\" }\n\
         [server.sly]\ncommand = [\"sh\", \"-c\", \"echo hi\\u001b[8m; rm -rf x\"]\nenv = { API_KEY = \"hush\" }\n",
    );
    let ran = place.run(&["trust"]);
    assert_eq!(ran.code, 2, "{}{}", ran.out, ran.err);
    assert!(ran.err.contains("nobody is there to be asked"), "{}", ran.err);
    for part in [
        "runs sh -c 'echo hi\\x1b[8m; rm -rf x'",
        "variable API_KEY = ***",
        "speaks to https://example.org/mcp",
        "header Authorization = Bearer ${T}",
        "sha256 ",
    ] {
        assert!(ran.out.contains(part), "{part}: {}", ran.out);
    }
    assert!(!ran.out.contains("hush") && !ran.out.contains('\u{1b}'), "{}", ran.out);
    let shown: Value = serde_json::from_str(&place.ok(&["trust", "--show", "--json"])).unwrap();
    assert_eq!(shown["trusted"], false);
    assert_eq!(shown["files"][0]["state"], "new");
    assert_eq!(shown["files"][0]["servers"][0]["env"], json!(["API_KEY"]));
    let trusted: Value = serde_json::from_str(&place.ok(&["trust", "--yes", "--json"])).unwrap();
    assert_eq!(trusted["files"][0]["state"], "trusted");

    place.write(".drivetrain/mcp.toml", "[server.web]\nurll = \"x\"\n");
    let ran = place.run(&["trust", "--yes"]);
    assert_eq!((ran.code, ran.err.contains("did you mean \"url\"")), (2, true), "{}", ran.err);
    let empty = TestEnvironment::new();
    assert!(empty.ok(&["trust"]).contains("nothing in"));
}

#[test]
fn trust_shows_what_a_server_asks_of_the_sandbox_and_the_variables_that_are_as_good_as_code() {
    let place = TestEnvironment::new();
    let values = [
        ("DATABASE", "postgres://me:hush-1@db.example.org/x", "postgres://***@db.example.org/x"),
        ("HOST_KEY", "./evil.so", "./evil.so"),
        ("LOG", "info ghp_0123456789abcdefghij", "info ***"),
        ("NODE_OPTIONS", "--require ./evil.js", "--require ./evil.js"),
        ("PYTHONPATH", "evil", "evil"),
        ("TICKETS_TOKEN", "hush-2", "***"),
        ("WITH_TOKEN", "${TICKETS_TOKEN}", "${TICKETS_TOKEN}"),
    ];
    let env: serde_json::Map<String, Value> =
        values.iter().map(|(name, value, _)| ((*name).to_owned(), json!(value))).collect();
    let server = json!({ "command": "uvx", "env": env, "network": "open", "read": ["~/.ssh"],
        "write": ["~/.bashrc"], "workspace": "read" });
    place.write(".mcp.json", &json!({ "mcpServers": { "notes": server } }).to_string());
    let shown = place.ok(&["trust", "--show"]);
    for part in [
        "reaches everything over the network that you can",
        "reads ~/.ssh",
        "writes ~/.bashrc",
        "only reads in the workspace",
    ] {
        assert!(shown.contains(&format!("    {part}\n")), "{part}: {shown}");
    }
    let told: Value = serde_json::from_str(&place.ok(&["trust", "--show", "--json"])).unwrap();
    let server = &told["files"][0]["servers"][0];
    let needs = json!({ "network": "open", "read": ["~/.ssh"], "write": ["~/.bashrc"],
        "writes_workspace": false });
    assert_eq!(server["needs"], needs);
    for (name, _, value) in values {
        assert!(shown.contains(&format!("    variable {name} = {value}\n")), "{name}: {shown}");
        assert_eq!(server["env_values"][name], value);
    }
    assert!(!shown.contains("hush") && !told.to_string().contains("hush"), "{shown}");
}

#[test]
fn a_servers_tool_passes_the_same_gate() {
    let place = project();
    place.ok(&["trust", "--yes"]);
    calls(&place, "mcp__test__echo", "{ text = \"hello\" }");
    place.ok(&RUN);
    let id = place.id();
    let ended = of(&place.events(&id), "tool_ended")[0]["result"].clone();
    assert_eq!(ended["status"], "denied", "{ended}");
    assert!(!log(&place).contains("tools/call"), "it never reached the server");

    place.write(".drivetrain/policy.toml", "unattended = \"wait\"\n");
    place.trust();
    assert_eq!(place.run(&RUN).code, 13);
    let waiting = place.tasks().iter().find(|task| task["phase"] == "waiting").unwrap().clone();
    let id = waiting["id"].as_str().unwrap();
    place.ok(&["approve", id]);
    place.ok(&["resume", id]);
    let events = place.events(id);
    assert_eq!(of(&events, "tool_ended")[0]["result"]["text"], "hello");
    assert_eq!(of(&events, "tools_opened").len(), 2, "asked again by the second process");
}

#[test]
fn an_answer_for_the_project_is_a_rule_that_the_next_task_finds() {
    let place = project();
    place.ok(&["trust", "--yes"]);
    calls(&place, "mcp__test__echo", "{ text = \"hello\" }");
    let policy = "# mine\nunattended = \"wait\"\n\n[[rule]]\ntool = \"*\" # all\ndecide = \"ask\"";
    place.write(".drivetrain/policy.toml", policy);
    place.trust();
    assert_eq!(place.run(&RUN).code, 13);
    let id = place.id();
    let ran = place.ok(&["approve", &id, "--for", "project"]);
    assert!(ran.contains("for the project: mcp__test__echo"), "{ran}");
    assert!(
        ran.contains("  [[rule]]\n  tool = \"mcp__test__echo\"\n  decide = \"allow\""),
        "{ran}"
    );
    let written = place.read(".drivetrain/policy.toml");
    let (before, after) = policy.split_at(policy.find("[[rule]]").unwrap());
    assert!(written.starts_with(before) && written.ends_with(after), "{written}");
    assert!(written.contains(&format!("# approved at c1 of task {id} on 20")), "{written}");
    place.ok(&["resume", &id]);
    place.ok(&RUN);
    let newest = place.tasks()[0]["id"].as_str().unwrap().to_owned();
    assert_ne!(newest, id);
    let events = place.events(&newest);
    assert_eq!(of(&events, "tool_ended")[0]["result"]["text"], "hello", "nobody was asked");
    let by = of(&events, "tool_started")[0]["allowed_by"].as_str().unwrap().to_owned();
    assert!(by.starts_with("rule 1 of"), "{by}");
}

#[test]
fn a_kill_in_the_middle_of_a_call_leaves_it_in_doubt_and_no_server_behind() {
    let place = project();
    allow(&place);
    place.ok(&["trust", "--yes"]);
    calls(&place, "mcp__test__slow", "{ seconds = 60 }");
    let mut args = RUN.to_vec();
    args.push("--json");
    let background = place.start(&args);
    let id = background.id.clone();
    place.until(|| log(&place).contains("\"slow\"").then_some(()));
    background.signal("KILL");
    background.wait();
    assert_eq!(place.run(&["resume", &id]).code, 13);
    let events = place.events(&id);
    assert_eq!(of(&events, "call_in_doubt").len(), 1);
    assert_eq!(log(&place).matches("\"slow\"").count(), 1, "it was not repeated");
    place.ok(&["resolve", &id, "--did"]);
    place.ok(&["resume", &id]);
    assert_eq!(place.show(&id)["outcome"], "completed");
    let marker = log_file(&place);
    let lives = || {
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        let mut environments =
            processes.filter_map(|process| std::fs::read(process.path().join("environ")).ok());
        let wanted = marker.to_str().unwrap().as_bytes();
        environments.any(|all| all.windows(wanted.len()).any(|window| window == wanted))
    };
    assert!(!lives(), "a server is left behind");
}

#[test]
fn a_new_tool_is_in_the_models_next_question() {
    let place = project();
    place.write(".drivetrain/policy.toml", "[[rule]]\ntool = \"*\"\ndecide = \"allow\"\n");
    place.ok(&["trust", "--yes"]);
    let server = Server::of(
        &place,
        "[[reply]]\ntool_calls = [{ tool = \"mcp__test__add\", input = { name = \"jump\" } }]\n\
         [[reply]]\ntext = \"Done.\"\n",
    );
    place.write(
        ".drivetrain/models.toml",
        &format!(
            "[provider.fake]\ndialect = \"anthropic_messages\"\nbase_url = \"http://127.0.0.1:{}\"\n",
            server.port
        ),
    );
    place.ok(&["run", "use the server", "--model", "fake/m", "--in-place", "--no-sandbox"]);
    let tools = |request: &Value| -> Vec<String> {
        let tools = request["body"]["tools"].as_array().unwrap().iter();
        tools.map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    };
    let requests = server.requests();
    let requests = requests.as_array().unwrap();
    let new = "mcp__test__jump".to_owned();
    assert!(tools(&requests[0]).contains(&"mcp__test__echo".to_owned()));
    assert!(!tools(&requests[0]).contains(&new));
    assert!(tools(&requests[1]).contains(&new), "{:?}", tools(&requests[1]));
}

#[test]
fn a_workflow_step_can_call_a_servers_tool() {
    let place = project();
    place.ok(&["trust", "--yes"]);
    place.write(
        "task.toml",
        "[task]\ngoal = \"g\"\ndriver = \"workflow\"\n[[task.driver_config.steps]]\nname = \"one\"\n\
         tool = \"mcp__test__echo\"\nparameters = { text = \"stepped\" }\n[workspace]\nkind = \"in_place\"\n",
    );
    place.ok(&["run", "task.toml"]);
    let events = place.events(&place.id());
    assert_eq!(of(&events, "tool_ended")[0]["result"]["text"], "stepped");
}

#[test]
fn the_users_own_file_needs_no_trust_and_may_hand_over_a_key() {
    let place = TestEnvironment::new();
    let own = place.home().with_file_name(".config").join("drivetrain");
    std::fs::create_dir_all(&own).unwrap();
    let command = json!([python(), script()]);
    let read = json!([script().parent().unwrap()]);
    std::fs::write(
        own.join("mcp.toml"),
        format!(
            "[server.test]\ncommand = {command}\nread = {read}\n\
             env = {{ KEY = \"${{ANTHROPIC_API_KEY}}\" }}\n"
        ),
    )
    .unwrap();
    let allow = "[[rule]]\ntool = \"mcp__test__*\"\ndecide = \"allow\"\n";
    std::fs::write(own.join("policy.toml"), allow).unwrap();
    calls(&place, "mcp__test__env", "{}");
    let ran = place.command(&RUN).env("ANTHROPIC_API_KEY", "sk-of-my-own-77").output().unwrap();
    assert!(ran.status.success() && ran.stderr.is_empty(), "{ran:?}");
    let result = of(&place.events(&place.id()), "tool_ended")[0]["result"].clone();
    let variables: Value = serde_json::from_str(result["text"].as_str().unwrap()).unwrap();
    assert_eq!(variables["KEY"], "[key]", "it has it, and nobody is shown it");
    assert!(variables.get("ANTHROPIC_API_KEY").is_none(), "{variables}");
    assert!(place.ok(&["trust"]).contains("nothing in"), "it is not the project's");
}

#[test]
fn tools_and_doctor_tell_what_servers_there_are() {
    let place = project();
    let listed = place.ok(&["tools"]);
    assert!(listed.contains(".mcp.json is not trusted"), "{listed}");
    assert!(place.ok(&["doctor"]).contains("not trusted, so they have no say"));
    assert_eq!(log(&place), "");
    place.ok(&["trust", "--yes"]);
    let listed = place.ok(&["tools"]);
    assert!(listed.contains("mcp__test__echo: says it again"), "{listed}");
    let listed: Value = serde_json::from_str(&place.ok(&["tools", "--json"])).unwrap();
    assert_eq!(listed["servers"][0]["tools"].as_array().unwrap().len(), 12);
    assert!(place.ok(&["doctor"]).contains("servers: test"));
}

#[test]
fn a_server_that_does_not_begin_is_told_with_the_walls_around_it() {
    let place = TestEnvironment::new();
    for (network, is_told) in [("none", true), ("open", false)] {
        let server = json!({ "command": "sh", "args": ["-c", "exit 3"], "network": network });
        place.write(".mcp.json", &json!({ "mcpServers": { "test": server } }).to_string());
        place.trust();
        let listed = place.run(&["tools"]).out;
        assert!(listed.contains("it exited with 3"), "{listed}");
        let told = listed.contains("it runs in a sandbox without a network");
        assert_eq!(told, is_told, "{network}: {listed}");
    }
}

#[test]
fn a_coding_agent_is_offered_the_tools_of_servers_and_the_gate_judges_its_calls() {
    let place = project();
    let policy = "[[rule]]\ntool = \"mcp__test__echo\"\ndecide = \"allow\"\n\
                  [[rule]]\ntool = \"mcp__test__*\"\ndecide = \"deny\"\nreason = \"only echo\"\n";
    place.write(".drivetrain/policy.toml", policy);
    let init = json!({ "type": "system", "subtype": "init", "session_id": "s1",
        "permissionMode": "default" });
    let ends = json!({ "type": "result", "subtype": "success", "is_error": false, "result": "done",
        "session_id": "s1" });
    let calls = "call test__echo {\"text\":\"hello\"}\ncall test__slow {}\ncall test__none {}";
    place.write("steps.txt", &format!("{init}\n{calls}\n{ends}\n"));
    let command = [env!("CARGO_BIN_EXE_drivetrain"), "fake", "agent", "steps.txt"];
    place.write(
        ".drivetrain/agents/played.toml",
        &format!("[agent]\nname = \"played\"\nprotocol = \"claude\"\ncommand = {command:?}\n"),
    );
    let run = ["run", "use the server", "--agent", "played", "--in-place", "--no-sandbox"];
    place.ok(&["trust", "--yes"]);
    let ran = place.run(&[&run[..], &["--max-turns", "1"]].concat());
    let events = place.events(&place.id());
    assert_eq!(of(&events, "tools_opened").len(), 1, "{}{}", ran.out, ran.err);
    let called = place.read("called.txt");
    let lines: Vec<&str> = called.lines().collect();
    assert_eq!(lines[0], "test__echo: hello", "{called}");
    assert!(lines[1].starts_with("test__slow: ") && lines[1].contains("only echo"), "{called}");
    assert!(lines[2].contains("no tool is called"), "{called}");
    let judged = of(&events, "call_judged");
    let tools: Vec<&str> = judged.iter().filter_map(|judged| judged["tool"].as_str()).collect();
    assert_eq!(tools, ["mcp__test__echo", "mcp__test__slow"]);
    assert!(log(&place).ends_with("end of input\n"), "it was ended with the task");
}
