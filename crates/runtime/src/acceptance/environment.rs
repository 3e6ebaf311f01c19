//! On what criteria run.

use std::fs;

use machine::policy::sandbox::{Network, SandboxSpec};
use machine::verdict::Environment;

pub(super) fn of(sandbox: &SandboxSpec) -> Environment {
    let system = rustix::system::uname();
    let kernel =
        format!("{} {}", system.sysname().to_string_lossy(), system.release().to_string_lossy());
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let name = release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    Environment {
        drivetrain: env!("CARGO_PKG_VERSION").to_owned(),
        system: match name {
            Some(name) => format!("{} ({kernel})", name.trim_matches('"')),
            None => kernel,
        },
        processor: system.machine().to_string_lossy().into_owned(),
        sandbox: sandbox.level,
        network: network(&sandbox.network).to_owned(),
    }
}

fn network(network: &Network) -> &'static str {
    match network {
        Network::None => "none",
        Network::Loopback => "loopback",
        Network::Hosts(_) => "hosts",
        Network::Open => "open",
    }
}
