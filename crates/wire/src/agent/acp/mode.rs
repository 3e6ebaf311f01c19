//! The mode of permission of a session: which there are, which one is in force, and which one must be. An agent may
//! begin in a mode in which it asks about nothing; it is put into one in which it asks, or not used.

use machine::agent::AgentQuirks;
use serde_json::{Value, json};

/// Modes in which agents that nobody knows ask, by what they are commonly called.
const COMMON: [&str; 4] = ["default", "ask", "manual", "read-only"];

/// The modes of a session.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Modes {
    /// The one in force, as far as the agent said.
    pub(super) current: String,
    pub(super) available: Vec<String>,
    /// The option that holds the mode, for agents that have options in place of modes.
    option: Option<String>,
    /// Those in which it may be used.
    fine: Vec<String>,
    /// Whether it asks in those.
    pub(super) asks: bool,
}

impl Modes {
    /// The modes that the answer to opening a session tells of.
    pub(super) fn read(session: &Value) -> Modes {
        let texts = |list: &Value, key: &str| -> Vec<String> {
            let list = list.as_array().map(Vec::as_slice).unwrap_or_default();
            list.iter().filter_map(|entry| entry[key].as_str().map(str::to_owned)).collect()
        };
        let modes = &session["modes"];
        if let Some(current) = modes["currentModeId"].as_str() {
            let available = texts(&modes["availableModes"], "id");
            return Modes { current: current.to_owned(), available, ..Modes::default() };
        }
        let Some((option, current)) = of_options(&session["configOptions"], "mode") else {
            return Modes::default();
        };
        let available = texts(&option["options"], "value");
        let id = option["id"].as_str().unwrap_or("mode").to_owned();
        Modes { current, available, option: Some(id), ..Modes::default() }
    }

    /// The mode that must be set before it is used; nothing if it is in one already. The error says why it cannot be
    /// used.
    pub(super) fn choose(
        &mut self,
        wanted: Option<&str>,
        quirks: &AgentQuirks,
    ) -> Result<Option<String>, String> {
        let known: Vec<&str> = match quirks.asking_modes.as_slice() {
            [] => COMMON.to_vec(),
            known => known.iter().map(String::as_str).collect(),
        };
        let has = |mode: &str| self.available.iter().any(|available| available == mode);
        let there = self.available.join(", ");
        if let Some(wanted) = wanted {
            if !has(wanted) {
                return Err(format!("it has no mode {wanted:?}; it has {there}")
                    .replace("it has .", "it has none"));
            }
            self.asks = known.contains(&wanted);
            self.fine = vec![wanted.to_owned()];
            return Ok((self.current != wanted).then(|| wanted.to_owned()));
        }
        if self.available.is_empty() && self.current.is_empty() {
            if quirks.asking_modes.is_empty() {
                // Nothing can be set and nothing is known: what it asks about is up to it.
                return Ok(None);
            }
            return Err(format!(
                "it does not say in which mode it is; expected one of {}",
                quirks.asking_modes.join(", ")
            ));
        }
        self.asks = true;
        self.fine = known.iter().filter(|mode| has(mode)).map(|mode| (*mode).to_owned()).collect();
        if self.fine.contains(&self.current) {
            return Ok(None);
        }
        let first = self.fine.first().cloned().map(Some);
        first.ok_or_else(|| {
            format!(
                "it begins in mode {:?} and none of its modes is known to ask ({there}); \
                 name one in its file with `mode`",
                self.current
            )
        })
    }

    /// What sets this mode: the method and its parameters.
    pub(super) fn set(&self, session: &str, mode: &str) -> (&'static str, Value) {
        match &self.option {
            None => ("session/set_mode", json!({ "sessionId": session, "modeId": mode })),
            Some(option) => (
                "session/set_config_option",
                json!({ "sessionId": session, "configId": option, "value": mode }),
            ),
        }
    }

    /// Whether it may be used in this mode.
    pub(super) fn is_fine(&self, mode: &str) -> bool {
        self.fine.is_empty() || self.fine.iter().any(|fine| fine == mode)
    }

    /// All of them, the one in force first.
    pub(super) fn listed(&self) -> Vec<String> {
        let others = self.available.iter().filter(|mode| **mode != self.current).cloned();
        let current = Some(self.current.clone()).filter(|mode| !mode.is_empty());
        current.into_iter().chain(others).collect()
    }
}

/// The mode that an update tells of; nothing if it tells of something else.
pub(super) fn told(update: &Value) -> Option<String> {
    match update["sessionUpdate"].as_str()? {
        "current_mode_update" => update["currentModeId"].as_str().map(str::to_owned),
        "config_option_update" => of_options(&update["configOptions"], "mode").map(|(_, is)| is),
        _ => None,
    }
}

/// The option of this category, and what it is set to.
pub(super) fn of_options<'v>(options: &'v Value, category: &str) -> Option<(&'v Value, String)> {
    let options = options.as_array()?;
    let option = options.iter().find(|option| option["category"] == category)?;
    Some((option, option["currentValue"].as_str()?.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn modes(current: &str, available: &[&str]) -> Modes {
        let available: Vec<Value> = available.iter().map(|id| json!({ "id": id })).collect();
        Modes::read(&json!({ "modes": { "currentModeId": current, "availableModes": available } }))
    }

    fn asking(modes: &[&str]) -> AgentQuirks {
        let asking_modes = modes.iter().map(|mode| (*mode).to_owned()).collect();
        AgentQuirks { asking_modes, ..AgentQuirks::default() }
    }

    #[test]
    fn an_agent_that_begins_without_asking_is_put_into_a_mode_that_asks_or_not_used() {
        let known = asking(&["read-only"]);
        let mut codex = modes("agent", &["read-only", "agent", "agent-full-access"]);
        assert_eq!(codex.choose(None, &known), Ok(Some("read-only".to_owned())));
        assert!(codex.is_fine("read-only") && !codex.is_fine("agent"));
        let mut stranger = modes("go", &["go", "yolo"]);
        let error = stranger.choose(None, &AgentQuirks::default()).unwrap_err();
        assert!(error.contains("begins in mode \"go\"") && error.contains("go, yolo"), "{error}");
        let mut common = modes("yolo", &["yolo", "default"]);
        assert_eq!(common.choose(None, &AgentQuirks::default()), Ok(Some("default".to_owned())));
        let error = Modes::default().choose(None, &known).unwrap_err();
        assert!(error.contains("does not say in which mode"), "{error}");
        assert_eq!(Modes::default().choose(None, &AgentQuirks::default()), Ok(None));
    }

    #[test]
    fn a_mode_that_somebody_named_counts_and_must_be_there() {
        let mut some = modes("default", &["default", "acceptEdits"]);
        let known = asking(&["default"]);
        assert_eq!(some.choose(Some("acceptEdits"), &known), Ok(Some("acceptEdits".to_owned())));
        assert!(!some.asks);
        assert_eq!(some.choose(Some("default"), &known), Ok(None));
        assert!(some.asks);
        let error = some.choose(Some("plan"), &known).unwrap_err();
        assert_eq!(error, "it has no mode \"plan\"; it has default, acceptEdits");
    }

    #[test]
    fn options_in_place_of_modes_are_set_as_options() {
        let options = [json!({ "value": "build" }), json!({ "value": "plan" })];
        let option = json!({ "id": "m", "category": "mode", "currentValue": "build",
            "options": options });
        let mut read = Modes::read(&json!({ "configOptions": [option] }));
        assert_eq!(read.choose(None, &asking(&["plan"])), Ok(Some("plan".to_owned())));
        let (method, params) = read.set("s", "plan");
        assert_eq!(method, "session/set_config_option");
        assert_eq!(params, json!({ "sessionId": "s", "configId": "m", "value": "plan" }));
    }
}
