//! Speed of the durable loop beside the raw limit of the same disk, in one run.
//!
//!   bench all                     every case, one JSON line each, then a table of ratios
//!   bench raw GROUP SECONDS       SQLite WAL FULL, one append-only table, GROUP rows a commit
//!   bench w3 STEPS TASKS          durable steps: machine, journal and supervisor together
//!   bench w3r STEPS snapshot|log  resume of a task with that many steps behind it
//!   bench step [STEPS]            one `step`, early and late in a long history
//!   bench gate [COUNT]            one decision of the gate: lines of 1, 10 and 60 commands, fifty rules
//!   bench library [FILES]         loading workflow files: found, judged, read and checked
//!   bench workflow [STEPS ELEMENTS]  a row of steps and a foreach, beside the plain durable loop
//!   bench parked TASKS            memory of tasks that wait, driven and put down
//!   bench start TASKS             opening a journal that holds that many finished tasks
//!   bench sandbox COUNT           a command's start behind the walls, beside a plain one
//!   bench checkpoint [FILES CHANGED ROUNDS]  keeping a folder, beside `git add -A && git write-tree`
//!   bench w1 DIALECT MODE TURNS   one long streamed answer (DIALECT: anthropic, chat, responses)
//!   bench w2 DIALECT TURNS [followed]  a loop of tool calls, the whole history in each request; somebody reads along
//!   bench w4 DIALECT TASKS DELAY  that many tasks at once; the server answers after DELAY ms
//!
//! The last three need the scripted server of the harness at `$BASE`.
//!
//! CPU time is of this process, all threads. Never compare figures across runs: the disk is not the same.

#![allow(clippy::unwrap_used, reason = "a benchmark that cannot go on has nothing to say")]

mod checkpoint;
mod gate;
mod library;
mod model_path;
mod sandbox;
mod workflow;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use journal::sqlite::SqliteJournal;
use journal::{Entry, Journal};
use machine::driver::Registry;
use machine::driver::scripted::ScriptedKind;
use machine::id::TaskId;
use machine::input::{Command, Input, Stamped};
use machine::state::State;
use machine::task::{DriverSpec, TaskSpec, WorkspaceKind, WorkspaceSpec};
use machine::time::Timestamp;
use machine::tool::ToolResult;
use machine::{Effect, step};
use runtime::clock::SystemClock;
use runtime::home::Home;
use runtime::host::Host;
use runtime::inbox::Inbox;
use runtime::supervisor::Supervisor;
use runtime::world::World;
use serde_json::{Value, json};

fn main() {
    runtime::sandbox::helper::enter();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let number =
        |index: usize, or: u64| words.get(index).and_then(|word| word.parse().ok()).unwrap_or(or);
    let word = |index: usize| words.get(index).copied().unwrap_or_default();
    let folder =
        tempfile::tempdir_in(std::env::var_os("BENCH_DIR").unwrap_or_else(|| ".".into())).unwrap();
    match words.first().copied().unwrap_or("all") {
        "raw" => print(raw(folder.path(), number(1, 1) as usize, number(2, 2))),
        "w3" => print(durable_steps(folder.path(), number(1, 10_000), number(2, 1))),
        "w3r" => print(resume(folder.path(), number(1, 10_000), words.get(2) != Some(&"log"))),
        "w1" => print(model_path::w1(folder.path(), word(1), word(2), number(3, 10))),
        "w2" => {
            let follows = words.get(3) == Some(&"followed");
            print(model_path::w2(folder.path(), word(1), number(2, 100), follows));
        }
        "w4" => print(model_path::w4(folder.path(), word(1), number(2, 1_000), word(3))),
        "gate" => print(gate::decisions(number(1, 20_000))),
        "step" => print(pure_step(number(1, 200_000))),
        "parked" => print(parked(folder.path(), number(1, 10_000))),
        "sandbox" => print(sandbox::starts(folder.path(), number(1, 100))),
        "checkpoint" => {
            let (files, changed) = (number(1, 10_000), number(2, 10));
            print(checkpoint::keeps(folder.path(), files, changed, number(3, 20)));
        }
        "workflow" => {
            workflow::rates(folder.path(), number(1, 10_000), number(2, 1_000))
                .into_iter()
                .for_each(print);
        }
        "library" => print(library::loads(folder.path(), number(1, 500))),
        "start" => print(start(folder.path(), number(1, 100_000))),
        _ => all(folder.path()),
    }
}

fn all(folder: &Path) {
    let fresh = |name: &str| {
        let path = folder.join(name);
        std::fs::create_dir_all(&path).unwrap();
        path
    };
    print(pure_step(200_000));
    print(gate::decisions(20_000));
    print(library::loads(&fresh("library"), 500));
    let mut table = Vec::new();
    for (tasks, steps) in [(1, 20_000), (100, 200_000), (1_000, 500_000)] {
        // Raw before and after: the disk may change its mood in between.
        let before = raw(&fresh(&format!("raw-a{tasks}")), tasks as usize, 2);
        let ours = durable_steps(&fresh(&format!("w3-{tasks}")), steps, tasks);
        let after = raw(&fresh(&format!("raw-b{tasks}")), tasks as usize, 2);
        let rate = |line: &Value, key: &str| line[key].as_f64().unwrap();
        let mean = |key: &str| (rate(&before, key) + rate(&after, key)) / 2.0;
        table.push(json!({
            "case": format!("ratio to raw at {tasks} task(s)"),
            "rate": rate(&ours, "steps_per_s") / mean("steps_per_s"),
            "bytes": rate(&ours, "disk_bytes_per_step") / mean("disk_bytes_per_step"),
            "cpu_us_per_step": ours["cpu_us_per_step"],
            "syncs_per_step": ours["syncs_per_step"],
        }));
        for line in [before, ours, after] {
            print(line);
        }
    }
    workflow::rates(&fresh("workflow"), 10_000, 1_000).into_iter().for_each(print);
    print(resume(&fresh("resume-log"), 10_000, false));
    print(resume(&fresh("resume-snapshot"), 10_000, true));
    print(parked(&fresh("parked"), 10_000));
    print(start(&fresh("start"), 100_000));
    print(sandbox::starts(&fresh("sandbox"), 100));
    table.into_iter().for_each(print);
}

/// The limit: what the same disk gives a program that only appends rows and commits.
fn raw(folder: &Path, group: usize, seconds: u64) -> Value {
    let database = rusqlite::Connection::open(folder.join("raw.db")).unwrap();
    database
        .execute_batch(
            "pragma journal_mode=wal; pragma journal_size_limit=-1;
             create table log(seq integer primary key, task integer not null, kind integer not null, payload blob not null);
             pragma synchronous=normal; pragma wal_autocheckpoint=0; create table junk(x blob);
             insert into junk with recursive c(i) as (select 1 union all select i+1 from c where i<4000) select zeroblob(3900) from c;
             drop table junk; pragma wal_checkpoint(restart); pragma wal_autocheckpoint=1000; pragma synchronous=full;",
        )
        .unwrap();
    let payload = vec![b'x'; 200];
    let meter = Meter::start();
    let (mut rows, mut commits) = (0u64, 0u64);
    while meter.wall.elapsed() < Duration::from_secs(seconds) {
        database.execute_batch("begin immediate").unwrap();
        for task in 0..group {
            let mut insert = database
                .prepare_cached("insert into log(task, kind, payload) values(?, 1, ?)")
                .unwrap();
            insert.execute((task as i64, &payload)).unwrap();
            rows += 1;
        }
        database.execute_batch("commit").unwrap();
        commits += 1;
    }
    meter.report("raw sqlite full", rows, json!({ "group": group, "commits": commits }))
}

fn durable_steps(folder: &Path, steps: u64, tasks: u64) -> Value {
    let home = Home::at(folder);
    home.create().unwrap();
    warm(&home);
    let journal = SqliteJournal::open(&home.journal()).unwrap();
    let mut supervisor = supervisor(Box::new(journal), &home);
    let each = steps / tasks;
    for task in 0..tasks {
        supervisor.begin(TaskId(format!("t{task}")), spec(each), false).unwrap();
    }
    let syncs = supervisor.journal().syncs();
    let meter = Meter::start();
    supervisor.run().unwrap();
    let syncs = supervisor.journal().syncs() - syncs;
    let completed =
        supervisor.outcomes().values().filter(|outcome| outcome.word() == "completed").count()
            as u64;
    assert_eq!(completed, tasks, "every task completes");
    meter.report(
        "ours",
        each * tasks,
        json!({ "tasks": tasks, "syncs_per_step": syncs as f64 / (each * tasks) as f64 }),
    )
}

/// Grows the write-ahead log once, as in long use, so that commits overwrite allocated blocks.
fn warm(home: &Home) {
    let mut journal = SqliteJournal::open(&home.journal()).unwrap();
    journal.commit(&[Entry::Create { task: "warm", time: 0 }]).unwrap();
    let body = vec![b'x'; 1 << 20];
    for n in 1..=16 {
        journal
            .commit(&[Entry::Record { task: "warm", n, time: 0, version: 1, body: &body }])
            .unwrap();
    }
}

/// From opening the journal to the first new effect of a task with that many steps behind it.
fn resume(folder: &Path, steps: u64, snapshot: bool) -> Value {
    let home = Home::at(folder);
    home.create().unwrap();
    let id = TaskId("long".to_owned());
    {
        let mut journal = SqliteJournal::open(&home.journal()).unwrap();
        fill(&mut journal, &id, steps, snapshot);
    }
    let mut best = f64::MAX;
    let mut cpu_best = f64::MAX;
    for _ in 0..5 {
        let meter = Meter::start();
        let journal = SqliteJournal::open(&home.journal()).unwrap();
        let mut journal: Box<dyn Journal> = Box::new(journal);
        journal.claim(id.as_str()).unwrap();
        let loaded = journal.load(id.as_str()).unwrap();
        let records = loaded.records.len() as u64;
        let host = Host::fold(&id, &loaded, registry(), true, drop).unwrap();
        assert_eq!(host.state.data().pending.len(), 1, "the next step is under way");
        assert!(if snapshot { records < 1_100 } else { records >= steps });
        best = best.min(meter.wall.elapsed().as_secs_f64() * 1e3);
        cpu_best = cpu_best.min((cpu() - meter.cpu) * 1e3);
    }
    json!({ "case": format!("resume of {steps} steps {}", if snapshot { "with a snapshot" } else { "from the log" }),
            "ms": best, "cpu_ms": cpu_best, "us_per_step": best * 1e3 / steps as f64 })
}

/// Writes the records of a task in the middle of a long run, a thousand a commit.
fn fill(journal: &mut dyn Journal, id: &TaskId, steps: u64, snapshot: bool) {
    let mut host = Host::new(id.clone(), registry());
    let mut inputs: Vec<Input> = vec![
        Command::Start(Box::new(spec(steps + 10))).into(),
        Command::Attach { owner: 1, attended: false }.into(),
    ];
    journal.commit(&[Entry::Create { task: id.as_str(), time: 0 }]).unwrap();
    let mut done = 0;
    while done < steps {
        let mut bodies = Vec::new();
        while bodies.len() < 1000 && (done < steps || !inputs.is_empty()) {
            let input = if inputs.is_empty() { unreachable_next() } else { inputs.remove(0) };
            bodies.push(runtime::host::encode(&input));
            let output = step(&mut host.state, Stamped { time: Timestamp(1_000), input });
            for effect in output.effects {
                if let Effect::RunTool { id, .. } = &effect {
                    done += 1;
                    if done < steps + 1 {
                        inputs.push(Input::ToolEnded(*id, ToolResult::ok("x".repeat(200))));
                    }
                } else if let Effect::OpenWorkspace { id, .. } = effect {
                    inputs.push(opened(id));
                }
            }
        }
        let entries: Vec<Entry<'_>> = bodies
            .iter()
            .enumerate()
            .map(|(index, body)| Entry::Record {
                task: id.as_str(),
                n: host.last + index as u64 + 1,
                time: 1_000,
                version: 1,
                body,
            })
            .collect();
        journal.commit(&entries).unwrap();
        host.last += bodies.len() as u64;
        if snapshot {
            let saved = serde_json::to_vec(&host.state.save()).unwrap();
            journal
                .commit(&[Entry::Snapshot { task: id.as_str(), n: host.last, body: &saved }])
                .unwrap();
        }
    }
    let summary = host.summary();
    journal.commit(&[Entry::Summary { task: id.as_str(), open: true, body: &summary }]).unwrap();
}

fn unreachable_next() -> Input {
    panic!("the task asked for nothing")
}

fn opened(id: machine::id::EffectId) -> Input {
    let workspace = machine::task::Workspace {
        kind: WorkspaceKind::None,
        path: None,
        branch: None,
        base: None,
    };
    machine::Signal::WorkspaceOpened(id, Ok(workspace)).into()
}

/// One `step` in the first and in the last quarter of a long history.
fn pure_step(steps: u64) -> Value {
    let quarter = steps / 4;
    let mut state = State::new(TaskId("t".to_owned()), registry());
    state.set_quiet(true);
    let mut time = 0;
    let mut input: Option<Input> = Some(Command::Start(Box::new(spec(300_000))).into());
    let mut spans = Vec::new();
    let mut begun = Instant::now();
    for count in 1..=steps {
        time += 1;
        let next = input.take().unwrap_or(Command::Attach { owner: 1, attended: false }.into());
        for effect in step(&mut state, Stamped { time: Timestamp(time), input: next }).effects {
            input = Some(match effect {
                Effect::RunTool { id, .. } => Input::ToolEnded(id, ToolResult::ok("x".repeat(200))),
                Effect::OpenWorkspace { id, .. } => opened(id),
                _ => continue,
            });
        }
        if count.is_multiple_of(quarter) {
            spans.push(begun.elapsed().as_secs_f64() * 1e6 / quarter as f64);
            begun = Instant::now();
        }
    }
    json!({ "case": "step", "us_first_quarter": spans[0], "us_last_quarter": spans[3], "growth": spans[3] / spans[0] })
}

/// Memory of tasks that wait in this process for a person who is there, and of tasks that were put down because
/// nobody is.
fn parked(folder: &Path, tasks: u64) -> Value {
    let home = Home::at(folder);
    home.create().unwrap();
    let mut waiting = spec(1);
    waiting.driver.config = json!({ "turns": [], "end": "wait_for_person" });
    let journal = SqliteJournal::open(&home.journal()).unwrap();
    let mut supervisor = supervisor(Box::new(journal), &home);
    let begin = |supervisor: &mut Supervisor<World>, from: u64, to: u64| {
        for task in from..to {
            supervisor.begin(TaskId(format!("p{task}")), waiting.clone(), false).unwrap();
        }
        supervisor.run().unwrap();
    };
    // Two hundred at a time, so that what is counted is what stays; the first round fills caches and pools.
    begin(&mut supervisor, 0, 1_000);
    let before = resident();
    for from in (1_000..1_000 + tasks).step_by(200) {
        begin(&mut supervisor, from, from + 200);
    }
    let put_down = resident();
    for task in 0..tasks {
        supervisor.begin(TaskId(format!("w{task}")), waiting.clone(), true).unwrap();
    }
    settle(&mut supervisor);
    let driven = resident();
    let each = |kilobytes: u64| kilobytes as f64 * 1024.0 / tasks as f64;
    json!({ "case": format!("{tasks} waiting tasks"),
            "bytes_per_put_down_task": each(put_down.saturating_sub(before)),
            "bytes_per_waiting_task": each(driven.saturating_sub(put_down)) })
}

fn settle(supervisor: &mut Supervisor<World>) {
    let inbox = supervisor.inbox().clone();
    for _ in 0..40 {
        let batch = inbox.take(Some(Duration::from_millis(50)), 0);
        supervisor.cycle(batch).unwrap();
    }
}

/// Opening a journal, with none and with many finished tasks in it.
fn start(folder: &Path, tasks: u64) -> Value {
    let time = |home: &Home| {
        let mut best = f64::MAX;
        for _ in 0..5 {
            let begun = cpu();
            let journal = SqliteJournal::open(&home.journal()).unwrap();
            assert!(journal.open_tasks().unwrap().is_empty());
            best = best.min((cpu() - begun) * 1e3);
        }
        best
    };
    let home = Home::at(folder.join("h"));
    home.create().unwrap();
    let empty = time(&home);
    {
        let mut journal = SqliteJournal::open(&home.journal()).unwrap();
        let names: Vec<String> = (0..tasks).map(|task| format!("t{task}")).collect();
        for chunk in names.chunks(5_000) {
            let mut entries = Vec::new();
            for task in chunk {
                entries.push(Entry::Create { task, time: 1 });
                entries.push(Entry::Record { task, n: 1, time: 1, version: 1, body: b"{}" });
                entries.push(Entry::Summary { task, open: false, body: "{}" });
            }
            journal.commit(&entries).unwrap();
        }
    }
    json!({ "case": "open the journal", "cpu_ms_empty": empty, "finished_tasks": tasks, "cpu_ms_full": time(&home) })
}

fn supervisor(journal: Box<dyn Journal>, home: &Home) -> Supervisor<World> {
    let inbox = Inbox::default();
    let world = World::new(inbox.clone(), home, home.marks(0));
    Supervisor::new(journal, world, Box::new(SystemClock), registry(), inbox)
}

fn registry() -> Arc<Registry> {
    let mut registry = Registry::builtin();
    registry.register(Arc::new(ScriptedKind));
    Arc::new(registry)
}

/// A task of that many steps, each of which says 200 bytes.
fn spec(steps: u64) -> TaskSpec {
    let say = json!({ "tool": "say", "input": { "text": "x".repeat(200) } });
    TaskSpec {
        workspace: WorkspaceSpec { kind: Some(WorkspaceKind::None), ..WorkspaceSpec::default() },
        sandbox: machine::policy::sandbox::SandboxSpec::off(),
        ..TaskSpec::new(
            "be quick",
            DriverSpec::new(
                "scripted",
                json!({ "turns": [[say]], "repeat": steps.saturating_sub(1) }),
            ),
            "/",
        )
    }
}

/// Wall time, CPU time and bytes written from here on.
struct Meter {
    wall: Instant,
    cpu: f64,
    written: u64,
}

impl Meter {
    fn start() -> Meter {
        Meter { wall: Instant::now(), cpu: cpu(), written: written() }
    }

    fn report(&self, case: &str, steps: u64, extra: Value) -> Value {
        let (wall, cpu) = (self.wall.elapsed().as_secs_f64(), cpu() - self.cpu);
        let mut line = json!({
            "case": case, "steps": steps, "wall_s": wall, "steps_per_s": steps as f64 / wall,
            "cpu_us_per_step": cpu * 1e6 / steps as f64,
            "disk_bytes_per_step": (written() - self.written) as f64 / steps as f64,
        });
        if let (Value::Object(line), Value::Object(extra)) = (&mut line, extra) {
            line.extend(extra);
        }
        line
    }
}

#[allow(unsafe_code)]
fn cpu() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a value of this function. Not through the vDSO, which valgrind has none of.
    unsafe {
        libc::syscall(libc::SYS_clock_gettime, libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time)
    };
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn proc_number(file: &str, key: &str) -> u64 {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with(key)).unwrap_or_default().to_owned();
    line.split_whitespace().nth(1).and_then(|word| word.parse().ok()).unwrap_or(0)
}

fn written() -> u64 {
    proc_number("/proc/self/io", "write_bytes")
}

fn resident() -> u64 {
    proc_number("/proc/self/status", "VmRSS")
}

#[allow(clippy::print_stdout)]
fn print(line: Value) {
    println!("{line}");
}
