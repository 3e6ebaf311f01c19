//! The drivetrain binary.
fn main() {}
