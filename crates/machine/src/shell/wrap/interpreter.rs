//! Shells and interpreters: what they run is in a text, in a file, or comes from their input.

use crate::shell::device::is_device;
use crate::shell::options::Options;
use crate::shell::settle::{shown, start_text};
use crate::shell::{Reading, Run, Word};

/// An interpreter, and the options that may stand before its file.
struct Interpreter {
    names: &'static [&'static str],
    options: Options,
    /// Options that print something and end.
    about: &'static [&'static str],
    /// Options that name a module to run.
    module: &'static [&'static str],
}

const ORDERED: Options = Options { ordered: true, ..Options::NONE };

const INTERPRETERS: &[Interpreter] = &[
    Interpreter {
        names: &["python", "python2", "python3", "pypy", "pypy3"],
        options: Options {
            flags: "bBdEIOqsSuvxVh",
            values: "mWX",
            long: "version help",
            ..ORDERED
        },
        about: &["-V", "-h", "--version", "--help"],
        module: &["-m"],
    },
    Interpreter {
        names: &["node", "nodejs"],
        options: Options {
            flags: "vhc",
            long: "version help check test no-warnings trace-warnings enable-source-maps",
            ..ORDERED
        },
        about: &["-v", "-h", "--version", "--help", "--test"],
        module: &[],
    },
    Interpreter {
        names: &["perl"],
        options: Options { flags: "vwcW", long: "version help", ..ORDERED },
        about: &["-v", "--version", "--help"],
        module: &[],
    },
    Interpreter {
        names: &["ruby"],
        options: Options { flags: "vwcW", long: "version help", ..ORDERED },
        about: &["-v", "--version", "--help"],
        module: &[],
    },
    Interpreter {
        names: &["php", "lua", "luajit", "Rscript", "tclsh", "guile", "julia", "elixir", "groovy"],
        options: Options { flags: "v", long: "version help", ..ORDERED },
        about: &["-v", "--version", "--help"],
        module: &[],
    },
    Interpreter {
        names: &[
            "deno",
            "bun",
            "osascript",
            "expect",
            "irb",
            "ghci",
            "scala",
            "fish",
            "zsh",
            "ksh",
            "csh",
            "tcsh",
            "pwsh",
        ],
        options: Options { long: "version help", ..ORDERED },
        about: &["--version", "--help"],
        module: &[],
    },
];

/// Whether a program runs what a file or its input holds.
pub(in crate::shell) fn is_interpreter(base: &str) -> bool {
    find(base).is_some()
}

fn find(base: &str) -> Option<&'static Interpreter> {
    // `python3.11` is `python3`.
    let plain =
        base.trim_end_matches(|character: char| character.is_ascii_digit() || character == '.');
    let named =
        |names: &[&str]| names.contains(&base) || (base.contains('.') && names.contains(&plain));
    INTERPRETERS.iter().find(|interpreter| named(interpreter.names))
}

/// The file that an interpreter or a shell is given, if that is what it runs.
pub(in crate::shell) fn script_file(base: &str, arguments: &[Word]) -> Option<Word> {
    if matches!(base, "sh" | "bash" | "dash" | "ash") {
        let call = shell_call(arguments);
        let file = call.rest.first().filter(|_| !call.is_about && !call.text_follows)?;
        return (call.is_plain && is_file(file)).then(|| file.clone());
    }
    let interpreter = find(base)?;
    let parsed = interpreter.options.parse(arguments).ok()?;
    let ends = parsed.has(interpreter.about) || parsed.has(interpreter.module);
    let file = parsed.operands.first().filter(|_| !ends)?;
    is_file(file).then(|| file.clone())
}

fn is_file(word: &Word) -> bool {
    word.plain().is_some_and(|text| !text.is_empty() && !text.starts_with('-') && !is_device(text))
}

/// Adds or doubts what an interpreter runs; nothing if it is none.
pub(super) fn open(reading: &mut Reading, run: &Run, base: &str, depth: usize) -> Option<()> {
    if matches!(base, "sh" | "bash" | "dash" | "ash" | "rbash" | "zsh" | "ksh") {
        shell(reading, run, base, depth);
        return Some(());
    }
    let interpreter = find(base)?;
    match interpreter.options.parse(&run.argv[1..]) {
        Err(_) => reading
            .doubt(&shown(&run.argv), "code in the command line, or an option that is not known"),
        Ok(parsed) if parsed.has(interpreter.about) || parsed.has(interpreter.module) => {}
        Ok(parsed) if !parsed.operands.first().is_some_and(is_file) => {
            reading.doubt(
                &shown(&run.argv),
                "code from its input, or from a file that is not certain",
            );
        }
        Ok(_) => {}
    }
    Some(())
}

/// The arguments of a shell, sorted.
struct ShellCall<'w> {
    /// Whether it only says something about itself.
    is_about: bool,
    /// Whether what follows is the text of commands.
    text_follows: bool,
    /// Whether every option changes no more than when the shell stops and what it prints.
    is_plain: bool,
    /// What stands behind the options.
    rest: &'w [Word],
}

/// Sorts the arguments of a shell. Options begin with a plus too, and a single dash ends them.
fn shell_call(arguments: &[Word]) -> ShellCall<'_> {
    let mut call =
        ShellCall { is_about: false, text_follows: false, is_plain: true, rest: arguments };
    while let Some((Word::Plain(text), others)) = call.rest.split_first() {
        let Some(letters) = text.strip_prefix(['-', '+']) else { break };
        call.rest = others;
        match text.as_str() {
            "-" | "--" => break,
            "--version" | "--help" => {
                call.is_about = true;
                break;
            }
            _ => {}
        }
        call.text_follows |= !letters.starts_with('-') && letters.contains('c');
        call.is_plain &= letters.bytes().all(|letter| b"ceux".contains(&letter));
    }
    call
}

/// `sh -c text` is read; `sh file` runs a file; `sh` alone runs its input.
fn shell(reading: &mut Reading, run: &Run, base: &str, depth: usize) {
    if !matches!(base, "sh" | "bash" | "dash") {
        reading.doubt(base, "a shell whose language is not read");
    }
    let call = shell_call(&run.argv[1..]);
    if !call.is_plain {
        reading.doubt(&shown(&run.argv), "an option of a shell that can run more than the text");
    }
    if call.is_about {
        return;
    }
    match call.rest.first() {
        Some(Word::Plain(text)) if call.text_follows => start_text(reading, run, base, text, depth),
        Some(file) if !call.text_follows && is_file(file) => {}
        _ => reading.doubt(&shown(&run.argv), "commands that are not in the text"),
    }
}
