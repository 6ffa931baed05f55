//! Occupied clusters: a file that lists GPUs which other jobs hold before the first job comes.
//!
//! ```toml
//! [[job]]
//! servers = "3:2 7:4"     # server:GPUs, as in jobs.csv
//! until_s = 7200          # from the first submission; without it, for ever
//! ```

use std::path::Path;

use tributary_base::document::{Document, Error, Item, Kind};
use tributary_base::{EXCERPT, shortened};

use crate::job::{Job, JobId};
use crate::plan::Plan;
use crate::topology::{Cluster, ServerIndex};

/// The name of such a file in messages.
const KIND: Kind =
    Kind { name: "file of an occupied cluster", page: "docs/evaluation/simulator.md" };

/// Longest time for which GPUs are held, in seconds: three centuries.
const UNTIL_MAX_S: f64 = 1e10;

/// A job that holds its GPUs from the start.
#[derive(Clone, PartialEq, Debug)]
pub struct Occupant {
    /// Where it runs. If it sums its gradients in the network, its parameter server is [beside a
    /// worker](Plan::with_server).
    pub plan: Plan,
    /// When it ends, in seconds from the first submission; `None` if it never does.
    pub until_s: Option<f64>,
}

impl Occupant {
    /// The job for the state of a cluster. Nothing is known of its work, so it counts as sending
    /// all the time if it uses the network.
    pub(crate) fn job(&self, id: JobId, submit_s: f64) -> Job {
        Job {
            id,
            submit_s,
            gpus: self.plan.ranks.len() as u32,
            iterations: 1.0,
            compute_s: 0.0,
            gradient_bytes: 1.0,
            value: 0.0,
        }
    }
}

/// Reads the file of an occupied cluster.
///
/// # Errors
///
/// If the file cannot be read, its content is invalid, or the cluster does not have the GPUs.
pub fn load(path: impl AsRef<Path>, cluster: &Cluster) -> Result<Vec<Occupant>, Error> {
    let path = path.as_ref();
    parse(&KIND.read(path)?, &path.display().to_string(), cluster)
}

/// [`load`] for text. Messages call the file `file`.
///
/// # Errors
///
/// If the content is invalid, or the cluster does not have the GPUs.
pub fn parse(text: &str, file: &str, cluster: &Cluster) -> Result<Vec<Occupant>, Error> {
    let document = Document::parse(KIND, text, file)?;
    let mut free: Vec<u32> = cluster.servers().iter().map(|server| server.gpus).collect();
    let items = document.table(&["job"])?.items("job")?;
    items.iter().map(|item| occupant(item, &mut free)).collect()
}

fn occupant(item: &Item<'_>, free: &mut [u32]) -> Result<Occupant, Error> {
    let table = item.table("[[job]]", &["servers", "until_s"])?;
    let servers = table.require("servers", "\"3:2\"")?;
    let until_s = table.get("until_s").map(|until| until.number(0.0..=UNTIL_MAX_S)).transpose()?;
    let mut ranks = Vec::new();
    for part in servers.string("3:2 7:4")?.split_whitespace() {
        let numbers = part.split_once(':').and_then(|(server, gpus)| {
            Some((server.parse::<u32>().ok()?, gpus.parse::<u32>().ok()?))
        });
        let Some((server, gpus)) = numbers.filter(|&(_, gpus)| gpus > 0) else {
            return Err(servers.fault(
                format!("`{}` is not a server with a number of GPUs", shortened(part, EXCERPT)),
                "write for example \"3:2\" for two GPUs of server 3",
            ));
        };
        let last = free.len().saturating_sub(1);
        let Some(free) = free.get_mut(server as usize) else {
            return Err(servers.fault(
                format!("the cluster has no server {server}"),
                format!("name servers from 0 to {last}"),
            ));
        };
        let Some(left) = free.checked_sub(gpus) else {
            return Err(servers.fault(
                format!("server {server} has {free} free GPUs, of which {gpus} cannot be taken"),
                "take fewer, or describe larger servers in the cluster file",
            ));
        };
        *free = left;
        ranks.extend(std::iter::repeat_n(ServerIndex(server), gpus as usize));
    }
    if ranks.is_empty() {
        return Err(servers.fault("it names no server", "write for example \"3:2\""));
    }
    Ok(Occupant { plan: Plan { ranks, ..Plan::default() }, until_s })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::Shape;

    fn read(text: &str) -> Result<Vec<Occupant>, String> {
        let shape = Shape { racks: 2, servers_per_rack: 2, ..Shape::default() };
        parse(text, "o.toml", &Cluster::uniform(&shape)).map_err(|error| error.to_string())
    }

    #[test]
    fn jobs_hold_gpus_of_servers() {
        let text = "[[job]]\nservers = \"1:2 3:1\"\nuntil_s = 60\n[[job]]\nservers = \"1:2\"\n";
        let [first, second] = read(text).unwrap().try_into().unwrap();
        assert_eq!(first.plan.ranks, [1, 1, 3].map(ServerIndex));
        assert_eq!((first.until_s, second.until_s), (Some(60.0), None));
        assert_eq!(read("").unwrap(), []);
    }

    #[test]
    fn errors_name_the_position_and_the_fix() {
        for (text, expected) in [
            ("[[job]]\n", "o.toml:1:1: [[job]] has no `servers`; add `servers = \"3:2\"`"),
            ("[[job]]\nservers = 3", "o.toml:2:11: `servers` is an integer but must be a string"),
            ("[[job]]\nservers = \" \"", "o.toml:2:11: it names no server; write for example"),
            ("[[job]]\nservers = \"1\"", "o.toml:2:11: `1` is not a server with a number of GPUs"),
            ("[[job]]\nservers = \"1:0\"", "o.toml:2:11: `1:0` is not a server with a number"),
            (
                "[[job]]\nservers = \"4:1\"",
                "o.toml:2:11: the cluster has no server 4; name servers",
            ),
            ("[[job]]\nservers = \"1:3 1:2\"", "o.toml:2:11: server 1 has 1 free GPUs, of which 2"),
            (
                "[[job]]\nservers = \"1:1\"\nuntil_s = -1",
                "o.toml:3:11: `until_s` is -1, out of range",
            ),
            (
                "[[jobs]]\n",
                "o.toml:1:3: unknown key `jobs` in the file of an occupied cluster; did",
            ),
        ] {
            let found = read(text).unwrap_err();
            assert!(found.starts_with(expected), "{text:?}: {found}");
            assert_eq!(found.lines().count(), 1, "{found}");
        }
    }
}
