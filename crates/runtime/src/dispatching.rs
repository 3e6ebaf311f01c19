//! One dispatch at a time, over all processes: what is left is looked at, set aside and given on under one lock. A process
//! that dies lets go of it, so whoever holds it knows that nobody is in the middle of a dispatch.

use std::fs::{self, File};
use std::io;

use machine::id::TaskId;

use crate::home::Home;

/// The lock of those who dispatch from one place, for as long as it lives.
#[derive(Debug)]
pub struct Dispatching {
    _file: File,
}

impl Dispatching {
    /// Waits until nobody else dispatches from here; `scope` says from where.
    pub fn begin(home: &Home, scope: &str) -> io::Result<Dispatching> {
        let folder = home.root().join("dispatched");
        fs::create_dir_all(&folder)?;
        let name = format!("{}.lock", TaskId::keyed(scope, "lock"));
        let file =
            File::options().create(true).truncate(false).write(true).open(folder.join(name))?;
        file.lock()?;
        Ok(Dispatching { _file: file })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::*;

    #[test]
    fn nobody_dispatches_from_the_same_place_at_once() {
        let root = tempfile::tempdir().unwrap();
        let home = Home::at(root.path());
        let held = Dispatching::begin(&home, "folder /a").unwrap();
        Dispatching::begin(&home, "folder /b").unwrap();
        let (sender, entered) = channel();
        let waits = std::thread::spawn(move || {
            let lock = Dispatching::begin(&home, "folder /a").unwrap();
            sender.send(()).unwrap();
            drop(lock);
        });
        assert!(entered.recv_timeout(Duration::from_millis(100)).is_err());
        drop(held);
        entered.recv_timeout(Duration::from_secs(30)).unwrap();
        waits.join().unwrap();
    }
}
