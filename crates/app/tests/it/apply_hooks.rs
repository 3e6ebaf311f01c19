//! `apply --hooks`: the user's own git makes the commit, with what it is asked for and nothing else.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::repository::Repository;

fn proven(repository: &Repository, step: &str) -> String {
    repository.task(&[step], Some("true")).0
}

fn hook(folder: &Path, name: &str, text: &str) {
    std::fs::create_dir_all(folder).unwrap();
    std::fs::write(folder.join(name), format!("#!/bin/sh\n{text}\n")).unwrap();
    std::fs::set_permissions(folder.join(name), std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn what_the_user_has_staged_beside_is_not_committed_with_it() {
    let repository = Repository::new();
    let id = proven(&repository, "echo three >> a.txt");
    repository.place.write("mine.txt", "not yet\n");
    repository.git(&["add", "mine.txt"]);
    let before = repository.users();
    let said = repository.refused(&["apply", &id, "--hooks", "--beside-changes"]);
    assert!(
        said.contains("staged too: mine.txt") && said.contains("git restore --staged"),
        "{said}"
    );
    assert_eq!(repository.users(), before);
    // Without hooks the commit is made beside the index, and what is staged stays staged.
    repository.place.ok(&["apply", &id, "--beside-changes"]);
    assert_eq!(repository.git(&["status", "--porcelain"]), "A  mine.txt");
}

#[test]
fn hooks_that_the_task_itself_wrote_do_not_run() {
    let repository = Repository::new();
    let canary = repository.place.home().with_file_name("canary");
    hook(&repository.place.folder().join("hooks"), "pre-commit", "exit 0");
    repository.git(&["config", "core.hooksPath", "hooks/"]);
    repository.commit("hooks");
    let touch = format!("echo 'touch {}' >> hooks/pre-commit", canary.display());
    let id = proven(&repository, &touch);
    let before = repository.users();
    let said = repository.refused(&["apply", &id, "--hooks"]);
    assert!(said.contains("hooks that would run: hooks/pre-commit"), "{said}");
    assert_eq!(repository.users(), before);
    repository.place.ok(&["apply", &id]);
    assert!(!canary.exists());
}

/// What runs is not always where git looks for hooks: links lead out of that folder, and husky calls the folder above.
#[test]
fn hooks_that_the_task_wrote_elsewhere_do_not_run_either() {
    type Arrange = fn(&Repository);
    let linked: Arrange = |repository| {
        hook(&repository.place.folder().join("scripts"), "pre-commit", "exit 0");
        let link = repository.place.folder().join(".git/hooks/pre-commit");
        std::fs::create_dir_all(link.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink("../../scripts/pre-commit", link).unwrap();
    };
    let husky: Arrange = |repository| {
        hook(&repository.place.folder().join("scripts"), "pre-commit", "exit 0");
        repository.place.write("scripts/_/.gitignore", "*\n");
        hook(&repository.place.folder().join("scripts/_"), "pre-commit", "sh scripts/pre-commit");
        repository.git(&["config", "core.hooksPath", "scripts/_"]);
    };
    let of_the_worktree: Arrange = |repository| {
        hook(&repository.place.folder().join("scripts"), "pre-commit", "exit 0");
        repository.git(&["config", "extensions.worktreeConfig", "true"]);
        repository.git(&["config", "--worktree", "core.hooksPath", "scripts"]);
    };
    for arrange in [linked, husky, of_the_worktree] {
        let repository = Repository::new();
        let canary = repository.place.home().with_file_name("canary");
        arrange(&repository);
        repository.commit("hooks");
        let touch = format!("echo 'touch {}' >> scripts/pre-commit", canary.display());
        let id = proven(&repository, &touch);
        let said = repository.refused(&["apply", &id, "--hooks"]);
        assert!(said.contains("hooks that would run: scripts/pre-commit"), "{said}");
        assert!(!canary.exists());
        repository.place.ok(&["apply", &id]);
        assert!(!canary.exists());
    }
}

#[test]
fn what_a_hook_made_of_the_verified_files_is_told() {
    let repository = Repository::new();
    let hooks = repository.place.folder().join(".git/hooks");
    hook(&hooks, "pre-commit", "echo formatted >> a.txt; git add a.txt");
    let id = proven(&repository, "echo three >> a.txt; echo n > new.txt");
    let said = repository.json(&["apply", &id, "--hooks"]);
    let notices = said["notices"].to_string();
    assert!(notices.contains("not what was verified") && notices.contains("a.txt"), "{said}");
    assert!(!notices.contains("new.txt"), "{said}");
    // A hook that changes nothing is nothing to tell of.
    hook(&hooks, "pre-commit", "exit 0");
    let id = proven(&repository, "echo m > more.txt");
    assert_eq!(repository.json(&["apply", &id, "--hooks"])["notices"], serde_json::json!([]));
}

/// The user's own git would conclude it, with all that is in it, under the task's name.
#[test]
fn a_merge_of_the_user_that_is_under_way_is_not_concluded() {
    let repository = Repository::new();
    let id = proven(&repository, "echo three >> a.txt");
    repository.git(&["checkout", "--quiet", "-b", "side"]);
    repository.place.write("side.txt", "side\n");
    repository.commit("side");
    repository.git(&["checkout", "--quiet", "main"]);
    repository.git(&["merge", "--quiet", "--strategy=ours", "--no-commit", "side"]);
    let said = repository.refused(&["apply", &id, "--hooks"]);
    assert!(said.contains("a merge is under way") && said.contains("git merge --abort"), "{said}");
    assert!(repository.place.folder().join(".git/MERGE_HEAD").exists());
    repository.git(&["commit", "--quiet", "-m", "merged"]);
    repository.place.ok(&["apply", &id, "--hooks", "--merge"]);
    assert_eq!(repository.git(&["rev-list", "--parents", "-1", "HEAD"]).split(' ').count(), 2);
}

#[test]
fn a_signal_while_a_hook_runs_takes_everything_back() {
    let repository = Repository::new();
    let began = repository.place.home().with_file_name("began");
    let wait = format!("echo $$ > {}; exec sleep 600", began.display());
    hook(&repository.place.folder().join(".git/hooks"), "pre-commit", &wait);
    let id = proven(&repository, "echo three >> a.txt; echo n > new.txt; rm sub/b.txt");
    let before = repository.users();
    let mut command = repository.place.command(&["apply", &id, "--hooks"]);
    let apply = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let hook = repository.place.until(|| {
        std::fs::read_to_string(&began).ok().and_then(|text| text.trim().parse::<u32>().ok())
    });
    let kill = Command::new("kill").args(["-INT", &apply.id().to_string()]).status().unwrap();
    assert!(kill.success());
    let ran = repository.place.ran(apply.wait_with_output().unwrap());
    assert!(ran.err.contains("it was stopped") && ran.err.contains("as it was"), "{}", ran.err);
    assert_ne!(ran.code, 0);
    assert_eq!(repository.users(), before);
    let process = format!("/proc/{hook}");
    repository.place.until(|| (!Path::new(&process).exists()).then_some(()));
    // Nothing is remembered of it that would be in the way.
    repository.place.ok(&["apply", &id]);
    assert_eq!(repository.git(&["status", "--porcelain"]), "");
}

/// The usual way of hooks that format: they change files, and say no so that somebody looks.
#[test]
fn a_hook_that_rewrites_files_and_says_no_is_heard_and_everything_is_taken_back() {
    for add in ["true", "git add --all"] {
        let repository = Repository::new();
        let text =
            format!("echo formatted >> a.txt; echo x > made/new; {add}; echo look again; exit 1");
        hook(&repository.place.folder().join(".git/hooks"), "pre-commit", &text);
        let step = "echo three >> a.txt; mkdir made; echo n > made/new; rm sub/b.txt";
        let id = proven(&repository, step);
        let said = repository.refused(&["apply", &id, "--hooks"]);
        assert!(said.contains("look again") && said.contains("as it was"), "{said}");
        assert_eq!(repository.place.read("a.txt"), "one\ntwo\n");
        assert!(!repository.place.folder().join("made").exists());
        repository.place.ok(&["apply", &id]);
        assert_eq!(repository.git(&["status", "--porcelain"]), "");
    }
}

#[test]
fn nothing_is_remembered_of_what_a_hook_refused() {
    let repository = Repository::new();
    hook(&repository.place.folder().join(".git/hooks"), "pre-commit", "echo not today; exit 1");
    let id = proven(&repository, "echo three >> a.txt; echo n > new.txt");
    repository.place.write("sub/b.txt", "mine\n");
    let before = repository.users();
    let said = repository.refused(&["apply", &id, "--hooks", "--beside-changes"]);
    assert!(said.contains("not today"), "{said}");
    assert_eq!(repository.users(), before);
    assert!(!repository.place.home().join("applied").join(format!("{id}.json")).exists());
    repository.place.ok(&["apply", &id, "--beside-changes"]);
    assert_eq!(repository.git(&["status", "--porcelain"]), " M sub/b.txt");
    assert_eq!(repository.place.read("sub/b.txt"), "mine\n");
}

/// The commit is there when a later hook is stopped: taking the files back would undo it in the index.
#[test]
fn a_commit_whose_later_hook_is_stopped_is_a_commit() {
    let repository = Repository::new();
    let began = repository.place.home().with_file_name("began");
    let wait = format!("echo $$ > {}; exec sleep 600", began.display());
    hook(&repository.place.folder().join(".git/hooks"), "post-commit", &wait);
    let id = proven(&repository, "echo three >> a.txt");
    let mut command = repository.place.command(&["apply", &id, "--hooks"]);
    let apply = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    repository.place.until(|| began.exists().then_some(()));
    let kill = Command::new("kill").args(["-INT", &apply.id().to_string()]).status().unwrap();
    assert!(kill.success());
    let ran = repository.place.ran(apply.wait_with_output().unwrap());
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(repository.git(&["status", "--porcelain"]), "");
    assert_eq!(repository.git(&["log", "--format=%s"]).lines().count(), 2);
}

/// Killed where the files have followed and there is no commit yet: asked again, there is one.
#[test]
fn killed_before_the_commit_it_is_begun_anew() {
    for again in [&["--hooks"][..], &[]] {
        let repository = Repository::new();
        let hooks = repository.place.folder().join(".git/hooks");
        let began = repository.place.home().with_file_name("began");
        let wait = format!("echo $$ > {}; exec sleep 600", began.display());
        hook(&hooks, "pre-commit", &wait);
        let id = proven(&repository, "echo three >> a.txt; echo n > new.txt; rm sub/b.txt");
        let mut command = repository.place.command(&["apply", &id, "--hooks"]);
        let mut apply = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let hook = repository.place.until(|| {
            std::fs::read_to_string(&began).ok().and_then(|text| text.trim().parse::<u32>().ok())
        });
        apply.kill().unwrap();
        apply.wait().unwrap();
        // The user's git ended with whoever started it; its hook is stopped by hand.
        let _ = Command::new("kill").args(["-KILL", &hook.to_string()]).status().unwrap();
        let index = repository.place.folder().join(".git/index.lock");
        repository.place.until(|| (!index.exists()).then_some(()));
        assert_eq!(repository.place.read("new.txt"), "n\n", "the files had followed");
        // One that the user wrote since is not touched, also where only one side has it.
        repository.place.write("new.txt", "the user's own\n");
        let apply = [&["apply", &id], again].concat();
        let said = repository.refused(&apply);
        assert!(said.contains("cut short") && said.contains("new.txt"), "{said}");
        assert_eq!(repository.place.read("new.txt"), "the user's own\n");
        repository.place.write("new.txt", "n\n");
        repository.place.write("sub/b.txt", "the user's own\n");
        let said = repository.refused(&apply);
        assert!(said.contains("cut short") && said.contains("sub/b.txt"), "{said}");
        assert_eq!(repository.place.read("sub/b.txt"), "the user's own\n");
        std::fs::remove_file(repository.place.folder().join("sub/b.txt")).unwrap();
        std::fs::remove_file(hooks.join("pre-commit")).unwrap();
        assert_eq!(repository.json(&apply)["how"], "committed", "{again:?}");
        assert_eq!(repository.git(&["status", "--porcelain"]), "");
        assert_eq!(repository.git(&["log", "--format=%s"]).lines().count(), 2);
        assert_eq!(repository.json(&["apply", &id])["how"], "already");
    }
}

/// Killed where there is a commit that nobody has written down yet.
#[test]
fn a_commit_that_nobody_wrote_down_is_known() {
    let repository = Repository::new();
    let id = proven(&repository, "echo three >> a.txt");
    repository.place.ok(&["apply", &id, "--hooks"]);
    let head = repository.git(&["rev-parse", "HEAD"]);
    let note = repository.place.home().join("applied").join(format!("{id}.json"));
    let mut written: Value = serde_json::from_slice(&std::fs::read(&note).unwrap()).unwrap();
    (written["done"], written["commit"]) = (false.into(), Value::Null);
    std::fs::write(&note, written.to_string()).unwrap();
    let applied = repository.json(&["apply", &id, "--hooks"]);
    assert_eq!((&applied["how"], applied["commit"].as_str()), (&"already".into(), Some(&*head)));
}

#[test]
fn a_key_that_only_an_agent_holds_signs_the_commit() {
    let repository = Repository::new();
    let folder = repository.place.home().with_file_name("keys");
    std::fs::create_dir(&folder).unwrap();
    let key = folder.join("key");
    let key = key.to_str().unwrap();
    let run = |program: &str, arguments: &[&str], agent: &str| {
        let ran = Command::new(program)
            .args(arguments)
            .env("SSH_AUTH_SOCK", agent)
            .output()
            .unwrap_or_else(|error| panic!("{program} (package openssh-client): {error}"));
        assert!(ran.status.success(), "{program}: {}", String::from_utf8_lossy(&ran.stderr));
    };
    run("ssh-keygen", &["-q", "-t", "ed25519", "-N", "", "-f", key], "");
    let socket = folder.join("agent");
    let socket = socket.to_str().unwrap();
    let mut agent = Command::new("ssh-agent")
        .args(["-D", "-a", socket])
        .stdout(Stdio::null())
        .spawn()
        .expect("ssh-agent of the package openssh-client");
    repository.place.until(|| Path::new(socket).exists().then_some(()));
    run("ssh-add", &["-q", key], socket);
    std::fs::remove_file(key).unwrap();
    for (name, value) in [
        ("gpg.format", "ssh"),
        ("user.signingKey", &format!("{key}.pub")),
        ("commit.gpgSign", "true"),
    ] {
        repository.git(&["config", name, value]);
    }
    let id = repository.task(&["echo three >> a.txt"], Some("true")).0;
    let mut command = repository.place.command(&["apply", &id, "--hooks"]);
    let ran = repository.place.ran(command.env("SSH_AUTH_SOCK", socket).output().unwrap());
    agent.kill().unwrap();
    agent.wait().unwrap();
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let commit = repository.git(&["cat-file", "commit", "HEAD"]);
    assert!(commit.contains("-----BEGIN SSH SIGNATURE-----"), "{commit}");
}
