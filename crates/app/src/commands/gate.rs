//! `drivetrain gate --stdio`: a worker's way to its gate, for programs that start an MCP server as a command. Carries
//! bytes both ways and looks at none.

use std::io::{self, Read, Write};
use std::path::Path;

use runtime::gate::{SOCKET_VARIABLE, TOKEN_VARIABLE, connect};

use crate::error::CommandError;
use crate::output::Whole;

/// Runs the command.
pub(crate) fn run() -> Result<u8, CommandError> {
    let variable = |name: &str| {
        std::env::var(name).ok().filter(|value| !value.is_empty()).ok_or_else(|| {
            CommandError::usage(format!(
                "{name} is not set: this command is for programs that drivetrain starts, which have it"
            ))
        })
    };
    let (path, token) = (variable(SOCKET_VARIABLE)?, variable(TOKEN_VARIABLE)?);
    let failed = |error: io::Error| {
        CommandError::environment(format!("cannot reach the gate at {path}: {error}"))
    };
    let stream = connect(Path::new(&path), &token).map_err(failed)?;
    let asks = stream.try_clone().map_err(failed)?;
    std::thread::Builder::new()
        .name("gate-stdin".to_owned())
        .spawn(move || {
            // The gate answers what was asked before it sees the end.
            let _ = carry(&mut io::stdin().lock(), &mut &asks);
            let _ = asks.shutdown(std::net::Shutdown::Write);
        })
        .map_err(failed)?;
    // Whoever started this may be gone first, and a gate that closes has closed: both are the end.
    let _ = carry(&mut &stream, &mut Whole(io::stdout().lock()));
    Ok(0)
}

/// Carries bytes as they come, until either side ends.
fn carry(from: &mut impl Read, to: &mut impl Write) -> io::Result<()> {
    let mut chunk = vec![0u8; 64 << 10];
    loop {
        match from.read(&mut chunk) {
            Ok(0) => return Ok(()),
            Ok(count) => {
                to.write_all(&chunk[..count])?;
                to.flush()?;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
