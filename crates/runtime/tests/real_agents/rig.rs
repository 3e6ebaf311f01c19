//! Claude Code in a place: started with a command line and variables of its own options, and driven by its codec.

use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

use machine::agent::{AgentEvent, AgentProgram};
use machine::server::ToolOffer;
use machine::tool::EffectClass;
use serde_json::json;
use wire::agent::Started;
use wire::agent::claude::{
    ClaudeCodec, ClaudeKey, ClaudeOptions, Session, command_line, environment,
};
use wire::agent::table::Version;

use crate::program::{Driven, Place, named};

/// The variable that names the program.
const PROGRAM: &str = "DRIVETRAIN_CLAUDE";

/// What a session needs, kept until it is dropped.
pub(crate) struct Rig {
    pub(crate) place: Place,
    version: String,
}

impl Rig {
    /// A workspace with one file, and a model that plays this script.
    pub(crate) fn new(script: &str) -> Rig {
        let aside = "[aside]\ntext = \"ok\"\nusage = { input = 1, output = 1 }\n";
        let mut program = AgentProgram::built_in("claude").unwrap();
        program.command = named(PROGRAM);
        Rig { place: Place::new(program, &format!("{script}\n{aside}")), version: version() }
    }

    /// Whether the program is at least this version.
    pub(crate) fn is(&self, version: Version) -> bool {
        Version::find(&self.version).unwrap() >= version
    }

    pub(crate) fn options(&self, session: Session) -> ClaudeOptions {
        let text = |below: &str| self.place.path(below).display().to_string();
        ClaudeOptions {
            version: self.version.clone(),
            model: Some("claude-sonnet-4-5".to_owned()),
            retries: 2,
            temporary: Some(text("tmp")),
            base_url: Some(self.place.url()),
            key: Some(ClaudeKey::new("no-key-at-all")),
            ..ClaudeOptions::new(session, text("state"))
        }
    }

    /// Starts a new conversation that allows everything.
    pub(crate) fn start(&self) -> Driven {
        self.start_with(&self.options(Session::New(fresh())))
    }

    /// Starts the program and waits until it is ready.
    pub(crate) fn start_with(&self, options: &ClaudeOptions) -> Driven {
        let mut agent = self.spawn(options);
        agent.open();
        agent.until("ready", |event| matches!(event, AgentEvent::Ready(_)));
        agent
    }

    /// Starts the program; nothing is said to it yet.
    pub(crate) fn spawn(&self, options: &ClaudeOptions) -> Driven {
        let mut argv = named(PROGRAM);
        argv.extend(command_line(options, true));
        let home = ("HOME".to_owned(), self.place.path("home").display().to_string());
        self.place.spawn_started(Started {
            argv,
            env: environment(options, &[home]),
            files: Vec::new(),
            codec: Box::new(ClaudeCodec::new(options, offers(), number())),
        })
    }
}

/// The tool that we offer.
fn offers() -> Vec<ToolOffer> {
    let schema = json!({ "type": "object", "properties": { "status": { "type": "string" } }, "required": ["status"] });
    vec![ToolOffer {
        name: "report".to_owned(),
        tool: "report".to_owned(),
        summary: "Says how far the work is.".to_owned(),
        schema,
        class: EffectClass::Pure,
        source: "drivetrain".to_owned(),
        changed: false,
    }]
}

/// The id of a conversation that nobody had before.
pub(crate) fn fresh() -> String {
    let hex = format!("{:032x}", number());
    format!("{}-{}-4{}-8{}-{}", &hex[..8], &hex[8..12], &hex[13..16], &hex[17..20], &hex[20..])
}

fn number() -> u128 {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = u128::from(COUNT.fetch_add(1, Ordering::Relaxed));
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    (u128::from(std::process::id()) << 96) | ((now.as_nanos() & 0xffff_ffff_ffff) << 32) | count
}

fn version() -> String {
    let words = named(PROGRAM);
    let output = Command::new(&words[0]).args(&words[1..]).arg("--version").output().unwrap();
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}
