//! A network within this process, in virtual time.

use std::path::Path;

use anyhow::{Context, Result, anyhow};
use tributary_base::FileLimit;
use tributary_p4::Sources;
use tributary_switch::Forwarding;
use tributary_switch::stf::{End, Failure, Network, NetworkTest, Script};

use super::file::{Net, SwitchNode};

/// Hundreds of times the size of a hand-written file.
const SCRIPT: FileLimit = FileLimit::new("file of STF commands", 64 << 20);

/// Compiles all programs, and fills their tables.
///
/// # Errors
/// The first error, with its position.
pub(super) fn build(net: &Net) -> Result<Network> {
    let hosts = net.hosts.iter().map(|host| host.name.clone()).collect();
    let links: Vec<[End; 2]> = net.links.iter().map(|link| link.ends).collect();
    let mut network = Network::new(hosts, &links);
    for switch in &net.switches {
        let entries = switch.entries.as_deref().map(read_script).transpose()?;
        let added = network.add_switch(&switch.name, compile(switch)?, entries.as_ref());
        added.map_err(|failure| placed_failure(switch.entries.as_deref(), &failure))?;
    }
    Ok(network)
}

/// Runs a test.
///
/// # Errors
/// The first expectation that was not met, or another error, with its position.
pub(super) fn test(net: &Net, path: &Path) -> Result<()> {
    let mut network = build(net)?;
    let hosts: Vec<String> = net.hosts.iter().map(|host| host.name.clone()).collect();
    let switches: Vec<String> = net.switches.iter().map(|switch| switch.name.clone()).collect();
    let test = NetworkTest::parse(&text(path)?, &hosts, &switches);
    let test = test.map_err(|error| anyhow!("{}:{error}", path.display()))?;
    let passed = network.run(&test);
    passed.map(drop).map_err(|failure| placed_failure(Some(path), &failure))
}

/// Reads STF commands.
///
/// # Errors
/// With the position, if it is an error of the text.
pub(crate) fn read_script(path: &Path) -> Result<Script> {
    Script::parse(&text(path)?).map_err(|error| anyhow!("{}:{error}", path.display()))
}

fn text(path: &Path) -> Result<String> {
    let bytes = SCRIPT.read(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Compiles and loads a switch's program; reports only its first error.
fn compile(switch: &SwitchNode) -> Result<Forwarding> {
    let file = switch.p4.display().to_string();
    let readable = tributary_p4::SOURCE.open(&switch.p4);
    readable.map(drop).with_context(|| format!("cannot read {file}"))?;
    let defines = tributary_p4::defines(&switch.defines).map_err(anyhow::Error::msg)?;
    let sources = switch.include.iter().fold(Sources::disk(), |all, dir| all.search(dir));
    Forwarding::from_file(&sources, &file, &defines).map_err(anyhow::Error::msg)
}

/// A failure at its position in a file.
pub(crate) fn placed_failure(path: Option<&Path>, failure: &Failure) -> anyhow::Error {
    match path {
        Some(path) => anyhow!(failure.in_file(path.display())),
        None => anyhow!("{failure}"),
    }
}
