//! What a text is compiled to, kept beside the text once it is used a second time: a step of a long row is used once and
//! holds nothing, a condition in a loop is compiled as often as if it stood there alone.
//!
//! It depends on the text and on nothing else, so that two texts are the same whether or not they were used.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// Something that is made of a text.
pub(super) struct Compiled<T>(Arc<Inner<T>>);

struct Inner<T> {
    is_used: AtomicBool,
    kept: OnceLock<T>,
}

impl<T> Compiled<T> {
    /// Uses what is made, which is kept from the second time on.
    pub(super) fn with<R, E>(
        &self,
        make: impl FnOnce() -> Result<T, E>,
        using: impl FnOnce(&T) -> R,
    ) -> Result<R, E> {
        if let Some(kept) = self.0.kept.get() {
            return Ok(using(kept));
        }
        #[cfg(test)]
        count::one_more();
        let made = make()?;
        if self.0.is_used.swap(true, Ordering::Relaxed) {
            return Ok(using(self.0.kept.get_or_init(|| made)));
        }
        Ok(using(&made))
    }
}

impl<T> Default for Compiled<T> {
    fn default() -> Compiled<T> {
        Compiled(Arc::new(Inner { is_used: AtomicBool::new(false), kept: OnceLock::new() }))
    }
}

impl<T> Clone for Compiled<T> {
    fn clone(&self) -> Compiled<T> {
        Compiled(Arc::clone(&self.0))
    }
}

impl<T> fmt::Debug for Compiled<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Compiled")
    }
}

impl<T> PartialEq for Compiled<T> {
    fn eq(&self, _: &Compiled<T>) -> bool {
        true
    }
}

/// How often this thread compiled a text, for tests.
#[cfg(test)]
pub(crate) mod count {
    use std::cell::Cell;

    thread_local! {
        static MADE: Cell<u64> = const { Cell::new(0) };
        static READ: Cell<u64> = const { Cell::new(0) };
    }

    pub(in crate::template) fn one_more_read() {
        READ.with(|read| read.set(read.get() + 1));
    }

    /// How many texts this thread has read, and not remembered.
    pub(crate) fn read_so_far() -> u64 {
        READ.with(Cell::get)
    }

    pub(super) fn one_more() {
        MADE.with(|made| made.set(made.get() + 1));
    }

    /// Since the thread began.
    pub(crate) fn so_far() -> u64 {
        MADE.with(Cell::get)
    }
}
