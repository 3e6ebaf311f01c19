//! What differs between the base and what was handed over.

use machine::verdict::{Touch, Touched};

use super::checkout::Context;
use crate::checkpoint::{Change, ChangeKind, Store};
use crate::workspace;

/// How many paths a verdict names.
const MOST_TOUCHED: usize = 1000;
/// How much of the patch a verdict holds, in bytes.
const MOST_PATCH: usize = 64 * 1024;

/// What differs, all of it.
#[derive(Debug, Default)]
pub(crate) struct Difference {
    /// By path, in order.
    pub(crate) changes: Vec<Change>,
    /// Lines added and removed.
    pub(crate) lines: u64,
    /// As a patch; bytes, since files are not always text.
    pub(crate) patch: Vec<u8>,
    /// The folder that the task was started in, below the top.
    pub(crate) prefix: String,
}

impl Difference {
    pub(super) fn between(
        context: &Context<'_>,
        base: &str,
        frozen: &str,
    ) -> Result<Difference, String> {
        let store = Store::open(context.claim.task, context.places.state_home, context.cancel)?;
        let changes = store.changes(base, frozen)?;
        let origin = workspace::origin(context.claim.task, context.places.state_home);
        let prefix = origin.map(|origin| origin.prefix).unwrap_or_default();
        if changes.is_empty() {
            return Ok(Difference { prefix, ..Difference::default() });
        }
        let lines = store.diff_lines(base, frozen)?;
        // One that is too long to be read whole is no use to a judge, and nothing else needs it.
        let patch = store.patch(base, frozen).unwrap_or_default();
        Ok(Difference { changes, lines, patch, prefix })
    }
}

/// The first changes, as a verdict names them.
pub(super) fn touched(changes: &[Change]) -> Vec<Touched> {
    all_touched(&changes[..changes.len().min(MOST_TOUCHED)])
}

/// Every change.
pub(super) fn all_touched(changes: &[Change]) -> Vec<Touched> {
    let touched = |change: &Change| Touched {
        path: change.path.to_string_lossy().into_owned(),
        how: match change.kind {
            ChangeKind::Added => Touch::Added,
            ChangeKind::Removed => Touch::Removed,
            ChangeKind::Changed => Touch::Changed,
        },
    };
    changes.iter().map(touched).collect()
}

/// The beginning of the patch, as text, with a word about what is missing.
pub(super) fn text(patch: &[u8]) -> String {
    if patch.len() <= MOST_PATCH {
        return String::from_utf8_lossy(patch).into_owned();
    }
    let cut =
        patch[..MOST_PATCH].iter().rposition(|byte| *byte == b'\n').map_or(MOST_PATCH, |n| n + 1);
    let missing = patch.len() - cut;
    format!(
        "{}[... {missing} more bytes of the patch ...]\n",
        String::from_utf8_lossy(&patch[..cut])
    )
}
