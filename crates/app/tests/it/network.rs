//! What a person sees of the hosts that a sandbox has reached for.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::environment::TestEnvironment;

#[test]
fn the_log_of_hosts_is_shown_with_control_characters_made_visible() {
    let place = TestEnvironment::new();
    place.steps("task.toml", &["true"], "");
    place.ok(&["run", "task.toml"]);
    let id = place.id();
    let none = place.ok(&["log", &id, "--network"]);
    assert_eq!(none, "no sandbox of this task has reached for a host\n");
    let folder = place.home().join("network");
    std::fs::create_dir_all(&folder).unwrap();
    let lines = [
        r#"{"time":1000,"host":"crates.io","port":443,"decision":"allowed","reason":"to 192.0.2.1","bytes_up":0,"bytes_down":0}"#,
        r#"{"time":2000,"host":"crates.io","port":443,"decision":"ended","reason":"","bytes_up":10,"bytes_down":2000}"#,
        r#"{"time":3000,"host":"evil\u0000\u001b[2J\n.example","port":0,"decision":"refused","reason":"it holds a NUL","bytes_up":0,"bytes_down":0}"#,
        "{\"time\":40\u{1b}[2J",
    ];
    std::fs::write(folder.join(format!("{id}.jsonl")), lines.join("\n")).unwrap();
    insta::assert_snapshot!(place.ok(&["log", &id, "--network"]), @r#"
    1970-01-01 00:00:01  allowed  crates.io:443 to 192.0.2.1
    1970-01-01 00:00:02  ended    crates.io:443, 10 bytes out, 2000 in
    1970-01-01 00:00:03  refused  evil\x00\x1b[2J\n.example: it holds a NUL
    not an entry: {"time":40\x1b[2J
    "#);
    let json = place.ok(&["log", &id, "--network", "--json"]);
    assert_eq!(json.lines().count(), 3);
    assert!(json.starts_with("{\"time\":1000,\"host\":\"crates.io\""), "{json}");
}

/// A web server on this machine; how often it was reached.
fn server(text: &'static str) -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (port, count) = (listener.local_addr().unwrap().port(), Arc::new(AtomicUsize::new(0)));
    let own = Arc::clone(&count);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            own.fetch_add(1, Ordering::SeqCst);
            let mut head = [0; 4096];
            let _ = stream.read(&mut head);
            let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{text}", text.len());
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    (port, count)
}

#[test]
fn a_command_in_a_box_reaches_the_hosts_of_its_list_and_no_other() {
    let place = TestEnvironment::new();
    let (good, reached) = server("hello from outside\n");
    let (other, missed) = server("not for you\n");
    let get = |host: &str, port: u16| format!("curl -sS -m 20 --noproxy '' http://{host}:{port}/");
    let commands = [
        get("127.0.0.1", good),
        get("localhost", good),
        get("127.0.0.1", other),
        // Past the proxy there is nothing, not even the port that answers outside.
        format!("curl -sS -m 5 --noproxy '*' http://127.0.0.1:{good}/ || echo unreachable"),
        // What carries the bytes is out of the command's reach, and no child of its.
        "for p in /proc/[0-9]*; do case $(tr '\\0' ' ' < $p/cmdline) in /proc/self/exe*) echo found; \
         kill ${p#/proc/} && echo killed; ls $p/fd/1/ >/dev/null 2>&1 && echo seen;; esac; done; \
         echo done"
            .to_owned(),
        get("127.0.0.1", good),
        format!("(sleep 0.1; exit 3) & wait; {}", get("localhost", good)),
    ];
    let commands: Vec<&str> = commands.iter().map(String::as_str).collect();
    let list =
        format!("[sandbox]\nnetwork = [\"127.0.0.1:{good}\", \"private:localhost:{good}\"]\n");
    place.steps("task.toml", &commands, &list);
    let temporary = place.home().with_file_name("temporary");
    std::fs::create_dir(&temporary).unwrap();
    let output = place.command(&["run", "task.toml"]).env("TMPDIR", &temporary).output().unwrap();
    let ran = place.ran(output);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert_eq!(ran.out.matches("hello from outside").count(), 4, "{}", ran.out);
    assert!(
        ran.out.contains(&format!("127.0.0.1 is in the list of hosts, but not with port {other}")),
        "{}",
        ran.out
    );
    assert!(ran.out.contains("unreachable"), "{}", ran.out);
    assert!(ran.out.contains("| found") && ran.out.contains("| done"), "{}", ran.out);
    assert!(!ran.out.contains("| killed") && !ran.out.contains("| seen"), "{}", ran.out);
    assert_eq!((reached.load(Ordering::SeqCst), missed.load(Ordering::SeqCst)), (4, 0));
    let log = place.ok(&["log", &place.id(), "--network"]);
    let words: Vec<&str> = log.lines().filter_map(|line| line.split_whitespace().nth(2)).collect();
    assert_eq!(
        words,
        ["allowed", "ended", "allowed", "ended", "refused", "allowed", "ended", "allowed", "ended"],
        "{log}"
    );
    // Nothing is left behind.
    assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 0);
}

#[test]
fn a_list_that_cannot_be_meant_is_refused_before_anything_runs() {
    let place = TestEnvironment::new();
    place.steps("task.toml", &["true"], "[sandbox]\nnetwork = [\"https://crates.io\", \"*\"]\n");
    let ran = place.run(&["run", "task.toml"]);
    assert_eq!(ran.code, 2, "{}", ran.err);
    assert!(
        ran.err.contains("write the host alone") && ran.err.contains("names every host"),
        "{}",
        ran.err
    );
}
