//! What git would commit of a file: attributes can ask for another encoding, or for a line that says what the file is called
//! (`ident`). Filters, which are programs, are not run.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::Path;

use super::checkout::{Context, Scratch};
use crate::git::{Git, attributes, borrowing};
use crate::workspace::text;

/// A git that converts as the attributes of one tree say.
pub(super) struct Converter {
    git: Git,
    _scratch: Scratch,
}

impl Converter {
    /// By the attributes of a tree, whose objects are in one folder, and of a file that a repository has beside those.
    pub(super) fn new(
        tree: &str,
        objects: &str,
        beside: &Path,
        context: &Context<'_>,
    ) -> Result<Converter, String> {
        let scratch = Scratch::new(context.places.checkouts, context.claim.task)?;
        let (own, files) = (scratch.0.join("git"), scratch.0.join("files"));
        let wrong = |error: std::io::Error| format!("cannot use {}: {error}", scratch.0.display());
        fs::create_dir(&files).map_err(wrong)?;
        let init = ["init", "--quiet", "--bare", "--template="].map(OsString::from);
        let cancel = Some(context.cancel.clone());
        let plain = Git { cancel: cancel.clone(), ..Git::default() };
        plain.run(init.into_iter().chain([own.clone().into()]))?;
        if let Ok(bytes) = fs::read(beside) {
            fs::create_dir_all(own.join("info"))
                .and_then(|()| fs::write(own.join("info/attributes"), bytes))
                .map_err(wrong)?;
        }
        let env = vec![
            ("GIT_DIR".to_owned(), text(&own)?),
            ("GIT_WORK_TREE".to_owned(), text(&files)?),
            borrowing(objects),
        ];
        let settings = vec!["core.bare=false".to_owned(), "core.safecrlf=false".to_owned()];
        let git = Git { env, settings, cwd: Some(files), cancel };
        attributes::write(&git, tree)?;
        Ok(Converter { git, _scratch: scratch })
    }

    /// The name of what would be committed of a file with this content.
    pub(super) fn name_of(&self, path: &OsStr, content: Vec<u8>) -> Result<String, String> {
        let mut at = OsString::from("--path=");
        at.push(path);
        let asked = vec!["hash-object".into(), "--stdin".into(), at];
        let said = self.git.output(asked, Some(content))?.out;
        Ok(String::from_utf8_lossy(&said).trim_end().to_owned())
    }
}
