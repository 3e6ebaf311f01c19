//! Rules that hold for every driver: what may be spent, what may be done, when to stop trying.

pub mod breaker;
pub mod budget;
pub mod call_hash;
pub mod charter;
pub mod decider;
pub mod gateway;
pub mod grant;
pub mod hosts;
pub mod permission;
pub mod price;
pub mod protected;
pub mod recovery;
pub mod retry;
pub mod sandbox;
pub mod script;
pub mod shortcut;
pub mod signature;
pub mod stuck;
