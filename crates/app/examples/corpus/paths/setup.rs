//! What a case wants to find in the workspace and beside it: files, links, and races.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;

use crate::rig::Rig;

/// What a file outside holds that a case wants to be hurt or shown.
pub(crate) const VICTIM: &str = "victim-6f1c9a";

/// A workspace that is ready.
#[derive(Default)]
pub(crate) struct Prepared {
    names: Vec<String>,
    races: Vec<Race>,
}

/// A name that is a folder of its own and a link to somewhere else, by turns.
#[derive(Clone)]
struct Race {
    name: PathBuf,
    /// The two things that take turns.
    one: PathBuf,
    other: PathBuf,
}

impl Prepared {
    /// Whether the setup has made something of this name in the workspace.
    pub(crate) fn made(&self, name: &str) -> bool {
        self.names.iter().any(|own| own == name || own.starts_with(&format!("{name}/")))
    }

    /// Whether something changes while the tool works.
    pub(crate) fn races(&self) -> bool {
        !self.races.is_empty()
    }

    /// Lets the races run for as long as the answer lives.
    pub(crate) fn start(&self) -> Racing {
        let stop = Arc::new(AtomicBool::new(false));
        let threads = self.races.iter().cloned().map(|race| {
            let stop = Arc::clone(&stop);
            std::thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    race.turn();
                }
                race.settle();
            })
        });
        Racing { threads: threads.collect(), stop }
    }
}

impl Race {
    /// Takes the one away and puts the other there, each in one step.
    fn turn(&self) {
        for thing in [&self.other, &self.one] {
            let _ = std::fs::rename(thing, &self.name);
            std::thread::yield_now();
            let _ = std::fs::rename(&self.name, thing);
        }
    }

    /// Leaves the folder or file at its name, as it was before.
    fn settle(&self) {
        let _ = std::fs::rename(&self.one, &self.name);
    }
}

/// Races under way; dropped, they have ended.
pub(crate) struct Racing {
    threads: Vec<std::thread::JoinHandle<()>>,
    stop: Arc<AtomicBool>,
}

impl Drop for Racing {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Does all that a case lists: `[kind, argument, …]` each. The error says what is not known here.
pub(crate) fn prepare(setup: &Value, rig: &Rig) -> Result<Prepared, String> {
    let mut prepared = Prepared::default();
    for entry in setup.as_array().map(Vec::as_slice).unwrap_or_default() {
        let words: Vec<String> = match entry {
            Value::Array(words) => {
                words.iter().map(|word| rig.fill(word.as_str().unwrap_or_default())).collect()
            }
            Value::String(word) => word.split(' ').map(|word| rig.fill(word)).collect(),
            _ => Vec::new(),
        };
        let Some((kind, arguments)) = words.split_first() else {
            return Err(format!("a setup that is no list of words: {entry}"));
        };
        one(kind, arguments, rig, &mut prepared)?;
    }
    Ok(prepared)
}

fn one(kind: &str, arguments: &[String], rig: &Rig, prepared: &mut Prepared) -> Result<(), String> {
    let first = arguments.first().map(String::as_str).unwrap_or_default();
    let second = arguments.get(1).map(String::as_str).unwrap_or_default();
    let (base, plain) = match kind.strip_suffix("-outside") {
        Some(plain) => (rig.outside(), plain),
        None => (rig.worktree(), kind),
    };
    let name = |text: &str| base.join(text);
    match plain {
        "symlink" => {
            make_parent(&name(second));
            std::os::unix::fs::symlink(first, name(second)).unwrap();
            prepared.names.push(second.to_owned());
        }
        "hardlink" | "link" => {
            let target = name(first);
            if !target.exists() {
                make_file(&target, VICTIM);
            }
            make_parent(&name(second));
            std::fs::hard_link(target, name(second)).unwrap();
            prepared.names.push(second.to_owned());
        }
        "mkdir" | "dir" | "folder" => {
            std::fs::create_dir_all(name(first)).unwrap();
            prepared.names.push(first.to_owned());
        }
        "write" | "file" | "touch" => {
            let content = if second.is_empty() && base == rig.outside() { VICTIM } else { second };
            make_file(&name(first), content);
            prepared.names.push(first.to_owned());
        }
        "fifo" | "mkfifo" => {
            make_parent(&name(first));
            let made = std::process::Command::new("mkfifo").arg(name(first)).status();
            assert!(made.unwrap().success(), "mkfifo");
            prepared.names.push(first.to_owned());
        }
        "socket" => {
            make_parent(&name(first));
            drop(std::os::unix::net::UnixListener::bind(name(first)).unwrap());
            prepared.names.push(first.to_owned());
        }
        "chmod" => {
            use std::os::unix::fs::PermissionsExt;
            let (mode, path) = if first.chars().all(|c| c.is_digit(8)) {
                (first, second)
            } else {
                (second, first)
            };
            let mode = u32::from_str_radix(mode, 8).map_err(|_| format!("chmod {mode:?}"))?;
            std::fs::set_permissions(name(path), std::fs::Permissions::from_mode(mode)).unwrap();
        }
        "git-init" | "git" => {
            let made =
                std::process::Command::new("git").args(["init", "-q"]).current_dir(&base).status();
            assert!(made.unwrap().success(), "git init");
            prepared.names.push(".git".to_owned());
        }
        _ if ["race", "swap", "flip", "toggle"].iter().any(|word| plain.contains(word)) => {
            race(plain, arguments, rig, prepared);
        }
        _ => return Err(format!("a setup of the kind {kind:?} is not known here")),
    }
    Ok(())
}

/// Something in the workspace takes turns with a link to what is outside: a folder, or a file if the kind says so. Of
/// two arguments, the one that names a place outside is what the link leads to.
fn race(kind: &str, arguments: &[String], rig: &Rig, prepared: &mut Prepared) {
    let outside = |text: &&String| Path::new(text.as_str()).is_absolute();
    let inside = arguments.iter().find(|text| !outside(text)).map_or("race", String::as_str);
    let target = arguments.iter().find(outside).map_or_else(|| rig.outside(), PathBuf::from);
    let name = rig.worktree().join(inside);
    // What waits for its turn is kept apart, so that only the name itself is seen to change.
    let spare = |text: &str| rig.home().join(format!("{}-{text}", inside.replace('/', "-")));
    let race = Race { name: name.clone(), one: spare("one"), other: spare("other") };
    make_parent(&name);
    if !name.exists() {
        if kind.contains("file") || target.is_file() {
            make_file(&name, "inside");
        } else {
            std::fs::create_dir(&name).unwrap();
        }
    }
    std::fs::rename(&name, &race.one).unwrap();
    std::os::unix::fs::symlink(target, &race.other).unwrap();
    race.settle();
    prepared.names.push(inside.to_owned());
    prepared.races.push(race);
}

fn make_file(path: &Path, content: &str) {
    make_parent(path);
    std::fs::write(path, content).unwrap();
}

fn make_parent(path: &Path) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
}
