//! What a person sees of the hosts that a sandbox has reached for.

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
