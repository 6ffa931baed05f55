//! The hosts of a job's workers, parameter server and reminder agent.

use tributary_base::document::{Error, Item, Table, suggest};
use tributary_wire::{POSITIONS_MAX, WORKERS_MAX};

use super::{Context, worker_count};
use crate::{HostId, HostRole};

impl Context<'_, '_> {
    pub(super) fn find_host(&self, item: &Item<'_>) -> Result<HostId, Error> {
        let name = item.string("w1")?;
        if let Some(host) = self.topology.host_named(name) {
            return Ok(host);
        }
        if self.topology.switch_named(name).is_some() {
            return Err(item.fault(format!("`{name}` is a switch"), "name a host"));
        }
        let names = || self.topology.hosts.iter().map(|host| host.name.as_str());
        let fix = match suggest::nearest(name, names()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("the hosts are {}", suggest::list(names())),
        };
        Err(item.fault(format!("there is no host `{name}`"), fix))
    }

    /// Hosts of the workers: the named hosts, or the requested number of hosts with the fewest
    /// workers so far.
    pub(super) fn workers(&mut self, table: &Table<'_>) -> Result<Vec<HostId>, Error> {
        let item = table.get("workers");
        let workers = match item {
            Some(item) if item.is_array() => self.named_workers(&item)?,
            _ => self.counted_workers(table)?,
        };
        for worker in &workers {
            self.taken[worker.0] += 1;
        }
        Ok(workers)
    }

    fn named_workers(&self, item: &Item<'_>) -> Result<Vec<HostId>, Error> {
        let items = item.array("a worker")?;
        if items.is_empty() {
            return Err(item.fault("the job has no worker", "name at least one host"));
        }
        if items.len() > usize::from(WORKERS_MAX) {
            return Err(item.fault(
                format!("the job has {} workers", items.len()),
                format!(
                    "a job can have at most {WORKERS_MAX}: a packet names 32 racks of 32 workers"
                ),
            ));
        }
        let mut hosts = Vec::with_capacity(items.len());
        for item in &items {
            let host = self.find_host(item)?;
            if hosts.contains(&host) {
                return Err(item.fault(
                    format!(
                        "two workers of one job are on host `{}`",
                        self.topology.host(host).name
                    ),
                    "give each worker its own host",
                ));
            }
            hosts.push(host);
        }
        Ok(hosts)
    }

    fn counted_workers(&self, table: &Table<'_>) -> Result<Vec<HostId>, Error> {
        let mut free: Vec<HostId> = self
            .topology
            .host_ids()
            .filter(|&host| self.topology.host(host).role == HostRole::Worker)
            .collect();
        let most = free.len().min(usize::from(WORKERS_MAX));
        let wanted = match table.get("workers") {
            Some(item) => worker_count(&item)? as usize,
            None if self.jobs == 1 => most,
            None => most.min(4),
        };
        if wanted > free.len() || wanted == 0 {
            return Err(table.place_of("workers").fault(
                format!(
                    "the job wants {wanted} workers but the topology has {} hosts for them",
                    free.len()
                ),
                "add hosts to the topology or take fewer workers",
            ));
        }
        free.sort_by_key(|host| self.taken[host.0]);
        free.truncate(wanted);
        free.sort();
        if wanted > usize::from(POSITIONS_MAX) {
            // Workers of a rack have consecutive indices.
            free.sort_by_key(|&host| self.topology.attachment(host).0);
        }
        Ok(free)
    }

    /// The named host. Otherwise, if the job needs a parameter server, job number k gets parameter
    /// server host number k.
    pub(super) fn parameter_server(
        &self,
        table: &Table<'_>,
        index: usize,
        local: bool,
        workers: &[HostId],
    ) -> Result<Option<HostId>, Error> {
        let servers: Vec<HostId> = self
            .topology
            .host_ids()
            .filter(|&host| self.topology.host(host).role == HostRole::ParameterServer)
            .collect();
        let ps = match table.get("ps") {
            Some(item) if !self.choice.protocol.may_have_server() => {
                return Err(item.fault(
                    "a job of \"switchml\" has no parameter server",
                    "leave `ps` out, or use another protocol",
                ));
            }
            Some(item) => self.find_host(&item)?,
            None if local => return Ok(None),
            None if servers.is_empty() => {
                return Err(table.fault(
                    "the job has no parameter server",
                    "add `ps = \"…\"` with a host's name, or give a host `role = \"ps\"`",
                ));
            }
            None => servers[index % servers.len()],
        };
        if workers.contains(&ps) && !self.choice.protocol.allows_server_beside_worker() {
            let name = &self.topology.host(ps).name;
            return Err(table.place_of("ps").fault(
                format!("host `{name}` is both a worker and the parameter server of the job"),
                "choose another host for one of them",
            ));
        }
        Ok(Some(ps))
    }

    /// The named host, else that of the parameter server; in ESA only.
    pub(super) fn agent(
        &self,
        table: &Table<'_>,
        ps: Option<HostId>,
        workers: &[HostId],
    ) -> Result<Option<HostId>, Error> {
        let Some(item) = table.get("agent") else {
            return Ok(ps.filter(|_| self.choice.protocol.has_reminder_agent()));
        };
        let agent = self.find_host(&item)?;
        if workers.contains(&agent) {
            let name = &self.topology.host(agent).name;
            return Err(item.fault(
                format!("host `{name}` is both a worker and the reminder agent of the job"),
                "choose another host for one of them",
            ));
        }
        Ok(Some(agent))
    }
}
