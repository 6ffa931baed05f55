//! Hosts of a scenario by their names.

use anyhow::{Context, Result};
use tributary_model::{HostId, Scenario};

/// The host with this name.
///
/// # Errors
/// If there is none.
pub fn host(scenario: &Scenario, name: &str) -> Result<HostId> {
    scenario.network.topology.host_named(name).with_context(|| {
        let names: Vec<_> =
            scenario.network.topology.hosts.iter().map(|h| h.name.as_str()).collect();
        format!("there is no host `{name}` in the file; it has {}", names.join(", "))
    })
}

/// The host with this name or IP address.
///
/// # Errors
/// If there is none.
pub fn host_at(scenario: &Scenario, name: &str) -> Result<HostId> {
    let topology = &scenario.network.topology;
    let by_address = name
        .parse::<std::net::Ipv4Addr>()
        .ok()
        .and_then(|ip| topology.host_ids().find(|host| topology.host(*host).address.ip == ip));
    by_address.map_or_else(|| host(scenario, name), Ok)
}
