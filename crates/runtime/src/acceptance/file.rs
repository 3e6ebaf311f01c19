//! The criterion `file`: a file that must, or must not, have some content.

use super::{Outcome, pattern};
use crate::beneath::{Kind, Root};

/// The largest file whose content is looked at.
const FILE_LIMIT: u64 = 64 * 1024 * 1024;

pub(super) fn check(path: &str, wanted: Option<&str>, forbidden: bool, root: &Root) -> Outcome {
    let passed = |evidence: String| Outcome { passed: true, evidence };
    let Some(wanted) = wanted else {
        return match (forbidden, root.exists(path)) {
            (_, Err(error)) => Outcome::failed(error.to_string()),
            (true, Ok(true)) => Outcome::failed(format!("{path} exists")),
            (true, Ok(false)) => passed(format!("{path} does not exist")),
            (false, Ok(false)) => Outcome::failed(format!("{path} does not exist")),
            (false, Ok(true)) => match root.kind(path) {
                Ok(Some(Kind::File)) => passed(format!("{path} exists")),
                Ok(Some(Kind::Folder)) => {
                    Outcome::failed(format!("{path} is a folder, expected a file"))
                }
                Ok(Some(Kind::Special)) => Outcome::failed(format!("{path} is not a regular file")),
                Ok(None) => Outcome::failed(format!("{path} is a link that leads nowhere")),
                Err(error) => Outcome::failed(error.to_string()),
            },
        };
    };
    let wanted = match pattern(wanted) {
        Ok(wanted) => wanted,
        Err(reason) => return Outcome::failed(reason),
    };
    match root.exists(path) {
        Err(error) => return Outcome::failed(error.to_string()),
        Ok(false) if forbidden => return passed(format!("{path} does not exist")),
        Ok(false) => return Outcome::failed(format!("{path} does not exist")),
        Ok(true) => {}
    }
    let bytes = match root.read(path, FILE_LIMIT) {
        Ok(bytes) => bytes,
        Err(error) => return Outcome::failed(error.to_string()),
    };
    let found = wanted
        .find(&bytes)
        .map(|found| bytes[..found.start()].iter().filter(|byte| **byte == b'\n').count() + 1);
    match (found, forbidden) {
        (Some(line), false) => passed(format!("{path}, line {line} matches")),
        (None, true) => passed(format!("nothing in {path} matches")),
        (Some(line), true) => Outcome::failed(format!(
            "{path}, line {line} matches {:?}, which is forbidden",
            wanted.as_str()
        )),
        (None, false) => {
            Outcome::failed(format!("nothing in {path} matches {:?}", wanted.as_str()))
        }
    }
}
