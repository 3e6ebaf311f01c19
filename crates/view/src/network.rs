//! Which hosts the sandboxes of a task have reached for, one line a wish.

use machine::policy::hosts::{Decision, Passage};

use crate::{Line, Tone, text};

/// The line for one passage. The host may be anything that a worker wrote, so it is shown with care.
pub fn line(passage: &Passage) -> Line {
    let Passage { host, port, decision, reason, bytes_up, bytes_down } = passage;
    let place = match (host.is_empty(), port) {
        (true, _) => "(no host)".to_owned(),
        (false, 0) => text::visible(host),
        (false, port) => format!("{}:{port}", text::visible(host)),
    };
    let reason = text::visible(reason);
    let (tone, more) = match decision {
        Decision::Allowed => (Tone::Plain, format!(" {reason}")),
        Decision::Refused => (Tone::Bad, format!(": {reason}")),
        Decision::Failed => (Tone::Bad, format!(": {reason}")),
        Decision::Ended => {
            let why = if reason.is_empty() { String::new() } else { format!(": {reason}") };
            (Tone::Faint, format!(", {bytes_up} bytes out, {bytes_down} in{why}"))
        }
    };
    Line::new(tone, format!("{:7}  {place}{more}", decision.word()))
}
