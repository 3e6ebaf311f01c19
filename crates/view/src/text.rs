//! Text from elsewhere, made safe and readable on a terminal.
//!
//! Goals, commands, outputs and notes come from files, models and programs. None of them may move the cursor,
//! hide what they say, or make it read in another order: such characters are shown as escapes.

/// Combining marks in a row that a reader can still tell apart; more are only counted.
const MARKS: usize = 4;

/// A driver in one line, with what else is known of who it is: its agent, its model.
pub fn named(driver: &str, more: [&Option<String>; 2]) -> String {
    let more: Vec<String> = more.into_iter().flatten().map(|word| visible(word)).collect();
    let driver = visible(driver);
    if more.is_empty() { driver } else { format!("{driver} ({})", more.join(", ")) }
}

/// The text in one line: control characters, line breaks included, and invisible ones are shown as escapes.
pub fn visible(text: &str) -> String {
    shown(text, |_, _, _| false)
}

/// The text as [`visible`] shows it, but for invisible characters that are kept, by what stands before and behind them.
fn shown(text: &str, keeps: impl Fn(char, char, Option<char>) -> bool) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut marks = 0;
    let mut before = ' ';
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        let last = std::mem::replace(&mut before, c);
        if is_mark(c) {
            marks += 1;
            if marks <= MARKS {
                shown.push(c);
            }
            continue;
        }
        end_marks(&mut shown, &mut marks);
        match c {
            '\n' => shown.push_str("\\n"),
            '\r' => shown.push_str("\\r"),
            '\t' => shown.push_str("\\t"),
            _ if (c as u32) < 0x20 || c == '\u{7f}' => {
                shown.push_str(&format!("\\x{:02x}", c as u32))
            }
            _ if is_hidden(c) && !keeps(last, c, rest.clone().next()) => {
                shown.push_str(&format!("\\u{{{:x}}}", c as u32))
            }
            _ => shown.push(c),
        }
    }
    end_marks(&mut shown, &mut marks);
    shown
}

/// How many characters of a text [`visible`] shows as escapes, line breaks and tabs apart.
pub fn hidden(text: &str) -> usize {
    let plain = |c: char| matches!(c, '\n' | '\t');
    text.chars().filter(|c| !plain(*c) && (c.is_control() || is_hidden(*c))).count()
}

/// A JSON document in which nothing steers a terminal: such characters stand only inside its strings, where an escape
/// means the same. Of marks in a row, those that nobody could tell apart are escaped too.
pub fn json(document: &str) -> String {
    let hides = |c: char| c == '\u{7f}' || is_hidden(c);
    if document.is_ascii() && !document.contains('\u{7f}') {
        return document.to_owned();
    }
    let mut shown = String::with_capacity(document.len());
    let mut marks = 0;
    for c in document.chars() {
        marks = if is_mark(c) { marks + 1 } else { 0 };
        if hides(c) || marks > MARKS {
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                shown.push_str(&format!("\\u{unit:04x}"));
            }
        } else {
            shown.push(c);
        }
    }
    shown
}

fn end_marks(shown: &mut String, marks: &mut usize) {
    if *marks > MARKS {
        shown.push_str(&format!("\\(and {} more marks)", *marks - MARKS));
    }
    *marks = 0;
}

/// The lines of a text, each as [`visible`] shows it; tabs become spaces and the last break is no line.
pub fn lines(text: &str) -> Vec<String> {
    text.lines().map(|line| visible(&line.replace('\t', "    "))).collect()
}

/// The lines of what somebody says to a person, as [`lines`] has them, but that words and emoji look as they are meant:
/// what joins or parts letters in Persian or Hindi, and what makes a sign an emoji or one emoji of several, stays where it
/// does that. It is for words alone: in a command or a path it would be a difference that nobody sees.
pub fn prose(text: &str) -> Vec<String> {
    text.lines().map(|line| shown(&line.replace('\t', "    "), joins)).collect()
}

/// Whether an invisible character does, between these two, what it is there for. None does so twice in a row.
fn joins(before: char, c: char, behind: Option<char>) -> bool {
    // From Arabic to Sinhala.
    let is_joined = |c: char| matches!(c, '\u{600}'..='\u{dff}');
    let is_emoji = |c: char| matches!(c, '\u{203c}'..='\u{3299}' | '\u{1f000}'..='\u{1faff}');
    match (c, behind) {
        // After a digit only on a key.
        ('\u{fe0f}', Some('\u{20e3}')) => before.is_ascii_digit() || "#*".contains(before),
        ('\u{fe0f}', _) => is_emoji(before) || matches!(before, '\u{a9}' | '\u{ae}'),
        ('\u{200c}' | '\u{200d}', Some(behind)) if is_joined(before) => is_joined(behind),
        ('\u{200d}', Some(behind)) => {
            (is_emoji(before) || before == '\u{fe0f}') && is_emoji(behind)
        }
        _ => false,
    }
}

/// A path as it is seen from a folder: without that folder in front, if it is below it.
pub fn below<'a>(folder: &str, path: &'a str) -> &'a str {
    let inner = path.strip_prefix(folder).and_then(|rest| rest.strip_prefix('/'));
    inner.filter(|_| !folder.is_empty()).unwrap_or(path)
}

/// The text in one line and at most `most` characters, cut at the end.
pub fn short(text: &str, most: usize) -> String {
    let shown = visible(text.trim_end());
    if shown.chars().count() <= most {
        return shown;
    }
    let mut cut: String = shown.chars().take(most.saturating_sub(1)).collect();
    cut.push('…');
    cut
}

/// The text in one line that takes at most `most` columns of a terminal, cut at the end.
pub fn fitting(text: &str, most: usize) -> String {
    let shown = visible(text.trim_end());
    if shown.chars().map(columns).sum::<usize>() <= most {
        return shown;
    }
    let mut left = most.saturating_sub(1);
    let fits = |c: &char| {
        let is_room = columns(*c) <= left;
        left = left.saturating_sub(columns(*c));
        is_room
    };
    let mut cut: String = shown.chars().take_while(fits).collect();
    cut.push('…');
    cut
}

/// How many columns a character takes, or one more: from Hangul on, whatever may be wide counts as wide.
fn columns(c: char) -> usize {
    if c < '\u{1100}' { 1 } else { 2 }
}

/// The last lines of an output, with a note of how many came before.
pub fn tail(text: &str, most: usize) -> Vec<String> {
    let all = lines(text.trim_end());
    let skipped = all.len().saturating_sub(most);
    let mut shown = Vec::new();
    if skipped > 0 {
        shown.push(format!("… {skipped} more {} before", plural(skipped, "line")));
    }
    shown.extend(all.into_iter().skip(skipped));
    shown
}

/// The word, with an s unless there is exactly one.
pub fn plural(count: usize, word: &str) -> String {
    if count == 1 { word.to_owned() } else { format!("{word}s") }
}

/// How many of something, as words.
pub fn counted(count: usize, word: &str) -> String {
    format!("{count} {}", plural(count, word))
}

/// As much of the name of a commit or a checkpoint as tells it from others.
pub fn commit(name: &str) -> &str {
    name.get(..10).unwrap_or(name)
}

/// The text as one word for a shell, quoted where it has to be.
pub fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// Characters that show nothing, or change how their neighbours are shown.
fn is_hidden(c: char) -> bool {
    matches!(c,
        '\u{80}'..='\u{9f}'
        | '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
        | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
        | '\u{fff0}'..='\u{fffb}' | '\u{fffe}' | '\u{ffff}'
        | '\u{e000}'..='\u{f8ff}'
        | '\u{13430}'..='\u{1345f}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}'
        | '\u{f0000}'..='\u{10ffff}')
}

fn is_mark(c: char) -> bool {
    matches!(c,
        '\u{300}'..='\u{34e}' | '\u{350}'..='\u{36f}' | '\u{483}'..='\u{489}'
        | '\u{591}'..='\u{5bd}' | '\u{610}'..='\u{61a}' | '\u{64b}'..='\u{65f}'
        | '\u{e34}'..='\u{e3a}' | '\u{e47}'..='\u{e4e}' | '\u{1ab0}'..='\u{1aff}'
        | '\u{1dc0}'..='\u{1dff}' | '\u{20d0}'..='\u{20ff}' | '\u{fe20}'..='\u{fe2f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_steers_a_terminal_is_shown_as_an_escape() {
        assert_eq!(visible("\u{1b}[2J\u{7}"), r"\x1b[2J\x07");
        assert_eq!(visible("a\rb\nc\td"), r"a\rb\nc\td");
        assert_eq!(visible("\u{9b}2J \u{202e}x\u{200b}"), r"\u{9b}2J \u{202e}x\u{200b}");
        assert_eq!(visible("é e\u{301} 中 🙂"), "é e\u{301} 中 🙂");
    }

    #[test]
    fn words_and_emoji_of_prose_look_as_they_are_meant_and_nothing_else_hides() {
        let said = "⚠\u{fe0f} 1\u{fe0f}\u{20e3} ©\u{fe0f} 👩\u{1f3fd}\u{200d}💻 ❤\u{fe0f}\u{200d}🔥 می\u{200c}خواهم क्\u{200d}ष";
        assert_eq!(prose(said), [said]);
        for (hidden, told) in [
            ("a\u{200d}b", r"a\u{200d}b"),
            ("ab\u{fe0f}", r"ab\u{fe0f}"),
            ("1\u{fe0f}2", r"1\u{fe0f}2"),
            ("⚠\u{fe0f}\u{fe0f}", "⚠\u{fe0f}\\u{fe0f}"),
            ("👩\u{200d}a", r"👩\u{200d}a"),
            ("م\u{200c}\u{200c}م", r"م\u{200c}\u{200c}م"),
            ("\u{200c}\u{202e}⚠\u{e0041}", r"\u{200c}\u{202e}⚠\u{e0041}"),
        ] {
            assert_eq!(prose(hidden), [told]);
        }
        assert_eq!(visible("⚠\u{fe0f}"), r"⚠\u{fe0f}", "a path could differ by it");
    }

    #[test]
    fn a_pile_of_marks_is_counted_instead_of_shown() {
        let shown = visible(&format!("a{}b", "\u{301}".repeat(5000)));
        assert!(shown.ends_with("\\(and 4996 more marks)b"), "{shown}");
    }

    #[test]
    fn json_means_the_same_with_nothing_that_steers_a_terminal() {
        let said = format!("\u{9b}2J\u{202e}\u{7f}\u{e0041}é中🙂a{}", "\u{301}".repeat(9));
        let document = format!("{{\"said\":\"{said}\"}}");
        let shown = json(&document);
        assert!(shown.contains(r"\u009b2J\u202e\u007f\udb40\udc41é中🙂a"), "{shown}");
        assert_eq!(shown.matches(r"\u0301").count(), 5, "{shown}");
        assert_eq!(json("{\"a\":1}"), "{\"a\":1}");
    }

    #[test]
    fn a_line_that_must_fit_is_cut_by_columns() {
        assert_eq!(fitting("abcdef", 6), "abcdef");
        assert_eq!(fitting("abcdefg", 6), "abcde…");
        assert_eq!(fitting("中文字", 6), "中文字");
        assert_eq!(fitting("中文字文", 6), "中文…");
        assert_eq!(fitting("мир и мир", 9), "мир и мир");
        assert_eq!(fitting("中", 0), "…");
    }

    #[test]
    fn a_tail_says_how_much_is_missing() {
        assert_eq!(tail("a\nb\nc\n", 2), ["… 1 more line before", "b", "c"]);
        assert_eq!(tail("a\r\nb", 2), ["a", "b"]);
        assert!(tail("", 2).is_empty());
    }

    #[test]
    fn a_word_is_quoted_for_a_shell_only_where_needed() {
        assert_eq!(quoted("a-b.c/d"), "a-b.c/d");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }
}
