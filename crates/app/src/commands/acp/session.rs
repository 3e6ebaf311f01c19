//! What is known of each session, and what of its task the editor is told.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use machine::Command;
use machine::id::{CallId, TaskId};
use machine::input::Channel;
use machine::policy::call_hash::CallHash;
use machine::policy::grant::Scope;
use machine::state::Ask;
use runtime::agent::acp_server::EditorOrder;
use runtime::agent::acp_told::{Telling, Told};
use runtime::supervisor::Notice;

use super::{Named, Pipe, lock};

/// All sessions.
pub(super) type Sessions = Arc<Mutex<Named>>;

/// One session.
pub(super) struct Session {
    /// Its task; the last one, if there were several.
    pub(super) task: TaskId,
    /// How many tasks it has had.
    pub(super) tasks: u64,
    /// Where it works.
    pub(super) folder: PathBuf,
    /// Whether ends of turns belong to no prompt.
    pub(super) settling: bool,
    /// The prompt that is worked on, or was last, by what its end is told with.
    pub(super) prompt: String,
    /// The question that the next prompt answers.
    pub(super) question: Option<CallId>,
    /// Calls that are asked about, by what they were asked with.
    pub(super) asked: BTreeMap<String, (CallId, CallHash)>,
    /// What its editor was told so far.
    pub(super) telling: Telling,
}

impl Session {
    /// A session without a task.
    pub(super) fn new(folder: PathBuf) -> Session {
        Session {
            task: TaskId(String::new()),
            tasks: 0,
            folder,
            settling: false,
            prompt: String::new(),
            question: None,
            asked: BTreeMap::new(),
            telling: Telling::default(),
        }
    }
}

/// Tells the editor what happens, on the supervisor's thread.
pub(super) fn hear(notice: &Notice<'_>, sessions: &Sessions, pipe: &Pipe) {
    let task = match notice {
        Notice::Event(event) => &event.task,
        Notice::Streamed(task, _) => *task,
        Notice::Stalled(_) | Notice::Unstalled | Notice::Room(_) | Notice::Lost(..) => return,
    };
    let mut sessions = lock(sessions);
    let Some((name, session)) = sessions.iter_mut().find(|(_, known)| known.task == *task) else {
        return;
    };
    match notice {
        Notice::Streamed(_, events) => {
            for update in events.iter().filter_map(|event| session.telling.stream(event)) {
                pipe.update(name, update);
            }
        }
        Notice::Event(event) => {
            for told in session.telling.hear(event) {
                tell(told, name, session, pipe);
            }
        }
        Notice::Stalled(_) | Notice::Unstalled | Notice::Room(_) | Notice::Lost(..) => {}
    }
}

fn tell(told: Told, name: &str, session: &mut Session, pipe: &Pipe) {
    match told {
        Told::Update(update) => pipe.update(name, update),
        Told::Ask { call, title, input, diffs, hash } => {
            let key = format!("{}/{call}", session.task);
            session.asked.insert(key.clone(), (call, hash));
            pipe.tell(EditorOrder::Ask {
                session: name.to_owned(),
                key,
                call: session.telling.name(call),
                title,
                input: (*input).clone(),
                diffs,
            });
        }
        Told::Question(call) => session.question = Some(call),
        Told::Ended(_) if session.settling => {}
        Told::Ended(end) => {
            let (session, key) = (name.to_owned(), session.prompt.clone());
            pipe.tell(EditorOrder::Ended { session, key, end });
        }
    }
}

/// The id of a session's task: the first has the name of the session, and from that name those of all others follow,
/// so that whoever loads the session finds them.
pub(super) fn task_of(session: &str, number: u64) -> TaskId {
    match number {
        0 | 1 => TaskId(session.to_owned()),
        number => TaskId::keyed(&format!("session {session}"), &number.to_string()),
    }
}

/// What a task waits for that its editor does not know of, since it was asked in another process.
pub(super) fn ask_again(asks: Vec<Ask>, name: &str, session: &mut Session, pipe: &Pipe) {
    for ask in asks {
        match ask {
            Ask::Approval { call, tool, input, reason, hash, .. } => {
                if !session.asked.values().any(|(known, _)| *known == call) {
                    for told in session.telling.ask(call, &tool, &input, &reason, hash) {
                        tell(told, name, session, pipe);
                    }
                }
            }
            Ask::InDoubt { call, tool, .. } => {
                for told in session.telling.doubt(&session.task, call, &tool) {
                    tell(told, name, session, pipe);
                }
            }
            Ask::Question { .. }
            | Ask::Escalation { .. }
            | Ask::Decision { .. }
            | Ask::Child { .. } => {}
        }
    }
}

/// What an answer of the editor's person is to the task.
pub(super) fn answer(call: CallId, hash: CallHash, may: bool, always: bool) -> Command {
    let (hash, via) = (Some(hash), Some(Channel::Prompt));
    if !may {
        return Command::Deny { call, reason: "refused in the editor".to_owned(), hash, via };
    }
    let scope = if always { Scope::Task } else { Scope::Once };
    Command::Approve { call, scope, like: None, hash, via }
}
