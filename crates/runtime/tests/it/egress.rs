//! The way out of a sandbox, with real sockets and real programs.

mod hostile;
mod passing;
mod programs;
mod rig;
mod tls;
