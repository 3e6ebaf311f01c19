//! A server that is drivetrain itself: who may work on the tasks that a task dispatches with it, and how much.

use std::fmt::Display;

use crate::file::check::{Cursor, Problems};
use crate::file::shape::mcp as shape;
use crate::time::Span;

/// Keys that say something of a program or an address, and nothing of drivetrain itself.
const OTHERS: [&str; 9] = [
    "command",
    "url",
    "env",
    "headers",
    "trust_annotations",
    "network",
    "read",
    "write",
    "workspace",
];

/// What such a server is told on its command line.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Dispatching {
    /// The coding agents that may work.
    pub agents: Vec<String>,
    /// The models that may work.
    pub models: Vec<String>,
    /// Commands that decide over every task.
    pub checks: Vec<String>,
    /// What the tasks may do where no rule says anything.
    pub profile: Option<String>,
    /// How many there may be.
    pub max_tasks: Option<u64>,
    /// What all may cost together, in US dollars.
    pub max_usd: Option<f64>,
    /// Tokens for all together.
    pub max_tokens: Option<u64>,
    /// Turns of each.
    pub max_turns: Option<u64>,
    /// Time of each.
    pub max_time: Option<Span>,
}

impl Dispatching {
    /// The words after the program's name; `parent` is the task that dispatches. Each option is one word with its value, so
    /// that no value can be taken for an option.
    pub fn arguments(&self, parent: Option<&str>) -> Vec<String> {
        let mut words = vec!["mcp".to_owned(), "--require-key".to_owned()];
        let mut say = |option: &str, value: &dyn Display| words.push(format!("--{option}={value}"));
        parent.iter().for_each(|parent| say("parent", parent));
        self.agents.iter().for_each(|agent| say("agent", agent));
        self.models.iter().for_each(|model| say("model", model));
        self.checks.iter().for_each(|check| say("check", check));
        self.profile.iter().for_each(|profile| say("profile", profile));
        self.max_tasks.iter().for_each(|count| say("max-tasks", count));
        self.max_usd.iter().for_each(|usd| say("max-usd", usd));
        self.max_tokens.iter().for_each(|count| say("max-tokens", count));
        self.max_turns.iter().for_each(|count| say("max-turns", count));
        self.max_time.iter().for_each(|span| say("max-time", span));
        words
    }
}

/// Reads `dispatch` of a server; `server` is the table around it.
pub(super) fn read(
    server: &Cursor<'_>,
    at: &Cursor<'_>,
    problems: &mut Problems,
) -> Option<Dispatching> {
    for key in OTHERS {
        if let Some(given) = server.get(key) {
            let hint = "a server is a program, an address or drivetrain itself: leave it out";
            let message = format!("{key} is not for a server with dispatch");
            problems.push_key(&given, message, Some(hint.to_owned()));
        }
    }
    if !at.keys(problems, &shape::DISPATCH) {
        return None;
    }
    if at.get("agents").is_none() && at.get("models").is_none() {
        let hint = "agents = [\"codex\"] or models = [\"PROVIDER/NAME\"]".to_owned();
        problems.push_key(at, "it names nobody who works", Some(hint));
    }
    let mut count = |key: &str| {
        let given = at.get(key)?;
        let count = given.whole(problems)?;
        if count == 0 {
            let hint = Some("write 1 or more, or leave it out".to_owned());
            problems.push(&given, format!("{key} = 0 would refuse every task"), hint);
        }
        Some(count)
    };
    let (max_tasks, max_tokens) = (count("max_tasks"), count("max_tokens"));
    let max_turns = count("max_turns");
    Some(Dispatching {
        agents: words(at, "agents", Least::One, problems),
        models: words(at, "models", Least::One, problems),
        checks: words(at, "checks", Least::None, problems),
        profile: at
            .get("profile")
            .and_then(|word| word.choice(problems, &shape::PROFILES))
            .map(str::to_owned),
        max_tasks,
        max_usd: at.get("max_usd").and_then(|number| number.number(problems)),
        max_tokens,
        max_turns,
        max_time: at.get("max_time").and_then(|span| span.span(problems)),
    })
}

/// How many a list must have.
#[derive(PartialEq)]
enum Least {
    None,
    One,
}

fn words(at: &Cursor<'_>, key: &str, least: Least, problems: &mut Problems) -> Vec<String> {
    let Some(list) = at.get(key) else { return Vec::new() };
    let words = list.texts(problems);
    let is_short = list.value.is_array() && words.is_empty() && least == Least::One;
    if is_short || words.iter().any(|word| word.trim().is_empty()) {
        let hint = "name each in quotes, or leave the key out".to_owned();
        problems.push(&list, format!("{key} is empty, or has an empty name"), Some(hint));
    }
    words
}

#[cfg(test)]
mod tests {
    use super::super::{Reach, parse};
    use super::*;

    #[test]
    fn what_the_file_says_is_told_to_the_server_word_for_word() {
        let text = "[server.tasks]\n[server.tasks.dispatch]\nagents = [\"codex\"]\nmodels = [\"a/b\"]\n\
            checks = [\"-x y\"]\nprofile = \"dev\"\nmax_tasks = 4\nmax_usd = 0.5\nmax_tokens = 9\nmax_turns = 3\n\
            max_time = \"90s\"\n";
        let server = parse(text, "mcp.toml").unwrap().remove(0);
        let Reach::Dispatch(dispatching) = &server.reach else { panic!("{server:?}") };
        assert_eq!(
            dispatching.arguments(Some("abc")),
            [
                "mcp",
                "--require-key",
                "--parent=abc",
                "--agent=codex",
                "--model=a/b",
                "--check=-x y",
                "--profile=dev",
                "--max-tasks=4",
                "--max-usd=0.5",
                "--max-tokens=9",
                "--max-turns=3",
                "--max-time=1m30s",
            ]
        );
        assert!(server.trust_annotations && server.timeout > Span::seconds(3600));
        let least = Dispatching { agents: vec!["codex".to_owned()], ..Dispatching::default() };
        assert_eq!(least.arguments(None), ["mcp", "--require-key", "--agent=codex"]);
    }
}
