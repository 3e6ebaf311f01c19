//! `drivetrain log`: everything that happened, folded again from the records.

use std::sync::Arc;
use std::time::Duration;

use journal::{Journal, JournalError, Loaded};
use machine::id::TaskId;
use machine::input::Stamped;
use machine::state::Standing;
use machine::time::Timestamp;
use machine::{Output, step};
use runtime::egress::read_log;
use runtime::host::{self, Host};
use view::transcript::{Detail, Transcript};
use view::{Line, Tone, decisions};

use super::receipt;
use crate::args::LogArgs;
use crate::error::CommandError;
use crate::locate::Records;
use crate::locate::moment;
use crate::output;

/// How often a followed journal is looked at.
const GLANCE: Duration = Duration::from_millis(150);

/// Runs the command.
pub(crate) fn run(args: &LogArgs, json: bool) -> Result<u8, CommandError> {
    let records = Records::open()?;
    let id = records.find(&args.id)?;
    if args.network {
        return network(&records, &id, json);
    }
    let (sound, damage) = records.journal.sound_records(id.as_str())?;
    let loaded = Loaded { snapshot: None, records: sound };
    let mut printer = Printer::new(&records, json, args.decisions);
    let mut host = Host::fold(&id, &loaded, Arc::clone(&records.registry), false, |output| {
        printer.print(&output)
    })
    .map_err(|error| CommandError::environment(error.to_string()))?;
    if let Some(damage) = damage {
        return Err(JournalError::Damaged(damage).into());
    }
    let mut told = false;
    while args.follow
        && !output::is_closed()
        && !matches!(host.state.standing(), Standing::Finished { .. })
    {
        std::thread::sleep(GLANCE);
        if output::has_no_reader() {
            break;
        }
        let is_left = records.is_left(&id, &host.state)?;
        let news = records.journal.records(id.as_str(), host.last)?;
        // What it wrote last may be that it is done.
        if is_left && news.is_empty() && !told {
            tell_left(&id, json);
        }
        told = is_left && news.is_empty();
        for record in news {
            let input = host::decode(&record.body).map_err(|reason| {
                CommandError::environment(format!("record {} cannot be read: {reason}", record.n))
            })?;
            printer.print(&step(&mut host.state, Stamped { time: Timestamp(record.time), input }));
            host.last = record.n;
        }
    }
    Ok(0)
}

/// Says that nothing comes until somebody goes on with the task: whoever was killed told nobody.
fn tell_left(id: &TaskId, json: bool) {
    let text = format!("the process that drove it is gone: drivetrain resume {id} goes on");
    if json {
        output::error(&serde_json::json!({ "v": 1, "notice": text }).to_string());
    } else {
        output::lines(&[Line::new(Tone::Ask, text)]);
    }
}

/// Which hosts the sandboxes of the task have reached for.
fn network(records: &Records, id: &TaskId, json: bool) -> Result<u8, CommandError> {
    let path = records.home.passages(id);
    let entries = read_log(&path).map_err(|error| {
        CommandError::environment(format!("cannot read {}: {error}", path.display()))
    })?;
    if entries.is_empty() && !json {
        output::lines(&[Line::new(Tone::Faint, "no sandbox of this task has reached for a host")]);
    }
    for entry in entries {
        match entry {
            Ok(entry) if json => output::json(&entry),
            Ok(entry) => {
                let line = view::network::line(&entry.passage);
                output::lines(&[Line::new(
                    line.tone,
                    format!("{}  {}", moment(entry.time), line.text),
                )]);
            }
            // The process may have been killed in the middle of a line.
            Err(text) if !json => {
                let text = format!("not an entry: {}", view::text::short(&text, 200));
                output::lines(&[Line::new(Tone::Bad, text)]);
            }
            Err(_) => {}
        }
    }
    Ok(0)
}

struct Printer<'a> {
    records: &'a Records,
    json: bool,
    /// Only decisions about calls.
    decisions: bool,
    transcript: Transcript,
    day: String,
}

impl Printer<'_> {
    fn new(records: &Records, json: bool, decisions: bool) -> Printer<'_> {
        let detail = Detail { starts: true, inner: true, output: 20, failure: 40, change: 60 };
        let (transcript, day) = (Transcript::new(detail), String::new());
        Printer { records, json, decisions, transcript, day }
    }

    fn print(&mut self, output: &Output) {
        for event in &output.events {
            let decision = decisions::line(&event.kind);
            if self.decisions && decision.is_none() {
                continue;
            }
            if self.json {
                output::json(&receipt::told(event, || {
                    receipt::named(&self.records.journal, &self.records.registry, &event.task)
                }));
                continue;
            }
            let moment = moment(event.time);
            let (day, time) = moment.split_once(' ').unwrap_or(("", &moment));
            let mut lines = Vec::new();
            if self.day != day {
                self.day = day.to_owned();
                lines.push(Line::new(Tone::Faint, day));
            }
            let told = match decision {
                Some(line) if self.decisions => vec![line],
                Some(_) | None => self.transcript.lines(event),
            };
            for (index, line) in told.into_iter().enumerate() {
                let stamp = if index == 0 { time } else { "" };
                lines.push(Line::new(line.tone, format!("{stamp:8}  {}", line.text)));
            }
            output::lines(&lines);
        }
    }
}
