//! The profiles: what is allowed where no rule of a file says anything. They are tables, so that a person can read
//! one beside the other, and the gate has no opinion of its own.

use serde::{Deserialize, Serialize};

use super::Decide;

/// What is allowed where no rule says anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Profile {
    /// Look at the workspace and the system; ask for the rest.
    ReadOnly,
    /// Edit and build inside the workspace; ask for the network, for what is elsewhere and for what is unknown.
    #[default]
    Dev,
    /// Everything that the sandbox holds.
    Open,
}

/// What a profile says of each kind of thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Terms {
    /// Programs that only read.
    pub(super) look: Decide,
    /// Programs that write exactly the paths they are given.
    pub(super) change: Decide,
    /// Build tools and the project's own code.
    pub(super) build: Decide,
    /// `git add`, `git commit` and the like.
    pub(super) record: Decide,
    /// Programs that need the network.
    pub(super) reach: Decide,
    /// Programs that nothing is known of, and lines that are not understood.
    pub(super) unknown: Decide,
    /// Reading below the workspace and in the system's folders.
    pub(super) read_here: Decide,
    /// Reading anywhere else.
    pub(super) read_elsewhere: Decide,
    /// Writing below the workspace.
    pub(super) write_here: Decide,
    /// Writing anywhere else.
    pub(super) write_elsewhere: Decide,
    /// Tools that keep something, such as notes.
    pub(super) keep: Decide,
    /// Tools of which nobody knows what they change.
    pub(super) unsafe_tool: Decide,
}

use Decide::{Allow, Ask};

const READ_ONLY: Terms = Terms {
    look: Allow,
    change: Ask,
    build: Ask,
    record: Ask,
    reach: Ask,
    unknown: Ask,
    read_here: Allow,
    read_elsewhere: Ask,
    write_here: Ask,
    write_elsewhere: Ask,
    keep: Ask,
    unsafe_tool: Ask,
};

const DEV: Terms = Terms {
    change: Allow,
    build: Allow,
    record: Allow,
    write_here: Allow,
    keep: Allow,
    ..READ_ONLY
};

const OPEN: Terms = Terms {
    reach: Allow,
    unknown: Allow,
    read_elsewhere: Allow,
    write_elsewhere: Allow,
    unsafe_tool: Allow,
    ..DEV
};

impl Profile {
    /// All of them, the strictest first.
    pub const ALL: [Profile; 3] = [Profile::ReadOnly, Profile::Dev, Profile::Open];

    /// The word people write.
    pub fn word(self) -> &'static str {
        match self {
            Profile::ReadOnly => "read-only",
            Profile::Dev => "dev",
            Profile::Open => "open",
        }
    }

    /// The profile that a person means.
    pub fn named(word: &str) -> Option<Profile> {
        Profile::ALL.into_iter().find(|profile| profile.word() == word)
    }

    /// The stricter of two.
    pub fn stricter(self, other: Profile) -> Profile {
        let place = |profile| Profile::ALL.iter().position(|known| *known == profile);
        if place(self) <= place(other) { self } else { other }
    }

    /// What it says of commands. Without a sandbox nothing holds what a command really does, so what runs or writes
    /// is asked about.
    pub(super) fn terms(self, sandboxed: bool) -> Terms {
        let terms = match self {
            Profile::ReadOnly => READ_ONLY,
            Profile::Dev => DEV,
            Profile::Open => OPEN,
        };
        if sandboxed {
            return terms;
        }
        Terms {
            change: Ask,
            build: Ask,
            record: Ask,
            reach: Ask,
            unknown: Ask,
            write_here: Ask,
            write_elsewhere: Ask,
            ..terms
        }
    }
}
