//! The `[[decider]]` tables of a policy: who is asked, in order, when nobody attends.

use std::collections::BTreeMap;

use super::check::{Cursor, Problems};
use super::shape::policy as shape;
use crate::driver::external::PluginSpec;
use crate::policy::decider::{Decider, DeciderKind};
use crate::policy::sandbox::Needs;
use crate::time::Span;

/// Reads the deciders below the top of a policy; none if it has none. `escalates` is whether the policy asks them: one
/// that is declared and never asked is a mistake, and so is the opposite.
pub(crate) fn read(top: &Cursor<'_>, escalates: bool, problems: &mut Problems) -> Vec<Decider> {
    let Some(list) = top.get("decider") else {
        if escalates && let Some(word) = top.get("unattended") {
            let hint = "add a [[decider]], or say deny or wait";
            let message = "there is no decider to escalate to";
            problems.push(&word, message, Some(hint.to_owned()));
        }
        return Vec::new();
    };
    if !escalates {
        let hint = "write unattended = \"escalate\" at the top";
        problems.push_key(&list, "these deciders are never asked", Some(hint.to_owned()));
    }
    let items = list.items(problems);
    let mut deciders: Vec<Decider> = Vec::new();
    for item in &items {
        let Some(decider) = read_one(item, problems) else { continue };
        if deciders.iter().any(|other| other.name == decider.name) {
            let message = format!("there is another decider {:?}", decider.name);
            problems.push(item, message, Some("give each a name of its own".to_owned()));
        }
        deciders.push(decider);
    }
    deciders
}

fn read_one(at: &Cursor<'_>, problems: &mut Problems) -> Option<Decider> {
    if !at.value.is_object() {
        at.wrong(problems, "a table");
        return None;
    }
    let kind = at.need(problems, "kind");
    let kind = kind.and_then(|word| word.choice(problems, &shape::DECIDERS))?;
    let shape = match kind {
        "model" => &shape::MODEL_DECIDER,
        "program" => &shape::PROGRAM_DECIDER,
        _ => &shape::PERSON_DECIDER,
    };
    at.keys(problems, shape);
    let name = match at.get("name") {
        Some(name) => name.name(problems)?.to_owned(),
        None => kind.to_owned(),
    };
    let timeout = at.get("timeout").and_then(|timeout| {
        let span = timeout.span(problems)?;
        if span == Span(0) {
            problems.push(
                &timeout,
                "a timeout of nothing would stop every answer",
                Some("write a longer one, such as \"30s\", or leave it out".to_owned()),
            );
        }
        Some(span)
    });
    let kind = match kind {
        "model" => read_model(at, problems)?,
        "program" => read_program(at, &name, problems)?,
        _ => DeciderKind::Person,
    };
    Some(Decider { name, kind, timeout })
}

fn read_model(at: &Cursor<'_>, problems: &mut Problems) -> Option<DeciderKind> {
    let given = at.need(problems, "model");
    let rubric = at.need(problems, "rubric");
    let model = given.as_ref().and_then(|model| model.text(problems));
    if let (Some(given), Some(model)) = (&given, model)
        && model
            .split_once('/')
            .is_none_or(|(provider, name)| provider.is_empty() || name.is_empty())
    {
        let hint = "write PROVIDER/NAME, such as anthropic/NAME or script/FILE";
        problems.push(given, format!("{model:?} is not a model"), Some(hint.to_owned()));
    }
    let written = rubric.as_ref().and_then(|rubric| rubric.text(problems));
    if let (Some(rubric), Some(written)) = (&rubric, written)
        && written.trim().is_empty()
    {
        let hint = "say what may run and what may not";
        problems.push(rubric, "the rubric is empty", Some(hint.to_owned()));
    }
    Some(DeciderKind::Model { model: model?.to_owned(), rubric: written?.to_owned() })
}

fn read_program(at: &Cursor<'_>, name: &str, problems: &mut Problems) -> Option<DeciderKind> {
    let list = at.need(problems, "command")?;
    let command = list.texts(problems);
    if list.value.is_array() && command.first().is_none_or(|program| program.trim().is_empty()) {
        let hint = "write [\"program\", \"argument\"]";
        problems.push(&list, "the command is empty", Some(hint.to_owned()));
    }
    let mut env = BTreeMap::new();
    if let Some(table) = at.get("env") {
        if !table.value.is_object() {
            table.wrong(problems, "a table of texts");
        }
        for (key, entry) in table.entries() {
            env.extend(entry.text(problems).map(|text| (key.to_owned(), text.to_owned())));
        }
    }
    let plugin = PluginSpec {
        name: name.to_owned(),
        command,
        timeout: None,
        folder: None,
        env,
        needs: Needs::default(),
    };
    Some(DeciderKind::Program { plugin })
}

#[cfg(test)]
mod tests {
    use super::super::policy;
    use super::*;

    fn errors(text: &str) -> String {
        let errors = policy::parse(text, "policy.toml").unwrap_err();
        errors.iter().map(|error| error.message.clone()).collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn a_chain_is_read_in_order() {
        let text = r#"
unattended = "escalate"

[[decider]]
name = "careful"
kind = "model"
model = "script/judge.toml"
rubric = "Tests may run."
timeout = "20s"

[[decider]]
kind = "program"
command = ["./judge", "-q"]
env = { LEVEL = "2" }

[[decider]]
kind = "person"
"#;
        let deciders = policy::parse(text, "policy.toml").unwrap().deciders;
        let names: Vec<&str> = deciders.iter().map(|decider| decider.name.as_str()).collect();
        assert_eq!(names, ["careful", "program", "person"]);
        assert_eq!(deciders[0].patience(), Some(Span::seconds(20)));
        assert_eq!(deciders[1].patience(), Some(Span::seconds(30)));
        assert_eq!(deciders[2].patience(), None);
        let DeciderKind::Program { plugin } = &deciders[1].kind else { panic!() };
        assert_eq!((plugin.command.len(), plugin.env["LEVEL"].as_str()), (2, "2"));
        let saved = serde_json::to_string(&deciders).unwrap();
        assert_eq!(serde_json::from_str::<Vec<Decider>>(&saved).unwrap(), deciders);
    }

    #[test]
    fn what_would_never_be_asked_or_cannot_be_is_an_error() {
        assert_eq!(errors("unattended = \"escalate\""), "there is no decider to escalate to");
        assert_eq!(errors("[[decider]]\nkind = \"person\""), "these deciders are never asked");
        let chain = |tables: &str| errors(&format!("unattended = \"escalate\"\n{tables}"));
        assert!(chain("[[decider]]\nkind = \"modle\"").contains("must be one of"));
        assert!(chain("[[decider]]\nkind = \"model\"").contains("\"model\" is missing"));
        assert_eq!(
            chain("[[decider]]\nkind = \"model\"\nmodel = \"x\"\nrubric = \" \""),
            "\"x\" is not a model; the rubric is empty"
        );
        assert_eq!(
            chain("[[decider]]\nkind = \"person\"\nmodel = \"a/b\""),
            "unknown key \"model\" in a decider of the kind person"
        );
        assert_eq!(chain("[[decider]]\nkind = \"program\"\ncommand = []"), "the command is empty");
        let twice = "[[decider]]\nkind = \"person\"\n".repeat(2);
        assert_eq!(chain(&twice), "there is another decider \"person\"");
    }
}
