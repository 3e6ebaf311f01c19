//! Who decided what about a call, one line a decision.

use machine::event::EventKind;
use machine::policy::permission::{Decide, Layer};

use crate::{Line, Tone, story, text};

/// The decision that an event tells, if it tells one.
pub fn line(event: &EventKind) -> Option<Line> {
    let EventKind::CallJudged { call, tool, input, hash, decide, by, layer, part, reason } = event
    else {
        return None;
    };
    let (word, tone) = match decide {
        Decide::Allow => ("allow", Tone::Good),
        Decide::Ask => ("ask", Tone::Ask),
        Decide::Deny => ("deny", Tone::Bad),
    };
    let layer = match layer {
        Layer::Tool => "tool",
        Layer::Command => "command",
        Layer::Path => "path",
        Layer::Host => "host",
    };
    let part = match part.as_str() {
        "" => String::new(),
        part => format!(" for `{}`", text::visible(part)),
    };
    let reason = match reason.as_str() {
        "" => String::new(),
        reason => format!(": {}", text::visible(reason)),
    };
    let title = story::title(tool, "", input, "");
    let by = text::visible(by);
    Some(Line::new(tone, format!("{call} {word} {hash} {title} [{by}, {layer}{part}{reason}]")))
}
