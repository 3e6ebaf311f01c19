//! The sandbox in which every program is this one, and records how it was started.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Programs that also do what they are for, so that what they start is seen.
const REAL: &[&str] = &[
    "awk", "env", "find", "ionice", "nice", "nohup", "sed", "setsid", "stdbuf", "taskset", "time",
    "timeout", "xargs",
];

/// A shell that runs the lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shell {
    Bash,
    /// As bash is when it is called `sh`.
    PosixBash,
    Dash,
}

impl Shell {
    fn program(self) -> &'static str {
        match self {
            Shell::Bash | Shell::PosixBash => "bash",
            Shell::Dash => "dash",
        }
    }
}

/// Folders that become the sandbox's.
pub(crate) struct Sandbox {
    folder: tempfile::TempDir,
}

/// Whether this process is a program inside the sandbox.
pub(crate) fn is_inside() -> bool {
    Path::new("/log/inside").exists()
}

/// Records how this process was started, does what the program is for if that starts others, and ends.
pub(crate) fn record() -> ! {
    let argv: Vec<String> =
        std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    let mut line = serde_json::to_vec(&argv).unwrap();
    line.push(b'\n');
    let mut log = OpenOptions::new().append(true).open("/log/log").unwrap();
    log.write_all(&line).unwrap();
    let name = argv[0].rsplit('/').next().unwrap_or_default();
    let real = match name {
        "sh" | "bash" | "dash" => Path::new("/real/sh").to_owned(),
        _ => Path::new("/real").join(name),
    };
    if real.exists() {
        let error = Command::new(&real).arg0(name).args(std::env::args_os().skip(1)).exec();
        panic!("{}: {error}", real.display());
    }
    // What it prints would do something, if a shell took it for commands, options or indexes.
    let _ = std::io::stdout()
        .write_all(b"-v a[$(canary)]\n; canary ; `canary` $(canary) * -exec canary\n");
    // Loops end, whichever way they ask: by the clock, since the numbers of processes alternate.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    std::process::exit(i32::from((now.subsec_nanos() / 1024) % 2 == 0));
}

impl Sandbox {
    pub(crate) fn new() -> Sandbox {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in ["bin", "log", "work", "work/src", "real"] {
            fs::create_dir(at(name)).unwrap();
        }
        fs::write(at("log/inside"), "").unwrap();
        for name in crate::generate::programs() {
            symlink("/self", at("bin").join(name)).unwrap();
        }
        symlink("/self", at("work/x.sh")).unwrap();
        for name in ["a.txt", "b.txt", "src/m.rs", "-n"] {
            fs::write(at("work").join(name), "one\ntwo\n").unwrap();
        }
        for name in REAL.iter().chain(&["bash", "dash"]) {
            let found = ["/usr/bin", "/bin"]
                .iter()
                .map(|folder| Path::new(folder).join(name))
                .find(|path| path.exists());
            let Some(found) = found else {
                panic!("{name} is not on this machine; the oracle needs it")
            };
            fs::copy(fs::canonicalize(found).unwrap(), at("real").join(name)).unwrap();
        }
        Sandbox { folder }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Runs each line in a shell of its own; gives what started, with the line's place.
    pub(crate) fn run(&self, shell: Shell, lines: &[&str]) -> Vec<(usize, Vec<String>)> {
        let _ = fs::remove_file(self.at("real/sh"));
        symlink(format!("/real/{}", shell.program()), self.at("real/sh")).unwrap();
        fs::write(self.at("log/log"), "").unwrap();
        fs::write(self.at("log/driver"), driver(lines)).unwrap();
        let mut command = self.command();
        command.arg(format!("/real/{}", shell.program()));
        if shell == Shell::PosixBash {
            command.arg("--posix");
        }
        command.arg("/log/driver");
        let mut child = command.spawn().unwrap();
        let end = Instant::now() + Duration::from_secs(30);
        while child.try_wait().unwrap().is_none() {
            if Instant::now() > end {
                let log = fs::read_to_string(self.at("log/log")).unwrap_or_default();
                let last = started(&log).last().map_or(0, |(index, _)| *index);
                println!(
                    "a batch did not end in time, at {:?}; what it did so far is checked",
                    lines[last]
                );
                child.kill().unwrap();
                child.wait().unwrap();
                break;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        let log = fs::read(self.at("log/log")).unwrap();
        let text = String::from_utf8_lossy(&log);
        assert!(text.contains("line "), "the sandbox did not start: {command:?}");
        started(&text)
    }

    fn command(&self) -> Command {
        let mut command = Command::new("bwrap");
        command
            .args(["--unshare-all", "--die-with-parent", "--new-session", "--clearenv"])
            .args(["--setenv", "PATH", "/usr/bin", "--setenv", "HOME", "/home/someone"])
            .args([
                "--ro-bind",
                "/usr/lib",
                "/usr/lib",
                "--ro-bind-try",
                "/usr/lib64",
                "/usr/lib64",
            ])
            .args([
                "--symlink",
                "usr/lib",
                "/lib",
                "--symlink",
                "usr/lib64",
                "/lib64",
                "--symlink",
                "usr/bin",
                "/bin",
            ])
            .args(["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"])
            .arg("--ro-bind")
            .args([self.at("bin"), "/usr/bin".into()])
            .arg("--ro-bind")
            .args([self.at("real"), "/real".into()])
            .arg("--ro-bind")
            .args([std::env::current_exe().unwrap(), "/self".into()])
            .arg("--bind")
            .args([self.at("log"), "/log".into()])
            .arg("--bind")
            .args([self.at("work"), "/place".into()])
            .args(["--chdir", "/place"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
    }
}

/// A script that runs each line in a subshell, and waits for all that the line started: they hold descriptor 9.
fn driver(lines: &[&str]) -> String {
    let mut script = String::new();
    for (index, line) in lines.iter().enumerate() {
        let quoted = line.replace('\'', "'\\''");
        script.push_str(&format!(
            "echo 'line {index}' >>/log/log\n: \"$( ( ulimit -t 2; eval '{quoted}' ) 9>&1 >/dev/null 2>&1 </dev/null )\"\n"
        ));
    }
    script
}

/// The records of a log, each with the line that it belongs to.
fn started(log: &str) -> Vec<(usize, Vec<String>)> {
    let mut index = 0;
    let mut records = Vec::new();
    for line in log.lines() {
        match line.strip_prefix("line ") {
            Some(number) => index = number.parse().unwrap(),
            // A killed batch may end within a record.
            None => records.extend(serde_json::from_str(line).ok().map(|argv| (index, argv))),
        }
    }
    records
}
