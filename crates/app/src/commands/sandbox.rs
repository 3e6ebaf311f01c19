//! `drivetrain sandbox`: the walls, tried by hand.

use machine::file::sandbox::check_host;
use machine::policy::sandbox::{Level, Network, SandboxSpec};
use runtime::sandbox::{Mount, Sandbox, resolve};
use serde_json::json;
use view::{Line, Tone, text};

use super::prepare;
use crate::args::{SandboxProfile, SandboxRunArgs};
use crate::error::CommandError;
use crate::{locate, output};

/// Runs a command inside, at this terminal.
pub(crate) fn run(args: &SandboxRunArgs) -> Result<u8, CommandError> {
    let sandbox = sandbox_of(&args.profile)?;
    prepare::require_sandbox(&sandbox.spec)?;
    let folder = locate::folder()?;
    runtime::process::run_here(&sandbox, &args.command, &folder)
        .map_err(|error| CommandError::environment(error.to_string()))
}

/// Prints what the inside looks like.
pub(crate) fn show(args: &SandboxProfile, json: bool) -> Result<u8, CommandError> {
    let sandbox = sandbox_of(args)?;
    let mounts = sandbox.mounts().map_err(CommandError::environment)?;
    let rows: Vec<(&str, String)> = mounts.iter().map(row).collect();
    if json {
        let rows: Vec<_> =
            rows.iter().map(|(how, path)| json!({ "how": how, "path": path })).collect();
        let available = runtime::sandbox::require(sandbox.spec.level);
        output::json(&json!({
            "v": 1, "sandbox": sandbox.spec, "available": available.is_ok(),
            "problem": available.err().map(|error| error.to_string()), "mounts": rows,
        }));
        return Ok(0);
    }
    let mut lines = vec![Line::new(Tone::Strong, format!("sandbox {}", sandbox.spec.said()))];
    if let Err(unavailable) = runtime::sandbox::require(sandbox.spec.level) {
        lines.push(Line::new(
            Tone::Bad,
            format!("cannot be had: {}", text::visible(&unavailable.to_string())),
        ));
    }
    lines.push(Line::plain("read     /"));
    lines.extend(
        rows.iter().map(|(how, path)| Line::plain(format!("{how:8} {}", text::visible(path)))),
    );
    lines.push(Line::new(Tone::Faint, "each line is laid over those before it"));
    output::lines(&lines);
    Ok(0)
}

fn row(mount: &Mount) -> (&'static str, String) {
    let (how, path) = match mount {
        Mount::Show(path) | Mount::ShowAt(_, path) => ("read", path),
        Mount::Write(path) => ("write", path),
        Mount::Hide(path) => ("empty", path),
        Mount::Close(path) => ("closed", path),
        Mount::Fill(path, _) => ("ours", path),
    };
    (how, path.display().to_string())
}

fn sandbox_of(args: &SandboxProfile) -> Result<Sandbox, CommandError> {
    let folder = locate::folder()?;
    let network = match args.network.as_str() {
        "none" => Network::None,
        "loopback" => Network::Loopback,
        "open" => Network::Open,
        hosts => {
            let hosts: Vec<String> = hosts.split(',').map(str::to_owned).collect();
            for host in &hosts {
                check_host(host).map_err(|reason| {
                    CommandError::usage(format!("--network: {reason}"))
                        .hint("expected none, loopback, open, or hosts separated by commas")
                })?;
            }
            Network::Hosts(hosts)
        }
    };
    let level = if args.level == "reduced" { Level::Reduced } else { Level::Full };
    let spec = SandboxSpec {
        level,
        network,
        read: resolve(&args.read, &folder),
        write: resolve(&args.write, &folder),
        ..SandboxSpec::default()
    };
    let hidden = locate::home().map(|home| vec![home.root().to_owned()]).unwrap_or_default();
    let mut sandbox = Sandbox::new(spec);
    sandbox.workspace = Some(folder);
    sandbox.hidden = hidden;
    Ok(sandbox)
}
