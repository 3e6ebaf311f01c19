//! How an agent's process is started: its folder, its conversation, its walls and its variables.

use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use machine::agent::{AgentCall, AgentProgram, AgentProtocol};
use machine::id::TaskId;
use machine::policy::sandbox::Needs;
use wire::agent::login::Way;
use wire::agent::{Launch, Session};
use wire::gateway::Api;

use super::super::behind::Behind;
use super::super::client::Client;
use super::super::login::{self, Lent};
use super::super::{Turn, files, lock, version};
use super::hearing::Hearing;
use super::pipe::{self, Link, Out};
use super::{NotStarted, Process, Setting, absent};
use crate::beneath::Root;
use crate::home::Home;
use crate::process::{Cancel, Child, Containment, ProcessSpec};
use crate::providers::Secret;
use crate::redact;
use crate::sandbox::{Access, Program};
use crate::sha256::{Digest, hex};
use crate::whole_file;

/// The longest name of a conversation that is believed, in bytes.
const LONGEST_ID: u64 = 256;

/// How long a program may take until it can be asked.
const START_LIMIT: Duration = Duration::from_secs(90);

impl Process {
    /// Starts a program and waits until it can be asked.
    pub(in super::super) fn start(
        turn: &Turn,
        setting: &Setting,
        cancel: &Cancel,
    ) -> Result<Arc<Process>, NotStarted> {
        let call = &turn.call;
        let name = &call.program.name;
        let failed = |reason: String| NotStarted::Failed(format!("the agent {name}: {reason}"));
        let Folders { home, begun } = folders(setting, &turn.task, call).map_err(failed)?;
        let folder = turn.workspace.path.as_deref().map_or(home.as_path(), Path::new);
        let id = session_id(&turn.task, call);
        let begun = begun.join(call.conversation.to_string());
        // It may have begun in a process that died before anybody was told.
        let session = call.session.clone().or_else(|| noted(&begun, &id));
        let session = session.as_deref().map_or(Session::New(&id), Session::Resume);
        let behind = Behind::start(turn, setting).map_err(failed)?;
        let way = if behind.is_some() { Way::Own } else { login::way(&call.program) };
        let mut program = way.taken_by(&call.program);
        if behind.is_none() {
            go_to_own_addresses(&mut program);
        }
        // What it prints is searched for them.
        call.program.keys.iter().chain(&program.keys).for_each(|key| redact::learn_key(key));
        let (home_text, folder_text) = (text(&home), text(folder));
        let launch = Launch {
            program: &program,
            session,
            cost: call.cost,
            folder: &folder_text,
            home: &home_text,
            version: &version_of(turn, setting, folder, cancel),
            seed: seed(),
            gateway: behind.as_ref().map(Behind::address),
            tools: &turn.tools,
        };
        let started = wire::agent::start(&launch).map_err(failed)?;
        put(&home, &started.files).map_err(failed)?;
        let notes = Home::at(&setting.state).logins();
        login::rescue(&notes);
        let lent = match &way {
            Way::File(login, from) => Some(Lent::to(&home, login, from, &notes).map_err(failed)?),
            Way::Own | Way::Token(_) | Way::Missing(_) => None,
        };
        let spec = spec(turn, setting, &started, folder, &home, (behind.as_ref(), &program));
        let mut child = Child::spawn(spec).map_err(|error| failed(error.to_string()))?;
        let Some((stdin, stdout)) = child.take_pipes() else {
            return Err(failed("it has no pipes".to_owned()));
        };
        let metered = behind.as_ref().map(Behind::used).unwrap_or_default();
        let (later, unwritten) = channel();
        let stdin = Arc::new(stdin);
        let out = Out { stdin: Arc::clone(&stdin), later };
        let process = Arc::new(Process {
            program: Arc::clone(&call.program),
            model: Mutex::new(call.program.model.clone()),
            conversation: call.conversation,
            link: Mutex::new(Link { codec: started.codec, out: Some(out) }),
            unread: Arc::default(),
            child: Mutex::new(child),
            lent,
            behind,
            client: Client::new(turn, setting),
            hearing: Mutex::new(Hearing::new(call, &turn.tools, metered)),
            news: Condvar::new(),
        });
        pipe::attend(&process, stdin, stdout, unwritten)
            .map_err(|error| failed(error.to_string()))?;
        process.write(|codec| Ok(codec.open())).map_err(failed)?;
        process.await_ready(cancel)?;
        // From here on this conversation can only be resumed, by what the agent itself calls it.
        let session = lock(&process.hearing).session.clone().unwrap_or(id);
        let _ = std::fs::write(&begun, session);
        Ok(process)
    }

    fn await_ready(&self, cancel: &Cancel) -> Result<(), NotStarted> {
        let mut looked = Instant::now();
        let mut until = looked + START_LIMIT;
        let mut hearing = lock(&self.hearing);
        loop {
            until += absent(&mut looked).unwrap_or_default();
            if let Some(ended) = hearing.ended.take() {
                return Err(NotStarted::Ended(ended));
            }
            if hearing.ready {
                return Ok(());
            }
            if let Some(gone) = hearing.gone.clone() {
                drop(hearing);
                lock(&self.child).kill();
                return Err(NotStarted::Ended(self.broken(&gone)));
            }
            let reason = if cancel.is_triggered() {
                "it was stopped before it began".to_owned()
            } else if Instant::now() >= until {
                format!("it cannot be asked {} s after its start", START_LIMIT.as_secs())
            } else {
                hearing = self.wait(hearing);
                continue;
            };
            drop(hearing);
            lock(&self.child).kill();
            return Err(NotStarted::Failed(self.report(&reason)));
        }
    }
}

/// Whoever is given a key sends it where the operator says, as the gateway would.
fn go_to_own_addresses(program: &mut AgentProgram) {
    let has_key = |api: &Api| program.keys.iter().any(|key| key == api.key_variable());
    for api in Api::ALL.into_iter().filter(has_key).collect::<Vec<_>>() {
        let said = std::env::var(api.address_variable());
        if let Some(address) = said.ok().filter(|address| !address.trim().is_empty()) {
            program.env.entry(api.address_variable().to_owned()).or_insert(address);
        }
    }
}

/// The folders of one agent of a task.
struct Folders {
    /// Its own, for settings and conversations: the agent writes there what it likes, links too.
    home: PathBuf,
    /// Where we note which of its conversations have begun; the agent cannot write there.
    begun: PathBuf,
}

fn folders(setting: &Setting, task: &TaskId, call: &AgentCall) -> Result<Folders, String> {
    let mut name = call.program.name.clone();
    for step in &call.path {
        name.push_str(&format!("-{step}"));
    }
    // No task has a dot in its id.
    let of_task = |end: &str| setting.state.join("agents").join(format!("{task}{end}"));
    let folders = [of_task("").join(&name), of_task(".begun").join(&name)];
    let [home, begun] = folders.map(|folder| {
        whole_file::make_folder(&folder)
            .and_then(|()| folder.canonicalize())
            .map_err(|error| format!("cannot make the folder {}: {error}", folder.display()))
    });
    Ok(Folders { home: home?, begun: begun? })
}

/// Writes files into an agent's own folder. It may have put links in their places, which must not lead us to files that
/// it cannot reach itself.
fn put(home: &Path, files: &[(String, String)]) -> Result<(), String> {
    let failed = |why: &dyn std::fmt::Display| {
        format!("cannot write what it needs into its folder {}: {why}", home.display())
    };
    let root = Root::open_own(home).map_err(|error| failed(&error))?;
    for (file, content) in files {
        root.write(file, content.as_bytes(), None).map_err(|error| failed(&error))?;
    }
    Ok(())
}

/// What a conversation is resumed by that a process had begun; nothing if none had. The agent can write there, so what
/// cannot be a name counts as ours, and nothing is read that lies elsewhere.
fn noted(begun: &Path, id: &str) -> Option<String> {
    std::fs::symlink_metadata(begun).ok()?;
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC;
    let file = std::fs::OpenOptions::new().read(true).custom_flags(flags).open(begun);
    let mut noted = String::new();
    let read = file.and_then(|file| file.take(LONGEST_ID + 1).read_to_string(&mut noted));
    let is_name = |name: &str| {
        name.len() as u64 <= LONGEST_ID
            && name.starts_with(|first: char| first.is_ascii_alphanumeric())
            && name.chars().all(|c| c.is_ascii_graphic())
    };
    Some(if read.is_ok() && is_name(&noted) { noted } else { id.to_owned() })
}

/// The same for the same conversation, so that it is found again after a crash; in the form that agents expect.
fn session_id(task: &TaskId, call: &AgentCall) -> String {
    let mut hash = Digest::default();
    hash.add(task.as_str().as_bytes());
    hash.add(call.program.operator.as_bytes());
    hash.add(&call.conversation.to_le_bytes());
    for step in &call.path {
        hash.add(&step.to_le_bytes());
    }
    let mut bytes = hash.half();
    // Version 8, made as its maker likes; the variant that everybody uses.
    bytes[6] = (bytes[6] & 0x0f) | 0x80;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    let hex = hex(&bytes);
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

fn spec(
    turn: &Turn,
    setting: &Setting,
    started: &wire::agent::Started,
    folder: &Path,
    home: &Path,
    (behind, program): (Option<&Behind>, &AgentProgram),
) -> ProcessSpec {
    let variable = |name: &String| Some((name.clone(), std::env::var(name).ok()?));
    let mut spec = ProcessSpec::new(started.argv.iter().cloned());
    spec.cwd = Some(folder.to_owned());
    spec.env = program.pass.iter().filter_map(variable).collect();
    let secret = |(name, value): (String, String)| (name, Secret::new(&value));
    if behind.is_some() {
        // What stands for its key there is worth nothing anywhere else; its name makes it look like one.
        spec.secrets = started.env.iter().cloned().map(secret).collect();
        let others = program.keys.iter().filter(|key| !Behind::holds(key));
        spec.secrets.extend(others.filter_map(variable).map(secret));
    } else {
        spec.env.extend(started.env.iter().cloned());
        spec.secrets = program.keys.iter().filter_map(variable).map(secret).collect();
    }
    spec.mark = turn.task.as_str().to_owned();
    spec.mark_dir.clone_from(&setting.marks);
    let needs = program.needs(&turn.sandbox, behind.is_some());
    let files = files::of(&started.argv, folder);
    let box_of = Program {
        task: &turn.sandbox,
        needs: &needs,
        workspace: &turn.workspace,
        folder: None,
        access: Access::Write,
        state: Some(&setting.state),
        name: turn.task.as_str(),
        gate: None,
        own: Some(home),
        gateway: behind.and_then(Behind::in_box),
        files: &files,
    };
    spec.containment = box_of.containment(&Containment::Auto);
    spec
}

/// What the program says of its version; asked once for each program. One that does not say is held more strictly.
fn version_of(turn: &Turn, setting: &Setting, folder: &Path, cancel: &Cancel) -> String {
    let program = &turn.call.program;
    // It says so itself when it is greeted, and may not know the option.
    if program.protocol == AgentProtocol::Acp {
        return String::new();
    }
    // All of the command: the first word may only be what runs the program, such as node.
    let argv: Vec<String> =
        program.command.iter().cloned().chain(["--version".to_owned()]).collect();
    let needs = Needs { read: turn.sandbox.read.clone(), ..Needs::default() };
    let files = files::of(&argv, folder);
    let walls = Program {
        task: &turn.sandbox,
        needs: &needs,
        workspace: &turn.workspace,
        folder: None,
        access: Access::Read,
        state: Some(&setting.state),
        name: turn.task.as_str(),
        gate: None,
        own: None,
        gateway: None,
        files: &files,
    };
    let walls = walls.containment(&Containment::Auto);
    // Without a workspace its folder is its own, which is not there for this.
    let folder = if turn.workspace.path.is_some() { folder } else { Path::new("/") };
    let ask = || version::ask(&argv, folder, walls, cancel);
    version::known_here(&argv, folder, &setting.state, ask).unwrap_or_default()
}

/// Made by chance, for identifiers that must not come twice.
fn seed() -> u128 {
    let mut bytes = [0u8; 16];
    // Without chance there is still the clock: these identifiers are no secret.
    if getrandom::fill(&mut bytes).is_err() {
        let mut hash = Digest::default();
        hash.add(format!("{:?}", Instant::now()).as_bytes());
        bytes = hash.half();
    }
    u128::from_le_bytes(bytes)
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_is_given_files_whose_names_are_protected_elsewhere() {
        let folder = tempfile::tempdir().unwrap();
        put(folder.path(), &[(".gemini/settings.json".to_owned(), "{}".to_owned())]).unwrap();
        let written = std::fs::read_to_string(folder.path().join(".gemini/settings.json"));
        assert_eq!(written.unwrap(), "{}");
    }

    #[test]
    fn a_conversation_is_resumed_by_what_was_noted_of_it_and_by_nothing_that_lies_elsewhere() {
        let folder = tempfile::tempdir().unwrap();
        let begun = folder.path().join("conversation-1");
        assert_eq!(noted(&begun, "ours"), None);
        for (content, expected) in [
            ("thr_0d7a-1", "thr_0d7a-1"),
            ("", "ours"),
            ("--dangerously", "ours"),
            ("two words", "ours"),
            ("a\nb", "ours"),
        ] {
            std::fs::write(&begun, content).unwrap();
            assert_eq!(noted(&begun, "ours").as_deref(), Some(expected), "{content:?}");
        }
        std::fs::write(&begun, "x".repeat(300)).unwrap();
        assert_eq!(noted(&begun, "ours").as_deref(), Some("ours"));
        std::fs::write(folder.path().join("private"), "hush").unwrap();
        std::fs::remove_file(&begun).unwrap();
        std::os::unix::fs::symlink(folder.path().join("private"), &begun).unwrap();
        assert_eq!(noted(&begun, "ours").as_deref(), Some("ours"));
    }
}
