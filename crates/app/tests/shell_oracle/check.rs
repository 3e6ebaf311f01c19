//! Whether a program that started is one that the reading names.

use machine::shell::{Reading, Word};

/// Whether one of the runs is this program with these arguments.
pub(crate) fn is_foreseen(reading: &Reading, argv: &[String]) -> bool {
    reading.runs.iter().any(|run| fits(&run.argv, argv))
}

/// A plain word is itself; any other stands for any number of words.
fn fits(words: &[Word], argv: &[String]) -> bool {
    match (words.split_first(), argv.split_first()) {
        (None, None) => true,
        (None, Some(_)) => false,
        (Some((Word::Plain(text), words)), Some((argument, rest))) => {
            text == argument && fits(words, rest)
        }
        (Some((Word::Plain(_), _)), None) => false,
        (Some((_, others)), _) => (0..=argv.len()).any(|taken| fits(others, &argv[taken..])),
    }
}
