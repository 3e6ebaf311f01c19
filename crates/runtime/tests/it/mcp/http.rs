//! The same over streamable HTTP: headers, sessions, refusals and addresses that are not spoken to.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use machine::tool::Status;
use serde_json::json;

use super::{Rig, script, text};

/// A server on a free port; ended with the test.
struct Server {
    child: Child,
    port: String,
}

impl Server {
    fn start(rig: &Rig, token: &str) -> Server {
        Server::at("0", &[], rig, token)
    }

    fn at(port: &str, more: &[&str], rig: &Rig, token: &str) -> Server {
        let mut child = Command::new("python3")
            .args([&script(), "--http", port])
            .args(more)
            .env("MCP_LOG", rig.log_file())
            .env("MCP_TOKEN", token)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut port = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut port).unwrap();
        Server { child, port: port.trim().to_owned() }
    }

    fn declare(&self, rig: &Rig, header: &str) {
        rig.declare(&format!(
            "[server.test]\nurl = \"http://127.0.0.1:{}/mcp\"\nheaders = {{ Authorization = \"{header}\" }}\n",
            self.port
        ));
        rig.trust();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn tools_over_http_are_found_and_called_and_the_session_is_ended() {
    let rig = Rig::empty();
    let server = Server::start(&rig, "right-token");
    server.declare(&rig, "Bearer ${MCP_NO_SUCH:-right-token}");
    let offered = rig.open();
    assert_eq!(offered.problem, None);
    assert_eq!(offered.tools.len(), 12);
    assert_eq!(text(&rig.call("echo", json!({ "text": "over there" }))), "over there");
    assert_eq!(rig.call("fail", json!({})).status, Status::Error);
    rig.mcp.close("t1");
    rig.wait_for("session ended");
    assert!(rig.log().contains("header Bearer right-token"));
}

#[test]
fn a_server_over_http_of_the_newest_revision_is_understood() {
    let rig = Rig::empty();
    let server = Server::at("0", &["--modern"], &rig, "right-token");
    server.declare(&rig, "Bearer right-token");
    assert_eq!(rig.open().problem, None);
    assert_eq!(text(&rig.call("echo", json!({ "text": "x" }))), "x");
    assert!(rig.log().contains("server/discover"), "{}", rig.log());
}

#[test]
fn a_refused_token_is_a_problem_that_does_not_show_it() {
    let rig = Rig::empty();
    let server = Server::start(&rig, "right-token");
    server.declare(&rig, "Bearer wrong-token-77");
    let problem = rig.open().problem.unwrap();
    assert!(!problem.contains("wrong-token-77"), "{problem}");
    assert!(problem.to_lowercase().contains("auth"), "{problem}");
}

#[test]
fn a_server_over_http_that_goes_away_is_an_error() {
    let rig = Rig::empty();
    let server = Server::start(&rig, "right-token");
    server.declare(&rig, "Bearer right-token");
    rig.open();
    drop(server);
    let lost = rig.call("echo", json!({ "text": "x" }));
    assert_eq!(lost.status, Status::Error);
    assert!(lost.text.contains("server test:"), "{}", lost.text);
}

#[test]
fn a_server_over_http_that_comes_back_is_spoken_to_again() {
    let rig = Rig::empty();
    let server = Server::start(&rig, "right-token");
    server.declare(&rig, "Bearer right-token");
    rig.open();
    let port = server.port.clone();
    drop(server);
    assert_eq!(rig.call("echo", json!({ "text": "x" })).status, Status::Error);
    let _back = Server::at(&port, &[], &rig, "right-token");
    assert_eq!(text(&rig.call("echo", json!({ "text": "again" }))), "again");
}

#[test]
fn a_server_that_nobody_runs_is_a_problem_in_plain_words() {
    let rig = Rig::empty();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    rig.declare(&format!("[server.test]\nurl = \"http://{free}/mcp\"\n"));
    rig.trust();
    let problem = rig.open().problem.unwrap();
    assert!(problem.contains("Connection refused"), "{problem}");
    assert!(!problem.contains("rmcp"), "{problem}");
}

#[test]
fn in_the_clear_only_this_machine_is_spoken_to() {
    let rig = Rig::empty();
    rig.declare("[server.test]\nurl = \"http://example.org/mcp\"\n");
    rig.trust();
    assert!(rig.open().problem.unwrap().contains("must be https"));
}
