//! `drivetrain fake`: things that stand in for others in tests.

use std::io;

use runtime::fake::{self, Fake, Limits};
use serde_json::json;
use view::{Line, text};

use crate::args::{FakeAcpAgentArgs, FakeAgentArgs, FakeModelArgs};
use crate::error::CommandError;
use crate::{output, signals};

/// Serves a scripted model until a signal comes.
pub(crate) fn model(args: &FakeModelArgs, json: bool) -> Result<u8, CommandError> {
    let script = fake::load(&args.script)?;
    let failed = |error: io::Error| CommandError::environment(format!("cannot serve: {error}"));
    // Before anybody is told that it listens: who knows may send one.
    let mut signals = signals::listen().map_err(failed)?;
    let server = Fake::bind(script, args.port, Limits::default()).map_err(|error| {
        CommandError::environment(format!("cannot listen on 127.0.0.1:{}: {error}", args.port))
            .hint("without --port any free port is taken")
    })?;
    let (url, port) = (server.url(), server.port());
    let serve = move || server.serve();
    std::thread::Builder::new().name("fake".to_owned()).spawn(serve).map_err(failed)?;
    if json {
        output::json(&json!({ "v": 1, "url": url, "port": port }));
    } else {
        let script = text::visible(&args.script.to_string_lossy());
        output::lines(&[Line::plain(format!("serving {script} on {url}"))]);
    }
    signals.forever().next();
    Ok(0)
}

/// Plays a scripted agent until the script ends it, or whoever drives it does.
pub(crate) fn agent(args: &FakeAgentArgs) -> Result<u8, CommandError> {
    fake::agent::play(&args.script, &args.arguments).map_err(|error| {
        CommandError::environment(format!("cannot play {}: {error}", args.script.display()))
    })
}

/// Plays a scripted agent of the protocol that drivetrain is a client of.
pub(crate) fn acp_agent(args: &FakeAcpAgentArgs) -> Result<u8, CommandError> {
    fake::acp_agent::play(&args.script).map_err(|error| {
        CommandError::environment(format!("cannot play {}: {error}", args.script.display()))
    })
}
