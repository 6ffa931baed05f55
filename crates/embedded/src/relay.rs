//! ESA's channels over links with faults. They are TCP over loopback, which loses nothing, so a
//! relay between the ends delays bytes as the links' faults would: a [`Connection`] computes the
//! times.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tributary_endpoint::driver::tcp::{Connection, Luck, Way};
use tributary_model::{Deployment, HostId, plan};
use tributary_netio::faults::Delay;
use tributary_netio::{Waker, Watch};

/// Bytes that a connection holds in each direction before its writer must wait.
const CAPACITY: usize = 256 << 10;

/// Bytes per read.
const PIECE: usize = 64 << 10;

/// A thread that relays the channels whose links have faults.
#[derive(Debug)]
pub(crate) struct Relay {
    stop: Arc<AtomicBool>,
    waker: Waker,
    thread: Option<JoinHandle<()>>,
}

/// Where a client connects to reach an agent, by `(client, agent)`.
type Addresses = BTreeMap<(HostId, HostId), SocketAddr>;

impl Relay {
    /// Listens for all peers of a deployment's agents, at `hubs`. Returns the relay's addresses.
    ///
    /// # Errors
    /// If no more sockets or threads can be created.
    pub(crate) fn start(
        deployment: &Arc<Deployment>,
        hubs: &BTreeMap<HostId, SocketAddr>,
    ) -> Result<(Self, Addresses)> {
        let scenario = deployment.scenario();
        let topology = &scenario.network.topology;
        let (mut addresses, mut routes) = (BTreeMap::new(), Vec::new());
        for job in &scenario.jobs {
            let Some(agent) = job.agent else { continue };
            for &client in job.workers.iter().chain(&job.ps).filter(|&&client| client != agent) {
                let way = plan::way(topology, client, agent);
                let hub = hubs[&agent];
                let known = addresses.contains_key(&(client, agent));
                if known || way.iter().all(|link| topology.link(*link).faults.is_none()) {
                    addresses.entry((client, agent)).or_insert(hub);
                    continue;
                }
                let listener = TcpListener::bind((hub.ip(), 0)).and_then(|listener| {
                    listener.set_nonblocking(true)?;
                    addresses.insert((client, agent), listener.local_addr()?);
                    Ok(listener)
                });
                let listener = listener.context("cannot listen on loopback for ESA's channels")?;
                routes.push(Route { listener, hosts: [client, agent], hub, accepted: 0 });
            }
        }
        let (stop, waker) = (Arc::new(AtomicBool::new(false)), Waker::new());
        let mut carrier = Carrier {
            deployment: Arc::clone(deployment),
            routes,
            carried: Vec::new(),
            begin: Instant::now(),
        };
        let thread = if carrier.routes.is_empty() {
            None
        } else {
            let (stop, waker) = (Arc::clone(&stop), waker.clone());
            let thread = thread::Builder::new().name("ESA channels".into());
            let run = move || {
                if let Err(error) = carrier.run(&stop, &waker) {
                    tracing::error!("ESA's channels over links with faults: {error}");
                }
            };
            Some(thread.spawn(run).context("cannot start a thread")?)
        };
        Ok((Self { stop, waker, thread }, addresses))
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.waker.wake();
        if let Some(thread) = self.thread.take() {
            // The panic hook has reported a panic of the thread.
            drop(thread.join());
        }
    }
}

/// The listener for connections of one host to one agent.
#[derive(Debug)]
struct Route {
    listener: TcpListener,
    hosts: [HostId; 2],
    hub: SocketAddr,
    accepted: u64,
}

/// The relay's thread.
#[derive(Debug)]
struct Carrier {
    deployment: Arc<Deployment>,
    routes: Vec<Route>,
    carried: Vec<Carried>,
    begin: Instant,
}

impl Carrier {
    fn run(&mut self, stop: &AtomicBool, waker: &Waker) -> io::Result<()> {
        let mut watch = Watch::new();
        while !stop.load(Ordering::Relaxed) {
            self.accept()?;
            let now = u64::try_from(self.begin.elapsed().as_nanos()).unwrap_or(u64::MAX);
            // Dropping a failed or finished connection closes both ends.
            self.carried.retain_mut(|carried| carried.turn(now).is_ok_and(|goes_on| goes_on));
            watch.waker(waker);
            for route in &self.routes {
                watch.descriptor(&route.listener, libc::POLLIN);
            }
            for carried in &self.carried {
                carried.watch(now, &mut watch);
            }
            watch.sleep(None)?;
        }
        Ok(())
    }

    fn accept(&mut self) -> io::Result<()> {
        for (number, route) in (0..).zip(&mut self.routes) {
            let near = match route.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
                Err(error) => return Err(error),
            };
            let luck = Luck {
                seed: self.deployment.scenario().seed.wrapping_add(route.accepted),
                spared: false,
                until: None,
            };
            let (topology, delay) =
                (&self.deployment.scenario().network.topology, Delay::default());
            let connection = Connection::open(topology, route.hosts, delay, luck, number);
            let mut connection = connection.map_err(io::Error::other)?;
            near.set_nonblocking(true)?;
            near.set_nodelay(true)?;
            connection.connect(u64::try_from(self.begin.elapsed().as_nanos()).unwrap_or(u64::MAX));
            route.accepted += 1;
            self.carried.push(Carried {
                connection,
                near,
                hub: route.hub,
                far: None,
                ended: [false; 2],
                told: [false; 2],
            });
        }
        Ok(())
    }
}

/// One connection.
#[derive(Debug)]
struct Carried {
    connection: Connection,
    /// The client's end.
    near: TcpStream,
    hub: SocketAddr,
    /// The agent's end, once the client's SYN has reached it.
    far: Option<TcpStream>,
    /// Whether the writer of each direction has closed it, and the reader was told.
    ended: [bool; 2],
    told: [bool; 2],
}

impl Carried {
    /// Reads, and writes what is due. Returns whether the connection is still open.
    fn turn(&mut self, now: u64) -> io::Result<bool> {
        for way in Way::BOTH {
            self.read(now, way)?;
        }
        self.connection.advance(now);
        if self.connection.is_broken(now) {
            return Ok(false);
        }
        if self.far.is_none() && self.connection.is_accepted() {
            let far = TcpStream::connect(self.hub)?;
            far.set_nonblocking(true)?;
            far.set_nodelay(true)?;
            self.far = Some(far);
        }
        for way in Way::BOTH {
            self.write(way)?;
        }
        Ok(self.told != [true; 2])
    }

    /// The socket where a direction begins.
    fn writer(&self, way: Way) -> Option<&TcpStream> {
        match way {
            Way::Up => Some(&self.near),
            Way::Down => self.far.as_ref(),
        }
    }

    /// Whether to read more from the writer of a direction.
    fn reads(&self, way: Way) -> bool {
        let held = self.connection.backlog(way) + self.connection.received(way).len();
        !self.ended[way as usize] && held < CAPACITY
    }

    fn read(&mut self, now: u64, way: Way) -> io::Result<()> {
        let mut piece = [0; PIECE];
        while self.reads(way)
            && let Some(mut stream) = self.writer(way)
        {
            match stream.read(&mut piece) {
                Ok(0) => self.ended[way as usize] = true,
                Ok(read) => self.connection.write(now, way, &piece[..read]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Writes the bytes that have arrived, and the end of the stream.
    fn write(&mut self, way: Way) -> io::Result<()> {
        while !self.connection.received(way).is_empty()
            && let Some(mut stream) = self.writer(way.back())
        {
            match stream.write(self.connection.received(way)) {
                Ok(written) => drop(self.connection.take(way, written)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        let over = self.ended[way as usize]
            && self.connection.backlog(way) == 0
            && self.connection.received(way).is_empty();
        if over
            && !self.told[way as usize]
            && let Some(stream) = self.writer(way.back())
        {
            stream.shutdown(Shutdown::Write)?;
            self.told[way as usize] = true;
        }
        Ok(())
    }

    fn watch(&self, now: u64, watch: &mut Watch) {
        for way in Way::BOTH {
            if self.reads(way)
                && let Some(stream) = self.writer(way)
            {
                watch.descriptor(stream, libc::POLLIN);
            }
            if !self.connection.received(way).is_empty()
                && let Some(stream) = self.writer(way.back())
            {
                watch.descriptor(stream, libc::POLLOUT);
            }
        }
        if let Some(due) = self.connection.next_due() {
            watch.due_in(Duration::from_nanos(due.saturating_sub(now)));
        }
    }
}
