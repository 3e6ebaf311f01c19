//! Readers and schemas agree: on whole files, on each key of them, and on keys that nobody knows.

mod whole;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{FileKind, schema};
use crate::file::tests::shelf::Shelf;
use crate::file::{
    Format, agent, composed, mcp, plugin, policy, prompt, task, validators, workflow,
};

#[path = "../../../tests/support/fit.rs"]
mod fit;

use fit::Fit;

/// What the reader of a kind says about a value; nothing if it takes it.
fn refusal(kind: FileKind, value: &Value) -> Option<Vec<String>> {
    let text = value.to_string();
    // Every JSON text is YAML.
    let read = match kind {
        FileKind::Task => task::parse(&text, "t.yaml", Format::Yaml).map(drop),
        FileKind::Workflow => workflow::parse(&text, "w.yaml", &Shelf).map(drop),
        FileKind::Prompt => prompt::parse(&as_toml(value), "p.toml").map(drop),
        FileKind::Policy => policy::parse(&text, "p.yaml").map(drop),
        FileKind::Agent if composed::is_composed(&text, "a.yaml") => {
            composed::parse(&text, "a.yaml", &Shelf).map(drop)
        }
        FileKind::Agent => agent::parse(&text, "a.yaml").map(drop),
        FileKind::Servers => mcp::parse(&text, "m.yaml").map(drop),
        FileKind::Driver => plugin::parse(&text, "d.yaml").map(drop),
        FileKind::Validators => validators::parse(&text, "v.yaml").map(drop),
        // The runtime reads it, and its own tests hold it against the schema.
        FileKind::Models => Ok(()),
    };
    read.err().map(|errors| errors.into_iter().map(|error| error.message).collect())
}

/// Prompts are read as TOML only. What TOML cannot say is refused by it.
fn as_toml(value: &Value) -> String {
    toml::to_string(value).unwrap_or_else(|_| "=".to_owned())
}

fn value(text: &str) -> Value {
    toml::from_str::<toml::Value>(text).unwrap().try_into().unwrap()
}

/// True if a message is about a key or a type, which a schema can know.
fn is_about_shape(message: &str) -> bool {
    // Whether a machine may leave it out depends on how its states are written.
    if message == "the key \"initial\" is missing" {
        return false;
    }
    message.starts_with("unknown key")
        || message.starts_with("unknown condition")
        || message.starts_with("expected ")
        || message.starts_with("the key ")
        || (message.contains(" must be one of ") && !message.starts_with("the input "))
        || message.starts_with("a schema cannot say")
        || message.contains(" is not a duration")
}

fn agree(kind: FileKind, schema: &Fit, value: &Value) {
    let refused = refusal(kind, value);
    let misfit = schema.misfit(value);
    match (&refused, &misfit) {
        (None, Some(misfit)) => {
            panic!("the reader of {kind:?} takes what its schema refuses: {value}\n{misfit}")
        }
        (Some(messages), None) if messages.iter().any(|message| is_about_shape(message)) => {
            panic!("the schema of {kind:?} takes what its reader refuses: {value}\n{messages:?}")
        }
        _ => {}
    }
}

/// The ways to all parts of a value, the whole first.
fn ways(value: &Value, to: &str, found: &mut Vec<String>) {
    found.push(to.to_owned());
    match value {
        Value::Object(table) => table.iter().for_each(|(key, part)| {
            let key = key.replace('~', "~0").replace('/', "~1");
            ways(part, &format!("{to}/{key}"), found)
        }),
        Value::Array(list) => list.iter().enumerate().for_each(|(index, part)| {
            ways(part, &format!("{to}/{index}"), found);
        }),
        _ => {}
    }
}

#[test]
fn every_key_of_every_kind_fits_and_no_part_may_be_of_another_type() {
    let others = [
        json!(true),
        json!(7),
        json!(-1),
        json!(1.5),
        json!("x"),
        json!("9s"),
        json!([]),
        json!([7]),
        json!(["x"]),
        json!({}),
        json!({"zzz": 1}),
    ];
    for (kind, texts) in whole::files() {
        let schema = Fit::new(schema(kind));
        for text in texts {
            let whole = value(text);
            assert_eq!(refusal(kind, &whole), None, "{text}");
            assert_eq!(schema.misfit(&whole), None, "{text}");
            let mut parts = Vec::new();
            ways(&whole, "", &mut parts);
            for way in parts {
                for other in &others {
                    let mut changed = whole.clone();
                    *changed.pointer_mut(&way).unwrap() = other.clone();
                    agree(kind, &schema, &changed);
                }
                let mut more = whole.clone();
                if let Some(Value::Object(table)) = more.pointer_mut(&way) {
                    table.insert("zzz".to_owned(), json!(1));
                    agree(kind, &schema, &more);
                    let keys: Vec<String> = table_keys(&whole, &way);
                    for key in keys {
                        let mut less = whole.clone();
                        less.pointer_mut(&way).unwrap().as_object_mut().unwrap().remove(&key);
                        agree(kind, &schema, &less);
                    }
                }
            }
        }
    }
}

fn table_keys(whole: &Value, way: &str) -> Vec<String> {
    whole.pointer(way).unwrap().as_object().unwrap().keys().cloned().collect()
}

/// A key that no file of [`whole`] has is a key that the test above never looked at.
#[test]
fn the_whole_files_hold_every_key() {
    // Task files hold workflows, whose keys are in the files of workflows.
    let mut held = std::collections::BTreeSet::new();
    for text in whole::files().into_iter().flat_map(|(_, texts)| texts) {
        let mut parts = Vec::new();
        ways(&value(text), "", &mut parts);
        held.extend(parts.iter().map(|way| way.rsplit('/').next().unwrap().to_owned()));
    }
    for kind in FileKind::ALL.into_iter().filter(|kind| *kind != FileKind::Models) {
        let schema = schema(kind);
        for (table, part) in schema["$defs"].as_object().unwrap() {
            for key in part["properties"].as_object().unwrap().keys() {
                assert!(held.contains(key), "{kind:?}: {table}.{key} is in none of the files");
                assert_ne!(part["properties"][key]["description"], json!(""), "{table}.{key}");
            }
        }
    }
}

#[test]
fn a_word_names_a_kind() {
    for kind in FileKind::ALL {
        assert_eq!(FileKind::named(kind.word()), Some(kind));
    }
    assert_eq!(FileKind::named("tusk"), None);
}

#[test]
fn where_states_begin_is_refused_beside_steps_also_within_a_step() {
    let whole = value(
        "[workflow]\nname = \"w\"\n[[workflow.steps]]\nname = \"inner\"\n[workflow.steps.task]\ngoal = \"g\"\n\
         [workflow.steps.task.workflow]\ninitial = \"x\"\n[[workflow.steps.task.workflow.steps]]\nname = \"x\"\n\
         tool = \"shell\"\nparameters = { command = \"true\" }\n",
    );
    assert_eq!(refusal(FileKind::Workflow, &whole).unwrap(), ["initial goes with states"]);
}

thread_local! {
    /// One for each kind: what their patterns are made of is not made again for every case.
    static FITS: Vec<(FileKind, Fit)> =
        FileKind::ALL.map(|kind| (kind, Fit::new(schema(kind)))).into();
}

proptest! {
    #[test]
    fn a_key_is_known_to_both_or_to_neither(
        which in any::<prop::sample::Index>(),
        part in any::<prop::sample::Index>(),
        key in prop_oneof!["[a-z_]{1,12}", prop::sample::select(known_keys())],
        held in prop_oneof![
            Just(json!(1)), Just(json!("x")), Just(json!(true)), Just(json!(["x"])), Just(json!({})),
        ],
    ) {
        let files: Vec<(FileKind, &str)> = whole::files()
            .into_iter()
            .flat_map(|(kind, texts)| texts.iter().map(move |text| (kind, *text)))
            .collect();
        let (kind, text) = files[which.index(files.len())];
        let mut whole = value(text);
        let mut parts = Vec::new();
        ways(&whole, "", &mut parts);
        parts.retain(|way| whole.pointer(way).unwrap().is_object());
        let way = &parts[part.index(parts.len())];
        whole.pointer_mut(way).unwrap().as_object_mut().unwrap().insert(key, held);
        FITS.with(|fits| {
            let (_, fit) = fits.iter().find(|(of, _)| *of == kind).unwrap();
            agree(kind, fit, &whole);
        });
    }
}

fn known_keys() -> Vec<String> {
    let mut keys = Vec::new();
    for kind in FileKind::ALL {
        for (_, part) in schema(kind)["$defs"].as_object().unwrap() {
            keys.extend(part["properties"].as_object().unwrap().keys().cloned());
        }
    }
    keys
}
