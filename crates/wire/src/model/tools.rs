//! The tools of a request. They are the same in every request of a task, and in those of most tasks, so a list of them
//! is shared, and keeps how the dialect that asked first writes it.

use std::borrow::Cow;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use serde::Serialize;
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

/// A tool as a model sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolDeclaration {
    /// Its name.
    pub name: String,
    /// What it does.
    pub description: String,
    /// A JSON schema of its parameters.
    pub schema: Value,
}

/// A list of tools. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct ToolList(Arc<List>);

#[derive(Debug, Default)]
struct List {
    tools: Vec<ToolDeclaration>,
    /// What it is in the words of a dialect, and which form that is.
    written: OnceLock<(&'static str, Box<RawValue>)>,
}

impl ToolList {
    /// The tools in the form of this name, as `words` says them; none without tools. A name must mean one form.
    pub(super) fn written<'l, T: Serialize>(
        &'l self,
        form: &'static str,
        words: impl Fn(&'l [ToolDeclaration]) -> T,
    ) -> Option<Cow<'l, RawValue>> {
        // Words are structs of texts and values, whose keys are texts: writing them to memory cannot fail.
        let write = || to_raw_value(&words(self)).expect("declarations are written to memory");
        if self.is_empty() {
            return None;
        }
        let (known, written) = self.0.written.get_or_init(|| (form, write()));
        Some(if *known == form { Cow::Borrowed(&**written) } else { Cow::Owned(write()) })
    }
}

impl Deref for ToolList {
    type Target = [ToolDeclaration];

    fn deref(&self) -> &[ToolDeclaration] {
        &self.0.tools
    }
}

impl PartialEq for ToolList {
    fn eq(&self, other: &ToolList) -> bool {
        self.0.tools == other.0.tools
    }
}

impl From<Vec<ToolDeclaration>> for ToolList {
    fn from(tools: Vec<ToolDeclaration>) -> ToolList {
        ToolList(Arc::new(List { tools, written: OnceLock::new() }))
    }
}

impl FromIterator<ToolDeclaration> for ToolList {
    fn from_iter<I: IntoIterator<Item = ToolDeclaration>>(tools: I) -> ToolList {
        Vec::from_iter(tools).into()
    }
}
