//! Reading takes time in proportion to the length of the text, whatever the text.

use std::time::{Duration, Instant};

use machine::shell::known::look;
use machine::shell::read;

/// Texts that are long in one way each, as a head and a piece that is repeated.
const SHAPES: &[(&str, &str)] = &[
    ("", "a "),
    ("", "a;"),
    ("", "a|"),
    ("a", "aaaa-=-="),
    ("", "env "),
    ("", "x=1 "),
    ("a ", ">b "),
    ("{ a", ";a"),
    ("", "(a)>b;"),
    ("", "$(a)"),
    ("", "`a`"),
    ("a ", "<<E "),
    ("", "a <<E\nx\nE\n"),
    ("a <<E\n", "x\n"),
    ("", "\\\n"),
    ("", "\n"),
    ("#", "x"),
    ("'", "x"),
    ("\"", "$x"),
    ("find . ", "-exec a {} \\; "),
    ("xargs ", "sh -c "),
    ("eval ", "eval "),
    ("", "sh -c 'a' >b;"),
    ("sed '", "s/a/b/;"),
    ("awk '{", "print $1;"),
    ("git rebase ", "-x a "),
    ("test ", "-f a "),
    ("printf '", "%s"),
    ("a ", "{"),
    ("a ", "{,"),
    ("", "\u{202e}"),
    ("((", "("),
    ("", "if a;then "),
    ("", "case a in a)"),
    ("make ", "a "),
    ("", "cd a && cat b | sort -u ; "),
];

/// The texts that take much longer than in proportion, each with its times.
pub(crate) fn too_slow() -> Vec<String> {
    let mut slow = Vec::new();
    let tell = std::env::var_os("DRIVETRAIN_ORACLE_TIMES").is_some();
    let largest = if tell { 1 << 20 } else { 1 << 16 };
    for (head, piece) in SHAPES {
        let time = |size: usize| {
            let text = format!("{head}{}", piece.repeat(size / piece.len()));
            let once = || {
                let start = Instant::now();
                read(&text).runs.iter().for_each(|run| drop(look(run)));
                start.elapsed()
            };
            once().min(once())
        };
        let (short, long) = (time(largest / 16), time(largest));
        // Sixteen times as long; the rest is for a machine that has other things to do.
        let shown = format!(
            "{head:?} and many {piece:?}: {short:?} for {} KiB, {long:?} for sixteen times that",
            largest >> 14
        );
        if tell {
            println!("{shown}");
        }
        if long > short * 16 * 4 + Duration::from_millis(300) {
            slow.push(shown);
        }
    }
    slow
}
