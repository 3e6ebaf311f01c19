//! What a simple command means once its words are known: variables it sets, built-in commands, wrappers.

use super::simple::is_reserved;
use super::variable::{is_harmless_value, may_be_set};
use super::{DEEPEST, MOST_SHARED_REDIRECTS, Reading, Run, Word, builtin, scan, wrap};

/// Doubts what is not certain about a command, and adds the commands that it starts.
pub(super) fn settle(reading: &mut Reading, run: &Run, depth: usize) {
    assignments(reading, run);
    let Some(program) = run.argv.first() else { return };
    let name = match program {
        Word::Plain(name) => name,
        Word::Pattern(text) => return reading.doubt(text, "a pattern in place of a program"),
        Word::Unknown(text) => {
            return reading.doubt(text, "which program it is depends on what happens when it runs");
        }
    };
    if is_reserved(name) || name.starts_with('%') || name.contains('=') {
        reading.doubt(name, "a name that a shell may read as something else than a program");
    }
    builtin::check(reading, run, name);
    wrap::open(reading, run, name, depth);
}

/// Variables may be set if they change nothing for any program.
fn assignments(reading: &mut Reading, run: &Run) {
    let program = run.argv.first().and_then(Word::plain);
    for (name, value) in &run.assignments {
        let fine = match program {
            None if run.argv.is_empty() => may_be_set(name),
            Some("read") if name == "IFS" => value.plain().is_some(),
            _ => is_harmless_value(name, value),
        };
        if !fine {
            reading.doubt(name, "it sets a variable that can change what programs do");
        }
    }
}

/// Adds a command that another one starts.
pub(super) fn start(
    reading: &mut Reading,
    outer: &Run,
    wrapper: &str,
    argv: Vec<Word>,
    depth: usize,
) {
    start_with(reading, outer, wrapper, argv, Vec::new(), depth);
}

/// Adds a command that another one starts with variables of its own.
pub(super) fn start_with(
    reading: &mut Reading,
    outer: &Run,
    wrapper: &str,
    argv: Vec<Word>,
    assignments: Vec<(String, Word)>,
    depth: usize,
) {
    if depth >= DEEPEST || outer.redirects.len() > MOST_SHARED_REDIRECTS {
        return reading.doubt(wrapper, "nested too deep");
    }
    let mut through = outer.through.clone();
    through.push(wrapper.to_owned());
    let run = Run { argv, assignments, redirects: outer.redirects.clone(), through };
    let index = reading.runs.len();
    reading.runs.push(run.clone());
    settle(reading, &run, depth + 1);
    reading.runs[index] = run;
}

/// Adds the commands of a text that another one gives to a shell.
pub(super) fn start_text(
    reading: &mut Reading,
    outer: &Run,
    wrapper: &str,
    text: &str,
    depth: usize,
) {
    if depth >= DEEPEST || outer.redirects.len() > MOST_SHARED_REDIRECTS {
        return reading.doubt(wrapper, "nested too deep");
    }
    let first = reading.runs.len();
    scan::Scanner::new(text, depth + 1, reading).whole();
    for run in &mut reading.runs[first..] {
        let mut through = outer.through.clone();
        through.push(wrapper.to_owned());
        through.append(&mut run.through);
        run.through = through;
        run.redirects.extend(outer.redirects.iter().cloned());
    }
}

/// The words of a command as one text, for a doubt.
pub(super) fn shown(words: &[Word]) -> String {
    let mut text = String::new();
    for word in words {
        if text.len() > super::EXCERPT * 4 {
            break;
        }
        if !text.is_empty() {
            text.push(' ');
        }
        text.push_str(word.text());
    }
    text
}
