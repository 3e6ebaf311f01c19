//! What a program in its sandbox complains of and cannot see: a file that is there, and hidden from it.

use std::path::{Path, PathBuf};

use super::Sandbox;
use super::view::Mount;

impl Sandbox {
    /// The first path in a text that is there outside and not inside.
    pub(crate) fn unseen(&self, text: &str) -> Option<PathBuf> {
        let mut named = named(text).peekable();
        named.peek()?;
        let mounts = self.mounts().ok()?;
        let mut unseen = named.filter(|path| is_hidden(path, &mounts));
        unseen.find(|path| path.symlink_metadata().is_ok()).map(Path::to_owned)
    }
}

/// Words of a text that look like whole paths, without what stands around them.
fn named(text: &str) -> impl Iterator<Item = &Path> {
    let words = text.split(|c: char| c.is_whitespace() || "'\"`()[]{}<>,;=".contains(c));
    let bare = words.map(|word| word.trim_end_matches(['.', ':', '!', '?']));
    // With the place in a file, as compilers and interpreters name it.
    let whole = bare.map(|word| word.split_once(':').map_or(word, |(path, _)| path));
    whole.filter(|word| word.len() > 1 && word.starts_with('/')).map(Path::new)
}

/// Whether what is at this path outside is not there inside: what was laid out last counts.
fn is_hidden(path: &Path, mounts: &[Mount]) -> bool {
    let decided = mounts.iter().rev().find_map(|mount| match mount {
        Mount::Show(at) | Mount::ShowAt(_, at) | Mount::Write(at) => {
            path.starts_with(at).then_some(false)
        }
        Mount::Fill(at, _) => (path == at).then_some(false),
        Mount::Hide(at) => (path.starts_with(at) && path != at).then_some(true),
        Mount::Close(at) => path.starts_with(at).then_some(true),
    });
    decided.unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_found_in_what_programs_say() {
        let said = "Error: Cannot find module '/opt/a/cli.js'\n    at /opt/b.js:12:3 (x=/opt/c)\nsh: 1: /opt/d: not found. / end /";
        let found: Vec<&str> = named(said).filter_map(Path::to_str).collect();
        assert_eq!(found, ["/opt/a/cli.js", "/opt/b.js", "/opt/c", "/opt/d"]);
    }

    #[test]
    fn the_last_that_was_laid_out_decides() {
        let path = |text: &str| PathBuf::from(text);
        let mounts = [
            Mount::Hide(path("/srv")),
            Mount::Show(path("/srv/me/.cargo")),
            Mount::Close(path("/srv/me/.cargo/credentials")),
            Mount::Fill(path("/srv/me/.gitconfig"), String::new()),
        ];
        let hidden = |text: &str| is_hidden(Path::new(text), &mounts);
        assert!(hidden("/srv/me/tools/claude") && hidden("/srv/me/.cargo/credentials"));
        assert!(!hidden("/srv/me/.cargo/bin/x") && !hidden("/srv/me/.gitconfig"));
        assert!(!hidden("/srv") && !hidden("/usr/bin/node"));
    }
}
