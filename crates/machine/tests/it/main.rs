//! Tests of the machine from outside: scenarios as scripts, laws as properties.

mod laws;
mod rig;
mod scenarios;
