//! `policy.toml`.

use super::{Key, Kind, MODEL, TEXT_TABLE, Table, may, must, sandbox};
use crate::driver::Registry;
use crate::tool::TOOLS;

/// The file.
pub(super) static FILE: Kind = Kind::Table(&TOP);

/// The words for what becomes of questions that nobody answers.
pub(crate) const UNATTENDED: [&str; 3] = ["deny", "wait", "escalate"];
/// The words for what a rule decides.
pub(crate) const DECIDE: [&str; 3] = ["allow", "ask", "deny"];
/// The words for access.
pub(crate) const ACCESS: [&str; 2] = ["read", "write"];
/// The words for profiles.
pub(crate) const PROFILES: [&str; 3] = ["read-only", "dev", "open"];

/// Its top.
pub(crate) static TOP: Table = Table::new(
    "file",
    "a policy",
    "Who may do what: see docs/policy.md.",
    &[&[
        may("profile", Kind::One(&PROFILES), "What is allowed where no rule says anything."),
        may(
            "unattended",
            Kind::One(&UNATTENDED),
            "What becomes of questions that nobody is there to answer.",
        ),
        may("decider", Kind::List(&DECIDER), "Who is asked in a person's place, in order."),
        may("rule", Kind::List(&Kind::Table(&RULE)), "Rules; the first that means a call decides."),
        may("sandbox", Kind::Table(&sandbox::POLICY), "What processes need of the sandbox."),
    ]],
);

/// One text, or several of which any will do.
const TEXT_OR_SOME: Kind = Kind::Either(&[Kind::Words, Kind::Some(&Kind::Words)]);
const EXAMPLES: Kind = Kind::Either(&[Kind::Words, Kind::List(&Kind::Words)]);
const DRIVER: Kind = Kind::Known(drivers);

/// The drivers that come with drivetrain.
pub(super) fn drivers() -> Vec<String> {
    Registry::builtin().names().map(str::to_owned).collect()
}

/// The tools that come with drivetrain.
pub(super) fn tools() -> Vec<String> {
    TOOLS.iter().map(|tool| tool.name.to_owned()).chain(["*".to_owned()]).collect()
}

/// `[[rule]]`.
pub(crate) static RULE: Table = Table {
    needs: &[&["tool", "command", "path", "host", "driver", "attended"]],
    ..Table::new(
        "rule",
        "a rule",
        "One rule: which calls are meant, and what is decided on them.",
        &[&[
            may(
                "tool",
                Kind::Known(tools),
                "The tool; mcp__SERVER__TOOL for one of a server, * for all.",
            ),
            may(
                "command",
                TEXT_OR_SOME,
                "The beginning of a command, word by word; * stands for any word.",
            ),
            may(
                "path",
                TEXT_OR_SOME,
                "A path or a pattern: from the workspace on, absolute, or from ~/ on.",
            ),
            may(
                "access",
                Kind::One(&ACCESS),
                "Whether the path is read or written; both if it is not said.",
            ),
            may("host", TEXT_OR_SOME, "A host's name, *.example.com, or * for all."),
            may("driver", Kind::Either(&[DRIVER, Kind::Some(&DRIVER)]), "Who decided on the call."),
            may("attended", Kind::Flag, "Whether somebody is there to be asked."),
            must("decide", Kind::One(&DECIDE), "What becomes of such a call."),
            may("reason", Kind::Text, "Why, for whoever is told."),
            may("allow", EXAMPLES, "Examples that must be allowed under all rules."),
            may("ask", EXAMPLES, "Examples that must be asked about under all rules."),
            may("deny", EXAMPLES, "Examples that must be denied under all rules."),
        ]],
    )
};

/// `[[decider]]`.
const DECIDER: Kind = Kind::Either(&[
    Kind::Table(&MODEL_DECIDER),
    Kind::Table(&PROGRAM_DECIDER),
    Kind::Table(&PERSON_DECIDER),
]);

/// The kinds of deciders.
pub(crate) const DECIDERS: [&str; 3] = ["model", "program", "person"];

const DECIDER_KEYS: &[Key] = &[
    may("name", Kind::Name, "What it is called; its kind if it is not said."),
    may("timeout", Kind::Span, "How long an answer may take."),
];

/// A model that decides.
pub(crate) static MODEL_DECIDER: Table = Table::new(
    "model_decider",
    "a decider of the kind model",
    "A model that is asked.",
    &[
        DECIDER_KEYS,
        &[
            must("kind", Kind::One(&["model"]), "A model is asked."),
            must("model", MODEL, "PROVIDER/NAME."),
            must("rubric", Kind::Words, "What may run and what may not, in words."),
        ],
    ],
);

/// A program that decides.
pub(crate) static PROGRAM_DECIDER: Table = Table::new(
    "program_decider",
    "a decider of the kind program",
    "A program that is asked.",
    &[
        DECIDER_KEYS,
        &[
            must("kind", Kind::One(&["program"]), "A program is asked."),
            must("command", Kind::Some(&Kind::Text), "The program and its arguments."),
            may("env", TEXT_TABLE, "Variables to set for it."),
        ],
    ],
);

/// A person who decides.
pub(crate) static PERSON_DECIDER: Table = Table::new(
    "person_decider",
    "a decider of the kind person",
    "A person who is waited for.",
    &[DECIDER_KEYS, &[must("kind", Kind::One(&["person"]), "A person is asked.")]],
);
