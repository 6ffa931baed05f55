//! Jobs and hosts of a scenario by their names.

use anyhow::{Context, Result, bail};
use tributary_model::{HostId, Scenario};

/// Index of the job with this name, or of the only job: of its first lane.
///
/// # Errors
/// If there is none, or there are several and no name was given.
pub fn job(scenario: &Scenario, name: Option<&str>) -> Result<usize> {
    let names = || {
        let names: Vec<_> = scenario.whole_jobs().map(|(_, job)| job.name.as_str()).collect();
        names.join(", ")
    };
    let mut jobs = scenario.whole_jobs();
    match name {
        Some(name) => {
            let job = jobs.find(|(_, job)| job.name == name).map(|(index, _)| index);
            job.with_context(|| format!("there is no job `{name}` in the file; it has {}", names()))
        }
        None => match (jobs.next(), jobs.next()) {
            (Some((only, _)), None) => Ok(only),
            _ => bail!("the file has several jobs ({}); name one with --job", names()),
        },
    }
}

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
