//! What a dollar sign or a backtick begins: parameters, substitutions, arithmetic.

use super::scan::{Scanner, Step};
use super::variable::{self, is_name};

/// Where the dollar sign stands; that decides what quotes mean.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Bare,
    DoubleQuotes,
    HereDocument,
}

/// What it stands for.
pub(super) enum Value {
    /// The sign itself.
    Dollar,
    /// Text in `$'…'`, decoded.
    Decoded(String),
    /// Known only when it runs.
    Unknown,
}

impl Scanner<'_, '_> {
    /// Reads what begins with the dollar sign here.
    pub(super) fn dollar(&mut self, place: Place) -> Step<Value> {
        let start = self.at;
        match self.peek_at(1) {
            Some(b'(') if self.peek_at(2) == Some(b'(') => self.arithmetic()?,
            Some(b'(') => self.substitution()?,
            Some(b'{') => self.parameter(place)?,
            Some(b'a'..=b'z' | b'A'..=b'Z' | b'_') => {
                self.at += 1;
                self.name();
            }
            Some(b'0'..=b'9' | b'@' | b'*' | b'#' | b'?' | b'-' | b'$' | b'!') => self.at += 2,
            Some(b'\'') if place == Place::Bare => return self.ansi_quotes(),
            Some(b'"') if place == Place::Bare => {
                return Err(self.stop("a text to be translated"));
            }
            Some(b'[') => return Err(self.stop("arithmetic in an old form")),
            Some(b'\\') if self.peek_at(2) == Some(b'\n') => {
                return Err(self.stop("a continued line behind a dollar sign"));
            }
            _ => {
                self.at += 1;
                return Ok(Value::Dollar);
            }
        }
        debug_assert!(self.at > start, "an expansion takes at least one character");
        Ok(Value::Unknown)
    }

    /// Passes a name and gives it.
    fn name(&mut self) -> &str {
        let start = self.at;
        let ends = |byte: &u8| !byte.is_ascii_alphanumeric() && *byte != b'_';
        let rest = &self.text.as_bytes()[start..];
        self.at += rest.iter().position(ends).unwrap_or(rest.len());
        &self.text[start..self.at]
    }

    /// `$(…)`: a list of commands up to the closing parenthesis.
    pub(super) fn substitution(&mut self) -> Step<()> {
        self.at += 2;
        self.enclosed()
    }

    /// A list of commands up to a closing parenthesis, with here-documents of its own.
    pub(super) fn enclosed(&mut self) -> Step<()> {
        let outside = std::mem::take(&mut self.pending);
        let owed = self.owed;
        let (start, heres, runs) = (self.at, self.heres, self.reading.runs.len());
        self.owed |= !outside.is_empty();
        self.deeper(|scanner| {
            scanner.list()?;
            scanner.nothing_pending()?;
            if scanner.peek() != Some(b')') {
                return Err(scanner.stop("a substitution that does not end"));
            }
            scanner.at += 1;
            Ok(())
        })?;
        self.owed = owed;
        self.pending = outside;
        // Bash 5.2 writes a substitution down and reads that again; behind a here-document it loses a semicolon.
        if self.heres > heres && self.reading.runs.len() != runs + 1 {
            self.doubt(start, "a here-document beside other commands in a substitution");
        }
        Ok(())
    }

    /// Backticks: a list of commands up to the next backtick.
    pub(super) fn backticks(&mut self, place: Place) -> Step<()> {
        let inner = &self.text[self.at + 1..];
        let Some(length) = inner.find('`') else {
            return Err(self.stop("a backtick that does not end"));
        };
        let body = &inner[..length];
        if body.contains('\\') || (place != Place::Bare && body.contains('"')) {
            return Err(self.stop("quotes or a backslash inside backticks"));
        }
        self.no_newline_while_owed(body)?;
        Scanner::new(body, self.depth, self.reading).whole();
        self.at += length + 2;
        Ok(())
    }

    /// `$((…))`: only numbers and operators, since names are evaluated, and their values again.
    fn arithmetic(&mut self) -> Step<()> {
        let start = self.at;
        let mut level = 0_usize;
        let bytes = self.text.as_bytes();
        let mut at = start + 3;
        loop {
            match bytes.get(at) {
                Some(b'(') => level += 1,
                Some(b')') if level > 0 => level -= 1,
                Some(b')') if bytes.get(at + 1) == Some(&b')') => break,
                Some(b'0'..=b'9' | b' ' | b'+' | b'-' | b'*' | b'/' | b'%') => {}
                Some(b'<' | b'>' | b'=' | b'!' | b'&' | b'|' | b'^' | b'~' | b'?' | b':') => {}
                _ => return Err(self.stop("arithmetic that evaluates more than numbers")),
            }
            at += 1;
        }
        if self.text[start + 3..at].trim().is_empty() {
            return Err(self.stop("arithmetic of nothing"));
        }
        self.at = at + 2;
        Ok(())
    }

    /// `${…}` in the forms that every shell has.
    fn parameter(&mut self, place: Place) -> Step<()> {
        let start = self.at;
        self.at += 2;
        let counts = self.peek() == Some(b'#') && self.peek_at(1) != Some(b'}');
        if counts {
            self.at += 1;
        }
        let name = match self.peek() {
            Some(b'a'..=b'z' | b'A'..=b'Z' | b'_') => self.name().to_owned(),
            Some(b'0'..=b'9') => {
                let ends = |byte: &u8| !byte.is_ascii_digit();
                let rest = &self.text.as_bytes()[self.at..];
                let length = rest.iter().position(ends).unwrap_or(rest.len());
                self.at += length;
                self.text[self.at - length..self.at].to_owned()
            }
            Some(b'@' | b'*' | b'?' | b'$' | b'-' | b'#' | b'!')
                if self.peek_at(1) == Some(b'}') =>
            {
                self.at += 2;
                return Ok(());
            }
            _ => return Err(self.stop("a parameter in a form that is not known")),
        };
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(());
        }
        let colon = usize::from(self.peek() == Some(b':'));
        let operator = self.peek_at(colon);
        match operator {
            _ if counts => return Err(self.stop("a parameter in a form that is not known")),
            Some(b'-' | b'+' | b'?') => self.at += colon + 1,
            Some(b'=') => {
                self.at += colon + 1;
                if !is_name(&name) || !variable::may_be_set(&name) {
                    self.doubt(start, "it sets a variable that can change what programs do");
                }
            }
            Some(sign @ (b'#' | b'%')) if colon == 0 => {
                self.at += 1 + usize::from(self.peek_at(1) == Some(sign));
            }
            _ => return Err(self.stop("a parameter in a form that is not known")),
        }
        self.deeper(|scanner| scanner.parameter_word(place))
    }

    /// The word of `${name:-word}`, up to the closing brace.
    fn parameter_word(&mut self, place: Place) -> Step<()> {
        loop {
            match self.peek() {
                None => return Err(self.stop("a parameter that does not end")),
                Some(b'}') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\n' | b'\\' | b'{' | b'(' | b')' | b'<' | b'>') => {
                    return Err(self.stop("a default value that is not simple"));
                }
                Some(b'\'' | b'"') if place != Place::Bare => {
                    return Err(self.stop("quotes in a default value inside quotes"));
                }
                Some(quote @ (b'\'' | b'"')) => {
                    let inner = &self.text[self.at + 1..];
                    let Some(length) = inner.find(char::from(quote)) else {
                        return Err(self.stop("a quote that does not end"));
                    };
                    let body = &inner[..length];
                    if body.contains(['\n', '}'])
                        || (quote == b'"' && body.contains(['\\', '$', '`']))
                    {
                        return Err(self.stop("a default value that is not simple"));
                    }
                    self.at += length + 2;
                }
                Some(b'$') => match self.dollar(place)? {
                    Value::Dollar | Value::Unknown => {}
                    Value::Decoded(_) => {
                        return Err(self.stop("a default value that is not simple"));
                    }
                },
                Some(b'`') => self.backticks(place)?,
                Some(_) => self.at += 1,
            }
        }
    }

    /// `$'…'`: decoded as bash does, and always in doubt, since dash takes it for a dollar sign and a quoted text.
    fn ansi_quotes(&mut self) -> Step<Value> {
        let start = self.at;
        self.at += 2;
        let mut decoded = String::new();
        loop {
            let Some(character) = self.rest().chars().next() else {
                return Err(self.stop("a quote that does not end"));
            };
            self.at += character.len_utf8();
            match character {
                '\'' => break,
                '\\' => match self.ansi_escape() {
                    Some(character) => decoded.push(character),
                    None => return Err(self.stop("an escape that is not known")),
                },
                other => decoded.push(other),
            }
        }
        self.doubt(start, "a quoting that one shell knows and another does not");
        Ok(Value::Decoded(decoded))
    }

    fn ansi_escape(&mut self) -> Option<char> {
        let character = self.rest().chars().next()?;
        self.at += character.len_utf8();
        match character {
            'n' => Some('\n'),
            't' => Some('\t'),
            'r' => Some('\r'),
            '\\' | '\'' | '"' | '?' => Some(character),
            'x' => self.code(2, 16),
            'u' => self.code(4, 16),
            'U' => self.code(8, 16),
            '0'..='7' => {
                self.at -= 1;
                self.code(3, 8)
            }
            _ => None,
        }
    }

    /// Up to so many digits as the number of an ASCII character.
    fn code(&mut self, digits: usize, radix: u32) -> Option<char> {
        let is_digit = |byte: &&u8| char::from(**byte).is_digit(radix);
        let length = self.rest().as_bytes().iter().take(digits).take_while(is_digit).count();
        let number = u32::from_str_radix(&self.rest()[..length], radix).ok()?;
        self.at += length;
        char::from_u32(number).filter(char::is_ascii).filter(|&character| character != '\0')
    }
}
