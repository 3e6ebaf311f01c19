//! How much a command may take.

use crate::environment::TestEnvironment;

/// Runs one step with limits; what it printed.
fn limited(limits: &str, script: &str) -> String {
    let environment = TestEnvironment::new();
    environment.steps("task.toml", &[script], &format!("[sandbox]\n{limits}\n"));
    let ran = environment.run(&["run", "task.toml"]);
    assert!([0, 10].contains(&ran.code), "{}{}", ran.out, ran.err);
    environment.result("s1")
}

#[test]
fn files_have_a_largest_size_and_the_private_folders_too() {
    let script = "dd if=/dev/zero of=large bs=1M count=8; ls -s large; dd if=/dev/zero of=/tmp/large bs=64k count=99; \
        for i in 1 2 3; do dd if=/dev/zero of=/tmp/f$i bs=1M count=1; done; echo over";
    let result = limited("file_size = \"2M\"", script);
    assert!(result.contains("2048 large") || result.contains("2052 large"), "{result}");
    assert!(result.contains("No space left on device"), "{result}");
    assert!(result.ends_with("over\n"), "{result}");
}

#[test]
fn what_programs_share_in_memory_has_a_size_and_devices_are_no_place_for_files() {
    let script = "df -k /dev/shm | tail -n 1; touch /dev/shm/x && echo open; touch /dev/x || echo closed; \
        echo gone > /dev/null && echo over";
    let result = limited("file_size = \"2M\"", script);
    assert!(result.contains(" 2048 ") && result.contains("open\n"), "{result}");
    assert!(result.contains("closed\n") && result.ends_with("over\n"), "{result}");
}

#[test]
fn memory_open_files_and_time_on_the_processor_are_limited() {
    let result = limited(
        "memory = \"64M\"",
        "/usr/bin/perl -e '$x = \"x\" x 300_000_000; print length $x'; echo end $?",
    );
    assert!(result.contains("Out of memory") && !result.contains("300000000"), "{result}");
    let result = limited("open_files = 16", "ulimit -n");
    assert_eq!(result, "16\n");
    let result = limited("cpu_time = \"1s\"", "sh -c 'while :; do :; done'; echo end $?");
    assert!(result.contains("end 137") || result.contains("end 152"), "{result}");
}

#[test]
fn a_fork_bomb_stays_small() {
    let bomb = "/usr/bin/perl -e '$| = 1; my $n = 0; for (1..300) { my $p = fork; last unless defined $p; \
        if (!$p) { sleep 30; exit } $n++ } print \"$n of 300\\n\"'";
    let result = limited("processes = 40", bomb);
    let made: u32 = result.split(' ').next().unwrap().trim().parse().unwrap_or(0);
    assert!((10..40).contains(&made), "{result}");
}
