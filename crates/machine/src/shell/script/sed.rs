//! sed: addresses, and the commands that only print and edit the text that passes.

use super::{Script, Verdict, pattern_end};
use crate::shell::Word;
use crate::shell::options::Options;

const OPTIONS: Options = Options {
    flags: "nErsuz",
    values: "e",
    attached: "i",
    long: "quiet silent regexp-extended separate unbuffered null-data posix debug",
    long_values: "expression",
    long_attached: "in-place",
    ..Options::NONE
};

/// What a sed command line does.
pub(in crate::shell) fn sed(arguments: &[Word]) -> Script {
    let Ok(parsed) = OPTIONS.parse(arguments) else { return Script::of(Verdict::MayRun) };
    let mut files = parsed.operands.clone();
    let mut scripts = parsed.values(&["-e", "--expression"]);
    if scripts.is_empty() {
        if files.is_empty() {
            return Script::of(Verdict::MayRun);
        }
        scripts.push(files.remove(0));
    }
    let texts: Option<Vec<&str>> = scripts.iter().map(Word::plain).collect();
    let Some(texts) = texts else { return Script::of(Verdict::MayRun) };
    let verdict = match judge(&texts.join("\n")) {
        Verdict::Prints if parsed.has(&["-i", "--in-place"]) => {
            // A suffix names a second file that is written.
            match parsed.values(&["-i", "--in-place"]).is_empty() {
                true => Verdict::Writes,
                false => Verdict::NotKnown,
            }
        }
        verdict => verdict,
    };
    Script { verdict, files }
}

/// What a script does.
fn judge(text: &str) -> Verdict {
    let mut rest = Rest { text };
    loop {
        match rest.command() {
            Ok(true) => {}
            Ok(false) => return Verdict::Prints,
            Err(verdict) => return verdict,
        }
    }
}

/// What is left of a script.
struct Rest<'t> {
    text: &'t str,
}

impl<'t> Rest<'t> {
    fn take(&mut self) -> Option<char> {
        let character = self.text.chars().next()?;
        self.text = &self.text[character.len_utf8()..];
        Some(character)
    }

    fn skip(&mut self, characters: &[char]) {
        self.text = self.text.trim_start_matches(characters);
    }

    /// Passes one command; `false` at the end.
    fn command(&mut self) -> Result<bool, Verdict> {
        self.skip(&[' ', '\t', '\n', ';']);
        if self.text.is_empty() {
            return Ok(false);
        }
        if self.address()? {
            self.skip(&[' ', '\t']);
            if self.text.starts_with(',') {
                self.take();
                self.skip(&[' ', '\t']);
                if !self.address()? {
                    return Err(Verdict::MayRun);
                }
            }
        }
        self.skip(&[' ', '\t', '!']);
        match self.take() {
            Some('p' | 'd' | '=' | 'n' | 'N' | 'D' | 'G' | 'g' | 'h' | 'H' | 'x' | 'P' | 'z') => {
                self.end()
            }
            Some('q' | 'Q' | 'l') => {
                self.skip(&[' ', '\t']);
                self.text =
                    self.text.trim_start_matches(|character: char| character.is_ascii_digit());
                self.end()
            }
            Some('{' | '}') => Ok(true),
            Some('s') => self.substitute(),
            Some('y') => {
                let delimiter = self.delimiter()?;
                self.until(delimiter)?;
                self.until(delimiter)?;
                self.end()
            }
            Some('b' | 't' | 'T' | ':') => {
                let label = self.text.split(['\n', ';', '}']).next().unwrap_or("");
                if !label.trim().bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
                    return Err(Verdict::MayRun);
                }
                self.text = &self.text[label.len()..];
                self.end()
            }
            Some('w' | 'W' | 'r' | 'R') => Err(Verdict::NotKnown),
            _ => Err(Verdict::MayRun),
        }
    }

    /// A command ends at the end of the line, a semicolon or a brace.
    fn end(&mut self) -> Result<bool, Verdict> {
        self.skip(&[' ', '\t']);
        match self.text.chars().next() {
            None | Some('\n' | ';' | '}') => Ok(true),
            Some(_) => Err(Verdict::MayRun),
        }
    }

    /// Passes an address, if there is one.
    fn address(&mut self) -> Result<bool, Verdict> {
        match self.text.chars().next() {
            Some('$') => {
                self.take();
            }
            Some('0'..='9' | '+' | '~') => {
                self.text =
                    self.text.trim_start_matches(|c: char| c.is_ascii_digit() || "+~".contains(c));
            }
            Some('/') => {
                self.take();
                self.until('/')?;
                self.text = self.text.trim_start_matches(['I', 'M']);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn delimiter(&mut self) -> Result<char, Verdict> {
        self.take()
            .filter(|&character| character != '\n' && character != '\\')
            .ok_or(Verdict::MayRun)
    }

    /// Passes a pattern up to its delimiter.
    fn until(&mut self, delimiter: char) -> Result<(), Verdict> {
        let length = pattern_end(self.text, delimiter).ok_or(Verdict::MayRun)?;
        self.text = &self.text[length..];
        Ok(())
    }

    fn substitute(&mut self) -> Result<bool, Verdict> {
        let delimiter = self.delimiter()?;
        if "[]".contains(delimiter) {
            return Err(Verdict::MayRun);
        }
        self.until(delimiter)?;
        self.replacement(delimiter)?;
        loop {
            match self.text.chars().next() {
                Some('g' | 'p' | 'i' | 'I' | 'm' | 'M' | '0'..='9') => {
                    self.take();
                }
                Some('w') => return Err(Verdict::NotKnown),
                _ => return self.end(),
            }
        }
    }

    fn replacement(&mut self, delimiter: char) -> Result<(), Verdict> {
        while let Some(character) = self.take() {
            if character == '\\' {
                self.take();
            } else if character == delimiter {
                return Ok(());
            }
        }
        Err(Verdict::MayRun)
    }
}
