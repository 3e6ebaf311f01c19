//! Wrappers of the form `wrapper [options] [operands] command`.

use crate::shell::options::{Options, Parsed};
use crate::shell::settle::{shown, start, start_text, start_with};
use crate::shell::variable::is_name;
use crate::shell::{Reading, Run, Word};

/// One wrapper.
struct Wrapper {
    name: &'static str,
    options: Options,
    /// How many operands come before the command.
    before: usize,
    /// Whether the command does the same as without the wrapper, but for priority, time and where output goes.
    transparent: bool,
}

const ORDERED: Options = Options { ordered: true, ..Options::NONE };

const WRAPPERS: &[Wrapper] = &[
    Wrapper { name: "builtin", options: ORDERED, before: 0, transparent: false },
    Wrapper {
        name: "chroot",
        options: Options { long_values: "userspec groups", long: "skip-chdir", ..ORDERED },
        before: 1,
        transparent: false,
    },
    Wrapper {
        name: "doas",
        options: Options { flags: "nLs", values: "uCa", ..ORDERED },
        before: 0,
        transparent: false,
    },
    Wrapper {
        name: "exec",
        options: Options { flags: "cl", values: "a", ..ORDERED },
        before: 0,
        transparent: false,
    },
    Wrapper {
        name: "ionice",
        options: Options {
            flags: "t",
            values: "cn",
            long: "ignore",
            long_values: "class classdata",
            ..ORDERED
        },
        before: 0,
        transparent: true,
    },
    Wrapper {
        name: "nice",
        options: Options { values: "n", number: true, long_values: "adjustment", ..ORDERED },
        before: 0,
        transparent: true,
    },
    Wrapper { name: "nohup", options: ORDERED, before: 0, transparent: false },
    Wrapper {
        name: "setsid",
        options: Options { flags: "cfw", long: "ctty fork wait", ..ORDERED },
        before: 0,
        transparent: false,
    },
    Wrapper {
        name: "stdbuf",
        options: Options { values: "ioe", long_values: "input output error", ..ORDERED },
        before: 0,
        transparent: true,
    },
    Wrapper {
        name: "strace",
        options: Options { flags: "fFqrtTvxycCk", values: "eosapuIPSX", ..ORDERED },
        before: 0,
        transparent: false,
    },
    Wrapper {
        name: "sudo",
        options: Options {
            flags: "AbEeHiKklnPSsVv",
            values: "CDghpRrTtUu",
            long: "non-interactive preserve-env login shell stdin",
            long_values: "user group chdir prompt",
            ..ORDERED
        },
        before: 0,
        transparent: false,
    },
    Wrapper {
        name: "taskset",
        options: Options { flags: "ac", long: "all-tasks cpu-list", ..ORDERED },
        before: 1,
        transparent: true,
    },
    // `time -p` is read by the shell or by the program, and each takes other words for options.
    Wrapper { name: "time", options: ORDERED, before: 0, transparent: true },
    Wrapper {
        name: "timeout",
        options: Options {
            flags: "v",
            values: "ks",
            long: "preserve-status foreground verbose",
            long_values: "kill-after signal",
            ..ORDERED
        },
        before: 1,
        transparent: true,
    },
    Wrapper {
        name: "unshare",
        options: Options {
            flags: "mnipuUCTfrc",
            long: "mount net ipc pid uts user fork map-root-user mount-proc",
            ..ORDERED
        },
        before: 0,
        transparent: false,
    },
];

const ENV: Options = Options {
    flags: "i0v",
    values: "uSC",
    long: "ignore-environment null debug",
    long_values: "unset split-string chdir",
    last: &["-S", "--split-string"],
    ..ORDERED
};

const XARGS: Options = Options {
    flags: "0rtxopo",
    values: "nPLIsdaE",
    attached: "iel",
    long: "null no-run-if-empty verbose exit open-tty interactive",
    long_values: "max-args max-procs max-chars delimiter arg-file",
    long_attached: "replace max-lines eof",
    ..ORDERED
};

const FLOCK: Options = Options {
    flags: "sxeunoFv",
    values: "wE",
    long: "shared exclusive unlock nonblock close no-fork verbose",
    long_values: "timeout conflict-exit-code",
    ..ORDERED
};

/// Whether a command that this wrapper starts is all there is to judge.
pub(in crate::shell) fn is_transparent(name: &str) -> bool {
    let listed = WRAPPERS.iter().any(|wrapper| wrapper.name == name && wrapper.transparent);
    listed || matches!(name, "env" | "xargs" | "command" | "sh" | "bash" | "dash" | "eval")
}

/// Adds what a wrapper starts; nothing if it is none.
pub(super) fn open(reading: &mut Reading, run: &Run, base: &str, depth: usize) -> Option<()> {
    match base {
        "env" => env(reading, run, depth),
        "xargs" => xargs(reading, run, depth),
        "command" => command(reading, run, depth),
        "flock" => flock(reading, run, depth),
        "eval" => eval(reading, run, depth),
        "busybox" | "toybox" => start(reading, run, "busybox", run.argv[1..].to_vec(), depth),
        _ => {
            let wrapper = WRAPPERS.iter().find(|wrapper| wrapper.name == base)?;
            if base == "time" && run.argv.get(1).is_some_and(|word| word.text().starts_with('-')) {
                reading
                    .doubt(&shown(&run.argv), "an option that the shell or the program may take");
            }
            if let Some(parsed) = parse(reading, run, &wrapper.options, depth)
                && !parsed.operands.is_empty()
            {
                begin(reading, run, base, &parsed.operands, wrapper.before, depth);
            }
        }
    }
    Some(())
}

fn parse(reading: &mut Reading, run: &Run, options: &Options, depth: usize) -> Option<Parsed> {
    accept(reading, run, options.parse(&run.argv[1..]), depth)
}

/// The arguments as sorted. Where that failed, the first word that is no option may be what it starts: it is read too, so that
/// a rule that forbids a program finds it.
fn accept(
    reading: &mut Reading,
    run: &Run,
    sorted: Result<Parsed, String>,
    depth: usize,
) -> Option<Parsed> {
    match sorted {
        Ok(parsed) => Some(parsed),
        Err(problem) => {
            reading.doubt(&shown(&run.argv), problem);
            let words = &run.argv[1..];
            let at = words
                .iter()
                .position(|word| word.plain().is_some_and(|text| !text.starts_with('-')));
            if let Some(at) = at {
                start(reading, run, "?", words[at..].to_vec(), depth);
            }
            None
        }
    }
}

/// Adds the command behind so many operands, each of which must be one word.
fn begin(
    reading: &mut Reading,
    run: &Run,
    base: &str,
    words: &[Word],
    before: usize,
    depth: usize,
) {
    if words.len() < before || !words[..before].iter().all(Word::is_single) {
        return reading.doubt(&shown(&run.argv), "where its command begins is not certain");
    }
    if words.len() > before {
        start(reading, run, base, words[before..].to_vec(), depth);
    }
}

/// Whether a command line of `env` starts something; without a command it prints every variable.
pub(in crate::shell) fn env_starts(arguments: &[Word]) -> bool {
    env_arguments(arguments).map_or(true, |parsed| !env_command(&parsed).1.is_empty())
}

fn env(reading: &mut Reading, run: &Run, depth: usize) {
    let sorted = env_arguments(&run.argv[1..]);
    let Some(parsed) = accept(reading, run, sorted, depth) else { return };
    if parsed.has(&["-C", "--chdir"]) {
        reading.doubt(&shown(&run.argv), "it starts in another folder");
    }
    let (assignments, command) = env_command(&parsed);
    if let Some((name, _)) = assignments.iter().find(|(name, _)| !is_name(name)) {
        reading.doubt(name, "a variable with a name that is not plain");
    }
    if !command.is_empty() {
        start_with(reading, run, "env", command.to_vec(), assignments, depth);
    }
}

/// Sorts the arguments of `env`. The words of a text behind `-S` take its place, and all that stands behind it follows them.
fn env_arguments(arguments: &[Word]) -> Result<Parsed, String> {
    let mut all = Parsed::default();
    let mut words = arguments.to_vec();
    for _ in 0..MOST_TEXTS {
        let parsed = ENV.parse(&words)?;
        let text = parsed.values(&["-S", "--split-string"]).pop();
        all.options.extend(parsed.options);
        all.operands = parsed.operands;
        match text.as_ref().map(Word::plain) {
            None => return Ok(all),
            Some(Some(text)) if !text.contains(['\\', '$', '"', '\'', '#']) => {
                words = text.split_whitespace().map(|word| Word::Plain(word.to_owned())).collect();
                words.append(&mut all.operands);
            }
            Some(_) => return Err("a text that is split in a way that is not followed".to_owned()),
        }
    }
    Err("texts inside texts that are split".to_owned())
}

/// How many texts are split that stand in each other.
const MOST_TEXTS: usize = 4;

/// The variables that `env` sets, and the command that it starts.
fn env_command(parsed: &Parsed) -> (Vec<(String, Word)>, &[Word]) {
    let mut assignments = Vec::new();
    let mut rest = parsed.operands.as_slice();
    if rest.first().and_then(Word::plain) == Some("-") {
        rest = &rest[1..];
    }
    while let Some((Word::Plain(text), others)) = rest.split_first() {
        let Some((name, value)) = text.split_once('=') else { break };
        assignments.push((name.to_owned(), Word::Plain(value.to_owned())));
        rest = others;
    }
    (assignments, rest)
}

/// What the input holds becomes words of the command.
fn xargs(reading: &mut Reading, run: &Run, depth: usize) {
    let Some(parsed) = parse(reading, run, &XARGS, depth) else { return };
    let among = |name: &str, names: &[&str]| names.contains(&name);
    let marks = |(name, _): &&(String, Option<Word>)| among(name, &["-I", "-i", "--replace"]);
    let replaced = match parsed.options.iter().rev().find(marks) {
        Some((_, Some(value))) => value.plain().map(str::to_owned),
        Some((_, None)) => Some("{}".to_owned()),
        None => None,
    };
    // The last of those that exclude each other counts in some versions: the mark is then a word like any other, and all
    // that is read is added.
    let mut behind_mark = parsed.options.iter().skip_while(|option| !marks(option));
    if behind_mark.any(|(name, _)| among(name, &["-n", "-L", "-l", "--max-args", "--max-lines"])) {
        reading.doubt(&shown(&run.argv), "options of which one takes back the other");
    }
    let mut argv = parsed.operands;
    if argv.is_empty() {
        argv.push(Word::Plain("echo".to_owned()));
    }
    match &replaced {
        Some(mark) => {
            for word in &mut argv {
                if word.text().contains(mark.as_str()) {
                    *word = Word::Unknown(word.text().to_owned());
                }
            }
        }
        None => argv.push(Word::Unknown("…".to_owned())),
    }
    start(reading, run, "xargs", argv, depth);
}

/// `command -v` looks a name up, `command name` runs it.
fn command(reading: &mut Reading, run: &Run, depth: usize) {
    let options = Options { flags: "pvV", ..ORDERED };
    if let Some(parsed) = parse(reading, run, &options, depth)
        && !parsed.has(&["-v", "-V"])
        && !parsed.operands.is_empty()
    {
        start(reading, run, "command", parsed.operands, depth);
    }
}

fn flock(reading: &mut Reading, run: &Run, depth: usize) {
    let Some(parsed) = parse(reading, run, &FLOCK, depth) else { return };
    match parsed.operands.as_slice() {
        [] => {}
        [_, Word::Plain(option), Word::Plain(text)] if option == "-c" || option == "--command" => {
            start_text(reading, run, "flock", text, depth);
        }
        words if words.get(1).is_some_and(|word| word.text().starts_with('-')) => {
            reading.doubt(&shown(&run.argv), "an option that is not known");
        }
        words => begin(reading, run, "flock", words, 1, depth),
    }
}

/// `eval` joins its words with blanks and reads them again.
fn eval(reading: &mut Reading, run: &Run, depth: usize) {
    let words: Option<Vec<&str>> = run.argv[1..].iter().map(Word::plain).collect();
    match words {
        Some(words) if !words.first().is_some_and(|word| word.starts_with('-')) => {
            start_text(reading, run, "eval", &words.join(" "), depth);
        }
        _ => reading.doubt(&shown(&run.argv), "a text that is not certain is read as commands"),
    }
}
