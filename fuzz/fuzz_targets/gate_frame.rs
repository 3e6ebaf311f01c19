//! Lines of workers at their gate from any bytes.

#![no_main]

#[path = "../checks.rs"]
#[allow(dead_code, reason = "one target a check")]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| checks::gate_frame(bytes));
