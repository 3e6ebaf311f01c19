//! The Responses dialect by scripts: events in, events and replies out; conversations in, bodies out.

mod decode;
mod encode;
