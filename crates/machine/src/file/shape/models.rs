//! `models.toml`. The runtime reads it, since what it says is where to connect; a test there holds both against each other.

use super::{COUNT, Kind, Table, may, must};

/// The file.
pub(super) static FILE: Kind = Kind::Table(&TOP);

static TOP: Table = Table::new(
    "file",
    "a file of models",
    "Servers of models, and what is known of single models: see docs/models.md.",
    &[&[
        may("provider", Kind::Named(&Kind::Table(&PROVIDER)), "Servers, as [provider.NAME]."),
        may("model", Kind::Named(&Kind::Table(&FACTS)), "Models, as [model.\"PROVIDER/NAME\"]."),
    ]],
);

static PROVIDER: Table = Table::new(
    "provider",
    "[provider.NAME]",
    "A server of models; --model NAME/MODEL asks it.",
    &[&[
        must("dialect", Kind::One(&DIALECTS), "What it speaks."),
        must(
            "base_url",
            Kind::Like("^[Hh][Tt][Tt][Pp][Ss]?:"),
            "Where it is; the dialect's path is appended.",
        ),
        may("key_env", Kind::Words, "The variable that holds the key."),
        may(
            "key_command",
            Kind::Some(&Kind::Text),
            "The program that prints the key, if the variable is not set.",
        ),
        may("short_tool_ids", Kind::Flag, "It wants ids of tool calls in nine letters or digits."),
        may("max_completion_tokens", Kind::Flag, "It wants this name for the limit of output."),
        may("tool_choice_any", Kind::Flag, "It says \"any\" where others say \"required\"."),
        may("no_stream_options", Kind::Flag, "It refuses stream_options."),
        may(
            "assistant_after_tools",
            Kind::Flag,
            "It wants the model to speak after a tool's result.",
        ),
        may("document_url", Kind::Flag, "It takes documents as document_url."),
        may("decisions", Kind::One(&DECISIONS), DECIDES),
        may("first_piece", Kind::Span, "How long to wait for the first piece of an answer."),
        may("next_piece", Kind::Span, "How long to wait between two pieces of an answer."),
        may("whole_answer", Kind::Span, "How long an answer may take as a whole."),
        may("max_output", OUTPUT, MOST),
        may("tells_cost", Kind::Flag, "It says with each answer what that cost, in US dollars."),
    ]],
);

static FACTS: Table = Table::new(
    "model",
    "[model.\"PROVIDER/NAME\"]",
    "What is known of a model.",
    &[&[
        may("context", COUNT, "How many tokens a question and its answer may have together."),
        may("price", Kind::Table(&PRICE), "What it costs, in US dollars for a million tokens."),
        may("decisions", Kind::One(&DECISIONS), DECIDES),
        may("max_output", OUTPUT, MOST),
    ]],
);

static PRICE: Table = Table::new(
    "price",
    "price",
    "What a model costs, in US dollars for a million tokens.",
    &[&[
        must("input", Kind::Number, "Tokens of the question."),
        must("output", Kind::Number, "Tokens of the answer, thinking included."),
        may("cache_read", Kind::Number, "Tokens read from a cache; as input if it is not said."),
        may("cache_write", Kind::Number, "Tokens written to a cache; as input if it is not said."),
        may(
            "cache_write_long",
            Kind::Number,
            "The same, kept for longer; as cache_write if it is not said.",
        ),
        may("as_of", Kind::Text, "The day on which the price was looked up."),
        may("long", Kind::Table(&LONG), "What long questions cost instead."),
    ]],
);

static LONG: Table = Table::new(
    "long_price",
    "long",
    "What long questions cost.",
    &[&[
        must("over", COUNT, "The number of tokens up to which the ordinary price holds."),
        must("input", Kind::Number, "Tokens of the question."),
        must("output", Kind::Number, "Tokens of the answer, thinking included."),
        may("cache_read", Kind::Number, "Tokens read from a cache."),
        may("cache_write", Kind::Number, "Tokens written to a cache."),
        may("cache_write_long", Kind::Number, "The same, kept for longer."),
    ]],
);

const OUTPUT: Kind = Kind::Whole(16, 10_000_000);
const MOST: &str = "The most tokens of an answer.";
const DIALECTS: [&str; 4] =
    ["anthropic_messages", "openai_chat", "openai_responses", "google_generate"];
const DECISIONS: [&str; 2] = ["native", "constrained"];
const DECIDES: &str =
    "Whether the model calls tools as its dialect has them, or fills in a form, for small models.";
