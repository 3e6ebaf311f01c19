//! How many tests ran, by what common test runners print. Tests that were skipped, ignored or expected to fail do not
//! count: they cannot fail any more.
//!
//! An output can hold the numbers of several runners; they add up. One that nobody here understands counts as nothing
//! known, which is not the same as no tests.

/// How many tests an output tells of, and whose words these were.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counted {
    /// The tests that ran and could have failed.
    pub tests: u64,
    /// Who printed it.
    pub by: Vec<&'static str>,
}

/// What can be done about an output that is not understood.
pub const HINT: &str = "expected the output of cargo test, cargo nextest, pytest, jest, vitest, mocha, node --test, TAP, \
     go test -v, unittest or ctest, or a list with one test a line";

/// What one test runner prints, line by line; nothing if it is not its output.
type Reader = fn(&[&str]) -> Option<u64>;

/// Counts the tests that an output tells of; nothing if it is not understood.
pub fn count(output: &str) -> Option<Counted> {
    let text = plain(output);
    let lines: Vec<&str> = text.lines().collect();
    let mut counted = Counted { tests: 0, by: Vec::new() };
    let readers: [(&'static str, Reader); 10] = [
        ("cargo test", cargo),
        ("cargo nextest", nextest),
        ("pytest", pytest),
        ("jest", jest),
        ("vitest", vitest),
        ("mocha", mocha),
        ("node --test", node),
        ("TAP", tap),
        ("go test", go),
        ("unittest", unittest),
    ];
    for (by, read) in readers {
        if let Some(tests) = read(&lines) {
            counted.tests = counted.tests.saturating_add(tests);
            counted.by.push(by);
        }
    }
    if let Some(tests) = ctest(&lines) {
        counted.tests = counted.tests.saturating_add(tests);
        counted.by.push("ctest");
    }
    if counted.by.is_empty() {
        counted.tests = listed(&lines)?;
        counted.by.push("a list");
    }
    Some(counted)
}

/// Whether there are at least as many tests as before, and what a person or a worker is told.
pub fn compare(before: &str, after: &str) -> super::touched::Finding {
    let (base, result) = (count(before), count(after));
    let (passed, evidence) = match (base, result) {
        (Some(base), Some(result)) => {
            let by = result.by.join(", ");
            let told = format!("{} tests on the base, {} now (by {by})", base.tests, result.tests);
            match result.tests >= base.tests {
                true => (true, told),
                false => (
                    false,
                    format!("there are fewer tests than before: {told}; skipped ones do not count"),
                ),
            }
        }
        (None, _) => (false, format!("the output on the base is not understood; {HINT}")),
        (Some(_), None) => {
            (false, format!("the output on what was handed over is not understood; {HINT}"))
        }
    };
    super::touched::Finding { passed, evidence }
}

/// Without colours, and with line ends of one kind.
fn plain(output: &str) -> String {
    let mut text = String::with_capacity(output.len());
    let mut chars = output.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\u{1b}' if chars.peek() == Some(&'[') => {
                chars.next();
                // Parameters, up to the letter that ends the sequence.
                for c in chars.by_ref() {
                    if ('\u{40}'..='\u{7e}').contains(&c) {
                        break;
                    }
                }
            }
            '\r' => {}
            c => text.push(c),
        }
    }
    text
}

/// The number in front of a word, as in `3 passed, 1 skipped`.
fn before(text: &str, word: &str) -> Option<u64> {
    let words: Vec<&str> = text
        .split(|c: char| c.is_whitespace() || matches!(c, ',' | ';' | '|' | '(' | ')' | '='))
        .filter(|word| !word.is_empty())
        .collect();
    words.windows(2).find(|pair| pair[1] == word).and_then(|pair| pair[0].parse().ok())
}

/// The sum of what several lines tell; nothing if none tells anything.
fn sum(lines: &[&str], read: impl Fn(&str) -> Option<u64>) -> Option<u64> {
    let mut found = lines.iter().filter_map(|line| read(line)).peekable();
    found.peek()?;
    Some(found.fold(0, u64::saturating_add))
}

/// `test result: ok. 3 passed; 0 failed; 1 ignored; …`, once for each binary.
fn cargo(lines: &[&str]) -> Option<u64> {
    sum(lines, |line| {
        let rest = line.trim_start().strip_prefix("test result: ")?;
        Some(before(rest, "passed")?.saturating_add(before(rest, "failed")?))
    })
}

/// `Summary [ 0.1s] 3 tests run: 2 passed, 1 failed, 1 skipped`.
fn nextest(lines: &[&str]) -> Option<u64> {
    sum(lines, |line| {
        let line = line.trim_start();
        let (head, _) = line.strip_prefix("Summary [")?.split_once(" run:")?;
        let words: Vec<&str> = head.split_whitespace().collect();
        // `3 tests`, or `3/5 tests` where it ended early.
        let [.., number, "test" | "tests"] = words[..] else { return None };
        number.split('/').next()?.parse().ok()
    })
}

/// `=== 3 passed, 1 skipped in 0.12s ===`, the same without the frame, or `3 tests collected in 0.01s`.
fn pytest(lines: &[&str]) -> Option<u64> {
    sum(lines, |line| {
        let line = line.trim_matches(|c: char| c == '=' || c.is_whitespace());
        let (told, time) = line.rsplit_once(" in ")?;
        if !time.starts_with(|c: char| c.is_ascii_digit()) || !time.contains('s') {
            return None;
        }
        if told == "no tests ran" || told == "no tests collected" {
            return Some(0);
        }
        if let Some(head) = told
            .split(" (")
            .next()?
            .strip_suffix(" tests collected")
            .or(told.strip_suffix(" test collected"))
        {
            return head.split('/').next()?.parse().ok();
        }
        let known =
            ["passed", "failed", "skipped", "xfailed", "xpassed", "error", "errors", "deselected"];
        let first = known.iter().any(|word| before(told, word).is_some());
        let parts = told.split(", ").all(|part| {
            let mut words = part.split_whitespace();
            words.next().is_some_and(|number| number.parse::<u64>().is_ok())
                && words.next().is_some()
        });
        (first && parts).then(|| {
            before(told, "passed").unwrap_or(0).saturating_add(before(told, "failed").unwrap_or(0))
        })
    })
}

/// `Tests:       1 failed, 2 skipped, 10 passed, 13 total`.
fn jest(lines: &[&str]) -> Option<u64> {
    sum(lines, |line| {
        let rest = line.trim_start().strip_prefix("Tests:")?;
        before(rest, "total")?;
        Some(
            before(rest, "passed").unwrap_or(0).saturating_add(before(rest, "failed").unwrap_or(0)),
        )
    })
}

/// `Tests  1 failed | 10 passed | 2 skipped (13)`.
fn vitest(lines: &[&str]) -> Option<u64> {
    sum(lines, |line| {
        let rest = line.trim_start().strip_prefix("Tests ")?.trim();
        let total = rest.strip_suffix(')')?.rsplit_once('(')?.1;
        total.parse::<u64>().ok()?;
        Some(
            before(rest, "passed").unwrap_or(0).saturating_add(before(rest, "failed").unwrap_or(0)),
        )
    })
}

/// `12 passing (30ms)` and `2 failing`; pending ones are skipped.
fn mocha(lines: &[&str]) -> Option<u64> {
    sum(lines, |line| {
        let mut words = line.split_whitespace();
        let number = words.next()?.parse().ok()?;
        let told = words.next()?;
        let rest: Vec<&str> = words.collect();
        match (told, &rest[..]) {
            ("passing", []) | ("failing", []) => Some(number),
            ("passing", [time]) if time.starts_with('(') && time.ends_with(')') => Some(number),
            _ => None,
        }
    })
}

/// `ℹ pass 3` and `ℹ fail 1`.
fn node(lines: &[&str]) -> Option<u64> {
    sum(lines, |line| {
        let rest = line.strip_prefix("ℹ ")?;
        let number = rest.strip_prefix("pass ").or_else(|| rest.strip_prefix("fail "))?;
        number.trim().parse().ok()
    })
}

/// `ok 1 - name` and `not ok 2 - name`, without those that are skipped or to be done.
fn tap(lines: &[&str]) -> Option<u64> {
    let is_tap = lines.iter().any(|line| {
        line.starts_with("TAP version")
            || line.split_once("..").is_some_and(|(first, last)| {
                first == "1"
                    && last.split_whitespace().next().is_some_and(|n| n.parse::<u64>().is_ok())
            })
    });
    if !is_tap {
        return None;
    }
    let counts = |line: &&&str| {
        let line = line.trim_start();
        let Some(rest) = line.strip_prefix("ok").or_else(|| line.strip_prefix("not ok")) else {
            return false;
        };
        if !(rest.is_empty() || rest.starts_with(' ')) {
            return false;
        }
        let directive = rest.rsplit_once('#').map(|(_, word)| word.trim().to_lowercase());
        !directive.is_some_and(|word| word.starts_with("skip") || word.starts_with("todo"))
    };
    Some(lines.iter().filter(counts).count() as u64)
}

/// `--- PASS: TestA (0.00s)` and `--- FAIL: …`, subtests too.
fn go(lines: &[&str]) -> Option<u64> {
    let is_verbose = lines.iter().any(|line| {
        let line = line.trim_start();
        line.starts_with("=== RUN ")
            || ["PASS", "FAIL", "SKIP"]
                .iter()
                .any(|word| line.starts_with(&format!("--- {word}: ")))
    });
    is_verbose.then(|| {
        let ran = lines.iter().filter(|line| {
            let line = line.trim_start();
            line.starts_with("--- PASS: ") || line.starts_with("--- FAIL: ")
        });
        ran.count() as u64
    })
}

/// `Ran 12 tests in 0.001s`, then `OK (skipped=2)` or `FAILED (failures=1, expected failures=1)`.
fn unittest(lines: &[&str]) -> Option<u64> {
    let mut ran = None;
    let mut left_out = 0u64;
    for line in lines {
        if let Some(rest) = line.strip_prefix("Ran ")
            && let Some((number, rest)) = rest.split_once(' ')
            && (rest.starts_with("test in ") || rest.starts_with("tests in "))
            && let Ok(number) = number.parse::<u64>()
        {
            ran = Some(ran.unwrap_or(0u64).saturating_add(number));
        } else if ran.is_some()
            && let Some(told) = line.strip_prefix("OK (").or_else(|| line.strip_prefix("FAILED ("))
        {
            for part in told.trim_end_matches(')').split(", ") {
                let (name, number) = part.split_once('=').unwrap_or((part, "0"));
                if matches!(name, "skipped" | "expected failures" | "unexpected successes") {
                    left_out = left_out.saturating_add(number.parse().unwrap_or(0));
                }
            }
        }
    }
    ran.map(|ran| ran.saturating_sub(left_out))
}

/// `100% tests passed, 0 tests failed out of 12`, without those that did not run.
fn ctest(lines: &[&str]) -> Option<u64> {
    let total = sum(lines, |line| {
        let (head, total) = line.trim().rsplit_once(" tests failed out of ")?;
        head.contains("% tests passed").then_some(())?;
        total.parse().ok()
    })?;
    let skipped = |line: &&&str| line.contains("***Skipped") || line.contains("***Not Run");
    Some(total.saturating_sub(lines.iter().filter(skipped).count() as u64))
}

/// One test a line: names without spaces, or what `--list` prints, `name: test`.
fn listed(lines: &[&str]) -> Option<u64> {
    let mut tests = 0;
    for line in lines.iter().map(|line| line.trim()).filter(|line| !line.is_empty()) {
        if line.ends_with(": test") {
            tests += 1;
            continue;
        }
        let is_sum = line.contains(" tests, ") && line.ends_with("benchmarks");
        if is_sum || line.ends_with(": benchmark") {
            continue;
        }
        if line.contains(char::is_whitespace) {
            return None;
        }
        tests += 1;
    }
    (tests > 0).then_some(tests)
}

#[cfg(test)]
mod tests;
