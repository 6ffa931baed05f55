//! Hosts, links and switches on one machine, in network namespaces.
//!
//! [`Testbed::build`] creates a network namespace for each host and switch of a [`Topology`] and
//! joins them by pairs of virtual Ethernet interfaces. Processes ([`Testbed::spawn`]) and threads
//! ([`Testbed::run_in`], [`Testbed::thread_in`]) then run inside a node.
//!
//! Nothing outlives the process that holds the testbed, however it ends. The namespaces have no
//! names in the file system: they exist as long as this process holds them open or processes of the
//! testbed run in them. The kernel kills these processes when this process dies, and removes a
//! namespace's interfaces with it. Interfaces are created inside the namespaces and never appear in
//! that of this process.
//!
//! Needs root, or [`enter_user_namespace_if_needed`] at the start of `main`. Faults are injected
//! above the interfaces, by `tributary_netio::faults`.

#![deny(unsafe_code)]

use std::collections::BTreeMap;
use std::io;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use std::os::fd::{AsFd, AsRawFd};

mod links;
mod namespace;
mod openvswitch;
mod process;
mod topology;
mod user_namespace;

pub use openvswitch::{OpenVSwitch, OpenVSwitchError};
pub use process::{LineSink, Output, Process, Stream};
pub use topology::{Host, InvalidTopology, Link, LinkEnd, SwitchNode, Topology};
pub use user_namespace::{Privilege, PrivilegeError, enter_user_namespace_if_needed};

use tributary_netio::device::Kind as Io;
use tributary_netio::ethtool::Offloads;

use namespace::Namespace;
use process::Spawner;

/// Time for processes to end by themselves when a testbed is dropped, before they are killed.
pub const GRACE: Duration = Duration::from_secs(2);

/// Time limit for links to come up.
const LINK_TIME: Duration = Duration::from_secs(10);

/// Errors of a testbed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The topology is inconsistent.
    #[error(transparent)]
    Topology(#[from] InvalidTopology),
    /// Missing privileges to create network namespaces.
    #[error(
        "making network namespaces needs root (CAP_SYS_ADMIN and CAP_NET_ADMIN) or a user namespace \
         entered before: {0}"
    )]
    NotPermitted(io::Error),
    /// The node does not exist.
    #[error("the testbed has no node `{0}`")]
    UnknownNode(String),
    /// The kernel refused an operation.
    #[error("cannot {what} in node `{node}`: {source}")]
    Node {
        /// The operation.
        what: String,
        /// The node.
        node: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// Links were created but do not work.
    #[error("the links of {} are still down after {LINK_TIME:?}", .0.join(", "))]
    LinksDown(Vec<String>),
}

impl Error {
    fn node(what: impl Into<String>, node: &str) -> impl FnOnce(io::Error) -> Self {
        let (what, node) = (what.into(), node.to_owned());
        |source| Self::Node { what, node, source }
    }
}

/// What forwards frames between the ports of a switch.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Forwarder {
    /// A process or thread that the testbed's user starts.
    Process,
    /// A bridge of the kernel.
    Bridge,
}

/// A running network. Dropping it ends its processes and removes everything.
#[derive(Debug)]
pub struct Testbed {
    spawner: Spawner,
    processes: Mutex<Vec<Process>>,
    nodes: BTreeMap<String, Namespace>,
}

impl Testbed {
    /// Builds a network. All links work when it returns.
    ///
    /// # Errors
    /// If the topology is invalid, privileges are missing or the kernel refuses. Nothing is left
    /// then.
    pub fn build(topology: &Topology) -> Result<Self, Error> {
        Self::build_for(Io::Packet, topology)
    }

    /// [`build`](Self::build)s a testbed for one kind of ports. With [`Io::Gso`] and
    /// [`Io::UdpGso`], links have the kernel's default offloads: they carry UDP and TCP that the
    /// kernel has not segmented, and packets without complete checksums. With the others, they carry
    /// frames in their final form.
    ///
    /// # Errors
    /// As for [`build`](Self::build).
    pub fn build_for(io: Io, topology: &Topology) -> Result<Self, Error> {
        let set_offloads = match io {
            Io::Gso | Io::UdpGso => |_: &str| Ok(()),
            Io::Packet | Io::Xdp | Io::Udp => Offloads::disable,
        };
        Self::build_with(topology, Forwarder::Process, set_offloads)
    }

    /// [`build`](Self::build)s a testbed whose switches are bridges of the kernel, so that programs
    /// on hosts reach each other over IP without a process at the switch. Links have the kernel's
    /// default offloads.
    ///
    /// # Errors
    /// As for [`build`](Self::build).
    pub fn build_bridged(topology: &Topology) -> Result<Self, Error> {
        Self::build_with(topology, Forwarder::Bridge, |_| Ok(()))
    }

    fn build_with(
        topology: &Topology,
        forwarder: Forwarder,
        set_offloads: fn(&str) -> io::Result<()>,
    ) -> Result<Self, Error> {
        topology.check()?;
        let mut nodes = BTreeMap::new();
        for name in topology.nodes() {
            let namespace = Namespace::new().map_err(|source| match source.kind() {
                io::ErrorKind::PermissionDenied => Error::NotPermitted(source),
                _ => Error::node("make a network namespace", name)(source),
            })?;
            nodes.insert(name.to_owned(), namespace);
        }
        for (name, namespace) in &nodes {
            namespace
                .run(links::prepare_namespace)
                .map_err(Error::node("prepare the network namespace", name))?;
        }
        for link in &topology.links {
            let [near, far] = [&link.a, &link.b].map(|port| topology.end(port));
            let peer = nodes[&link.b.node].as_fd().as_raw_fd();
            nodes[&link.a.node]
                .run(|| links::create(&near, &far, peer, link.mtu))
                .map_err(Error::node(format!("make {link}"), &link.a.node))?;
        }
        if forwarder == Forwarder::Bridge {
            for SwitchNode { name } in &topology.switches {
                let ports = topology.interfaces(name);
                nodes[name]
                    .run(|| links::create_bridge(ports.iter().map(String::as_str)))
                    .map_err(Error::node("make a bridge", name))?;
            }
        }
        for port in topology.links.iter().flat_map(|link| [&link.a, &link.b]) {
            let end = topology.end(port);
            nodes[&port.node]
                .run(|| {
                    set_offloads(&end.interface)?;
                    links::bring_up(&end)
                })
                .map_err(Error::node(format!("set up `{}`", end.interface), &port.node))?;
        }
        let spawner = Spawner::start().map_err(Error::node("start a thread", "all"))?;
        let testbed = Self { spawner, processes: Mutex::default(), nodes };
        testbed.wait_for_links(topology)?;
        Ok(testbed)
    }

    /// Waits until the kernel has noticed, in the background, that the links work: a device sends
    /// nothing before.
    fn wait_for_links(&self, topology: &Topology) -> Result<(), Error> {
        let deadline = Instant::now() + LINK_TIME;
        loop {
            let mut down = Vec::new();
            for port in topology.links.iter().flat_map(|link| [&link.a, &link.b]) {
                let interface = topology.end(port).interface;
                let works = self
                    .node(&port.node)?
                    .run(|| links::works(&interface))
                    .map_err(Error::node(format!("look at `{interface}`"), &port.node))?;
                if !works {
                    down.push(format!("{}:{interface}", port.node));
                }
            }
            if down.is_empty() {
                return Ok(());
            }
            if Instant::now() >= deadline {
                return Err(Error::LinksDown(down));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Adds a route of a node's kernel to an address through an interface, and the Ethernet address
    /// there, so that the kernel sends no ARP request.
    ///
    /// # Errors
    /// If there is no such node, or the kernel refuses.
    pub fn add_neighbour(
        &self,
        node: &str,
        interface: &str,
        ip: Ipv4Addr,
        mac: [u8; 6],
    ) -> Result<(), Error> {
        let what = format!("add neighbour {ip} of `{interface}`");
        self.node(node)?
            .run(|| links::add_neighbour(interface, ip, mac))
            .map_err(Error::node(what, node))
    }

    /// Adds a route of a node's kernel to all addresses through a router, which one of its own networks has.
    ///
    /// # Errors
    /// If there is no such node, or the kernel refuses.
    pub fn add_gateway(&self, node: &str, gateway: Ipv4Addr) -> Result<(), Error> {
        self.node(node)?
            .run(|| links::add_gateway(gateway))
            .map_err(Error::node(format!("add the gateway {gateway}"), node))
    }

    /// Takes a node's interface down, or brings it up again. The other end of the link loses its carrier
    /// meanwhile. The kernel forgets the routes through an interface that is down.
    ///
    /// # Errors
    /// If there is no such node or interface.
    pub fn set_link(&self, node: &str, interface: &str, up: bool) -> Result<(), Error> {
        let what = format!("{} `{interface}`", if up { "bring up" } else { "take down" });
        self.node(node)?.run(|| links::set(interface, up)).map_err(Error::node(what, node))
    }

    fn node(&self, name: &str) -> Result<&Namespace, Error> {
        self.nodes.get(name).ok_or_else(|| Error::UnknownNode(name.to_owned()))
    }

    /// The names of all nodes.
    pub fn nodes(&self) -> impl Iterator<Item = &str> {
        self.nodes.keys().map(String::as_str)
    }

    /// A path to the node's network namespace, for debugging: `nsenter --net=PATH COMMAND`. Valid
    /// while the testbed exists.
    ///
    /// # Errors
    /// If there is no such node.
    pub fn namespace_path(&self, node: &str) -> Result<PathBuf, Error> {
        let descriptor = self.node(node)?.as_fd().as_raw_fd();
        Ok(format!("/proc/{}/fd/{descriptor}", std::process::id()).into())
    }

    /// Runs `work` on a separate thread inside a node and waits for it. Sockets that it opens and
    /// returns stay in the node.
    ///
    /// # Errors
    /// If there is no such node or the thread cannot be started.
    ///
    /// # Panics
    /// If `work` panics.
    pub fn run_in<T: Send>(&self, node: &str, work: impl FnOnce() -> T + Send) -> Result<T, Error> {
        self.node(node)?.run(|| Ok(work())).map_err(Error::node("start a thread", node))
    }

    /// Starts a thread inside a node.
    ///
    /// # Errors
    /// If there is no such node or the thread cannot be started.
    pub fn thread_in<T: Send + 'static>(
        &self,
        node: &str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<JoinHandle<T>, Error> {
        self.node(node)?.spawn(node, work).map_err(Error::node("start a thread", node))
    }

    /// Starts a process inside a node, in a process group of its own, so that Ctrl-C at the
    /// terminal reaches only this process. It runs until it ends, is stopped, or the testbed is
    /// dropped; if this process dies, the kernel kills it.
    ///
    /// `output` determines the use of its standard output and error; other settings of `command`
    /// are unchanged. The kernel does not kill programs that are set-user-ID or have file
    /// capabilities.
    ///
    /// # Errors
    /// If there is no such node or the program cannot be started.
    pub fn spawn(&self, node: &str, command: Command, output: Output) -> Result<Process, Error> {
        let namespace = self.node(node)?.try_clone().map_err(Error::node("hold", node))?;
        let program = command.get_program().to_string_lossy().into_owned();
        let process = self
            .spawner
            .spawn(node, namespace, command, output)
            .map_err(Error::node(format!("start `{program}`"), node))?;
        let mut processes = self.lock();
        processes.retain(|process| !process.is_over());
        processes.push(process.clone());
        Ok(process)
    }

    /// Ends all processes: asks each, and kills those left after `grace`.
    pub fn end_processes(&self, grace: Duration) {
        let deadline = Instant::now() + grace;
        let processes = std::mem::take(&mut *self.lock());
        for process in &processes {
            process.ask_to_end();
        }
        for process in &processes {
            let left = deadline.saturating_duration_since(Instant::now());
            // A process that cannot be waited for is no longer ours.
            let _ = process.end(left);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Process>> {
        self.processes.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Drop for Testbed {
    fn drop(&mut self) {
        self.end_processes(GRACE);
    }
}
