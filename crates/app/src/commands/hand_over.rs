//! `drivetrain hand-over`: another driver decides from here on.

use std::path::Path;

use machine::Command;
use machine::task::DriverSpec;
use runtime::library::Library;
use serde_json::{Value, json};

use super::tell::give;
use crate::args::HandOverArgs;
use crate::error::{CommandError, Kind};
use crate::locate::Records;

/// Runs the command.
pub(crate) fn run(args: &HandOverArgs, json: bool) -> Result<u8, CommandError> {
    let records = Records::open()?;
    let id = records.find(&args.id)?;
    let task = records.load(&id)?;
    let config = args.config.as_deref().map_or_else(|| Ok(json!({})), read_config)?;
    let mut driver = DriverSpec { name: args.driver.clone(), config };
    let here = std::env::current_dir().unwrap_or_default();
    let library = Library::of(Path::new(&task.state.data().spec.folder)).and_of(&here);
    library.resolve_driver(&mut driver, &here, &records.registry)?;
    let data = task.state.data();
    library.settle_models(&mut driver, data.budget.max_usd, Path::new(&data.spec.folder))?;
    let done = format!("is handed over to {}", view::text::visible(&driver.name));
    give(records, &id, "hand-over", Command::HandOver(driver), &done, json)
}

/// JSON as it stands, or a file of JSON or TOML.
fn read_config(given: &str) -> Result<Value, CommandError> {
    let wrong = |text: String| CommandError::new(Kind::Configuration, text);
    let table = if given.trim_start().starts_with('{') {
        serde_json::from_str(given)
            .map_err(|error| wrong(format!("--config is not JSON: {error}")))?
    } else {
        let text = std::fs::read_to_string(given).map_err(|error| {
            wrong(format!("cannot read {given}: {error}"))
                .hint("--config takes a JSON object or a file of JSON or TOML")
        })?;
        if given.ends_with(".toml") {
            toml::from_str(&text).map_err(|error| wrong(format!("{given}: {error}")))?
        } else {
            serde_json::from_str(&text).map_err(|error| wrong(format!("{given}: {error}")))?
        }
    };
    match table {
        Value::Object(_) => Ok(table),
        other => Err(wrong(format!("the configuration must be an object, got {other}"))),
    }
}
