//! What a task does, as an editor is told it: events of the loop become updates, questions and ends of turns.

use std::collections::BTreeMap;
use std::sync::Arc;

use machine::Event;
use machine::change::{Change, changes};
use machine::driver::llm;
use machine::event::EventKind;
use machine::id::{CallId, TaskId};
use machine::message::StopReason;
use machine::policy::call_hash::CallHash;
use machine::stream::StreamEvent;
use machine::task::Outcome;
use machine::tool::Status;
use serde_json::Value;

use super::acp_server::{Diff, EditorEnd, EditorUpdate, Progress};

/// One thing that follows from an event.
#[derive(Debug, Clone, PartialEq)]
pub enum Told {
    /// Something to show.
    Update(EditorUpdate),
    /// May this call run? It was shown before.
    Ask {
        /// The call.
        call: CallId,
        /// What it is, for a person.
        title: String,
        /// Its parameters.
        input: Arc<Value>,
        /// What it would change.
        diffs: Vec<Diff>,
        /// What is shown, as the answer must name it.
        hash: CallHash,
    },
    /// A question that the next prompt answers.
    Question(CallId),
    /// The turn has ended.
    Ended(EditorEnd),
}

/// What was told so far of one task.
#[derive(Debug, Default)]
pub struct Telling {
    /// The task that is told of: a session may have several, and each counts its calls from the first.
    task: String,
    /// Calls that were shown and have not ended.
    shown: BTreeMap<CallId, Arc<Value>>,
    /// Whether the words of the answer under way, or of an agent's turn, were told as they came.
    streamed: bool,
    /// Whether such words of an agent were not recorded yet, ...
    unrecorded: bool,
    /// ... and were not when its next turn began: one that was stopped may say them late, and they are known.
    late: bool,
    /// The checks and how they came out.
    checks: Vec<(String, Progress)>,
    /// Why the turn cannot have gone well, if its end does not say so itself.
    spoilt: Option<EditorEnd>,
    /// The folder that it works in.
    folder: String,
}

impl Telling {
    /// Knows the checks of a task that begins, and gives the plan that they are.
    pub fn plan(&mut self, checks: Vec<String>) -> Option<EditorUpdate> {
        self.checks = checks.into_iter().map(|title| (title, Progress::Pending)).collect();
        (!self.checks.is_empty()).then(|| EditorUpdate::Plan(self.checks.clone()))
    }

    /// What is told of what a model or an agent is just saying.
    pub fn stream(&mut self, event: &StreamEvent) -> Option<EditorUpdate> {
        match event {
            StreamEvent::TextDelta { text, .. } => {
                (self.streamed, self.unrecorded) = (true, true);
                Some(EditorUpdate::Said(text.to_string()))
            }
            StreamEvent::ThinkingDelta { text, .. } => {
                (self.streamed, self.unrecorded) = (true, true);
                Some(EditorUpdate::Thought(text.to_string()))
            }
            _ => None,
        }
    }

    /// What is told of an event.
    pub fn hear(&mut self, event: &Event) -> Vec<Told> {
        let said = |text: &str| Told::Update(EditorUpdate::Said(text.to_owned()));
        if self.task != event.task.as_str() {
            self.task = event.task.as_str().to_owned();
        }
        match &event.kind {
            EventKind::WorkspaceOpened { workspace } => {
                self.folder = workspace.path.clone().unwrap_or_default();
                Vec::new()
            }
            EventKind::ModelReplied { text, stop, .. } => {
                let known = std::mem::take(&mut self.streamed);
                self.unrecorded = false;
                self.spoilt = (*stop == StopReason::Refusal).then_some(EditorEnd::Refused);
                if known || text.is_empty() { Vec::new() } else { vec![said(text)] }
            }
            EventKind::ModelFailed { kind, message, again_in: None } => {
                self.streamed = false;
                let (kind, why) = (kind.clone(), format!("the model failed ({kind}): {message}"));
                self.spoilt = Some(EditorEnd::Model { kind, why });
                Vec::new()
            }
            EventKind::ModelFailed { kind, message, again_in: Some(_) } => {
                self.streamed = false;
                let text = format!("the model failed ({kind}) and is asked again: {message}");
                vec![Told::Update(EditorUpdate::Thought(text))]
            }
            EventKind::ModelCalled { .. } | EventKind::AgentAsked { .. } => {
                (self.streamed, self.spoilt) = (false, None);
                self.late = std::mem::take(&mut self.unrecorded);
                Vec::new()
            }
            // More of its words may have come by now than this event has.
            EventKind::AgentSaid { .. } if self.streamed => {
                self.unrecorded = false;
                Vec::new()
            }
            EventKind::AgentSaid { .. } if std::mem::take(&mut self.late) => Vec::new(),
            EventKind::AgentSaid { text, thinking } => {
                let thought = Told::Update(EditorUpdate::Thought(thinking.clone()));
                let told = [(thinking, thought), (text, said(text))].into_iter();
                told.filter(|(words, _)| !words.is_empty()).map(|(_, told)| told).collect()
            }
            EventKind::ApprovalRequested { call, tool, input, reason, hash, .. } => {
                self.ask(*call, tool, input, reason, *hash)
            }
            EventKind::ToolStarted { call, .. } if self.shown.contains_key(call) => {
                vec![Told::Update(EditorUpdate::CallBegan { id: self.name(*call) })]
            }
            EventKind::ToolStarted { call, tool, label, input, .. } => {
                vec![self.show(*call, title(tool, label, input), tool, input, true)]
            }
            EventKind::ToolEnded { call, result, .. } => {
                let Some(input) = self.shown.remove(call) else { return Vec::new() };
                let ok = result.status == Status::Ok;
                let diffs = if ok { diffs(&input, &self.folder) } else { Vec::new() };
                let (id, text) = (self.name(*call), result.text.clone());
                vec![Told::Update(EditorUpdate::CallEnded { id, ok, text, diffs })]
            }
            EventKind::CriterionChecked { result } => {
                let progress = if result.passed { Progress::Done } else { Progress::Pending };
                match self.checks.iter_mut().find(|(known, _)| *known == result.title) {
                    Some((_, known)) => *known = progress,
                    None => self.checks.push((result.title.clone(), progress)),
                }
                let mut told = vec![Told::Update(EditorUpdate::Plan(self.checks.clone()))];
                // A plan has no word for it, and none for why.
                if result.fails() {
                    let why = format!("a check failed: {}\n{}\n", result.title, result.evidence);
                    told.push(Told::Update(EditorUpdate::Thought(why)));
                }
                told
            }
            EventKind::QuestionAsked { call, question, choices } => {
                let choices: String =
                    choices.iter().map(|choice| format!("\n- {choice}")).collect();
                vec![
                    said(&format!("{question}{choices}")),
                    Told::Question(*call),
                    Told::Ended(EditorEnd::Done),
                ]
            }
            EventKind::Escalated { reason, .. } => vec![said(reason), Told::Ended(EditorEnd::Done)],
            EventKind::CallInDoubt { call, tool, .. } => self.doubt(&event.task, *call, tool),
            EventKind::Claimed { .. } if !self.checks.is_empty() => {
                self.checks.iter_mut().for_each(|(_, progress)| *progress = Progress::Running);
                vec![Told::Update(EditorUpdate::Plan(self.checks.clone()))]
            }
            EventKind::DecisionAwaited { prompt, .. } => match self.spoilt.take() {
                Some(end) => vec![Told::Ended(end)],
                None if prompt.starts_with(llm::LIMIT_REACHED) => {
                    vec![said(prompt), Told::Ended(EditorEnd::Limit)]
                }
                None => vec![Told::Ended(EditorEnd::Done)],
            },
            EventKind::TaskFinished { outcome, reason, .. } => {
                match (end(*outcome, reason), self.spoilt.take()) {
                    // The reason to stop has no words of its own.
                    (EditorEnd::Limit, _) => vec![said(reason), Told::Ended(EditorEnd::Limit)],
                    (EditorEnd::Failed(why), Some(EditorEnd::Model { kind, .. })) => {
                        vec![Told::Ended(EditorEnd::Model { kind, why })]
                    }
                    (end, _) => vec![Told::Ended(end)],
                }
            }
            _ => Vec::new(),
        }
    }

    /// What is told of calls that are being stopped, at once: nobody hears of them once the prompt has ended.
    pub fn stop(&mut self) -> Vec<EditorUpdate> {
        let shown = std::mem::take(&mut self.shown);
        let ended = |call| EditorUpdate::CallEnded {
            id: self.name(call),
            ok: false,
            text: "cancelled".to_owned(),
            diffs: Vec::new(),
        };
        shown.into_keys().map(ended).collect()
    }

    /// What is told of a call that a person is asked about.
    pub fn ask(
        &mut self,
        call: CallId,
        tool: &str,
        input: &Arc<Value>,
        reason: &str,
        hash: CallHash,
    ) -> Vec<Told> {
        let title = title(tool, "", input);
        let mut told = Vec::new();
        if !self.shown.contains_key(&call) {
            told.push(self.show(call, title.clone(), tool, input, false));
        }
        let title = if reason.is_empty() { title } else { format!("{title} ({reason})") };
        let diffs = diffs(input, &self.folder);
        told.push(Told::Ask { call, title, input: Arc::clone(input), diffs, hash });
        told
    }

    /// What is told of a call of which nobody knows whether it ran: the protocol has no question for that.
    pub fn doubt(&self, task: &TaskId, call: CallId, tool: &str) -> Vec<Told> {
        let words = format!(
            "nobody knows whether {call} ({tool}) ran: drivetrain resolve {task} says what became of it"
        );
        vec![Told::Update(EditorUpdate::Said(words)), Told::Ended(EditorEnd::Done)]
    }

    /// What no other call of the session is called.
    pub fn name(&self, call: CallId) -> String {
        format!("{}/{call}", self.task)
    }

    fn show(
        &mut self,
        call: CallId,
        title: String,
        tool: &str,
        input: &Arc<Value>,
        runs: bool,
    ) -> Told {
        self.shown.insert(call, Arc::clone(input));
        let (kind, input) = (kind(tool, input), (**input).clone());
        Told::Update(EditorUpdate::Call { id: self.name(call), title, kind, input, runs })
    }
}

/// What a person said, for a session that is loaded.
pub fn said_by_person(event: &Event) -> Option<&str> {
    match &event.kind {
        EventKind::TaskStarted { goal, .. } => Some(goal),
        EventKind::Told { line } => Some(line),
        EventKind::NoteQueued { note } if !note.text.is_empty() => Some(&note.text),
        _ => None,
    }
}

fn end(outcome: Outcome, reason: &str) -> EditorEnd {
    match outcome {
        Outcome::Verified | Outcome::Completed => EditorEnd::Done,
        Outcome::Cancelled => EditorEnd::Cancelled,
        Outcome::BudgetExhausted => EditorEnd::Limit,
        Outcome::Failed | Outcome::Stuck | Outcome::Waiting => EditorEnd::Failed(reason.to_owned()),
    }
}

fn title(tool: &str, label: &str, input: &Value) -> String {
    let words = ["command", "path", "pattern", "url", "question"];
    let what = words.iter().find_map(|word| input[word].as_str());
    // An agent may write several files at once.
    let what = what.or_else(|| input["paths"][0].as_str());
    // Some agents tell a command line only as the title of what they ask.
    let what = what.or_else(|| input["title"].as_str());
    match what {
        Some(what) => format!("{tool} {}", what.lines().next().unwrap_or_default()),
        None if label.is_empty() => tool.to_owned(),
        None => label.to_owned(),
    }
}

/// The protocol's word for what a tool does.
fn kind(tool: &str, input: &Value) -> &'static str {
    const KINDS: [&str; 8] =
        ["read", "edit", "delete", "move", "search", "execute", "think", "fetch"];
    match tool {
        "read" | "view" | "skeleton" => "read",
        "write" | "edit" | "patch" => "edit",
        "grep" | "glob" => "search",
        "shell" | "validate" | "validator.run" => "execute",
        "fetch" => "fetch",
        // A tool of an agent of the protocol, which says itself what it does.
        _ => KINDS.into_iter().find(|kind| input["kind"] == *kind).unwrap_or("other"),
    }
}

/// What a call changed, where its parameters say so.
fn diffs(input: &Value, folder: &str) -> Vec<Diff> {
    let diff = |change: Change| Diff {
        path: super::peer::from_folder(folder, &change.path),
        old: change.old,
        new: change.new,
    };
    changes(input).into_iter().map(diff).collect()
}

#[cfg(test)]
mod tests {
    use machine::time::Timestamp;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_patch_of_codex_is_shown_as_what_it_changed() {
        let changes = json!([
            { "path": "/w/hello.txt", "kind": { "type": "update", "move_path": null },
              "diff": "@@ -1,2 +1,2 @@\n-hello world\n+hello driver\n second line\n@@ -9 +9 @@\n-x\n+y\n" },
            { "path": "/w/new.txt", "kind": { "type": "add" }, "diff": "made by script\n" },
            { "path": "/w/old.txt", "kind": { "type": "delete" }, "diff": "gone\n" },
        ]);
        let input =
            json!({ "paths": ["/w/hello.txt"], "input": { "itemId": "i", "changes": changes } });
        let shown: Vec<(String, Option<String>, String)> =
            diffs(&input, "/w").into_iter().map(|diff| (diff.path, diff.old, diff.new)).collect();
        let diff = |path: &str, old: Option<&str>, new: &str| {
            (path.to_owned(), old.map(str::to_owned), new.to_owned())
        };
        assert_eq!(
            shown,
            [
                diff(
                    "/w/hello.txt",
                    Some("hello world\nsecond line\n"),
                    "hello driver\nsecond line\n"
                ),
                diff("/w/hello.txt", Some("x\n"), "y\n"),
                diff("/w/new.txt", None, "made by script\n"),
                diff("/w/old.txt", Some("gone\n"), ""),
            ]
        );
        assert_eq!(title("write", "codex fileChange", &input), "write /w/hello.txt");
    }

    #[test]
    fn words_that_came_before_a_stop_are_told_once_however_late_they_are_recorded() {
        let task = TaskId("t".to_owned());
        let heard = |telling: &mut Telling, kind: EventKind| {
            let event = Event { seq: 1, time: Timestamp(0), task: task.clone(), kind };
            telling.hear(&event).len()
        };
        let asked = || EventKind::AgentAsked { agent: "a".to_owned(), conversation: 1 };
        let said =
            |text: &str| EventKind::AgentSaid { text: text.to_owned(), thinking: String::new() };
        let piece = StreamEvent::TextDelta { index: 0, text: "I begin.".to_owned() };
        for is_late in [false, true] {
            let mut telling = Telling::default();
            heard(&mut telling, asked());
            assert!(telling.stream(&piece).is_some());
            if !is_late {
                assert_eq!(heard(&mut telling, said("I begin.")), 0);
            }
            heard(&mut telling, asked());
            if is_late {
                assert_eq!(heard(&mut telling, said("I begin.")), 0);
            }
            assert_eq!(heard(&mut telling, said("I go on.")), 1, "this one nobody knows yet");
        }
    }

    #[test]
    fn a_command_that_an_agent_tells_as_a_title_is_shown() {
        let input =
            json!({ "content": [], "kind": "execute", "locations": [], "title": "rm -r target" });
        assert_eq!(title("gemini.execute", "", &input), "gemini.execute rm -r target");
        assert_eq!(kind("gemini.execute", &input), "execute");
        assert_eq!(kind("gemini.execute", &json!({ "kind": "none of these" })), "other");
    }
}
