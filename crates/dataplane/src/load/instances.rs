//! Extern instances and their state.

use tributary_p4::Architecture;
use tributary_p4::ir::{CtorArg, Extern, ExternId, Program};

use super::Place;
use super::slots::Slots;
use crate::error::LoadError;
use crate::externs::counter::Counter;
use crate::externs::filter::Filter;
use crate::externs::hash::Algorithm;
use crate::externs::meter::{Meter, Meters, Unit};
use crate::externs::profile::{Profile, Selector};
use crate::externs::register::{RegisterShape, Registers};
use crate::externs::value_set::ValueSet;
use crate::store::{Instance, Store};
use crate::tables::Table;

/// Maximum bytes of a program's state, with 8 bytes per register cell: programs also come over
/// P4Runtime. The operating system allocates initially zero memory when it is used.
const LARGEST_STATE: u128 = 1 << 32;

/// Maximum bytes of state written at load time: counters, meters, and registers with a non-zero
/// initial value.
const LARGEST_WRITTEN: u128 = 1 << 28;

/// The instances of a program and their state.
#[derive(Default)]
pub(super) struct Instances {
    pub(super) instances: Vec<Instance>,
    pub(super) registers: Vec<RegisterShape>,
    pub(super) counters: Vec<Counter>,
    pub(super) meters: Vec<Meters>,
    pub(super) filters: Vec<Vec<Filter>>,
    pub(super) profiles: Vec<Profile>,
    pub(super) value_sets: Vec<ValueSet>,
}

impl Instances {
    /// The state of the program with these tables.
    pub(super) fn into_store(self, tables: Vec<Table>) -> Store {
        Store {
            counters: self.counters,
            meters: self.meters,
            filters: self.filters,
            profiles: self.profiles,
            value_sets: self.value_sets,
            ..Store::new(Registers::new(&self.registers), tables)
        }
    }
}

/// Classifies the extern instances.
pub(super) fn instances(
    program: &Program,
    architecture: Architecture,
    slots: &mut Slots,
    at: &Place,
) -> Result<Instances, LoadError> {
    let mut all = Instances::default();
    let (mut bytes, mut written) = (0u128, 0u128);
    for (id, instance) in (0..).map(ExternId).zip(&program.externs) {
        at.set(program.origins.instance(id));
        let new = match (architecture, instance.type_name.as_str()) {
            (Architecture::V1model, "register")
            | (Architecture::Tna | Architecture::Psa, "Register") => {
                let (size, first) = (size(instance)?, all.registers.len() as u32);
                let scalars = &instance.type_args;
                if scalars.is_empty() {
                    return Err(use_error(instance, "its elements have no scalars"));
                }
                for (number, element) in scalars.iter().enumerate() {
                    let limbs = element.limbs() as u128;
                    bytes = bytes.saturating_add(size.saturating_mul(limbs * 8));
                    let initial = initial(instance, number)?;
                    if initial != 0 {
                        written = written.saturating_add(size.saturating_mul(limbs * 8));
                        check_size(instance, written, LARGEST_WRITTEN)?;
                    }
                    all.registers.push(RegisterShape {
                        size: size as u64,
                        width: element.width,
                        initial,
                    });
                }
                Instance::Register { first, scalars: scalars.len() as u32 }
            }
            (Architecture::V1model, "counter")
            | (Architecture::Tna | Architecture::Psa, "Counter") => {
                let size = size(instance)?;
                written = written.saturating_add(size.saturating_mul(16));
                check_size(instance, written, LARGEST_WRITTEN)?;
                all.counters.push(Counter::new(size as usize));
                Instance::Counter(all.counters.len() as u32 - 1)
            }
            (Architecture::V1model, "meter") | (Architecture::Tna | Architecture::Psa, "Meter") => {
                let size = size(instance)?;
                written = written.saturating_add(size.saturating_mul(size_of::<Meter>() as u128));
                check_size(instance, written, LARGEST_WRITTEN)?;
                all.meters.push(Meters::new(unit(instance, 1)?, size as usize));
                Instance::Meter(all.meters.len() as u32 - 1)
            }
            (Architecture::V1model, "direct_meter")
            | (Architecture::Tna | Architecture::Psa, "DirectMeter") => {
                Instance::DirectMeter(unit(instance, 0)?)
            }
            (Architecture::Tna, "Lpf" | "Wred") => {
                let size = size(instance)?;
                written = written.saturating_add(size.saturating_mul(size_of::<Filter>() as u128));
                check_size(instance, written, LARGEST_WRITTEN)?;
                all.filters.push(vec![Filter::default(); size as usize]);
                Instance::Filter(all.filters.len() as u32 - 1)
            }
            (Architecture::Tna, "DirectLpf" | "DirectWred") => Instance::DirectFilter,
            (Architecture::Tna, "DirectRegister") => {
                if instance.type_args.is_empty() {
                    return Err(use_error(instance, "its cell has no scalars"));
                }
                Instance::DirectRegister(instance.type_args.len() as u32)
            }
            // A register of one cell, which the control plane may change.
            (Architecture::Tna, "RegisterParam") => {
                let [element] = instance.type_args.as_slice() else {
                    return Err(use_error(instance, "its type is not a scalar"));
                };
                let first = all.registers.len() as u32;
                let initial = nth_initial(instance, 0)?;
                all.registers.push(RegisterShape { size: 1, width: element.width, initial });
                Instance::Register { first, scalars: 1 }
            }
            (Architecture::Tna, "ActionSelector") => {
                let selector = Selector::tofino(program, instance)?;
                match instance.args.first() {
                    Some(CtorArg::Instance(of)) => {
                        let Some(&Instance::Profile(number)) = all.instances.get(of.index()) else {
                            return Err(use_error(instance, "it selects from no action profile"));
                        };
                        let profile = &mut all.profiles[number as usize];
                        if profile.selector.replace(selector).is_some() {
                            let reason = "its action profile has another selector already";
                            return Err(use_error(instance, reason));
                        }
                        Instance::Profile(number)
                    }
                    _ => {
                        all.profiles.push(Profile::new(size(instance)? as u64, Some(selector)));
                        Instance::Profile(all.profiles.len() as u32 - 1)
                    }
                }
            }
            (Architecture::V1model, "action_profile")
            | (Architecture::Tna | Architecture::Psa, "ActionProfile") => {
                all.profiles.push(Profile::new(size(instance)? as u64, None));
                Instance::Profile(all.profiles.len() as u32 - 1)
            }
            (Architecture::V1model, "action_selector") | (Architecture::Psa, "ActionSelector") => {
                let size = match instance.args.get(1) {
                    Some(CtorArg::Int(size)) => *size as u64,
                    _ => return Err(use_error(instance, "its size is not an integer")),
                };
                all.profiles.push(Profile::new(size, Some(Selector::Plain(algorithm(instance)?))));
                Instance::Profile(all.profiles.len() as u32 - 1)
            }
            (_, "value_set") => {
                let widths = instance.type_args.iter().map(|scalar| scalar.width).collect();
                all.value_sets.push(ValueSet::new(widths, size(instance)? as u64));
                Instance::ValueSet(all.value_sets.len() as u32 - 1)
            }
            (Architecture::V1model, "direct_counter")
            | (Architecture::Tna | Architecture::Psa, "DirectCounter") => Instance::DirectCounter,
            (Architecture::Tna, "Checksum") | (Architecture::Psa, "InternetChecksum") => {
                Instance::Checksum(slots.words(1))
            }
            (Architecture::Psa, "Checksum") => match algorithm(instance)? {
                Algorithm::Csum16 => Instance::Checksum(slots.words(1)),
                algorithm => Instance::Running { digest: slots.words(1), algorithm },
            },
            (
                Architecture::Tna,
                "RegisterAction"
                | "DirectRegisterAction"
                | "Hash"
                | "CRCPolynomial"
                | "Random"
                | "Resubmit"
                | "Mirror"
                | "Digest"
                | "ParserCounter"
                | "ParserPriority"
                | "Alpm"
                | "Atcam",
            )
            | (
                Architecture::Psa,
                "Hash"
                | "Random"
                | "Digest"
                | "PacketReplicationEngine"
                | "BufferingQueueingEngine",
            ) => Instance::Stateless,
            (_, other) => return Err(LoadError::Extern(format!("{other} {}", instance.name))),
        };
        all.instances.push(new);
        check_size(instance, bytes, LARGEST_STATE)?;
    }
    Ok(all)
}

fn check_size(instance: &Extern, bytes: u128, most: u128) -> Result<(), LoadError> {
    if bytes > most {
        let name = instance.name.clone();
        return Err(LoadError::State { name, mebibytes: most >> 20 });
    }
    Ok(())
}

/// The unit of a meter.
fn unit(instance: &Extern, arg: usize) -> Result<Unit, LoadError> {
    match instance.args.get(arg) {
        Some(CtorArg::Symbol(_, member)) if matches!(&**member, "packets" | "PACKETS") => {
            Ok(Unit::Packets)
        }
        Some(CtorArg::Symbol(_, member)) if matches!(&**member, "bytes" | "BYTES") => {
            Ok(Unit::Bytes)
        }
        _ => Err(use_error(instance, "it counts neither packets nor bytes")),
    }
}

/// The algorithm of a selector.
fn algorithm(instance: &Extern) -> Result<Algorithm, LoadError> {
    match instance.args.first() {
        Some(CtorArg::Symbol(_, member)) => Algorithm::from_name(member)
            .ok_or_else(|| use_error(instance, &format!("algorithm `{member}` is not supported"))),
        _ => Err(use_error(instance, "its first argument is not an algorithm")),
    }
}

fn size(instance: &Extern) -> Result<u128, LoadError> {
    match instance.args.first() {
        Some(CtorArg::Int(size)) => Ok(*size),
        _ => Err(use_error(instance, "its size is not an integer")),
    }
}

/// The initial value of a scalar of each cell.
fn initial(instance: &Extern, number: usize) -> Result<u64, LoadError> {
    nth_initial(instance, 1 + number)
}

/// The initial value that an argument gives; zero without one.
pub(super) fn nth_initial(instance: &Extern, at: usize) -> Result<u64, LoadError> {
    match instance.args.get(at) {
        None => Ok(0),
        Some(CtorArg::Int(value)) => u64::try_from(*value)
            .map_err(|_| use_error(instance, "its initial value has more than 64 bits")),
        Some(_) => Err(use_error(instance, "its initial value is not an integer")),
    }
}

fn use_error(instance: &Extern, reason: &str) -> LoadError {
    LoadError::ExternUse { name: instance.name.clone(), reason: reason.to_owned() }
}
