//! Words that mix alphabets: a letter that looks like another one is how a name is forged.

use std::collections::BTreeSet;

/// A word whose letters are of more than one alphabet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mixed {
    /// The word.
    pub word: String,
    /// The first letter that is not of the common alphabet, and the name of its own.
    pub odd: (char, &'static str),
}

/// The words of a text that mix alphabets, each once, in the order of the text.
pub fn mixed(text: &str) -> Vec<Mixed> {
    let mut seen = BTreeSet::new();
    let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_ascii());
    words
        .filter_map(|word| {
            let odd = odd_letter(word)?;
            seen.insert(word).then(|| Mixed { word: word.to_owned(), odd })
        })
        .collect()
}

/// The letter that gives a word away: one of another alphabet among Latin ones, or one of a look-alike alphabet, which
/// no language uses.
fn odd_letter(word: &str) -> Option<(char, &'static str)> {
    let scripts = word.chars().filter_map(|c| Some((c, script(c)?)));
    let has_latin = word.chars().any(|c| script(c) == Some("Latin"));
    let odd = |(_, script): &(char, &str)| match *script {
        "Latin" => false,
        "full-width" | "mathematical" | "enclosed" => true,
        _ => has_latin,
    };
    scripts.into_iter().find(odd)
}

/// The alphabet of a letter, as far as it can be mistaken for another one.
fn script(c: char) -> Option<&'static str> {
    Some(match c {
        'a'..='z' | 'A'..='Z' | '\u{c0}'..='\u{24f}' | '\u{1e00}'..='\u{1eff}' => "Latin",
        '\u{250}'..='\u{2af}' | '\u{1d00}'..='\u{1dbf}' => "phonetic",
        '\u{370}'..='\u{3ff}' | '\u{1f00}'..='\u{1fff}' => "Greek",
        '\u{400}'..='\u{52f}' | '\u{1c80}'..='\u{1c8f}' | '\u{2de0}'..='\u{2dff}' => "Cyrillic",
        '\u{531}'..='\u{58f}' => "Armenian",
        '\u{5d0}'..='\u{5ea}' => "Hebrew",
        '\u{620}'..='\u{64a}' => "Arabic",
        '\u{10a0}'..='\u{10ff}' => "Georgian",
        '\u{13a0}'..='\u{13ff}' | '\u{ab70}'..='\u{abbf}' => "Cherokee",
        '\u{1400}'..='\u{167f}' => "Canadian",
        '\u{a4d0}'..='\u{a4ff}' => "Lisu",
        '\u{2c80}'..='\u{2cff}' => "Coptic",
        '\u{2460}'..='\u{24ff}' | '\u{1f130}'..='\u{1f189}' => "enclosed",
        '\u{ff10}'..='\u{ff5a}' => "full-width",
        '\u{2100}'..='\u{214f}' | '\u{1d400}'..='\u{1d7ff}' => "mathematical",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str) -> Vec<(String, &'static str)> {
        mixed(text).into_iter().map(|mixed| (mixed.word, mixed.odd.1)).collect()
    }

    #[test]
    fn a_foreign_letter_inside_a_word_is_found_and_foreign_words_are_not() {
        assert_eq!(check("g\u{456}t push"), [("g\u{456}t".to_owned(), "Cyrillic")]);
        assert_eq!(check("\u{3bf}penssl"), [("\u{3bf}penssl".to_owned(), "Greek")]);
        assert_eq!(check("ｒｍ -rf"), [("ｒｍ".to_owned(), "full-width")]);
        assert_eq!(check("𝗋𝗆 x"), [("𝗋𝗆".to_owned(), "mathematical")]);
        assert!(check("git commit -m 'исправлено' naïve Größe 中文 λ").is_empty());
        assert_eq!(check("а\u{62}а а\u{62}а").len(), 1);
    }
}
