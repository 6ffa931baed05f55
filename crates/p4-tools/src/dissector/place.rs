//! Which packets a dissector is for.

use std::collections::BTreeSet;
use std::fmt;

use tributary_p4::ir::{
    ExprKind, FieldId, FieldRole, Keyset, Parser, Program, State, Stmt, Target, Transition,
};

/// The packets that a dissector takes from Wireshark.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Place {
    /// All Ethernet frames, instead of Wireshark's own dissectors.
    Frames,
    /// Payloads of these UDP ports.
    Udp(Vec<u16>),
    /// Payloads of an EtherType.
    EtherType(u16),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Frames => f.write_str("whole Ethernet frames"),
            Self::Udp(ports) => {
                let ports: Vec<_> = ports.iter().map(u16::to_string).collect();
                write!(f, "UDP port {}", ports.join(", "))
            }
            Self::EtherType(number) => write!(f, "EtherType {number:#06x}"),
        }
    }
}

impl Place {
    /// The place where a program's own headers begin: the UDP ports at which its parser goes on to more
    /// headers; whole frames if there are none.
    pub(crate) fn of(program: &Program, parser: &Parser) -> Self {
        let mut ports = BTreeSet::new();
        for state in &parser.states {
            let Transition::Select { on, cases } = &state.transition else { continue };
            let is_port = |value: &ExprKind| matches!(value, ExprKind::Field(field) if is_udp_port(program, *field));
            let Some(key) = on.iter().position(|value| is_port(&value.kind)) else { continue };
            for (keysets, target) in cases {
                if let Some(Keyset::Value(port)) = keysets.get(key)
                    && let Some(port) = port.first().and_then(|port| u16::try_from(*port).ok())
                    && extracts(parser, *target)
                {
                    ports.insert(port);
                }
            }
        }
        match ports.is_empty() {
            true => Self::Frames,
            false => Self::Udp(ports.into_iter().collect()),
        }
    }

    /// The statements that register the dissector.
    pub(crate) fn register(&self) -> String {
        match self {
            Self::Frames => "\ndissect_frames()\n".into(),
            Self::Udp(ports) => {
                let ports: Vec<_> = ports.iter().map(u16::to_string).collect();
                format!(
                    "\ndissect_payloads(\"udp.length\", \"udp.port\", {{ {} }})\n",
                    ports.join(", ")
                )
            }
            Self::EtherType(number) => {
                format!("\ndissect_payloads(\"eth.type\", \"ethertype\", {{ {number:#06x} }})\n")
            }
        }
    }
}

/// Whether a field is the destination port in a header with UDP's layout: four times 16 bits.
fn is_udp_port(program: &Program, field: FieldId) -> bool {
    let FieldRole::Header(header) = program.fields[field.index()].role else { return false };
    let fields = &program.headers[header.index()].fields;
    let wide = |field: &FieldId| program.fields[field.index()].ty.width == 16;
    fields.len() == 4 && fields.iter().all(wide) && fields[1] == field
}

/// Whether a header is extracted in a state, or in one that follows without a condition.
fn extracts(parser: &Parser, target: Target) -> bool {
    let mut target = target;
    // A chain of states that is longer than their number is a loop.
    for _ in 0..parser.states.len() {
        let Target::State(id) = target else { return false };
        let State { body, transition, .. } = &parser.states[id.index()];
        if body.iter().any(|stmt| matches!(stmt, Stmt::Extract { .. })) {
            return true;
        }
        match transition {
            Transition::To(next) => target = *next,
            Transition::Select { .. } => return false,
        }
    }
    false
}
