//! What the walls around an agent leave open. An agent runs its commands itself, so its sandbox is that of the task,
//! with the hosts that the agent speaks to beside it.

use super::AgentProgram;
use crate::policy::sandbox::{Needs, Network, SandboxSpec};

/// The hosts that a gateway asks in an agent's place.
const PROVIDERS: [&str; 3] =
    ["api.anthropic.com", "api.openai.com", "generativelanguage.googleapis.com"];

impl AgentProgram {
    /// What its processes need in a task with this sandbox. Behind a gateway an agent does not reach its provider by
    /// itself, and needs its own loopback, where the gateway is.
    pub fn needs(&self, task: &SandboxSpec, gateway: bool) -> Needs {
        let is_reached = |host: &&String| !gateway || !PROVIDERS.contains(&host.as_str());
        let hosts: Vec<String> = self.hosts.iter().filter(is_reached).cloned().collect();
        let network = match with_hosts(&task.network, &hosts) {
            Network::None if gateway => Network::Loopback,
            network => network,
        };
        Needs {
            network,
            read: task.read.clone(),
            write: task.write.clone(),
            writes_workspace: Some(true),
        }
    }
}

/// A network with these hosts in it as well; `*` is all of them.
fn with_hosts(network: &Network, hosts: &[String]) -> Network {
    let all = hosts.iter().any(|host| host == "*");
    match network {
        Network::Open => Network::Open,
        _ if all => Network::Open,
        Network::None if hosts.is_empty() => Network::None,
        Network::Loopback if hosts.is_empty() => Network::Loopback,
        Network::None | Network::Loopback => Network::Hosts(hosts.to_vec()),
        Network::Hosts(named) => {
            let new = hosts.iter().filter(|host| !named.contains(host));
            Network::Hosts(named.iter().chain(new).cloned().collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(task: Network, hosts: &[&str]) -> Network {
        let mut program = AgentProgram::built_in("claude").unwrap();
        program.hosts = hosts.iter().map(|host| (*host).to_owned()).collect();
        let task = SandboxSpec { network: task, ..SandboxSpec::default() };
        program.needs(&task, false).network
    }

    #[test]
    fn behind_a_gateway_an_agent_reaches_its_provider_only_through_it() {
        let mut program = AgentProgram::built_in("claude").unwrap();
        let task = SandboxSpec::default();
        assert_eq!(program.needs(&task, true).network, Network::Loopback);
        program.hosts.push("docs.test".to_owned());
        assert_eq!(
            program.needs(&task, true).network,
            Network::Hosts(vec!["docs.test".to_owned()])
        );
    }

    #[test]
    fn an_agent_reaches_its_hosts_and_those_of_its_task() {
        let hosts =
            |names: &[&str]| Network::Hosts(names.iter().map(|n| (*n).to_owned()).collect());
        assert_eq!(network(Network::None, &[]), Network::None);
        assert_eq!(network(Network::Loopback, &[]), Network::Loopback);
        assert_eq!(network(Network::None, &["a.test"]), hosts(&["a.test"]));
        assert_eq!(
            network(hosts(&["b.test"]), &["a.test", "b.test"]),
            hosts(&["b.test", "a.test"])
        );
        assert_eq!(network(hosts(&["b.test"]), &["*"]), Network::Open);
        assert_eq!(network(Network::Open, &["a.test"]), Network::Open);
    }
}
