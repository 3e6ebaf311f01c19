//! Workers that use tools while they decide: the example plugin, a client over standard input and output, and what the
//! journal says of it.

use std::path::Path;

use serde_json::{Value, json};

use crate::environment::TestEnvironment;

/// A project whose driver `asker` runs this body inside `decide`, with `gate` connected, and answers with what it
/// returns.
fn project(body: &str, policy: &str) -> TestEnvironment {
    let place = TestEnvironment::new();
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/drivers/asker.py");
    let text = std::fs::read_to_string(example).unwrap();
    let (head, rest) = text.split_once("def decide(config):").unwrap();
    let (_, tail) = rest.split_once("\n\n\ndef main").unwrap();
    let body = body.replace('\n', "\n    ");
    let text =
        format!("{head}def decide(config):\n    gate = Gate()\n    {body}\n\n\ndef main{tail}");
    place.write("asker.py", &text);
    place.write(
        ".drivetrain/drivers/asker.toml",
        // Wherever this is built, the folder of the program may be hidden from a plugin that does not ask for it.
        &format!(
            "[driver]\nname = \"asker\"\ncommand = [\"python3\", \"asker.py\"]\ntimeout = \"3s\"\n\
             workspace = \"write\"\nread = [{:?}]\n",
            Path::new(env!("CARGO_BIN_EXE_drivetrain")).parent().unwrap()
        ),
    );
    place.write(".drivetrain/policy.toml", policy);
    place.trust();
    place.write(
        "task.toml",
        "[task]\ngoal = \"use tools\"\ndriver = \"external:asker\"\n[workspace]\nkind = \"in_place\"\n",
    );
    place
}

const ALLOW: &str = "[[rule]]\ntool = \"shell\"\ndecide = \"allow\"\n";

fn run(place: &TestEnvironment) -> (i32, Vec<Value>) {
    let ran = place.run(&["run", "task.toml", "--json"]);
    let events = ran.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    (ran.code, events)
}

fn of<'a>(events: &'a [Value], kind: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["type"] == kind).collect()
}

#[test]
fn the_example_uses_tools_while_it_decides_and_is_verified() {
    let place = TestEnvironment::new();
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/drivers");
    for file in ["asker.py", "asker.task.toml", ".drivetrain/drivers/asker.toml"] {
        place.write(file, &std::fs::read_to_string(examples.join(file)).unwrap());
    }
    place.write("numbers.txt", "1\n2\n3\n");
    let ran = place.run(&["run", "asker.task.toml"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert_eq!(place.read("numbers.txt.count"), "3\n");
}

#[test]
fn a_call_through_the_gate_is_judged_journaled_and_answered() {
    let body = "first = gate.call('shell', command='echo made > made.txt; echo out')\n\
                second = gate.call('write', path='said.json', content=json.dumps(first))\n\
                return {'decision': 'claim', 'summary': ''}";
    let place = project(body, ALLOW);
    let (code, events) = run(&place);
    assert_eq!(code, 0, "{events:#?}");
    assert_eq!(place.read("said.json"), "[\"ok\", \"out\\n\"]");
    assert_eq!(of(&events, "tool_started").len(), 2);
    assert!(place.read("made.txt").contains("made"));

    // Nobody attends and a rule wants somebody to be asked.
    let place = project(body, "[[rule]]\ntool = \"shell\"\ndecide = \"ask\"\n");
    let (_, events) = run(&place);
    assert_eq!(of(&events, "tool_ended")[0]["result"]["status"], "denied", "{events:#?}");
    assert_eq!(place.read("made.txt"), "");
    assert!(place.read("said.json").contains("denied"));
}

#[test]
fn a_plugins_time_does_not_run_while_it_waits_for_a_tool() {
    let body = "gate.call('shell', command='sleep 4')\n\
                return {'decision': 'claim', 'summary': ''}";
    let (code, events) = run(&project(body, ALLOW));
    assert_eq!(code, 0, "{events:#?}");
}

#[test]
fn any_client_of_the_protocol_can_be_pointed_at_the_gate() {
    let cli = env!("CARGO_BIN_EXE_drivetrain");
    let lines = [
        json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize",
            "params": { "protocolVersion": "2025-11-25", "capabilities": {} } }),
        json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call",
            "params": { "name": "shell", "arguments": { "command": "echo hello" } } }),
    ];
    let input: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let body = format!(
        "import subprocess\n\
         out = subprocess.run([{cli:?}, 'gate', '--stdio'], input={input:?}, capture_output=True, text=True).stdout\n\
         gate.call('write', path='out.txt', content=out)\n\
         return {{'decision': 'claim', 'summary': ''}}"
    );
    let place = project(&body, ALLOW);
    let (code, events) = run(&place);
    assert_eq!(code, 0, "{events:#?}");
    let out = place.read("out.txt");
    let answers: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(answers[0]["result"]["protocolVersion"], "2025-11-25");
    assert_eq!(answers[1]["result"]["content"][0]["text"], "hello\n");

    let ran = place.run(&["gate", "--stdio"]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("DRIVETRAIN_GATE is not set"), "{}", ran.err);
}

#[test]
fn the_token_is_nowhere_but_in_the_workers_environment() {
    let body = "print(os.environ['DRIVETRAIN_GATE_TOKEN'], file=sys.stderr)\n\
                gate.call('shell', command='env > env.txt')\n\
                open('token.txt', 'w').write(os.environ['DRIVETRAIN_GATE_TOKEN'])\n\
                sys.stderr.flush()\nos._exit(3)";
    let place = project(body, ALLOW);
    let (code, _) = run(&place);
    assert_eq!(code, 10);
    let token = place.read("token.txt");
    assert_eq!(token.len(), 64);
    assert!(!place.read("env.txt").contains("DRIVETRAIN_GATE"), "a tool sees the gate");
    let mut folders = vec![place.home()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            if entry.path().is_dir() {
                folders.push(entry.path());
            } else {
                let bytes = std::fs::read(entry.path()).unwrap();
                let shown = bytes.windows(64).any(|window| window == token.as_bytes());
                assert!(!shown, "{}", entry.path().display());
            }
        }
    }
}
