//! The journals against their contract, against chance and against damage.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

mod contracts;
mod damage;
mod laws;
mod share;
mod support;
