//! The file of a network: hosts, switches with a program each, and links.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use tributary_base::document::{Document, Error, Item, Kind, Table, suggest};
use tributary_switch::stf::End;

const KIND: Kind = Kind { name: "network file", page: "docs/reference/testbed.md" };

/// Most hosts, and most switches.
const MOST_NODES: usize = 1000;
/// Most characters of a name, which is part of the path of a socket.
const MOST_NAME: usize = 32;
/// The ports of a switch; the others are its own.
const PORTS: std::ops::RangeInclusive<u16> = 1..=509;
/// MTU of a host's link.
const HOST_MTU: u16 = 1500;
/// MTU of a link between switches, whose programs may add headers to a host's longest frame.
const SWITCH_MTU: u16 = 9000;

/// A network.
#[derive(Debug)]
pub(super) struct Net {
    pub(super) hosts: Vec<Host>,
    pub(super) switches: Vec<SwitchNode>,
    pub(super) links: Vec<Link>,
}

/// A host.
#[derive(Debug)]
pub(super) struct Host {
    pub(super) name: String,
    pub(super) mac: [u8; 6],
    /// IPv4 address and length of its prefix.
    pub(super) ip: Option<(Ipv4Addr, u8)>,
    /// The router of all other addresses.
    pub(super) gateway: Option<Ipv4Addr>,
}

/// A switch and its program.
#[derive(Debug)]
pub(super) struct SwitchNode {
    pub(super) name: String,
    pub(super) p4: PathBuf,
    pub(super) defines: Vec<String>,
    pub(super) include: Vec<PathBuf>,
    /// STF commands to execute when the program starts.
    pub(super) entries: Option<PathBuf>,
}

/// A link.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) ends: [End; 2],
    /// Longest payload of an Ethernet frame in bytes.
    pub(super) mtu: u16,
}

impl Net {
    /// Reads a file.
    ///
    /// # Errors
    /// The first error, with its position and how to fix it.
    pub(super) fn load(path: &Path) -> Result<Self, Error> {
        let text = KIND.read(path)?;
        Self::parse(&text, path)
    }

    fn parse(text: &str, path: &Path) -> Result<Self, Error> {
        let file = path.display().to_string();
        let document = Document::parse(KIND, text, &file)?;
        let root = document.table(&["switch", "host", "link"])?;
        let mut reader = Reader {
            directory: path.parent().unwrap_or(Path::new("")),
            nodes: BTreeMap::new(),
            linked: BTreeMap::new(),
            net: Self { hosts: Vec::new(), switches: Vec::new(), links: Vec::new() },
        };
        let (switches, hosts) = (few(root.items("switch")?)?, few(root.items("host")?)?);
        for (number, item) in switches.iter().enumerate() {
            reader.switch(item, number)?;
        }
        for (number, item) in (0..).zip(&hosts) {
            reader.host(item, number)?;
        }
        for (number, item) in root.items("link")?.iter().enumerate() {
            reader.link(item, number)?;
        }
        let nodes = switches.iter().zip((0..).map(Node::Switch));
        for (item, node) in nodes.chain(hosts.iter().zip((0..).map(Node::Host))) {
            reader.has_a_link(item, node)?;
        }
        Ok(reader.net)
    }

    /// The name of an end of a link, such as `h1` or `s1:2`.
    pub(super) fn end(&self, end: End) -> String {
        match end {
            End::Host(host) => self.hosts[usize::from(host)].name.clone(),
            End::Switch(switch, port) => format!("{}:{port}", self.switches[switch].name),
        }
    }

    /// The ends of a switch's links, in the order of its ports, each with the other end.
    pub(super) fn ports(&self, switch: usize) -> BTreeMap<u16, End> {
        let both = self.links.iter().flat_map(|link| {
            let [a, b] = link.ends;
            [(a, b), (b, a)]
        });
        let of = both.filter_map(|(end, far)| match end {
            End::Switch(at, port) if at == switch => Some((port, far)),
            _ => None,
        });
        of.collect()
    }
}

/// Refuses a long list of nodes.
fn few(items: Vec<Item<'_>>) -> Result<Vec<Item<'_>>, Error> {
    match items.get(MOST_NODES) {
        Some(item) => Err(item.fault(
            format!("{} is number {}", item.name(), MOST_NODES + 1),
            format!("leave at most {MOST_NODES}"),
        )),
        None => Ok(items),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Node {
    Host(u16),
    Switch(usize),
}

struct Reader<'a> {
    /// The directory of the file.
    directory: &'a Path,
    nodes: BTreeMap<String, Node>,
    /// The links that end at each end, by their numbers in the file.
    linked: BTreeMap<End, usize>,
    net: Net,
}

impl Reader<'_> {
    fn switch(&mut self, item: &Item<'_>, number: usize) -> Result<(), Error> {
        let keys = ["name", "p4", "define", "include", "entries"];
        let table = item.table(&format!("switch {}", number + 1), &keys)?;
        let name = self.name(&table, "\"s1\"", Node::Switch(number))?;
        let p4 = table.require("p4", "\"router.p4\"")?;
        let strings = |key: &str, example: &str| -> Result<Vec<String>, Error> {
            let Some(list) = table.get(key) else { return Ok(Vec::new()) };
            let list = list.array(&format!("an element of `{key}`"))?;
            list.iter().map(|one| one.string(example).map(str::to_owned)).collect()
        };
        let include = strings("include", "include")?;
        let switch = SwitchNode {
            name,
            p4: self.readable(&p4, "router.p4")?,
            defines: strings("define", "VALUES=8")?,
            include: include.iter().map(|dir| self.directory.join(dir)).collect(),
            entries: match table.get("entries") {
                Some(entries) => Some(self.readable(&entries, "s1.stf")?),
                None => None,
            },
        };
        if let (Err(problem), Some(item)) =
            (tributary_p4::defines(&switch.defines), table.get("define"))
        {
            return Err(item.fault(problem, "write for example [\"VALUES=8\"]"));
        }
        self.net.switches.push(switch);
        Ok(())
    }

    /// The path of a file that exists, relative to the directory of the network's file.
    fn readable(&self, item: &Item<'_>, example: &str) -> Result<PathBuf, Error> {
        let path = self.directory.join(item.string(example)?);
        match std::fs::File::open(&path) {
            Ok(_) => Ok(path),
            Err(error) => Err(item.fault(
                format!("cannot read {}: {error}", path.display()),
                "name a file, relative to the directory of this one",
            )),
        }
    }

    /// A name that no other node has.
    fn name(&mut self, table: &Table<'_>, example: &str, node: Node) -> Result<String, Error> {
        let item = table.require("name", example)?;
        let name = item.word(example.trim_matches('"'))?;
        if name.len() > MOST_NAME {
            let problem = format!("the name `{name}` has {} characters", name.len());
            return Err(item.fault(problem, format!("use at most {MOST_NAME}")));
        }
        if self.nodes.insert(name.to_owned(), node).is_some() {
            let problem = format!("two nodes are called `{name}`");
            return Err(item.fault(problem, "give each host and switch a name of its own"));
        }
        Ok(name.to_owned())
    }

    fn host(&mut self, item: &Item<'_>, number: u16) -> Result<(), Error> {
        let title = format!("host {}", number + 1);
        let table = item.table(&title, &["name", "ip", "mac", "gateway"])?;
        let name = self.name(&table, "\"h1\"", Node::Host(number))?;
        let [high, low] = (number + 1).to_be_bytes();
        let host = Host {
            name,
            mac: table.or("mac", [2, 0, 0, 0, high, low], mac)?,
            ip: table.get("ip").map(|item| ip(&item)).transpose()?,
            gateway: table.get("gateway").map(|item| address(&item)).transpose()?,
        };
        let others = &self.net.hosts;
        if let Some(other) = others.iter().find(|other| other.mac == host.mac) {
            let problem = format!("`{}` and `{}` have the same `mac`", other.name, host.name);
            return Err(table.place_of("mac").fault(problem, "give each host a `mac` of its own"));
        }
        let same = |other: &&Host| matches!((other.ip, host.ip), (Some(a), Some(b)) if a.0 == b.0);
        if let Some(other) = others.iter().find(same) {
            let problem = format!("`{}` and `{}` have the same `ip`", other.name, host.name);
            return Err(table.place_of("ip").fault(problem, "give each host an `ip` of its own"));
        }
        let place = table.place_of("gateway");
        match (host.gateway, host.ip) {
            (Some(_), None) => {
                let problem = format!("`{}` has a `gateway` but no `ip`", host.name);
                return Err(place.fault(problem, "add `ip = \"10.0.0.1/24\"`"));
            }
            (Some(gateway), Some((ip, _))) if gateway == ip => {
                let problem = format!("`{}` is its own `gateway`", host.name);
                return Err(place.fault(problem, "name the address of its router"));
            }
            (Some(gateway), Some((ip, prefix))) if !in_one_network(gateway, ip, prefix) => {
                let problem = format!("gateway {gateway} is outside the network of {ip}/{prefix}");
                return Err(place.fault(problem, "name an address in that network, or change `ip`"));
            }
            _ => {}
        }
        self.net.hosts.push(host);
        Ok(())
    }

    fn link(&mut self, item: &Item<'_>, number: usize) -> Result<(), Error> {
        let table = item.table(&format!("link {}", number + 1), &["between", "mtu"])?;
        let between = table.require("between", "[\"h1\", \"s1:1\"]")?;
        let ends = between.array("an end of a link")?;
        let [near, far] = &ends[..] else {
            let problem = format!("a link has two ends, not {}", ends.len());
            return Err(between.fault(problem, "write for example [\"h1\", \"s1:1\"]"));
        };
        let ends = [self.end(near, number)?, self.end(far, number)?];
        let of_host = ends.iter().any(|end| matches!(end, End::Host(_)));
        let mtu = table.or("mtu", if of_host { HOST_MTU } else { SWITCH_MTU }, |item| {
            let mtu = item.integer32(68..=65_535)?;
            Ok(u16::try_from(mtu).expect("it is in that range"))
        })?;
        self.net.links.push(Link { ends, mtu });
        Ok(())
    }

    /// An end of a link: a host, or a switch and a port that no other link has.
    fn end(&mut self, item: &Item<'_>, link: usize) -> Result<End, Error> {
        let text = item.string("s1:1")?;
        let (name, port) = match text.split_once(':') {
            Some((name, port)) => (name, Some(port)),
            None => (text, None),
        };
        let end = match (self.nodes.get(name), port) {
            (None, _) => {
                let names = self.nodes.keys().map(String::as_str);
                let fix = match suggest::nearest(name, names.clone()) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("the nodes are {}", suggest::list(names)),
                };
                return Err(item.fault(format!("there is no host or switch `{name}`"), fix));
            }
            (Some(Node::Host(host)), None) => End::Host(*host),
            (Some(Node::Host(_)), Some(_)) => {
                let problem = format!("`{name}` is a host, which has no port numbers");
                return Err(item.fault(problem, format!("write \"{name}\"")));
            }
            (Some(Node::Switch(_)), None) => {
                let problem = format!("the port of switch `{name}` is missing");
                return Err(item.fault(problem, format!("write for example \"{name}:1\"")));
            }
            (Some(Node::Switch(switch)), Some(port)) => {
                let port = port.parse().ok().filter(|port| PORTS.contains(port));
                let port = port.ok_or_else(|| {
                    let (low, high) = (PORTS.start(), PORTS.end());
                    let fix = format!("write \"{name}:PORT\" with a port from {low} to {high}");
                    item.fault(format!("`{text}` is not a port of a switch"), fix)
                })?;
                End::Switch(*switch, port)
            }
        };
        match self.linked.insert(end, link) {
            Some(other) => Err(item.fault(
                format!("`{text}` has a link already: link {}", other + 1),
                match end {
                    End::Host(_) => "a host has one link: remove one, or add a host",
                    End::Switch(..) => "choose a port of its own for each link",
                },
            )),
            None => Ok(end),
        }
    }

    fn has_a_link(&self, item: &Item<'_>, node: Node) -> Result<(), Error> {
        let of_node = |end: &End| match *end {
            End::Host(host) => node == Node::Host(host),
            End::Switch(switch, _) => node == Node::Switch(switch),
        };
        if self.linked.keys().any(of_node) {
            return Ok(());
        }
        let (name, port) = match node {
            Node::Host(host) => (&self.net.hosts[usize::from(host)].name, ""),
            Node::Switch(switch) => (&self.net.switches[switch].name, ":1"),
        };
        Err(item.fault(
            format!("`{name}` has no link"),
            format!("add a [[link]] with `between = [\"{name}{port}\", …]`, or remove `{name}`"),
        ))
    }
}

/// A unicast Ethernet address.
fn mac(item: &Item<'_>) -> Result<[u8; 6], Error> {
    let text = item.string("02:00:00:00:00:01")?;
    let bytes: Option<Vec<u8>> =
        text.split(':').map(|byte| u8::from_str_radix(byte, 16).ok()).collect();
    let mac = bytes.and_then(|bytes| <[u8; 6]>::try_from(bytes).ok());
    let unicast = |mac: &[u8; 6]| mac[0] & 1 == 0 && *mac != [0; 6];
    mac.filter(unicast).ok_or_else(|| {
        item.fault(
            format!("`{text}` is not the Ethernet address of one machine"),
            "write for example \"02:00:00:00:00:01\"",
        )
    })
}

/// An address of a single machine.
fn address(item: &Item<'_>) -> Result<Ipv4Addr, Error> {
    let text = item.string("10.0.0.254")?;
    unicast(text).ok_or_else(|| {
        let problem = format!("`{text}` is not the IPv4 address of one machine");
        item.fault(problem, "write for example \"10.0.0.254\"")
    })
}

/// An address of a single machine, and the length of its prefix.
fn ip(item: &Item<'_>) -> Result<(Ipv4Addr, u8), Error> {
    let text = item.string("10.0.0.1/24")?;
    let parsed = text.split_once('/').and_then(|(address, length)| {
        let length = length.parse().ok().filter(|length| (1..=32).contains(length))?;
        Some((unicast(address)?, length))
    });
    parsed.ok_or_else(|| {
        let problem = format!("`{text}` is not the IPv4 address of one machine with its prefix");
        item.fault(problem, "write for example \"10.0.0.1/24\"")
    })
}

/// Whether two addresses have a prefix of this length in common.
fn in_one_network(a: Ipv4Addr, b: Ipv4Addr, prefix: u8) -> bool {
    let rest = u32::MAX.checked_shr(prefix.into()).unwrap_or(0);
    a.to_bits() | rest == b.to_bits() | rest
}

fn unicast(text: &str) -> Option<Ipv4Addr> {
    let address: Ipv4Addr = text.parse().ok()?;
    let one = !(address.is_unspecified() || address.is_multicast() || address.is_broadcast());
    one.then_some(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SWITCH: &str = "[[switch]]\nname = \"s1\"\np4 = \"router.p4\"\n";
    const HOSTS: &str = "[[host]]\nname = \"h1\"\n[[host]]\nname = \"h2\"\nip = \"10.0.0.2/24\"\n";
    const LINKS: &str =
        "[[link]]\nbetween = [\"h1\", \"s1:1\"]\n[[link]]\nbetween = [\"s1:2\", \"h2\"]\n";

    /// Reads a file in a directory with `router.p4`.
    fn parse(text: &str) -> Result<Net, Error> {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("router.p4"), "").unwrap();
        Net::parse(text, &directory.path().join("net.toml"))
    }

    #[test]
    fn what_a_file_leaves_out_has_a_default() {
        let net = parse(&[SWITCH, HOSTS, LINKS].concat()).unwrap();
        let [h1, h2] = &net.hosts[..] else { panic!("{net:?}") };
        assert_eq!((h1.mac, h1.ip), ([2, 0, 0, 0, 0, 1], None));
        assert_eq!((h2.mac, h2.ip), ([2, 0, 0, 0, 0, 2], Some(([10, 0, 0, 2].into(), 24))));
        assert_eq!(net.links[0].ends, [End::Host(0), End::Switch(0, 1)]);
        assert_eq!(net.links[0].mtu, HOST_MTU);
        assert_eq!(net.ports(0), BTreeMap::from([(1, End::Host(0)), (2, End::Host(1))]));
        assert_eq!(net.end(End::Switch(0, 2)), "s1:2");
    }

    #[test]
    fn links_between_switches_carry_longer_frames() {
        let second = SWITCH.replace("s1", "s2");
        let link = "[[link]]\nbetween = [\"s1:1\", \"s2:509\"]\n";
        let net = parse(&[SWITCH, &second, link].concat()).unwrap();
        assert_eq!(net.links[0].mtu, SWITCH_MTU);
        let net = parse(&[SWITCH, &second, link, "mtu = 1600\n"].concat()).unwrap();
        assert_eq!(net.links[0].mtu, 1600);
    }

    /// Text of a file, in which `@` marks the position of the error, and what the error says.
    const WRONG: [(&str, &str); 25] = [
        ("@colour = 3\n", "unknown key `colour` in the network file; the keys there are"),
        ("@[[switch]]\np4 = \"router.p4\"\n", "switch 1 has no `name`; add `name = \"s1\"`"),
        ("@[[switch]]\nname = \"s1\"\n", "switch 1 has no `p4`; add `p4 = \"router.p4\"`"),
        ("[[switch]]\nname = @\"s 1\"\n", "`name` is not a name"),
        ("[[switch]]\nname = \"s\"\np4 = @\"no.p4\"\n", "no.p4: No such file"),
        ("[[switch]]\nname = \"s\"\np4 = \"router.p4\"\nentries = @\"s.stf\"\n", "s.stf: No such"),
        ("[[switch]]\nname = \"s\"\np4 = \"router.p4\"\ndefine = @[\"=1\"]\n", "-D =1"),
        ("[[host]]\nname = \"h\"\n[[host]]\nname = @\"h\"\n", "two nodes are called `h`; give"),
        ("[[host]]\nname = \"h\"\nip = @\"10.0.0.1\"\n", "with its prefix; write for example"),
        ("[[host]]\nname = \"h\"\nip = @\"224.0.0.1/8\"\n", "not the IPv4 address of one"),
        ("[[host]]\nname = \"h\"\nmac = @\"01:00:00:00:00:01\"\n", "not the Ethernet address"),
        ("[[host]]\nname = \"h\"\ngateway = @\"10.0.0.9\"\n", "`gateway` but no `ip`; add"),
        (
            "[[host]]\nname = \"h\"\nip = \"10.0.0.1/24\"\ngateway = @\"10.0.1.2\"\n",
            "gateway 10.0.1.2 is outside the network of 10.0.0.1/24; name an address",
        ),
        (
            "[[host]]\nname = \"h\"\nip = \"10.0.0.1/24\"\ngateway = @\"10.0.0.1\"\n",
            "`h` is its own `gateway`; name the address of its router",
        ),
        (
            "[[host]]\nname = \"h\"\n[[host]]\nname = \"g\"\nmac = @\"02:00:00:00:00:01\"\n",
            "`h` and `g` have the same `mac`",
        ),
        (
            "[[host]]\nname = \"h\"\nip = \"10.0.0.1/8\"\n[[host]]\nname = \"g\"\nip = @\"10.0.0.1/24\"\n",
            "`h` and `g` have the same `ip`",
        ),
        (
            "@[[host]]\nname = \"h\"\n",
            "`h` has no link; add a [[link]] with `between = [\"h\", …]`",
        ),
        ("SWITCH@[[switch]]\nname = \"s2\"\np4 = \"router.p4\"\nHOSTSLINKS", "`s2` has no link"),
        ("SWITCHHOSTS@[[link]]\n", "link 1 has no `between`"),
        ("SWITCHHOSTS[[link]]\nbetween = @[\"h1\"]\n", "a link has two ends, not 1"),
        ("SWITCHHOSTS[[link]]\nbetween = [\"h1\", @\"s3:1\"]\n", "no host or switch `s3`; did you"),
        (
            "SWITCHHOSTS[[link]]\nbetween = [\"h1\", @\"s1\"]\n",
            "the port of switch `s1` is missing",
        ),
        ("SWITCHHOSTS[[link]]\nbetween = [\"h1\", @\"s1:510\"]\n", "port from 1 to 509"),
        (
            "SWITCHHOSTSLINKS[[link]]\nbetween = [@\"s1:2\", \"s1:3\"]\n",
            "`s1:2` has a link already: link 2; choose a port of its own",
        ),
        (
            "SWITCHHOSTSLINKS[[link]]\nbetween = [\"s1:3\", @\"h1\"]\n",
            "`h1` has a link already: link 1; a host has one link",
        ),
    ];

    #[test]
    fn errors_name_the_position_and_the_fix() {
        for (text, says) in WRONG {
            let text = text.replace("SWITCH", SWITCH).replace("HOSTS", HOSTS);
            let text = text.replace("LINKS", LINKS);
            let (before, _) = text.split_once('@').unwrap();
            let line = before.lines().count() + usize::from(before.ends_with('\n'));
            let column = before.rsplit('\n').next().unwrap().chars().count() + 1;
            let error = parse(&text.replacen('@', "", 1)).expect_err(&text);
            assert!(error.to_string().contains(says), "{text}: {error}");
            assert_eq!(error.position(), Some((line.max(1), column)), "{text}: {error}");
        }
    }
}
