//! `[sandbox]`, and what a program of its own says that it needs.

use super::{Key, Kind, POSITIVE, TEXTS, Table, may};

/// `network` of a table: a word, or the hosts.
const NETWORK: Kind = Kind::Either(&[Kind::One(&NETWORK_WORDS), TEXTS]);
/// The words for networks.
pub(crate) const NETWORK_WORDS: [&str; 3] = ["none", "loopback", "open"];
/// The words for what may be done to the workspace.
pub(crate) const WORKSPACE_WORDS: [&str; 2] = ["read", "write"];

const PATHS: [Key; 2] = [
    may("read", TEXTS, "Folders and files that may be read beside the usual ones."),
    may("write", TEXTS, "Folders and files that may be written beside the workspace."),
];

const NETWORK_KEY: Key = may(
    "network",
    NETWORK,
    "Which hosts may be reached: \"none\", \"loopback\", \"open\", or a list of hosts.",
);

const LIMITS: [Key; 5] = [
    may("processes", POSITIVE, "How many processes there may be at once."),
    may("memory", Kind::Size, "How much memory each process may have, such as \"8G\"."),
    may("file_size", Kind::Size, "How large a file may become, such as \"512M\"."),
    may("open_files", POSITIVE, "How many files a process may have open at once."),
    may("cpu_time", Kind::Span, "How long a process may compute, such as \"10m\"."),
];

/// `[sandbox]` of a task file.
pub(crate) static TASK: Table = Table::new(
    "sandbox",
    "[sandbox]",
    "What the task's processes need beside what everybody gets.",
    &[
        &[may("level", Kind::One(&["full", "reduced"]), "How strong the sandbox must be.")],
        &[NETWORK_KEY],
        &PATHS,
        &LIMITS,
    ],
);

/// `[sandbox]` of a policy, which cannot make the sandbox weaker.
pub(crate) static POLICY: Table = Table::new(
    "sandbox",
    "[sandbox]",
    "What processes need beside what everybody gets; a policy cannot make the sandbox weaker.",
    &[
        &[may("level", Kind::One(&["full"]), "How strong the sandbox must be.")],
        &[NETWORK_KEY],
        &PATHS,
        &LIMITS,
    ],
);

/// The keys by which a plugin or a server says what it needs.
pub(crate) const NEEDS: &[Key] = &[
    NETWORK_KEY,
    PATHS[0],
    PATHS[1],
    may(
        "workspace",
        Kind::One(&WORKSPACE_WORDS),
        "Whether it may write in the workspace, or only read.",
    ),
];
