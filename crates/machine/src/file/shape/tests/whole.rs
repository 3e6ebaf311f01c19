//! For each kind of file, texts that load and together hold every key that there is.

use crate::file::shape::FileKind;

/// The files.
pub(super) fn files() -> Vec<(FileKind, &'static [&'static str])> {
    vec![
        (FileKind::Task, &TASKS),
        (FileKind::Workflow, &WORKFLOWS),
        (FileKind::Prompt, &PROMPTS),
        (FileKind::Policy, &POLICIES),
        (FileKind::Agent, &AGENTS),
        (FileKind::Servers, &SERVERS),
        (FileKind::Driver, &DRIVERS),
        (FileKind::Validators, &VALIDATORS),
    ]
}

const TASKS: [&str; 7] = [
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
    "goal = \"x\"\ndriver = \"workflow\"\n[driver_config]\nmax_steps = 3\n[[driver_config.steps]]\nname = \"a\"\nprompt = \"x\"\n",
    "goal = \"x\"\ndriver = \"state_machine\"\n[driver_config]\nworkflow = \"w\"\n",
    "goal = \"x\"\n[machine]\ninitial = \"a\"\n[machine.states.a]\nterminal = true\n",
];

const WORKFLOWS: [&str; 5] = [
    r#"
[workflow]
name = "w"
description = "all of it"
version = "1"
[workflow.limits]
max_steps = 10
token_budget = 1000
timeout_seconds = 60
[workflow.budget]
max_turns = 3
max_time = "30m"
max_tokens = 200000
max_usd = 2.5
max_tool_calls = 200
max_consecutive_denies = 3
max_consecutive_errors = 0
max_context_overflows = 2
[[workflow.acceptance]]
shell = "make"
[workflow.llm]
model = "script/x"
temperature = 0.5
system_prompt = "Be brief."
[workflow.inputs.deep]
type = "string"
default = "x"
description = "how deep"
choices = ["x", "y"]
[workflow.outputs]
said = "steps.ask.text"
[[workflow.steps]]
name = "test"
type = "tool"
tool = "shell"
parameters = { command = "make" }
timeout = "30s"
on_error = { action = "goto", target = "ask" }
max_retries = 2
[[workflow.steps]]
name = "again"
tool = "shell"
parameters = { command = "make" }
on_error = "retry"
max_retries = 2
backoff = "2s"
on_exhausted = "skip"
then = "ask"
max_visits = 3
[[workflow.steps]]
name = "ask"
when = "inputs.deep == 'x'"
tool = "llm.ask"
prompt = "Why?"
input_from = "test"
tools = ["read"]
model = "script/x"
temperature = 1
system_prompt = "Be brief."
schema = { type = ["object", "null"], title = "x", description = "x", default = {}, "$schema" = "x", required = ["a"], additionalProperties = false, properties = { a = { enum = ["x"] }, b = { const = "x" }, c = { type = "number", minimum = -1, maximum = 1.5 }, d = { minLength = 1, maxLength = 2 }, e = { minItems = 1, maxItems = 2, items = { type = "string" } } } }
driver_config = {}
[[workflow.steps]]
name = "work"
agent = "claude"
prompt = "Mend it."
input_from = "test"
model = "x"
driver_config = { agent = "claude" }
[[workflow.steps]]
name = "person"
ask = "Which?"
choices = ["a", "b"]
timeout = "1h"
on_timeout = "skip"
[[workflow.steps]]
name = "leave"
approve = "it"
timeout = "1h"
on_timeout = "deny"
[[workflow.steps]]
name = "called"
workflow = "@workflows/test"
inputs = { deep = true }
[[workflow.steps]]
name = "each"
foreach = "[1, 2]"
as = "one"
max_parallel = 2
join = "all"
steps = [{ name = "x", prompt = "{{ one }}" }]
[[workflow.steps]]
name = "both"
join = "any"
parallel = { unit = [{ name = "x", prompt = "x" }] }
[[workflow.steps]]
name = "other"
driver = "user"
driver_config = {}
prompt = "x"
input_from = "test"
[[workflow.steps]]
name = "task"
type = "task"
[workflow.steps.task]
goal = "g"
model = "script/x"
driver_config = {}
checks = ["make"]
acceptance = [{ kind = "shell", command = "make" }]
budget = { max_turns = 3 }
brought = {}
[[workflow.steps]]
name = "inner"
task = { goal = "g", workflow = { steps = [{ name = "x", prompt = "x" }] }, inputs = {} }
"#,
    r#"
[workflow]
initial = "a"
[[workflow.states]]
name = "a"
type = "tool"
tool = "shell"
parameters = { command = "make" }
on_entry = [{ name = "in", prompt = "x" }]
on_exit = [{ name = "out", prompt = "x" }]
transitions = [{ to = "row", when = "result.ok", max = 3 }, { to = "ask" }]
choose = { prompt = "Which?", model = "script/x", fallback = "ask", driver_config = {} }
[[workflow.states]]
name = "row"
steps = [{ name = "x", prompt = "x" }]
transitions = [{ to = "ask" }]
[[workflow.states]]
name = "ask"
prompt = "x"
transitions = [{ to = "work" }]
[[workflow.states]]
name = "work"
agent = "claude"
transitions = [{ to = "which" }]
[[workflow.states]]
name = "which"
ask = "Which?"
transitions = [{ to = "leave" }]
[[workflow.states]]
name = "leave"
approve = "it"
transitions = [{ to = "called" }]
[[workflow.states]]
name = "called"
workflow = { name = "inner", max_steps = 3, timeout = "5m", steps = [{ name = "x", prompt = "x" }], inputs = {}, given = {}, outputs = {}, llm = {}, facts = {}, prompts = [], files = [] }
transitions = [{ to = "each" }]
[[workflow.states]]
name = "each"
foreach = "[1]"
steps = [{ name = "x", prompt = "x" }]
transitions = [{ to = "both" }]
[[workflow.states]]
name = "both"
parallel = { unit = [{ name = "x", prompt = "x" }] }
transitions = [{ to = "other" }]
[[workflow.states]]
name = "other"
driver = "user"
transitions = [{ to = "task" }]
[[workflow.states]]
name = "task"
task = { goal = "g", agent = "claude" }
transitions = [{ to = "end" }]
[[workflow.states]]
name = "end"
terminal = true
outcome = "failed"
"#,
    r#"
[machine]
name = "m"
description = "a machine"
initial = "a"
[machine.states.a]
action = { tool = "shell", parameters = { command = "make" }, timeout = "30s" }
on_entry = [{ tool = "shell", parameters = { command = "make" }, timeout = "30s", on_error = "skip" }]
on_exit = [{ tool = "shell", parameters = { command = "make" } }]
transitions = [{ to = "b", when = "ok", max = 3 }, { to = "c", when = { contains = "x" } }, { to = "c", when = { and = ["error", { exit = 3, status = "timed_out", empty = false }], not = { or = [{ ok = true, error = false }, { count = { edge = "a -> b", less_than = 3 } }] } } }, { to = "c", when = { count = { at_least = 2 } } }, { to = "b" }]
[machine.states.b]
parallel = [{ name = "unit", tool = "shell", parameters = { command = "make" }, timeout = "30s" }]
join = "all"
transitions = [{ to = "c" }]
[machine.states.c]
machine = { initial = "x", states = { x = { terminal = true } } }
transitions = [{ to = "end" }]
[machine.states.end]
terminal = true
outcome = "failed"
"#,
    "[[machine.states]]\nname = \"a\"\naction = { tool = \"shell\", parameters = { command = \"make\" } }\n\
     transitions = [{ to = \"b\", when = \"ok\" }, { to = \"b\" }]\n[[machine.states]]\nname = \"b\"\nterminal = true\n",
    "[[workflow.states]]\nname = \"a\"\naction = { tool = \"shell\", parameters = { command = \"make\" } }\n\
     transitions = [{ to = \"b\" }]\n[[workflow.states]]\nname = \"b\"\nterminal = true\n",
];

const PROMPTS: [&str; 1] = [r#"
[meta]
name = "review"
version = "1.2"
description = "How we review"
[prompt]
text = "Review {{ inputs.file }}."
[prompt.inputs.file]
type = "string"
default = "all of it"
description = "which"
"#];

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

const AGENTS: [&str; 5] = [
    r#"
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
gateway = true
any_version = true
"#,
    r#"
[agent]
name = "careful"
description = "looks first"
model = "script/x"
prompt = "Be brief."
[agent.tools]
enabled = ["read", "edit"]
disabled = ["shell"]
[agent.context]
include_diagnostics = true
include_memory = true
peek_first = true
"#,
    "[agent]\nname = \"x\"\nprogram = \"claude\"\n",
    "[agent]\nname = \"x\"\ndriver = \"user\"\n",
    "[agent]\nname = \"x\"\nworkflow = \"@workflows/test\"\n",
];

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
[server.tasks.dispatch]
agents = ["codex"]
models = ["anthropic/NAME"]
checks = ["cargo test"]
profile = "dev"
max_tasks = 4
max_usd = 2.5
max_tokens = 1000
max_turns = 30
max_time = "1h"
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
