//! Where the files of an agent's program are. They may lie in a home, which a sandbox hides, and a program needs more
//! than the file that is started: what it was installed with is shown too, and nothing above that.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::process::find_program;

/// Folders and files that a command line names, each with what was installed beside it. What does not exist is left
/// out: whoever starts the program says so.
pub(super) fn of(command: &[String], cwd: &Path) -> Vec<PathBuf> {
    let home =
        std::env::var_os("HOME").map(PathBuf::from).and_then(|home| home.canonicalize().ok());
    let mut files = Vec::new();
    let mut add = |path: &Path| {
        if let Ok(real) = path.canonicalize() {
            files.push(installed_with(&real, home.as_deref()));
        }
    };
    let Some((program, arguments)) = command.split_first() else { return files };
    if let Some(found) = find_program(OsStr::new(program), Some(cwd)) {
        if let Some(folder) = found.parent().filter(|_| program.contains('/')) {
            // The name may be a link that stands in a place of its own.
            add(&folder.join("."));
        }
        add(&found);
    }
    for argument in arguments.iter().map(Path::new) {
        if argument.is_absolute() && argument.is_file() {
            add(argument);
        }
    }
    files.sort();
    files.dedup();
    files
}

/// The folder that a program was installed into; the program alone where that would be a home, or hold one.
fn installed_with(real: &Path, home: Option<&Path>) -> PathBuf {
    let is_shown = |folder: &Path| {
        folder.parent().is_some() && !home.is_some_and(|home| home.starts_with(folder))
    };
    let packages = real.ancestors().filter(|above| above.ends_with("node_modules")).last();
    let folder = if real.is_dir() { Some(real) } else { real.parent() };
    let beside = folder.filter(|folder| folder.ends_with("bin")).and_then(Path::parent);
    let mut candidates = packages.into_iter().chain(beside).chain(folder);
    candidates.find(|folder| is_shown(folder)).unwrap_or(real).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(real: &str) -> String {
        let home = Path::new("/users/me");
        installed_with(Path::new(real), Some(home)).display().to_string()
    }

    #[test]
    fn a_program_is_shown_with_what_it_was_installed_with_and_never_a_whole_home() {
        let script = "/users/me/.npm/lib/node_modules/@vendor/agent/node_modules/x/cli.js";
        assert_eq!(shown(script), "/users/me/.npm/lib/node_modules");
        assert_eq!(shown("/users/me/tools/agent/bin/agent"), "/users/me/tools/agent");
        assert_eq!(
            shown("/users/me/.local/share/agent/versions/2.1"),
            "/users/me/.local/share/agent/versions"
        );
        assert_eq!(shown("/users/me/bin/agent"), "/users/me/bin");
        assert_eq!(shown("/users/me/agent"), "/users/me/agent");
        assert_eq!(shown("/users/agent"), "/users/agent");
        assert_eq!(shown("/agent"), "/agent");
    }
}
