//! Bytes that are made to confuse: none of them reaches what the list does not name.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use machine::policy::hosts::{Decision, Manner};
use proptest::prelude::*;
use runtime::egress::Limits;

use super::rig::{LONG, Rig, Server};

const HELLO: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

#[test]
fn hostile_heads_reach_nobody() {
    let (good, evil) = (Server::answering(HELLO), Server::answering(HELLO));
    let rig = Rig::new(&[format!("private:good.example:{}", good.port)]);
    let (g, e) = (good.port, evil.port);
    let heads = [
        format!("GET http://good.example:{g}/ HTTP/1.1\r\nHost: evil.example:{e}\r\n\r\n"),
        format!(
            "GET http://good.example:{g}@evil.example:{e}/ HTTP/1.1\r\nHost: evil.example:{e}\r\n\r\n"
        ),
        format!(
            "GET http://evil.example:{e}#@good.example:{g}/ HTTP/1.1\r\nHost: good.example:{g}\r\n\r\n"
        ),
        format!(
            "GET http://good.example:{g}/ HTTP/1.1\r\nHost: good.example:{g}\r\nContent-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET http://evil.example:{e}/ HTTP/1.1\r\nHost: evil.example:{e}\r\n\r\n"
        ),
        format!(
            "GET http://good.example:{g}/\r\nHost:evil HTTP/1.1\r\nHost: good.example:{g}\r\n\r\n"
        ),
        format!("GET http://good.example:{g}/ HTTP/1.1\nHost: good.example:{g}\n\n"),
        format!("CONNECT evil.example:{e}\0.good.example:{g} HTTP/1.1\r\n\r\n"),
        format!("CONNECT good.example:{g}\t HTTP/1.1\r\n\r\n"),
        format!("CONNECT 127.1:{e} HTTP/1.1\r\n\r\n"),
        format!("CONNECT 2130706433:{e} HTTP/1.1\r\n\r\n"),
        format!("CONNECT [::ffff:127.0.0.1]:{e} HTTP/1.1\r\n\r\n"),
        format!("CONNECT 0.0.0.0:{e} HTTP/1.1\r\n\r\n"),
        format!("CONNECT localhost:{e} HTTP/1.1\r\n\r\n"),
        format!("\r\n\r\nCONNECT good.example:{g} HTTP/1.1\r\n\r\n"),
        "\x04\x01\x00\x50\x7f\x00\x00\x01\x00".to_owned(),
        "\x16\x03\x01\x00\x05hello".to_owned(),
        "\r\n".repeat(9),
        "GET".to_owned(),
        format!(
            "GET http://good.example:{g}/ HTTP/1.1\r\nHost: good.example:{g}\r\nX: {}",
            "a".repeat(200_000)
        ),
        format!("GET http://good.example:{g}/{} HTTP/1.1\r\n\r\n", "a".repeat(40_000)),
    ];
    for head in &heads {
        let answer = rig.ask(head.as_bytes());
        let refused = answer.starts_with("HTTP/1.1 400") || answer.starts_with("HTTP/1.1 403");
        assert!(refused, "{:?}: {answer}", &head[..head.len().min(200)]);
    }
    assert_eq!((good.count(), evil.count()), (0, 0));
    let told = rig.told(heads.len());
    assert_eq!(told.len(), heads.len());
    assert!(told.iter().all(|line| line.0 == Decision::Refused));
}

#[test]
fn half_a_request_is_never_made_whole() {
    let server = Server::new(|mut stream, heard| {
        let mut all = Vec::new();
        let _ = stream.read_to_end(&mut all);
        heard.lock().unwrap().extend(all);
    });
    let rig = Rig::new(&[format!("private:a.example:{}", server.port)]);
    let head =
        format!("POST http://a.example:{0}/ HTTP/1.1\r\nHost: a.example:{0}\r\n", server.port);
    rig.ask(format!("{head}Content-Length: 10\r\n\r\nabc").as_bytes());
    rig.ask(format!("{head}Transfer-Encoding: chunked\r\n\r\n5\r\nabc").as_bytes());
    rig.ask(
        format!("{head}Transfer-Encoding: chunked\r\n\r\n3\r\nabcGET / HTTP/1.1\r\n\r\n")
            .as_bytes(),
    );
    assert_eq!(rig.told(6).iter().filter(|line| line.0 == Decision::Ended).count(), 3);
    let heard = server.heard();
    assert!(!heard.contains("0\r\n\r\n") && !heard.contains("GET"), "{heard}");
}

#[test]
fn a_broken_answer_is_told_as_such() {
    let table = [
        "nonsense\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\n",
        "HTTP/1.1 200 OK\r\nX: a\nY: b\r\n\r\n",
        "",
    ];
    for answer in table {
        let server = Server::answering(answer);
        let rig = Rig::new(&[format!("private:a.example:{}", server.port)]);
        let got = rig.ask(
            format!(
                "GET http://a.example:{0}/ HTTP/1.1\r\nHost: a.example:{0}\r\n\r\n",
                server.port
            )
            .as_bytes(),
        );
        assert!(got.starts_with("HTTP/1.1 502"), "{answer:?}: {got}");
        assert!(!rig.reasons(2)[1].is_empty());
    }
}

#[test]
fn a_client_that_takes_its_time_is_not_waited_for() {
    let server = Server::echoing();
    let limits = Limits { head: Duration::from_millis(300), ..Limits::default() };
    let rig = Rig::with(&[format!("private:a.example:{}", server.port)], limits, Manner::of);
    let began = Instant::now();
    let slow = |mut stream: UnixStream, bytes: &[u8]| {
        let mut writer = stream.try_clone().unwrap();
        let bytes = bytes.to_vec();
        let writing = std::thread::spawn(move || {
            for byte in bytes {
                if writer.write_all(&[byte]).is_err() {
                    return;
                }
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        writing.join().unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    };
    let answer = slow(rig.connect(), b"GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n");
    assert!(answer.contains("did not come in time"), "{answer}");
    slow(rig.connect(), b"\x05\x01\x00\x05\x01\x00\x03\x09a.example\x00\x50xxxxxxxxxx");
    assert!(began.elapsed() < LONG);
    assert_eq!(server.count(), 0);
}

fn fragments(evil: u16) -> impl Strategy<Value = Vec<u8>> {
    let text = move |text: &str| Just(text.replace("PORT", &evil.to_string()).into_bytes());
    let piece = prop_oneof![
        text("GET http://evil.example:PORT/ HTTP/1.1\r\n"),
        text("GET http://a.example:1@evil.example:PORT/ HTTP/1.1\r\n"),
        text("CONNECT evil.example:PORT HTTP/1.1\r\n"),
        text("CONNECT 127.0.0.1:PORT HTTP/1.1\r\n"),
        text("CONNECT a.example.:PORT HTTP/1.1\r\n"),
        text("CONNECT a.example:PORT HTTP/1.1\r\n"),
        text("Host: evil.example:PORT\r\n"),
        text("Host: a.example\r\n"),
        text("Content-Length: 3\r\n"),
        text("Transfer-Encoding: chunked\r\n"),
        text("\r\n"),
        text("\n"),
        text("0\r\n\r\n"),
        Just(vec![5, 1, 0]),
        Just([&[5, 1, 0, 1, 127, 0, 0, 1][..], &evil.to_be_bytes()].concat()),
        Just([&[5, 1, 0, 3, 12][..], b"evil.example", &evil.to_be_bytes()].concat()),
        Just([&[5, 1, 0, 3, 14][..], b"evil\0a.example", &evil.to_be_bytes()].concat()),
        proptest::collection::vec(any::<u8>(), 0..20),
    ];
    proptest::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
}

#[test]
fn whatever_is_sent_nobody_is_reached_who_is_not_named() {
    let evil = Server::echoing();
    let rig = Rig::new(&["private:a.example".to_owned(), "*.evil.example".to_owned()]);
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases: 2 * ProptestConfig::default().cases,
        ..ProptestConfig::default()
    });
    runner
        .run(&fragments(evil.port), |bytes| {
            rig.ask(&bytes);
            prop_assert_eq!(evil.count(), 0);
            Ok(())
        })
        .unwrap();
    // It is still there for an honest client.
    assert!(rig.ask(b"CONNECT evil.example:443 HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 403"));
}
