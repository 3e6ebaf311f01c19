//! Programs that people use, sent through the bridge by nothing but their variables.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output};

use machine::policy::hosts::Decision;
use runtime::egress::{bridge, variables};

use super::rig::{Rig, Server};

/// A command that finds the proxy in its variables, or `None` if there is no such program here.
fn command(rig: &Rig, program: &str) -> Option<Command> {
    Command::new(program).arg("--version").output().ok()?;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let socket = rig.proxy.as_ref().unwrap().socket().to_owned();
    std::thread::spawn(move || bridge(&socket, listener));
    let mut command = Command::new(program);
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap()).envs(variables(port));
    command.env("HOME", "/nonexistent").env("GIT_CONFIG_NOSYSTEM", "1");
    Some(command)
}

fn text(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

const HELLO: &str = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello\n";

#[test]
fn curl_reaches_what_is_named_in_each_of_its_ways() {
    let (good, other) = (Server::answering(HELLO), Server::answering(HELLO));
    let rig = Rig::new(&[format!("private:good.example:{}", good.port)]);
    let run = |arguments: &[&str]| {
        let mut curl = command(&rig, "curl")?;
        let output = curl.args(["-sS", "--max-time", "20"]).args(arguments).output().unwrap();
        Some((output.status.success(), text(&output)))
    };
    let (to_good, to_other) = (
        format!("http://good.example:{}/", good.port),
        format!("http://other.example:{}/", other.port),
    );
    let Some((ok, said)) = run(&["-f", &to_good]) else { return };
    assert!(ok && said == "hello\n", "{said}");
    let (ok, said) = run(&["-f", "--proxytunnel", &to_good]).unwrap();
    assert!(ok && said == "hello\n", "{said}");
    let (ok, said) = run(&["-f", &to_good, &to_good]).unwrap();
    assert!(ok && said == "hello\nhello\n", "{said}");
    let (ok, said) = run(&["-f", &to_other]).unwrap();
    assert!(!ok && said.contains("403"), "{said}");
    let (ok, said) = run(&["--proxytunnel", &to_other]).unwrap();
    assert!(!ok && said.contains("403"), "{said}");
    let (_, said) = run(&[&to_other]).unwrap();
    assert!(said.contains("other.example is not in the list of hosts"), "{said}");
    assert_eq!(other.count(), 0);
}

#[test]
fn curl_uploads_a_large_file_and_waits_for_a_word_first() {
    use std::io::{Read, Write};
    const SIZE: usize = 3_000_000;
    let server = Server::new(|mut stream, heard| {
        let (mut buffer, mut all) = ([0; 65536], Vec::new());
        while !all.ends_with(b"\nend\n") {
            let got = stream.read(&mut buffer).unwrap();
            assert!(got > 0);
            all.extend_from_slice(&buffer[..got]);
        }
        heard.lock().unwrap().extend_from_slice(&all);
        stream.write_all(HELLO.as_bytes()).unwrap();
    });
    let rig = Rig::new(&[format!("private:good.example:{}", server.port)]);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "x".repeat(SIZE) + "\nend\n").unwrap();
    let data = format!("@{}", file.path().display());
    let url = format!("http://good.example:{}/", server.port);
    let Some(mut curl) = command(&rig, "curl") else { return };
    curl.args(["-sS", "--max-time", "20", "-f", "-H", "Expect: 100-continue"]);
    let output = curl.args(["--data-binary", &data, &url]).output().unwrap();
    assert_eq!(text(&output), "hello\n");
    let heard = server.heard();
    assert!(heard.ends_with(&format!("\r\n\r\n{}\nend\n", "x".repeat(SIZE))));
}

#[test]
fn curl_speaks_socks_with_names() {
    let (good, other) = (Server::answering(HELLO), Server::answering(HELLO));
    let rig = Rig::new(&[format!("private:good.example:{}", good.port)]);
    let run = |host: &str, port: u16| {
        let mut curl = command(&rig, "curl")?;
        let proxy = curl.get_envs().find(|(name, _)| *name == "ALL_PROXY")?.1?.to_str()?.to_owned();
        let socks = proxy.replace("http://", "socks5h://");
        let url = format!("http://{host}:{port}/");
        Some(text(
            &curl.args(["-sS", "--max-time", "20", "--proxy", &socks, &url]).output().unwrap(),
        ))
    };
    let Some(said) = run("good.example", good.port) else { return };
    assert_eq!(said, "hello\n");
    let said = run("other.example", other.port).unwrap();
    assert!(said.contains("(2)") || said.contains("not allowed"), "{said}");
    assert_eq!(other.count(), 0);
}

/// Serves the files of a folder, as a plain web server does.
fn files(folder: &Path) -> Server {
    use std::io::{Read, Write};
    let folder = folder.to_owned();
    Server::new(move |mut stream, _| {
        let mut head = Vec::new();
        let mut byte = [0];
        while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|got| got == 1) {
            head.push(byte[0]);
        }
        let head = String::from_utf8_lossy(&head).into_owned();
        let path =
            head.split(' ').nth(1).unwrap_or("/").split('?').next().unwrap_or_default().to_owned();
        let answer = match std::fs::read(folder.join(path.trim_start_matches('/'))) {
            Ok(bytes) => [
                format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", bytes.len()).into_bytes(),
                bytes,
            ]
            .concat(),
            Err(_) => b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".to_vec(),
        };
        let _ = stream.write_all(&answer);
    })
}

#[test]
fn git_clones_from_what_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let script = "git init -q src && cd src && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m one \
                  && git clone -q --bare . ../repo.git && cd ../repo.git && git update-server-info";
    let made = Command::new("sh").args(["-c", script]).current_dir(&folder).output();
    if !made.is_ok_and(|made| made.status.success()) {
        return;
    }
    let server = files(folder.path());
    let rig = Rig::new(&[format!("private:git.example:{}", server.port)]);
    let clone = |host: &str, into: &str| {
        let mut git = command(&rig, "git").unwrap();
        git.args(["clone", "-q", &format!("http://{host}:{}/repo.git", server.port), into]);
        git.env("GIT_TERMINAL_PROMPT", "0").current_dir(&folder).output().unwrap()
    };
    let good = clone("git.example", "one");
    assert!(good.status.success(), "{}", text(&good));
    let before = server.count();
    let other = clone("other.example", "two");
    assert!(!other.status.success() && text(&other).contains("403"), "{}", text(&other));
    assert_eq!(server.count(), before);
    assert!(rig.told(1).iter().any(|line| line.0 == Decision::Refused));
}

#[test]
fn python_reaches_what_is_named() {
    let (good, other) = (Server::answering(HELLO), Server::answering(HELLO));
    let rig = Rig::new(&[format!("private:good.example:{}", good.port)]);
    let Some(mut python) = command(&rig, "python3") else { return };
    let script = "import sys, urllib.request as r\nprint(r.urlopen(sys.argv[1]).read().decode())\nr.urlopen(sys.argv[2])";
    let urls = [
        format!("http://good.example:{}/", good.port),
        format!("http://other.example:{}/", other.port),
    ];
    let output = python.args(["-c", script]).args(urls).output().unwrap();
    let said = text(&output);
    assert!(said.starts_with("hello\n") && said.contains("HTTP Error 403"), "{said}");
    assert_eq!((good.count(), other.count()), (1, 0));
}
