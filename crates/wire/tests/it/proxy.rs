//! What a proxy reads: hostile heads, half frames, and any bytes at all.

use machine::policy::hosts::Host;
use proptest::prelude::*;
use wire::proxy::chunks::{Chunks, Piece};
use wire::proxy::head::{Answer, Body, Form, MAX_HEAD, Request, Wish, end, own_answer};
use wire::proxy::hello::{Hello, server_name};
use wire::proxy::socks::{self, Code};

fn request(text: &str) -> Result<Request, String> {
    Request::parse(text.as_bytes(), Form::Proxy).map_err(|fault| fault.reason)
}

fn onward(text: &str) -> String {
    String::from_utf8(request(text).unwrap().onward()).unwrap()
}

#[test]
fn a_request_is_written_anew_without_what_concerns_one_connection() {
    let head = onward(
        "POST http://Example.org:8080/a?b=c HTTP/1.1\r\nHost: example.ORG:8080\r\nAccept: */*\r\nConnection: x-one, Keep-Alive\r\nX-One: 1\r\nKeep-Alive: 5\r\nProxy-Authorization: Basic x\r\nProxy-Connection: keep-alive\r\nTE: trailers\r\nTrailer: x\r\nUpgrade: websocket\r\nContent-Length: 3\r\nCookie:  a=b \r\n\r\n",
    );
    assert_eq!(
        head,
        "POST /a?b=c HTTP/1.1\r\nHost: example.org:8080\r\nAccept: */*\r\nCookie: a=b\r\nContent-Length: 3\r\nConnection: close\r\n\r\n"
    );
    assert!(
        onward("GET http://example.org HTTP/1.0\r\n\r\n")
            .starts_with("GET / HTTP/1.1\r\nHost: example.org\r\n")
    );
    assert!(
        onward("GET http://example.org?q HTTP/1.0\r\n\r\n").starts_with("GET /?q HTTP/1.1\r\n")
    );
    assert!(
        onward("GET HTTP://[::1]:81/ HTTP/1.1\r\nhost: [::1]:81\r\n\r\n")
            .contains("Host: [::1]:81\r\n")
    );
}

#[test]
fn a_tunnel_names_a_host_and_a_port() {
    let asked = request("CONNECT crates.io:443 HTTP/1.1\r\nHost: crates.io:443\r\n\r\n").unwrap();
    assert_eq!(
        (asked.wish, asked.host, asked.port),
        (Wish::Tunnel, Host::Name("crates.io".into()), 443)
    );
    // Some clients name the host without its port, some not at all.
    request("CONNECT crates.io:443 HTTP/1.1\r\nHost: crates.io\r\n\r\n").unwrap();
    request("CONNECT crates.io:443 HTTP/1.0\r\n\r\n").unwrap();
    request("CONNECT [::1]:443 HTTP/1.1\r\n\r\n").unwrap();
}

#[test]
fn hostile_heads_are_refused() {
    let with =
        |lines: &str| format!("GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\n{lines}\r\n");
    let table = [
        ("GET / HTTP/1.1\r\nHost: a.example\r\n\r\n".to_owned(), "whole address"),
        ("GET https://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n".to_owned(), "whole address"),
        ("GET http://a.example/ HTTP/1.1\r\n\r\n".to_owned(), "Host is missing"),
        ("GET http://a.example/ HTTP/1.1\r\nHost: b.example\r\n\r\n".to_owned(), "Host says"),
        ("GET http://a.example/ HTTP/1.1\r\nHost: a.example:81\r\n\r\n".to_owned(), "Host says"),
        (
            "GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\nHost: a.example\r\n\r\n"
                .to_owned(),
            "more than once",
        ),
        (
            "GET http://a.example@b.example/ HTTP/1.1\r\nHost: b.example\r\n\r\n".to_owned(),
            "holds an @",
        ),
        (
            "GET http://b.example\\@a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n".to_owned(),
            "no plain host",
        ),
        ("GET http://a.example#b HTTP/1.1\r\nHost: a.example\r\n\r\n".to_owned(), "fragment"),
        (
            "GET http://a.example:/ HTTP/1.1\r\nHost: a.example\r\n\r\n".to_owned(),
            "expected a port",
        ),
        ("GET http:///x HTTP/1.1\r\nHost: \r\n\r\n".to_owned(), "it is empty"),
        ("GET http://a%2eexample/ HTTP/1.1\r\nHost: a.example\r\n\r\n".to_owned(), "percent"),
        ("GET http://a.example/ HTTP/2\r\nHost: a.example\r\n\r\n".to_owned(), "expected HTTP/1.1"),
        ("GET http://a.example/ HTTP/1.1 \r\nHost: a.example\r\n\r\n".to_owned(), "three words"),
        ("GET  http://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n".to_owned(), "three words"),
        ("GET http://a.example/ b HTTP/1.1\r\nHost: a.example\r\n\r\n".to_owned(), "three words"),
        (
            "GET\thttp://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n".to_owned(),
            "not plain ASCII",
        ),
        (
            "GET http://a.example/ü HTTP/1.1\r\nHost: a.example\r\n\r\n".to_owned(),
            "not plain ASCII",
        ),
        (
            "GET http://a.example/\0 HTTP/1.1\r\nHost: a.example\r\n\r\n".to_owned(),
            "control character",
        ),
        ("GET http://a.example/ HTTP/1.1\nHost: a.example\r\n\r\n".to_owned(), "control character"),
        (
            "G(T http://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n".to_owned(),
            "expected a method",
        ),
        ("CONNECT a.example HTTP/1.1\r\n\r\n".to_owned(), "host:port"),
        ("CONNECT a.example:0 HTTP/1.1\r\n\r\n".to_owned(), "expected a port"),
        ("CONNECT a.example:443:443 HTTP/1.1\r\n\r\n".to_owned(), "colon"),
        ("CONNECT ::1:443 HTTP/1.1\r\n\r\n".to_owned(), "in brackets"),
        ("CONNECT http://a.example:443 HTTP/1.1\r\n\r\n".to_owned(), "colon"),
        ("CONNECT a.example:443 HTTP/1.1\r\nHost: b.example:443\r\n\r\n".to_owned(), "Host says"),
        ("CONNECT a.example:443 HTTP/1.1\r\nContent-Length: 3\r\n\r\n".to_owned(), "no body"),
        (with("X: a\nY: b\r\n"), "control character"),
        (with("X: a\rY: b\r\n"), "control character"),
        (with("X: a\0b\r\n"), "control character"),
        (with("X : a\r\n"), "no field"),
        (with(" folded\r\n"), "no field"),
        (with("nothing\r\n"), "no field"),
        (with(": a\r\n"), "no field"),
        (with("Content-Length: 1\r\nContent-Length: 1\r\n"), "more than once"),
        (with("Content-Length: 1, 1\r\n"), "one plain number"),
        (with("Content-Length: +1\r\n"), "one plain number"),
        (with("Content-Length: 0x1\r\n"), "one plain number"),
        (with("Content-Length: \r\n"), "one plain number"),
        (with("Content-Length: 99999999999999999999\r\n"), "one plain number"),
        (with("Content-Length: 1\r\nTransfer-Encoding: chunked\r\n"), "both"),
        (with("Transfer-Encoding: gzip, chunked\r\n"), "transfer coding"),
        (with("Transfer-Encoding: xchunked\r\n"), "transfer coding"),
        (with("Transfer-Encoding: \u{b}chunked\r\n"), "control character"),
        (with("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"), "more than once"),
        (with("Connection: content-length\r\nContent-Length: 1\r\n"), "not its own"),
        (with("Connection: close, Host\r\n"), "not its own"),
        (with("Expect: something\r\n"), "expectation"),
        (with(&"a: b\r\n".repeat(200)), "more than 128 fields"),
        (with(&format!("a: {}\r\n", "b".repeat(MAX_HEAD))), "longer than 32 KiB"),
        (
            "GET http://a.example/ HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n".to_owned(),
            "transfer coding",
        ),
        ("GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\n".to_owned(), "empty line"),
        ("\r\n\r\n".to_owned(), "three words"),
        (String::new(), "empty line"),
    ];
    for (head, expected) in table {
        let fault = request(&head).expect_err(&head);
        assert!(fault.contains(expected), "{head:?}: {fault}");
    }
}

#[test]
fn a_fault_tells_which_host_was_asked_for() {
    let fault =
        Request::parse(b"CONNECT evil.example%00:443 HTTP/1.1\r\n\r\n", Form::Proxy).unwrap_err();
    assert_eq!(fault.host, "evil.example%00");
}

#[test]
fn inside_a_tunnel_the_host_is_the_one_of_the_tunnel() {
    let host = Host::Name("a.example".into());
    let form = Form::Tunnel(&host, 80);
    let read = |text: &str| Request::parse(text.as_bytes(), form).map_err(|fault| fault.reason);
    let good = read("GET /x HTTP/1.1\r\nHost: a.example\r\n\r\n").unwrap();
    assert!(good.onward().starts_with(b"GET /x HTTP/1.1\r\nHost: a.example\r\n"));
    for bad in [
        "GET /x HTTP/1.1\r\nHost: b.example\r\n\r\n",
        "GET /x HTTP/1.1\r\n\r\n",
        "GET http://b.example/ HTTP/1.1\r\nHost: b.example\r\n\r\n",
        "GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n",
        "CONNECT a.example:80 HTTP/1.1\r\nHost: a.example\r\n\r\n",
        "OPTIONS * HTTP/1.1\r\nHost: a.example\r\n\r\n",
    ] {
        assert!(read(bad).is_err(), "{bad}");
    }
}

#[test]
fn an_answer_has_one_length() {
    let body = |head: &str, method: &str| {
        Answer::parse(head.as_bytes(), method)
            .map(|answer| answer.body)
            .map_err(|fault| fault.reason)
    };
    assert_eq!(body("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", "GET"), Ok(Body::Length(5)));
    assert_eq!(body("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", "HEAD"), Ok(Body::None));
    assert_eq!(body("HTTP/1.1 304 x\r\nContent-Length: 5\r\n\r\n", "GET"), Ok(Body::None));
    assert_eq!(body("HTTP/1.1 200\r\n\r\n", "GET"), Ok(Body::UntilEnd));
    assert_eq!(
        body("HTTP/1.1 200 \r\nTransfer-Encoding: chunked\r\n\r\n", "GET"),
        Ok(Body::Chunked)
    );
    for bad in [
        "HTTP/1.1 20 OK\r\n\r\n",
        "HTTP/1.1 2000 OK\r\n\r\n",
        "HTTP/1.1 +20 OK\r\n\r\n",
        "ICY 200 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
    ] {
        assert!(body(bad, "GET").is_err(), "{bad}");
    }
}

#[test]
fn what_the_proxy_says_of_hostile_text_is_one_answer() {
    let text =
        String::from_utf8(own_answer(403, "Forbidden", "a\r\nSet-Cookie: x\r\n\r\n\u{1b}[2J"))
            .unwrap();
    assert_eq!(text.matches("\r\n\r\n").count(), 1);
    assert!(!text.contains("\nSet-Cookie") && !text.contains('\u{1b}'));
}

/// All the data of a body that comes in pieces of a size, and what is left behind it.
fn unchunk(bytes: &[u8], step: usize) -> Result<(Vec<u8>, Vec<u8>), String> {
    let (mut chunks, mut data, mut held) = (Chunks::default(), Vec::new(), Vec::new());
    let mut pieces = bytes.chunks(step.max(1));
    loop {
        match chunks.next(&held).map_err(|fault| fault.reason)? {
            Piece::More => match pieces.next() {
                Some(piece) => held.extend_from_slice(piece),
                None => return Err("cut short".to_owned()),
            },
            Piece::Skip(count) => drop(held.drain(..count)),
            Piece::Data(count) => data.extend(held.drain(..count)),
            Piece::End => {
                held.extend(pieces.flatten());
                return Ok((data, held));
            }
        }
    }
}

#[test]
fn chunks_are_read_however_they_are_cut() {
    let body = b"5;x=y\r\nhello\r\n1\r\n \r\n5\r\nworld\r\n0\r\nTrailer: x\r\n\r\nGET";
    for step in 1..body.len() {
        assert_eq!(unchunk(body, step), Ok((b"hello world".to_vec(), b"GET".to_vec())), "{step}");
    }
    for bad in [
        "5\nhello\r\n0\r\n\r\n",
        "5\r\nhello0\r\n\r\n",
        "0x5\r\nhello\r\n0\r\n\r\n",
        "+5\r\nhello\r\n0\r\n\r\n",
        "\r\nhello\r\n0\r\n\r\n",
        "fffffffff\r\n",
        "5\r\nhello\r\n0\r\nX\0: y\r\n\r\n",
        "5 \r\nhello\r\n0\r\n\r\n",
    ] {
        assert!(unchunk(bad.as_bytes(), 3).is_err(), "{bad:?}");
    }
    assert!(unchunk(&vec![b'1'; 10_000], 1).is_err());
    let endless = format!("0\r\n{}", "a: b\r\n".repeat(5_000));
    assert!(unchunk(endless.as_bytes(), 7).is_err());
}

#[test]
fn socks_takes_names_whole() {
    let ask = |kind: &[u8], port: u16| {
        let mut bytes = vec![5, 1, 0];
        bytes.extend_from_slice(kind);
        bytes.extend_from_slice(&port.to_be_bytes());
        bytes
    };
    let name = |text: &[u8]| [&[3, u8::try_from(text.len()).unwrap()], text].concat();
    let good = ask(&name(b"Crates.io"), 443);
    let (read, used) = socks::request(&good).unwrap().unwrap();
    assert_eq!((read.host, read.port, used), (Host::Name("crates.io".into()), 443, good.len()));
    for cut in 0..good.len() {
        assert_eq!(socks::request(&good[..cut]), Ok(None), "{cut}");
    }
    for text in [
        &b"evil.org\0.crates.io"[..],
        b"crates.io\0",
        b"crates.io.",
        b"",
        b"a b",
        b"\xff",
        b"crates.io\n",
    ] {
        let wrong = socks::request(&ask(&name(text), 443)).unwrap_err();
        assert_eq!((wrong.code, wrong.port), (Code::Refused, 443), "{text:?}");
    }
    let code = |bytes: &[u8]| socks::request(bytes).unwrap_err().code;
    assert_eq!(code(&ask(&name(b"crates.io"), 0)), Code::Refused);
    assert_eq!(code(&[5, 2, 0, 1, 127, 0, 0, 1, 0, 80]), Code::NoSuchCommand);
    assert_eq!(code(&[5, 3, 0, 1, 127, 0, 0, 1, 0, 80]), Code::NoSuchCommand);
    assert_eq!(code(&[5, 1, 0, 2, 127, 0, 0, 1, 0, 80]), Code::NoSuchKind);
    assert_eq!(code(&[4, 1, 0, 1, 127, 0, 0, 1, 0, 80]), Code::Failed);
    assert_eq!(code(&[5, 1, 9, 1, 127, 0, 0, 1, 0, 80]), Code::Failed);
    let (read, _) = socks::request(&[5, 1, 0, 1, 127, 0, 0, 1, 0, 80]).unwrap().unwrap();
    assert_eq!(read.host, Host::Address("127.0.0.1".parse().unwrap()));
    assert_eq!(socks::greeting(&[5, 2, 1]), Ok(None));
    assert!(!socks::greeting(&[5, 1, 2]).unwrap().unwrap().0.open);
    assert!(socks::greeting(&[5, 0]).is_err() && socks::greeting(&[4, 1]).is_err());
}

/// A first message of TLS with these extensions, in records of at most `record` bytes.
fn hello(extensions: &[u8], record: usize) -> Vec<u8> {
    let mut body = vec![3, 3];
    body.extend_from_slice(&[7; 32]);
    body.extend_from_slice(&[0, 0, 2, 0x13, 1, 1, 0]);
    body.extend_from_slice(&u16::try_from(extensions.len()).unwrap().to_be_bytes());
    body.extend_from_slice(extensions);
    let mut message = vec![1];
    message.extend_from_slice(&u32::try_from(body.len()).unwrap().to_be_bytes()[1..]);
    message.extend(body);
    let mut bytes = Vec::new();
    for part in message.chunks(record) {
        bytes.extend_from_slice(&[22, 3, 1]);
        bytes.extend_from_slice(&u16::try_from(part.len()).unwrap().to_be_bytes());
        bytes.extend_from_slice(part);
    }
    bytes
}

fn named(name: &[u8]) -> Vec<u8> {
    let length = |count: usize| u16::try_from(count).unwrap().to_be_bytes();
    let entry = [&[0][..], &length(name.len()), name].concat();
    [&[0, 0][..], &length(entry.len() + 2), &length(entry.len()), &entry].concat()
}

#[test]
fn the_name_of_the_server_is_read_however_the_message_is_cut() {
    let other = [0xfe, 0x0d, 0, 1, 9];
    let extensions = [&other[..], &named(b"crates.io"), &other[..]].concat();
    for record in [1, 2, 5, 40, 16_000] {
        let bytes = hello(&extensions, record);
        for cut in 0..bytes.len() {
            assert_eq!(server_name(&bytes[..cut]), Ok(Hello::More), "{record} {cut}");
        }
        assert_eq!(server_name(&bytes), Ok(Hello::Named(Some(b"crates.io".to_vec()))), "{record}");
    }
    assert_eq!(server_name(&hello(&other, 500)), Ok(Hello::Named(None)));
    assert_eq!(server_name(&hello(&[], 500)), Ok(Hello::Named(None)));
    assert_eq!(server_name(&hello(&named(b"a\0b"), 500)), Ok(Hello::Named(Some(b"a\0b".to_vec()))));
}

#[test]
fn hostile_first_messages_are_refused() {
    let twice = [named(b"a.example"), named(b"b.example")].concat();
    // A list of two names in one extension.
    let two = [0, 0, 0, 10, 0, 8, 0, 0, 1, b'a', 0, 0, 1, b'b'];
    let mut followed = hello(&named(b"a.example"), 16_000);
    let length = u16::from_be_bytes([followed[3], followed[4]]) + 1;
    followed[3..5].copy_from_slice(&length.to_be_bytes());
    followed.push(0);
    for bad in [
        hello(&twice, 500),
        hello(&two, 500),
        hello(&named(b""), 500),
        hello(&[0, 0, 0, 9, 0, 1], 500),
        followed,
        b"GET / HTTP/1.1\r\n".to_vec(),
        b"SSH-2.0-x\r\n".to_vec(),
        vec![22, 3, 1, 0, 0],
        vec![22, 3, 1, 0xff, 0xff],
        vec![22, 3, 1, 0, 4, 2, 0, 0, 0],
        vec![22, 3, 1, 0, 4, 1, 0xff, 0xff, 0xff],
        vec![0x80, 0x2e, 1, 3, 1],
    ] {
        assert!(server_name(&bad).is_err(), "{bad:?}");
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let _ = Request::parse(&bytes, Form::Proxy);
        let _ = Answer::parse(&bytes, "GET");
        let _ = socks::greeting(&bytes);
        let _ = socks::request(&bytes);
        let _ = server_name(&bytes);
        let _ = unchunk(&bytes, 3);
        let tls = [&[22, 3, 1, 1, 0, 1, 0, 0, 200][..], &bytes].concat();
        let _ = server_name(&tls);
        let ask = [&[5, 1, 0, 3][..], &bytes].concat();
        let _ = socks::request(&ask);
    }

    #[test]
    fn a_head_that_is_read_is_one_head_for_the_next_reader(
        method in "[A-Z]{1,7}|\\PC{1,4}",
        target in "(http://)?[a-z.]{1,12}(:[0-9]{1,5})?(/[ -~\r\n]{0,12})?",
        lines in proptest::collection::vec("(Host|Content-Length|Transfer-Encoding|Connection|X): ?[a-z0-9., \r\n]{0,12}", 0..5),
    ) {
        let head = format!("{method} {target} HTTP/1.1\r\n{}\r\n\r\n", lines.join("\r\n"));
        if let Ok(request) = Request::parse(head.as_bytes(), Form::Proxy) {
            let written = request.onward();
            prop_assert_eq!(end(&written), Some(written.len()));
            if request.wish != Wish::Tunnel {
                let again = Request::parse(&written, Form::Tunnel(&request.host, request.port)).unwrap();
                prop_assert_eq!((again.body, again.keeps), (request.body, false));
            }
        }
    }
}
