//! Why there is no process any more, in one word and for a person.

use machine::agent::AgentFault;

use super::END_GRACE;
use crate::process::Exit;

/// Why there is no process any more.
#[derive(Debug, Clone)]
pub(super) struct Gone {
    pub(super) fault: AgentFault,
    pub(super) why: String,
}

impl Gone {
    pub(super) fn new(fault: AgentFault, why: impl Into<String>) -> Gone {
        Gone { fault, why: why.into() }
    }

    /// What the end of its output and of itself says.
    pub(super) fn by_end(exit: Option<Exit>, malformed: u64) -> Gone {
        let Some(exit) = exit else {
            let why =
                format!("it closed its output, and had not ended {} s later", END_GRACE.as_secs());
            return Gone::new(AgentFault::Timeout, why);
        };
        // Whoever stands between reports a signal as 128 and its number, as shells do.
        let signal = exit
            .signal
            .or(exit.code.filter(|code| (129..=192).contains(code)).map(|code| code - 128));
        match (signal, exit.code) {
            (Some(signal), _) => {
                Gone::new(AgentFault::Killed, format!("it was killed by signal {signal}"))
            }
            (None, Some(0)) if malformed > 0 => {
                Gone::new(AgentFault::Malformed, "it ended with what nobody understands")
            }
            (None, code) => {
                Gone::new(AgentFault::Exit, format!("it exited with {}", code.unwrap_or(-1)))
            }
        }
    }
}
