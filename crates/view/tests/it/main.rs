//! The views over real states: tasks are driven by the machine itself, and the page is compared whole.
#![allow(clippy::unwrap_used, reason = "a helper that cannot go on fails its test")]

mod approvals;
mod scene;
mod stream;
mod terminal;
mod transcript;
mod why;
