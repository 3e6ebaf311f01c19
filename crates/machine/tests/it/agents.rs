//! What commands do to an agent that is in the middle of a turn: each cell of the table of abilities that changes what
//! happens.

use std::sync::Arc;

use machine::agent::ability::remark;
use machine::agent::{AgentAsk, AgentMeans, AgentNews, AgentOrder, AgentProgram};
use machine::effect::Effect;
use machine::id::EffectId;
use machine::input::{Command, Signal};
use machine::policy::permission::Profile;
use machine::task::{DriverSpec, TaskSpec};
use serde_json::{Value, json};

use crate::rig::{Rig, spec};

fn task(agent: &str, mode: Option<&str>) -> TaskSpec {
    let program = AgentProgram {
        operator: "0123".to_owned(),
        mode: mode.map(str::to_owned),
        ..AgentProgram::built_in(agent).unwrap()
    };
    let mut task = spec(Value::Null);
    task.driver = DriverSpec { name: "agent".to_owned(), config: json!({ "program": program }) };
    task.policy.profile = Some(Profile::Dev);
    task
}

/// A task whose agent is in the middle of a turn and has been told what it was asked.
fn at_work(agent: &str, mode: Option<&str>) -> (Rig, EffectId) {
    let mut rig = Rig::started(task(agent, mode));
    let turn = rig.effect("agent");
    rig.input(Signal::AgentSaid(turn, AgentNews::Taken { session: Some("s".to_owned()) }).into());
    (rig, turn)
}

impl Rig {
    fn agent_asks(&mut self, turn: EffectId, command: &str) -> &mut Rig {
        let ask = AgentAsk {
            key: "k1".to_owned(),
            id: Arc::from("toolu_1"),
            tool: "Bash".to_owned(),
            input: Arc::new(json!({ "command": command })),
            means: AgentMeans::Command(command.to_owned()),
            helper: None,
        };
        self.input(Signal::AgentSaid(turn, AgentNews::Asks(ask)).into())
    }

    /// What the agent was told by the last input.
    fn orders(&self) -> Vec<&AgentOrder> {
        let order = |effect: &'_ Effect| matches!(effect, Effect::TellAgent { .. });
        let told = self.last.effects.iter().filter(|effect| order(effect));
        told.filter_map(|effect| match effect {
            Effect::TellAgent { order, .. } => Some(order),
            _ => None,
        })
        .collect()
    }

    fn remark(&self, command: &Command) -> String {
        remark(self.state.data(), command).unwrap_or_default()
    }
}

fn steer() -> Command {
    Command::Steer { text: "smaller".to_owned() }
}

#[test]
fn an_agent_that_can_be_steered_has_the_note_at_once_and_another_after_its_turn() {
    for agent in ["claude", "codex"] {
        let (mut rig, _) = at_work(agent, None);
        assert_eq!(rig.remark(&steer()), "", "{agent}");
        rig.command(steer());
        let text = "[operator 0123] smaller".to_owned();
        assert_eq!(rig.orders(), [&AgentOrder::Steer { text }], "{agent}");
        assert_eq!(rig.told(), "[tell agent#3] note_queued, note_delivered smaller", "{agent}");
    }
    for agent in ["gemini", "opencode"] {
        let (mut rig, _) = at_work(agent, None);
        let said = rig.remark(&steer());
        assert!(
            said.starts_with(&format!("{agent} cannot be told anything in the middle")),
            "{said}"
        );
        rig.command(steer());
        assert_eq!(rig.orders(), Vec::<&AgentOrder>::new(), "{agent}");
        assert_eq!(rig.told(), "[] note_queued", "{agent}");
    }
}

#[test]
fn a_pause_holds_what_an_agent_asks_about_until_the_task_goes_on() {
    for (agent, mode, said) in [
        ("claude", None, "claude is held at its next call of a tool"),
        ("codex", None, "codex goes on until it asks about something"),
        ("gemini", None, "gemini goes on until it asks about something"),
        ("claude", Some("bypassPermissions"), "claude asks about nothing"),
        ("codex", Some("never/read-only"), "codex asks about nothing"),
    ] {
        let (mut rig, turn) = at_work(agent, mode);
        let remark = rig.remark(&Command::Pause);
        assert!(remark.starts_with(said), "{agent} {mode:?}: {remark}");
        rig.command(Command::Pause);
        rig.agent_asks(turn, "ls");
        assert_eq!(rig.orders(), Vec::<&AgentOrder>::new(), "{agent}: it is held");
        rig.command(Command::Resume);
        let key = "k1".to_owned();
        assert_eq!(
            rig.orders(),
            [&AgentOrder::Answer { key, may: Ok(None) }],
            "{agent}: it goes on"
        );
    }
}

#[test]
fn every_agent_can_be_interrupted_and_handed_over_in_the_middle_of_a_turn() {
    let user = || DriverSpec { name: "user".to_owned(), config: json!({}) };
    for agent in AgentProgram::BUILT_IN {
        for command in [Command::Interrupt { note: "stop".to_owned() }, Command::HandOver(user())] {
            let (mut rig, turn) = at_work(agent, None);
            assert_eq!(rig.remark(&command), "", "{agent}");
            rig.command(command);
            let stopped = Effect::Cancel { target: turn };
            assert!(rig.last.effects.contains(&stopped), "{agent}: {:?}", rig.last.effects);
        }
    }
}

#[test]
fn nothing_is_remarked_where_no_agent_is_at_work() {
    let rig = Rig::started(spec(json!({ "turns": [] })));
    assert_eq!(rig.remark(&steer()), "");
    assert_eq!(rig.remark(&Command::Pause), "");
}
