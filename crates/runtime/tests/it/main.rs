//! The runtime's integration tests, in one binary.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic where it stands")]

use std::io::{self, Read};

mod egress;
mod gate;
mod gateway;
mod mcp;
mod model;
mod news;
mod supervised;
mod tools;

/// Reads once. A read with a time is broken off by every signal, even by the one that lets a stopped process go on.
fn read_once(stream: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match stream.read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => return read,
        }
    }
}
