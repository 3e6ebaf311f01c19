//! Programs that start others by one of their own options or in a language of their own.

use crate::shell::device::is_device;
use crate::shell::script::{self, Verdict};
use crate::shell::settle::{shown, start, start_text};
use crate::shell::{Reading, Run, Word};

/// Adds or doubts what such a program starts; nothing if it is none.
pub(super) fn open(reading: &mut Reading, run: &Run, base: &str, depth: usize) -> Option<()> {
    match base {
        "find" | "gfind" => find(reading, run, depth),
        "git" => git(reading, run, depth),
        "awk" | "gawk" | "mawk" | "nawk" | "original-awk" => {
            judge(reading, run, script::awk(&run.argv[1..]).verdict);
        }
        "sed" | "gsed" => judge(reading, run, script::sed(&run.argv[1..]).verdict),
        "make" | "gmake" => make(reading, run),
        "ninja" => rules(reading, run),
        "tar" | "gtar" | "bsdtar" => tar(reading, run),
        "ssh" => connect(reading, run, &SSH),
        "scp" => connect(reading, run, &SCP),
        "rsync" => connect(reading, run, &RSYNC),
        "watch" => watch(reading, run, depth),
        "script" => script_command(reading, run, depth),
        "parallel"
        | "entr"
        | "sftp"
        | "gdb"
        | "lldb"
        | "perf"
        | "valgrind"
        | "ltrace"
        | "systemd-run"
        | "at"
        | "batch"
        | "crontab"
        | "screen"
        | "tmux"
        | "socat"
        | "nc"
        | "ncat"
        | "netcat"
        | "expect"
        | "vi"
        | "vim"
        | "nvim"
        | "emacs"
        | "ed"
        | "ex"
        | "less"
        | "more"
        | "man"
        | "docker"
        | "podman"
        | "kubectl"
        | "nsenter"
        | "bwrap"
        | "firejail"
        | "runuser"
        | "su"
        | "pkexec"
        | "run-parts"
        | "start-stop-daemon"
        | "ld.so"
        | "ld-linux-x86-64.so.2"
        | "zip"
        | "rlwrap"
        | "unbuffer"
        | "dbus-run-session"
        | "faketime"
        | "capsh"
        | "setpriv"
        | "prlimit"
        | "numactl"
        | "chrt"
        | "cpulimit"
        | "proot"
        | "fakeroot" => {
            reading.doubt(&shown(&run.argv), "a program that can run others");
        }
        _ => return None,
    }
    Some(())
}

fn judge(reading: &mut Reading, run: &Run, verdict: Verdict) {
    match verdict {
        Verdict::Prints | Verdict::Writes | Verdict::NotKnown => {}
        Verdict::MayRun => reading.doubt(&shown(&run.argv), "a script that may run commands"),
    }
}

/// A program that connects to another machine.
struct Connection {
    /// Letters of options by which it runs a program, opens a way for others or reads settings that may say so.
    starting: &'static str,
    /// Words behind `--` that do so.
    long: &'static [&'static str],
    /// Other letters with a value.
    valued: &'static str,
    /// Whether its second operand begins a command for the other machine, and its options end there.
    takes_command: bool,
}

const SSH: Connection =
    Connection { starting: "DFIJLPRSWow", long: &[], valued: "BEOQbceilmp", takes_command: true };
const SCP: Connection =
    Connection { starting: "DFJSXo", long: &[], valued: "Pcil", takes_command: false };
const RSYNC: Connection = Connection {
    starting: "e",
    long: &["--rsh", "--rsync-path"],
    valued: "@BMTf",
    takes_command: false,
};

/// Doubts options by which such a program starts another one, alone, among other letters, and behind the host.
fn connect(reading: &mut Reading, run: &Run, kind: &Connection) {
    if starts_another(&run.argv[1..], kind) || !run.argv.iter().all(Word::is_single) {
        reading.doubt(&shown(&run.argv), "an option by which it can run another program");
    }
}

fn starts_another(arguments: &[Word], kind: &Connection) -> bool {
    let mut operands = 0;
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let text = word.text();
        match text.strip_prefix('-') {
            None | Some("") => {
                if word.plain().is_none() && !word.is_operand() {
                    return true;
                }
                operands += 1;
                if kind.takes_command && operands == 2 {
                    return false;
                }
            }
            Some("-") => {}
            Some(long) if long.starts_with('-') => {
                if kind.long.iter().any(|option| text.starts_with(option)) {
                    return true;
                }
            }
            Some(letters) => match letters.find(|letter| !is_flag(kind, letter)) {
                Some(at) if !letters[at..].starts_with(|letter| kind.valued.contains(letter)) => {
                    return true;
                }
                // The value is the rest, or the next word.
                Some(at) if letters.len() == at + 1 => {
                    words.next();
                }
                _ => {}
            },
        }
    }
    false
}

fn is_flag(kind: &Connection, letter: char) -> bool {
    !kind.starting.contains(letter) && !kind.valued.contains(letter)
}

fn find(reading: &mut Reading, run: &Run, depth: usize) {
    let mut words = run.argv[1..].iter();
    while let Some(word) = words.next() {
        let Some(text) = word.plain() else {
            if !word.is_operand() {
                reading.doubt(word.text(), "it could be an action that runs commands");
            }
            continue;
        };
        if !matches!(text, "-exec" | "-execdir" | "-ok" | "-okdir") {
            continue;
        }
        let mut argv = Vec::new();
        let mut ended = false;
        for word in words.by_ref() {
            let together = matches!(argv.last(), Some(Word::Unknown(mark)) if mark == "{}");
            match word {
                Word::Plain(text) if text == ";" || (text == "+" && together) => {
                    ended = true;
                    break;
                }
                Word::Plain(text) if text.contains("{}") => argv.push(Word::Unknown(text.clone())),
                other => argv.push(other.clone()),
            }
        }
        if !ended || argv.is_empty() {
            return reading.doubt(&shown(&run.argv), "an action without its end");
        }
        if matches!(text, "-execdir" | "-okdir") {
            reading.doubt(&shown(&argv), "it starts in the folder of each file");
        }
        start(reading, run, "find", argv, depth);
    }
}

fn git(reading: &mut Reading, run: &Run, depth: usize) {
    let words = &run.argv[1..];
    let mut index = 0;
    while let Some(text) = words.get(index).map(Word::text) {
        match text {
            "-C" | "--git-dir" | "--work-tree" | "--namespace" => index += 2,
            "-c" | "--config-env" | "--exec-path" => {
                reading.doubt(&shown(&run.argv), "a setting by which git can run another program");
                index += 2;
            }
            _ if text.starts_with("-c")
                || text.starts_with("--config-env")
                || text.starts_with("--exec-path=") =>
            {
                reading.doubt(&shown(&run.argv), "a setting by which git can run another program");
                index += 1;
            }
            _ if text.starts_with('-') => index += 1,
            _ => break,
        }
    }
    let Some(command) = words.get(index) else { return };
    let Some(command) = command.plain() else {
        return reading
            .doubt(&shown(&run.argv), "which command of git it is depends on what happens");
    };
    let rest = &words[index + 1..];
    let at = |position: usize| rest.get(position).and_then(Word::plain);
    match command {
        "submodule" if rest.iter().any(|word| word.plain() == Some("foreach")) => {
            let behind = rest.iter().skip_while(|word| word.plain() != Some("foreach")).skip(1);
            let behind: Vec<&Word> =
                behind.skip_while(|word| word.text().starts_with('-')).collect();
            let texts: Option<Vec<&str>> = behind.iter().map(|word| word.plain()).collect();
            match texts {
                Some(texts) => {
                    start_text(reading, run, "git submodule foreach", &texts.join(" "), depth)
                }
                None => reading.doubt(&shown(&run.argv), "commands that are not certain"),
            }
        }
        "bisect" if at(0) == Some("run") => {
            start(reading, run, "git bisect run", rest[1..].to_vec(), depth);
        }
        "rebase" => rebase(reading, run, rest, depth),
        "filter-branch" | "difftool" | "mergetool" | "daemon" | "instaweb" | "send-email"
        | "hook" => {
            reading.doubt(&shown(&run.argv), "a command of git that runs others");
        }
        _ => {
            let starting = [
                "--upload-pack",
                "--receive-pack",
                "--exec",
                "--ext-diff",
                "--extcmd",
                "--textconv",
                "--open-files-in-pager",
            ];
            let found = rest
                .iter()
                .any(|word| starting.iter().any(|option| word.text().starts_with(option)));
            if found {
                reading.doubt(&shown(&run.argv), "an option by which git can run another program");
            }
        }
    }
}

fn rebase(reading: &mut Reading, run: &Run, rest: &[Word], depth: usize) {
    let mut words = rest.iter();
    while let Some(word) = words.next() {
        let text = word.text();
        let given = text.strip_prefix("--exec=").or_else(|| text.strip_prefix("-x"));
        let inner = match given {
            Some(inner) if !inner.is_empty() => word.plain().map(|_| inner),
            Some(_) => words.next().and_then(Word::plain),
            None if text == "--exec" => words.next().and_then(Word::plain),
            None => continue,
        };
        match inner {
            Some(inner) => start_text(reading, run, "git rebase --exec", inner, depth),
            None => reading.doubt(&shown(&run.argv), "commands that are not certain"),
        }
    }
}

/// Variables and texts on the command line can run anything.
fn make(reading: &mut Reading, run: &Run) {
    let found = run.argv[1..].iter().any(|word| {
        let text = word.text();
        text.contains('=') || text.starts_with("--eval") || text.starts_with("-E")
    });
    if found {
        return reading
            .doubt(&shown(&run.argv), "a variable or a text by which make can run anything");
    }
    rules(reading, run);
}

/// As many jobs as there are processors: no more than a number.
const COUNTED: [&str; 3] = ["-j$(nproc)", "-j\"$(nproc)\"", "\"$(nproc)\""];

/// A file of rules may be the input, or a device; its name may stand behind letters of options.
fn rules(reading: &mut Reading, run: &Run) {
    let found = run.argv[1..].iter().any(|word| {
        let Some(text) = word.plain() else { return !COUNTED.contains(&word.text()) };
        let letters = text.strip_prefix('-').filter(|letters| !letters.starts_with('-'));
        let attached = letters.is_some_and(|letters| {
            let path = letters.find(['/', '.']).map_or("", |at| &letters[at..]);
            letters.is_empty() || letters.ends_with('-') || is_device(path)
        });
        attached || is_device(text)
    });
    if found {
        reading.doubt(
            &shown(&run.argv),
            "commands from its input, or from a file that is not certain",
        );
    }
}

fn tar(reading: &mut Reading, run: &Run) {
    let starting =
        ["--checkpoint-", "--to-", "--use-", "--rmt", "--rsh", "--info-", "--new-", "-I", "-F"];
    let found = run.argv[1..].iter().any(|word| {
        let text = word.text();
        starting.iter().any(|option| text.starts_with(option))
            || !(word.is_operand() || word.plain().is_some())
    });
    if found {
        reading.doubt(&shown(&run.argv), "an option by which it can run another program");
    }
}

/// `watch` gives its words to a shell.
fn watch(reading: &mut Reading, run: &Run, depth: usize) {
    let options = crate::shell::options::Options {
        flags: "bcdegtwx",
        values: "n",
        ordered: true,
        ..crate::shell::options::Options::NONE
    };
    let words: Option<Vec<String>> = options.parse(&run.argv[1..]).ok().and_then(|parsed| {
        parsed.operands.iter().map(|word| word.plain().map(str::to_owned)).collect()
    });
    match words {
        Some(words) => start_text(reading, run, "watch", &words.join(" "), depth),
        None => reading.doubt(&shown(&run.argv), "commands that are not certain"),
    }
}

fn script_command(reading: &mut Reading, run: &Run, depth: usize) {
    reading.doubt(&shown(&run.argv), "a program that can run others");
    let mut words = run.argv[1..].iter();
    while let Some(word) = words.next() {
        let text = word.text();
        let short = text.starts_with('-') && !text.starts_with("--") && text.ends_with('c');
        let inner = match text.strip_prefix("--command=") {
            Some(inner) => Some(inner),
            None if short || text == "--command" => words.next().and_then(Word::plain),
            None => continue,
        };
        if let Some(inner) = inner {
            start_text(reading, run, "script", inner, depth);
        }
    }
}
