//! Handles `--switch`, `--target` and related arguments.

use std::io::IsTerminal as _;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tributary_access::ClientKeys;
use tributary_access::args::encrypts;
use tributary_controller::client::{SwitchConfig, Target};
use tributary_controller::ports::PortMap;
use tributary_controller::programs::Source;
use tributary_controller::targets::{self, Built, Given, Kind};
use tributary_controller::{Error, programs};
use tributary_embedded::program;
use tributary_model::Scenario;

use crate::options::SwitchesArgs;

/// The pipeline of the switches.
///
/// # Errors
/// If it cannot be compiled or read, or the target does not accept it.
pub(crate) fn build(scenario: &Scenario, args: &SwitchesArgs) -> Result<Built> {
    let source = match &args.p4 {
        Some(path) => Source::file(path)?,
        None => program::built_in(scenario)?,
    };
    let given = Given { bundle: args.bundle.clone(), p4info: args.p4info.clone() };
    let defines = programs::defines(&scenario.network.switch);
    match targets::build(args.target, &source, &defines, &given) {
        Err(Error::Compile(diagnostics)) => {
            eprint!("{diagnostics}");
            bail!("{} has errors", source.main)
        }
        other => {
            let built = other?;
            program::must_speak(scenario, &built.origin, &built.pipeline.p4info)?;
            Ok(built)
        }
    }
}

/// The switches for which a job file is read.
pub(crate) fn read_for(target: Kind) -> tributary_model::jobfile::Switches {
    tributary_model::jobfile::Switches { bmv2: target == Kind::Bmv2, tna: false }
}

/// The port numbers of the switches.
///
/// # Errors
/// If the port map is invalid.
pub(crate) fn ports(scenario: &Scenario, args: &SwitchesArgs) -> Result<PortMap> {
    match &args.ports {
        Some(path) => Ok(PortMap::read(path, &scenario.network.topology)?),
        None => Ok(PortMap::default()),
    }
}

/// Parses `NAME=ADDR` for each switch of the scenario, in its order.
///
/// # Errors
/// If a switch has no address, or the name is unknown.
pub(crate) fn switches(scenario: &Scenario, args: &SwitchesArgs) -> Result<Vec<SwitchConfig>> {
    let topology = &scenario.network.topology;
    let mut addresses = vec![None; topology.switches.len()];
    for text in &args.switches {
        let parsed = text.split_once('=');
        let (name, address) =
            parsed.with_context(|| format!("--switch {text}: write NAME=ADDRESS"))?;
        let id = topology.switch_named(name);
        let id = id.with_context(|| format!("--switch {text}: the file has no such switch"))?;
        if addresses[id.0].replace(address).is_some() {
            bail!("--switch {text}: switch {name} has an address already");
        }
    }
    let timeout = Duration::from_secs(args.timeout);
    let keys = if any_encrypted(args) { keys(args)? } else { None };
    let config = |(index, address): (usize, Option<&str>)| {
        let name = &topology.switches[index].name;
        let address = address.with_context(|| {
            format!("switch {name} has no address; say where it is with --switch {name}=HOST:PORT")
        })?;
        Ok(SwitchConfig {
            keys: keys.clone(),
            device_id: args.device_id,
            election_id: args.election_id.into(),
            request_timeout: timeout,
            patience: timeout,
            ..SwitchConfig::new(name, Target::Address(address.into()))
        })
    };
    addresses.into_iter().enumerate().map(config).collect()
}

/// Whether standard error is a terminal.
pub(crate) fn is_watched() -> bool {
    std::io::stderr().is_terminal()
}

/// What we trust, and our certificate.
pub(crate) fn keys(args: &SwitchesArgs) -> Result<Option<Arc<ClientKeys>>> {
    args.identity.client_keys(args.server_name.as_deref())
}

/// Whether some switch is at an address whose connections are encrypted if there is an identity.
pub(crate) fn any_encrypted(args: &SwitchesArgs) -> bool {
    let address = |switch: &String| switch.split_once('=').is_none_or(|(_, at)| encrypts(at));
    args.switches.iter().any(address)
}
