//! Who the user is, as their own git would say: by variables, by their settings, or not at all.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::process::{Cancel, Containment, ProcessSpec, Streams, run};
use crate::providers::Secret;

/// What of the user's own surroundings says who they are, and where their settings of git and their keys to sign with are.
const VARIABLES: [&str; 10] = [
    "GIT_AUTHOR_NAME",
    "GIT_AUTHOR_EMAIL",
    "GIT_COMMITTER_NAME",
    "GIT_COMMITTER_EMAIL",
    "EMAIL",
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_SYSTEM",
    "XDG_CONFIG_HOME",
    "GNUPGHOME",
    "GPG_TTY",
];
/// By which a program that signs reaches the user's agent of keys, and asks the user on their screen.
const TO_SIGN_WITH: [&str; 5] =
    ["SSH_AUTH_SOCK", "DISPLAY", "WAYLAND_DISPLAY", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS"];
/// Those that say where their settings are.
const PLACES: [&str; 2] = ["GIT_CONFIG_GLOBAL", "XDG_CONFIG_HOME"];

/// A name and an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Person {
    pub(crate) name: String,
    pub(crate) email: String,
}

/// Who wrote something, and who made the commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Who {
    pub(crate) author: Person,
    pub(crate) committer: Person,
}

impl Who {
    /// The user, in a repository. None if git would have to guess.
    pub(crate) fn of_the_user(folder: &Path) -> Option<Who> {
        let known = Known { settings: settings_of(folder), variables: variables() };
        Some(Who { author: known.person("author")?, committer: known.person("committer")? })
    }

    /// The variables by which git takes these for granted.
    pub(crate) fn variables(&self) -> [(String, String); 4] {
        let (author, committer) = (&self.author, &self.committer);
        [
            ("GIT_AUTHOR_NAME".to_owned(), author.name.clone()),
            ("GIT_AUTHOR_EMAIL".to_owned(), author.email.clone()),
            ("GIT_COMMITTER_NAME".to_owned(), committer.name.clone()),
            ("GIT_COMMITTER_EMAIL".to_owned(), committer.email.clone()),
        ]
    }
}

/// All of the user's variables that a git of theirs would look at.
pub(crate) fn variables() -> Vec<(String, String)> {
    set(&VARIABLES)
}

/// What the user's own git needs to sign as they would.
pub(crate) fn to_sign_with() -> Vec<(String, Secret)> {
    set(&TO_SIGN_WITH).into_iter().map(|(name, value)| (name, Secret::exactly(&value))).collect()
}

/// Those of them by which it finds their settings.
pub(super) fn places() -> Vec<(String, String)> {
    set(&PLACES)
}

fn set(names: &[&str]) -> Vec<(String, String)> {
    let value = |name: &&str| Some(((*name).to_owned(), std::env::var(name).ok()?));
    names.iter().filter_map(value).collect()
}

/// What is said of the user anywhere.
struct Known {
    /// Settings by their names, the one that wins last.
    settings: Vec<(String, String)>,
    variables: Vec<(String, String)>,
}

impl Known {
    /// A variable wins over a setting for this role, and that over one for all; git guesses no further.
    fn person(&self, role: &str) -> Option<Person> {
        let find = |list: &[(String, String)], name: &str| {
            let found = list.iter().rfind(|(known, _)| known == name);
            found.map(|(_, value)| value.trim().to_owned()).filter(|value| !value.is_empty())
        };
        let part = |part: &str| {
            let variable = format!("GIT_{role}_{part}").to_ascii_uppercase();
            find(&self.variables, &variable)
                .or_else(|| find(&self.settings, &format!("{role}.{part}")))
                .or_else(|| find(&self.settings, &format!("user.{part}")))
        };
        let email = part("email").or_else(|| find(&self.variables, "EMAIL"))?;
        Some(Person { name: part("name")?, email })
    }
}

/// What the settings of the system, the user and the repository say, in that order.
fn settings_of(folder: &Path) -> Vec<(String, String)> {
    let wanted = r"^(user|author|committer)\.(name|email)$";
    let said = asked_as_the_user(folder, &["config", "-z", "--get-regexp", wanted]);
    let lines = said.split('\0').filter_map(|line| line.split_once('\n'));
    lines.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// The folder in which the user's own git looks for hooks, by whatever setting.
pub(crate) fn hooks_of(folder: &Path) -> Option<PathBuf> {
    let said = asked_as_the_user(folder, &["rev-parse", "--git-path", "hooks"]);
    said.strip_suffix('\n').map(|path| folder.join(path))
}

/// What git says of itself with all settings of the user in force; empty if it fails.
fn asked_as_the_user(folder: &Path, words: &[&str]) -> String {
    let spec = ProcessSpec {
        env: variables(),
        cwd: Some(folder.to_owned()),
        timeout: Some(Duration::from_secs(10)),
        streams: Streams::Separate,
        mark: "git".to_owned(),
        containment: Containment::Session,
        ..ProcessSpec::new(["git"].iter().chain(words))
    };
    run(spec, &Cancel::new()).map(|ended| ended.stdout.text()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_wins_over_a_setting_for_the_role_and_that_over_one_for_all() {
        let pairs = |list: &[(&str, &str)]| {
            list.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        let person = |settings: &[(&str, &str)], variables: &[(&str, &str)], role| {
            let known = Known { settings: pairs(settings), variables: pairs(variables) };
            known.person(role).map(|person| format!("{} {}", person.name, person.email))
        };
        let user = [("user.name", "system"), ("user.name", "own"), ("user.email", "o@o")];
        assert_eq!(person(&user, &[], "author").as_deref(), Some("own o@o"));
        let committer = [&user[..], &[("committer.name", "other")]].concat();
        assert_eq!(person(&committer, &[], "author").as_deref(), Some("own o@o"));
        assert_eq!(person(&committer, &[], "committer").as_deref(), Some("other o@o"));
        let set = [("GIT_COMMITTER_NAME", "set"), ("EMAIL", "e@e")];
        assert_eq!(person(&committer, &set, "committer").as_deref(), Some("set o@o"));
        assert_eq!(person(&[], &set, "committer").as_deref(), Some("set e@e"));
        assert_eq!(person(&[], &set, "author"), None);
        assert_eq!(person(&user[..2], &[], "author"), None);
        assert_eq!(
            person(&user, &[("GIT_AUTHOR_NAME", " ")], "author").as_deref(),
            Some("own o@o")
        );
    }
}
