//! For each kind of file, texts that load and together hold every key that there is.

use crate::file::shape::FileKind;

/// The files.
pub(super) fn files() -> Vec<(FileKind, &'static [&'static str])> {
    vec![
        (FileKind::Task, &TASKS),
        (FileKind::Policy, &POLICIES),
        (FileKind::Agent, &AGENTS),
        (FileKind::Servers, &SERVERS),
        (FileKind::Driver, &DRIVERS),
        (FileKind::Validators, &VALIDATORS),
    ]
}

const TASKS: [&str; 5] = [
    r#"
[task]
goal = "make the numbers add up"
driver = "agent"
red_first = true
[task.driver_config]
agent = "claude"
model = "x"
idle = "5m"
[budget]
max_turns = 40
max_time = "30m"
max_tokens = 200000
max_usd = 2.5
max_tool_calls = 200
max_consecutive_denies = 3
max_consecutive_errors = 0
max_context_overflows = 2
[[acceptance]]
kind = "shell"
command = "cargo test"
[workspace]
kind = "worktree"
protect = ["tests/**", "!tests/new/**"]
protect_framework = true
setup = ["make deps"]
share = ["target"]
checkpoints = "turns"
[sandbox]
level = "reduced"
network = ["crates.io"]
read = ["~/data"]
write = ["/srv/out"]
processes = 64
memory = "8G"
file_size = 1024
open_files = 100
cpu_time = "5m"
[retry]
verdict_failed = ["next_turn", "fresh_session"]
model_failed = { do = ["next_turn"], most = 3 }
rate_limited = ["next_turn"]
overloaded = ["next_turn"]
auth = ["escalate"]
context_overflow = ["fresh_session"]
refusal = ["hand_over:strong", "give_up"]
bad_reply = ["next_turn"]
tool_errors = { do = ["rollback"], most = 2, after = 3 }
timed_out = ["next_turn"]
denied = ["escalate"]
worker_died = ["next_turn"]
gave_up = ["give_up"]
no_progress = ["give_up"]
attempts = 3
longest_wait = "10m"
max_wasted = 1000
[retry.drivers.strong]
driver = "agent"
driver_config = { agent = "codex" }
[stuck]
same_failure = 3
same_action = 3
unchanged_tree = 3
cycle = 3
same_question = 3
same_denied = 3
[progress]
every = 10
"#,
    r#"
goal = "x"
[[acceptance]]
kind = "shell"
command = "make"
exit = 1
stdout = "a+"
timeout = "90s"
repeat = 5
red_first = true
[[acceptance]]
shell = "make"
expect_exit = 2
[[acceptance]]
shell = { command = "make", exit = 2 }
[[acceptance]]
kind = "file"
path = "a.txt"
pattern = "b"
forbidden = true
[[acceptance]]
file = "a.txt"
regex = "b"
required = true
[[acceptance]]
file_match = "a.txt"
regex = "b"
[[acceptance]]
file_match = { path = "a.txt", regex = "b" }
[[acceptance]]
file = { path = "a.txt" }
"#,
    r#"
goal = "x"
[[acceptance]]
kind = "judge"
model = "script/j"
rubric = "short"
decides = true
[[acceptance]]
judge = "short"
model = "script/j"
[[acceptance]]
judge = { model = "script/j", rubric_file = "rubric.md" }
[[acceptance]]
kind = "judge"
model = "script/j"
rubric_file = "rubric.md"
[[acceptance]]
kind = "custom"
name = "plugin:sizes"
config = { most = 3 }
[[acceptance]]
custom = "plugin:sizes"
[[acceptance]]
custom = { name = "git_clean" }
[[acceptance]]
custom = "git_clean"
[[acceptance]]
kind = "custom"
name = "git_clean"
[[acceptance]]
kind = "custom"
name = "no_paths_touched"
paths = ["tests/**"]
[[acceptance]]
custom = "only_paths_touched"
paths = ["src/**"]
[[acceptance]]
custom = { name = "max_diff_lines", lines = 10 }
[[acceptance]]
custom = "max_diff_lines"
lines = 3
[[acceptance]]
kind = "custom"
name = "tests_not_fewer"
command = "make test"
timeout = "5m"
[[acceptance]]
custom = { name = "tests_not_fewer", command = "make test" }
[[acceptance]]
custom = { name = "plugin:x", config = 3 }
"#,
    "goal = \"x\"\n[[workflow.steps]]\nname = \"a\"\ntool = \"shell\"\nparameters = { command = \"true\" }\n",
    "goal = \"x\"\n[machine]\ninitial = \"a\"\n[machine.states.a]\nterminal = true\n",
];

const POLICIES: [&str; 2] = [
    r#"
profile = "dev"
unattended = "escalate"
[[decider]]
name = "careful"
kind = "model"
model = "script/judge.toml"
rubric = "Tests may run."
timeout = "20s"
[[decider]]
kind = "program"
command = ["./judge", "-q"]
env = { LEVEL = "2" }
[[decider]]
kind = "person"
[sandbox]
level = "full"
network = "loopback"
read = ["~/data"]
write = ["/srv/out"]
processes = 64
memory = "8G"
file_size = 1024
open_files = 100
cpu_time = "5m"
"#,
    r#"
[[rule]]
tool = "shell"
command = ["git push", "npm publish"]
decide = "deny"
reason = "a person publishes"
attended = false
allow = "ls"
ask = ["cat x"]
deny = ["git push origin"]
[[rule]]
path = "docs/**"
access = "write"
decide = "allow"
[[rule]]
host = "*.example.com"
decide = "allow"
driver = ["agent", "external:mine"]
[[rule]]
command = "make"
driver = "llm"
decide = "ask"
"#,
];

const AGENTS: [&str; 1] = [r#"
[agent]
name = "zed-claude"
protocol = "acp"
command = ["claude-agent-acp", "--quiet"]
pass = ["LANG"]
keys = ["ANTHROPIC_API_KEY"]
env = { CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC = "1" }
hosts = ["api.anthropic.com"]
mode = "default"
model = "sonnet"
model_flag = "--model"
asking_modes = ["default", "plan"]
quirks = ["stale_after_cancel", "outlives_input"]
idle = "5m"
"#];

const SERVERS: [&str; 1] = [r#"
[server.files]
command = ["npx", "-y", "files"]
env = { A = "${A}" }
timeout = "5s"
start_timeout = "2s"
trust_annotations = true
tools = ["x"]
disabled = true
network = "none"
read = ["~/data"]
write = ["/srv/out"]
workspace = "read"
[server.web]
url = "https://example.org/mcp"
headers = { Authorization = "Bearer ${T}" }
"#];

const DRIVERS: [&str; 1] = [r#"
[driver]
name = "mine"
command = ["python3", "x.py"]
timeout = "30s"
env = { A = "b" }
network = ["crates.io"]
read = ["~/data"]
write = ["/srv/out"]
workspace = "write"
"#];

const VALIDATORS: [&str; 1] =
    ["[[check]]\nname = \"lint\"\ncommand = \"make lint\"\ntimeout = \"90s\"\n"];
