//! The whole model path against a scripted server: driver `llm`, journal (FULL), supervisor, HTTP, one subscriber.
//!
//! The server is found in `$BASE`. It asks for a tool `probe`, which drivetrain does not have: the driver here is
//! `llm` with that one wish granted by `say`, so that the conversation stays as the server wrote it.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use journal::sqlite::SqliteJournal;
use machine::driver::{Decision, Driver, DriverKind, DriverSlot, Fact, Registry, Situation};
use machine::event::EventKind;
use machine::id::TaskId;
use machine::message::{Message, Part, Reply};
use machine::stream::StreamEvent;
use machine::task::TaskSpec;
use ring::digest::{SHA256, digest as hashed};
use runtime::clock::SystemClock;
use runtime::home::Home;
use runtime::inbox::Inbox;
use runtime::supervisor::{Notice, Supervisor};
use runtime::world::World;
use serde_json::{Value, json};

use crate::{cpu, proc_number, resident};

/// What the fixed stream of W1 must give, as the server's own digest prints it.
const TEXT: &str = "a950467840ca535d";
const CONTENT: &str = "4773741117acbe4a";

/// What the subscriber and the driver saw.
#[derive(Debug, Default)]
struct Seen {
    /// What was said since the last answer, as it came.
    said: String,
    first: Option<Instant>,
    /// CPU time at each answer.
    marks: Vec<f64>,
    /// Answers whose text came by as it was written.
    heard: u64,
    last_text: String,
    probes: u64,
    /// The last tool's `content`.
    content: String,
    /// Bytes of new messages, as JSON.
    new_bytes: u64,
}

type Shared = Arc<Mutex<Seen>>;

/// One request, a fixed stream of 2,208 events, `turns` times: each is a task of its own.
pub(crate) fn w1(folder: &Path, dialect: &str, mode: &str, turns: u64) -> Value {
    let bench = Bench::new(folder, dialect);
    let (mut supervisor, seen) = bench.supervisor(true, true);
    let (mut cpus, mut walls, mut firsts, mut ok) = (Vec::new(), Vec::new(), Vec::new(), true);
    let mut first = (String::new(), String::new());
    for turn in 0..turns {
        let (c0, w0) = (cpu(), Instant::now());
        supervisor.begin(TaskId(format!("t{turn}")), bench.spec("w1", mode), false).unwrap();
        supervisor.run().unwrap();
        cpus.push(cpu() - c0);
        walls.push(w0.elapsed().as_secs_f64());
        let mut seen = seen.lock().unwrap();
        // Digests are the harness's business, not the path's: later answers are compared with the first.
        if turn == 0 {
            ok &= digest(&seen.last_text) == TEXT && digest(&seen.content) == CONTENT;
            first = (seen.last_text.clone(), seen.content.clone());
        }
        ok &= seen.last_text == first.0 && seen.content == first.1 && seen.heard == turn + 1;
        firsts.push(seen.first.take().map_or(0.0, |at| (at - w0).as_secs_f64() * 1e3));
    }
    let warm = &cpus[3.min(cpus.len() - 1)..];
    json!({ "peer": "ours", "lang": "rust", "wl": "w1", "api": dialect, "mode": mode, "iters": turns, "ok": ok,
            "rss_peak_kb": proc_number("/proc/self/status", "VmHWM"), "cold_cpu_s": cpus[0],
            "warm_cpu_s": median(warm), "warm_cpu_min": warm.iter().copied().fold(f64::MAX, f64::min),
            "warm_wall_s": median(&walls), "ttfd_ms": median(&firsts) })
}

/// A loop of `turns` tool calls in one task; the whole history goes with each request. `follows` if somebody reads along.
pub(crate) fn w2(folder: &Path, dialect: &str, turns: u64, follows: bool) -> Value {
    let bench = Bench::new(folder, dialect);
    let (mut supervisor, seen) = bench.supervisor(true, follows);
    let (c0, w0) = (cpu(), Instant::now());
    supervisor.begin(TaskId("t".to_owned()), bench.spec("w2", &turns.to_string()), false).unwrap();
    supervisor.run().unwrap();
    let (c1, wall) = (cpu(), w0.elapsed().as_secs_f64());
    let stored: u64 =
        supervisor.journal().load("t").unwrap().records.iter().map(|r| r.body.len() as u64).sum();
    let seen = seen.lock().unwrap();
    let spans: Vec<f64> = seen.marks.windows(2).map(|pair| (pair[1] - pair[0]) * 1e3).collect();
    let tenth = (spans.len() / 10).max(1);
    let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len().max(1) as f64;
    let heard = if follows { turns + 1 } else { 0 };
    let ok = seen.last_text == "All done." && seen.probes == turns && seen.heard == heard;
    json!({ "peer": "ours", "lang": "rust", "wl": "w2", "api": dialect, "turns": turns, "ok": ok,
            "rss_peak_kb": proc_number("/proc/self/status", "VmHWM"), "cpu_s": c1 - c0, "wall_s": wall,
            "cpu_ms_per_turn": 1e3 * (c1 - c0) / turns as f64,
            "ms_turn_first_decile": mean(&spans[1..=tenth.min(spans.len() - 1)]),
            "ms_turn_last_decile": mean(&spans[spans.len() - tenth..]),
            "stored_bytes": stored, "new_bytes": seen.new_bytes,
            "stored_ratio": stored as f64 / seen.new_bytes as f64 })
}

/// `goals` tasks at once; the server answers each first request after `delay` milliseconds.
pub(crate) fn w4(folder: &Path, dialect: &str, goals: u64, delay: &str) -> Value {
    let bench = Bench::new(folder, dialect);
    let (mut supervisor, seen) = bench.supervisor(false, false);
    supervisor.begin(TaskId("first".to_owned()), bench.spec("w4", delay), false).unwrap();
    supervisor.run().unwrap();
    let (base, c0, w0) = (resident(), cpu(), Instant::now());
    for goal in 0..goals {
        supervisor.begin(TaskId(format!("t{goal}")), bench.spec("w4", delay), false).unwrap();
    }
    supervisor.run().unwrap();
    let (used, wall) = (cpu() - c0, w0.elapsed().as_secs_f64());
    let peak = proc_number("/proc/self/status", "VmHWM");
    let done =
        supervisor.outcomes().values().filter(|outcome| outcome.word() == "completed").count()
            as u64;
    let failed = goals + 1 - done;
    let ok = failed == 0 && seen.lock().unwrap().probes == goals + 1;
    json!({ "peer": "ours", "lang": "rust", "wl": "w4", "api": dialect, "goals": goals, "delay_ms": delay, "ok": ok,
            "failed": failed, "wall_s": wall, "cpu_s": used, "cpu_ms_per_goal": 1e3 * used / goals as f64,
            "rss_base_kb": base, "rss_peak_kb": peak,
            "rss_kb_per_goal": peak.saturating_sub(base) as f64 / goals as f64 })
}

struct Bench {
    home: Home,
    folder: String,
    prefix: &'static str,
}

impl Bench {
    /// A home, and a project whose file names the server.
    fn new(folder: &Path, dialect: &str) -> Bench {
        let (word, prefix, path) = match dialect {
            "chat" => ("openai_chat", "gpt", "/v1"),
            "responses" => ("openai_responses", "gpt", "/v1"),
            _ => ("anthropic_messages", "claude", ""),
        };
        let base = std::env::var("BASE").unwrap_or_else(|_| "http://127.0.0.1:19480".to_owned());
        let settings = folder.join("project/.drivetrain");
        std::fs::create_dir_all(&settings).unwrap();
        std::fs::create_dir_all(folder.join("project/.git")).unwrap();
        let file = format!("[provider.bench]\ndialect = \"{word}\"\nbase_url = \"{base}{path}\"\n");
        std::fs::write(settings.join("models.toml"), file).unwrap();
        let read = runtime::trust::read_file(&settings.join("models.toml"), 1 << 20);
        runtime::trust::grant(read.unwrap().unwrap().0);
        let home = Home::at(folder.join("home"));
        home.create().unwrap();
        crate::warm(&home);
        let folder = folder.join("project").canonicalize().unwrap().display().to_string();
        Bench { home, folder, prefix }
    }

    fn spec(&self, work: &str, argument: &str) -> TaskSpec {
        let model = format!("bench/{}-{work}-{argument}", self.prefix);
        let mut spec = crate::spec(1);
        spec.goal = "go".to_owned();
        spec.driver.name = "probing".to_owned();
        spec.driver.config = json!({ "model": model, "tools": ["say"] });
        // The scripted server asks for the same again and again.
        (spec.recovery.stuck.same_action, spec.recovery.stuck.cycle) = (0, 0);
        spec.folder.clone_from(&self.folder);
        spec
    }

    /// `each` if one task at a time runs, so that its answers can be told apart; `follows` if somebody reads along.
    fn supervisor(&self, each: bool, follows: bool) -> (Supervisor<World>, Shared) {
        let seen = Shared::default();
        let mut registry = Registry::builtin();
        let result = Arc::new(json!({ "text": "0123456789abcdef".repeat(64) }));
        registry.register(Arc::new(ProbingKind { seen: Arc::clone(&seen), result }));
        let inbox = Inbox::default();
        let world = World::new(inbox.clone(), &self.home, self.home.marks(0));
        let journal = SqliteJournal::open(&self.home.journal()).unwrap();
        let (clock, registry) = (Box::new(SystemClock), Arc::new(registry));
        let mut supervisor = Supervisor::new(Box::new(journal), world, clock, registry, inbox);
        let told = Arc::clone(&seen);
        let hear = Box::new(move |notice: &Notice<'_>| told.lock().unwrap().hear(notice, each));
        match follows {
            true => supervisor.follow(hear),
            false => supervisor.observe(hear),
        }
        (supervisor, seen)
    }
}

impl Seen {
    /// The subscriber.
    fn hear(&mut self, notice: &Notice<'_>, each: bool) {
        match notice {
            Notice::Streamed(_, events) if each => {
                for event in *events {
                    if let StreamEvent::TextDelta { text, .. } = event {
                        self.first.get_or_insert_with(Instant::now);
                        self.said.push_str(text);
                    }
                }
            }
            Notice::Event(event) => {
                if let EventKind::ModelReplied { text, .. } = &event.kind {
                    if each {
                        self.marks.push(cpu());
                    }
                    self.heard += u64::from(self.said == *text);
                    self.said.clear();
                    self.last_text.clone_from(text);
                }
            }
            _ => {}
        }
    }
}

/// `llm`, with the server's tools granted.
#[derive(Debug)]
struct ProbingKind {
    seen: Shared,
    /// What every tool gives.
    result: Arc<Value>,
}

#[derive(Debug)]
struct Probing {
    llm: DriverSlot,
    seen: Shared,
    result: Arc<Value>,
    wrote: bool,
}

impl DriverKind for ProbingKind {
    fn name(&self) -> &str {
        "probing"
    }

    fn version(&self) -> u32 {
        1
    }

    fn create(&self, config: &Value, registry: &Registry) -> Result<Box<dyn Driver>, String> {
        let llm = DriverSlot::create("llm", config, registry)?;
        let (seen, result) = (Arc::clone(&self.seen), Arc::clone(&self.result));
        Ok(Box::new(Probing { llm, seen, result, wrote: false }))
    }

    fn load(&self, _: &Value, _: &Value, _: &Registry) -> Result<Box<dyn Driver>, String> {
        Err("a benchmark is not resumed".to_owned())
    }
}

impl Driver for Probing {
    fn decide(&mut self, situation: &Situation<'_>) -> Decision {
        if self.wrote {
            return Decision::Claim { summary: "written".to_owned() };
        }
        let mut decision = self.llm.live.decide(situation);
        if let Decision::Act(actions) = &mut decision {
            for action in actions {
                if action.tool == "write_file" {
                    self.wrote = true;
                    let content = action.input["content"].as_str().unwrap_or_default();
                    self.seen.lock().unwrap().content = content.to_owned();
                }
                action.tool = "say".to_owned();
                action.input = Arc::clone(&self.result);
            }
        }
        decision
    }

    fn observe(&mut self, situation: &Situation<'_>, fact: &Fact<'_>) {
        let mut seen = self.seen.lock().unwrap();
        match fact {
            Fact::Result { result, .. } => {
                seen.probes += 1;
                seen.new_bytes += result.text.len() as u64;
            }
            Fact::Replied(Ok(Reply { message, .. })) => seen.new_bytes += bytes(message),
            _ => {}
        }
        drop(seen);
        self.llm.live.observe(situation, fact);
    }

    fn save(&self) -> Value {
        self.llm.live.save()
    }
}

/// What a message says: its text and its calls.
fn bytes(message: &Message) -> u64 {
    let of = |part: &Part| match part {
        Part::Text { text } | Part::Thinking { text } => text.len(),
        Part::ToolUse { id, name, .. } => id.len() + name.len(),
        _ => 0,
    };
    message.blocks.iter().map(|block| of(&block.part) as u64).sum()
}

fn digest(text: &str) -> String {
    let hash = hashed(&SHA256, text.as_bytes());
    hash.as_ref().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
