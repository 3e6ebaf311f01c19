//! What an agent's program says of its version. It is started for this alone, inside walls that let it do nothing else.
//! That can take half a second of processor time, so what it said is remembered as long as its files are the same.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::lock;
use crate::file_mark::FileMark;
use crate::process::{Cancel, Containment, ProcessSpec, Streams, find_program, run};
use crate::whole_file;

/// How long a program may take to say its version.
const PATIENCE: Duration = Duration::from_secs(20);
/// Where versions are remembered, in the home.
const REMEMBERED: &str = "agent-versions.json";
/// As many programs are remembered; then all are forgotten.
const MOST: usize = 32;

/// What programs said, by their command lines.
type Memory = BTreeMap<String, Said>;

/// What a program said, and the files that it was then.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Said {
    files: Vec<FileMark>,
    version: String,
}

/// The same as [`known`], asked once in the life of this process.
pub(super) fn known_here(
    argv: &[String],
    folder: &Path,
    home: &Path,
    ask: impl FnOnce() -> Result<String, String>,
) -> Result<String, String> {
    static SAID: Mutex<BTreeMap<Vec<String>, String>> = Mutex::new(BTreeMap::new());
    if let Some(said) = lock(&SAID).get(argv) {
        return Ok(said.clone());
    }
    let said = known(argv, folder, home, ask)?;
    lock(&SAID).insert(argv.to_owned(), said.clone());
    Ok(said)
}

/// The same as [`ask`], but nothing is started if the program said so before and is still the same.
fn known(
    argv: &[String],
    folder: &Path,
    home: &Path,
    ask: impl FnOnce() -> Result<String, String>,
) -> Result<String, String> {
    let (place, key) = (home.join(REMEMBERED), argv.join("\0"));
    let Some(files) = marks(argv, folder) else { return ask() };
    let mut memory: Memory = whole_file::recall(&place).unwrap_or_default();
    if let Some(said) = memory.get(&key).filter(|said| said.files == files) {
        return Ok(said.version.clone());
    }
    let version = ask()?;
    if memory.len() >= MOST {
        memory.clear();
    }
    memory.insert(key, Said { files, version: version.clone() });
    // Without it the program is asked again.
    let _ = whole_file::remember(&place, &memory);
    Ok(version)
}

/// The files that a command line runs; none if something else may be behind one of them, such as a script that picks a
/// version by itself.
fn marks(argv: &[String], folder: &Path) -> Option<Vec<FileMark>> {
    let (program, arguments) = argv.split_first()?;
    let program = find_program(OsStr::new(program), Some(folder))?;
    let named = arguments.iter().map(|word| folder.join(word)).filter(|path| path.is_file());
    let files = std::iter::once(program).chain(named);
    files
        .map(|path| {
            let path = path.canonicalize().ok().filter(|path| is_itself(path))?;
            FileMark::of(&path).ok()
        })
        .collect()
}

/// Whether a file is a program and not a way to one.
fn is_itself(path: &Path) -> bool {
    let ending = path.extension().and_then(OsStr::to_str).unwrap_or_default();
    let is_binary = || {
        let mut magic = [0u8; 4];
        let read = File::open(path).and_then(|mut file| file.read_exact(&mut magic));
        read.is_ok() && magic == *b"\x7fELF"
    };
    matches!(ending, "js" | "mjs" | "cjs") || is_binary()
}

/// Asks a command line, which is that of a program and `--version`.
pub(super) fn ask(
    argv: &[String],
    folder: &Path,
    walls: Containment,
    cancel: &Cancel,
) -> Result<String, String> {
    let mut spec = ProcessSpec::new(argv.iter().cloned());
    spec.cwd = Some(folder.to_owned());
    spec.timeout = Some(PATIENCE);
    spec.streams = Streams::Separate;
    spec.containment = walls;
    let ended = run(spec, cancel).map_err(|error| error.to_string())?;
    if ended.timed_out {
        return Err(format!("it did not say within {} s", PATIENCE.as_secs()));
    }
    let said = ended.stdout.text().trim().to_owned();
    match ended.exit {
        Some(0) if !said.is_empty() => Ok(said),
        Some(0) => Err("it says nothing when asked with --version".to_owned()),
        Some(code) => {
            let why = complaint(&ended.stderr.text());
            Err(format!("asked with --version it ends with {code}{why}"))
        }
        None => Err("it was killed when asked with --version".to_owned()),
    }
}

/// What of its error output may explain it: the line that names an error, or the last one.
fn complaint(errors: &str) -> String {
    const SHOWN: usize = 200;
    let lines = || errors.lines().map(str::trim).filter(|line| !line.is_empty());
    let names_one = |line: &&str| line.to_ascii_lowercase().contains("error");
    match lines().find(names_one).or_else(|| lines().next_back()) {
        Some(line) => format!(": {}", line.chars().take(SHOWN).collect::<String>()),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::fs;

    use super::*;

    #[test]
    fn whoever_cannot_say_its_version_may_say_why() {
        let said =
            "node:internal:1\n  throw err;\n\nError: Cannot find module 'x'\n\nNode.js v20\n";
        assert_eq!(complaint(said), ": Error: Cannot find module 'x'");
        assert_eq!(complaint("sh: 1: claude: not found\n"), ": sh: 1: claude: not found");
        assert_eq!(complaint(" \n"), "");
    }

    #[test]
    fn a_program_is_asked_again_when_it_is_another_or_may_be() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let argv = |name: &str| vec!["sh".to_owned(), at(name).display().to_string()];
        let asked = Cell::new(0);
        let said = |name: &str| {
            let ask = || {
                asked.set(asked.get() + 1);
                Ok(format!("version {}", asked.get()))
            };
            known(&argv(name), folder.path(), folder.path(), ask).unwrap()
        };
        fs::write(at("one.js"), "1").unwrap();
        assert_eq!((said("one.js"), said("one.js")), ("version 1".into(), "version 1".into()));
        // The same size and the same times that anybody can set; clocks of file systems tick a few hundred times a second.
        std::thread::sleep(Duration::from_millis(50));
        let modified = fs::metadata(at("one.js")).unwrap().modified().unwrap();
        fs::write(at("one.js"), "2").unwrap();
        File::options().write(true).open(at("one.js")).unwrap().set_modified(modified).unwrap();
        assert_eq!((said("one.js"), said("one.js")), ("version 2".into(), "version 2".into()));
        fs::write(at("picks"), "#!/bin/sh\nexec newest \"$@\"\n").unwrap();
        assert_eq!((said("picks"), said("picks")), ("version 3".into(), "version 4".into()));
        fs::write(folder.path().join(REMEMBERED), "{broken").unwrap();
        assert_eq!((said("one.js"), said("one.js")), ("version 5".into(), "version 5".into()));
    }
}
