//! Command lines to try: from a grammar, from the corpus with changes, and from loose pieces.

use serde_json::Value;

const HOSTILE: &str = include_str!("../../../../corpus/shell.jsonl");
const ORDINARY: &str = include_str!("../../../../corpus/shell-benign.jsonl");

/// Programs inside the sandbox. Those that the shells carry out themselves are there for the wrappers.
pub(crate) fn programs() -> Vec<&'static str> {
    let others = [
        "sh", "bash", "dash", "awk", "env", "find", "ionice", "nice", "nohup", "sed", "setsid",
        "stdbuf", "taskset", "time", "timeout", "xargs", "canary", "echo", "printf", "test",
        "true", "false", "[", "sudo", "tar", "python3", "perl", "node", "rsync", "ssh", "tee",
        "mkdir", "head", "tail", "wc", "less", "touc", "h", "if", "then", "do", "done", "fi",
        "case", "esac", "for", "while", "function", "select", "coproc", "in", "{", "}", "!", "[[",
        "command", "builtin", "eval", "exec", "cd", "pwd", "a", "b", "x", "y", "e", "E", "EOF",
        "1", "2", "uniq", "date",
    ];
    PLAIN
        .iter()
        .copied()
        .chain(others)
        .collect::<std::collections::BTreeSet<_>>()
        .into_iter()
        .collect()
}

/// Programs that a generated command names.
const PLAIN: &[&str] =
    &["touch", "ls", "cat", "grep", "rm", "cp", "git", "cargo", "make", "sort", "id", "mv"];

/// Whether a line can be trusted to end, and to leave the others of its batch alone.
pub(crate) fn ends(line: &str) -> bool {
    let endless =
        ["kill", "while", "until", "wait", "ulimit", "/dev/", "/log", "/proc", "suspend", "logout"];
    !endless.iter().any(|word| line.contains(word))
        || line.contains("while ls")
        || line.contains("until cat")
}

/// Makes lines; the same seed makes the same ones.
pub(crate) struct Generator {
    state: u64,
    corpus: Vec<String>,
}

impl Generator {
    pub(crate) fn new(seed: u64) -> Generator {
        let cases = HOSTILE
            .lines()
            .chain(ORDINARY.lines())
            .map(|line| serde_json::from_str::<Value>(line).unwrap());
        let texts = cases.filter_map(|case| case["in"].as_str().map(str::to_owned));
        let corpus = texts
            .map(|text| text.replace("{{CANARY}}", "canary").replace("{{", "").replace("}}", ""))
            .collect();
        Generator { state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1, corpus }
    }

    fn next(&mut self) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    fn one<'c>(&mut self, choices: &[&'c str]) -> &'c str {
        choices[self.below(choices.len())]
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn line(&mut self) -> String {
        match self.below(10) {
            0..=4 => {
                let line = self.list(3);
                if self.chance(30) { self.mutated(line) } else { line }
            }
            5..=7 => {
                let at = self.below(self.corpus.len());
                let line = self.corpus[at].clone();
                let line = self.exchanged(&line);
                self.mutated(line)
            }
            _ => self.soup(),
        }
    }

    /// A list of commands.
    fn list(&mut self, depth: usize) -> String {
        let mut line = self.pipeline(depth);
        while self.chance(35) {
            let joint = self.one(&[
                " && ", " || ", "; ", "\n", " & ", ";", "&&", "||\n", " |\n", " # c\n", "&",
            ]);
            line = format!("{line}{joint}{}", self.pipeline(depth));
        }
        line
    }

    fn pipeline(&mut self, depth: usize) -> String {
        let mut line = self.command(depth);
        if self.chance(8) {
            line = format!("! {line}");
        }
        while self.chance(20) {
            let pipe = self.one(&[" | ", "|", " |& "]);
            line = format!("{line}{pipe}{}", self.command(depth));
        }
        line
    }

    fn command(&mut self, depth: usize) -> String {
        if depth == 0 {
            return self.simple(0);
        }
        let inner = depth - 1;
        let line = match self.below(24) {
            0 => format!("({})", self.list(inner)),
            1 => format!("{{ {}; }}", self.list(inner)),
            2 => format!(
                "if {}; then {}; else {}; fi",
                self.list(inner),
                self.list(inner),
                self.list(inner)
            ),
            3 => format!("while ls; do {}; done", self.list(inner)),
            4 => format!(
                "for x in {} {}; do {}; done",
                self.word(inner),
                self.word(inner),
                self.list(inner)
            ),
            5 => {
                let pattern = self.one(&["a", "*", "a|b", "'a'", "(a"]);
                format!("case {} in {pattern}) {};; esac", self.word(inner), self.list(inner))
            }
            6 => return self.here_document(inner),
            7 => format!("until cat; do {}; done", self.list(inner)),
            8 => return self.wrapped(inner),
            9 => format!("time {}", self.simple(inner)),
            _ => return self.simple(depth),
        };
        if self.chance(20) { format!("{line} {}", self.redirect(inner)) } else { line }
    }

    fn here_document(&mut self, depth: usize) -> String {
        let mark = self.one(&["E", "'E'", "\"E\"", "\\E", "-E"]);
        let tab = if mark == "-E" { "\t" } else { "" };
        let mut body = String::new();
        for _ in 0..self.below(3) {
            body.push_str(tab);
            body.push_str(&self.word(depth));
            body.push('\n');
        }
        let behind = if self.chance(30) { format!(" | {}", self.simple(0)) } else { String::new() };
        let after = if self.chance(40) { self.simple(0) } else { String::new() };
        format!("{} <<{mark}{behind}\n{body}{tab}E\n{after}", self.one(PLAIN))
    }

    /// A command inside a wrapper.
    fn wrapped(&mut self, depth: usize) -> String {
        let inner = self.simple(depth);
        let text = self.list(depth.min(1)).replace('\'', "");
        match self.below(24) {
            0 => format!("env {inner}"),
            1 => format!("env LANG=C {inner}"),
            2 => format!("nice -n 5 {inner}"),
            3 => format!("timeout 5 {inner}"),
            4 => format!("xargs {inner}"),
            5 => format!("echo a b | xargs -I% {inner} %"),
            6 => format!("sh -c '{text}'"),
            7 => format!("bash -c '{text}' a b"),
            8 => format!("eval '{text}'"),
            9 => format!("find . -maxdepth 1 -exec {inner} {{}} \\;"),
            10 => format!("find src -name '*.rs' -exec {inner} {{}} +"),
            11 => format!("command {inner}"),
            12 => format!("env -S '{}'", inner.replace(['\'', '\n'], "")),
            13 => {
                let script = self.one(&[
                    "1p",
                    "s/a/touch x/e",
                    "s/one/touch z/",
                    "1e touch x",
                    "p;e",
                    "/one/d",
                    "s|o|p|gp",
                    "$!d",
                    "w q",
                    "1!G;h;$!d",
                    "s/[/]/x/",
                    "y/abc/def/",
                ]);
                format!("sed -n '{script}' a.txt")
            }
            14 => {
                let script = self.one(&[
                    "{print $1}",
                    "BEGIN{system(\"touch x\")}",
                    "/a|b/{print}",
                    "{print > \"q\"}",
                    "$1 > 1",
                    "{\"touch x\" | getline}",
                    "{print | \"touch x\"}",
                    "NR==1{print $1/2}",
                    "{if ($1 > 2) print \"a\"}",
                ]);
                format!("awk '{script}' a.txt")
            }
            15 => format!("eval \"{}\"", text.replace(['"', '\\'], "")),
            16 => format!("sh -c \"{}\"", text.replace(['"', '\\'], "")),
            17 => format!("env -i nice {inner}"),
            18 => format!("find . -maxdepth 0 -name a -o -exec sh -c '{text}' {{}} \\;"),
            19 => format!("echo a | xargs -n1 sh -c '{text}'"),
            20 => format!("taskset 1 ionice -c 3 {inner}"),
            21 => format!("time -p {inner}"),
            22 => format!("cat $(cat <<E\n$({inner})\nE\n)"),
            _ => format!("nohup stdbuf -oL setsid {inner}"),
        }
    }

    fn simple(&mut self, depth: usize) -> String {
        let mut parts = Vec::new();
        if self.chance(10) {
            parts.push(
                self.one(&["LANG=C", "x=1", "TZ=UTC", "x=$(id)", "A=1", "CI='1'", "x+=1", "IFS=,"])
                    .to_owned(),
            );
        }
        if self.chance(8) {
            parts.push(self.redirect(depth));
        }
        parts.push(self.program());
        for _ in 0..self.below(4) {
            parts.push(self.word(depth));
            if self.chance(10) {
                parts.push(self.redirect(depth));
            }
        }
        let blank = self.one(&[" ", " ", " ", "  ", "\t", " \\\n"]);
        parts.join(blank)
    }

    /// A program's name, in one of its spellings.
    fn program(&mut self) -> String {
        let name = self.one(PLAIN);
        match self.below(16) {
            0 => self.quoted(name),
            1 => format!("/bin/{name}"),
            2 => format!("/usr/bin/{name}"),
            3 => "./x.sh".to_owned(),
            4 => self
                .one(&[
                    "echo",
                    "printf",
                    ":",
                    "true",
                    "test",
                    "[ a = a ]",
                    "cd",
                    "read x",
                    "set -e;",
                    "export LANG=C;",
                    "shift",
                    "unset x",
                    "command",
                ])
                .to_owned(),
            _ => name.to_owned(),
        }
    }

    /// The same text in other quotes.
    fn quoted(&mut self, text: &str) -> String {
        let cut = self.below(text.len());
        let (left, right) = match text.is_char_boundary(cut) {
            true => text.split_at(cut),
            false => (text, ""),
        };
        match self.below(8) {
            0 => format!("'{text}'"),
            1 => format!("\"{text}\""),
            2 => format!("{left}''{right}"),
            3 => format!("{left}\"{right}\""),
            4 => format!("{left}\\{right}"),
            5 => format!("$'{text}'"),
            6 => format!("{left}\\\n{right}"),
            _ => format!("\"{left}\"'{right}'"),
        }
    }

    fn word(&mut self, depth: usize) -> String {
        let inner = depth.saturating_sub(1);
        let deep = depth > 0;
        match self.below(34) {
            0 if deep => format!("$({})", self.list(inner)),
            1 if deep => format!("\"$({})\"", self.list(inner)),
            2 if deep => format!("`{}`", self.simple(0)),
            3 if deep => format!("${{x:-{}}}", self.word(inner)),
            4 if deep => format!("\"${{x:-{}}}\"", self.word(inner)),
            5 if deep => format!("\"a`{}`b\"", self.simple(0)),
            6 => "$x".to_owned(),
            7 => "\"$x\"".to_owned(),
            8 => "*.txt".to_owned(),
            9 => "'*'".to_owned(),
            10 => "{a,b}".to_owned(),
            11 => "~/x".to_owned(),
            12 => "$((1+2))".to_owned(),
            13 => "${x#a}".to_owned(),
            14 => "\\;".to_owned(),
            15 => "'a b; touch q'".to_owned(),
            16 => "\"a \\\" $ b\"".to_owned(),
            17 => "#x".to_owned(),
            18 => "a#x".to_owned(),
            19 => "-n".to_owned(),
            20 => "--".to_owned(),
            21 => "a=b".to_owned(),
            22 => self
                .one(&[
                    "if",
                    "then",
                    "do",
                    "}",
                    "{",
                    "!",
                    "in",
                    "esac",
                    "time",
                    "[[",
                    "$",
                    "$,",
                    "a$",
                    "%",
                    "@",
                    "^",
                    "x=~/y",
                    "a:~",
                    "é",
                    "{}",
                    "{x}",
                    "{1..3}",
                    "HEAD@{1}",
                    "[a",
                    "a]",
                    "[!a]*",
                    "?",
                    "$?",
                    "$$",
                    "$1",
                    "\"$@\"",
                    "$'a'",
                    "$\"a\"",
                    "$((x))",
                    "$[1]",
                    "${x}",
                    "${#x}",
                    "${x/a/b}",
                    "${x=1}",
                    "${!x}",
                    "+(a)",
                    "a\\\nb",
                    "\"a\\\nb\"",
                    "'a\nb'",
                    "\"a\nb\"",
                    "~root",
                    "'",
                    "\"",
                ])
                .to_owned(),
            23 => {
                let text = self.one(PLAIN);
                self.quoted(text)
            }
            _ => {
                self.one(&["a", "b.txt", "src/m.rs", "-l", "--all", "x1", "touch", "1"]).to_owned()
            }
        }
    }

    fn redirect(&mut self, depth: usize) -> String {
        let operator = self.one(&[">", ">>", "<", "2>", ">|", "<>", "2>>", "> ", "< "]);
        match self.below(12) {
            0 => "2>&1".to_owned(),
            1 => ">&2".to_owned(),
            2 => "2>&-".to_owned(),
            3 => format!("&>{}", self.one(&["q", "a.txt"])),
            4 => format!("<<< {}", self.word(depth.saturating_sub(1))),
            5 => format!(">&{}", self.one(&["q", "-", "1-", "2"])),
            6 => format!("{operator}{}", self.word(depth.saturating_sub(1))),
            7 => format!("<({})", self.simple(0)),
            8 => format!("{}>q", self.one(&["10", "{fd}", "1", "a"])),
            _ => format!("{operator}{}", self.one(&["q", "a.txt", "'q r'"])),
        }
    }

    /// A line of the corpus with another program or other quotes.
    fn exchanged(&mut self, line: &str) -> String {
        let words: Vec<&str> = line.split(' ').collect();
        let mut changed = Vec::new();
        for word in words {
            let word = match word {
                "touch" | "ls" | "echo" | "cat" if self.chance(60) => self.program(),
                plain
                    if !plain.is_empty()
                        && plain.bytes().all(|byte| byte.is_ascii_alphanumeric())
                        && self.chance(15) =>
                {
                    self.quoted(plain)
                }
                other => other.to_owned(),
            };
            changed.push(word);
        }
        changed.join(" ")
    }

    /// A line with a few characters removed, doubled, inserted or moved.
    fn mutated(&mut self, line: String) -> String {
        if line.contains("while") || line.contains("until") {
            // Changed, a loop might not end.
            return line;
        }
        let mut characters: Vec<char> = line.chars().collect();
        for _ in 0..self.below(3) {
            if characters.is_empty() {
                break;
            }
            let at = self.below(characters.len());
            match self.below(5) {
                0 => {
                    characters.remove(at);
                }
                1 => characters.insert(at, characters[at]),
                2 | 3 => {
                    let piece = self.one(PIECES);
                    characters.splice(at..at, piece.chars());
                }
                _ => {
                    let other = self.below(characters.len());
                    characters.swap(at, other);
                }
            }
        }
        characters.into_iter().collect()
    }

    /// Loose pieces, one behind the other.
    fn soup(&mut self) -> String {
        let mut line = self.program();
        for _ in 0..1 + self.below(9) {
            if self.chance(60) {
                line.push(' ');
            }
            match self.chance(50) {
                true => line.push_str(self.one(PIECES)),
                false => line.push_str(&self.word(1)),
            }
        }
        line
    }
}

/// Pieces that mean something to a shell.
const PIECES: &[&str] = &[
    ";", "&", "|", "&&", "||", "(", ")", "{", "}", "<", ">", ">>", "<<", "<<E", "\nE\n", "\n", "'",
    "\"", "\\", "$", "$(", "${", "`", "#", "!", "*", "?", "[", "]", "=", "~", ";;", "touch", "ls",
    "id", "if", "then", "fi", "do", "done", "in", "case", "esac", "for x", "\\\n", "\t", " ", "2>",
    "<&", ">&", "&>", "|&", "<<<", "<(", "$((", "))", "((", "a", "x=", "{a,b}", "''", "\"\"",
    "eval", "command", "time", "coproc", "function", "()", "select", "<<-E", "\tE\n", "env", "-",
    "--", "1", "$x", "\"$x\"", "xargs", "'E'", ":", ",", "..", "%", "@", "+", "^", "}}", "${x",
    ":-", "-c", "sh",
];
