//! Locks on files, between processes.
//!
//! The kernel lets go of a dead process's locks. A living one has to do so expressly: a child that another thread is
//! just starting has a copy of every open file until it becomes its program, and keeps a lock that was only closed.

use std::fs::File;
use std::io;

/// A file that nobody else has locked until this is dropped.
#[derive(Debug)]
pub(crate) struct FileLock {
    file: File,
}

impl FileLock {
    /// Waits until it is free.
    pub(crate) fn wait(file: File) -> io::Result<FileLock> {
        file.lock()?;
        Ok(FileLock { file })
    }

    /// Takes it if it is free.
    pub(crate) fn take(file: File) -> Option<FileLock> {
        file.try_lock().is_ok().then_some(FileLock { file })
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        // It fails for nothing that can be locked.
        let _ = self.file.unlock();
    }
}

/// Whether nobody has it locked. Whoever takes it in this moment finds it taken.
pub(crate) fn is_free(file: &File) -> bool {
    let free = file.try_lock_shared().is_ok();
    if free {
        let _ = file.unlock();
    }
    free
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Stands for the child that is just being started: another holder of the same open file.
    #[test]
    fn what_is_dropped_is_free_though_a_copy_of_the_file_is_open() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let made = File::create(&path).unwrap();
        let looks = || File::open(&path).unwrap();
        let copy = made.try_clone().unwrap();
        let lock = FileLock::take(made).unwrap();
        assert!(!is_free(&looks()) && FileLock::take(looks()).is_none());
        drop(lock);
        assert!(is_free(&looks()));
        let looked = looks();
        let copy_of_look = looked.try_clone().unwrap();
        assert!(is_free(&looked));
        drop(FileLock::take(looks()).expect("a look leaves nothing behind"));
        drop((copy, copy_of_look));
    }
}
