//! A driver for switches that are controlled by OpenFlow 1.3, such as the cross-connect of the paper's
//! testbed (§VII.B) or Open vSwitch in its place.
//!
//! A circuit is two flows: what arrives at one port leaves by the other. Frames at ports without a flow
//! are dropped. Our flows have a cookie of their own. A change first removes all flows that it does not
//! need, including those of others, and waits for a barrier; then it adds the new ones. So light never
//! enters or leaves two circuits at a port.
//!
//! The messages are in `wire`, the requests in `connection`. Connections are not encrypted.

mod connection;
#[cfg(test)]
mod tests;
mod wire;

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream, UnixStream};

use self::connection::{Connection, Failure, Stream};
use self::wire::{Flow, Request};
use crate::crossconnect::{CrossConnect, Error};
use tributary_model::circuits::{Circuits, Port};

/// Marks our flows.
const COOKIE: u64 = u64::from_be_bytes(*b"tribucc1");

/// Priority of our flows.
const PRIORITY: u16 = 0x8000;

/// A cross-connect that is controlled by OpenFlow 1.3.
#[derive(Debug)]
pub struct OpenFlow {
    name: String,
    limit: Duration,
    peer: Peer,
    connection: Option<Connection>,
}

/// How a connection begins.
#[derive(Debug)]
enum Peer {
    /// The device listens at HOST:PORT.
    Tcp(String),
    /// The device listens at a Unix socket.
    Unix(PathBuf),
    /// The device connects to this socket.
    Listener(TcpListener),
}

impl OpenFlow {
    /// A device that listens at HOST:PORT. `limit` is the time limit for each answer.
    #[must_use]
    pub fn tcp(address: &str, limit: Duration) -> Self {
        Self::new(address, limit, Peer::Tcp(address.to_owned()))
    }

    /// A device that listens at a Unix socket.
    #[must_use]
    pub fn unix(path: &str, limit: Duration) -> Self {
        Self::new(&format!("unix:{path}"), limit, Peer::Unix(path.into()))
    }

    /// Listens for one device. The first that connects is used, until its connection ends; so only the
    /// device may be able to reach the address. Needs a Tokio runtime.
    ///
    /// # Errors
    /// If this host cannot listen at the address.
    pub fn listen(address: SocketAddr, limit: Duration) -> io::Result<Self> {
        let listener = std::net::TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let peer = Peer::Listener(TcpListener::from_std(listener)?);
        Ok(Self::new(&format!("listen:{address}"), limit, peer))
    }

    fn new(address: &str, limit: Duration, peer: Peer) -> Self {
        Self { name: format!("openflow:{address}"), limit, peer, connection: None }
    }

    fn unreachable(&self, reason: impl Into<String>) -> Error {
        Error::Unreachable { device: self.name.clone(), reason: reason.into() }
    }

    fn error(&self, failure: Failure) -> Error {
        match failure {
            Failure::Lost(reason) => self.unreachable(reason),
            Failure::Refused(reason) => Error::Refused { device: self.name.clone(), reason },
        }
    }

    /// Runs requests over a connection, a new one if necessary. After an error, the connection is not
    /// used again, because answers may still be under way.
    async fn ask<T>(
        &mut self,
        requests: impl AsyncFnOnce(&mut Connection) -> Result<T, Failure>,
    ) -> Result<T, Error> {
        let mut connection = match self.connection.take().filter(|open| !open.is_closed()) {
            Some(connection) => connection,
            None => self.connect().await?,
        };
        match tokio::time::timeout(self.limit, requests(&mut connection)).await {
            Ok(Ok(result)) => {
                self.connection = Some(connection);
                Ok(result)
            }
            Ok(Err(failure)) => Err(self.error(failure)),
            Err(_) => Err(self.silent()),
        }
    }

    fn silent(&self) -> Error {
        Error::Silent { device: self.name.clone(), limit: self.limit }
    }

    async fn connect(&self) -> Result<Connection, Error> {
        let deadline = tokio::time::Instant::now() + self.limit;
        loop {
            let stream = tokio::time::timeout_at(deadline, self.peer.stream()).await;
            let stream = stream.map_err(|_| {
                self.unreachable(match self.peer {
                    Peer::Listener(_) => format!("it has not connected within {:?}", self.limit),
                    _ => format!("there is no connection within {:?}", self.limit),
                })
            })?;
            let stream = stream.map_err(|error| self.unreachable(error.to_string()))?;
            match tokio::time::timeout_at(deadline, Connection::open(stream)).await {
                Ok(Ok(connection)) => return Ok(connection),
                // The device had given up this connection, and may have opened another one.
                Ok(Err(Failure::Lost(_))) if matches!(self.peer, Peer::Listener(_)) => {}
                Ok(Err(failure)) => return Err(self.error(failure)),
                Err(_) => return Err(self.silent()),
            }
        }
    }
}

impl Peer {
    async fn stream(&self) -> io::Result<Box<dyn Stream>> {
        let tcp = match self {
            Self::Tcp(address) => TcpStream::connect(address).await?,
            Self::Unix(path) => return Ok(Box::new(UnixStream::connect(path).await?)),
            Self::Listener(listener) => listener.accept().await?.0,
        };
        tcp.set_nodelay(true)?;
        Ok(Box::new(tcp))
    }
}

#[tonic::async_trait]
impl CrossConnect for OpenFlow {
    fn name(&self) -> &str {
        &self.name
    }

    /// The highest number of a port. Ports below it may be missing; changes that name them are refused.
    async fn ports(&mut self) -> Result<u16, Error> {
        let ports = self.ask(async |device| device.ports().await).await?;
        // Circuits cannot name ports beyond 65535.
        Ok(ports.into_iter().filter_map(|port| u16::try_from(port).ok()).max().unwrap_or(0))
    }

    async fn circuits(&mut self) -> Result<Circuits, Error> {
        let flows = self.ask(async |device| device.flows().await).await?;
        let (circuits, found) = circuits(&flows);
        if found.is_empty() {
            return Ok(circuits);
        }
        Err(Error::Foreign { device: self.name.clone(), found, circuits })
    }

    async fn set(&mut self, next: &Circuits) -> Result<(), Error> {
        self.ask(async |device| change(device, next).await).await
    }
}

async fn change(device: &mut Connection, next: &Circuits) -> Result<(), Failure> {
    let ports: BTreeSet<u32> = device.ports().await?.into_iter().collect();
    let directions: BTreeSet<(Port, Port)> =
        next.pairs().flat_map(|(a, b)| [(a, b), (b, a)]).collect();
    if let Some((port, _)) = directions.iter().find(|(port, _)| !ports.contains(&port.0.into())) {
        return Err(Failure::Refused(format!("it has no port {port}")));
    }
    let (kept, unwanted): (Vec<Flow>, Vec<Flow>) = device
        .flows()
        .await?
        .into_iter()
        .partition(|flow| direction(flow).is_some_and(|ports| directions.contains(&ports)));
    for flow in unwanted.iter().filter(|flow| direction(flow).is_none()) {
        tracing::warn!("{} is removed from the cross-connect", description(flow));
    }
    let kept: BTreeSet<(Port, Port)> = kept.iter().filter_map(direction).collect();
    let deletions: Vec<Request> = unwanted.into_iter().map(Request::Delete).collect();
    device.modify(&deletions).await?;
    let flow = |&(from, to): &(Port, Port)| Flow::between(from, to, PRIORITY, COOKIE);
    let additions: Vec<Request> =
        directions.difference(&kept).map(flow).map(Request::Add).collect();
    device.modify(&additions).await
}

/// The ports of a flow of ours.
fn direction(flow: &Flow) -> Option<(Port, Port)> {
    flow.ports().filter(|_| flow.cookie == COOKIE && flow.priority == PRIORITY)
}

/// The circuits of all flows, and a description of each flow that is not part of a circuit.
fn circuits(flows: &[Flow]) -> (Circuits, Vec<String>) {
    let directions: BTreeSet<(Port, Port)> = flows.iter().filter_map(direction).collect();
    let mut circuits = Circuits::DARK;
    let mut foreign = Vec::new();
    for flow in flows {
        let Some((a, b)) = direction(flow) else {
            foreign.push(description(flow));
            continue;
        };
        if !directions.contains(&(b, a)) {
            foreign.push(format!("a flow from port {a} to port {b}, and none back"));
        } else if a < b
            && let Err(reason) = circuits.join(a, b)
        {
            foreign.push(format!("flows from port {a} to port {b} and back, but {reason}"));
        }
    }
    (circuits, foreign)
}

fn description(flow: &Flow) -> String {
    let Flow { table, priority, cookie, .. } = flow;
    format!("a flow in table {table} with priority {priority} and cookie {cookie:#x}")
}
