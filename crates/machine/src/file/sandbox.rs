//! `[sandbox]` in a task file or in `policy.toml`: what processes need beside what everybody gets.
//!
//! No file can switch the sandbox off: that is said aloud, on the command line, each time.

use super::check::{Cursor, Problems};
use super::shape::sandbox as shape;
use super::source::Source;
use super::{Format, SourceError};
use crate::policy::hosts::Allowed;
use crate::policy::sandbox::{Level, Needs, Network, Wishes};

/// Whose file it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Says {
    /// A task file that was named on the command line: the operator's word.
    Task,
    /// A file that is found in a project, or in the user's own folder.
    Policy,
}

/// Reads the table `[sandbox]` at `at`.
pub(crate) fn read(at: &Cursor<'_>, says: Says, problems: &mut Problems) -> Wishes {
    let shape = match says {
        Says::Task => &shape::TASK,
        Says::Policy => &shape::POLICY,
    };
    at.keys(problems, shape);
    let level = at.get("level").and_then(|level| read_level(&level, says, problems));
    let network = at.get("network").and_then(|network| read_network(&network, problems));
    let mut paths = |key: &str| -> Vec<String> {
        let list = at.get(key).map(|list| list.items(problems)).unwrap_or_default();
        list.iter().filter_map(|path| read_path(path, problems)).collect()
    };
    let (read, write) = (paths("read"), paths("write"));
    let mut count = |key: &str| {
        let given = at.get(key)?;
        let number = given.whole(problems)?;
        if number == 0 {
            problems.push(
                &given,
                "a limit of nothing would stop every command",
                Some("write a larger one, or leave it out for no limit".to_owned()),
            );
        }
        Some(number)
    };
    let (processes, open_files) = (count("processes"), count("open_files"));
    let mut size = |key: &str| at.get(key).and_then(|size| read_size(&size, problems));
    let (memory, file_size) = (size("memory"), size("file_size"));
    let cpu_time = at.get("cpu_time").and_then(|span| span.span(problems));
    Wishes { level, network, read, write, processes, memory, file_size, open_files, cpu_time }
}

/// Reads what a program of its own needs, from the table that declares it.
pub(crate) fn read_needs(at: &Cursor<'_>, problems: &mut Problems) -> Needs {
    let network = at.get("network").and_then(|network| read_network(&network, problems));
    let mut paths = |key: &str| -> Vec<String> {
        let list = at.get(key).map(|list| list.items(problems)).unwrap_or_default();
        list.iter().filter_map(|path| read_path(path, problems)).collect()
    };
    let (read, write) = (paths("read"), paths("write"));
    let workspace =
        at.get("workspace").and_then(|word| word.choice(problems, &shape::WORKSPACE_WORDS));
    Needs {
        network: network.unwrap_or_default(),
        read,
        write,
        writes_workspace: workspace.map(|word| word == "write"),
    }
}

/// What the `[sandbox]` of a policy file says, whatever else is in it.
pub fn of_policy(text: &str, file: &str) -> Result<Wishes, Vec<SourceError>> {
    let is_blank =
        text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#'));
    if is_blank {
        return Ok(Wishes::default());
    }
    let source = Source::read(file, text, Format::of(file))?;
    let mut problems = Problems::default();
    let top = Cursor::top(&source.value);
    let wishes = top.get("sandbox").map(|at| read(&at, Says::Policy, &mut problems));
    if problems.is_empty() { Ok(wishes.unwrap_or_default()) } else { Err(source.errors(problems)) }
}

fn read_level(at: &Cursor<'_>, says: Says, problems: &mut Problems) -> Option<Level> {
    let hint = match at.value.as_str() {
        Some("off") => "only a person can: drivetrain run --no-sandbox",
        Some("reduced") if says == Says::Policy => {
            "only a person or a task file can: drivetrain run --sandbox reduced"
        }
        _ => {
            let word = at.choice(problems, &["full", "reduced"])?;
            return Some(if word == "full" { Level::Full } else { Level::Reduced });
        }
    };
    problems.push(at, "this file cannot make the sandbox weaker", Some(hint.to_owned()));
    None
}

/// The network of a file, of an entry of `mcp.toml` or of a plugin: a word, or the hosts.
pub(crate) fn read_network(at: &Cursor<'_>, problems: &mut Problems) -> Option<Network> {
    if at.value.is_array() {
        let items = at.items(problems);
        let hosts = items.iter().filter_map(|host| {
            let name = host.text(problems)?;
            match check_host(name) {
                Ok(()) => Some(name.to_owned()),
                Err(message) => {
                    let hint = "write a name such as crates.io or *.example.org:443";
                    problems.push(host, message, Some(hint.to_owned()));
                    None
                }
            }
        });
        let hosts: Vec<String> = hosts.collect();
        // An empty list is no host, never all of them.
        return Some(if hosts.is_empty() { Network::None } else { Network::Hosts(hosts) });
    }
    Some(match at.choice(problems, &shape::NETWORK_WORDS)? {
        "none" => Network::None,
        "loopback" => Network::Loopback,
        _ => Network::Open,
    })
}

/// Whether this is an entry of a list of hosts; see `docs/network.md`.
pub fn check_host(name: &str) -> Result<(), String> {
    Allowed::parse(&[name.to_owned()]).map(|_| ())
}

fn read_path(at: &Cursor<'_>, problems: &mut Problems) -> Option<String> {
    let path = at.text(problems)?;
    let hint = "write an absolute path, one below the task's folder, or one that begins with ~/";
    let message = match path {
        "" => "the path is empty",
        "/" | "~" | "~/" => "this would open everything",
        _ => return Some(path.to_owned()),
    };
    problems.push(at, message, Some(hint.to_owned()));
    None
}

/// A size: bytes, or a text such as `"512M"` or `"8G"`.
fn read_size(at: &Cursor<'_>, problems: &mut Problems) -> Option<u64> {
    let size = match at.value.as_str() {
        None => at.value.as_u64(),
        Some(text) => {
            let digits = text.trim_end_matches(['i', 'B']);
            let (digits, shift) = match digits.chars().last() {
                Some('K' | 'k') => (&digits[..digits.len() - 1], 10),
                Some('M') => (&digits[..digits.len() - 1], 20),
                Some('G') => (&digits[..digits.len() - 1], 30),
                Some('T') => (&digits[..digits.len() - 1], 40),
                _ => (digits, 0),
            };
            digits.trim().parse::<u64>().ok().and_then(|number| number.checked_mul(1 << shift))
        }
    };
    match size {
        Some(size) if size > 0 => Some(size),
        _ => {
            at.wrong(problems, "a size such as \"512M\" or \"8G\"");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Span;

    fn policy(text: &str) -> Result<Wishes, String> {
        of_policy(text, "policy.toml")
            .map_err(|errors| errors.iter().map(|error| format!("{error}\n")).collect())
    }

    #[test]
    fn a_file_says_what_its_commands_need() {
        let wishes = policy(
            "[sandbox]\nnetwork = [\"crates.io\", \"*.example.org:443\"]\nread = [\"~/data\"]\nwrite = [\"/srv/out\"]\n\
             memory = \"2G\"\nfile_size = 1024\nprocesses = 64\ncpu_time = \"5m\"",
        )
        .unwrap();
        assert_eq!(
            wishes,
            Wishes {
                network: Some(Network::Hosts(vec!["crates.io".into(), "*.example.org:443".into()])),
                read: vec!["~/data".into()],
                write: vec!["/srv/out".into()],
                memory: Some(2 << 30),
                file_size: Some(1024),
                processes: Some(64),
                cpu_time: Some(Span::seconds(300)),
                ..Wishes::default()
            }
        );
        assert_eq!(policy("# nothing\n").unwrap(), Wishes::default());
        let none = policy("[sandbox]\nnetwork = []").unwrap();
        assert_eq!(none.network, Some(Network::None));
    }

    #[test]
    fn a_file_cannot_switch_the_sandbox_off() {
        for (text, said) in [
            ("[sandbox]\nlevel = \"off\"", "--no-sandbox"),
            ("[sandbox]\nlevel = \"reduced\"", "--sandbox reduced"),
            ("[sandbox]\nlevel = \"none\"", "full"),
            ("[sandbox]\nwrite = [\"/\"]", "everything"),
            ("[sandbox]\nread = [\"~\"]", "everything"),
            ("[sandbox]\nnetwork = [\"a b\"]", "no plain host"),
            ("[sandbox]\nnetwork = [\"evil\\u0000.org\"]", "NUL"),
            ("[sandbox]\nnetwork = \"all\"", "none, loopback, open"),
            ("[sandbox]\nmemory = \"lots\"", "a size"),
            ("[sandbox]\nprocesses = 0", "nothing"),
            ("[sandbox]\nnetwrok = \"open\"", "did you mean"),
        ] {
            let error = policy(text).unwrap_err();
            assert!(error.contains(said), "{text}: {error}");
        }
    }
}
