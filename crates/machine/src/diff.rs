//! Unified diffs: text to hunks, and hunks onto content. Knows no files. The tool that applies a diff and the gate that
//! judges it read it here: what one of them took for another file than the other would pass unseen.
//!
//! Lines keep their ends, so that a missing newline at the end of a file is content like any other.

use std::ops::Range;

/// How far from its stated place a hunk may be found, in lines.
const REACH: usize = 200;

/// What a diff says about one file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FilePatch {
    /// The file before; none if it is created.
    pub old: Option<String>,
    /// The file after; none if it is deleted.
    pub new: Option<String>,
    /// The old file stays, and the new one is a copy of it.
    pub copies: bool,
    /// Whether the file may be executed, where the diff says.
    pub executable: Option<bool>,
    /// The changes, in order.
    pub hunks: Vec<Hunk>,
}

impl FilePatch {
    /// Every name in it.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let new = self.new.as_deref().filter(|new| self.old.as_deref() != Some(new));
        self.old.as_deref().into_iter().chain(new)
    }

    /// The name to speak of.
    pub fn name(&self) -> &str {
        self.new.as_deref().or(self.old.as_deref()).unwrap_or_default()
    }
}

/// One change: the lines before and after, with their ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hunk {
    old_start: usize,
    new_start: usize,
    old: Vec<Vec<u8>>,
    new: Vec<Vec<u8>>,
}

impl Hunk {
    /// The text before and after; what is no text in it is replaced.
    pub fn texts(&self) -> (String, String) {
        let text = |lines: &[Vec<u8>]| String::from_utf8_lossy(&lines.concat()).into_owned();
        (text(&self.old), text(&self.new))
    }
}

/// Reads a diff; the error names the line.
pub fn parse(text: &str) -> Result<Vec<FilePatch>, String> {
    let mut lines = Lines { lines: text.split_inclusive('\n').collect(), at: 0 };
    let mut patches = Vec::new();
    while let Some(line) = lines.peek() {
        if line.starts_with("diff --git ") {
            patches.push(parse_git(&mut lines)?);
        } else if line.starts_with("--- ")
            && lines.peek_after().is_some_and(|l| l.starts_with("+++ "))
        {
            let mut patch = FilePatch::default();
            parse_names(&mut lines, &mut patch, None)?;
            parse_hunks(&mut lines, &mut patch)?;
            patches.push(patch);
        } else if line.starts_with("@@ ") {
            return Err(lines.wrong("a hunk without the names of its file before it"));
        } else {
            // Prose, `index` lines and the like before a file's part.
            lines.at += 1;
        }
    }
    if patches.is_empty() {
        return Err(
            "it names no file; expected lines that begin with \"--- \" and \"+++ \"".to_owned()
        );
    }
    Ok(patches)
}

struct Lines<'a> {
    lines: Vec<&'a str>,
    at: usize,
}

impl<'a> Lines<'a> {
    /// The line without its end.
    fn peek(&self) -> Option<&'a str> {
        self.lines.get(self.at).map(|line| line.trim_end_matches(['\n', '\r']))
    }

    fn peek_after(&self) -> Option<&'a str> {
        self.lines.get(self.at + 1).copied()
    }

    fn wrong(&self, what: &str) -> String {
        format!("line {}: {what}", self.at + 1)
    }
}

/// A part that begins with `diff --git`: may rename, copy, create or delete without any hunk.
fn parse_git(lines: &mut Lines<'_>) -> Result<FilePatch, String> {
    let header = lines.peek().unwrap_or_default();
    let mut patch = FilePatch::default();
    let (mut created, mut deleted) = (false, false);
    // As they are written, from where and to where.
    let mut moved: Option<(&str, &str)> = None;
    lines.at += 1;
    while let Some(line) = lines.peek() {
        let mode = |patch: &mut FilePatch, mode: &str| match mode.trim() {
            "100755" => {
                patch.executable = Some(true);
                Ok(())
            }
            "100644" => {
                patch.executable = Some(false);
                Ok(())
            }
            other => {
                Err(lines.wrong(&format!("mode {other} is not supported: expected a regular file")))
            }
        };
        if let Some(value) = line.strip_prefix("new file mode ") {
            created = true;
            mode(&mut patch, value)?;
        } else if let Some(value) = line.strip_prefix("new mode ") {
            mode(&mut patch, value)?;
        } else if line.starts_with("deleted file mode ") {
            deleted = true;
        } else if let Some(name) =
            line.strip_prefix("rename from ").or(line.strip_prefix("copy from "))
        {
            patch.copies = line.starts_with("copy");
            patch.old = Some(unquoted(name));
            moved = Some((name, ""));
        } else if let Some(name) = line.strip_prefix("rename to ").or(line.strip_prefix("copy to "))
        {
            patch.new = Some(unquoted(name));
            moved = moved.map(|(from, _)| (from, name));
        } else if line.starts_with("--- ") {
            let (at, mut said) = (lines.at, FilePatch::default());
            // Git can be told to write no prefixes, and there are folders called `a` and `b`.
            let bare = match moved {
                Some((from, to)) => (named_in(header) == Some(&format!("{from} {to}")))
                    .then(|| (unquoted(from), unquoted(to))),
                None => bare_name(header).map(|name| (name.clone(), name)),
            };
            parse_names(lines, &mut said, bare)?;
            let named = moved.is_some();
            let own = if named { patch.new.clone() } else { name_in_header(header) };
            let is_own = |own: &str| {
                let name = said.name();
                // Models write the same prefix twice in a header.
                let inner = own.strip_prefix("a/").or(own.strip_prefix("b/"));
                let is_alike = !named && inner == Some(name);
                name == own || name.ends_with(&format!("/{own}")) || is_alike
            };
            if !own.is_none_or(|own| is_own(&own)) {
                // Another file, without a header of its own.
                lines.at = at;
                break;
            }
            if !named {
                (patch.old, patch.new) = (said.old, said.new);
            }
            parse_hunks(lines, &mut patch)?;
            return Ok(patch);
        } else if line.starts_with("Binary files ") || line.starts_with("GIT binary patch") {
            return Err(lines.wrong("a binary change, which is not supported"));
        } else if !(line.starts_with("index ")
            || line.starts_with("old mode ")
            || line.starts_with("similarity index ")
            || line.starts_with("dissimilarity index ")
            || line.is_empty())
        {
            break;
        }
        lines.at += 1;
    }
    if moved.is_none() {
        let name = name_in_header(header)
            .ok_or_else(|| format!("cannot tell the file's name from {header:?}"))?;
        patch.old = (!created).then(|| name.clone());
        patch.new = (!deleted).then_some(name);
    }
    Ok(patch)
}

/// What `diff --git` is followed by.
fn named_in(header: &str) -> Option<&str> {
    header.strip_prefix("diff --git ")
}

/// The name in `diff --git NAME NAME`: prefixes would differ.
fn bare_name(header: &str) -> Option<String> {
    let rest = named_in(header)?;
    let half = rest.len().checked_sub(1)? / 2;
    let (old, new) = (rest.get(..half)?, rest.get(half..)?.strip_prefix(' ')?);
    (old == new).then(|| unquoted(old))
}

/// The name in `diff --git a/NAME b/NAME`, where both are the same.
fn name_in_header(header: &str) -> Option<String> {
    let rest = named_in(header)?;
    if let Some(bare) = bare_name(header) {
        return Some(bare);
    }
    if let Some(quoted) = rest.strip_prefix('"') {
        let end = quoted.find("\" ")? + 2;
        return Some(without_prefix(&unquoted(&rest[..end]), "a/"));
    }
    let half = rest.len().checked_sub(1)? / 2;
    let (old, new) = (rest.get(..half)?, rest.get(half + 1..)?);
    let (old, new) = (without_prefix(old, "a/"), without_prefix(new, "b/"));
    (old == new).then_some(old)
}

/// The lines `--- OLD` and `+++ NEW`. Names that the header has without prefixes have none here either.
fn parse_names(
    lines: &mut Lines<'_>,
    patch: &mut FilePatch,
    bare: Option<(String, String)>,
) -> Result<(), String> {
    let old = lines.peek().and_then(|line| line.strip_prefix("--- ")).unwrap_or_default();
    lines.at += 1;
    let Some(new) = lines.peek().and_then(|line| line.strip_prefix("+++ ")) else {
        return Err(
            lines.wrong("expected a line that begins with \"+++ \" after the one with \"--- \"")
        );
    };
    lines.at += 1;
    let ranges = lines.peek().and_then(parse_ranges);
    let is_empty = |range: StartAndCount| range == (0, 0);
    // `diff -N` has a name and the beginning of time for a file that is not there.
    let no_old = began_then(old) && ranges.is_some_and(|(old, _)| is_empty(old));
    let no_new = began_then(new) && ranges.is_some_and(|(_, new)| is_empty(new));
    let (old, new) = (file_name(old).filter(|_| !no_old), file_name(new).filter(|_| !no_new));
    let are = |is: &dyn Fn(&str) -> bool, name: &Option<String>| name.as_deref().is_none_or(is);
    let is_bare = bare.is_some_and(|(before, after)| {
        are(&|name| name == before, &old) && are(&|name| name == after, &new)
    });
    let prefixed = !is_bare
        && are(&|name| name.starts_with("a/"), &old)
        && are(&|name| name.starts_with("b/"), &new);
    let strip = |name: String, prefix| if prefixed { without_prefix(&name, prefix) } else { name };
    patch.old = old.map(|name| strip(name, "a/"));
    patch.new = new.map(|name| strip(name, "b/"));
    match (&patch.old, &patch.new) {
        (None, None) => return Err(lines.wrong("both names are /dev/null")),
        // Without a rename header the two names mean one file, such as `x.orig` and `x`.
        (Some(_), Some(new)) => patch.old = Some(new.clone()),
        _ => {}
    }
    Ok(())
}

/// A name up to the tab before its time; none for `/dev/null`.
fn file_name(text: &str) -> Option<String> {
    let name = if text.starts_with('"') {
        unquoted(text)
    } else {
        text.split('\t').next().unwrap_or_default().trim_end().to_owned()
    };
    (name != "/dev/null").then_some(name)
}

/// Whether the time behind a name is the beginning of Unix time, in whatever zone.
fn began_then(text: &str) -> bool {
    let mut words = text.rsplit('\t').next().unwrap_or_default().split_whitespace();
    let (Some(date), Some(time), Some(zone)) = (words.next(), words.next(), words.next()) else {
        return false;
    };
    let day = match date {
        "1969-12-31" => -1440,
        "1970-01-01" => 0,
        _ => return false,
    };
    let number = |text: &str| text.parse::<u8>().ok().map(i32::from);
    let minutes = || {
        let (clock, part) = time.split_once('.').unwrap_or((time, ""));
        let (hour, rest) = clock.split_once(':')?;
        let (minute, second) = rest.split_once(':')?;
        let is_whole = number(second)? == 0 && part.bytes().all(|digit| digit == b'0');
        is_whole.then_some(day + number(hour)? * 60 + number(minute)?)
    };
    let behind = || {
        let digits = zone.strip_prefix(['+', '-']).filter(|digits| digits.len() == 4)?;
        let behind = number(digits.get(..2)?)? * 60 + number(digits.get(2..)?)?;
        Some(if zone.starts_with('-') { -behind } else { behind })
    };
    minutes().is_some_and(|minutes| Some(minutes) == behind())
}

fn without_prefix(name: &str, prefix: &str) -> String {
    name.strip_prefix(prefix).unwrap_or(name).to_owned()
}

/// Takes off the quotes and escapes that git puts around unusual names.
fn unquoted(text: &str) -> String {
    let Some(inner) =
        text.strip_prefix('"').and_then(|t| t.rsplit_once('"')).map(|(inner, _)| inner)
    else {
        return text.to_owned();
    };
    let mut bytes = Vec::new();
    let mut rest = inner.bytes().peekable();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        match rest.next() {
            Some(b'n') => bytes.push(b'\n'),
            Some(b't') => bytes.push(b'\t'),
            Some(b'r') => bytes.push(b'\r'),
            Some(digit @ b'0'..=b'7') => {
                let mut value = u32::from(digit - b'0');
                for _ in 0..2 {
                    if let Some(next @ b'0'..=b'7') = rest.peek().copied() {
                        value = value * 8 + u32::from(next - b'0');
                        rest.next();
                    }
                }
                bytes.push(u8::try_from(value).unwrap_or(b'?'));
            }
            Some(other) => bytes.push(other),
            None => {}
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn parse_hunks(lines: &mut Lines<'_>, patch: &mut FilePatch) -> Result<(), String> {
    while let Some(line) = lines.peek() {
        if !line.starts_with("@@ ") {
            break;
        }
        let Some((old, new)) = parse_ranges(line) else {
            return Err(
                lines.wrong("not a hunk header: expected something like \"@@ -1,3 +1,4 @@\"")
            );
        };
        let header = lines.at + 1;
        lines.at += 1;
        let mut hunk =
            Hunk { old_start: old.0, new_start: new.0, old: Vec::new(), new: Vec::new() };
        while hunk.old.len() < old.1 || hunk.new.len() < new.1 {
            let body = lines.lines.get(lines.at).copied().unwrap_or("@");
            // Editors and models drop the space of an empty context line.
            let (sign, content) = match body.as_bytes().first() {
                Some(b'\n') => (b' ', body),
                Some(b'\r') if body == "\r\n" => (b' ', body),
                Some(sign @ (b' ' | b'-' | b'+')) => (*sign, &body[1..]),
                _ => {
                    return Err(format!(
                        "line {}: the hunk of line {header} ends too early: its header promises {} old and {} \
                         new lines, there are {} and {}",
                        lines.at + 1,
                        old.1,
                        new.1,
                        hunk.old.len(),
                        hunk.new.len()
                    ));
                }
            };
            lines.at += 1;
            let mut content = content.as_bytes().to_vec();
            if !content.ends_with(b"\n") {
                content.push(b'\n');
            }
            if lines.peek().is_some_and(|next| next.starts_with('\\')) {
                lines.at += 1;
                content.pop();
            }
            if sign != b'+' {
                hunk.old.push(content.clone());
            }
            if sign != b'-' {
                hunk.new.push(content);
            }
        }
        if hunk.old.len() > old.1 || hunk.new.len() > new.1 {
            return Err(format!(
                "line {}: the hunk of line {header} does not fit its header, which promises {} old and {} new lines",
                lines.at, old.1, new.1
            ));
        }
        patch.hunks.push(hunk);
        if let Some(next) = lines.lines.get(lines.at)
            && next.starts_with(['+', '-', ' '])
            && !next.starts_with("--- ")
            && next.trim_end() != "--"
        {
            return Err(lines.wrong(&format!(
                "the hunk of line {header} has more lines than its header promises ({} old and {} new)",
                old.1, new.1
            )));
        }
    }
    Ok(())
}

type StartAndCount = (usize, usize);

/// The two ranges of `@@ -1,3 +1,4 @@`.
fn parse_ranges(line: &str) -> Option<(StartAndCount, StartAndCount)> {
    let mut words = line.strip_prefix("@@ ")?.split(' ');
    let old = words.next()?.strip_prefix('-')?;
    let new = words.next()?.strip_prefix('+')?;
    if words.next()? != "@@" {
        return None;
    }
    let range = |text: &str| {
        let (start, count) = text.split_once(',').unwrap_or((text, "1"));
        // No file has more lines, and with larger numbers nothing could be counted.
        let number = |text: &str| Some(text.parse::<u32>().ok()? as usize);
        Some((number(start)?, number(count)?))
    };
    Some((range(old)?, range(new)?))
}

/// Where a hunk may be found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Search {
    /// Only where it says, shifted by what the hunks before it added.
    Exact,
    /// Also somewhat before or after.
    Near,
}

/// Whether a file has lines, and each ends in CR LF.
pub fn has_only_crlf(content: &[u8]) -> bool {
    let mut before = 0;
    let mut has_lines = false;
    for byte in content {
        if *byte == b'\n' && before != b'\r' {
            return false;
        }
        has_lines |= *byte == b'\n';
        before = *byte;
    }
    has_lines
}

/// The content after all hunks; the error names the first that does not fit.
pub fn apply(content: &[u8], hunks: &[Hunk], search: Search) -> Result<Vec<u8>, String> {
    let in_crlf = if has_only_crlf(content) { with_crlf(hunks) } else { None };
    let hunks = in_crlf.as_deref().unwrap_or(hunks);
    let lines: Vec<&[u8]> = content.split_inclusive(|byte| *byte == b'\n').collect();
    let mut result = Vec::with_capacity(content.len());
    let mut taken = 0;
    let mut shift: isize = 0;
    for (number, hunk) in hunks.iter().enumerate() {
        // An empty range names the line before it.
        let stated =
            if hunk.old.is_empty() { hunk.old_start } else { hunk.old_start.saturating_sub(1) };
        let expected = stated.saturating_add_signed(shift);
        let Some(range) = find(&lines, &hunk.old, taken, expected, search) else {
            return Err(format!(
                "hunk {} of {} does not apply: expected at line {}: {}",
                number + 1,
                hunks.len(),
                expected + 1,
                mismatch(&lines, &hunk.old, expected)
            ));
        };
        shift += range.start as isize - expected as isize;
        result.extend(lines[taken..range.start].concat());
        result.extend(hunk.new.concat());
        taken = range.end;
    }
    result.extend(lines[taken..].concat());
    // A last line without end can only be last.
    if result.len() > 1 && hunks.iter().any(|hunk| ends_inside(hunk, &result)) {
        return Err("a line without an end would stand in the middle of the file".to_owned());
    }
    Ok(result)
}

/// Whether a hunk adds a line without an end that is not the end of the content.
fn ends_inside(hunk: &Hunk, result: &[u8]) -> bool {
    hunk.new.last().is_some_and(|line| !line.ends_with(b"\n") && !result.ends_with(line))
}

/// The hunks as they are meant in a file whose lines end in CR LF: models write LF. None if they tell the two apart.
fn with_crlf(hunks: &[Hunk]) -> Option<Vec<Hunk>> {
    let mut lines = hunks.iter().flat_map(|hunk| hunk.old.iter().chain(&hunk.new));
    if lines.any(|line| line.contains(&b'\r')) {
        return None;
    }
    let end = |line: &Vec<u8>| match line.strip_suffix(b"\n") {
        Some(line) => [line, b"\r\n"].concat(),
        None => line.clone(),
    };
    let ended = |hunk: &Hunk| Hunk {
        old: hunk.old.iter().map(end).collect(),
        new: hunk.new.iter().map(end).collect(),
        ..*hunk
    };
    Some(hunks.iter().map(ended).collect())
}

/// The hunks that take a diff back.
pub fn reversed(hunks: &[Hunk]) -> Vec<Hunk> {
    let swap = |hunk: &Hunk| Hunk {
        old_start: hunk.new_start,
        new_start: hunk.old_start,
        old: hunk.new.clone(),
        new: hunk.old.clone(),
    };
    hunks.iter().map(swap).collect()
}

fn find(
    lines: &[&[u8]],
    wanted: &[Vec<u8>],
    from: usize,
    expected: usize,
    search: Search,
) -> Option<Range<usize>> {
    let fits = |at: usize| {
        at >= from
            && at + wanted.len() <= lines.len()
            && lines[at..at + wanted.len()].iter().zip(wanted).all(|(line, wanted)| line == wanted)
    };
    let reach = if search == Search::Near && !wanted.is_empty() { REACH } else { 0 };
    (0..=reach)
        .flat_map(|distance| [expected.checked_sub(distance), Some(expected + distance)])
        .flatten()
        .find(|at| fits(*at))
        .map(|at| at..at + wanted.len())
}

/// The first line that differs where a hunk was expected.
fn mismatch(lines: &[&[u8]], wanted: &[Vec<u8>], expected: usize) -> String {
    for (number, wanted) in wanted.iter().enumerate() {
        let found = lines.get(expected + number);
        if found != Some(&wanted.as_slice()) {
            let wanted = String::from_utf8_lossy(wanted);
            return match found {
                None => format!("the file ends before {wanted:?}"),
                Some(found) => {
                    let found = String::from_utf8_lossy(found);
                    format!("line {} should be {wanted:?} and is {found:?}", expected + number + 1)
                }
            };
        }
    }
    "it overlaps the hunk before it".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each file's names before and after, and how many hunks it has.
    fn read(diff: &str) -> Vec<(Option<String>, Option<String>, usize)> {
        let patches = parse(diff).unwrap();
        patches.into_iter().map(|patch| (patch.old, patch.new, patch.hunks.len())).collect()
    }

    fn name(name: &str) -> Option<String> {
        Some(name.to_owned())
    }

    #[test]
    fn folders_that_are_really_called_a_and_b_are_told_from_prefixes_by_the_header() {
        let hunk = "@@ -1 +1 @@\n-x\n+y\n";
        let renamed = |header: &str, from: &str, to: &str| {
            format!(
                "diff --git {header}\nsimilarity index 90%\nrename from a/x\nrename to b/x\nindex 1..2 100644\n\
                 --- {from}\n+++ {to}\n{hunk}"
            )
        };
        let moved = [(name("a/x"), name("b/x"), 1)];
        assert_eq!(read(&renamed("a/x b/x", "a/x", "b/x")), moved, "without prefixes");
        assert_eq!(read(&renamed("a/a/x b/b/x", "a/a/x", "b/b/x")), moved);
        // With prefixes, what follows a file that only moved may be about another one.
        let two = [(name("a/x"), name("b/x"), 0), (name("x"), name("x"), 1)];
        assert_eq!(read(&renamed("a/a/x b/b/x", "a/x", "b/x")), two);
        let gone = "diff --git a/x a/x\ndeleted file mode 100644\n--- a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n";
        assert_eq!(read(gone), [(name("a/x"), None, 1)]);
        let made =
            "diff --git b/x b/x\nnew file mode 100644\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+x\n";
        assert_eq!(read(made), [(None, name("b/x"), 1)]);
        let quoted = "diff --git \"b/\\303\\251\" \"b/\\303\\251\"\nnew file mode 100644\n--- /dev/null\n\
                      +++ \"b/\\303\\251\"\n@@ -0,0 +1 @@\n+x\n";
        assert_eq!(read(quoted), [(None, name("b/é"), 1)]);
        let mode = "diff --git a/x a/x\nold mode 100644\nnew mode 100755\n";
        assert_eq!(read(mode), [(name("a/x"), name("a/x"), 0)]);
        let made = "diff --git a/b/x b/b/x\nnew file mode 100644\n--- /dev/null\n+++ b/b/x\n@@ -0,0 +1 @@\n+x\n";
        assert_eq!(read(made), [(None, name("b/x"), 1)], "with prefixes");
        let other = format!(
            "diff --git b/x b/x\nold mode 100644\nnew mode 100755\n--- a/y\n+++ b/y\n{hunk}"
        );
        let two = [(name("b/x"), name("b/x"), 0), (name("y"), name("y"), 1)];
        assert_eq!(read(&other), two, "another file, whose part has prefixes");
        // Models are not as exact as git.
        for header in ["src/x src/x", "a/src/x a/src/x", "b/src/x b/src/x", "a/src/x b/src/x"] {
            let written = format!("diff --git {header}\n--- a/src/x\n+++ b/src/x\n{hunk}");
            assert_eq!(read(&written), [(name("src/x"), name("src/x"), 1)], "{header}");
        }
    }
}
