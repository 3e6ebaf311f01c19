//! What an invocation of a well-known program does, told by its arguments.
//!
//! Every program has a table of the options that are known; any other option makes the invocation unknown. What a
//! wrapper starts is a run of its own, and redirections are not among the deeds: both are judged beside them.

mod build;
mod cargo;
mod change;
mod find;
mod git;
mod node;
mod program;
mod python;
mod reach;
mod text;

use program::Program;

use super::wrap::{base_name, env_starts, is_interpreter, is_transparent, script_file};
use super::{Run, Word, script};

/// What is known of an invocation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Known {
    /// All of it is understood.
    Understood(Deeds),
    /// Not understood, and why, in a few words.
    Unknown(String),
}

/// What an invocation does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deeds {
    /// Which kind of work it is.
    pub kind: Kind,
    /// Files and folders that are read, as far as the arguments name them.
    pub reads: Vec<Word>,
    /// Whether folders are read with all that is in them.
    pub deep: bool,
    /// Files and folders that are written or removed, as far as the arguments name them.
    pub writes: Vec<Word>,
    /// Hosts that are reached, as far as the arguments name them.
    pub hosts: Vec<Word>,
}

/// Which kind of work an invocation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// It only reads and prints.
    Look,
    /// It writes exactly the named paths.
    Change,
    /// It runs the project's own code or its build tools.
    Build,
    /// It changes what git holds of this repository, and nothing elsewhere.
    Record,
    /// It needs the network.
    Reach,
}

impl Deeds {
    /// Work of a kind, with nothing named.
    fn of(kind: Kind) -> Deeds {
        Deeds { kind, reads: Vec::new(), deep: false, writes: Vec::new(), hosts: Vec::new() }
    }
}

/// Folders whose programs are the ones that their names say.
const SYSTEM: &[&str] = &["/bin/", "/usr/bin/", "/usr/local/bin/", "/sbin/", "/usr/sbin/"];

/// Commands that the shell carries out itself, and that were checked when the line was read.
const BUILT_IN: &[&str] = &[
    "echo", "printf", ":", "break", "continue", "eval", "exit", "export", "false", "jobs", "read",
    "readonly", "return", "set", "shift", "times", "true", "umask", "unset", "wait",
];

/// What an invocation of a well-known program does.
pub fn look(run: &Run) -> Known {
    match judge(run) {
        Ok(deeds) => Known::Understood(deeds),
        Err(why) => Known::Unknown(why),
    }
}

/// Whether an invocation that is not understood may change any file of a repository's checkout, though it names none.
pub(crate) fn may_change_checkout(run: &Run) -> bool {
    is_git(run) && git::may_change_files(&run.argv[1..])
}

/// Whether an invocation that is not understood may show what any file of a repository holds, though it names none.
pub(crate) fn may_show_checkout(run: &Run) -> bool {
    is_git(run) && git::may_show_contents(&run.argv[1..])
}

fn is_git(run: &Run) -> bool {
    run.argv.first().and_then(Word::plain).is_some_and(|program| base_name(program) == "git")
}

fn judge(run: &Run) -> Result<Deeds, String> {
    let Some(program) = run.argv.first() else { return Ok(Deeds::of(Kind::Look)) };
    let Some(full) = program.plain() else {
        return Err("which program it is depends on what happens when it runs".to_owned());
    };
    let name = base_name(full);
    if full.contains('/') && !SYSTEM.iter().any(|folder| full.strip_prefix(folder) == Some(name)) {
        return Err(format!("{full} is a program named by its path"));
    }
    let arguments = &run.argv[1..];
    if BUILT_IN.contains(&name) {
        return Ok(Deeds::of(Kind::Look));
    }
    if let Some(found) = tables().find(|program| program.names.contains(&name)) {
        return found.judge(arguments).map_err(|why| format!("{name}: {why}"));
    }
    let special = match name {
        "find" => find::find(arguments),
        "sed" => scripted(script::sed(arguments)),
        "awk" | "gawk" | "mawk" => scripted(script::awk(arguments)),
        "jq" => text::jq(arguments),
        "cd" => text::cd(arguments),
        "xargs" if arguments.iter().any(|word| names_file(word.text())) => {
            Err("words from a file".to_owned())
        }
        "env" if !env_starts(arguments) => Err("it prints the environment".to_owned()),
        "test" | "[" => Ok(tested(arguments)),
        "git" => git::git(arguments),
        "cargo" => cargo::cargo(arguments),
        "npm" | "pnpm" | "yarn" | "npx" => node::node_package(name, arguments),
        "python" | "python3" => python::python(arguments),
        "pip" | "pip3" | "uv" => python::installer(arguments),
        "go" => build::go(arguments),
        "rustc" => build::rustc(arguments),
        "curl" => reach::curl(arguments),
        "wget" => reach::wget(arguments),
        "ssh" | "scp" | "rsync" => reach::remote(name, arguments),
        "node" if arguments.iter().any(|word| word.plain() == Some("--test")) => {
            node::node_test(arguments)
        }
        "sh" | "bash" | "dash" if script_file(name, arguments).is_none() => {
            Ok(Deeds::of(Kind::Look))
        }
        "bun" | "deno" | "expect" | "fish" | "ghci" | "irb" | "osascript" | "scala" => {
            Err("what it runs is not certain".to_owned())
        }
        _ if is_interpreter(name) || matches!(name, "sh" | "bash" | "dash") => {
            interpreted(name, arguments)
        }
        _ if is_transparent(name) => Ok(Deeds::of(Kind::Look)),
        _ => Err("a program that is not known here".to_owned()),
    };
    special.map_err(|why| format!("{name}: {why}"))
}

fn tables() -> impl Iterator<Item = &'static Program> {
    text::PROGRAMS.iter().chain(change::PROGRAMS).chain(build::PROGRAMS).chain(reach::PROGRAMS)
}

/// What a script of sed or awk does with the files it is given.
fn scripted(script: script::Script) -> Result<Deeds, String> {
    match script.verdict {
        script::Verdict::Prints => Ok(Deeds { reads: script.files, ..Deeds::of(Kind::Look) }),
        script::Verdict::Writes => Ok(Deeds {
            reads: script.files.clone(),
            writes: script.files,
            ..Deeds::of(Kind::Change)
        }),
        script::Verdict::NotKnown | script::Verdict::MayRun => {
            Err("a script that does more than print".to_owned())
        }
    }
}

/// A file of the project that an interpreter runs.
fn interpreted(name: &str, arguments: &[Word]) -> Result<Deeds, String> {
    let about = arguments.len() == 1
        && arguments[0]
            .plain()
            .is_some_and(|text| matches!(text, "--version" | "-v" | "-V" | "--help"));
    if about {
        return Ok(Deeds::of(Kind::Look));
    }
    match script_file(name, arguments) {
        Some(file) => Ok(Deeds { reads: vec![file], ..Deeds::of(Kind::Build) }),
        None => Err("what it runs is not certain".to_owned()),
    }
}

/// Whether an option of xargs names a file that it reads.
fn names_file(option: &str) -> bool {
    let letters = option.strip_prefix('-').filter(|letters| !letters.starts_with('-'));
    option.starts_with("--arg") || letters.is_some_and(|letters| letters.contains('a'))
}

/// A test looks at the files that it names; words that are no files do no harm among them.
fn tested(arguments: &[Word]) -> Deeds {
    let mut deeds = Deeds::of(Kind::Look);
    let tests = [
        "-e", "-f", "-d", "-r", "-w", "-x", "-s", "-L", "-h", "-b", "-c", "-p", "-S", "-k", "-u",
        "-g", "-O", "-G", "-N", "-nt", "-ot", "-ef",
    ];
    for pair in arguments.windows(2) {
        if pair[0].plain().is_some_and(|text| tests.contains(&text)) {
            deeds.reads.push(pair[1].clone());
        }
    }
    deeds
}
