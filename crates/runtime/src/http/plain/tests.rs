//! Framing, byte by byte.

use super::{Chunks, Framing, Head, chunk_size, framing, read_head, unchunk};

/// What a body in chunks gives if it comes in pieces of this size, and whether it ended.
fn unchunked(bytes: &[u8], piece: usize) -> Result<(Vec<u8>, bool, Vec<u8>), String> {
    let (mut buffer, mut body, mut state) = (Vec::new(), Vec::new(), Chunks::Size);
    let mut pieces = bytes.chunks(piece);
    while let Some(piece) = pieces.next() {
        buffer.extend_from_slice(piece);
        let (length, next) = unchunk(&mut buffer, state)?;
        body.extend_from_slice(&buffer[..length]);
        buffer.drain(..length);
        match next {
            Some(next) => state = next,
            None => {
                pieces.for_each(|piece| buffer.extend_from_slice(piece));
                return Ok((body, true, buffer));
            }
        }
    }
    Ok((body, false, buffer))
}

#[test]
fn chunks_are_joined_however_they_are_cut() {
    let bytes = b"5\r\nhello\r\n1;x=y\r\n \r\n00a \r\n0123456789\r\n0\r\ntrailer: 1\r\n\r\nnext";
    for piece in 1..=bytes.len() {
        let (body, ended, rest) = unchunked(bytes, piece).unwrap();
        assert_eq!(body, b"hello 0123456789", "{piece}");
        assert!(ended, "{piece}");
        assert_eq!(rest, b"next", "{piece}");
        let (body, ended, _) = unchunked(&bytes[..bytes.len() - 6], piece).unwrap();
        assert_eq!((body.as_slice(), ended), (&b"hello 0123456789"[..], false), "{piece}");
    }
}

#[test]
fn chunks_that_lie_are_refused() {
    for wrong in [
        "x\r\nhello\r\n",
        "\r\n",
        "5\r\nhello!\r\n",
        "-1\r\n",
        "1000000000000000\r\n",
        "5x\r\nhello",
    ] {
        assert!(unchunked(wrong.as_bytes(), 3).is_err(), "{wrong:?}");
    }
    assert!(unchunked(&[b'1'; 3000], 700).is_err());
    assert_eq!(chunk_size(b"fffffffffffffff"), Some(0xfff_ffff_ffff_ffff));
}

#[test]
fn a_head_says_where_its_body_ends() {
    let of = |head: &str| {
        read_head(head.as_bytes()).map(|(head, version)| (framing(&head), head, version))
    };
    let (end, head, version) = of("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-Y:  z ").unwrap();
    assert_eq!((end, version, head.status), (Some(Framing::Length(5)), 1, 200));
    assert_eq!(head.headers[1], ("x-y".to_owned(), "z".to_owned()));
    let end = |lines: &str| of(&format!("HTTP/1.0 200{lines}")).unwrap().0;
    assert_eq!(end(""), Some(Framing::Close));
    assert_eq!(end("\r\ncontent-length: 0"), Some(Framing::Ended));
    assert_eq!(
        end("\r\ntransfer-encoding: Chunked\r\ncontent-length: 3"),
        Some(Framing::Chunks(Chunks::Size))
    );
    // Two readers of such a head could see two different bodies.
    assert_eq!(end("\r\ntransfer-encoding: gzip, chunked"), None);
    assert_eq!(end("\r\ncontent-length: 5\r\ncontent-length: 6"), None);
    assert_eq!(end("\r\ncontent-length: -5"), None);
    assert_eq!(framing(&Head { status: 204, headers: Vec::new() }), Some(Framing::Ended));
    for wrong in [
        "",
        "HTTP/2 200 OK",
        "HTTP/1.1 abc",
        "HTTP/1.1 20",
        "HTTP/1.1 200 OK\r\nno header",
        "HTTP/1.1 200 OK\r\n folded: x",
    ] {
        assert_eq!(of(wrong), None, "{wrong:?}");
    }
}
