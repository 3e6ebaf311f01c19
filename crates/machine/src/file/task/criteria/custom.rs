//! `kind = "custom"`: what drivetrain itself looks at, and what a plugin is asked.

use serde_json::{Value, json};

use super::{read_command, read_paths, read_timeout};
use crate::file::check::{Cursor, NAME_RULE, Problems, is_name, short, suggest};
use crate::file::shape::task::criteria::{self as shape, Form};
use crate::task::{Criterion, CustomCheck, default_check_timeout};

const NAMES: [&str; 5] =
    ["git_clean", "no_paths_touched", "only_paths_touched", "max_diff_lines", "tests_not_fewer"];

/// Reads a custom criterion. `name` is where its name stands.
pub(super) fn read(
    at: &Cursor<'_>,
    name: Option<Cursor<'_>>,
    form: Form,
    problems: &mut Problems,
) -> Option<Criterion> {
    let Some(given) = name else {
        let hint = format!("one of {}, or plugin:NAME", NAMES.join(", "));
        problems.push_key(at, "the key \"name\" is missing", Some(hint));
        return None;
    };
    let word = given.text(problems)?;
    let check = match word.strip_prefix("plugin:") {
        Some(plugin) => read_plugin(at, &given, plugin, form, problems)?,
        None => read_built_in(at, &given, word, form, problems)?,
    };
    Some(Criterion::Custom(check))
}

fn read_built_in(
    at: &Cursor<'_>,
    given: &Cursor<'_>,
    word: &str,
    form: Form,
    problems: &mut Problems,
) -> Option<CustomCheck> {
    let forms = match word {
        "git_clean" => &shape::CLEAN,
        "no_paths_touched" | "only_paths_touched" => &shape::PATHS,
        "max_diff_lines" => &shape::LINES,
        "tests_not_fewer" => &shape::TESTS,
        _ => {
            let hint = suggest(word, NAMES.into_iter());
            let known = NAMES.join(", ");
            let message = format!("{} must be one of {known}, or plugin:NAME", short(given.value));
            problems.push(given, message, hint);
            return None;
        }
    };
    at.keys_of(problems, &format!("the criterion {word}"), forms.of(form));
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
    form: Form,
    problems: &mut Problems,
) -> Option<CustomCheck> {
    at.keys(problems, shape::PLUGIN.of(form));
    if !is_name(plugin) {
        let message = format!("{plugin:?} is not the name of a plugin");
        problems.push(given, message, Some(NAME_RULE.to_owned()));
        return None;
    }
    let config = at.get("config").map_or(Value::Null, |config| config.value.clone());
    Some(CustomCheck::Plugin { plugin: json!({ "name": plugin }), config })
}
