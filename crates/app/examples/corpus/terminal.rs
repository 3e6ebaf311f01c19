//! The kind `terminal`: a text through every place of the binary that shows text, on a pipe and on a terminal.
//!
//! On a pipe nothing of ours needs an escape, so nothing that steers a terminal may come through. On a terminal our own
//! sequences are those that the same scene shows with a harmless text; any other one is the case's.

mod screen;

use std::collections::BTreeSet;

use serde_json::json;

use crate::Verdict;
use crate::case::Case;
use crate::injection::{drivetrain, task};
use crate::rig::Rig;

/// What our own screen sends when its timing wants it: a line erased, the rest of the screen erased.
const OURS: [&[u8]; 4] = [b"\x1b[2K", b"\x1b[K", b"\x1b[J", b"\x1b[0m"];

/// A text that steers nothing.
const HARMLESS: &str = "harmless";

/// Tries one case.
pub(crate) fn run(case: &Case, rig: &Rig) -> Verdict {
    let Some(bytes) = case.bytes() else {
        return Verdict::Skip("its generator is not known".to_owned());
    };
    let places: Vec<&str> = case.text("where").split(',').map(str::trim).collect();
    let known = ["cli", "log", "approval", "tui"];
    if !places.iter().any(|place| known.contains(place)) {
        return Verdict::Skip(format!("there is no such place yet: {}", places.join(", ")));
    }
    match try_all(&bytes, rig) {
        Ok(()) => Verdict::Pass,
        Err(verdict) => verdict,
    }
}

fn try_all(bytes: &[u8], rig: &Rig) -> Result<(), Verdict> {
    let text = String::from_utf8_lossy(bytes).into_owned();
    let mut shown = Vec::new();
    for args in on_pipes(bytes, &text, rig) {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let ran = drivetrain(rig, &args)?;
        for output in [&ran.stdout, &ran.stderr] {
            let said = String::from_utf8_lossy(output);
            if said.contains("panicked at") {
                return Err(Verdict::Panic(said.into_owned()));
            }
            if let Some(raw) = raw_in(output, &[]) {
                return Err(Verdict::Fail(format!("{args:?} shows {raw} raw")));
            }
            // JSON is one line a value, whatever it says.
            if let Some(line) = stands_alone(&text, &said) {
                return Err(Verdict::Fail(format!("{args:?} shows {line:?} as if it were ours")));
            }
            shown.extend_from_slice(output);
        }
    }
    let said = String::from_utf8_lossy(&shown).into_owned();
    if let Some(missing) = text.chars().find(|c| acts(*c) && !escaped(*c, &said)) {
        return Err(Verdict::Fail(format!("{missing:?} is shown nowhere, not even escaped")));
    }
    let ours = screen::show(rig, HARMLESS).map_err(Verdict::Hang)?;
    let theirs = screen::show(rig, &text).map_err(Verdict::Hang)?;
    let (ours, known) = (sequences(&ours), sequences(&theirs));
    let ours: BTreeSet<&[u8]> = ours.iter().map(Vec::as_slice).collect();
    let is_ours = |sequence: &[u8]| {
        let in_text = bytes.windows(sequence.len().max(1)).any(|part| part == sequence);
        ours.contains(sequence) || (OURS.contains(&sequence) && !in_text)
    };
    match known.iter().find(|sequence| !is_ours(sequence)) {
        Some(other) => {
            let other = String::from_utf8_lossy(other).escape_debug().to_string();
            Err(Verdict::Fail(format!("the terminal is sent {other}")))
        }
        None => match raw_in(&theirs, &[b"\x1b", b"\r"]) {
            Some(raw) => Err(Verdict::Fail(format!("the terminal is sent {raw}"))),
            None => Ok(()),
        },
    }
}

/// Files that bring the text to every place, and the commands that show it there.
fn on_pipes(bytes: &[u8], text: &str, rig: &Rig) -> Vec<Vec<String>> {
    let folder = rig.worktree();
    let write = |name: &str, content: &str| std::fs::write(folder.join(name), content).unwrap();
    std::fs::write(folder.join("output.bin"), bytes).unwrap();
    let own = rig.user().join(".config/drivetrain");
    std::fs::create_dir_all(&own).unwrap();
    std::fs::write(own.join("policy.toml"), "unattended = \"wait\"\n").unwrap();
    // Neither a goal nor an argument can hold a NUL.
    let said = text.replace('\0', "");
    let goal = json!(format!("goal {said}"));
    write(
        "task.toml",
        &format!(
            "[task]\ngoal = {}\ndriver = \"workflow\"\n\
             [[task.driver_config.steps]]\nname = \"one\"\ntool = \"shell\"\n\
             parameters = {{ command = \"cat output.bin; cat output.bin >&2; exit 1\" }}\n\
             [[acceptance]]\nkind = \"shell\"\ncommand = \"cat output.bin; false\"\n\
             [workspace]\nkind = \"in_place\"\n",
            toml_text(goal.as_str().unwrap_or_default())
        ),
    );
    let call = format!(
        "tool_calls = [{{ tool = \"shell\", input = {{ command = {} }} }}]",
        toml_text(text)
    );
    write(
        "replies.toml",
        &format!(
            "[[reply]]\nthinking = {0}\ntext = {0}\n{call}\n[[reply]]\ntext = \"Done.\"\n",
            toml_text(text)
        ),
    );
    write(
        "says.toml",
        &format!("[[reply]]\ntext = {}\n[[reply]]\nstatus = 400\nbody = {0}\n", toml_text(text)),
    );
    let of = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<String>>();
    let mut commands = vec![
        of(&["run", "task.toml"]),
        of(&["run", "task.toml", "--json"]),
        of(&["run", &format!("goal {said}"), "--model", "script/replies.toml", "--in-place"]),
        of(&["run", &format!("goal {said}"), "--model", "script/says.toml", "--in-place"]),
        of(&["list"]),
        of(&["list", "--json"]),
        of(&["approvals"]),
        of(&["approvals", "--json"]),
    ];
    // As an argument that is wrong in each way.
    for args in [
        vec!["run", &said],
        vec!["run", "x y", "--model", &said],
        vec!["run", "x y", "--driver", &said],
        vec!["run", "x y", "--workflow", &said],
        vec!["run", "x y", "--driver", "user", "--max-time", &said],
        vec!["show", &said],
        vec!["trust", &said],
        vec![&said],
    ] {
        commands.push(of(&args));
    }
    let begun = commands[..4].to_vec();
    for args in &begun {
        let words: Vec<&str> = args.iter().map(String::as_str).collect();
        let _ = drivetrain(rig, &words);
        if let Some(id) = task(rig) {
            for command in ["log", "why", "show"] {
                commands.push(of(&[command, &id]));
            }
            commands.push(of(&["log", &id, "--json"]));
            commands.push(of(&["journal", "export", &id]));
        }
    }
    commands
}

/// A text as TOML writes it, with everything that is no ASCII letter as an escape.
pub(crate) fn toml_text(text: &str) -> String {
    let escape = |c: char| match c {
        '"' | '\\' => format!("\\{c}"),
        ' '..='~' => c.to_string(),
        _ => format!("\\U{:08x}", c as u32),
    };
    format!("\"{}\"", text.chars().map(escape).collect::<String>())
}

/// Whether a character steers a terminal, hides, or changes how its neighbours are shown.
fn acts(c: char) -> bool {
    (c.is_control() && c != '\n' && c != '\t')
        || matches!(c,
            '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e000}'..='\u{f8ff}' | '\u{e0000}'..='\u{e0fff}')
}

/// Whether the character is shown in some readable form.
fn escaped(c: char, shown: &str) -> bool {
    let code = c as u32;
    let forms = [
        format!("\\x{code:02x}"),
        format!("\\u{{{code:x}}}"),
        format!("\\u{code:04x}"),
        c.escape_default().to_string(),
    ];
    // An argument cannot hold it, and a file that does is refused.
    c == '\0' || forms.iter().any(|form| shown.contains(form.as_str()))
}

/// The first thing in an output that acts on a terminal, but for what is allowed.
pub(crate) fn raw_in(output: &[u8], allowed: &[&[u8]]) -> Option<String> {
    let text = String::from_utf8_lossy(output);
    let mut marks = 0;
    for c in text.chars() {
        let bytes = c.to_string().into_bytes();
        if acts(c) && !allowed.contains(&bytes.as_slice()) {
            return Some(format!("{:?}", c.escape_unicode().to_string()));
        }
        marks = if ('\u{300}'..='\u{36f}').contains(&c) { marks + 1 } else { 0 };
        if marks > 20 {
            return Some("a pile of combining marks".to_owned());
        }
    }
    None
}

/// A whole line of the output that is a line of a text of several.
fn stands_alone(text: &str, shown: &str) -> Option<String> {
    let lines: Vec<&str> = text.lines().filter(|line| line.chars().count() > 3).collect();
    if lines.len() < 2 {
        return None;
    }
    let alone = shown.lines().find(|line| lines.contains(line));
    alone.map(str::to_owned)
}

/// The control sequences of an output, numbers that only say where to left out.
fn sequences(output: &[u8]) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    let mut rest = output;
    while let Some(at) = rest.iter().position(|byte| *byte == 0x1b) {
        rest = &rest[at..];
        let length = match rest.get(1) {
            Some(b'[') => rest
                .iter()
                .skip(2)
                .position(|byte| (0x40..=0x7e).contains(byte))
                .map_or(rest.len(), |end| end + 3),
            Some(b']' | b'P' | b'^' | b'_' | b'X') => {
                rest.iter().position(|byte| *byte == 7).map_or(rest.len(), |end| end + 1).min(40)
            }
            Some(_) => 2,
            None => 1,
        };
        let mut sequence = rest[..length.min(rest.len())].to_vec();
        // Where the cursor goes depends on how long a text is.
        if matches!(sequence.last(), Some(b'A' | b'B' | b'C' | b'D' | b'G' | b'H')) {
            sequence.retain(|byte| !byte.is_ascii_digit());
        }
        found.push(sequence);
        rest = &rest[length.min(rest.len())..];
    }
    found
}
