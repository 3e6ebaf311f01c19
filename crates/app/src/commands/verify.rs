//! `drivetrain verify`: whether a receipt is whole, whether the journal agrees, and whether it still holds.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use machine::receipt::{Again, Receipt, Record, Report};
use machine::task::{Criterion, CustomCheck};
use runtime::process::Cancel;
use runtime::receipt::{self, Origin};
use view::{Line, Tone, text};

use super::trust::{Answer, ask};
use crate::args::VerifyArgs;
use crate::error::CommandError;
use crate::locate::{self, Records};
use crate::output;

/// The largest file that is read as a receipt.
const LARGEST: u64 = 8 << 20;

/// Runs the command.
pub(crate) fn run(args: &VerifyArgs, json: bool) -> Result<u8, CommandError> {
    let records = Records::open()?;
    let receipt = receipt_of(&args.receipt, &records)?;
    let registry = Arc::clone(&records.registry);
    let record = receipt::compare(&records.journal, registry, &receipt)?;
    let again = match &record {
        Record::Contradicted(_) | Record::NotVerified(_) => Again::Refused,
        Record::Agrees => {
            let task = records.load(&receipt.task)?;
            let sandbox = &task.state.data().spec.sandbox;
            receipt::run_again(
                &receipt,
                Origin::Journal(sandbox),
                &records.home,
                &Cancel::default(),
            )
        }
        Record::Unknown => {
            consent(&receipt, args.yes, json)?;
            let folder = locate::folder()?;
            let origin = Origin::Elsewhere(Path::new(&folder));
            receipt::run_again(&receipt, origin, &records.home, &Cancel::default())
        }
    };
    let report = Report { receipt, record, again };
    if json {
        output::json(&view::receipt::report_json(&report));
    } else {
        output::lines(&view::receipt::report(&report));
    }
    Ok(report.conclusion().exit_code())
}

/// The receipt of a file, or of a task of this journal.
fn receipt_of(named: &str, records: &Records) -> Result<Receipt, CommandError> {
    let path = Path::new(named);
    if path.exists() || named.contains(['/', '.']) {
        let bytes = read(path)?;
        return Receipt::read(&bytes).map_err(|wrong| {
            CommandError::usage(format!("{}: {wrong}", path.display()))
                .hint("drivetrain receipt ID -o FILE writes one")
        });
    }
    let id = records.find(named)?;
    super::receipt::of_task(records, &id)
}

/// The bytes of a regular file that is not too large: nothing else can be a receipt, and a pipe would never end.
fn read(path: &Path) -> Result<Vec<u8>, CommandError> {
    let shown = path.display();
    let wrong =
        |error: std::io::Error| CommandError::usage(format!("cannot read {shown}: {error}"));
    let meta = std::fs::metadata(path).map_err(wrong)?;
    if !meta.is_file() {
        return Err(CommandError::usage(format!("{shown} is no file: expected a receipt")));
    }
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(wrong)?;
    file.take(LARGEST + 1).read_to_end(&mut bytes).map_err(wrong)?;
    if bytes.len() as u64 > LARGEST {
        return Err(CommandError::usage(format!("{shown} is too large to be a receipt")));
    }
    Ok(bytes)
}

/// A receipt that this journal does not know is another's word, and its criteria are commands.
fn consent(receipt: &Receipt, yes: bool, json: bool) -> Result<(), CommandError> {
    if yes {
        return Ok(());
    }
    let error = CommandError::environment(format!(
        "the journal here does not know task {}: to check its receipt, the commands in it have to be run",
        receipt.task
    ));
    if json || !output::is_terminal() {
        return Err(error.hint("look at them, then say --yes"));
    }
    let mut lines = vec![Line::new(
        Tone::Ask,
        "The journal here does not know this receipt. To check it, these commands run in the sandbox, without a network:",
    )];
    let commands =
        receipt.setup.iter().map(String::as_str).chain(receipt.criteria.iter().filter_map(command));
    lines.extend(commands.flat_map(text::lines).map(|line| Line::plain(format!("  {line}"))));
    output::lines(&lines);
    match ask("Run them? [y/N] ") {
        Answer::Yes => Ok(()),
        Answer::Once | Answer::No => Err(error.hint("nothing was run")),
    }
}

fn command(criterion: &Criterion) -> Option<&str> {
    match criterion {
        Criterion::Shell { command, .. }
        | Criterion::Custom(CustomCheck::TestsNotFewer { command, .. }) => Some(command),
        Criterion::File { .. }
        | Criterion::Judge { .. }
        | Criterion::Protect { .. }
        | Criterion::Custom(
            CustomCheck::GitClean
            | CustomCheck::NoPathsTouched { .. }
            | CustomCheck::OnlyPathsTouched { .. }
            | CustomCheck::MaxDiffLines { .. }
            | CustomCheck::Plugin { .. },
        ) => None,
    }
}
