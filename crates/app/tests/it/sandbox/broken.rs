//! Machines that cannot give the walls: nothing runs there, a reason is told, and nothing is weaker in silence.
//!
//! Each is made of this machine, by bubblewrap around the whole binary.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use crate::environment::{Ran, TestEnvironment};

/// Runs drivetrain in a world that was changed by these arguments of bubblewrap.
fn within(environment: &TestEnvironment, world: &[&str], args: &[&str]) -> Ran {
    let plain = environment.command(args);
    let mut command = Command::new("/usr/bin/bwrap");
    command.args(["--dev-bind", "/", "/"]).args(world).arg("--");
    command.arg(plain.get_program()).args(plain.get_args());
    command.current_dir(environment.folder()).env_clear();
    for (name, value) in plain.get_envs() {
        command.env(name, value.unwrap());
    }
    environment.ran(command.output().unwrap())
}

/// A task is refused with exit code 20 and this reason, and no step of it runs.
fn refused(world: &[&str], reason: &str) {
    let environment = TestEnvironment::new();
    environment.steps("task.toml", &["touch ran"], "");
    let ran = within(&environment, world, &["run", "task.toml"]);
    assert_eq!(ran.code, 20, "{}{}", ran.out, ran.err);
    assert!(ran.err.contains(reason), "{}", ran.err);
    assert!(ran.err.contains("hint:") && ran.err.contains("--no-sandbox"), "{}", ran.err);
    assert!(!environment.folder().join("ran").exists());
    assert!(!environment.home().join("journal").exists(), "nothing is recorded either");
    let ran = within(&environment, world, &["sandbox", "run", "--", "touch", "ran"]);
    assert_eq!(ran.code, 20, "{}", ran.err);
    let ran = within(&environment, world, &["doctor"]);
    assert_eq!(ran.code, 20);
    assert!(ran.out.contains("broken  sandbox") && ran.out.contains("mend:"), "{}", ran.out);
    let ran = within(&environment, world, &["run", "task.toml", "--no-sandbox"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("sandbox    off"), "{}", ran.out);
}

/// A program in place of bubblewrap.
fn in_its_place(text: &str) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), format!("#!/bin/sh\n{text}\n")).unwrap();
    std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    file
}

fn instead(text: &str, reason: &str) {
    let file = in_its_place(text);
    let (_, path) = file.keep().unwrap();
    refused(&["--ro-bind", path.to_str().unwrap(), "/usr/bin/bwrap"], reason);
    std::fs::remove_file(path).unwrap();
}

#[test]
fn without_bubblewrap() {
    // What is no file is as good as missing.
    refused(&["--dev-bind", "/dev/null", "/usr/bin/bwrap"], "no bubblewrap");
}

#[test]
fn with_an_old_bubblewrap() {
    instead("echo bubblewrap 0.4.1", "too old");
}

#[test]
fn with_another_program_in_its_place() {
    instead("exit 0", "is no bubblewrap");
    // One that says what is expected and does nothing of it.
    instead("[ \"$1\" = --version ] && echo bubblewrap 0.9.0; exit 0", "without a word");
    // One that runs the command without any wall.
    instead(
        "[ \"$1\" = --version ] && { echo bubblewrap 0.9.0; exit; }; while [ \"$1\" != -- ]; do shift; done; shift; exec \"$@\"",
        "do not hold",
    );
}

#[test]
fn without_user_namespaces() {
    refused(&["--unshare-user", "--disable-userns"], "cannot be set up");
}

#[test]
fn without_landlock() {
    // If the call is landlock_create_ruleset, this kernel does not know it.
    let line = |code: u16, jt: u8, jf: u8, k: u32| {
        let mut bytes = code.to_ne_bytes().to_vec();
        bytes.extend([jt, jf]);
        bytes.extend(k.to_ne_bytes());
        bytes
    };
    let program = [
        line(0x20, 0, 0, 0),
        line(0x15, 0, 1, 444),
        line(0x06, 0, 0, 0x0005_0000 | 38),
        line(0x06, 0, 0, 0x7fff_0000),
    ];
    let environment = TestEnvironment::new();
    environment.write("filter", "");
    std::fs::write(environment.folder().join("filter"), program.concat()).unwrap();
    environment.steps("task.toml", &["touch ran"], "");
    for level in ["full", "reduced"] {
        let plain = environment.command(&["run", "task.toml", "--sandbox", level]);
        let mut command = Command::new("sh");
        command.args([
            "-c",
            "exec /usr/bin/bwrap --dev-bind / / --seccomp 9 -- \"$@\" 9<filter",
            "sh",
        ]);
        command.arg(plain.get_program()).args(plain.get_args());
        command.current_dir(environment.folder()).env_clear();
        for (name, value) in plain.get_envs() {
            command.env(name, value.unwrap());
        }
        let ran = environment.ran(command.output().unwrap());
        assert_eq!(ran.code, 20, "{}{}", ran.out, ran.err);
        assert!(ran.err.contains("does not have Landlock"), "{}", ran.err);
        assert!(!environment.folder().join("ran").exists());
    }
}

#[test]
fn one_in_the_workspace_or_on_path_is_not_taken() {
    let environment = TestEnvironment::new();
    environment.write("bin/bwrap", "#!/bin/sh\ntouch \"$0.ran\"\n");
    let path = environment.folder().join("bin");
    std::fs::set_permissions(path.join("bwrap"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = environment.command(&["sandbox", "run", "--", "/bin/echo", "well"]);
    let output = command.env("PATH", format!("{}:/usr/bin:/bin", path.display())).output().unwrap();
    assert_eq!(environment.ran(output).out, "well\n");
    assert!(!path.join("bwrap.ran").exists());
}

#[test]
fn with_nothing_on_path_the_walls_are_tried_all_the_same() {
    let environment = TestEnvironment::new();
    let mut command = environment.command(&["sandbox", "run", "--", "/bin/echo", "well"]);
    let ran = environment.ran(command.env("PATH", "/nonexistent").output().unwrap());
    assert_eq!((ran.out.as_str(), ran.code), ("well\n", 0), "{}", ran.err);
}
