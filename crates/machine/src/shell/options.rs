//! Options of programs as tables: which letters and words there are, and which of them take a value.

use super::Word;

/// The options of one program. What is not in the table is not known, abbreviations included.
#[derive(Debug, Clone, Copy)]
pub(super) struct Options {
    /// Letters without a value.
    pub(super) flags: &'static str,
    /// Letters with a value, in the same word or the next.
    pub(super) values: &'static str,
    /// Letters whose value, if there is one, is in the same word.
    pub(super) attached: &'static str,
    /// Words behind `--` without a value, with blanks between them.
    pub(super) long: &'static str,
    /// Words behind `--` with a value, behind `=` or in the next word.
    pub(super) long_values: &'static str,
    /// Words behind `--` whose value, if there is one, is behind `=`.
    pub(super) long_attached: &'static str,
    /// Whether `-20` is an option.
    pub(super) number: bool,
    /// Whether the first operand ends the options.
    pub(super) ordered: bool,
    /// Options with a value behind which no other word is sorted.
    pub(super) last: &'static [&'static str],
    /// Whether no option of the program, known here or not, does anything but change what it prints.
    pub(super) harmless: bool,
}

impl Options {
    /// A program without options.
    pub(super) const NONE: Options = Options {
        flags: "",
        values: "",
        attached: "",
        long: "",
        long_values: "",
        long_attached: "",
        number: false,
        ordered: false,
        last: &[],
        harmless: false,
    };

    /// Sorts arguments into options and operands.
    pub(super) fn parse(&self, arguments: &[Word]) -> Result<Parsed, String> {
        let mut parsed = Parsed::default();
        let mut index = 0;
        while let Some(word) = arguments.get(index) {
            index += 1;
            let text = match word {
                Word::Plain(text) => text,
                // All names that match begin with the option's own name.
                Word::Pattern(text) if self.names_value(text) => text,
                other if self.harmless || other.is_operand() => {
                    parsed.operands.push(other.clone());
                    if self.ordered {
                        parsed.operands.extend_from_slice(&arguments[index..]);
                        return Ok(parsed);
                    }
                    continue;
                }
                other => return Err(format!("{} could be an option", other.text())),
            };
            if text == "--" {
                parsed.operands.extend_from_slice(&arguments[index..]);
                return Ok(parsed);
            }
            if text == "-" || !text.starts_with('-') {
                parsed.operands.push(word.clone());
                if self.ordered {
                    parsed.operands.extend_from_slice(&arguments[index..]);
                    return Ok(parsed);
                }
                continue;
            }
            index += match text.strip_prefix("--") {
                Some(long) => self.long(long, arguments.get(index), &mut parsed)?,
                None => self.short(&text[1..], arguments.get(index), &mut parsed)?,
            };
            if let (Word::Pattern(_), Some((_, Some(value)))) = (word, parsed.options.last_mut()) {
                *value = Word::Pattern(value.text().to_owned());
            }
            if parsed.options.last().is_some_and(|(name, _)| self.last.contains(&name.as_str())) {
                parsed.operands.extend_from_slice(arguments.get(index..).unwrap_or_default());
                return Ok(parsed);
            }
        }
        Ok(parsed)
    }

    fn names_value(&self, text: &str) -> bool {
        let name = text.strip_prefix("--").and_then(|rest| rest.split_once('='));
        name.is_some_and(|(name, value)| {
            !name.contains(['*', '?', '['])
                && !value.is_empty()
                && (has(self.long_values, name) || has(self.long_attached, name))
        })
    }

    fn long(&self, text: &str, next: Option<&Word>, parsed: &mut Parsed) -> Result<usize, String> {
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(Word::Plain(value.to_owned()))),
            None => (text, None),
        };
        let option = format!("--{name}");
        if has(self.long_attached, name) || (value.is_none() && has(self.long, name)) {
            parsed.options.push((option, value));
            return Ok(0);
        }
        if !has(self.long_values, name) {
            return Err(format!("{option} is not known"));
        }
        match value {
            Some(value) => {
                parsed.options.push((option, Some(value)));
                Ok(0)
            }
            None => self.next_value(option, next, parsed),
        }
    }

    fn next_value(
        &self,
        option: String,
        next: Option<&Word>,
        parsed: &mut Parsed,
    ) -> Result<usize, String> {
        match next {
            Some(value) if self.harmless || value.is_single() => {
                parsed.options.push((option, Some(value.clone())));
                Ok(1)
            }
            Some(value) => {
                Err(format!("the value of {option} may be several words: {}", value.text()))
            }
            None => Err(format!("{option} has no value")),
        }
    }

    fn short(
        &self,
        letters: &str,
        next: Option<&Word>,
        parsed: &mut Parsed,
    ) -> Result<usize, String> {
        if self.number && letters.bytes().all(|byte| byte.is_ascii_digit()) {
            parsed.options.push((format!("-{letters}"), None));
            return Ok(0);
        }
        for (at, letter) in letters.char_indices() {
            let rest = &letters[at + letter.len_utf8()..];
            let option = format!("-{letter}");
            if self.flags.contains(letter) {
                parsed.options.push((option, None));
            } else if self.attached.contains(letter) {
                let value = (!rest.is_empty()).then(|| Word::Plain(rest.to_owned()));
                parsed.options.push((option, value));
                return Ok(0);
            } else if self.values.contains(letter) {
                if rest.is_empty() {
                    return self.next_value(option, next, parsed);
                }
                parsed.options.push((option, Some(Word::Plain(rest.to_owned()))));
                return Ok(0);
            } else {
                return Err(format!("{option} is not known"));
            }
        }
        Ok(0)
    }
}

/// Whether a word is in a list with blanks between its words.
fn has(list: &str, name: &str) -> bool {
    list.split_ascii_whitespace().any(|word| word == name)
}

/// Arguments, sorted.
#[derive(Debug, Default)]
pub(super) struct Parsed {
    /// Each option with its dashes, and its value.
    pub(super) options: Vec<(String, Option<Word>)>,
    /// What is no option.
    pub(super) operands: Vec<Word>,
}

impl Parsed {
    /// Whether one of these options is there.
    pub(super) fn has(&self, names: &[&str]) -> bool {
        self.options.iter().any(|(name, _)| names.contains(&name.as_str()))
    }

    /// The values of these options.
    pub(super) fn values(&self, names: &[&str]) -> Vec<Word> {
        let chosen = self.options.iter().filter(|(name, _)| names.contains(&name.as_str()));
        chosen.filter_map(|(_, value)| value.clone()).collect()
    }
}
