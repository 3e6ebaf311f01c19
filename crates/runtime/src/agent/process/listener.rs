//! Who hears what an agent says in a turn: what counts goes to the loop, and pieces of words to those who look on.

use machine::agent::AgentNews;
use machine::id::{EffectId, TaskId};
use machine::stream::StreamEvent;

use super::super::Turn;
use crate::inbox::Inbox;
use crate::live::Feed;

/// About as much of what it thinks is told at once, in bytes.
const MOST_THOUGHTS: usize = 64 << 10;

/// Who hears what is said in a turn.
#[derive(Debug)]
pub(super) struct Listener {
    pub(super) task: TaskId,
    pub(super) effect: EffectId,
    pub(super) inbox: Inbox,
    /// Whether it is known that the agent was told what it was asked.
    pub(super) taken: bool,
    /// Whether it hears what is said to an order: then nothing was asked yet.
    pub(super) is_order: bool,
    /// The words of the answer that is under way, what was thought before them, and the block that the last of either are of.
    words: String,
    thoughts: String,
    block: Option<usize>,
    /// Whether an answer is under way.
    answers: bool,
    /// Where those who look on hear it piece by piece.
    feed: Feed,
}

impl Listener {
    /// Of this turn.
    pub(super) fn new(turn: &Turn, inbox: &Inbox) -> Listener {
        Listener::of(turn.task.clone(), turn.effect, inbox)
    }

    /// Of the order that comes before what is asked in this turn.
    pub(super) fn of_order(turn: &Turn, inbox: &Inbox) -> Listener {
        Listener { is_order: true, ..Listener::new(turn, inbox) }
    }

    pub(super) fn of(task: TaskId, effect: EffectId, inbox: &Inbox) -> Listener {
        Listener {
            feed: inbox.feed(task.clone(), effect),
            task,
            effect,
            inbox: inbox.clone(),
            taken: false,
            is_order: false,
            words: String::new(),
            thoughts: String::new(),
            block: None,
            answers: false,
        }
    }

    pub(super) fn tell(&self, news: AgentNews) {
        self.inbox.news(self.task.clone(), self.effect, news);
    }

    /// Pieces of what it says are for those who look on. For the journal it is told whole, and before what it does.
    pub(super) fn stream(&mut self, event: StreamEvent) {
        let mut is_said = false;
        match &event {
            StreamEvent::MessageStart { .. } => {
                self.answers = true;
                self.words.clear();
                self.thoughts.clear();
                self.block = None;
            }
            StreamEvent::ThinkingDelta { index, text } if !text.is_empty() => {
                // What is thought after words is told after them.
                if !self.words.trim().is_empty() {
                    self.say();
                }
                if self.block.replace(*index).is_some_and(|block| block != *index) {
                    self.thoughts.push('\n');
                }
                if self.thoughts.len() < MOST_THOUGHTS {
                    self.thoughts.push_str(text);
                }
            }
            StreamEvent::TextDelta { index, text } => {
                // Blocks follow each other as lines do.
                let is_next = self.block.replace(*index).is_some_and(|block| block != *index);
                if is_next && !self.words.is_empty() {
                    self.words.push('\n');
                }
                self.words.push_str(text);
            }
            StreamEvent::ToolUseStart { .. } => is_said = true,
            StreamEvent::MessageStop => (self.answers, is_said) = (false, true),
            StreamEvent::Error { .. } | StreamEvent::Interrupted { .. } => self.answers = false,
            _ => {}
        }
        self.feed.push_with_ends(&mut vec![event]);
        if is_said {
            self.say();
        }
    }

    /// Tells the words and thoughts that were not told yet, unless there are none.
    fn say(&mut self) {
        self.block = None;
        if self.words.trim().is_empty() && self.thoughts.trim().is_empty() {
            return;
        }
        let text = match self.words.trim() {
            "" => String::new(),
            _ => std::mem::take(&mut self.words),
        };
        let thinking = std::mem::take(&mut self.thoughts);
        self.tell(AgentNews::Said { text, thinking });
    }

    /// An answer that is under way when the turn is over has no other end, and was said as far as it came.
    pub(super) fn end(&mut self) {
        if self.answers {
            let (kind, message) = ("transport".to_owned(), "the answer broke off".to_owned());
            self.stream(StreamEvent::Error { kind, message, again_in: None });
        }
        self.say();
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use machine::{Input, Signal};

    use super::*;

    /// What the loop is told, in order: the words that were said as they are, behind what was thought before them, everything
    /// else as it is shown to us.
    pub(in super::super) fn told(inbox: &Inbox) -> Vec<String> {
        let batch = inbox.take(Some(Duration::ZERO), 0);
        let said = |delivery: crate::inbox::Delivery| match delivery.input {
            Input::Signal(Signal::AgentSaid(_, AgentNews::Said { text, thinking })) => {
                if thinking.is_empty() { text } else { format!("({thinking}) {text}") }
            }
            other => format!("{other:?}"),
        };
        batch.deliveries.into_iter().map(said).collect()
    }

    #[test]
    fn what_is_said_before_a_call_or_the_end_of_a_turn_is_told_before_it_and_once() {
        let inbox = Inbox::default();
        let mut listener = Listener::of(TaskId("t".to_owned()), EffectId(1), &inbox);
        listener.stream(StreamEvent::MessageStart { id: "m".to_owned(), model: String::new() });
        listener.stream(StreamEvent::TextDelta { index: 0, text: "Let me ".to_owned() });
        listener.stream(StreamEvent::TextDelta { index: 0, text: "look.".to_owned() });
        assert_eq!(told(&inbox), [""; 0]);
        listener.stream(StreamEvent::ToolUseStart {
            index: 1,
            id: "c".into(),
            name: "Bash".to_owned(),
        });
        assert_eq!(told(&inbox), ["Let me look."]);
        listener.stream(StreamEvent::MessageStop);
        assert_eq!(told(&inbox), [""; 0]);
        // The turn is over in the middle of an answer.
        listener.stream(StreamEvent::MessageStart { id: "n".to_owned(), model: String::new() });
        listener.stream(StreamEvent::TextDelta { index: 0, text: "Now I".to_owned() });
        listener.stream(StreamEvent::TextDelta { index: 1, text: "wait".to_owned() });
        listener.end();
        assert_eq!(told(&inbox), ["Now I\nwait"]);
        // What it thinks is told with the words that follow, or with the call.
        let thinks =
            |index, text: &str| StreamEvent::ThinkingDelta { index, text: text.to_owned() };
        listener.stream(StreamEvent::MessageStart { id: "o".to_owned(), model: String::new() });
        listener.stream(thinks(0, "Where "));
        listener.stream(thinks(0, "is it?"));
        listener.stream(StreamEvent::TextDelta { index: 1, text: "I look.".to_owned() });
        listener.stream(thinks(2, "There."));
        assert_eq!(told(&inbox), ["(Where is it?) I look."]);
        let id = Arc::from("d");
        listener.stream(StreamEvent::ToolUseStart { index: 3, id, name: "Bash".to_owned() });
        assert_eq!(told(&inbox), ["(There.) "]);
        listener.end();
        assert_eq!(told(&inbox), [""; 0]);
    }
}
