//! Our network file and site file, from Slurm's description of the switches.

mod conf;
mod yaml;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::net::Ipv4Addr;
use std::path::Path;
use std::str::FromStr;

use tributary_base::FileLimit;

use crate::slurm::hostlist::BadList;
use crate::slurm::listing::Node;

/// The longest file that is read.
const FILE: FileLimit = FileLimit::new("topology file", 4 << 20);

/// Why a topology cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TopologyError {
    /// The file cannot be read.
    #[error("{0}")]
    Unreadable(String),
    /// A line of `topology.conf` is invalid.
    #[error("line {line}: {problem}")]
    Line {
        /// Its number, from 1.
        line: usize,
        /// The problem.
        problem: String,
    },
    /// `topology.yaml` is invalid.
    #[error("{0}")]
    Yaml(String),
    /// A list of names is invalid.
    #[error("switch {switch}: {error}")]
    List {
        /// The switch.
        switch: String,
        /// The problem.
        error: BadList,
    },
    /// The switches are not one tree over the nodes.
    #[error("{0}")]
    Shape(String),
}

/// A switch.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TreeSwitch {
    /// Its name.
    pub name: String,
    /// The nodes that are plugged into it.
    pub nodes: Vec<String>,
    /// The switches below it.
    pub children: Vec<String>,
}

/// Switches that form one tree, with each node at one of them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tree(Vec<TreeSwitch>);

impl Tree {
    /// Reads `topology.yaml` if the name ends in `.yaml` or `.yml`, and `topology.conf` otherwise.
    ///
    /// # Errors
    ///
    /// [`TopologyError`].
    pub fn load(path: &Path) -> Result<Self, TopologyError> {
        let text = FILE.read_text(path);
        let text = text.map_err(|error| TopologyError::Unreadable(error.to_string()))?;
        let is_yaml = path.extension().is_some_and(|end| end == "yaml" || end == "yml");
        if is_yaml { Self::from_yaml(&text) } else { Self::from_conf(&text) }
    }

    /// Reads the text of a `topology.conf`.
    ///
    /// # Errors
    ///
    /// [`TopologyError`].
    pub fn from_conf(text: &str) -> Result<Self, TopologyError> {
        Self::new(conf::switches(text)?)
    }

    /// Reads the text of a `topology.yaml`: its default topology, or its only tree.
    ///
    /// # Errors
    ///
    /// [`TopologyError`].
    pub fn from_yaml(text: &str) -> Result<Self, TopologyError> {
        Self::new(yaml::switches(text)?)
    }

    fn new(switches: Vec<TreeSwitch>) -> Result<Self, TopologyError> {
        let shape = |problem: String| Err(TopologyError::Shape(problem));
        if switches.is_empty() {
            return shape("there is no switch; describe a tree of switches".into());
        }
        let mut names = BTreeSet::new();
        let nodes = switches.iter().flat_map(|switch| &switch.nodes);
        for name in switches.iter().map(|switch| &switch.name).chain(nodes) {
            if !is_name(name) {
                return shape(format!(
                    "{name:?} is not a name: 1 to 64 letters, digits, `-`, `_`, `.`"
                ));
            }
            if !names.insert(name) {
                return shape(format!(
                    "{name} is there twice; name each switch and each node once"
                ));
            }
        }
        let mut parents: BTreeMap<&str, &str> = BTreeMap::new();
        for switch in &switches {
            for child in &switch.children {
                if !switches.iter().any(|other| other.name == *child) {
                    return shape(format!(
                        "switch {} is above {child}, which is not a switch",
                        switch.name
                    ));
                }
                if let Some(other) = parents.insert(child, &switch.name) {
                    return shape(format!(
                        "switch {child} is below {other} and {}; only trees can be used",
                        switch.name
                    ));
                }
            }
        }
        let roots: Vec<&str> = switches
            .iter()
            .map(|switch| switch.name.as_str())
            .filter(|name| !parents.contains_key(name))
            .collect();
        match roots[..] {
            [root] => {
                let mut reached = BTreeSet::from([root]);
                let mut next = vec![root];
                while let Some(name) = next.pop() {
                    let switch = switches.iter().find(|switch| switch.name == name);
                    for child in switch.into_iter().flat_map(|switch| &switch.children) {
                        if reached.insert(child) {
                            next.push(child);
                        }
                    }
                }
                match switches.iter().find(|switch| !reached.contains(switch.name.as_str())) {
                    None => Ok(Self(switches)),
                    Some(lost) => shape(format!("switch {} is below itself", lost.name)),
                }
            }
            [] => shape("every switch is below another one; name one at the top".into()),
            _ => shape(format!(
                "switches {} are not connected; add a switch above them",
                roots.join(", ")
            )),
        }
    }

    /// The switches, as in the file.
    #[must_use]
    pub fn switches(&self) -> &[TreeSwitch] {
        &self.0
    }

    /// All nodes, switch by switch.
    pub fn nodes(&self) -> impl Iterator<Item = &str> {
        self.0.iter().flat_map(|switch| switch.nodes.iter().map(String::as_str))
    }

    /// The network file: switches, hosts and the links between them. Slurm's address of a node is where its daemon
    /// listens, mostly in a network for management. So a host gets it as its own only if it is one of the `data`
    /// network, that of the interfaces towards the switches. Other addresses are in comments.
    #[must_use]
    pub fn network(&self, origin: &str, known: &[Node], data: Option<Subnet>) -> String {
        let addresses = addresses(self, known);
        let mut text = format!(
            "# The network of {origin}, made by `tributary place slurm topology`.\n\
             # Give each host the `mac` and the `ip` of its interface towards the switch, where they are \
             missing.\n# The ports of a switch are numbered from 1, in the order of its links.\n"
        );
        for TreeSwitch { name, .. } in &self.0 {
            let _ = write!(text, "\n[[topology.switch]]\nname = \"{name}\"\n");
        }
        for name in self.nodes() {
            let _ = write!(text, "\n[[topology.host]]\nname = \"{name}\"\n");
            match addresses.get(name) {
                Some(address) if data.is_some_and(|data| data.contains(*address)) => {
                    let _ = writeln!(text, "ip = \"{address}\"");
                }
                Some(address) => {
                    let _ = writeln!(
                        text,
                        "# ip = \"{address}\"  # where Slurm's daemon listens: is it towards the switch?"
                    );
                }
                None => {}
            }
        }
        for TreeSwitch { name, nodes, children } in &self.0 {
            for other in nodes.iter().chain(children) {
                let _ = write!(text, "\n[[topology.link]]\nbetween = [\"{other}\", \"{name}\"]\n");
            }
        }
        let mut nodes = self.nodes();
        if let Some(node) = nodes.next() {
            // Only with ATP may the two be on one host.
            let server = nodes.next().unwrap_or(node);
            let _ = write!(
                text,
                "\n# A job file needs a job. `tributary controller --on-demand` admits only those that \
                 Slurm starts.\n[[job]]\nworkers = [\"{node}\"]\nps = \"{server}\"\n"
            );
        }
        text
    }

    /// The site file: each node with its number of GPUs.
    #[must_use]
    pub fn site(&self, origin: &str, network: &str, gpus: impl Fn(&str) -> u32) -> String {
        let mut text = format!(
            "# The servers of {origin}, made by `tributary place slurm topology`.\n\
             network = \"{network}\"\n"
        );
        for name in self.nodes() {
            let _ = write!(text, "\n[[server]]\nhost = \"{name}\"\ngpus = {}\n", gpus(name));
        }
        text
    }
}

/// The addresses of a network.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Subnet {
    address: Ipv4Addr,
    /// Bits that are the same in all of its addresses.
    prefix: u8,
}

/// A text is not a network.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("write ADDRESS/PREFIX with a prefix from 0 to 32, such as 10.9.0.0/16")]
pub struct NotSubnet;

impl FromStr for Subnet {
    type Err = NotSubnet;

    fn from_str(text: &str) -> Result<Self, NotSubnet> {
        let (address, prefix) = text.split_once('/').ok_or(NotSubnet)?;
        let prefix = prefix.parse().ok().filter(|prefix| *prefix <= 32).ok_or(NotSubnet)?;
        Ok(Self { address: address.parse().map_err(|_| NotSubnet)?, prefix })
    }
}

impl Subnet {
    /// Whether an address is in it.
    #[must_use]
    pub fn contains(self, address: Ipv4Addr) -> bool {
        let differ = self.address.to_bits() ^ address.to_bits();
        differ.leading_zeros() >= u32::from(self.prefix)
    }
}

/// Whether our files can have this name.
fn is_name(name: &str) -> bool {
    let word = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    (1..=64).contains(&name.len()) && name.chars().all(word)
}

/// Slurm's addresses of the nodes of a tree; none if they are not different.
fn addresses<'a>(tree: &'a Tree, known: &[Node]) -> BTreeMap<&'a str, Ipv4Addr> {
    let address = |name: &'a str| {
        let node = known.iter().find(|node| node.name == name)?;
        let address: Ipv4Addr = node.address.parse().ok()?;
        (!address.is_loopback()).then_some((name, address))
    };
    let found: BTreeMap<&str, Ipv4Addr> = tree.nodes().filter_map(address).collect();
    let different: BTreeSet<&Ipv4Addr> = found.values().collect();
    if different.len() == found.len() { found } else { BTreeMap::new() }
}

#[cfg(test)]
mod tests;
