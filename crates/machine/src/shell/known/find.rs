//! find: tests that look, and the few actions that print or remove.

use super::{Deeds, Kind};
use crate::shell::Word;

/// Tests and options without a value.
const BARE: &[&str] = &[
    "!",
    "(",
    ")",
    ",",
    "-a",
    "-and",
    "-daystart",
    "-depth",
    "-empty",
    "-executable",
    "-false",
    "-follow",
    "-ignore_readdir_race",
    "-ls",
    "-mount",
    "-nogroup",
    "-noleaf",
    "-not",
    "-nouser",
    "-o",
    "-or",
    "-print",
    "-print0",
    "-prune",
    "-quit",
    "-readable",
    "-true",
    "-writable",
    "-xdev",
];

/// Tests and options with a value.
const VALUED: &[&str] = &[
    "-amin",
    "-anewer",
    "-atime",
    "-cmin",
    "-cnewer",
    "-ctime",
    "-fstype",
    "-gid",
    "-group",
    "-ilname",
    "-iname",
    "-inum",
    "-ipath",
    "-iregex",
    "-iwholename",
    "-links",
    "-lname",
    "-maxdepth",
    "-mindepth",
    "-mmin",
    "-mtime",
    "-name",
    "-newer",
    "-path",
    "-perm",
    "-printf",
    "-regex",
    "-regextype",
    "-samefile",
    "-size",
    "-type",
    "-uid",
    "-used",
    "-user",
    "-wholename",
    "-xtype",
];

/// What a find command line does. What `-exec` starts is a run of its own.
pub(super) fn find(arguments: &[Word]) -> Result<Deeds, String> {
    let mut deeds = Deeds::of(Kind::Look);
    let mut words = arguments.iter().peekable();
    while let Some(word) = words.peek() {
        let text = word.text();
        let option = matches!(text, "-H" | "-L" | "-P") && deeds.reads.is_empty();
        if !option {
            if text.starts_with(['-', '!', '(']) || text == "," {
                break;
            }
            if !word.is_operand() {
                return Err(format!("{text} could be an action"));
            }
            deeds.reads.push((*word).clone());
        }
        words.next();
    }
    if deeds.reads.is_empty() {
        deeds.reads.push(Word::Plain(".".to_owned()));
    }
    while let Some(word) = words.next() {
        let Some(text) = word.plain() else {
            return Err(format!("{} could be an action", word.text()));
        };
        if BARE.contains(&text) {
            continue;
        }
        if VALUED.contains(&text) {
            match words.next() {
                Some(value) if value.is_single() => {
                    if matches!(text, "-newer" | "-anewer" | "-cnewer" | "-samefile") {
                        deeds.reads.push(value.clone());
                    }
                }
                _ => return Err(format!("the value of {text} is not certain")),
            }
        } else if text == "-delete" {
            deeds.kind = Kind::Change;
            deeds.writes = deeds.reads.clone();
        } else if matches!(text, "-exec" | "-execdir") {
            // The reading found the end, or doubted.
            for word in words.by_ref() {
                if matches!(word.plain(), Some(";" | "+")) {
                    break;
                }
            }
        } else {
            return Err(format!("{text} is not known"));
        }
    }
    Ok(deeds)
}
