//! `drivetrain doctor`: what is missing on this machine, and how to mend it.

use std::time::Duration;

use journal::sqlite::SqliteJournal;
use runtime::acting;
use runtime::home::Home;
use runtime::process::{Cancel, Containment, ProcessSpec, run as run_process};
use runtime::servers;
use runtime::trust::TrustState;
use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
use serde::Serialize;
use serde_json::json;
use view::{Line, Tone, text};

use crate::error::CommandError;
use crate::{locate, output};

/// A journal larger than this is opened but not read through.
const QUICK: u64 = 64 << 20;

/// The oldest git that everything works with: it merges without files since then.
const OLDEST_GIT: (u32, u32) = (2, 38);

/// How a check came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Health {
    /// As it should be.
    Good,
    /// Drivetrain works, with less.
    Less,
    /// Drivetrain cannot work.
    Broken,
}

#[derive(Debug, Serialize)]
struct Check {
    name: &'static str,
    health: Health,
    /// What was found.
    found: String,
    /// How to mend it; empty if there is nothing to mend.
    mend: String,
}

/// Runs the command.
pub(crate) fn run(json: bool) -> Result<u8, CommandError> {
    // Before the walls: their trial is marked there.
    let home = locate::home();
    let mut checks = vec![shell(), git(), openat2_works()];
    checks.extend(walls());
    match &home {
        Ok(home) => checks.extend([home_writable(home), journal(home)]),
        Err(error) => checks.push(check(
            "home",
            Health::Broken,
            error.text(),
            "set DRIVETRAIN_HOME to a folder",
        )),
    }
    checks.extend(home.ok().and_then(|home| trusted(&home)));
    checks.extend(agents());
    let broken = checks.iter().any(|check| check.health == Health::Broken);
    if json {
        output::json(&json!({ "v": 1, "ok": !broken, "checks": checks }));
    } else {
        output::lines(&checks.iter().flat_map(lines).collect::<Vec<Line>>());
    }
    Ok(if broken { 20 } else { 0 })
}

fn lines(check: &Check) -> Vec<Line> {
    let (tone, word) = match check.health {
        Health::Good => (Tone::Good, "ok"),
        Health::Less => (Tone::Ask, "less"),
        Health::Broken => (Tone::Bad, "broken"),
    };
    let mut lines = vec![Line::new(
        tone,
        format!("{word:7} {:12} {}", check.name, text::visible(&check.found)),
    )];
    if !check.mend.is_empty() {
        lines.push(Line::plain(format!("        mend: {}", text::visible(&check.mend))));
    }
    lines
}

fn check(name: &'static str, health: Health, found: impl Into<String>, mend: &str) -> Check {
    Check { name, health, found: found.into(), mend: mend.to_owned() }
}

/// Runs a command and gives its first line, or why it could not be run.
fn ask(argv: &[&str]) -> Result<String, String> {
    let spec = ProcessSpec {
        timeout: Some(Duration::from_secs(10)),
        containment: Containment::Group,
        ..ProcessSpec::new(argv.iter().copied())
    };
    let ended = run_process(spec, &Cancel::new()).map_err(|error| error.to_string())?;
    let said = ended.output.text();
    let first = said.lines().next().unwrap_or_default().to_owned();
    if ended.exit == Some(0) {
        Ok(first)
    } else {
        Err(format!("{} failed: {first}", argv.join(" ")))
    }
}

fn shell() -> Check {
    match ask(&["sh", "-c", "echo works"]) {
        Ok(_) => check("sh", Health::Good, "commands can be run", ""),
        Err(reason) => {
            check("sh", Health::Broken, reason, "install a POSIX shell as sh, and put it on PATH")
        }
    }
}

fn git() -> Check {
    match ask(&["git", "--version"]) {
        Ok(said) => match version(&said) {
            Some(version) if version < OLDEST_GIT => check(
                "git",
                Health::Less,
                format!(
                    "{said} is older than 2.38: apply --merge, apply --onto and queue do not work"
                ),
                "install git 2.38 or newer",
            ),
            Some(_) | None => check("git", Health::Good, said, ""),
        },
        Err(_) => check(
            "git",
            Health::Less,
            "there is no git: no worktrees and no checkpoints, and a task in a repository needs --in-place",
            "install git (Debian: apt install git)",
        ),
    }
}

/// The two first numbers of what `git --version` says.
fn version(said: &str) -> Option<(u32, u32)> {
    let mut numbers = said.strip_prefix("git version ")?.split(['.', ' ']);
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// What the sandbox is made of, and whether it holds: tried, not believed.
fn walls() -> Vec<Check> {
    let machine = runtime::sandbox::machine();
    let bubblewrap = match &machine.bubblewrap {
        Ok((path, version)) => {
            check("bubblewrap", Health::Good, format!("{version}, {}", path.display()), "")
        }
        Err(unavailable) => {
            check("bubblewrap", Health::Broken, &unavailable.reason, &unavailable.mend)
        }
    };
    let namespaces = match &machine.namespaces {
        Ok(()) => check("namespaces", Health::Good, "the kernel's settings allow them", ""),
        Err(reason) => check(
            "namespaces",
            Health::Broken,
            reason,
            "sysctl user.max_user_namespaces=10000 kernel.unprivileged_userns_clone=1",
        ),
    };
    let landlock = match machine.landlock {
        0 => check(
            "landlock",
            Health::Broken,
            "this kernel does not have it",
            "use Linux 5.13 or newer, with landlock in the boot parameter lsm=",
        ),
        version => check("landlock", Health::Good, format!("version {version}"), ""),
    };
    let seccomp = match machine.seccomp {
        true => check("seccomp", Health::Good, "system calls can be filtered", ""),
        false => check(
            "seccomp",
            Health::Broken,
            "this kernel cannot filter system calls",
            "use a kernel with CONFIG_SECCOMP_FILTER",
        ),
    };
    vec![bubblewrap, namespaces, landlock, seccomp, sandbox()]
}

fn sandbox() -> Check {
    use machine::policy::sandbox::Level;
    let full = match runtime::sandbox::try_out(Level::Full) {
        Ok(()) => return check("sandbox", Health::Good, "full: tried to get out, and it held", ""),
        Err(unavailable) => unavailable,
    };
    let reduced = match runtime::sandbox::try_out(Level::Reduced) {
        Ok(()) => "the reduced one works (drivetrain run --sandbox reduced)".to_owned(),
        Err(unavailable) => format!("nor the reduced one: {}", unavailable.reason),
    };
    let found = format!("no full sandbox, so tasks do not start: {}; {reduced}", full.reason);
    check("sandbox", Health::Broken, found, &full.mend)
}

fn openat2_works() -> Check {
    let opened = openat2(
        rustix::fs::CWD,
        ".",
        OFlags::PATH | OFlags::CLOEXEC,
        Mode::empty(),
        ResolveFlags::BENEATH,
    );
    match opened {
        Ok(_) => {
            check("openat2", Health::Good, "paths are kept below the workspace by the kernel", "")
        }
        Err(error) => check(
            "openat2",
            Health::Less,
            format!("the kernel refuses it ({error}): paths are checked step by step"),
            "use Linux 5.6 or newer; in a container, allow the system call openat2",
        ),
    }
}

fn home_writable(home: &Home) -> Check {
    let root = home.root().display().to_string();
    let probe = home.root().join(format!(".doctor-{}", std::process::id()));
    let tried = home.create().and_then(|()| {
        // An empty file needs no room on the disk: a page of bytes does.
        let written = std::fs::write(&probe, [0; 4096]);
        let removed = std::fs::remove_file(&probe);
        written.and(removed).map_err(|error| error.to_string())
    });
    if let (Ok(()), Err(error)) = (&tried, runtime::socket::check_private(&home.run())) {
        let mend = "no task begins there: processes speak to each other in this folder";
        return check("home", Health::Broken, error.to_string(), mend);
    }
    match tried {
        Ok(()) => check("home", Health::Good, root, ""),
        Err(reason) => check(
            "home",
            Health::Broken,
            reason,
            "set DRIVETRAIN_HOME to a folder that can be written and has room",
        ),
    }
}

fn journal(home: &Home) -> Check {
    let folder = home.journal();
    let size = std::fs::metadata(folder.join("journal.db")).map_or(0, |data| data.len());
    if size > QUICK {
        return match SqliteJournal::read(&folder) {
            Ok(_) => {
                let found = format!(
                    "opens ({} MiB; drivetrain journal verify reads all of it)",
                    size >> 20
                );
                check("journal", Health::Good, found, "")
            }
            Err(error) => broken(error.to_string()),
        };
    }
    let report = SqliteJournal::inspect(&folder);
    match report.damages.as_slice() {
        [] => check(
            "journal",
            Health::Good,
            format!(
                "sound: {}, {}",
                text::counted(report.tasks as usize, "task"),
                text::counted(report.records as usize, "record")
            ),
            "",
        ),
        [first] if first.detail.contains("Permission denied") => broken(first.detail.clone()),
        [first, ..] => broken(format!("{} damaged: {}", report.damages.len(), first.detail)),
    }
}

/// Files of the project that act without being named, and servers that may be started; nothing to say if there is none.
fn trusted(home: &Home) -> Option<Check> {
    let folder = std::env::current_dir().ok()?;
    let less = |found: String, mend: &str| Some(check("trust", Health::Less, found, mend));
    let read = acting::unnamed(&folder).and_then(|files| Ok((files, servers::of(home, &folder)?)));
    let (files, servers) = match read {
        Ok((files, found)) => (files, found.servers),
        Err(error) => return less(error.to_string(), "mend the file"),
    };
    let mut untrusted = Vec::new();
    for file in &files {
        match file.state(home, &folder) {
            Ok(TrustState::Trusted) => {}
            Ok(TrustState::Untrusted { .. }) => {
                untrusted.push(file.seen.path.display().to_string())
            }
            Err(reason) => return less(reason, ""),
        }
    }
    if !untrusted.is_empty() {
        let found = format!("not trusted, so they have no say: {}", untrusted.join(", "));
        return less(found, "drivetrain trust shows the files and asks");
    }
    let names: Vec<&str> = servers.iter().map(|server| server.name.as_str()).collect();
    let servers = format!("servers: {}", names.join(", "));
    let count = format!("{} of the project, all trusted", text::counted(files.len(), "file"));
    match (files.is_empty(), names.is_empty()) {
        (true, true) => None,
        (true, false) => Some(check("trust", Health::Good, servers, "")),
        (false, true) => Some(check("trust", Health::Good, count, "")),
        (false, false) => Some(check("trust", Health::Good, format!("{count}; {servers}"), "")),
    }
}

/// The coding agents that are installed; nothing to say if there is none.
fn agents() -> Option<Check> {
    let (found, all_tried) = super::agents::in_short(&super::agents::listed().ok()?);
    match (found.is_empty(), all_tried) {
        (true, _) => None,
        (false, true) => Some(check("agents", Health::Good, found, "")),
        (false, false) => Some(check(
            "agents",
            Health::Less,
            found,
            "drivetrain agents says which versions were tried",
        )),
    }
}

fn broken(found: String) -> Check {
    // What another user may not read need not be damaged.
    let mend = if found.contains("Permission denied") {
        "use it as the user whose it is, or set DRIVETRAIN_HOME to a folder of your own"
    } else {
        "drivetrain journal verify names everything; drivetrain journal rebuild keeps what can be read"
    };
    check("journal", Health::Broken, found, mend)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_of_git_is_two_numbers_wherever_it_comes_from() {
        for (said, found) in [
            ("git version 2.39.5", Some((2, 39))),
            ("git version 2.39.5 (Apple Git-154)", Some((2, 39))),
            ("git version 2.9", Some((2, 9))),
            ("git version 2.50.GIT", Some((2, 50))),
            ("git version two", None),
            ("hub 2.14", None),
        ] {
            assert_eq!(version(said), found, "{said}");
        }
        assert!(version("git version 2.9.1") < Some(OLDEST_GIT), "numbers, not letters");
        assert!(version("git version 3.0.0") > Some(OLDEST_GIT));
    }
}
