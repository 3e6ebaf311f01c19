//! Shells and interpreters: what they run is in a text, in a file, or comes from their input.

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
            long: &["version", "help"],
            ..ORDERED
        },
        about: &["-V", "-h", "--version", "--help"],
        module: &["-m"],
    },
    Interpreter {
        names: &["node", "nodejs"],
        options: Options {
            flags: "vhc",
            long: &[
                "version",
                "help",
                "check",
                "test",
                "no-warnings",
                "trace-warnings",
                "enable-source-maps",
            ],
            ..ORDERED
        },
        about: &["-v", "-h", "--version", "--help", "--test"],
        module: &[],
    },
    Interpreter {
        names: &["perl"],
        options: Options { flags: "vwcW", long: &["version", "help"], ..ORDERED },
        about: &["-v", "--version", "--help"],
        module: &[],
    },
    Interpreter {
        names: &["ruby"],
        options: Options { flags: "vwcW", long: &["version", "help"], ..ORDERED },
        about: &["-v", "--version", "--help"],
        module: &[],
    },
    Interpreter {
        names: &["php", "lua", "luajit", "Rscript", "tclsh", "guile", "julia", "elixir", "groovy"],
        options: Options { flags: "v", long: &["version", "help"], ..ORDERED },
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
        options: Options { long: &["version", "help"], ..ORDERED },
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
    let options = match base {
        "sh" | "bash" | "dash" | "ash" => Options { flags: "eux", ..ORDERED },
        _ => find(base)?.options,
    };
    let parsed = options.parse(arguments).ok()?;
    let ends = find(base).is_some_and(|found| parsed.has(found.about) || parsed.has(found.module));
    let file = parsed.operands.first().filter(|_| !ends)?;
    is_file(file).then(|| file.clone())
}

fn is_file(word: &Word) -> bool {
    word.plain().is_some_and(|text| {
        !text.is_empty()
            && !text.starts_with('-')
            && !text.starts_with("/dev/")
            && !text.starts_with("/proc/")
    })
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

/// `sh -c text` is read; `sh file` runs a file; `sh` alone runs its input.
fn shell(reading: &mut Reading, run: &Run, base: &str, depth: usize) {
    if !matches!(base, "sh" | "bash" | "dash") {
        reading.doubt(base, "a shell whose language is not read");
    }
    let mut text_follows = false;
    let mut rest = &run.argv[1..];
    while let Some((word, others)) = rest.split_first() {
        let Some(text) = word.plain() else { break };
        let Some(letters) = text.strip_prefix('-').filter(|letters| !letters.is_empty()) else {
            break;
        };
        rest = others;
        if matches!(text, "--version" | "--help") {
            return;
        }
        if text == "--" {
            break;
        }
        text_follows |= !letters.starts_with('-') && letters.contains('c');
        if !letters.bytes().all(|letter| b"ceux".contains(&letter)) {
            reading
                .doubt(&shown(&run.argv), "an option of a shell that can run more than the text");
        }
    }
    match rest.first() {
        Some(Word::Plain(text)) if text_follows => start_text(reading, run, base, text, depth),
        Some(file) if !text_follows && is_file(file) => {}
        _ => reading.doubt(&shown(&run.argv), "commands that are not in the text"),
    }
}
