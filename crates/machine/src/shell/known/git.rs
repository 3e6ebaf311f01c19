//! git: its commands by what they touch. Aliases and settings on the command line are not known.

use super::program::{Deep, Operands, Program, command};
use super::reach::remote_host;
use super::{Deeds, Kind};
use crate::shell::Word;
use crate::shell::options::{Options, Parsed};

const LOOK: Program = Program { kind: Kind::Look, operands: Operands::Read, ..Program::PLAIN };
const RECORD: Program = Program { kind: Kind::Record, operands: Operands::Read, ..Program::PLAIN };
const REACH: Program = Program { kind: Kind::Reach, operands: Operands::Text, ..Program::PLAIN };

/// Options of the commands that show history or differences, but for those that write a file or run a program.
const SHOW: Options = Options {
    flags: "abcdghilmopqrstuvwzBRE0",
    values: "nLSGUO",
    attached: "MCDX",
    long: "stat shortstat numstat dirstat summary patch no-patch raw name-only name-status \
        cached staged oneline graph all branches tags remotes merges no-merges reverse \
        follow first-parent full-history abbrev-commit no-abbrev-commit no-color no-ext-diff \
        no-textconv no-renames minimal patience histogram ignore-all-space ignore-space-change ignore-space-at-eol ignore-blank-lines ignore-cr-at-eol text exit-code quiet \
        check full-index binary merge-base no-prefix no-decorate left-right cherry-pick \
        cherry-mark topo-order date-order author-date-order no-walk source cc compact-summary function-context ita-invisible-in-index no-notes relative-date walk-reflogs \
        boundary simplify-by-decoration regexp-ignore-case extended-regexp fixed-strings \
        all-match invert-grep perl-regexp root numbered email \
        count no-mailmap use-mailmap not single-worktree color-words",
    long_values: "max-count skip since after until before author committer grep date diff-filter",
    long_attached: "stat pretty format abbrev color color-words word-diff word-diff-regex unified find-renames find-copies decorate decorate-refs inter-hunk-context diff-algorithm \
        submodule ignore-submodules color-moved relative max-count since until author date \
        glob exclude branches tags remotes stat-width ws-error-highlight diff-merges",
    number: true,
    ..Options::NONE
};

const STATUS: Options = Options {
    flags: "sbvzu",
    attached: "u",
    long: "short branch show-stash long verbose no-renames ignored ahead-behind",
    long_attached: "porcelain untracked-files ignored ignore-submodules column",
    ..Options::NONE
};

const SWITCH: Options = Options {
    flags: "qdftmp",
    values: "bBcC",
    long: "quiet detach track no-track ours theirs guess no-guess",
    long_values: "orphan create",
    ..Options::NONE
};

/// Commands with one meaning.
const COMMANDS: &[Program] = &[
    Program { names: &["shortlog", "rev-list"], options: SHOW, ..LOOK },
    Program {
        names: &["rev-parse"],
        options: Options {
            flags: "q",
            long: "show-toplevel show-prefix show-cdup git-dir git-common-dir absolute-git-dir \
                verify quiet symbolic symbolic-full-name is-inside-work-tree is-inside-git-dir is-bare-repository is-shallow-repository all branches",
            long_attached: "abbrev-ref short",
            ..Options::NONE
        },
        ..LOOK
    },
    Program {
        names: &["ls-files", "ls-tree"],
        options: Options {
            flags: "cdmostuvzrtl",
            values: "x",
            long: "cached deleted modified others ignored stage exclude-standard full-name \
                name-only name-status long error-unmatch directory unmerged eol full-tree",
            long_values: "exclude",
            long_attached: "abbrev format",
            ..Options::NONE
        },
        ..LOOK
    },
    Program {
        names: &["blame", "annotate"],
        options: Options {
            flags: "westlnpcb",
            values: "L",
            attached: "MC",
            long: "porcelain line-porcelain show-email show-name show-number root",
            long_attached: "abbrev date since",
            ..Options::NONE
        },
        ..LOOK
    },
    Program {
        names: &["grep"],
        options: Options {
            flags: "aEFGhHiIlLnopPqrvwWzc",
            values: "ABCem",
            long: "cached untracked count ignore-case line-number name-only \
                files-with-matches word-regexp fixed-strings extended-regexp perl-regexp \
                all-match and or not heading break show-function function-context only-matching column quiet text",
            long_values: "max-depth max-count context",
            long_attached: "color",
            number: true,
            ..Options::NONE
        },
        operands: Operands::PatternThenRead,
        deep: Deep::Always,
        ..LOOK
    },
    Program {
        names: &["describe"],
        options: Options {
            long: "tags all always long exact-match contains first-parent",
            long_values: "match exclude",
            long_attached: "dirty broken abbrev",
            ..Options::NONE
        },
        ..LOOK
    },
    Program {
        names: &["merge-base"],
        options: Options {
            flags: "a",
            long: "all is-ancestor fork-point octopus",
            ..Options::NONE
        },
        ..LOOK
    },
    Program {
        names: &[
            "name-rev",
            "show-ref",
            "count-objects",
            "check-ignore",
            "check-attr",
            "show-branch",
            "var",
            "version",
        ],
        options: Options {
            flags: "avqs",
            long: "short heads tags verbose all human-readable",
            ..Options::NONE
        },
        operands: Operands::Text,
        ..LOOK
    },
    Program {
        names: &["add"],
        options: Options {
            flags: "AufvnN",
            long: "all update force verbose dry-run intent-to-add no-all refresh",
            long_attached: "chmod",
            ..Options::NONE
        },
        ..RECORD
    },
    Program {
        names: &["mv", "rm"],
        options: Options {
            flags: "fknqrv",
            long: "cached force dry-run quiet verbose ignore-unmatch",
            ..Options::NONE
        },
        operands: Operands::Move,
        ..RECORD
    },
    Program {
        names: &["restore"],
        options: Options {
            flags: "SWqm",
            values: "s",
            long: "staged worktree quiet ours theirs merge",
            long_values: "source",
            ..Options::NONE
        },
        operands: Operands::Write,
        ..RECORD
    },
    Program {
        names: &["init"],
        options: Options {
            flags: "q",
            values: "b",
            long: "quiet",
            long_values: "initial-branch",
            ..Options::NONE
        },
        operands: Operands::Write,
        ..RECORD
    },
    Program {
        names: &["push"],
        options: Options {
            flags: "uqvnfd",
            long: "set-upstream quiet verbose dry-run force tags all delete atomic follow-tags \
                no-verify prune progress",
            long_attached: "force-with-lease",
            ..Options::NONE
        },
        ..REACH
    },
    Program {
        names: &["fetch", "pull", "ls-remote"],
        options: Options {
            flags: "qvnptaf",
            values: "",
            long: "quiet verbose all prune tags no-tags rebase no-rebase ff-only no-edit dry-run unshallow heads refs force progress",
            long_values: "depth deepen jobs",
            ..Options::NONE
        },
        ..REACH
    },
    Program {
        names: &["clone"],
        options: Options {
            flags: "qvnl",
            values: "bo",
            long: "quiet verbose no-checkout bare single-branch no-tags progress",
            long_values: "depth branch origin",
            long_attached: "filter",
            ..Options::NONE
        },
        ..REACH
    },
];

const COMMIT: Options = Options {
    flags: "aqsnev",
    values: "mFC",
    long: "all quiet signoff no-verify amend no-edit allow-empty allow-empty-message dry-run \
        only include no-status reset-author no-gpg-sign",
    long_values: "message file fixup author date reuse-message",
    long_attached: "cleanup",
    ..Options::NONE
};

/// Commands that leave the files of a checkout alone, whatever their options are.
const LEAVES_FILES: &[&str] = &[
    "add",
    "annotate",
    "archive",
    "blame",
    "branch",
    "bundle",
    "cat-file",
    "check-attr",
    "check-ignore",
    "commit",
    "commit-tree",
    "config",
    "count-objects",
    "describe",
    "diff",
    "diff-files",
    "diff-index",
    "diff-tree",
    "fetch",
    "for-each-ref",
    "format-patch",
    "fsck",
    "gc",
    "grep",
    "hash-object",
    "help",
    "log",
    "ls-files",
    "ls-remote",
    "ls-tree",
    "merge-base",
    "mktree",
    "name-rev",
    "notes",
    "prune",
    "push",
    "range-diff",
    "reflog",
    "remote",
    "repack",
    "rev-list",
    "rev-parse",
    "shortlog",
    "show",
    "show-branch",
    "show-ref",
    "status",
    "symbolic-ref",
    "tag",
    "update-index",
    "update-ref",
    "var",
    "version",
    "whatchanged",
    "write-tree",
];

/// All files of a checkout.
fn everything() -> Word {
    Word::Plain(".".to_owned())
}

/// Commands that show and take along nothing of what the files hold, whatever their options are.
const SHOWS_NO_CONTENTS: &[&str] = &[
    "add",
    "am",
    "apply",
    "branch",
    "check-attr",
    "check-ignore",
    "clean",
    "commit-tree",
    "config",
    "count-objects",
    "describe",
    "fetch",
    "fsck",
    "gc",
    "hash-object",
    "help",
    "init",
    "ls-files",
    "ls-remote",
    "ls-tree",
    "merge-base",
    "mktree",
    "mv",
    "name-rev",
    "prune",
    "read-tree",
    "rebase",
    "remote",
    "repack",
    "rev-list",
    "rev-parse",
    "rm",
    "show-branch",
    "show-ref",
    "symbolic-ref",
    "update-index",
    "update-ref",
    "var",
    "version",
    "write-tree",
];

/// Whether a git command line that is not understood may change any file of the checkout: `git clean`, `git rebase`, an
/// alias, or one whose settings are its own.
pub(super) fn may_change_files(arguments: &[Word]) -> bool {
    may_be_beside(LEAVES_FILES, arguments)
}

/// Whether a git command line that is not understood may show what the files hold, or put it elsewhere: `git archive`,
/// `git bundle`, `git worktree`, an alias.
pub(super) fn may_show_contents(arguments: &[Word]) -> bool {
    may_be_beside(SHOWS_NO_CONTENTS, arguments)
}

/// Whether the command may be another one than these.
fn may_be_beside(commands: &[&str], arguments: &[Word]) -> bool {
    let mut rest = arguments;
    while let Some((word, others)) = rest.split_first() {
        rest = others;
        match word.plain() {
            Some("--no-pager" | "-P" | "-p" | "--paginate" | "--no-optional-locks") => {}
            Some("--version" | "--help" | "-h" | "--exec-path" | "--html-path") => return false,
            Some("-C") => rest = rest.get(1..).unwrap_or_default(),
            Some(name) => return !commands.contains(&name),
            None => return true,
        }
    }
    false
}

/// What a git command line does.
pub(super) fn git(arguments: &[Word]) -> Result<Deeds, String> {
    let mut reads = Vec::new();
    let mut rest = arguments;
    let name = loop {
        let Some((word, others)) = rest.split_first() else { return Err("no command".to_owned()) };
        rest = others;
        match word.plain() {
            Some("--no-pager" | "-P" | "--no-optional-locks" | "--literal-pathspecs") => {}
            Some("--version" | "--help") if others.is_empty() => return Ok(Deeds::of(Kind::Look)),
            Some("-C") => match rest.split_first() {
                Some((folder, others)) if folder.is_single() => {
                    reads.push(folder.clone());
                    rest = others;
                }
                _ => return Err("the folder of -C is not certain".to_owned()),
            },
            Some(text) if text.starts_with('-') => return Err(format!("{text} is not known")),
            Some(text) => break text,
            None => return Err("which command it is depends on what happens".to_owned()),
        }
    };
    let mut deeds = judge(name, rest).map_err(|why| format!("{name}: {why}"))?;
    let named: Vec<Word> = deeds.reads.iter().flat_map(in_commit).collect();
    deeds.deep |= deeds.kind == Kind::Look;
    let literal = arguments.iter().any(|word| word.plain() == Some("--literal-pathspecs"));
    if !literal && !matches!(name, "clone" | "init") {
        // What is read may also be named as it stands in the index, behind a colon.
        let reads = deeds.reads.iter().map(|word| pathspec(word, &[":(", ":/", ":!", ":^"]));
        deeds.reads = reads.collect();
        deeds.writes = deeds.writes.iter().map(|word| pathspec(word, &[":"])).collect();
    }
    deeds.reads.extend(named);
    if !reads.is_empty() && deeds.kind != Kind::Look {
        // Paths are named from the other folder, and where it is decides which repository is changed.
        deeds.writes.extend(reads.iter().cloned());
    }
    deeds.reads.extend(reads);
    Ok(deeds)
}

/// A path as git reads it: it matches patterns by itself, quoted ones too. Signs in front say where it begins, what is left
/// out and how it is compared, so that it may be anything.
fn pathspec(word: &Word, signs: &[&str]) -> Word {
    match word {
        Word::Plain(text) if signs.iter().any(|sign| text.starts_with(sign)) => everything(),
        Word::Plain(text) if text.contains(['*', '?', '[']) => Word::Pattern(text.clone()),
        other => other.clone(),
    }
}

/// The paths that `COMMIT:PATH` may stand for: a path can have colons of its own.
fn in_commit(word: &Word) -> Vec<Word> {
    let text = word.text();
    let paths = text.match_indices(':').map(|(at, _)| text[at + 1..].to_owned());
    let paths = paths.filter(|path| !path.is_empty());
    match word {
        Word::Plain(_) => paths.map(Word::Plain).collect(),
        Word::Pattern(_) => paths.map(Word::Pattern).collect(),
        // Whatever it stands for is not known, the path no more than the whole.
        Word::Unknown(_) => Vec::new(),
    }
}

fn judge(name: &str, arguments: &[Word]) -> Result<Deeds, String> {
    match name {
        "commit" => commit(arguments),
        "branch" => branch(arguments),
        "tag" => tag(arguments),
        "symbolic-ref" => symbolic_ref(arguments),
        "stash" => stash(arguments),
        "merge" | "cherry-pick" | "revert" => join(arguments),
        "checkout" | "switch" => switch(name, arguments),
        "reset" => reset(arguments),
        "diff" | "show" | "log" | "whatchanged" | "diff-tree" | "diff-index" | "diff-files"
        | "range-diff" => show(name, arguments),
        "status" => status(arguments),
        "cat-file" => cat_file(arguments),
        "grep" => grep(arguments),
        "for-each-ref" => each_ref(arguments),
        "remote" => remote(arguments),
        "config" => config(arguments),
        "worktree" | "reflog" | "submodule" => listing(name, arguments),
        "push" | "fetch" | "pull" | "clone" | "ls-remote" => reach(name, arguments),
        _ => match command(COMMANDS, name) {
            Some(row) => row.judge(arguments),
            None => Err("a command or an alias that is not known".to_owned()),
        },
    }
}

/// Without a message git starts an editor.
fn commit(arguments: &[Word]) -> Result<Deeds, String> {
    let parsed = COMMIT.parse(arguments)?;
    let messages = [
        "-m",
        "--message",
        "-F",
        "--file",
        "-C",
        "--reuse-message",
        "--no-edit",
        "--fixup",
        "--dry-run",
    ];
    if !parsed.has(&messages) || parsed.has(&["-e"]) {
        return Err("it starts an editor".to_owned());
    }
    let mut deeds = Deeds::of(Kind::Record);
    deeds.reads = parsed.values(&["-F", "--file"]);
    if parsed.has(&["-v"]) && parsed.has(&["--dry-run"]) {
        deeds.reads.push(everything());
        deeds.deep = true;
    }
    deeds.reads.extend(parsed.operands);
    Ok(deeds)
}

fn branch(arguments: &[Word]) -> Result<Deeds, String> {
    let options = Options {
        flags: "arvqldDmMcCifut",
        long: "list all remotes verbose show-current delete move copy force quiet ignore-case \
            no-column no-color unset-upstream no-track",
        long_values: "sort format points-at set-upstream-to",
        long_attached: "contains no-contains merged no-merged color column abbrev track",
        ..Options::NONE
    };
    let parsed = options.parse(arguments)?;
    let lists = parsed.has(&[
        "-l",
        "--list",
        "-a",
        "-r",
        "--all",
        "--remotes",
        "--show-current",
        "--contains",
        "--merged",
        "--no-merged",
        "--points-at",
    ]);
    let changes = parsed.has(&[
        "-d",
        "-D",
        "-m",
        "-M",
        "-c",
        "-C",
        "-f",
        "--delete",
        "--move",
        "--copy",
        "--force",
        "-u",
        "--set-upstream-to",
        "--unset-upstream",
    ]);
    let looks = !changes && (lists || parsed.operands.is_empty());
    let mut deeds = Deeds::of(if looks { Kind::Look } else { Kind::Record });
    deeds.reads = shown_raw(&parsed);
    Ok(deeds)
}

fn tag(arguments: &[Word]) -> Result<Deeds, String> {
    let options = Options {
        flags: "adflni",
        values: "mF",
        long: "list annotate delete force ignore-case no-sign",
        long_values: "message file sort format points-at",
        long_attached: "contains no-contains merged no-merged",
        number: true,
        ..Options::NONE
    };
    let parsed = options.parse(arguments)?;
    let lists = parsed.has(&["-l", "--list", "-n", "--contains", "--merged", "--points-at"]);
    if parsed.operands.is_empty()
        || (lists && !parsed.has(&["-d", "--delete", "-f", "--force", "-a", "-m"]))
    {
        return Ok(Deeds { reads: shown_raw(&parsed), ..Deeds::of(Kind::Look) });
    }
    if parsed.has(&["-a", "--annotate"]) && !parsed.has(&["-m", "-F", "--message", "--file"]) {
        return Err("it starts an editor".to_owned());
    }
    let mut deeds = Deeds { reads: parsed.values(&["-F", "--file"]), ..Deeds::of(Kind::Record) };
    // What gets a name can be shown by it.
    if parsed.operands.iter().skip(1).any(may_be_contents) {
        deeds.reads.push(everything());
        deeds.deep = true;
    }
    deeds.reads.extend(parsed.operands);
    Ok(deeds)
}

/// One name is looked up; a second one is what it stands for from then on.
fn symbolic_ref(arguments: &[Word]) -> Result<Deeds, String> {
    let options = Options {
        flags: "qd",
        values: "m",
        long: "quiet delete short recurse no-recurse",
        ..Options::NONE
    };
    let parsed = options.parse(arguments)?;
    let looks = parsed.operands.len() < 2
        && parsed.operands.iter().all(Word::is_single)
        && !parsed.has(&["-d", "--delete"]);
    Ok(Deeds::of(if looks { Kind::Look } else { Kind::Record }))
}

fn stash(arguments: &[Word]) -> Result<Deeds, String> {
    let command = arguments.first().and_then(Word::plain).unwrap_or("push");
    if command == "list" || command == "show" {
        let parsed = SHOW.parse(&arguments[1..])?;
        // An option that does not say what else is shown makes it show the differences.
        let shows = parsed.has(PATCH)
            || command == "show" && !parsed.options.is_empty() && !parsed.has(NO_PATCH);
        let reads = if shows { vec![everything()] } else { Vec::new() };
        return Ok(Deeds { reads, ..Deeds::of(Kind::Look) });
    }
    let (command, rest) = match arguments.split_first() {
        Some((word, rest)) if !word.text().starts_with('-') => (command, rest),
        _ => ("push", arguments),
    };
    if !matches!(command, "push" | "pop" | "apply" | "drop" | "save") {
        return Err(format!("{command} is not known"));
    }
    let options = Options {
        flags: "akuqS",
        values: "m",
        long: "all keep-index no-keep-index include-untracked quiet index staged",
        long_values: "message",
        ..Options::NONE
    };
    let parsed = options.parse(rest)?;
    // What is put away is taken out of the files: of all, unless some are named.
    let (reads, writes) = match command {
        "push" if !parsed.operands.is_empty() => (Vec::new(), parsed.operands),
        "drop" => (parsed.operands, Vec::new()),
        _ => (parsed.operands, vec![everything()]),
    };
    Ok(Deeds { reads, writes, ..Deeds::of(Kind::Record) })
}

/// Joins commits without starting an editor.
fn join(arguments: &[Word]) -> Result<Deeds, String> {
    let options = Options {
        flags: "qnx",
        values: "m",
        long: "no-edit ff-only ff no-ff no-commit squash abort continue quit quiet skip",
        ..Options::NONE
    };
    let parsed = options.parse(arguments)?;
    if !parsed.has(&[
        "--no-edit",
        "--ff-only",
        "--abort",
        "--quit",
        "-m",
        "--no-commit",
        "-n",
        "--squash",
    ]) {
        return Err("it may start an editor".to_owned());
    }
    Ok(Deeds { writes: vec![everything()], ..Deeds::of(Kind::Record) })
}

/// Another commit may have any file otherwise. A name may be that of a branch or that of a file, which is then written;
/// several, or those behind `--`, are a commit and files.
fn switch(name: &str, arguments: &[Word]) -> Result<Deeds, String> {
    let parsed = SWITCH.parse(arguments)?;
    let only_files = name == "checkout"
        && (parsed.operands.len() > 1 || !paths_behind_dashes(arguments).is_empty());
    let starts_here = parsed.operands.is_empty() && parsed.has(&["-b", "-c", "--create"]);
    let mut deeds = Deeds::of(Kind::Record);
    if parsed.has(&["-p"]) {
        // It shows the differences and asks about each.
        deeds.deep = true;
        deeds.reads = if only_files { parsed.operands.clone() } else { vec![everything()] };
    }
    match name {
        "checkout" => deeds.writes = parsed.operands,
        _ => deeds.reads = parsed.operands,
    }
    if !only_files && !starts_here {
        deeds.writes.push(everything());
    }
    Ok(deeds)
}

/// Only the index is set back, unless the files are to follow.
fn reset(arguments: &[Word]) -> Result<Deeds, String> {
    let options = Options { flags: "qN", long: "quiet soft mixed keep", ..Options::NONE };
    let parsed = options.parse(arguments)?;
    let writes = if parsed.has(&["--keep"]) { vec![everything()] } else { Vec::new() };
    Ok(Deeds { reads: parsed.operands, writes, ..Deeds::of(Kind::Record) })
}

/// Options by which contents of files are shown.
const PATCH: &[&str] =
    &["-p", "-u", "--patch", "-U", "--unified", "-L", "-c", "--cc", "--binary", "--check"];

/// Options by which less than the contents of files is shown.
const NO_PATCH: &[&str] = &[
    "--stat",
    "--shortstat",
    "--numstat",
    "--dirstat",
    "--summary",
    "--no-patch",
    "-s",
    "--raw",
    "--name-only",
    "--name-status",
    "--quiet",
];

/// Shows history or differences: of all files, unless some are named.
fn show(name: &str, arguments: &[Word]) -> Result<Deeds, String> {
    let parsed = SHOW.parse(arguments)?;
    let shows = parsed.has(PATCH)
        || matches!(name, "diff" | "show" | "range-diff") && !parsed.has(NO_PATCH);
    let named = !paths_behind_dashes(arguments).is_empty()
        || !parsed.operands.is_empty() && parsed.operands.iter().all(names_path);
    // The contents of a file that a number names are shown whatever the options and the paths are.
    let by_number =
        parsed.operands.iter().any(may_be_contents) && (name == "show" || name == "diff" && shows);
    let mut deeds = Deeds { reads: parsed.operands, ..Deeds::of(Kind::Look) };
    if shows && !named || by_number {
        deeds.reads.push(everything());
    }
    Ok(deeds)
}

/// Whether a word is `COMMIT:PATH`, which shows that path alone; what is looked for in messages (`:/x`, `^{/x}`) may have a
/// colon too.
fn names_path(word: &Word) -> bool {
    word.text().split_once(':').is_some_and(|(commit, path)| {
        !path.is_empty() && !commit.contains('{') && !word.text().starts_with(":/")
    })
}

/// Whether a word may be the number of what a file holds, which no path says.
fn may_be_contents(word: &Word) -> bool {
    let number = word.text().split("^{").next().unwrap_or_default();
    (4..=64).contains(&number.len()) && number.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Shows an object, or says what it is.
fn cat_file(arguments: &[Word]) -> Result<Deeds, String> {
    let parsed = Options { flags: "tspe", ..Options::NONE }.parse(arguments)?;
    let named = parsed.operands.last().is_some_and(names_path);
    let mut deeds = Deeds { reads: parsed.operands.clone(), ..Deeds::of(Kind::Look) };
    if !named && !parsed.has(&["-t", "-s", "-e"]) {
        deeds.reads.push(everything());
    }
    Ok(deeds)
}

/// Searches the files: all of them, unless some are named. Another word may be a commit as well as a folder.
fn grep(arguments: &[Word]) -> Result<Deeds, String> {
    let Some(row) = command(COMMANDS, "grep") else { return Err("not known".to_owned()) };
    let mut deeds = row.judge(arguments)?;
    let named = !paths_behind_dashes(arguments).is_empty();
    if (!named || deeds.reads.iter().any(may_be_contents)) && !deeds.reads.contains(&everything()) {
        deeds.reads.push(everything());
    }
    Ok(deeds)
}

/// With `-v` it shows the differences that are to be recorded.
fn status(arguments: &[Word]) -> Result<Deeds, String> {
    let parsed = STATUS.parse(arguments)?;
    let shows = parsed.has(&["-v", "--verbose"]);
    let mut deeds = Deeds { reads: parsed.operands, ..Deeds::of(Kind::Look) };
    if shows {
        deeds.reads.push(everything());
    }
    Ok(deeds)
}

fn each_ref(arguments: &[Word]) -> Result<Deeds, String> {
    let options =
        Options { long_values: "sort format count contains merged points-at", ..Options::NONE };
    let mut deeds = Deeds::of(Kind::Look);
    deeds.reads = shown_raw(&options.parse(arguments)?);
    Ok(deeds)
}

/// What a list of names shows of the contents that they may stand for.
fn shown_raw(parsed: &Parsed) -> Vec<Word> {
    let raw = |format: &Word| format.plain().is_none_or(|text| text.contains("raw"));
    if parsed.values(&["--format"]).iter().any(raw) { vec![everything()] } else { Vec::new() }
}

/// The words that cannot be names of commits.
fn paths_behind_dashes(arguments: &[Word]) -> &[Word] {
    let dashes = arguments.iter().position(|word| word.plain() == Some("--"));
    dashes.map_or(&[], |at| &arguments[at + 1..])
}

fn remote(arguments: &[Word]) -> Result<Deeds, String> {
    let words: Option<Vec<&str>> = arguments.iter().map(Word::plain).collect();
    match words.as_deref() {
        Some([] | ["-v" | "--verbose"] | ["get-url", _]) => Ok(Deeds::of(Kind::Look)),
        _ => Err("it changes or reaches a remote".to_owned()),
    }
}

fn config(arguments: &[Word]) -> Result<Deeds, String> {
    let words: Option<Vec<&str>> = arguments.iter().map(Word::plain).collect();
    match words.as_deref() {
        Some(["--get", _] | ["--get-all", _] | ["--list" | "-l"] | ["get", _]) => {
            Ok(Deeds::of(Kind::Look))
        }
        _ => Err("it changes settings".to_owned()),
    }
}

fn listing(name: &str, arguments: &[Word]) -> Result<Deeds, String> {
    let words: Option<Vec<&str>> = arguments.iter().map(Word::plain).collect();
    match (name, words.as_deref()) {
        ("worktree", Some(["list"] | ["list", "--porcelain"])) => Ok(Deeds::of(Kind::Look)),
        ("submodule", Some([] | ["status"])) => Ok(Deeds::of(Kind::Look)),
        ("reflog", _) => {
            let rest = match arguments.first().and_then(Word::plain) {
                Some("show" | "list" | "exists") => &arguments[1..],
                Some("expire" | "delete" | "drop" | "write") => {
                    return Err("it changes what is kept of history".to_owned());
                }
                _ => arguments,
            };
            show(name, rest)
        }
        // What it runs are runs of their own.
        ("submodule", Some(["foreach", ..])) => Ok(Deeds::of(Kind::Look)),
        _ => Err("it changes more than this folder".to_owned()),
    }
}

fn reach(name: &str, arguments: &[Word]) -> Result<Deeds, String> {
    let Some(row) = command(COMMANDS, name) else { return Err("not known".to_owned()) };
    let mut deeds = row.judge(arguments)?;
    let operands = row.options.parse(arguments)?.operands;
    if let Some(word) = operands.first() {
        if word.text().starts_with("ext::")
            || word.text().starts_with("fd::")
            || word.plain().is_none()
        {
            return Err("a remote that can run a program".to_owned());
        }
        match remote_host(word) {
            Some(host) => deeds.hosts.push(host),
            None if name == "clone" => {
                deeds.reads.push(word.clone());
                deeds.deep = true;
            }
            None => {}
        }
    }
    if name == "pull" {
        deeds.writes.push(everything());
    }
    if name == "clone" {
        deeds.writes.push(operands.get(1).cloned().unwrap_or_else(everything));
    }
    Ok(deeds)
}
