//! Conversation content, neutral to any provider. History is made of these; what a provider needs beside
//! them (signatures, encrypted reasoning, item ids) is kept as the provider sent it and given back to it alone.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::server::ToolOffer;

/// A conversation: messages that never change once they are in it, shared by all who look at it.
pub type Conversation = Arc<Vec<Arc<Message>>>;

/// A conversation of these messages.
pub fn conversation(messages: impl IntoIterator<Item = Message>) -> Conversation {
    Arc::new(messages.into_iter().map(Arc::new).collect())
}

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// A person, or a tool's result.
    User,
    /// The model.
    Assistant,
}

/// One message: blocks in the order in which they were said.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// What is said.
    pub blocks: Vec<Block>,
}

/// One block, and the provider's own form of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Block {
    /// What everybody can read.
    #[serde(flatten)]
    pub part: Part,
    /// What only its provider can: sent back unchanged to the same dialect, left out for any other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native: Option<Native>,
}

/// The readable content of a block.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "part", rename_all = "snake_case")]
pub enum Part {
    /// Text.
    Text {
        /// The text.
        text: String,
    },
    /// What the model thought, as far as its provider shows it.
    Thinking {
        /// The text; may be empty where the provider hides it.
        text: String,
    },
    /// The model asks for a tool.
    ToolUse {
        /// The provider's id of the call; made by us where the provider gives none.
        id: String,
        /// The tool.
        name: String,
        /// Its parameters: a complete object.
        input: Value,
    },
    /// What came of a tool.
    ToolResult {
        /// The id of the call.
        id: String,
        /// The tool.
        name: String,
        /// The text for the model.
        text: String,
        /// Whether it failed.
        is_error: bool,
    },
    /// A picture or a document.
    Media {
        /// Such as `image/png` or `application/pdf`.
        media_type: String,
        /// The content in base64.
        data: String,
        /// A name for a document.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
    },
    /// Something only its provider understands (a server-side tool, a block type nobody knows yet).
    Opaque,
}

/// A block as its provider sent it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Native {
    /// The dialect that reads it, such as `anthropic_messages`.
    pub dialect: String,
    /// The model that made it; reasoning of one model is not given to another.
    pub model: String,
    /// The block.
    pub raw: Value,
}

/// What a model call cost, as counted by the provider. Counters that were not sent are `None`, never zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Usage {
    /// Input tokens that were neither read from nor written to a cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<u64>,
    /// Output tokens, thinking included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<u64>,
    /// Of the output, tokens spent on thinking.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking: Option<u64>,
    /// Input tokens read from a cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_read: Option<u64>,
    /// Input tokens written to a cache, for the short time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<u64>,
    /// Input tokens written to a cache, for the long time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write_long: Option<u64>,
    /// What it cost in billionths of a US dollar, where that is known. From a decoder: what the provider says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nanodollars: Option<u64>,
}

impl Message {
    /// A person's words.
    pub fn user(text: impl Into<String>) -> Message {
        let part = Part::Text { text: text.into() };
        Message { role: Role::User, blocks: vec![Block { part, native: None }] }
    }

    /// All text of the message.
    pub fn text(&self) -> String {
        let texts = self.blocks.iter().filter_map(|block| match &block.part {
            Part::Text { text } => Some(text.as_str()),
            _ => None,
        });
        texts.collect::<Vec<_>>().join("\n")
    }
}

impl Usage {
    /// Takes over each counter that was sent later.
    pub fn update(&mut self, later: &Usage) {
        self.input = later.input.or(self.input);
        self.output = later.output.or(self.output);
        self.thinking = later.thinking.or(self.thinking);
        self.cache_read = later.cache_read.or(self.cache_read);
        self.cache_write = later.cache_write.or(self.cache_write);
        self.cache_write_long = later.cache_write_long.or(self.cache_write_long);
        self.nanodollars = later.nanodollars.or(self.nanodollars);
    }

    /// Adds the counters of another call. What neither was told stays untold.
    pub fn add(&mut self, other: &Usage) {
        let sum = |one: Option<u64>, two: Option<u64>| match (one, two) {
            (None, None) => None,
            _ => Some(one.unwrap_or(0).saturating_add(two.unwrap_or(0))),
        };
        self.input = sum(self.input, other.input);
        self.output = sum(self.output, other.output);
        self.thinking = sum(self.thinking, other.thinking);
        self.cache_read = sum(self.cache_read, other.cache_read);
        self.cache_write = sum(self.cache_write, other.cache_write);
        self.cache_write_long = sum(self.cache_write_long, other.cache_write_long);
    }

    /// All tokens: what a budget counts.
    pub fn total(&self) -> u64 {
        [self.input, self.output, self.cache_read, self.cache_write, self.cache_write_long]
            .into_iter()
            .flatten()
            .fold(0, u64::saturating_add)
    }

    /// The size of the context that was sent: what compaction looks at.
    pub fn context(&self) -> u64 {
        self.total().saturating_sub(self.output.unwrap_or(0))
    }
}

/// Why a model stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// It had said what it wanted to say.
    EndTurn,
    /// It asks for tools.
    ToolUse,
    /// It ran into the limit of output tokens.
    MaxTokens,
    /// It wrote a stop sequence.
    StopSequence,
    /// It, or its provider, refused.
    Refusal,
    /// A long turn of server-side tools pauses; the same history continues it.
    Pause,
}

/// How much a model shall think before it answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effort {
    /// Little.
    Low,
    /// Some.
    Medium,
    /// Much.
    High,
}

/// A question to a model, complete but for the network.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelCall {
    /// `PROVIDER/MODEL`, such as `anthropic/claude` or `script/FILE`.
    pub model: String,
    /// Standing instructions.
    pub system: Arc<str>,
    /// The conversation so far.
    pub messages: Conversation,
    /// The tools it may ask for, by name.
    pub tools: Arc<[String]>,
    /// How freely it may choose its words; the provider's own default if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// How much it shall think before it answers; its own default if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<Effort>,
    /// The JSON Schema of its answer. The words say it too, because not every provider can bind an answer to one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Arc<Value>>,
    /// Whether it is asked to sum up the conversation, not to go on with it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub compacts: bool,
    /// Whether only words are wanted, although it is told of tools.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub words_only: bool,
    /// How many of the first messages were said after something else than what stands before them now: thinking in
    /// them no longer fits.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub moved: usize,
    /// Its number among the task's questions, given by the loop: the same question, asked again, has the same.
    #[serde(default)]
    pub question: u64,
    /// Those of the tools that are not built in, as their servers offer them.
    #[serde(default, skip_serializing_if = "no_offers")]
    pub offers: Arc<Vec<ToolOffer>>,
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}

fn no_offers(offers: &Arc<Vec<ToolOffer>>) -> bool {
    offers.is_empty()
}

/// Why a model did not answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelFailure {
    /// The kind in one word, such as `rate_limited`, `context_overflow` or `stream_truncated`.
    pub kind: String,
    /// Whether, and when, to ask again.
    pub retry: Retry,
    /// For a person; never holds a key.
    pub message: String,
    /// What was counted before it failed: it is paid for all the same.
    #[serde(default)]
    pub usage: Usage,
}

impl ModelFailure {
    /// Whether the question was too long: the same one will never be answered, a shorter one may.
    pub fn is_overflow(&self) -> bool {
        matches!(self.kind.as_str(), "context_overflow" | "too_large")
    }

    /// Whether thinking was given back that does not fit what stands before it: the same conversation without it may
    /// be answered.
    pub fn is_stale_thinking(&self) -> bool {
        self.kind == "stale_thinking"
    }

    /// Whether the model answered, and not in a way that can be used: told so, it may do better.
    pub fn is_unusable(&self) -> bool {
        matches!(
            self.kind.as_str(),
            "truncated"
                | "tool_args_truncated"
                | "tool_args_invalid"
                | "malformed_tool_call"
                | "duplicate_tool_id"
                | "empty_completion"
        )
    }

    /// Whether the same question is of no use.
    pub fn is_final(&self) -> bool {
        self.retry == Retry::Never
    }
}

/// Whether a question may be asked again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Retry {
    /// No.
    Never,
    /// After a growing wait.
    Backoff,
    /// After this many milliseconds, as the provider asks.
    After(u64),
}

/// A finished answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    /// The provider's id of the answer; may be empty.
    pub id: String,
    /// The model that answered, as the provider names it.
    pub model: String,
    /// What it said.
    pub message: Message,
    /// Why it stopped.
    pub stop: StopReason,
    /// What it cost.
    pub usage: Usage,
}

impl Reply {
    /// The answer of a model that was asked for one JSON object and nothing else. One that was cut off, calls a tool, or says
    /// anything beside or instead of the object is none; `expected` says what was asked for.
    pub(crate) fn one_object<T: DeserializeOwned>(&self, expected: &str) -> Result<T, String> {
        if self.stop != StopReason::EndTurn {
            return Err("its answer is not whole".to_owned());
        }
        if self.message.blocks.iter().any(|block| matches!(block.part, Part::ToolUse { .. })) {
            return Err("it asked for a tool instead of answering".to_owned());
        }
        let text = self.message.text();
        // A list of the right length would do for serde.
        let object = Some(text.trim()).filter(|text| text.starts_with('{'));
        let read = object.and_then(|text| serde_json::from_str(text).ok());
        read.ok_or_else(|| format!("its answer is not {expected}"))
    }
}
