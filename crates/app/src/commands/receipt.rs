//! `drivetrain receipt`: the evidence for a verified task, made of its records.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use journal::Journal;
use machine::Event;
use machine::event::EventKind;
use machine::id::TaskId;
use machine::receipt::Receipt;
use machine::task::Outcome;
use runtime::receipt::{self, ReceiptError};
use serde_json::{Value, json};
use view::{Line, Tone};

use crate::args::ReceiptArgs;
use crate::error::{CommandError, Kind};
use crate::locate::Records;
use crate::locate::moment;
use crate::output;

/// Runs the command.
pub(crate) fn run(args: &ReceiptArgs, json: bool) -> Result<u8, CommandError> {
    let records = Records::open()?;
    let id = records.find(&args.id)?;
    let receipt = of_task(&records, &id)?;
    if let Some(path) = &args.output {
        write(path, &receipt.write())?;
    }
    match (&args.output, json) {
        (None, true) => output::raw(receipt.write().as_bytes()),
        (Some(path), true) => {
            output::json(&json!({ "v": 1, "receipt": receipt.id, "task": id, "file": path }));
        }
        (Some(path), false) => {
            let path = view::text::visible(&path.to_string_lossy());
            let said = format!("receipt {} of task {id} is in {path}", receipt.short());
            output::lines(&[Line::new(Tone::Good, said)]);
        }
        (None, false) => {
            let mut lines = view::receipt::lines(&receipt, &moment(receipt.finished));
            lines.extend(view::receipt::next(&receipt));
            output::lines(&lines);
        }
    }
    Ok(0)
}

/// The receipt of a task of this journal.
pub(crate) fn of_task(records: &Records, id: &TaskId) -> Result<Receipt, CommandError> {
    let registry = Arc::clone(&records.registry);
    receipt::of_task(&records.journal, registry, id).map_err(CommandError::from)
}

impl From<ReceiptError> for CommandError {
    fn from(error: ReceiptError) -> CommandError {
        let message = error.to_string();
        match error {
            ReceiptError::NotVerified { task, .. } => CommandError::new(Kind::Refused, message)
                .hint("only a task whose criteria all passed is given one")
                .hint(format!("drivetrain why {task} says more about how it stands")),
            ReceiptError::Journal(error) => error.into(),
            ReceiptError::Fold(_) => CommandError::environment(message),
        }
    }
}

/// Writes a new file; one that is there is left alone.
fn write(path: &Path, text: &str) -> Result<(), CommandError> {
    let made = std::fs::File::create_new(path).and_then(|mut file| file.write_all(text.as_bytes()));
    made.map_err(|error| {
        let shown = path.display();
        match error.kind() {
            std::io::ErrorKind::AlreadyExists => {
                CommandError::usage(format!("{shown} exists, and is not overwritten"))
                    .hint("name another file, or remove it first")
            }
            _ => CommandError::environment(format!("cannot write {shown}: {error}")),
        }
    })
}

/// An event as JSON; the end of a verified task names its receipt, which only the journal knows.
pub(crate) fn told(event: &Event, journal: impl FnOnce() -> Option<Receipt>) -> Value {
    let mut value = json!(event);
    let verified = matches!(event.kind, EventKind::TaskFinished { outcome: Outcome::Verified, .. });
    if let Some(receipt) = verified.then(journal).flatten() {
        value["receipt"] = json!(receipt.id);
    }
    value
}

/// The receipt of a task, for those who only name it: whoever wants to know why there is none asks for it.
pub(crate) fn named(
    journal: &dyn Journal,
    registry: &Arc<machine::driver::Registry>,
    task: &TaskId,
) -> Option<Receipt> {
    receipt::of_task(journal, Arc::clone(registry), task).ok()
}
