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
    Prompt "repair-engine" "prompts/repair-engine.toml";
    Prompt "terse" "prompts/terse.txt";
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
