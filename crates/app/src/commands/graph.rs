//! `drivetrain workflow graph`: a workflow as a drawing. Nothing is run but its script, if it is one.

use std::fs;

use machine::outline;
use runtime::library::Library;
use serde_json::json;
use view::graph::{self, Format};
use view::{Line, Tone};

use crate::args::{GraphArgs, GraphFormat};
use crate::error::CommandError;
use crate::{locate, output};

/// Runs the command.
pub(crate) fn run(args: &GraphArgs, json: bool) -> Result<u8, CommandError> {
    let folder = locate::folder()?;
    let home = locate::home()?;
    let workflow = Library::of(&folder).judged_by(&home, &folder).workflow(&args.name, &folder)?;
    let outline = outline::of(&workflow.driver);
    let format = match args.format {
        GraphFormat::Text => Format::Text,
        GraphFormat::Mermaid => Format::Mermaid,
        GraphFormat::Svg => Format::Svg,
    };
    let drawn = graph::draw(&outline, format);
    if let Some(file) = &args.output {
        fs::write(file, &drawn).map_err(|error| {
            CommandError::environment(format!("cannot write {}: {error}", file.display()))
        })?;
    }
    match (&args.output, json) {
        (_, true) => output::json(
            &json!({ "v": 1, "name": workflow.name, "outline": outline, "output": args.output }),
        ),
        (Some(file), false) => {
            let path = view::text::visible(&file.to_string_lossy());
            output::lines(&[Line::new(Tone::Good, format!("written  {path}"))]);
        }
        (None, false) => {
            let lines: Vec<Line> = drawn.lines().map(Line::plain).collect();
            output::lines(&lines);
        }
    }
    Ok(0)
}
