//! The kinds of mistakes, each with a file that has it.

mod policy;
mod program;
mod task;
mod workflow;

/// A kind of mistake.
#[derive(Debug)]
pub(super) struct Mistake {
    /// Which reader is given it.
    pub(super) reader: Reader,
    /// What is wrong, in a few words; unique for its reader.
    pub(super) kind: &'static str,
    /// The file's name.
    pub(super) file: &'static str,
    /// The file.
    pub(super) text: &'static str,
}

/// Who reads the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reader {
    Task,
    Policy,
    Agent,
    Servers,
    Driver,
    Validators,
    Prompt,
    Workflow,
}

/// All of them.
pub(super) const ALL: [&[Mistake]; 4] =
    [task::MISTAKES, policy::MISTAKES, program::MISTAKES, workflow::MISTAKES];

/// Writes a list of mistakes: reader, file, kind, text.
macro_rules! mistakes {
    ($($reader:ident $file:literal $kind:literal $text:expr;)*) => {
        /// These kinds.
        pub(super) const MISTAKES: &[super::Mistake] = &[$(super::Mistake {
            reader: super::Reader::$reader,
            kind: $kind,
            file: $file,
            text: $text,
        }),*];
    };
}

use mistakes;
