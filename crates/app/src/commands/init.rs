//! `drivetrain init`: a commented `.drivetrain/` to start from. Never overwrites.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use serde_json::json;
use view::{Line, Tone};

use crate::error::CommandError;
use crate::output;

const FILES: [(&str, &str); 4] = [
    ("policy.toml", include_str!("init/policy.toml")),
    ("workflows/example.toml", include_str!("init/workflow.toml")),
    ("drivers/README.md", include_str!("init/drivers.md")),
    ("example-task.toml", include_str!("init/task.toml")),
];

/// Runs the command.
pub(crate) fn run(json: bool) -> Result<u8, CommandError> {
    let root = Path::new(".drivetrain");
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
