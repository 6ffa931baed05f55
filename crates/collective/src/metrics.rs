//! Metrics of this process's groups.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context as _, Result, anyhow};
use tributary_access::Listen;
use tributary_metrics::{Guest, Metrics, Server};

/// Where the metrics are served. A process adds its rank on this machine to the port, or to the name of a Unix
/// socket, so that all processes can have the same value.
const METRICS: &str = "TRIBUTARY_METRICS";

/// The rank of a process on its machine, by torchrun.
const LOCAL_RANK: &str = "LOCAL_RANK";

/// A server until the process ends.
struct Served {
    metrics: Metrics,
    _server: Server,
}

static SERVED: OnceLock<Result<Served, String>> = OnceLock::new();

/// Number of groups so far.
static GROUPS: AtomicU64 = AtomicU64::new(0);

/// The metrics of a group, until the guest is dropped.
pub(crate) struct OfGroup {
    pub(crate) metrics: Metrics,
    _guest: Option<Guest>,
}

impl OfGroup {
    /// For one more group of this process.
    ///
    /// # Errors
    /// If the metrics of this process cannot be served where `TRIBUTARY_METRICS` says.
    pub(crate) fn new() -> Result<Self> {
        let Some(address) = std::env::var(METRICS).ok().filter(|value| !value.is_empty()) else {
            return Ok(Self { metrics: Metrics::off(), _guest: None });
        };
        let rank = std::env::var(LOCAL_RANK).ok().and_then(|rank| rank.parse().ok()).unwrap_or(0);
        let serve = || serve(&address, rank).map_err(|error| format!("{error:#}"));
        let served = SERVED.get_or_init(serve);
        let Served { metrics, .. } =
            served.as_ref().map_err(|error| anyhow!("{METRICS}: {error}"))?;
        let number = GROUPS.fetch_add(1, Ordering::Relaxed) + 1;
        let (metrics, _guest) = metrics.add_part("group", number.to_string());
        Ok(Self { metrics, _guest })
    }
}

fn serve(address: &str, rank: u16) -> Result<Served> {
    let address = at_rank(address.parse()?, rank)?;
    let metrics = Metrics::on();
    let server = Server::start(metrics.clone(), &address)?;
    Ok(Served { metrics, _server: server })
}

/// The address of a process with this rank on its machine.
fn at_rank(address: Listen, rank: u16) -> Result<Listen> {
    Ok(match address {
        Listen::Tcp(mut address) => {
            let port = address.port().checked_add(rank);
            address.set_port(port.context("a port beyond 65535; choose a lower one")?);
            Listen::Tcp(address)
        }
        Listen::Unix(path) => {
            let mut path = path.into_os_string();
            path.push(format!(".{rank}"));
            Listen::Unix(path.into())
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_process_of_a_machine_has_an_address_of_its_own() {
        let at = |address: &str, rank| at_rank(address.parse().unwrap(), rank);
        assert_eq!(at("127.0.0.1:9464", 3).unwrap().to_string(), "127.0.0.1:9467");
        assert_eq!(at("unix:/run/m.sock", 0).unwrap().to_string(), "unix:/run/m.sock.0");
        assert!(at("127.0.0.1:65535", 1).is_err());
    }
}
