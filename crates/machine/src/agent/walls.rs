//! What the walls around an agent leave open. An agent runs its commands itself, so its sandbox is that of the task,
//! with the hosts that the agent speaks to beside it.

use super::AgentProgram;
use crate::policy::sandbox::{Needs, Network, SandboxSpec};

impl AgentProgram {
    /// What its processes need in a task with this sandbox.
    pub fn needs(&self, task: &SandboxSpec) -> Needs {
        Needs {
            network: with_hosts(&task.network, &self.hosts),
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
        program.needs(&task).network
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
