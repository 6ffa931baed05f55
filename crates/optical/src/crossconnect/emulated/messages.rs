//! Circuits in gRPC messages.

use tributary_api::crossconnect::v1;

use tributary_model::circuits::{Circuits, Port};

/// The circuits of a message.
pub(super) fn read(circuits: &[v1::Circuit]) -> Result<Circuits, String> {
    let port = |number: u32| match u16::try_from(number) {
        Ok(port) => Ok(Port(port)),
        Err(_) => Err(format!("port {number} is more than 65535")),
    };
    let mut read = Circuits::DARK;
    for circuit in circuits {
        read.join(port(circuit.a)?, port(circuit.b)?).map_err(|reason| reason.to_string())?;
    }
    Ok(read)
}

/// The circuits as a message.
pub(super) fn write(circuits: &Circuits) -> Vec<v1::Circuit> {
    circuits.pairs().map(|(a, b)| v1::Circuit { a: a.0.into(), b: b.0.into() }).collect()
}
