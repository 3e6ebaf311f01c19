//! The walls, each tried by the real binary: a command inside does its worst, and the outside looks whether it arrived.

mod broken;
mod limits;
mod programs;
mod repository;

use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::process::Command;

use serde_json::{Value, json};

use crate::environment::{Ran, TestEnvironment};
use crate::pty::Screen;

impl TestEnvironment {
    /// Runs a script inside, as a person would try it.
    pub(crate) fn inside(&self, script: &str) -> Ran {
        self.run(&["sandbox", "run", "--", "sh", "-c", script])
    }

    /// The same for a script in Perl.
    pub(crate) fn inside_perl(&self, script: &str) -> Ran {
        self.run(&["sandbox", "run", "--", "/usr/bin/perl", "-e", script])
    }
}

#[test]
fn a_command_works_in_its_workspace_and_its_exit_code_is_kept() {
    let environment = TestEnvironment::new();
    environment.write("given.txt", "here\n");
    let ran = environment.inside("cat given.txt; echo more > made.txt; pwd; exit 7");
    assert_eq!((ran.code, ran.err.as_str()), (7, ""));
    assert_eq!(ran.out, format!("here\n{}\n", environment.folder().display()));
    assert_eq!(environment.read("made.txt"), "more\n");
    let ran = environment
        .inside("echo x > /tmp/private && cat /tmp/private && echo y > ~/cache && cat ~/cache");
    assert_eq!((ran.code, ran.out.as_str()), (0, "x\ny\n"), "{}", ran.err);
    assert!(!environment.folder().join("../cache").exists());
    let ran = environment.run(&["sandbox", "run", "--", "no-such-program-here"]);
    assert_eq!(ran.code, 20);
}

/// A repository around the folder for temporary files is shown to those who work in it, and a trial is no such work.
#[test]
fn the_walls_are_tried_beside_a_repository_of_others() {
    let environment = TestEnvironment::new();
    environment.steps("task.toml", &["true"], "");
    let temporary = environment.home().with_file_name("temporary");
    std::fs::create_dir(&temporary).unwrap();
    let git = Command::new("git").args(["init", "-q"]).current_dir(&temporary).status().unwrap();
    assert!(git.success());
    let made = || {
        let entries = std::fs::read_dir(temporary.join(".git")).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let before = made();
    let output =
        environment.command(&["run", "task.toml"]).env("TMPDIR", &temporary).output().unwrap();
    let ran = environment.ran(output);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert_eq!(made(), before, "nothing is made in it");
}

/// Whoever kills the program while it tries the walls leaves a mark by which the next start finds what hangs.
#[test]
fn a_trial_of_the_walls_is_marked_as_long_as_it_runs() {
    let environment = TestEnvironment::new();
    environment.steps("task.toml", &["true"], "");
    let trials = environment.home().join("run/trials");
    for _ in 0..2 {
        let ran = environment.run(&["run", "task.toml"]);
        assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    }
    assert_eq!(std::fs::read_dir(&trials).unwrap().count(), 0);
    let left =
        json!({ "stamp": "probe.1", "mark": "probe", "boot": "", "owner": 1, "owner_start": 0 });
    std::fs::write(trials.join("probe.1.json"), left.to_string()).unwrap();
    assert_eq!(environment.run(&["run", "task.toml"]).code, 0);
    assert_eq!(std::fs::read_dir(&trials).unwrap().count(), 0, "the next start looks at it");
}

/// The first process of all tries them before anything is recorded. Killed meanwhile, it must not leave what nobody finds.
#[test]
fn the_first_trial_of_a_new_home_is_marked_and_nothing_else_is_recorded() {
    let environment = TestEnvironment::new();
    let home = environment.home();
    assert!(!home.exists());
    assert_eq!(environment.inside("true").code, 0);
    assert_eq!(std::fs::read_dir(home.join("run/trials")).unwrap().count(), 0);
    let made: Vec<_> = std::fs::read_dir(&home).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(made, ["run"]);
    assert_eq!(home.metadata().unwrap().permissions().mode() & 0o777, 0o700);
}

/// A trial that held is believed by the next process as long as nothing that it depends on has changed, and never longer
/// than a day.
#[test]
fn a_trial_that_held_is_not_made_again_until_something_has_changed() {
    let environment = TestEnvironment::new();
    environment.steps("task.toml", &["true"], "");
    let record = environment.home().join("run/walls.json");
    let run = || {
        let ran = environment.run(&["run", "task.toml"]);
        assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
        std::fs::read_to_string(&record).unwrap()
    };
    let first = run();
    assert_eq!(run(), first, "no other trial was made");
    let mut changed: Value = serde_json::from_str(&first).unwrap();
    let day = 24 * 60 * 60 * 1000;
    for (part, other) in [
        ("/tried", json!(changed["tried"].as_u64().unwrap() - day)),
        ("/tried", json!(changed["tried"].as_u64().unwrap() + day)),
        ("/conditions/boot", json!("another")),
        ("/conditions/drivetrain/changed/1", json!(7)),
        ("/conditions/bubblewrap/inode", json!(7)),
        ("/conditions/settings/0", json!("0\n")),
        ("/conditions/standing/0", json!("Uid:\t7\t7\t7\t7")),
        ("/conditions/namespaces/5", json!("user:[7]")),
    ] {
        let was = std::mem::replace(changed.pointer_mut(part).unwrap(), other);
        std::fs::write(&record, changed.to_string()).unwrap();
        let after: Value = serde_json::from_str(&run()).unwrap();
        assert_eq!(
            after["conditions"],
            serde_json::from_str::<Value>(&first).unwrap()["conditions"]
        );
        assert_ne!(after["tried"], changed["tried"], "{part} is looked at");
        *changed.pointer_mut(part).unwrap() = was;
    }
    std::fs::write(&record, "{").unwrap();
    let whole = run();
    assert!(whole.len() > 100, "{whole}");
    environment.run(&["doctor"]);
    assert_ne!(std::fs::read_to_string(&record).unwrap(), whole, "doctor looks for itself");
}

#[test]
fn nothing_is_written_outside() {
    let environment = TestEnvironment::new();
    let beside = environment.folder().join("../beside");
    std::fs::create_dir(&beside).unwrap();
    std::fs::write(beside.join("kept"), "kept").unwrap();
    let script = "mkdir -p ../beside; echo x > ../beside/kept; echo x > ../beside/new; ln -s / out; \
        echo x > out/drivetrain-escaped; echo x > /etc/drivetrain-escaped; echo x > /usr/drivetrain-escaped; \
        echo x > /var/drivetrain-escaped; rm -rf /usr/bin/env; exit 0";
    let ran = environment.inside(script);
    assert_eq!(ran.code, 0);
    assert!(ran.err.contains("Read-only file system"), "{}", ran.err);
    assert_eq!(std::fs::read_to_string(beside.join("kept")).unwrap(), "kept");
    assert!(!beside.join("new").exists());
    for folder in ["/", "/etc", "/usr", "/var"] {
        assert!(!std::path::Path::new(folder).join("drivetrain-escaped").exists());
    }
    assert!(std::path::Path::new("/usr/bin/env").exists());
}

/// As root the kernel's settings are files of one's own, and one of them names a program that is started outside.
#[test]
fn settings_of_the_kernel_cannot_be_changed() {
    let environment = TestEnvironment::new();
    // Opened to add nothing.
    let script = "for name in kernel/core_pattern kernel/modprobe kernel/hostname vm/swappiness fs/file-max; do \
        (: >> /proc/sys/$name) 2>/dev/null && echo opened $name; done; \
        cat /proc/sys/kernel/ostype; echo x > /proc/self/fd/1";
    let ran = environment.inside(script);
    assert_eq!(ran.out, "Linux\nx\n", "{}", ran.err);
}

#[test]
fn secrets_of_the_home_and_what_lies_beside_are_not_seen() {
    let environment = TestEnvironment::new();
    let home = environment.folder().join("..");
    std::fs::create_dir_all(home.join(".ssh")).unwrap();
    std::fs::create_dir_all(home.join(".cargo/bin")).unwrap();
    std::fs::write(home.join(".ssh/id"), "secret-mark").unwrap();
    std::fs::write(home.join(".cargo/credentials.toml"), "secret-mark").unwrap();
    std::fs::write(home.join(".netrc"), "secret-mark").unwrap();
    let script = "cat ~/.ssh/id ~/.netrc ~/.cargo/credentials.toml ../.netrc; grep -r secret-mark ~ ..; \
        ls -A ~ /home /root; cat /etc/shadow";
    let ran = environment.inside(script);
    assert!(!ran.out.contains("secret-mark") && !ran.err.contains("secret-mark"), "{}", ran.out);
    assert!(!ran.out.contains(".ssh"), "{}", ran.out);
    assert!(!ran.out.lines().any(|line| line.starts_with("root:")), "{}", ran.out);
}

/// Many keep all of their home in git. A folder below that has no repository of its own is not in that one.
#[test]
fn a_home_that_is_a_repository_is_not_seen_from_a_folder_below() {
    for level in ["full", "reduced"] {
        let environment = TestEnvironment::new();
        let home = environment.folder().join("..");
        std::fs::create_dir_all(home.join(".ssh")).unwrap();
        std::fs::write(home.join(".ssh/id"), "secret-mark").unwrap();
        std::fs::write(home.join(".bashrc"), "secret-mark").unwrap();
        for arguments in [
            &["init", "-q"][..],
            &["add", ".bashrc"],
            &["-c", "user.name=p", "-c", "user.email=p@example.org", "commit", "-qm", "one"],
        ] {
            let git = Command::new("git").args(arguments).current_dir(&home).status().unwrap();
            assert!(git.success());
        }
        let look = "cat ~/.ssh/id ../.bashrc; grep -rs secret-[m]ark ~ ..; git show; echo made > made.txt; cat made.txt";
        environment.steps("task.toml", &[look], "");
        let ran = environment.run(&["run", "task.toml", "--sandbox", level]);
        assert_eq!(ran.code, 0, "{level}: {}{}", ran.out, ran.err);
        let result = environment.result("s1");
        assert!(result.contains("made") && !result.contains("secret-mark"), "{level}: {result}");
    }
}

#[test]
fn a_home_can_be_worked_in_and_what_is_the_users_own_in_it_stays_out_of_reach() {
    let environment = TestEnvironment::new();
    let home = environment.folder();
    std::fs::create_dir(home.join(".ssh")).unwrap();
    std::fs::write(home.join(".ssh/id"), "secret-mark").unwrap();
    std::fs::write(home.join(".bashrc"), "# secret-mark\n").unwrap();
    let script = "cat .ssh/id .bashrc; echo evil >> .bashrc; echo evil > .zshrc; mkdir -p .config/x; \
        echo evil > .ssh/authorized_keys; echo made > made.txt; cat made.txt";
    let mut command = environment.command(&["sandbox", "run", "--", "sh", "-c", script]);
    let ran = command.env("HOME", &home).output().unwrap();
    let out = String::from_utf8_lossy(&ran.stdout);
    assert_eq!(out, "made\n", "{}", String::from_utf8_lossy(&ran.stderr));
    assert_eq!(std::fs::read_to_string(home.join(".bashrc")).unwrap(), "# secret-mark\n");
    let mut names: Vec<String> = std::fs::read_dir(&home)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, [".bashrc", ".ssh", "made.txt"], "nothing is left behind");
    assert_eq!(std::fs::read_dir(home.join(".ssh")).unwrap().count(), 1);
}

#[test]
fn what_is_asked_for_is_opened_and_nothing_else() {
    let environment = TestEnvironment::new();
    let data = environment.folder().join("../data");
    std::fs::create_dir(&data).unwrap();
    std::fs::write(data.join("a"), "asked\n").unwrap();
    let script = "cat ../data/a; echo x > ../data/b";
    let ran = environment.run(&["sandbox", "run", "--read", "../data", "--", "sh", "-c", script]);
    assert_eq!(ran.out, "asked\n");
    assert!(!data.join("b").exists());
    let ran = environment.run(&["sandbox", "run", "--write", "../data", "--", "sh", "-c", script]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "asked\n"), "{}", ran.err);
    assert!(data.join("b").exists());
    for path in ["..", "/", "../no-such-folder"] {
        let ran = environment.run(&["sandbox", "run", "--write", path, "--", "true"]);
        assert_eq!(ran.code, 20, "{path}: {}", ran.err);
    }
}

/// In place, what is asked for may lie in what the worker writes, who can put a link in its place.
#[test]
fn a_link_in_the_workspace_opens_nothing_outside() {
    let environment = TestEnvironment::new();
    let beside = environment.folder().join("../beside");
    std::fs::create_dir(&beside).unwrap();
    std::fs::write(beside.join("kept"), "kept").unwrap();
    std::fs::create_dir(environment.folder().join("out")).unwrap();
    let ask = |how: &str, path: &str| {
        let script = format!("cat {path}/kept; echo x > {path}/new; cat ../beside/kept");
        environment.run(&["sandbox", "run", how, path, "--", "sh", "-c", &script])
    };
    assert_eq!(ask("--write", "out").out, "");
    assert!(environment.folder().join("out/new").exists());
    std::fs::remove_dir_all(environment.folder().join("out")).unwrap();
    std::os::unix::fs::symlink("../beside", environment.folder().join("out")).unwrap();
    for how in ["--read", "--write"] {
        let ran = ask(how, "out");
        assert!(
            ran.code != 0 && ran.err.contains("a link in a folder that is worked in"),
            "{}",
            ran.err
        );
        assert!(!ran.out.contains("kept"), "{}", ran.out);
    }
    assert!(!beside.join("new").exists());
    assert_eq!(ask("--read", "../beside").out, "keptkept", "what is named is meant");
}

#[test]
fn the_journal_and_its_sockets_are_not_seen() {
    let environment = TestEnvironment::new();
    let look = "find \"$DRIVETRAIN_HOME\" 2>&1; find ../home 2>&1";
    environment.steps("task.toml", &[look, "true"], "[sandbox]\nread = [\"..\"]\n");
    assert_eq!(environment.run(&["run", "task.toml"]).code, 0);
    let result = environment.result("s1");
    assert!(result.contains("home") && !result.contains("journal"), "{result}");
    assert!(environment.home().join("journal").exists());
}

#[test]
fn other_processes_are_neither_seen_nor_reached() {
    let environment = TestEnvironment::new();
    let mut victim = Command::new("sleep").arg("600").env("MARK", "secret-mark").spawn().unwrap();
    let pid = victim.id();
    let script = format!(
        "kill -9 {pid}; cat /proc/{pid}/environ; ls -d /proc/{pid}; ls /proc | grep -c '^[0-9]'; kill -9 -1"
    );
    let ran = environment.inside(&script);
    assert!(!ran.out.contains("secret-mark"));
    assert!(ran.err.contains("No such process"), "{}", ran.err);
    assert!(ran.out.trim().parse::<u32>().unwrap() < 10, "{}", ran.out);
    assert!(victim.try_wait().unwrap().is_none());
    victim.kill().unwrap();
    victim.wait().unwrap();
}

#[test]
fn no_variable_of_the_runtime_is_handed_on() {
    let environment = TestEnvironment::new();
    let mut command = environment.command(&[
        "sandbox",
        "run",
        "--",
        "sh",
        "-c",
        "env; cat /proc/self/environ /proc/1/environ /proc/1/cmdline; export -p",
    ]);
    let output = command
        .env("ANTHROPIC_API_KEY", "secret-mark")
        .env("CANARY_KEY", "secret-mark")
        .env("OTHER", "secret-mark")
        .output()
        .unwrap();
    let ran = environment.ran(output);
    assert!(ran.out.contains("TMPDIR=/tmp"), "{}", ran.out);
    assert!(!ran.out.contains("secret-mark"));
}

#[test]
fn no_socket_leads_out() {
    let environment = TestEnvironment::new();
    let path = environment.folder().join("socket");
    let _listener = UnixListener::bind(&path).unwrap();
    let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = tcp.local_addr().unwrap().port();
    // Families: UNIX, INET, INET6, NETLINK, PACKET, VSOCK; kinds: stream, datagrams.
    let script = "use Socket; my ($s, $a, $b);
        for my $f (1, 2, 10, 16, 17, 40) { for my $k (1, 2) {
            print socket($s, $f, $k, 0) ? \"made $f $k\\n\" : \"no\\n\"; } }
        print socketpair($a, $b, PF_UNIX, SOCK_DGRAM, 0) ? \"datagram pair\\n\" : \"no\\n\";
        print socketpair($a, $b, PF_UNIX, SOCK_RAW, 0) ? \"raw pair\\n\" : \"no\\n\";
        print socketpair($a, $b, PF_UNIX, SOCK_STREAM, 0) ? \"pair\\n\" : \"no pair\\n\";";
    let ran = environment.inside_perl(script);
    assert_eq!(ran.out, format!("{}pair\n", "no\n".repeat(14)), "{}", ran.err);
    // With a network of its own, only the inside is reached; with the user's, no socket of the file system is.
    let script = format!(
        "use Socket; my ($l, $t, $o, $u); my $here = inet_aton('127.0.0.1');
        socket($l, PF_INET, SOCK_STREAM, 0); bind($l, pack_sockaddr_in(0, $here)) and listen($l, 1) and print \"listens\\n\";
        my ($p) = unpack_sockaddr_in(getsockname($l));
        socket($t, PF_INET, SOCK_STREAM, 0); connect($t, pack_sockaddr_in($p, $here)) and print \"inner\\n\";
        socket($o, PF_INET, SOCK_STREAM, 0); connect($o, pack_sockaddr_in({port}, $here)) and print \"outer\\n\";
        socket($u, PF_UNIX, SOCK_STREAM, 0); connect($u, pack_sockaddr_un('socket')) and print \"unix\\n\";"
    );
    let args = ["sandbox", "run", "--network", "loopback", "--", "/usr/bin/perl", "-e", &script];
    assert_eq!(environment.run(&args).out, "listens\ninner\n");
    let args = ["sandbox", "run", "--network", "open", "--", "/usr/bin/perl", "-e", &script];
    assert_eq!(environment.run(&args).out, "listens\ninner\nouter\n");
}

#[test]
fn a_network_that_is_none_is_refused() {
    let environment = TestEnvironment::new();
    let ran = environment.run(&["sandbox", "run", "--network", "a b", "--", "true"]);
    assert_eq!(ran.code, 2, "{}", ran.err);
}

// The calls are named by their numbers, which are those of this processor.
#[cfg(target_arch = "x86_64")]
#[test]
fn doors_in_the_kernel_are_closed() {
    let environment = TestEnvironment::new();
    // Numbers of x86-64: ptrace, process_vm_readv, io_uring_setup, keyctl, bpf, userfaultfd, perf_event_open, mount,
    // unshare(NEWUSER), setns, clone3, open_by_handle_at, pidfd_getfd.
    let script = "for my $c ([101, 0], [310, 1], [425, 1], [250, 0], [321, 0], [323, 0], [298, 0], [165, 0],
            [272, 0x10000000], [308, 0], [435, 0], [304, 0], [438, 0]) {
            my $r = syscall($c->[0], $c->[1], 0, 0, 0, 0, 0); print \"$c->[0] \", $r, ' ', $! + 0, \"\\n\"; }";
    let ran = environment.inside_perl(script);
    let expected: Vec<String> = [101, 310, 425, 250, 321, 323, 298, 165, 272, 308, 435, 304, 438]
        .iter()
        .map(|call| format!("{call} -1 {}", if [425, 435].contains(call) { 38 } else { 1 }))
        .collect();
    assert_eq!(ran.out.lines().collect::<Vec<_>>(), expected, "{}", ran.err);
    let ran = environment
        .inside("unshare -U true; unshare -n true; mount -t tmpfs x /mnt; chroot / true");
    assert_eq!(ran.err.matches("Operation not permitted").count(), 3, "{}", ran.err);
    assert!(ran.err.contains("mount: /mnt: permission denied"), "{}", ran.err);
    let ran = environment
        .inside("sed -n 's/^\\(Cap[A-Za-z]*\\|NoNewPrivs\\):\\s*//p' /proc/self/status | sort -u");
    assert_eq!(ran.out, "0000000000000000\n1\n");
}

#[test]
fn nobody_types_into_the_terminal() {
    let environment = TestEnvironment::new();
    let script = "for my $request (0x5412, 0x541C) { my $c = 'x';
        print ioctl(STDIN, $request, $c) ? \"typed\\n\" : 'errno ' . ($! + 0) . \"\\n\"; }";
    let args = ["sandbox", "run", "--", "/usr/bin/perl", "-e", script];
    let mut screen = Screen::start(&environment, &args);
    screen.until("errno 1").until("errno 1");
    assert!(!screen.shown().contains("typed"));
    assert_eq!(screen.end(), 0);
}

#[test]
fn nothing_outlives_its_call() {
    let environment = TestEnvironment::new();
    let late =
        "setsid sh -c 'sleep 1; touch late' >/dev/null 2>&1 & (sh -c '(sleep 1; touch later) &')";
    environment.steps("task.toml", &[late, "sleep 2"], "");
    assert_eq!(environment.run(&["run", "task.toml"]).code, 0);
    assert!(
        !environment.folder().join("late").exists() && !environment.folder().join("later").exists()
    );
}

#[test]
fn names_that_steer_other_programs_cannot_be_written_whether_they_exist_or_not() {
    let environment = TestEnvironment::new();
    environment.write(".vscode/settings.json", "{}");
    environment.write(".env.local", "A=1");
    std::os::unix::fs::symlink("elsewhere", environment.folder().join(".codex")).unwrap();
    let script = "mkdir -p .claude; echo x > .claude/settings.json; echo x > .mcp.json; echo x > .envrc;
        echo x > .vscode/settings.json; echo x > .vscode/tasks.json; echo x > .env.local; rm -rf .vscode .mcp.json;
        mv .vscode gone; mv .claude gone; mkdir .drivetrain; mkdir .cargo; echo x > rust-toolchain;
        rm .codex; mkdir .codex; echo x > .codex/config; mkdir .git; ln -s /etc .gemini; touch ok; true";
    let names = || {
        let entries = std::fs::read_dir(environment.folder()).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    };
    for level in ["full", "reduced"] {
        let _ = std::fs::remove_file(environment.folder().join("ok"));
        let args = ["sandbox", "run", "--level", level, "--", "sh", "-c", script];
        let script = "mkdir -p .claude; echo x > .claude/a; echo x > .mcp.json; rm .codex; mkdir .codex; touch ok";
        // The weaker walls cannot hold what exists; what does not exist is gone again afterwards.
        let reduced = ["sandbox", "run", "--level", level, "--", "sh", "-c", script];
        let ran = environment.run(if level == "full" { &args } else { &reduced });
        assert_eq!(ran.code, 0, "{}", ran.err);
        assert_eq!(names(), [".codex", ".env.local", ".vscode", "ok"], "{level}");
    }
    assert_eq!(environment.read(".vscode/settings.json"), "{}");
    assert_eq!(environment.read(".env.local"), "A=1");
    let link = std::fs::read_link(environment.folder().join(".codex")).unwrap();
    assert_eq!(link, std::path::Path::new("elsewhere"));
}

#[test]
fn checks_are_run_inside_as_well() {
    let environment = TestEnvironment::new();
    let check = "[[acceptance]]\nkind = \"shell\"\ncommand = \"test -z \\\"$(ls ../home)\\\" && ! touch /usr/x && ! ls ~/.ssh\"\n";
    std::fs::create_dir_all(environment.folder().join("../.ssh")).unwrap();
    environment.steps("task.toml", &["true"], check);
    let ran = environment.run(&["run", "task.toml"]);
    assert_eq!(ran.code, 0, "{}", ran.out);
}

#[test]
fn a_task_without_a_sandbox_says_so_everywhere() {
    let environment = TestEnvironment::new();
    environment.steps("task.toml", &["echo out > ../escaped"], "");
    let ran = environment.run(&["run", "task.toml", "--no-sandbox"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(environment.folder().join("../escaped").exists());
    assert_eq!(ran.out.matches("sandbox off").count(), 1, "{}", ran.out);
    assert!(ran.out.contains("sandbox    off: commands had all the rights of your user"));
    let id = environment.id();
    for command in ["show", "why", "log"] {
        assert!(environment.ok(&[command, &id]).contains("off"), "{command}");
    }
    assert_eq!(environment.show(&id)["sandbox"]["level"], "off");
    let events = environment.events(&id);
    let of =
        |kind: &str| events.iter().find(|event| event["type"] == kind).unwrap()["sandbox"].clone();
    assert_eq!((of("task_started"), of("task_finished")), (Value::from("off"), Value::from("off")));
}

/// Without walls, whether namespaces work is found out once. Where they no longer do, the command fails with what
/// bubblewrap says, and the next process looks again and does without.
#[test]
fn a_namespace_without_walls_is_tried_once_and_again_after_it_failed() {
    let environment = TestEnvironment::new();
    environment.steps("task.toml", &["true"], "");
    let programs = environment.folder().join("../programs");
    let (tried, broken) = (programs.join("tried"), programs.join("broken"));
    std::fs::create_dir(&programs).unwrap();
    let script = format!(
        "#!/bin/sh\necho \"$*\" >> '{}'\n[ ! -e '{}' ] || {{ echo no room >&2; exit 1; }}\n\
         PATH=/usr/local/bin:/usr/bin:/bin exec bwrap \"$@\"\n",
        tried.display(),
        broken.display()
    );
    let bwrap = programs.join("bwrap");
    std::fs::write(&bwrap, script).unwrap();
    std::fs::set_permissions(&bwrap, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let environment = environment.with_variable("PATH", &path);
    let run = || {
        let ran = environment.run(&["run", "task.toml", "--no-sandbox"]);
        let said = std::fs::read_to_string(&tried).unwrap_or_default();
        let _ = std::fs::remove_file(&tried);
        let (trials, others): (Vec<&str>, Vec<&str>) =
            said.lines().partition(|line| line.ends_with("-- true"));
        (ran, trials.len(), others.len())
    };
    for (number, trials) in [(1, 1), (2, 0), (3, 0)] {
        let (ran, tried, began) = run();
        assert_eq!((ran.code, tried, began), (0, trials, 1), "{number}: {}{}", ran.out, ran.err);
    }
    std::fs::write(&broken, "").unwrap();
    let (ran, trials, _) = run();
    assert_eq!((ran.code, trials), (10, 0), "{}", ran.out);
    assert!(ran.out.contains("no room"), "{}{}", ran.out, ran.err);
    let (ran, trials, began) = run();
    assert_eq!((ran.code, trials, began), (0, 1, 0), "{}{}", ran.out, ran.err);
}

#[test]
fn a_file_cannot_switch_it_off() {
    let environment = TestEnvironment::new();
    environment.steps("task.toml", &["true"], "[sandbox]\nlevel = \"off\"\n");
    let ran = environment.run(&["run", "task.toml"]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("--no-sandbox"), "{}", ran.err);
    environment.steps("task.toml", &["true"], "");
    environment.write(".drivetrain/policy.toml", "[sandbox]\nlevel = \"reduced\"\n");
    for args in [&["trust", "--yes"][..], &["run", "task.toml", "--trust"]] {
        let ran = environment.run(args);
        assert_eq!(ran.code, 2, "{}", ran.out);
        assert!(ran.err.contains("--sandbox reduced"), "{}", ran.err);
    }
}

#[test]
fn what_a_toolchain_keeps_secret_in_its_folder_is_not_shown_with_it() {
    for level in ["full", "reduced"] {
        let environment = TestEnvironment::new();
        let uv = environment.folder().join("../.local/share/uv");
        std::fs::create_dir_all(uv.join("credentials")).unwrap();
        std::fs::create_dir_all(uv.join("tools")).unwrap();
        std::fs::write(uv.join("credentials/credentials.toml"), "secret-mark").unwrap();
        std::fs::write(uv.join("tools/tool"), "tool-mark").unwrap();
        let uv = uv.canonicalize().unwrap();
        let script =
            format!("cat {0}/credentials/credentials.toml; cat {0}/tools/tool", uv.display());
        environment.steps("task.toml", &[&script], "");
        let ran = environment.run(&["run", "task.toml", "--sandbox", level]);
        assert_eq!(ran.code, 0, "{level}: {}", ran.out);
        let result = environment.result("s1");
        assert!(result.contains("tool-mark"), "{level}: {result}");
        assert!(!result.contains("secret-mark"), "{level}: {result}");
    }
}

#[test]
fn the_reduced_walls_show_few_devices_and_nothing_that_is_roots_alone() {
    let environment = TestEnvironment::new();
    let left = format!("/dev/shm/left-{}", std::process::id());
    let script = format!(
        "echo x > {left} && echo kept; ls /dev/pts && echo terminals; cat /etc/shadow && echo shadow; \
         head -c 4 /dev/zero | wc -c; echo x > /dev/null && echo null; ls /etc | grep -x passwd; \
         grep -q . /etc/passwd && echo known"
    );
    environment.steps("task.toml", &[&script], "");
    let ran = environment.run(&["run", "task.toml", "--sandbox", "reduced"]);
    assert_eq!(ran.code, 0, "{}", ran.out);
    let result = environment.result("s1");
    for passed in ["kept", "terminals", "shadow\n"] {
        assert!(!result.contains(&format!("\n{passed}")), "{passed}: {result}");
    }
    assert!(result.contains("4\nnull\npasswd\nknown\n"), "{result}");
    assert!(!std::path::Path::new(&left).exists());
}

#[test]
fn the_reduced_walls_hold_what_they_promise() {
    let environment = TestEnvironment::new();
    std::fs::create_dir_all(environment.folder().join("../.ssh")).unwrap();
    std::fs::write(environment.folder().join("../.ssh/id"), "secret-mark").unwrap();
    let pid = std::process::id();
    let script = format!(
        "cat ../.ssh/id; ls ~ ..; echo x > ../escaped; echo x > /usr/escaped; kill -0 {pid}; cat /proc/{pid}/environ; \
         echo y > inside; echo z > $TMPDIR/t; cat inside $TMPDIR/t; \
         /usr/bin/perl -e 'use Socket; print socket(my $s, PF_INET, SOCK_STREAM, 0) ? \"net\" : \"\"'"
    );
    environment.steps("task.toml", &[&script], "");
    let ran = environment.run(&["run", "task.toml", "--sandbox", "reduced"]);
    assert_eq!(ran.code, 0, "{}", ran.out);
    let result = environment.result("s1");
    assert!(result.contains("y\nz\n") && !result.contains("secret-mark"), "{result}");
    assert!(!result.contains("net") && !result.contains("PATH="), "{result}");
    assert!(
        result.contains("Operation not permitted") || result.contains("No permission"),
        "{result}"
    );
    assert!(!environment.folder().join("../escaped").exists());
    assert_eq!(environment.show(&environment.id())["sandbox"]["level"], "reduced");
}
