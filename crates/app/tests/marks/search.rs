//! Looks for marks: in files, in git's objects, in outputs, and in what processes are given while they run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use super::leaks::{self, Mark};
use super::place::Place;

type Marks = Vec<(&'static str, Mark)>;

fn in_bytes(what: &str, bytes: &[u8], marks: &Marks) -> Vec<String> {
    let found = marks.iter().filter(|(_, mark)| mark.is_in(bytes));
    found.map(|(name, _)| format!("{name}: {what}")).collect()
}

/// Every file that was left behind: state, workspaces, recordings, logs.
pub(crate) fn files(place: &Place) -> Vec<String> {
    let mut found = Vec::new();
    let mut paths = Vec::new();
    for folder in ["home", "project", "recorded", "recorded2", "outside"] {
        paths.extend(leaks::files(&place.path(folder)));
    }
    paths.retain(|path| !path.ends_with("outside/secret.txt"));
    let named = |part: &str| paths.iter().any(|path| path.to_string_lossy().contains(part));
    for part in [
        "journal.db",
        "blobs",
        "checkpoints",
        "recorded/",
        "environ.txt",
        "argv.txt",
        "plugin-env.txt",
        "killed.txt",
    ] {
        assert!(named(part), "there is no {part}: the search proves nothing");
    }
    place.search(paths.len());
    for path in paths {
        let bytes = std::fs::read(&path).unwrap_or_default();
        found.extend(in_bytes(&path.to_string_lossy(), &bytes, &place.marks()));
    }
    found
}

/// Every object of every repository, unpacked.
pub(crate) fn objects(place: &Place) -> Vec<String> {
    let mut paths = leaks::files(&place.path("home"));
    paths.extend(leaks::files(&place.path("project")));
    let (mut found, mut count) = (Vec::new(), 0);
    for repository in leaks::repositories(&paths) {
        let read = leaks::objects(repository);
        found.extend(in_bytes(&repository.to_string_lossy(), &read, &place.marks()));
        count += 1;
    }
    assert!(count >= 2, "{count} repositories: checkpoints must be among them");
    place.search(count);
    found
}

/// Everything that was printed.
pub(crate) fn outputs(place: &Place) -> Vec<String> {
    let outputs = place.outputs();
    place.search(outputs.len());
    outputs.iter().flat_map(|(what, bytes)| in_bytes(what, bytes, &place.marks())).collect()
}

/// Looks at every process of this machine while the test runs: arguments of all, variables of those that are not
/// drivetrain itself.
pub(crate) struct Watch {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Vec<String>>,
}

impl Watch {
    pub(crate) fn start(marks: &Marks) -> Watch {
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, marks) = (Arc::clone(&stop), marks.clone());
        let thread = std::thread::spawn(move || {
            let mut found = Vec::new();
            while !stopped.load(Ordering::Relaxed) {
                look(&marks, &mut found);
                std::thread::sleep(Duration::from_millis(3));
            }
            found
        });
        Watch { stop, thread }
    }

    pub(crate) fn stop(self) -> Vec<String> {
        self.stop.store(true, Ordering::Relaxed);
        let mut found = self.thread.join().unwrap();
        found.sort();
        found.dedup();
        found
    }
}

fn look(marks: &Marks, found: &mut Vec<String>) {
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let folder = entry.path();
        let Ok(arguments) = std::fs::read(folder.join("cmdline")) else { continue };
        let shown = String::from_utf8_lossy(&arguments).replace('\0', " ");
        for (name, mark) in marks {
            if mark.is_in(&arguments) {
                found.push(format!("{name}: arguments of {shown}"));
            }
        }
        // Whoever runs drivetrain has its variables; a server is handed the one that its file names.
        let program = std::fs::read_link(folder.join("exe")).unwrap_or_default();
        let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let handed =
            ["drivetrain", "timeout"].contains(&name.as_str()) || name.starts_with("marks");
        let Ok(variables) = std::fs::read(folder.join("environ")) else { continue };
        // One that becomes another program meanwhile is looked at again: its variables and its name must be of one moment.
        let same = std::fs::read(folder.join("cmdline")).is_ok_and(|again| again == arguments);
        if arguments.is_empty() || !same {
            continue;
        }
        for (mark_name, mark) in marks.iter().filter(|_| !handed && !name.is_empty()) {
            let is_server = *mark_name == "server" && shown.contains("mcp_server.py");
            if mark.is_in(&variables) && !is_server {
                found.push(format!("{mark_name}: variables of {shown}"));
            }
        }
    }
}
