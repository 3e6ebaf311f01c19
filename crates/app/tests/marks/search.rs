//! Looks for marks: in files, in git's objects, in outputs, and in what processes are given while they run.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use super::place::Place;

type Marks = Vec<(&'static str, String)>;

/// The mark as it is, and in the clothes that tools dress it in.
fn holds(bytes: &[u8], mark: &str) -> bool {
    let hex: String = mark.bytes().map(|byte| format!("{byte:02x}")).collect();
    let has = |form: &[u8]| memchr(bytes, form[0]).any(|at| bytes[at..].starts_with(form));
    // The middle of its base64, wherever it begins.
    let base64 = [mark, &format!("x{mark}"), &format!("xy{mark}")].map(|text| {
        let encoded = base64(text.as_bytes());
        encoded[8..encoded.len() - 8].to_owned()
    });
    has(mark.as_bytes()) || has(hex.as_bytes()) || base64.iter().any(|form| has(form.as_bytes()))
}

fn memchr(bytes: &[u8], first: u8) -> impl Iterator<Item = usize> + '_ {
    bytes.iter().enumerate().filter(move |(_, byte)| **byte == first).map(|(at, _)| at)
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let group = |three: &[u8]| {
        let sum = (0..3).fold(0u32, |sum, n| sum << 8 | u32::from(*three.get(n).unwrap_or(&0)));
        [18, 12, 6, 0].map(|shift| char::from(LETTERS[(sum >> shift & 63) as usize]))
    };
    bytes.chunks(3).flat_map(group).collect()
}

fn in_bytes(what: &str, bytes: &[u8], marks: &Marks) -> Vec<String> {
    let found = marks.iter().filter(|(_, mark)| holds(bytes, mark));
    found.map(|(name, _)| format!("{name}: {what}")).collect()
}

fn walk(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            walk(&entry.path(), into);
        } else if kind.is_file() {
            into.push(entry.path());
        }
    }
}

/// Every file that was left behind: state, workspaces, recordings, logs.
pub(crate) fn files(place: &Place) -> Vec<String> {
    let mut found = Vec::new();
    let mut paths = Vec::new();
    for folder in ["home", "project", "recorded", "recorded2", "outside"] {
        walk(&place.path(folder), &mut paths);
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
    let mut paths = Vec::new();
    walk(&place.path("home"), &mut paths);
    walk(&place.path("project"), &mut paths);
    let heads = paths.iter().filter(|path| path.ends_with("HEAD"));
    let repositories =
        heads.filter_map(|head| head.parent()).filter(|folder| folder.join("objects").is_dir());
    let (mut found, mut count) = (Vec::new(), 0);
    for repository in repositories {
        let read = Command::new("git")
            .arg("--git-dir")
            .arg(repository)
            .args(["cat-file", "--batch-all-objects", "--batch", "--unordered"])
            .output()
            .unwrap();
        found.extend(in_bytes(&repository.to_string_lossy(), &read.stdout, &place.marks()));
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
        let has = |bytes: &[u8], mark: &str| {
            bytes.windows(mark.len()).any(|part| part == mark.as_bytes())
        };
        for (name, mark) in marks {
            if has(&arguments, mark) {
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
            if has(&variables, mark) && !is_server {
                found.push(format!("{mark_name}: variables of {shown}"));
            }
        }
    }
}
