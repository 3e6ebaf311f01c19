//! Where an agent works, and where a call of it runs: a command line or a path means nothing without the folder that it is
//! read from, so what the gate judges names that folder wherever it is another one than the workspace.

use machine::agent::AgentMeans;
use serde_json::Value;

use super::codex::join;
use super::peer::{below, from_folder};

/// The folder that an agent works in.
#[derive(Debug, Clone, Default)]
pub(super) struct Place {
    /// As we name it; empty if nobody knows.
    own: String,
    /// As the agent names it, which may have followed links.
    told: Option<String>,
}

impl Place {
    pub(super) fn new(own: &str) -> Place {
        Place { own: own.to_owned(), told: None }
    }

    /// The agent says where it is. That counts once, at its beginning: it may go elsewhere later. A folder inside of the
    /// workspace is no other name for it.
    pub(super) fn hear(&mut self, folder: &Value) {
        if let (None, Some(folder)) = (&self.told, folder.as_str())
            && below(&self.own, folder) == folder
        {
            self.told = Some(folder.to_owned());
        }
    }

    /// A command line as it is judged. One that runs in another folder goes there first.
    pub(super) fn line(&self, folder: &Value, line: String) -> String {
        match self.elsewhere(folder) {
            Some(folder) => format!("cd {} && {line}", join(&[&folder])),
            None => line,
        }
    }

    /// What a call does that runs in this folder.
    pub(super) fn means(&self, folder: &Value, means: AgentMeans) -> AgentMeans {
        let Some(elsewhere) = self.elsewhere(folder) else { return means };
        let from = |path: String| match path.as_str() {
            "." => elsewhere.clone(),
            path => from_folder(&elsewhere, path),
        };
        match means {
            AgentMeans::Command(line) => AgentMeans::Command(self.line(folder, line)),
            AgentMeans::Read(path) => AgentMeans::Read(from(path)),
            AgentMeans::Write(paths) => AgentMeans::Write(paths.into_iter().map(from).collect()),
            AgentMeans::Fetch(_) | AgentMeans::Ours(_) | AgentMeans::Inner | AgentMeans::Other => {
                means
            }
        }
    }

    /// The folder as it is named from the workspace, if it is another one.
    fn elsewhere(&self, folder: &Value) -> Option<String> {
        let folder = folder.as_str().filter(|folder| !folder.is_empty() && !self.own.is_empty())?;
        let bare = |path: &str| path.trim_end_matches('/').to_owned();
        let names = [Some(&self.own), self.told.as_ref()];
        for own in names.into_iter().flatten() {
            if bare(own) == bare(folder) {
                return None;
            }
            let inside = below(own, folder);
            if inside != folder {
                // An option is no folder.
                return Some(if inside.starts_with('-') { format!("./{inside}") } else { inside });
            }
        }
        (folder != ".").then(|| folder.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_line_that_runs_elsewhere_goes_there_first() {
        let mut place = Place::new("/w");
        let line = |place: &Place, folder: Value| place.line(&folder, "rm x".to_owned());
        for here in [json!("/w"), json!("/w/"), json!("."), json!(""), json!(null), json!(7)] {
            assert_eq!(line(&place, here), "rm x");
        }
        for (folder, expected) in [
            ("/w/sub", "cd sub && rm x"),
            ("/w/sub/", "cd sub/ && rm x"),
            ("sub", "cd sub && rm x"),
            ("/w/a b", "cd 'a b' && rm x"),
            ("/w/it's", "cd 'it'\\''s' && rm x"),
            ("/w/-P", "cd ./-P && rm x"),
            ("/etc", "cd /etc && rm x"),
            ("/wide", "cd /wide && rm x"),
            ("/w/..", "cd .. && rm x"),
            ("/real/w/sub", "cd /real/w/sub && rm x"),
        ] {
            assert_eq!(line(&place, json!(folder)), expected);
        }
        place.hear(&json!("/w/sub"));
        assert_eq!(line(&place, json!("/w/sub")), "cd sub && rm x");
        place.hear(&json!("/real/w"));
        place.hear(&json!("/real/w/sub"));
        assert_eq!(line(&place, json!("/real/w")), "rm x");
        assert_eq!(line(&place, json!("/real/w/sub")), "cd sub && rm x");
        assert_eq!(line(&Place::default(), json!("/w/sub")), "rm x");
    }

    #[test]
    fn a_path_is_read_from_the_folder_that_the_call_runs_in() {
        let place = Place::new("/w");
        let of = |means| place.means(&json!("/w/sub"), means);
        assert_eq!(of(AgentMeans::Read(".".into())), AgentMeans::Read("sub".into()));
        assert_eq!(of(AgentMeans::Read("a".into())), AgentMeans::Read("sub/a".into()));
        assert_eq!(of(AgentMeans::Read("/w/a".into())), AgentMeans::Read("/w/a".into()));
        let written = AgentMeans::Write(vec!["sub/n".into(), "/w/a".into()]);
        assert_eq!(of(AgentMeans::Write(vec!["n".into(), "/w/a".into()])), written);
        assert_eq!(of(AgentMeans::Other), AgentMeans::Other);
        let here = place.means(&json!("/w"), AgentMeans::Read("a".into()));
        assert_eq!(here, AgentMeans::Read("a".into()));
    }
}
