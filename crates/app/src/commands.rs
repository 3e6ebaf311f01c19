//! The commands, one file each; short ones of the same kind share one.

pub(crate) mod approvals;
pub(crate) mod catalogue;
pub(crate) mod chat;
pub(crate) mod doctor;
pub(crate) mod fake;
pub(crate) mod gate;
pub(crate) mod hand_over;
pub(crate) mod init;
pub(crate) mod journal;
pub(crate) mod list;
pub(crate) mod log;
pub(crate) mod models;
pub(crate) mod policy;
pub(crate) mod prepare;
pub(crate) mod receipt;
pub(crate) mod reply;
pub(crate) mod resume;
pub(crate) mod run;
pub(crate) mod sandbox;
pub(crate) mod settle;
pub(crate) mod show;
pub(crate) mod tell;
pub(crate) mod trust;
pub(crate) mod verify;
pub(crate) mod why;
