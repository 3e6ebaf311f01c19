//! The small languages of sed and awk: does a script only print?

mod awk;
mod sed;

pub(super) use awk::awk;
pub(super) use sed::sed;

use super::Word;

/// What a script can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It only prints.
    Prints,
    /// It changes the files that it is given.
    Writes,
    /// It may write, or read what it is not given.
    NotKnown,
    /// It may run commands.
    MayRun,
}

/// A script and the files it is given.
pub(super) struct Script {
    pub(super) verdict: Verdict,
    pub(super) files: Vec<Word>,
}

impl Script {
    fn of(verdict: Verdict) -> Script {
        Script { verdict, files: Vec::new() }
    }
}

/// What is known of brackets while a pattern is passed.
#[derive(PartialEq)]
enum Brackets {
    Closed,
    /// Opened, with nothing but carets behind: a closing bracket here is a character like any other, or it closes.
    Begun,
    Open,
}

/// Where a pattern that begins here ends, behind its mark, if every program sees it there. They differ in whether a mark
/// inside brackets ends it, and in where brackets end; so where the mark stands, no brackets can be open.
fn pattern_end(text: &str, mark: char) -> Option<usize> {
    let mut brackets = Brackets::Closed;
    let mut rest = text;
    loop {
        let mut characters = rest.chars();
        let character = characters.next()?;
        let inside = brackets != Brackets::Closed;
        if character == mark {
            return (!inside).then_some(text.len() - rest.len() + mark.len_utf8());
        }
        brackets = match (character, brackets) {
            ('\n', _) => return None,
            ('\\', before) => {
                let escaped = characters.next().filter(|&escaped| escaped != '\n')?;
                // Where a backslash is a character like any other in brackets, a class would begin.
                let class = escaped == '[' && characters.as_str().starts_with(CLASS_SIGNS);
                match before {
                    Brackets::Closed => Brackets::Closed,
                    Brackets::Begun | Brackets::Open if class => return None,
                    Brackets::Begun | Brackets::Open => Brackets::Open,
                }
            }
            ('[', Brackets::Closed) => Brackets::Begun,
            ('[', Brackets::Begun | Brackets::Open) => {
                if let Some(class) = characters.as_str().strip_prefix(CLASS_SIGNS) {
                    let (name, behind) = class.split_once(":]")?;
                    let plain = name.bytes().all(|byte| byte.is_ascii_lowercase());
                    if !plain || !rest.starts_with("[:") || name.contains(mark) || mark == ':' {
                        return None;
                    }
                    characters = behind.chars();
                }
                Brackets::Open
            }
            ('^', Brackets::Begun) => Brackets::Begun,
            (']', Brackets::Open) => Brackets::Closed,
            (_, Brackets::Begun | Brackets::Open) => Brackets::Open,
            (_, Brackets::Closed) => Brackets::Closed,
        };
        rest = characters.as_str();
    }
}

/// What stands behind a bracket inside brackets where a class of characters begins.
const CLASS_SIGNS: [char; 3] = [':', '.', '='];
