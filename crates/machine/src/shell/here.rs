//! Here-documents: their delimiter, their text, and the substitutions in it.

use super::scan::{Scanner, Step};

/// A here-document whose text is still to come.
pub(super) struct Pending {
    delimiter: String,
    /// A quoted delimiter makes the text plain.
    plain: bool,
    /// `<<-` removes leading tabs, before the delimiter too.
    strip: bool,
}

impl Scanner<'_, '_> {
    /// Reads what follows `<<` or `<<-`.
    pub(super) fn here_delimiter(&mut self, strip: bool) -> Step<()> {
        self.blanks()?;
        let start = self.at;
        let mut delimiter = String::new();
        let mut plain = false;
        while let Some(character) = self.rest().chars().next() {
            match character {
                ' ' | '\t' | '\n' | ';' | '&' | '|' | '<' | '>' | '(' | ')' => break,
                '\'' | '"' => {
                    plain = true;
                    let inner = &self.rest()[1..];
                    let Some(length) = inner.find(character) else {
                        return Err(self.stop("a quote that does not end"));
                    };
                    let quoted = &inner[..length];
                    if quoted.contains(['\\', '$', '`', '\n']) {
                        return Err(self.stop("a delimiter of a here-document that is not plain"));
                    }
                    delimiter.push_str(quoted);
                    self.at += length + 2;
                }
                '\\' => {
                    plain = true;
                    self.at += 1;
                    match self.rest().chars().next() {
                        Some(escaped) if escaped != '\n' => {
                            delimiter.push(escaped);
                            self.at += escaped.len_utf8();
                        }
                        _ => {
                            return Err(
                                self.stop("a delimiter of a here-document that is not plain")
                            );
                        }
                    }
                }
                '$' | '`' => {
                    return Err(self.stop("a delimiter of a here-document that is not plain"));
                }
                other => {
                    delimiter.push(other);
                    self.at += other.len_utf8();
                }
            }
        }
        if self.at == start || delimiter.is_empty() || delimiter.starts_with('\t') {
            return Err(self.stop("a here-document without a delimiter"));
        }
        self.heres += 1;
        self.pending.push(Pending { delimiter, plain, strip });
        Ok(())
    }

    /// Reads the texts that begin at this line.
    pub(super) fn here_documents(&mut self) -> Step<()> {
        for pending in std::mem::take(&mut self.pending) {
            let start = self.at;
            let body = loop {
                if self.at >= self.text.len() {
                    self.at = start;
                    return Err(self.stop("a here-document that does not end"));
                }
                let line_start = self.at;
                let length = self.rest().find('\n');
                let line = &self.rest()[..length.unwrap_or(self.rest().len())];
                self.at = (self.at + line.len() + 1).min(self.text.len());
                let line = if pending.strip { line.trim_start_matches('\t') } else { line };
                if line == pending.delimiter {
                    break &self.text[start..line_start];
                }
            };
            if !pending.plain {
                self.here_text(body)?;
            }
        }
        Ok(())
    }

    /// Reads the substitutions in a text whose delimiter is not quoted.
    fn here_text(&mut self, body: &str) -> Step<()> {
        let mut inner = Scanner::new(body, self.depth, self.reading);
        inner.deeper(|inner| {
            while let Some(byte) = inner.peek() {
                match byte {
                    b'\\' => match inner.peek_at(1) {
                        Some(b'\n') => {
                            return Err(inner.stop("a continued line in a here-document"));
                        }
                        Some(b'$' | b'`' | b'\\') => inner.at += 2,
                        _ => inner.at += 1,
                    },
                    b'$' => {
                        inner.dollar(super::dollar::Place::HereDocument)?;
                    }
                    b'`' => inner.backticks(super::dollar::Place::HereDocument)?,
                    _ => inner.at += 1,
                }
            }
            Ok(())
        })
    }
}
