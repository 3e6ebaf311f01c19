//! What a seed stands for: which tasks there are, and what befalls them.

use machine::agent::AgentProgram;
use machine::id::TaskId;
use machine::policy::budget::Budget;
use machine::policy::decider::{Decider, DeciderKind};
use machine::policy::permission::{Decide, Policy, Rule, Unattended};
use machine::policy::recovery::Recovery;
use machine::policy::stuck::Limits;
use machine::server::ServerSpec;
use machine::task::{Criterion, DriverSpec, TaskSpec, WorkspaceKind, WorkspaceSpec};
use machine::time::Span;
use serde_json::{Value, json};

use crate::language;
use crate::random::Random;

/// One run's cast and fate.
#[derive(Debug, Clone)]
pub(crate) struct Scenario {
    pub(crate) tasks: Vec<Plan>,
    /// How many things operators do before they bring everything to an end.
    pub(crate) people: u64,
    /// When they begin to.
    pub(crate) horizon: i64,
    /// When the disk is full: from, for how long.
    pub(crate) full: Vec<(i64, i64)>,
    /// When a second process takes a task.
    pub(crate) take_overs: Vec<i64>,
    /// When a process is asked to stop.
    pub(crate) stops: Vec<i64>,
    /// When the clock jumps, and how far.
    pub(crate) jumps: Vec<(i64, i64)>,
    /// Whether somebody listens to events.
    pub(crate) observed: bool,
    /// Whether all work takes the same time and ends well.
    pub(crate) in_step: bool,
}

/// One task.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) id: TaskId,
    pub(crate) spec: TaskSpec,
    pub(crate) attended: bool,
}

impl Scenario {
    /// A scenario with everything in it.
    pub(crate) fn large(seed: u64) -> Scenario {
        let mut random = Random::new(seed, 2);
        let count = 1 + random.below(4);
        let tasks: Vec<Plan> = (1..=count).map(|number| plan(number, 3, &mut random)).collect();
        let tasks = if seed.is_multiple_of(2) { with_servers(tasks) } else { tasks };
        let horizon = random.millis(300, 2500);
        let moments = |odds: u64, random: &mut Random| -> Vec<i64> {
            let times = if random.one_in(odds) { 1 + random.below(2) } else { 0 };
            (0..times).map(|_| random.millis(1, horizon as u64)).collect()
        };
        Scenario {
            tasks,
            people: random.below(14),
            full: moments(4, &mut random)
                .into_iter()
                .map(|at| (at, random.millis(5, 700)))
                .collect(),
            take_overs: moments(4, &mut random),
            stops: moments(6, &mut random),
            jumps: moments(8, &mut random)
                .into_iter()
                .map(|at| (at, jump(random.millis(0, 4000) - 2000)))
                .collect(),
            observed: random.one_in(2),
            in_step: false,
            horizon,
        }
    }

    /// A scenario so short that a crash at each of its points can be tried.
    pub(crate) fn small(seed: u64) -> Scenario {
        let mut random = Random::new(seed, 3);
        let count = 1 + random.below(2);
        let tasks = (1..=count).map(|number| plan(number, 2, &mut random)).collect();
        let mut scenario = Scenario::quiet(with_servers(tasks));
        scenario.people = 1 + random.below(4);
        if random.one_in(4) {
            scenario.full.push((random.millis(1, 200), random.millis(50, 300)));
        }
        if random.one_in(4) {
            scenario.take_overs.push(random.millis(1, 300));
        }
        scenario
    }

    /// One workflow of every kind of step, short enough to be crashed at each of its points.
    pub(crate) fn language(seed: u64) -> Scenario {
        let mut random = Random::new(seed, 6);
        let mut task = plan(1, 2, &mut random);
        task.spec.budget = Budget::default();
        task.spec.driver = workflow_of(language::flow(&mut random, 2));
        Scenario { people: random.below(3), horizon: 900, ..Scenario::quiet(vec![task]) }
    }

    /// A large scenario whose tasks are such workflows.
    pub(crate) fn large_language(seed: u64) -> Scenario {
        let mut scenario = Scenario::large(seed);
        let mut random = Random::new(seed, 7);
        for task in &mut scenario.tasks {
            task.spec.driver = workflow_of(language::flow(&mut random, 2));
        }
        scenario
    }

    /// A coding agent at work, short enough to be crashed at each point of its turns.
    pub(crate) fn agent(seed: u64) -> Scenario {
        let mut random = Random::new(seed, 8);
        let task = with_agent(plan(1, 2, &mut random));
        let (people, attended) = (random.below(4), random.one_in(2));
        let task = Plan { attended, ..task };
        Scenario { people, horizon: 700, ..Scenario::quiet(vec![task]) }
    }

    /// A large scenario whose tasks are such agents.
    pub(crate) fn large_agents(seed: u64) -> Scenario {
        let mut scenario = Scenario::large(seed);
        scenario.tasks = scenario.tasks.into_iter().map(with_agent).collect();
        scenario
    }

    /// Only these tasks; nothing befalls them.
    pub(crate) fn quiet(tasks: Vec<Plan>) -> Scenario {
        Scenario {
            tasks,
            people: 0,
            horizon: 400,
            full: Vec::new(),
            take_overs: Vec::new(),
            stops: Vec::new(),
            jumps: Vec::new(),
            observed: true,
            in_step: false,
        }
    }
}

/// The task with a coding agent in the place of its driver. Nobody else spends anything.
/// Some jumps are those of a clock that is set right, others those of one that was far off, or of a machine that slept.
fn jump(millis: i64) -> i64 {
    if millis % 3 == 0 { millis * 2000 } else { millis }
}

fn with_agent(mut task: Plan) -> Plan {
    let config = json!({ "program": AgentProgram::built_in("claude") });
    task.spec.driver = DriverSpec::new("agent", config);
    task.spec.policy.deciders.clear();
    task
}

fn workflow_of(config: Value) -> DriverSpec {
    DriverSpec::new("workflow", config)
}

/// Gives every third task a server of tools.
fn with_servers(mut tasks: Vec<Plan>) -> Vec<Plan> {
    for plan in tasks.iter_mut().step_by(3) {
        plan.spec.servers.push(ServerSpec {
            name: "s".to_owned(),
            file: "/project/.mcp.json".to_owned(),
            sha256: String::new(),
        });
    }
    tasks
}

/// Scripts repeat themselves and simulated files never change; when that is a circle is held by tests of its own.
fn patient() -> Recovery {
    let stuck = Limits {
        same_failure: 0,
        same_action: 0,
        unchanged_tree: 0,
        cycle: 0,
        same_question: 0,
        same_denied: 0,
    };
    Recovery { stuck, ..Recovery::default() }
}

fn plan(number: u64, turns: u64, random: &mut Random) -> Plan {
    let driver = driver(turns, random, 2);
    let mut spec = TaskSpec {
        budget: budget(random),
        workspace: WorkspaceSpec { kind: None, ..WorkspaceSpec::default() },
        policy: policy(random),
        sandbox: machine::policy::sandbox::SandboxSpec::off(),
        recovery: patient(),
        ..TaskSpec::new(&format!("goal {number}"), driver, "/project")
    };
    for check in 0..random.below(3) {
        spec.acceptance.push(Criterion::Shell {
            command: format!("check {check}"),
            exit: 0,
            stdout: None,
            timeout: Span::seconds(9),
            repeat: 1,
            red_first: false,
        });
    }
    let kinds = [WorkspaceKind::InPlace, WorkspaceKind::Worktree, WorkspaceKind::None];
    spec.workspace.kind = Some(*random.pick(&kinds));
    Plan { id: TaskId(format!("t{number}")), spec, attended: random.one_in(2) }
}

fn budget(random: &mut Random) -> Budget {
    match random.below(12) {
        0 => Budget { max_turns: Some(random.below(3)), ..Budget::default() },
        1 => Budget { max_tool_calls: Some(1 + random.below(4)), ..Budget::default() },
        2 => Budget { max_time: Some(Span(100 + random.below(900))), ..Budget::default() },
        3 => Budget {
            max_consecutive_errors: Some(1),
            max_consecutive_denies: Some(1),
            ..Budget::default()
        },
        _ => Budget::default(),
    }
}

fn policy(random: &mut Random) -> Policy {
    let rule = |tool: &str, decide| Rule { tool: tool.to_owned(), decide, ..Rule::default() };
    let (unattended, deciders) = match random.below(3) {
        0 => (Unattended::Deny, Vec::new()),
        1 => (Unattended::Escalate, deciders(random)),
        _ => (Unattended::Wait, Vec::new()),
    };
    let rules = match random.below(6) {
        0 => vec![rule("shell", Decide::Ask)],
        1 => vec![rule("write", Decide::Ask), rule("shell", Decide::Allow)],
        2 => vec![rule("edit", Decide::Deny)],
        _ => Vec::new(),
    };
    Policy { rules, unattended, deciders, ..Policy::default() }
}

/// A chain of any length: models, and at its end perhaps a person with or without patience.
fn deciders(random: &mut Random) -> Vec<Decider> {
    let mut deciders = Vec::new();
    for n in 0..random.below(3) {
        let model = DeciderKind::Model { model: "sim/model".to_owned(), rubric: "r".to_owned() };
        let kind = if random.one_in(3) { DeciderKind::Person } else { model };
        let timeout = random.one_in(2).then(|| Span(50 + random.below(500)));
        deciders.push(Decider { name: format!("d{n}"), kind, timeout });
    }
    deciders
}

/// A driver of any kind; composites have scripted children.
pub(crate) fn driver(turns: u64, random: &mut Random, depth: u32) -> DriverSpec {
    let kind = if depth == 0 { 0 } else { random.below(12) };
    let child = |random: &mut Random| {
        let spec = driver(turns.min(2), random, depth.saturating_sub(1));
        json!({ "driver": spec.name, "config": spec.config })
    };
    let (name, config) = match kind {
        5 => ("workflow", workflow(random)),
        6 => ("state_machine", state_machine(random)),
        7 => ("sequence", json!({ "drivers": [child(random), child(random)] })),
        8 => match random.below(3) {
            0 => ("fallback", json!({ "drivers": [child(random), child(random)] })),
            1 => ("retry", json!({ "driver": child(random), "limit": 2, "backoff": "200ms" })),
            _ => ("until_accepted", json!({ "driver": child(random) })),
        },
        9 => ("race", json!({ "drivers": [child(random), child(random)] })),
        10 => ("user", json!({})),
        11 if random.below(2) == 0 => ("llm", json!({ "model": "sim/model" })),
        11 => ("external:sim", json!({ "plugin": { "name": "sim", "command": ["sim"] } })),
        _ => ("scripted", scripted(turns, random)),
    };
    DriverSpec::new(name, config)
}

fn scripted(turns: u64, random: &mut Random) -> Value {
    let count = random.below(turns + 1);
    let turns: Vec<Vec<Value>> = (0..count)
        .map(|_| (0..1 + random.below(3)).map(|_| call("input", random)).collect())
        .collect();
    let end = *random.pick(&["claim", "claim", "claim", "give_up", "wait_for_person"]);
    let author = *random.pick(&["operator", "operator", "worker"]);
    json!({ "turns": turns, "repeat": random.below(2), "end": end, "author": author })
}

fn call(parameters: &str, random: &mut Random) -> Value {
    let (tool, input) = match random.below(10) {
        0..4 => ("shell", json!({ "command": format!("command {}", random.below(100)) })),
        4 | 5 => ("write", json!({ "path": "out", "content": "text" })),
        6 => ("edit", json!({ "path": "out", "old": "a", "new": "b" })),
        7 => ("ask", json!({ "question": "what now?" })),
        _ => ("read", json!({ "path": "in" })),
    };
    json!({ "tool": tool, parameters: input })
}

fn workflow(random: &mut Random) -> Value {
    let steps: Vec<Value> = (0..1 + random.below(4))
        .map(|number| {
            let mut step = call("parameters", random);
            step["name"] = json!(format!("step-{number}"));
            match random.below(3) {
                0 => step["on_error"] = json!("skip"),
                1 => step["on_error"] = json!("retry"),
                _ => {}
            }
            step
        })
        .collect();
    json!({ "name": "row", "steps": steps })
}

fn state_machine(random: &mut Random) -> Value {
    let branch = |name: &str, random: &mut Random| {
        let mut call = call("parameters", random);
        call["name"] = json!(name);
        call
    };
    json!({ "initial": "try", "states": {
        "try": { "action": call("parameters", random), "transitions": [
            { "to": "both", "when": "ok" },
            { "to": "try", "when": "error", "max": 2 },
        ]},
        "both": {
            "parallel": [branch("left", random), branch("right", random)],
            "join": "any",
            "transitions": [{ "to": "done", "when": "ok" }, { "to": "lost" }],
        },
        "done": { "terminal": true },
        "lost": { "terminal": true, "outcome": "failed" },
    }})
}

/// A scripted task of so many turns with one call each.
pub(crate) fn steady(number: u64, turns: u64) -> Plan {
    let call = json!({ "tool": "shell", "input": { "command": "step" } });
    let turns: Vec<Vec<Value>> = (0..turns).map(|_| vec![call.clone()]).collect();
    Plan {
        id: TaskId(format!("t{number}")),
        spec: TaskSpec {
            workspace: WorkspaceSpec {
                kind: Some(WorkspaceKind::None),
                ..WorkspaceSpec::default()
            },
            sandbox: machine::policy::sandbox::SandboxSpec::off(),
            ..TaskSpec::new(
                "steady",
                DriverSpec::new("scripted", json!({ "turns": turns })),
                "/project",
            )
        },
        attended: false,
    }
}
