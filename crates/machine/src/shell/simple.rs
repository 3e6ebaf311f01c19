//! A simple command: its assignments, words and redirections.

use super::scan::{Scanner, Step};
use super::settle::settle;
use super::word::Scanned;
use super::{Flow, Redirect, Run, Word};

impl Scanner<'_, '_> {
    /// Reads one simple command. Its place among the runs is taken before those of its substitutions.
    pub(super) fn simple(&mut self) -> Step<()> {
        let index = self.reading.runs.len();
        let start = self.at;
        self.reading.runs.push(Run::default());
        let mut run = Run::default();
        let read = self.simple_parts(&mut run);
        let empty = run.argv.is_empty() && run.assignments.is_empty() && self.at == start;
        let depth = self.depth;
        if empty {
            read?;
            return Err(self.stop("a command was expected"));
        }
        settle(self.reading, &run, depth);
        self.reading.runs[index] = run;
        read
    }

    fn simple_parts(&mut self, run: &mut Run) -> Step<()> {
        loop {
            self.blanks_and_comment()?;
            if self.redirect(&mut run.redirects)? {
                continue;
            }
            match self.peek() {
                None | Some(b'\n' | b';' | b'&' | b'|' | b')') => return Ok(()),
                Some(b'(') => return self.parenthesis(run),
                Some(_) => {
                    let start = self.at;
                    let scanned = self.word()?;
                    self.take(run, start, scanned)?;
                }
            }
        }
    }

    /// Adds a word to the command.
    fn take(&mut self, run: &mut Run, start: usize, scanned: Scanned) -> Step<()> {
        if matches!(self.peek(), Some(b'<' | b'>')) && self.is_descriptor(start, &scanned) {
            return Err(self.stop("a redirection of a descriptor in a form that is not known"));
        }
        if run.argv.is_empty() {
            if scanned.appends {
                self.doubt(start, "an assignment that one shell knows and another does not");
            }
            if let Some(assignment) = scanned.assignment {
                run.assignments.push(assignment);
                return Ok(());
            }
            if scanned.bare && is_reserved(scanned.word.text()) {
                self.doubt(
                    start,
                    "a reserved word that is not followed, or not where it should be",
                );
            }
        }
        run.argv.push(scanned.word);
        Ok(())
    }

    /// Whether a word right before `<` or `>` may belong to it: `10>`, `{name}>`, or a number over two lines.
    fn is_descriptor(&self, start: usize, scanned: &Scanned) -> bool {
        let text = scanned.word.text();
        let number = text.bytes().all(|byte| byte.is_ascii_digit());
        number || self.text[start..self.at].starts_with('{')
    }

    /// Behind a word an opening parenthesis defines a function, or is wrong.
    fn parenthesis(&mut self, run: &mut Run) -> Step<()> {
        let start = self.at;
        if run.argv.len() != 1 || !run.assignments.is_empty() || !run.redirects.is_empty() {
            return Err(self.stop("a parenthesis behind a word"));
        }
        self.at += 1;
        self.blanks()?;
        if self.peek() != Some(b')') {
            return Err(self.stop("a parenthesis behind a word"));
        }
        self.at += 1;
        self.doubt(start, "a function: what its name does changes");
        self.lines()?;
        self.deeper(Self::function_body)
    }

    /// Reads one redirection, if there is one here.
    pub(super) fn redirect(&mut self, redirects: &mut Vec<Redirect>) -> Step<bool> {
        let start = self.at;
        match (self.peek(), self.peek_at(1)) {
            (Some(b'0'..=b'9'), Some(b'<' | b'>')) => self.at += 1,
            (Some(b'&'), Some(b'>')) => {
                self.at += 1;
                self.doubt(start, "a redirection that one shell knows and another does not");
            }
            (Some(b'<' | b'>'), _) => {}
            _ => return Ok(false),
        }
        let operators = ["<<<", "<<-", "<<", "<&", "<>", "<(", "<", ">>", ">&", ">|", ">(", ">"];
        let Some(operator) = operators.into_iter().find(|operator| self.starts_with(operator))
        else {
            return Ok(false);
        };
        self.at += operator.len();
        if self.starts_with("\\\n") {
            return Err(self.stop("a continued line behind an operator"));
        }
        match operator {
            "<<" => self.here_delimiter(false)?,
            "<<-" => self.here_delimiter(true)?,
            "<(" | ">(" => {
                self.doubt(
                    start,
                    "a substitution of a process, which one shell knows and another does not",
                );
                self.enclosed()?;
            }
            "<<<" => {
                self.doubt(start, "a here-string, which one shell knows and another does not");
                self.blanks()?;
                self.word()?;
            }
            "<&" | ">&" => self.duplicate(start, redirects)?,
            "<>" => {
                let target = self.target(start)?;
                redirects.push(Redirect { flow: Flow::Read, target: target.clone() });
                redirects.push(Redirect { flow: Flow::Write, target });
            }
            "<" => {
                let target = self.target(start)?;
                redirects.push(Redirect { flow: Flow::Read, target });
            }
            _ => {
                let target = self.target(start)?;
                redirects.push(Redirect { flow: Flow::Write, target });
            }
        }
        Ok(true)
    }

    /// The file of a redirection.
    fn target(&mut self, start: usize) -> Step<Word> {
        self.blanks()?;
        if matches!(self.peek(), Some(b'#')) {
            return Err(self.stop("a redirection without a file"));
        }
        let word_start = self.at;
        let scanned = self.word()?;
        if matches!(self.peek(), Some(b'<' | b'>')) && self.is_descriptor(word_start, &scanned) {
            return Err(self.stop("a number between two redirections"));
        }
        let word = scanned.word;
        let device = |text: &str| text.starts_with("/dev/tcp/") || text.starts_with("/dev/udp/");
        match &word {
            Word::Pattern(_) => self.doubt(start, "a pattern as the file of a redirection"),
            Word::Plain(text) if device(text) => {
                self.doubt(start, "a connection, which one shell makes and another does not");
            }
            Word::Plain(_) | Word::Unknown(_) => {}
        }
        Ok(word)
    }

    /// `2>&1`, `>&-`; `>&file` writes both outputs to a file in one shell only.
    fn duplicate(&mut self, start: usize, redirects: &mut Vec<Redirect>) -> Step<()> {
        let word = self.target(start)?;
        match &word {
            Word::Plain(text) if text == "-" || is_digit(text) => {}
            _ => {
                self.doubt(start, "a redirection that one shell knows and another does not");
                redirects.push(Redirect { flow: Flow::Write, target: word });
            }
        }
        Ok(())
    }
}

fn is_digit(text: &str) -> bool {
    matches!(text.as_bytes(), [b'0'..=b'9'])
}

/// Words with a meaning of their own in one shell or the other.
pub(super) fn is_reserved(text: &str) -> bool {
    const RESERVED: &[&str] = &[
        "!", "[[", "]]", "case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for",
        "function", "if", "in", "select", "then", "until", "while", "{", "}",
    ];
    RESERVED.contains(&text)
}
