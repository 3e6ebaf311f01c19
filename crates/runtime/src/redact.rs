//! The secrets that this process knows, kept out of everything that it writes down.
//!
//! What comes from outside (output of tools, answers and errors of models, plugins and servers) passes here before it is a
//! signal, a blob, an answer on disk or a word on its way to observers. So the journal holds the name of a key in its place, and so does the next prompt.

use std::borrow::Cow;
use std::path::Path;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, TryLockError};

use machine::agent::AgentNews;
use machine::{Input, Signal};
use serde::Serialize;
use serde::de::DeserializeOwned;
pub(crate) use wire::redact::Redactor;

/// One process has one environment.
static KNOWN: RwLock<Option<Redactor>> = RwLock::new(None);

/// Words in the names of variables that hold secrets.
const NAMES: [&str; 7] =
    ["KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIAL"];

/// Learns the secrets of this process's environment: every variable whose name says that it is one.
pub fn learn_environment() {
    // What is no text is learnt in the form in which it would be shown.
    for (name, value) in std::env::vars_os() {
        learn_variable(&name.to_string_lossy(), &value.to_string_lossy());
    }
}

/// Learns what a variable holds if its name says that it is a secret.
pub(crate) fn learn_variable(name: &str, value: &str) {
    if is_secret(name, value) {
        learn(name, value);
    }
}

/// Learns what a variable of this process holds that somebody says is a key, whatever its name.
pub(crate) fn learn_key(name: &str) {
    if let Ok(value) = std::env::var(name)
        && !is_file(&value)
    {
        learn(name, &value);
    }
}

fn is_secret(name: &str, value: &str) -> bool {
    is_secrets_name(name) && !is_file(value)
}

/// A path to a key is no key, but a key may begin as one does.
fn is_file(value: &str) -> bool {
    value.starts_with('/') && Path::new(value).exists()
}

/// Whether the name of a variable says that a secret is in it.
pub fn is_secrets_name(name: &str) -> bool {
    let name = name.to_uppercase();
    // Git's are names of settings.
    let is_none = name.starts_with("GIT_CONFIG_KEY_");
    let has_word = NAMES.iter().any(|word| name.contains(word))
        || name.split(|c: char| !c.is_alphanumeric()).any(|word| word == "PASS");
    has_word && !is_none
}

/// Learns one secret under its name.
pub fn learn(name: &str, value: &str) {
    let mut known = KNOWN.write().unwrap_or_else(PoisonError::into_inner);
    known.get_or_insert_default().add(name, value);
}

/// What enters the loop, without secrets, and as the journal keeps it if it had to be written to be looked at. Commands are
/// people's own words and stay as they are.
pub(crate) fn input(input: Input) -> (Input, Option<Vec<u8>>) {
    match input {
        Input::Command(_) => (input, None),
        // Two numbers.
        Input::Signal(Signal::AgentSaid(_, AgentNews::WouldAsk { .. })) => (input, None),
        Input::ToolEnded(..) | Input::Signal(_) => {
            let (input, text) = looked_at(input);
            (input, text.map(String::into_bytes))
        }
    }
}

/// A value without secrets in its texts.
pub(crate) fn value<T: Serialize + DeserializeOwned>(value: T) -> T {
    looked_at(value).0
}

/// A value without secrets, and its JSON if it was looked at and showed none.
fn looked_at<T: Serialize + DeserializeOwned>(value: T) -> (T, Option<String>) {
    let known = known();
    let Some(redactor) = known.as_ref().filter(|redactor| !redactor.is_empty()) else {
        return (value, None);
    };
    // Inside JSON a secret stands in one of the forms that are looked for.
    let Ok(text) = serde_json::to_string(&value) else { return (value, None) };
    if !redactor.finds(&text) {
        return (value, Some(text));
    }
    let covered = serde_json::from_str(&text).map(|parsed| redactor.json(parsed));
    (covered.and_then(serde_json::from_value).unwrap_or(value), None)
}

/// Bytes without secrets.
pub(crate) fn bytes(bytes: &[u8]) -> Cow<'_, [u8]> {
    match known().as_ref() {
        Some(redactor) => Cow::Owned(redactor.bytes(bytes).into_owned()),
        None => Cow::Borrowed(bytes),
    }
}

/// What is left of bytes whose end was cut off without what remains of a secret there, which nobody would know any more.
pub(crate) fn until_cut(bytes: &[u8]) -> &[u8] {
    match known().as_ref() {
        Some(redactor) => &bytes[..redactor.known_until(bytes)],
        None => bytes,
    }
}

/// The same for bytes whose beginning was cut off.
pub(crate) fn from_cut(bytes: &[u8]) -> &[u8] {
    match known().as_ref() {
        Some(redactor) => &bytes[redactor.known_from(bytes)..],
        None => bytes,
    }
}

/// A text without secrets.
pub fn text(text: &str) -> String {
    known().as_ref().map_or_else(|| text.to_owned(), |redactor| redactor.text(text).into_owned())
}

/// A text without secrets, whatever became of their letters on the way.
pub(crate) fn in_any_case(text: &str) -> String {
    let known = known();
    known.as_ref().map_or_else(|| text.to_owned(), |redactor| redactor.text_in_any_case(text))
}

/// The same for the message of a panic, which may come while a secret is being learnt: nothing is waited for, and where it
/// is not known what the secrets are there is no text.
pub fn text_at_once(text: &str) -> Option<String> {
    let known = match KNOWN.try_read() {
        Ok(known) => known,
        Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        Err(TryLockError::WouldBlock) => return None,
    };
    Some(
        known.as_ref().map_or_else(|| text.to_owned(), |redactor| redactor.text(text).into_owned()),
    )
}

/// All of them, to look for many times.
pub(crate) fn known() -> RwLockReadGuard<'static, Option<Redactor>> {
    KNOWN.read().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use machine::Signal;
    use machine::id::EffectId;
    use machine::tool::ToolResult;

    use super::*;

    #[test]
    fn a_report_holds_the_name_of_a_secret_in_its_place() {
        learn("TEST_KEY", "of-this-test-0815");
        let ended = Input::ToolEnded(EffectId(1), ToolResult::ok("it is of-this-test-0815!"));
        let (Input::ToolEnded(_, result), None) = input(ended) else { panic!("another input") };
        assert_eq!(result.text, "it is [redacted: TEST_KEY]!");
        let failed = Signal::Consulted(EffectId(2), Err("no: of-this-test-0815".to_owned()));
        let shown = format!("{:?}", input(failed.into()));
        assert!(shown.contains("no: [redacted: TEST_KEY]"), "{shown}");
        let plain = Input::ToolEnded(EffectId(3), ToolResult::ok("nothing"));
        let kept = crate::host::encode(&plain);
        assert_eq!(input(plain.clone()), (plain, Some(kept)), "as the journal would write it");
        assert_eq!(bytes(b"of-this-test-0815").as_ref(), b"[redacted: TEST_KEY]");
    }

    #[test]
    fn a_key_that_begins_as_a_path_does_is_one_and_a_path_to_a_key_is_none() {
        assert!(is_secret("AWS_SECRET_ACCESS_KEY", "/kPxRfiCYzEXAMPLE+bK7MDENG/x"));
        assert!(is_secret("gpg_passphrase", "of-this-test-0817"));
        assert!(is_secret("DB_PASS", "of-this-test-0817"));
        assert!(is_secret("pass", "of-this-test-0817"));
        assert!(!is_secret("COMPASS", "of-this-test-0817"));
        assert!(!is_secret("SSH_ASKPASS", "of-this-test-0817"));
        assert!(!is_secret("TLS_KEY_FILE", "/dev/null"));
        assert!(!is_secret("GIT_CONFIG_KEY_0", "safe.directory"));
        assert!(!is_secret("EDITOR", "of-this-test-0818"));
    }

    #[test]
    fn a_panic_while_a_secret_is_learnt_waits_for_nothing() {
        let learning = KNOWN.write().unwrap();
        assert_eq!(text_at_once("anything"), None);
        drop(learning);
        learn("OTHER_KEY", "of-this-test-0816");
        // Other tests learn at the same time.
        let shown =
            std::iter::repeat_with(|| text_at_once("of-this-test-0816")).find_map(|shown| shown);
        assert_eq!(shown.as_deref(), Some("[redacted: OTHER_KEY]"));
    }
}
