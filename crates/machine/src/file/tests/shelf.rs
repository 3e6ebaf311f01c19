//! A few files that others can refer to.

use super::super::lookup::{Found, Kind, Lookup, NotFound, Origin};

/// The files.
#[derive(Debug)]
pub(in crate::file) struct Shelf;

const PROMPTS: [(&str, &str); 2] = [("terse", "Be brief."), ("broken", "Say {{ goal")];
const WORKFLOWS: [(&str, &str); 4] = [
    (
        "test",
        "[workflow]\n[workflow.inputs.deep]\ntype = \"boolean\"\n[workflow.outputs]\nsaid = \"steps.a.text\"\n\
         [[workflow.steps]]\nname = \"a\"\ntool = \"shell\"\nparameters = { command = \"make test\" }\n",
    ),
    ("ring", "[workflow]\n[[workflow.steps]]\nname = \"a\"\nworkflow = \"@workflows/ring\"\n"),
    ("machine", "[machine]\ninitial = \"a\"\n[machine.states.a]\nterminal = true\n"),
    ("broken", "[workflow]\nnmae = \"x\"\n"),
];

impl Lookup for Shelf {
    fn find(&self, kind: Kind, name: &str) -> Result<Found, NotFound> {
        let shelf: &[(&str, &str)] = match kind {
            Kind::Prompt => &PROMPTS,
            Kind::Workflow => &WORKFLOWS,
            Kind::Agent => &[],
        };
        let ending = if kind == Kind::Prompt { "md" } else { "toml" };
        match shelf.iter().find(|(known, _)| *known == name) {
            Some((_, text)) => Ok(Found {
                text: (*text).to_owned(),
                file: format!("{}/{name}.{ending}", kind.folder()),
                origin: Origin::Project,
            }),
            None => Err(NotFound {
                known: shelf.iter().map(|(known, _)| (*known).to_owned()).collect(),
                why: format!("there is no {} {name:?}", kind.word()),
            }),
        }
    }
}
