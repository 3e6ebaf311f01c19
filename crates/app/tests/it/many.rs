//! What an operator of many tasks meets: a disk that is full for a while, few descriptors, a reader who does not read, a
//! program that tidies up.

use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::environment::TestEnvironment;

/// A git before the real one in PATH that finds no room where a file with the name of what it is asked for lies in the
/// folder, once, and says so as git does.
fn short_of_room() -> (TestEnvironment, PathBuf) {
    let folder = tempfile::tempdir().unwrap().keep();
    let path = std::env::var_os("PATH").unwrap();
    let real = std::env::split_paths(&path).map(|at| at.join("git")).find(|git| git.is_file());
    let script = format!(
        "#!/bin/sh\ncase \" $* \" in *' read-tree --reset '*) asked=fill;; *' worktree add '*) asked=worktree;; *' read-tree -u '*) asked=read-tree;; esac\n\
         if [ -n \"$asked\" ] && rm {}/$asked 2>/dev/null; then echo 'error: unable to write file big' >&2; exit 128; fi\n\
         exec {} \"$@\"\n",
        folder.display(),
        real.unwrap().display()
    );
    std::fs::write(folder.join("git"), script).unwrap();
    std::fs::set_permissions(folder.join("git"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", folder.display(), path.to_string_lossy());
    (TestEnvironment::new().with_variable("PATH", &path), folder)
}

#[test]
fn a_disk_that_is_full_for_a_while_ends_no_task() {
    let (place, wishes) = short_of_room();
    place.git(&["init", "--quiet"]);
    place.write("file.txt", "old\n");
    place.commit_all("first");
    let more = "[[acceptance]]\nkind = \"shell\"\ncommand = \"grep -q new file.txt\"\n";
    place.worktree_steps("task.toml", &["echo new > file.txt"], more);
    // The second is the way of git itself, where the first did not work.
    for asked in ["fill", "worktree", "read-tree"] {
        std::fs::write(wishes.join(asked), "").unwrap();
    }
    let ran = place.run(&["run", "task.toml"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let waited = format!("{}{}", ran.out, ran.err).matches("so it waits").count();
    assert_eq!(waited, 2, "the workspace and the verdict: {}{}", ran.out, ran.err);
    let id = place.id();
    std::fs::write(wishes.join("read-tree"), "").unwrap();
    let ran = place.run(&["rollback", &id, "--to", "1"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let worktree = place.home().join("worktrees").join(&id);
    assert_eq!(std::fs::read_to_string(worktree.join("file.txt")).unwrap(), "old\n");
    let points = place.ok(&["checkpoints", &id, "--json"]);
    let points: serde_json::Value = serde_json::from_str(&points).unwrap();
    let undo = points["checkpoints"].as_array().unwrap().iter().find(|point| {
        point["reason"].as_str().is_some_and(|reason| reason.starts_with("before going back"))
    });
    let undo = undo.unwrap()["number"].to_string();
    place.ok(&["rollback", &id, "--to", &undo]);
    assert_eq!(std::fs::read_to_string(worktree.join("file.txt")).unwrap(), "new\n");
    std::fs::remove_dir_all(wishes).unwrap();
}

/// A process that waits for room cannot record that it does: whoever asks looks at the disk.
#[test]
fn why_names_the_disk_that_a_task_waits_for() {
    let place = TestEnvironment::new();
    place.steps("task.toml", &["touch begun; sleep 300"], "");
    std::fs::create_dir(place.home()).unwrap();
    let script = r#"
        "$1" run task.toml --no-sandbox >/dev/null 2>&1 &
        until [ -e begun ]; do sleep 0.02; done
        id="$("$1" list --json | sed 's/.*"id":"\([^"]*\)".*/\1/')"
        "$1" why "$id"; echo; echo filled
        cat /dev/zero >"$DRIVETRAIN_HOME/fill" 2>/dev/null
        "$1" why "$id"; "$1" show "$id" --json
        rm "$DRIVETRAIN_HOME/fill"; "$1" cancel "$id" >/dev/null; wait "$!""#;
    let plain = place.command(&[]);
    let mut world = Command::new("/usr/bin/bwrap");
    world.args(["--dev-bind", "/", "/", "--size", "16777216", "--tmpfs"]).arg(place.home());
    world.args(["--", "sh", "-c", script, "sh"]).arg(plain.get_program());
    world.current_dir(place.folder()).env_clear();
    world.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let ran = place.ran(world.output().unwrap());
    let (before, after) = ran.out.split_once("\nfilled\n").expect(&ran.out);
    assert!(before.contains("last news") && !before.contains("is full"), "{before}");
    let said = format!("The disk of {} is full: what has to be", place.home().display());
    assert!(after.contains(&said), "{after}{}", ran.err);
    assert!(after.contains(r#""full_disk":""#), "{after}");
}

/// The files that it made are gone once it has ended, and with them what it failed for.
#[test]
fn a_check_that_fills_the_disk_itself_is_run_again_and_says_nothing_about_the_work() {
    let place = TestEnvironment::new();
    place.git(&["init", "--quiet"]);
    place.write("file.txt", "old\n");
    place.commit_all("first");
    let seen = place.home().with_file_name("seen");
    let check = format!(
        "test -e {seen:?} && exec grep -q new file.txt; touch {seen:?}; cat /dev/zero > much"
    );
    let more =
        format!("[[acceptance]]\nkind = \"shell\"\ncommand = {}\n", serde_json::json!(check));
    place.worktree_steps("task.toml", &["echo new > file.txt"], &more);
    std::fs::create_dir(place.home()).unwrap();
    let plain = place.command(&["run", "task.toml", "--no-sandbox"]);
    let mut world = Command::new("/usr/bin/bwrap");
    world.args(["--dev-bind", "/", "/", "--size", "16777216", "--tmpfs"]).arg(place.home());
    world.arg("--").arg(plain.get_program()).args(plain.get_args());
    world.current_dir(place.folder()).env_clear();
    world.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let ran = place.ran(world.output().unwrap());
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let told = format!("{}{}", ran.out, ran.err);
    assert_eq!(told.matches("so it waits").count(), 1, "{told}");
}

/// Each sandbox holds some twenty descriptors, so that forty commands at once have more than the limit.
#[test]
fn many_commands_at_once_wait_for_descriptors_instead_of_failing() {
    let place = TestEnvironment::new();
    let items = (0..40).map(|number| number.to_string()).collect::<Vec<String>>().join(", ");
    place.write(
        "task.toml",
        &format!(
            "[task]\ngoal = \"many\"\ndriver = \"workflow\"\n[workspace]\nkind = \"in_place\"\n[workflow]\nname = \"w\"\n\
             [[workflow.steps]]\nname = \"all\"\nforeach = \"[{items}]\"\nmax_parallel = 40\n\
             steps = [{{ name = \"one\", tool = \"shell\", parameters = {{ command = \"sleep 1; echo done\" }} }}]\n"
        ),
    );
    let direct = place.command(&["run", "task.toml", "--unattended"]);
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -n 600; exec \"$@\"", "sh"]).arg(direct.get_program());
    limited.args(direct.get_args()).current_dir(place.folder()).env_clear();
    limited.envs(direct.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let ran = place.ran(limited.output().unwrap());
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert_eq!(ran.out.matches(" ok: ").count(), 40, "{}", ran.out);
}

#[test]
fn a_reader_who_does_not_read_holds_up_nobody() {
    let place = TestEnvironment::new();
    let talks = "i=0; while [ $i -lt 4000 ]; do echo a line of some length that somebody could read; i=$((i+1)); done";
    let mut steps = vec![talks; 8];
    steps.push("touch last");
    place.steps("task.toml", &steps, "");
    let mut command = place.command(&["run", "task.toml", "--unattended", "--json"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    place.until_file("last");
    let mut all = String::new();
    child.stdout.take().unwrap().read_to_string(&mut all).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(all.len() > 128 << 10, "more than a pipe holds: {}", all.len());
    let last = all.lines().last().unwrap();
    assert!(last.contains("task_finished"), "nothing of it is lost: {last}");
}

#[test]
fn a_process_whose_socket_and_lock_were_removed_can_be_reached_again() {
    let place = TestEnvironment::new();
    place.steps("task.toml", &["touch begun; sleep 300"], "");
    let running = place.start(&["run", "task.toml"]);
    place.until_file("begun");
    let id = place.id();
    let tidied = |name: &str| name.ends_with(".sock") || name.ends_with(".lock");
    for entry in std::fs::read_dir(place.home().join("run")).unwrap() {
        let entry = entry.unwrap();
        if tidied(&entry.file_name().to_string_lossy()) {
            std::fs::remove_file(entry.path()).unwrap();
        }
    }
    place.until(|| place.show(&id)["driven_by"].as_u64());
    place.until(|| (place.run(&["cancel", &id]).code == 0).then_some(()));
    let ran = running.wait();
    assert_eq!(ran.code, 12, "{}{}", ran.out, ran.err);
}
