//! Broken on purpose.

pub struct Whole { a: u32 }

fn before(a: u32) -> u32 { a }

fn broken(a: u32 -> { let x = ; if {

pub fn after(b: &str) -> bool { true }

impl Whole {
    fn method(&self) {}
