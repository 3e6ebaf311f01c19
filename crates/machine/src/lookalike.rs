//! What looks like a key of a well-known service. Such a word is nobody's to show, whatever the place it was found in.

/// How such keys begin.
const STARTS: &[&str] = &[
    "sk-",
    "sk_live_",
    "AIza",
    "gsk_",
    "xai-",
    "ghp_",
    "gho_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "xoxp-",
    "AKIA",
];

/// The shortest word that is taken for a key.
const MIN: usize = 20;

/// The text with `cover` in place of every word that begins like a key, is long, and has a digit: `task-runner` and other
/// words of people do not.
pub fn cover_lookalikes(text: &str, cover: &str) -> String {
    let in_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(start) = rest.find(in_word) {
        let (before, word) = rest.split_at(start);
        let (word, after) = word.split_at(word.find(|c| !in_word(c)).unwrap_or(word.len()));
        out.push_str(before);
        let looks = word.len() >= MIN
            && word.bytes().any(|byte| byte.is_ascii_digit())
            && STARTS.iter().any(|start| word.starts_with(start));
        out.push_str(if looks { cover } else { word });
        rest = after;
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_looks_like_a_key_is_covered() {
        let shown = |text: &str| cover_lookalikes(text, "***");
        assert_eq!(shown("a = \"sk-ant-api03-0123456789abcdef\" # é"), "a = \"***\" # é");
        assert_eq!(shown("ghp_0123456789abcdefghij,AKIA0123456789ABCDEF"), "***,***");
        for plain in ["sk-short-1", "sk-a-name-without-any-number", "task-0123456789abcdefghij", ""]
        {
            assert_eq!(shown(plain), plain);
        }
    }
}
