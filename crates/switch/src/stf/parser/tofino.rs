//! Commands for what the driver of a Tofino configures, and for messages to the controller.

use crate::{Application, PORT_METADATA_BYTES, Trigger};

use super::commands::{bytes, place_of, plain, port};
use super::{Operands, Result};
use crate::stf::script::{DriverCommand, Filter, Statement};

/// All of these commands.
pub(super) const NAMES: [&str; 13] = [
    "expect_digest",
    "port_metadata",
    "exclusion",
    "loopback",
    "deflect_on_drop",
    "link_down",
    "link_up",
    "pktgen_once",
    "pktgen_every",
    "pktgen_port_down",
    "pktgen_recirculated",
    "lpf_set",
    "wred_set",
];

pub(super) fn statement(command: &str, operands: &mut Operands<'_>) -> Result<Statement> {
    Ok(Statement::Driver(match command {
        "expect_digest" => return expect_digest(operands),
        "lpf_set" | "wred_set" => return filter(command, operands),
        "port_metadata" => port_metadata(operands)?,
        "exclusion" => {
            let id = operands.small("an exclusion id")?;
            DriverCommand::Exclusion { id, ports: ports(operands)? }
        }
        "loopback" => {
            let mut all = vec![port(operands)?];
            all.extend(ports(operands)?);
            DriverCommand::Loopback { ports: all }
        }
        "deflect_on_drop" => DriverCommand::Deflection { port: port(operands)? },
        "link_down" => DriverCommand::Link { port: port(operands)?, up: false },
        "link_up" => DriverCommand::Link { port: port(operands)?, up: true },
        _ => DriverCommand::Generate(application(command, operands)?),
    }))
}

/// All operands that follow.
fn ports(operands: &mut Operands<'_>) -> Result<Vec<u16>> {
    let mut ports = Vec::new();
    while operands.peek().is_some() {
        ports.push(port(operands)?);
    }
    Ok(ports)
}

fn port_metadata(operands: &mut Operands<'_>) -> Result<DriverCommand> {
    let port = port(operands)?;
    let place = operands.place();
    let given = bytes(operands, "the port's metadata")?;
    if given.len() > PORT_METADATA_BYTES {
        return Err(place.error(format!(
            "a port has {PORT_METADATA_BYTES} bytes of metadata, not {}",
            given.len()
        )));
    }
    let mut metadata = [0; PORT_METADATA_BYTES];
    metadata[..given.len()].copy_from_slice(&given);
    Ok(DriverCommand::PortMetadata { port, metadata })
}

fn application(command: &str, operands: &mut Operands<'_>) -> Result<Application> {
    let id = operands.small("the number of an application")?;
    let trigger = match command {
        "pktgen_once" => Trigger::Once(operands.small("microseconds")?),
        "pktgen_every" => Trigger::Every(operands.small("microseconds")?),
        "pktgen_port_down" => Trigger::PortDown,
        _ => Trigger::Recirculated {
            value: operands.small("a pattern of four bytes")?,
            mask: operands.small("a mask of four bytes")?,
        },
    };
    Ok(Application {
        id,
        trigger,
        batches: operands.small("a number of batches")?,
        packets: operands.small("a number of packets")?,
        packet: bytes(operands, "the packet")?,
        ..Application::default()
    })
}

fn expect_digest(operands: &mut Operands<'_>) -> Result<Statement> {
    let digest = operands.name("the name of a digest")?;
    let mut values = Vec::new();
    while operands.peek().is_some() {
        let place = operands.place();
        values.push(plain(operands.number("a value")?, place.error("a value has no `*`"))?);
    }
    Ok(Statement::ExpectDigest { digest, values })
}

fn filter(command: &str, operands: &mut Operands<'_>) -> Result<Statement> {
    let filter = operands.name("the name of a filter")?;
    let at = place_of(operands)?;
    let nanoseconds = "a time constant in nanoseconds";
    let config = if command == "wred_set" {
        Filter::Drop {
            time_constant_ns: operands.small(nanoseconds)?,
            min: operands.small("a lower bound")?,
            max: operands.small("an upper bound")?,
            percent: operands.small("a probability in percent")?,
        }
    } else {
        let place = operands.place();
        match operands.word("`average` or `rate`")?.to_ascii_lowercase().as_str() {
            "average" => Filter::Average {
                gain_ns: operands.small(nanoseconds)?,
                decay_ns: operands.small(nanoseconds)?,
                scale_down: operands.small("a number of bits")?,
            },
            "rate" => Filter::Rate {
                decay_ns: operands.small(nanoseconds)?,
                scale_down: operands.small("a number of bits")?,
            },
            other => {
                return Err(place.error(format!("expected `average` or `rate`, found `{other}`")));
            }
        }
    };
    Ok(Statement::Filter { filter, at, config })
}
