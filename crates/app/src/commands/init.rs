//! `drivetrain init`: a commented `.drivetrain/` to start from. Never overwrites.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use runtime::trust::{self, Seen};
use serde_json::json;
use view::{Line, Tone};

use crate::error::CommandError;
use crate::{locate, output};

const FILES: [(&str, &str); 4] = [
    ("policy.toml", include_str!("init/policy.toml")),
    ("workflows/example.toml", include_str!("init/workflow.toml")),
    ("drivers/README.md", include_str!("init/drivers.md")),
    ("example-task.toml", include_str!("init/task.toml")),
];

/// Runs the command.
pub(crate) fn run(json: bool) -> Result<u8, CommandError> {
    let root = Path::new(".drivetrain");
    if root.symlink_metadata().is_ok() && !root.is_dir() {
        return Err(CommandError::environment(".drivetrain is there, and it is not a folder")
            .hint("move it away, then run drivetrain init again"));
    }
    let (mut written, mut kept) = (Vec::new(), Vec::new());
    for (name, content) in FILES {
        let path = root.join(name);
        let failed = |error: io::Error| {
            CommandError::environment(format!("cannot write {}: {error}", path.display()))
        };
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(failed)?;
        }
        match OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(mut file) => {
                file.write_all(content.as_bytes()).map_err(failed)?;
                written.push(path.display().to_string());
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                kept.push(path.display().to_string())
            }
            Err(error) => return Err(failed(error)),
        }
    }
    trust_own(&written)?;
    if json {
        output::json(&json!({ "v": 1, "written": written, "kept": kept }));
        return Ok(0);
    }
    let mut lines: Vec<Line> =
        written.iter().map(|path| Line::new(Tone::Good, format!("written  {path}"))).collect();
    lines.extend(kept.iter().map(|path| Line::new(Tone::Faint, format!("kept     {path}"))));
    lines.push(Line::plain("next     drivetrain run .drivetrain/example-task.toml"));
    output::lines(&lines);
    Ok(0)
}

/// What was written here just now needs nobody's look: the user asked for it, and it is known by heart.
fn trust_own(written: &[String]) -> Result<(), CommandError> {
    let failed = CommandError::environment;
    let mut seen = Vec::new();
    for path in written {
        let (name, content) = match FILES.iter().find(|(name, _)| Path::new(path).ends_with(name)) {
            Some(known) => known,
            None => continue,
        };
        let real = fs::canonicalize(Path::new(".drivetrain").join(name));
        let real = real.map_err(|error| failed(format!("cannot find {path}: {error}")))?;
        seen.push(Seen { path: real, sha256: trust::hash(content.as_bytes()) });
    }
    trust::trust(&locate::home()?, Path::new("."), &seen, locate::now()).map_err(failed)
}
