//! What was said last in a chat, for somebody who comes back to it.

use std::collections::VecDeque;
use std::sync::Arc;

use journal::{Journal, Loaded};
use machine::driver::Registry;
use machine::event::EventKind;
use machine::id::TaskId;
use runtime::host::Host;
use view::transcript::{Detail, Transcript};
use view::{Line, Tone};

/// So many things that were said are told again.
const SAID: usize = 6;

/// The lines shown of each.
const LINES: usize = 12;

/// The last things that were said, oldest first.
pub(crate) fn lines(journal: &dyn Journal, registry: &Arc<Registry>, task: &TaskId) -> Vec<Line> {
    let detail = Detail { starts: false, inner: false, output: 0, failure: 0, change: 0 };
    let mut transcript = Transcript::new(detail);
    let mut said: VecDeque<Vec<Line>> = VecDeque::new();
    let mut hear = |output: machine::Output| {
        for event in &output.events {
            let mut lines = transcript.lines(event);
            let is_speech = matches!(
                event.kind,
                EventKind::Told { .. }
                    | EventKind::NoteQueued { .. }
                    | EventKind::ModelReplied { .. }
            );
            if !is_speech || lines.is_empty() {
                continue;
            }
            let left_out = lines.len().saturating_sub(LINES);
            if left_out > 0 {
                lines.truncate(LINES);
                lines.push(Line::new(Tone::Faint, format!("  … {left_out} more lines")));
            }
            said.push_back(lines);
            if said.len() > SAID {
                said.pop_front();
            }
        }
    };
    // What cannot be told again is no reason not to go on.
    if let Ok(records) = journal.records(task.as_str(), 0) {
        let loaded = Loaded { snapshot: None, records };
        let _ = Host::fold(task, &loaded, Arc::clone(registry), false, &mut hear);
    }
    said.into_iter().flatten().collect()
}
