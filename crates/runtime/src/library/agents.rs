//! Agents by name: what a task says is `agent = "claude"`, what it freezes is a program.

use machine::agent::AgentProgram;
use machine::driver::composite;
use machine::task::DriverSpec;
use machine::time::Span;
use serde::Deserialize;
use serde_json::{Value, json};

use super::LibraryError;

/// Puts programs in the places where agents are named, in composites too.
pub(super) fn resolve(driver: &mut DriverSpec) -> Result<(), LibraryError> {
    let mut cause = None;
    let visited = composite::visit(&driver.name, &mut driver.config, &mut |name, config| {
        if name != "agent" || config.get("program").is_some() {
            return Ok(());
        }
        match program(config) {
            Ok(program) => {
                *config = json!({ "program": program });
                Ok(())
            }
            Err(error) => {
                let text = error.to_string();
                cause.get_or_insert(error);
                Err(text)
            }
        }
    });
    visited.map_err(|text| cause.unwrap_or(LibraryError::Wrong(text)))
}

fn program(config: &Value) -> Result<AgentProgram, LibraryError> {
    let wrong = |text: String| LibraryError::Wrong(text);
    let name = config["agent"].as_str().unwrap_or_default();
    let mut program = AgentProgram::built_in(name).ok_or_else(|| {
        wrong(format!(
            "there is no agent {name:?}: expected one of {}",
            AgentProgram::BUILT_IN.join(", ")
        ))
    })?;
    if let Some(model) = config["model"].as_str() {
        program.model = Some(model.to_owned());
    }
    if let Some(idle) = config.get("idle") {
        let idle = Span::deserialize(idle).map_err(|error| wrong(format!("idle: {error}")))?;
        program.idle = Some(idle);
    }
    let mut mark = [0u8; 8];
    getrandom::fill(&mut mark)
        .map_err(|error| wrong(format!("no chance is to be had: {error}")))?;
    program.operator = format!("{:016x}", u64::from_le_bytes(mark));
    Ok(program)
}
