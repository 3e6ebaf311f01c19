//! A worker's own git works inside; what makes git run programs outside cannot be touched.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::environment::TestEnvironment;

fn git(folder: &Path, arguments: &[&str]) -> String {
    let done = Command::new("git")
        .args([
            "-c",
            "user.name=person",
            "-c",
            "user.email=p@example.org",
            "-c",
            "init.defaultBranch=main",
        ])
        .args(arguments)
        .current_dir(folder)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .output()
        .unwrap();
    assert!(done.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

fn repository(environment: &TestEnvironment) {
    environment.write("a.txt", "a\n");
    git(&environment.folder(), &["init", "-q"]);
    git(&environment.folder(), &["add", "-A"]);
    git(&environment.folder(), &["commit", "-qm", "first"]);
}

/// What a worker would plant.
const PLANT: &str = "printf '#!/bin/sh\\ntouch ran\\n' > $G/hooks/post-checkout; echo x > $G/hooks/pre-commit; \
    git config core.fsmonitor 'touch ran'; echo '[core]' >> $G/config; echo /evil > $G/commondir; \
    echo '* filter=x' > $G/info/attributes; mv $G/hooks $G/h2; mv $G/config $G/c2; \
    echo '[core]' > $G/config.worktree; echo /x > $G/objects/info/alternates; rm -rf .git/config; \
    mv $G/objects $G/o2; mkdir -p $G/objects/info; echo /x > $G/objects/info/alternates; \
    for P in modules/x/hooks worktrees/x/hooks info; do mkdir -p $G/$P; echo x > $G/$P/planted; done; true";
/// What must not be there afterwards.
const PLANTED: [&str; 11] = [
    "hooks/post-checkout",
    "hooks/pre-commit",
    "commondir",
    "info/attributes",
    "info/planted",
    "config.worktree",
    "h2",
    "o2",
    "objects/info/alternates",
    "modules/x",
    "worktrees/x",
];

#[test]
fn commits_work_in_place_and_nothing_is_planted() {
    let environment = TestEnvironment::new();
    repository(&environment);
    let folder = environment.folder();
    let config = environment.read(".git/config");
    let script = format!(
        "echo b > b.txt; git add -A && git commit -qm second && git log --format=%s:%an; git status --short; G=.git; {PLANT}"
    );
    let ran = environment.inside(&script);
    assert!(ran.out.starts_with("second:drivetrain\nfirst:person\n"), "{}{}", ran.out, ran.err);
    assert_eq!(ran.out.lines().count(), 2, "{}", ran.out);
    assert_eq!(git(&folder, &["log", "--format=%s"]), "second\nfirst\n");
    assert_eq!(git(&folder, &["show", "--stat", "--format=", "--name-only"]), "b.txt\n");
    assert_eq!(environment.read(".git/config"), config);
    for name in PLANTED {
        assert!(!folder.join(".git").join(name).exists(), "{name}");
    }
    git(&folder, &["fsck"]);
    git(&folder, &["status"]);
}

/// `git clone --shared` and `--reference`: without the objects of the other repository, git knows no commit.
#[test]
fn git_works_in_a_repository_that_borrows_its_objects() {
    let environment = TestEnvironment::new();
    let folder = environment.folder();
    let lender = folder.with_file_name("lender");
    std::fs::create_dir(&lender).unwrap();
    std::fs::write(lender.join("a.txt"), "a\n").unwrap();
    std::fs::write(lender.join("secret"), "secret-mark\n").unwrap();
    git(&lender, &["init", "-q"]);
    git(&lender, &["add", "a.txt"]);
    git(&lender, &["commit", "-qm", "first"]);
    git(&folder, &["clone", "-q", "--shared", lender.to_str().unwrap(), "."]);
    let look = "git log --format=%s; echo b > b.txt; git add b.txt && git commit -qm second; git log --format=%s; \
        cat ../lender/secret; echo x > ../lender/.git/objects/planted; git status --short";
    let ran = environment.inside(look);
    assert_eq!(ran.out, "first\nsecond\nfirst\n", "{}", ran.err);
    assert!(!lender.join(".git/objects/planted").exists());
    let steps = ["git log --format=%s; echo c > c.txt; git add c.txt && git commit -qm third"];
    environment.worktree_steps("../task.toml", &steps, "");
    let ran = environment.run(&["run", "../task.toml"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let branch = format!("drivetrain/{}", environment.id());
    assert_eq!(git(&folder, &["log", "--format=%s", &branch]), "third\nsecond\nfirst\n");
}

/// Where nothing can be mounted, a worker can write into its repository that it borrows from another.
#[test]
fn a_worker_of_the_reduced_walls_borrows_from_nobody() {
    let environment = TestEnvironment::new();
    repository(&environment);
    let other = environment.folder().with_file_name("other");
    std::fs::create_dir(&other).unwrap();
    git(&other, &["init", "-q"]);
    let objects = other.join(".git/objects");
    let plant = format!(
        "mkdir -p .git/objects/info; echo {0} > .git/objects/info/alternates",
        objects.display()
    );
    let look =
        format!("cat .git/objects/info/alternates; ls {0} && echo seen; true", objects.display());
    environment.steps("../task.toml", &[&plant, &look], "");
    let ran = environment.run(&["run", "../task.toml", "--sandbox", "reduced"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let result = environment.result("s2");
    assert!(result.contains("/.git/objects") && !result.contains("seen"), "{result}");
}

/// Nothing covers the user's repository there.
#[test]
fn commits_work_in_a_worktree_within_the_reduced_walls_and_nothing_else_is_touched() {
    let environment = TestEnvironment::new();
    repository(&environment);
    let folder = environment.folder();
    git(&folder, &["branch", "kept"]);
    let refs = git(&folder, &["for-each-ref"]);
    let config = environment.read(".git/config");
    let steps = [
        "echo b > b.txt; git add -A && git commit -qm second && git log --format=%s",
        "G=$(git rev-parse --git-common-dir); git update-ref refs/heads/main HEAD; git branch -D kept; \
         git update-ref refs/remotes/origin/main HEAD; echo x > $G/hooks/pre-commit; echo '[core]' >> $G/config; \
         echo /evil > $G/commondir; true",
    ];
    environment.worktree_steps("../task.toml", &steps, "");
    let ran = environment.run(&["run", "../task.toml", "--sandbox", "reduced"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let result = environment.result("s1");
    assert!(result.contains("second\nfirst\n"), "{result}");
    let own = format!("refs/heads/drivetrain/{}", environment.id());
    let now: String = git(&folder, &["for-each-ref"])
        .lines()
        .filter(|line| !line.ends_with(&own))
        .map(|line| format!("{line}\n"))
        .collect();
    assert_eq!(now, refs);
    assert_eq!(environment.read(".git/config"), config);
    let left = |name: &str| folder.join(".git").join(name).exists();
    assert!(!left("hooks/pre-commit") && !left("commondir"));
    git(&folder, &["fsck"]);
}

/// As where no template put anything into the repository.
#[test]
fn nothing_is_planted_where_the_repository_has_no_folder_for_it() {
    let environment = TestEnvironment::new();
    repository(&environment);
    let folder = environment.folder();
    for name in ["hooks", "info", "objects/info"] {
        let _ = std::fs::remove_dir_all(folder.join(".git").join(name));
    }
    let ran =
        environment.inside(&format!("git commit -q --allow-empty -m second; G=.git; {PLANT}"));
    for name in PLANTED {
        assert!(!folder.join(".git").join(name).exists(), "{name}: {}{}", ran.out, ran.err);
    }
    assert_eq!(git(&folder, &["log", "--format=%s"]), "second\nfirst\n");
}

#[test]
fn commits_work_in_a_worktree_and_the_users_branches_stay() {
    let environment = TestEnvironment::new();
    repository(&environment);
    let folder = environment.folder();
    let config = environment.read(".git/config");
    let tip = git(&folder, &["rev-parse", "main"]);
    let script = format!(
        "echo b > b.txt; git add -A && git commit -qm second && git log --format=%s:%an && git status --short; \
         G=$(git rev-parse --git-common-dir); git branch -f main HEAD; git update-ref refs/heads/main HEAD; \
         git tag evil; {PLANT}"
    );
    let mut task = environment.folder();
    task.pop();
    environment.steps("task.toml", &[&script], "");
    let text = environment.read("task.toml").replace("in_place", "worktree");
    std::fs::remove_file(folder.join("task.toml")).unwrap();
    std::fs::write(task.join("task.toml"), text).unwrap();
    let ran = environment.run(&["run", "../task.toml"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let result = environment.result("s1");
    assert!(result.contains("second:drivetrain\nfirst:person\n"), "{result}");
    assert!(!result.contains("packed-refs"), "{result}");
    assert_eq!(git(&folder, &["rev-parse", "main"]), tip);
    let branch = format!("drivetrain/{}", environment.id());
    assert_eq!(git(&folder, &["log", "--format=%s", &branch]), "second\nfirst\n");
    assert_eq!(git(&folder, &["tag"]), "");
    assert_eq!(environment.read(".git/config"), config);
    for name in PLANTED {
        assert!(!folder.join(".git").join(name).exists(), "{name}");
    }
    git(&folder, &["fsck"]);
}

/// Others work in the repository too: their locks, and what is there for a moment only, do not keep a command from
/// running.
#[test]
fn what_comes_and_goes_in_the_repository_stops_nobody() {
    let environment = TestEnvironment::new();
    let folder = environment.folder();
    let main = folder.with_file_name("main");
    std::fs::create_dir(&main).unwrap();
    git(&main, &["init", "-q"]);
    git(&main, &["commit", "-q", "--allow-empty", "-m", "first"]);
    git(&main, &["worktree", "add", "-q", folder.to_str().unwrap()]);
    let passing = ["FETCH_HEAD", "config.lock", "packed-refs.lock", "packed-refs.new", "gc.pid"];
    let passing = passing.map(|name| main.join(".git").join(name));
    let rebase = main.join(".git/rebase-merge");
    let script = "git log --format=%s && git worktree list && ls $(git rev-parse --git-common-dir)";
    for _ in 0..2 {
        let is_over = AtomicBool::new(false);
        let ran: Vec<_> = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    std::fs::create_dir(&rebase).unwrap();
                    passing.iter().for_each(|path| std::fs::write(path, "").unwrap());
                    std::thread::sleep(Duration::from_micros(300));
                    passing.iter().for_each(|path| std::fs::remove_file(path).unwrap());
                    std::fs::remove_dir(&rebase).unwrap();
                }
            });
            let ran = (0..10).map(|_| environment.inside(script)).collect();
            is_over.store(true, Ordering::Relaxed);
            ran
        });
        for ran in ran {
            assert_eq!(ran.code, 0, "{}", ran.err);
            assert!(ran.out.starts_with("first\n") && ran.out.contains("objects\n"), "{}", ran.out);
            assert!(!ran.out.contains("_HEAD") && !ran.out.contains(".lock"), "{}", ran.out);
        }
        // As in every clone: branches are in one file then.
        git(&main, &["pack-refs", "--all"]);
    }
}

#[test]
fn a_forged_worktree_opens_no_other_repository() {
    let environment = TestEnvironment::new();
    let other = environment.folder().join("../other");
    std::fs::create_dir(&other).unwrap();
    git(&other, &["init", "-q"]);
    git(&other, &["commit", "-q", "--allow-empty", "-m", "x"]);
    environment
        .write(".git", &format!("gitdir: {}/.git\n", other.canonicalize().unwrap().display()));
    let ran = environment.inside(
        "git log; G=../other/.git; touch $G/hooks/evil; touch $G/objects/evil; cat $G/config",
    );
    assert!(!other.join(".git/hooks/evil").exists() && !other.join(".git/objects/evil").exists());
    assert!(!ran.out.contains("core"), "{}", ran.out);
}

/// The user's git and the worker's go on in a folder below the top, where a repository cannot be made meanwhile.
#[test]
fn git_goes_on_in_a_folder_below_while_something_works_there() {
    let environment = TestEnvironment::new();
    repository(&environment);
    environment.write("below/b.txt", "b\n");
    let below = environment.folder().join("below");
    let script = "exec 2>/dev/null; git status --short; git init -q; mkdir .git/x; rmdir .git; mv .git g; touch begun; \
        while ! [ -e seen ]; do sleep 0.01; done";
    let worker = environment
        .command(&["sandbox", "run", "--", "sh", "-c", script])
        .current_dir(&below)
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    environment.until_file("below/begun");
    let status = git(&below, &["status", "--short", "--ignored=no", "--", "b.txt"]);
    std::fs::write(below.join("seen"), "").unwrap();
    let worked = worker.wait_with_output().unwrap();
    assert_eq!(status, "?? b.txt\n");
    assert_eq!(String::from_utf8_lossy(&worked.stdout), "?? ./\n");
    let mut left: Vec<_> =
        std::fs::read_dir(&below).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["b.txt", "begun", "seen"]);
}

#[test]
fn stand_ins_are_in_no_checkpoint() {
    let environment = TestEnvironment::new();
    repository(&environment);
    // A checkpoint is made while a server of tools is inside, and with it the stand-ins.
    environment.write(".vscode/kept.json", "{}");
    environment.worktree_steps(
        "../task.toml",
        &["echo b > b.txt"],
        "[[acceptance]]\nkind = \"shell\"\ncommand = \"test -e b.txt\"\n",
    );
    assert_eq!(environment.run(&["run", "../task.toml"]).code, 0);
    let id = environment.id();
    let store = environment.home().join("checkpoints").join(format!("{id}.git"));
    let listed = git(&store, &["ls-tree", "-r", "--name-only", "checkpoints:files"]);
    assert_eq!(listed, "a.txt\nb.txt\n");
}

/// What somebody outside sees of a repository, and whether their git ran what was planted.
fn looks(folder: &Path) -> bool {
    let planted = folder.with_file_name("planted");
    let _ = Command::new("git").args(["status", "--short"]).current_dir(folder).output().unwrap();
    planted.exists()
}

/// While something works inside that ends once `seen` is there, and after it.
fn is_run_outside(environment: &TestEnvironment, script: &str) -> [bool; 2] {
    let folder = environment.folder();
    let script =
        format!("{script}; touch begun; while ! [ -e seen ]; do sleep 0.01; done; rm begun seen");
    let mut worker = environment
        .command(&["sandbox", "run", "--", "sh", "-c", &script])
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    environment.until_file("begun");
    let meanwhile = looks(&folder);
    std::fs::write(folder.join("seen"), "").unwrap();
    worker.wait().unwrap();
    [meanwhile, looks(&folder)]
}

/// Git that finds no repository in `.git` looks whether the folder itself is one.
#[test]
fn a_folder_that_is_worked_in_does_not_become_a_repository_itself() {
    let settings = "printf '[core]\\nrepositoryformatversion=0\\nbare=false\\nworktree=.\\n\
        fsmonitor=\"touch ../planted; false\"\\n'";
    let environment = TestEnvironment::new();
    repository(&environment);
    let moved = format!(
        "{{ cp -r .git/HEAD .git/objects .git/refs .git/index .; printf '.git\\n' >commondir; \
         {settings} >config; mv .git/HEAD HEAD.was; }} 2>/dev/null"
    );
    assert_eq!(is_run_outside(&environment, &moved), [false; 2]);
    let left = |name: &str| environment.folder().join(name).exists();
    assert!(left("HEAD") && !left("refs") && !left("commondir"));
    // As it would be without walls: what is looked for can be seen.
    std::fs::rename(environment.folder().join(".git/refs"), environment.folder().join("refs"))
        .unwrap();
    assert!(looks(&environment.folder()));

    let plain = TestEnvironment::new();
    let made = format!("git init -q --bare .; {settings} >config");
    assert_eq!(is_run_outside(&plain, &made), [false; 2]);

    // A project's own folder of that name stays writable.
    let named = TestEnvironment::new();
    named.write("refs/a.txt", "a\n");
    let ran = named.inside("echo b > refs/b.txt; mkdir objects; git init -q --bare .; ls refs");
    assert_eq!(ran.out, "a.txt\nb.txt\n", "{}", ran.err);
    assert!(!named.folder().join("objects").exists());
}

#[test]
fn what_a_repository_shares_with_others_is_decided_by_nobody_inside() {
    let environment = TestEnvironment::new();
    repository(&environment);
    let folder = environment.folder();
    git(&folder, &["config", "extensions.worktreeConfig", "true"]);
    let settings = "printf '[core]\\nfsmonitor=\"touch ../planted; false\"\\n'";
    let plant = format!(
        "{{ mkdir .evil; cp -r .git/objects .git/refs .git/HEAD .evil; cp .git/config .evil/config; \
         {settings} >>.evil/config; rm -f .git/commondir; printf '../.evil\\n' >.git/commondir; \
         {settings} >.git/config.worktree; git commit -q --allow-empty -m second; }} 2>/dev/null"
    );
    assert_eq!(is_run_outside(&environment, &plant), [false; 2]);
    assert_eq!(git(&folder, &["log", "--format=%s"]), "second\nfirst\n");
    let left = |name: &str| folder.join(".git").join(name).exists();
    assert!(!left("commondir") && !left("config.worktree"));
}

/// Git writes into some of its own files as they are: what it says there would stand wherever a link leads.
#[test]
fn links_in_a_repository_do_not_outlive_the_worker() {
    let environment = TestEnvironment::new();
    repository(&environment);
    let folder = environment.folder();
    let victim = folder.with_file_name("victim");
    let plant = "rm -f $G/COMMIT_EDITMSG $G/logs/HEAD; for N in COMMIT_EDITMSG FETCH_HEAD logs/HEAD; \
        do ln -s $V $G/$N; done; ls -l $G $G/logs | grep -c victim";
    let victim_text = victim.display();
    std::fs::write(&victim, "kept\n").unwrap();
    let ran = environment.inside(&format!("G=.git; V={victim_text}; {plant}"));
    assert_eq!(ran.out, "3\n", "{}", ran.err);
    git(&folder, &["commit", "-q", "--allow-empty", "-m", "second"]);
    git(&folder, &["fetch", "-q", "."]);

    let plant = format!("G=$(git rev-parse --git-dir); V={victim_text}; mkdir -p $G/logs; {plant}");
    environment.worktree_steps("../task.toml", &[&plant], "");
    let ran = environment.run(&["run", "../task.toml"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert!(environment.result("s1").contains("3\n"), "{}", environment.result("s1"));
    let worktree = environment.home().join("worktrees").join(environment.id());
    git(&worktree, &["commit", "-q", "--allow-empty", "-m", "third"]);
    git(&worktree, &["fetch", "-q", "."]);
    assert_eq!(std::fs::read_to_string(&victim).unwrap(), "kept\n");
}
