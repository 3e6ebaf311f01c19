//! Lists, pipelines, groups, conditions and loops.

use super::scan::{Scanner, Step, ends_word};
use super::variable::{self, is_name};
use super::{MOST_SHARED_REDIRECTS, Redirect};

/// Words that end a list inside of something else.
const CLOSERS: &[&str] = &["then", "do", "done", "fi", "elif", "else", "esac", "}"];

impl Scanner<'_, '_> {
    /// Reads commands up to the end, a closing parenthesis, `;;` or a word that closes; gives how many.
    pub(super) fn list(&mut self) -> Step<usize> {
        let mut count = 0;
        loop {
            self.lines()?;
            if self.at_closer() {
                return Ok(count);
            }
            self.conditional()?;
            count += 1;
            self.blanks_and_comment()?;
            match self.peek() {
                None | Some(b')') => return Ok(count),
                Some(b'\n') => self.newline()?,
                Some(b';') if matches!(self.peek_at(1), Some(b';' | b'&')) => return Ok(count),
                Some(b';' | b'&') => {
                    self.at += 1;
                    self.not_continued()?;
                }
                Some(_) => return Err(self.stop("a word or operator behind a command")),
            }
        }
    }

    /// A list that must not be empty.
    fn body(&mut self) -> Step<()> {
        match self.list()? {
            0 => Err(self.stop("a command was expected")),
            _ => Ok(()),
        }
    }

    fn at_closer(&self) -> bool {
        match self.peek() {
            None | Some(b')') => true,
            Some(b';') => self.peek_at(1) == Some(b';'),
            Some(_) => CLOSERS.iter().any(|closer| self.at_reserved(closer)),
        }
    }

    /// An operator that a continued line might make longer.
    fn not_continued(&mut self) -> Step<()> {
        match self.starts_with("\\\n") {
            true => Err(self.stop("a continued line behind an operator")),
            false => Ok(()),
        }
    }

    /// Pipelines joined by `&&` and `||`.
    fn conditional(&mut self) -> Step<()> {
        loop {
            self.pipeline()?;
            self.blanks_and_comment()?;
            if !self.starts_with("&&") && !self.starts_with("||") {
                return Ok(());
            }
            self.at += 2;
            self.not_continued()?;
            self.lines()?;
        }
    }

    /// Commands joined by `|`.
    fn pipeline(&mut self) -> Step<()> {
        if self.at_reserved("!") {
            self.at += 1;
            if !matches!(self.peek(), Some(b' ' | b'\t')) {
                return Err(self.stop("`!` without a command"));
            }
            self.blanks()?;
            if self.at_reserved("!") {
                return Err(self.stop("`!` twice"));
            }
        }
        loop {
            self.deeper(Self::command)?;
            self.blanks_and_comment()?;
            if self.peek() != Some(b'|') || self.peek_at(1) == Some(b'|') {
                return Ok(());
            }
            self.at += 1;
            if self.peek() == Some(b'&') {
                self.at += 1;
                self.doubt(self.at - 2, "a pipe that one shell knows and another does not");
            }
            self.not_continued()?;
            self.lines()?;
        }
    }

    /// What a function does is read too, so that a rule that forbids a program finds it.
    pub(super) fn function_body(&mut self) -> Step<()> {
        self.command()
    }

    fn command(&mut self) -> Step<()> {
        let start = self.reading.runs.len();
        if self.peek() == Some(b'(') {
            if self.peek_at(1) == Some(b'(') {
                return Err(self.stop("arithmetic or a group in a group"));
            }
            self.at += 1;
            self.body()?;
            self.expect_parenthesis()?;
        } else if self.at_reserved("{") {
            self.at += 1;
            if !matches!(self.peek(), Some(b' ' | b'\t' | b'\n')) {
                return Err(self.stop("a blank was expected behind `{`"));
            }
            self.body()?;
            self.expect_reserved("}")?;
        } else if self.at_reserved("if") {
            self.condition()?;
        } else if self.at_reserved("while") || self.at_reserved("until") {
            self.at += 5;
            self.body()?;
            self.do_body()?;
        } else if self.at_reserved("for") {
            self.for_loop()?;
        } else if self.at_reserved("case") {
            self.case()?;
        } else {
            return self.simple();
        }
        self.shared_redirects(start)
    }

    fn expect_parenthesis(&mut self) -> Step<()> {
        if self.peek() != Some(b')') {
            return Err(self.stop("`)` was expected"));
        }
        self.at += 1;
        Ok(())
    }

    /// Redirections behind a group go for everything in it.
    fn shared_redirects(&mut self, start: usize) -> Step<()> {
        let mut redirects: Vec<Redirect> = Vec::new();
        loop {
            self.blanks_and_comment()?;
            if !self.redirect(&mut redirects)? {
                break;
            }
        }
        if !ends_word(self.peek()) {
            return Err(self.stop("a word behind a group"));
        }
        if redirects.len() > MOST_SHARED_REDIRECTS {
            return Err(self.stop("too many redirections of a group"));
        }
        for run in &mut self.reading.runs[start..] {
            run.redirects.extend(redirects.iter().cloned());
        }
        Ok(())
    }

    fn condition(&mut self) -> Step<()> {
        self.expect_reserved("if")?;
        loop {
            self.body()?;
            self.expect_reserved("then")?;
            self.body()?;
            if self.at_reserved("elif") {
                self.at += 4;
                continue;
            }
            if self.at_reserved("else") {
                self.at += 4;
                self.body()?;
            }
            return self.expect_reserved("fi");
        }
    }

    fn do_body(&mut self) -> Step<()> {
        self.expect_reserved("do")?;
        self.body()?;
        self.expect_reserved("done")
    }

    fn for_loop(&mut self) -> Step<()> {
        let start = self.at;
        self.at += 3;
        self.blanks()?;
        let name = self.word()?;
        let plain = name.word.plain().filter(|text| name.bare && is_name(text));
        match plain {
            None => return Err(self.stop("a name was expected behind `for`")),
            Some(text) if !variable::may_be_set(text) => {
                self.doubt(start, "it sets a variable that can change what programs do");
            }
            Some(_) => {}
        }
        self.blanks_and_comment()?;
        if self.peek() == Some(b';') {
            self.at += 1;
        } else {
            self.lines()?;
            if self.at_reserved("in") {
                self.at += 2;
                loop {
                    self.blanks_and_comment()?;
                    match self.peek() {
                        Some(b';') => {
                            self.at += 1;
                            break;
                        }
                        Some(b'\n') => break,
                        _ => {
                            self.word()?;
                        }
                    }
                }
            }
        }
        self.lines()?;
        self.do_body()
    }

    fn case(&mut self) -> Step<()> {
        self.at += 4;
        self.blanks()?;
        self.word()?;
        self.lines()?;
        self.expect_reserved("in")?;
        loop {
            self.lines()?;
            if self.at_reserved("esac") {
                self.at += 4;
                return Ok(());
            }
            if self.peek() == Some(b'(') {
                self.at += 1;
                self.blanks()?;
            }
            self.case_patterns()?;
            self.list()?;
            self.lines()?;
            if self.starts_with(";;") {
                self.at += 2;
                if self.peek() == Some(b'&') {
                    return Err(self
                        .stop("a case that goes on, which one shell knows and another does not"));
                }
            } else {
                return self.expect_reserved("esac");
            }
        }
    }

    fn case_patterns(&mut self) -> Step<()> {
        loop {
            self.word()?;
            self.blanks()?;
            match self.peek() {
                Some(b'|') => {
                    self.at += 1;
                    self.blanks()?;
                }
                Some(b')') => {
                    self.at += 1;
                    return Ok(());
                }
                _ => return Err(self.stop("`)` was expected behind a pattern")),
            }
        }
    }
}
