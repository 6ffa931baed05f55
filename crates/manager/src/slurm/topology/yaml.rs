//! `topology.yaml`, from Slurm 25.05 on: a list of topologies, of which trees are read.

use serde::de::{Deserialize, Deserializer, Error as _};

use super::{TopologyError, TreeSwitch};
use crate::slurm::hostlist;

#[derive(serde::Deserialize)]
struct Topology {
    topology: String,
    #[serde(default, deserialize_with = "yes_or_no")]
    cluster_default: bool,
    tree: Option<Tree>,
}

#[derive(serde::Deserialize)]
struct Tree {
    #[serde(default)]
    switches: Vec<RawSwitch>,
}

#[derive(serde::Deserialize)]
struct RawSwitch {
    switch: String,
    children: Option<String>,
    nodes: Option<String>,
}

/// YAML 1.1, whose words Slurm takes, has more of them than 1.2.
fn yes_or_no<'de, D: Deserializer<'de>>(value: D) -> Result<bool, D::Error> {
    let word = String::deserialize(value)?;
    match word.to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" => Ok(true),
        "false" | "no" | "off" => Ok(false),
        _ => Err(D::Error::custom(format!("`{word}` is neither true nor false"))),
    }
}

/// The switches of the default topology, or of the only tree.
pub(super) fn switches(text: &str) -> Result<Vec<TreeSwitch>, TopologyError> {
    let yaml = |problem: String| TopologyError::Yaml(problem);
    let topologies: Vec<Topology> =
        yaml_serde::from_str(text).map_err(|error| yaml(error.to_string()))?;
    let chosen = match topologies.iter().find(|topology| topology.cluster_default) {
        Some(default) => default,
        None => {
            let mut trees = topologies.iter().filter(|topology| topology.tree.is_some());
            let first = trees.next();
            let first = first.ok_or_else(|| yaml("there is no tree in it; describe one".into()))?;
            if let Some(second) = trees.next() {
                return Err(yaml(format!(
                    "topologies {} and {} are trees; mark one with `cluster_default: true`",
                    first.topology, second.topology
                )));
            }
            first
        }
    };
    let tree = chosen.tree.as_ref().ok_or_else(|| {
        yaml(format!("topology {} is not a tree of switches; describe one", chosen.topology))
    })?;
    let read = |raw: &RawSwitch| {
        let list = |text: &Option<String>| {
            hostlist::expand(text.as_deref().unwrap_or_default())
                .map_err(|error| TopologyError::List { switch: raw.switch.clone(), error })
        };
        let (nodes, children) = (list(&raw.nodes)?, list(&raw.children)?);
        Ok(TreeSwitch { name: raw.switch.clone(), nodes, children })
    };
    tree.switches.iter().map(read).collect()
}
