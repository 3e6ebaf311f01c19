//! Checking everything, and naming what is wrong by task and number.

use std::collections::{BTreeMap, HashMap};

use rusqlite::Row;

use crate::blob;
use crate::chain::Chain;
use crate::sqlite::failure::{of_task, whole};
use crate::sqlite::read::{
    Found, RECORD, Stored, altered, lost_tail, lost_task, missing, snapshot_of, sweep,
};
use crate::sqlite::witness::{Seen, Tip, mark_of};
use crate::sqlite::{SqliteJournal, schema};
use crate::{DamageKind, Report};

/// What is known of a task while its records pass by.
struct Checked {
    id: String,
    created: i64,
    tip: Tip,
    /// The last record up to the saved point.
    head: i64,
    known: Option<Tip>,
    snapshot: Option<(u64, Chain)>,
    /// False if only the witness knows the task.
    row: bool,
}

/// What is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    /// Everything.
    All,
    /// Not the blobs: they are elsewhere.
    Records,
}

/// The first record that names each blob: its task and number.
type Named = BTreeMap<String, (String, u64)>;

pub(super) fn verify(journal: &SqliteJournal, extent: Extent) -> Report {
    let mut report = Report { damages: journal.noted.clone(), ..Report::default() };
    // The witness first: what it says now is in the database by the time that is read.
    let seen = witnessed(journal, &mut report);
    let transaction = journal.db.unchecked_transaction();
    if let Err(error) = &transaction {
        report.damages.push(whole(DamageKind::Unreadable, error.to_string()));
    }
    check_integrity(journal, &mut report);
    let mut tasks = tasks(journal, &seen, &mut report);
    snapshots(journal, &mut tasks, &mut report);
    let point = match schema::meta(&journal.db, schema::POINT) {
        Ok(Some(point)) => Some(point),
        Ok(None) | Err(_) => {
            report.damages.push(whole(DamageKind::TaskRow, "the saved point is damaged"));
            None
        }
    };
    if !matches!(schema::meta(&journal.db, schema::OWNER), Ok(Some(_))) {
        report.damages.push(whole(DamageKind::TaskRow, "the owner number is damaged"));
    }
    let named = records(journal, &mut tasks, point, &mut report);
    for (number, task) in &tasks {
        finish(journal, *number, task, point, &mut report);
    }
    drop(transaction);
    if extent == Extent::All {
        report.damages.extend(journal.blobs().verify());
        missing_blobs(journal, named, &mut report);
    }
    report.damages.sort_by(|one, other| (&one.task, one.n).cmp(&(&other.task, other.n)));
    report.damages.dedup();
    report
}

fn witnessed(journal: &SqliteJournal, report: &mut Report) -> HashMap<i64, Seen> {
    let mut seen = HashMap::new();
    let Some(witness) = &journal.witness else { return seen };
    let each = witness.each(|number, slot| {
        seen.insert(number, slot);
    });
    if let Err(error) = each {
        report.damages.push(whole(DamageKind::Witness, error.to_string()));
    }
    match witness.header() {
        Ok(Some(header)) if header.remade => report.damages.push(whole(
            DamageKind::Witness,
            "the witness file was lost and made anew: what was lost from the ends of tasks before \
             that cannot be told",
        )),
        Ok(Some(_)) => {}
        Ok(None) => {
            report.damages.push(whole(DamageKind::Witness, "the witness's header is damaged"));
        }
        Err(error) => report.damages.push(whole(DamageKind::Witness, error.to_string())),
    }
    seen
}

fn check_integrity(journal: &SqliteJournal, report: &mut Report) {
    let mut note = |text: String| report.damages.push(whole(DamageKind::Unreadable, text));
    let mut statement = match journal.db.prepare("pragma integrity_check") {
        Ok(statement) => statement,
        Err(error) => return note(error.to_string()),
    };
    let mut rows = match statement.query([]) {
        Ok(rows) => rows,
        Err(error) => return note(error.to_string()),
    };
    loop {
        match rows.next() {
            Ok(Some(row)) => match row.get::<_, String>(0) {
                Ok(text) if text == "ok" => {}
                Ok(text) => note(text),
                Err(error) => note(error.to_string()),
            },
            Ok(None) => return,
            Err(error) => return note(error.to_string()),
        }
    }
}

/// Calls back with every row that can be read before the first that cannot.
fn each_row(
    journal: &SqliteJournal,
    sql: &str,
    report: &mut Report,
    mut each: impl FnMut(&Row<'_>, &mut Report),
) {
    let result = journal.db.prepare(sql).and_then(|mut statement| {
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            each(row, report);
        }
        Ok(())
    });
    if let Err(error) = result {
        report.damages.push(whole(DamageKind::Unreadable, error.to_string()));
    }
}

fn tasks(
    journal: &SqliteJournal,
    seen: &HashMap<i64, Seen>,
    report: &mut Report,
) -> BTreeMap<i64, Checked> {
    let mut tasks = BTreeMap::new();
    let sql = format!("select {} from task not indexed order by num", Found::COLUMNS);
    each_row(journal, &sql, report, |row, report| match Found::of(row) {
        Some(found) => {
            report.tasks += 1;
            if !found.sound {
                report.damages.push(found.damage());
            }
            tasks.insert(found.number, Checked::new(found.row.id, found.row.created, true));
        }
        None => {
            let number = row.get::<_, i64>(0).unwrap_or(0);
            let detail = format!("the row of task number {number} cannot be read");
            report.damages.push(whole(DamageKind::TaskRow, detail));
        }
    });
    for (number, slot) in seen {
        match slot {
            Seen::Nothing => {}
            Seen::Spoiled => {
                let task = tasks.get(number).map(|task| task.id.clone());
                let name = task.clone().unwrap_or_else(|| format!("number {number}"));
                let detail = format!("the witness of task {name} is damaged");
                report.damages.push(crate::Damage {
                    task,
                    n: None,
                    kind: DamageKind::Witness,
                    detail,
                });
            }
            Seen::Tip { id, mark, created, tip } => match (tasks.get_mut(number), id) {
                (Some(task), id) => {
                    if *mark == mark_of(&task.id) {
                        task.known = Some(*tip);
                    }
                    if id.as_deref() != Some(&task.id) {
                        let detail = format!("the witness of task {} is damaged", task.id);
                        let damage = of_task(&task.id, None, DamageKind::Witness, detail);
                        report.damages.push(damage);
                    }
                }
                (None, Some(id)) => {
                    let mut task = Checked::new(id.clone(), *created, false);
                    task.known = Some(*tip);
                    tasks.insert(*number, task);
                }
                (None, None) => {
                    let detail = format!("task number {number} is gone, with {} records", tip.n);
                    report.damages.push(whole(DamageKind::LostTail, detail));
                }
            },
        }
    }
    tasks
}

impl Checked {
    fn new(id: String, created: i64, row: bool) -> Self {
        let tip = Tip { n: 0, seq: 0, chain: Chain::start(&id) };
        Self { id, created, tip, head: 0, known: None, snapshot: None, row }
    }

    /// Takes the task's next row and names what is wrong with it.
    fn take(&mut self, row: &Stored, report: &mut Report) {
        report.records += 1;
        let id = &self.id;
        let expected = self.tip.n + 1;
        if row.n < expected {
            let detail = format!("number {} of task {id} is used twice", row.n);
            report.damages.push(of_task(id, row.n, DamageKind::Gap, detail));
            return;
        }
        if row.n > expected {
            report.damages.push(missing(id, expected));
        } else {
            let back = if row.n == 1 { 0 } else { row.seq - self.tip.seq };
            if row.link(self.tip.chain, self.created) != row.chain {
                report.damages.push(altered(id, row.n));
            } else if row.back != back {
                let detail =
                    format!("record {} of task {id} does not lead to the one before", row.n);
                report.damages.push(of_task(id, row.n, DamageKind::Altered, detail));
            }
        }
        if let Some(known) = self.known
            && known.n == row.n
            && known != row.tip()
        {
            let detail = format!("record {} of task {id} is not the one that was committed", row.n);
            report.damages.push(of_task(id, row.n, DamageKind::Altered, detail));
        }
        if let Some((n, chain)) = self.snapshot
            && n == row.n
        {
            self.snapshot = None;
            if chain != row.chain {
                report.damages.push(unfit(id, n));
            }
        }
        self.tip = row.tip();
    }
}

fn unfit(id: &str, n: u64) -> crate::Damage {
    let detail = format!("the snapshot of task {id} does not belong to its record {n}");
    of_task(id, n, DamageKind::Snapshot, detail)
}

fn snapshots(journal: &SqliteJournal, tasks: &mut BTreeMap<i64, Checked>, report: &mut Report) {
    let sql = "select task, n, chain, body, sum from snapshot order by task";
    each_row(journal, sql, report, |row, report| {
        let number = row.get::<_, i64>(0).unwrap_or(0);
        let task = tasks.get_mut(&number);
        match (snapshot_of(row), task) {
            (Some((snapshot, chain)), Some(task)) if snapshot.n > 0 => {
                task.snapshot = Some((snapshot.n, chain));
            }
            (Some((_, chain)), Some(task)) if chain == Chain::start(&task.id) => {}
            (Some(_), Some(task)) => report.damages.push(unfit(&task.id, 0)),
            (None, Some(task)) => {
                let detail =
                    format!("the snapshot of task {} does not match its checksum", task.id);
                report.damages.push(of_task(&task.id, None, DamageKind::Snapshot, detail));
            }
            (_, None) => {
                let detail =
                    format!("a snapshot belongs to task number {number}, which is unknown");
                report.damages.push(whole(DamageKind::Snapshot, detail));
            }
        }
    });
}

fn records(
    journal: &SqliteJournal,
    tasks: &mut BTreeMap<i64, Checked>,
    point: Option<i64>,
    report: &mut Report,
) -> Named {
    let mut named = Named::new();
    let mut orphans: BTreeMap<i64, u64> = BTreeMap::new();
    let holes = sweep(&journal.db, RECORD, 0, &mut |row| match Stored::of(row) {
        Some(record) => match tasks.get_mut(&record.task) {
            Some(task) => {
                task.take(&record, report);
                if let Some(hash) = blob::named_by(&record.body) {
                    named.entry(hash).or_insert_with(|| (task.id.clone(), record.n));
                }
                if point.is_some_and(|point| record.seq <= point) {
                    task.head = record.seq;
                }
            }
            None => *orphans.entry(record.task).or_default() += 1,
        },
        None => {
            let seq = row.get::<_, i64>(0).unwrap_or(0);
            let task = row.get::<_, i64>(1).ok().and_then(|number| tasks.get(&number));
            report.damages.push(match task {
                Some(task) => altered(&task.id, task.tip.n + 1),
                None => whole(
                    DamageKind::Altered,
                    format!("what stands at place {seq} of the journal is no record"),
                ),
            });
        }
    });
    match holes {
        Ok(holes) => {
            for (after, before) in holes {
                let detail = match before {
                    i64::MAX => format!("the journal cannot be read after place {after}"),
                    _ => format!("the journal cannot be read between places {after} and {before}"),
                };
                report.damages.push(whole(DamageKind::Unreadable, detail));
            }
        }
        Err(error) => report.damages.push(whole(DamageKind::Unreadable, error.to_string())),
    }
    for (number, count) in orphans {
        let detail = format!("{count} records belong to task number {number}, which is unknown");
        report.damages.push(whole(DamageKind::TaskRow, detail));
    }
    named
}

fn missing_blobs(journal: &SqliteJournal, named: Named, report: &mut Report) {
    let blobs = journal.blobs();
    for (hash, (id, n)) in named {
        if blobs.is_missing(&hash) {
            let detail = format!("blob {hash}, which record {n} of task {id} names, is missing");
            report.damages.push(of_task(&id, n, DamageKind::Blob, detail));
        }
    }
}

/// What can be said of a task only after its last record.
fn finish(
    journal: &SqliteJournal,
    number: i64,
    task: &Checked,
    point: Option<i64>,
    report: &mut Report,
) {
    let id = &task.id;
    if !task.row {
        let had = task.known.map_or(0, |known| known.n);
        if task.tip.n == 0 {
            report.damages.push(lost_task(id, had));
            return;
        }
        let detail = format!("the row of task {id} is gone; records of it are still there");
        report.damages.push(of_task(id, None, DamageKind::TaskRow, detail));
    }
    if let Some(known) = task.known
        && task.tip.n < known.n
    {
        report.damages.push(lost_tail(id, task.tip.n, known.n));
    }
    if let Some((n, _)) = task.snapshot {
        report.damages.push(unfit(id, n));
    }
    let head = schema::head(&journal.db, number).unwrap_or(None);
    if task.row && point.is_some() && head != Some(task.head) {
        let detail = format!("the saved head of task {id} is not its last record at that time");
        report.damages.push(of_task(id, None, DamageKind::TaskRow, detail));
    }
}
