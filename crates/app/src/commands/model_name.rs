//! A model as it is named on the command line.

use std::path::Path;

use runtime::library::Library;

use crate::error::{CommandError, Kind, near};

/// Checks that a model is named as `PROVIDER/NAME` and that its provider is known in the folder. Whether there is
/// such a model only its provider knows.
pub(crate) fn check(model: &str, folder: &Path, library: &Library) -> Result<(), CommandError> {
    let named = model.split_once('/').filter(|(provider, name)| {
        !provider.is_empty() && !name.trim().is_empty() && !model.contains(char::is_control)
    });
    let Some((provider, _)) = named else {
        return Err(CommandError::usage(format!("model {model:?}: expected PROVIDER/NAME"))
            .hint("drivetrain models lists the providers; script/FILE plays a script"));
    };
    if provider == "script" {
        return Ok(());
    }
    let configuration = |reason: String| {
        CommandError::new(Kind::Configuration, format!("model {model:?}: {reason}"))
    };
    let providers = library
        .providers(Some(provider), folder)
        .map_err(|error| configuration(error.to_string()))?;
    providers.find(provider).map(drop).map_err(|error| {
        let known: Vec<&str> = providers.iter().map(|known| known.name.as_str()).collect();
        let error = configuration(error.to_string());
        match near(provider, known.into_iter()) {
            Some(near) => error.hint(format!("did you mean {near:?}?")),
            None => error.hint("drivetrain models lists the providers"),
        }
    })
}
