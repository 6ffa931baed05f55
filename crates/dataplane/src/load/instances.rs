//! Extern instances: what they are and what state they need.

use tributary_p4::Architecture;
use tributary_p4::ir::{CtorArg, Extern, Program};

use super::slots::Slots;
use crate::code::Slot;
use crate::error::LoadError;
use crate::externs::register::RegisterShape;

/// Most bytes that the registers or a counter of a program may take.
const LARGEST_STATE: u128 = 1 << 33;

/// What an extern instance is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Instance {
    /// Neighbouring registers, one for each scalar of a cell.
    Register {
        /// The first one's index into the registers.
        first: u32,
        /// Scalars of a cell.
        scalars: u32,
    },
    /// Index into the counters.
    Counter(u32),
    /// Counts at the entries of the table it is attached to.
    DirectCounter,
    /// A one's complement sum, in a slot.
    Checksum(Slot),
    /// Has no state: what it does is at its calls.
    Stateless,
}

impl Instance {
    pub(crate) fn is_direct_counter(self) -> bool {
        self == Self::DirectCounter
    }
}

/// The instances of a program, the shapes of its registers, the sizes of its counters.
pub(super) struct Instances {
    pub(super) instances: Vec<Instance>,
    pub(super) registers: Vec<RegisterShape>,
    pub(super) counters: Vec<usize>,
}

/// Sorts out the extern instances.
pub(super) fn instances(
    program: &Program,
    architecture: Architecture,
    slots: &mut Slots,
) -> Result<Instances, LoadError> {
    let mut all = Instances { instances: Vec::new(), registers: Vec::new(), counters: Vec::new() };
    let mut bytes = 0u128;
    for instance in &program.externs {
        let new = match (architecture, instance.type_name.as_str()) {
            (Architecture::V1model, "register") | (Architecture::Tna, "Register") => {
                let (size, first) = (size(instance)?, all.registers.len() as u32);
                // v1model has no registers of structs.
                let scalars = match architecture {
                    Architecture::V1model => &instance.type_args[..instance.type_args.len().min(1)],
                    Architecture::Tna => &instance.type_args[..],
                };
                if scalars.is_empty() {
                    return Err(use_error(instance, "the type of its elements is not a scalar"));
                }
                for (number, element) in scalars.iter().enumerate() {
                    let limbs = element.limbs() as u128;
                    bytes = bytes.saturating_add(size.saturating_mul(limbs * 8));
                    let initial = initial(instance, number)?;
                    all.registers.push(RegisterShape {
                        size: size as u64,
                        width: element.width,
                        initial,
                    });
                }
                Instance::Register { first, scalars: scalars.len() as u32 }
            }
            (Architecture::V1model, "counter") | (Architecture::Tna, "Counter") => {
                let size = size(instance)?;
                bytes = bytes.saturating_add(size.saturating_mul(16));
                all.counters.push(size as usize);
                Instance::Counter(all.counters.len() as u32 - 1)
            }
            (Architecture::V1model, "direct_counter") | (Architecture::Tna, "DirectCounter") => {
                Instance::DirectCounter
            }
            (Architecture::Tna, "Checksum") => Instance::Checksum(slots.words(1)),
            (
                Architecture::Tna,
                "RegisterAction" | "Hash" | "CRCPolynomial" | "Random" | "Resubmit" | "Mirror"
                | "Digest",
            ) => Instance::Stateless,
            (_, other) => return Err(LoadError::Extern(format!("{other} {}", instance.name))),
        };
        all.instances.push(new);
        if bytes > LARGEST_STATE {
            return Err(LoadError::Limit(format!("the size of `{}`", instance.name)));
        }
    }
    Ok(all)
}

fn size(instance: &Extern) -> Result<u128, LoadError> {
    match instance.args.first() {
        Some(CtorArg::Int(size)) => Ok(*size),
        _ => Err(use_error(instance, "its size is not an integer")),
    }
}

/// The value that a scalar of each cell starts with.
fn initial(instance: &Extern, number: usize) -> Result<u64, LoadError> {
    match instance.args.get(1 + number) {
        None => Ok(0),
        Some(CtorArg::Int(value)) => u64::try_from(*value)
            .map_err(|_| use_error(instance, "its initial value has more than 64 bits")),
        Some(_) => Err(use_error(instance, "its initial value is not an integer")),
    }
}

fn use_error(instance: &Extern, reason: &str) -> LoadError {
    LoadError::ExternUse { name: instance.name.clone(), reason: reason.to_owned() }
}
