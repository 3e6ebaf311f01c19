//! A body in chunks, read piece by piece. Extensions and trailers are left out.

use super::Fault;

/// The longest line with a size, its extensions included.
const MAX_LINE: usize = 256;
/// The most bytes of trailers.
const MAX_TRAILERS: usize = 8 * 1024;

/// Where in a body a reader is.
#[derive(Debug, Default)]
pub struct Chunks {
    place: Place,
    trailers: usize,
}

#[derive(Debug, Default)]
enum Place {
    #[default]
    Size,
    Data(u64),
    /// The line break behind the data.
    Break,
    Trailers,
    End,
}

/// What the next bytes are. Each says how many bytes are done with.
#[derive(Debug, PartialEq, Eq)]
pub enum Piece {
    /// Nothing can be said yet: more must come.
    More,
    /// So many bytes that are no data.
    Skip(usize),
    /// So many bytes of data.
    Data(usize),
    /// The body has ended; nothing of the bytes belongs to it.
    End,
}

impl Chunks {
    /// Looks at the bytes that have come and are not done with.
    pub fn next(&mut self, bytes: &[u8]) -> Result<Piece, Fault> {
        match self.place {
            Place::End => Ok(Piece::End),
            Place::Size => {
                let Some(used) = line(bytes, MAX_LINE)? else { return Ok(Piece::More) };
                self.place = match size(&bytes[..used - 2])? {
                    0 => Place::Trailers,
                    size => Place::Data(size),
                };
                Ok(Piece::Skip(used))
            }
            Place::Data(_) if bytes.is_empty() => Ok(Piece::More),
            Place::Data(left) => {
                let here = bytes.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                let left = left - here as u64;
                self.place = if left == 0 { Place::Break } else { Place::Data(left) };
                Ok(Piece::Data(here))
            }
            Place::Break => match bytes {
                [] | [b'\r'] => Ok(Piece::More),
                [b'\r', b'\n', ..] => {
                    self.place = Place::Size;
                    Ok(Piece::Skip(2))
                }
                _ => Err(Fault::new("a chunk is longer than its size says")),
            },
            Place::Trailers => {
                let Some(used) = line(bytes, MAX_TRAILERS)? else { return Ok(Piece::More) };
                self.trailers += used;
                if self.trailers > MAX_TRAILERS {
                    return Err(Fault::new("the trailers are longer than 8 KiB"));
                }
                if used == 2 {
                    self.place = Place::End;
                }
                Ok(Piece::Skip(used))
            }
        }
    }
}

/// How long the first line is, its break included; a lone break or a control character is refused.
fn line(bytes: &[u8], limit: usize) -> Result<Option<usize>, Fault> {
    for (at, byte) in bytes.iter().enumerate().take(limit) {
        match byte {
            b'\r' => match bytes.get(at + 1) {
                None => return Ok(None),
                Some(b'\n') => return Ok(Some(at + 2)),
                Some(_) => {
                    return Err(Fault::new("a line in a chunked body ends in half a line break"));
                }
            },
            0..=8 | 10..=31 | 127 => {
                return Err(Fault::new("a line in a chunked body holds a control character"));
            }
            _ => {}
        }
    }
    if bytes.len() >= limit {
        return Err(Fault::new("a line in a chunked body is too long"));
    }
    Ok(None)
}

fn size(line: &[u8]) -> Result<u64, Fault> {
    let digits = line.split(|byte| *byte == b';').next().unwrap_or_default();
    let plain = (1..=8).contains(&digits.len()) && digits.iter().all(u8::is_ascii_hexdigit);
    let text = std::str::from_utf8(digits).unwrap_or_default();
    u64::from_str_radix(text, 16)
        .ok()
        .filter(|_| plain)
        .ok_or_else(|| Fault::new("the size of a chunk is not a plain hexadecimal number"))
}
