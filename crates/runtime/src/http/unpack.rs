//! An answer that its server, or a proxy before it, packed with gzip though nobody asked for it: unpacked as it comes, little by
//! little, so that whoever reads it can stop before a few bytes fill the machine.

use std::io::Write;

use flate2::write::MultiGzDecoder;

use super::{Chunk, Reader};

/// What is unpacked at once: at most a thousand times as much comes out of it.
const BITE: usize = 1 << 10;

/// Stands between the connection and the reader of a body, and unpacks it if it is packed.
pub(super) struct Unpacker<'r> {
    reader: Reader<'r>,
    /// Elsewhere: hardly any answer needs it, and a call that waits is moved about.
    packed: Option<Box<MultiGzDecoder<Vec<u8>>>>,
    damage: Option<std::io::Error>,
}

impl<'r> Unpacker<'r> {
    /// For a body with these headers, which then are those of the unpacked one. Only gzip is known: a body that is packed
    /// otherwise stays as it is, and so do its headers.
    pub(super) fn new(headers: &mut Vec<(String, String)>, reader: Reader<'r>) -> Unpacker<'r> {
        let packed = is_packed(headers).then(|| Box::new(MultiGzDecoder::new(Vec::new())));
        Unpacker { reader, packed, damage: None }
    }

    /// Gives the reader what a piece of the body holds, and says what that meant.
    pub(super) fn take(&mut self, piece: &[u8]) -> Chunk {
        let Some(packed) = &mut self.packed else { return (self.reader)(piece) };
        let mut meant = Chunk::Empty;
        for bite in piece.chunks(BITE) {
            let unpacked = packed.write_all(bite).and_then(|()| packed.flush());
            let plain = std::mem::take(packed.get_mut());
            if !plain.is_empty() {
                meant = meant.max((self.reader)(&plain));
            }
            // What a reader has enough of may be damaged as it likes.
            if meant == Chunk::Last {
                self.packed = None;
                return meant;
            }
            if let Err(error) = unpacked {
                self.damage = Some(error);
                return Chunk::Last;
            }
        }
        meant
    }

    /// What was wrong with the packing, as far as it was read.
    pub(super) fn damage(mut self) -> Option<String> {
        let end = self.packed.and_then(|mut packed| packed.try_finish().err());
        let damage = self.damage.take().or(end)?;
        Some(format!("its answer is packed (gzip) and damaged: {damage}"))
    }
}

/// The body of an answer that is an error, unpacked as far as `most` bytes; as it came if that says nothing.
pub(super) fn unpacked(headers: &mut Vec<(String, String)>, body: Vec<u8>, most: usize) -> Vec<u8> {
    let mut plain = Vec::new();
    let mut read = |piece: &[u8]| {
        plain.extend_from_slice(&piece[..piece.len().min(most - plain.len())]);
        if plain.len() == most { Chunk::Last } else { Chunk::Counted }
    };
    Unpacker::new(headers, &mut read).take(&body);
    if plain.is_empty() { body } else { plain }
}

/// Whether a body is packed as is known here. If so the headers that say it, and how long it is then, are taken away.
fn is_packed(headers: &mut Vec<(String, String)>) -> bool {
    let says = |(name, value): &(String, String)| {
        name == "content-encoding"
            && ["gzip", "x-gzip"].iter().any(|known| value.trim().eq_ignore_ascii_case(known))
    };
    let packings = headers.iter().filter(|(name, _)| name == "content-encoding").count();
    let is_packed = packings == 1 && headers.iter().any(says);
    if is_packed {
        headers.retain(|(name, _)| name != "content-encoding" && name != "content-length");
    }
    is_packed
}

#[cfg(test)]
mod tests {
    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut packer = GzEncoder::new(Vec::new(), Compression::best());
        packer.write_all(text).unwrap();
        packer.finish().unwrap()
    }

    fn headers(packing: &str) -> Vec<(String, String)> {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        vec![pair("content-encoding", packing), pair("date", "today"), pair("content-length", "9")]
    }

    /// What comes out of pieces of a size, and what was wrong.
    fn unpack(packing: &str, body: &[u8], size: usize) -> (Vec<u8>, Option<String>) {
        let mut plain = Vec::new();
        let mut read = |piece: &[u8]| {
            plain.extend_from_slice(piece);
            Chunk::Counted
        };
        let mut unpacker = Unpacker::new(&mut headers(packing), &mut read);
        for piece in body.chunks(size) {
            unpacker.take(piece);
        }
        let damage = unpacker.damage();
        (plain, damage)
    }

    #[test]
    fn whatever_the_pieces_the_same_comes_out() {
        let text: Vec<u8> =
            (0..100_000_u32).flat_map(|n| (n % 977).to_string().into_bytes()).collect();
        let two = [gzip(&text[..5000]), gzip(&text[5000..])].concat();
        for body in [gzip(&text), two] {
            for size in [1, 7, 1000, usize::MAX] {
                assert!(unpack("GZip ", &body, size) == (text.clone(), None), "pieces of {size}");
            }
        }
        assert_eq!(unpack("br", b"as it is", 3), (b"as it is".to_vec(), None));
    }

    #[test]
    fn each_event_is_read_when_its_bytes_are_there() {
        let mut packer = GzEncoder::new(Vec::new(), Compression::fast());
        let mut heard = Vec::new();
        let mut read = |piece: &[u8]| {
            heard.push(String::from_utf8(piece.to_vec()).unwrap());
            Chunk::Counted
        };
        let mut unpacker = Unpacker::new(&mut headers("gzip"), &mut read);
        for event in ["data: 1\n\n", "data: 2\n\n"] {
            packer.write_all(event.as_bytes()).unwrap();
            packer.flush().unwrap();
            assert_eq!(unpacker.take(&std::mem::take(packer.get_mut())), Chunk::Counted);
        }
        assert_eq!(heard, ["data: 1\n\n", "data: 2\n\n"]);
    }

    #[test]
    fn a_reader_that_has_enough_ends_it_before_much_is_unpacked() {
        let bomb = gzip(&vec![0; 100 << 20]);
        let mut most = 0;
        let mut read = |piece: &[u8]| {
            most = most.max(piece.len());
            Chunk::Last
        };
        let mut unpacker = Unpacker::new(&mut headers("gzip"), &mut read);
        assert_eq!(unpacker.take(&bomb), Chunk::Last);
        assert!((1..=BITE * 1100).contains(&most), "{most}");
    }

    #[test]
    fn a_damaged_body_is_said_to_be_one() {
        let mut body = gzip(b"some words, and some more of them");
        let end = body.len();
        body[end - 6] ^= 1;
        let (_, damage) = unpack("gzip", &body, 9);
        assert!(damage.unwrap().starts_with("its answer is packed (gzip) and damaged: "));
        let (plain, damage) = unpack("gzip", b"no gzip at all", 9);
        assert!(plain.is_empty() && damage.is_some());
    }

    #[test]
    fn an_error_is_unpacked_as_far_as_it_may_be_long() {
        let mut told = headers("gzip");
        assert_eq!(unpacked(&mut told, gzip(&[b'x'; 5000]), 100), [b'x'; 100]);
        assert_eq!(told, [("date".to_owned(), "today".to_owned())]);
        assert_eq!(unpacked(&mut headers("gzip"), b"not packed".to_vec(), 100), b"not packed");
    }
}
