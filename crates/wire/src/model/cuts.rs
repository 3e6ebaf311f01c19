//! The same bytes cut in many ways, all of which must be read alike: for the tests of every dialect.

use std::fmt::Debug;

/// Bytes up to which a stream is read in all cuts; a larger one also comes in pieces of a page.
const ORDINARY: usize = 1 << 20;

/// What `read` makes of the bytes whole, if it makes the same of them byte by byte and cut at random places twenty times.
#[track_caller]
pub(crate) fn same_in_all<T: Debug + PartialEq>(bytes: &[u8], read: impl Fn(Vec<&[u8]>) -> T) -> T {
    let whole = read(vec![bytes]);
    if bytes.len() > ORDINARY {
        assert_eq!(read(bytes.chunks(4096).collect()), whole, "in pieces of a page");
        return whole;
    }
    assert_eq!(read(bytes.chunks(1).collect()), whole, "byte by byte");
    for seed in 1..=20 {
        assert_eq!(read(at_random(bytes, seed)), whole, "cut with seed {seed}");
    }
    whole
}

/// Pieces of 1 to 64 bytes, chosen by `seed`.
fn at_random(bytes: &[u8], seed: u64) -> Vec<&[u8]> {
    let mut state = seed;
    let mut rest = bytes;
    let mut pieces = Vec::new();
    while !rest.is_empty() {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let (piece, after) = rest.split_at(rest.len().min((state >> 33) as usize % 64 + 1));
        pieces.push(piece);
        rest = after;
    }
    pieces
}
