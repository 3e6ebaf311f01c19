//! A journal on the simulated disk: lines in batches, one sync for each, fenced by owner numbers. It keeps
//! the same contract as the real ones and can crash at every write and sync.

use std::collections::BTreeMap;
use std::sync::Arc;

use journal::{Entry, Journal, JournalError, Loaded, MAX_BODY, Record, Report, Snapshot, TaskRow};
use machine::id::TaskId;
use machine::state::{CallStatus, Phase};
use machine::task::Outcome;
use runtime::host::Host;

use crate::bug::Bug;
use crate::disk::{Kind, Line, batch_at, line_at};
use crate::world::{Shared, lock, point};

/// One process's view of the log.
pub(crate) struct SimulatedJournal {
    world: Shared,
    owner: u64,
    highest_owner: u64,
    tasks: BTreeMap<String, Task>,
    /// How much of the file is known here.
    offset: usize,
    syncs: u64,
    /// Lines that a writer with a planted mistake has not written.
    behind: Vec<Line>,
}

#[derive(Debug, Clone)]
struct Task {
    number: usize,
    row: TaskRow,
    snapshot: Option<Snapshot>,
    records: Vec<Record>,
}

impl SimulatedJournal {
    /// Opens the log as a new process, which raises the owner number, durably.
    pub(crate) fn open(world: &Shared) -> Result<SimulatedJournal, JournalError> {
        let mut journal = SimulatedJournal {
            world: Arc::clone(world),
            owner: 0,
            highest_owner: 0,
            tasks: BTreeMap::new(),
            offset: 0,
            syncs: 0,
            behind: Vec::new(),
        };
        journal.refresh();
        let reuse = journal.has(Bug::OwnerNumberIsReused) && journal.highest_owner > 0;
        journal.owner = journal.highest_owner + u64::from(!reuse);
        journal.write(vec![Line::new(Kind::Opened, journal.owner, "", 0)])?;
        Ok(journal)
    }

    fn has(&self, bug: Bug) -> bool {
        lock(&self.world).bug == Some(bug)
    }

    /// Takes in what others wrote since. What a dead writer left half done is passed over.
    fn refresh(&mut self) {
        let shared = Arc::clone(&self.world);
        let world = lock(&shared);
        let bytes = &world.disk.bytes;
        match world.bug {
            Some(Bug::HalfBatchCounts | Bug::TornFrameCounts) => {
                let strict = world.bug == Some(Bug::HalfBatchCounts);
                while let Some((line, next)) = line_at(bytes, self.offset, strict) {
                    self.apply(line);
                    self.offset = next;
                }
            }
            _ => {
                while let Some((lines, next)) = batch_at(bytes, self.offset) {
                    lines.into_iter().for_each(|line| self.apply(line));
                    self.offset = next;
                }
            }
        }
    }

    fn apply(&mut self, line: Line) {
        let Line { kind, owner, task: id, n, time, version, body } = line;
        match kind {
            Kind::Opened => self.highest_owner = self.highest_owner.max(owner),
            Kind::Created => {
                let row = TaskRow {
                    id: id.clone(),
                    created: time,
                    owner,
                    open: true,
                    summary: String::new(),
                };
                let number = self.tasks.len();
                self.tasks.insert(id, Task { number, row, snapshot: None, records: Vec::new() });
            }
            Kind::Commit => {}
            Kind::Claimed | Kind::Record | Kind::Snapshot | Kind::Summary => {
                let Some(task) = self.tasks.get_mut(&id) else { return };
                match kind {
                    Kind::Claimed => task.row.owner = owner,
                    Kind::Record => task.records.push(Record { n, time, version, body }),
                    Kind::Snapshot => task.snapshot = Some(Snapshot { n, body }),
                    _ => {
                        task.row.open = n == 1;
                        task.row.summary = String::from_utf8_lossy(&body).into_owned();
                    }
                }
            }
        }
    }

    /// Writes a batch and syncs it, with a crash point around each.
    fn write(&mut self, lines: Vec<Line>) -> Result<(), JournalError> {
        point(&self.world, "before a batch is written");
        let commit = Line::new(Kind::Commit, self.owner, "", lines.len() as u64);
        for line in lines.iter().chain([&commit]) {
            let wrote = {
                let mut world = lock(&self.world);
                if std::ptr::eq(line, lines.first().unwrap_or(&commit)) {
                    if world.bug == Some(Bug::AcknowledgesBeforeSync) {
                        world.sync();
                    }
                    world.disk.truncate(self.offset);
                }
                world.write(&line.frame())
            };
            if let Err(reason) = wrote {
                lock(&self.world).disk.truncate(self.offset);
                return Err(JournalError::Full(reason));
            }
            point(&self.world, "after a frame is written");
        }
        {
            let mut world = lock(&self.world);
            if world.sync_fails() {
                return Err(JournalError::Store("the sync failed".to_owned()));
            }
            if world.bug != Some(Bug::AcknowledgesBeforeSync) {
                world.sync();
            }
            self.offset = world.disk.bytes.len();
        }
        lines.into_iter().for_each(|line| self.apply(line));
        point(&self.world, "after a sync");
        Ok(())
    }

    fn fence(&self, id: &str, task: &Task) -> Result<(), JournalError> {
        if task.row.owner == self.owner || self.has(Bug::FenceIsIgnored) {
            return Ok(());
        }
        Err(JournalError::Fenced { task: id.to_owned(), owner: self.owner, by: task.row.owner })
    }

    /// Checks a batch against what the log holds and turns it into lines.
    fn stage(&self, entries: &[Entry<'_>]) -> Result<Vec<Line>, JournalError> {
        let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
        let mut lines = Vec::with_capacity(entries.len());
        let mut snapshots = Vec::new();
        for entry in entries {
            let id = id_of(entry);
            if let Entry::Create { time, .. } = *entry {
                check_id(id)?;
                if self.tasks.contains_key(id) || counts.insert(id, 0).is_some() {
                    return Err(JournalError::DuplicateTask(id.to_owned()));
                }
                lines.push(Line { time, ..Line::new(Kind::Created, self.owner, id, 0) });
                continue;
            }
            if !counts.contains_key(id) {
                let task = self.task_of(id)?;
                self.fence(id, task)?;
                counts.insert(id, task.records.len() as u64);
            }
            lines.push(self.line(entry, counts.entry(id).or_default())?);
            if let Entry::Snapshot { n, .. } = *entry {
                snapshots.push((id, n));
            }
        }
        for (id, n) in snapshots {
            if n > counts[id] {
                return Err(JournalError::OutOfOrder {
                    task: id.to_owned(),
                    expected: counts[id],
                    got: n,
                });
            }
        }
        Ok(lines)
    }

    fn line(&self, entry: &Entry<'_>, count: &mut u64) -> Result<Line, JournalError> {
        let line = |kind, n, body: &[u8]| Line {
            body: body.to_vec(),
            ..Line::new(kind, self.owner, id_of(entry), n)
        };
        Ok(match *entry {
            Entry::Create { time, .. } => Line { time, ..line(Kind::Created, 0, b"") },
            Entry::Record { task, n, time, version, body } => {
                if body.len() > MAX_BODY {
                    return Err(JournalError::TooLarge { task: task.to_owned(), size: body.len() });
                }
                if n != *count + 1 {
                    let expected = *count + 1;
                    return Err(JournalError::OutOfOrder {
                        task: task.to_owned(),
                        expected,
                        got: n,
                    });
                }
                *count = n;
                Line { time, version, ..line(Kind::Record, n, body) }
            }
            Entry::Snapshot { n, body, .. } => line(Kind::Snapshot, n, body),
            Entry::Summary { open, body, .. } => {
                line(Kind::Summary, u64::from(open), body.as_bytes())
            }
        })
    }

    fn task_of(&self, id: &str) -> Result<&Task, JournalError> {
        self.tasks.get(id).ok_or_else(|| JournalError::UnknownTask(id.to_owned()))
    }

    fn newest_first(&self) -> Vec<&Task> {
        let mut tasks: Vec<&Task> = self.tasks.values().collect();
        tasks.sort_by_key(|task| std::cmp::Reverse((task.row.created, task.number)));
        tasks
    }

    /// Every other load finds a snapshot on the way. Tasks here are shorter than those that get one by
    /// themselves, and a snapshot at any record is as good.
    fn halfway(&self, id: &str, mut loaded: Loaded) -> Loaded {
        let place = loaded.records.len() / 2;
        if place == 0 || loaded.snapshot.is_some() || !self.owner.is_multiple_of(2) {
            return loaded;
        }
        let rest = loaded.records.split_off(place);
        let registry = Arc::clone(&lock(&self.world).registry);
        let host = Host::fold(&TaskId(id.to_owned()), &loaded, registry, true, drop);
        match host.map(|host| (host.last, serde_json::to_vec(&host.state.save()))) {
            Ok((n, Ok(body))) => Loaded { snapshot: Some(Snapshot { n, body }), records: rest },
            _ => {
                loaded.records.extend(rest);
                loaded
            }
        }
    }

    /// What a load with a planted mistake makes of the truth.
    fn distort(&self, id: &str, mut loaded: Loaded) -> Loaded {
        let (bug, registry) = {
            let world = lock(&self.world);
            (world.bug, Arc::clone(&world.registry))
        };
        match bug {
            Some(Bug::LastRecordIsMissed) if loaded.records.len() > 1 => {
                loaded.records.pop();
            }
            Some(Bug::SnapshotNumberIsWrong) => {
                if let Some(snapshot) = &mut loaded.snapshot {
                    snapshot.n += 1;
                    loaded.records.retain(|record| record.n > snapshot.n);
                }
            }
            Some(
                Bug::UnsafeCallsRunAgain | Bug::OwnerLossIsForgotten | Bug::CancelIsForgottenOnLoad,
            ) => {
                let id = TaskId(id.to_owned());
                if let Ok(host) = Host::fold(&id, &loaded, registry, true, drop) {
                    loaded = doctored(&host, bug);
                }
            }
            _ => {}
        }
        loaded
    }
}

/// A state that was tampered with, as a snapshot.
fn doctored(host: &Host, bug: Option<Bug>) -> Loaded {
    let mut saved = host.state.save();
    if bug == Some(Bug::CancelIsForgottenOnLoad) {
        if let Phase::Finished { outcome: Outcome::Cancelled, .. } = saved.data.phase {
            saved.data.phase = Phase::Ready;
        }
    } else {
        saved.data.attachment = None;
    }
    if bug == Some(Bug::UnsafeCallsRunAgain) {
        saved.data.pending.clear();
        for call in &mut saved.data.calls {
            if matches!(call.status, CallStatus::Running { .. }) {
                call.status =
                    CallStatus::Queued { approved: true, repeated: true, by: String::new() };
            }
        }
    }
    let body = serde_json::to_vec(&saved).unwrap_or_default();
    Loaded { snapshot: Some(Snapshot { n: host.last, body }), records: Vec::new() }
}

impl Journal for SimulatedJournal {
    fn owner(&self) -> u64 {
        self.owner
    }

    fn commit(&mut self, entries: &[Entry<'_>]) -> Result<(), JournalError> {
        if entries.is_empty() {
            return Ok(());
        }
        self.refresh();
        let mut lines = self.stage(entries)?;
        if self.has(Bug::WritesBehind) {
            lines.clone().into_iter().for_each(|line| self.apply(line));
            std::mem::swap(&mut lines, &mut self.behind);
            let tasks = self.tasks.clone();
            let written = if lines.is_empty() { Ok(()) } else { self.write(lines) };
            self.tasks = tasks;
            return written;
        }
        let wrote = self.write(lines);
        if self.has(Bug::FullDiskDropsTheBatch) && matches!(wrote, Err(JournalError::Full(_))) {
            return Ok(());
        }
        wrote?;
        self.syncs += 1;
        lock(&self.world).commits += 1;
        if self.has(Bug::WrittenBatchIsSentAgain) && self.syncs.is_multiple_of(7) {
            return Err(JournalError::Full("not enough space, it says".to_owned()));
        }
        Ok(())
    }

    fn claim(&mut self, task: &str) -> Result<u64, JournalError> {
        self.refresh();
        let found = self.task_of(task)?;
        let last = found.records.len() as u64;
        if found.row.owner != self.owner {
            self.write(vec![Line::new(Kind::Claimed, self.owner, task, 0)])?;
        }
        Ok(last)
    }

    fn claim_from(&mut self, task: &str, from: u64) -> Result<u64, JournalError> {
        self.refresh();
        let by = self.task_of(task)?.row.owner;
        if by != from {
            return Err(JournalError::Fenced { task: task.to_owned(), owner: self.owner, by });
        }
        self.claim(task)
    }

    fn load(&self, task: &str) -> Result<Loaded, JournalError> {
        let found = self.task_of(task)?;
        let after = found.snapshot.as_ref().map_or(0, |snapshot| snapshot.n);
        let records = found.records.iter().filter(|record| record.n > after).cloned().collect();
        let loaded = Loaded { snapshot: found.snapshot.clone(), records };
        Ok(self.distort(task, self.halfway(task, loaded)))
    }

    fn records(&self, task: &str, after: u64) -> Result<Vec<Record>, JournalError> {
        let bytes = lock(&self.world).disk.bytes.len();
        if bytes > self.offset {
            // Another process wrote since: look again, as a reader of the same file would.
            let mut fresh = SimulatedJournal {
                world: Arc::clone(&self.world),
                owner: self.owner,
                highest_owner: 0,
                tasks: BTreeMap::new(),
                offset: 0,
                syncs: 0,
                behind: Vec::new(),
            };
            fresh.refresh();
            let found = fresh.task_of(task)?;
            return Ok(found.records.iter().filter(|record| record.n > after).cloned().collect());
        }
        let found = self.task_of(task)?;
        Ok(found.records.iter().filter(|record| record.n > after).cloned().collect())
    }

    fn task(&self, task: &str) -> Result<TaskRow, JournalError> {
        self.task_of(task).map(|task| task.row.clone())
    }

    fn find(&self, prefix: &str, limit: usize) -> Result<Vec<String>, JournalError> {
        let ids = self.newest_first().into_iter().map(|task| task.row.id.clone());
        Ok(ids.filter(|id| id.starts_with(prefix)).take(limit).collect())
    }

    fn list(&self, limit: usize, before: Option<i64>) -> Result<Vec<TaskRow>, JournalError> {
        let rows = self.newest_first().into_iter().map(|task| task.row.clone());
        Ok(rows.filter(|row| before.is_none_or(|time| row.created < time)).take(limit).collect())
    }

    fn open_tasks(&self) -> Result<Vec<TaskRow>, JournalError> {
        let mut tasks: Vec<&Task> = self.tasks.values().filter(|task| task.row.open).collect();
        tasks.sort_by_key(|task| task.number);
        Ok(tasks.into_iter().map(|task| task.row.clone()).collect())
    }

    fn verify(&self) -> Report {
        let records = self.tasks.values().map(|task| task.records.len() as u64).sum();
        Report { tasks: self.tasks.len() as u64, records, damages: Vec::new() }
    }

    fn syncs(&self) -> u64 {
        self.syncs
    }
}

fn id_of<'a>(entry: &Entry<'a>) -> &'a str {
    match *entry {
        Entry::Create { task, .. }
        | Entry::Record { task, .. }
        | Entry::Snapshot { task, .. }
        | Entry::Summary { task, .. } => task,
    }
}

fn check_id(id: &str) -> Result<(), JournalError> {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if (1..=64).contains(&id.len()) && id.bytes().all(fits) {
        return Ok(());
    }
    Err(JournalError::BadId(id.to_owned()))
}
