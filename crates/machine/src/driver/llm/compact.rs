//! A conversation that no longer fits is made shorter: what was said becomes a summary, what must not be lost is kept
//! word for word (the goal, the checks, the operator's notes, the last failure), and the model's last step stays as
//! it was. The journal keeps everything.

use std::borrow::Cow;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::super::Situation;
use crate::message::{Block, Message, Part, Reply, Role, StopReason};

/// How full a context may be before it is made shorter, in percent.
const FULL: u64 = 80;

/// Times in a row that a conversation is made shorter without room to show for it.
pub(super) const MOST: u32 = 3;

/// What a tool's result is cut to where it is in the way, in bytes.
const CUT_RESULT: usize = 2_000;
const CUT_OLD_RESULT: usize = 400;

/// How much of the operator's notes is kept; the last count.
const MOST_NOTES: usize = 16_000;

/// What a long note is cut to where not all of them fit.
const LONG_NOTE: usize = 4_000;

/// How much must go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Squeeze {
    /// There is still room to ask for a summary of everything.
    Summary,
    /// It did not fit: old results are cut, then a summary is asked for.
    Pruned,
    /// Nor did that: only the last step is left, with its results cut.
    Tail,
    /// Nor did that: only what must not be lost is left.
    Opening,
}

impl Squeeze {
    /// The next harder one.
    pub(super) fn harder(self) -> Option<Squeeze> {
        match self {
            Squeeze::Summary => Some(Squeeze::Pruned),
            Squeeze::Pruned => Some(Squeeze::Tail),
            Squeeze::Tail => Some(Squeeze::Opening),
            Squeeze::Opening => None,
        }
    }

    /// Whether the model is asked for a summary.
    pub(super) fn asks(self) -> bool {
        self <= Squeeze::Pruned
    }
}

/// What must not be lost, word for word.
pub(super) struct Kept<'a> {
    pub(super) situation: &'a Situation<'a>,
    pub(super) notes: &'a [String],
    pub(super) failure: Option<&'a str>,
    /// What stands for the rest.
    pub(super) summary: Option<&'a str>,
}

/// Whether a context of this size is too full for another step.
pub(super) fn is_full(context: u64, window: u64) -> bool {
    context.saturating_mul(100) >= window.saturating_mul(FULL)
}

/// The first words to a model: the goal, and what decides whether it is reached.
pub(super) fn opening(situation: &Situation<'_>) -> String {
    let mut text = situation.goal.to_owned();
    if !situation.criteria.is_empty() {
        text.push_str("\n\nThe work is accepted when all of these hold:");
        for criterion in situation.criteria {
            text.push_str(&format!("\n- {}", criterion.title()));
        }
    }
    text
}

/// The question for a summary; `focus` is what a person wants kept.
pub(super) fn question(
    messages: &[Arc<Message>],
    squeeze: Squeeze,
    focus: &str,
) -> Vec<Arc<Message>> {
    let mut asked = match squeeze {
        Squeeze::Summary => messages.to_vec(),
        _ => pruned(messages),
    };
    let mut text = "Your context is nearly full, and what was said so far will be replaced by what you write now. \
        Write down what you need to go on: what was done and why; what you learned, with names of files, symbols and \
        commands; what was tried and failed; what is left to do. The goal, the checks and the operator's notes are \
        kept for you: do not repeat them. Do not ask for a tool."
        .to_owned();
    if !focus.is_empty() {
        text.push_str(&format!(" Above all keep: {focus}"));
    }
    asked.push(Arc::new(Message::user(text)));
    asked
}

/// The summary, if the answer is one: words, and no step towards something else.
pub(super) fn summary(reply: &Reply) -> Option<String> {
    let calls = |block: &Block| matches!(block.part, Part::ToolUse { .. });
    if reply.stop == StopReason::Refusal || reply.message.blocks.iter().any(calls) {
        return None;
    }
    Some(reply.message.text()).filter(|text| !text.trim().is_empty())
}

/// The first words of a new conversation about work that somebody has begun.
pub(super) fn begun_anew(
    situation: &Situation<'_>,
    notes: &[String],
    failure: Option<&str>,
) -> String {
    let mut text = kept_words(situation, notes, failure);
    text.push_str(
        "\n\nSomebody worked on this before you and did not get there. Their files are as they left them: look at \
         them first, and try another way.",
    );
    text
}

/// The goal, the checks, the operator's notes and the last failure.
fn kept_words(situation: &Situation<'_>, notes: &[String], failure: Option<&str>) -> String {
    let mut text = opening(situation);
    if !notes.is_empty() {
        text.push_str("\n\nThe operator said, in this order:");
        let is_too_much = notes.iter().map(String::len).sum::<usize>() > MOST_NOTES;
        // A log that somebody pasted must not take all the room.
        let shown = notes.iter().rev().map(|note| match is_too_much && note.len() > LONG_NOTE {
            true => Cow::Owned(shortened(note, LONG_NOTE)),
            false => Cow::Borrowed(note.as_str()),
        });
        let mut room = MOST_NOTES;
        let fits = shown.take_while(|note| {
            let fits = note.len() <= room;
            room = room.saturating_sub(note.len());
            fits
        });
        let mut notes: Vec<Cow<'_, str>> = fits.collect();
        notes.reverse();
        for note in notes {
            text.push_str(&format!("\n- {note}"));
        }
    }
    if let Some(failure) = failure {
        text.push_str(&format!("\n\n{failure}"));
    }
    text
}

/// The conversation from here on.
pub(super) fn rebuilt(
    kept: &Kept<'_>,
    messages: &[Arc<Message>],
    squeeze: Squeeze,
) -> Vec<Arc<Message>> {
    let mut text = kept_words(kept.situation, kept.notes, kept.failure);
    text.push_str("\n\n");
    text.push_str(&match kept.summary {
        Some(summary) => {
            format!("What was said before was replaced by your own notes:\n\n{summary}")
        }
        None => {
            "What was said before did not fit and is gone. Look at the files to see what was done."
                .to_owned()
        }
    });
    let last = messages.iter().rposition(|message| message.role == Role::Assistant);
    let tail = last.filter(|_| squeeze != Squeeze::Opening);
    if tail.is_none() {
        // The first message is what this one takes the place of.
        let since = messages.get(last.unwrap_or(0) + 1..).unwrap_or_default();
        let said = said_last(since, kept, &text);
        if !said.is_empty() {
            text.push_str(&format!("\n\nWhat was said to you last:\n\n{}", said.join("\n\n")));
        }
    }
    let mut rebuilt = vec![Arc::new(Message::user(text))];
    if let Some(last) = tail {
        let tail = messages[last..].iter().cloned();
        rebuilt.extend(tail.map(|message| match squeeze {
            Squeeze::Summary => message,
            _ => Arc::new(cut(Message::clone(&message), CUT_RESULT)),
        }));
    }
    rebuilt
}

/// What the model was told and has not answered, as far as the text does not hold it already: in a chat nothing else says
/// what a person wants now. One that is itself too long is cut.
fn said_last(messages: &[Arc<Message>], kept: &Kept<'_>, text: &str) -> Vec<String> {
    let blocks = messages.iter().flat_map(|message| &message.blocks);
    let words = blocks.filter_map(|block| match &block.part {
        Part::Text { text } => Some(text),
        _ => None,
    });
    // Who said a note stands in front of it. A short line may stand in other words of the text by chance.
    let is_note = |words: &str| {
        let is_it = |note: &String| {
            let who = words.strip_suffix(note.as_str());
            who.is_some_and(|who| who.ends_with(": ")) && text.contains(note.as_str())
        };
        kept.notes.iter().any(is_it)
    };
    let is_new = |words: &&String| kept.failure != Some(words.as_str()) && !is_note(words);
    let fitting = |words: &String| match words.len() > CUT_RESULT {
        true => shortened(words, CUT_RESULT),
        false => words.clone(),
    };
    words.filter(is_new).map(fitting).collect()
}

/// The conversation with all but its last step cut to what a summary needs.
fn pruned(messages: &[Arc<Message>]) -> Vec<Arc<Message>> {
    let last = messages.iter().rposition(|message| message.role == Role::Assistant).unwrap_or(0);
    let at = messages.iter().enumerate();
    at.map(|(at, message)| {
        let most = if at < last { CUT_OLD_RESULT } else { CUT_RESULT };
        Arc::new(cut(Message::clone(message), most))
    })
    .collect()
}

fn cut(mut message: Message, most: usize) -> Message {
    for Block { part, .. } in &mut message.blocks {
        match part {
            Part::ToolResult { text, .. } if text.len() > most => *text = shortened(text, most),
            Part::Media { media_type, .. } => {
                let text = format!("[{media_type}, left out]");
                *part = Part::Text { text };
            }
            Part::Text { .. }
            | Part::Thinking { .. }
            | Part::ToolUse { .. }
            | Part::ToolResult { .. }
            | Part::Opaque => {}
        }
    }
    message
}

/// The beginning and the end.
fn shortened(text: &str, most: usize) -> String {
    let half = most / 2;
    let head = text.floor_char_boundary(half);
    let tail = text.ceil_char_boundary(text.len() - half);
    format!("{}\n[{} bytes left out]\n{}", &text[..head], tail - head, &text[tail..])
}
