//! The parser of server-sent events.

use proptest::prelude::*;
use wire::sse::{Error, Frame, Limits, Parser};

type Owned = (String, String, String);

fn frames<'a>(
    limits: Limits,
    chunks: impl IntoIterator<Item = &'a [u8]>,
) -> (Vec<Owned>, Result<(), Error>) {
    let mut parser = Parser::new(limits);
    let mut frames = Vec::new();
    for chunk in chunks {
        let result = parser.push(chunk, |Frame { event, data, id }| {
            frames.push((event.to_owned(), data.to_owned(), id.to_owned()));
            Ok::<(), Error>(())
        });
        if result.is_err() {
            return (frames, result);
        }
    }
    (frames, Ok(()))
}

fn check(bytes: &str, expected: &[(&str, &str, &str)]) {
    let (found, result) = frames(Limits::default(), [bytes.as_bytes()]);
    assert_eq!(result, Ok(()));
    let found: Vec<_> =
        found.iter().map(|(e, d, i)| (e.as_str(), d.as_str(), i.as_str())).collect();
    assert_eq!(found, expected, "{bytes:?}");
}

#[test]
fn lines_end_in_three_ways() {
    for end in ["\n", "\r", "\r\n"] {
        let bytes = format!("event: a{end}data: 1{end}{end}data: 2{end}{end}");
        check(&bytes, &[("a", "1", ""), ("", "2", "")]);
    }
}

#[test]
fn fields_are_read_as_the_standard_says() {
    check("data:x\n\n", &[("", "x", "")]);
    check("data:  x\n\n", &[("", " x", "")]);
    check("data: a\ndata: b\ndata:\n\n", &[("", "a\nb\n", "")]);
    check("data\n\n", &[("", "", "")]);
    check(": comment\n\nevent: x\n\ndata: y\n\n", &[("", "y", "")]);
    check("garbage\nretry: 10\ndatax: 1\ndata: y\n\n", &[("", "y", "")]);
    check(
        "id: 7\ndata: a\n\ndata: b\n\nid\ndata: c\n\n",
        &[("", "a", "7"), ("", "b", "7"), ("", "c", "")],
    );
    check("\u{feff}data: a\n\n\u{feff}data: b\n\ndata: c\n\n", &[("", "a", ""), ("", "c", "")]);
}

#[test]
fn an_event_without_its_blank_line_is_not_given() {
    check("data: a\n\ndata: b\n", &[("", "a", "")]);
    check("data: a\n\ndata: b", &[("", "a", "")]);
}

#[test]
fn sizes_have_hard_limits() {
    let limits = Limits { line: 10, event: 12 };
    let given = |bytes: &str| frames(limits, [bytes.as_bytes()]).1;
    assert_eq!(given("data: 1234\n\n"), Ok(()));
    assert_eq!(given("data: 12345\n\n"), Err(Error::LineTooLong { limit: 10 }));
    assert_eq!(given("data: 12345"), Err(Error::LineTooLong { limit: 10 }));
    assert_eq!(given("data: 1234\ndata: 1234\ndata: 1\n\n"), Ok(()));
    assert_eq!(
        given("data: 1234\ndata: 1234\ndata: 123\n\n"),
        Err(Error::EventTooLarge { limit: 12 })
    );
}

#[test]
fn bytes_that_are_no_text_are_an_error_only_where_they_count() {
    let given = |bytes: &[u8]| frames(Limits::default(), [bytes]);
    assert_eq!(given(b"data: \xff\n\n").1, Err(Error::NotUtf8));
    assert_eq!(given(b"event: \xff\n").1, Err(Error::NotUtf8));
    let (found, result) = given(b": \xff\n\xff\xfe\ndata: a\n\n");
    assert_eq!((found.len(), result), (1, Ok(())));
}

fn stream_bytes() -> impl Strategy<Value = Vec<u8>> {
    let token = prop_oneof![
        Just("data: ".to_owned()),
        Just("data:".to_owned()),
        Just("event: ".to_owned()),
        Just("id: ".to_owned()),
        Just(": ".to_owned()),
        Just("\n".to_owned()),
        Just("\r".to_owned()),
        Just("\r\n".to_owned()),
        Just("\n\n".to_owned()),
        Just("\u{feff}".to_owned()),
        "[a-z你好é🙂 ]{0,40}",
    ]
    .prop_map(String::into_bytes);
    let token = prop_oneof![20 => token, 1 => proptest::collection::vec(any::<u8>(), 0..4)];
    proptest::collection::vec(token, 0..40).prop_map(|tokens| tokens.concat())
}

proptest! {
    #[test]
    fn any_chunking_gives_the_same_frames(
        bytes in stream_bytes(),
        cuts in proptest::collection::vec(1_usize..20, 1..30),
        line in 5_usize..60,
    ) {
        let limits = Limits { line, event: 80 };
        let whole = frames(limits, [&*bytes]);
        prop_assert_eq!(&frames(limits, bytes.chunks(1)), &whole);
        let mut pieces = Vec::new();
        let mut rest = &*bytes;
        for size in cuts.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (piece, after) = rest.split_at((*size).min(rest.len()));
            pieces.push(piece);
            rest = after;
        }
        prop_assert_eq!(&frames(limits, pieces), &whole);
    }
}
