//! One word: quotes removed, and whether its value is certain.

use super::Word;
use super::dollar::{Place, Value};
use super::scan::{Scanner, Step, ends_word};
use super::variable::is_name;

/// A word as read.
pub(super) struct Scanned {
    pub(super) word: Word,
    /// Neither quotes nor expansions nor a continued line: the text is what it says.
    pub(super) bare: bool,
    /// Its name and value, if it has the form of an assignment.
    pub(super) assignment: Option<(String, Word)>,
    /// `NAME+=`, which one shell takes for an assignment and another for a command.
    pub(super) appends: bool,
}

/// A word while it is read.
#[derive(Default)]
struct Building {
    value: String,
    quoted: bool,
    unknown: bool,
    pattern: bool,
    /// A character that is special in patterns, but quoted.
    quoted_special: bool,
    continued: bool,
    brace: Brace,
    /// Where the value begins, in the value and in the text, if it has the form of an assignment.
    assigned: Option<(usize, usize)>,
}

/// How far a brace expansion has come.
#[derive(Default, PartialEq)]
enum Brace {
    #[default]
    None,
    Open,
    Parted,
    Whole,
}

impl Building {
    fn push_quoted(&mut self, character: char) {
        self.quoted_special |= "*?[]\\!^-".contains(character);
        self.part(character);
        self.value.push(character);
    }

    /// A comma or two dots inside braces make several words of one.
    fn part(&mut self, character: char) {
        let parts = character == ',' || (character == '.' && self.value.ends_with('.'));
        if self.brace == Brace::Open && parts {
            self.brace = Brace::Parted;
        }
    }

    fn brace(&mut self, character: char) {
        if character == '{' && self.brace == Brace::None {
            self.brace = Brace::Open;
        }
        if character == '}' && self.brace == Brace::Parted {
            self.brace = Brace::Whole;
        }
    }
}

impl Scanner<'_, '_> {
    /// Reads one word. There must be one.
    pub(super) fn word(&mut self) -> Step<Scanned> {
        let start = self.at;
        let mut building = Building::default();
        while let Some(byte) = self.peek().filter(|&byte| !ends_word(Some(byte))) {
            match byte {
                b'\\' => self.escape(&mut building)?,
                b'\'' => self.single_quotes(&mut building)?,
                b'"' => self.double_quotes(&mut building)?,
                b'`' => {
                    self.backticks(Place::Bare)?;
                    building.unknown = true;
                }
                b'$' => self.bare_dollar(&mut building)?,
                b'~' => self.tilde(start, &mut building)?,
                _ => self.bare_character(start, &mut building),
            }
        }
        if self.at == start {
            return Err(self.stop("a word was expected"));
        }
        if building.brace == Brace::Whole {
            self.doubt(start, "braces that one shell expands and another does not");
        }
        Ok(self.finish(start, building))
    }

    fn finish(&mut self, start: usize, building: Building) -> Scanned {
        let raw = &self.text[start..self.at];
        let assignment = building.assigned.map(|(value_at, text_at)| {
            let value = match building.unknown {
                true => Word::Unknown(self.text[text_at..self.at].to_owned()),
                false => Word::Plain(building.value[value_at..].to_owned()),
            };
            (building.value[..value_at - 1].to_owned(), value)
        });
        let appends = building.value.split_once("+=").is_some_and(|(name, _)| is_name(name));
        let bare = !building.quoted && !building.unknown && !building.continued;
        let word = if building.unknown || building.brace == Brace::Whole {
            Word::Unknown(raw.to_owned())
        } else if building.pattern && !(bare && raw == "[") {
            match building.quoted_special {
                true => Word::Unknown(raw.to_owned()),
                false => Word::Pattern(building.value),
            }
        } else {
            Word::Plain(building.value)
        };
        Scanned { word, bare, assignment, appends }
    }

    /// One character without quotes.
    fn bare_character(&mut self, start: usize, building: &mut Building) {
        let Some(character) = self.rest().chars().next() else { return };
        building.part(character);
        match character {
            '*' | '?' | '[' => building.pattern = true,
            '{' | '}' => building.brace(character),
            '=' if building.assigned.is_none() && is_name(&self.text[start..self.at]) => {
                building.assigned = Some((building.value.len() + 1, self.at + 1));
            }
            _ => {}
        }
        building.value.push(character);
        self.at += character.len_utf8();
    }

    fn escape(&mut self, building: &mut Building) -> Step<()> {
        if self.peek_at(1) == Some(b'\n') {
            building.continued = true;
            return self.continuation();
        }
        self.at += 1;
        let Some(character) = self.rest().chars().next() else {
            return Err(self.stop("a backslash at the end"));
        };
        building.quoted = true;
        building.push_quoted(character);
        self.at += character.len_utf8();
        Ok(())
    }

    fn single_quotes(&mut self, building: &mut Building) -> Step<()> {
        building.quoted = true;
        let inner = &self.rest()[1..];
        let Some(length) = inner.find('\'') else {
            return Err(self.stop("a quote that does not end"));
        };
        self.no_newline_while_owed(&inner[..length])?;
        inner[..length].chars().for_each(|character| building.push_quoted(character));
        self.at += length + 2;
        Ok(())
    }

    fn double_quotes(&mut self, building: &mut Building) -> Step<()> {
        building.quoted = true;
        self.at += 1;
        loop {
            let Some(character) = self.rest().chars().next() else {
                return Err(self.stop("a quote that does not end"));
            };
            match character {
                '"' => {
                    self.at += 1;
                    return Ok(());
                }
                '\\' => match self.peek_at(1) {
                    Some(b'\n') => {
                        building.continued = true;
                        self.continuation()?;
                    }
                    Some(escaped @ (b'$' | b'`' | b'"' | b'\\')) => {
                        building.push_quoted(char::from(escaped));
                        self.at += 2;
                    }
                    _ => {
                        building.push_quoted('\\');
                        self.at += 1;
                    }
                },
                '$' => match self.dollar(Place::DoubleQuotes)? {
                    Value::Dollar => building.push_quoted('$'),
                    Value::Decoded(_) | Value::Unknown => building.unknown = true,
                },
                '`' => {
                    self.backticks(Place::DoubleQuotes)?;
                    building.unknown = true;
                }
                other => {
                    if other == '\n' {
                        self.no_newline_while_owed("\n")?;
                    }
                    building.push_quoted(other);
                    self.at += other.len_utf8();
                }
            }
        }
    }

    fn bare_dollar(&mut self, building: &mut Building) -> Step<()> {
        match self.dollar(Place::Bare)? {
            Value::Dollar => building.value.push('$'),
            Value::Decoded(text) => {
                building.quoted = true;
                text.chars().for_each(|character| building.push_quoted(character));
            }
            Value::Unknown => building.unknown = true,
        }
        Ok(())
    }

    /// A tilde is a home folder at the start of a word, and in what has the form of an assignment.
    fn tilde(&mut self, start: usize, building: &mut Building) -> Step<()> {
        let expands = self.at == start || matches!(self.text.as_bytes()[self.at - 1], b'=' | b':');
        self.at += 1;
        if expands {
            match self.peek() {
                Some(b'/' | b':') => building.unknown = true,
                next if ends_word(next) => building.unknown = true,
                _ => {
                    self.doubt(start, "the home folder of someone else");
                    building.unknown = true;
                }
            }
        }
        building.value.push('~');
        Ok(())
    }

    /// A newline inside a word before the text of a here-document could be where that text begins.
    pub(super) fn no_newline_while_owed(&mut self, inner: &str) -> Step<()> {
        if (self.owed || !self.pending.is_empty()) && inner.contains('\n') {
            return Err(self.stop("a newline inside a word before the text of a here-document"));
        }
        Ok(())
    }
}
