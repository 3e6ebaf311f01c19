//! Rules that hold for every driver: what may be spent, what may be done, when to stop trying.

pub mod breaker;
pub mod budget;
pub mod hosts;
pub mod permission;
pub mod price;
pub mod protected;
pub mod retry;
pub mod sandbox;
pub mod stuck;
