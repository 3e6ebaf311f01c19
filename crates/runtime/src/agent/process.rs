//! One agent's process: a reader and a writer of its own from the start to the end, a codec between bytes and events,
//! and at most one turn that hears what is said. Nobody but the writer waits for the process to read.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use machine::agent::{
    AgentCall, AgentEnd, AgentEvent, AgentFault, AgentNews, AgentOrder, AgentProgram,
    AgentProtocol, AgentTurn,
};
use machine::id::{EffectId, TaskId};
use machine::input::Signal;
use machine::message::Usage;
use machine::stream::StreamEvent;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use sha2::{Digest, Sha256};
use wire::agent::claude::OWN_SERVER;
use wire::agent::{AgentCodec, Launch, Session};

use super::behind::Behind;
use super::{Turn, lock};
use crate::inbox::Inbox;
use crate::live::Feed;
use crate::model::Traffic;
use crate::process::{Cancel, Child, Containment, Exit, ProcessSpec, Streams, run, write_all};
use crate::providers::Secret;
use crate::sandbox::{Access, Program};

/// How long a program may take until it can be asked.
const START_LIMIT: Duration = Duration::from_secs(90);
/// How long a program may take to say its version.
const VERSION_LIMIT: Duration = Duration::from_secs(20);
/// How long an agent may be silent at work, if its file does not say.
const IDLE: Duration = Duration::from_secs(600);
/// How long a turn that was stopped may take to end before its process is ended.
const INTERRUPT_GRACE: Duration = Duration::from_secs(5);
/// How long a process may take to end by itself once its input is closed.
const END_GRACE: Duration = Duration::from_secs(2);
/// How often a turn looks whether somebody stopped it.
const GLANCE: Duration = Duration::from_millis(100);
/// Lines that nobody understands before the process is ended.
const MALFORMED_LIMIT: u64 = 64;
/// Messages that nobody knows, in one turn, before the process is ended.
const UNKNOWN_LIMIT: u64 = 100_000;
/// How many bytes it may say in one turn.
const SAID_LIMIT: u64 = 1 << 30;
/// How many bytes may wait for it to read them.
const UNREAD_LIMIT: usize = 64 << 20;
/// Calls that it asked about and that have not ended, as far as they are remembered.
const ASKED_KEPT: usize = 4096;
/// How much of its error output a report shows, in characters from the end.
const STDERR_SHOWN: usize = 2000;
/// How much of what a tool of its own printed goes to the journal, in characters.
const RESULT_KEPT: usize = 2000;

/// What all agents of a runtime have in common.
#[derive(Debug)]
pub(super) struct Setting {
    /// The folder of this program's own state.
    pub(super) state: PathBuf,
    /// Where processes are noted.
    pub(super) marks: Option<PathBuf>,
    /// Whether what passes a gateway is written down.
    pub(super) traffic: Traffic,
}

/// Why there is no process to be asked.
#[derive(Debug)]
pub(super) enum NotStarted {
    /// It said so itself, in a way that has a name.
    Ended(AgentTurn),
    /// For a person.
    Failed(String),
}

#[derive(Debug)]
pub(super) struct Process {
    program: Arc<AgentProgram>,
    conversation: u32,
    link: Mutex<Link>,
    /// How many bytes wait for it to read them.
    unread: Arc<AtomicUsize>,
    child: Mutex<Child>,
    /// The gateway to its models; after the process itself, which is gone first.
    behind: Option<Behind>,
    hearing: Mutex<Hearing>,
    /// Something was heard that somebody may wait for.
    news: Condvar,
}

/// The way to the process. Bytes are handed to the writer under this lock, so they are in the codec's order.
#[derive(Debug)]
struct Link {
    codec: Box<dyn AgentCodec>,
    /// To the writer; its input is closed once there is none.
    out: Option<Sender<Vec<u8>>>,
}

/// Why there is no process any more.
#[derive(Debug, Clone)]
struct Gone {
    fault: AgentFault,
    why: String,
}

impl Gone {
    fn new(fault: AgentFault, why: impl Into<String>) -> Gone {
        Gone { fault, why: why.into() }
    }

    /// What the end of its output and of itself says.
    fn by_end(exit: Option<Exit>, malformed: u64) -> Gone {
        let Some(exit) = exit else {
            let why =
                format!("it closed its output, and had not ended {} s later", END_GRACE.as_secs());
            return Gone::new(AgentFault::Timeout, why);
        };
        // Whoever stands between reports a signal as 128 and its number, as shells do.
        let signal = exit
            .signal
            .or(exit.code.filter(|code| (129..=192).contains(code)).map(|code| code - 128));
        match (signal, exit.code) {
            (Some(signal), _) => {
                Gone::new(AgentFault::Killed, format!("it was killed by signal {signal}"))
            }
            (None, Some(0)) if malformed > 0 => {
                Gone::new(AgentFault::Malformed, "it ended with what nobody understands")
            }
            (None, code) => {
                Gone::new(AgentFault::Exit, format!("it exited with {}", code.unwrap_or(-1)))
            }
        }
    }
}

/// What was heard.
#[derive(Debug)]
struct Hearing {
    ready: bool,
    session: Option<String>,
    listener: Option<Listener>,
    /// How the turn ended that was asked for last.
    ended: Option<AgentTurn>,
    /// Why there is no process any more.
    gone: Option<Gone>,
    /// What cannot be passed over; whoever reads ends the process.
    broke: Option<Gone>,
    /// Questions that it waits for us to answer.
    owed: u64,
    /// When it last said anything.
    heard: Instant,
    /// What it cost while nobody listened.
    unpaid: Vec<(Usage, Option<f64>)>,
    malformed: u64,
    /// Its models were asked through a gateway, which counts what they cost.
    metered: Arc<AtomicBool>,
    /// Messages that nobody knows, and bytes, of the turn.
    unknown: u64,
    said: u64,
    /// Every call of every tool is asked about; those that were.
    asked: Option<BTreeSet<Arc<str>>>,
}

/// Who hears what is said in a turn.
#[derive(Debug)]
struct Listener {
    task: TaskId,
    effect: EffectId,
    inbox: Inbox,
    feed: Feed,
    /// Whether it is known that the agent was told what it was asked.
    taken: bool,
    /// The words of the answer that is under way.
    words: String,
}

impl Listener {
    fn tell(&self, news: AgentNews) {
        self.inbox.signal(self.task.clone(), Signal::AgentSaid(self.effect, news).into());
    }
}

impl Process {
    /// Starts a program and waits until it can be asked.
    pub(super) fn start(
        turn: &Turn,
        setting: &Setting,
        cancel: &Cancel,
    ) -> Result<Arc<Process>, NotStarted> {
        let call = &turn.call;
        let name = &call.program.name;
        let failed = |reason: String| NotStarted::Failed(format!("the agent {name}: {reason}"));
        let home = own_folder(setting, &turn.task, call).map_err(failed)?;
        let folder = turn.workspace.path.as_deref().map_or(home.as_path(), Path::new);
        let id = session_id(&turn.task, call);
        let begun = home.join(format!("conversation-{}", call.conversation));
        // It may have begun in a process that died before anybody was told.
        let session = match &call.session {
            Some(session) => Session::Resume(session),
            None if begun.exists() => Session::Resume(&id),
            None => Session::New(&id),
        };
        let behind = Behind::start(turn, setting).map_err(failed)?;
        let (home_text, folder_text) = (text(&home), text(folder));
        let launch = Launch {
            program: &call.program,
            session,
            folder: &folder_text,
            home: &home_text,
            version: &version(&call.program, cancel),
            seed: seed(),
            gateway: behind.as_ref().map(Behind::address),
        };
        let started = wire::agent::start(&launch).map_err(failed)?;
        for (file, content) in &started.files {
            let path = home.join(file);
            let written = path.parent().map_or(Ok(()), std::fs::create_dir_all);
            written
                .and_then(|()| std::fs::write(&path, content))
                .map_err(|error| failed(format!("cannot write {}: {error}", path.display())))?;
        }
        let spec = spec(turn, setting, &started, folder, &home, behind.as_ref());
        let mut child = Child::spawn(spec).map_err(|error| failed(error.to_string()))?;
        let Some((stdin, stdout)) = child.take_pipes() else {
            return Err(failed("it has no pipes".to_owned()));
        };
        let metered = behind.as_ref().map(Behind::used).unwrap_or_default();
        let (out, unwritten) = channel();
        let asks_all = call.program.protocol == AgentProtocol::Claude;
        let process = Arc::new(Process {
            program: Arc::clone(&call.program),
            conversation: call.conversation,
            link: Mutex::new(Link { codec: started.codec, out: Some(out) }),
            unread: Arc::default(),
            child: Mutex::new(child),
            behind,
            hearing: Mutex::new(Hearing {
                ready: false,
                session: call.session.clone(),
                listener: None,
                ended: None,
                gone: None,
                broke: None,
                owed: 0,
                heard: Instant::now(),
                unpaid: Vec::new(),
                malformed: 0,
                metered,
                unknown: 0,
                said: 0,
                asked: asks_all.then(BTreeSet::new),
            }),
            news: Condvar::new(),
        });
        let thread = || std::thread::Builder::new().name("agent".to_owned());
        let (reader, writer) = (Arc::downgrade(&process), Arc::downgrade(&process));
        let unread = Arc::clone(&process.unread);
        thread()
            .spawn(move || read(&reader, &stdout))
            .and_then(|_| thread().spawn(move || write(&writer, &stdin, &unwritten, &unread)))
            .map_err(|error| failed(error.to_string()))?;
        process.write(|codec| Ok(codec.open())).map_err(failed)?;
        process.await_ready(cancel)?;
        // From here on this conversation can only be resumed.
        let _ = std::fs::write(&begun, id);
        Ok(process)
    }

    fn await_ready(&self, cancel: &Cancel) -> Result<(), NotStarted> {
        let until = Instant::now() + START_LIMIT;
        let mut hearing = lock(&self.hearing);
        loop {
            if let Some(ended) = hearing.ended.take() {
                return Err(NotStarted::Ended(ended));
            }
            if hearing.ready {
                return Ok(());
            }
            let reason = if let Some(gone) = &hearing.gone {
                gone.why.clone()
            } else if cancel.is_triggered() {
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

    fn wait<'a>(
        &self,
        hearing: std::sync::MutexGuard<'a, Hearing>,
    ) -> std::sync::MutexGuard<'a, Hearing> {
        self.news.wait_timeout(hearing, GLANCE).unwrap_or_else(PoisonError::into_inner).0
    }

    /// Whether this process can be asked for the turn.
    pub(super) fn can_go_on(&self, call: &AgentCall) -> bool {
        self.is_alive() && self.conversation == call.conversation && self.program == call.program
    }

    pub(super) fn is_alive(&self) -> bool {
        lock(&self.hearing).gone.is_none()
    }

    /// Asks for a turn and waits for its end.
    pub(super) fn turn(
        &self,
        turn: &Turn,
        inbox: &Inbox,
        cancel: &Cancel,
    ) -> Result<AgentTurn, String> {
        {
            let mut hearing = lock(&self.hearing);
            let feed = inbox.feed(turn.task.clone(), turn.effect);
            let listener = Listener {
                task: turn.task.clone(),
                effect: turn.effect,
                inbox: inbox.clone(),
                feed,
                taken: false,
                words: String::new(),
            };
            let metered = hearing.metered.load(Ordering::Relaxed);
            for (usage, usd) in hearing.unpaid.drain(..) {
                listener.tell(AgentNews::Spent { usage, usd, metered });
            }
            hearing.listener = Some(listener);
            hearing.ended = None;
            hearing.owed = 0;
            hearing.heard = Instant::now();
            (hearing.unknown, hearing.said) = (0, 0);
        }
        if let Some(behind) = &self.behind {
            behind.open(turn, inbox);
        }
        let order = AgentOrder::Prompt { text: turn.call.prompt.clone() };
        let asked = self.write(|codec| codec.order(order));
        let ended = match asked {
            Ok(()) => self.await_end(cancel),
            Err(reason) => Err(self.report(&reason)),
        };
        if let Some(behind) = &self.behind {
            behind.close();
        }
        lock(&self.hearing).listener = None;
        ended
    }

    fn await_end(&self, cancel: &Cancel) -> Result<AgentTurn, String> {
        let idle = self.program.idle.map_or(IDLE, |span| Duration::from_millis(span.0));
        let mut stopped: Option<Instant> = None;
        loop {
            let mut hearing = lock(&self.hearing);
            if let Some(ended) = hearing.ended.take() {
                return Ok(ended);
            }
            if let Some(gone) = hearing.gone.clone() {
                drop(hearing);
                return Ok(self.broken(&gone));
            }
            // Its time does not run while it waits for us.
            let waits = hearing.owed > 0 || self.behind.as_ref().is_some_and(Behind::waits);
            let silent = if waits { Duration::ZERO } else { hearing.heard.elapsed() };
            let is_late = stopped.is_some_and(|at| at.elapsed() >= INTERRUPT_GRACE);
            if is_late || silent >= idle {
                let why = match stopped {
                    Some(_) => "it was stopped, and did not end by itself".to_owned(),
                    None => format!("it said nothing for {} s", idle.as_secs()),
                };
                // Before it is killed: how it ended then is not why.
                let gone = Gone::new(AgentFault::Timeout, why);
                let gone = hearing.gone.get_or_insert(gone).clone();
                drop(hearing);
                lock(&self.child).kill();
                return Ok(self.broken(&gone));
            }
            if stopped.is_none() && cancel.is_triggered() {
                drop(hearing);
                stopped = Some(Instant::now());
                let _ = self.write(|codec| codec.order(AgentOrder::Interrupt));
                continue;
            }
            drop(self.wait(hearing));
        }
    }

    /// Tells it something in the middle of a turn.
    pub(super) fn tell(&self, order: AgentOrder) {
        if matches!(order, AgentOrder::Answer { .. } | AgentOrder::ToolResult { .. }) {
            let mut hearing = lock(&self.hearing);
            hearing.owed = hearing.owed.saturating_sub(1);
            hearing.heard = Instant::now();
        }
        // One that cannot be told any more is found to be gone by its reader.
        let _ = self.write(|codec| codec.order(order));
    }

    /// Says whether a request to a model may be sent.
    pub(super) fn let_ask(&self, request: u64, may: Result<(), String>) {
        if let Some(behind) = &self.behind {
            lock(&self.hearing).heard = Instant::now();
            behind.answer(request, may);
        }
    }

    /// The folder that it works in is gone, and so is it.
    pub(super) fn lose_folder(&self) -> AgentTurn {
        let gone =
            Gone::new(AgentFault::Workspace, "the folder that it works in is gone, or empty");
        lock(&self.hearing).gone.get_or_insert_with(|| gone.clone());
        lock(&self.child).kill();
        self.broken(&gone)
    }

    /// Lets it end by itself, then ends it.
    pub(super) fn finish(&self) {
        lock(&self.link).out = None;
        let mut child = lock(&self.child);
        if child.wait(END_GRACE).is_none() {
            child.kill();
        }
    }

    /// Hands over what is to be written; it is in order whoever writes.
    fn write(
        &self,
        bytes: impl FnOnce(&mut dyn AgentCodec) -> Result<Vec<u8>, String>,
    ) -> Result<(), String> {
        let mut link = lock(&self.link);
        let bytes = bytes(link.codec.as_mut())?;
        self.hand_over(&link, bytes)
    }

    fn hand_over(&self, link: &Link, bytes: Vec<u8>) -> Result<(), String> {
        if bytes.is_empty() {
            return Ok(());
        }
        let length = bytes.len();
        self.unread.fetch_add(length, Ordering::Relaxed);
        // A writer that is gone has found the process gone; the reader tells how.
        match &link.out {
            Some(out) if out.send(bytes).is_ok() => Ok(()),
            _ => Err("its input is closed".to_owned()),
        }
    }

    /// Takes what was read; why it is of no use any more, if it is not.
    fn hear(&self, bytes: &[u8]) -> Option<Gone> {
        let events = {
            let mut link = lock(&self.link);
            let mut reply = Vec::new();
            let events = link.codec.read(bytes, &mut reply);
            let _ = self.hand_over(&link, reply);
            events
        };
        lock(&self.hearing).said += bytes.len() as u64;
        self.take(events);
        let hearing = lock(&self.hearing);
        if hearing.broke.is_some() {
            return hearing.broke.clone();
        }
        let unread = self.unread.load(Ordering::Relaxed);
        let too_large = |why: String| Some(Gone::new(AgentFault::TooLarge, why));
        if hearing.malformed > MALFORMED_LIMIT {
            Some(Gone::new(AgentFault::Malformed, "it says what nobody understands"))
        } else if hearing.unknown > UNKNOWN_LIMIT {
            too_large(format!("it sent {} messages that nobody knows", hearing.unknown))
        } else if hearing.said > SAID_LIMIT {
            too_large(format!("it said more than {} MB in one turn", SAID_LIMIT >> 20))
        } else if unread > UNREAD_LIMIT {
            too_large(format!("it asks and does not read: {} MB wait for it", unread >> 20))
        } else {
            None
        }
    }

    fn take(&self, events: Vec<AgentEvent>) {
        let mut refused = Vec::new();
        {
            let mut hearing = lock(&self.hearing);
            hearing.heard = Instant::now();
            for event in events {
                hearing.take(event, &mut refused);
            }
        }
        self.news.notify_all();
        for order in refused {
            let _ = self.write(|codec| codec.order(order));
        }
    }

    /// Its output has ended, or nobody listens to it any more.
    fn end(&self, broke: Option<Gone>) {
        let exit = {
            let mut child = lock(&self.child);
            let exit = match &broke {
                Some(_) => None,
                None => child.wait(END_GRACE),
            };
            child.kill();
            exit
        };
        let mut events = lock(&self.link).codec.end();
        // A turn that was cut off ended as the program did, and nobody but us knows how that was.
        events.retain(
            |event| !matches!(event, AgentEvent::TurnEnded(turn) if turn.end == AgentEnd::Failed),
        );
        self.take(events);
        let mut hearing = lock(&self.hearing);
        let gone = broke.unwrap_or_else(|| Gone::by_end(exit, hearing.malformed));
        hearing.gone.get_or_insert(gone);
        drop(hearing);
        self.news.notify_all();
    }

    /// It does not read what it is told.
    fn is_deaf(&self) {
        let gone = Gone::new(AgentFault::Timeout, "it does not read what it is told");
        lock(&self.hearing).gone.get_or_insert(gone);
        lock(&self.child).kill();
        self.news.notify_all();
    }

    /// The end of a turn whose process is gone.
    fn broken(&self, gone: &Gone) -> AgentTurn {
        AgentTurn {
            end: AgentEnd::Broken(gone.fault),
            text: self.report(&gone.why),
            ordered: true,
            refused: 0,
            background: 0,
            queued: 0,
        }
    }

    /// A failure with what may explain it.
    fn report(&self, why: &str) -> String {
        let mut report = why.to_owned();
        let malformed = lock(&self.hearing).malformed;
        if malformed > 0 {
            report.push_str(&format!(" ({malformed} of its lines were not understood)"));
        }
        let errors = lock(&self.child).stderr_tail();
        let errors = errors.trim_end();
        if !errors.is_empty() {
            let skipped = errors.chars().count().saturating_sub(STDERR_SHOWN);
            let end: String = errors.chars().skip(skipped).collect();
            report.push_str(&format!("\nthe end of its error output:\n{end}"));
        }
        report
    }
}

impl Hearing {
    fn take(&mut self, event: AgentEvent, refused: &mut Vec<AgentOrder>) {
        if let Some(listener) = &mut self.listener
            && !listener.taken
            && !matches!(event, AgentEvent::Malformed { .. } | AgentEvent::Unknown { .. })
        {
            listener.taken = true;
            listener.tell(AgentNews::Taken { session: self.session.clone() });
        }
        match event {
            AgentEvent::Ready(_) => self.ready = true,
            AgentEvent::Session { id } => {
                if let Some(listener) = &self.listener
                    && self.session.as_ref() != Some(&id)
                {
                    listener.tell(AgentNews::Taken { session: Some(id.clone()) });
                }
                self.session = Some(id);
            }
            AgentEvent::Stream(event) => {
                if let Some(listener) = &mut self.listener {
                    listener.stream(event);
                }
            }
            AgentEvent::Asks(ask) => match &self.listener {
                Some(listener) => {
                    if let Some(asked) = &mut self.asked {
                        asked.insert(Arc::clone(&ask.id));
                        if asked.len() > ASKED_KEPT {
                            asked.pop_first();
                        }
                    }
                    self.owed += 1;
                    listener.tell(AgentNews::Asks(ask));
                }
                None => refused.push(AgentOrder::Answer {
                    key: ask.key,
                    may: Err("nobody asked for this turn".to_owned()),
                }),
            },
            AgentEvent::Withdrawn { key } => {
                self.owed = self.owed.saturating_sub(1);
                if let Some(listener) = &self.listener {
                    listener.tell(AgentNews::Withdrawn { key });
                }
            }
            AgentEvent::ToolEnded { id, ok, text, tool } => {
                if ok && !self.was_asked(&id, &tool) {
                    let tool: String = tool.chars().take(80).collect();
                    let why = format!("it used the tool {tool:?} without asking");
                    self.broke.get_or_insert(Gone::new(AgentFault::Policy, why));
                }
                if let Some(listener) = &self.listener {
                    let text = text.chars().take(RESULT_KEPT).collect();
                    listener.tell(AgentNews::ToolEnded { id, ok, text });
                }
            }
            AgentEvent::Calls { key, tool, .. } => refused.push(AgentOrder::ToolResult {
                key,
                result: Err(format!("there is no tool {tool:?} here")),
            }),
            // What it claims is checked when nothing of it runs any more: see ARCHITECTURE.md.
            AgentEvent::WouldStop { key, .. } => {
                refused.push(AgentOrder::MayStop { key, missing: None });
            }
            AgentEvent::Spent { usage, usd } => match &self.listener {
                Some(listener) => {
                    let metered = self.metered.load(Ordering::Relaxed);
                    listener.tell(AgentNews::Spent { usage, usd, metered });
                }
                None => self.unpaid.push((usage, usd)),
            },
            AgentEvent::TurnEnded(turn) => {
                // What was said too late for this turn is answered by the next one, which begins by itself.
                let goes_on = turn.queued > 0 && turn.end == AgentEnd::Done;
                let counts = self.broke.is_none() && !goes_on;
                if counts && (turn.ordered || turn.end != AgentEnd::Done) {
                    self.ended = Some(turn);
                }
            }
            AgentEvent::Broke { fault, why } => {
                // An end that was said before is none.
                self.ended = None;
                self.broke.get_or_insert(Gone::new(fault, why));
            }
            AgentEvent::Malformed { .. } => self.malformed += 1,
            AgentEvent::Unknown { .. } => self.unknown += 1,
            AgentEvent::Helper { .. }
            | AgentEvent::Retries { .. }
            | AgentEvent::Compacted { .. }
            | AgentEvent::TurnBegan
            | AgentEvent::OrderFailed { .. } => {}
        }
    }

    /// Whether a call that ended had been asked about; true where not everything is.
    fn was_asked(&mut self, id: &Arc<str>, tool: &str) -> bool {
        let own = format!("mcp__{OWN_SERVER}__");
        self.asked.as_mut().is_none_or(|asked| asked.remove(id) || tool.starts_with(&own))
    }
}

impl Listener {
    fn stream(&mut self, event: StreamEvent) {
        match &event {
            StreamEvent::MessageStart { .. } => self.words.clear(),
            StreamEvent::TextDelta { text, .. } => self.words.push_str(text),
            StreamEvent::MessageStop if !self.words.trim().is_empty() => {
                let text = std::mem::take(&mut self.words);
                self.tell(AgentNews::Said { text });
            }
            _ => {}
        }
        self.feed.push(&mut vec![event]);
    }
}

/// The reader's life: everything that the process says, until it says nothing any more.
fn read(process: &Weak<Process>, stdout: &OwnedFd) {
    let mut chunk = vec![0u8; 64 * 1024];
    loop {
        match rustix::io::read(stdout, &mut chunk[..]) {
            Ok(0) => break,
            Ok(count) => {
                let Some(process) = process.upgrade() else { return };
                if let Some(broke) = process.hear(&chunk[..count]) {
                    return process.end(Some(broke));
                }
            }
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                let _ = poll(&mut [PollFd::new(stdout, PollFlags::IN)], None);
            }
            Err(_) => break,
        }
    }
    if let Some(process) = process.upgrade() {
        process.end(None);
    }
}

/// The writer's life: everything that the process is told, until there is nothing more, it is gone, or it is deaf.
fn write(
    process: &Weak<Process>,
    stdin: &OwnedFd,
    unwritten: &Receiver<Vec<u8>>,
    unread: &AtomicUsize,
) {
    for bytes in unwritten {
        let written = write_all(stdin, &bytes);
        unread.fetch_sub(bytes.len(), Ordering::Relaxed);
        if let Err(error) = written {
            if error.kind() == std::io::ErrorKind::TimedOut
                && let Some(process) = process.upgrade()
            {
                process.is_deaf();
            }
            return;
        }
    }
}

/// A folder of the agent's own, for settings and conversations; nobody else's.
fn own_folder(setting: &Setting, task: &TaskId, call: &AgentCall) -> Result<PathBuf, String> {
    let mut name = call.program.name.clone();
    for step in &call.path {
        name.push_str(&format!("-{step}"));
    }
    let folder = setting.state.join("agents").join(task.as_str()).join(name);
    let made =
        std::os::unix::fs::DirBuilderExt::mode(std::fs::DirBuilder::new().recursive(true), 0o700)
            .create(&folder);
    made.and_then(|()| folder.canonicalize())
        .map_err(|error| format!("cannot make the folder {}: {error}", folder.display()))
}

/// The same for the same conversation, so that it is found again after a crash; in the form that agents expect.
fn session_id(task: &TaskId, call: &AgentCall) -> String {
    let mut hash = Sha256::new();
    hash.update(task.as_str());
    hash.update(call.program.operator.as_bytes());
    hash.update(call.conversation.to_le_bytes());
    for step in &call.path {
        hash.update(step.to_le_bytes());
    }
    let mut bytes = [0u8; 16];
    bytes.copy_from_slice(&hash.finalize()[..16]);
    // Version 8, made as its maker likes; the variant that everybody uses.
    bytes[6] = (bytes[6] & 0x0f) | 0x80;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

fn spec(
    turn: &Turn,
    setting: &Setting,
    started: &wire::agent::Started,
    folder: &Path,
    home: &Path,
    behind: Option<&Behind>,
) -> ProcessSpec {
    let program = &turn.call.program;
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
    let files = super::files::of(&started.argv, folder);
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
fn version(program: &AgentProgram, cancel: &Cancel) -> String {
    // It says so itself when it is greeted, and may not know the option.
    if program.protocol == AgentProtocol::Acp {
        return String::new();
    }
    static KNOWN: Mutex<BTreeMap<Vec<String>, String>> = Mutex::new(BTreeMap::new());
    if let Some(known) = lock(&KNOWN).get(&program.command) {
        return known.clone();
    }
    // All of the command: the first word may only be what runs the program, such as node.
    let mut spec =
        ProcessSpec::new(program.command.iter().cloned().chain(["--version".to_owned()]));
    spec.timeout = Some(VERSION_LIMIT);
    spec.streams = Streams::Separate;
    let said = match run(spec, cancel) {
        Ok(finished) if finished.exit == Some(0) => finished.stdout.text().trim().to_owned(),
        _ => return String::new(),
    };
    lock(&KNOWN).insert(program.command.clone(), said.clone());
    said
}

/// Made by chance, for identifiers that must not come twice.
fn seed() -> u128 {
    let mut bytes = [0u8; 16];
    // Without chance there is still the clock: these identifiers are no secret.
    if getrandom::fill(&mut bytes).is_err() {
        let now = Instant::now();
        bytes.copy_from_slice(&Sha256::digest(format!("{now:?}"))[..16]);
    }
    u128::from_le_bytes(bytes)
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
