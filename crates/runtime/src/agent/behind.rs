//! The gateway of one agent's process: made where the agent uses a key that the gateway knows, unless somebody says
//! otherwise.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use machine::agent::AgentProgram;
use machine::policy::gateway::{KeyFound, is_used, may_replay};
use machine::policy::sandbox::{Level, Network};
use wire::gateway::Api;

use super::Turn;
use super::process::Setting;
use crate::gateway::{Gateway, Limits, Listen, Options, Upstream};
use crate::home::Home;
use crate::inbox::Inbox;
use crate::model::Traffic;
use crate::providers::{Environment, Providers, Secret};

/// A gateway, and how its agent comes there.
#[derive(Debug)]
pub(super) struct Behind {
    gateway: Gateway,
    /// For an agent with a loopback of its own.
    folder: Option<(PathBuf, u16)>,
}

impl Behind {
    /// Makes a gateway for the program of a turn, if it is to have one.
    pub(super) fn start(turn: &Turn, setting: &Setting) -> Result<Option<Behind>, String> {
        let program = &turn.call.program;
        let replays = matches!(setting.traffic, Traffic::Replay(_));
        let (found, upstreams) = upstreams(program, replays);
        if replays {
            may_replay(program.gateway, found)?;
        } else if !is_used(program.gateway, found)? {
            return Ok(None);
        }
        let open = program.needs(&turn.sandbox, true).network == Network::Open;
        let folder = match turn.sandbox.level {
            Level::Off => None,
            Level::Full | Level::Reduced if open => None,
            Level::Full | Level::Reduced => Some((own_folder(setting)?, own_port()?)),
        };
        let listen = match &folder {
            Some((folder, port)) => Listen::Folder(folder, *port),
            None => Listen::Loopback,
        };
        let environment = Environment::default().judged_by(&Home::at(&setting.state));
        let providers = Providers::of(&turn.folder, &environment);
        let options = Options {
            upstreams,
            task: turn.task.as_str().to_owned(),
            traffic: setting.traffic.clone(),
            // Without the files that name prices, none is known.
            price: Box::new(move |model| providers.as_ref().ok()?.facts(model).price),
            limits: Limits::default(),
        };
        let gateway = Gateway::start(listen, options)
            .map_err(|error| format!("the gateway to its models cannot be started: {error}"))?;
        Ok(Some(Behind { gateway, folder }))
    }

    /// Whether this variable holds a key that a gateway keeps from its agent.
    pub(super) fn holds(key: &str) -> bool {
        Api::ALL.iter().any(|api| api.key_variable() == key)
    }

    /// What the agent is told in place of its provider's address.
    pub(super) fn address(&self) -> &str {
        self.gateway.address()
    }

    /// Whether the agent has asked through it.
    pub(super) fn used(&self) -> Arc<AtomicBool> {
        self.gateway.used()
    }

    /// What its sandbox needs to lead there.
    pub(super) fn in_box(&self) -> Option<(&Path, u16)> {
        self.folder.as_ref().map(|(folder, port)| (folder.as_path(), *port))
    }

    /// A turn begins: its requests are the loop's to judge.
    pub(super) fn open(&self, turn: &Turn, inbox: &Inbox) {
        let (task, effect, inbox) = (turn.task.clone(), turn.effect, inbox.clone());
        self.gateway.open(Arc::new(move |news| {
            inbox.news(task.clone(), effect, news);
        }));
    }

    /// The turn has ended.
    pub(super) fn close(&self) {
        self.gateway.close();
    }

    /// Whether a request waits for our word.
    pub(super) fn waits(&self) -> bool {
        self.gateway.waits()
    }

    /// When a model last said something to the agent.
    pub(super) fn heard(&self) -> Instant {
        self.gateway.heard()
    }

    /// Says whether a request may be sent.
    pub(super) fn answer(&self, request: u64, may: Result<(), String>) {
        self.gateway.answer(request, may);
    }
}

/// What is known of an agent's key.
pub(super) fn key_found(program: &AgentProgram) -> KeyFound {
    upstreams(program, false).0
}

/// The providers that an agent has keys for, as its variables say; where nobody is asked, all that it names keys of.
fn upstreams(program: &AgentProgram, replays: bool) -> (KeyFound, Vec<Upstream>) {
    let named = |api: &Api| program.keys.iter().any(|key| key == api.key_variable());
    let known: Vec<Api> = Api::ALL.into_iter().filter(named).collect();
    let set = |name: &str| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
    let upstreams: Vec<Upstream> = known
        .iter()
        .filter_map(|api| {
            let key = set(api.key_variable()).or(replays.then(|| "none".to_owned()))?;
            let key = Secret::new(&key);
            let own = program.env.get(api.address_variable()).cloned();
            let address = own.or_else(|| set(api.address_variable()));
            let address = address.unwrap_or_else(|| api.address().to_owned());
            Some(Upstream { api: *api, address, key })
        })
        .collect();
    let found = match (known.is_empty(), upstreams.is_empty()) {
        (true, _) => KeyFound::Unknown,
        (false, true) => KeyFound::Unset,
        (false, false) => KeyFound::Yes,
    };
    (found, upstreams)
}

/// A folder for the socket, beside the marks of processes: whoever forgets a dead owner forgets both. It is made with the
/// gateway.
fn own_folder(setting: &Setting) -> Result<PathBuf, String> {
    let name = format!("gateway-{:016x}", u64::from_le_bytes(random()?));
    Ok(setting.marks.clone().unwrap_or_else(std::env::temp_dir).join(name))
}

/// A port of the agent's own loopback. Nothing else is there when it starts, so any will do.
fn own_port() -> Result<u16, String> {
    let [low, high, ..] = random()?;
    Ok(20_000 + u16::from_le_bytes([low, high]) % 10_000)
}

fn random() -> Result<[u8; 8], String> {
    let mut bytes = [0u8; 8];
    getrandom::fill(&mut bytes).map_err(|error| format!("no chance is to be had: {error}"))?;
    Ok(bytes)
}
