//! Receipts of this journal. A receipt is made of the records of its task each time it is asked for, and never read from
//! a file: nothing that a worker writes can become one.

mod again;

use std::sync::Arc;

use journal::{Chain, Journal, JournalError, Loaded};
use machine::driver::Registry;
use machine::event::EventKind;
use machine::id::TaskId;
use machine::input::{Input, Signal, Stamped};
use machine::receipt::{Link, Receipt, Record, not_verified};
use machine::state::State;
use machine::task::Criterion;
use machine::time::Timestamp;
use machine::verdict::Verdict;
use machine::{Output, step};

use crate::host::{FoldError, decode};
pub use again::{Origin, run_again};

/// Why there is no receipt.
#[derive(Debug, thiserror::Error)]
pub enum ReceiptError {
    /// The task did not end verified.
    #[error("task {task} has no receipt: {standing}")]
    NotVerified {
        /// The task.
        task: TaskId,
        /// How it stands.
        standing: String,
    },
    /// The journal cannot be read, or has no such task.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// A record cannot be read.
    #[error(transparent)]
    Fold(#[from] FoldError),
}

/// The receipt of a task, from the records of a journal.
pub fn of_task(
    journal: &dyn Journal,
    registry: Arc<Registry>,
    task: &TaskId,
) -> Result<Receipt, ReceiptError> {
    let records = journal.records(task.as_str(), 0)?;
    of_records(task, &Loaded { snapshot: None, records }, registry)
}

/// Takes the opinions of judges into a verdict. They are asked once everything else has passed, so they come in records
/// of their own.
fn hear_judges(output: &Output, verdict: &mut Verdict, state: &State) {
    for event in &output.events {
        let EventKind::CriterionChecked { result } = &event.kind else { continue };
        let criteria = state.data().spec.criteria();
        let judges = criteria.iter().zip(&mut verdict.results);
        for (criterion, place) in judges {
            // Judges with the same model and the same question are told apart by nobody.
            if matches!(criterion, Criterion::Judge { .. }) && criterion.title() == result.title {
                place.clone_from(result);
            }
        }
    }
}

/// What a journal says of a receipt that somebody brings.
pub fn compare(
    journal: &dyn Journal,
    registry: Arc<Registry>,
    receipt: &Receipt,
) -> Result<Record, ReceiptError> {
    match of_task(journal, registry, &receipt.task) {
        Ok(own) => {
            let differences = receipt.differences(&own);
            Ok(if differences.is_empty() {
                Record::Agrees
            } else {
                Record::Contradicted(differences)
            })
        }
        Err(ReceiptError::NotVerified { standing, .. }) => Ok(Record::NotVerified(standing)),
        Err(ReceiptError::Journal(JournalError::UnknownTask(_))) => Ok(Record::Unknown),
        Err(error @ (ReceiptError::Journal(_) | ReceiptError::Fold(_))) => Err(error),
    }
}

/// The receipt of a task, from all of its records.
pub fn of_records(
    task: &TaskId,
    loaded: &Loaded,
    registry: Arc<Registry>,
) -> Result<Receipt, ReceiptError> {
    let mut state = State::new(task.clone(), registry);
    let mut chain = Chain::start(task.as_str());
    let mut verdict = Verdict::default();
    let mut receipt = None;
    for record in &loaded.records {
        let wrong = |reason| FoldError::Record {
            task: task.clone(),
            n: record.n,
            version: record.version,
            reason,
        };
        if record.version > machine::MACHINE_VERSION {
            return Err(wrong("it was written by a newer drivetrain".to_owned()).into());
        }
        let input = decode(&record.body).map_err(wrong)?;
        chain = chain.next(record.n, record.time, record.version, &record.body);
        if let Input::Signal(Signal::Verified(_, Ok(seen))) = &input {
            verdict = seen.clone();
        }
        let checks = matches!(&input, Input::Signal(Signal::Verified(..)));
        let output = step(&mut state, Stamped { time: Timestamp(record.time), input });
        if !checks {
            hear_judges(&output, &mut verdict, &state);
        }
        if not_verified(&state.data().phase).is_some() {
            receipt = None;
        } else if receipt.is_none() {
            // This very record made it verified: what comes after, if anything, changes nothing of that.
            let link = Link { record: record.n, chain: chain.hex() };
            receipt = Some(Receipt::of(state.data(), state.driver_name(), &verdict, link));
        }
    }
    let standing = match receipt {
        Some(Ok(receipt)) => return Ok(receipt),
        Some(Err(reason)) => reason,
        None => not_verified(&state.data().phase).unwrap_or_default(),
    };
    Err(ReceiptError::NotVerified { task: task.clone(), standing })
}
