//! `topology.conf`: `SwitchName=s1 Nodes=n[1-2]`, `SwitchName=top Switches=s[1-2]`.

use super::{TopologyError, TreeSwitch};
use crate::slurm::hostlist;

/// The switches of the file, in its order.
pub(super) fn switches(text: &str) -> Result<Vec<TreeSwitch>, TopologyError> {
    let mut switches = Vec::new();
    for (line, text) in lines(text) {
        let bad = |problem: String| TopologyError::Line { line, problem };
        let mut switch = TreeSwitch::default();
        for word in text.split_whitespace() {
            let (key, value) = word.split_once('=').ok_or_else(|| {
                bad(format!("`{word}` is not a key with a value: write KEY=VALUE"))
            })?;
            let list = || hostlist::expand(value).map_err(|error| bad(format!("{key}: {error}")));
            match key.to_ascii_lowercase().as_str() {
                "switchname" => value.clone_into(&mut switch.name),
                "nodes" => switch.nodes = list()?,
                "switches" => switch.children = list()?,
                // Slurm does not use it either.
                "linkspeed" => {}
                "blockname" | "blocksizes" => {
                    return Err(bad("a block topology has no switches; describe a tree".into()));
                }
                _ => {
                    return Err(bad(format!(
                        "`{key}` is unknown; there are SwitchName, Nodes, Switches and LinkSpeed"
                    )));
                }
            }
        }
        if switch.name.is_empty() {
            return Err(bad("the switch has no name; add SwitchName=NAME".into()));
        }
        switches.push(switch);
    }
    Ok(switches)
}

/// The lines with content, without comments, each with the number of its first line. A backslash
/// at the end continues a line.
fn lines(text: &str) -> Vec<(usize, String)> {
    let mut lines: Vec<(usize, String)> = Vec::new();
    let mut continues = false;
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.split('#').next().unwrap_or_default().trim_end();
        let (line, goes_on) = match line.strip_suffix('\\') {
            Some(line) => (line, true),
            None => (line, false),
        };
        match lines.last_mut().filter(|_| continues) {
            Some((_, last)) => {
                last.push(' ');
                last.push_str(line);
            }
            None => lines.push((number, line.to_owned())),
        }
        continues = goes_on;
    }
    lines.retain(|(_, line)| !line.trim().is_empty());
    lines
}
