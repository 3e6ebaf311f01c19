//! Agents that are made of parts: what loads, what is refused, and what each key changes.

use crate::driver::Registry;
use crate::file::lookup::{Found, NotFound, Origin};

use super::*;

/// A lookup with a few texts.
struct Shelf;

impl Lookup for Shelf {
    fn find(&self, kind: Kind, name: &str) -> Result<Found, NotFound> {
        let text = match (kind, name) {
            (Kind::Workflow, "validate-fix") => "[workflow]\n",
            (Kind::Prompt, "terse") => "Be brief about {{ goal }}.",
            (Kind::Prompt, "broken") => "{{ goal",
            (Kind::Prompt, "strange") => "{{ steps.a.text }}",
            _ => {
                let known = vec!["validate-fix".to_owned(), "terse".to_owned()];
                return Err(NotFound {
                    known,
                    why: format!("there is no {} {name:?}", kind.word()),
                });
            }
        };
        Ok(Found { text: text.to_owned(), file: format!("{name}.txt"), origin: Origin::BuiltIn })
    }
}

const SEED: &str = r#"
[agent]
name = "repair-agent"
description = "Fixes compilation errors using structural tools"

workflow = "@workflows/validate-fix"

[agent.tools]
enabled = ["skeleton", "grep", "patch", "validator"]
disabled = []

[agent.context]
include_diagnostics = true
include_memory = true
peek_first = true
"#;

fn read(text: &str) -> Result<Composed, Vec<SourceError>> {
    parse(text, "a.toml", &Shelf)
}

fn with(lines: &str) -> Composed {
    read(&format!("[agent]\nname = \"a\"\nmodel = \"script/x\"\n{lines}\n"))
        .unwrap_or_else(|errors| panic!("{}", errors[0]))
}

fn config(agent: &Composed, notes: Option<&str>) -> Value {
    let mut driver = agent.driver();
    agent.instruct(&mut driver, "the goal", notes).unwrap();
    driver.config
}

#[test]
fn the_example_of_the_seed_loads_as_it_is_written() {
    assert!(is_composed(SEED, "repair-agent.toml"));
    assert!(!is_composed("[agent]\nname = \"x\"\ncommand = [\"x\"]\nmodel = \"m\"\n", "x.toml"));
    let agent = read(SEED).unwrap();
    assert_eq!(agent.name, "repair-agent");
    assert_eq!(agent.worker, Worker::Workflow("validate-fix".to_owned()));
    assert!(agent.description.starts_with("Fixes"));
    let enabled = ["skeleton", "grep", "patch", "validator.run"].map(str::to_owned).to_vec();
    assert_eq!(agent.charter.enabled, Some(enabled));
    assert!(agent.charter.peek_first && agent.include_diagnostics && agent.include_memory);
    assert_eq!(agent.driver().config, json!({ "workflow": "validate-fix" }));
}

#[test]
fn each_key_changes_what_the_worker_gets() {
    let plain = config(&with(""), None);
    assert_eq!(plain, json!({ "model": "script/x" }));
    let told = config(&with("prompt = \"@prompts/terse\""), Some("a note"));
    assert_eq!(told["system"], "Be brief about the goal.\n\na note");
    assert_eq!(config(&with("prompt = \"@@home\""), None)["system"], "@home");
    let few = with("[agent.tools]\nenabled = [\"read\", \"validator\"]\ndisabled = [\"shell\"]");
    let few = config(&few, None);
    assert_eq!(few["tools"], json!(["read", "validator.run"]));
    assert_eq!(few["without"], json!(["shell"]));
    let checked = config(&with("[agent.context]\ninclude_diagnostics = true"), None);
    assert_eq!(checked["first"][0]["tool"], "validator.run");
    let off = config(&with("[agent.context]\ninclude_diagnostics = false"), None);
    assert_eq!(off.get("first"), None);
    assert!(with("[agent.context]\npeek_first = true").charter.peek_first);
    for config in [&plain, &told, &few, &checked] {
        Registry::builtin().find("llm").unwrap().create(config, &Registry::builtin()).unwrap();
    }
    let program = read("[agent]\nname = \"a\"\nprogram = \"claude\"\nmodel = \"opus\"\n").unwrap();
    assert_eq!(program.driver().config, json!({ "agent": "claude", "model": "opus" }));
    let other = read("[agent]\nname = \"a\"\ndriver = \"external:mine\"\n").unwrap();
    assert_eq!(other.driver().name, "external:mine");
}

#[test]
fn everything_that_is_wrong_is_said_with_its_place() {
    for (lines, said) in [
        ("", "nobody does the work"),
        ("model = \"x\"", "\"x\" is not a model"),
        ("model = \"a/b\"\nworkflow = \"@workflows/validate-fix\"", "does not go with a workflow"),
        ("workflow = \"@workflows/validate-fix\"\nprogram = \"claude\"", "are both named"),
        ("workflow = \"@workflows/validat-fix\"", "did you mean \"validate-fix\"?"),
        ("workflow = \"validate-fix\"", "write @workflows/validate-fix"),
        ("workflow = \"@prompts/terse\"", "a prompt does no work"),
        ("workflow = \"@workflows/../x\"", "does not name a file"),
        ("driver = \"llm\"", "has nothing to work with"),
        ("driver = \"workflow\"", "has nothing to work with"),
        ("driver = \"user\"\nmodel = \"a/b\"", "goes with the driver llm"),
        ("driver = \"user\"\nprompt = \"x\"", "takes no prompt"),
        ("driver = \"user\"\n[agent.context]\ninclude_memory = true", "cannot be told anything"),
        ("program = \"claude\"\n[agent.context]\npeek_first = true", "cannot be held for claude"),
        ("model = \"a/b\"\nprompt = \"@prompts/ters\"", "did you mean \"terse\"?"),
        ("model = \"a/b\"\nprompt = \"@workflows/validate-fix\"", "a workflow is no prompt"),
        ("model = \"a/b\"\nprompt = \"@prompts/broken\"", "broken.txt:1"),
        ("model = \"a/b\"\nprompt = \"@prompts/strange\"", "nobody gives \"steps.a.text\""),
        ("model = \"a/b\"\nprompt = \"{{ goel }}\"", "did you mean \"goal\"?"),
        ("model = \"a/b\"\nprompt = \"{{ goal|shout }}\"", "unknown filter"),
        ("model = \"a/b\"\n[agent.tools]\nenabled = [\"raed\"]", "did you mean \"read\"?"),
        ("model = \"a/b\"\n[agent.tools]\nenable = [\"read\"]", "did you mean \"enabled\"?"),
        (
            "model = \"a/b\"\n[agent.tools]\nenabled = [\"read\"]\ndisabled = [\"read\"]",
            "disabled too",
        ),
        ("model = \"a/b\"\n[agent.context]\npeek_frst = true", "did you mean \"peek_first\"?"),
        ("model = \"a/b\"\n[agent.context]\npeek_first = \"yes\"", "expected true or false"),
        ("model = \"a/b\"\ntemperature = 1", "unknown key \"temperature\""),
    ] {
        let errors = read(&format!("[agent]\nname = \"a\"\n{lines}\n")).expect_err(lines);
        let shown: String = errors.iter().map(ToString::to_string).collect();
        assert!(shown.contains(said), "{lines}: {shown}");
        assert!(errors.iter().all(|error| error.line >= 1));
    }
    let both = read("[agent]\nname = \"a/b\"\nmodel = \"x\"\ncolour = 1\n").unwrap_err();
    assert_eq!(both.len(), 3, "all at once");
}
