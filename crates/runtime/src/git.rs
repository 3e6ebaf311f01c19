//! The git binary, hardened: a repository may be hostile, so git runs without hooks, watchers, signing, transports or
//! anyone's settings.

pub(crate) mod attributes;
pub(crate) mod objects;
pub(crate) mod reading;
pub(crate) mod who;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use crate::process::{Cancel, Containment, ProcessSpec, Streams, run};

/// How long one git command may take.
const TIMEOUT: Duration = Duration::from_secs(600);

/// How git is called.
#[derive(Debug, Clone, Default)]
pub(crate) struct Git {
    /// Settings beside the hardened ones, `name=value`.
    pub(crate) settings: Vec<String>,
    /// Variables beside the hardened ones.
    pub(crate) env: Vec<(String, String)>,
    /// Where it runs.
    pub(crate) cwd: Option<PathBuf>,
    /// Stops it.
    pub(crate) cancel: Option<Cancel>,
}

/// What git printed. Names are bytes: nobody promises that they are text.
pub(crate) struct Printed {
    /// Standard output.
    pub(crate) out: Vec<u8>,
    /// Standard error, without its last line end.
    pub(crate) complaint: String,
    /// The exit code.
    pub(crate) exit: i32,
}

const HARDENED: [&str; 12] = [
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.autocrlf=false",
    "core.quotePath=false",
    // A worker can put one there that lies about which commits come before which.
    "core.commitGraph=false",
    "commit.gpgSign=false",
    "protocol.allow=never",
    "safe.bareRepository=explicit",
    "submodule.recurse=false",
    "gc.auto=0",
    "maintenance.auto=false",
    // A branch that is named is on the disk: an empty one, which a loss of power can leave, is in the way of everything.
    "core.fsync=reference",
];

const GIT_VARIABLES: [(&str, &str); 13] = [
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("GIT_ATTR_NOSYSTEM", "1"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("GIT_NO_REPLACE_OBJECTS", "1"),
    ("GIT_NO_LAZY_FETCH", "1"),
    ("GIT_PAGER", "cat"),
    ("GIT_EDITOR", "false"),
    ("LC_ALL", "C"),
    ("GIT_AUTHOR_NAME", "drivetrain"),
    ("GIT_AUTHOR_EMAIL", "drivetrain@localhost"),
    ("GIT_COMMITTER_NAME", "drivetrain"),
    ("GIT_COMMITTER_EMAIL", "drivetrain@localhost"),
];

impl Git {
    /// Standard output as text; the error is what git said.
    pub(crate) fn run(
        &self,
        arguments: impl IntoIterator<Item = OsString>,
    ) -> Result<String, String> {
        let printed = self.output(arguments.into_iter().collect(), None)?;
        String::from_utf8(printed.out)
            .map_err(|_| "git printed a name that is not UTF-8".to_owned())
    }

    /// Runs it with this on standard input.
    pub(crate) fn output(
        &self,
        arguments: Vec<OsString>,
        stdin: Option<Vec<u8>>,
    ) -> Result<Printed, String> {
        let printed = self.output_any(arguments, stdin)?;
        if printed.exit != 0 {
            let complaint = printed.complaint;
            let silent = complaint.is_empty();
            return Err(if silent { "git failed without a word".to_owned() } else { complaint });
        }
        Ok(printed)
    }

    /// The same for commands whose exit code is an answer. The error is for one that did not end by itself.
    pub(crate) fn output_any(
        &self,
        arguments: Vec<OsString>,
        stdin: Option<Vec<u8>>,
    ) -> Result<Printed, String> {
        let spec = ProcessSpec { stdin, ..self.spec(arguments) };
        let never = Cancel::new();
        let finished =
            run(spec, self.cancel.as_ref().unwrap_or(&never)).map_err(|e| e.to_string())?;
        let complaint = finished.stderr.text().trim_end().to_owned();
        if finished.cancelled {
            return Err("stopped before it was done".to_owned());
        }
        if finished.timed_out {
            return Err(format!("git took longer than {TIMEOUT:?}"));
        }
        let Some(exit) = finished.exit else {
            return Err(format!("git was killed; it said: {complaint}"));
        };
        if finished.stdout.total() > finished.stdout.kept() {
            let total = finished.stdout.total();
            return Err(format!("git printed {total} bytes, more than is read"));
        }
        let out = finished.stdout.bytes().map_err(|error| error.to_string())?;
        Ok(Printed { out, complaint, exit })
    }

    /// The hardened command.
    fn spec(&self, arguments: Vec<OsString>) -> ProcessSpec {
        let mut argv: Vec<OsString> = vec!["git".into()];
        for setting in HARDENED.into_iter().chain(self.settings.iter().map(String::as_str)) {
            argv.extend(["-c".into(), setting.into()]);
        }
        // The user's own list of trusted folders is read as data, and nothing else of those settings.
        let global = arguments.iter().any(|argument| argument == "--global");
        argv.extend(arguments);
        let mut env: Vec<(String, String)> = GIT_VARIABLES
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        if global {
            env.extend(who::places());
        } else {
            env.push(("GIT_CONFIG_GLOBAL".to_owned(), "/dev/null".to_owned()));
        }
        env.extend(self.env.iter().cloned());
        ProcessSpec {
            env,
            cwd: self.cwd.clone(),
            timeout: Some(TIMEOUT),
            streams: Streams::Separate,
            mark: "git".to_owned(),
            // Git starts no daemons with these settings, and a namespace would cost more than git itself.
            containment: Containment::Session,
            ..ProcessSpec::new(argv)
        }
    }
}

/// The variable by which git reads these objects too, where they lie. It splits it at colons unless a path is quoted as in C.
pub(crate) fn borrowing(objects: &str) -> (String, String) {
    let path = match objects.contains([':', '"', '\\']) {
        true => format!("\"{}\"", objects.replace('\\', "\\\\").replace('"', "\\\"")),
        false => objects.to_owned(),
    };
    ("GIT_ALTERNATE_OBJECT_DIRECTORIES".to_owned(), path)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The graph of a history that a commit has not is found under its name.
    #[test]
    fn what_comes_before_a_commit_is_what_the_commit_says() {
        let place = tempfile::tempdir().unwrap();
        let top = place.path().to_str().unwrap().to_owned();
        let git = |words: &[&str]| {
            let words = ["-C", &top].into_iter().chain(words.iter().copied());
            Git::default().run(words.map(OsString::from)).unwrap().trim_end().to_owned()
        };
        git(&["init", "--quiet"]);
        let tree = git(&["mktree"]);
        let base = git(&["commit-tree", &tree, "-m", "base"]);
        let orphan = git(&["commit-tree", &tree, "-m", "orphan"]);
        // In its table names stand in order, and are counted by their first two digits.
        let mut numbers = 0..;
        let child = loop {
            let message = numbers.next().unwrap().to_string();
            let child = git(&["commit-tree", &tree, "-p", &base, "-m", &message]);
            if child[..2] == orphan[..2] && (child < base) == (orphan < base) {
                break child;
            }
        };
        git(&["update-ref", "refs/heads/one", &child]);
        git(&["-c", "core.commitGraph=true", "commit-graph", "write", "--reachable"]);
        let graph = place.path().join(".git/objects/info/commit-graph");
        let bytes = std::fs::read(&graph).unwrap();
        let name = |text: &str| -> Vec<u8> {
            let digit = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
            (0..text.len()).step_by(2).map(digit).collect()
        };
        let at = bytes.windows(20).position(|bytes| bytes == name(&child)).unwrap();
        let lie = [&bytes[..at], &name(&orphan), &bytes[at + 20..]].concat();
        std::fs::remove_file(&graph).unwrap();
        std::fs::write(&graph, lie).unwrap();
        assert_eq!(git(&["rev-list", "--max-count=1", &base, "--not", &orphan]), base);
        let believed =
            ["-c", "core.commitGraph=true", "rev-list", "--max-count=1", &base, "--not", &orphan];
        assert_eq!(git(&believed), "", "git itself believes it");
    }

    #[test]
    fn a_folder_with_a_colon_is_one_folder() {
        assert_eq!(borrowing("/a/b").1, "/a/b");
        assert_eq!(borrowing("/a:b/\"c").1, "\"/a:b/\\\"c\"");
    }
}
