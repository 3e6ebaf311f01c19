//! `kind = "judge"`: a model with a rubric.

use super::Written;
use crate::file::check::{Cursor, Problems};
use crate::file::shape::task::criteria::{Form, JUDGE};
use crate::task::Criterion;

/// Reads a judge. `rubric` is where its rubric stands, if it does not have a file of its own.
pub(super) fn read(
    at: &Cursor<'_>,
    rubric: Option<Cursor<'_>>,
    form: Form,
    problems: &mut Problems,
) -> Option<Written> {
    at.keys(problems, JUDGE.of(form));
    let decides = at.get("decides").and_then(|flag| flag.flag(problems)).unwrap_or(false);
    let model = read_model(at, problems);
    let (rubric, rubric_file) = match (rubric, at.get("rubric_file")) {
        (Some(_), Some(file)) => {
            problems.push_key(
                &file,
                "the rubric is given twice: here and in words",
                Some("remove one of the two".to_owned()),
            );
            return None;
        }
        (Some(rubric), None) => (read_text(&rubric, "the rubric is empty", problems)?, None),
        (None, Some(file)) => {
            let path = read_text(&file, "the path of the rubric is empty", problems)?;
            (String::new(), Some(path))
        }
        (None, None) => {
            let hint = "say what the work is judged by: rubric = \"…\" or rubric_file = \"PATH\"";
            problems.push_key(at, "the key \"rubric\" is missing", Some(hint.to_owned()));
            return None;
        }
    };
    Some(Written { criterion: Criterion::Judge { model: model?, rubric, decides }, rubric_file })
}

fn read_model(at: &Cursor<'_>, problems: &mut Problems) -> Option<String> {
    let given = at.need(problems, "model")?;
    let model = given.text(problems)?;
    let named = model.split_once('/').filter(|(provider, name)| {
        !provider.is_empty() && !name.trim().is_empty() && !model.contains(char::is_control)
    });
    if named.is_none() {
        let hint = "write PROVIDER/NAME, such as anthropic/NAME or script/FILE";
        problems.push(&given, format!("{model:?} is not a model"), Some(hint.to_owned()));
        return None;
    }
    Some(model.to_owned())
}

fn read_text(at: &Cursor<'_>, empty: &str, problems: &mut Problems) -> Option<String> {
    let text = at.text(problems)?;
    if text.trim().is_empty() {
        let hint = "say what the work is judged by".to_owned();
        problems.push(at, empty, Some(hint));
        return None;
    }
    Some(text.to_owned())
}
