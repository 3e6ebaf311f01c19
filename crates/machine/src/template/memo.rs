//! Texts that were read before: five hundred workflows name the same few prompts, and a workflow is read when it is checked,
//! when its task is made and when the task begins. Reading depends on the text alone, so it does not matter whether it was
//! read or remembered.

use std::cell::RefCell;
use std::collections::BTreeMap;

use super::{Expression, Template, TemplateError};

/// So many are remembered, and then all of them are forgotten.
const MOST: usize = 256;
/// Longer texts are not remembered.
const LONGEST: usize = 16 << 10;

/// What was read, by its text.
type Known<T> = RefCell<BTreeMap<Box<str>, T>>;

thread_local! {
    pub(super) static TEMPLATES: Known<Template> = const { RefCell::new(BTreeMap::new()) };
    pub(super) static EXPRESSIONS: Known<Expression> = const { RefCell::new(BTreeMap::new()) };
}

/// What is made of a text, or was made of it before. What is wrong is found out each time.
pub(super) fn read<T: Clone>(
    known: &Known<T>,
    text: &str,
    make: impl FnOnce() -> Result<T, TemplateError>,
) -> Result<T, TemplateError> {
    if let Some(found) = known.borrow().get(text) {
        return Ok(found.clone());
    }
    #[cfg(test)]
    super::compiled::count::one_more_read();
    let made = make()?;
    if text.len() <= LONGEST {
        let mut known = known.borrow_mut();
        if known.len() >= MOST {
            known.clear();
        }
        known.insert(text.into(), made.clone());
    }
    Ok(made)
}
