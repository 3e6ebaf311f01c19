//! The live stream in layers. Each is a pure fold of the same events ([`machine::stream`]): it takes one event after
//! the other, in any order they may come, and says what that adds. None of them panics, waits or joins its text anew.

pub mod live;
pub mod message;
pub mod reading;
pub mod state;
pub mod turn;
