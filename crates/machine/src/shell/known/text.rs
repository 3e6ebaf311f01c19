//! Programs that only read and print.

use super::program::{Deep, Operands, Program};
use super::{Deeds, Kind};
use crate::shell::Word;
use crate::shell::options::Options;

/// A program none of whose options does more than change what it prints.
const HARMLESS: Options = Options { harmless: true, ..Options::NONE };

const LOOK: Program = Program { kind: Kind::Look, operands: Operands::Read, ..Program::PLAIN };

const LS: Options = Options {
    flags: "aAbBcCdfFgGhHiklLmnNopqQrRsStuUvxXZ1",
    values: "wITb",
    long: "all almost-all author directory group-directories-first human-readable inode \
        recursive reverse size full-time si dereference numeric-uid-gid no-group literal \
        quote-name kibibytes zero version help file-type",
    long_values: "sort time time-style format ignore hide width block-size quoting-style",
    long_attached: "color classify indicator-style hyperlink",
    ..HARMLESS
};

const GREP: Options = Options {
    flags: "abcEFGhHiIlLnoPqrRsTUvVwxyzZ",
    values: "ABCDdefm",
    long: "count extended-regexp fixed-strings basic-regexp perl-regexp ignore-case no-ignore-case files-with-matches files-without-match line-number with-filename no-filename \
        only-matching quiet silent no-messages recursive dereference-recursive text invert-match word-regexp line-regexp null null-data byte-offset initial-tab line-buffered \
        binary version help",
    long_values: "regexp file max-count after-context before-context context include exclude exclude-dir exclude-from binary-files devices directories label group-separator",
    long_attached: "color colour",
    number: true,
    ..HARMLESS
};

const RG: Options = Options {
    flags: "abcFhHiIlLnNoPpqsSuUvVwx.0",
    values: "ABCdefgjmMrtTE",
    long: "hidden no-ignore no-ignore-vcs files-with-matches files-without-match files count \
        count-matches line-number no-line-number ignore-case smart-case case-sensitive \
        fixed-strings word-regexp line-regexp invert-match only-matching multiline pcre2 \
        json heading no-heading with-filename no-filename vimgrep column no-messages quiet \
        stats text trim type-list unrestricted follow null pretty version help no-config \
        multiline-dotall passthru crlf",
    long_values: "after-context before-context context max-count max-depth glob iglob type type-not \
        regexp file replace sort sortr threads max-columns max-filesize color colors ignore-file encoding engine path-separator context-separator",
    ..Options::NONE
};

const SORT: Options = Options {
    flags: "bCcdfghiMmnRrsuVz",
    values: "kt",
    long: "ignore-leading-blanks dictionary-order ignore-case general-numeric-sort human-numeric-sort ignore-nonprinting month-sort numeric-sort random-sort reverse stable \
        unique version-sort zero-terminated merge debug",
    long_values: "key field-separator parallel",
    long_attached: "check sort",
    ..Options::NONE
};

const DIFF: Options = Options {
    flags: "aBbcdeEiHNnpqrstTuwyZ",
    values: "CUxWIS",
    long: "brief unified context recursive new-file ignore-case ignore-all-space ignore-space-change ignore-blank-lines ignore-trailing-space side-by-side text minimal report-identical-files suppress-common-lines strip-trailing-cr expand-tabs no-dereference \
        show-c-function version",
    long_values: "exclude width label ignore-matching-lines starting-file",
    long_attached: "color unified context",
    number: true,
    ..Options::NONE
};

const TREE: Options = Options {
    flags: "adfilpsughDFqNQrtUvcxSnCAJX",
    values: "LPI",
    long: "noreport dirsfirst filesfirst gitignore prune matchdirs ignore-case du si inodes \
        device metafirst version help",
    long_values: "filelimit timefmt sort charset",
    ..Options::NONE
};

const JQ: Options = Options {
    flags: "acCeijMnrRsS",
    values: "",
    long: "compact-output raw-output raw-input null-input slurp sort-keys color-output \
        monochrome-output tab exit-status join-output ascii-output version",
    long_values: "indent",
    ..Options::NONE
};

const DU: Options = Options {
    flags: "abcDhHkLlmPsSx0",
    values: "dBtX",
    long: "all apparent-size bytes total human-readable si summarize separate-dirs one-file-system count-links dereference inodes",
    long_values: "max-depth block-size threshold exclude",
    ..Options::NONE
};

const SUMS: Options = Options {
    flags: "bctz",
    long: "binary check text quiet status tag ignore-missing strict",
    ..HARMLESS
};

pub(super) const PROGRAMS: &[Program] = &[
    Program { names: &["ls", "dir", "vdir"], options: LS, ..LOOK },
    Program {
        names: &["cat", "tac", "rev"],
        options: Options {
            flags: "AbeEnstTuv",
            long: "show-all number number-nonblank show-ends show-tabs squeeze-blank show-nonprinting",
            ..HARMLESS
        },
        ..LOOK
    },
    Program {
        names: &["head", "tail"],
        options: Options {
            flags: "qvzfFr",
            values: "nc",
            long: "quiet verbose zero-terminated retry",
            long_values: "lines bytes",
            long_attached: "follow",
            number: true,
            ..HARMLESS
        },
        ..LOOK
    },
    Program {
        names: &["nl"],
        options: Options { flags: "p", values: "bdfhilnsvw", ..HARMLESS },
        ..LOOK
    },
    Program {
        names: &["cut"],
        options: Options {
            flags: "nsz",
            values: "bcdf",
            long: "complement only-delimited",
            long_values: "bytes characters delimiter fields output-delimiter",
            ..HARMLESS
        },
        ..LOOK
    },
    Program {
        names: &["paste", "fold", "expand", "unexpand", "fmt", "comm", "join"],
        options: Options { flags: "123aisztx", values: "cdjoew", ..HARMLESS },
        ..LOOK
    },
    Program {
        names: &["wc"],
        options: Options {
            flags: "clLmw",
            long: "bytes chars lines words max-line-length",
            long_values: "total",
            ..HARMLESS
        },
        ..LOOK
    },
    Program {
        names: &["tr"],
        options: Options { flags: "cCdst", ..HARMLESS },
        operands: Operands::Text,
        ..LOOK
    },
    Program {
        names: &["uniq"],
        options: Options {
            flags: "cdDiuz",
            values: "fsw",
            long: "count repeated ignore-case unique",
            ..Options::NONE
        },
        operands: Operands::ReadOne,
        ..LOOK
    },
    Program { names: &["sort"], options: SORT, ..LOOK },
    Program {
        names: &["grep", "egrep", "fgrep"],
        options: GREP,
        operands: Operands::PatternThenRead,
        reads: &["-f", "--file", "--exclude-from"],
        deep: Deep::With(&[
            "-r",
            "-R",
            "--recursive",
            "--dereference-recursive",
            "-d",
            "--directories",
        ]),
        ..LOOK
    },
    Program {
        names: &["rg"],
        options: RG,
        operands: Operands::PatternThenRead,
        reads: &["-f", "--file", "--ignore-file"],
        deep: Deep::Always,
        ..LOOK
    },
    // Of two folders it shows the files, whatever its options are; which words are folders is not known.
    Program { names: &["diff"], options: DIFF, deep: Deep::Always, ..LOOK },
    Program {
        names: &["cmp"],
        options: Options { flags: "bls", values: "in", ..HARMLESS },
        ..LOOK
    },
    Program { names: &["tree"], options: TREE, ..LOOK },
    Program {
        names: &["stat"],
        options: Options {
            flags: "Lft",
            values: "c",
            long: "dereference file-system terse",
            long_values: "format printf",
            ..HARMLESS
        },
        ..LOOK
    },
    Program {
        names: &["file"],
        options: Options {
            flags: "bhiLkprs0",
            long: "brief mime mime-type mime-encoding dereference",
            ..Options::NONE
        },
        ..LOOK
    },
    Program { names: &["du"], options: DU, ..LOOK },
    Program {
        names: &["df"],
        options: Options {
            flags: "ahHiklPTB",
            values: "tx",
            long: "human-readable all inodes total print-type",
            ..HARMLESS
        },
        ..LOOK
    },
    Program {
        names: &[
            "md5sum",
            "sha1sum",
            "sha224sum",
            "sha256sum",
            "sha384sum",
            "sha512sum",
            "b2sum",
            "cksum",
            "sum",
        ],
        options: SUMS,
        ..LOOK
    },
    Program {
        names: &["base64", "base32"],
        options: Options {
            flags: "di",
            values: "w",
            long: "decode ignore-garbage",
            long_values: "wrap",
            ..HARMLESS
        },
        ..LOOK
    },
    Program {
        names: &["od", "hexdump", "hd"],
        options: Options { flags: "bcCdovx", values: "AjNtsn", ..HARMLESS },
        ..LOOK
    },
    Program {
        names: &["xxd"],
        options: Options { flags: "bcepuE", values: "lsg", ..Options::NONE },
        operands: Operands::ReadOne,
        ..LOOK
    },
    Program {
        names: &["strings"],
        options: Options { flags: "af", values: "nt", ..HARMLESS },
        ..LOOK
    },
    Program {
        names: &["date"],
        options: Options {
            flags: "uR",
            values: "dr",
            attached: "I",
            long: "utc universal rfc-email",
            long_values: "date reference",
            long_attached: "iso-8601 rfc-3339",
            ..Options::NONE
        },
        operands: Operands::Format,
        reads: &["-r", "--reference"],
        ..LOOK
    },
    Program {
        names: &["column"],
        options: Options { flags: "tx", values: "cosN", ..HARMLESS },
        ..LOOK
    },
    Program {
        names: &["which", "type"],
        options: Options { flags: "aptfP", ..HARMLESS },
        operands: Operands::Text,
        ..LOOK
    },
    Program {
        names: &["basename", "dirname"],
        options: Options { flags: "az", values: "s", ..HARMLESS },
        operands: Operands::Text,
        ..LOOK
    },
    Program {
        names: &["realpath", "readlink"],
        options: Options {
            flags: "eLmPqszfnv",
            long: "canonicalize canonicalize-existing canonicalize-missing quiet no-newline \
                strip no-symlinks",
            long_values: "relative-to relative-base",
            ..HARMLESS
        },
        ..LOOK
    },
    Program {
        names: &["sleep", "seq"],
        options: Options { flags: "w", values: "sf", number: true, ..HARMLESS },
        operands: Operands::Text,
        ..LOOK
    },
    Program {
        names: &[
            "uname", "arch", "nproc", "whoami", "id", "groups", "uptime", "free", "tty", "logname",
            "locale",
        ],
        options: Options { flags: "amnrspvioughGzt", long: "all version", ..HARMLESS },
        ..Program::PLAIN
    },
];

/// What a filter of jq may not name: the environment, and other files.
const REACHING_FILTERS: &[&str] =
    &["env", "ENV", "import", "include", "input_filename", "modulemeta", "get_search_list"];

/// Whether a filter has this name other than as a field.
fn names(filter: &str, name: &str) -> bool {
    let part = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let bytes = filter.as_bytes();
    filter.match_indices(name).any(|(at, _)| {
        let before = at.checked_sub(1).and_then(|at| bytes.get(at));
        let after = bytes.get(at + name.len());
        !before.is_some_and(|byte| part(byte) || *byte == b'.') && !after.is_some_and(part)
    })
}

/// jq: a filter that neither shows the environment nor reads other files, then files.
pub(super) fn jq(arguments: &[Word]) -> Result<Deeds, String> {
    let parsed = JQ.parse(arguments)?;
    let Some((filter, files)) = parsed.operands.split_first() else {
        return Err("a filter was expected".to_owned());
    };
    let Some(filter) = filter.plain() else { return Err("the filter is not certain".to_owned()) };
    if let Some(word) = REACHING_FILTERS.iter().find(|word| names(filter, word)) {
        return Err(format!("a filter with {word}"));
    }
    Ok(Deeds { reads: files.to_vec(), ..Deeds::of(Kind::Look) })
}

/// `cd`: the folder counts as read. Without one it is the home folder, and with a dash the one before.
pub(super) fn cd(arguments: &[Word]) -> Result<Deeds, String> {
    let options = Options { flags: "LP", ..Options::NONE };
    let folder = match options.parse(arguments)?.operands.as_slice() {
        [] => Word::Unknown("~".to_owned()),
        [Word::Plain(text)] if text == "-" => Word::Unknown("-".to_owned()),
        [folder] => folder.clone(),
        _ => return Err("more than one folder".to_owned()),
    };
    Ok(Deeds { reads: vec![folder], ..Deeds::of(Kind::Look) })
}
