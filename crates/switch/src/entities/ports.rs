//! Ports in messages.

use tributary_dataplane::{Value, psa_port_value};
use tributary_p4::Architecture;

use super::{Refusal, encode};

/// The switch's port with a number of the program, if there is one.
pub(super) type PortOf<'a> = &'a dyn Fn(u64) -> Option<u16>;

/// The watched port of a member, if it watches one.
pub(super) fn watched(
    watch: i32,
    port: &[u8],
    port_of: PortOf<'_>,
) -> Result<Option<u16>, Refusal> {
    let port = match (watch, port) {
        (0, []) => return Ok(None),
        (0, bytes) => Value::from_be_bytes(bytes).to_u64(),
        (number, _) => u64::try_from(number).ok(),
    };
    match port.and_then(port_of) {
        Some(port) => Ok(Some(port)),
        None => Err(Refusal::invalid("it watches a port that this switch has not")),
    }
}

/// A port as a byte string, with its number in programs of an architecture.
pub(super) fn encode_port(architecture: Architecture, port: u16) -> Vec<u8> {
    encode(&Value::from(match architecture {
        Architecture::Psa => psa_port_value(port),
        Architecture::V1model | Architecture::Tna => u64::from(port),
    }))
}
