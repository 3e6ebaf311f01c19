//! awk: programs that only compute and print.

use super::{Script, Verdict, pattern_end};
use crate::shell::Word;
use crate::shell::options::Options;

const OPTIONS: Options = Options { values: "Fv", ordered: true, ..Options::NONE };

/// Words that reach beyond the lines that pass.
const REACHING: &[&str] = &["getline", "system", "close", "fflush"];

/// Words that show the environment, or change which files are read.
const SHOWING: &[&str] = &["ARGC", "ARGV", "ENVIRON", "PROCINFO", "SYMTAB", "FUNCTAB"];

/// What an awk command line does.
pub(in crate::shell) fn awk(arguments: &[Word]) -> Script {
    let Ok(parsed) = OPTIONS.parse(arguments) else { return Script::of(Verdict::MayRun) };
    let Some((Word::Plain(program), files)) = parsed.operands.split_first() else {
        return Script::of(Verdict::MayRun);
    };
    Script { verdict: judge(program), files: files.to_vec() }
}

/// What came last, which decides what a slash means.
#[derive(PartialEq)]
enum Last<'t> {
    /// An operator or the start: a slash begins a pattern.
    Operator,
    /// A value: a slash divides.
    Value,
    /// A closing parenthesis or a doubled sign: a slash may be either.
    Closed,
    /// A name.
    Name(&'t str),
}

/// What a program does.
fn judge(text: &str) -> Verdict {
    let bytes = text.as_bytes();
    let mut at = 0;
    let mut braces = 0_usize;
    let mut parentheses = 0_usize;
    let mut last = Last::Operator;
    let mut shows = false;
    while let Some(&byte) = bytes.get(at) {
        let start = at;
        at += 1;
        match byte {
            b'"' => match quoted(bytes, at) {
                Some(end) => {
                    at = end;
                    last = Last::Value;
                }
                None => return Verdict::MayRun,
            },
            b'/' => match last {
                Last::Value => last = Last::Operator,
                Last::Name(name) if !is_keyword(name) && name != "length" => last = Last::Operator,
                Last::Operator => match pattern_end(&text[at..], '/') {
                    Some(length) => {
                        at += length;
                        last = Last::Value;
                    }
                    None => return Verdict::MayRun,
                },
                // Behind a bare `length` a pattern begins for some, and for others a slash divides.
                Last::Closed | Last::Name(_) => return Verdict::MayRun,
            },
            // Behind `x++` a slash divides for some, and begins a pattern for others.
            b'+' | b'-' if bytes.get(at) == Some(&byte) => {
                at += 1;
                last = Last::Closed;
            }
            b'|' if bytes.get(at) == Some(&b'|') => {
                at += 1;
                last = Last::Operator;
            }
            b'|' | b'@' | b'#' | b'`' | b'\\' => return Verdict::MayRun,
            b'>' => {
                // Behind `print` it writes a file, but never inside parentheses or in a pattern.
                let compares = parentheses > 0 || braces == 0;
                if !compares || bytes.get(at) == Some(&b'>') {
                    return Verdict::NotKnown;
                }
                last = Last::Operator;
            }
            b'{' => braces += 1,
            b'}' => {
                braces = braces.saturating_sub(1);
                last = Last::Operator;
            }
            b'(' => {
                parentheses += 1;
                last = Last::Operator;
            }
            b')' => {
                parentheses = parentheses.saturating_sub(1);
                last = Last::Closed;
            }
            b']' => last = Last::Value,
            b'0'..=b'9' | b'.' => last = Last::Value,
            b' ' | b'\t' => {}
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => {
                while bytes.get(at).is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_') {
                    at += 1;
                }
                let name = &text[start..at];
                if REACHING.contains(&name) {
                    return Verdict::MayRun;
                }
                shows |= SHOWING.contains(&name);
                last = Last::Name(name);
            }
            b'\n' | b';' | b',' | b'$' | b'!' | b'~' | b'=' | b'+' | b'-' | b'*' | b'%' | b'^'
            | b'<' | b'&' | b'?' | b':' | b'[' => last = Last::Operator,
            _ => return Verdict::MayRun,
        }
        if byte == b'{' || byte == b'\n' || byte == b';' {
            last = Last::Operator;
        }
    }
    if shows { Verdict::NotKnown } else { Verdict::Prints }
}

/// Words behind which a value begins.
fn is_keyword(name: &str) -> bool {
    matches!(
        name,
        "print"
            | "printf"
            | "return"
            | "in"
            | "else"
            | "do"
            | "BEGIN"
            | "END"
            | "case"
            | "exit"
            | "delete"
    )
}

/// Where a text in quotes that began here ends, behind its closing quote.
fn quoted(bytes: &[u8], start: usize) -> Option<usize> {
    let mut at = start;
    loop {
        match bytes.get(at)? {
            b'\\' if bytes.get(at + 1) == Some(&b'\n') => return None,
            b'\\' => at += 2,
            b'\n' => return None,
            b'"' => return Some(at + 1),
            _ => at += 1,
        }
    }
}
