//! `drivetrain diff`: what a task changed.

use runtime::process::Cancel;
use serde_json::json;
use view::diff;

use crate::args::DiffArgs;
use crate::error::CommandError;
use crate::kept::{Kept, paths_json};
use crate::locate::Records;
use crate::output;

/// Runs the command.
pub(crate) fn run(args: &DiffArgs, json: bool) -> Result<u8, CommandError> {
    let (records, cancel) = (Records::open()?, Cancel::new());
    let mut kept = Kept::open(&records, &args.id, &cancel)?;
    let from = match &args.from {
        Some(number) => kept.side(number)?,
        None => kept.base()?,
    };
    let to = match &args.to {
        Some(number) => kept.side(number)?,
        None => kept.result()?,
    };
    let paths = kept.paths(&from, &to)?;
    let patch =
        || kept.store.patch_between(&from.content, &to.content).map_err(CommandError::environment);
    if json {
        let mut shown = json!({
            "v": 1,
            "task": kept.id,
            "from": { "name": from.name, "tree": from.content.tree() },
            "to": { "name": to.name, "tree": to.content.tree() },
            "paths": paths_json(&paths),
        });
        if !args.stat && !args.name_only {
            shown["patch"] = json!(String::from_utf8_lossy(&patch()?));
        }
        output::json(&shown);
        return Ok(0);
    }
    if args.name_only {
        output::lines(&diff::names(&paths));
        return Ok(0);
    }
    if args.stat {
        output::lines(&diff::stat(&paths));
        return Ok(0);
    }
    let patch = patch()?;
    if output::shows_colours() {
        output::lines(&diff::patch(&patch));
    } else {
        // Byte for byte, so that it applies; nothing else may stand in it.
        output::raw(&patch);
    }
    let beside = paths.iter().filter(|path| !path.is_file).count();
    if beside > 0 {
        let differ = match beside {
            1 => "1 empty folder or mode differs".to_owned(),
            _ => format!("{beside} empty folders or modes differ"),
        };
        output::error(&format!("{differ}, which no patch can say: --stat lists them"));
    }
    Ok(0)
}
