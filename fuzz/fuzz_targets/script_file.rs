//! Scripts of the scripted model from any bytes.

#![no_main]

#[path = "../checks.rs"]
#[allow(dead_code, reason = "one target a check")]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| checks::script_file(bytes));
