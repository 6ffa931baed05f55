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
    registers: Vec<RegisterShape>,
    counters: Vec<Counter>,
    meters: Vec<Meters>,
    filters: Vec<Vec<Filter>>,
    pub(super) profiles: Vec<Profile>,
    value_sets: Vec<ValueSet>,
    /// Bytes of registers.
    bytes: u128,
    /// Bytes of state written at load time.
    written: u128,
}

/// Classifies the extern instances.
pub(super) fn instances(
    program: &Program,
    architecture: Architecture,
    slots: &mut Slots,
    at: &Place,
) -> Result<Instances, LoadError> {
    let mut all = Instances::default();
    for (id, instance) in (0..).map(ExternId).zip(&program.externs) {
        at.set(program.origins.instance(id));
        let new = all.classify(program, architecture, slots, instance)?;
        all.instances.push(new);
        check_size(instance, all.bytes, LARGEST_STATE)?;
    }
    Ok(all)
}

impl Instances {
    /// The kind of an instance, whose state is added.
    fn classify(
        &mut self,
        program: &Program,
        architecture: Architecture,
        slots: &mut Slots,
        instance: &Extern,
    ) -> Result<Instance, LoadError> {
        Ok(match (architecture, instance.type_name.as_str()) {
            (Architecture::V1model, "register")
            | (Architecture::Tna | Architecture::Psa, "Register") => self.register(instance)?,
            (Architecture::V1model, "counter")
            | (Architecture::Tna | Architecture::Psa, "Counter") => {
                let size = self.write(instance, 16)?;
                self.counters.push(Counter::new(size));
                Instance::Counter(self.counters.len() as u32 - 1)
            }
            (Architecture::V1model, "meter") | (Architecture::Tna | Architecture::Psa, "Meter") => {
                let size = self.write(instance, size_of::<Meter>())?;
                self.meters.push(Meters::new(unit(instance, 1)?, size));
                Instance::Meter(self.meters.len() as u32 - 1)
            }
            (Architecture::V1model, "direct_meter")
            | (Architecture::Tna | Architecture::Psa, "DirectMeter") => {
                Instance::DirectMeter(unit(instance, 0)?)
            }
            (Architecture::Tna, "Lpf" | "Wred") => {
                let size = self.write(instance, size_of::<Filter>())?;
                self.filters.push(vec![Filter::default(); size]);
                Instance::Filter(self.filters.len() as u32 - 1)
            }
            (Architecture::Tna, "DirectLpf" | "DirectWred") => Instance::DirectFilter,
            (Architecture::Tna, "DirectRegister") => {
                if instance.type_args.is_empty() {
                    return Err(use_error(instance, "its cell has no scalars"));
                }
                Instance::DirectRegister(instance.type_args.len() as u32)
            }
            (Architecture::Tna, "RegisterParam") => self.parameter(instance)?,
            (Architecture::Tna, "ActionSelector") => self.tofino_selector(program, instance)?,
            (Architecture::V1model, "action_profile")
            | (Architecture::Tna | Architecture::Psa, "ActionProfile") => {
                self.profile(size(instance)? as u64, None)
            }
            (Architecture::V1model, "action_selector") | (Architecture::Psa, "ActionSelector") => {
                let size = match instance.args.get(1) {
                    Some(CtorArg::Int(size)) => *size as u64,
                    _ => return Err(use_error(instance, "its size is not an integer")),
                };
                self.profile(size, Some(Selector::Plain(algorithm(instance)?)))
            }
            (_, "value_set") => {
                let widths = instance.type_args.iter().map(|scalar| scalar.width).collect();
                self.value_sets.push(ValueSet::new(widths, size(instance)? as u64));
                Instance::ValueSet(self.value_sets.len() as u32 - 1)
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
            (architecture, name) if stateless(architecture).contains(&name) => Instance::Stateless,
            (_, other) => return Err(LoadError::Extern(format!("{other} {}", instance.name))),
        })
    }

    /// Counts the state of an array, all of whose cells are written at load time. Returns its size.
    fn write(&mut self, instance: &Extern, bytes_per_cell: usize) -> Result<usize, LoadError> {
        let size = size(instance)?;
        self.written = self.written.saturating_add(size.saturating_mul(bytes_per_cell as u128));
        check_size(instance, self.written, LARGEST_WRITTEN)?;
        Ok(size as usize)
    }

    fn register(&mut self, instance: &Extern) -> Result<Instance, LoadError> {
        let (size, first) = (size(instance)?, self.registers.len() as u32);
        let scalars = &instance.type_args;
        if scalars.is_empty() {
            return Err(use_error(instance, "its elements have no scalars"));
        }
        for (number, element) in scalars.iter().enumerate() {
            let bytes = size.saturating_mul(element.limbs() as u128 * 8);
            self.bytes = self.bytes.saturating_add(bytes);
            let initial = initial(instance, number)?;
            if initial != 0 {
                self.written = self.written.saturating_add(bytes);
                check_size(instance, self.written, LARGEST_WRITTEN)?;
            }
            let (size, width) = (size as u64, element.width);
            self.registers.push(RegisterShape { size, width, initial });
        }
        Ok(Instance::Register { first, scalars: scalars.len() as u32 })
    }

    /// The parameter of a register action: a register of one cell, which the control plane may change.
    fn parameter(&mut self, instance: &Extern) -> Result<Instance, LoadError> {
        let [element] = instance.type_args.as_slice() else {
            return Err(use_error(instance, "its type is not a scalar"));
        };
        let first = self.registers.len() as u32;
        let initial = nth_initial(instance, 0)?;
        self.registers.push(RegisterShape { size: 1, width: element.width, initial });
        Ok(Instance::Register { first, scalars: 1 })
    }

    fn profile(&mut self, size: u64, selector: Option<Selector>) -> Instance {
        self.profiles.push(Profile::new(size, selector));
        Instance::Profile(self.profiles.len() as u32 - 1)
    }

    /// A selector of TNA: of an action profile, or with its own actions.
    fn tofino_selector(
        &mut self,
        program: &Program,
        instance: &Extern,
    ) -> Result<Instance, LoadError> {
        let selector = Selector::tofino(program, instance)?;
        let Some(CtorArg::Instance(of)) = instance.args.first() else {
            return Ok(self.profile(size(instance)? as u64, Some(selector)));
        };
        let Some(&Instance::Profile(number)) = self.instances.get(of.index()) else {
            return Err(use_error(instance, "it selects from no action profile"));
        };
        let profile = &mut self.profiles[number as usize];
        if profile.selector.replace(selector).is_some() {
            return Err(use_error(instance, "its action profile has another selector already"));
        }
        Ok(Instance::Profile(number))
    }

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

/// Types without state of their own.
fn stateless(architecture: Architecture) -> &'static [&'static str] {
    match architecture {
        Architecture::V1model => &[],
        Architecture::Tna => &[
            "RegisterAction",
            "DirectRegisterAction",
            "MathUnit",
            "Hash",
            "CRCPolynomial",
            "Random",
            "Resubmit",
            "Mirror",
            "Digest",
            "ParserCounter",
            "ParserPriority",
            "Alpm",
            "Atcam",
        ],
        Architecture::Psa => {
            &["Hash", "Random", "Digest", "PacketReplicationEngine", "BufferingQueueingEngine"]
        }
    }
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
