//! `drivetrain prompt`: texts for models by name.

use machine::file::lookup::Kind;
use serde_json::json;

use super::shelf::{self, Part, Read};
use crate::args::PromptCmd;
use crate::error::CommandError;

/// Runs the command.
pub(crate) fn run(command: &PromptCmd, json: bool) -> Result<u8, CommandError> {
    match command {
        PromptCmd::List => shelf::list(Kind::Prompt, &read, json),
        PromptCmd::Show(args) => shelf::show(Kind::Prompt, &args.name, &read, json),
        PromptCmd::Check(args) => shelf::check(Kind::Prompt, &args.names, &read, json),
        PromptCmd::New(args) => {
            shelf::begin(Kind::Prompt, args, "toml", include_str!("shelf/prompt.toml"), json)
        }
    }
}

/// What a prompt says of itself.
fn read(part: &Part<'_>) -> Read {
    let prompt = machine::file::prompt::parse(part.text, part.file)?;
    let inputs: serde_json::Map<String, serde_json::Value> = prompt
        .inputs
        .iter()
        .map(|input| {
            let about = json!({
                "type": input.kind.words(),
                "default": input.default,
                "description": input.description,
            });
            (input.name.clone(), about)
        })
        .collect();
    Ok(shelf::About {
        name: prompt.name,
        description: prompt.description,
        version: prompt.version,
        more: json!({ "inputs": inputs }),
        parts: Vec::new(),
    })
}
