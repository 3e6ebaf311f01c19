//! What comes with the program: texts that are looked up last, so that a project or a user can put others in their place.

use machine::file::lookup::Kind;

/// A text that comes with the program.
#[derive(Debug)]
pub(super) struct BuiltIn {
    /// Of what kind it is.
    kind: Kind,
    /// Its name.
    pub(super) name: &'static str,
    /// Its file below `builtin`.
    file: &'static str,
    /// What it says.
    pub(super) text: &'static str,
}

impl BuiltIn {
    /// What a person calls it.
    pub(super) fn shown(&self) -> String {
        format!("built-in/{}", self.file)
    }
}

macro_rules! texts {
    ($($kind:ident $name:literal $file:literal;)*) => {
        [$(BuiltIn {
            kind: Kind::$kind,
            name: $name,
            file: $file,
            text: include_str!(concat!("builtin/", $file)),
        }),*]
    };
}

static ALL: &[BuiltIn] = &texts! {
    Prompt "adapt-to-update" "prompts/adapt-to-update.toml";
    Prompt "fix-issue" "prompts/fix-issue.toml";
    Prompt "refactor" "prompts/refactor.toml";
    Prompt "repair-engine" "prompts/repair-engine.toml";
    Prompt "reproduce-issue" "prompts/reproduce-issue.toml";
    Prompt "review" "prompts/review.toml";
    Prompt "terse" "prompts/terse.txt";
    Prompt "triage" "prompts/triage.toml";
    Prompt "write-tests" "prompts/write-tests.toml";
    Workflow "fix-issue" "workflows/fix-issue.toml";
    Workflow "refactor-safely" "workflows/refactor-safely.toml";
    Workflow "review" "workflows/review.toml";
    Workflow "triage-failing-test" "workflows/triage-failing-test.toml";
    Workflow "update-dependency" "workflows/update-dependency.toml";
    Workflow "validate-fix" "workflows/validate-fix.toml";
    Workflow "write-tests" "workflows/write-tests.toml";
};

/// Those of a kind.
pub(super) fn of(kind: Kind) -> impl Iterator<Item = &'static BuiltIn> {
    ALL.iter().filter(move |text| text.kind == kind)
}

#[cfg(test)]
mod tests {
    use machine::file;

    use super::*;

    #[test]
    fn every_built_in_prompt_is_one_and_has_the_name_of_its_file() {
        for known in of(Kind::Prompt) {
            let prompt = file::prompt::parse(known.text, &known.shown())
                .unwrap_or_else(|errors| panic!("{}", errors[0]));
            assert_eq!(prompt.name, known.name);
        }
        let names: Vec<&str> = of(Kind::Prompt).map(|known| known.name).collect();
        assert!(names.contains(&"terse") && names.contains(&"repair-engine"), "{names:?}");
    }
}
