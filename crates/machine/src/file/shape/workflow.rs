//! Workflow files: `[workflow]` with steps or states, or a `[machine]`.

pub(crate) mod machine;
pub(crate) mod step;

use super::task::{BUDGET, criteria};
use super::{Key, Kind, MODEL, POSITIVE, Table, may, must};

/// The file.
pub(super) static FILE: Kind = Kind::Table(&TOP);

/// Its top.
pub(crate) static TOP: Table = Table {
    needs: &[&["workflow", "machine"]],
    ..Table::new(
        "file",
        "a workflow file",
        "A workflow: see docs/workflow-file.md.",
        &[&[
            may("workflow", Kind::Table(&WORKFLOW), "Steps in a row, or states."),
            may("machine", Kind::Table(&machine::MACHINE), "A state machine of tool calls."),
        ]],
    )
};

/// An expression, such as `steps.test.ok and inputs.deep`.
pub(super) const EXPRESSION: Kind = Kind::Words;

/// `[workflow]`.
pub(crate) static WORKFLOW: Table = Table {
    needs: &[&["steps", "states"]],
    ..Table::new(
        "workflow",
        "[workflow]",
        "Steps in a row, or states with transitions.",
        &[
            &[
                may("name", Kind::Name, "What it is called; as its file if it is not said."),
                may("description", Kind::Text, "What it is for, for a person."),
                may("version", Kind::Text, "Which version it is, for a person."),
                may("limits", Kind::Table(&LIMITS), "How much it may do."),
                may("budget", Kind::Table(&BUDGET), "Limits, as in a task file."),
                may(
                    "acceptance",
                    Kind::List(&criteria::CRITERION),
                    "What proves that it is done, as in a task file.",
                ),
            ],
            &BODY,
        ],
    )
};

static BODY: [Key; 6] = [
    may("llm", Kind::Table(&LLM), "The model of its steps of type llm, and of choose."),
    may("inputs", Kind::Named(&Kind::Table(&INPUT)), "What it takes, as [workflow.inputs.NAME]."),
    may("outputs", Kind::Named(&EXPRESSION), "What it gives: an expression for each name."),
    may("steps", Kind::Some(&step::STEP), "Steps, one after the other."),
    may("states", Kind::Either(&STATE_FORMS), "States, and the ways between them."),
    may("initial", Kind::Text, "The state that it begins in; the first if it is not said."),
];

static STATE_FORMS: [Kind; 3] =
    [Kind::Some(&step::STATE), Kind::Some(&machine::LISTED), Kind::Named(&machine::NAMED)];

/// A workflow as a driver's configuration, and as the table of a step that calls it.
pub(crate) static CONFIG: Table = Table {
    needs: &[&["steps", "states"]],
    ..Table::new(
        "workflow_config",
        "the workflow's configuration",
        "A workflow whose references have been looked up.",
        &[&BODY, &CONFIG_KEYS],
    )
};

const CONFIG_KEYS: [Key; 7] = [
    may("name", Kind::Name, "What it is called."),
    may("max_steps", super::COUNT, "How many steps may be carried out."),
    may("timeout", Kind::Span, "How long it may take."),
    may("given", Kind::Any, "What its inputs are."),
    may("facts", Kind::Any, "What is known of the project."),
    may("prompts", Kind::Any, "Which prompts it was made of."),
    may("files", Kind::Any, "Which files it was made of."),
];

/// The configuration of the driver `workflow` in a task file.
pub(crate) static DRIVER_CONFIG: Table = Table::new(
    "workflow_driver",
    "driver_config",
    "Which workflow runs.",
    &[
        &[may(
            "workflow",
            Kind::Either(&[Kind::Words, Kind::Table(&WORKFLOW)]),
            "Its name, or the table itself.",
        )],
        &BODY,
        &CONFIG_KEYS,
    ],
);

/// `[workflow.limits]`.
pub(crate) static LIMITS: Table = Table::new(
    "limits",
    "[workflow.limits]",
    "How much the workflow may do.",
    &[&[
        may("max_steps", POSITIVE, "How many steps may be carried out, repeats included."),
        may("token_budget", POSITIVE, "How many tokens it may spend."),
        may("timeout_seconds", POSITIVE, "How many seconds it may take."),
    ]],
);

/// `[workflow.llm]`.
pub(crate) static LLM: Table = Table::new(
    "llm",
    "[workflow.llm]",
    "The model of steps that do not name one.",
    &[&[
        may("model", MODEL, "PROVIDER/NAME; that of --model if it is not said."),
        may("temperature", Kind::Number, "How freely it chooses its words."),
        may(
            "system_prompt",
            Kind::Text,
            "What it is told before every prompt; @prompts/NAME takes a file.",
        ),
    ]],
);

/// The types of inputs.
pub(crate) const TYPES: [&str; 6] = ["string", "integer", "number", "boolean", "list", "table"];

/// `[workflow.inputs.NAME]`.
pub(crate) static INPUT: Table = Table::new(
    "input",
    "an input",
    "Something that the workflow takes.",
    &[INPUT_KEYS, &[may("choices", Kind::List(&Kind::Any), "What it may be.")]],
);

/// The keys of every input.
pub(super) const INPUT_KEYS: &[Key] = &[
    may("type", Kind::One(&TYPES), "What it must be."),
    may("default", Kind::Any, "What it is if nobody says; without one it must be given."),
    may("description", Kind::Text, "What it is, for a person."),
];

/// What a call needs.
pub(super) const CALL: &[Key] = &[
    must("tool", Kind::Known(super::policy::tools), "The tool; `drivetrain tools` lists them."),
    may("parameters", Kind::Fields, "What it is called with; texts are templates in a workflow."),
];
