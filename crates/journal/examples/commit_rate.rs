//! How fast the journal commits, beside the limit: `commit_rate FOLDER SECONDS` prints two JSON lines for
//! each group size, one for a bare append-only SQLite table and one for the journal.
//!
//! A commit appends one record of 200 bytes to each of `group` tasks. The speed of a disk changes from one
//! minute to the next, so only the two lines of one run may be compared.

use std::error::Error;
use std::fs;
use std::path::Path;
use std::time::Instant;

use journal::sqlite::SqliteJournal;
use journal::{Entry, Journal};
use rusqlite::Connection;

const BODY: [u8; 200] = [b'x'; 200];

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().ok_or("usage: commit_rate FOLDER SECONDS [GROUP]")?;
    let seconds: f64 = arguments.next().map_or(Ok(3.0), |text| text.parse())?;
    let groups = match arguments.next() {
        Some(group) => vec![group.parse()?],
        None => vec![1, 10, 100, 1_000],
    };
    for group in groups {
        let folder = Path::new(&folder).join(format!("group-{group}"));
        fs::create_dir_all(&folder)?;
        limit(&folder, group, seconds)?;
        journal(&folder, group, seconds)?;
        fs::remove_dir_all(&folder)?;
    }
    Ok(())
}

fn limit(folder: &Path, group: usize, seconds: f64) -> Result<(), Box<dyn Error>> {
    let db = Connection::open(folder.join("limit.db"))?;
    db.execute_batch(
        "pragma journal_mode = wal; pragma journal_size_limit = -1; pragma synchronous = full; \
         create table journal(seq integer primary key, goal integer not null, kind integer not null, \
         payload blob not null); pragma wal_autocheckpoint = 0; create table junk(x blob); begin; \
         insert into junk with recursive c(i) as (select 1 union all select i + 1 from c where i < 4000) \
         select zeroblob(3900) from c; commit; drop table junk; pragma wal_checkpoint(restart); \
         pragma wal_autocheckpoint = 1000;",
    )?;
    let mut seq = 0_i64;
    measure(&format!("limit-group{group}"), group, seconds, || {
        if group > 1 {
            db.prepare_cached("begin immediate")?.execute([])?;
        }
        for goal in 0..group as i64 {
            let sql = "insert into journal(goal, seq, kind, payload) values(?1, ?2, 1, ?3)";
            db.prepare_cached(sql)?.execute((goal, seq, &BODY))?;
            seq += 1;
        }
        if group > 1 {
            db.prepare_cached("commit")?.execute([])?;
        }
        Ok(())
    })
}

fn journal(folder: &Path, group: usize, seconds: f64) -> Result<(), Box<dyn Error>> {
    let mut journal = SqliteJournal::open(&folder.join("journal"))?;
    let ids: Vec<String> = (0..group).map(|task| format!("task-{task}")).collect();
    let time = 1_700_000_000_000;
    let creates: Vec<_> = ids.iter().map(|task| Entry::Create { task, time }).collect();
    journal.commit(&creates)?;
    let mut n = 0;
    measure(&format!("journal-group{group}"), group, seconds, || {
        n += 1;
        let entry =
            |task| Entry::Record { task, n, time: time + n as i64, version: 1, body: &BODY };
        let batch: Vec<_> = ids.iter().map(|task| entry(task)).collect();
        Ok(journal.commit(&batch)?)
    })
}

#[expect(clippy::print_stdout, reason = "printing is what this program is for")]
fn measure(
    case: &str,
    group: usize,
    seconds: f64,
    mut commit: impl FnMut() -> Result<(), Box<dyn Error>>,
) -> Result<(), Box<dyn Error>> {
    // The log is at its full length after a few commits; getting there is not what is measured.
    for _ in 0..64 {
        commit()?;
    }
    let (start, cpu, written) = (Instant::now(), cpu(), written());
    let mut commits = 0_u64;
    while start.elapsed().as_secs_f64() < seconds {
        commit()?;
        commits += 1;
    }
    let elapsed = start.elapsed().as_secs_f64();
    let steps = (commits * group as u64) as f64;
    println!(
        "{{\"case\":\"{case}\",\"steps_per_s\":{:.0},\"commits_per_s\":{:.0},\
         \"cpu_us_per_step\":{:.2},\"disk_bytes_per_step\":{:.0}}}",
        steps / elapsed,
        commits as f64 / elapsed,
        1e6 * (self::cpu() - cpu) / steps,
        (self::written() - written) as f64 / steps,
    );
    Ok(())
}

/// Seconds of processor time this process, which has one thread, has used.
fn cpu() -> f64 {
    let times = fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    times.split(' ').next().and_then(|first| first.parse::<f64>().ok()).unwrap_or(0.0) / 1e9
}

/// Bytes this process has sent to the disk.
fn written() -> u64 {
    let counters = fs::read_to_string("/proc/self/io").unwrap_or_default();
    let line = counters.lines().find_map(|line| line.strip_prefix("write_bytes: "));
    line.and_then(|number| number.parse().ok()).unwrap_or(0)
}
