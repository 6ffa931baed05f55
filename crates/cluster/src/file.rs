//! Cluster files: a description of a cluster in TOML.
//!
//! A file either gives the shape of a cluster with identical racks, or lists every rack
//! (`[[rack]]`). Defaults are as in NetPack §6.1. `docs/evaluation/simulator.md` documents the
//! format for users.

use std::path::Path;

use tributary_base::document::{Document, Error, Item, Kind, Table};

use crate::topology::{Cluster, Pod, PodIndex, Rack, RackIndex, Server, Shape};

/// The name of such a file in messages.
const KIND: Kind = Kind { name: "cluster file", page: "docs/evaluation/simulator.md" };

/// Maximum number of racks, of servers and of GPUs per server, beyond any real cluster.
const MAX_RACKS: u32 = 1 << 16;
const MAX_SERVERS: u32 = 1 << 20;
const MAX_GPUS: u32 = 1 << 10;

/// Maximum bandwidth of a link in Gb/s.
const MAX_GBPS: f64 = 1e9;

const SHAPE_KEYS: [&str; 7] = [
    "racks",
    "servers_per_rack",
    "gpus_per_server",
    "link_gbps",
    "oversubscription",
    "pat_gbps",
    "racks_per_pod",
];

const RACK_KEYS: [&str; 7] =
    ["name", "servers", "gpus", "link_gbps", "uplink_gbps", "pat_gbps", "count"];

/// A cluster as a file describes it.
#[derive(Clone, PartialEq, Debug)]
pub struct Described {
    /// The cluster.
    pub cluster: Cluster,
    /// Values that are valid but probably unintended, one line each with its position.
    pub warnings: Vec<String>,
}

/// Reads a cluster file.
///
/// # Errors
///
/// If the file cannot be read or its content is invalid.
pub fn load(path: impl AsRef<Path>) -> Result<Described, Error> {
    let path = path.as_ref();
    parse(&KIND.read(path)?, &path.display().to_string())
}

/// [`load`] for text. Messages call the file `file`.
///
/// # Errors
///
/// If the content is invalid.
pub fn parse(text: &str, file: &str) -> Result<Described, Error> {
    let document = Document::parse(KIND, text, file)?;
    let mut keys = SHAPE_KEYS.to_vec();
    keys.push("rack");
    let table = document.table(&keys)?;
    let racks = table.items("rack")?;
    if racks.is_empty() { uniform(&table) } else { explicit(&table, &racks) }
}

/// A shape, with NetPack's defaults.
fn shape(table: &Table<'_>) -> Result<Shape, Error> {
    let netpack = Shape::default();
    let pods = table.get("racks_per_pod").map(|item| item.integer32(1..=MAX_RACKS));
    Ok(Shape {
        racks: table.or("racks", netpack.racks, |i| i.integer32(1..=MAX_RACKS))?,
        servers_per_rack: table
            .or("servers_per_rack", netpack.servers_per_rack, |i| i.integer32(1..=MAX_SERVERS))?,
        gpus_per_server: table
            .or("gpus_per_server", netpack.gpus_per_server, |i| i.integer32(1..=MAX_GPUS))?,
        link_gbps: table.or("link_gbps", netpack.link_gbps, gbps)?,
        oversubscription: table
            .or("oversubscription", netpack.oversubscription, |i| i.number(1e-3..=1e6))?,
        pat_gbps: table.or("pat_gbps", netpack.pat_gbps, gbps)?,
        racks_per_pod: pods.transpose()?,
    })
}

fn gbps(item: &Item<'_>) -> Result<f64, Error> {
    item.number(0.0..=MAX_GBPS)
}

fn uniform(table: &Table<'_>) -> Result<Described, Error> {
    let shape = shape(table)?;
    if u64::from(shape.racks) * u64::from(shape.servers_per_rack) > u64::from(MAX_SERVERS) {
        let problem = format!("there are more than {MAX_SERVERS} servers");
        return Err(table.place_of("racks").fault(problem, "have fewer racks, or smaller ones"));
    }
    let mut warnings = Vec::new();
    if shape.link_gbps == 0.0 && shape.racks * shape.servers_per_rack > 1 {
        let warning = table.place_of("link_gbps").fault(
            "no server has a link",
            "only jobs that fit one server can run: give `link_gbps` if that is not meant",
        );
        warnings.push(warning.to_string());
    }
    Ok(Described { cluster: Cluster::uniform(&shape), warnings })
}

/// The parts of a cluster while racks are added.
#[derive(Debug, Default)]
struct Parts {
    servers: Vec<Server>,
    racks: Vec<Rack>,
    warnings: Vec<String>,
}

fn explicit(table: &Table<'_>, items: &[Item<'_>]) -> Result<Described, Error> {
    for key in ["racks", "servers_per_rack"] {
        if let Some(item) = table.get(key) {
            return Err(item.fault(
                format!("`{key}` says how many there are, and so do the [[rack]] tables"),
                format!("remove `{key}` or the [[rack]] tables"),
            ));
        }
    }
    let defaults = shape(table)?;
    let mut parts = Parts::default();
    for item in items {
        parts.add(item, &defaults)?;
    }
    if parts.racks.len() == 1 {
        // A single rack needs no uplinks.
        parts.warnings.clear();
    }
    let pods = pods(&mut parts.racks, defaults.racks_per_pod);
    let cluster = Cluster::new(parts.servers, parts.racks, pods);
    Ok(Described { cluster, warnings: parts.warnings })
}

impl Parts {
    fn add(&mut self, item: &Item<'_>, defaults: &Shape) -> Result<(), Error> {
        let table = item.table("[[rack]]", &RACK_KEYS)?;
        let servers =
            table.or("servers", defaults.servers_per_rack, |i| i.integer32(1..=MAX_SERVERS))?;
        let gpus = table.or("gpus", defaults.gpus_per_server, |i| i.integer32(0..=MAX_GPUS))?;
        let link_gbps = table.or("link_gbps", defaults.link_gbps, gbps)?;
        let full_gbps = f64::from(servers) * link_gbps / defaults.oversubscription;
        let uplink_gbps = table.or("uplink_gbps", full_gbps, gbps)?;
        let pat_gbps = table.or("pat_gbps", defaults.pat_gbps, gbps)?;
        let count = table.or("count", 1, |i| i.integer32(1..=MAX_RACKS))?;
        if uplink_gbps == 0.0 {
            self.warn_alone(&table);
        }
        for _ in 0..count {
            let first = self.servers.len() as u32;
            if self.racks.len() >= MAX_RACKS as usize || servers > MAX_SERVERS - first {
                return Err(item.fault(
                    format!("there are more than {MAX_RACKS} racks or {MAX_SERVERS} servers"),
                    "have fewer",
                ));
            }
            let rack = RackIndex(self.racks.len() as u32);
            let server = Server { rack, gpus, link_gbps };
            self.servers.extend(std::iter::repeat_n(server, servers as usize));
            let servers = first..first + servers;
            self.racks.push(Rack { servers, pod: None, uplink_gbps, pat_gbps });
        }
        Ok(())
    }

    /// Warns of a rack without uplink bandwidth, which no other rack can reach.
    fn warn_alone(&mut self, table: &Table<'_>) {
        let name = table.get("name").and_then(|name| name.string("a").ok());
        let name = name.map_or_else(|| "the rack".to_owned(), |name| format!("rack {name}"));
        let warning = table.place_of("uplink_gbps").fault(
            format!("{name} has no uplink"),
            "only jobs that fit in it can be placed there: give `uplink_gbps` if that is not meant",
        );
        self.warnings.push(warning.to_string());
    }
}

/// Pods of `size` racks each. A pod's uplinks have the bandwidth of its racks' uplinks.
fn pods(racks: &mut [Rack], size: Option<u32>) -> Vec<Pod> {
    let Some(size) = size else { return Vec::new() };
    let mut pods = Vec::new();
    let mut first = 0;
    for pod in racks.chunks_mut(size as usize) {
        let index = PodIndex(pods.len() as u32);
        pod.iter_mut().for_each(|rack| rack.pod = Some(index));
        let end = first + pod.len() as u32;
        let uplink_gbps = pod.iter().map(|rack| rack.uplink_gbps).sum();
        pods.push(Pod { racks: first..end, uplink_gbps });
        first = end;
    }
    pods
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Described {
        parse(text, "c.toml").unwrap_or_else(|error| panic!("{error}"))
    }

    fn fault(text: &str) -> String {
        parse(text, "c.toml").expect_err("a fault").to_string()
    }

    #[test]
    fn an_empty_file_is_netpacks_cluster() {
        let described = read("");
        assert_eq!(described.cluster, Cluster::uniform(&Shape::default()));
        assert_eq!(described.warnings, [""; 0]);
    }

    #[test]
    fn every_key_of_a_shape() {
        let text = "racks = 64\nservers_per_rack = 8\ngpus_per_server = 8\nlink_gbps = 200\n\
                    oversubscription = 2.5\npat_gbps = 0\nracks_per_pod = 8\n";
        let shape = Shape {
            racks: 64,
            servers_per_rack: 8,
            gpus_per_server: 8,
            link_gbps: 200.0,
            oversubscription: 2.5,
            pat_gbps: 0.0,
            racks_per_pod: Some(8),
        };
        assert_eq!(read(text).cluster, Cluster::uniform(&shape));
    }

    #[test]
    fn identical_racks_listed_individually_are_the_same_cluster() {
        let text = "gpus_per_server = 8\noversubscription = 4\nracks_per_pod = 2\n\
                    [[rack]]\nservers = 8\n[[rack]]\nservers = 8\ncount = 4\n";
        let shape = Shape {
            racks: 5,
            servers_per_rack: 8,
            gpus_per_server: 8,
            oversubscription: 4.0,
            racks_per_pod: Some(2),
            ..Shape::default()
        };
        assert_eq!(read(text).cluster, Cluster::uniform(&shape));
    }

    #[test]
    fn racks_may_differ() {
        let text = "[[rack]]\nservers = 2\ngpus = 8\nlink_gbps = 25\npat_gbps = 10\n\
                    [[rack]]\nservers = 1\ngpus = 0\nuplink_gbps = 40\n";
        let cluster = read(text).cluster;
        let link_gbps: Vec<_> = cluster.servers().iter().map(|server| server.link_gbps).collect();
        assert_eq!(link_gbps, [25.0, 25.0, 100.0]);
        assert_eq!((cluster.gpus(), cluster.racks().len()), (16, 2));
        let racks: Vec<_> =
            cluster.racks().iter().map(|rack| (rack.uplink_gbps, rack.pat_gbps)).collect();
        assert_eq!(racks, [(50.0, 10.0), (40.0, 1000.0)]);
    }

    #[test]
    fn a_rack_without_uplink_is_a_warning_with_its_line() {
        let text =
            "[[rack]]\nname = \"a\"\n\n[[rack]]\nname = \"b\"\nservers = 2\nuplink_gbps = 0\n";
        let warnings = read(text).warnings;
        assert_eq!(
            warnings,
            ["c.toml:7:15: rack b has no uplink; only jobs that fit in it can be placed there: \
                 give `uplink_gbps` if that is not meant"]
        );
        assert_eq!(read("[[rack]]\nuplink_gbps = 0\n").warnings, [""; 0], "it is alone anyway");
    }

    #[test]
    fn errors_name_the_position_and_the_fix() {
        for (text, expected) in [
            ("rack = 3", "c.toml:1:8: `rack` is an integer but must be an array"),
            ("racks = 0", "c.toml:1:9: `racks` is 0, out of range; choose a value from 1 to 65536"),
            (
                "rakcs = 2",
                "c.toml:1:1: unknown key `rakcs` in the cluster file; did you mean `racks`",
            ),
            ("\nlink_gbps = -1", "c.toml:2:13: `link_gbps` is -1, out of range"),
            ("link_gbps = \"fast\"", "c.toml:1:13: `link_gbps` is a string but must be a number"),
            ("oversubscription = 0", "c.toml:1:20: `oversubscription` is 0, out of range"),
            ("racks_per_pod = 0", "c.toml:1:17: `racks_per_pod` is 0, out of range"),
            (
                "racks = 65536\nservers_per_rack = 1048576",
                "c.toml:1:9: there are more than 1048576",
            ),
            (
                "[[rack]]\ncount = 65536\nservers = 1000",
                "c.toml:1:1: there are more than 65536 racks",
            ),
            (
                "[[rack]]\nserver = 3",
                "c.toml:2:1: unknown key `server` in [[rack]]; did you mean `servers`",
            ),
            ("racks = 2\n[[rack]]", "c.toml:1:9: `racks` says how many there are"),
            ("racks = ", "c.toml:1:9: "),
        ] {
            let found = fault(text);
            assert!(found.starts_with(expected), "{text:?}: {found}");
            assert_eq!(found.lines().count(), 1, "{found}");
        }
    }

    #[test]
    fn the_examples_match_their_comments() {
        let example = |text: &str| {
            let described = read(text);
            let servers = described.cluster.servers().len();
            (servers, described.cluster.gpus(), described.warnings.len())
        };
        let netpack = include_str!("../../../examples/placement/netpack.toml");
        assert_eq!(read(netpack), read(""));
        assert_eq!(example(netpack), (256, 1024, 0));
        let titan = include_str!("../../../examples/placement/titan.toml");
        assert_eq!(example(titan), (512, 4096, 0));
        assert_eq!(read(titan).cluster.pods().len(), 8);
        let mixed = include_str!("../../../examples/placement/mixed.toml");
        assert_eq!(example(mixed), (34, 16 * 4 + 16 * 8 + 2 * 4, 1));
    }

    #[test]
    fn a_missing_file() {
        let error = load("no/such.toml").unwrap_err().to_string();
        assert!(error.starts_with("no/such.toml: cannot read the cluster file: "), "{error}");
    }
}
