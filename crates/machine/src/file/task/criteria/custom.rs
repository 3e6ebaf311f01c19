//! `kind = "custom"`: what drivetrain itself looks at, and what a plugin is asked.

use serde_json::{Value, json};

use super::{read_command, read_paths, read_timeout};
use crate::file::check::{Cursor, NAME_RULE, Problems, is_name, short, suggest};
use crate::task::{Criterion, CustomCheck, default_check_timeout};

const NAMES: [&str; 5] =
    ["git_clean", "no_paths_touched", "only_paths_touched", "max_diff_lines", "tests_not_fewer"];

/// Reads a custom criterion. `name` is where its name stands, and `also` are the keys that say so.
pub(super) fn read(
    at: &Cursor<'_>,
    name: Option<Cursor<'_>>,
    also: &[&str],
    problems: &mut Problems,
) -> Option<Criterion> {
    let Some(given) = name else {
        let hint = format!("one of {}, or plugin:NAME", NAMES.join(", "));
        problems.push_key(at, "the key \"name\" is missing", Some(hint));
        return None;
    };
    let word = given.text(problems)?;
    let mut keys = also.to_vec();
    if !also.contains(&"custom") {
        keys.push("name");
    }
    let check = match word.strip_prefix("plugin:") {
        Some(plugin) => read_plugin(at, &given, plugin, &mut keys, problems)?,
        None => read_built_in(at, &given, word, &mut keys, problems)?,
    };
    Some(Criterion::Custom(check))
}

fn read_built_in(
    at: &Cursor<'_>,
    given: &Cursor<'_>,
    word: &str,
    keys: &mut Vec<&str>,
    problems: &mut Problems,
) -> Option<CustomCheck> {
    let own: &[&str] = match word {
        "git_clean" => &[],
        "no_paths_touched" | "only_paths_touched" => &["paths"],
        "max_diff_lines" => &["lines"],
        "tests_not_fewer" => &["command", "timeout"],
        _ => {
            let hint = suggest(word, NAMES.into_iter());
            let known = NAMES.join(", ");
            let message = format!("{} must be one of {known}, or plugin:NAME", short(given.value));
            problems.push(given, message, hint);
            return None;
        }
    };
    keys.extend_from_slice(own);
    at.table(problems, &format!("the criterion {word}"), keys);
    match word {
        "no_paths_touched" => Some(CustomCheck::NoPathsTouched { paths: read_paths(at, problems) }),
        "only_paths_touched" => {
            Some(CustomCheck::OnlyPathsTouched { paths: read_paths(at, problems) })
        }
        "max_diff_lines" => {
            let lines = at.need(problems, "lines")?.whole(problems)?;
            Some(CustomCheck::MaxDiffLines { lines })
        }
        "tests_not_fewer" => {
            let timeout = read_timeout(at, problems).unwrap_or_else(default_check_timeout);
            let command = read_command(at, at.get("command"), problems)?;
            Some(CustomCheck::TestsNotFewer { command, timeout })
        }
        _ => Some(CustomCheck::GitClean),
    }
}

/// Which program the plugin is, is looked up by its name before the task begins.
fn read_plugin(
    at: &Cursor<'_>,
    given: &Cursor<'_>,
    plugin: &str,
    keys: &mut Vec<&str>,
    problems: &mut Problems,
) -> Option<CustomCheck> {
    keys.push("config");
    at.table(problems, "a plugin's criterion", keys);
    if !is_name(plugin) {
        let message = format!("{plugin:?} is not the name of a plugin");
        problems.push(given, message, Some(NAME_RULE.to_owned()));
        return None;
    }
    let config = at.get("config").map_or(Value::Null, |config| config.value.clone());
    Some(CustomCheck::Plugin { plugin: json!({ "name": plugin }), config })
}
