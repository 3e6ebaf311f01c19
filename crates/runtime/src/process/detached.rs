//! A process of this very program that goes on when this one ends: it drives a task that is journaled already, so
//! whatever becomes of either process, nothing is lost.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Starts this program with these arguments, in a process group of its own and without a terminal. What it has to say of
/// errors goes to the end of `log`.
pub fn start_detached(arguments: &[&str], folder: &Path, log: &Path) -> io::Result<u32> {
    let errors: File = OpenOptions::new().create(true).append(true).mode(0o600).open(log)?;
    let mut child = Command::new(this_program()?)
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(errors)
        .process_group(0)
        .spawn()?;
    let id = child.id();
    // Somebody has to take note of its end while this process lives.
    let waits = move || {
        let _ = child.wait();
    };
    std::thread::Builder::new().name("detached".to_owned()).spawn(waits)?;
    Ok(id)
}

/// The program that runs here, for whoever starts it again.
pub(crate) fn this_program() -> io::Result<PathBuf> {
    Ok(own_program(std::env::current_exe()?))
}

/// This program. Where it was replaced by another one since it began, or removed, the kernel still leads to it.
fn own_program(path: PathBuf) -> PathBuf {
    if path.exists() { path } else { PathBuf::from("/proc/self/exe") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_was_replaced_is_started_all_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("drivetrain");
        std::fs::copy("/bin/true", &path).unwrap();
        assert_eq!(own_program(path.clone()), path);
        let again = own_program(folder.path().join("drivetrain (deleted)"));
        let this = std::env::current_exe().unwrap();
        assert_eq!(again.canonicalize().unwrap(), this.canonicalize().unwrap());
    }
}
