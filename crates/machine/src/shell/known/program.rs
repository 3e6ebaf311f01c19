//! The shape of the tables: a program, its options, and what its operands are.

use super::{Deeds, Kind};
use crate::shell::Word;
use crate::shell::options::{Options, Parsed};

/// What a program does, as a row of a table.
pub(super) struct Program {
    /// Its names; for a tool with commands of its own, the command's.
    pub(super) names: &'static [&'static str],
    pub(super) kind: Kind,
    pub(super) options: Options,
    pub(super) operands: Operands,
    /// Options whose value is a file that is read.
    pub(super) reads: &'static [&'static str],
    /// Options whose value is a file or folder that is written.
    pub(super) writes: &'static [&'static str],
    /// When folders are read with all that is in them.
    pub(super) deep: Deep,
}

/// When a program reads folders with all that is in them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Deep {
    /// It does not.
    Never,
    /// With one of these options.
    With(&'static [&'static str]),
    /// Always.
    Always,
}

/// What the operands of a program are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operands {
    /// There are none.
    None,
    /// Words that name no file.
    Text,
    /// Files and folders that are read.
    Read,
    /// One file at most, which is read.
    ReadOne,
    /// Files and folders that are written or removed.
    Write,
    /// Files and folders that are read, and written if one of `when` is among the options or is the tool's command; the
    /// working folder if none are named.
    WriteWith { verbs: &'static [&'static str], when: &'static [&'static str] },
    /// Files and folders that can be read at another place afterwards, and are written.
    Move,
    /// What to look for, unless an option gives that, then files that are read.
    PatternThenRead,
    /// A mode or an owner, then files that are written.
    TextThenWrite,
    /// Files that are read, and one that is written.
    ReadThenWrite,
    /// A format that begins with a plus sign.
    Format,
    /// One of these commands of the tool, then words that name no file.
    Verb(&'static [&'static str]),
    /// Hosts.
    Host,
}

impl Program {
    /// A program that prints, without options.
    pub(super) const PLAIN: Program = Program {
        names: &[],
        kind: Kind::Look,
        options: Options::NONE,
        operands: Operands::None,
        reads: &[],
        writes: &[],
        deep: Deep::Never,
    };

    /// What an invocation with these arguments does.
    pub(super) fn judge(&self, arguments: &[Word]) -> Result<Deeds, String> {
        let parsed = self.options.parse(arguments)?;
        let mut deeds = Deeds::of(self.kind);
        deeds.reads = parsed.values(self.reads);
        deeds.writes = parsed.values(self.writes);
        deeds.deep = match self.deep {
            Deep::Never => false,
            Deep::With(options) => parsed.has(options),
            Deep::Always => true,
        };
        self.place(&parsed, &mut deeds)?;
        Ok(deeds)
    }

    fn place(&self, parsed: &Parsed, deeds: &mut Deeds) -> Result<(), String> {
        let operands = parsed.operands.iter().cloned();
        match self.operands {
            Operands::None => {
                if let Some(word) = parsed.operands.first() {
                    return Err(format!("{} is not expected", word.text()));
                }
            }
            Operands::Text => {}
            Operands::Read => deeds.reads.extend(operands),
            Operands::ReadOne => {
                let several =
                    parsed.operands.len() > 1 || !parsed.operands.iter().all(Word::is_single);
                if several {
                    return Err("a second file would be written".to_owned());
                }
                deeds.reads.extend(operands);
            }
            Operands::Write => deeds.writes.extend(operands),
            Operands::WriteWith { verbs, when } => {
                let verb = parsed.operands.first().and_then(Word::plain);
                let verb = verb.filter(|verb| verbs.contains(verb));
                let mut files: Vec<Word> = operands.skip(usize::from(verb.is_some())).collect();
                if files.is_empty() {
                    files.push(Word::Plain(".".to_owned()));
                }
                let writes = parsed.has(when) || verb.is_some_and(|verb| when.contains(&verb));
                if writes { &mut deeds.writes } else { &mut deeds.reads }.extend(files);
            }
            Operands::Move => {
                deeds.reads.extend(operands.clone());
                deeds.writes.extend(operands);
            }
            Operands::PatternThenRead => {
                let given = parsed.has(&["-e", "-f", "--regexp", "--file", "--files"]);
                let named = deeds.reads.len();
                deeds.reads.extend(operands.skip(usize::from(!given)));
                if deeds.deep && deeds.reads.len() == named {
                    deeds.reads.push(Word::Plain(".".to_owned()));
                }
            }
            Operands::TextThenWrite => deeds.writes.extend(operands.skip(1)),
            Operands::ReadThenWrite => {
                // With `-t` the target is an option; a last word that is several may name the target at its end.
                let targeted = parsed.has(&["-t", "--target-directory"]);
                let mut files: Vec<Word> = operands.collect();
                if !targeted {
                    deeds.writes.extend(files.pop());
                }
                deeds.reads.extend(files);
            }
            Operands::Format => {
                let format = |word: &Word| word.text().starts_with(['+', '"', '\'']);
                if let Some(word) = parsed.operands.iter().find(|word| !format(word)) {
                    return Err(format!("{} is no format", word.text()));
                }
            }
            Operands::Verb(verbs) => {
                let known = |word: &Word| word.plain().is_some_and(|text| verbs.contains(&text));
                if let Some(word) = parsed.operands.first().filter(|word| !known(word)) {
                    return Err(format!("{} is not known", word.text()));
                }
            }
            Operands::Host => deeds.hosts.extend(operands),
        }
        Ok(())
    }
}

/// Finds the row for a tool's command.
pub(super) fn command<'p>(rows: &'p [Program], name: &str) -> Option<&'p Program> {
    rows.iter().find(|row| row.names.contains(&name))
}
