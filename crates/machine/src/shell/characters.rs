//! Characters that make what a person sees differ from what the shell reads.

use super::Reading;

/// Doubts every control and format character of the text.
pub(super) fn check(text: &str, reading: &mut Reading) {
    let mut seen = Vec::new();
    for character in text.chars().filter(|&character| is_deceptive(character)) {
        if !seen.contains(&character) && seen.len() < 8 {
            seen.push(character);
        }
    }
    for character in seen {
        let shown = format!("U+{:04X}", u32::from(character));
        reading.doubt(&shown, "a control or format character: what is shown is not what is read");
    }
}

/// Whether a character is invisible, moves the text, or looks like a blank without being one.
fn is_deceptive(character: char) -> bool {
    match character {
        '\t' | '\n' => false,
        '\0'..='\u{1f}' | '\u{7f}'..='\u{a0}' | '\u{ad}' => true,
        '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{1680}' | '\u{17b4}' | '\u{17b5}' => {
            true
        }
        '\u{180b}'..='\u{180f}' | '\u{2000}'..='\u{200f}' | '\u{2028}'..='\u{202f}' => true,
        '\u{205f}'..='\u{206f}'
        | '\u{2800}'
        | '\u{3000}'
        | '\u{3164}'
        | '\u{fe00}'..='\u{fe0f}' => true,
        '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffd}' | '\u{1bca0}'..='\u{1bca3}' => true,
        '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}' => true,
        other => is_private(other),
    }
}

/// Whether a character has no meaning that everyone shares.
fn is_private(character: char) -> bool {
    matches!(character, '\u{e000}'..='\u{f8ff}' | '\u{f0000}'..='\u{10ffff}')
}
