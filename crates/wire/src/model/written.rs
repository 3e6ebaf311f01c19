//! History in wire form: the part of a conversation that every later request repeats is kept as it stands in their
//! bodies, so that a turn costs what is new in it and not what was said before.
//!
//! How a message is written depends on its neighbours: calls need results, turns of one role are joined, ids must
//! be unique. So what is kept ends only where nothing that follows can reach back over it: between a user's message
//! and an answer that says something for sure, two answers before the end. The dialect adds its own condition (all
//! calls answered), and the ids that are taken are kept beside the bytes. A conversation that does not begin with
//! the very messages that were written, in memory, begins anew.

use std::collections::BTreeSet;
use std::sync::Arc;

use machine::message::{Message, Part, Role};
use serde::Serialize;

use super::HttpRequest;

/// What was written of one conversation, for one model.
#[derive(Debug, Default)]
pub struct Written {
    keeps: bool,
    /// What the bytes depend on beside the messages.
    form: String,
    messages: Vec<Arc<Message>>,
    /// The messages in the dialect's words, with commas between them. Shared with the requests that are under way.
    bytes: Arc<Vec<u8>>,
    ids: Ids,
}

/// The ids of tool calls that are taken.
#[derive(Debug, Clone, Default)]
pub(super) struct Ids {
    used: BTreeSet<String>,
    /// How many were made.
    pub(super) made: u64,
}

impl Ids {
    /// None, but counted on from those before.
    pub(super) fn after(before: &Ids) -> Ids {
        Ids { made: before.made, ..Ids::default() }
    }

    /// Takes an id; false if it is taken already, here or in `before`.
    pub(super) fn take(&mut self, id: &str, before: &Ids) -> bool {
        !before.used.contains(id) && self.used.insert(id.to_owned())
    }

    fn add(&mut self, more: Ids) {
        // One by one: joining whole sets costs as much as both.
        self.used.extend(more.used);
        self.made = more.made;
    }
}

impl Written {
    /// Nothing yet, for a conversation that will go on.
    pub fn begin() -> Written {
        Written { keeps: true, ..Written::default() }
    }

    /// Nothing, ever: each request is written whole.
    pub fn nothing() -> Written {
        Written::default()
    }

    /// How many bytes are kept.
    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    /// Forgets everything unless `messages` begin with what was written in this form.
    pub(super) fn follow(&mut self, form: &str, messages: &[Arc<Message>]) {
        let same = self.form == form
            && self.messages.len() <= messages.len()
            && self.messages.iter().zip(messages).all(|(a, b)| Arc::ptr_eq(a, b));
        if !same {
            *self = Written { keeps: self.keeps, form: form.to_owned(), ..Written::default() };
        }
    }

    /// The messages that could be written for good by now, after those that are.
    pub(super) fn stable<'m>(&self, messages: &'m [Arc<Message>]) -> Option<&'m [Arc<Message>]> {
        if !self.keeps {
            return None;
        }
        let begun = self.messages.len();
        let begins =
            |at: usize| messages[at].role == Role::Assistant && messages[at - 1].role == Role::User;
        let answers = (begun + 1..messages.len()).rev().filter(|at| begins(*at));
        let until = answers.skip(1).find(|at| says_something(&messages[*at]))?;
        Some(&messages[begun..until])
    }

    /// Keeps messages as they were written.
    pub(super) fn add(&mut self, messages: &[Arc<Message>], items: &[impl Serialize], ids: Ids) {
        let bytes = Arc::make_mut(&mut self.bytes);
        for item in items {
            comma(bytes, 0);
            write(bytes, item);
        }
        self.messages.extend(messages.iter().cloned());
        self.ids.add(ids);
    }

    /// What has to be written anew.
    pub(super) fn rest<'m>(&self, messages: &'m [Arc<Message>]) -> &'m [Arc<Message>] {
        &messages[self.messages.len()..]
    }

    /// How many messages are kept.
    pub(super) fn begun(&self) -> usize {
        self.messages.len()
    }

    /// Whether nothing is kept, ever.
    pub(super) fn is_nothing(&self) -> bool {
        !self.keeps
    }

    /// Whether nothing is kept by now.
    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    pub(super) fn ids(&self) -> &Ids {
        &self.ids
    }

    /// A request whose body is a JSON object: the fields of `head`, then the conversation under `key` (`first`,
    /// what is kept, `items`), then the fields of `rest`.
    pub(super) fn request<I: Serialize>(
        &self,
        path: String,
        headers: Vec<(String, String)>,
        head: &impl Serialize,
        (key, first, items): (&str, Option<I>, &[I]),
        rest: &impl Serialize,
    ) -> HttpRequest {
        let mut out = Vec::with_capacity(4096);
        write(&mut out, head);
        out.pop();
        if out.len() > 1 {
            out.push(b',');
        }
        write(&mut out, &key);
        out.extend_from_slice(b":[");
        let begin = out.len();
        if let Some(first) = first {
            write(&mut out, &first);
        }
        let mut shared = None;
        if !self.bytes.is_empty() {
            comma(&mut out, begin);
            shared = Some((out.len(), Arc::clone(&self.bytes)));
        }
        for (n, item) in items.iter().enumerate() {
            if n > 0 || shared.is_some() || out.len() > begin {
                out.push(b',');
            }
            write(&mut out, item);
        }
        out.push(b']');
        let from = out.len();
        write(&mut out, rest);
        if out.len() - from > 2 {
            out[from] = b',';
        } else {
            out.remove(from);
        }
        HttpRequest { path, headers, body: out, shared }
    }
}

fn comma(out: &mut Vec<u8>, begin: usize) {
    if out.len() > begin {
        out.push(b',');
    }
}

fn write(out: &mut Vec<u8>, value: &impl Serialize) {
    // Only a map with keys that are no text, or a failing writer, can fail here; bodies have neither.
    serde_json::to_writer(out, value).expect("a body of text keys is written to memory");
}

/// Whether every dialect writes something for an answer: text that is not blank, or a call. Of a native block only
/// its dialect knows.
fn says_something(message: &Message) -> bool {
    message.blocks.iter().any(|block| match &block.part {
        Part::Text { text } => block.native.is_none() && !text.trim().is_empty(),
        Part::ToolUse { .. } => true,
        Part::Thinking { .. } | Part::ToolResult { .. } | Part::Media { .. } | Part::Opaque => {
            false
        }
    })
}
