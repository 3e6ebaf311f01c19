//! Every kind of mistake that a file can hold, with what a person sees then. The kinds are listed in `cases.rs`; each
//! must be shown with its file, its line, the source with a caret, and something to do about it.

mod cases;

use std::collections::BTreeSet;

use cases::{ALL, Mistake, Reader};

use super::super::{
    Format, SourceError, agent, decode, mcp, plugin, policy, prompt, task, validators, workflow,
};
use super::shelf::Shelf;

fn errors(mistake: &Mistake) -> Vec<SourceError> {
    let text = match decode(mistake.text.as_bytes(), mistake.file) {
        Ok(text) => text,
        Err(errors) => return errors,
    };
    let file = mistake.file;
    let read = match mistake.reader {
        Reader::Task => task::parse(text, file, Format::of(file)).map(drop),
        Reader::Policy => policy::parse(text, file).map(drop),
        Reader::Agent => agent::parse(text, file).map(drop),
        Reader::Servers => mcp::parse(text, file).map(drop),
        Reader::Driver => plugin::parse(text, file).map(drop),
        Reader::Validators => validators::parse(text, file).map(drop),
        Reader::Prompt => prompt::parse(text, file).map(drop),
        Reader::Workflow => workflow::parse(text, file, &Shelf).map(drop),
    };
    match read {
        Ok(()) => panic!("{} is taken:\n{text}", mistake.kind),
        Err(errors) => errors,
    }
}

fn shown(reader: Reader) -> String {
    let mut text = String::new();
    for mistake in ALL.iter().flat_map(|list| list.iter()).filter(|one| one.reader == reader) {
        text.push_str(&format!("# {}\n\n", mistake.kind));
        for error in errors(mistake) {
            text.push_str(&format!("{error}\n\n"));
        }
    }
    text
}

#[test]
fn every_kind_of_mistake_is_named_once_and_there_are_many() {
    let all: Vec<&Mistake> = ALL.iter().flat_map(|list| list.iter()).collect();
    let kinds: BTreeSet<String> =
        all.iter().map(|one| format!("{:?}: {}", one.reader, one.kind)).collect();
    assert_eq!(kinds.len(), all.len());
    assert!(kinds.len() >= 60, "only {} kinds", kinds.len());
}

#[test]
fn every_mistake_has_its_place_and_something_to_do_about_it() {
    for mistake in ALL.iter().flat_map(|list| list.iter()) {
        for error in errors(mistake) {
            // A file may end before what it lacks.
            let lines = mistake.text.lines().count() + 1;
            assert!((1..=lines).contains(&error.line), "{}: {error}", mistake.kind);
            let is_here = error.file == mistake.file;
            assert!(
                is_here || ["broken", "ring"].iter().any(|name| error.file.contains(name)),
                "{error}"
            );
            if !is_here {
                continue;
            }
            let line = mistake.text.lines().nth(error.line - 1).unwrap_or_default();
            let is_blank = line.trim().is_empty();
            assert!(is_blank || !error.snippet.is_empty(), "{}: {error}", mistake.kind);
            assert!(error.hint.is_some(), "{} has no suggestion:\n{error}", mistake.kind);
        }
    }
}

macro_rules! snapshots {
    ($($test:ident $reader:ident;)*) => {$(
        #[test]
        fn $test() {
            insta::assert_snapshot!(shown(Reader::$reader));
        }
    )*};
}

snapshots! {
    mistakes_in_task_files Task;
    mistakes_in_policies Policy;
    mistakes_in_files_of_agents Agent;
    mistakes_in_files_of_servers Servers;
    mistakes_in_files_of_drivers Driver;
    mistakes_in_files_of_checks Validators;
    mistakes_in_prompts Prompt;
    mistakes_in_workflows Workflow;
}
