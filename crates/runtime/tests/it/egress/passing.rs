//! What passes and what does not, and what the log says of it.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::Ordering;
use std::time::Duration;

use machine::policy::hosts::{Decision, Manner, Passage};
use runtime::egress::{Limits, PassageLog, bridge, read_log, variables};

use super::rig::{LONG, Rig, Server, read_some, tunnel};
use crate::read_once;

const HELLO: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

fn get(host: &str, port: u16) -> String {
    format!("GET http://{host}:{port}/x HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n")
}

#[test]
fn a_request_reaches_a_named_host_and_no_other() {
    let (good, other) = (Server::answering(HELLO), Server::answering(HELLO));
    let rig = Rig::new(&[format!("private:good.example:{}", good.port)]);
    let answer = rig.ask(get("good.example", good.port).as_bytes());
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("\r\n\r\nhello"), "{answer}");
    assert!(good.heard().starts_with("GET /x HTTP/1.1\r\nHost: good.example:"), "{}", good.heard());
    let answer = rig.ask(get("other.example", other.port).as_bytes());
    assert!(answer.starts_with("HTTP/1.1 403") && answer.contains("not in the list"), "{answer}");
    let answer = rig.ask(get("good.example", other.port).as_bytes());
    assert!(answer.contains("not with port"), "{answer}");
    assert_eq!((good.count(), other.count()), (1, 0));
    let name = |host: &str, port: u16| format!("{host}:{port}");
    assert_eq!(
        rig.told(4),
        [
            (Decision::Allowed, name("good.example", good.port)),
            (Decision::Ended, name("good.example", good.port)),
            (Decision::Refused, name("other.example", other.port)),
            (Decision::Refused, name("good.example", other.port)),
        ]
    );
    let log = rig.log.lock().unwrap();
    assert_eq!((log[0].reason.as_str(), log[0].bytes_up), ("to 127.0.0.1", 0));
    assert!(log[1].bytes_up > 40 && log[1].bytes_down == HELLO.len() as u64, "{:?}", log[1]);
}

#[test]
fn each_request_of_a_kept_connection_is_judged_anew() {
    let (good, other) = (Server::answering(HELLO), Server::answering(HELLO));
    let rig = Rig::new(&[format!("private:good.example:{}", good.port)]);
    let twice =
        get("good.example", good.port).repeat(2) + get("other.example", other.port).as_str();
    let answer = rig.ask(twice.as_bytes());
    assert_eq!(answer.matches("HTTP/1.1 200").count(), 2, "{answer}");
    assert_eq!(answer.matches("HTTP/1.1 403").count(), 1, "{answer}");
    assert_eq!((good.count(), other.count()), (2, 0));
}

#[test]
fn bodies_pass_in_both_framings_and_in_both_directions() {
    let chunked = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x\r\nabc\r\n2\r\nde\r\n0\r\nT: x\r\n\r\n";
    let server = Server::new(move |mut stream, heard| {
        let mut buffer = [0; 4096];
        loop {
            let got = stream.read(&mut buffer).unwrap();
            let mut heard = heard.lock().unwrap();
            heard.extend_from_slice(&buffer[..got]);
            if heard.ends_with(b"0\r\n\r\n") || heard.ends_with(b"\r\n\r\nfive!") || got == 0 {
                break;
            }
        }
        stream.write_all(chunked.as_bytes()).unwrap();
    });
    let rig = Rig::new(&[format!("private:a.example:{}", server.port)]);
    let post = |version: &str, rest: &str| {
        format!(
            "POST http://a.example:{0}/ HTTP/{version}\r\nHost: a.example:{0}\r\n{rest}",
            server.port
        )
    };
    let answer = rig.ask(
        post("1.1", "Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1;y\r\nc\r\n0\r\n\r\n")
            .as_bytes(),
    );
    assert!(answer.ends_with("\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"), "{answer}");
    assert!(
        server.heard().ends_with("\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n"),
        "{}",
        server.heard()
    );
    // A client that does not know chunks gets the bytes; one that waits for a word gets it.
    let answer = rig.ask(post("1.0", "Content-Length: 5\r\n\r\nfive!").as_bytes());
    assert!(answer.ends_with("\r\n\r\nabcde") && !answer.contains("chunked"), "{answer}");
    let answer =
        rig.ask(post("1.1", "Expect: 100-continue\r\nContent-Length: 5\r\n\r\nfive!").as_bytes());
    assert!(answer.starts_with("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200"), "{answer}");
    assert!(!server.heard().contains("Expect"));
}

#[test]
fn a_name_is_resolved_once_and_leads_inside_only_if_the_list_says_so() {
    let server = Server::echoing();
    let rig = Rig::new(&[format!("inner.example:{}", server.port)]);
    let answer =
        rig.ask(format!("CONNECT inner.example:{} HTTP/1.1\r\n\r\n", server.port).as_bytes());
    assert!(
        answer.starts_with("HTTP/1.1 403") && answer.contains("write private:inner.example"),
        "{answer}"
    );
    assert_eq!((server.count(), rig.resolved.load(Ordering::Relaxed)), (0, 1));
    // A name that is not in the list is not even asked for.
    rig.ask(b"CONNECT secret-in-a-name.evil.example:443 HTTP/1.1\r\n\r\n");
    assert_eq!(rig.resolved.load(Ordering::Relaxed), 1);
    // An address is itself, and only if it is named.
    let rig = Rig::new(&[format!("127.0.0.1:{}", server.port)]);
    tunnel(&rig, &format!("127.0.0.1:{}", server.port));
    let answer = rig.ask(format!("CONNECT 127.0.0.2:{} HTTP/1.1\r\n\r\n", server.port).as_bytes());
    assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
    assert_eq!(rig.resolved.load(Ordering::Relaxed), 0);
}

#[test]
fn a_host_that_is_not_there_is_told_as_such() {
    let rig = Rig::new(&["gone.invalid".to_owned(), "private:gone.example:9".to_owned()]);
    let answer = rig.ask(b"CONNECT gone.invalid:443 HTTP/1.1\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 502") && answer.contains("cannot resolve"), "{answer}");
    let answer = rig.ask(b"CONNECT gone.example:9 HTTP/1.1\r\n\r\n");
    assert!(answer.contains("cannot connect to 127.0.0.1:9"), "{answer}");
    assert_eq!(rig.told(2).iter().map(|line| line.0).collect::<Vec<_>>(), [Decision::Failed; 2]);
}

#[test]
fn socks_reaches_what_the_list_names() {
    let server = Server::echoing();
    let rig = Rig::new(&[format!("private:a.example:{}", server.port)]);
    let ask = |name: &[u8]| {
        let mut bytes = vec![5, 1, 0, 5, 1, 0, 3, u8::try_from(name.len()).unwrap()];
        bytes.extend_from_slice(name);
        bytes.extend_from_slice(&server.port.to_be_bytes());
        bytes
    };
    let mut stream = rig.connect();
    stream.write_all(&ask(b"a.example")).unwrap();
    assert_eq!(read_some(&mut stream, 12), [5, 0, 5, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    stream.write_all(b"ping").unwrap();
    assert_eq!(read_some(&mut stream, 4), b"ping");
    for name in [&b"b.example"[..], b"b.example\0a.example", b"a.example\0", b"A.EXAMPLE."] {
        let mut stream = rig.connect();
        stream.write_all(&ask(name)).unwrap();
        assert_eq!(read_some(&mut stream, 4), [5, 0, 5, 2], "{name:?}");
    }
    assert_eq!(server.count(), 1);
}

#[test]
fn a_tunnel_carries_much_both_ways_at_once_and_ends_when_both_have_ended() {
    let server = Server::echoing();
    let rig = Rig::new(&[format!("private:a.example:{}", server.port)]);
    let mut stream = tunnel(&rig, &format!("a.example:{}", server.port));
    let sent: Vec<u8> = (0..8_000_000u32).map(|n| (n % 251) as u8).collect();
    let mut writer = stream.try_clone().unwrap();
    let copy = sent.clone();
    let writing = std::thread::spawn(move || {
        writer.write_all(&copy).unwrap();
        writer.shutdown(Shutdown::Write).unwrap();
    });
    let mut got = Vec::new();
    stream.read_to_end(&mut got).unwrap();
    writing.join().unwrap();
    assert!(got == sent);
    rig.told(2);
    let log = rig.log.lock().unwrap();
    assert_eq!((log[1].bytes_up, log[1].bytes_down), (8_000_000, 8_000_000));
}

#[test]
fn a_tunnel_for_plain_web_is_held_to_its_host() {
    let server = Server::answering(HELLO);
    let rig = Rig::with(&[format!("private:a.example:{}", server.port)], Limits::default(), |_| {
        Manner::Http
    });
    let target = format!("a.example:{}", server.port);
    let ask = |host: &str| {
        let mut stream = tunnel(&rig, &target);
        write!(stream, "GET /y HTTP/1.1\r\nHost: {host}\r\n\r\n").unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    assert!(ask(&target).ends_with("hello"));
    assert!(ask("b.example").starts_with("HTTP/1.1 400"));
    assert_eq!(server.count(), 1);
    assert!(rig.reasons(3)[2].contains("the field Host says \"b.example\""));
}

#[test]
fn dropping_the_proxy_ends_everything() {
    let server = Server::echoing();
    let mut rig = Rig::new(&[format!("private:a.example:{}", server.port)]);
    let mode =
        |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let socket = rig.proxy.as_ref().unwrap().socket().to_owned();
    assert_eq!((mode(&rig.folder()), mode(&socket)), (0o700, 0o600));
    let mut busy = tunnel(&rig, &format!("a.example:{}", server.port));
    busy.write_all(b"ping").unwrap();
    assert_eq!(read_some(&mut busy, 4), b"ping");
    let mut idle = rig.connect();
    rig.proxy = None;
    assert_eq!(read_once(&mut busy, &mut [0; 9]).unwrap_or(0), 0);
    assert_eq!(read_once(&mut idle, &mut [0; 9]).unwrap_or(0), 0);
    assert!(!socket.exists());
    assert_eq!(rig.told(2).last().unwrap().0, Decision::Ended);
}

#[test]
fn a_silent_tunnel_and_one_too_many_are_ended() {
    let server = Server::echoing();
    let limits = Limits { connections: 2, idle: Duration::from_secs(2), ..Limits::default() };
    let rig = Rig::with(&[format!("private:a.example:{}", server.port)], limits, Manner::of);
    let target = format!("a.example:{}", server.port);
    let (mut one, mut two) = (tunnel(&rig, &target), tunnel(&rig, &target));
    one.write_all(b"a").unwrap();
    two.write_all(b"b").unwrap();
    let mut three = rig.connect();
    assert_eq!(read_once(&mut three, &mut [0; 9]).unwrap_or(0), 0);
    assert!(rig.reasons(3).iter().any(|reason| reason.contains("more than 2 connections")));
    assert_eq!(read_some(&mut one, 1), b"a");
    assert_eq!(read_once(&mut one, &mut [0; 9]).unwrap(), 0);
    assert!(rig.reasons(4).iter().any(|reason| reason.contains("timed out")));
}

#[test]
fn a_full_log_ends_what_is_allowed() {
    let server = Server::answering(HELLO);
    let limits = Limits { passages: 4, ..Limits::default() };
    let rig = Rig::with(&[format!("private:a.example:{}", server.port)], limits, Manner::of);
    for _ in 0..9 {
        rig.ask(get("a.example", server.port).as_bytes());
        rig.ask(get("b.example", server.port).as_bytes());
    }
    assert!(server.count() <= 2, "{}", server.count());
    let told = rig.reasons(7);
    assert_eq!(told.len(), 7, "{told:?}");
    assert!(told[6].contains("the log is full after 4 entries"), "{told:?}");
}

#[test]
fn a_bridge_carries_connections_to_the_socket() {
    let server = Server::answering(HELLO);
    let rig = Rig::new(&[format!("private:a.example:{}", server.port)]);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let socket = rig.proxy.as_ref().unwrap().socket().to_owned();
    std::thread::spawn(move || bridge(&socket, listener));
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    let close = get("a.example", server.port).replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n");
    stream.write_all(close.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.ends_with("hello"), "{answer}");
    let variables = variables(port);
    let of =
        |name: &str| variables.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str());
    assert_eq!(of("https_proxy"), Some(format!("http://127.0.0.1:{port}").as_str()));
    assert_eq!(of("NO_PROXY"), Some("localhost,127.0.0.1,::1"));
}

#[test]
fn the_log_is_kept_for_its_owner_and_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("network/abc.jsonl");
    assert_eq!(read_log(&path).unwrap(), []);
    let passage = Passage {
        host: "evil\u{1b}[2J\n.example".to_owned(),
        port: 443,
        decision: Decision::Refused,
        reason: "no".to_owned(),
        bytes_up: 0,
        bytes_down: 0,
    };
    for _ in 0..2 {
        PassageLog::open(&path).unwrap().write(passage.clone());
    }
    std::fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(b"half a li").unwrap();
    let entries = read_log(&path).unwrap();
    assert_eq!(entries.len(), 3);
    assert_eq!(entries[1].as_ref().unwrap().passage, passage);
    assert_eq!(entries[2], Err("half a li".to_owned()));
    let mode = std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
}

#[test]
fn the_log_shows_no_secret_that_was_put_into_the_name_of_a_host() {
    runtime::redact::learn("HOST_KEY", "Of-This-Test-0820");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("network/abc.jsonl");
    let passage = |host: &str| Passage {
        host: host.to_owned(),
        port: 443,
        decision: Decision::Refused,
        reason: format!("{} leads to no address", host.to_lowercase()),
        bytes_up: 0,
        bytes_down: 0,
    };
    let log = PassageLog::open(&path).unwrap();
    log.write(passage("of-this-test-0820.example"));
    log.write(passage("somebody:word@example"));
    let written = std::fs::read_to_string(&path).unwrap();
    assert!(!written.to_lowercase().contains("of-this-test-0820"), "{written}");
    assert!(written.contains("\"[redacted: HOST_KEY].example\""), "{written}");
    assert!(written.contains("\"host\":\"example\""), "{written}");
}
