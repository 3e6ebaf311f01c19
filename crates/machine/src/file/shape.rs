//! The shape of every file that people write, as a value: which tables there are, which keys each has, and what each
//! key takes.
//!
//! The readers ask these tables which keys exist (`check::Cursor::keys`), and [`schema`] turns the same tables into
//! JSON Schemas for editors, so that neither can know a key that the other does not. What a value must be beyond its
//! type (that a target exists, that a path stays inside) only a reader can say.

pub(crate) mod agent;
mod json;
pub(crate) mod mcp;
pub(crate) mod models;
pub(crate) mod plugin;
pub(crate) mod policy;
pub(crate) mod prompt;
pub(crate) mod sandbox;
pub(crate) mod task;
#[cfg(test)]
mod tests;
pub(crate) mod validators;
pub(crate) mod workflow;

use serde_json::Value;

/// A kind of file that has a shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// A task: its goal, who drives, what proves that it is done.
    Task,
    /// `workflows/NAME.toml`: steps or states.
    Workflow,
    /// `prompts/NAME.toml`: a text for a model.
    Prompt,
    /// `policy.toml`: who may do what.
    Policy,
    /// `agents/NAME.toml`.
    Agent,
    /// `mcp.toml`: servers of tools.
    Servers,
    /// `drivers/NAME.toml`: a driver that is a program outside.
    Driver,
    /// `validators.toml`: a project's own checks.
    Validators,
    /// `models.toml`: where models are, and what is known of them.
    Models,
}

impl FileKind {
    /// All of them.
    pub const ALL: [FileKind; 9] = [
        FileKind::Task,
        FileKind::Workflow,
        FileKind::Prompt,
        FileKind::Policy,
        FileKind::Agent,
        FileKind::Servers,
        FileKind::Driver,
        FileKind::Validators,
        FileKind::Models,
    ];

    /// The word for it on a command line and in the name of its schema's file.
    pub fn word(self) -> &'static str {
        match self {
            FileKind::Task => "task",
            FileKind::Workflow => "workflow",
            FileKind::Prompt => "prompt",
            FileKind::Policy => "policy",
            FileKind::Agent => "agent",
            FileKind::Servers => "mcp",
            FileKind::Driver => "driver",
            FileKind::Validators => "validators",
            FileKind::Models => "models",
        }
    }

    /// Which files are of this kind, for a person.
    pub fn files(self) -> &'static str {
        match self {
            FileKind::Task => "task files, such as task.toml or task.yaml",
            FileKind::Workflow => ".drivetrain/workflows/*.toml",
            FileKind::Prompt => ".drivetrain/prompts/*.toml",
            FileKind::Policy => ".drivetrain/policy.toml",
            FileKind::Agent => ".drivetrain/agents/*.toml",
            FileKind::Servers => ".drivetrain/mcp.toml",
            FileKind::Driver => ".drivetrain/drivers/*.toml",
            FileKind::Validators => ".drivetrain/validators.toml",
            FileKind::Models => ".drivetrain/models.toml",
        }
    }

    /// The kind that a word names.
    pub fn named(word: &str) -> Option<FileKind> {
        FileKind::ALL.into_iter().find(|kind| kind.word() == word)
    }

    /// What the whole file is.
    fn shape(self) -> &'static Kind {
        match self {
            FileKind::Task => &task::FILE,
            FileKind::Workflow => &workflow::FILE,
            FileKind::Prompt => &prompt::FILE,
            FileKind::Policy => &policy::FILE,
            FileKind::Agent => &agent::FILE,
            FileKind::Servers => &mcp::FILE,
            FileKind::Driver => &plugin::FILE,
            FileKind::Validators => &validators::FILE,
            FileKind::Models => &models::FILE,
        }
    }
}

/// The JSON Schema (draft 2020-12) of a kind of file.
pub fn schema(kind: FileKind) -> Value {
    json::schema(kind)
}

/// What a value may be.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    /// Text of any kind.
    Text,
    /// Text that is not blank.
    Words,
    /// A name that is safe as a file name.
    Name,
    /// Text that a regular expression finds, said in the key's help.
    Like(&'static str),
    /// Text; these are the ones that are known, for an editor to offer.
    Known(fn() -> Vec<String>),
    /// One of these.
    One(&'static [&'static str]),
    /// A whole number from the first to the second.
    Whole(u64, u64),
    /// An exit code.
    Exit,
    /// A number, zero or more.
    Number,
    /// Any number.
    Signed,
    /// True or false.
    Flag,
    /// A length of time such as `"90s"`.
    Span,
    /// Bytes, or a size such as `"512M"`.
    Size,
    /// A list.
    List(&'static Kind),
    /// A list of one or more.
    Some(&'static Kind),
    /// A table of such values under names of the writer's choice.
    Named(&'static Kind),
    /// A table with these keys.
    Table(&'static Table),
    /// Any of these.
    Either(&'static [Kind]),
    /// A table whose keys are somebody else's.
    Fields,
    /// Anything.
    Any,
}

/// A table and its keys.
#[derive(Debug)]
pub(crate) struct Table {
    /// What errors call it, such as `[budget]`.
    pub(crate) what: &'static str,
    /// Its name among the definitions of a schema; unique.
    pub(crate) id: &'static str,
    /// One sentence.
    pub(crate) help: &'static str,
    /// Its keys, in groups that tables share.
    pub(crate) keys: &'static [&'static [Key]],
    /// Of each of these at least one must be there.
    pub(crate) needs: &'static [&'static [&'static str]],
    /// What the value of one key says about another.
    pub(crate) when: &'static [When],
}

/// A key of a table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Key {
    /// Its name.
    pub(crate) name: &'static str,
    /// What it takes.
    pub(crate) kind: Kind,
    /// Whether it must be there.
    pub(crate) required: bool,
    /// One sentence.
    pub(crate) help: &'static str,
}

/// If `key` is `value`, `then` takes `kind`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct When {
    /// The key that decides.
    pub(crate) key: &'static str,
    /// What it says.
    pub(crate) value: &'static str,
    /// The key that is meant.
    pub(crate) then: &'static str,
    /// What that one takes then.
    pub(crate) kind: Kind,
}

impl Table {
    /// A table of which nothing but its keys is to be said.
    pub(crate) const fn new(
        id: &'static str,
        what: &'static str,
        help: &'static str,
        keys: &'static [&'static [Key]],
    ) -> Table {
        Table { what, id, help, keys, needs: &[], when: &[] }
    }

    /// The names of its keys.
    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> + Clone {
        self.keys.iter().flat_map(|group| group.iter()).map(|key| key.name)
    }
}

/// A key that may be left out.
pub(crate) const fn may(name: &'static str, kind: Kind, help: &'static str) -> Key {
    Key { name, kind, required: false, help }
}

/// A key that must be there.
pub(crate) const fn must(name: &'static str, kind: Kind, help: &'static str) -> Key {
    Key { name, kind, required: true, help }
}

/// Any number of things.
pub(crate) const COUNT: Kind = Kind::Whole(0, u64::MAX);
/// At least one.
pub(crate) const POSITIVE: Kind = Kind::Whole(1, u64::MAX);
/// A list of texts.
pub(crate) const TEXTS: Kind = Kind::List(&Kind::Text);
/// A table of texts.
pub(crate) const TEXT_TABLE: Kind = Kind::Named(&Kind::Text);
/// A model's name.
pub(crate) const MODEL: Kind = Kind::Like("^[^/]+/.*\\S");
