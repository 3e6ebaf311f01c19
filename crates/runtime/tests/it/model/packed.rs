//! Answers that come packed though nobody asked for it, as some proxies send them.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use machine::message::Retry;
use serde_json::Value;

use super::server::{END, HEAD, Server, chunk, plain};
use super::{ANTHROPIC, CHAT, Rig, WAYS};

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packer = GzEncoder::new(Vec::new(), Compression::fast());
    packer.write_all(bytes).unwrap();
    packer.finish().unwrap()
}

fn head(packing: &str) -> Vec<u8> {
    HEAD.replace("\r\n\r\n", &format!("\r\ncontent-encoding: {packing}\r\n\r\n")).into_bytes()
}

/// A server that sends a packed body in pieces of a size.
fn serving(packing: &str, body: &[u8], size: usize) -> Server {
    let pieces = body.chunks(size).map(chunk);
    let bytes: Vec<u8> = [head(packing)].into_iter().chain(pieces).flatten().collect();
    Server::saying([bytes, END.into()].concat())
}

#[test]
fn a_packed_answer_is_read_as_one_that_is_not() {
    for (model, text) in [("anthropic/claude", ANTHROPIC), ("here/small", CHAT)] {
        let plain = Server::saying(super::server::whole(text));
        let expected = Rig::new(&plain).ask(model).unwrap();
        for size in [1, 100, usize::MAX] {
            for way in WAYS {
                let server = serving("gzip", &gzip(text.as_bytes()), size);
                let reply = way(&server).ask(model).unwrap();
                assert_eq!(reply.message, expected.message, "{model} in pieces of {size}");
                assert_eq!(reply.usage, expected.usage);
            }
        }
    }
}

#[test]
fn a_packed_answer_that_was_cut_is_asked_for_again() {
    let body = gzip(ANTHROPIC.as_bytes());
    for way in WAYS {
        let server = serving("gzip", &body[..body.len() / 2], 50);
        let failure = way(&server).fails("anthropic/claude");
        assert_eq!((failure.kind.as_str(), failure.retry), ("stream_truncated", Retry::Backoff));
        assert!(failure.message.contains("is packed (gzip) and damaged"), "{}", failure.message);
    }
}

#[test]
fn a_damaged_packing_is_said_and_asked_for_again() {
    for way in WAYS {
        let server = serving("gzip", b"this is no gzip", 50);
        let failure = way(&server).fails("anthropic/claude");
        assert_eq!((failure.kind.as_str(), failure.retry), ("stream_truncated", Retry::Backoff));
        assert!(failure.message.contains("is packed (gzip) and damaged"), "{}", failure.message);
    }
}

#[test]
fn a_gigabyte_out_of_a_megabyte_ends_as_the_corpus_says() {
    let corpus = include_str!("../../../../wire/tests/fixtures/http.jsonl");
    let mut cases = corpus.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let case = cases.find(|case| case["id"] == "HT-033").unwrap();
    assert_eq!(
        (&case["gen"]["kind"], &case["expect"]),
        (&"gzip-bomb".into(), &"fail:too_large".into())
    );
    // Several packings one after the other are one.
    let bomb = gzip(&vec![0; 1 << 20]).repeat(case["gen"]["mb"].as_u64().unwrap() as usize);
    assert!(bomb.len() < 8 << 20, "{}", bomb.len());
    for way in WAYS {
        let failure = way(&serving("gzip", &bomb, usize::MAX)).fails("anthropic/claude");
        // "Too large" alone is our word for a question.
        let found = (failure.kind.as_str(), failure.retry);
        assert_eq!(found, ("output_too_large", Retry::Never), "{failure:?}");
    }
}

#[test]
fn the_words_of_a_packed_error_are_read() {
    let told =
        r#"{"type":"error","error":{"type":"overloaded_error","message":"Too many at once"}}"#;
    let head = plain("529 Overloaded", "content-encoding: gzip\r\n", "");
    let body = gzip(told.as_bytes());
    let head =
        String::from_utf8(head).unwrap().replace(": 0\r\n", &format!(": {}\r\n", body.len()));
    for way in WAYS {
        let server = Server::saying([head.as_bytes(), &body].concat());
        let failure = way(&server).fails("anthropic/claude");
        assert_eq!((failure.kind.as_str(), failure.retry), ("overloaded", Retry::Backoff));
        assert!(failure.message.contains("Too many at once"), "{}", failure.message);
    }
}

#[test]
fn a_packing_that_is_not_known_is_named() {
    let server = serving("br", b"\x1b\x03\x01 whatever it is", 50);
    let failure = Rig::new(&server).fails("anthropic/claude");
    assert_eq!((failure.kind.as_str(), failure.retry), ("malformed", Retry::Never), "{failure:?}");
    assert!(failure.message.contains("packed (br)"), "{}", failure.message);
}
