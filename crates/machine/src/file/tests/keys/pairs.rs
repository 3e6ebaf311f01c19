//! The pairs: two files that differ in one key each.

use serde_json::{Value, json};

/// Two files that differ in one key.
pub(super) struct Pair {
    /// The table and the key.
    pub(super) key: &'static str,
    /// The file without it, or with another value.
    pub(super) without: Value,
    /// The file with it.
    pub(super) with: Value,
    /// What happens to it.
    pub(super) script: &'static [&'static str],
}

fn pair(key: &'static str, without: Value, with: Value, script: &'static [&'static str]) -> Pair {
    Pair { key, without, with, script }
}

/// The same table with these keys beside its own; null takes a key out.
fn and(table: &Value, more: Value) -> Value {
    let mut table = table.clone();
    for (key, value) in more.as_object().unwrap() {
        if value.is_null() {
            table.as_object_mut().unwrap().remove(key);
        } else {
            table[key] = value.clone();
        }
    }
    table
}

fn sh(name: &str, command: &str) -> Value {
    json!({ "name": name, "tool": "shell", "parameters": { "command": command } })
}

fn row(steps: &[Value]) -> Value {
    json!({ "name": "w", "llm": { "model": "script/x" }, "steps": steps })
}

/// A row of one step, and one that tells how it stands.
fn one(step: &Value) -> Value {
    row(&[step.clone(), sh("tell", "{{ steps.a.status }} {{ steps.a.text }}")])
}

/// Two workflows whose first step differs.
fn step(key: &'static str, plain: Value, keyed: Value, script: &'static [&'static str]) -> Pair {
    pair(key, one(&plain), one(&keyed), script)
}

/// A step with a key and without it.
fn adds(key: &'static str, plain: Value, more: Value, script: &'static [&'static str]) -> Pair {
    let keyed = and(&plain, more);
    step(key, plain, keyed, script)
}

/// States with `more` in the first of them.
fn states(more: Value) -> Value {
    let first = and(&sh("a", "x"), json!({ "transitions": [{ "to": "b" }, { "to": "c" }] }));
    json!({ "name": "w", "llm": { "model": "script/x" }, "states": [
        and(&first, more),
        { "name": "b", "terminal": true },
        { "name": "c", "terminal": true, "outcome": "failed" },
    ] })
}

fn state(key: &'static str, plain: Value, keyed: Value, script: &'static [&'static str]) -> Pair {
    pair(key, states(plain), states(keyed), script)
}

pub(super) fn of_workflows() -> Vec<Pair> {
    let mut pairs = steps();
    pairs.extend(kinds());
    pairs.extend(answers());
    pairs.extend(tasks());
    pairs.extend(whole());
    pairs
}

/// Keys of every step and every state.
fn steps() -> Vec<Pair> {
    let a = sh("a", "x");
    let fails = &["a: 1 no", "a: 1 no", "a: 1 no", "a: 1 no", "a: 1 no"];
    let retry = and(&a, json!({ "on_error": "retry" }));
    let enter = json!([sh("enter", "e")]);
    let choose = json!({ "prompt": "which?", "fallback": "c" });
    vec![
        pair("step.name", row(&[sh("a", "x")]), row(&[sh("b", "x")]), &[]),
        adds("step.when", a.clone(), json!({ "when": "1 > 2" }), &[]),
        adds("step.timeout", json!({ "name": "a", "ask": "q" }), json!({ "timeout": "1s" }), &[]),
        adds("step.on_error", a.clone(), json!({ "on_error": "skip" }), fails),
        adds("step.max_retries", retry.clone(), json!({ "max_retries": 1 }), fails),
        adds("step.backoff", retry.clone(), json!({ "backoff": "2s" }), fails),
        adds("step.on_exhausted", retry, json!({ "on_exhausted": "skip" }), fails),
        adds("step.then", a.clone(), json!({ "then": "end" }), &[]),
        adds("step.max_visits", and(&a, json!({ "then": "a" })), json!({ "max_visits": 2 }), &[]),
        adds("step.type", a, json!({ "type": "agent" }), &[]),
        state("state.on_entry", json!({}), json!({ "on_entry": enter }), &[]),
        state("state.on_exit", json!({}), json!({ "on_exit": enter }), &[]),
        state(
            "state.transitions",
            json!({}),
            json!({ "transitions": [{ "to": "c" }, { "to": "b" }] }),
            &[],
        ),
        state("state.choose", json!({}), json!({ "choose": choose }), &["model: c"]),
        state(
            "state.terminal",
            json!({}),
            json!({ "terminal": true, "transitions": null, "tool": null, "parameters": null }),
            &[],
        ),
        pair(
            "state.outcome",
            states(json!({ "transitions": [{ "to": "b", "when": "1 > 2" }, { "to": "c" }] })),
            {
                let mut other = states(
                    json!({ "transitions": [{ "to": "b", "when": "1 > 2" }, { "to": "c" }] }),
                );
                other["states"][2]["outcome"] = json!("completed");
                other
            },
            &[],
        ),
        state(
            "transition.to",
            json!({}),
            json!({ "transitions": [{ "to": "c" }, { "to": "b" }] }),
            &[],
        ),
        state(
            "transition.when",
            json!({}),
            json!({ "transitions": [{ "to": "b", "when": "result.failed" }, { "to": "c" }] }),
            &[],
        ),
        state(
            "transition.max",
            json!({ "transitions": [{ "to": "a", "when": "visits.a < 4" }, { "to": "b" }, { "to": "c" }] }),
            json!({ "transitions": [{ "to": "a", "when": "visits.a < 4", "max": 1 }, { "to": "b" }, { "to": "c" }] }),
            &[],
        ),
        state(
            "choose.prompt",
            json!({ "choose": choose }),
            json!({ "choose": and(&choose, json!({ "prompt": "well?" })) }),
            &["model: c"],
        ),
        state(
            "choose.model",
            json!({ "choose": choose }),
            json!({ "choose": and(&choose, json!({ "model": "script/y" })) }),
            &["model: c"],
        ),
        state(
            "choose.fallback",
            json!({ "choose": choose }),
            json!({ "choose": and(&choose, json!({ "fallback": "b" })) }),
            &["model: nonsense"],
        ),
        state(
            "choose.driver_config",
            json!({ "choose": choose }),
            json!({ "choose": and(&choose, json!({ "driver_config": { "system": "be brief" } })) }),
            &["model: c"],
        ),
        pair(
            "steps.steps",
            states(json!({ "tool": null, "parameters": null, "steps": [sh("in", "x")] })),
            states(json!({ "tool": null, "parameters": null, "steps": [sh("in", "y")] })),
            &[],
        ),
        adds("goto.action", sh("a", "x"), json!({ "on_error": { "action": "skip" } }), &["a: 1"]),
        pair(
            "goto.target",
            row(&[
                sh("b", "y"),
                and(
                    &sh("a", "x"),
                    json!({ "on_error": { "action": "goto", "target": "b" }, "max_retries": 1 }),
                ),
            ]),
            row(&[
                sh("b", "y"),
                and(
                    &sh("a", "x"),
                    json!({ "on_error": { "action": "goto", "target": "a" }, "max_retries": 1 }),
                ),
            ]),
            &["a: 1"],
        ),
    ]
}

/// Keys of each kind of step.
fn kinds() -> Vec<Pair> {
    let model = json!({ "name": "a", "type": "llm", "prompt": "q" });
    let program =
        json!({ "program": { "name": "x", "protocol": "acp", "command": ["x"], "operator": "k" } });
    let agent = json!({ "name": "a", "agent": "x", "prompt": "q", "driver_config": program });
    let ask = json!({ "name": "a", "ask": "q" });
    let approve = json!({ "name": "a", "approve": "q" });
    let each = json!({ "name": "a", "foreach": "[1, 2]", "steps": [sh("in", "{{ loop.index }}")] });
    let both = json!({ "name": "a", "parallel": { "x": [sh("x", "x")], "y": [sh("y", "y")] } });
    let user = json!({ "name": "a", "driver": "user", "prompt": "q" });
    let said = |step: &Value| row(&[sh("look", "ls"), step.clone()]);
    let takes = |key, step: Value, more: Value, script| {
        pair(key, said(&step), said(&and(&step, more)), script)
    };
    let call = json!({ "name": "a", "workflow": "@workflows/test", "inputs": { "deep": true } });
    vec![
        adds("tool.tool", sh("a", "x"), json!({ "tool": "shel" }), &[]),
        step("tool.parameters", sh("a", "x"), sh("a", "y"), &[]),
        takes(
            "tool.input_from",
            json!({ "name": "a", "tool": "write", "parameters": { "path": "p", "content": "c" } }),
            json!({ "parameters": { "path": "p" }, "input_from": "look" }),
            &["look: ok it"],
        ),
        adds("llm.prompt", model.clone(), json!({ "prompt": "r" }), &["model: t"]),
        step(
            "llm.tool",
            json!({ "name": "a", "prompt": "q", "tool": "shell" }),
            json!({ "name": "a", "prompt": "q", "tool": "llm.say" }),
            &["model: t"],
        ),
        takes(
            "llm.input_from",
            model.clone(),
            json!({ "input_from": "look" }),
            &["look: ok it", "model: t"],
        ),
        adds("llm.tools", model.clone(), json!({ "tools": ["nonsense"] }), &["model: t"]),
        adds("llm.model", model.clone(), json!({ "model": "script/y" }), &["model: t"]),
        adds("llm.temperature", model.clone(), json!({ "temperature": 0.5 }), &["model: t"]),
        adds(
            "llm.system_prompt",
            model.clone(),
            json!({ "system_prompt": "Be brief." }),
            &["model: t"],
        ),
        adds(
            "llm.schema",
            model.clone(),
            json!({ "schema": { "type": "integer" } }),
            &["model: t", "model: t", "model: t"],
        ),
        adds(
            "llm.driver_config",
            model,
            json!({ "driver_config": { "system": "Be brief." } }),
            &["model: t"],
        ),
        adds("agent.agent", agent.clone(), json!({ "agent": 3 }), &[]),
        adds("agent.prompt", agent.clone(), json!({ "prompt": "r" }), &[]),
        takes("agent.input_from", agent.clone(), json!({ "input_from": "look" }), &["look: ok it"]),
        adds(
            "agent.model",
            and(&agent, json!({ "driver_config": null })),
            json!({ "model": "y" }),
            &[],
        ),
        adds("agent.driver_config", agent, json!({ "driver_config": null }), &[]),
        adds("ask.ask", ask.clone(), json!({ "ask": "r" }), &["person: b"]),
        adds("ask.choices", ask.clone(), json!({ "choices": ["b", "c"] }), &["person: b"]),
        adds(
            "ask.on_timeout",
            and(&ask, json!({ "timeout": "1s" })),
            json!({ "on_timeout": "skip" }),
            &["person: …"],
        ),
        adds("approve.approve", approve.clone(), json!({ "approve": "r" }), &["person: yes"]),
        adds(
            "approve.on_timeout",
            and(&approve, json!({ "timeout": "1s", "on_error": "skip" })),
            json!({ "on_timeout": "deny" }),
            &["person: …"],
        ),
        adds(
            "workflow.workflow",
            call.clone(),
            json!({ "workflow": { "steps": [sh("in", "y")], "inputs": { "deep": { "type": "boolean" } } } }),
            &[],
        ),
        adds("workflow.inputs", call, json!({ "inputs": null }), &[]),
        adds("foreach.foreach", each.clone(), json!({ "foreach": "[1]" }), &[]),
        adds(
            "foreach.as",
            and(&each, json!({ "steps": [sh("in", "{{ it }}")] })),
            json!({ "as": "it" }),
            &[],
        ),
        adds("foreach.steps", each.clone(), json!({ "steps": [sh("in", "y")] }), &[]),
        adds("foreach.max_parallel", each.clone(), json!({ "max_parallel": 2 }), &[]),
        adds("foreach.join", each, json!({ "join": "any" }), &["in: 1"]),
        adds(
            "parallel.parallel",
            both.clone(),
            json!({ "parallel": { "x": [sh("x", "x")] } }),
            &[],
        ),
        adds("parallel.join", both, json!({ "join": "any" }), &["x: 1"]),
        adds("driver.driver", user.clone(), json!({ "driver": "nobody" }), &["person: done"]),
        adds(
            "driver.driver_config",
            json!({ "name": "a", "driver": "llm", "prompt": "q", "driver_config": { "model": "script/x" } }),
            json!({ "driver_config": { "model": "script/y" } }),
            &["model: t"],
        ),
        adds(
            "driver.prompt",
            json!({ "name": "a", "driver": "llm", "prompt": "q", "driver_config": { "model": "script/x" } }),
            json!({ "prompt": "r" }),
            &["model: t"],
        ),
        takes(
            "driver.input_from",
            json!({ "name": "a", "driver": "llm", "prompt": "q", "driver_config": { "model": "script/x" } }),
            json!({ "input_from": "look" }),
            &["look: ok it", "model: t"],
        ),
        adds(
            "task.task",
            json!({ "name": "a", "task": { "goal": "g", "model": "script/x" } }),
            json!({ "task": { "goal": "h", "model": "script/x" } }),
            &["task: completed"],
        ),
    ]
}

/// What a schema says of an answer: each word refuses one, or is told to the model.
fn answers() -> Vec<Pair> {
    let asks = |schema: Value| {
        one(&json!({ "name": "a", "type": "llm", "prompt": "q", "schema": schema }))
    };
    let wrong = |key, plain: Value, more: Value, script| {
        let keyed = and(&plain, more);
        pair(key, asks(plain), asks(keyed), script)
    };
    let object = json!({ "type": "object" });
    vec![
        wrong(
            "answer_schema.type",
            json!({}),
            json!({ "type": "integer" }),
            &["model: true", "model: 1"],
        ),
        wrong(
            "answer_schema.properties",
            object.clone(),
            json!({ "properties": { "n": { "type": "integer" } } }),
            &["model: {\"n\": true}", "model: {}"],
        ),
        wrong(
            "answer_schema.required",
            object.clone(),
            json!({ "required": ["n"] }),
            &["model: {}", "model: {\"n\": 1}"],
        ),
        wrong(
            "answer_schema.items",
            json!({ "type": "array" }),
            json!({ "items": { "type": "integer" } }),
            &["model: [true]", "model: [1]"],
        ),
        wrong("answer_schema.enum", json!({}), json!({ "enum": [1] }), &["model: 2", "model: 1"]),
        wrong("answer_schema.const", json!({}), json!({ "const": 1 }), &["model: 2", "model: 1"]),
        wrong(
            "answer_schema.minimum",
            json!({}),
            json!({ "minimum": 2 }),
            &["model: 1", "model: 2"],
        ),
        wrong(
            "answer_schema.maximum",
            json!({}),
            json!({ "maximum": 1 }),
            &["model: 2", "model: 1"],
        ),
        wrong(
            "answer_schema.minLength",
            json!({}),
            json!({ "minLength": 2 }),
            &["model: \"a\"", "model: \"ab\""],
        ),
        wrong(
            "answer_schema.maxLength",
            json!({}),
            json!({ "maxLength": 1 }),
            &["model: \"ab\"", "model: \"a\""],
        ),
        wrong(
            "answer_schema.minItems",
            json!({}),
            json!({ "minItems": 1 }),
            &["model: []", "model: [1]"],
        ),
        wrong(
            "answer_schema.maxItems",
            json!({}),
            json!({ "maxItems": 0 }),
            &["model: [1]", "model: []"],
        ),
        wrong(
            "answer_schema.additionalProperties",
            object.clone(),
            json!({ "additionalProperties": false }),
            &["model: {\"n\": 1}", "model: {}"],
        ),
        wrong("answer_schema.title", object.clone(), json!({ "title": "t" }), &["model: {}"]),
        wrong(
            "answer_schema.description",
            object.clone(),
            json!({ "description": "t" }),
            &["model: {}"],
        ),
        wrong("answer_schema.default", object.clone(), json!({ "default": {} }), &["model: {}"]),
        wrong("answer_schema.$schema", object, json!({ "$schema": "s" }), &["model: {}"]),
    ]
}

/// Keys of a step's own task.
fn tasks() -> Vec<Pair> {
    let plain = json!({ "goal": "g", "model": "script/x" });
    let of = |task: Value| one(&json!({ "name": "a", "task": task }));
    let order = |key, task: &Value, more: Value| {
        pair(key, of(task.clone()), of(and(task, more)), &["task: completed done"])
    };
    let nobody = json!({ "goal": "g" });
    let flow = json!({ "goal": "g", "workflow": "@workflows/test", "inputs": { "deep": true } });
    vec![
        order("step_task.goal", &plain, json!({ "goal": "h" })),
        order("step_task.model", &plain, json!({ "model": "script/y" })),
        order("step_task.agent", &nobody, json!({ "agent": "claude" })),
        order("step_task.driver", &nobody, json!({ "driver": "user" })),
        order("step_task.driver_config", &plain, json!({ "driver_config": { "system": "s" } })),
        order("step_task.workflow", &nobody, json!({ "workflow": { "steps": [sh("in", "y")] } })),
        order("step_task.inputs", &flow, json!({ "inputs": { "deep": false } })),
        order("step_task.checks", &plain, json!({ "checks": ["make"] })),
        order("step_task.acceptance", &plain, json!({ "acceptance": [{ "file": "a" }] })),
        order("step_task.budget", &plain, json!({ "budget": { "max_turns": 3 } })),
        order(
            "step_task.brought",
            &plain,
            json!({ "brought": { "budget": { "max_turns": 4 }, "acceptance": [] } }),
        ),
    ]
}

/// Keys of the whole workflow.
fn whole() -> Vec<Pair> {
    let plain = row(&[sh("a", "x"), sh("b", "y")]);
    let with = |key, more: Value, script| pair(key, plain.clone(), and(&plain, more), script);
    let asks = row(&[json!({ "name": "a", "type": "llm", "prompt": "q" })]);
    let llm = |key, more: Value| {
        let table = and(&json!({ "model": "script/x" }), more);
        pair(key, asks.clone(), and(&asks, json!({ "llm": table })), &["model: t"])
    };
    let input = |key, more: Value| {
        let takes = row(&[sh("a", "{{ inputs.n }}")]);
        let table = and(&json!({ "type": "string" }), more);
        pair(
            key,
            and(&takes, json!({ "inputs": { "n": { "type": "string" } } })),
            and(&takes, json!({ "inputs": { "n": table } })),
            &[],
        )
    };
    let initial = json!({ "name": "w", "states": [
        and(&sh("a", "x"), json!({ "transitions": [{ "to": "b" }] })),
        and(&sh("b", "y"), json!({ "transitions": [{ "to": "a", "when": "visits.a == 0" }, { "to": "c" }] })),
        { "name": "c", "terminal": true },
    ] });
    vec![
        with("workflow.name", json!({ "name": "v" }), &[]),
        with("workflow.description", json!({ "description": "d" }), &[]),
        with("workflow.version", json!({ "version": "2" }), &[]),
        with("workflow.limits", json!({ "limits": { "max_steps": 1 } }), &[]),
        with("limits.max_steps", json!({ "limits": { "max_steps": 1 } }), &[]),
        with("limits.token_budget", json!({ "limits": { "token_budget": 10 } }), &[]),
        with("limits.timeout_seconds", json!({ "limits": { "timeout_seconds": 10 } }), &[]),
        with("workflow.budget", json!({ "budget": { "max_turns": 3 } }), &[]),
        with("workflow.acceptance", json!({ "acceptance": [{ "shell": "make" }] }), &[]),
        with("workflow.outputs", json!({ "outputs": { "said": "steps.a.text" } }), &["a: ok it"]),
        with("workflow.steps", json!({ "steps": [sh("a", "x")] }), &[]),
        pair(
            "workflow.states",
            states(json!({})),
            states(json!({ "parameters": { "command": "y" } })),
            &[],
        ),
        pair("workflow.initial", initial.clone(), and(&initial, json!({ "initial": "b" })), &[]),
        pair("workflow.llm", and(&asks, json!({ "llm": null })), asks.clone(), &["model: t"]),
        llm("llm.model", json!({ "model": "script/y" })),
        llm("llm.temperature", json!({ "temperature": 0.5 })),
        llm("llm.system_prompt", json!({ "system_prompt": "Be brief." })),
        input("input.type", json!({ "type": "integer" })),
        input("input.default", json!({ "default": "eight" })),
        input("input.choices", json!({ "choices": ["eight"] })),
        with(
            "workflow.inputs",
            json!({ "inputs": { "n": { "type": "string" } }, "outputs": { "n": "inputs.n" } }),
            &[],
        ),
        input("input.description", json!({ "description": 7 })),
    ]
}

pub(super) fn of_prompts() -> Vec<Pair> {
    let plain = json!({ "prompt": { "text": "Say {{ what }}.", "inputs": { "what": { "default": "it" } } } });
    let meta =
        |key, more: Value| pair(key, plain.clone(), and(&plain, json!({ "meta": more })), &[]);
    let input = |key, more: Value| {
        let mut keyed = plain.clone();
        keyed["prompt"]["inputs"]["what"] = and(&plain["prompt"]["inputs"]["what"], more);
        pair(key, plain.clone(), keyed, &[])
    };
    let prompt = |key, more: Value| {
        let mut keyed = plain.clone();
        keyed["prompt"] = and(&plain["prompt"], more);
        pair(key, plain.clone(), keyed, &[])
    };
    vec![
        meta("file.meta", json!({ "version": "2" })),
        meta("meta.name", json!({ "name": "n" })),
        meta("meta.description", json!({ "description": "d" })),
        meta("meta.version", json!({ "version": "2" })),
        pair("file.prompt", plain.clone(), json!({ "prompt": { "text": "Say nothing." } }), &[]),
        prompt("prompt.text", json!({ "text": "Tell {{ what }}." })),
        prompt("prompt.inputs", json!({ "inputs": null })),
        input("prompt_input.type", json!({ "type": "integer" })),
        input("prompt_input.default", json!({ "default": "more" })),
        input("prompt_input.description", json!({ "description": "d" })),
    ]
}

pub(super) fn of_agents() -> Vec<Pair> {
    let model = json!({ "name": "a", "model": "script/x" });
    let of = |agent: Value| json!({ "agent": agent });
    let made = |key, more: Value| pair(key, of(model.clone()), of(and(&model, more)), &[]);
    let program = json!({ "name": "a", "protocol": "acp", "command": ["a"] });
    let run = |key, more: Value| pair(key, of(program.clone()), of(and(&program, more)), &[]);
    vec![
        made("composed_agent.name", json!({ "name": "b" })),
        made("composed_agent.description", json!({ "description": "d" })),
        made("composed_agent.model", json!({ "model": "script/y" })),
        made("composed_agent.prompt", json!({ "prompt": "Be brief." })),
        made("composed_agent.workflow", json!({ "workflow": "@workflows/test" })),
        pair(
            "composed_agent.driver",
            of(json!({ "name": "a", "driver": "user" })),
            of(json!({ "name": "a", "driver": "race" })),
            &[],
        ),
        made("composed_agent.program", json!({ "model": null, "program": "claude" })),
        made("composed_agent.tools", json!({ "tools": { "enabled": ["read"] } })),
        made("composed_agent.context", json!({ "context": { "peek_first": true } })),
        made("agent_tools.enabled", json!({ "tools": { "enabled": ["read"] } })),
        made("agent_tools.disabled", json!({ "tools": { "disabled": ["shell"] } })),
        made(
            "agent_context.include_diagnostics",
            json!({ "context": { "include_diagnostics": true } }),
        ),
        made("agent_context.include_memory", json!({ "context": { "include_memory": true } })),
        made("agent_context.peek_first", json!({ "context": { "peek_first": true } })),
        run("agent.name", json!({ "name": "b" })),
        run("agent.protocol", json!({ "protocol": "claude" })),
        run("agent.command", json!({ "command": ["b"] })),
        run("agent.model", json!({ "model": "m" })),
        run("agent.model_flag", json!({ "model_flag": "--with" })),
        run("agent.mode", json!({ "mode": "ask" })),
        run("agent.asking_modes", json!({ "asking_modes": ["ask"] })),
        run("agent.env", json!({ "env": { "A": "b" } })),
        run("agent.pass", json!({ "pass": ["A"] })),
        run("agent.keys", json!({ "keys": ["A_KEY"] })),
        run("agent.hosts", json!({ "hosts": ["example.org"] })),
        run("agent.any_version", json!({ "any_version": true })),
        run("agent.gateway", json!({ "gateway": false })),
        run("agent.idle", json!({ "idle": "5m" })),
        run("agent.quirks", json!({ "quirks": ["none"] })),
    ]
}
