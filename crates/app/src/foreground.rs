//! Drives tasks in the foreground: shows what happens, puts questions to the person, hears signals, and ends
//! with a summary and an exit code. The supervisor runs on the main thread; everything else beside it.

use std::collections::{BTreeMap, BTreeSet};
use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use machine::Event;
use machine::driver::Registry;
use machine::event::EventKind;
use machine::id::TaskId;
use machine::receipt::Receipt;
use machine::state::{Ask, Phase};
use machine::stream::StreamEvent;
use machine::task::{DriverSpec, Outcome};
use runtime::home::Home;
use runtime::host::Host;
use runtime::inbox::Inbox;
use runtime::room::Room;
use runtime::station::Station;
use runtime::supervisor::Notice;
use serde::Serialize;
use serde_json::Value;
use signal_hook::consts::SIGINT;
use view::story::Story;
use view::stream::live::{Live, Speaker};
use view::transcript::{Detail, Transcript};
use view::why::{self, Subject};
use view::{Line, Tone};

use crate::args::ScreenArgs;
use crate::commands::{children, receipt};
use crate::error::CommandError;
use crate::locate::Records;
use crate::prompt::reader::{Reader, Shown};
use crate::prompt::{self, News, chat};
use crate::screen::Screen;
use crate::{left_behind, locate, output, recall, signals};

/// How a run is watched.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Watching {
    json: bool,
    /// Whether the live stream is printed too.
    stream: bool,
    quiet: bool,
    person: Person,
    part: Part,
}

/// What a person's lines are to a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// Nothing: it decides by itself, and asks only what must be asked.
    Watches,
    /// Its moves.
    Decides,
    /// One side of a conversation.
    Talks,
}

impl Part {
    /// A person's part in a task with this driver, at the top or inside a composite.
    pub(crate) fn in_driver(driver: &DriverSpec) -> Part {
        let is_chat = |name: &str, config: &Value| name == "llm" && config["chat"] == true;
        if is_chat(&driver.name, &driver.config) {
            return Part::Talks;
        }
        let mut decides = false;
        let mut config = driver.config.clone();
        // A tree that is too deep was refused before it got here.
        let _ =
            machine::driver::composite::visit(&driver.name, &mut config, &mut |name, config| {
                decides |= name == "user" || is_chat(name, config);
                Ok(())
            });
        if decides { Part::Decides } else { Part::Watches }
    }
}

/// Who answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Person {
    Nobody,
    AtTerminal,
    /// The lines of standard input.
    AtInput,
}

impl Watching {
    /// How to watch tasks in which a person has this part.
    pub(crate) fn new(args: &ScreenArgs, json: bool, part: Part) -> Result<Watching, CommandError> {
        if args.stream && !json {
            return Err(CommandError::usage("--stream needs --json")
                .hint("on a terminal you can read along without it"));
        }
        let person = if args.unattended {
            Person::Nobody
        } else if output::is_terminal() && !json {
            Person::AtTerminal
        } else if part != Part::Watches {
            Person::AtInput
        } else {
            Person::Nobody
        };
        Ok(Watching { json, stream: args.stream, quiet: args.quiet, person, part })
    }

    /// Whether somebody is there to answer.
    pub(crate) fn attended(&self) -> bool {
        self.person != Person::Nobody
    }

    /// How much is told.
    fn detail(&self, screen: &Screen) -> Detail {
        let decides = self.part == Part::Decides;
        Detail {
            starts: !screen.is_live(),
            inner: false,
            output: if decides { 200 } else { 5 },
            failure: if decides { 200 } else { 20 },
            change: if decides { 200 } else { 20 },
        }
    }

    /// Whether a person talks with the model, here and now.
    fn talks(&self) -> bool {
        self.attended() && self.part == Part::Talks
    }
}

/// Opens a station, lets `begin` put tasks into it, and drives them until all have been let go.
pub(crate) fn drive(
    home: &Home,
    registry: Arc<Registry>,
    watching: Watching,
    begin: impl FnOnce(&mut Station) -> Result<Vec<TaskId>, CommandError>,
) -> Result<u8, CommandError> {
    let mut station = Station::open(home, Arc::clone(&registry))?;
    let screen = if watching.json { Screen::Aside } else { Screen::start() };
    let seen = Arc::new(Mutex::new(Seen::default()));
    let (sender, news) = channel();
    let (shown, chat) = (Shown::default(), chat::Shared::default());
    let tasks = begin(&mut station)?;
    let (mut asking, mut transcripts) = (BTreeSet::new(), BTreeMap::new());
    for state in tasks.iter().filter_map(|task| Some(&station.supervisor.host(task)?.state)) {
        // A task that begins introduces itself.
        if state.data().phase != Phase::New && !watching.json && !watching.quiet {
            let goal = view::text::visible(&state.data().spec.goal);
            screen.lines(vec![Line::new(
                Tone::Strong,
                format!("task {}: {goal} (goes on)", state.id()),
            )]);
            if watching.talks() {
                let journal = station.supervisor.journal();
                screen.lines(recall::lines(journal, &registry, state.id()));
            }
        }
        let (workspace, driver) = (state.data().workspace.clone(), state.driver_spec());
        let transcript = Transcript::new(watching.detail(&screen));
        let transcript = transcript.going_on(workspace, driver.agent().map(str::to_owned));
        transcripts.insert(state.id().clone(), transcript);
        for ask in state.asks() {
            asking.insert(state.id().clone());
            // The prompt is not there yet; what is sent waits for it.
            let number = shown.next();
            let _ =
                sender.send(News::Asked { task: state.id().clone(), ask, shown: false, number });
        }
    }
    let stopping = Arc::new(AtomicBool::new(false));
    let mut watcher = Watcher {
        watching,
        many: tasks.len() > 1,
        tasks: tasks.clone(),
        asking,
        screen: screen.clone(),
        home: home.root().to_owned(),
        seen: Arc::clone(&seen),
        news: watching.attended().then_some(sender),
        stopping: Arc::clone(&stopping),
        shown: shown.clone(),
        chat: chat.clone(),
        transcripts,
        live: BTreeMap::new(),
    };
    let reads_along = watcher.reads_along();
    let watch = Box::new(move |notice: &Notice<'_>| watcher.hear(notice));
    match reads_along {
        true => station.supervisor.follow(watch),
        false => station.supervisor.observe(watch),
    }
    let at_terminal = watching.person == Person::AtTerminal;
    let talks = tasks.first().filter(|_| watching.talks()).cloned();
    let interrupts = talks.clone().filter(|_| at_terminal).map(|task| (task, chat.leaving.clone()));
    let heard = (!watching.json).then(|| screen.clone());
    listen(station.inbox.clone(), stopping, heard, interrupts)?;
    let terminal = at_terminal.then(|| rustix::termios::tcgetattr(std::io::stdin()).ok());
    if watching.attended() {
        let (inbox, screen, root) = (station.inbox.clone(), screen.clone(), home.root().to_owned());
        let attend = move || match talks {
            Some(task) => {
                let reader = Reader::open(chat::source(at_terminal, &root), shown);
                chat::attend(&task, reader, &news, &inbox, &screen, &chat);
            }
            None => {
                let reader = Reader::open(prompt::source(at_terminal, &root), shown);
                prompt::attend(reader, &news, &inbox, &screen);
            }
        };
        std::thread::Builder::new().name("prompt".to_owned()).spawn(attend).map_err(|error| {
            CommandError::environment(format!("cannot start a thread: {error}"))
        })?;
    }
    let ran = station.supervisor.run();
    screen.flush();
    if let Some(Some(modes)) = terminal {
        // The prompt may still be waiting for a key, with the terminal as it needs it.
        let _ = rustix::termios::tcsetattr(
            std::io::stdin(),
            rustix::termios::OptionalActions::Now,
            &modes,
        );
    }
    ran?;
    let seen = std::mem::take(&mut *seen.lock().unwrap_or_else(PoisonError::into_inner));
    let code = conclude(&station, &registry, watching, &tasks, seen);
    let left = station.supervisor.outcomes().keys().filter(|task| !tasks.contains(task));
    let children: Vec<TaskId> = left.cloned().collect();
    drop(station);
    for child in children {
        // One that outlived its parent's wait has not been charged.
        children::report_end(&child, watching.json);
    }
    code
}

/// What is left to tell when the run is over.
#[derive(Default)]
struct Seen {
    ends: BTreeMap<TaskId, (Outcome, String, Story)>,
    lost: Vec<(TaskId, String)>,
}

/// Prints the summaries; the exit code is the highest of the tasks'.
fn conclude(
    station: &Station,
    registry: &Arc<Registry>,
    watching: Watching,
    tasks: &[TaskId],
    seen: Seen,
) -> Result<u8, CommandError> {
    // Who was cancelled because a rival won has done its part.
    let lost = |task: &&TaskId| {
        let end = seen.ends.get(*task);
        end.is_some_and(|(_, reason, _)| machine::contest::is_loss(reason))
    };
    let codes = tasks
        .iter()
        .filter(|task| !lost(task))
        .filter_map(|task| station.supervisor.outcomes().get(task))
        .map(|outcome| outcome.exit_code());
    let code = codes.max().unwrap_or(0);
    if !watching.json {
        for (task, (outcome, reason, story)) in &seen.ends {
            let lines = match tasks.len() {
                1 if watching.talks() && *outcome == Outcome::Waiting => vec![Line::new(
                    Tone::Ask,
                    format!("the chat waits: drivetrain chat --resume {task} goes on"),
                )],
                1 => summary(station, registry, task, *outcome, reason, story)?,
                _ => vec![Line::new(
                    view::transcript::outcome_tone(*outcome),
                    format!(
                        "{task} {}: {}",
                        view::transcript::outcome_words(*outcome),
                        view::text::short(reason, 100)
                    ),
                )],
            };
            output::lines(&lines);
        }
    }
    match seen.lost.first() {
        Some((task, reason)) => Err(CommandError::environment(format!(
            "task {task} was lost: {reason}"
        ))
        .hint(format!("another process drives it; watch it with drivetrain log {task} --follow"))),
        None => Ok(code),
    }
}

fn summary(
    station: &Station,
    registry: &Arc<Registry>,
    task: &TaskId,
    outcome: Outcome,
    reason: &str,
    story: &Story,
) -> Result<Vec<Line>, CommandError> {
    let folded;
    let state = match station.supervisor.last().filter(|host| host.state.id() == task) {
        Some(host) => &host.state,
        None => {
            let loaded = station.supervisor.journal().load(task.as_str())?;
            folded = Host::fold(task, &loaded, Arc::clone(registry), true, drop)
                .map_err(|error| CommandError::environment(error.to_string()))?;
            &folded.state
        }
    };
    let standing = state.standing();
    let receipt = match outcome {
        Outcome::Verified => receipt::named(station.supervisor.journal(), registry, task),
        _ => None,
    };
    let subject = Subject {
        data: state.data(),
        standing: &standing,
        driver: state.driver_name(),
        same: why::same(&state.driver_spec()),
        story,
        driven_by: None,
        interrupted: false,
        stopped: &[],
        full: None,
        receipt: receipt.as_ref().map(Receipt::short),
        applied: None,
        now: locate::now(),
    };
    Ok(why::summary(&subject, outcome, reason))
}

/// Hears what happens, on the supervisor's thread.
struct Watcher {
    watching: Watching,
    many: bool,
    /// Those that are driven for their own sake; others are children that their steps begin.
    tasks: Vec<TaskId>,
    /// Those that wait for a person since before they were taken up.
    asking: BTreeSet<TaskId>,
    screen: Screen,
    /// Where drivetrain keeps what it has.
    home: PathBuf,
    seen: Arc<Mutex<Seen>>,
    news: Option<Sender<News>>,
    /// Nothing is asked any more once the process was told to stop.
    stopping: Arc<AtomicBool>,
    /// Counts what was asked.
    shown: Shown,
    /// What the person at a chat's prompt is saying.
    chat: chat::Shared,
    transcripts: BTreeMap<TaskId, Transcript>,
    /// What each task's model is just saying.
    live: BTreeMap<TaskId, Live>,
}

impl Watcher {
    fn hear(&mut self, notice: &Notice<'_>) {
        match notice {
            Notice::Event(event) => self.on_event(event),
            Notice::Streamed(task, events) => self.on_stream(task, events),
            Notice::Stalled(reason) => {
                self.tell(
                    Tone::Bad,
                    format!("the journal cannot be written, everything waits: {reason}"),
                );
            }
            Notice::Unstalled => {
                self.tell(Tone::Good, "the journal can be written again".to_owned())
            }
            Notice::Room(room) => {
                let (tone, text) = room_words(room);
                self.tell(tone, text);
            }
            Notice::Lost(task, reason) => {
                self.tell(Tone::Bad, format!("task {task} was lost: {reason}"));
                let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
                seen.lost.push(((*task).clone(), (*reason).to_owned()));
            }
        }
    }

    fn tell(&self, tone: Tone, text: String) {
        if self.watching.json {
            output::error(&serde_json::json!({ "v": 1, "notice": text }).to_string());
        } else {
            self.screen.lines(vec![Line::new(tone, view::text::visible(&text))]);
        }
    }

    fn on_event(&mut self, event: &Event) {
        if self.watching.json {
            output::json(&receipt::told(event, || {
                let records = Records::open().ok()?;
                receipt::named(&records.journal, &records.registry, &event.task)
            }));
        }
        let detail = self.watching.detail(&self.screen);
        let transcript =
            self.transcripts.entry(event.task.clone()).or_insert_with(|| Transcript::new(detail));
        let mut lines = transcript.lines(event);
        // Whoever sees a question can answer it.
        if let Some(news) = self.news.as_ref().filter(|_| !self.stopping.load(Ordering::Relaxed)) {
            pass_on(event, news, &self.shown);
        }
        if self.watching.talks() && self.watching.person == Person::AtTerminal {
            lines = self.beside_prompt(event, lines);
        }
        match (&event.kind, self.live.get_mut(&event.task)) {
            (EventKind::ModelReplied { .. } | EventKind::AgentSaid { .. }, Some(live)) => {
                lines = live.rest(lines);
            }
            (EventKind::ModelCalled { .. }, Some(live)) => live.begin(Speaker::Model),
            (EventKind::AgentAsked { .. }, _) => {
                self.live.entry(event.task.clone()).or_default().begin(Speaker::Agent);
            }
            _ => {}
        }
        if !self.watching.json && !self.watching.quiet && !self.is_repeated(event) {
            self.show(&event.task, lines);
        }
        if self.screen.is_live() && !self.watching.quiet {
            self.show_running(event);
            if self.tasks.contains(&event.task) {
                left_behind::look(event, &self.home, &self.screen);
            }
        }
        if let EventKind::TaskFinished { outcome, reason, .. } = &event.kind {
            self.live.remove(&event.task);
            let story =
                self.transcripts.remove(&event.task).map(|t| t.story().clone()).unwrap_or_default();
            if !self.tasks.contains(&event.task) {
                return;
            }
            let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            seen.ends.insert(event.task.clone(), (*outcome, reason.clone(), story));
        }
    }

    /// The lines of an event as they are best read above a chat's prompt, where what was typed stands already.
    fn beside_prompt(&self, event: &Event, mut lines: Vec<Line>) -> Vec<Line> {
        match &event.kind {
            EventKind::TaskStarted { .. } => {
                if let Some(first) = lines.first_mut() {
                    first.text = format!("task {}", event.task);
                }
            }
            EventKind::NoteQueued { note } if self.chat.said_here(&note.text) => {
                lines = vec![Line::new(Tone::Faint, "queued: it hears this before its next step")];
            }
            EventKind::ApprovalRequested { call, .. } => {
                let how =
                    format!("    y lets {call} run; n, or n and a reason, does not; ? lists more");
                lines.push(Line::new(Tone::Faint, how));
            }
            _ => {}
        }
        lines
    }

    /// What the summary or the prompt says as well.
    fn is_repeated(&self, event: &Event) -> bool {
        match &event.kind {
            EventKind::TaskFinished { .. } => self.tasks.contains(&event.task),
            EventKind::Told { .. } => self.watching.person == Person::AtTerminal,
            // In a chat the prompt is there all the time.
            EventKind::DecisionAwaited { prompt, .. } if self.watching.part == Part::Talks => {
                prompt == machine::driver::llm::YOUR_TURN
            }
            // The driver tells how each call ended; whoever watches has just seen it.
            EventKind::DecisionAwaited { prompt, .. } => prompt.lines().all(|line| {
                let tool = line.split(": ").next().unwrap_or_default();
                machine::tool::find(tool).is_some()
            }),
            _ => false,
        }
    }

    fn show(&self, task: &TaskId, mut lines: Vec<Line>) {
        if self.many || !self.tasks.contains(task) {
            lines.iter_mut().for_each(|line| line.text = format!("{task} {}", line.text));
        }
        self.screen.lines(lines);
    }

    /// Whether anything is done with what is just being said.
    fn reads_along(&self) -> bool {
        self.watching.stream || self.shows_words()
    }

    fn shows_words(&self) -> bool {
        !self.watching.json && !self.watching.quiet && self.screen.is_live()
    }

    /// On a terminal, a person reads along: each line of the model's or the agent's text as it is finished, and what it is doing.
    fn on_stream(&mut self, task: &TaskId, events: &[StreamEvent]) {
        if self.watching.stream {
            for stream in events {
                output::json(&StreamLine { v: 1, task, stream });
            }
        }
        if !self.shows_words() {
            return;
        }
        let live = self.live.entry(task.clone()).or_default();
        let (lines, doing) = (live.push(events), live.doing());
        self.show(task, lines);
        if let Some(doing) = doing {
            self.screen.doing(doing);
        }
    }

    fn show_running(&self, event: &Event) {
        let what = match &event.kind {
            EventKind::ToolStarted { .. } | EventKind::ToolEnded { .. } => {
                let running = self
                    .transcripts
                    .values()
                    .flat_map(|transcript| transcript.story().running.iter());
                let titles: Vec<String> =
                    running.map(|(call, running)| format!("{call} {}", running.title)).collect();
                match titles.as_slice() {
                    [] => None,
                    [one] => Some(one.clone()),
                    [first, more @ ..] => Some(format!("{first} (and {} more)", more.len())),
                }
            }
            EventKind::ModelCalled { model, .. } => {
                Some(format!("{} thinks", view::text::visible(model)))
            }
            EventKind::ModelReplied { .. } | EventKind::ModelFailed { .. } => None,
            EventKind::AgentAsked { agent, .. } => {
                Some(format!("{} works", view::text::visible(agent)))
            }
            EventKind::AgentSaid { .. } => Some("the agent works".to_owned()),
            EventKind::AgentEnded { .. } => None,
            EventKind::Claimed { .. } => Some("checking the acceptance criteria".to_owned()),
            // Nothing happens before the person answers.
            EventKind::Attached { .. } if self.asking.contains(&event.task) => None,
            EventKind::Attached { .. } => Some("starting".to_owned()),
            EventKind::TimerAwaited { reason, .. } => Some(format!("waiting: {reason}")),
            EventKind::DecisionAwaited { .. }
            | EventKind::VerdictFailed { .. }
            | EventKind::WorkspaceOpened { .. }
            | EventKind::TaskFinished { .. } => None,
            _ => return,
        };
        self.screen.running(what);
    }
}

/// What is said of work that waits for room on the disk.
pub(crate) fn room_words(room: &Room) -> (Tone, String) {
    match room {
        Room::Missing(reason) => {
            (Tone::Bad, format!("there is no room to keep the files, so it waits: {reason}"))
        }
        Room::Found => (Tone::Good, "it does not wait for room any more".to_owned()),
    }
}

/// A line of the live stream in `--json`.
#[derive(Serialize)]
pub(crate) struct StreamLine<'a> {
    pub(crate) v: u8,
    pub(crate) task: &'a TaskId,
    pub(crate) stream: &'a StreamEvent,
}

/// Tells the prompt what concerns it.
fn pass_on(event: &Event, news: &Sender<News>, shown: &Shown) {
    let task = event.task.clone();
    let asked =
        |ask| News::Asked { task: event.task.clone(), ask, shown: true, number: shown.next() };
    let heard = match &event.kind {
        EventKind::ApprovalRequested { call, tool, input, reason, hash, part } => {
            asked(Ask::Approval {
                call: *call,
                tool: tool.clone(),
                input: Arc::clone(input),
                reason: reason.clone(),
                hash: *hash,
                part: part.clone(),
            })
        }
        EventKind::QuestionAsked { call, question, choices } => asked(Ask::Question {
            call: *call,
            question: question.clone(),
            choices: choices.clone(),
        }),
        EventKind::CallInDoubt { call, tool, input } => {
            asked(Ask::InDoubt { call: *call, tool: tool.clone(), input: Arc::clone(input) })
        }
        EventKind::DecisionAwaited { prompt, question } => {
            asked(Ask::Decision { number: *question, prompt: prompt.clone() })
        }
        EventKind::Escalated { cause, reason, question } => asked(Ask::Escalation {
            number: *question,
            cause: cause.clone(),
            reason: reason.clone(),
        }),
        EventKind::ApprovalDecided { call, .. }
        | EventKind::ToolEnded { call, .. }
        | EventKind::CallResolved { call, .. } => {
            shown.settle(&task, *call);
            News::Settled(task, *call)
        }
        EventKind::Told { .. }
        | EventKind::NoteDelivered { .. }
        | EventKind::DriverChanged { .. } => News::Decided(task),
        _ => return,
    };
    // The prompt may have ended with its input.
    let _ = news.send(heard);
}

/// The first signal lets the running step end, the second does not wait. In a chat Ctrl-C stops what runs and not
/// the chat, until that is being left.
pub(crate) fn listen(
    inbox: Inbox,
    stopping: Arc<AtomicBool>,
    screen: Option<Screen>,
    chat: Option<(TaskId, Arc<AtomicBool>)>,
) -> Result<(), CommandError> {
    let failed = |error: std::io::Error| {
        CommandError::environment(format!("cannot listen for signals: {error}"))
    };
    let mut signals = signals::listen().map_err(failed)?;
    // Whoever hears signals must not wait for a reader of what is printed.
    let (say, to_say) = channel();
    let tell = move || {
        for text in to_say {
            if let Some(screen) = &screen {
                screen.lines(vec![Line::new(Tone::Ask, text)]);
            }
        }
    };
    std::thread::Builder::new().name("told".to_owned()).spawn(tell).map_err(failed)?;
    let hear = move || {
        let mut count = 0;
        for signal in signals.forever() {
            if signals::is_repeated(signal, count) {
                continue;
            }
            if let (Some((task, leaving)), SIGINT) = (&chat, signal) {
                let leaves = leaving.load(Ordering::Relaxed) || stopping.load(Ordering::Relaxed);
                if !leaves {
                    let stop = machine::Command::Interrupt { note: String::new() };
                    // Only refused if thousands wait already.
                    let _ = inbox.command(task.clone(), stop.into(), None);
                    continue;
                }
                count = 1;
            }
            stopping.store(true, Ordering::Relaxed);
            output::stop();
            inbox.stop();
            let again = if signal == SIGINT && std::io::stdin().is_terminal() {
                "Ctrl-C"
            } else {
                "a second signal"
            };
            let text = match count {
                0 => format!("letting the running step end; {again} stops it now"),
                _ => "stopping now".to_owned(),
            };
            count += 1;
            // It goes on for as long as this one does.
            let _ = say.send(text);
        }
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(hear).map(drop).map_err(failed)
}
