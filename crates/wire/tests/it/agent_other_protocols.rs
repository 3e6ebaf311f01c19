//! Captures of protocols that agents speak beside the Agent Client Protocol: none of their lines is taken for one of it.

use machine::agent::AgentEnd;
use machine::agent::AgentEvent;
use wire::agent::acp::AcpCodec;

use crate::agent_acp::open;
use crate::agent_rig::{in_pieces, output};

macro_rules! others {
    ($($name:literal),* $(,)?) => {
        [$(($name, include_str!(concat!("../fixtures/agents/acp/", $name, ".jsonl")))),*]
    };
}

/// Captures of `gemini --output-format stream-json`, `opencode run --format json` and the events of `opencode serve`, which are
/// other protocols.
const OTHERS: [(&str, &str); 7] = others![
    "gemini_autoedit",
    "gemini_err400",
    "gemini_err429",
    "gemini_yolo",
    "opencode_edit",
    "opencode_edit_compat",
    "opencode_serve_events",
];

#[test]
fn the_other_protocols_of_the_programs_are_told_apart_line_by_line() {
    for (name, text) in OTHERS {
        let lines_said = output(text).iter().filter(|byte| **byte == b'\n').count();
        let (events, _) = in_pieces(Box::new(AcpCodec::new(open())), &output(text), &[]);
        let (last, lines) = events.split_last().unwrap();
        assert!(lines.iter().all(|event| matches!(event, AgentEvent::Malformed { .. })), "{name}");
        assert_eq!(lines.len(), lines_said, "{name}");
        let AgentEvent::TurnEnded(turn) = last else { panic!("{name}: {last:?}") };
        assert_eq!(turn.end, AgentEnd::Failed, "{name}");
    }
}
